// SPDX-License-Identifier: GPL-2.0
//! Host memory for what leaves a GPU, and the thread that keeps 2 MiB pieces of it ready (HUVM, ATC'22, large pages).
//!
//! A chunk that goes to the host goes into one piece of the pool of the GPU that copies it: its own on eviction, the
//! lender's on write-back. The copy is then one command, and neither memory nor mappings are made on the road of a fault.
//!
//! A piece takes the place of all host memory that the block has. That may be 4 KiB pages which the CPU touched first.
//! Under the block's lock they can be freed when no page is valid in them ([`nobody_uses_host`]):
//! - no copy reads or writes them, since the block is settled (no copy in flight);
//! - no GPU maps them (`remote` is empty) and no CPU does (`cpu_mapped` is empty: both are taken away before a page moves,
//!   and a zap ends with the TLBs clean);
//! - nobody holds a reference on one: managed VMAs are `VM_PFNMAP`, whose pages `get_user_pages` refuses, so a system
//!   call can reach them by the page tables or by [`Backing::peek`](crate::memory::backing::Backing::peek) only, the one
//!   ended by the zap and the other under the block's lock. A page that the kernel's own walkers hold for a moment is
//!   freed by its reference count.
//!
//! A pool is bounded by its knob, memory reclaim takes from it ([`Shrinker`]), an eviction that finds the host without memory
//! frees it first; and refills never fight for memory (`__GFP_NORETRY`), and pause when they fail or when reclaim took some.

use super::teardown;
use crate::account::{self, counters::Counter, policy};
use crate::channel::Engine;
use crate::device::Gpu;
use crate::kernel::memcg::{self, For};
use crate::kernel::shrinker::Shrinker;
use crate::kernel::{thread, time};
use crate::memory::backing::{Backing, SIZE_2M, SIZE_64K};
use crate::memory::block::{Block, State};
use crate::memory::space::Space;
use crate::memory::{PageMask, BLOCK_PAGES};
use huvm_policy::config::{KnobId, Policy};
use huvm_policy::host_pool::{PoolConfig, PoolKeeper, PoolStep};
use huvm_policy::types::Nanos;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// The thread looks at its policy this often without being rung for.
const LOOK_NS: u64 = 100_000_000;
/// Pages of a block that leave a GPU together for which a 2 MiB piece is worth it: half of the block.
const WORTH: u32 = 256;
const _: () = assert!(2 * WORTH == BLOCK_PAGES as u32);

/// Who wants memory of a GPU, so that a client's data has to go to the host.
#[derive(Clone, Copy)]
pub(super) enum Need<'a> {
    /// Nobody yet.
    Ahead,
    /// This client.
    Of(&'a Space),
    /// Whoever owns it, or all: the GPU leaves.
    Owner,
}

impl Need<'_> {
    /// Whether it may not go over the limit of the memory cgroup of `space`, whose data it is. It may for another's need: a
    /// client at its limit would else keep all of a GPU for itself.
    fn is_held_to_limit(&self, space: &Space) -> bool {
        match self {
            Need::Ahead => true,
            Need::Of(who) => who.memory.is(&space.memory),
            Need::Owner => false,
        }
    }
}

/// Chunks in a row that work ahead of need leaves as they are since their clients have no more memory of the host, at most.
pub(super) const REFUSED_MAX: u32 = 8;

/// Whether there may be no memory of the host for a block, and yet for others: its client has a limit.
pub(super) fn is_limited(block: &Block) -> bool {
    block.space().memory.is_limited()
}

/// Whether a copy to the host that failed with `e` is tried again, by one who can wait a little: there may be memory later; and a push
/// that was refused may be taken, as long as the channel works.
pub(super) fn may_pass(gpu: &Gpu, e: Error) -> bool {
    e == ENOMEM || e == EAGAIN || (e == EIO && gpu.channels().works(Engine::DeviceToHost))
}

/// Gives host memory to `pages` of a settled block, for a copy out of `gpu`'s memory by `gpu`. It is charged to the memory
/// cgroup of the block's client; beyond that one's limit to nobody, and not to whoever needs the room.
///
/// # Errors
/// `ENOMEM`; what was allocated until then stays and is not in use.
#[inline(never)] // stack
pub(super) fn host_memory(
    gpu: &Gpu,
    space: &Space,
    s: &mut State,
    pages: &PageMask,
    p: &Policy,
    need: Need<'_>,
) -> Result {
    let mut sizes = p.get(KnobId::HostChunkSizes);
    if p.is_on(KnobId::LargePageEvict) && pages.count().get() >= WORTH {
        if from_pool(gpu, space, s) {
            return Ok(());
        }
        sizes |= SIZE_2M | SIZE_64K;
    }
    let mut ensure = || s.host.ensure(pages, &s.managed, sizes);
    let failed = |did: &Result<_>| did.as_ref().is_err_and(|e| *e == ENOMEM);
    let is_limited = space.memory.is_limited();
    let may_exceed = is_limited && !need.is_held_to_limit(space);
    let what = match need {
        _ if may_exceed => For::Others,
        Need::Ahead => For::Ahead,
        Need::Of(_) | Need::Owner => For::Data,
    };
    let mut did = space.memory.asked(what, &mut ensure);
    if failed(&did) && may_exceed {
        did = memcg::uncharged(&mut ensure);
    }
    // Its pieces are charged to nobody: to free them is of no use at a limit.
    if failed(&did) && (may_exceed || !is_limited) && gpu.host_pool().give_way() != 0 {
        did = if is_limited {
            memcg::uncharged(ensure)
        } else {
            space.memory.charged(ensure)
        };
    }
    did?.report(|c, n| account::count(Some(gpu), Some(space), c, n));
    Ok(())
}

/// Puts a piece of `gpu`'s pool in place of the block's host memory, if it is of use there and there is one.
#[inline(never)] // stack
fn from_pool(gpu: &Gpu, space: &Space, s: &mut State) -> bool {
    // Its pieces are charged to nobody.
    if space.memory.is_limited() || s.host.huge_pfn().is_some() || !nobody_uses_host(s) {
        return false;
    }
    let count = |counter| account::count(Some(gpu), Some(space), counter, 1);
    let Some(taken) = gpu.host_pool().take() else {
        count(Counter::PoolEmpty);
        gpu.refill.ring();
        return false;
    };
    let old = core::mem::replace(&mut s.host, taken.backing);
    count(Counter::PoolTaken);
    count(Counter::Host2m);
    if !old.present().is_empty() {
        count(Counter::PoolReplaced);
    }
    if gpu.host_pool().discard(old) || taken.low {
        gpu.refill.ring();
    }
    true
}

/// Whether all of the block is managed and its host memory, if it has any, holds nothing and is seen by nobody.
fn nobody_uses_host(s: &State) -> bool {
    s.managed.is_full()
        && s.host_valid.is_empty()
        && s.cpu_mapped.is_empty()
        && s.parts.iter().all(|p| p.remote.is_empty())
}

/// The thread of a GPU that keeps its pool: serves until it is asked to stop. Of those that look now and then it is the one that fewest wait
/// for, so it also sees to what those have left who are gone.
pub(crate) fn serve(gpu: &Arc<Gpu>) {
    let mut keeper = PoolKeeper::new();
    let shrinker = Shrinker::new(c"huvm-pool", gpu.host_pool().clone());
    if let Err(e) = &shrinker {
        gpu.complain("its pool cannot be shrunk", *e);
    }
    let mut looked = 0;
    while gpu.refill.listen(LOOK_NS) {
        keep(gpu, &mut keeper);
        // Not each time that it is rung for the pool.
        let now = time::now_ns();
        if now.saturating_sub(looked) >= LOOK_NS {
            looked = now;
            teardown::release_orphans(gpu);
        }
    }
}

fn keep(gpu: &Gpu, keeper: &mut PoolKeeper) {
    let pool = gpu.host_pool();
    while !thread::should_stop() {
        pool.sweep();
        let config = match gpu.check() {
            Ok(()) => PoolConfig::of(&policy::of_gpu(gpu)),
            Err(_) => PoolConfig::none(),
        };
        pool.target.store(config.target, Relaxed);
        if pool.was_shrunk() {
            keeper.failed(Nanos(time::now_ns()));
        }
        let held = u32::try_from(pool.len()).unwrap_or(u32::MAX);
        let asked = pool.asked().map(Nanos);
        match keeper.step(Nanos(time::now_ns()), held, asked, &config) {
            PoolStep::Idle => return,
            PoolStep::Shed(n) => {
                pool.shed(usize::try_from(n).unwrap_or(usize::MAX));
            }
            PoolStep::Fill => {
                let counter = match Backing::ready(gpu).and_then(|b| pool.put(b)) {
                    Ok(()) => {
                        keeper.filled();
                        Counter::PoolRefills
                    }
                    Err(_) => {
                        keeper.failed(Nanos(time::now_ns()));
                        Counter::PoolFailures
                    }
                };
                account::count(Some(gpu), None, counter, 1);
            }
        }
    }
}
