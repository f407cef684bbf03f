// SPDX-License-Identifier: GPL-2.0
//! Thrashing: detection, throttling, pinning, epochs, against nvidia-uvm.md 5.2.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics is a test that fails"
)]

use huvm_policy::config::{KnobId, Policy};
use huvm_policy::preset::preset_by_name;
use huvm_policy::residency::Reach;
use huvm_policy::thrash::*;
use huvm_policy::types::{GpuId, Nanos, PageIndex, PageMask, Pages, Processor, ProcessorMask};
use proptest::prelude::*;

const CPU: Processor = Processor::Cpu;

fn gpu(i: u8) -> Processor {
    Processor::Gpu(GpuId::new(i).unwrap())
}

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

fn page(i: u16) -> PageIndex {
    PageIndex::new(i).unwrap()
}

/// Pages of 64 KiB region `r`.
fn region(r: u16) -> PageMask {
    PageMask::from_range(page(r * 16), Pages(16))
}

fn stock() -> ThrashConfig {
    let p = Policy::new();
    ThrashConfig::of(&p, &ThrashWindow::new(&p))
}

/// GPUs map host memory; nothing else is shared.
fn choice() -> PinChoice<'static> {
    const ROWS: &[ProcessorMask] = &[ProcessorMask::from_bits(0b1110)];
    const REACH: Reach<'static> = Reach {
        mappable_by: ROWS,
        fast_from: &[],
        atomics_from: &[],
    };
    PinChoice {
        preferred: None,
        current: Some(CPU),
        reach: &REACH,
        atomic: false,
    }
}

/// Lets the host and GPU 0 take `pages` from each other `n` times, 100 us apart, from `start` on. Returns the time of the last
/// event.
fn bounce(b: &mut BlockThrash, pages: &PageMask, n: u64, start: Nanos) -> Nanos {
    let mut now = start;
    for i in 0..n {
        now = start.after(us(100 * i));
        let to = if i % 2 == 0 { gpu(0) } else { CPU };
        b.record(pages, to, now, &stock());
    }
    now
}

#[test]
fn the_defaults_are_the_recipe() {
    assert_eq!(
        stock(),
        ThrashConfig {
            enabled: true,
            window: us(500),
            threshold_events: 3,
            pin_threshold_periods: 10,
            nap: us(500),
            epoch: Nanos::from_millis(1000),
            pin: Some(Nanos::from_millis(150)),
            max_resets: 4,
        }
    );
    let mut p = Policy::new();
    p.set(KnobId::ThrashPin, 0).unwrap();
    assert_eq!(ThrashConfig::of(&p, &ThrashWindow::new(&p)).pin, None);
}

/// The first event is before tracking; the second starts it; three more follow their predecessor within the window.
#[test]
fn five_quick_events_make_a_page_thrash_and_four_do_not() {
    let mut b = BlockThrash::new();
    bounce(&mut b, &region(3), 4, us(1_000));
    assert!(b.thrashing_pages().is_empty());
    let mut b = BlockThrash::new();
    bounce(&mut b, &region(3), 5, us(1_000));
    assert_eq!(b.thrashing_pages(), region(3));
    assert!(b.pinned_pages().is_empty());
}

/// Quick events of one processor do not start tracking, nor do slow ones of two.
#[test]
fn tracking_starts_with_two_processors_in_one_window() {
    let thrashes = |events: &[(Processor, u64)]| {
        let mut b = BlockThrash::new();
        for &(to, at) in events {
            b.record(&region(0), to, us(at), &stock());
        }
        !b.thrashing_pages().is_empty()
    };
    let alone = [(gpu(0), 0), (gpu(0), 100)];
    let fight = [(CPU, 200), (gpu(0), 300), (CPU, 400), (gpu(0), 500)];
    assert!(!thrashes(&[&alone[..], &fight[..3]].concat()));
    assert!(thrashes(&[&alone[..], &fight[..]].concat()));
    // The second event comes too late to start tracking, so the third does: one event fewer is counted.
    let late = [(gpu(0), 0), (CPU, 900)];
    let fight = [(gpu(0), 1_000), (CPU, 1_100), (gpu(0), 1_200), (CPU, 1_300)];
    assert!(!thrashes(&[&late[..], &fight[..3]].concat()));
    assert!(thrashes(&[&late[..], &fight[..]].concat()));
}

#[test]
fn slow_events_never_thrash() {
    let mut b = BlockThrash::new();
    for i in 0..100 {
        let to = if i % 2 == 0 { gpu(0) } else { CPU };
        b.record(&region(0), to, us(501 * i), &stock());
    }
    assert!(b.thrashing_pages().is_empty());
    // Exactly a window apart is within it.
    let mut b = BlockThrash::new();
    for i in 0..5 {
        let to = if i % 2 == 0 { gpu(0) } else { CPU };
        b.record(&region(0), to, us(500 * i), &stock());
    }
    assert_eq!(b.thrashing_pages(), region(0));
}

/// What one GPU does alone, however often, is no thrashing: lack of capacity is not seen here.
#[test]
fn one_processor_alone_never_thrashes() {
    let mut b = BlockThrash::new();
    for i in 0..1_000 {
        b.record(&region(0), gpu(0), us(i), &stock());
    }
    assert!(b.thrashing_pages().is_empty());
    let hint = b.hint(page(0), CPU, &choice(), us(1_001), &stock());
    assert_eq!(hint, ThrashHint::None);
}

/// The host and a GPU work side by side in a block, each on pages of its own, which come one by one.
#[test]
fn different_pages_do_not_thrash_each_other() {
    let mut b = BlockThrash::new();
    for i in 0..16 {
        b.record(
            &PageMask::from_page(page(i)),
            gpu(0),
            us(200 * u64::from(i)),
            &stock(),
        );
        let theirs = PageMask::from_page(page(256 + i));
        b.record(&theirs, CPU, us(200 * u64::from(i) + 100), &stock());
    }
    assert!(b.thrashing_pages().is_empty());
    // The same pages, fought for.
    bounce(&mut b, &PageMask::from_page(page(3)), 5, us(3_300));
    assert_eq!(b.thrashing_pages(), region(0));
}

#[test]
fn switched_off_nothing_happens() {
    let off = ThrashConfig {
        enabled: false,
        ..stock()
    };
    let mut b = BlockThrash::new();
    bounce(&mut b, &region(0), 8, us(1_000));
    assert_eq!(
        b.hint(page(0), CPU, &choice(), us(1_701), &off),
        ThrashHint::None
    );
    let before = b.clone();
    assert_eq!(b.record(&region(1), CPU, us(1_702), &off), None);
    assert_eq!(b, before);
}

#[test]
fn a_page_that_does_not_thrash_is_served_to_both_at_once() {
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    for who in [gpu(0), CPU, gpu(1), gpu(0)] {
        let hint = b.hint(page(20), who, &choice(), t, &stock());
        assert_eq!(hint, ThrashHint::None);
    }
}

#[test]
fn one_goes_on_and_the_other_waits_in_turn() {
    let c = stock();
    let mut b = BlockThrash::new();
    let t0 = bounce(&mut b, &region(0), 6, us(1_000));
    let end = t0.after(us(501));
    let ask = |b: &mut BlockThrash, who, now| b.hint(page(5), who, &choice(), now, &c);
    // GPU 0 asks first and has the turn for a nap.
    assert_eq!(ask(&mut b, gpu(0), t0.after(us(1))), ThrashHint::None);
    assert_eq!(ask(&mut b, gpu(0), t0.after(us(9))), ThrashHint::None);
    assert_eq!(
        ask(&mut b, CPU, t0.after(us(10))),
        ThrashHint::Throttle { until: end }
    );
    assert_eq!(
        ask(&mut b, CPU, t0.after(us(300))),
        ThrashHint::Throttle { until: end }
    );
    // The next nap is the host's, though the GPU asks first.
    let t1 = end.after(us(1));
    let end1 = t1.after(us(500));
    assert_eq!(
        ask(&mut b, gpu(0), t1),
        ThrashHint::Throttle { until: end1 }
    );
    assert_eq!(ask(&mut b, CPU, t1.after(us(5))), ThrashHint::None);
    // Another page of the block is not concerned.
    assert_eq!(b.hint(page(16), CPU, &choice(), t1, &c), ThrashHint::None);
}

#[test]
fn whoever_has_the_turn_and_does_not_come_holds_others_for_one_nap() {
    let c = stock();
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    let ask = |b: &mut BlockThrash, who, now| b.hint(page(0), who, &choice(), now, &c);
    assert_eq!(ask(&mut b, gpu(0), t), ThrashHint::None);
    assert!(matches!(ask(&mut b, CPU, t), ThrashHint::Throttle { .. }));
    // The host was killed. The GPU waits once, then goes on for good.
    let t = t.after(us(500));
    let ThrashHint::Throttle { until } = ask(&mut b, gpu(0), t) else {
        panic!("the host has the turn");
    };
    for i in 0..20 {
        assert_eq!(
            ask(&mut b, gpu(0), until.after(us(500 * i))),
            ThrashHint::None
        );
    }
    assert!(b.pinned_pages().is_empty());
}

/// Lets both ask in every nap until the answer is a pin. Returns naps with a throttled processor, and the pin.
fn fight(
    b: &mut BlockThrash,
    c: &ThrashConfig,
    start: Nanos,
) -> (u32, Processor, Option<Nanos>, Nanos) {
    let mut naps = 0;
    let mut now = start;
    for _ in 0..1_000 {
        for who in [gpu(0), CPU] {
            match b.hint(page(0), who, &choice(), now, c) {
                ThrashHint::None => {}
                ThrashHint::Throttle { .. } => naps += 1,
                ThrashHint::Pin { at, until } => return (naps, at, until, now),
            }
        }
        now = now.after(c.nap);
    }
    panic!("never pinned");
}

/// What waits in a GPU takes others' room there.
#[test]
fn no_nap_is_longer_than_half_a_second() {
    let mut p = Policy::new();
    for (window, naps, ms) in [(500, 3, 1), (5000, 100, 500), (500_000, 100, 500)] {
        p.set(KnobId::ThrashWindow, window).unwrap();
        p.set(KnobId::ThrashNap, naps).unwrap();
        let nap = ThrashConfig::of(&p, &ThrashWindow::new(&p)).nap;
        assert_eq!(nap.0 / 1_000_000, ms, "{window} us, {naps} times");
    }
}

#[test]
fn ten_naps_end_in_a_pin_of_150_ms() {
    let c = stock();
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    let (naps, at, until, now) = fight(&mut b, &c, t);
    assert_eq!((naps, at), (10, CPU));
    assert_eq!(until, Some(now.after(Nanos::from_millis(150))));
    assert_eq!(b.pinned_pages(), region(0));
    assert_eq!(b.next_unpin(), until);
    // Everybody hears of it.
    let again = b.hint(page(3), gpu(1), &choice(), now.after(us(7)), &c);
    assert_eq!(again, ThrashHint::Pin { at: CPU, until });
    // And then it ends.
    let end = until.unwrap();
    assert!(b.unpin_expired(Nanos(end.0 - 1)).is_empty());
    assert_eq!(b.unpin_expired(end), region(0));
    assert!(b.pinned_pages().is_empty() && b.thrashing_pages().is_empty());
    assert_eq!(b.next_unpin(), None);
    assert_eq!(b.hint(page(0), CPU, &choice(), end, &c), ThrashHint::None);
}

#[test]
fn a_pin_also_ends_when_nobody_calls_unpin() {
    let c = stock();
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    let (.., until, _) = fight(&mut b, &c, t);
    let end = until.unwrap();
    assert_eq!(b.hint(page(0), CPU, &choice(), end, &c), ThrashHint::None);
    assert!(b.pinned_pages().is_empty());
}

#[test]
fn a_pin_without_end_lasts_until_the_user_moves_the_page() {
    let c = ThrashConfig {
        pin: None,
        ..stock()
    };
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    let (_, at, until, _) = fight(&mut b, &c, t);
    assert_eq!(until, None);
    let far = Nanos(u64::MAX - 1);
    assert_eq!(b.next_unpin(), None);
    assert!(b.unpin_expired(far).is_empty());
    assert_eq!(
        b.hint(page(0), CPU, &choice(), far, &c),
        ThrashHint::Pin { at, until: None }
    );
    b.reset(&PageMask::from_page(page(9)));
    assert_eq!(b.hint(page(0), CPU, &choice(), far, &c), ThrashHint::None);
}

#[test]
fn without_a_common_place_throttling_goes_on() {
    let c = stock();
    let nowhere = PinChoice {
        preferred: Some(gpu(0)),
        current: Some(gpu(0)),
        reach: &Reach::NONE,
        atomic: false,
    };
    let mut b = BlockThrash::new();
    let mut now = bounce(&mut b, &region(0), 6, us(1_000));
    let mut throttled = 0;
    for _ in 0..300 {
        for who in [gpu(0), gpu(1)] {
            match b.hint(page(0), who, &nowhere, now, &c) {
                ThrashHint::None => {}
                ThrashHint::Throttle { .. } => throttled += 1,
                ThrashHint::Pin { at, .. } => {
                    panic!("pinned at {at:?}, which the other cannot map")
                }
            }
        }
        now = now.after(c.nap);
    }
    assert_eq!(throttled, 300);
}

#[test]
fn the_place_of_a_pin() {
    let bits = ProcessorMask::from_bits;
    // Rows: host (all GPUs), gpu0 (gpu1), gpu1 (gpu0), gpu2 (none).
    let map = [bits(0b1110), bits(0b0100), bits(0b0010), bits(0)];
    let fast = [bits(0), bits(0b0100), bits(0b0010), bits(0)];
    let reach = Reach {
        mappable_by: &map,
        fast_from: &fast,
        atomics_from: &[],
    };
    let pick = |preferred, current, requester: Processor, others: &[Processor]| {
        let involved = others.iter().fold(ProcessorMask::EMPTY, |m, &p| m.with(p));
        PinChoice {
            preferred,
            current,
            reach: &reach,
            atomic: false,
        }
        .choose(requester, involved, false)
    };
    let (g0, g1, g2) = (gpu(0), gpu(1), gpu(2));
    assert_eq!(
        pick(Some(CPU), Some(g0), g1, &[g0]),
        Some(CPU),
        "preferred first"
    );
    assert_eq!(
        pick(Some(g2), Some(g0), g1, &[g0]),
        Some(g0),
        "fast links: where it is"
    );
    assert_eq!(pick(None, Some(CPU), g1, &[g0]), Some(g1), "the requester");
    assert_eq!(
        pick(None, Some(g0), g2, &[g0]),
        Some(CPU),
        "the host, which all can map"
    );
    assert_eq!(pick(None, Some(g0), CPU, &[g0]), Some(CPU));
    // Host memory out of reach of GPU 2, and no peer of it.
    let reach = Reach {
        mappable_by: &[],
        ..reach
    };
    let none = PinChoice {
        preferred: None,
        current: Some(g0),
        reach: &reach,
        atomic: false,
    };
    assert_eq!(none.choose(g2, ProcessorMask::only(g0), false), None);
}

/// Atomics are done where they count: GPUs have none on the host's memory.
#[test]
fn a_page_of_atomics_is_pinned_where_all_can_do_some() {
    let bits = ProcessorMask::from_bits;
    let (map, atomics) = ([bits(0b0110)], [bits(0b0110)]);
    let (none, some) = (
        Reach {
            mappable_by: &map,
            fast_from: &[],
            atomics_from: &[],
        },
        Reach {
            mappable_by: &map,
            fast_from: &[],
            atomics_from: &atomics,
        },
    );
    let choice = PinChoice {
        preferred: Some(CPU),
        current: None,
        reach: &none,
        atomic: true,
    };
    let (g0, g1) = (gpu(0), gpu(1));
    let others = ProcessorMask::only(g0);
    assert_eq!(choice.choose(g1, others, false), Some(CPU));
    assert_eq!(choice.choose(g1, others, true), None);
    let choice = PinChoice {
        reach: &some,
        ..choice
    };
    assert_eq!(choice.choose(g1, others, true), Some(CPU));
}

/// Who does an atomic on a page that is pinned elsewhere gets it, once in each turn; and it is not pinned again.
#[test]
fn an_atomic_ends_a_pin() {
    let c = stock();
    let plain = choice();
    let atomic = PinChoice {
        atomic: true,
        ..choice()
    };
    let mut b = BlockThrash::new();
    let mut now = bounce(&mut b, &region(0), 6, us(1_000));
    let mut pinned = false;
    for _ in 0..100 {
        for who in [gpu(0), gpu(1)] {
            pinned |= matches!(
                b.hint(page(0), who, &plain, now, &c),
                ThrashHint::Pin { at: CPU, .. }
            );
        }
        now = now.after(c.nap);
    }
    assert!(pinned && b.pinned_pages().test(page(0)));
    assert_eq!(b.hint(page(0), gpu(1), &atomic, now, &c), ThrashHint::None);
    assert!(b.pinned_pages().is_empty());
    let (mut turns, mut waits) = (0, 0);
    for _ in 0..300 {
        for (who, choice) in [(gpu(1), &atomic), (gpu(0), &plain)] {
            match b.hint(page(0), who, choice, now, &c) {
                ThrashHint::None => turns += 1,
                ThrashHint::Throttle { until } => {
                    assert!(until > now);
                    waits += 1;
                }
                ThrashHint::Pin { at, .. } => panic!("pinned at {at:?}"),
            }
        }
        now = now.after(c.nap);
    }
    assert_eq!((turns, waits), (300, 300));
}

#[test]
fn an_epoch_clears_the_statistics_four_times() {
    let c = stock();
    let mut b = BlockThrash::new();
    let mut start = us(1_000);
    for round in 0..6 {
        bounce(&mut b, &region(0), 8, start);
        assert_eq!(b.thrashing_pages(), region(0), "round {round}");
        // A second after the epoch began; a lone event elsewhere turns it.
        start = start.after(Nanos::from_millis(1_000));
        b.record(&region(9), CPU, start, &c);
        let kept = round >= 4;
        assert_eq!(!b.thrashing_pages().is_empty(), kept, "round {round}");
        start = start.after(us(5_000));
    }
}

#[test]
fn an_epoch_leaves_pins_alone() {
    let c = ThrashConfig {
        pin: None,
        ..stock()
    };
    let mut b = BlockThrash::new();
    let t = bounce(&mut b, &region(0), 6, us(1_000));
    fight(&mut b, &c, t);
    b.record(&region(4), CPU, us(5_000_000), &c);
    assert_eq!(b.pinned_pages(), region(0));
    assert_eq!(b.thrashing_pages(), region(0));
}

#[test]
fn the_shipped_window_reaches_its_cap_after_59_short_gaps() {
    let p = preset_by_name("stock-595").unwrap().policy();
    let mut w = ThrashWindow::new(&p);
    assert_eq!(w.current(), us(500));
    w.note_gap(us(501));
    assert_eq!(w.current(), us(500), "a long gap does nothing");
    w.note_gap(us(500));
    assert_eq!(w.current(), Nanos(562_500), "an eighth more");
    let mut gaps = 1;
    while w.current() < WINDOW_MAX {
        w.note_gap(us(10));
        gaps += 1;
    }
    assert_eq!(gaps, 59);
    w.note_gap(us(10));
    assert_eq!(w.current(), WINDOW_MAX);
    // Naps and pins do not grow with it.
    assert_eq!(ThrashConfig::of(&p, &w).nap, us(500));
    assert_eq!(ThrashConfig::of(&p, &w).window, WINDOW_MAX);
}

#[test]
fn a_fixed_window_and_one_of_the_users_own_stay() {
    let mut own = preset_by_name("stock-595").unwrap().policy();
    own.set(KnobId::ThrashWindow, 400).unwrap();
    for p in [Policy::new(), own] {
        let mut w = ThrashWindow::new(&p);
        let before = w;
        w.note_gap(us(1));
        assert_eq!(w, before);
    }
}

#[test]
fn a_block_carries_less_than_a_kilobyte() {
    assert!(core::mem::size_of::<BlockThrash>() <= 848);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any events and questions, with a clock that may stand still or jump: the host and a GPU never both wait without end,
    /// pins are at places that all can map, and pinned pages thrash.
    #[test]
    fn somebody_always_gets_on(
        steps in proptest::collection::vec((0u8..3, 0u16..512, 0u64..2_000, any::<bool>()), 1..400),
    ) {
        let c = stock();
        let mut b = BlockThrash::new();
        let mut now = us(1);
        for (who, at, wait, event) in steps {
            let who = Processor::from_index(who).unwrap();
            now = now.after(us(wait));
            if event {
                b.record(&region(at / 16 % 3), who, now, &c);
            }
            let mut hint = b.hint(page(at % 48), who, &choice(), now, &c);
            let mut naps = 0;
            // Asked again after each nap, alone, it gets on after two at most.
            while let ThrashHint::Throttle { until } = hint {
                prop_assert!(until > now && until <= now.after(c.nap));
                naps += 1;
                prop_assert!(naps <= 2, "waited {naps} naps");
                now = until;
                hint = b.hint(page(at % 48), who, &choice(), now, &c);
            }
            if let ThrashHint::Pin { at, until } = hint {
                prop_assert_eq!(at, CPU);
                prop_assert!(until.unwrap() > now);
            }
            prop_assert!(b.pinned_pages().is_subset_of(&b.thrashing_pages()));
        }
    }
}
