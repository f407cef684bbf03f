// SPDX-License-Identifier: GPL-2.0
//! Reader-writer semaphore: many readers or one writer, both may sleep.

use super::ffi::c;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::{NotThreadSafe, Opaque};

/// Makes a [`RwSem`] initialiser with a lock class of its own: `new_rwsem!(value, "name")`.
macro_rules! new_rwsem {
    ($value:expr, $name:literal) => {
        $crate::kernel::rwsem::RwSem::new(
            $value,
            ::kernel::c_str!($name),
            ::kernel::sync::static_lock_class!(),
        )
    };
}
pub(crate) use new_rwsem;

/// `T` behind a reader-writer semaphore.
#[pin_data]
pub(crate) struct RwSem<T> {
    #[pin]
    sem: Opaque<c::rw_semaphore>,
    value: UnsafeCell<T>,
}

// SAFETY: the semaphore may be used from any thread, and `T` may be sent.
unsafe impl<T: Send> Send for RwSem<T> {}
// SAFETY: readers share `&T` (`T: Sync`), a writer has `&mut T` (`T: Send`).
unsafe impl<T: Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// See [`new_rwsem!`].
    pub(crate) fn new(
        value: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            sem <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid memory for a semaphore; name and key are static.
                unsafe { c::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr()) }
            }),
            value: UnsafeCell::new(value),
        })
    }

    /// Shares the value. Sleeps while a writer has it; a waiting writer goes first, so do not nest.
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: initialised and pinned.
        unsafe { c::down_read(self.sem.get()) };
        ReadGuard {
            lock: self,
            _here: NotThreadSafe,
        }
    }

    /// Takes the value alone.
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: initialised and pinned.
        unsafe { c::down_write(self.sem.get()) };
        WriteGuard {
            lock: self,
            _here: NotThreadSafe,
        }
    }
}

/// Shared access; ends when dropped.
#[must_use]
pub(crate) struct ReadGuard<'a, T> {
    lock: &'a RwSem<T>,
    _here: NotThreadSafe,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the semaphore is held for reading, so no `&mut T` exists.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard holds it for reading.
        unsafe { c::up_read(self.lock.sem.get()) }
    }
}

/// Exclusive access; ends when dropped.
#[must_use]
pub(crate) struct WriteGuard<'a, T> {
    lock: &'a RwSem<T>,
    _here: NotThreadSafe,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the semaphore is held for writing, by this guard alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard holds it for writing.
        unsafe { c::up_write(self.lock.sem.get()) }
    }
}
