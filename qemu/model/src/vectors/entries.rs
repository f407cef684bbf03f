// SPDX-License-Identifier: GPL-2.0
//! Page-table entries, walks and instance blocks.

use super::reader::{bits, code, fields, levels, num, ptes, structure, Cases, PteRow};
use super::{each_field, Bench};
use crate::host::Place;
use crate::mmu::{Access, FaultType, Instance, Pdb, Target, TlbKind, VA_END};
use crate::pte::{self, Dir, Leaf, LeafAperture, Level};

const ROOT: u64 = 0x1_2345_6000;

fn leaf_of(r: &PteRow) -> Leaf {
    Leaf {
        aperture: match (r.aperture, r.peer) {
            ("Vid", None) => LeafAperture::Vid,
            ("Peer", Some(p)) => LeafAperture::Peer(p.into()),
            // The model's memory is coherent: both are one.
            ("SysCoherent" | "SysNonCoherent", None) => LeafAperture::Sys,
            _ => panic!("{r:?}"),
        },
        addr: r.address,
        privileged: r.privilege,
        read_only: r.read_only,
        atomic_disable: r.atomic_disable,
        kind: r.kind.into(),
    }
}

#[test]
fn leaves_decode() {
    for r in ptes() {
        assert!(pte::valid(r.entry), "{r:x?}");
        assert_eq!(pte::leaf(r.entry), leaf_of(&r), "{r:x?}");
    }
}

/// Every leaf, where a walk finds it, at the addresses of levels.csv.
#[test]
fn leaves_translate() {
    let mut addresses: Vec<u64> = levels().iter().map(|l| l.1).collect();
    addresses.dedup();
    let mut peers = 0;
    for va in addresses {
        for r in ptes() {
            let mut b = Bench::new();
            b.map(ROOT, va, r.size, r.entry);
            let pdb = Pdb {
                sys: true,
                addr: ROOT,
            };
            let (size, log2) = match r.size {
                "4K" => (4096, 12),
                "64K" => (64 << 10, 16),
                "2M" => (2 << 20, 21),
                _ => (512 << 20, 29),
            };
            let mut go = |access, privileged| {
                b.with(|g, cx| g.translate(TlbKind::Gpc, pdb, va, access, privileged, cx))
            };
            let span = go(Access::Read, true);
            if r.aperture == "Peer" {
                // The bench has no peers; the id was understood.
                assert_eq!(span, Err(FaultType::UnsupportedAperture), "{r:x?}");
                peers += 1;
                continue;
            }
            let span = span.unwrap();
            let at = r.address + (va & (size - 1));
            let place = match r.aperture {
                "Vid" => Place::Vram { gpu: 0, offset: at },
                _ => Place::Sys { gpu: 0, addr: at },
            };
            assert_eq!(span.target.place(), Some(place), "{va:#x} {r:x?}");
            assert_eq!((span.page_bytes, size), (size, 1 << log2));
            let write = go(Access::Write, true);
            let want = r.read_only.then_some(FaultType::ReadOnly);
            assert_eq!(write.err(), want, "{r:x?}");
            let atomic = go(Access::Atomic, true);
            let want = want.or(r.atomic_disable.then_some(FaultType::Atomic));
            assert_eq!(atomic.err(), want, "{r:x?}");
            let user = go(Access::Read, false);
            let want = r.privilege.then_some(FaultType::Priv);
            assert_eq!(user.err(), want, "{r:x?}");
        }
    }
    assert!(peers > 0);
}

#[test]
fn entries_have_their_offset() {
    for (name, va, offset) in levels() {
        let level = match name {
            "Pde3" => Level::Pde3,
            "Pde2" => Level::Pde2,
            "Pde1" => Level::Pde1,
            "Pde0" => Level::Pde0,
            "Big" => Level::Big,
            "Small" => Level::Small,
            _ => panic!("{name}"),
        };
        assert_eq!(
            level.index(va) * level.entry_bytes(),
            offset,
            "{name} {va:#x}"
        );
    }
    assert_eq!(VA_END, 1 << num("size", "VA_BITS"));
    // PAGE_TABLE_LEVEL from which on an entry of each level goes.
    for (level, name) in [
        (Level::Small, "PteOnly"),
        (Level::Big, "PteOnly"),
        (Level::Pde0, "UpToPde0"),
        (Level::Pde1, "UpToPde1"),
        (Level::Pde2, "UpToPde2"),
        (Level::Pde3, "UpToPde3"),
    ] {
        assert_eq!(level.invalidate_code(), code("InvalidateLevel", name));
    }
}

#[test]
fn special_entries() {
    let v = Cases::of(&["pte", "pde", "pde0"]);
    let one = |case| v.take64::<1>("pte", case)[0];
    let leaf = |aperture, addr| Leaf {
        aperture,
        addr,
        privileged: false,
        read_only: false,
        atomic_disable: false,
        kind: code("Kind", "Generic"),
    };
    assert_eq!(pte::leaf(one("vid")), leaf(LeafAperture::Vid, 0x1234_5000));
    assert_eq!(
        pte::leaf(one("peer5")),
        leaf(LeafAperture::Peer(5), 64 << 30)
    );
    let sys = Leaf {
        read_only: true,
        atomic_disable: true,
        ..leaf(LeafAperture::Sys, 0x7654_3210_9000)
    };
    assert_eq!(pte::leaf(one("sys_read_only")), sys);
    let what = |e| (pte::valid(e), pte::leaf_sparse(e), pte::leaf_unmapped(e));
    assert_eq!(what(one("sparse")), (false, true, false));
    assert_eq!(what(one("big_unmapped")), (false, false, true));
    assert_eq!(what(0), (false, false, false));

    let sys = |addr| Dir::Table { sys: true, addr };
    let vid = |addr| Dir::Table { sys: false, addr };
    for (case, want) in [
        ("sys", sys(0x7_6543_2000)),
        ("vid_top", vid(0x1f_ffff_f000)),
        ("vid", vid(0x1234_5000)),
        ("sys_non_coherent", sys(0x7654_3210_9000)),
        ("no_ats", sys(0x7654_3000)),
        ("sparse", Dir::Sparse),
        ("invalid", Dir::Invalid),
    ] {
        let [e] = v.take64("pde", case);
        assert!(!pte::valid(e), "{case}: a table, no leaf");
        assert_eq!(pte::dir(e), want, "{case}");
        assert_eq!(pte::dir_small(e), want, "{case}");
    }
    let [e] = v.take64("pde0", "big_sys");
    assert_eq!(pte::dir_big(e), sys(0x7_6543_2100));
    for (case, big, small) in [
        ("tables_sys", sys(0x6edc_ba98_7600), sys(0x6ed_cba9_8000)),
        ("tables_vid", vid(0x1f_edcb_a900), vid(0x1f_edcb_a000)),
    ] {
        let [lo, hi] = v.take64("pde0", case);
        assert_eq!((pte::dir_big(lo), pte::dir_small(hi)), (big, small));
    }
}

/// In a walk: sparse and unmapped entries, and what an absent one is called.
#[test]
fn special_entries_in_a_walk() {
    let v = Cases::of(&["pte", "pde"]);
    let [sparse] = v.take64("pte", "sparse");
    let [unmapped] = v.take64("pte", "big_unmapped");
    let [vid] = v.take64("pte", "vid");
    v.skip("pte", &["sys_read_only", "peer5"]);
    let [sparse_dir] = v.take64("pde", "sparse");
    let other = [
        "sys",
        "vid_top",
        "vid",
        "sys_non_coherent",
        "no_ats",
        "invalid",
    ];
    v.skip("pde", &other);
    let va = 0x7f12_3456_7000;
    let walk = |entries: &[(&str, u64)]| {
        let mut b = Bench::new();
        for (size, e) in entries {
            b.map(ROOT, va, size, *e);
        }
        let pdb = Pdb {
            sys: true,
            addr: ROOT,
        };
        let span = b.with(|g, cx| g.translate(TlbKind::Hub, pdb, va, Access::Read, true, cx));
        span.map(|s| s.target)
    };
    assert_eq!(walk(&[("4K", sparse)]), Ok(Target::Sparse));
    assert_eq!(walk(&[("64K", sparse)]), Ok(Target::Sparse));
    assert_eq!(walk(&[("2M", sparse_dir)]), Ok(Target::Sparse));
    assert_eq!(walk(&[("512M", sparse_dir)]), Ok(Target::Sparse));
    assert_eq!(walk(&[("4K", 0)]), Err(FaultType::Pte));
    assert_eq!(walk(&[("2M", 0)]), Err(FaultType::Pde));
    let both = walk(&[("64K", unmapped), ("4K", vid)]);
    assert_eq!(both, Err(FaultType::Pte), "the small table is not read");
    assert!(walk(&[("64K", 0), ("4K", vid)]).is_ok());
}

/// What a field does to a leaf that is otherwise zero but for its aperture.
enum LeafField {
    Valid,
    /// Not looked at by this device.
    Ignored,
    Aperture,
    Flag(fn(&Leaf) -> bool),
    Address(&'static str),
    Peer,
    Kind,
}

#[test]
fn leaf_fields() {
    use LeafField::*;
    let table = [
        ("VALID", Valid),
        ("APERTURE", Aperture),
        // Nothing is cached.
        ("VOL", Ignored),
        ("ENCRYPTED", Ignored),
        ("PRIVILEGE", Flag(|l| l.privileged)),
        ("READ_ONLY", Flag(|l| l.read_only)),
        ("ATOMIC_DISABLE", Flag(|l| l.atomic_disable)),
        ("ADDRESS_VID", Address("Vid")),
        ("PEER", Peer),
        ("ADDRESS_SYS", Address("SysCoherent")),
        ("COMPTAGLINE", Ignored),
        ("KIND", Kind),
    ];
    let aperture = |name| bits("pte", "APERTURE").of64(code("PteAperture", name).into());
    each_field("pte", &table, |name, b, what| match what {
        Valid => assert!(pte::valid(b.mask) && !pte::valid(!b.mask)),
        Ignored => assert_eq!(pte::leaf(b.mask), pte::leaf(0), "{name}"),
        Aperture => {
            for (name, want) in [
                ("Vid", LeafAperture::Vid),
                ("Peer", LeafAperture::Peer(0)),
                ("SysCoherent", LeafAperture::Sys),
                ("SysNonCoherent", LeafAperture::Sys),
            ] {
                assert_eq!(pte::leaf(aperture(name)).aperture, want, "{name}");
            }
        }
        Flag(get) => assert!(
            get(&pte::leaf(b.mask)) && !get(&pte::leaf(!b.mask)),
            "{name}"
        ),
        Address(of) => {
            let (a, rest) = (aperture(of), !bits("pte", "APERTURE").mask);
            assert_eq!(pte::leaf(a | b.mask).addr, b.max() << 12, "{name}");
            assert_eq!(pte::leaf(a | rest & !b.mask).addr, 0, "{name}");
        }
        Peer => {
            let (a, rest) = (aperture("Peer"), !bits("pte", "APERTURE").mask);
            assert_eq!(pte::leaf(a | b.mask).aperture, LeafAperture::Peer(7));
            assert_eq!(
                pte::leaf(a | rest & !b.mask).aperture,
                LeafAperture::Peer(0)
            );
        }
        Kind => {
            assert_eq!(u64::from(pte::leaf(b.mask).kind), b.max());
            assert_eq!(pte::leaf(!b.mask).kind, 0);
        }
    });
}

/// Directory entries: each address field alone, under both apertures.
#[test]
fn directory_fields() {
    type Decode = fn(u64) -> Dir;
    // Format, decoder, and the fields: IS_PTE (of the whole entry), aperture, VOL, two addresses; shift of the address.
    type Half = (&'static str, Decode, [&'static str; 4], u32);
    let halves: [Half; 3] = [
        (
            "pde",
            pte::dir,
            ["APERTURE", "VOL", "ADDRESS_VID", "ADDRESS_SYS"],
            12,
        ),
        (
            "pde0",
            pte::dir_big,
            [
                "APERTURE_BIG",
                "VOL_BIG",
                "ADDRESS_BIG_VID",
                "ADDRESS_BIG_SYS",
            ],
            8,
        ),
        (
            "pde0",
            pte::dir_small,
            [
                "APERTURE_SMALL",
                "VOL_SMALL",
                "ADDRESS_SMALL_VID",
                "ADDRESS_SMALL_SYS",
            ],
            12,
        ),
    ];
    let mut seen = Vec::new();
    for (format, decode, [aperture, vol, vid, sys], shift) in halves {
        let f = |name| bits(format, name);
        let ap = |name| f(aperture).of64(code("PdeAperture", name).into());
        assert_eq!(decode(!f(aperture).mask & !f(vol).mask), Dir::Invalid);
        assert_eq!(decode(f(vol).mask), Dir::Sparse, "{format}");
        for (name, field, is_sys) in [
            ("Vid", vid, false),
            ("SysCoherent", sys, true),
            ("SysNonCoherent", sys, true),
        ] {
            let full = decode(ap(name) | f(field).mask);
            let addr = f(field).max() << shift;
            assert_eq!(full, Dir::Table { sys: is_sys, addr }, "{format} {name}");
            let empty = decode(ap(name) | !f(aperture).mask & !f(field).mask);
            assert_eq!(
                empty,
                Dir::Table {
                    sys: is_sys,
                    addr: 0
                },
                "{format} {name}"
            );
        }
        seen.extend([aperture, vol, vid, sys].map(|n| (format, n)));
    }
    for format in ["pde", "pde0"] {
        assert!(pte::valid(bits(format, "IS_PTE").mask));
        // NO_ATS: the complement tests above leave it set without effect.
        seen.extend([(format, "IS_PTE"), (format, "NO_ATS")]);
        for (name, _) in fields(format) {
            assert!(seen.contains(&(format, name)), "{format}.{name}");
        }
    }
}

fn instance(words: &[u32], veid: Option<u32>) -> Option<Instance> {
    let mut b = Bench::new();
    b.sys(ROOT, words);
    let target = code("MemTarget", "SysCoherent");
    b.with(|g, cx| g.instance(target, ROOT, veid, cx))
}

#[test]
fn page_directories() {
    let v = Cases::of(&["page_dir"]);
    let at = |case| {
        let mut words = vec![0; num("size", "INSTANCE_BLOCK") as usize / 4];
        words[bits("ramin", "PAGE_DIR_BASE_LO").word..][..2]
            .copy_from_slice(&v.take::<2>("page_dir", case));
        instance(&words, None).unwrap()
    };
    let sys = Some(Pdb {
        sys: true,
        addr: 0x1_2345_6000,
    });
    let vid = Some(Pdb {
        sys: false,
        addr: 0xab_c000,
    });
    for (case, pdb, replay) in [
        ("workload", sys, true),
        ("channel", sys, false),
        ("vid", vid, false),
    ] {
        let i = at(case);
        assert_eq!((i.pdb, i.replay_tex, i.replay_gcc), (pdb, replay, replay));
    }
}

/// The whole block of a workload: every subcontext has its page directory.
#[test]
fn subcontexts() {
    let words = structure("workload", num("size", "INSTANCE_BLOCK") as usize);
    let pdb = Some(Pdb {
        sys: true,
        addr: 0x1_2345_6000,
    });
    for veid in 0..num("size", "SUBCONTEXTS") {
        // This one's page directory and no other, then all but this one's.
        let lo = bits("ramin", "SC_PAGE_DIR_BASE_0").word + 4 * veid as usize;
        let mut only = vec![0; words.len()];
        only[166..168].copy_from_slice(&words[166..168]);
        only[lo..lo + 2].copy_from_slice(&words[lo..lo + 2]);
        let i = instance(&only, Some(veid)).unwrap();
        assert_eq!((i.pdb, i.replay_tex, i.replay_gcc), (pdb, true, true));
        let mut others = words.clone();
        others[lo..lo + 2].fill(0);
        assert_eq!(instance(&others, Some(veid)).unwrap().pdb, None, "{veid}");
        // A subcontext that is not valid falls back on the channel's.
        let valid = 166 + veid as usize / 32;
        others[valid] &= !(1 << (veid % 32));
        assert_eq!(instance(&others, Some(veid)).unwrap().pdb, pdb, "{veid}");
    }
}

#[test]
fn instance_fields() {
    type Check = fn(&Instance, &Instance) -> bool;
    // A usable block of system memory at 0; then what one field alone changes.
    let base = |b: super::reader::Bits| {
        let mut w = vec![0; 1024];
        let set = |w: &mut Vec<u32>, f: &str, v| {
            let f = bits("ramin", f);
            w[f.word] |= f.of(v);
        };
        set(&mut w, "USE_VER2_PT_FORMAT", 1);
        set(&mut w, "BIG_PAGE_SIZE", 1);
        let plain = instance(&w, None).unwrap();
        w[b.word] ^= b.mask as u32;
        (plain, instance(&w, None).unwrap())
    };
    let same: Check = |a, b| a == b;
    let gone: Check = |a, b| a.pdb.is_some() && b.pdb.is_none();
    let table: [(&str, Check); 23] = [
        ("PAGE_DIR_BASE_TARGET", |_, b| b.pdb.unwrap().sys),
        ("PAGE_DIR_BASE_VOL", same),
        ("FAULT_REPLAY_TEX", |a, b| {
            b.replay_tex && !a.replay_tex && !b.replay_gcc
        }),
        ("FAULT_REPLAY_GCC", |a, b| {
            b.replay_gcc && !a.replay_gcc && !b.replay_tex
        }),
        ("USE_VER2_PT_FORMAT", gone),
        ("BIG_PAGE_SIZE", gone),
        ("PAGE_DIR_BASE_LO", |_, b| {
            b.pdb.unwrap().addr == 0xffff_f000
        }),
        ("PAGE_DIR_BASE_HI", |_, b| {
            b.pdb.unwrap().addr == 0xffff_ffff_0000_0000
        }),
        // Nothing that ENGINE_WFI names is saved and restored, and there are no ATS.
        ("ENGINE_WFI_TARGET", same),
        ("ENGINE_WFI_MODE", same),
        ("ENGINE_WFI_PTR_LO", same),
        ("ENGINE_WFI_PTR_HI", same),
        ("ENGINE_WFI_VEID", same),
        ("PASID", same),
        ("ENABLE_ATS", same),
        ("ENG_METHOD_BUFFER_ADDR_LO", |a, b| {
            (a.method_buffer, b.method_buffer) == (0, 0xffff_ffff)
        }),
        ("ENG_METHOD_BUFFER_ADDR_HI", |a, b| {
            (a.method_buffer, b.method_buffer) == (0, 0x1_ffff_0000_0000)
        }),
        // Of a channel without subcontexts; with them: `subcontexts`.
        ("SC_PDB_VALID_0", same),
        ("SC_PDB_VALID_1", same),
        ("SC_PAGE_DIR_BASE_0", same),
        ("SC_PAGE_DIR_BASE_HI_0", same),
        ("SC_PAGE_DIR_BASE_63", same),
        ("SC_PAGE_DIR_BASE_HI_63", same),
    ];
    each_field("ramin", &table, |name, b, check| {
        let (plain, changed) = base(b);
        assert!(check(&plain, &changed), "{name}: {changed:x?}");
    });
    // Target 1 is none.
    let mut w = vec![0; 1024];
    w[128] = 0xc01;
    assert_eq!(instance(&w, None).unwrap().pdb, None);
}
