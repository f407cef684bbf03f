// SPDX-License-Identifier: GPL-2.0
//! A fault batch against a model: a map from page to what was asked of it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::batch::*;
use huvm_policy::types::{Access, AccessMask};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ACCESSES: [Access; 5] = [
    Access::Prefetch,
    Access::Read,
    Access::Write,
    Access::AtomicWeak,
    Access::AtomicStrong,
];

/// Faults on few pages of few blocks, so that most are duplicates.
fn fault() -> impl Strategy<Value = Fault> {
    (0u32..3, 0u64..3, 0u64..6, 0usize..5, 0u16..6, 0u8..20).prop_map(
        |(space, block, page, access, utlb, fatal)| Fault {
            utlb,
            is_fatal: fatal == 0,
            ..Fault::new(space, block << 21 | page << 12 | 0x123, ACCESSES[access])
        },
    )
}

/// All accesses of a page that can be served, and how many packets asked.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    packets: usize,
    accesses: AccessMask,
    most: Option<Access>,
}

fn tally<'a>(faults: impl Iterator<Item = &'a Fault>) -> BTreeMap<(u32, u64), Asked> {
    let mut map: BTreeMap<_, Asked> = BTreeMap::new();
    for f in faults.filter(|f| !f.is_fatal) {
        let a = map.entry((f.space, f.va)).or_default();
        a.packets += usize::from(f.instances);
        a.accesses = a.accesses.or(f.accesses);
        a.most = a.most.max(Some(f.access));
    }
    map
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_batch_keeps_what_was_asked(
        raw in proptest::collection::vec(fault(), 0..300),
        coalesce in any::<bool>(),
        utlbs in 0usize..8,
    ) {
        let mut batch = vec![Fault::new(9, 0, Access::Read); 300];
        let mut last = vec![0; utlbs];
        let mut c = Coalescer::new(&mut batch, &mut last, coalesce);
        for f in &raw {
            prop_assert_ne!(c.push(*f), Coalesced::Full);
        }
        prop_assert_eq!(c.raw() as usize, raw.len());
        let len = c.len();
        prop_assert!(coalesce || len == raw.len());
        batch.truncate(len);

        let mut by_seq: Vec<_> = batch.clone();
        by_seq.sort_by_key(|f| f.seq);
        prop_assert_eq!(&by_seq, &batch, "the order of fetching is the order of seq");

        let kept = sort_and_dedup(&mut batch);
        let (unique, duplicates) = batch.split_at(kept);
        let fatal = raw.iter().filter(|f| f.is_fatal).count();
        let want = tally(raw.iter());

        // One fault per page, saying all that was asked of the page; fatal ones each by itself.
        prop_assert_eq!(&tally(unique.iter()), &want);
        prop_assert_eq!(kept, want.len() + fatal);
        prop_assert_eq!(unique.iter().filter(|f| f.is_fatal).count(), fatal);
        prop_assert!(duplicates.iter().all(|f| !f.is_fatal));
        // In order, and nothing lost.
        prop_assert!(unique.windows(2).all(|w| (w[0].space, w[0].va) <= (w[1].space, w[1].va)));
        let seqs: BTreeSet<u16> = batch.iter().map(|f| f.seq).collect();
        prop_assert_eq!(seqs.len(), len);

        // Groups: every unique fault once, in order, no two neighbours of the same block.
        let mut walked = Vec::new();
        let mut last_block = None;
        for g in groups(unique) {
            prop_assert!(!g.faults.is_empty());
            prop_assert!(g.faults.iter().all(|f| f.space == g.space && f.block_va() == g.block_va));
            prop_assert_ne!(last_block, Some((g.space, g.block_va)));
            last_block = Some((g.space, g.block_va));
            walked.extend_from_slice(g.faults);
        }
        prop_assert_eq!(walked.as_slice(), unique);
    }

    /// The result does not depend on how the sort breaks ties: any order of fetching gives the same pages and accesses.
    #[test]
    fn sorting_is_the_same_every_time(raw in proptest::collection::vec(fault(), 0..100)) {
        let mut a = raw;
        for (i, f) in a.iter_mut().enumerate() {
            f.seq = i as u16;
        }
        let mut b: Vec<_> = a.iter().rev().copied().collect();
        let (n, m) = (sort_and_dedup(&mut a), sort_and_dedup(&mut b));
        prop_assert_eq!(&a[..n], &b[..m]);
    }
}
