// SPDX-License-Identifier: GPL-2.0
//! IDENT block.

use huvm_hw::ext::ident as reg;

use crate::gpu::{Cx, Gpu};

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn ident_read(&self, offset: u32, cx: &Cx<'_>) -> u32 {
        let uuid = offset.wrapping_sub(reg::UUID0) / 4;
        let cap = offset.wrapping_sub(reg::CE_CAP0) / 4;
        match offset {
            reg::FEATURES => reg::FEATURES_ALL,
            reg::GPU_INDEX => cx.gpu as u32,
            reg::GPU_COUNT => cx.fabric.gpu_count(),
            reg::CE_COUNT => self.ce_count(),
            reg::FLAGS => {
                let mut flags = 0;
                if self.config.timing {
                    flags |= reg::FLAG_TIMING;
                }
                if self.config.phantom {
                    flags |= reg::FLAG_PHANTOM;
                }
                if self.config.realism {
                    flags |= reg::FLAG_REALISM;
                }
                flags
            }
            reg::VRAM_MIB => (self.config.vram_bytes >> 20) as u32,
            reg::PROFILE_ID => cx.fabric.profile.id,
            _ if uuid < 4 => uuid_word(cx.gpu, uuid),
            // Runlist i serves engine i.
            _ if cap < self.ce_count() && cap < reg::CE_CAP_MAX => {
                reg::CE_SYS_READ
                    | reg::CE_SYS_WRITE
                    | reg::CE_PEER
                    | reg::CE_LOCAL
                    | (cap << reg::CE_RUNLIST_SHIFT)
            }
            _ => 0,
        }
    }
}

/// Word `i` of the identity: a version-8 style UUID made of the GPU's index.
fn uuid_word(gpu: usize, i: u32) -> u32 {
    match i {
        0 => 0x4855_564d,
        1 => 0x8000_0000,
        2 => 0x8000_0000,
        _ => gpu as u32,
    }
}
