// SPDX-License-Identifier: GPL-2.0
/* What users have who set nothing: every technique at once, and two jobs that want the same memory. */
#include "lend_lib.h"

static void it_is_huvm(void)
{
	int fd = huvm_open();
	ARG(huvm_preset, p, .scope = HUVM_SCOPE_GLOBAL);
	uint32_t i;

	CHECK_OK(ioctl(fd, HUVM_IOC_PRESET_GET, &p));
	CHECK(!strcmp(p.name, "huvm"));
	for (i = 0;; i++) {
		ARG(huvm_knob, k, .index = i);
		ARG(huvm_policy, v, .scope = HUVM_SCOPE_GLOBAL, .knob = i);

		if (ioctl(fd, HUVM_IOC_KNOB, &k))
			break;
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &v));
		CHECK_EQ(v.value, k.def);
	}
	CHECK(i > 20);
	close(fd);
}

/* Catches a technique that is off, or in the way of another; lost or old data; memory that its owner does not get back. */
static void a_cycle_and_the_owner(void)
{
	int fd = huvm_open();
	uint64_t chunks = chunk_count(fd, 0);
	struct job j = job_begin(0, chunks * 3 / 2, 71), own;

	for (int n = 0; n < 6; n++)
		job_turn(&j, WIDE);
	/* No CHECK of recent evictions: so small a memory is all guard (suite evict has them). */
	CHECK(of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS) > 0);
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) > 0);
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_HIT_BYTES) > 0);
	CHECK(lent(fd, 1) > 0);
	/* The neighbour's own job has all of its memory, and the borrower goes on. */
	own = job_begin(1, chunks, 73);
	CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > 0);
	for (int n = 0; n < 2; n++) {
		job_turn(&j, WIDE);
		job_turn(&own, WIDE);
	}
	job_end(&own);
	job_end(&j);
	all_idle(fd);
	close(fd);
}

/* Catches a job that fits and is evicted for nobody, turn by turn; pre-eviction that stays away when room is needed again. */
static void a_job_that_nearly_fits(void)
{
	int fd = huvm_open();
	uint64_t chunks = chunk_count(fd, 0), evicted[2], holds, ahead;

	knob(fd, 0, "pre_evict_share_percent", 25);
	for (uint64_t hold = 0; hold < 2; hold++) {
		struct job j, more;

		knob(fd, 0, "pre_evict_hold", hold);
		holds = of_gpu(fd, 0, HUVM_CNT_PRE_EVICT_HOLDS);
		j = job_begin(0, chunks - 1, 75);
		for (int n = 0; n < 8; n++) {
			if (n == 4)
				evicted[hold] = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
			job_turn(&j, WIDE);
			give_time(20);
		}
		evicted[hold] = of_gpu(fd, 0, HUVM_CNT_EVICTIONS) - evicted[hold];
		printf("# pre_evict_hold %llu: %llu evictions\n", (unsigned long long)hold, (unsigned long long)evicted[hold]);
		holds = of_gpu(fd, 0, HUVM_CNT_PRE_EVICT_HOLDS) - holds;
		CHECK_EQ(holds > 0, hold);
		if (hold) {
			ahead = of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS);
			more = job_begin(0, chunks / 4, 77);
			job_turn(&j, WIDE);
			CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS) > ahead));
			job_end(&more);
		}
		job_end(&j);
	}
	CHECK(evicted[0] >= 4);
	CHECK_EQ(evicted[1], 0);
	all_idle(fd);
	close(fd);
}

/* Catches write-back of what the borrower fetches next, which then waits for it; and one that is put off for good. */
static void what_comes_home_next(void)
{
	int fd = huvm_open();
	uint64_t chunks = chunk_count(fd, 0), later;

	for (uint64_t on = 0; on < 2; on++) {
		struct job j;

		knob(fd, 1, "write_back_skip_blocks", on * 16);
		later = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_LATER);
		j = job_begin(0, chunks * 3 / 2, 79);
		for (int n = 0; n < 6; n++)
			job_turn(&j, 1);
		later = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_LATER) - later;
		printf("# write_back_skip_blocks %llu: %llu left for later\n", (unsigned long long)on * 16, (unsigned long long)later);
		CHECK_EQ(later > 0, on);
		/* The stream stands still now: what it does not come for is written back. */
		CHECK(mem_info(fd, 1).lent_only + mem_info(fd, 1).lent_removable > 0);
		CHECK(WITHIN(10000, !mem_info(fd, 1).lent_only));
		job_end(&j);
	}
	all_idle(fd);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "it_is_huvm", it_is_huvm }, { "a_cycle_and_the_owner", a_cycle_and_the_owner, 240 },
	{ "a_job_that_nearly_fits", a_job_that_nearly_fits, 240 },
	{ "what_comes_home_next", what_comes_home_next, 240 },
};
KTAP_MAIN(tests)
