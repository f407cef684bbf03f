// SPDX-License-Identifier: GPL-2.0
//! What the fuzz target `tool` has found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

#[path = "../../fuzz/bodies/tool.rs"]
mod of;

#[test]
fn nothing_breaks_it_again() {
    assert!(huvm_found::each("tool", of::body).unwrap() > 10);
}
