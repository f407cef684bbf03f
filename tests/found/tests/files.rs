// SPDX-License-Identifier: GPL-2.0
//! What the fuzz target `files` has found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

#[path = "../../fuzz/bodies/files.rs"]
mod of;

#[test]
fn nothing_breaks_it_again() {
    assert!(huvm_found::each("files", of::body).unwrap() > 10);
}
