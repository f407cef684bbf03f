// SPDX-License-Identifier: GPL-2.0
//! Channels and copy engines: copies both ways, fills, order between channels, interrupts, faults.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, helpers included"
)]

use huvm_hal::channel::{CopyFlags, Fill, Interrupt, MemBar, PushId, SubmitFlags, Tracker};
use huvm_hal::ext::inject::{inject, Injection};
use huvm_hal::ext::stats::{counter, Counter};
use huvm_hal::ext::topology;
use huvm_hal::ga100::bringup;
use huvm_hal::ga100::fault::Fault;
use huvm_hal::ga100::irq;
use huvm_hal::ids::*;
use huvm_hal::seam::DmaMem;
use huvm_hal::Error;
use huvm_loopback::driver::Driver;
use huvm_loopback::{Loop, Mem};
use huvm_model::config::GpuConfig;

const ONE: CopyFlags = CopyFlags { pipelined: false };
const MORE: CopyFlags = CopyFlags { pipelined: true };

fn sys(m: &Mem, off: u64) -> Loc {
    Loc::Sys(SysAddr(m.dma_addr() + off))
}

fn vid(a: u64) -> Loc {
    Loc::Vid(VidAddr(a))
}

fn pattern(n: usize, seed: u8) -> Vec<u8> {
    (0..n)
        .map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed)
        .collect()
}

#[test]
fn bytes_go_to_the_gpu_and_back() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 2, 256).unwrap();
    let n = 2 << 20;
    let (src, back) = (l.alloc(n), l.alloc(n));
    src.write(0, &pattern(n, 1));
    d.run(0, |p| p.copy(sys(&src, 0), vid(0x40_0000), n as u64, ONE))
        .unwrap();
    let mut got = vec![0; n];
    l.vram(0, 0x40_0000, n).read(0, &mut got);
    assert!(got == pattern(n, 1));
    // Within the GPU, unaligned and piecewise.
    d.run(1, |p| {
        p.copy(vid(0x40_0003), vid(0x80_0001), 5000, ONE)?;
        p.copy(
            vid(0x40_0000 + 5003),
            vid(0x80_0001 + 5000),
            (n - 5003) as u64,
            MORE,
        )
    })
    .unwrap();
    d.run(0, |p| {
        p.copy(vid(0x80_0001), sys(&back, 0), n as u64 - 3, ONE)
    })
    .unwrap();
    back.read(0, &mut got);
    assert!(got[..n - 3] == pattern(n, 1)[3..]);
    assert_eq!(got[n - 3..], [0; 3], "and not a byte more");
    let c = |c| counter(&d.gpu, c).unwrap();
    assert_eq!(c(Counter::BytesHostToDevice), n as u64);
    assert_eq!(c(Counter::BytesDeviceToHost), n as u64 - 3);
    assert_eq!(c(Counter::BytesLocal), n as u64 - 3);
    assert_eq!(c(Counter::GuestErrors), 0, "{:?}", l.take_errors());
}

#[test]
fn fills_of_all_elements() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let m = l.alloc(8192);
    d.run(0, |p| {
        p.fill(vid(0x1000), Fill::U8(0xa5), 0x1001, ONE)?;
        p.fill(vid(0x4000), Fill::U32(0x1234_5678), 0x1000, MORE)?;
        p.fill(sys(&m, 8), Fill::U64(0x0123_4567_89ab_cdef), 0x1000, MORE)
    })
    .unwrap();
    let v = l.vram(0, 0, 0x10000);
    let mut b = vec![0; 0x1003];
    v.read(0xfff, &mut b);
    assert!(b[0] == 0 && b[1..0x1002].iter().all(|x| *x == 0xa5) && b[0x1002] == 0);
    assert!((0..0x400).all(|i| v.read32(0x4000 + 4 * i) == 0x1234_5678) && v.read32(0x5000) == 0);
    assert!((0..0x200).all(|i| m.read64(8 + 8 * i) == 0x0123_4567_89ab_cdef));
    assert_eq!((m.read64(0), m.read64(0x1008)), (0, 0));
    assert!(l.take_errors().is_empty());
}

/// A chain over two engines, held together by acquires alone: the CPU waits once, at the end.
#[test]
fn channels_wait_for_each_other_on_the_gpu() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 2, 256).unwrap();
    let m = l.alloc(0x10_0000);
    for round in 0..8u64 {
        m.write(0, &pattern(0x10_0000, round as u8));
        let mut prev = (1, d.channel(1).submitted());
        for hop in 0..6u64 {
            let n = (hop % 2) as usize;
            let sem = d.channel(prev.0).semaphore();
            let v = d
                .push(n, SubmitFlags::default(), |p| {
                    p.acquire(sem, prev.1)?;
                    let (src, dst) = match hop {
                        0 => (sys(&m, 0), vid(0x100_0000)),
                        _ => (vid(hop * 0x100_0000), vid((hop + 1) * 0x100_0000)),
                    };
                    p.copy(src, dst, 0x10_0000, ONE)
                })
                .unwrap();
            prev = (n, v);
        }
        assert!(!d.channel(prev.0).is_idle(), "all of it is still to come");
        d.finish(prev.0).unwrap();
        let mut got = vec![0; 0x10_0000];
        l.vram(0, 0x600_0000, 0x10_0000).read(0, &mut got);
        assert!(got == pattern(0x10_0000, round as u8), "round {round}");
    }
    assert!(l.take_errors().is_empty());
}

#[test]
fn a_tracker_names_what_is_left() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 3, 256).unwrap();
    let mut t = Tracker::EMPTY;
    for n in 0..3 {
        let v = d
            .push(n, SubmitFlags::default(), |p| {
                p.copy(vid(0), vid(0x10_0000), 0x1000 << (4 * n), ONE)
            })
            .unwrap();
        assert_eq!(t.add(PushId::new(d.channel(n).id(), v.into())), None);
    }
    assert_eq!(t.iter().count(), 3);
    d.finish(0).unwrap();
    let is_done = |d: &Driver, id: ChannelId, number: u64| {
        d.channels[usize::from(id.0)].is_done(number as u32)
    };
    t.prune(|id, number| is_done(&d, id, number));
    assert!(t.iter().all(|(id, _)| id != ChannelId(0)) && !t.is_empty());
    d.finish(1).unwrap();
    d.finish(2).unwrap();
    assert!(t.prune(|id, number| is_done(&d, id, number)));
}

/// More pushes than GPFIFO entries and more words than pushbuffer, at full speed and with the CPU far ahead.
#[test]
fn rings_wrap_many_times() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let gpu = d.gpu.clone();
    let m = l.alloc(4096);
    let mut busy = 0;
    let before = d.channel(0).submitted();
    assert!(before > u32::MAX - 3000, "the semaphore wraps, too");
    for i in 0..3000u32 {
        let dwords = 16 + i * 37 % 1500;
        loop {
            match d.channel(0).begin(dwords) {
                Ok(mut p) => {
                    p.fill(sys(&m, u64::from(i % 1024) * 4), Fill::U32(i), 4, MORE)
                        .unwrap();
                    while p.room() > 2 && p.wait_idle().is_ok() {}
                    p.submit(&gpu, SubmitFlags::default());
                    break;
                }
                Err(Error::Busy(_)) => {
                    busy += 1;
                    l.step();
                }
                Err(e) => panic!("{e:?}"),
            }
        }
    }
    d.finish(0).unwrap();
    assert!(busy > 0, "the ring was full at times");
    assert_eq!(d.channel(0).completed(), before.wrapping_add(3000));
    for i in 3000 - 1024..3000u32 {
        assert_eq!(m.read32((i % 1024) as usize * 4), i);
    }
    assert!(l.take_errors().is_empty());
}

#[test]
fn the_end_of_a_push_interrupts() {
    for who in [Interrupt::Host, Interrupt::Engine] {
        let l = Loop::one();
        let mut d = Driver::new(&l, 0, 2, 256).unwrap();
        // Channel 1 is on engine 1.
        let vector = bringup::copy_vector(&d.gpu, &d.engines[1]).unwrap();
        irq::unmask(&d.gpu, vector);
        let v = d
            .push(1, ending(who), |p| {
                p.copy(vid(0), vid(0x10_0000), 0x8_0000, ONE)
            })
            .unwrap();
        assert_eq!(l.take_messages(), []);
        l.settle();
        assert_eq!(l.take_messages(), [(0, 0)], "{who:?}");
        assert_eq!(irq::pending(&d.gpu, 0).collect::<Vec<_>>(), [vector]);
        assert!(d.channel(1).is_done(v), "never before the work is done");
    }
}

fn ending(who: Interrupt) -> SubmitFlags {
    SubmitFlags {
        interrupt: Some(who),
        no_flush: false,
    }
}

/// With the engine's own interrupt the link's latency is paid once, in the right order all the same; a copy that must wait does.
#[test]
fn pushes_overlap_where_they_may() {
    const N: u64 = 8;
    const BYTES: u64 = 0x2_0000;
    let time = |who, flags| {
        let l = Loop::one();
        let mut d = Driver::new(&l, 0, 1, 256).unwrap();
        let m = l.alloc((N * BYTES) as usize);
        m.write(0, &pattern((N * BYTES) as usize, 5));
        let began = l.now_ns();
        for i in 0..N {
            d.push(0, ending(who), |p| {
                p.copy(sys(&m, i * BYTES), vid(i * BYTES), BYTES, flags)
            })
            .unwrap();
        }
        d.finish(0).unwrap();
        let took = l.now_ns() - began;
        let mut got = vec![0; (N * BYTES) as usize];
        l.vram(0, 0, got.len()).read(0, &mut got);
        assert!(got == pattern(got.len(), 5));
        assert!(l.take_errors().is_empty());
        took
    };
    // 16.7 us over PCIe.
    let (latency, apart) = (16_700, time(Interrupt::Host, MORE));
    assert!(time(Interrupt::Engine, ONE) + latency > apart);
    let together = time(Interrupt::Engine, MORE);
    assert!(together + (N - 2) * latency < apart, "{together} {apart}");
}

#[test]
fn timestamps_measure_a_copy() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let stamps = l.alloc(4096);
    let pde0 = d.kernel.tree.pde0(GpuVa(0x12_0000_0000)).unwrap();
    let (va, inv) = d.window.map(&d.gpu, pde0, &stamps).unwrap();
    let root = d.kernel.tree.root();
    let m = l.alloc(2 << 20);
    d.run(0, |p| {
        p.invalidate(root, &inv)?;
        p.timestamp(va, 1)?;
        p.copy(sys(&m, 0), vid(0), 2 << 20, ONE)?;
        p.membar(MemBar::System)?;
        p.timestamp(GpuVa(va.0 + 16), 2)
    })
    .unwrap();
    assert_eq!((stamps.read32(0), stamps.read32(16)), (1, 2));
    let ns = stamps.read64(24) - stamps.read64(8);
    // 2 MiB at 12.3 GB/s, and 16.7 us.
    assert!((150_000..250_000).contains(&ns), "{ns} ns");
}

/// An injected fault stops the channel; clearing it lets the same copy run to its end.
#[test]
fn a_faulted_copy_is_restarted() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let m = l.alloc(4096);
    m.write(0, &pattern(4096, 9));
    inject(&d.gpu, Injection::CeFault(2)).unwrap();
    d.push(0, SubmitFlags::default(), |p| {
        p.copy(sys(&m, 0), vid(0x1000), 4096, ONE)?;
        p.copy(vid(0x1000), vid(0x2000), 4096, ONE)
    })
    .unwrap();
    l.settle();
    assert!(!d.channel(0).is_idle());
    let mut faults = [Fault::default(); 8];
    let n = d
        .non_replayable
        .drain(&d.gpu, &mut faults, &mut l.wait())
        .unwrap();
    assert_eq!(
        (n, faults[0].engine, faults[0].replayable, faults[0].gpc),
        (1, 15, false, None)
    );
    let (rl, chid) = (d.engines[0].runlist, d.channel(0).chid());
    let state = rl.state(&d.gpu, chid).unwrap();
    assert!(state.engine_faulted && state.enabled);
    assert_eq!(rl.clear_faulted(&d.gpu, chid), Ok(true));
    d.finish(0).unwrap();
    assert_eq!(rl.clear_faulted(&d.gpu, chid), Ok(false));
    let mut got = vec![0; 4096];
    l.vram(0, 0x2000, 4096).read(0, &mut got);
    assert!(got == pattern(4096, 9));
}

/// The flag of a fault comes after its packet: who has read that looks until it does, and the copy goes on.
#[test]
fn a_flag_that_comes_late_is_waited_for() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let (gpu, rl, chid) = (d.gpu.clone(), d.engines[0].runlist, d.channel(0).chid());
    inject(&gpu, Injection::FlagLatePermille(1000)).unwrap();
    let mut faults = [Fault::default(); 8];
    for _ in 0..20 {
        inject(&gpu, Injection::CeFault(1)).unwrap();
        d.push(0, SubmitFlags::default(), |p| {
            p.copy(vid(0x1000), vid(0x2000), 4096, ONE)
        })
        .unwrap();
        let mut n = 0;
        while n == 0 {
            l.step();
            n = d
                .non_replayable
                .drain(&gpu, &mut faults, &mut l.wait())
                .unwrap();
        }
        let began = l.now_ns();
        let mut late = || {
            l.pass_ns(1000);
            l.now_ns() - began < 100_000
        };
        assert_eq!(rl.engine_faulted(&gpu, chid, &mut late), Ok(true));
        assert_eq!(rl.clear_faulted(&gpu, chid), Ok(true));
        d.finish(0).unwrap();
    }
    assert!(l.take_errors().is_empty());
}

/// A copy by virtual address to where nothing is mapped: fault, map, invalidate, go on.
#[test]
fn a_virtual_copy_faults_and_goes_on() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    let (src, dst) = (l.alloc(4096), l.alloc(4096));
    src.write(0, &pattern(4096, 3));
    let pde0 = d.kernel.tree.pde0(GpuVa(0x12_0000_0000)).unwrap().clone();
    let (a, _) = d.window.map(&d.gpu, &pde0, &src).unwrap();
    let b = GpuVa(a.0 + 4096);
    d.push(0, SubmitFlags::default(), |p| {
        p.copy_virtual(a, b, 4096, ONE)
    })
    .unwrap();
    l.settle();
    let mut faults = [Fault::default(); 8];
    let n = d
        .non_replayable
        .drain(&d.gpu, &mut faults, &mut l.wait())
        .unwrap();
    assert_eq!((n, faults[0].va, faults[0].engine), (1, b, 15));
    let (va, inv) = d.window.map(&d.gpu, &pde0, &dst).unwrap();
    assert_eq!(va, b);
    let root = d.kernel.tree.root();
    huvm_hal::ga100::invalidate::invalidate_va(&d.gpu, root, &inv, &mut l.wait()).unwrap();
    let chid = d.channel(0).chid();
    assert_eq!(d.engines[0].runlist.clear_faulted(&d.gpu, chid), Ok(true));
    d.finish(0).unwrap();
    let mut got = vec![0; 4096];
    dst.read(0, &mut got);
    assert!(got == pattern(4096, 3));
}

/// A copy that hangs: the wait ends, the channel is taken off, its waiters go on.
#[test]
fn a_hanging_copy_is_given_up() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 1, 256).unwrap();
    inject(&d.gpu, Injection::CeHang(1)).unwrap();
    d.push(0, SubmitFlags::default(), |p| {
        p.copy(vid(0), vid(0x1000), 4096, ONE)
    })
    .unwrap();
    assert_eq!(d.finish(0), Err(Error::Timeout("channel idle")));
    let (rl, chid) = (d.engines[0].runlist, d.channel(0).chid());
    rl.disable(&d.gpu, chid).unwrap();
    assert!(!rl.state(&d.gpu, chid).unwrap().enabled);
    d.channel(0).abandon();
    d.finish(0).unwrap();
}

#[test]
fn peers_copy_both_ways() {
    let config = GpuConfig {
        realism: false,
        ..GpuConfig::default()
    };
    let l = Loop::new(&[config.clone(), config]);
    let mut a = Driver::new(&l, 0, 1, 256).unwrap();
    let mut b = Driver::new(&l, 1, 1, 256).unwrap();
    topology::set_peer(&a.gpu, 5, Some(1)).unwrap();
    topology::set_peer(&b.gpu, 2, Some(0)).unwrap();
    let n = 0x20_0000;
    let peer = |id, addr| Loc::Peer {
        id,
        addr: VidAddr(addr),
    };
    l.vram(0, 0x10_0000, n).write(0, &pattern(n, 7));
    // GPU 0 writes to GPU 1; GPU 1 reads it back from a copy that it made on GPU 0.
    a.run(0, |p| {
        p.copy(vid(0x10_0000), peer(5, 0x200_0000), n as u64, ONE)
    })
    .unwrap();
    b.run(0, |p| {
        p.copy(vid(0x200_0000), peer(2, 0x300_0000), n as u64, ONE)
    })
    .unwrap();
    b.run(0, |p| {
        p.copy(peer(2, 0x300_0000), vid(0x500_0000), n as u64, ONE)
    })
    .unwrap();
    let mut got = vec![0; n];
    l.vram(1, 0x500_0000, n).read(0, &mut got);
    assert!(got == pattern(n, 7));
    // Counted where the bytes leave and where they arrive, whoever asked for the copy.
    let count = |d: &Driver, c| counter(&d.gpu, c).unwrap() / n as u64;
    assert_eq!(
        (
            count(&a, Counter::BytesToPeers),
            count(&a, Counter::BytesFromPeers)
        ),
        (2, 1)
    );
    assert_eq!(
        (
            count(&b, Counter::BytesToPeers),
            count(&b, Counter::BytesFromPeers)
        ),
        (1, 2)
    );
    // Nothing is mapped behind another id: a fault, not a copy to somewhere.
    b.push(0, SubmitFlags::default(), |p| {
        p.copy(peer(6, 0), vid(0), 4096, ONE)
    })
    .unwrap();
    l.settle();
    let mut faults = [Fault::default(); 4];
    assert_eq!(
        b.non_replayable.drain(&b.gpu, &mut faults, &mut l.wait()),
        Ok(1)
    );
    assert!(faults[0].fault_type.is_fatal());
    assert!(!b.channel(0).is_idle());
}

/// Order between GPUs: GPU 1 waits for GPU 0's semaphore, mapped into its own window.
#[test]
fn a_gpu_waits_for_another() {
    let config = GpuConfig {
        realism: false,
        ..GpuConfig::default()
    };
    let l = Loop::new(&[config.clone(), config]);
    let mut a = Driver::new(&l, 0, 1, 256).unwrap();
    let mut b = Driver::new(&l, 1, 1, 256).unwrap();
    let (page, off) = a.channel(0).semaphore_page();
    let pde0 = b.kernel.tree.pde0(GpuVa(0x12_0000_0000)).unwrap();
    let (va, _) = b.window.map_page(&b.gpu, pde0, page).unwrap();
    let m = l.alloc(0x10_0000);
    m.write(0, &pattern(0x10_0000, 5));
    let mid = l.alloc(0x10_0000);
    let v = a
        .push(0, SubmitFlags::default(), |p| {
            p.copy(sys(&m, 0), vid(0), 0x10_0000, ONE)?;
            p.copy(vid(0), sys(&mid, 0), 0x10_0000, ONE)
        })
        .unwrap();
    b.run(0, |p| {
        p.acquire(GpuVa(va.0 + off), v)?;
        p.copy(sys(&mid, 0), vid(0x1000), 0x10_0000, ONE)
    })
    .unwrap();
    let mut got = vec![0; 0x10_0000];
    l.vram(1, 0x1000, 0x10_0000).read(0, &mut got);
    assert!(got == pattern(0x10_0000, 5));
}
