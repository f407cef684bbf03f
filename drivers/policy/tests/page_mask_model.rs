// SPDX-License-Identifier: GPL-2.0
//! Page masks against an array of 512 booleans.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::types::{PageIndex, PageMask, PageRegion, Pages};
use proptest::prelude::*;

type Naive = [bool; 512];

fn page(i: usize) -> PageIndex {
    PageIndex::new(i as u16).unwrap()
}

fn naive(m: &PageMask) -> Naive {
    core::array::from_fn(|i| m.test(page(i)))
}

fn build(n: &Naive) -> PageMask {
    (0..512).filter(|&i| n[i]).map(page).collect()
}

/// Masks as they occur (a few runs) and as they do not (noise).
fn mask() -> impl Strategy<Value = PageMask> {
    let runs = proptest::collection::vec((0u16..512, 1u32..200), 0..6).prop_map(|runs| {
        let mut m = PageMask::empty();
        for (start, len) in runs {
            m |= PageMask::from_range(PageIndex::new(start).unwrap(), Pages(len));
        }
        m
    });
    prop_oneof![
        3 => runs,
        2 => any::<[u64; 8]>().prop_map(PageMask::from_words),
        1 => any::<([u64; 8], [u64; 8])>().prop_map(|(a, b)| PageMask::from_words(a).and(&PageMask::from_words(b))),
        1 => Just(PageMask::FULL),
        1 => Just(PageMask::EMPTY),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn set_clear_and_test(m in mask(), i in 0usize..512) {
        let mut n = naive(&m);
        prop_assert_eq!(build(&n), m);
        let mut a = m;
        a.set(page(i));
        n[i] = true;
        prop_assert_eq!(naive(&a), n);
        a.clear(page(i));
        n[i] = false;
        prop_assert_eq!(naive(&a), n);
        prop_assert_eq!(PageMask::from_page(page(i)).iter().collect::<Vec<_>>(), [page(i)]);
    }

    #[test]
    fn set_algebra(a in mask(), b in mask()) {
        let (x, y) = (naive(&a), naive(&b));
        prop_assert_eq!(naive(&a.and(&b)), core::array::from_fn(|i| x[i] && y[i]));
        prop_assert_eq!(naive(&a.or(&b)), core::array::from_fn(|i| x[i] || y[i]));
        prop_assert_eq!(naive(&a.and_not(&b)), core::array::from_fn(|i| x[i] && !y[i]));
        prop_assert_eq!(naive(&a.not()), x.map(|v| !v));
        let (mut or, mut and) = (a, a);
        or |= b;
        and &= b;
        prop_assert_eq!(or, a.or(&b));
        prop_assert_eq!(and, a.and(&b));
        prop_assert_eq!(a.is_subset_of(&b), (0..512).all(|i| !x[i] || y[i]));
        prop_assert_eq!(a.intersects(&b), (0..512).any(|i| x[i] && y[i]));
        prop_assert_eq!(a.is_empty(), !x.contains(&true));
        prop_assert_eq!(a.is_full(), !x.contains(&false));
        prop_assert_eq!(a.count().get() as usize, x.iter().filter(|v| **v).count());
    }

    #[test]
    fn regions(m in mask(), start in 0u16..512, len in 0u32..700) {
        let n = naive(&m);
        let inside = |i: usize| i >= start as usize && i < (start as usize + len as usize).min(512);
        let r = PageRegion::new(PageIndex::new(start).unwrap(), Pages(len));
        prop_assert_eq!(naive(&PageMask::from_region(r)), core::array::from_fn(inside));
        prop_assert_eq!(m.count_in(r).get() as usize, (0..512).filter(|&i| n[i] && inside(i)).count());
        prop_assert_eq!(m.intersects_region(r), (0..512).any(|i| n[i] && inside(i)));
        prop_assert_eq!(m.contains_region(r), (0..512).all(|i| n[i] || !inside(i)));
        let (mut set, mut clear) = (m, m);
        set.set_region(r);
        clear.clear_region(r);
        prop_assert_eq!(naive(&set), core::array::from_fn(|i| n[i] || inside(i)));
        prop_assert_eq!(naive(&clear), core::array::from_fn(|i| n[i] && !inside(i)));
    }

    #[test]
    fn search(m in mask(), from in 0usize..512) {
        let n = naive(&m);
        prop_assert_eq!(m.first_set_from(page(from)), (from..512).find(|&i| n[i]).map(page));
        prop_assert_eq!(m.first_clear_from(page(from)), (from..512).find(|&i| !n[i]).map(page));
        prop_assert_eq!(m.first(), (0..512).find(|&i| n[i]).map(page));
        prop_assert_eq!(m.last(), (0..512).rfind(|&i| n[i]).map(page));
        let span = m.span();
        prop_assert_eq!(span.is_empty(), m.is_empty());
        prop_assert!(m.is_subset_of(&PageMask::from_region(span)));
        if let (Some(a), Some(b)) = (m.first(), m.last()) {
            prop_assert_eq!((span.start(), span.end()), (a.get(), b.get() + 1));
        }
    }

    #[test]
    fn iteration(m in mask()) {
        let n = naive(&m);
        prop_assert_eq!(m.iter().len(), m.count().get() as usize);
        let pages: Vec<_> = m.iter().collect();
        prop_assert_eq!(pages, (0..512).filter(|&i| n[i]).map(page).collect::<Vec<_>>());

        let mut want: Vec<(PageIndex, Pages)> = Vec::new();
        for i in (0..512).filter(|&i| n[i]) {
            match want.last_mut() {
                Some((start, len)) if start.as_usize() + len.get() as usize == i => len.0 += 1,
                _ => want.push((page(i), Pages(1))),
            }
        }
        prop_assert_eq!(m.runs().collect::<Vec<_>>(), want);
    }

    #[test]
    fn alignment(m in mask(), group in 0u32..600) {
        // The size that the rule makes of `group`.
        let g = (group.max(1).next_power_of_two() as usize).min(512);
        let n = naive(&m);
        let members = |i: usize| i / g * g..i / g * g + g;
        prop_assert_eq!(
            naive(&m.expand_to_aligned(Pages(group))),
            core::array::from_fn(|i| members(i).any(|j| n[j]))
        );
        prop_assert_eq!(
            naive(&m.shrink_to_aligned(Pages(group))),
            core::array::from_fn(|i| members(i).all(|j| n[j]))
        );
    }
}

#[test]
fn every_power_of_two_group_of_a_single_page() {
    for i in 0..512usize {
        for shift in 0..=9 {
            let g = 1usize << shift;
            let want = PageRegion::from_bounds((i / g * g) as u16, (i / g * g + g) as u16);
            assert_eq!(
                PageMask::from_page(page(i)).expand_to_aligned(Pages(g as u32)),
                PageMask::from_region(want),
                "page {i}, group {g}"
            );
        }
    }
    let huge = PageMask::from_page(page(3)).expand_to_aligned(Pages(u32::MAX));
    assert!(huge.is_full());
}

#[test]
fn ranges_can_be_constants() {
    const UPPER_HALF: PageMask = PageMask::from_region(PageRegion::from_bounds(256, 512));
    const BOTH: PageMask = UPPER_HALF.or(&UPPER_HALF.not());
    assert!(BOTH.is_full());
    assert_eq!(UPPER_HALF.words(), &[0, 0, 0, 0, !0, !0, !0, !0]);
}
