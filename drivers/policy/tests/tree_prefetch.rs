// SPDX-License-Identifier: GPL-2.0
//! The tree prefetcher: examples worked out by hand from nvidia-uvm.md 5.1, and a model that does it page by page.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::prefetch::{tree_prefetch, TreeQuery};
use huvm_policy::types::{PageIndex, PageMask, PageRegion, Pages};
use proptest::prelude::*;

/// Pages `start .. start + len`.
fn range(start: u16, len: u32) -> PageMask {
    PageMask::from_range(PageIndex::new(start).unwrap(), Pages(len))
}

/// 64 KiB groups by number.
fn groups(numbers: &[u16]) -> PageMask {
    numbers
        .iter()
        .fold(PageMask::empty(), |m, g| m.or(&range(g * 16, 16)))
}

/// The stock question: 51 %, whole block, everything allowed.
fn stock(resident: &PageMask, faulted: &PageMask) -> PageMask {
    tree_prefetch(resident, faulted, &PageMask::FULL, PageRegion::BLOCK, 51)
}

#[test]
fn one_fault_brings_64_kib() {
    for page in [0, 15, 16, 100, 511] {
        let f = range(page, 1);
        let got = stock(&PageMask::EMPTY, &f);
        assert_eq!(got.count(), Pages(15), "page {page}");
        assert_eq!(got.or(&f), range(page / 16 * 16, 16), "page {page}");
    }
}

#[test]
fn no_fault_brings_nothing() {
    assert!(stock(&groups(&[0, 1, 2, 3, 4, 5]), &PageMask::EMPTY).is_empty());
}

/// A sequential scan: 64 KiB, 128, 256, 512, 1 MiB, 2 MiB. Six faults.
#[test]
fn six_faults_in_order_fill_a_block() {
    let mut resident = PageMask::EMPTY;
    let mut sizes = Vec::new();
    while let Some(page) = resident.first_clear_from(PageIndex::FIRST) {
        let f = PageMask::from_page(page);
        resident = resident.or(&f).or(&stock(&resident, &f));
        sizes.push(resident.count().get());
    }
    assert_eq!(sizes, [16, 32, 64, 128, 256, 512]);
}

/// From 64 KiB on, the next level needs 2 of 2, 3 of 4, 5 of 8, 9 of 16, 17 of 32: half of it is not enough.
#[test]
fn half_of_a_subtree_never_fires_and_one_group_more_does() {
    for level in [2u16, 4, 8, 16, 32] {
        let half = level / 2;
        // The fault is in the second half of the node; the first half misses one group, or is all there.
        let f = range(half * 16, 1);
        let fault_group = range(half * 16, 16);
        let all_of_first_half = range(0, u32::from(half) * 16);
        let got = stock(&all_of_first_half, &f);
        assert_eq!(
            got.or(&f).or(&all_of_first_half),
            range(0, u32::from(level) * 16),
            "{} of {level}",
            half + 1
        );
        let one_less = all_of_first_half.and_not(&groups(&[0]));
        let got = stock(&one_less, &f);
        assert_eq!(got.or(&f), fault_group, "{half} of {level}");
    }
}

/// 51 % of 512 pages is 261.12: 261 pages are not enough and 262 are.
#[test]
fn the_threshold_counts_pages_not_groups() {
    // The upper half is there, and the fault's group of 16 makes 272: so take some away again.
    let f = range(0, 1);
    let upper_but = |missing: u32| range(256 + missing as u16, 256 - missing);
    let with_261 = stock(&upper_but(11), &f);
    assert_eq!(with_261.or(&f), range(0, 16));
    let with_262 = stock(&upper_but(10), &f);
    assert_eq!(with_262.or(&f).or(&upper_but(10)), PageMask::FULL);
}

/// Groups 0, 2, 4, 5, 6: of the subtrees over group 0 those of 2 and 4 groups are half full and fail, that of 8 has 5.
#[test]
fn the_topmost_dense_subtree_wins_over_thin_ones_below() {
    let resident = groups(&[2, 4, 5, 6]);
    let f = range(3, 1);
    let got = stock(&resident, &f);
    assert_eq!(
        got,
        groups(&[0, 1, 2, 3, 4, 5, 6, 7])
            .and_not(&resident)
            .and_not(&f)
    );
}

#[test]
fn several_faults_are_answered_together() {
    // Two faults in one batch: groups 0 and 1 grow, their parent is full. The third is alone.
    let f = range(0, 1).or(&range(20, 1)).or(&range(300, 1));
    assert_eq!(stock(&PageMask::EMPTY, &f).or(&f), groups(&[0, 1, 18]));
    // Three groups of four: the fourth comes along.
    let f = range(0, 1).or(&range(16, 1)).or(&range(32, 1));
    assert_eq!(stock(&PageMask::EMPTY, &f).or(&f), groups(&[0, 1, 2, 3]));
}

#[test]
fn a_threshold_of_one_percent_and_of_a_hundred() {
    let f = range(40, 1);
    let ask = |t| tree_prefetch(&PageMask::EMPTY, &f, &PageMask::FULL, PageRegion::BLOCK, t);
    // 16 of 512 pages are 3.1 %.
    assert_eq!(ask(1), f.not());
    assert_eq!(ask(3), f.not());
    assert_eq!(ask(4).or(&f), range(0, 256));
    // Nothing is more than all of it, not even the page itself.
    assert!(ask(100).is_empty());
}

#[test]
fn pages_not_allowed_stay_but_count() {
    let f = range(16, 1);
    let resident = groups(&[0]);
    let allowed = range(17, 4);
    let got = tree_prefetch(&resident, &f, &allowed, PageRegion::BLOCK, 51);
    assert_eq!(got, range(17, 4));
}

#[test]
fn a_thrashing_page_keeps_its_group_from_growing_and_starts_no_search() {
    let ask = |f: &PageMask, thrashing: &PageMask| {
        TreeQuery {
            resident: &PageMask::EMPTY,
            faulted: f,
            thrashing,
            allowed: &PageMask::FULL,
            max: PageRegion::BLOCK,
            threshold_percent: 51,
        }
        .pages()
    };
    // Page 3 faults, page 9 thrashes: the group of both does not grow, and page 3 alone is no subtree to fetch.
    assert!(ask(&range(3, 1), &range(9, 1)).is_empty());
    // Another group is not affected.
    let f = range(3, 1).or(&range(40, 1));
    assert_eq!(ask(&f, &range(9, 1)), groups(&[2]).and_not(&range(40, 1)));
    // The neighbour group: its 16 pages and page 3 are 17 of 32, 53 %. Both groups, but for the faulted and thrashing pages.
    let f = range(3, 1).or(&range(20, 1));
    assert_eq!(
        ask(&f, &range(9, 1)),
        groups(&[0, 1]).and_not(&f).and_not(&range(9, 1))
    );
    // The only fault thrashes.
    assert!(ask(&range(3, 1), &range(3, 1)).is_empty());
}

/// A range that begins at page 10 and ends at page 50: groups 10..16, 16..32, 32..48, 48..50. Ten empty leaves are put
/// before it so that page 16 is leaf 16; the tree has 50 leaves.
#[test]
fn a_range_that_begins_inside_a_block() {
    let max = PageRegion::from_bounds(10, 50);
    let ask = |resident: &PageMask, f: &PageMask| {
        let got = tree_prefetch(resident, f, &PageMask::FULL, max, 51);
        assert!(got.is_subset_of(&PageMask::from_region(max)));
        got.or(f)
    };
    // The head is a group of 6 pages. Its 16 leaves are 37 % full, so only the smaller subtrees count: page 12 is in
    // leaves 12..16 (full) and 8..16 (6 of 8, 75 %).
    assert_eq!(ask(&PageMask::EMPTY, &range(12, 1)), range(10, 6));
    // The tail is a group of 2 pages: leaves 48..50, also as the clipped subtrees 48..52 to 32..64. 32..50 has 2 of 18.
    assert_eq!(ask(&PageMask::EMPTY, &range(49, 1)), range(48, 2));
    // A whole group. Its parent 0..32 has 16 of 32 leaves: half, no.
    assert_eq!(ask(&PageMask::EMPTY, &range(20, 1)), range(16, 16));
    // Head and next group: 22 of 32 leaves, 68 %; 0..50 has 22 of 50, 44 %.
    assert_eq!(
        ask(&PageMask::EMPTY, &range(12, 1).or(&range(20, 1))),
        range(10, 22)
    );
    // With group 32..48: 38 of 50, 76 %. Everything.
    assert_eq!(
        ask(&range(32, 16), &range(12, 1).or(&range(20, 1))).or(&range(32, 16)),
        range(10, 40)
    );
}

/// A range without a whole 64 KiB group is one group.
#[test]
fn a_range_smaller_than_a_group() {
    let max = PageRegion::from_bounds(5, 20);
    let f = range(7, 1);
    let got = tree_prefetch(&PageMask::EMPTY, &f, &PageMask::FULL, max, 51);
    assert_eq!(got.or(&f), range(5, 15));
    let none = PageRegion::from_bounds(5, 5);
    assert!(tree_prefetch(&PageMask::EMPTY, &f, &PageMask::FULL, none, 51).is_empty());
}

/// Section 5.1 read out page by page: the bit map is really shifted, every faulted page really walks all levels.
fn model(q: &TreeQuery<'_>) -> PageMask {
    let page = |i: usize| PageIndex::new(i as u16).unwrap();
    let (start, end) = (q.max.start() as usize, q.max.end() as usize);
    let faulted = |i: usize| q.faulted.test(page(i));
    let thrashing = |i: usize| q.thrashing.test(page(i));

    let first_big = start.div_ceil(16) * 16;
    let has_big = first_big + 16 <= end;
    let offset = if has_big && first_big > start {
        16 - (first_big - start)
    } else {
        0
    };
    let mut tree = vec![false; offset + end - start];
    for i in start..end {
        tree[offset + i - start] = q.resident.test(page(i)) || faulted(i);
    }
    let group_of = |i: usize| {
        if has_big {
            (i / 16 * 16).max(start)..(i / 16 * 16 + 16).min(end)
        } else {
            start..end
        }
    };
    for i in (start..end).filter(|&i| faulted(i)) {
        if !group_of(i).any(thrashing) {
            for j in group_of(i) {
                tree[offset + j - start] = true;
            }
        }
    }
    let mut out = PageMask::EMPTY;
    for i in (start..end).filter(|&i| faulted(i) && !thrashing(i)) {
        let leaf = offset + i - start;
        let mut best = 0..0;
        let mut size = 1;
        while size / 2 < tree.len() {
            let first = leaf / size * size;
            let last = (first + size).min(tree.len());
            let count = tree[first..last].iter().filter(|v| **v).count();
            if count * 100 > (last - first) * q.threshold_percent as usize {
                best = first..last;
            }
            size *= 2;
        }
        for leaf in best {
            if leaf >= offset {
                out.set(page(start + leaf - offset));
            }
        }
    }
    out.and(q.allowed)
        .and_not(q.faulted)
        .and_not(q.thrashing)
        .and_not(q.resident)
}

fn mask(runs: usize, len: u32) -> impl Strategy<Value = PageMask> {
    proptest::collection::vec((0u16..512, 1..len), 0..runs).prop_map(|runs| {
        runs.iter()
            .fold(PageMask::EMPTY, |m, &(s, l)| m.or(&range(s, l)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn agrees_with_the_model(
        resident in mask(8, 150),
        faulted in mask(12, 20),
        thrashing in mask(3, 10),
        forbidden in mask(2, 40),
        bounds in prop_oneof![Just((0u16, 512u16)), (0u16..512, 0u16..=512)],
        threshold_percent in prop_oneof![4 => Just(51u32), 1 => 1u32..=100],
    ) {
        let q = TreeQuery {
            resident: &resident,
            faulted: &faulted,
            thrashing: &thrashing,
            allowed: &forbidden.not(),
            max: PageRegion::from_bounds(bounds.0, bounds.1),
            threshold_percent,
        };
        prop_assert_eq!(q.pages(), model(&q));
    }
}
