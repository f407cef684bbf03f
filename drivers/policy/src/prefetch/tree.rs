// SPDX-License-Identifier: GPL-2.0
//! NVIDIA's tree prefetcher (`nvidia-uvm.md` 5.1).
//!
//! The pages of a block are the leaves of a binary tree. A page counts if it is resident at the destination, faults
//! now, or lies in a 64 KiB group with a fault. For each faulted page the largest subtree above it that is more than
//! 51 % full is fetched, even if a smaller one between them is not. *More than*: a half never is, so from 64 KiB on it
//! takes 2 of 2, 3 of 4, 5 of 8, 9 of 16, 17 of 32 groups.
//!
//! A range that begins inside a block makes an incomplete tree. Its leaves are shifted so that 64 KiB groups stay
//! subtrees; the empty leaves before the first page count as pages that are missing, those after the last do not count.
//!
//! Differences from the driver described: pages that are at the destination already are left out of the answer (the
//! driver has them in, and then finds nothing to copy). Whether they get mapped on the way is the caller's choice.

use crate::types::{PageIndex, PageMask, PageRegion, Pages, PAGES_PER_BIG_PAGE};

/// Height of the largest tree: 2^10 leaves are more than a block and its shift.
const LEVELS: u16 = 10;

/// One question to the tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeQuery<'a> {
    /// Pages resident at the destination.
    pub resident: &'a PageMask,
    /// Pages that fault.
    pub faulted: &'a PageMask,
    /// Pages that thrash: they neither start a search nor let their group grow, and are not fetched.
    pub thrashing: &'a PageMask,
    /// Pages that may be fetched.
    pub allowed: &'a PageMask,
    /// The part of the block that belongs to its range: nothing outside counts or is fetched.
    pub max: PageRegion,
    /// Share of a subtree, in percent, that must be exceeded.
    pub threshold_percent: u32,
}

/// The pages to fetch beside `faulted`, without thrashing pages: [`TreeQuery::pages`].
pub fn tree_prefetch(
    resident: &PageMask,
    faulted: &PageMask,
    allowed: &PageMask,
    max: PageRegion,
    threshold_percent: u32,
) -> PageMask {
    TreeQuery {
        resident,
        faulted,
        thrashing: &PageMask::EMPTY,
        allowed,
        max,
        threshold_percent,
    }
    .pages()
}

impl TreeQuery<'_> {
    /// The pages to fetch: none that faulted, thrashes, is not allowed, lies outside `max`, or is resident.
    pub fn pages(&self) -> PageMask {
        let inside = PageMask::from_region(self.max);
        let faulted = self.faulted.and(&inside);
        let thrashing = self.thrashing.and(&inside);
        let grown = grow(&faulted, &thrashing, self.max);
        let present = self.resident.and(&inside).or(&faulted).or(&grown);

        let starts = faulted.and_not(&thrashing);
        let mut out = PageMask::EMPTY;
        let mut from = Some(PageIndex::FIRST);
        while let Some(page) = from.and_then(|f| starts.first_set_from(f)) {
            let region = self.largest_dense(page, &present);
            out.set_region(region);
            // Faults inside the region have the same answer: every subtree that holds one of them and is larger was
            // just found too thin. At least the page itself is passed , so this ends.
            from = PageIndex::new(region.end().max(page.get().saturating_add(1)));
        }
        out.and(&inside)
            .and(self.allowed)
            .and_not(self.faulted)
            .and_not(self.thrashing)
            .and_not(self.resident)
    }

    /// The largest subtree above `page` that is dense enough, in pages of the block. At least the page itself, unless the
    /// threshold is 100 % or more.
    fn largest_dense(&self, page: PageIndex, present: &PageMask) -> PageRegion {
        let shift = self.shift();
        // Leaves of the tree: the pages of `max` behind `shift` empty ones. At most 15 + 512, so 1024 holds them all.
        let in_tree = |page: u16| page.saturating_sub(self.max.start()).saturating_add(shift);
        let (leaf, leaves) = (in_tree(page.get()), in_tree(self.max.end()));

        let mut best = PageRegion::from_bounds(0, 0);
        for level in 0..=LEVELS {
            let first = leaf >> level << level;
            let last = first.saturating_add(1 << level).min(leaves);
            let region = self.pages_of(first, last, shift);
            let count = u64::from(present.count_in(region).get());
            let whole = u64::from(last.saturating_sub(first));
            if count * 100 > whole * u64::from(self.threshold_percent) {
                best = region;
            }
            if first == 0 && last == leaves {
                break;
            }
        }
        best
    }

    /// Empty leaves before the first page, which move 64 KiB boundaries of the block to those of the tree. Without a
    /// whole 64 KiB group there is nothing to align.
    fn shift(&self) -> u16 {
        match big_pages(self.max) {
            Some(big) if big.start() > self.max.start() => {
                PAGES_PER_BIG_PAGE.saturating_sub(big.start().saturating_sub(self.max.start()))
            }
            _ => 0,
        }
    }

    /// The pages of the block that leaves `first .. last` stand for.
    fn pages_of(&self, first: u16, last: u16, shift: u16) -> PageRegion {
        let base = self.max.start();
        PageRegion::from_bounds(
            base.saturating_add(first.saturating_sub(shift)),
            base.saturating_add(last.saturating_sub(shift)),
        )
    }
}

/// The whole 64 KiB groups of a region; `None` if it has none.
fn big_pages(max: PageRegion) -> Option<PageRegion> {
    let within = PAGES_PER_BIG_PAGE - 1;
    let start = max.start().saturating_add(within) & !within;
    let end = max.end() & !within;
    (start < end).then(|| PageRegion::from_bounds(start, end))
}

/// Every 64 KiB group of `max` that has a faulted page and no thrashing one. An incomplete group at either end is a group
/// too; a region without a whole group is one group (step 5).
fn grow(faulted: &PageMask, thrashing: &PageMask, max: PageRegion) -> PageMask {
    if big_pages(max).is_some() {
        let group = Pages(u32::from(PAGES_PER_BIG_PAGE));
        faulted
            .expand_to_aligned(group)
            .and_not(&thrashing.expand_to_aligned(group))
            .and(&PageMask::from_region(max))
    } else if faulted.is_empty() || !thrashing.is_empty() {
        PageMask::EMPTY
    } else {
        PageMask::from_region(max)
    }
}
