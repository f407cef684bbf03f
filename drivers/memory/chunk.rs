// SPDX-License-Identifier: GPL-2.0
//! The chunks of one GPU and who owns them.
//!
//! The lists and the moves between states are `huvm_policy::chunk`; here are the memory for them, the owners, and the
//! lock. A chunk in flight is a token ([`FreeChunk`], [`EvictingChunk`]) that its holder must use up. Every operation
//! is O(1) under the lock, and owners are dropped outside it.

use super::block::Block;
use super::offer::{Offer, Stock, Terms};
use super::{reserve, PageIndex, PageMask};
use crate::device::Gpu;
use core::ops::{Deref, DerefMut};
use huvm_policy::chunk::{
    ChunkEntry, ChunkLists, ChunkState, ChunkTable, EvictingChunk, FairVictim, FreeChunk, Reclaim,
};
use huvm_policy::evict::VictimOrder;
use huvm_policy::refault::{EvictConfig, Left, Refaults};
use huvm_policy::share::{Stakes, CLIENTS};
use huvm_policy::spare::{LendConfig, SPARE_GPUS_MAX};
use huvm_policy::types::ChunkId;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex, MutexGuard};

/// Who has a chunk.
struct Owner {
    block: Arc<Block>,
    /// For a lent chunk, the GPU that borrows it.
    borrower: Option<u8>,
    /// For one that is not lent, the subcontext that has it.
    veid: Option<u8>,
}

struct Inner {
    entries: KVVec<ChunkEntry>,
    lists: ChunkLists,
    owners: KVVec<Option<Owner>>,
    /// Pages of each chunk that were said to have failed, and the chunks that have any.
    failed: KVVec<PageMask>,
    suspects: KVVec<ChunkId>,
    /// Chunks lent, by borrower: as many as `owners` says.
    lent_to: [u32; SPARE_GPUS_MAX],
    /// Chunks in use by subcontext, as many as `owners` says, and shares.
    stakes: Stakes,
    picks: u64,
    /// How victims are chosen, as last asked for.
    evict: EvictConfig,
    /// Whether what is evicted comes back.
    refaults: Refaults,
    /// Nothing is lent any more, nor put to use.
    closed: bool,
}

impl Inner {
    fn table(&mut self) -> ChunkTable<'_> {
        ChunkTable::new(&mut self.entries, &mut self.lists)
    }

    /// Gives a chunk to somebody; the one who had it is returned, to be dropped outside the lock.
    fn set_owner(&mut self, id: ChunkId, owner: Option<Owner>) -> Option<Owner> {
        let Some(slot) = self.owners.get_mut(id.as_usize()) else {
            return owner;
        };
        let old = core::mem::replace(slot, owner);
        let new = slot.as_ref().and_then(|o| o.borrower);
        if let Some(n) = new.and_then(|b| self.lent_to.get_mut(usize::from(b))) {
            *n = n.saturating_add(1);
        }
        let was = old.as_ref().and_then(|o| o.borrower);
        if let Some(n) = was.and_then(|b| self.lent_to.get_mut(usize::from(b))) {
            *n = n.saturating_sub(1);
        }
        if let Some(veid) = slot.as_ref().and_then(|o| o.veid) {
            self.stakes.comes(veid);
        }
        if let Some(veid) = old.as_ref().and_then(|o| o.veid) {
            self.stakes.goes(veid);
        }
        old
    }

    /// Chunks that can be used.
    fn usable(&mut self) -> u32 {
        let table = self.table();
        let out = table
            .count(ChunkState::Unusable)
            .saturating_add(table.count(ChunkState::Retired));
        table.len().saturating_sub(out)
    }

    /// Whether a block has the chunk.
    fn is_owned(&self, id: ChunkId) -> bool {
        self.owners.get(id.as_usize()).is_some_and(Option::is_some)
    }

    /// The block that has a chunk.
    fn block(&self, id: ChunkId) -> Option<Arc<Block>> {
        let owner = self.owners.get(id.as_usize())?.as_ref()?;
        Some(owner.block.clone())
    }

    /// Chunks lent now, with those that are being taken back.
    fn lent(&self) -> u32 {
        self.lent_to.iter().fold(0, |n, m| n.saturating_add(*m))
    }

    /// Takes the next victim; if it is to be `fair`, past those who keep theirs when room is made for `by`.
    fn choose(&mut self, order: VictimOrder, by: Option<u8>, fair: bool) -> Option<FairVictim> {
        let (seed, owners, stakes) = (self.picks, &self.owners, &self.stakes);
        let keeps = |id: ChunkId| {
            let owner = owners.get(id.as_usize()).and_then(Option::as_ref);
            let veid = owner.and_then(|o| o.veid).filter(|_| fair);
            veid.is_some_and(|v| stakes.keeps(v, by))
        };
        ChunkTable::new(&mut self.entries, &mut self.lists).take_fair_victim(order, seed, keeps)
    }

    /// Takes a chunk that somebody has.
    fn claim(&mut self, id: ChunkId) -> Option<Victim> {
        let chunk = self.table().evict_chunk(id).ok()?;
        let owner = self.block(id);
        Some(Victim {
            chunk,
            owner,
            recent: false,
            passed: 0,
        })
    }
}

/// The chunks of one GPU.
#[pin_data]
pub(crate) struct ChunkPool {
    count: u32,
    /// Blocks with a [`Departure`] from here.
    away: Atomic<u32>,
    /// Pages were said to have failed; and some, of which nobody knows which.
    told: Atomic<bool>,
    missed: Atomic<bool>,
    offer: Offer,
    /// In memory of its own: whoever makes a pool, or a GPU with one, has a small stack.
    #[pin]
    inner: Mutex<KBox<Inner>>,
}

/// The chunks, locked. What there is then is told to those who look without the lock.
struct Locked<'a> {
    inner: MutexGuard<'a, KBox<Inner>>,
    offer: &'a Offer,
}

impl Deref for Locked<'_> {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let table = self.inner.table();
        self.offer.tell(Stock {
            free: table.count(ChunkState::Free),
            only: table.count(ChunkState::LentOnly),
            removable: table.count(ChunkState::LentRemovable),
        });
    }
}

/// A victim and the block that has it.
pub(crate) struct Victim {
    pub(crate) chunk: EvictingChunk,
    pub(crate) owner: Option<Arc<Block>>,
    /// It was chosen as a recent one.
    pub(crate) recent: bool,
    /// So many were passed over for their owners' shares.
    pub(crate) passed: u32,
}

/// A block was evicted from a GPU and is not back: which eviction that was. The block keeps it; the GPU counts them.
pub(crate) struct Departure {
    gpu: Arc<Gpu>,
    left: Left,
}

impl Departure {
    /// A block was evicted from `chunk` of `gpu`.
    pub(crate) fn of(gpu: &Arc<Gpu>, chunk: ChunkId) -> Self {
        let pool = gpu.chunks();
        pool.away.add(1, Relaxed);
        let mut inner = pool.lock();
        let left = Left {
            number: inner.refaults.evicted(),
            reuse: inner.table().reuse(chunk),
        };
        drop(inner);
        Departure {
            gpu: gpu.clone(),
            left,
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        self.gpu.chunks().away.add(u32::MAX, Relaxed);
    }
}

/// What became of a chunk whose memory failed.
pub(crate) struct Condemned {
    /// Nobody knew before.
    pub(crate) is_new: bool,
    /// To be emptied by the caller.
    pub(crate) victim: Option<Victim>,
}

/// What became of a chunk that its block let go.
#[derive(PartialEq, Eq)]
pub(crate) enum Released {
    /// It is on the free list.
    Free,
    /// Somebody is evicting it, will find the block without it, and has it then; or gives it up, and it is free.
    Taken,
}

impl ChunkPool {
    /// A pool over `vram_bytes` of memory, but for what the driver keeps ([`reserve`]); all free.
    ///
    /// # Errors
    /// `ENOMEM`, `EINVAL` without a whole chunk.
    #[inline(never)]
    pub(crate) fn new(vram_bytes: u64) -> Result<impl PinInit<Self, Error>> {
        let count = u32::try_from(reserve::chunks(vram_bytes)).map_err(|_| EINVAL)?;
        if count == 0 {
            return Err(EINVAL);
        }
        // CAST: u32 to usize widens.
        let n = count as usize;
        let mut entries = KVVec::with_capacity(n, GFP_KERNEL)?;
        let mut owners = KVVec::with_capacity(n, GFP_KERNEL)?;
        let mut failed = KVVec::with_capacity(n, GFP_KERNEL)?;
        let suspects = KVVec::with_capacity(n, GFP_KERNEL)?;
        for _ in 0..n {
            entries.push(ChunkEntry::new(), GFP_KERNEL)?;
            owners.push(None, GFP_KERNEL)?;
            failed.push(PageMask::EMPTY, GFP_KERNEL)?;
        }
        let inner = Inner {
            entries,
            lists: ChunkLists::new(),
            owners,
            failed,
            suspects,
            lent_to: [0; SPARE_GPUS_MAX],
            stakes: Stakes::new(),
            picks: 0,
            evict: EvictConfig::LRM,
            refaults: Refaults::new(),
            closed: false,
        };
        let mut inner = KBox::new(inner, GFP_KERNEL)?;
        inner.table().format();
        let offer = Offer::new(count);
        Ok(try_pin_init!(Self {
            count,
            away: Atomic::new(0),
            told: Atomic::new(false),
            missed: Atomic::new(false),
            offer,
            inner <- new_mutex!(inner, "huvm_chunks"),
        }))
    }

    fn lock(&self) -> Locked<'_> {
        Locked {
            inner: self.inner.lock(),
            offer: &self.offer,
        }
    }

    /// What there is to lend.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Says on which terms the GPU lends, after so many changes of policies. Whoever reads [`Offer::is_bare`] from then on knows.
    pub(crate) fn agree(&self, after: u64, terms: &Terms) {
        // What is told as the lock is let go of is on these terms.
        let _locked = self.lock();
        self.offer.agree(after, terms);
    }

    /// Chunks of this GPU.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Takes a free chunk.
    pub(crate) fn take_free(&self) -> Option<FreeChunk> {
        self.lock().table().take_free()
    }

    /// Gives an unused chunk back.
    pub(crate) fn give_back(&self, chunk: FreeChunk) {
        // The token proves the state, so the move cannot fail.
        if let Err((token, e)) = chunk.give_back(&mut self.lock().table()) {
            pr_err!("BUG: chunk {:?} not given back: {:?}\n", token, e);
        }
    }

    /// Takes the next victim off the lists, to make room for subcontext `by`, or nobody in particular; `fair`: of those who have more than
    /// their share first. Where these cannot be emptied others have to go, or nothing would. What `config` says of the order is kept to
    /// until the next call.
    pub(crate) fn take_victim(
        &self,
        config: &EvictConfig,
        by: Option<u8>,
        fair: bool,
    ) -> Option<Victim> {
        let mut inner = self.lock();
        inner.picks = inner.picks.wrapping_add(1);
        inner.evict = *config;
        let Inner {
            entries,
            lists,
            refaults,
            ..
        } = &mut *inner;
        let order = refaults.steer(&mut ChunkTable::new(entries, lists), config);
        let FairVictim {
            chunk,
            recent,
            passed,
        } = inner.choose(order, by, fair)?;
        let owner = inner.block(chunk.id());
        Some(Victim {
            chunk,
            owner,
            recent,
            passed,
        })
    }

    /// What the shares of the subcontexts are now; 0: none.
    pub(crate) fn divide(&self, shares: &[u32; CLIENTS]) {
        self.lock().stakes.divide(shares);
    }

    /// The share of a subcontext, if it has one.
    pub(crate) fn share_of(&self, veid: u8) -> Option<u32> {
        self.lock().stakes.share(veid)
    }

    /// Puts a chunk to use for `owner`, a block of subcontext `veid`, as the most recently migrated one. `left`: the block was evicted
    /// from here; `by_fault`: a GPU waits for it. Says too whether that was not long ago.
    ///
    /// # Errors
    /// `EAGAIN` if its memory failed: take another one. `EIO` if the GPU leaves: nobody would bring home what comes now.
    pub(crate) fn activate(
        &self,
        chunk: FreeChunk,
        owner: Arc<Block>,
        veid: u8,
        left: Option<Departure>,
        by_fault: bool,
    ) -> Result<(ChunkId, bool)> {
        let mut inner = self.lock();
        if inner.table().is_condemned(chunk.id()) {
            // Its memory failed while the caller had it in hand: it is retired.
            let _retired = chunk.give_back(&mut inner.table());
            return Err(EAGAIN);
        }
        if inner.closed {
            let _free = chunk.give_back(&mut inner.table());
            return Err(EIO);
        }
        match chunk.activate(&mut inner.table()) {
            Ok(id) => {
                let owner = Owner {
                    block: owner,
                    borrower: None,
                    veid: Some(veid),
                };
                let _none = inner.set_owner(id, Some(owner));
                let config = inner.evict;
                let left = left.as_ref().map(|d| d.left);
                let back = inner.refaults.brought_in(left, by_fault, &config);
                // Cannot fail: the chunk is there.
                let _told = back.tell(&mut inner.table(), id);
                Ok((id, back.is_refault))
            }
            Err((token, e)) => {
                pr_err!("BUG: chunk {:?} not activated: {:?}\n", token, e);
                Err(EIO)
            }
        }
    }

    /// Lends a free chunk to GPU `borrower`, for `block`. Nothing is in it yet; `copied`: whatever will be is on the host too.
    /// `None`: `config` lends none of what is free now, or the GPU lends no more.
    pub(crate) fn lend(
        &self,
        block: Arc<Block>,
        borrower: u8,
        copied: bool,
        config: &LendConfig,
    ) -> Option<ChunkId> {
        let mut inner = self.lock();
        // With those that are in somebody's hands: they may stay lent.
        let lent = inner.lent();
        let free = inner.table().count(ChunkState::Free);
        if config.lendable(free, lent) == 0 || inner.closed {
            return None;
        }
        let chunk = inner.table().take_free()?;
        match chunk.lend(&mut inner.table(), copied) {
            Ok(id) => {
                let owner = Owner {
                    block,
                    borrower: Some(borrower),
                    veid: None,
                };
                let _none = inner.set_owner(id, Some(owner));
                Some(id)
            }
            Err((token, e)) => {
                pr_err!("BUG: chunk {:?} not lent: {:?}\n", token, e);
                None
            }
        }
    }

    /// Whether nothing is taken in any more. What is may come behind the answer: [`Self::activate`] looks again.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Lends no more, and takes nothing in: the GPU leaves. What was put to use before can be found, and brought home.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// The host has (`copied`), or has not, all that is in a lent chunk. No-op for one that is being reclaimed.
    pub(crate) fn set_removable(&self, id: ChunkId, copied: bool) {
        let _reclaimed = self.lock().table().set_removable(id, copied);
    }

    /// Takes a lent chunk back: the oldest that the host has a copy of, else the oldest.
    pub(crate) fn take_lent(&self) -> Option<Victim> {
        let mut inner = self.lock();
        let id = match inner.table().pick_reclaim()? {
            Reclaim::Removable(id) | Reclaim::Only(id) => id,
            // Copies are marked in the block, not in the table, so there is no such chunk.
            Reclaim::Draining(_) | Reclaim::WritingBack(_) => return None,
        };
        inner.claim(id)
    }

    /// Takes the oldest lent chunk that the host has a copy of.
    pub(crate) fn take_removable(&self) -> Option<Victim> {
        let mut inner = self.lock();
        let Some(Reclaim::Removable(id)) = inner.table().pick_reclaim() else {
            return None;
        };
        inner.claim(id)
    }

    /// The lent chunk to write back next and the block that has it; it goes to the end of the line.
    pub(crate) fn next_write_back(&self) -> Option<(ChunkId, Arc<Block>)> {
        let mut inner = self.lock();
        let id = inner.table().pick_write_back()?;
        inner.table().set_removable(id, false).ok()?;
        let owner = inner.block(id)?;
        Some((id, owner))
    }

    /// The victim is empty and goes to the evictor.
    ///
    /// # Errors
    /// `EAGAIN` if its memory failed: it is retired.
    pub(crate) fn hand_over(&self, chunk: EvictingChunk) -> Result<FreeChunk> {
        let (old, free) = {
            let mut inner = self.lock();
            let id = chunk.id();
            let is_condemned = inner.table().is_condemned(id);
            let did = chunk
                .hand_over(&mut inner.table())
                .map_err(|(t, e)| (t.id(), e))
                .and_then(|free| {
                    if !is_condemned {
                        return Ok(Some(free));
                    }
                    let back = free.give_back(&mut inner.table());
                    back.map(|()| None).map_err(|(t, e)| (t.id(), e))
                });
            match did {
                Ok(free) => (inner.set_owner(id, None), free.ok_or(EAGAIN)),
                Err((id, e)) => {
                    pr_err!("BUG: chunk {:?} not handed over: {:?}\n", id, e);
                    (None, Err(EIO))
                }
            }
        };
        drop(old);
        free
    }

    /// Whether the memory of a chunk failed.
    pub(crate) fn is_condemned(&self, id: ChunkId) -> bool {
        self.lock().table().is_condemned(id)
    }

    /// The memory of a chunk failed. It is never put to use again; from whom has it, it is for the caller to take. `None`: there is
    /// no such chunk.
    pub(crate) fn condemn(&self, id: ChunkId) -> Option<Condemned> {
        let mut inner = self.lock();
        let is_new = inner.table().condemn(id).ok()?;
        // In somebody's hands, or in nobody's: then there is nothing to take.
        let victim = inner.claim(id);
        Some(Condemned { is_new, victim })
    }

    /// A page of chunk `id` is said to have failed: what is copied there is not to be relied on. A copy engine that reads it says so for
    /// itself ([`crate::channel::poison`]); but the CPU, which may copy in its place, would not notice.
    pub(crate) fn note_failed(&self, id: ChunkId, page: PageIndex) {
        let mut inner = self.lock();
        let Some(pages) = inner.failed.get_mut(id.as_usize()) else {
            return;
        };
        let is_first = pages.is_empty();
        pages.set(page);
        self.told.store(true, Relaxed);
        if is_first {
            // There is room for each chunk once.
            let _has_room = inner.suspects.push_within_capacity(id);
        }
    }

    /// Pages of chunk `id` that were said to have failed.
    pub(crate) fn failed(&self, id: ChunkId) -> PageMask {
        if !self.told.load(Relaxed) {
            return PageMask::EMPTY;
        }
        let inner = self.lock();
        let failed = inner.failed.get(id.as_usize()).copied();
        failed.unwrap_or(PageMask::EMPTY)
    }

    /// The `at`-th chunk of which a page was said to have failed, in the order of the first of each, and a page of it.
    pub(crate) fn suspect(&self, at: usize) -> Option<(ChunkId, PageIndex)> {
        if !self.told.load(Relaxed) {
            return None;
        }
        let inner = self.lock();
        let id = *inner.suspects.get(at)?;
        let page = inner.failed.get(id.as_usize())?.iter().next()?;
        Some((id, page))
    }

    /// A page failed, and nobody knows which.
    pub(crate) fn note_missed(&self) {
        self.missed.store(true, Relaxed);
    }

    /// Whether one did.
    pub(crate) fn has_missed(&self) -> bool {
        self.missed.load(Relaxed)
    }

    /// Somebody may write chunk `id` at any time, whoever has it: it is not put to use again. Whether nobody knew.
    pub(crate) fn forfeit(&self, id: ChunkId) -> bool {
        self.lock().table().condemn(id).unwrap_or(false)
    }

    /// GPU `borrower` may write what it has borrowed, whoever has it: none of that is put to use again. How many chunks that are, of
    /// which nobody knew; `None` if it has borrowed nothing. Looks at every chunk.
    pub(crate) fn condemn_lent(&self, borrower: u8) -> Option<u32> {
        let mut inner = self.lock();
        let mut news = None;
        for id in (0..self.count).map(ChunkId) {
            let owner = inner.owners.get(id.as_usize()).and_then(Option::as_ref);
            if owner.is_some_and(|o| o.borrower == Some(borrower)) {
                let is_new = inner.table().condemn(id).unwrap_or(false);
                news = Some(news.unwrap_or(0u32).saturating_add(is_new.into()));
            }
        }
        news
    }

    /// The victim stays where it was; one that its block let go of meanwhile is free.
    pub(crate) fn abort(&self, chunk: EvictingChunk) {
        let mut inner = self.lock();
        let is_owned = inner.is_owned(chunk.id());
        let mut table = inner.table();
        let did = if is_owned {
            chunk.abort(&mut table).map_err(|(t, e)| (t.id(), e))
        } else {
            match chunk.hand_over(&mut table) {
                Ok(free) => free.give_back(&mut table).map_err(|(t, e)| (t.id(), e)),
                Err((t, e)) => Err((t.id(), e)),
            }
        };
        if let Err((id, e)) = did {
            pr_err!("BUG: chunk {:?} not put back: {:?}\n", id, e);
        }
    }

    /// A block lets go of its chunk. The caller holds the block's lock and has forgotten the chunk. One that was handed over meanwhile is
    /// no block's any more.
    pub(crate) fn release(&self, id: ChunkId) -> Released {
        let mut inner = self.lock();
        if !inner.is_owned(id) {
            return Released::Taken;
        }
        let what = match inner.table().free(id) {
            Ok(()) => Released::Free,
            Err(_) => Released::Taken,
        };
        // Whoever took it finds it without an owner, if it gives it up before it finds the block without it.
        let old = inner.set_owner(id, None);
        drop(inner);
        drop(old);
        what
    }

    /// A migration touched the chunk: it goes to the end of the order. No-op for one that is being evicted.
    pub(crate) fn touch(&self, id: ChunkId) {
        let _evicting = self.lock().table().touch(id);
    }

    /// Blocks that were evicted and are not back, how many have come back so far, and whether most do at once.
    pub(crate) fn away(&self) -> (u32, u64, bool) {
        let inner = self.lock();
        let (returned, near) = (inner.refaults.returned(), inner.refaults.is_near());
        (self.away.load(Relaxed), returned, near)
    }

    /// Chunks in a state.
    pub(crate) fn in_state(&self, state: ChunkState) -> u32 {
        self.lock().table().count(state)
    }

    /// Chunks by state, read at once.
    pub(crate) fn counts(&self, states: &[ChunkState], out: &mut [u32]) {
        let mut inner = self.lock();
        let table = inner.table();
        for (s, o) in states.iter().zip(out) {
            *o = table.count(*s);
        }
    }

    /// Chunks that somebody has in hand to empty them, and whether there are any in these `states`, read at once: one that is put back is
    /// seen there.
    pub(crate) fn evicting_and(&self, states: &[ChunkState]) -> (u32, bool) {
        let mut inner = self.lock();
        let table = inner.table();
        let any = states.iter().any(|s| table.count(*s) != 0);
        (table.count(ChunkState::Evicting), any)
    }

    /// Chunks that can be used.
    pub(crate) fn usable(&self) -> u32 {
        self.lock().usable()
    }

    /// Chunks lent now, by borrower. One that is being taken back counts until its block has let go of it.
    pub(crate) fn lent_to(&self) -> [u32; SPARE_GPUS_MAX] {
        self.lock().lent_to
    }

    /// All of them.
    pub(crate) fn lent(&self) -> u32 {
        self.lock().lent()
    }

    /// Up to `max` used chunks in eviction order, next victim first: (chunk, block address, process).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn next_victims(&self, out: &mut KVec<(u32, u64, u32)>, max: usize) -> Result {
        out.reserve(max, GFP_KERNEL)?;
        let mut inner = self.lock();
        let inner = &mut *inner;
        let table = ChunkTable::new(&mut inner.entries, &mut inner.lists);
        for id in table.iter(ChunkState::Used).take(max) {
            let owner = inner.owners.get(id.as_usize()).and_then(|o| o.as_ref());
            let (va, pid) = owner.map_or((0, 0), |o| (o.block.va(), o.block.space().pid()));
            if out.push_within_capacity((id.0, va, pid)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// For tests: takes a free chunk out of use for good.
    pub(crate) fn retire(&self, chunk: FreeChunk) {
        let mut inner = self.lock();
        let id = chunk.keep_pinned();
        if let Err(e) = inner.table().retire(id) {
            pr_err!("BUG: chunk {:?} not retired: {:?}\n", id, e);
        }
    }

    /// For tests: puts retired chunks back to use until `want` are not retired.
    pub(crate) fn unretire(&self, want: u32) {
        let mut inner = self.lock();
        for i in 0..self.count {
            if inner.usable() >= want {
                break;
            }
            // Fails for chunks in use; those are not retired.
            let _in_use = inner.table().make_usable(ChunkId(i));
        }
    }
}
