// SPDX-License-Identifier: GPL-2.0
//! Kernel threads.

use super::ffi::c;
use core::ffi::c_void;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;

/// A running kernel thread. Dropped, it is asked to stop and waited for.
///
/// The thread must look at [`should_stop`] and wait only in ways that a wake-up ends, with a condition that includes
/// [`should_stop`].
pub(crate) struct KThread {
    task: NonNull<c::task_struct>,
    /// Frees the closure, when the thread is over.
    free: unsafe fn(*mut c_void),
    arg: *mut c_void,
}

// SAFETY: the task is referenced and stopping it may be done from any thread; the closure is `Send`.
unsafe impl Send for KThread {}
// SAFETY: no method takes `&self`.
unsafe impl Sync for KThread {}

/// # Safety
/// `arg` points to a live `F` that no other code uses while the thread runs.
unsafe extern "C" fn run<F: FnMut()>(arg: *mut c_void) -> kernel::ffi::c_int {
    // SAFETY: by the contract above.
    unsafe { (*arg.cast::<F>())() };
    0
}

/// # Safety
/// `arg` came from `KBox::into_raw` of a `KBox<F>` and nobody uses it any more.
unsafe fn free<F>(arg: *mut c_void) {
    // SAFETY: by the contract above.
    drop(unsafe { KBox::from_raw(arg.cast::<F>()) });
}

impl KThread {
    /// Starts a thread that runs `f`, once. At most 15 bytes of the name show.
    ///
    /// What `f` has captured stays where it is, off the thread's stack, and is dropped when the thread was waited for.
    ///
    /// # Errors
    /// `ENOMEM`; `EINTR` when the caller is killed meanwhile.
    pub(crate) fn spawn<F: FnMut() + Send + 'static>(name: &CStr, f: F) -> Result<KThread> {
        let arg = KBox::into_raw(KBox::new(f, GFP_KERNEL)?).cast::<c_void>();
        // SAFETY: `arg` lives until the thread is over (see `drop`), and only `run` uses it meanwhile; the name is
        // copied.
        let task = from_err_ptr(unsafe {
            c::huvm_kthread_create(Some(run::<F>), arg, name.as_char_ptr())
        });
        let task = match task {
            Ok(t) => t,
            Err(e) => {
                // SAFETY: no thread was made, so the closure is ours alone.
                unsafe { free::<F>(arg) };
                return Err(e);
            }
        };
        let Some(task) = NonNull::new(task) else {
            // SAFETY: as above.
            unsafe { free::<F>(arg) };
            return Err(ENOMEM);
        };
        // SAFETY: a created thread exists until it is woken or stopped. The reference keeps the task for `drop`, should
        // the thread end by itself.
        unsafe {
            c::huvm_get_task(task.as_ptr());
            c::wake_up_process(task.as_ptr());
        }
        Ok(KThread {
            task,
            free: free::<F>,
            arg,
        })
    }
}

impl Drop for KThread {
    fn drop(&mut self) {
        // SAFETY: we hold a reference on the task. After `kthread_stop` the thread is over (or never began), so the
        // closure is ours alone.
        unsafe {
            c::kthread_stop(self.task.as_ptr());
            c::huvm_put_task(self.task.as_ptr());
            (self.free)(self.arg);
        }
    }
}

/// Whether the calling thread is a kernel thread and was asked to stop.
pub(crate) fn should_stop() -> bool {
    // SAFETY: no preconditions. A kernel thread of ours was made by `kthread_create`, as the C side requires.
    unsafe { c::huvm_kthread_should_stop() }
}
