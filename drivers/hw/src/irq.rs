// SPDX-License-Identifier: GPL-2.0
//! Interrupt vectors: where each is in the tree, and the fixed ones (hw-interface 7.4).

/// Vectors of the tree: eight leaves of 32.
pub const VECTORS: u32 = 256;
/// MSI-X entries of the tree's subtrees; entries 4 and 5 are legacy.
pub const SUBTREES: u32 = 4;

/// Replayable fault (pulse).
pub const REPLAYABLE_FAULT: u32 = 64;
/// Access counter (pulse).
pub const ACCESS_COUNTER: u32 = 72;
/// Replayable fault ring: overflow, GET corrupted.
pub const REPLAYABLE_FAULT_ERROR: u32 = 131;
/// Non-replayable fault.
pub const NON_REPLAYABLE_FAULT: u32 = 132;
/// Non-replayable fault ring: overflow, GET corrupted.
pub const NON_REPLAYABLE_FAULT_ERROR: u32 = 133;
/// Info fault.
pub const INFO_FAULT: u32 = 134;
/// PTIMER.
pub const PTIMER: u32 = 148;
/// First stall vector of the engines.
pub const STALL_BASE: u32 = 192;

/// Place of a vector in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Leaf, 0 to 7.
    pub leaf: u32,
    /// Bit in the leaf.
    pub bit: u32,
    /// Bit in TOP, and MSI-X entry.
    pub subtree: u32,
}

/// Place of `vector`, `None` beyond the tree.
pub const fn place(vector: u32) -> Option<Place> {
    if vector >= VECTORS {
        return None;
    }
    Some(Place {
        leaf: vector / 32,
        bit: vector % 32,
        subtree: vector / 64,
    })
}
