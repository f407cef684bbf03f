// SPDX-License-Identifier: GPL-2.0
//! TLB invalidate, replay and cancel: one operation, reached by MEM_OP and by registers
//! (hw-interface.md 2).

use std::collections::VecDeque;

use huvm_hw::ext::stats::Counter;

use crate::bar0;
use crate::ext::inject::Inject;
use crate::gpu::{Cx, Gpu};
use crate::mmu::{Access, Pdb};
use crate::queue::Event;

/// How much later than the profile says an invalidate completes, at most, ns.
const LATE_NS: u32 = 3_000;

/// What happens to stalled accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    None,
    /// All are retried.
    Start,
    /// All are retried; the operation completes after they were.
    StartAckAll,
    /// One client's are retried and fail if they fault again.
    CancelTargeted {
        gpc: u32,
        client: u32,
    },
    /// All are retried and fail if they fault again.
    CancelGlobal,
    /// Those at one page fail; the others are retried.
    CancelVa {
        engine_id: u32,
        /// Cancel ACCESS_TYPE code.
        access: u32,
        va: u64,
        pdb: Pdb,
    },
}

/// An invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalidate {
    /// `None`: all page directories.
    pub(crate) pdb: Option<Pdb>,
    /// (address, bytes); `None`: all addresses.
    pub(crate) range: Option<(u64, u64)>,
    /// PAGE_TABLE_LEVEL code.
    pub(crate) level: u32,
    pub(crate) hub_only: bool,
    /// Completion waits for accesses that use old translations.
    pub(crate) ack: bool,
    pub(crate) replay: Replay,
}

/// A cancel matches an access (codes of MEM_OP_C; this device makes no weak atomics).
pub(crate) fn cancel_covers(code: u32, access: Access) -> bool {
    match code {
        0 => access == Access::Read,
        1 => access == Access::Write,
        2 | 5 => access == Access::Atomic,
        6 => access != Access::Read,
        7 => true,
        _ => false,
    }
}

fn replay_of(code: u32, gpc: u32, client: u32, cancel_va: Option<Replay>) -> Replay {
    match code {
        1 => Replay::Start,
        2 => Replay::StartAckAll,
        3 => Replay::CancelTargeted { gpc, client },
        4 => Replay::CancelGlobal,
        5 => cancel_va.unwrap_or(Replay::Start),
        _ => Replay::None,
    }
}

/// Decodes MEM_OP_A..D of operations TLB_INVALIDATE (`targeted` false) and TLB_INVALIDATE_TARGETED.
pub(crate) fn from_mem_op(a: u32, b: u32, c: u32, d: u32, targeted: bool) -> Invalidate {
    let va = (u64::from(b) << 32) | u64::from(a & 0xffff_f000);
    let one_pdb = Pdb {
        sys: (c >> 10) & 3 != 0,
        addr: (u64::from(d & 0x07ff_ffff) << 32) | u64::from(c & 0xffff_f000),
    };
    let code = (c >> 2) & 7;
    let hub_only = c & 2 != 0;
    let cancel_va = Replay::CancelVa {
        engine_id: a & 0x7f,
        access: (c >> 7) & 7,
        va,
        pdb: one_pdb,
    };
    // The low bits of A are the range only when nothing is cancelled.
    let range = (targeted && code != 3 && code != 5)
        .then(|| {
            let bytes = 4096u64.checked_shl(a & 0x3f).filter(|b| *b != 0);
            bytes.map(|b| (va & !(b.wrapping_sub(1)), b))
        })
        .flatten()
        .or((targeted && code == 5).then_some((va, 4096)));
    Invalidate {
        pdb: (c & 1 == 0).then_some(one_pdb),
        range,
        level: if code == 5 { 0 } else { (c >> 7) & 7 },
        hub_only,
        ack: !hub_only && (c >> 5) & 3 != 0,
        replay: if hub_only {
            Replay::None
        } else {
            replay_of(code, (a >> 6) & 0x1f, a & 0x3f, Some(cancel_va))
        },
    }
}

/// The register block, both copies: the VF one, and the PF-only one that has addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct InvalidateRegs {
    pdb: u32,
    upper_pdb: u32,
    vaddr: u32,
    upper_vaddr: u32,
    size: u32,
    pending: u32,
    /// Those that take effect later, in order: when the profile has them complete.
    waiting: VecDeque<(Invalidate, u64)>,
    /// When the last of those takes effect, ns.
    last_at: u64,
    /// The one that hangs (INJECT.COMMAND_HANG).
    hung: Option<Invalidate>,
}

impl InvalidateRegs {
    /// An invalidate completed.
    pub(crate) fn done(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Reads a register; `None` when it is none.
    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        Some(match at {
            bar0::INVALIDATE_PDB | bar0::PF_INVALIDATE_PDB => self.pdb,
            bar0::INVALIDATE_UPPER_PDB | bar0::PF_INVALIDATE_UPPER_PDB => self.upper_pdb,
            bar0::PF_INVALIDATE_VADDR => self.vaddr,
            bar0::PF_INVALIDATE_UPPER_VADDR => self.upper_vaddr,
            bar0::PF_INVALIDATE_SIZE => self.size,
            // TRIGGER reads 1 while one is pending (section 11, item 12).
            bar0::INVALIDATE | bar0::PF_INVALIDATE => u32::from(self.pending > 0) << 31,
            _ => return None,
        })
    }

    pub(crate) fn decode(&self, v: u32, has_address: bool) -> Invalidate {
        let one_pdb = Pdb {
            sys: self.pdb & 2 != 0,
            addr: (u64::from(self.upper_pdb & 0xf_ffff) << 40) | (u64::from(self.pdb >> 4) << 12),
        };
        let va =
            (u64::from(self.upper_vaddr & 0x1f_ffff) << 40) | (u64::from(self.vaddr >> 4) << 12);
        let hub_only = v & 4 != 0;
        let code = (v >> 3) & 7;
        let all_va = v & 1 != 0 || !has_address;
        let pages = if v & (1 << 22) != 0 {
            self.size & 0x3f
        } else {
            0
        };
        let cancel_va = Replay::CancelVa {
            engine_id: (v >> 9) & 0x7f,
            access: (v >> 24) & 7,
            va,
            pdb: one_pdb,
        };
        Invalidate {
            pdb: (v & 2 == 0).then_some(one_pdb),
            range: if all_va {
                None
            } else {
                4096u64
                    .checked_shl(pages)
                    .filter(|b| *b != 0)
                    .map(|b| (va & !(b.wrapping_sub(1)), b))
            },
            level: if code == 5 { 0 } else { (v >> 24) & 7 },
            hub_only,
            ack: !hub_only && (v >> 7) & 3 != 0,
            replay: if hub_only {
                Replay::None
            } else {
                // A cancel by address needs the registers that hold one.
                replay_of(
                    code,
                    (v >> 15) & 0x1f,
                    (v >> 9) & 0x3f,
                    has_address.then_some(cancel_va),
                )
            },
        }
    }
}

impl Gpu {
    /// Writes an invalidate register; false when it is none.
    pub(crate) fn invalidate_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) -> bool {
        let r = &mut self.invalidate;
        match at {
            bar0::INVALIDATE_PDB | bar0::PF_INVALIDATE_PDB => r.pdb = value,
            bar0::INVALIDATE_UPPER_PDB | bar0::PF_INVALIDATE_UPPER_PDB => r.upper_pdb = value,
            bar0::PF_INVALIDATE_VADDR => r.vaddr = value,
            bar0::PF_INVALIDATE_UPPER_VADDR => r.upper_vaddr = value,
            bar0::PF_INVALIDATE_SIZE => r.size = value,
            bar0::INVALIDATE | bar0::PF_INVALIDATE => {
                if value & (1 << 31) != 0 {
                    let op = r.decode(value, at == bar0::PF_INVALIDATE);
                    self.command(op, cx);
                }
            }
            _ => return false,
        }
        true
    }

    fn command(&mut self, op: Invalidate, cx: &mut Cx<'_>) {
        let r = &mut self.invalidate;
        if r.hung.is_some() {
            return;
        }
        r.pending = r.pending.saturating_add(1);
        if Inject::countdown(&mut self.inject.command_hang) {
            r.hung = Some(op);
            return;
        }
        self.command_begins(op, cx);
    }

    /// INJECT.COMMAND_HANG was written 0: what hung is carried out.
    pub(crate) fn command_unhang(&mut self, cx: &mut Cx<'_>) {
        if let Some(op) = self.invalidate.hung.take() {
            self.command_begins(op, cx);
        }
    }

    fn command_begins(&mut self, op: Invalidate, cx: &mut Cx<'_>) {
        let (at, least) = self.invalidate_moment(cx);
        let r = &mut self.invalidate;
        let at = at.max(r.last_at);
        if at <= cx.now && r.waiting.is_empty() {
            let done = self.run_invalidate(&op, least, cx);
            return cx.at(done, Event::InvalidateDone);
        }
        r.last_at = at;
        r.waiting.push_back((op, least));
        cx.at(at, Event::InvalidateTakes);
    }

    /// The first of those that wait takes effect.
    pub(crate) fn command_takes(&mut self, cx: &mut Cx<'_>) {
        if let Some((op, least)) = self.invalidate.waiting.pop_front() {
            let done = self.run_invalidate(&op, least, cx);
            cx.at(done, Event::InvalidateDone);
        }
    }

    /// When an invalidate that is asked for now takes effect, and when it completes at the earliest, ns: what is cached may be used until
    /// the one, and the other may be later than it takes.
    pub(crate) fn invalidate_moment(&mut self, cx: &Cx<'_>) -> (u64, u64) {
        let usual = cx.delay(cx.fabric.profile.invalidate_ns);
        let late = cx.delay(LATE_NS);
        let total = usual.saturating_add(self.inject.moment(late).unwrap_or(0));
        let takes = self.inject.moment(total).unwrap_or(0);
        let begins = cx.now + cx.delay(self.inject.invalidate_late_ns);
        (begins.saturating_add(takes), begins.saturating_add(total))
    }

    /// Runs an invalidate with its replay; returns when it is complete, ns: not before `least`.
    pub(crate) fn run_invalidate(&mut self, op: &Invalidate, least: u64, cx: &mut Cx<'_>) -> u64 {
        cx.count(Counter::TlbInvalidates, 1);
        self.mmu.hub.invalidate(op.pdb, op.range, op.level);
        if !op.hub_only {
            self.mmu.gpc.invalidate(op.pdb, op.range, op.level);
        }
        let mut done = least.max(cx.now);
        if op.ack {
            done = done.max(self.mmu.in_use_until);
        }
        match op.replay {
            Replay::None => {}
            Replay::Start | Replay::StartAckAll => cx.count(Counter::Replays, 1),
            _ => cx.count(Counter::Cancels, 1),
        }
        if op.replay != Replay::None {
            let retried = self.work_replay(op.replay, cx);
            if op.replay == Replay::StartAckAll {
                done = done.max(retried);
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_op_fields() {
        // Targeted, 64 KiB at 0x1_2345_0000, one PDB in vidmem at 0x5000, up to PDE0, ack globally.
        let op = from_mem_op(
            0x2345_0000 | 4,
            1,
            0x5000 | (2 << 7) | (1 << 5),
            10 << 27,
            true,
        );
        assert_eq!(op.range, Some((0x1_2345_0000, 0x1_0000)));
        assert_eq!(
            op.pdb,
            Some(Pdb {
                sys: false,
                addr: 0x5000
            })
        );
        assert_eq!(
            (op.level, op.ack, op.hub_only, op.replay),
            (2, true, false, Replay::None)
        );
        // All PDBs, START.
        let op = from_mem_op(0, 0, 1 | (1 << 2), 9 << 27, false);
        assert_eq!((op.pdb, op.range, op.replay), (None, None, Replay::Start));
        // Cancel targeted: client 5 of GPC 3.
        let op = from_mem_op(5 | (3 << 6), 0, 1 | (3 << 2), 9 << 27, false);
        assert_eq!(op.replay, Replay::CancelTargeted { gpc: 3, client: 5 });
    }

    #[test]
    fn cancel_access_types() {
        use Access::{Atomic, Read, Write};
        let covered = |code| [Read, Write, Atomic].map(|a| cancel_covers(code, a));
        assert_eq!(covered(7), [true, true, true]);
        assert_eq!(covered(6), [false, true, true]);
        assert_eq!(covered(0), [true, false, false]);
        assert_eq!(covered(2), [false, false, true]);
        assert_eq!(covered(4), [false, false, false]);
    }
}
