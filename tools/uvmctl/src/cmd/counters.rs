// SPDX-License-Identifier: GPL-2.0
//! Names of the counters, in the order of `enum huvm_counter`.

/// `HUVM_CNT_*` as lower-case words.
pub(crate) const NAMES: &[&str] = &[
    "fault_batches",
    "faults",
    "fault_duplicates",
    "faults_served",
    "faults_stale",
    "faults_fatal",
    "replays",
    "flushes",
    "overflows",
    "cpu_faults",
    "cpu_faults_2m",
    "bytes_h2d",
    "bytes_d2h",
    "bytes_p2p",
    "bytes_zeroed",
    "pages_prefetched",
    "evictions",
    "eviction_bytes",
    "evictions_in_fault",
    "chunks_allocated",
    "chunks_freed",
    "host_2m",
    "host_64k",
    "host_4k",
    "host_fallbacks",
    "tlb_invalidates",
    "map_2m",
    "map_64k",
    "map_4k",
    "splits",
    "merges",
    "retries",
    "thrash_pins",
    "thrash_throttles",
    "launches",
    "events_dropped",
    "service_ns",
    "evict_ns",
    "wait_ns",
    "non_replayable",
    "mapped_remote_pages",
    "discarded_pages",
    "ce_errors",
    "spare_evictions",
    "spare_hit_bytes",
    "chunks_lent",
    "write_backs",
    "reclaims",
    "reclaims_copied",
    "reclaims_in_fault",
    "reclaim_ns",
    "pre_evictions",
    "prefetch_blocks",
    "prefetch_late",
    "prefetch_abandoned",
    "pool_taken",
    "pool_empty",
    "pool_replaced",
    "pool_refills",
    "pool_failures",
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_counter_has_a_name() {
        assert_eq!(super::NAMES.len(), libhuvm::uapi::HUVM_CNT_COUNT as usize);
    }
}
