// SPDX-License-Identifier: GPL-2.0
//! Page tables of one 2 MiB block.

use super::Invalidate;
use crate::ids::{GpuVa, Loc, PageMask};
use crate::seam::{DmaMem, Fence};
use crate::{Error, Result};

/// What a mapping permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prot {
    /// Loads.
    Read,
    /// Loads and stores; strong atomics fault.
    ReadWrite,
    /// Everything.
    ReadWriteAtomic,
}

/// Attributes of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFlags {
    /// What it permits.
    pub prot: Prot,
    /// Remote memory (system, peer) may be cached in this GPU's L2. Off for managed memory.
    pub cached: bool,
}

/// Tables that a [`Block`] is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// A table of 4 KiB entries: [`Block::SMALL_BYTES`], 4 KiB aligned.
    pub small: bool,
    /// A table of 64 KiB entries: [`Block::BIG_BYTES`], 256-byte aligned.
    pub big: bool,
}

/// The page tables of one 2 MiB block and what they map.
#[derive(Debug)]
pub struct Block<P> {
    va: GpuVa,
    small: Option<P>,
    big: Option<P>,
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
        Ok(Block {
            va,
            small: None,
            big: None,
        })
    }

    /// The block's first address.
    pub fn va(&self) -> GpuVa {
        self.va
    }

    /// Pages mapped now.
    pub fn mapped(&self) -> PageMask {
        PageMask::NONE
    }

    /// Whether one 2 MiB entry maps the block.
    pub fn is_huge(&self) -> bool {
        false
    }

    /// 64 KiB regions (bit = region) that one 64 KiB entry maps.
    pub fn big_regions(&self) -> u32 {
        0
    }

    /// Takes a table that [`Error::NeedTables`] asked for, zeroed or not.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::TooSmall`], [`Error::BadAddress`]; the page comes back.
    pub fn supply_small(&mut self, page: P) -> core::result::Result<(), (Error, P)> {
        self.small = Some(page);
        Ok(())
    }

    /// As [`Self::supply_small`], for the table of 64 KiB entries.
    ///
    /// # Errors
    /// As [`Self::supply_small`].
    pub fn supply_big(&mut self, page: P) -> core::result::Result<(), (Error, P)> {
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
    /// [`Error::NeedTables`], [`Error::BadAddress`]; nothing was changed.
    pub fn map<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
        flags: MapFlags,
        target: &dyn Fn(u16) -> Loc,
    ) -> Result<Option<Invalidate>> {
        let _ = (fence, pde0, mask, flags, target);
        Ok(None)
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
        let _ = (fence, pde0, mask);
        Ok(None)
    }

    /// Unmaps everything; needs no table and cannot fail. The way out when memory for a split is short.
    pub fn unmap_all<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
    ) -> Option<Invalidate> {
        let _ = (fence, pde0);
        None
    }

    /// Takes write (and atomic) permission from the mapped pages of `mask`.
    ///
    /// # Errors
    /// As [`Self::unmap`].
    pub fn revoke_write<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mask: &PageMask,
    ) -> Result<Option<Invalidate>> {
        let _ = (fence, pde0, mask);
        Ok(None)
    }

    /// Gives back the tables that the device cannot reach (small, big): when the block is unmapped or one 2 MiB
    /// entry maps it. Call after the last invalidate is done.
    pub fn take_spare(&mut self) -> (Option<P>, Option<P>) {
        (self.small.take(), self.big.take())
    }
}
