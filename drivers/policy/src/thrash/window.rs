// SPDX-License-Identifier: GPL-2.0
//! The detection window of an address space (`nvidia-uvm.md` 5.2, adaptive window).
//!
//! The driver described means to widen and narrow the window by votes. By a slip, each gap shorter than the window widens
//! it by an eighth at once, until it is 500 ms: a thousand times what it began as, after 59 short gaps. `as-shipped` is
//! that growth. Not reproduced: the narrowing that is then possible at the cap, whose exact rule the reference does not
//! give. As there, a window other than the default one is left alone.

use crate::config::{KnobId, Policy};
use crate::types::Nanos;

/// The widest that a window grows.
pub const WINDOW_MAX: Nanos = Nanos::from_millis(500);

/// The window of one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrashWindow {
    current: Nanos,
    grows: bool,
}

impl ThrashWindow {
    /// The window that a policy starts with.
    pub fn new(policy: &Policy) -> Self {
        let window = KnobId::ThrashWindow;
        Self {
            current: Nanos::from_micros(policy.get(window)),
            grows: policy.is_on(KnobId::ThrashWindowMode)
                && policy.get(window) == window.knob().default,
        }
    }

    /// The window now.
    pub const fn current(&self) -> Nanos {
        self.current
    }

    /// Notes the time between two events of a block, from [`BlockThrash::record`](super::BlockThrash::record).
    pub fn note_gap(&mut self, gap: Nanos) {
        if self.grows && gap <= self.current {
            self.current = self
                .current
                .after(Nanos(self.current.0 / 8))
                .min(WINDOW_MAX);
        }
    }
}
