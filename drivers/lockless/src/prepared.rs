// SPDX-License-Identifier: GPL-2.0
//! What was prepared last, so that who needs the same takes no lock.
//!
//! Places are prepared one at a time, under a lock, and stay so. Who finds that a place is the last that was prepared goes on with it
//! at once, without the lock; so that is said when nothing is left to be done. Who does not find that takes the lock, and may find
//! the place half prepared by somebody else: made, but not yet told to whoever knows it as missing. So the lock is held until
//! all of it is done.

use crate::atomic::{Acquire, Atomic, Release};

/// No place.
const NONE: u64 = u64::MAX;

/// The place that was prepared last.
pub struct Prepared(Atomic<u64>);

impl Prepared {
    /// None.
    pub const fn new() -> Self {
        Prepared(Atomic::<u64>::new(NONE))
    }

    /// Prepares place `at`, which is not `u64::MAX`, unless it was the last: under `lock`, `make` makes what is missing, and `tell` tells
    /// of what that was. Once this returns `Ok` the place is made and told, whoever did it.
    ///
    /// # Errors
    /// What `tell` gives; the next one tries again.
    #[inline]
    pub fn prepare<L, T, E>(
        &self,
        at: u64,
        lock: impl FnOnce() -> L,
        make: impl FnOnce(&mut L) -> T,
        tell: impl FnOnce(T) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.0.load(Acquire) == at {
            return Ok(());
        }
        let mut locked = lock();
        // Still under the lock: who comes next finds nothing missing, and tells of nothing.
        tell(make(&mut locked))?;
        self.0.store(at, Release);
        drop(locked);
        Ok(())
    }
}

impl Default for Prepared {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Page directories, and what a GPU knows of them, as in `memory/gpu_space.rs`.
    struct Tables {
        prepared: Prepared,
        /// Bits of the places that have a directory.
        made: Mutex<u64>,
        /// Bits of the places that the GPU does not know as missing any more.
        told: AtomicU64,
    }

    impl Tables {
        fn new() -> Arc<Self> {
            let tables = Tables {
                prepared: Prepared::new(),
                made: Mutex::new(0),
                told: AtomicU64::new(0),
            };
            tables.prepared.0.made();
            Arc::new(tables)
        }

        /// Maps something at a place, which the GPU then has to see. Without memory (`fails`) behind the first directory.
        fn map(&self, at: u64, fails: bool) {
            let bit = 1 << at;
            let did = self.prepared.prepare(
                at,
                || self.made.lock().unwrap(),
                |made| {
                    let missing = bit & !**made;
                    **made |= bit;
                    missing
                },
                |made| {
                    self.told.fetch_or(made, Ordering::Relaxed);
                    if fails {
                        Err(())
                    } else {
                        Ok(())
                    }
                },
            );
            if did.is_ok() {
                let told = self.told.load(Ordering::Relaxed);
                assert!(told & bit != 0, "the GPU knows it as missing");
            }
        }
    }

    #[test]
    fn what_is_prepared_is_known() {
        loom::model(|| {
            let t = Tables::new();
            let other = {
                let t = t.clone();
                thread::spawn(move || t.map(3, false))
            };
            t.map(3, false);
            other.join().unwrap();
        });
    }

    #[test]
    fn what_was_prepared_before_is_known() {
        loom::model(|| {
            let t = Tables::new();
            let other = {
                let t = t.clone();
                thread::spawn(move || {
                    t.map(4, false);
                    t.map(3, false);
                })
            };
            t.map(3, false);
            t.map(4, false);
            other.join().unwrap();
        });
    }

    #[test]
    fn what_failed_is_tried_again() {
        loom::model(|| {
            let t = Tables::new();
            let other = {
                let t = t.clone();
                thread::spawn(move || t.map(3, true))
            };
            t.map(3, false);
            other.join().unwrap();
        });
    }
}
