// SPDX-License-Identifier: GPL-2.0
//! Copy engine: launches, physical modes, remap.

use super::host::{job, method, rig};
use super::reader::{bits, code, codes, num, Bits, Cases};
use super::{each_field, Bench};
use crate::ce::{End, Job, Release};
use crate::channel::Outcome;

/// Writes engine methods, then launches.
pub(super) fn launch(b: &mut Bench, set: &[(&str, u32)], word: u32) -> Option<Job> {
    for (name, data) in set {
        assert_eq!(method(b, num("ce_method", name), *data), Outcome::Done);
    }
    match method(b, num("ce_method", "LAUNCH_DMA"), word) {
        Outcome::Done => Some(job(b)),
        Outcome::Dead => None,
        o => panic!("{o:?}"),
    }
}

const SETUP: [(&str, u32); 9] = [
    ("SET_SEMAPHORE_A", 0x98),
    ("SET_SEMAPHORE_B", 0x7654_3210),
    ("SET_SEMAPHORE_PAYLOAD", 0x89ab_cdef),
    ("OFFSET_IN_UPPER", 1),
    ("OFFSET_IN_LOWER", 0x1000),
    ("OFFSET_OUT_UPPER", 2),
    ("OFFSET_OUT_LOWER", 0x2000),
    ("LINE_LENGTH_IN", 0x100),
    // One byte of constant B.
    ("SET_REMAP_COMPONENTS", 0x6665),
];

#[test]
fn launches() {
    let v = Cases::of(&["ce.launch"]);
    let go = |case| launch(&mut rig(), &SETUP, v.word("ce.launch", case)).unwrap();
    let phys = |addr| {
        Some(End::Phys {
            target: 0,
            peer: 0,
            addr,
        })
    };
    let j = go("copy_physical");
    assert_eq!((j.src, j.dst), (phys(0x1_0000_1000), phys(0x2_0000_2000)));
    assert_eq!((j.bytes, j.pipelined, j.release), (0x100, true, None));
    let j = go("memset");
    assert_eq!((j.src, j.dst), (None, Some(End::Virt(0x2_0000_2000))));
    assert_eq!((j.bytes, j.pipelined, j.pattern.len()), (0x100, false, 1));
    let release = |timestamp, reduction| {
        Some(Release {
            va: 0x98_7654_3210,
            payload: 0x89ab_cdef,
            timestamp,
            reduction,
        })
    };
    for (case, want) in [
        ("release", release(false, None)),
        ("release_timestamp", release(true, None)),
        (
            "reduction_inc",
            release(false, Some((code("Reduction", "Inc"), false))),
        ),
    ] {
        let j = go(case);
        assert_eq!((j.src, j.dst, j.release), (None, None, want), "{case}");
    }
}

#[test]
fn launch_fields() {
    type Check = fn(Option<&Job>) -> bool;
    let refused: Check = |j| j.is_none();
    let same: Check = |j| {
        let j = j.unwrap();
        matches!((j.src, j.dst), (Some(End::Virt(_)), Some(End::Virt(_))))
            && j.release.is_none()
            && j.interrupt == 0
            && !j.pipelined
            && j.pattern.is_empty()
    };
    let table: [(&str, Check); 17] = [
        // 3 is no type of transfer, nor a semaphore that this device has.
        ("DATA_TRANSFER_TYPE", refused),
        // Memory is coherent.
        ("FLUSH_ENABLE", same),
        ("SEMAPHORE_TYPE", refused),
        ("INTERRUPT_TYPE", |j| j.unwrap().interrupt == 3),
        // The base has both: without, block-linear.
        ("SRC_MEMORY_LAYOUT", refused),
        ("DST_MEMORY_LAYOUT", refused),
        ("MULTI_LINE_ENABLE", refused),
        ("REMAP_ENABLE", |j| j.unwrap().pattern == [0]),
        ("FORCE_RMWDISABLE", same),
        ("SRC_TYPE", |j| {
            matches!(j.unwrap().src, Some(End::Phys { .. }))
                && matches!(j.unwrap().dst, Some(End::Virt(_)))
        }),
        ("DST_TYPE", |j| {
            matches!(j.unwrap().dst, Some(End::Phys { .. }))
                && matches!(j.unwrap().src, Some(End::Virt(_)))
        }),
        // Of a semaphore: below.
        ("SEMAPHORE_REDUCTION", same),
        ("SEMAPHORE_REDUCTION_SIGN", same),
        ("SEMAPHORE_REDUCTION_ENABLE", same),
        ("VPRMODE", same),
        ("FLUSH_TYPE", same),
        ("DISABLE_PLC", same),
    ];
    let f = |f| bits("ce.launch", f);
    let pitch = f("SRC_MEMORY_LAYOUT").of(1) | f("DST_MEMORY_LAYOUT").of(1);
    let base = pitch | f("DATA_TRANSFER_TYPE").of(code("Transfer", "NonPipelined"));
    each_field("ce.launch", &table, |name, b, check| {
        let mut word = base | b.mask as u32;
        if name.ends_with("LAYOUT") {
            word = base & !(b.mask as u32);
        }
        let j = launch(&mut rig(), &SETUP, word);
        assert!(check(j.as_ref()), "{name}: {j:x?}");
    });
    for (name, want) in [("Pipelined", true), ("NonPipelined", false)] {
        let word = pitch | f("DATA_TRANSFER_TYPE").of(code("Transfer", name));
        assert_eq!(launch(&mut rig(), &SETUP, word).unwrap().pipelined, want);
    }
    let one = f("SEMAPHORE_TYPE").of(code("SemaphoreType", "OneWord"));
    let enable = f("SEMAPHORE_REDUCTION_ENABLE").of(1);
    for (word, want) in [
        (one, None),
        (one | enable, Some((0, true))),
        (
            one | enable | f("SEMAPHORE_REDUCTION_SIGN").of(1),
            Some((0, false)),
        ),
        (
            one | enable | f("SEMAPHORE_REDUCTION").mask as u32,
            Some((0xf, true)),
        ),
    ] {
        let j = launch(&mut rig(), &SETUP, word).unwrap();
        assert_eq!(j.release.unwrap().reduction, want, "{word:#x}");
    }
    // Upper halves have 17 bits.
    let upper = bits("ce.upper", "UPPER");
    let set = [
        ("SET_SEMAPHORE_A", u32::MAX),
        ("SET_SEMAPHORE_B", 0),
        ("OFFSET_IN_UPPER", u32::MAX),
        ("OFFSET_IN_LOWER", 0),
        ("OFFSET_OUT_UPPER", u32::MAX),
        ("OFFSET_OUT_LOWER", 0),
        ("LINE_LENGTH_IN", 1),
    ];
    let j = launch(&mut rig(), &set, base | one).unwrap();
    let top = upper.max() << 32;
    assert_eq!((j.src, j.dst), (Some(End::Virt(top)), Some(End::Virt(top))));
    assert_eq!(j.release.unwrap().va, top);
}

#[test]
fn physical_modes() {
    let v = Cases::of(&["ce.phys_mode"]);
    let f = |f| bits("ce.launch", f);
    let word = f("DATA_TRANSFER_TYPE").of(1)
        | f("SRC_MEMORY_LAYOUT").of(1)
        | f("DST_MEMORY_LAYOUT").of(1)
        | f("SRC_TYPE").of(1)
        | f("DST_TYPE").of(1);
    let go = |src, dst| {
        let modes = [("SET_SRC_PHYS_MODE", src), ("SET_DST_PHYS_MODE", dst)];
        let mut set = SETUP.to_vec();
        set.extend(modes);
        let j = launch(&mut rig(), &set, word).unwrap();
        [j.src, j.dst].map(|e| match e {
            Some(End::Phys { target, peer, .. }) => (target, peer),
            _ => panic!("{e:?}"),
        })
    };
    let (peer, sys) = (
        v.word("ce.phys_mode", "peer5"),
        v.word("ce.phys_mode", "sys"),
    );
    let (p, s) = (
        (code("CeTarget", "Peer"), 5),
        (code("CeTarget", "SysCoherent"), 0),
    );
    assert_eq!(go(peer, sys), [p, s]);
    assert_eq!(go(sys, peer), [s, p]);
    // No kinds in physical copies, no fabric.
    let table: [(&str, (u32, u32)); 4] = [
        ("TARGET", (3, 0)),
        ("BASIC_KIND", (0, 0)),
        ("PEER_ID", (0, 7)),
        ("FLA", (0, 0)),
    ];
    each_field("ce.phys_mode", &table, |name, b, want| {
        let w = b.mask as u32;
        assert_eq!(go(w, 0), [*want, (0, 0)], "{name}");
        assert_eq!(go(0, w), [(0, 0), *want], "{name}");
    });
    // Codes of a physical end: where it really goes is for tests/peers.rs and tests/copy_engine.rs.
    assert_eq!(codes("CeTarget").len(), 4);
}

#[test]
fn remaps() {
    let v = Cases::of(&["ce.remap"]);
    let word = 0x582;
    let consts = [
        ("SET_REMAP_CONST_A", 0x0403_0201),
        ("SET_REMAP_CONST_B", 0x0807_0605),
    ];
    let go = |remap| {
        let mut set = SETUP.to_vec();
        set.extend(consts);
        set.push(("SET_REMAP_COMPONENTS", remap));
        launch(&mut rig(), &set, word).map(|j| (j.pattern, j.bytes))
    };
    assert_eq!(go(v.word("ce.remap", "byte")), Some((vec![5], 0x100)));
    let eight = go(v.word("ce.remap", "eight_bytes"));
    assert_eq!(eight, Some((vec![1, 2, 3, 4, 5, 6, 7, 8], 0x800)));
    let f = |f| bits("ce.remap", f);
    let (a, b) = (code("Component", "ConstA"), code("Component", "ConstB"));
    let all = f("DST_X").of(a) | f("DST_Y").of(b) | f("DST_Z").of(a) | f("DST_W").of(b);
    // All four, two bytes each.
    let four = all | f("NUM_DST_COMPONENTS").of(3) | f("COMPONENT_SIZE").of(1);
    assert_eq!(go(four).unwrap().0, [1, 2, 5, 6, 1, 2, 5, 6]);
    assert_eq!(go(all | f("COMPONENT_SIZE").of(3)).unwrap().0, [1, 2, 3, 4]);
    // A source, or a component that is not written: not supported by this device.
    for name in ["SrcX", "SrcY", "SrcZ", "SrcW", "NoWrite"] {
        let c = code("Component", name);
        for (i, d) in ["DST_X", "DST_Y", "DST_Z", "DST_W"].iter().enumerate() {
            let d: Bits = f(d);
            let w = all & !(d.mask as u32) | d.of(c);
            let n = f("NUM_DST_COMPONENTS").of(3);
            assert_eq!(go(w | n), None, "{name} {d:?}");
            // What lies beyond the last component does not matter.
            if i > 0 {
                assert!(go(w).is_some(), "{name} {d:?}");
            }
        }
    }
    let src = f("NUM_SRC_COMPONENTS").mask as u32;
    assert_eq!(go(all | src), go(all), "no source is read");
    assert_eq!(super::reader::fields("ce.remap").len(), 7);
}
