// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs on all GPUs of a machine at once, with each technique of harvesting alone and with all of them: each must have acted where it is
 * on and nowhere else, and every word is what it should be.
 */
#include "lend_lib.h"

/* A set of techniques. Knobs that are not named are off. */
struct set {
	const char *name;
	int h, pe, stream, plf, mpf, lp;
};

static const struct set sets[] = {
	{ .name = "none" },
	{ .name = "PE", .pe = 1 },
	{ .name = "LPF", .stream = 1 },
	{ .name = "LP", .lp = 1 },
	{ .name = "PLF", .plf = 1 },
	{ .name = "H", .h = 1 },
	{ .name = "H+PE", .h = 1, .pe = 1 },
	{ .name = "H+LP", .h = 1, .lp = 1 },
	{ .name = "H+PLF", .h = 1, .plf = 1 },
	{ .name = "H+PE+LPF", .h = 1, .pe = 1, .stream = 2 },
	{ .name = "H+MPF", .h = 1, .stream = 1, .mpf = 1 },
	{ .name = "all", .h = 1, .pe = 1, .stream = 2, .plf = 1, .mpf = 1, .lp = 1 },
};
#define SETS (sizeof(sets) / sizeof(sets[0]))

static void *a_job_with_turns(void *arg)
{
	struct job *j = arg;

	/* The second turn is a stream. */
	for (uint32_t turn = 0; turn < 2; turn++)
		job_turn(j, turn ? 1 : WIDE);
	/* The CPU takes some of it in between. */
	for (uint64_t i = 0; i < j->len / 8; i += BLOCK / 8)
		CHECK_EQ(j->p[i], j->add + j->mul * i);
	job_turn(j, 4);
	job_end(j);
	return NULL;
}

static uint64_t total(int fd, int which)
{
	uint64_t n = 0;

	for (uint32_t g = 0; g < gpu_count(fd); g++)
		n += of_gpu(fd, g, which);
	return n;
}

/* What each technique counts, over all GPUs. */
static const struct technique {
	const char *did;
	int which;
} techniques[] = {
	{ "lent", HUVM_CNT_CHUNKS_LENT },
	{ "evicted ahead", HUVM_CNT_PRE_EVICTIONS },
	{ "fetched ahead", HUVM_CNT_PREFETCH_BLOCKS },
	{ "over a lender", HUVM_CNT_SPARE_FILLS },
	{ "from the pool", HUVM_CNT_POOL_TAKEN },
};
#define TECHNIQUES (sizeof(techniques) / sizeof(techniques[0]))

enum { NEVER, MUST, MAY };

/* Whether a technique has to act, must not, or may when it is quicker than the other ways. */
static int wanted(const struct set *s, int which)
{
	switch (which) {
	case HUVM_CNT_CHUNKS_LENT:
		return s->h ? MUST : NEVER;
	case HUVM_CNT_PRE_EVICTIONS:
		return s->pe ? MUST : NEVER;
	case HUVM_CNT_PREFETCH_BLOCKS:
		return s->stream ? MUST : NEVER;
	case HUVM_CNT_SPARE_FILLS:
		/* Nobody carries anything who does not lend. */
		return !s->h ? NEVER : s->plf ? MUST : s->mpf ? MAY : NEVER;
	default:
		return s->lp ? MUST : NEVER;
	}
}

static int all_acted(int fd, const struct set *s, const uint64_t was[TECHNIQUES])
{
	for (unsigned int t = 0; t < TECHNIQUES; t++)
		if (wanted(s, techniques[t].which) == MUST && total(fd, techniques[t].which) == was[t])
			return 0;
	return 1;
}

/*
 * A job for techniques that act behind the GPU's back and may have been too late in the others: it is idle for a while with
 * more memory than its GPU has, walks through it as a stream, and begins in each of its blocks at once when all is on the host.
 */
static void one_more_job(int fd, const struct set *s, const uint64_t was[TECHNIQUES], uint64_t seed)
{
	struct job j = job_begin(0, 12, seed);
	struct huvm_instr in = over(HUVM_OP_SCALE, j.len, 12);

	(void)WITHIN(300, all_acted(fd, s, was));
	job_turn(&j, 1);
	cpu_check(j.p, j.len, j.add, j.mul);
	in.block_stride = BLOCK;
	in.step_stride = PIECE;
	in.dst = in.a = (uintptr_t)j.p;
	in.imm0 = in.imm1 = 1;
	run_ok(j.fd, 0, 12, &in, 1, 8);
	j.add++;
	job_end(&j);
}

/* Whether the job of a GPU fits: the last of each four GPUs', and the last. */
static int fits(uint32_t gpu, uint32_t gpus)
{
	return gpu % 4 == 3 || gpu + 1 == gpus;
}

/* A job on each GPU at once: most want more than their GPU has, others fit and their GPUs have room to lend. */
static void run_set(const struct set *s)
{
	int any = huvm_open(), fd, more = 0;
	uint32_t gpus = gpu_count(any), small = 0;
	uint64_t was[TECHNIQUES];
	struct job j[HUVM_MAX_GPUS];
	pthread_t t[HUVM_MAX_GPUS];
	double from = seconds();

	close(any);
	CHECK(gpus > 1);
	for (uint32_t g = 0; g < gpus; g++)
		small |= (uint32_t)!fits(g, gpus) << g;
	fd = begin(s->h ? ~0u : 0, small, 6);

	for (unsigned int i = 0; i < TECHNIQUES; i++)
		was[i] = total(fd, techniques[i].which);
	for (uint32_t g = 0; g < gpus; g++) {
		knob(fd, g, "harvest_borrow", s->h);
		knob(fd, g, "pre_evict", s->pe);
		knob(fd, g, "pre_evict_share_percent", 10);
		knob(fd, g, "stream_prefetch", s->stream);
		knob(fd, g, "prefetch_amount_mib", 8);
		knob(fd, g, "prefetch_confirm_steps", 2);
		knob(fd, g, "parallel_fetch", s->plf);
		knob(fd, g, "prefetch_multi_path", s->mpf);
		knob(fd, g, "large_page_pool_mib", 32);
		knob(fd, g, "large_page_evict", s->lp);
	}
	for (uint32_t g = 0; g < gpus; g++)
		j[g] = job_begin(g, fits(g, gpus) ? 4 : 9, 20 + g);
	for (uint32_t g = 0; g < gpus; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, a_job_with_turns, &j[g]), 0);
	for (uint32_t g = 0; g < gpus; g++)
		CHECK_EQ(pthread_join(t[g], NULL), 0);
	for (; more < 20 && !all_acted(fd, s, was); more++)
		one_more_job(fd, s, was, 30 + (uint64_t)more);
	printf("# %s, %u GPUs:", s->name, gpus);
	for (unsigned int i = 0; i < TECHNIQUES; i++) {
		was[i] = total(fd, techniques[i].which) - was[i];
		printf(" %llu %s,", (unsigned long long)was[i], techniques[i].did);
	}
	printf(" %d more jobs, %.1f s\n", more, seconds() - from);
	for (unsigned int i = 0; i < TECHNIQUES; i++) {
		int want = wanted(s, techniques[i].which);

		if (want != MAY && !!was[i] != (want == MUST))
			FAIL("%s: %llu %s", s->name, (unsigned long long)was[i], techniques[i].did);
	}
	all_idle(fd);
	close(fd);
}

static void each_technique(void)
{
	for (unsigned int i = 0; i + 1 < SETS; i++)
		run_set(&sets[i]);
}

static void all_together(void)
{
	run_set(&sets[SETS - 1]);
}

static const struct ktap_test tests[] = {
	{ "each_technique", each_technique, 300 },
	{ "all_together", all_together, 120 },
};
KTAP_MAIN(tests)
