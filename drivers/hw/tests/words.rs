// SPDX-License-Identifier: GPL-2.0
//! Whole words, packets and structures of tests/vectors: what cases.rs has not, and the tables of many alike.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use huvm_hw::aperture::{CeTarget, MemTarget};
use huvm_hw::fault::{AccessType, Client, FaultType, Packet};
use huvm_hw::host::{self, Header, SecOp, SemOperation};
use huvm_hw::instance::{ramfc, ramin, sc_page_dir_base, PageDirBase};
use huvm_hw::pte::{Leaf, Level, Pde, Pte, Target};
use huvm_hw::{bits::Named32, ce, instance, regs};

#[path = "../../../tests/vectors/reader.rs"]
mod reader;
use reader::Cases;

#[test]
fn every_fault_and_access_type() {
    let (mut types, mut accesses) = (BTreeSet::new(), BTreeSet::new());
    for r in reader::faults() {
        let p = Packet::unpack(r.words).unwrap();
        let want = Packet {
            inst_target: MemTarget::SysCoherent,
            inst: reader::FAULT_INSTANCE,
            addr_aperture: 0,
            addr: reader::FAULT_VA,
            timestamp_ns: reader::FAULT_NS,
            engine: r.engine,
            kind: FaultType::from_raw(reader::code("FaultType", r.fault_type)).unwrap(),
            access: AccessType::from_raw(reader::code("AccessType", r.access)).unwrap(),
            client: match r.client {
                reader::Client::Gpc(gpc, client) => Client::Gpc { gpc, client },
                reader::Client::Hub(c) => Client::Hub(c),
            },
            replayable: r.replayable,
            replay_enabled: r.replay_enabled,
            protected: false,
            valid: true,
        };
        assert_eq!(p, want, "{r:x?}");
        assert_eq!(want.pack(), r.words, "{r:x?}");
        types.insert(format!("{:?}", p.kind));
        accesses.insert(format!("{:?}", p.access));
    }
    assert_eq!((types.len(), accesses.len()), (16, 9), "none is missing");
}

#[test]
fn leaves_of_every_size_and_aperture() {
    let mut seen = BTreeSet::new();
    for r in reader::ptes() {
        let want = Leaf {
            target: match (r.aperture, r.peer) {
                ("Vid", None) => Target::Vid,
                ("Peer", Some(p)) => Target::Peer(p),
                ("SysCoherent", None) => Target::SysCoherent,
                ("SysNonCoherent", None) => Target::SysNonCoherent,
                _ => panic!("{r:?}"),
            },
            addr: r.address,
            vol: r.vol,
            privilege: r.privilege,
            read_only: r.read_only,
            atomic_disable: r.atomic_disable,
            kind: r.kind,
        };
        assert_eq!(want.pack(), Some(r.entry), "{r:x?}");
        let level = match r.size {
            "4K" => Level::Small,
            "64K" => Level::Big,
            "2M" => Level::Pde0,
            "512M" => Level::Pde1,
            _ => panic!("{r:?}"),
        };
        assert_eq!(r.address % (1 << level.shift()), 0, "{r:x?}");
        assert_eq!(Pte::unpack(r.entry, level), Pte::Leaf(want), "{r:x?}");
        match level {
            Level::Pde0 => assert_eq!(Pde::unpack_dual(r.entry, 0).0, Pde::Leaf(want)),
            Level::Pde1 => assert_eq!(Pde::unpack(r.entry), Pde::Leaf(want)),
            _ => {}
        }
        seen.insert((r.size, r.aperture));
    }
    assert_eq!(seen.len(), 16, "four sizes by four apertures");
}

#[test]
fn semaphores_doorbells_and_channel_ram() {
    let formats = [
        "host.sem_execute",
        "host.set_object",
        "host.doorbell",
        "channel_ram.write",
    ];
    let v = Cases::of(&formats);
    use host::sem_execute as f;
    let op = |o: SemOperation| f::OPERATION.of(o.raw());
    let red = |code, unsigned| f::REDUCTION.of(code) | f::REDUCTION_FORMAT.of(unsigned);
    let (wfi, wide, time) = (
        f::RELEASE_WFI.of(1),
        f::PAYLOAD_SIZE.of(1),
        f::RELEASE_TIMESTAMP.of(1),
    );
    use ce::Reduction as R;
    use SemOperation as S;
    let cases = [
        ("acquire", op(S::Acquire)),
        (
            "acquire_circular_switch",
            op(S::AcqCircGeq) | f::ACQUIRE_SWITCH_TSG.of(1),
        ),
        ("acquire_strict_64", op(S::AcqStrictGeq) | wide),
        ("acquire_and", op(S::AcqAnd)),
        ("acquire_nor", op(S::AcqNor)),
        ("release", op(S::Release)),
        ("release_wfi", op(S::Release) | wfi),
        ("release_64", op(S::Release) | wide),
        ("release_timestamp", op(S::Release) | time),
        ("release_everything", op(S::Release) | wfi | wide | time),
        // The codes are those of the copy engine.
        (
            "reduction_inc_unsigned",
            op(S::Reduction) | red(R::Inc.raw(), 1),
        ),
        (
            "reduction_dec_unsigned",
            op(S::Reduction) | red(R::Dec.raw(), 1),
        ),
        (
            "reduction_imin_signed",
            op(S::Reduction) | red(R::Imin.raw(), 0),
        ),
        (
            "reduction_imax_unsigned",
            op(S::Reduction) | red(R::Imax.raw(), 1),
        ),
        (
            "reduction_iadd_signed",
            op(S::Reduction) | red(R::Iadd.raw(), 0),
        ),
    ];
    for (name, w) in cases {
        assert_eq!(v.word("host.sem_execute", name), w, "{name}");
    }
    assert_eq!(
        v.word("host.set_object", "copy_engine"),
        host::set_object::NVCLASS.of(ce::CLASS)
    );
    for (name, chid, id) in [("small", 5, 3), ("largest", 4095, 127), ("first", 0, 16)] {
        let w = v.word("host.doorbell", name);
        assert_eq!(host::doorbell::token(chid, id), Some(w), "{name}");
    }
    assert_eq!(host::doorbell::token(0, 128), None);
    use regs::host::channel_ram as c;
    let writes = [
        ("enable", c::WRITE_ENABLE),
        ("disable", c::WRITE_DISABLE),
        ("reload", c::WRITE_RELOAD),
        ("clear_pbdma_fault", c::WRITE_CLEAR_PBDMA_FAULT),
        ("clear_engine_fault", c::WRITE_CLEAR_ENG_FAULT),
        ("reset", c::WRITE_RESET),
    ];
    for (name, w) in writes {
        assert_eq!(v.word("channel_ram.write", name), w, "{name}");
    }
}

/// (method, data) of a push of INC methods on subchannel 0.
fn methods(words: &[u32]) -> Vec<(u32, u32)> {
    let mut words = words.iter().copied();
    let mut out = Vec::new();
    while let Some(h) = words.next() {
        let header = Header::unpack(h).unwrap();
        assert_eq!(header.pack(), Some(h));
        let Header::Method {
            op: SecOp::IncMethod,
            subchannel: 0,
            method,
            count,
        } = header
        else {
            panic!("{header:?}")
        };
        for i in 0..count {
            out.push((method + 4 * i, words.next().unwrap()));
        }
    }
    out
}

#[test]
fn pushes() {
    let v = Cases::of(&["push"]);
    let push = |name| methods(&v.words("push", name));
    use ce::{method as c, Component, Launch, Remap, SemaphoreType, Transfer};
    use host::method as h;
    let (sem, payload) = (0x98_7654_3210u64, 0x89ab_cdef);
    let (lo, hi) = (sem as u32, (sem >> 32) as u32);
    assert_eq!(push("bind"), [(h::SET_OBJECT, ce::CLASS)]);
    assert_eq!(push("wait_idle"), [(h::WFI, 0)]);
    assert_eq!(push("non_stall_interrupt"), [(h::NON_STALL_INT, 0)]);
    let acquire = host::sem_execute::OPERATION.of(SemOperation::AcqCircGeq.raw())
        | host::sem_execute::ACQUIRE_SWITCH_TSG.of(1);
    assert_eq!(
        push("acquire"),
        [
            (h::SEM_ADDR_LO, lo),
            (h::SEM_ADDR_HI, hi),
            (h::SEM_PAYLOAD_LO, payload),
            (h::SEM_PAYLOAD_HI, 0),
            (h::SEM_EXECUTE, acquire)
        ]
    );
    let none = Launch::unpack(0).unwrap();
    let own = 0x98_7654_3400u64;
    for (name, flush, semaphore, at, payload) in [
        ("release", true, SemaphoreType::OneWord, own, 1),
        ("release_no_flush", false, SemaphoreType::OneWord, own, 1),
        ("timestamp", true, SemaphoreType::FourWords, sem, payload),
    ] {
        let launch = Launch {
            flush,
            semaphore,
            ..none
        };
        let want = [
            (c::SET_SEMAPHORE_A, (at >> 32) as u32),
            (c::SET_SEMAPHORE_B, at as u32),
            (c::SET_SEMAPHORE_PAYLOAD, payload),
            (c::LAUNCH_DMA, launch.pack()),
        ];
        assert_eq!(push(name), want, "{name}");
    }

    let mode = |target, peer| ce::pack_phys_mode(target, peer).unwrap();
    let copy = |src: u64, dst: u64, bytes, transfer, physical| {
        let launch = Launch {
            transfer,
            src_pitch: true,
            dst_pitch: true,
            src_physical: physical,
            dst_physical: physical,
            ..none
        };
        vec![
            (c::OFFSET_IN_UPPER, (src >> 32) as u32),
            (c::OFFSET_IN_LOWER, src as u32),
            (c::OFFSET_OUT_UPPER, (dst >> 32) as u32),
            (c::OFFSET_OUT_LOWER, dst as u32),
            (c::LINE_LENGTH_IN, bytes),
            (c::LAUNCH_DMA, launch.pack()),
        ]
    };
    let (sys, vid) = (0x1234_5678_9000, 0x1f_edc0_0000);
    let mut want = vec![
        (c::SET_SRC_PHYS_MODE, mode(CeTarget::SysCoherent, 0)),
        (c::SET_DST_PHYS_MODE, mode(CeTarget::Local, 0)),
    ];
    want.extend(copy(sys, vid, 2 << 20, Transfer::NonPipelined, true));
    assert_eq!(push("copy_sys_to_vid"), want);
    let mut want = vec![
        (c::SET_SRC_PHYS_MODE, mode(CeTarget::Peer, 5)),
        (c::SET_DST_PHYS_MODE, mode(CeTarget::SysCoherent, 0)),
    ];
    want.extend(copy(vid, sys, 4096, Transfer::Pipelined, true));
    assert_eq!(push("copy_peer_to_sys"), want);
    let (from, to) = (0x1_fedc_ba98_7000, 0x7f12_3456_7000);
    let want = copy(from, to, 64 << 10, Transfer::NonPipelined, false);
    assert_eq!(push("copy_virtual"), want);

    use Component::{ConstA, ConstB, NoWrite};
    for (name, a, b, second, bytes, dsts, elements) in [
        ("fill_1", 0, 0x5a, NoWrite, 1, 1, 4096),
        ("fill_4", 0, 0x89ab_cdef, NoWrite, 4, 1, 1024),
        ("fill_8", 0x89ab_cdef, 0x0123_4567, ConstB, 4, 2, 512),
    ] {
        let first = if dsts == 1 { ConstB } else { ConstA };
        let remap = Remap {
            dst: [first, second, NoWrite, NoWrite],
            component_bytes: bytes,
            num_src: 1,
            num_dst: dsts,
        };
        let launch = Launch {
            transfer: Transfer::NonPipelined,
            src_pitch: true,
            dst_pitch: true,
            remap: true,
            dst_physical: true,
            ..none
        };
        let want = [
            (c::SET_SRC_PHYS_MODE, 0),
            (c::SET_DST_PHYS_MODE, 0),
            (c::SET_REMAP_CONST_A, a),
            (c::SET_REMAP_CONST_B, b),
            (c::SET_REMAP_COMPONENTS, remap.pack().unwrap()),
            (c::OFFSET_OUT_UPPER, (vid >> 32) as u32),
            (c::OFFSET_OUT_LOWER, vid as u32),
            (c::LINE_LENGTH_IN, elements),
            (c::LAUNCH_DMA, launch.pack()),
        ];
        assert_eq!(push(name), want, "{name}");
    }
}

#[test]
fn instance_blocks() {
    let mut left = reader::structures();
    let mut build = |name: &str, words: &[(Named32, u32)], dir: PageDirBase, everywhere: bool| {
        assert!(left.remove(name));
        let mut want = vec![0; instance::BYTES / 4];
        for (n, v) in words {
            want[n.word] |= n.field.checked(*v).unwrap();
        }
        let dir = dir.pack().unwrap();
        want[128..130].copy_from_slice(&dir);
        if everywhere {
            want[0x298 / 4..0x2a0 / 4].fill(u32::MAX);
            for veid in 0..instance::SUBCONTEXTS {
                let at = sc_page_dir_base(veid).unwrap() / 4;
                want[at..at + 2].copy_from_slice(&dir);
            }
        }
        assert_eq!(reader::structure(name, instance::BYTES), want, "{name}");
    };
    let f = |name: &str| *ramfc::FIELDS.iter().find(|f| f.name == name).unwrap();
    let r = |name: &str| *ramin::FIELDS.iter().find(|f| f.name == name).unwrap();
    let dir = PageDirBase {
        target: MemTarget::SysCoherent,
        addr: 0x1_2345_6000,
        vol: true,
        replay_tex: false,
        replay_gcc: false,
    };
    let channel = [
        (f("SIGNATURE"), ramfc::SIGNATURE_VALUE),
        (f("ACQUIRE"), ramfc::ACQUIRE_VALUE),
        (f("GP_BASE_OFFSET"), 0x7654_3210 >> 3),
        (f("GP_BASE_HI_OFFSET"), 0x98),
        (f("GP_BASE_HI_LIMIT2"), 9),
        (f("PB_HEADER"), ramfc::PB_HEADER_VALUE),
        (f("SUBDEVICE"), ramfc::SUBDEVICE_VALUE),
        (f("TARGET_CE_CTX_VALID"), 1),
        (f("HCE_CTRL_PRIVILEGED"), 1),
        (f("CHANNEL_ID"), 5),
        (f("CONFIG_AUTH_LEVEL"), 1),
        (f("CONFIG_USERD_WRITEBACK"), 1),
        (f("INTR_NOTIFY_VECTOR"), 7),
        (f("INTR_NOTIFY_CPU"), 1),
        (r("ENG_METHOD_BUFFER_ADDR_LO"), 0x8765_4000),
        (r("ENG_METHOD_BUFFER_ADDR_HI"), 0x9),
    ];
    build("channel", &channel, dir, false);
    let plain = [
        (f("SIGNATURE"), ce::CLASS),
        (f("GP_BASE_OFFSET"), u32::MAX >> 3),
        (f("GP_BASE_HI_OFFSET"), 0xff),
        (f("GP_BASE_HI_LIMIT2"), 31),
    ];
    let vid = PageDirBase {
        target: MemTarget::Vid,
        addr: 0xab_c000,
        vol: false,
        ..dir
    };
    build("plain_channel", &plain, vid, false);
    let workload = PageDirBase {
        replay_tex: true,
        replay_gcc: true,
        ..dir
    };
    build("workload", &[], workload, true);
    assert!(left.is_empty(), "{left:?}");
}

/// A format of cases.csv that no test of this crate names fails.
#[test]
fn every_format_has_a_test() {
    let mut all = reader::case_formats();
    for f in [
        // cases.rs
        "fault",
        "counter",
        "pte",
        "pde",
        "pde0",
        "memop",
        "ce.launch",
        "ce.phys_mode",
        "ce.remap",
        "host.header",
        "host.gp_entry",
        "page_dir",
        "runlist", // here
        "host.sem_execute",
        "host.set_object",
        "host.doorbell",
        "channel_ram.write",
        "push",
    ] {
        assert!(all.remove(f), "{f}");
    }
    assert!(all.is_empty(), "{all:?}");
}
