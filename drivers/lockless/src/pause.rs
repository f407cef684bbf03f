// SPDX-License-Identifier: GPL-2.0
//! What many may ask for, and is done once in a while.

use crate::atomic::{Atomic, Relaxed};

/// It was never done.
const NEVER: u64 = 0;

/// When it was done last, by the callers' clock.
pub struct Pause(Atomic<u64>);

impl Pause {
    /// It was never done.
    pub const fn new() -> Self {
        Pause(Atomic::<u64>::new(NEVER))
    }

    /// Whether the caller is to do it, at `now`: nobody did for `pause`. Of those who ask at the same time one is.
    #[must_use]
    pub fn is_over(&self, now: u64, pause: u64) -> bool {
        let last = self.0.load(Relaxed);
        let is_soon = last != NEVER && now.saturating_sub(last) < pause;
        !is_soon && self.0.cmpxchg(last, now.max(1), Relaxed).is_ok()
    }
}

impl Default for Pause {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn once_in_a_while() {
        loom::model(|| {
            let p = Pause::new();
            let asked = [0, 9, 10, 11, 19, 20, 15].map(|now| p.is_over(now, 10));
            // The first at 0 counts as of 1.
            assert_eq!(asked, [true, false, false, true, false, false, false]);
            assert!(p.is_over(21, 10));
        });
    }

    #[test]
    fn by_one_of_those_who_ask_at_once() {
        loom::model(|| {
            let p = Arc::new(Pause::new());
            p.0.made();
            let other = {
                let p = p.clone();
                thread::spawn(move || p.is_over(100, 10))
            };
            let did = p.is_over(101, 10);
            assert!(did != other.join().unwrap());
        });
    }
}
