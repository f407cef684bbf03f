// SPDX-License-Identifier: GPL-2.0
/* Oversubscription: working sets of 1.1, 1.5 and 3 times VRAM, several clients, data verified on both sides. */
#include "huvm_lib.h"

#include <pthread.h>

/* Rounded to what `over` wants. */
static uint64_t sized(int fd, uint32_t gpu, unsigned int percent, uint32_t blocks)
{
	uint64_t vram = chunk_count(fd, gpu) * BLOCK, unit = PIECE * blocks > BLOCK ? PIECE * blocks : BLOCK;

	return (vram * percent / 100 + unit - 1) / unit * unit;
}

/* With all of the GPU's memory, or @chunks of it. */
static void pass_with(uint32_t chunks, unsigned int percent, const char *preset)
{
	const uint32_t blocks = 32;
	int fd = huvm_open();
	uint64_t len, evictions;
	void *p;

	CHECK_OK(limit_chunks(fd, 0, chunks));
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, preset));
	len = sized(fd, 0, percent, blocks);
	p = managed(fd, len);
	cpu_fill(p, len, 7, 3);
	evictions = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVICTIONS);
	for (int i = 0; i < 2; i++)
		gpu_scale(fd, 0, p, len, blocks, 1, 1);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVICTIONS) > evictions);
	gpu_check(fd, 0, p, len, blocks, 9, 3);
	cpu_check(p, len, 9, 3);
	CHECK_OK(munmap(p, len));
	CHECK_OK(limit_chunks(fd, 0, 0));
	gets_idle(fd, 0);
}

static void pass_at(unsigned int percent, const char *preset)
{
	pass_with(0, percent, preset);
}

static void at_110(void)	{ pass_at(110, "stock-595"); }
static void at_150(void)	{ pass_at(150, "stock-595"); }
static void at_300(void)	{ pass_at(300, "stock-595"); }
static void at_150_random(void)	{ pass_at(150, "random"); }
/* Its pages are small, and each costs a fault: a third of the memory. */
static void at_150_460(void)	{ pass_with(8, 150, "stock-460"); }

/* A cycle under an order of eviction: bytes brought in by the last of its passes, and chunks evicted as recent ones. */
static void cycle(uint64_t order, uint64_t *brought, uint64_t *recent)
{
	const uint32_t blocks = 32;
	int fd = huvm_open();
	uint64_t len;
	void *p;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, "stock-595"));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_order", order));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_guard_chunks", 8));
	len = sized(fd, 0, 150, blocks);
	p = managed(fd, len);
	cpu_fill(p, len, 7, 3);
	for (int i = 0; i < 4; i++) {
		*brought = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_BYTES_H2D);
		gpu_scale(fd, 0, p, len, blocks, 1, 1);
		*brought = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_BYTES_H2D) - *brought;
	}
	*recent = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVICTIONS_RECENT);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_REFAULTS) != 0);
	gpu_check(fd, 0, p, len, blocks, 11, 3);
	cpu_check(p, len, 11, 3);
	CHECK_OK(munmap(p, len));
	gets_idle(fd, 0);
	close(fd);
}

static void cycles_keep_a_part(void)
{
	/* Least recently migrated brings in all of it each time; half of the memory too much is half as much at best. */
	uint64_t lrm, brought, recent;

	cycle(0, &lrm, &recent);
	CHECK_EQ(recent, 0);
	for (uint64_t order = 2; order <= 3; order++) {
		cycle(order, &brought, &recent);
		CHECK(recent != 0);
		CHECK(brought < lrm * 7 / 10);
	}
}

/*
 * Fourteen blocks that are wanted twice in a pass, and twice eighteen that are wanted once, on 28 chunks: evictions after the fourth of 16
 * passes, as the order learns what comes back sooner, or does not.
 */
static uint64_t wanted(uint64_t by_reuse)
{
	static const struct { int from, to; } part[4] = { { 0, 14 }, { 14, 32 }, { 0, 14 }, { 32, 50 } };
	const int passes = 16;
	int fd = huvm_open();
	uint64_t *p, evicted = 0;

	CHECK_OK(limit_chunks(fd, 0, 28));
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, "stock-595"));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_order", 3));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_guard_chunks", 4));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_by_reuse", by_reuse));
	p = managed(fd, 50 * BLOCK);
	for (int b = 0; b < 50; b++)
		cpu_fill(p + b * BLOCK / 8, PIECE, 7, 3);
	for (int i = 0; i < passes; i++) {
		if (i == 4)
			evicted = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVICTIONS);
		for (int k = 0; k < 4; k++)
			for (int b = part[k].from; b < part[k].to; b++)
				gpu_scale(fd, 0, p + b * BLOCK / 8, PIECE, 1, 1, 1);
	}
	evicted = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVICTIONS) - evicted;
	for (int b = 0; b < 50; b++)
		cpu_check(p + b * BLOCK / 8, PIECE, 7 + (b < 14 ? 2 : 1) * passes, 3);
	CHECK_OK(munmap(p, 50 * BLOCK));
	CHECK_OK(limit_chunks(fd, 0, 0));
	gets_idle(fd, 0);
	close(fd);
	return evicted;
}

/* With the table and the switch alone it is 396 to 451 by age, and 324 to 345 by reuse (60 seeds). */
static void wanted_often_stays(void)
{
	uint64_t by_age = wanted(0), by_reuse = wanted(1);

	printf("# evictions in twelve passes: %llu by age, %llu by reuse\n", (unsigned long long)by_age, (unsigned long long)by_reuse);
	CHECK(by_age > 372);
	CHECK(by_reuse < 372);
}

static void host_pieces(void)
{
	/* Eviction goes to 2 MiB, 64 KiB or 4 KiB host memory, as the knob says. */
	static const struct { uint64_t knob; uint32_t kib; int cnt; } sizes[] = {
		{ 3, 2048, HUVM_CNT_HOST_2M }, { 1, 64, HUVM_CNT_HOST_64K }, { 0, 4, HUVM_CNT_HOST_4K },
	};

	for (unsigned int i = 0; i < 3; i++) {
		int fd = huvm_open();
		void *p = managed(fd, 4 * BLOCK);

		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", sizes[i].knob));
		gpu_fill(fd, 0, p, 4 * BLOCK, 16, 1, 1);
		CHECK_EQ(block_info(fd, p).host_piece_kib, 0);
		CHECK_OK(migrate(fd, p, 4 * BLOCK, HUVM_PLACE_HOST));
		CHECK_EQ(block_info(fd, p).host_piece_kib, sizes[i].kib);
		CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, sizes[i].cnt), 4 * 2048 / sizes[i].kib);
		cpu_check(p, 4 * BLOCK, 1, 1);
		close(fd);
	}
}

static void zero_copy(void)
{
	const uint32_t blocks = 16;
	int fd = huvm_open();
	void *p = managed(fd, 4 * BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, "zero-copy"));
	cpu_fill(p, 4 * BLOCK, 5, 5);
	gpu_scale(fd, 0, p, 4 * BLOCK, blocks, 2, 0);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 0);
	CHECK_EQ(block_info(fd, p).host_pages, 512);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_BYTES_H2D), 0);
	cpu_check(p, 4 * BLOCK, 10, 10);
}

static void evicted_on_request(void)
{
	int fd = huvm_open();
	void *p = managed(fd, 8 * BLOCK);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 3);

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, 8 * BLOCK, 16, 3, 1);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	CHECK_EQ(e.evicted, 3);
	gpu_check(fd, 0, p, 8 * BLOCK, 16, 3, 1);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	cpu_check(p, 8 * BLOCK, 3, 1);
}

/* Word @i of the block at @p is 4 + 9 * i: the GPU reads @n pieces of 64 KiB from @first on, all at once. */
static void gpu_reads(int fd, uint64_t *p, uint32_t first, uint32_t n)
{
	struct huvm_instr in = { .op = HUVM_OP_CHECK, .count = PIECE / 8, .steps = 1, .block_stride = PIECE };

	in.a = (uintptr_t)p + first * PIECE;
	in.imm0 = 4 + 9 * first * (PIECE / 8);
	in.imm1 = 9;
	run_ok(fd, 0, n, &in, 1, 8);
}

/* The same, and the block leaves again. */
static void comes_and_goes(int fd, uint64_t *p, uint32_t first, uint32_t n)
{
	gpu_reads(fd, p, first, n);
	CHECK_EQ(evicts(fd, 1), 1);
}

/* Pages that the GPU has of a block once it read a piece of it; then the block leaves. */
static uint32_t comes_with(int fd, uint64_t *p)
{
	uint32_t pages;

	gpu_reads(fd, p, 0, 1);
	pages = block_info(fd, p).gpu_pages[0];
	CHECK_EQ(evicts(fd, 1), 1);
	return pages;
}

/* The same, when all of the block was wanted three times before, @at_once or in parts. */
static uint32_t comes_back_with(int fd, uint64_t *p, int at_once)
{
	for (int turn = 0; turn < 3; turn++) {
		for (uint32_t i = 1; !at_once && i < 32; i++)
			gpu_reads(fd, p, i, 1);
		comes_and_goes(fd, p, 0, at_once ? 32 : 1);
	}
	return comes_with(fd, p);
}

/* What was wanted at once the last times is fetched whole by the first fault (knob return_whole), what was wanted in parts is not. */
static void comes_back_whole(void)
{
	int fd = huvm_open(), turns = 0;
	uint64_t *p = managed(fd, BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, BLOCK, 4, 9);
	/* It does not come back yet. */
	comes_and_goes(fd, p, 0, 32);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(comes_back_with(fd, p, 1), PIECE / PAGE);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "return_whole", 1));
	for (int i = 0; i < 3; i++)
		CHECK_EQ(comes_back_with(fd, p, 0), PIECE / PAGE);
	/* Who fetches a batch may be too quick for the GPU to have all its faults in it. */
	while (comes_back_with(fd, p, 1) != BLOCK / PAGE)
		CHECK(++turns < 50);
	/* That told nothing, so the next time it has to show by faults again: it wants little now. */
	for (int i = 0; i < 2; i++)
		comes_and_goes(fd, p, 31, 1);
	CHECK_EQ(comes_back_with(fd, p, 0), PIECE / PAGE);
	cpu_check(p, BLOCK, 4, 9);
	printf("# whole after %d turns that were too slow\n", turns);
	close(fd);
}

/*
 * What comes is fetched whole (knob fetch_whole), but for one in eight, until these say that little of it is wanted, and again once they
 * say that much is; each range has its own say.
 */
static void comes_whole(void)
{
	int fd = huvm_open(), whole = 0;
	uint64_t *few = managed(fd, BLOCK), *other = managed(fd, BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(few, BLOCK, 4, 9);
	cpu_fill(other, BLOCK, 4, 9);
	/* A range is told from another where streams are looked for. */
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "return_whole", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 0));
	CHECK_EQ(comes_with(fd, few), PIECE / PAGE);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 1));
	/* Nothing is nothing; who said so asked nobody. */
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_mode", 0));
	CHECK_EQ(comes_with(fd, few), PIECE / PAGE);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_mode", 1));
	/* One that was never there says nothing. Of these eight do. */
	for (int i = 1; i <= 64; i++)
		CHECK_EQ(comes_with(fd, few), i % 8 ? BLOCK / PAGE : PIECE / PAGE);
	for (int i = 0; i < 24; i++)
		CHECK_EQ(comes_with(fd, few), PIECE / PAGE);
	CHECK_EQ(comes_with(fd, other), BLOCK / PAGE);
	for (int i = 0; i < 40; i++)
		comes_and_goes(fd, few, 0, 32);
	for (int i = 0; i < 8; i++)
		whole += comes_with(fd, few) == BLOCK / PAGE;
	CHECK_EQ(whole, 7);
	cpu_check(few, BLOCK, 4, 9);
	cpu_check(other, BLOCK, 4, 9);
	close(fd);
}

/* Blocks that come for the first time have their say as well: of a range that is gone over once, and of which little is wanted. */
static void comes_whole_the_first_time(void)
{
	enum { ALL = 80, OTHERS = 12 };
	int fd = huvm_open(), whole = 0;
	uint64_t *p = managed(fd, ALL * BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "return_whole", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 1));
	for (int i = 1; i <= ALL; i++, p += BLOCK / 8) {
		cpu_fill(p, BLOCK, 4, 9);
		CHECK_EQ(comes_with(fd, p), i % 8 && i < 64 ? BLOCK / PAGE : PIECE / PAGE);
		cpu_check(p, BLOCK, 4, 9);
	}
	/* Others have a say of their own, without streams too; but there are sixteen of these, and some share one. */
	for (int i = 0; i < OTHERS; i++) {
		p = managed(fd, BLOCK);
		cpu_fill(p, BLOCK, 4, 9);
		whole += comes_with(fd, p) == BLOCK / PAGE;
		cpu_check(p, BLOCK, 4, 9);
	}
	CHECK(whole > OTHERS / 2);
	close(fd);
}

/* What nobody asked for cannot be mapped for DMA: what was asked for comes without it. */
static void comes_whole_or_alone(void)
{
	int fd = huvm_open();
	uint64_t len = BLOCK, *p = managed(fd, len);

	CHECK_OK(gpu_register(fd, 0));
	/* The host has it in small pieces, each with a mapping of its own. */
	let_fail(fd, HUVM_FAIL_HOST_2M, ~0u);
	let_fail(fd, HUVM_FAIL_HOST_64K, ~0u);
	cpu_fill(p, len, 4, 9);
	let_fail(fd, HUVM_FAIL_HOST_2M, 0);
	let_fail(fd, HUVM_FAIL_HOST_64K, 0);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "return_whole", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 0));
	CHECK_EQ(comes_with(fd, p), PIECE / PAGE);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 1));
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	CHECK_EQ(comes_with(fd, p), PIECE / PAGE);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	CHECK_EQ(comes_with(fd, p), len / PAGE);
	cpu_check(p, len, 4, 9);
	close(fd);
}

/* A GPU with four chunks, all in use by the first four blocks of eight: word i is 6 + i. */
static uint64_t *four_of_eight(int fd)
{
	uint64_t *p = managed(fd, 8 * BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 4));
	gpu_fill(fd, 0, p, 4 * BLOCK, 4, 6, 1);
	CHECK_EQ(free_chunks(fd, 0), 0);
	return p;
}

/* The GPU fills a block for which a chunk must be found, and the next copy stands still for a while. */
static uint64_t begin_fill(int fd, uint64_t *p)
{
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 4);
	uint64_t id;

	i.dst = (uintptr_t)p;
	i.imm0 = 99;
	CHECK_OK(launch(fd, 0, 4, &i, 1, 8, &id));
	return id;
}

static void copy_in_waits_for_copy_out(void)
{
	/* The copy out of the victim stands still: what comes into its chunk must not overtake it. */
	int fd = huvm_open();
	uint64_t *p = four_of_eight(fd), was = of_gpu(fd, 0, HUVM_CNT_EVICTIONS), id;

	test_reg(fd, 0, INJ_CE_HANG, 1);
	id = begin_fill(fd, p + 4 * BLOCK / 8);
	/* It is counted when its copy was submitted. */
	CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_EVICTIONS) == was + 1));
	give_time_held(100);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	CHECK_EQ(wait_launch(fd, id).status, HUVM_LAUNCH_DONE);
	cpu_check(p, 4 * BLOCK, 6, 1);
	cpu_check(p + 4 * BLOCK / 8, BLOCK, 99, 0);
	CHECK_OK(limit_chunks(fd, 0, 0));
}

struct end {
	int fd;
	uint64_t launch;
};

static void *wait_for_end(void *arg)
{
	struct end *e = arg;

	CHECK_EQ(wait_launch(e->fd, e->launch).status, HUVM_LAUNCH_DONE);
	return NULL;
}

static void who_waits_is_listed(void)
{
	/* A copy stands still. The client waits for its launch, and who serves its fault waits for the copy. Catches a wait that
	 * nobody sees, one that is listed when it is over, and a name that makes a line of its own. */
	int fd = huvm_open();
	uint64_t *p = four_of_eight(fd);
	struct end e = { .fd = fd };
	pthread_t t;

	CHECK_OK(prctl(PR_SET_NAME, "\n9 1 x\033[ y"));
	CHECK(!is_listed("copy", 0) && !is_listed("launch", 0));
	test_reg(fd, 0, INJ_CE_HANG, 1);
	e.launch = begin_fill(fd, p + 4 * BLOCK / 8);
	CHECK_EQ(pthread_create(&t, NULL, wait_for_end, &e), 0);
	CHECK(WITHIN(5000, is_listed("launch", getpid())));
	CHECK(WITHIN(5000, is_listed("copy", 0)));
	test_reg(fd, 0, INJ_CE_HANG, 0);
	pthread_join(t, NULL);
	CHECK(!is_listed("launch", 0));
	CHECK_OK(prctl(PR_SET_NAME, "evict"));
	CHECK(WITHIN(5000, !is_listed("copy", 0)));
	cpu_check(p, 4 * BLOCK, 6, 1);
	cpu_check(p + 4 * BLOCK / 8, BLOCK, 99, 0);
	CHECK_OK(limit_chunks(fd, 0, 0));
}

static void free_when_copied_out(void)
{
	/* As above, and nobody waits for the chunk: it must not be free, for the next one, before the copy out of it is over. */
	int fd = huvm_open();
	uint64_t *p = four_of_eight(fd), id;
	pthread_t t;

	test_reg(fd, 0, INJ_CE_HANG, 1);
	CHECK_EQ(pthread_create(&t, NULL, evict_one, &fd), 0);
	give_time_held(200);
	CHECK_EQ(free_chunks(fd, 0), 0);
	id = begin_fill(fd, p + 4 * BLOCK / 8);
	give_time_held(200);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	pthread_join(t, NULL);
	CHECK_EQ(wait_launch(fd, id).status, HUVM_LAUNCH_DONE);
	cpu_check(p, 4 * BLOCK, 6, 1);
	cpu_check(p + 4 * BLOCK / 8, BLOCK, 99, 0);
	CHECK_OK(limit_chunks(fd, 0, 0));
}

struct place {
	int fd;
	uint64_t *p;
};

/* Brings the block to GPU 0. What went wrong. */
static void *brings(void *arg)
{
	const struct place *to = arg;

	return (void *)(intptr_t)(migrate(to->fd, to->p, BLOCK, 0) ? errno : 0);
}

/* A client of GPU 0 with a block whose word i is @add + i. */
static struct place a_block(uint64_t add)
{
	struct place at = { .fd = huvm_open() };

	at.p = managed(at.fd, BLOCK);
	CHECK_OK(gpu_register(at.fd, 0));
	cpu_fill(at.p, BLOCK, add, 1);
	return at;
}

/* Two threads bring the same block to the GPU, as soon as they are told to; all that comes before that is over when this says so. */
static void brings_twice(int ready, int when)
{
	struct place y = a_block(9);
	uint64_t error;
	pthread_t t[2];
	char go;

	CHECK_EQ(write(ready, "", 1), 1);
	CHECK_EQ(read(when, &go, 1), 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, brings, &y), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(t[i], (void **)&error), 0);
		CHECK_EQ(error, 0);
	}
	/* Where it is says nothing: who waited for the same chunk may have it by now. */
	cpu_check(y.p, BLOCK, 9, 1);
	_exit(0);
}

/* How long @pid has waited for a chunk, milliseconds; -1: it does not. */
static long waits_for_a_chunk(pid_t pid)
{
	FILE *f = fopen("/sys/kernel/debug/huvm/waits", "r");
	char line[200], what[32];
	long ms, age = -1;
	int who;

	CHECK(f && fgets(line, sizeof(line), f));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%ld %*d %d %*s %31s", &ms, &who, what) == 3 && who == pid && !strcmp(what, "chunk"))
			age = ms;
	fclose(f);
	return age;
}

/*
 * The GPU has one chunk, and the copy into that stands still. Of two calls that want it for one block one evicts, and the other lets it: not for
 * ever, and not if it is killed. Catches a wait without a bound, and one that a signal does not end.
 */
static void one_makes_room(int killed)
{
	struct place x = a_block(4);
	long last = 0, now;
	int ready[2], when[2], status;
	uint64_t error;
	pthread_t t;
	pid_t pid;
	char is;

	CHECK_OK(limit_chunks(x.fd, 0, 1));
	CHECK_OK(pipe(ready));
	CHECK_OK(pipe(when));
	pid = fork_child();
	if (!pid)
		brings_twice(ready[1], when[0]);
	/* Who registers may evict. */
	CHECK_EQ(read(ready[0], &is, 1), 1);
	test_reg(x.fd, 0, INJ_CE_HANG, 1);
	CHECK_EQ(pthread_create(&t, NULL, brings, &x), 0);
	CHECK(WITHIN(5000, is_listed("copy", getpid())));
	CHECK_EQ(write(when[1], "", 1), 1);
	CHECK(WITHIN(2000, is_listed("copy", pid) && waits_for_a_chunk(pid) >= 0));
	if (killed) {
		CHECK_OK(kill(pid, SIGKILL));
		CHECK(WITHIN(1000, waits_for_a_chunk(pid) < 0));
	} else {
		/* After five seconds it begins to look for one by itself. */
		CHECK(WITHIN(7000, (now = waits_for_a_chunk(pid)) < last || (last = now, 0)));
		CHECK(last > 4000 && is_listed("copy", pid));
	}
	test_reg(x.fd, 0, INJ_CE_HANG, 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, killed ? SIGKILL : 0);
	CHECK_EQ(pthread_join(t, (void **)&error), 0);
	CHECK_EQ(error, 0);
	cpu_check(x.p, BLOCK, 4, 1);
	CHECK_OK(limit_chunks(x.fd, 0, 0));
	gets_idle(x.fd, 0);
}

static void who_lets_another_make_room(void)	{ one_makes_room(0); }
static void who_lets_another_is_killed(void)	{ one_makes_room(1); }

static void one_that_fails_keeps_its_chunk(void)
{
	/* The host cannot map memory for the copy out: pages and chunk stay, and can be evicted when that is over. */
	int fd = huvm_open();
	uint64_t *p = four_of_eight(fd);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 4);

	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	for (int i = 0; i < 3; i++)
		CHECK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e) < 0);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	CHECK_EQ(mem_info(fd, 0).used, 4);
	gpu_check(fd, 0, p, 4 * BLOCK, 4, 6, 1);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	CHECK_EQ(e.evicted, 4);
	CHECK_EQ(free_chunks(fd, 0), 4);
	cpu_check(p, 4 * BLOCK, 6, 1);
	CHECK_OK(limit_chunks(fd, 0, 0));
}

static void one_chunk_left(void)
{
	/* The smallest GPU there can be: three arrays in one chunk, block by block. */
	int fd = huvm_open();
	uint64_t *x = managed(fd, BLOCK), *y = managed(fd, BLOCK);
	struct huvm_instr i = over(HUVM_OP_COPY, BLOCK, 4);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 2));
	cpu_fill(x, BLOCK, 1, 2);
	i.dst = (uintptr_t)y;
	i.a = (uintptr_t)x;
	run_ok(fd, 0, 4, &i, 1, 8);
	CHECK_OK(limit_chunks(fd, 0, 0));
	cpu_check(y, BLOCK, 1, 2);
}

static void no_eviction_allowed(void)
{
	/* With eviction off, a working set that does not fit fails its client with a clear error, and nobody hangs. */
	const uint32_t blocks = 32;
	int fd = huvm_open();
	uint64_t len, id;
	struct huvm_instr i;
	struct huvm_wait w;
	void *p;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_enable", 0));
	len = sized(fd, 0, 120, blocks);
	p = managed(fd, len);
	i = over(HUVM_OP_FILL, len, blocks);
	i.dst = (uintptr_t)p;
	CHECK_OK(launch(fd, 0, blocks, &i, 1, 8, &id));
	w = wait_launch(fd, id);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_NO_MEMORY);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_enable", 1));
	gpu_fill(fd, 0, p, len, blocks, 2, 2);
	cpu_check(p, len, 2, 2);
}

static void clients_share_one_gpu(void)
{
	/* Four processes, each with 60 % of VRAM: they evict each other, and nobody sees another's data. */
	const uint32_t blocks = 16;
	int status;

	for (int c = 0; c < 4; c++) {
		if (!fork()) {
			int fd = huvm_open();
			uint64_t len;
			void *p;

			CHECK_OK(gpu_register(fd, 0));
			len = sized(fd, 0, 60, blocks);
			p = managed(fd, len);
			gpu_check(fd, 0, p, len, blocks, 0, 0);
			for (int i = 0; i < 3; i++) {
				gpu_fill(fd, 0, p, len, blocks, 100 * c + i, 7);
				gpu_check(fd, 0, p, len, blocks, 100 * c + i, 7);
			}
			cpu_check(p, len, 100 * c + 2, 7);
			_exit(0);
		}
	}
	for (int c = 0; c < 4; c++) {
		wait(&status);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

static const struct ktap_test tests[] = {
	{ "at_110", at_110, 120 }, { "at_150", at_150, 120 }, { "at_300", at_300, 240 },
	{ "at_150_random", at_150_random, 120 }, { "at_150_stock_460", at_150_460, 120 },
	{ "cycles_keep_a_part", cycles_keep_a_part, 240 },
	{ "wanted_often_stays", wanted_often_stays, 120 },
	{ "host_pieces", host_pieces }, { "zero_copy", zero_copy }, { "evicted_on_request", evicted_on_request },
	{ "comes_back_whole", comes_back_whole, 120 },
	{ "comes_whole", comes_whole, 120 }, { "comes_whole_the_first_time", comes_whole_the_first_time, 120 },
	{ "comes_whole_or_alone", comes_whole_or_alone },
	{ "copy_in_waits_for_copy_out", copy_in_waits_for_copy_out }, { "free_when_copied_out", free_when_copied_out },
	{ "who_waits_is_listed", who_waits_is_listed },
	{ "who_lets_another_make_room", who_lets_another_make_room }, { "who_lets_another_is_killed", who_lets_another_is_killed },
	{ "one_that_fails_keeps_its_chunk", one_that_fails_keeps_its_chunk },
	{ "one_chunk_left", one_chunk_left }, { "no_eviction_allowed", no_eviction_allowed, 120 },
	{ "clients_share_one_gpu", clients_share_one_gpu, 240 },
};
KTAP_MAIN(tests)
