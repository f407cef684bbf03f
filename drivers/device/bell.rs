// SPDX-License-Identifier: GPL-2.0
//! A bell for a service thread: rung from anywhere, heard once. Why no ring is lost: [`huvm_lockless::bell`].

use crate::kernel::thread;
use crate::kernel::wait::WaitQueue;
use huvm_lockless::bell;
use kernel::prelude::*;

/// A bell.
#[pin_data]
pub(crate) struct Bell {
    rung: bell::Bell,
    #[pin]
    wait: WaitQueue,
}

impl Bell {
    /// Not rung.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { rung: bell::Bell::new(), wait <- WaitQueue::new() })
    }

    /// Wakes the thread. Any context.
    pub(crate) fn ring(&self) {
        if self.rung.ring() {
            self.wait.wake_all();
        }
    }

    /// The calling service thread sleeps until the bell is rung, it is asked to stop, or for `ns`. `false`: it is to stop.
    pub(crate) fn listen(&self, ns: u64) -> bool {
        let _look_anyhow = self.hears(ns);
        !thread::should_stop()
    }

    /// As [`Self::listen`]. `false`: nobody rang in that time.
    pub(crate) fn hears(&self, ns: u64) -> bool {
        let done = || thread::should_stop() || self.rung.is_rung();
        let rung = self.wait.wait_idle(ns, done);
        self.rung.hear();
        rung
    }
}
