// SPDX-License-Identifier: GPL-2.0
//! When to evict ahead of need, and how much.
//!
//! One [`PreEvictor`] per GPU. Its thread asks [`PreEvictor::step`] after every allocation that left few chunks free and
//! whenever one of its evictions ends, and begins as many as the answer says.
//!
//! It starts when fewer chunks are free, or about to be, than the low bound, and goes on until the high bound is
//! reached: the gap keeps it from being woken for every single chunk. Evictions under way count as free chunks, as each will be
//! one; they are never more than `in_flight_max`, so the links keep room for others. While a demand fetch waits it
//! begins nothing: a demand fetch never stands behind more than what had been begun before it.
//!
//! **Small memories.** The HUVM paper's bound of 50 chunks is 0.6 % of its GPUs. On one of a few hundred chunks it would
//! empty what the job uses, so both bounds are scaled down to keep the high one within a share of the memory.
//!
//! **A job that nearly fills the memory** would be evicted for nobody: what makes room comes back at once, and something else
//! goes for it, for ever. So once a chunk that was evicted has come back while everything that was evicted, and is
//! not back, would fit into what is free, pre-eviction is held off, until that no longer holds: then something new has come, and
//! somebody needs the room. Before the first that comes back nothing is held off: room ahead is of use once.
//!
//! **What is wanted at once** ([`Refaults::is_near`](crate::refault::Refaults::is_near)) is not evicted ahead of need either: it would be fetched
//! again for what it made room for.
//!
//! **Where jobs take turns** ([`Turns`](crate::standstill::Turns)), as what is evicted is what they need, nothing goes ahead of need at all, whatever the policy.
//!
//! **The hard case** is a GPU on which nothing can be evicted, because all is pinned or lent: the answer is to wait, not
//! to begin, and the thread must not ask again before something has changed.

use crate::config::{KnobId, Policy};

/// The bounds of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreEvictConfig {
    /// Off: nothing is begun.
    pub enabled: bool,
    /// Free chunks below which it starts.
    pub low: u32,
    /// Free chunks at which it stops; taken for `low` where it is smaller.
    pub high: u32,
    /// Evictions under way at most.
    pub in_flight_max: u32,
    /// It is held off while what would be evicted comes back at once.
    pub hold: bool,
}

impl PreEvictConfig {
    /// As a policy has them, for a GPU of `chunks` chunks.
    pub fn of(policy: &Policy, chunks: u32) -> Self {
        let share = policy.get_u32(KnobId::PreEvictShare);
        let (low, high) = scaled_bounds(
            policy.get_u32(KnobId::PreEvictLow),
            policy.get_u32(KnobId::PreEvictHigh),
            share_of(chunks, share),
        );
        Self {
            // Where nothing may be evicted on demand, nothing is ahead of it.
            enabled: policy.is_on(KnobId::PreEvict) && policy.is_on(KnobId::EvictEnable),
            low,
            high,
            in_flight_max: policy.get_u32(KnobId::PreEvictInFlight),
            hold: policy.is_on(KnobId::PreEvictHold),
        }
    }

    /// Chunks that are gone ahead of need, at most: free ones, and others on their way out.
    pub fn ahead_max(&self) -> u32 {
        self.high.saturating_add(self.in_flight_max.min(self.high))
    }
}

/// `percent` of `chunks`, rounded down, but at least one chunk of a memory that has any.
pub const fn share_of(chunks: u32, percent: u32) -> u32 {
    let percent = if percent < 100 { percent } else { 100 };
    // CAST: widening, then back: not more than `chunks`.
    let share = (chunks as u64 * percent as u64 / 100) as u32;
    if share == 0 && chunks != 0 {
        1
    } else {
        share
    }
}

/// Both bounds, made smaller in proportion where `high` is above `most`. A low bound that is not zero stays so.
const fn scaled_bounds(low: u32, high: u32, most: u32) -> (u32, u32) {
    let high = if high < low { low } else { high };
    if high <= most {
        return (low, high);
    }
    // CAST: widening, then back: `low` is not above `high`, which is not zero here, so the quotient is not above `most`.
    let scaled = (low as u64 * most as u64).div_ceil(high as u64) as u32;
    (scaled, most)
}

/// What the GPU looks like now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreEvictInput {
    /// Free chunks.
    pub free: u32,
    /// Evictions that pre-eviction has begun and that have not ended.
    pub in_flight: u32,
    /// Chunks that could be evicted (used, unused, discarded).
    pub evictable: u32,
    /// Blocks whose chunk was evicted from here and that are not back.
    pub away: u32,
    /// How often one of those has come back so far.
    pub returned: u64,
    /// What is evicted is wanted at once.
    pub near: bool,
    /// A fetch that a faulting access waits for is under way or waits for a chunk.
    pub demand_waits: bool,
    /// Some take turns, as they got no further ([`Turns`](crate::standstill::Turns)).
    pub takes_turns: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreEvictStep {
    /// Enough is free: sleep until an allocation leaves fewer chunks than the low bound.
    Idle,
    /// More is wanted, but not now: ask again when a demand fetch or one of the evictions under way has ended, or when a
    /// chunk has become evictable.
    Wait,
    /// Begin this many evictions, one or more, then ask again.
    Begin(u32),
}

/// Pre-eviction of one GPU: on its way from the low bound to the high one, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreEvictor {
    running: bool,
    /// What is evicted would come back, and all of it fits.
    held: bool,
    /// [`PreEvictInput::returned`] when last asked.
    returned: u64,
}

impl PreEvictor {
    /// Not started.
    pub const fn new() -> Self {
        Self {
            running: false,
            held: false,
            returned: 0,
        }
    }

    /// True from the low bound until the high one is reached.
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// True while it is held off.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// What to do now.
    pub fn step(&mut self, input: &PreEvictInput, config: &PreEvictConfig) -> PreEvictStep {
        let high = config.high.max(config.low);
        let expected = input.free.saturating_add(input.in_flight);
        let fits = input.away <= expected;
        let back = input.returned != self.returned;
        self.returned = input.returned;
        let comes_back = input.near || fits && (self.held || back);
        self.held = config.enabled && config.hold && comes_back;
        let bound = if self.running { high } else { config.low };
        let may = config.enabled && !self.held && !input.takes_turns;
        self.running = may && expected < bound;
        if !self.running {
            return PreEvictStep::Idle;
        }
        let room = config.in_flight_max.saturating_sub(input.in_flight);
        let missing = high.saturating_sub(expected);
        match missing.min(room).min(input.evictable) {
            0 => PreEvictStep::Wait,
            _ if input.demand_waits => PreEvictStep::Wait,
            n => PreEvictStep::Begin(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: PreEvictConfig = PreEvictConfig {
        enabled: true,
        low: 50,
        high: 64,
        in_flight_max: 8,
        hold: true,
    };

    fn input(free: u32, in_flight: u32) -> PreEvictInput {
        PreEvictInput {
            free,
            in_flight,
            evictable: 1000,
            away: 2000,
            returned: 0,
            near: false,
            demand_waits: false,
            takes_turns: false,
        }
    }

    #[test]
    fn it_runs_from_the_low_bound_to_the_high_one() {
        let mut p = PreEvictor::new();
        assert_eq!(p.step(&input(50, 0), &CONFIG), PreEvictStep::Idle);
        assert_eq!(p.step(&input(49, 0), &CONFIG), PreEvictStep::Begin(8));
        assert_eq!(p.step(&input(49, 8), &CONFIG), PreEvictStep::Wait);
        assert_eq!(p.step(&input(50, 7), &CONFIG), PreEvictStep::Begin(1));
        // Above the low bound, and still running.
        assert_eq!(p.step(&input(62, 0), &CONFIG), PreEvictStep::Begin(2));
        assert_eq!(p.step(&input(62, 2), &CONFIG), PreEvictStep::Idle);
        assert_eq!(p.step(&input(63, 0), &CONFIG), PreEvictStep::Idle);
    }

    #[test]
    fn a_demand_fetch_stops_it_and_it_goes_on_afterwards() {
        let mut p = PreEvictor::new();
        let mut i = input(10, 0);
        i.demand_waits = true;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Wait);
        i.demand_waits = false;
        i.free = 55;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
    }

    #[test]
    fn nothing_to_evict_is_a_reason_to_wait() {
        let mut p = PreEvictor::new();
        let mut i = input(0, 0);
        i.evictable = 0;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Wait);
        i.evictable = 3;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(3));
    }

    #[test]
    fn while_they_take_turns_nothing_is_begun_whatever_is_asked() {
        for hold in [false, true] {
            let config = PreEvictConfig { hold, ..CONFIG };
            let mut p = PreEvictor::new();
            let mut i = input(10, 0);
            // All of it fits: what is held off for that stays so.
            i.away = 5;
            assert_eq!(p.step(&i, &config), PreEvictStep::Begin(8));
            i.takes_turns = true;
            assert_eq!(p.step(&i, &config), PreEvictStep::Idle);
            assert!(!p.is_held());
            i.takes_turns = false;
            assert_eq!(p.step(&i, &config), PreEvictStep::Begin(8));
        }
    }

    #[test]
    fn switched_off_it_stops_at_once() {
        let mut p = PreEvictor::new();
        assert_eq!(p.step(&input(0, 0), &CONFIG), PreEvictStep::Begin(8));
        let off = PreEvictConfig {
            enabled: false,
            ..CONFIG
        };
        assert_eq!(p.step(&input(0, 0), &off), PreEvictStep::Idle);
        assert!(!p.is_running());
        // Nor is it held off, whatever comes back: that would be counted.
        for near in [false, true] {
            let mut i = input(40, 0);
            (i.away, i.near) = (30, near);
            i.returned = 1 + u64::from(near);
            assert_eq!(p.step(&i, &off), PreEvictStep::Idle);
            assert!(!p.is_held());
        }
    }

    #[test]
    fn where_nothing_may_be_evicted_nothing_is_ahead() {
        let mut policy = Policy::new();
        policy.set(KnobId::PreEvict, 1).unwrap();
        assert!(PreEvictConfig::of(&policy, 8192).enabled);
        policy.set(KnobId::EvictEnable, 0).unwrap();
        assert!(!PreEvictConfig::of(&policy, 8192).enabled);
    }

    #[test]
    fn a_small_memory_has_small_bounds() {
        let mut policy = Policy::new();
        assert!(!PreEvictConfig::of(&policy, 8192).enabled);
        policy.set(KnobId::PreEvict, 1).unwrap();
        // 16 GiB: as in the paper.
        let c = PreEvictConfig::of(&policy, 8192);
        assert!(c.enabled);
        assert_eq!((c.low, c.high), (50, 64));
        // 512 MiB: 5 % are 12 chunks.
        let c = PreEvictConfig::of(&policy, 256);
        assert_eq!((c.low, c.high), (10, 12));
        let c = PreEvictConfig::of(&policy, 8);
        assert_eq!((c.low, c.high), (1, 1));
        let c = PreEvictConfig::of(&policy, 0);
        assert_eq!((c.low, c.high), (0, 0));
    }

    #[test]
    fn what_comes_back_and_fits_is_left_alone() {
        let mut p = PreEvictor::new();
        let mut i = input(40, 0);
        i.away = 30;
        // Room once.
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
        i.returned = 1;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Idle);
        assert!(p.is_held());
        // Until the last chunk.
        (i.free, i.away) = (0, 0);
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Idle);
        // Something new came: one had to go on demand.
        i.away = 1;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
        assert!(!p.is_held());
    }

    #[test]
    fn what_comes_back_and_does_not_fit_holds_nothing() {
        let mut p = PreEvictor::new();
        let mut i = input(10, 0);
        for n in 1..5 {
            i.returned = n;
            assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
        }
        // That was all before it fitted.
        i.away = 10;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
        let off = PreEvictConfig {
            hold: false,
            ..CONFIG
        };
        i.returned = 9;
        assert_eq!(p.step(&i, &off), PreEvictStep::Begin(8));
    }

    #[test]
    fn what_is_wanted_at_once_is_left_alone() {
        let mut p = PreEvictor::new();
        let mut i = input(10, 0);
        i.near = true;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Idle);
        assert!(p.is_held());
        let off = PreEvictConfig {
            hold: false,
            ..CONFIG
        };
        assert_eq!(p.step(&i, &off), PreEvictStep::Begin(8));
        i.near = false;
        assert_eq!(p.step(&i, &CONFIG), PreEvictStep::Begin(8));
    }

    #[test]
    fn bounds_the_wrong_way_round_are_one_bound() {
        let mut p = PreEvictor::new();
        let odd = PreEvictConfig {
            low: 20,
            high: 5,
            ..CONFIG
        };
        assert_eq!(p.step(&input(18, 0), &odd), PreEvictStep::Begin(2));
        assert_eq!(p.step(&input(20, 0), &odd), PreEvictStep::Idle);
        assert_eq!(scaled_bounds(20, 5, 100), (20, 20));
        assert_eq!(scaled_bounds(0, 0, 0), (0, 0));
        assert_eq!(scaled_bounds(u32::MAX, u32::MAX, 7), (7, 7));
    }
}
