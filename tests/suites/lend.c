// SPDX-License-Identifier: GPL-2.0
/*
 * Four GPUs that lend and borrow: one borrower and three lenders, several borrowers on one lender, roles that change, one
 * job on two GPUs, and jobs on all GPUs at once with each technique alone and together.
 */
#include "lend_lib.h"

#define GPUS 4u

/* What was lent by each GPU since @was was read. */
static void lent_by(int fd, uint64_t was[GPUS], int read)
{
	for (uint32_t g = 0; g < GPUS; g++) {
		uint64_t n = of_gpu(fd, g, HUVM_CNT_CHUNKS_LENT);

		was[g] = read ? n : n - was[g];
	}
}

static void three_lenders_in_turn(void)
{
	int fd = begin(0xe, 0, 0);
	uint64_t n[GPUS], out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS), d2h = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	struct job j;

	for (uint32_t g = 1; g < GPUS; g++)
		knob(fd, g, "write_back", 0);
	lent_by(fd, n, 1);
	j = job_begin(0, chunk_count(fd, 0) * 3 / 2, 7);
	lent_by(fd, n, 0);
	printf("# lent: %llu, %llu, %llu\n", (unsigned long long)n[1], (unsigned long long)n[2], (unsigned long long)n[3]);
	out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) - out;
	/* A third of the job is in spare memory. A block that came back in part only and went again had its chunk still. */
	CHECK(n[1] + n[2] + n[3] >= chunk_count(fd, 0) / 2);
	CHECK(n[1] + n[2] + n[3] <= out);
	/* Round robin: nobody is ahead of anybody by more than one. */
	for (uint32_t g = 1; g < GPUS; g++)
		CHECK(n[g] && n[g] + 1 >= n[1] && n[1] + 1 >= n[g]);
	for (int turn = 0; turn < 2; turn++)
		job_turn(&j, WIDE);
	job_check_gpu(&j);
	/* None of it went over the host link. */
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), d2h);
	for (uint32_t g = 1; g < GPUS; g++)
		CHECK(lent(fd, g) > 0);
	job_end(&j);
	all_idle(fd);
}

static void *two_turns(void *arg)
{
	struct job *j = arg;

	for (int turn = 0; turn < 2; turn++) {
		job_turn(j, WIDE);
		job_check_gpu(j);
	}
	return NULL;
}

/* All three at the same time. */
static void turns_of_three(struct job j[3])
{
	pthread_t t[3];

	for (uint32_t g = 0; g < 3; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, two_turns, &j[g]), 0);
	for (uint32_t g = 0; g < 3; g++)
		CHECK_EQ(pthread_join(t[g], NULL), 0);
}

static void several_borrowers_on_one_lender(void)
{
	int fd = begin(1 << 3, 0x7, 12);
	uint64_t was[3], out[3], all[3], n[GPUS], sum;
	struct job j[3];

	knob(fd, 3, "lend_limit_percent", 50);
	lent_by(fd, n, 1);
	for (uint32_t g = 0; g < 3; g++) {
		was[g] = of_gpu(fd, g, HUVM_CNT_SPARE_EVICTIONS);
		all[g] = of_gpu(fd, g, HUVM_CNT_EVICTIONS);
		j[g] = job_begin(g, 20, 10 + g);
	}
	/* They want 24 chunks of 16: who comes last finds them lent, and has some when another one's block has gone home. */
	for (int turn = 0;; turn++) {
		turns_of_three(j);
		for (uint32_t g = 0; g < 3; g++)
			out[g] = of_gpu(fd, g, HUVM_CNT_SPARE_EVICTIONS) - was[g];
		if (out[0] && out[1] && out[2])
			break;
		CHECK(turn < 10);
	}
	lent_by(fd, n, 0);
	for (uint32_t g = 0; g < 3; g++) {
		all[g] = of_gpu(fd, g, HUVM_CNT_EVICTIONS) - all[g];
		printf("# GPU %u: %llu of %llu evictions to spare memory\n", g, (unsigned long long)out[g],
		       (unsigned long long)all[g]);
	}
	sum = out[0] + out[1] + out[2];
	/* Some went to the host. */
	CHECK(all[0] + all[1] + all[2] > sum);
	CHECK(n[3] > 0 && n[3] <= sum);
	CHECK_EQ(n[0] + n[1] + n[2], 0);
	for (uint32_t g = 0; g < 3; g++)
		job_end(&j[g]);
	all_idle(fd);
}

static void roles_change(void)
{
	int fd = begin(0x3, 0, 0);
	uint64_t n[GPUS], back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS);
	struct job a, b;

	lent_by(fd, n, 1);
	a = job_begin(0, 40, 1);
	CHECK(lent(fd, 1) > 0);
	/* GPU 1 needs it all itself now, and has nobody to borrow from. */
	b = job_begin(1, 40, 2);
	CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > back);
	CHECK_EQ(lent(fd, 1), 0);
	job_turn(&a, WIDE);
	job_turn(&b, WIDE);
	job_end(&a);
	/* GPU 0 is idle now, so GPU 1 borrows there. */
	job_turn(&b, WIDE);
	CHECK(lent(fd, 0) > 0);
	back = of_gpu(fd, 0, HUVM_CNT_RECLAIMS);
	a = job_begin(0, 40, 3);
	CHECK(of_gpu(fd, 0, HUVM_CNT_RECLAIMS) > back);
	job_end(&b);
	job_turn(&a, WIDE);
	CHECK(lent(fd, 1) > 0);
	lent_by(fd, n, 0);
	CHECK(n[0] > 0 && n[1] > 0);
	CHECK_EQ(n[2] + n[3], 0);
	job_end(&a);
	all_idle(fd);
}

/* One client's range, worked on by two GPUs that both borrow; pages go from GPU to GPU, and from spare memory to either. */
static void one_job_on_two_gpus(void)
{
	int fd = begin(0xc, 0x3, 12);
	struct job j = job_begin(0, 18, 5);

	CHECK_OK(gpu_register(j.fd, 1));
	for (uint32_t turn = 0; turn < 4; turn++) {
		j.gpu = (turn + 1) % 2;
		job_turn(&j, WIDE);
	}
	CHECK(lent(fd, 2) > 0 && lent(fd, 3) > 0);
	CHECK(of_gpu(fd, 1, HUVM_CNT_SPARE_HIT_BYTES) > 0);
	/* Both at once, each its half. */
	for (uint32_t turn = 0; turn < 2; turn++) {
		struct huvm_instr in = over(HUVM_OP_SCALE, j.len / 2, WIDE);
		uint64_t id[2];

		in.imm0 = in.imm1 = 1;
		for (uint32_t g = 0; g < 2; g++) {
			in.a = in.dst = (uintptr_t)j.p + (g ^ turn) * j.len / 2;
			CHECK_OK(launch(j.fd, g, WIDE, &in, 1, 8, &id[g]));
		}
		for (uint32_t g = 0; g < 2; g++)
			CHECK_EQ(wait_launch(j.fd, id[g]).status, HUVM_LAUNCH_DONE);
		j.add++;
	}
	job_end(&j);
	all_idle(fd);
}

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

	for (uint32_t g = 0; g < GPUS; g++)
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

/* Four jobs at once: three want more than their GPU has, the fourth fits and its GPU has room to lend. */
static void run_set(const struct set *s)
{
	int fd = begin(s->h ? 0xf : 0, 0x7, 6), more = 0;
	uint64_t was[TECHNIQUES];
	struct job j[GPUS];
	pthread_t t[GPUS];
	double from = seconds();

	for (unsigned int i = 0; i < TECHNIQUES; i++)
		was[i] = total(fd, techniques[i].which);
	for (uint32_t g = 0; g < GPUS; g++) {
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
	for (uint32_t g = 0; g < GPUS; g++)
		j[g] = job_begin(g, g < 3 ? 9 : 4, 20 + g);
	for (uint32_t g = 0; g < GPUS; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, a_job_with_turns, &j[g]), 0);
	for (uint32_t g = 0; g < GPUS; g++)
		CHECK_EQ(pthread_join(t[g], NULL), 0);
	for (; more < 20 && !all_acted(fd, s, was); more++)
		one_more_job(fd, s, was, 30 + (uint64_t)more);
	printf("# %s:", s->name);
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

static void each_technique_and_all(void)
{
	for (unsigned int i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		run_set(&sets[i]);
}

static const struct ktap_test tests[] = {
	{ "three_lenders_in_turn", three_lenders_in_turn, 60 },
	{ "several_borrowers_on_one_lender", several_borrowers_on_one_lender, 60 },
	{ "roles_change", roles_change, 60 },
	{ "one_job_on_two_gpus", one_job_on_two_gpus, 60 },
	{ "each_technique_and_all", each_technique_and_all, 180 },
};
KTAP_MAIN(tests)
