// SPDX-License-Identifier: GPL-2.0
//! Harvesting: neighbour GPUs' idle memory as a victim cache (HUVM, ATC'22, section 4).
//!
//! A chunk that a GPU evicts goes to a free chunk of a neighbour, over the fast link between them, and comes back over it
//! when it is wanted. The block alone knows the chunk ([`Spare`]); the lender knows the block, and takes the chunk back
//! when its own jobs need memory:
//!
//! - A thread of each lending GPU copies lent chunks to the host over that GPU's own link ([`write_back`]). A chunk that
//!   the host has too is *removable*.
//! - [`reclaim`] takes a removable chunk without a copy, else the oldest, which is then copied out first.
//!
//! What is true of a chunk stands in its block, under the block's lock: which pages are valid in it, and which the host
//! has. The state in the lender's table (LentOnly, LentRemovable) follows and only chooses who is next, so every
//! interleaving of evict, fetch, write back, reclaim and exit comes down to the order of turns at one lock.
//!
//! Secrecy: the lender's processes get the chunk from the lender's free list, and a page of it is mapped for them only when
//! it was overwritten or zeroed, as for every chunk.

use super::evict::Room;
use super::migrate;
use super::pool::{self, Need};
use super::teardown::Leaving;
use crate::account::latency::Kind as Latency;
use crate::account::{self, counters::Counter, events, policy};
use crate::channel::{Engine, Tracker};
use crate::device::{peer, registry, Gpu};
use crate::kernel::ffi::uapi;
use crate::kernel::{thread, time};
use crate::memory::block::{Block, Inflight, Others, Spare, State};
use crate::memory::chunk::Victim;
use crate::memory::offer::{Stock, Terms};
use crate::memory::{PageMask, Place, BLOCK_BYTES, PAGE_BYTES};
use huvm_hal::ext::stats;
use huvm_lockless::dated::Dated;
use huvm_policy::chunk::{ChunkState, EvictingChunk};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::pace::Pace;
use huvm_policy::spare::{
    self, LendConfig, SpareFacts, SpareFrom, SpareReplace, SpareRequest, SpareSelect, SpareUse,
    SPARE_GPUS_MAX,
};
use huvm_policy::types::{ChunkId, GpuId};
use kernel::prelude::*;
use kernel::sync::Arc;

/// What an eviction finds in the memory of neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The block has a chunk there that can be copied to.
    Chunk,
    /// None is free, but one that the host has a copy of could make way: [`replace`].
    Removable,
    Nothing,
}

/// Sees to it that the block has a chunk in a neighbour's memory that `gpu` can copy to, if there is one. `copied`: the host keeps what
/// will be in it.
#[inline(never)] // stack
pub(super) fn find_spare(
    s: &mut State,
    block: &Arc<Block>,
    gpu: &Arc<Gpu>,
    copied: bool,
    p: &Policy,
) -> Found {
    if let Some(spare) = s.spare.as_ref() {
        let reaches = !spare.gpu.is_lost() && gpu.peer_id(spare.gpu.index()).is_some();
        return if reaches && !spare.is_condemned() && takes_in(spare) {
            Found::Chunk
        } else {
            Found::Nothing
        };
    }
    let mut found = Found::Nothing;
    let _got = choose(gpu, p, &mut |lender, from| match from {
        SpareFrom::Free => {
            let cause = uapi::HUVM_CAUSE_EVICTION;
            let lent = lend(s, block, gpu.index(), lender, copied, cause);
            if lent {
                found = Found::Chunk;
            }
            Some(lent)
        }
        // Another block's, whose lock is not taken under this one.
        SpareFrom::Removable => {
            found = Found::Removable;
            None
        }
    });
    found
}

/// Sees to it that a lender has a free chunk for an eviction of `gpu`, when none has: one that the host has a copy of makes
/// way. The caller holds no block. Whether there is one now.
#[inline(never)] // stack
pub(super) fn replace(gpu: &Arc<Gpu>, p: &Policy) -> bool {
    choose(gpu, p, &mut |lender, from| match from {
        SpareFrom::Free => Some(true),
        SpareFrom::Removable => Some(make_way(&lender)),
    })
}

/// Asks the lenders to `gpu`, by policy, until `take` succeeds (`true`) or says that there is no use in going on (`None`).
#[inline(never)] // stack
fn choose(
    gpu: &Arc<Gpu>,
    p: &Policy,
    take: &mut dyn FnMut(Arc<Gpu>, SpareFrom) -> Option<bool>,
) -> bool {
    let Some(borrower) = GpuId::new(gpu.index()) else {
        return false;
    };
    let request = SpareRequest {
        borrower,
        purpose: SpareUse::Evict,
        min_mb_per_s: gpu.host_mbps().saturating_add(1),
        select: SpareSelect::of(p),
    };
    let mut facts = [SpareFacts::default(); SPARE_GPUS_MAX];
    let there = look_around(gpu, p, &mut facts);
    let (facts, _) = facts.split_at_mut(there.min(SPARE_GPUS_MAX));
    if !facts.iter().any(SpareFacts::has_room) {
        return false;
    }
    // A row may be stale; then it is struck out, and the next one asked.
    for _ in 0..2 * SPARE_GPUS_MAX {
        let chosen = gpu.spare_cursor(|c| c.choose(facts, &request));
        let Some(spare::Spare { gpu: id, from }) = chosen else {
            return false;
        };
        match registry::gpu(id.get().into()).map_or(Some(false), |lender| take(lender, from)) {
            Some(true) => return true,
            Some(false) => {}
            None => return false,
        }
        if let Some(f) = facts.get_mut(id.as_usize()) {
            match from {
                SpareFrom::Free => f.free = f.keep,
                SpareFrom::Removable => f.removable = 0,
            }
        }
    }
    false
}

/// Lent chunks looked at for one that can make way. Those with a copy in flight cannot, and are few.
const LOOKED_AT: usize = 4;

/// Frees a lent chunk of `lender` that the host has a copy of, without a copy and without waiting. Whether there was one.
#[inline(never)] // stack
pub(super) fn make_way(lender: &Arc<Gpu>) -> bool {
    let pool = lender.chunks();
    for _ in 0..LOOKED_AT {
        let Some(Victim { chunk, owner, .. }) = pool.take_removable() else {
            return false;
        };
        let Some(block) = owner else {
            pool.abort(chunk);
            continue;
        };
        if is_dropped(lender, &block, chunk.id()) {
            let Ok(free) = pool.hand_over(chunk) else {
                return false;
            };
            pool.give_back(free);
            account::count(Some(lender), None, Counter::SpareReplaced, 1);
            return true;
        }
        // It goes to the end of the line.
        leave(lender, &block, chunk);
    }
    false
}

/// A chunk of `lender` stays with its block after all. What the block had to tell of it while it was being taken, nobody heard.
pub(super) fn leave(lender: &Arc<Gpu>, block: &Block, chunk: EvictingChunk) {
    let id = chunk.id();
    lender.chunks().abort(chunk);
    let mut s = block.lock();
    if s.spare.as_ref().is_some_and(|s| s.is(lender, id)) {
        s.tell_lender(true);
    }
}

/// Drops what a block keeps in chunk `id` of `gpu`, if nothing is there alone and no copy is in flight.
#[inline(never)] // stack
fn is_dropped(gpu: &Arc<Gpu>, block: &Block, id: ChunkId) -> bool {
    let Some(mut s) = block.try_settled() else {
        return false;
    };
    let only = match s.spare.as_ref() {
        Some(spare) if spare.is(gpu, id) => spare.valid.and_not(&s.stays_beside(Place::Spare)),
        // The block let go of it in the meantime.
        _ => return true,
    };
    if only.is_empty() {
        s.spare = None;
    }
    only.is_empty()
}

/// Gives the block, which has none, a chunk in spare memory of `lender`, on behalf of GPU `borrower`. `copied`: the host
/// keeps what will be in it. `cause`: why the pages move there (`HUVM_CAUSE_*`).
#[inline(never)] // stack
pub(super) fn lend(
    s: &mut State,
    block: &Arc<Block>,
    borrower: u8,
    lender: Arc<Gpu>,
    copied: bool,
    cause: u32,
) -> bool {
    // Whoever chose it looked without a lock; the pool looks once more.
    let config = lend_config(&lender);
    if !takes_more(&lender, &config.pace) {
        return false;
    }
    let lent = lender
        .chunks()
        .lend(block.clone(), borrower, copied, &config);
    let Some(chunk) = lent else {
        return false;
    };
    account::count(Some(&lender), None, Counter::ChunksLent, 1);
    tell(
        &lender,
        block,
        uapi::HUVM_EVENT_LEND,
        cause,
        borrower.into(),
        chunk.0.into(),
    );
    if !copied {
        lender.lend.ring();
    }
    s.spare = Some(Spare::new(lender, chunk, copied));
    true
}

/// An event of a lender, about a block that it keeps: what, and why.
#[inline(never)] // stack
fn tell(lender: &Gpu, block: &Block, kind: u32, cause: u32, arg0: u64, arg1: u64) {
    events::emit(
        Some(block.space()),
        &events::Event {
            kind,
            cause,
            gpu: u32::from(lender.index()),
            va: block.va(),
            length: BLOCK_BYTES,
            arg0,
            arg1,
        },
    );
}

/// The time, and the nanoseconds between two chunks that come in at a lender's pace now; `None`: it takes what comes, as one does
/// that does not work for itself. Between two launches it is as full as it was.
fn paced(lender: &Gpu, pace: &Pace) -> Option<(u64, u64)> {
    let offer = lender.chunks().offer();
    let works = lender.launches().are_there();
    if pace.is_none() || !(works || offer.was_full()) {
        return None;
    }
    let (now, mb_per_s) = (time::now_ns(), lender.vram_mbps());
    let full = offer.is_full(now, mb_per_s, || stats::work_local_kib(lender));
    Some((now, pace.interval_ns(works, full, mb_per_s))).filter(|(_, ns)| *ns != 0)
}

/// Whether a lender's pace lets more in now.
fn takes_more(lender: &Gpu, pace: &Pace) -> bool {
    let offer = lender.chunks().offer();
    paced(lender, pace).is_none_or(|(now, ns)| offer.take_turn(now, ns))
}

/// Whether more may come in to a chunk that is lent already, which takes as much from the lender's jobs.
pub(super) fn takes_in(spare: &Spare) -> bool {
    takes_more(&spare.gpu, &terms(&spare.gpu).pace)
}

/// What a GPU lends, and keeps.
pub(crate) fn lend_config(lender: &Gpu) -> LendConfig {
    lends_by(&policy::of_gpu(lender), lender)
}

/// The same where `p` is in force.
fn lends_by(p: &Policy, lender: &Gpu) -> LendConfig {
    LendConfig::of(p, lender.chunks().usable())
}

/// The terms on which a GPU lends.
fn terms(lender: &Gpu) -> Terms {
    let after = policy::changes();
    let pool = lender.chunks();
    pool.offer().terms(after).unwrap_or_else(|| {
        let (p, is_now) = policy::of_gpu_now(lender);
        let now = Terms::of(&lends_by(&p, lender));
        if is_now {
            pool.agree(after, &now);
        }
        now
    })
}

/// GPUs whose policy is to lend, by the count of changes of policies: a bitmap.
static LENDERS: Dated = Dated::new();

/// All GPUs as lenders to `gpu`, where `p` is in force, into `facts`; how many of those there are. Without a lock of theirs, but after
/// a change of a policy; without any where nobody lends.
#[inline(never)] // stack
pub(super) fn look_around(
    gpu: &Gpu,
    p: &Policy,
    facts: &mut [SpareFacts; SPARE_GPUS_MAX],
) -> usize {
    if !p.is_on(KnobId::HarvestBorrow) {
        return 0;
    }
    let after = policy::changes();
    let known = LENDERS.get(after);
    let own = 1u64.checked_shl(gpu.index().into()).unwrap_or(0);
    let others = known.unwrap_or(u64::MAX) & !own;
    if others == 0 {
        return 0;
    }
    let (mut unknown, mut lend) = (false, 0u64);
    let there = registry::look(known.map_or(u64::MAX, |_| others), |i, lender| {
        let offer = lender.chunks().offer();
        let is_bare = offer.is_bare(after);
        if is_bare && known.is_some() {
            return;
        }
        let terms = offer.terms(after);
        unknown |= terms.is_none();
        lend |= u64::from(terms.is_some_and(|t| t.enabled)) << i;
        let row = terms
            .filter(|_| !is_bare)
            .and_then(|t| seen(gpu, lender, &t, p));
        if let (Some(f), Some(row)) = (facts.get_mut(i), row) {
            *f = row;
        }
    });
    if unknown {
        for (i, f) in (0u32..).zip(facts.iter_mut()) {
            *f = ask(gpu, i, p).map_or(SpareFacts::default(), |(_, facts)| facts);
        }
    } else if known.is_none() {
        LENDERS.put(after, lend);
    }
    there
}

/// GPU `i` as a lender to `gpu`, where `p` is in force. `None`: it is none.
pub(super) fn ask(gpu: &Gpu, i: u32, p: &Policy) -> Option<(Arc<Gpu>, SpareFacts)> {
    let lender = registry::gpu(i)?;
    let facts = seen(gpu, &lender, &terms(&lender), p)?;
    Some((lender, facts))
}

/// What `lender`, on these terms, is to `gpu`. Takes no lock.
fn seen(gpu: &Gpu, lender: &Gpu, terms: &Terms, p: &Policy) -> Option<SpareFacts> {
    // Every road to spare memory looks here: who does not borrow has no lenders, for what passes through either.
    if !p.is_on(KnobId::HarvestBorrow) || !terms.enabled || lender.is_lost() {
        return None;
    }
    let link = gpu.link_to(lender.index())?;
    let offer = lender.chunks().offer();
    if paced(lender, &terms.pace).is_some_and(|(now, ns)| offer.is_too_soon(now, ns)) {
        return None;
    }
    let stock = offer.stock();
    Some(SpareFacts {
        lends: true,
        free: stock.free,
        keep: terms.keep,
        removable: if SpareReplace::of(p).is_on() {
            stock.removable
        } else {
            0
        },
        lent: stock.only.saturating_add(stock.removable),
        limit: terms.limit,
        link,
    })
}

/// Takes one lent chunk of `gpu` back, and in hand; `None` if none is lent. `in_fault`: a GPU waits for it.
#[inline(never)] // stack
pub(super) fn reclaim(gpu: &Arc<Gpu>, in_fault: bool, room: &mut Room) -> Option<Result> {
    let Victim { chunk, owner, .. } = gpu.chunks().take_lent()?;
    let started = time::now_ns();
    let Some(block) = owner else {
        gpu.chunks().abort(chunk);
        return Some(Err(EAGAIN));
    };
    let mut after = Tracker::EMPTY;
    let did = match take_back(gpu, &block, chunk.id(), &mut after) {
        Ok(copied) => {
            let took = time::now_ns().saturating_sub(started);
            for (counter, n) in [
                (Counter::Reclaims, 1),
                (Counter::ReclaimsCopied, u64::from(copied)),
                (Counter::ReclaimsInFault, u64::from(in_fault)),
                (Counter::ReclaimNs, took),
            ] {
                account::count(Some(gpu), None, counter, n);
            }
            gpu.latencies().add(Latency::Reclaim, took);
            events::emit(
                None,
                &events::Event {
                    kind: uapi::HUVM_EVENT_RECLAIM,
                    cause: uapi::HUVM_CAUSE_EVICTION,
                    gpu: u32::from(gpu.index()),
                    va: 0,
                    length: BLOCK_BYTES,
                    arg0: u64::from(copied),
                    arg1: took,
                },
            );
            let free = gpu.chunks().hand_over(chunk);
            free.map(|free| room.hold(gpu, free, &after))
        }
        Err(e) => {
            leave(gpu, &block, chunk);
            Err(e)
        }
    };
    Some(did)
}

/// Takes chunk `id` of `gpu` from the block that borrowed it. Returns whether there is a copy out of it; `after`, empty so far, is what
/// ends that.
#[inline(never)] // stack
pub(super) fn take_back(
    gpu: &Arc<Gpu>,
    block: &Arc<Block>,
    id: ChunkId,
    after: &mut Tracker,
) -> Result<bool> {
    let mut s = block.settled();
    let copy = match s.spare.as_ref() {
        Some(spare) if spare.is(gpu, id) => spare.valid.and_not(&s.stays_beside(Place::Spare)),
        // The block let go of it in the meantime.
        _ => return Ok(false),
    };
    if !copy.is_empty() {
        start_write_back(block, &mut s, &copy, after, Need::Owner)?;
        migrate::report(block, &s, Place::Host, uapi::HUVM_CAUSE_EVICTION, &copy);
    }
    s.spare = None;
    Ok(!copy.is_empty())
}

/// Starts the copy of `pages` from spare memory to the host, and records it in the block.
#[inline(never)] // stack
fn start_write_back(
    block: &Arc<Block>,
    s: &mut State,
    pages: &PageMask,
    tracker: &mut Tracker,
    need: Need<'_>,
) -> Result {
    let (lender, id) = {
        let spare = s.spare.as_ref().ok_or(EIO)?;
        (spare.gpu.clone(), spare.chunk)
    };
    let p = policy::in_force(block.space(), Some(&lender));
    pool::host_memory(&lender, block.space(), s, pages, &p, need)?;
    block.begin_sending();
    // From there: another copy, if there is one, may have failed.
    let from = (&*lender, id);
    let did = migrate::submit_chunk_to_host(block, &mut s.host, from, pages, tracker);
    s.sends(|| Inflight {
        tracker: *tracker,
        pages: if did.is_ok() { *pages } else { PageMask::EMPTY },
        dst: Place::Host,
        others: Others::Stay,
        given: Some((lender, id)),
        skipped: did.unwrap_or(PageMask::EMPTY),
        overtaken: None,
    });
    did.map(drop)
}

/// Lent chunks under write-back at once, at most (range of the knob `write_back_in_flight_chunks`).
const WRITE_BACKS_MAX: usize = 64;
/// The lending thread looks at its policy and its links this often without being rung for.
const LOOK_NS: u64 = 100_000_000;

/// A write-back: when it began, its pages, the chunk, whose it is.
type Started = (u64, u32, ChunkId, Arc<Block>);

/// The thread of a GPU that looks after what it lends: writes it back, and takes it back when its owner lends less, or no more.
pub(crate) struct Lend {
    /// What is under way: since when, ns, and how many pages.
    started: KVec<Started>,
}

impl Lend {
    /// Allocates what it needs.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Lend {
            started: KVec::with_capacity(WRITE_BACKS_MAX, GFP_KERNEL)?,
        })
    }

    /// Serves until it is asked to stop.
    pub(crate) fn serve(&mut self, gpu: &Arc<Gpu>) {
        let (mut looked, mut more) = (0, false);
        while gpu.lend.listen(LOOK_NS) {
            if gpu.is_lost() {
                continue;
            }
            let now = time::now_ns();
            let looks = now.saturating_sub(looked) >= LOOK_NS;
            if looks {
                looked = now;
                peer::refresh(gpu);
            }
            let config = lend_config(gpu);
            // What is lent is counted at a look alone: it is rung for each chunk that comes in.
            if looks || more || !config.enabled {
                more = take_home(gpu, &config);
            }
            if more {
                // First it looks again.
                gpu.lend.ring();
            }
            if !config.enabled || !config.write_back {
                continue;
            }
            if looks {
                // Streams stand still or end: what they were to come for is not left for good.
                let in_order = LendConfig {
                    write_back_skip: 0,
                    ..config
                };
                write_back(gpu, &in_order, &mut self.started);
            }
            while !thread::should_stop() && write_back(gpu, &config, &mut self.started) != 0 {
                if time::now_ns().saturating_sub(looked) >= LOOK_NS {
                    // There is more, but first it looks again.
                    gpu.lend.ring();
                    break;
                }
            }
        }
    }
}

/// Chunks looked at, or taken home, in one go, at most: more than what a few streams come to soon.
const GO_MAX: u32 = 128;

/// Takes back what `gpu` has lent beyond what `config` allows, which is all of it where it lends no more. One that cannot come home now
/// is tried again at the next look. Whether there is more to take.
#[inline(never)] // stack
fn take_home(gpu: &Arc<Gpu>, config: &LendConfig) -> bool {
    let most = if config.enabled { config.limit } else { 0 };
    for _ in 0..GO_MAX {
        if gpu.chunks().lent() <= most || thread::should_stop() {
            return false;
        }
        // A room that is dropped waits for its copy and frees the chunk.
        if reclaim(gpu, false, &mut Room::empty()) != Some(Ok(())) {
            return false;
        }
    }
    true
}

/// Copies lent chunks of `gpu` to the host, as many at once as `config` says, and waits for them. Returns how many were started.
#[inline(never)] // stack
fn write_back(gpu: &Arc<Gpu>, config: &LendConfig, started: &mut KVec<Started>) -> usize {
    let max = usize::try_from(config.write_back_max).unwrap_or(1);
    started.clear();
    let mut refused = 0;
    // Once around: what is left for later is at the end of the line.
    for _ in 0..gpu.chunks().in_state(ChunkState::LentOnly).min(GO_MAX) {
        // The CPU copies nothing ahead of need.
        if started.len() >= max.min(started.capacity())
            || !gpu.channels().works(Engine::DeviceToHost)
        {
            break;
        }
        let Some((id, block)) = gpu.chunks().next_write_back() else {
            break;
        };
        let Stock {
            free,
            only,
            removable,
        } = gpu.chunks().offer().stock();
        let steps = config.skips(free, only, removable);
        // A fetch would wait for the copy, and leave nothing that it was made for.
        if steps != 0 && block.space().streams.come_to(&block, steps) {
            account::count(Some(gpu), None, Counter::WriteBacksLater, 1);
            continue;
        }
        let mut s = block.settled();
        let copy = match s.spare.as_ref() {
            Some(spare) if spare.is(gpu, id) => spare.valid.and_not(&s.host_valid),
            _ => continue,
        };
        let mut tracker = Tracker::EMPTY;
        let began = time::now_ns();
        if copy.is_empty() {
            // The host has it all; the lender's table hears of it now.
            s.tell_lender(true);
            continue;
        }
        let did = start_write_back(&block, &mut s, &copy, &mut tracker, Need::Ahead);
        drop(s);
        match did {
            Ok(()) => {}
            // It is the limit of one client, and the next chunk may be another's.
            Err(e) if e == ENOMEM && refused < pool::REFUSED_MAX && pool::is_limited(&block) => {
                refused += 1;
                continue;
            }
            Err(_) => break,
        }
        let pages = copy.count().get();
        if started
            .push_within_capacity((began, pages, id, block))
            .is_err()
        {
            break;
        }
    }
    for (began, pages, id, block) in started.iter() {
        // Publishes the copy, which makes the chunk removable: if it came home, and nobody has fetched the block from there meanwhile.
        let is_home = {
            let s = block.settled();
            let spare = s.spare.as_ref().filter(|spare| spare.is(gpu, *id));
            spare.is_some_and(|spare| spare.valid.and_not(&s.host_valid).is_empty())
        };
        if !is_home {
            continue;
        }
        account::count(Some(gpu), None, Counter::WriteBacks, 1);
        let took = time::now_ns().saturating_sub(*began);
        gpu.latencies().add(Latency::WriteBack, took);
        let bytes = u64::from(*pages) * PAGE_BYTES;
        let (kind, cause) = (uapi::HUVM_EVENT_WRITE_BACK, uapi::HUVM_CAUSE_EVICTION);
        tell(gpu, block, kind, cause, bytes, took);
    }
    let n = started.len();
    started.clear();
    n
}

/// Brings everything that `gpu` lends home, or, when it is lost, gives it up. For a GPU that leaves.
pub(crate) fn recall(gpu: &Arc<Gpu>) {
    let pool = gpu.chunks();
    pool.close();
    let leaving = Leaving::new(gpu);
    for _ in 0..pool.count().saturating_mul(2) {
        let Some(Victim { chunk, owner, .. }) = pool.take_lent() else {
            if leaving.may_find_more(&[ChunkState::LentOnly, ChunkState::LentRemovable]) {
                continue;
            }
            break;
        };
        if let Some(block) = owner {
            let home = || take_back(gpu, &block, chunk.id(), &mut { Tracker::EMPTY });
            if gpu.is_lost() || leaving.insist(home).is_err() {
                give_up(gpu, &block, chunk.id());
            }
            // The copy out of it is over before the chunk is anybody's.
            drop(block.settled());
        }
        if let Ok(free) = pool.hand_over(chunk) {
            pool.give_back(free);
        }
    }
}

/// Drops what a block keeps in a GPU that is gone. Pages that were there alone are lost.
fn give_up(gpu: &Arc<Gpu>, block: &Arc<Block>, id: ChunkId) {
    let mut s = block.settled();
    let Some(spare) = s.spare.take_if(|s| s.is(gpu, id)) else {
        return;
    };
    let only_there = spare.valid.and_not(&s.resident());
    s.lost |= only_there;
}
