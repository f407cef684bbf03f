// SPDX-License-Identifier: GPL-2.0
//! What a driver must not count on: moments that hardware leaves open, and orders that nobody asked for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext;
use huvm_model::bar0;
use huvm_model::config::{GpuConfig, Profile};

fn real(seed: u32) -> Rig {
    let config = GpuConfig {
        realism: true,
        seed,
        ..quiet()
    };
    let mut r = Rig::with(vec![config], Profile::default());
    r.channel(0, 0);
    r
}

/// A second channel, of the same address space, on runlist 1.
fn second(r: &mut Rig) {
    let image = r.get_vram(0, INST, 4096);
    r.vram(0, INST + 0x4000, &image);
    let gpfifo = SYS_VA + 0x2_8000;
    let list = RUNLIST + 0x1000;
    r.channel_at(0, 1, 2, INST + 0x4000, USERD + 0x200, gpfifo, list);
}

fn submit_second(r: &mut Rig, words: &[u32]) {
    r.submit_on(0, 1, 2, USERD + 0x200, 0x2_8000, words);
}

fn physical(src: u64, dst: u64, len: u32) -> Vec<u32> {
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(src, dst, len, NON_PIPELINED | PHYS));
    p
}

fn errors(r: &Rig, what: &str) -> usize {
    r.h.errors.iter().filter(|(_, e)| e.contains(what)).count()
}

/// Bytes of the destination that are of the source as it was first, as it was changed half way, and those bytes.
fn half_way(r: &mut Rig) -> (usize, usize) {
    const BYTES: usize = 256 << 10;
    r.sys(0x1000_0000, &[1; BYTES]);
    r.vram(0, 0x300_0000, &[0; BYTES]);
    let at = r.h.now;
    r.submit(&physical(0x1000_0000, 0x300_0000, BYTES as u32));
    // 256 KiB take 21 us, after the doorbell's microsecond.
    r.run(10_000);
    r.sys(0x1000_0000, &[2; BYTES]);
    assert_eq!(r.get_vram(0, 0x300_0000, BYTES), [0; BYTES]);
    r.run(SEC);
    assert!(r.h.now > at);
    let got = r.get_vram(0, 0x300_0000, BYTES);
    let old = got.iter().take_while(|b| **b == 1).count();
    assert!(got[old..].iter().all(|b| *b == 2));
    (old, BYTES - old)
}

#[test]
fn a_source_is_read_at_any_moment() {
    let mut r = real(1);
    let all: Vec<_> = (0..64).map(|_| half_way(&mut r)).collect();
    let which = |f: fn(&(usize, usize)) -> bool| all.iter().filter(|x| f(x)).count();
    assert!(which(|x| x.1 == 0) > 10, "soon: {all:?}");
    assert!(which(|x| x.0 == 0) > 10, "late: {all:?}");
    assert!(which(|x| x.0 != 0 && x.1 != 0) > 5, "in parts: {all:?}");
    assert_eq!(r.h.errors, []);
}

#[test]
fn moments_are_those_of_the_seed() {
    let run = |seed| {
        let mut r = real(seed);
        (0..16).map(|_| half_way(&mut r)).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn without_realism_a_source_is_read_at_the_end() {
    let mut r = Rig::new(1);
    r.channel(0, 0);
    assert!((0..8).all(|_| half_way(&mut r).0 == 0));
}

#[test]
fn copies_of_two_channels_that_have_the_same_memory_clash() {
    let clash = |second_src: u64, second_dst: u64| {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        second(&mut r);
        r.submit(&physical(0x1000_0000, 0x300_0000, 64 << 10));
        submit_second(&mut r, &physical(second_src, second_dst, 64 << 10));
        r.run(SEC);
        errors(&r, "copies clash")
    };
    assert_eq!(clash(0x1100_0000, 0x400_0000), 0, "other memory");
    assert_eq!(clash(0x1000_0000, 0x400_0000), 0, "both read");
    assert_eq!(clash(0x1100_0000, 0x300_f000), 1, "both write");
    assert_eq!(clash(0x1100_0000, 0x301_0000), 0, "beside it");
}

/// Its data is there, but nothing says so yet: whoever begins now has not waited.
#[test]
fn a_copy_is_in_flight_until_it_is_complete() {
    for (wait, clashes) in [(10_000, 1), (40_000, 0)] {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        second(&mut r);
        // The data takes 5 us, the link's latency is 16.7.
        r.submit(&physical(0x1000_0000, 0x300_0000, 64 << 10));
        r.run(wait);
        submit_second(&mut r, &physical(0x1100_0000, 0x300_0000, 64));
        r.run(SEC);
        assert_eq!(errors(&r, "copies clash"), clashes, "{wait}");
    }
}

#[test]
fn copies_of_two_gpus_on_the_same_memory_clash() {
    let mut r = Rig::new(2);
    r.channel(0, 0);
    r.channel(1, 0);
    r.w5(0, huvm_hw::ext::topology::PEER_MAP0, 1 << 31 | 1);
    // Both have the one ring, and are past the look at it that loading takes.
    r.run(10_000);
    // GPU 1 fills its memory from the host while GPU 0 writes there.
    r.submit_on(
        1,
        0,
        1,
        USERD,
        GPFIFO,
        &physical(0x1000_0000, 0x300_0000, 1 << 20),
    );
    r.run(3_000);
    r.sys32(USERD + 0x8c, 0);
    let mut p = inc(0x260, &[0, 3]);
    p.extend(copy(0x500_0000, 0x308_0000, 4096, NON_PIPELINED | PHYS));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(errors(&r, "copies clash"), 1, "{:?}", r.h.errors);
}

/// One behind the other, in one channel or by a semaphore: nothing to say.
#[test]
fn copies_in_order_do_not_clash() {
    let mut r = real(1);
    second(&mut r);
    let mut p = physical(0x1000_0000, 0x300_0000, 4 << 20);
    p.extend(copy(0x300_0000, 0x400_0000, 64 << 10, NON_PIPELINED | PHYS));
    p.extend(sem(SEM_VA, 1, 1 | 1 << 20));
    r.submit(&p);
    let mut p = sem(SEM_VA, 1, 3);
    p.extend(physical(0x1000_0000, 0x300_0000, 64));
    submit_second(&mut r, &p);
    r.run(SEC);
    assert_eq!(r.h.errors, []);
}

/// How long an invalidate took, and how long after it was asked for a copy still used the old translation, ns.
fn invalidated(r: &mut Rig) -> (u64, u64) {
    let va = 0x9000_0000;
    // The old one is cached.
    r.map4k(0, va, pte_vid(0x400_0000));
    r.replay(0, 0);
    r.run(SEC);
    r.submit(&copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
    r.run(SEC);
    r.map4k(0, va, pte_vid(0x500_0000));
    let t0 = r.h.now;
    r.replay(0, 0);
    let mut stale = 0;
    while r.r0(0, bar0::INVALIDATE) >> 31 != 0 {
        // A look through the aperture that copy engines share a TLB with.
        if r.m.mmio_read(0, 1, va, 4, &mut r.h) == 4 {
            stale = r.h.now - t0;
        }
        r.run(100);
    }
    assert_eq!(
        r.m.mmio_read(0, 1, va, 4, &mut r.h),
        5,
        "after the acknowledge"
    );
    (r.h.now - t0, stale)
}

/// BAR1 through the channel's page tables; what is mapped says where it is.
fn looking(mut r: Rig) -> Rig {
    r.w0(0, bar0::BAR1_BLOCK, 1 << 31 | (INST >> 12) as u32);
    r.vram32(0, 0x400_0000, 4);
    r.vram32(0, 0x500_0000, 5);
    r.sys32(0x18_0000, 4);
    r
}

#[test]
fn an_invalidate_takes_effect_at_any_moment_until_it_is_acknowledged() {
    let mut r = looking(real(1));
    let all: Vec<_> = (0..32).map(|_| invalidated(&mut r)).collect();
    assert!(all.iter().any(|x| x.1 == 0), "at once: {all:?}");
    assert!(all.iter().any(|x| x.1 > 1_500), "late: {all:?}");
    assert!(
        all.iter().all(|x| (1_000..=4_200).contains(&x.0)),
        "{all:?}"
    );
    let longest = all.iter().map(|x| x.0).max();
    assert!(longest > all.iter().map(|x| x.0).min().map(|n| n + 1_000));
    let mut r = looking(Rig::new(1));
    r.channel(0, 0);
    assert!((0..4).all(|_| invalidated(&mut r).1 == 0));
}

#[test]
fn an_invalidate_is_as_late_as_it_is_told_to_be() {
    let mut r = looking(Rig::new(1));
    r.channel(0, 0);
    r.w5(0, ext::inject::INVALIDATE_LATE_NS, 50_000);
    let (took, stale) = invalidated(&mut r);
    assert!((51_000..52_000).contains(&took), "{took}");
    assert!((49_000..=50_000).contains(&stale), "{stale}");
    r.w5(0, ext::inject::INVALIDATE_LATE_NS, 0);
    assert_eq!(invalidated(&mut r).1, 0);
}

#[test]
fn an_invalidate_in_the_stream_is_over_before_what_follows() {
    let mut r = real(3);
    let va = 0x9000_0000;
    for n in 1..32u64 {
        let at = 0x400_0000 + n * 4096;
        r.map4k(0, va, pte_vid(at));
        r.sys32(0x18_0000, n as u32);
        let t0 = r.h.now;
        let mut p = mem_op(va as u32, hi(va), PDE3 as u32 | 1 << 7 | 1 << 5, 0xa << 27);
        p.extend(sem(SEM_VA, n, 1 | 1 << 25));
        p.extend(copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
        r.submit(&p);
        r.run(SEC);
        assert_eq!(r.get_vram64(0, at), n);
        assert!((1_000..10_000).contains(&(r.h.sys_u64(SEM + 8) - t0)));
    }
}

/// GP_PUT moves without a doorbell while the channel has other work, and waits, and faults: nobody looks.
#[test]
fn a_put_without_a_doorbell_is_not_seen() {
    for realism in [false, true] {
        let mut r = if realism { real(1) } else { Rig::new(1) };
        r.channel(0, 0);
        // It waits for a semaphore.
        r.submit(&sem(SEM_VA, 3, 3));
        r.run(5_000);
        let ram = r.chram(0, 0, 1);
        let quiet = |r: &mut Rig, value: u32| {
            let words: Vec<u8> = sem(SEM_VA + 16, value.into(), 1)
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect();
            let put = r.h.sys_u32(USERD + 0x8c);
            let at = r.pb_at;
            r.pb_at += 64;
            r.sys(at, &words);
            r.sys64(GPFIFO + 8 * u64::from(put), (SYS_VA + at) | 6 << 42);
            r.sys32(USERD + 0x8c, put + 1);
        };
        quiet(&mut r, 1);
        r.sys32(SEM, 4);
        r.run(SEC);
        assert_eq!(r.r0(0, ram) & 1 << 12, 0, "it waits no more");
        assert_eq!(r.h.sys_u32(SEM + 16), 0);
        r.doorbell(0, 0, 1);
        r.run(SEC);
        assert_eq!(r.h.sys_u32(SEM + 16), 1);
        // Enabling looks too.
        quiet(&mut r, 2);
        r.run(SEC);
        assert_eq!(r.h.sys_u32(SEM + 16), 1);
        r.w0(0, ram, 2);
        r.run(SEC);
        assert_eq!(r.h.sys_u32(SEM + 16), 2);
    }
}

const REMOVED: &str = "without a preempt";

/// 2 MiB from the host are on their way to 0x300_0000.
fn in_flight(r: &mut Rig) {
    r.sys(0x1000_0000, &[7; 64]);
    r.submit(&physical(0x1000_0000, 0x300_0000, 2 << 20));
    r.run(20_000);
}

#[test]
fn what_is_in_flight_goes_on_without_its_channel() {
    for how in ["submit", "reset", "another"] {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        in_flight(&mut r);
        let b = r.runlist(0, 0);
        match how {
            "submit" => r.w0(0, b + 0x88, 0),
            "reset" => {
                let ram = r.chram(0, 0, 1);
                r.w0(0, ram, u32::MAX);
            }
            _ => {
                // The number is another context's now, with a copy of its own.
                let image = r.get_vram(0, INST, 4096);
                r.vram(0, INST + 0x4000, &image);
                let gpfifo = SYS_VA + 0x2_8000;
                r.channel_at(0, 0, 1, INST + 0x4000, USERD + 0x200, gpfifo, RUNLIST);
                r.sys(0x1100_0000, &[9; 64]);
                let mut p = physical(0x1100_0000, 0x600_0000, 2 << 20);
                p.extend(ce_release(SEM_VA, 1, false));
                r.submit_on(0, 0, 1, USERD + 0x200, 0x2_8000, &p);
                // The first one's piece is no part of it.
                r.run(190_000);
                assert_eq!(r.h.sys_u32(SEM), 0);
            }
        }
        assert_eq!(errors(&r, REMOVED), 1, "{how}");
        r.run(SEC);
        assert_eq!(r.get_vram(0, 0x300_0000, 64), [7; 64], "{how}");
        if how == "another" {
            assert_eq!(r.get_vram(0, 0x600_0000, 64), [9; 64]);
            assert_eq!(r.h.sys_u32(SEM), 1);
            // What the first had read of its ring is in its context.
            assert_eq!(
                u32::from_le_bytes(r.get_vram(0, INST + 20, 4).try_into().unwrap()),
                1
            );
        }
        assert_eq!(r.h.errors.len(), 1, "{:?}", r.h.errors);
    }
}

#[test]
fn a_channel_may_be_removed_behind_a_preempt() {
    let mut r = Rig::new(1);
    r.channel(0, 0);
    in_flight(&mut r);
    let (b, ram) = (r.runlist(0, 0), r.chram(0, 0, 1));
    r.w0(0, ram, 3);
    r.w0(0, b + 0x98, 0);
    r.run(SEC);
    r.w0(0, b + 0x88, 0);
    r.w0(0, ram, u32::MAX);
    assert_eq!(r.h.errors, []);
}

#[test]
fn a_preempt_is_pending_until_the_semaphore_is_written() {
    let mut r = Rig::new(1);
    r.channel(0, 0);
    let mut p = inc(0x240, &[hi(SEM_VA), SEM_VA as u32, 5]);
    p.extend(inc(0x260, &[1, 0]));
    p.extend(copy(
        0x1000_0000,
        0x300_0000,
        64 << 10,
        NON_PIPELINED | PHYS | 1 << 3,
    ));
    r.submit(&p);
    // The data takes 5 us, the link's latency is 16.7.
    r.run(12_000);
    let (b, ram) = (r.runlist(0, 0), r.chram(0, 0, 1));
    r.w0(0, ram, 3);
    r.w0(0, b + 0x98, 0);
    assert_eq!(r.h.sys_u32(SEM), 0);
    while r.r0(0, b + 0x98) >> 20 & 3 != 0 {
        r.run(100);
    }
    assert_eq!(r.h.sys_u32(SEM), 5);
}

#[test]
fn memory_of_a_gpu_that_is_gone_reads_ones() {
    let mut r = Rig::new(1);
    r.w5(0, huvm_hw::ext::inject::GONE, 0xdead);
    assert_eq!(
        r.h.bar_modes,
        [(0, 1, true), (0, 3, true)],
        "no memory there"
    );
    for bar in [1, 3] {
        r.m.mmio_write(0, bar, 0x1000, 7, 8, &mut r.h);
        assert_eq!(r.m.mmio_read(0, bar, 0x1000, 8, &mut r.h), u64::MAX);
    }
    assert_eq!(r.get_vram64(0, 0x1000), 0);
    r.h.bar_modes.clear();
    r.m.reset(0, &mut r.h);
    assert_eq!(r.h.bar_modes, [(0, 1, false), (0, 3, false)]);
}

const UNFLUSHED: &str = "without a flush";

#[test]
fn writes_to_other_memory_are_flushed_before_a_semaphore_tells_of_them() {
    let told = |dst_mode: u32, between: Vec<u32>, flush: u32| {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        let mut p = inc(0x260, &[0, dst_mode]);
        p.extend(copy(
            0x300_0000,
            0x1000_0000 >> (3 * (1 - dst_mode)),
            4096,
            NON_PIPELINED | PHYS,
        ));
        p.extend(between);
        p.extend(inc(0x240, &[hi(SEM_VA), SEM_VA as u32, 1]));
        p.extend(inc(0x300, &[flush | 1 << 3]));
        // What was flushed once needs no other one.
        p.extend(inc(0x300, &[1 << 3]));
        r.submit(&p);
        r.run(SEC);
        assert_eq!(r.h.sys_u32(SEM), 1);
        errors(&r, UNFLUSHED)
    };
    assert_eq!(told(1, vec![], 1 << 2), 0);
    assert_eq!(told(0, vec![], 0), 0, "local memory");
    assert_eq!(told(1, vec![], 0), 2);
    assert_eq!(told(1, vec![], 1 << 2 | 1 << 25), 2, "seen by the GPU only");
    let membar = |kind: u32| [inc(0x78, &[0]), mem_op(0, 0, kind, 5 << 27)].concat();
    assert_eq!(told(1, membar(0), 0), 0);
    assert_eq!(told(1, membar(1), 0), 2);
}

#[test]
fn other_memory_is_mapped_volatile() {
    for (pte, wrong) in [
        (pte_sys(0x50_0000), 0),
        (pte_sys(0x50_0000) & !8, 1),
        (pte_vid(0x500_0000), 0),
        (0, 0),
    ] {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        let at = r.pte_at(0, PDE3, 0x9000_0000);
        r.vram64(0, at, pte);
        r.submit(&copy(SYS_VA + 0x18_0000, 0x9000_0000, 64, NON_PIPELINED));
        r.run(SEC);
        assert_eq!(errors(&r, "without VOL"), wrong, "{pte:#x}");
    }
    // A table in the host's memory: the small half of a dual entry.
    for (vol, wrong) in [(8, 0), (0, 1)] {
        let mut r = Rig::new(1);
        r.channel(0, 0);
        r.map2m(0, 0x9000_0000, 0);
        r.pte_at(0, PDE3, 0x9000_0000);
        let table = r.next_table[0] - 0x1000;
        let at = (0..256 * 16)
            .map(|n| table - 0x1000 + 8 * n % 0x1000)
            .find(|at| r.get_vram64(0, *at) == 2 | (table >> 12) << 8)
            .unwrap();
        r.vram64(0, at, 2 << 1 | vol | (0x50_0000 >> 12) << 8);
        r.sys64(0x50_0000, pte_sys(0x60_0000));
        r.submit(&copy(SYS_VA + 0x18_0000, 0x9000_0000, 64, NON_PIPELINED));
        r.run(SEC);
        assert_eq!(errors(&r, "without VOL"), wrong, "{:?}", r.h.errors);
    }
}
