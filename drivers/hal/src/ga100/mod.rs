// SPDX-License-Identifier: GPL-2.0
//! Duties of a GA100-class GPU: documented registers of BAR0 and structures in memory.

pub mod bringup;
pub mod counter;
pub mod fault;
pub mod instance;
pub mod invalidate;
pub mod irq;
pub(crate) mod regs;
pub mod runlist;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
