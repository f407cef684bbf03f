// SPDX-License-Identifier: GPL-2.0
//! How soon a chunk comes back once it was evicted, beside others: who makes way among those that
//! [`VictimOrder::Recent`](crate::evict::VictimOrder::Recent) keeps.
//!
//! Of what is kept of a cycle each chunk should be worth more than what passes by: the weights of a network are wanted three times in
//! a pass, its gradients twice, the optimiser's moments once. A driver sees no accesses, but whenever a chunk is away it sees how
//! many evictions pass until it is wanted. That, as a share of what is usual, is kept with the chunk while it is there, and with its
//! block while it is not: one byte, half of it of the last time. Of some chunks drawn by chance the one that comes back last makes way
//! for one that comes back sooner. (Victims drawn and compared by how often they are wanted, what comes against what is there: TinyLFU,
//! Einziger, Friedman and Manes, ACM ToS 2017. There accesses are counted; here there are none to count.)
//!
//! **The hard case** is a chunk that came back soon for a while, and is wanted no more, as the rows of a matrix that shrinks: nobody learns
//! of it. So what is known of a chunk grows old: for each cycle that it stays it is taken to come a 32nd later, until it is as usual. Besides,
//! one victim in 32 is the oldest whatever is known of it, and what comes back much sooner than usual sends the oldest away if nobody comes later.
//!
//! A cycle that is gone over in order has nothing to tell apart, and pays for what is learned by chance: up to 1.8 points of misses in
//! tests/evict_order.rs. Rejected there and on the chunks that each workload touches: to keep what came back twice within a bound instead of
//! comparing (too much is kept, and a stage of GNMT misses twice as often); the last distance alone (Zipf); to grow older than what is
//! usual (cycles lose), and faster (networks do).

/// As long as is usual.
const USUAL: u8 = 32;
/// Nobody takes longer.
const LONGEST: u8 = 4 * USUAL;
/// A chunk makes way for another one if it takes longer by more than one in so many: less is chance.
const MARGIN: u16 = 4;

/// Evictions that a chunk is away for, as a share of what is usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reuse(
    /// In parts of [`USUAL`]; 0: not known.
    u8,
);

impl Reuse {
    /// It never came back: taken for what is usual.
    pub const UNKNOWN: Self = Self(0);

    /// To be compared: the more the later.
    pub(crate) const fn word(self) -> u8 {
        match self.0 {
            0 => USUAL,
            known => known,
        }
    }

    /// It comes back after `distance` evictions, where `usual` are. Nothing is known of what is usual while that is 0.
    pub fn comes_back(self, distance: u64, usual: u64) -> Self {
        let share = distance.saturating_mul(USUAL.into());
        let Some(share) = share.checked_div(usual) else {
            return self;
        };
        let now = u8::try_from(share).unwrap_or(LONGEST).clamp(1, LONGEST);
        match self.0 {
            0 => Self(now),
            before => Self(before.midpoint(now).max(1)),
        }
    }

    /// The same of a chunk that stayed for so many cycles since: it grows old until it is as usual.
    pub fn after(self, cycles: u16) -> Self {
        let word = self.word();
        let cycles = u8::try_from(cycles).unwrap_or(u8::MAX);
        Self(word.max(word.saturating_add(cycles).min(USUAL)))
    }

    /// Whether it comes back so much later than `other` that it should make way for it.
    pub fn is_later_than(self, other: Self) -> bool {
        let more = u16::from(other.word()).saturating_mul(MARGIN + 1);
        u16::from(self.word()).saturating_mul(MARGIN) > more
    }

    /// Whether it is known to come back within so many percent of what is usual.
    pub fn is_within(self, percent: u32) -> bool {
        self.0 != 0 && u32::from(self.0).saturating_mul(100) < percent.saturating_mul(USUAL.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_word_is_of_the_last_time() {
        let mut r = Reuse::UNKNOWN;
        r = r.comes_back(100, 100);
        assert_eq!(r, Reuse(32));
        r = r.comes_back(50, 100);
        assert_eq!(r, Reuse(24));
        r = r.comes_back(0, 100);
        assert_eq!(r, Reuse(12));
        // As long as nobody knows what is usual nothing changes.
        assert_eq!(r.comes_back(5, 0), r);
        assert_eq!(Reuse::UNKNOWN.comes_back(5, 0), Reuse::UNKNOWN);
    }

    #[test]
    fn what_never_came_back_is_as_usual() {
        let usual = Reuse::UNKNOWN.comes_back(9, 9);
        let later = Reuse::UNKNOWN.comes_back(12, 9);
        let sooner = Reuse::UNKNOWN.comes_back(7, 9);
        assert!(!usual.is_later_than(Reuse::UNKNOWN) && !Reuse::UNKNOWN.is_later_than(usual));
        assert!(later.is_later_than(Reuse::UNKNOWN) && Reuse::UNKNOWN.is_later_than(sooner));
        assert!(!sooner.is_later_than(Reuse::UNKNOWN));
        // By a quarter or less says nothing.
        let hardly = Reuse::UNKNOWN.comes_back(11, 9);
        assert!(!hardly.is_later_than(usual));
    }

    #[test]
    fn what_is_known_grows_old() {
        let sooner = Reuse::UNKNOWN.comes_back(50, 100);
        let usual = Reuse::UNKNOWN.comes_back(100, 100);
        assert_eq!((sooner.after(0), usual.after(0)), (sooner, usual));
        assert_eq!(Reuse::UNKNOWN.after(5), usual.after(5));
        // By a 32nd of what is usual in each cycle, and no later than that.
        assert_eq!(sooner.after(1), Reuse(17));
        assert_eq!(
            [15, 16, 17, 255, 256, u16::MAX].map(|n| sooner.after(n).0),
            [31, 32, 32, 32, 32, 32]
        );
        assert_eq!(Reuse(LONGEST).after(u16::MAX), Reuse(LONGEST));
    }

    #[test]
    fn soon_is_within_a_part_of_what_is_usual() {
        let r = |d| Reuse::UNKNOWN.comes_back(d, 100);
        assert!(r(0).is_within(25) && r(24).is_within(25));
        assert!(!r(25).is_within(25) && !r(100).is_within(25));
        assert!(!r(0).is_within(0));
        assert!(!Reuse::UNKNOWN.is_within(100));
    }

    /// Catches a word that wraps, or becomes unknown again.
    #[test]
    fn the_numbers_at_their_ends_are_survived() {
        for (distance, usual) in [(u64::MAX, 1), (u64::MAX, u64::MAX), (0, 1), (0, u64::MAX)] {
            let mut r = Reuse::UNKNOWN;
            for _ in 0..20 {
                r = r.comes_back(distance, usual);
                assert!((1..=LONGEST).contains(&r.0));
            }
        }
        assert_eq!(Reuse::UNKNOWN.comes_back(u64::MAX, 1), Reuse(LONGEST));
        assert!(Reuse(LONGEST).is_later_than(Reuse(1)));
    }
}
