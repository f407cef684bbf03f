// SPDX-License-Identifier: GPL-2.0
//! A value that was made after so many changes ([`crate::changes`]), in one word with their number: nobody takes a value for younger than
//! it is, whoever writes it when.

use crate::atomic::{Atomic, Relaxed};

/// Bits of a value.
pub const VALUE_BITS: u32 = 41;
const VALUES: u64 = (1 << VALUE_BITS) - 1;

/// A value and its date. A date is kept without its upper bits: after 2^23 changes in which nobody has asked, an old value counts as new.
pub struct Dated(Atomic<u64>);

impl Dated {
    /// Of no change that there was.
    pub const fn new() -> Self {
        Dated(Atomic::<u64>::new(u64::MAX))
    }

    /// The value after so many changes. What does not fit in [`VALUE_BITS`] becomes the largest that does.
    #[inline]
    pub fn put(&self, after: u64, value: u64) {
        self.0
            .store(after << VALUE_BITS | value.min(VALUES), Relaxed);
    }

    /// Takes on the date of another, with what `f` makes of that one's value.
    #[inline]
    pub fn follow(&self, of: &Dated, f: impl FnOnce(u64) -> u64) {
        let word = of.0.load(Relaxed);
        self.put(word >> VALUE_BITS, f(word & VALUES));
    }

    /// The value, if it is of this date.
    #[inline]
    pub fn get(&self, after: u64) -> Option<u64> {
        let word = self.0.load(Relaxed);
        let is_now = (word ^ after << VALUE_BITS) >> VALUE_BITS == 0;
        is_now.then_some(word & VALUES)
    }
}

impl Default for Dated {
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
    fn a_value_is_of_its_date() {
        loom::model(|| {
            let d = Dated::new();
            assert_eq!(d.get(0), None);
            d.put(0, 5);
            assert_eq!((d.get(0), d.get(1)), (Some(5), None));
            d.put(1, u64::MAX);
            assert_eq!((d.get(0), d.get(1)), (None, Some(VALUES)));
            d.put(u64::MAX, 0);
            assert_eq!((d.get(u64::MAX), d.get(1)), (Some(0), None));
        });
    }

    #[test]
    fn what_follows_is_of_the_same_date() {
        loom::model(|| {
            let (of, d) = (Dated::new(), Dated::new());
            d.follow(&of, |_| 1);
            assert_eq!((d.get(0), d.get(1)), (None, None));
            of.put(7, 20);
            d.follow(&of, |v| v + 1);
            assert_eq!((d.get(6), d.get(7), d.get(8)), (None, Some(21), None));
            of.put(8, 30);
            assert_eq!((d.get(7), d.get(8)), (Some(21), None));
        });
    }

    #[test]
    fn nobody_takes_a_value_for_younger() {
        loom::model(|| {
            let d = Arc::new(Dated::new());
            d.0.made();
            let late = [1, 2].map(|after| {
                let d = d.clone();
                thread::spawn(move || d.put(after, 10 * after))
            });
            for after in [1, 2, 1] {
                assert!(d.get(after).is_none_or(|v| v == 10 * after));
            }
            for l in late {
                l.join().unwrap();
            }
        });
    }
}
