// SPDX-License-Identifier: GPL-2.0
//! What happens: faults, eviction, migration, teardown.
//!
//! The road of a GPU fault: [`gpu_fault`] drains packets into a batch, asks policy how to order it, and takes each block
//! through [`migrate::start`] (which asks [`evict`] for room) and [`map`]; then it replays. A CPU fault
//! ([`cpu_fault`]) takes the same two steps towards the host. Locks: [`lock`].

pub(crate) mod advise;
mod aperture;
pub(crate) mod cpu_fault;
pub(crate) mod ecc;
pub(crate) mod evict;
pub(crate) mod fair;
pub(crate) mod gpu_fault;
pub(crate) mod harvest;
pub(crate) mod launch;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod migrate;
pub(crate) mod parallel;
pub(crate) mod placement;
pub(crate) mod pool;
pub(crate) mod pre_evict;
pub(crate) mod prefetch;
pub(crate) mod relay;
pub(crate) mod rescue;
pub(crate) mod teardown;
pub(crate) mod thrash;
