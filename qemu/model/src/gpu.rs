// SPDX-License-Identifier: GPL-2.0
//! One GPU: its units side by side, and the context that they work in.

use huvm_hw::ext::{stats::Counter, topology::PEER_IDS};

use crate::ce::CopyEngine;
use crate::config::GpuConfig;
use crate::counter::AccessCounters;
use crate::ext::inject::Inject;
use crate::ext::throttle::Throttle;
use crate::fabric::Fabric;
use crate::fault::{InfoFault, Ring};
use crate::host::{DmaError, Host, Place};
use crate::irq::Tree;
use crate::mmu::Mmu;
use crate::queue::{Event, Queue};
use crate::replay::InvalidateRegs;
use crate::runlist::Runlist;
use crate::window::Windows;
use crate::work::Workload;

/// What a unit reaches beside its own GPU, for the length of one access or event.
pub(crate) struct Cx<'a> {
    pub(crate) host: &'a mut dyn Host,
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) queue: &'a mut Queue,
    /// Time of the access or event, ns.
    pub(crate) now: u64,
    /// Index of the GPU at work.
    pub(crate) gpu: usize,
    /// Its epoch.
    pub(crate) epoch: u64,
    /// Operations take time.
    pub(crate) timing: bool,
    /// Bytes moved so far, which the caller bounds.
    pub(crate) moved: &'a mut u64,
}

impl Cx<'_> {
    /// A delay of the profile, ns: none when operations take no time.
    pub(crate) fn delay(&self, ns: u32) -> u64 {
        if self.timing {
            u64::from(ns)
        } else {
            0
        }
    }

    /// Queues an event of this GPU.
    pub(crate) fn at(&mut self, at_ns: u64, event: Event) {
        self.queue
            .push(at_ns.max(self.now), self.gpu, self.epoch, event);
    }

    /// Adds to a counter of this GPU.
    pub(crate) fn count(&mut self, counter: Counter, n: u64) {
        self.fabric.count(self.gpu, counter, n);
    }

    /// The guest broke a rule.
    pub(crate) fn guest_error(&mut self, what: &str) {
        self.count(Counter::GuestErrors, 1);
        self.host.guest_error(self.gpu, what);
    }

    /// A place is inside its memory, as far as the model can tell (system memory is the host's
    /// to check).
    pub(crate) fn inside(&self, place: Place, len: u64) -> bool {
        match place {
            Place::Vram { gpu, offset } => offset
                .checked_add(len)
                .is_some_and(|end| end <= self.fabric.vram_bytes(gpu)),
            Place::Sys { addr, .. } => addr.checked_add(len).is_some(),
        }
    }

    /// Whether a neighbour's memory is on the bus; one's own is.
    fn is_there(&self, place: Place) -> bool {
        match place {
            Place::Vram { gpu, .. } => gpu == self.gpu || !self.fabric.is_gone(gpu),
            Place::Sys { .. } => true,
        }
    }

    fn moves(&mut self, len: u64) {
        *self.moved = self.moved.saturating_add(len);
    }

    /// Reads memory.
    pub(crate) fn read(&mut self, from: Place, buf: &mut [u8]) -> Result<(), DmaError> {
        if !self.inside(from, buf.len() as u64) {
            return Err(DmaError);
        }
        self.moves(buf.len() as u64);
        if !self.is_there(from) {
            buf.fill(0xff);
            return Ok(());
        }
        self.host.read(from, buf)
    }

    /// Writes memory.
    pub(crate) fn write(&mut self, to: Place, buf: &[u8]) -> Result<(), DmaError> {
        if !self.inside(to, buf.len() as u64) {
            return Err(DmaError);
        }
        self.moves(buf.len() as u64);
        if !self.is_there(to) {
            return Ok(());
        }
        self.host.write(to, buf)
    }

    /// Copies `len` bytes.
    pub(crate) fn copy(&mut self, src: Place, dst: Place, len: u64) -> Result<(), DmaError> {
        if !self.inside(src, len) || !self.inside(dst, len) {
            return Err(DmaError);
        }
        if !self.is_there(src) {
            return self.fill(dst, &[0xff], len);
        }
        self.moves(len);
        if !self.is_there(dst) {
            return Ok(());
        }
        self.host.copy(src, dst, len)
    }

    /// Fills `len` bytes.
    pub(crate) fn fill(&mut self, dst: Place, pattern: &[u8], len: u64) -> Result<(), DmaError> {
        if !self.inside(dst, len) {
            return Err(DmaError);
        }
        self.moves(len);
        if !self.is_there(dst) {
            return Ok(());
        }
        self.host.fill(dst, pattern, len)
    }

    /// Reads a u32.
    pub(crate) fn read_u32(&mut self, from: Place) -> Result<u32, DmaError> {
        let mut b = [0; 4];
        self.read(from, &mut b)?;
        Ok(u32::from_le_bytes(b))
    }

    /// Reads a u64.
    pub(crate) fn read_u64(&mut self, from: Place) -> Result<u64, DmaError> {
        let mut b = [0; 8];
        self.read(from, &mut b)?;
        Ok(u64::from_le_bytes(b))
    }
}

/// Target code of instance blocks, runlists, USERD and fault buffers: 0 VRAM, 2 and 3 system memory.
pub(crate) fn ram_place(gpu: usize, target: u32, addr: u64) -> Option<Place> {
    match target & 3 {
        0 => Some(Place::Vram { gpu, offset: addr }),
        2 | 3 => Some(Place::Sys { gpu, addr }),
        _ => None,
    }
}

/// A GPU.
pub(crate) struct Gpu {
    pub(crate) config: GpuConfig,
    /// Grows with each reset: events of an older epoch are void.
    pub(crate) epoch: u64,
    ces: u32,
    /// Messages on their way out: one that is asked for again meanwhile is the same one.
    messages: u32,
    pub(crate) irq: Tree,
    pub(crate) windows: Windows,
    pub(crate) scratch: [u32; 4],
    pub(crate) rings: [Ring; 2],
    pub(crate) info: InfoFault,
    pub(crate) mmu: Mmu,
    pub(crate) invalidate: InvalidateRegs,
    pub(crate) counters: AccessCounters,
    pub(crate) runlists: Vec<Runlist>,
    pub(crate) engines: Vec<CopyEngine>,
    pub(crate) work: Workload,
    pub(crate) throttle: Throttle,
    pub(crate) inject: Inject,
    pub(crate) peer_map: [Option<usize>; PEER_IDS as usize],
    pub(crate) time_latch: u32,
}

impl Gpu {
    /// A GPU after reset.
    pub(crate) fn new(config: GpuConfig, ces: u32, epoch: u64, fault_entries: [u32; 2]) -> Self {
        let [non_replayable, replayable] = fault_entries;
        Gpu {
            epoch,
            ces,
            messages: 0,
            irq: Tree::default(),
            windows: Windows::default(),
            scratch: [0; 4],
            rings: [Ring::new(0, non_replayable), Ring::new(1, replayable)],
            info: InfoFault::default(),
            mmu: Mmu::default(),
            invalidate: InvalidateRegs::default(),
            counters: AccessCounters::default(),
            runlists: (0..ces).map(|_| Runlist::default()).collect(),
            engines: (0..ces).map(|_| CopyEngine::default()).collect(),
            work: Workload::default(),
            throttle: Throttle::default(),
            inject: Inject::new(config.realism, config.seed),
            peer_map: [None; PEER_IDS as usize],
            time_latch: 0,
            config,
        }
    }

    /// Logical copy engines; runlist i serves engine i.
    pub(crate) fn ce_count(&self) -> u32 {
        self.ces
    }

    /// A pulse vector fires.
    pub(crate) fn pulse(&mut self, vector: u32, cx: &mut Cx<'_>) {
        let messages = self.irq.pulse(vector);
        self.send(messages, cx);
    }

    /// A level source changes.
    pub(crate) fn level(&mut self, vector: u32, on: bool, cx: &mut Cx<'_>) {
        let messages = self.irq.set_level(vector, on);
        self.send(messages, cx);
    }

    /// Sends messages, a bitmap, after the interrupt latency.
    pub(crate) fn send(&mut self, messages: u32, cx: &mut Cx<'_>) {
        for vector in 0..4 {
            let bit = 1 << vector;
            if messages & bit == 0 || self.messages & bit != 0 {
                continue;
            }
            self.messages |= bit;
            let at = cx.now.saturating_add(cx.delay(cx.fabric.profile.intr_ns));
            cx.at(at, Event::Message { vector });
        }
    }

    /// A message leaves the device.
    fn message(&mut self, vector: u32, cx: &mut Cx<'_>) {
        self.messages &= !(1 << vector);
        if self.inject.drop_intr > 0 {
            self.inject.drop_intr -= 1;
            return;
        }
        cx.count(Counter::Interrupts, 1);
        cx.host.msix(cx.gpu, vector);
    }

    /// Lets an event happen.
    pub(crate) fn event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Message { vector } => self.message(vector, cx),
            Event::FaultArrives { ring, packet } => self.fault_arrives(ring, packet, cx),
            Event::FaultValid { ring, packet } => self.fault_valid(ring, packet, cx),
            Event::Channel {
                runlist,
                chid,
                token,
            } => self.channel_run(runlist, chid, token, cx),
            Event::Wake { runlist, chid } => self.semaphore_wake(runlist, chid, cx),
            Event::CopyRead { runlist, run } => self.copy_piece_reads(runlist, run, cx),
            Event::CopyPiece { runlist, chid, run } => self.copy_piece_done(runlist, chid, run, cx),
            Event::CopyComplete { runlist, chid } => self.copy_complete(runlist, chid, cx),
            Event::InvalidateTakes => self.command_takes(cx),
            Event::Faulted { runlist, chid } => self.ce_faulted(runlist, chid),
            Event::InvalidateDone => self.invalidate.done(),
            Event::BlockRetry { block } => self.block_retry(block, cx),
            Event::BlockPiece { block } => self.block_piece_done(block, cx),
            Event::Dispatch => self.work_dispatch(cx),
            Event::Storm => self.storm(cx),
        }
    }
}
