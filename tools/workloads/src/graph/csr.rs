// SPDX-License-Identifier: GPL-2.0
//! Graphs in compressed sparse rows, each edge in both directions.

use super::rmat::{Edges, Kind};
use super::{Size, PAGE_EDGES};
use std::ops::Range;
use std::sync::Arc;

/// A graph. Loops and repeated edges stay, as Graph500's generator makes them.
#[derive(Clone, Debug)]
pub struct Csr {
    /// Where the edges of each vertex begin, and where the last ones end.
    pub offsets: Arc<[u64]>,
    /// Where each edge ends.
    pub targets: Arc<[u64]>,
}

impl Csr {
    /// A graph of the size.
    pub fn generate(size: Size, kind: Kind, seed: u64) -> Csr {
        let mut edges = Edges::new(size.scale, kind, seed);
        let pairs: Vec<(u64, u64)> = (0..size.edges / 2).map(|_| edges.draw()).collect();
        Csr::of(size.vertices(), &pairs)
    }

    /// The graph of pairs, each in both directions. Pairs with a vertex that does not exist are left out.
    pub fn of(vertices: u64, pairs: &[(u64, u64)]) -> Csr {
        let good = |p: &&(u64, u64)| p.0 < vertices && p.1 < vertices;
        let both = |p: &(u64, u64)| [(p.0, p.1), (p.1, p.0)];
        let mut offsets = vec![0u64; vertices as usize + 1];
        for (u, _) in pairs.iter().filter(good).flat_map(both) {
            if let Some(n) = offsets.get_mut(u as usize + 1) {
                *n += 1;
            }
        }
        let mut sum = 0;
        for n in &mut offsets {
            sum += *n;
            *n = sum;
        }
        let mut next = offsets.clone();
        let mut targets = vec![0u64; sum as usize];
        for (u, v) in pairs.iter().filter(good).flat_map(both) {
            if let Some(at) = next.get_mut(u as usize) {
                if let Some(t) = targets.get_mut(*at as usize) {
                    *t = v;
                }
                *at += 1;
            }
        }
        Csr {
            offsets: offsets.into(),
            targets: targets.into(),
        }
    }

    /// Vertices.
    pub fn vertices(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Numbers of a vertex's edges.
    pub fn range(&self, u: usize) -> Range<usize> {
        let at = |u: usize| self.offsets.get(u).copied().unwrap_or(0) as usize;
        at(u)..at(u + 1)
    }

    /// A vertex's neighbours.
    pub fn neighbours(&self, u: usize) -> impl Iterator<Item = usize> + '_ {
        let edges = self.targets.get(self.range(u)).unwrap_or(&[]);
        edges.iter().map(|v| *v as usize)
    }

    /// Where an edge ends.
    pub fn target(&self, edge: u64) -> u64 {
        self.targets.get(edge as usize).copied().unwrap_or(0)
    }

    /// Where an edge starts.
    pub fn source(&self, edge: u64) -> u64 {
        let above = self.offsets.partition_point(|o| *o <= edge);
        above
            .saturating_sub(1)
            .min(self.vertices().saturating_sub(1)) as u64
    }

    /// Weight of an edge, 1 to 255, the same in both directions: GAP's range (Beamer, Asanovic, Patterson, 2015).
    pub fn weight(u: usize, v: usize) -> u64 {
        let pair = ((u.min(v) as u64) << 32) ^ u.max(v) as u64;
        1 + crate::rng::mix(pair) % 255
    }

    /// Which pages of edges hold an edge of an active vertex.
    pub(crate) fn pages_of(&self, active: &[bool]) -> Vec<bool> {
        let mut pages = vec![false; self.targets.len().div_ceil(PAGE_EDGES as usize)];
        for u in active.iter().enumerate().filter(|a| *a.1).map(|a| a.0) {
            let edges = self.range(u);
            let first = edges.start / PAGE_EDGES as usize;
            let end = edges.end.div_ceil(PAGE_EDGES as usize);
            if let Some(run) = pages.get_mut(first..end).filter(|_| !edges.is_empty()) {
                run.fill(true);
            }
        }
        pages
    }
}
