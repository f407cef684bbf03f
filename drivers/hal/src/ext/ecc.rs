// SPDX-License-Identifier: GPL-2.0
//! Memory that failed (device.md 2.8). Numbers are the device's word: whoever acts on one looks whether there is such a page.

use super::{read_sane, read_sure, write};
use crate::ids::Chid;
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::{self, ecc as hw};
use huvm_hw::fault::engine;

/// Reports that a device keeps, at most.
pub const REPORTS_MAX: usize = hw::REPORTS_MAX;

/// A page that failed, at which a copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stands {
    /// Index of the GPU whose memory it is.
    pub gpu: u8,
    /// VRAM page number there.
    pub page: u32,
}

impl Stands {
    fn raw(self) -> u32 {
        hw::STANDS_VALID | u32::from(self.gpu & 0xf) << hw::STANDS_GPU_SHIFT | self.page
    }
}

/// Whether the device has the block. No feature bit names it: drivers that came before it refuse bits that they do not know.
pub(super) fn is_there<M: Mmio + ?Sized>(m: &M) -> Result<bool> {
    // BAR5 may end before it.
    Ok(read_sure(m, hw::BASE)? == ext::block_header(hw::ID))
}

/// Takes the number of the page of this GPU that was found longest ago; `None` when there is none.
///
/// # Errors
/// [`Error::Gone`].
pub fn take_report<M: Mmio + ?Sized>(m: &M) -> Result<Option<u32>> {
    let v = read_sane(m, hw::PAGE)?;
    Ok((v & hw::PAGE_VALID != 0).then_some(v & hw::PAGE_MASK))
}

/// How many reports there are to take, at most [`REPORTS_MAX`]; and whether a page was found that there was no room to report, since
/// the last time that somebody asked.
///
/// # Errors
/// [`Error::Gone`].
pub fn look<M: Mmio + ?Sized>(m: &M) -> Result<(usize, bool)> {
    let status = read_sane(m, hw::STATUS)?;
    let overflow = status & hw::STATUS_OVERFLOW;
    if overflow != 0 {
        write(m, hw::STATUS, overflow);
    }
    // CAST: 16 bits.
    let reports = (status & hw::STATUS_COUNT) as usize;
    Ok((reports.min(REPORTS_MAX), overflow != 0))
}

/// The register of a channel of the copy engine with MMU id `engine`.
fn stands_at(engine: u16, chid: Chid) -> Option<u32> {
    let n = u32::from(engine).checked_sub(engine::CE0)?;
    let chid = u32::from(chid.0);
    (chid < hw::STANDS_CHANNELS && n < ext::ident::CE_CAP_MAX)
        .then_some(hw::STANDS0 + hw::STANDS_STRIDE * n + 4 * chid)
        .filter(|at| *at < hw::BASE + ext::BLOCK_STRIDE)
}

/// The page that failed at which a channel of the copy engine with MMU id `engine` stands.
///
/// # Errors
/// [`Error::Gone`]; [`Error::OutOfRange`] for a channel without the register.
pub fn stands<M: Mmio + ?Sized>(m: &M, engine: u16, chid: Chid) -> Result<Option<Stands>> {
    let at = stands_at(engine, chid).ok_or(Error::OutOfRange("channel", chid.0.into()))?;
    let v = read_sane(m, at)?;
    Ok((v & hw::STANDS_VALID != 0).then_some(Stands {
        // CAST: four bits.
        gpu: (v >> hw::STANDS_GPU_SHIFT & 0xf) as u8,
        page: v & hw::STANDS_PAGE_MASK,
    }))
}

/// Lets the channel, once its fault is cleared, go on behind the page at which it stands. Whoever does so knows from here on that
/// the copy lacks this page.
pub fn leave_out<M: Mmio + ?Sized>(m: &M, engine: u16, chid: Chid, at: Stands) {
    if let Some(off) = stands_at(engine, chid) {
        write(m, off, at.raw());
    }
}
