// SPDX-License-Identifier: GPL-2.0
//! Every field of every register, and the numbers that have no field.
//!
//! Each row of registers.csv is accounted for once: a field that keeps what is written, one that reads as a value, one
//! that this device does not have, or one whose effect is tested.

use super::reader::{bits, code, num, nums, reg, reg_at, reg_bits, registers, vector, Register};
use super::{Bench, CES};
use crate::bar0;
use crate::fault::{Client, Fault};
use crate::mmu::FaultType;

/// Rows that no check has named yet.
struct Rows(Vec<Register>);

impl Rows {
    /// The row of a field.
    fn take(&mut self, unit: &str, name: &str, field: &str) -> Register {
        let is = |r: &Register| (r.unit, r.name, r.field) == (unit, name, field);
        let i = self.0.iter().position(is);
        let i = i.unwrap_or_else(|| panic!("no row, or named before: {unit}.{name}.{field}"));
        self.0.remove(i)
    }
    /// All fields of a register, or those that are named.
    fn all(&mut self, unit: &str, name: &str, fields: &[&str]) -> Vec<Register> {
        if !fields.is_empty() {
            return fields.iter().map(|f| self.take(unit, name, f)).collect();
        }
        let (take, left) = self
            .0
            .drain(..)
            .partition(|r| (r.unit, r.name) == (unit, name));
        self.0 = left;
        let take: Vec<Register> = take;
        assert!(!take.is_empty(), "no row, or named before: {unit}.{name}");
        take
    }
}

/// Runlist block 0, where PTOP says it is.
fn runlist(b: &mut Bench, i: u32) -> u32 {
    let row = b.r(num("bar0", "DEVICE_INFO2") + 4 * (3 * i + 2));
    row & bits("device_info", "ROW2_RUNLIST_PRI_BASE").mask as u32
}

/// Offsets in BAR0 of a register's first and last instance.
fn offsets(r: &Register) -> Vec<u32> {
    let base = match (r.unit, r.name) {
        ("host", "pbdma_intr_0" | "pbdma_intr_1") => num("bar0", "PBDMA"),
        ("host", _) => runlist(&mut Bench::new(), 0),
        _ => 0,
    };
    let mut out = vec![base + r.first, base + r.last];
    out.dedup();
    out
}

#[test]
fn every_field_of_every_register() {
    let mut rows = Rows(registers());
    stored(&mut rows);
    values(&mut rows);
    absent(&mut rows);
    effects(&mut rows);
    assert!(rows.0.is_empty(), "not accounted for: {:#?}", rows.0);
}

/// Fields that keep what is written, at first and last of an array, and nothing else of the register with them.
fn stored(rows: &mut Rows) {
    let mut keep = |unit, name, fields: &[&str], only_first: bool| {
        for r in rows.all(unit, name, fields) {
            for (i, at) in offsets(&r).into_iter().enumerate() {
                if only_first && i > 0 {
                    continue;
                }
                let mask = r.bits.mask as u32;
                let mut b = Bench::new();
                b.w(at, mask);
                assert_eq!(b.r(at), mask, "{r:x?}");
                // All but this field; SET_DEFAULT would write another one.
                let other = match r.name {
                    "fault_buffer_size" => reg_bits(r.unit, r.name, "SET_DEFAULT").mask as u32,
                    _ => 0,
                };
                b.w(at, !mask & !other);
                assert_eq!(b.r(at) & mask, 0, "{r:x?}");
            }
        }
    };
    keep("system", "bar0_window", &[], false);
    for unit in ["system", "vf"] {
        keep(unit, "bar1_block", &[], false);
        keep(unit, "bar2_block", &[], false);
    }
    keep("system", "pf_invalidate_vaddr", &[], false);
    keep("system", "pf_invalidate_pdb", &[], false);
    keep("system", "pf_invalidate_size", &[], false);
    keep("vf", "fault_buffer_lo", &[], false);
    keep("vf", "fault_buffer_hi", &[], false);
    keep(
        "vf",
        "fault_buffer_size",
        &["VAL", "OVERFLOW_INTR", "ENABLE"],
        false,
    );
    keep("vf", "page_fault_ctrl", &[], false);
    keep("vf", "invalidate_pdb", &[], false);
    keep("vf", "invalidate_upper_pdb", &[], false);
    keep("vf", "counter_config", &[], false);
    keep("vf", "counter_buffer_lo", &[], false);
    keep("vf", "counter_buffer_hi", &[], false);
    keep("vf", "counter_buffer_get", &[], false);
    keep("host", "submit_base_lo", &[], false);
    keep("host", "submit_base_hi", &[], false);
    keep("host", "submit", &[], false);
    keep("host", "sched_disable", &[], false);
    keep("host", "preempt", &["ID", "TYPE"], false);
    keep("host", "intr_vectorid", &[], false);
    // One function.
    keep("host", "virtual_channel_cfg", &[], true);
    // Set by one register, cleared by the other.
    for r in rows.all("host", "intr_0_en_set", &[]) {
        let clear = rows.take("host", "intr_0_en_clear", "BITS");
        for (set, clear) in offsets(&r).into_iter().zip(offsets(&clear)) {
            let mut b = Bench::new();
            b.w(set, 0xffff_0000);
            b.w(set, 1);
            b.w(clear, 1 << 31);
            assert_eq!((b.r(set), b.r(clear)), (0x7fff_0001, 0x7fff_0001));
        }
    }
    // The two registers of a BAR are one.
    for name in ["bar1_block", "bar2_block"] {
        let mut b = Bench::new();
        b.w(reg("vf", name), 0x0123_4567);
        assert_eq!(b.r(reg("system", name)), 0x0123_4567);
    }
}

/// Fields that read as something.
fn values(rows: &mut Rows) {
    let mut b = Bench::new();
    b.now = 0x1234_5678_9abc_defe;
    let mut is = |rows: &mut Rows, unit, name, field, want: u32| {
        let r = rows.take(unit, name, field);
        let at = offsets(&r)[0];
        assert_eq!(r.bits.get(b.r(at)), want, "{r:x?}");
    };
    for (field, want) in [
        ("MINOR", 1),
        ("MAJOR", 0xa),
        ("ARCH_1", 0),
        ("IMPLEMENTATION", 0),
        ("ARCHITECTURE", num("chip", "ARCHITECTURE_AMPERE")),
    ] {
        is(rows, "system", "pmc_boot_0", field, want);
    }
    for (field, want) in [
        ("EXT_MINOR", 0),
        ("MINOR", 1),
        ("MAJOR", 0xa),
        ("IMPLEMENTATION", 0),
        ("ARCHITECTURE", num("chip", "ARCHITECTURE_AMPERE")),
        ("CHIP_ID", num("chip", "CHIP_GA100")),
    ] {
        is(rows, "system", "pmc_boot_42", field, want);
    }
    for (unit, low, high) in [
        ("system", "ptimer_time_0", "ptimer_time_1"),
        ("vf", "usermode_time_0", "usermode_time_1"),
    ] {
        is(rows, unit, low, "NSEC", 0x9abc_defe >> 5);
        is(rows, unit, high, "NSEC", 0x1234_5678);
    }
    for (field, want) in [
        ("VERSION", num("device_info", "VERSION")),
        ("MAX_DEVICES", CES),
        ("ROWS_PER_DEVICE", num("device_info", "ROWS_PER_DEVICE")),
        ("NUM_ROWS", 3 * CES),
    ] {
        is(rows, "system", "device_info_cfg", field, want);
    }
    // 128 GiB: 2^17 MiB, 32 << 12.
    is(rows, "system", "local_memory_range", "LOWER_SCALE", 12);
    is(rows, "system", "local_memory_range", "LOWER_MAG", 32);
    is(rows, "system", "local_memory_range", "ECC", 0);
    let info = vector("info_fault");
    is(rows, "system", "fault_info_vector", "VECTOR", info);
    let non_replayable = vector("non_replayable_fault");
    is(rows, "system", "fault_vectors", "NOTIFY", non_replayable);
    let error = vector("non_replayable_fault_error");
    is(rows, "system", "fault_vectors", "ERROR", error);
    let class = num("class", "USERMODE");
    is(rows, "vf", "usermode_cfg0", "CLASS_ID", class);
    let entries = num("reset", "COUNTER_ENTRIES");
    is(rows, "vf", "counter_buffer_size", "SIZE", entries);
    let pushed = num("reset", "COUNTER_PUSHED");
    is(rows, "vf", "counter_buffer_info", "PUSHED", pushed);
    let log2 = num("reset", "CHANNELS_LOG2");
    is(rows, "host", "channel_config", "NUM_CHANNELS_LOG2", log2);
    let ram = bar0::CHRAM >> 4;
    is(rows, "host", "channel_config", "CHRAM_BAR0_OFFSET", ram);
    let pbdma = num("bar0", "PBDMA") >> 10;
    is(rows, "host", "pbdma_config", "PBDMA_BAR0_OFFSET", pbdma);
    is(rows, "host", "pbdma_config", "VALID", 1);
    // The second of the pair of vectors; reset values of what can be written.
    let mut b = Bench::new();
    let second = b.r(reg_at("system", "fault_vectors", 1, 2));
    let v = |f| reg_bits("system", "fault_vectors", f).get(second);
    assert_eq!(v("NOTIFY"), vector("replayable_fault"));
    assert_eq!(v("ERROR"), vector("replayable_fault_error"));
    let filter = b.r(reg("vf", "page_fault_ctrl"));
    assert_eq!(filter, num("reset", "PRF_FILTER"));
    let f = |f| reg_bits("vf", "counter_config", f);
    let want = f("THRESHOLD").of(num("reset", "COUNTER_THRESHOLD"))
        | f("GVA_NOTIFY").of(num("reset", "COUNTER_GVA_NOTIFY"));
    assert_eq!(b.r(reg("vf", "counter_config")), want);
}

/// Fields that this device does not have: they read 0 whatever is written.
fn absent(rows: &mut Rows) {
    let mut none = |unit, name, fields: &[&str]| {
        for r in rows.all(unit, name, fields) {
            for at in offsets(&r) {
                let mut b = Bench::new();
                b.w(at, u32::MAX);
                assert_eq!(r.bits.get(b.r(at)), 0, "{r:x?}");
            }
        }
    };
    // No virtual functions, and memory that is coherent.
    none("system", "pmc_boot_1", &[]);
    none("vf", "l2_sysmem_invalidate", &[]);
    none("vf", "l2_peermem_invalidate", &[]);
    // A physical fault has no ring here, and nothing is in flight at rest.
    none("vf", "fault_addr_lo", &["PHYS_APERTURE"]);
    none("vf", "fault_info", &["PROTECTED_MODE"]);
    none("vf", "fault_status", &["BUSY_TYPE"]);
    // Submissions and preempts are done at once; time slices are not kept.
    none("host", "submit_info", &[]);
    none("host", "preempt", &["TSG_PENDING"]);
    none("host", "intr_0", &["CTXSW_TIMEOUT_ENG", "RUNLIST_IDLE"]);
    none("host", "internal_doorbell", &["GFID"]);
    let status = ["TSGID", "CTX_STATUS", "NEXT_TSGID", "ENG_RELOAD", "FAULTED"];
    none("host", "engine_status0", &status);
    // Of the errors, those of methods, semaphores and entries.
    let errors = [
        "GPFIFO",
        "GPPTR",
        "GPCRC",
        "PBPTR",
        "PBCRC",
        "ENG_RESET",
        "ACQUIRE",
        "PRI",
        "PBSEG",
    ];
    none("host", "pbdma_intr_0", &errors);
    // Nothing of an engine is configured.
    none("system", "ce_intr_status", &["INVALID_CONFIG"]);
}

/// Fields with an effect. Those that another file tests are named with the test.
fn effects(rows: &mut Rows) {
    // packets::vectors_have_their_place, and here: masked by the other register, all four subtrees and no more.
    rows.all("vf", "leaf", &[]);
    rows.all("vf", "leaf_trigger", &[]);
    rows.all("vf", "top", &[]);
    rows.all("vf", "leaf_en_set", &[]);
    rows.all("vf", "leaf_en_clear", &[]);
    for i in 0..8 {
        let mut b = Bench::new();
        b.w(reg_at("vf", "leaf_en_set", i, 8), u32::MAX);
        b.w(reg_at("vf", "leaf_en_clear", i, 8), 0xffff_0000);
        assert_eq!(b.r(reg_at("vf", "leaf_en_set", i, 8)), 0xffff);
        assert_eq!(b.r(reg_at("vf", "leaf_en_clear", i, 8)), 0xffff);
    }
    let set = rows.take("vf", "top_en_set", "SUBTREES").first;
    let clear = rows.take("vf", "top_en_clear", "SUBTREES").first;
    let mut b = Bench::new();
    b.w(set, u32::MAX);
    assert_eq!((b.r(set), b.r(clear)), (0xf, 0xf));
    b.w(clear, 0b0101);
    assert_eq!((b.r(set), b.r(clear)), (0b1010, 0b1010));

    // packets: fault_cases, sources_have_their_vector.
    rows.all("vf", "fault_buffer_get", &["GETPTR_CORRUPTED", "OVERFLOW"]);
    rows.all("vf", "fault_buffer_put", &[]);
    rows.all("vf", "fault_addr_lo", &["ADDR"]);
    rows.all("vf", "fault_addr_hi", &[]);
    rows.all("vf", "fault_inst_lo", &[]);
    rows.all("vf", "fault_inst_hi", &[]);
    rows.all("vf", "fault_info", &[]);
    let flags = [
        "REPLAYABLE",
        "NON_REPLAYABLE",
        "REPLAYABLE_ERROR",
        "NON_REPLAYABLE_ERROR",
        "REPLAYABLE_OVERFLOW",
        "NON_REPLAYABLE_OVERFLOW",
        "REPLAYABLE_GETPTR_CORRUPTED",
        "NON_REPLAYABLE_GETPTR_CORRUPTED",
        "VALID",
    ];
    rows.all("vf", "fault_status", &flags);
    // memop::register_form.
    rows.all("vf", "invalidate", &[]);
    // packets::counter_packets.
    rows.all("vf", "counter_buffer_put", &[]);
    // host: doorbells, runlist_entries.
    rows.all("vf", "usermode_doorbell", &[]);
    rows.all("host", "doorbell_config", &[]);
    rows.all("host", "internal_doorbell", &["CHID"]);

    rings(rows);
    counters(rows);
    runlists(rows);
    engines(rows);
}

fn rings(rows: &mut Rows) {
    // The recommended number of entries; GET within them.
    let size = rows.take("vf", "fault_buffer_size", "SET_DEFAULT");
    let get = rows.take("vf", "fault_buffer_get", "PTR");
    for (i, entries) in [(0, 48), (1, 64)] {
        let mut b = Bench::new();
        let at = reg_at("vf", "fault_buffer_size", i, 2);
        b.w(at, size.bits.of(1));
        assert_eq!(b.r(at), entries);
        let val = reg_bits("vf", "fault_buffer_size", "VAL");
        b.w(at, val.mask as u32);
        let at = reg_at("vf", "fault_buffer_get", i, 2);
        let last = get.bits.mask as u32 - 1;
        b.w(at, last);
        assert_eq!(b.r(at), last);
    }
    // BUSY while a fault is on its way.
    let busy = rows.take("vf", "fault_status", "BUSY");
    let fault = Fault {
        inst_target: 0,
        inst_addr: 0,
        va: 0,
        kind: FaultType::Pte,
        access: 0,
        who: Client {
            engine_id: 0,
            client: 0,
            gpc: None,
        },
        replayable: false,
        replay_enabled: false,
        time_ns: 0,
        slot: None,
    };
    let mut b = Bench::new();
    b.with(|g, cx| g.report(0, fault, cx));
    assert_eq!(busy.bits.get(b.r(busy.first)), 1);
    b.run();
    assert_eq!(busy.bits.get(b.r(busy.first)), 0);
    // An access of BAR1 and BAR2 to nothing: the first has the registers, the second is counted as dropped.
    let dropped = rows.take("vf", "fault_status", "DROPPED");
    let virt = reg_bits("system", "bar1_block", "MODE").of(1);
    for (second, bit) in [(1, 1), (3, 3)] {
        let mut b = Bench::new();
        // An instance block at 0 with page tables at 0 that hold nothing.
        b.host.vram[0].write(0x201, &[0xc]).unwrap();
        b.w(reg("system", "bar1_block"), virt);
        b.w(reg("system", "bar2_block"), virt);
        b.with(|g, cx| g.bar_read(4 - second, 1 << 40, 4, cx));
        b.with(|g, cx| g.bar_read(second, 1 << 40, 4, cx));
        assert_eq!(dropped.bits.get(b.r(dropped.first)), 1 << bit);
        let inst = b.r(reg("vf", "fault_inst_lo"));
        let first = if second == 1 { "BAR2" } else { "BAR1" };
        let engine = reg_bits("vf", "fault_inst_lo", "ENGINE_ID").get(inst);
        assert_eq!(engine, num("engine", first));
        let info = b.r(reg("vf", "fault_info"));
        let f = |f| reg_bits("vf", "fault_info", f).get(info);
        assert_eq!(
            (f("CLIENT"), f("MMU_CLIENT_TYPE")),
            (num("hub_client", "HOST_CPU"), 1)
        );
        b.w(dropped.first, u32::MAX);
        assert_eq!(b.r(dropped.first), 0, "written 1, cleared");
    }
}

fn counters(rows: &mut Rows) {
    let full = rows.take("vf", "counter_buffer_info", "FULL");
    let nack = rows.take("vf", "counter_buffer_info", "WRITE_NACK");
    let mut b = Bench::new();
    // No room: GET one ahead of PUT.
    b.w(reg("vf", "counter_buffer_get"), 1);
    assert_eq!(full.bits.get(b.r(full.first)), 1);
    b.w(reg("vf", "counter_buffer_get"), 0);
    assert_eq!(full.bits.get(b.r(full.first)), 0);
    // A ring that lies in no memory.
    b.w(reg("vf", "counter_buffer_hi"), u32::MAX);
    let en = reg_bits("vf", "counter_buffer_lo", "EN").of(1);
    b.w(reg("vf", "counter_buffer_lo"), en);
    let inst = crate::mmu::Instance {
        target: 0,
        addr: 0,
        pdb: None,
        replay_tex: false,
        replay_gcc: false,
        method_buffer: 0,
    };
    b.with(|g, cx| g.count_remote(&inst, 64, 0, 1 << 20, false, cx));
    assert_eq!(nack.bits.get(b.r(nack.first)), 1);
}

/// A runlist's interrupts, and its PBDMA.
fn runlists(rows: &mut Rows) {
    let mut b = Bench::new();
    let base = runlist(&mut b, 0);
    let intr = |f| reg_bits("host", "intr_0", f);
    // A bad list, a preempt of each type, an error of the PBDMA.
    let bad = rows.take("host", "intr_0", "BAD_TSG");
    b.w(base + reg("host", "submit"), 1);
    assert_eq!(b.r(base + bad.first), bad.bits.of(1));
    b.w(base + bad.first, bad.bits.of(1));
    assert_eq!(b.r(base + bad.first), 0, "written 1, cleared");
    let kind = reg_bits("host", "preempt", "TYPE");
    for (name, n) in [("RUNLIST_PREEMPT_COMPLETE", 0), ("TSG_PREEMPT_COMPLETE", 1)] {
        let done = rows.take("host", "intr_0", name);
        b.w(base + reg("host", "preempt"), kind.of(n));
        assert_eq!(b.r(base + done.first), done.bits.of(1), "{name}");
        b.w(base + done.first, u32::MAX);
    }
    // Its vector: the default one, then the one that is written.
    let mut b = Bench::new();
    b.w(base + reg("host", "intr_0_en_set"), u32::MAX);
    b.w(base + reg("host", "preempt"), 0);
    let v = vector("runlist_tree_0_first");
    assert_eq!(b.r(reg_at("vf", "leaf", v / 32, 8)), 1 << (v % 32));
    let f = reg_bits("host", "intr_vectorid", "VECTOR");
    b.w(base + reg("host", "intr_vectorid"), f.of(100));
    assert_eq!(b.r(reg_at("vf", "leaf", v / 32, 8)), 0);
    assert_eq!(b.r(reg_at("vf", "leaf", 3, 8)), 1 << 4);

    rows.take("host", "intr_0", "PBDMA");
    let pbdma = |n: u32| num("bar0", "PBDMA") + n;
    for (register, name, bit) in [
        ("pbdma_intr_0", "GPENTRY", crate::channel::intr::GPENTRY),
        ("pbdma_intr_0", "PBENTRY", crate::channel::intr::PBENTRY),
        ("pbdma_intr_0", "METHOD", crate::channel::intr::METHOD),
        ("pbdma_intr_0", "DEVICE", crate::channel::intr::DEVICE),
        ("pbdma_intr_0", "SEMAPHORE", crate::channel::intr::SEMAPHORE),
        ("pbdma_intr_0", "SIGNATURE", crate::channel::intr::SIGNATURE),
        (
            "pbdma_intr_1",
            "CTXNOTVALID",
            crate::channel::intr::CTX_NOT_VALID,
        ),
    ] {
        let r = rows.take("host", register, name);
        let mut b = Bench::new();
        b.with(|g, cx| g.pbdma_error(0, 9, bit, 0x1234, 0x5678, cx));
        assert_eq!(b.r(pbdma(r.first)), r.bits.of(1), "{name}");
        assert_eq!(b.r(pbdma(num("pbdma", "METHOD0"))), 0x1234);
        assert_eq!(b.r(pbdma(num("pbdma", "DATA0"))), 0x5678);
        assert_eq!(b.r(pbdma(num("pbdma", "CHANNEL"))), 9);
        assert_eq!(b.r(base + reg("host", "intr_0")), intr("PBDMA").of(1));
        b.w(pbdma(r.first), u32::MAX);
        assert_eq!(b.r(pbdma(r.first)), 0);
        assert_eq!(b.r(base + reg("host", "intr_0")), 0);
    }
    let mut b = Bench::new();
    b.w(pbdma(num("pbdma", "INTR_EN_SET")), 0xff);
    b.w(pbdma(num("pbdma", "INTR_EN_CLEAR")), 0x0f);
    assert_eq!(b.r(pbdma(num("pbdma", "INTR_EN_SET"))), 0xf0);
    // The second PBDMA is the second runlist's.
    b.with(|g, cx| g.pbdma_error(1, 9, 21, 0, 0, cx));
    let second = pbdma(num("bar0", "PBDMA_STRIDE")) + reg("host", "pbdma_intr_0");
    assert_eq!(b.r(second), 1 << 21);
}

/// A copy by physical addresses, on channel 5 of engine `n`; launched, not run.
fn copy(n: usize, interrupt: &str, dst: u64) -> Bench {
    let mut b = Bench::new();
    let mut c = crate::channel::Channel::new((0, 0x5000), (0, 0x6000));
    c.loaded = true;
    c.ce_ctx = true;
    c.privileged_ce = true;
    b.gpu.runlists[n].channels.insert(5, c);
    b.gpu.runlists[n].set(5, bits("channel_ram", "ENABLE").of(1));
    let f = |f| bits("ce.launch", f);
    let word = f("DATA_TRANSFER_TYPE").of(code("Transfer", "Pipelined"))
        | f("INTERRUPT_TYPE").of(code("InterruptType", interrupt))
        | f("SRC_MEMORY_LAYOUT").of(1)
        | f("DST_MEMORY_LAYOUT").of(1)
        | f("SRC_TYPE").of(1)
        | f("DST_TYPE").of(1);
    for (name, data) in [
        ("OFFSET_OUT_UPPER", (dst >> 32) as u32),
        ("OFFSET_OUT_LOWER", dst as u32),
        ("LINE_LENGTH_IN", 4096),
        ("LAUNCH_DMA", word),
    ] {
        let m = crate::channel::Method {
            subch: 0,
            addr: num("ce_method", name),
            data,
        };
        b.with(|g, cx| g.method(n, 5, m, cx));
    }
    b
}

fn engines(rows: &mut Rows) {
    let busy = rows.take("host", "engine_status0", "BUSY");
    let pending = rows.take("host", "preempt", "RUNLIST_PENDING");
    let mut b = copy(0, "None", 1 << 20);
    let base = runlist(&mut b, 0);
    assert_eq!(b.r(base + busy.first), busy.bits.of(1));
    // The channel may not run any more, but its piece is in flight: a preempt is pending, of either type.
    let disable = base + reg("host", "sched_disable");
    b.with(|g, cx| g.bar_write(0, disable.into(), 1, 4, cx));
    assert_eq!(b.r(base + pending.first), pending.bits.of(1));
    let preempt = u64::from(base + pending.first);
    let tsg = reg_bits("host", "preempt", "TYPE").of(1);
    b.with(|g, cx| g.bar_write(0, preempt, tsg.into(), 4, cx));
    let f = reg_bits("host", "preempt", "TSG_PENDING");
    assert_eq!(b.r(base + pending.first), tsg | f.of(1));
    b.run();
    assert_eq!(b.r(base + busy.first), 0);
    assert_eq!(b.r(base + pending.first), tsg);

    let block = rows.take("system", "ce_intr_status", "BLOCKPIPE");
    let error = rows.take("system", "ce_intr_status", "LAUNCHERR");
    let pulse = rows.take("system", "ce_intr_status", "NONBLOCKPIPE");
    let unsaved = rows.take("system", "ce_intr_status", "MTHD_BUFFER_FAULT");
    let stride = num("bar0", "CE_STRIDE");
    for n in 0..CES {
        let at = |name| num("bar0", name) + stride * n;
        let status = reg("system", "ce_intr_status") + stride * n;
        let mut b = copy(n as usize, "Blocking", 1 << 20);
        b.w(at("CE_INTR_EN"), 0xff);
        assert_eq!(b.r(at("CE_INTR_EN")), 0xff);
        assert_eq!(b.r(status), block.bits.of(1));
        let stall = vector("stall_first") + n;
        assert_eq!(b.r(at("CE_STALL_VECTOR")), stall);
        assert_eq!(b.r(at("CE_NONSTALL_VECTOR")), vector("non_stall_first") + n);
        assert_eq!(b.r(reg_at("vf", "leaf", stall / 32, 8)), 1 << (stall % 32));
        b.w(status, block.bits.of(1));
        assert_eq!(b.r(status), 0);
        assert_eq!(b.r(reg_at("vf", "leaf", stall / 32, 8)), 0);
        // The status is set whatever is enabled; the vector pulses if that is, and no level is raised.
        for on in [false, true] {
            let mut b = copy(n as usize, "NonBlocking", 1 << 20);
            assert_eq!(b.r(at("CE_INTR_EN")), num("reset", "CE_INTR_EN"));
            let enable = if on { pulse.bits.of(1) } else { 0 };
            b.with(|g, cx| g.bar_write(0, at("CE_INTR_EN").into(), enable.into(), 4, cx));
            b.run();
            assert_eq!(b.r(status), pulse.bits.of(1));
            assert_eq!(b.r(reg_at("vf", "leaf", 0, 8)), u32::from(on) << n);
            assert_eq!(b.r(reg_at("vf", "leaf", stall / 32, 8)), 0);
            b.w(status, pulse.bits.of(1));
            assert_eq!(b.r(status), 0);
        }
        // A fault, and nowhere to save the launch to.
        let mut b = copy(n as usize, "None", super::VRAM);
        b.w(at("CE_INTR_EN"), unsaved.bits.of(1));
        assert_eq!(b.r(status), unsaved.bits.of(1));
        assert_eq!(b.r(reg_at("vf", "leaf", stall / 32, 8)), 1 << (stall % 32));
        // A launch that is refused.
        let mut b = Bench::new();
        let mut c = crate::channel::Channel::new((0, 0x5000), (0, 0x6000));
        c.ce_ctx = true;
        b.gpu.runlists[n as usize].channels.insert(5, c);
        let m = crate::channel::Method {
            subch: 0,
            addr: num("ce_method", "LAUNCH_DMA"),
            data: 3,
        };
        b.with(|g, cx| g.method(n as usize, 5, m, cx));
        assert_eq!(b.r(status), error.bits.of(1));
        assert_ne!(b.r(at("CE_LAUNCHERR")), 0);
    }
}

/// A physical copy that goes nowhere: who is named in the packet.
#[test]
fn engines_and_clients() {
    let clients = [
        "CE0", "CE1", "CE2", "HSCE0", "HSCE0", "HSCE0", "HSCE0", "HSCE0", "HSCE0", "HSCE6",
    ];
    for n in 0..CES {
        let mut b = copy(n as usize, "None", (1 << 37) - 2048);
        // No ring: the registers have it.
        b.run();
        let inst = b.r(reg("vf", "fault_inst_lo"));
        let engine = reg_bits("vf", "fault_inst_lo", "ENGINE_ID").get(inst);
        assert_eq!(engine, num("engine", "CE0") + n);
        let info = b.r(reg("vf", "fault_info"));
        let f = |f| reg_bits("vf", "fault_info", f).get(info);
        let first = num("hub_client", clients[n as usize]);
        let want = match n {
            4..=8 => first + n - 3,
            _ => first,
        };
        assert_eq!(f("CLIENT"), want, "engine {n}");
        assert_eq!(f("FAULT_TYPE"), code("FaultType", "RegionViolation"));
        assert_eq!(f("ACCESS_TYPE"), code("AccessType", "PhysWrite"));
        assert_eq!((f("MMU_CLIENT_TYPE"), f("REPLAYABLE_FAULT")), (1, 0));
        let word = b.gpu.runlists[n as usize].word(5);
        assert_ne!(word & bits("channel_ram", "ENG_FAULTED").of(1), 0);
    }
    assert_eq!(num("engine", "CE9"), num("engine", "CE0") + CES - 1);
}

/// The host's own access: a GPFIFO that is not mapped.
#[test]
fn host_faults() {
    let words = super::reader::structure("channel", num("size", "INSTANCE_BLOCK") as usize);
    for n in 0..CES {
        let mut b = Bench::new();
        b.sys(0x2000_0000, &words);
        b.sys(0x2100_0000 + u64::from(num("userd", "GP_PUT")), &[1]);
        let c = crate::channel::Channel::new((2, 0x2000_0000), (2, 0x2100_0000));
        b.gpu.runlists[n as usize].channels.insert(5, c);
        b.gpu.runlists[n as usize].set(5, bits("channel_ram", "ENABLE").of(1));
        b.with(|g, cx| g.channel_wake(n as usize, 5, cx));
        b.run();
        let inst = b.r(reg("vf", "fault_inst_lo"));
        let engine = reg_bits("vf", "fault_inst_lo", "ENGINE_ID").get(inst);
        assert_eq!(engine, num("engine", "HOST0") + n);
        let info = b.r(reg("vf", "fault_info"));
        let f = |f| reg_bits("vf", "fault_info", f).get(info);
        assert_eq!(
            (f("CLIENT"), f("MMU_CLIENT_TYPE")),
            (num("hub_client", "HOST"), 1)
        );
        assert_eq!(f("ACCESS_TYPE"), code("AccessType", "VirtRead"));
        let word = b.gpu.runlists[n as usize].word(5);
        assert_ne!(word & bits("channel_ram", "PBDMA_FAULTED").of(1), 0);
    }
}

/// Rows of the device-info table.
#[test]
fn device_info() {
    let mut b = Bench::new();
    for n in 0..CES {
        let mut want = [0u32; 3];
        for (name, f) in super::reader::fields("device_info") {
            want[f.word] |= f.of(match name {
                "ROW0_FAULT_ID" => num("engine", "CE0") + n,
                "ROW0_INSTANCE" => n,
                "ROW0_TYPE" => num("device_info", "TYPE_LCE"),
                "ROW0_MORE" | "ROW1_MORE" | "ROW1_IS_ENGINE" => 1,
                // One base for all: that of the block, to 4 KiB.
                "ROW1_DEVICE_PRI_BASE" => num("bar0", "CE_STATUS") >> 12 << 4,
                "ROW2_RUNLIST_PRI_BASE" => (bar0::RUNLIST + bar0::RUNLIST_STRIDE * n) >> 10,
                "ROW0_GROUP_ID" | "ROW1_RESET_ID" | "ROW2_RLENG_ID" | "ROW2_MORE" => 0,
                _ => panic!("{name}"),
            });
        }
        let at = num("bar0", "DEVICE_INFO2") + 12 * n;
        assert_eq!([0, 4, 8].map(|i| b.r(at + i)), want, "{n}");
        // Its runlist block and channel RAM answer.
        let base = runlist(&mut b, n);
        let config = b.r(base + reg("host", "channel_config"));
        let ram = config & reg_bits("host", "channel_config", "CHRAM_BAR0_OFFSET").mask as u32;
        b.w(ram + 4 * 2047, 2);
        assert_eq!(b.gpu.runlists[n as usize].word(2047), 2);
    }
}

/// Registers without fields: by what they do, or by the model's constant where they do nothing.
#[test]
fn registers_without_fields() {
    let table = [
        ("PMC_ENABLE", bar0::PMC_ENABLE),
        ("PMC_DEVICE_ENABLE", bar0::PMC_DEVICE_ENABLE),
        ("BIND_STATUS", bar0::BIND_STATUS),
        ("VF_BIND_STATUS", bar0::VF_BIND_STATUS),
        ("PRAMIN", bar0::PRAMIN),
        ("PRAMIN_BYTES", bar0::PRAMIN_BYTES),
        ("PTIMER_NUMERATOR", bar0::PTIMER_NUMERATOR),
        ("PTIMER_DENOMINATOR", bar0::PTIMER_DENOMINATOR),
        ("DEVICE_INFO2", bar0::DEVICE_INFO2),
        ("PF_INVALIDATE", bar0::PF_INVALIDATE),
        ("PF_INVALIDATE_UPPER_VADDR", bar0::PF_INVALIDATE_UPPER_VADDR),
        ("PF_INVALIDATE_UPPER_PDB", bar0::PF_INVALIDATE_UPPER_PDB),
        ("CE_STATUS", bar0::CE_STATUS),
        ("CE_INTR_EN", bar0::CE_INTR_EN),
        ("CE_LAUNCHERR", bar0::CE_LAUNCHERR),
        ("CE_NONSTALL_VECTOR", bar0::CE_NONSTALL_VECTOR),
        ("CE_STALL_VECTOR", bar0::CE_STALL_VECTOR),
        ("CE_STRIDE", bar0::CE_STRIDE),
        ("INTR_STALL_BASE", bar0::INTR_STALL_BASE),
        ("INTR_NONSTALL_BASE", bar0::INTR_NONSTALL_BASE),
        ("SCRATCH", bar0::SCRATCH),
        ("PBDMA", bar0::PBDMA),
        ("PBDMA_STRIDE", bar0::PBDMA_STRIDE),
    ];
    assert_eq!(table.to_vec(), nums("bar0"));
    let mut b = Bench::new();
    let at = |name| num("bar0", name);
    assert_eq!(b.r(at("INTR_STALL_BASE")), vector("stall_first"));
    assert_eq!(b.r(at("INTR_NONSTALL_BASE")), vector("non_stall_first"));
    b.w(at("SCRATCH"), 5);
    b.w(at("SCRATCH") + 12, 6);
    assert_eq!((b.r(at("SCRATCH")), b.r(at("SCRATCH") + 12)), (5, 6));
    // The window: its base, and its first and last word.
    let base = reg_bits("system", "bar0_window", "BASE");
    b.w(reg("system", "bar0_window"), base.of(0x12));
    let (first, last) = (at("PRAMIN"), at("PRAMIN") + at("PRAMIN_BYTES") - 4);
    b.w(first, 0x1111);
    b.w(last, 0x2222);
    assert_eq!(b.vram_words(0x12_0000), [0x1111]);
    assert_eq!(b.vram_words(0x21_fffc), [0x2222]);
    let target = reg_bits("system", "bar0_window", "TARGET").of(code("MemTarget", "SysCoherent"));
    b.w(reg("system", "bar0_window"), base.of(0x12) | target);
    b.w(first, 0x3333);
    assert_eq!(b.sys_words(0x12_0000), [0x3333]);
    // Names of the registers that registers.csv has, in the model's own list.
    for (unit, name, own) in [
        ("system", "pmc_boot_1", bar0::PMC_BOOT_1),
        ("vf", "l2_sysmem_invalidate", bar0::VF_L2_SYSMEM_INVALIDATE),
        (
            "vf",
            "l2_peermem_invalidate",
            bar0::VF_L2_PEERMEM_INVALIDATE,
        ),
        ("vf", "usermode_cfg0", bar0::USERMODE),
        ("system", "ce_intr_status", bar0::CE_INTR_STATUS),
    ] {
        assert_eq!(reg(unit, name), own, "{name}");
    }
}

/// Ids and sizes that no other test meets.
#[test]
fn ids_and_sizes() {
    assert_eq!(bar0::CHANNELS_LOG2, num("reset", "CHANNELS_LOG2"));
    assert_eq!(bar0::LEAVES * 32, vector("last") + 1);
    assert_eq!(crate::config::VRAM_MAX_BYTES, 1 << num("size", "VID_BITS"));
    assert_eq!(crate::work::block::ENGINE_GR0, num("engine", "GRAPHICS0"));
    for (name, own) in [
        ("replayable_fault", bar0::vector::REPLAYABLE),
        ("access_counter", bar0::vector::ACCESS_COUNTER),
        ("replayable_fault_error", bar0::vector::REPLAYABLE_ERROR),
        ("non_replayable_fault", bar0::vector::NON_REPLAYABLE),
        (
            "non_replayable_fault_error",
            bar0::vector::NON_REPLAYABLE_ERROR,
        ),
        ("info_fault", bar0::vector::INFO),
        ("runlist_tree_0_first", bar0::vector::RUNLIST),
        ("stall_first", bar0::vector::STALL),
    ] {
        assert_eq!(vector(name), own, "{name}");
    }
    assert!(vector("runlist_tree_0_first") + CES <= vector("runlist_tree_0_last") + 1);
}
