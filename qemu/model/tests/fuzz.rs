// SPDX-License-Identifier: GPL-2.0
//! A hostile guest: random registers, page tables, pushbuffers and descriptors. The model never
//! panics, does a bounded amount of work per call, and makes no access outside VRAM.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

mod common;
use common::hostile::{drive, Step, EXT_REGISTERS, REGISTERS};
use common::*;
use proptest::prelude::*;

/// A register of one of these blocks.
fn of(blocks: &'static [(u32, u32)]) -> impl Strategy<Value = u32> {
    prop::sample::select(blocks)
        .prop_flat_map(|(base, bytes)| (0..bytes / 4).prop_map(move |i| base + 4 * i))
}

fn register() -> impl Strategy<Value = u32> {
    of(&REGISTERS)
}

fn ext_register() -> impl Strategy<Value = u32> {
    of(&EXT_REGISTERS)
}

fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        Just(0),
        Just(u32::MAX),
        (0u32..64),
        // Pages of the small memories below, with low bits.
        (0u32..0x400, 0u32..16).prop_map(|(p, low)| p << 12 | low),
        (0u32..32).prop_map(|b| 1 << b),
    ]
}

fn method() -> impl Strategy<Value = Vec<u32>> {
    let address = prop_oneof![
        (0u32..0x24).prop_map(|i| 4 * i),
        (0x240u32 / 4..0x304 / 4).prop_map(|i| 4 * i),
        (0x400u32 / 4..0x420 / 4).prop_map(|i| 4 * i),
        (0x700u32 / 4..0x70c / 4).prop_map(|i| 4 * i),
        (0u32..0x1000).prop_map(|i| 4 * i),
    ];
    (
        address,
        prop::collection::vec(value(), 1..6),
        0u32..8,
        0u32..8,
    )
        .prop_map(|(a, data, op, sub)| {
            // Mostly increasing methods on subchannel 0.
            let op = if op == 7 { sub } else { 1 };
            let sub = if sub < 6 { 0 } else { sub };
            let mut v = vec![op << 29 | (data.len() as u32) << 16 | sub << 13 | a / 4];
            v.extend(data);
            v
        })
}

fn address2() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u64..0x10_0000).prop_map(|x| SYS_VA + 0x10_0000 + x),
        (0u64..0x40_0000).prop_map(|x| 0x8000_0000 + x),
        (0u64..0xa000).prop_map(|x| 0x10_0000_0000 + x),
        (0u64..0x500_0000),
        any::<u64>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let address = prop_oneof![
        Just(0x10_0000_0000u64),
        (0u64..0x400).prop_map(|p| SYS_VA + (p << 12)),
        (0u64..0x8000).prop_map(|x| 0x8000_0000 + x * 8),
        any::<u64>(),
    ];
    let small = prop_oneof![0u64..5000, Just(1u64 << 32), any::<u64>()];
    prop_oneof![
        4 => (register(), value()).prop_map(|(at, value)| Step::Write { bar: 0, at, value }),
        2 => (ext_register(), value()).prop_map(|(at, value)| Step::Write { bar: 5, at, value }),
        1 => register().prop_map(|at| Step::Read { bar: 0, at }),
        1 => ext_register().prop_map(|at| Step::Read { bar: 5, at }),
        1 => (prop::sample::select(vec![0u32, 1, 2, 3, 5]), any::<u64>(),
              prop::sample::select(vec![1u32, 2, 4, 8]), any::<u64>())
            .prop_map(|(bar, at, size, value)| Step::Odd { bar, at: at >> (value & 63), size, value }),
        2 => (any::<bool>(), (0u32..0x400), prop::collection::vec(value(), 1..40))
            .prop_map(|(vram, page, words)| Step::Words { vram, at: page << 12, words }),
        1 => (0u32..0x10_0000, prop::collection::vec(value(), 1..8))
            .prop_map(|(at, words)| Step::Words { vram: true, at: PDE3 as u32 + (at & 0xfff8), words }),
        4 => prop::collection::vec(method(), 1..12)
            .prop_map(|m| Step::Pushbuffer { words: m.concat() }),
        3 => (0u32..13, prop::array::uniform11(prop_oneof![2 => address, 3 => small]), 1u32..200,
              prop::sample::select(vec![4u32, 8]))
            .prop_map(|(op, fields, blocks, elem)| Step::Launch { op, fields, blocks, elem }),
        4 => (address2(), address2(), prop_oneof![0u32..10_000, Just(5 << 20), any::<u32>()],
              any::<u32>(), any::<u32>(), [0u32..4, 0u32..4])
            .prop_map(|(src, dst, len, launch, remap, modes)| Step::Copy { src, dst, len, launch, remap, modes }),
        2 => (address2(), any::<u64>(), any::<u32>())
            .prop_map(|(va, payload, execute)| Step::Semaphore { va: va & !15, payload, execute }),
        2 => (value(), 0u32..64, value(), prop::sample::select(vec![5u32, 9, 10, 0x16, 3]), 0u32..4)
            .prop_map(|(a, b, c, op, d)| Step::MemOp { words: [a, b, c, op << 27 | d] }),
        2 => Just(Step::Recover),
        3 => (0u32..2_000_000).prop_map(|ns| Step::Time { ns }),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_guest(steps in prop::collection::vec(step(), 1..60), timing: bool, seed: u32) {
        drive(steps, timing, seed);
    }
}
