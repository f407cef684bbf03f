// SPDX-License-Identifier: GPL-2.0
/*
 * Little spare memory: what a lender keeps that the host has too makes way for the next eviction, or for a block that is
 * fetched over the lender's link. Nothing is lost, and no more is lent than the limit.
 */
#include "lend_lib.h"

#define SMALL 8u
#define WANTED 14u
/* Chunks that GPU 1 lends. */
#define SPARE 2u

/* @replace: of the knob spare_replace; an emulated driver is too slow to keep its link busy, so "when-busy" says nothing here. */
#define OFF 0u
#define ALWAYS 2u

static int little_spare(uint64_t replace)
{
	int fd = begin(0x2, 0x1, SMALL);

	knob(fd, 0, "spare_replace", replace);
	knob(fd, 1, "lend_limit_mib", SPARE * 2);
	return fd;
}

/* A turn; then everything lent has a copy on the host. */
static void turn(int fd, struct job *j, uint32_t wide)
{
	job_turn(j, wide);
	CHECK(lent(fd, 1) <= SPARE);
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
}

/* Catches a chunk that is dropped though it has the only copy, one that is counted twice, and a switch that does not act. */
static void for_evictions(void)
{
	for (uint64_t replace = OFF; replace <= ALWAYS; replace += ALWAYS) {
		int fd = little_spare(replace);
		uint64_t replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED), to_spare = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);
		struct job j = job_begin(0, WANTED, 31);

		CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
		for (int n = 0; n < 4; n++)
			turn(fd, &j, WIDE);
		job_check_gpu(&j);
		replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED) - replaced;
		to_spare = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) - to_spare;
		printf("# %llu evictions to spare memory, %llu in another's place\n", (unsigned long long)to_spare,
		       (unsigned long long)replaced);
		CHECK(replace ? replaced > 0 && replaced <= to_spare : !replaced);
		job_end(&j);
		all_idle(fd);
		close(fd);
	}
}

/*
 * A lender that has lent all that is free still has what could make way. Catches one that is passed over since nothing is free, although the
 * memory, not the limit, is what bounds it.
 */
static void where_nothing_is_free(void)
{
	int fd = begin(0x2, 0x1, SMALL);
	uint64_t replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED);
	struct job j;

	knob(fd, 0, "spare_replace", ALWAYS);
	knob(fd, 1, "lend_reserve_chunks", 0);
	knob(fd, 1, "lend_limit_percent", 100);
	CHECK_OK(limit_chunks(fd, 1, SPARE));
	j = job_begin(0, WANTED, 37);
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
	CHECK_EQ(mem_info(fd, 1).free, 0);
	CHECK_EQ(lent(fd, 1), SPARE);
	for (int n = 0; n < 2; n++)
		turn(fd, &j, WIDE);
	job_check_gpu(&j);
	CHECK(of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED) > replaced);
	job_end(&j);
	CHECK_OK(limit_chunks(fd, 1, 0));
	all_idle(fd);
	close(fd);
}

/* A job on GPU 0, which ends; never is more lent than the limit. What was replaced meanwhile. */
static uint64_t replaced_by(int fd, uint64_t blocks, uint64_t seed, int turns, uint32_t wide)
{
	uint64_t replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED);
	struct job j = job_begin(0, blocks, seed);

	for (int n = 0; n < turns; n++) {
		job_turn(&j, wide);
		CHECK(lent(fd, 1) <= SPARE);
	}
	job_end(&j);
	all_idle(fd);
	return of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED) - replaced;
}

/* Without write-back the host has a copy of nothing lent, so nothing can make way. */
static void never_the_only_copy(void)
{
	int fd = little_spare(ALWAYS);

	knob(fd, 1, "write_back", 0);
	CHECK_EQ(replaced_by(fd, WANTED, 32, 3, WIDE), 0);
	close(fd);
}

/* What GPU 0 goes over is fetched ahead, from the host and through the neighbour; what it leaves is evicted ahead. */
static void fetch_over_both_links(int fd)
{
	knob(fd, 0, "pre_evict", 1);
	knob(fd, 0, "stream_prefetch", 1);
	knob(fd, 0, "prefetch_multi_path", 1);
}

/*
 * A stream that is fetched ahead over both links goes through spare memory that evictions keep full. Switched off, it has
 * nobody's place there.
 */
static void for_blocks_on_their_way(void)
{
	for (uint64_t replace = OFF; replace <= ALWAYS; replace += ALWAYS) {
		int fd = little_spare(replace);
		uint64_t fills = of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS), replaced;

		fetch_over_both_links(fd);
		replaced = replaced_by(fd, 2 * WANTED, 33, 6, 1);
		fills = of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS) - fills;
		printf("# %llu blocks over the lender's link, %llu replaced\n", (unsigned long long)fills,
		       (unsigned long long)replaced);
		CHECK(replace ? fills > 0 && replaced > 0 : !replaced);
		close(fd);
	}
}

/* Catches a chunk that is nobody's: its block let go of it while somebody else looked whether it can make way, and gave up. */
static void of_one_who_dies(void)
{
	int fd = little_spare(ALWAYS);
	uint64_t replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED);

	fetch_over_both_links(fd);
	for (int n = 0; n < rounds(4); n++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			struct job j = job_begin(0, 2 * WANTED, 36);

			for (;;)
				job_turn(&j, 1);
		}
		/* Until it is well under way, and a little more, each time another. */
		CHECK(WITHIN(20000, of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED) > replaced + 20));
		usleep((useconds_t)(5003 * (n % 7)));
		end_child(pid);
		all_idle(fd);
		replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED);
	}
	close(fd);
}

/* Two borrowers in each other's place. */
static void for_two_borrowers(void)
{
	int fd = begin(0x2, 0x5, SMALL);
	uint64_t replaced = of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED);
	struct job j[2];

	knob(fd, 1, "lend_limit_mib", SPARE * 2);
	knob(fd, 0, "spare_replace", ALWAYS);
	knob(fd, 2, "spare_replace", ALWAYS);
	j[0] = job_begin(0, WANTED, 34);
	j[1] = job_begin(2, WANTED, 35);
	for (int n = 0; n < 3; n++)
		for (int b = 0; b < 2; b++)
			turn(fd, &j[b], WIDE);
	CHECK(of_gpu(fd, 1, HUVM_CNT_SPARE_REPLACED) > replaced);
	for (int b = 0; b < 2; b++)
		job_end(&j[b]);
	all_idle(fd);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "for_evictions", for_evictions },
	{ "where_nothing_is_free", where_nothing_is_free },
	{ "never_the_only_copy", never_the_only_copy },
	{ "for_blocks_on_their_way", for_blocks_on_their_way },
	{ "of_one_who_dies", of_one_who_dies },
	{ "for_two_borrowers", for_two_borrowers },
};
KTAP_MAIN(tests)
