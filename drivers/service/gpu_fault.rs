// SPDX-License-Identifier: GPL-2.0
//! The fault service thread of a GPU.
//!
//! A run takes batches of packets until the ring is empty or policy ends the run. A batch is sorted and deduplicated by
//! `huvm_policy::batch`, then goes through two passes: the first starts the copies of every block (so that they overlap),
//! the second waits for each, without a lock, and maps. Memory that failed is taken out of service before ([`ecc`]). Then faults that cannot be served are cancelled, each for its
//! client alone, and the rest is replayed. What the ring has by then is dropped, as it comes again, but for some of each client that
//! the batch had nothing of: those are a batch of their own.

use super::ecc;
use super::evict::{self, Room};
use super::launch::LaunchFailure;
use super::migrate::{self, Move, Stop};
use super::parallel::{self, Blocks, Sent};
use super::placement::{self, Plan};
use super::prefetch::InStream;
use super::relay::{self, Ways};
use super::{launch, map, prefetch, thrash};
use crate::account::latency::Kind as Latency;
use crate::account::{self, counters::Counter, events, policy};
use crate::device::faults::{FaultState, Packet};
use crate::device::Gpu;
use crate::kernel::ffi::uapi;
use crate::kernel::time;
use crate::memory::block::{Block, Others, State};
use crate::memory::clients::Client;
use crate::memory::gpu_space::SpaceGpu;
use crate::memory::space::Space;
use crate::memory::{PageMask, PageRegion, Place, PAGE_BYTES};
use huvm_hal::ga100::fault as hw;
use huvm_hal::ga100::invalidate::CancelAccess;
use huvm_policy::batch::{
    self, BatchStats, Fault, FlushMode, LeftOut, ReplayConfig, ServiceRun, Spared,
};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::grain::Grain;
use huvm_policy::prefetch::tree_prefetch;
use huvm_policy::returns::is_half;
use huvm_policy::standstill::{self, Turns};
use huvm_policy::types::{Access, GpuId, Nanos};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Packets of a batch, at most (range of the knob `fault_batch_max`).
const BATCH_LIMIT: usize = 4096;

/// One block of a batch between the passes.
struct Work {
    block: Arc<Block>,
    sg: Arc<SpaceGpu>,
    /// Pages that faulted.
    faulted: PageMask,
    /// Of these, pages that want to write.
    write: PageMask,
    /// Of these, pages that want to do so atomically.
    atomic: PageMask,
    /// There are fatal faults beside these.
    fatal: bool,
    /// The streams of its space were told of it ([`note`]).
    noted: bool,
    /// What they said, where they are looked for.
    stream: Option<InStream>,
    /// It came back too often ([`Comings`](huvm_policy::standstill::Comings)).
    stands: bool,
    /// First block of the range that it is in, where somebody asks for it.
    range: u64,
    /// What becomes of them, once it was decided.
    plan: Option<Plan>,
    /// The first pass is over.
    begun: bool,
    /// Why it could not be served.
    failed: Option<Error>,
    /// When its batch was fetched, ns.
    fetched_ns: u64,
    /// Number of its batch.
    batch: u64,
    /// And of replays before.
    round: u64,
}

/// Buffers of a service thread, allocated once.
pub(crate) struct Service {
    raw: KVVec<Packet>,
    /// Whose packets a flush keeps.
    left_out: KBox<LeftOut>,
    /// Blocks that the last batch was about, with those that it shares a replay with.
    front: usize,
    faults: KVVec<Fault>,
    work: KVVec<Work>,
    /// Blocks with pages pinned on the host, and when the first pin of each ends, ns.
    pins: KVVec<(u64, Arc<Block>)>,
    /// Batches in a row with faults for memory that failed about which the GPUs reported nothing new.
    blind: u32,
    /// When faults were served last, or a replay was sent without any, ns.
    served_ns: u64,
    /// Faults that were not cancelled, as they may be of accesses that are over.
    spared: Spared,
    /// Batches that were served.
    batches: u64,
    /// Replays that there was something to serve behind, and whether there was one since that was last so.
    rounds: u64,
    replayed: bool,
    /// Of those whom what is brought in gets no further.
    turns: KBox<Turns>,
}

/// Without a fault for so long nobody takes turns any more.
const TURNS_NS: u64 = 1_000_000_000;

/// There are launches and no fault for so long: one may have been lost on its way.
const MISSED_NS: u64 = 100_000_000;

/// So many of them are late packets; what a GPU goes on to fault on after that is taken to have failed although it reports nothing.
const BLIND_MAX: u32 = 64;

/// Blocks with pins that are remembered.
const PINS: usize = 256;

/// Why a fault is cancelled.
#[derive(Clone, Copy)]
struct Reason {
    error: u32,
    fault_type: u32,
}

impl Reason {
    /// It is about what is mapped where.
    fn is_of_ranges(self) -> bool {
        let t = self.fault_type;
        self.error == OUTSIDE.error && (t == OUTSIDE.fault_type || t == READ_ONLY.fault_type)
    }
}

const OUTSIDE: Reason = Reason {
    error: uapi::HUVM_ERROR_FAULT,
    fault_type: 2, // PTE, hw-interface.md 1.3
};
const ECC: Reason = Reason {
    error: uapi::HUVM_ERROR_ECC,
    fault_type: 0xe, // POISONED
};
const UNREADABLE: Reason = Reason {
    error: uapi::HUVM_ERROR_CANCELLED,
    fault_type: OUTSIDE.fault_type,
};
const READ_ONLY: Reason = Reason {
    error: uapi::HUVM_ERROR_FAULT,
    fault_type: 6, // RO_VIOLATION
};

impl Service {
    /// Allocates the buffers.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Service {
            raw: KVVec::with_capacity(BATCH_LIMIT, GFP_KERNEL)?,
            left_out: nobody()?,
            front: 0,
            faults: KVVec::with_capacity(BATCH_LIMIT, GFP_KERNEL)?,
            work: KVVec::with_capacity(BATCH_LIMIT, GFP_KERNEL)?,
            pins: KVVec::with_capacity(PINS, GFP_KERNEL)?,
            blind: 0,
            served_ns: 0,
            spared: Spared::new(),
            batches: 0,
            rounds: 0,
            replayed: true,
            turns: nobodys()?,
        })
    }

    /// One run: serves what is in the ring, a bounded number of batches.
    pub(crate) fn run(&mut self, gpu: &Arc<Gpu>, ring: &mut FaultState) {
        let started = time::now_ns();
        let exposed = &gpu.latencies().exposed;
        exposed.serving(started);
        self.unpin(started);
        let config = ReplayConfig::of(&policy::of_gpu(gpu));
        let mut run = ServiceRun::new();
        let (mut served_any, mut missed) = (false, false);
        while !gpu.is_lost() && run.may_go_on(&config) {
            let max = usize::try_from(config.batch_max).map_or(BATCH_LIMIT, |m| m.min(BATCH_LIMIT));
            match ring.drain(gpu, &mut self.raw, max) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_told) => {
                    missed = true;
                    break;
                }
            }
            served_any = true;
            let per_block = batch::after_block(&config);
            let (stats, replayed) = self.batch(gpu, per_block, 0);
            run.note_batch(&stats);
            if per_block {
                // What none of its blocks could be served for faults again all the same.
                if !replayed {
                    self.replay(gpu, false);
                }
                run.note_replay();
            }
            let plan = batch::after_batch(&stats, &config);
            if plan.flush != FlushMode::None {
                missed |= self.flush(gpu, ring).is_err();
                if !self.raw.is_empty() {
                    run.note_batch(&self.batch(gpu, false, self.front).0);
                }
            }
            if plan.replay {
                self.replay(gpu, plan.wait);
                run.note_replay();
            }
        }
        if !served_any && !gpu.is_lost() {
            ring.look_for_hidden(gpu);
        }
        // Errors were told.
        if ring.recover(gpu) == Ok(true) {
            account::count(Some(gpu), None, Counter::Overflows, 1);
            // What faulted meanwhile left no packet, not even after a replay of this run.
            (served_any, missed) = (true, true);
        }
        if (missed || served_any && run.replay_at_end()) && !gpu.is_lost() {
            self.replay(gpu, true);
        } else if !served_any {
            self.replay_blindly(gpu, started);
        }
        let ended = time::now_ns();
        if gpu.channels().fetches_nothing() {
            exposed.idle_until(ended);
        }
        let alone = exposed.served();
        if served_any {
            self.served_ns = ended;
            let took = ended.saturating_sub(started);
            account::count(Some(gpu), None, Counter::ServiceNs, took);
            account::count(Some(gpu), None, Counter::ExposedNs, alone);
        }
    }

    fn replay(&mut self, gpu: &Gpu, wait: bool) {
        replay(gpu, wait);
        self.replayed = true;
    }

    /// Drops what came behind a batch, and leaves in `raw` what must not be dropped ([`LeftOut`]).
    ///
    /// # Errors
    /// The ring's, which were told.
    #[inline(never)] // stack
    fn flush(&mut self, gpu: &Gpu, ring: &mut FaultState) -> Result {
        let left_out = &mut self.left_out;
        left_out.clear();
        for (_, p) in &self.raw {
            left_out.served(p.instance);
        }
        // One has nobody before it.
        let several = gpu.clients().count() > 1;
        let did = ring.flush(gpu, |of| several && left_out.keeps(of), &mut self.raw);
        let n = did?;
        if n != 0 {
            // CAST: no more than were dropped.
            let dropped = u64::from(n).saturating_sub(self.raw.len() as u64);
            account::count(Some(gpu), None, Counter::Flushes, 1);
            account::count(Some(gpu), None, Counter::Faults, dropped);
            account::count(Some(gpu), None, Counter::FaultDuplicates, dropped);
        }
        Ok(())
    }

    /// Nothing was there to be served. A packet that the device lost, without an overflow, comes again with a replay.
    #[inline(never)] // stack
    fn replay_blindly(&mut self, gpu: &Gpu, now: u64) {
        if now.saturating_sub(self.served_ns) < MISSED_NS
            || gpu.is_lost()
            || !gpu.launches().are_there()
        {
            return;
        }
        self.served_ns = now;
        account::count(Some(gpu), None, Counter::BlindReplays, 1);
        if let Err(e) = gpu.replay(false) {
            gpu.complain("replay not acknowledged", e);
        }
    }

    /// The GPU is lost: nothing of it is pinned, and nobody's memory is kept for that.
    pub(crate) fn forget_pins(&mut self) {
        self.pins.clear();
    }

    /// Ends pins whose time is over: the next access faults, and moves the page.
    #[inline(never)] // stack
    fn unpin(&mut self, now: u64) {
        self.pins.retain(|(until, block)| {
            if now < *until {
                // On each run: who has it locked may take long.
                return block.try_lock().is_none_or(|s| !s.dead);
            }
            match end_pins(block, Nanos(now)) {
                Some(Nanos(next)) => {
                    *until = next;
                    true
                }
                None => false,
            }
        });
    }

    /// Serves the packets in `raw`, which share a replay with a batch about `before` blocks. Says too whether a replay was sent, as after each block that was served if `per_block`.
    #[inline(never)] // stack
    fn batch(&mut self, gpu: &Arc<Gpu>, per_block: bool, before: usize) -> (BatchStats, bool) {
        let raw_count = self.raw.len();
        let fetched_ns = time::now_ns();
        self.batches = self.batches.wrapping_add(1);
        self.translate(gpu, fetched_ns);
        let left = self.leave_to_turns(gpu, fetched_ns, before);
        // They come again, and count then.
        let raw_count = raw_count.saturating_sub(left);
        let unique = batch::sort_and_dedup(&mut self.faults);
        self.faults.truncate(unique);
        let mut stats = BatchStats::new(
            u32::try_from(raw_count).unwrap_or(u32::MAX),
            u32::try_from(unique).unwrap_or(u32::MAX),
        );
        account::count(Some(gpu), None, Counter::FaultBatches, 1);
        account::count(Some(gpu), None, Counter::Faults, stats.raw.into());
        account::count(
            Some(gpu),
            None,
            Counter::FaultDuplicates,
            stats.duplicates.into(),
        );
        let (poor, mut short) = (self.gather(gpu, fetched_ns), Subcontexts(0));
        let mut replayed = false;
        self.front = before.saturating_add(self.work.len());
        let crowded = is_crowded(gpu, self.front);
        gpu.crowded.store(crowded, Relaxed);
        note_front(gpu, self.front);
        if !per_block {
            fetch_in_parallel(gpu, &mut self.work);
        }
        for work in self.work.iter_mut() {
            let veid = work.sg.veid;
            if !work.begun && short.has(veid) {
                work.failed = Some(ENOMEM);
                continue;
            }
            if !work.begun {
                first_pass(gpu, work);
            }
            if work.failed == Some(ENOMEM) {
                short.add(veid);
            }
            if per_block && work.failed.is_none() {
                // The replay comes before the next block is looked at, so nothing overlaps; the policy says so.
                work.failed = second_pass(gpu, work).err();
                replay(gpu, false);
                (replayed, self.replayed) = (true, true);
            }
            let plan = work.plan.as_ref();
            let throttled = plan.map_or(0, |p| p.throttled.count().get());
            stats.throttled = stats.throttled.saturating_add(throttled);
            if work.stands && self.turns.begin(veid, work.sg.made_ns(), self.rounds) {
                account::count(Some(gpu), None, Counter::Standstills, 1);
            }
        }
        for work in self.work.iter_mut() {
            if work.failed.is_none() && !per_block {
                work.failed = second_pass(gpu, work).err();
            }
            // Now that they are mapped where they are pinned.
            if let Some(until) = work.plan.as_ref().and_then(|p| p.unpin_ns) {
                remember(&mut self.pins, &work.block, until);
            }
        }
        self.finish(gpu, (raw_count, unique), fetched_ns, &poor);
        (stats, replayed)
    }

    /// Takes out of the batch what waits for others' turns ([`Turns`]). So many faults. Of a batch that shares its replay with one about
    /// `before` blocks all are served: they are a few of clients that others leave no other place.
    #[inline(never)] // stack
    fn leave_to_turns(&mut self, gpu: &Gpu, fetched_ns: u64, before: usize) -> usize {
        let begins = core::mem::replace(&mut self.replayed, false);
        self.rounds = self.rounds.wrapping_add(begins.into());
        let (round, turns) = (self.rounds, &mut self.turns);
        if !turns.are_taken(round) {
            gpu.turns_until.store(0, Relaxed);
            return 0;
        }
        if begins {
            let chunks = gpu.chunks().usable();
            let whose = turns.choose(round, &self.faults);
            let share = whose.and_then(|veid| gpu.chunks().share_of(u8::try_from(veid).ok()?));
            turns.leaves(standstill::beside(share.unwrap_or(chunks).min(chunks)));
        }
        gpu.turn_by_chance.store(turns.by_chance(), Relaxed);
        gpu.turns_until
            .store(fetched_ns.saturating_add(TURNS_NS), Relaxed);
        if before != 0 {
            return 0;
        }
        let all = self.faults.len();
        self.faults.retain(|f| turns.serves(round, f));
        all.saturating_sub(self.faults.len())
    }

    /// Looks up the blocks of the faults. Gives back the clients that have no memory for one more.
    #[inline(never)] // stack
    fn gather(&mut self, gpu: &Arc<Gpu>, fetched_ns: u64) -> Subcontexts {
        self.work.clear();
        // Clients that have no more memory: for one more block, or for one that is there. To find that out may take the kernel long, so it
        // is asked once for each, and not all the time: one access of theirs is cancelled, and what else they want faults again.
        let mut poor = Subcontexts(0);
        for group in batch::groups(&self.faults) {
            let Some(client) = client_of(gpu, group.space, fetched_ns) else {
                continue;
            };
            let may_make = !poor.has(client.sg.veid);
            match begin(
                gpu,
                &client,
                group,
                may_make,
                (self.batches, self.rounds, fetched_ns),
            ) {
                Ok(work) => {
                    if self.work.push_within_capacity(work).is_err() {
                        break;
                    }
                }
                Err(e) if e == ENOMEM => poor.add(client.sg.veid),
                Err(_) => {}
            }
        }
        for of_space in self
            .work
            .chunk_by(|a, b| Arc::ptr_eq(a.block.space(), b.block.space()))
        {
            if let Some(w) = of_space.first() {
                events::wake(w.block.space());
            }
        }
        poor
    }

    /// Packets to faults with known clients. Packets of clients that are gone are dropped: a cancel has ended, or will
    /// end, their launches.
    #[inline(never)] // stack
    fn translate(&mut self, gpu: &Arc<Gpu>, fetched_ns: u64) {
        self.faults.clear();
        let failed = |p: &hw::Fault| p.fault_type == hw::FaultType::Poisoned;
        if self.raw.iter().any(|(_, p)| failed(p)) {
            self.blind = match ecc::attend(gpu) {
                true => 0,
                false => self.blind.saturating_add(1),
            };
        }
        let blindly = self.blind > BLIND_MAX;
        let mut last: Option<(u64, u8)> = None;
        for (i, (number, p)) in self.raw.iter().enumerate() {
            let veid = match last {
                Some((instance, veid)) if instance == p.instance => veid,
                _ => match gpu.clients().by_instance(p.instance) {
                    // An instance block may lie where one of somebody else lay.
                    Some((_, client)) if *number < client.sg.first_packet() => continue,
                    Some((veid, client)) => {
                        last = Some((p.instance, veid));
                        self.turns.met(veid, client.sg.made_ns());
                        client.space.counters.add(Counter::FaultBatches, 1);
                        veid
                    }
                    None => continue,
                },
            };
            let mut f = Fault::new(u32::from(veid), p.va.0, access_of(p.access));
            f.seq = u16::try_from(i).unwrap_or(u16::MAX);
            f.timestamp_ns = p.timestamp_ns;
            f.client.engine = p.engine;
            f.client.client = p.client;
            f.client.gpc = p.gpc.unwrap_or(0);
            f.is_fatal = matches!(p.fault_type, hw::FaultType::Fatal(_))
                || (failed(p) && !relieve(gpu, (veid, fetched_ns), p.va.0, blindly));
            if self.faults.push_within_capacity(f).is_err() {
                break;
            }
        }
    }

    /// Cancels what could not be served, and reports the batch.
    ///
    /// One cancel per client and batch, at most: it ends the launch that faulted. A second one, made from the same packets, could
    /// hit a launch that the client started after it saw the first end; what else is fatal faults again after the replay. So does
    /// what may be of an access that is over ([`Spared`]), if it is not.
    #[inline(never)] // stack
    fn finish(
        &mut self,
        gpu: &Arc<Gpu>,
        (raw, unique): (usize, usize),
        fetched_ns: u64,
        poor: &Subcontexts,
    ) {
        let mut judged = Subcontexts(0);
        // Groups and work are in the same order; a group whose block does not exist has no work.
        let mut works = self.work.iter().peekable();
        for group in batch::groups(&self.faults) {
            let work = works
                .next_if(|w| w.block.va() == group.block_va && u32::from(w.sg.veid) == group.space);
            // As good as always: all of it was legal, and was served.
            if work.is_some_and(is_clean) {
                continue;
            }
            // Not its new owner, if it has one since: what the old one did wrong is none of his.
            let client = client_of(gpu, group.space, fetched_ns);
            let Some(client) = client.filter(|c| !judged.has(c.sg.veid)) else {
                continue;
            };
            let guilty = group.faults.iter().find_map(|f| {
                let reason = if f.is_fatal {
                    let packet = self.raw.get(usize::from(f.seq));
                    let fault_type =
                        packet.map_or(OUTSIDE.fault_type, |(_, p)| type_code(p.fault_type));
                    Some(match fault_type {
                        t if t == ECC.fault_type => ECC,
                        fault_type => Reason {
                            fault_type,
                            ..OUTSIDE
                        },
                    })
                } else {
                    match work {
                        Some(w) => judge(w, f),
                        None if poor.has(client.sg.veid) => {
                            Some(match client.space.manages(f.va) {
                                true => unmade(ENOMEM),
                                false => OUTSIDE,
                            })
                        }
                        // Asked again: it may be the new owner's now.
                        None => client.space.block_at(f.va).err().map(unmade),
                    }
                };
                reason.map(|r| (f, r))
            });
            let Some((f, reason)) = guilty else {
                continue;
            };
            judged.add(client.sg.veid);
            let made = client.sg.made_ns();
            let changed = match reason.is_of_ranges() && !f.is_fatal {
                true => made.max(client.space.unmapped_ns()),
                false => made,
            };
            if !may_be_over(&mut self.spared, gpu, &client, f, changed) {
                cancel(gpu, &client, f, reason);
            }
        }
        events::emit(
            None,
            &events::Event {
                kind: uapi::HUVM_EVENT_REPLAY,
                cause: uapi::HUVM_CAUSE_GPU_FAULT,
                gpu: u32::from(gpu.index()),
                va: 0,
                length: 0,
                arg0: u64::try_from(raw).unwrap_or(u64::MAX),
                arg1: u64::try_from(unique).unwrap_or(u64::MAX),
            },
        );
        // The blocks must not be kept beyond the batch.
        self.work.clear();
    }
}

/// For the packets that a flush keeps.
#[inline(never)] // stack
fn nobody() -> Result<KBox<LeftOut>> {
    Ok(KBox::new(LeftOut::new(), GFP_KERNEL)?)
}

/// For those who take turns.
#[inline(never)] // stack
fn nobodys() -> Result<KBox<Turns>> {
    Ok(KBox::new(Turns::new(), GFP_KERNEL)?)
}

/// Who has a subcontext whose packets were fetched at `fetched_ns`, and had it then: who came since has nothing to do with them.
fn client_of(gpu: &Gpu, veid: u32, fetched_ns: u64) -> Option<Client> {
    let client = gpu.clients().get(u8::try_from(veid).ok()?)?;
    (client.sg.made_ns() < fetched_ns).then_some(client)
}

/// Whether a fault was raised before something changed at `changed`, ns ([`Spared`]): its client unmapped something, or came to be one. Of
/// the one who had the subcontext before packets may still come, and reasons: what that one lacked, memory too, costs nobody else a launch.
fn may_be_over(spared: &mut Spared, gpu: &Gpu, client: &Client, f: &Fault, changed: u64) -> bool {
    let Ok(gpu_now) = gpu.ptimer_ns() else {
        return false;
    };
    let age = gpu_now.saturating_sub(f.timestamp_ns);
    let now = time::now_ns();
    let who = (client.sg.veid, client.sg.made_ns());
    spared.spares(who, now.saturating_sub(age), changed, now)
}

/// Whether a batch about so many blocks cannot all be there at once. Then some accesses lack a page after the replay, and those
/// that need two blocks may lack one each, the same after each replay: victims are chosen by chance, so that sooner or later both
/// are there.
fn is_crowded(gpu: &Gpu, blocks: usize) -> bool {
    u32::try_from(blocks).is_ok_and(|n| n > 1 && n >= gpu.chunks().usable())
}

/// A batch is about so many blocks. The most is forgotten by an eighth with each batch.
fn note_front(gpu: &Gpu, blocks: usize) {
    let before = gpu.front.load(Relaxed);
    let left = before.saturating_sub(before.div_ceil(8));
    let now = u32::try_from(blocks).unwrap_or(u32::MAX);
    gpu.front.store(now.max(left), Relaxed);
}

fn replay(gpu: &Gpu, wait: bool) {
    if let Err(e) = gpu.replay(wait) {
        gpu.complain("replay not acknowledged", e);
    }
    account::count(Some(gpu), None, Counter::Replays, 1);
}

/// Later than every pin ends that ends of itself.
const LASTS_LESS: Nanos = Nanos(u64::MAX - 1);

/// Ends the pins of a block whose time is over at `now`. Returns when the next one is.
fn end_pins(block: &Block, now: Nanos) -> Option<Nanos> {
    let mut s = block.settled();
    if s.dead {
        return None;
    }
    thrash::end_pins(&mut s, now)
}

/// Remembers that pins of a block end. Without room those that would last longest end now, whosever they are: who has them last for
/// days keeps nobody else from any.
#[inline(never)] // stack
fn remember(pins: &mut KVVec<(u64, Arc<Block>)>, block: &Arc<Block>, until: u64) {
    if let Some((t, _)) = pins.iter_mut().find(|(_, b)| Arc::ptr_eq(b, block)) {
        *t = until.min(*t);
        return;
    }
    let Err(full) = pins.push_within_capacity((until, block.clone())) else {
        return;
    };
    let longest = pins.iter_mut().max_by_key(|(t, _)| *t);
    let (_, goes) = match longest.filter(|(t, _)| *t > until) {
        Some(longest) => core::mem::replace(longest, full.0),
        None => full.0,
    };
    let _none_is_left = end_pins(&goes, LASTS_LESS);
}

/// See [`ecc::relieve`]; what is nobody's any more needs none.
fn relieve(gpu: &Arc<Gpu>, (veid, fetched_ns): (u8, u64), va: u64, blindly: bool) -> bool {
    let client = client_of(gpu, veid.into(), fetched_ns);
    client.is_none_or(|client| ecc::relieve(gpu, &client, va, blindly))
}

fn access_of(a: hw::AccessType) -> Access {
    match a {
        hw::AccessType::Read => Access::Read,
        hw::AccessType::Write => Access::Write,
        hw::AccessType::AtomicStrong => Access::AtomicStrong,
        hw::AccessType::AtomicWeak => Access::AtomicWeak,
        hw::AccessType::Prefetch => Access::Prefetch,
        // Physical or unknown: no managed access; taken for the most intrusive.
        _ => Access::AtomicStrong,
    }
}

/// Code of the fault packet (hw-interface.md 1.3).
fn type_code(t: hw::FaultType) -> u32 {
    match t {
        hw::FaultType::Pde => 0,
        hw::FaultType::Pte => 2,
        hw::FaultType::RoViolation => 6,
        hw::FaultType::Poisoned => ECC.fault_type,
        hw::FaultType::AtomicViolation => 0xf,
        hw::FaultType::Fatal(code) => code.into(),
    }
}

/// Whether no fault of a block is to be cancelled.
fn is_clean(w: &Work) -> bool {
    if w.failed.is_some() || w.fatal {
        return false;
    }
    let s = w.block.lock();
    !s.dead && w.faulted.and_not(&legal(&s, w)).is_empty()
}

/// Why a fault is cancelled whose block is not there and could not be made.
fn unmade(e: Error) -> Reason {
    Reason {
        error: if e == ENOMEM {
            uapi::HUVM_ERROR_NO_MEMORY
        } else {
            OUTSIDE.error
        },
        ..OUTSIDE
    }
}

/// Whether a fault of a served block must be cancelled, and why.
fn judge(w: &Work, f: &Fault) -> Option<Reason> {
    if let Some(e) = w.failed {
        return Some(match e == ENOMEM {
            true => unmade(e),
            false => UNREADABLE,
        });
    }
    let s = w.block.lock();
    let page = f.page();
    if s.dead || !s.managed.test(page) {
        return Some(OUTSIDE);
    }
    if s.lost.test(page) {
        return Some(if s.ecc { ECC } else { OUTSIDE });
    }
    if s.out_of_reach().test(page) {
        return Some(UNREADABLE);
    }
    (f.access >= Access::Write && !s.writable.test(page)).then_some(READ_ONLY)
}

fn cancel(gpu: &Arc<Gpu>, client: &Client, f: &Fault, reason: Reason) {
    if f.access == Access::Prefetch {
        // Disappears at the replay (hw-interface.md 1.3).
        return;
    }
    account::count(Some(gpu), Some(&client.space), Counter::FaultsFatal, 1);
    let access_type = hw_access(f.access);
    launch::fail_space(
        gpu,
        &client.space,
        LaunchFailure {
            error: reason.error,
            va: f.va,
            fault_type: reason.fault_type,
            access_type,
        },
    );
    events::emit(
        Some(&client.space),
        &events::Event {
            kind: uapi::HUVM_EVENT_FATAL,
            cause: uapi::HUVM_CAUSE_GPU_FAULT,
            gpu: u32::from(gpu.index()),
            va: f.va,
            length: PAGE_BYTES,
            arg0: reason.fault_type.into(),
            arg1: access_type.into(),
        },
    );
    // A read of a page that may be read is somebody else's, another launch's or a later one's, and was served.
    let only_reads_may = reason.fault_type == READ_ONLY.fault_type;
    let no_reads = !f.accesses.has_read() && !f.accesses.contains(Access::Prefetch);
    let what = if only_reads_may || no_reads {
        CancelAccess::WriteAndAtomic
    } else {
        CancelAccess::All
    };
    if let Err(e) = gpu.cancel(&client.sg, f.va, what) {
        // One that leaves has its launches aborted, and a GPU that does perhaps no channels any more.
        if !client.sg.is_stopped() {
            gpu.complain("cancel not acknowledged", e);
        }
        // Without a channel to cancel with, the access would fault for ever: the launch is ended where it runs.
        launch::stop_space(gpu, &client.space);
    }
}

/// Access code of the fault packet (hw-interface.md 1.3).
fn hw_access(a: Access) -> u32 {
    match a {
        Access::Read => 0,
        Access::Write => 1,
        Access::AtomicStrong => 2,
        Access::Prefetch => 3,
        Access::AtomicWeak => 4,
    }
}

/// A set of subcontexts of a GPU.
struct Subcontexts(u64);

impl Subcontexts {
    const fn bit(veid: u8) -> u64 {
        // All are below 64.
        1 << (veid & 63)
    }

    fn has(&self, veid: u8) -> bool {
        self.0 & Self::bit(veid) != 0
    }

    fn add(&mut self, veid: u8) {
        self.0 |= Self::bit(veid);
    }
}

/// Looks a block up and sorts its faults.
///
/// # Errors
/// `EFAULT`: there is no such block; `ENOMEM`: and none can be made. Every fault of it is fatal.
#[inline(never)] // stack
fn begin(
    gpu: &Arc<Gpu>,
    client: &Client,
    group: batch::Group<'_>,
    may_make: bool,
    (batch, round, fetched_ns): (u64, u64, u64),
) -> Result<Work> {
    let faults = group.faults;
    let at = |f: &Fault| match client.space.block_of_fault(f.va, may_make) {
        Err(e) if e == EFAULT => None,
        found => Some(found),
    };
    let block = faults.iter().find_map(at).ok_or(EFAULT)??;
    debug_assert!(block.va() == group.block_va);
    let (mut faulted, mut write) = (PageMask::EMPTY, PageMask::EMPTY);
    let mut atomic = PageMask::EMPTY;
    for f in faults.iter().filter(|f| !f.is_fatal) {
        faulted.set(f.page());
        if f.access >= Access::Write {
            write.set(f.page());
        }
        if f.access.is_atomic() {
            atomic.set(f.page());
        }
        events::emit_one_of_many(
            &client.space,
            &events::Event {
                kind: uapi::HUVM_EVENT_FAULT,
                cause: uapi::HUVM_CAUSE_GPU_FAULT,
                gpu: u32::from(gpu.index()),
                va: f.va,
                length: PAGE_BYTES,
                arg0: hw_access(f.access).into(),
                arg1: f.instances.into(),
            },
        );
    }
    // Packets, as for the GPU.
    let n = faults.iter().map(|f| u64::from(f.instances)).sum();
    client.space.counters.add(Counter::Faults, n);
    Ok(Work {
        block,
        sg: client.sg.clone(),
        faulted,
        write,
        atomic,
        fatal: faults.iter().any(|f| f.is_fatal),
        noted: false,
        stream: None,
        stands: false,
        range: 0,
        plan: None,
        begun: false,
        failed: None,
        fetched_ns,
        batch,
        round,
    })
}

/// Serves the blocks of a batch over several links at once, if policy says so, there are several of them, and a neighbour
/// lends. What it does not begin is left for the usual way.
#[inline(never)] // stack
fn fetch_in_parallel(gpu: &Arc<Gpu>, work: &mut [Work]) {
    let Some(first) = work.first().filter(|_| work.len() > 1) else {
        return;
    };
    let p = policy::in_force(first.block.space(), Some(gpu));
    if !p.is_on(KnobId::ParallelFetch) {
        return;
    }
    let ways = Ways::to(gpu, &p);
    if let Some(ways) = ways.as_ref() {
        // In the order of the batch, which streams know, not as they are served: what goes over lenders is planned from its end.
        for w in work.iter_mut() {
            let p = policy::in_force(w.block.space(), Some(gpu));
            note(gpu, w, &p);
        }
        parallel::serve(&mut Faulted { gpu, work }, ways);
    }
}

/// Blocks of a batch, for [`parallel`].
struct Faulted<'a> {
    gpu: &'a Arc<Gpu>,
    work: &'a mut [Work],
}

impl Blocks for Faulted<'_> {
    fn count(&self) -> usize {
        self.work.len()
    }

    fn serve(&mut self, i: usize) {
        if let Some(w) = self.work.get_mut(i) {
            first_pass(self.gpu, w);
        }
    }

    fn send(&mut self, i: usize, lender: GpuId) -> Sent {
        let Some(w) = self.work.get_mut(i) else {
            return Sent::NotThisOne;
        };
        let p = policy::in_force(w.block.space(), Some(self.gpu));
        let may = p.is_on(KnobId::ParallelFetch) && p.is_on(KnobId::HarvestBorrow);
        // A copy in flight brings what is wanted, or is waited for there.
        if !may || !w.block.is_settled() {
            return Sent::NotThisOne;
        }
        if !relay::has_room(self.gpu, lender, &p) {
            return Sent::NoMore;
        }
        let block = w.block.clone();
        let mut s = block.settled();
        // While the batch waited for others the client may have left.
        if w.sg.is_stopped() {
            return Sent::NotThisOne;
        }
        let Some(plan) = plan(self.gpu, w, &mut s, &p) else {
            return Sent::NotThisOne;
        };
        let g = self.gpu.index();
        let pages = relay::can_go(&s, g, &plan.local);
        if pages.is_empty() {
            return Sent::NotThisOne;
        }
        match relay::start(
            &block,
            &mut s,
            g,
            lender,
            &pages,
            uapi::HUVM_CAUSE_GPU_FAULT,
        ) {
            Ok(()) => Sent::OnItsWay,
            Err(_) => Sent::NoMore,
        }
    }

    fn is_there(&self, i: usize) -> bool {
        self.work.get(i).is_none_or(|w| w.block.is_settled())
    }

    fn wait(&self, i: usize) {
        if let Some(w) = self.work.get(i) {
            drop(w.block.settled());
        }
    }
}

/// First pass over one block.
#[inline(never)] // stack
fn first_pass(gpu: &Arc<Gpu>, w: &mut Work) {
    w.failed = copy_pass(gpu, w).err();
    w.begun = true;
}

/// What becomes of the faulted pages, decided the first time that it is asked. `None`: none of them may be served.
#[inline(never)] // stack
fn plan<'a>(gpu: &Gpu, w: &'a mut Work, s: &mut State, p: &Policy) -> Option<&'a Plan> {
    if w.plan.is_none() {
        let faulted = legal(s, w);
        if s.dead || faulted.is_empty() {
            return None;
        }
        let space = w.block.space();
        let wanted = placement::Wanted {
            pages: faulted,
            write: &w.write,
            atomic: &w.atomic,
            writes: w.stream.as_ref().is_some_and(|s| s.writes),
        };
        let mut plan = placement::plan(space, gpu, s, &wanted, p);
        let here = Place::Gpu(gpu.index());
        // The thread of a stream would fetch the rest of the block right behind. What else comes back leaves other GPUs what they have.
        let comes = !plan.local.or(&plan.copies).is_empty();
        let brings = comes && p.get(KnobId::PrefetchMode) != 0;
        let goes_on = w.stream.as_ref().is_some_and(|s| s.goes_on);
        let rest = match goes_on {
            true => s.valid_beside(here),
            false if brings && comes_whole(w, s, p) => {
                let theirs = s.on_gpus_beside(gpu.index());
                s.host_valid.or(&s.in_spare()).and_not(&theirs)
            }
            false => PageMask::EMPTY,
        };
        densify(gpu, space, s, &mut plan, p, &rest);
        let all = s.managed.count().get();
        let first = faulted.first().filter(|_| comes);
        if let Some(part) = s.part_mut(gpu.index()) {
            if let Some(page) = first.filter(|_| part.chunk.is_none() && part.departed.is_some()) {
                w.stands = part.comings.comes(w.round, page.get());
            }
            let there = part.valid.or(&plan.local).or(&plan.copies).count().get();
            if goes_on {
                part.is_unseen();
            } else {
                part.returns.has(w.batch, there, all);
                if is_half(there, all) {
                    part.votes(true);
                }
            }
        }
        w.plan = Some(plan);
    }
    w.plan.as_ref()
}

/// Whether a block comes to the GPU by these faults, and is to be fetched whole.
fn comes_whole(w: &Work, s: &mut State, p: &Policy) -> bool {
    let slot = SpaceGpu::grain_of(w.range);
    let whole = || p.is_on(KnobId::FetchWhole) && w.sg.grain(slot, Grain::comes);
    // For the first time; who has no memory for a record finds that out again, where it is an error.
    let _made = s.ensure_part(w.block.va(), &w.sg);
    let Some(part) = s.part_mut(w.sg.gpu.index()) else {
        return whole();
    };
    if part.chunk.is_some() {
        return false;
    }
    let may = p.is_on(KnobId::ReturnWhole);
    if part.departed.is_some() && part.returns.comes(w.batch, may) {
        return true;
    }
    let whole = whole();
    part.sample = (p.is_on(KnobId::FetchWhole) && !whole).then_some(slot);
    if whole {
        part.returns.is_unseen();
    }
    whole
}

/// First pass: starts what brings the faulted pages, and those that prefetch adds, to where they are mapped from.
fn copy_pass(gpu: &Arc<Gpu>, w: &mut Work) -> Result {
    let block = w.block.clone();
    let p = policy::in_force(block.space(), Some(gpu));
    note(gpu, w, &p);
    let did = copy(gpu, w, &block, &p);
    // What was fetched ahead until here came too late for this fault.
    if let Some(stream) = &w.stream {
        prefetch::judge(gpu, &block, stream);
    }
    did
}

/// Tells the streams of a space of the faults of a block, once, and before its plan is made, which hangs on what they say. Without the
/// block's lock: it looks at the space's ranges.
#[inline(never)] // stack
fn note(gpu: &Arc<Gpu>, w: &mut Work, p: &Policy) {
    if core::mem::replace(&mut w.noted, true) {
        return;
    }
    let follows = p.get(KnobId::StreamMode) != 0;
    if !follows && !p.is_on(KnobId::FetchWhole) {
        return;
    }
    let Some(span) = prefetch::span_of(&w.block) else {
        return;
    };
    w.range = span.first.0;
    if follows {
        // No two batches of a GPU are fetched in the same nanosecond, nor served at once.
        let writes = !w.write.is_empty();
        w.stream = Some(prefetch::note_fault(
            gpu,
            &w.sg,
            &w.block,
            span,
            (w.fetched_ns, writes),
            p,
        ));
    }
}

/// How often a block is begun again for want of host memory, or of a mapping for DMA: no more than a hiccup is waited out, as
/// the other clients' faults wait as well.
const SHORT_MAX: u32 = 3;

/// How often a block is begun again because others were at its pages first. Then the access faults again, behind theirs.
const OVERTAKEN_MAX: u32 = 64;

/// How often because a copy was refused for what may be over in a moment, and how long a moment is. Together they are longer than a GPU
/// may be silent and not be lost ([`Gpu::check`]).
pub(super) const AGAIN_MAX: u32 = 64;
pub(super) const MOMENT_US: u64 = 2000;

fn copy(gpu: &Arc<Gpu>, w: &mut Work, block: &Arc<Block>, p: &Policy) -> Result {
    let here = Place::Gpu(gpu.index());
    let space = block.space();
    let mut room = Room::empty();
    // Chunks to be made room for, each of which somebody else may take.
    let mut rooms = p.get(KnobId::EvictRetriesMax).saturating_add(4);
    let (mut step, mut short, mut overtaken, mut again) = (0, 0, 0, 0);
    let mut joins = true;
    loop {
        let refused = {
            let mut s = block.fetchable(joins);
            if s.dead || w.sg.is_stopped() {
                return Ok(());
            }
            if plan(gpu, w, &mut s, p).is_none() {
                return Ok(());
            }
            match advance(w, &mut s, here, &mut step, &mut room, p) {
                Ok(true) => return Ok(()),
                Ok(false) if overtaken < OVERTAKEN_MAX => {
                    overtaken += 1;
                    continue;
                }
                Ok(false) => return Ok(()),
                Err(Stop::Failed(e)) if e == EAGAIN && !s.dead && again < AGAIN_MAX => {
                    joins = false;
                    again += 1;
                    true
                }
                Err(Stop::Failed(e)) if e == EAGAIN && !s.dead => return Err(EIO),
                Err(Stop::Failed(e)) if e == ENOMEM && short < SHORT_MAX => {
                    short += 1;
                    continue;
                }
                // What was to come along is no reason to fail: another GPU that was lost over it, say, or mappings for DMA that nobody needs.
                Err(Stop::Failed(e))
                    if (e == EIO || e == ENOMEM) && !gpu.is_lost() && comes_alone(w) =>
                {
                    continue
                }
                Err(Stop::Failed(e)) => return Err(e),
                Err(Stop::NeedChunk) => false,
            }
        };
        if refused {
            // The first time somebody was at the pages, mostly.
            if again > 1 {
                time::sleep_us(MOMENT_US);
            }
            continue;
        }
        rooms = rooms.checked_sub(1).ok_or(ENOMEM)?;
        account::count(Some(gpu), Some(space), Counter::Retries, 1);
        evict::make_room(gpu, Some(space), true, &mut room)?;
    }
}

/// Takes out of a block's plan what did not fault; whether there was anything.
fn comes_alone(w: &mut Work) -> bool {
    let faulted = w.faulted;
    let Some(plan) = w.plan.as_mut() else {
        return false;
    };
    let before = plan.local.or(&plan.copies);
    plan.local = plan.local.and(&faulted);
    plan.copies = plan.copies.and(&faulted);
    before != plan.local.or(&plan.copies)
}

/// Adds to a plan what the tree prefetcher finds dense, and `rest`. (What is nowhere yet is the tree's alone.)
#[inline(never)] // stack
fn densify(gpu: &Gpu, space: &Space, s: &mut State, plan: &mut Plan, p: &Policy, rest: &PageMask) {
    let wanted = plan.local.or(&plan.copies);
    let here = Place::Gpu(gpu.index());
    let row = s.note_faults(here, wanted.count().get());
    let tree = p.get(KnobId::PrefetchMode) != 0 && row >= p.get_u32(KnobId::PrefetchMinFaults);
    if wanted.is_empty() || (!tree && rest.is_empty()) {
        return;
    }
    let valid = s.valid_at(here);
    let candidates = s
        .managed
        .and_not(&s.gone())
        .and_not(&plan.remote)
        .and_not(&placement::stays(s, here))
        .and_not(&thrash::keep_off(s, p));
    let mut more = PageMask::EMPTY;
    if tree {
        more = tree_prefetch(
            &valid,
            &wanted,
            &candidates,
            PageRegion::BLOCK,
            p.get_u32(KnobId::PrefetchThreshold),
        );
    }
    more |= candidates.and(rest);
    let extra = more.and_not(&wanted).and_not(&plan.remote);
    let new = extra.and_not(&valid).count().get();
    account::count(Some(gpu), Some(space), Counter::PagesPrefetched, new.into());
    plan.copies |= extra.and(&s.advice.read_mostly());
    plan.local |= extra.and_not(&s.advice.read_mostly());
}

/// Turns of [`advance`]: a step is begun once, and may find once that something has to come home first, or is home already.
const TURNS_MAX: u32 = 8;

/// Starts the moves of a plan, one after the other, from `step` on. `true`: all are started; `false`: one is in flight that
/// the next has to wait for, or there were too many of them for one go.
#[inline(never)] // stack
fn advance(
    w: &Work,
    s: &mut State,
    here: Place,
    step: &mut usize,
    room: &mut Room,
    p: &Policy,
) -> core::result::Result<bool, Stop> {
    let Some(plan) = w.plan.as_ref() else {
        return Ok(true);
    };
    let steps = [
        (plan.remote, Place::Host, Others::Go),
        (plan.local, here, plan.others),
        (plan.copies, here, Others::Stay),
    ];
    for _ in 0..TURNS_MAX {
        let Some((pages, dst, others)) = steps.get(*step).copied() else {
            return Ok(true);
        };
        // What went meanwhile is none of ours.
        let pages = pages.and(&s.managed).and_not(&s.gone());
        if pages.is_empty() {
            *step += 1;
            continue;
        }
        if s.inflight.is_some() && !s.is_written_back() {
            return Ok(false);
        }
        let wanted = Move {
            pages,
            dst,
            others,
            cause: uapi::HUVM_CAUSE_GPU_FAULT,
        };
        let first = migrate::before(s, &wanted);
        let is_wanted = first.is_none();
        let m = first.unwrap_or(wanted);
        let moves = m.pages.and_not(&s.valid_at(m.dst));
        migrate::start(&w.block, s, Some(&w.sg), room, &m)?;
        if is_wanted {
            thrash::note(w.block.space(), s, &moves, dst, p);
            *step += 1;
        }
    }
    Ok(false)
}

/// Faulted pages that may be served.
fn legal(s: &State, w: &Work) -> PageMask {
    let illegal_write = w.write.and_not(&s.writable);
    w.faulted
        .and(&s.managed)
        .and_not(&s.gone())
        .and_not(&illegal_write)
}

/// Second pass over one block. A hiccup of memory for page tables is waited out, as in the first one.
#[inline(never)] // stack
fn second_pass(gpu: &Arc<Gpu>, w: &Work) -> Result {
    let mut short = 0;
    loop {
        match map_pass(gpu, w) {
            Err(e) if e == ENOMEM && short < SHORT_MAX => short += 1,
            did => return did,
        }
    }
}

/// So many batches of a block in a row whose faults are all of pages that are mapped: the GPU may not have heard that they are. A few
/// come by themselves, of accesses that met each other.
const STALE_MAX: u8 = 8;

/// Waits for the block's copies and maps.
fn map_pass(gpu: &Arc<Gpu>, w: &Work) -> Result {
    let g = gpu.index();
    let waited = time::now_ns();
    let mut s = w.block.settled();
    let waited = time::now_ns().saturating_sub(waited);
    account::count(Some(gpu), None, Counter::WaitNs, waited);
    if s.dead || w.sg.is_stopped() {
        return Ok(());
    }
    let faulted = legal(&s, w);
    let before = s.part(g).map_or(PageMask::EMPTY, |p| p.mapped);
    let to_upgrade = s
        .part(g)
        .map_or(PageMask::EMPTY, |p| p.read_only.and(&w.write));
    // But for those whose pin, or advice, has ended since: nobody would take away the mapping. They fault again.
    let planned = w.plan.as_ref().map(|p| p.remote_now(&s));
    let remote = faulted.and(&planned.unwrap_or(PageMask::EMPTY));
    if !remote.is_empty() {
        s.ensure_part(w.block.va(), &w.sg)?;
        let here = remote.and(&s.host_valid);
        // There may be other copies since this was planned: who writes faults once more, and they go.
        let alone = here.and_not(&s.valid_beside(Place::Host));
        let writable = alone.and(&s.writable);
        for (pages, read_only) in [(here.and_not(&writable), true), (writable, false)] {
            if !pages.is_empty() {
                map::map_host(&mut s, g, &pages, read_only)?;
            }
        }
    }
    if s.part(g).is_some() {
        migrate::map_valid(&mut s, g, &PageMask::FULL)?;
        upgrade(&w.block, &mut s, g, &w.write.and(&faulted))?;
    }
    let after = s.part(g).map_or(PageMask::EMPTY, |p| p.mapped);
    let missing = faulted.and_not(&after);
    let failed = s.cannot_be(Place::Gpu(g), &missing);
    let served = faulted.and(&after).and_not(&before).count().get();
    let stale = faulted.and(&before).count().get();
    if let Some(part) = s.part_mut(g) {
        if !failed {
            part.refused = 0;
        }
        let in_vain = served == 0 && !faulted.and(&before).and_not(&to_upgrade).is_empty();
        part.stale = if in_vain {
            part.stale.saturating_add(1)
        } else {
            0
        };
        if part.stale >= STALE_MAX {
            part.stale = 0;
            w.sg.invalidate_all()?;
            account::count(Some(gpu), None, Counter::TlbInvalidates, 1);
        }
    }
    drop(s);
    let space = Some(&**w.block.space());
    account::count(Some(gpu), space, Counter::FaultsServed, served.into());
    account::count(Some(gpu), space, Counter::FaultsStale, stale.into());
    if served != 0 {
        let took = time::now_ns().saturating_sub(w.fetched_ns);
        gpu.latencies().add(Latency::Fault, took);
    }
    if failed {
        // The chunk was to be emptied, and there was no memory for what is in it; or somebody is about it.
        let _news = ecc::attend(gpu);
        match ecc::make_way(gpu, &w.block, &missing) {
            Err(e) if e == EAGAIN => faults_again(w, g)?,
            did => did?,
        }
    }
    Ok(())
}

/// The access faults again, on a chunk that could not be emptied for what may be over in a moment.
///
/// # Errors
/// `EIO` if that goes on.
#[cold]
fn faults_again(w: &Work, g: u8) -> Result {
    {
        let mut s = w.block.lock();
        let Some(part) = s.part_mut(g) else {
            // It was unmapped meanwhile.
            return Ok(());
        };
        part.refused = part.refused.saturating_add(1);
        if part.refused >= AGAIN_MAX {
            part.refused = 0;
            return Err(EIO);
        }
    }
    time::sleep_us(MOMENT_US);
    Ok(())
}

/// Pages mapped read-only that a write faulted on, and that nobody else holds any more, become writable.
fn upgrade(block: &Block, s: &mut State, g: u8, write: &PageMask) -> Result {
    let pages = match s.part(g) {
        Some(p) => write.and(&p.read_only).and(&p.valid).and(&s.writable),
        None => return Ok(()),
    };
    if pages.is_empty() {
        return Ok(());
    }
    match migrate::collapse(block, s, Place::Gpu(g), &pages) {
        // Some are not there any more. Nobody loses what the others do not get this time.
        Err(e) if e == EAGAIN => return Ok(()),
        did => did?,
    }
    map::map_local(s, g, &pages, false)
}
