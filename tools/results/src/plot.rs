// SPDX-License-Identifier: GPL-2.0
//! Pictures: bars of rows, and of recorded events timelines and heat maps.

pub mod bars;
pub mod heat;
mod span;
pub mod timeline;

/// Pixels around everything.
const EDGE: i32 = 16;
/// Pixels that the scale of a picture takes to the right.
const WIDE: i32 = 640;
