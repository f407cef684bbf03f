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

const FIELDS: &str = include_str!("../../../tests/vectors/fields.csv");
const REGISTERS: &str = include_str!("../../../tests/vectors/registers.csv");

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

fn rows(csv: &'static str, columns: usize) -> Vec<Vec<&'static str>> {
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|l| l.split(',').collect())
        .collect();
    for r in &rows {
        assert_eq!(r.len(), columns, "{r:?}");
    }
    rows
}

fn number(s: &str) -> u64 {
    match s.strip_prefix("0x") {
        Some(h) => u64::from_str_radix(h, 16).unwrap(),
        None => s.parse().unwrap(),
    }
}

fn hex(s: &str) -> u64 {
    u64::from_str_radix(s, 16).unwrap()
}

#[test]
fn fields_are_where_the_vectors_say() {
    for r in rows(FIELDS, 6) {
        let (value, word, expected) = (number(r[2]), number(r[3]) as usize, hex(r[4]));
        let f32 = formats32().into_iter().find(|f| f.0 == r[0]);
        let f64 = formats64().into_iter().find(|f| f.0 == r[0]);
        if let Some(n) = f32.and_then(|f| f.1.iter().find(|n| n.name == r[1])) {
            let (value, expected) = (value as u32, expected as u32);
            assert_eq!((n.word, n.field.max()), (word, value), "{r:?}");
            assert_eq!(n.field.of(value), expected, "{r:?}");
            assert_eq!(n.field.get(expected), value, "{r:?}");
            assert_eq!(n.field.get(!expected), 0, "{r:?}");
            assert_eq!(n.field.set(u32::MAX, 0), !expected, "{r:?}");
            assert_eq!(n.field.checked(value), Some(expected), "{r:?}");
            if value < u32::MAX {
                assert_eq!(n.field.checked(value + 1), None, "{r:?}");
            }
        } else if let Some(n) = f64.and_then(|f| f.1.iter().find(|n| n.name == r[1])) {
            assert_eq!((n.word, n.field.max()), (word, value), "{r:?}");
            assert_eq!(n.field.of(value), expected, "{r:?}");
            assert_eq!(n.field.get(expected), value, "{r:?}");
            assert_eq!(n.field.get(!expected), 0, "{r:?}");
            assert_eq!(n.field.set(u64::MAX, 0), !expected, "{r:?}");
            assert_eq!(n.field.checked(value + 1), None, "{r:?}");
        } else {
            panic!("the crate has no such field: {r:?}");
        }
    }
}

#[test]
fn registers_are_where_the_vectors_say() {
    for r in rows(REGISTERS, 7) {
        let unit = units().into_iter().find(|u| u.0 == r[0]).unwrap().1;
        let reg = unit
            .iter()
            .find(|x| x.name == r[1])
            .unwrap_or_else(|| panic!("the crate has no such register: {r:?}"));
        assert_eq!(u64::from(reg.offset), hex(r[2]), "{r:?}");
        let last = reg.offset + (reg.count - 1) * reg.stride;
        assert_eq!(u64::from(last), hex(r[3]), "{r:?}");
        let n = reg
            .fields
            .iter()
            .find(|n| n.name == r[4])
            .unwrap_or_else(|| panic!("the register has no such field: {r:?}"));
        assert_eq!(u64::from(n.field.of(u32::MAX)), hex(r[5]), "{r:?}");
        assert_eq!(n.field.get(hex(r[5]) as u32), n.field.max(), "{r:?}");
        assert_eq!(n.field.get(!hex(r[5]) as u32), 0, "{r:?}");
    }
}

/// A field without a row, or a row twice, fails.
#[test]
fn every_field_has_one_row() {
    let mut seen = BTreeSet::new();
    for r in rows(FIELDS, 6) {
        assert!(seen.insert((r[0], r[1])), "twice: {r:?}");
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
    for r in rows(REGISTERS, 7) {
        assert!(seen.insert((r[0], r[1], r[4])), "twice: {r:?}");
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
