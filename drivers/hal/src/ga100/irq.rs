// SPDX-License-Identifier: GPL-2.0
//! Interrupt tree: what a top half does (hw-interface 7.4).
//!
//! Vector v is bit v mod 32 of leaf v/32; two leaves make a subtree, and subtree n interrupts by MSI-X entry n. A top
//! half looks at its entry's [`pending`] vectors, [`mask`]s those whose bottom half it wakes, [`clear`]s the pulse
//! vectors, and [`rearm`]s. The bottom half works and then [`unmask`]s.

use super::regs;
use crate::ids::Vector;
use crate::seam::{Bar, Mmio};

/// MSI-X entries that carry the tree (entries 4 and 5 are legacy).
pub const ENTRIES: u8 = 4;
/// Leaves of the tree.
const LEAVES: u32 = 8;

/// Pending and enabled vectors of one MSI-X entry; at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// First vector of the subtree.
    base: u16,
    bits: u64,
}

impl Iterator for Pending {
    type Item = Vector;
    fn next(&mut self) -> Option<Vector> {
        if self.bits == 0 {
            return None;
        }
        let n = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        // CAST: below 64.
        Some(Vector(self.base + n as u16))
    }
}

/// Pending vectors of MSI-X entry `entry`, masked ones left out. Empty when the device is gone.
pub fn pending<M: Mmio + ?Sized>(m: &M, entry: u8) -> Pending {
    let mut p = Pending {
        base: u16::from(entry.min(ENTRIES)) * 64,
        bits: 0,
    };
    if entry >= ENTRIES {
        return p;
    }
    for half in 0..2 {
        let leaf = u32::from(entry) * 2 + half;
        let raised = m.read32(Bar::Regs, regs::LEAF + 4 * leaf);
        let enabled = m.read32(Bar::Regs, regs::LEAF_EN_SET + 4 * leaf);
        // No leaf has 32 sources: all ones is a device that is gone.
        if raised != u32::MAX {
            p.bits |= u64::from(raised & enabled) << (32 * half);
        }
    }
    p
}

/// Leaf offset and bit of a vector; `None` for one outside the tree.
fn place(v: Vector) -> Option<(u32, u32)> {
    let leaf = u32::from(v.0) / 32;
    (leaf < LEAVES).then_some((leaf * 4, 1 << (v.0 % 32)))
}

fn write_bit<M: Mmio + ?Sized>(m: &M, base: u32, v: Vector) {
    if let Some((off, bit)) = place(v) {
        m.write32(Bar::Regs, base + off, bit);
    }
}

/// Clears a pulse vector's pending bit.
pub fn clear<M: Mmio + ?Sized>(m: &M, v: Vector) {
    write_bit(m, regs::LEAF, v);
}

/// Keeps a vector from interrupting; it still becomes pending.
pub fn mask<M: Mmio + ?Sized>(m: &M, v: Vector) {
    write_bit(m, regs::LEAF_EN_CLEAR, v);
}

/// Lets a vector interrupt again.
pub fn unmask<M: Mmio + ?Sized>(m: &M, v: Vector) {
    write_bit(m, regs::LEAF_EN_SET, v);
}

/// Enables messages for the MSI-X entries of `entries` (bit = entry).
pub fn enable_top<M: Mmio + ?Sized>(m: &M, entries: u8) {
    m.write32(Bar::Regs, regs::TOP_EN_SET, u32::from(entries & 0xf));
}

/// Disables messages for the MSI-X entries of `entries`.
pub fn disable_top<M: Mmio + ?Sized>(m: &M, entries: u8) {
    m.write32(Bar::Regs, regs::TOP_EN_CLEAR, u32::from(entries & 0xf));
}

/// Off and on again: the device looks at pending vectors anew and sends messages for what is left. A handler
/// calls it at its end.
pub fn rearm<M: Mmio + ?Sized>(m: &M, entries: u8) {
    disable_top(m, entries);
    enable_top(m, entries);
}

/// Raises a vector by software, for tests.
pub fn trigger<M: Mmio + ?Sized>(m: &M, v: Vector) {
    if place(v).is_some() {
        m.write32(Bar::Regs, regs::LEAF_TRIGGER, u32::from(v.0));
    }
}

/// Masks and clears every vector, disables all messages: the state in which probe and remove leave the device.
pub fn quiesce<M: Mmio + ?Sized>(m: &M) {
    disable_top(m, 0xf);
    for leaf in 0..LEAVES {
        m.write32(Bar::Regs, regs::LEAF_EN_CLEAR + 4 * leaf, u32::MAX);
        m.write32(Bar::Regs, regs::LEAF + 4 * leaf, u32::MAX);
    }
}
