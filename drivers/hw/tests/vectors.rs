// SPDX-License-Identifier: GPL-2.0
//! Every field of every format and register against the hand-made vectors of tests/vectors/.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::BTreeSet;

use huvm_hw::bits::{Named32, Named64, Register};
use huvm_hw::{ce, counter, fault, host, instance, memop, pte, regs, runlist};

#[path = "../../../tests/vectors/reader.rs"]
mod reader;

fn formats32() -> Vec<(&'static str, &'static [Named32])> {
    vec![
        ("fault", fault::FIELDS),
        ("counter", counter::FIELDS),
        ("ramin", instance::ramin::FIELDS),
        ("ramfc", instance::ramfc::FIELDS),
        ("memop", memop::field::FIELDS),
        ("ce.upper", ce::upper::FIELDS),
        ("ce.phys_mode", ce::phys_mode::FIELDS),
        ("ce.launch", ce::launch::FIELDS),
        ("ce.remap", ce::remap::FIELDS),
        ("host.set_object", host::set_object::FIELDS),
        ("host.sem_addr", host::sem_addr::FIELDS),
        ("host.sem_execute", host::sem_execute::FIELDS),
        ("host.wfi", host::wfi::FIELDS),
        ("host.yield", host::yield_::FIELDS),
        ("host.header", host::header::FIELDS),
        ("host.gp_entry", host::gp_entry::FIELDS),
        ("host.doorbell", host::doorbell::FIELDS),
        ("runlist.channel", runlist::channel::FIELDS),
        ("runlist.tsg", runlist::tsg::FIELDS),
        ("device_info", regs::system::device_info::FIELDS),
        ("channel_ram", regs::host::channel_ram::FIELDS),
    ]
}

fn formats64() -> Vec<(&'static str, &'static [Named64])> {
    vec![
        ("pte", pte::leaf::FIELDS),
        ("pde", pte::pde::FIELDS),
        ("pde0", pte::pde0::FIELDS),
    ]
}

fn units() -> Vec<(&'static str, &'static [Register])> {
    vec![
        ("system", regs::system::REGISTERS),
        ("vf", regs::vf::REGISTERS),
        ("host", regs::host::REGISTERS),
    ]
}

#[test]
fn fields_are_where_the_vectors_say() {
    for format in reader::field_formats() {
        for (name, b) in reader::fields(format) {
            let r = format!("{format}.{name}");
            let f32 = formats32().into_iter().find(|f| f.0 == format);
            let f64 = formats64().into_iter().find(|f| f.0 == format);
            if let Some(n) = f32.and_then(|f| f.1.iter().find(|n| n.name == name)) {
                let (value, expected) = (b.max() as u32, b.mask as u32);
                assert_eq!((n.word, n.field.max()), (b.word, value), "{r}");
                assert_eq!(n.field.of(value), expected, "{r}");
                assert_eq!(n.field.get(expected), value, "{r}");
                assert_eq!(n.field.get(!expected), 0, "{r}");
                assert_eq!(n.field.set(u32::MAX, 0), !expected, "{r}");
                assert_eq!(n.field.checked(value), Some(expected), "{r}");
                if value < u32::MAX {
                    assert_eq!(n.field.checked(value + 1), None, "{r}");
                }
            } else if let Some(n) = f64.and_then(|f| f.1.iter().find(|n| n.name == name)) {
                let (value, expected) = (b.max(), b.mask);
                assert_eq!((n.word, n.field.max()), (b.word, value), "{r}");
                assert_eq!(n.field.of(value), expected, "{r}");
                assert_eq!(n.field.get(expected), value, "{r}");
                assert_eq!(n.field.get(!expected), 0, "{r}");
                assert_eq!(n.field.set(u64::MAX, 0), !expected, "{r}");
                assert_eq!(n.field.checked(value + 1), None, "{r}");
            } else {
                panic!("the crate has no such field: {r}");
            }
        }
    }
}

#[test]
fn registers_are_where_the_vectors_say() {
    for r in reader::registers() {
        let unit = units().into_iter().find(|u| u.0 == r.unit).unwrap().1;
        let reg = unit
            .iter()
            .find(|x| x.name == r.name)
            .unwrap_or_else(|| panic!("the crate has no such register: {r:?}"));
        assert_eq!(reg.offset, r.first, "{r:?}");
        let last = reg.offset + (reg.count - 1) * reg.stride;
        assert_eq!(last, r.last, "{r:?}");
        let n = reg
            .fields
            .iter()
            .find(|n| n.name == r.field)
            .unwrap_or_else(|| panic!("the register has no such field: {r:?}"));
        let mask = r.bits.mask as u32;
        assert_eq!(n.field.of(u32::MAX), mask, "{r:?}");
        assert_eq!(n.field.get(mask), n.field.max(), "{r:?}");
        assert_eq!(n.field.get(!mask), 0, "{r:?}");
    }
}

/// A field without a row, or a row twice, fails.
#[test]
fn every_field_has_one_row() {
    let mut seen = BTreeSet::new();
    for format in reader::field_formats() {
        for (name, _) in reader::fields(format) {
            assert!(seen.insert((format, name)), "twice: {format}.{name}");
        }
    }
    for (format, fields) in formats32() {
        for n in fields {
            assert!(
                seen.remove(&(format, n.name)),
                "{format}.{}: no row",
                n.name
            );
        }
    }
    for (format, fields) in formats64() {
        for n in fields {
            assert!(
                seen.remove(&(format, n.name)),
                "{format}.{}: no row",
                n.name
            );
        }
    }
    assert!(seen.is_empty(), "{seen:?}");

    let mut seen = BTreeSet::new();
    for r in reader::registers() {
        assert!(seen.insert((r.unit, r.name, r.field)), "twice: {r:?}");
    }
    for (unit, registers) in units() {
        for reg in registers {
            for n in reg.fields {
                let key = (unit, reg.name, n.name);
                assert!(seen.remove(&key), "{key:?}: no row");
            }
        }
    }
    assert!(seen.is_empty(), "{seen:?}");
}

#[test]
fn register_arrays_end() {
    use regs::vf::{fault_buffer_get, leaf};
    assert_eq!(fault_buffer_get::at(regs::vf::REPLAYABLE), Some(0xb8_3028));
    assert_eq!(fault_buffer_get::at(2), None);
    assert_eq!(leaf::at(7), Some(0xb8_101c));
    assert_eq!(leaf::at(8), None);
    assert_eq!(leaf::at(u32::MAX), None);
}
