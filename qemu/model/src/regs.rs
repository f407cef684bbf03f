// SPDX-License-Identifier: GPL-2.0
//! BAR dispatch, and the registers too small for a unit of their own: ids, PTIMER, PTOP.

use huvm_hw::ext;

use crate::bar0;
use crate::gpu::{Cx, Gpu};
use crate::machine::ones;
use crate::window::Aperture;

/// PMC_BOOT_0 of GA100: architecture 0x17, implementation 0, major 0xA, minor 1.
const BOOT_0: u32 = 0x1700_00a1;
/// PMC_BOOT_42: chip id 0x170 in 28:20, major 19:16, minor 15:12.
const BOOT_42: u32 = (0x170 << 20) | (0xa << 16) | (1 << 12);
/// Class id in usermode CFG0.
const USERMODE_CLASS: u32 = 0xc561;
/// PTOP device type: logical copy engine.
const TYPE_LCE: u32 = 0x13;
/// MMU engine id of copy engine 0.
pub(crate) const ENGINE_CE0: u32 = 15;

impl Gpu {
    /// Reads a BAR.
    pub(crate) fn bar_read(&mut self, bar: u32, offset: u64, size: u32, cx: &mut Cx<'_>) -> u64 {
        if cx.fabric.is_gone(cx.gpu) {
            return ones(size);
        }
        match bar {
            1 | 3 => {
                let place = self.bar_place(bar, offset, size, false, cx);
                Gpu::memory_read(place, size, cx)
            }
            0 if in_pramin(offset) => {
                let place = self.pramin_place(offset as u32 - bar0::PRAMIN, cx);
                Gpu::memory_read(place, size, cx)
            }
            0 | 5 => {
                let Some(at) = register(bar, offset, size) else {
                    cx.guest_error("register read of a wrong width or alignment");
                    return 0;
                };
                if self.inject.is_unread() {
                    return ones(size);
                }
                u64::from(if bar == 0 {
                    self.bar0_read(at, cx)
                } else {
                    self.bar5_read(at, cx)
                })
            }
            _ => 0,
        }
    }

    /// Writes a BAR.
    pub(crate) fn bar_write(
        &mut self,
        bar: u32,
        offset: u64,
        value: u64,
        size: u32,
        cx: &mut Cx<'_>,
    ) {
        if cx.fabric.is_gone(cx.gpu) {
            return;
        }
        match bar {
            1 | 3 => {
                let place = self.bar_place(bar, offset, size, true, cx);
                Gpu::memory_write(place, value, size, cx);
            }
            0 if in_pramin(offset) => {
                let place = self.pramin_place(offset as u32 - bar0::PRAMIN, cx);
                Gpu::memory_write(place, value, size, cx);
            }
            0 | 5 => {
                let Some(at) = register(bar, offset, size) else {
                    cx.guest_error("register write of a wrong width or alignment");
                    return;
                };
                let restores = bar == 5 && at == ext::inject::WRITES_LOST;
                if !restores && self.inject.is_unheard() {
                    return;
                }
                if bar == 0 {
                    self.bar0_write(at, value as u32, cx);
                } else {
                    self.bar5_write(at, value as u32, cx);
                }
            }
            _ => {}
        }
    }

    fn bar_place(
        &mut self,
        bar: u32,
        offset: u64,
        size: u32,
        write: bool,
        cx: &mut Cx<'_>,
    ) -> Option<crate::host::Place> {
        let which = if bar == 1 {
            Aperture::Bar1
        } else {
            Aperture::Bar2
        };
        self.aperture_place(which, offset, u64::from(size), write, cx)
    }

    fn bar0_read(&mut self, at: u32, cx: &mut Cx<'_>) -> u32 {
        match at {
            bar0::PMC_BOOT_0 => return BOOT_0,
            bar0::PMC_BOOT_42 => return BOOT_42,
            bar0::PMC_ENABLE | bar0::PMC_DEVICE_ENABLE => return u32::MAX,
            bar0::PTIMER_TIME_0 => return cx.now as u32 & !0x1f,
            bar0::PTIMER_TIME_1 => return (cx.now >> 32) as u32 & 0x1fff_ffff,
            bar0::PTIMER_NUMERATOR | bar0::PTIMER_DENOMINATOR => return 1,
            bar0::LOCAL_MEMORY_RANGE => return memory_range(self.config.vram_bytes),
            bar0::INTR_STALL_BASE => return bar0::vector::STALL,
            bar0::INTR_NONSTALL_BASE => return 0,
            bar0::FAULT_INFO_VECTOR => return bar0::vector::INFO,
            // Error in 15:0, notify in 31:16.
            bar0::FAULT_VECTORS => {
                return bar0::vector::NON_REPLAYABLE_ERROR | (bar0::vector::NON_REPLAYABLE << 16)
            }
            a if a == bar0::FAULT_VECTORS + 4 => {
                return bar0::vector::REPLAYABLE_ERROR | (bar0::vector::REPLAYABLE << 16)
            }
            _ => {}
        }
        if let Some(v) = self
            .irq
            .read(at)
            .or_else(|| self.window_read(at))
            .or_else(|| self.fault_read(at))
            .or_else(|| self.invalidate.read(at))
            .or_else(|| self.counters.read(at))
        {
            return v;
        }
        match at {
            bar0::DEVICE_INFO_CFG => {
                2 | (self.ce_count() << 4) | (3 << 16) | ((3 * self.ce_count()) << 20)
            }
            _ if within(at, bar0::DEVICE_INFO2, 12 * self.ce_count()) => {
                self.ptop_row((at - bar0::DEVICE_INFO2) / 4)
            }
            _ if within(at, bar0::USERMODE, bar0::USERMODE_BYTES) => match at - bar0::USERMODE {
                0x00 => USERMODE_CLASS,
                0x80 => cx.now as u32 & !0x1f,
                0x84 => (cx.now >> 32) as u32 & 0x1fff_ffff,
                _ => 0,
            },
            _ if within(at, bar0::SCRATCH, 16) => {
                let i = (at - bar0::SCRATCH) / 4;
                self.scratch.get(i as usize).copied().unwrap_or(0)
            }
            _ => self.host_read(at),
        }
    }

    fn bar0_write(&mut self, at: u32, value: u32, cx: &mut Cx<'_>) {
        if let Some(messages) = self.irq.write(at, value) {
            self.send(messages, cx);
        } else if self.window_write(at, value, cx)
            || self.fault_write(at, value, cx)
            || self.invalidate_write(at, value, cx)
            || self.counter_write(at, value, cx)
        {
        } else if within(at, bar0::USERMODE, bar0::USERMODE_BYTES) {
            if at == bar0::USERMODE + 0x90 {
                self.doorbell(value, cx);
            }
        } else if within(at, bar0::SCRATCH, 16) {
            if let Some(s) = self.scratch.get_mut(((at - bar0::SCRATCH) / 4) as usize) {
                *s = value;
            }
        } else {
            self.host_write(at, value, cx);
        }
    }

    /// PTOP: three rows for each copy engine.
    fn ptop_row(&self, row: u32) -> u32 {
        const MORE: u32 = 1 << 31;
        let ce = row / 3;
        match row % 3 {
            0 => MORE | (TYPE_LCE << 24) | (ce << 16) | (ENGINE_CE0 + ce),
            // DEVICE_PRI_BASE 25:8, IS_ENGINE 30. All engines share one base; the block of engine
            // i starts at its STATUS register.
            1 => MORE | (1 << 30) | (bar0::CE_STATUS & 0x03ff_f000),
            _ => bar0::RUNLIST + bar0::RUNLIST_STRIDE * ce,
        }
    }
}

/// Offset of a register access, if width and alignment are right and it is inside the BAR.
fn register(bar: u32, offset: u64, size: u32) -> Option<u32> {
    let bytes = if bar == 0 {
        ext::BAR0_BYTES
    } else {
        ext::BAR_BYTES
    };
    (size == 4 && offset % 4 == 0 && offset < u64::from(bytes)).then_some(offset as u32)
}

fn in_pramin(offset: u64) -> bool {
    (u64::from(bar0::PRAMIN)..u64::from(bar0::PRAMIN + bar0::PRAMIN_BYTES)).contains(&offset)
}

/// `at` is in `[base, base + bytes)`.
pub(crate) fn within(at: u32, base: u32, bytes: u32) -> bool {
    at.checked_sub(base).is_some_and(|rel| rel < bytes)
}

/// LOCAL_MEMORY_RANGE: MiB = MAG << SCALE, MAG below 64. Rounds down when it does not fit.
fn memory_range(vram_bytes: u64) -> u32 {
    let mut mag = vram_bytes >> 20;
    let mut scale = 0u32;
    while mag > 63 && scale < 15 {
        mag >>= 1;
        scale += 1;
    }
    ((mag as u32) << 4) | scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_range_gives_back_round_sizes() {
        for mib in [64u64, 256, 1024, 16384, 24576, 131072] {
            let r = memory_range(mib << 20);
            let got = u64::from((r >> 4) & 0x3f) << (r & 0xf);
            assert_eq!(got, mib);
        }
    }
}
