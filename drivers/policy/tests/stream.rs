// SPDX-License-Identifier: GPL-2.0
//! Stream detection: walks of every kind, jumbled, interleaved, and faults without any order.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::config::{KnobId, Policy};
use huvm_policy::stream::{
    Advice, BlockNo, BlockSpan, Outcome, StreamConfig, StreamId, StreamMode, StreamTable,
    STREAMS_MAX,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

const STRIDE: StreamConfig = StreamConfig {
    mode: StreamMode::Stride,
    amount: 4,
    together: u32::MAX,
    stride: 1,
    stride_max: 32,
    streams: 16,
    confirm: 2,
    cycles: false,
};
const NEXT_LINE: StreamConfig = StreamConfig {
    mode: StreamMode::NextLine,
    ..STRIDE
};

fn span(first: u64, end: u64) -> BlockSpan {
    BlockSpan {
        first: BlockNo(first),
        end: BlockNo(end),
    }
}

/// The blocks advised, in order.
fn blocks(a: &Advice) -> Vec<u64> {
    a.run.iter().flat_map(|r| r.blocks()).map(|b| b.0).collect()
}

/// A number that no batch had before.
fn batch() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// A fault in a batch of its own.
fn fault(t: &mut StreamTable, at: u64, s: &BlockSpan, c: &StreamConfig) -> Advice {
    t.fault(BlockNo(at), s, batch(), false, c)
}

/// Faults on `at` one after another, each in a batch of its own; what each was answered.
fn faults(t: &mut StreamTable, at: &[u64], s: &BlockSpan, c: &StreamConfig) -> Vec<Advice> {
    at.iter().map(|&b| fault(t, b, s, c)).collect()
}

/// The last answer's blocks.
fn after(at: &[u64], s: &BlockSpan, c: &StreamConfig) -> Vec<u64> {
    let all = faults(&mut StreamTable::new(), at, s, c);
    assert!(
        all[..all.len() - 1].iter().all(|a| a.run.is_none()),
        "too early"
    );
    blocks(all.last().unwrap())
}

#[test]
fn what_a_stream_went_over_is_told_once() {
    let s = span(0, 1000);
    let passed = |a: &Advice| -> Vec<u64> {
        let run = a.passed.iter().flatten();
        run.flat_map(|r| r.blocks().map(|b| b.0)).collect()
    };
    for (begin, next, over) in [
        ([10, 11, 12], 17, vec![13, 14, 15, 16]),
        ([12, 11, 10], 5, vec![9, 8, 7, 6]),
        ([10, 12, 14], 18, vec![16]),
        // In the middle of what was fetched ahead: the ones before it were there.
        ([10, 11, 12], 15, vec![13, 14]),
        ([10, 11, 12], 13, vec![]),
        // Of no stream.
        ([10, 11, 12], 300, vec![]),
    ] {
        let mut t = StreamTable::new();
        for a in faults(&mut t, &begin, &s, &STRIDE) {
            assert_eq!(a.passed, [None; 2]);
        }
        let a = fault(&mut t, next, &s, &STRIDE);
        assert_eq!(passed(&a), over, "{begin:?}, {next}");
        // A straggler behind it goes over nothing again.
        let a = fault(&mut t, begin[2], &s, &STRIDE);
        assert_eq!(passed(&a), [0; 0], "{begin:?}, {next}");
    }
}

#[test]
fn up_down_and_by_strides() {
    let s = span(0, 1000);
    for c in [&STRIDE, &NEXT_LINE] {
        assert_eq!(after(&[10, 11, 12], &s, c), [13, 14, 15, 16]);
        assert_eq!(after(&[12, 11, 10], &s, c), [9, 8, 7, 6]);
        assert_eq!(after(&[10, 11, 13], &s, c), [0; 0]);
        assert_eq!(
            after(&[10, 12, 11], &s, c),
            [0; 0],
            "10 and 11 are one step only"
        );
    }
    assert_eq!(after(&[10, 17, 24], &s, &STRIDE), [31, 38, 45, 52]);
    assert_eq!(after(&[500, 468, 436], &s, &STRIDE), [404, 372, 340, 308]);
    assert_eq!(
        after(&[10, 43, 76], &s, &STRIDE),
        [0; 0],
        "longer than allowed"
    );
    assert_eq!(after(&[10, 12, 14], &s, &NEXT_LINE), [0; 0]);
    let by_two = StreamConfig {
        stride: 2,
        ..NEXT_LINE
    };
    assert_eq!(after(&[10, 12, 14], &s, &by_two), [16, 18, 20, 22]);
    assert_eq!(after(&[10, 11, 12], &s, &by_two), [0; 0]);
    let off = StreamConfig {
        mode: StreamMode::Off,
        ..STRIDE
    };
    assert_eq!(after(&[10, 11, 12, 13], &s, &off), [0; 0]);
    let one_step = StreamConfig {
        confirm: 1,
        ..STRIDE
    };
    assert_eq!(after(&[10, 11], &s, &one_step), [12, 13, 14, 15]);
}

#[test]
fn nothing_past_either_end_of_the_range() {
    let s = span(100, 110);
    assert_eq!(after(&[105, 106, 107], &s, &STRIDE), [108, 109]);
    assert_eq!(after(&[103, 102, 101], &s, &STRIDE), [100]);
    assert_eq!(after(&[107, 108, 109], &s, &STRIDE), [0; 0]);
    assert_eq!(after(&[101, 104, 107], &s, &STRIDE), [0; 0]);
    // Another range next door is another stream.
    let mut t = StreamTable::new();
    faults(&mut t, &[108, 109], &s, &STRIDE);
    let next_door = span(110, 120);
    let a = fault(&mut t, 110, &next_door, &STRIDE);
    assert_eq!(blocks(&a), [0; 0]);
    assert_eq!(fault(&mut t, 99, &s, &STRIDE), Advice::default());
}

#[test]
fn each_fault_extends_the_stream_by_what_is_missing() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    faults(&mut t, &[0, 1, 2], &s, &STRIDE); // 3 4 5 6
                                             // Late: block 3 was advised.
    let a = fault(&mut t, 3, &s, &STRIDE);
    assert_eq!((blocks(&a), a.expected, a.cancel), (vec![7], true, false));
    assert_eq!(fault(&mut t, 3, &s, &STRIDE), Advice::default(), "again");
    // In time up to 7, then the first block not fetched.
    let a = fault(&mut t, 8, &s, &STRIDE);
    assert_eq!((blocks(&a), a.expected), (vec![9, 10, 11, 12], false));
    // Four blocks were resident already: 13 to 16 do not fault.
    let a = fault(&mut t, 16, &s, &STRIDE);
    assert_eq!(blocks(&a), [17, 18, 19, 20]);
    // A larger gap is a jump.
    let a = fault(&mut t, 25, &s, &STRIDE);
    assert!(a.run.is_none() && a.cancel);
}

#[test]
fn a_fault_of_no_stream_cancels_and_a_straggler_does_not() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    let first = faults(&mut t, &[0, 1, 2], &s, &STRIDE);
    assert_eq!(
        first.iter().map(|a| a.cancel).collect::<Vec<_>>(),
        [true, true, false]
    );
    assert!(fault(&mut t, 500, &s, &STRIDE).cancel);
    assert!(!fault(&mut t, 5, &s, &STRIDE).cancel);
    let straggler = fault(&mut t, 4, &s, &STRIDE);
    assert_eq!(straggler, Advice::default());
    // The stream goes on as if nothing had been.
    assert_eq!(blocks(&fault(&mut t, 6, &s, &STRIDE)), [10]);
}

/// Catches a stream by chance that is fetched to the end, and one that has to prove itself in each pass.
#[test]
fn four_faults_prove_a_stream_until_most_are_of_none() {
    let s = span(0, 40);
    let mut t = StreamTable::new();
    let proven = |t: &mut StreamTable, at: &[u64]| -> Vec<bool> {
        faults(t, at, &s, &CYCLES)
            .iter()
            .map(|a| a.proven)
            .collect()
    };
    // The third finds it, four more follow it.
    let first = proven(&mut t, &[0, 1, 2, 7, 12, 17, 22, 27]);
    assert_eq!(
        first,
        [false, false, false, false, false, false, true, true]
    );
    // The next pass, found by its first fault.
    assert_eq!(proven(&mut t, &[32, 37, 0, 5]), [true; 4]);
    // One of five is of another: it is still trusted. Not so where they are as many.
    assert!(fault(&mut t, 24, &s, &CYCLES).cancel);
    assert_eq!(proven(&mut t, &[10, 15]), [true; 2]);
    faults(&mut t, &[30, 37, 33, 39], &s, &CYCLES);
    assert_eq!(proven(&mut t, &[20]), [false]);
}

#[test]
fn what_was_given_up_is_advised_again() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    let a = faults(&mut t, &[0, 1, 2], &s, &STRIDE)[2];
    let id = a.run.unwrap().stream;
    // 3 was fetched, 4 to 6 were not.
    assert!(fault(&mut t, 900, &s, &STRIDE).cancel);
    t.abandoned(id, 3);
    let a = fault(&mut t, 4, &s, &STRIDE);
    assert_eq!((blocks(&a), a.expected), (vec![5, 6, 7, 8], false));
    assert_eq!(t.counts().abandoned, 3);
    // A report about a stream that is gone changes no other.
    let one = StreamConfig {
        streams: 1,
        ..STRIDE
    };
    faults(&mut t, &[20, 21, 22], &s, &one);
    t.abandoned(id, 4);
    assert_eq!(blocks(&fault(&mut t, 23, &s, &STRIDE)), [27]);
}

#[test]
fn a_scan_that_turns_round_is_followed_back() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    faults(&mut t, &[7, 8, 9], &s, &STRIDE);
    let back = faults(&mut t, &[8, 7, 6], &s, &STRIDE);
    assert_eq!(back[0], Advice::default(), "one step back is a straggler");
    assert_eq!(blocks(&back[1]), [6, 5, 4, 3]);
    assert_eq!(blocks(&back[2]), [2]);
}

#[test]
fn a_short_range_is_followed_pass_after_pass() {
    let (s, mut t) = (span(0, 9), StreamTable::new());
    let pass: Vec<u64> = (0..9).collect();
    for turn in 0..3 {
        let all = faults(&mut t, &pass, &s, &STRIDE);
        let ahead: usize = all.iter().map(|a| blocks(a).len()).sum();
        assert!(ahead >= 6, "pass {turn}: {ahead} blocks advised");
    }
}

const CYCLES: StreamConfig = StreamConfig {
    cycles: true,
    ..STRIDE
};

/// Catches a next pass that is begun with its first fault only, one that is fetched twice, and steps that leave the range.
#[test]
fn the_next_pass_is_fetched_ahead_while_one_ends() {
    let s = span(100, 140);
    let passes: [Vec<u64>; 4] = [
        (100..140).collect(),
        (100..140).rev().collect(),
        (101..140).step_by(3).collect(),
        (100..139).rev().step_by(3).collect(),
    ];
    for pass in passes {
        let mut t = StreamTable::new();
        // The first pass is found, the second one seen to follow it.
        faults(&mut t, &pass, &s, &CYCLES);
        let second = faults(&mut t, &pass, &s, &CYCLES);
        let n = pass.len();
        assert_eq!(blocks(&second[0]), pass[1..5]);
        for turn in 0..3 {
            // Of each later one every block is advised once, four before it is come to.
            let all = match turn {
                0 => second.clone(),
                _ => faults(&mut t, &pass, &s, &CYCLES),
            };
            for (i, a) in all.iter().enumerate().skip(usize::from(turn == 0)) {
                assert_eq!(blocks(a), [pass[(i + 4) % n]], "{turn}, {i} of {pass:?}");
                assert!(a.expected && !a.cancel && a.passed == [None; 2]);
            }
        }
        assert_eq!(t.counts().streams, 2, "{pass:?}");
        let off = faults(&mut t, &pass, &s, &STRIDE);
        let off = off[n - 4..].iter().all(|a| a.run.is_none());
        assert!(off, "the switch is off");
    }
}

/// Catches blocks of a next pass that are lost at the end of the range, or counted twice, and one that is told of both passes.
#[test]
fn a_run_does_not_go_round_and_what_is_beyond_follows_it() {
    let s = span(100, 140);
    let pass: Vec<u64> = (100..140).collect();
    let mut t = StreamTable::new();
    faults(&mut t, &pass, &s, &CYCLES);
    faults(&mut t, &pass[..35], &s, &CYCLES);
    let before = t.counts().advised;
    let at = fault(&mut t, 138, &s, &CYCLES);
    assert_eq!(blocks(&at), [139]);
    assert_eq!(t.counts().advised, before + 4);
    let run = at.run.unwrap();
    let next = t.beyond(run.stream, 1, 0).unwrap();
    assert_eq!((next.first, next.count), (BlockNo(100), 3));
    assert_eq!(t.beyond(run.stream, 3, 0), None);
    assert_eq!(t.counts().advised, before + 4);
    // It went over the last one and two of the next pass.
    let at = fault(&mut t, 102, &s, &CYCLES);
    let over = at.passed.map(|r| r.map(|r| (r.first.0, r.count)));
    assert_eq!(over, [Some((139, 1)), Some((100, 2))]);
    assert!(at.expected);
    assert_eq!(blocks(&at), [103, 104, 105, 106]);
    // A straggler of the pass before is one.
    let at = fault(&mut t, 138, &s, &CYCLES);
    assert!(!at.cancel && at.run.is_none() && !at.expected);
    assert!(
        t.comes_to(BlockNo(139), 0) && t.comes_to(BlockNo(106), 0) && !t.comes_to(BlockNo(107), 0)
    );
}

/// Catches a next pass that is fetched while the program is elsewhere first, whose beginning is gone again when it comes back.
#[test]
fn a_pass_that_others_come_before_is_not_fetched_ahead() {
    let (s, other) = (span(100, 140), span(200, 300));
    let pass: Vec<u64> = (100..140).collect();
    for (elsewhere, round) in [(0, true), (1, false), (40, false)] {
        let mut t = StreamTable::new();
        let far: Vec<u64> = (200..200 + elsewhere).collect();
        let mut last = 0;
        for _ in 0..4 {
            let all = faults(&mut t, &pass, &s, &CYCLES);
            last = all[36..].iter().map(|a| blocks(a).len()).sum::<usize>();
            faults(&mut t, &far, &other, &CYCLES);
        }
        assert_eq!(last, if round { 4 } else { 0 }, "{elsewhere}");
    }
}

/// Catches accesses by chance that go round for ever, and bring in blocks that nobody wants.
#[test]
fn a_pass_among_faults_of_chance_does_not_go_round() {
    let s = span(100, 140);
    let pass: Vec<u64> = (100..140).collect();
    for (strays, round) in [(0, true), (10, true), (40, false)] {
        let mut t = StreamTable::new();
        faults(&mut t, &pass, &s, &CYCLES);
        faults(&mut t, &pass[..30], &s, &CYCLES);
        for _ in 0..strays {
            // Far behind, and too far ahead.
            assert!(fault(&mut t, 112, &s, &CYCLES).cancel);
        }
        let all = faults(&mut t, &pass[30..], &s, &CYCLES);
        let last: usize = all[6..].iter().map(|a| blocks(a).len()).sum();
        assert_eq!(last, if round { 4 } else { 0 }, "{strays}");
    }
}

#[test]
fn the_rest_of_an_old_scan_does_not_turn_a_new_one_round() {
    let s = span(0, 1000);
    let far = StreamConfig {
        confirm: 3,
        ..STRIDE
    };
    let mut t = StreamTable::new();
    // Too short to be a stream.
    faults(&mut t, &[11, 12, 13], &s, &far);
    let again = faults(&mut t, &[10, 11, 12, 13], &s, &far);
    assert!(again[..3].iter().all(|a| a.run.is_none()), "{again:?}");
    assert_eq!(blocks(&again[3]), [14, 15, 16, 17]);
}

#[test]
fn batches_sorted_by_address_still_show_a_scan_downwards() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    let c = StreamConfig {
        confirm: 3,
        ..STRIDE
    };
    let all = faults(&mut t, &[58, 59, 56, 57, 54, 55, 52, 53], &s, &c);
    let runs: Vec<u64> = all.iter().flat_map(blocks).collect();
    assert!(!runs.is_empty() && runs.iter().all(|b| *b < 56), "{runs:?}");
}

#[test]
fn arrays_near_each_other_in_lock_step_are_told_apart() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    // Ten blocks apart: at first this looks like a step of ten.
    let rounds: Vec<Vec<u64>> = (0..6)
        .map(|i| {
            let all = faults(&mut t, &[i, 10 + i, 20 + i], &s, &STRIDE);
            all.iter().flat_map(blocks).collect()
        })
        .collect();
    assert_eq!(rounds[2], [3, 4, 5, 6, 13, 14, 15, 16, 23, 24, 25, 26]);
    assert_eq!(rounds[3], [7, 17, 27]);
    assert_eq!(rounds[4], [8, 18, 28]);
}

/// Twelve rows of a matrix, a block of each in a batch: the fourth step before a fault is 48 faults ago. Catches a history without room
/// for that.
#[test]
fn twelve_rows_in_lock_step_are_found() {
    let c = StreamConfig {
        confirm: 4,
        ..STRIDE
    };
    let s = span(0, 1200);
    let mut t = StreamTable::new();
    for i in 0..5 {
        let batch = batch();
        for row in 0..12 {
            let run = t.fault(BlockNo(100 * row + i), &s, batch, false, &c).run;
            assert_eq!(run.map(|r| (r.step, r.count)), (i == 4).then_some((1, 4)));
        }
    }
}

/// Steps that far back are a stream only in the right order, and from three batches: two that are sorted are in order whatever they are.
#[test]
fn what_is_far_back_is_trusted_less() {
    let c = StreamConfig {
        confirm: 4,
        ..STRIDE
    };
    let s = span(0, 100_000);
    let found = |steps: [u64; 4], batches: [u64; 4], between: u64| {
        let mut t = StreamTable::new();
        let chance = batch();
        for (n, (at, b)) in (0..).zip(steps.into_iter().zip(batches)) {
            t.fault(BlockNo(at), &s, chance + b, false, &c);
            // No two of them at a step that is tried.
            for x in 0..between {
                t.fault(
                    BlockNo(1000 + 50 * (n * between + x) + n),
                    &s,
                    chance + b,
                    false,
                    &c,
                );
            }
        }
        t.fault(BlockNo(4), &s, chance + 9, false, &c).run.is_some()
    };
    // Among the last 32, some order is enough, and a second batch.
    assert!(found([0, 1, 3, 2], [0, 0, 0, 0], 6));
    assert!(!found([3, 2, 1, 0], [0, 0, 0, 0], 6));
    // Further back it is not.
    assert!(found([0, 1, 2, 3], [0, 1, 1, 1], 12));
    assert!(!found([0, 1, 3, 2], [0, 1, 2, 3], 12));
    assert!(!found([0, 1, 2, 3], [0, 0, 0, 0], 12));
    // What is not remembered any more is none.
    assert!(!found([0, 1, 2, 3], [0, 1, 2, 3], 20));
}

#[test]
fn of_two_streams_the_nearer_one_goes_on() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    faults(&mut t, &[126, 119, 112], &s, &STRIDE);
    faults(&mut t, &[100, 101, 102], &s, &STRIDE);
    assert_eq!(t.len(), 2);
    // One step of the first, three of the second.
    let run = fault(&mut t, 105, &s, &STRIDE).run.unwrap();
    assert_eq!((run.step, run.first), (-7, BlockNo(77)));
}

#[test]
fn the_stream_confirmed_longest_ago_is_replaced() {
    let ranges: Vec<BlockSpan> = (0..3).map(|i| span(i * 1000, i * 1000 + 999)).collect();
    let c = StreamConfig {
        streams: 2,
        ..STRIDE
    };
    let mut t = StreamTable::new();
    for (i, s) in (0..2).zip(&ranges) {
        faults(&mut t, &[i * 1000, i * 1000 + 1, i * 1000 + 2], s, &c);
    }
    // The first is confirmed once more, so the second goes.
    assert!(fault(&mut t, 3, &ranges[0], &c).run.is_some());
    faults(&mut t, &[2000, 2001, 2002], &ranges[2], &c);
    assert_eq!((t.len(), t.counts().streams), (2, 3));
    assert!(fault(&mut t, 4, &ranges[0], &c).run.is_some());
    // Block 1003 had been advised, but that stream is gone. Its faults are still in the history, so it begins anew.
    let a = fault(&mut t, 1003, &ranges[1], &c);
    assert!(a.run.is_some() && !a.expected);
    assert_eq!((t.len(), t.counts().streams), (2, 4));
    // Fewer streams from now on.
    let one = StreamConfig { streams: 0, ..c };
    fault(&mut t, 5, &ranges[0], &one);
    assert_eq!(t.len(), 1);
}

#[test]
fn usefulness_is_counted_and_never_beyond_what_was_advised() {
    let s = span(0, 1000);
    let mut t = StreamTable::new();
    t.report(Outcome::Useful, 5);
    assert_eq!(t.counts().useful, 0);
    faults(&mut t, &[0, 1, 2, 7], &s, &STRIDE);
    assert_eq!(t.counts().advised, 8);
    t.report(Outcome::Useful, 4);
    t.report(Outcome::Late, 1);
    t.report(Outcome::Wasted, 2);
    assert_eq!(t.counts().open(), 1);
    t.report(Outcome::Wasted, 9);
    let n = t.counts();
    assert_eq!((n.useful, n.late, n.wasted, n.open()), (4, 1, 3, 0));
}

/// One thing that happens to a table.
#[derive(Clone, Debug)]
enum Op {
    Fault(u64, bool),
    Abandon(usize, u32),
    Report(u8, u64),
    Streams(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..60u64, any::<bool>()).prop_map(|(b, r)| Op::Fault(b, r)),
        2 => (any::<usize>(), 0..6u32).prop_map(|(i, n)| Op::Abandon(i, n)),
        1 => (0..3u8, 0..9u64).prop_map(|(o, n)| Op::Report(o, n)),
        1 => (0..18u32).prop_map(Op::Streams),
    ]
}

/// Random accesses to 800 blocks on a GPU with room for 533, evicting the oldest: blocks advised per thousand faults,
/// and streams found.
fn noise(c: &StreamConfig) -> (u64, u64) {
    let mut rng = huvm_policy::evict::SplitMix64::new(1);
    let s = span(0, 800);
    let mut t = StreamTable::new();
    let mut resident = std::collections::VecDeque::new();
    let mut faults = 0;
    for _ in 0..30_000 {
        let block = u64::from(rng.below(800));
        if resident.contains(&block) {
            continue;
        }
        faults += 1;
        let a = fault(&mut t, block, &s, c);
        for b in std::iter::once(block).chain(blocks(&a)) {
            if !resident.contains(&b) {
                resident.push_back(b);
            }
        }
        while resident.len() > 533 {
            resident.pop_front();
        }
    }
    (t.counts().advised * 1000 / faults, t.counts().streams)
}

#[test]
fn noise_is_seldom_taken_for_a_stream() {
    let of = |confirm| {
        noise(&StreamConfig {
            confirm,
            amount: 16,
            ..STRIDE
        })
    };
    let found = [1, 2, 3, 4].map(of);
    assert!(found.windows(2).all(|w| w[1].0 < w[0].0), "{found:?}");
    // With the default, less than one block in a hundred faults.
    let policy = Policy::new();
    let confirm = policy.get_u32(KnobId::StreamConfirm);
    assert!(of(confirm).0 < 10, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Whatever comes: in range, ahead of the fault, no more than the amount, nothing twice unless it was given up.
    #[test]
    fn advice_keeps_its_promises(
        ops in proptest::collection::vec(op(), 1..150),
        confirm in 0..5u32,
        amount in 0..9u32,
        next_line in any::<bool>(),
    ) {
        let spans = [span(0, 40), span(40, 60)];
        let mode = if next_line { StreamMode::NextLine } else { StreamMode::Stride };
        let mut c = StreamConfig { mode, amount, confirm, stride_max: 7, ..STRIDE };
        let mut t = StreamTable::new();
        // Blocks of each stream that are advised and were not given up, in order.
        let mut advised: BTreeMap<String, (StreamId, Vec<u64>)> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Fault(b, right_range) => {
                    let s = &spans[usize::from((b >= 40) == right_range)];
                    let a = fault(&mut t, b, s, &c);
                    if !right_range {
                        prop_assert_eq!(a, Advice::default());
                    }
                    prop_assert!(a.run.is_none() || !a.cancel);
                    let Some(run) = a.run else { continue };
                    prop_assert!(run.count >= 1 && run.count <= amount);
                    prop_assert_eq!(run.blocks().count(), run.count as usize);
                    let (_, known) = advised
                        .entry(format!("{:?}", run.stream))
                        .or_insert_with(|| (run.stream, Vec::new()));
                    for x in run.blocks() {
                        prop_assert!(s.contains(x));
                        prop_assert_eq!(x.0 > b, run.step > 0);
                        let steps = x.0.abs_diff(b) / run.step.unsigned_abs();
                        prop_assert!(steps >= 1 && steps <= u64::from(amount));
                        prop_assert!(!known.contains(&x.0), "{} twice", x.0);
                        known.push(x.0);
                    }
                }
                Op::Abandon(i, n) => {
                    let Some(k) = advised.keys().nth(i % advised.len().max(1)).cloned() else { continue };
                    let (id, known) = advised.get_mut(&k).unwrap();
                    t.abandoned(*id, n);
                    // Those that faulted meanwhile are not advised again, but the model need not know that.
                    known.truncate(known.len().saturating_sub(n as usize));
                }
                Op::Report(o, n) => {
                    t.report([Outcome::Useful, Outcome::Late, Outcome::Wasted][usize::from(o)], n);
                }
                Op::Streams(n) => c.streams = n,
            }
            let n = t.counts();
            prop_assert_eq!(n.open() + n.abandoned + n.useful + n.late + n.wasted, n.advised);
            prop_assert!(t.len() <= STREAMS_MAX);
        }
    }

    /// Up to sixteen walks at once, each by steps of its own, touched in any order in which each one advances. A block
    /// fetched ahead does not fault. Each walk costs the faults that find it, and then one per amount.
    #[test]
    fn every_walk_is_found_and_then_faults_once_per_amount(
        walks in proptest::collection::vec((1..=32i64, any::<bool>(), 0..100u64), 1..=16),
        turns in proptest::collection::vec(any::<u8>(), 400),
        amount in 1..=16u32,
        confirm in 1..=4u32,
    ) {
        let c = StreamConfig { amount, confirm, ..STRIDE };
        let mut t = StreamTable::new();
        let mut fetched = BTreeSet::new();
        let mut at = vec![0u64; walks.len()];
        let mut faulted = vec![0u64; walks.len()];
        // First all once, so that nobody is left behind the history.
        let start = (0..walks.len()).cycle().take(walks.len() * (confirm as usize + 1));
        let rest = turns.iter().map(|&i| usize::from(i) % walks.len());
        for w in start.chain(rest) {
            let (length, down, offset) = walks[w];
            let base = 1_000_000 * (w as u64 + 1);
            let s = span(base - 50_000, base + 50_000);
            let far = at[w] * length as u64 + offset;
            let block = if down { base - far } else { base + far };
            at[w] += 1;
            if fetched.contains(&block) {
                continue;
            }
            faulted[w] += 1;
            let a = fault(&mut t, block, &s, &c);
            fetched.extend(blocks(&a));
            // Once found, each fault of a walk fetches the whole amount.
            let found = at[w] > u64::from(confirm);
            prop_assert_eq!(blocks(&a).len(), if found { amount as usize } else { 0 });
            prop_assert!(!found || !a.cancel);
        }
        prop_assert_eq!(t.counts().streams, walks.len() as u64);
        for (w, n) in faulted.iter().enumerate() {
            let after = at[w].saturating_sub(u64::from(confirm) + 1);
            prop_assert_eq!(*n, at[w].min(u64::from(confirm) + 1) + after / (u64::from(amount) + 1));
        }
    }

    /// Faults further apart than any allowed step are never taken for a stream.
    #[test]
    fn scattered_faults_fetch_nothing(at in proptest::collection::vec(0..500u64, 1..200)) {
        let s = span(0, 500 * 33);
        let mut t = StreamTable::new();
        for b in at {
            prop_assert!(fault(&mut t, b * 33, &s, &STRIDE).run.is_none());
        }
        prop_assert_eq!(t.counts().streams, 0);
    }

    /// No block number, however odd, makes it panic.
    #[test]
    fn any_number_is_survived(
        at in proptest::collection::vec(prop_oneof![any::<u64>(), 0..4u64, (u64::MAX - 4)..=u64::MAX], 1..60),
        stride_max in any::<u32>(),
        amount in any::<u32>(),
        ends in (any::<u64>(), any::<u64>()),
        cycles in any::<bool>(),
    ) {
        let c = StreamConfig { stride_max, amount, confirm: 1, cycles, ..STRIDE };
        let s = [span(0, u64::MAX), span(ends.0, ends.1)];
        let mut t = StreamTable::new();
        for (i, b) in at.into_iter().enumerate() {
            let a = fault(&mut t, b, &s[i % 2], &c);
            let mut next = a.run;
            for n in 0..3u32 {
                let Some(run) = next else { break };
                prop_assert!(run.blocks().take(3).all(|x| s[i % 2].contains(x)));
                if run.count < 999 {
                    prop_assert!(run.blocks().all(|x| s[i % 2].contains(x)));
                    prop_assert_eq!(run.blocks().count(), run.count as usize);
                }
                if n == 2 {
                    t.abandoned(run.stream, run.count / 2);
                }
                next = t.beyond(run.stream, run.count, run.count.min(n * 4));
            }
        }
    }
}
