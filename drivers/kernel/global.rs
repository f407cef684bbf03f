// SPDX-License-Identifier: GPL-2.0
//! Values that the whole module has one of, each behind a mutex.

use super::ffi::c;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use kernel::types::NotThreadSafe;

/// The mutexes, one for each value so that lockdep can tell them apart. Two values may share one.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    /// The GPUs of the machine.
    Gpus,
    /// The channels of all GPUs.
    Channels,
    /// The spaces.
    Spaces,
    /// Pages that copy engines could not read. A leaf.
    Poison,
    /// Anything else, held for a moment.
    Other,
}

/// A static `T` behind a mutex. Never dropped: empty it when the module goes.
pub(crate) struct Global<T> {
    which: Which,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached under the mutex.
unsafe impl<T: Send> Sync for Global<T> {}

impl<T> Global<T> {
    /// For a `static`.
    pub(crate) const fn new(which: Which, value: T) -> Self {
        Global {
            which,
            value: UnsafeCell::new(value),
        }
    }

    fn mutex(&self) -> *mut c::mutex {
        match self.which {
            Which::Gpus => core::ptr::addr_of_mut!(c::huvm_lock_gpus),
            Which::Channels => core::ptr::addr_of_mut!(c::huvm_lock_channels),
            Which::Spaces => core::ptr::addr_of_mut!(c::huvm_lock_spaces),
            Which::Poison => core::ptr::addr_of_mut!(c::huvm_lock_poison),
            Which::Other => core::ptr::addr_of_mut!(c::huvm_lock_other),
        }
    }

    /// Takes the value alone. Sleeps; not to be nested with one of the same [`Which`].
    pub(crate) fn lock(&self) -> GlobalGuard<'_, T> {
        // SAFETY: a static mutex, initialised at compile time.
        unsafe { c::mutex_lock(self.mutex()) };
        GlobalGuard {
            global: self,
            _here: NotThreadSafe,
        }
    }
}

/// Exclusive access; ends when dropped.
#[must_use]
pub(crate) struct GlobalGuard<'a, T> {
    global: &'a Global<T>,
    _here: NotThreadSafe,
}

impl<T> Deref for GlobalGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mutex is held by this guard.
        unsafe { &*self.global.value.get() }
    }
}

impl<T> DerefMut for GlobalGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held by this guard, which is borrowed mutably.
        unsafe { &mut *self.global.value.get() }
    }
}

impl<T> Drop for GlobalGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: locked by `lock`, on this thread.
        unsafe { c::mutex_unlock(self.global.mutex()) }
    }
}
