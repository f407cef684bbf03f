// SPDX-License-Identifier: GPL-2.0
//! Page tables of one 2 MiB block.
//!
//! A block is unmapped, mapped by one 2 MiB entry, or *split*: a table of 64 KiB entries beside a table of 4 KiB
//! entries, either of which may be absent. What makes in-place changes right:
//!
//! - The 4 KiB table, where it exists in a split block, is a complete picture: a region that a 64 KiB entry maps has the
//!   same translations in the 4 KiB table. So a walk that saw an older 64 KiB entry still ends where it should.
//! - A new translation is written bottom up (4 KiB entries, barrier, 64 KiB entry), a removed one top down. The two halves of
//!   a PDE0 entry cannot be written at once; the half with the 4 KiB table is written first on a split and last on a
//!   merge, when the other half still (or already) is a 2 MiB entry, which hides it.
//! - A split changes no translation and neither does a merge: the change proper is made in between, page by page, each in
//!   one store.

use super::tree::{entry_offset, VA_LIMIT};
use super::{pte, Invalidate, Level, MapFlags};
use crate::ids::{GpuVa, Loc, PageMask, SysAddr, BLOCK_BYTES, BLOCK_PAGES, PAGE_BYTES};
use crate::seam::{DmaMem, Fence};
use crate::{Error, Result};

/// 64 KiB regions of a block.
const REGIONS: u16 = 32;
/// 4 KiB pages of a region.
const REGION_PAGES: u16 = 16;

/// Tables that a [`Block`] is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// A table of 4 KiB entries: [`Block::SMALL_BYTES`], 4 KiB aligned.
    pub small: bool,
    /// A table of 64 KiB entries: [`Block::BIG_BYTES`], 256-byte aligned.
    pub big: bool,
}

/// What to do to the pages of a mask.
enum Change<'a> {
    /// Map to a target.
    Set(MapFlags, &'a dyn Fn(u16) -> Loc),
    /// Map to one contiguous piece of memory: this is the first page's entry.
    Run(u64),
    /// Unmap.
    Clear,
    /// Take write permission.
    Revoke,
}

impl Change<'_> {
    /// The page's new 4 KiB entry.
    fn apply(&self, page: u16, current: u64) -> Result<u64> {
        match self {
            Change::Set(flags, target) => pte::leaf(target(page), *flags),
            Change::Run(first) => Ok(pte::nth(*first, page)),
            Change::Clear => Ok(0),
            Change::Revoke => Ok(pte::read_only(current)),
        }
    }
}

/// How the PDE0 entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Zero; tables, if any, are spare.
    Empty,
    /// This 2 MiB entry; tables, if any, are spare.
    Huge(u64),
    /// Points to the tables.
    Split,
}

/// How a region will be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Not touched.
    Keep,
    /// Nothing mapped.
    None,
    /// One 64 KiB entry.
    Big,
    /// 4 KiB entries.
    Small,
}

/// The page tables of one 2 MiB block and what they map.
#[derive(Debug)]
pub struct Block<P> {
    va: GpuVa,
    small: Option<P>,
    big: Option<P>,
    state: State,
    mapped: PageMask,
    /// Regions that one 64 KiB entry maps; of a split block.
    big_mask: u32,
}

impl<P: DmaMem> Block<P> {
    /// Bytes of a table of 4 KiB entries.
    pub const SMALL_BYTES: usize = 4096;
    /// Bytes of a table of 64 KiB entries.
    pub const BIG_BYTES: usize = 256;

    /// An unmapped block at `va` (2 MiB aligned, below 2^49). The PDE0 entry must be empty.
    ///
    /// # Errors
    /// [`Error::BadAddress`].
    pub fn new(va: GpuVa) -> Result<Self> {
        if va.0 % BLOCK_BYTES != 0 || va.0 >= VA_LIMIT {
            return Err(Error::BadAddress(va.0));
        }
        Ok(Block {
            va,
            small: None,
            big: None,
            state: State::Empty,
            mapped: PageMask::NONE,
            big_mask: 0,
        })
    }

    /// The block's first address.
    pub fn va(&self) -> GpuVa {
        self.va
    }

    /// Pages mapped now.
    pub fn mapped(&self) -> PageMask {
        self.mapped
    }

    /// Whether one 2 MiB entry maps the block.
    pub fn is_huge(&self) -> bool {
        matches!(self.state, State::Huge(_))
    }

    /// 64 KiB regions (bit = region) that one 64 KiB entry maps.
    pub fn big_regions(&self) -> u32 {
        self.big_mask
    }

    /// Takes a table that [`Error::NeedTables`] asked for; its old contents do not matter.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::TooSmall`], [`Error::BadAddress`]; the page comes back.
    pub fn supply_small(&mut self, page: P) -> core::result::Result<(), (Error, P)> {
        if self.small.is_some() {
            return Err((Error::Exists(self.va.0), page));
        }
        if page.len() < Self::SMALL_BYTES {
            return Err((Error::TooSmall("4 KiB entries", Self::SMALL_BYTES), page));
        }
        if let Err(e) = pte::pde0_small(Some(SysAddr(page.dma_addr()))) {
            return Err((e, page));
        }
        // In a split block the new table must be the picture of what is mapped before the device can see it.
        for i in 0..BLOCK_PAGES {
            page.write64(usize::from(i) * 8, self.current(i));
        }
        self.small = Some(page);
        Ok(())
    }

    /// As [`Self::supply_small`], for the table of 64 KiB entries.
    ///
    /// # Errors
    /// As [`Self::supply_small`].
    pub fn supply_big(&mut self, page: P) -> core::result::Result<(), (Error, P)> {
        if self.big.is_some() {
            return Err((Error::Exists(self.va.0), page));
        }
        if page.len() < Self::BIG_BYTES {
            return Err((Error::TooSmall("64 KiB entries", Self::BIG_BYTES), page));
        }
        if let Err(e) = pte::pde0_big(Some(SysAddr(page.dma_addr()))) {
            return Err((e, page));
        }
        for r in 0..REGIONS {
            let used = self.mapped.region(r) != 0;
            page.write64(usize::from(r) * 8, if used { 0 } else { pte::BIG_UNMAPPED });
        }
        self.big = Some(page);
        Ok(())
    }

    /// Maps the pages of `mask`, page `i` to `target(i)`, with the largest entries that fit: 2 MiB when all 512 pages
    /// (those mapped before included) are contiguous, aligned and alike, else 64 KiB, else 4 KiB. Pages outside
    /// `mask` keep their mapping, through any split or merge; pages of `mask` that are mapped move in one store each.
    /// `target` is called more than once for a page and must answer alike.
    ///
    /// Returns the invalidate to do before the next call on this block, `None` when nothing changed.
    ///
    /// # Errors
    /// [`Error::NeedTables`], [`Error::BadAddress`], [`Error::OutOfRange`] for a peer id; nothing was changed.
    pub fn map<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
        flags: MapFlags,
        target: &dyn Fn(u16) -> Loc,
    ) -> Result<Option<Invalidate>> {
        self.change(fence, pde0, mask, &Change::Set(flags, target))
    }

    /// As [`Self::map`], where page `i` of the block is `i` pages behind `base`: nothing is asked page by page. All 512 pages
    /// behind `base` must be addresses that the format holds, whatever `mask` is.
    ///
    /// # Errors
    /// As [`Self::map`].
    pub fn map_run<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
        flags: MapFlags,
        base: Loc,
    ) -> Result<Option<Invalidate>> {
        let last = base.add(u64::from(BLOCK_PAGES - 1) * PAGE_BYTES);
        pte::leaf(last.ok_or(Error::BadAddress(base.raw()))?, flags)?;
        let first = pte::leaf(base, flags)?;
        self.change(fence, pde0, mask, &Change::Run(first))
    }

    /// Unmaps the pages of `mask`; others keep their mapping. Splits a 2 MiB entry when only a part goes.
    ///
    /// # Errors
    /// [`Error::NeedTables`] (never when `mask` holds every mapped page); nothing was changed.
    pub fn unmap<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
    ) -> Result<Option<Invalidate>> {
        if self.mapped.minus(mask).is_empty() {
            return Ok(self.unmap_all(fence, pde0));
        }
        self.change(fence, pde0, &mask.and(&self.mapped), &Change::Clear)
    }

    /// Unmaps everything; needs no table and cannot fail. The way out when memory for a split is short.
    pub fn unmap_all<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
    ) -> Option<Invalidate> {
        if self.state == State::Empty {
            return None;
        }
        self.write_pde0(fence, pde0, 0, 0);
        self.state = State::Empty;
        self.mapped = PageMask::NONE;
        self.big_mask = 0;
        Some(self.whole(true))
    }

    /// Takes write (and atomic) permission from the mapped pages of `mask`.
    ///
    /// # Errors
    /// As [`Self::unmap`], except that a table is never needed when `mask` holds every mapped page of a block that one 2 MiB
    /// entry maps.
    pub fn revoke_write<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
    ) -> Result<Option<Invalidate>> {
        self.change(fence, pde0, &mask.and(&self.mapped), &Change::Revoke)
    }

    /// Gives back the tables that the device cannot reach (small, big): when the block is unmapped or one 2 MiB
    /// entry maps it. Call after the last invalidate is done.
    pub fn take_spare(&mut self) -> (Option<P>, Option<P>) {
        match self.state {
            State::Split => (None, None),
            State::Empty | State::Huge(_) => (self.small.take(), self.big.take()),
        }
    }

    /// Where page `page` is mapped, as its raw 4 KiB entry (0 when it is not); for debug views and tests.
    pub fn entry(&self, page: u16) -> u64 {
        self.current(page)
    }

    /// Makes `change` to the pages of `mask`.
    fn change<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
        change: &Change<'_>,
    ) -> Result<Option<Invalidate>> {
        // The two changes that oversubscription makes all the time, a whole block in and a whole block out, without a look
        // at each page's entry.
        match (self.state, change) {
            (State::Empty, Change::Set(..) | Change::Run(_)) if mask.is_full() => {
                if let Some(huge) = self.as_huge(mask, change)? {
                    self.set_huge(fence, pde0, huge);
                    return Ok(Some(self.whole(false)));
                }
            }
            (State::Huge(_), Change::Clear) if mask.is_full() => {
                return Ok(self.unmap_all(fence, pde0));
            }
            _ => {}
        }
        let Some((first, last, downgrade)) = self.effect(mask, change)? else {
            return Ok(None);
        };
        if let Some(huge) = self.as_huge(mask, change)? {
            self.set_huge(fence, pde0, huge);
            return Ok(Some(self.whole(downgrade)));
        }

        let classes = self.plan(mask, change)?;
        let published = self.publish(fence, pde0)?;
        let regions = self.write_regions(fence, mask, change, &classes)?;
        let merged = self.merge(fence, pde0);
        Ok(Some(if published || merged {
            self.whole(downgrade)
        } else {
            // A region that is, or was, one entry is cached as one.
            let first = if regions & bit(first) != 0 {
                first & !15
            } else {
                first
            };
            let last = if regions & bit(last) != 0 {
                last | 15
            } else {
                last
            };
            Invalidate::cover(
                self.page_va(first),
                self.page_va(last),
                Level::Pte,
                downgrade,
            )
        }))
    }

    /// Maps the block by one entry.
    fn set_huge<F: Fence + ?Sized>(&mut self, fence: &F, pde0: &impl DmaMem, huge: u64) {
        self.write_pde0(fence, pde0, huge, 0);
        self.state = State::Huge(huge);
        self.mapped = PageMask::ALL;
        self.big_mask = 0;
    }

    /// First and last page that `change` alters and whether one of them loses something; `None` when none is altered.
    fn effect(&self, mask: &PageMask, change: &Change<'_>) -> Result<Option<(u16, u16, bool)>> {
        // Pages that change whatever they are mapped to, because they get a first mapping or lose theirs, and pages whose
        // entries say.
        let here = mask.and(&self.mapped);
        let (mut altered, look) = match change {
            Change::Set(..) | Change::Run(_) => (mask.minus(&self.mapped), here),
            Change::Clear => (here, PageMask::NONE),
            Change::Revoke => (PageMask::NONE, here),
        };
        let mut downgrade = matches!(change, Change::Clear) && !here.is_empty();
        if !look.is_empty() {
            for i in (0..BLOCK_PAGES).filter(|i| look.has(*i)) {
                let old = self.current(i);
                let new = change.apply(i, old)?;
                if old != new {
                    altered.set(i);
                    downgrade |= !pte::keeps(old, new);
                }
            }
        }
        Ok(altered
            .bounds()
            .map(|(first, last)| (first, last, downgrade)))
    }

    /// The one 2 MiB entry that does the whole change, if there is one.
    fn as_huge(&self, mask: &PageMask, change: &Change<'_>) -> Result<Option<u64>> {
        if !mask.is_full() {
            return Ok(None);
        }
        let entry = match (change, self.state) {
            (Change::Clear, _) => return Ok(None),
            (Change::Revoke, State::Huge(e)) => return Ok(Some(pte::read_only(e))),
            (Change::Revoke, _) => return Ok(None),
            (Change::Run(first), _) if pte::is_aligned(*first, 9) => *first,
            (Change::Run(_), _) => return Ok(None),
            (Change::Set(_, target), _) => {
                let entry = change.apply(0, 0)?;
                let base = target(0);
                if !pte::is_aligned(entry, 9)
                    || (1..BLOCK_PAGES)
                        .any(|i| base.add(u64::from(i) * PAGE_BYTES) != Some(target(i)))
                {
                    return Ok(None);
                }
                // The last page has to fit the format as well.
                change.apply(BLOCK_PAGES - 1, 0)?;
                entry
            }
        };
        Ok(Some(entry))
    }

    /// How each region will be mapped; asks for the tables that this needs.
    fn plan(&self, mask: &PageMask, change: &Change<'_>) -> Result<[Class; REGIONS as usize]> {
        let mut classes = [Class::Keep; REGIONS as usize];
        let mut need = Need {
            small: false,
            big: self.is_huge(),
        };
        for (r, class) in (0..REGIONS).zip(classes.iter_mut()) {
            if mask.region(r) == 0 {
                continue;
            }
            *class = self.classify(r, mask, change)?;
            need.small |= *class == Class::Small;
            need.big |= *class == Class::Big;
        }
        need.small &= self.small.is_none();
        need.big &= self.big.is_none();
        if need != Need::default() {
            return Err(Error::NeedTables(need));
        }
        Ok(classes)
    }

    /// How region `r` is best mapped after `change`.
    fn classify(&self, r: u16, mask: &PageMask, change: &Change<'_>) -> Result<Class> {
        let base = r * REGION_PAGES;
        let (pages, mapped) = (mask.region(r), self.mapped.region(r));
        match change {
            // What is left, if anything, has a hole.
            Change::Clear if mapped & !pages == 0 => return Ok(Class::None),
            Change::Clear => return Ok(Class::Small),
            // All that will be mapped is the run's.
            Change::Run(first) if mapped & !pages == 0 => {
                let aligned = pte::is_aligned(pte::nth(*first, base), 4);
                return Ok(if pages == u16::MAX && aligned {
                    Class::Big
                } else {
                    Class::Small
                });
            }
            _ => {}
        }
        let head = self.after(base, mask, change)?;
        let mut any = pte::is_valid(head);
        let mut run = any && pte::is_aligned(head, 4);
        for i in 1..REGION_PAGES {
            let e = self.after(base + i, mask, change)?;
            any |= pte::is_valid(e);
            run &= e == pte::nth(head, i);
        }
        Ok(match (any, run) {
            (false, _) => Class::None,
            (true, true) => Class::Big,
            (true, false) => Class::Small,
        })
    }

    /// Page `i`'s 4 KiB entry after `change`.
    fn after(&self, i: u16, mask: &PageMask, change: &Change<'_>) -> Result<u64> {
        let old = self.current(i);
        if mask.has(i) {
            change.apply(i, old)
        } else {
            Ok(old)
        }
    }

    /// Page `i`'s translation now, as a 4 KiB entry.
    fn current(&self, i: u16) -> u64 {
        match self.state {
            State::Empty => 0,
            State::Huge(e) => pte::nth(e, i),
            State::Split => {
                let r = i / REGION_PAGES;
                if self.big_mask & bit(i) != 0 {
                    pte::nth(self.read_big(r), i % REGION_PAGES)
                } else {
                    self.small
                        .as_ref()
                        .map_or(0, |t| t.read64(usize::from(i) * 8))
                }
            }
        }
    }

    fn read_big(&self, r: u16) -> u64 {
        self.big
            .as_ref()
            .map_or(0, |t| t.read64(usize::from(r) * 8))
    }

    fn write_big(&self, r: u16, entry: u64) {
        if let Some(t) = &self.big {
            t.write64(usize::from(r) * 8, entry);
        }
    }

    fn write_small(&self, i: u16, entry: u64) {
        if let Some(t) = &self.small {
            t.write64(usize::from(i) * 8, entry);
        }
    }

    /// Makes the block split, with the translations that it has, and lets the device see every table that there is. Returns
    /// whether the PDE0 entry changed.
    fn publish<F: Fence + ?Sized>(&mut self, fence: &F, pde0: &impl DmaMem) -> Result<bool> {
        let addr = |t: &Option<P>| t.as_ref().map(|t| SysAddr(t.dma_addr()));
        let low = pte::pde0_big(addr(&self.big))?;
        let high = pte::pde0_small(addr(&self.small))?;
        if self.state != State::Split {
            // The tables are spare, so the device does not look at them and old contents do not matter.
            if self.small.is_some() {
                for i in 0..BLOCK_PAGES {
                    self.write_small(i, self.current(i));
                }
            }
            for r in 0..REGIONS {
                let e = self.current(r * REGION_PAGES);
                self.write_big(
                    r,
                    if pte::is_valid(e) {
                        e
                    } else {
                        pte::BIG_UNMAPPED
                    },
                );
            }
            // A 2 MiB entry splits only with a big table (`plan`), so all of it is in 64 KiB entries now.
            self.big_mask = if self.is_huge() { u32::MAX } else { 0 };
            self.state = State::Split;
        }
        let at = entry_offset(Level::Pde0, self.va);
        if pde0.read64(at) == low && pde0.read64(at + 8) == high {
            return Ok(false);
        }
        fence.wmb();
        pde0.write64(at + 8, high);
        fence.wmb();
        pde0.write64(at, low);
        fence.wmb();
        Ok(true)
    }

    /// Writes the changed entries of a split block. Returns the pages' regions that are or were one 64 KiB entry.
    fn write_regions<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        mask: &PageMask,
        change: &Change<'_>,
        classes: &[Class; REGIONS as usize],
    ) -> Result<u32> {
        let before = self.big_mask;
        // Bottom up: what will be mapped appears in the 4 KiB table first, hidden where a 64 KiB entry is valid.
        let picture = self.small.is_some();
        for (r, class) in (0..REGIONS).zip(classes) {
            if picture && matches!(class, Class::Big | Class::Small) {
                for i in (r * REGION_PAGES..(r + 1) * REGION_PAGES).filter(|i| mask.has(*i)) {
                    self.write_small(i, self.after(i, mask, change)?);
                }
            }
        }
        fence.wmb();
        for (r, class) in (0..REGIONS).zip(classes) {
            let head = r * REGION_PAGES;
            match class {
                Class::Keep => continue,
                Class::Big => {
                    let e = self.after(head, mask, change)?;
                    self.write_big(r, e);
                    self.big_mask |= bit(head);
                }
                Class::Small => {
                    self.write_big(r, 0);
                    self.big_mask &= !bit(head);
                }
                Class::None => {
                    self.write_big(r, pte::BIG_UNMAPPED);
                    self.big_mask &= !bit(head);
                }
            }
        }
        fence.wmb();
        // Top down: what was unmapped leaves the 4 KiB table last.
        for (r, class) in (0..REGIONS).zip(classes) {
            if picture && *class == Class::None {
                for i in r * REGION_PAGES..(r + 1) * REGION_PAGES {
                    self.write_small(i, 0);
                }
            }
        }
        fence.wmb();
        self.mapped = match change {
            Change::Set(..) | Change::Run(_) => self.mapped.or(mask),
            Change::Clear => self.mapped.minus(mask),
            Change::Revoke => self.mapped,
        };
        Ok(before | self.big_mask)
    }

    /// Puts one 2 MiB entry in the place of a split block whose 64 KiB entries are all there and contiguous.
    fn merge<F: Fence + ?Sized>(&mut self, fence: &F, pde0: &impl DmaMem) -> bool {
        let head = self.read_big(0);
        let whole = self.big_mask == u32::MAX
            && pte::is_aligned(head, 9)
            && (1..REGIONS).all(|r| self.read_big(r) == pte::nth(head, r * REGION_PAGES));
        if whole {
            self.write_pde0(fence, pde0, head, 0);
            self.state = State::Huge(head);
            self.big_mask = 0;
        }
        whole
    }

    /// Writes a PDE0 entry whose low half alone decides (2 MiB entry or nothing).
    fn write_pde0<F: Fence + ?Sized>(&self, fence: &F, pde0: &impl DmaMem, low: u64, high: u64) {
        let at = entry_offset(Level::Pde0, self.va);
        fence.wmb();
        pde0.write64(at, low);
        fence.wmb();
        pde0.write64(at + 8, high);
        fence.wmb();
    }

    fn page_va(&self, i: u16) -> GpuVa {
        GpuVa(self.va.0 + u64::from(i) * 4096)
    }

    /// The invalidate of a changed PDE0 entry.
    fn whole(&self, downgrade: bool) -> Invalidate {
        Invalidate::cover(
            self.va,
            self.page_va(BLOCK_PAGES - 1),
            Level::Pde0,
            downgrade,
        )
    }
}

/// The bit of page `i`'s region.
const fn bit(i: u16) -> u32 {
    1 << (i / REGION_PAGES % REGIONS)
}
