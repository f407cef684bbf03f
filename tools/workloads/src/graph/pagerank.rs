// SPDX-License-Identifier: GPL-2.0
//! PageRank by pulling: each iteration reads all edges in order and the ranks of their ends. Sums are of integers, 2^40 being 1, so
//! that their order does not matter.

use super::csr::Csr;
use super::pages::Kernel;
use super::rmat::Kind;
use super::{Active, Graph, Size};
use crate::size::{empty, filled};
use crate::trace::{steps, PAGE_PS};
use crate::{Ask, Workload, WORD};

/// A rank of 1.
pub const ONE: u64 = 1 << 40;
/// Iterations: GAP's limit (Beamer, Asanovic, Patterson, 2015).
const ITERATIONS: u32 = 20;

/// An iteration: `0.15 / n + 0.85 · Σ rank / degree` over the neighbours. Damping as in Brin and Page (1998).
pub fn iterate(g: &Csr, rank: &[u64]) -> Vec<u64> {
    let n = g.vertices() as u64;
    (0..g.vertices())
        .map(|u| {
            let sum: u64 = g
                .neighbours(u)
                .map(|v| rank.get(v).copied().unwrap_or(0) / (g.range(v).len() as u64).max(1))
                .sum();
            ONE * 15 / 100 / n.max(1) + sum / 100 * 85
        })
        .collect()
}

pub(crate) fn make(name: &'static str, kind: Kind, ask: &Ask) -> Workload {
    let size = Size::filling(ask.bytes, 3 * WORD, WORD);
    let g = Graph::new(ask, size, kind);
    let v = size.vertices();
    let mut allocs = g.arrays();
    allocs.extend([filled("rank", v, 2), empty("new", v)]);
    Workload::new(name, allocs, ask.passes_or(ITERATIONS), move |pass| {
        let (old, new) = if pass % 2 == 0 { (2, 3) } else { (3, 2) };
        let kernel = Kernel {
            in_order: vec![(0, WORD, false), (new, WORD, true)],
            edges: vec![1],
            at_neighbours: vec![(old, WORD, false)],
            after: Vec::new(),
        };
        Box::new(steps(kernel.touches(g.clone(), Active::ALL), PAGE_PS))
    })
}
