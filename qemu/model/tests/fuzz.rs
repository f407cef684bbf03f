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
use common::{hostile::drive, steps::guest};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_guest(bytes in prop::collection::vec(any::<u8>(), 16..4000)) {
        if let Ok(g) = guest(&bytes, 60) {
            drive(g.steps, g.timing, g.seed);
        }
    }
}
