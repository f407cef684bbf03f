// SPDX-License-Identifier: GPL-2.0
//! Whether a block that comes back to a GPU is fetched whole.
//!
//! A chunk leaves as a whole, and what is wanted of it again comes back by faults: the tree prefetcher needs several to see that all
//! of it is, and a fault costs more time than the pages that it brings. So a block whose pages were wanted *at once* the last times,
//! half of them within [`AT_ONCE`] batches of its coming, is fetched whole by the first fault.
//!
//! **The hard case** is a block of which a few pages here and there are wanted, each time others, for as long as it stays: it fills up
//! as well, and to fetch it whole costs a copy for nothing each time. Hence the time that it takes to fill; and a block fetched whole
//! tells nothing about what was wanted of it, so that after some of those it has to fill up by faults again ([`Returns`]).
//!
//! Measured on evictions at 1.5 times the memory, of blocks that had come by faults: half was there within one batch of a stage of
//! GNMT's 77 %, of Zipf's accesses 2 %; at some time 93 % and 9 %. Rejected: what is there when it leaves, which what was fetched whole
//! fulfils for ever after (Zipf took 2.8 times as long).

/// Batches of faults, after the one that a block comes with, within which what is wanted at once has faulted.
const AT_ONCE: u64 = 1;
/// Times in a row that it has to be so before the next return is fetched whole.
const STREAK: u8 = 3;
/// Returns that are fetched whole before one that is not, at most: a power of two.
const TRUST_MAX: u8 = 16;

/// Whether so many pages are half of `all`, or more: then a block was wanted in full.
pub const fn is_half(pages: u32, all: u32) -> bool {
    pages >= all.div_ceil(2)
}

/// How a block came, this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// Ahead of faults, or for the first time, or it was fetched whole: what is wanted of it is not to be seen.
    Unseen,
    /// By faults, with this batch; less than half of it is there.
    Fills(u64),
    /// By faults, and half of it was there at once.
    AtOnce,
    /// By faults, and half of it was there later.
    Slowly,
}

/// What is known about the returns of one block to one GPU.
///
/// The first [`STREAK`] times that it fills at once tell nothing yet; then one return is fetched whole, and the next one has to fill up
/// by faults again. Whenever it does so at once twice as many are fetched whole, up to [`TRUST_MAX`]; when it does not all begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returns {
    stay: Stay,
    /// Stays at once in a row.
    streak: u8,
    /// Returns to be fetched whole that are still to come.
    left: u8,
}

impl Returns {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        stay: Stay::Unseen,
        streak: 0,
        left: 0,
    };

    /// It comes back by a fault of `batch`. Whether it is to be fetched whole, which it `may` be.
    pub fn comes(&mut self, batch: u64, may: bool) -> bool {
        if matches!(self.stay, Stay::Fills(_)) {
            // It was to come before, and did not.
            return false;
        }
        let whole = may && self.left != 0;
        self.left = self.left.saturating_sub(1);
        self.stay = if whole {
            Stay::Unseen
        } else {
            Stay::Fills(batch)
        };
        whole
    }

    /// It comes for the first time, or after it went without being evicted: by itself that tells nothing, nor does what was seen of it
    /// until then.
    pub fn begins_anew(&mut self) {
        self.stay = Stay::Unseen;
    }

    /// With `batch` it has `pages` of the `all` that it may have.
    pub fn has(&mut self, batch: u64, pages: u32, all: u32) {
        let Stay::Fills(since) = self.stay else {
            return;
        };
        if !is_half(pages, all) {
            return;
        }
        self.stay = if batch.saturating_sub(since) <= AT_ONCE {
            Stay::AtOnce
        } else {
            Stay::Slowly
        };
    }

    /// All of it is fetched for another reason: what would have been wanted of it is not to be seen.
    pub fn is_unseen(&mut self) {
        if matches!(self.stay, Stay::Fills(_)) {
            self.stay = Stay::Unseen;
        }
    }

    /// It leaves.
    pub fn leaves(&mut self) {
        match core::mem::replace(&mut self.stay, Stay::Unseen) {
            Stay::Unseen => {}
            Stay::AtOnce => {
                self.streak = self.streak.saturating_add(1);
                let more = self.streak.checked_sub(STREAK);
                self.left = more.map_or(0, |n| 1 << u32::from(n).min(TRUST_MAX.trailing_zeros()));
            }
            Stay::Fills(_) | Stay::Slowly => (self.streak, self.left) = (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Comes with batch `at`, fills up `after` batches later (`None`: never), leaves. Whether it was fetched whole.
    fn stays(r: &mut Returns, at: u64, after: Option<u64>) -> bool {
        let whole = r.comes(at, true);
        r.has(at, 1, 512);
        if let Some(after) = after {
            r.has(at + after, 255, 512);
            r.has(at + after, 256, 512);
            r.has(at + after + 1000, 512, 512);
        }
        r.leaves();
        whole
    }

    #[test]
    fn what_fills_at_once_is_fetched_whole_more_and_more_often() {
        let mut r = Returns::UNKNOWN;
        let by_fault: std::vec::Vec<u64> = (0..100)
            .filter(|i| !stays(&mut r, 10 * i, Some(AT_ONCE)))
            .collect();
        // Three that tell, then 1, 2, 4, 8, 16, 16, … between two that do.
        assert_eq!(by_fault, [0, 1, 2, 4, 7, 12, 21, 38, 55, 72, 89]);
    }

    #[test]
    fn what_fills_later_never_is() {
        let mut r = Returns::UNKNOWN;
        for i in 0..100 {
            assert!(!stays(&mut r, 10 * i, Some(AT_ONCE + 1)));
            assert!(!stays(&mut r, 10 * i, None));
        }
    }

    #[test]
    fn one_that_fills_later_ends_it() {
        let mut r = Returns::UNKNOWN;
        for i in 0..7 {
            stays(&mut r, i, Some(0));
        }
        // Two whole ones in a row, then by faults, and slowly.
        assert!(!stays(&mut r, 100, None));
        assert_eq!(r, Returns::UNKNOWN);
        for i in 2..5 {
            assert!(!stays(&mut r, 100 * i, Some(0)));
        }
        assert!(stays(&mut r, 500, None));
    }

    #[test]
    fn who_comes_unasked_or_for_the_first_time_tells_nothing() {
        let mut r = Returns::UNKNOWN;
        stays(&mut r, 0, Some(0));
        let before = r;
        // Ahead of faults: nobody says that it comes.
        r.has(5, 512, 512);
        r.leaves();
        assert_eq!(r, before);
    }

    #[test]
    fn what_a_stream_fetches_tells_nothing() {
        let mut r = Returns::UNKNOWN;
        stays(&mut r, 0, Some(0));
        stays(&mut r, 1, Some(0));
        let before = r;
        r.comes(5, true);
        r.is_unseen();
        r.has(5, 512, 512);
        r.leaves();
        assert_eq!(r, before);
        // But not what was seen before it came.
        r.comes(6, true);
        r.has(6, 256, 512);
        r.is_unseen();
        r.leaves();
        assert!(r.comes(7, true));
    }

    #[test]
    fn a_return_that_failed_is_tried_by_faults_and_counted_from_the_first() {
        let mut r = Returns::UNKNOWN;
        for i in 0..3 {
            stays(&mut r, i, Some(0));
        }
        let mut again = r;
        // Whole, and to be asked for again: by faults now, which tell.
        assert!(again.comes(10, true));
        assert!(!again.comes(11, true) && !again.comes(20, true));
        again.has(20, 512, 512);
        again.leaves();
        assert_eq!(again, Returns::UNKNOWN);
    }

    #[test]
    fn what_went_otherwise_tells_nothing() {
        let mut r = Returns::UNKNOWN;
        for i in 0..2 {
            stays(&mut r, i, Some(0));
        }
        let before = r;
        r.comes(10, true);
        r.has(10, 256, 512);
        // The CPU took it home; then it comes slowly, and is evicted.
        r.begins_anew();
        r.has(50, 512, 512);
        r.leaves();
        assert_eq!(r, before);
    }

    #[test]
    fn where_it_may_not_be_it_is_not_and_goes_on_being_watched() {
        let mut r = Returns::UNKNOWN;
        for i in 0..9 {
            assert!(!r.comes(i, false));
            r.has(i, 256, 512);
            r.leaves();
        }
        assert!(r.comes(9, true));
    }

    #[test]
    fn half_of_an_odd_block_is_rounded_up() {
        for (pages, whole) in [(1, false), (2, true)] {
            let mut r = Returns::UNKNOWN;
            for i in 0..3 {
                r.comes(i, true);
                r.has(i, pages, 3);
                r.leaves();
            }
            assert_eq!(r.comes(9, true), whole);
        }
    }

    proptest! {
        #[test]
        fn no_more_than_the_most_are_whole_in_a_row(fills in proptest::collection::vec(proptest::option::of(0u64..4), 1..400)) {
            let mut r = Returns::UNKNOWN;
            let (mut row, mut seen) = (0u32, 0u32);
            for (i, f) in (0u64..).zip(fills) {
                if stays(&mut r, i * 7, f) {
                    row += 1;
                    prop_assert!(row <= TRUST_MAX.into() && seen >= STREAK.into());
                } else {
                    row = 0;
                    seen = match f {
                        Some(n) if n <= AT_ONCE => seen + 1,
                        _ => 0,
                    };
                }
            }
        }
    }
}
