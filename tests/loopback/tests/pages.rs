// SPDX-License-Identifier: GPL-2.0
//! Page tables through the device's walker and its TLBs, which keep stale and invalid entries of every level.
//!
//! Each page of memory holds a tag in its first eight bytes. A workload of one block copies the tag of each page of a
//! region into a table; a page that is not mapped faults, and is then mapped to a page whose tag says "hole". So each look
//! shows where every page of the region goes, by the device's own eyes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, helpers included"
)]

use huvm_hal::ext::program::{Header, Instr};
use huvm_hal::ext::topology;
use huvm_hal::ext::workload::Status;
use huvm_hal::ids::*;
use huvm_hal::pagetable::Prot;
use huvm_hal::seam::DmaMem;
use huvm_hw::ext::desc::Op;
use huvm_loopback::driver::{Driver, Space, RW};
use huvm_loopback::{Loop, Mem};
use huvm_model::config::GpuConfig;
use std::collections::BTreeSet;

const VA: u64 = 0x1234_4000_0000;
const TABLE: u64 = 0x4_0000_0000;
const PAGES: u64 = 1024;
/// VRAM of the table that the looks write.
const TABLE_VRAM: u64 = 0x80_0000;
const HOLE: u64 = 0x401e_401e;
const HEADER: Header = Header {
    blocks: 1,
    iterations: 1,
    elem_bytes: 8,
    max_resident: 0,
};

struct Bench {
    l: Loop,
    d: Driver,
    space: Space,
    hole: Mem,
    sys: Mem,
    slot: u32,
}

impl Bench {
    fn new() -> Bench {
        let config = GpuConfig {
            realism: true,
            ..GpuConfig::default()
        };
        let l = Loop::new(&[config.clone(), config]);
        let d = Driver::new(&l, 0, 1, 2048).unwrap();
        topology::set_peer(&d.gpu, 1, Some(1)).unwrap();
        let mut space = Space::new(&d.gpu).unwrap();
        for b in 0..PAGES / 512 {
            let off = b * BLOCK_BYTES;
            let table = |i: u16| Loc::Vid(VidAddr(TABLE_VRAM + off + u64::from(i) * PAGE_BYTES));
            space
                .map(GpuVa(TABLE + off), &PageMask::ALL, RW, table)
                .unwrap();
        }
        let hole = l.alloc(4096);
        hole.write64(0, HOLE);
        let sys = l.alloc_aligned(4 << 20, 2 << 20);
        for p in 0..PAGES {
            sys.write64((p * PAGE_BYTES) as usize, tag(2, p * PAGE_BYTES));
        }
        for gpu in 0..2 {
            let v = l.vram(gpu, 0x400_0000, 8 << 20);
            for p in 0..2 * PAGES {
                let off = p * PAGE_BYTES;
                v.write64(off as usize, tag(gpu as u64, 0x400_0000 + off));
            }
        }
        Bench {
            l,
            d,
            space,
            hole,
            sys,
            slot: 0,
        }
    }

    /// Where each page of the region goes: its tag. Holes are mapped to the hole page afterwards.
    fn look(&mut self) -> (Vec<u64>, BTreeSet<u64>) {
        let mut copy = Instr::new(Op::Copy, 1, PAGES);
        copy.dst = GpuVa(TABLE);
        copy.a = GpuVa(VA);
        copy.step_stride_bytes = PAGE_BYTES;
        let root = self.space.tree.root();
        self.slot = (self.slot + 1) % 64;
        self.d.launch(self.slot, root, &HEADER, &[copy]).unwrap();
        let mut faulted = BTreeSet::new();
        let hole = Loc::Sys(SysAddr(self.hole.dma_addr()));
        let space = &mut self.space;
        let (report, _) = self
            .d
            .serve_until_done(self.slot, |_, f| {
                let page = (f.va.0 - VA) / PAGE_BYTES;
                faulted.insert(page);
                let mask = PageMask::range((page % 512) as u16, 1);
                space.map(f.va, &mask, RW, |_| hole)
            })
            .unwrap();
        assert_eq!(report.status, Status::Done, "{report:?}");
        let table = self.l.vram(0, TABLE_VRAM, (PAGES * PAGE_BYTES) as usize);
        let tags = (0..PAGES)
            .map(|p| table.read64((p * PAGE_BYTES) as usize))
            .collect();
        (tags, faulted)
    }
}

/// The tag of the page at `addr` of memory `kind`.
fn tag(kind: u64, addr: u64) -> u64 {
    0x7a60_0000_0000_0000 | kind << 48 | addr
}

fn tag_of(loc: Loc, sys_base: u64) -> u64 {
    match loc {
        Loc::Vid(VidAddr(a)) => tag(0, a),
        Loc::Peer { addr, .. } => tag(1, addr.0),
        Loc::Sys(SysAddr(a)) => tag(2, a - sys_base),
    }
}

#[test]
fn split_unmap_and_merge_under_the_walker() {
    let mut b = Bench::new();
    let base = 0x400_0000;
    let target = |i: u16| Loc::Vid(VidAddr(base + u64::from(i) * PAGE_BYTES));
    let second = |i: u16| Loc::Vid(VidAddr(base + BLOCK_BYTES + u64::from(i) * PAGE_BYTES));
    b.space.map(GpuVa(VA), &PageMask::ALL, RW, target).unwrap();
    b.space
        .map(GpuVa(VA + BLOCK_BYTES), &PageMask::ALL, RW, second)
        .unwrap();
    assert!(b.space.blocks.values().all(|x| x.is_huge()));
    let (tags, faulted) = b.look();
    assert!(faulted.is_empty());
    assert!((0..PAGES).all(|p| tags[p as usize] == tag(0, base + p * PAGE_BYTES)));
    // A hole in the first block.
    b.space.unmap(GpuVa(VA), &PageMask::range(100, 3)).unwrap();
    let (tags, faulted) = b.look();
    assert_eq!(faulted, (100..103).collect());
    for p in 0..PAGES {
        let want = if (100..103).contains(&p) {
            HOLE
        } else {
            tag(0, base + p * PAGE_BYTES)
        };
        assert_eq!(tags[p as usize], want, "page {p}");
    }
    // Filled again from where it was: one entry.
    b.space
        .map(GpuVa(VA), &PageMask::range(100, 3), RW, target)
        .unwrap();
    assert!(b.space.blocks.values().all(|x| x.is_huge()));
    let (tags, faulted) = b.look();
    assert!(faulted.is_empty());
    assert!((0..PAGES).all(|p| tags[p as usize] == tag(0, base + p * PAGE_BYTES)));
    assert_eq!(b.l.take_errors(), []);
}

/// Random maps to three memories, unmaps and revocations over two blocks, each seen through the device.
#[test]
fn random_changes_match_a_naive_map() {
    let mut b = Bench::new();
    let sys_base = b.sys.dma_addr();
    let mut naive: Vec<Option<u64>> = vec![None; PAGES as usize];
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut rnd = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % n
    };
    let (mut huge, mut big, mut holes) = (0, 0, 0);
    for round in 0..120 {
        for _ in 0..1 + rnd(3) {
            let block = rnd(2);
            let va = GpuVa(VA + block * BLOCK_BYTES);
            let mask = match rnd(5) {
                0 | 1 => PageMask::ALL,
                2 => PageMask::range(rnd(32) as u16 * 16, 16 * (1 + rnd(6)) as u16),
                3 => PageMask::range(rnd(512) as u16, 1 + rnd(60) as u16),
                _ => PageMask::ALL.minus(&PageMask::range(rnd(512) as u16, 1 + rnd(60) as u16)),
            };
            let chosen = (0..512u16).filter(|i| mask.has(*i));
            match rnd(6) {
                0 | 1 => {
                    b.space.unmap(va, &mask).unwrap();
                    for i in chosen {
                        naive[(block * 512) as usize + usize::from(i)] = None;
                    }
                }
                2 => b.space.revoke_write(va, &mask).unwrap(),
                _ => {
                    let off = [0, 0, 0x1_0000, 0x5000][rnd(4) as usize];
                    let kind = rnd(3);
                    let target = |i: u16| {
                        let at = block * BLOCK_BYTES + u64::from(i) * PAGE_BYTES;
                        let vram = VidAddr(0x400_0000 + off + at);
                        match kind {
                            0 => Loc::Vid(vram),
                            1 => Loc::Peer { id: 1, addr: vram },
                            _ => Loc::Sys(SysAddr(sys_base + at)),
                        }
                    };
                    let mut flags = RW;
                    if rnd(4) == 0 {
                        flags.prot = Prot::Read;
                    }
                    b.space.map(va, &mask, flags, target).unwrap();
                    for i in chosen {
                        let page = (block * 512) as usize + usize::from(i);
                        naive[page] = Some(tag_of(target(i), sys_base));
                    }
                }
            }
        }
        let (tags, faulted) = b.look();
        for p in 0..PAGES {
            let want = naive[p as usize];
            assert_eq!(
                tags[p as usize],
                want.unwrap_or(HOLE),
                "round {round}, page {p}"
            );
            assert_eq!(
                faulted.contains(&p),
                want.is_none(),
                "round {round}, page {p}"
            );
            naive[p as usize] = Some(want.unwrap_or(HOLE));
        }
        holes += faulted.len();
        for (va, block) in &b.space.blocks {
            if *va >= VA {
                huge += u32::from(block.is_huge());
                big += u32::from(block.big_regions() != 0);
            }
        }
    }
    assert!(
        huge > 20 && big > 20 && holes > 1000,
        "{huge} {big} {holes}"
    );
    assert_eq!(b.l.take_errors(), []);
}

/// Directories come and go with the ranges that they are for.
#[test]
fn spaces_far_apart_and_released() {
    let mut b = Bench::new();
    let far = [
        0x1000_0000u64,
        0x7fff_ffe0_0000,
        0x1_0000_0000_0000,
        0x1_ffff_ffe0_0000,
    ];
    for (n, va) in far.iter().enumerate() {
        let target = |_| Loc::Vid(VidAddr(0x400_0000 + n as u64 * PAGE_BYTES));
        b.space
            .map(GpuVa(*va), &PageMask::range(511, 1), RW, target)
            .unwrap();
    }
    for (n, va) in far.iter().enumerate() {
        let mut copy = Instr::new(Op::Copy, 1, 1);
        copy.dst = GpuVa(TABLE);
        copy.a = GpuVa(va + 511 * PAGE_BYTES);
        let root = b.space.tree.root();
        b.d.launch(n as u32, root, &HEADER, &[copy]).unwrap();
        let (r, packets) =
            b.d.serve_until_done(n as u32, |_, f| panic!("{f:?}"))
                .unwrap();
        assert_eq!((r.status, packets), (Status::Done, 0));
        let got = b.l.vram(0, TABLE_VRAM, 8).read64(0);
        assert_eq!(got, tag(0, 0x400_0000 + n as u64 * PAGE_BYTES));
        b.space.unmap(GpuVa(*va), &PageMask::ALL).unwrap();
        let (_, inv) = b.space.tree.release(&b.d.gpu, GpuVa(*va)).unwrap();
        let wait = &mut b.l.wait();
        huvm_hal::ga100::invalidate::invalidate_va(&b.d.gpu, root, &inv, wait).unwrap();
        assert_eq!(b.space.tree.missing(GpuVa(*va)), 1);
    }
}
