// SPDX-License-Identifier: GPL-2.0
//! Channels that come and go, several on one engine, subcontexts, throttle, access counters, links that go down.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, helpers included"
)]

use huvm_hal::channel::{Channel, CopyFlags, Fill, Layout, SubmitFlags};
use huvm_hal::ext::inject::{inject, Injection};
use huvm_hal::ext::program::{build, Header, Instr};
use huvm_hal::ext::workload::Status;
use huvm_hal::ext::{throttle, topology};
use huvm_hal::ga100::counter::{CounterRing, Notice};
use huvm_hal::ga100::fault::{Fault, FaultType};
use huvm_hal::ga100::instance::{fill_channel, fill_workload, INSTANCE_BYTES};
use huvm_hal::ga100::invalidate::{replay, ReplayKind};
use huvm_hal::ga100::irq;
use huvm_hal::ga100::runlist::{runlist_bytes, Entry};
use huvm_hal::ids::*;
use huvm_hal::seam::DmaMem;
use huvm_hal::Error;
use huvm_hw::ext::desc::Op;
use huvm_loopback::driver::{Driver, Space, RW};
use huvm_loopback::{Loop, Mem};
use huvm_model::config::GpuConfig;

const ONE: CopyFlags = CopyFlags { pipelined: false };
const WINDOW: GpuVa = GpuVa(0x12_0000_0000);

fn quiet() -> GpuConfig {
    GpuConfig {
        realism: false,
        ..GpuConfig::default()
    }
}

/// A further channel for engine 0 of `d`, not on the runlist yet.
fn another(l: &Loop, d: &mut Driver, chid: Chid) -> (Channel<Mem>, Entry) {
    let mem = l.alloc(Layout::DEFAULT.bytes());
    let pde0 = d.kernel.tree.pde0(WINDOW).unwrap();
    let (va, _) = d.window.map(&d.gpu, pde0, &mem).unwrap();
    let token = d.engines[0].runlist.token(chid);
    let ch = Channel::new(ChannelId(chid.0), chid, token, Layout::DEFAULT, mem, va).unwrap();
    let inst = l.alloc(INSTANCE_BYTES);
    let buffer = d.method_buffer(usize::from(chid.0));
    let says = ch.instance(d.kernel.tree.root(), None, buffer);
    fill_channel(&inst, &says).unwrap();
    let entry = Entry {
        chid,
        instance: SysAddr(inst.dma_addr()),
        userd: ch.userd(),
    };
    (ch, entry)
}

/// Three channels share an engine; each is removed in the middle of another's work, and its number used again.
#[test]
fn channels_come_and_go() {
    let l = Loop::new(&[quiet()]);
    let mut d = Driver::new(&l, 0, 0, 64).unwrap();
    let rl = d.engines[0].runlist;
    let gpu = d.gpu.clone();
    rl.init(&gpu, &mut l.wait()).unwrap();
    let list = l.alloc(runlist_bytes(3));
    let m = l.alloc(4096);
    let dst = |i: u32| Loc::Sys(SysAddr(m.dma_addr() + u64::from(i) * 4));
    let mut n = 0;
    for round in 0..4u32 {
        let (mut a, ea) = another(&l, &mut d, Chid(7));
        let (mut b, eb) = another(&l, &mut d, Chid(8));
        rl.submit(&gpu, &list, &[ea, eb], &mut l.wait()).unwrap();
        rl.enable(&gpu, Chid(7)).unwrap();
        rl.enable(&gpu, Chid(8)).unwrap();
        for ch in [&mut a, &mut b] {
            for _ in 0..10 {
                let mut p = ch.begin(64).unwrap();
                p.fill(dst(n), Fill::U32(n + 1), 4, ONE).unwrap();
                p.submit(&gpu, SubmitFlags::default());
                n += 1;
            }
        }
        // Channel 8 finishes; 7 is taken off, done or not, and its work is declared over.
        let mut wait = l.wait();
        while !b.is_idle() {
            assert!(wait());
        }
        if round % 2 == 0 {
            while !a.is_idle() {
                assert!(wait());
            }
        }
        for chid in [Chid(7), Chid(8)] {
            rl.disable(&gpu, chid).unwrap();
        }
        rl.preempt(&gpu, &mut l.wait()).unwrap();
        rl.submit(&gpu, &list, &[], &mut l.wait()).unwrap();
        for chid in [Chid(7), Chid(8)] {
            rl.reset_channel(&gpu, chid).unwrap();
            assert!(!rl.state(&gpu, chid).unwrap().enabled);
        }
        a.abandon();
        assert!(a.is_idle() && b.is_idle());
        // A doorbell of a channel that is gone does nothing.
        let before = a.completed();
        a.begin(64).unwrap().submit(&gpu, SubmitFlags::default());
        l.settle();
        assert_eq!(a.completed(), before);
    }
    for i in 0..n {
        if i / 10 % 2 == 1 || i / 20 % 2 == 0 {
            assert_eq!(m.read32(i as usize * 4), i + 1);
        }
    }
}

const HEADER: Header = Header {
    blocks: 8,
    iterations: 1,
    elem_bytes: 8,
    max_resident: 0,
};

fn touch(va: u64, op: Op) -> Instr {
    let mut i = Instr::new(op, 512, 4);
    (i.dst, i.a) = (GpuVa(va), GpuVa(va));
    i.block_stride_bytes = 4 * 4096;
    i.step_stride_bytes = 4096;
    i
}

/// Two subcontexts with one instance block: their faults carry their numbers.
#[test]
fn subcontexts_are_told_apart() {
    let l = Loop::new(&[quiet()]);
    let mut d = Driver::new(&l, 0, 0, 256).unwrap();
    let space = Space::new(&d.gpu).unwrap();
    let inst = l.alloc(INSTANCE_BYTES);
    fill_workload(&inst, space.tree.root()).unwrap();
    let w = d.ext.workload.unwrap();
    for (slot, veid) in [(0, 0), (1, 63)] {
        let desc = l.alloc(4096);
        build(
            &desc,
            &HEADER,
            &[touch(0x1000_0000 + u64::from(slot) * 0x100_0000, Op::Fill)],
        )
        .unwrap();
        let (desc, inst) = (SysAddr(desc.dma_addr()), SysAddr(inst.dma_addr()));
        w.start(&d.gpu, slot, desc, inst, Veid(veid)).unwrap();
    }
    l.settle();
    let mut f = [Fault::default(); 64];
    let n = d.replayable.drain(&d.gpu, &mut f, &mut l.wait()).unwrap();
    assert_eq!(n, 16);
    for f in &f[..n] {
        let want = if f.va.0 < 0x1100_0000 { 64 } else { 127 };
        assert_eq!(f.engine, want);
    }
    w.abort(&d.gpu, 0).unwrap();
    w.abort(&d.gpu, 1).unwrap();
}

/// A limit of two blocks: never more than two are stalled at once.
#[test]
fn throttle_bounds_the_faults_outstanding() {
    let l = Loop::new(&[quiet()]);
    let mut d = Driver::new(&l, 0, 0, 256).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    throttle::set_active_limit(&d.gpu, Some(2)).unwrap();
    let root = space.tree.root();
    d.launch(0, root, &HEADER, &[touch(0x1000_0000, Op::Fill)])
        .unwrap();
    let mut most = 0;
    let mut pages = std::collections::BTreeSet::new();
    let (r, _) = d
        .serve_until_done(0, |d, f| {
            pages.insert(f.va);
            most = most.max(d.report(0).unwrap().blocks_stalled);
            let page = (f.va.0 - 0x1000_0000) / 4096;
            let target = |_| Loc::Vid(VidAddr(0x100_0000 + page * 4096));
            space.map(f.va, &PageMask::range(page as u16, 1), RW, target)
        })
        .unwrap();
    assert_eq!((r.status, pages.len(), most), (Status::Done, 32, 2));
}

/// Remote accesses are counted, told once, and again after a clear.
#[test]
fn access_counters_notify() {
    let l = Loop::new(&[quiet()]);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let root = space.tree.root();
    let host = l.alloc_aligned(2 << 20, 2 << 20);
    let va = 0x1000_0000u64;
    space
        .map(GpuVa(va), &PageMask::ALL, RW, |i| {
            Loc::Sys(SysAddr(host.dma_addr() + u64::from(i) * 4096))
        })
        .unwrap();
    let n = CounterRing::<huvm_loopback::Vram>::device_entries(&d.gpu).unwrap();
    let mem = l.vram(0, 0x300_0000, n as usize * 32);
    let mut ring = CounterRing::new(&d.gpu, mem).unwrap();
    ring.enable(&d.gpu, 64).unwrap();
    let v = d.id.vectors.access_counter;
    irq::unmask(&d.gpu, v);
    // Counters belong to an instance block, so all launches have the same one.
    let inst = l.alloc(INSTANCE_BYTES);
    fill_workload(&inst, root).unwrap();
    let inst = SysAddr(inst.dma_addr());
    let run = |d: &mut Driver, slot, op| {
        let desc = l.alloc(4096);
        build(&desc, &HEADER, &[touch(va, op)]).unwrap();
        let w = d.ext.workload.unwrap();
        w.start(&d.gpu, slot, SysAddr(desc.dma_addr()), inst, Veid(0))
            .unwrap();
        d.serve_until_done(slot, |_, f| panic!("{f:?}")).unwrap();
        l.settle();
    };
    let mut out = [Notice::default(); 16];
    for round in 0..2 {
        // 8 blocks × 4 pages: two regions of 64 KiB, 512 counts each.
        run(&mut d, round, Op::Fill);
        assert_eq!(irq::pending(&d.gpu, 1).collect::<Vec<_>>(), [v]);
        irq::clear(&d.gpu, v);
        assert_eq!(ring.drain(&d.gpu, &mut out), Ok(2));
        for (notice, addr) in out.iter().zip([va, va + 0x1_0000]) {
            assert!(notice.outbound && notice.is_virtual && notice.count >= 64);
            assert_eq!((notice.addr, notice.engine), (GpuVa(addr), 64));
            assert_eq!(notice.instance, inst.0);
        }
        run(&mut d, round, Op::Check);
        assert_eq!(ring.drain(&d.gpu, &mut out), Ok(0), "each once");
        let first = out[0];
        d.run(0, |p| p.clear_counter(&first)).unwrap();
        run(&mut d, round, Op::Check);
        let n = ring.drain(&d.gpu, &mut out).unwrap();
        assert_eq!((n, out[0].addr), (1, first.addr));
        d.run(0, |p| p.clear_counters()).unwrap();
        irq::clear(&d.gpu, v);
    }
    ring.disable(&d.gpu, &mut l.wait()).unwrap();
    run(&mut d, 3, Op::Check);
    assert_eq!(ring.drain(&d.gpu, &mut out), Ok(0));
}

/// A link goes down under peer mappings: a fatal fault for a launch, a fatal non-replayable one for a copy.
#[test]
fn a_link_goes_down() {
    let l = Loop::new(&[quiet(), quiet()]);
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    topology::set_peer(&d.gpu, 0, Some(1)).unwrap();
    let mut space = Space::new(&d.gpu).unwrap();
    let root = space.tree.root();
    let va = 0x1000_0000u64;
    let peer = |a| Loc::Peer {
        id: 0,
        addr: VidAddr(a),
    };
    space
        .map(GpuVa(va), &PageMask::ALL, RW, |i| {
            peer(0x200_0000 + u64::from(i) * 4096)
        })
        .unwrap();
    let mut fill = touch(va, Op::Fill);
    fill.imm0 = 9;
    d.launch(0, root, &HEADER, &[fill]).unwrap();
    let (r, _) = d.serve_until_done(0, |_, f| panic!("{f:?}")).unwrap();
    assert_eq!(r.status, Status::Done);
    assert_eq!(l.vram(1, 0x200_0000, 4096).read64(8), 9, "over the link");
    let links = d.ext.topology.unwrap().links;
    let index = (0..links)
        .find(|i| topology::link(&d.gpu, *i).unwrap().peer == 1)
        .unwrap();
    inject(&d.gpu, Injection::LinkDown(1 << index)).unwrap();
    assert!(!topology::link(&d.gpu, index).unwrap().up);
    d.launch(1, root, &HEADER, &[fill]).unwrap();
    let (r, _) = d.serve_until_done(1, |_, f| panic!("{f:?}")).unwrap();
    assert_eq!((r.status, r.fault_type), (Status::Failed(2), 0xa));
    d.push(0, SubmitFlags::default(), |p| {
        p.copy(peer(0), Loc::Vid(VidAddr(0)), 4096, ONE)
    })
    .unwrap();
    l.settle();
    let mut f = [Fault::default(); 64];
    let n = d
        .non_replayable
        .drain(&d.gpu, &mut f, &mut l.wait())
        .unwrap();
    assert!(f[..n]
        .iter()
        .any(|f| f.engine == 15 && f.fault_type == FaultType::Fatal(0xa)));
    // The link comes back, the copy goes on.
    inject(&d.gpu, Injection::LinkDown(0)).unwrap();
    let chid = d.channel(0).chid();
    assert_eq!(d.engines[0].runlist.clear_faulted(&d.gpu, chid), Ok(true));
    d.finish(0).unwrap();
}

/// A program that the device refuses although the checker took it would be a hole in the checker: random programs.
#[test]
fn what_the_checker_takes_the_device_takes() {
    let l = Loop::new(&[quiet()]);
    let mut d = Driver::new(&l, 0, 0, 256).unwrap();
    let space = Space::new(&d.gpu).unwrap();
    let inst = l.alloc(INSTANCE_BYTES);
    fill_workload(&inst, space.tree.root()).unwrap();
    let inst = SysAddr(inst.dma_addr());
    let w = d.ext.workload.unwrap();
    let mut seed = 99u64;
    let mut rnd = move |n: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 20) % n
    };
    let (mut good, mut bad) = (0, 0);
    for round in 0..4000u32 {
        let slot = round % 64;
        let desc = l.alloc(4096);
        let mut i = Instr::new(
            Op::from_raw(1 + rnd(12) as u32).unwrap(),
            1 + rnd(5),
            1 + rnd(5),
        );
        let odd = |r: u64, v: u64| match r {
            0 => u64::MAX - v % 64,
            1 => 1 << (v % 64),
            _ => v % 0x1_0000 * 8,
        };
        (i.dst, i.a) = (
            GpuVa(odd(rnd(6), rnd(1 << 40))),
            GpuVa(odd(rnd(6), rnd(1 << 40))),
        );
        (i.b, i.idx) = (
            GpuVa(odd(rnd(6), rnd(1 << 40))),
            GpuVa(odd(rnd(6), rnd(1 << 40))),
        );
        i.block_stride_bytes = odd(rnd(9), rnd(1 << 40));
        i.step_stride_bytes = odd(rnd(9), rnd(1 << 40));
        i.elem_stride_bytes = odd(rnd(9), rnd(1 << 40));
        let h = Header {
            blocks: 1 + rnd(4) as u32,
            iterations: 1,
            elem_bytes: 4 + 4 * rnd(2) as u32,
            max_resident: 0,
        };
        let check = build(&desc, &h, &[i]);
        if rnd(4) == 0 {
            // A header or instruction field that no builder writes.
            let at = [4, 8, 12, 16, 20, 28, 40, 64, 68, 76, 84][rnd(11) as usize];
            desc.write32(at, [0, 1, 3, 17, 1 << 20, u32::MAX][rnd(6) as usize]);
        }
        let check = check.and(huvm_hal::ext::program::check(&desc));
        let check = match check {
            Err(Error::BadProgram(..)) => huvm_hal::ext::program::check(&desc),
            other => other,
        };
        w.start(&d.gpu, slot, SysAddr(desc.dma_addr()), inst, Veid(0))
            .unwrap();
        l.pass_ns(100);
        let refused = w.status(&d.gpu, slot).unwrap() == Status::Failed(1);
        w.abort(&d.gpu, slot).unwrap();
        match check {
            Ok(_) => {
                assert!(!refused, "round {round}: {i:?} {h:?}");
                good += 1;
            }
            // Too small: the device would read past what the driver has.
            Err(Error::BadProgram(..)) => {
                assert!(refused, "round {round}: {check:?} {i:?} {h:?}");
                bad += 1;
            }
            Err(Error::TooSmall(..)) => {}
            Err(e) => panic!("{e:?}"),
        }
        let mut f = [Fault::default(); 64];
        l.settle();
        while d.replayable.drain(&d.gpu, &mut f, &mut l.wait()).unwrap() > 0 {}
        replay(&d.gpu, ReplayKind::Start, &mut l.wait()).unwrap();
    }
    assert!(good > 500 && bad > 500, "{good} {bad}");
}
