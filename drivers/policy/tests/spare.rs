// SPDX-License-Identifier: GPL-2.0
//! The choice of a lending GPU, and pre-eviction driving a small machine.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::pre_evict::{PreEvictConfig, PreEvictInput, PreEvictStep, PreEvictor};
use huvm_policy::spare::{
    LinkFacts, SpareCursor, SpareFacts, SpareFrom, SpareRequest, SpareSelect, SpareUse,
    SPARE_GPUS_MAX,
};
use huvm_policy::types::GpuId;
use proptest::prelude::*;

fn gpu(i: usize) -> GpuId {
    GpuId::new(i as u8).unwrap()
}

/// A lender with `free` chunks behind a link of 40 GB/s.
fn lender(free: u32) -> SpareFacts {
    SpareFacts {
        lends: true,
        free,
        limit: u32::MAX,
        link: LinkFacts {
            mb_per_s: 40_000,
            queued: 0,
        },
        ..SpareFacts::default()
    }
}

fn request(borrower: usize) -> SpareRequest {
    SpareRequest {
        borrower: gpu(borrower),
        purpose: SpareUse::Evict,
        min_mb_per_s: 12_300,
        select: SpareSelect::RoundRobin,
    }
}

/// The GPUs chosen in `n` rounds.
fn rounds(facts: &[SpareFacts], request: &SpareRequest, n: usize) -> Vec<usize> {
    let mut cursor = SpareCursor::new();
    (0..n)
        .filter_map(|_| cursor.choose(facts, request))
        .map(|s| s.gpu.as_usize())
        .collect()
}

#[test]
fn each_lender_in_turn_and_never_the_borrower() {
    let facts = [lender(9); 4];
    assert_eq!(rounds(&facts, &request(1), 7), [0, 2, 3, 0, 2, 3, 0]);
    assert_eq!(rounds(&facts, &request(0), 4), [1, 2, 3, 1]);
}

#[test]
fn whoever_cannot_lend_is_passed_over() {
    let good = lender(9);
    let cases = [
        (
            "off",
            SpareFacts {
                lends: false,
                ..good
            },
        ),
        ("full", SpareFacts { free: 0, ..good }),
        ("needs it", SpareFacts { keep: 9, ..good }),
        (
            "limit",
            SpareFacts {
                lent: 5,
                limit: 5,
                ..good
            },
        ),
        (
            "limit lowered",
            SpareFacts {
                lent: 9,
                limit: 5,
                ..good
            },
        ),
        (
            "down",
            SpareFacts {
                link: LinkFacts::DOWN,
                ..good
            },
        ),
        (
            "slow",
            SpareFacts {
                link: LinkFacts {
                    mb_per_s: 12_299,
                    queued: 0,
                },
                ..good
            },
        ),
    ];
    for (why, bad) in cases {
        let facts = [good, bad, good];
        assert_eq!(rounds(&facts, &request(0), 3), [2, 2, 2], "{why}");
        assert_eq!(rounds(&facts[..2], &request(0), 3), [0; 0], "{why}");
    }
    // A link that is down is not fast enough, however slow the borrower's own is.
    let down = SpareFacts {
        link: LinkFacts::DOWN,
        ..good
    };
    let any = SpareRequest {
        min_mb_per_s: 0,
        ..request(0)
    };
    assert_eq!(rounds(&[good, down], &any, 1), [0; 0]);
    assert_eq!(rounds(&[], &any, 1), [0; 0]);
}

#[test]
fn an_eviction_overwrites_removable_chunks_when_nothing_is_free() {
    let full = SpareFacts {
        lent: 8,
        removable: 8,
        ..lender(0)
    };
    let mut cursor = SpareCursor::new();
    let spare = cursor
        .choose(&[lender(1), full, lender(1)], &request(0))
        .unwrap();
    assert_eq!((spare.gpu, spare.from), (gpu(2), SpareFrom::Free));
    let spare = cursor
        .choose(&[lender(0), full, lender(0)], &request(0))
        .unwrap();
    assert_eq!((spare.gpu, spare.from), (gpu(1), SpareFrom::Removable));
    // At its limit a lender lends no more, but may keep something else.
    let at_limit = SpareFacts {
        limit: 8,
        free: 99,
        ..full
    };
    let spare = cursor.choose(&[lender(0), at_limit], &request(0)).unwrap();
    assert_eq!(spare.from, SpareFrom::Removable);
    let over = SpareFacts {
        limit: 7,
        ..at_limit
    };
    assert_eq!(cursor.choose(&[lender(0), over], &request(0)), None);
    // What it wants for itself it does not lend again.
    let short = SpareFacts {
        free: 2,
        keep: 3,
        ..at_limit
    };
    assert_eq!(cursor.choose(&[lender(0), short], &request(0)), None);
}

#[test]
fn a_prefetch_never_takes_what_an_eviction_could_use() {
    let ask = |evictions_wait| SpareRequest {
        purpose: SpareUse::Prefetch { evictions_wait },
        ..request(0)
    };
    let removable = SpareFacts {
        lent: 8,
        removable: 8,
        ..lender(0)
    };
    assert_eq!(rounds(&[lender(0), removable], &ask(false), 1), [0; 0]);
    assert_eq!(rounds(&[lender(0), lender(1)], &ask(false), 1), [1]);
    assert_eq!(rounds(&[lender(0), lender(1)], &ask(true), 1), [0; 0]);
}

#[test]
fn the_other_selections() {
    let mut facts = [lender(9), lender(5), lender(7), lender(7), lender(6)];
    let most = SpareRequest {
        select: SpareSelect::MostSpare,
        ..request(0)
    };
    // Equals in turn.
    assert_eq!(rounds(&facts, &most, 4), [2, 3, 2, 3]);
    facts[3].keep = 1;
    assert_eq!(rounds(&facts, &most, 2), [2, 2]);

    let idle = SpareRequest {
        select: SpareSelect::LeastBusyLink,
        ..request(0)
    };
    for (f, queued) in facts.iter_mut().zip([0, 4, 1, 3, 1]) {
        f.link.queued = queued;
    }
    assert_eq!(rounds(&facts, &idle, 3), [2, 4, 2]);
    // Twice as fast with three chunks ahead is before one chunk ahead.
    facts[3].link.mb_per_s = 80_001;
    assert_eq!(rounds(&facts, &idle, 2), [3, 3]);
}

#[test]
fn rows_past_the_sixteenth_are_ignored() {
    let mut facts = vec![lender(0); 20];
    facts[16] = lender(5);
    assert_eq!(rounds(&facts, &request(0), 1), [0; 0]);
    facts[15] = lender(5);
    assert_eq!(rounds(&facts, &request(0), 3), [15, 15, 15]);
    // A borrower past the sixteenth can still borrow.
    assert_eq!(rounds(&facts, &request(16), 1), [15]);
}

fn facts() -> impl Strategy<Value = SpareFacts> {
    (
        (any::<bool>(), 0..4u32, 0..3u32),
        (0..4u32, 0..6u32, 0..6u32),
        (prop_oneof![Just(0u32), Just(12_000), Just(40_000)], 0..4u32),
    )
        .prop_map(
            |((lends, free, keep), (removable, lent, limit), (mb_per_s, queued))| SpareFacts {
                lends,
                free,
                keep,
                removable,
                lent,
                limit,
                link: LinkFacts { mb_per_s, queued },
            },
        )
}

/// Has the GPU what the request wants? Said once more, condition by condition.
fn fits(i: usize, f: &SpareFacts, r: &SpareRequest, from: SpareFrom) -> bool {
    let reached = f.link.mb_per_s > 0 && f.link.mb_per_s >= r.min_mb_per_s;
    let has = match from {
        SpareFrom::Free => f.free > f.keep && f.lent < f.limit,
        SpareFrom::Removable => {
            r.purpose == SpareUse::Evict && f.removable > 0 && f.lent <= f.limit && f.free >= f.keep
        }
    };
    i != r.borrower.as_usize() && f.lends && reached && has
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_choice_is_allowed_best_and_in_turn(
        table in proptest::collection::vec(facts(), 0..=SPARE_GPUS_MAX),
        borrower in 0..SPARE_GPUS_MAX,
        select in 0..3u64,
        evict in any::<bool>(),
        min_mb_per_s in prop_oneof![Just(0u32), Just(12_300)],
    ) {
        let r = SpareRequest {
            borrower: gpu(borrower),
            purpose: if evict { SpareUse::Evict } else { SpareUse::Prefetch { evictions_wait: false } },
            min_mb_per_s,
            select: SpareSelect::from_u64(select).unwrap(),
        };
        let of = |from| -> Vec<usize> {
            (0..table.len()).filter(|&i| fits(i, &table[i], &r, from)).collect()
        };
        let (free, removable) = (of(SpareFrom::Free), of(SpareFrom::Removable));
        let (from, mut wanted) = if free.is_empty() {
            (SpareFrom::Removable, removable)
        } else {
            (SpareFrom::Free, free)
        };
        let room = |i: usize| match from {
            SpareFrom::Free => {
                (table[i].free - table[i].keep).min(table[i].limit - table[i].lent)
            }
            SpareFrom::Removable => table[i].removable,
        };
        match r.select {
            SpareSelect::RoundRobin => (),
            SpareSelect::MostSpare => {
                let most = wanted.iter().map(|&i| room(i)).max();
                wanted.retain(|&i| Some(room(i)) == most);
            }
            SpareSelect::LeastBusyLink => {
                let ns = |i: usize| {
                    u64::from(table[i].link.queued + 1) * 2_097_152_000 / u64::from(table[i].link.mb_per_s)
                };
                let least = wanted.iter().map(|&i| ns(i)).min();
                wanted.retain(|&i| Some(ns(i)) == least);
            }
        }
        // With the facts unchanged, every one of the best comes once in as many rounds, in ascending order.
        let mut cursor = SpareCursor::new();
        for round in 0..2 * wanted.len() {
            let spare = cursor.choose(&table, &r);
            let want = wanted[round % wanted.len()];
            prop_assert_eq!(spare.map(|s| (s.gpu.as_usize(), s.from)), Some((want, from)));
        }
        if wanted.is_empty() {
            prop_assert_eq!(cursor.choose(&table, &r), None);
            prop_assert_eq!(cursor, SpareCursor::new());
        }
    }
}

/// What happens to a GPU that pre-evicts.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The job takes up to this many free chunks.
    Allocate(u32),
    /// The job frees up to this many chunks in use.
    Free(u32),
    /// This many evictions end.
    Land(u32),
    /// A demand fetch begins to wait, or the last one ends.
    Demand(bool),
    /// Up to this many evicted blocks come back.
    Return(u32),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..12u32).prop_map(Happening::Allocate),
        1 => (0..12u32).prop_map(Happening::Free),
        4 => (0..6u32).prop_map(Happening::Land),
        2 => any::<bool>().prop_map(Happening::Demand),
        4 => (1..6u32).prop_map(Happening::Return),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn pre_eviction_keeps_its_bounds(
        happenings in proptest::collection::vec(happening(), 1..80),
        low in 0..12u32,
        gap in 0..8u32,
        in_flight_max in 1..6u32,
        hold in any::<bool>(),
    ) {
        const CHUNKS: u32 = 40;
        let config = PreEvictConfig { enabled: true, low, high: low + gap, in_flight_max, hold };
        let mut p = PreEvictor::new();
        let mut i = PreEvictInput { free: 20, in_flight: 0, evictable: CHUNKS - 20, away: 0, returned: 0, near: false, takes_turns: false, demand_waits: false };
        let mut returned = 0;
        for h in happenings {
            match h {
                Happening::Allocate(n) => {
                    let n = n.min(i.free);
                    i.free -= n;
                    i.evictable += n;
                }
                Happening::Free(n) => {
                    let n = n.min(i.evictable);
                    i.free += n;
                    i.evictable -= n;
                }
                Happening::Land(n) => {
                    let n = n.min(i.in_flight);
                    i.in_flight -= n;
                    i.free += n;
                }
                Happening::Demand(on) => i.demand_waits = on,
                Happening::Return(n) => {
                    let n = n.min(i.free).min(i.away);
                    i.free -= n;
                    i.evictable += n;
                    i.away -= n;
                    i.returned += u64::from(n);
                }
            }
            let back = matches!(h, Happening::Return(_)) && i.returned != returned;
            returned = i.returned;
            let fits = i.away <= i.free + i.in_flight;
            let held = hold && fits && (back || p.is_held());
            let was_running = p.is_running();
            let expected = i.free + i.in_flight;
            loop {
                let step = p.step(&i, &config);
                let PreEvictStep::Begin(n) = step else {
                    // Asked again with nothing changed, it says the same.
                    prop_assert_eq!(p.step(&i, &config), step);
                    break;
                };
                prop_assert!(n >= 1 && n <= i.evictable);
                prop_assert!(!i.demand_waits && !held);
                prop_assert!(was_running || expected < low, "woken above the low bound");
                i.evictable -= n;
                i.in_flight += n;
                i.away += n;
                prop_assert!(i.in_flight <= in_flight_max);
                prop_assert!(i.free + i.in_flight <= low + gap);
            }
            prop_assert_eq!(p.is_held(), held);
            // It stops short only for a reason.
            let short = i.free + i.in_flight < low;
            let reason = held || i.demand_waits || i.in_flight == in_flight_max || i.evictable == 0;
            prop_assert!(!short || reason);
            prop_assert_eq!(i.free + i.in_flight + i.evictable, CHUNKS);
        }
    }
}
