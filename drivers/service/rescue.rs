// SPDX-License-Identifier: GPL-2.0
//! Rescue: what a GPU was evicting to a neighbour when its channel there was given up.
//!
//! The link goes down, or the neighbour, and the copy does not end; but the chunk that it reads still has the pages, and is the
//! only one that does. The channel is off its engine then and not yet seen to have failed
//! ([`channel::watch`](crate::channel::Watch)), so nobody writes the chunk. A thread of the GPU takes each block that waits for the
//! channel and lets its pages go to the host instead, over the GPU's own link; when these copies are over it lets go of the
//! channel, which is broken from there on.
//!
//! Bounds: the thread waits for host memory, and for locks, for [`RESCUE_NS`] in all, then for copies to the host, as everybody does.
//! What is not rescued by then is lost. Locks: it only tries a block's, and only where the block says without the lock that it may
//! have such an eviction ([`Block::may_send`]). Who holds the lock of one that has does not wait for the channel: the eviction is
//! refused at once, and [`Block::settled`] lets go of the lock. Others may hold theirs for as long as the rescue takes, and wait for
//! it.

use super::migrate;
use super::pool::{self, Need};
use crate::account::waits::{self, Waiting, What};
use crate::account::{self, counters::Counter, policy};
use crate::channel::{self, Failed, Tracker, Watch};
use crate::device::Gpu;
use crate::kernel::{thread, time};
use crate::memory::block::{Block, Inflight};
use crate::memory::{registry, Place, BLOCK_BYTES};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The thread looks this often whether it was called.
const LOOK_NS: u64 = 1_000_000_000;
/// How long it tries.
const RESCUE_NS: u64 = 2_000_000_000;
/// Between two tries, microseconds.
const NAP_US: u64 = 2_000;

/// Serves until it is asked to stop.
pub(crate) fn serve(gpu: &Arc<Gpu>) {
    let watch = match Watch::new(gpu.channels()) {
        Ok(watch) => watch,
        Err(e) => return gpu.complain("nothing is rescued", e),
    };
    while !thread::should_stop() {
        if let Some(failed) = watch.listen(LOOK_NS) {
            rescue(gpu, &failed);
            // Everybody goes on.
            drop(failed);
        }
    }
}

/// What became of all blocks.
#[derive(Default)]
struct Sum {
    /// Evictions that go to the host now.
    rescued: u32,
    /// Evictions that could not be, yet; or a block that cannot be looked at, yet.
    left: u32,
    /// Of these, some for good.
    failed: bool,
}

fn rescue(gpu: &Arc<Gpu>, failed: &Failed) {
    let until = time::now_ns().saturating_add(RESCUE_NS);
    let (mut rescued, mut copies) = (0u32, Tracker::EMPTY);
    let mut waiting = None;
    let left = loop {
        let turn = go_round(gpu, failed, &mut copies);
        rescued = rescued.saturating_add(turn.rescued);
        if turn.left == 0 || turn.failed || gpu.is_lost() || time::now_ns() > until {
            break turn.left;
        }
        waiting.get_or_insert_with(|| Waiting::on(What::Memory, gpu.index(), 0, RESCUE_NS));
        time::sleep_us(NAP_US);
    };
    if left != 0 && waiting.is_some() {
        waits::tell();
    }
    drop(waiting);
    // They read what others write then.
    if channel::wait(&copies).is_ok() {
        let n = rescued.into();
        account::count(Some(gpu), None, Counter::EvictionsRescued, n);
    }
    if rescued != 0 || left != 0 {
        pr_warn!(
            "gpu {}: {} evictions to a neighbour go to the host instead, {} cannot\n",
            gpu.index(),
            rescued,
            left
        );
    }
}

/// Takes every block of every space.
fn go_round(gpu: &Arc<Gpu>, failed: &Failed, copies: &mut Tracker) -> Sum {
    let (mut sum, mut id) = (Sum::default(), 0);
    while let Some(space) = registry::next_space(id) {
        let mut at = 0;
        while let Some(block) = space.next_block(at) {
            match send_home(gpu, &block, failed, copies) {
                Ok(sent) => sum.rescued = sum.rescued.saturating_add(sent.into()),
                Err(e) => {
                    sum.left = sum.left.saturating_add(1);
                    sum.failed |= !pool::may_pass(gpu, e);
                }
            }
            at = block.va().saturating_add(BLOCK_BYTES);
        }
        id = space.id().saturating_add(1);
    }
    sum
}

/// Lets what the block was sending over the channel go to the host. Whether there was anything.
///
/// # Errors
/// `EAGAIN` when its lock is taken, `ENOMEM`: try again. `EIO` when no copy could be made: as long as the channel to the host works,
/// try again too.
fn send_home(
    gpu: &Arc<Gpu>,
    block: &Arc<Block>,
    failed: &Failed,
    copies: &mut Tracker,
) -> Result<bool> {
    if !block.may_send() {
        return Ok(false);
    }
    let mut s = block.try_lock().ok_or(EAGAIN)?;
    let (pages, chunk) = match s.inflight.as_ref() {
        Some(i) if i.dst == Place::Spare && failed.is_in(&i.tracker) => match i.given.as_ref() {
            Some((from, id)) if Arc::ptr_eq(from, gpu) => (i.pages, *id),
            _ => return Ok(false),
        },
        _ => return Ok(false),
    };
    let space = block.space();
    let p = policy::in_force(space, Some(gpu));
    // Nothing reads or writes host memory of a block that sends: it is as good as settled.
    pool::host_memory(gpu, space, &mut s, &pages, &p, Need::Owner)?;
    let mut copy = Tracker::EMPTY;
    let host = &mut s.host;
    let did = migrate::submit_chunk_to_host(block, host, (gpu, chunk), &pages, &mut copy);
    if did.is_err() {
        // Some of it may be under way to host memory that the next try does not keep.
        let _again = channel::wait(&copy);
        return did.map(|()| false);
    }
    channel::add_all(copies, &copy);
    s.inflight = Some(Inflight {
        tracker: copy,
        pages,
        dst: Place::Host,
        exclusive: false,
        given: Some((gpu.clone(), chunk)),
    });
    Ok(true)
}
