// SPDX-License-Identifier: GPL-2.0
//! What a GPU has to lend, as anybody reads it without a lock.
//!
//! An eviction looks at all neighbours. The counts of each are told by whoever lets go of the lock of its chunks; what its
//! policy says of lending, by whoever asked after the last change of a policy. Both may be stale when they are read: whoever
//! takes a chunk looks once more, under the lock.

use huvm_lockless::dated::{self, Dated};
use huvm_policy::pace::{self, Pace};
use huvm_policy::spare::LendConfig;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Bits of a number of chunks: memory of 2 TiB.
const CHUNK_BITS: u32 = 20;
const CHUNKS_MAX: u32 = (1 << CHUNK_BITS) - 1;
const ENABLED: u64 = 1 << (2 * CHUNK_BITS);
/// Bits of a part in percent, of 100 at most.
const PERCENT_BITS: u32 = 7;
const PERCENT_MAX: u32 = 100;
/// The longest interval between two chunks, ns: what is left beside a part; 17 s.
const INTERVAL_MAX: u64 = (1 << (dated::VALUE_BITS - PERCENT_BITS)) - 1;
const _: () = assert!(2 * CHUNK_BITS < dated::VALUE_BITS);

/// Chunks of a GPU that others may be interested in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stock {
    pub(crate) free: u32,
    /// Lent, and nowhere else.
    pub(crate) only: u32,
    /// Lent, and on the host too.
    pub(crate) removable: u32,
}

/// How a GPU lends.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) enabled: bool,
    /// Free chunks that it keeps.
    pub(crate) keep: u32,
    /// Chunks that it lends at most.
    pub(crate) limit: u32,
    /// How fast chunks come in while it works for itself.
    pub(crate) pace: Pace,
}

impl Terms {
    /// As a policy has them.
    pub(crate) fn of(config: &LendConfig) -> Self {
        Terms {
            enabled: config.enabled,
            keep: config.keep,
            limit: config.limit,
            pace: config.pace,
        }
    }
}

/// What a GPU has, and how it lends.
pub(crate) struct Offer {
    free: Atomic<u32>,
    only: Atomic<u32>,
    removable: Atomic<u32>,
    /// Terms but the pace, by the count of changes of policies.
    terms: Dated,
    /// Whether there is a chunk to be had on these terms, their pace and limit aside: 1 or 0.
    room: Dated,
    /// [`Terms::pace`].
    pace: Dated,
    /// When the next chunk is due, if there is an interval.
    due: Atomic<u64>,
    /// When somebody looked last at what the GPU's jobs take of its memory's bandwidth, what they had moved then, and whether
    /// that was all.
    looked: Atomic<u64>,
    moved_kib: Atomic<u32>,
    full: Atomic<bool>,
}

/// Terms as [`Offer`] keeps them.
fn unpacked(word: u64, pace: u64) -> Terms {
    // CAST: masked.
    let chunks = |w: u64| (w & u64::from(CHUNKS_MAX)) as u32;
    Terms {
        enabled: word & ENABLED != 0,
        keep: chunks(word >> CHUNK_BITS),
        limit: chunks(word),
        pace: Pace {
            working_ns: pace >> PERCENT_BITS,
            // CAST: masked.
            slowdown_percent: (pace & ((1 << PERCENT_BITS) - 1)) as u32,
        },
    }
}

impl Offer {
    /// So many free chunks, on unknown terms.
    pub(super) fn new(free: u32) -> Self {
        Offer {
            free: Atomic::new(free),
            only: Atomic::new(0),
            removable: Atomic::new(0),
            terms: Dated::new(),
            room: Dated::new(),
            pace: Dated::new(),
            due: Atomic::new(0),
            looked: Atomic::new(0),
            moved_kib: Atomic::new(0),
            full: Atomic::new(false),
        }
    }

    /// Says what there is. The caller holds the lock of the chunks.
    pub(super) fn tell(&self, stock: Stock) {
        self.free.store(stock.free, Relaxed);
        self.only.store(stock.only, Relaxed);
        self.removable.store(stock.removable, Relaxed);
        self.room.follow(&self.terms, |word| {
            let t = unpacked(word, 0);
            u64::from(t.enabled && (stock.free > t.keep || stock.removable != 0))
        });
    }

    /// What there was a moment ago.
    pub(crate) fn stock(&self) -> Stock {
        Stock {
            free: self.free.load(Relaxed),
            only: self.only.load(Relaxed),
            removable: self.removable.load(Relaxed),
        }
    }

    /// Whether there was nothing to be had a moment ago, on terms that hold after so many changes. One load: all neighbours of a GPU are
    /// asked this several times for each of its evictions, and where all work, most are full.
    #[inline]
    pub(crate) fn is_bare(&self, after: u64) -> bool {
        self.room.get(after) == Some(0)
    }

    /// Says what holds after so many changes of policies. The caller holds the lock of the chunks, and tells what there is before it lets go.
    pub(super) fn agree(&self, after: u64, t: &Terms) {
        let enabled = if t.enabled { ENABLED } else { 0 };
        let keep = u64::from(t.keep.min(CHUNKS_MAX)) << CHUNK_BITS;
        let limit = u64::from(t.limit.min(CHUNKS_MAX));
        let interval = t.pace.working_ns.min(INTERVAL_MAX) << PERCENT_BITS;
        let percent = t.pace.slowdown_percent.min(PERCENT_MAX);
        self.pace.put(after, interval | u64::from(percent));
        self.terms.put(after, enabled | keep | limit);
    }

    /// The terms; `None` if they are of an earlier change.
    pub(crate) fn terms(&self, after: u64) -> Option<Terms> {
        Some(unpacked(self.terms.get(after)?, self.pace.get(after)?))
    }

    /// Whether the GPU's jobs take all of its memory's bandwidth, so many MB/s. `kib` reads how much they have moved, modulo 2^32: now and
    /// then, by one caller at a time. One that is held up in there makes the next answer wrong, for as long as it takes to look again.
    pub(crate) fn is_full(&self, now: u64, mb_per_s: u32, kib: impl FnOnce() -> u32) -> bool {
        let last = self.looked.load(Relaxed);
        let since = now.saturating_sub(last);
        let is_time = pace::look_ns(mb_per_s).is_some_and(|l| since >= l);
        if is_time && self.looked.cmpxchg(last, now, Relaxed).is_ok() {
            let moved = kib();
            let before = self.moved_kib.xchg(moved, Relaxed);
            self.full.store(
                pace::is_full(moved.wrapping_sub(before), since, mb_per_s),
                Relaxed,
            );
        }
        self.full.load(Relaxed)
    }

    /// Whether they did when somebody looked last.
    pub(crate) fn was_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Whether a chunk that came in now would come too soon after the last ones.
    pub(crate) fn is_too_soon(&self, now: u64, interval: u64) -> bool {
        pace::take(self.due.load(Relaxed), now, interval).is_none()
    }

    /// A chunk comes in; `false`: too soon. Of two at the same moment both may.
    pub(crate) fn take_turn(&self, now: u64, interval: u64) -> bool {
        let due = pace::take(self.due.load(Relaxed), now, interval);
        if let Some(due) = due {
            self.due.store(due, Relaxed);
        }
        due.is_some()
    }
}
