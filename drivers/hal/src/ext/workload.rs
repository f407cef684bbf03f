// SPDX-License-Identifier: GPL-2.0
//! Workload engine: start, look, abort.

use crate::ids::{GpuVa, SysAddr, Vector, Veid};
use crate::seam::Mmio;
use crate::Result;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Never used.
    Idle,
    /// Running.
    Running,
    /// Ended well.
    Done,
    /// Ended by an error, `ERROR_*` of huvm_hw::ext::workload.
    Failed(u32),
    /// Ended by abort.
    Aborted,
}

/// A slot's registers, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// State.
    pub status: Status,
    /// Address of the failing access.
    pub error_va: GpuVa,
    /// Its fault type (code of the packet).
    pub fault_type: u8,
    /// Its access type (code of the packet).
    pub access_type: u8,
    /// Elements that CHECK found different.
    pub mismatches: u64,
    /// The first of them.
    pub mismatch_va: GpuVa,
    /// Blocks finished.
    pub blocks_done: u32,
    /// Blocks waiting for a replay.
    pub blocks_stalled: u32,
    /// Fault packets raised.
    pub faults: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// PTIMER at the start, ns.
    pub start_ns: u64,
    /// PTIMER at the end, ns.
    pub end_ns: u64,
}

/// The workload engine of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Slots.
    pub slots: u32,
    /// Blocks resident at once.
    pub max_resident: u32,
    /// Vector pulsed at the end of a launch.
    pub vector: Vector,
}

impl Engine {
    /// Starts the descriptor at `desc` in `slot`, with the instance block at `instance` (system memory).
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::BadState`] when the slot runs, [`crate::Error::BadAddress`], [`crate::Error::Gone`].
    pub fn start<M: Mmio + ?Sized>(
        &self,
        m: &M,
        slot: u32,
        desc: SysAddr,
        instance: SysAddr,
        veid: Veid,
    ) -> Result<()> {
        let _ = (m, slot, desc, instance, veid);
        Err(crate::Error::Gone)
    }

    /// Ends a launch.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`].
    pub fn abort<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<()> {
        let _ = (m, slot);
        Ok(())
    }

    /// Finished slots (bit = slot), cleared by reading.
    ///
    /// # Errors
    /// [`crate::Error::Gone`].
    pub fn take_done<M: Mmio + ?Sized>(&self, m: &M) -> Result<u64> {
        let _ = m;
        Ok(0)
    }

    /// State and results of a slot.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::Gone`], [`crate::Error::BadDevice`].
    pub fn report<M: Mmio + ?Sized>(&self, m: &M, slot: u32) -> Result<Report> {
        let _ = (m, slot);
        Err(crate::Error::Gone)
    }
}
