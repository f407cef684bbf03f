// SPDX-License-Identifier: GPL-2.0
//! Entries as this driver uses them: the few combinations of the documented format that managed memory needs.
//!
//! Values are kept raw, since tables hold raw values and are compared and shifted that way.

use crate::ids::{Loc, SysAddr};
use crate::{Error, Result};

const VALID: u64 = 1 << 0;
const VOL: u64 = 1 << 3;
const PRIVILEGE: u64 = 1 << 5;
const READ_ONLY: u64 = 1 << 6;
const ATOMIC_DISABLE: u64 = 1 << 7;
const KIND_GENERIC: u64 = 0x06 << 56;
const ADDR_SHIFT: u32 = 8;
const APERTURE_PEER: u64 = 1 << 1;
const APERTURE_SYS: u64 = 2 << 1;
const PEER_SHIFT: u32 = 33;

/// What a mapping permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prot {
    /// Loads.
    Read,
    /// Loads and stores; strong atomics fault.
    ReadWrite,
    /// Everything.
    ReadWriteAtomic,
}

/// Attributes of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFlags {
    /// What it permits.
    pub prot: Prot,
    /// Remote memory (system, peer) may be cached in this GPU's L2. Off for managed memory.
    pub cached: bool,
}

/// 64 KiB entry: nothing here, and nothing in the 4 KiB table below (hw-interface 4.4).
pub(super) const BIG_UNMAPPED: u64 = PRIVILEGE;

/// The leaf entry for a 4 KiB page (or the first of a larger one) at `loc`.
pub(super) fn leaf(loc: Loc, flags: MapFlags) -> Result<u64> {
    let addr = loc.raw();
    let limit = match loc {
        Loc::Sys(_) => 1u64 << 47,
        Loc::Vid(_) | Loc::Peer { .. } => 1 << 37,
    };
    if addr % 4096 != 0 || addr >= limit {
        return Err(Error::BadAddress(addr));
    }
    let place = match loc {
        Loc::Vid(_) => 0,
        Loc::Sys(_) => APERTURE_SYS,
        Loc::Peer { id, .. } if id < 8 => APERTURE_PEER | (u64::from(id) << PEER_SHIFT),
        Loc::Peer { id, .. } => return Err(Error::OutOfRange("peer id", u64::from(id))),
    };
    let vol = match loc {
        Loc::Vid(_) => 0,
        _ if flags.cached => 0,
        _ => VOL,
    };
    let prot = match flags.prot {
        Prot::Read => READ_ONLY | ATOMIC_DISABLE,
        Prot::ReadWrite => ATOMIC_DISABLE,
        Prot::ReadWriteAtomic => 0,
    };
    Ok(VALID | place | vol | prot | KIND_GENERIC | ((addr >> 12) << ADDR_SHIFT))
}

/// Whether the entry maps something.
pub(super) const fn is_valid(raw: u64) -> bool {
    raw & VALID != 0
}

/// The entry for the page `pages` further on within the same contiguous mapping; an invalid entry stays as it is.
pub(super) const fn nth(raw: u64, pages: u16) -> u64 {
    if is_valid(raw) {
        raw.wrapping_add((pages as u64) << ADDR_SHIFT)
    } else {
        raw
    }
}

/// Whether the entry's address is a multiple of 2^`log2_pages` pages.
pub(super) const fn is_aligned(raw: u64, log2_pages: u32) -> bool {
    (raw >> ADDR_SHIFT) & ((1 << log2_pages) - 1) == 0
}

/// The entry without write and atomic permission.
pub(super) const fn read_only(raw: u64) -> u64 {
    if is_valid(raw) {
        raw | READ_ONLY | ATOMIC_DISABLE
    } else {
        raw
    }
}

/// Whether everything that `old` allowed is still allowed, at the same place, by `new`.
pub(super) const fn keeps(old: u64, new: u64) -> bool {
    let perms = READ_ONLY | ATOMIC_DISABLE;
    !is_valid(old) || ((old ^ new) & !perms == 0 && new & perms & !old == 0)
}

/// Directory entry (PDE3..PDE1) for a table in system memory.
pub(super) fn pde(table: SysAddr) -> Result<u64> {
    if table.0 % 4096 != 0 || table.0 >> 47 != 0 {
        return Err(Error::BadAddress(table.0));
    }
    Ok(2 << 1 | VOL | ((table.0 >> 12) << 8))
}

/// Low half of a dual PDE0: the table of 64 KiB entries, if any.
pub(super) fn pde0_big(table: Option<SysAddr>) -> Result<u64> {
    match table {
        None => Ok(0),
        Some(t) if t.0 % 256 == 0 && t.0 >> 47 == 0 => Ok(2 << 1 | VOL | ((t.0 >> 8) << 4)),
        Some(t) => Err(Error::BadAddress(t.0)),
    }
}

/// High half of a dual PDE0: the table of 4 KiB entries, if any.
pub(super) fn pde0_small(table: Option<SysAddr>) -> Result<u64> {
    table.map_or(Ok(0), pde)
}
