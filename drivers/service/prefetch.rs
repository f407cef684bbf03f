// SPDX-License-Identifier: GPL-2.0
//! Prefetch of blocks ahead of a stream of faults (HUVM, ATC'22: LPF and MPF).
//!
//! The fault service tells of each block that a fault reached ([`note_fault`]); `huvm_policy::stream` finds streams and
//! says what to fetch ahead of them. A thread per GPU does it: it starts the copies of several blocks, from the host over
//! the host link and from a neighbour's memory over that link, and maps each when it is there. With the knob
//! `prefetch_multi_path` blocks come from the host over lenders' links too, as [`relay`] has it, at the same time. A
//! fault for a block that is on its way waits for it as for any copy.
//!
//! A fault of no stream makes the thread give up what it has not begun: that fault's copy would wait behind it, and the stream may be
//! one by chance. With the knob `prefetch_apart` what is ahead has a copy engine of its own, so that the two share the link, and a
//! stream that has proven itself goes on. What is given up comes back with the stream's next fault alone, so that a job whose other
//! accesses miss as well, as gathers do, leaves its link idle for a quarter of the time.

use super::evict::{self, Room};
use super::migrate::{self, Move, Stop};
use super::relay::{self, Ways};
use super::{placement, thrash};
use crate::account::{self, counters::Counter, policy};
use crate::channel::Engine;
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::memcg::CHARGED_IN_OPEN;
use crate::kernel::thread;
use crate::memory::block::{Ahead, Block, Others, State};
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::space::Space;
use crate::memory::{PageMask, Place, BLOCK_BYTES};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::path::{Path, LENDER_QUEUE_MAX};
use huvm_policy::spare::SPARE_GPUS_MAX;
use huvm_policy::stream::{
    self, BlockNo, BlockRun, BlockSpan, Outcome, StreamConfig, StreamCounts, StreamTable,
};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{new_mutex, Arc, Mutex};

/// Runs of blocks that wait for the thread of a GPU; one more is not fetched ahead.
const QUEUE: usize = 16;
/// Blocks on their way at once: as many as keep the link from the host busy while some come from neighbours, and those are mapped.
const IN_FLIGHT: usize = 8;
/// And where a fault waits behind them (no `prefetch_apart`): as many as keep it busy while one is mapped.
const IN_FLIGHT_SHARED: usize = 4;
/// Blocks on their way to lenders at once, one more for each than is waited for on its link.
const RELAYED: usize = SPARE_GPUS_MAX * (LENDER_QUEUE_MAX as usize + 1);
/// Blocks on the GPU that a stream is followed beyond, for one fault.
const BRIDGE_MAX: u32 = 4096;
/// And not while what was fetched ahead takes more than this part of the memory.
const AHEAD_PART: u32 = 4;
/// The thread looks whether it is to stop this often.
const LOOK_NS: u64 = 1_000_000_000;

/// Streams of one space.
#[pin_data]
pub(crate) struct Streams {
    #[pin]
    table: Mutex<KBox<StreamTable>>,
}

impl Streams {
    /// None yet.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let table = KBox::new(StreamTable::new(), CHARGED_IN_OPEN)?;
        Ok(pin_init!(Self { table <- new_mutex!(table, "huvm_streams") }))
    }

    /// Counts what became of `n` blocks of `space`, whose streams these are, that were fetched ahead to a GPU.
    pub(crate) fn report(&self, gpu: &Gpu, space: &Space, outcome: Outcome, n: u32) {
        if n == 0 {
            return;
        }
        let counter = match outcome {
            Outcome::Late => Counter::PrefetchLate,
            Outcome::Useful => Counter::PrefetchUseful,
            Outcome::Wasted => Counter::PrefetchWasted,
        };
        self.table.lock().report(outcome, n.into());
        account::count(Some(gpu), Some(space), counter, n.into());
    }

    /// Whether a stream comes to a block within `steps` blocks of what is fetched ahead.
    pub(super) fn come_to(&self, block: &Block, steps: u32) -> bool {
        self.table
            .lock()
            .comes_to(BlockNo::of_va(block.va()), steps)
    }

    /// What became of all so far.
    pub(crate) fn counts(&self) -> StreamCounts {
        self.table.lock().counts()
    }
}

/// Blocks to fetch for a space.
struct Job {
    space: Arc<Space>,
    sg: Arc<SpaceGpu>,
    run: BlockRun,
    /// The range that the stream is in, and how far ahead of it blocks are fetched.
    span: BlockSpan,
    amount: u32,
    /// The stream writes what it goes over.
    writes: bool,
    /// A fault of no stream does not end it.
    stays: bool,
    /// Value of the GPU's abandon counter when it was asked for.
    asked: u32,
}

/// What waits for the thread of a GPU.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    jobs: Mutex<KVec<Job>>,
}

impl Queue {
    /// Empty.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let jobs = KVec::with_capacity(QUEUE, GFP_KERNEL)?;
        Ok(pin_init!(Self { jobs <- new_mutex!(jobs, "huvm_prefetch") }))
    }

    fn push(&self, job: Job) -> core::result::Result<(), Job> {
        let mut jobs = self.jobs.lock();
        if jobs.len() >= QUEUE {
            return Err(job);
        }
        jobs.push_within_capacity(job).map_err(|e| e.0)
    }

    fn pop(&self) -> Option<Job> {
        self.jobs.lock().remove(0).ok()
    }

    /// Forgets everything: the GPU, or a space on it, goes.
    pub(crate) fn clear(&self) {
        while let Some(job) = self.pop() {
            drop(job);
        }
    }
}

/// What a fault is to the streams of its space.
pub(super) struct InStream {
    /// It continues one: all of the block is wanted.
    pub(super) goes_on: bool,
    /// It was foreseen.
    expected: bool,
    /// The stream writes what it goes over.
    pub(super) writes: bool,
}

/// The range that the block is in.
pub(super) fn span_of(block: &Block) -> Option<BlockSpan> {
    let space = block.space();
    let (start, end) = space.range_at(block.va()).or_else(|| {
        // The block's first page is in no range: its last one tells as well.
        space.range_at(block.va() + BLOCK_BYTES - 1)
    })?;
    Some(BlockSpan {
        first: BlockNo::of_va(start),
        end: BlockNo::of_va(end + BLOCK_BYTES - 1),
    })
}

/// A demand fault of `gpu` reached `block` of the range `span`, with others of the same `batch`; `writes`: some wanted to write. Call
/// [`judge`] with what it is once it is served.
pub(super) fn note_fault(
    gpu: &Arc<Gpu>,
    sg: &Arc<SpaceGpu>,
    block: &Block,
    span: BlockSpan,
    (batch, writes): (u64, bool),
    p: &Policy,
) -> InStream {
    let space = block.space();
    let usable = gpu.chunks().usable();
    let mut config = StreamConfig::of(p).on(usable);
    config.cycles = config.cycles && has_room_ahead(gpu, usable);
    let advice =
        space
            .streams
            .table
            .lock()
            .fault(BlockNo::of_va(block.va()), &span, batch, writes, &config);
    went_over(gpu, space, &advice);
    // If it is there, a GPU that writes it faults since the host keeps its copy, and not for want of it.
    let in_time = writes && outcome(gpu, block, false).is_some();
    space
        .streams
        .report(gpu, space, Outcome::Useful, u32::from(in_time));
    let stream = InStream {
        goes_on: advice.expected || advice.run.is_some(),
        expected: advice.expected && !in_time,
        writes: advice.writes,
    };
    if advice.cancel {
        sg.prefetch_abandon.add(1, Relaxed);
    }
    let Some(run) = advice.run else {
        return stream;
    };
    let job = Job {
        space: space.clone(),
        sg: sg.clone(),
        run,
        span,
        amount: config.amount,
        writes: advice.writes,
        stays: advice.proven && is_apart(gpu, p),
        asked: sg.prefetch_abandon.load(Relaxed),
    };
    match gpu.prefetch_queue.push(job) {
        Ok(()) => gpu.prefetch.ring(),
        Err(job) => abandon(gpu, &job, job.run.count),
    }
    stream
}

/// What a fault at `block`, served by now, says about its being fetched ahead.
pub(super) fn judge(gpu: &Gpu, block: &Block, stream: &InStream) {
    let late = {
        let mut s = block.lock();
        let missed = core::mem::take(&mut s.missed);
        let ahead = s.ahead.take();
        if let Some(a) = ahead.as_ref() {
            a.tell(uapi::HUVM_PREFETCH_LATE);
        }
        ahead.is_some() || (stream.expected && !missed)
    };
    let space = block.space();
    space
        .streams
        .report(gpu, space, Outcome::Late, u32::from(late));
}

/// What a stream went over, between two of its faults, was there in time, or is on its way still: then the fault for it was dropped, as
/// others of a batch are.
fn went_over(gpu: &Gpu, space: &Space, advice: &stream::Advice) {
    let (mut useful, mut late) = (0, 0);
    for b in advice.passed.iter().flatten().flat_map(BlockRun::blocks) {
        let Some(b) = space.existing_block(b.0.saturating_mul(BLOCK_BYTES)) else {
            continue;
        };
        match outcome(gpu, &b, true) {
            Some(Outcome::Useful) => useful += 1,
            Some(_) => late += 1,
            None => {}
        }
    }
    space.streams.report(gpu, space, Outcome::Useful, useful);
    space.streams.report(gpu, space, Outcome::Late, late);
}

/// What became of a block that was fetched ahead and not judged yet: it is there, or late if it comes and `may_come`. `None`: not known.
fn outcome(gpu: &Gpu, block: &Block, may_come: bool) -> Option<Outcome> {
    let mut s = block.lock();
    let there = s.part(gpu.index()).is_some_and(|p| !p.mapped.is_empty());
    let comes = may_come && s.inflight.is_some();
    let a = s.ahead.take_if(|_| there || comes)?;
    let (step, outcome) = if there {
        (uapi::HUVM_PREFETCH_USEFUL, Outcome::Useful)
    } else {
        (uapi::HUVM_PREFETCH_LATE, Outcome::Late)
    };
    a.tell(step);
    Some(outcome)
}

/// What a block fetched ahead for a job is judged by.
fn ahead(gpu: &Arc<Gpu>, job: &Job, block: &Block) -> Ahead {
    let reach = job.run.step.saturating_mul(job.amount.into());
    let end = BlockNo::of_va(block.va()).0.checked_add_signed(reach);
    let at_end = end.is_none_or(|b| !job.span.contains(BlockNo(b)));
    Ahead::new(gpu.clone(), job.space.clone(), block.va(), at_end)
}

/// `left` blocks of a job are not fetched.
fn abandon(gpu: &Gpu, job: &Job, left: u32) {
    if left == 0 {
        return;
    }
    job.space
        .streams
        .table
        .lock()
        .abandoned(job.run.stream, left);
    account::count(
        Some(gpu),
        Some(&job.space),
        Counter::PrefetchAbandoned,
        left.into(),
    );
}

/// The thread of one GPU.
pub(crate) struct Prefetch {
    /// Blocks on their way, the oldest first.
    on_the_way: KVec<Arc<Block>>,
    /// Blocks on their way to a lender, the oldest first; from there they are fetched.
    relayed: KVec<Arc<Block>>,
}

impl Prefetch {
    /// Allocates what it needs.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Prefetch {
            on_the_way: KVec::with_capacity(IN_FLIGHT, GFP_KERNEL)?,
            relayed: KVec::with_capacity(RELAYED, GFP_KERNEL)?,
        })
    }

    /// Serves until it is asked to stop.
    pub(crate) fn serve(&mut self, gpu: &Arc<Gpu>) {
        while gpu.prefetch.listen(LOOK_NS) {
            loop {
                if let Some(job) = gpu.prefetch_queue.pop() {
                    self.run(gpu, &job);
                } else if self.on_the_way.is_empty() {
                    break;
                } else {
                    // What is asked for meanwhile begins before the rest of these is waited for.
                    self.land(gpu);
                }
            }
        }
    }

    #[inline(never)] // stack
    fn run(&mut self, gpu: &Arc<Gpu>, job: &Job) {
        let p = policy::in_force(&job.space, Some(gpu));
        let mut ways = None;
        let mut left = 0;
        let mut next = Some(job.run);
        let mut bridged = 0;
        while let Some(run) = next.take() {
            left = run.count;
            let mut tail = 0;
            for block in run.blocks() {
                if is_over(gpu, job) {
                    break;
                }
                left = left.saturating_sub(1);
                let there = self.one(gpu, job, block, &mut ways, &p);
                tail = if there { tail + 1 } else { 0 };
            }
            bridged += tail;
            let goes_on =
                p.is_on(KnobId::StreamCycles) && has_room_ahead(gpu, gpu.chunks().usable());
            if left == 0 && bridged < BRIDGE_MAX && goes_on {
                let mut streams = job.space.streams.table.lock();
                next = streams.beyond(run.stream, run.count, tail);
            }
        }
        while let Some(next) = self.relayed.first() {
            if next.is_settled() || self.on_the_way.is_empty() {
                self.pass_on(gpu, job, &p);
            } else {
                self.land(gpu);
            }
        }
        abandon(gpu, job, left);
    }

    /// Starts the copy of one block of a job, one way or the other. Whether the GPU had all of it already.
    #[inline(never)] // stack
    fn one(
        &mut self,
        gpu: &Arc<Gpu>,
        job: &Job,
        block: BlockNo,
        ways: &mut Option<Option<Ways>>,
        p: &Policy,
    ) -> bool {
        let Some(block) = job.space.existing_block(block.0 * BLOCK_BYTES) else {
            // Never touched: there is nothing to fetch.
            return false;
        };
        let there = is_here(&block, gpu);
        if there {
            // Nothing to fetch, which the others would find out too, with a lock each.
        } else if p.is_on(KnobId::MultiPath) && relay(gpu, &block, ways, p) {
            let _has_room = self.relayed.push_within_capacity(block);
        } else {
            let _copied = self.bring(gpu, job, &block, p);
        }
        // Those that came to a lender meanwhile go on beside the next ones.
        while self.relayed.first().is_some_and(|b| b.is_settled()) {
            self.pass_on(gpu, job, p);
        }
        there
    }

    /// Fetches the block that has been on its way to a lender for longest, unless it is not wanted any more.
    #[inline(never)] // stack
    fn pass_on(&mut self, gpu: &Arc<Gpu>, job: &Job, p: &Policy) {
        let Ok(block) = self.relayed.remove(0) else {
            return;
        };
        if is_over(gpu, job) || !self.bring(gpu, job, &block, p) {
            relay::leave(&block);
        }
    }

    /// Starts the copy of a block to the GPU. `false`: there was nothing to copy, or it could not be.
    #[inline(never)] // stack
    fn bring(&mut self, gpu: &Arc<Gpu>, job: &Job, block: &Arc<Block>, p: &Policy) -> bool {
        if !fetch(gpu, job, block, p) {
            return false;
        }
        let most = match is_apart(gpu, p) {
            true => IN_FLIGHT,
            false => IN_FLIGHT_SHARED,
        };
        if self.on_the_way.len() >= most {
            self.land(gpu);
        }
        self.on_the_way.push_within_capacity(block.clone()).is_ok()
    }

    /// Waits for the oldest block on its way and maps it.
    #[inline(never)] // stack
    fn land(&mut self, gpu: &Gpu) {
        let Ok(block) = self.on_the_way.remove(0) else {
            return;
        };
        let mut s = block.settled();
        let g = gpu.index();
        if s.dead || s.part(g).is_none_or(|p| p.sg.is_stopped()) {
            return;
        }
        // The pages are there; the fault that comes will map them, or say why not. Clients without memory are no news.
        match migrate::map_valid(&mut s, g, &PageMask::FULL) {
            Err(e) if e != ENOMEM => gpu.complain("prefetched block not mapped", e),
            _ => {}
        }
    }
}

/// Whether what is fetched ahead is in nobody's way: policy says so, and the GPU has a copy engine for it.
fn is_apart(gpu: &Gpu, p: &Policy) -> bool {
    p.is_on(KnobId::FetchApart) && gpu.channels().fetches_apart()
}

/// Whether no more is to be fetched for a job.
fn is_over(gpu: &Gpu, job: &Job) -> bool {
    let given_up = job.asked != job.sg.prefetch_abandon.load(Relaxed)
        && !(job.stays && gpu.channels().fetches_apart());
    given_up || thread::should_stop() || gpu.is_lost() || job.sg.is_stopped()
}

/// Whether what was fetched ahead and not used yet leaves most of the memory, of so many chunks, to what is used.
fn has_room_ahead(gpu: &Gpu, usable: u32) -> bool {
    gpu.ahead.load(Relaxed) < usable / AHEAD_PART
}

/// Whether the GPU has all of a block that there is: it goes over it without a fault.
#[inline(never)] // stack
fn is_here(block: &Block, gpu: &Gpu) -> bool {
    let s = block.lock();
    let part = s.part(gpu.index());
    part.is_some_and(|p| !p.mapped.is_empty() && s.managed.is_subset_of(&p.mapped))
}

/// Starts the copy of a block to a lender, if that is the fastest way for it. `false`: it is not, or cannot be. `ways` are looked
/// for when the first block could go there.
#[inline(never)] // stack
fn relay(gpu: &Gpu, block: &Arc<Block>, ways: &mut Option<Option<Ways>>, p: &Policy) -> bool {
    let g = gpu.index();
    let pages =
        |s: &State| wanted(s, g, p).map_or(PageMask::EMPTY, |m| relay::can_go(s, g, &m.pages));
    {
        let s = block.fetchable(true);
        // Most often it is at a neighbour already, and nothing else needs to be known.
        let near = s.spare.as_ref().is_some_and(|x| !x.valid.is_empty());
        if near || pages(&s).is_empty() {
            return false;
        }
    }
    let Some(ways) = ways.get_or_insert_with(|| Ways::to(gpu, p)) else {
        return false;
    };
    let way = ways.choose();
    let Path::Via(lender) = way else {
        ways.sent(way);
        return false;
    };
    if !relay::has_room(gpu, lender, p) {
        ways.close(lender);
        return false;
    }
    let mut s = block.settled();
    let pages = pages(&s);
    if pages.is_empty() {
        return false;
    }
    match relay::start(block, &mut s, g, lender, &pages, uapi::HUVM_CAUSE_PREFETCH) {
        Ok(()) => {
            ways.sent(way);
            true
        }
        Err(_) => {
            ways.close(lender);
            false
        }
    }
}

/// Starts the copy of all of a block to the GPU. `false`: nothing is on the way.
#[inline(never)] // stack
fn fetch(gpu: &Arc<Gpu>, job: &Job, block: &Arc<Block>, p: &Policy) -> bool {
    let g = gpu.index();
    let mut room = Room::empty();
    let mut joins = true;
    // Once without a chunk, once with one in hand; the rest for others who were quicker.
    for _ in 0..4 {
        {
            let mut s = block.fetchable(joins);
            let mut m = match wanted(&s, g, p) {
                Some(m) => m,
                None => return false,
            };
            // What a fault has brought in part was not ahead of it any more; that fault was the late one.
            let is_ahead = s.part(g).is_none_or(|p| p.valid.is_empty());
            let keeps = placement::keeps(&s, g, job.writes, p);
            if keeps {
                m.others = Others::GoButHost;
            }
            match migrate::start(block, &mut s, Some(&job.sg), &mut room, &m) {
                Ok(()) if s.inflight.is_none() => return false,
                Ok(()) if is_ahead => {
                    s.writes.fetched(keeps);
                    // Before anybody else sees the block: a fault that finds it on its way is late, and has not wasted it.
                    let ahead = ahead(gpu, job, block);
                    ahead.tell(uapi::HUVM_PREFETCH_BEGUN);
                    s.ahead = Some(ahead);
                    drop(s);
                    account::count(Some(gpu), Some(&job.space), Counter::PrefetchBlocks, 1);
                    return true;
                }
                Ok(()) => return true,
                Err(Stop::NeedChunk) => {}
                Err(Stop::Failed(e)) if e == EAGAIN && !s.dead => {
                    joins = false;
                    continue;
                }
                Err(Stop::Failed(_)) => return false,
            }
        }
        // The CPU copies nothing ahead of need.
        if !gpu.channels().works(Engine::DeviceToHost) {
            return false;
        }
        if evict::make_room(gpu, Some(block.space()), false, &mut room).is_err() {
            return false;
        }
    }
    false
}

/// What there is to move for a block: pages that are somewhere else, unless advice or thrashing says to leave them there.
#[inline(never)] // stack
fn wanted(s: &State, g: u8, p: &Policy) -> Option<Move> {
    if s.dead || p.is_on(KnobId::ZeroCopy) {
        return None;
    }
    let here = Place::Gpu(g);
    let pages = s
        .valid_beside(here)
        .and(&s.managed)
        .and_not(&s.gone())
        .and_not(&thrash::keep_off(s, p))
        .and_not(&placement::stays(s, here))
        .and_not(&s.valid_at(here));
    // One move takes pages away from where they are, or leaves them there.
    let (pages, others) = if pages.is_subset_of(&s.advice.read_mostly()) {
        (pages, Others::Stay)
    } else {
        (pages.and_not(&s.advice.read_mostly()), Others::Go)
    };
    let m = Move {
        pages,
        dst: here,
        others,
        cause: uapi::HUVM_CAUSE_PREFETCH,
    };
    (!pages.is_empty() && migrate::before(s, &m).is_none()).then_some(m)
}
