// SPDX-License-Identifier: GPL-2.0
//! huvm_model: a GPU, or several, as a machine sees them.
//!
//! The device that `Documentation/device.md` specifies: a GA100-class GPU at the host and MMU
//! level (formats: `reference/hw-interface.md`), with invented registers in BAR5. It knows nothing
//! of QEMU: [`machine::Machine`] takes accesses and a timer, [`host::Host`] gives it time, memory
//! and interrupts. Same accesses at the same times give the same behaviour, always.
//!
//! - `machine`, `queue`, `gpu`, `regs`: entry points, events, dispatch
//! - `irq`, `window`, `fault`, `counter`: what the CPU talks to
//! - `pte`, `mmu`, `replay`: translation, TLBs, invalidate, replay and cancel
//! - `runlist`, `channel`, `fetch`, `method`, `ce`, `copy`: channels and copy engines
//! - `fabric`: links and memories as resources that queue
//! - `ext`, `work`: BAR5
#![forbid(unsafe_code)]

pub mod bar0;
mod ce;
mod channel;
pub mod config;
mod copy;
mod counter;
mod ext;
mod fabric;
mod fault;
mod fetch;
mod flight;
mod gpu;
pub mod host;
mod irq;
pub mod machine;
pub mod mem_host;
mod method;
mod mmu;
mod pte;
mod queue;
mod regs;
mod replay;
mod runlist;
mod save;
#[cfg(test)]
mod vectors;
mod window;
mod work;

/// GPUs in a machine, at most.
pub const MAX_GPUS: usize = huvm_hw::ext::MAX_GPUS;
