// SPDX-License-Identifier: GPL-2.0
//! The address space of a GPU's kernel channels: pushbuffers, GPFIFOs and semaphores.
//!
//! GPFIFO and pushbuffer addresses have 40 bits (hw-interface 6.1), so a window lies below 1 TiB. One window of 2 MiB
//! has room for fifteen channels of the default layout; a GPU that wants more uses more windows of the same tree.

use crate::ids::{GpuVa, Loc, PageMask, SysAddr, BLOCK_BYTES, BLOCK_PAGES, PAGE_BYTES};
use crate::pagetable::{Block, Invalidate, MapFlags, Prot};
use crate::seam::{DmaMem, Fence};
use crate::{Error, Result};

/// 2 MiB of a channel address space, handed out page by page and never taken back.
#[derive(Debug)]
pub struct Window<P> {
    block: Block<P>,
    next: u16,
}

impl<P: DmaMem> Window<P> {
    /// A window at `va` (2 MiB aligned, below 1 TiB), with its tables ([`Block::SMALL_BYTES`], [`Block::BIG_BYTES`]).
    ///
    /// # Errors
    /// [`Error::BadAddress`], [`Error::TooSmall`].
    pub fn new(va: GpuVa, small: P, big: P) -> Result<Self> {
        if va.0 > (1 << 40) - BLOCK_BYTES {
            return Err(Error::BadAddress(va.0));
        }
        let mut block = Block::new(va)?;
        block.supply_small(small).map_err(|(e, _)| e)?;
        block.supply_big(big).map_err(|(e, _)| e)?;
        Ok(Window { block, next: 0 })
    }

    /// Maps all of `mem` (4 KiB aligned, whole pages) for reading and writing. Returns its address, and the
    /// invalidate for cached misses. `pde0` is the PDE0 table of the tree for the window's address.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the window is full or `mem` is empty, [`Error::BadAddress`].
    pub fn map<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mem: &impl DmaMem,
    ) -> Result<(GpuVa, Invalidate)> {
        let pages = mem.len().div_ceil(PAGE_BYTES as usize);
        self.map_pages(fence, pde0, SysAddr(mem.dma_addr()), pages)
    }

    /// Maps one page of system memory, such as another GPU's tracking semaphore.
    ///
    /// # Errors
    /// As [`Self::map`].
    pub fn map_page<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        page: SysAddr,
    ) -> Result<(GpuVa, Invalidate)> {
        self.map_pages(fence, pde0, page, 1)
    }

    fn map_pages<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        base: SysAddr,
        pages: usize,
    ) -> Result<(GpuVa, Invalidate)> {
        let full = Error::OutOfRange("window pages", pages as u64);
        let first = self.next;
        let count = u16::try_from(pages).map_err(|_| full)?;
        if count == 0 || count > BLOCK_PAGES - first {
            return Err(full);
        }
        let flags = MapFlags {
            prot: Prot::ReadWriteAtomic,
            cached: false,
        };
        let mask = PageMask::range(first, count);
        let target = |i: u16| {
            let page = u64::from(i.wrapping_sub(first));
            Loc::Sys(SysAddr(base.0.wrapping_add(page * PAGE_BYTES)))
        };
        let inv = self.block.map(fence, pde0, &mask, flags, &target)?;
        self.next = first + count;
        let va = GpuVa(self.block.va().0 + u64::from(first) * PAGE_BYTES);
        // Fresh pages always change something.
        inv.map(|inv| (va, inv)).ok_or(full)
    }
}
