// SPDX-License-Identifier: GPL-2.0
//! How much the first fault of a block fetches: what the tree prefetcher finds dense, or all of the block.
//!
//! A fault costs more time than the pages that it brings, so what is wanted in full is cheaper fetched at once; of what is wanted here
//! and there all but a few pages would cross the link for nothing. Which of them a program does is asked of the blocks themselves, by a
//! duel as between the two insertion policies of a cache (Qureshi et al., ISCA'07: a few sets follow each, and the others the winner):
//! one in [`SAMPLE`] blocks comes by faults, whatever is known, and when half of it is there, or it leaves before, that is a vote.
//! One that is fetched whole tells nothing about what was wanted of it.
//!
//! One of these for each VA range on each GPU, as far as sixteen are enough: one array is gone over, another one touched here and there.

/// Of so many blocks one is tried by faults.
const SAMPLE: u8 = 8;
/// Votes that count, either way.
const SCORE_MAX: i8 = 16;
/// Ahead by so many votes, blocks are fetched whole again.
const WHOLE_AT: i8 = 8;

/// What the blocks of late said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Blocks of which half was wanted, less those of which less was.
    score: i8,
    /// They are fetched whole now.
    whole: bool,
    /// Blocks that came, modulo [`SAMPLE`].
    turn: u8,
}

impl Grain {
    /// Nothing is known: whole, as what comes first finds memory that nobody needs.
    pub const UNKNOWN: Self = Self {
        score: WHOLE_AT,
        whole: true,
        turn: 0,
    };

    /// A block comes by a fault. Whether it is to be fetched whole; if not, it is a sample.
    pub fn comes(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1) % SAMPLE;
        self.whole && self.turn != 0
    }

    /// A sample of which half is there by now (`filled`), or that leaves before that.
    pub fn vote(&mut self, filled: bool) {
        let one = if filled { 1 } else { -1 };
        self.score = self.score.saturating_add(one).clamp(-SCORE_MAX, SCORE_MAX);
        self.whole = match self.whole {
            true => self.score > 0,
            false => self.score >= WHOLE_AT,
        };
    }

    /// As a word, for who keeps it in one.
    pub const fn word(self) -> u32 {
        let [score] = self.score.to_le_bytes();
        // CAST: a bool is 0 or 1.
        u32::from_le_bytes([score, self.turn, self.whole as u8, 0])
    }

    /// Of such a word.
    pub fn of_word(word: u32) -> Self {
        let [score, turn, whole, _] = word.to_le_bytes();
        Self {
            score: i8::from_le_bytes([score]),
            whole: whole != 0,
            turn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks come, of which each is wanted by half at least if `dense`; how many of `n` are fetched whole.
    fn of(g: &mut Grain, n: u32, dense: impl Fn(u32) -> bool) -> u32 {
        let mut whole = 0;
        for i in 0..n {
            if g.comes() {
                whole += 1;
            } else {
                g.vote(dense(i));
            }
        }
        whole
    }

    #[test]
    fn what_is_wanted_in_full_is_fetched_whole_but_for_samples() {
        let mut g = Grain::UNKNOWN;
        assert_eq!(of(&mut g, 800, |_| true), 700);
    }

    /// Catches a vote that whole blocks have too: they would speak for themselves for ever.
    #[test]
    fn what_is_wanted_here_and_there_is_not_soon() {
        let mut g = Grain::UNKNOWN;
        // Eight samples of 64 blocks.
        assert_eq!(of(&mut g, 64, |_| false), 56);
        assert_eq!(of(&mut g, 1000, |_| false), 0);
        // The most that is remembered is made up for by so many, each seen, and eight more.
        assert_eq!(of(&mut g, 23, |_| true), 0);
        assert!(of(&mut g, 9, |_| true) > 0);
        // And the other way round, of which one in eight is seen.
        assert_eq!(of(&mut g, 800, |_| true), 700);
        assert_eq!(of(&mut g, 1000, |_| false), 16 * 7);
    }

    /// Catches a switch that goes to and fro.
    #[test]
    fn what_is_undecided_stays_as_it_is() {
        let mut g = Grain::UNKNOWN;
        of(&mut g, 100, |_| false);
        assert_eq!(of(&mut g, 1000, |i| i % 2 == 0), 0);
        of(&mut g, 100, |_| true);
        // One in eight is seen: i / 8 is even or odd.
        assert_eq!(of(&mut g, 800, |i| i / 8 % 2 == 0), 700);
    }

    #[test]
    fn a_word_holds_all_of_it() {
        let mut g = Grain::UNKNOWN;
        for i in 0..300u32 {
            assert_eq!(Grain::of_word(g.word()), g);
            if !g.comes() {
                g.vote(i % 100 < 50);
            }
        }
        assert_ne!(Grain::of_word(0xff), Grain::of_word(1));
    }
}
