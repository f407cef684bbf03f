// SPDX-License-Identifier: GPL-2.0
//! The event queue: everything that happens later happens through here.
//!
//! Events are ordered by (time, sequence number), so two runs of the same accesses give the same
//! order. An event names its GPU and the GPU's epoch; a reset starts a new epoch, which makes
//! every older event of that GPU void.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What is to happen to a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Send message interrupt `vector`.
    Message { vector: u32 },
    /// A fault packet enters ring `ring` (PUT moves).
    FaultArrives { ring: usize, packet: u64 },
    /// A fault packet becomes VALID.
    FaultValid { ring: usize, packet: u64 },
    /// A channel goes on with its pushbuffer.
    Channel {
        runlist: usize,
        chid: u32,
        token: u64,
    },
    /// A semaphore changed somewhere: a waiting channel looks again.
    Wake { runlist: usize, chid: u32 },
    /// The piece in flight reads of its source what it reads ahead.
    CopyRead { runlist: usize, run: u64 },
    /// The piece in flight of a channel's copy is complete.
    CopyPiece { runlist: usize, chid: u32, run: u64 },
    /// Copies of a channel may be complete: semaphores, interrupts.
    CopyComplete { runlist: usize, chid: u32 },
    /// A register invalidate takes effect.
    InvalidateTakes,
    /// A channel's ENG_FAULTED, which its fault packet went before.
    Faulted { runlist: usize, chid: u32 },
    /// The register invalidate completes.
    InvalidateDone,
    /// A stalled block translates again.
    BlockRetry { block: u64 },
    /// A block's piece is complete.
    BlockPiece { block: u64 },
    /// Blocks of the workload engine may start.
    Dispatch,
    /// INJECT: a message that nothing asked for.
    Storm,
}

struct Entry {
    at_ns: u64,
    seq: u64,
    gpu: usize,
    epoch: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    // Reversed: BinaryHeap pops the greatest, we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.seq).cmp(&(self.at_ns, self.seq))
    }
}

/// The queue of one machine.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    seq: u64,
}

impl Queue {
    /// Adds an event.
    pub(crate) fn push(&mut self, at_ns: u64, gpu: usize, epoch: u64, event: Event) {
        self.seq = self.seq.wrapping_add(1);
        self.heap.push(Entry {
            at_ns,
            seq: self.seq,
            gpu,
            epoch,
            event,
        });
    }

    /// Forgets events of a GPU. What lies far ahead would otherwise pile up: a guest can start and
    /// abort long delays for ever.
    pub(crate) fn forget(&mut self, gpu: usize, which: impl Fn(&Event) -> bool) {
        self.heap.retain(|e| e.gpu != gpu || !which(&e.event));
    }

    /// Time of the earliest event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.at_ns)
    }

    /// Takes the earliest event if it is due: (time, GPU, epoch, event).
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, usize, u64, Event)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let e = self.heap.pop()?;
        Some((e.at_ns, e.gpu, e.epoch, e.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_ties_in_order_of_arrival() {
        let mut q = Queue::default();
        q.push(20, 0, 0, Event::Message { vector: 1 });
        q.push(10, 0, 0, Event::Message { vector: 2 });
        q.push(10, 1, 0, Event::Message { vector: 3 });
        let order: Vec<_> = std::iter::from_fn(|| q.pop_due(15)).collect();
        assert_eq!(
            order,
            vec![
                (10, 0, 0, Event::Message { vector: 2 }),
                (10, 1, 0, Event::Message { vector: 3 })
            ]
        );
        assert_eq!(q.next_ns(), Some(20));
    }
}
