// SPDX-License-Identifier: GPL-2.0
//! Who sees to what a channel was copying when it is given up.
//!
//! A copy to a neighbour or to the host may be the way of the only copy of a page: an eviction gives its source away at once, and who
//! gets that waits for the copy on the GPU. When the channel is given up although its GPU answers, the source is still there. So, off its
//! engine, it *leaves* first: it takes nothing more, and nobody sees that it failed, nor goes on behind it, until a thread of the
//! GPU has looked after the sources ([`service::rescue`](crate::service::rescue)) and drops [`Failed`]. Without such a thread it is
//! broken at once.

use super::lane::Lane;
use super::{table, Engine, Pool, Tracker};
use crate::kernel::thread;
use crate::kernel::wait::WaitQueue;
use huvm_lockless::handover::Handover;
use kernel::prelude::*;
use kernel::sync::Arc;

/// How a lane calls for its thread.
#[pin_data]
pub(super) struct Attendant {
    hand: Handover,
    #[pin]
    wait: WaitQueue,
}

impl Attendant {
    /// Nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self { hand: Handover::new(), wait <- WaitQueue::new() })
    }

    /// Whether it did call somebody: the lane is off its engine then.
    pub(super) fn was_called(&self) -> bool {
        self.hand.was_called()
    }

    /// Whether there is somebody to call.
    pub(super) fn is_there(&self) -> bool {
        self.hand.is_attended()
    }

    /// Calls. Whether somebody comes.
    pub(super) fn call(&self) -> bool {
        let comes = self.hand.call();
        self.wait.wake_all();
        comes
    }
}

/// Listens for one channel of a GPU, until dropped.
pub(crate) struct Watch(Arc<Lane>);

impl Watch {
    /// Listens from now on for the channel of copies of a kind; once in a pool's life.
    ///
    /// # Errors
    /// `EIO` without channels, `EBUSY` if somebody did before, for these copies or others that the channel is for.
    pub(crate) fn new(pool: &Pool, engine: Engine) -> Result<Self> {
        let lane = pool.lane(engine)?;
        if !lane.attendant.hand.listen() {
            return Err(EBUSY);
        }
        Ok(Watch(lane.clone()))
    }

    /// Waits, as a service thread with nothing to do, until the channel is given up, the thread is asked to stop, or for `ns`.
    pub(crate) fn listen(&self, ns: u64) -> Option<Failed> {
        let attendant = &self.0.attendant;
        attendant
            .wait
            .wait_idle(ns, || thread::should_stop() || attendant.hand.is_called());
        attendant.hand.come().then(|| self.failed())
    }

    fn failed(&self) -> Failed {
        // Nobody submits to it any more.
        self.0.refuses();
        Failed(self.0.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.0.attendant.hand.leave() {
            // Called while the thread was leaving: nobody else comes.
            drop(self.failed());
        }
    }
}

/// A channel that was given up and is off its engine. Dropped, it is broken: who waits for it goes on.
pub(crate) struct Failed(Arc<Lane>);

impl Failed {
    /// Whether something in `tracker` is a push of the channel that did not end.
    pub(crate) fn is_in(&self, tracker: &Tracker) -> bool {
        let unended = |(id, number)| id == self.0.id() && self.0.poll(number) != Some(true);
        tracker.iter().any(unended)
    }

    /// Whether all that other channels do of `tracker` is over, be it that they were taken off their engines too: they wait for a thread
    /// of their own, which may wait for this one.
    pub(crate) fn others_ended(&self, tracker: &Tracker) -> bool {
        let mut others = tracker.iter().filter(|(id, _)| *id != self.0.id());
        others.all(|(id, number)| {
            let found = table::find(id);
            found.poll(number).is_some() || found.is_stopped()
        })
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
