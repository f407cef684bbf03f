// SPDX-License-Identifier: GPL-2.0
//! BAR5: everything invented (`Documentation/device.md`).

pub(crate) mod ecc;
pub(crate) mod ident;
pub(crate) mod inject;
pub(crate) mod stats;
pub(crate) mod throttle;
pub(crate) mod topology;

use huvm_hw::ext::{self, block_header};

use crate::gpu::{Cx, Gpu};

impl Gpu {
    /// Reads a register of BAR5.
    pub(crate) fn bar5_read(&mut self, offset: u32, cx: &mut Cx<'_>) -> u32 {
        match offset / ext::BLOCK_STRIDE * ext::BLOCK_STRIDE {
            ext::ident::BASE if offset == ext::ident::BASE => block_header(ext::ident::ID),
            ext::ident::BASE => self.ident_read(offset, cx),
            ext::topology::BASE if offset == ext::topology::BASE => block_header(ext::topology::ID),
            ext::topology::BASE => self.topology_read(offset, cx),
            ext::workload::BASE if offset == ext::workload::BASE => block_header(ext::workload::ID),
            ext::workload::BASE => self.workload_read(offset, cx),
            ext::throttle::BASE if offset == ext::throttle::BASE => block_header(ext::throttle::ID),
            ext::throttle::BASE => self.throttle_read(offset),
            ext::stats::BASE if offset == ext::stats::BASE => block_header(ext::stats::ID),
            ext::stats::BASE => cx
                .fabric
                .stats_mut(cx.gpu)
                .map_or(0, |s| s.register_read(offset)),
            ext::inject::BASE if offset == ext::inject::BASE => block_header(ext::inject::ID),
            ext::inject::BASE => self.inject_read(offset, cx),
            ext::time::BASE if offset == ext::time::BASE => block_header(ext::time::ID),
            ext::time::BASE => self.time_read(offset, cx),
            ext::ecc::BASE if offset == ext::ecc::BASE => block_header(ext::ecc::ID),
            ext::ecc::BASE => self.ecc_read(offset, cx),
            _ => 0,
        }
    }

    /// Writes a register of BAR5.
    pub(crate) fn bar5_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        match offset / ext::BLOCK_STRIDE * ext::BLOCK_STRIDE {
            ext::topology::BASE => self.topology_write(offset, value, cx),
            ext::workload::BASE => self.workload_write(offset, value, cx),
            ext::throttle::BASE => self.throttle_write(offset, value, cx),
            ext::stats::BASE if offset == ext::stats::CLEAR && value & 1 != 0 => {
                if let Some(s) = cx.fabric.stats_mut(cx.gpu) {
                    s.clear();
                }
            }
            ext::inject::BASE => self.inject_write(offset, value, cx),
            ext::ecc::BASE => self.ecc_write(offset, value, cx),
            _ => {}
        }
    }

    /// TIME block.
    fn time_read(&mut self, offset: u32, cx: &Cx<'_>) -> u32 {
        match offset {
            ext::time::NOW_LO => {
                self.time_latch = (cx.now >> 32) as u32;
                cx.now as u32
            }
            ext::time::NOW_HI => self.time_latch,
            ext::time::TIMING => u32::from(self.config.timing),
            _ => 0,
        }
    }
}
