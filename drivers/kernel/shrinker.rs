// SPDX-License-Identifier: GPL-2.0
//! Caches that give memory back when the machine runs short of it.

use super::ffi::c;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A cache of pages. Both functions run in memory reclaim: no allocation, and no lock that is held over one, but by trying.
pub(crate) trait Shrink: Send + Sync + 'static {
    /// Pages that it holds.
    fn pages(&self) -> usize;

    /// Frees about `pages` pages. Returns how many it were; `None` if that cannot be done now.
    fn shrink(&self, pages: usize) -> Option<usize>;
}

/// A cache that memory reclaim knows, until dropped.
pub(crate) struct Shrinker<T: Shrink> {
    raw: NonNull<c::shrinker>,
    cache: NonNull<T>,
    _owns: PhantomData<Arc<T>>,
}

/// The C side's "no progress can be made now" (`SHRINK_STOP`).
const STOP: usize = usize::MAX;
/// The C side's "there is nothing" (`SHRINK_EMPTY`).
const EMPTY: usize = usize::MAX - 1;

/// # Safety
/// For the kernel to call, with a shrinker that [`Shrinker::new`] made for a `T`.
unsafe extern "C" fn count<T: Shrink>(s: *mut c::shrinker, _sc: *mut c::shrink_control) -> usize {
    // SAFETY: `private_data` is a `T` that lives until `shrinker_free` has returned, which waits for this call.
    let cache = unsafe { &*(*s).private_data.cast::<T>() };
    match cache.pages() {
        0 => EMPTY,
        n => n,
    }
}

/// # Safety
/// As [`count`], with a valid request.
unsafe extern "C" fn scan<T: Shrink>(s: *mut c::shrinker, sc: *mut c::shrink_control) -> usize {
    // SAFETY: as in `count`; the request is the caller's own, valid for this call.
    let (cache, wanted) = unsafe { (&*(*s).private_data.cast::<T>(), (*sc).nr_to_scan) };
    match cache.shrink(wanted) {
        None => STOP,
        Some(done) => {
            // SAFETY: as above.
            unsafe { (*sc).nr_scanned = done.max(wanted) };
            done
        }
    }
}

impl<T: Shrink> Shrinker<T> {
    /// Tells memory reclaim of `cache`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr, cache: Arc<T>) -> Result<Self> {
        // SAFETY: a format and the one string that it wants.
        let raw = unsafe { c::shrinker_alloc(0, c"%s".as_char_ptr(), name.as_char_ptr()) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let cache = Arc::into_raw(cache);
        // SAFETY: allocated above and not registered, so nobody else uses it. What it points to outlives it (`drop`).
        unsafe {
            let s = raw.as_ptr();
            (*s).count_objects = Some(count::<T>);
            (*s).scan_objects = Some(scan::<T>);
            (*s).private_data = cache.cast_mut().cast();
            c::shrinker_register(s);
        }
        Ok(Shrinker {
            raw,
            // SAFETY: from an `Arc`, so not null.
            cache: unsafe { NonNull::new_unchecked(cache.cast_mut()) },
            _owns: PhantomData,
        })
    }
}

impl<T: Shrink> Drop for Shrinker<T> {
    fn drop(&mut self) {
        // SAFETY: registered by `new`; this waits for calls under way. Then nobody has the pointer, and the reference
        // that `new` took is ours to give back.
        unsafe {
            c::shrinker_free(self.raw.as_ptr());
            drop(Arc::from_raw(self.cache.as_ptr()));
        }
    }
}
