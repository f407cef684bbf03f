// SPDX-License-Identifier: GPL-2.0
//! Memory that fails: what engines do when they meet it, and what a driver is told (device.md 2.8).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{ecc, inject, stats::Counter, topology, workload as w};

/// What fails is in here: 2 MiB of VRAM.
const AT: u64 = 0x200_0000;
const PAGE: u32 = (AT >> 12) as u32;
const POISONED: u32 = 0xe;
/// Channel RAM: clears ENG_FAULTED.
const CLEAR: u32 = 0x21;

fn rig() -> Rig {
    let mut r = Rig::new(2);
    r.channel(0, 0);
    r.rings(0, 64);
    r.interrupts(0);
    r.w5(0, topology::PEER_MAP0 + 4 * 3, 1 << 31 | 1);
    r.run(100_000);
    r
}

fn data(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

fn poison(r: &mut Rig, gpu: usize, pages: &[u32]) {
    for p in pages {
        r.w5(gpu, inject::ECC_POISON, PAGE + p);
    }
}

fn stands(r: &mut Rig) -> u32 {
    r.r5(0, ecc::STANDS0 + 4)
}

/// Copies `pages` pages from `AT` of a GPU (peer: of GPU 1) to system memory at 16 MiB, by physical addresses. Lets the channel go
/// on behind each page at which it stands. Returns those pages.
fn copy_out(r: &mut Rig, pages: u32, peer: bool) -> Vec<u32> {
    let source = if peer { 3 | 3 << 6 } else { 0 };
    let mut p = inc(0x260, &[source, 1]);
    p.extend(copy(AT, 0x100_0000, pages << 12, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 9, false));
    r.sys32(SEM, 0);
    r.submit(&p);
    let mut met = Vec::new();
    let ram = r.chram(0, 0, 1);
    while !r.run_until(SEC, |r| r.h.sys_u32(SEM) == 9 || r.r0(0, ram) & 1 << 5 != 0)
        || r.h.sys_u32(SEM) != 9
    {
        r.run(1_000_000);
        let at = stands(r);
        assert_eq!(at >> 31, 1, "after {met:?}");
        assert_eq!((at >> 27 & 0xf) as usize, usize::from(peer));
        let f = r.drain(0, 0, 64);
        assert_eq!(f.len(), 1);
        let va = (at & ecc::STANDS_PAGE_MASK) << 12;
        // A physical read.
        assert_eq!((f[0].kind, f[0].access, f[0].va), (POISONED, 8, va.into()));
        met.push((at & ecc::STANDS_PAGE_MASK) - PAGE);
        r.w5(0, ecc::STANDS0 + 4, at);
        r.w0(0, ram, CLEAR);
        r.doorbell(0, 0, 1);
        assert!(met.len() < 64);
    }
    assert_eq!(stands(r), 0);
    met
}

#[test]
fn a_copy_stands_at_each_page_and_leaves_it_out() {
    for (bad, pages) in [
        (vec![0], 4),
        (vec![3], 4),
        (vec![0, 1, 2, 100, 101, 511], 512),
        (vec![17, 300], 512),
    ] {
        let mut r = rig();
        let d = data((pages as usize) << 12);
        r.vram(0, AT, &d);
        r.sys(0x100_0000, &vec![0xee; d.len()]);
        poison(&mut r, 0, &bad);
        assert_eq!(copy_out(&mut r, pages, false), bad);
        for p in 0..pages {
            let got = r.get_sys(0x100_0000 + (u64::from(p) << 12), 4096);
            let at = (p as usize) << 12;
            if bad.contains(&p) {
                assert_eq!(got, [0xee; 4096], "page {p}");
            } else {
                assert_eq!(got, d[at..at + 4096], "page {p}");
            }
        }
    }
}

#[test]
fn who_does_not_leave_it_out_stands_there_again() {
    let mut r = rig();
    poison(&mut r, 0, &[0]);
    let mut p = inc(0x260, &[0, 1]);
    p.extend(copy(AT, 0x100_0000, 4096, NON_PIPELINED | PHYS));
    r.submit(&p);
    let ram = r.chram(0, 0, 1);
    for _ in 0..3 {
        r.run(1_000_000);
        assert_eq!(r.r0(0, ram) & 1 << 5, 1 << 5);
        assert_eq!(stands(&mut r), 1 << 31 | PAGE);
        // Another page than the one at which it stands changes nothing.
        r.w5(0, ecc::STANDS0 + 4, 1 << 31 | (PAGE + 1));
        r.w0(0, ram, CLEAR);
        r.doorbell(0, 0, 1);
    }
    assert_eq!(r.drain(0, 0, 64).len(), 3);
}

#[test]
fn a_peer_meets_it_and_the_owner_reports_it() {
    let mut r = rig();
    poison(&mut r, 1, &[5]);
    assert_eq!(copy_out(&mut r, 16, true), [5]);
    assert_eq!(r.r5(0, ecc::PAGE), 0);
    assert_eq!(r.r5(1, ecc::PAGE), 1 << 31 | (PAGE + 5));
    assert_eq!(r.r5(1, ecc::PAGE), 0);
}

#[test]
fn what_is_written_over_it_does_not_cure_it() {
    let mut r = rig();
    poison(&mut r, 0, &[1]);
    let mut p = inc(0x260, &[1, 0]);
    p.extend(copy(0x180_0000, AT, 4 << 12, NON_PIPELINED | PHYS));
    p.extend(ce_release(SEM_VA, 1, false));
    r.submit(&p);
    assert!(
        r.run_until(SEC, |r| r.h.sys_u32(SEM) == 1),
        "a write is no fault"
    );
    assert_eq!(copy_out(&mut r, 4, false), [1]);
    // INJECT does.
    r.w5(0, inject::ECC_POISON, inject::ECC_CURE);
    assert_eq!(r.r5(0, inject::ECC_POISON), 0);
    assert!(copy_out(&mut r, 4, false).is_empty());
}

#[test]
fn a_launch_faults_and_goes_on_elsewhere() {
    let mut r = rig();
    let va = 0x10_0000_0000;
    r.map2m(0, va, pte_vid(AT));
    r.vram(0, AT, &[0; 2 << 20]);
    poison(&mut r, 0, &[2]);
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 2,
            count: 4 * 512,
            steps: 1,
            a: va,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_RUNNING);
    let f = r.drain(0, 1, 64);
    assert_eq!(f.len(), 1);
    assert_eq!(
        (f[0].kind, f[0].access, f[0].va, f[0].replayable),
        (POISONED, 0, va + 0x2000, true)
    );
    assert_eq!(r.r5(0, ecc::PAGE), 1 << 31 | (PAGE + 2));
    // Another copy of the block, mapped instead.
    r.map2m(0, va, pte_vid(AT + (2 << 20)));
    r.vram(0, AT + (2 << 20), &[0; 2 << 20]);
    r.replay(0, 1);
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::STATUS), w::STATUS_DONE);
    assert_eq!(r.slot(0, 0, w::MISMATCHES_LO), 0);
}

#[test]
fn reports_are_bounded_and_each_page_is_among_them_once() {
    let mut r = rig();
    for i in 0..ecc::REPORTS_MAX as u32 {
        r.w5(0, inject::ECC_REPORT, i);
        r.w5(0, inject::ECC_REPORT, i);
    }
    assert_eq!(r.r5(0, ecc::STATUS), ecc::REPORTS_MAX as u32);
    r.w5(0, inject::ECC_REPORT, u32::MAX);
    assert_eq!(r.r5(0, ecc::STATUS) >> 31, 1);
    r.w5(0, ecc::STATUS, ecc::STATUS_OVERFLOW);
    assert_eq!(r.r5(0, ecc::STATUS) >> 31, 0);
    for i in 0..ecc::REPORTS_MAX as u32 {
        assert_eq!(r.r5(0, ecc::PAGE), 1 << 31 | i);
    }
    assert_eq!(r.r5(0, ecc::PAGE), 0);
    r.w5(0, inject::ECC_REPORT, u32::MAX);
    assert_eq!(r.r5(0, ecc::PAGE), 0xbfff_ffff, "never all ones");
}

#[test]
fn pages_that_are_not_there_do_not_fail() {
    let mut r = rig();
    let errors = r.stat(0, Counter::GuestErrors);
    r.w5(0, inject::ECC_POISON, (VRAM >> 12) as u32);
    r.w5(0, inject::ECC_POISON, u32::MAX - 1);
    assert_eq!(r.r5(0, inject::ECC_POISON), 0);
    for p in 0..inject::ECC_POISON_MAX as u32 + 3 {
        r.w5(0, inject::ECC_POISON, p);
    }
    assert_eq!(r.r5(0, inject::ECC_POISON), inject::ECC_POISON_MAX as u32);
    assert_eq!(r.stat(0, Counter::GuestErrors), errors + 5);
    // Registers of channels and engines that there are not.
    for at in (ecc::STANDS0..ecc::BASE + 0x1_0000).step_by(0x804) {
        r.w5(0, at, u32::MAX);
        assert_eq!(r.r5(0, at), 0);
    }
    r.m.reset(0, &mut r.h);
    assert_eq!(r.r5(0, inject::ECC_POISON), 0);
}
