// SPDX-License-Identifier: GPL-2.0
//! Links and the peer-id map (device.md 2.2).

use super::read_sane;
use crate::seam::{set, Bar, Mmio};
use crate::{Error, Result};
use huvm_hw::ext::topology as hw;

/// GPU index in an entry of the peer-id map.
const PEER_INDEX: u32 = 0xff;

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

impl Topology {
    pub(super) fn read<M: Mmio + ?Sized>(m: &M) -> Result<Topology> {
        let links = read_sane(m, hw::LINK_COUNT)?;
        if links > hw::LINK_MAX {
            return Err(Error::BadDevice("LINK_COUNT", links));
        }
        Ok(Topology {
            links,
            host_h2d_mbps: read_sane(m, hw::HOST_H2D_MBPS)?,
            host_d2h_mbps: read_sane(m, hw::HOST_D2H_MBPS)?,
            host_latency_ns: read_sane(m, hw::HOST_LATENCY_NS)?,
            vram_mbps: read_sane(m, hw::VRAM_MBPS)?,
        })
    }
}

/// Reads entry `i` of the link table.
///
/// # Errors
/// [`Error::OutOfRange`], [`Error::BadDevice`], [`Error::Gone`].
pub fn link<M: Mmio + ?Sized>(m: &M, i: u32) -> Result<Link> {
    if i >= read_sane(m, hw::LINK_COUNT)?.min(hw::LINK_MAX) {
        return Err(Error::OutOfRange("link", u64::from(i)));
    }
    let base = hw::LINK0 + hw::LINK_STRIDE * i;
    let kind = match read_sane(m, base + hw::LINK_TYPE)? {
        hw::LINK_TYPE_PCIE => LinkType::Pcie,
        hw::LINK_TYPE_NVLINK => LinkType::NvLink,
        other => return Err(Error::BadDevice("link type", other)),
    };
    let caps = read_sane(m, base + hw::LINK_CAPS)?;
    Ok(Link {
        peer: read_sane(m, base + hw::LINK_PEER)?,
        kind,
        mbps: read_sane(m, base + hw::LINK_MBPS)?,
        latency_ns: read_sane(m, base + hw::LINK_LATENCY_NS)?,
        up: read_sane(m, base + hw::LINK_STATE)? & 1 != 0,
        read: caps & 1 != 0,
        write: caps & 2 != 0,
        atomics: caps & 4 != 0,
    })
}

/// Whether entry `i` of the link table is usable now: one register.
///
/// # Errors
/// [`Error::OutOfRange`], [`Error::Gone`].
pub fn link_is_up<M: Mmio + ?Sized>(m: &M, i: u32) -> Result<bool> {
    if i >= hw::LINK_MAX {
        return Err(Error::OutOfRange("link", u64::from(i)));
    }
    Ok(read_sane(m, hw::LINK0 + hw::LINK_STRIDE * i + hw::LINK_STATE)? & 1 != 0)
}

/// Set in [`up_of`] if a link was not read; no bit of a link.
pub const UNREAD: u64 = 1 << hw::LINK_MAX;

/// Which of the links are up by `table`, a bit each. Of one that could not be read what `was`, and [`UNREAD`].
pub fn up_of(table: &[Option<Link>], was: u64) -> u64 {
    let links = (0..hw::LINK_MAX).zip(table);
    links.fold(0, |up, (i, link)| {
        let bit = 1u64.checked_shl(i).unwrap_or(0);
        up | match link {
            Some(link) if link.up => bit,
            Some(_) => 0,
            None => was & bit | UNREAD,
        }
    })
}

/// Makes peer id `id` (0..7) mean GPU `gpu_index`; `None` frees the id.
///
/// # Errors
/// [`Error::BadState`] when the device refuses (no link, itself, absent), [`Error::OutOfRange`], [`Error::Gone`].
pub fn set_peer<M: Mmio + ?Sized>(m: &M, id: u8, gpu_index: Option<u32>) -> Result<()> {
    if u32::from(id) >= hw::PEER_IDS {
        return Err(Error::OutOfRange("peer id", u64::from(id)));
    }
    let entry = match gpu_index {
        Some(i) if i > PEER_INDEX => return Err(Error::OutOfRange("GPU index", u64::from(i))),
        Some(i) => i | hw::PEER_VALID,
        None => 0,
    };
    set(
        m,
        "peer map",
        (Bar::Ext, hw::PEER_MAP0 + 4 * u32::from(id)),
        entry,
        // The index too: a write that was lost leaves the name that was there.
        hw::PEER_VALID | PEER_INDEX,
    )
}
