// SPDX-License-Identifier: GPL-2.0
//! A run of pages within one block.

use crate::types::{PageIndex, Pages, PAGES_PER_BLOCK};

/// Pages `start .. end` of a block, possibly none.
///
/// Invariant: `start <= end <= 512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRegion {
    start: u16,
    end: u16,
}

impl PageRegion {
    /// The whole block.
    pub const BLOCK: Self = Self {
        start: 0,
        end: PAGES_PER_BLOCK,
    };

    /// `len` pages from `start` on; what reaches past the end of the block is cut off.
    pub const fn new(start: PageIndex, len: Pages) -> Self {
        let start = start.get();
        // CAST: widening.
        let room = PAGES_PER_BLOCK.saturating_sub(start) as u32;
        let len = if len.0 < room { len.0 } else { room };
        // CAST: at most 512, clipped just before.
        Self::from_bounds(start, start.saturating_add(len as u16))
    }

    /// Pages `start .. end`; ends past the block are cut off, a start at or after the end gives no pages.
    pub const fn from_bounds(start: u16, end: u16) -> Self {
        let end = if end < PAGES_PER_BLOCK {
            end
        } else {
            PAGES_PER_BLOCK
        };
        let start = if start < end { start } else { end };
        Self { start, end }
    }

    /// Index of the first page, 0 to 512 (512 only if there are none).
    pub const fn start(self) -> u16 {
        self.start
    }

    /// One past the index of the last page, 0 to 512.
    pub const fn end(self) -> u16 {
        self.end
    }

    /// Number of pages.
    pub const fn len(self) -> Pages {
        // CAST: widening.
        Pages(self.end.saturating_sub(self.start) as u32)
    }

    /// True without pages.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// True if `page` is one of them.
    pub const fn contains(self, page: PageIndex) -> bool {
        self.start <= page.get() && page.get() < self.end
    }

    /// Pages that are in both.
    pub const fn intersect(self, other: Self) -> Self {
        let start = if self.start > other.start {
            self.start
        } else {
            other.start
        };
        let end = if self.end < other.end {
            self.end
        } else {
            other.end
        };
        Self::from_bounds(start, end)
    }

    /// The pages in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = PageIndex> {
        (self.start..self.end).filter_map(PageIndex::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(i: u16) -> PageIndex {
        PageIndex::new(i).unwrap()
    }

    #[test]
    fn a_region_never_leaves_its_block() {
        assert_eq!(PageRegion::new(page(500), Pages(u32::MAX)).len(), Pages(12));
        assert_eq!(PageRegion::from_bounds(0, u16::MAX), PageRegion::BLOCK);
        assert!(PageRegion::from_bounds(9, 3).is_empty());
        assert_eq!(PageRegion::new(page(0), Pages(512)), PageRegion::BLOCK);
    }

    #[test]
    fn intersection_and_membership_agree() {
        let a = PageRegion::from_bounds(10, 20);
        let b = PageRegion::from_bounds(15, 30);
        let both = a.intersect(b);
        for p in PageRegion::BLOCK.iter() {
            assert_eq!(both.contains(p), a.contains(p) && b.contains(p));
        }
        assert!(a.intersect(PageRegion::from_bounds(20, 30)).is_empty());
        assert_eq!(both.iter().count(), 5);
    }
}
