// SPDX-License-Identifier: GPL-2.0
//! Page tables, version 2, 49-bit addresses (hw-interface 4.1 to 4.5).

use crate::aperture::{PdeAperture, PteAperture};
use crate::bits::codes;

/// Leaf entry, one quadword (4.4).
pub mod leaf {
    crate::bits::fields64! {
        VALID = (0, 0, 0);
        APERTURE = (0, 2, 1);
        VOL = (0, 3, 3);
        ENCRYPTED = (0, 4, 4);
        PRIVILEGE = (0, 5, 5);
        READ_ONLY = (0, 6, 6);
        ATOMIC_DISABLE = (0, 7, 7);
        ADDRESS_VID = (0, 32, 8);
        PEER = (0, 35, 33);
        ADDRESS_SYS = (0, 53, 8);
        COMPTAGLINE = (0, 55, 36);
        KIND = (0, 63, 56);
    }
}

/// Directory entry of PDE3 to PDE1, one quadword (4.2).
pub mod pde {
    crate::bits::fields64! {
        IS_PTE = (0, 0, 0);
        APERTURE = (0, 2, 1);
        VOL = (0, 3, 3);
        NO_ATS = (0, 5, 5);
        ADDRESS_VID = (0, 32, 8);
        ADDRESS_SYS = (0, 53, 8);
    }
}

/// Dual entry, PDE0, two quadwords (4.3).
pub mod pde0 {
    crate::bits::fields64! {
        IS_PTE = (0, 0, 0);
        APERTURE_BIG = (0, 2, 1);
        VOL_BIG = (0, 3, 3);
        NO_ATS = (0, 5, 5);
        ADDRESS_BIG_VID = (0, 32, 4);
        ADDRESS_BIG_SYS = (0, 53, 4);
        APERTURE_SMALL = (1, 2, 1);
        VOL_SMALL = (1, 3, 3);
        ADDRESS_SMALL_VID = (1, 32, 8);
        ADDRESS_SMALL_SYS = (1, 53, 8);
    }
}

codes! {
    /// Kind of memory (4.5), those that this project uses.
    Kind {
        /// Linear.
        Pitch = 0x00,
        /// Generic memory: the driver's.
        Generic = 0x06,
        /// Invalid.
        Invalid = 0x07,
    }
}

codes! {
    /// A level of the tables (4.1); the code is this crate's own.
    Level {
        /// Root, VA 48:47.
        Pde3 = 0,
        /// VA 46:38.
        Pde2 = 1,
        /// VA 37:29.
        Pde1 = 2,
        /// VA 28:21, dual entries.
        Pde0 = 3,
        /// 64 KiB entries, VA 20:16.
        Big = 4,
        /// 4 KiB entries, VA 20:12.
        Small = 5,
    }
}

/// Bits of a virtual address.
pub const VA_BITS: u32 = 49;

impl Level {
    /// Lowest address bit that an entry decides: an entry spans 2^shift bytes.
    pub const fn shift(self) -> u32 {
        match self {
            Level::Pde3 => 47,
            Level::Pde2 => 38,
            Level::Pde1 => 29,
            Level::Pde0 => 21,
            Level::Big => 16,
            Level::Small => 12,
        }
    }

    /// Entries of a table.
    pub const fn entries(self) -> u32 {
        match self {
            Level::Pde3 => 4,
            Level::Pde2 | Level::Pde1 | Level::Small => 512,
            Level::Pde0 => 256,
            Level::Big => 32,
        }
    }

    /// Bytes of an entry.
    pub const fn entry_bytes(self) -> u32 {
        match self {
            Level::Pde0 => 16,
            _ => 8,
        }
    }

    /// Bytes of a table.
    pub const fn table_bytes(self) -> u32 {
        self.entries().wrapping_mul(self.entry_bytes())
    }

    /// Index of `va` in a table of this level.
    pub const fn index(self, va: u64) -> u32 {
        // CAST: below 512.
        (va.wrapping_shr(self.shift()) as u32) & self.entries().wrapping_sub(1)
    }
}

/// Address bits of local and peer memory.
pub const VID_BITS: u32 = 37;
/// Address bits of system memory that the hardware implements (the field holds 58).
pub const SYS_BITS: u32 = 47;

/// Where a leaf points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This GPU's memory.
    Vid,
    /// Memory of peer 0..=7.
    Peer(u8),
    /// System memory, coherent.
    SysCoherent,
    /// System memory, not coherent.
    SysNonCoherent,
}

/// A valid leaf of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Which memory.
    pub target: Target,
    /// Physical address, 4 KiB aligned.
    pub addr: u64,
    /// Not cached in L2 (system and peer memory).
    pub vol: bool,
    /// Privileged accesses only.
    pub privilege: bool,
    /// Writes and atomics fault.
    pub read_only: bool,
    /// Strong atomics fault.
    pub atomic_disable: bool,
    /// Raw KIND.
    pub kind: u8,
}

impl Leaf {
    /// The quadword; `None` if the address is unaligned or too wide, or the peer id is above 7.
    pub const fn pack(&self) -> Option<u64> {
        let (aperture, peer, bits) = match self.target {
            Target::Vid => (PteAperture::Vid, 0, VID_BITS),
            Target::Peer(p) if p < 8 => (PteAperture::Peer, leaf::PEER.of(p as u64), VID_BITS),
            Target::Peer(_) => return None,
            Target::SysCoherent => (PteAperture::SysCoherent, 0, SYS_BITS),
            Target::SysNonCoherent => (PteAperture::SysNonCoherent, 0, SYS_BITS),
        };
        if self.addr & 0xfff != 0 || self.addr.wrapping_shr(bits) != 0 {
            return None;
        }
        Some(
            leaf::VALID.of(1)
                | leaf::APERTURE.of(aperture as u64)
                | peer
                | leaf::ADDRESS_SYS.of(self.addr >> 12)
                | leaf::VOL.of(self.vol as u64)
                | leaf::PRIVILEGE.of(self.privilege as u64)
                | leaf::READ_ONLY.of(self.read_only as u64)
                | leaf::ATOMIC_DISABLE.of(self.atomic_disable as u64)
                | leaf::KIND.of(self.kind as u64),
        )
    }
}

/// What a leaf entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pte {
    /// Nothing; in a 64 KiB table: look at the 4 KiB table.
    Invalid,
    /// Accesses go nowhere, without a fault.
    Sparse,
    /// 64 KiB tables only: nothing here and nothing in the 4 KiB table.
    Unmapped,
    /// A mapping.
    Leaf(Leaf),
}

/// The 64 KiB entry that says: nothing here, nothing below (4.4).
pub const BIG_UNMAPPED: u64 = leaf::PRIVILEGE.of(1);
/// The sparse leaf entry (4.4).
pub const SPARSE: u64 = leaf::VOL.of(1);

impl Pte {
    /// Meaning of a quadword in a table of `level`. VOL is looked at before PRIVILEGE.
    pub const fn unpack(e: u64, level: Level) -> Pte {
        if !leaf::VALID.is_set(e) {
            return if leaf::VOL.is_set(e) {
                Pte::Sparse
            } else if leaf::PRIVILEGE.is_set(e) && matches!(level, Level::Big) {
                Pte::Unmapped
            } else {
                Pte::Invalid
            };
        }
        let vid = leaf::ADDRESS_VID.get(e) << 12;
        let sys = leaf::ADDRESS_SYS.get(e) << 12;
        let (target, addr) = match leaf::APERTURE.get(e) {
            0 => (Target::Vid, vid),
            // CAST: three bits.
            1 => (Target::Peer(leaf::PEER.get(e) as u8), vid),
            2 => (Target::SysCoherent, sys),
            _ => (Target::SysNonCoherent, sys),
        };
        Pte::Leaf(Leaf {
            target,
            addr,
            vol: leaf::VOL.is_set(e),
            privilege: leaf::PRIVILEGE.is_set(e),
            read_only: leaf::READ_ONLY.is_set(e),
            atomic_disable: leaf::ATOMIC_DISABLE.is_set(e),
            // CAST: eight bits.
            kind: leaf::KIND.get(e) as u8,
        })
    }
}

/// What a directory entry, or half of a dual one, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pde {
    /// Nothing.
    Invalid,
    /// Accesses go nowhere, without a fault.
    Sparse,
    /// A table.
    Table {
        /// Which memory it is in; never `Invalid`.
        aperture: PdeAperture,
        /// Its address.
        addr: u64,
        /// Not cached.
        vol: bool,
    },
    /// A mapping of the entry's whole span (2 MiB in PDE0, 512 MiB in PDE1).
    Leaf(Leaf),
}

impl Pde {
    const fn table(aperture: u64, vol: bool, vid: u64, sys: u64) -> Pde {
        let (aperture, addr) = match aperture {
            0 if vol => return Pde::Sparse,
            0 => return Pde::Invalid,
            1 => (PdeAperture::Vid, vid),
            2 => (PdeAperture::SysCoherent, sys),
            _ => (PdeAperture::SysNonCoherent, sys),
        };
        Pde::Table {
            aperture,
            addr,
            vol,
        }
    }

    /// Meaning of a quadword in PDE3, PDE2 or PDE1. A leaf is legal in PDE1 only; the caller knows the level.
    pub const fn unpack(e: u64) -> Pde {
        if pde::IS_PTE.is_set(e) {
            return match Pte::unpack(e, Level::Pde1) {
                Pte::Leaf(l) => Pde::Leaf(l),
                _ => Pde::Invalid,
            };
        }
        Pde::table(
            pde::APERTURE.get(e),
            pde::VOL.is_set(e),
            pde::ADDRESS_VID.get(e) << 12,
            pde::ADDRESS_SYS.get(e) << 12,
        )
    }

    /// Meaning of the two halves (big table or leaf, small table) of a dual entry.
    pub const fn unpack_dual(lo: u64, hi: u64) -> (Pde, Pde) {
        let small = Pde::table(
            pde0::APERTURE_SMALL.get(hi),
            pde0::VOL_SMALL.is_set(hi),
            pde0::ADDRESS_SMALL_VID.get(hi) << 12,
            pde0::ADDRESS_SMALL_SYS.get(hi) << 12,
        );
        if pde0::IS_PTE.is_set(lo) {
            return match Pte::unpack(lo, Level::Pde0) {
                Pte::Leaf(l) => (Pde::Leaf(l), small),
                _ => (Pde::Invalid, small),
            };
        }
        let big = Pde::table(
            pde0::APERTURE_BIG.get(lo),
            pde0::VOL_BIG.is_set(lo),
            pde0::ADDRESS_BIG_VID.get(lo) << 8,
            pde0::ADDRESS_BIG_SYS.get(lo) << 8,
        );
        (big, small)
    }

    /// The quadword for PDE3..PDE1, and for the small half of a dual entry; `None` for a bad address.
    pub const fn pack(&self) -> Option<u64> {
        self.pack_shifted(12, 8)
    }

    /// The low quadword of a dual entry, the big table's half; `None` for a bad address.
    pub const fn pack_big(&self) -> Option<u64> {
        self.pack_shifted(8, 4)
    }

    const fn pack_shifted(&self, align: u32, place: u32) -> Option<u64> {
        match *self {
            Pde::Invalid => Some(0),
            Pde::Sparse => Some(pde::VOL.of(1)),
            Pde::Leaf(ref l) => l.pack(),
            Pde::Table {
                aperture,
                addr,
                vol,
            } => {
                let bits = match aperture {
                    PdeAperture::Invalid => return None,
                    PdeAperture::Vid => VID_BITS,
                    _ => SYS_BITS,
                };
                if addr.trailing_zeros() < align || addr.wrapping_shr(bits) != 0 {
                    return None;
                }
                Some(
                    pde::APERTURE.of(aperture as u64)
                        | pde::VOL.of(vol as u64)
                        | addr.wrapping_shr(align).wrapping_shl(place),
                )
            }
        }
    }
}
