// SPDX-License-Identifier: GPL-2.0
//! Workload engine: stands in for the SMs (device.md section 2.3).
//!
//! - `desc`: the descriptor.
//! - `mod` (this file): slots, their registers, start and end of a launch, which blocks run.
//! - `block`: a block's next piece: addresses, translation, stall, replay.
//! - `exec`: what a piece does to bytes.

pub(crate) mod block;
mod desc;
mod exec;

use std::collections::BTreeMap;

use huvm_hw::ext::desc as format;
use huvm_hw::ext::stats::Counter;
use huvm_hw::ext::workload as reg;

use crate::gpu::{Cx, Gpu};
use crate::host::Place;
use crate::mmu::{FaultType, Instance};
use crate::queue::Event;
use block::{Block, State};
use desc::Program;

/// A launch that runs.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    program: Program,
    instance: Instance,
    veid: u32,
    /// First block that has not started.
    next_block: u32,
    resident: u32,
}

/// A slot's registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    desc: [u32; 2],
    inst: [u32; 2],
    veid: u32,
    status: u32,
    error: u32,
    err_va: u64,
    err_info: u32,
    mismatches: u64,
    mismatch_va: u64,
    blocks_done: u32,
    faults: u64,
    bytes: u64,
    start_ns: u64,
    end_ns: u64,
    launch: Option<Launch>,
}

/// The engine.
pub(crate) struct Workload {
    slots: Vec<Slot>,
    blocks: BTreeMap<u64, Block>,
    next_id: u64,
    done: u64,
    dispatch_queued: bool,
    /// Slot that may start a block next.
    turn: usize,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            slots: vec![Slot::default(); reg::SLOTS as usize],
            blocks: BTreeMap::new(),
            next_id: 0,
            done: 0,
            dispatch_queued: false,
            turn: 0,
        }
    }
}

/// A STATUS that means nothing.
const WRONG_STATUS: u32 = 7;

/// Why a launch ends early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    error: u32,
    va: u64,
    kind: FaultType,
    access: u32,
}

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn workload_read(&mut self, at: u32, cx: &Cx<'_>) -> u32 {
        match at {
            reg::SLOT_COUNT => return reg::SLOTS,
            reg::MAX_RESIDENT => return cx.fabric.profile.max_resident,
            reg::INTR_VECTOR => return reg::VECTOR,
            reg::DONE_LO => return self.work.done as u32,
            reg::DONE_HI => return (self.work.done >> 32) as u32,
            _ => {}
        }
        let Some(rel) = at.checked_sub(reg::SLOT0) else {
            return 0;
        };
        let index = (rel / reg::SLOT_STRIDE) as usize;
        let Some(s) = self.work.slots.get(index) else {
            return 0;
        };
        let [desc_lo, desc_hi] = s.desc;
        let [inst_lo, inst_hi] = s.inst;
        let hi = |v: u64| (v >> 32) as u32;
        match rel % reg::SLOT_STRIDE {
            reg::DESC_LO => desc_lo,
            reg::DESC_HI => desc_hi,
            reg::INST_LO => inst_lo,
            reg::INST_HI => inst_hi,
            reg::VEID => s.veid,
            reg::STATUS if self.inject.is_wrong_status() => WRONG_STATUS,
            reg::STATUS => s.status,
            reg::ERROR => s.error,
            reg::ERR_VA_LO => s.err_va as u32,
            reg::ERR_VA_HI => hi(s.err_va),
            reg::ERR_INFO => s.err_info,
            reg::MISMATCHES_LO => s.mismatches as u32,
            reg::MISMATCHES_HI => hi(s.mismatches),
            reg::MISMATCH_VA_LO => s.mismatch_va as u32,
            reg::MISMATCH_VA_HI => hi(s.mismatch_va),
            reg::BLOCKS_DONE => s.blocks_done,
            reg::BLOCKS_STALLED => self
                .work
                .blocks
                .values()
                .filter(|b| b.slot == index && b.stalled())
                .count() as u32,
            reg::FAULTS_LO => s.faults as u32,
            reg::FAULTS_HI => hi(s.faults),
            reg::BYTES_LO => s.bytes as u32,
            reg::BYTES_HI => hi(s.bytes),
            reg::START_NS_LO => s.start_ns as u32,
            reg::START_NS_HI => hi(s.start_ns),
            reg::END_NS_LO => s.end_ns as u32,
            reg::END_NS_HI => hi(s.end_ns),
            _ => 0,
        }
    }

    /// Writes a register of the block.
    pub(crate) fn workload_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) {
        match at {
            reg::DONE_LO => self.work.done &= !u64::from(value),
            reg::DONE_HI => self.work.done &= !(u64::from(value) << 32),
            _ => {}
        }
        let Some(rel) = at.checked_sub(reg::SLOT0) else {
            return;
        };
        let index = (rel / reg::SLOT_STRIDE) as usize;
        let Some(s) = self.work.slots.get_mut(index) else {
            return;
        };
        let [desc_lo, desc_hi] = &mut s.desc;
        let [inst_lo, inst_hi] = &mut s.inst;
        match rel % reg::SLOT_STRIDE {
            reg::DESC_LO => *desc_lo = value,
            reg::DESC_HI => *desc_hi = value,
            reg::INST_LO => *inst_lo = value & 0xffff_f003,
            reg::INST_HI => *inst_hi = value,
            reg::VEID => s.veid = value & 0x3f,
            reg::CTRL if value == reg::CTRL_START => self.work_start(index, cx),
            reg::CTRL if value == reg::CTRL_ABORT && s.launch.is_some() => {
                self.work_end(index, reg::STATUS_ABORTED, None, cx);
            }
            _ => {}
        }
    }

    /// START: copies the descriptor and the instance block, lets blocks start.
    fn work_start(&mut self, index: usize, cx: &mut Cx<'_>) {
        let Some(s) = self.work.slots.get_mut(index) else {
            return;
        };
        if s.launch.is_some() {
            cx.guest_error("START on a slot that runs");
            return;
        }
        *s = Slot {
            desc: s.desc,
            inst: s.inst,
            veid: s.veid,
            status: reg::STATUS_RUNNING,
            start_ns: cx.now,
            ..Slot::default()
        };
        let ([desc_lo, desc_hi], [inst_lo, inst_hi], veid) = (s.desc, s.inst, s.veid);
        cx.count(Counter::Launches, 1);
        let at = (u64::from(desc_hi) << 32) | u64::from(desc_lo);
        let program = match read_program(at, cx) {
            Ok(p) => p,
            Err(error) => return self.work_refuse(index, error, cx),
        };
        let inst = (u64::from(inst_hi) << 32) | u64::from(inst_lo & 0xffff_f000);
        let instance = self.instance(inst_lo & 3, inst, Some(veid), cx);
        let Some(instance) = instance.filter(|i| i.pdb.is_some()) else {
            return self.work_refuse(index, reg::ERROR_INSTANCE, cx);
        };
        if let Some(s) = self.work.slots.get_mut(index) {
            s.launch = Some(Launch {
                program,
                instance,
                veid,
                next_block: 0,
                resident: 0,
            });
        }
        self.work_dispatch_soon(cx);
    }

    fn work_refuse(&mut self, index: usize, error: u32, cx: &mut Cx<'_>) {
        if let Some(s) = self.work.slots.get_mut(index) {
            s.error = error;
        }
        self.work_end(index, reg::STATUS_FAILED, None, cx);
    }

    /// A launch ends: its blocks go, DONE is set, the vector pulses.
    pub(crate) fn work_end(
        &mut self,
        index: usize,
        status: u32,
        failure: Option<Failure>,
        cx: &mut Cx<'_>,
    ) {
        let Some(s) = self.work.slots.get_mut(index) else {
            return;
        };
        s.launch = None;
        s.status = status;
        s.end_ns = cx.now;
        if let Some(f) = failure {
            s.error = f.error;
            s.err_va = f.va;
            s.err_info = (f.kind as u32) | (f.access << 16);
        }
        // What is on its way ends when it ends: until then it takes its place, so that no one has more on the way by ending launches.
        self.work.blocks.retain(|_, b| b.slot != index || b.leave());
        let blocks = &self.work.blocks;
        cx.queue.forget(cx.gpu, |e| match e {
            Event::BlockPiece { block } | Event::BlockRetry { block } => {
                !blocks.contains_key(block)
            }
            _ => false,
        });
        self.work.done |= 1 << (index % 64);
        self.pulse(reg::VECTOR, cx);
        self.work_dispatch_soon(cx);
    }

    /// A fault packet of the engine was doubled.
    pub(crate) fn work_count_duplicate(&mut self, fault: &crate::fault::Fault) {
        if let Some(s) = fault.slot.and_then(|i| self.work.slots.get_mut(i)) {
            s.faults = s.faults.wrapping_add(1);
        }
    }

    /// Queues a look at what may start.
    pub(crate) fn work_dispatch_soon(&mut self, cx: &mut Cx<'_>) {
        if !self.work.dispatch_queued {
            self.work.dispatch_queued = true;
            cx.at(cx.now, Event::Dispatch);
        }
    }

    /// Lets throttled blocks go on and new ones start, as far as the limits allow.
    pub(crate) fn work_dispatch(&mut self, cx: &mut Cx<'_>) {
        self.work.dispatch_queued = false;
        let held: Vec<u64> = self
            .work
            .blocks
            .iter()
            .filter(|(_, b)| b.state == State::Throttled)
            .map(|(id, _)| *id)
            .collect();
        for id in held {
            let veid = self.work.blocks.get(&id).map_or(0, |b| b.veid);
            if self.work_has_room(cx) && self.work_may_run(veid, 0) {
                self.block_step(id, false, cx);
            }
        }
        let mut idle_slots = 0;
        while self.work_has_room(cx) && idle_slots < self.work.slots.len() {
            let index = self.work.turn % self.work.slots.len();
            self.work.turn = (index + 1) % self.work.slots.len();
            match self.work_new_block(index) {
                Some(id) => {
                    idle_slots = 0;
                    self.block_step(id, false, cx);
                }
                None => idle_slots += 1,
            }
        }
    }

    /// Fewer blocks are resident than may be. One that a limit holds is not.
    fn work_has_room(&self, cx: &Cx<'_>) -> bool {
        let max = cx.fabric.profile.max_resident as usize;
        let blocks = &self.work.blocks;
        let held = |b: &&Block| b.state == State::Throttled;
        blocks.len() < max || blocks.len() - blocks.values().filter(held).count() < max
    }

    /// One more block may run: `beside` of those that run now are not counted.
    fn work_may_run(&self, veid: u32, beside: u32) -> bool {
        let (all, mine) = (self.throttle.all(), self.throttle.veid(veid));
        if all == u32::MAX && mine == u32::MAX {
            return true;
        }
        let mut active = 0;
        let mut active_mine = 0;
        for b in self
            .work
            .blocks
            .values()
            .filter(|b| b.state != State::Throttled)
        {
            active += 1;
            active_mine += u32::from(b.veid == veid);
        }
        active - beside.min(active) < all && active_mine - beside.min(active_mine) < mine
    }

    /// Takes the next block of a slot, if it has one and the limits allow it.
    fn work_new_block(&mut self, index: usize) -> Option<u64> {
        let veid = self.work.slots.get(index)?.launch.as_ref()?.veid;
        if !self.work_may_run(veid, 0) {
            return None;
        }
        let l = self.work.slots.get_mut(index)?.launch.as_mut()?;
        let limit = match l.program.max_resident {
            0 => u32::MAX,
            n => n,
        };
        if l.next_block >= l.program.blocks || l.resident >= limit {
            return None;
        }
        let number = l.next_block;
        l.next_block += 1;
        l.resident += 1;
        let id = self.work.next_id;
        self.work.next_id = id.wrapping_add(1);
        self.work.blocks.insert(id, Block::new(index, number, veid));
        Some(id)
    }

    /// A block has run its whole program.
    fn work_block_done(&mut self, id: u64, cx: &mut Cx<'_>) {
        let Some(b) = self.work.blocks.remove(&id) else {
            return;
        };
        let Some(s) = self.work.slots.get_mut(b.slot) else {
            return;
        };
        s.blocks_done += 1;
        let all = s.launch.as_mut().is_some_and(|l| {
            l.resident = l.resident.saturating_sub(1);
            s.blocks_done >= l.program.blocks
        });
        if all {
            self.work_end(b.slot, reg::STATUS_DONE, None, cx);
        } else {
            self.work_dispatch_soon(cx);
        }
    }
}

/// Reads and checks a descriptor; the error is an ERROR code.
fn read_program(at: u64, cx: &mut Cx<'_>) -> Result<Program, u32> {
    if at % 64 != 0 {
        return Err(reg::ERROR_DESCRIPTOR);
    }
    let gpu = cx.gpu;
    let place = Place::Sys { gpu, addr: at };
    let mut b = vec![0u8; format::HEADER_BYTES];
    cx.read(place, &mut b).map_err(|_| reg::ERROR_DMA)?;
    let n = desc::instr_count(&b).ok_or(reg::ERROR_DESCRIPTOR)?;
    let mut body = vec![0u8; n * format::INSTR_BYTES];
    let rest = place
        .checked_add(format::HEADER_BYTES as u64)
        .ok_or(reg::ERROR_DMA)?;
    cx.read(rest, &mut body).map_err(|_| reg::ERROR_DMA)?;
    b.append(&mut body);
    desc::parse(&b).ok_or(reg::ERROR_DESCRIPTOR)
}
