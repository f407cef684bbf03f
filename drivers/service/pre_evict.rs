// SPDX-License-Identifier: GPL-2.0
//! Pre-eviction: a thread per GPU that keeps chunks free ahead of need (HUVM, ATC'22, section 4.3).
//!
//! When and how many is `huvm_policy::pre_evict`. Evictions go the same road as those on demand, to spare memory if
//! there is some, else to the host; several are under way at once, and none is begun while a fault waits for a chunk.

use super::evict::{self, Room};
use super::pool::{self, Need};
use crate::account::{self, counters::Counter, policy};
use crate::channel::Engine;
use crate::device::Gpu;
use crate::kernel::{thread, time};
use huvm_policy::chunk::ChunkState;
use huvm_policy::config::Policy;
use huvm_policy::evict::VictimOrder;
use huvm_policy::pre_evict::{PreEvictConfig, PreEvictInput, PreEvictStep, PreEvictor};
use huvm_policy::refault::EvictConfig;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Evictions under way at once, at most (range of the knob `pre_evict_in_flight_chunks`).
const IN_FLIGHT_MAX: usize = 256;
/// The thread looks at its policy this often without being rung for.
const LOOK_NS: u64 = 100_000_000;

/// The thread of one GPU.
pub(crate) struct PreEvict {
    state: PreEvictor,
    /// Evictions under way, the oldest first. Dropping one waits for it and frees the chunk.
    rooms: KVec<Room>,
}

impl PreEvict {
    /// Allocates what it needs.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(PreEvict {
            state: PreEvictor::new(),
            rooms: KVec::with_capacity(IN_FLIGHT_MAX, GFP_KERNEL)?,
        })
    }

    /// Serves until it is asked to stop.
    pub(crate) fn serve(&mut self, gpu: &Arc<Gpu>) {
        while gpu.pre_evict.listen(LOOK_NS) {
            if gpu.is_lost() {
                continue;
            }
            // Before the values are read.
            let as_of = policy::changes();
            let p = policy::of_gpu(gpu);
            let config = PreEvictConfig::of(&p, gpu.chunks().usable());
            let low = if config.enabled { config.low } else { 0 };
            gpu.pre_evict_low.store(low, Relaxed);
            self.run(gpu, &p, &config, as_of);
            if policy::changes() != as_of {
                gpu.pre_evict.ring();
            }
            self.rooms.clear();
        }
    }

    /// Goes on until there is enough, or the policy is not that of `as_of` any more: whoever takes chunks may be as quick.
    fn run(&mut self, gpu: &Arc<Gpu>, p: &Policy, config: &PreEvictConfig, as_of: u64) {
        // The CPU copies nothing ahead of need.
        let works = || gpu.channels().works(Engine::DeviceToHost);
        let goes_on = || !thread::should_stop() && !gpu.is_lost() && works();
        while goes_on() && policy::changes() == as_of {
            let held = self.state.is_held();
            let step = self.state.step(&self.look(gpu), config);
            let holds = !held && self.state.is_held();
            account::count(Some(gpu), None, Counter::PreEvictHolds, holds.into());
            match step {
                PreEvictStep::Idle => return,
                // One that ends makes the answer change.
                PreEvictStep::Wait if self.rooms.is_empty() => return,
                PreEvictStep::Wait => drop(self.rooms.remove(0)),
                PreEvictStep::Begin(n) => {
                    let order = evict::order(gpu, p);
                    for _ in 0..n {
                        if !goes_on() || !self.begin(gpu, &order) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Begins one eviction. `false`: none can be begun now.
    fn begin(&mut self, gpu: &Arc<Gpu>, order: &EvictConfig) -> bool {
        let mut order = *order;
        for _ in 0..=pool::REFUSED_MAX {
            let Some(victim) = gpu.chunks().take_victim(&order, None, true) else {
                return false;
            };
            let recent = victim.recent;
            let is_limited = victim.owner.as_ref().is_some_and(|b| pool::is_limited(b));
            let mut room = Room::empty();
            match evict::evict(gpu, victim, Need::Ahead, false, &mut room) {
                Ok(()) => {
                    account::count(Some(gpu), None, Counter::PreEvictions, 1);
                    return self.rooms.push_within_capacity(room).is_ok();
                }
                // It is the limit of one client, and the next victim may be another's: not the same one again, as in `evict::make_room`.
                Err(e) if e == ENOMEM && is_limited => {
                    if recent {
                        order.order = VictimOrder::Random;
                    }
                }
                Err(_) => return false,
            }
        }
        false
    }

    fn look(&self, gpu: &Gpu) -> PreEvictInput {
        let mut n = [0; 6];
        gpu.chunks().counts(
            &[
                ChunkState::Free,
                ChunkState::LentRemovable,
                ChunkState::LentOnly,
                ChunkState::Used,
                ChunkState::Unused,
                ChunkState::Discarded,
            ],
            &mut n,
        );
        let [free, removable, only, used, unused, discarded] = n;
        let (away, returned, near) = gpu.chunks().away();
        PreEvictInput {
            // What is lent comes back before anything of the GPU's own jobs goes, and mostly without a copy.
            free: free.saturating_add(removable).saturating_add(only),
            in_flight: u32::try_from(self.rooms.len()).unwrap_or(u32::MAX),
            evictable: used.saturating_add(unused).saturating_add(discarded),
            away,
            returned,
            near,
            demand_waits: gpu.demand.load(Relaxed) != 0,
            takes_turns: time::now_ns() < gpu.turns_until.load(Relaxed),
        }
    }
}
