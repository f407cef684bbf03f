// SPDX-License-Identifier: GPL-2.0
//! How fast a GPU takes chunks in from borrowers while it works for itself.
//!
//! What borrowers move through a lender's memory, its own jobs do not get: each chunk is written there, read when it comes home,
//! and perhaps read once more by its write-back. A job that needs all of the memory's bandwidth is slower by that share, so an
//! owner may say how much it is to be (knob `lend_rate_mb_s`).
//!
//! The rule is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371): one number, the time from which the
//! next chunk is due. A chunk may come early by [`BURST`] chunks, and makes the next one due one interval later.

use crate::types::BLOCK_BYTES;

/// Chunks that may come at once after a pause.
pub const BURST: u64 = 2;

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
