// SPDX-License-Identifier: GPL-2.0
//! Something to do, said by anybody, heard by one thread.
//!
//! Whoever has something to do for a thread writes it down, then rings; the thread hears, then reads. What was written before a
//! ring is read after that ring is heard: also by one who rings a bell that was rung before, and wakes nobody. So a ring always
//! writes. To look first whether it is rung is cheaper and wrong: the look may pass what was written before, the thread may hear
//! the ring that was seen and read too early, and the thread sleeps with something to do.

use crate::atomic::{Atomic, Full, Relaxed};

/// A bell without its thread.
pub struct Bell(Atomic<bool>);

impl Bell {
    /// Not rung.
    pub const fn new() -> Self {
        Bell(Atomic::<bool>::new(false))
    }

    /// Rings. Whether the thread is to be woken: nobody has rung since it heard last.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> bool {
        !self.0.xchg(true, Full)
    }

    /// Whether it was rung: what the thread waits for.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The thread hears all that was rung until now, and then looks what there is to do.
    #[inline]
    pub fn hear(&self) {
        let _was = self.0.xchg(false, Full);
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A thread that sleeps until it is rung for, and what it is to do.
    struct Post {
        bell: Bell,
        asleep: Mutex<()>,
        wake: Condvar,
        work: [AtomicU64; 2],
    }

    impl Post {
        fn new() -> Self {
            let post = Post {
                bell: Bell::new(),
                asleep: Mutex::new(()),
                wake: Condvar::new(),
                work: [AtomicU64::new(0), AtomicU64::new(0)],
            };
            post.bell.0.made();
            post
        }

        fn ask(&self, what: usize) {
            self.work[what].store(1, Ordering::Relaxed);
            if self.bell.ring() {
                // As a wait queue has it: the condition is looked at under its lock, or after who wakes had it.
                drop(self.asleep.lock().unwrap());
                self.wake.notify_all();
            }
        }

        /// One round of the thread: how much of its work it has seen.
        fn serve(&self) -> u64 {
            let mut asleep = self.asleep.lock().unwrap();
            while !self.bell.is_rung() {
                asleep = self.wake.wait(asleep).unwrap();
            }
            drop(asleep);
            self.bell.hear();
            self.work.iter().map(|w| w.load(Ordering::Relaxed)).sum()
        }
    }

    #[test]
    fn no_ring_is_lost() {
        // A thread that sleeps for ever is a deadlock, which loom reports.
        loom::model(|| {
            let post = Arc::new(Post::new());
            let asks = {
                let post = post.clone();
                thread::spawn(move || {
                    post.ask(0);
                    post.ask(1);
                })
            };
            while post.serve() < 2 {}
            asks.join().unwrap();
        });
    }

    #[test]
    fn no_ring_is_lost_behind_another() {
        loom::model(|| {
            let post = Arc::new(Post::new());
            post.ask(0);
            let asks = {
                let post = post.clone();
                thread::spawn(move || post.ask(1))
            };
            while post.serve() < 2 {}
            asks.join().unwrap();
        });
    }
}
