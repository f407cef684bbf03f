// SPDX-License-Identifier: GPL-2.0
//! The device's clock (device.md 2.7).

use super::{read_sane, read_wide};
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::time as hw;

/// Nanoseconds since the machine started. Two readers at once must exclude each other: the low word latches the high one.
///
/// # Errors
/// [`Error::Gone`].
pub fn now_ns<M: Mmio + ?Sized>(m: &M) -> Result<u64> {
    match read_wide(m, hw::NOW_LO, hw::NOW_HI) {
        u64::MAX => Err(Error::Gone),
        v => Ok(v),
    }
}

/// Whether operations take time.
///
/// # Errors
/// [`Error::Gone`].
pub fn timing<M: Mmio + ?Sized>(m: &M) -> Result<bool> {
    Ok(read_sane(m, hw::TIMING)? & 1 != 0)
}
