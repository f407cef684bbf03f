// SPDX-License-Identifier: GPL-2.0
//! The device model under a hostile guest: registers, page tables, pushbuffers, launch descriptors, time. What must hold is
//! in the model's own tests (`hostile::drive`): no panic, bounded work, nothing outside of VRAM.

use crate::common::{hostile::drive, steps::guest};

pub(crate) fn body(bytes: &[u8]) {
    if let Ok(g) = guest(bytes, 80) {
        drive(g.steps, g.timing, g.seed);
    }
}
