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
//!
//! The device's number has 32 bits, and wraps; the driver's has 64, since what was to be over may be asked for days later. As no reader
//! misses as many as half of the 32 bits can say, what was read before says which of the numbers is meant.

use crate::atomic::{Atomic, Relaxed, Release};

/// The last push that the device may know of.
pub struct Begun(Atomic<u64>);

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    /// What the device said.
    pub says: u32,
    /// What it had said before.
    pub said: u64,
    /// What has begun.
    pub begun: u64,
}

/// Whether a device can be at `now` that was told of `last`, with fewer than `limit` not over.
const fn is_behind(now: u64, last: u64, limit: u32) -> bool {
    match last.checked_sub(now) {
        Some(pending) => pending < limit as u64,
        None => false,
    }
}

/// The number that a device means which `says` so many of its bits, and was at `said` before. `None`: it went back.
const fn meant(says: u32, said: u64) -> Option<u64> {
    // CAST: the bits that the device has.
    let further = says.wrapping_sub(said as u32);
    if further < 1 << 31 {
        said.checked_add(further as u64)
    } else {
        None
    }
}

impl Begun {
    /// Nothing has behind number `last`.
    pub const fn new(last: u64) -> Self {
        Begun(Atomic::<u64>::new(last))
    }

    /// Push `number` begins. The device does not know of it yet; the caller has seen by the device's number that there is room.
    pub fn begin(&self, number: u64) {
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
        said: u64,
        look: impl Fn() -> u32,
        barrier: impl Fn(),
    ) -> Result<u64, Lie> {
        let says = look();
        let begun = self.0.load(Relaxed);
        match meant(says, said) {
            None => Err(Lie { says, said, begun }),
            Some(now) if is_behind(now, begun, limit) => Ok(now),
            Some(_) => self.doubt(limit, said, look, barrier),
        }
    }

    /// As [`Self::read`], for one that read what cannot be.
    #[cold]
    fn doubt(
        &self,
        limit: u32,
        said: u64,
        look: impl Fn() -> u32,
        barrier: impl Fn(),
    ) -> Result<u64, Lie> {
        let before = self.0.load(Relaxed);
        barrier();
        let says = look();
        barrier();
        let begun = self.0.load(Relaxed);
        let can_be = |now: &u64| {
            let too_low = *now <= before && !is_behind(*now, before, limit);
            *now <= begun && !too_low
        };
        let now = meant(says, said).filter(can_be);
        now.ok_or(Lie { says, said, begun })
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
        said: Mutex<u64>,
    }

    /// Two pushes before the device's number wraps.
    const START: u64 = (1 << 32) - 2;

    impl Channel {
        fn new() -> Arc<Self> {
            let begun = Begun::new(START);
            begun.0.made();
            Arc::new(Channel {
                begun,
                semaphore: AtomicU32::new(START as u32),
                said: Mutex::new(START),
            })
        }

        /// The `n`-th push.
        fn push(&self, n: u64) {
            let n = START + n;
            // As the ring looks for room.
            if (n as u32).wrapping_sub(self.semaphore.load(Ordering::Relaxed)) > 1 {
                return;
            }
            self.begun.begin(n);
            // The doorbell, and the device.
            self.semaphore.store(n as u32, Ordering::Release);
        }

        fn look(&self) -> Result<u64, Lie> {
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
            assert_eq!(c.look(), Ok(START + 3));
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
                    c.begun.begin(START + 2);
                    c.semaphore.store(0, Ordering::Release);
                })
            };
            let submits = {
                let c = c.clone();
                thread::spawn(move || {
                    if c.semaphore.load(Ordering::Relaxed) == 0 {
                        c.begun.begin(START + 3);
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
            let wraps = 1 << 32;
            for (says, said, begun, want) in [
                (0, 0, 0, Some(0)),
                (0, 0, 1, Some(0)),
                (1, 0, 0, None),
                (0, 0, 2, None),
                (u32::MAX, wraps - 1, wraps, Some(wraps - 1)),
                (u32::MAX, wraps, wraps, None),
                (0, wraps - 1, wraps, Some(wraps)),
                (0, wraps - 1, wraps - 1, None),
                (1, 5 * wraps, 5 * wraps + 1, Some(5 * wraps + 1)),
                (5, 6, 6, None),
                (6, 6, 6, Some(6)),
                (1 << 31, 5, 5, None),
            ] {
                let c = Channel::new();
                c.begun.begin(begun);
                c.semaphore.store(says, Ordering::Relaxed);
                *c.said.lock().unwrap() = said;
                assert_eq!(c.look(), want.ok_or(Lie { says, said, begun }));
            }
        });
    }

    #[test]
    fn one_that_swings_is_found_with_its_first_step_back() {
        loom::model(|| {
            let c = Channel::new();
            c.begun.begin(START + 3);
            for (says, ok) in [(0, true), (1, true), (0, false)] {
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
            assert_eq!(c.look(), Ok(START + 1));
            c.push(2);
            looks.join().unwrap();
            assert_eq!(c.look(), Ok(START + 2));
        });
    }
}
