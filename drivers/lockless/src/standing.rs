// SPDX-License-Identifier: GPL-2.0
//! Whether a channel works, and what became of what it was doing.
//!
//! A channel *works*, until somebody gives it up, or it fails. Given up, it *leaves*: it takes nothing more, but nobody takes what it
//! did not end for failed yet. Then, or at once, it is *broken*. It never comes back from there.
//!
//! - What is complete is complete, whatever becomes of the channel afterwards. Who breaks it has seen it off its engine, or the
//!   last of it complete; so who sees it broken, and looks then at what is complete, sees the last of it. Who looks first at what is
//!   complete, and then whether it is broken, may take for failed what was complete in between.
//! - Who sees it broken sees what was done before it was broken: a GPU is lost, a page rescued.
//! - Who sees what is done to a channel that was given up (its semaphore is let go) sees, behind a barrier, that it was.

use crate::atomic::{Acquire, Atomic, Full};

/// It takes pushes.
const WORKS: u32 = 0;
/// It takes none, and it is not settled what has failed.
const LEAVES: u32 = 1;
/// What is not complete has failed.
const BROKEN: u32 = 2;

/// How a channel stands.
pub struct Standing(Atomic<u32>);

impl Standing {
    /// It works.
    pub const fn new() -> Self {
        Standing(Atomic::<u32>::new(WORKS))
    }

    /// Whether it takes pushes.
    #[inline]
    pub fn works(&self) -> bool {
        self.0.load(Acquire) == WORKS
    }

    /// Whether it was given up, and it is not yet settled what has failed by that.
    #[inline]
    pub fn leaves(&self) -> bool {
        self.0.load(Acquire) == LEAVES
    }

    /// Gives it up. `true`: it worked, and the caller is to break it, or to see that somebody does.
    #[must_use]
    pub fn give_up(&self) -> bool {
        self.0.cmpxchg(WORKS, LEAVES, Full).is_ok()
    }

    /// It is broken. What is complete by now stays so; what is not has failed.
    pub fn fail(&self) {
        // Not a store, which loom would let come before a `give_up` that it comes behind.
        let _was = self.0.xchg(BROKEN, Full);
    }

    /// What became of something that it does: `None` nothing yet, `Some(true)` it is complete, `Some(false)` it never will be.
    #[inline]
    pub fn judge(&self, is_complete: impl FnOnce() -> bool) -> Option<bool> {
        // Before what is complete is looked at.
        let broken = self.0.load(Acquire) == BROKEN;
        if is_complete() {
            return Some(true);
        }
        broken.then_some(false)
    }
}

impl Default for Standing {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{fence, AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A channel with one push.
    struct Lane {
        standing: Standing,
        /// Pushes that are over. Written by an engine, read by all.
        semaphore: AtomicU64,
        /// Pushes that were submitted.
        ring: Mutex<u64>,
        /// What a rescue, or who loses the GPU, does before the channel is broken.
        settled: AtomicU64,
        /// Somebody is about to submit something that a rescue has to find.
        sends: AtomicU64,
    }

    /// What a semaphore that is let go says.
    const LET_GO: u64 = 100;

    impl Lane {
        fn new() -> Arc<Self> {
            let lane = Lane {
                standing: Standing::new(),
                semaphore: AtomicU64::new(0),
                ring: Mutex::new(0),
                settled: AtomicU64::new(0),
                sends: AtomicU64::new(0),
            };
            lane.standing.0.made();
            Arc::new(lane)
        }

        fn poll(&self) -> Option<bool> {
            self.standing
                .judge(|| self.semaphore.load(Ordering::Relaxed) >= 1)
        }
    }

    fn with<R: 'static>(
        lane: &Arc<Lane>,
        f: impl FnOnce(&Lane) -> R + 'static,
    ) -> thread::JoinHandle<R> {
        let lane = lane.clone();
        thread::spawn(move || f(&lane))
    }

    #[test]
    fn what_is_complete_never_failed() {
        // As an unbind does: all that was submitted is waited for, then the channel is closed.
        loom::model(|| {
            let lane = Lane::new();
            let engine = with(&lane, |l| l.semaphore.store(1, Ordering::Relaxed));
            let looks = with(&lane, Lane::poll);
            if lane.poll() == Some(true) {
                lane.standing.fail();
                assert_ne!(
                    looks.join().unwrap(),
                    Some(false),
                    "a copy that is over failed"
                );
            } else {
                assert_ne!(looks.join().unwrap(), Some(false), "it was not broken");
            }
            engine.join().unwrap();
            assert_eq!(lane.poll(), Some(true));
        });
    }

    #[test]
    fn who_sees_it_broken_sees_what_was_settled() {
        loom::model(|| {
            let lane = Lane::new();
            let looks = with(&lane, |l| {
                if l.poll() == Some(false) {
                    assert_eq!(l.settled.load(Ordering::Relaxed), 1);
                    assert!(!l.standing.works() && !l.standing.leaves());
                }
            });
            assert!(lane.standing.give_up());
            lane.settled.store(1, Ordering::Relaxed);
            lane.standing.fail();
            assert_eq!(lane.poll(), Some(false));
            looks.join().unwrap();
        });
    }

    #[test]
    fn nothing_failed_while_it_leaves() {
        loom::model(|| {
            let lane = Lane::new();
            let looks = with(&lane, Lane::poll);
            assert!(lane.standing.give_up());
            assert_eq!(lane.poll(), None);
            assert_eq!(looks.join().unwrap(), None);
        });
    }

    #[test]
    fn given_up_once_and_broken_for_good() {
        loom::model(|| {
            let lane = Lane::new();
            let gives = [0, 1].map(|_| with(&lane, |l| l.standing.give_up()));
            lane.standing.fail();
            let gave = gives.map(|g| u32::from(g.join().unwrap()));
            assert!(gave.iter().sum::<u32>() <= 1);
            assert_eq!(
                lane.poll(),
                Some(false),
                "one that was given up late works again"
            );
            assert!(!lane.standing.give_up());
        });
    }

    #[test]
    fn given_up_by_one() {
        loom::model(|| {
            let lane = Lane::new();
            let gives = with(&lane, |l| l.standing.give_up());
            let gave = lane.standing.give_up();
            assert!(gave != gives.join().unwrap());
        });
    }

    #[test]
    fn who_finds_it_let_go_sees_that_it_was_given_up() {
        // Else a semaphore that the driver wrote counts as a lie of the GPU's, which is lost by that.
        loom::model(|| {
            let lane = Lane::new();
            let submits = with(&lane, |l| {
                if l.semaphore.load(Ordering::Relaxed) == LET_GO {
                    fence(Ordering::Acquire);
                    assert!(!l.standing.works());
                }
            });
            assert!(lane.standing.give_up());
            lane.semaphore.store(LET_GO, Ordering::Relaxed);
            submits.join().unwrap();
        });
    }

    #[test]
    fn nothing_is_submitted_behind_a_rescue() {
        // Who submits holds the ring; a rescue begins when it has had the ring once.
        loom::model(|| {
            let lane = Lane::new();
            let submits = with(&lane, |l| {
                l.sends.store(1, Ordering::Relaxed);
                let mut ring = l.ring.lock().unwrap();
                if l.standing.works() {
                    *ring += 1;
                }
            });
            assert!(lane.standing.give_up());
            let before = *lane.ring.lock().unwrap();
            let sent = lane.sends.load(Ordering::Relaxed);
            assert!(
                before == 0 || sent == 1,
                "a push that the rescue does not look for"
            );
            submits.join().unwrap();
            assert_eq!(*lane.ring.lock().unwrap(), before);
        });
    }
}
