// SPDX-License-Identifier: GPL-2.0
//! What streams of faults are worth, on whole patterns: a memory that is too small under touches of parts of blocks, which
//! come in batches sorted by address, as from 80 SMs. The table's advice is carried out at once.

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
    together: u32::MAX,
    stride: 1,
    stride_max: 32,
    streams: 16,
    confirm: 4,
    cycles: false,
};

/// Parts of a block that are fetched one by one.
const PARTS: u64 = 64;
/// Touches under way at once: those that fault are one batch, which is sorted by address, as the driver has it.
const WIDE: usize = 80;

/// A block that is there, in part at least.
#[derive(Clone, Copy, Default)]
struct There {
    parts: u64,
    /// Fetched ahead, and not judged yet.
    ahead: bool,
}

/// What a pattern cost.
#[derive(Debug, Default)]
struct Cost {
    /// Parts asked for that were not there.
    faults: u64,
    /// Parts fetched.
    moved: u64,
}

/// A memory of `room` blocks; the block that came first makes room.
struct Memory {
    room: usize,
    blocks: BTreeMap<u64, There>,
    order: VecDeque<u64>,
    table: StreamTable,
    cost: Cost,
}

impl Memory {
    /// Fetches parts of a block.
    fn bring(&mut self, block: u64, parts: u64, ahead: bool) {
        if !self.blocks.contains_key(&block) {
            if self.blocks.len() == self.room {
                let old = self.order.pop_front().unwrap();
                if self.blocks.remove(&old).unwrap().ahead {
                    self.table.report(Outcome::Wasted, 1);
                }
            }
            self.order.push_back(block);
        }
        let there = self.blocks.entry(block).or_default();
        self.cost.moved += u64::from((parts & !there.parts).count_ones());
        there.parts |= parts;
        there.ahead |= ahead;
    }

    /// One batch.
    fn serve(&mut self, nr: u64, touches: &[(u64, u64)], span: &BlockSpan, config: &StreamConfig) {
        let mut missing: BTreeMap<u64, u64> = BTreeMap::new();
        for (block, part) in touches {
            let there = self
                .blocks
                .get(block)
                .is_some_and(|t| t.parts >> part & 1 != 0);
            if !there {
                *missing.entry(*block).or_default() |= 1 << part;
            }
        }
        for (block, mut parts) in missing {
            self.cost.faults += u64::from(parts.count_ones());
            let advice = self.table.fault(BlockNo(block), span, nr, false, config);
            for p in advice.passed.iter().flatten().flat_map(|r| r.blocks()) {
                if let Some(t) = self.blocks.get_mut(&p.0).filter(|t| t.ahead) {
                    t.ahead = false;
                    self.table.report(Outcome::Useful, 1);
                }
            }
            // What a stream goes over is fetched whole; so is what is half there.
            let there = self.blocks.get(&block).map_or(0, |t| t.parts) | parts;
            if advice.run.is_some() || advice.expected || u64::from(there.count_ones()) * 2 > PARTS
            {
                parts = u64::MAX;
            }
            self.bring(block, parts, false);
            for p in advice.run.iter().flat_map(|r| r.blocks()) {
                self.bring(p.0, u64::MAX, true);
            }
        }
    }
}

/// Runs touches of parts.
fn run(touches: &[(u64, u64)], span: &BlockSpan, room: usize, config: &StreamConfig) -> Cost {
    let mut m = Memory {
        room,
        blocks: BTreeMap::new(),
        order: VecDeque::new(),
        table: StreamTable::new(),
        cost: Cost::default(),
    };
    for (nr, batch) in (0..).zip(touches.chunks(WIDE)) {
        m.serve(nr, batch, span, config);
    }
    m.cost
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

/// Touches of any part of any block.
fn uniform(n: u64, blocks: u64) -> Vec<(u64, u64)> {
    let mut c = Chance(7);
    (0..n).map(|_| (c.below(blocks), c.below(PARTS))).collect()
}

/// Popularity falls with rank; ranks are scattered over all parts.
fn zipf(n: u64, blocks: u64) -> Vec<(u64, u64)> {
    let mut at = 0.0;
    let sums: Vec<f64> = (1..=blocks * PARTS)
        .map(|rank| {
            at += 1.0 / (rank as f64).powf(0.9);
            at
        })
        .collect();
    let mut c = Chance(9);
    let mut place: Vec<u64> = (0..blocks * PARTS).collect();
    for i in (1..place.len()).rev() {
        let j = c.below(i as u64 + 1) as usize;
        place.swap(i, j);
    }
    (0..n)
        .map(|_| {
            let x = c.below(1 << 30) as f64 / (1u64 << 30) as f64 * at;
            let rank = sums.partition_point(|s| *s <= x);
            let p = place[rank.min(place.len() - 1)];
            (p / PARTS, p % PARTS)
        })
        .collect()
}

/// All parts of blocks in this order, by so many at once: each works on a share of the next `wide` blocks.
fn walk(blocks: &[u64], wide: usize) -> Vec<(u64, u64)> {
    blocks
        .chunks(wide)
        .flat_map(|front| (0..PARTS).flat_map(move |p| front.iter().map(move |b| (*b, p))))
        .collect()
}

/// Passes over all parts by a launch of many blocks, each with `own` parts, [`WIDE`] of them at a time and none at another's pace:
/// the front is `WIDE * own` parts wide.
fn front(passes: u64, blocks: u64, own: u64) -> Vec<(u64, u64)> {
    let mut c = Chance(3);
    let mut touches = Vec::new();
    for _ in 0..passes {
        let mut next = 0;
        let mut running: Vec<(u64, u64)> = Vec::new();
        loop {
            while running.len() < WIDE && next < blocks * PARTS {
                running.push((next, (next + own).min(blocks * PARTS)));
                next += own;
            }
            if running.is_empty() {
                break;
            }
            let i = c.below(running.len() as u64) as usize;
            let (at, end) = &mut running[i];
            touches.push((*at / PARTS, *at % PARTS));
            *at += 1;
            if at == end {
                running.remove(i);
            }
        }
    }
    touches
}

fn scan(passes: u64, blocks: u64) -> Vec<u64> {
    (0..passes * blocks).map(|i| i % blocks).collect()
}

/// Forward, then back.
fn palindrome(passes: u64, blocks: u64) -> Vec<u64> {
    let pass = |p| (0..blocks).map(move |i| if p % 2 == 0 { i } else { blocks - 1 - i });
    (0..passes).flat_map(pass).collect()
}

/// Three arrays in lock-step.
fn lockstep(passes: u64, blocks: u64) -> Vec<u64> {
    let each = blocks / 3;
    let step = move |i| [i, each + i, 2 * each + i];
    (0..passes * each).flat_map(|i| step(i % each)).collect()
}

/// A scan of nine tenths, and after each of its parts a touch by chance in the last tenth.
fn pagerank(passes: u64, blocks: u64) -> Vec<(u64, u64)> {
    let mut c = Chance(5);
    let edges = blocks * 9 / 10;
    walk(&scan(passes, edges), 1)
        .into_iter()
        .flat_map(|t| [t, (edges + c.below(blocks - edges), c.below(PARTS))])
        .collect()
}

/// A matrix by columns: every `step`th block, then those after them.
fn columns(passes: u64, blocks: u64, step: u64) -> Vec<u64> {
    let column = move |s| {
        (0..)
            .map(move |i| s + i * step)
            .take_while(move |b| *b < blocks)
    };
    (0..passes)
        .flat_map(|_| (0..step).flat_map(column))
        .collect()
}

/// What a pattern costs without streams and with them, in a memory of `room` blocks under a range of `blocks`.
fn both(touches: &[(u64, u64)], room: usize, blocks: u64) -> [Cost; 2] {
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
const SIZES: [(usize, u64); 4] = [(54, 68), (54, 81), (54, 108), (800, 1000)];

/// What was measured, for a reader.
fn say(name: &str, room: usize, blocks: u64, off: &Cost, on: &Cost) {
    let (f, m) = (
        on.faults as f64 / off.faults as f64,
        on.moved as f64 / off.moved as f64,
    );
    println!("{name:12} {blocks:5} blocks in {room:4}: faults {:8}, times {f:.3}; moved {:8}, times {m:.3}", off.faults, off.moved);
}

/// Catches streams found by chance: in a short range most steps are among the last faults, and a batch that is sorted has an
/// order whatever it is of.
#[test]
fn touches_by_chance_are_no_stream() {
    // And one in whose range all that is remembered counts.
    for (room, blocks) in SIZES.into_iter().chain([(2560, 3200)]) {
        let n = 8 * PARTS * blocks;
        for (name, t) in [("uniform", uniform(n, blocks)), ("zipf", zipf(n, blocks))] {
            let [off, on] = both(&t, room, blocks);
            say(name, room, blocks, &off, &on);
            assert!(
                on.faults * 100 <= off.faults * 101,
                "{name} {room}/{blocks}"
            );
            assert!(on.moved * 100 <= off.moved * 102, "{name} {room}/{blocks}");
        }
    }
}

/// Catches a rule against chance that also refuses what is a stream.
#[test]
fn what_has_an_order_is_fetched_ahead_and_moves_no_more() {
    for (room, blocks) in SIZES {
        let large = room > 100;
        let of = |few, many| if large { few } else { many };
        for (name, t, faults) in [
            ("scan", walk(&scan(4, blocks), 1), of(10, 20)),
            ("scan by 8", walk(&scan(4, blocks), 8), of(10, 20)),
            ("scan by 16", walk(&scan(4, blocks), 16), of(10, 25)),
            ("front", front(4, blocks, 6), of(10, 30)),
            ("palindrome", walk(&palindrome(4, blocks), 1), of(15, 40)),
            ("pagerank", pagerank(4, blocks), of(10, 20)),
            ("columns", walk(&columns(4, blocks, 7), 1), of(15, 80)),
            ("columns by 8", walk(&columns(4, blocks, 7), 8), of(15, 66)),
            // Where three arrays share a short range, the faults that count hold no four steps of one of them.
            ("lock-step", walk(&lockstep(4, blocks), 3), of(10, 100)),
        ] {
            let [off, on] = both(&t, room, blocks);
            say(name, room, blocks, &off, &on);
            assert!(
                on.faults * 100 <= off.faults * faults,
                "{name} {room}/{blocks}"
            );
            // Where the scan comes to the touches by chance its stream ends, and is found anew.
            let moved = if name == "pagerank" { 122 } else { 120 };
            assert!(
                on.moved * 100 <= off.moved * of(105, moved),
                "{name} {room}/{blocks}"
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
            let advice = table.fault(BlockNo(first + i), &span, i, false, &CONFIG);
            advised += advice.run.map_or(0, |r| r.count);
        }
    }
    // Five of each array make the stream, the rest is ahead of it.
    assert_eq!(advised, 3 * (27 - 5));
}

/// A phase that streams, then touches by chance of the same range. Catches a stream that goes on from block to block of a batch, which
/// is sorted: it would find any of them in reach, and fetch whole blocks for as long as the program runs (3 to 20 times what is wanted).
#[test]
fn what_a_scan_leaves_behind_ends_with_it() {
    for (room, blocks) in SIZES.into_iter().chain([(72, 108), (128, 192), (352, 450)]) {
        let of = |cycles| StreamConfig { cycles, ..CONFIG }.on(u32::try_from(room).unwrap());
        let span = BlockSpan {
            first: BlockNo(0),
            end: BlockNo(blocks),
        };
        for (name, config) in [("memharvester", of(false)), ("huvm", of(true))] {
            for passes in 1..4 {
                let before = walk(&scan(passes, blocks), 8);
                let chance = uniform(16 * PARTS * blocks, blocks);
                let all: Vec<_> = before.iter().chain(&chance).copied().collect();
                let [scanned, on] = [&before, &all].map(|t| run(t, &span, room, &config));
                let off = StreamConfig {
                    mode: StreamMode::Off,
                    ..config
                };
                let [without, off] = [&before, &all].map(|t| run(t, &span, room, &off));
                // Of the touches by chance alone.
                let (on, off) = (on.moved - scanned.moved, off.moved - without.moved);
                println!("{name} {passes} {room}/{blocks}: {on} for {off}");
                assert!(on * 100 <= off * 115, "{name} {passes} {room}/{blocks}");
            }
        }
    }
}
