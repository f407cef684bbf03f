// SPDX-License-Identifier: GPL-2.0
//! What the fuzz target `guest` has found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

#[path = "../../../qemu/model/tests/common/mod.rs"]
mod common;

#[path = "../../fuzz/bodies/guest.rs"]
mod of;

#[test]
fn nothing_breaks_it_again() {
    assert!(huvm_found::each("guest", of::body).unwrap() > 10);
}
