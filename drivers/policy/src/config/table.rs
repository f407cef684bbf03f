// SPDX-License-Identifier: GPL-2.0
//! The rows of the knob table.
//!
//! A row is everything there is to say about a knob; the id, the table and the default values are made from it. The
//! constants are those of `nvidia-uvm.md` (sections 2.3 and 11) where the source column names them.

use super::{Knob, KnobKind, OFF_ON};

/// Makes [`KnobId`], [`KNOBS`], [`KNOB_COUNT`] and the defaults from the rows.
macro_rules! knobs {
    ($( $id:ident {
        $name:literal, $unit:literal, $kind:expr, $min:literal ..= $max:literal, $default:literal, $live:literal,
        $doc:literal, $source:literal
    } )*) => {
        /// A knob. Its number is its place in [`KNOBS`] and part of the user interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum KnobId {
            $( #[doc = $doc] $id, )*
        }

        /// Every knob, in the order of [`KnobId`].
        pub static KNOBS: &[Knob] = &ROWS;

        /// The same as an array, whose length the compiler knows.
        pub(super) static ROWS: [Knob; KNOB_COUNT] = [
            $( Knob {
                id: KnobId::$id, name: $name, unit: $unit, kind: $kind, min: $min, max: $max, default: $default,
                live: $live, doc: $doc, source: $source,
            }, )*
        ];

        /// Number of knobs.
        pub const KNOB_COUNT: usize = [$( KnobId::$id, )*].len();

        /// The default of every knob.
        pub(super) const DEFAULTS: [u64; KNOB_COUNT] = [ $( $default, )* ];
    };
}

use KnobKind::{Choice, Number};

// Columns: name, unit, kind, range, default, live, doc, source. A row becomes live in the commit that makes the driver act
// on it.
knobs! {
    // Fault service.
    FaultBatchMax {
        "fault_batch_max", "faults", Number, 1..=4096, 256, true,
        "Raw fault packets fetched per batch.",
        "nvidia-uvm.md 2.3 uvm_perf_fault_batch_count"
    }
    FaultBatchesPerRun {
        "fault_batches_per_run", "batches", Number, 1..=1000, 20, true,
        "Batches served before the fault interrupt is armed again.",
        "nvidia-uvm.md 2.3 uvm_perf_fault_max_batches_per_service"
    }
    FaultThrottledPerRun {
        "fault_throttled_per_run", "batches", Number, 1..=1000, 5, true,
        "Batches with a throttled fault served before the fault interrupt is armed again.",
        "nvidia-uvm.md 2.3 uvm_perf_fault_max_throttle_per_service"
    }
    FaultDuplicatePercent {
        "fault_duplicate_percent", "%", Number, 0..=100, 50, false,
        "Share of duplicates in a batch above which the flush before a replay reads PUT again (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_fault_replay_update_put_ratio"
    }
    FaultCoalesce {
        "fault_coalesce", "", Choice(OFF_ON), 0..=1, 1, false,
        "Merge a fault with the last one, or the last of its uTLB, while fetching (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_fault_coalesce"
    }
    ReplayPolicy {
        "replay_policy", "", Choice(&["block", "batch", "batch-flush", "once"]), 0..=3, 2, true,
        "When faulted accesses are replayed: after each block, each batch, each batch and a flush, or once a run.",
        "nvidia-uvm.md 3.5"
    }
    PrefetchFaultLapse {
        "prefetch_fault_lapse_ms", "ms", Number, 0..=60000, 1000, false,
        "Time that hardware prefetch faults stay off after a batch with too many invalid ones (no effect yet).",
        "nvidia-uvm.md 3.6"
    }

    // Prefetch.
    PrefetchMode {
        "prefetch_mode", "", Choice(&["none", "tree"]), 0..=1, 1, true,
        "What faults off streams bring beside their pages: nothing, or what the tree prefetcher finds dense (return_whole, fetch_whole).",
        "nvidia-uvm.md 5.1"
    }
    PrefetchThreshold {
        "prefetch_threshold_percent", "%", Number, 1..=100, 51, true,
        "Share of a subtree that must be resident or faulted, and exceeded, for all of it to be fetched.",
        "nvidia-uvm.md 5.1 step 6"
    }
    PrefetchMinFaults {
        "prefetch_min_faults", "faults", Number, 1..=20, 1, true,
        "Pages of a block faulted towards one processor before it prefetches.",
        "nvidia-uvm.md 2.3 uvm_perf_prefetch_min_faults"
    }

    // Thrashing.
    ThrashEnable {
        "thrash_enable", "", Choice(OFF_ON), 0..=1, 1, true,
        "Detect pages that bounce between processors; throttle, then pin them.",
        "nvidia-uvm.md 5.2"
    }
    ThrashThreshold {
        "thrash_threshold_events", "events", Number, 1..=7, 3, true,
        "Events, each within the window of the one before, that make a page thrash.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_threshold"
    }
    ThrashPinThreshold {
        "thrash_pin_threshold_periods", "periods", Number, 1..=255, 10, true,
        "Throttling periods of a page before it is pinned.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_pin_threshold"
    }
    ThrashWindow {
        "thrash_window_us", "us", Number, 5..=500000, 500, true,
        "Longest time between two events that count as thrashing.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_lapse_usec"
    }
    ThrashWindowMode {
        "thrash_window_mode", "", Choice(&["fixed", "as-shipped"]), 0..=1, 0, true,
        "The window stays as set, or grows with each short gap up to 500 ms, as the driver since 590 really does.",
        "nvidia-uvm.md 5.2, adaptive window"
    }
    ThrashNap {
        "thrash_nap_windows", "windows", Number, 1..=100, 1, true,
        "Length of a throttling period, 500 ms at most.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_nap"
    }
    ThrashEpoch {
        "thrash_epoch_windows", "windows", Number, 1..=1000000, 2000, true,
        "Time after which a block's thrashing statistics are reset.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_epoch"
    }
    ThrashPin {
        "thrash_pin_windows", "windows", Number, 0..=1000000, 300, true,
        "Time that a pinned page stays pinned; 0 is until the block goes or the user moves it.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_pin"
    }
    ThrashMaxResets {
        "thrash_max_resets", "resets", Number, 0..=255, 4, true,
        "Resets of a block's thrashing statistics, after which it keeps them.",
        "nvidia-uvm.md 2.3 uvm_perf_thrashing_max_resets"
    }

    // Placement.
    ZeroCopy {
        "zero_copy", "", Choice(OFF_ON), 0..=1, 0, true,
        "A GPU fault maps host memory and never moves a page.",
        "design.md 4, preset zero-copy"
    }
    RemoteAtomics {
        "remote_atomics", "", Choice(OFF_ON), 0..=1, 0, false,
        "An atomic fault maps the page where it is, if the link can do atomics, instead of moving it (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_map_remote_on_native_atomics_fault"
    }

    // Memory.
    EvictEnable {
        "evict_enable", "", Choice(OFF_ON), 0..=1, 1, true,
        "Evict when a GPU's memory is full, or before; off, the allocation fails.",
        "nvidia-uvm.md 2.3 uvm_global_oversubscription"
    }
    EvictOrder {
        "evict_order", "", Choice(&["lrm", "random", "recent", "adaptive"]), 0..=3, 0, true,
        "The chunk in use to evict: least recently migrated, any, a recent one behind a guard, or that when evicted ones return.",
        "nvidia-uvm.md 4.4, 4.5; workloads.md 5"
    }
    EvictRetriesMax {
        "evict_retries_max", "tries", Number, 1..=1000, 16, true,
        "Times that serving a block is started again for want of a chunk before its faults fail. A process has no more than the GPU.",
        "design.md 3 rule 2; NVIDIA's loop has no limit (nvidia-uvm.md 3.4)"
    }
    ChunkBatch {
        "chunk_batch", "chunks", Number, 1..=1024, 64, false,
        "Chunks taken from the free pool at once (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_pma_batch_nonpinned_order"
    }
    HostChunkSizes {
        "host_chunk_sizes", "", Choice(&["4k", "4k+64k", "4k+2m", "4k+64k+2m"]), 0..=3, 3, true,
        "Sizes of host memory allocations, the largest that fits first.",
        "nvidia-uvm.md 4.7 uvm_cpu_chunk_allocation_sizes"
    }
    ReserveChunks {
        "reserve_chunks", "chunks", Number, 0..=65536, 0, false,
        "Chunks of a GPU kept free for allocations that must not wait; used by pre-eviction (no effect yet).",
        "design.md 3 rule 2; NVIDIA keeps none (nvidia-uvm.md 4.3)"
    }
    PreEvict {
        "pre_evict", "", Choice(OFF_ON), 0..=1, 0, true,
        "Evict ahead of demand, off the path of a fault.",
        "design.md 4; NVIDIA has none (nvidia-uvm.md 9.2)"
    }
    PreEvictLow {
        "pre_evict_low_chunks", "chunks", Number, 0..=65536, 50, true,
        "Free chunks below which pre-eviction starts.",
        "HUVM paper, threshold of 50 chunks"
    }
    PreEvictHigh {
        "pre_evict_high_chunks", "chunks", Number, 0..=65536, 64, true,
        "Free chunks at which pre-eviction stops.",
        "one chunk batch; not measured yet"
    }

    // Access counters.
    AccessCounters {
        "access_counters", "", Choice(OFF_ON), 0..=1, 0, false,
        "Move memory that a GPU uses remotely, as its access counters tell (no effect yet).",
        "nvidia-uvm.md 5.3, off on x86-64"
    }
    AccessCounterBatchMax {
        "access_counter_batch_max", "notices", Number, 1..=4096, 256, false,
        "Access counter notifications fetched per batch (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_access_counter_batch_count"
    }
    AccessCounterThreshold {
        "access_counter_threshold", "accesses", Number, 1..=65535, 256, false,
        "Remote accesses to a region before a notification (no effect yet).",
        "nvidia-uvm.md 2.3 uvm_perf_access_counter_threshold"
    }
    AccessCounterRegion {
        "access_counter_region", "", Choice(&["64k", "2m", "16m", "16g"]), 0..=3, 1, false,
        "Virtual memory that one access counter counts for (no effect yet).",
        "nvidia-uvm.md 5.3; codes of hw-interface.md ACCESS_COUNTER_CONFIG"
    }

    // Neighbours.
    HarvestBorrow {
        "harvest_borrow", "", Choice(OFF_ON), 0..=1, 0, true,
        "Evict to the spare memory of neighbour GPUs before the host; off, nothing of theirs is used, for what is fetched either.",
        "design.md 1; NVIDIA has none (nvidia-uvm.md 9.2)"
    }
    HarvestLend {
        "harvest_lend", "", Choice(OFF_ON), 0..=1, 0, true,
        "Let neighbour GPUs keep pages in this GPU's spare memory.",
        "design.md 1; NVIDIA has none (nvidia-uvm.md 9.2)"
    }

    // Pre-eviction, continued: numbers are never reused, so rows are added here.
    PreEvictShare {
        "pre_evict_share_percent", "%", Number, 1..=100, 5, true,
        "Share of a small GPU's chunks that the bounds of pre-eviction and the lending reserve stay within.",
        "chosen for this project, not measured yet"
    }
    PreEvictInFlight {
        "pre_evict_in_flight_chunks", "chunks", Number, 1..=256, 8, true,
        "Evictions ahead of demand under way at once.",
        "chosen for this project, not measured yet"
    }

    // Neighbours, continued.
    LendLimitPercent {
        "lend_limit_percent", "%", Number, 0..=100, 100, true,
        "Share of this GPU's memory lent at most; what is beyond it comes back.",
        "design.md 1: all that is free"
    }
    LendLimitSize {
        "lend_limit_mib", "MiB", Number, 0..=67108864, 0, true,
        "Memory of this GPU lent at most; 0 is no limit but the share.",
        "design.md 1: all that is free"
    }
    LendReserve {
        "lend_reserve_chunks", "chunks", Number, 0..=65536, 50, true,
        "Free chunks that a lending GPU keeps for itself, within the share for small memories.",
        "the low bound of pre-eviction; not measured yet"
    }
    SpareSelect {
        "spare_select", "", Choice(&["round-robin", "most-spare", "least-busy"]), 0..=2, 0, true,
        "The neighbour that keeps an evicted chunk: each in turn, the one with most room, or with the idlest link.",
        "HUVM paper, round robin"
    }
    WriteBack {
        "write_back", "", Choice(OFF_ON), 0..=1, 1, true,
        "Copy lent chunks to the host in the background, so that their owner can have them at once.",
        "HUVM paper; acts with harvest_lend only"
    }
    WriteBackInFlight {
        "write_back_in_flight_chunks", "chunks", Number, 1..=64, 2, true,
        "Lent chunks of one GPU under write-back at once.",
        "one copied, one ready; not measured yet"
    }
    ParallelFetch {
        "parallel_fetch", "", Choice(OFF_ON), 0..=1, 0, true,
        "Serve the faults of a batch from both ends: over the own host link and over those of lending GPUs.",
        "HUVM paper, PLF; NVIDIA has none (nvidia-uvm.md 9.2)"
    }

    // Large pages on eviction.
    LargePageEvict {
        "large_page_evict", "", Choice(OFF_ON), 0..=1, 0, true,
        "Evict a whole chunk to one 2 MiB piece of host memory from a pool, mapped for DMA once.",
        "HUVM paper, LP"
    }
    LargePagePool {
        "large_page_pool_mib", "MiB", Number, 0..=65536, 128, true,
        "Host memory kept ready in 2 MiB pieces for evictions of one GPU, refilled in the background.",
        "one chunk batch; not measured yet"
    }

    // Prefetch of blocks.
    StreamMode {
        "stream_prefetch", "", Choice(&["off", "next-line", "stride"]), 0..=2, 0, true,
        "Fetch blocks ahead of a stream of faults: by a fixed step, or by the step found.",
        "HUVM paper, LPF; NVIDIA has none (nvidia-uvm.md 9.2)"
    }
    StreamAmount {
        "prefetch_amount_mib", "MiB", Number, 2..=32, 32, true,
        "Memory fetched ahead of the last fault of a stream.",
        "HUVM paper, 2 to 32 MiB"
    }
    StreamStride {
        "prefetch_stride_mib", "MiB", Number, 2..=1024, 2, true,
        "Step from block to block of next-line prefetch; rounded down to whole blocks.",
        "HUVM paper, 2 MiB"
    }
    StreamStrideMax {
        "prefetch_stride_max_mib", "MiB", Number, 2..=1024, 64, true,
        "Longest step that stride prefetch takes for a stream.",
        "chosen for this project, not measured yet"
    }
    StreamCount {
        "prefetch_streams", "streams", Number, 1..=16, 16, true,
        "Streams of a process followed at once.",
        "make bench EXP=streaming: ten rows of pathfinder's wall and two of its results at a time"
    }
    StreamConfirm {
        "prefetch_confirm_steps", "steps", Number, 1..=4, 4, true,
        "Equal steps in a row after which a stream is fetched ahead.",
        "policy/tests/stream.rs: with 3, random faults on 800 blocks fetch 0.2 blocks each, with 4 none"
    }
    MultiPath {
        "prefetch_multi_path", "", Choice(OFF_ON), 0..=1, 0, true,
        "Prefetch over several links: to local memory, and to a lending GPU's spare memory over its host link.",
        "HUVM paper, MPF"
    }

    // Neighbours, continued.
    SpareReplace {
        "spare_replace", "", Choice(&["off", "when-busy", "always"]), 0..=2, 1, true,
        "Whether, with no spare memory free, a chunk there that the host has too makes way for an eviction, or a prefetch.",
        "HUVM paper: a cache; else the links of a neighbour with little spare memory stand still"
    }
    EvictGuardChunks {
        "evict_guard_chunks", "chunks", Number, 0..=1024, 32, true,
        "Youngest chunks left alone by evict_order=recent or adaptive (then an eighth of all at most), beside those fetched ahead.",
        "workloads.md 5 has 16, of 800"
    }
    EvictWindowPercent {
        "evict_window_percent", "%", Number, 1..=400, 25, true,
        "Chunks, in shares of the memory, over which evict_order=adaptive counts how many were evicted before.",
        "workloads.md 5, ghost-switch"
    }

    // Pre-eviction, continued.
    PreEvictHold {
        "pre_evict_hold", "", Choice(OFF_ON), 0..=1, 0, true,
        "Hold pre-eviction off while what it evicts comes back, if all would fit or most is back at once.",
        "chosen for this project: a job of 96 % of a memory evicts itself without it, and RA, UVMSmart's, is 4 times slower"
    }

    // Neighbours, continued.
    WriteBackSkip {
        "write_back_skip_blocks", "blocks", Number, 0..=1024, 0, true,
        "Lent chunks that a stream comes to within so many blocks are written back last, some each 100 ms; 0: in order.",
        "chosen for this project: a fetch waits for the write-back of its block, and makes it useless"
    }

    // Copies.
    CopyOverlap {
        "copy_overlap", "", Choice(OFF_ON), 0..=1, 0, true,
        "Begin a copy while the one before it, of other memory, is still on its way; off, each waits for the last to arrive.",
        "on: nvidia-uvm.md 6.4, two channels for each kind of copy; 5 us of 58 over NVLink, 17 of 188 over PCIe; hw-interface.md 5.7"
    }

    // Prefetch, continued.
    StreamCycles {
        "prefetch_cycles", "", Choice(OFF_ON), 0..=1, 0, true,
        "Follow a stream beyond what is on the GPU already, and from one pass over its range to the next.",
        "chosen for this project: what stays of a cycle lies in the way of its stream, and each pass is to be found out anew"
    }

    // Eviction, continued.
    EvictGuardFit {
        "evict_guard_fit", "", Choice(OFF_ON), 0..=1, 0, true,
        "The guard of evict_order=adaptive widens while chunks come back that just left it, up to half of the memory.",
        "chosen for this project, after ARC (Megiddo and Modha, FAST'03): fronts of a job's threads differ from job to job"
    }
    EvictKeepSoon {
        "evict_keep_soon_percent", "%", Number, 0..=100, 0, true,
        "What comes back within this part of a cycle of evict_order=adaptive, as learned, is kept, and the oldest goes; 0: it is not.",
        "chosen for this project: a chunk wanted several times in a pass is worth more than one wanted once (tests/evict_order.rs)"
    }

    // Neighbours, continued.
    LendRate {
        "lend_rate_mb_s", "MB/s", Number, 0..=10000000, 0, true,
        "While this GPU has launches of its own, it takes in no more than that from borrowers; 0: as much as comes.",
        "chosen for this project: what goes through a lender's memory, its own jobs do not get (ATC'22 Table 3)"
    }
    LendSlowdown {
        "lend_slowdown_percent", "%", Number, 1..=100, 2, true,
        "While its own jobs take all of its memory's bandwidth, a lender gives borrowers this part of it; 100: as much as comes.",
        "chosen for this project: a lender's own job is to be slower by less than 3 %"
    }

    // Eviction, continued.
    FairMemory {
        "fair_memory", "", Choice(OFF_ON), 0..=1, 0, true,
        "While several use this GPU, who has no more than its share of the memory does not lose it to those who have more.",
        "chosen for this project: one that streams would evict all others; NVIDIA has none (nvidia-uvm.md 4.4)"
    }
    KeepHostCopy {
        "keep_host_copy", "", Choice(OFF_ON), 0..=1, 0, true,
        "The host keeps its copy of what a GPU fetches to read: until it is written it leaves the GPU without a copy.",
        "chosen for this project: NVIDIA copies back what was never written (nvidia-uvm.md 9.2, dirty tracking)"
    }

    // Fetching, continued.
    ReturnWhole {
        "return_whole", "", Choice(OFF_ON), 0..=1, 0, true,
        "A block that comes back to a GPU is fetched whole by its first fault, if half of it was wanted at once the last times.",
        "chosen for this project: faults cost a job that goes over its memory again more than what they bring (returns.rs)"
    }

    // Copies, continued.
    FetchApart {
        "prefetch_apart", "", Choice(OFF_ON), 0..=1, 0, true,
        "Fetch ahead from the host by a copy engine of its own, so that what is needed at once does not queue behind it.",
        "chosen for this project: four blocks on their way ahead are 0.7 ms of PCIe 3.0"
    }

    // Fetching, continued.
    FetchWhole {
        "fetch_whole", "", Choice(OFF_ON), 0..=1, 0, true,
        "While of most blocks that come by faults half is wanted before they leave, the first fault of a block fetches all of it.",
        "chosen for this project: the HUVM paper's driver always does, which moves many times what is wanted here and there (grain.rs)"
    }

    // Eviction, continued.
    EvictByReuse {
        "evict_by_reuse", "", Choice(OFF_ON), 0..=1, 0, true,
        "Of what evict_order=adaptive keeps, a chunk that comes back late makes way for one that comes back sooner.",
        "chosen for this project, after TinyLFU (ACM ToS 2017): what is wanted often in a pass is worth more (reuse.rs)"
    }
}
