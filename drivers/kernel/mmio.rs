// SPDX-License-Identifier: GPL-2.0
//! BARs that may vanish under their users.

use super::ffi::c;
use super::pci::{is_memory, raw, Function};
use core::ffi::c_void;
use huvm_hal::ext::announce::Announced;
use huvm_hal::seam::{Bar, Fence, Mmio};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::rcu;

/// A mapped BAR. The address is 0 once revoked; whoever uses it holds the RCU read lock meanwhile.
struct Window {
    at: Atomic<usize>,
    len: usize,
}

impl Window {
    /// Maps a BAR from `offset` on: `length` bytes, or all of it.
    fn map(f: &Function, bar: u32, offset: usize, length: Option<usize>) -> Result<Window> {
        let pdev = f.device();
        let all = usize::try_from(pdev.resource_len(bar)?)?;
        let len = length.unwrap_or(all);
        if !is_memory(pdev, bar) || len == 0 || offset.checked_add(len).is_none_or(|end| end > all)
        {
            return Err(ENODEV);
        }
        // SAFETY: a device that we enabled, and a BAR that we claimed.
        let at = unsafe { c::pci_iomap_range(raw(pdev), bar as kernel::ffi::c_int, offset, len) };
        if at.is_null() {
            return Err(ENOMEM);
        }
        Ok(Window {
            at: Atomic::new(at as usize),
            len,
        })
    }

    /// Runs `f` on the register at `off`, unless that is outside or the BAR was revoked.
    #[inline]
    fn with<R>(&self, off: u32, f: impl FnOnce(*mut c_void) -> R) -> Option<R> {
        let off = off as usize;
        if off & 3 != 0 || off.checked_add(4)? > self.len {
            return None;
        }
        let _rcu = rcu::read_lock();
        let base = self.at.load(Relaxed);
        if base == 0 {
            return None;
        }
        // Cannot overflow: `base` maps `len` bytes and `off` is inside.
        Some(f(base.wrapping_add(off) as *mut c_void))
    }

    fn revoke(&self) {
        let base = self.at.xchg(0, Full);
        if base == 0 {
            return;
        }
        rcu::synchronize_rcu();
        // SAFETY: mapped by `map`; after the grace period nobody uses it, and nobody finds it any more.
        unsafe { c::huvm_iounmap(base as *mut c_void) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.revoke();
    }
}

/// What configuration space says of the extension.
pub(crate) enum ExtAt {
    /// It is here.
    Announced(Announced),
    /// The device has none.
    Nowhere,
    /// The kernel does not reach that part of configuration space.
    Unknown,
}

/// BAR0 and, where the device has it, the BAR of the extension.
///
/// Registers can be used at any time and in any context: after [`Self::revoke`] they read all ones and ignore writes.
pub(crate) struct Bars {
    regs: Window,
    ext: Option<Window>,
}

impl Bars {
    /// Maps BAR0, and the extension: where it is announced to be, or BAR5 if nobody can say (`Unknown`) and there is
    /// one.
    ///
    /// # Errors
    /// `ENODEV` without BAR0, or when the extension is announced where no BAR is; `ENOMEM`.
    pub(crate) fn map(f: &Function, ext: &ExtAt) -> Result<Bars> {
        let regs = Window::map(f, 0, 0, None)?;
        let ext = match ext {
            ExtAt::Nowhere => None,
            ExtAt::Announced(a) => {
                let (at, len) = (usize::try_from(a.offset)?, usize::try_from(a.length)?);
                Some(Window::map(f, a.bar.into(), at, Some(len))?)
            }
            ExtAt::Unknown => match Window::map(f, 5, 0, None) {
                Ok(w) => Some(w),
                Err(e) if e == ENODEV => None,
                Err(e) => return Err(e),
            },
        };
        Ok(Bars { regs, ext })
    }

    /// Ends all access. Waits for accesses that are under way. May sleep.
    pub(crate) fn revoke(&self) {
        self.regs.revoke();
        if let Some(ext) = &self.ext {
            ext.revoke();
        }
    }

    /// Runs `f` unless access has ended: what it does to the device is done before [`Self::revoke`] returns. It may not sleep.
    pub(crate) fn while_mapped(&self, f: impl FnOnce()) {
        let _ran = self.regs.with(0, |_| f());
    }

    #[inline]
    fn window(&self, bar: Bar) -> Option<&Window> {
        match bar {
            Bar::Regs => Some(&self.regs),
            Bar::Ext => self.ext.as_ref(),
        }
    }
}

impl Fence for Bars {
    fn wmb(&self) {
        // SAFETY: no preconditions.
        unsafe { c::huvm_wmb() }
    }
    fn rmb(&self) {
        // SAFETY: no preconditions.
        unsafe { c::huvm_rmb() }
    }
}

impl Mmio for Bars {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        self.window(bar)
            // SAFETY: `with` gives the address of a mapped register, which stays mapped during the call.
            .and_then(|w| w.with(off, |at| unsafe { c::huvm_readl(at) }))
            .unwrap_or(!0)
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        if let Some(w) = self.window(bar) {
            // SAFETY: as `read32`.
            w.with(off, |at| unsafe { c::huvm_writel(val, at) });
        }
    }
}

/// A small part of BAR1: VRAM as the CPU sees it. Drop it before the device is unbound.
pub(crate) struct VramWindow {
    at: *mut c_void,
    len: usize,
}

impl VramWindow {
    /// Maps `len` bytes from VRAM offset `off` on, write-combined; both multiples of 4 KiB.
    ///
    /// # Errors
    /// `EINVAL` if that is not inside BAR1, `ENOMEM`.
    pub(crate) fn map(
        pdev: &kernel::pci::Device,
        bar: u32,
        off: u64,
        len: usize,
    ) -> Result<VramWindow> {
        let size = pdev.resource_len(bar)?;
        let end = off.checked_add(len as u64).ok_or(EINVAL)?;
        if !is_memory(pdev, bar) || end > size || off & 4095 != 0 || len & 4095 != 0 || len == 0 {
            return Err(EINVAL);
        }
        let start = pdev.resource_start(bar)?.checked_add(off).ok_or(EINVAL)?;
        // SAFETY: a range of a device's memory BAR.
        let at = unsafe { c::huvm_ioremap_wc(start, len) };
        if at.is_null() {
            return Err(ENOMEM);
        }
        Ok(VramWindow { at, len })
    }

    fn word(&self, off: usize) -> Option<*mut c_void> {
        (off & 3 == 0 && off.checked_add(4)? <= self.len).then(|| self.at.wrapping_byte_add(off))
    }

    /// Reads 32 bits at `off` of the window; all ones outside.
    pub(crate) fn read32(&self, off: usize) -> u32 {
        // SAFETY: `word` gives an address inside the mapping.
        self.word(off).map_or(!0, |at| unsafe { c::huvm_readl(at) })
    }

    /// Reads `len` bytes at `off` of the window. `false`: not all of that is inside, and nothing was read.
    ///
    /// # Safety
    ///
    /// `len` bytes from `to` on may be written.
    pub(super) unsafe fn read(&self, off: usize, to: *mut u8, len: usize) -> bool {
        let inside = off.checked_add(len).is_some_and(|end| end <= self.len);
        if inside {
            let at = self.at.wrapping_byte_add(off);
            // SAFETY: that much is mapped from there on, and may be written, as the caller says.
            unsafe { c::huvm_memcpy_fromio(to.cast(), at, len) };
        }
        inside
    }

    /// Writes 32 bits at `off` of the window; nothing outside.
    pub(crate) fn write32(&self, off: usize, val: u32) {
        if let Some(at) = self.word(off) {
            // SAFETY: as `read32`.
            unsafe { c::huvm_writel(val, at) }
        }
    }
}

impl Drop for VramWindow {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and ours alone.
        unsafe { c::huvm_iounmap(self.at) }
    }
}
