/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace events of the driver: /sys/kernel/tracing/events/huvm, perf's huvm:*.
 *
 * Places and GPUs are indices; -1 is the host, or no GPU, -2 no place at all. Addresses are those of the process whose pid is
 * named; none is the kernel's. Words are those of uvmctl. drivers/account/trace.rs says which event of uapi/huvm.h is which.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM huvm

#if !defined(_HUVM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HUVM_TRACE_H

#include <linux/tracepoint.h>

#include "../../uapi/huvm.h"

#define HUVM_TRACE_CAUSES					\
	HUVM_WORD(HUVM_CAUSE_NONE, "none")			\
	HUVM_WORD(HUVM_CAUSE_GPU_FAULT, "gpu-fault")		\
	HUVM_WORD(HUVM_CAUSE_CPU_FAULT, "cpu-fault")		\
	HUVM_WORD(HUVM_CAUSE_PREFETCH, "prefetch")		\
	HUVM_WORD(HUVM_CAUSE_EVICTION, "eviction")		\
	HUVM_WORD(HUVM_CAUSE_API, "call")			\
	HUVM_LAST(HUVM_CAUSE_THRASHING, "thrashing")

#define HUVM_TRACE_STATUS					\
	HUVM_WORD(HUVM_LAUNCH_RUNNING, "running")		\
	HUVM_WORD(HUVM_LAUNCH_DONE, "done")			\
	HUVM_WORD(HUVM_LAUNCH_FAILED, "failed")			\
	HUVM_LAST(HUVM_LAUNCH_ABORTED, "aborted")

#define HUVM_TRACE_STEPS					\
	HUVM_WORD(HUVM_PREFETCH_BEGUN, "begun")			\
	HUVM_WORD(HUVM_PREFETCH_USEFUL, "useful")		\
	HUVM_WORD(HUVM_PREFETCH_LATE, "late")			\
	HUVM_LAST(HUVM_PREFETCH_WASTED, "wasted")

#define HUVM_TRACE_LOST						\
	HUVM_WORD(HUVM_LOST_GONE, "gone")			\
	HUVM_WORD(HUVM_LOST_RESET, "reset")			\
	HUVM_WORD(HUVM_LOST_INVALIDATE, "invalidate")		\
	HUVM_WORD(HUVM_LOST_REPLAY, "replay")			\
	HUVM_WORD(HUVM_LOST_CHANNEL, "channel")			\
	HUVM_WORD(HUVM_LOST_LAUNCH, "launch")			\
	HUVM_WORD(HUVM_LOST_UNBOUND, "unbound")			\
	HUVM_WORD(HUVM_LOST_SEMAPHORE, "semaphore")		\
	HUVM_LAST(HUVM_LOST_FAULT_RING, "fault-ring")

#define HUVM_TRACE_COPIES					\
	HUVM_WORD(HUVM_LATENCY_H2D, "h2d")			\
	HUVM_WORD(HUVM_LATENCY_D2H, "d2h")			\
	HUVM_WORD(HUVM_LATENCY_PEER_OUT, "peer-out")		\
	HUVM_WORD(HUVM_LATENCY_PEER_IN, "peer-in")		\
	HUVM_LAST(HUVM_LATENCY_LOCAL, "local")

#define HUVM_TRACE_ENDS						\
	HUVM_WORD(HUVM_CHANNEL_STALLED, "stalled")		\
	HUVM_LAST(HUVM_CHANNEL_FAULTED, "faulted")

/* A new counter goes before the last line; tests/suites/observe_trace.c looks for one that is missing. */
#define HUVM_TRACE_COUNTERS						\
	HUVM_WORD(HUVM_CNT_FAULT_BATCHES, "fault_batches")		\
	HUVM_WORD(HUVM_CNT_FAULTS, "faults")				\
	HUVM_WORD(HUVM_CNT_FAULT_DUPLICATES, "fault_duplicates")	\
	HUVM_WORD(HUVM_CNT_FAULTS_SERVED, "faults_served")		\
	HUVM_WORD(HUVM_CNT_FAULTS_STALE, "faults_stale")		\
	HUVM_WORD(HUVM_CNT_FAULTS_FATAL, "faults_fatal")		\
	HUVM_WORD(HUVM_CNT_REPLAYS, "replays")				\
	HUVM_WORD(HUVM_CNT_FLUSHES, "flushes")				\
	HUVM_WORD(HUVM_CNT_OVERFLOWS, "overflows")			\
	HUVM_WORD(HUVM_CNT_CPU_FAULTS, "cpu_faults")			\
	HUVM_WORD(HUVM_CNT_CPU_FAULTS_2M, "cpu_faults_2m")		\
	HUVM_WORD(HUVM_CNT_BYTES_H2D, "bytes_h2d")			\
	HUVM_WORD(HUVM_CNT_BYTES_D2H, "bytes_d2h")			\
	HUVM_WORD(HUVM_CNT_BYTES_P2P, "bytes_p2p")			\
	HUVM_WORD(HUVM_CNT_BYTES_ZEROED, "bytes_zeroed")		\
	HUVM_WORD(HUVM_CNT_PAGES_PREFETCHED, "pages_prefetched")	\
	HUVM_WORD(HUVM_CNT_EVICTIONS, "evictions")			\
	HUVM_WORD(HUVM_CNT_EVICTION_BYTES, "eviction_bytes")		\
	HUVM_WORD(HUVM_CNT_EVICTIONS_IN_FAULT, "evictions_in_fault")	\
	HUVM_WORD(HUVM_CNT_CHUNKS_ALLOCATED, "chunks_allocated")	\
	HUVM_WORD(HUVM_CNT_CHUNKS_FREED, "chunks_freed")		\
	HUVM_WORD(HUVM_CNT_HOST_2M, "host_2m")				\
	HUVM_WORD(HUVM_CNT_HOST_64K, "host_64k")			\
	HUVM_WORD(HUVM_CNT_HOST_4K, "host_4k")				\
	HUVM_WORD(HUVM_CNT_HOST_FALLBACKS, "host_fallbacks")		\
	HUVM_WORD(HUVM_CNT_TLB_INVALIDATES, "tlb_invalidates")		\
	HUVM_WORD(HUVM_CNT_MAP_2M, "map_2m")				\
	HUVM_WORD(HUVM_CNT_MAP_64K, "map_64k")				\
	HUVM_WORD(HUVM_CNT_MAP_4K, "map_4k")				\
	HUVM_WORD(HUVM_CNT_SPLITS, "splits")				\
	HUVM_WORD(HUVM_CNT_MERGES, "merges")				\
	HUVM_WORD(HUVM_CNT_RETRIES, "retries")				\
	HUVM_WORD(HUVM_CNT_THRASH_PINS, "thrash_pins")			\
	HUVM_WORD(HUVM_CNT_THRASH_THROTTLES, "thrash_throttles")	\
	HUVM_WORD(HUVM_CNT_LAUNCHES, "launches")			\
	HUVM_WORD(HUVM_CNT_EVENTS_DROPPED, "events_dropped")		\
	HUVM_WORD(HUVM_CNT_SERVICE_NS, "service_ns")			\
	HUVM_WORD(HUVM_CNT_EVICT_NS, "evict_ns")			\
	HUVM_WORD(HUVM_CNT_WAIT_NS, "wait_ns")				\
	HUVM_WORD(HUVM_CNT_NON_REPLAYABLE, "non_replayable")		\
	HUVM_WORD(HUVM_CNT_MAPPED_REMOTE_PAGES, "mapped_remote_pages")	\
	HUVM_WORD(HUVM_CNT_DISCARDED_PAGES, "discarded_pages")		\
	HUVM_WORD(HUVM_CNT_CE_ERRORS, "ce_errors")			\
	HUVM_WORD(HUVM_CNT_SPARE_EVICTIONS, "spare_evictions")		\
	HUVM_WORD(HUVM_CNT_SPARE_HIT_BYTES, "spare_hit_bytes")		\
	HUVM_WORD(HUVM_CNT_CHUNKS_LENT, "chunks_lent")			\
	HUVM_WORD(HUVM_CNT_WRITE_BACKS, "write_backs")			\
	HUVM_WORD(HUVM_CNT_RECLAIMS, "reclaims")			\
	HUVM_WORD(HUVM_CNT_RECLAIMS_COPIED, "reclaims_copied")		\
	HUVM_WORD(HUVM_CNT_RECLAIMS_IN_FAULT, "reclaims_in_fault")	\
	HUVM_WORD(HUVM_CNT_RECLAIM_NS, "reclaim_ns")			\
	HUVM_WORD(HUVM_CNT_PRE_EVICTIONS, "pre_evictions")		\
	HUVM_WORD(HUVM_CNT_PREFETCH_BLOCKS, "prefetch_blocks")		\
	HUVM_WORD(HUVM_CNT_PREFETCH_LATE, "prefetch_late")		\
	HUVM_WORD(HUVM_CNT_PREFETCH_ABANDONED, "prefetch_abandoned")	\
	HUVM_WORD(HUVM_CNT_POOL_TAKEN, "pool_taken")		\
	HUVM_WORD(HUVM_CNT_POOL_EMPTY, "pool_empty")		\
	HUVM_WORD(HUVM_CNT_POOL_REPLACED, "pool_replaced")		\
	HUVM_WORD(HUVM_CNT_POOL_REFILLS, "pool_refills")		\
	HUVM_WORD(HUVM_CNT_POOL_FAILURES, "pool_failures")		\
	HUVM_WORD(HUVM_CNT_PREFETCH_USEFUL, "prefetch_useful")		\
	HUVM_WORD(HUVM_CNT_PREFETCH_WASTED, "prefetch_wasted")		\
	HUVM_WORD(HUVM_CNT_SPARE_FILLS, "spare_fills")			\
	HUVM_WORD(HUVM_CNT_SPARE_REPLACED, "spare_replaced")		\
	HUVM_WORD(HUVM_CNT_REFAULTS, "refaults")			\
	HUVM_WORD(HUVM_CNT_EVICTIONS_RECENT, "evictions_recent")	\
	HUVM_WORD(HUVM_CNT_PRE_EVICT_HOLDS, "pre_evict_holds")		\
	HUVM_WORD(HUVM_CNT_CHUNKS_RETIRED, "chunks_retired")		\
	HUVM_WORD(HUVM_CNT_ECC_LOST_PAGES, "ecc_lost_pages")		\
	HUVM_WORD(HUVM_CNT_WRITE_BACKS_LATER, "write_backs_later")	\
	HUVM_WORD(HUVM_CNT_EXPOSED_NS, "exposed_ns")			\
	HUVM_WORD(HUVM_CNT_EVICTIONS_RESCUED, "evictions_rescued")	\
	HUVM_WORD(HUVM_CNT_WRITE_BACKS_OVERTAKEN, "write_backs_overtaken") \
	HUVM_WORD(HUVM_CNT_PACKETS_GIVEN_UP, "packets_given_up")	\
	HUVM_WORD(HUVM_CNT_BLIND_REPLAYS, "blind_replays")		\
	HUVM_WORD(HUVM_CNT_INTERRUPT_STORMS, "interrupt_storms")	\
	HUVM_WORD(HUVM_CNT_VICTIMS_PASSED_OVER, "victims_passed_over")	\
	HUVM_WORD(HUVM_CNT_EVICTIONS_CLEAN, "evictions_clean")		\
	HUVM_WORD(HUVM_CNT_STANDSTILLS, "standstills")			\
	HUVM_LAST(HUVM_CNT_COUNT, "none")

/* perf reads the format without the header: give it the numbers. */
#undef HUVM_WORD
#undef HUVM_LAST
#define HUVM_WORD(number, word) TRACE_DEFINE_ENUM(number);
#define HUVM_LAST(number, word) TRACE_DEFINE_ENUM(number);
HUVM_TRACE_CAUSES
HUVM_TRACE_STATUS
HUVM_TRACE_STEPS
HUVM_TRACE_LOST
HUVM_TRACE_COPIES
HUVM_TRACE_ENDS
HUVM_TRACE_COUNTERS
#undef HUVM_WORD
#undef HUVM_LAST
#define HUVM_WORD(number, word) { number, word },
#define HUVM_LAST(number, word) { number, word }

/* A page that a GPU faulted on, once per batch of packets. */
TRACE_EVENT(huvm_gpu_fault,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u32 access, u32 packets),
	TP_ARGS(gpu, pid, va, access, packets),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u32, access)
		__field(u32, packets)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->access = access;
		__entry->packets = packets;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx access=%u packets=%u", __entry->gpu, __entry->pid,
		  __entry->va, __entry->access, __entry->packets)
);

/* A batch of fault packets was served: how many there were, how many pages they named. */
TRACE_EVENT(huvm_fault_batch,
	TP_PROTO(s32 gpu, u64 packets, u64 pages),
	TP_ARGS(gpu, packets, pages),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u64, packets)
		__field(u64, pages)
		__field(u64, duplicates)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->packets = packets;
		__entry->pages = pages;
		__entry->duplicates = packets > pages ? packets - pages : 0;
	),
	TP_printk("gpu=%d packets=%llu pages=%llu duplicates=%llu", __entry->gpu, __entry->packets,
		  __entry->pages, __entry->duplicates)
);

/* A fault that cannot be served; the access is cancelled and its launch fails. */
TRACE_EVENT(huvm_fault_fatal,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u32 fault, u32 access),
	TP_ARGS(gpu, pid, va, fault, access),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u32, fault)
		__field(u32, access)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->fault = fault;
		__entry->access = access;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx fault=%u access=%u", __entry->gpu, __entry->pid,
		  __entry->va, __entry->fault, __entry->access)
);

/* A CPU fault mapped pages of the host. */
TRACE_EVENT(huvm_cpu_fault,
	TP_PROTO(u32 pid, u64 va, u64 bytes, bool write),
	TP_ARGS(pid, va, bytes, write),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(bool, write)
		__field(u64, va)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->write = write;
		__entry->va = va;
		__entry->bytes = bytes;
	),
	TP_printk("pid=%u va=0x%llx bytes=%llu write=%d", __entry->pid, __entry->va, __entry->bytes,
		  __entry->write)
);

/* Pages of a block begin to move; va is that of the first, bytes counts those that move. */
TRACE_EVENT(huvm_migrate,
	TP_PROTO(u32 pid, u64 va, u64 bytes, s32 src, s32 dst, u32 cause),
	TP_ARGS(pid, va, bytes, src, dst, cause),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(s32, src)
		__field(s32, dst)
		__field(u32, cause)
		__field(u64, va)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->src = src;
		__entry->dst = dst;
		__entry->cause = cause;
		__entry->va = va;
		__entry->bytes = bytes;
	),
	TP_printk("pid=%u va=0x%llx bytes=%llu src=%d dst=%d cause=%s", __entry->pid, __entry->va,
		  __entry->bytes, __entry->src, __entry->dst,
		  __print_symbolic(__entry->cause, HUVM_TRACE_CAUSES))
);

/* A chunk is emptied to make room. */
TRACE_EVENT(huvm_evict,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u64 bytes, u32 chunk, bool in_fault),
	TP_ARGS(gpu, pid, va, bytes, chunk, in_fault),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u64, bytes)
		__field(u32, chunk)
		__field(bool, in_fault)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->bytes = bytes;
		__entry->chunk = chunk;
		__entry->in_fault = in_fault;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx bytes=%llu chunk=%u in_fault=%d", __entry->gpu,
		  __entry->pid, __entry->va, __entry->bytes, __entry->chunk, __entry->in_fault)
);

/* A GPU was lost, or its driver was unbound: why; named is a channel or a slot. */
TRACE_EVENT(huvm_gpu_lost,
	TP_PROTO(s32 gpu, u32 why, u32 named),
	TP_ARGS(gpu, why, named),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, why)
		__field(u32, named)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->why = why;
		__entry->named = named;
	),
	TP_printk("gpu=%d why=%s named=%u", __entry->gpu, __print_symbolic(__entry->why, HUVM_TRACE_LOST),
		  __entry->named)
);

/* The result of a launch was taken. */
TRACE_EVENT(huvm_launch_end,
	TP_PROTO(s32 gpu, u32 pid, u64 launch, u32 status),
	TP_ARGS(gpu, pid, launch, status),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, launch)
		__field(u32, status)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->launch = launch;
		__entry->status = status;
	),
	TP_printk("gpu=%d pid=%u launch=%llu status=%s", __entry->gpu, __entry->pid,
		  __entry->launch, __print_symbolic(__entry->status, HUVM_TRACE_STATUS))
);

/* A chunk that a GPU lent was taken back; ns is the time in the driver. */
TRACE_EVENT(huvm_reclaim,
	TP_PROTO(s32 gpu, bool copied, u64 ns),
	TP_ARGS(gpu, copied, ns),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(bool, copied)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->copied = copied;
		__entry->ns = ns;
	),
	TP_printk("gpu=%d copied=%d ns=%llu", __entry->gpu, __entry->copied, __entry->ns)
);

/* A GPU lends a chunk to another, for a block of the process. */
TRACE_EVENT(huvm_lend,
	TP_PROTO(s32 gpu, u32 pid, u64 va, s32 borrower, u32 chunk),
	TP_ARGS(gpu, pid, va, borrower, chunk),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(s32, borrower)
		__field(u32, chunk)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->borrower = borrower;
		__entry->chunk = chunk;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx borrower=%d chunk=%u", __entry->gpu, __entry->pid, __entry->va,
		  __entry->borrower, __entry->chunk)
);

/* The host has what a GPU keeps for a block of the process; bytes were copied, which took ns. */
TRACE_EVENT(huvm_write_back,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u64 bytes, u64 ns),
	TP_ARGS(gpu, pid, va, bytes, ns),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u64, bytes)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->bytes = bytes;
		__entry->ns = ns;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx bytes=%llu ns=%llu", __entry->gpu, __entry->pid, __entry->va,
		  __entry->bytes, __entry->ns)
);

/* What becomes of a block fetched ahead of a stream. */
TRACE_EVENT(huvm_prefetch,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u32 step),
	TP_ARGS(gpu, pid, va, step),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u32, step)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->step = step;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx step=%s", __entry->gpu, __entry->pid, __entry->va,
		  __print_symbolic(__entry->step, HUVM_TRACE_STEPS))
);

/* Memory of a GPU failed and its chunk is out of service; lost counts the pages that were there alone, of the block at va. */
TRACE_EVENT(huvm_retired,
	TP_PROTO(s32 gpu, u32 pid, u64 va, u64 page, u64 lost),
	TP_ARGS(gpu, pid, va, page, lost),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u64, va)
		__field(u64, page)
		__field(u64, lost)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->va = va;
		__entry->page = page;
		__entry->lost = lost;
	),
	TP_printk("gpu=%d pid=%u va=0x%llx page=0x%llx lost=%llu", __entry->gpu, __entry->pid, __entry->va,
		  __entry->page, __entry->lost)
);

/* A channel was given up: what it copied, and why. */
TRACE_EVENT(huvm_channel_lost,
	TP_PROTO(s32 gpu, u32 copies, u32 why),
	TP_ARGS(gpu, copies, why),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, copies)
		__field(u32, why)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->copies = copies;
		__entry->why = why;
	),
	TP_printk("gpu=%d copies=%s why=%s", __entry->gpu, __print_symbolic(__entry->copies, HUVM_TRACE_COPIES),
		  __print_symbolic(__entry->why, HUVM_TRACE_ENDS))
);

/* A link of a GPU to a peer went down, or came up again. */
TRACE_EVENT(huvm_link,
	TP_PROTO(s32 gpu, s32 peer, bool up),
	TP_ARGS(gpu, peer, up),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(s32, peer)
		__field(bool, up)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->peer = peer;
		__entry->up = up;
	),
	TP_printk("gpu=%d peer=%d up=%d", __entry->gpu, __entry->peer, __entry->up)
);

/* Chunks that a GPU lent are out of service: the borrower is lost, and may still write them. */
TRACE_EVENT(huvm_forfeit,
	TP_PROTO(s32 gpu, s32 borrower, u64 chunks),
	TP_ARGS(gpu, borrower, chunks),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(s32, borrower)
		__field(u64, chunks)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->borrower = borrower;
		__entry->chunks = chunks;
	),
	TP_printk("gpu=%d borrower=%d chunks=%llu", __entry->gpu, __entry->borrower, __entry->chunks)
);

/*
 * A submission to a copy engine is over: whose, the engine's id as in fault packets, what it copied, when it was handed over
 * (CLOCK_MONOTONIC) and how long that was before it was seen to be over, as in enum huvm_latency_kind.
 */
TRACE_EVENT(huvm_copy,
	TP_PROTO(s32 gpu, u32 engine, u32 copies, u64 began, u64 ns),
	TP_ARGS(gpu, engine, copies, began, ns),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, engine)
		__field(u32, copies)
		__field(u64, began)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->engine = engine;
		__entry->copies = copies;
		__entry->began = began;
		__entry->ns = ns;
	),
	TP_printk("gpu=%d engine=%u copies=%s began=%llu ns=%llu", __entry->gpu, __entry->engine,
		  __print_symbolic(__entry->copies, HUVM_TRACE_COPIES), __entry->began, __entry->ns)
);

/* A counter of uapi/huvm.h grows by n: replays, flushes, bytes zeroed and what else is counted. */
TRACE_EVENT(huvm_count,
	TP_PROTO(s32 gpu, u32 pid, u32 counter, u64 n),
	TP_ARGS(gpu, pid, counter, n),
	TP_STRUCT__entry(
		__field(s32, gpu)
		__field(u32, pid)
		__field(u32, counter)
		__field(u64, n)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->counter = counter;
		__entry->n = n;
	),
	TP_printk("gpu=%d pid=%u counter=%s n=%llu", __entry->gpu, __entry->pid,
		  __print_symbolic(__entry->counter, HUVM_TRACE_COUNTERS), __entry->n)
);

#endif /* _HUVM_TRACE_H */

/* Kbuild has this folder on the include path. */
#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
