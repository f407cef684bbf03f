// SPDX-License-Identifier: GPL-2.0
//! What the fuzz target `device` has found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::precedence
)]

pub use huvm_hal::{channel, ext, ga100, ids, pagetable, seam};

#[allow(dead_code)]
#[path = "../../../drivers/hal/src/fake.rs"]
mod fake;

#[allow(dead_code)]
#[path = "../../../drivers/hal/src/chaos.rs"]
mod chaos;

#[path = "../../fuzz/bodies/device.rs"]
mod of;

#[test]
fn nothing_breaks_it_again() {
    assert!(huvm_found::each("device", of::body).unwrap() > 10);
}
