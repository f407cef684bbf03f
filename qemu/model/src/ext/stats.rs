// SPDX-License-Identifier: GPL-2.0
//! STATS block: what went where, for how long.

use huvm_hw::ext::stats::{Counter, COUNT, COUNTER0, WORK_LOCAL_KIB};

/// The counters of one GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    value: [u64; COUNT],
    /// Picoseconds not yet a nanosecond, of the busy counters.
    rest_ps: [u64; COUNT],
    latch: u32,
}

impl Stats {
    /// Adds to a counter.
    pub(crate) fn add(&mut self, counter: Counter, n: u64) {
        if let Some(v) = self.value.get_mut(counter as usize) {
            *v = v.wrapping_add(n);
        }
    }

    /// Adds picoseconds to a counter of nanoseconds.
    pub(crate) fn add_busy_ps(&mut self, counter: Counter, ps: u64) {
        let whole = match self.rest_ps.get_mut(counter as usize) {
            Some(rest) => {
                let sum = rest.saturating_add(ps);
                *rest = sum % 1000;
                sum / 1000
            }
            None => 0,
        };
        self.add(counter, whole);
    }

    /// Zeroes all counters.
    pub(crate) fn clear(&mut self) {
        *self = Stats::default();
    }

    /// Reads a register of the block.
    pub(crate) fn register_read(&mut self, offset: u32) -> u32 {
        if offset == WORK_LOCAL_KIB {
            let bytes = self.value.get(Counter::WorkBytesLocal as usize);
            return bytes.map_or(0, |b| (b >> 10) as u32);
        }
        let Some(rel) = offset.checked_sub(COUNTER0) else {
            return 0;
        };
        let Some(&v) = self.value.get((rel / 8) as usize) else {
            return 0;
        };
        if rel % 8 == 0 {
            self.latch = (v >> 32) as u32;
            v as u32
        } else {
            self.latch
        }
    }
}
