// SPDX-License-Identifier: GPL-2.0
//! The graph programs' results beside plain computations that share no code with them.

#![allow(clippy::indexing_slicing)] // Of helpers; clippy lets tests do so.

use huvm_workloads::graph::bfs::FAR;
use huvm_workloads::graph::csr::Csr;
use huvm_workloads::graph::rmat::Kind;
use huvm_workloads::graph::{bfs, louvain, pagerank, sssp, wcc, Size};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

fn graphs() -> Vec<Csr> {
    let of = |scale, edges, kind, seed| Csr::generate(Size { scale, edges }, kind, seed);
    vec![
        of(12, 32 << 12, Kind::Social, 1),
        of(11, 2 << 11, Kind::Social, 2),
        of(12, 32 << 12, Kind::Web, 3),
        Csr::of(5, &[(0, 1), (1, 2), (3, 3)]),
    ]
}

/// All edges, once in each direction.
fn edges(g: &Csr) -> Vec<(usize, usize)> {
    let of = |u| g.neighbours(u).map(move |v| (u, v)).collect::<Vec<_>>();
    (0..g.vertices()).flat_map(of).collect()
}

/// Components by union and find.
fn components(g: &Csr) -> Vec<usize> {
    fn find(up: &mut [usize], mut u: usize) -> usize {
        while let Some(&p) = up.get(u).filter(|p| **p != u) {
            u = p;
        }
        u
    }
    let mut up: Vec<usize> = (0..g.vertices()).collect();
    for (u, v) in edges(g) {
        let (a, b) = (find(&mut up, u), find(&mut up, v));
        if let Some(p) = up.get_mut(a.max(b)) {
            *p = a.min(b);
        }
    }
    (0..g.vertices()).map(|u| find(&mut up, u)).collect()
}

#[test]
fn rows_hold_every_pair_twice() {
    let pairs = [(0, 2), (2, 1), (3, 3), (0, 2), (9, 0)];
    let g = Csr::of(4, &pairs);
    let mut got = edges(&g);
    got.sort_unstable();
    let want = [
        (0, 2),
        (0, 2),
        (1, 2),
        (2, 0),
        (2, 0),
        (2, 1),
        (3, 3),
        (3, 3),
    ];
    assert_eq!(got, want);
    for e in 0..8 {
        let (u, v) = (g.source(e) as usize, g.target(e) as usize);
        assert!(g.range(u).contains(&(e as usize)) && got.contains(&(u, v)));
    }
}

#[test]
fn pagerank_is_that_of_floating_point() {
    for g in graphs() {
        let n = g.vertices();
        let mut rank = vec![pagerank::ONE / n as u64; n];
        let mut want = vec![1.0 / n as f64; n];
        for _ in 0..20 {
            rank = pagerank::iterate(&g, &rank);
            // Pushed along the edges, not pulled.
            let mut next = vec![0.15 / n as f64; n];
            for (u, v) in edges(&g) {
                next[v] += 0.85 * want[u] / g.range(u).len() as f64;
            }
            want = next;
        }
        for (got, want) in rank.iter().zip(&want) {
            let got = *got as f64 / pagerank::ONE as f64;
            assert!((got - want).abs() <= want * 1e-3 + 1e-9, "{got} {want}");
        }
    }
}

#[test]
fn levels_are_shortest_in_hops() {
    for g in graphs() {
        let root = bfs::root(&g, 1);
        let level = bfs::levels(&g, root);
        assert_eq!(level[root], 0);
        let group = components(&g);
        for u in 0..g.vertices() {
            assert_eq!(level[u] == FAR, group[u] != group[root], "{u}");
            // Nobody is more than a hop further than a neighbour, and somebody is a hop nearer.
            let near = g.neighbours(u).map(|v| level[v]).min();
            if level[u] != FAR && u != root {
                assert_eq!(near, Some(level[u] - 1), "{u}");
            }
        }
    }
}

#[test]
fn labels_are_components() {
    for g in graphs() {
        let (label, history) = wcc::propagate(&g);
        let want: Vec<u64> = components(&g).iter().map(|c| *c as u64).collect();
        // The smallest number of a component is the name of both.
        assert_eq!(label, want);
        let active: Vec<usize> = history
            .iter()
            .map(|h| h.iter().filter(|a| **a).count())
            .collect();
        assert_eq!(active[0], g.vertices());
        // Few at the end: that is what shrinks the phases.
        assert!(
            active.last().is_some_and(|n| n * 10 < active[0].max(11)),
            "{active:?}"
        );
    }
}

#[test]
fn distances_are_dijkstras() {
    for g in graphs() {
        let root = bfs::root(&g, 4);
        let (got, _) = sssp::relax(&g, root);
        let mut want = vec![FAR; g.vertices()];
        let mut queue = BinaryHeap::from([Reverse((0, root))]);
        while let Some(Reverse((d, u))) = queue.pop() {
            if want[u] != FAR {
                continue;
            }
            want[u] = d;
            for v in g.neighbours(u) {
                queue.push(Reverse((d + Csr::weight(u, v), v)));
            }
        }
        assert_eq!(got, want);
    }
}

/// Modularity by its definition, of communities of the original vertices.
fn modularity(g: &Csr, of: &[usize]) -> f64 {
    let all = g.targets.len() as f64;
    let mut inside: BTreeMap<usize, f64> = BTreeMap::new();
    let mut total: BTreeMap<usize, f64> = BTreeMap::new();
    for (u, v) in edges(g) {
        *total.entry(of[u]).or_default() += 1.0;
        if of[u] == of[v] {
            *inside.entry(of[u]).or_default() += 1.0;
        }
    }
    let expected: f64 = total.values().map(|t| (t / all) * (t / all)).sum();
    inside.values().sum::<f64>() / all - expected
}

#[test]
fn each_level_of_louvain_is_better_than_the_last() {
    for g in graphs() {
        let mut of: Vec<usize> = (0..g.vertices()).collect();
        let mut last = modularity(&g, &of);
        let levels = louvain::levels(&g);
        assert!(!levels.is_empty());
        for l in &levels {
            of = of.iter().map(|c| l.community[*c]).collect();
            let now = modularity(&g, &of);
            assert!(now >= last - 1e-9, "{now} {last}");
            last = now;
        }
        let single = modularity(&g, &(0..g.vertices()).collect::<Vec<_>>());
        assert!(last > single + 0.05, "{last} {single}");
        let sizes: Vec<usize> = levels.iter().map(|l| l.vertices).collect();
        assert!(sizes.windows(2).all(|w| w[1] < w[0]), "{sizes:?}");
    }
}

#[test]
fn louvain_finds_what_was_planted() {
    // Eight cliques of eight in a ring.
    let mut pairs = Vec::new();
    for c in 0..8u64 {
        for i in 0..8 {
            pairs.extend((0..i).map(|j| (8 * c + i, 8 * c + j)));
        }
        pairs.push((8 * c, (8 * c + 8) % 64));
    }
    let levels = louvain::levels(&Csr::of(64, &pairs));
    let want: Vec<usize> = (0..64).map(|u| u / 8).collect();
    assert_eq!(levels[0].community, want);
    assert_eq!(levels[1].vertices, 8);
}
