// SPDX-License-Identifier: GPL-2.0
//! Making room on a GPU.
//!
//! The caller holds no block. A victim's pages go to the host; its chunk is handed on at once, together with the
//! tracker of the copy out, which the copy in waits for on the GPU (`nvidia-uvm.md` 4.6). So eviction overlaps with
//! everything but the copy that needs its room.

use super::fair;
use super::gpu_fault::{AGAIN_MAX, MOMENT_US};
use super::harvest::{self, Found};
use super::map;
use super::pool::{self, Need};
use crate::account::waits::{self, Waiting, What};
use crate::account::{self, counters::Counter, events, policy};
use crate::channel::{self, Engine, Tracker};
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::{task, time};
use crate::memory::block::{Block, Inflight, Others, State};
use crate::memory::chunk::{Departure, Victim};
use crate::memory::space::Space;
use crate::memory::{PageMask, Place, BLOCK_BYTES, PAGE_BYTES};
use huvm_policy::chunk::FreeChunk;
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::evict::VictimOrder;
use huvm_policy::refault::{EvictConfig, Memory};
use huvm_policy::spare::SpareReplace;
use huvm_policy::types::ChunkId;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// A chunk in hand, with what must be over before it is written. Given back when dropped.
pub(crate) struct Room {
    held: Option<(Arc<Gpu>, FreeChunk)>,
    after: Tracker,
}

impl Room {
    /// Takes a chunk of `gpu` in hand, to be written after `after`. What was in hand is given back.
    pub(super) fn hold(&mut self, gpu: &Arc<Gpu>, chunk: FreeChunk, after: &Tracker) {
        self.give_back();
        self.held = Some((gpu.clone(), chunk));
        self.after = *after;
    }

    /// Nothing in hand.
    pub(crate) fn empty() -> Self {
        Room {
            held: None,
            after: Tracker::EMPTY,
        }
    }

    /// Whether there is a chunk in hand.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Takes the chunk, if it is one of GPU `g`. Its tracker is then due at the first copy.
    pub(crate) fn take(&mut self, g: u8) -> Option<FreeChunk> {
        match self.held.take() {
            Some((gpu, chunk)) if gpu.index() == g => Some(chunk),
            other => {
                self.held = other;
                None
            }
        }
    }

    /// What the first copy into the chunk must wait for.
    pub(crate) fn take_tracker(&mut self) -> Tracker {
        if self.is_held() {
            // The chunk was not used, so neither is its tracker.
            return Tracker::EMPTY;
        }
        core::mem::replace(&mut self.after, Tracker::EMPTY)
    }

    /// Gives back what is in hand.
    fn give_back(&mut self) {
        if let Some((gpu, chunk)) = self.held.take() {
            // A free chunk has nothing in flight; a failure means that the GPU is lost.
            let _lost = channel::wait(&self.after);
            gpu.chunks().give_back(chunk);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A fault waits for a chunk of the GPU while this exists: pre-eviction begins nothing.
struct Demand<'a>(&'a Gpu);

impl<'a> Demand<'a> {
    fn new(gpu: &'a Gpu) -> Self {
        gpu.demand.add(1, Relaxed);
        Demand(gpu)
    }
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.0.demand.add(u32::MAX, Relaxed);
        self.0.note_taken();
    }
}

/// How long to let others move on when every chunk is in somebody's hands, microseconds.
const ALL_BUSY_US: u64 = 100;

/// How often; then there is no room. Whoever has a chunk in hand waits for copies alone, which take microseconds, so
/// 200 ms means that something is wrong.
const ALL_BUSY_TURNS: u32 = 2000;

/// The same as a time, as each nap may be longer than asked for: seen on a host with four times the work that it has CPUs for, 5 ms
/// each and 11 s in all.
const ALL_BUSY_NS: u64 = 5_000_000_000;
/// The bound of that wait, as those who look for waits that are too long know it.
const ALL_BUSY_BOUND_NS: u64 = 2 * ALL_BUSY_NS;

/// How victims are chosen on `gpu` now, under policy `p`.
#[inline(never)] // stack
pub(super) fn order(gpu: &Gpu, p: &Policy) -> EvictConfig {
    fair::look(gpu);
    let memory = Memory {
        chunks: gpu.chunks().usable(),
        ahead: gpu.ahead.load(Relaxed),
        front: gpu.front.load(Relaxed),
    };
    EvictConfig::of(p, &memory)
}

/// As `gpu_fault::is_crowded`, for one that others leave no more than its share.
fn is_cramped(gpu: &Gpu, by: Option<u8>) -> bool {
    let share = by.and_then(|by| gpu.chunks().share_of(by));
    share.is_some_and(|share| gpu.front.load(Relaxed) >= share)
}

/// Frees a chunk of `gpu`, and takes it in hand. `in_fault`: a GPU waits for it.
///
/// # Errors
/// `ENOMEM` after a bounded number of tries, `EIO` if the GPU is lost.
#[inline(never)] // stack
pub(crate) fn make_room(
    gpu: &Arc<Gpu>,
    space: Option<&Space>,
    in_fault: bool,
    room: &mut Room,
) -> Result {
    let (mut order, tries, enabled) = {
        let p = match space {
            Some(s) => policy::in_force(s, Some(gpu)),
            None => policy::of_gpu(gpu),
        };
        (
            order(gpu, &p),
            p.get(KnobId::EvictRetriesMax),
            p.is_on(KnobId::EvictEnable),
        )
    };
    let by = space.and_then(|s| s.on_gpu(gpu.index())).map(|sg| sg.veid);
    let started = time::now_ns();
    if started < gpu.turns_until.load(Relaxed) {
        // What came with the last rounds stays, for the one whose turn it is.
        order.order = match gpu.turn_by_chance.load(Relaxed) {
            true => VictimOrder::Random,
            false => VictimOrder::LeastRecentlyMigrated,
        };
    } else if in_fault && (gpu.crowded.load(Relaxed) || is_cramped(gpu, by)) {
        order.order = VictimOrder::Random;
    }
    let _waits = in_fault.then(|| Demand::new(gpu));
    let need = space.map_or(Need::Owner, Need::Of);
    let mut why = ENOMEM;
    let (mut tried, mut idle, mut silent) = (0, 0, 0);
    let (mut own_first, mut fair) = (false, true);
    let mut waiting = None;
    while tried < tries && idle < ALL_BUSY_TURNS {
        if gpu.is_lost() {
            return Err(EIO);
        }
        if let Some(chunk) = gpu.chunks().take_free() {
            room.hold(gpu, chunk, &Tracker::EMPTY);
            return Ok(());
        }
        // What was lent comes back before anything of its own goes; but if it does not, as without host memory for it, or goes out of
        // service on its way, its own does in turn.
        let back = match own_first {
            false => harvest::reclaim(gpu, in_fault, room),
            true => None,
        };
        match back {
            Some(Ok(())) => return Ok(()),
            Some(Err(e)) => {
                tried += u64::from(!outlasts(gpu, e, &mut silent));
                why = e;
                own_first = enabled;
                continue;
            }
            None if !enabled => break,
            None => own_first = false,
        }
        let Some(victim) = gpu.chunks().take_victim(&order, by, fair) else {
            let listed = || {
                let listed = Waiting::on(What::Chunk, gpu.index(), 0, ALL_BUSY_BOUND_NS);
                (listed, time::now_ns())
            };
            let (_, since) = waiting.get_or_insert_with(listed);
            let waited = time::now_ns().saturating_sub(*since);
            // Or all of its memory failed: nobody can give any back.
            if gpu.chunks().usable() == 0 {
                break;
            }
            if waited >= ALL_BUSY_NS {
                waits::tell();
                break;
            }
            idle += 1;
            time::sleep_us(ALL_BUSY_US);
            continue;
        };
        waiting = None;
        let recent = victim.recent;
        match evict(gpu, victim, need, in_fault, room) {
            Ok(()) => {
                let took = time::now_ns().saturating_sub(started);
                account::count(Some(gpu), space, Counter::EvictNs, took);
                return Ok(());
            }
            Err(e) => {
                tried += u64::from(!outlasts(gpu, e, &mut silent));
                why = e;
                // Not the same one again, nor only those of who has too much.
                if e != EAGAIN {
                    fair = false;
                    // It is among the youngest again, which are what makes way first in a cycle, whoever chose that order.
                    if recent {
                        order.order = VictimOrder::Random;
                    }
                }
            }
        }
    }
    Err(if why == EIO { EIO } else { ENOMEM })
}

/// Waits until the call is over that makes room on `gpu` for a block, for as long as it may take to find a chunk.
///
/// # Errors
/// `EINTR`.
#[inline(never)] // stack
pub(super) fn lets_other_call(gpu: &Gpu, block: &Block) -> Result {
    let _listed = Waiting::on(What::Chunk, gpu.index(), 0, ALL_BUSY_BOUND_NS);
    let since = time::now_ns();
    while block.is_made_room_for() {
        if task::fatal_signal_pending() {
            return Err(EINTR);
        }
        if time::now_ns().saturating_sub(since) >= ALL_BUSY_NS {
            break;
        }
        time::sleep_us(ALL_BUSY_US);
    }
    Ok(())
}

/// Waits for a moment if the GPU says nothing, which made an eviction fail with `e` and would the next one; `turns` so far. Whether it did.
#[cold]
fn outlasts(gpu: &Gpu, e: Error, turns: &mut u32) -> bool {
    if e != EAGAIN || *turns >= AGAIN_MAX || gpu.answers() {
        return false;
    }
    *turns += 1;
    time::sleep_us(MOMENT_US);
    true
}

/// Empties one chunk, and takes it in hand.
#[inline(never)] // stack
pub(super) fn evict(
    gpu: &Arc<Gpu>,
    victim: Victim,
    need: Need<'_>,
    in_fault: bool,
    room: &mut Room,
) -> Result {
    let pool = gpu.chunks();
    let Victim {
        chunk,
        owner,
        recent,
        passed,
    } = victim;
    account::count(Some(gpu), None, Counter::VictimsPassedOver, passed.into());
    let Some(block) = owner else {
        pool.abort(chunk);
        return Err(EAGAIN);
    };
    let mut after = Tracker::EMPTY;
    match empty(gpu, &block, chunk.id(), need, in_fault, &mut after) {
        Ok(()) => {
            let n = u64::from(recent);
            account::count(Some(gpu), Some(block.space()), Counter::EvictionsRecent, n);
            let free = pool.hand_over(chunk)?;
            room.hold(gpu, free, &after);
            Ok(())
        }
        Err(e) => {
            pool.abort(chunk);
            Err(e)
        }
    }
}

/// What to do about a chunk that is to be emptied.
enum Next {
    /// These pages go there, where there is room for them; no GPU has any of the block mapped.
    Copy(PageMask, Place),
    /// A GPU was lost meanwhile: look again.
    Again,
    /// Another block's chunk in spare memory is to make way, without this one's lock.
    Replace,
    /// The block let go of it in the meantime.
    NotThere,
}

/// Decides where the pages of chunk `id` go, and makes ready for that.
///
/// # Errors
/// As [`empty`].
#[inline(never)] // stack
fn prepare(
    gpu: &Arc<Gpu>,
    block: &Arc<Block>,
    s: &mut State,
    id: ChunkId,
    need: Need<'_>,
    may_replace: &mut bool,
) -> Result<Next> {
    let g = gpu.index();
    let space = block.space();
    let p = policy::in_force(space, Some(gpu));
    let valid = match s.part(g) {
        Some(p) if p.chunk == Some(id) && Arc::ptr_eq(&p.sg.gpu, gpu) => p.valid,
        _ => return Ok(Next::NotThere),
    };
    let only = valid.and_not(&s.stays_beside(Place::Gpu(g)));
    // From a neighbour it comes back sooner, so what the host has goes there as well; but nothing makes way for that, nor does an
    // engine try to read what is known to have failed.
    let mut near = only;
    let borrows = p.is_on(KnobId::HarvestBorrow);
    if borrows && p.is_on(KnobId::KeepHostCopy) {
        let beside = valid.and(&s.host_valid).and_not(&s.in_spare());
        near |= beside.and_not(&s.unfit(Place::Gpu(g)));
    }
    let is_clean = only.is_empty();
    let found =
        (borrows && !near.is_empty()).then(|| harvest::find_spare(s, block, gpu, is_clean, &p));
    let dst = match found {
        // What is known to have failed there and is not condemned yet would not keep them.
        Some(Found::Chunk) if !near.intersects(&s.unfit(Place::Spare)) => Place::Spare,
        // Once: another block makes way, whose lock is not taken under this one's.
        Some(Found::Removable)
            if !is_clean
                && core::mem::take(may_replace)
                && SpareReplace::of(&p).allows(gpu.channels().pending(Engine::DeviceToHost)) =>
        {
            return Ok(Next::Replace);
        }
        _ => Place::Host,
    };
    if dst == Place::Host {
        if let Err(e) = pool::host_memory(gpu, space, s, &only, &p, need) {
            // A chunk that was just borrowed, and is unfit.
            s.release_empty_chunks();
            return Err(e);
        }
    }
    map::unmap_gpus(s, &valid);
    // Who does not acknowledge that is lost, and what it had beside this GPU is here alone now.
    let stays = s.stays_beside(Place::Gpu(g)).or(&only);
    if !valid.and_not(&stays).is_empty() {
        return Ok(Next::Again);
    }
    let copy = if dst == Place::Host { only } else { near };
    Ok(Next::Copy(copy, dst))
}

/// Takes the chunk from its block, pages on their way to the host. `after`, empty so far, is what ends that.
///
/// # Errors
/// `ENOMEM` without host memory, `EIO`, `EAGAIN` while another GPU that has some of it answers now and then; the block still has the chunk.
#[inline(never)] // stack
pub(super) fn empty(
    gpu: &Arc<Gpu>,
    block: &Arc<Block>,
    id: ChunkId,
    need: Need<'_>,
    in_fault: bool,
    after: &mut Tracker,
) -> Result {
    let g = gpu.index();
    let space = block.space();
    let (mut may_replace, mut turns) = (true, 0);
    let (mut s, copy, dst) = loop {
        let mut s = block.settled();
        match prepare(gpu, block, &mut s, id, need, &mut may_replace)? {
            Next::Copy(pages, dst) => break (s, pages, dst),
            Next::Again if turns >= AGAIN_MAX => return Err(EAGAIN),
            Next::Again => turns += 1,
            Next::Replace => {
                drop(s);
                let p = policy::in_force(space, Some(gpu));
                let _else_to_the_host = harvest::replace(gpu, &p);
            }
            Next::NotThere => return Ok(()),
        }
    };
    block.begin_sending();
    let did = match dst {
        Place::Spare => super::migrate::submit_to_spare(block, &mut s, gpu, &copy, after)
            .map(|()| PageMask::EMPTY),
        _ if copy.is_empty() => Ok(PageMask::EMPTY),
        // From what is given away: another copy, if there is one, failed.
        _ => super::migrate::submit_chunk_to_host(block, &mut s.host, (gpu, id), &copy, after),
    };
    if let Err(e) = did {
        s.sends(|| Inflight {
            tracker: *after,
            pages: PageMask::EMPTY,
            dst,
            others: Others::Stay,
            given: None,
            skipped: PageMask::EMPTY,
            overtaken: None,
        });
        return Err(e);
    }
    if !copy.is_empty() {
        let cause = uapi::HUVM_CAUSE_EVICTION;
        super::migrate::report(block, &s, dst, cause, &copy);
    }
    if let Some(part) = s.part_mut(g) {
        part.returns.leaves();
        part.votes(false);
        part.valid = PageMask::EMPTY;
        part.chunk = None;
        part.departed = Some(Departure::of(gpu, id));
    }
    s.left(g);
    s.writes.left();
    s.sends(|| Inflight {
        tracker: *after,
        pages: copy,
        dst,
        others: Others::Stay,
        given: Some((gpu.clone(), id)),
        skipped: did.unwrap_or(PageMask::EMPTY),
        overtaken: None,
    });
    s.last_cause = uapi::HUVM_CAUSE_EVICTION;
    drop(s);
    let bytes = u64::from(copy.count().get()) * PAGE_BYTES;
    for (counter, n) in [
        (Counter::Evictions, 1),
        (Counter::EvictionBytes, bytes),
        (Counter::EvictionsClean, u64::from(copy.is_empty())),
        (Counter::EvictionsInFault, u64::from(in_fault)),
        (Counter::SpareEvictions, u64::from(dst == Place::Spare)),
    ] {
        account::count(Some(gpu), Some(space), counter, n);
    }
    events::emit(
        Some(space),
        &events::Event {
            kind: uapi::HUVM_EVENT_EVICT,
            cause: uapi::HUVM_CAUSE_EVICTION,
            gpu: u32::from(g),
            va: block.va(),
            length: BLOCK_BYTES,
            arg0: u64::from(id.0),
            arg1: u64::from(in_fault),
        },
    );
    Ok(())
}

/// Evicts up to `max` chunks now. Returns how many.
///
/// # Errors
/// `ENOMEM`, `EIO` when not even one could be.
#[inline(never)] // stack
pub(crate) fn some(gpu: &Arc<Gpu>, max: u32) -> Result<u32> {
    let (mut done, mut passed) = (0, 0);
    while done < max {
        let Some(victim) = gpu.chunks().take_victim(&EvictConfig::LRM, None, false) else {
            break;
        };
        // Dropping the room waits for the copy and frees the chunk.
        match evict(gpu, victim, Need::Owner, false, &mut Room::empty()) {
            Ok(()) => done += 1,
            // It is out of service now that it is empty, or its block let go of it: the next.
            Err(e) if e == EAGAIN && passed < gpu.chunks().count() => passed += 1,
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// For tests: leaves `chunks` of the GPU usable (0 = all).
///
/// # Errors
/// `EINVAL` for more than there are; `EBUSY` if others keep the chunks too busy.
pub(crate) fn limit(gpu: &Arc<Gpu>, chunks: u32) -> Result {
    let done = retire_to(gpu, chunks);
    // What it keeps and lends at most are parts of them.
    policy::note_change();
    done
}

fn retire_to(gpu: &Arc<Gpu>, chunks: u32) -> Result {
    let pool = gpu.chunks();
    let want = if chunks == 0 { pool.count() } else { chunks };
    if want > pool.count() {
        return Err(EINVAL);
    }
    pool.unretire(want);
    let mut waiting = None;
    // Every turn retires a chunk, or evicts one, or finds them all in flight.
    for _ in 0..pool.count().saturating_mul(4) {
        if pool.usable() <= want {
            return Ok(());
        }
        match pool.take_free() {
            Some(chunk) => pool.retire(chunk),
            None => {
                if some(gpu, 1).unwrap_or(0) == 0 {
                    waiting.get_or_insert_with(|| {
                        Waiting::on(What::Chunk, gpu.index(), 0, ALL_BUSY_BOUND_NS)
                    });
                    time::sleep_us(ALL_BUSY_US);
                }
            }
        }
    }
    Err(EBUSY)
}
