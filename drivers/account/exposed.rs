// SPDX-License-Identifier: GPL-2.0
//! The driver's part of the critical path of a GPU's faults: time in which a fault is being served and nothing is on its way into
//! the GPU's memory, so that it waits for the driver alone.
//!
//! It begins with the interrupt and ends with the thread's last replay. What the driver does while a copy towards the GPU is under way
//! is hidden behind it. Copies to the host, and those that a neighbour makes, hide nothing here; nor does the GPU's own
//! computing, which goes on beside a fault. So the figure is rather too large than too small.

use kernel::sync::atomic::{Atomic, Relaxed};

/// Of one GPU. Times are of [`crate::kernel::time::now_ns`].
pub(crate) struct Exposed {
    /// Since when a fault is served; 0: none is.
    since: Atomic<u64>,
    /// When the last copy towards the GPU was over, or what was before was counted.
    counted: Atomic<u64>,
    /// Time found since the last [`Self::served`].
    ns: Atomic<u64>,
}

impl Exposed {
    pub(super) const fn new() -> Self {
        Exposed {
            since: Atomic::new(0),
            counted: Atomic::new(0),
            ns: Atomic::new(0),
        }
    }

    /// There is a fault to serve. Any context.
    pub(crate) fn serving(&self, now: u64) {
        // Whoever came first was earlier.
        let _earlier = self.since.cmpxchg(0, now, Relaxed);
    }

    /// Whether a fault is being served.
    pub(crate) fn is_serving(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// A copy towards the GPU is over. Any context.
    pub(crate) fn fetched(&self, now: u64) {
        self.counted.store(now, Relaxed);
    }

    /// Nothing was on its way to the GPU until now.
    pub(crate) fn idle_until(&self, now: u64) {
        let since = self.since.load(Relaxed);
        if since != 0 {
            let from = since.max(self.counted.load(Relaxed));
            self.ns.add(now.saturating_sub(from), Relaxed);
            self.counted.store(now, Relaxed);
        }
    }

    /// The thread has served what there was. How long it was alone with it.
    pub(crate) fn served(&self) -> u64 {
        self.since.store(0, Relaxed);
        self.ns.xchg(0, Relaxed)
    }
}
