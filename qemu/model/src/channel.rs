// SPDX-License-Identifier: GPL-2.0
//! A host channel: GPFIFO, pushbuffer fetch and decode (hw-interface.md 6.1, 6.2, 6.6).
//!
//! A channel runs until it has nothing to do, waits, or has used its budget for one event. What a
//! method waits for is kept with it, and the method is executed again when the channel wakes, so
//! that a faulted method restarts by itself once software has cleared the fault.

use std::collections::VecDeque;

use crate::ce::{CeRegs, Job};
use crate::fault::{Client, Fault, NON_REPLAYABLE};
use crate::gpu::{ram_place, Cx, Gpu};
use crate::host::Place;
use crate::mmu::{Access, FaultType, Instance};
use crate::queue::Event;
use crate::runlist::chram;

/// Methods and fetches that one event may run.
const RUN_BUDGET: u32 = 256;
/// Hub client number of HOST.
const CLIENT_HOST: u32 = 6;
/// MMU engine id of PBDMA 0.
const ENGINE_HOST0: u32 = 32;
/// First and longest time between two looks at a semaphore that nobody in the machine released.
const POLL_FIRST_NS: u64 = 1_000;
const POLL_LAST_NS: u64 = 256_000;

/// PBDMA INTR_0 bits; from 32 on those of INTR_1.
pub(crate) mod intr {
    pub(crate) const GPENTRY: u32 = 15;
    pub(crate) const PBENTRY: u32 = 18;
    pub(crate) const METHOD: u32 = 21;
    pub(crate) const DEVICE: u32 = 23;
    pub(crate) const SEMAPHORE: u32 = 25;
    pub(crate) const SIGNATURE: u32 = 31;
    pub(crate) const CTX_NOT_VALID: u32 = 32 + 31;
}

/// What came of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Executed.
    Done,
    /// Executed; the channel goes on at this time, ns.
    DoneAt(u64),
    /// Not executed: again at this time, ns.
    Again(u64),
    /// Not executed: again after copies of the channel completed.
    WaitCopies,
    /// Not executed: a semaphore does not have its value.
    WaitSemaphore,
    /// Not executed: an address is not mapped (hub client HOST).
    Fault(u64, FaultType, Access),
    /// Not executed: PBDMA error, a bit of [`intr`].
    Error(u32),
    /// Not executed: the engine refuses; the channel is dead.
    Dead,
}

/// A decoded method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) subch: u32,
    /// Byte offset.
    pub(crate) addr: u32,
    pub(crate) data: u32,
}

/// How data words map to methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Inc,
    NonInc,
    OneInc,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) inst: (u32, u64),
    userd: (u32, u64),
    pub(crate) tsgid: u32,
    /// It was preempted, and has not run since.
    pub(crate) preempted: bool,
    /// An event that runs the channel is queued for this time; the token tells it from older ones.
    scheduled: Option<u64>,
    token: u64,
    /// An executed method holds the channel until then, ns.
    blocked_until: u64,
    /// RAMFC was read.
    pub(crate) loaded: bool,
    /// GP_PUT is to be read although no doorbell rang: it was loaded, or enabled.
    pub(crate) looks: bool,
    /// The engine or PBDMA refused to go on; only a reset of the channel helps.
    pub(crate) dead: bool,
    /// Waits for software to clear a PBDMA error.
    pub(crate) error: bool,
    pub(crate) instance: Option<Instance>,
    pub(crate) gp_base: u64,
    pub(crate) gp_entries_log2: u32,
    pub(crate) gp_get: u32,
    pub(crate) gp_put: u32,
    pub(crate) privileged_ce: bool,
    pub(crate) auth: bool,
    /// CE_CTX_VALID: the engine has a context to run it in.
    pub(crate) ce_ctx: bool,
    pub(crate) userd_writeback: bool,
    pub(crate) notify: u32,
    /// Segment being read: address and words left.
    pub(crate) pb_addr: u64,
    pub(crate) pb_left: u32,
    pub(crate) words: VecDeque<u32>,
    /// Method header in force.
    op: Op,
    next_subch: u32,
    next_addr: u32,
    pub(crate) count: u32,
    /// Method that is to be executed (again).
    current: Option<Method>,
    waiting_semaphore: bool,
    poll_ns: u64,
    pub(crate) mem_op: [u32; 3],
    /// The invalidate that is being executed: when it takes effect, and completes at the earliest, ns.
    pub(crate) invalidating: Option<(u64, u64)>,
    pub(crate) sem_addr: [u32; 2],
    pub(crate) sem_payload: [u32; 2],
    pub(crate) ce: CeRegs,
    pub(crate) jobs: VecDeque<Job>,
    /// It has written to the host's or a neighbour's memory, and flushed nothing since.
    pub(crate) unflushed: bool,
    /// Being switched out on a fault: ENG_FAULTED is not set yet.
    pub(crate) leaves: bool,
    /// What the engine saved in the method buffer grows from this.
    pub(crate) saved: Option<u32>,
}

impl Channel {
    pub(crate) fn new(inst: (u32, u64), userd: (u32, u64)) -> Self {
        Channel {
            inst,
            userd,
            tsgid: 0,
            preempted: false,
            scheduled: None,
            token: 0,
            blocked_until: 0,
            loaded: false,
            looks: false,
            dead: false,
            error: false,
            instance: None,
            gp_base: 0,
            gp_entries_log2: 0,
            gp_get: 0,
            gp_put: 0,
            privileged_ce: false,
            auth: false,
            ce_ctx: false,
            userd_writeback: false,
            notify: 0,
            pb_addr: 0,
            pb_left: 0,
            words: VecDeque::new(),
            op: Op::Inc,
            next_subch: 0,
            next_addr: 0,
            count: 0,
            current: None,
            waiting_semaphore: false,
            poll_ns: POLL_FIRST_NS,
            mem_op: [0; 3],
            invalidating: None,
            sem_addr: [0; 2],
            sem_payload: [0; 2],
            ce: CeRegs::default(),
            jobs: VecDeque::new(),
            unflushed: false,
            leaves: false,
            saved: None,
        }
    }

    /// The entry of a new submission names the same context.
    pub(crate) fn same(&self, inst: (u32, u64), userd: (u32, u64)) -> bool {
        self.inst == inst && self.userd == userd
    }

    /// Drops all state: the next run loads RAMFC.
    pub(crate) fn forget(&mut self) {
        let fresh = Channel::new(self.inst, self.userd);
        let old = core::mem::replace(self, fresh);
        self.tsgid = old.tsgid;
        self.scheduled = old.scheduled;
        self.token = old.token;
    }

    /// CTX_RELOAD: a channel that has not run reads RAMFC again; one that has keeps its state,
    /// which a real device would save and load back.
    pub(crate) fn reload(&mut self) {
        if self.gp_get == 0 && self.pb_left == 0 && self.current.is_none() {
            self.loaded = false;
        }
    }

    /// Saves GP_GET into RAMFC.
    pub(crate) fn save(&self, cx: &mut Cx<'_>) {
        if !self.loaded {
            return;
        }
        if let Some(at) = self.ramfc(cx.gpu).and_then(|p| p.checked_add(4 * 5)) {
            // A context that lies in no memory cannot be saved; nothing else can be done about it.
            let _ = cx.write(at, &self.gp_get.to_le_bytes());
        }
    }

    /// Dynamic bits of the channel-RAM word.
    pub(crate) fn chram_status(&self) -> u32 {
        let busy = self.current.is_some() || self.pb_left > 0 || self.gp_get != self.gp_put;
        let eng = !self.jobs.is_empty();
        (u32::from(busy || eng) << 3)
            | (u32::from(busy) << 10)
            | (u32::from(eng) << 11)
            | (if self.waiting_semaphore {
                chram::ACQUIRE_FAIL
            } else {
                0
            })
    }

    fn ramfc(&self, gpu: usize) -> Option<Place> {
        ram_place(gpu, self.inst.0, self.inst.1)
    }

    pub(crate) fn userd_at(&self, gpu: usize, offset: u64) -> Option<Place> {
        ram_place(gpu, self.userd.0, self.userd.1)?.checked_add(offset)
    }

    /// Takes the next method out of the words fetched; `Ok(None)` when there are no more.
    pub(crate) fn decode(&mut self) -> Result<Option<Method>, u32> {
        loop {
            if self.count == 0 {
                let Some(h) = self.words.pop_front() else {
                    return Ok(None);
                };
                let (subch, addr) = ((h >> 13) & 7, (h & 0xfff) * 4);
                let count = (h >> 16) & 0x1fff;
                match h >> 29 {
                    // NOP; subdevice masks mean nothing on a single GPU.
                    0 => continue,
                    1 => self.op = Op::Inc,
                    3 => self.op = Op::NonInc,
                    5 => self.op = Op::OneInc,
                    4 => {
                        return Ok(Some(Method {
                            subch,
                            addr,
                            data: count,
                        }))
                    }
                    7 => {
                        self.words.clear();
                        self.pb_left = 0;
                        return Ok(None);
                    }
                    _ => return Err(h),
                }
                self.next_subch = subch;
                self.next_addr = addr;
                self.count = count;
                continue;
            }
            let Some(data) = self.words.pop_front() else {
                return Ok(None);
            };
            let m = Method {
                subch: self.next_subch,
                addr: self.next_addr,
                data,
            };
            self.count -= 1;
            match self.op {
                Op::Inc => self.next_addr += 4,
                Op::OneInc => {
                    self.next_addr += 4;
                    self.op = Op::NonInc;
                }
                Op::NonInc => {}
            }
            return Ok(Some(m));
        }
    }
}

impl Gpu {
    pub(crate) fn channel(&mut self, runlist: usize, chid: u32) -> Option<&mut Channel> {
        self.runlists.get_mut(runlist)?.channels.get_mut(&chid)
    }

    /// Runs a channel: the event that [`Gpu::channel_wake`] queued.
    pub(crate) fn channel_run(&mut self, runlist: usize, chid: u32, token: u64, cx: &mut Cx<'_>) {
        let Some(r) = self.runlists.get_mut(runlist) else {
            return;
        };
        let runnable = r.runnable(chid);
        let Some(c) = r.channels.get_mut(&chid) else {
            return;
        };
        if c.token != token {
            return;
        }
        c.scheduled = None;
        if !runnable || c.dead || c.error {
            return;
        }
        if c.blocked_until > cx.now {
            let at = c.blocked_until;
            return self.channel_schedule(runlist, chid, at, cx);
        }
        c.waiting_semaphore = false;
        c.preempted = false;
        if !c.loaded && !self.channel_load(runlist, chid, cx) {
            return;
        }
        self.channel_poll_put(runlist, chid, cx);
        // A cleared engine fault lets the copy that stood still go on.
        self.ce_pump(runlist, chid, cx);
        for _ in 0..RUN_BUDGET {
            let Some(c) = self.channel(runlist, chid) else {
                return;
            };
            let outcome = match c.current {
                Some(m) => {
                    let o = self.method(runlist, chid, m, cx);
                    let Some(c) = self.channel(runlist, chid) else {
                        return;
                    };
                    if matches!(o, Outcome::Done | Outcome::DoneAt(_)) {
                        c.current = None;
                        c.poll_ns = POLL_FIRST_NS;
                    }
                    o
                }
                None => match c.decode() {
                    Ok(Some(m)) => {
                        c.current = Some(m);
                        continue;
                    }
                    Ok(None) => match self.channel_fetch(runlist, chid, cx) {
                        Some(o) => o,
                        None => return,
                    },
                    Err(header) => {
                        c.current = Some(Method {
                            subch: 0,
                            addr: 0,
                            data: header,
                        });
                        Outcome::Error(intr::PBENTRY)
                    }
                },
            };
            if self.channel_outcome(runlist, chid, outcome, cx) {
                return;
            }
        }
        // Out of budget: others first, then on.
        self.channel_schedule(runlist, chid, cx.now, cx);
    }

    /// Acts on an outcome; true when the channel stops running.
    fn channel_outcome(
        &mut self,
        runlist: usize,
        chid: u32,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> bool {
        match outcome {
            Outcome::Done => return false,
            Outcome::DoneAt(at) | Outcome::Again(at) => {
                if at <= cx.now {
                    return false;
                }
                if let Some(c) = self.channel(runlist, chid) {
                    c.blocked_until = at;
                }
                self.channel_schedule(runlist, chid, at, cx);
            }
            Outcome::WaitCopies => {}
            Outcome::WaitSemaphore => {
                let Some(c) = self.channel(runlist, chid) else {
                    return true;
                };
                c.waiting_semaphore = true;
                // Releases inside the machine wake the channel; stores of the CPU are looked for.
                let at = cx.now.saturating_add(c.poll_ns);
                c.poll_ns = (c.poll_ns * 2).min(POLL_LAST_NS);
                self.channel_schedule(runlist, chid, at, cx);
                cx.fabric.wait_for_release(cx.gpu, cx.epoch, runlist, chid);
            }
            Outcome::Fault(va, kind, access) => {
                let who = Client {
                    engine_id: ENGINE_HOST0 + runlist as u32,
                    client: CLIENT_HOST,
                    gpc: None,
                };
                self.channel_fault(runlist, chid, who, va, kind, access as u32, cx);
                if let Some(r) = self.runlists.get_mut(runlist) {
                    r.set(chid, chram::PBDMA_FAULTED);
                }
            }
            Outcome::Error(bit) => {
                let m = match self.channel(runlist, chid) {
                    Some(c) => {
                        c.error = true;
                        c.current
                    }
                    None => None,
                };
                let (method, data) = m.map_or((0, 0), |m| (m.addr | (m.subch << 16), m.data));
                self.pbdma_error(runlist, chid, bit, method, data, cx);
            }
            Outcome::Dead => {
                if let Some(c) = self.channel(runlist, chid) {
                    c.dead = true;
                }
            }
        }
        true
    }

    /// Queues a run of the channel at a time, unless it runs before that anyhow.
    pub(crate) fn channel_schedule(&mut self, runlist: usize, chid: u32, at: u64, cx: &mut Cx<'_>) {
        if let Some(c) = self.channel(runlist, chid) {
            if c.scheduled.is_none_or(|t| t > at) {
                c.scheduled = Some(at);
                c.token = c.token.wrapping_add(1);
                let token = c.token;
                cx.at(
                    at,
                    Event::Channel {
                        runlist,
                        chid,
                        token,
                    },
                );
            }
        }
    }

    /// A semaphore changed somewhere in the machine.
    pub(crate) fn semaphore_wake(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        if self
            .channel(runlist, chid)
            .is_some_and(|c| c.waiting_semaphore)
        {
            self.channel_schedule(runlist, chid, cx.now, cx);
        }
    }

    /// Reports a non-replayable fault of a channel.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn channel_fault(
        &mut self,
        runlist: usize,
        chid: u32,
        who: Client,
        va: u64,
        kind: FaultType,
        access: u32,
        cx: &mut Cx<'_>,
    ) {
        let Some(c) = self.channel(runlist, chid) else {
            return;
        };
        let fault = Fault {
            inst_target: c.inst.0,
            inst_addr: c.inst.1,
            va,
            kind,
            access,
            who,
            replayable: false,
            replay_enabled: c.instance.is_some_and(|i| i.replay_tex || i.replay_gcc),
            time_ns: cx.now,
            slot: None,
        };
        self.report(NON_REPLAYABLE, fault, cx);
    }

    /// Software cleared a PBDMA error: the channel goes on behind the method that caused it.
    pub(crate) fn channel_skip_error(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        if let Some(c) = self.channel(runlist, chid) {
            if c.error {
                c.error = false;
                c.current = None;
                self.channel_wake(runlist, chid, cx);
            }
        }
    }
}
