// SPDX-License-Identifier: GPL-2.0
//! Louvain's method (Blondel et al. 2008): sweeps that move vertices to the neighbouring community of the largest gain, until
//! few move; then the communities are the vertices of a smaller graph, and again. The graph of a finished level is dead.

use super::csr::Csr;
use super::pages::Kernel;
use super::rmat::Kind;
use super::{Active, Graph, Size};
use crate::size::{empty, filled};
use crate::trace::{self, kernels, run, steps, PAGE_PS};
use crate::{Ask, Step, Touch, Workload, WORD};
use std::collections::BTreeMap;

/// Most sweeps of a level.
const SWEEPS: u32 = 20;
/// Most levels.
const LEVELS: usize = 4;

/// A level: what it looked like and what came out.
#[derive(Clone, Debug)]
pub struct Level {
    /// Vertices of its graph.
    pub vertices: usize,
    /// Edges of its graph, each direction counted.
    pub edges: usize,
    /// Sweeps over it.
    pub sweeps: u32,
    /// The community of each vertex, numbered from 0.
    pub community: Vec<usize>,
}

/// A graph with weights: for each vertex its neighbours, each once.
type Weighted = Vec<BTreeMap<usize, i128>>;

/// One level: communities, and the number of sweeps. Moves are made at once, in order of the vertices.
fn one(g: &Weighted) -> (Vec<usize>, u32) {
    let degree: Vec<i128> = g.iter().map(|n| n.values().sum()).collect();
    let all: i128 = degree.iter().sum::<i128>().max(1);
    let mut of: Vec<usize> = (0..g.len()).collect();
    let mut total = degree.clone();
    let mut sweeps = 0;
    loop {
        let mut moved = 0;
        for (u, near) in g.iter().enumerate() {
            let (Some(mine), Some(k)) = (of.get(u).copied(), degree.get(u).copied()) else {
                continue;
            };
            let mut links: BTreeMap<usize, i128> = BTreeMap::from([(mine, 0)]);
            for (v, w) in near.iter().filter(|(v, _)| **v != u) {
                if let Some(c) = of.get(*v) {
                    *links.entry(*c).or_default() += w;
                }
            }
            if let Some(t) = total.get_mut(mine) {
                *t -= k;
            }
            // The gain in modularity, but for a factor that all have.
            let gain = |c: usize, w: i128| w * all - total.get(c).copied().unwrap_or(0) * k;
            let stay = (gain(mine, links.get(&mine).copied().unwrap_or(0)), mine);
            let best = links.iter().fold(stay, |best, (c, w)| {
                let g = gain(*c, *w);
                if g > best.0 {
                    (g, *c)
                } else {
                    best
                }
            });
            if let (Some(t), Some(o)) = (total.get_mut(best.1), of.get_mut(u)) {
                *t += k;
                moved += usize::from(*o != best.1);
                *o = best.1;
            }
        }
        sweeps += 1;
        // Below 1 % it is not worth another one.
        if moved * 100 < g.len() || sweeps >= SWEEPS {
            return (of, sweeps);
        }
    }
}

/// The levels of a graph.
pub fn levels(g: &Csr) -> Vec<Level> {
    let mut graph: Weighted = vec![BTreeMap::new(); g.vertices()];
    for (u, near) in graph.iter_mut().enumerate() {
        for v in g.neighbours(u) {
            *near.entry(v).or_default() += 1;
        }
    }
    let mut out = Vec::new();
    while out.len() < LEVELS {
        let (of, sweeps) = one(&graph);
        let mut names = BTreeMap::new();
        let community: Vec<usize> = of
            .iter()
            .map(|c| {
                let next = names.len();
                *names.entry(*c).or_insert(next)
            })
            .collect();
        let mut smaller: Weighted = vec![BTreeMap::new(); names.len()];
        for (near, c) in graph.iter().zip(&community) {
            for (v, w) in near {
                if let (Some(to), Some(d)) = (smaller.get_mut(*c), community.get(*v)) {
                    *to.entry(*d).or_default() += w;
                }
            }
        }
        let done = names.len() == graph.len();
        out.push(Level {
            vertices: graph.len(),
            edges: graph.iter().map(BTreeMap::len).sum(),
            sweeps,
            community,
        });
        if done {
            break;
        }
        graph = smaller;
    }
    out
}

/// A level as it is run.
#[derive(Clone, Copy)]
struct Plan {
    sweeps: u32,
    vertices: u64,
    edges: u64,
}

/// The graph that a level leaves is one part in so many of its own (`workloads.md` section 2: 10 to 30 %).
const COARSE: u64 = 4;

/// Reads the graph of a finished level, in order, and writes the next one.
fn build(level: &Kernel, g: Graph, next: Plan) -> impl Iterator<Item = Touch> + Send + use<> {
    let read = Kernel {
        in_order: level
            .in_order
            .iter()
            .map(|(alloc, bytes, _)| (*alloc, *bytes, false))
            .collect(),
        edges: level.edges.clone(),
        ..Kernel::default()
    };
    let offsets = run(4, 0, next.vertices * WORD, true);
    let ends = run(5, 0, next.edges * WORD, true);
    read.touches(g, Active::ALL).chain(offsets).chain(ends)
}

pub(crate) fn make(name: &'static str, kind: Kind, ask: &Ask) -> Workload {
    // The coarse graphs have the room that the first one leaves.
    let size = Size::filling(ask.bytes / (COARSE + 1) * COARSE, 3 * WORD, WORD);
    let g = Graph::new(ask, size, kind);
    let v = size.vertices();
    let mut allocs = g.arrays();
    allocs.extend([
        filled("community", v, 2),
        filled("total", v, 3),
        empty("coarse-offsets", v / COARSE),
    ]);
    let used: u64 = allocs.iter().map(|a| a.bytes).sum();
    let rest = (ask.bytes.saturating_sub(used) / WORD).max(1);
    allocs.push(empty("coarse-edges", rest));
    // Sweeps as the studied graph takes them. Its own coarse graphs are a few percent of it: R-MAT has no communities, and real graphs do.
    let studied = levels(&g.studied());
    let sweeps = studied.iter().map(|l| l.sweeps);
    let least = std::iter::repeat_n(1, 2_usize.saturating_sub(studied.len()));
    let mut next = Plan {
        sweeps: 0,
        vertices: v,
        edges: size.edges,
    };
    let plan: Vec<Plan> = (0u32..)
        .zip(sweeps.chain(least))
        .map(|(level, sweeps)| {
            let this = Plan { sweeps, ..next };
            next.vertices = (this.vertices / COARSE).max(1);
            next.edges = if level == 0 {
                rest
            } else {
                (this.edges / COARSE).max(1)
            };
            this
        })
        .collect();
    let passes = ask.passes_or(1);
    Workload::new(name, allocs, passes, move |pass| {
        let fine = Kernel {
            in_order: vec![(0, WORD, false), (2, WORD, true)],
            edges: vec![1],
            at_neighbours: vec![(2, WORD, false), (3, WORD, true)],
            after: Vec::new(),
        };
        let coarse = Kernel {
            in_order: vec![(4, WORD, false), (2, WORD, true)],
            edges: vec![5],
            ..fine.clone()
        };
        let (g, plan) = (g.clone(), plan.clone());
        let last = pass + 1 == passes;
        let nexts = plan.clone().into_iter().skip(1).map(Some).chain([None]);
        let levels = plan.into_iter().zip(nexts).enumerate();
        let levels = levels.flat_map(move |(level, (this, next))| {
            let (kernel, graph) = if level == 0 {
                (fine.clone(), g.clone())
            } else {
                // Smaller, and of the same kind; its edges are drawn.
                (coarse.clone(), g.smaller(this.vertices, this.edges))
            };
            let built = next.map(|next| build(&kernel, graph.clone(), next));
            let sweeps = (0..this.sweeps).map(move |_| {
                Box::new(kernel.clone().touches(graph.clone(), Active::ALL)) as trace::Kernel
            });
            let dead = (level == 0 && last).then_some(Step::Discard { alloc: 1 });
            kernels(sweeps, PAGE_PS)
                .chain(steps(built.into_iter().flatten(), PAGE_PS))
                .chain(dead)
        });
        Box::new(levels)
    })
}
