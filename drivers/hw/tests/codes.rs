// SPDX-License-Identifier: GPL-2.0
//! Codes of enumerated fields against tests/vectors/codes.csv, and constants that have no field.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use huvm_hw::pte::Level;
use huvm_hw::{aperture, ce, fault, host, instance, irq, memop, pte};

const CODES: &str = include_str!("../../../tests/vectors/codes.csv");

fn listed() -> BTreeMap<(String, u32), String> {
    let mut out = BTreeMap::new();
    for l in CODES.lines().filter(|l| !l.starts_with('#')) {
        let c: Vec<&str> = l.split(',').collect();
        let [name, variant, code, _] = *c.as_slice() else {
            unreachable!("{l}")
        };
        let code = match code.strip_prefix("0x") {
            Some(h) => u32::from_str_radix(h, 16).unwrap(),
            None => code.parse().unwrap(),
        };
        let old = out.insert((name.to_string(), code), variant.to_string());
        assert!(old.is_none(), "twice: {l}");
    }
    out
}

#[test]
fn every_code_is_the_listed_one_and_no_other_is_known() {
    let mut listed = listed();
    macro_rules! check {
        ($($path:path),*) => {$({
            type E = $path;
            let name = stringify!($path).rsplit(' ').next().unwrap();
            let name = name.rsplit("::").next().unwrap().to_string();
            for raw in 0..0x100 {
                let want = listed.remove(&(name.clone(), raw));
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

/// hw-interface 5.2 and 6.3.
#[test]
fn methods_have_their_offsets() {
    use ce::method as c;
    let got = [
        c::SET_SEMAPHORE_A,
        c::SET_SEMAPHORE_B,
        c::SET_SEMAPHORE_PAYLOAD,
        c::SET_SRC_PHYS_MODE,
        c::SET_DST_PHYS_MODE,
        c::LAUNCH_DMA,
        c::OFFSET_IN_UPPER,
        c::OFFSET_IN_LOWER,
        c::OFFSET_OUT_UPPER,
        c::OFFSET_OUT_LOWER,
        c::PITCH_IN,
        c::PITCH_OUT,
        c::LINE_LENGTH_IN,
        c::LINE_COUNT,
        c::SET_REMAP_CONST_A,
        c::SET_REMAP_CONST_B,
        c::SET_REMAP_COMPONENTS,
    ];
    let want = [
        0x240, 0x244, 0x248, 0x260, 0x264, 0x300, 0x400, 0x404, 0x408, 0x40c, 0x410, 0x414, 0x418,
        0x41c, 0x700, 0x704, 0x708,
    ];
    assert_eq!(got, want);
    use host::method as h;
    let got = [
        h::SET_OBJECT,
        h::NOP,
        h::NON_STALL_INT,
        h::FB_FLUSH,
        h::MEM_OP_A,
        h::MEM_OP_B,
        h::MEM_OP_C,
        h::MEM_OP_D,
        h::SET_REFERENCE,
        h::SEM_ADDR_LO,
        h::SEM_ADDR_HI,
        h::SEM_PAYLOAD_LO,
        h::SEM_PAYLOAD_HI,
        h::SEM_EXECUTE,
        h::WFI,
        h::YIELD,
        h::CLEAR_FAULTED,
    ];
    let want = [
        0x00, 0x08, 0x20, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x50, 0x5c, 0x60, 0x64, 0x68, 0x6c, 0x78,
        0x80, 0x84,
    ];
    assert_eq!(got, want);
}

/// hw-interface 4.1: level, shift, entries, bytes of an entry, bytes of a table; index of 0x1_5a5a_5a5a_5000.
#[test]
fn levels_have_their_geometry() {
    let want = [
        // The address, in binary from bit 48: 10 101101001 ... (0x15a5a5a5a5000).
        (Level::Pde3, 47, 4, 8, 32, 2),
        (Level::Pde2, 38, 512, 8, 4096, 0x169),
        (Level::Pde1, 29, 512, 8, 4096, 0xd2),
        (Level::Pde0, 21, 256, 16, 4096, 0xd2),
        (Level::Big, 16, 32, 8, 256, 0x1a),
        (Level::Small, 12, 512, 8, 4096, 0x1a5),
    ];
    for (l, shift, entries, bytes, table, index) in want {
        assert_eq!(
            (l.shift(), l.entries(), l.entry_bytes(), l.table_bytes()),
            (shift, entries, bytes, table)
        );
        assert_eq!(l.index(0x1_5a5a_5a5a_5000), index, "{l:?}");
    }
}

/// hw-interface 7.4.
#[test]
fn vectors_have_their_place() {
    let place = |v| irq::place(v).map(|p| (p.leaf, p.bit, p.subtree));
    assert_eq!(place(irq::REPLAYABLE_FAULT), Some((2, 0, 1)));
    assert_eq!(place(irq::ACCESS_COUNTER), Some((2, 8, 1)));
    assert_eq!(place(irq::NON_REPLAYABLE_FAULT), Some((4, 4, 2)));
    assert_eq!(place(irq::STALL_BASE), Some((6, 0, 3)));
    assert_eq!(place(255), Some((7, 31, 3)));
    assert_eq!(place(256), None);
}

#[test]
fn subcontexts_end() {
    assert_eq!(instance::sc_page_dir_base(0), Some(0x2a0));
    assert_eq!(instance::sc_page_dir_base(63), Some(4 * 420));
    assert_eq!(instance::sc_page_dir_base(64), None);
}
