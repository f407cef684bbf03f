// SPDX-License-Identifier: GPL-2.0
//! What the driver tells about itself, and what it was told: counters, events, tracepoints, policy.

pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod exposed;
pub(crate) mod latency;
pub(crate) mod policy;
pub(crate) mod trace;
pub(crate) mod waits;

use crate::device::Gpu;
use crate::memory::space::Space;
use counters::{Counter, Counters};

static GLOBAL: Counters = Counters::new();

/// Adds to a counter: to the global one, and to the GPU's and the space's where one is named.
#[inline]
pub(crate) fn count(gpu: Option<&Gpu>, space: Option<&Space>, counter: Counter, n: u64) {
    if n == 0 {
        return;
    }
    trace::count(gpu, space, counter, n);
    GLOBAL.add(counter, n);
    if let Some(g) = gpu {
        g.counters().add(counter, n);
    }
    if let Some(s) = space {
        s.counters.add(counter, n);
    }
}

/// The global counters.
pub(crate) fn global() -> &'static Counters {
    &GLOBAL
}
