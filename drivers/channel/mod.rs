// SPDX-License-Identifier: GPL-2.0
//! Copy-engine channels: submitting work to a GPU, and waiting for it.
//!
//! A [`pool::Pool`] is the channels of one GPU, one [`lane::Lane`] for each kind of traffic ([`Engine`]), on copy engines of
//! their own where the GPU has enough. A submission gives a [`Fence`]; a [`Tracker`] collects fences of any GPU. Work that
//! has to follow other work names a tracker: for channels of the same GPU the engine waits, for others the CPU does.
//!
//! Every wait has a bound. A channel that makes no progress is given up: it is taken off its engine, so that it can no longer
//! reach memory, what it was the only one to have is rescued ([`watch`]), then it is *broken*, and whoever waits for it gets an
//! error. Trackers may outlive a GPU; what became of its channels is kept
//! for them ([`table`]).
//!
//! Locks: a lane's mutex is held over building one push; the table's is a leaf. Neither is held while waiting for the GPU,
//! but for room in a full ring.

mod lane;
pub(crate) mod poison;
mod pool;
mod setup;
mod table;
mod watch;

/// One submission: over when its channel has reached the number.
pub(crate) use huvm_hal::channel::PushId as Fence;
pub(crate) use huvm_hal::channel::Tracker;
pub(crate) use lane::{Disobeys, Push};
pub(crate) use pool::{Ce, Pool};
pub(crate) use setup::errno;
pub(crate) use table::forget_all;
pub(crate) use watch::{Failed, Watch};

use kernel::prelude::*;

/// Kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// From host memory.
    HostToDevice,
    /// To host memory.
    DeviceToHost,
    /// To neighbours.
    Peer,
    /// From neighbours.
    PeerIn,
    /// Within the GPU's memory: copies, fills; invalidates and cancels.
    Local,
    /// From host memory, ahead of need: on a copy engine of its own where there is one more, else with what is needed.
    Ahead,
}

impl Engine {
    /// How many there are.
    const COUNT: usize = 6;
    /// All, in the order of their discriminants; the first get copy engines of their own first.
    const ALL: [Engine; Engine::COUNT] = [
        Engine::HostToDevice,
        Engine::DeviceToHost,
        Engine::Peer,
        Engine::PeerIn,
        Engine::Local,
        Engine::Ahead,
    ];

    /// Whether what it moves comes into the GPU's memory, or is done there.
    const fn is_inward(self) -> bool {
        !matches!(self, Engine::DeviceToHost | Engine::Peer)
    }
}

/// Makes `tracker` wait for `fence` too. A tracker that is full of others waits for the fence now.
pub(crate) fn add(tracker: &mut Tracker, fence: Fence) {
    if tracker.add(fence).is_none() {
        return;
    }
    // A broken channel stays, so that the tracker fails.
    tracker.prune(|id, number| table::find(id).poll(number) == Some(true));
    if let Some(fence) = tracker.add(fence) {
        // More channels than an operation has. Its error would be nobody's.
        if table::find(fence.channel()).wait(fence.number()).is_err() {
            pr_err!("BUG: a tracker is full, and what did not fit failed\n");
        }
    }
}

/// Makes `tracker` wait for all of `other` too, as [`add`] does for one.
pub(crate) fn add_all(tracker: &mut Tracker, other: &Tracker) {
    for fence in other.pushes() {
        add(tracker, fence);
    }
}

/// Whether all of `tracker` is over: `None` not yet, `Some(false)` when some of it failed.
pub(crate) fn poll(tracker: &Tracker) -> Option<bool> {
    let mut ok = true;
    for (id, number) in tracker.iter() {
        ok &= table::find(id).poll(number)?;
    }
    crate::kernel::dma::read_barrier();
    Some(ok)
}

/// Of what failed: the GPUs whose engines may go on with some of it; one may come twice.
pub(crate) fn going_on(tracker: &Tracker) -> impl Iterator<Item = u8> + '_ {
    let ids = tracker.iter().map(|(id, _)| id);
    ids.filter_map(|id| table::find(id).goes_on())
}

/// Waits until all of `tracker` is over, signals ignored; bounded by the progress of its channels.
///
/// # Errors
/// `EIO` for a channel that is broken, or stopped (it is broken then), or whose GPU went. All of
/// the tracker is over in any case.
pub(crate) fn wait(tracker: &Tracker) -> Result {
    let mut first = Ok(());
    for (id, number) in tracker.iter() {
        first = first.and(table::find(id).wait(number));
    }
    crate::kernel::dma::read_barrier();
    first
}

/// As [`wait`], for one who holds a block's lock. `None`: a channel is given up, and a rescue may want the lock.
pub(crate) fn wait_holding(tracker: &Tracker) -> Option<Result> {
    let mut first = Ok(());
    for (id, number) in tracker.iter() {
        let did = table::find(id).wait_holding(number);
        if did == Err(EAGAIN) {
            return None;
        }
        first = first.and(did);
    }
    crate::kernel::dma::read_barrier();
    Some(first)
}
