// SPDX-License-Identifier: GPL-2.0
//! Managed memory.

use crate::device::{Device, Place};
use crate::error::{Error, Result};
use crate::{sys, uapi};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// A managed range of 64-bit words, zero at first, unmapped when dropped.
///
/// # Aliasing
/// A GPU may write the range only while a [`crate::Launch`] lives, and a launch borrows its device mutably in no way
/// that Rust could tie to this memory. So [`crate::Launch`] ends the launch when it is dropped, and its `wait` consumes it;
/// [`Self::as_slice`] and [`Self::as_mut_slice`] must not be held across a running launch that writes the range. Programs
/// in [`crate::work`] that are built from `&Managed` keep to this when waited for before the data is looked at again.
#[derive(Debug)]
pub struct Managed {
    ptr: NonNull<u64>,
    words: usize,
    file: Arc<File>,
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
                self.file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(p.cast::<u64>()).filter(|_| p != libc::MAP_FAILED) {
            Some(ptr) => Ok(Managed {
                ptr,
                words: len / 8,
                file: self.file.clone(),
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
        // SAFETY: `this` is not dropped and not used again, so its reference to the file is given up once.
        unsafe { std::ptr::drop_in_place(&raw mut this.file) };
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

    /// The words. Not across a running launch that writes them (see the type).
    pub fn as_slice(&self) -> &[u64] {
        // SAFETY: mapped and readable for `words` words until dropped; aligned to a page; any bits are a u64.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.words) }
    }

    /// The words, to change. Not across a running launch that uses them (see the type).
    pub fn as_mut_slice(&mut self) -> &mut [u64] {
        // SAFETY: as `as_slice`, writable, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.words) }
    }

    /// Moves the range to a place. Returns the bytes moved.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn migrate(&self, dst: Place) -> Result<u64> {
        let mut arg = uapi::huvm_migrate {
            va: self.va(),
            length: self.bytes(),
            dst: dst.raw(),
            ..Default::default()
        };
        // SAFETY: the range is ours; contents stay as they are.
        unsafe { sys::call(&self.file, &mut arg, "migrating") }?;
        Ok(arg.moved_bytes)
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
        // SAFETY: the range is ours and borrowed mutably.
        unsafe { sys::call(&self.file, &mut arg, "giving advice") }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: mapped by `alloc` with this length, and no slice outlives `self`.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.words * 8) };
    }
}
