/* SPDX-License-Identifier: GPL-2.0 */
/* What the suites about lending share: how a test starts, jobs whose every byte is checked, chance with a seed. */
#ifndef LEND_LIB_H
#define LEND_LIB_H

#include "huvm_lib.h"

#include <pthread.h>

/* Blocks of a launch. */
#define WIDE 16u

/* The GPU's policy: a preset, with what it lends. */
static inline void gpu_begins(int fd, uint32_t gpu, const char *name, int lends)
{
	CHECK_OK(set_preset_of(fd, HUVM_SCOPE_GPU, gpu, name));
	knob(fd, gpu, "harvest_borrow", 1);
	knob(fd, gpu, "harvest_lend", (uint64_t)lends);
}

/*
 * Starts a test alike: every GPU has the preset "demand" and all of its memory but for @limit chunks (0: all) on those of
 * @small, a bitmap; those of @lenders lend, all borrow.
 */
static inline int begin(uint32_t lenders, uint32_t small, uint32_t limit)
{
	int fd = huvm_open();

	for (uint32_t g = 0; g < gpu_count(fd); g++) {
		gpu_begins(fd, g, "demand", lenders >> g & 1);
		CHECK_OK(limit_chunks(fd, g, small >> g & 1 ? limit : 0));
	}
	all_idle(fd);
	return fd;
}

/* A job: a client of its own on one GPU; word i of its memory is add + mul * i. */
struct job {
	int fd;
	uint32_t gpu;
	uint64_t *p, len, add, mul;
};

/* One with @blocks blocks, untouched. */
static inline struct job job_make(uint32_t gpu, uint64_t blocks, uint64_t seed)
{
	struct job j = { .fd = huvm_open(), .gpu = gpu, .len = blocks * BLOCK, .add = seed, .mul = 2 * seed + 1 };

	CHECK_OK(gpu_register(j.fd, gpu));
	j.p = managed(j.fd, j.len);
	return j;
}

/* Fills them, one after the other, so that the first are evicted first. */
static inline struct job job_begin(uint32_t gpu, uint64_t blocks, uint64_t seed)
{
	struct job j = job_make(gpu, blocks, seed);

	gpu_fill(j.fd, gpu, j.p, j.len, WIDE, j.add, j.mul);
	return j;
}

/* Every word grows by one, on the GPU; @wide 1 walks through all of it with one block of the GPU, as a stream. */
static inline void job_turn(struct job *j, uint32_t wide)
{
	gpu_scale(j->fd, j->gpu, j->p, j->len, wide, 1, 1);
	j->add++;
}

static inline void job_check_gpu(const struct job *j)
{
	gpu_check(j->fd, j->gpu, j->p, j->len, WIDE, j->add, j->mul);
}

/* A launch that makes the job's words add + mul * i, whatever they were. */
static inline uint64_t job_fills(const struct job *j)
{
	struct huvm_instr i = over(HUVM_OP_FILL, j->len, WIDE);
	uint64_t id;

	i.dst = (uintptr_t)j->p;
	i.imm0 = j->add;
	i.imm1 = j->mul;
	CHECK_OK(launch(j->fd, j->gpu, WIDE, &i, 1, 8, &id));
	return id;
}

/* The same with another @add, to its end. */
static inline struct huvm_wait try_fill(struct job *j, uint64_t add)
{
	j->add = add;
	return wait_launch(j->fd, job_fills(j));
}

/* The same. True if there was no memory to do that. */
static inline int fill_or_no_memory(struct job *j, uint64_t add)
{
	struct huvm_wait w = try_fill(j, add);

	if (w.status == HUVM_LAUNCH_DONE)
		return 0;
	if (w.status != HUVM_LAUNCH_FAILED || w.error != HUVM_ERROR_NO_MEMORY)
		FAIL("launch ended with status %u, error %u", w.status, w.error);
	return 1;
}

/* Every byte as the GPU sees it, then as the CPU does; then the job ends. */
static inline void job_end(struct job *j)
{
	job_check_gpu(j);
	cpu_check(j->p, j->len, j->add, j->mul);
	CHECK_OK(munmap(j->p, j->len));
	close(j->fd);
}

/* Chance: the same seed (environment: HUVM_SEED) gives the same test, as far as time allows. */
static inline uint64_t chance(uint64_t below)
{
	static uint64_t state;

	if (!state) {
		const char *s = getenv("HUVM_SEED");

		state = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);
		printf("# seed %llu\n", (unsigned long long)state);
		state = (state + 1) * 0x9e3779b97f4a7c15ull | 1;
	}
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dull >> 32) % below;
}

/* Launches a fill of the job's second half, all of its blocks at once; their chunks are those of its first half. */
static inline uint64_t second_half(const struct job *j)
{
	struct huvm_instr in = over(HUVM_OP_FILL, BLOCK, 1);
	uint64_t id;

	in.block_stride = BLOCK;
	in.dst = (uintptr_t)j->p + j->len / 2;
	in.imm0 = j->add + j->mul * (j->len / 2 / 8);
	in.imm1 = j->mul;
	CHECK_OK(launch(j->fd, 0, (uint32_t)(j->len / 2 / BLOCK), &in, 1, 8, &id));
	return id;
}

/*
 * GPU 0, which has @chunks chunks, is full and evicts to GPU 1; the first copy stands still, others wait behind it, and the link goes
 * down. @id: the launch that gets the chunks. Returns how many evictions are on their way at least.
 */
static inline uint64_t sending(int fd, struct job *j, uint64_t *id, uint32_t chunks)
{
	uint64_t before = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);

	*j = job_make(0, 2 * chunks, 90);
	gpu_fill(j->fd, 0, j->p, j->len / 2, 1, j->add, j->mul);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	*id = second_half(j);
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_HANG)));
	/* As many as a batch of faults is about. */
	CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) != before));
	CHECK(WITHIN(5000, is_listed("copy", 0)));
	test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
	return of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) - before;
}

/* It goes on: each copy meets the link that is down. */
static inline void copies_fail(int fd)
{
	test_reg(fd, 0, INJ_CE_HANG, 0);
}

#endif
