// SPDX-License-Identifier: GPL-2.0
//! Counters: an array of relaxed atomics per scope, in the order of `enum huvm_counter`.

use crate::kernel::ffi::uapi;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Counters of a scope.
pub(crate) const COUNT: usize = uapi::HUVM_CNT_COUNT as usize;

/// A counter; each stands for `HUVM_CNT_` and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Counter {
    /// `HUVM_CNT_FAULT_BATCHES`.
    FaultBatches = uapi::HUVM_CNT_FAULT_BATCHES,
    /// `HUVM_CNT_FAULTS`: raw packets fetched.
    Faults = uapi::HUVM_CNT_FAULTS,
    /// `HUVM_CNT_FAULT_DUPLICATES`: packets for a page already in the batch.
    FaultDuplicates = uapi::HUVM_CNT_FAULT_DUPLICATES,
    /// `HUVM_CNT_FAULTS_SERVED`: distinct pages made accessible by a fault.
    FaultsServed = uapi::HUVM_CNT_FAULTS_SERVED,
    /// `HUVM_CNT_FAULTS_STALE`: found mapped already.
    FaultsStale = uapi::HUVM_CNT_FAULTS_STALE,
    /// `HUVM_CNT_FAULTS_FATAL`.
    FaultsFatal = uapi::HUVM_CNT_FAULTS_FATAL,
    /// `HUVM_CNT_REPLAYS`.
    Replays = uapi::HUVM_CNT_REPLAYS,
    /// `HUVM_CNT_FLUSHES`.
    Flushes = uapi::HUVM_CNT_FLUSHES,
    /// `HUVM_CNT_OVERFLOWS`.
    Overflows = uapi::HUVM_CNT_OVERFLOWS,
    /// `HUVM_CNT_CPU_FAULTS`.
    CpuFaults = uapi::HUVM_CNT_CPU_FAULTS,
    /// `HUVM_CNT_CPU_FAULTS_2M`.
    CpuFaults2m = uapi::HUVM_CNT_CPU_FAULTS_2M,
    /// `HUVM_CNT_BYTES_H2D`.
    BytesH2d = uapi::HUVM_CNT_BYTES_H2D,
    /// `HUVM_CNT_BYTES_D2H`.
    BytesD2h = uapi::HUVM_CNT_BYTES_D2H,
    /// `HUVM_CNT_BYTES_P2P`.
    BytesP2p = uapi::HUVM_CNT_BYTES_P2P,
    /// `HUVM_CNT_BYTES_ZEROED`.
    BytesZeroed = uapi::HUVM_CNT_BYTES_ZEROED,
    /// `HUVM_CNT_PAGES_PREFETCHED`.
    PagesPrefetched = uapi::HUVM_CNT_PAGES_PREFETCHED,
    /// `HUVM_CNT_EVICTIONS`.
    Evictions = uapi::HUVM_CNT_EVICTIONS,
    /// `HUVM_CNT_EVICTION_BYTES`.
    EvictionBytes = uapi::HUVM_CNT_EVICTION_BYTES,
    /// `HUVM_CNT_EVICTIONS_IN_FAULT`: on the critical path.
    EvictionsInFault = uapi::HUVM_CNT_EVICTIONS_IN_FAULT,
    /// `HUVM_CNT_CHUNKS_ALLOCATED`.
    ChunksAllocated = uapi::HUVM_CNT_CHUNKS_ALLOCATED,
    /// `HUVM_CNT_CHUNKS_FREED`.
    ChunksFreed = uapi::HUVM_CNT_CHUNKS_FREED,
    /// `HUVM_CNT_HOST_2M`: host pieces allocated, by size.
    Host2m = uapi::HUVM_CNT_HOST_2M,
    /// `HUVM_CNT_HOST_64K`.
    Host64k = uapi::HUVM_CNT_HOST_64K,
    /// `HUVM_CNT_HOST_4K`.
    Host4k = uapi::HUVM_CNT_HOST_4K,
    /// `HUVM_CNT_HOST_FALLBACKS`: a larger size was wanted and not to be had.
    HostFallbacks = uapi::HUVM_CNT_HOST_FALLBACKS,
    /// `HUVM_CNT_TLB_INVALIDATES`.
    TlbInvalidates = uapi::HUVM_CNT_TLB_INVALIDATES,
    /// `HUVM_CNT_MAP_2M`.
    Map2m = uapi::HUVM_CNT_MAP_2M,
    /// `HUVM_CNT_MAP_64K`.
    Map64k = uapi::HUVM_CNT_MAP_64K,
    /// `HUVM_CNT_MAP_4K`.
    Map4k = uapi::HUVM_CNT_MAP_4K,
    /// `HUVM_CNT_SPLITS`.
    Splits = uapi::HUVM_CNT_SPLITS,
    /// `HUVM_CNT_MERGES`.
    Merges = uapi::HUVM_CNT_MERGES,
    /// `HUVM_CNT_RETRIES`: a block let go to make room, and started again.
    Retries = uapi::HUVM_CNT_RETRIES,
    /// `HUVM_CNT_THRASH_PINS`.
    ThrashPins = uapi::HUVM_CNT_THRASH_PINS,
    /// `HUVM_CNT_THRASH_THROTTLES`.
    ThrashThrottles = uapi::HUVM_CNT_THRASH_THROTTLES,
    /// `HUVM_CNT_LAUNCHES`.
    Launches = uapi::HUVM_CNT_LAUNCHES,
    /// `HUVM_CNT_EVENTS_DROPPED`.
    EventsDropped = uapi::HUVM_CNT_EVENTS_DROPPED,
    /// `HUVM_CNT_SERVICE_NS`: time in the fault service thread.
    ServiceNs = uapi::HUVM_CNT_SERVICE_NS,
    /// `HUVM_CNT_EVICT_NS`.
    EvictNs = uapi::HUVM_CNT_EVICT_NS,
    /// `HUVM_CNT_WAIT_NS`: of these, waiting for the GPU.
    WaitNs = uapi::HUVM_CNT_WAIT_NS,
    /// `HUVM_CNT_NON_REPLAYABLE`.
    NonReplayable = uapi::HUVM_CNT_NON_REPLAYABLE,
    /// `HUVM_CNT_MAPPED_REMOTE_PAGES`.
    MappedRemotePages = uapi::HUVM_CNT_MAPPED_REMOTE_PAGES,
    /// `HUVM_CNT_DISCARDED_PAGES`.
    DiscardedPages = uapi::HUVM_CNT_DISCARDED_PAGES,
    /// `HUVM_CNT_CE_ERRORS`.
    CeErrors = uapi::HUVM_CNT_CE_ERRORS,
    /// `HUVM_CNT_SPARE_EVICTIONS`: evictions to a neighbour's memory.
    SpareEvictions = uapi::HUVM_CNT_SPARE_EVICTIONS,
    /// `HUVM_CNT_SPARE_HIT_BYTES`: bytes fetched from a neighbour's memory.
    SpareHitBytes = uapi::HUVM_CNT_SPARE_HIT_BYTES,
    /// `HUVM_CNT_CHUNKS_LENT`: times that a chunk of this GPU was lent.
    ChunksLent = uapi::HUVM_CNT_CHUNKS_LENT,
    /// `HUVM_CNT_WRITE_BACKS`: lent chunks copied to the host in the background.
    WriteBacks = uapi::HUVM_CNT_WRITE_BACKS,
    /// `HUVM_CNT_RECLAIMS`: lent chunks taken back.
    Reclaims = uapi::HUVM_CNT_RECLAIMS,
    /// `HUVM_CNT_RECLAIMS_COPIED`: of these, after a copy to the host.
    ReclaimsCopied = uapi::HUVM_CNT_RECLAIMS_COPIED,
    /// `HUVM_CNT_RECLAIMS_IN_FAULT`: of all, with a faulting access waiting.
    ReclaimsInFault = uapi::HUVM_CNT_RECLAIMS_IN_FAULT,
    /// `HUVM_CNT_RECLAIM_NS`: time in reclaims.
    ReclaimNs = uapi::HUVM_CNT_RECLAIM_NS,
    /// `HUVM_CNT_PRE_EVICTIONS`: evictions ahead of demand.
    PreEvictions = uapi::HUVM_CNT_PRE_EVICTIONS,
    /// `HUVM_CNT_PREFETCH_BLOCKS`: blocks fetched ahead of a stream.
    PrefetchBlocks = uapi::HUVM_CNT_PREFETCH_BLOCKS,
    /// `HUVM_CNT_PREFETCH_LATE`: blocks advised that a fault asked for before they were there.
    PrefetchLate = uapi::HUVM_CNT_PREFETCH_LATE,
    /// `HUVM_CNT_PREFETCH_ABANDONED`: blocks advised and given up.
    PrefetchAbandoned = uapi::HUVM_CNT_PREFETCH_ABANDONED,
    /// `HUVM_CNT_POOL_TAKEN`: 2 MiB host pieces that evictions took from the pool.
    PoolTaken = uapi::HUVM_CNT_POOL_TAKEN,
    /// `HUVM_CNT_POOL_EMPTY`: one was wanted and the pool had none.
    PoolEmpty = uapi::HUVM_CNT_POOL_EMPTY,
    /// `HUVM_CNT_POOL_REPLACED`: of those taken, in place of smaller pieces.
    PoolReplaced = uapi::HUVM_CNT_POOL_REPLACED,
    /// `HUVM_CNT_POOL_REFILLS`: pieces put into the pool.
    PoolRefills = uapi::HUVM_CNT_POOL_REFILLS,
    /// `HUVM_CNT_POOL_FAILURES`: refills that found no memory or no mapping.
    PoolFailures = uapi::HUVM_CNT_POOL_FAILURES,
    /// `HUVM_CNT_PREFETCH_USEFUL`: blocks fetched ahead that were there when the stream went over them.
    PrefetchUseful = uapi::HUVM_CNT_PREFETCH_USEFUL,
    /// `HUVM_CNT_PREFETCH_WASTED`: blocks fetched ahead that left the GPU before.
    PrefetchWasted = uapi::HUVM_CNT_PREFETCH_WASTED,
    /// `HUVM_CNT_SPARE_FILLS`: blocks fetched from the host into this GPU's memory for a neighbour.
    SpareFills = uapi::HUVM_CNT_SPARE_FILLS,
    /// `HUVM_CNT_SPARE_REPLACED`: chunks this GPU lent that the host had too, and that made way for another block.
    SpareReplaced = uapi::HUVM_CNT_SPARE_REPLACED,
    /// `HUVM_CNT_REFAULTS`: chunks put to use for a block that had been evicted from here not long before.
    Refaults = uapi::HUVM_CNT_REFAULTS,
    /// `HUVM_CNT_EVICTIONS_RECENT`: chunks chosen for eviction because they were recent.
    EvictionsRecent = uapi::HUVM_CNT_EVICTIONS_RECENT,
    /// `HUVM_CNT_PRE_EVICT_HOLDS`: times that pre-eviction was held off.
    PreEvictHolds = uapi::HUVM_CNT_PRE_EVICT_HOLDS,
    /// `HUVM_CNT_CHUNKS_RETIRED`: chunks taken out of service because their memory failed.
    ChunksRetired = uapi::HUVM_CNT_CHUNKS_RETIRED,
    /// `HUVM_CNT_ECC_LOST_PAGES`: pages whose only copy was in memory that failed.
    EccLostPages = uapi::HUVM_CNT_ECC_LOST_PAGES,
    /// `HUVM_CNT_WRITE_BACKS_LATER`: lent chunks left for later, as a stream comes to them.
    WriteBacksLater = uapi::HUVM_CNT_WRITE_BACKS_LATER,
    /// `HUVM_CNT_EXPOSED_NS`: time in which a fault waited for the driver alone.
    ExposedNs = uapi::HUVM_CNT_EXPOSED_NS,
    /// `HUVM_CNT_EVICTIONS_RESCUED`: evictions whose channel was given up, and that went to the host another way.
    EvictionsRescued = uapi::HUVM_CNT_EVICTIONS_RESCUED,
    /// `HUVM_CNT_WRITE_BACKS_OVERTAKEN`: lent chunks fetched back while they were written back.
    WriteBacksOvertaken = uapi::HUVM_CNT_WRITE_BACKS_OVERTAKEN,
    /// `HUVM_CNT_PACKETS_GIVEN_UP`: fault packets that never became valid.
    PacketsGivenUp = uapi::HUVM_CNT_PACKETS_GIVEN_UP,
    /// `HUVM_CNT_BLIND_REPLAYS`: replays without a fault, in case one was lost.
    BlindReplays = uapi::HUVM_CNT_BLIND_REPLAYS,
    /// `HUVM_CNT_INTERRUPT_STORMS`: times that a message interrupt was off for a while.
    InterruptStorms = uapi::HUVM_CNT_INTERRUPT_STORMS,
    /// `HUVM_CNT_VICTIMS_PASSED_OVER`: chunks that stayed because of their owner's share.
    VictimsPassedOver = uapi::HUVM_CNT_VICTIMS_PASSED_OVER,
    /// `HUVM_CNT_EVICTIONS_CLEAN`: evictions without a copy.
    EvictionsClean = uapi::HUVM_CNT_EVICTIONS_CLEAN,
    /// `HUVM_CNT_STANDSTILLS`: times that a client got no further, and its accesses had to take turns.
    Standstills = uapi::HUVM_CNT_STANDSTILLS,
}

/// The counters of one scope.
pub(crate) struct Counters {
    of: [Atomic<u64>; COUNT],
}

impl Counters {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Counters {
            of: [const { Atomic::new(0) }; COUNT],
        }
    }

    /// All zero, made where they are to be.
    pub(crate) fn init() -> impl Init<Self> {
        init!(Counters {
            of <- pin_init::init_array_from_fn(|_| Atomic::new(0)),
        })
    }

    /// Adds.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        // CAST: below COUNT.
        if let Some(c) = self.of.get(counter as usize) {
            c.add(n, Relaxed);
        }
    }

    /// Reads one.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        // CAST: below COUNT.
        self.of.get(counter as usize).map_or(0, |c| c.load(Relaxed))
    }

    /// Adds all to `sums`, each read by itself.
    pub(crate) fn add_to(&self, sums: &mut [u64; COUNT]) {
        for (sum, c) in sums.iter_mut().zip(&self.of) {
            *sum = sum.wrapping_add(c.load(Relaxed));
        }
    }
}
