// SPDX-License-Identifier: GPL-2.0
//! Structures and registers written by hand from the tables of hw-interface.md, beside what the duties make of them.

use super::bringup::{ready_copy_engine, take_refusal, CopyEngine, Refusal};
use super::fault::{disable_all, next_packet, AccessType, Fault, FaultRing, FaultType, RingKind};
use super::instance::{fill_channel, fill_workload, ChannelInstance};
use super::invalidate::{cancel_all, invalidate_pdb, invalidate_va, replay, ReplayKind};
use super::irq;
use super::runlist::{Entry, Runlist};
use crate::fake::{FakeMem, FakeRegs, Flaky};
use crate::ids::*;
use crate::pagetable::{Invalidate, Level};
use crate::seam::{Bar, DmaMem, Mmio};
use crate::Error;
use core::cell::Cell;
use std::vec::Vec;

fn words(m: &FakeMem, from: usize, n: usize) -> Vec<u32> {
    (0..n).map(|i| m.read32(from + 4 * i)).collect()
}

fn writes(r: &FakeRegs) -> Vec<(u32, u32)> {
    let w = r.writes.borrow().iter().map(|w| (w.1, w.2)).collect();
    r.writes.borrow_mut().clear();
    w
}

fn no_wait() -> impl FnMut() -> bool {
    || panic!("nothing to wait for")
}

#[test]
fn channel_instance() {
    let m = FakeMem::new(0x10_0000, 4096);
    let c = ChannelInstance {
        page_dir: SysAddr(0x12_3456_7000),
        chid: Chid(0x123),
        gpfifo: GpuVa(0xab_cdef_0008),
        gpfifo_log2: 9,
        userd: SysAddr(0),
        notify: Some(Vector(7)),
        method_buffer: VidAddr(0x1_f0f0_f0f0_f000),
    };
    fill_channel(&m, &c).unwrap();
    for (off, want) in [
        (0x00, 0),
        (0x10, 0xface),
        (0x30, 0x7fff_f902),
        (0x48, 0xcdef_0008),
        (0x4c, 0x0009_00ab),
        (0x84, 0x2040_0000),
        (0x94, 0x3000_0fff),
        (0xac, 0x2_0000),
        (0xe4, 0x20),
        (0xe8, 0x123),
        (0xf4, 0x1100),
        (0xf8, 0x8000_0007),
        // System memory coherent, volatile, version 2, 64 KiB.
        (0x200, 0x3456_7c06),
        (0x204, 0x12),
        (0x220, 0xf0f0_f000),
        (0x224, 0x1_f0f0),
        (0x298, 0),
    ] {
        assert_eq!(m.read32(off), want, "{off:#x}");
    }
    let bad = ChannelInstance {
        gpfifo: GpuVa(1 << 40),
        ..c
    };
    assert_eq!(fill_channel(&m, &bad), Err(Error::BadAddress(1 << 40)));
    // None, not a page of its own, out of BAR2.
    for at in [0, 0x1800, 1 << 49] {
        let bad = ChannelInstance {
            method_buffer: VidAddr(at),
            ..c
        };
        assert_eq!(fill_channel(&m, &bad), Err(Error::BadAddress(at)));
    }
    let bad = ChannelInstance {
        gpfifo_log2: 0,
        ..c
    };
    assert_eq!(
        fill_channel(&m, &bad),
        Err(Error::OutOfRange("GPFIFO log2", 0))
    );
    let short = FakeMem::new(0, 2048);
    assert_eq!(
        fill_channel(&short, &c),
        Err(Error::TooSmall("instance block", 4096))
    );
}

#[test]
fn a_copy_engine_is_made_ready() {
    let r = FakeRegs::default();
    let e = CopyEngine {
        number: 3,
        fault_id: 18,
        runlist: LIST,
    };
    ready_copy_engine(&r, &e).unwrap();
    // Physical BAR2, what was left, then all but BLOCKPIPE.
    let want = [(0x1714, 0), (0x10_4590, 0x1e), (0x10_458c, 0x1e)];
    assert_eq!(writes(&r), want);
    // One write that is lost is made up for, two are not.
    r.regs.borrow_mut().insert((false, 0x10_458c), 0);
    assert_eq!(ready_copy_engine(&Flaky::new(&r).lost(2..3), &e), Ok(()));
    r.regs.borrow_mut().insert((false, 0x10_458c), 0);
    let deaf = Flaky::new(&r).lost(2..4);
    assert_eq!(
        ready_copy_engine(&deaf, &e),
        Err(Error::BadState("CE_INTR_EN", 0))
    );
}

#[test]
fn a_refusal_is_taken() {
    let r = FakeRegs::default();
    let e = CopyEngine {
        number: 1,
        fault_id: 16,
        runlist: LIST,
    };
    let says = |status, code| {
        let mut regs = r.regs.borrow_mut();
        regs.insert((false, 0x10_4490), status);
        regs.insert((false, 0x10_4498), code);
    };
    // Ends of launches are none.
    says(3, 9);
    assert_eq!(take_refusal(&r, &e), Ok(None));
    assert_eq!(writes(&r), []);
    for (status, launch, config, method_buffer) in [
        (0x1f, Some(9), true, true),
        (0x04, Some(9), false, false),
        (0x08, None, true, false),
        (0x10, None, false, true),
    ] {
        says(status, 9);
        let want = Refusal {
            launch,
            config,
            method_buffer,
        };
        assert_eq!(take_refusal(&r, &e), Ok(Some(want)));
        assert_eq!(writes(&r), [(0x10_4490, status & 0x1c)]);
    }
    says(u32::MAX, 0);
    assert_eq!(take_refusal(&r, &e), Err(Error::Gone));
}

#[test]
fn a_flag_is_waited_for() {
    let r = FakeRegs::default();
    let (chid, at) = (Chid(2), (false, LIST.chram + 8));
    let looks = Cell::new(0);
    let after = |n: u32| {
        let (r, looks) = (&r, &looks);
        looks.set(0);
        r.regs.borrow_mut().insert(at, 2);
        move || {
            looks.set(looks.get() + 1);
            if looks.get() == n {
                r.regs.borrow_mut().insert(at, 1 << 5 | 2);
            }
            looks.get() < 5
        }
    };
    assert_eq!(LIST.engine_faulted(&r, chid, &mut after(3)), Ok(true));
    assert_eq!(looks.get(), 3);
    // Once more when time is up.
    assert_eq!(LIST.engine_faulted(&r, chid, &mut after(5)), Ok(true));
    assert_eq!(LIST.engine_faulted(&r, chid, &mut after(6)), Ok(false));
    assert_eq!(looks.get(), 5);
    r.regs.borrow_mut().insert(at, u32::MAX);
    let gone = LIST.engine_faulted(&r, chid, &mut no_wait());
    assert_eq!(gone, Err(Error::Gone));
}

#[test]
fn workload_instance() {
    let m = FakeMem::new(0x10_0000, 4096);
    fill_workload(&m, SysAddr(0x3_0000_1000)).unwrap();
    let dir = [0x0000_1c36, 3];
    assert_eq!(words(&m, 0x200, 2), dir);
    assert_eq!(words(&m, 0x298, 2), [u32::MAX; 2]);
    for veid in [0, 1, 63] {
        assert_eq!(words(&m, 0x2a0 + 16 * veid, 2), dir);
    }
    assert_eq!(
        fill_workload(&m, SysAddr(0x800)),
        Err(Error::BadAddress(0x800))
    );
}

const LIST: Runlist = Runlist {
    base: 0x60_0400,
    chram: 0x62_2000,
    channels: 2048,
    doorbell_id: 17,
};

#[test]
fn runlist_entries_and_registers() {
    let (m, r) = (FakeMem::new(0x9_8765_4000, 4096), FakeRegs::default());
    let e = |chid, inst| Entry {
        chid: Chid(chid),
        instance: SysAddr(inst),
        userd: SysAddr(0x5_0000_0200),
    };
    LIST.submit(&r, &m, &[e(5, 0x3_0000_1000), e(6, 0x2000)], &mut no_wait())
        .unwrap();
    assert_eq!(words(&m, 0, 4), [0x8003_0001, 1, 5, 0]);
    assert_eq!(words(&m, 16, 4), [0x0000_02a0, 5, 0x1005, 3]);
    assert_eq!(words(&m, 48, 4), [0x0000_02a0, 5, 0x2006, 0]);
    let want = [(0x60_0480, 0x8765_4002), (0x60_0484, 9), (0x60_0488, 4)];
    assert_eq!(writes(&r), want);
    assert_eq!(LIST.token(Chid(6)), 0x0011_0006);
    LIST.enable(&r, Chid(6)).unwrap();
    assert_eq!(writes(&r), [(0x62_2018, 2), (0x60_0490, 6)]);
    LIST.disable(&r, Chid(6)).unwrap();
    assert_eq!(writes(&r), [(0x62_2018, 3)]);
    // Both faulted flags: two clears, one doorbell.
    r.write32(Bar::Regs, 0x62_2018, 0x32);
    writes(&r);
    assert_eq!(LIST.clear_faulted(&r, Chid(6)), Ok(true));
    assert_eq!(
        writes(&r),
        [
            (0x62_2018, 0x11),
            (0x62_2018, 0x21),
            (0xbb_0090, 0x0011_0006)
        ]
    );
    assert_eq!(
        LIST.enable(&r, Chid(2048)),
        Err(Error::OutOfRange("channel", 2048))
    );
    // A list that is never taken.
    r.write32(Bar::Regs, 0x60_048c, 1 << 15);
    let mut looks = 0;
    let mut wait = || {
        looks += 1;
        looks < 10
    };
    assert_eq!(
        LIST.submit(&r, &m, &[], &mut wait),
        Err(Error::Timeout("runlist submit"))
    );
    assert_eq!(looks, 10);
}

#[test]
fn fault_packets() {
    let m = FakeMem::new(0x1_0000_0000, 64 * 32);
    let r = FakeRegs::default();
    let mut ring = FaultRing::new(RingKind::Replayable, m.clone()).unwrap();
    ring.enable(&r).unwrap();
    assert_eq!(
        r.read32(Bar::Regs, 0xb8_3020),
        0xd,
        "physical, coherent, volatile"
    );
    assert_eq!(r.read32(Bar::Regs, 0xb8_3024), 1);
    assert_eq!(r.read32(Bar::Regs, 0xb8_3030), 1 << 31 | 64);
    r.write32(Bar::Regs, 0xb8_3028, 0);
    // A GPC client's write, type PTE; then a hub client's fatal one, not replayable.
    let packets: [[u32; 8]; 2] = [
        [
            0x3456_7200,
            0x12,
            0xabcd_e000,
            0x7f00,
            0x9abc_def0,
            0x10,
            66,
            0xc501_2382,
        ],
        [0x0000_1300, 0, 0x1000, 0, 0, 0, 15, 0x8010_200a],
    ];
    for (p, at) in packets.iter().zip([0, 32]) {
        for (w, off) in p.iter().zip((at..).step_by(4)) {
            m.write32(off, *w);
        }
    }
    r.write32(Bar::Regs, 0xb8_302c, 2);
    assert_eq!(ring.pending(&r), Ok(2));
    let mut out = [Fault::default(); 4];
    assert_eq!(ring.drain(&r, &mut out, &mut no_wait()), Ok(2));
    let want = Fault {
        instance: 0x12_3456_7000,
        instance_aperture: 2,
        va: GpuVa(0x7f00_abcd_e000),
        fault_type: FaultType::Pte,
        access: AccessType::Write,
        timestamp_ns: 0x10_9abc_def0,
        engine: 66,
        client: 0x23,
        gpc: Some(5),
        replayable: true,
        replay_enabled: true,
    };
    assert_eq!(out[0], want);
    assert_eq!(
        (out[1].fault_type, out[1].gpc, out[1].client),
        (FaultType::Fatal(0xa), None, 0x20)
    );
    assert!(!out[1].replayable && !out[1].replay_enabled && out[1].instance_aperture == 3);
    assert_eq!((m.read32(28), m.read32(60)), (0, 0), "VALID is cleared");
    assert_eq!(r.read32(Bar::Regs, 0xb8_3028), 2, "GET");
    writes(&r);
    ring.recover(&r).unwrap();
    assert_eq!(writes(&r), [(0xb8_3028, 2), (0xb8_3028, 2 | 3 << 30)]);
    // A PUT out of range is an error, not an index.
    r.write32(Bar::Regs, 0xb8_302c, 64);
    assert_eq!(
        ring.pending(&r),
        Err(Error::BadDevice("FAULT_BUFFER_PUT", 64))
    );
    assert!(ring.drain(&r, &mut out, &mut no_wait()).is_err());
}

/// An empty ring that works.
fn ring_of_eight() -> (FakeMem, FakeRegs, FaultRing<FakeMem>) {
    let m = FakeMem::new(0, 8 * 32);
    let r = FakeRegs::default();
    let mut ring = FaultRing::new(RingKind::NonReplayable, m.clone()).unwrap();
    ring.enable(&r).unwrap();
    r.write32(Bar::Regs, 0xb8_3008, 0);
    (m, r, ring)
}

/// Catches a packet that is kept with another one's number, and one that stays in the ring.
#[test]
fn some_are_kept_of_what_is_flushed() {
    let (m, r, mut ring) = ring_of_eight();
    let mut kept = Vec::new();
    for (round, put) in [(0u64, 5u32), (1, 2)] {
        for n in 0..5 {
            let at = ((5 * round + n) % 8) as usize * 32;
            // Bits below the address are others' fields.
            m.write64(at, (0x1000 << n) | 0x300);
            m.write64(at + 8, (10 * round + n) << 12);
            m.write32(at + 28, 1 << 31);
        }
        r.write32(Bar::Regs, 0xb8_300c, put);
        let did = ring.flush_but(
            &r,
            &mut no_wait(),
            |instance| [0x2000, 0x8000].contains(&instance),
            |number, f| kept.push((number, f.instance, f.va.0 >> 12)),
        );
        assert_eq!((did, ring.pending(&r)), (Ok(5), Ok(0)));
    }
    let want = [
        (1, 0x2000, 1),
        (3, 0x8000, 3),
        (6, 0x2000, 11),
        (8, 0x8000, 13),
    ];
    assert_eq!(kept, want);
}

#[test]
fn a_ring_wraps() {
    let (m, r, mut ring) = ring_of_eight();
    let (mut put, mut total) = (0u32, 0);
    let mut out = [Fault::default(); 3];
    for n in [3u32, 5, 7, 1, 6, 7, 2] {
        for _ in 0..n {
            m.write64(put as usize * 32 + 8, u64::from(total) << 12);
            m.write32(put as usize * 32 + 28, 1 << 31);
            put = (put + 1) % 8;
            total += 1;
        }
        r.write32(Bar::Regs, 0xb8_300c, put);
        assert_eq!(ring.pending(&r), Ok(n));
        let next = |passed| next_packet(&r, RingKind::NonReplayable, 8, passed);
        assert_eq!(next(ring.passed()), Ok(total.into()));
        assert_eq!(next(1 << 40), Ok((1 << 40) + u64::from(put)));
        r.write32(Bar::Regs, 0xb8_300c, 8);
        assert!(next_packet(&r, RingKind::NonReplayable, 8, 0).is_err());
        assert!(next_packet(&r, RingKind::NonReplayable, 0, 0).is_err());
        r.write32(Bar::Regs, 0xb8_300c, put);
        let mut next = total - n;
        while next < total {
            let got = ring.drain(&r, &mut out, &mut no_wait()).unwrap();
            assert!(got > 0);
            for f in &out[..got] {
                assert_eq!(f.va, GpuVa(u64::from(next) << 12));
                next += 1;
            }
        }
    }
    // An empty ring is looked at, and left alone.
    writes(&r);
    assert_eq!(ring.flush(&r, &mut no_wait()), Ok(0));
    assert_eq!(ring.drain(&r, &mut out, &mut no_wait()), Ok(0));
    assert_eq!(writes(&r), []);
}

#[test]
fn a_packet_that_does_not_come_is_passed() {
    let m = FakeMem::new(0, 4 * 32);
    let r = FakeRegs::default();
    let mut ring = FaultRing::new(RingKind::Replayable, m.clone()).unwrap();
    ring.enable(&r).unwrap();
    let mut out = [Fault::default(); 4];
    // Nothing is there, and nothing to pass: the other ring's packets are none of its own, and a PUT that went behind GET is alone in
    // saying that there is something.
    r.write32(Bar::Regs, 0xb8_3094, !(1 << 8) & !(1 << 31));
    for put in [0, 3] {
        r.write32(Bar::Regs, 0xb8_302c, put);
        writes(&r);
        assert_eq!(ring.skip(&r), Ok(false));
        assert_eq!(writes(&r), []);
    }
    r.write32(Bar::Regs, 0xb8_302c, 0);
    r.write32(Bar::Regs, 0xb8_3094, 1 << 8);
    assert_eq!(ring.skip(&r), Ok(false));
    // Three places, of which the last has its packet; then one beyond the end.
    m.write64(2 * 32 + 8, 0x7000);
    m.write32(2 * 32 + 28, 1 << 31);
    r.write32(Bar::Regs, 0xb8_302c, 3);
    for passed in 0..2 {
        assert_eq!(
            ring.drain(&r, &mut out, &mut || false),
            Err(Error::Stuck(passed))
        );
        assert_eq!(ring.skip(&r), Ok(true));
        assert_eq!(r.read32(Bar::Regs, 0xb8_3028), passed + 1);
    }
    assert_eq!(ring.drain(&r, &mut out, &mut || false), Ok(1));
    assert_eq!(out[0].va, GpuVa(0x7000));
    r.write32(Bar::Regs, 0xb8_302c, 0);
    // It becomes valid just when it is passed: it is not read again when the ring comes round.
    m.write32(3 * 32 + 28, 1 << 31);
    assert_eq!(ring.skip(&r), Ok(true));
    assert_eq!(r.read32(Bar::Regs, 0xb8_3028), 0);
    assert_eq!(m.read32(3 * 32 + 28), 0);
    // A PUT out of range passes nothing.
    r.write32(Bar::Regs, 0xb8_302c, 4);
    assert_eq!(ring.skip(&r), Err(Error::BadDevice("FAULT_BUFFER_PUT", 4)));
}

/// A ring that an earlier owner had is this one's, and on, whichever write is lost; off, when it is to be. If none is heard, that is told.
#[test]
fn a_ring_is_where_it_was_told() {
    let rings = |kind| (kind, [0xb8_3000u32, 0xb8_3020][kind as usize]);
    for (kind, base) in [RingKind::NonReplayable, RingKind::Replayable].map(rings) {
        let before = || {
            let r = FakeRegs::default();
            // The place, GET, PUT, the size.
            for (off, val) in [
                (0, 0x7000_000d),
                (4, 7),
                (8, 3),
                (12, 5),
                (16, 1 << 31 | 32),
            ] {
                r.write32(Bar::Regs, base + off, val);
            }
            r
        };
        let ring = || FaultRing::new(kind, FakeMem::new(0x1_0000_0000, 64 * 32)).unwrap();
        let all = |r: &FakeRegs| [0, 4, 8, 16].map(|off| r.read32(Bar::Regs, base + off));
        let right = before();
        ring().enable(&right).unwrap();
        let mut want = all(&right);
        // Flags are cleared again when the ring is looked at.
        let get = |r: [u32; 4]| [r[0], r[1], r[2] & 0xf_ffff, r[3]];
        want = get(want);
        assert_eq!((want[0], want[1], want[2]), (0xd, 1, 5));
        assert_eq!(want[3] & 0xf_ffff, 64);
        for n in 0..8 {
            let r = before();
            let deaf = Flaky::new(&r).lost(n..n + 1);
            let mut it = ring();
            it.enable(&deaf).unwrap();
            assert_eq!(get(all(&r)), want, "write {n}");
            let now = deaf.writes.get();
            it.disable(&Flaky::new(&r).lost(0..1), &mut no_wait())
                .unwrap();
            assert_eq!(all(&r)[3] >> 31, 0, "after {now} writes");
        }
        let r = before();
        let err = ring().enable(&Flaky::new(&r).lost(0..99));
        assert_eq!(err, Err(Error::BadState("FAULT_BUFFER_HI", 7)));
        let mut it = ring();
        it.enable(&r).unwrap();
        let err = it.disable(&Flaky::new(&r).lost(0..99), &mut no_wait());
        let size = all(&r)[3];
        assert_eq!(err, Err(Error::BadState("FAULT_BUFFER_SIZE", size)));
    }
    // The same of those that an earlier owner had. The first that is not heard keeps none from the others.
    let counters = 0xb8_3108;
    let on = |r: &FakeRegs| {
        [counters, 0xb8_3010, 0xb8_3030].map(|at| {
            let what = r.read32(Bar::Regs, at);
            what & 1 | what >> 31
        })
    };
    let before = || {
        let r = FakeRegs::default();
        r.write32(Bar::Regs, counters, 0x1001);
        r.write32(Bar::Regs, 0xb8_3010, 1 << 31);
        r.write32(Bar::Regs, 0xb8_3030, 1 << 31);
        r
    };
    for n in 0..4 {
        let r = before();
        assert_eq!(disable_all(&Flaky::new(&r).lost(n..n + 1)), Ok(()));
        assert_eq!(on(&r), [0; 3]);
    }
    let r = before();
    let err = Err(Error::BadState("NOTIFY_BUFFER_LO", 0x1001));
    assert_eq!(disable_all(&Flaky::new(&r).lost(0..2)), err);
    assert_eq!(on(&r), [1, 0, 0]);
}

/// A runlist is the one that was submitted, and its channel is enabled, whichever write is lost.
#[test]
fn a_runlist_is_the_one_that_was_submitted() {
    let registers = [0x60_0480, 0x60_0484, 0x60_0488, 0x60_0700, 0x62_2018];
    let all = |r: &FakeRegs| registers.map(|at| r.read32(Bar::Regs, at));
    let before = || {
        let r = FakeRegs::default();
        for (at, val) in [(0x60_0480, 0x7000_0002), (0x60_0484, 7), (0x60_0488, 6)] {
            r.write32(Bar::Regs, at, val);
        }
        r
    };
    let list = FakeMem::new(0x9_8765_4000, 4096);
    let entry = Entry {
        chid: Chid(6),
        instance: SysAddr(0x2000),
        userd: SysAddr(0x5_0000_0200),
    };
    let run = |m: &Flaky<'_>| {
        LIST.init(m, &mut no_wait())?;
        LIST.submit(m, &list, &[entry], &mut no_wait())?;
        LIST.enable(m, Chid(6))
    };
    let undisturbed = before();
    run(&Flaky::new(&undisturbed).lost(0..0)).unwrap();
    let want = all(&undisturbed);
    assert_eq!(want, [0x8765_4002, 9, 2, 1 << 31, 2]);
    for n in 0..9 {
        let r = before();
        run(&Flaky::new(&r).lost(n..n + 1)).unwrap();
        assert_eq!(all(&r), want, "write {n}");
    }
    for (n, what) in [
        (0, Error::BadState("VIRTUAL_CHANNEL_CFG", 0)),
        (4, Error::BadState("SUBMIT_BASE_LO", 2)),
        (6, Error::BadState("SUBMIT", 0)),
        (7, Error::BadState("channel to be enabled", 0)),
    ] {
        let r = before();
        assert_eq!(run(&Flaky::new(&r).lost(n..99)), Err(what));
    }
}

/// Whoever waits may not run for longer than his bound; by then it is done.
#[test]
fn the_last_look_is_after_the_bound() {
    let r = FakeRegs::default();
    let done_late = &mut || {
        r.write32(Bar::Regs, 0xb8_30b0, 0);
        false
    };
    assert_eq!(replay(&r, ReplayKind::Start, done_late), Ok(()));
    let m = FakeMem::new(0, 4 * 32);
    let mut ring = FaultRing::new(RingKind::Replayable, m.clone()).unwrap();
    ring.enable(&r).unwrap();
    m.write64(8, 0x7000);
    r.write32(Bar::Regs, 0xb8_302c, 1);
    let mut out = [Fault::default(); 1];
    let valid_late = &mut || {
        m.write32(28, 1 << 31);
        false
    };
    assert_eq!(ring.drain(&r, &mut out, valid_late), Ok(1));
    assert_eq!(out[0].va, GpuVa(0x7000));
}

/// Registers that take what is written leave TRIGGER set, so each of these ends with a time-out, after the writes.
#[test]
fn invalidate_registers() {
    let r = FakeRegs::default();
    let once = &mut || false;
    let page_dir = SysAddr(0x1ab_3456_7000);
    let timeout = Err(Error::Timeout("invalidate"));
    assert_eq!(invalidate_pdb(&r, page_dir, once), timeout);
    let pdb = [(0xb8_30a0, 0xab34_5672), (0xb8_30a4, 1)];
    // ALL_VA, membar, ack.
    assert_eq!(writes(&r), [pdb[0], pdb[1], (0xb8_30b0, 0x8000_00c1)]);
    let inv = Invalidate::cover(
        GpuVa(0x1_23ab_cdef_0000),
        GpuVa(0x1_23ab_cdef_ffff),
        Level::Pde0,
        true,
    );
    assert_eq!(invalidate_va(&r, page_dir, &inv, once), timeout);
    let want = [
        (0x10_0cb8, 0xab34_5672),
        (0x10_0cec, 1),
        (0x10_0cb4, 0xabcd_ef00),
        (0x10_0ce8, 0x123),
        (0x10_0e68, 4),
        // USE_SIZE, membar, ack, level 2.
        (0x10_0cbc, 0x8240_00c0),
    ];
    assert_eq!(writes(&r), want);
    assert_eq!(replay(&r, ReplayKind::StartAckAll, once), timeout);
    assert_eq!(
        writes(&r),
        [(0xb8_30a0, 0), (0xb8_30a4, 0), (0xb8_30b0, 0x8100_0091)]
    );
    assert_eq!(replay(&r, ReplayKind::Start, once), timeout);
    assert_eq!(writes(&r)[2], (0xb8_30b0, 0x8100_0089));
    assert_eq!(cancel_all(&r, once), timeout);
    assert_eq!(writes(&r)[2], (0xb8_30b0, 0x8100_00a1));
    assert_eq!(
        invalidate_pdb(&r, SysAddr(0x10), once),
        Err(Error::BadAddress(0x10))
    );
}

#[test]
fn interrupt_registers() {
    let r = FakeRegs::default();
    irq::clear(&r, Vector(72));
    irq::mask(&r, Vector(64));
    irq::unmask(&r, Vector(134));
    irq::trigger(&r, Vector(255));
    irq::rearm(&r, 1 << 2);
    let want = [
        (0xb8_1008, 1 << 8),
        (0xb8_1408, 1),
        (0xb8_1210, 1 << 6),
        (0xb8_1640, 255),
        (0xb8_1610, 4),
        (0xb8_1608, 4),
    ];
    assert_eq!(writes(&r), want);
    for v in [256, 0xffff] {
        irq::clear(&r, Vector(v));
        irq::trigger(&r, Vector(v));
    }
    assert_eq!(writes(&r), [], "no such vector");
    r.write32(Bar::Regs, 0xb8_1010, 0b1011);
    r.write32(Bar::Regs, 0xb8_1210, 0b1001);
    r.write32(Bar::Regs, 0xb8_1014, 1 << 31);
    r.write32(Bar::Regs, 0xb8_1214, 1 << 31);
    let got: Vec<_> = irq::pending(&r, 2).map(|v| v.0).collect();
    assert_eq!(got, [128, 131, 191]);
}
