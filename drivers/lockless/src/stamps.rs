// SPDX-License-Identifier: GPL-2.0
//! When the pushes of a channel began, for whoever sees that they are over.
//!
//! Pushes are numbered in the order in which they are submitted, by one thread at a time, and are over in that order. Each is counted by
//! one thread alone, whoever looks, without a lock, since an interrupt looks too. Only the last stamps are kept: one that was
//! overwritten by a later push is not counted.

use crate::atomic::{Acquire, Atomic, Relaxed, Release};

/// The last `N` stamps.
pub struct Stamps<const N: usize> {
    began: [Atomic<u64>; N],
    /// The last push that was submitted.
    submitted: Atomic<u64>,
    /// The last push that was counted.
    counted: Atomic<u64>,
}

impl<const N: usize> Stamps<N> {
    /// Nothing was pushed behind number `last`.
    pub const fn new(last: u64) -> Self {
        Stamps {
            began: [const { Atomic::<u64>::new(0) }; N],
            submitted: Atomic::<u64>::new(last),
            counted: Atomic::<u64>::new(last),
        }
    }

    /// The last push that was submitted.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Relaxed)
    }

    fn at(&self, push: u64) -> Option<&Atomic<u64>> {
        self.began.get(usize::try_from(push).ok()? % N)
    }

    /// The next push begins. One thread at a time, until [`Self::submit`]. Its number.
    pub fn begin(&self, stamp: u64) -> u64 {
        let next = self.submitted.load(Relaxed).wrapping_add(1);
        if let Some(at) = self.at(next) {
            // Who sees it sees that the one before was submitted.
            at.store(stamp, Release);
        }
        next
    }

    /// It was submitted, as number `push`.
    pub fn submit(&self, push: u64) {
        self.submitted.store(push, Relaxed);
    }

    /// Counts the next push, if that is over. `Some(None)`: its stamp is not known any more.
    pub fn count(&self, is_over: impl Fn(u64) -> bool) -> Option<Option<u64>> {
        // Bounded by the pushes that there are: each turn that fails found one more counted.
        loop {
            let counted = self.counted.load(Relaxed);
            let next = counted.wrapping_add(1);
            // Or somebody who saw more was here first.
            if !is_over(next) {
                return None;
            }
            // Before it is looked which push was the last: a stamp that is too young comes with that.
            let stamp = self.at(next).map_or(0, |s| s.load(Acquire));
            let last = self.submitted.load(Relaxed);
            if self.counted.cmpxchg(counted, next, Relaxed).is_err() {
                continue;
            }
            // The next push may be stamping already.
            let kept = last.wrapping_add(1).wrapping_sub(next) < N as u64;
            return Some(kept.then_some(stamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    /// A channel whose pushes are over when they are submitted.
    struct Channel {
        stamps: Stamps<2>,
        completed: AtomicU64,
        /// A bit for each push that was counted.
        counted: AtomicU64,
    }

    impl Channel {
        fn new() -> Arc<Self> {
            let stamps = Stamps::new(0);
            stamps.began.iter().for_each(Atomic::made);
            stamps.submitted.made();
            stamps.counted.made();
            Arc::new(Channel {
                stamps,
                completed: AtomicU64::new(0),
                counted: AtomicU64::new(0),
            })
        }

        /// A push's stamp is its number, times ten.
        fn push(&self, n: u64) {
            assert_eq!(self.stamps.begin(10 * n), n);
            self.completed.store(n, Ordering::Release);
            self.stamps.submit(n);
        }

        fn look(&self) {
            let over = self.completed.load(Ordering::Acquire);
            while let Some(stamp) = self.stamps.count(|n| n <= over) {
                let Some(stamp) = stamp else {
                    continue;
                };
                assert_eq!(stamp % 10, 0);
                let push = stamp / 10;
                assert!(push <= over, "a stamp of a push that is not over");
                let before = self.counted.fetch_or(1 << push, Ordering::Relaxed);
                assert_eq!(before >> push & 1, 0, "push {push} was counted twice");
            }
        }
    }

    #[test]
    fn counted_once_whoever_looks() {
        loom::model(|| {
            let c = Channel::new();
            c.push(1);
            let looks = [0, 1].map(|_| {
                let c = c.clone();
                thread::spawn(move || c.look())
            });
            c.look();
            for l in looks {
                l.join().unwrap();
            }
            assert_eq!(c.counted.load(Ordering::Relaxed), 1 << 1);
        });
    }

    #[test]
    fn a_stamp_is_of_its_push_or_not_counted() {
        loom::model(|| {
            let c = Channel::new();
            let looks = {
                let c = c.clone();
                thread::spawn(move || c.look())
            };
            for n in 1..=3 {
                c.push(n);
            }
            looks.join().unwrap();
            c.look();
        });
    }
}
