// SPDX-License-Identifier: GPL-2.0
//! Its body: tests/fuzz/bodies/device.rs.
#![no_main]

pub use huvm_hal::{channel, ext, ga100, ids, pagetable, seam};

#[allow(dead_code)]
#[path = "../../../drivers/hal/src/fake.rs"]
mod fake;

#[path = "../../../drivers/hal/src/chaos.rs"]
mod chaos;

#[path = "../bodies/device.rs"]
mod of;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| of::body(bytes));
