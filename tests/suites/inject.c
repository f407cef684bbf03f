// SPDX-License-Identifier: GPL-2.0
/* Hardware that misbehaves: late, reordered and duplicate packets, overflow, lost interrupts, copy engines that fault or
 * hang, links that go down, a GPU that disappears. Nothing hangs; what can be saved is. */
#include "huvm_lib.h"

#define LEN (12 * BLOCK)
#define BLOCKS 16

static int setup(void)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	return fd;
}

static void round_trip_of(int fd, uint64_t len, uint64_t seed)
{
	void *p = managed(fd, len);

	cpu_fill(p, len, seed, 3);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	cpu_check(p, len, seed + 1, 3);
	CHECK_OK(munmap(p, len));
}

static void round_trip(int fd, uint64_t seed)
{
	round_trip_of(fd, LEN, seed);
}

static void late_valid(void)
{
	int fd = setup();

	test_reg(fd, 0, INJ_VALID_DELAY, 300000);
	round_trip(fd, 1);
	test_reg(fd, 0, INJ_VALID_DELAY, 200);
}

static void reordered_and_duplicated(void)
{
	int fd = setup();
	uint64_t dup = counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_FAULT_DUPLICATES);
	uint32_t held_back = read_reg(fd, 0, STAT_REORDERED);

	test_reg(fd, 0, INJ_REORDER, 500);
	test_reg(fd, 0, INJ_DUPLICATE, 500);
	round_trip(fd, 2);
	test_reg(fd, 0, INJ_REORDER, 50);
	test_reg(fd, 0, INJ_DUPLICATE, 50);
	CHECK(counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_FAULT_DUPLICATES) > dup);
	CHECK(read_reg(fd, 0, STAT_REORDERED) - held_back > 10);
}

static void overflow(void)
{
	int fd = setup();
	uint64_t before = counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_OVERFLOWS);
	uint64_t blind = of_gpu(fd, 0, HUVM_CNT_BLIND_REPLAYS);
	char what[64];

	for (int i = 0; i < 12; i++) {
		knob(fd, 0, "replay_policy", i % 3);
		test_reg(fd, 0, INJ_OVERFLOW, 3);
		round_trip(fd, 10 + i);
	}
	test_reg(fd, 0, INJ_OVERFLOW, 0);
	/* What left no packet got its replay with the recovery. A machine that stands still now and then sees another. */
	printf("# %llu replays at a venture\n", (unsigned long long)(of_gpu(fd, 0, HUVM_CNT_BLIND_REPLAYS) - blind));
	CHECK(of_gpu(fd, 0, HUVM_CNT_BLIND_REPLAYS) - blind < 12);
	CHECK(counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_OVERFLOWS) > before);
	snprintf(what, sizeof(what), "gpu 0 fault ring *ok *overflowed %llu times",
		 (unsigned long long)of_gpu(fd, 0, HUVM_CNT_OVERFLOWS));
	says("doctor", what);
}

static void lost_interrupts(void)
{
	int fd = setup();

	for (int i = 0; i < 4; i++) {
		test_reg(fd, 0, INJ_DROP_INTR, 3);
		round_trip(fd, 20 + i);
		/* Some were: who looks by himself asks for fewer. */
		CHECK(read_reg(fd, 0, INJ_DROP_INTR) < 3);
	}
	test_reg(fd, 0, INJ_DROP_INTR, 0);
}

static void copy_engine_faults(void)
{
	int fd = setup();
	uint64_t before = counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_CE_ERRORS);

	for (int i = 1; i <= 4; i++) {
		test_reg(fd, 0, INJ_CE_FAULT, (uint32_t)i);
		round_trip(fd, 30 + (uint64_t)i);
	}
	CHECK(WITHIN(5000, counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_CE_ERRORS) >= before + 4));
}

static void no_negative_caching(void)
{
	int fd = setup();

	test_reg(fd, 0, INJ_NEG_TLB, 0);
	round_trip(fd, 40);
	test_reg(fd, 0, INJ_NEG_TLB, 1);
	round_trip(fd, 41);
}

static void replay_policies(void)
{
	/* block, batch, batch-flush, once; and small batches. (Batches of one without a flush drown in duplicates.) */
	static const uint64_t batch[] = { 7, 64, 1, 32 };

	for (uint64_t policy = 0; policy < 4; policy++) {
		int fd = setup();

		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "replay_policy", policy));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "fault_batch_max", batch[policy]));
		round_trip_of(fd, LEN / 4, 50 + policy);
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "replay_policy", 2));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "fault_batch_max", 256));
		close(fd);
	}
}

/* Catches a batch of which no block was served and that no replay follows: what it was about waits for one at a venture. */
static void replay_of_what_is_not_served(void)
{
	for (uint64_t policy = 0; policy < 4; policy++) {
		int fd = setup();
		struct huvm_instr in = over(HUVM_OP_FILL, BLOCKS * BLOCK, BLOCKS);
		uint64_t *p = managed(fd, BLOCKS * BLOCK), blind;
		double began = seconds();

		/* One cancel a batch: the others are to fault again. */
		CHECK_OK(munmap(p, BLOCKS * BLOCK));
		in.block_stride = BLOCK;
		in.step_stride = PIECE;
		in.dst = (uintptr_t)p;
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "replay_policy", policy));
		blind = of_gpu(fd, 0, HUVM_CNT_BLIND_REPLAYS);
		for (int n = 0; n < 4; n++)
			CHECK_EQ(run_program(fd, 0, BLOCKS, &in, 1, 8).status, HUVM_LAUNCH_FAILED);
		blind = of_gpu(fd, 0, HUVM_CNT_BLIND_REPLAYS) - blind;
		printf("# policy %llu: %llu replays at a venture, %.2f s\n", (unsigned long long)policy,
		       (unsigned long long)blind, seconds() - began);
		/* One for each batch, without; and a machine that stands still now and then sees another. */
		CHECK(blind < 8);
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GPU, "replay_policy", 2));
		close(fd);
	}
}

static void a_copy_that_never_ends(void)
{
	/* The copy engine of GPU 0 stands still for good. Within the bound the client has an error, the log says who waited for
	 * what, and the other GPU does not notice. Catches a wait without a bound, and one that is given up in silence. */
	int fd = huvm_open(), other = huvm_open(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	uint64_t *p = managed(fd, LEN), *q = managed(other, LEN), id;
	struct huvm_instr i = over(HUVM_OP_SCALE, LEN, BLOCKS);
	struct huvm_wait w;

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(p, LEN, 60, 3);
	cpu_fill(q, LEN, 70, 3);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	i.dst = i.a = (uintptr_t)p;
	i.imm0 = i.imm1 = 1;
	CHECK_OK(launch(fd, 0, BLOCKS, &i, 1, 8, &id));
	gpu_scale(other, 1, q, LEN, BLOCKS, 1, 1);
	cpu_check(q, LEN, 71, 3);
	w = wait_launch(fd, id);
	CHECK(w.status == HUVM_LAUNCH_FAILED || w.status == HUVM_LAUNCH_ABORTED);
	/* With who waits for whom: the client for its launch, that for the copy. */
	CHECK(gets_logged_waits(log, " copy 0 ", " launch 0 "));
	test_reg(fd, 0, INJ_CE_HANG, 0);
	/* What was not copied is where it was. */
	cpu_check(p, LEN, 60, 3);
	close(log);
}

static const struct ktap_test tests[] = {
	{ "late_valid", late_valid }, { "reordered_and_duplicated", reordered_and_duplicated },
	{ "overflow", overflow }, { "lost_interrupts", lost_interrupts }, { "copy_engine_faults", copy_engine_faults },
	{ "no_negative_caching", no_negative_caching }, { "replay_policies", replay_policies },
	{ "replay_of_what_is_not_served", replay_of_what_is_not_served },
	/* Leaves channels that are given up. */
	{ "a_copy_that_never_ends", a_copy_that_never_ends, 120 },
};
KTAP_MAIN(tests)
