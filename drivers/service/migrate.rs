// SPDX-License-Identifier: GPL-2.0
//! Moving pages of a block from place to place.
//!
//! [`start`] takes mappings away, submits the copies and records them in the block; the block is then in flight, and
//! whoever locks it next through [`Block::settled`] waits and publishes. So a page always has a valid copy: the old one
//! is dropped only when the new one is known to be good. `start` never waits for memory: without a chunk it says
//! [`Stop::NeedChunk`] and has changed nothing.

use super::evict::{self, Room};
use super::gpu_fault::{AGAIN_MAX, MOMENT_US};
use super::{aperture, ecc, map};
use crate::account::{self, counters::Counter, events, policy};
use crate::channel::{self, Engine, Tracker};
use crate::device::{registry, Gpu};
use crate::kernel::ffi::uapi;
use crate::kernel::memcg::{self, For};
use crate::kernel::{task, time};
use crate::memory::backing::Backing;
use crate::memory::block::{Block, Inflight, Others, Overtaken, Part, State};
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::space::Space;
use crate::memory::{PageIndex, PageMask, Pages, Place, BLOCK_BYTES, PAGE_BYTES};
use huvm_hal::channel::{CopyFlags, Fill, Interrupt};
use huvm_hal::ids::{Loc, SysAddr, VidAddr};
use huvm_policy::config::KnobId;
use huvm_policy::types::ChunkId;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What is to be moved.
pub(crate) struct Move {
    /// Pages; those already at `dst` need no copy.
    pub(crate) pages: PageMask,
    /// Where to.
    pub(crate) dst: Place,
    /// Other copies.
    pub(crate) others: Others,
    /// `HUVM_CAUSE_*`.
    pub(crate) cause: u32,
}

/// Why [`start`] did not start.
pub(crate) enum Stop {
    /// The destination GPU has no chunk for this block: let go of the block, make room, come back.
    NeedChunk,
    /// It failed; the pages are where they were.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Stop::Failed(e)
    }
}

impl From<kernel::alloc::AllocError> for Stop {
    fn from(_: kernel::alloc::AllocError) -> Self {
        Stop::Failed(ENOMEM)
    }
}

/// Copies of one push: enough for any block, small enough for any pushbuffer.
const COPIES_PER_PUSH: usize = 32;

/// Host piece sizes that policy allows.
fn host_sizes(space: &Space, gpu: Option<&Gpu>) -> u64 {
    policy::in_force(space, gpu).get(KnobId::HostChunkSizes)
}

/// Starts `m` on a settled block, or one that is written back ([`Block::fetchable`]): a move to a GPU then reads the spare memory
/// at the same time, nothing comes of the write-back, and both are over together. On success the block has the pages, or has them
/// in flight.
///
/// # Errors
/// [`Stop`]; nothing was moved. `EAGAIN` where it has to be settled first.
#[inline(never)] // stack
pub(crate) fn start(
    block: &Arc<Block>,
    s: &mut State,
    sg: Option<&Arc<SpaceGpu>>,
    room: &mut Room,
    m: &Move,
) -> Result<(), Stop> {
    let overtakes = s.inflight.is_some();
    if s.dead || (overtakes && !s.is_written_back()) {
        return Err(Stop::Failed(EAGAIN));
    }
    let pages = m.pages.and(&s.managed);
    if pages.intersects(&s.lost) {
        return Err(Stop::Failed(EIO));
    }
    let need = pages.and_not(&s.valid_at(m.dst));
    // The spare memory is given back with the last page of it, and the write-back reads it.
    let joins = matches!(m.dst, Place::Gpu(_))
        && m.others != Others::Stay
        && s.in_spare().intersects(&need);
    if overtakes && !joins {
        return Err(Stop::Failed(EAGAIN));
    }
    // No block takes new state on a GPU that it leaves, nor gives up what it has elsewhere.
    let is_going = |sg: &Arc<SpaceGpu>| sg.gpu.is_lost() || sg.is_stopped();
    if sg.is_some_and(|sg| m.dst == Place::Gpu(sg.gpu.index()) && is_going(sg)) {
        return Err(Stop::Failed(EIO));
    }
    // Before there is a chunk: one that was just emptied must not be left to the block without what its first copy waits for.
    if m.others == Others::Go {
        collapse(block, s, m.dst, &pages.and_not(&need))?;
    }
    make_ready(block, s, sg, room, m, &need)?;
    if need.is_empty() {
        return Ok(());
    }
    // From here on nobody may write the old copies. For a duplicate they may still read; a mapping that is gone only
    // faults again, so both cases take all of it.
    map::unmap_gpus(s, &need);
    if m.dst != Place::Host || m.others != Others::Stay {
        map::unmap_cpu(block, s, &need);
    }
    if matches!(m.dst, Place::Gpu(_)) {
        s.forget_on_lost(&need);
    }
    let mut tracker = Tracker::EMPTY;
    let did = match m.dst {
        Place::Host => submit_to_host(block, s, &need, &mut tracker),
        Place::Gpu(g) => {
            // The copy out of the chunk belongs to the operation from here on, also when no copy into it gets submitted: else the
            // chunk would be free, and written, before its old pages are home.
            let after = room.take_tracker();
            tracker = after;
            to_gpu(block, s, g, &need, (&after, m.cause), &mut tracker).map(|()| PageMask::EMPTY)
        }
        Place::Spare => host_to_spare(block, s, &need, &mut tracker).map(|()| PageMask::EMPTY),
    };
    let mut overtaken = None;
    if let Some(written) = s.inflight.as_ref() {
        overtaken = Overtaken::of(written, &tracker);
        channel::add_all(&mut tracker, &written.tracker);
        let lender = s.spare.as_ref().map(|x| &*x.gpu);
        account::count(lender, Some(block.space()), Counter::WriteBacksOvertaken, 1);
    }
    s.last_cause = m.cause;
    s.sends(|| Inflight {
        tracker,
        // Pages of a copy that was not all submitted stay where they are; what was submitted must still end.
        pages: if did.is_ok() { need } else { PageMask::EMPTY },
        dst: m.dst,
        others: m.others,
        given: None,
        skipped: did.unwrap_or(PageMask::EMPTY),
        overtaken,
    });
    did?;
    if let (Place::Gpu(g), true) = (m.dst, m.cause != uapi::HUVM_CAUSE_GPU_FAULT) {
        if let Some(part) = s.part_mut(g) {
            part.is_unseen();
        }
    }
    report(block, s, m.dst, m.cause, &need);
    Ok(())
}

/// Sees to it that there is memory at the destination of `m` for `need`, those of its pages that are not there.
///
/// # Errors
/// As [`start`].
#[inline(never)] // stack
fn make_ready(
    block: &Arc<Block>,
    s: &mut State,
    sg: Option<&Arc<SpaceGpu>>,
    room: &mut Room,
    m: &Move,
    need: &PageMask,
) -> Result<(), Stop> {
    match (m.dst, sg) {
        (Place::Gpu(g), Some(sg)) if sg.gpu.index() == g => {
            s.ensure_part(block.va(), sg)?;
            let by_fault = m.cause == uapi::HUVM_CAUSE_GPU_FAULT;
            take_chunk(block, s, g, !need.is_empty(), by_fault, room)
        }
        (Place::Host, _) => {
            let sizes = host_sizes(block.space(), None);
            let charge = &block.space().memory;
            charge
                .asked(For::Data, || s.host.ensure(need, &s.managed, sizes))?
                .report(|c, n| account::count(None, Some(block.space()), c, n));
            Ok(())
        }
        // Into a chunk that the block has been lent, of pages that the host keeps.
        (Place::Spare, _) if m.others == Others::Stay && need.and_not(&s.host_valid).is_empty() => {
            Ok(s.spare.as_ref().ok_or(ENOSPC)?.gpu.check()?)
        }
        _ => Err(Stop::Failed(EINVAL)),
    }
}

/// Tells that `need` is on its way to `dst`, where it is not yet.
#[inline(never)] // stack
pub(crate) fn report(block: &Block, s: &State, dst: Place, cause: u32, need: &PageMask) {
    let span = need.span();
    // Spare memory has no number of its own; users know whose it is.
    let to = match (dst, s.spare.as_ref()) {
        (Place::Spare, Some(spare)) => spare.gpu.index().into(),
        _ => dst.to_uapi(),
    };
    events::emit(
        Some(block.space()),
        &events::Event {
            kind: uapi::HUVM_EVENT_MIGRATE,
            cause,
            gpu: to,
            va: block.va() + u64::from(span.start()) * PAGE_BYTES,
            length: u64::from(need.count().get()) * PAGE_BYTES,
            arg0: s
                .parts
                .iter()
                .find(|p| p.valid.intersects(need))
                .map(Part::gpu)
                .or_else(|| {
                    let kept = s.spare.as_ref().filter(|x| x.valid.intersects(need));
                    kept.map(|x| x.gpu.index())
                })
                .map_or_else(
                    || match s.host_valid.intersects(need) {
                        true => uapi::HUVM_PLACE_HOST,
                        false => uapi::HUVM_PLACE_NONE,
                    },
                    u32::from,
                )
                .into(),
            arg1: to.into(),
        },
    );
}

/// Gives the block a chunk on GPU `g`, or renews the one it has.
#[inline(never)] // stack
fn take_chunk(
    block: &Arc<Block>,
    s: &mut State,
    g: u8,
    needed: bool,
    by_fault: bool,
    room: &mut Room,
) -> Result<(), Stop> {
    let part = s.part_mut(g).ok_or(EIO)?;
    let pool = part.sg.gpu.chunks();
    if let Some(id) = part.chunk {
        // What is there may stay; nothing is copied beside what may come at any time.
        if needed && part.forfeited {
            return Err(Stop::Failed(EIO));
        }
        // Least recently migrated: every migration towards the GPU renews, even one that copies nothing
        // (`nvidia-uvm.md` 4.5).
        pool.touch(id);
        return Ok(());
    }
    if !needed {
        return Ok(());
    }
    // What is in hand goes back when the copy out of it is over; of any other chunk `activate` says so.
    if room.is_held() && pool.is_closed() {
        return Err(Stop::Failed(EIO));
    }
    let chunk = match room.take(g) {
        Some(chunk) => chunk,
        None => pool.take_free().ok_or(Stop::NeedChunk)?,
    };
    let veid = part.sg.veid;
    let left = part.departed.take();
    if left.is_none() {
        // It did not leave by an eviction.
        part.returns.begins_anew();
    }
    let (id, refault) = pool.activate(chunk, block.clone(), veid, left, by_fault)?;
    part.chunk = Some(id);
    part.forfeited = false;
    part.sg.gpu.activity.note(veid);
    for (counter, n) in [
        (Counter::ChunksAllocated, 1),
        (Counter::Refaults, u64::from(refault)),
    ] {
        account::count(Some(&part.sg.gpu), Some(block.space()), counter, n);
    }
    part.sg.gpu.note_taken();
    Ok(())
}

/// Drops the copies of `pages` that are not at `keep`, where they are valid too.
///
/// # Errors
/// `EIO` if `keep` is a GPU that was lost, `EAGAIN` if it does not answer; then nothing was dropped. `EAGAIN` if its memory failed and
/// other copies are good: then its own was dropped instead.
#[inline(never)] // stack
pub(crate) fn collapse(block: &Block, s: &mut State, keep: Place, pages: &PageMask) -> Result {
    let stale = pages.and(&s.valid_beside(keep)).and(&s.valid_at(keep));
    if stale.is_empty() {
        return Ok(());
    }
    let works = |s: &State| match keep {
        Place::Gpu(g) => {
            let gpu = &s.part(g).ok_or(EIO)?.sg.gpu;
            gpu.check()?;
            match gpu.answers() {
                true => Ok(()),
                false => Err(EAGAIN),
            }
        }
        Place::Host | Place::Spare => Ok(()),
    };
    works(s)?;
    if let Place::Gpu(g) = keep {
        if s.cannot_be(keep, &stale.and(&s.kept_beside(keep))) {
            drop_failed(s, g, &stale);
            return Err(EAGAIN);
        }
    }
    map::unmap_gpus(s, &stale);
    // It may have been lost by that.
    works(s)?;
    map::unmap_cpu(block, s, &stale);
    s.forget_beside(keep, &stale);
    s.release_empty_chunks();
    Ok(())
}

/// Drops those of GPU `g`'s copies of `pages` whose memory failed, where others are good.
fn drop_failed(s: &mut State, g: u8, pages: &PageMask) {
    let here = Place::Gpu(g);
    let failed = pages.and(&s.unfit(here));
    map::unmap_gpus(s, &failed);
    // Whoever has the others may have been lost by that.
    let failed = failed.and(&s.kept_beside(here));
    if let Some(p) = s.part_mut(g) {
        p.valid = p.valid.and_not(&failed);
    }
    s.release_empty_chunks();
}

/// A run of pages of a block: one copy or fill.
#[derive(Clone, Copy)]
struct Run {
    first: PageIndex,
    len: Pages,
    /// Where the host has it, if that has a part in the copy.
    host: SysAddr,
}

/// Where a run comes from, if from anywhere, and goes to.
type Ends<'a> = &'a dyn Fn(&Run) -> (Option<Loc>, Loc);

/// Runs collected for one push. Small: it is on the stack of who evicts in the middle of something else.
struct Batch<'a> {
    gpu: &'a Gpu,
    engine: Engine,
    after: &'a Tracker,
    ends: Ends<'a>,
    runs: &'a mut [Run; COPIES_PER_PUSH],
    len: usize,
}

/// Room for the runs of a batch. The caller's: a batch is moved.
const NO_RUNS: [Run; COPIES_PER_PUSH] = [Run {
    first: PageIndex::FIRST,
    len: Pages(0),
    host: SysAddr(0),
}; COPIES_PER_PUSH];

impl<'a> Batch<'a> {
    fn new(
        gpu: &'a Gpu,
        engine: Engine,
        after: &'a Tracker,
        ends: Ends<'a>,
        runs: &'a mut [Run; COPIES_PER_PUSH],
    ) -> Self {
        Batch {
            gpu,
            engine,
            after,
            ends,
            runs,
            len: 0,
        }
    }

    fn add(&mut self, run: Run, done: &mut Tracker) -> Result {
        if self.len == COPIES_PER_PUSH {
            self.flush(done)?;
        }
        if let Some(slot) = self.runs.get_mut(self.len) {
            *slot = run;
            self.len += 1;
        }
        Ok(())
    }

    #[inline(never)] // stack
    fn flush(&mut self, done: &mut Tracker) -> Result {
        if self.len == 0 {
            return Ok(());
        }
        let (runs, len, ends) = (&*self.runs, self.len, self.ends);
        let channels = self.gpu.channels();
        // Two copies of one memory are never under way at once, but where one waits for the other.
        let switch = policy::of_gpu(self.gpu).is_on(KnobId::CopyOverlap);
        let overlaps = switch && !channels.waits_for_itself(self.engine, self.after);
        let interrupt = if switch {
            Interrupt::Engine
        } else {
            Interrupt::Host
        };
        let fence = channels.submit_ending(self.engine, self.after, interrupt, |push| {
            for (i, run) in runs.iter().take(len).enumerate() {
                let flags = CopyFlags {
                    pipelined: overlaps || i != 0,
                };
                let (src, dst) = ends(run);
                match src {
                    Some(src) => push.copy(src, dst, bytes(run.len), flags)?,
                    None => push.fill(dst, Fill::U64(0), bytes(run.len), flags)?,
                }
            }
            Ok(())
        })?;
        self.len = 0;
        channel::add(done, fence);
        Ok(())
    }
}

fn bytes(n: Pages) -> u64 {
    u64::from(n.get()) * PAGE_BYTES
}

/// VRAM address of a page in a chunk.
fn in_chunk(chunk: ChunkId, page: PageIndex) -> VidAddr {
    VidAddr(chunk.byte_offset().get() + page.byte_offset().get())
}

/// Submits copies of `need` from GPUs to the host, and zeroes there what is nowhere. The host memory is there. Returns pages that the CPU
/// left out ([`Inflight::skipped`]).
#[inline(never)] // stack
pub(crate) fn submit_to_host(
    block: &Block,
    s: &mut State,
    need: &PageMask,
    done: &mut Tracker,
) -> Result<PageMask> {
    let mut left = *need;
    let mut skipped = PageMask::EMPTY;
    let State {
        parts, host, spare, ..
    } = s;
    let held = || {
        let on_gpus = parts
            .iter()
            .filter_map(|p| Some((&p.sg.gpu, p.chunk?, &p.valid)));
        // What a neighbour keeps comes over the neighbour's own link.
        let kept = spare.iter().map(|s| (&s.gpu, s.chunk, &s.valid));
        Iterator::chain(on_gpus, kept)
    };
    // By the CPU only what no engine can copy; and from a GPU that was lost only what is nowhere else, which fails.
    let by_engine = held().filter(|(gpu, ..)| gpu.channels().works(Engine::DeviceToHost));
    let there = held().filter(|(gpu, ..)| !gpu.is_lost());
    let best_first = Iterator::chain(Iterator::chain(by_engine, there), held());
    for (gpu, chunk, valid) in best_first {
        let here = left.and(valid);
        if here.is_empty() {
            continue;
        }
        skipped |= submit_chunk_to_host(block, host, (gpu, chunk), &here, done)?;
        left = left.and_not(&here);
    }
    // What was nowhere reads as zero.
    let fresh = left.and_not(&s.host_valid);
    if !fresh.is_empty() {
        s.host.zero(&fresh);
        account::count(
            None,
            Some(block.space()),
            Counter::BytesZeroed,
            bytes(fresh.count()),
        );
    }
    Ok(skipped)
}

/// Submits copies of `pages` from `chunk` of `gpu`, whoever has it, to the block's host memory `host`, which is there. Returns pages that
/// the CPU left out.
#[inline(never)] // stack
pub(crate) fn submit_chunk_to_host(
    block: &Block,
    host: &mut Backing,
    (gpu, chunk): (&Gpu, ChunkId),
    pages: &PageMask,
    done: &mut Tracker,
) -> Result<PageMask> {
    gpu.check()?;
    let engine = Engine::DeviceToHost;
    let mut skipped = PageMask::EMPTY;
    let works = || gpu.channels().works(engine);
    let mut begun = Tracker::EMPTY;
    let did = match works() {
        true => submit_host_runs(host, gpu, engine, &Tracker::EMPTY, chunk, pages, &mut begun),
        false => Err(EIO),
    };
    if did == Err(EIO) && !works() {
        // Of what was begun before the channel was given up the engine may be at it: when that is over, again.
        if !begun.is_empty() {
            channel::add_all(done, &begun);
            return gpu.check().and(Err(EAGAIN));
        }
        skipped = aperture::copy(gpu, host, chunk, pages)?;
    } else {
        channel::add_all(done, &begun);
        did?;
    }
    let moved = bytes(pages.count());
    account::count(Some(gpu), Some(block.space()), Counter::BytesD2h, moved);
    Ok(skipped)
}

/// Submits copies of `pages`, which are valid on `gpu`, to the block's chunk in spare memory.
#[inline(never)] // stack
pub(crate) fn submit_to_spare(
    block: &Block,
    s: &mut State,
    gpu: &Gpu,
    pages: &PageMask,
    done: &mut Tracker,
) -> Result {
    let (spare, part) = (
        s.spare.as_ref().ok_or(EIO)?,
        s.part(gpu.index()).ok_or(EIO)?,
    );
    let from = part.chunk.ok_or(EIO)?;
    spare.gpu.check()?;
    let peer = gpu.peer_id(spare.gpu.index()).ok_or(EXDEV)?;
    submit_runs(gpu, Engine::Peer, &Tracker::EMPTY, pages, done, &|p| {
        let addr = in_chunk(spare.chunk, p);
        (
            Some(Loc::Vid(in_chunk(from, p))),
            Loc::Peer { id: peer, addr },
        )
    })?;
    let moved = bytes(pages.count());
    account::count(Some(gpu), Some(block.space()), Counter::BytesP2p, moved);
    Ok(())
}

/// Submits copies of `pages` from the host to the block's chunk in spare memory, over the lender's own link.
#[inline(never)] // stack
fn host_to_spare(block: &Block, s: &mut State, pages: &PageMask, done: &mut Tracker) -> Result {
    let State { host, spare, .. } = s;
    let spare = spare.as_ref().ok_or(EIO)?;
    let (gpu, chunk) = (&*spare.gpu, spare.chunk);
    let engine = Engine::HostToDevice;
    submit_host_runs(host, gpu, engine, &Tracker::EMPTY, chunk, pages, done)?;
    let moved = bytes(pages.count());
    account::count(Some(gpu), Some(block.space()), Counter::BytesH2d, moved);
    account::count(Some(gpu), Some(block.space()), Counter::SpareFills, 1);
    Ok(())
}

/// Submits copies, or fills without a source, of `pages`: `ends` says where a run that begins with a page comes from and
/// goes to. For memory that is contiguous over the whole block, as chunks are.
#[inline(never)] // stack
fn submit_runs(
    gpu: &Gpu,
    engine: Engine,
    after: &Tracker,
    pages: &PageMask,
    done: &mut Tracker,
    ends: &dyn Fn(PageIndex) -> (Option<Loc>, Loc),
) -> Result {
    let of_run = |run: &Run| ends(run.first);
    let mut runs = NO_RUNS;
    let mut batch = Batch::new(gpu, engine, after, &of_run, &mut runs);
    for (first, len) in pages.runs() {
        let run = Run {
            first,
            len,
            host: SysAddr(0),
        };
        batch.add(run, done)?;
    }
    batch.flush(done)
}

/// Submits copies of `pages` between a chunk of `gpu` and the host, in the direction that `engine` says.
#[inline(never)] // stack
fn submit_host_runs(
    host: &mut Backing,
    gpu: &Gpu,
    engine: Engine,
    after: &Tracker,
    chunk: ChunkId,
    pages: &PageMask,
    done: &mut Tracker,
) -> Result {
    let ends = |run: &Run| {
        let (there, here) = (Loc::Sys(run.host), Loc::Vid(in_chunk(chunk, run.first)));
        match engine {
            Engine::DeviceToHost => (Some(here), there),
            _ => (Some(there), here),
        }
    };
    let mut runs = NO_RUNS;
    let mut batch = Batch::new(gpu, engine, after, &ends, &mut runs);
    for (first, len) in pages.runs() {
        let (mut page, mut rest) = (Some(first), len);
        while let Some(p) = page.filter(|_| rest.get() != 0) {
            let (addr, n) = host.dma(gpu, p, rest)?;
            let run = Run {
                first: p,
                len: n,
                host: SysAddr(addr),
            };
            batch.add(run, done)?;
            rest = Pages(rest.get().saturating_sub(n.get()));
            page = advance(p, n);
        }
    }
    batch.flush(done)
}

fn advance(p: PageIndex, n: Pages) -> Option<PageIndex> {
    let next = u32::from(p.get()) + n.get();
    PageIndex::new(u16::try_from(next).ok()?)
}

/// Submits copies of `need` to GPU `g`: from the host, from other GPUs, and zeroes for pages that are nowhere.
#[inline(never)] // stack
fn to_gpu(
    block: &Block,
    s: &mut State,
    g: u8,
    need: &PageMask,
    (after, cause): (&Tracker, u32),
    done: &mut Tracker,
) -> Result {
    let State {
        parts,
        host,
        host_valid,
        spare,
        ..
    } = s;
    let (dst, gpu) = {
        let part = parts.iter().find(|p| p.gpu() == g).ok_or(EIO)?;
        (part.chunk.ok_or(EIO)?, part.sg.gpu.clone())
    };
    let space = Some(&**block.space());
    let mut need = *need;
    // Spare memory first: the neighbour's link is the faster one. Without a road to it the pages come by the host.
    let near = spare.as_ref().map(|s| (s, gpu.peer_id(s.gpu.index())));
    if let Some((from, Some(peer))) = near.filter(|(s, _)| !s.gpu.is_lost()) {
        let here = need.and(&from.valid);
        if !here.is_empty() {
            submit_runs(&gpu, Engine::PeerIn, after, &here, done, &|p| {
                let addr = in_chunk(from.chunk, p);
                (
                    Some(Loc::Peer { id: peer, addr }),
                    Loc::Vid(in_chunk(dst, p)),
                )
            })
            .map_err(|e| if_cut_off(&gpu, &from.gpu, e))?;
            let moved = bytes(here.count());
            for counter in [Counter::BytesP2p, Counter::SpareHitBytes] {
                account::count(Some(&gpu), space, counter, moved);
            }
            need = need.and_not(&here);
        }
    }
    let mut from_host = need.and(host_valid);
    // So is the link to another GPU that has them too.
    for part in parts.iter().filter(|p| p.gpu() != g && !p.sg.gpu.is_lost()) {
        if !part.valid.intersects(&from_host) {
            continue;
        }
        let link = part.sg.gpu.link_to(g);
        if link.is_some_and(|l| l.mb_per_s > gpu.host_mbps()) {
            from_host = from_host.and_not(&part.valid);
        }
    }
    if !from_host.is_empty() {
        let engine = from_host_to(&gpu, cause);
        submit_host_runs(host, &gpu, engine, after, dst, &from_host, done)?;
        let moved = bytes(from_host.count());
        account::count(Some(&gpu), space, Counter::BytesH2d, moved);
    }
    let mut left = need.and_not(&from_host);
    // For the copy out of the chunk in hand its own engine waits; before another GPU's were told to copy, the CPU would, with the block
    // locked.
    let pulls = |from: &Gpu| {
        let waits = after.iter().any(|(id, _)| !from.channels().has(id));
        gpu.peer_id(from.index())
            .filter(|_| waits && !from.is_lost())
    };
    // As in `submit_to_host`: those that work first.
    let works = parts.iter().filter(|p| !p.sg.gpu.is_lost());
    for part in Iterator::chain(works, parts.iter()) {
        let here = left.and(&part.valid);
        let Some(src) = part.chunk.filter(|_| !here.is_empty() && part.gpu() != g) else {
            continue;
        };
        let Some(peer) = part.sg.gpu.peer_id(g) else {
            continue;
        };
        let from = &*part.sg.gpu;
        match pulls(from) {
            Some(id) => submit_runs(&gpu, Engine::PeerIn, after, &here, done, &|p| {
                let addr = in_chunk(src, p);
                (Some(Loc::Peer { id, addr }), Loc::Vid(in_chunk(dst, p)))
            })
            .map_err(|e| if_cut_off(&gpu, from, e))?,
            None => submit_runs(from, Engine::Peer, after, &here, done, &|p| {
                let addr = in_chunk(dst, p);
                (
                    Some(Loc::Vid(in_chunk(src, p))),
                    Loc::Peer { id: peer, addr },
                )
            })
            .map_err(|e| if_cut_off(from, &gpu, e))?,
        }
        account::count(Some(&gpu), space, Counter::BytesP2p, bytes(here.count()));
        left = left.and_not(&here);
    }
    if parts
        .iter()
        .any(|p| p.gpu() != g && p.valid.intersects(&left))
    {
        // The callers bring pages home first where no peer path exists; this one went just now.
        return Err(EAGAIN);
    }
    if let Some(s) = spare.as_ref().filter(|s| s.valid.intersects(&left)) {
        // The callers bring these home first, unless the link went just now, or the lender is gone with them.
        return Err(if_cut_off(&gpu, &s.gpu, EIO));
    }
    if !left.is_empty() {
        submit_runs(&gpu, Engine::Local, after, &left, done, &|p| {
            (None, Loc::Vid(in_chunk(dst, p)))
        })?;
        let zeroed = bytes(left.count());
        account::count(Some(&gpu), space, Counter::BytesZeroed, zeroed);
    }
    Ok(())
}

/// Which engine of `gpu` fetches from the host: what is needed does not wait behind what is fetched ahead.
fn from_host_to(gpu: &Gpu, cause: u32) -> Engine {
    let is_ahead = cause == uapi::HUVM_CAUSE_PREFETCH;
    if is_ahead
        && policy::of_gpu(gpu).is_on(KnobId::FetchApart)
        && gpu.channels().works(Engine::Ahead)
    {
        Engine::Ahead
    } else {
        Engine::HostToDevice
    }
}

/// What a failed copy of `gpu` from or to `other` means: if only the road between them is gone, the next try goes by the host.
fn if_cut_off(gpu: &Gpu, other: &Gpu, e: Error) -> Error {
    let cut_off = gpu.peer_id(other.index()).is_none();
    if cut_off && !gpu.is_lost() && !other.is_lost() {
        EAGAIN
    } else {
        e
    }
}

/// What has to come home before `m` can be made: pages on a GPU that cannot copy to its destination itself; and all that is there in
/// a chunk which nothing is copied to any more ([`Part::forfeited`]). That moves, though `m` may only want duplicates, for the block
/// gets another chunk when nothing is left in it.
#[inline(never)] // stack
pub(crate) fn before(s: &State, m: &Move) -> Option<Move> {
    let Place::Gpu(g) = m.dst else {
        return None;
    };
    let pages = missing(s, m);
    if pages.is_empty() {
        return None;
    }
    let left = s.part(g).filter(|p| p.forfeited).map(|p| p.valid);
    let leaves = left.is_some_and(|p| !p.is_empty());
    let mut stage = left.unwrap_or(PageMask::EMPTY);
    for p in s.parts.iter().filter(|p| p.gpu() != g) {
        if p.sg.gpu.peer_id(g).is_none() {
            stage |= p.valid.and(&pages).and_not(&s.host_valid);
        }
    }
    let kept = s.in_spare().and(&pages).and_not(&s.host_valid);
    if let Some(spare) = s.spare.as_ref().filter(|_| !kept.is_empty()) {
        let lender = spare.gpu.index();
        if registry::gpu(g.into()).is_none_or(|b| b.peer_id(lender).is_none()) {
            stage |= kept;
        }
    }
    (!stage.is_empty()).then_some(Move {
        pages: stage,
        dst: Place::Host,
        others: match m.others {
            Others::Stay if !leaves => Others::Stay,
            _ => Others::Go,
        },
        cause: m.cause,
    })
}

/// Pages that a move is for, and that are not where it brings them.
fn missing(s: &State, m: &Move) -> PageMask {
    m.pages.and(&s.managed).and_not(&s.valid_at(m.dst))
}

/// Tries of one block before its client gets an error; with a pause after each they are longer than a GPU may be silent.
const TRIES: u32 = AGAIN_MAX;

/// Does `m` to the end, making room as needed, and maps the pages on a destination GPU.
///
/// # Errors
/// `ENOMEM`, `EIO`, `EINTR`.
#[inline(never)] // stack
pub(crate) fn finish(block: &Arc<Block>, sg: Option<&Arc<SpaceGpu>>, m: &Move) -> Result<u64> {
    let mut room = Room::empty();
    // On its way at any time: what fails and begins anew is moved once.
    let mut sent = PageMask::EMPTY;
    // What was begun last, and what of it was not there.
    let mut awaited: Option<(Move, PageMask)> = None;
    let (mut alone, mut waited) = (None, false);
    let mut refused = false;
    let mut again = || {
        // Again at once if a road is gone; a GPU may be silent for a moment.
        if core::mem::replace(&mut refused, true) {
            time::sleep_us(MOMENT_US);
        }
    };
    for _ in 0..TRIES {
        if task::fatal_signal_pending() {
            return Err(EINTR);
        }
        match sg.map_or(Ok(()), |sg| ecc::make_way(&sg.gpu, block, &m.pages)) {
            Err(e) if e == EAGAIN => {
                again();
                continue;
            }
            did => did?,
        }
        let need_chunk = {
            let mut s = block.settled();
            // It did not arrive: a GPU is silent, or others are quicker each time. They go first now, and the copy behind that is looked
            // at as soon as it is over: who naps between the two leaves it to them.
            let in_vain =
                |(step, pages): &(Move, PageMask)| !pages.is_empty() && missing(&s, step) == *pages;
            if awaited.as_ref().is_some_and(in_vain) {
                drop(s);
                again();
                s = block.settled();
            }
            if s.dead {
                // All of it was unmapped meanwhile.
                return Ok(bytes(sent.count()));
            }
            let pages = m.pages.and(&s.managed);
            let first = before(&s, m);
            let is_last = first.is_none();
            let step = first.unwrap_or(Move { pages, ..*m });
            let missing = missing(&s, &step);
            match start(block, &mut s, sg, &mut room, &step) {
                Ok(()) if s.inflight.is_some() || !is_last => {
                    if is_last {
                        sent |= missing;
                    }
                    awaited = Some((step, missing));
                    false
                }
                Ok(()) => {
                    if let Place::Gpu(g) = m.dst {
                        map_valid(&mut s, g, &pages)?;
                    }
                    return Ok(bytes(sent.count()));
                }
                Err(Stop::NeedChunk) => true,
                Err(Stop::Failed(e)) if e == EAGAIN => {
                    drop(s);
                    again();
                    false
                }
                Err(Stop::Failed(e)) => return Err(e),
            }
        };
        if need_chunk {
            let sg = sg.ok_or(EIO)?;
            if alone.is_none() {
                alone = block.makes_room();
            }
            // It may be there once that other call is over. Once: else each of many would wait for all before it.
            if alone.is_none() && !core::mem::replace(&mut waited, true) {
                evict::lets_other_call(&sg.gpu, block)?;
                continue;
            }
            evict::make_room(&sg.gpu, Some(block.space()), false, &mut room)?;
        }
    }
    let all_answer = block.settled().copies().all(|(gpu, _)| gpu.answers());
    Err(if all_answer { ENOMEM } else { EIO })
}

/// Maps those of `pages` that are valid in the chunk of GPU `g` and not mapped yet.
#[inline(never)] // stack
pub(crate) fn map_valid(s: &mut State, g: u8, pages: &PageMask) -> Result {
    let Some(part) = s.part(g) else {
        return Ok(());
    };
    let here = pages.and(&part.valid);
    let new = here.and_not(&part.mapped.and_not(&part.remote));
    let elsewhere = s.valid_beside(Place::Gpu(g));
    let shared = new.and(&elsewhere);
    let alone = new.and_not(&shared);
    let writable = alone.and(&s.writable);
    for (pages, read_only) in [
        (shared.or(&alone.and_not(&writable)), true),
        (writable, false),
    ] {
        if !pages.is_empty() {
            map::map_local(s, g, &pages, read_only)?;
        }
    }
    Ok(())
}

/// Brings everything that GPU `g` holds of a block to the host.
///
/// # Errors
/// `ENOMEM`, `EIO`, `EINTR`.
#[inline(never)] // stack
pub(crate) fn bring_home(block: &Arc<Block>, g: u8) -> Result {
    let mut before = PageMask::EMPTY;
    loop {
        let pages = match block.settled().part(g) {
            Some(p) => p.valid,
            None => return Ok(()),
        };
        if pages.is_empty() {
            return Ok(());
        }
        let m = Move {
            pages,
            dst: Place::Host,
            others: Others::Go,
            cause: uapi::HUVM_CAUSE_API,
        };
        match finish(block, None, &m) {
            // Some of it could not be read, and is lost: fewer are left each time.
            Err(e) if e == EIO && pages != before => before = pages,
            did => return did.map(drop),
        }
    }
}

/// The migrate call.
///
/// # Errors
/// As `struct huvm_migrate` says; `moved` counts what was done before.
#[inline(never)] // stack
pub(crate) fn range(space: &Arc<Space>, va: u64, len: u64, dst: Place, moved: &mut u64) -> Result {
    let end = space.check_range(va, len)?;
    let sg = match dst {
        Place::Host => None,
        Place::Gpu(g) => Some(space.on_gpu(g).ok_or(ENOENT)?),
        Place::Spare => return Err(EINVAL),
    };
    let mut at = va;
    while at < end {
        task::give_way();
        let block = space
            .block_at(at)
            .map_err(|e| if e == EFAULT { ENOMEM } else { e })?;
        let m = Move {
            pages: crate::memory::pages_between(block.va(), at, end),
            dst,
            others: Others::Go,
            cause: uapi::HUVM_CAUSE_API,
        };
        super::thrash::reset(&mut block.settled(), &m.pages);
        *moved += finish(&block, sg.as_ref(), &m)?;
        at = block.va() + BLOCK_BYTES;
        memcg::pay();
    }
    Ok(())
}
