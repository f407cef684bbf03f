// SPDX-License-Identifier: GPL-2.0
//! Reads the golden vectors. The tests of `drivers/hw`, `drivers/hal` and `qemu/model` include this file by path, so all
//! three read the same rows, and none of them reads numbers of another.
//!
//! A row that is missing, malformed or there twice panics, with the row: this is for tests only.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const CASES: &str = include_str!("cases.csv");
const CODES: &str = include_str!("codes.csv");
const FAULTS: &str = include_str!("faults.csv");
const FIELDS: &str = include_str!("fields.csv");
const INTERRUPTS: &str = include_str!("interrupts.csv");
const LEVELS: &str = include_str!("levels.csv");
const NUMBERS: &str = include_str!("numbers.csv");
const PTES: &str = include_str!("ptes.csv");
const REGISTERS: &str = include_str!("registers.csv");
const STRUCTS: &str = include_str!("structs.csv");

/// Cells of each row.
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

/// A decimal number, or a hexadecimal one with 0x.
fn number(s: &str) -> u64 {
    match s.strip_prefix("0x") {
        Some(h) => hex(h),
        None => s.parse().unwrap_or_else(|_| panic!("no number: {s}")),
    }
}

fn hex(s: &str) -> u64 {
    u64::from_str_radix(s, 16).unwrap_or_else(|_| panic!("not hexadecimal: {s}"))
}

fn words(s: &str) -> Vec<u64> {
    s.split(' ').map(hex).collect()
}

fn words32<const N: usize>(s: &str) -> [u32; N] {
    let w: Vec<u32> = words(s).into_iter().map(|w| w as u32).collect();
    w.try_into()
        .unwrap_or_else(|_| panic!("not {N} words: {s}"))
}

/// A field of a format, or of a register: the word that it is in, and its bits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    pub word: usize,
    pub mask: u64,
}

impl Bits {
    /// Largest value.
    pub fn max(self) -> u64 {
        self.mask >> self.mask.trailing_zeros()
    }
    /// `value` at its place.
    pub fn of64(self, value: u64) -> u64 {
        assert!(value <= self.max(), "{value:#x} does not fit {self:x?}");
        value << self.mask.trailing_zeros()
    }
    /// `value` at its place in a word of 32 bits.
    pub fn of(self, value: u32) -> u32 {
        self.of64(value.into()).try_into().unwrap()
    }
    /// The field's value in a word.
    pub fn get(self, word: u32) -> u32 {
        ((u64::from(word) & self.mask) >> self.mask.trailing_zeros()) as u32
    }
}

/// Names of the formats of fields.csv.
pub fn field_formats() -> BTreeSet<&'static str> {
    rows(FIELDS, 6).iter().map(|r| r[0]).collect()
}

/// Fields of a format, by name.
pub fn fields(format: &str) -> Vec<(&'static str, Bits)> {
    let mut out = Vec::new();
    for r in rows(FIELDS, 6).iter().filter(|r| r[0] == format) {
        let b = Bits {
            word: number(r[3]) as usize,
            mask: hex(r[4]),
        };
        assert_eq!(b.max(), number(r[2]), "{r:?}");
        out.push((r[1], b));
    }
    assert!(!out.is_empty(), "no format {format}");
    out
}

/// One field of a format.
pub fn bits(format: &str, field: &str) -> Bits {
    let all = fields(format);
    let f = all.iter().find(|f| f.0 == field);
    f.unwrap_or_else(|| panic!("no field {format}.{field}")).1
}

/// A row of registers.csv.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    pub unit: &'static str,
    pub name: &'static str,
    pub first: u32,
    pub last: u32,
    pub field: &'static str,
    pub bits: Bits,
}

/// Every row of registers.csv: a register comes once for each of its fields.
pub fn registers() -> Vec<Register> {
    rows(REGISTERS, 7)
        .iter()
        .map(|r| Register {
            unit: r[0],
            name: r[1],
            first: hex(r[2]) as u32,
            last: hex(r[3]) as u32,
            field: r[4],
            bits: Bits {
                word: 0,
                mask: hex(r[5]),
            },
        })
        .collect()
}

fn register(unit: &str, name: &str) -> Register {
    let all = registers();
    let r = all.iter().find(|r| r.unit == unit && r.name == name);
    *r.unwrap_or_else(|| panic!("no register {unit}.{name}"))
}

/// Offset of a register.
pub fn reg(unit: &str, name: &str) -> u32 {
    register(unit, name).first
}

/// Offset of register `i` of an array of `n`.
pub fn reg_at(unit: &str, name: &str, i: u32, n: u32) -> u32 {
    let r = register(unit, name);
    assert!(i < n && n > 1 && (r.last - r.first) % (n - 1) == 0);
    r.first + (r.last - r.first) / (n - 1) * i
}

/// A field of a register.
pub fn reg_bits(unit: &str, name: &str, field: &str) -> Bits {
    let all = registers();
    let r = all
        .iter()
        .find(|r| r.unit == unit && r.name == name && r.field == field);
    r.unwrap_or_else(|| panic!("no field {unit}.{name}.{field}"))
        .bits
}

/// Codes of an enumerated field: (name, code).
pub fn codes(of: &str) -> Vec<(&'static str, u32)> {
    let all = rows(CODES, 4);
    let of = all.iter().filter(|r| r[0] == of);
    of.map(|r| (r[1], number(r[2]) as u32)).collect()
}

/// A code of an enumerated field.
pub fn code(of: &str, name: &str) -> u32 {
    let all = codes(of);
    let c = all.iter().find(|c| c.0 == name);
    c.unwrap_or_else(|| panic!("no code {of}.{name}")).1
}

/// Every row of codes.csv, by enum and code.
pub fn all_codes() -> BTreeMap<(&'static str, u32), &'static str> {
    let mut out = BTreeMap::new();
    for r in rows(CODES, 4) {
        let old = out.insert((r[0], number(r[2]) as u32), r[1]);
        assert!(old.is_none(), "twice: {r:?}");
    }
    out
}

/// Groups of numbers.csv.
pub fn number_groups() -> BTreeSet<&'static str> {
    rows(NUMBERS, 4).iter().map(|r| r[0]).collect()
}

/// Numbers of a group: (name, value).
pub fn nums(group: &str) -> Vec<(&'static str, u32)> {
    let all = rows(NUMBERS, 4);
    let of = all.iter().filter(|r| r[0] == group);
    of.map(|r| (r[1], number(r[2]) as u32)).collect()
}

/// A number.
pub fn num(group: &str, name: &str) -> u32 {
    let all = nums(group);
    let n = all.iter().find(|n| n.0 == name);
    n.unwrap_or_else(|| panic!("no number {group}.{name}")).1
}

/// Who made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Gpc(u8, u8),
    Hub(u8),
}

/// A row of faults.csv; what is the same in all rows is in the constants.
#[derive(Clone, Copy, Debug)]
pub struct FaultRow {
    pub fault_type: &'static str,
    pub access: &'static str,
    pub engine: u16,
    pub client: Client,
    pub replayable: bool,
    pub replay_enabled: bool,
    pub words: [u32; 8],
}

/// Instance block of all rows of faults.csv, in coherent system memory.
pub const FAULT_INSTANCE: u64 = 0x1_2345_6000;
/// Address of all rows of faults.csv.
pub const FAULT_VA: u64 = 0x7f12_3456_7000;
/// Time of all rows of faults.csv, ns.
pub const FAULT_NS: u64 = 0x12_3456_7800;

pub fn faults() -> Vec<FaultRow> {
    let flag = |s| match s {
        "0" => false,
        "1" => true,
        _ => panic!("no flag: {s}"),
    };
    rows(FAULTS, 8)
        .iter()
        .map(|r| FaultRow {
            fault_type: r[0],
            access: r[1],
            engine: number(r[2]) as u16,
            client: match r[3].split(' ').collect::<Vec<_>>()[..] {
                ["gpc", g, c] => Client::Gpc(number(g) as u8, number(c) as u8),
                ["hub", c] => Client::Hub(number(c) as u8),
                _ => panic!("no client: {r:?}"),
            },
            replayable: flag(r[4]),
            replay_enabled: flag(r[5]),
            words: words32(r[6]),
        })
        .collect()
}

/// A row of ptes.csv.
#[derive(Clone, Copy, Debug)]
pub struct PteRow {
    pub size: &'static str,
    pub aperture: &'static str,
    pub peer: Option<u8>,
    pub address: u64,
    pub vol: bool,
    pub privilege: bool,
    pub read_only: bool,
    pub atomic_disable: bool,
    pub kind: u8,
    pub entry: u64,
}

pub fn ptes() -> Vec<PteRow> {
    let known = ["-", "vol", "privilege", "read_only", "atomic_disable"];
    rows(PTES, 8)
        .iter()
        .map(|r| {
            let flags: Vec<&str> = r[4].split(' ').collect();
            assert!(flags.iter().all(|f| known.contains(f)), "{r:?}");
            PteRow {
                size: r[0],
                aperture: r[1],
                peer: (r[2] != "-").then(|| number(r[2]) as u8),
                address: hex(r[3]),
                vol: flags.contains(&"vol"),
                privilege: flags.contains(&"privilege"),
                read_only: flags.contains(&"read_only"),
                atomic_disable: flags.contains(&"atomic_disable"),
                kind: hex(r[5]) as u8,
                entry: hex(r[6]),
            }
        })
        .collect()
}

/// (level, address, offset of its entry in the table)
pub fn levels() -> Vec<(&'static str, u64, u64)> {
    let all = rows(LEVELS, 4);
    all.iter().map(|r| (r[0], hex(r[1]), hex(r[2]))).collect()
}

/// A row of interrupts.csv.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    pub name: &'static str,
    pub vector: u32,
    pub leaf: u32,
    pub bit: u32,
    pub entry: u32,
}

pub fn interrupts() -> Vec<Interrupt> {
    rows(INTERRUPTS, 6)
        .iter()
        .map(|r| Interrupt {
            name: r[0],
            vector: number(r[1]) as u32,
            leaf: number(r[2]) as u32,
            bit: number(r[3]) as u32,
            entry: number(r[4]) as u32,
        })
        .collect()
}

/// A vector by name.
pub fn vector(name: &str) -> u32 {
    let all = interrupts();
    let i = all.iter().find(|i| i.name == name);
    i.unwrap_or_else(|| panic!("no vector {name}")).vector
}

/// Names of the structures of structs.csv.
pub fn structures() -> BTreeSet<&'static str> {
    rows(STRUCTS, 7).iter().map(|r| r[0]).collect()
}

/// All words of a structure of `bytes` bytes.
pub fn structure(name: &str, bytes: usize) -> Vec<u32> {
    let mut out = vec![0; bytes / 4];
    let mut found = false;
    for r in rows(STRUCTS, 7).iter().filter(|r| r[0] == name) {
        found = true;
        let (first, last) = (hex(r[1]) as usize, hex(r[2]) as usize);
        for at in (first..=last).step_by(hex(r[3]) as usize) {
            assert!(at % 4 == 0 && out[at / 4] == 0, "{r:?}");
            out[at / 4] = hex(r[4]) as u32;
        }
    }
    assert!(found, "no structure {name}");
    out
}

/// Formats of cases.csv.
pub fn case_formats() -> BTreeSet<&'static str> {
    rows(CASES, 5).iter().map(|r| r[0]).collect()
}

/// Cases of some formats. Each must be taken, or skipped by name, before the value is dropped.
pub struct Cases(RefCell<BTreeMap<(&'static str, &'static str), Vec<u64>>>);

impl Cases {
    pub fn of(formats: &[&str]) -> Cases {
        let mut m = BTreeMap::new();
        for r in rows(CASES, 5).iter().filter(|r| formats.contains(&r[0])) {
            let old = m.insert((r[0], r[1]), words(r[2]));
            assert!(old.is_none(), "twice: {r:?}");
        }
        Cases(RefCell::new(m))
    }
    fn one(&self, format: &str, case: &str) -> Vec<u64> {
        let mut m = self.0.borrow_mut();
        let key = m.keys().find(|k| **k == (format, case)).copied();
        let key = key.unwrap_or_else(|| panic!("no case {format},{case}"));
        m.remove(&key).unwrap()
    }
    /// Words of 64 bits.
    pub fn take64<const N: usize>(&self, format: &str, case: &str) -> [u64; N] {
        let w = self.one(format, case);
        w.try_into().unwrap_or_else(|w| panic!("{case}: {w:x?}"))
    }
    /// Words of 32 bits.
    pub fn take<const N: usize>(&self, format: &str, case: &str) -> [u32; N] {
        let w = self.words(format, case);
        w.try_into().unwrap_or_else(|w| panic!("{case}: {w:x?}"))
    }
    /// Words of 32 bits, however many.
    pub fn words(&self, format: &str, case: &str) -> Vec<u32> {
        let w = self.one(format, case).into_iter();
        w.map(|w| w.try_into().unwrap()).collect()
    }
    /// A word of 32 bits.
    pub fn word(&self, format: &str, case: &str) -> u32 {
        let [w] = self.take(format, case);
        w
    }
    /// Cases that the code under test cannot make or read; say why beside the call.
    pub fn skip(&self, format: &str, cases: &[&str]) {
        for case in cases {
            self.one(format, case);
        }
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.borrow().is_empty(), "unused: {:x?}", self.0.borrow());
        }
    }
}
