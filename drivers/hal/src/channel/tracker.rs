// SPDX-License-Identifier: GPL-2.0
//! Trackers: small sets of (channel, value) that say what an operation has to wait for.

use crate::ids::ChannelId;

/// Entries that a [`Tracker`] can hold: more than an operation on a block has channels, which are one of each of 16 GPUs that have some of
/// it, four of the one that it goes to, and one or two that empty the chunk there.
pub const TRACKER_SLOTS: usize = 24;

/// Whether a channel whose semaphore reads `now` has completed `value`. Values wrap at 32 bits; the two may be less
/// than 2^31 apart.
pub const fn is_complete(now: u32, value: u32) -> bool {
    now.wrapping_sub(value) < 1 << 31
}

/// Whether a channel that was handed `last` pushes, fewer than `entries` of them not complete, can read `now` on its semaphore.
/// One that reads anything else says what the GPU never did.
pub const fn is_possible(now: u32, last: u32, entries: u32) -> bool {
    last.wrapping_sub(now) < entries
}

/// What has to complete: at most one value a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracker {
    slots: [Option<(ChannelId, u32)>; TRACKER_SLOTS],
}

impl Tracker {
    /// Nothing to wait for.
    pub const EMPTY: Tracker = Tracker {
        slots: [None; TRACKER_SLOTS],
    };

    /// Also waits for `value` of `channel`. When there is no slot left the entry comes back: the caller waits for it
    /// (or for the tracker, and clears it) at once.
    pub fn add(&mut self, channel: ChannelId, value: u32) -> Option<(ChannelId, u32)> {
        let mut free = None;
        for s in self.slots.iter_mut() {
            match s {
                Some((c, v)) if *c == channel => {
                    if !is_complete(*v, value) {
                        *v = value;
                    }
                    return None;
                }
                None if free.is_none() => free = Some(s),
                _ => {}
            }
        }
        match free {
            Some(s) => {
                *s = Some((channel, value));
                None
            }
            None => Some((channel, value)),
        }
    }

    /// Also waits for all of `other`. Returns what did not fit; the caller waits for that at once.
    pub fn merge(&mut self, other: &Tracker) -> Tracker {
        let mut rest = Tracker::EMPTY;
        for (c, v) in other.iter() {
            if let Some((c, v)) = self.add(c, v) {
                // Cannot overflow: `rest` has as many slots as `other`.
                let _ = rest.add(c, v);
            }
        }
        rest
    }

    /// Drops the entries that `now(channel)` (the channel's semaphore) shows complete. A channel that `now` does not
    /// know is gone, and its entry dropped. Returns whether nothing is left.
    pub fn prune(&mut self, mut now: impl FnMut(ChannelId) -> Option<u32>) -> bool {
        for s in self.slots.iter_mut() {
            if let Some((c, v)) = *s {
                if now(c).is_none_or(|n| is_complete(n, v)) {
                    *s = None;
                }
            }
        }
        self.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, u32)> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|s| s.is_none())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Tracker::EMPTY;
    }
}
