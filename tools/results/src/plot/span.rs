// SPDX-License-Identifier: GPL-2.0
//! The time of a recording, in columns of a picture.

use super::WIDE;
use crate::draw::{Anchor, Scene, GREY, LIGHT};
use crate::events::Event;
use crate::units;
use std::collections::BTreeMap;

/// Columns that a picture has at most.
pub(super) const COLUMNS: i32 = WIDE;

/// A span of time, in columns of equal length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    from_ns: u64,
    /// Of a column, at least 1.
    pub(super) column_ns: u64,
    pub(super) columns: i32,
}

impl Span {
    pub(super) fn of(events: &[Event]) -> Span {
        let times = || events.iter().map(|e| e.time_ns);
        let from_ns = times().min().unwrap_or(0);
        let length = times()
            .max()
            .unwrap_or(0)
            .saturating_sub(from_ns)
            .saturating_add(1);
        // CAST: positive.
        let column_ns = length.div_ceil(COLUMNS as u64).max(1);
        Span {
            from_ns,
            column_ns,
            // CAST: at most `COLUMNS`.
            columns: length.div_ceil(column_ns) as i32,
        }
    }

    /// All of it.
    pub(super) fn length_ns(&self) -> u64 {
        // CAST: positive.
        self.column_ns.saturating_mul(self.columns as u64)
    }

    /// The column of a moment; of one outside the first or the last.
    pub(super) fn column(&self, time_ns: u64) -> i32 {
        let column = time_ns.saturating_sub(self.from_ns) / self.column_ns;
        i32::try_from(column)
            .unwrap_or(i32::MAX)
            .min(self.columns - 1)
    }

    /// Of each column that stretches of time reach into, which share of it they cover. They are in order and do not overlap.
    pub(super) fn shares(&self, stretches: &[(u64, u64)]) -> BTreeMap<i32, f64> {
        let mut shares = BTreeMap::new();
        let end_ns = self.from_ns.saturating_add(self.length_ns());
        for (from, to) in stretches {
            let (from, to) = ((*from).max(self.from_ns), (*to).min(end_ns));
            if from >= to {
                continue;
            }
            for column in self.column(from)..=self.column(to - 1) {
                // CAST: not negative.
                let begins = self.column_ns.saturating_mul(column as u64);
                let begins = self.from_ns.saturating_add(begins);
                let ends = begins.saturating_add(self.column_ns);
                let covered = to.min(ends).saturating_sub(from.max(begins));
                *shares.entry(column).or_insert(0.0) += covered as f64 / self.column_ns as f64;
            }
        }
        shares
    }

    /// Draws the scale below `y`, from `x` on, with lines up to `top`.
    pub(super) fn scale(&self, s: &mut Scene, x: i32, top: i32, y: i32) {
        const TICKS: i32 = 4;
        for i in 0..=TICKS {
            let at = x + self.columns * i / TICKS;
            s.rect(at, top, 1, y + 4 - top, LIGHT);
            // CAST: positive.
            let ns = self.length_ns() / TICKS as u64 * i as u64;
            s.text(at, y + 6, Anchor::Middle, GREY, &units::time(ns));
        }
    }
}
