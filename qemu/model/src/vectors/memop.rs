// SPDX-License-Identifier: GPL-2.0
//! Invalidate, replay, cancel and counter clear, by MEM_OP and by register.

use super::reader::{bits, code, codes, num, reg, reg_bits, registers, Cases};
use super::{each_field, Bench};
use crate::channel::{intr, Channel, Method, Outcome};
use crate::mmu::{Access, Instance, Pdb};
use crate::replay::{cancel_covers, from_mem_op, Invalidate, Replay};

const NONE: Invalidate = Invalidate {
    pdb: None,
    range: None,
    level: 0,
    hub_only: false,
    ack: false,
    replay: Replay::None,
};
const PDB: Pdb = Pdb {
    sys: true,
    addr: 0x1_2345_6000,
};
const VA: u64 = 0x7f12_3456_7000;

fn decode([a, b, c, d]: [u32; 4]) -> Invalidate {
    let op = bits("memop", "D_OPERATION").get(d);
    let targeted = op == code("Operation", "TlbInvalidateTargeted");
    assert!(targeted || op == code("Operation", "TlbInvalidate"));
    from_mem_op(a, b, c, d, targeted)
}

/// Every case, by what it decodes to or by what it does.
#[test]
fn mem_ops() {
    let v = Cases::of(&["memop"]);
    invalidates(&v);
    other_operations(&v);
    counter_clears(&v);
}

fn invalidates(v: &Cases) {
    let one = Invalidate {
        pdb: Some(PDB),
        ack: true,
        ..NONE
    };
    let range = |va, bytes, level| Invalidate {
        range: Some((va, bytes)),
        level,
        ..one
    };
    let dummy = |replay| Invalidate {
        pdb: Some(Pdb {
            sys: false,
            addr: 0,
        }),
        replay,
        ..range(0, 4096, 1)
    };
    let cancel = |engine_id, access| Invalidate {
        replay: Replay::CancelVa {
            engine_id,
            access,
            va: VA,
            pdb: PDB,
        },
        ..range(VA, 4096, 0)
    };
    let all = code("CancelAccess", "VirtAll");
    let writes = code("CancelAccess", "VirtWriteAndAtomic");
    let cases = [
        ("invalidate_pdb", one),
        (
            "invalidate_2m",
            Invalidate {
                pdb: Some(Pdb {
                    sys: false,
                    addr: 0xab_c000,
                }),
                ..range(0x7f12_3440_0000, 2 << 20, 2)
            },
        ),
        (
            "replay_dummy",
            Invalidate {
                ack: false,
                ..dummy(Replay::Start)
            },
        ),
        (
            "cancel_va",
            Invalidate {
                ack: false,
                ..cancel(64, all)
            },
        ),
        (
            "cancel_targeted",
            Invalidate {
                replay: Replay::CancelTargeted { gpc: 5, client: 3 },
                ..NONE
            },
        ),
        ("invalidate_range", range(0x7f12_3440_0000, 2 << 20, 2)),
        (
            "invalidate_range_membar",
            range(0x7f12_3456_0000, 64 << 10, 1),
        ),
        ("invalidate_pde1", range(0, 1 << 49, 3)),
        ("invalidate_pde2", range(0, 1 << 49, 4)),
        ("invalidate_pde3", range(0, 1 << 49, 5)),
        ("invalidate_all_membar", one),
        (
            "invalidate_hub",
            Invalidate {
                hub_only: true,
                ..NONE
            },
        ),
        (
            "invalidate_pdb_high",
            Invalidate {
                pdb: Some(Pdb {
                    sys: true,
                    addr: 0x0765_4321_89ab_c000,
                }),
                ..one
            },
        ),
        ("replay_start", dummy(Replay::Start)),
        ("replay_start_ack_all", dummy(Replay::StartAckAll)),
        ("cancel_va_all", cancel(69, all)),
        ("cancel_va_write", cancel(127, writes)),
        (
            "cancel_global",
            Invalidate {
                replay: Replay::CancelGlobal,
                ..NONE
            },
        ),
    ];
    for (case, want) in cases {
        let w = v.take("memop", case);
        assert_eq!(decode(w), want, "{case}");
        assert_eq!(mem_op(&mut channel(true), w), Outcome::DoneAt(0), "{case}");
        let refused = Outcome::Error(intr::METHOD);
        assert_eq!(mem_op(&mut channel(false), w), refused, "{case}");
    }
}

/// What a field, at its largest and alone, does to a targeted invalidate; with the replay code that it needs.
#[test]
fn fields_of_an_invalidate() {
    type Check = fn(&Invalidate) -> bool;
    let ignored: Check = |i| {
        let (va, replay) = (Some((0, 4096)), Replay::None);
        *i == Invalidate {
            pdb: Some(Pdb {
                sys: false,
                addr: 0,
            }),
            range: va,
            replay,
            ..NONE
        }
    };
    let table: [(&str, (&str, Check)); 23] = [
        // 2^63 pages are everything.
        ("A_INVALIDATION_SIZE", ("None", |i| i.range.is_none())),
        (
            "A_CANCEL_TARGET_CLIENT_UNIT_ID",
            ("CancelTargeted", |i| {
                i.replay
                    == Replay::CancelTargeted {
                        gpc: 0,
                        client: 0x3f,
                    }
            }),
        ),
        (
            "A_CANCEL_TARGET_GPC_ID",
            ("CancelTargeted", |i| {
                i.replay
                    == Replay::CancelTargeted {
                        gpc: 0x1f,
                        client: 0,
                    }
            }),
        ),
        // There are no link TLBs.
        ("A_INVAL_SCOPE", ("None", ignored)),
        (
            "A_CANCEL_MMU_ENGINE_ID",
            ("CancelVaGlobal", |i| {
                matches!(
                    i.replay,
                    Replay::CancelVa {
                        engine_id: 0x7f,
                        access: 0,
                        ..
                    }
                )
            }),
        ),
        // Memory is coherent.
        ("A_SYSMEMBAR", ("None", ignored)),
        (
            "A_TARGET_ADDR_LO",
            ("None", |i| i.range == Some((0xffff_f000, 4096))),
        ),
        (
            "B_TARGET_ADDR_HI",
            ("None", |i| i.range == Some((0xffff_ffff_0000_0000, 4096))),
        ),
        // Of another operation.
        ("C_MEMBAR_TYPE", ("None", |_| true)),
        ("C_PDB", ("None", |i| i.pdb.is_none())),
        (
            "C_GPC",
            ("Start", |i| i.hub_only && i.replay == Replay::None),
        ),
        // 7 is no code.
        ("C_REPLAY", ("None", |i| i.replay == Replay::None)),
        ("C_ACK_TYPE", ("None", |i| i.ack)),
        ("C_PAGE_TABLE_LEVEL", ("None", |i| i.level == 7)),
        (
            "C_ACCESS_TYPE",
            ("CancelVaGlobal", |i| {
                i.level == 0 && matches!(i.replay, Replay::CancelVa { access: 7, .. })
            }),
        ),
        ("C_PDB_APERTURE", ("None", |i| i.pdb.unwrap().sys)),
        (
            "C_PDB_ADDR_LO",
            ("None", |i| i.pdb.unwrap().addr == 0xffff_f000),
        ),
        // Of another operation: `counter_clears`.
        ("C_NOTIFY_TAG", ("None", |_| true)),
        (
            "D_PDB_ADDR_HI",
            ("None", |i| i.pdb.unwrap().addr == 0x07ff_ffff_0000_0000),
        ),
        ("D_CLR_TYPE", ("None", |_| true)),
        ("D_CLR_TARGETED_TYPE", ("None", |_| true)),
        ("D_CLR_TARGETED_BANK", ("None", |_| true)),
        // The caller reads it: `decode`.
        ("D_OPERATION", ("None", |_| true)),
    ];
    each_field("memop", &table, |name, f, (replay, check)| {
        let mut w = [0u32; 4];
        w[2] = bits("memop", "C_REPLAY").of(code("Replay", replay));
        w[f.word] |= f.mask as u32;
        let i = from_mem_op(w[0], w[1], w[2], w[3], true);
        assert!(check(&i), "{name}: {i:x?}");
    });
    for (name, want) in [
        ("None", Replay::None),
        ("Start", Replay::Start),
        ("StartAckAll", Replay::StartAckAll),
        (
            "CancelTargeted",
            Replay::CancelTargeted { gpc: 0, client: 0 },
        ),
        ("CancelGlobal", Replay::CancelGlobal),
    ] {
        let c = bits("memop", "C_REPLAY").of(code("Replay", name));
        assert_eq!(from_mem_op(0, 0, c, 0, false).replay, want);
    }
}

#[test]
fn cancel_accesses() {
    // Loads, stores, strong atomics; this device makes no weak ones.
    for (name, want) in [
        ("VirtRead", [true, false, false]),
        ("VirtWrite", [false, true, false]),
        ("VirtAtomicStrong", [false, false, true]),
        ("VirtAtomicWeak", [false, false, false]),
        ("VirtAtomicAll", [false, false, true]),
        ("VirtWriteAndAtomic", [false, true, true]),
        ("VirtAll", [true, true, true]),
    ] {
        let c = code("CancelAccess", name);
        assert_eq!(
            [Access::Read, Access::Write, Access::Atomic].map(|a| cancel_covers(c, a)),
            want,
            "{name}"
        );
    }
}

/// A channel that takes methods, privileged or not.
fn channel(privileged: bool) -> Bench {
    let mut b = Bench::new();
    let mut c = Channel::new((2, 0x2000_0000), (2, 0x2100_0000));
    c.auth = privileged;
    b.gpu.runlists[0].channels.insert(5, c);
    b
}

fn mem_op(b: &mut Bench, w: [u32; 4]) -> Outcome {
    let mut last = Outcome::Done;
    for (name, data) in ["MEM_OP_A", "MEM_OP_B", "MEM_OP_C", "MEM_OP_D"]
        .iter()
        .zip(w)
    {
        let m = Method {
            subch: 0,
            addr: num("host_method", name),
            data,
        };
        last = b.with(|g, cx| g.method(0, 5, m, cx));
    }
    last
}

fn other_operations(v: &Cases) {
    for case in [
        "membar_gpu",
        "membar_system",
        "l2_sysmem",
        "l2_peermem",
        "l2_clean_comptags",
        "l2_flush_dirty",
        "l2_wait_reads",
    ] {
        let w = v.take("memop", case);
        for privileged in [false, true] {
            let done = mem_op(&mut channel(privileged), w);
            assert_eq!(done, Outcome::Done, "{case}");
        }
    }
    // An operation that is none.
    let known: Vec<u32> = codes("Operation").iter().map(|c| c.1).collect();
    for op in (0..32).filter(|o| !known.contains(o)) {
        let w = [0, 0, 0, bits("memop", "D_OPERATION").of(op)];
        let refused = Outcome::Error(intr::METHOD);
        assert_eq!(mem_op(&mut channel(true), w), refused, "{op:#x}");
    }
}

/// Two regions that have notified, with tags 0 and 1; which of them notifies again after a clear.
fn after_clear(w: [u32; 4]) -> [bool; 2] {
    let mut b = channel(true);
    let en = reg_bits("vf", "counter_buffer_lo", "EN").of(1);
    b.w(reg("vf", "counter_buffer_lo"), en | 0x30_0000);
    let inst = Instance {
        target: 2,
        addr: 0x5000,
        pdb: None,
        replay_tex: false,
        replay_gcc: false,
        method_buffer: 0,
    };
    let hit = |b: &mut Bench, region: u64| {
        let before = b.r(reg("vf", "counter_buffer_put"));
        b.with(|g, cx| g.count_remote(&inst, 64, region << 16, 0x80 * 128, false, cx));
        b.r(reg("vf", "counter_buffer_put")) != before
    };
    assert!(hit(&mut b, 0) && hit(&mut b, 1));
    assert!(!hit(&mut b, 0) && !hit(&mut b, 1), "silent until cleared");
    assert_eq!(mem_op(&mut b, w), Outcome::Done);
    [hit(&mut b, 0), hit(&mut b, 1)]
}

fn counter_clears(v: &Cases) {
    assert_eq!(after_clear(v.take("memop", "clear_mimc")), [true, true]);
    assert_eq!(after_clear(v.take("memop", "clear_all")), [true, true]);
    // There are no MOMC counters.
    assert_eq!(after_clear(v.take("memop", "clear_momc")), [false, false]);
    assert_eq!(after_clear(v.take("memop", "clear_one")), [false, false]);
    // A counter that is neither of the two; then each of them: both are in bank 0.
    let mut one: [u32; 4] = v.take("memop", "clear_mimc_one");
    assert_eq!(after_clear(one), [false, false]);
    let (tag, bank) = (
        bits("memop", "C_NOTIFY_TAG"),
        bits("memop", "D_CLR_TARGETED_BANK"),
    );
    one[bank.word] &= !(bank.mask as u32);
    assert_eq!(after_clear(one), [false, false], "another tag");
    for (t, want) in [(0, [true, false]), (1, [false, true])] {
        let mut w = one;
        w[tag.word] = w[tag.word] & !(tag.mask as u32) | tag.of(t);
        assert_eq!(after_clear(w), want);
        // Other bits of the word are none of the tag.
        w[tag.word] |= !(tag.mask as u32);
        assert_eq!(after_clear(w), want);
        // Another bank, by any of its bits, or a MOMC counter.
        let inbound = bits("memop", "D_CLR_TARGETED_TYPE").of(1);
        for other in [1, 2, 4, 8].map(|b| bank.of(b)).iter().chain([&inbound]) {
            let mut w = w;
            w[3] |= other;
            assert_eq!(after_clear(w), [false, false], "{other:#x}");
        }
    }
    for (name, want) in [("Mimc", true), ("All", true), ("Momc", false)] {
        let d = bits("memop", "D_CLR_TYPE").of(code("ClearType", name))
            | bits("memop", "D_OPERATION").of(code("Operation", "AccessCounterClr"));
        assert_eq!(after_clear([0, 0, 0, d]), [want; 2], "{name}");
    }
    let d = bits("memop", "D_OPERATION").of(code("Operation", "AccessCounterClr"))
        | bits("memop", "D_CLR_TARGETED_BANK").mask as u32;
    assert_eq!(
        after_clear([0, 0, 0, d]),
        [true; 2],
        "a bank says nothing here"
    );
    let refused = Outcome::Error(intr::METHOD);
    assert_eq!(mem_op(&mut channel(false), [0, 0, 0, d]), refused);
}

/// The register form, field by field; the fields that the two blocks share have the same rows.
#[test]
fn register_form() {
    type Check = fn(&Invalidate, &Invalidate) -> bool;
    let same: Check = |a, b| a == b;
    let table: [(&str, Check); 14] = [
        ("ALL_VA", |_, b| b.range.is_none()),
        ("ALL_PDB", |_, b| b.pdb.is_none()),
        ("HUBTLB_ONLY", |_, b| b.hub_only),
        // 7 is no code; the codes are below.
        ("REPLAY", same),
        // Memory is coherent.
        ("SYS_MEMBAR", same),
        ("ACK", |a, b| b.ack && !a.ack),
        ("CANCEL_CLIENT_ID", same),
        ("CANCEL_GPC_ID", same),
        // Waiting requests are all of GPC clients; no ATS; nothing to flush.
        ("CANCEL_CLIENT_TYPE", same),
        ("USE_PASID", same),
        ("USE_SIZE", |a, b| {
            a.range.map(|r| r.1) == Some(4096) && b.range.map(|r| r.1) == Some(2 << 20)
        }),
        ("PROP_FLUSH", same),
        ("CACHE_LEVEL", |_, b| b.level == 7),
        // Whoever decodes has seen it.
        ("TRIGGER", same),
    ];
    let mut b = Bench::new();
    let f = |r, f| reg_bits("system", r, f);
    b.w(
        reg("system", "pf_invalidate_vaddr"),
        f("pf_invalidate_vaddr", "ADDR").of(0x234_5600),
    );
    b.w(num("bar0", "PF_INVALIDATE_UPPER_VADDR"), 0x7f1);
    b.w(
        reg("system", "pf_invalidate_size"),
        f("pf_invalidate_size", "SIZE").of(9),
    );
    b.w(
        reg("system", "pf_invalidate_pdb"),
        f("pf_invalidate_pdb", "ADDR").of(0x234_5678) | f("pf_invalidate_pdb", "APERTURE").of(1),
    );
    b.w(num("bar0", "PF_INVALIDATE_UPPER_PDB"), 0x1ab);
    let regs = b.gpu.invalidate.clone();
    let plain = regs.decode(0, true);
    let pdb = Pdb {
        sys: true,
        addr: 0x001a_b234_5678 << 12,
    };
    assert_eq!(plain.pdb, Some(pdb));
    assert_eq!(plain.range, Some((0x007f_1234_5600 << 12, 4096)));
    assert_eq!(
        regs.decode(0, false).range,
        None,
        "no address in the VF block"
    );
    let mut left: Vec<_> = registers();
    left.retain(|r| (r.unit, r.name) == ("vf", "invalidate"));
    for (name, check) in table {
        let i = left.iter().position(|r| r.field == name).unwrap();
        let r = left.remove(i);
        let changed = regs.decode(r.bits.mask as u32, true);
        assert!(check(&plain, &changed), "{name}: {changed:x?}");
    }
    assert!(left.is_empty(), "{left:?}");
    let v = |f| reg_bits("vf", "invalidate", f);
    let replay = |name| v("REPLAY").of(code("Replay", name));
    let word = replay("CancelTargeted") | v("CANCEL_CLIENT_ID").of(0x3f);
    let want = Replay::CancelTargeted {
        gpc: 0,
        client: 0x3f,
    };
    assert_eq!(regs.decode(word, true).replay, want);
    let word = replay("CancelTargeted") | v("CANCEL_GPC_ID").of(0x1f);
    let want = Replay::CancelTargeted {
        gpc: 0x1f,
        client: 0,
    };
    assert_eq!(regs.decode(word, true).replay, want);
    for (name, want) in [
        ("Start", Replay::Start),
        ("StartAckAll", Replay::StartAckAll),
        ("CancelGlobal", Replay::CancelGlobal),
    ] {
        assert_eq!(regs.decode(replay(name), false).replay, want);
    }
    let word = replay("CancelVaGlobal") | v("CACHE_LEVEL").of(code("CancelAccess", "VirtAll"));
    let Replay::CancelVa { access, va, .. } = regs.decode(word, true).replay else {
        panic!("no cancel");
    };
    assert_eq!((access, va), (7, 0x007f_1234_5600 << 12));

    // The VF block by its own registers: the same fields, and TRIGGER that ends.
    let mut b = Bench::new();
    let f = |f| reg_bits("vf", "invalidate_pdb", f);
    b.w(
        reg("vf", "invalidate_pdb"),
        f("ADDR").of(0x12_3456) | f("APERTURE").of(1),
    );
    let up = reg_bits("vf", "invalidate_upper_pdb", "ADDR");
    b.w(reg("vf", "invalidate_upper_pdb"), up.of(0xf_ffff));
    let pdb = Pdb {
        sys: true,
        addr: 0xf_ffff << 40 | 0x1_2345_6000,
    };
    assert_eq!(b.gpu.invalidate.decode(0, false).pdb, Some(pdb));
    for at in [reg("vf", "invalidate"), num("bar0", "PF_INVALIDATE")] {
        let trigger = v("TRIGGER").of(1);
        let value = trigger | v("ALL_VA").of(1);
        b.with(|g, cx| g.bar_write(0, at.into(), value.into(), 4, cx));
        assert_eq!(b.r(at), trigger);
        b.run();
        assert_eq!(b.r(at), 0);
    }
}
