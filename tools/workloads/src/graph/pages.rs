// SPDX-License-Identifier: GPL-2.0
//! The pages that an iteration over a graph touches.

use super::{Active, Graph, PAGE_EDGES};
use crate::trace::{self, kernels, run, touch, PAGE_PS};
use crate::{Steps, Touch, PAGE, WORD};

/// One of so many accesses by a neighbour's number is in the trace. All would be as many as edges; as each chunk of a vertex
/// array is met again within a few pages of edges anyway, it is as hot with one of 64.
pub(crate) const SAMPLE: u64 = 64;

/// An array over the vertices: allocation, bytes a vertex, written.
pub(crate) type PerVertex = (u32, u64, bool);

/// An iteration: a walk over the vertices' arrays and, for active ones, their edges and neighbours.
#[derive(Clone, Default)]
pub(crate) struct Kernel {
    /// Arrays that are read or written in order of the vertices.
    pub(crate) in_order: Vec<PerVertex>,
    /// Arrays of a word an edge that are read.
    pub(crate) edges: Vec<u32>,
    /// Arrays that are read or written at the neighbours.
    pub(crate) at_neighbours: Vec<PerVertex>,
    /// Arrays that a second kernel sweeps afterwards.
    pub(crate) after: Vec<PerVertex>,
}

impl Kernel {
    /// Steps of so many iterations, each with its active pages.
    pub(crate) fn rounds(self, g: Graph, active: Vec<Active>) -> Steps {
        let each = active.into_iter().flat_map(move |a| {
            let walk = self.clone().touches(g.clone(), a);
            [Box::new(walk) as trace::Kernel, self.sweep(&g)]
        });
        Box::new(kernels(each, PAGE_PS))
    }

    /// Its touches, without those of the kernel behind it.
    pub(crate) fn touches(self, g: Graph, active: Active) -> impl Iterator<Item = Touch> + Send {
        let vertices = g.size.vertices();
        let pages = g.size.edges.div_ceil(PAGE_EDGES);
        let mut last = vec![None; self.in_order.len()];
        (0..pages).flat_map(move |p| {
            let mut out = Vec::new();
            let first = p * PAGE_EDGES;
            let end = g.size.edges.min(first + PAGE_EDGES);
            // Up to the vertex of this page's last edge; with the last page, up to the last vertex.
            let upto = if end == g.size.edges {
                vertices - 1
            } else {
                g.source(end - 1)
            };
            for ((alloc, bytes, write), last) in self.in_order.iter().zip(&mut last) {
                let to = upto * bytes / PAGE;
                let from = last.map_or(0, |l: u64| l + 1);
                out.extend((from..=to).map(|q| touch(*alloc, q * PAGE, *write)));
                *last = Some(to.max(from.saturating_sub(1)));
            }
            if active.page(p) {
                out.extend(self.edges.iter().map(|a| touch(*a, first * WORD, false)));
                for edge in (first..end).step_by(SAMPLE as usize) {
                    let v = g.target(edge);
                    for (alloc, bytes, write) in &self.at_neighbours {
                        out.push(touch(*alloc, v * bytes, *write));
                    }
                }
            }
            out
        })
    }

    /// Those of the kernel behind it.
    fn sweep(&self, g: &Graph) -> trace::Kernel {
        let (after, vertices) = (self.after.clone(), g.size.vertices());
        let arrays = after.into_iter();
        Box::new(
            arrays.flat_map(move |(alloc, bytes, write)| run(alloc, 0, vertices * bytes, write)),
        )
    }
}
