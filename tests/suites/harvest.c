// SPDX-License-Identifier: GPL-2.0
/*
 * Harvesting: GPU 0 borrows memory of GPU 1. What was evicted comes back whole, the lender gets its memory back, and nobody
 * sees anybody else's bytes.
 */
#include "huvm_lib.h"

#include <pthread.h>

#define BLOCKS 16u

/* A borrower on GPU 0; GPU 1 lends. */
static int borrower(void)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	return fd;
}

/* Starts each test alike: GPU 1 lends, writes back or not, and lends nothing yet. */
static void lender(int fd, uint64_t lends, uint64_t write_back)
{
	knob(fd, 1, "harvest_lend", lends);
	knob(fd, 1, "write_back", write_back);
}

/* Fills 1.5 times the GPU's memory on the GPU, so that a third of it is evicted. */
static uint64_t *oversubscribe(int fd, uint64_t *len, uint64_t seed)
{
	uint64_t *p;

	*len = chunk_count(fd, 0) * BLOCK * 3 / 2 & ~(BLOCKS * BLOCK - 1);
	p = managed(fd, *len);
	gpu_fill(fd, 0, p, *len, BLOCKS, seed, 3);
	return p;
}

static void evicts_to_the_neighbour(void)
{
	int fd = borrower();
	uint64_t len, *p, out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS), d2h = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);

	lender(fd, 1, 0);
	p = oversubscribe(fd, &len, 7);
	CHECK(lent(fd, 1) > 0);
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) > out);
	/* Nothing went to the host. */
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), d2h);
	for (int n = 0; n < 3; n++) {
		gpu_check(fd, 0, p, len, BLOCKS, 7, 3);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 0);
	}
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_HIT_BYTES) > 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), d2h);
	cpu_check(p, len, 7, 3);
	/* All of it is on the host now. */
	gets_idle(fd, 1);
	close(fd);
}

static void exit_gives_back(void)
{
	int fd = borrower(), other = huvm_open();
	uint64_t len, *p;

	lender(fd, 1, 1);
	p = oversubscribe(fd, &len, 9);
	CHECK(lent(fd, 1) > 0);
	/* The middle, from inside a block to inside a block; then the head and the tail, with the file closed. */
	CHECK_OK(munmap((char *)p + len / 4 + PAGE, len / 2));
	close(fd);
	CHECK_OK(munmap(p, len));
	all_idle(other);
	close(other);
}

/* Waits until everything lent is removable. */
static void written_back(int fd)
{
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
}

static void owner_takes_it_back(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = borrower(), own = huvm_open();
		uint64_t all = of_gpu(fd, 1, HUVM_CNT_RECLAIMS), copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED);
		uint64_t len, *p, *q, mine = chunk_count(fd, 1) * 3 / 4 * BLOCK & ~(BLOCKS / 2 * BLOCK - 1);

		lender(fd, 1, write_back);
		p = oversubscribe(fd, &len, 5);
		CHECK(lent(fd, 1) > 0);
		if (write_back) {
			written_back(fd);
			CHECK(mem_info(fd, 1).lent_removable > 0);
		}
		CHECK_OK(gpu_register(own, 1));
		q = managed(own, mine);
		/* First touch: the owner sees zeroes, whatever was in its chunks. */
		gpu_check(own, 1, q, mine, BLOCKS / 2, 0, 0);
		gpu_fill(own, 1, q, mine, BLOCKS / 2, 100, 1);
		CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > all);
		if (write_back)
			CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED), copied);
		else
			CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED) > copied);
		gpu_check(fd, 0, p, len, BLOCKS, 5, 3);
		gpu_check(own, 1, q, mine, BLOCKS / 2, 100, 1);
		cpu_check(p, len, 5, 3);
		cpu_check(q, mine, 100, 1);
		CHECK_OK(munmap(p, len));
		CHECK_OK(munmap(q, mine));
		close(fd);
		close(own);
	}
}

static void written_back_is_not_stale(void)
{
	int fd = borrower();
	uint64_t len, *p;

	lender(fd, 1, 1);
	p = oversubscribe(fd, &len, 1);
	for (uint64_t turn = 1; turn < 4; turn++) {
		written_back(fd);
		/* The CPU writes what is in spare memory and on the host alike; the GPU must see it. */
		for (uint64_t i = 0; i < len / 8; i += PAGE / 8)
			p[i] += 1000;
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	}
	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t want = 1 + 3 * i + 3 + (i % (PAGE / 8) ? 0 : 3000);

		if (p[i] != want)
			FAIL("word %llu: %llu, not %llu", (unsigned long long)i, (unsigned long long)p[i],
			     (unsigned long long)want);
	}
	close(fd);
}

static void limits_and_switch(void)
{
	int fd = borrower();
	uint64_t len, *p;

	lender(fd, 1, 0);
	knob(fd, 1, "lend_limit_percent", 10);
	p = oversubscribe(fd, &len, 11);
	CHECK(lent(fd, 1) > 0);
	CHECK(lent(fd, 1) <= chunk_count(fd, 1) / 10);
	knob(fd, 1, "lend_limit_percent", 100);
	gpu_check(fd, 0, p, len, BLOCKS, 11, 3);
	/* Lowered again, what is too much comes home, and no more; nobody moves anything meanwhile. */
	CHECK(lent(fd, 1) > chunk_count(fd, 1) / 10);
	knob(fd, 1, "lend_limit_percent", 10);
	CHECK(WITHIN(5000, lent(fd, 1) <= chunk_count(fd, 1) / 10));
	give_time(300);
	CHECK_EQ(lent(fd, 1), chunk_count(fd, 1) / 10);
	gpu_check(fd, 0, p, len, BLOCKS, 11, 3);
	knob(fd, 1, "lend_limit_percent", 100);
	gpu_check(fd, 0, p, len, BLOCKS, 11, 3);
	/* Switched off, everything comes home. */
	knob(fd, 1, "harvest_lend", 0);
	CHECK(WITHIN(5000, !lent(fd, 1)));
	gpu_check(fd, 0, p, len, BLOCKS, 11, 3);
	CHECK_EQ(lent(fd, 1), 0);
	cpu_check(p, len, 11, 3);
	close(fd);
}

/*
 * A GPU that computes takes no more in than its owner allows; the rest goes to the host. One that does not takes all. Catches a limit
 * that nobody keeps to, that holds for an idle GPU, or that refuses what should have gone elsewhere.
 */
static void paced_while_it_computes(void)
{
	int fd = borrower(), own = huvm_open();
	struct huvm_instr in = over(HUVM_OP_FILL, BLOCK, 1);
	uint64_t len, *p, *q = managed(own, BLOCK), id, home, at_most;
	time_t began = time(NULL);

	lender(fd, 1, 0);
	knob(fd, 1, "lend_rate_mb_s", 1);
	CHECK_OK(gpu_register(own, 1));
	in.dst = (uintptr_t)q;
	in.imm0 = 4;
	in.imm1 = 3;
	/* Until its result is taken, it counts as one that runs. */
	CHECK_OK(launch(own, 1, 1, &in, 1, 8, &id));
	home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	p = oversubscribe(fd, &len, 12);
	/* Two at once, then one each two seconds. */
	at_most = 3 + (uint64_t)(time(NULL) - began) / 2;
	CHECK(lent(fd, 1) > 0 && lent(fd, 1) <= at_most);
	CHECK(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H) > home);
	gpu_check(fd, 0, p, len, BLOCKS, 12, 3);
	CHECK_EQ(wait_launch(own, id).status, HUVM_LAUNCH_DONE);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	CHECK(lent(fd, 1) > 6);
	gpu_check(fd, 0, p, len, BLOCKS, 13, 3);
	cpu_check(q, BLOCK, 4, 3);
	knob(fd, 1, "lend_rate_mb_s", 0);
	close(own);
	close(fd);
}

/* A GPU that is full has room ahead of demand, so that who comes next evicts nothing; without pre-eviction, one for each block. */
static void pre_eviction(void)
{
	int fd = borrower();
	const uint64_t full = chunk_count(fd, 0) * BLOCK, more = 2 * BLOCK;
	uint64_t len, *p, *q, ahead, in_fault;

	lender(fd, 1, 1);
	knob(fd, 0, "pre_evict_share_percent", 25);
	for (uint64_t on = 0; on < 2; on++) {
		knob(fd, 0, "pre_evict", on);
		if (!on)
			give_time(200);
		ahead = of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS);
		p = managed(fd, full);
		q = managed(fd, more);
		gpu_fill(fd, 0, p, full, BLOCKS, 6, 3);
		if (on)
			CHECK(WITHIN(5000, mem_info(fd, 0).free >= 2));
		else
			CHECK_EQ(mem_info(fd, 0).free, 0);
		in_fault = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_IN_FAULT);
		gpu_fill(fd, 0, q, more, BLOCKS, 8, 3);
		in_fault = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_IN_FAULT) - in_fault;
		ahead = of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS) - ahead;
		printf("# pre-eviction %s: %llu ahead, %llu on demand\n", on ? "on" : "off", (unsigned long long)ahead,
		       (unsigned long long)in_fault);
		CHECK_EQ(ahead > 0, on);
		CHECK(on ? !in_fault : in_fault >= 2);
		gpu_check(fd, 0, p, full, BLOCKS, 6, 3);
		cpu_check(p, full, 6, 3);
		cpu_check(q, more, 8, 3);
		CHECK_OK(munmap(p, full));
		CHECK_OK(munmap(q, more));
		/* And in the middle of everything. */
		p = oversubscribe(fd, &len, 2);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
		gpu_check(fd, 0, p, len, BLOCKS, 3, 3);
		cpu_check(p, len, 3, 3);
		CHECK_OK(munmap(p, len));
	}
	knob(fd, 0, "pre_evict", 0);
	close(fd);
}

/* A stream is fetched ahead of its faults, from the neighbour and from the host. */
static void streams(void)
{
	for (int harvest = 0; harvest < 2; harvest++) {
		int fd = huvm_open();
		uint64_t len, *p, turn = 0, ahead = 0, before = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS);

		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_amount_mib", 16));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", harvest));
		lender(fd, harvest, 1);
		p = oversubscribe(fd, &len, 4);
		/* How much of it depends on who is quicker, the stream or the thread: more turns, where few blocks were in time. */
		for (; turn < 3 || (turn < 20 && ahead <= len / BLOCK / 2); turn++) {
			/* One GPU block walks through all of it. */
			gpu_scale(fd, 0, p, len, 1, 1, 1);
			p[turn * 1000] += 0;
			ahead = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS) - before;
		}
		printf("# %llu blocks fetched ahead of %llu\n", (unsigned long long)ahead, (unsigned long long)(turn * len / BLOCK));
		CHECK(ahead > len / BLOCK / 2);
		cpu_check(p, len, 4 + turn, 3);
		CHECK_OK(munmap(p, len));
		close(fd);
		fd = huvm_open();
		all_idle(fd);
		close(fd);
	}
}

/* Adds 1 to each word; each of the launch's blocks walks through its own part, so that a batch has faults on several. */
static void add_one(int fd, uint64_t *p, uint64_t len, uint32_t blocks)
{
	struct huvm_instr i = over(HUVM_OP_SCALE, len, blocks);

	i.block_stride = len / blocks;
	i.step_stride = PIECE;
	i.dst = i.a = (uintptr_t)p;
	i.imm0 = i.imm1 = 1;
	run_ok(fd, 0, blocks, &i, 1, 8);
}

/* Reads the stream to its end; every event has this @cause. How many there were. */
static uint64_t events_because(int fd, uint32_t cause)
{
	struct huvm_event e;
	uint64_t n = 0;

	for (; read(fd, &e, sizeof(e)) == sizeof(e); n++) {
		CHECK_EQ(e.dropped, 0);
		CHECK_EQ(e.cause, cause);
	}
	CHECK_EQ(errno, EAGAIN);
	return n;
}

/*
 * Pages come from the host over the neighbour's link too, and leave nothing in its memory. It is told what they come for. Who does not
 * borrow, or is lent nothing, has nothing carried.
 */
static void over_the_neighbour(void)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		int fd = huvm_open();
		uint64_t len, *p, turn = 0, before, fills = 0, h2d, told = 0;
		ARG(huvm_events, on, .records = 4096, .mask = 1u << HUVM_EVENT_LEND);

		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
		fcntl(fd, F_SETFL, O_NONBLOCK);
		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "parallel_fetch", !ahead));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", ahead));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_multi_path", ahead));
		lender(fd, 1, 1);
		/* It fits, so that nothing is evicted there. */
		len = (chunk_count(fd, 0) - 4) * BLOCK;
		p = managed(fd, len);
		gpu_fill(fd, 0, p, len, BLOCKS, 4, 3);
		before = of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS);
		h2d = of_gpu(fd, 0, HUVM_CNT_BYTES_H2D);
		for (; turn < 3 || (turn < 20 && fills <= len / BLOCK / 8); turn++) {
			CHECK_OK(migrate(fd, p, len, HUVM_PLACE_HOST));
			add_one(fd, p, len, ahead ? 1 : BLOCKS);
			fills = of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS) - before;
			told += events_because(fd, ahead ? HUVM_CAUSE_PREFETCH : HUVM_CAUSE_GPU_FAULT);
		}
		CHECK(told > 0);
		printf("# %s: %llu blocks over the neighbour\n", ahead ? "prefetch" : "faults", (unsigned long long)fills);
		CHECK(fills > len / BLOCK / 8);
		CHECK(of_gpu(fd, 0, HUVM_CNT_BYTES_H2D) > h2d);
		cpu_check(p, len, 4 + turn, 3);
		CHECK(WITHIN(5000, !lent(fd, 1)));
		for (int lends = 0; lends < 2; lends++) {
			/* Once the thread is through with what it began before. */
			knob(fd, 1, "lend_limit_percent", lends ? 100 : 0);
			CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", !lends));
			give_time(200);
			fills = of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS);
			for (int n = 0; n < 3; n++) {
				CHECK_OK(migrate(fd, p, len, HUVM_PLACE_HOST));
				add_one(fd, p, len, ahead ? 1 : BLOCKS);
			}
			CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_SPARE_FILLS), fills);
			CHECK_EQ(lent(fd, 1), 0);
		}
		cpu_check(p, len, 10 + turn, 3);
		CHECK_OK(munmap(p, len));
		close(fd);
	}
}

static volatile int stop;

static void *owner_comes_and_goes(void *arg)
{
	uint64_t turns = 0;

	(void)arg;
	do {
		int own = huvm_open();
		uint64_t mine = chunk_count(own, 1) / 2 * BLOCK & ~(BLOCKS * BLOCK - 1), *q = managed(own, mine);

		CHECK_OK(gpu_register(own, 1));
		gpu_check(own, 1, q, mine, BLOCKS, 0, 0);
		gpu_fill(own, 1, q, mine, BLOCKS, turns, 7);
		cpu_check(q, mine, turns, 7);
		close(own);
		CHECK_OK(munmap(q, mine));
		turns++;
	} while (!stop);
	return (void *)(uintptr_t)turns;
}

static void *cpu_pokes(void *arg)
{
	volatile uint64_t *p = arg;
	uint64_t sum = 0;

	for (uint64_t i = 0; !stop; i += 77)
		sum += p[i % 64 * (PAGE / 8) + 1];
	return (void *)(uintptr_t)sum;
}

static void reclaim_storm(void)
{
	int fd = borrower();
	uint64_t len, *p;
	pthread_t t[2];
	void *turns;

	lender(fd, 1, 1);
	knob(fd, 0, "pre_evict", 1);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 2));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_multi_path", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "parallel_fetch", 1));
	p = oversubscribe(fd, &len, 1);
	stop = 0;
	CHECK_EQ(pthread_create(&t[0], NULL, owner_comes_and_goes, NULL), 0);
	CHECK_EQ(pthread_create(&t[1], NULL, cpu_pokes, p), 0);
	for (uint64_t turn = 0; turn < 6; turn++) {
		gpu_check(fd, 0, p, len, BLOCKS, 1 + turn, 3);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	}
	stop = 1;
	pthread_join(t[0], &turns);
	pthread_join(t[1], NULL);
	printf("# the owner came %llu times\n", (unsigned long long)(uintptr_t)turns);
	cpu_check(p, len, 7, 3);
	knob(fd, 0, "pre_evict", 0);
	CHECK_OK(munmap(p, len));
	close(fd);
	fd = huvm_open();
	all_idle(fd);
	close(fd);
}

static void killed(void)
{
	int fd = huvm_open();

	lender(fd, 1, 1);
	for (int turn = 0; turn < 6; turn++) {
		pid_t child = fork();

		if (!child) {
			int b = borrower();
			uint64_t len, *p;

			CHECK_OK(set_knob(b, HUVM_SCOPE_SPACE, "stream_prefetch", turn % 3));
			CHECK_OK(set_knob(b, HUVM_SCOPE_SPACE, "harvest_borrow", turn < 3));
			CHECK_OK(set_knob(b, HUVM_SCOPE_SPACE, "prefetch_multi_path", 1));
			CHECK_OK(set_knob(b, HUVM_SCOPE_SPACE, "parallel_fetch", 1));
			p = oversubscribe(b, &len, 3);
			for (;;)
				gpu_scale(b, 0, p, len, turn % 2 ? BLOCKS : 1, 1, 1);
		}
		CHECK(child > 0);
		usleep(150000 + 70000 * turn);
		end_child(child);
		all_idle(fd);
	}
	close(fd);
}

static void lender_leaves(void)
{
	int fd = borrower();
	uint64_t len, *p;
	char name[32];

	lender(fd, 1, 0);
	pci_name(fd, 1, name);
	p = oversubscribe(fd, &len, 13);
	CHECK(lent(fd, 1) > 0);
	CHECK_OK(write_file(DRIVER "unbind", name));
	gpu_check(fd, 0, p, len, BLOCKS, 13, 3);
	cpu_check(p, len, 13, 3);
	CHECK_OK(write_file(DRIVER "bind", name));
	/* The borrower leaves while it borrows. */
	lender(fd, 1, 0);
	pci_name(fd, 0, name);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	CHECK(lent(fd, 1) > 0);
	CHECK_OK(write_file(DRIVER "unbind", name));
	cpu_check(p, len, 14, 3);
	CHECK_EQ(lent(fd, 1), 0);
	CHECK_OK(write_file(DRIVER "bind", name));
	close(fd);
}

/* Last: the lender falls off the bus. What has a second copy is there, the rest is a clear error. */
static void lender_dies(void)
{
	int fd = borrower();
	struct huvm_instr in;
	uint64_t len, *p, *q, only, out;
	struct huvm_wait w;
	char name[32];

	lender(fd, 1, 1);
	pci_name(fd, 1, name);
	p = oversubscribe(fd, &len, 17);
	written_back(fd);
	knob(fd, 1, "write_back", 0);
	/* The thread that writes back has read it by then. */
	give_time(200);
	q = managed(fd, 8 * BLOCK);
	gpu_fill(fd, 0, q, 8 * BLOCK, 8, 19, 1);
	only = mem_info(fd, 1).lent_only;
	CHECK(only > 0 && mem_info(fd, 1).lent_removable > 0);
	in = over(HUVM_OP_CHECK, len, 8);
	in.a = (uintptr_t)p;
	in.imm0 = 17;
	in.imm1 = 3;
	out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);
	test_reg(fd, 1, INJ_GONE, 0xdead);
	/* At once, when nobody knows: who fetches from there reads all ones, and is to see none of them. What goes there is gone as well. */
	w = run_program(fd, 0, 8, &in, 1, 8);
	out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) - out;
	printf("# the launch ended with status %u, error %u; %llu chunks evicted to what was gone\n", w.status, w.error,
	       (unsigned long long)out);
	CHECK_EQ(w.mismatches, 0);
	uint64_t gone = unreadable(p, len, 17, 3) + unreadable(q, 8 * BLOCK, 19, 1);
	printf("# %llu chunks were there alone, %llu pages are gone\n", (unsigned long long)only, (unsigned long long)gone);
	CHECK(gone > 0 && gone <= (only + out) * 512);
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK_EQ(unreadable(p, len, 17, 3) + unreadable(q, 8 * BLOCK, 19, 1), gone);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "evicts_to_the_neighbour", evicts_to_the_neighbour, 60 },
	{ "exit_gives_back", exit_gives_back, 60 },
	{ "owner_takes_it_back", owner_takes_it_back, 90 },
	{ "written_back_is_not_stale", written_back_is_not_stale, 90 },
	{ "limits_and_switch", limits_and_switch, 60 }, { "paced_while_it_computes", paced_while_it_computes, 60 },
	{ "pre_eviction", pre_eviction, 90 },
	{ "streams", streams, 90 },
	{ "over_the_neighbour", over_the_neighbour, 120 },
	{ "reclaim_storm", reclaim_storm, 120 },
	{ "killed", killed, 90 },
	{ "lender_leaves", lender_leaves, 90 },
	{ "lender_dies", lender_dies, 90 },
};
KTAP_MAIN(tests)
