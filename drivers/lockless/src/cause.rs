// SPDX-License-Identifier: GPL-2.0
//! Why something is over for good: said once, by whoever comes first.
//!
//! Who says it has done before what others rely on once they know; who knows finds that done.

use crate::atomic::{Acquire, Atomic, Full};

/// It is not over.
const NONE: u64 = 0;

/// Why it is over.
pub struct Cause(Atomic<u64>);

impl Cause {
    /// It is not over.
    pub const fn new() -> Self {
        Cause(Atomic::<u64>::new(NONE))
    }

    /// It is over, because of `why`, which is not 0. `true`: nobody has said so before.
    #[must_use]
    pub fn declare(&self, why: u64) -> bool {
        self.0.cmpxchg(NONE, why, Full).is_ok()
    }

    /// Whether it is over.
    #[inline]
    pub fn is_declared(&self) -> bool {
        self.why() != NONE
    }

    /// Why it is over; 0: it is not.
    #[inline]
    pub fn why(&self) -> u64 {
        self.0.load(Acquire)
    }
}

impl Default for Cause {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    /// A GPU that is kept from memory, then lost.
    struct Gpu {
        lost: Cause,
        cut_off: AtomicU64,
    }

    impl Gpu {
        fn new() -> Arc<Self> {
            let gpu = Gpu {
                lost: Cause::new(),
                cut_off: AtomicU64::new(0),
            };
            gpu.lost.0.made();
            Arc::new(gpu)
        }

        fn lose(&self, why: u64) -> bool {
            self.cut_off.store(1, Ordering::Relaxed);
            self.lost.declare(why)
        }
    }

    #[test]
    fn who_knows_finds_done_what_came_before() {
        loom::model(|| {
            let gpu = Gpu::new();
            let looks = {
                let gpu = gpu.clone();
                thread::spawn(move || {
                    if gpu.lost.is_declared() {
                        assert_eq!(gpu.cut_off.load(Ordering::Relaxed), 1);
                        assert_eq!(gpu.lost.why(), 7);
                    }
                })
            };
            assert!(gpu.lose(7));
            looks.join().unwrap();
        });
    }

    #[test]
    fn the_first_says_why() {
        loom::model(|| {
            let gpu = Gpu::new();
            let other = {
                let gpu = gpu.clone();
                thread::spawn(move || gpu.lose(8))
            };
            let first = gpu.lose(7);
            assert_eq!(gpu.lost.why(), if first { 7 } else { 8 });
            assert!(first != other.join().unwrap());
        });
    }
}
