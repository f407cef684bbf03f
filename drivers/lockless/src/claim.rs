// SPDX-License-Identifier: GPL-2.0
//! What a device may say of how far it is.
//!
//! Pushes are numbered, and fewer than so many of them are not over. Who submits one says that it begins, then lets the device know of
//! it, which writes its number when it is over. Whoever reads that number, without a lock, looks whether it can be: no device that
//! does as told is beyond what began, nor so far behind. A look that finds what cannot be proves nothing, since pushes may
//! begin, and be over, between the two reads; so it is made again, with the reads in order: the number is no further than what has
//! begun by a later look, and no further behind than what had begun by an earlier one allows.
//!
//! Nor does a number go back: readers take turns, and each knows what the one before it read. That needs no second look. A device whose
//! number swings would else seem to get on for ever.

use crate::atomic::{Atomic, Relaxed, Release};

/// The last push that the device may know of.
pub struct Begun(Atomic<u32>);

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    /// What the device said.
    pub says: u32,
    /// What it had said before.
    pub said: u32,
    /// What has begun.
    pub begun: u32,
}

/// Whether a device can be at `now` that was told of `last`, with fewer than `limit` not over.
const fn is_behind(now: u32, last: u32, limit: u32) -> bool {
    last.wrapping_sub(now) < limit
}

/// Whether who is at `a` is at `b` or beyond. Numbers wrap; those that can be are less than half of all apart.
const fn is_reached(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) < 1 << 31
}

impl Begun {
    /// Nothing has.
    pub const fn new() -> Self {
        Begun(Atomic::<u32>::new(0))
    }

    /// Push `number` begins. The device does not know of it yet; the caller has seen by the device's number that there is room.
    pub fn begin(&self, number: u32) {
        // Who sees it reads no number from before there was room.
        self.0.store(number, Release);
    }

    /// How far the device is by `look`, with fewer than `limit` pushes not over, and `said` what it was when it was looked at last: no
    /// two look at the same time. `barrier` keeps reads of memory in order.
    ///
    /// # Errors
    /// [`Lie`]: it says what cannot be.
    #[inline]
    pub fn read(
        &self,
        limit: u32,
        said: u32,
        look: impl Fn() -> u32,
        barrier: impl Fn(),
    ) -> Result<u32, Lie> {
        let now = look();
        let begun = self.0.load(Relaxed);
        if !is_reached(now, said) {
            return Err(Lie {
                says: now,
                said,
                begun,
            });
        }
        if is_behind(now, begun, limit) {
            return Ok(now);
        }
        self.doubt(limit, said, look, barrier)
    }

    /// As [`Self::read`], for one that read what cannot be.
    #[cold]
    fn doubt(
        &self,
        limit: u32,
        said: u32,
        look: impl Fn() -> u32,
        barrier: impl Fn(),
    ) -> Result<u32, Lie> {
        let before = self.0.load(Relaxed);
        barrier();
        let says = look();
        barrier();
        let begun = self.0.load(Relaxed);
        let too_high = !is_reached(begun, says);
        let too_low = is_reached(before, says) && !is_behind(says, before, limit);
        if too_high || too_low || !is_reached(says, said) {
            return Err(Lie { says, said, begun });
        }
        Ok(says)
    }
}

impl Default for Begun {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{fence, AtomicU32, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Fewer than so many are not over.
    const LIMIT: u32 = 2;

    /// A channel, and its device, which ends a push when it hears of it.
    struct Channel {
        begun: Begun,
        semaphore: AtomicU32,
        /// What it said last.
        said: Mutex<u32>,
    }

    impl Channel {
        fn new() -> Arc<Self> {
            let begun = Begun::new();
            begun.0.made();
            Arc::new(Channel {
                begun,
                semaphore: AtomicU32::new(0),
                said: Mutex::new(0),
            })
        }

        fn push(&self, n: u32) {
            // As the ring looks for room.
            if n.wrapping_sub(self.semaphore.load(Ordering::Relaxed)) > 1 {
                return;
            }
            self.begun.begin(n);
            // The doorbell, and the device.
            self.semaphore.store(n, Ordering::Release);
        }

        fn look(&self) -> Result<u32, Lie> {
            let mut said = self.said.lock().unwrap();
            let says = self.begun.read(
                LIMIT,
                *said,
                || self.semaphore.load(Ordering::Relaxed),
                || fence(Ordering::Acquire),
            )?;
            *said = says;
            Ok(says)
        }
    }

    #[test]
    fn nobody_who_does_as_told_lies() {
        loom::model(|| {
            let c = Channel::new();
            let looks = {
                let c = c.clone();
                thread::spawn(move || {
                    let said = c.look();
                    assert!(said.is_ok(), "{said:?}");
                })
            };
            for n in 1..=3 {
                c.push(n);
            }
            looks.join().unwrap();
            assert_eq!(c.look(), Ok(3));
        });
    }

    #[test]
    fn room_is_made_by_the_device() {
        // The device is a thread of its own: who submits the third has seen that the second is over, by a plain read.
        loom::model(|| {
            let c = Channel::new();
            c.push(1);
            let device = {
                let c = c.clone();
                thread::spawn(move || {
                    c.begun.begin(2);
                    c.semaphore.store(2, Ordering::Release);
                })
            };
            let submits = {
                let c = c.clone();
                thread::spawn(move || {
                    if c.semaphore.load(Ordering::Relaxed) == 2 {
                        c.begun.begin(3);
                    }
                })
            };
            let said = c.look();
            assert!(said.is_ok(), "{said:?}");
            device.join().unwrap();
            submits.join().unwrap();
        });
    }

    #[test]
    fn a_lie_is_found() {
        loom::model(|| {
            for (says, said, begun, ok) in [
                (0, 0, 0, true),
                (0, 0, 1, true),
                (1, 0, 0, false),
                (0, 0, 2, false),
                (u32::MAX, u32::MAX, 0, true),
                (u32::MAX, 0, 0, false),
                (0, u32::MAX, 0, true),
                (0, u32::MAX, u32::MAX, false),
                (5, 6, 6, false),
                (6, 6, 6, true),
                (1 << 31, 5, 5, false),
            ] {
                let c = Channel::new();
                c.begun.begin(begun);
                c.semaphore.store(says, Ordering::Relaxed);
                *c.said.lock().unwrap() = said;
                let want = if ok {
                    Ok(says)
                } else {
                    Err(Lie { says, said, begun })
                };
                assert_eq!(c.look(), want);
            }
        });
    }

    #[test]
    fn one_that_swings_is_found_with_its_first_step_back() {
        loom::model(|| {
            let c = Channel::new();
            c.begun.begin(5);
            for (says, ok) in [(4, true), (5, true), (4, false)] {
                c.semaphore.store(says, Ordering::Relaxed);
                assert_eq!(c.look().is_ok(), ok, "{says}");
            }
        });
    }

    #[test]
    fn what_one_has_read_nobody_reads_less_of() {
        loom::model(|| {
            let c = Channel::new();
            let looks = {
                let c = c.clone();
                thread::spawn(move || {
                    let said = [c.look(), c.look()];
                    assert!(matches!(said, [Ok(a), Ok(b)] if a <= b), "{said:?}");
                })
            };
            c.push(1);
            assert_eq!(c.look(), Ok(1));
            c.push(2);
            looks.join().unwrap();
            assert_eq!(c.look(), Ok(2));
        });
    }
}
