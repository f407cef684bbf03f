// SPDX-License-Identifier: GPL-2.0
//! Parallel fetch of a batch of faults (HUVM, ATC'22: PLF).
//!
//! The blocks of a batch are served from both ends: from the head over the GPU's own host link into its memory, from the
//! tail over the host links of lending GPUs into *their* memory ([`relay`]) and on from there. `huvm_policy::path::Split`
//! hands out the blocks, so each is served once and none is lost; the batch is served when the two ends meet. The workers
//! are links, not threads: the fault thread keeps each supplied, and waits when all are busy.
//!
//! A block that cannot go over a lender (its pages are not on the host, advice has a say) is served as without this. A
//! lender without spare memory drops out, and its block goes to the local worker.

use super::relay::Ways;
use huvm_policy::path::{Split, Take, Worker, WORKERS_MAX};
use huvm_policy::types::GpuId;

/// Copies that the GPU's own link has to do at once: one that runs, one ready.
const LOCAL: usize = 2;
/// Blocks that each lender carries at once: one that runs, one ready.
const HANDS: u32 = 2;

/// What became of a block that a lender was to carry.
pub(super) enum Sent {
    /// It is on its way.
    OnItsWay,
    /// It cannot go that way.
    NotThisOne,
    /// Nothing more can.
    NoMore,
}

/// The blocks of a batch, by their place in it.
pub(super) trait Blocks {
    /// How many.
    fn count(&self) -> usize;
    /// Starts what brings a block to the GPU, from wherever it is.
    fn serve(&mut self, i: usize);
    /// Starts the copy of a block to spare memory of `lender`.
    fn send(&mut self, i: usize, lender: GpuId) -> Sent;
    /// Whether no copy of a block is in flight.
    fn is_there(&self, i: usize) -> bool;
    /// Waits until that is so; bounded as every wait for a copy.
    fn wait(&self, i: usize);
}

/// A place at a lender.
#[derive(Clone, Copy)]
struct Hand {
    worker: Worker,
    lender: GpuId,
    /// The block's place; small, as all of these are on the stack of who serves a fault.
    block: Option<u32>,
    /// It takes no more.
    over: bool,
}

/// Serves every block.
#[inline(never)] // stack
pub(super) fn serve(blocks: &mut dyn Blocks, ways: &Ways) {
    let mut hands: [Option<Hand>; WORKERS_MAX] = [None; WORKERS_MAX];
    let mut made = 0u8;
    // Round by round, so that with many lenders each has one.
    for _ in 0..HANDS {
        for lender in ways.lenders() {
            let Some(worker) = Worker::lender(made) else {
                break;
            };
            if let Some(h) = hands.get_mut(usize::from(made)) {
                *h = Some(Hand {
                    worker,
                    lender,
                    block: None,
                    over: false,
                });
                made = made.saturating_add(1);
            }
        }
    }
    let count = blocks.count();
    let Ok(n) = u32::try_from(count) else {
        return;
    };
    let mut split = Split::new(n, made);
    let mut local: [Option<u32>; LOCAL] = [None; LOCAL];
    // Every turn starts a block, ends one, or waits for one; each block is started twice at most.
    for _ in 0..count.saturating_mul(8).saturating_add(64) {
        let mut moved = serve_locally(blocks, &mut split, &mut local);
        for hand in hands.iter_mut().flatten() {
            moved |= supply(blocks, &mut split, hand);
        }
        if split.is_over() {
            return;
        }
        if !moved {
            let carried = hands.iter().flatten().find_map(|h| h.block);
            match local.iter().flatten().next().copied().or(carried) {
                Some(i) => blocks.wait(place(i)),
                None => return,
            }
        }
    }
}

/// Gives the own link its next block, if it has room.
fn serve_locally(
    blocks: &mut dyn Blocks,
    split: &mut Split,
    local: &mut [Option<u32>; LOCAL],
) -> bool {
    for slot in local.iter_mut() {
        slot.take_if(|i| blocks.is_there(place(*i)));
    }
    let Some(slot) = local.iter_mut().find(|s| s.is_none()) else {
        return false;
    };
    let Some(i) = next(split, Worker::LOCAL) else {
        return false;
    };
    blocks.serve(place(i));
    *slot = Some(i);
    let _held = split.done(Worker::LOCAL);
    true
}

/// Takes what a lender has brought on to the GPU, and gives it the next block.
fn supply(blocks: &mut dyn Blocks, split: &mut Split, hand: &mut Hand) -> bool {
    if let Some(i) = hand.block {
        if !blocks.is_there(place(i)) {
            return false;
        }
        blocks.serve(place(i));
        hand.block = None;
        let _held = split.done(hand.worker);
        return true;
    }
    if hand.over {
        return false;
    }
    let Some(i) = next(split, hand.worker) else {
        hand.over = true;
        return false;
    };
    match blocks.send(place(i), hand.lender) {
        Sent::OnItsWay => hand.block = Some(i),
        Sent::NotThisOne => {
            blocks.serve(place(i));
            let _held = split.done(hand.worker);
        }
        Sent::NoMore => {
            hand.over = true;
            // The local worker takes the block.
            let _in = split.fail(hand.worker);
        }
    }
    true
}

/// The next block for a worker.
fn next(split: &mut Split, worker: Worker) -> Option<u32> {
    match split.take(worker) {
        Ok(Take::Block(i)) => Some(i),
        Ok(Take::Wait | Take::Over) | Err(_) => None,
    }
}

/// Where it is in the batch.
const fn place(i: u32) -> usize {
    // CAST: u32 to usize widens.
    i as usize
}
