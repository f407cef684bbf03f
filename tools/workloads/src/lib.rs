// SPDX-License-Identifier: GPL-2.0
//! Workloads by name and footprint: what they allocate, and in which order they touch it.
//!
//! A [`Workload`] comes from the [`catalog`]. It is a list of allocations and, for each pass, a lazy sequence of [`Step`]s: a
//! program of the workload engine (Documentation/device.md 2.3), a chunk of a page trace for its replay, or what the CPU does
//! between. The same name, footprint, passes and seed give the same bytes on any machine: no clock, no thread, no
//! function of the C library, whose last digits differ.
//!
//! Where a pattern is a sweep it is a program with real arithmetic, which [`shadow`] computes on the CPU as well; where it is
//! sparse, or an algorithm over an index, it is a trace of pages. [`touches`] gives both as pages.
#![forbid(unsafe_code)]

mod alloc;
pub mod catalog;
pub mod dnn;
pub mod graph;
mod grid;
mod lockstep;
mod math;
mod ml;
mod pattern;
mod program;
pub mod rng;
pub mod shadow;
mod size;
pub mod touches;
mod trace;
pub mod units;
mod workload;

pub use alloc::{Alloc, At, First, Init};
pub use catalog::{find, Ask, Entry, Refused};
pub use program::{Instr, Op, Program};
pub use workload::{Step, Steps, Touch, Trace, Workload};

/// Smallest page, bytes.
pub const PAGE: u64 = 4096;
/// Bytes of an element of a program.
pub const WORD: u64 = 8;
/// What a block of a sweep handles, bytes: the largest piece that the engine executes at once.
pub const PIECE: u64 = 65536;
/// Most blocks of a launch (device.md 2.3).
pub const MAX_BLOCKS: u64 = 1 << 20;
/// Most instructions of a launch (device.md 2.3).
pub const MAX_INSTR: usize = 16;
