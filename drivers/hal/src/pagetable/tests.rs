// SPDX-License-Identifier: GPL-2.0
//! Blocks and trees over plain memory, against a walker written from hw-interface 4.1 to 4.4.
//!
//! The walker looks at memory after every single store of an operation, so that a moment in which a page resolves to
//! neither its old nor its new translation is found.

use super::*;
use crate::fake::{FakeMem, FakeRegs, Journal};
use crate::ids::*;
use crate::seam::DmaMem;
use crate::Error;
use std::collections::BTreeMap;
use std::vec::Vec;

const PDE0: u64 = 0x10_0000;
const BIG: u64 = 0x20_0100;
const SMALL: u64 = 0x30_0000;
const VA: u64 = 0x12_3460_0000;
const RW: MapFlags = MapFlags {
    prot: Prot::ReadWrite,
    cached: false,
};

/// Memory as the device sees it.
#[derive(Default, Clone)]
struct Seen(BTreeMap<u64, u64>);

impl Seen {
    fn read(&self, addr: u64) -> u64 {
        self.0.get(&addr).copied().unwrap_or(0xbad0_bad0_bad0_bad0)
    }

    /// Physical 4 KiB entry of page `i` of the block, by the hardware's rules; 0 when it faults.
    fn walk(&self, i: u64, torn_low: Option<u64>) -> u64 {
        let at = PDE0 + (VA >> 21 & 255) * 16;
        let low = torn_low.unwrap_or_else(|| self.read(at));
        let high = self.read(at + 8);
        if low & 1 != 0 {
            return low + (i << 8);
        }
        if low >> 1 & 3 != 0 {
            assert_eq!(low >> 1 & 3, 2);
            let table = (low >> 4 & ((1 << 50) - 1)) << 8;
            let e = self.read(table + i / 16 * 8);
            if e & 1 != 0 {
                return e + ((i % 16) << 8);
            }
            if e & 1 << 5 != 0 {
                return 0;
            }
        }
        if high >> 1 & 3 == 0 {
            return 0;
        }
        assert_eq!(high >> 1 & 3, 2);
        let table = (high >> 8 & ((1 << 46) - 1)) << 12;
        let e = self.read(table + i * 8);
        if e & 1 != 0 {
            e
        } else {
            0
        }
    }
}

struct Bench {
    block: Block<FakeMem>,
    pde0: FakeMem,
    journal: Journal,
    seen: Seen,
    model: Vec<u64>,
    fence: FakeRegs,
}

impl Bench {
    fn new() -> Bench {
        let journal = Journal::default();
        let mut pde0 = FakeMem::new(PDE0, 4096);
        pde0.journal = journal.clone();
        crate::seam::zero(&pde0, 4096);
        let mut b = Bench {
            block: Block::new(GpuVa(VA)).unwrap(),
            pde0,
            journal,
            seen: Seen::default(),
            model: vec![0; 512],
            fence: FakeRegs::default(),
        };
        b.settle();
        b
    }

    fn table(&self, addr: u64, bytes: usize) -> FakeMem {
        let mut m = FakeMem::new(addr, bytes);
        m.journal = self.journal.clone();
        m
    }

    /// Runs `op` until it has its tables, then checks every moment of it against `want`.
    fn run(
        &mut self,
        want: Vec<u64>,
        op: impl Fn(&mut Block<FakeMem>, &FakeRegs, &FakeMem) -> Result<Option<Invalidate>, Error>,
    ) -> Option<Invalidate> {
        let mut inv = None;
        // Pages that one entry maps, before and after, are cached as one.
        let as_one = |b: &Block<FakeMem>| match b.is_huge() {
            true => u32::MAX,
            false => b.big_regions(),
        };
        let (was_huge, before) = (self.block.is_huge(), as_one(&self.block));
        for attempt in 0..3 {
            match op(&mut self.block, &self.fence, &self.pde0) {
                Ok(i) => {
                    inv = i;
                    break;
                }
                Err(Error::NeedTables(need)) => {
                    assert!(attempt < 2 && need != Need::default());
                    if need.small {
                        let t = self.table(SMALL, 4096);
                        self.block.supply_small(t).unwrap();
                    }
                    if need.big {
                        let t = self.table(BIG, 256);
                        self.block.supply_big(t).unwrap();
                    }
                }
                Err(e) => panic!("{e:?}"),
            }
        }
        let old = std::mem::replace(&mut self.model, want);
        self.check_moments(&old);
        for i in 0..512 {
            assert_eq!(self.block.entry(i as u16), self.model[i], "page {i}");
            assert_eq!(self.block.mapped().has(i as u16), self.model[i] != 0);
        }
        // The invalidate covers every page that changed, with all that its entry mapped, and knows when one lost something.
        let whole = was_huge || self.block.is_huge();
        let large = before | as_one(&self.block);
        for i in 0..512u64 {
            if old[i as usize] != self.model[i as usize] {
                let inv = inv.expect("changed without invalidate");
                let (first, last) = match (whole, large >> (i / 16) & 1 != 0) {
                    (true, _) => (0, 511),
                    (false, true) => (i & !15, i | 15),
                    (false, false) => (i, i),
                };
                assert!(VA + first * 4096 >= inv.va.0);
                assert!(VA + last * 4096 < inv.va.0 + (4096 << inv.log2_pages));
                assert!(inv.downgrade || pte::keeps(old[i as usize], self.model[i as usize]));
            }
        }
        inv
    }

    fn settle(&mut self) {
        let writes: Vec<_> = self.journal.borrow_mut().drain(..).collect();
        for (addr, val) in writes {
            self.seen.0.insert(addr, val);
        }
    }

    fn check_moments(&mut self, old: &[u64]) {
        let writes: Vec<_> = self.journal.borrow_mut().drain(..).collect();
        let at = PDE0 + (VA >> 21 & 255) * 16;
        let first_low = self.seen.read(at);
        for (n, (addr, val)) in writes.iter().enumerate() {
            self.seen.0.insert(*addr, *val);
            for i in 0..512u64 {
                let (o, w) = (old[i as usize], self.model[i as usize]);
                let got = self.seen.walk(i, None);
                assert!(
                    got == o || got == w,
                    "write {n} of {}: page {i} at {got:#x}, not {o:#x} or {w:#x}",
                    writes.len()
                );
                // A walk that read the low half before the operation, and the high half now.
                if first_low & 1 != 0 {
                    let got = self.seen.walk(i, Some(first_low));
                    assert!(got == o || got == w);
                }
            }
        }
        for i in 0..512u64 {
            assert_eq!(
                self.seen.walk(i, None),
                self.model[i as usize],
                "page {i} at the end"
            );
        }
    }

    fn map(
        &mut self,
        mask: PageMask,
        flags: MapFlags,
        target: impl Fn(u16) -> Loc,
    ) -> Option<Invalidate> {
        let mut want = self.model.clone();
        for i in (0..512).filter(|i| mask.has(*i)) {
            want[usize::from(i)] = pte::leaf(target(i), flags).unwrap();
        }
        self.run(want, |b, f, p| b.map(f, p, &mask, flags, &target))
    }

    /// As [`Self::map`] to `base` and what is behind it.
    fn map_run(&mut self, mask: PageMask, flags: MapFlags, base: Loc) -> Option<Invalidate> {
        let mut want = self.model.clone();
        for i in (0..512).filter(|i| mask.has(*i)) {
            let loc = base.add(u64::from(i) * 4096).unwrap();
            want[usize::from(i)] = pte::leaf(loc, flags).unwrap();
        }
        self.run(want, |b, f, p| b.map_run(f, p, &mask, flags, base))
    }

    fn unmap(&mut self, mask: PageMask) -> Option<Invalidate> {
        let mut want = self.model.clone();
        for i in (0..512).filter(|i| mask.has(*i)) {
            want[usize::from(i)] = 0;
        }
        self.run(want, |b, f, p| b.unmap(f, p, &mask))
    }

    fn revoke(&mut self, mask: PageMask) -> Option<Invalidate> {
        let mut want = self.model.clone();
        for i in (0..512).filter(|i| mask.has(*i)) {
            want[usize::from(i)] = pte::read_only(want[usize::from(i)]);
        }
        self.run(want, |b, f, p| b.revoke_write(f, p, &mask))
    }
}

fn vid(base: u64) -> impl Fn(u16) -> Loc {
    move |i| Loc::Vid(VidAddr(base + u64::from(i) * 4096))
}

#[test]
fn whole_block_maps_with_one_entry_and_no_table() {
    let mut b = Bench::new();
    let inv = b.map(PageMask::ALL, RW, vid(0x4000_0000)).unwrap();
    assert!(b.block.is_huge());
    assert_eq!(
        (inv.level, inv.log2_pages, inv.downgrade),
        (Level::Pde0, 9, false)
    );
    assert_eq!(inv.va, GpuVa(VA));
    assert!(
        b.map(PageMask::ALL, RW, vid(0x4000_0000)).is_none(),
        "same again changes nothing"
    );
    let inv = b.map(PageMask::ALL, RW, vid(0x6000_0000)).unwrap();
    assert!(inv.downgrade && b.block.is_huge());
    assert!(b.unmap(PageMask::ALL).unwrap().downgrade);
    assert!(b.unmap(PageMask::ALL).is_none());
}

#[test]
fn split_and_merge() {
    let mut b = Bench::new();
    b.map(PageMask::ALL, RW, vid(0x4000_0000));
    let inv = b.unmap(PageMask::range(17, 1)).unwrap();
    assert_eq!(
        (inv.level, inv.log2_pages, inv.downgrade),
        (Level::Pde0, 9, true)
    );
    assert_eq!(b.block.big_regions(), !(1 << 1));
    assert_eq!(
        b.block.take_spare().0.map(|m| m.addr),
        None,
        "tables in use stay"
    );
    // The hole comes back from the same chunk: 64 KiB, then 2 MiB again.
    let inv = b.map(PageMask::range(17, 1), RW, vid(0x4000_0000)).unwrap();
    assert!(b.block.is_huge() && !inv.downgrade && inv.level == Level::Pde0);
    let (small, big) = b.block.take_spare();
    assert!(small.is_some() && big.is_some());
}

#[test]
fn a_hole_filled_from_elsewhere_stays_small() {
    let mut b = Bench::new();
    b.map(PageMask::ALL, RW, vid(0x4000_0000));
    b.unmap(PageMask::range(17, 1));
    let inv = b
        .map(PageMask::range(17, 1), RW, |_| Loc::Sys(SysAddr(0x7_7000)))
        .unwrap();
    assert_eq!(b.block.big_regions(), !(1 << 1));
    assert_eq!(
        (inv.va, inv.log2_pages, inv.level),
        (GpuVa(VA + 17 * 4096), 0, Level::Pte)
    );
    // The whole block moves at once.
    b.map(PageMask::ALL, RW, vid(0x8000_0000));
    assert!(b.block.is_huge());
}

#[test]
fn large_pages_need_alignment_and_equal_flags() {
    let mut b = Bench::new();
    b.map(PageMask::ALL, RW, vid(0x4001_0000));
    assert_eq!(b.block.big_regions(), u32::MAX, "64 KiB aligned only");
    b.map(PageMask::ALL, RW, vid(0x4000_1000));
    assert_eq!(
        (b.block.big_regions(), b.block.is_huge()),
        (0, false),
        "4 KiB aligned only"
    );
    b.map(PageMask::ALL, RW, vid(0x4000_0000));
    assert!(b.block.is_huge());
    b.revoke(PageMask::range(0, 16));
    assert_eq!(b.block.big_regions(), u32::MAX);
    b.revoke(PageMask::range(20, 1));
    assert_eq!(b.block.big_regions(), !2);
    b.revoke(PageMask::ALL);
    assert!(b.block.is_huge(), "all alike again");
}

#[test]
fn nothing_changes_without_tables() {
    let mut b = Bench::new();
    let mask = PageMask::range(3, 2);
    let r = b.block.map(&b.fence, &b.pde0, &mask, RW, &vid(0));
    assert_eq!(
        r,
        Err(Error::NeedTables(Need {
            small: true,
            big: false
        }))
    );
    b.map(PageMask::ALL, RW, vid(0));
    let r = b.block.unmap(&b.fence, &b.pde0, &PageMask::range(0, 16));
    assert_eq!(
        r,
        Err(Error::NeedTables(Need {
            small: false,
            big: true
        }))
    );
    assert!(b.block.is_huge() && b.journal.borrow().is_empty());
    assert!(
        b.block.unmap_all(&b.fence, &b.pde0).is_some(),
        "needs no table"
    );
}

#[test]
fn bad_targets_are_refused() {
    let mut b = Bench::new();
    let m = PageMask::range(0, 1);
    for (loc, e) in [
        (Loc::Vid(VidAddr(1 << 37)), Error::BadAddress(1 << 37)),
        (Loc::Sys(SysAddr(0x1001)), Error::BadAddress(0x1001)),
        (Loc::Sys(SysAddr(1 << 47)), Error::BadAddress(1 << 47)),
        (
            Loc::Peer {
                id: 8,
                addr: VidAddr(0),
            },
            Error::OutOfRange("peer id", 8),
        ),
    ] {
        assert_eq!(b.block.map(&b.fence, &b.pde0, &m, RW, &|_| loc), Err(e));
        assert!(b.block.map_run(&b.fence, &b.pde0, &m, RW, loc).is_err());
    }
    // The last page of the block is beyond the format, the first is not.
    let end = Loc::Vid(VidAddr((1 << 37) - 511 * 4096));
    assert!(b.block.map_run(&b.fence, &b.pde0, &m, RW, end).is_err());
    assert!(b.journal.borrow().is_empty() && b.block.mapped().is_empty());
    assert_eq!(
        Block::<FakeMem>::new(GpuVa(0x1000)).unwrap_err(),
        Error::BadAddress(0x1000)
    );
    assert!(Block::<FakeMem>::new(GpuVa(1 << 49)).is_err());
}

/// Random maps, unmaps and revocations, each watched store by store.
#[test]
fn random_changes_never_show_a_wrong_page() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut rnd = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % n
    };
    let mut shapes = [0u32; 3];
    for _ in 0..12 {
        let mut b = Bench::new();
        for _ in 0..25 {
            let mask = match rnd(5) {
                0 => PageMask::ALL,
                1 => PageMask::range(rnd(32) as u16 * 16, 16 * (1 + rnd(8)) as u16),
                2 => PageMask::range(rnd(512) as u16, 1 + rnd(40) as u16),
                3 => PageMask::ALL.minus(&PageMask::range(rnd(512) as u16, 1 + rnd(40) as u16)),
                _ => PageMask([rnd(u64::MAX), rnd(u64::MAX), 0, 0, 0, 0, 0, rnd(u64::MAX)]),
            };
            let flags = MapFlags {
                prot: if rnd(4) == 0 {
                    Prot::Read
                } else {
                    Prot::ReadWrite
                },
                cached: false,
            };
            match rnd(8) {
                0..=4 => {
                    let base =
                        [0x4000_0000, 0x4000_0000, 0x4001_0000, 0x4000_3000][rnd(4) as usize];
                    let peer = rnd(3) == 0;
                    let place = |i: u16| {
                        let addr = VidAddr(base + u64::from(i) * 4096);
                        if peer {
                            Loc::Peer { id: 3, addr }
                        } else {
                            Loc::Vid(addr)
                        }
                    };
                    if rnd(2) == 0 {
                        b.map(mask, flags, place);
                    } else {
                        b.map_run(mask, flags, place(0));
                    }
                }
                5 | 6 => {
                    b.unmap(mask);
                }
                _ => {
                    b.revoke(mask);
                }
            }
            if rnd(6) == 0 {
                b.block.take_spare();
            }
            shapes[0] += u32::from(b.block.is_huge());
            shapes[1] += u32::from(b.block.big_regions() != 0);
            shapes[2] += u32::from(!b.block.is_huge() && b.block.big_regions() != u32::MAX);
        }
    }
    assert!(
        shapes.iter().all(|n| *n > 10),
        "every shape was met: {shapes:?}"
    );
}

#[derive(Default)]
struct Map(BTreeMap<TableKey, FakeMem>);

impl Store for Map {
    type Page = FakeMem;
    fn get(&self, key: TableKey) -> Option<&FakeMem> {
        self.0.get(&key)
    }
    fn put(&mut self, key: TableKey, page: FakeMem) -> Result<(), FakeMem> {
        self.0.insert(key, page).map_or(Ok(()), Err)
    }
    fn take(&mut self, key: TableKey) -> Option<FakeMem> {
        self.0.remove(&key)
    }
}

#[test]
fn tree_grows_from_the_top_and_lets_go_of_empty_tables() {
    let f = FakeRegs::default();
    let mut t = Tree::new(&f, Map::default(), FakeMem::new(0x1000, 4096)).unwrap();
    let va = GpuVa(0x1_7f12_3460_0000);
    assert_eq!((t.root(), t.missing(va)), (SysAddr(0x1000), 3));
    assert!(t.pde0(va).is_none());
    let mut levels = Vec::new();
    for n in 0..3u64 {
        let inv = t
            .supply(&f, va, FakeMem::new(0x10_0000 + n * 4096, 4096))
            .unwrap();
        assert!(!inv.downgrade && inv.va <= va);
        levels.push((inv.level, inv.log2_pages));
    }
    assert_eq!(
        levels,
        [(Level::Pde3, 35), (Level::Pde2, 26), (Level::Pde1, 17)]
    );
    assert_eq!(
        t.supply(&f, va, FakeMem::new(0x5000, 4096)).unwrap_err().0,
        Error::Exists(va.0)
    );
    assert_eq!(t.missing(GpuVa(va.0 ^ 1 << 28)), 0, "same 512 MiB");
    assert_eq!(t.missing(GpuVa(va.0 ^ 1 << 29)), 1);
    assert_eq!(t.missing(GpuVa(va.0 ^ 1 << 38)), 2);
    assert_eq!(t.missing(GpuVa(va.0 ^ 1 << 47)), 3);

    // A walk from the root, as hw-interface 4.2 has it.
    let mut table = t.root().0;
    for shift in [47, 38, 29] {
        let page = t.store_ref().0.values().find(|p| p.addr == table).unwrap();
        let e = page.read64((va.0 >> shift & if shift == 47 { 3 } else { 511 }) as usize * 8);
        assert_eq!(e & 7, 2 << 1, "system memory, not a leaf");
        table = (e >> 8 & ((1 << 46) - 1)) << 12;
    }
    assert_eq!(table, t.pde0(va).unwrap().addr);

    let mut b = Block::<FakeMem>::new(GpuVa(va.0 & !0x1f_ffff)).unwrap();
    b.map(&f, t.pde0(va).unwrap(), &PageMask::ALL, RW, &vid(0))
        .unwrap();
    assert!(t.release(&f, va).is_none(), "in use");
    b.unmap_all(&f, t.pde0(va).unwrap());
    let (page, inv) = t.release(&f, va).unwrap();
    assert_eq!(
        (page.addr, inv.level, inv.downgrade),
        (0x10_2000, Level::Pde1, true)
    );
    assert_eq!(t.missing(va), 1);
}

#[test]
fn invalidates_merge() {
    let one = |p: u64| Invalidate::cover(GpuVa(p * 4096), GpuVa(p * 4096), Level::Pte, false);
    let m = one(5).merge(&one(6));
    assert_eq!((m.va, m.log2_pages), (GpuVa(4 * 4096), 2));
    let m = m.merge(&Invalidate::cover(
        GpuVa(0),
        GpuVa(0x1f_ffff),
        Level::Pde0,
        true,
    ));
    assert_eq!(
        (m.va, m.log2_pages, m.level, m.downgrade),
        (GpuVa(0), 9, Level::Pde0, true)
    );
    let all = Invalidate::cover(GpuVa(0), GpuVa((1 << 49) - 1), Level::Pte, false);
    assert_eq!(all.log2_pages, 37);
}
