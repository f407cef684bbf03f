// SPDX-License-Identifier: GPL-2.0
//! Registers, packets and structures against the golden vectors of `tests/vectors`. What is expected is built from the
//! vectors alone: no offset, bit or code of the crate is used to check another.

use super::counter::{CounterRing, Notice};
use super::fault::{disable_all, take_info, AccessType, Fault, FaultRing, FaultType, RingKind};
use super::instance::{fill_channel, fill_workload, ChannelInstance};
use super::invalidate::{cancel_all, invalidate_pdb, invalidate_va, replay, ReplayKind};
use super::runlist::{Entry, Runlist};
use super::{bringup, irq, regs};
use crate::fake::{FakeMem, FakeRegs};
use crate::ids::*;
use crate::pagetable::{Invalidate, Level};
use crate::seam::{Bar, DmaMem, Mmio};
use crate::vectors::{
    bits, case_formats, code, faults, fields, interrupts, num, reg, reg_at, reg_bits, structure,
    structures, vector, Cases, Client, FaultRow, FAULT_INSTANCE, FAULT_NS, FAULT_VA,
};
use crate::Error;
use std::vec::Vec;

const PAGE_DIR: SysAddr = SysAddr(0x1_2345_6000);

fn set(r: &FakeRegs, at: u32, value: u32) {
    r.write32(Bar::Regs, at, value);
}

/// What was written since the last call.
fn written(r: &FakeRegs) -> Vec<(u32, u32)> {
    r.writes
        .borrow_mut()
        .drain(..)
        .map(|w| (w.1, w.2))
        .collect()
}

fn no_wait() -> impl FnMut() -> bool {
    || panic!("nothing to wait for")
}

/// Enables a ring of 64 entries, puts packets into it and drains them.
fn drained(kind: RingKind, packets: &[[u32; 8]]) -> Result<Vec<Fault>, Error> {
    let packet = num("size", "FAULT_PACKET") as usize;
    let (m, r) = (
        FakeMem::new(0x1_2345_6000, 64 * packet),
        FakeRegs::default(),
    );
    let mut ring = FaultRing::new(kind, m.clone()).unwrap();
    ring.enable(&r).unwrap();
    let i = match kind {
        RingKind::NonReplayable => 0,
        RingKind::Replayable => 1,
    };
    let at = |name| reg_at("vf", name, i, 2);
    let lo = |f| reg_bits("vf", "fault_buffer_lo", f);
    let get = |f| reg_bits("vf", "fault_buffer_get", f);
    let size = |f| reg_bits("vf", "fault_buffer_size", f);
    let place = lo("ADDR_MODE").of(1)
        | lo("PHYS_APERTURE").of(code("MemTarget", "SysCoherent"))
        | lo("PHYS_VOL").of(1)
        | lo("ADDR").of(0x2_3456);
    let flags = get("OVERFLOW").of(1) | get("GETPTR_CORRUPTED").of(1);
    let intr = size("OVERFLOW_INTR").of(1 - i);
    let on = size("VAL").of(64) | size("ENABLE").of(1) | intr;
    let want = [
        (at("fault_buffer_size"), size("VAL").of(64)),
        (at("fault_buffer_hi"), 1),
        (at("fault_buffer_lo"), place),
        (at("fault_buffer_get"), 0),
        (at("fault_buffer_get"), flags),
        (at("fault_buffer_size"), on),
    ];
    assert_eq!(written(&r), want);
    for (p, first) in packets.iter().zip((0..).step_by(packet)) {
        for (w, off) in p.iter().zip((first..).step_by(4)) {
            m.write32(off, *w);
        }
    }
    let n = packets.len();
    let put = reg_bits("vf", "fault_buffer_put", "PTR").of(n as u32);
    set(&r, at("fault_buffer_put"), put);
    written(&r);
    let mut out = vec![Fault::default(); n];
    let got = ring.drain(&r, &mut out, &mut || false)?;
    assert_eq!(got, n);
    let want = [(at("fault_buffer_get"), get("PTR").of(n as u32))];
    assert_eq!(written(&r), want);
    for i in 0..n {
        assert_eq!(m.read32(packet * i + 28), 0, "VALID is cleared");
    }
    ring.recover(&r).unwrap();
    let want = [want[0], (want[0].0, want[0].1 | flags)];
    assert_eq!(written(&r), want);
    // What an overflow looks like.
    for f in ["OVERFLOW", "GETPTR_CORRUPTED"] {
        let flag = reg_bits("vf", "fault_buffer_put", f).of(1);
        set(&r, at("fault_buffer_put"), put | flag);
        assert_eq!(ring.overflowed(&r), Ok(true));
        assert_eq!(ring.pending(&r), Ok(0), "{f} is none of the pointer");
    }
    written(&r);
    // Not before the MMU is idle.
    let busy = reg_bits("vf", "fault_status", "BUSY");
    set(&r, reg("vf", "fault_status"), !busy.of(1) & 0x7fff_ffff);
    assert_eq!(ring.disable(&r, &mut no_wait()), Ok(()));
    set(&r, reg("vf", "fault_status"), busy.of(1));
    let timeout = Err(Error::Timeout("fault buffer idle"));
    assert_eq!(ring.disable(&r, &mut || false), timeout);
    assert_eq!(
        written(&r).pop(),
        Some((at("fault_buffer_size"), size("VAL").of(64)))
    );
    set(&r, at("fault_buffer_size"), 0);
    let entries = FaultRing::<FakeMem>::default_entries(&r, kind);
    assert!(entries.is_err(), "registers that take what is written");
    let default = (at("fault_buffer_size"), size("SET_DEFAULT").of(1));
    assert_eq!(written(&r).pop(), Some(default));
    Ok(out)
}

fn fault_of(r: &FaultRow) -> Fault {
    let (client, gpc) = match r.client {
        Client::Gpc(g, c) => (c, Some(g)),
        Client::Hub(c) => (c, None),
    };
    Fault {
        instance: FAULT_INSTANCE,
        instance_aperture: code("MemTarget", "SysCoherent") as u8,
        va: GpuVa(FAULT_VA),
        fault_type: match r.fault_type {
            "Pde" => FaultType::Pde,
            "Pte" => FaultType::Pte,
            "RoViolation" => FaultType::RoViolation,
            "AtomicViolation" => FaultType::AtomicViolation,
            "Poisoned" => FaultType::Poisoned,
            other => FaultType::Fatal(code("FaultType", other) as u8),
        },
        access: match r.access {
            "VirtRead" => AccessType::Read,
            "VirtWrite" => AccessType::Write,
            "VirtAtomicStrong" => AccessType::AtomicStrong,
            "VirtPrefetch" => AccessType::Prefetch,
            "VirtAtomicWeak" => AccessType::AtomicWeak,
            other => AccessType::Other(code("AccessType", other) as u8),
        },
        timestamp_ns: FAULT_NS,
        engine: r.engine,
        client,
        gpc,
        replayable: r.replayable,
        replay_enabled: r.replay_enabled,
    }
}

/// A fault without a ring: read from the registers, then VALID and the dropped bits are written back, and nothing else.
#[test]
fn info_fault() {
    let status = |f| reg_bits("vf", "fault_status", f);
    let inst = |f| reg_bits("vf", "fault_inst_lo", f);
    for row in &faults() {
        let r = FakeRegs::default();
        let idle = !(status("VALID").of(1) | status("DROPPED").of(0xff)) & 0x7fff_ffff;
        set(&r, reg("vf", "fault_status"), idle);
        written(&r);
        assert_eq!(take_info(&r), Ok(None));
        assert_eq!(written(&r), []);
        let mut want = fault_of(row);
        want.timestamp_ns = 0;
        let engine = inst("ENGINE_ID").of(row.engine.into());
        let aperture = inst("APERTURE").of(code("MemTarget", "SysCoherent"));
        // CAST: the two halves.
        let (lo, hi) = (FAULT_INSTANCE as u32, (FAULT_INSTANCE >> 32) as u32);
        set(&r, reg("vf", "fault_addr_lo"), FAULT_VA as u32);
        set(&r, reg("vf", "fault_addr_hi"), (FAULT_VA >> 32) as u32);
        set(&r, reg("vf", "fault_inst_lo"), lo | engine | aperture);
        set(&r, reg("vf", "fault_inst_hi"), hi);
        set(&r, reg("vf", "fault_info"), row.words[7]);
        let dropped = status("DROPPED").of(0x22);
        let seen = status("VALID").of(1) | dropped;
        // All ones would be a device that is gone.
        set(
            &r,
            reg("vf", "fault_status"),
            seen | status("REPLAYABLE").of(1),
        );
        written(&r);
        let info = take_info(&r).unwrap().unwrap();
        assert_eq!((info.fault, info.dropped), (Some(want), 0x22), "{row:x?}");
        assert_eq!(written(&r), [(reg("vf", "fault_status"), seen)]);
        set(&r, reg("vf", "fault_status"), dropped);
        let info = take_info(&r).unwrap().unwrap();
        assert_eq!((info.fault, info.dropped), (None, 0x22));
    }
    let r = FakeRegs::default();
    disable_all(&r).unwrap();
    let size = |i| (reg_at("vf", "fault_buffer_size", i, 2), 0);
    let counters = (reg("vf", "counter_buffer_lo"), 0);
    assert_eq!(written(&r), [counters, size(0), size(1)]);
    let gone = FakeRegs::default();
    set(&gone, reg("vf", "fault_status"), u32::MAX);
    assert_eq!(take_info(&gone), Err(Error::Gone));
}

#[test]
fn every_fault_and_access_type() {
    let rows = faults();
    assert!(rows.len() >= 24);
    let words: Vec<_> = rows.iter().map(|r| r.words).collect();
    for kind in [RingKind::Replayable, RingKind::NonReplayable] {
        let got = drained(kind, &words).unwrap();
        for (r, f) in rows.iter().zip(got) {
            assert_eq!(f, fault_of(r), "{r:x?}");
            // Memory that failed may have another copy.
            let cured = ["Pde", "Pte", "RoViolation", "AtomicViolation", "Poisoned"];
            assert_eq!(f.fault_type.is_fatal(), !cured.contains(&r.fault_type));
        }
    }
    let v = Cases::of(&["fault"]);
    let packets = [
        v.take("fault", "replayable_pte_read"),
        v.take("fault", "ce_pde_write"),
    ];
    let read = Fault {
        instance: 0x1_2345_6000,
        instance_aperture: 2,
        va: GpuVa(0x7f12_3456_7000),
        fault_type: FaultType::Pte,
        access: AccessType::Read,
        timestamp_ns: 0x1_0000_0020,
        engine: 64,
        client: 3,
        gpc: Some(5),
        replayable: true,
        replay_enabled: true,
    };
    let write = Fault {
        instance: 0xabc_d000,
        instance_aperture: 0,
        va: GpuVa(0x1_0000_0000),
        fault_type: FaultType::Pde,
        access: AccessType::Write,
        timestamp_ns: 0,
        engine: 15,
        client: 1,
        gpc: None,
        replayable: false,
        replay_enabled: false,
    };
    let got = drained(RingKind::Replayable, &packets).unwrap();
    assert_eq!(got, [read, write]);
}

/// Each field alone at its largest, and everything but it; the fields that are not looked at change nothing.
fn each_field<T: PartialEq + core::fmt::Debug>(
    format: &str,
    ignored: &[&str],
    parse: impl Fn([u32; 8]) -> T,
    get: impl Fn(&T, &str) -> u64,
) {
    let valid = bits(format, "VALID");
    let mut base = [0; 8];
    base[valid.word] = valid.of(1);
    let mut names: Vec<&str> = ignored.to_vec();
    for (name, f) in fields(format) {
        if name == "VALID" {
            continue;
        }
        let mut alone = base;
        alone[f.word] |= f.mask as u32;
        let mut others = [u32::MAX; 8];
        others[f.word] &= !(f.mask as u32);
        if ignored.contains(&name) {
            assert_eq!(parse(alone), parse(base), "{name}");
            assert_eq!(parse(others), parse([u32::MAX; 8]), "{name}");
            names.retain(|n| *n != name);
            continue;
        }
        assert_eq!(get(&parse(alone), name), f.max(), "{format}.{name}");
        assert_eq!(get(&parse(others), name), 0, "{format}.{name}");
    }
    assert!(names.is_empty(), "no such fields: {names:?}");
}

#[test]
fn fault_fields() {
    let parse = |w| drained(RingKind::Replayable, &[w]).unwrap()[0];
    each_field(
        "fault",
        &["ADDR_PHYS_APERTURE", "PROTECTED_MODE"],
        parse,
        |f, name| match name {
            "INST_APERTURE" => f.instance_aperture.into(),
            "INST_LO" => f.instance >> 12 & 0xf_ffff,
            "INST_HI" => f.instance >> 32,
            "ADDR_LO" => f.va.0 >> 12 & 0xf_ffff,
            "ADDR_HI" => f.va.0 >> 32,
            "TIMESTAMP_LO" => f.timestamp_ns & 0xffff_ffff,
            "TIMESTAMP_HI" => f.timestamp_ns >> 32,
            "ENGINE_ID" => f.engine.into(),
            "FAULT_TYPE" => match f.fault_type {
                FaultType::Pde => 0,
                FaultType::Fatal(c) => c.into(),
                other => panic!("{other:?}"),
            },
            "REPLAYABLE_FAULT" => f.replayable.into(),
            "CLIENT" => f.client.into(),
            "ACCESS_TYPE" => match f.access {
                AccessType::Read => 0,
                AccessType::Other(c) => c.into(),
                other => panic!("{other:?}"),
            },
            "MMU_CLIENT_TYPE" => f.gpc.is_none().into(),
            "GPC_ID" => f.gpc.unwrap_or(0).into(),
            "REPLAYABLE_FAULT_EN" => f.replay_enabled.into(),
            _ => panic!("{name}"),
        },
    );
    let mut w = [u32::MAX; 8];
    let valid = bits("fault", "VALID");
    w[valid.word] &= !valid.of(1);
    let stuck = drained(RingKind::NonReplayable, &[w]);
    assert_eq!(stuck, Err(Error::Stuck(0)), "not valid");
}

/// A ring of access-counter notices, enabled, with these packets in it, drained.
fn notices(packets: &[[u32; 8]]) -> Vec<Notice> {
    let packet = num("size", "COUNTER_PACKET") as usize;
    let entries = num("reset", "COUNTER_ENTRIES");
    let (m, r) = (
        FakeMem::new(0x12_3456_7000, entries as usize * packet),
        FakeRegs::default(),
    );
    set(&r, reg("vf", "counter_buffer_size"), entries);
    written(&r);
    let mut ring = CounterRing::new(&r, m.clone()).unwrap();
    ring.enable(&r, 0x1234).unwrap();
    let config = |f| reg_bits("vf", "counter_config", f);
    let lo = |f| reg_bits("vf", "counter_buffer_lo", f);
    let want = [
        (
            reg("vf", "counter_config"),
            config("THRESHOLD").of(0x1234) | config("GVA_NOTIFY").of(1),
        ),
        (reg("vf", "counter_buffer_get"), 0),
        (reg("vf", "counter_buffer_hi"), 0x12),
        (
            reg("vf", "counter_buffer_lo"),
            lo("EN").of(1) | lo("BASE").of(0x3_4567),
        ),
    ];
    assert_eq!(written(&r), want);
    for (p, first) in packets.iter().zip((0..).step_by(packet)) {
        for (w, off) in p.iter().zip((first..).step_by(4)) {
            m.write32(off, *w);
        }
    }
    let n = packets.len();
    let put = reg_bits("vf", "counter_buffer_put", "PTR");
    set(&r, reg("vf", "counter_buffer_put"), put.of(n as u32));
    written(&r);
    let mut out = vec![Notice::default(); n];
    let got = ring.drain(&r, &mut out).unwrap();
    out.truncate(got);
    let get = reg_bits("vf", "counter_buffer_get", "PTR").of(got as u32);
    assert_eq!(written(&r), [(reg("vf", "counter_buffer_get"), get)]);
    // Bits beside the pointer are none of it.
    set(
        &r,
        reg("vf", "counter_buffer_put"),
        !put.of(put.max() as u32) & 0x7fff_ffff | got as u32,
    );
    assert_eq!(ring.drain(&r, &mut [Notice::default()]), Ok(0));
    // Disabled, and nothing in flight.
    let pushed = reg_bits("vf", "counter_buffer_info", "PUSHED");
    assert_eq!(num("reset", "COUNTER_PUSHED"), 1);
    set(&r, reg("vf", "counter_buffer_info"), pushed.of(1));
    written(&r);
    assert_eq!(ring.disable(&r, &mut no_wait()), Ok(()));
    assert_eq!(written(&r), [(reg("vf", "counter_buffer_lo"), 0)]);
    set(
        &r,
        reg("vf", "counter_buffer_info"),
        !pushed.of(1) & 0x7fff_ffff,
    );
    let timeout = Err(Error::Timeout("access counter idle"));
    assert_eq!(ring.disable(&r, &mut || false), timeout);
    out
}

#[test]
fn counter_packets() {
    let v = Cases::of(&["counter"]);
    let first = Notice {
        outbound: true,
        is_virtual: true,
        addr: GpuVa(0x7f12_3456_0000),
        instance: 0x1_2345_6000,
        engine: 71,
        count: 0x80,
        sub_granularity: 0,
        bank: 0,
        tag: 0,
    };
    let want = [
        (
            "mimc_sys",
            Notice {
                addr: GpuVa(0x7f12_3457_0000),
                engine: 64,
                count: 0xffff,
                bank: 5,
                tag: 0x1_2345,
                ..first
            },
        ),
        ("first_sys", first),
        (
            "tag18_2m_peer",
            Notice {
                addr: GpuVa(0x7f12_3440_0000),
                engine: 127,
                count: 0xffff,
                sub_granularity: 1 << 22,
                tag: 18,
                ..first
            },
        ),
        (
            "momc_vid",
            Notice {
                outbound: false,
                is_virtual: false,
                addr: GpuVa(0x12_3456_0000),
                instance: 0,
                engine: 5,
                count: 0x1234,
                sub_granularity: 1 << 31 | 1,
                bank: 15,
                tag: 0xf_edcb,
            },
        ),
    ];
    let packets: Vec<[u32; 8]> = want.iter().map(|w| v.take("counter", w.0)).collect();
    let got = notices(&packets);
    assert_eq!(got.len(), want.len());
    for (n, (name, want)) in got.iter().zip(want) {
        assert_eq!(*n, want, "{name}");
    }
}

#[test]
fn counter_fields() {
    let parse = |w| notices(&[w])[0];
    let ignored = ["APERTURE", "INST_APERTURE", "PEER_ID"];
    each_field("counter", &ignored, parse, |n, name| match name {
        "TYPE" => n.outbound.into(),
        "ADDR_TYPE" => (!n.is_virtual).into(),
        "BANK" => n.bank.into(),
        "INST_LO" => n.instance >> 12 & 0xf_ffff,
        "INST_HI" => n.instance >> 32,
        "ADDR_LO" => n.addr.0 & 0xffff_ffff,
        "ADDR_HI" => n.addr.0 >> 32,
        "SUB_GRANULARITY" => n.sub_granularity.into(),
        "NOTIFY_TAG" => n.tag.into(),
        "COUNTER_VAL" => n.count.into(),
        "MMU_ENGINE_ID" => n.engine.into(),
        _ => panic!("{name}"),
    });
    let mut w = [u32::MAX; 8];
    let valid = bits("counter", "VALID");
    w[valid.word] &= !valid.of(1);
    assert_eq!(notices(&[w]), [], "not valid");
}

fn block(m: &FakeMem) -> Vec<u32> {
    (0..m.len() / 4).map(|i| m.read32(4 * i)).collect()
}

#[test]
fn instance_blocks() {
    let bytes = num("size", "INSTANCE_BLOCK") as usize;
    let v = Cases::of(&["page_dir"]);
    // Root tables in VRAM are not this driver's.
    v.skip("page_dir", &["vid"]);
    let m = FakeMem::new(0x10_0000, bytes);
    let c = ChannelInstance {
        page_dir: PAGE_DIR,
        chid: Chid(5),
        gpfifo: GpuVa(0x98_7654_3210),
        gpfifo_log2: 9,
        userd: SysAddr(0),
        notify: Some(Vector(7)),
        method_buffer: VidAddr(0x9_8765_4000),
    };
    fill_channel(&m, &c).unwrap();
    assert_eq!(block(&m), structure("channel", bytes));
    assert_eq!(block(&m)[128..130], v.take::<2>("page_dir", "channel"));
    fill_workload(&m, PAGE_DIR).unwrap();
    assert_eq!(block(&m), structure("workload", bytes));
    assert_eq!(block(&m)[128..130], v.take::<2>("page_dir", "workload"));
    // An unprivileged channel in VRAM: the model's test alone can read it.
    let all: Vec<_> = structures().into_iter().collect();
    assert_eq!(all, ["channel", "plain_channel", "workload"]);
}

const LIST: Runlist = Runlist {
    base: 0x61_2400,
    chram: 0x62_8000,
    channels: 4096,
    doorbell_id: 3,
};

#[test]
fn runlists() {
    let v = Cases::of(&["runlist"]);
    // A group for each channel, USERD in coherent memory.
    v.skip("runlist", &["channel", "tsg"]);
    let entry = num("size", "RUNLIST_ENTRY") as usize;
    let (m, r) = (FakeMem::new(0x12_3456_7000, 4096), FakeRegs::default());
    let e = Entry {
        chid: Chid(5),
        instance: SysAddr(0x1_2345_6000),
        userd: SysAddr(0x12_3456_7800),
    };
    LIST.submit(&r, &m, &[e], &mut no_wait()).unwrap();
    let words = block(&m);
    assert_eq!(words[..entry / 4], v.take::<4>("runlist", "driver_tsg"));
    let second = &words[entry / 4..entry / 2];
    assert_eq!(second, v.take::<4>("runlist", "driver_channel"));
    let at = |name| LIST.base + reg("host", name);
    let lo = |f| reg_bits("host", "submit_base_lo", f);
    let target = lo("TARGET").of(code("MemTarget", "SysCoherent"));
    let want = [
        (at("submit_base_lo"), target | lo("PTR").of(0x3_4567)),
        (at("submit_base_hi"), 0x12),
        (
            at("submit"),
            reg_bits("host", "submit", "LENGTH").of(2)
                | reg_bits("host", "submit", "OFFSET_").of(0),
        ),
    ];
    assert_eq!(written(&r), want);
    LIST.init(&r, &mut no_wait()).unwrap();
    let enable = reg_bits("host", "virtual_channel_cfg", "PENDING_ENABLE").of(1);
    let want = [
        (at("virtual_channel_cfg"), enable),
        (at("submit_base_lo"), target),
        (at("submit_base_hi"), 0),
        (at("submit"), 0),
    ];
    assert_eq!(written(&r), want);
    // Waits for PENDING and for nothing else.
    let pending = reg_bits("host", "submit_info", "PENDING");
    set(&r, at("submit_info"), !pending.of(1) & 0x7fff_ffff);
    LIST.init(&r, &mut no_wait()).unwrap();
    set(&r, at("submit_info"), pending.of(1));
    let timeout = Err(Error::Timeout("runlist submit"));
    assert_eq!(LIST.init(&r, &mut || false), timeout);
    written(&r);
    // Preempt: the whole list (TYPE 0); both pending bits count. What is written is what this device reads back.
    LIST.preempt(&r, &mut no_wait()).unwrap();
    assert_eq!(written(&r), [(at("preempt"), 0)]);
    for f in ["TSG_PENDING", "RUNLIST_PENDING"] {
        let p = reg_bits("host", "preempt", f).of(1);
        let held = Held(at("preempt"), p);
        let timeout = Err(Error::Timeout("preempt"));
        assert_eq!(LIST.preempt(&held, &mut || false), timeout, "{f}");
    }
    let ends = reg_bits("host", "preempt", "ID").mask as u32;
    assert_eq!(
        LIST.preempt(&Held(at("preempt"), ends), &mut no_wait()),
        Ok(())
    );
}

/// One register that holds a value whatever is written.
struct Held(u32, u32);

impl crate::seam::Fence for Held {
    fn wmb(&self) {}
    fn rmb(&self) {}
}

impl Mmio for Held {
    fn read32(&self, _: Bar, off: u32) -> u32 {
        if off == self.0 {
            self.1
        } else {
            0
        }
    }
    fn write32(&self, _: Bar, _: u32, _: u32) {}
}

#[test]
fn channel_ram_and_doorbells() {
    let v = Cases::of(&["channel_ram.write", "host.doorbell"]);
    // A channel is reset, not reloaded.
    v.skip("channel_ram.write", &["reload"]);
    let w = |case| v.word("channel_ram.write", case);
    let r = FakeRegs::default();
    let (chid, at) = (Chid(5), LIST.chram + 4 * 5);
    LIST.enable(&r, chid).unwrap();
    let internal = LIST.base + reg("host", "internal_doorbell");
    let ring = reg_bits("host", "internal_doorbell", "CHID").of(5);
    assert_eq!(written(&r), [(at, w("enable")), (internal, ring)]);
    LIST.disable(&r, chid).unwrap();
    assert_eq!(written(&r), [(at, w("disable"))]);
    LIST.reset_channel(&r, chid).unwrap();
    assert_eq!(written(&r), [(at, w("reset"))]);
    let f = |f| bits("channel_ram", f).of(1);
    set(&r, at, f("PBDMA_FAULTED") | f("ENG_FAULTED"));
    written(&r);
    assert_eq!(LIST.clear_faulted(&r, chid), Ok(true));
    let token = v.word("host.doorbell", "small");
    let want = [
        (at, w("clear_pbdma_fault")),
        (at, w("clear_engine_fault")),
        (reg("vf", "usermode_doorbell"), token),
    ];
    assert_eq!(written(&r), want);
    // Each flag alone, and all others.
    for (name, b) in fields("channel_ram") {
        let state = |word| {
            set(&r, at, word);
            let s = LIST.state(&r, chid).unwrap();
            [s.enabled, s.busy, s.pbdma_faulted, s.engine_faulted]
        };
        let known = ["ENABLE", "BUSY", "PBDMA_FAULTED", "ENG_FAULTED"];
        let want = known.map(|k| k == name);
        assert_eq!(state(b.mask as u32), want, "{name}");
        assert_eq!(state(!(b.mask as u32)), want.map(|w| !w), "{name}");
    }
    for (case, chid, doorbell_id) in [("largest", 4095, 127), ("first", 0, 16)] {
        let list = Runlist {
            doorbell_id,
            ..LIST
        };
        let want = v.word("host.doorbell", case);
        assert_eq!(list.token(Chid(chid)), want, "{case}");
    }
    let fields = [
        bits("host.doorbell", "CHID"),
        bits("host.doorbell", "RUNLIST"),
    ];
    let all = Runlist {
        doorbell_id: u16::MAX,
        ..LIST
    };
    let want = fields.iter().map(|f| f.mask as u32).sum::<u32>();
    assert_eq!(all.token(Chid(u16::MAX)), want, "no bit beside the fields");
}

#[test]
fn invalidates() {
    let once = &mut || false;
    let r = FakeRegs::default();
    let timeout = Err(Error::Timeout("invalidate"));
    let v = |f| reg_bits("vf", "invalidate", f);
    let (trigger, ack) = (v("TRIGGER").of(1), v("ACK").of(code("Ack", "Globally")));
    let page_dir = SysAddr(0xf_fedc_ba98_7000);
    // 28 bits of the page number are in the low register, the others in the high one.
    let page = page_dir.0 >> 12;
    let low = |unit, name| {
        let f = |f| reg_bits(unit, name, f);
        f("APERTURE").of(1) | f("ADDR").of((page & f("ADDR").max()) as u32)
    };
    let high = reg_bits("vf", "invalidate_upper_pdb", "ADDR").of((page >> 28) as u32);
    assert_eq!(invalidate_pdb(&r, page_dir, once), timeout);
    let word = trigger | ack | v("ALL_VA").of(1) | v("SYS_MEMBAR").of(1);
    let want = [
        (reg("vf", "invalidate_pdb"), low("vf", "invalidate_pdb")),
        (reg("vf", "invalidate_upper_pdb"), high),
        (reg("vf", "invalidate"), word),
    ];
    assert_eq!(written(&r), want);

    let inv = Invalidate {
        va: GpuVa(0x1_fedc_ba98_0000),
        log2_pages: 4,
        level: Level::Pde0,
        downgrade: true,
    };
    assert_eq!(invalidate_va(&r, page_dir, &inv, once), timeout);
    let addr = reg_bits("system", "pf_invalidate_vaddr", "ADDR");
    let va = inv.va.0 >> 12;
    let level = v("CACHE_LEVEL").of(code("InvalidateLevel", "UpToPde0"));
    let word = trigger | ack | v("USE_SIZE").of(1) | v("SYS_MEMBAR").of(1) | level;
    let want = [
        (
            reg("system", "pf_invalidate_pdb"),
            low("system", "pf_invalidate_pdb"),
        ),
        (num("bar0", "PF_INVALIDATE_UPPER_PDB"), high),
        (
            reg("system", "pf_invalidate_vaddr"),
            addr.of((va & addr.max()) as u32),
        ),
        (num("bar0", "PF_INVALIDATE_UPPER_VADDR"), (va >> 28) as u32),
        (
            reg("system", "pf_invalidate_size"),
            reg_bits("system", "pf_invalidate_size", "SIZE").of(4),
        ),
        (num("bar0", "PF_INVALIDATE"), word),
    ];
    assert_eq!(written(&r), want);

    let base =
        trigger | ack | v("ALL_VA").of(1) | v("CACHE_LEVEL").of(code("InvalidateLevel", "PteOnly"));
    let replayed = |name| {
        let word = base | v("REPLAY").of(code("Replay", name));
        let want = [
            (reg("vf", "invalidate_pdb"), 0),
            (reg("vf", "invalidate_upper_pdb"), 0),
            (reg("vf", "invalidate"), word),
        ];
        assert_eq!(written(&r), want, "{name}");
    };
    assert_eq!(replay(&r, ReplayKind::Start, once), timeout);
    replayed("Start");
    assert_eq!(replay(&r, ReplayKind::StartAckAll, once), timeout);
    replayed("StartAckAll");
    assert_eq!(cancel_all(&r, once), timeout);
    replayed("CancelGlobal");
    // Any other bit is not waited for.
    let idle = Held(reg("vf", "invalidate"), !trigger & 0x7fff_fffe);
    assert_eq!(cancel_all(&idle, &mut no_wait()), Ok(()));
}

#[test]
fn vectors_have_their_place() {
    for i in interrupts() {
        let r = FakeRegs::default();
        let (vector, bit) = (Vector(i.vector as u16), 1 << i.bit);
        let at = |name| reg_at("vf", name, i.leaf, 8);
        irq::clear(&r, vector);
        irq::mask(&r, vector);
        irq::trigger(&r, vector);
        irq::unmask(&r, vector);
        let trigger = reg_bits("vf", "leaf_trigger", "VECTOR").of(i.vector);
        let want = [
            (at("leaf"), bit),
            (at("leaf_en_clear"), bit),
            (reg("vf", "leaf_trigger"), trigger),
            (at("leaf_en_set"), bit),
        ];
        assert_eq!(written(&r), want, "{i:?}");
        for entry in 0..irq::ENTRIES {
            let got: Vec<_> = irq::pending(&r, entry).collect();
            let mine = u32::from(entry) == i.entry;
            assert_eq!(got, if mine { vec![vector] } else { vec![] }, "{i:?}");
        }
        irq::rearm(&r, 1 << i.entry);
        let (set, clear) = (reg("vf", "top_en_set"), reg("vf", "top_en_clear"));
        assert_eq!(written(&r), [(clear, 1 << i.entry), (set, 1 << i.entry)]);
    }
    // All leaves.
    let r = FakeRegs::default();
    irq::quiesce(&r);
    let mut want = vec![(reg("vf", "top_en_clear"), 0xf)];
    for i in 0..8 {
        want.push((reg_at("vf", "leaf_en_clear", i, 8), u32::MAX));
        want.push((reg_at("vf", "leaf", i, 8), u32::MAX));
    }
    assert_eq!(written(&r), want);
    assert_eq!(vector("last") / 64, u32::from(irq::ENTRIES) - 1);
}

/// A device as the tables describe it: two copy engines and one of graphics.
fn device() -> FakeRegs {
    let r = FakeRegs::default();
    let put = |unit, name, list: &[(&str, u32)]| {
        let word = list.iter().map(|(f, v)| reg_bits(unit, name, f).of(*v));
        set(&r, reg(unit, name), word.sum());
    };
    put(
        "system",
        "pmc_boot_0",
        &[
            ("ARCHITECTURE", num("chip", "ARCHITECTURE_AMPERE")),
            ("MAJOR", 0xa),
        ],
    );
    put(
        "system",
        "pmc_boot_42",
        &[("CHIP_ID", num("chip", "CHIP_GA100"))],
    );
    let range = [("LOWER_MAG", 40), ("LOWER_SCALE", 10), ("ECC", 1)];
    put("system", "local_memory_range", &range);
    put(
        "system",
        "device_info_cfg",
        &[
            ("VERSION", num("device_info", "VERSION")),
            ("MAX_DEVICES", 5),
            ("ROWS_PER_DEVICE", num("device_info", "ROWS_PER_DEVICE")),
            ("NUM_ROWS", 12),
        ],
    );
    let row = |n: u32, list: &[(&str, u32)]| {
        let mut words = [0; 3];
        for (f, v) in list {
            let f = bits("device_info", f);
            words[f.word] |= f.of(*v);
        }
        for (w, i) in words.iter().zip(0..) {
            set(&r, num("bar0", "DEVICE_INFO2") + 4 * (3 * n + i), *w);
        }
    };
    let more = [("ROW0_MORE", 1), ("ROW1_MORE", 1), ("ROW1_IS_ENGINE", 1)];
    let engine = |kind, fault, instance, base: u32| {
        let mut list = more.to_vec();
        list.extend([
            ("ROW0_TYPE", num("device_info", kind)),
            ("ROW0_FAULT_ID", fault),
            ("ROW0_GROUP_ID", 0x1f),
            ("ROW0_INSTANCE", instance),
            ("ROW1_RESET_ID", 0xff),
            ("ROW1_DEVICE_PRI_BASE", 0x3_ffff),
            ("ROW2_RLENG_ID", 3),
            ("ROW2_RUNLIST_PRI_BASE", base >> 10),
        ]);
        list
    };
    row(0, &engine("TYPE_GR", 64, 0, 0x60_0000));
    row(1, &engine("TYPE_LCE", num("engine", "CE0"), 0, LIST.base));
    // A row of zeros is nothing.
    row(
        3,
        &engine("TYPE_LCE", num("engine", "CE9"), 0xff, 0x3ff_fc00),
    );
    for (base, ram, id) in [
        (LIST.base, LIST.chram, 3),
        (0x3ff_fc00, 0xffff_fff0, 0xffff),
    ] {
        let f = |name, f, v| reg_bits("host", name, f).of(v);
        let config = f(
            "channel_config",
            "NUM_CHANNELS_LOG2",
            num("reset", "CHANNELS_LOG2"),
        ) | f("channel_config", "CHRAM_BAR0_OFFSET", ram >> 4);
        set(&r, base + reg("host", "channel_config"), config);
        let id = f("doorbell_config", "ID", id);
        set(&r, base + reg("host", "doorbell_config"), id);
    }
    let put = |i, notify, error| {
        let f = |f, name| reg_bits("system", "fault_vectors", f).of(vector(name));
        let at = reg_at("system", "fault_vectors", i, 2);
        set(&r, at, f("NOTIFY", notify) | f("ERROR", error));
    };
    put(0, "non_replayable_fault", "non_replayable_fault_error");
    put(1, "replayable_fault", "replayable_fault_error");
    let info = reg_bits("system", "fault_info_vector", "VECTOR");
    set(
        &r,
        reg("system", "fault_info_vector"),
        info.of(vector("info_fault")),
    );
    r
}

#[test]
fn identification() {
    let r = device();
    let id = bringup::identify(&r).unwrap();
    assert_eq!(u32::from(id.chip), num("chip", "CHIP_GA100"));
    assert_eq!(id.boot0, r.read32(Bar::Regs, reg("system", "pmc_boot_0")));
    assert_eq!(id.vram_bytes, 40 << 30);
    let engine = |number, fault_id, runlist| bringup::CopyEngine {
        number,
        fault_id,
        runlist,
    };
    let first = Runlist {
        channels: 1 << num("reset", "CHANNELS_LOG2"),
        ..LIST
    };
    let last = Runlist {
        base: 0x3ff_fc00,
        chram: 0xffff_fff0,
        doorbell_id: 0xffff,
        ..first
    };
    let found: Vec<_> = id.engines.iter().flatten().copied().collect();
    let want = [engine(0, 15, first), engine(0xff, 24, last)];
    assert_eq!(found, want);
    let v = |name| Vector(vector(name) as u16);
    let want = bringup::Vectors {
        replayable: v("replayable_fault"),
        replayable_error: v("replayable_fault_error"),
        non_replayable: v("non_replayable_fault"),
        non_replayable_error: v("non_replayable_fault_error"),
        info_fault: v("info_fault"),
        access_counter: v("access_counter"),
    };
    assert_eq!(id.vectors, want);
    let at = num("bar0", "CE_NONSTALL_VECTOR") + 0xff * num("bar0", "CE_STRIDE");
    for (raw, want) in [(9, Some(Vector(9))), (255, Some(Vector(255))), (256, None)] {
        set(&r, at, raw);
        let got = bringup::copy_vector(&r, &engine(0xff, 24, last));
        assert_eq!(got.ok(), want);
    }
    // Another chip, table version or row count.
    let chip = reg_bits("system", "pmc_boot_42", "CHIP_ID");
    set(&r, reg("system", "pmc_boot_42"), chip.of(0x172));
    assert!(matches!(bringup::identify(&r), Err(Error::UnknownChip(_))));
    for (f, v) in [("VERSION", 3), ("ROWS_PER_DEVICE", 2)] {
        let r = device();
        let f = reg_bits("system", "device_info_cfg", f);
        let at = reg("system", "device_info_cfg");
        let old = r.read32(Bar::Regs, at);
        set(&r, at, old & !(f.mask as u32) | f.of(v));
        assert!(matches!(bringup::identify(&r), Err(Error::BadDevice(..))));
    }
    // All of the time, and nothing beside it.
    let (lo, hi) = (
        reg_bits("system", "ptimer_time_0", "NSEC"),
        reg_bits("system", "ptimer_time_1", "NSEC"),
    );
    set(&r, reg("system", "ptimer_time_0"), !lo.mask as u32);
    set(&r, reg("system", "ptimer_time_1"), !hi.mask as u32);
    assert_eq!(bringup::ptimer_ns(&r), Ok(0));
    set(&r, reg("system", "ptimer_time_0"), 0xffff_ffe0 & !(1 << 31));
    set(&r, reg("system", "ptimer_time_1"), hi.mask as u32);
    let want = hi.mask << 32 | (lo.mask & !(1 << 31));
    assert_eq!(bringup::ptimer_ns(&r), Ok(want));
}

/// The crate's list of offsets, name by name; some of them no other test writes.
#[test]
fn register_offsets() {
    let table = [
        (regs::BOOT_0, reg("system", "pmc_boot_0")),
        (regs::BOOT_42, reg("system", "pmc_boot_42")),
        (
            regs::LOCAL_MEMORY_RANGE,
            reg("system", "local_memory_range"),
        ),
        (regs::DEVICE_INFO_CFG, reg("system", "device_info_cfg")),
        (regs::DEVICE_INFO2, num("bar0", "DEVICE_INFO2")),
        (regs::TIME_0, reg("system", "ptimer_time_0")),
        (regs::TIME_1, reg("system", "ptimer_time_1")),
        (regs::INFO_FAULT_VECTOR, reg("system", "fault_info_vector")),
        (regs::FAULT_VECTORS, reg("system", "fault_vectors")),
        (regs::BAR2_BLOCK, reg("system", "bar2_block")),
        (regs::CE_INTR_EN, num("bar0", "CE_INTR_EN")),
        (regs::CE_INTR_STATUS, reg("system", "ce_intr_status")),
        (regs::CE_LAUNCHERR, num("bar0", "CE_LAUNCHERR")),
        (regs::CE_STALL_VECTOR, num("bar0", "CE_STALL_VECTOR")),
        (regs::CE_NONSTALL_VECTOR, num("bar0", "CE_NONSTALL_VECTOR")),
        (regs::CE_STRIDE, num("bar0", "CE_STRIDE")),
        (regs::LEAF, reg("vf", "leaf")),
        (regs::LEAF_EN_SET, reg("vf", "leaf_en_set")),
        (regs::LEAF_EN_CLEAR, reg("vf", "leaf_en_clear")),
        (regs::TOP_EN_SET, reg("vf", "top_en_set")),
        (regs::TOP_EN_CLEAR, reg("vf", "top_en_clear")),
        (regs::LEAF_TRIGGER, reg("vf", "leaf_trigger")),
        (regs::FAULT_BUFFER, reg("vf", "fault_buffer_lo")),
        (
            regs::FAULT_BUFFER + regs::FAULT_STRIDE,
            reg_at("vf", "fault_buffer_lo", 1, 2),
        ),
        (
            regs::FAULT_BUFFER + regs::FAULT_LO,
            reg("vf", "fault_buffer_lo"),
        ),
        (
            regs::FAULT_BUFFER + regs::FAULT_HI,
            reg("vf", "fault_buffer_hi"),
        ),
        (
            regs::FAULT_BUFFER + regs::FAULT_GET,
            reg("vf", "fault_buffer_get"),
        ),
        (
            regs::FAULT_BUFFER + regs::FAULT_PUT,
            reg("vf", "fault_buffer_put"),
        ),
        (
            regs::FAULT_BUFFER + regs::FAULT_SIZE,
            reg("vf", "fault_buffer_size"),
        ),
        (regs::FAULT_ADDR_LO, reg("vf", "fault_addr_lo")),
        (regs::FAULT_ADDR_HI, reg("vf", "fault_addr_hi")),
        (regs::FAULT_INST_LO, reg("vf", "fault_inst_lo")),
        (regs::FAULT_INST_HI, reg("vf", "fault_inst_hi")),
        (regs::FAULT_INFO, reg("vf", "fault_info")),
        (regs::FAULT_STATUS, reg("vf", "fault_status")),
        (regs::COUNTER_CONFIG, reg("vf", "counter_config")),
        (regs::COUNTER_LO, reg("vf", "counter_buffer_lo")),
        (regs::COUNTER_HI, reg("vf", "counter_buffer_hi")),
        (regs::COUNTER_SIZE, reg("vf", "counter_buffer_size")),
        (regs::COUNTER_GET, reg("vf", "counter_buffer_get")),
        (regs::COUNTER_PUT, reg("vf", "counter_buffer_put")),
        (regs::COUNTER_INFO, reg("vf", "counter_buffer_info")),
        (regs::INVALIDATE_PDB, reg("vf", "invalidate_pdb")),
        (
            regs::INVALIDATE_UPPER_PDB,
            reg("vf", "invalidate_upper_pdb"),
        ),
        (regs::INVALIDATE, reg("vf", "invalidate")),
        (regs::PF_VADDR, reg("system", "pf_invalidate_vaddr")),
        (regs::PF_PDB, reg("system", "pf_invalidate_pdb")),
        (regs::PF_INVALIDATE, num("bar0", "PF_INVALIDATE")),
        (
            regs::PF_UPPER_VADDR,
            num("bar0", "PF_INVALIDATE_UPPER_VADDR"),
        ),
        (regs::PF_UPPER_PDB, num("bar0", "PF_INVALIDATE_UPPER_PDB")),
        (regs::PF_SIZE, reg("system", "pf_invalidate_size")),
        (regs::DOORBELL, reg("vf", "usermode_doorbell")),
    ];
    for (i, (own, want)) in table.iter().enumerate() {
        assert_eq!(own, want, "row {i}");
    }
}

/// A format of cases.csv that no test of this crate names fails.
#[test]
fn every_format_has_a_test() {
    let mut all = case_formats();
    let here = [
        "fault",
        "counter",
        "page_dir",
        "runlist",
        "host.doorbell",
        "channel_ram.write",
    ];
    let pagetable = ["pte", "pde", "pde0"];
    let channel = ["push", "memop", "host.gp_entry"];
    // Words that the driver makes only inside a whole push, which is compared.
    let parts = [
        "ce.launch",
        "ce.phys_mode",
        "ce.remap",
        "host.header",
        "host.sem_execute",
        "host.set_object",
    ];
    for f in here.iter().chain(&pagetable).chain(&channel).chain(&parts) {
        assert!(all.remove(f), "{f}");
    }
    assert!(all.is_empty(), "{all:?}");
}
