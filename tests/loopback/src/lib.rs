// SPDX-License-Identifier: GPL-2.0
//! Loopback: the driver's hardware duties (huvm_hal) against the device model (huvm_model), in one process.
//!
//! [`Loop`] is a machine of GPUs with its memory and its clock; [`Gpu`] is what the driver sees of one (registers),
//! [`Mem`] a DMA buffer. Time stands still but when somebody waits: each look of a [`Loop::wait`] lets the next event
//! of the model happen. [`driver`] is a driver of a few lines that puts the duties together, for the tests in `tests/`.
#![forbid(unsafe_code)]

pub mod driver;
mod machine;

pub use machine::{Gpu, Loop, Mem, Vram};
