// SPDX-License-Identifier: GPL-2.0
//! Codes of enumerated fields against tests/vectors/codes.csv, and constants that have no field.
#![allow(clippy::unwrap_used)]

use huvm_hw::pte::Level;
use huvm_hw::{aperture, ce, counter, fault, host, instance, irq, memop, pte, regs, runlist};

#[path = "../../../tests/vectors/reader.rs"]
mod reader;

#[test]
fn every_code_is_the_listed_one_and_no_other_is_known() {
    let mut listed = reader::all_codes();
    macro_rules! check {
        ($($path:path),*) => {$({
            type E = $path;
            let name = stringify!($path).rsplit(' ').next().unwrap();
            let name = name.rsplit("::").next().unwrap();
            for raw in 0..0x100 {
                let want = listed.remove(&(name, raw)).map(String::from);
                let got = E::from_raw(raw);
                assert_eq!(got.map(|e| format!("{e:?}")), want, "{name} {raw:#x}");
                assert_eq!(got.map_or(raw, E::raw), raw);
            }
        })*};
    }
    check!(
        aperture::PteAperture,
        aperture::PdeAperture,
        aperture::CeTarget,
        aperture::MemTarget,
        aperture::PhysAperture,
        fault::FaultType,
        fault::AccessType,
        pte::Kind,
        memop::Operation,
        memop::Replay,
        memop::Ack,
        memop::InvalidateLevel,
        memop::CancelAccess,
        memop::MembarType,
        memop::ClearType,
        ce::Transfer,
        ce::SemaphoreType,
        ce::InterruptType,
        ce::Reduction,
        ce::Component,
        host::SemOperation,
        host::SecOp,
        host::GpOpcode
    );
    assert!(listed.is_empty(), "{listed:?}");
}

/// hw-interface 1.3, column "UVM treatment".
#[test]
fn four_fault_types_can_be_serviced() {
    for t in fault::FaultType::ALL {
        assert_eq!(
            t.is_fatal(),
            ![0x0, 0x2, 0x6, 0xf].contains(&t.raw()),
            "{t:?}"
        );
    }
}

/// numbers.csv. Registers without fields and reset values are not in the crate.
#[test]
fn numbers_are_the_listed_ones() {
    let mut groups = reader::number_groups();
    let mut check = |group: &str, got: &[(&str, u32)]| {
        assert!(groups.remove(group), "{group}");
        assert_eq!(got, reader::nums(group), "{group}");
    };
    macro_rules! of {
        ($m:path: $($n:ident)*) => {{
            use $m as m;
            [$((stringify!($n), m::$n as u32)),*]
        }};
    }
    check(
        "host_method",
        &of!(host::method: SET_OBJECT NOP NON_STALL_INT FB_FLUSH MEM_OP_A MEM_OP_B MEM_OP_C MEM_OP_D SET_REFERENCE
            SEM_ADDR_LO SEM_ADDR_HI SEM_PAYLOAD_LO SEM_PAYLOAD_HI SEM_EXECUTE WFI YIELD CLEAR_FAULTED FIRST_ENGINE),
    );
    check(
        "ce_method",
        &of!(ce::method: SET_SEMAPHORE_A SET_SEMAPHORE_B SET_SEMAPHORE_PAYLOAD SET_SRC_PHYS_MODE SET_DST_PHYS_MODE
            LAUNCH_DMA OFFSET_IN_UPPER OFFSET_IN_LOWER OFFSET_OUT_UPPER OFFSET_OUT_LOWER PITCH_IN PITCH_OUT
            LINE_LENGTH_IN LINE_COUNT SET_REMAP_CONST_A SET_REMAP_CONST_B SET_REMAP_COMPONENTS),
    );
    use fault::{client as c, engine as e};
    check(
        "engine",
        &[
            ("CE0", e::CE0),
            ("CE9", e::CE0 + 9),
            ("PHYSICAL", e::PHYSICAL),
            ("HOST0", e::HOST0),
            ("GRAPHICS0", e::GRAPHICS0),
            ("BAR1", e::BAR1),
            ("BAR2", e::BAR2),
        ],
    );
    check(
        "gpc_client",
        &[
            ("T1_0", c::GPC_T1_0),
            ("T1_7", c::GPC_T1_0 + 7),
            ("GCC", c::GPC_GCC),
            ("T1_8", c::GPC_T1_8),
        ],
    );
    check(
        "hub_client",
        &[
            ("CE0", c::HUB_CE0),
            ("CE1", c::HUB_CE1),
            ("HOST", c::HUB_HOST),
            ("HOST_CPU", c::HUB_HOST_CPU),
            ("MMU", c::HUB_MMU),
            ("CE2", c::HUB_CE2),
            ("HSCE0", c::HUB_HSCE0),
            ("HSCE6", c::HUB_HSCE0 + 6),
        ],
    );
    check("userd", &of!(host::userd: BYTES GP_GET GP_PUT));
    check("semaphore", &of!(host::semaphore: PAYLOAD TIMESTAMP));
    check(
        "size",
        &[
            ("FAULT_PACKET", fault::PACKET_BYTES as u32),
            ("COUNTER_PACKET", counter::PACKET_BYTES as u32),
            ("INSTANCE_BLOCK", instance::BYTES as u32),
            ("RUNLIST_ENTRY", runlist::ENTRY_BYTES as u32),
            ("SUBCONTEXTS", instance::SUBCONTEXTS as u32),
            ("VA_BITS", pte::VA_BITS),
            ("VID_BITS", pte::VID_BITS),
            ("SYS_BITS", pte::SYS_BITS),
        ],
    );
    assert_eq!(reader::num("class", "COPY_ENGINE"), ce::CLASS);
    use regs::system::device_info as d;
    assert_eq!(reader::num("device_info", "TYPE_GR"), d::TYPE_GR);
    assert_eq!(reader::num("device_info", "TYPE_LCE"), d::TYPE_LCE);
    assert_eq!(reader::num("bar0", "DEVICE_INFO2"), d::OFFSET);
    for g in [
        "class",
        "chip",
        "device_info",
        "reset",
        "bar0",
        "pbdma",
        "runlist",
    ] {
        assert!(groups.remove(g), "{g}");
    }
    assert!(groups.is_empty(), "{groups:?}");
}

/// hw-interface 4.1: level, shift, entries, bytes of an entry, bytes of a table.
#[test]
fn levels_have_their_geometry() {
    let want = [
        (Level::Pde3, 47, 4, 8, 32),
        (Level::Pde2, 38, 512, 8, 4096),
        (Level::Pde1, 29, 512, 8, 4096),
        (Level::Pde0, 21, 256, 16, 4096),
        (Level::Big, 16, 32, 8, 256),
        (Level::Small, 12, 512, 8, 4096),
    ];
    for (l, shift, entries, bytes, table) in want {
        assert_eq!(
            (l.shift(), l.entries(), l.entry_bytes(), l.table_bytes()),
            (shift, entries, bytes, table)
        );
    }
    let all = reader::levels();
    assert!(all.len() >= want.len());
    for (name, va, offset) in all {
        let level = want
            .iter()
            .find(|w| format!("{:?}", w.0) == name)
            .unwrap()
            .0;
        let at = level.index(va) * level.entry_bytes();
        assert_eq!(u64::from(at), offset, "{name} {va:#x}");
    }
}

/// hw-interface 7.4.
#[test]
fn vectors_have_their_place() {
    let all = reader::interrupts();
    assert!(all.len() > 20);
    for i in all {
        let want = irq::Place {
            leaf: i.leaf,
            bit: i.bit,
            subtree: i.entry,
        };
        assert_eq!(irq::place(i.vector), Some(want), "{i:?}");
    }
    assert_eq!(irq::place(256), None);
    let own = [
        ("replayable_fault", irq::REPLAYABLE_FAULT),
        ("access_counter", irq::ACCESS_COUNTER),
        ("replayable_fault_error", irq::REPLAYABLE_FAULT_ERROR),
        ("non_replayable_fault", irq::NON_REPLAYABLE_FAULT),
        (
            "non_replayable_fault_error",
            irq::NON_REPLAYABLE_FAULT_ERROR,
        ),
        ("info_fault", irq::INFO_FAULT),
        ("ptimer", irq::PTIMER),
        ("stall_first", irq::STALL_BASE),
        ("last", irq::VECTORS - 1),
    ];
    for (name, v) in own {
        assert_eq!(reader::vector(name), v, "{name}");
    }
}

#[test]
fn subcontexts_end() {
    assert_eq!(instance::sc_page_dir_base(0), Some(0x2a0));
    assert_eq!(instance::sc_page_dir_base(63), Some(4 * 420));
    assert_eq!(instance::sc_page_dir_base(64), None);
}
