// SPDX-License-Identifier: GPL-2.0
//! Page tables version 2: every page size, special encodings, kinds, permissions, TLB levels.
//! Looked at through the workload engine (GPC side) and BAR1 (hub side).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::*;
use huvm_hw::ext::{stats::Counter, workload as w};
use huvm_model::bar0;

/// A 512 MiB-aligned address with a different index at each level.
const VA: u64 = 1 << 47 | 5 << 38 | 7 << 29;
/// Tables at fixed places.
const T2: u64 = 0x40_0000;
const T1: u64 = 0x40_1000;
const T0: u64 = 0x40_2000;
const BIG: u64 = 0x40_3100;
const SMALL: u64 = 0x40_4000;
const DATA: u64 = 0x200_0000;

fn dir(addr: u64) -> u64 {
    1 << 1 | (addr >> 12) << 8
}

/// Root, PDE2 and PDE1 are there; T0 is the dual directory.
fn rig() -> Rig {
    let mut r = Rig::new(1);
    r.instance(0, true);
    r.rings(0, 64);
    r.vram64(0, PDE3 + 8, dir(T2));
    r.vram64(0, T2 + 8 * 5, dir(T1));
    r.vram64(0, T1 + 8 * 7, dir(T0));
    r
}

/// Both halves of dual entry 0.
fn pde0(r: &mut Rig, big: u64, small: u64) {
    r.vram64(0, T0, big);
    r.vram64(0, T0 + 8, small);
}

fn big_dir(sys: bool) -> u64 {
    // Address >> 8 from bit 4.
    (if sys { 2 } else { 1 }) << 1 | (BIG >> 8) << 4
}

/// Reads a u64 at `va` by CHECK: (status, fault type). The value must be `want`.
fn look(r: &mut Rig, va: u64, want: u64) -> (u32, u32) {
    let i = Ins {
        op: 2,
        count: 1,
        steps: 1,
        a: va,
        imm0: want,
        ..Ins::default()
    };
    r.replay(0, 0);
    r.run(10_000);
    r.launch(0, 0, 1, 8, &[i]);
    r.run(SEC);
    let status = r.slot(0, 0, w::STATUS);
    let packets = r.drain(0, 1, 64);
    let kind = packets
        .first()
        .map_or(r.slot(0, 0, w::ERR_INFO) & 0x1f, |p| p.kind);
    if status == w::STATUS_DONE {
        assert_eq!(r.slot(0, 0, w::MISMATCHES_LO), 0, "wrong place");
    } else {
        r.w5(0, slot_at(0) + 0x14, 2);
        r.run(10_000);
        r.drain(0, 0, 64);
    }
    (status, kind)
}

const DONE: u32 = w::STATUS_DONE;
const RUNNING: u32 = w::STATUS_RUNNING;
const FAILED: u32 = w::STATUS_FAILED;

#[test]
fn pages_of_4k_64k_2m_and_512m() {
    let mut r = rig();
    for (at, v) in [
        (DATA + 0x3008, 4),
        (DATA + 0x1_2348, 64),
        (DATA + 0x12_3458, 2),
        (0x345_6788, 512u64),
    ] {
        r.vram64(0, at, v);
    }
    // 4 KiB: page 3 of the small table.
    pde0(&mut r, 0, dir(SMALL));
    r.vram64(0, SMALL + 8 * 3, pte_vid(DATA + 0x3000));
    assert_eq!(look(&mut r, VA + 0x3008, 4).0, DONE);
    // 64 KiB: page 1 of the big table, which is 256-byte aligned only.
    pde0(&mut r, big_dir(false), dir(SMALL));
    r.vram64(0, BIG + 8, pte_vid(DATA + 0x1_0000));
    assert_eq!(look(&mut r, VA + 0x1_2348, 64).0, DONE);
    // The big entry of page 0 is all zero: the small table counts.
    assert_eq!(look(&mut r, VA + 0x3008, 4).0, DONE);
    // 2 MiB.
    pde0(&mut r, pte_vid(DATA), 0);
    assert_eq!(look(&mut r, VA + 0x12_3458, 2).0, DONE);
    // 512 MiB needs as much VRAM: here it ends outside.
    r.vram64(0, T1 + 8 * 7, pte_vid(0));
    assert_eq!(look(&mut r, VA + 0x345_6788, 512), (FAILED, 0xd));
    let mut r = Rig::with(
        vec![huvm_model::config::GpuConfig {
            vram_bytes: 512 << 20,
            ..quiet()
        }],
        huvm_model::config::Profile::default(),
    );
    r.instance(0, true);
    r.vram64(0, PDE3 + 8, dir(T2));
    r.vram64(0, T2 + 8 * 5, dir(T1));
    r.vram64(0, T1 + 8 * 7, pte_vid(0));
    r.vram64(0, 0x345_6788, 512);
    assert_eq!(look(&mut r, VA + 0x345_6788, 512).0, DONE);
}

#[test]
fn tables_in_system_memory() {
    let mut r = rig();
    r.vram64(0, T1 + 8 * 7, 2 << 1 | (0x30_0000u64 >> 12) << 8);
    r.sys64(0x30_0000, big_dir(true));
    r.sys64(BIG, pte_sys(0x50_0000));
    r.sys64(0x50_0010, 77);
    assert_eq!(look(&mut r, VA + 0x10, 77).0, DONE);
}

#[test]
fn what_is_missing_at_which_level() {
    let mut r = rig();
    pde0(&mut r, 0, 0);
    assert_eq!(look(&mut r, VA, 0), (RUNNING, 0), "both halves empty: PDE");
    pde0(&mut r, 0, dir(SMALL));
    assert_eq!(look(&mut r, VA, 0), (RUNNING, 2), "small entry: PTE");
    pde0(&mut r, big_dir(false), 0);
    assert_eq!(
        look(&mut r, VA, 0),
        (RUNNING, 2),
        "big entry, no small table: PTE"
    );
    r.vram64(0, T1 + 8 * 7, 0);
    assert_eq!(look(&mut r, VA, 0), (RUNNING, 0));
    r.vram64(0, PDE3 + 8, 0);
    assert_eq!(look(&mut r, VA, 0), (RUNNING, 0));
    // A leaf where none can be.
    r.vram64(0, PDE3 + 8, pte_vid(0));
    assert_eq!(look(&mut r, VA, 0), (FAILED, 1), "PDE_SIZE");
}

#[test]
fn sparse_and_unmapped_encodings() {
    let mut r = rig();
    const VOL: u64 = 1 << 3;
    // Unmapped (PRIVILEGE in an invalid 64 KiB entry): the valid 4 KiB entry below is not looked at.
    pde0(&mut r, big_dir(false), dir(SMALL));
    r.vram64(0, SMALL, pte_vid(DATA));
    r.vram64(0, BIG, 1 << 5);
    assert_eq!(look(&mut r, VA, 0), (RUNNING, 2));
    r.vram64(0, BIG, 0);
    assert_eq!(look(&mut r, VA, 0).0, DONE);
    // Sparse at each level: reads zero, no fault.
    r.vram64(0, DATA, 5);
    r.vram64(0, BIG, VOL);
    assert_eq!(look(&mut r, VA, 0).0, DONE);
    r.vram64(0, BIG, 0);
    r.vram64(0, SMALL, VOL);
    assert_eq!(look(&mut r, VA, 0).0, DONE);
    pde0(&mut r, VOL, 0);
    assert_eq!(look(&mut r, VA, 0).0, DONE);
    r.vram64(0, T1 + 8 * 7, VOL);
    assert_eq!(look(&mut r, VA, 0).0, DONE);
    // A write to sparse memory goes nowhere.
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 1,
            count: 1,
            steps: 1,
            dst: VA,
            imm0: 9,
            ..Ins::default()
        }],
    );
    r.run(SEC);
    assert_eq!((r.slot(0, 0, w::STATUS), r.get_vram64(0, DATA)), (DONE, 5));
}

#[test]
fn permissions_and_kinds() {
    let mut r = rig();
    pde0(&mut r, 0, dir(SMALL));
    let kind = |pte: u64, k: u64| pte & !(0xff << 56) | k << 56;
    let cases = [
        (pte_vid(DATA) | 1 << 5, (FAILED, 5)),
        (kind(pte_vid(DATA), 0), (DONE, 0)),
        (kind(pte_vid(DATA), 7), (FAILED, 0xc)),
        (kind(pte_vid(DATA), 8), (DONE, 0)),
        (kind(pte_sys(0x50_0000), 8), (FAILED, 0xc)),
        (kind(pte_sys(0x50_0000), 6), (DONE, 0)),
        // Peer id that means nothing.
        (pte_peer(2, 0), (FAILED, 0xa)),
    ];
    for (pte, want) in cases {
        r.vram64(0, SMALL, pte);
        let got = look(&mut r, VA, 0);
        assert_eq!(got.0, want.0, "{pte:#x}");
        if want.0 == FAILED {
            assert_eq!(got.1, want.1, "{pte:#x}");
        }
    }
}

#[test]
fn invalidate_levels_reach_what_they_name() {
    // A cached directory entry stays in force until an invalidate names its level.
    let mut r = rig();
    r.instance(0, true);
    pde0(&mut r, 0, dir(SMALL));
    r.vram64(0, SMALL, pte_vid(DATA));
    r.vram64(0, DATA, 1);
    r.vram64(0, DATA + 0x10_0000, 2);
    assert_eq!(look(&mut r, VA, 1).0, DONE);
    // The PDE1 entry now leads to another tree.
    let other = 0x41_0000;
    r.vram64(0, other + 8, dir(other + 0x1000));
    r.vram64(0, other + 0x1000, pte_vid(DATA + 0x10_0000));
    r.vram64(0, T1 + 8 * 7, dir(other));
    let mut values = Vec::new();
    for level in [1u32, 2, 3] {
        r.w0(0, bar0::INVALIDATE, 1 << 31 | 3 | level << 24);
        r.run(10_000);
        let i = Ins {
            op: 2,
            count: 1,
            steps: 1,
            a: VA,
            imm0: 1,
            ..Ins::default()
        };
        r.launch(0, 0, 1, 8, &[i]);
        r.run(SEC);
        values.push(1 + r.slot(0, 0, w::MISMATCHES_LO));
    }
    assert_eq!(values, [1, 1, 2]);
    assert!(r.stat(0, Counter::TlbInvalidates) >= 3);
}

#[test]
fn targeted_invalidate_leaves_the_neighbours() {
    let mut r = rig();
    pde0(&mut r, 0, dir(SMALL));
    for p in 0..3u64 {
        r.vram64(0, SMALL + 8 * p, pte_vid(DATA + 4096 * p));
        r.vram64(0, DATA + 4096 * p, 10 + p);
        assert_eq!(look(&mut r, VA + 4096 * p, 10 + p).0, DONE);
    }
    let pages = Ins {
        op: 2,
        count: 3,
        steps: 1,
        a: VA,
        es: 4096,
        imm0: 10,
        ..Ins::default()
    };
    r.launch(0, 0, 1, 8, &[pages]);
    r.run(SEC);
    for p in 0..3u64 {
        r.vram64(0, SMALL + 8 * p, 0);
    }
    // PF-only registers carry an address: page 1 alone.
    let va = VA + 4096;
    r.w0(
        0,
        bar0::PF_INVALIDATE_VADDR,
        ((va >> 12) as u32 & 0x0fff_ffff) << 4,
    );
    r.w0(0, bar0::PF_INVALIDATE_UPPER_VADDR, (va >> 40) as u32);
    r.w0(0, bar0::PF_INVALIDATE_SIZE, 0);
    r.w0(0, bar0::PF_INVALIDATE, 1 << 31 | 2 | 1 << 22);
    r.run(10_000);
    r.launch(0, 0, 1, 8, &[pages]);
    r.run(SEC);
    let packets = r.drain(0, 1, 64);
    assert_eq!(packets.iter().map(|p| p.va).collect::<Vec<_>>(), [va]);
}

#[test]
fn subcontext_page_directories() {
    let mut r = rig();
    // Subcontext 9 has an address space of its own.
    r.vram64(0, INST + 0x298, 1 << 9);
    let root9 = 0x42_0000u64;
    r.vram32(0, INST + 0x2a0 + 0x90, root9 as u32 | 3 << 10 | 1 << 4);
    r.launch(
        0,
        0,
        1,
        8,
        &[Ins {
            op: 1,
            count: 1,
            steps: 1,
            dst: VA,
            ..Ins::default()
        }],
    );
    r.w5(0, slot_at(0) + 0x14, 2);
    r.w5(0, slot_at(0) + 0x10, 9);
    r.w5(0, slot_at(0) + 0x14, 1);
    r.run(SEC);
    let p = r.drain(0, 1, 64);
    assert_eq!(
        (p.last().unwrap().engine, p.last().unwrap().va),
        (64 + 9, VA)
    );
    let at = r.pte_at(0, root9, VA);
    r.vram64(0, at, pte_vid(DATA));
    r.replay(0, 1);
    r.run(SEC);
    assert_eq!(r.slot(0, 0, w::STATUS), DONE);
}
