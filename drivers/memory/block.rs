// SPDX-License-Identifier: GPL-2.0
//! 2 MiB of a space: where each page's valid copies are, and who has it mapped.
//!
//! # Invariants of [`State`], whenever the lock is free
//! - A managed page that was ever touched is valid somewhere: in `host_valid`, in the `valid` of a part, or in
//!   `inflight`; or it is in `lost`.
//! - `part.valid` is empty without `part.chunk`.
//! - `part.mapped` pages have a valid PTE to a copy that is valid; nothing is mapped that is still on its way.
//! - At most one copy operation is in flight. Nobody acts on a block with one: [`Block::settled`] waits first,
//!   without holding the lock. But a fetch from spare memory takes the place of a write-back of it ([`Block::fetchable`]), and is
//!   over when both are.

use super::advice::Advice;
use super::backing::Backing;
use super::chunk::{Departure, Released};
use super::gpu_space::{BlockTables, SpaceGpu};
use super::layout::Cover;
use super::space::Space;
use super::{PageMask, Place, BLOCK_BYTES};
use crate::account::{self, counters::Counter, events};
use crate::channel::{self, poison, Fence, Tracker};
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::memcg::{For, CHARGED};
use huvm_policy::keep::Writes;
use huvm_policy::returns::Returns;
use huvm_policy::standstill::Comings;
use huvm_policy::stream::Outcome;
use huvm_policy::thrash::BlockThrash;
use huvm_policy::types::ChunkId;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex, MutexGuard};

/// What a block has on one GPU.
pub(crate) struct Part {
    /// The space on that GPU.
    pub(crate) sg: Arc<SpaceGpu>,
    /// Its memory there.
    pub(crate) chunk: Option<ChunkId>,
    /// An engine that does not stop may write there at any time: nothing more is brought in.
    pub(crate) forfeited: bool,
    /// It was evicted from there and is not back.
    pub(crate) departed: Option<Departure>,
    /// How it comes back.
    pub(crate) returns: Returns,
    /// Whether it comes back for the same page again and again.
    pub(crate) comings: Comings,
    /// It came by faults, and less than half of it is there: whose [`Grain`](huvm_policy::grain::Grain) is told what becomes of it.
    pub(crate) sample: Option<u8>,
    /// Pages whose copy in the chunk is valid.
    pub(crate) valid: PageMask,
    /// Pages that the GPU has mapped, wherever they are.
    pub(crate) mapped: PageMask,
    /// Of these, pages mapped for reading alone.
    pub(crate) read_only: PageMask,
    /// Of these, pages in the memory of somebody else.
    pub(crate) remote: PageMask,
    /// The page tables.
    pub(crate) tables: BlockTables,
    /// Batches one after the other whose faults were all of pages that it has mapped.
    pub(crate) stale: u8,
    /// Batches one after the other whose faults were of memory that failed, in a chunk that could not be emptied just then.
    pub(crate) refused: u32,
}

impl Part {
    /// Index of the GPU.
    pub(crate) fn gpu(&self) -> u8 {
        self.sg.gpu.index()
    }

    /// All of it is fetched for another reason than this fault, or without one: what would have been wanted of it is not to be seen.
    pub(crate) fn is_unseen(&mut self) {
        self.returns.is_unseen();
        self.sample = None;
    }

    /// If it is a sample: half of it is there by now (`filled`), or it leaves before that.
    pub(crate) fn votes(&mut self, filled: bool) {
        if let Some(slot) = self.sample.take() {
            self.sg.grain(slot, |grain| grain.vote(filled));
        }
    }
}

/// What a block keeps in a neighbour GPU's memory: pages that were evicted and may be wanted again. No GPU has them mapped,
/// and no process of the lending GPU can reach them.
pub(crate) struct Spare {
    /// The lending GPU.
    pub(crate) gpu: Arc<Gpu>,
    /// Its chunk.
    pub(crate) chunk: ChunkId,
    /// Pages whose copy there is valid.
    pub(crate) valid: PageMask,
    /// The lender was told that the host has all of them too.
    removable: bool,
}

impl Spare {
    /// A chunk just lent, nothing valid in it yet. `removable`: the lender was told so.
    pub(crate) fn new(gpu: Arc<Gpu>, chunk: ChunkId, removable: bool) -> Self {
        Spare {
            gpu,
            chunk,
            valid: PageMask::EMPTY,
            removable,
        }
    }

    /// Whether it is chunk `id` of `gpu`.
    pub(crate) fn is(&self, gpu: &Arc<Gpu>, id: ChunkId) -> bool {
        self.chunk == id && Arc::ptr_eq(&self.gpu, gpu)
    }

    /// Whether its memory failed: nothing more is brought in.
    pub(crate) fn is_condemned(&self) -> bool {
        self.gpu.chunks().is_condemned(self.chunk)
    }
}

/// The block was fetched ahead of a stream to a GPU, and it is not known yet what that was good for.
///
/// No access is seen that does not fault. So a block was *useful* when the stream went over it while it was there;
/// *late* when a fault asked for it first; *wasted* when it left the GPU before either ([`State::left`]). What lies within
/// the last reach of a stream, up to the end of its range, may be used and never gone over: if it leaves, nobody can tell.
pub(crate) struct Ahead {
    /// The GPU that it was fetched to; counts it.
    gpu: Arc<Gpu>,
    /// Whose block it is, and its address.
    space: Arc<Space>,
    va: u64,
    /// The stream may end before it goes over it.
    at_end: bool,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.gpu.ahead.fetch_sub(1, Relaxed);
    }
}

impl Ahead {
    /// The block at `va` of `space`, fetched to `gpu`; `at_end`: its stream may end before it goes over it.
    pub(crate) fn new(gpu: Arc<Gpu>, space: Arc<Space>, va: u64, at_end: bool) -> Self {
        gpu.ahead.add(1, Relaxed);
        Ahead {
            gpu,
            space,
            va,
            at_end,
        }
    }

    /// Says what became of it (`HUVM_PREFETCH_*`).
    pub(crate) fn tell(&self, step: u32) {
        events::emit(
            Some(&self.space),
            &events::Event {
                kind: uapi::HUVM_EVENT_PREFETCH,
                cause: uapi::HUVM_CAUSE_PREFETCH,
                gpu: u32::from(self.gpu.index()),
                va: self.va,
                length: BLOCK_BYTES,
                arg0: step.into(),
                arg1: 0,
            },
        );
    }
}

/// What becomes of the copies of pages elsewhere once the pages have come to a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// They go: a move.
    Go,
    /// They go, but the host's stays where it has one: a move for reading. What leaves again before it is written needs no copy.
    GoButHost,
    /// They stay: a duplicate, for reading.
    Stay,
}

/// A copy operation under way.
pub(crate) struct Inflight {
    /// Over when this is.
    pub(crate) tracker: Tracker,
    /// Pages that become valid...
    pub(crate) pages: PageMask,
    /// ...here.
    pub(crate) dst: Place,
    /// Other copies of `pages`.
    pub(crate) others: Others,
    /// The chunk that the block gave away, and that the pages are copied from.
    pub(crate) given: Option<(Arc<Gpu>, ChunkId)>,
    /// Of `pages`, those that the CPU, which copied in an engine's place, left out: their memory failed.
    pub(crate) skipped: PageMask,
    /// What it overtook; `tracker` has that too.
    pub(crate) overtaken: Option<Overtaken>,
}

/// A write-back of what the spare memory keeps, overtaken by a fetch from there. What it brings home is there, whatever becomes of the
/// fetch.
pub(crate) struct Overtaken {
    push: Fence,
    pages: PageMask,
}

impl Overtaken {
    /// That of a write-back in flight, by a copy that waits for `own`. `None` if the two cannot be told apart: they are judged together
    /// then. (An engine of the lender's does the one, engines of the borrower's do the other.)
    pub(crate) fn of(written: &Inflight, own: &Tracker) -> Option<Overtaken> {
        let mut pushes = written.tracker.pushes();
        let push = pushes.next().filter(|_| pushes.next().is_none())?;
        let is_apart = own.iter().all(|(channel, _)| channel != push.channel());
        is_apart.then_some(Overtaken {
            push,
            pages: written.pages,
        })
    }
}

/// State of a block, under its lock.
pub(crate) struct State {
    /// The block is out of its space; nothing may be added.
    pub(crate) dead: bool,
    /// Pages in ranges.
    pub(crate) managed: PageMask,
    /// Pages that GPUs may write.
    pub(crate) writable: PageMask,
    /// Host memory.
    pub(crate) host: Backing,
    /// Pages whose host copy is valid.
    pub(crate) host_valid: PageMask,
    /// Pages that a CPU may have mapped.
    pub(crate) cpu_mapped: PageMask,
    /// Of these, mapped for reading alone.
    pub(crate) cpu_read_only: PageMask,
    /// Pages whose only copy is gone with a GPU, or was in memory that failed.
    pub(crate) lost: PageMask,
    /// Some of `lost` were in memory that failed.
    pub(crate) ecc: bool,
    /// Per GPU.
    pub(crate) parts: KVec<Part>,
    /// What a neighbour keeps.
    pub(crate) spare: Option<Spare>,
    /// Advice.
    pub(crate) advice: Advice,
    /// How often advice was taken back or changed by which GPUs have pages mapped elsewhere. Wraps.
    pub(crate) advised: u32,
    /// Who fights over which pages; made when a fault first moves one.
    pub(crate) thrash: Option<KBox<BlockThrash>>,
    /// Who faulted last, and pages it faulted on in a row (`prefetch_min_faults`).
    pub(crate) faulted_by: Option<(Place, u32)>,
    /// Copy under way.
    pub(crate) inflight: Option<Inflight>,
    /// It was fetched ahead, and nobody has faulted or gone over it.
    pub(crate) ahead: Option<Ahead>,
    /// It was fetched ahead and left before it was used; the next fault is not late, but wasted already.
    pub(crate) missed: bool,
    /// `HUVM_CAUSE_*` of the last migration.
    pub(crate) last_cause: u32,
    /// Whether GPUs write what they read.
    pub(crate) writes: Writes,
}

/// Pages of a chunk of a GPU that can be read: not of one that was lost, nor what failed.
fn readable(gpu: &Gpu, id: Option<ChunkId>) -> PageMask {
    match id {
        _ if gpu.is_lost() => PageMask::EMPTY,
        Some(id) => PageMask::FULL.and_not(&gpu.unfit(id)),
        None => PageMask::FULL,
    }
}

impl State {
    /// These of its pages are in ranges, beside those that it has: of one that was cut without memory for its tail nothing says any more that
    /// the tail is mapped ([`super::layout::Layout::remove_range`]). Pages go where they are unmapped.
    pub(crate) fn covered(&mut self, by: Cover) {
        self.managed |= by.managed;
        self.writable |= by.writable;
    }

    /// The part for a GPU.
    pub(crate) fn part(&self, gpu: u8) -> Option<&Part> {
        self.parts.iter().find(|p| p.gpu() == gpu)
    }

    /// The part for a GPU, to change.
    pub(crate) fn part_mut(&mut self, gpu: u8) -> Option<&mut Part> {
        self.parts.iter_mut().find(|p| p.gpu() == gpu)
    }

    /// The part for a GPU, made if there is none. Where there is one are the directory tables above its own too: who takes its mappings
    /// away needs them, and takes what fails there for a GPU that does not hear.
    ///
    /// # Errors
    /// `ENOMEM`; `EIO` if the space stopped to use the GPU: it is out of all blocks then, or about to be, and would stay in this one.
    pub(crate) fn ensure_part(&mut self, va: u64, sg: &Arc<SpaceGpu>) -> Result {
        if self.part(sg.gpu.index()).is_none() {
            if sg.is_stopped() {
                return Err(EIO);
            }
            sg.prepare(va)?;
            let part = Part {
                sg: sg.clone(),
                chunk: None,
                forfeited: false,
                departed: None,
                returns: Returns::UNKNOWN,
                comings: Comings::NONE,
                sample: None,
                valid: PageMask::EMPTY,
                mapped: PageMask::EMPTY,
                read_only: PageMask::EMPTY,
                remote: PageMask::EMPTY,
                tables: SpaceGpu::block_tables(va)?,
                stale: 0,
                refused: 0,
            };
            sg.memory
                .asked(For::Records, || Ok(self.parts.push(part, CHARGED)?))?;
        }
        debug_assert!(self
            .part(sg.gpu.index())
            .is_some_and(|p| Arc::ptr_eq(&p.sg, sg)));
        Ok(())
    }

    /// Pages valid at a place.
    pub(crate) fn valid_at(&self, place: Place) -> PageMask {
        match place {
            Place::Host => self.host_valid,
            Place::Gpu(g) => self.part(g).map_or(PageMask::EMPTY, |p| p.valid),
            Place::Spare => self.in_spare(),
        }
    }

    /// Pages valid in a neighbour's spare memory.
    pub(crate) fn in_spare(&self) -> PageMask {
        self.spare.as_ref().map_or(PageMask::EMPTY, |s| s.valid)
    }

    /// Pages valid in the memory of other GPUs that use the block.
    pub(crate) fn on_gpus_beside(&self, gpu: u8) -> PageMask {
        let others = self.parts.iter().filter(|p| p.gpu() != gpu);
        others.fold(PageMask::EMPTY, |m, p| m.or(&p.valid))
    }

    /// Pages valid anywhere but at `place`. Some may be on a GPU that was lost: until it is unbound nobody says that they are gone.
    pub(crate) fn valid_beside(&self, place: Place) -> PageMask {
        self.beside(place, |_, _| PageMask::FULL)
    }

    /// The same where they can be read: a copy may go if others are there.
    pub(crate) fn kept_beside(&self, place: Place) -> PageMask {
        self.beside(place, readable)
    }

    /// The same where they stay, too: not on a GPU that leaves, which may find no memory on the host for what it has, nor on one that
    /// does not answer, which may be gone before anybody knows. So a copy may be given away. Reads a register of who has any.
    pub(crate) fn stays_beside(&self, place: Place) -> PageMask {
        self.beside(place, |gpu, id| {
            match gpu.chunks().is_closed() || !gpu.answers() {
                true => PageMask::EMPTY,
                false => readable(gpu, id),
            }
        })
    }

    /// `counts`: which pages of a chunk of a GPU count. Asked of those that have any.
    fn beside(&self, place: Place, counts: impl Fn(&Gpu, Option<ChunkId>) -> PageMask) -> PageMask {
        let mut m = PageMask::EMPTY;
        if place != Place::Host {
            m |= self.host_valid;
        }
        let spare = self.spare.as_ref().filter(|_| place != Place::Spare);
        if let Some(s) = spare.filter(|s| !s.valid.is_empty()) {
            m |= s.valid.and(&counts(&s.gpu, Some(s.chunk)));
        }
        let parts = self.parts.iter().filter(|p| place != Place::Gpu(p.gpu()));
        for p in parts.filter(|p| !p.valid.is_empty()) {
            m |= p.valid.and(&counts(&p.sg.gpu, p.chunk));
        }
        m
    }

    /// Drops the copies of `pages` that are not at `keep`. Gives no chunk back ([`Self::release_empty_chunks`]).
    pub(crate) fn forget_beside(&mut self, keep: Place, pages: &PageMask) {
        if keep != Place::Host {
            self.host_valid = self.host_valid.and_not(pages);
        }
        self.forget_on_gpus_beside(keep, pages);
    }

    /// The same, but for the host's.
    fn forget_on_gpus_beside(&mut self, keep: Place, pages: &PageMask) {
        if let Some(s) = self.spare.as_mut().filter(|_| keep != Place::Spare) {
            s.valid = s.valid.and_not(pages);
        }
        for p in self.parts.iter_mut() {
            if keep != Place::Gpu(p.gpu()) {
                p.valid = p.valid.and_not(pages);
            }
        }
    }

    /// Drops the copies of `pages` on GPUs that were lost, where others can be read: what is copied from those would be taken for read from
    /// a lost one ([`Self::pulled_from_lost`]), each time. Gives no chunk back. Those in spare memory stay while they are written back.
    pub(crate) fn forget_on_lost(&mut self, pages: &PageMask) {
        let lost = |gpu: &Gpu| gpu.is_lost();
        if !self.parts.iter().any(|p| lost(&p.sg.gpu)) && !self.spare.iter().any(|s| lost(&s.gpu)) {
            return;
        }
        let kept = self.kept_beside(Place::Host).or(&self.host_valid);
        let go = pages.and(&kept);
        for p in self.parts.iter_mut().filter(|p| lost(&p.sg.gpu)) {
            p.valid = p.valid.and_not(&go);
        }
        if self.inflight.is_some() {
            return;
        }
        for s in self.spare.iter_mut().filter(|s| lost(&s.gpu)) {
            s.valid = s.valid.and_not(&go);
        }
    }

    /// Notes that `place` faulted on `pages` more. Returns how many it has faulted on since anybody else did.
    pub(crate) fn note_faults(&mut self, place: Place, pages: u32) -> u32 {
        let before = match self.faulted_by {
            Some((p, n)) if p == place => n,
            _ => 0,
        };
        let n = before.saturating_add(pages);
        self.faulted_by = Some((place, n));
        n
    }

    /// Pages valid on any GPU, spare memory included.
    pub(crate) fn on_gpus(&self) -> PageMask {
        self.valid_beside(Place::Host)
    }

    /// Pages valid anywhere.
    pub(crate) fn resident(&self) -> PageMask {
        self.on_gpus().or(&self.host_valid)
    }

    /// Pages that only GPUs that were lost have. Nobody can read them; when those are unbound they are [`lost`](Self::lost). What an
    /// eviction has on its way is in the chunk that it gave away.
    pub(crate) fn out_of_reach(&self) -> PageMask {
        let parts = self.parts.iter().map(|p| (&p.sg.gpu, p.valid));
        let kept = self.spare.iter().map(|s| (&s.gpu, s.valid));
        let (mut gone, mut here) = (PageMask::EMPTY, self.host_valid);
        for (gpu, valid) in Iterator::chain(parts, kept) {
            let to = if gpu.is_lost() { &mut gone } else { &mut here };
            *to |= valid;
        }
        if let Some(i) = &self.inflight {
            if i.given.as_ref().is_some_and(|(gpu, _)| !gpu.is_lost()) {
                here |= i.pages;
            }
        }
        gone.and_not(&here)
    }

    /// Pages that nobody can have any more.
    pub(crate) fn gone(&self) -> PageMask {
        self.lost.or(&self.out_of_reach())
    }

    /// Whether what is in flight is a write-back of what the spare memory keeps, and goes on keeping: a copy that only reads it.
    pub(crate) fn is_written_back(&self) -> bool {
        let Some(i) = self.inflight.as_ref() else {
            return false;
        };
        let reads = |(gpu, id): &(Arc<Gpu>, ChunkId)| {
            let spare = self.spare.as_ref();
            spare.is_some_and(|s| s.is(gpu, *id))
        };
        i.dst == Place::Host && i.others == Others::Stay && i.given.as_ref().is_some_and(reads)
    }

    /// A copy begins, or what was begun of one has to end. It is put together off the stack of who evicts.
    #[inline(never)] // stack
    pub(crate) fn sends(&mut self, copy: impl FnOnce() -> Inflight) {
        self.inflight = Some(copy());
    }

    /// Publishes the copy in flight if it is over. What it is still waiting for; `None`: nothing is in flight.
    #[inline(never)] // stack
    fn publish(&mut self) -> Option<Tracker> {
        let tracker = &self.inflight.as_ref()?.tracker;
        match channel::poll(tracker) {
            Some(ok) => {
                self.finish(ok);
                None
            }
            None => Some(*tracker),
        }
    }

    /// Publishes what a finished copy did. `ok`: it succeeded.
    #[inline(never)] // stack
    fn finish(&mut self, ok: bool) {
        let Some(mut i) = self.inflight.take() else {
            return;
        };
        let ok = match i.overtaken.take() {
            None => ok,
            Some(o) => {
                i.tracker.prune(|channel, _| channel == o.push.channel());
                self.wrote_back(&o);
                channel::poll(&i.tracker) == Some(true)
            }
        };
        let unread = self.drop_unread(&i);
        // What arrived on a GPU that was lost since can be read by nobody: what it was copied from stays. Nor was it written there, as
        // the GPU had it not mapped yet. The same where another GPU copied it there, if it does not answer: nobody may know yet.
        let in_vain = match i.dst {
            Place::Gpu(g) => self.part(g).is_none_or(|p| {
                let gpu = &p.sg.gpu;
                gpu.is_lost() || (gpu.channels().was_pushed(&i.tracker) && !gpu.answers())
            }),
            Place::Host | Place::Spare => false,
        };
        if !ok || in_vain {
            // An eviction gave its source away; whatever is nowhere else is gone. Others have it still, or never had one.
            if i.given.is_some() {
                self.lost |= i.pages.and_not(&self.resident());
            }
            // A channel that failed is off its engine, so nothing is written to them any more, but by one that did not leave it.
            for by in channel::going_on(&i.tracker) {
                self.forfeit(i.dst, by);
            }
            self.release_empty_chunks();
            return;
        }
        // What was given away is nowhere else: then only what engines met there is taken for lost, not what was but said.
        let unfit = match (&i.given, i.dst, &self.spare) {
            (Some(_), Place::Spare, Some(s)) => poison::met_at_home(s.gpu.index(), s.chunk),
            _ => self.unfit(i.dst),
        };
        let doubtful = self.pulled_from_lost(i.dst, &i.tracker);
        let arrived = i.pages.and_not(&unread).and_not(&unfit).and_not(&doubtful);
        match i.others {
            Others::Go => self.forget_beside(i.dst, &arrived),
            Others::GoButHost => self.forget_on_gpus_beside(i.dst, &arrived),
            Others::Stay => {}
        }
        match i.dst {
            Place::Host => self.host_valid |= arrived,
            Place::Gpu(g) => {
                if let Some(p) = self.part_mut(g) {
                    p.valid |= arrived;
                }
            }
            Place::Spare => {
                if let Some(s) = self.spare.as_mut() {
                    s.valid |= arrived;
                }
            }
        }
        // An eviction gave its source away: what went to memory that is unfit is there no more either.
        if i.given.is_some() && i.dst == Place::Spare {
            let lender = self.spare.as_ref().map(|s| s.gpu.clone());
            self.failed(
                &i.pages.and_not(&arrived).and_not(&unread),
                lender.as_deref(),
            );
        }
        self.release_empty_chunks();
    }

    /// An overtaken write-back is over. The spare memory has still what it read, which nobody could write meanwhile.
    fn wrote_back(&mut self, o: &Overtaken) {
        let mut of = Tracker::EMPTY;
        channel::add(&mut of, o.push);
        if let (Some(true), Some(s)) = (channel::poll(&of), &self.spare) {
            let failed = poison::left_out(&of, s.gpu.index(), s.chunk);
            self.host_valid |= o.pages.and(&s.valid).and_not(&failed);
        }
    }

    /// What GPUs have of the block: their own, and what a neighbour keeps.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (&Arc<Gpu>, &PageMask)> {
        let parts = self.parts.iter().map(|p| (&p.sg.gpu, &p.valid));
        let kept = self.spare.iter().map(|s| (&s.gpu, &s.valid));
        Iterator::chain(parts, kept)
    }

    /// Pages that a copy to a GPU, which succeeded, may have read from the memory of one that was lost: that may have been reset
    /// meanwhile; or of one that does not answer, which nobody may know yet: all ones are read there. They stay where they were.
    fn pulled_from_lost(&self, dst: Place, by: &Tracker) -> PageMask {
        let Place::Gpu(g) = dst else {
            return PageMask::EMPTY;
        };
        if !self.part(g).is_some_and(|p| p.sg.gpu.channels().pulled(by)) {
            return PageMask::EMPTY;
        }
        let mut pages = PageMask::EMPTY;
        for (gpu, valid) in self.copies() {
            if gpu.index() != g && !valid.is_empty() && (gpu.is_lost() || !gpu.answers()) {
                pages |= *valid;
            }
        }
        pages
    }

    /// GPU `by` may go on copying to the block's chunk at a place: it is nobody's any more when the block lets go of it.
    fn forfeit(&mut self, dst: Place, by: u8) {
        if let Place::Gpu(g) = dst {
            if let Some(p) = self.part_mut(g) {
                p.forfeited = true;
            }
        }
        let at = match dst {
            // It is kept from the bus.
            Place::Host => None,
            Place::Gpu(g) => self.part(g).and_then(|p| Some((&p.sg.gpu, p.chunk?))),
            Place::Spare => self.spare.as_ref().map(|s| (&s.gpu, s.chunk)),
        };
        if let Some((gpu, id)) = at.filter(|(gpu, _)| gpu.index() != by) {
            gpu.forfeits(by, |chunks| Some(chunks.forfeit(id).into()));
        }
    }

    /// Drops the copies that a finished operation could not read, their memory having failed. Returns which pages these are; those
    /// that are nowhere else are lost.
    fn drop_unread(&mut self, i: &Inflight) -> PageMask {
        let (mut unread, mut whose) = (PageMask::EMPTY, None);
        // Of `valid` alone, which is what was there: that a page failed is noted for longer, and the block may have it from elsewhere since.
        let mut look = |gpu: &Arc<Gpu>, id: ChunkId, valid: &PageMask| {
            let mut gone = poison::left_out(&i.tracker, gpu.index(), id);
            if !i.skipped.is_empty() {
                gone |= i.skipped.and(&gpu.known_to_fail(id));
            }
            let gone = gone.and(&i.pages).and(valid);
            if !gone.is_empty() {
                unread |= gone;
                whose = Some(gpu.clone());
            }
            gone
        };
        if let Some((gpu, id)) = &i.given {
            look(gpu, *id, &PageMask::FULL);
        }
        for p in self.parts.iter_mut() {
            if let Some(id) = p.chunk.filter(|_| i.dst != Place::Gpu(p.sg.gpu.index())) {
                p.valid = p.valid.and_not(&look(&p.sg.gpu, id, &p.valid));
            }
        }
        if let Some(s) = self.spare.as_mut().filter(|_| i.dst != Place::Spare) {
            s.valid = s.valid.and_not(&look(&s.gpu, s.chunk, &s.valid));
        }
        self.failed(&unread, whose.as_deref());
        unread
    }

    /// What `pages` held does not matter any more: they are unmapped, or given up.
    pub(crate) fn forget_lost(&mut self, pages: &PageMask) {
        self.lost = self.lost.and_not(pages);
        self.ecc &= !self.lost.is_empty();
    }

    /// The memory of `gpu` that had `pages` failed: those that are nowhere else are lost.
    fn failed(&mut self, pages: &PageMask, gpu: Option<&Gpu>) {
        let gone = pages.and_not(&self.resident());
        if !gone.is_empty() {
            self.lost |= gone;
            self.ecc = true;
            let n = gone.count().get();
            account::count(gpu, None, Counter::EccLostPages, n.into());
        }
    }

    /// Pages of the chunk at a place whose memory is known to have failed: what is copied there has not arrived.
    pub(crate) fn unfit(&self, dst: Place) -> PageMask {
        let chunk = match dst {
            Place::Host => None,
            Place::Gpu(g) => self.part(g).and_then(|p| Some((&p.sg.gpu, p.chunk?))),
            Place::Spare => self.spare.as_ref().map(|s| (&s.gpu, s.chunk)),
        };
        chunk.map_or(PageMask::EMPTY, |(gpu, id)| gpu.unfit(id))
    }

    /// Whether some of `pages` cannot be at a place: their memory there is known to have failed.
    pub(crate) fn cannot_be(&self, place: Place, pages: &PageMask) -> bool {
        // Mostly there are none, and nobody has to be asked.
        !pages.is_empty() && pages.intersects(&self.unfit(place))
    }

    /// The block's chunk on GPU `g` goes to somebody else. Judges what it was fetched ahead for.
    pub(crate) fn left(&mut self, g: u8) {
        if let Some(a) = self.ahead.take_if(|a| a.gpu.index() == g) {
            if !a.at_end {
                self.missed = true;
                a.space.streams.report(&a.gpu, &a.space, Outcome::Wasted, 1);
                a.tell(uapi::HUVM_PREFETCH_WASTED);
            }
        }
    }

    /// Tells a lender whether the host has all that it keeps; with `again`, also if it was told so before.
    pub(crate) fn tell_lender(&mut self, again: bool) {
        if let Some(s) = self.spare.as_mut().filter(|s| !s.valid.is_empty()) {
            let removable = s.valid.and_not(&self.host_valid).is_empty();
            if again || removable != s.removable {
                s.removable = removable;
                s.gpu.chunks().set_removable(s.chunk, removable);
            }
        }
    }

    /// Gives chunks that hold no valid page back to their GPU, and tells a lender whether the host has what it keeps.
    pub(crate) fn release_empty_chunks(&mut self) {
        self.tell_lender(false);
        self.spare.take_if(|s| {
            s.valid.is_empty() && {
                let _who_has_it = s.gpu.chunks().release(s.chunk);
                true
            }
        });
        for p in self.parts.iter_mut() {
            if p.valid.is_empty() {
                if let Some(id) = p.chunk.take() {
                    if p.sg.gpu.chunks().release(id) == Released::Free {
                        account::count(Some(&p.sg.gpu), None, Counter::ChunksFreed, 1);
                    }
                }
            }
        }
        // What was fetched ahead is in a chunk for as long as it is there.
        let ahead = self.ahead.as_ref().map(|a| a.gpu.index());
        if let Some(g) = ahead.filter(|g| self.part(*g).is_none_or(|p| p.chunk.is_none())) {
            self.left(g);
        }
    }
}

/// A block.
#[pin_data]
pub(crate) struct Block {
    va: u64,
    space: Arc<Space>,
    /// It may have in flight what it gave the source of away, or be about to submit that. To be read without the lock.
    sends: Atomic<bool>,
    /// A call makes room for it ([`MakesRoom`]).
    makes_room: Atomic<bool>,
    #[pin]
    state: Mutex<State>,
}

/// That a call makes room on a GPU for a block, until this goes. One is enough: chunks that others empty for the same block meanwhile would
/// be emptied in vain, and be nobody's share.
pub(crate) struct MakesRoom<'a>(&'a Block);

impl Drop for MakesRoom<'_> {
    fn drop(&mut self) {
        self.0.makes_room.store(false, Relaxed);
    }
}

/// The lock of a block.
pub(crate) type Guard<'a> = MutexGuard<'a, State>;

/// Turns of [`Block::settled`] that wait with the lock free; after that it waits with the lock held, so that it ends.
const FREE_WAITS: u32 = 16;

impl Block {
    /// A block with no page touched, and none in a range yet ([`State::covered`]). The caller says whom it is charged to.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(space: Arc<Space>, va: u64) -> Result<Arc<Self>> {
        let state = State {
            dead: false,
            managed: PageMask::EMPTY,
            writable: PageMask::EMPTY,
            host: Backing::new(),
            host_valid: PageMask::EMPTY,
            cpu_mapped: PageMask::EMPTY,
            cpu_read_only: PageMask::EMPTY,
            lost: PageMask::EMPTY,
            ecc: false,
            parts: KVec::new(),
            spare: None,
            advice: Advice::NONE,
            advised: 0,
            thrash: None,
            faulted_by: None,
            inflight: None,
            ahead: None,
            missed: false,
            last_cause: uapi::HUVM_CAUSE_NONE,
            writes: Writes::UNKNOWN,
        };
        Arc::pin_init(
            pin_init!(Self { va, space, sends: Atomic::new(false), makes_room: Atomic::new(false), state <- new_mutex!(state, "huvm_block") }),
            CHARGED,
        )
    }

    /// First address.
    pub(crate) fn va(&self) -> u64 {
        self.va
    }

    /// The space it belongs to.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Locks the block as it is, a copy in flight or not. For looking, and for recording a copy just submitted.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.state.lock()
    }

    /// Locks the block with no copy in flight but perhaps a write-back of what is in spare memory, which a fetch from there joins
    /// ([`State::is_written_back`]). Waits as [`Self::settled`] for others, and for that one too unless it `joins`.
    #[inline(never)] // stack
    pub(crate) fn fetchable(&self, joins: bool) -> Guard<'_> {
        if joins {
            let mut s = self.state.lock();
            if s.publish().is_none() {
                return self.at_rest(s);
            }
            if s.is_written_back() {
                return s;
            }
        }
        self.settled()
    }

    /// Whether no copy is in flight. Publishes one that is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.try_settled().is_some()
    }

    /// Locks the block if no copy is in flight, and publishes one that is over. Waits for no copy.
    pub(crate) fn try_settled(&self) -> Option<Guard<'_>> {
        let mut s = self.state.lock();
        s.publish().is_none().then(|| self.at_rest(s))
    }

    /// Locks the block as it is, if nobody else has.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        self.state.try_lock()
    }

    /// A call is about to make room for it. `None`: another one does.
    pub(crate) fn makes_room(&self) -> Option<MakesRoom<'_>> {
        // Not made for nothing: its end would be that other one's.
        (!self.makes_room.xchg(true, Relaxed)).then(|| MakesRoom(self))
    }

    /// Whether one does.
    pub(crate) fn is_made_room_for(&self) -> bool {
        self.makes_room.load(Relaxed)
    }

    /// A copy is about to be submitted whose source the block gives away. The caller has the lock.
    pub(crate) fn begin_sending(&self) {
        self.sends.store(true, Relaxed);
    }

    /// Whether there may be such a copy.
    pub(crate) fn may_send(&self) -> bool {
        self.sends.load(Relaxed)
    }

    /// No copy is in flight.
    fn at_rest<'a>(&self, s: Guard<'a>) -> Guard<'a> {
        if self.may_send() {
            self.sends.store(false, Relaxed);
        }
        s
    }

    /// Locks the block with no copy in flight. Waits for one without the lock; the wait is bounded, and a copy that
    /// failed or timed out counts as not done.
    #[inline(never)] // stack
    pub(crate) fn settled(&self) -> Guard<'_> {
        for _ in 0..FREE_WAITS {
            let tracker = {
                let mut s = self.state.lock();
                match s.publish() {
                    None => return self.at_rest(s),
                    Some(tracker) => tracker,
                }
            };
            let _judged_above = channel::wait(&tracker);
        }
        loop {
            let mut s = self.state.lock();
            let Some(tracker) = s.publish() else {
                return self.at_rest(s);
            };
            if let Some(did) = channel::wait_holding(&tracker) {
                s.finish(did.is_ok());
                return self.at_rest(s);
            }
            // Once for a channel at most: it is given up, and the rescue of what it was copying wants the lock.
            drop(s);
            let _judged_above = channel::wait(&tracker);
        }
    }
}
