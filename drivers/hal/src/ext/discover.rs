// SPDX-License-Identifier: GPL-2.0
//! BAR5: is it there, and what does it say of itself (device.md 2.1).

use super::topology::Topology;
use super::workload::Engine;
use super::{read, read_sane, read_sure};
use crate::seam::Mmio;
use crate::{Error, Result};
use huvm_hw::ext::{self, ident, inject, stats, throttle, time, topology, workload};

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
    /// It tells of memory that failed.
    pub ecc: bool,
}

impl Extension {
    /// Whether the feature bits `features` are all there.
    pub fn has(&self, features: u32) -> bool {
        self.features & features == features
    }
}

/// Feature bit, block offset and block id.
const BLOCKS: [(u32, u32, u16); 6] = [
    (ident::FEATURE_TOPOLOGY, topology::BASE, topology::ID),
    (ident::FEATURE_WORKLOAD, workload::BASE, workload::ID),
    (ident::FEATURE_THROTTLE, throttle::BASE, throttle::ID),
    (ident::FEATURE_STATS, stats::BASE, stats::ID),
    (ident::FEATURE_INJECT, inject::BASE, inject::ID),
    (ident::FEATURE_TIME, time::BASE, time::ID),
];

/// Reads BAR5. `None` when it is not there (reads zero or all ones, or another header).
///
/// # Errors
/// [`Error::BadDevice`] when a block that the features name is not there or a count is out of range, [`Error::Gone`].
pub fn discover<M: Mmio + ?Sized>(m: &M) -> Result<Option<Extension>> {
    if read_sure(m, ident::BASE)? != ext::block_header(ident::ID) {
        return Ok(None);
    }
    let features = read_sane(m, ident::FEATURES)?;
    for (bit, base, id) in BLOCKS {
        let header = read(m, base);
        if features & bit != 0 && header != ext::block_header(id) {
            return Err(Error::BadDevice("block header", header));
        }
    }
    let gpu_index = read_sane(m, ident::GPU_INDEX)?;
    let gpu_count = read_sane(m, ident::GPU_COUNT)?;
    // CAST: MAX_GPUS is 16.
    if gpu_count > ext::MAX_GPUS as u32 || gpu_index >= gpu_count {
        return Err(Error::BadDevice("GPU_INDEX", gpu_index));
    }
    let ces = read_sane(m, ident::CE_COUNT)?;
    let mut ce_caps = [None; ident::CE_CAP_MAX as usize];
    if ces > ident::CE_CAP_MAX {
        return Err(Error::BadDevice("CE_COUNT", ces));
    }
    for (caps, i) in ce_caps.iter_mut().zip(0..ces) {
        let raw = read_sane(m, ident::CE_CAP0 + 4 * i)?;
        *caps = Some(CeCaps {
            sys_read: raw & ident::CE_SYS_READ != 0,
            sys_write: raw & ident::CE_SYS_WRITE != 0,
            peer: raw & ident::CE_PEER != 0,
            local: raw & ident::CE_LOCAL != 0,
        });
    }
    let mut uuid = [0; 4];
    for (word, i) in uuid.iter_mut().zip(0..) {
        *word = read_sure(m, ident::UUID0 + 4 * i)?;
    }
    let flags = read_sane(m, ident::FLAGS)?;
    let has = |bit| features & bit != 0;
    Ok(Some(Extension {
        features,
        gpu_index,
        gpu_count,
        timing: flags & ident::FLAG_TIMING != 0,
        phantom: flags & ident::FLAG_PHANTOM != 0,
        realism: flags & ident::FLAG_REALISM != 0,
        vram_bytes: u64::from(read_sane(m, ident::VRAM_MIB)?) << 20,
        profile_id: read_sure(m, ident::PROFILE_ID)?,
        uuid,
        ce_caps,
        topology: match has(ident::FEATURE_TOPOLOGY) {
            true => Some(Topology::read(m)?),
            false => None,
        },
        workload: match has(ident::FEATURE_WORKLOAD) {
            true => Some(Engine::read(m)?),
            false => None,
        },
        ecc: super::ecc::is_there(m)?,
    }))
}
