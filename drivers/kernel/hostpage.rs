// SPDX-License-Identifier: GPL-2.0
//! Host memory in compound pages.

use super::ffi::c;
use super::inject::Point;
use super::memcg;
use super::mmio::VramWindow;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Bytes of a 4 KiB page.
const PAGE: usize = 4096;

/// Pages of 4 KiB in [`HostPages`] that are alive. The kernel's detector of leaks does not see pages.
static LIVE: Atomic<i64> = Atomic::new(0);

/// 4 KiB pages of host memory that somebody has.
pub(crate) fn live() -> i64 {
    LIVE.load(Relaxed)
}

/// 4 KiB, 64 KiB or 2 MiB of host memory, contiguous and aligned to its size. Freed on drop: no mapping, on the CPU or
/// on a device, may be left then.
///
/// The bytes are shared with user space and devices, which write when they like; so they are reached by copies only.
pub(crate) struct HostPages {
    page: NonNull<c::page>,
    order: u32,
}

// SAFETY: pages belong to no thread; all access is by volatile-like copies through the direct map.
unsafe impl Send for HostPages {}
// SAFETY: as above: concurrent copies race like user memory does, with unspecified bytes and nothing else.
unsafe impl Sync for HostPages {}

impl HostPages {
    /// Allocates 2^`order` pages (order 0, 4 or 9), charged to the caller's memory cgroup. Larger orders are taken if
    /// they are there and not fought for. The bytes are NOT zeroed.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` for another order.
    pub(crate) fn alloc(order: u32) -> Result<HostPages> {
        let fails = match order {
            0 => Point::Host4k.fails(),
            4 => Point::Host64k.fails(),
            9 => Point::Host2m.fails(),
            _ => return Err(EINVAL),
        };
        if fails {
            return Err(ENOMEM);
        }
        let gfp = match order {
            0 => c::HUVM_GFP_SMALL,
            9 if memcg::is_slow() => c::HUVM_GFP_LARGE_AT_ONCE,
            _ => c::HUVM_GFP_LARGE,
        };
        // SAFETY: flags allow sleeping, and allocation happens in process context only (as every caller of this room).
        let page = memcg::at_once(|| unsafe { c::huvm_alloc_pages(gfp, order) });
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        let pages = HostPages { page, order };
        LIVE.add(pages.count(), Relaxed);
        Ok(pages)
    }

    /// Pages of 4 KiB.
    fn count(&self) -> i64 {
        1 << self.order
    }

    /// log2 of the number of 4 KiB pages.
    pub(crate) fn order(&self) -> u32 {
        self.order
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        PAGE << self.order
    }

    /// Frame number of the first page.
    pub(crate) fn pfn(&self) -> usize {
        // SAFETY: `page` is a valid page that we own.
        unsafe { c::huvm_page_to_pfn(self.page.as_ptr()) }
    }

    pub(super) fn page(&self) -> *mut c::page {
        self.page.as_ptr()
    }

    /// First byte at `off`, if `len` bytes from there on are inside.
    fn at(&self, off: usize, len: usize) -> Option<*mut u8> {
        if off.checked_add(len)? > self.len() {
            return None;
        }
        // SAFETY: `page` is a valid page that we own; x86-64 maps all memory, so the address is valid.
        let base: *mut u8 = unsafe { c::huvm_page_address(self.page.as_ptr()) }.cast();
        // SAFETY: `off` is inside the allocation, which is contiguous in the direct map.
        Some(unsafe { base.add(off) })
    }

    /// Writes zeroes to `off..off + len`; nothing if that is not inside.
    pub(crate) fn zero(&self, off: usize, len: usize) {
        if let Some(at) = self.at(off, len) {
            // SAFETY: `at` is valid for `len` bytes; no Rust reference to these bytes exists.
            unsafe { core::ptr::write_bytes(at, 0, len) };
        }
    }

    /// Copies from `off` to `to`; nothing if that is not inside.
    pub(crate) fn read(&self, off: usize, to: &mut [u8]) {
        if let Some(at) = self.at(off, to.len()) {
            // SAFETY: `at` is valid for `to.len()` bytes, and kernel memory behind a `&mut` never overlaps our page.
            unsafe { core::ptr::copy_nonoverlapping(at, to.as_mut_ptr(), to.len()) };
        }
    }

    /// Copies `from` to `off`; nothing if that is not inside.
    pub(crate) fn write(&self, off: usize, from: &[u8]) {
        if let Some(at) = self.at(off, from.len()) {
            // SAFETY: as `read`, the other way.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at, from.len()) };
        }
    }

    /// Copies `len` bytes at `from` of a GPU's memory to `off`. `false`, and nothing is done, if that is not inside of both.
    pub(crate) fn read_from(
        &self,
        off: usize,
        window: &VramWindow,
        from: usize,
        len: usize,
    ) -> bool {
        self.at(off, len).is_some_and(|at| {
            // SAFETY: `len` bytes from there on are ours; whoever else has them mapped sees memory that changes.
            unsafe { window.read(from, at, len) }
        })
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        LIVE.fetch_sub(self.count(), Relaxed);
        // SAFETY: we own the page, allocated with this order; by the type's contract nothing maps it any more.
        unsafe { c::huvm_free_pages(self.page.as_ptr(), self.order) }
    }
}
