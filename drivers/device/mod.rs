// SPDX-License-Identifier: GPL-2.0
//! GPUs: finding them, bringing them up, letting them go.
//!
//! A [`Gpu`] lives as long as somebody refers to it, which may be longer than the device: files, spaces and blocks keep it.
//! From the moment it is *lost* (removed, or dead) every operation on it fails at once, its registers read all ones, and it
//! can reach no memory. [`driver`] is the PCI side and has the order in which things start and stop; [`registry`] has the
//! GPUs that are there.

pub(crate) mod bell;
pub(crate) mod driver;
pub(crate) mod faults;
mod gpu;
mod irq;
mod loss;
pub(crate) mod peer;
pub(crate) mod registry;
pub(crate) mod selftest;

pub(crate) use gpu::Gpu;
pub(crate) use loss::Loss;
