// SPDX-License-Identifier: GPL-2.0
//! What is invented (BAR5, Documentation/device.md). The driver comes up with none of it present.

pub mod announce;
pub mod discover;
pub mod ecc;
pub mod inject;
pub mod program;
pub mod stats;
pub mod throttle;
pub mod time;
pub mod topology;
pub mod workload;

#[cfg(test)]
mod tests;

use crate::seam::{Bar, Mmio};

fn read<M: Mmio + ?Sized>(m: &M, off: u32) -> u32 {
    m.read32(Bar::Ext, off)
}

fn write<M: Mmio + ?Sized>(m: &M, off: u32, val: u32) {
    m.write32(Bar::Ext, off, val);
}

/// A register that never holds all ones.
fn read_sane<M: Mmio + ?Sized>(m: &M, off: u32) -> crate::Result<u32> {
    match read(m, off) {
        u32::MAX => Err(crate::Error::Gone),
        v => Ok(v),
    }
}

/// PMC_BOOT_0 of BAR0, which every device has and which never holds all ones.
const BOOT_0: u32 = 0;

/// A register that may hold all ones, or that may not be there: it says so twice, while the device answers.
fn read_sure<M: Mmio + ?Sized>(m: &M, off: u32) -> crate::Result<u32> {
    match read(m, off) {
        u32::MAX if m.read32(Bar::Regs, BOOT_0) == u32::MAX => Err(crate::Error::Gone),
        u32::MAX => Ok(read(m, off)),
        v => Ok(v),
    }
}

/// A 64-bit value in two registers, the low one read first (it latches the high one where the device does that).
fn read_wide<M: Mmio + ?Sized>(m: &M, lo: u32, hi: u32) -> u64 {
    let low = read(m, lo);
    u64::from(low) | u64::from(read(m, hi)) << 32
}
