// SPDX-License-Identifier: GPL-2.0
//! What threads of the driver agree on without a lock.
//!
//! Each module is one protocol over a few atomic words, with nothing of the kernel but the atomics, so that all of its
//! interleavings can be tried: on the host the atomics are loom's, and a test runs once for each order in which its threads may
//! get on, and for each value that the memory model lets a load return. The module is built from the same sources on
//! [`kernel::sync::atomic`](https://rust.docs.kernel.org/kernel/sync/atomic/).
//!
//! | module | what is agreed on | who uses it |
//! | --- | --- | --- |
//! | [`bell`] | that there is something to do | each service thread, that of faults too |
//! | [`handover`] | who settles what a channel that is given up was doing | `channel/watch.rs` |
//! | [`listing`] | who waits for what, as anybody may read it | `account/waits.rs` |
//! | [`standing`] | whether a channel works, and what became of what it was doing | `channel/lane.rs` |
//! | [`cause`] | that a GPU is lost, and why | `device/gpu.rs` |
//! | [`prepared`] | that page directories are there, and the GPU knows | `memory/gpu_space.rs` |
//! | [`claim`] | what a device can say of how far it is | `channel/lane.rs` |
//! | [`stamps`] | when a push began, counted by one alone | `channel/lane.rs` |
//! | [`dated`] | a value that holds until something changes | `memory/offer.rs` |
//! | [`changes`] | that something has changed | `account/policy.rs` |
//! | [`pause`] | that something was done a while ago | `account/waits.rs`, `device/faults.rs`, `service/fair.rs` |
//! | [`peak`] | the largest of all | `account/latency.rs` |
//!
//! What is under a lock is not here: the tables of `policy` are tried in every interleaving of the steps between two locks
//! by their own tests. Plain counters are not here either: nothing is decided by them.
//!
//! No function waits, allocates or panics.

#![forbid(unsafe_code)]

#[cfg(not(MODULE))]
mod atomic;
#[cfg(MODULE)]
use kernel::sync::atomic;

pub mod bell;
pub mod cause;
pub mod changes;
pub mod claim;
pub mod dated;
pub mod handover;
pub mod listing;
pub mod pause;
pub mod peak;
pub mod prepared;
pub mod stamps;
pub mod standing;
