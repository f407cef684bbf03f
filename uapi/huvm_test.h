/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * huvm: calls for the project's own tests. Never installed, no stability. They exist when the module was loaded with
 * `test=1` (HUVM_CAP_TEST), else -ENOTTY, and need CAP_SYS_ADMIN.
 */
#ifndef _UAPI_HUVM_TEST_H
#define _UAPI_HUVM_TEST_H

#include "huvm.h"

/**
 * struct huvm_test_reg - HUVM_IOC_TEST_REG: read or write a register of BAR5's INJECT, STATS or TIME blocks
 * @gpu: in
 * @offset: in, BAR5 offset, multiple of 4, in those blocks (else -EINVAL)
 * @value: in for write, out for read
 * @write: in, 0 or 1
 */
struct huvm_test_reg {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 offset;
	__u32 value;
	__u32 write;
};

enum huvm_selftest {
	HUVM_SELFTEST_IDENT	= 1,	/* chip id and VRAM size are read again and agree */
	HUVM_SELFTEST_INTERRUPT	= 2,	/* LEAF_TRIGGER of @arg (vector) arrives; result = MSI-X entry */
	HUVM_SELFTEST_WINDOWS	= 3,	/* VRAM written by one window is read by the others */
	HUVM_SELFTEST_COPY	= 4,	/* sysmem to VRAM to sysmem of @arg bytes, compared; result = ns */
	HUVM_SELFTEST_MEMSET	= 5,	/* 1, 4 and 8 byte patterns */
	HUVM_SELFTEST_SEMAPHORE	= 6,	/* one channel waits for another; timestamps grow */
	HUVM_SELFTEST_CE_FAULT	= 7,	/* a copy from an unmapped VA gives a non-replayable packet and is restarted */
	HUVM_SELFTEST_PEER	= 8,	/* VRAM to VRAM of GPU @arg and back */
	HUVM_SELFTEST_WATCH	= 9,	/* a wait of @arg ms whose bound is 1 ms: 10 s later the log has it */
};

/**
 * struct huvm_selftest_arg - HUVM_IOC_TEST_SELFTEST
 * @gpu, @test, @arg: in
 * @result: out
 * Errors: EIO with result = a number that says which step failed; ENODEV; EOPNOTSUPP.
 */
struct huvm_selftest_arg {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 test;
	__u64 arg;
	__u64 result;
};

/**
 * struct huvm_test_evict - HUVM_IOC_TEST_EVICT: evict up to @chunks chunks of a GPU now
 * @evicted: out
 */
struct huvm_test_evict {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 chunks;
	__u32 evicted;
	__u32 reserved;
};


/**
 * struct huvm_test_limits - HUVM_IOC_TEST_LIMITS: make a GPU look small
 * @chunks: in, chunks to leave usable, 0 = all; free ones are set aside at once, used ones are evicted first
 */
struct huvm_test_limits {
	__u32 size;
	__u32 flags;
	__u32 gpu;
	__u32 chunks;
};

enum huvm_fail {
	HUVM_FAIL_HOST_2M	= 0,	/* allocations of 2 MiB of host memory, for pools as well */
	HUVM_FAIL_HOST_64K	= 1,	/* of 64 KiB */
	HUVM_FAIL_DMA_MAP	= 2,	/* mappings of host memory for DMA */
	HUVM_FAIL_SUBMIT	= 3,	/* pushes to the copy engines' channels: with -EIO, as of one that was given up */
	HUVM_FAIL_HOST_4K	= 4,	/* allocations of 4 KiB of host memory */
	HUVM_FAIL_DMA_ALLOC	= 5,	/* of memory for a GPU's own use: rings, page tables */
	HUVM_FAIL_TAIL		= 6,	/* of the record of what is behind, when a range is cut in the middle: munmap goes on */
};

/**
 * struct huvm_test_fail - HUVM_IOC_TEST_FAIL: @times of something fail with -ENOMEM (HUVM_FAIL_SUBMIT: -EIO), for all GPUs
 * @what: in, enum huvm_fail (else -EINVAL)
 * @times: in, 0xffffffff = all until the next call
 * @after: in, so many go well first
 * @left: out, of the last call's @times those that did not come to be
 */
struct huvm_test_fail {
	__u32 size;
	__u32 flags;
	__u32 what;
	__u32 times;
	__u32 after;
	__u32 left;
};

#define HUVM_IOC_TEST_REG	_IOWR(HUVM_IOC_TYPE, 0xe0, struct huvm_test_reg)
#define HUVM_IOC_TEST_SELFTEST	_IOWR(HUVM_IOC_TYPE, 0xe1, struct huvm_selftest_arg)
#define HUVM_IOC_TEST_EVICT	_IOWR(HUVM_IOC_TYPE, 0xe2, struct huvm_test_evict)
#define HUVM_IOC_TEST_LIMITS	_IOWR(HUVM_IOC_TYPE, 0xe3, struct huvm_test_limits)
#define HUVM_IOC_TEST_FAIL	_IOWR(HUVM_IOC_TYPE, 0xe4, struct huvm_test_fail)

#endif /* _UAPI_HUVM_TEST_H */
