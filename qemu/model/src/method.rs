// SPDX-License-Identifier: GPL-2.0
//! Host methods: semaphores, MEM_OP, WFI, interrupts (hw-interface.md 2.1, 5.5, 6.3).

use huvm_hw::ext::inject::{SEM_BACK_LESS, SEM_WRONG_ADD};
use huvm_hw::ext::stats::Counter;

use crate::channel::{intr, Method, Outcome};
use crate::counter::Clear;
use crate::ext::inject::Inject;
use crate::gpu::{Cx, Gpu};
use crate::host::Place;
use crate::mmu::{Access, FaultType, TlbKind};
use crate::queue::Event;
use crate::replay::from_mem_op;

/// Class of GA100's copy engine.
const CLASS_CE: u32 = 0xc6b5;

/// A reduction of a semaphore: `old` op `payload`; codes of SEM_EXECUTE.REDUCTION.
pub(crate) fn reduce(op: u32, old: u64, payload: u64, signed: bool, wide: bool) -> Option<u64> {
    let mask = if wide { u64::MAX } else { u64::from(u32::MAX) };
    let (old, payload) = (old & mask, payload & mask);
    let less = if !signed {
        old < payload
    } else if wide {
        (old as i64) < payload as i64
    } else {
        (old as u32 as i32) < payload as u32 as i32
    };
    let v = match op {
        0 if less => old,
        0 => payload,
        1 if less => payload,
        1 => old,
        2 => old ^ payload,
        3 => old & payload,
        4 => old | payload,
        5 => old.wrapping_add(payload),
        // INC wraps to 0 above the payload, DEC to the payload.
        6 if old >= payload => 0,
        6 => old.wrapping_add(1),
        7 if old == 0 || old > payload => payload,
        7 => old.wrapping_sub(1),
        _ => return None,
    };
    Some(v & mask)
}

/// An acquire's condition; codes of SEM_EXECUTE.OPERATION.
fn acquired(op: u32, mem: u64, payload: u64, wide: bool) -> bool {
    match op {
        0 => mem == payload,
        2 => mem >= payload,
        3 if wide => (mem.wrapping_sub(payload) as i64) >= 0,
        3 => (mem.wrapping_sub(payload) as u32 as i32) >= 0,
        4 => mem & payload != 0,
        _ if wide => !(mem | payload) != 0,
        _ => !(mem as u32 | payload as u32) != 0,
    }
}

impl Gpu {
    /// Executes a method.
    pub(crate) fn method(
        &mut self,
        runlist: usize,
        chid: u32,
        m: Method,
        cx: &mut Cx<'_>,
    ) -> Outcome {
        if m.addr >= 0x100 {
            let has_context = self.channel(runlist, chid).is_some_and(|c| c.ce_ctx);
            // Subchannels 5 to 7 are software's.
            return match m.subch {
                0..=4 if !has_context => Outcome::Error(intr::CTX_NOT_VALID),
                0..=4 => self.ce_method(runlist, chid, m, cx),
                _ => Outcome::Error(intr::DEVICE),
            };
        }
        let Some(c) = self.channel(runlist, chid) else {
            return Outcome::Dead;
        };
        match m.addr {
            0x00 if m.subch > 4 => return Outcome::Error(intr::DEVICE),
            0x00 if m.data & 0xffff != CLASS_CE => return Outcome::Error(intr::METHOD),
            // SET_OBJECT, NOP, FB_FLUSH, SET_REFERENCE, YIELD: nothing to do here.
            0x00 | 0x08 | 0x24 | 0x50 | 0x80 => {}
            0x20 => self.non_stall(runlist, chid, cx),
            0x28 | 0x2c | 0x30 => {
                let i = (m.addr - 0x28) as usize / 4;
                if let Some(w) = c.mem_op.get_mut(i) {
                    *w = m.data;
                }
            }
            0x34 => return self.mem_op(runlist, chid, m.data, cx),
            0x5c | 0x60 => {
                let i = (m.addr - 0x5c) as usize / 4;
                if let Some(w) = c.sem_addr.get_mut(i) {
                    *w = m.data;
                }
            }
            0x64 | 0x68 => {
                let i = (m.addr - 0x64) as usize / 4;
                if let Some(w) = c.sem_payload.get_mut(i) {
                    *w = m.data;
                }
            }
            0x6c => return self.sem_execute(runlist, chid, m.data, cx),
            0x78 if !c.jobs.is_empty() => return Outcome::WaitCopies,
            0x78 => {}
            _ => return Outcome::Error(intr::METHOD),
        }
        Outcome::Done
    }

    /// NON_STALL_INT: the channel's own vector if it has one, else the engine's.
    fn non_stall(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let notify = self.channel(runlist, chid).map_or(0, |c| c.notify);
        let vector = if notify & (1 << 31) != 0 {
            notify & 0xfff
        } else {
            runlist as u32
        };
        self.pulse(vector, cx);
    }

    fn mem_op(&mut self, runlist: usize, chid: u32, d: u32, cx: &mut Cx<'_>) -> Outcome {
        let Some(c) = self.channel(runlist, chid) else {
            return Outcome::Dead;
        };
        let [a, b, cc] = c.mem_op;
        let op = d >> 27;
        // Invalidates and counter clears are privileged.
        if matches!(op, 0x9 | 0xa | 0x16) && !c.auth {
            return Outcome::Error(intr::METHOD);
        }
        match op {
            0x9 | 0xa => {
                let op = from_mem_op(a, b, cc, d, op == 0xa);
                let (at, least) = match c.invalidating.take() {
                    Some(moment) => moment,
                    None => self.invalidate_moment(cx),
                };
                if at > cx.now {
                    if let Some(c) = self.channel(runlist, chid) {
                        c.invalidating = Some((at, least));
                    }
                    return Outcome::Again(at);
                }
                Outcome::DoneAt(self.run_invalidate(&op, least, cx))
            }
            0x16 => {
                // Type, targeted type, bank: bank and tag together name a counter, and all of ours are in bank 0.
                self.counters
                    .clear(match (d & 3, (d >> 2) & 1, (d >> 3) & 0xf) {
                        (0 | 2, _, _) => Clear::All,
                        (3, 0, 0) => Clear::Tag(cc & 0xf_ffff),
                        _ => Clear::Nothing,
                    });
                Outcome::Done
            }
            // MEMBAR: 0 is the system's.
            0x5 => {
                c.unflushed &= cc & 7 != 0;
                Outcome::Done
            }
            // Cache maintenance: the model's memory is coherent.
            0xd | 0xe | 0xf | 0x10 | 0x15 => Outcome::Done,
            _ => Outcome::Error(intr::METHOD),
        }
    }

    /// Where a semaphore of `len` bytes lies.
    pub(crate) fn semaphore_place(
        &mut self,
        runlist: usize,
        chid: u32,
        va: u64,
        write: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Place>, (FaultType, Access)> {
        let access = if write { Access::Write } else { Access::Read };
        let pdb = self
            .channel(runlist, chid)
            .and_then(|c| c.instance)
            .and_then(|i| i.pdb)
            .ok_or((FaultType::UnboundInst, access))?;
        self.translate(TlbKind::Hub, pdb, va, access, true, cx)
            .map(|s| s.target.place())
            .map_err(|kind| (kind, access))
    }

    fn sem_execute(&mut self, runlist: usize, chid: u32, v: u32, cx: &mut Cx<'_>) -> Outcome {
        let Some(c) = self.channel(runlist, chid) else {
            return Outcome::Dead;
        };
        let [lo, hi] = c.sem_addr;
        let [plo, phi] = c.sem_payload;
        let va = (u64::from(hi & 0xff) << 32) | u64::from(lo & !3);
        let op = v & 7;
        let wide = v & (1 << 24) != 0;
        let timestamp = v & (1 << 25) != 0;
        let payload = u64::from(plo) | if wide { u64::from(phi) << 32 } else { 0 };
        let writes = op == 1 || op == 6;
        let align = match (writes && timestamp, wide) {
            (true, _) => 16,
            (false, true) => 8,
            (false, false) => 4,
        };
        if op == 7 || va % align != 0 {
            return Outcome::Error(intr::SEMAPHORE);
        }
        // RELEASE_WFI: the engine is idle first.
        if op == 1 && v & (1 << 20) != 0 && !c.jobs.is_empty() {
            return Outcome::WaitCopies;
        }
        let place = match self.semaphore_place(runlist, chid, va, writes, cx) {
            Ok(p) => p,
            Err((kind, access)) => return Outcome::Fault(va, kind, access),
        };
        let Some(place) = place else {
            // Sparse: reads as zero, a write goes nowhere.
            return if writes || acquired(op, 0, payload, wide) {
                Outcome::Done
            } else {
                Outcome::WaitSemaphore
            };
        };
        let old = if wide {
            cx.read_u64(place)
        } else {
            cx.read_u32(place).map(u64::from)
        };
        let Ok(old) = old else {
            return Outcome::Fault(va, FaultType::Region, Access::Read);
        };
        if !writes {
            return if acquired(op, old, payload, wide) {
                Outcome::Done
            } else {
                Outcome::WaitSemaphore
            };
        }
        let value = if op == 6 {
            match reduce((v >> 27) & 0xf, old, payload, v & (1 << 31) == 0, wide) {
                Some(n) => n,
                None => return Outcome::Error(intr::SEMAPHORE),
            }
        } else {
            payload
        };
        match self.release(place, value, wide, timestamp, cx) {
            true => Outcome::Done,
            false => Outcome::Fault(va, FaultType::Region, Access::Write),
        }
    }

    /// Writes a semaphore: the timestamp first, then the payload; then whoever waits looks again.
    pub(crate) fn release(
        &mut self,
        place: Place,
        value: u64,
        wide: bool,
        timestamp: bool,
        cx: &mut Cx<'_>,
    ) -> bool {
        if Inject::next(&mut self.inject.sem_lost) {
            return true;
        }
        let wrong = Inject::next(&mut self.inject.sem_wrong);
        let value = value.wrapping_add(if wrong { SEM_WRONG_ADD.into() } else { 0 });
        let back = Inject::next(&mut self.inject.sem_back);
        let value = value.wrapping_sub(if back { SEM_BACK_LESS.into() } else { 0 });
        if timestamp {
            let now = cx.now;
            let stamped = place
                .checked_add(8)
                .is_some_and(|p| cx.write(p, &now.to_le_bytes()).is_ok());
            if !stamped {
                return false;
            }
        }
        let bytes = value.to_le_bytes();
        // 32-bit with a timestamp: the word between is zero.
        let n = if wide || timestamp { 8 } else { 4 };
        let written = bytes.get(..n).is_some_and(|b| cx.write(place, b).is_ok());
        if written {
            cx.count(Counter::SemaphoreReleases, 1);
            for (gpu, epoch, runlist, chid) in cx.fabric.take_waiters() {
                cx.queue
                    .push(cx.now, gpu, epoch, Event::Wake { runlist, chid });
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions() {
        assert_eq!(reduce(5, 3, 4, false, false), Some(7));
        assert_eq!(reduce(5, 0xffff_ffff, 1, false, false), Some(0));
        assert_eq!(
            reduce(0, 0xffff_ffff, 1, true, false),
            Some(0xffff_ffff),
            "-1 is less"
        );
        assert_eq!(reduce(0, 0xffff_ffff, 1, false, false), Some(1));
        assert_eq!(reduce(6, 4, 4, false, false), Some(0));
        assert_eq!(reduce(6, 3, 4, false, false), Some(4));
        assert_eq!(reduce(7, 0, 9, false, false), Some(9));
        assert_eq!(reduce(12, 0, 9, false, false), None);
    }

    #[test]
    fn acquires() {
        assert!(acquired(3, 0, 0xffff_ffff, false), "wrapped past");
        assert!(!acquired(3, 0xffff_fffe, 0xffff_ffff, false));
        assert!(!acquired(2, 0, 0xffff_ffff, false));
        assert!(acquired(4, 6, 2, false) && !acquired(4, 4, 2, false));
        assert!(!acquired(5, 0xffff_fffe, 1, false));
    }
}
