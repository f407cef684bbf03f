// SPDX-License-Identifier: GPL-2.0
//! The driver's protocol code under a device that says anything: its registers, its rings, its configuration space, and
//! memory that it has written over. The first byte names the duty, the others are what the device says.
#![no_main]

pub use huvm_hal::{channel, ext, ga100, ids, pagetable, seam};

#[allow(dead_code)]
#[path = "../../../drivers/hal/src/fake.rs"]
mod fake;

#[path = "../../../drivers/hal/src/chaos.rs"]
mod chaos;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((duty, tape)) = bytes.split_first() else {
        return;
    };
    let c = chaos::Chaos::new(tape, 0x1234_5678_9abc_def1);
    let mut reached = chaos::Reached::default();
    match duty % 6 {
        0 => chaos::registers(&c, &mut reached),
        1 => chaos::rings(&c, &mut reached),
        2 => chaos::counters(&c),
        3 => chaos::descriptor(&c),
        4 => chaos::channel(&c),
        _ => chaos::tables(&c),
    }
});
