// SPDX-License-Identifier: GPL-2.0
//! Page-table entries of every size against the golden vectors of `tests/vectors`, as they lie in the tables.

use super::*;
use crate::fake::{FakeMem, FakeRegs};
use crate::ids::*;
use crate::seam::DmaMem;
use crate::vectors::{bits, code, codes, levels, num, ptes, Cases, PteRow};
use std::collections::BTreeMap;
use std::vec::Vec;

/// A block whose entries lie where levels.csv says.
const VA: u64 = 0x7f12_3440_0000;
const SMALL: u64 = 0x6ed_cba9_8000;
const BIG: u64 = 0x6edc_ba98_7600;

/// How the driver would ask for this entry; `None` where it never does.
fn request(r: &PteRow) -> Option<(Loc, MapFlags)> {
    let loc = match (r.aperture, r.peer) {
        ("Vid", None) => Loc::Vid(VidAddr(r.address)),
        ("Peer", Some(id)) => Loc::Peer {
            id,
            addr: VidAddr(r.address),
        },
        ("SysCoherent", None) => Loc::Sys(SysAddr(r.address)),
        _ => return None,
    };
    let prot = match (r.read_only, r.atomic_disable) {
        (true, true) => Prot::Read,
        (false, true) => Prot::ReadWrite,
        (false, false) => Prot::ReadWriteAtomic,
        _ => return None,
    };
    let known = !r.privilege && u32::from(r.kind) == code("Kind", "Generic") && r.size != "512M";
    let flags = MapFlags {
        prot,
        cached: !r.vol,
    };
    known.then_some((loc, flags))
}

fn offset(level: &str, va: u64) -> usize {
    let all = levels();
    let row = all.iter().find(|l| l.0 == level && l.1 == va);
    row.unwrap_or_else(|| panic!("no row {level} {va:#x}")).2 as usize
}

/// Maps pages `first..first + count` of a block with every table at hand; (PDE0 entry, big table, small table).
fn map(first: u16, count: u16, loc: Loc, flags: MapFlags) -> (Vec<u64>, FakeMem, FakeMem) {
    let pde0 = FakeMem::new(0x10_0000, 4096);
    crate::seam::zero(&pde0, 4096);
    let (small, big) = (FakeMem::new(SMALL, 4096), FakeMem::new(BIG, 256));
    let mut b = Block::new(GpuVa(VA)).unwrap();
    b.supply_small(small.clone()).unwrap();
    b.supply_big(big.clone()).unwrap();
    let target = |i: u16| loc.add(u64::from(i - first) * PAGE_BYTES).unwrap();
    let mask = PageMask::range(first, count);
    let regs = FakeRegs::default();
    b.map(&regs, &pde0, &mask, flags, &target).unwrap();
    let at = offset("Pde0", 0x7f12_3456_7000);
    let entry = vec![pde0.read64(at), pde0.read64(at + 8)];
    (entry, big, small)
}

#[test]
fn leaves_of_every_size_and_aperture() {
    let v = Cases::of(&["pte", "pde0"]);
    let [unmapped] = v.take64("pte", "big_unmapped");
    let tables: [u64; 2] = v.take64("pde0", "tables_sys");
    v.skip("pte", &["vid", "sys_read_only", "peer5", "sparse"]);
    v.skip("pde0", &["big_sys", "tables_vid"]);
    // Page and region of 0x7f1234567000.
    let va = 0x7f12_3456_7000;
    let (page, region) = (offset("Small", va), offset("Big", va));
    assert_eq!((page, region), (0x167 * 8, 0x16 * 8));
    let (mut made, mut never) = (BTreeMap::new(), 0);
    for r in ptes() {
        let Some((loc, flags)) = request(&r) else {
            never += 1;
            continue;
        };
        *made.entry(r.size).or_insert(0) += 1;
        match r.size {
            "4K" => {
                let (pde0, big, small) = map(0x167, 1, loc, flags);
                assert_eq!(small.read64(page), r.entry, "{r:x?}");
                assert_eq!(pde0, tables, "{r:x?}");
                assert_eq!(big.read64(region), 0, "look below");
                assert_eq!(big.read64(region + 8), unmapped, "nothing below");
            }
            "64K" => {
                let (pde0, big, _) = map(0x160, 16, loc, flags);
                assert_eq!(big.read64(region), r.entry, "{r:x?}");
                assert_eq!(big.read64(region - 8), unmapped);
                assert_eq!(pde0, tables, "{r:x?}");
            }
            _ => {
                let (pde0, ..) = map(0, 512, loc, flags);
                assert_eq!(pde0, [r.entry, 0], "{r:x?}");
            }
        }
    }
    let want = [("2M", 4), ("4K", 8), ("64K", 4)];
    let made: Vec<_> = made.into_iter().collect();
    assert_eq!(
        made, want,
        "vid, peer and sys of each size, and every permission"
    );
    // Non-coherent memory (three sizes), 512 MiB pages, privilege, read-only with atomics, another kind.
    assert_eq!(never, 3 + 4 + 3);
}

/// A permission that is taken away.
#[test]
fn revoked_leaves() {
    let find = |aperture: &str, ro: bool| {
        let all = ptes();
        let same = |r: &&PteRow| {
            (r.size, r.aperture, r.address) == ("4K", aperture, 0x3_4567_8000)
                && (r.read_only, r.atomic_disable, r.privilege) == (ro, ro, false)
        };
        all.iter().find(same).unwrap().entry
    };
    let (full, less) = (find("Vid", false), find("Vid", true));
    assert_eq!(pte::read_only(full), less);
    assert!(pte::keeps(less, full) && !pte::keeps(full, less));
    assert_eq!(pte::read_only(0), 0);
}

#[test]
fn directories() {
    let v = Cases::of(&["pde", "pde0"]);
    let one = |format, case| v.take64::<1>(format, case)[0];
    // Tables are in coherent memory; a sparse range has no use here.
    let never = ["vid_top", "vid", "sys_non_coherent", "no_ats", "sparse"];
    v.skip("pde", &never);
    v.skip("pde0", &["tables_vid"]);
    let sys = one("pde", "sys");
    assert_eq!(pte::pde(SysAddr(0x7_6543_2000)), Ok(sys));
    assert_eq!(pte::pde0_small(Some(SysAddr(0x7_6543_2000))), Ok(sys));
    let none = one("pde", "invalid");
    assert_eq!(pte::pde0_small(None), Ok(none));
    assert_eq!(pte::pde0_big(None), Ok(none));
    let big = one("pde0", "big_sys");
    assert_eq!(pte::pde0_big(Some(SysAddr(0x7_6543_2100))), Ok(big));
    let tables = [
        pte::pde0_big(Some(SysAddr(BIG))).unwrap(),
        pte::pde0_small(Some(SysAddr(SMALL))).unwrap(),
    ];
    assert_eq!(tables, v.take64::<2>("pde0", "tables_sys"));
}

/// Tables by key.
#[derive(Default)]
struct Tables(BTreeMap<u64, FakeMem>);

impl Store for Tables {
    type Page = FakeMem;
    fn get(&self, key: TableKey) -> Option<&FakeMem> {
        self.0.get(&key.to_u64())
    }
    fn put(&mut self, key: TableKey, page: FakeMem) -> Result<(), FakeMem> {
        self.0.insert(key.to_u64(), page);
        Ok(())
    }
    fn take(&mut self, key: TableKey) -> Option<FakeMem> {
        self.0.remove(&key.to_u64())
    }
}

/// The way down to each address of levels.csv: one entry in each table, at its offset, for the next table.
#[test]
fn entries_have_their_offset() {
    let entry_of = |table: u64| {
        let f = |f| bits("pde", f);
        f("APERTURE").of64(code("PdeAperture", "SysCoherent").into())
            | f("VOL").of64(1)
            | f("ADDRESS_SYS").of64(table >> 12)
    };
    let mut addresses: Vec<u64> = levels().iter().map(|l| l.1).collect();
    addresses.dedup();
    assert!(addresses.len() >= 4);
    for va in addresses {
        let regs = FakeRegs::default();
        let pages: Vec<_> = (1..5)
            .map(|i| FakeMem::new(0x7654_3210_0000 + 0x1000 * i, 4096))
            .collect();
        let mut tree = Tree::new(&regs, Tables::default(), pages[0].clone()).unwrap();
        for p in &pages[1..] {
            let p = p.clone();
            let supplied = tree.supply(&regs, GpuVa(va), p).map_err(|(e, _)| e);
            supplied.unwrap();
        }
        for (i, name) in ["Pde3", "Pde2", "Pde1"].iter().enumerate() {
            let at = offset(name, va);
            assert_eq!(
                pages[i].read64(at),
                entry_of(pages[i + 1].addr),
                "{name} {va:#x}"
            );
            let others = (0..4096).step_by(8).filter(|o| *o != at);
            assert_eq!(others.map(|o| pages[i].read64(o)).max(), Some(0));
        }
        // The lowest level is a block's.
        let block = va & !(BLOCK_BYTES - 1);
        let mut b = Block::new(GpuVa(block)).unwrap();
        b.supply_small(FakeMem::new(SMALL, 4096)).unwrap();
        let page = ((va - block) / PAGE_BYTES) as u16;
        let target = |_| Loc::Vid(VidAddr(0x1000));
        let flags = MapFlags {
            prot: Prot::Read,
            cached: false,
        };
        let mask = PageMask::range(page, 1);
        let pde0 = tree.pde0(GpuVa(va)).unwrap();
        b.map(&regs, pde0, &mask, flags, &target).unwrap();
        let at = offset("Pde0", va);
        assert_eq!(pde0.read64(at + 8), entry_of(SMALL), "{va:#x}");
        let small = b.entry(page);
        assert_ne!(small, 0);
        assert_eq!(usize::from(page) * 8, offset("Small", va));
        assert_eq!(usize::from(page / 16) * 8, offset("Big", va));
    }
    assert_eq!(tree::VA_LIMIT, 1 << num("size", "VA_BITS"));
}

#[test]
fn limits_and_levels() {
    let flags = MapFlags {
        prot: Prot::Read,
        cached: false,
    };
    let (vid, sys) = (
        1u64 << num("size", "VID_BITS"),
        1u64 << num("size", "SYS_BITS"),
    );
    for (loc, ok) in [
        (Loc::Vid(VidAddr(vid - 4096)), true),
        (Loc::Vid(VidAddr(vid)), false),
        (Loc::Sys(SysAddr(sys - 4096)), true),
        (Loc::Sys(SysAddr(sys)), false),
    ] {
        assert_eq!(pte::leaf(loc, flags).is_ok(), ok, "{loc:?}");
    }
    let own = [
        (Level::Pte, "PteOnly"),
        (Level::Pde0, "UpToPde0"),
        (Level::Pde1, "UpToPde1"),
        (Level::Pde2, "UpToPde2"),
        (Level::Pde3, "UpToPde3"),
    ];
    for (level, name) in own {
        assert_eq!(level as u32, code("InvalidateLevel", name), "{name}");
    }
    assert_eq!(codes("PteAperture").len(), 4);
}
