// SPDX-License-Identifier: GPL-2.0
//! Registers by unit: one module each, with OFFSET, `at(i)` and its fields. Offsets are in BAR0 unless the unit says
//! otherwise.

pub mod host;
pub mod system;
pub mod vf;
