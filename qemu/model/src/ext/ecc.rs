// SPDX-License-Identifier: GPL-2.0
//! ECC block: memory that fails, and what a driver is told of it (device.md 2.8).
//!
//! A page that failed stays so, whatever is written to it, until a reset or INJECT cures it: it is the cells that are broken.
//! Its owner's ECC block reports it each time that somebody reads it, unless the report before was not taken yet.

use std::collections::{BTreeSet, VecDeque};

use huvm_hw::ext::ecc as reg;
use huvm_hw::ext::inject::{ECC_CURE, ECC_POISON_MAX};

use crate::gpu::{Cx, Gpu};
use crate::host::Place;

const PAGE_SHIFT: u32 = 12;
/// Bytes of a page that fails.
pub(crate) const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// A page of a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) gpu: usize,
    pub(crate) number: u32,
}

impl Page {
    /// The page that a place lies in; `None` in system memory.
    fn of(place: Place) -> Option<Page> {
        match place {
            Place::Vram { gpu, offset } => Some(Page {
                gpu,
                number: u32::try_from(offset >> PAGE_SHIFT).ok()?,
            }),
            Place::Sys { .. } => None,
        }
    }

    /// As STANDS has it.
    fn raw(self) -> u32 {
        reg::STANDS_VALID
            | (self.gpu as u32 & 0xf) << reg::STANDS_GPU_SHIFT
            | (self.number & reg::STANDS_PAGE_MASK)
    }
}

/// What failed of one GPU's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ecc {
    bad: BTreeSet<u32>,
    reports: VecDeque<u32>,
    overflow: bool,
}

impl Ecc {
    /// Puts a number among the reports, once.
    fn report(&mut self, number: u32) {
        if self.reports.contains(&number) {
            return;
        }
        if self.reports.len() >= reg::REPORTS_MAX {
            self.overflow = true;
        } else {
            self.reports.push_back(number);
        }
    }
}

impl Cx<'_> {
    /// How far it is from `place` to the first page that failed, if one begins or lies within `len` bytes from there.
    pub(crate) fn until_bad(&self, place: Place, len: u64) -> Option<u64> {
        let Place::Vram { gpu, offset } = place else {
            return None;
        };
        let ecc = self.fabric.ecc(gpu)?;
        if ecc.bad.is_empty() || len == 0 {
            return None;
        }
        let page = |at: u64| u32::try_from(at >> PAGE_SHIFT).unwrap_or(u32::MAX);
        let last = page(offset.saturating_add(len - 1));
        let first = ecc.bad.range(page(offset)..=last).next()?;
        Some((u64::from(*first) << PAGE_SHIFT).saturating_sub(offset))
    }

    /// Somebody read the page at `place`, which failed. Its owner reports it.
    pub(crate) fn found_bad(&mut self, place: Place) -> Option<Page> {
        let page = Page::of(place)?;
        self.fabric.ecc_mut(page.gpu)?.report(page.number);
        Some(page)
    }
}

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn ecc_read(&mut self, offset: u32, cx: &mut Cx<'_>) -> u32 {
        let Some(ecc) = cx.fabric.ecc_mut(cx.gpu) else {
            return 0;
        };
        match offset {
            reg::STATUS => {
                let overflow = if ecc.overflow {
                    reg::STATUS_OVERFLOW
                } else {
                    0
                };
                overflow | (ecc.reports.len() as u32 & reg::STATUS_COUNT)
            }
            reg::PAGE => ecc
                .reports
                .pop_front()
                .map_or(0, |n| reg::PAGE_VALID | (n & reg::PAGE_MASK)),
            _ if channel_of(offset).is_some() && self.inject.stands_says != 0 => {
                self.inject.stands_says
            }
            _ => self.stands_at(offset).map_or(0, Page::raw),
        }
    }

    /// Writes a register of the block.
    pub(crate) fn ecc_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        if offset == reg::STATUS {
            if let Some(ecc) = cx.fabric.ecc_mut(cx.gpu) {
                ecc.overflow &= value & reg::STATUS_OVERFLOW == 0;
            }
            return;
        }
        let here = self.stands_at(offset).filter(|p| p.raw() == value);
        if let (Some((runlist, chid)), Some(page)) = (channel_of(offset), here) {
            self.ce_leave_out(runlist, chid, page);
        }
    }

    /// Where the channel of a STANDS register stands.
    fn stands_at(&mut self, offset: u32) -> Option<Page> {
        let (runlist, chid) = channel_of(offset)?;
        self.ce_stands_at(runlist, chid)
    }

    /// How many pages failed.
    pub(crate) fn poisoned(&self, cx: &Cx<'_>) -> u32 {
        cx.fabric.ecc(cx.gpu).map_or(0, |e| e.bad.len() as u32)
    }

    /// INJECT.ECC_POISON: a page fails, or all are cured.
    pub(crate) fn poison(&mut self, value: u32, cx: &mut Cx<'_>) {
        let pages = cx.fabric.vram_bytes(cx.gpu) >> PAGE_SHIFT;
        let Some(ecc) = cx.fabric.ecc_mut(cx.gpu) else {
            return;
        };
        if value == ECC_CURE {
            ecc.bad.clear();
        } else if u64::from(value) < pages && ecc.bad.len() < ECC_POISON_MAX {
            ecc.bad.insert(value);
        } else {
            cx.guest_error("ECC_POISON: no such page, or too many");
        }
    }

    /// INJECT.ECC_REPORT: a number is reported, whatever it is.
    pub(crate) fn report_bad(&mut self, value: u32, cx: &mut Cx<'_>) {
        if let Some(ecc) = cx.fabric.ecc_mut(cx.gpu) {
            ecc.report(value & reg::PAGE_MASK);
        }
    }
}

/// Runlist, which is the engine's number, and channel of a STANDS register.
fn channel_of(offset: u32) -> Option<(usize, u32)> {
    let rel = offset.checked_sub(reg::STANDS0)?;
    let chid = rel % reg::STANDS_STRIDE / 4;
    (chid < reg::STANDS_CHANNELS).then_some(((rel / reg::STANDS_STRIDE) as usize, chid))
}
