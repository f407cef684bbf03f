// SPDX-License-Identifier: GPL-2.0
//! Counters of the device (device.md 2.5).

use super::{read, read_wide, write};
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::stats as hw;

pub use hw::Counter;

/// Reads one counter. Two readers at once must exclude each other: the low word latches the high one.
///
/// # Errors
/// [`Error::Gone`].
pub fn counter<M: Mmio + ?Sized>(m: &M, c: Counter) -> Result<u64> {
    let off = hw::COUNTER0 + 8 * u32::from(c as u8);
    match read_wide(m, off, off + 4) {
        u64::MAX => Err(Error::Gone),
        v => Ok(v),
    }
}

/// Reads all counters, in the order of [`Counter`].
///
/// # Errors
/// [`Error::Gone`].
pub fn all<M: Mmio + ?Sized>(m: &M) -> Result<[u64; hw::COUNT]> {
    let mut out = [0; hw::COUNT];
    for (v, off) in out.iter_mut().zip((hw::COUNTER0..).step_by(8)) {
        *v = read_wide(m, off, off + 4);
        if *v == u64::MAX {
            return Err(Error::Gone);
        }
    }
    Ok(out)
}

/// KiB that the GPU's own jobs have moved in its memory so far, modulo 2^32. Any number of readers at once.
pub fn work_local_kib<M: Mmio + ?Sized>(m: &M) -> u32 {
    read(m, hw::WORK_LOCAL_KIB)
}

/// Zeroes all counters.
pub fn clear<M: Mmio + ?Sized>(m: &M) {
    write(m, hw::CLEAR, 1);
}
