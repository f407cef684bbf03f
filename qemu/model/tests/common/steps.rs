// SPDX-License-Identifier: GPL-2.0
//! The steps of a hostile guest, made from bytes: of a random number generator, or of a fuzzer that looks where they lead.

use super::hostile::{Step, EXT_REGISTERS, REGISTERS};
use super::{PDE3, SYS_VA};
use arbitrary::{Result, Unstructured};

/// Steps to do, and with which clock and which random numbers of the device's own.
pub struct Guest {
    pub steps: Vec<Step>,
    pub timing: bool,
    pub seed: u32,
}

/// As many steps as the bytes make, but no more than `most`.
pub fn guest(bytes: &[u8], most: usize) -> Result<Guest> {
    let mut u = Unstructured::new(bytes);
    let (timing, seed) = (u.arbitrary()?, u.arbitrary()?);
    let mut steps = Vec::new();
    while steps.len() < most && !u.is_empty() {
        let Ok(s) = step(&mut u) else { break };
        steps.push(s);
    }
    Ok(Guest {
        steps,
        timing,
        seed,
    })
}

/// Kinds of steps: who is listed several times comes as often.
const KINDS: [u32; 33] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 9, 9, 10, 10, 10, 11, 11, 11,
    12, 12, 13,
];

fn register(u: &mut Unstructured<'_>, blocks: &[(u32, u32)]) -> Result<u32> {
    let (base, bytes) = *u.choose(blocks)?;
    Ok(base + 4 * u.int_in_range(0..=bytes / 4 - 1)?)
}

fn value(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u.int_in_range(0..=5)? {
        0 => u.arbitrary()?,
        1 => 0,
        2 => u32::MAX,
        3 => u.int_in_range(0..=63)?,
        // Pages of small memories, with low bits.
        4 => u.int_in_range(0..=0x3ff)? << 12 | u.int_in_range(0..=15)?,
        _ => 1 << u.int_in_range(0..=31)?,
    })
}

fn words(u: &mut Unstructured<'_>, most: usize) -> Result<Vec<u32>> {
    (0..u.int_in_range(1..=most)?).map(|_| value(u)).collect()
}

/// One method of a pushbuffer, with its data.
fn method(u: &mut Unstructured<'_>) -> Result<Vec<u32>> {
    let blocks = [
        (0, 0x90),
        (0x240, 0xc4),
        (0x400, 0x20),
        (0x700, 12),
        (0, 0x4000),
    ];
    let at = register(u, &blocks)?;
    let data = words(u, 5)?;
    let (op, sub) = (u.int_in_range(0..=7)?, u.int_in_range(0..=7)?);
    // Mostly increasing methods on subchannel 0.
    let op = if op == 7 { sub } else { 1 };
    let sub = if sub < 6 { 0 } else { sub };
    let mut all = vec![op << 29 | (data.len() as u32) << 16 | sub << 13 | at / 4];
    all.extend(data);
    Ok(all)
}

/// An address that is mapped, or not.
fn address(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=4)? {
        0 => SYS_VA + u.int_in_range(0..=0x3f_ffff)?,
        1 => 0x8000_0000 + u.int_in_range(0..=0x3f_ffff)?,
        2 => 0x10_0000_0000 + u.int_in_range(0..=0x9fff)?,
        3 => u.int_in_range(0..=0x4ff_ffff)?,
        _ => u.arbitrary()?,
    })
}

/// An operand of a launch: as often an address that a program can use as not.
fn operand(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=3)? {
        0 => 0x10_0000_0000,
        1 => SYS_VA + (u.int_in_range(0..=0x3ff)? << 12),
        2 => 0x8000_0000 + 8 * u.int_in_range(0..=0x7fff)?,
        _ => u.arbitrary()?,
    })
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match *u.choose(&KINDS)? {
        0 => Step::Write {
            bar: 0,
            at: register(u, &REGISTERS)?,
            value: value(u)?,
        },
        1 => Step::Write {
            bar: 5,
            at: register(u, &EXT_REGISTERS)?,
            value: value(u)?,
        },
        2 => match u.arbitrary()? {
            true => Step::Read {
                bar: 0,
                at: register(u, &REGISTERS)?,
            },
            false => Step::Read {
                bar: 5,
                at: register(u, &EXT_REGISTERS)?,
            },
        },
        3 => Step::Odd {
            bar: *u.choose(&[0, 1, 2, 3, 5])?,
            at: u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?,
            size: *u.choose(&[1, 2, 4, 8])?,
            value: u.arbitrary()?,
        },
        4 => Step::Words {
            vram: u.arbitrary()?,
            at: u.int_in_range(0..=0x3ff)? << 12,
            words: words(u, 40)?,
        },
        5 => Step::Words {
            vram: true,
            at: PDE3 as u32 + (u.int_in_range(0..=0xf_ffff)? & 0xffff8),
            words: words(u, 8)?,
        },
        6 => {
            let many = u.int_in_range(1..=12)?;
            let all: Result<Vec<_>> = (0..many).map(|_| method(u)).collect();
            Step::Pushbuffer {
                words: all?.concat(),
            }
        }
        7 => Step::Copy {
            src: address(u)?,
            dst: address(u)?,
            len: match u.int_in_range(0..=2)? {
                0 => u.int_in_range(0..=9_999)?,
                1 => 5 << 20,
                _ => u.arbitrary()?,
            },
            launch: u.arbitrary()?,
            remap: u.arbitrary()?,
            modes: [u.int_in_range(0..=3)?, u.int_in_range(0..=3)?],
        },
        8 => Step::Semaphore {
            va: address(u)? & !15,
            payload: u.arbitrary()?,
            execute: u.arbitrary()?,
        },
        9 => Step::MemOp {
            words: [
                value(u)?,
                u.int_in_range(0..=63)?,
                value(u)?,
                u.choose(&[5, 9, 10, 0x16, 3])? << 27 | u.int_in_range(0..=3)?,
            ],
        },
        10 => {
            let mut fields = [0; 11];
            for f in &mut fields {
                *f = match u.int_in_range(0..=4)? {
                    0 | 1 => operand(u)?,
                    2 => u.int_in_range(0..=4_999)?,
                    3 => 1 << 32,
                    _ => u.arbitrary()?,
                };
            }
            Step::Launch {
                op: u.int_in_range(0..=12)?,
                fields,
                blocks: u.int_in_range(1..=199)?,
                elem: *u.choose(&[4, 8])?,
            }
        }
        11 => Step::Time {
            ns: u.int_in_range(0..=1_999_999)?,
        },
        12 => Step::Recover,
        _ => Step::Reset,
    })
}
