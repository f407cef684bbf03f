// SPDX-License-Identifier: GPL-2.0
//! Wait queues, with bounds.

use super::ffi::c;
use core::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::static_lock_class;
use kernel::types::Opaque;

/// Tasks that wait for a condition.
///
/// A waker changes what the condition reads, then calls [`Self::wake_all`]. Conditions run with the task already
/// queued, so no wake-up is lost; they must not sleep.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<c::wait_queue_head>,
}

// SAFETY: a wait queue head has its own lock and may be used from any thread.
unsafe impl Send for WaitQueue {}
// SAFETY: as above.
unsafe impl Sync for WaitQueue {}

/// `u64::MAX` nanoseconds: as long as it takes.
pub(crate) const FOREVER: u64 = u64::MAX;

/// Calls the closure at `arg`.
///
/// # Safety
/// `arg` points to a live `F` that nobody else uses.
unsafe extern "C" fn call<F: FnMut() -> bool>(arg: *mut c_void) -> bool {
    // SAFETY: by the contract above.
    let f = unsafe { &mut *arg.cast::<F>() };
    f()
}

fn jiffies(ns: u64) -> isize {
    // SAFETY: no preconditions.
    unsafe { c::huvm_ns_to_jiffies(ns) }
}

impl WaitQueue {
    /// An empty queue.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            head <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid memory for a wait queue head; name and key are static.
                unsafe {
                    c::__init_waitqueue_head(
                        slot,
                        c"huvm_wait".as_char_ptr(),
                        static_lock_class!().as_ptr(),
                    )
                }
            }),
        })
    }

    /// Wakes every waiter, to look at its condition again. Any context.
    pub(crate) fn wake_all(&self) {
        // SAFETY: the head is initialised and pinned.
        unsafe { c::huvm_wake_up_all(self.head.get()) }
    }

    /// Waits until `cond` or for `ns`, signals ignored. Returns whether `cond` held.
    pub(crate) fn wait_timeout<F: FnMut() -> bool>(&self, ns: u64, mut cond: F) -> bool {
        let arg = core::ptr::from_mut(&mut cond).cast::<c_void>();
        // SAFETY: the head is initialised and pinned; `cond` outlives the call, which alone uses it.
        unsafe { c::huvm_wait(self.head.get(), Some(call::<F>), arg, jiffies(ns)) != 0 }
    }

    /// As [`Self::wait_timeout`], for a service thread with nothing to do: it does not count as load.
    pub(crate) fn wait_idle<F: FnMut() -> bool>(&self, ns: u64, mut cond: F) -> bool {
        let arg = core::ptr::from_mut(&mut cond).cast::<c_void>();
        // SAFETY: as `wait_timeout`.
        unsafe { c::huvm_wait_idle(self.head.get(), Some(call::<F>), arg, jiffies(ns)) != 0 }
    }

    /// As [`Self::wait_timeout`], but ends when the caller is killed.
    ///
    /// # Errors
    /// `EINTR` when killed before `cond` held.
    pub(crate) fn wait_killable<F: FnMut() -> bool>(&self, ns: u64, mut cond: F) -> Result<bool> {
        let arg = core::ptr::from_mut(&mut cond).cast::<c_void>();
        // SAFETY: as `wait_timeout`.
        let r =
            unsafe { c::huvm_wait_killable(self.head.get(), Some(call::<F>), arg, jiffies(ns)) };
        if r < 0 {
            return Err(EINTR);
        }
        Ok(r != 0)
    }

    /// As [`Self::wait_timeout`], but ends at any signal, or when the caller is to stop.
    ///
    /// # Errors
    /// `ERESTARTSYS` then, before `cond` held: for a call that begins anew as if it had not been made. The kernel does that, or makes it
    /// `EINTR` where a handler says so.
    pub(crate) fn wait_interruptible<F: FnMut() -> bool>(
        &self,
        ns: u64,
        mut cond: F,
    ) -> Result<bool> {
        let arg = core::ptr::from_mut(&mut cond).cast::<c_void>();
        // SAFETY: as `wait_timeout`.
        let r = unsafe {
            c::huvm_wait_interruptible(self.head.get(), Some(call::<F>), arg, jiffies(ns))
        };
        if r < 0 {
            return Err(ERESTARTSYS);
        }
        Ok(r != 0)
    }

    pub(super) fn raw(&self) -> *mut c::wait_queue_head {
        self.head.get()
    }
}
