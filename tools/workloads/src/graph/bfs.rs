// SPDX-License-Identifier: GPL-2.0
//! Breadth-first search as Rodinia does it: for each level a kernel that visits the neighbours of the frontier and one that sweeps
//! the masks.

use super::csr::Csr;
use super::pages::Kernel;
use super::rmat::Kind;
use super::{Graph, Size};
use crate::rng::mix;
use crate::size::{empty, filled};
use crate::{Ask, Workload, WORD};

/// The level of a vertex that is not reached.
pub const FAR: u64 = u64::MAX;

/// Level of each vertex, from `root`: all vertices of a level before the next.
pub fn levels(g: &Csr, root: usize) -> Vec<u64> {
    let mut level = vec![FAR; g.vertices()];
    let mut frontier = vec![root];
    let mut now = 0;
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for u in frontier {
            if let Some(l) = level.get_mut(u).filter(|l| **l == FAR) {
                *l = now;
                next.extend(g.neighbours(u));
            }
        }
        next.retain(|v| level.get(*v) == Some(&FAR));
        frontier = next;
        now += 1;
    }
    level
}

/// A vertex with edges, by seed: Graph500 draws roots so.
pub fn root(g: &Csr, seed: u64) -> usize {
    let n = g.vertices() as u64;
    (0..n)
        .map(|i| (mix(seed ^ mix(i)) % n.max(1)) as usize)
        .find(|u| !g.range(*u).is_empty())
        .unwrap_or(0)
}

pub(crate) fn make(name: &'static str, kind: Kind, ask: &Ask) -> Workload {
    // Offsets and costs of a word, three masks of a byte.
    let size = Size::filling(ask.bytes, 2 * WORD + 3, WORD);
    let g = Graph::new(ask, size, kind);
    let v = size.vertices();
    let mut allocs = g.arrays();
    allocs.push(filled("cost", v, 2));
    allocs.extend(["mask", "updating", "visited"].map(|name| empty(name, v / WORD)));
    let (studied, seed) = (g.studied(), ask.seed);
    // Each pass has its own root.
    let levels_of = move |pass: u32| {
        let level = levels(&studied, root(&studied, mix(seed ^ u64::from(pass))));
        let depth = level
            .iter()
            .filter(|l| **l != FAR)
            .max()
            .map_or(0, |l| l + 1);
        (0..depth)
            .map(|k| level.iter().map(|l| *l == k).collect())
            .collect::<Vec<Vec<bool>>>()
    };
    Workload::new(name, allocs, ask.passes_or(1), move |pass| {
        let kernel = Kernel {
            in_order: vec![(3, 1, false), (0, WORD, false)],
            edges: vec![1],
            at_neighbours: vec![(5, 1, false), (2, WORD, true), (4, 1, true)],
            after: vec![(4, 1, true), (3, 1, true), (5, 1, true)],
        };
        kernel.rounds(g.clone(), g.active_pages(&levels_of(pass)))
    })
}
