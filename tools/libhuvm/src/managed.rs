// SPDX-License-Identifier: GPL-2.0
//! Managed memory.

use crate::device::{Device, Place};
use crate::error::{Error, Result};
use crate::space::{Space, Use};
use crate::{sys, uapi};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// A managed range of 64-bit words, zero at first, unmapped when dropped.
///
/// # Aliasing
/// A [`crate::Program`] borrows the ranges that it uses, mutably those that it writes, and a [`crate::Launch`] goes on
/// borrowing them until it was waited for or dropped (which ends it). So the compiler lets nobody see the words while a GPU may
/// change them:
///
/// ```compile_fail,E0502
/// # fn f(device: &libhuvm::Device, data: &mut libhuvm::Managed) -> libhuvm::Result<()> {
/// let launch = device.launch(0, &libhuvm::Program::scale(data, 3, 1, 32)?)?;
/// let first = data.as_slice()[0]; // the launch still writes `data`
/// launch.wait_done()?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0502
/// # fn f(device: &libhuvm::Device, mut data: libhuvm::Managed) -> libhuvm::Result<()> {
/// let words = data.as_slice();
/// let launch = device.launch(0, &libhuvm::Program::scale(&mut data, 3, 1, 32)?)?;
/// launch.wait_done()?;
/// println!("{}", words[0]); // held across the launch
/// # Ok(())
/// # }
/// ```
///
/// Nor can a range go away below a launch, or be changed while one reads it:
///
/// ```compile_fail,E0505
/// # fn f(device: &libhuvm::Device, data: libhuvm::Managed, mut z: libhuvm::Managed) -> libhuvm::Result<()> {
/// let launch = device.launch(0, &libhuvm::Program::add(&mut z, &data, &data, 32)?)?;
/// drop(data);
/// launch.wait_done()?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0502
/// # fn f(device: &libhuvm::Device, mut data: libhuvm::Managed, mut z: libhuvm::Managed) -> libhuvm::Result<()> {
/// let launch = device.launch(0, &libhuvm::Program::add(&mut z, &data, &data, 32)?)?;
/// data.as_mut_slice()[0] = 1;
/// launch.wait_done()?;
/// # Ok(())
/// # }
/// ```
///
/// Looking at what a launch only reads is fine, and so is all of it after the wait:
///
/// ```no_run
/// # fn f(device: &libhuvm::Device, data: libhuvm::Managed, mut z: libhuvm::Managed) -> libhuvm::Result<()> {
/// let launch = device.launch(0, &libhuvm::Program::add(&mut z, &data, &data, 32)?)?;
/// let first = data.as_slice()[0];
/// launch.wait_done()?;
/// assert_eq!(z.as_slice()[0], 2 * first);
/// # Ok(())
/// # }
/// ```
///
/// A launch that was forgotten (`std::mem::forget`) is ended when memory that it may use is looked at or unmapped.
#[derive(Debug)]
pub struct Managed {
    ptr: NonNull<u64>,
    words: usize,
    space: Arc<Space>,
}

/// Names a managed range, without a right to look at it: pages can be moved while a launch uses them.
#[derive(Clone, Debug)]
pub struct Handle {
    va: u64,
    bytes: u64,
    space: Arc<Space>,
}

impl Handle {
    /// First address.
    pub fn va(&self) -> u64 {
        self.va
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves the range to a place. Returns the bytes moved.
    ///
    /// # Errors
    /// [`Error::Os`], `EINVAL` or `ENOMEM` when the range is gone.
    pub fn migrate(&self, dst: Place) -> Result<u64> {
        let mut arg = uapi::huvm_migrate {
            va: self.va,
            length: self.bytes,
            dst: dst.raw(),
            ..Default::default()
        };
        // SAFETY: the driver takes managed ranges of this file alone, and moves pages without changing what they hold; so it
        // does no harm that the range may be gone, or another one be in its place.
        unsafe { sys::call(&self.space.file, &mut arg, "migrating") }?;
        Ok(arg.moved_bytes)
    }
}

// SAFETY: a shared mapping may be used from any thread; `&mut` is needed to write it.
unsafe impl Send for Managed {}
// SAFETY: as above.
unsafe impl Sync for Managed {}

impl Device {
    /// Maps `bytes` (a multiple of 4 KiB) of managed memory.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::Os`].
    pub fn alloc(&self, bytes: u64) -> Result<Managed> {
        let len = usize::try_from(bytes)
            .map_err(|_| Error::Argument(format!("{bytes} bytes are too many")))?;
        if len == 0 || len % 4096 != 0 {
            return Err(Error::Argument(format!(
                "{bytes} bytes are not a multiple of 4 KiB"
            )));
        }
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.space.file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(p.cast::<u64>()).filter(|_| p != libc::MAP_FAILED) {
            Some(ptr) => Ok(Managed {
                ptr,
                words: len / 8,
                space: self.space.clone(),
            }),
            None => Err(Error::Os {
                what: format!("mapping {bytes} bytes"),
                errno: std::io::Error::last_os_error()
                    .raw_os_error()
                    .unwrap_or(libc::ENOMEM),
            }),
        }
    }
}

impl Managed {
    /// Gives the mapping away: the caller unmaps it. The kernel keeps the file open for it.
    #[cfg(feature = "capi")]
    pub(crate) fn into_raw(self) -> *mut u64 {
        let mut this = std::mem::ManuallyDrop::new(self);
        let ptr = this.ptr.as_ptr();
        // SAFETY: `this` is not dropped and not used again, so its reference to the space is given up once.
        unsafe { std::ptr::drop_in_place(&raw mut this.space) };
        ptr
    }

    /// First address.
    pub fn va(&self) -> u64 {
        self.ptr.as_ptr() as u64
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    /// The range, for the list of what a program uses.
    pub(crate) fn uses(&self, writes: bool) -> Use {
        Use {
            start: self.va(),
            end: self.va() + self.bytes(),
            writes,
        }
    }

    /// Names the range, for what may be done to it while a launch uses it.
    pub fn handle(&self) -> Handle {
        Handle {
            va: self.va(),
            bytes: self.bytes(),
            space: self.space.clone(),
        }
    }

    /// The words.
    pub fn as_slice(&self) -> &[u64] {
        self.space.settle(self.uses(false));
        // SAFETY: mapped and readable for `words` words until dropped; aligned to a page; any bits are a u64. No launch
        // writes them: one that lives borrows the range mutably, and one that was forgotten is over now.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.words) }
    }

    /// The words, to change.
    pub fn as_mut_slice(&mut self) -> &mut [u64] {
        self.space.settle(self.uses(true));
        // SAFETY: as `as_slice`, writable, and borrowed mutably; no launch reads or writes them, for the same reasons.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.words) }
    }

    /// Moves the range to a place. Returns the bytes moved.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn migrate(&self, dst: Place) -> Result<u64> {
        self.handle().migrate(dst)
    }

    /// Gives advice (`HUVM_ADVISE_*`) about the range. Discard makes it read as zero, hence `&mut`.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn advise(&mut self, advice: u32, place: u32) -> Result<()> {
        let mut arg = uapi::huvm_advise {
            va: self.va(),
            length: self.bytes(),
            advice,
            place,
            ..Default::default()
        };
        self.space.settle(self.uses(true));
        // SAFETY: the range is ours, borrowed mutably, and used by no launch.
        unsafe { sys::call(&self.space.file, &mut arg, "giving advice") }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // The addresses may be those of another range soon: no launch that was forgotten must find them there.
        self.space.settle(self.uses(true));
        // SAFETY: mapped by `alloc` with this length, and no slice outlives `self`.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.words * 8) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::work::{Launch, Program};
    use std::fs::File;

    /// Memory without a driver: a shared mapping of /dev/zero is as good for what is tested here.
    pub(crate) fn device() -> Device {
        let zero = File::options().read(true).write(true).open("/dev/zero");
        Device {
            space: Arc::new(Space::new(zero.unwrap())),
        }
    }

    fn started<'m>(device: &Device, program: &Program<'m>) -> Launch<'m> {
        Launch::noted(device, 7, program)
    }

    #[test]
    fn a_forgotten_launch_is_ended_before_its_memory_is_looked_at() {
        let device = device();
        let bytes = crate::work::PIECE;
        let (mut x, mut z) = (device.alloc(bytes).unwrap(), device.alloc(bytes).unwrap());
        let other = device.alloc(bytes).unwrap();
        let forget = |x: &Managed, z: &mut Managed| {
            let program = Program::add(z, x, x, 1).unwrap();
            std::mem::forget(started(&device, &program));
            assert_eq!(device.space.count(), 1);
        };

        forget(&x, &mut z);
        // Nobody writes these.
        assert_eq!((other.as_slice()[0], x.as_slice()[0]), (0, 0));
        assert_eq!(device.space.count(), 1);
        assert_eq!(z.as_slice()[0], 0);
        assert_eq!(device.space.count(), 0);

        forget(&x, &mut z);
        x.as_mut_slice()[0] = 1;
        assert_eq!(device.space.count(), 0);

        forget(&x, &mut z);
        drop(x);
        assert_eq!(device.space.count(), 0);
    }

    #[test]
    fn sizes_that_cannot_be_mapped_are_refused() {
        let device = device();
        for bytes in [0, 1, 4095, 4097, u64::MAX] {
            assert!(matches!(device.alloc(bytes), Err(Error::Argument(_))));
        }
        let m = device.alloc(8192).unwrap();
        assert_eq!((m.bytes(), m.as_slice().len()), (8192, 1024));
        assert_eq!((m.handle().va(), m.handle().bytes()), (m.va(), 8192));
    }
}
