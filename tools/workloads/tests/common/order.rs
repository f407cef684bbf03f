// SPDX-License-Identifier: GPL-2.0
//! Orders and counts of touches.

use huvm_workloads::Touch;
use std::collections::{BTreeMap, BTreeSet};

/// Reads and writes of a pass.
pub(crate) fn shares(list: &[Touch]) -> (usize, usize) {
    let writes = list.iter().filter(|t| t.write).count();
    (list.len() - writes, writes)
}

/// Most common count of an allocation's pages, edges left out.
pub(crate) fn typical(counts: &[(u32, u32)]) -> (u32, u32) {
    let mut n: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for c in counts {
        *n.entry(*c).or_default() += 1;
    }
    n.into_iter().max_by_key(|(_, n)| *n).unwrap().0
}

/// The distinct pages of an allocation in the order of their first touch.
pub(crate) fn order(alloc: u32, list: &[Touch]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let of = list.iter().filter(|t| t.alloc == alloc);
    of.map(|t| t.page).filter(|p| seen.insert(*p)).collect()
}

/// Largest step back in a sequence of pages.
pub(crate) fn furthest_back(pages: &[u32]) -> u32 {
    let mut most = 0;
    let mut back = 0;
    for p in pages {
        most = most.max(*p);
        back = back.max(most - *p);
    }
    back
}
