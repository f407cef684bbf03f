// SPDX-License-Identifier: GPL-2.0
//! Graph analytics on generated graphs.
//!
//! Up to [`REAL`] bytes the graph is real: arrays in compressed sparse rows, the algorithm run on them, its trace that of the run.
//! Above it nobody wants to make billions of edges on an emulated CPU: there the ends of edges are drawn one by one with the
//! generator's popularity, and which part of the edges an iteration reads is measured on a small graph of the same kind, seed
//! and mean degree.

pub mod bfs;
pub mod csr;
mod falling;
pub mod louvain;
pub mod pagerank;
mod pages;
pub mod rmat;
pub mod sssp;
pub mod wcc;

use crate::rng::mix;
use crate::size::filled;
use crate::{Alloc, Ask, First, Init, PAGE, WORD};
use csr::Csr;
use rmat::Kind;
use std::sync::{Arc, OnceLock};

/// Largest footprint of a real graph, bytes.
pub const REAL: u64 = 64 << 20;
/// Log2 of the vertices of the small graph that is studied for larger ones. With 12 a search had a level or two less than it has on
/// large graphs, and links that stay near ended anywhere; with more an emulated CPU is at it for minutes.
const SMALL_SCALE: u32 = 16;
/// Edges of a page of edges.
pub(crate) const PAGE_EDGES: u64 = PAGE / WORD;

/// Size of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Log2 of the vertices.
    pub scale: u32,
    /// Edges, each direction counted: even.
    pub edges: u64,
}

impl Size {
    /// The graph that fills `bytes` at so many bytes a vertex and an edge: vertices are a power of two, and each has from 16
    /// edges in one direction (Graph500's edge factor) up.
    pub fn filling(bytes: u64, per_vertex: u64, per_edge: u64) -> Size {
        let each = per_vertex + 2 * 16 * per_edge;
        let scale = 63 - (bytes / each).max(16).leading_zeros();
        let left = bytes.saturating_sub(per_vertex << scale);
        Size {
            scale,
            edges: (left / per_edge).max(2) & !1,
        }
    }

    /// Vertices.
    pub fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Edges of a vertex in one direction, on average: 16 to 32 or so, whatever fills the bytes.
    pub fn degree(&self) -> f64 {
        self.edges as f64 / 2.0 / self.vertices() as f64
    }
}

/// What an algorithm reads of the graph, and where its edges end.
#[derive(Clone)]
pub(crate) struct Graph {
    pub(crate) size: Size,
    kind: Kind,
    seed: u64,
    real: Option<Arc<Csr>>,
    /// The small one, once it is there.
    small: Arc<OnceLock<Arc<Csr>>>,
}

impl Graph {
    /// Of the size, real up to [`REAL`] bytes of footprint.
    pub(crate) fn new(ask: &Ask, size: Size, kind: Kind) -> Graph {
        let real = (ask.bytes <= REAL).then(|| Arc::new(Csr::generate(size, kind, ask.seed)));
        Graph {
            size,
            kind,
            seed: ask.seed,
            real,
            small: Arc::default(),
        }
    }

    /// The graph that the algorithm is run on to see what it does: itself, or the small one.
    pub(crate) fn studied(&self) -> Arc<Csr> {
        let small = || {
            let scale = SMALL_SCALE.min(self.size.scale);
            let edges = (self.size.edges >> (self.size.scale - scale)) & !1;
            let size = Size { scale, edges };
            Arc::new(Csr::generate(size, self.kind, self.seed))
        };
        match &self.real {
            Some(real) => real.clone(),
            None => self.small.get_or_init(small).clone(),
        }
    }

    /// Where an edge ends.
    pub(crate) fn target(&self, edge: u64) -> u64 {
        match &self.real {
            Some(g) => g.target(edge),
            None => {
                let from = self.source(edge);
                rmat::end(self.size.scale, self.kind, self.seed, from, mix(edge))
            }
        }
    }

    /// Where it starts.
    pub(crate) fn source(&self, edge: u64) -> u64 {
        match &self.real {
            Some(g) => g.source(edge),
            None => {
                let share = u128::from(edge) * u128::from(self.size.vertices());
                (share / u128::from(self.size.edges)) as u64
            }
        }
    }

    /// Pages of edges that each iteration reads, from the vertices that are active in it on the studied graph.
    pub(crate) fn active_pages(&self, iterations: &[Vec<bool>]) -> Vec<Active> {
        let g = self.studied();
        (0..)
            .zip(iterations)
            .map(|(k, active)| {
                let pages = g.pages_of(active);
                if self.real.is_some() {
                    return Active::Known(pages.into());
                }
                let n = pages.iter().filter(|p| **p).count() as u128;
                let share = (n << 64) / (pages.len() as u128).max(1);
                Active::Drawn {
                    seed: self.seed ^ mix(k),
                    share: u64::try_from(share).unwrap_or(u64::MAX),
                }
            })
            .collect()
    }

    /// A smaller one of the same kind, its edges drawn.
    pub(crate) fn smaller(&self, vertices: u64, edges: u64) -> Graph {
        let size = Size {
            scale: 63 - vertices.max(2).leading_zeros(),
            edges,
        };
        Graph {
            size,
            kind: self.kind,
            seed: self.seed,
            real: None,
            small: Arc::default(),
        }
    }

    /// The arrays of the graph: offsets and ends of edges.
    pub(crate) fn arrays(&self) -> Vec<Alloc> {
        let (v, e) = (self.size.vertices(), self.size.edges);
        let mut out = vec![filled("offsets", v + 1, 0), filled("edges", e, 1)];
        if let Some(g) = &self.real {
            for (a, words) in out.iter_mut().zip([&g.offsets, &g.targets]) {
                a.first = First::Cpu(Init::Words(words.clone()));
            }
        }
        out
    }
}

/// Which pages of edges an iteration reads.
#[derive(Clone)]
pub(crate) enum Active {
    /// These.
    Known(Arc<[bool]>),
    /// This share of them, of 2^64.
    Drawn { seed: u64, share: u64 },
}

impl Active {
    /// All of them.
    pub(crate) const ALL: Active = Active::Drawn {
        seed: 0,
        share: u64::MAX,
    };

    /// Whether page `p` of the edges is read.
    pub(crate) fn page(&self, p: u64) -> bool {
        match self {
            Active::Known(pages) => pages.get(p as usize).copied().unwrap_or(false),
            Active::Drawn { share, .. } if *share == u64::MAX => true,
            Active::Drawn { seed, share } => mix(seed ^ mix(p)) < *share,
        }
    }
}
