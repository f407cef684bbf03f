// SPDX-License-Identifier: GPL-2.0
//! A block: which piece is next, what it touches, and what happens when that is not mapped.

use huvm_hw::ext::desc::Op;
use huvm_hw::ext::stats::Counter;
use huvm_hw::ext::workload as reg;

use super::desc::Instr;
use super::exec::{Operand, Touch, Work};
use super::{Failure, Launch};
use crate::fabric::Side;
use crate::fault::{Client, Fault, NON_REPLAYABLE, REPLAYABLE};
use crate::gpu::{Cx, Gpu};
use crate::mmu::{Access, FaultType, Instance, Span, TlbKind};
use crate::queue::Event;
use crate::replay::{cancel_covers, Replay};

/// Bytes of a piece, at most.
const PIECE_BYTES: u64 = 64 << 10;
/// A DELAY is this long a piece, at most: how long a block goes on that a new limit holds.
const DELAY_NS: u64 = 20_000_000;
/// Elements of a piece whose addresses are data (gather, scatter, trace): a warp.
const WARP: u64 = 32;
/// MMU engine id of subcontext 0.
pub(crate) const ENGINE_GR0: u32 = 64;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Created, or between pieces.
    Ready,
    /// A piece is in flight.
    Running,
    /// Waits for a replay.
    Stalled,
    /// A replay came: translates again; with `cancel`, for the last time.
    Retry { cancel: bool },
    /// Held by a limit of THROTTLE.
    Throttled,
}

/// The slot of a block whose launch is over.
const NO_SLOT: usize = usize::MAX;

/// An access that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    va: u64,
    access: Access,
    kind: FaultType,
}

/// A block of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) slot: usize,
    pub(crate) number: u32,
    pub(crate) veid: u32,
    pub(crate) state: State,
    iteration: u32,
    instr: usize,
    step: u64,
    elem: u64,
    /// DELAY: nanoseconds of the step that are over, the piece in flight included.
    waited: u64,
    /// REDUCE: the sum so far, and whether it is what is to be stored next.
    pub(crate) sum: u64,
    store_sum: bool,
    missing: Vec<Missing>,
    work: Option<Work>,
}

impl Block {
    pub(crate) fn new(slot: usize, number: u32, veid: u32) -> Self {
        Block {
            slot,
            number,
            veid,
            state: State::Ready,
            iteration: 0,
            instr: 0,
            step: 0,
            elem: 0,
            waited: 0,
            sum: 0,
            store_sum: false,
            missing: Vec::new(),
            work: None,
        }
    }

    /// Its launch is over. Whether it stays for what it has on its way, which moves no byte then.
    pub(crate) fn leave(&mut self) -> bool {
        self.slot = NO_SLOT;
        self.state == State::Running && self.work.as_ref().is_some_and(Work::moves)
    }

    /// Waits for a replay, or for one that is on its way.
    pub(crate) fn stalled(&self) -> bool {
        matches!(self.state, State::Stalled | State::Retry { .. })
    }

    fn client(&self) -> Client {
        Client {
            engine_id: ENGINE_GR0 + self.veid,
            // T1_0..T1_7 have the client numbers 0..7.
            client: self.number / 8 % 8,
            gpc: Some(self.number % 8),
        }
    }

    /// Moves on by `n` elements; true when the program is over.
    fn advance(&mut self, i: &Instr, instrs: usize, iterations: u32, n: u64) -> bool {
        if self.store_sum {
            self.store_sum = false;
            self.sum = 0;
        } else {
            self.elem += n;
            if i.op == Op::Delay {
                if self.waited < i.imm0 {
                    self.elem = 0;
                    return false;
                }
                self.waited = 0;
                self.elem = i.count;
            }
            if self.elem < i.count {
                return false;
            }
            self.elem = 0;
            self.step += 1;
            if self.step < i.steps {
                return false;
            }
            if i.op == Op::Reduce {
                self.store_sum = true;
                return false;
            }
        }
        self.step = 0;
        self.instr += 1;
        if self.instr < instrs {
            return false;
        }
        self.instr = 0;
        self.iteration += 1;
        self.iteration >= iterations
    }
}

impl Gpu {
    /// Starts the next piece of a block, or stalls it. `cancel`: an access that is missing fails.
    pub(crate) fn block_step(&mut self, id: u64, cancel: bool, cx: &mut Cx<'_>) {
        let Some(b) = self.work.blocks.get_mut(&id) else {
            return;
        };
        let slot = b.slot;
        b.state = State::Ready;
        b.missing.clear();
        let view = b.clone();
        // Cheap enough to copy once a piece, and nothing of it is borrowed while the MMU works.
        let Some((launch_instance, elem_bytes, instr)) = self.block_context(&view) else {
            return;
        };
        let Some(i) = instr else { return };
        match self.block_prepare(&view, &launch_instance, elem_bytes, &i, cx) {
            Ok(work) => self.block_issue(id, &i, work, cx),
            Err(missing) => {
                self.block_miss(id, slot, &launch_instance, missing, cancel, cx);
            }
        }
    }

    fn block_context(&self, b: &Block) -> Option<(Instance, u64, Option<Instr>)> {
        let l: &Launch = self.work.slots.get(b.slot)?.launch.as_ref()?;
        Some((
            l.instance,
            l.program.elem_bytes,
            l.program.instrs.get(b.instr).copied(),
        ))
    }

    /// Works out what the next piece touches.
    fn block_prepare(
        &mut self,
        b: &Block,
        inst: &Instance,
        elem_bytes: u64,
        i: &Instr,
        cx: &mut Cx<'_>,
    ) -> Result<Work, Vec<Missing>> {
        let mut work = Work {
            elem_bytes,
            count: 0,
            operands: [None; 4],
            scattered: Vec::new(),
            store_sum: b.store_sum,
        };
        let mut missing = Vec::new();
        if i.op == Op::Delay {
            work.count = 1;
            return Ok(work);
        }
        let bases = if b.store_sum {
            let at = i.dst.wrapping_add(u64::from(b.number) * elem_bytes);
            [Some(at), None, None, None]
        } else {
            let offset = i.offset(b.number, b.step, b.elem);
            i.strided().map(|o| o.map(|base| base.wrapping_add(offset)))
        };
        let mut n = if b.store_sum { 1 } else { i.count - b.elem };
        if matches!(i.op, Op::Gather | Op::Scatter | Op::Trace) {
            n = n.min(WARP);
        }
        // Where not all elements are aligned, each is looked at by itself.
        if i.elem_stride % elem_bytes != 0 {
            n = 1;
        }
        let mut limit = PIECE_BYTES;
        for (which, va) in bases.into_iter().enumerate() {
            let Some(va) = va else { continue };
            let access = match (which, i.op) {
                (0, Op::AtomicAdd) => Access::Atomic,
                (0, _) => Access::Write,
                _ => Access::Read,
            };
            match self.block_translate(inst, va, elem_bytes, access, cx) {
                Ok(span) => {
                    limit = limit.min(span.page_bytes);
                    let stride = i.elem_stride.max(1);
                    n = n.min(span.run_bytes.saturating_sub(elem_bytes) / stride + 1);
                    if let Some(o) = work.operands.get_mut(which) {
                        *o = Some(Operand {
                            va,
                            span,
                            stride: i.elem_stride,
                        });
                    }
                }
                Err(kind) => missing.push(Missing { va, access, kind }),
            }
        }
        if !missing.is_empty() {
            return Err(missing);
        }
        work.count = n.min((limit / i.elem_stride.max(1)).max(1));
        self.block_scattered(i, inst, &mut work, &mut missing, cx);
        if missing.is_empty() {
            Ok(work)
        } else {
            Err(missing)
        }
    }

    /// Translates the accesses whose addresses are data.
    fn block_scattered(
        &mut self,
        i: &Instr,
        inst: &Instance,
        work: &mut Work,
        missing: &mut Vec<Missing>,
        cx: &mut Cx<'_>,
    ) {
        let (index_operand, base) = match i.op {
            Op::Gather => (3, i.a),
            Op::Scatter => (3, i.dst),
            Op::Trace => (1, 0),
            _ => return,
        };
        let Some(Some(index)) = work.operands.get(index_operand).copied() else {
            return;
        };
        for k in 0..work.count {
            let Ok(value) = index.load(k, work.elem_bytes, cx) else {
                missing.push(Missing {
                    va: index.va,
                    access: Access::Read,
                    kind: FaultType::Region,
                });
                return;
            };
            let (va, access) = match i.op {
                Op::Trace => {
                    use huvm_hw::ext::desc::{TRACE_PAGE_MASK, TRACE_WRITE};
                    let write = value & TRACE_WRITE != 0;
                    (
                        value & TRACE_PAGE_MASK,
                        if write { Access::Write } else { Access::Read },
                    )
                }
                op => {
                    let access = if op == Op::Scatter {
                        Access::Write
                    } else {
                        Access::Read
                    };
                    // An index past the address space ends above it, not somewhere inside.
                    let at = value
                        .checked_mul(work.elem_bytes)
                        .and_then(|o| base.checked_add(o))
                        .unwrap_or(u64::MAX - (work.elem_bytes - 1));
                    (at, access)
                }
            };
            match self.block_translate(inst, va, work.elem_bytes, access, cx) {
                Ok(span) => work.scattered.push(Touch { va, access, span }),
                Err(kind) => missing.push(Missing { va, access, kind }),
            }
        }
    }

    fn block_translate(
        &mut self,
        inst: &Instance,
        va: u64,
        elem_bytes: u64,
        access: Access,
        cx: &mut Cx<'_>,
    ) -> Result<Span, FaultType> {
        if va % elem_bytes != 0 {
            return Err(FaultType::VaLimit);
        }
        let pdb = inst.pdb.ok_or(FaultType::UnboundInst)?;
        let mut span = self.translate(TlbKind::Gpc, pdb, va, access, false, cx)?;
        // A page that failed ends the run; the next access begins there.
        if let Some(place) = span.target.place() {
            match cx.until_bad(place, span.run_bytes) {
                Some(0) => {
                    cx.found_bad(place);
                    return Err(FaultType::Poisoned);
                }
                Some(n) => span.run_bytes = n,
                None => {}
            }
        }
        Ok(span)
    }

    /// The piece is translated: it takes its time, then `block_piece_done`.
    fn block_issue(&mut self, id: u64, i: &Instr, work: Work, cx: &mut Cx<'_>) {
        let mut end = cx.now;
        if i.op == Op::Delay {
            if let Some(b) = self.work.blocks.get_mut(&id) {
                let left = i.imm0.saturating_sub(b.waited);
                // All blocks that wait for long look at the same times.
                let piece = match left {
                    n if n > DELAY_NS && cx.timing => DELAY_NS - cx.now % DELAY_NS,
                    n => n,
                };
                b.waited = b.waited.saturating_add(piece);
                if cx.timing {
                    end = end.saturating_add(piece);
                }
            }
        } else {
            end = self.block_cost(id, i.op, &work, cx);
            self.mmu.in_use_until = self.mmu.in_use_until.max(end);
        }
        if let Some(b) = self.work.blocks.get_mut(&id) {
            b.state = State::Running;
            b.work = Some(work);
            cx.at(end, Event::BlockPiece { block: id });
        }
    }

    /// Charges the resources, counts the bytes; returns when the piece ends.
    fn block_cost(&mut self, id: u64, op: Op, work: &Work, cx: &mut Cx<'_>) -> u64 {
        let mut end = cx.now;
        let mut total = 0u64;
        let me = Side::Gpu(cx.gpu);
        let slot = self.work.blocks.get(&id).map(|b| (b.slot, b.veid));
        let inst = slot
            .and_then(|(s, _)| self.work.slots.get(s))
            .and_then(|s| s.launch.as_ref())
            .map(|l| l.instance);
        for t in work.touches(op) {
            let Some(side) = t.side else { continue };
            total = total.saturating_add(t.bytes);
            let counter = match side {
                Side::Sys => Counter::WorkBytesHost,
                s if s == me => Counter::WorkBytesLocal,
                Side::Gpu(_) => Counter::WorkBytesPeer,
            };
            cx.count(counter, t.bytes);
            if cx.timing {
                let (src, dst) = match t.access {
                    Access::Read => (Some(side), None),
                    Access::Write | Access::Atomic => (None, Some(side)),
                };
                end = end.max(cx.fabric.transfer(cx.gpu, false, src, dst, t.bytes, cx.now));
            }
            if let (true, Some(inst), Some((_, veid))) = (side != me, inst, slot) {
                let peer = side != Side::Sys;
                self.count_remote(&inst, ENGINE_GR0 + veid, t.va, t.bytes, peer, cx);
            }
        }
        if let Some(s) = slot.and_then(|(s, _)| self.work.slots.get_mut(s)) {
            s.bytes = s.bytes.wrapping_add(total);
        }
        end
    }

    /// A piece is complete: its bytes move, the block goes on.
    pub(crate) fn block_piece_done(&mut self, id: u64, cx: &mut Cx<'_>) {
        let Some(b) = self.work.blocks.get_mut(&id) else {
            return;
        };
        let Some(work) = b.work.take() else {
            return;
        };
        if b.slot == NO_SLOT {
            self.work.blocks.remove(&id);
            return self.work_dispatch_soon(cx);
        }
        b.state = State::Ready;
        let view = b.clone();
        let Some((_, _, Some(i))) = self.block_context(&view) else {
            return;
        };
        let mut sum = view.sum;
        if !self.config.phantom {
            match work.run(&i, &mut sum, cx) {
                Ok(bad) => {
                    if let (Some(s), true) = (self.work.slots.get_mut(view.slot), bad.count > 0) {
                        if s.mismatches == 0 {
                            s.mismatch_va = bad.first_va;
                        }
                        s.mismatches = s.mismatches.wrapping_add(bad.count);
                    }
                }
                Err(va) => {
                    let failure = Failure {
                        error: reg::ERROR_DMA,
                        va,
                        kind: FaultType::Region,
                        access: 0,
                    };
                    return self.work_end(view.slot, reg::STATUS_FAILED, Some(failure), cx);
                }
            }
        }
        let (instrs, iterations) = match self
            .work
            .slots
            .get(view.slot)
            .and_then(|s| s.launch.as_ref())
        {
            Some(l) => (l.program.instrs.len(), l.program.iterations),
            None => return,
        };
        let Some(b) = self.work.blocks.get_mut(&id) else {
            return;
        };
        b.sum = sum;
        if b.advance(&i, instrs, iterations, work.count) {
            return self.work_block_done(id, cx);
        }
        if !self.work_may_run(view.veid, 1) {
            if let Some(b) = self.work.blocks.get_mut(&id) {
                b.state = State::Throttled;
            }
            // It is not resident any more: another may start.
            self.work_dispatch_soon(cx);
            return;
        }
        self.block_step(id, false, cx);
    }

    /// Accesses of a piece are not mapped: packets, and the block stalls or the launch fails.
    fn block_miss(
        &mut self,
        id: u64,
        slot: usize,
        inst: &Instance,
        mut missing: Vec<Missing>,
        cancel: bool,
        cx: &mut Cx<'_>,
    ) {
        // One packet a page.
        let mut seen: Vec<(u64, Access)> = Vec::with_capacity(missing.len());
        missing.retain(|m| {
            let key = (m.va >> 12, m.access);
            let fresh = !seen.contains(&key);
            seen.push(key);
            fresh
        });
        let fatal = missing.iter().find(|m| !m.kind.replayable()).copied();
        if fatal.is_none() && inst.replay_tex && !cancel {
            for m in &missing {
                self.block_report(id, slot, inst, m, true, cx);
            }
            if let Some(b) = self.work.blocks.get_mut(&id) {
                b.missing = missing;
                b.state = State::Stalled;
            }
            return;
        }
        let Some(m) = fatal.or(missing.first().copied()) else {
            return;
        };
        let error = if fatal.is_none() && cancel {
            reg::ERROR_CANCELLED
        } else {
            reg::ERROR_FAULT
        };
        self.block_fail(id, slot, inst, &m, error, cx);
    }

    fn block_fail(
        &mut self,
        id: u64,
        slot: usize,
        inst: &Instance,
        m: &Missing,
        error: u32,
        cx: &mut Cx<'_>,
    ) {
        self.block_report(id, slot, inst, m, false, cx);
        let failure = Failure {
            error,
            va: m.va,
            kind: m.kind,
            access: m.access as u32,
        };
        self.work_end(slot, reg::STATUS_FAILED, Some(failure), cx);
    }

    fn block_report(
        &mut self,
        id: u64,
        slot: usize,
        inst: &Instance,
        m: &Missing,
        replayable: bool,
        cx: &mut Cx<'_>,
    ) {
        let Some(who) = self.work.blocks.get(&id).map(Block::client) else {
            return;
        };
        let fault = Fault {
            inst_target: inst.target,
            inst_addr: inst.addr,
            va: m.va,
            kind: m.kind,
            access: m.access as u32,
            who,
            replayable,
            replay_enabled: inst.replay_tex || inst.replay_gcc,
            time_ns: cx.now,
            slot: Some(slot),
        };
        if let Some(s) = self.work.slots.get_mut(slot) {
            s.faults = s.faults.wrapping_add(1);
        }
        let ring = if replayable {
            REPLAYABLE
        } else {
            NON_REPLAYABLE
        };
        self.report(ring, fault, cx);
    }

    /// A replay or cancel; returns when the retries have been translated, ns.
    pub(crate) fn work_replay(&mut self, replay: Replay, cx: &mut Cx<'_>) -> u64 {
        let at = cx.now.saturating_add(cx.delay(cx.fabric.profile.replay_ns));
        let stalled: Vec<u64> = self
            .work
            .blocks
            .iter()
            .filter(|(_, b)| b.state == State::Stalled)
            .map(|(id, _)| *id)
            .collect();
        for id in stalled {
            // A cancel may have ended the launch of a later block.
            let Some(b) = self.work.blocks.get_mut(&id) else {
                continue;
            };
            let who = b.client();
            let cancel = match replay {
                Replay::None => continue,
                Replay::Start | Replay::StartAckAll => false,
                Replay::CancelGlobal => true,
                Replay::CancelTargeted { gpc, client } => {
                    if who.gpc != Some(gpc) || who.client != client {
                        continue;
                    }
                    true
                }
                Replay::CancelVa {
                    engine_id,
                    access,
                    va,
                    pdb,
                } => {
                    let hit = b
                        .missing
                        .iter()
                        .copied()
                        .find(|m| m.va >> 12 == va >> 12 && cancel_covers(access, m.access));
                    let slot = b.slot;
                    let inst = self
                        .work
                        .slots
                        .get(slot)
                        .and_then(|s| s.launch.as_ref())
                        .map(|l| l.instance);
                    if let (Some(m), Some(inst)) = (hit, inst) {
                        if who.engine_id == engine_id && inst.pdb == Some(pdb) {
                            self.block_fail(id, slot, &inst, &m, reg::ERROR_CANCELLED, cx);
                            continue;
                        }
                    }
                    false
                }
            };
            if let Some(b) = self.work.blocks.get_mut(&id) {
                b.state = State::Retry { cancel };
                cx.at(at, Event::BlockRetry { block: id });
            }
        }
        at
    }

    /// A stalled block translates again.
    pub(crate) fn block_retry(&mut self, id: u64, cx: &mut Cx<'_>) {
        if let Some(State::Retry { cancel }) = self.work.blocks.get(&id).map(|b| b.state) {
            self.block_step(id, cancel, cx);
        }
    }
}
