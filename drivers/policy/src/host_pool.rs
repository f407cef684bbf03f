// SPDX-License-Identifier: GPL-2.0
//! How much host memory to keep ready for evictions, and when to go for more.
//!
//! Large-page host eviction (HUVM, ATC'22) takes one 2 MiB piece for a whole chunk, from a pool that a thread refills. The
//! pool of a GPU is kept while the GPU's policy says so, and for [`LINGER`] after anybody asked it for a piece: a process
//! may have the technique switched on for itself alone.
//!
//! **The hard case** is a host without 2 MiB in one piece. Each refill that fails makes the pause before the next twice
//! as long, from [`PAUSE_MIN`] to [`PAUSE_MAX`]: the pool stays empty, evictions fall back, and nobody spends the host's
//! time looking for what is not there.

use crate::config::{KnobId, Policy};
use crate::types::Nanos;

/// A pool that nobody's policy keeps is kept this long after the last request.
pub const LINGER: Nanos = Nanos(2_000_000_000);
/// Pause after a refill that failed.
pub const PAUSE_MIN: Nanos = Nanos(50_000_000);
/// Longest pause between two refills.
pub const PAUSE_MAX: Nanos = Nanos(6_400_000_000);

/// What a GPU's policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Kept full whether anybody asks or not.
    pub kept: bool,
    /// Pieces of a full pool.
    pub target: u32,
}

impl PoolConfig {
    /// As a policy has them.
    pub fn of(policy: &Policy) -> Self {
        Self {
            kept: policy.is_on(KnobId::LargePageEvict),
            target: policy.get_u32(KnobId::LargePagePool) / 2,
        }
    }

    /// No pool: of a GPU that is lost.
    pub const fn none() -> Self {
        Self {
            kept: false,
            target: 0,
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolStep {
    /// Nothing now: ask again when a piece was taken, or after a while.
    Idle,
    /// Add a piece, say how it went, and ask again.
    Fill,
    /// Free this many pieces.
    Shed(u32),
}

/// The refilling of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolKeeper {
    pause: Nanos,
    until: Nanos,
}

impl PoolKeeper {
    /// Nothing failed yet.
    pub const fn new() -> Self {
        Self {
            pause: Nanos(0),
            until: Nanos(0),
        }
    }

    /// What to do at `now` with `held` pieces, of which one was last asked for at `asked` (`None`: never).
    pub fn step(
        &self,
        now: Nanos,
        held: u32,
        asked: Option<Nanos>,
        config: &PoolConfig,
    ) -> PoolStep {
        let recent = asked.is_some_and(|at| now.0.saturating_sub(at.0) < LINGER.0);
        let target = if config.kept || recent {
            config.target
        } else {
            0
        };
        match held.checked_sub(target) {
            Some(0) => PoolStep::Idle,
            Some(n) => PoolStep::Shed(n),
            None if now < self.until => PoolStep::Idle,
            None => PoolStep::Fill,
        }
    }

    /// A piece was added.
    pub fn filled(&mut self) {
        *self = Self::new();
    }

    /// None could be had at `now`.
    pub fn failed(&mut self, now: Nanos) {
        let twice = self.pause.0.saturating_mul(2);
        self.pause = Nanos(twice.clamp(PAUSE_MIN.0, PAUSE_MAX.0));
        self.until = Nanos(now.0.saturating_add(self.pause.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: PoolConfig = PoolConfig {
        kept: true,
        target: 4,
    };
    const ASKED_FOR: PoolConfig = PoolConfig {
        kept: false,
        target: 4,
    };

    #[test]
    fn it_fills_to_the_target_and_sheds_what_is_above() {
        let k = PoolKeeper::new();
        let step = |held| k.step(Nanos(7), held, None, &KEPT);
        assert_eq!(step(0), PoolStep::Fill);
        assert_eq!(step(3), PoolStep::Fill);
        assert_eq!(step(4), PoolStep::Idle);
        assert_eq!(step(9), PoolStep::Shed(5));
        assert_eq!(
            k.step(Nanos(7), 2, Some(Nanos(7)), &PoolConfig::none()),
            PoolStep::Shed(2)
        );
    }

    #[test]
    fn a_pool_that_is_not_kept_lives_from_requests() {
        let k = PoolKeeper::new();
        let at = |now, held, asked| k.step(Nanos(now), held, asked, &ASKED_FOR);
        assert_eq!(at(5, 0, None), PoolStep::Idle);
        assert_eq!(at(5, 3, None), PoolStep::Shed(3));
        let asked = Some(Nanos(1000));
        assert_eq!(at(1000, 0, asked), PoolStep::Fill);
        assert_eq!(at(999 + LINGER.0, 3, asked), PoolStep::Fill);
        assert_eq!(at(1000 + LINGER.0, 3, asked), PoolStep::Shed(3));
        // A request that was noted by another CPU a moment after `now` was read.
        assert_eq!(at(900, 3, asked), PoolStep::Fill);
    }

    #[test]
    fn failures_make_the_pause_longer_up_to_a_bound() {
        let mut k = PoolKeeper::new();
        let mut now = Nanos(0);
        let mut last = 0;
        for n in 0..20 {
            k.failed(now);
            assert_eq!(k.step(now, 0, None, &KEPT), PoolStep::Idle);
            // What is above the target goes all the same.
            assert_eq!(k.step(now, 5, None, &KEPT), PoolStep::Shed(1));
            let pause = (0..)
                .map(|i| PAUSE_MIN.0 << i)
                .find(|p| k.step(Nanos(now.0 + p), 0, None, &KEPT) == PoolStep::Fill)
                .unwrap();
            assert!(pause <= PAUSE_MAX.0 && (pause == 2 * last || n == 0 || pause == PAUSE_MAX.0));
            last = pause;
            now = Nanos(now.0 + pause);
        }
        assert_eq!(last, PAUSE_MAX.0);
        k.filled();
        assert_eq!(k, PoolKeeper::new());
        k.failed(Nanos(u64::MAX));
        assert_eq!(k.step(Nanos(u64::MAX), 0, None, &KEPT), PoolStep::Fill);
    }

    #[test]
    fn the_knobs_are_in_mib() {
        let mut p = Policy::new();
        assert_eq!(
            PoolConfig::of(&p),
            PoolConfig {
                kept: false,
                target: 64
            }
        );
        p.set(KnobId::LargePageEvict, 1).unwrap();
        p.set(KnobId::LargePagePool, 3).unwrap();
        assert_eq!(
            PoolConfig::of(&p),
            PoolConfig {
                kept: true,
                target: 1
            }
        );
    }
}
