// SPDX-License-Identifier: GPL-2.0
//! The driver's protocol code under a device that says anything: its registers, its rings, its configuration space, and memory that it has
//! written over; and under programs that users write. The first byte names the duty, the others are what is said.

use crate::chaos::{self, Chaos, Reached};

pub(crate) fn body(bytes: &[u8]) {
    let Some((duty, tape)) = bytes.split_first() else {
        return;
    };
    let c = Chaos::new(tape, 0x1234_5678_9abc_def1);
    let mut reached = Reached::default();
    match duty % 7 {
        0 => chaos::registers(&c, &mut reached),
        1 => chaos::rings(&c, &mut reached),
        2 => chaos::counters(&c),
        3 => chaos::descriptor(&c),
        4 => chaos::channel(&c),
        5 => chaos::tables(&c),
        _ => chaos::instructions(&c, &mut reached),
    }
}
