// SPDX-License-Identifier: GPL-2.0
//! Decoding of page-table entries, version 2 (hw-interface.md 4.1 to 4.5).

/// A directory level or table, from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Level {
    /// VA 48:47, 4 entries.
    Pde3,
    /// VA 46:38, 512 entries.
    Pde2,
    /// VA 37:29, 512 entries.
    Pde1,
    /// VA 28:21, 256 dual entries of 16 bytes.
    Pde0,
    /// VA 20:16, 32 entries.
    Big,
    /// VA 20:12, 512 entries.
    Small,
}

impl Level {
    /// Lowest VA bit that an entry of this level decides.
    pub(crate) fn shift(self) -> u32 {
        match self {
            Level::Pde3 => 47,
            Level::Pde2 => 38,
            Level::Pde1 => 29,
            Level::Pde0 => 21,
            Level::Big => 16,
            Level::Small => 12,
        }
    }

    /// Index of `va` in a table of this level.
    pub(crate) fn index(self, va: u64) -> u64 {
        let entries = match self {
            Level::Pde3 => 4,
            Level::Pde2 | Level::Pde1 | Level::Small => 512,
            Level::Pde0 => 256,
            Level::Big => 32,
        };
        (va >> self.shift()) & (entries - 1)
    }

    /// Bytes of an entry.
    pub(crate) fn entry_bytes(self) -> u64 {
        if self == Level::Pde0 {
            16
        } else {
            8
        }
    }

    /// Invalidate code (PAGE_TABLE_LEVEL) from which on an invalidate drops entries of this level.
    pub(crate) fn invalidate_code(self) -> u32 {
        match self {
            Level::Big | Level::Small => 1,
            Level::Pde0 => 2,
            Level::Pde1 => 3,
            Level::Pde2 => 4,
            Level::Pde3 => 5,
        }
    }
}

/// Where a directory entry points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dir {
    /// Nothing: a fault.
    Invalid,
    /// Sparse: accesses go nowhere.
    Sparse,
    /// A table.
    Table {
        /// In system memory (else VRAM).
        sys: bool,
        /// Its address.
        addr: u64,
    },
}

fn bits(v: u64, hi: u32, lo: u32) -> u64 {
    (v >> lo) & (u64::MAX >> (63 - (hi - lo)))
}

/// Decodes a single directory entry whose IS_PTE bit is 0.
pub(crate) fn dir(e: u64) -> Dir {
    table(
        bits(e, 2, 1),
        bits(e, 3, 3) != 0,
        bits(e, 32, 8),
        bits(e, 53, 8),
        12,
    )
}

/// Decodes the big half of a dual entry.
pub(crate) fn dir_big(lo: u64) -> Dir {
    table(
        bits(lo, 2, 1),
        bits(lo, 3, 3) != 0,
        bits(lo, 32, 4),
        bits(lo, 53, 4),
        8,
    )
}

/// Decodes the small half of a dual entry.
pub(crate) fn dir_small(hi: u64) -> Dir {
    table(
        bits(hi, 2, 1),
        bits(hi, 3, 3) != 0,
        bits(hi, 32, 8),
        bits(hi, 53, 8),
        12,
    )
}

fn table(aperture: u64, vol: bool, vid: u64, sys: u64, shift: u32) -> Dir {
    match aperture {
        0 if vol => Dir::Sparse,
        0 => Dir::Invalid,
        1 => Dir::Table {
            sys: false,
            addr: vid << shift,
        },
        _ => Dir::Table {
            sys: true,
            addr: sys << shift,
        },
    }
}

/// Memory that a leaf points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafAperture {
    Vid,
    Peer(u32),
    Sys,
}

/// A valid leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) aperture: LeafAperture,
    pub(crate) addr: u64,
    pub(crate) privileged: bool,
    pub(crate) read_only: bool,
    pub(crate) atomic_disable: bool,
    pub(crate) kind: u32,
}

/// Decodes a valid leaf.
pub(crate) fn leaf(e: u64) -> Leaf {
    let (aperture, addr) = match bits(e, 2, 1) {
        0 => (LeafAperture::Vid, bits(e, 32, 8) << 12),
        1 => (
            LeafAperture::Peer(bits(e, 35, 33) as u32),
            bits(e, 32, 8) << 12,
        ),
        _ => (LeafAperture::Sys, bits(e, 53, 8) << 12),
    };
    Leaf {
        aperture,
        addr,
        privileged: bits(e, 5, 5) != 0,
        read_only: bits(e, 6, 6) != 0,
        atomic_disable: bits(e, 7, 7) != 0,
        kind: bits(e, 63, 56) as u32,
    }
}

/// A valid leaf that points out of the GPU's memory, or a directory entry (half of one) that points at a table there, without VOL: what
/// is there may be cached where nothing takes it out again.
pub(crate) fn cached_outside(e: u64) -> bool {
    let out = if valid(e) {
        bits(e, 2, 1) != 0
    } else {
        bits(e, 2, 1) > 1
    };
    out && bits(e, 3, 3) == 0
}

/// VALID of a leaf, IS_PTE of a directory entry.
pub(crate) fn valid(e: u64) -> bool {
    e & 1 != 0
}

/// VOL of an invalid leaf: sparse.
pub(crate) fn leaf_sparse(e: u64) -> bool {
    e & 1 == 0 && e & (1 << 3) != 0
}

/// PRIVILEGE of an invalid 64 KiB leaf: nothing below either.
pub(crate) fn leaf_unmapped(e: u64) -> bool {
    e & 1 == 0 && e & (1 << 5) != 0
}
