// SPDX-License-Identifier: GPL-2.0
/*
 * Under stress: a lender whose own job allocates all of its memory and frees it, again and again, while two borrow from it; and
 * processes killed at moments that a seed chooses. Nobody loses a byte, nothing stays lent, every turn has a bound.
 */
#include "lend_lib.h"

/* So that the borrowers want more spare memory than there is: the owner finds it lent. */
#define SMALL 4u
#define WANTED 12u
/* A turn of the lender's job: all its memory filled, checked, freed. It takes about a second on an idle machine. */
#define TURN_MAX_S 20.0

/* All techniques: what the owner meets is a chunk in any state. */
static void all_on(int fd)
{
	for (uint32_t g = 0; g < gpu_count(fd); g++) {
		knob(fd, g, "pre_evict", 1);
		knob(fd, g, "pre_evict_share_percent", 10);
		knob(fd, g, "stream_prefetch", 1);
		knob(fd, g, "prefetch_amount_mib", 8);
		knob(fd, g, "prefetch_confirm_steps", 2);
		knob(fd, g, "parallel_fetch", 1);
		knob(fd, g, "prefetch_multi_path", 1);
		knob(fd, g, "large_page_evict", 1);
		knob(fd, g, "fair_memory", 1);
	}
}

static volatile int stop;

struct stream {
	struct job j;
	uint64_t turns;
	pthread_t thread;
};

static void *streams(void *arg)
{
	struct stream *s = arg;

	while (!stop) {
		job_turn(&s->j, s->turns & 1 ? WIDE : 1);
		if (s->turns++ % 4 == 3)
			job_check_gpu(&s->j);
	}
	return NULL;
}

static void stream_begin(struct stream *s, uint32_t gpu, uint64_t seed)
{
	s->turns = 0;
	s->j = job_begin(gpu, WANTED, seed);
	CHECK_EQ(pthread_create(&s->thread, NULL, streams, s), 0);
}

static void stream_end(struct stream *s)
{
	CHECK_EQ(pthread_join(s->thread, NULL), 0);
	CHECK(s->turns > 0);
	job_end(&s->j);
}

static void storm(uint64_t write_back)
{
	int fd = begin(0x2, 0x5, SMALL);
	uint64_t back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS), copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED);
	uint64_t ns = of_gpu(fd, 1, HUVM_CNT_RECLAIM_NS);
	struct stream s[2];
	double longest = 0;
	int n;

	all_on(fd);
	knob(fd, 1, "write_back", write_back);
	/* Else it would evict ahead what its own job just wrote, and lend that. */
	knob(fd, 1, "pre_evict", 0);
	CHECK_OK(limit_chunks(fd, 1, WANTED));
	stop = 0;
	stream_begin(&s[0], 0, 90);
	stream_begin(&s[1], 2, 91);
	for (n = 0; n < rounds(8); n++) {
		double from = seconds(), took;
		struct job own = job_begin(1, WANTED, 100 + (uint64_t)n);

		CHECK_EQ(lent(fd, 1), 0);
		job_end(&own);
		took = seconds() - from;
		longest = took > longest ? took : longest;
		CHECK(took < TURN_MAX_S * time_scale());
		/* The borrowers come back, and want more than there is. */
		CHECK(WITHIN(10000, lent(fd, 1) >= WANTED / 2));
	}
	stop = 1;
	stream_end(&s[0]);
	stream_end(&s[1]);
	back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS) - back;
	copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED) - copied;
	ns = of_gpu(fd, 1, HUVM_CNT_RECLAIM_NS) - ns;
	printf("# %d turns, the longest %.2f s; %llu reclaims, %llu with a copy, %llu us each; the borrowers had %llu and %llu turns\n",
	       n, longest, (unsigned long long)back, (unsigned long long)copied,
	       (unsigned long long)(ns / 1000 / (back ? back : 1)), (unsigned long long)s[0].turns,
	       (unsigned long long)s[1].turns);
	/* How many is chance: a borrower that is quicker than the owner has fetched its blocks before. Suite reclaim counts. */
	CHECK(copied <= back);
	all_idle(fd);
}

static void storm_with_write_back(void)
{
	storm(1);
}

static void storm_without_write_back(void)
{
	storm(0);
}

enum { BORROWER = 1, OWNER = 2 };

static pid_t child(uint32_t gpu, int comes_and_goes)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		for (uint64_t n = 0;; n++) {
			struct job j = job_begin(gpu, WANTED, 1 + n % 7);

			for (int turn = 0; turn < (comes_and_goes ? 1 : 1000000); turn++)
				job_turn(&j, turn & 1 ? WIDE : 1);
			job_end(&j);
		}
	}
	return pid;
}

/* GPU 0's borrower and GPU 1's owner are killed, one, the other, or both; GPU 2's borrower lives through all of it. */
static void killed_at_random(void)
{
	int fd = begin(0xa, 0x5, SMALL);
	struct stream s;
	int n;

	all_on(fd);
	CHECK_OK(limit_chunks(fd, 1, WANTED));
	stop = 0;
	stream_begin(&s, 2, 95);
	for (n = 0; n < rounds(6); n++) {
		int who = 1 + n % 3;
		pid_t borrower = child(0, 0), owner = child(1, 1);

		usleep((useconds_t)chance(n & 1 ? 100000 : 700000));
		if (who & BORROWER)
			end_child(borrower);
		if (who & OWNER)
			end_child(owner);
		/* The other one goes on for a while. */
		usleep((useconds_t)chance(100000));
		if (!(who & BORROWER))
			end_child(borrower);
		if (!(who & OWNER))
			end_child(owner);
		/* What is lent now, the survivor has; of the dead nothing is left. */
		CHECK(WITHIN(5000, is_idle(fd, 0)));
		CHECK(WITHIN(5000, !mem_info(fd, 1).used && !mem_info(fd, 1).pinned));
		CHECK(WITHIN(5000, lent(fd, 1) + lent(fd, 3) <= WANTED));
	}
	stop = 1;
	stream_end(&s);
	printf("# %d rounds, the survivor had %llu turns\n", n, (unsigned long long)s.turns);
	all_idle(fd);
	CHECK(WITHIN(5000, client_count(fd) == 1));
}

static const struct ktap_test tests[] = {
	{ "storm_with_write_back", storm_with_write_back, 90 },
	{ "storm_without_write_back", storm_without_write_back, 90 },
	{ "killed_at_random", killed_at_random, 90 },
};
KTAP_MAIN(tests)
