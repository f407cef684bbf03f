// SPDX-License-Identifier: GPL-2.0
//! A bell for a service thread: rung from anywhere, heard once.

use crate::kernel::thread;
use crate::kernel::wait::WaitQueue;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed, Release};

/// A bell.
#[pin_data]
pub(crate) struct Bell {
    rung: Atomic<bool>,
    #[pin]
    wait: WaitQueue,
}

impl Bell {
    /// Not rung.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { rung: Atomic::new(false), wait <- WaitQueue::new() })
    }

    /// Wakes the thread. Any context.
    pub(crate) fn ring(&self) {
        if !self.rung.load(Relaxed) {
            self.rung.store(true, Release);
            self.wait.wake_all();
        }
    }

    /// The calling service thread sleeps until the bell is rung, it is asked to stop, or for `ns`. `false`: it is to stop.
    pub(crate) fn listen(&self, ns: u64) -> bool {
        self.wait
            .wait_idle(ns, || thread::should_stop() || self.rung.load(Relaxed));
        let _was = self.rung.xchg(false, Full);
        !thread::should_stop()
    }
}
