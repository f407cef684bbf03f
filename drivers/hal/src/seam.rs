// SPDX-License-Identifier: GPL-2.0
//! The seam: the only ways by which this crate reaches a device.

use crate::{Error, Result};

/// Register windows that a duty uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// BAR0: documented registers.
    Regs,
    /// BAR5: the extension.
    Ext,
}

/// Memory barriers between CPU and device.
pub trait Fence {
    /// Earlier writes to [`DmaMem`] are visible to the device before later ones, and before later register writes.
    fn wmb(&self);
    /// Earlier reads of [`DmaMem`] are done before later ones.
    fn rmb(&self);
}

/// 32-bit registers. A lost device, and an offset outside the BAR, read all ones and ignore writes.
pub trait Mmio: Fence {
    /// Reads the register at byte offset `off`.
    fn read32(&self, bar: Bar, off: u32) -> u32;
    /// Writes the register at byte offset `off`.
    fn write32(&self, bar: Bar, off: u32, val: u32);
}

/// A coherent buffer that CPU and device share, contiguous on the bus.
///
/// Offsets are in bytes and naturally aligned; a read out of range returns all ones, a write is dropped.
/// Each access is single and is not torn, merged or removed (volatile in the kernel).
pub trait DmaMem {
    /// Bus address of byte 0.
    fn dma_addr(&self) -> u64;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads 32 bits.
    fn read32(&self, off: usize) -> u32;
    /// Writes 32 bits.
    fn write32(&self, off: usize, val: u32);
    /// Reads 64 bits.
    fn read64(&self, off: usize) -> u64;
    /// Writes 64 bits.
    fn write64(&self, off: usize, val: u64);
}

impl<T: DmaMem + ?Sized> DmaMem for &T {
    fn dma_addr(&self) -> u64 {
        (**self).dma_addr()
    }
    fn len(&self) -> usize {
        (**self).len()
    }
    fn read32(&self, off: usize) -> u32 {
        (**self).read32(off)
    }
    fn write32(&self, off: usize, val: u32) {
        (**self).write32(off, val)
    }
    fn read64(&self, off: usize) -> u64 {
        (**self).read64(off)
    }
    fn write64(&self, off: usize, val: u64) {
        (**self).write64(off, val)
    }
}

/// Asked before each new look at something that the device has to change: `true` to look again, `false` to give
/// up. The caller relaxes the CPU, sleeps or lets virtual time pass in it, and bounds it.
pub type Wait<'a> = dyn FnMut() -> bool + 'a;

/// Looks until `look` gives a value; once more after `wait` has said no, for the caller may not have run for longer than it bounds.
///
/// # Errors
/// [`Error::Timeout`] with `what`.
pub fn poll<T>(
    wait: &mut Wait<'_>,
    what: &'static str,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T> {
    loop {
        if let Some(v) = look() {
            return Ok(v);
        }
        if !wait() {
            return look().ok_or(Error::Timeout(what));
        }
    }
}

/// Writes a register that reads as it was written in the bits of `mask`, and sees that it does; once more if the write was lost.
///
/// # Errors
/// [`Error::Gone`]; [`Error::BadState`], with `what` and what it reads.
pub fn set<M: Mmio + ?Sized>(
    m: &M,
    what: &'static str,
    (bar, off): (Bar, u32),
    val: u32,
    mask: u32,
) -> Result<()> {
    let mut back = 0;
    for _ in 0..2 {
        m.write32(bar, off, val);
        back = m.read32(bar, off);
        if back == u32::MAX {
            return Err(Error::Gone);
        }
        if (back ^ val) & mask == 0 {
            return Ok(());
        }
    }
    Err(Error::BadState(what, back))
}

/// Writes zero to the first `bytes` of `mem` (a multiple of 8; clipped to its length).
pub fn zero<D: DmaMem + ?Sized>(mem: &D, bytes: usize) {
    let end = bytes.min(mem.len());
    let mut off = 0;
    while off < end {
        mem.write64(off, 0);
        off += 8;
    }
}
