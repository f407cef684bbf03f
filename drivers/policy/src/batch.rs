// SPDX-License-Identifier: GPL-2.0
//! A batch of GPU faults: duplicates, order, groups, and when to flush and replay.
//!
//! The road of a batch (`nvidia-uvm.md` 3.3 to 3.5):
//!
//! 1. Fetch: each packet becomes a [`Fault`] and is offered to a [`Coalescer`], which merges it with the last one of
//!    its uTLB or the very last one, if it says the same.
//! 2. [`sort_and_dedup`] orders the batch by address space and page and leaves one fault per page at the front.
//! 3. [`groups`] walks the front by 2 MiB block; each group is served under one block lock.
//! 4. [`after_batch`] says what to do with the ring and whether to replay, [`LeftOut`] what is not dropped by that; [`ServiceRun`] ends
//!    the run.
//!
//! Everything is done in place in a slice that the driver owns. Nothing is lost: merged faults are counted, and the
//! duplicates found by sorting are kept behind the unique ones.

mod coalesce;
mod left_out;
mod order;
mod replay;
mod stale;

pub use coalesce::{Coalesced, Coalescer};
pub use left_out::LeftOut;
pub use order::{groups, sort_and_dedup, Group, Groups};
pub use replay::{
    after_batch, after_block, prefetch_faults_off, BatchStats, FlushMode, ReplayConfig, ReplayPlan,
    ReplayPolicy, ServiceRun,
};
pub use stale::Spared;

use crate::types::{Access, AccessMask, PageIndex, BLOCK_BYTES, PAGE_BYTES};

/// Which unit of the GPU raised a fault, as the packet names it. For messages and for cancelling by client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultClient {
    /// MMU engine id.
    pub engine: u16,
    /// Client id; its meaning depends on `is_hub`.
    pub client: u8,
    /// GPC id; 0 for a hub client.
    pub gpc: u8,
    /// True for a hub client, false for one in a GPC.
    pub is_hub: bool,
}

/// One fault: a packet of the ring, or several that say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address space, in the driver's numbering.
    pub space: u32,
    /// Place in the batch, in the order of fetching: breaks ties, so that the order is the same on every run.
    pub seq: u16,
    /// uTLB that raised it: subscript for the [`Coalescer`].
    pub utlb: u16,
    /// Virtual address, rounded down to 4 KiB.
    pub va: u64,
    /// GPU time of the (first) packet.
    pub timestamp_ns: u64,
    /// Packets that this fault stands for, itself included. At least 1.
    pub instances: u16,
    /// The unit that raised it.
    pub client: FaultClient,
    /// The most intrusive access.
    pub access: Access,
    /// Every access of the packets that this fault stands for.
    pub accesses: AccessMask,
    /// True if the fault's type cannot be served (`nvidia-uvm.md` 3.1). Such faults are never merged.
    pub is_fatal: bool,
}

impl Fault {
    /// A fault of one packet on the page that holds `va`.
    pub const fn new(space: u32, va: u64, access: Access) -> Self {
        Self {
            space,
            seq: 0,
            utlb: 0,
            va: va & !(PAGE_BYTES - 1),
            timestamp_ns: 0,
            instances: 1,
            client: FaultClient {
                engine: 0,
                client: 0,
                gpc: 0,
                is_hub: false,
            },
            access,
            accesses: AccessMask::only(access),
            is_fatal: false,
        }
    }

    /// Address of the 2 MiB block that the page lies in.
    pub const fn block_va(&self) -> u64 {
        self.va & !(BLOCK_BYTES - 1)
    }

    /// The page within its block.
    pub const fn page(&self) -> PageIndex {
        PageIndex::of_va(self.va)
    }

    /// True if both are on the same page of the same space.
    const fn same_page(&self, other: &Self) -> bool {
        self.space == other.space && self.va == other.va
    }

    /// Makes this fault stand for `other` too.
    fn absorb(&mut self, other: &Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.accesses = self.accesses.or(other.accesses);
        if other.access > self.access {
            self.access = other.access;
            self.client = other.client;
        }
    }
}
