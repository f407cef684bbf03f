// SPDX-License-Identifier: GPL-2.0
//! Weakly connected components by label propagation: each vertex takes the smallest label of its neighbours, until none changes.

use super::csr::Csr;
use super::falling;
use super::pages::Kernel;
use super::rmat::Kind;
use super::{Graph, Size};
use crate::size::filled;
use crate::{Ask, Workload, WORD};

/// Labels at the fixed point, and for each iteration which vertices pushed their label.
pub fn propagate(g: &Csr) -> (Vec<u64>, Vec<Vec<bool>>) {
    let n = g.vertices();
    falling::rounds(g, (0..n as u64).collect(), vec![true; n], |mine, _, _| mine)
}

pub(crate) fn make(name: &'static str, kind: Kind, ask: &Ask) -> Workload {
    let size = Size::filling(ask.bytes, 2 * WORD, WORD);
    let g = Graph::new(ask, size, kind);
    let mut allocs = g.arrays();
    allocs.push(filled("label", size.vertices(), 2));
    let active = g.active_pages(&propagate(&g.studied()).1);
    Workload::new(name, allocs, ask.passes_or(1), move |_| {
        let kernel = Kernel {
            in_order: vec![(0, WORD, false), (2, WORD, false)],
            edges: vec![1],
            at_neighbours: vec![(2, WORD, true)],
            after: Vec::new(),
        };
        kernel.rounds(g.clone(), active.clone())
    })
}
