// SPDX-License-Identifier: GPL-2.0
//! Interrupt tree: what a top half does.

use crate::ids::Vector;
use crate::seam::Mmio;

/// MSI-X entries that carry the tree (entries 4 and 5 are legacy).
pub const ENTRIES: u8 = 4;

/// Pending and enabled vectors of one MSI-X entry; at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    leaf: u16,
    bits: [u32; 2],
}

impl Iterator for Pending {
    type Item = Vector;
    fn next(&mut self) -> Option<Vector> {
        None
    }
}

/// Pending vectors of MSI-X entry `entry`, masked ones left out. Empty when the device is gone.
pub fn pending<M: Mmio + ?Sized>(m: &M, entry: u8) -> Pending {
    let _ = (m, entry);
    Pending {
        leaf: 0,
        bits: [0; 2],
    }
}

/// Clears a pulse vector's pending bit.
pub fn clear<M: Mmio + ?Sized>(m: &M, v: Vector) {
    let _ = (m, v);
}
/// Keeps a vector from interrupting; it still becomes pending.
pub fn mask<M: Mmio + ?Sized>(m: &M, v: Vector) {
    let _ = (m, v);
}
/// Lets a vector interrupt again.
pub fn unmask<M: Mmio + ?Sized>(m: &M, v: Vector) {
    let _ = (m, v);
}
/// Enables messages for the MSI-X entries of `entries` (bit = entry).
pub fn enable_top<M: Mmio + ?Sized>(m: &M, entries: u8) {
    let _ = (m, entries);
}
/// Disables messages for the MSI-X entries of `entries`.
pub fn disable_top<M: Mmio + ?Sized>(m: &M, entries: u8) {
    let _ = (m, entries);
}
/// Off and on again: the device looks at pending vectors anew and sends messages for what is left. A handler
/// calls it at its end.
pub fn rearm<M: Mmio + ?Sized>(m: &M, entries: u8) {
    let _ = (m, entries);
}
/// Raises a vector by software, for tests.
pub fn trigger<M: Mmio + ?Sized>(m: &M, v: Vector) {
    let _ = (m, v);
}
/// Masks and clears every vector, disables all messages: the state in which probe and remove leave the device.
pub fn quiesce<M: Mmio + ?Sized>(m: &M) {
    let _ = m;
}
