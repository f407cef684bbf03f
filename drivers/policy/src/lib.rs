// SPDX-License-Identifier: GPL-2.0
//! Policy: every decision of the driver, and nothing else.
//!
//! The memory manager (`service/`, `memory/`) reports what happened, this crate answers what to do, the memory
//! manager does it. Nothing here takes a lock, reads a clock, allocates, logs or touches a device: time is passed
//! in, tables are lent as slices, randomness comes from a seed. So the same code runs in the kernel module and, under
//! test, on the host.
//!
//! | module | decides |
//! | --- | --- |
//! | [`types`] | the nouns: ids, sizes, times, [`PageMask`](types::PageMask) |
//! | [`chunk`] | which chunk of GPU memory is in which state, which one is next |
//! | [`evict`] | the order in which chunks become victims |
//! | [`refault`] | whether what is evicted comes back, so that another order is better |
//! | [`batch`] | order and duplicates of a fault batch; when to flush and replay |
//! | [`pre_evict`] | when to evict ahead of need, and how much |
//! | [`host_pool`] | how much host memory to keep ready for evictions |
//! | [`spare`] | which neighbour keeps an evicted chunk |
//! | [`prefetch`] | which pages of a block to bring along |
//! | [`stream`] | which blocks to fetch ahead of a stream of faults |
//! | [`path`] | over which links a block comes from the host |
//! | [`residency`] | where a faulting page should live |
//! | [`keep`] | whether the host keeps its copy of what a GPU reads |
//! | [`thrash`] | when a page that bounces is throttled or pinned |
//! | [`share`] | what a client may have beside others |
//! | [`config`] | every knob, once |
//! | [`preset`] | named sets of knob values |
//! | [`scope`] | values set in one scope, over those of a wider one |
//!
//! `nvidia-uvm.md` in the comments is the project's reference note on NVIDIA's UVM driver 595.45.04, whose published
//! algorithm the `stock-595` preset follows.
//!
//! No function panics, whatever it is passed: a wrong argument is clipped or answered with an error, as its own
//! documentation says. No function allocates; the only loops are over lent slices and fixed-size masks.

#![cfg_attr(not(any(test, MODULE)), no_std)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod batch;
pub mod chunk;
pub mod config;
pub mod evict;
pub mod grain;
pub mod host_pool;
pub mod keep;
pub mod pace;
mod page_mask;
mod page_region;
pub mod path;
pub mod pre_evict;
pub mod prefetch;
pub mod preset;
pub mod refault;
pub mod residency;
pub mod returns;
pub mod reuse;
pub mod scope;
pub mod share;
pub mod spare;
pub mod standstill;
pub mod stream;
pub mod thrash;
pub mod types;
