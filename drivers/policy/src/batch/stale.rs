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
/// So many are spared at once, at most; and then one more in each second.
const LIMIT: u64 = 16;
const EACH_NS: u64 = 1_000_000_000;

/// Of a client's faults, what was spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of {
    /// When the client came, ns: who had its subcontext before is another one.
    since: u64,
    /// Until when it counts, ns.
    until: u64,
}

/// The same of each client of a GPU, by subcontext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spared([Of; CLIENTS]);

impl Spared {
    /// Nothing.
    pub const fn new() -> Self {
        Self([Of { since: 0, until: 0 }; CLIENTS])
    }

    /// Whether a fault that was raised at `raised` (ns) is not to be cancelled `now`, as its client, which came at `since`, unmapped
    /// something at `unmapped` last; 0: never. Counts it if so.
    pub fn spares(
        &mut self,
        (client, since): (u8, u64),
        raised: u64,
        unmapped: u64,
        now: u64,
    ) -> bool {
        if unmapped == 0 || raised > unmapped.saturating_add(MARGIN_NS) {
            return false;
        }
        let Some(of) = self.0.get_mut(usize::from(client)) else {
            return false;
        };
        if of.since != since {
            *of = Of { since, until: 0 };
        }
        let next = now.max(of.until).saturating_add(EACH_NS);
        let spares = next <= now.saturating_add(LIMIT * EACH_NS);
        if spares {
            of.until = next;
        }
        spares
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
        let t = 5_000_000_000;
        let spares =
            |client, raised, unmapped| Spared::new().spares((client, 3), raised, unmapped, t);
        assert!(!spares(1, t, 0), "never");
        assert!(spares(1, t - 1, t) && spares(1, 0, t));
        // The clocks differ by the time between two looks.
        assert!(spares(1, t + MARGIN_NS, t) && !spares(1, t + MARGIN_NS + 1, t));
        assert!(!spares(1, u64::MAX, t));
        assert!(!spares(200, 0, t), "no client");
    }

    /// Catches a client that is never told of its fault, and one that is spared no more since it once was.
    #[test]
    fn nobody_is_spared_for_ever() {
        let (mut s, t) = (Spared::new(), 5_000_000_000);
        let mut within = |client, from: u64, ms: u64| {
            let each = from..from + ms * 1_000_000;
            each.step_by(1_000_000)
                .filter(|now| s.spares(client, 0, t, *now))
                .count() as u64
        };
        let (one, two, successor) = ((1, 3), (2, 3), (1, 4));
        assert_eq!(within(one, t, 900), LIMIT);
        assert_eq!(within(two, t, 900), LIMIT, "of others nothing was");
        let later = t + 900_000_000;
        assert_eq!(within(one, later, 5000), 5, "one in each second");
        let later = later + 100 * EACH_NS;
        assert_eq!(within(one, later, 900), LIMIT, "it was long ago");
        assert_eq!(within(successor, later, 900), LIMIT, "of it nothing was");
        assert!(
            s.spares(successor, 0, t, u64::MAX),
            "no time is too late to be reckoned with"
        );
    }
}
