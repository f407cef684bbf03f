// SPDX-License-Identifier: GPL-2.0
//! Replayable faults: first touch, storms, duplicates, overflow, cancel, read-only pages, flush.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, helpers included"
)]

use huvm_hal::channel::CancelAccess;
use huvm_hal::ext::inject::{inject, BadPut, Injection, RingKind};
use huvm_hal::ext::program::{Header, Instr};
use huvm_hal::ext::stats::{counter, Counter};
use huvm_hal::ext::workload::Status;
use huvm_hal::ga100::fault::{take_info, AccessType, Fault, FaultType};
use huvm_hal::ga100::invalidate::{replay, ReplayKind};
use huvm_hal::ga100::irq;
use huvm_hal::ids::*;
use huvm_hal::Error;
use huvm_hw::ext::desc::Op;
use huvm_hw::ext::workload::ERROR_CANCELLED;
use huvm_loopback::driver::{Driver, Space, RO, RW};
use huvm_loopback::Loop;
use huvm_model::config::GpuConfig;
use std::collections::BTreeSet;

const VA: u64 = 0x7f00_1000_0000;
const BLOCKS: u32 = 16;
const BLOCK_STRIDE: u64 = 256 << 10;
const BYTES: u64 = BLOCKS as u64 * BLOCK_STRIDE;

/// FILL and CHECK over `BYTES` at VA, 16 blocks.
fn program() -> (Header, [Instr; 2]) {
    let header = Header {
        blocks: BLOCKS,
        iterations: 1,
        elem_bytes: 8,
        max_resident: 0,
    };
    let mut fill = Instr::new(Op::Fill, 512, BLOCK_STRIDE / 4096);
    fill.dst = GpuVa(VA);
    fill.block_stride_bytes = BLOCK_STRIDE;
    fill.step_stride_bytes = 4096;
    fill.imm0 = 77;
    fill.imm1 = 3;
    let mut check = fill;
    check.op = Op::Check;
    check.a = GpuVa(VA);
    check.dst = GpuVa(0);
    (header, [fill, check])
}

/// Maps the faulting page alone, to VRAM at the same offset from VA.
fn serve_page(space: &mut Space, f: &Fault) -> huvm_hal::Result<()> {
    let off = f.va.0 - VA;
    let page = (off % BLOCK_BYTES / PAGE_BYTES) as u16;
    let base = off - off % BLOCK_BYTES;
    space.map(f.va, &PageMask::range(page, 1), RW, |i| {
        Loc::Vid(VidAddr(0x100_0000 + base + u64::from(i) * PAGE_BYTES))
    })
}

fn loop_with(realism: bool, seed: u32) -> Loop {
    Loop::new(&[GpuConfig {
        realism,
        seed,
        ..GpuConfig::default()
    }])
}

/// Page by page, with every realism switch and three ring sizes: the launch ends and every byte is right.
#[test]
fn first_touch_ends_well() {
    for (realism, ring, seed) in [
        (false, 256, 1),
        (true, 256, 2),
        (true, 128, 3),
        (true, 4096, 4),
    ] {
        let l = loop_with(realism, seed);
        let mut d = Driver::new(&l, 0, 1, ring).unwrap();
        let mut space = Space::new(&d.gpu).unwrap();
        let root = space.tree.root();
        let (header, program) = program();
        let inst = d.launch(3, root, &header, &program).unwrap();
        let mut pages = BTreeSet::new();
        let (report, packets) = d
            .serve_until_done(3, |_, f| {
                assert_eq!((f.instance, f.instance_aperture), (inst.0, 2));
                assert_eq!((f.engine, f.replayable, f.replay_enabled), (64, true, true));
                assert!(f.gpc.is_some_and(|g| g < 8) && f.va.0 >= VA && f.va.0 < VA + BYTES);
                assert!(f.timestamp_ns <= l.now_ns());
                pages.insert(f.va);
                serve_page(&mut space, f)
            })
            .unwrap();
        assert_eq!(report.status, Status::Done, "{report:?}");
        assert_eq!((report.mismatches, report.blocks_done), (0, BLOCKS));
        assert_eq!(pages.len() as u64, BYTES / 4096, "each page faulted");
        assert!(packets >= pages.len() as u32);
        assert!(report.faults >= u64::from(packets), "{report:?} {packets}");
        // All pages of both blocks came from contiguous memory: they are one entry each by now.
        assert_eq!(space.blocks.len(), 2);
        assert!(space.blocks.values().all(|b| b.is_huge()));
        // VRAM holds what FILL writes.
        let v = l.vram(0, 0x100_0000, BYTES as usize);
        for i in (0..BYTES / 8).step_by(1001) {
            assert_eq!(
                huvm_hal::seam::DmaMem::read64(&v, i as usize * 8),
                77 + 3 * i
            );
        }
        assert_eq!(l.take_errors(), []);
        assert_eq!(d.ext.workload.unwrap().take_done(&d.gpu), Ok(1 << 3));
        assert_eq!(d.ext.workload.unwrap().take_done(&d.gpu), Ok(0));
    }
}

/// The whole block is mapped at the first fault in it: the other faults of the storm are spurious.
#[test]
fn a_block_at_a_time() {
    let l = loop_with(true, 5);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let root = space.tree.root();
    let (header, program) = program();
    d.launch(0, root, &header, &program).unwrap();
    let (report, packets) = d
        .serve_until_done(0, |_, f| {
            space.map(f.va, &PageMask::ALL, RW, |i| {
                let base = (f.va.0 - VA) & !(BLOCK_BYTES - 1);
                Loc::Vid(VidAddr(0x100_0000 + base + u64::from(i) * PAGE_BYTES))
            })
        })
        .unwrap();
    assert_eq!((report.status, report.mismatches), (Status::Done, 0));
    assert!(packets < 200, "{packets} packets for two blocks");
}

/// The storm meets a full ring again and again, by size and by injection.
#[test]
fn overflow_loses_nothing() {
    for ring in [4, 128] {
        let l = loop_with(true, 6);
        // A ring of 128 is one page; the short one uses the start of it.
        let mut d = Driver::new(&l, 0, 1, ring).unwrap();
        inject(&d.gpu, Injection::Overflow(5)).unwrap();
        let mut space = Space::new(&d.gpu).unwrap();
        let root = space.tree.root();
        let (header, program) = program();
        d.launch(0, root, &header, &program).unwrap();
        let (report, _) = d
            .serve_until_done(0, |_, f| serve_page(&mut space, f))
            .unwrap();
        assert_eq!((report.status, report.mismatches), (Status::Done, 0));
        let overflows = counter(&d.gpu, Counter::Overflows).unwrap();
        assert!(overflows >= if ring == 4 { 10 } else { 5 }, "{overflows}");
    }
}

/// Faults come by interrupt: masked while they are served, and no wakeup is lost.
#[test]
fn driven_by_interrupts_alone() {
    let l = loop_with(true, 7);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let v = d.id.vectors.replayable;
    irq::unmask(&d.gpu, v);
    let w = d.ext.workload.unwrap().vector;
    irq::unmask(&d.gpu, w);
    let root = space.tree.root();
    let (header, program) = program();
    d.launch(0, root, &header, &program).unwrap();
    let mut batch = [Fault::default(); 16];
    let mut done = false;
    for _ in 0..100_000 {
        let messages = l.take_messages();
        if messages.is_empty() && !l.step() {
            break;
        }
        for (_, entry) in messages {
            for p in irq::pending(&d.gpu, entry as u8) {
                // Top half.
                irq::clear(&d.gpu, p);
                if p == w {
                    done = true;
                }
                if p != v {
                    continue;
                }
                irq::mask(&d.gpu, v);
                // Bottom half: one batch, as if it were scheduled much later.
                l.pass_ns(20_000);
                let n = d
                    .replayable
                    .drain(&d.gpu, &mut batch, &mut l.wait())
                    .unwrap();
                for f in &batch[..n] {
                    serve_page(&mut space, f).unwrap();
                }
                if d.replayable.overflowed(&d.gpu).unwrap() {
                    d.replayable.recover(&d.gpu).unwrap();
                }
                replay(&d.gpu, ReplayKind::Start, &mut l.wait()).unwrap();
                irq::unmask(&d.gpu, v);
                d.replayable.rearm(&d.gpu);
            }
            irq::rearm(&d.gpu, 1 << entry);
        }
    }
    let report = d.report(0).unwrap();
    assert!(done, "the end was announced");
    assert_eq!(
        (report.status, report.mismatches),
        (Status::Done, 0),
        "{report:?}"
    );
}

/// A fault while the ring is off is told by registers, once for each time that it is taken.
#[test]
fn a_fault_without_a_ring_is_taken_from_registers() {
    let l = loop_with(false, 1);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let space = Space::new(&d.gpu).unwrap();
    let v = d.id.vectors.info_fault;
    irq::unmask(&d.gpu, v);
    d.replayable.disable(&d.gpu, &mut l.wait()).unwrap();
    assert_eq!(take_info(&d.gpu), Ok(None));
    let (header, program) = program();
    for slot in 0..2 {
        l.take_messages();
        let inst = d
            .launch(slot, space.tree.root(), &header, &program)
            .unwrap();
        l.settle();
        let entry = u8::try_from(v.0 / 64).unwrap();
        assert!(l.take_messages().iter().any(|m| m.1 == entry.into()));
        assert!(irq::pending(&d.gpu, entry).any(|p| p == v), "slot {slot}");
        irq::clear(&d.gpu, v);
        let f = take_info(&d.gpu).unwrap().unwrap().fault.unwrap();
        assert_eq!((f.instance, f.instance_aperture), (inst.0, 2));
        assert_eq!((f.engine, f.replayable), (64, true));
        assert!((VA..VA + BYTES).contains(&f.va.0), "{f:?}");
        assert_eq!(take_info(&d.gpu), Ok(None));
        let engine = d.ext.workload.unwrap();
        engine.abort(&d.gpu, slot).unwrap();
        l.settle();
        // What it still had under way may have been told meanwhile.
        let _late = take_info(&d.gpu);
        irq::clear(&d.gpu, v);
    }
}

/// A write to a page that is mapped read-only faults as such; loads do not.
#[test]
fn read_only_pages_fault_on_writes_alone() {
    let l = loop_with(false, 1);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let target = |i: u16| Loc::Vid(VidAddr(0x100_0000 + u64::from(i) * PAGE_BYTES));
    space.map(GpuVa(VA), &PageMask::ALL, RO, target).unwrap();
    let header = Header {
        blocks: 1,
        iterations: 1,
        elem_bytes: 4,
        max_resident: 0,
    };
    let mut check = Instr::new(Op::Check, 1024, 512);
    check.a = GpuVa(VA);
    check.step_stride_bytes = 4096;
    let root = space.tree.root();
    d.launch(0, root, &header, &[check]).unwrap();
    let (report, packets) = d.serve_until_done(0, |_, f| panic!("{f:?}")).unwrap();
    assert_eq!(
        (report.status, report.mismatches, packets),
        (Status::Done, 0, 0)
    );

    let mut fill = Instr::new(Op::Fill, 4, 1);
    fill.dst = GpuVa(VA + 5 * 4096);
    fill.imm0 = 1;
    d.launch(1, root, &header, &[fill]).unwrap();
    let mut seen = 0;
    let (report, _) = d
        .serve_until_done(1, |_, f| {
            assert_eq!(
                (f.fault_type, f.access),
                (FaultType::RoViolation, AccessType::Write)
            );
            assert_eq!(f.va, fill.dst);
            seen += 1;
            space.map(f.va, &PageMask::range(5, 1), RW, target)
        })
        .unwrap();
    assert_eq!((report.status, seen), (Status::Done, 1));
    assert!(
        !space.blocks.values().any(|b| b.is_huge()),
        "one page differs"
    );

    // And permission taken away is gone.
    space.revoke_write(GpuVa(VA), &PageMask::ALL).unwrap();
    assert!(space.blocks.values().all(|b| b.is_huge()));
    d.launch(2, root, &header, &[fill]).unwrap();
    let (report, packets) = d
        .serve_until_done(2, |_, f| {
            space.map(f.va, &PageMask::range(5, 1), RW, target)
        })
        .unwrap();
    assert_eq!((report.status, packets), (Status::Done, 1));
}

/// One client is cancelled; another, in the middle of its own faults, ends well.
#[test]
fn a_cancel_fails_one_client_alone() {
    for realism in [false, true] {
        let l = loop_with(realism, 8);
        let mut d = Driver::new(&l, 0, 1, 1024).unwrap();
        let mut good = Space::new(&d.gpu).unwrap();
        let bad = Space::new(&d.gpu).unwrap();
        let (header, program) = program();
        let (good_root, bad_root) = (good.tree.root(), bad.tree.root());
        let good_inst = d.launch(0, good_root, &header, &program).unwrap();
        d.launch(1, bad_root, &header, &program).unwrap();
        let (report, _) = d
            .serve_until_done(0, |d, f| {
                if f.instance == good_inst.0 {
                    serve_page(&mut good, f)
                } else {
                    d.run(0, |p| {
                        p.cancel_va(bad_root, Veid(0), f.va, CancelAccess::All)
                    })
                }
            })
            .unwrap();
        assert_eq!((report.status, report.mismatches), (Status::Done, 0));
        let report = d.report(1).unwrap();
        assert_eq!(report.status, Status::Failed(ERROR_CANCELLED));
        assert!(report.error_va.0 >= VA && report.error_va.0 < VA + BYTES);
        assert_eq!(report.access_type, 1);
        // Cancelled accesses are reported once more, as not replayable.
        l.settle();
        let mut faults = [Fault::default(); 256];
        let n = d
            .non_replayable
            .drain(&d.gpu, &mut faults, &mut l.wait())
            .unwrap();
        assert!(n > 0 && faults[..n].iter().all(|f| !f.replayable && f.va.0 >= VA));
        assert!(counter(&d.gpu, Counter::Cancels).unwrap() > 0);
    }
}

/// Flush drops what is in the ring; a replay brings every live request back.
#[test]
fn flush_then_replay_reports_again() {
    let l = loop_with(true, 9);
    let mut d = Driver::new(&l, 0, 1, 4096).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let root = space.tree.root();
    let (header, program) = program();
    d.launch(0, root, &header, &program).unwrap();
    for _ in 0..3 {
        l.settle();
        assert!(d.replayable.pending(&d.gpu).unwrap() >= BLOCKS);
        assert!(d.replayable.flush(&d.gpu, &mut l.wait()).unwrap() >= BLOCKS);
        assert_eq!(d.replayable.pending(&d.gpu), Ok(0));
        replay(&d.gpu, ReplayKind::StartAckAll, &mut l.wait()).unwrap();
    }
    let (report, _) = d
        .serve_until_done(0, |_, f| serve_page(&mut space, f))
        .unwrap();
    assert_eq!((report.status, report.mismatches), (Status::Done, 0));
}

/// A packet whose VALID comes late is waited for, and one that does not come is an error that loses nothing.
#[test]
fn late_packets_are_waited_for() {
    let l = loop_with(false, 1);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    inject(&d.gpu, Injection::ValidDelayNs(1_000_000)).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let root = space.tree.root();
    let (header, program) = program();
    d.launch(0, root, &header, &program).unwrap();
    while d.replayable.pending(&d.gpu).unwrap() == 0 {
        l.step();
    }
    let mut batch = [Fault::default(); 8];
    let r = d.replayable.drain(&d.gpu, &mut batch, &mut || false);
    assert_eq!(r, Err(Error::Stuck(0)));
    let n = d
        .replayable
        .drain(&d.gpu, &mut batch, &mut l.wait())
        .unwrap();
    assert!(n >= 1);
    for f in &batch[..n] {
        serve_page(&mut space, f).unwrap();
    }
    replay(&d.gpu, ReplayKind::Start, &mut l.wait()).unwrap();
    inject(&d.gpu, Injection::ValidDelayNs(0)).unwrap();
    let (report, _) = d
        .serve_until_done(0, |_, f| serve_page(&mut space, f))
        .unwrap();
    assert_eq!((report.status, report.mismatches), (Status::Done, 0));
}

/// A PUT that is always GET hides what the ring has; FAULT_STATUS does not.
#[test]
fn packets_that_put_hides_are_known_of() {
    let l = loop_with(true, 12);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let space = Space::new(&d.gpu).unwrap();
    let (header, program) = program();
    assert_eq!(d.replayable.hides(&d.gpu), Ok(false), "there is nothing");
    d.launch(0, space.tree.root(), &header, &program).unwrap();
    l.settle();
    assert_eq!(d.replayable.hides(&d.gpu), Ok(false), "PUT says so");
    for (what, hidden) in [(BadPut::Behind, false), (BadPut::Empty, true)] {
        inject(&d.gpu, Injection::PutWrong(RingKind::Replayable, what, 1)).unwrap();
        assert_eq!(d.replayable.hides(&d.gpu), Ok(hidden), "{what:?}");
    }
    let mut batch = [Fault::default(); 8];
    let n = d
        .replayable
        .drain(&d.gpu, &mut batch, &mut || false)
        .unwrap();
    assert!(n != 0, "nothing was passed");
}

/// A PUT that is out of the ring is an error; one that is in it and wrong costs a wait. Neither moves GET past what is there, so the ring
/// works as before once PUT is right. Catches a GET that passes PUT, after which no packet is ever met.
#[test]
fn a_wrong_put_moves_nothing() {
    for what in [BadPut::Far, BadPut::End, BadPut::Behind, BadPut::Empty] {
        // Before there is a packet, and after; more looks than any one call has.
        for (n, early) in [(1, true), (2, false), (3, true), (7, true), (7, false)] {
            let l = loop_with(true, 12);
            let mut d = Driver::new(&l, 0, 1, 256).unwrap();
            let mut space = Space::new(&d.gpu).unwrap();
            let root = space.tree.root();
            let (header, program) = program();
            if !early {
                d.launch(0, root, &header, &program).unwrap();
                l.settle();
            }
            inject(&d.gpu, Injection::PutWrong(RingKind::Replayable, what, n)).unwrap();
            let mut batch = [Fault::default(); 8];
            let (mut served, mut errors) = (0, 0);
            // As the driver does: what is not read is passed, if it is there, and a replay follows.
            for _ in 0..8 {
                match d.replayable.drain(&d.gpu, &mut batch, &mut || false) {
                    Ok(n) => served += n,
                    Err(Error::Stuck(_)) => {
                        errors += 1;
                        let passed = d.replayable.skip(&d.gpu);
                        assert!(matches!(passed, Ok(false) | Err(_)), "{what:?}: {passed:?}");
                    }
                    Err(e) => {
                        errors += 1;
                        assert!(
                            matches!(e, Error::BadDevice("FAULT_BUFFER_PUT", _)),
                            "{e:?}"
                        );
                    }
                }
            }
            let told = matches!(what, BadPut::Far | BadPut::End);
            assert!(!told || errors == n, "{what:?}: {errors} of {n}");
            assert!(early || served != 0, "{what:?}: what was there was read");
            if early {
                d.launch(0, root, &header, &program).unwrap();
            } else {
                replay(&d.gpu, ReplayKind::Start, &mut l.wait()).unwrap();
            }
            let (report, _) = d
                .serve_until_done(0, |_, f| serve_page(&mut space, f))
                .unwrap();
            assert_eq!((report.status, report.mismatches), (Status::Done, 0));
            assert_eq!(l.take_errors(), [], "GET passed nothing");
        }
    }
}

#[test]
fn an_abort_ends_a_stalled_launch() {
    let l = loop_with(true, 10);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let space = Space::new(&d.gpu).unwrap();
    let (header, program) = program();
    d.launch(5, space.tree.root(), &header, &program).unwrap();
    l.settle();
    let r = d.report(5).unwrap();
    assert_eq!((r.status, r.blocks_stalled), (Status::Running, BLOCKS));
    let w = d.ext.workload.unwrap();
    let busy = w.start(&d.gpu, 5, SysAddr(0), SysAddr(0), Veid(0));
    assert_eq!(busy, Err(Error::BadState("slot", 1)));
    w.abort(&d.gpu, 5).unwrap();
    l.settle();
    assert_eq!(d.report(5).unwrap().status, Status::Aborted);
    assert_eq!(w.take_done(&d.gpu), Ok(1 << 5));
    assert!(w.abort(&d.gpu, 64).is_err() && w.report(&d.gpu, 64).is_err());
}

/// Faults of several launches keep their ring through disable and enable.
#[test]
fn a_ring_can_be_taken_down_and_put_up() {
    let l = loop_with(true, 11);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    for round in 0..3 {
        let mut space = Space::new(&d.gpu).unwrap();
        let root = space.tree.root();
        let (header, program) = program();
        d.launch(round, root, &header, &program).unwrap();
        let (report, _) = d
            .serve_until_done(round, |_, f| serve_page(&mut space, f))
            .unwrap();
        assert_eq!(report.status, Status::Done);
        l.settle();
        d.replayable.disable(&d.gpu, &mut l.wait()).unwrap();
        d.replayable.enable(&d.gpu).unwrap();
        assert_eq!(d.replayable.pending(&d.gpu), Ok(0));
    }
    assert_eq!(l.take_errors(), []);
}
