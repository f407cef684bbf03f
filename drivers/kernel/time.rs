// SPDX-License-Identifier: GPL-2.0
//! Clock and short sleeps.

use super::ffi::c;

/// CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: no preconditions.
    unsafe { c::huvm_now_ns() }
}

/// Sleeps for at least `us` microseconds. Process context only.
pub(crate) fn sleep_us(us: u64) {
    // SAFETY: callers are in process context, as documented; the function has no other precondition.
    unsafe { c::huvm_sleep_us(us as usize) }
}

/// Tells the CPU that it spins.
pub(crate) fn relax() {
    // SAFETY: no preconditions.
    unsafe { c::huvm_relax() }
}

/// A bounded wait for the device: spins for a moment, then sleeps, gives up at the deadline. As the `Wait` of
/// `huvm_hal` it is `&mut || patience.again()`.
pub(crate) struct Patience {
    start: u64,
    limit_ns: u64,
}

/// How long [`Patience`] spins before it sleeps: longer than a register access that completes at once, shorter than a
/// time slice.
const SPIN_NS: u64 = 20_000;

impl Patience {
    /// Starts now; [`Self::again`] says no after `limit_ns`.
    pub(crate) fn new(limit_ns: u64) -> Self {
        Patience {
            start: now_ns(),
            limit_ns,
        }
    }

    /// Whether it has waited for long enough that it sleeps.
    pub(crate) fn sleeps(&self) -> bool {
        now_ns().saturating_sub(self.start) >= SPIN_NS
    }

    /// Waits a little. `false` when time is up. May sleep.
    pub(crate) fn again(&mut self) -> bool {
        let waited = now_ns().saturating_sub(self.start);
        if waited >= self.limit_ns {
            return false;
        }
        if waited < SPIN_NS {
            relax();
        } else {
            sleep_us(10);
        }
        true
    }
}
