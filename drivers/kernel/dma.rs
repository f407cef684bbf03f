// SPDX-License-Identifier: GPL-2.0
//! Memory that a device can reach.

use super::ffi::c;
use super::hostpage::HostPages;
use super::inject::Point;
use super::pci::{raw, Function};
use super::rwsem::{new_rwsem, RwSem};
use core::ffi::c_void;
use huvm_hal::seam::DmaMem;
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::Arc;

/// Bus addresses that page tables and copy engines of a GA100-class GPU take (hw-interface.md 4.4).
pub(crate) const DMA_BITS: u32 = 47;
/// Those that channels are told of: USERD, GPFIFO, semaphores, runlists and instance blocks, all of which are coherent buffers.
const COHERENT_BITS: u32 = 40;

/// A device as far as DMA is concerned. It counts what is mapped for it, so that its driver can see that nothing is
/// left before it goes.
#[pin_data]
pub(crate) struct DmaDev {
    pdev: ARef<pci::Device>,
    /// Whoever sees that there are none sees them unmapped.
    live: Atomic<i64>,
    /// Whether anything may still be mapped.
    #[pin]
    open: RwSem<bool>,
}

impl DmaDev {
    /// Sets the device's address widths, and looks whether it sees the memory that is mapped for it. The device is not bus master yet.
    ///
    /// # Errors
    /// `ENOMEM`; `EIO` when the platform cannot reach these bits; `EOPNOTSUPP` where the device would see a copy of that memory.
    pub(crate) fn new(f: &Function) -> Result<Arc<DmaDev>> {
        let pdev = f.device().clone();
        // SAFETY: valid device that does no DMA yet: its owner took bus mastering from it (`Started::start`).
        to_result(unsafe { c::huvm_dma_set_masks(dev(&pdev), DMA_BITS, COHERENT_BITS, u32::MAX) })?;
        let dma = Arc::pin_init(
            pin_init!(DmaDev {
                pdev,
                live: Atomic::new(0),
                open <- new_rwsem!(true, "huvm_dma"),
            }),
            GFP_KERNEL,
        )?;
        let page = HostPages::alloc(0)?;
        DmaMapping::new(&dma, &page).inspect_err(|e| {
            if *e == EOPNOTSUPP {
                dev_err!(
                    &*dma.pdev,
                    "it would work on bounce buffers (swiotlb) and not on the host's memory, which is not supported\n"
                );
            }
        })?;
        Ok(dma)
    }

    /// Nothing can be mapped from now on (`ENODEV`); what is mapped stays until it is dropped.
    pub(crate) fn close(&self) {
        *self.open.write() = false;
    }

    /// Runs `map` if the device is still open to it, and counts what it made.
    fn count<T>(&self, map: impl FnOnce() -> Result<T>) -> Result<T> {
        let open = self.open.read();
        if !*open {
            return Err(ENODEV);
        }
        let made = map()?;
        self.live.add(1, Relaxed);
        Ok(made)
    }

    /// Buffers and mappings alive.
    pub(crate) fn live(&self) -> i64 {
        self.live.load(Acquire)
    }

    fn dev(&self) -> *mut c::device {
        dev(&self.pdev)
    }
}

fn dev(pdev: &pci::Device) -> *mut c::device {
    // SAFETY: `raw` gives a valid `pci_dev`; this only computes the address of a field.
    unsafe { core::ptr::addr_of_mut!((*raw(pdev)).dev) }
}

/// Earlier reads of what a device wrote (such as a semaphore) are done before later ones (such as its data).
pub(crate) fn read_barrier() {
    // SAFETY: no preconditions.
    unsafe { c::huvm_rmb() }
}

/// A coherent buffer, contiguous on the bus, page-aligned; zeroed when made.
pub(crate) struct DmaBuf {
    dev: Arc<DmaDev>,
    cpu: *mut u8,
    addr: u64,
    len: usize,
}

// SAFETY: the memory belongs to no thread; every access is a volatile copy.
unsafe impl Send for DmaBuf {}
// SAFETY: as above: concurrent volatile accesses behave as the device's do.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Allocates `bytes`, zeroed.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` for none; `ENODEV` when the device is going.
    pub(crate) fn new(dev: &Arc<DmaDev>, bytes: usize) -> Result<DmaBuf> {
        Self::with(dev, bytes, c::HUVM_GFP_DMA)
    }

    /// As [`Self::new`], charged as [`super::memcg::CHARGED`] says.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn charged(dev: &Arc<DmaDev>, bytes: usize) -> Result<DmaBuf> {
        Self::with(dev, bytes, c::HUVM_GFP_DMA_CHARGED)
    }

    fn with(dev: &Arc<DmaDev>, bytes: usize, gfp: c::gfp_t) -> Result<DmaBuf> {
        if bytes == 0 {
            return Err(EINVAL);
        }
        dev.count(|| {
            if Point::DmaAlloc.fails() {
                return Err(ENOMEM);
            }
            let mut addr: c::dma_addr_t = 0;
            // SAFETY: valid device with its masks set; `addr` outlives the call.
            let cpu = unsafe { c::dma_alloc_attrs(dev.dev(), bytes, &mut addr, gfp, 0) };
            if cpu.is_null() {
                return Err(ENOMEM);
            }
            Ok(DmaBuf {
                dev: dev.clone(),
                cpu: cpu.cast(),
                addr,
                len: bytes,
            })
        })
    }

    fn at<T>(&self, off: usize) -> Option<*mut T> {
        let size = core::mem::size_of::<T>();
        if off & (size - 1) != 0 || off.checked_add(size)? > self.len {
            return None;
        }
        // The buffer is page-aligned, so the address is aligned as `off` is.
        Some(self.cpu.wrapping_add(off).cast())
    }
}

impl DmaMem for DmaBuf {
    fn dma_addr(&self) -> u64 {
        self.addr
    }
    fn len(&self) -> usize {
        self.len
    }
    #[inline]
    fn read32(&self, off: usize) -> u32 {
        self.at::<u32>(off).map_or(!0, |p| {
            // SAFETY: `at` gives an aligned address inside the buffer.
            unsafe { p.read_volatile() }
        })
    }
    #[inline]
    fn write32(&self, off: usize, val: u32) {
        if let Some(p) = self.at::<u32>(off) {
            // SAFETY: as `read32`.
            unsafe { p.write_volatile(val) }
        }
    }
    #[inline]
    fn read64(&self, off: usize) -> u64 {
        self.at::<u64>(off).map_or(!0, |p| {
            // SAFETY: as `read32`.
            unsafe { p.read_volatile() }
        })
    }
    #[inline]
    fn write64(&self, off: usize, val: u64) {
        if let Some(p) = self.at::<u64>(off) {
            // SAFETY: as `read32`.
            unsafe { p.write_volatile(val) }
        }
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with these values; the device was told to forget it, as owners must before drop.
        unsafe {
            c::dma_free_attrs(
                self.dev.dev(),
                self.len,
                self.cpu.cast::<c_void>(),
                self.addr,
                0,
            )
        };
        self.dev.live.fetch_sub(1, Release);
    }
}

/// Host pages as one device sees them, for reading and writing, until dropped.
///
/// Drop it before the pages, and after the device's last copy from or to them.
pub(crate) struct DmaMapping {
    dev: Arc<DmaDev>,
    addr: u64,
    len: usize,
}

impl DmaMapping {
    /// Maps all of `pages`.
    ///
    /// # Errors
    /// `ENOMEM` when the platform has no bus addresses left; `ENODEV` when the device is going; `EOPNOTSUPP` where it would see a copy.
    pub(crate) fn new(dev: &Arc<DmaDev>, pages: &HostPages) -> Result<DmaMapping> {
        let len = pages.len();
        let map = dev.count(|| {
            if Point::DmaMap.fails() {
                return Err(ENOMEM);
            }
            // SAFETY: valid device, valid compound page of `len` bytes.
            let addr = unsafe { c::huvm_dma_map(dev.dev(), pages.page(), len) };
            // SAFETY: valid device; `addr` came from the mapping call.
            if unsafe { c::huvm_dma_mapping_error(dev.dev(), addr) } != 0 {
                return Err(ENOMEM);
            }
            Ok(DmaMapping {
                dev: dev.clone(),
                addr,
                len,
            })
        })?;
        // Nobody tells who writes when, so nobody could bring the two up to date.
        // SAFETY: valid device; `map` is a mapping of it.
        if unsafe { c::huvm_dma_is_apart(dev.dev(), map.addr) } {
            return Err(EOPNOTSUPP);
        }
        Ok(map)
    }

    /// Bus address of the first byte.
    pub(crate) fn dma_addr(&self) -> u64 {
        self.addr
    }
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; owners drop it after the device's last access.
        unsafe { c::huvm_dma_unmap(self.dev.dev(), self.addr, self.len) };
        self.dev.live.fetch_sub(1, Release);
    }
}
