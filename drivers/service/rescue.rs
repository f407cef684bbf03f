// SPDX-License-Identifier: GPL-2.0
//! Rescue: what a GPU was evicting, or taking back from a borrower, when the channel for that was given up.
//!
//! The link to a neighbour goes down, or a copy engine stands, and the copy does not end; but the chunk that it reads still has
//! the pages, and is the only one that does. The channel is off its engine then and not yet seen to have failed
//! ([`channel::watch`](crate::channel::Watch)), so nobody writes the chunk. A thread of the GPU takes each block that waits for the
//! channel and lets its pages go to the host another way:
//!
//! - what was on its way to a neighbour, over the GPU's own link by the engine for that;
//! - what was on its way to the host, or where that engine was given up as well, by the CPU ([`super::aperture`]). Engines do not come into
//!   that: each may stand behind the channel.
//!
//! When all is there it lets go of the channel, which is broken from there on.
//!
//! Bounds: the thread waits for host memory, and for locks, for [`RESCUE_NS`] in all, or for [`ROUNDS_MIN`] rounds through all blocks, and
//! begins to copy by the CPU for [`BY_CPU_NS`]; then for copies to the host, as everybody does. What is not rescued by then is lost. Locks: it only tries a block's, and only where the
//! block says without the lock that it may have such a copy ([`Block::may_send`]). Who holds the lock of one that has does not wait
//! for the channel: the eviction is refused at once, and [`Block::settled`] lets go of the lock. Others may hold theirs for as long
//! as the rescue takes, and wait for it.

use super::migrate;
use super::pool::{self, Need};
use crate::account::waits::{self, Waiting, What};
use crate::account::{self, counters::Counter, policy};
use crate::channel::{self, Engine, Failed, Tracker, Watch};
use crate::device::Gpu;
use crate::kernel::{thread, time};
use crate::memory::block::{Block, Inflight, Others};
use crate::memory::{registry, Place};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The thread looks this often whether it was called.
const LOOK_NS: u64 = 1_000_000_000;
/// How long it tries, from the end of the first round through all blocks on.
const RESCUE_NS: u64 = 2_000_000_000;
/// How often, at least: a round through the blocks of all clients may take longer than that.
const ROUNDS_MIN: u32 = 8;
/// How long it copies by the CPU, at most. Without caches that reads some ten MB/s at the worst; 256 chunks may be on their way.
const BY_CPU_NS: u64 = 8_000_000_000;
/// Between two tries, microseconds.
const NAP_US: u64 = 2_000;

/// Serves until it is asked to stop: what was on its way to neighbours.
pub(crate) fn serve_peers(gpu: &Arc<Gpu>) {
    serve(gpu, Engine::Peer);
}

/// The same for what was on its way to the host.
pub(crate) fn serve_host(gpu: &Arc<Gpu>) {
    serve(gpu, Engine::DeviceToHost);
}

fn serve(gpu: &Arc<Gpu>, engine: Engine) {
    let watch = match Watch::new(gpu.channels(), engine) {
        Ok(watch) => watch,
        // One channel is for both, and the other thread listens.
        Err(e) if e == EBUSY => return,
        Err(e) => return gpu.complain("nothing is rescued", e),
    };
    let mut rescue = Rescue {
        gpu,
        copies: Tracker::EMPTY,
        until_ns: None,
        sent_ns: 0,
    };
    while !thread::should_stop() {
        if let Some(failed) = watch.listen(LOOK_NS) {
            rescue.all(&failed);
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
    /// Of these, for good.
    failed: u32,
}

struct Rescue<'a> {
    gpu: &'a Arc<Gpu>,
    /// Copies that were begun.
    copies: Tracker,
    /// When the CPU begins no more, once it has begun.
    until_ns: Option<u64>,
    /// What it took, since the round began, to let go home what can.
    sent_ns: u64,
}

impl Rescue<'_> {
    #[inline(never)] // stack
    fn all(&mut self, failed: &Failed) {
        let gpu = self.gpu;
        let mut until: Option<u64> = None;
        self.until_ns = None;
        self.copies = Tracker::EMPTY;
        let (mut rescued, mut rounds) = (0u32, 0u32);
        let mut waiting: Option<Waiting> = None;
        let left = loop {
            self.sent_ns = 0;
            let turn = self.go_round(failed);
            rescued = rescued.saturating_add(turn.rescued);
            if turn.left == turn.failed || gpu.is_lost() {
                break turn.left;
            }
            let now = time::now_ns();
            // What it took for those that could go is no waiting.
            let end = until.map_or(now.saturating_add(RESCUE_NS), |u| {
                u.saturating_add(self.sent_ns)
            });
            until = Some(end);
            rounds = rounds.saturating_add(1);
            let is_late = now > end;
            if is_late && rounds >= ROUNDS_MIN {
                break turn.left;
            }
            let listed = waiting.get_or_insert_with(|| {
                Waiting::on(What::Memory, gpu.index(), 0, RESCUE_NS + BY_CPU_NS)
            });
            if is_late {
                listed.got_on();
            }
            time::sleep_us(NAP_US);
        };
        if left != 0 && waiting.is_some() {
            waits::tell();
        }
        drop(waiting);
        // They read what others write then.
        if channel::wait(&self.copies).is_ok() {
            let n = rescued.into();
            account::count(Some(gpu), None, Counter::EvictionsRescued, n);
        }
        if rescued != 0 || left != 0 {
            pr_warn!(
                "gpu {}: {} evictions go to the host another way, {} cannot\n",
                gpu.index(),
                rescued,
                left
            );
        }
    }

    /// Takes every block of every space.
    #[inline(never)] // stack
    fn go_round(&mut self, failed: &Failed) -> Sum {
        let mut sum = Sum::default();
        registry::each_block(|block| match self.send_home(block, failed) {
            Ok(sent) => sum.rescued = sum.rescued.saturating_add(sent.into()),
            Err(e) => {
                sum.left = sum.left.saturating_add(1);
                let for_good = !pool::may_pass(self.gpu, e);
                sum.failed = sum.failed.saturating_add(for_good.into());
            }
        });
        sum
    }

    /// Lets what the block was sending over the channel go to the host. Whether there was anything.
    ///
    /// # Errors
    /// `EAGAIN` when its lock is taken, `ENOMEM`: try again. `EIO` when no copy could be made: as long as the channel to the host works,
    /// try again too.
    #[inline(never)] // stack
    fn send_home(&mut self, block: &Arc<Block>, failed: &Failed) -> Result<bool> {
        if !block.may_send() {
            return Ok(false);
        }
        let began = time::now_ns();
        let gpu = self.gpu;
        let mut s = block.try_lock().ok_or(EAGAIN)?;
        // Gives nothing away.
        if s.is_written_back() {
            return Ok(false);
        }
        let (pages, chunk, dst) = match s.inflight.as_ref() {
            Some(i) if failed.is_in(&i.tracker) => match i.given.as_ref() {
                // Others may still write there, or read.
                Some((from, _)) if Arc::ptr_eq(from, gpu) && !failed.others_ended(&i.tracker) => {
                    return Err(EAGAIN)
                }
                Some((from, id)) if Arc::ptr_eq(from, gpu) => (i.pages, *id, i.dst),
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        // What the host kept beside is no eviction's to lose; and others read it there.
        let pages = pages.and_not(&s.host_valid);
        if pages.is_empty() {
            return Ok(false);
        }
        if dst != Place::Host {
            let space = block.space();
            let p = policy::in_force(space, Some(gpu));
            // Nothing reads or writes these pages of the host memory of a block that sends: it is as good as settled.
            pool::host_memory(gpu, space, &mut s, &pages, &p, Need::Owner)?;
        }
        if !gpu.channels().works(Engine::DeviceToHost) {
            let now = time::now_ns();
            if now > *self.until_ns.get_or_insert(now.saturating_add(BY_CPU_NS)) {
                return Err(EIO);
            }
        }
        let mut copy = Tracker::EMPTY;
        let host = &mut s.host;
        let did = migrate::submit_chunk_to_host(block, host, (gpu, chunk), &pages, &mut copy);
        let skipped = match did {
            Ok(skipped) => skipped,
            Err(e) => {
                // Some of it may be under way to host memory that the next try does not keep: it comes when that is over.
                if let Some(i) = s.inflight.as_mut() {
                    channel::add_all(&mut i.tracker, &copy);
                }
                return Err(e);
            }
        };
        channel::add_all(&mut self.copies, &copy);
        s.sends(|| Inflight {
            tracker: copy,
            pages,
            dst: Place::Host,
            others: Others::Stay,
            given: Some((gpu.clone(), chunk)),
            skipped,
            overtaken: None,
        });
        let took = time::now_ns().saturating_sub(began);
        self.sent_ns = self.sent_ns.saturating_add(took);
        Ok(true)
    }
}
