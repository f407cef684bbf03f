// SPDX-License-Identifier: GPL-2.0
//! Shortest paths by Bellman and Ford's relaxations: a kernel relaxes the edges of vertices whose distance changed, another takes
//! over the new distances.

use super::bfs::{root, FAR};
use super::csr::Csr;
use super::falling;
use super::pages::Kernel;
use super::rmat::Kind;
use super::{Graph, Size};
use crate::size::{empty, filled};
use crate::{Ask, Workload, WORD};

/// Distances from `root`, and for each round the vertices whose edges were relaxed.
pub fn relax(g: &Csr, root: usize) -> (Vec<u64>, Vec<Vec<bool>>) {
    let n = g.vertices();
    let mut dist = vec![FAR; n];
    let mut active = vec![false; n];
    if let (Some(d), Some(a)) = (dist.get_mut(root), active.get_mut(root)) {
        *d = 0;
        *a = true;
    }
    falling::rounds(g, dist, active, |from, u, v| {
        from.saturating_add(Csr::weight(u, v))
    })
}

pub(crate) fn make(name: &'static str, kind: Kind, ask: &Ask) -> Workload {
    // Offsets and two distances of a word, a mask of a byte; edges have a weight.
    let size = Size::filling(ask.bytes, 3 * WORD + 1, 2 * WORD);
    let g = Graph::new(ask, size, kind);
    let v = size.vertices();
    let mut allocs = g.arrays();
    allocs.extend([
        filled("weights", size.edges, 2),
        filled("distance", v, 3),
        filled("updating", v, 4),
        empty("mask", v / WORD),
    ]);
    let studied = g.studied();
    let active = g.active_pages(&relax(&studied, root(&studied, ask.seed)).1);
    Workload::new(name, allocs, ask.passes_or(1), move |_| {
        let kernel = Kernel {
            in_order: vec![(5, 1, false), (0, WORD, false), (3, WORD, false)],
            edges: vec![1, 2],
            at_neighbours: vec![(4, WORD, true)],
            after: vec![(4, WORD, true), (3, WORD, true), (5, 1, true)],
        };
        kernel.rounds(g.clone(), active.clone())
    })
}
