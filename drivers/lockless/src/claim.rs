// SPDX-License-Identifier: GPL-2.0
//! What a device may say of how far it is.
//!
//! Pushes are numbered, and fewer than so many of them are not over. Who submits one says that it begins, then lets the device know of
//! it, which writes its number when it is over. Whoever reads that number, without a lock, looks whether it can be: no device that
//! does as told is beyond what began, nor so far behind. A look that finds what cannot be proves nothing, since pushes may
//! begin, and be over, between the two reads; so it is made again, with the reads in order: the number is no further than what has
//! begun by a later look, and no further behind than what had begun by an earlier one allows.

use crate::atomic::{Atomic, Relaxed, Release};

/// The last push that the device may know of.
pub struct Begun(Atomic<u32>);

/// What cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    /// What the device said.
    pub says: u32,
    /// What has begun.
    pub begun: u32,
}

/// Whether a device can be at `now` that was told of `last`, with fewer than `limit` not over.
const fn is_behind(now: u32, last: u32, limit: u32) -> bool {
    last.wrapping_sub(now) < limit
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

    /// How far the device is by `look`, with fewer than `limit` pushes not over. `barrier` keeps reads of memory in order.
    ///
    /// # Errors
    /// [`Lie`]: it says what cannot be.
    #[inline]
    pub fn read(&self, limit: u32, look: impl Fn() -> u32, barrier: impl Fn()) -> Result<u32, Lie> {
        let now = look();
        if is_behind(now, self.0.load(Relaxed), limit) {
            return Ok(now);
        }
        self.doubt(limit, look, barrier)
    }

    /// As [`Self::read`], for one that read what cannot be.
    #[cold]
    fn doubt(&self, limit: u32, look: impl Fn() -> u32, barrier: impl Fn()) -> Result<u32, Lie> {
        let before = self.0.load(Relaxed);
        barrier();
        let says = look();
        barrier();
        let begun = self.0.load(Relaxed);
        // Numbers wrap; those that can be are less than half of all apart.
        let is_reached = |a: u32, b: u32| a.wrapping_sub(b) < 1 << 31;
        let too_high = !is_reached(begun, says);
        let too_low = is_reached(before, says) && !is_behind(says, before, limit);
        if too_high || too_low {
            return Err(Lie { says, begun });
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
    use loom::sync::Arc;
    use loom::thread;

    /// Fewer than so many are not over.
    const LIMIT: u32 = 2;

    /// A channel, and its device, which ends a push when it hears of it.
    struct Channel {
        begun: Begun,
        semaphore: AtomicU32,
    }

    impl Channel {
        fn new() -> Arc<Self> {
            let begun = Begun::new();
            begun.0.made();
            Arc::new(Channel {
                begun,
                semaphore: AtomicU32::new(0),
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
            self.begun.read(
                LIMIT,
                || self.semaphore.load(Ordering::Relaxed),
                || fence(Ordering::Acquire),
            )
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
            for (says, begun, ok) in [
                (0, 0, true),
                (0, 1, true),
                (1, 0, false),
                (0, 2, false),
                (u32::MAX, 0, true),
                (0, u32::MAX, false),
                (1 << 31, 5, false),
            ] {
                let c = Channel::new();
                c.begun.begin(begun);
                c.semaphore.store(says, Ordering::Relaxed);
                let want = if ok {
                    Ok(says)
                } else {
                    Err(Lie { says, begun })
                };
                assert_eq!(c.look(), want);
            }
        });
    }
}
