// SPDX-License-Identifier: GPL-2.0
//! Over which links a block comes from the host: the choice for a prefetch, the division of a batch of faults.
//!
//! Beside the GPU's own host link there is a way over each lending GPU: over *its* host link into its spare memory, and
//! from there over the fast link between the two.
//!
//! **Prefetch (MPF).** [`choose_path`] takes the way on which the block would be there first, if what already waits on
//! each link goes before it. A lender's host link counts as shared by all that borrow from it, and a lender whose link
//! is busy enough is left alone: its own job comes first. One comparison per lender. The caller adds what it sends to
//! `queued`, so a run of blocks spreads over the links by itself.
//!
//! **Demand (PLF).** [`Split`] divides the blocks of one batch among one local worker, which takes from the head, and one
//! worker per lender, which take from the tail; the batch is served when they meet. Faster links take more, without
//! anybody having to know how fast they are.
//!
//! **The hard case** is a lender that drops out with a block in hand (link down, no spare memory left). The block goes
//! back and the local worker serves it; so the local worker is not done while a lender still holds a block. The local
//! worker cannot drop out: what it cannot serve has failed, and is counted as such.
//!
//! [`Split`] is the state under the batch's lock. Workers take one block at a time and a block is 2 MiB, so the lock is
//! held for some steps every hundred microseconds and lender.
//!
//! Rejected: dividing the batch beforehand by the links' bandwidths, which waits for the slowest when one is busy.

use crate::spare::{LinkFacts, SPARE_GPUS_MAX};
use crate::types::GpuId;

/// Copies waiting on a lender's host link above which prefetch leaves it alone. Chosen for this project, not measured
/// yet.
pub const LENDER_QUEUE_MAX: u32 = 4;

/// The way over one lending GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LenderPath {
    /// It has spare memory for a prefetch: [`SpareCursor::choose`](crate::spare::SpareCursor::choose) could name it.
    pub has_spare: bool,
    /// GPUs that borrow from it, this one included; zero is taken for one.
    pub borrowers: u32,
    /// Its host link, with what its own job has queued on it.
    pub host: LinkFacts,
    /// The link between it and the borrower.
    pub peer: LinkFacts,
}

impl LenderPath {
    /// True if blocks can go this way now.
    pub const fn is_open(&self) -> bool {
        self.has_spare
            && self.host.is_up()
            && self.peer.is_up()
            && self.host.queued <= LENDER_QUEUE_MAX
    }

    /// Nanoseconds until one more block has come this way; `None` if it is not open.
    pub fn arrival_ns(&self) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        let share = u64::from(self.borrowers.max(1));
        let host = self.host.chunk_ns()?.saturating_mul(share);
        Some(host.saturating_add(self.peer.chunk_ns()?))
    }
}

/// The way that a block takes from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Over the GPU's own host link into its own memory.
    Local,
    /// Over this GPU's host link into its spare memory, and on from there.
    Via(GpuId),
}

/// The way of the next block to be prefetched to `borrower`, whose own host link is `local`. `lenders[i]` is GPU i;
/// rows past the sixteenth are ignored. Local if nothing is faster: of equal lenders the one with the lowest number.
pub fn choose_path(borrower: GpuId, local: &LinkFacts, lenders: &[LenderPath]) -> Path {
    let mut best = (local.chunk_ns().unwrap_or(u64::MAX), Path::Local);
    for (i, lender) in (0u8..).zip(lenders.iter().take(SPARE_GPUS_MAX)) {
        let Some(gpu) = GpuId::new(i).filter(|g| *g != borrower) else {
            continue;
        };
        if let Some(ns) = lender.arrival_ns().filter(|ns| *ns < best.0) {
            best = (ns, Path::Via(gpu));
        }
    }
    best.1
}

/// Workers of a [`Split`] at most: the local one and one per lender.
pub const WORKERS_MAX: usize = SPARE_GPUS_MAX + 1;

/// One worker of a [`Split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker(u8);

impl Worker {
    /// The local worker.
    pub const LOCAL: Self = Self(0);

    /// The worker of the `index`th lender of the batch; `None` from the seventeenth on.
    pub const fn lender(index: u8) -> Option<Self> {
        // CAST: widening.
        if (index as usize) < SPARE_GPUS_MAX {
            Some(Self(index.saturating_add(1)))
        } else {
            None
        }
    }
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Serve the block at this place of the batch, then say [`Split::done`] or [`Split::fail`].
    Block(u32),
    /// Nothing is left to take, but a lender holds a block that may come back: ask again when one has ended.
    Wait,
    /// Nothing is left for this worker.
    Over,
}

/// A worker did what it must not. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitError {
    /// It holds a block already.
    Holds {
        /// The block's place in the batch.
        block: u32,
    },
    /// It holds no block.
    Idle,
    /// It is not part of this batch, or has dropped out.
    NotIn,
}

/// What a worker has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    /// Not part of the batch, or dropped out.
    Out,
    /// Nothing.
    Empty,
    /// The block at this place.
    Block(u32),
}

/// Blocks of one batch, taken from both ends.
///
/// Invariant: every block is in exactly one place: between `head` and `tail`, in a worker's hand, given back, or
/// counted as served or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    head: u32,
    tail: u32,
    hands: [Hand; WORKERS_MAX],
    /// Given back by lenders that dropped out, one by each at most.
    back: [Option<u32>; SPARE_GPUS_MAX],
    blocks: u32,
    served: u32,
    failed: u32,
}

impl Split {
    /// A batch of `blocks` blocks for the local worker and `lenders` lenders, [`SPARE_GPUS_MAX`] at most.
    pub fn new(blocks: u32, lenders: u8) -> Self {
        let mut hands = [Hand::Out; WORKERS_MAX];
        for hand in hands
            .iter_mut()
            .take(usize::from(lenders).saturating_add(1))
        {
            *hand = Hand::Empty;
        }
        Self {
            head: 0,
            tail: blocks,
            hands,
            back: [None; SPARE_GPUS_MAX],
            blocks,
            served: 0,
            failed: 0,
        }
    }

    /// The next block for a worker: what was given back, then the head, for the local one; the tail for the others.
    ///
    /// # Errors
    /// [`SplitError::Holds`], [`SplitError::NotIn`].
    pub fn take(&mut self, worker: Worker) -> Result<Take, SplitError> {
        match self.hand(worker) {
            Hand::Out => return Err(SplitError::NotIn),
            Hand::Block(block) => return Err(SplitError::Holds { block }),
            Hand::Empty => (),
        }
        let block = if worker == Worker::LOCAL {
            self.take_back().or_else(|| self.take_head())
        } else {
            self.take_tail()
        };
        if let Some(block) = block {
            self.set_hand(worker, Hand::Block(block));
            return Ok(Take::Block(block));
        }
        let held = self.hands.iter().any(|h| matches!(h, Hand::Block(_)));
        Ok(if held && worker == Worker::LOCAL {
            Take::Wait
        } else {
            Take::Over
        })
    }

    /// The worker has served its block.
    ///
    /// # Errors
    /// [`SplitError::Idle`], [`SplitError::NotIn`].
    pub fn done(&mut self, worker: Worker) -> Result<(), SplitError> {
        self.held(worker)?;
        self.set_hand(worker, Hand::Empty);
        self.served = self.served.saturating_add(1);
        Ok(())
    }

    /// The worker cannot serve its block. A lender drops out, with a block in hand or without, and the block goes to the
    /// local worker. The local worker stays, and its block has failed.
    ///
    /// # Errors
    /// [`SplitError::Idle`] (local worker only), [`SplitError::NotIn`].
    pub fn fail(&mut self, worker: Worker) -> Result<(), SplitError> {
        if worker == Worker::LOCAL {
            self.held(worker)?;
            self.set_hand(worker, Hand::Empty);
            self.failed = self.failed.saturating_add(1);
            return Ok(());
        }
        match self.hand(worker) {
            Hand::Out => return Err(SplitError::NotIn),
            Hand::Empty => (),
            Hand::Block(block) => {
                // There is a place: a lender drops out once, and there are as many places as lenders.
                if let Some(place) = self.back.iter_mut().find(|b| b.is_none()) {
                    *place = Some(block);
                }
            }
        }
        self.set_hand(worker, Hand::Out);
        Ok(())
    }

    /// True when every block has been served or has failed.
    pub const fn is_over(&self) -> bool {
        self.served.saturating_add(self.failed) == self.blocks
    }

    /// Blocks that nobody has taken yet.
    pub fn left(&self) -> u32 {
        // CAST: at most 16.
        let back = self.back.iter().flatten().count() as u32;
        self.tail.saturating_sub(self.head).saturating_add(back)
    }

    /// Blocks served, and blocks that failed.
    pub const fn counts(&self) -> (u32, u32) {
        (self.served, self.failed)
    }

    fn hand(&self, worker: Worker) -> Hand {
        let hand = self.hands.get(usize::from(worker.0));
        hand.copied().unwrap_or(Hand::Out)
    }

    fn set_hand(&mut self, worker: Worker, hand: Hand) {
        if let Some(h) = self.hands.get_mut(usize::from(worker.0)) {
            *h = hand;
        }
    }

    /// The block in a worker's hand.
    fn held(&self, worker: Worker) -> Result<u32, SplitError> {
        match self.hand(worker) {
            Hand::Out => Err(SplitError::NotIn),
            Hand::Empty => Err(SplitError::Idle),
            Hand::Block(block) => Ok(block),
        }
    }

    fn take_back(&mut self) -> Option<u32> {
        self.back.iter_mut().find_map(Option::take)
    }

    fn take_head(&mut self) -> Option<u32> {
        let block = self.head;
        if block >= self.tail {
            return None;
        }
        self.head = block.saturating_add(1);
        Some(block)
    }

    fn take_tail(&mut self) -> Option<u32> {
        if self.head >= self.tail {
            return None;
        }
        self.tail = self.tail.saturating_sub(1);
        Some(self.tail)
    }
}
