// SPDX-License-Identifier: GPL-2.0
//! A folder of debugfs whose files are text, made anew by each reading.
//!
//! The kernel crate has such files too, but theirs do not name the module: one that is open when the module goes is closed by
//! functions that are no longer there. An open file of ours keeps the module, as one of the device does.

use super::ffi::c;
use core::ffi::c_void;
use core::marker::PhantomData;
use kernel::fmt;
use kernel::prelude::*;
use kernel::seq_file::{seq_print, SeqFile};

/// What a file says.
pub(crate) trait Text: Send + Sync + 'static {
    /// The file's name.
    const NAME: &'static CStr;
    /// Writes all of it. Called again, with more room, if it was too long.
    ///
    /// # Errors
    /// Those of the formatter alone.
    fn show(f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A text as something that can be printed.
struct Shown<T>(PhantomData<T>);

impl<T: Text> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::show(f)
    }
}

struct Fops<T>(PhantomData<T>);

impl<T: Text> Fops<T> {
    const TABLE: c::file_operations = c::file_operations {
        owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
        open: Some(Self::open),
        read: Some(c::seq_read),
        llseek: Some(c::seq_lseek),
        release: Some(c::single_release),
        ..pin_init::zeroed()
    };

    const fn table() -> &'static c::file_operations {
        &Self::TABLE
    }

    /// # Safety
    /// For the kernel to call, as `file_operations` says.
    unsafe extern "C" fn open(_inode: *mut c::inode, file: *mut c::file) -> kernel::ffi::c_int {
        // SAFETY: the file is being opened, and is released by `single_release`. `show` needs no data.
        unsafe { c::single_open(file, Some(Self::show), core::ptr::null_mut()) }
    }

    /// # Safety
    /// For the kernel to call, as `single_open` says.
    unsafe extern "C" fn show(m: *mut c::seq_file, _data: *mut c_void) -> kernel::ffi::c_int {
        // SAFETY: a seq file, locked and valid during the call.
        let m = unsafe { SeqFile::from_raw(m) };
        seq_print!(m, "{}", Shown::<T>(PhantomData));
        0
    }
}

/// The folder, until dropped. Without debugfs there is none, which is no error: nobody works by what is shown there.
///
/// # Invariants
/// What `huvm_debugfs_dir` returned: a folder that is there, or an error.
pub(crate) struct Folder(*mut c::dentry);

// SAFETY: making files and removing the folder may be done from any thread.
unsafe impl Send for Folder {}
// SAFETY: as above; the folder has its own locks.
unsafe impl Sync for Folder {}

impl Folder {
    /// Makes `/sys/kernel/debug/<name>`.
    pub(crate) fn new(name: &'static CStr) -> Folder {
        // INVARIANT: as it says.
        // SAFETY: a C string.
        Folder(unsafe { c::huvm_debugfs_dir(name.as_char_ptr()) })
    }

    /// Adds a file, for root to read.
    pub(crate) fn with<T: Text>(self) -> Folder {
        // SAFETY: a folder that is there, or an error, with which nothing is done; the table is static, and names the module.
        unsafe { c::huvm_debugfs_file(T::NAME.as_char_ptr(), self.0, Fops::<T>::table()) };
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: ours, and removed this once. Waits for who is in one of the files.
        unsafe { c::huvm_debugfs_remove(self.0) };
    }
}
