// SPDX-License-Identifier: GPL-2.0
//! Trackers: small sets of (channel, number of a push) that say what an operation has to wait for.
//!
//! A channel's semaphore has the last 32 bits of such a number. A tracker may be looked at days later, as that of a block which nobody
//! touches; so it has 48, which no uptime is long enough for: they last nine years at a million pushes a second.

use crate::ids::ChannelId;

/// Entries that a [`Tracker`] can hold: more than an operation on a block has channels, which are one of each of 16 GPUs that have some of
/// it, four of the one that it goes to, and one or two that empty the chunk there.
pub const TRACKER_SLOTS: usize = 24;

/// Bits of a number in a [`Tracker`].
const NUMBER_BITS: u32 = 48;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// Whether a channel whose semaphore reads `now` has completed `value`. Values wrap at 32 bits; the two may be less
/// than 2^31 apart.
pub(super) const fn is_complete(now: u32, value: u32) -> bool {
    now.wrapping_sub(value) < 1 << 31
}

/// Whether a channel that was handed `last` pushes, fewer than `entries` of them not complete, can read `now` on its semaphore.
/// One that reads anything else says what the GPU never did.
pub(super) const fn is_possible(now: u32, last: u32, entries: u32) -> bool {
    last.wrapping_sub(now) < entries
}

/// A push of a channel, in one word, which is also how it is kept where locks are not taken. No push has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushId(u64);

impl PushId {
    /// Push `number` of `channel`.
    pub const fn new(channel: ChannelId, number: u64) -> Self {
        PushId((channel.0 as u64) << NUMBER_BITS | number & NUMBER)
    }

    /// From what [`Self::word`] gave; 0 is none.
    pub const fn of_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            word => Some(PushId(word)),
        }
    }

    /// Not 0.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whose it is.
    pub const fn channel(self) -> ChannelId {
        // CAST: the bits above the number.
        ChannelId((self.0 >> NUMBER_BITS) as u16)
    }

    /// Its number there.
    pub const fn number(self) -> u64 {
        self.0 & NUMBER
    }
}

/// What has to complete: at most one push a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracker {
    /// As [`PushId::word`]; 0: none.
    slots: [u64; TRACKER_SLOTS],
}

impl Tracker {
    /// Nothing to wait for.
    pub const EMPTY: Tracker = Tracker {
        slots: [0; TRACKER_SLOTS],
    };

    /// Also waits for `push`. When there is no slot left it comes back: the caller waits for it (or for the tracker, and clears it)
    /// at once.
    pub fn add(&mut self, push: PushId) -> Option<PushId> {
        let mut free = None;
        for slot in self.slots.iter_mut() {
            match PushId::of_word(*slot) {
                Some(p) if p.channel() == push.channel() => {
                    *slot = (*slot).max(push.word());
                    return None;
                }
                None if free.is_none() => free = Some(slot),
                _ => {}
            }
        }
        match free {
            Some(slot) => {
                *slot = push.word();
                None
            }
            None => Some(push),
        }
    }

    /// Also waits for all of `other`. Returns what did not fit; the caller waits for that at once.
    pub fn merge(&mut self, other: &Tracker) -> Tracker {
        let mut rest = Tracker::EMPTY;
        for push in other.pushes() {
            if let Some(push) = self.add(push) {
                // Cannot overflow: `rest` has as many slots as `other`.
                let _ = rest.add(push);
            }
        }
        rest
    }

    /// Drops the entries that are over, as `is_over` says. Returns whether nothing is left.
    pub fn prune(&mut self, mut is_over: impl FnMut(ChannelId, u64) -> bool) -> bool {
        for slot in self.slots.iter_mut() {
            if PushId::of_word(*slot).is_some_and(|p| is_over(p.channel(), p.number())) {
                *slot = 0;
            }
        }
        self.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, u64)> + '_ {
        self.pushes().map(|p| (p.channel(), p.number()))
    }

    /// The same, each in one.
    pub fn pushes(&self) -> impl Iterator<Item = PushId> + '_ {
        self.slots.iter().filter_map(|s| PushId::of_word(*s))
    }

    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|s| *s == 0)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Tracker::EMPTY;
    }
}
