// SPDX-License-Identifier: GPL-2.0
//! The largest value that anybody has seen.

use crate::atomic::{Atomic, Relaxed};

/// The largest so far.
pub struct Peak(Atomic<u64>);

impl Peak {
    /// Nothing yet: 0.
    pub const fn new() -> Self {
        Peak(Atomic::<u64>::new(0))
    }

    /// Somebody saw a value.
    #[inline]
    pub fn raise(&self, value: u64) {
        let mut seen = self.0.load(Relaxed);
        // Ends: each turn that fails found a larger value.
        while seen < value {
            match self.0.cmpxchg(seen, value, Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    /// The largest.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Default for Peak {
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
    fn the_largest_stays() {
        loom::model(|| {
            let peak = Arc::new(Peak::new());
            peak.0.made();
            let other = {
                let peak = peak.clone();
                thread::spawn(move || {
                    peak.raise(1);
                    peak.raise(5);
                    assert_eq!(peak.get(), 5);
                })
            };
            for v in [4, 2] {
                peak.raise(v);
                assert!(peak.get() >= v);
            }
            other.join().unwrap();
            assert_eq!(peak.get(), 5);
        });
    }
}
