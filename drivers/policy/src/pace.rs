// SPDX-License-Identifier: GPL-2.0
//! How fast a GPU takes chunks in from borrowers while it works for itself.
//!
//! What borrowers move through a lender's memory, its own jobs do not get: each chunk is written there, read when it comes home,
//! and perhaps read once more by its write-back. A job that needs all of the memory's bandwidth is slower by that share, so while
//! there is one ([`is_full`], looked at each [`look_ns`]) borrowers get a small part (knob `lend_slowdown_percent`); a job that leaves
//! some of the bandwidth loses nothing to them. An owner may also say how much comes in while there are any jobs (`lend_rate_mb_s`).
//!
//! The rule of both is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371): one number, the time from which the
//! next chunk is due. A chunk may come early by [`BURST`] chunks, and makes the next one due one interval later.

use crate::config::{KnobId, Policy};
use crate::types::BLOCK_BYTES;

/// Chunks that may come at once after a pause.
pub const BURST: u64 = 2;

/// How often a chunk that comes in crosses the lender's memory: see the module's description.
const CROSSINGS: u64 = 3;
/// Bytes that a memory could have moved between two looks at its jobs: enough that the pieces that jobs are in do not show.
const LOOK_BYTES: u64 = 64 << 20;
/// Looks' time after which the last one says nothing of now, and the count may have gone round.
const LOOKS_STALE: u64 = 1024;
/// Part of its memory's bandwidth that a GPU's jobs take when they would take all: they wait for the rest of what they do, too.
const FULL_PERCENT: u128 = 75;

/// How fast a GPU takes chunks in while it works for itself, as its policy has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two chunks while there are jobs at all, ns; 0: none.
    pub working_ns: u64,
    /// Part of the memory's bandwidth that borrowers get while jobs take all of it; 100 or more: what they can.
    pub slowdown_percent: u32,
}

impl Pace {
    /// Whatever comes.
    pub const NONE: Self = Self {
        working_ns: 0,
        slowdown_percent: 100,
    };

    /// As a policy has it.
    pub fn of(policy: &Policy) -> Self {
        Self {
            working_ns: interval_ns(policy.get_u32(KnobId::LendRate)),
            slowdown_percent: policy.get_u32(KnobId::LendSlowdown),
        }
    }

    /// True if it differs from [`NONE`](Self::NONE) in nothing: nobody has to look at what the GPU does.
    pub const fn is_none(&self) -> bool {
        self.working_ns == 0 && self.slowdown_percent >= 100
    }

    /// Between two chunks, ns, while there are jobs or not, and the memory moves so many MB/s, all of it for jobs or not.
    pub fn interval_ns(&self, works: bool, full: bool, mb_per_s: u32) -> u64 {
        let part = u64::from(mb_per_s).saturating_mul(u64::from(self.slowdown_percent));
        // MB/s × percent ÷ 100 are so many chunks a time.
        let sharing = match (BLOCK_BYTES * 1_000 * 100 * CROSSINGS).checked_div(part) {
            Some(ns) if full && self.slowdown_percent < 100 => ns,
            _ => 0,
        };
        if works {
            self.working_ns.max(sharing)
        } else {
            sharing
        }
    }
}

/// Nanoseconds between two looks at what a GPU's jobs take of a memory of so many MB/s; `None` if nobody knows that.
pub const fn look_ns(mb_per_s: u32) -> Option<u64> {
    (LOOK_BYTES * 1_000).checked_div(mb_per_s as u64)
}

/// Whether a GPU's jobs took all of a memory of so many MB/s, when they moved `kib` (a difference modulo 2^32) in `ns`.
pub fn is_full(kib: u32, ns: u64, mb_per_s: u32) -> bool {
    let stale = look_ns(mb_per_s).map_or(0, |l| l.saturating_mul(LOOKS_STALE));
    // Both in bytes × 1000 × 100.
    let moved = u128::from(kib) * 1024 * 1_000 * 100;
    let whole = u128::from(ns) * u128::from(mb_per_s);
    // Twice as much as there is: the device counts anew.
    ns <= stale && moved >= whole * FULL_PERCENT && moved <= whole * 200
}

/// Nanoseconds between two chunks at so many MB/s (10^6 bytes); 0 for 0, which is no limit.
pub const fn interval_ns(mb_per_s: u32) -> u64 {
    match (BLOCK_BYTES * 1_000).checked_div(mb_per_s as u64) {
        None => 0,
        // Faster than a chunk a nanosecond is still not unlimited.
        Some(0) => 1,
        Some(ns) => ns,
    }
}

/// A chunk wants to come in at `now`, and the next one is due at `due`. The due time after it, or `None`: too soon. All in
/// nanoseconds of one clock; `interval` as [`interval_ns`] has it.
pub fn take(due: u64, now: u64, interval: u64) -> Option<u64> {
    let early = interval.saturating_mul(BURST - 1);
    if due > now.saturating_add(early) {
        return None;
    }
    Some(due.max(now).saturating_add(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks that come in within `ns`, one asking every `step` ns.
    fn come(interval: u64, ns: u64, step: usize) -> u64 {
        let (mut due, mut n) = (0, 0);
        for now in (0..ns).step_by(step) {
            if let Some(next) = take(due, 1_000_000 + now, interval) {
                (due, n) = (next, n + 1);
            }
        }
        n
    }

    #[test]
    fn an_interval_is_a_chunk_at_that_rate() {
        // 2 MiB at 10 GB/s.
        assert_eq!(interval_ns(10_000), 209_715);
        assert_eq!(interval_ns(0), 0);
        assert_eq!(interval_ns(u32::MAX), 1);
    }

    #[test]
    fn a_pace_is_as_slow_as_its_slower_rule() {
        let mut p = Policy::new();
        let by_default = Pace::of(&p);
        // 2 % of 900 GB/s, three times over each chunk: 6 GB/s.
        assert_eq!(by_default.interval_ns(true, true, 900_000), 349_525);
        assert_eq!(by_default.interval_ns(true, false, 900_000), 0);
        assert!(!by_default.is_none());
        // Nobody knows how fast its memory is.
        assert_eq!(by_default.interval_ns(true, true, 0), 0);
        p.set(KnobId::LendRate, 20_000).unwrap();
        let both = Pace::of(&p);
        assert_eq!(both.interval_ns(true, true, 900_000), 349_525);
        assert_eq!(both.interval_ns(true, false, 900_000), 104_857);
        // Between two launches.
        assert_eq!(both.interval_ns(false, false, 900_000), 0);
        assert_eq!(both.interval_ns(false, true, 900_000), 349_525);
        p.set(KnobId::LendSlowdown, 100).unwrap();
        assert_eq!(Pace::of(&p).interval_ns(true, true, 900_000), 104_857);
        p.set(KnobId::LendRate, 0).unwrap();
        assert_eq!(Pace::of(&p), Pace::NONE);
        assert!(Pace::NONE.is_none());
        assert_eq!(Pace::NONE.interval_ns(true, true, 900_000), 0);
    }

    #[test]
    fn a_memory_is_full_from_three_quarters_on() {
        assert_eq!(look_ns(900_000), Some(74_565));
        assert_eq!(look_ns(0), None);
        // 1 MB/s is a byte a microsecond: 1024 kB in so many seconds.
        let kib = 1000;
        let full = |percent: u64| is_full(kib, 1_024_000 * 100 / percent, 1_000);
        assert!(!full(74) && full(76) && full(100));
        // More than there is: a piece that had begun before, but not a counter that began anew.
        assert!(full(150) && !full(250));
        assert!(!is_full(u32::MAX, 1, 1_000));
        assert!(!is_full(0, 1_000, 1_000));
        // Long ago.
        let ns = look_ns(1_000).unwrap() * LOOKS_STALE;
        let all = |ns: u64| u32::try_from(ns / 1024).unwrap();
        assert!(is_full(all(ns), ns, 1_000));
        assert!(!is_full(all(ns + 1024), ns + 1024, 1_000));
        // A device that says nothing, or anything.
        assert!(!is_full(7, 0, 0) && !is_full(u32::MAX, u64::MAX, u32::MAX));
    }

    #[test]
    fn who_asks_all_the_time_gets_the_rate_and_a_burst_once() {
        assert_eq!(come(1_000, 100_000, 10), 100 + BURST - 1);
        // Who asks less often than that gets all.
        assert_eq!(come(1_000, 100_000, 2_000), 50);
    }

    #[test]
    fn a_pause_is_not_saved_up() {
        let mut due = take(0, 1_000, 100).unwrap_or(0);
        // Long after.
        let mut n = 0;
        while let Some(next) = take(due, 1_000_000, 100) {
            (due, n) = (next, n + 1);
        }
        assert_eq!(n, BURST);
    }

    #[test]
    fn without_an_interval_all_come_and_the_clock_may_end() {
        assert_eq!(take(5, 5, 0), Some(5));
        assert_eq!(take(0, u64::MAX, u64::MAX), Some(u64::MAX));
        assert_eq!(take(u64::MAX, 0, 1), None);
    }
}
