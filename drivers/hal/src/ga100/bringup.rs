// SPDX-License-Identifier: GPL-2.0
//! Bring-up: who is this GPU, how much memory, which engines, which vectors.

use super::runlist::Runlist;
use crate::ids::Vector;
use crate::seam::Mmio;
use crate::{Error, Result};

/// Copy engines that a GA100-class chip can have.
pub const MAX_COPY_ENGINES: usize = 10;

/// A copy engine that the device-info table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEngine {
    /// Instance: CE number.
    pub number: u8,
    /// MMU engine id in fault packets.
    pub fault_id: u16,
    /// The runlist that feeds it.
    pub runlist: Runlist,
}

/// Vectors of the interrupt tree that the driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// Replayable fault packets arrived (pulse).
    pub replayable: Vector,
    /// Replayable ring overflow or corrupted GET.
    pub replayable_error: Vector,
    /// Non-replayable fault packets arrived.
    pub non_replayable: Vector,
    /// Non-replayable ring overflow or corrupted GET.
    pub non_replayable_error: Vector,
    /// Fault outside both rings (BAR accesses, physical faults).
    pub info_fault: Vector,
    /// Access-counter notifications arrived (pulse).
    pub access_counter: Vector,
}

/// What [`identify`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PMC_BOOT_0.
    pub boot0: u32,
    /// PMC_BOOT_42.
    pub boot42: u32,
    /// Chip id, 0x170 for GA100.
    pub chip: u16,
    /// Bytes of the GPU's own memory.
    pub vram_bytes: u64,
    /// Copy engines, in table order; `None` after the last.
    pub engines: [Option<CopyEngine>; MAX_COPY_ENGINES],
    /// Interrupt vectors.
    pub vectors: Vectors,
}

/// Reads ids, memory size, device-info table and vector numbers.
///
/// # Errors
/// [`Error::Gone`], [`Error::UnknownChip`], [`Error::BadDevice`].
pub fn identify<M: Mmio + ?Sized>(m: &M) -> Result<Identity> {
    let _ = m;
    Err(Error::Gone)
}

/// PTIMER, nanoseconds (32 ns granularity).
///
/// # Errors
/// [`Error::Gone`].
pub fn ptimer_ns<M: Mmio + ?Sized>(m: &M) -> Result<u64> {
    let _ = m;
    Err(Error::Gone)
}
