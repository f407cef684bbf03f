// SPDX-License-Identifier: GPL-2.0
//! A GPU's memory under a replacement policy, offline: what would have crossed its links on a workload's trace.
//!
//! **The model.** Memory holds `room` chunks; a touch of a chunk that is not there brings all of it, and when memory is full
//! one chunk, which the policy chooses, leaves first. Nothing is fetched ahead, nothing is used from afar, a chunk comes and
//! goes whole. What is counted:
//! - *in*: the bytes of a chunk that has contents (the CPU filled it, or it was written before). A chunk that reads as
//!   zero costs nothing.
//! - *out*: the bytes of a chunk that leaves and was written since it came. A clean one has its copy on the host. What is
//!   in memory at the end stays there.
//! - The CPU between launches: it reads what was written after it is copied out (*out*; the GPU keeps its copy); what it
//!   writes the GPU has to fetch anew. A discard costs nothing, and what is dead neither comes nor goes.
//!
//! Bytes are those of the allocation inside the chunk: its last chunk may be smaller.
//!
//! **What is exact, and what is a bound.** [`policy::Min`] is Belady's MIN (IBM Systems Journal 5(2), 1966): it has the fewest misses
//! of all policies of this model. While all misses cost the same, its *in* is the least possible: that holds but for smaller last
//! chunks and chunks of zeroes that left and came back. It does not look at who was written (but for this: of those that
//! are never used again the clean ones leave first), so its *out* is not the least, and neither is the sum; to find the least
//! sum is NP-complete (Beckmann, Gibbons, Haeupler, McGuffey, "Writeback-Aware Caching", APOCS 2020). But whatever policy: its sum is
//! at least MIN's *in*. So the least sum lies between MIN's *in* and MIN's *in* + *out*, a factor of two at most. A driver that
//! moves pages instead of chunks can be below all of it where pages of a chunk are not needed; `chunk` may be made smaller.

pub mod memory;
pub mod order;
pub mod policy;
pub mod trace;

pub use memory::{replay, Traffic};
pub use policy::{by_name, Policy, POLICIES};
pub use trace::{Act, Trace};
