// SPDX-License-Identifier: GPL-2.0
//! Links and the peer-id map.

use crate::seam::Mmio;
use crate::Result;

/// Kind of a link to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// PCIe.
    Pcie,
    /// A fast link between GPUs.
    NvLink,
}

/// A link, as seen from this GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the neighbour.
    pub peer: u32,
    /// Kind.
    pub kind: LinkType,
    /// MB/s in each direction.
    pub mbps: u32,
    /// Latency, ns.
    pub latency_ns: u32,
    /// Usable now.
    pub up: bool,
    /// Reads work over it.
    pub read: bool,
    /// Writes work over it.
    pub write: bool,
    /// Atomics work over it.
    pub atomics: bool,
}

/// Host link and memory figures; links are read one by one with [`link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Entries of the link table.
    pub links: u32,
    /// Host link towards the GPU, MB/s.
    pub host_h2d_mbps: u32,
    /// Host link towards the host, MB/s.
    pub host_d2h_mbps: u32,
    /// Host link latency, ns.
    pub host_latency_ns: u32,
    /// Local memory, MB/s.
    pub vram_mbps: u32,
}

/// Reads entry `i` of the link table.
///
/// # Errors
/// [`crate::Error::OutOfRange`], [`crate::Error::BadDevice`], [`crate::Error::Gone`].
pub fn link<M: Mmio + ?Sized>(m: &M, i: u32) -> Result<Link> {
    let _ = (m, i);
    Err(crate::Error::Gone)
}

/// Makes peer id `id` (0..7) mean GPU `gpu_index`; `None` frees the id.
///
/// # Errors
/// [`crate::Error::BadState`] when the device refuses (no link, itself, absent), [`crate::Error::OutOfRange`], [`crate::Error::Gone`].
pub fn set_peer<M: Mmio + ?Sized>(m: &M, id: u8, gpu_index: Option<u32>) -> Result<()> {
    let _ = (m, id, gpu_index);
    Err(crate::Error::Gone)
}
