// SPDX-License-Identifier: GPL-2.0
//! INJECT block: failures on demand, and the realism switches.

use huvm_hw::ext::inject as reg;

use crate::gpu::{Cx, Gpu};

/// The registers of the block.
#[derive(Clone, Debug)]
pub(crate) struct Inject {
    pub(crate) valid_delay_ns: u32,
    pub(crate) reorder_permille: u32,
    pub(crate) duplicate_permille: u32,
    pub(crate) overflow_count: u32,
    pub(crate) ce_fault: u32,
    pub(crate) ce_hang: u32,
    pub(crate) command_hang: u32,
    pub(crate) ce_stall: u32,
    pub(crate) link_down: u32,
    pub(crate) drop_intr: u32,
    pub(crate) neg_tlb: bool,
    pub(crate) seed: u32,
    pub(crate) latency_ns: u32,
    rng: u64,
}

impl Inject {
    pub(crate) fn new(realism: bool, seed: u32) -> Self {
        let pick = |on: u32| if realism { on } else { 0 };
        Inject {
            valid_delay_ns: pick(200),
            reorder_permille: pick(50),
            duplicate_permille: pick(50),
            overflow_count: 0,
            ce_fault: 0,
            ce_hang: 0,
            command_hang: 0,
            ce_stall: 0,
            link_down: 0,
            drop_intr: 0,
            neg_tlb: realism,
            seed,
            latency_ns: 0,
            rng: scramble(seed),
        }
    }

    /// True with a chance of `permille` in 1000 (xorshift64*; its state depends on the seed only).
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        if permille == 0 {
            return false;
        }
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        let r = self.rng.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        r % 1000 < u64::from(permille)
    }

    /// Counts down a "the n-th from now" register; true when this is the one.
    pub(crate) fn countdown(counter: &mut u32) -> bool {
        match *counter {
            0 => false,
            n => {
                *counter = n - 1;
                n == 1
            }
        }
    }
}

fn scramble(seed: u32) -> u64 {
    // Any odd constant does: it only keeps the state away from zero.
    (u64::from(seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn inject_read(&self, offset: u32, cx: &Cx<'_>) -> u32 {
        let i = &self.inject;
        match offset {
            reg::VALID_DELAY_NS => i.valid_delay_ns,
            reg::REORDER_PERMILLE => i.reorder_permille,
            reg::DUPLICATE_PERMILLE => i.duplicate_permille,
            reg::OVERFLOW_COUNT => i.overflow_count,
            reg::CE_FAULT => i.ce_fault,
            reg::CE_HANG => i.ce_hang,
            reg::COMMAND_HANG => i.command_hang,
            reg::CE_STALL => i.ce_stall,
            reg::LINK_DOWN => i.link_down,
            reg::DROP_INTR => i.drop_intr,
            reg::NEG_TLB => u32::from(i.neg_tlb),
            reg::SEED => i.seed,
            reg::LATENCY_NS => i.latency_ns,
            reg::ECC_POISON => self.poisoned(cx),
            _ => 0,
        }
    }

    /// Writes a register of the block.
    pub(crate) fn inject_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        let i = &mut self.inject;
        match offset {
            reg::VALID_DELAY_NS => i.valid_delay_ns = value.min(reg::VALID_DELAY_MAX_NS),
            reg::REORDER_PERMILLE => i.reorder_permille = value.min(1000),
            reg::DUPLICATE_PERMILLE => i.duplicate_permille = value.min(1000),
            reg::OVERFLOW_COUNT => i.overflow_count = value,
            reg::CE_FAULT => i.ce_fault = value,
            reg::CE_HANG => {
                i.ce_hang = value;
                if value == 0 {
                    self.ce_unhang(cx);
                }
            }
            reg::COMMAND_HANG => {
                i.command_hang = value;
                if value == 0 {
                    self.command_unhang(cx);
                }
            }
            reg::CE_STALL => {
                i.ce_stall = value;
                if value == 0 {
                    self.ce_unstall(cx);
                }
            }
            reg::LINK_DOWN => {
                i.link_down = value;
                cx.fabric.force_down(cx.gpu, value);
            }
            reg::GONE if value == reg::GONE_KEY => self.gone = true,
            reg::DROP_INTR => i.drop_intr = value,
            reg::NEG_TLB => {
                i.neg_tlb = value & 1 != 0;
                if !i.neg_tlb {
                    self.mmu.drop_negative();
                }
            }
            reg::SEED => {
                i.seed = value;
                i.rng = scramble(value);
            }
            reg::LATENCY_NS => i.latency_ns = value,
            reg::ECC_POISON => self.poison(value, cx),
            reg::ECC_REPORT => self.report_bad(value, cx),
            _ => {}
        }
    }
}
