// SPDX-License-Identifier: GPL-2.0
//! Descriptors, and blocks that are absent or wrong.

use super::program::{build, check, verify, Header, Instr, Program};
use super::workload::Engine;
use super::{discover, inject, throttle, topology};
use crate::fake::{FakeMem, FakeRegs, Flaky};
use crate::ids::*;
use crate::seam::{Bar, DmaMem, Fence, Mmio};
use crate::Error;
use core::cell::Cell;
use huvm_hw::ext::desc::{header, instr, Op};
use huvm_hw::ext::workload as work;

const HEADER: Header = Header {
    blocks: 4,
    iterations: 2,
    elem_bytes: 4,
    max_resident: 0,
};

fn good() -> (FakeMem, [Instr; 2]) {
    let mut fill = Instr::new(Op::Fill, 1024, 8);
    fill.dst = GpuVa(0x10_0000);
    fill.block_stride_bytes = 0x8000;
    fill.step_stride_bytes = 0x1000;
    let mut reduce = Instr::new(Op::Reduce, 1024, 8);
    reduce.a = GpuVa(0x10_0000);
    reduce.dst = GpuVa(0x20_0000);
    (FakeMem::new(0x1000, 4096), [fill, reduce])
}

#[test]
fn a_good_program_is_built_and_checked() {
    let (mem, program) = good();
    let p = build(&mem, &HEADER, &program).unwrap();
    let want = Program {
        blocks: 4,
        ninstr: 2,
        iterations: 2,
        elem_bytes: 4,
        bytes: 256,
    };
    assert_eq!(p, want);
    assert_eq!(mem.read32(0), 0x4b52_4f57);
    assert_eq!(mem.read64(64 + 24), 0x10_0000);
    assert_eq!(mem.read32(160), 7);
}

/// One word of a good descriptor changed: the field that is blamed.
#[test]
fn each_rule_refuses() {
    let at = |i: usize, f: usize| 64 + 96 * i + f;
    for (off, val, field) in [
        (header::MAGIC, 1, "magic"),
        (header::VERSION, 2, "version"),
        (header::BLOCKS, 0, "blocks"),
        (header::BLOCKS, (1 << 20) + 1, "blocks"),
        (header::NINSTR, 0, "ninstr"),
        (header::NINSTR, 17, "ninstr"),
        (header::ITERATIONS, 0, "iterations"),
        (header::ITERATIONS, u32::MAX, "iterations"),
        (header::ELEM_BYTES, 2, "elem_bytes"),
        (header::FLAGS, 1, "flags"),
        (header::RESERVED, 1, "reserved"),
        (60, 1, "reserved"),
        (at(0, instr::OP), 0, "op"),
        (at(1, instr::OP), 13, "op"),
        (at(1, instr::FLAGS), 1, "instruction flags"),
        (at(0, instr::COUNT), 0, "count"),
        (at(0, instr::COUNT) + 4, 2, "count"),
        (at(1, instr::STEPS) + 4, 1, "steps"),
        (at(0, instr::OP), Op::Trace as u32, "elem_bytes of TRACE"),
        (at(0, instr::STEP_STRIDE) + 4, 0x4000_0000, "strides"),
        (at(0, instr::BLOCK_STRIDE) + 4, 0x8000_0000, "strides"),
        (at(0, instr::STEP_STRIDE) + 4, 0x8000_0000, "strides"),
        (at(0, instr::ELEM_STRIDE) + 4, 0x8000_0000, "strides"),
    ] {
        let (mem, program) = good();
        build(&mem, &HEADER, &program).unwrap();
        mem.write32(off, val);
        match check(&mem) {
            Err(Error::BadProgram(f, _)) => assert_eq!(f, field, "offset {off}"),
            other => panic!("offset {off}: {other:?}"),
        }
    }
    let (mem, mut program) = good();
    program[1].dst = GpuVa(u64::MAX - 8);
    assert_eq!(
        build(&mem, &HEADER, &program),
        Err(Error::BadProgram("dst", u64::MAX - 8))
    );
    assert_eq!(
        verify(&HEADER, &program),
        Err(Error::BadProgram("dst", u64::MAX - 8))
    );
    let short = FakeMem::new(0, 64 + 96);
    assert_eq!(
        build(&short, &HEADER, &program),
        Err(Error::TooSmall("descriptor", 256))
    );
    assert!(build(&mem, &HEADER, &[]).is_err() && build(&mem, &HEADER, &[program[0]; 17]).is_err());
}

#[test]
fn no_extension_is_no_error() {
    let mut regs = FakeRegs::default();
    assert_eq!(discover::discover(&regs), Ok(None), "reads zero");
    let off = huvm_hw::ext::ident::BASE;
    regs.regs.borrow_mut().insert((true, off), u32::MAX);
    assert_eq!(discover::discover(&regs), Ok(None), "reads all ones");
    regs.gone = true;
    assert_eq!(discover::discover(&regs), Err(Error::Gone));
}

/// All of the extension, with two links; a UUID that has a word of all ones.
fn whole() -> FakeRegs {
    use huvm_hw::ext::{
        block_header, ecc, ident, inject, stats, throttle, time, topology, workload,
    };
    let regs = FakeRegs::default();
    let w = |off, val| regs.write32(Bar::Ext, off, val);
    regs.write32(Bar::Regs, 0, 0x1700_00a1);
    for (base, id) in [
        (ident::BASE, ident::ID),
        (topology::BASE, topology::ID),
        (workload::BASE, workload::ID),
        (throttle::BASE, throttle::ID),
        (stats::BASE, stats::ID),
        (inject::BASE, inject::ID),
        (time::BASE, time::ID),
        (ecc::BASE, ecc::ID),
    ] {
        w(base, block_header(id));
    }
    w(ident::FEATURES, 0x3f);
    w(ident::GPU_COUNT, 2);
    w(ident::CE_COUNT, 2);
    w(ident::CE_CAP0, 0xf);
    w(ident::CE_CAP0 + 4, 3);
    w(ident::FLAGS, 1);
    w(ident::VRAM_MIB, 64);
    w(ident::PROFILE_ID, 0x1234_5678);
    for (i, word) in [1, u32::MAX, 3, 4].into_iter().enumerate() {
        w(ident::UUID0 + 4 * i as u32, word);
    }
    w(topology::LINK_COUNT, 2);
    w(topology::HOST_H2D_MBPS, 12_300);
    w(topology::HOST_D2H_MBPS, 12_301);
    w(topology::HOST_LATENCY_NS, 16_700);
    w(topology::VRAM_MBPS, 900_000);
    for i in 0..2 {
        let at = topology::LINK0 + topology::LINK_STRIDE * i;
        w(at + topology::LINK_PEER, 1 + i);
        w(at + topology::LINK_TYPE, topology::LINK_TYPE_NVLINK);
        w(at + topology::LINK_MBPS, 40_100);
        w(at + topology::LINK_LATENCY_NS, 1900);
        w(at + topology::LINK_STATE, 1);
        w(at + topology::LINK_CAPS, 3);
    }
    w(work::SLOT_COUNT, 64);
    w(work::MAX_RESIDENT, 80);
    w(work::INTR_VECTOR, 16);
    regs
}

/// Some reads in a row, wherever they are, that are all ones: an error, or the very answer of a device that always answers.
fn right_or_error<T: PartialEq + core::fmt::Debug>(
    regs: &FakeRegs,
    read: impl Fn(&Flaky<'_>) -> crate::Result<T>,
) {
    let answers = Flaky::new(regs);
    let right = read(&answers).unwrap();
    assert!(answers.reads.get() > 0);
    for len in 1..5 {
        for n in 0..answers.reads.get() {
            match read(&Flaky::new(regs).ones(n..n + len)) {
                Ok(did) => assert_eq!(did, right, "reads {n}, {len}"),
                Err(Error::Gone | Error::BadDevice(..)) => {}
                Err(e) => panic!("reads {n}, {len}: {e:?}"),
            }
        }
    }
}

/// What is read once is kept for as long as the GPU lives.
#[test]
fn all_ones_is_no_answer() {
    let regs = whole();
    let e = discover::discover(&regs).unwrap().unwrap();
    assert!(e.ecc && e.workload.is_some() && e.uuid == [1, u32::MAX, 3, 4]);
    assert_eq!(e.topology.map(|t| t.vram_mbps), Some(900_000));
    right_or_error(&regs, |m| discover::discover(m));
    for i in 0..2 {
        right_or_error(&regs, |m| topology::link(m, i));
        right_or_error(&regs, |m| topology::link_is_up(m, i));
    }
    right_or_error(&regs, |m| topology::set_peer(m, 3, Some(1)));
    right_or_error(&regs, |m| topology::set_peer(m, 3, None));
    right_or_error(&regs, |m| super::ecc::is_there(m));
    // A BAR5 that ends before it, and none at all.
    let without = |off, is: &dyn Fn(&FakeRegs)| {
        regs.regs.borrow_mut().insert((true, off), u32::MAX);
        is(&regs);
        right_or_error(&regs, |m| discover::discover(m));
    };
    without(huvm_hw::ext::ecc::BASE, &|r| {
        assert!(!discover::discover(r).unwrap().unwrap().ecc)
    });
    without(huvm_hw::ext::ident::BASE, &|r| {
        assert_eq!(discover::discover(r), Ok(None))
    });
}

/// What a launch did is told once, and its slot is another's then.
#[test]
fn a_result_is_read_as_it_is() {
    use huvm_hw::ext::workload as hw;
    let regs = whole();
    let w = |at, val| regs.write32(Bar::Ext, hw::SLOT0 + hw::SLOT_STRIDE + at, val);
    let engine = discover::discover(&regs)
        .unwrap()
        .unwrap()
        .workload
        .unwrap();
    w(hw::STATUS, hw::STATUS_DONE);
    w(hw::FAULTS_LO, 7);
    w(hw::BYTES_LO, 4096);
    right_or_error(&regs, |m| engine.report(m, 1));
    // A number that is all ones is one, too.
    w(hw::MISMATCHES_LO, u32::MAX);
    let r = engine.report(&regs, 1).unwrap();
    assert_eq!((r.mismatches, r.bytes), (u32::MAX.into(), 4096));
    right_or_error(&regs, |m| engine.report(m, 1));
}

/// Registers of which some say what `says` gives, if it gives anything.
struct Saying<'a, F>(&'a FakeRegs, F);

impl<F> Fence for Saying<'_, F> {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl<F: Fn(u32) -> Option<u32>> Mmio for Saying<'_, F> {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        self.1(off).unwrap_or_else(|| self.0.read32(bar, off))
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        self.0.write32(bar, off, val);
    }
}

/// A launch that has counted to all ones of something, and counts on: no client has a GPU lost by what it counts.
#[test]
fn a_count_of_all_ones_is_one() {
    let at = |reg| slot_at(3, reg);
    let (engine, m) = Slots::new(&[3]);
    for reg in [work::MISMATCHES_LO, work::FAULTS_LO, work::BLOCKS_DONE] {
        m.regs.regs.borrow_mut().insert((true, at(reg)), u32::MAX);
    }
    let reads = Cell::new(4);
    let count = || {
        reads.set(reads.get() + 1);
        reads.get()
    };
    let running = Saying(&m.regs, |off| (off == at(work::BYTES_LO)).then(count));
    let r = engine.report(&running, 3).unwrap();
    assert_eq!((r.mismatches, r.faults), (u32::MAX.into(), u32::MAX.into()));
    assert_eq!((r.blocks_done, r.bytes), (u32::MAX, 6), "read twice");
    // Each look says something else: one that runs may, a result may not.
    for (status, ok) in [(work::STATUS_RUNNING, true), (work::STATUS_DONE, false)] {
        m.regs
            .regs
            .borrow_mut()
            .insert((true, at(work::STATUS)), status);
        reads.set(0);
        let flickers = Saying(&m.regs, |off| {
            (off == at(work::BLOCKS_STALLED)).then(|| ((count() - 1) % 2) * u32::MAX)
        });
        let did = engine.report(&flickers, 3).map(drop);
        let wrong = Err(Error::BadDevice("report of slot", 3));
        let expect = if ok { Ok(()) } else { wrong };
        assert_eq!((did, reads.get()), (expect, 4));
    }
}

/// A name that another GPU had, and that a lost write did not change.
#[test]
fn a_name_that_was_not_written_is_an_error() {
    let regs = whole();
    topology::set_peer(&regs, 3, Some(1)).unwrap();
    let m = Flaky::new(&regs).lost(0..u32::MAX);
    let entry = 1 << 31 | 1;
    let lost = Err(Error::BadState("peer map", entry));
    assert_eq!(topology::set_peer(&m, 3, None), lost);
    assert_eq!(topology::set_peer(&m, 3, Some(2)), lost);
    assert_eq!(topology::set_peer(&m, 3, Some(1)), Ok(()));
}

#[test]
fn a_wrong_extension_is_an_error() {
    let regs = FakeRegs::default();
    regs.write32(Bar::Ext, 0, 0x0001_0001);
    regs.write32(Bar::Ext, 0x0c, 1);
    assert!(
        discover::discover(&regs).unwrap().is_some(),
        "no features at all is fine"
    );
    regs.write32(Bar::Ext, 4, 1 << 1);
    assert_eq!(
        discover::discover(&regs),
        Err(Error::BadDevice("block header", 0))
    );
    regs.write32(Bar::Ext, 4, 0);
    regs.write32(Bar::Ext, 8, 1);
    assert_eq!(
        discover::discover(&regs),
        Err(Error::BadDevice("GPU_INDEX", 1))
    );
    regs.write32(Bar::Ext, 8, 0);
    regs.write32(Bar::Ext, 0x10, 17);
    assert_eq!(
        discover::discover(&regs),
        Err(Error::BadDevice("CE_COUNT", 17))
    );
}

#[test]
fn injections_are_written() {
    use inject::{BadPart, BadPut, Injection, RingKind};
    let regs = FakeRegs::default();
    for what in [
        Injection::PacketLost(RingKind::Replayable, 3),
        Injection::PacketBad(RingKind::NonReplayable, BadPart::Type, 2),
        Injection::GetCorrupt(RingKind::NonReplayable, 0xffff),
        Injection::PutWrong(RingKind::Replayable, BadPut::Behind, 4),
        Injection::InterruptStorm(3, 5000),
        Injection::ReadsOnes(0, 2),
        Injection::ReadsOnes(1, 3),
        Injection::WritesLost(4, 5),
        Injection::StatusWrong(6),
    ] {
        inject::inject(&regs, what).unwrap();
    }
    let wrote: Vec<_> = regs.writes.borrow().iter().map(|w| (w.1, w.2)).collect();
    assert_eq!(
        wrote,
        [
            (0x5_0044, 3),
            (0x5_0048, 0x8003_0002),
            (0x5_0054, 0x8000_ffff),
            (0x5_0068, 0x0002_0004),
            (0x5_0060, 0x3000_1388),
            (0x5_006c, 2),
            (0x5_006c, 0x0001_0003),
            (0x5_0070, 0x0004_0005),
            (0x5_0074, 6),
        ]
    );
}

/// A limit that the device did not hear is not taken for said.
#[test]
fn a_limit_that_was_lost_is_seen() {
    let regs = FakeRegs::default();
    let (veid, at) = (Veid(5), huvm_hw::ext::throttle::VEID_LIMIT0 + 20);
    throttle::set_veid_limit(&regs, veid, Some(40)).unwrap();
    assert_eq!(regs.read32(Bar::Ext, at), 40);
    // Two in a row: one alone is made up for.
    let deaf = Flaky::new(&regs).lost(0..2);
    let said = throttle::set_veid_limit(&deaf, veid, None);
    assert_eq!(said, Err(Error::BadState("VEID_LIMIT", 40)));
    let once = Flaky::new(&regs).lost(0..1);
    assert_eq!(throttle::set_veid_limit(&once, veid, None), Ok(()));
    assert_eq!(regs.read32(Bar::Ext, at), 0);
}

#[test]
fn arguments_out_of_range() {
    let regs = FakeRegs::default();
    assert_eq!(
        topology::set_peer(&regs, 8, None),
        Err(Error::OutOfRange("peer id", 8))
    );
    assert_eq!(topology::link(&regs, 0), Err(Error::OutOfRange("link", 0)));
    assert_eq!(
        topology::link_is_up(&regs, 32),
        Err(Error::OutOfRange("link", 32))
    );
    assert!(throttle::set_active_limit(&regs, Some(0)).is_err());
    assert!(throttle::set_veid_limit(&regs, Veid(64), None).is_err());
    assert!(inject::inject(&regs, inject::Injection::ReorderPermille(1001)).is_err());
    assert!(inject::inject(&regs, inject::Injection::ValidDelayNs(1_000_001)).is_err());
    let ring = inject::RingKind::Replayable;
    assert!(inject::inject(&regs, inject::Injection::PacketLost(ring, 1 << 16)).is_err());
    assert!(inject::inject(&regs, inject::Injection::InterruptStorm(4, 1)).is_err());
    assert!(inject::inject(&regs, inject::Injection::InterruptStorm(1, 1 << 28)).is_err());
    assert!(inject::inject(&regs, inject::Injection::ReadsOnes(1 << 16, 1)).is_err());
    assert!(inject::inject(&regs, inject::Injection::WritesLost(1, 1 << 16)).is_err());
    assert!(regs.writes.borrow().is_empty());
}

const ENGINE: Engine = Engine {
    slots: 64,
    max_resident: 8,
    vector: Vector(1),
};

/// Slots, some of which run.
struct Slots {
    regs: FakeRegs,
}

const fn slot_at(slot: u32, reg: u32) -> u32 {
    work::SLOT0 + work::SLOT_STRIDE * slot + reg
}

impl Slots {
    fn new(running: &[u32]) -> (Engine, Self) {
        let regs = FakeRegs::default();
        regs.write32(Bar::Ext, slot_at(1, work::STATUS), work::STATUS_DONE);
        for slot in running {
            regs.write32(Bar::Ext, slot_at(*slot, work::STATUS), work::STATUS_RUNNING);
        }
        regs.writes.borrow_mut().clear();
        (ENGINE, Slots { regs })
    }

    fn told(&self) -> Vec<u32> {
        self.regs.writes.borrow().iter().map(|w| w.1).collect()
    }
}

impl Fence for Slots {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for Slots {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        self.regs.read32(bar, off)
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        assert_eq!(val, work::CTRL_ABORT);
        self.regs.write32(bar, off, val);
    }
}

/// A driver finds what one before it left running. Each is told to end, and it waits until it has; others are left alone.
#[test]
fn what_runs_is_silenced() {
    let (engine, m) = Slots::new(&[0, 5, 63]);
    let ends = || {
        // The device takes a while.
        let last = *m.told().last().unwrap();
        let status = last - work::CTRL + work::STATUS;
        m.regs
            .regs
            .borrow_mut()
            .insert((true, status), work::STATUS_ABORTED);
        true
    };
    engine.silence(&m, &mut { ends }).unwrap();
    assert_eq!(m.told(), [0, 5, 63].map(|n| slot_at(n, work::CTRL)));
    engine.silence(&m, &mut || panic!("nothing runs")).unwrap();
    assert_eq!(m.told().len(), 3);
}

/// One that goes on is an error within the bound; so is a device that is gone.
#[test]
fn what_cannot_be_silenced_is_an_error() {
    let (engine, mut m) = Slots::new(&[3]);
    let mut looks = 5;
    let mut wait = || {
        looks -= 1;
        looks > 0
    };
    let did = engine.silence(&m, &mut wait);
    assert_eq!(did, Err(Error::Timeout("launch to end")));
    assert_eq!(looks, 0);
    m.regs.gone = true;
    let did = engine.silence(&m, &mut || panic!("it is gone"));
    assert_eq!(did, Err(Error::Gone));
}

/// A slot that had another client's launch, and runs what it is told to; some writes in a row are lost, and it may be quick.
struct Hearing {
    regs: FakeRegs,
    lost: core::ops::Range<u32>,
    writes: Cell<u32>,
    ends_at_once: bool,
    started: Cell<u32>,
    reads: Cell<u32>,
    /// The read of this number says this.
    misread: Option<(u32, u32)>,
}

impl Hearing {
    const SETTING: [(u32, u32); 5] = [
        (work::DESC_LO, 0x4000_0040),
        (work::DESC_HI, 5),
        (work::INST_LO, 0x3000 | 2),
        (work::INST_HI, 6),
        (work::VEID, 9),
    ];

    fn new(lost: core::ops::Range<u32>, ends_at_once: bool) -> Self {
        let regs = FakeRegs::default();
        for (at, _) in Self::SETTING {
            regs.write32(Bar::Ext, slot_at(1, at), 0x1000);
        }
        regs.write32(Bar::Ext, slot_at(1, work::STATUS), work::STATUS_DONE);
        regs.write32(Bar::Ext, slot_at(1, work::START_NS_LO), 77);
        Hearing {
            regs,
            lost,
            writes: Cell::new(0),
            ends_at_once,
            started: Cell::new(0),
            reads: Cell::new(0),
            misread: None,
        }
    }

    fn start(&self) -> Result<(), Error> {
        let (desc, inst) = (SysAddr(0x5_4000_0040), SysAddr(0x6_0000_3000));
        ENGINE.start(self, 1, desc, inst, Veid(9))
    }
}

impl Fence for Hearing {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for Hearing {
    fn read32(&self, bar: Bar, off: u32) -> u32 {
        let n = self.reads.get();
        self.reads.set(n + 1);
        match self.misread {
            Some((at, says)) if at == n => says,
            _ => self.regs.read32(bar, off),
        }
    }
    fn write32(&self, bar: Bar, off: u32, val: u32) {
        let n = self.writes.get();
        self.writes.set(n + 1);
        if self.lost.contains(&n) {
            return;
        }
        self.regs.write32(bar, off, val);
        if off == slot_at(1, work::CTRL) && val == work::CTRL_START {
            for (at, value) in Self::SETTING {
                assert_eq!(self.regs.read32(bar, slot_at(1, at)), value, "{at:#x}");
            }
            self.started.set(self.started.get() + 1);
            let status = [work::STATUS_RUNNING, work::STATUS_DONE][usize::from(self.ends_at_once)];
            self.regs.write32(bar, slot_at(1, work::STATUS), status);
            self.regs.write32(bar, slot_at(1, work::START_NS_LO), 78);
        }
    }
}

/// Whichever write is lost, the launch that starts is the one that was asked for, and it starts once.
#[test]
fn a_launch_that_was_not_heard_is_told_again() {
    for at_once in [false, true] {
        for n in 0..6 {
            let m = Hearing::new(n..n + 1, at_once);
            assert_eq!(m.start(), Ok(()), "write {n}");
            assert_eq!(m.started.get(), 1, "write {n}");
        }
        // Four times all of it, or four times START: then it is an error.
        let m = Hearing::new(0..15, at_once);
        assert_eq!((m.start(), m.started.get()), (Ok(()), 1));
        let m = Hearing::new(0..20, at_once);
        let did = (m.start(), m.started.get());
        assert_eq!(did, (Err(Error::Timeout("launch to be set up")), 0));
        let m = Hearing::new(5..8, at_once);
        assert_eq!((m.start(), m.started.get()), (Ok(()), 1));
        let m = Hearing::new(5..9, at_once);
        let did = (m.start(), m.started.get());
        assert_eq!(did, (Err(Error::Timeout("launch to start")), 0));
    }
}

/// Whichever read is wrong, the launch starts, and starts once.
#[test]
fn a_launch_that_was_misread_starts_once() {
    for (at_once, says) in [(false, u32::MAX), (false, 7), (true, u32::MAX), (true, 7)] {
        for at in 0..30 {
            let mut m = Hearing::new(0..0, at_once);
            m.misread = Some((at, says));
            let did = (m.start(), m.started.get());
            assert_eq!(did, (Ok(()), 1), "read {at} says {says:#x}");
        }
        // Nor does one that was not heard, and misread then, count as started.
        for at in 0..30 {
            let mut m = Hearing::new(5..6, at_once);
            m.misread = Some((at, says));
            let did = (m.start(), m.started.get());
            assert_eq!(did, (Ok(()), 1), "read {at} says {says:#x}");
        }
    }
}

/// A status that means nothing is read again, and is an error if it goes on.
#[test]
fn a_status_that_means_nothing() {
    let (engine, m) = Slots::new(&[3]);
    let at = slot_at(3, work::STATUS);
    for (wrong, ok) in [(1, true), (3, true), (4, false)] {
        let left = Cell::new(wrong);
        let regs = Saying(&m.regs, |off| {
            (off == at && left.get() != 0).then(|| {
                left.set(left.get() - 1);
                7
            })
        });
        let did = engine.report(&regs, 3).map(|r| r.status);
        let expect = if ok {
            Ok(super::workload::Status::Running)
        } else {
            Err(Error::BadDevice("slot status", 7))
        };
        assert_eq!((did, left.get()), (expect, 0), "{wrong} times");
    }
}

#[test]
fn links_are_as_their_table_has_them() {
    use super::topology::{up_of, Link, LinkType, UNREAD};
    let link = |up| {
        Some(Link {
            peer: 1,
            kind: LinkType::NvLink,
            mbps: 1,
            latency_ns: 1,
            up,
            read: true,
            write: true,
            atomics: true,
        })
    };
    assert_eq!(up_of(&[], 7), 0);
    // Whatever was seen of them before.
    for was in [0, 5, u64::MAX] {
        assert_eq!(up_of(&[link(true), link(false), link(true)], was), 5);
    }
    // One that was not read is as it was, and nothing that can be seen of all of them is the same.
    for (was, up) in [(0, 1), (2, 3), (u64::MAX, 3), (5, 1)] {
        assert_eq!(up_of(&[link(true), None, link(false)], was), up | UNREAD);
    }
    assert_eq!(up_of(&[link(true); 32], 0), u64::from(u32::MAX));
    assert_eq!(up_of(&[link(true); 40], 0), u64::from(u32::MAX));
}
