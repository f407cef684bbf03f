// SPDX-License-Identifier: GPL-2.0
//! Goal (b): copies and fills by virtual and physical addresses, semaphores, restartable faults.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{self, stats::Counter};
use huvm_model::bar0;

fn rig() -> Rig {
    let mut r = Rig::new(1);
    r.channel(0, 0);
    r.rings(0, 32);
    r.interrupts(0);
    r
}

fn released(r: &mut Rig, at: u64, value: u32) -> bool {
    r.run_until(SEC, |r| r.h.sys_u32(at) == value)
}

fn data(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn copy_by_virtual_addresses_both_ways() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.map4k(0, 0x9000_1000, pte_sys(0x50_0000));
    r.map4k(0, 0x9000_0000, pte_sys(0x60_0000));
    let d = data(8192);
    r.sys(0x60_0000, &d[..4096]);
    r.sys(0x50_0000, &d[4096..]);
    let mut p = copy(0x9000_0000, 0x8000_0123, 8192, NON_PIPELINED);
    p.extend(copy(0x8000_0123, SYS_VA + 0x18_0000, 8192, NON_PIPELINED));
    p.extend(ce_release(SEM_VA, 5, false));
    r.submit(&p);
    assert!(released(&mut r, SEM, 5));
    assert_eq!(r.get_vram(0, 0x200_0123, 8192), d);
    assert_eq!(r.get_sys(0x18_0000, 8192), d);
    assert_eq!(r.stat(0, Counter::BytesHostToDevice), 8192);
    assert_eq!(r.stat(0, Counter::BytesDeviceToHost), 8192);
    assert_eq!(r.h.sys_u32(USERD + 0x88), 1, "GP_GET is written back");
}

#[test]
fn copy_by_physical_addresses() {
    let mut r = rig();
    let d = data(3 << 20);
    r.sys(0x1000_0007, &d);
    // Source coherent system memory (1), destination local (0).
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0007, 0x300_0000, 3 << 20, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    assert!(released(&mut r, SEM, 1));
    assert_eq!(r.get_vram(0, 0x300_0000, 3 << 20), d);
}

#[test]
fn fills_of_1_4_and_8_bytes() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.vram(0, 0x200_0000, &[0xee; 64]);
    let fill = |va: u64, n: u32, comp: u32| {
        let mut p = inc(0x700, &[0x1122_3344, 0x5566_77a5, comp]);
        p.extend(inc(0x408, &[hi(va), va as u32]));
        p.extend(inc(0x418, &[n]));
        p.extend(inc(0x300, &[NON_PIPELINED | 1 << 8 | 1 << 10]));
        p
    };
    let mut p = fill(0x8000_0001, 3, 5);
    p.extend(fill(0x8000_0008, 2, 5 | 3 << 16));
    p.extend(fill(0x8000_0018, 1, 4 | 5 << 4 | 3 << 16 | 1 << 24));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    assert!(released(&mut r, SEM, 1));
    let got = r.get_vram(0, 0x200_0000, 40);
    assert_eq!(&got[..8], [0xee, 0xa5, 0xa5, 0xa5, 0xee, 0xee, 0xee, 0xee]);
    assert_eq!(
        &got[8..16],
        [0xa5, 0x77, 0x66, 0x55, 0xa5, 0x77, 0x66, 0x55]
    );
    assert_eq!(&got[16..24], [0xee; 8]);
    assert_eq!(
        &got[24..32],
        [0x44, 0x33, 0x22, 0x11, 0xa5, 0x77, 0x66, 0x55]
    );
    assert_eq!(&got[32..], [0xee; 8]);
}

#[test]
fn semaphores_with_timestamp() {
    let mut r = rig();
    r.sys(SEM, &[0xff; 64]);
    r.run(5_000_000);
    let mut p = ce_release(SEM_VA, 0x77, true);
    p.extend(sem(SEM_VA + 16, 0x1234, 1 | 1 << 25));
    p.extend(sem(SEM_VA + 32, 0xaaaa_bbbb_cccc, 1 | 1 << 24));
    // Reduction: add 5.
    p.extend(sem(SEM_VA + 48, 5, 6 | 5 << 27 | 1 << 31));
    r.sys32(SEM + 48, 10);
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 0x77);
    let t = r.h.sys_u64(SEM + 8);
    assert!((5_000_000..6_000_000).contains(&t), "{t}");
    assert_eq!(
        (r.h.sys_u64(SEM + 16), r.h.sys_u64(SEM + 24) >= 5_000_000),
        (0x1234, true)
    );
    assert_eq!(r.h.sys_u64(SEM + 32), 0xaaaa_bbbb_cccc);
    assert_eq!(r.h.sys_u32(SEM + 48), 15);
    assert_eq!(r.stat(0, Counter::SemaphoreReleases), 4);
}

#[test]
fn release_with_wfi_waits_for_the_copy_and_without_it_does_not() {
    let mut r = rig();
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0000, 0x300_0000, 2 << 20, NON_PIPELINED | PHYS));
    p.extend(sem(SEM_VA, 1, 1));
    p.extend(sem(SEM_VA + 16, 1, 1 | 1 << 20));
    r.submit(&p);
    r.run(50_000);
    assert_eq!((r.h.sys_u32(SEM), r.h.sys_u32(SEM + 16)), (1, 0));
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM + 16), 1);
}

#[test]
fn acquire_waits_without_spinning_and_sees_a_store_of_the_cpu() {
    let mut r = rig();
    let mut p = sem(SEM_VA, 3, 3);
    p.extend(sem(SEM_VA + 16, 9, 1));
    r.submit(&p);
    let before = r.h.accesses;
    r.run(100_000_000);
    assert_eq!(r.h.sys_u32(SEM + 16), 0);
    let looks = r.h.accesses - before;
    assert!(looks < 3000, "{looks} memory accesses in 100 ms of waiting");
    r.sys32(SEM, 4);
    r.run(1_000_000);
    assert_eq!(r.h.sys_u32(SEM + 16), 9);
}

#[test]
fn acquire_is_woken_by_another_channel_at_once() {
    let mut r = rig();
    // A second channel on another engine, same address space.
    let inst2 = INST + 0x4000;
    let image = r.get_vram(0, INST, 4096);
    r.vram(0, inst2, &image);
    r.channel_at(
        0,
        1,
        2,
        inst2,
        USERD + 0x200,
        SYS_VA + 0x2_8000,
        RUNLIST + 0x1000,
    );
    let mut p = sem(SEM_VA, 3, 0);
    p.extend(sem(SEM_VA + 16, 9, 1 | 1 << 25));
    r.submit(&p);
    r.run(10_000_000);
    let t0 = r.h.now;
    r.submit_on(0, 1, 2, USERD + 0x200, 0x2_8000, &sem(SEM_VA, 3, 1));
    r.run(1_000_000);
    assert_eq!(r.h.sys_u32(SEM + 16), 9);
    let t = r.h.sys_u64(SEM + 24) - t0;
    assert!(t <= 1_000, "the doorbell's latency and no more: {t}");
}

#[test]
fn fault_on_a_copy_is_reported_and_restarts() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    let d = data(16384);
    r.sys(0x18_0000, &d);
    // Two pages mapped, the third not: what is mapped goes first.
    r.map4k(0, 0x9000_0000, pte_vid(0x400_0000));
    r.map4k(0, 0x9000_1000, pte_vid(0x500_0000));
    let mut p = copy(SYS_VA + 0x18_0000, 0x9000_0000, 16384, NON_PIPELINED);
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 0);
    assert_eq!(r.get_vram(0, 0x500_0000, 4096), d[4096..8192]);
    let ram = r.chram(0, 0, 1);
    assert_eq!(r.r0(0, ram) & 1 << 5, 1 << 5, "ENG_FAULTED");
    let packets = r.drain(0, 0, 32);
    assert_eq!(packets.len(), 1);
    let f = &packets[0];
    assert_eq!(
        (f.va, f.kind, f.access, f.engine, f.client),
        (0x9000_2000, 2, 1, 15, 1)
    );
    assert_eq!((f.inst, f.replayable, f.hub), (INST, false, true));
    assert!(r.h.take_messages().contains(&(0, 2)));
    // Map, invalidate, clear, doorbell: the launch goes on where it stood.
    r.map4k(0, 0x9000_2000, pte_vid(0x600_0000));
    r.map4k(0, 0x9000_3000, pte_vid(0x601_0000));
    r.replay(0, 0);
    r.w0(0, ram, 0x21);
    r.doorbell(0, 0, 1);
    assert!(released(&mut r, SEM, 1));
    assert_eq!(r.get_vram(0, 0x601_0000, 4096), d[12288..]);
    assert_eq!(r.stat(0, Counter::NonReplayablePackets), 1);
}

#[test]
fn fault_on_a_semaphore_restarts() {
    let mut r = rig();
    let va = 0x9000_0000;
    r.submit(&ce_release(va, 7, false));
    r.run(SEC);
    assert_eq!(r.drain(0, 0, 32)[0].va, va);
    r.map4k(0, va, pte_sys(0x70_0000));
    r.replay(0, 0);
    let ram = r.chram(0, 0, 1);
    r.w0(0, ram, 0x21);
    r.doorbell(0, 0, 1);
    assert!(released(&mut r, 0x70_0000, 7));
}

#[test]
fn host_fault_sets_the_pbdma_flag() {
    let mut r = rig();
    r.submit(&sem(0x9000_0000, 1, 1));
    r.run(SEC);
    let f = r.drain(0, 0, 32).remove(0);
    assert_eq!((f.va, f.engine, f.client), (0x9000_0000, 32, 6));
    let ram = r.chram(0, 0, 1);
    assert_eq!(r.r0(0, ram) & 1 << 4, 1 << 4);
    r.map4k(0, 0x9000_0000, pte_sys(0x70_0000));
    r.replay(0, 0);
    r.w0(0, ram, 0x11);
    r.doorbell(0, 0, 1);
    assert!(released(&mut r, 0x70_0000, 1));
}

#[test]
fn unprivileged_physical_launch_is_refused() {
    let mut r = rig();
    r.vram32(0, INST + 0xe4, 0);
    r.w0(0, bar0::CE_INTR_EN, u32::MAX);
    let mut p = copy(0, 0x1000, 16, NON_PIPELINED | PHYS);
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 0);
    assert_eq!(r.r0(0, bar0::CE_INTR_STATUS) & 4, 4, "LAUNCHERR");
    assert!(r.h.take_messages().contains(&(0, 3)), "stall vector");
    assert_eq!(r.r0(0, bar0::LEAF + 24) & 1, 1);
}

#[test]
fn interrupts_of_the_channel() {
    let mut r = rig();
    let mut p = inc(0x20, &[0]);
    // Non-blocking interrupt at the end of a launch.
    p.extend(inc(0x300, &[2 << 5]));
    r.submit(&p);
    r.run(100_000);
    assert_eq!(r.h.take_messages(), [(0, 0)]);
    assert_eq!(r.r0(0, bar0::LEAF), 1);
}

/// The engine's own interrupt comes if it is enabled; what it tells is there either way, and need not be cleared.
#[test]
fn the_engine_interrupts_where_it_may() {
    let mut r = rig();
    let launch = inc(0x300, &[2 << 5]);
    r.submit(&launch);
    r.run(100_000);
    assert_eq!(r.h.take_messages(), []);
    assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 2);
    r.w0(0, bar0::CE_INTR_EN, 2);
    for _ in 0..2 {
        r.submit(&launch);
        r.run(100_000);
        assert_eq!(r.h.take_messages(), [(0, 0)]);
        r.w0(0, bar0::LEAF, 1);
    }
    r.w0(0, bar0::CE_INTR_STATUS, 2);
    assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 0);
}

#[test]
fn a_channel_without_a_context_stops_at_the_engine() {
    let mut r = rig();
    r.vram32(0, INST + 0xac, 0);
    let b = r.runlist(0, 0);
    r.w0(0, b + 0x120, u32::MAX);
    let mut p = sem(SEM_VA, 1, 1);
    p.extend(ce_release(SEM_VA, 2, false));
    p.extend(sem(SEM_VA, 3, 1));
    r.submit(&p);
    r.run(1_000_000);
    assert_eq!(r.h.sys_u32(SEM), 1, "the host needs none");
    assert_eq!((r.r0(0, 0x4_0108), r.r0(0, 0x4_0148)), (0, 1 << 31));
    assert_eq!(r.r0(0, 0x4_00c0), 0x240, "its first method");
    assert_eq!(r.r0(0, bar0::LEAF + 20) & 1, 1, "vector 160");
    // Behind that method it stops at the next.
    r.w0(0, 0x4_0148, 1 << 31);
    r.run(1_000_000);
    assert_eq!((r.r0(0, 0x4_0148), r.r0(0, 0x4_00c0)), (1 << 31, 0x244));
    assert_eq!(r.h.sys_u32(SEM), 1);
}

/// A copy to where nothing is mapped, with the method buffer at this address; then the page is mapped and the fault cleared.
fn fault_and_back(buffer: u64, between: impl FnOnce(&mut Rig)) -> Rig {
    let mut r = rig();
    r.vram64(0, INST + 0x220, buffer);
    r.w0(0, bar0::CE_INTR_EN, 1 << 4);
    let mut p = copy(SYS_VA + 0x18_0000, 0x9000_0000, 4096, NON_PIPELINED);
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.drain(0, 0, 32).len(), 1, "there is a packet either way");
    between(&mut r);
    r.map4k(0, 0x9000_0000, pte_vid(0x400_0000));
    r.replay(0, 0);
    let ram = r.chram(0, 0, 1);
    assert_eq!(r.r0(0, ram) & 1 << 5, 1 << 5);
    r.w0(0, ram, 0x21);
    r.doorbell(0, 0, 1);
    r.run(SEC);
    r
}

#[test]
fn a_launch_is_saved_where_the_channel_says() {
    const AT: u64 = 0x300_0000;
    let mut r = fault_and_back(AT, |r| {
        let saved = r.get_vram(0, AT, 4096);
        // Six engines: ((9 + 1 + 3) * 6 + 2) words.
        assert!(saved[..320].iter().any(|b| *b != 0));
        assert!(saved[320..].iter().all(|b| *b == 0));
    });
    assert_eq!(r.h.sys_u32(SEM), 1);
    assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 0);
}

#[test]
fn without_a_method_buffer_of_its_own_a_channel_breaks() {
    // None, and one that lies in no memory.
    for at in [0, 1 << 36] {
        let mut r = fault_and_back(at, |r| {
            assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 1 << 4);
            assert!(r.h.take_messages().contains(&(0, 3)), "stall vector");
        });
        assert_eq!(r.h.sys_u32(SEM), 0);
        assert_eq!(r.h.errors.len(), 1);
        r.w0(0, bar0::CE_INTR_STATUS, 1 << 4);
        assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 0);
    }
    // One that somebody else writes to.
    let mut r = fault_and_back(0x300_0000, |r| r.vram32(0, 0x300_0000 + 316, 7));
    assert_eq!(r.h.sys_u32(SEM), 0);
    assert_eq!(r.r0(0, bar0::CE_INTR_STATUS), 1 << 4);
}

/// ENG_FAULTED comes after the packet: there is nothing to clear before, and clearing it before clears nothing.
#[test]
fn a_flag_may_come_after_its_packet() {
    let mut r = rig();
    r.w5(0, ext::inject::FLAG_LATE_PERMILLE, 1000);
    let ram = r.chram(0, 0, 1);
    let put = bar0::FAULT_LO + 0xc;
    for n in 1..=20 {
        r.w5(0, ext::inject::CE_FAULT, 1);
        let mut p = inc(0x260, &[1, 0]);
        p.extend(copy(0x1000_0000, 0x300_0000, 4096, NON_PIPELINED | PHYS));
        p.extend(ce_release(SEM_VA, n, false));
        let before = r.r0(0, put);
        r.submit(&p);
        assert!(r.run_until(SEC, |r| r.r0(0, put) != before));
        assert_eq!(r.r0(0, ram) & 1 << 5, 0);
        let came = r.h.now;
        r.w0(0, ram, 0x21);
        r.doorbell(0, 0, 1);
        assert!(r.run_until(SEC, |r| r.r0(0, ram) & 1 << 5 != 0));
        assert!((1_000..=65_000).contains(&(r.h.now - came)));
        r.run(SEC);
        assert_eq!(r.h.sys_u32(SEM), n - 1);
        assert_eq!(r.drain(0, 0, 32).len(), 1);
        r.w0(0, ram, 0x21);
        r.doorbell(0, 0, 1);
        assert!(released(&mut r, SEM, n));
    }
    // The channel's number is used anew before the flag comes.
    r.w5(0, ext::inject::CE_FAULT, 1);
    r.submit(&copy(SYS_VA, SYS_VA + 0x18_0000, 4, NON_PIPELINED));
    let before = r.r0(0, put);
    assert!(r.run_until(SEC, |r| r.r0(0, put) != before));
    r.w0(0, ram, u32::MAX);
    r.run(SEC);
    assert_eq!(r.r0(0, ram) & 1 << 5, 0);
}

#[test]
fn bad_method_stops_the_pbdma_until_cleared() {
    let mut r = rig();
    let b = r.runlist(0, 0);
    r.w0(0, b + 0x120, u32::MAX);
    let mut p = inc(0xfc, &[3]);
    p.extend(sem(SEM_VA, 1, 1));
    r.submit(&p);
    r.run(1_000_000);
    assert_eq!(r.h.sys_u32(SEM), 0);
    assert_eq!(r.r0(0, 0x4_0108), 1 << 21);
    assert_eq!((r.r0(0, 0x4_00c0), r.r0(0, 0x4_00c4)), (0xfc, 3));
    assert_eq!(r.r0(0, bar0::LEAF + 20) & 1, 1, "vector 160");
    r.w0(0, 0x4_0108, 1 << 21);
    r.run(1_000_000);
    assert_eq!(r.h.sys_u32(SEM), 1);
    assert_eq!(r.r0(0, bar0::LEAF + 20) & 1, 0, "the level is gone");
}

#[test]
fn unprivileged_invalidate_is_refused() {
    let mut r = rig();
    r.vram32(0, INST + 0xf4, 0);
    r.submit(&mem_op(0, 0, 3, 9 << 27));
    r.run(1_000_000);
    assert_eq!(r.r0(0, 0x4_0108), 1 << 21);
    assert_eq!(r.stat(0, Counter::TlbInvalidates), 0);
}

#[test]
fn a_stale_translation_is_used_until_invalidated() {
    let mut r = rig();
    let va = 0x9000_0000;
    r.map4k(0, va, pte_vid(0x400_0000));
    r.sys32(0x18_0000, 1);
    r.submit(&copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
    r.run(SEC);
    r.map4k(0, va, pte_vid(0x500_0000));
    r.sys32(0x18_0000, 2);
    r.submit(&copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
    r.run(SEC);
    assert_eq!(r.get_vram64(0, 0x400_0000), 2, "the old entry is in force");
    assert_eq!(r.get_vram64(0, 0x500_0000), 0);
    // MEM_OP: targeted, this PDB, PTE only, in the stream before the copy.
    let mut p = mem_op(va as u32, hi(va), PDE3 as u32 | 1 << 7 | 1 << 5, 0xa << 27);
    p.extend(copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.get_vram64(0, 0x500_0000), 2);
}

#[test]
fn pte_only_invalidate_keeps_a_2_mib_entry() {
    let mut r = rig();
    let va = 0x9000_0000;
    r.map2m(0, va, pte_vid(0x400_0000));
    r.sys32(0x18_0000, 1);
    r.submit(&copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
    r.run(SEC);
    r.map2m(0, va, pte_vid(0x600_0000));
    for (level, value, at) in [(1u32, 2, 0x400_0000), (2, 3, 0x600_0000)] {
        r.sys32(0x18_0000, value);
        let mut p = mem_op(
            va as u32,
            hi(va),
            PDE3 as u32 | level << 7 | 1 << 5,
            0xa << 27,
        );
        p.extend(copy(SYS_VA + 0x18_0000, va, 4, NON_PIPELINED));
        r.submit(&p);
        r.run(SEC);
        assert_eq!(r.get_vram64(0, at), u64::from(value), "level {level}");
    }
}

#[test]
fn an_acknowledged_invalidate_waits_for_the_copy_that_uses_it() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.sys(0x20_0000, &[7; 64]);
    r.map2m(0, 0xa000_0000, pte_sys(0x20_0000));
    r.submit(&copy(0xa000_0000, 0x8000_0000, 2 << 20, NON_PIPELINED));
    r.run(10_000);
    let t0 = r.h.now;
    r.replay(0, 0);
    assert_eq!(r.r0(0, bar0::INVALIDATE) >> 31, 1, "pending");
    assert!(r.run_until(SEC, |r| r.r0(0, bar0::INVALIDATE) == 0));
    let waited = r.h.now - t0;
    assert!(waited > 100_000, "2 MiB take 170 us: {waited}");
    assert_eq!(r.get_vram(0, 0x200_0000, 64), [7; 64]);
}

/// A copy between physical addresses uses no translation that an invalidate could take away.
#[test]
fn an_acknowledged_invalidate_does_not_wait_for_a_physical_copy() {
    let mut r = rig();
    r.sys(0x1000_0000, &[7; 64]);
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0000, 0x300_0000, 2 << 20, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(10_000);
    let t0 = r.h.now;
    r.replay(0, 0);
    assert!(r.run_until(SEC, |r| r.r0(0, bar0::INVALIDATE) == 0));
    let waited = r.h.now - t0;
    assert!(waited <= 3_000, "{waited} ns");
    assert_eq!(r.h.sys_u32(SEM), 0, "the copy goes on");
    assert!(released(&mut r, SEM, 1));
    assert_eq!(r.get_vram(0, 0x300_0000, 64), [7; 64]);
}

#[test]
fn injected_fault_hang_and_latency() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    let go = |r: &mut Rig, v: u32| {
        let mut p = copy(SYS_VA, 0x8000_0000, 64, NON_PIPELINED);
        p.extend(ce_release(SEM_VA, v, false));
        r.submit(&p);
    };
    r.w5(0, ext::inject::CE_FAULT, 2);
    go(&mut r, 1);
    assert!(released(&mut r, SEM, 1));
    go(&mut r, 2);
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 1);
    let f = r.drain(0, 0, 32).remove(0);
    assert_eq!((f.va, f.kind), (0x8000_0000, 2));
    let ram = r.chram(0, 0, 1);
    r.w0(0, ram, 0x21);
    r.doorbell(0, 0, 1);
    assert!(released(&mut r, SEM, 2));

    r.w5(0, ext::inject::CE_HANG, 1);
    go(&mut r, 3);
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 2);
    assert_eq!(r.m.next_deadline(), None, "a hang costs nothing");
    r.w5(0, ext::inject::CE_HANG, 0);
    assert!(released(&mut r, SEM, 3));

    r.w5(0, ext::inject::LATENCY_NS, 500_000);
    let t0 = r.h.now;
    go(&mut r, 4);
    assert!(released(&mut r, SEM, 4));
    assert!(r.h.now - t0 >= 500_000);
}

#[test]
fn a_piece_that_stalls_is_on_its_way_until_it_is_released() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.map2m(0, 0xa000_0000, pte_sys(0x20_0000));
    r.sys(0x20_0000, &[7; 64]);
    let pending = |r: &mut Rig| {
        let base = r.runlist(0, 0);
        r.r0(0, base + 0x98) >> 20 & 3
    };
    r.w5(0, ext::inject::CE_STALL, 1);
    let mut p = copy(0xa000_0000, 0x8000_0000, 64, NON_PIPELINED);
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.r5(0, ext::inject::CE_STALL), 0);
    assert_eq!(r.m.next_deadline(), None, "a stall costs nothing");
    assert_eq!(pending(&mut r), 0);
    // Off its engine, but what is on its way is.
    let ram = r.chram(0, 0, 1);
    r.w0(0, ram, 0x3);
    let base = r.runlist(0, 0);
    r.w0(0, base + 0x98, 0);
    r.run(SEC);
    assert_ne!(pending(&mut r), 0);
    assert_eq!(r.get_vram(0, 0x200_0000, 64), [0; 64]);
    r.w5(0, ext::inject::CE_STALL, 0);
    r.run(1_000_000);
    assert_eq!(pending(&mut r), 0);
    assert_eq!(r.get_vram(0, 0x200_0000, 64), [7; 64]);
}

#[test]
fn preempt_and_removal_leave_nothing_running() {
    let mut r = rig();
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.map2m(0, 0xa000_0000, pte_sys(0x20_0000));
    r.submit(&copy(0xa000_0000, 0x8000_0000, 2 << 20, NON_PIPELINED));
    r.run(20_000);
    let ram = r.chram(0, 0, 1);
    let b = r.runlist(0, 0);
    r.w0(0, ram, 3);
    r.w0(0, b + 0x98, 7 | 1 << 24);
    assert_eq!(
        r.r0(0, b + 0x98) & 1 << 20,
        1 << 20,
        "the piece is in flight"
    );
    r.run(SEC);
    assert_eq!(r.r0(0, b + 0x98) & 1 << 20, 0);
    r.w0(0, b + 0x88, 0);
    r.submit(&sem(SEM_VA, 1, 1));
    r.run(SEC);
    assert_eq!(r.h.sys_u32(SEM), 0);
    assert_eq!(r.r0(0, ram) & 0x8, 0);
}

#[test]
fn phantom_copies_move_nothing_but_take_their_time() {
    let mut r = Rig::with(
        vec![huvm_model::config::GpuConfig {
            phantom: true,
            ..quiet()
        }],
        huvm_model::config::Profile::default(),
    );
    r.channel(0, 0);
    r.map2m(0, 0x8000_0000, pte_vid(0x200_0000));
    r.sys(0x18_0000, &[9; 8192]);
    let mut p = copy(SYS_VA + 0x18_0000, 0x8000_0000, 4096, NON_PIPELINED);
    // Below a page, bytes are real: the driver writes page tables so.
    p.extend(copy(SYS_VA + 0x18_0000, 0x8000_2000, 64, NON_PIPELINED));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    assert!(released(&mut r, SEM, 1));
    assert!(r.h.now > 16_700);
    assert_eq!(r.get_vram(0, 0x200_0000, 4096), [0; 4096]);
    assert_eq!(r.get_vram(0, 0x200_2000, 64), [9; 64]);
    assert_eq!(r.r5(0, ext::ident::FLAGS) & 2, 2);
}

#[test]
fn a_semaphore_that_is_not_written() {
    let mut r = rig();
    r.w5(0, ext::inject::SEM_LOST, 1);
    let d = data(4096);
    r.sys(0x1000_0000, &d);
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0000, 0x300_0000, 4096, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    assert!(!released(&mut r, SEM, 1));
    assert_eq!(r.get_vram(0, 0x300_0000, 4096), d, "the copy was done");
    assert_eq!(r.r5(0, ext::inject::SEM_LOST), 0);
    // The next one makes up for it.
    r.submit(&sem(SEM_VA, 2, 1));
    assert!(released(&mut r, SEM, 2));
}

#[test]
fn a_semaphore_that_says_too_much() {
    let mut r = rig();
    r.w5(0, ext::inject::SEM_WRONG, 1);
    r.submit(&sem(SEM_VA, 2, 1));
    assert!(released(&mut r, SEM, 2 + ext::inject::SEM_WRONG_ADD));
    r.submit(&ce_release(SEM_VA, 3, false));
    assert!(released(&mut r, SEM, 3));
}

#[test]
fn an_engine_that_faults_each_time() {
    let mut r = rig();
    r.w5(0, ext::inject::CE_FAULT_EACH, 1);
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0000, 0x300_0000, 4096, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    let ram = r.chram(0, 0, 1);
    for _ in 0..20 {
        assert!(!released(&mut r, SEM, 1));
        assert_eq!(r.drain(0, 0, 32).len(), 1);
        r.w0(0, ram, 1 | 1 << 5);
        r.doorbell(0, 0, 1);
    }
    // Engines are told apart, and it ends.
    r.w5(0, ext::inject::CE_FAULT_EACH, !1);
    r.run(SEC);
    r.w0(0, ram, 1 | 1 << 5);
    r.doorbell(0, 0, 1);
    assert!(released(&mut r, SEM, 1));
}

#[test]
fn a_full_ring_of_the_engines() {
    let mut r = rig();
    r.w5(0, ext::inject::CE_FAULT, 1);
    r.w5(0, ext::inject::OTHER_OVERFLOW, 1);
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x1000_0000, 0x300_0000, 4096, NON_PIPELINED | PHYS));
    r.submit(&p);
    r.run(SEC);
    assert_eq!(r.r0(0, bar0::FAULT_LO + 0xc), 1 << 31, "no packet");
    assert_eq!(r.stat(0, Counter::Overflows), 1);
    assert_eq!(r.r5(0, ext::inject::OTHER_OVERFLOW), 0);
}
