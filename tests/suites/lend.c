// SPDX-License-Identifier: GPL-2.0
/*
 * Four GPUs that lend and borrow: one borrower and three lenders, several borrowers on one lender, roles that change, one
 * job on two GPUs.
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

static const struct ktap_test tests[] = {
	{ "three_lenders_in_turn", three_lenders_in_turn, 60 },
	{ "several_borrowers_on_one_lender", several_borrowers_on_one_lender, 60 },
	{ "roles_change", roles_change, 60 },
	{ "one_job_on_two_gpus", one_job_on_two_gpus, 60 },
};
KTAP_MAIN(tests)
