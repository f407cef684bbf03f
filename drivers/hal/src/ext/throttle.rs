// SPDX-License-Identifier: GPL-2.0
//! Throttle: how many blocks run at once (device.md 2.4).

use super::read_sane;
use crate::ids::Veid;
use crate::seam::{set, Bar, Mmio};
use crate::{Error, Result};
use huvm_hw::ext::throttle as hw;

/// Lets at most `blocks` blocks run on this GPU; `None` lifts the limit.
///
/// # Errors
/// [`Error::OutOfRange`] for 0; [`Error::Gone`], [`Error::BadState`].
pub fn set_active_limit<M: Mmio + ?Sized>(m: &M, blocks: Option<u32>) -> Result<()> {
    let at = (Bar::Ext, hw::ACTIVE_LIMIT);
    set(m, "ACTIVE_LIMIT", at, limit(blocks)?, u32::MAX)
}

/// The limit now; `None` = none.
///
/// # Errors
/// [`Error::Gone`].
pub fn active_limit<M: Mmio + ?Sized>(m: &M) -> Result<Option<u32>> {
    Ok(match read_sane(m, hw::ACTIVE_LIMIT)? {
        0 => None,
        n => Some(n),
    })
}

/// As [`set_active_limit`], for one subcontext.
///
/// # Errors
/// [`Error::OutOfRange`], [`Error::Gone`], [`Error::BadState`].
pub fn set_veid_limit<M: Mmio + ?Sized>(m: &M, veid: Veid, blocks: Option<u32>) -> Result<()> {
    if u32::from(veid.0) >= hw::VEIDS {
        return Err(Error::OutOfRange("subcontext", u64::from(veid.0)));
    }
    let at = (Bar::Ext, hw::VEID_LIMIT0 + 4 * u32::from(veid.0));
    set(m, "VEID_LIMIT", at, limit(blocks)?, u32::MAX)
}

/// Lifts all limits, whoever set them: for a device that is to begin anew.
///
/// # Errors
/// [`Error::Gone`], [`Error::BadState`].
pub fn lift_all<M: Mmio + ?Sized>(m: &M) -> Result<()> {
    let lift = |what, off| set(m, what, (Bar::Ext, off), 0, u32::MAX);
    lift("ACTIVE_LIMIT", hw::ACTIVE_LIMIT)?;
    (0..hw::VEIDS).try_for_each(|veid| lift("VEID_LIMIT", hw::VEID_LIMIT0 + 4 * veid))
}

/// The register's value: 0 means no limit there, so a limit of 0 cannot be had.
fn limit(blocks: Option<u32>) -> Result<u32> {
    match blocks {
        None => Ok(0),
        Some(0) => Err(Error::OutOfRange("active blocks", 0)),
        Some(n) => Ok(n),
    }
}
