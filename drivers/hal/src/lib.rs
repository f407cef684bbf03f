// SPDX-License-Identifier: GPL-2.0
//! Hardware duties of the driver over two traits: no kernel, no locks, no clock, no allocation.
//!
//! A *duty* is one thing the driver asks of a GPU: name its engines, take an interrupt, map a page, copy, wait
//! for a copy, drain faults, replay, launch a workload. Each duty is a plain function or a small state
//! machine that reaches the device through [`seam::Mmio`] (32-bit registers) and [`seam::DmaMem`] (a coherent
//! buffer that CPU and device share). The kernel implements both with a BAR and coherent DMA memory; the
//! loopback tests implement them with the device model, in one process.
//!
//! Rules that hold in every module:
//! - Memory is the caller's: tables, rings and pushbuffers are [`seam::DmaMem`] values handed in and handed back.
//! - Locks are the caller's: a `&mut self` is the evidence that the caller holds the one that guards it.
//! - Every loop that waits for the device asks the caller's [`seam::Wait`] before each new look, and gives up with
//!   [`Error::Timeout`] when that says no.
//! - A device that is gone reads all ones. Duties notice and return [`Error::Gone`]; none of them panics or spins.
//!
//! Where to look:
//!
//! | module | duty |
//! | --- | --- |
//! | [`ga100::bringup`] | [`ga100::bringup::identify`]: ids, VRAM size, copy engines, interrupt vectors; readying copy engines, and why one refuses |
//! | [`ga100::irq`] | top half: pending vectors of a message, clear, mask, unmask, test interrupt |
//! | [`ga100::instance`] | fill instance blocks for a channel or for a workload |
//! | [`ga100::runlist`] | submit a runlist, enable, disable, preempt, wait for the flag of a fault and clear it |
//! | [`ga100::fault`] | fault rings: configure, drain, flush, overflow recovery |
//! | [`ga100::counter`] | access-counter notifications |
//! | [`ga100::invalidate`] | TLB invalidate and fault replay by registers |
//! | [`pagetable`] | [`pagetable::Tree`] (upper levels of one VA space) and [`pagetable::Block`] (2 MiB of it) |
//! | [`channel`] | [`channel::Channel`]: pushbuffer, GPFIFO, doorbell, tracking semaphore; [`channel::Tracker`] |
//! | [`ext`] | what is invented: topology, workload engine, throttle, statistics, injection, time |
#![cfg_attr(not(any(test, MODULE)), no_std)]
#![forbid(unsafe_code)]

pub mod channel;
pub mod error;
pub mod ext;
pub mod ga100;
pub mod ids;
pub mod pagetable;
pub mod seam;

#[cfg(test)]
mod chaos;
#[cfg(test)]
mod fake;
#[cfg(test)]
#[path = "../../../tests/vectors/reader.rs"]
mod vectors;

pub use error::{Error, Result};
