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
}

static LEFT: [Atomic<u32>; 3] = [const { Atomic::new(0) }; 3];

impl Point {
    fn left(self) -> Option<&'static Atomic<u32>> {
        // CAST: one of three.
        LEFT.get(self as usize)
    }

    /// From its number in `uapi/huvm_test.h`.
    pub(crate) fn from_u32(n: u32) -> Option<Self> {
        [Point::Host2m, Point::Host64k, Point::DmaMap]
            .get(usize::try_from(n).ok()?)
            .copied()
    }

    /// The next `times` fail; `u32::MAX`: all, until it is set anew.
    pub(crate) fn set(self, times: u32) {
        if let Some(left) = self.left() {
            left.store(times, Relaxed);
        }
    }

    /// Whether this one is to fail.
    pub(super) fn fails(self) -> bool {
        let Some(left) = self.left() else {
            return false;
        };
        // Two at once may both take the last one: a test that counts exactly has one taker.
        match left.load(Relaxed) {
            0 => false,
            u32::MAX => true,
            n => {
                left.store(n.saturating_sub(1), Relaxed);
                true
            }
        }
    }
}
