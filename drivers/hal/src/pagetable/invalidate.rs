// SPDX-License-Identifier: GPL-2.0
//! Which cached translations a change of page tables makes stale.

use crate::ids::GpuVa;

/// Highest level of cached entries to drop (PAGE_TABLE_LEVEL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 4 KiB and 64 KiB entries.
    Pte = 1,
    /// Also PDE0 entries, 2 MiB pages among them.
    Pde0 = 2,
    /// Also PDE1.
    Pde1 = 3,
    /// Also PDE2.
    Pde2 = 4,
    /// Also the root's entries.
    Pde3 = 5,
}

/// A range of virtual addresses and a level to invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidate {
    /// First address, aligned to the range.
    pub va: GpuVa,
    /// The range is 4 KiB × 2^this.
    pub log2_pages: u8,
    /// Highest level to drop.
    pub level: Level,
    /// Some page lost a permission or moved: memory may be reused only after the invalidate was acknowledged.
    /// `false`: pages were only added, and the invalidate is there for cached misses.
    pub downgrade: bool,
}

impl Invalidate {
    /// The smallest aligned range that covers `first..=last` (addresses of bytes).
    pub fn cover(first: GpuVa, last: GpuVa, level: Level, downgrade: bool) -> Invalidate {
        let mut log2 = 0u8;
        while log2 < 37 && (first.0 >> (12 + log2)) != (last.0 >> (12 + log2)) {
            log2 += 1;
        }
        Invalidate {
            va: GpuVa(first.0 >> (12 + log2) << (12 + log2)),
            log2_pages: log2,
            level,
            downgrade,
        }
    }

    /// One invalidate that does the work of both.
    pub fn merge(&self, o: &Invalidate) -> Invalidate {
        let last = |i: &Invalidate| i.va.0 | ((4096 << i.log2_pages.min(37)) - 1);
        Invalidate::cover(
            GpuVa(self.va.0.min(o.va.0)),
            GpuVa(last(self).max(last(o))),
            self.level.max(o.level),
            self.downgrade || o.downgrade,
        )
    }
}
