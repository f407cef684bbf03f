// SPDX-License-Identifier: GPL-2.0
//! The workload engine: abort, limits, throttle, remote accesses, determinism, phantom data.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{stats::Counter, throttle, workload as w};
use huvm_model::bar0;
use huvm_model::config::{GpuConfig, Profile};

/// 2 MiB of VRAM at 32 MiB, and the same again.
const A: u64 = 0x10_0000_0000;
const B: u64 = 0x10_0020_0000;
const C: u64 = 0x10_0040_0000;

fn rig() -> Rig {
    let mut r = Rig::new(1);
    r.instance(0, true);
    r.rings(0, 64);
    r.interrupts(0);
    for (va, at) in [(A, 0x200_0000), (B, 0x220_0000), (C, 0x240_0000)] {
        r.map2m(0, va, pte_vid(at));
    }
    r
}

fn go(r: &mut Rig, blocks: u32, elem: u32, ins: &[Ins]) -> u32 {
    r.launch(0, 0, blocks, elem, ins);
    r.run(SEC);
    r.slot(0, 0, w::STATUS)
}

#[test]
fn abort_drops_stalled_blocks() {
    let mut r = rig();
    let far = 0x20_0000_0000;
    r.launch(
        0,
        0,
        10,
        8,
        &[Ins {
            op: 1,
            count: 1,
            steps: 1,
            dst: far,
            bs: 4096,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    r.h.take_messages();
    assert_eq!(r.slot(0, 0, w::BLOCKS_STALLED), 10);
    // START on it is a guest error, nothing else.
    r.w5(0, slot_at(0) + 0x14, 1);
    assert_eq!(
        (
            r.slot(0, 0, w::BLOCKS_STALLED),
            r.stat(0, Counter::GuestErrors)
        ),
        (10, 1)
    );
    r.w5(0, slot_at(0) + 0x14, 2);
    r.run(SEC);
    assert_eq!(
        (r.slot(0, 0, w::STATUS), r.slot(0, 0, w::BLOCKS_STALLED)),
        (w::STATUS_ABORTED, 0)
    );
    assert_eq!(r.h.take_messages(), [(0, 0)]);
    r.replay(0, 1);
    r.run(SEC);
    assert_eq!(r.m.next_deadline(), None);
    r.w5(0, w::DONE_LO, 1);
    r.w5(0, slot_at(0) + 0x14, 2);
    assert_eq!(r.r5(0, w::DONE_LO), 0, "ABORT of what does not run");
}

#[test]
fn residency_limits() {
    let mut r = rig();
    let far = 0x20_0000_0000;
    let i = Ins {
        op: 1,
        count: 1,
        steps: 1,
        dst: far,
        bs: 4096,
        ..Ins::default()
    };
    r.launch_with(0, 0, 200, 8, 5, &[i]);
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::BLOCKS_STALLED), 5, "the launch's own limit");
    r.launch(0, 1, 200, 8, &[i]);
    r.run(SEC);
    assert_eq!(r.slot(0, 1, w::BLOCKS_STALLED), 75, "80 on the GPU");
}

#[test]
fn throttle_acts_on_a_running_launch() {
    let mut r = rig();
    // 16 blocks of 100 steps of 1 us.
    let i = Ins {
        op: 10,
        count: 1,
        steps: 100,
        imm0: 1_000,
        ..Ins::default()
    };
    let run = |r: &mut Rig, limit: Option<(u32, u32)>| {
        r.launch(0, 0, 16, 4, &[i]);
        r.run(10_000);
        if let Some((reg, n)) = limit {
            r.w5(0, reg, n);
        }
        let t0 = r.h.now;
        assert!(r.run_until(SEC, |r| r.slot(0, 0, w::STATUS) == w::STATUS_DONE));
        if let Some((reg, _)) = limit {
            r.w5(0, reg, 0);
        }
        r.h.now - t0
    };
    let free = run(&mut r, None);
    assert!((80_000..=91_000).contains(&free), "{free}");
    let four = run(&mut r, Some((throttle::ACTIVE_LIMIT, 4)));
    assert!((350_000..=380_000).contains(&four), "{four}");
    let one = run(&mut r, Some((throttle::VEID_LIMIT0, 1)));
    assert!((1_400_000..=1_500_000).contains(&one), "{one}");
    let other = run(&mut r, Some((throttle::VEID_LIMIT0 + 4, 1)));
    assert!(other < 95_000, "another subcontext's limit: {other}");
}

#[test]
fn a_delay_takes_as_long_as_it_says() {
    let mut r = rig();
    let i = Ins {
        op: 10,
        count: 1,
        steps: 2,
        imm0: 25_000_003,
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 8, &[i]), w::STATUS_DONE);
    let t = r.slot(0, 0, w::END_NS_LO) - r.slot(0, 0, w::START_NS_LO);
    assert_eq!(t, 50_000_006);
}

#[test]
fn who_has_every_block_makes_room_for_another() {
    let mut r = rig();
    // More blocks than the GPU runs at once, and none of them ends.
    let i = Ins {
        op: 10,
        count: 1,
        steps: 1,
        imm0: 1 << 62,
        ..Ins::default()
    };
    r.launch(0, 0, 100, 8, &[i]);
    r.run(1_000);
    let one = Ins { imm0: 1_000, ..i };
    r.launch(0, 1, 40, 8, &[one]);
    // Once more, as another subcontext.
    for (at, value) in [(0x14, 2), (0x10, 1), (0x14, 1)] {
        r.w5(0, slot_at(1) + at, value);
    }
    r.run(SEC);
    assert_eq!(r.slot(0, 1, w::STATUS), 1, "nothing is free");
    r.w5(0, throttle::VEID_LIMIT0, 40);
    r.w5(0, throttle::VEID_LIMIT0 + 4, 40);
    let t0 = r.h.now;
    assert!(r.run_until(SEC, |r| r.slot(0, 1, w::STATUS) == w::STATUS_DONE));
    assert!(r.h.now - t0 <= 20_002_000, "{}", r.h.now - t0);
    // The blocks that were held have their place again: 80 of a third one do not start.
    r.w5(0, throttle::VEID_LIMIT0, 0);
    r.w5(0, throttle::VEID_LIMIT0 + 4, 0);
    r.run(1_000);
    r.launch(0, 2, 1, 8, &[one]);
    r.run(SEC);
    assert_eq!(r.slot(0, 2, w::STATUS), 1, "nothing is free again");
}

#[test]
fn remote_accesses_cross_the_host_link() {
    let mut r = rig();
    r.map2m(0, 0x30_0000_0000, pte_sys(0x1000_0000));
    let i = Ins {
        op: 2,
        count: 1 << 18,
        steps: 1,
        a: 0x30_0000_0000,
        ..Ins::default()
    };
    assert_eq!(go(&mut r, 1, 8, &[i]), w::STATUS_DONE);
    assert_eq!(r.stat(0, Counter::WorkBytesHost), 2 << 20);
    let t = u64::from(r.slot(0, 0, w::END_NS_LO) - r.slot(0, 0, w::START_NS_LO));
    // 2 MiB at 12.3 GB/s.
    assert!((170_000..172_000).contains(&t), "{t}");
}

/// Who ends its launches has no more on the link than the engine runs at a time: others need not wait for what nobody wants.
#[test]
fn aborts_leave_no_debt_on_a_link() {
    let mut r = rig();
    r.map2m(0, 0x30_0000_0000, pte_sys(0x1000_0000));
    let i = Ins {
        op: 2,
        count: 8192,
        steps: 1,
        a: 0x30_0000_0000,
        ..Ins::default()
    };
    for _ in 0..200 {
        r.launch(0, 0, 80, 8, &[i]);
        r.run(1_000);
        r.w5(0, slot_at(0) + 0x14, 2);
        r.run(1_000);
        assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_ABORTED);
        assert_eq!(r.slot(0, 0, w::BLOCKS_STALLED), 0);
    }
    let began = r.h.now;
    r.launch(0, 1, 1, 8, &[i]);
    assert!(r.run_until(SEC, |r| r.slot(0, 1, w::STATUS) == w::STATUS_DONE));
    // 80 pieces of 64 KiB at 12.3 GB/s, and its own.
    let took = r.h.now - began;
    assert!(took < 600_000, "{took} ns");
    assert_eq!(r.stat(0, Counter::WorkBytesHost) % 65536, 0);
    r.run(SEC);
    assert_eq!(r.m.next_deadline(), None);
}

#[test]
fn access_counter_notifies_once_until_cleared() {
    let mut r = rig();
    r.channel(0, 0);
    r.map2m(0, 0x30_0000_0000, pte_sys(0x1000_0000));
    // BAR2 physical: the ring is at a VRAM offset.
    r.w0(0, bar0::COUNTER_LO, 0x300_0000 | 1);
    // Threshold 0x80 of 128 bytes: 16 KiB of one 64 KiB region.
    let touch = |r: &mut Rig, bytes: u64| {
        let i = Ins {
            op: 2,
            count: bytes / 8,
            steps: 1,
            a: 0x30_0001_0000,
            ..Ins::default()
        };
        assert_eq!(go(r, 1, 8, &[i]), w::STATUS_DONE);
    };
    touch(&mut r, 8 << 10);
    assert_eq!(r.r0(0, bar0::COUNTER_PUT), 0);
    touch(&mut r, 8 << 10);
    assert_eq!(r.r0(0, bar0::COUNTER_PUT), 1);
    assert_eq!(r.r0(0, bar0::LEAF + 8) >> 8 & 1, 1, "vector 72");
    let dw: Vec<u32> = (0..8)
        .map(|i| r.get_vram64(0, 0x300_0000 + 4 * i) as u32)
        .collect();
    assert_eq!(dw[0], 1 | 2 << 8 | INST as u32, "MIMC, virtual, sysmem");
    assert_eq!((dw[2], dw[3]), (1 << 16, 0x30));
    assert_eq!((dw[5], dw[6]), (0, 0x80));
    assert_eq!(dw[7], 64 << 20 | 1 << 31);
    touch(&mut r, 64 << 10);
    assert_eq!(r.r0(0, bar0::COUNTER_PUT), 1, "silent");
    // MEM_OP ACCESS_COUNTER_CLR, targeted, tag 0.
    r.submit(&mem_op(0, 0, dw[5], 0x16 << 27 | 3));
    r.run(SEC);
    touch(&mut r, 64 << 10);
    assert_eq!(r.r0(0, bar0::COUNTER_PUT), 2);
}

#[test]
fn same_accesses_same_times() {
    let once = || {
        let mut r = Rig::with(
            vec![GpuConfig {
                realism: true,
                ..quiet()
            }],
            Profile::default(),
        );
        r.instance(0, true);
        r.rings(0, 32);
        r.interrupts(0);
        r.launch(
            0,
            0,
            50,
            8,
            &[Ins {
                op: 1,
                count: 512,
                steps: 1,
                dst: A,
                bs: 4096,
                ..Ins::default()
            }],
        );
        for page in 0..50 {
            r.run(7_000);
            for p in r.drain(0, 1, 32) {
                r.map4k(0, p.va, pte_vid(0x200_0000 + (p.va & 0xf_ffff)));
            }
            if page % 3 == 0 {
                r.replay(0, 1);
            }
        }
        let times: Vec<u32> = [w::END_NS_LO, w::FAULTS_LO, w::BLOCKS_DONE]
            .map(|x| r.slot(0, 0, x))
            .into();
        (r.h.messages.clone(), times, r.get_sys(RING1, 32 * 32))
    };
    assert_eq!(once(), once());
}

#[test]
fn timing_off_completes_at_once() {
    let mut r = Rig::with(
        vec![GpuConfig {
            timing: false,
            ..quiet()
        }],
        Profile::default(),
    );
    r.instance(0, true);
    r.rings(0, 64);
    r.map2m(0, A, pte_vid(0x200_0000));
    r.launch(
        0,
        0,
        8,
        8,
        &[Ins {
            op: 1,
            count: 512,
            steps: 4,
            dst: A,
            bs: 16384,
            ss: 4096,
            ..Ins::default()
        }],
    );
    // The clock stands still; only the number of calls counts.
    for _ in 0..4 {
        r.m.timer(&mut r.h);
    }
    assert_eq!((r.slot(0, 0, w::STATUS), r.h.now), (w::STATUS_DONE, 0));
    // Long work is still cut into calls.
    r.launch(
        0,
        0,
        80,
        8,
        &[Ins {
            op: 1,
            count: 1 << 32,
            steps: 1 << 32,
            dst: A,
            es: 8,
            ..Ins::default()
        }],
    );
    let before = r.h.accesses;
    r.m.timer(&mut r.h);
    assert!(r.h.accesses - before < 2000);
    assert!(r.m.next_deadline().is_some());
    r.w5(0, slot_at(0) + 0x14, 2);
}

#[test]
fn phantom_check_counts_nothing() {
    let mut r = Rig::with(
        vec![GpuConfig {
            phantom: true,
            ..quiet()
        }],
        Profile::default(),
    );
    r.instance(0, true);
    r.map2m(0, A, pte_vid(0x200_0000));
    let i = Ins {
        count: 512,
        steps: 1,
        imm0: 5,
        ..Ins::default()
    };
    let ok = go(
        &mut r,
        1,
        8,
        &[Ins { op: 1, dst: A, ..i }, Ins { op: 2, a: A, ..i }],
    );
    assert_eq!((ok, r.slot(0, 0, w::MISMATCHES_LO)), (w::STATUS_DONE, 0));
    assert_eq!(r.get_vram64(0, 0x200_0000), 0);
    assert_eq!(r.slot(0, 0, w::BYTES_LO), 2 * 4096);
}

/// A launch that takes longer to emulate than to happen must not make later work wait until the model has caught up.
#[test]
fn a_clock_that_runs_ahead_does_not_starve_later_work() {
    let mut r = rig();
    let whole = Ins {
        op: 2,
        count: (2 << 20) / 8,
        es: 8,
        ..Ins::default()
    };
    // About a second of reading local memory.
    r.launch(
        0,
        0,
        4,
        8,
        &[Ins {
            a: A,
            steps: 100_000,
            ..whole
        }],
    );
    // The clock of a machine that emulates this: far ahead whenever the model looks.
    for _ in 0..10 {
        r.h.now += 10_000_000;
        r.m.timer(&mut r.h);
    }
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    r.launch(
        0,
        1,
        1,
        8,
        &[Ins {
            a: B,
            steps: 1,
            ..whole
        }],
    );
    let mut calls = 0;
    while r.slot(0, 1, w::STATUS) == w::STATUS_RUNNING {
        calls += 1;
        assert!(
            calls < 200,
            "a launch of 2.3 us waits behind one of a second"
        );
        r.h.now += 100_000;
        r.m.timer(&mut r.h);
    }
    assert_eq!(r.slot(0, 1, w::STATUS), w::STATUS_DONE);
}

/// One call does a bounded amount of work, however much is due.
#[test]
fn a_call_moves_a_bounded_number_of_bytes() {
    let mut r = rig();
    r.launch(
        0,
        0,
        8,
        8,
        &[Ins {
            op: 1,
            dst: A,
            count: (2 << 20) / 8,
            es: 8,
            steps: 1_000,
            ..Ins::default()
        }],
    );
    r.h.now += SEC;
    let before = r.stat(0, Counter::WorkBytesLocal);
    r.h.now += SEC;
    // One access, and the piece under way at its end.
    let after = r.stat(0, Counter::WorkBytesLocal);
    let most = 2 * (huvm_model::machine::ACCESS.bytes + (64 << 10));
    assert!(after > before && after - before <= most, "{before} {after}");
}
