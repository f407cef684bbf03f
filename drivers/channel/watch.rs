// SPDX-License-Identifier: GPL-2.0
//! Who sees to what a channel was copying when it is given up.
//!
//! A copy to a neighbour may be the way of the only copy of a page: an eviction gives its source away at once, and who gets that
//! waits for the copy on the GPU. When the channel is given up although its GPU answers, the source is still there. So, off its
//! engine, it *leaves* first: it takes nothing more, and nobody sees that it failed, nor goes on behind it, until a thread of the
//! GPU has looked after the sources ([`service::rescue`](crate::service::rescue)) and drops [`Failed`]. Without such a thread it is
//! broken at once.

use super::lane::Lane;
use super::{Engine, Pool, Tracker};
use crate::kernel::thread;
use crate::kernel::wait::WaitQueue;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;

/// Nobody is there.
const NOBODY: u32 = 0;
/// Somebody listens.
const LISTENS: u32 = 1;
/// It was called.
const CALLED: u32 = 2;
/// It came.
const CAME: u32 = 3;

/// How a lane calls for its thread.
#[pin_data]
pub(super) struct Attendant {
    state: Atomic<u32>,
    #[pin]
    wait: WaitQueue,
}

impl Attendant {
    /// Nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self { state: Atomic::new(NOBODY), wait <- WaitQueue::new() })
    }

    /// Calls. Whether somebody comes.
    pub(super) fn call(&self) -> bool {
        let comes = self.state.cmpxchg(LISTENS, CALLED, Full).is_ok();
        self.wait.wake_all();
        comes
    }

    /// Whether it was called, and nobody came yet.
    fn comes(&self) -> bool {
        self.state.cmpxchg(CALLED, CAME, Full).is_ok()
    }
}

/// Listens for the channel to neighbours of one GPU, until dropped.
pub(crate) struct Watch(Arc<Lane>);

impl Watch {
    /// Listens from now on; once in a pool's life. Where one channel is for copies to neighbours and to the host, nothing can be
    /// rescued, and nobody listens.
    ///
    /// # Errors
    /// `EIO` without channels, `EBUSY` if somebody did before.
    pub(crate) fn new(pool: &Pool) -> Result<Self> {
        let lane = pool.lane(Engine::Peer)?;
        if !Arc::ptr_eq(lane, pool.lane(Engine::DeviceToHost)?) {
            let state = &lane.attendant.state;
            let first = state.cmpxchg(NOBODY, LISTENS, Full);
            first.map_err(|_| EBUSY)?;
        }
        Ok(Watch(lane.clone()))
    }

    /// Waits, as a service thread with nothing to do, until the channel is given up, the thread is asked to stop, or for `ns`.
    pub(crate) fn listen(&self, ns: u64) -> Option<Failed> {
        let attendant = &self.0.attendant;
        attendant.wait.wait_idle(ns, || {
            thread::should_stop() || attendant.state.load(Relaxed) == CALLED
        });
        self.failed()
    }

    fn failed(&self) -> Option<Failed> {
        self.0.attendant.comes().then(|| {
            // Nobody submits to it any more.
            self.0.refuses();
            Failed(self.0.clone())
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let state = &self.0.attendant.state;
        if state.cmpxchg(LISTENS, NOBODY, Full).is_err() {
            // Called while the thread was leaving: nobody comes.
            drop(self.failed());
        }
    }
}

/// A channel that was given up and is off its engine. Dropped, it is broken: who waits for it goes on.
pub(crate) struct Failed(Arc<Lane>);

impl Failed {
    /// Whether something in `tracker` is a push of the channel that did not end.
    pub(crate) fn is_in(&self, tracker: &Tracker) -> bool {
        let unended = |(id, value)| id == self.0.id() && self.0.poll(value) != Some(true);
        tracker.iter().any(unended)
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        self.0.let_go(true);
    }
}
