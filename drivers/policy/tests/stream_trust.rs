// SPDX-License-Identifier: GPL-2.0
//! What streams of faults are worth, on whole patterns: a small memory under a sequence of touches, with the table's advice
//! carried out at once. What was fetched ahead and thrown away again untouched is counted by the test itself, which sees
//! every touch; the table sees faults, as the driver does.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::stream::{BlockNo, BlockSpan, Outcome, StreamConfig, StreamMode, StreamTable};
use std::collections::{BTreeMap, VecDeque};

/// As preset `memharvester` has it.
const CONFIG: StreamConfig = StreamConfig {
    mode: StreamMode::Stride,
    amount: 16,
    stride: 1,
    stride_max: 32,
    streams: 8,
    confirm: 4,
};

/// A block that is there.
#[derive(Clone, Copy, Default)]
struct There {
    /// Fetched ahead, and not judged yet.
    ahead: bool,
    /// Fetched ahead, and not touched yet.
    idle: bool,
}

/// What a pattern cost.
#[derive(Debug, Default)]
struct Cost {
    faults: u64,
    fetched_ahead: u64,
    /// Of these, thrown away untouched.
    useless: u64,
}

impl Cost {
    fn moved(&self) -> u64 {
        self.faults + self.fetched_ahead
    }
}

/// Runs `touches` in a memory of `room` blocks; LRM.
fn run(touches: &[u64], span: &BlockSpan, room: usize, config: &StreamConfig) -> Cost {
    let mut table = StreamTable::new();
    let mut memory: BTreeMap<u64, There> = BTreeMap::new();
    let mut order: VecDeque<u64> = VecDeque::new();
    let mut cost = Cost::default();
    for &b in touches {
        if let Some(t) = memory.get_mut(&b) {
            t.idle = false;
            continue;
        }
        cost.faults += 1;
        let advice = table.fault(BlockNo(b), span, config);
        for p in advice.passed.iter().flat_map(|r| r.blocks()) {
            if let Some(t) = memory.get_mut(&p.0).filter(|t| t.ahead) {
                t.ahead = false;
                table.report(Outcome::Useful, 1);
            }
        }
        let bring = |table: &mut StreamTable,
                     memory: &mut BTreeMap<u64, There>,
                     order: &mut VecDeque<u64>,
                     cost: &mut Cost,
                     b: u64,
                     ahead: bool| {
            if memory.len() == room {
                let old = order.pop_front().unwrap();
                let old = memory.remove(&old).unwrap();
                if old.ahead {
                    table.report(Outcome::Wasted, 1);
                }
                cost.useless += u64::from(old.idle);
            }
            memory.insert(b, There { ahead, idle: ahead });
            order.push_back(b);
        };
        bring(&mut table, &mut memory, &mut order, &mut cost, b, false);
        for p in advice.run.iter().flat_map(|r| r.blocks()) {
            if !memory.contains_key(&p.0) {
                cost.fetched_ahead += 1;
                bring(&mut table, &mut memory, &mut order, &mut cost, p.0, true);
            }
        }
    }
    cost
}

/// Numbers by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn uniform(n: u64, blocks: u64) -> Vec<u64> {
    let mut c = Chance(7);
    (0..n).map(|_| c.below(blocks)).collect()
}

/// Popularity falls with rank; ranks are scattered over the range.
fn zipf(n: u64, blocks: u64) -> Vec<u64> {
    let weights: Vec<f64> = (0..blocks)
        .map(|i| 1.0 / ((i + 1) as f64).powf(0.9))
        .collect();
    let all: f64 = weights.iter().sum();
    let mut c = Chance(9);
    let mut place: Vec<u64> = (0..blocks).collect();
    for i in (1..place.len()).rev() {
        let j = c.below(i as u64 + 1) as usize;
        place.swap(i, j);
    }
    (0..n)
        .map(|_| {
            let mut x = c.below(1 << 30) as f64 / (1u64 << 30) as f64 * all;
            let rank = weights
                .iter()
                .position(|w| {
                    x -= w;
                    x <= 0.0
                })
                .unwrap_or(0);
            place[rank]
        })
        .collect()
}

fn scan(passes: u64, blocks: u64) -> Vec<u64> {
    (0..passes * blocks).map(|i| i % blocks).collect()
}

/// Forward, then back.
fn palindrome(passes: u64, blocks: u64) -> Vec<u64> {
    (0..passes)
        .flat_map(|p| (0..blocks).map(move |i| if p % 2 == 0 { i } else { blocks - 1 - i }))
        .collect()
}

/// Three arrays in lock-step.
fn lockstep(passes: u64, blocks: u64) -> Vec<u64> {
    let each = blocks / 3;
    (0..passes)
        .flat_map(|_| (0..each).flat_map(move |i| [i, each + i, 2 * each + i]))
        .collect()
}

/// A front of blocks, jumbled: what many SMs do.
fn front(passes: u64, blocks: u64, wide: u64) -> Vec<u64> {
    let mut c = Chance(3);
    let mut all = scan(passes, blocks);
    for i in 0..all.len() {
        let j = i + c.below(wide) as usize;
        if j < all.len() {
            all.swap(i, j);
        }
    }
    all
}

/// A scan of nine tenths, and after each of its steps some touches by chance in the last tenth.
fn pagerank(passes: u64, blocks: u64) -> Vec<u64> {
    let mut c = Chance(5);
    let edges = blocks * 9 / 10;
    (0..passes * edges)
        .flat_map(|i| {
            let hot = edges + c.below(blocks - edges);
            [i % edges, hot]
        })
        .collect()
}

fn column(passes: u64, blocks: u64, step: u64) -> Vec<u64> {
    (0..passes)
        .flat_map(|_| {
            (0..step).flat_map(move |s| {
                (0..)
                    .map(move |i| s + i * step)
                    .take_while(move |b| *b < blocks)
            })
        })
        .collect()
}

/// What a pattern costs without streams and with them, in a memory of `room` blocks under a range of `blocks`.
fn both(touches: &[u64], room: usize, blocks: u64) -> [Cost; 2] {
    let span = BlockSpan {
        first: BlockNo(0),
        end: BlockNo(blocks),
    };
    let off = StreamConfig {
        mode: StreamMode::Off,
        ..CONFIG
    };
    [off, CONFIG].map(|c| run(touches, &span, room, &c))
}

/// Small memories, as the tests have them, and one of 1.6 GiB; each with ranges somewhat larger.
const SIZES: [(usize, u64); 5] = [(54, 68), (54, 81), (54, 108), (800, 1000), (800, 1496)];

/// Catches streams found by chance: in a short range most steps are among the last faults.
#[test]
fn touches_by_chance_are_no_stream() {
    for (room, blocks) in SIZES {
        let n = 40 * blocks;
        for (name, t) in [("uniform", uniform(n, blocks)), ("zipf", zipf(n, blocks))] {
            let [off, on] = both(&t, room, blocks);
            println!("{name}, {blocks} blocks in {room}: {off:?}, with streams {on:?}");
            assert!(
                on.moved() * 100 <= off.moved() * 103,
                "{name} {room}/{blocks}: {on:?}"
            );
        }
    }
}

/// Catches a rule against chance that also refuses what is a stream.
#[test]
fn what_has_an_order_is_fetched_ahead_and_moves_no_more() {
    for (room, blocks) in SIZES {
        let large = room > 100;
        for (name, t, share) in [
            ("scan", scan(8, blocks), 15),
            ("palindrome", palindrome(8, blocks), 35),
            ("pagerank", pagerank(8, blocks), 35),
            (
                "front of 8",
                front(8, blocks, 8),
                if large { 15 } else { 90 },
            ),
            (
                "front of 16",
                front(8, blocks, 16),
                if large { 20 } else { 100 },
            ),
            ("columns", column(8, blocks, 7), if large { 15 } else { 80 }),
            // Where three arrays share a short range, no four steps of one are among the faults that count.
            (
                "lock-step",
                lockstep(8, blocks),
                if blocks >= 108 { 15 } else { 100 },
            ),
        ] {
            let [off, on] = both(&t, room, blocks);
            println!("{name}, {blocks} blocks in {room}: {off:?}, with streams {on:?}");
            assert!(
                on.faults * 100 <= off.faults * share,
                "{name} {room}/{blocks}: {on:?}"
            );
            assert!(
                on.moved() * 100 <= off.moved() * 110,
                "{name} {room}/{blocks}: {on:?}"
            );
        }
    }
}

/// Three short arrays, each a range of its own, walked in lock-step. Catches a count of late faults over all ranges: between two
/// of one array there are two of the others.
#[test]
fn short_arrays_in_ranges_of_their_own_are_streams() {
    let each = 27;
    let mut table = StreamTable::new();
    let mut advised = 0;
    for i in 0..each {
        for array in 0..3u64 {
            let first = array * 1000;
            let span = BlockSpan {
                first: BlockNo(first),
                end: BlockNo(first + each),
            };
            let advice = table.fault(BlockNo(first + i), &span, &CONFIG);
            advised += advice.run.map_or(0, |r| r.count);
        }
    }
    // Five of each array make the stream, the rest is ahead of it.
    assert_eq!(advised, 3 * (27 - 5));
}
