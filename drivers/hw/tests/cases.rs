// SPDX-License-Identifier: GPL-2.0
//! Typed packets, entries and methods against tests/vectors/cases.csv, both ways; every case must be used.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use huvm_hw::aperture::{CeTarget, MemTarget, PdeAperture, PhysAperture};
use huvm_hw::ce::{self, Component, InterruptType, Launch, Reduction, Remap};
use huvm_hw::ce::{SemaphoreType, Transfer};
use huvm_hw::fault::{AccessType, Client, FaultType};
use huvm_hw::host::{GpEntry, GpOpcode, Header, SecOp};
use huvm_hw::instance::PageDirBase;
use huvm_hw::memop::{Ack, CancelAccess, ClearType, Invalidate, InvalidateLevel};
use huvm_hw::memop::{MemOp, MembarType, Operation, Pdb, ReplayOp};
use huvm_hw::pte::{Leaf, Level, Pde, Pte, Target};
use huvm_hw::{counter, fault, pte, runlist};

#[path = "../../../tests/vectors/reader.rs"]
mod reader;
use reader::Cases;

const INST: u64 = 0x1_2345_6000;
const VA: u64 = 0x7f12_3456_7000;

#[test]
fn fault_packets() {
    let v = Cases::of(&["fault"]);
    let read = fault::Packet {
        inst_target: MemTarget::SysCoherent,
        inst: INST,
        addr_aperture: 0,
        addr: VA,
        timestamp_ns: 0x1_0000_0020,
        engine: 64,
        kind: FaultType::Pte,
        access: AccessType::VirtRead,
        client: Client::Gpc { gpc: 5, client: 3 },
        replayable: true,
        replay_enabled: true,
        protected: false,
        valid: true,
    };
    let write = fault::Packet {
        inst_target: MemTarget::Vid,
        inst: 0xabc_d000,
        addr: 0x1_0000_0000,
        timestamp_ns: 0,
        engine: 15,
        kind: FaultType::Pde,
        access: AccessType::VirtWrite,
        client: Client::Hub(1),
        replayable: false,
        replay_enabled: false,
        ..read
    };
    for (name, p) in [("replayable_pte_read", read), ("ce_pde_write", write)] {
        let w = v.take::<8>("fault", name);
        assert_eq!(p.pack(), w, "{name}");
        assert_eq!(fault::Packet::unpack(w), Ok(p), "{name}");
    }
    let mut bad = read.pack();
    bad[7] |= 0x1f;
    assert_eq!(
        fault::Packet::unpack(bad),
        Err(fault::BadPacket::FaultType(0x1f))
    );
    bad[0] = 0x100;
    assert_eq!(
        fault::Packet::unpack(bad),
        Err(fault::BadPacket::InstAperture(1))
    );
}

#[test]
fn counter_packets() {
    let v = Cases::of(&["counter"]);
    let p = counter::Packet {
        mimc: true,
        physical: false,
        bank: 5,
        aperture: PhysAperture::SysCoherent,
        inst_target: MemTarget::SysCoherent,
        inst: INST,
        addr: 0x7f12_3457_0000,
        sub_granularity: 0,
        tag: 0x1_2345,
        value: 0xffff,
        peer: 3,
        engine: 64,
        valid: true,
    };
    let first = counter::Packet {
        bank: 0,
        addr: 0x7f12_3456_0000,
        tag: 0,
        value: 0x80,
        peer: 0,
        engine: 71,
        ..p
    };
    let large = counter::Packet {
        aperture: PhysAperture::Peer,
        addr: 0x7f12_3440_0000,
        sub_granularity: 1 << 22,
        tag: 18,
        value: 0xffff,
        engine: 127,
        ..first
    };
    let momc = counter::Packet {
        mimc: false,
        physical: true,
        bank: 15,
        aperture: PhysAperture::Vid,
        inst_target: MemTarget::Vid,
        inst: 0,
        addr: 0x12_3456_0000,
        sub_granularity: 1 << 31 | 1,
        tag: 0xf_edcb,
        value: 0x1234,
        engine: 5,
        ..first
    };
    let cases = [
        ("mimc_sys", p),
        ("first_sys", first),
        ("tag18_2m_peer", large),
        ("momc_vid", momc),
    ];
    for (name, p) in cases {
        let w = v.take::<8>("counter", name);
        assert_eq!(p.pack(), w, "{name}");
        assert_eq!(counter::Packet::unpack(w), Some(p), "{name}");
    }
}

#[test]
fn page_table_entries() {
    let v = Cases::of(&["pte", "pde", "pde0"]);
    let vid = Leaf {
        target: Target::Vid,
        addr: 0x1234_5000,
        vol: false,
        privilege: false,
        read_only: false,
        atomic_disable: false,
        kind: 6,
    };
    let sys = Leaf {
        target: Target::SysCoherent,
        addr: 0x7654_3210_9000,
        vol: true,
        read_only: true,
        atomic_disable: true,
        ..vid
    };
    let peer = Leaf {
        target: Target::Peer(5),
        addr: 64 << 30,
        vol: true,
        ..vid
    };
    for (name, l) in [("vid", vid), ("sys_read_only", sys), ("peer5", peer)] {
        let [e] = v.take64("pte", name);
        assert_eq!(l.pack(), Some(e), "{name}");
        assert_eq!(Pte::unpack(e, Level::Small), Pte::Leaf(l), "{name}");
    }
    let beyond = Leaf {
        addr: 1 << 37,
        ..vid
    };
    assert_eq!(beyond.pack(), None);
    assert_eq!(Leaf { addr: 0x800, ..vid }.pack(), None);
    let no_peer = Leaf {
        target: Target::Peer(8),
        ..vid
    };
    assert_eq!(no_peer.pack(), None);

    assert_eq!(v.take64("pte", "sparse"), [pte::SPARSE]);
    assert_eq!(Pte::unpack(pte::SPARSE, Level::Big), Pte::Sparse);
    let [unmapped] = v.take64("pte", "big_unmapped");
    assert_eq!(unmapped, pte::BIG_UNMAPPED);
    assert_eq!(Pte::unpack(unmapped, Level::Big), Pte::Unmapped);
    assert_eq!(Pte::unpack(unmapped, Level::Small), Pte::Invalid);
    assert_eq!(Pte::unpack(0, Level::Big), Pte::Invalid);

    let table = |aperture, addr, vol| Pde::Table {
        aperture,
        addr,
        vol,
    };
    let sys = table(PdeAperture::SysCoherent, 0x7_6543_2000, true);
    let top = table(PdeAperture::Vid, 0x1f_ffff_f000, false);
    let vid_low = table(PdeAperture::Vid, 0x1234_5000, false);
    let other = table(PdeAperture::SysNonCoherent, 0x7654_3210_9000, false);
    let cases = [
        ("sys", sys),
        ("vid_top", top),
        ("sparse", Pde::Sparse),
        ("vid", vid_low),
        ("sys_non_coherent", other),
        ("invalid", Pde::Invalid),
    ];
    for (name, d) in cases {
        let [e] = v.take64("pde", name);
        assert_eq!(d.pack(), Some(e), "{name}");
        assert_eq!(Pde::unpack(e), d, "{name}");
        assert_eq!(Pde::unpack_dual(0, e), (Pde::Invalid, d), "{name}");
    }
    let big = table(PdeAperture::SysCoherent, 0x7_6543_2100, true);
    let [e] = v.take64("pde0", "big_sys");
    assert_eq!(big.pack_big(), Some(e));
    assert_eq!(Pde::unpack_dual(e, 0), (big, Pde::Invalid));
    assert_eq!(big.pack(), None, "a small table is 4 KiB aligned");
    // NO_ATS has no place in the type: it is dropped.
    let [e] = v.take64("pde", "no_ats");
    let no_ats = table(PdeAperture::SysCoherent, 0x7654_3000, false);
    assert_eq!(Pde::unpack(e), no_ats);
    assert_eq!(no_ats.pack(), Some(e & !pte::pde::NO_ATS.of(1)));
    use PdeAperture::{SysCoherent, Vid};
    let tables = [
        (
            "tables_sys",
            table(SysCoherent, 0x6edc_ba98_7600, true),
            table(SysCoherent, 0x6ed_cba9_8000, true),
        ),
        (
            "tables_vid",
            table(Vid, 0x1f_edcb_a900, false),
            table(Vid, 0x1f_edcb_a000, false),
        ),
    ];
    for (name, big, small) in tables {
        let [lo, hi] = v.take64("pde0", name);
        assert_eq!(
            (big.pack_big(), small.pack()),
            (Some(lo), Some(hi)),
            "{name}"
        );
        assert_eq!(Pde::unpack_dual(lo, hi), (big, small), "{name}");
    }
    // A 2 MiB leaf in the dual entry, a 512 MiB leaf in PDE1.
    let raw = vid.pack().unwrap();
    assert_eq!(Pde::unpack_dual(raw, 0), (Pde::Leaf(vid), Pde::Invalid));
    assert_eq!(Pde::unpack(raw), Pde::Leaf(vid));
}

#[test]
fn mem_ops() {
    let v = Cases::of(&["memop"]);
    let sys = Pdb {
        target: MemTarget::SysCoherent,
        addr: INST,
    };
    let vid = |addr| Pdb {
        target: MemTarget::Vid,
        addr,
    };
    let all = Invalidate {
        pdb: Some(sys),
        range: None,
        hub_only: false,
        level: InvalidateLevel::All,
        ack: Ack::Globally,
        sysmembar: false,
        replay: ReplayOp::None,
    };
    use InvalidateLevel::{PteOnly, UpToPde0, UpToPde1, UpToPde2, UpToPde3};
    let inv = |name, i| (name, MemOp::Invalidate(i));
    let ranged = |va, log2, level| Invalidate {
        range: Some((va, log2)),
        level,
        ..all
    };
    let dummy = |replay| Invalidate {
        pdb: Some(vid(0)),
        replay,
        ..ranged(0, 0, PteOnly)
    };
    let cancel = |engine, access| Invalidate {
        replay: ReplayOp::CancelVaGlobal { engine, access },
        ..ranged(VA, 0, InvalidateLevel::All)
    };
    let cases = [
        ("invalidate_pdb", MemOp::Invalidate(all)),
        (
            "invalidate_2m",
            MemOp::Invalidate(Invalidate {
                pdb: Some(vid(0xab_c000)),
                range: Some((VA, 9)),
                level: InvalidateLevel::UpToPde0,
                sysmembar: true,
                ..all
            }),
        ),
        (
            "replay_dummy",
            MemOp::Invalidate(Invalidate {
                pdb: Some(vid(0)),
                range: Some((0, 0)),
                level: InvalidateLevel::PteOnly,
                ack: Ack::None,
                replay: ReplayOp::Start,
                ..all
            }),
        ),
        (
            "cancel_va",
            MemOp::Invalidate(Invalidate {
                range: Some((VA, 0)),
                ack: Ack::None,
                replay: ReplayOp::CancelVaGlobal {
                    engine: 64,
                    access: CancelAccess::VirtAll,
                },
                ..all
            }),
        ),
        (
            "cancel_targeted",
            MemOp::Invalidate(Invalidate {
                pdb: None,
                ack: Ack::None,
                replay: ReplayOp::CancelTargeted { gpc: 5, client: 3 },
                ..all
            }),
        ),
        inv("invalidate_range", ranged(0x7f12_3440_0000, 9, UpToPde0)),
        inv(
            "invalidate_range_membar",
            Invalidate {
                sysmembar: true,
                ..ranged(0x7f12_3456_0000, 4, PteOnly)
            },
        ),
        inv("invalidate_pde1", ranged(0, 37, UpToPde1)),
        inv("invalidate_pde2", ranged(0, 37, UpToPde2)),
        inv("invalidate_pde3", ranged(0, 37, UpToPde3)),
        inv(
            "invalidate_all_membar",
            Invalidate {
                sysmembar: true,
                ..all
            },
        ),
        inv(
            "invalidate_hub",
            Invalidate {
                pdb: None,
                hub_only: true,
                ack: Ack::None,
                ..all
            },
        ),
        inv(
            "invalidate_pdb_high",
            Invalidate {
                pdb: Some(Pdb {
                    target: MemTarget::SysNonCoherent,
                    addr: 0x0765_4321_89ab_c000,
                }),
                ack: Ack::Intranode,
                ..all
            },
        ),
        inv("replay_start", dummy(ReplayOp::Start)),
        inv("replay_start_ack_all", dummy(ReplayOp::StartAckAll)),
        inv("cancel_va_all", cancel(69, CancelAccess::VirtAll)),
        inv(
            "cancel_va_write",
            cancel(127, CancelAccess::VirtWriteAndAtomic),
        ),
        inv(
            "cancel_global",
            Invalidate {
                pdb: None,
                ack: Ack::None,
                replay: ReplayOp::CancelGlobal,
                ..all
            },
        ),
        ("membar_gpu", MemOp::Membar(MembarType::Gpu)),
        ("membar_system", MemOp::Membar(MembarType::System)),
        (
            "clear_mimc_one",
            MemOp::ClearCounter {
                momc: false,
                bank: 15,
                tag: 0x5_4321,
            },
        ),
        ("clear_momc", MemOp::ClearCounters(ClearType::Momc)),
        ("clear_all", MemOp::ClearCounters(ClearType::All)),
        ("l2_peermem", MemOp::L2(Operation::L2PeermemInvalidate)),
        ("l2_clean_comptags", MemOp::L2(Operation::L2CleanComptags)),
        ("l2_flush_dirty", MemOp::L2(Operation::L2FlushDirty)),
        (
            "l2_wait_reads",
            MemOp::L2(Operation::L2WaitForSysPendingReads),
        ),
        (
            "clear_one",
            MemOp::ClearCounter {
                momc: true,
                bank: 5,
                tag: 0x1_2345,
            },
        ),
        ("clear_mimc", MemOp::ClearCounters(ClearType::Mimc)),
        ("l2_sysmem", MemOp::L2(Operation::L2SysmemInvalidate)),
    ];
    for (name, op) in cases {
        let w = v.take::<4>("memop", name);
        assert_eq!(op.pack(), Some(w), "{name}");
        assert_eq!(MemOp::unpack(w), Some(op), "{name}");
    }
    // No encoding: a cancel's engine and a size share their bits; an L2 operation that is none.
    let both = Invalidate {
        range: Some((VA, 1)),
        replay: ReplayOp::CancelTargeted { gpc: 0, client: 0 },
        ..all
    };
    assert_eq!(MemOp::Invalidate(both).pack(), None);
    assert_eq!(MemOp::L2(Operation::Membar).pack(), None);
    assert_eq!(MemOp::unpack([0; 4]), None);
}

#[test]
fn copy_engine_methods() {
    let v = Cases::of(&["ce.launch", "ce.phys_mode", "ce.remap"]);
    let none = Launch {
        transfer: Transfer::None,
        flush: false,
        flush_gpu: false,
        semaphore: SemaphoreType::None,
        reduction: None,
        interrupt: InterruptType::None,
        src_pitch: false,
        dst_pitch: false,
        multi_line: false,
        remap: false,
        force_rmw_disable: false,
        src_physical: false,
        dst_physical: false,
        disable_plc: false,
    };
    let copy = Launch {
        transfer: Transfer::Pipelined,
        src_pitch: true,
        dst_pitch: true,
        src_physical: true,
        dst_physical: true,
        ..none
    };
    let memset = Launch {
        transfer: Transfer::NonPipelined,
        remap: true,
        src_physical: false,
        dst_physical: false,
        ..copy
    };
    let release = Launch {
        flush: true,
        semaphore: SemaphoreType::OneWord,
        ..none
    };
    let cases = [
        ("copy_physical", copy),
        ("memset", memset),
        ("release", release),
        (
            "release_timestamp",
            Launch {
                semaphore: SemaphoreType::FourWords,
                ..release
            },
        ),
        (
            "reduction_inc",
            Launch {
                flush: false,
                reduction: Some((Reduction::Inc, true)),
                ..release
            },
        ),
    ];
    for (name, l) in cases {
        let [w] = v.take("ce.launch", name);
        assert_eq!(l.pack(), w, "{name}");
        assert_eq!(Launch::unpack(w), Some(l), "{name}");
    }
    assert_eq!(Launch::unpack(3), None);

    let [w] = v.take("ce.phys_mode", "peer5");
    assert_eq!(ce::pack_phys_mode(CeTarget::Peer, 5), Some(w));
    let [w] = v.take("ce.phys_mode", "sys");
    assert_eq!(ce::pack_phys_mode(CeTarget::SysCoherent, 5), Some(w));
    assert_eq!(ce::pack_phys_mode(CeTarget::Peer, 8), None);

    use Component::{ConstA, ConstB, NoWrite};
    let byte = Remap {
        dst: [ConstB, NoWrite, NoWrite, NoWrite],
        component_bytes: 1,
        num_src: 1,
        num_dst: 1,
    };
    let eight = Remap {
        dst: [ConstA, ConstB, NoWrite, NoWrite],
        component_bytes: 4,
        num_src: 1,
        num_dst: 2,
    };
    for (name, r) in [("byte", byte), ("eight_bytes", eight)] {
        let [w] = v.take("ce.remap", name);
        assert_eq!(r.pack(), Some(w), "{name}");
        assert_eq!(Remap::unpack(w), Some(r), "{name}");
    }
    assert_eq!(Remap { num_dst: 0, ..byte }.pack(), None);
    assert_eq!(Remap { num_dst: 5, ..byte }.pack(), None);
}

#[test]
fn pushbuffers_and_gpfifo() {
    let v = Cases::of(&["host.header", "host.gp_entry"]);
    let method = |op, subchannel, method, count| Header::Method {
        op,
        subchannel,
        method,
        count,
    };
    let cases = [
        ("inc", method(SecOp::IncMethod, 4, 0x400, 4)),
        ("non_inc", method(SecOp::NonIncMethod, 0, 0x100, 8191)),
        ("one_inc", method(SecOp::OneInc, 7, 0x3ffc, 1)),
        (
            "immediate",
            Header::Immediate {
                subchannel: 0,
                method: 0x78,
                data: 1,
            },
        ),
        ("end", Header::EndSegment),
        ("nop", Header::Nop),
    ];
    for (name, h) in cases {
        let [w] = v.take("host.header", name);
        assert_eq!(h.pack(), Some(w), "{name}");
        assert_eq!(Header::unpack(w), Some(h), "{name}");
    }
    assert_eq!(method(SecOp::IncMethod, 0, 0x4000, 1).pack(), None);
    assert_eq!(method(SecOp::IncMethod, 0, 0x401, 1).pack(), None);
    assert_eq!(method(SecOp::IncMethod, 0, 0x400, 8192).pack(), None);
    assert_eq!(method(SecOp::Grp0, 0, 0x400, 1).pack(), None);
    assert_eq!(Header::unpack(2 << 29), None);
    assert_eq!(Header::unpack(6 << 29), None);

    let segment = |addr, words| GpEntry::Segment {
        addr,
        words,
        subroutine: false,
        sync: true,
    };
    let w = v.take("host.gp_entry", "segment");
    assert_eq!(segment(0x12_3456_789c, 100).pack(), Some(w));
    assert_eq!(GpEntry::unpack(w), Some(segment(0x12_3456_789c, 100)));
    let own = GpEntry::Segment {
        addr: 0x12_3456_789c,
        words: 100,
        subroutine: false,
        sync: false,
    };
    let largest = GpEntry::Segment {
        addr: 0xff_ffff_fffc,
        words: 0x1f_ffff,
        subroutine: true,
        sync: false,
    };
    let illegal = GpEntry::Control(GpOpcode::Illegal);
    let cases = [
        ("driver_segment", own),
        ("subroutine", largest),
        ("illegal", illegal),
    ];
    for (name, e) in cases {
        let w = v.take("host.gp_entry", name);
        assert_eq!(e.pack(), Some(w), "{name}");
        assert_eq!(GpEntry::unpack(w), Some(e), "{name}");
    }
    let w = v.take("host.gp_entry", "nop");
    assert_eq!(GpEntry::Control(GpOpcode::Nop).pack(), Some(w));
    assert_eq!(GpEntry::unpack(w), Some(GpEntry::Control(GpOpcode::Nop)));
    assert_eq!(segment(1 << 40, 1).pack(), None);
    assert_eq!(segment(0, 1 << 21).pack(), None);
    assert_eq!(segment(0, 0).pack(), None);
}

#[test]
fn instance_blocks_and_runlists() {
    let v = Cases::of(&["page_dir", "runlist"]);
    let workload = PageDirBase {
        target: MemTarget::SysCoherent,
        addr: INST,
        vol: true,
        replay_tex: true,
        replay_gcc: true,
    };
    let vid = PageDirBase {
        target: MemTarget::Vid,
        addr: 0xab_c000,
        vol: false,
        replay_tex: false,
        replay_gcc: false,
    };
    let channel = PageDirBase {
        replay_tex: false,
        replay_gcc: false,
        ..workload
    };
    for (name, p) in [("workload", workload), ("vid", vid), ("channel", channel)] {
        let w = v.take::<2>("page_dir", name);
        assert_eq!(p.pack(), Some(w), "{name}");
        assert_eq!(PageDirBase::unpack(w), Ok(p), "{name}");
    }
    assert!(PageDirBase::unpack([0xc01, 0]).is_err());
    assert!(PageDirBase::unpack([0x400, 0]).is_err());
    assert!(PageDirBase::unpack([0x800, 0]).is_err());

    let channel = runlist::Entry::Channel {
        runqueue: false,
        chid: 5,
        inst_target: MemTarget::SysCoherent,
        inst: INST,
        userd_target: MemTarget::SysNonCoherent,
        userd: 0x12_3456_7800,
    };
    let tsg = runlist::Entry::Tsg {
        gfid: 0,
        tsgid: 7,
        length: 2,
        scale: 3,
        timeout: 128,
    };
    let own_channel = runlist::Entry::Channel {
        runqueue: false,
        chid: 5,
        inst_target: MemTarget::SysCoherent,
        inst: INST,
        userd_target: MemTarget::SysCoherent,
        userd: 0x12_3456_7800,
    };
    let own_tsg = runlist::Entry::Tsg {
        gfid: 0,
        tsgid: 5,
        length: 1,
        scale: 3,
        timeout: 128,
    };
    let cases = [
        ("channel", channel),
        ("tsg", tsg),
        ("driver_channel", own_channel),
        ("driver_tsg", own_tsg),
    ];
    for (name, e) in cases {
        let w = v.take::<4>("runlist", name);
        assert_eq!(e.pack(), Some(w), "{name}");
        assert_eq!(runlist::Entry::unpack(w), Some(e), "{name}");
    }
    assert_eq!(runlist::Entry::unpack([1, 0, 0, 0]), None);
    assert_eq!(huvm_hw::host::doorbell::token(5, 3), Some(0x0003_0005));
    assert_eq!(huvm_hw::host::doorbell::token(4096, 0), None);
}
