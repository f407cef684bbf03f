// SPDX-License-Identifier: GPL-2.0
//! uvmctl: see Documentation/design.md.
fn main() {}
