// SPDX-License-Identifier: GPL-2.0
//! Faults that may be of an access that is long over.
//!
//! A packet can be read after its access went on: a second packet of the same fault, one that became valid late, or one of a page that
//! came for another reason. When it is judged, what was mapped there may be unmapped, so that it looks illegal; and what a cancel then
//! ends is a launch that waits for what the client has mapped there since. So a fault that was raised before the client unmapped
//! anything is not cancelled. An access that still waits faults again after the replay, and has a later packet.
//!
//! A device that gives wrong times, or a client that unmaps without end, puts a cancel off by some batches, no more.

use crate::share::CLIENTS;

/// A fault is taken to be older than an unmapping so shortly before it: two clocks are compared, by a look at each.
const MARGIN_NS: u64 = 1_000_000;
/// What a batch with a fault that is spared counts, and at what sum no more are; a batch without takes one off.
const STEP: u8 = 4;
const LIMIT: u8 = 64;

/// What was spared lately, of each client of a GPU, by subcontext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spared([u8; CLIENTS]);

impl Spared {
    /// Nothing.
    pub const fn new() -> Self {
        Self([0; CLIENTS])
    }

    /// Whether a fault that was raised at `raised` (ns) is not to be cancelled, as its client unmapped something at `unmapped` last; 0: never.
    pub fn spares(&self, client: u8, raised: u64, unmapped: u64) -> bool {
        let before = unmapped != 0 && raised <= unmapped.saturating_add(MARGIN_NS);
        before && self.0.get(usize::from(client)).is_some_and(|n| *n < LIMIT)
    }

    /// A batch had faults of the client; whether one was spared.
    pub fn note(&mut self, client: u8, spared: bool) {
        if let Some(n) = self.0.get_mut(usize::from(client)) {
            *n = if spared {
                n.saturating_add(STEP)
            } else {
                n.saturating_sub(1)
            };
        }
    }
}

impl Default for Spared {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_unmapped_nothing_since_is_not_spared() {
        let s = Spared::new();
        let t = 5_000_000_000;
        assert!(!s.spares(1, t, 0), "never");
        assert!(s.spares(1, t - 1, t) && s.spares(1, 0, t));
        // The clocks differ by the time between two looks.
        assert!(s.spares(1, t + MARGIN_NS, t) && !s.spares(1, t + MARGIN_NS + 1, t));
        assert!(!s.spares(1, u64::MAX, t));
        assert!(!s.spares(200, 0, t), "no client");
    }

    /// Catches a client that is never told of its fault.
    #[test]
    fn nobody_is_spared_for_ever() {
        let (mut s, t) = (Spared::new(), 5_000_000_000);
        let mut turns = 0;
        while s.spares(1, 0, t) {
            // Every other batch has other faults.
            s.note(1, true);
            s.note(1, false);
            turns += 1;
            assert!(turns < 100);
        }
        assert!(turns > 8);
        assert!(s.spares(2, 0, t), "of others nothing was");
        // Later it may happen again.
        for _ in 0..u8::MAX {
            s.note(1, false);
        }
        assert_eq!(s, Spared::new());
    }
}
