// SPDX-License-Identifier: GPL-2.0
//! The pages that the graph programs touch.

#![allow(clippy::indexing_slicing)] // Of helpers; clippy lets tests do so.

mod common;

use common::order::order;
use common::{counts, make, touched, MIB};
use huvm_workloads::graph::REAL;
use huvm_workloads::{Step, Touch, Workload};

/// Share of the edges' pages that a list has, each visit counted.
fn visits(w: &Workload, list: &[Touch]) -> f64 {
    let n = list.iter().filter(|t| t.alloc == 1).count();
    n as f64 / w.allocs[1].pages() as f64
}

#[test]
fn pagerank_is_a_cyclic_scan_with_a_hot_random_set() {
    for name in ["pagerank", "pagerank-web"] {
        let w = make(name, 16 * MIB);
        assert_eq!(w.passes, 20);
        let scanned = w.allocs[0].bytes + w.allocs[1].bytes;
        let share = scanned as f64 / w.footprint() as f64;
        assert!((0.85..=0.97).contains(&share), "{share}");
        for pass in [0, 1] {
            let list = touched(&w, pass);
            assert_eq!(visits(&w, &list), 1.0);
            let pages = order(1, &list);
            assert!(pages.windows(2).all(|p| p[1] == p[0] + 1));
            let (old, new) = (2 + pass, 3 - pass);
            assert!(counts(&w, new, &list).iter().all(|c| *c == (0, 1)));
            let reads = counts(&w, old, &list);
            let hot = reads.iter().filter(|c| c.0 > 0).count();
            assert!(hot * 10 > reads.len() * 9, "{hot} of {}", reads.len());
        }
    }
}

#[test]
fn a_search_begins_thin_and_becomes_wide() {
    let w = make("bfs", 32 * MIB);
    // A level ends where its second kernel sweeps "updating" from page 0.
    let list = touched(&w, 0);
    let mut levels = vec![0u32];
    let mut before = None;
    for t in &list {
        match t.alloc {
            1 => *levels.last_mut().unwrap() += 1,
            5 if t.write && t.page == 0 && before != Some(5) => levels.push(0),
            _ => {}
        }
        before = Some(t.alloc);
    }
    let pages = w.allocs[1].pages() as u32;
    assert!((4..15).contains(&levels.len()), "{levels:?}");
    assert!(levels[0] * 20 < pages, "{levels:?} of {pages}");
    assert!(
        levels.iter().max() > Some(&(pages * 6 / 10)),
        "{levels:?} of {pages}"
    );
}

#[test]
fn components_need_less_and_less() {
    let w = make("wcc", 16 * MIB);
    let total = visits(&w, &touched(&w, 0));
    // All of it once, most of it again, then little.
    assert!((1.5..6.0).contains(&total), "{total}");
}

#[test]
fn louvains_phases_shrink_and_leave_a_dead_graph() {
    let w = make("louvain", 16 * MIB);
    let steps: Vec<Step> = w.steps().collect();
    let dead = steps.iter().position(|s| *s == Step::Discard { alloc: 1 });
    let dead = dead.expect("the first graph is discarded");
    let of = |part: &[Step], alloc| {
        let mut n = 0;
        for s in part {
            huvm_workloads::touches::visit(s, &mut |t| n += u64::from(t.alloc == alloc));
        }
        n
    };
    let fine = of(&steps[..dead], 1);
    assert!(fine >= 2 * w.allocs[1].pages());
    assert_eq!(of(&steps[dead..], 1), 0);
    let coarse = of(&steps[dead..], 5);
    assert!(coarse > 0 && coarse < fine);
}

/// Catches a model of large graphs that does something else than the real ones do.
#[test]
fn drawn_graphs_behave_as_real_ones() {
    for name in ["pagerank", "bfs", "wcc", "sssp", "bfs-web", "louvain"] {
        let (real, drawn) = (make(name, REAL), make(name, REAL + 8192));
        let (a, b) = (touched(&real, 0), touched(&drawn, 0));
        let (x, y) = (visits(&real, &a), visits(&drawn, &b));
        assert!((x / y - 1.0).abs() < 0.3, "{name}: {x} {y}");
        let per = |l: &[Touch]| l.len() as f64;
        assert!(
            (per(&a) / per(&b) - 1.0).abs() < 0.3,
            "{name}: {} {}",
            a.len(),
            b.len()
        );
    }
}
