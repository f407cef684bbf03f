// SPDX-License-Identifier: GPL-2.0
//! Its body: tests/fuzz/bodies/tool.rs.
#![no_main]

#[path = "../bodies/tool.rs"]
mod of;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| of::body(bytes));
