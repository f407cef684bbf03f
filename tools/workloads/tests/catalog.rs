// SPDX-License-Identifier: GPL-2.0
//! What holds for every workload of the catalog.

mod common;

use common::{digest, inside, touched, MIB};
use huvm_workloads::catalog::{CATALOG, LEAST, MOST};
use huvm_workloads::shadow::Shadow;
use huvm_workloads::{Ask, Entry, Refused, Step, MAX_BLOCKS};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Those in which anything is random.
fn seeded(name: &str) -> bool {
    let graph = ["pagerank", "bfs", "wcc", "sssp", "louvain"];
    ["ra", "uniform", "zipf", "llm-moe", "faiss"].contains(&name)
        || graph.iter().any(|g| name.starts_with(g))
}

/// Share of each array's pages that two passes touch at least.
fn covered(name: &str) -> f64 {
    match name {
        // 1 - e^-2 of the pages, and of Zipf's tail less.
        "uniform" => 0.85,
        // Lists and experts that are not drawn; the last tokens of the cache.
        "faiss" | "llm-moe" | "llm-decode" => 0.4,
        "zipf" => 0.5,
        // Vertices without edges.
        "bfs" | "bfs-web" | "sssp" | "sssp-web" => 0.9,
        _ => 0.97,
    }
}

fn ask(bytes: u64, seed: u64) -> Ask {
    Ask {
        bytes,
        full: None,
        seed,
        passes: Some(2),
    }
}

/// Catches a size that is rounded too coarsely, or an array forgotten.
#[test]
fn footprints_are_what_was_asked() {
    for e in CATALOG {
        for bytes in [LEAST, 8 * MIB, 12_345_678, 24 << 30] {
            let got = e.make(&ask(bytes, 1)).unwrap().footprint();
            assert!(
                got.abs_diff(bytes) * 100 <= bytes,
                "{}: {got} for {bytes}",
                e.name
            );
        }
        for bytes in [0, LEAST - 1, MOST + 1, u64::MAX] {
            assert!(matches!(
                e.make(&ask(bytes, 1)),
                Err(Refused::Footprint(b)) if b == bytes
            ));
        }
        let full = Ask {
            full: Some(MOST + 1),
            ..ask(LEAST, 1)
        };
        assert!(matches!(e.make(&full), Err(Refused::Footprint(b)) if b == MOST + 1));
    }
}

/// Catches a network whose parts change with the footprint and not with what it stands for, and any other workload that does.
#[test]
fn what_it_stands_for_is_of_training_alone() {
    let sizes = |e: &Entry, full| {
        let w = e.make(&Ask {
            full,
            ..ask(8 * MIB, 1)
        });
        let w = w.unwrap();
        let sizes: Vec<u64> = w.allocs.iter().map(|a| a.bytes).collect();
        (sizes, w.footprint())
    };
    for e in CATALOG {
        let (own, _) = sizes(e, None);
        assert_eq!(own, sizes(e, Some(8 * MIB)).0, "{}", e.name);
        assert_eq!(own, sizes(e, Some(LEAST)).0, "{}", e.name);
        let (large, bytes) = sizes(e, Some(24 << 30));
        assert_eq!(own != large, e.family == "training", "{}", e.name);
        assert!(bytes.abs_diff(8 * MIB) * 100 <= 8 * MIB, "{}", e.name);
    }
}

/// Catches an access behind an array's end, at a size where offsets need more than 32 bits as well.
#[test]
fn steps_stay_inside() {
    for e in CATALOG {
        let w = e.make(&ask(LEAST, 3)).unwrap();
        w.steps().for_each(|s| inside(&w, &s));
        let w = e.make(&ask(24 << 30, 3)).unwrap();
        for step in w.pass(0).take(40) {
            inside(&w, &step);
            if let Step::Launch(p) = &step {
                assert!(u64::from(p.blocks) <= MAX_BLOCKS);
            }
        }
    }
}

/// Catches state that is shared between passes or runs, and a seed that is not used.
#[test]
fn a_seed_decides_all() {
    for e in CATALOG {
        // The smallest index has one list.
        let bytes = if e.name == "faiss" { 16 * MIB } else { LEAST };
        let of = |seed| digest(&e.make(&ask(bytes, seed)).unwrap());
        assert_eq!(of(1), of(1), "{}", e.name);
        let random = seeded(e.name);
        assert_eq!(of(1) != of(2), random, "{}", e.name);
    }
}

/// Catches an array that is allocated and not used: then a footprint ratio would mean nothing.
#[test]
fn every_array_is_used() {
    for e in CATALOG {
        let w = e.make(&ask(LEAST, 1)).unwrap();
        let mut seen: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); w.allocs.len()];
        for pass in 0..w.passes {
            for t in touched(&w, pass) {
                seen[t.alloc as usize].insert(t.page);
            }
        }
        for (a, seen) in w.allocs.iter().zip(&seen) {
            // An array may end with the first word of a page.
            let share = (seen.len() + 1) as f64 / a.pages() as f64;
            assert!(share > covered(e.name), "{} {}: {share}", e.name, a.name);
        }
    }
}

/// Catches a program in which a block reads what another one writes: on the engine blocks run side by side.
#[test]
fn programs_do_not_depend_on_the_order_of_blocks() {
    for e in CATALOG {
        let w = e.make(&ask(LEAST, 1)).unwrap();
        let mut up = Shadow::new(&w.allocs).unwrap();
        let mut down = up.clone();
        for step in w.steps() {
            match &step {
                Step::Launch(p) => {
                    up.launch(p, 0..p.blocks.into());
                    down.launch(p, (0..p.blocks.into()).rev());
                }
                other => {
                    up.step(other);
                    down.step(other);
                }
            }
        }
        assert!(up == down, "{}", e.name);
    }
}

#[test]
fn names_are_unique_and_plain() {
    let names: BTreeSet<&str> = CATALOG.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), CATALOG.len());
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(names.iter().all(|n| n.chars().all(plain)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// As the two above, for sizes that nobody thought of.
    #[test]
    fn any_size_is_right(
        which in 0..CATALOG.len(),
        bytes in LEAST..12 * MIB,
        full in proptest::option::of(LEAST..MOST),
        seed: u64,
    ) {
        let e = CATALOG[which];
        let w = e.make(&Ask { bytes, full, seed, passes: Some(1) }).unwrap();
        prop_assert!(w.footprint().abs_diff(bytes) * 100 <= bytes, "{} {}", e.name, w.footprint());
        w.steps().for_each(|s| inside(&w, &s));
    }
}
