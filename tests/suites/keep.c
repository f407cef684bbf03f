// SPDX-License-Identifier: GPL-2.0
/*
 * The host keeps its copy of what a GPU only reads (knob keep_host_copy): it leaves without a copy, and whoever writes it, wherever, is
 * seen by all.
 */
#include "lend_lib.h"

#include <pthread.h>

#define LEN (4 * BLOCK)
#define BLOCKS 8u
#define PAGES (BLOCK / PAGE)

static int open_with(uint32_t gpus, uint64_t keeps)
{
	int fd = huvm_open();

	for (uint32_t g = 0; g < gpus; g++)
		CHECK_OK(gpu_register(fd, g));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "keep_host_copy", keeps));
	return fd;
}

/* Where all blocks of [p, p + len) are in full. */
static void all_at(int fd, const void *p, uint64_t len, uint64_t host, uint32_t gpu, uint64_t there)
{
	for (uint64_t at = 0; at < len; at += BLOCK) {
		struct huvm_block_info b = block_info(fd, (const char *)p + at);

		CHECK_EQ(b.host_pages, host);
		CHECK_EQ(b.gpu_pages[gpu], there);
	}
}

static void stays_on_the_host_while_it_is_read(void)
{
	int fd = open_with(1, 1);
	uint64_t *p = managed(fd, LEN), cpu, clean, home;

	cpu_fill(p, LEN, 3, 7);
	gpu_check(fd, 0, p, LEN, BLOCKS, 3, 7);
	all_at(fd, p, LEN, PAGES, 0, PAGES);
	/* A CPU that reads moves nothing. */
	cpu = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_BYTES_D2H);
	cpu_check(p, LEN, 3, 7);
	all_at(fd, p, LEN, PAGES, 0, PAGES);
	/* Nor does its eviction. */
	clean = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_CLEAN);
	home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	CHECK_EQ(evicts(fd, 4), 4);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_CLEAN), clean + 4);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), home);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_BYTES_D2H), cpu);
	all_at(fd, p, LEN, PAGES, 0, 0);
	cpu_check(p, LEN, 3, 7);
	gpu_check(fd, 0, p, LEN, BLOCKS, 3, 7);
	all_at(fd, p, LEN, PAGES, 0, PAGES);
	CHECK_OK(close(fd));
}

/* What is fetched whole (knob fetch_whole) is what no other GPU has: the host's copy of that is no reason to take it from there. */
static void whole_blocks_leave_others_theirs(void)
{
	int fd = open_with(2, 1);
	uint64_t *p = managed(fd, BLOCK), piece = 16;

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "fetch_whole", 1));
	cpu_fill(p, BLOCK, 3, 7);
	gpu_check(fd, 1, p, BLOCK, BLOCKS, 3, 7);
	CHECK_EQ(block_info(fd, p).gpu_pages[1], PAGES);
	gpu_check(fd, 0, p, piece * PAGE, 1, 3, 7);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], piece);
	CHECK_EQ(block_info(fd, p).gpu_pages[1], PAGES - piece);
	CHECK_EQ(block_info(fd, p).host_pages, PAGES);
	cpu_check(p, BLOCK, 3, 7);
	CHECK_OK(close(fd));
}

static void goes_there_with_the_first_write(void)
{
	int fd = open_with(1, 1);
	uint64_t *p = managed(fd, LEN), faults;
	struct huvm_instr i = { .op = HUVM_OP_SCALE, .count = 1, .steps = 1, .imm0 = 1, .imm1 = 1 };

	cpu_fill(p, LEN, 5, 2);
	gpu_check(fd, 0, p, LEN, BLOCKS, 5, 2);
	/* One word of the second block: all of that block is the GPU's alone then, and nothing of the others. */
	i.a = i.dst = (uintptr_t)&p[BLOCK / 8 + 7];
	run_ok(fd, 0, 1, &i, 1, 8);
	all_at(fd, p, BLOCK, PAGES, 0, PAGES);
	all_at(fd, (char *)p + BLOCK, BLOCK, 0, 0, PAGES);
	all_at(fd, (char *)p + 2 * BLOCK, LEN - 2 * BLOCK, PAGES, 0, PAGES);
	/* What else is written there faults no more. */
	faults = of_gpu(fd, 0, HUVM_CNT_FAULTS);
	gpu_scale(fd, 0, (char *)p + BLOCK, BLOCK, BLOCKS, 1, 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_FAULTS), faults);
	CHECK_EQ(p[BLOCK / 8 + 7], 5 + 2 * (BLOCK / 8 + 7) + 1);
	p[BLOCK / 8 + 7] -= 1;
	cpu_check(p, LEN, 5, 2);
	/* Written everywhere, evicted, and read again. */
	gpu_scale(fd, 0, p, LEN, BLOCKS, 3, 1);
	CHECK_EQ(evicts(fd, 4), 4);
	cpu_check(p, LEN, 16, 6);
	CHECK_OK(close(fd));
}

static void a_cpu_that_writes_takes_it_back(void)
{
	int fd = open_with(1, 1);
	uint64_t *p = managed(fd, LEN);

	cpu_fill(p, LEN, 9, 4);
	for (uint64_t turn = 0; turn < 6; turn++) {
		gpu_check(fd, 0, p, LEN, BLOCKS, 9, 4);
		/* It reads first every other time: then it has the pages mapped already, for reading. */
		if (turn % 2)
			cpu_check(p, LEN, 9, 4);
		for (uint64_t pg = turn; pg < LEN / PAGE; pg += 11)
			p[pg * (PAGE / 8)] += 1;
		for (uint64_t pg = turn; pg < LEN / PAGE; pg += 11) {
			struct huvm_instr i = { .op = HUVM_OP_CHECK, .count = 1, .steps = 1 };

			i.a = (uintptr_t)&p[pg * (PAGE / 8)];
			i.imm0 = 9 + 4 * pg * (PAGE / 8) + 1;
			run_ok(fd, 0, 1, &i, 1, 8);
		}
		for (uint64_t pg = turn; pg < LEN / PAGE; pg += 11)
			p[pg * (PAGE / 8)] -= 1;
	}
	cpu_check(p, LEN, 9, 4);
	CHECK_OK(close(fd));
}

static void what_is_written_each_time_does_without(void)
{
	/* Read, written, evicted, over and over: kept the 1st and the 6th time, then not for eight times. */
	int fd = open_with(1, 1);
	uint64_t *p = managed(fd, BLOCK), add = 1, kept = 0;

	cpu_fill(p, BLOCK, add, 3);
	for (int n = 0; n < 14; n++) {
		gpu_check(fd, 0, p, BLOCK, BLOCKS, add, 3);
		if (block_info(fd, p).host_pages == PAGES)
			kept |= 1u << n;
		gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 1);
		add++;
		all_at(fd, p, BLOCK, 0, 0, PAGES);
		CHECK_EQ(evicts(fd, 1), 1);
	}
	CHECK_EQ(kept, 1u << 0 | 1u << 5);
	cpu_check(p, BLOCK, add, 3);
	CHECK_OK(close(fd));
}

static void advice_and_other_policies_move(void)
{
	int off = open_with(1, 0), fd = open_with(1, 1);
	uint64_t *p = managed(off, BLOCK), *q = managed(fd, BLOCK), home;

	cpu_fill(p, BLOCK, 1, 1);
	gpu_check(off, 0, p, BLOCK, BLOCKS, 1, 1);
	all_at(off, p, BLOCK, 0, 0, PAGES);
	home = of_gpu(off, 0, HUVM_CNT_BYTES_D2H);
	CHECK_EQ(evicts(off, 1), 1);
	CHECK_EQ(of_gpu(off, 0, HUVM_CNT_BYTES_D2H), home + BLOCK);
	cpu_check(p, BLOCK, 1, 1);
	/* Who has said where it is to be has it moved there; and who moves it. */
	cpu_fill(q, BLOCK, 2, 1);
	CHECK_OK(advise(fd, q, BLOCK, HUVM_ADVISE_PREFERRED, 0));
	gpu_check(fd, 0, q, BLOCK, BLOCKS, 2, 1);
	all_at(fd, q, BLOCK, 0, 0, PAGES);
	CHECK_OK(advise(fd, q, BLOCK, HUVM_ADVISE_UNSET_PREFERRED, 0));
	cpu_check(q, BLOCK, 2, 1);
	gpu_check(fd, 0, q, BLOCK, BLOCKS, 2, 1);
	all_at(fd, q, BLOCK, PAGES, 0, PAGES);
	CHECK_OK(migrate(fd, q, BLOCK, 0));
	all_at(fd, q, BLOCK, 0, 0, PAGES);
	cpu_check(q, BLOCK, 2, 1);
	CHECK_OK(close(off));
	CHECK_OK(close(fd));
}

static void streams_keep_what_they_do_not_write(void)
{
	/* More than the memory, there and back: what is only read goes without a copy, what is written in place comes home. */
	int fd = open_with(1, 1);
	uint64_t len = chunk_count(fd, 0) * BLOCK * 3 / 2 & ~(BLOCKS * BLOCK - 1), *p = managed(fd, len), home, faults, in;

	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, "huvm"));
	cpu_fill(p, len, 8, 3);
	home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	in = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS);
	for (int n = 0; n < 2; n++)
		gpu_check(fd, 0, p, len, BLOCKS, 8, 3);
	CHECK(of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS) > in);
	CHECK(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_CLEAN) > 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), home);
	faults = of_gpu(fd, 0, HUVM_CNT_FAULTS);
	for (uint64_t n = 0; n < 3; n++)
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 2);
	printf("# three passes that write in place: %llu faults\n", (unsigned long long)(of_gpu(fd, 0, HUVM_CNT_FAULTS) - faults));
	CHECK(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H) >= home + len / 2);
	gpu_check(fd, 0, p, len, BLOCKS, 14, 3);
	cpu_check(p, len, 14, 3);
	CHECK_OK(close(fd));
}

/* GPU 1 lends @fd all that it has free. Returns a file to change that by. */
static int lender_for(int fd)
{
	int ctl = huvm_open();

	knob(ctl, 1, "harvest_lend", 1);
	knob(ctl, 1, "lend_reserve_chunks", 0);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	return ctl;
}

static void goes_to_a_neighbour_as_well(void)
{
	/* What is clean is lent a place beside the host's copy: the lender has it back at once, and nobody writes it back. */
	int fd = open_with(1, 1), ctl = lender_for(fd);
	uint64_t len = 8 * BLOCK, *p = managed(fd, len), home, back;
	struct huvm_mem_info m;

	cpu_fill(p, len, 6, 5);
	gpu_check(fd, 0, p, len, BLOCKS, 6, 5);
	home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	back = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS);
	CHECK_EQ(evicts(fd, 8), 8);
	m = mem_info(fd, 1);
	CHECK_EQ(m.lent_only, 0);
	CHECK_EQ(m.lent_removable, 8);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), home);
	/* Half of it comes back from there; then the lender takes what is left. */
	gpu_check(fd, 0, p, len / 2, BLOCKS, 6, 5);
	all_at(fd, p, len / 2, PAGES, 0, PAGES);
	CHECK_EQ(mem_info(fd, 1).lent_removable, 4);
	knob(ctl, 1, "harvest_lend", 0);
	gets_idle(ctl, 1);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS), back);
	gpu_check(fd, 0, p, len, BLOCKS, 6, 5);
	/* Written, it is the only copy, and is written back. */
	gpu_scale(fd, 0, p, len, BLOCKS, 2, 0);
	knob(ctl, 1, "harvest_lend", 1);
	knob(ctl, 1, "write_back", 0);
	CHECK_EQ(evicts(fd, 8), 8);
	CHECK_EQ(mem_info(fd, 1).lent_only, 8);
	knob(ctl, 1, "harvest_lend", 0);
	cpu_check(p, len, 12, 10);
	gets_idle(ctl, 1);
	CHECK_OK(close(fd));
	CHECK_OK(close(ctl));
}

static void stays_if_its_copy_is_refused(void)
{
	/* On its way to a neighbour, beside the host's copy: it is where it was, the neighbour has its room, and the next one goes. */
	int fd = open_with(1, 1), ctl = lender_for(fd);
	uint64_t *p = managed(fd, BLOCK), in, home;
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);

	cpu_fill(p, BLOCK, 4, 3);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 4, 3);
	in = of_gpu(fd, 0, HUVM_CNT_BYTES_H2D);
	home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
	for (int n = 0; n < 3; n++) {
		let_fail(fd, HUVM_FAIL_SUBMIT, 1);
		CHECK_ERR(ioctl(fd, HUVM_IOC_TEST_EVICT, &e), EIO);
		CHECK_EQ(let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0), 0);
		all_at(fd, p, BLOCK, PAGES, 0, PAGES);
		cpu_check(p, BLOCK, 4, 3);
		gpu_check(fd, 0, p, BLOCK, BLOCKS, 4, 3);
	}
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_H2D), in);
	CHECK_EQ(mem_info(fd, 1).lent_only, 0);
	CHECK_EQ(mem_info(fd, 1).lent_removable, 0);
	CHECK_EQ(evicts(fd, 1), 1);
	CHECK_EQ(mem_info(fd, 1).lent_removable, 1);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 4, 3);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_H2D), in);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), home);
	knob(ctl, 1, "harvest_lend", 0);
	gets_idle(ctl, 1);
	cpu_check(p, BLOCK, 4, 3);
	CHECK_OK(close(fd));
	CHECK_OK(close(ctl));
}

static void one_of_two_has_a_road(void)
{
	/* On the host, on GPU 2, and on GPU 0, which alone has a link to GPU 1: that gets it over this. */
	int fd = open_with(3, 1);
	uint64_t *p = managed(fd, LEN), *q = managed(fd, LEN), from_host;

	for (int n = 0; n < 2; n++) {
		CHECK_OK(advise(fd, n ? q : p, LEN, HUVM_ADVISE_READ_MOSTLY, 0));
		cpu_fill(n ? q : p, LEN, 3 + (uint64_t)n, 8);
		gpu_check(fd, 2, n ? q : p, LEN, BLOCKS, 3 + (uint64_t)n, 8);
		gpu_check(fd, 0, n ? q : p, LEN, BLOCKS, 3 + (uint64_t)n, 8);
		all_at(fd, n ? q : p, LEN, PAGES, 2, PAGES);
		all_at(fd, n ? q : p, LEN, PAGES, 0, PAGES);
	}
	from_host = of_gpu(fd, 1, HUVM_CNT_BYTES_H2D);
	test_reg(fd, 2, INJ_LINK_DOWN, link_bit(fd, 2, 1));
	/* The driver looks each 100 ms. */
	give_time(400);
	gpu_check(fd, 1, p, LEN, BLOCKS, 3, 8);
	CHECK_OK(migrate(fd, q, LEN, 1));
	all_at(fd, p, LEN, PAGES, 1, PAGES);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_BYTES_H2D), from_host);
	gpu_check(fd, 1, q, LEN, BLOCKS, 4, 8);
	/* Written there, it is nowhere else. */
	gpu_scale(fd, 1, p, LEN, BLOCKS, 1, 1);
	gpu_check(fd, 2, p, LEN, BLOCKS, 4, 8);
	gpu_check(fd, 0, p, LEN, BLOCKS, 4, 8);
	cpu_check(p, LEN, 4, 8);
	test_reg(fd, 2, INJ_LINK_DOWN, 0);
	give_time(400);
	CHECK_OK(close(fd));
}

static void another_gpu_takes_it_from_the_first(void)
{
	int fd = open_with(2, 1);
	uint64_t *p = managed(fd, LEN), *q = managed(fd, LEN), from_host;
	char name[32];

	cpu_fill(p, LEN, 2, 9);
	gpu_check(fd, 0, p, LEN, BLOCKS, 2, 9);
	/* Over the faster link, and the host still has it. */
	from_host = of_gpu(fd, 1, HUVM_CNT_BYTES_H2D);
	gpu_check(fd, 1, p, LEN, BLOCKS, 2, 9);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_BYTES_H2D), from_host);
	all_at(fd, p, LEN, PAGES, 1, PAGES);
	all_at(fd, p, LEN, PAGES, 0, 0);
	/* Whoever writes is seen by the other two. */
	gpu_scale(fd, 0, p, LEN, BLOCKS, 1, 1);
	gpu_check(fd, 1, p, LEN, BLOCKS, 3, 9);
	gpu_scale(fd, 1, p, LEN, BLOCKS, 1, 1);
	cpu_check(p, LEN, 4, 9);
	gpu_check(fd, 0, p, LEN, BLOCKS, 4, 9);
	/* Without a road between them it comes from the host. */
	cpu_fill(q, LEN, 5, 9);
	gpu_check(fd, 0, q, LEN, BLOCKS, 5, 9);
	from_host = of_gpu(fd, 1, HUVM_CNT_BYTES_H2D);
	test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
	gpu_check(fd, 1, q, LEN, BLOCKS, 5, 9);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_BYTES_H2D), from_host + LEN);
	all_at(fd, q, LEN, PAGES, 1, PAGES);
	test_reg(fd, 0, INJ_LINK_DOWN, 0);
	pci_name(fd, 0, name);
	CHECK_OK(close(fd));
	/* Its engine for that was given up. */
	rebind(name);
}

/* What a CPU writes, over and over, until it is told to end. */
static struct {
	uint64_t *p;
	int end;
} race;

static void *cpu_counts(void *arg)
{
	uint64_t turns = 0;

	(void)arg;
	do {
		for (uint64_t pg = 0; pg < LEN / PAGE; pg += 3)
			race.p[pg * (PAGE / 8) + 1]++;
		turns++;
	} while (!__atomic_load_n(&race.end, __ATOMIC_ACQUIRE));
	return (void *)turns;
}

static void nobodys_write_is_lost(void)
{
	/* Evictions, a CPU that counts in each third page, a GPU that reads them all and counts in its own word of them. */
	int fd = open_with(1, 1);
	struct huvm_instr look = over(HUVM_OP_CHECK, LEN, BLOCKS);
	struct huvm_instr add = { .op = HUVM_OP_SCALE, .count = 1, .steps = LEN / PAGE / 4, .step_stride = PAGE,
				  .block_stride = LEN / 4, .imm0 = 1, .imm1 = 1 };
	const uint64_t passes = 8;
	pthread_t t;
	void *turns;

	race.p = managed(fd, LEN);
	race.end = 0;
	/* Reads a word of each page that nobody writes, the last. */
	look.count = 1;
	look.steps = LEN / PAGE / BLOCKS;
	look.step_stride = PAGE * BLOCKS;
	look.block_stride = PAGE;
	look.a = (uintptr_t)&race.p[PAGE / 8 - 1];
	add.a = add.dst = (uintptr_t)race.p;
	CHECK_EQ(pthread_create(&t, NULL, cpu_counts, NULL), 0);
	for (uint64_t n = 0; n < passes; n++) {
		run_ok(fd, 0, BLOCKS, &look, 1, 8);
		evicts(fd, 2);
		run_ok(fd, 0, BLOCKS, &look, 1, 8);
		run_ok(fd, 0, 4, &add, 1, 8);
	}
	__atomic_store_n(&race.end, 1, __ATOMIC_RELEASE);
	pthread_join(t, &turns);
	for (uint64_t pg = 0; pg < LEN / PAGE; pg++) {
		CHECK_EQ(race.p[pg * (PAGE / 8)], passes);
		CHECK_EQ(race.p[pg * (PAGE / 8) + 1], pg % 3 ? 0 : (uint64_t)turns);
	}
	CHECK_OK(close(fd));
}

static void *cpu_writes(void *arg)
{
	volatile uint64_t *word = arg;
	uint64_t turns = 0;

	while (!__atomic_load_n(&race.end, __ATOMIC_ACQUIRE)) {
		*word = ++turns;
		usleep(100);
	}
	return (void *)turns;
}

static void what_is_fought_over_is_pinned(void)
{
	/* The CPU writes a word that a GPU reads: nothing is copied home, and it is a fight all the same, which ends in a mapping. */
	int fd = open_with(1, 1);
	uint64_t *p = managed(fd, 2 * BLOCK), pins = 0, *seen = p + BLOCK / 8;
	struct huvm_instr i[2] = {
		{ .op = HUVM_OP_SCALE, .count = 1, .steps = 1, .imm0 = 1 },
		{ .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 300000 },
	};
	ARG(huvm_launch, l, .gpu = 0, .blocks = 1, .iterations = 200, .elem_bytes = 8, .nr_instr = 2, .instrs = (uintptr_t)i);
	pthread_t t;
	void *turns;

	i[0].a = (uintptr_t)p;
	i[0].dst = (uintptr_t)seen;
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 3));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_windows", 50));
	race.end = 0;
	CHECK_EQ(pthread_create(&t, NULL, cpu_writes, p), 0);
	for (uint64_t n = 1; n <= 10 && !pins; n++) {
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 20000 * n));
		CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
		CHECK_EQ(wait_launch(fd, l.launch).status, HUVM_LAUNCH_DONE);
		pins = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS);
	}
	__atomic_store_n(&race.end, 1, __ATOMIC_RELEASE);
	pthread_join(t, &turns);
	printf("# %llu pinned, the CPU wrote %llu times, the GPU saw %llu\n", (unsigned long long)pins,
	       (unsigned long long)(uintptr_t)turns, (unsigned long long)*seen);
	CHECK(pins > 0);
	CHECK(*seen <= (uint64_t)(uintptr_t)turns);
	CHECK_EQ(*p, (uint64_t)(uintptr_t)turns);
	/* What was written last is what it reads next. */
	run_ok(fd, 0, 1, i, 1, 8);
	CHECK_EQ(*seen, *p);
	CHECK_OK(close(fd));
}

/* Of copies on two GPUs that are no duplicates any more one stays, where the host has none. */
static void read_mostly_on_two_gpus(void)
{
	int fd = begin(0, 0, 0);
	uint64_t *p = managed(fd, BLOCK);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_fill(fd, 0, p, BLOCK, WIDE, 6, 4);
	gpu_check(fd, 1, p, BLOCK, WIDE, 6, 4);
	CHECK_EQ(block_info(fd, p).gpu_pages[0] + block_info(fd, p).gpu_pages[1], 1024);
	CHECK_EQ(block_info(fd, p).host_pages, 0);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	CHECK_EQ(block_info(fd, p).gpu_pages[0] + block_info(fd, p).gpu_pages[1], 512);
	CHECK_EQ(block_info(fd, p).host_piece_kib, 0);
	gpu_check(fd, 1, p, BLOCK, WIDE, 6, 4);
	cpu_check(p, BLOCK, 6, 4);
	CHECK_OK(close(fd));
}

static const struct ktap_test tests[] = {
	{ "read_mostly_on_two_gpus", read_mostly_on_two_gpus },
	{ "stays_on_the_host_while_it_is_read", stays_on_the_host_while_it_is_read },
	{ "whole_blocks_leave_others_theirs", whole_blocks_leave_others_theirs },
	{ "goes_there_with_the_first_write", goes_there_with_the_first_write },
	{ "a_cpu_that_writes_takes_it_back", a_cpu_that_writes_takes_it_back, 60 },
	{ "what_is_written_each_time_does_without", what_is_written_each_time_does_without },
	{ "advice_and_other_policies_move", advice_and_other_policies_move },
	{ "streams_keep_what_they_do_not_write", streams_keep_what_they_do_not_write, 120 },
	{ "goes_to_a_neighbour_as_well", goes_to_a_neighbour_as_well, 60 },
	{ "stays_if_its_copy_is_refused", stays_if_its_copy_is_refused },
	{ "one_of_two_has_a_road", one_of_two_has_a_road, 60 },
	{ "another_gpu_takes_it_from_the_first", another_gpu_takes_it_from_the_first },
	{ "nobodys_write_is_lost", nobodys_write_is_lost, 90 },
	{ "what_is_fought_over_is_pinned", what_is_fought_over_is_pinned, 90 },
};
KTAP_MAIN(tests)
