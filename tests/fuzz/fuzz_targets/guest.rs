// SPDX-License-Identifier: GPL-2.0
//! The device model under a hostile guest: registers, page tables, pushbuffers, launch descriptors, time. What must hold is
//! in the model's own tests (`hostile::drive`): no panic, bounded work, nothing outside of VRAM.
#![no_main]

use common::{hostile::drive, steps::guest};

#[path = "../../../qemu/model/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(g) = guest(bytes, 80) {
        drive(g.steps, g.timing, g.seed);
    }
});
