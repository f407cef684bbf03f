// SPDX-License-Identifier: GPL-2.0
//! Its body: tests/fuzz/bodies/guest.rs.
#![no_main]

#[path = "../../../qemu/model/tests/common/mod.rs"]
mod common;

#[path = "../bodies/guest.rs"]
mod of;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| of::body(bytes));
