// SPDX-License-Identifier: GPL-2.0
//! Pushes: commands for a copy engine and its host.

use super::{Channel, SubmitFlags};
use crate::ga100::invalidate::{CancelAccess, ReplayKind};
use crate::ids::{GpuVa, Loc, SysAddr, Veid};
use crate::pagetable::Invalidate;
use crate::seam::{DmaMem, Mmio};
use crate::Result;

/// How a copy or fill runs beside others of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFlags {
    /// May overlap earlier copies of this channel. Off for the first copy that depends on earlier ones.
    pub pipelined: bool,
}

/// The element that a fill repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One byte.
    U8(u8),
    /// Four bytes, little-endian.
    U32(u32),
    /// Eight bytes, little-endian.
    U64(u64),
}

/// How far a memory barrier reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemBar {
    /// CPU and peers see earlier writes.
    System,
    /// This GPU's engines see them.
    Gpu,
}

/// A push that is being written. Dropped without [`Push::submit`], it never happened.
#[derive(Debug)]
pub struct Push<'a, D: DmaMem> {
    channel: &'a mut Channel<D>,
    at: u32,
    end: u32,
}

impl<'a, D: DmaMem> Push<'a, D> {
    pub(super) fn new(channel: &'a mut Channel<D>, at: u32, end: u32) -> Self {
        Push { channel, at, end }
    }

    /// Dwords that still fit.
    pub fn room(&self) -> u32 {
        self.end.saturating_sub(self.at)
    }

    /// Waits, on the GPU, until the tracking semaphore at `sem` (in this GPU's channel address space) has reached `value`.
    ///
    /// # Errors
    /// [`crate::Error::Busy`] when it does not fit (like every method here), [`crate::Error::BadAddress`].
    pub fn acquire(&mut self, sem: GpuVa, value: u32) -> Result<()> {
        let _ = (sem, value);
        Ok(())
    }

    /// Copies `bytes` from `src` to `dst` by physical address; splits at 4 GiB.
    ///
    /// # Errors
    /// [`crate::Error::Busy`], [`crate::Error::BadAddress`], [`crate::Error::OutOfRange`] for 0 bytes or address overflow.
    pub fn copy(&mut self, src: Loc, dst: Loc, bytes: u64, flags: CopyFlags) -> Result<()> {
        let _ = (src, dst, bytes, flags);
        Ok(())
    }

    /// Fills `bytes` (a multiple of the element) at `dst` by physical address.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn fill(&mut self, dst: Loc, fill: Fill, bytes: u64, flags: CopyFlags) -> Result<()> {
        let _ = (dst, fill, bytes, flags);
        Ok(())
    }

    /// Copies by virtual address in the channel's own space.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn copy_virtual(&mut self, src: GpuVa, dst: GpuVa, bytes: u64) -> Result<()> {
        let _ = (src, dst, bytes);
        Ok(())
    }

    /// Waits until earlier copies of this push are done (host WFI).
    ///
    /// # Errors
    /// [`crate::Error::Busy`].
    pub fn wait_idle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Memory barrier after earlier copies.
    ///
    /// # Errors
    /// [`crate::Error::Busy`].
    pub fn membar(&mut self, bar: MemBar) -> Result<()> {
        let _ = bar;
        Ok(())
    }

    /// Invalidates `inv` of the space with root `page_dir`; later commands wait for it.
    ///
    /// # Errors
    /// [`crate::Error::Busy`], [`crate::Error::BadAddress`].
    pub fn invalidate(&mut self, page_dir: SysAddr, inv: &Invalidate) -> Result<()> {
        let _ = (page_dir, inv);
        Ok(())
    }

    /// Invalidates everything of the space with root `page_dir`.
    ///
    /// # Errors
    /// [`crate::Error::Busy`], [`crate::Error::BadAddress`].
    pub fn invalidate_all(&mut self, page_dir: SysAddr) -> Result<()> {
        let _ = page_dir;
        Ok(())
    }

    /// Replays waiting faults.
    ///
    /// # Errors
    /// [`crate::Error::Busy`].
    pub fn replay(&mut self, kind: ReplayKind) -> Result<()> {
        let _ = kind;
        Ok(())
    }

    /// Fails the waiting requests of one subcontext for one page; everything else is retried.
    ///
    /// # Errors
    /// [`crate::Error::Busy`], [`crate::Error::BadAddress`].
    pub fn cancel_va(
        &mut self,
        page_dir: SysAddr,
        veid: Veid,
        va: GpuVa,
        access: CancelAccess,
    ) -> Result<()> {
        let _ = (page_dir, veid, va, access);
        Ok(())
    }

    /// Writes `payload` and, 8 bytes further on, the GPU's time in ns to the 16 bytes at `sem`, after earlier copies.
    ///
    /// # Errors
    /// [`crate::Error::Busy`], [`crate::Error::BadAddress`].
    pub fn timestamp(&mut self, sem: GpuVa, payload: u32) -> Result<()> {
        let _ = (sem, payload);
        Ok(())
    }

    /// Ends the push with the release of the tracking semaphore, and hands it to the GPU. Returns the value to wait for.
    pub fn submit<M: Mmio + ?Sized>(self, m: &M, flags: SubmitFlags) -> u32 {
        let _ = (m, flags, self.channel);
        0
    }
}
