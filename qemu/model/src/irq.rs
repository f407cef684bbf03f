// SPDX-License-Identifier: GPL-2.0
//! Interrupt tree (hw-interface.md 7.4).
//!
//! Vector v is bit v % 32 of leaf v / 32; two leaves make a subtree; a subtree is one message
//! interrupt. A pulse latches its leaf bit, a level source shows in it for as long as it asserts.
//! A message leaves when a subtree's "pending, enabled, top enabled" goes from 0 to 1, and again
//! when software writes the subtree's bit of TOP_EN_SET while it is pending. In particular a new
//! pulse on a subtree that is pending already sends nothing: software that forgets to re-arm
//! waits for ever, as on the real device.

use crate::bar0;

/// Leaves of the tree.
const LEAVES: usize = bar0::LEAVES as usize;
/// Subtrees, which are also the message vectors in use.
const SUBTREES: u32 = 4;

/// The tree of one GPU. Methods return the bitmap of messages to send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    latched: [u32; LEAVES],
    level: [u32; LEAVES],
    enabled: [u32; LEAVES],
    top_enabled: u32,
    /// Subtrees whose condition held after the last change.
    active: u32,
}

fn locate(vector: u32) -> (usize, u32) {
    ((vector / 32) as usize, 1 << (vector % 32))
}

impl Tree {
    fn pending(&self, leaf: usize) -> u32 {
        let latched = self.latched.get(leaf).copied().unwrap_or(0);
        latched | self.level.get(leaf).copied().unwrap_or(0)
    }

    /// TOP: subtrees with a pending and enabled leaf bit, whatever TOP_EN says.
    fn top(&self) -> u32 {
        let mut top = 0;
        for leaf in 0..LEAVES {
            if self.pending(leaf) & self.enabled.get(leaf).copied().unwrap_or(0) != 0 {
                top |= 1 << (leaf / 2);
            }
        }
        top
    }

    /// Recomputes what is active; returns the subtrees that just became so.
    fn update(&mut self) -> u32 {
        let now = self.top() & self.top_enabled;
        let rose = now & !self.active;
        self.active = now;
        rose
    }

    /// A pulse source fires.
    pub(crate) fn pulse(&mut self, vector: u32) -> u32 {
        let (leaf, bit) = locate(vector);
        if let Some(l) = self.latched.get_mut(leaf) {
            *l |= bit;
        }
        self.update()
    }

    /// A level source changes.
    pub(crate) fn set_level(&mut self, vector: u32, on: bool) -> u32 {
        let (leaf, bit) = locate(vector);
        if let Some(l) = self.level.get_mut(leaf) {
            if on {
                *l |= bit;
            } else {
                *l &= !bit;
            }
        }
        self.update()
    }

    /// Reads a register; `None` when it is none of the tree's.
    pub(crate) fn read(&self, offset: u32) -> Option<u32> {
        let leaf_of = |base: u32| -> Option<usize> {
            let i = offset.checked_sub(base)? / 4;
            (i < bar0::LEAVES).then_some(i as usize)
        };
        if let Some(i) = leaf_of(bar0::LEAF) {
            return Some(self.pending(i));
        }
        if let Some(i) = leaf_of(bar0::LEAF_EN_SET).or_else(|| leaf_of(bar0::LEAF_EN_CLEAR)) {
            return self.enabled.get(i).copied();
        }
        match offset {
            bar0::TOP => Some(self.top()),
            bar0::TOP_EN_SET | bar0::TOP_EN_CLEAR => Some(self.top_enabled),
            bar0::LEAF_TRIGGER => Some(0),
            _ => None,
        }
    }

    /// Writes a register; `None` when it is none of the tree's, else the messages to send.
    pub(crate) fn write(&mut self, offset: u32, value: u32) -> Option<u32> {
        let leaf_of = |base: u32| -> Option<usize> {
            let i = offset.checked_sub(base)? / 4;
            (i < bar0::LEAVES).then_some(i as usize)
        };
        if let Some(l) = leaf_of(bar0::LEAF).and_then(|i| self.latched.get_mut(i)) {
            *l &= !value;
        } else if let Some(e) = leaf_of(bar0::LEAF_EN_SET).and_then(|i| self.enabled.get_mut(i)) {
            *e |= value;
        } else if let Some(e) = leaf_of(bar0::LEAF_EN_CLEAR).and_then(|i| self.enabled.get_mut(i)) {
            *e &= !value;
        } else {
            match offset {
                bar0::TOP => {}
                bar0::TOP_EN_SET => {
                    self.top_enabled |= value & ((1 << SUBTREES) - 1);
                    // Re-arm: what is pending under the bits written is sent again.
                    self.active &= !value;
                }
                bar0::TOP_EN_CLEAR => self.top_enabled &= !value,
                bar0::LEAF_TRIGGER => return Some(self.pulse(value & 0xfff)),
                _ => return None,
            }
        }
        Some(self.update())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed() -> Tree {
        let mut t = Tree::default();
        for i in 0..8 {
            t.write(bar0::LEAF_EN_SET + 4 * i, u32::MAX);
        }
        t.write(bar0::TOP_EN_SET, 0xf);
        t
    }

    #[test]
    fn vector_64_is_message_1() {
        let mut t = armed();
        assert_eq!(t.pulse(64), 1 << 1);
        assert_eq!(t.read(bar0::LEAF + 8), Some(1));
        assert_eq!(t.read(bar0::TOP), Some(2));
    }

    #[test]
    fn no_second_message_until_cleared_or_rearmed() {
        let mut t = armed();
        assert_eq!(t.pulse(64), 2);
        assert_eq!(t.pulse(72), 0);
        // Clearing one of two bits leaves the subtree pending: nothing is sent.
        assert_eq!(t.write(bar0::LEAF + 8, 1), Some(0));
        assert_eq!(t.pulse(64), 0);
        // Re-arming sends it again.
        t.write(bar0::TOP_EN_CLEAR, 0xf);
        assert_eq!(t.write(bar0::TOP_EN_SET, 0xf), Some(2));
        // All clear, then a new pulse sends.
        t.write(bar0::LEAF + 8, u32::MAX);
        assert_eq!(t.pulse(64), 2);
    }

    #[test]
    fn masked_vector_sends_when_unmasked() {
        let mut t = armed();
        t.write(bar0::LEAF_EN_CLEAR + 8, 1);
        assert_eq!(t.pulse(64), 0);
        assert_eq!(t.read(bar0::LEAF + 8), Some(1), "pending though masked");
        assert_eq!(t.write(bar0::LEAF_EN_SET + 8, 1), Some(2));
    }

    #[test]
    fn level_source_stays_after_a_clear() {
        let mut t = armed();
        assert_eq!(t.set_level(192, true), 1 << 3);
        t.write(bar0::LEAF + 24, u32::MAX);
        assert_eq!(t.read(bar0::LEAF + 24), Some(1));
        assert_eq!(t.set_level(192, false), 0);
        assert_eq!(t.read(bar0::LEAF + 24), Some(0));
    }
}
