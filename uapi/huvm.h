/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * huvm: user interface of /dev/huvm.
 *
 * This header is the one definition; the Rust sides are generated from it.
 *
 * Rules that hold for every call:
 *  - Each argument struct starts with `size` (bytes, as the caller compiled it) and `flags`.
 *    A smaller size than the first version's is -EINVAL. A larger one is accepted if all bytes that
 *    the driver does not know are zero, else -E2BIG; one above 4096 is -E2BIG, whatever is in it. Fields the caller's version
 *    lacks read as 0. A call is told by its type and number; the size that _IOWR puts beside them is not looked at, nor is the
 *    direction.
 *  - Unless a call says otherwise, unknown flags, non-zero reserved fields and unknown enum values are -EINVAL.
 *  - A struct, or array of arguments, that cannot be read is -EFAULT, and nothing has happened. Calls that answer write the
 *    struct back at their end. If that fails it is -EFAULT, too, but the call has done its work: MIGRATE has moved the pages, ABORT
 *    has ended the launch (its result stays to be taken); what LAUNCH started is aborted. An array of results may be written in
 *    part.
 *  - Unless a call says otherwise it is for the process that opened the file: from any other mm
 *    (a forked child, a passed descriptor) it is -EPERM. Calls marked [any] may come from anybody who has the descriptor.
 *  - A GPU index that does not exist is -ENODEV (HUVM_IOC_ADVISE differs). A GPU that exists but was lost is -EIO from calls that
 *    use it: LINK_INFO, GPU_REGISTER, MIGRATE to it, LAUNCH, and GPU_UNREGISTER while a page is on it alone. The others take it.
 *  - WAIT and ABORT wait until any signal (-EINTR) or the caller's limit (-ETIMEDOUT); a read of events until one whose
 *    handler is not to restart calls (SA_RESTART). MIGRATE, ADVISE and GPU_UNREGISTER stop early only when the process is
 *    killed; what they wait for has bounds of the driver's.
 *
 * Memory: mmap(NULL, len, prot, MAP_SHARED, fd, 0) makes a managed range. len is a multiple of 4 KiB;
 * offset must be 0; MAP_PRIVATE is -EINVAL, and so is a mapping through a file opened read-only, which the kernel
 * makes private; MAP_FIXED is honoured. The range is zero at first touch, CPU or GPU. munmap of any part is fine.
 * mremap that moves or grows is refused (-EFAULT or -EINVAL). A forked child does not inherit ranges (touching
 * them there is SIGSEGV). read(2), write(2) on managed buffers work;
 * O_DIRECT, process_vm_readv and other callers that pin pages get -EFAULT; ptrace and /proc/pid/mem work.
 * A CPU access that cannot be served (the only copy on a lost GPU or in GPU memory that failed, no memory) raises SIGBUS.
 */
#ifndef _UAPI_HUVM_H
#define _UAPI_HUVM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HUVM_DEVICE_PATH	"/dev/huvm"

/* Changes when an existing call changes meaning; additions raise only the minor. */
#define HUVM_ABI_MAJOR		1
#define HUVM_ABI_MINOR		3

#define HUVM_MAX_GPUS		16
#define HUVM_NAME_LEN		32
#define HUVM_DOC_LEN		128

/* A place for pages: a GPU index 0..15, or the host. */
#define HUVM_PLACE_HOST		0xffffffffu

/* Bits of huvm_version.caps. */
enum huvm_cap {
	HUVM_CAP_WORKLOAD	= 1 << 0,	/* the driver has launch, wait, abort; of a GPU without the engine LAUNCH is -EOPNOTSUPP */
	HUVM_CAP_EVENTS		= 1 << 1,	/* event stream by read and poll */
	HUVM_CAP_TEST		= 1 << 2,	/* calls of huvm_test.h (module loaded with test=1) */
	HUVM_CAP_PEER		= 1 << 3,	/* the driver can copy between GPUs; LINK_INFO says which have a link */
};

/**
 * struct huvm_version - HUVM_IOC_VERSION [any]
 * @size: in, sizeof(struct)
 * @flags: in, 0
 * @abi_major: out, HUVM_ABI_MAJOR of the driver
 * @abi_minor: out
 * @caps: out, HUVM_CAP_*
 * @gpu_count: out, highest GPU index in use plus one
 * @nr_knobs: out, for HUVM_IOC_KNOB
 * @nr_counters: out, for HUVM_IOC_COUNTERS
 * @chunk_bytes: out, 2 MiB
 * @page_bytes: out, 4 KiB
 * @driver: out, driver version, NUL-terminated
 */
struct huvm_version {
	__u32 size;
	__u32 flags;
	__u32 abi_major;
	__u32 abi_minor;
	__u64 caps;
	__u32 gpu_count;
	__u32 nr_knobs;
	__u32 nr_counters;
	__u32 page_bytes;
	__u64 chunk_bytes;
	char driver[HUVM_NAME_LEN];
};

enum huvm_gpu_state {
	HUVM_GPU_OK		= 1,
	HUVM_GPU_LOST		= 2,	/* removed or dead; calls that use it are -EIO */
};

/**
 * struct huvm_gpu_info - HUVM_IOC_GPU_INFO [any]
 * @gpu: in, index
 * @state: out, enum huvm_gpu_state
 * @pci: out, "0000:00:02.0"
 * @uuid: out, 16 bytes as four words
 * @chip_id: out, 0x170 for GA100
 * @device_flags: out, IDENT.FLAGS of Documentation/device.md (timing, phantom, realism), 0 without extension
 * @vram_bytes: out, all of it
 * @chunk_count: out, chunks of 2 MiB that the driver manages
 * @ce_count: out, copy engines
 * @link_count: out, for HUVM_IOC_LINK_INFO
 * @host_h2d_mbps, @host_d2h_mbps: out, host link, 10^6 bytes per second; 0 unknown
 * @host_latency_ns: out
 * @profile_id: out, identifies the timing profile
 * @registered_clients: out, spaces that registered it
 *
 * Errors: ENODEV.
 */
struct huvm_gpu_info {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 state;
	char pci[HUVM_NAME_LEN];
	__u32 uuid[4];
	__u32 chip_id;
	__u32 device_flags;
	__u64 vram_bytes;
	__u32 chunk_count;
	__u32 ce_count;
	__u32 link_count;
	__u32 host_h2d_mbps;
	__u32 host_d2h_mbps;
	__u32 host_latency_ns;
	__u32 profile_id;
	__u32 registered_clients;
};

enum huvm_link_type {
	HUVM_LINK_PCIE		= 1,
	HUVM_LINK_NVLINK	= 2,
};

/**
 * struct huvm_link_info - HUVM_IOC_LINK_INFO [any]: one outgoing link of a GPU
 * @gpu: in
 * @index: in, 0 .. link_count - 1; beyond is -ENOENT
 * @peer: out, GPU index
 * @type: out, enum huvm_link_type
 * @mbps: out, per direction
 * @latency_ns: out
 * @up: out, 1 or 0
 * @reserved: 0
 *
 * Errors: ENODEV, ENOENT, EIO (the GPU was lost).
 */
struct huvm_link_info {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 index;
	__u32 peer;
	__u32 type;
	__u32 mbps;
	__u32 latency_ns;
	__u32 up;
	__u32 reserved;
};

/**
 * struct huvm_mem_info - HUVM_IOC_MEM_INFO [any]: chunks of a GPU by state
 * @gpu: in
 * @retired: in 0; out, chunks out of service until the GPU is bound again, because their memory failed (ECC) or because they are
 *	forfeited (struct huvm_gpu_health); 0 from a driver of minor 1
 * @free: out, chunks that hold nothing. With those below and @retired they add up to chunk_count
 * @used: out, chunks of processes
 * @evicting: out, chunks that are being emptied
 * @lent_only: out, chunks lent, with the only copy of what is in them
 * @lent_removable: out, chunks lent, where the host has a copy too
 * @pinned: out, chunks in the driver's hands: its own for good, others during an operation
 * @unusable: out, chunks that are not to be used
 *
 * Errors: ENODEV.
 */
struct huvm_mem_info {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 retired;
	__u64 free;
	__u64 used;
	__u64 evicting;
	__u64 lent_only;
	__u64 lent_removable;
	__u64 pinned;
	__u64 unusable;
};

/**
 * struct huvm_lend_info - HUVM_IOC_LEND_INFO [any]: what a GPU lends, and to whom
 * @gpu: in, the lending GPU
 * @lends: out, 1 if it lends (its knob harvest_lend), else 0
 * @limit_chunks: out, chunks that it lends at most (lend_limit_percent, lend_limit_mib): a part of those that can be used, without
 *	@unusable and @retired of struct huvm_mem_info
 * @keep_chunks: out, free chunks that it keeps for itself (lend_reserve_chunks, less for a small memory)
 * @lent_chunks: out, chunks lent now, by index of the GPU that borrowed them. One that is being taken back still counts.
 *
 * Errors: ENODEV. Since minor 1.
 */
struct huvm_lend_info {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 lends;
	__u64 limit_chunks;
	__u64 keep_chunks;
	__u64 lent_chunks[HUVM_MAX_GPUS];
};

/**
 * struct huvm_gpu_health - HUVM_IOC_GPU_HEALTH [any]: what of a GPU is out of service, and why
 * @gpu: in
 * @lost: out, enum huvm_lost: why all of it is; 0 while it is not
 * @lost_named: out, what that reason names, as in HUVM_EVENT_GPU_LOST
 * @given_up: out, bit (1 << HUVM_LATENCY_*), of H2D to LOCAL, for each kind of copy whose channel was given up; 0 of a GPU that is lost
 * @forfeited: out, chunks that it lent to GPUs that may still write them though they are lost; they count as retired, too
 * @reserved: 0
 *
 * A link that is down is in struct huvm_link_info, memory that failed in struct huvm_mem_info. All of it ends when the GPU is bound
 * again. Errors: ENODEV. Since minor 3.
 */
struct huvm_gpu_health {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 lost;
	__u32 lost_named;
	__u32 given_up;
	__u32 forfeited;
	__u32 reserved;
};

/**
 * struct huvm_gpu_register - HUVM_IOC_GPU_REGISTER, HUVM_IOC_GPU_UNREGISTER
 * @gpu: in
 * @reserved: 0
 *
 * A GPU must be registered before it is used with this space. Registering twice is -EEXIST; unregistering one that is
 * not registered is -ENOENT. Unregistering aborts this space's launches on it and brings its pages to the host; until it has, moves
 * to the GPU are -EIO, launches on it -ENODEV, registering is -EEXIST, and another thread's unregistering -EBUSY or -ENOENT. Who
 * waits for an aborted launch is told so; once the GPU is unregistered, ids of launches that nobody waited for are gone (-ENOENT).
 * After -ENOMEM, -EIO and -EINTR the GPU stays registered; the launches are aborted all the same.
 * Errors: ENODEV (no such GPU, or it leaves), EIO, ENOMEM, EEXIST, ENOENT, EBUSY, EINTR (killed while pages come to the host), ENOSPC (no
 * subcontext left; without CAP_SYS_ADMIN when the file was opened, also for a process that has as many of a GPU's 64 as are free, and for
 * a user that has three times as many).
 */
struct huvm_gpu_register {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 reserved;
};

/**
 * struct huvm_migrate - HUVM_IOC_MIGRATE: move pages now
 * @va, @length: in, multiples of 4 KiB; -EINVAL if they are not, for a length of 0, and beyond what GPUs address (2^49). All of it
 *	must lie in managed ranges: what is outside, or a hole, is -ENOMEM
 * @dst: in, GPU index or HUVM_PLACE_HOST
 * @reserved: 0
 * @moved_bytes: out, also when the call fails part-way
 *
 * Pages never touched are made, zero, at the destination. Errors: EINVAL, ENODEV, EIO (the GPU, a copy or a page's only copy is
 * lost), ENOENT (GPU not registered), ENOMEM, EINTR (killed).
 */
struct huvm_migrate {
	__u32 size;
	__u32 flags;
	__u64 va;
	__u64 length;
	__u32 dst;
	__u32 reserved;
	__u64 moved_bytes;
};

enum huvm_advice {
	HUVM_ADVISE_PREFERRED		= 1,	/* @place is where pages should live */
	HUVM_ADVISE_UNSET_PREFERRED	= 2,
	HUVM_ADVISE_ACCESSED_BY		= 3,	/* @place keeps a mapping, if it can, wherever pages are */
	HUVM_ADVISE_UNSET_ACCESSED_BY	= 4,
	HUVM_ADVISE_READ_MOSTLY		= 5,	/* reads duplicate pages; a write collapses them */
	HUVM_ADVISE_UNSET_READ_MOSTLY	= 6,
	HUVM_ADVISE_DISCARD		= 7,	/* contents may be dropped; they read as zero until written */
};

/**
 * struct huvm_advise - HUVM_IOC_ADVISE
 * @va, @length: in, as for migrate. Advice is about exactly these pages, and is forgotten when they are unmapped
 * @advice: in, enum huvm_advice
 * @place: in, GPU index or HUVM_PLACE_HOST; 0 where the advice takes none
 *
 * Advice moves nothing; it counts from the next access on (but READ_MOSTLY that is unset, and DISCARD, drop copies at once). PREFERRED, and
 * the UNSETs of PREFERRED and ACCESSED_BY, end what GPUs have mapped elsewhere, so that there is a next access.
 *
 * What is advised is remembered for each 2 MiB, at the cost of the memory cgroup of who opened the file. Errors: EINVAL, ENODEV (an
 * index of 16 or more), ENOENT (a GPU that is not registered, be it there or not), ENOMEM (holes, or no memory to remember it), EINTR
 * (killed); after the last two a first part of the range has it.
 */
struct huvm_advise {
	__u32 size;
	__u32 flags;
	__u64 va;
	__u64 length;
	__u32 advice;
	__u32 place;
};

enum huvm_scope {
	HUVM_SCOPE_GLOBAL	= 1,	/* default of all; set needs CAP_SYS_ADMIN */
	HUVM_SCOPE_GPU		= 2,	/* set needs CAP_SYS_ADMIN */
	HUVM_SCOPE_SPACE	= 3,	/* this open file; for the process that opened it alone */
	HUVM_SCOPE_PROCESS	= 4,	/* every open file of a process; for that process itself, or CAP_SYS_ADMIN. Since minor 1 */
};

/**
 * struct huvm_knob - HUVM_IOC_KNOB [any]: describe a policy knob
 * @index: in, 0 .. nr_knobs - 1; beyond is -ENOENT
 * @scopes: in 0; out, bit (1 << HUVM_SCOPE_*) for each scope that can have a value of its own; 0 from a driver of minor 0
 * @name, @unit, @doc: out, NUL-terminated
 * @min, @max: out
 * @def: out, the value under the default preset (huvm)
 * @value_names: out, comma-separated names of the values from @min on for enum knobs, else empty
 *
 * Errors: ENOENT.
 */
struct huvm_knob {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 scopes;
	char name[HUVM_NAME_LEN];
	char unit[HUVM_NAME_LEN];
	char doc[HUVM_DOC_LEN];
	char value_names[HUVM_DOC_LEN];
	__u64 min;
	__u64 max;
	__u64 def;
};

/**
 * struct huvm_policy - HUVM_IOC_POLICY_GET [any for global and gpu], HUVM_IOC_POLICY_SET
 * @scope: in, enum huvm_scope
 * @gpu: in, for HUVM_SCOPE_GPU; for HUVM_SCOPE_PROCESS the process id, in the initial namespace; else 0
 * @knob: in, index
 * @origin: out, enum huvm_scope that the value comes from; HUVM_SCOPE_SPACE also for a process
 * @value: in for set, out for get (the value in force in that scope)
 *
 * A process with several open files: set is of all, get of the first.
 * Get of a file or process says its own value, else the global one. A GPU's value is not in it, though it counts before the global one
 * for what the file does on that GPU. Knobs of a GPU as a whole act by the GPU's value, whatever a preset put into the file; get of a
 * file or process says the global one of those.
 * HUVM_POLICY_RESET, a flag of set: the scope has no value of its own any more; globally, the default preset's (@value: 0).
 *
 * Errors: ENOENT (no such knob), ERANGE (value outside min..max), EPERM, ENODEV, ESRCH (no open file of that process);
 * EOPNOTSUPP for set of a knob of a GPU as a whole, such as harvest_lend, in the scope of a file or process; ENOMEM for set,
 * after which some of a process's files may have the value.
 */
#define HUVM_POLICY_RESET	(1u << 0)	/* flag of HUVM_IOC_POLICY_SET and HUVM_IOC_PRESET_SET. Since minor 1 */
struct huvm_policy {
	__u32 size;
	__u32 flags;
	__u32 scope;
	__u32 gpu;
	__u32 knob;
	__u32 origin;
	__u64 value;
};

/**
 * struct huvm_preset - HUVM_IOC_PRESET_SET: all knobs at once; HUVM_IOC_PRESET_GET [any for global, gpu and the list]: what is in force
 * @scope, @gpu: in, as in struct huvm_policy
 * @index: in for get with HUVM_PRESET_LIST: lists preset number index, -ENOENT beyond the last
 * @reserved: 0
 * @name: in for set, out for get ("custom" once a knob was changed after)
 * @doc: out for get
 *
 * HUVM_POLICY_RESET, a flag of set: no knob has a value of its own in the scope; @name is empty.
 * In a file or process, knobs of a GPU as a whole keep the GPU's values; get names the preset all the same. As in struct huvm_policy it
 * is that of the values set there, over the global ones.
 * Errors of set: ENOENT (no such preset), EPERM, ENODEV, ESRCH, ENOMEM (as in struct huvm_policy). Of get: the same, ENOENT for the list.
 */
#define HUVM_PRESET_LIST	(1u << 0)	/* flag of HUVM_IOC_PRESET_GET */
struct huvm_preset {
	__u32 size;
	__u32 flags;
	__u32 scope;
	__u32 gpu;
	__u32 index;
	__u32 reserved;
	char name[HUVM_NAME_LEN];
	char doc[HUVM_DOC_LEN];
};

/* Counters: index into the array of HUVM_IOC_COUNTERS. Bytes are bytes, times nanoseconds. Append only. */
enum huvm_counter {
	HUVM_CNT_FAULT_BATCHES = 0,	/* batches of fault packets served; of a file: runs of its packets in them */
	HUVM_CNT_FAULTS,		/* raw packets fetched */
	HUVM_CNT_FAULT_DUPLICATES,	/* packets for a page already in the batch, or dropped before a replay */
	HUVM_CNT_FAULTS_SERVED,		/* distinct pages made accessible by a fault */
	HUVM_CNT_FAULTS_STALE,		/* found mapped already */
	HUVM_CNT_FAULTS_FATAL,		/* accesses that were cancelled, which ends their launch */
	HUVM_CNT_REPLAYS,		/* replays of accesses that faulted */
	HUVM_CNT_FLUSHES,		/* times that packets in the fault ring were dropped before a replay, which brings them again */
	HUVM_CNT_OVERFLOWS,		/* times that a fault ring overflowed, or had been told a damaged GET */
	HUVM_CNT_CPU_FAULTS,		/* faults of CPUs that mapped something */
	HUVM_CNT_CPU_FAULTS_2M,		/* of these, with one entry of 2 MiB */
	HUVM_CNT_BYTES_H2D,		/* copied from the host to GPUs */
	HUVM_CNT_BYTES_D2H,		/* copied from GPUs to the host */
	HUVM_CNT_BYTES_P2P,		/* copied between GPUs: of a GPU, what it fetched, and what it evicted to a neighbour's memory */
	HUVM_CNT_BYTES_ZEROED,		/* filled with zeroes for a first touch */
	HUVM_CNT_PAGES_PREFETCHED,	/* pages brought beside those of their block that faulted */
	HUVM_CNT_EVICTIONS,		/* chunks emptied to make room, also ahead of demand */
	HUVM_CNT_EVICTION_BYTES,	/* copied out of them */
	HUVM_CNT_EVICTIONS_IN_FAULT,	/* on the critical path */
	HUVM_CNT_CHUNKS_ALLOCATED,	/* chunks put to use for a block */
	HUVM_CNT_CHUNKS_FREED,		/* chunks given back as their block had no page in them any more; not those evicted */
	HUVM_CNT_HOST_2M,		/* host pieces allocated, by size: this and the next two */
	HUVM_CNT_HOST_64K,
	HUVM_CNT_HOST_4K,
	HUVM_CNT_HOST_FALLBACKS,	/* a larger size was wanted and not to be had */
	HUVM_CNT_TLB_INVALIDATES,	/* times that a GPU was told to forget translations that were taken away */
	HUVM_CNT_MAP_2M,		/* blocks mapped on a GPU by one entry */
	HUVM_CNT_MAP_64K,		/* pieces of 64 KiB mapped on a GPU by one entry */
	HUVM_CNT_MAP_4K,		/* pages mapped on a GPU one by one */
	HUVM_CNT_SPLITS,		/* entries of 2 MiB that gave way to smaller ones, as pages were mapped otherwise */
	HUVM_CNT_MERGES,		/* blocks mapped by entries of 64 KiB, and then by one */
	HUVM_CNT_RETRIES,		/* a block let go to make room, and started again */
	HUVM_CNT_THRASH_PINS,		/* pages pinned, as they went to and fro */
	HUVM_CNT_THRASH_THROTTLES,	/* accesses that were made to wait for the same reason */
	HUVM_CNT_LAUNCHES,		/* launches started */
	HUVM_CNT_EVENTS_DROPPED,	/* of a file: by its own stream, whosever events they were */
	HUVM_CNT_SERVICE_NS,		/* time in the fault service thread */
	HUVM_CNT_EVICT_NS,		/* time of those who needed a chunk and evicted for it; not that of evictions ahead of demand */
	HUVM_CNT_WAIT_NS,		/* of HUVM_CNT_SERVICE_NS, waiting for copies */
	HUVM_CNT_NON_REPLAYABLE,	/* packets that no replay is for: faults of copy engines, cancelled accesses reported again */
	HUVM_CNT_MAPPED_REMOTE_PAGES,	/* pages of the host mapped on a GPU where they are */
	HUVM_CNT_DISCARDED_PAGES,	/* pages given up by HUVM_ADVISE_DISCARD */
	HUVM_CNT_CE_ERRORS,		/* of HUVM_CNT_NON_REPLAYABLE, faults of copy engines */
	HUVM_CNT_SPARE_EVICTIONS,	/* evictions to a neighbour's memory */
	HUVM_CNT_SPARE_HIT_BYTES,	/* bytes fetched from a neighbour's memory */
	HUVM_CNT_CHUNKS_LENT,		/* times that a chunk of this GPU was lent */
	HUVM_CNT_WRITE_BACKS,		/* lent chunks copied to the host in the background */
	HUVM_CNT_RECLAIMS,		/* lent chunks taken back */
	HUVM_CNT_RECLAIMS_COPIED,	/* of these, after a copy to the host */
	HUVM_CNT_RECLAIMS_IN_FAULT,	/* of all, with a faulting access waiting */
	HUVM_CNT_RECLAIM_NS,		/* time in reclaims */
	HUVM_CNT_PRE_EVICTIONS,		/* evictions ahead of demand */
	HUVM_CNT_PREFETCH_BLOCKS,	/* blocks fetched ahead of a stream */
	HUVM_CNT_PREFETCH_LATE,	/* blocks advised that a fault asked for before they were there */
	HUVM_CNT_PREFETCH_ABANDONED,	/* blocks advised and given up */
	HUVM_CNT_POOL_TAKEN,		/* 2 MiB host pieces that evictions took from the pool */
	HUVM_CNT_POOL_EMPTY,		/* one was wanted and the pool had none */
	HUVM_CNT_POOL_REPLACED,	/* of those taken, in place of smaller pieces */
	HUVM_CNT_POOL_REFILLS,		/* pieces put into the pool */
	HUVM_CNT_POOL_FAILURES,	/* refills that found no memory or no mapping */
	HUVM_CNT_PREFETCH_USEFUL,	/* blocks fetched ahead that were there when the stream went over them */
	HUVM_CNT_PREFETCH_WASTED,	/* blocks fetched ahead that left the GPU before */
	HUVM_CNT_SPARE_FILLS,		/* blocks fetched from the host into this GPU's memory for a neighbour */
	HUVM_CNT_SPARE_REPLACED,	/* chunks this GPU lent that the host had too, and that made way for another block */
	HUVM_CNT_REFAULTS,		/* chunks put to use for a block that had been evicted from here not long before */
	HUVM_CNT_EVICTIONS_RECENT,	/* chunks chosen for eviction because they were recent (knob evict_order) */
	HUVM_CNT_PRE_EVICT_HOLDS,	/* times that pre-eviction was held off, as what it had evicted came back (knob pre_evict_hold) */
	HUVM_CNT_CHUNKS_RETIRED,	/* chunks of this GPU taken out of service, as their memory failed (ECC), or were forfeited */
	HUVM_CNT_ECC_LOST_PAGES,	/* pages whose only copy was in memory of this GPU that failed */
	HUVM_CNT_WRITE_BACKS_LATER,	/* chunks this GPU lent that were left for later, as a stream comes to them (knob write_back_skip_blocks) */
	HUVM_CNT_EXPOSED_NS,		/* time in which a GPU fault was served and nothing was on its way into the GPU's memory */
	HUVM_CNT_EVICTIONS_RESCUED,	/* evictions whose channel was given up, and that went to the host another way */
	HUVM_CNT_WRITE_BACKS_OVERTAKEN,	/* chunks this GPU lent that were fetched back while they were written back */
	HUVM_CNT_PACKETS_GIVEN_UP,	/* fault packets that never became valid, and were passed */
	HUVM_CNT_BLIND_REPLAYS,		/* replays without a fault, in case one was lost on its way; not among HUVM_CNT_REPLAYS */
	HUVM_CNT_INTERRUPT_STORMS,	/* times that a message interrupt was off for a while, as it came without end */
	HUVM_CNT_VICTIMS_PASSED_OVER,	/* chunks that were next to be evicted, and stayed, as their owner had no more than its share */
	HUVM_CNT_EVICTIONS_CLEAN,	/* evictions without a copy, as all was elsewhere too (knob keep_host_copy, advice, neighbours) */
	HUVM_CNT_STANDSTILLS,		/* times that a client's accesses took each other's chunks and got no further, and had to take turns from then on */
	HUVM_CNT_COUNT
};

/**
 * struct huvm_counters - HUVM_IOC_COUNTERS [any for global and gpu]
 * @scope, @gpu: in, as in struct huvm_policy; of a process: the sum over its open files
 * @nr: in, room in @values, in counters; out, how many were written (at most nr_counters)
 * @reserved: 0
 * @values: in, pointer to __u64[nr], which is written
 * @time_ns: out, CLOCK_MONOTONIC at the reading
 *
 * Of a file or a process some are always 0, which are counted for GPUs and for all alone: FAULT_DUPLICATES, REPLAYS, FLUSHES, SERVICE_NS, WAIT_NS,
 * EXPOSED_NS, STANDSTILLS, TLB_INVALIDATES, MAP_*, SPLITS, MERGES, MAPPED_REMOTE_PAGES, CHUNKS_FREED, PRE_EVICTIONS, PRE_EVICT_HOLDS,
 * VICTIMS_PASSED_OVER, WRITE_BACKS, ECC_LOST_PAGES, and what is a GPU's by its name.
 *
 * Errors: EINVAL (no such scope), ENODEV, EPERM (a file, or a process without CAP_SYS_ADMIN, that is not the caller's), ESRCH (no open
 * file of that process), ENOMEM.
 */
struct huvm_counters {
	__u32 size;
	__u32 flags;
	__u32 scope;
	__u32 gpu;
	__u32 nr;
	__u32 reserved;
	__u64 values;
	__u64 time_ns;
};

/*
 * What the histograms of HUVM_IOC_LATENCY measure. Append only.
 *
 * A copy is one submission to a copy engine: up to 32 runs of pages of one block of 2 MiB. It lasts from the doorbell until
 * the driver sees that it is over, at the interrupt or when somebody asks, whichever is first: with the time it waits behind
 * earlier ones and for copies that it must follow. Who wants more than 64 of a channel at once has some not counted.
 */
enum huvm_latency_kind {
	HUVM_LATENCY_H2D = 0,		/* copies host to this GPU */
	HUVM_LATENCY_D2H,		/* copies this GPU to host: evictions, moves, and what it lent (see WRITE_BACK) */
	HUVM_LATENCY_PEER_OUT,		/* copies this GPU to another: evictions to spare memory, moves */
	HUVM_LATENCY_PEER_IN,		/* copies another GPU to this one: fetched from spare memory */
	HUVM_LATENCY_LOCAL,		/* fills within this GPU: zeroes for a first touch */
	HUVM_LATENCY_WRITE_BACK,	/* a chunk that this GPU lent: from the start of its copy until the host is known to have it */
	HUVM_LATENCY_RECLAIM,		/* a chunk that this GPU lent, taken back: time in the driver, as in HUVM_EVENT_RECLAIM */
	HUVM_LATENCY_FAULT,		/* faults of one block: from the batch being fetched until its pages are mapped */
	HUVM_LATENCY_COUNT
};
#define HUVM_LATENCY_BUCKETS	32

/**
 * struct huvm_latency - HUVM_IOC_LATENCY [any]: how long things took, since the module was loaded or the GPU came
 * @scope: in, HUVM_SCOPE_GLOBAL (all GPUs, also those that left) or HUVM_SCOPE_GPU
 * @gpu: in, for HUVM_SCOPE_GPU, else 0
 * @kind: in, enum huvm_latency_kind; another is -ENOENT
 * @reserved: 0
 * @count: out, how many: the sum of @buckets
 * @sum_ns, @max_ns: out, all together, the longest
 * @time_ns: out, CLOCK_MONOTONIC at the reading
 * @buckets: out, bucket i counts 2^i .. 2^(i+1) - 1 ns; the first also 0, the last all beyond
 *
 * Errors: ENODEV, ENOENT, EINVAL (another scope). Since minor 1.
 */
struct huvm_latency {
	__u32 size;
	__u32 flags;
	__u32 scope;
	__u32 gpu;
	__u32 kind;
	__u32 reserved;
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 time_ns;
	__u64 buckets[HUVM_LATENCY_BUCKETS];
};

enum huvm_event_type {
	HUVM_EVENT_FAULT	= 1,	/* arg0 = access type, arg1 = faults of this page in the batch */
	HUVM_EVENT_MIGRATE	= 2,	/* its copy begins: arg0 = source place, or HUVM_PLACE_NONE for zeroes; arg1 = destination place. Not of a WRITE_BACK */
	HUVM_EVENT_EVICT	= 3,	/* arg0 = chunk, arg1 = 1 if on the path of a fault */
	HUVM_EVENT_REPLAY	= 4,	/* arg0 = faults of the batch, arg1 = distinct */
	HUVM_EVENT_FATAL	= 5,	/* arg0 = fault type, arg1 = access type */
	HUVM_EVENT_CPU_FAULT	= 6,	/* arg0 = 1 for a write */
	HUVM_EVENT_GPU_LOST	= 7,	/* arg0 = enum huvm_lost, arg1 = what that names, else 0; both 0 from a driver of minor 2 */
	HUVM_EVENT_LAUNCH_END	= 8,	/* a launch's result was taken: arg0 = launch id, arg1 = enum huvm_launch_status. See struct huvm_event */
	HUVM_EVENT_RECLAIM	= 9,	/* of the lending GPU: arg0 = 1 if a copy had to be made, arg1 = time in the driver, ns */
	HUVM_EVENT_LEND		= 10,	/* of the lending GPU: arg0 = borrower, arg1 = chunk; cause: what moves the block there */
	HUVM_EVENT_WRITE_BACK	= 11,	/* of the lending GPU: the host has the block too; arg0 = bytes copied, arg1 = ns it took */
	HUVM_EVENT_PREFETCH	= 12,	/* arg0 = enum huvm_prefetch_step */
	HUVM_EVENT_RETIRED	= 13,	/* memory failed, its chunk is out of service: arg0 = VRAM page number, arg1 = pages lost; see below */
	HUVM_EVENT_CHANNEL_LOST	= 14,	/* a channel was given up: arg0 = what it copied (HUVM_LATENCY_H2D to LOCAL), arg1 = enum huvm_channel_end */
	HUVM_EVENT_LINK		= 15,	/* one of the GPU's links went down or came up: arg0 = the GPU at its other end, arg1 = 1 if it is up */
	HUVM_EVENT_FORFEIT	= 16,	/* of the lending GPU: arg0 = a lost GPU that may still write what it borrowed, arg1 = chunks out of service */
};

/*
 * HUVM_EVENT_RETIRED is the block's that has the chunk when it is taken out of service. Of a chunk that is being evicted just then nobody
 * is named, or who has it next, and no page is said to be lost: HUVM_CNT_ECC_LOST_PAGES counts all.
 *
 * HUVM_EVENT_CHANNEL_LOST names one kind of copy: of a channel that does several the first, and HUVM_LATENCY_H2D also for the channel of what is
 * fetched ahead alone, beside which faults go on. What cannot be copied any more is in @given_up of struct huvm_gpu_health.
 */

/* Why a GPU was lost. Append only. */
enum huvm_lost {
	HUVM_LOST_NONE		= 0,	/* it was not */
	HUVM_LOST_GONE		= 1,	/* its registers read all ones: off the bus, or without power */
	HUVM_LOST_RESET		= 2,	/* it was reset under the driver */
	HUVM_LOST_INVALIDATE	= 3,	/* a TLB invalidate was not acknowledged within 2 s */
	HUVM_LOST_REPLAY	= 4,	/* a replay of faults was not acknowledged within 2 s */
	HUVM_LOST_CHANNEL	= 5,	/* a copy engine goes on with a channel that it was told to leave; names the channel's number */
	HUVM_LOST_LAUNCH	= 6,	/* it does not say that a launch has ended: not within 2 s when aborted, or nonsense; names its slot */
	HUVM_LOST_UNBOUND	= 7,	/* its driver let go of it in good order: nothing is wrong with it */
	HUVM_LOST_SEMAPHORE	= 8,	/* a channel's semaphore says what was never submitted, or less than before; names the channel's number */
	HUVM_LOST_FAULT_RING	= 9,	/* a fault ring gave nothing but errors for 1 s */
};

/* Why a channel was given up. What needs it fails from then on, until the GPU is bound again. */
enum huvm_channel_end {
	HUVM_CHANNEL_STALLED	= 1,	/* it completed nothing for 10 s */
	HUVM_CHANNEL_FAULTED	= 2,	/* its engine faulted at one place, however often it was let try again */
};

/*
 * What became of a block fetched ahead of a stream. No access is seen that does not fault, so a block is useful when the
 * stream went over it (faulted beyond it) while it was there, late when a fault asked for it first, and wasted when it left
 * the GPU before either. Of the last reach of a stream up to the end of its range nobody can tell: such blocks may be used
 * and never gone over, and are none of these when they leave.
 */
enum huvm_prefetch_step {
	HUVM_PREFETCH_BEGUN	= 1,
	HUVM_PREFETCH_USEFUL	= 2,
	HUVM_PREFETCH_LATE	= 3,
	HUVM_PREFETCH_WASTED	= 4,
};

enum huvm_cause {
	HUVM_CAUSE_NONE		= 0,
	HUVM_CAUSE_GPU_FAULT	= 1,
	HUVM_CAUSE_CPU_FAULT	= 2,
	HUVM_CAUSE_PREFETCH	= 3,
	HUVM_CAUSE_EVICTION	= 4,
	HUVM_CAUSE_API		= 5,
	HUVM_CAUSE_THRASHING	= 6,	/* not in use: no event has it */
};

/**
 * struct huvm_event - a record of the event stream, 64 bytes
 *
 * After HUVM_IOC_EVENTS, read(2) on the same file returns whole records (-EINVAL if the buffer is smaller than one); it
 * blocks unless O_NONBLOCK (-EAGAIN); poll says POLLIN. A full ring drops the newest and counts them. A record that could
 * not be written (-EFAULT) is there for the next read. Once the stream is turned off a read that waits returns 0, others are -EINVAL,
 * and poll says POLLIN and POLLHUP, until it is turned on again.
 * @seq: number of the event in this file's stream, which goes on when the stream is turned on again. A gap means drops, or
 *	records that were not read by then
 * @time_ns: CLOCK_MONOTONIC when the record was written
 * @va: address of the first page concerned, or of its block; 0 where there is none
 * @length: bytes concerned; those of HUVM_EVENT_MIGRATE need not all lie side by side
 * @type: enum huvm_event_type
 * @cause: enum huvm_cause
 * @gpu: index, or HUVM_PLACE_HOST; of HUVM_EVENT_MIGRATE the destination
 * @pid: process that opened the file whose memory or launch it is. 0: of none; only listeners to all get those, which are REPLAY,
 *	RECLAIM, GPU_LOST, CHANNEL_LOST, LINK, FORFEIT, and RETIRED where nobody had the chunk
 * @dropped: events that this stream has dropped since it was turned on, up to this record
 * @arg0, @arg1: by type, see enum huvm_event_type; else 0
 *
 * LAUNCH_END comes when WAIT or ABORT has handed an end out, so its @time_ns is of that, however long ago the launch ended: that is
 * @end_ns of struct huvm_wait, by the device's clock. A launch that goes with its registration, its GPU or its file, before anybody
 * took its result, has no LAUNCH_END, even if somebody was waiting for it.
 */
struct huvm_event {
	__u64 seq;
	__u64 time_ns;
	__u64 va;
	__u64 length;
	__u16 type;
	__u16 cause;
	__u32 gpu;
	__u32 pid;
	__u32 dropped;
	__u64 arg0;
	__u64 arg1;
};

/**
 * struct huvm_events - HUVM_IOC_EVENTS [any]
 * @flags: HUVM_EVENTS_ALL: of all spaces, not of this file's alone; needs CAP_SYS_ADMIN
 * @mask: in, bit (1 << type) for each type wanted; 0 turns the stream off
 * @records: in, room, rounded up to a power of two, 16 .. 65536; 0 = 4096
 *
 * A call while the stream is on begins it anew: what was not read is gone.
 * Errors: EPERM (HUVM_EVENTS_ALL), EINVAL (more than 65536 records, a type that the driver does not know), ENOMEM (it goes on as before).
 */
#define HUVM_EVENTS_ALL		(1u << 0)
struct huvm_events {
	__u32 size;
	__u32 flags;
	__u32 mask;
	__u32 records;
};

/* Operations of the workload engine; Documentation/device.md section 2.3 defines them. */
enum huvm_op {
	HUVM_OP_FILL	= 1,
	HUVM_OP_CHECK	= 2,
	HUVM_OP_COPY	= 3,
	HUVM_OP_ADD	= 4,
	HUVM_OP_TRIAD	= 5,
	HUVM_OP_SCALE	= 6,
	HUVM_OP_REDUCE	= 7,
	HUVM_OP_GATHER	= 8,
	HUVM_OP_SCATTER	= 9,
	HUVM_OP_DELAY	= 10,
	HUVM_OP_TRACE	= 11,
	HUVM_OP_ATOMIC_ADD = 12,	/* Since minor 3 */
};

/**
 * struct huvm_instr - an instruction of a launch: the same layout as the device's
 * @op: enum huvm_op, another is -EINVAL. Which of the fields below it uses is in device.md 2.3
 * @flags: 0, else -EINVAL
 * @count: elements of a step, 1 .. 2^32
 * @steps: steps of a block, 1 .. 2^32
 * @dst, @a, @b, @idx: addresses of the operands: where the result goes, two sources, indices
 * @block_stride, @step_stride, @elem_stride: bytes from one block, step or element to the next; an @elem_stride of 0 is elem_bytes.
 *	Element e of step s of block k of an operand at X is at X + k * block_stride + s * step_stride + e * elem_stride
 * @imm0, @imm1: numbers of the operation
 *
 * The driver checks the rules of device.md 2.3 at HUVM_IOC_LAUNCH (-EINVAL); an address that cannot be served fails the launch.
 */
struct huvm_instr {
	__u32 op;
	__u32 flags;
	__u64 count;
	__u64 steps;
	__u64 dst;
	__u64 a;
	__u64 b;
	__u64 idx;
	__u64 block_stride;
	__u64 step_stride;
	__u64 elem_stride;
	__u64 imm0;
	__u64 imm1;
};
#define HUVM_MAX_INSTR		16

/**
 * struct huvm_launch - HUVM_IOC_LAUNCH: start a workload
 * @gpu: in, registered
 * @blocks, @iterations, @elem_bytes, @max_resident, @nr_instr: in, rules of device.md 2.3
 * @instrs: in, pointer to struct huvm_instr[nr_instr]
 * @launch: out, id for wait and abort
 *
 * A launch holds one of the GPU's 64 slots until its end was collected. Errors: ENODEV (also while another thread unregisters the
 * GPU, or the GPU leaves), EIO, ENOENT (not registered), EINVAL (a rule
 * broken), EBUSY (all slots taken; without CAP_SYS_ADMIN when the file was opened, also for a process that holds as many as are free,
 * and for a user that holds three times as many), EOPNOTSUPP (device has no workload engine), ENOMEM.
 */
struct huvm_launch {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 blocks;
	__u32 iterations;
	__u32 elem_bytes;
	__u32 max_resident;
	__u32 nr_instr;
	__u64 instrs;
	__u64 launch;
};

enum huvm_launch_status {
	HUVM_LAUNCH_RUNNING	= 1,
	HUVM_LAUNCH_DONE	= 2,
	HUVM_LAUNCH_FAILED	= 3,
	HUVM_LAUNCH_ABORTED	= 4,
};

enum huvm_launch_error {
	HUVM_ERROR_NONE		= 0,
	HUVM_ERROR_DESCRIPTOR	= 1,
	HUVM_ERROR_FAULT	= 2,	/* fatal fault: fault_va, fault_type, access_type say which */
	HUVM_ERROR_CANCELLED	= 3,	/* the driver cancelled it, reason as above */
	HUVM_ERROR_INSTANCE	= 4,
	HUVM_ERROR_DMA		= 5,
	HUVM_ERROR_GPU_LOST	= 6,
	HUVM_ERROR_NO_MEMORY	= 7,	/* room could not be made, bounded tries */
	HUVM_ERROR_ECC		= 8,	/* the only copy of the page was in GPU memory that failed; fault_va says which. Since minor 2 */
};

/*
 * Codes of the fault packet, in @fault_type and @access_type of struct huvm_wait and in HUVM_EVENT_FAULT and _FATAL.
 * Access: 0 read, 1 write, 2 atomic, 3 prefetch, 4 weak atomic (permission to write is enough for it).
 * Fault: 0 PDE, 1 PDE size, 2 PTE (not mapped), 3 VA limit, 4 unbound instance, 5 privilege, 6 read-only, 7 write-only, 8 pitch,
 * 9 work creation, 0xa aperture, 0xb compression, 0xc kind, 0xd region, 0xe poisoned (ECC), 0xf atomic.
 */

/**
 * struct huvm_wait - HUVM_IOC_WAIT: wait for a launch and take its result; HUVM_IOC_ABORT: end it first
 * @launch: in. After a call that returned an end status the id is gone (-ENOENT). A call that failed takes nothing: if
 *	the result could not be written (-EFAULT), the next call returns it
 * @timeout_ns: in, 0 = look only, without waiting; at most 600 s. ABORT first waits for the device to end the launch, whatever is here,
 *	and does not mind signals meanwhile: 2 s at most, then the GPU is lost
 * @status: out, enum huvm_launch_status; RUNNING with return value 0 only if timeout_ns was 0; also while another
 *	thread's call is taking the result
 * @error: out, enum huvm_launch_error
 * @fault_va, @fault_type, @access_type: out, reason of a failure (codes: below enum huvm_launch_error)
 * @mismatches, @mismatch_va: out, result of HUVM_OP_CHECK
 * @blocks_done: out
 * @faults: out, packets that this launch raised
 * @bytes: out, read and written by it
 * @start_ns, @end_ns: out, device clock
 * @reserved: 0
 *
 * What is not known of a launch, such as of one that was taken away with its GPU, is 0. Errors: ENOENT, ETIMEDOUT, EINTR, EINVAL (timeout too long).
 */
struct huvm_wait {
	__u32 size;
	__u32 flags;
	__u64 launch;
	__u64 timeout_ns;
	__u32 status;
	__u32 error;
	__u64 fault_va;
	__u32 fault_type;
	__u32 access_type;
	__u64 mismatches;
	__u64 mismatch_va;
	__u64 faults;
	__u64 bytes;
	__u64 start_ns;
	__u64 end_ns;
	__u32 blocks_done;
	__u32 reserved;
};

/**
 * struct huvm_client_info - HUVM_IOC_CLIENT_INFO [any]: the space with the smallest id >= @client
 * @client: in and out, id of the space; -ENOENT if there is none from there on
 * @pid: out, process that opened it, in the initial namespace
 * @gpu_mask: out, registered GPUs
 * @comm: out
 * @managed_bytes: out, mapped ranges
 * @host_bytes: out, valid copies on the host
 * @gpu_bytes: out, per GPU
 * @faults, @evictions, @launches: out
 *
 * Everybody gets @client, @pid and @comm of each. The rest is 0 for a file that another process opened, be it of the same user,
 * without CAP_SYS_ADMIN.
 *
 * Errors: ENOENT.
 */
struct huvm_client_info {
	__u32 size;
	__u32 flags;
	__u64 client;
	__u32 pid;
	__u32 gpu_mask;
	char comm[HUVM_NAME_LEN];
	__u64 managed_bytes;
	__u64 host_bytes;
	__u64 gpu_bytes[HUVM_MAX_GPUS];
	__u64 faults;
	__u64 evictions;
	__u64 launches;
};

/* Where the pages of one block are. All of it is out. */
struct huvm_block_info {
	__u64 va;		/* 2 MiB aligned */
	__u32 managed_pages;	/* pages inside ranges */
	__u32 host_pages;	/* valid copy on the host */
	__u32 cpu_mapped;	/* 1 if the CPU may have a mapping */
	__u32 last_cause;	/* enum huvm_cause of the last migration */
	__u32 preferred;	/* place that all managed pages should live at, or HUVM_PLACE_NONE or _MIXED */
	__u32 read_mostly;	/* pages advised to be */
	__u16 gpu_pages[HUVM_MAX_GPUS];
	__u16 gpu_mapped[HUVM_MAX_GPUS];
	__u32 host_piece_kib;	/* 2048, 64, 4, or 0 without host pages; the largest that has some */
	__u32 reserved;
};
#define HUVM_PLACE_NONE		0xfffffffeu
#define HUVM_PLACE_MIXED	0xfffffffdu

/**
 * struct huvm_range_info - HUVM_IOC_RANGE_INFO [any with a @client]
 * @client: in, id of a space: of the caller's process, or with CAP_SYS_ADMIN of any. 0 = this file, for the process that opened it
 * @va: in, start, rounded down to a block; out, where to go on
 * @nr: in, room in @blocks, in blocks, at most 4096; out, written; 0 = no further block
 * @reserved: 0
 * @blocks: in, pointer to struct huvm_block_info[nr], which is written
 *
 * Errors: EINVAL (@nr), ENOENT (no such space), EPERM.
 */
struct huvm_range_info {
	__u32 size;
	__u32 flags;
	__u64 client;
	__u64 va;
	__u32 nr;
	__u32 reserved;
	__u64 blocks;
};

#define HUVM_IOC_TYPE		0xC8

#define HUVM_IOC_VERSION	_IOWR(HUVM_IOC_TYPE, 0x00, struct huvm_version)
#define HUVM_IOC_GPU_INFO	_IOWR(HUVM_IOC_TYPE, 0x01, struct huvm_gpu_info)
#define HUVM_IOC_LINK_INFO	_IOWR(HUVM_IOC_TYPE, 0x02, struct huvm_link_info)
#define HUVM_IOC_MEM_INFO	_IOWR(HUVM_IOC_TYPE, 0x03, struct huvm_mem_info)
#define HUVM_IOC_LEND_INFO	_IOWR(HUVM_IOC_TYPE, 0x04, struct huvm_lend_info)
#define HUVM_IOC_GPU_HEALTH	_IOWR(HUVM_IOC_TYPE, 0x05, struct huvm_gpu_health)
#define HUVM_IOC_GPU_REGISTER	_IOWR(HUVM_IOC_TYPE, 0x10, struct huvm_gpu_register)
#define HUVM_IOC_GPU_UNREGISTER	_IOWR(HUVM_IOC_TYPE, 0x11, struct huvm_gpu_register)
#define HUVM_IOC_MIGRATE	_IOWR(HUVM_IOC_TYPE, 0x12, struct huvm_migrate)
#define HUVM_IOC_ADVISE		_IOWR(HUVM_IOC_TYPE, 0x13, struct huvm_advise)
#define HUVM_IOC_LAUNCH		_IOWR(HUVM_IOC_TYPE, 0x14, struct huvm_launch)
#define HUVM_IOC_WAIT		_IOWR(HUVM_IOC_TYPE, 0x15, struct huvm_wait)
#define HUVM_IOC_ABORT		_IOWR(HUVM_IOC_TYPE, 0x16, struct huvm_wait)
#define HUVM_IOC_KNOB		_IOWR(HUVM_IOC_TYPE, 0x20, struct huvm_knob)
#define HUVM_IOC_POLICY_GET	_IOWR(HUVM_IOC_TYPE, 0x21, struct huvm_policy)
#define HUVM_IOC_POLICY_SET	_IOWR(HUVM_IOC_TYPE, 0x22, struct huvm_policy)
#define HUVM_IOC_PRESET_GET	_IOWR(HUVM_IOC_TYPE, 0x23, struct huvm_preset)
#define HUVM_IOC_PRESET_SET	_IOWR(HUVM_IOC_TYPE, 0x24, struct huvm_preset)
#define HUVM_IOC_COUNTERS	_IOWR(HUVM_IOC_TYPE, 0x30, struct huvm_counters)
#define HUVM_IOC_LATENCY	_IOWR(HUVM_IOC_TYPE, 0x34, struct huvm_latency)
#define HUVM_IOC_EVENTS		_IOWR(HUVM_IOC_TYPE, 0x31, struct huvm_events)
#define HUVM_IOC_CLIENT_INFO	_IOWR(HUVM_IOC_TYPE, 0x32, struct huvm_client_info)
#define HUVM_IOC_RANGE_INFO	_IOWR(HUVM_IOC_TYPE, 0x33, struct huvm_range_info)

#endif /* _UAPI_HUVM_H */
