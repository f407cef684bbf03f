// SPDX-License-Identifier: GPL-2.0
//! Replacement policies against closed forms, against exhaustive search, and against a table of the authors
//! (unpublished notes).

use huvm_results::replay::trace::Chunk;
use huvm_results::replay::{by_name, replay, Act, Trace, Traffic};
use huvm_workloads::{find, Ask};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn run(trace: &Trace, room: usize, policy: &str, from: u32) -> Traffic {
    replay(trace, room, by_name(policy, 1).unwrap().as_mut(), from)
}

/// Share of touches that miss beyond each chunk's first, in percent.
fn missed(trace: &Trace, policy: &str) -> f64 {
    let t = run(trace, 800, policy, 0);
    let chunks = trace.chunks().len() as u64;
    100.0 * (t.misses - chunks) as f64 / (t.touches - chunks) as f64
}

fn cycle(ratio: f64) -> Trace {
    Trace::cycle((800.0 * ratio) as u32, 1, 12, Act::Read)
}

/// Chunks forth and back.
fn palindrome(ratio: f64) -> Trace {
    let chunks = (800.0 * ratio) as u32;
    let filled = true;
    let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; chunks as usize]);
    for pass in 0..12 {
        t.begin_pass();
        for i in 0..chunks {
            let chunk = if pass % 2 == 0 { i } else { chunks - 1 - i };
            t.push(chunk, Act::Read);
        }
    }
    t
}

/// A cycle of n chunks in a memory of m misses (n - m) times in n - 1 touches once memory is full, under MIN; always, under
/// LRU. Catches a MIN that evicts another chunk than the furthest.
#[test]
fn a_cycle_has_its_closed_form() {
    for (n, m) in [(24u32, 16usize), (1000, 800), (1496, 800), (3, 2)] {
        let passes = 50;
        let t = Trace::cycle(n, 7, passes, Act::Read);
        let min = run(&t, m, "min", 0);
        let after = u64::from(n) * u64::from(passes - 1);
        let expected = after as f64 * (f64::from(n) - m as f64) / f64::from(n - 1);
        let got = (min.misses - u64::from(n)) as f64;
        // The last period is not whole.
        assert!(
            (got - expected).abs() <= f64::from(n),
            "{n} {m}: {got} {expected}"
        );
        assert_eq!(min.in_bytes, 7 * min.misses);
        assert_eq!(min.out_bytes, 0);
        let lru = run(&t, m, "lru", 0);
        assert_eq!(lru.misses, u64::from(n) * u64::from(passes));
        // One that fits.
        let fits = run(&t, n as usize, "lru", 1);
        assert_eq!((fits.misses, fits.touches), (0, after));
    }
}

/// Forth and back LRU is as good as MIN, but for the chunk at the turn: n - m misses a pass.
#[test]
fn a_palindrome_has_its_closed_form() {
    let t = palindrome(1.25);
    for policy in ["min", "lru"] {
        assert_eq!(run(&t, 800, policy, 1).misses, 11 * 200, "{policy}");
    }
}

/// The reference's table, two points of difference allowed. Catches a policy that is another than its name says.
#[test]
fn the_reference_is_met() {
    // Least recently migrated, true LRU, random, BIP, Belady.
    let policies = ["lrm", "lru", "random", "bip", "min"];
    let table = [
        (cycle(1.10), [100.0, 100.0, 17.0, 11.0, 9.0]),
        (cycle(1.25), [100.0, 100.0, 37.0, 22.0, 20.0]),
        (cycle(1.50), [100.0, 100.0, 58.0, 35.0, 33.0]),
        (cycle(1.87), [100.0, 100.0, 75.0, 48.0, 47.0]),
        (palindrome(1.25), [47.0, 20.0, 28.0, 20.0, 20.0]),
        (palindrome(1.50), [49.0, 33.0, 45.0, 34.0, 33.0]),
    ];
    for (trace, row) in &table {
        for (policy, expected) in policies.iter().zip(row) {
            let got = missed(trace, policy);
            assert!(
                (got - expected).abs() < 2.0,
                "{policy}: {got} for {expected}"
            );
        }
    }
}

/// What is written goes back when it leaves, what is clean does not, and what stays stays.
#[test]
fn only_dirty_chunks_cost_on_the_way_out() {
    let t = Trace::cycle(10, 5, 2, Act::Write);
    let lru = run(&t, 4, "lru", 0);
    assert_eq!((lru.in_bytes, lru.out_bytes, lru.evictions), (100, 80, 16));
    // Only the second pass.
    let lru = run(&t, 4, "lru", 1);
    assert_eq!((lru.in_bytes, lru.out_bytes), (50, 50));
    assert_eq!(run(&t, 4, "lru", 2), Traffic::default());
    // Of what is never used again the clean ones leave first.
    let filled = true;
    let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; 3]);
    t.begin_pass();
    for (chunk, act) in [(0, Act::Write), (1, Act::Read), (2, Act::Read)] {
        t.push(chunk, act);
    }
    assert_eq!(run(&t, 2, "min", 0).out_bytes, 0);
    assert_eq!(run(&t, 2, "lru", 0).out_bytes, 1);
}

/// Zeroes are not fetched, dead contents neither come nor go, and the CPU's reads and writes are paid for.
#[test]
fn zeroes_the_dead_and_the_cpu() {
    let filled = false;
    let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; 2]);
    t.begin_pass();
    for (chunk, act) in [
        (0, Act::Read),      // zero
        (1, Act::Read),      // zero, 0 leaves clean
        (0, Act::Write),     // zero
        (0, Act::HostRead),  // out: 1
        (0, Act::Read),      // there
        (0, Act::HostWrite), // clean: nothing to copy
        (0, Act::Write),     // in: 1
        (0, Act::Discard),   // dead
        (0, Act::Read),      // zero
    ] {
        t.push(chunk, act);
    }
    for policy in ["min", "lru", "lrm", "random", "bip"] {
        let got = run(&t, 1, policy, 0);
        assert_eq!((got.in_bytes, got.out_bytes), (1, 1), "{policy}");
        assert_eq!((got.misses, got.zero_fills), (5, 4), "{policy}");
    }
}

/// What the GPU wrote into zeroes is worth something: it goes out and has to come again.
#[test]
fn zeroes_that_were_written_are_contents() {
    let filled = false;
    let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; 2]);
    t.begin_pass();
    for (chunk, act) in [(0, Act::Write), (1, Act::Read), (0, Act::Read)] {
        t.push(chunk, act);
    }
    let got = run(&t, 1, "lru", 0);
    assert_eq!((got.in_bytes, got.out_bytes, got.zero_fills), (1, 1, 2));
}

/// A chunk whose contents die before they are read again is not worth keeping.
#[test]
fn min_knows_who_is_dead() {
    let filled = true;
    let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; 3]);
    t.begin_pass();
    for (chunk, act) in [
        (0, Act::Read),
        (1, Act::Read),
        (2, Act::Read), // 0 or 1 leaves: 0 is overwritten by the CPU before its next use, which comes first
        (0, Act::HostWrite),
        (0, Act::Read),
        (1, Act::Read),
    ] {
        t.push(chunk, act);
    }
    assert_eq!(run(&t, 2, "min", 0).misses, 4);
}

/// Every workload of the catalog: MIN has no more misses and brings no more than any other, and in a memory that holds all
/// everything comes once. Catches a trace that differs from pass to pass of the tool, and a wrong next use.
#[test]
fn nobody_beats_min_on_the_catalog() {
    for e in huvm_workloads::catalog::CATALOG {
        let ask = Ask {
            passes: Some(2),
            ..Ask::bytes(4 << 20)
        };
        let w = e.make(&ask).unwrap();
        let t = Trace::of(&w, 64 << 10).unwrap();
        let room = t.chunks().len() * 2 / 3;
        let min = run(&t, room, "min", 0);
        for policy in ["lru", "lrm", "random", "bip"] {
            let other = run(&t, room, policy, 0);
            assert_eq!(min.touches, other.touches);
            assert!(min.misses <= other.misses, "{} {policy}", e.name);
        }
        // What the CPU writes, or is dead, comes again even to a memory that holds all.
        let whole = run(&t, t.chunks().len(), "lru", 0);
        assert_eq!(whole.evictions, 0, "{}", e.name);
        assert!(whole.in_bytes <= min.in_bytes, "{}", e.name);
        assert_eq!(run(&t, room, "min", 0), min);
    }
}

/// Chunks of an allocation do not reach into the next one, and the last is as large as what is left.
#[test]
fn allocations_have_their_own_chunks() {
    let w = find("stream-triad").or_else(|| find("streamtriad"));
    let w = w.unwrap().make(&Ask::bytes(10 << 20)).unwrap();
    let t = Trace::of(&w, 2 << 20).unwrap();
    let expected: u64 = w.allocs.iter().map(|a| a.bytes.div_ceil(2 << 20)).sum();
    assert_eq!(t.chunks().len() as u64, expected);
    assert_eq!(t.footprint(), w.footprint());
}

/// State of the search: which chunks are there, which of them dirty.
type Memory = (u16, u16);

/// Fewest misses, and least bytes in and out, over all choices of victims. Chunks of one byte, all filled.
fn exhaustive(acts: &[(u32, bool)], room: u32) -> (u64, u64) {
    let search = |cost_in: u64, cost_out: u64| {
        let mut states: BTreeMap<Memory, u64> = BTreeMap::from([((0, 0), 0)]);
        for (chunk, write) in acts {
            let bit = 1u16 << chunk;
            let dirt = if *write { bit } else { 0 };
            let mut next: BTreeMap<Memory, u64> = BTreeMap::new();
            let mut reach = |s: Memory, cost: u64| {
                let best = next.entry(s).or_insert(cost);
                *best = cost.min(*best);
            };
            for ((there, dirty), cost) in &states {
                if there & bit != 0 {
                    reach((*there, dirty | dirt), *cost);
                } else if there.count_ones() < room {
                    reach((there | bit, dirty | dirt), cost + cost_in);
                } else {
                    for v in (0..16).map(|v| 1u16 << v).filter(|v| there & v != 0) {
                        let out = if dirty & v != 0 { cost_out } else { 0 };
                        let after = (there & !v | bit, dirty & !v | dirt);
                        reach(after, cost + cost_in + out);
                    }
                }
            }
            states = next;
        }
        states.into_values().min().unwrap()
    };
    (search(1, 0), search(1, 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// MIN against exhaustive search: misses are the fewest, and the least sum lies where the documentation says.
    #[test]
    fn min_is_optimal(
        acts in proptest::collection::vec((0u32..6, any::<bool>()), 1..24),
        room in 1u32..5,
    ) {
        let filled = true;
        let mut t = Trace::new(vec![Chunk { bytes: 1, filled }; 6]);
        t.begin_pass();
        for (chunk, write) in &acts {
            t.push(*chunk, if *write { Act::Write } else { Act::Read });
        }
        let (misses, sum) = exhaustive(&acts, room);
        let min = run(&t, room as usize, "min", 0);
        prop_assert_eq!(min.misses, misses);
        prop_assert_eq!(min.in_bytes, misses);
        prop_assert!(min.in_bytes <= sum && sum <= min.bytes());
        prop_assert!(min.bytes() <= 2 * sum);
        for policy in ["lru", "lrm", "random", "bip"] {
            let other = run(&t, room as usize, policy, 0);
            prop_assert!(other.misses >= misses && other.bytes() >= sum, "{}", policy);
            // Whoever came and is not there any more was evicted.
            prop_assert!(other.misses - other.evictions <= u64::from(room));
        }
    }
}
