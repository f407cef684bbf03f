// SPDX-License-Identifier: GPL-2.0
//! The model's host on top of the C callbacks.

use core::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use huvm_model::host::{DmaError, Host, Place};

/// `HuvmHostOps` of `huvm-model.h`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct HostOps {
    pub now_ns: unsafe extern "C" fn(*mut c_void) -> u64,
    pub dma_read: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, u64) -> c_int,
    pub dma_write: unsafe extern "C" fn(*mut c_void, u64, *const c_void, u64) -> c_int,
    pub msix: unsafe extern "C" fn(*mut c_void, u32),
    pub bar_virtual: unsafe extern "C" fn(*mut c_void, u32, c_int),
    pub bus_translated: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub guest_error: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
    pub set_timer: unsafe extern "C" fn(*mut c_void, u64),
}

/// A device of the C side.
///
/// # Invariants
///
/// From `huvm_model_add` to `huvm_model_remove` (from inside a call, too: `TAKEN_OUT`) the callbacks may be called with `opaque`, and
/// `vram` points to `vram_bytes` bytes that may be read and written. The guest's processors may
/// write them at the same time, as on any device with memory, so no reference to them is ever
/// made: bytes are only copied through raw pointers.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(crate) ops: HostOps,
    pub(crate) opaque: *mut c_void,
    pub(crate) vram: *mut u8,
    pub(crate) vram_bytes: u64,
}

// SAFETY: the pointers are only used inside calls of the C side, which serialises them
// (huvm-model.h); which thread makes the call does not matter to either side.
unsafe impl Send for Device {}

impl Device {
    /// Pointer to `len` bytes of VRAM at `offset`, if all of them are inside.
    fn at(&self, offset: u64, len: u64) -> Result<*mut u8, DmaError> {
        let end = offset.checked_add(len).ok_or(DmaError)?;
        if end > self.vram_bytes {
            return Err(DmaError);
        }
        let offset = usize::try_from(offset).map_err(|_| DmaError)?;
        // SAFETY: offset + len <= vram_bytes, so the result stays inside the one allocation that
        // the type invariant promises.
        Ok(unsafe { self.vram.add(offset) })
    }
}

/// GPUs that were taken out while a call ran, bit by index: a copy may write to the register of a port that has one removed. The
/// machine forgets them when that call ends; until then they are not there.
static TAKEN_OUT: AtomicU32 = AtomicU32::new(0);

/// The GPU goes, but the machine is busy.
pub(crate) fn take_out(gpu: usize) {
    if gpu < huvm_model::MAX_GPUS {
        TAKEN_OUT.fetch_or(1 << gpu, Ordering::Relaxed);
    }
}

/// Those that went meanwhile, once.
pub(crate) fn taken_out() -> impl Iterator<Item = usize> {
    let all = TAKEN_OUT.swap(0, Ordering::Relaxed);
    (0..huvm_model::MAX_GPUS).filter(move |g| all & 1 << g != 0)
}

fn is_out(gpu: usize) -> bool {
    TAKEN_OUT.load(Ordering::Relaxed) & 1 << gpu != 0
}

/// The devices by GPU index.
#[derive(Default)]
pub(crate) struct FfiHost {
    pub(crate) devices: [Option<Device>; huvm_model::MAX_GPUS],
}

impl FfiHost {
    fn device(&self, gpu: usize) -> Result<Device, DmaError> {
        let there = self.devices.get(gpu).copied().flatten();
        there.filter(|_| !is_out(gpu)).ok_or(DmaError)
    }

    /// The device whose timer serves the machine: the first one.
    pub(crate) fn timer_device(&self) -> Option<Device> {
        (0..huvm_model::MAX_GPUS).find_map(|g| self.device(g).ok())
    }

    fn sys_read(&self, gpu: usize, addr: u64, to: *mut u8, len: u64) -> Result<(), DmaError> {
        let d = self.device(gpu)?;
        // SAFETY: the device is present, so its callback may be called with its opaque pointer
        // (invariant of Device). `to` is valid for writes of `len` bytes: each caller passes a
        // slice's pointer and length, or what Device::at checked.
        match unsafe { (d.ops.dma_read)(d.opaque, addr, to.cast(), len) } {
            0 => Ok(()),
            _ => Err(DmaError),
        }
    }

    fn sys_write(&self, gpu: usize, addr: u64, from: *const u8, len: u64) -> Result<(), DmaError> {
        let d = self.device(gpu)?;
        // SAFETY: as in sys_read; `from` is valid for reads of `len` bytes.
        match unsafe { (d.ops.dma_write)(d.opaque, addr, from.cast(), len) } {
            0 => Ok(()),
            _ => Err(DmaError),
        }
    }
}

impl Host for FfiHost {
    fn now_ns(&mut self) -> u64 {
        match self.timer_device() {
            // SAFETY: the device is present (invariant of Device).
            Some(d) => unsafe { (d.ops.now_ns)(d.opaque) },
            None => 0,
        }
    }

    fn dma_read(&mut self, gpu: usize, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.sys_read(gpu, addr, buf.as_mut_ptr(), buf.len() as u64)
    }

    fn dma_write(&mut self, gpu: usize, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.sys_write(gpu, addr, buf.as_ptr(), buf.len() as u64)
    }

    fn vram_read(&mut self, gpu: usize, offset: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let from = self.device(gpu)?.at(offset, buf.len() as u64)?;
        // SAFETY: `from` is valid for buf.len() bytes (Device::at), `buf` is ours alone, and VRAM
        // never overlaps a Rust buffer.
        unsafe { core::ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }

    fn vram_write(&mut self, gpu: usize, offset: u64, buf: &[u8]) -> Result<(), DmaError> {
        let to = self.device(gpu)?.at(offset, buf.len() as u64)?;
        // SAFETY: `to` is valid for buf.len() bytes (Device::at), and VRAM never overlaps a Rust
        // buffer.
        unsafe { core::ptr::copy_nonoverlapping(buf.as_ptr(), to, buf.len()) };
        Ok(())
    }

    fn msix(&mut self, gpu: usize, vector: u32) {
        if let Ok(d) = self.device(gpu) {
            // SAFETY: the device is present (invariant of Device).
            unsafe { (d.ops.msix)(d.opaque, vector) }
        }
    }

    fn bar_virtual(&mut self, gpu: usize, bar: u32, on: bool) {
        if let Ok(d) = self.device(gpu) {
            // SAFETY: the device is present (invariant of Device).
            unsafe { (d.ops.bar_virtual)(d.opaque, bar, c_int::from(on)) }
        }
    }

    fn bus_domain(&mut self, gpu: usize) -> usize {
        // SAFETY: the device is present (invariant of Device).
        let own = self
            .device(gpu)
            .is_ok_and(|d| unsafe { (d.ops.bus_translated)(d.opaque) } != 0);
        // Memory as it is, or behind translations of the GPU's own.
        if own {
            gpu + 1
        } else {
            0
        }
    }

    fn guest_error(&mut self, gpu: usize, what: &str) {
        if let Ok(d) = self.device(gpu) {
            // SAFETY: the device is present (invariant of Device); text and length belong together.
            unsafe { (d.ops.guest_error)(d.opaque, what.as_ptr().cast(), what.len()) }
        }
    }

    fn copy(&mut self, src: Place, dst: Place, len: u64) -> Result<(), DmaError> {
        match (src, dst) {
            (Place::Vram { gpu: a, offset: x }, Place::Vram { gpu: b, offset: y }) => {
                let from = self.device(a)?.at(x, len)?;
                let to = self.device(b)?.at(y, len)?;
                let len = usize::try_from(len).map_err(|_| DmaError)?;
                // SAFETY: both are valid for `len` bytes (Device::at); they may overlap, which
                // `copy` allows.
                unsafe { core::ptr::copy(from, to, len) };
                Ok(())
            }
            (Place::Sys { gpu, addr }, Place::Vram { gpu: b, offset }) => {
                let to = self.device(b)?.at(offset, len)?;
                self.sys_read(gpu, addr, to, len)
            }
            (Place::Vram { gpu: a, offset }, Place::Sys { gpu, addr }) => {
                let from = self.device(a)?.at(offset, len)?;
                self.sys_write(gpu, addr, from, len)
            }
            (Place::Sys { gpu: a, addr: x }, Place::Sys { gpu: b, addr: y }) => {
                let mut bounce = vec![0u8; usize::try_from(len.min(1 << 16)).unwrap_or(0)];
                let mut done = 0;
                while done < len {
                    let n = (len - done).min(bounce.len() as u64);
                    self.sys_read(
                        a,
                        x.checked_add(done).ok_or(DmaError)?,
                        bounce.as_mut_ptr(),
                        n,
                    )?;
                    self.sys_write(b, y.checked_add(done).ok_or(DmaError)?, bounce.as_ptr(), n)?;
                    done += n;
                }
                Ok(())
            }
        }
    }
}
