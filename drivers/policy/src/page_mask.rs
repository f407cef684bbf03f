// SPDX-License-Identifier: GPL-2.0
//! A set of pages of one block: 512 bits in eight words.
//!
//! The hot structure of the driver: who has which page, which are dirty, mapped, faulted, wanted is all said in masks.
//! Every operation works on whole words, none on single bits in a loop, and none can fail: pages and ranges that do
//! not exist cannot be named, or are cut off.

use crate::types::{PageIndex, PageRegion, Pages, PAGES_PER_BLOCK};

/// Bits of a word.
const WORD_BITS: u16 = 64;
/// Words of a mask.
const WORDS: usize = 8;

/// The first page of each word.
const WORD_BASES: [u16; WORDS] = [0, 64, 128, 192, 256, 320, 384, 448];

/// A set of the 512 pages of a block. Page `i` is bit `i % 64` of word `i / 64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageMask([u64; WORDS]);

/// The lowest `n` bits; all of them from 64 on.
const fn low_bits(n: u16) -> u64 {
    if n >= WORD_BITS {
        u64::MAX
    } else {
        // `n` is below 64: neither the shift nor the subtraction overflows.
        (1 << n) - 1
    }
}

/// The bits of word `word` that belong to pages `start .. end`.
const fn word_of_region(start: u16, end: u16, word: u16) -> u64 {
    let base = word.saturating_mul(WORD_BITS);
    low_bits(end.saturating_sub(base)) & !low_bits(start.saturating_sub(base))
}

/// The word and the bit of a page.
const fn place(page: PageIndex) -> (usize, u64) {
    // CAST: widening. 511 / 64 is 7, a valid subscript.
    (
        (page.get() / WORD_BITS) as usize,
        1 << (page.get() % WORD_BITS),
    )
}

impl PageMask {
    /// No page.
    pub const EMPTY: Self = Self([0; WORDS]);
    /// Every page of the block.
    pub const FULL: Self = Self([u64::MAX; WORDS]);

    /// No page.
    #[inline]
    pub const fn empty() -> Self {
        Self::EMPTY
    }

    /// Every page of the block.
    #[inline]
    pub const fn full() -> Self {
        Self::FULL
    }

    /// The pages whose bits are set: page `i` is bit `i % 64` of word `i / 64`.
    #[inline]
    pub const fn from_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }

    /// The words: page `i` is bit `i % 64` of word `i / 64`.
    #[inline]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// `len` pages from `start` on; what reaches past the end of the block is cut off.
    #[inline]
    pub const fn from_range(start: PageIndex, len: Pages) -> Self {
        Self::from_region(PageRegion::new(start, len))
    }

    /// The pages of a region.
    pub const fn from_region(region: PageRegion) -> Self {
        let (s, e) = (region.start(), region.end());
        Self([
            word_of_region(s, e, 0),
            word_of_region(s, e, 1),
            word_of_region(s, e, 2),
            word_of_region(s, e, 3),
            word_of_region(s, e, 4),
            word_of_region(s, e, 5),
            word_of_region(s, e, 6),
            word_of_region(s, e, 7),
        ])
    }

    /// One page.
    pub const fn from_page(page: PageIndex) -> Self {
        Self::from_range(page, Pages(1))
    }

    /// Adds a page.
    #[inline]
    pub fn set(&mut self, page: PageIndex) {
        let (word, bit) = place(page);
        if let Some(w) = self.0.get_mut(word) {
            *w |= bit;
        }
    }

    /// Removes a page.
    #[inline]
    pub fn clear(&mut self, page: PageIndex) {
        let (word, bit) = place(page);
        if let Some(w) = self.0.get_mut(word) {
            *w &= !bit;
        }
    }

    /// True if the page is in the set.
    #[inline]
    pub fn test(&self, page: PageIndex) -> bool {
        let (word, bit) = place(page);
        self.0.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Adds the pages of a region.
    #[inline]
    pub fn set_region(&mut self, region: PageRegion) {
        *self = self.or(&Self::from_region(region));
    }

    /// Removes the pages of a region.
    #[inline]
    pub fn clear_region(&mut self, region: PageRegion) {
        *self = self.and_not(&Self::from_region(region));
    }

    /// Pages in both sets.
    #[inline]
    #[must_use]
    pub const fn and(&self, other: &Self) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.0;
        let [b0, b1, b2, b3, b4, b5, b6, b7] = other.0;
        Self([
            a0 & b0,
            a1 & b1,
            a2 & b2,
            a3 & b3,
            a4 & b4,
            a5 & b5,
            a6 & b6,
            a7 & b7,
        ])
    }

    /// Pages in either set.
    #[inline]
    #[must_use]
    pub const fn or(&self, other: &Self) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.0;
        let [b0, b1, b2, b3, b4, b5, b6, b7] = other.0;
        Self([
            a0 | b0,
            a1 | b1,
            a2 | b2,
            a3 | b3,
            a4 | b4,
            a5 | b5,
            a6 | b6,
            a7 | b7,
        ])
    }

    /// Pages of this set that are not in `other`.
    #[inline]
    #[must_use]
    pub const fn and_not(&self, other: &Self) -> Self {
        self.and(&other.not())
    }

    /// Pages of the block that are not in the set.
    #[inline]
    #[must_use]
    pub const fn not(&self) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.0;
        Self([!a0, !a1, !a2, !a3, !a4, !a5, !a6, !a7])
    }

    /// Number of pages in the set.
    #[inline]
    pub const fn count(&self) -> Pages {
        let [a, b, c, d, e, f, g, h] = self.0;
        // At most 8 * 64: no overflow.
        Pages(
            a.count_ones()
                + b.count_ones()
                + c.count_ones()
                + d.count_ones()
                + e.count_ones()
                + f.count_ones()
                + g.count_ones()
                + h.count_ones(),
        )
    }

    /// Number of pages of the set that lie in `region`.
    pub fn count_in(&self, region: PageRegion) -> Pages {
        let (start, end) = (region.start(), region.end());
        // CAST: widening.
        let (first, last) = (
            (start / WORD_BITS) as usize,
            end.div_ceil(WORD_BITS) as usize,
        );
        let words = WORD_BASES.iter().zip(&self.0).take(last).skip(first);
        Pages(
            words
                .map(|(base, word)| {
                    let head = low_bits(start.saturating_sub(*base));
                    let tail = low_bits(end.saturating_sub(*base));
                    (word & tail & !head).count_ones()
                })
                .sum(),
        )
    }

    /// True without pages.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        let [a, b, c, d, e, f, g, h] = self.0;
        (a | b | c | d | e | f | g | h) == 0
    }

    /// True with all 512 pages.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.not().is_empty()
    }

    /// True if every page of this set is in `other` too.
    #[inline]
    pub const fn is_subset_of(&self, other: &Self) -> bool {
        self.and_not(other).is_empty()
    }

    /// True if the sets have a page in common.
    #[inline]
    pub const fn intersects(&self, other: &Self) -> bool {
        !self.and(other).is_empty()
    }

    /// True if a page of `region` is in the set.
    #[inline]
    pub const fn intersects_region(&self, region: PageRegion) -> bool {
        self.intersects(&Self::from_region(region))
    }

    /// True if all pages of `region` are in the set (so also if it has none).
    #[inline]
    pub const fn contains_region(&self, region: PageRegion) -> bool {
        Self::from_region(region).is_subset_of(self)
    }

    /// The first page of the set that is `from` or later.
    pub fn first_set_from(&self, from: PageIndex) -> Option<PageIndex> {
        let (first_word, bit) = place(from);
        // Bits below `from` are ignored in its word, and nothing in the words after it.
        let mut keep = !(bit.wrapping_sub(1));
        for (base, word) in WORD_BASES.iter().zip(&self.0).skip(first_word) {
            let bits = word & keep;
            if bits != 0 {
                // CAST: a bit number, at most 63.
                return PageIndex::new(base | bits.trailing_zeros() as u16);
            }
            keep = u64::MAX;
        }
        None
    }

    /// The first page not in the set that is `from` or later.
    #[inline]
    pub fn first_clear_from(&self, from: PageIndex) -> Option<PageIndex> {
        self.not().first_set_from(from)
    }

    /// The first page of the set.
    #[inline]
    pub fn first(&self) -> Option<PageIndex> {
        self.first_set_from(PageIndex::FIRST)
    }

    /// The last page of the set.
    pub fn last(&self) -> Option<PageIndex> {
        let (base, word) = WORD_BASES.iter().zip(&self.0).rfind(|(_, w)| **w != 0)?;
        // CAST: a bit number, at most 63, as the word is not zero.
        PageIndex::new(base | 63u16.saturating_sub(word.leading_zeros() as u16))
    }

    /// The smallest region that holds the whole set; no pages for an empty set.
    pub fn span(&self) -> PageRegion {
        match (self.first(), self.last()) {
            (Some(first), Some(last)) => {
                PageRegion::from_bounds(first.get(), last.get().saturating_add(1))
            }
            _ => PageRegion::from_bounds(0, 0),
        }
    }

    /// Every aligned group of `group` pages that has a page in the set, filled. `group` is rounded up to a power of two
    /// and cut to 512.
    #[must_use]
    pub fn expand_to_aligned(&self, group: Pages) -> Self {
        let group = group_size(group);
        let mut out = *self;
        if let Some(words) = group.checked_div(WORD_BITS).filter(|&w| w != 0) {
            // CAST: widening. `words` is not zero, so chunks_mut does not panic.
            for part in out.0.chunks_mut(words as usize) {
                if part.iter().any(|w| *w != 0) {
                    part.fill(u64::MAX);
                }
            }
        } else {
            for word in &mut out.0 {
                *word = expand_word(*word, group);
            }
        }
        out
    }

    /// Every aligned group of `group` pages that is wholly in the set; pages of incomplete groups are left out.
    /// `group` is rounded up to a power of two and cut to 512.
    #[must_use]
    pub fn shrink_to_aligned(&self, group: Pages) -> Self {
        self.not().expand_to_aligned(group).not()
    }

    /// The pages of the set in ascending order.
    pub fn iter(&self) -> SetPages {
        SetPages { left: *self }
    }

    /// The maximal runs of adjacent pages of the set in ascending order, each as first page and length.
    pub fn runs(&self) -> PageRuns {
        PageRuns { left: *self }
    }
}

/// A group size as [`PageMask::expand_to_aligned`] wants it: a power of two from 1 to 512.
fn group_size(group: Pages) -> u16 {
    u16::try_from(group.0)
        .ok()
        .and_then(u16::checked_next_power_of_two)
        .map_or(PAGES_PER_BLOCK, |g| g.min(PAGES_PER_BLOCK))
}

/// Fills every aligned group of `group` bits (1, 2, 4, 8, 16 or 32) that has a bit set.
fn expand_word(mut word: u64, group: u16) -> u64 {
    // Gather each group into its lowest bit, halving the number of live bits each round...
    for width in [1, 2, 4, 8, 16] {
        if width >= group {
            break;
        }
        // The mask keeps the lowest bit of each 2 * width bits, which drops what slid in from the group above.
        word = (word | word >> width) & (u64::MAX / low_bits(2 * width));
    }
    // ...then spread it over the group. The products of different groups do not overlap, so nothing carries.
    word.wrapping_mul(low_bits(group))
}

/// Iterator over the pages of a set, see [`PageMask::iter`].
#[derive(Clone, Debug)]
pub struct SetPages {
    left: PageMask,
}

impl Iterator for SetPages {
    type Item = PageIndex;

    fn next(&mut self) -> Option<PageIndex> {
        let page = self.left.first()?;
        self.left.clear(page);
        Some(page)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // CAST: at most 512.
        let n = self.left.count().0 as usize;
        (n, Some(n))
    }
}

impl ExactSizeIterator for SetPages {}

/// Iterator over the runs of a set, see [`PageMask::runs`].
#[derive(Clone, Debug)]
pub struct PageRuns {
    left: PageMask,
}

impl Iterator for PageRuns {
    type Item = (PageIndex, Pages);

    fn next(&mut self) -> Option<(PageIndex, Pages)> {
        let start = self.left.first()?;
        let end = self
            .left
            .first_clear_from(start)
            .map_or(PAGES_PER_BLOCK, PageIndex::get);
        let run = PageRegion::from_bounds(start.get(), end);
        self.left.clear_region(run);
        Some((start, run.len()))
    }
}

impl IntoIterator for &PageMask {
    type Item = PageIndex;
    type IntoIter = SetPages;

    fn into_iter(self) -> SetPages {
        self.iter()
    }
}

impl core::ops::BitOrAssign for PageMask {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        *self = self.or(&other);
    }
}

impl core::ops::BitAndAssign for PageMask {
    #[inline]
    fn bitand_assign(&mut self, other: Self) {
        *self = self.and(&other);
    }
}

impl FromIterator<PageIndex> for PageMask {
    fn from_iter<I: IntoIterator<Item = PageIndex>>(pages: I) -> Self {
        let mut mask = Self::EMPTY;
        for page in pages {
            mask.set(page);
        }
        mask
    }
}
