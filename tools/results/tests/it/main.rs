// SPDX-License-Identifier: GPL-2.0
//! The tests of the tool, in one program: linking each file alone takes longer than running it.
// Helpers of tests: clippy sees tests only in functions marked so.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;
mod doc;
mod plot;
mod replay;
mod row_files;
