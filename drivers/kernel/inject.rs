// SPDX-License-Identifier: GPL-2.0
//! Failures on request, for tests: what the host does when it runs short, at a place and as often as a test wants.

use kernel::sync::atomic::{Atomic, Relaxed};

/// What fails.
#[derive(Clone, Copy)]
pub(crate) enum Point {
    /// An allocation of 2 MiB of host memory.
    Host2m,
    /// An allocation of 64 KiB of host memory.
    Host64k,
    /// A mapping of host memory for DMA.
    DmaMap,
    /// A push to a channel: nothing of it is submitted.
    Submit,
    /// An allocation of 4 KiB of host memory.
    Host4k,
    /// An allocation of memory for a device: rings, page tables.
    DmaAlloc,
    /// An allocation of a place for what is behind a cut in a range.
    Tail,
}

/// How many there are.
const COUNT: usize = 7;

/// All, in the order of their discriminants, which are their numbers in `uapi/huvm_test.h`.
const ALL: [Point; COUNT] = [
    Point::Host2m,
    Point::Host64k,
    Point::DmaMap,
    Point::Submit,
    Point::Host4k,
    Point::DmaAlloc,
    Point::Tail,
];

/// Of one place: how many go well, and how many fail then.
struct Plan {
    after: Atomic<u32>,
    left: Atomic<u32>,
}

static PLANS: [Plan; COUNT] = [const {
    Plan {
        after: Atomic::new(0),
        left: Atomic::new(0),
    }
}; COUNT];

impl Point {
    fn plan(self) -> Option<&'static Plan> {
        // CAST: one of a few.
        PLANS.get(self as usize)
    }

    /// From its number in `uapi/huvm_test.h`.
    pub(crate) fn from_u32(n: u32) -> Option<Self> {
        ALL.get(usize::try_from(n).ok()?).copied()
    }

    /// `after` go well, the next `times` fail; `u32::MAX`: all, until it is set anew. Returns how many of the last call's did
    /// not come to be.
    pub(crate) fn set(self, after: u32, times: u32) -> u32 {
        let Some(plan) = self.plan() else {
            return 0;
        };
        let left = plan.left.load(Relaxed);
        plan.left.store(0, Relaxed);
        plan.after.store(after, Relaxed);
        plan.left.store(times, Relaxed);
        left
    }

    /// Whether this one is to fail.
    pub(crate) fn fails(self) -> bool {
        let Some(plan) = self.plan() else {
            return false;
        };
        let left = plan.left.load(Relaxed);
        if left == 0 {
            return false;
        }
        // Two at once may both take the last one: a test that counts exactly has one taker.
        let after = plan.after.load(Relaxed);
        if after != 0 {
            plan.after.store(after.saturating_sub(1), Relaxed);
            return false;
        }
        if left != u32::MAX {
            plan.left.store(left.saturating_sub(1), Relaxed);
        }
        true
    }
}
