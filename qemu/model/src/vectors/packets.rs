// SPDX-License-Identifier: GPL-2.0
//! Packets as they appear in memory, and the vectors that announce them.

use super::reader::{
    self, bits, code, faults, interrupts, num, reg, reg_at, reg_bits, vector, Cases,
};
use super::Bench;
use crate::fault::{Client, Fault, NON_REPLAYABLE, REPLAYABLE};
use crate::mmu::{Access, FaultType, Instance};

/// The two rings of the bench, in system memory.
const RINGS: [u64; 2] = [0x1_0000, 0x2_0000];

impl Bench {
    /// Enables fault ring `i` over 64 entries of system memory.
    fn ring(&mut self, i: u32) {
        let lo = |f| reg_bits("vf", "fault_buffer_lo", f);
        let at = |name| reg_at("vf", name, i, 2);
        let addr = RINGS[i as usize];
        let v = lo("ADDR_MODE").of(1)
            | lo("PHYS_APERTURE").of(code("MemTarget", "SysCoherent"))
            | lo("ADDR").of((addr >> 12) as u32);
        self.w(at("fault_buffer_lo"), v);
        self.w(at("fault_buffer_hi"), 0);
        let size = |f| reg_bits("vf", "fault_buffer_size", f);
        let v = size("VAL").of(64) | size("OVERFLOW_INTR").of(1) | size("ENABLE").of(1);
        self.w(at("fault_buffer_size"), v);
    }

    /// Every vector enabled.
    fn interrupts(&mut self) {
        for i in 0..8 {
            self.w(reg_at("vf", "leaf_en_set", i, 8), u32::MAX);
        }
        self.w(reg("vf", "top_en_set"), u32::MAX);
    }

    /// The vectors that are pending, and the messages sent since the last call.
    fn pending(&mut self) -> (Vec<u32>, Vec<u32>) {
        let mut out = Vec::new();
        for i in 0..8 {
            let leaf = self.r(reg_at("vf", "leaf", i, 8));
            out.extend((0..32).filter(|b| leaf >> b & 1 != 0).map(|b| 32 * i + b));
            self.w(reg_at("vf", "leaf", i, 8), u32::MAX);
        }
        let sent = self.host.take_messages();
        (out, sent.into_iter().map(|m| m.1).collect())
    }

    /// Reports a fault and returns its packet.
    fn packet(&mut self, ring: usize, fault: Fault) -> [u32; 8] {
        self.ring(ring as u32);
        self.now = fault.time_ns;
        self.with(|g, cx| g.report(ring, fault, cx));
        self.run();
        let put = self.r(reg_at("vf", "fault_buffer_put", ring as u32, 2));
        assert_eq!(reg_bits("vf", "fault_buffer_put", "PTR").get(put), 1);
        self.sys_words(RINGS[ring])
    }
}

/// The device's own name of a fault type; `None` where it never raises it.
fn kind(name: &str) -> Option<FaultType> {
    Some(match name {
        "Pde" => FaultType::Pde,
        "PdeSize" => FaultType::PdeSize,
        "Pte" => FaultType::Pte,
        "VaLimitViolation" => FaultType::VaLimit,
        "UnboundInstBlock" => FaultType::UnboundInst,
        "PrivViolation" => FaultType::Priv,
        "RoViolation" => FaultType::ReadOnly,
        "UnsupportedAperture" => FaultType::UnsupportedAperture,
        "UnsupportedKind" => FaultType::UnsupportedKind,
        "RegionViolation" => FaultType::Region,
        "AtomicViolation" => FaultType::Atomic,
        _ => return None,
    })
}

#[test]
fn every_fault_and_access_type() {
    let mut left_out = Vec::new();
    for r in faults() {
        let Some(kind) = kind(r.fault_type) else {
            left_out.push(r.fault_type);
            continue;
        };
        let (client, gpc) = match r.client {
            reader::Client::Gpc(g, c) => (c, Some(g.into())),
            reader::Client::Hub(c) => (c, None),
        };
        let fault = Fault {
            inst_target: code("MemTarget", "SysCoherent"),
            inst_addr: reader::FAULT_INSTANCE,
            va: reader::FAULT_VA,
            kind,
            access: code("AccessType", r.access),
            who: Client {
                engine_id: r.engine.into(),
                client: client.into(),
                gpc,
            },
            replayable: r.replayable,
            replay_enabled: r.replay_enabled,
            time_ns: reader::FAULT_NS,
            slot: None,
        };
        let ring = if r.replayable {
            REPLAYABLE
        } else {
            NON_REPLAYABLE
        };
        assert_eq!(Bench::new().packet(ring, fault), r.words, "{r:x?}");
    }
    // No ATS, no graphics, no compression, no ECC.
    let never = [
        "WoViolation",
        "PitchMaskViolation",
        "WorkCreation",
        "CompressionFailure",
        "Poisoned",
    ];
    assert_eq!(left_out, never);
    let own = [
        (Access::Read, "VirtRead"),
        (Access::Write, "VirtWrite"),
        (Access::Atomic, "VirtAtomicStrong"),
    ];
    for (a, name) in own {
        assert_eq!(a as u32, code("AccessType", name));
    }
    for t in ["Pde", "Pte", "RoViolation", "AtomicViolation"] {
        assert!(kind(t).unwrap().replayable(), "{t}");
    }
}

#[test]
fn fault_cases() {
    let v = Cases::of(&["fault"]);
    let read = Fault {
        inst_target: 2,
        inst_addr: 0x1_2345_6000,
        va: 0x7f12_3456_7000,
        kind: FaultType::Pte,
        access: Access::Read as u32,
        who: Client {
            engine_id: 64,
            client: 3,
            gpc: Some(5),
        },
        replayable: true,
        replay_enabled: true,
        time_ns: 0x1_0000_0020,
        slot: None,
    };
    let want: [u32; 8] = v.take("fault", "replayable_pte_read");
    assert_eq!(Bench::new().packet(REPLAYABLE, read), want);
    let info = want[7];
    let write = Fault {
        inst_target: 0,
        inst_addr: 0xabc_d000,
        va: 0x1_0000_0000,
        kind: FaultType::Pde,
        access: Access::Write as u32,
        who: Client {
            engine_id: 15,
            client: 1,
            gpc: None,
        },
        replayable: false,
        replay_enabled: false,
        time_ns: 0,
        slot: None,
    };
    let want: [u32; 8] = v.take("fault", "ce_pde_write");
    assert_eq!(Bench::new().packet(NON_REPLAYABLE, write), want);

    // A fault with no ring is in the registers, in the same form.
    let mut b = Bench::new();
    b.interrupts();
    b.with(|g, cx| g.report(REPLAYABLE, read, cx));
    b.run();
    assert_eq!(b.r(reg("vf", "fault_info")), info);
    let inst = |f| reg_bits("vf", "fault_inst_lo", f);
    let lo = inst("ENGINE_ID").of(64) | inst("APERTURE").of(2) | inst("ADDR").of(0x23456);
    assert_eq!(b.r(reg("vf", "fault_inst_lo")), lo);
    assert_eq!(b.r(reg("vf", "fault_inst_hi")), 1);
    assert_eq!(b.r(reg("vf", "fault_addr_lo")), 0x3456_7000);
    assert_eq!(b.r(reg("vf", "fault_addr_hi")), 0x7f12);
    let valid = reg_bits("vf", "fault_status", "VALID").of(1);
    assert_eq!(b.r(reg("vf", "fault_status")) & valid, valid);
    assert_eq!(b.pending(), (vec![vector("info_fault")], vec![2]));
    b.w(reg("vf", "fault_status"), valid);
    assert_eq!(b.r(reg("vf", "fault_status")) & valid, 0);
}

/// Fields of the packet that the rows above leave alone, at their largest.
#[test]
fn fault_fields() {
    let all = Fault {
        inst_target: 3,
        inst_addr: u64::MAX,
        va: u64::MAX,
        kind: FaultType::Atomic,
        access: 0xf,
        who: Client {
            engine_id: u32::MAX,
            client: u32::MAX,
            gpc: Some(u32::MAX),
        },
        replayable: true,
        replay_enabled: true,
        time_ns: 0xffff_ffff_ffff_ffff,
        slot: None,
    };
    let mut want = [0u32; 8];
    for (name, f) in reader::fields("fault") {
        want[f.word] |= match name {
            // The device makes no physical faults with an aperture, has no protected mode, and this client is a GPC's.
            "ADDR_PHYS_APERTURE" | "PROTECTED_MODE" | "MMU_CLIENT_TYPE" => 0,
            "FAULT_TYPE" => f.of(code("FaultType", "AtomicViolation")),
            _ => f.mask as u32,
        };
    }
    assert_eq!(Bench::new().packet(REPLAYABLE, all), want);
}

#[test]
fn counter_packets() {
    const RING: u64 = 0x30_0000;
    let v = Cases::of(&["counter"]);
    // This device has one bank, no MOMC counters, and does not know the peer id when it counts.
    v.skip("counter", &["mimc_sys", "momc_vid"]);
    let inst = Instance {
        target: 2,
        addr: 0x1_2345_6000,
        pdb: None,
        replay_tex: true,
        replay_gcc: true,
        method_buffer: 0,
    };
    let on = |b: &mut Bench| {
        b.interrupts();
        let lo = |f| reg_bits("vf", "counter_buffer_lo", f);
        // An address of the BAR2 space in physical mode: an offset in VRAM.
        let v = lo("EN").of(1) | lo("BASE").of((RING >> 12) as u32);
        b.w(reg("vf", "counter_buffer_lo"), v);
    };
    let mut b = Bench::new();
    on(&mut b);
    let hit = |b: &mut Bench, engine, va, counts, peer| {
        b.with(|g, cx| g.count_remote(&inst, engine, va, 128 * counts, peer, cx));
        b.run();
    };
    let threshold: u64 = num("reset", "COUNTER_THRESHOLD").into();
    hit(&mut b, 71, 0x7f12_3456_7000, threshold - 1, false);
    assert_eq!(b.r(reg("vf", "counter_buffer_put")), 0);
    hit(&mut b, 71, 0x7f12_3456_8000, 1, false);
    assert_eq!(b.r(reg("vf", "counter_buffer_put")), 1);
    assert_eq!(b.vram_words(RING), v.take::<8>("counter", "first_sys"));
    assert_eq!(b.pending(), (vec![vector("access_counter")], vec![1]));

    let mut b = Bench::new();
    on(&mut b);
    let config = |f| reg_bits("vf", "counter_config", f);
    b.w(
        reg("vf", "counter_config"),
        config("THRESHOLD").of(0x80) | config("MIMC_GRANULARITY").of(1),
    );
    for region in 0..18 {
        hit(&mut b, 127, region << 21, 1, false);
    }
    let va = 0x7f12_3440_0000 + (22 << 16) + 0x1234;
    hit(&mut b, 127, va, 0x1_ffff, true);
    assert_eq!(b.vram_words(RING), v.take::<8>("counter", "tag18_2m_peer"));

    // Everything at its largest.
    let mut b = Bench::new();
    on(&mut b);
    let inst = Instance {
        target: 3,
        addr: u64::MAX,
        ..inst
    };
    b.with(|g, cx| g.count_remote(&inst, u32::MAX, u64::MAX, u64::MAX, false, cx));
    let mut want = [0u32; 8];
    for (name, f) in reader::fields("counter") {
        want[f.word] |= match name {
            // A virtual address of a whole region; the first counter of the only bank; no peer.
            "ADDR_TYPE" | "BANK" | "SUB_GRANULARITY" | "NOTIFY_TAG" | "PEER_ID" => 0,
            "APERTURE" => f.of(code("PhysAperture", "SysCoherent")),
            "ADDR_LO" => 0xffff_0000,
            _ => f.mask as u32,
        };
    }
    assert_eq!(b.vram_words(RING), want);
}

#[test]
fn vectors_have_their_place() {
    for i in interrupts() {
        let mut b = Bench::new();
        b.interrupts();
        let bit = reg_bits("vf", "leaf_trigger", "VECTOR").of(i.vector);
        b.w(reg("vf", "leaf_trigger"), bit);
        assert_eq!(b.r(reg_at("vf", "leaf", i.leaf, 8)), 1 << i.bit, "{i:?}");
        assert_eq!(b.r(reg("vf", "top")), 1 << i.entry, "{i:?}");
        assert_eq!(b.pending(), (vec![i.vector], vec![i.entry]), "{i:?}");
        assert_eq!(b.r(reg("vf", "top")), 0, "cleared");
    }
}

/// Each source by what it does: rings, overflow, runlists, engines.
#[test]
fn sources_have_their_vector() {
    let fault = |n: u64| Fault {
        inst_target: 2,
        inst_addr: 0,
        va: n << 12,
        kind: FaultType::Pte,
        access: 0,
        who: Client {
            engine_id: 64,
            client: 0,
            gpc: Some(0),
        },
        replayable: true,
        replay_enabled: true,
        time_ns: 0,
        slot: None,
    };
    for (ring, notify, error) in [
        (0, "non_replayable_fault", "non_replayable_fault_error"),
        (1, "replayable_fault", "replayable_fault_error"),
    ] {
        let mut b = Bench::new();
        b.interrupts();
        b.ring(ring);
        b.with(|g, cx| g.report(ring as usize, fault(0), cx));
        b.run();
        assert_eq!(b.pending().0, [vector(notify)]);
        for n in 1..64 {
            b.with(|g, cx| g.report(ring as usize, fault(n), cx));
        }
        b.run();
        assert_eq!(b.pending().0, [vector(error)]);
        let put = b.r(reg_at("vf", "fault_buffer_put", ring, 2));
        let f = |f| reg_bits("vf", "fault_buffer_put", f).get(put);
        assert_eq!((f("OVERFLOW"), f("GETPTR_CORRUPTED"), f("PTR")), (1, 0, 63));
        let status = b.r(reg("vf", "fault_status"));
        let names = if ring == 1 {
            ["REPLAYABLE", "REPLAYABLE_ERROR", "REPLAYABLE_OVERFLOW"]
        } else {
            [
                "NON_REPLAYABLE",
                "NON_REPLAYABLE_ERROR",
                "NON_REPLAYABLE_OVERFLOW",
            ]
        };
        let want: u32 = names
            .iter()
            .map(|n| reg_bits("vf", "fault_status", n).of(1))
            .sum();
        assert_eq!(status, want, "ring {ring}");
        // Recovery: GET, then GET with both flags.
        let get = |f| reg_bits("vf", "fault_buffer_get", f);
        let flags = get("OVERFLOW").of(1) | get("GETPTR_CORRUPTED").of(1);
        b.w(reg_at("vf", "fault_buffer_get", ring, 2), get("PTR").of(63));
        b.w(
            reg_at("vf", "fault_buffer_get", ring, 2),
            get("PTR").of(63) | flags,
        );
        assert_eq!(b.r(reg_at("vf", "fault_buffer_put", ring, 2)), 63);
        assert_eq!(b.r(reg("vf", "fault_status")), 0);
        // A GET out of range.
        b.w(reg_at("vf", "fault_buffer_get", ring, 2), get("PTR").of(64));
        let put = b.r(reg_at("vf", "fault_buffer_put", ring, 2));
        assert_eq!(
            reg_bits("vf", "fault_buffer_put", "GETPTR_CORRUPTED").get(put),
            1
        );
        let corrupted = if ring == 1 {
            "REPLAYABLE_GETPTR_CORRUPTED"
        } else {
            "NON_REPLAYABLE_GETPTR_CORRUPTED"
        };
        let status = b.r(reg("vf", "fault_status"));
        assert_eq!(reg_bits("vf", "fault_status", corrupted).get(status), 1);
    }
    assert_eq!(bits("fault", "VALID").of(1), 1 << 31);
}
