// SPDX-License-Identifier: GPL-2.0
//! Channels: work for a copy engine, and knowing when it is done.
//!
//! A [`Channel`] is one ring of work on one copy engine. [`Channel::begin`] opens a [`Push`], whose methods append
//! commands; [`Push::submit`] hands it to the GPU and returns the *value* that the channel's tracking semaphore takes
//! when all of it is done. A [`Tracker`] is a small set of (channel, number): what an operation has to wait for.

mod methods;
mod pushbuf;
mod ring;
mod space;
mod tracker;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use crate::ga100::invalidate::{CancelAccess, ReplayKind};
pub use pushbuf::{CopyFlags, Fill, MemBar, Push, ACQUIRE_DWORDS, COPY_DWORDS, MEM_OP_DWORDS};
pub use ring::{Channel, Interrupt, Layout, SubmitFlags};
pub use space::Window;
pub use tracker::{PushId, Tracker, TRACKER_SLOTS};
