// SPDX-License-Identifier: GPL-2.0
//! After a batch: flush, replay, go on or stop (`nvidia-uvm.md` 3.3, 3.5, 3.6).

use crate::config::{KnobId, Policy};

/// When faulted accesses are replayed. The numbers are those of NVIDIA's parameter and of the `replay_policy` knob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplayPolicy {
    /// After each block.
    Block = 0,
    /// After each batch.
    Batch = 1,
    /// After each batch, once the ring has been emptied up to PUT; the driver then waits for the replay.
    #[default]
    BatchFlush = 2,
    /// Once, at the end of a run.
    Once = 3,
}

impl ReplayPolicy {
    /// The value of the knob `replay_policy`.
    pub fn of(policy: &Policy) -> Self {
        match policy.get(KnobId::ReplayPolicy) {
            0 => Self::Block,
            1 => Self::Batch,
            3 => Self::Once,
            _ => Self::BatchFlush,
        }
    }
}

/// The knobs that decisions about replay depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// When to replay.
    pub policy: ReplayPolicy,
    /// Share of duplicates, in percent, above which a flush reads PUT again.
    pub duplicate_percent: u32,
    /// Packets fetched per batch at most.
    pub batch_max: u32,
    /// Batches per run.
    pub batches_per_run: u32,
    /// Batches with throttled faults per run.
    pub throttled_per_run: u32,
}

impl ReplayConfig {
    /// As a policy has them.
    pub fn of(policy: &Policy) -> Self {
        Self {
            policy: ReplayPolicy::of(policy),
            duplicate_percent: policy.get_u32(KnobId::FaultDuplicatePercent),
            batch_max: policy.get_u32(KnobId::FaultBatchMax),
            batches_per_run: policy.get_u32(KnobId::FaultBatchesPerRun),
            throttled_per_run: policy.get_u32(KnobId::FaultThrottledPerRun),
        }
    }
}

/// What a batch turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStats {
    /// Packets fetched.
    pub raw: u32,
    /// Packets that asked for what another packet of the batch asked for: merged while fetching, or on the same page.
    pub duplicates: u32,
    /// Prefetch faults on pages that the GPU has no right to.
    pub invalid_prefetches: u32,
    /// Faults left unserved because their page is throttled.
    pub throttled: u32,
}

impl BatchStats {
    /// Counts of a batch of `raw` packets of which [`sort_and_dedup`](super::sort_and_dedup) left `unique`.
    pub const fn new(raw: u32, unique: u32) -> Self {
        Self {
            raw,
            duplicates: raw.saturating_sub(unique),
            invalid_prefetches: 0,
            throttled: 0,
        }
    }
}

/// What to drop from the ring before a replay. The GPU faults again for everything that is still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Nothing.
    None,
    /// Everything up to the PUT that was read last.
    CachedPut,
    /// Everything up to PUT, read again from the device first.
    FreshPut,
}

/// What to do after a batch, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// What to drop from the ring.
    pub flush: FlushMode,
    /// Whether to send a replay, ordered after all work of the batch.
    pub replay: bool,
    /// Whether to wait, before the next batch, until the replay is done.
    pub wait: bool,
}

impl ReplayPlan {
    /// Do nothing.
    const NOTHING: Self = Self {
        flush: FlushMode::None,
        replay: false,
        wait: false,
    };
}

/// Whether to replay after each block.
pub const fn after_block(config: &ReplayConfig) -> bool {
    matches!(config.policy, ReplayPolicy::Block)
}

/// What to do after a batch.
pub fn after_batch(stats: &BatchStats, config: &ReplayConfig) -> ReplayPlan {
    match config.policy {
        // Done after each block, or left to the end of the run.
        ReplayPolicy::Block | ReplayPolicy::Once => ReplayPlan::NOTHING,
        ReplayPolicy::Batch => ReplayPlan {
            replay: true,
            ..ReplayPlan::NOTHING
        },
        ReplayPolicy::BatchFlush => ReplayPlan {
            flush: if mostly_duplicates(stats, config.duplicate_percent) {
                FlushMode::FreshPut
            } else {
                FlushMode::CachedPut
            },
            replay: true,
            wait: true,
        },
    }
}

/// True if duplicates are more than `percent` of the packets: then the ring holds many more, and PUT is worth a read.
fn mostly_duplicates(stats: &BatchStats, percent: u32) -> bool {
    u64::from(stats.duplicates) * 100 > u64::from(stats.raw) * u64::from(percent)
}

/// True if hardware prefetch faults should be switched off for the time of the knob `prefetch_fault_lapse_ms`: more than
/// two thirds of the batch limit were invalid ones (`nvidia-uvm.md` 3.6).
pub fn prefetch_faults_off(stats: &BatchStats, config: &ReplayConfig) -> bool {
    u64::from(stats.invalid_prefetches) * 3 > u64::from(config.batch_max) * 2
}

/// One run of the bottom half: counts its batches and says when to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceRun {
    batches: u32,
    throttled_batches: u32,
    replays: u32,
}

impl ServiceRun {
    /// A run that has not served anything yet.
    pub const fn new() -> Self {
        Self {
            batches: 0,
            throttled_batches: 0,
            replays: 0,
        }
    }

    /// Notes a batch, once it has been served.
    pub fn note_batch(&mut self, stats: &BatchStats) {
        self.batches = self.batches.saturating_add(1);
        if stats.throttled > 0 {
            self.throttled_batches = self.throttled_batches.saturating_add(1);
        }
    }

    /// Notes that a replay was sent.
    pub fn note_replay(&mut self) {
        self.replays = self.replays.saturating_add(1);
    }

    /// True if another batch may be fetched; false if the interrupt is to be armed now. What is left in the ring raises it
    /// again.
    pub const fn may_go_on(&self, config: &ReplayConfig) -> bool {
        self.batches < config.batches_per_run && self.throttled_batches < config.throttled_per_run
    }

    /// True if a replay is due at the end of the run: with the policy [`ReplayPolicy::Once`], and whenever the run sent
    /// none, because faults that the hardware dropped (on overflow) come back only with one.
    pub const fn replay_at_end(&self) -> bool {
        self.replays == 0
    }

    /// Number of batches served.
    pub const fn batches(&self) -> u32 {
        self.batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::preset_by_name;

    fn stock(policy: ReplayPolicy) -> ReplayConfig {
        ReplayConfig {
            policy,
            ..ReplayConfig::of(&preset_by_name("stock-595").unwrap().policy())
        }
    }

    #[test]
    fn the_stock_policy_flushes_replays_and_waits() {
        let c = ReplayConfig::of(&preset_by_name("stock-595").unwrap().policy());
        assert_eq!(c, stock(ReplayPolicy::BatchFlush));
        let plan = after_batch(&BatchStats::new(256, 200), &c);
        assert_eq!(
            plan,
            ReplayPlan {
                flush: FlushMode::CachedPut,
                replay: true,
                wait: true
            }
        );
        assert!(!after_block(&c));
    }

    #[test]
    fn put_is_read_again_above_half_duplicates_not_at_half() {
        let c = stock(ReplayPolicy::BatchFlush);
        let flush = |raw, unique| after_batch(&BatchStats::new(raw, unique), &c).flush;
        assert_eq!(flush(256, 128), FlushMode::CachedPut);
        assert_eq!(flush(256, 127), FlushMode::FreshPut);
        assert_eq!(flush(1, 1), FlushMode::CachedPut);
        assert_eq!(flush(0, 0), FlushMode::CachedPut);
        assert_eq!(flush(u32::MAX, 0), FlushMode::FreshPut);
    }

    #[test]
    fn each_policy_replays_where_its_name_says() {
        let stats = BatchStats::new(10, 1);
        for (policy, block, batch, flush) in [
            (ReplayPolicy::Block, true, false, FlushMode::None),
            (ReplayPolicy::Batch, false, true, FlushMode::None),
            (ReplayPolicy::BatchFlush, false, true, FlushMode::FreshPut),
            (ReplayPolicy::Once, false, false, FlushMode::None),
        ] {
            let c = stock(policy);
            let plan = after_batch(&stats, &c);
            assert_eq!(after_block(&c), block);
            assert_eq!((plan.replay, plan.flush), (batch, flush), "{policy:?}");
            let mut p = Policy::new();
            p.set(KnobId::ReplayPolicy, policy as u64).unwrap();
            assert_eq!(ReplayPolicy::of(&p), policy);
        }
    }

    #[test]
    fn a_run_ends_after_20_batches_or_5_throttled_ones() {
        let c = stock(ReplayPolicy::BatchFlush);
        let quiet = BatchStats::new(256, 256);
        let throttled = BatchStats {
            throttled: 1,
            ..quiet
        };
        let length = |stats: &[BatchStats]| {
            let mut run = ServiceRun::new();
            for s in stats.iter().cycle() {
                if !run.may_go_on(&c) {
                    break;
                }
                run.note_batch(s);
            }
            run.batches()
        };
        assert_eq!(length(&[quiet]), 20);
        assert_eq!(length(&[throttled]), 5);
        assert_eq!(length(&[quiet, throttled]), 10);
        assert_eq!(length(&[quiet, quiet, quiet, quiet, quiet, throttled]), 20);
    }

    #[test]
    fn a_run_without_a_replay_sends_one_at_its_end() {
        let mut run = ServiceRun::new();
        assert!(run.replay_at_end());
        run.note_replay();
        assert!(!run.replay_at_end());
    }

    #[test]
    fn prefetch_faults_go_off_above_two_thirds_of_the_limit() {
        let c = stock(ReplayPolicy::BatchFlush);
        let off = |n| {
            prefetch_faults_off(
                &BatchStats {
                    invalid_prefetches: n,
                    ..BatchStats::new(256, 256)
                },
                &c,
            )
        };
        // 170 * 3 = 510, 171 * 3 = 513, 256 * 2 = 512.
        assert!(!off(170));
        assert!(off(171));
    }
}
