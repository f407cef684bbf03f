// SPDX-License-Identifier: GPL-2.0
/* GPU faults: first touch, migration both ways, programs, races, processes, fatal faults. */
#define _GNU_SOURCE
#include "huvm_lib.h"
#include <pthread.h>

#define LEN (8 * BLOCK)
#define BLOCKS 16

static int open_with_gpu(void)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	return fd;
}

static void first_touch_on_gpu_is_zero(void)
{
	int before = open_with_gpu(), fd = open_with_gpu();
	uint64_t all = chunk_count(fd, 0) * BLOCK;
	void *p = managed(before, all);

	/* All of the memory was somebody's, who wrote something else there. */
	gpu_fill(before, 0, p, all, BLOCKS, ~0ull, 0);
	CHECK_OK(munmap(p, all));
	p = managed(fd, LEN);

	gpu_check(fd, 0, p, LEN, BLOCKS, 0, 0);
	cpu_check(p, LEN, 0, 0);
}

static void cpu_to_gpu_to_cpu(void)
{
	int fd = open_with_gpu();
	void *p = managed(fd, LEN);

	cpu_fill(p, LEN, 11, 5);
	gpu_check(fd, 0, p, LEN, BLOCKS, 11, 5);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_EQ(block_info(fd, p).host_pages, 0);
	gpu_scale(fd, 0, p, LEN, BLOCKS, 3, 1);
	cpu_check(p, LEN, 34, 15);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 0);
	CHECK_EQ(block_info(fd, p).host_pages, 512);
}

static void gpu_writes_cpu_reads(void)
{
	int fd = open_with_gpu();
	void *p = managed(fd, LEN);

	gpu_fill(fd, 0, p, LEN, BLOCKS, 1000, 1);
	cpu_check(p, LEN, 1000, 1);
	/* Back again, many times, with a change on each side. */
	for (int i = 0; i < 5; i++) {
		uint64_t *q = p;

		gpu_scale(fd, 0, p, LEN, BLOCKS, 1, 1);
		for (uint64_t e = 0; e < LEN / 8; e += 512)
			q[e] += 1;
		for (uint64_t e = 0; e < LEN / 8; e += 512)
			q[e] -= 1;
	}
	cpu_check(p, LEN, 1005, 1);
}

static void full_block_is_one_mapping(void)
{
	int fd = open_with_gpu();
	void *p = managed(fd, LEN);
	uint64_t before, faults;

	cpu_fill(p, LEN, 1, 1);
	before = counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_MAP_2M);
	gpu_check(fd, 0, p, LEN, BLOCKS, 1, 1);
	CHECK_EQ(counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_MAP_2M) - before, LEN / BLOCK);
	CHECK(counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_MAP_2M) >= before + LEN / BLOCK);
	/* All resident: a second pass takes no fault at all. */
	faults = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
	gpu_scale(fd, 0, p, LEN, BLOCKS, 1, 0);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS), faults);
}

static void programs(void)
{
	const uint32_t n = BLOCKS;
	int fd = open_with_gpu();
	uint64_t *x = managed(fd, LEN), *y = managed(fd, LEN), *z = managed(fd, LEN);
	uint64_t *idx = managed(fd, LEN), *sum = managed(fd, BLOCK);
	const uint64_t count = LEN / 8;
	struct huvm_instr i;

	cpu_fill(x, LEN, 3, 2);
	cpu_fill(y, LEN, 10, 1);
	i = over(HUVM_OP_ADD, LEN, n);
	i.dst = (uintptr_t)z, i.a = (uintptr_t)x, i.b = (uintptr_t)y;
	run_ok(fd, 0, n, &i, 1, 8);
	cpu_check(z, LEN, 13, 3);
	i = over(HUVM_OP_TRIAD, LEN, n);
	i.dst = (uintptr_t)z, i.a = (uintptr_t)x, i.b = (uintptr_t)y, i.imm0 = 4;
	run_ok(fd, 0, n, &i, 1, 8);
	cpu_check(z, LEN, 43, 6);
	i = over(HUVM_OP_COPY, LEN, n);
	i.dst = (uintptr_t)z, i.a = (uintptr_t)x;
	run_ok(fd, 0, n, &i, 1, 8);
	cpu_check(z, LEN, 3, 2);
	/* Gather and scatter through a permutation. */
	for (uint64_t e = 0; e < count; e++)
		idx[e] = (e * 7919 + 13) % count;
	i = over(HUVM_OP_GATHER, LEN, n);
	i.dst = (uintptr_t)z, i.a = (uintptr_t)x, i.idx = (uintptr_t)idx;
	run_ok(fd, 0, n, &i, 1, 8);
	for (uint64_t e = 0; e < count; e += 97)
		CHECK_EQ(z[e], 3 + 2 * ((e * 7919 + 13) % count));
	i = over(HUVM_OP_SCATTER, LEN, n);
	i.dst = (uintptr_t)y, i.a = (uintptr_t)z, i.idx = (uintptr_t)idx;
	run_ok(fd, 0, n, &i, 1, 8);
	cpu_check(y, LEN, 3, 2);
	i = over(HUVM_OP_REDUCE, LEN, n);
	i.dst = (uintptr_t)sum, i.a = (uintptr_t)x;
	run_ok(fd, 0, n, &i, 1, 8);
	{
		uint64_t total = 0;

		for (uint32_t k = 0; k < n; k++)
			total += sum[k];
		CHECK_EQ(total, 3 * count + count * (count - 1));
	}
}

static void trace_replay(void)
{
	int fd = open_with_gpu();
	uint64_t *rec = managed(fd, BLOCK), *data = managed(fd, LEN);
	struct huvm_instr i = { .op = HUVM_OP_TRACE, .count = 512, .steps = 1 };

	for (int e = 0; e < 512; e++)
		rec[e] = ((uintptr_t)data + ((uint64_t)(e * 37) % (LEN / PAGE)) * PAGE) | (e & 1);
	i.a = (uintptr_t)rec;
	run_ok(fd, 0, 1, &i, 1, 8);
	uint64_t writes = 0;

	for (uint64_t pg = 0; pg < LEN / PAGE; pg++)
		writes += data[pg * PAGE / 8];
	CHECK_EQ(writes, 256);
}

static void sparse_small_pages(void)
{
	/* A range that is not whole blocks: 4 KiB and 64 KiB mappings. */
	int fd = open_with_gpu();
	uint64_t len = BLOCK + 20 * PAGE;
	uint64_t *p = managed(fd, len);
	struct huvm_instr i = { .op = HUVM_OP_SCALE, .count = 512, .steps = len / PAGE / 4, .step_stride = PAGE,
				.block_stride = len / 4, .imm0 = 2, .imm1 = 1 };

	cpu_fill(p, len, 5, 1);
	i.a = i.dst = (uintptr_t)p;
	run_ok(fd, 0, 4, &i, 1, 8);
	cpu_check(p, len, 11, 2);
}

static void each_page_is_fetched_anew(void)
{
	/* Pages that the CPU has mapped one by one. Which one it looks at first after the GPU changed them must not matter. */
	const uint64_t n = 20, len = n * PAGE;
	int fd = open_with_gpu();
	struct huvm_instr i = { .op = HUVM_OP_SCALE, .count = PAGE / 8, .steps = 1, .block_stride = PAGE, .imm0 = 1, .imm1 = 1 };
	uint64_t *p = managed(fd, len);

	cpu_fill(p, len, 5, 1);
	i.a = i.dst = (uintptr_t)p;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t at = (n - 1 - k) * (PAGE / 8) + k;

		run_ok(fd, 0, (uint32_t)n, &i, 1, 8);
		CHECK_EQ(p[at], 5 + at + k + 1);
		cpu_check(p, len, 5 + k + 1, 1);
		/* Mapped for writing, all of them. */
		for (uint64_t pg = 0; pg < n; pg++)
			p[pg * (PAGE / 8)] += 0;
	}
}

static volatile int stop;

static void *cpu_side(void *arg)
{
	volatile uint64_t *p = arg;
	uint64_t turns = 0;

	while (!stop) {
		for (uint64_t pg = 0; pg < LEN / PAGE; pg += 3)
			__atomic_fetch_add(&p[pg * PAGE / 8 + 1], 1, __ATOMIC_RELAXED);
		turns++;
	}
	return (void *)turns;
}

static void cpu_and_gpu_race(void)
{
	/* The GPU adds 1 to word 0 of each page, the CPU to word 1 of every third: neither may lose one. */
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN);
	struct huvm_instr i = { .op = HUVM_OP_SCALE, .count = 1, .steps = LEN / PAGE / 4, .step_stride = PAGE,
				.block_stride = LEN / 4, .imm0 = 1, .imm1 = 1 };
	pthread_t t;
	void *turns;
	const int passes = 6;

	i.a = i.dst = (uintptr_t)p;
	CHECK_EQ(pthread_create(&t, NULL, cpu_side, p), 0);
	for (int n = 0; n < passes; n++)
		run_ok(fd, 0, 4, &i, 1, 8);
	stop = 1;
	pthread_join(t, &turns);
	CHECK(turns);
	for (uint64_t pg = 0; pg < LEN / PAGE; pg++) {
		CHECK_EQ(p[pg * 512], passes);
		CHECK_EQ(p[pg * 512 + 1], pg % 3 ? 0 : (uint64_t)turns);
	}
}

/* dst[i] += @add, by @blocks blocks that all go over the same words, one of each page. */
static struct huvm_instr adds_to(uint64_t *dst, uint64_t pages, uint64_t add)
{
	struct huvm_instr i = { .op = HUVM_OP_ATOMIC_ADD, .count = 1, .steps = pages, .step_stride = PAGE, .imm0 = add };

	i.dst = (uintptr_t)dst;
	return i;
}

/* What there is of pages for an addition to find: none yet, on the host, on the GPU, duplicates, pages that may not be written. */
static void atomic_additions(void)
{
	int fd = open_with_gpu();
	const uint64_t pages = BLOCK / PAGE;
	uint64_t *p = managed(fd, 2 * BLOCK), *ro;
	struct huvm_instr i = adds_to(p, 2 * pages, 3), both[2] = { i, i };
	struct huvm_wait w;

	run_ok(fd, 0, 4, &i, 1, 8);
	for (uint64_t pg = 0; pg < 2 * pages; pg++)
		CHECK_EQ(p[pg * 512], 12);
	w = run_ok(fd, 0, 4, both, 2, 8);
	CHECK_EQ(w.bytes, 2 * 4 * 2 * pages * 16);
	CHECK(w.faults >= 2);
	run_ok(fd, 0, 4, &i, 1, 8);
	CHECK_EQ(p[512], 48);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	CHECK_OK(migrate(fd, p, 2 * BLOCK, 0));
	for (uint64_t pg = 0; pg < pages; pg++)
		CHECK_EQ(p[pg * 512], 48);
	CHECK(block_info(fd, p).host_pages > 0 && block_info(fd, p).gpu_pages[0] > 0);
	run_ok(fd, 0, 4, &i, 1, 8);
	for (uint64_t pg = 0; pg < 2 * pages; pg++) {
		CHECK_EQ(p[pg * 512], 60);
		CHECK_EQ(p[pg * 512 + 1], 0);
	}
	/* Four bytes wrap at four bytes. */
	i = adds_to(p, 1, ~0ull);
	p[0] = 5ull << 32;
	run_ok(fd, 0, 1, &i, 1, 4);
	CHECK_EQ(p[0], 5ull << 32 | 0xffffffff);
	ro = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(ro != MAP_FAILED);
	gpu_check(fd, 0, ro, BLOCK, BLOCKS, 0, 0);
	i = adds_to(ro, 1, 1);
	for (int there = 0; there < 2; there++) {
		w = run_program(fd, 0, 1, &i, 1, 8);
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_FAULT);
		CHECK_EQ(w.fault_va, (uintptr_t)ro);
		CHECK_EQ(w.fault_type, 6);
		CHECK_EQ(w.access_type, 2);
		CHECK_EQ(ro[0], 0);
	}
}

static uint64_t fight(int fd, uint64_t *p, uint32_t n);

/* Adds to a word of each of so many pages, and rests. */
struct adder {
	uint64_t *p, add;
	int pages;
	useconds_t rest;
	uint64_t turns;
};

#define ADDED_PAGES 64

static void *adds(void *arg)
{
	struct adder *a = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int pg = 0; pg < a->pages; pg++)
			__atomic_fetch_add(&a->p[pg * 512], a->add, __ATOMIC_RELAXED);
		a->turns++;
		if (a->rest)
			usleep(a->rest);
	}
	return NULL;
}

/* Two threads of the CPU and four blocks of the GPU, these @passes times, add to the same words, which are zero, at the same time. */
static void add_together(int fd, uint64_t *p, uint64_t passes)
{
	uint64_t faults = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
	struct huvm_instr i = adds_to(p, ADDED_PAGES, 1);
	struct adder a[2] = { { p, 1ull << 20, ADDED_PAGES }, { p, 1ull << 40, ADDED_PAGES } };
	pthread_t t[2];

	stop = 0;
	for (int k = 0; k < 2; k++)
		CHECK_EQ(pthread_create(&t[k], NULL, adds, &a[k]), 0);
	for (int k = 0; k < 2; k++)
		CHECK(WITHIN(5000, __atomic_load_n(&a[k].turns, __ATOMIC_RELAXED)));
	for (uint64_t n = 0; n < passes; n++)
		run_ok(fd, 0, 4, &i, 1, 8);
	stop = 1;
	for (int k = 0; k < 2; k++)
		CHECK_EQ(pthread_join(t[k], NULL), 0);
	faults = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS) - faults;
	printf("# %llu and %llu turns, %llu faults\n", (unsigned long long)a[0].turns, (unsigned long long)a[1].turns,
	       (unsigned long long)faults);
	/* They did meet. */
	CHECK(faults > 1 && a[0].turns && a[1].turns);
	for (int pg = 0; pg < ADDED_PAGES; pg++)
		CHECK_EQ(p[pg * 512], 4 * passes + (a[0].turns << 20) + (a[1].turns << 40));
}

/* While pages go to who wants them. */
static void cpu_and_gpu_add_to_one_word(void)
{
	int fd = open_with_gpu();

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 0));
	add_together(fd, managed(fd, BLOCK), 12);
}

/* A page may be copied only when the GPU cannot add to where it was any more. */
static void add_while_invalidates_are_late(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK), faults, n = 0;
	struct huvm_instr i[2] = { adds_to(p, 1, 1), { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 10000 } };
	ARG(huvm_launch, l, .gpu = 0, .blocks = 1, .iterations = 20000, .elem_bytes = 8, .nr_instr = 2, .instrs = (uintptr_t)i);
	struct adder a = { p, 1ull << 32, 1, 20000 };
	pthread_t t;

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 0));
	test_reg(fd, 0, INJ_INVALIDATE_LATE, 1000000);
	stop = 0;
	CHECK_EQ(pthread_create(&t, NULL, adds, &a), 0);
	/* Where the CPU has no time for its turns, there are few in a launch. Each may fault once to begin with. */
	do {
		CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
		CHECK_EQ(wait_launch(fd, l.launch).status, HUVM_LAUNCH_DONE);
		faults = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
		n++;
	} while (faults < n + 5 && n < 20);
	stop = 1;
	CHECK_EQ(pthread_join(t, NULL), 0);
	test_reg(fd, 0, INJ_INVALIDATE_LATE, 0);
	printf("# %llu turns, %llu faults, %llu launches\n", (unsigned long long)a.turns, (unsigned long long)faults, (unsigned long long)n);
	/* It was taken away while it was added to. */
	CHECK(faults >= n + 5);
	CHECK_EQ(p[0], 20000 * n + (a.turns << 32));
}

/* The link to the host has no atomic operations: where a GPU maps the host's pages, an addition brings them. */
static void additions_bring_what_is_mapped_there(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, 4 * BLOCK), *q;
	struct huvm_instr i;

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 0));
	cpu_fill(p, 4 * BLOCK, 0, 0);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	CHECK_OK(advise(fd, p + BLOCK / 8, BLOCK, HUVM_ADVISE_ACCESSED_BY, 0));
	for (int way = 0; way < 3; way++) {
		q = p + way * BLOCK / 8;
		if (way == 2)
			CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "zero_copy", 1));
		/* Writes leave them where they are. */
		gpu_scale(fd, 0, q, BLOCK, BLOCKS, 1, 0);
		CHECK_EQ(block_info(fd, q).host_pages, BLOCK / PAGE);
		CHECK_EQ(block_info(fd, q).gpu_mapped[0], BLOCK / PAGE);
		i = adds_to(q, ADDED_PAGES, 1);
		run_ok(fd, 0, 4, &i, 1, 8);
		CHECK(block_info(fd, q).gpu_pages[0] >= ADDED_PAGES);
		for (uint64_t pg = 0; pg < BLOCK / PAGE; pg++)
			CHECK_EQ(q[pg * 512], pg < ADDED_PAGES ? 4 : 0);
		memset(q, 0, BLOCK);
		add_together(fd, q, 3);
	}
	/* Pinned on the host because it is fought over, until somebody adds to it. */
	q = p + 3 * BLOCK / 8;
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "zero_copy", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 1));
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 1);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_windows", 1000000);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 100000);
	for (int n = 0; n < 20 && !counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS); n++)
		fight(fd, q, 100);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) > 0);
	memset(q, 0, BLOCK);
	i = adds_to(q, 1, 1);
	run_ok(fd, 0, 4, &i, 1, 8);
	CHECK(block_info(fd, q).gpu_pages[0] > 0);
	CHECK_EQ(q[0], 4);
}

static void migrate_calls(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN), faults;
	ARG(huvm_migrate, m, .va = (uintptr_t)p, .length = LEN, .dst = 0);

	cpu_fill(p, LEN, 21, 2);
	CHECK_OK(ioctl(fd, HUVM_IOC_MIGRATE, &m));
	CHECK_EQ(m.moved_bytes, LEN);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	faults = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
	gpu_check(fd, 0, p, LEN, BLOCKS, 21, 2);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS), faults);
	CHECK_OK(migrate(fd, p, LEN, HUVM_PLACE_HOST));
	CHECK_EQ(block_info(fd, p).host_pages, 512);
	cpu_check(p, LEN, 21, 2);
	CHECK_ERR(migrate(fd, (char *)p + 1, PAGE, 0), EINVAL);
	CHECK_ERR(migrate(fd, p, 0, 0), EINVAL);
	CHECK_ERR(migrate(fd, p, PAGE, 15), ENODEV);
	CHECK_OK(munmap((char *)p + BLOCK, BLOCK));
	CHECK_ERR(migrate(fd, p, LEN, 0), ENOMEM);
}

static void unregister_brings_home(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN), before = free_chunks(fd, 0);

	gpu_fill(fd, 0, p, LEN, BLOCKS, 9, 9);
	CHECK(WITHIN(2000, free_chunks(fd, 0) == before - LEN / BLOCK));
	CHECK_OK(gpu_unregister(fd, 0));
	CHECK(WITHIN(2000, free_chunks(fd, 0) == before));
	cpu_check(p, LEN, 9, 9);
	CHECK_ERR(gpu_unregister(fd, 0), ENOENT);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_ERR(gpu_register(fd, 0), EEXIST);
	gpu_check(fd, 0, p, LEN, BLOCKS, 9, 9);
}

/* What races with unregistering: others who move to the GPU, and who unregister themselves. */
struct mover {
	int fd;
	uint64_t *p;
	volatile int stop, registers;
	volatile uint64_t moved, refused;
};

static void *moves(void *arg)
{
	struct mover *m = arg;

	while (!m->stop) {
		for (uint64_t at = 0; at < LEN && !m->stop; at += BLOCK) {
			if (!migrate(m->fd, (char *)m->p + at, BLOCK, 0)) {
				m->moved++;
				continue;
			}
			/* It is about to leave, or has left; or who reads took the pages back each time. */
			CHECK(errno == EIO || errno == ENOENT || errno == ENOMEM);
			m->refused++;
			if (m->registers && gpu_register(m->fd, 0) < 0)
				CHECK_EQ(errno, EEXIST);
		}
	}
	return NULL;
}

static void unregister_while_moving(void)
{
	int fd = open_with_gpu();
	struct mover m = { .fd = fd, .p = managed(fd, LEN) };
	uint64_t before = free_chunks(fd, 0);
	pthread_t t;

	cpu_fill(m.p, LEN, 3, 7);
	CHECK_EQ(pthread_create(&t, NULL, moves, &m), 0);
	for (int i = 0; i < 40; i++) {
		uint64_t had = m.moved;

		/* In the second half, the mover uses it again at once. */
		m.registers = i >= 20;
		CHECK(WITHIN(5000, m.moved >= had + 3));
		CHECK_OK(gpu_unregister(fd, 0));
		/* Each page, or SIGBUS. */
		cpu_check(m.p, LEN, 3, 7);
		if (gpu_register(fd, 0) < 0)
			CHECK(m.registers && errno == EEXIST);
	}
	m.stop = 1;
	CHECK_EQ(pthread_join(t, NULL), 0);
	printf("# %llu moves, %llu refused\n", (unsigned long long)m.moved, (unsigned long long)m.refused);
	cpu_check(m.p, LEN, 3, 7);
	CHECK_OK(munmap(m.p, LEN));
	CHECK(WITHIN(2000, free_chunks(fd, 0) == before));
}

static void *unregisters(void *arg)
{
	struct mover *m = arg;

	while (!m->stop) {
		if (!gpu_unregister(m->fd, 0))
			m->moved++;
		else
			CHECK(errno == ENOENT || errno == EBUSY);
	}
	return NULL;
}

/* Comes and goes with files of its own, so that others wait for the GPU's table. */
static void *keeps_the_table_busy(void *arg)
{
	struct mover *m = arg;

	while (!m->stop) {
		int fd = open_with_gpu();

		CHECK_OK(gpu_unregister(fd, 0));
		CHECK_OK(close(fd));
	}
	return NULL;
}

/* Who registers and who unregisters at the same time find both tables as one: nobody stays in one of them. */
static void register_and_unregister_at_once(void)
{
	int fd = huvm_open();
	struct mover m = { .fd = fd };
	ARG(huvm_gpu_info, info, .gpu = 0);
	uint32_t before;
	double until = seconds() + 3;
	uint64_t n = 0;
	pthread_t t[4];

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &info));
	before = info.registered_clients;
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, i < 2 ? unregisters : keeps_the_table_busy, &m), 0);
	for (; seconds() < until; n++)
		if (gpu_register(fd, 0) < 0)
			CHECK_EQ(errno, EEXIST);
	m.stop = 1;
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	printf("# %llu calls, %llu unregistered\n", (unsigned long long)n, (unsigned long long)m.moved);
	CHECK(m.moved != 0);
	if (gpu_unregister(fd, 0) < 0)
		CHECK_EQ(errno, ENOENT);
	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &info));
	CHECK_EQ(info.registered_clients, before);
	CHECK_OK(close(fd));
	/* The module goes behind the suite, which says what is left of spaces. */
}

/* A launch that goes on until it is ended, and touches nothing. */
static uint64_t endless(int fd)
{
	struct huvm_instr i = till_ended();
	uint64_t id;

	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	return id;
}

/* What races with unregistering by waiting, or by launching. */
struct launcher {
	int fd;
	struct huvm_wait w;
	int error;
	uint64_t ended, refused;
};

static void *waits(void *arg)
{
	struct launcher *l = arg;

	l->error = ioctl(l->fd, HUVM_IOC_WAIT, &l->w) ? errno : 0;
	return NULL;
}

static void *launches(void *arg)
{
	struct launcher *l = arg;
	struct huvm_instr i = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 100000 };
	struct huvm_wait w;
	uint64_t id;

	for (;;) {
		if (!launch(l->fd, 0, 1, &i, 1, 8, &id)) {
			w = wait_launch(l->fd, id);
			CHECK(w.status == HUVM_LAUNCH_DONE || w.status == HUVM_LAUNCH_ABORTED);
			l->ended++;
		} else if (errno == ENODEV) {
			l->refused++;
		} else {
			l->error = errno;
			return NULL;
		}
	}
}

/* Who waits while the GPU is taken away is told that the launch was aborted; nobody starts one while the pages come home. */
static void unregister_under_a_launch(void)
{
	const uint64_t len = 24 * BLOCK;
	int fd = open_with_gpu();
	struct launcher l = { .fd = fd };
	uint64_t *p = managed(fd, len);
	pthread_t t[2];

	for (int turn = 0; turn < 3; turn++) {
		ARG(huvm_wait, w, .launch = endless(fd), .timeout_ns = launch_limit_ns());
		struct launcher waiter = { .fd = fd, .w = w };

		gpu_fill(fd, 0, p, len, BLOCKS, 3, turn);
		CHECK_EQ(pthread_create(&t[0], NULL, waits, &waiter), 0);
		CHECK(WITHIN(5000, is_listed("launch", getpid())));
		CHECK_EQ(pthread_create(&t[1], NULL, launches, &l), 0);
		give_time(50);
		CHECK_OK(gpu_unregister(fd, 0));
		for (int n = 0; n < 2; n++)
			CHECK_EQ(pthread_join(t[n], NULL), 0);
		CHECK_EQ(waiter.error, 0);
		CHECK_EQ(waiter.w.status, HUVM_LAUNCH_ABORTED);
		CHECK_EQ(waiter.w.error, HUVM_ERROR_NONE);
		CHECK_EQ(l.error, ENOENT);
		cpu_check(p, len, 3, turn);
		CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, &w), ENOENT);
		CHECK_OK(gpu_register(fd, 0));
	}
	printf("# %llu launches ended, %llu were refused\n", (unsigned long long)l.ended, (unsigned long long)l.refused);
	CHECK(l.ended && l.refused);
}

/* A GPU that could not be unregistered is used as before; what was aborted for it has its result. */
static void unregister_that_fails(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN), id;
	struct huvm_wait w;

	gpu_fill(fd, 0, p, LEN, BLOCKS, 3, 5);
	id = endless(fd);
	let_fail(fd, HUVM_FAIL_SUBMIT, ~0u);
	CHECK(gpu_unregister(fd, 0) < 0);
	let_fail(fd, HUVM_FAIL_SUBMIT, 0);
	w = wait_launch(fd, id);
	CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	CHECK_EQ(w.error, HUVM_ERROR_NONE);
	gpu_check(fd, 0, p, LEN, BLOCKS, 3, 5);
	CHECK_OK(gpu_unregister(fd, 0));
	cpu_check(p, LEN, 3, 5);
}

struct reader {
	int fd;
	uint64_t *p, *to;
	volatile int stop;
};

/* The GPU copies a page to another, again and again. */
static void gpu_copies(int fd, uint64_t *to, uint64_t *from)
{
	struct huvm_instr i = { .op = HUVM_OP_COPY, .count = PAGE / 8, .steps = 1, .dst = (uintptr_t)to, .a = (uintptr_t)from };

	run_ok(fd, 0, 1, &i, 1, 8);
}

static void *copies_on(void *arg)
{
	struct reader *r = arg;

	while (!r->stop)
		gpu_copies(r->fd, r->to, r->p);
	return NULL;
}

/* What ptrace writes to a page that a GPU reads all the time is what the GPU reads next, though the GPU has a copy of its own. */
static void written_by_a_debugger(void)
{
	int fd = open_with_gpu(), mem = open("/proc/self/mem", O_RDWR);
	uint64_t *p = managed(fd, 3 * BLOCK), *to = p + BLOCK / 8;
	struct reader r = { .fd = fd, .p = p, .to = p + 2 * BLOCK / 8 };
	pthread_t t;

	CHECK(mem >= 0);
	cpu_fill(p, BLOCK, 1, 1);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	CHECK_EQ(pthread_create(&t, NULL, copies_on, &r), 0);
	for (uint64_t v = 1000; v < 1120; v++) {
		CHECK_EQ(pwrite(mem, &v, 8, (off_t)(uintptr_t)p), 8);
		gpu_copies(fd, to, p);
		CHECK_EQ(to[0], v);
		CHECK_EQ(p[0], v);
	}
	r.stop = 1;
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_OK(close(mem));
}

static void munmap_while_running(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN), id;
	struct huvm_instr i[2] = { over(HUVM_OP_FILL, LEN, BLOCKS), over(HUVM_OP_CHECK, LEN, BLOCKS) };
	struct huvm_wait w;

	i[0].dst = i[1].a = (uintptr_t)p;
	i[0].steps = i[1].steps;
	CHECK_OK(launch(fd, 0, BLOCKS, i, 2, 8, &id));
	CHECK_OK(munmap((char *)p + LEN / 2, LEN / 2));
	w = wait_launch(fd, id);
	/* Either it was done already, or it failed at an address that is gone; both leave the client usable. */
	if (w.status == HUVM_LAUNCH_FAILED)
		CHECK(w.fault_va >= (uintptr_t)p + LEN / 2 && w.fault_va < (uintptr_t)p + LEN);
	else
		CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	gpu_fill(fd, 0, p, LEN / 2, BLOCKS, 1, 0);
	cpu_check(p, LEN / 2, 1, 0);
}

static void unmapped_is_gone_for_the_gpu(void)
{
	/* Half of a block is unmapped while the GPU has all of it; the other half keeps the block alive. */
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK), *q = p + BLOCK / 16;
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK / 2, 4);
	struct huvm_wait w;

	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 3, 3);
	CHECK_EQ(block_info(fd, p).gpu_mapped[0], 512);
	CHECK_OK(munmap(q, BLOCK / 2));
	CHECK_EQ(block_info(fd, p).gpu_mapped[0], 256);
	/* What was cached there must not be used either. */
	i.dst = (uintptr_t)q;
	w = run_program(fd, 0, 4, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_FAULT);
	CHECK(w.fault_va >= (uintptr_t)q && w.fault_va < (uintptr_t)q + BLOCK / 2);
	gpu_check(fd, 0, p, BLOCK / 2, 8, 3, 3);
	cpu_check(p, BLOCK / 2, 3, 3);
}

static void clients_fault_together(void)
{
	/* Their packets lie side by side in one ring, and no address of one is another's: nobody may be taken for another. */
	enum { CLIENTS = 4 };
	uint64_t *p[CLIENTS], id[CLIENTS], fatal;
	int fd[CLIENTS];

	for (int c = 0; c < CLIENTS; c++) {
		fd[c] = open_with_gpu();
		p[c] = managed(fd[c], LEN / 2);
	}
	fatal = of_gpu(fd[0], 0, HUVM_CNT_FAULTS_FATAL);
	for (uint64_t turn = 0; turn < 4; turn++) {
		for (int c = 0; c < CLIENTS; c++) {
			struct huvm_instr i = over(HUVM_OP_FILL, LEN / 2, BLOCKS);

			i.dst = (uintptr_t)p[c];
			i.imm0 = turn + 10 * (uint64_t)c;
			i.imm1 = 3;
			CHECK_OK(launch(fd[c], 0, BLOCKS, &i, 1, 8, &id[c]));
		}
		for (int c = 0; c < CLIENTS; c++)
			CHECK_EQ(wait_launch(fd[c], id[c]).status, HUVM_LAUNCH_DONE);
		/* Home again, so that the next turn faults as well. */
		for (uint64_t c = 0; c < CLIENTS; c++)
			cpu_check(p[c], LEN / 2, turn + 10 * c, 3);
	}
	CHECK_EQ(of_gpu(fd[0], 0, HUVM_CNT_FAULTS_FATAL), fatal);
}

static void fatal_outside(void)
{
	int fd = open_with_gpu(), other = open_with_gpu();
	uint64_t *good = managed(other, LEN), *p = managed(fd, BLOCK), id;
	struct huvm_instr i = over(HUVM_OP_FILL, PIECE * 4, 4), j = over(HUVM_OP_FILL, LEN, BLOCKS);
	struct huvm_wait w;

	/* Another client's work is under way and must not notice. */
	j.dst = (uintptr_t)good;
	j.imm0 = 77;
	CHECK_OK(launch(other, 0, BLOCKS, &j, 1, 8, &id));
	i.dst = (uintptr_t)p + 64 * BLOCK;
	w = run_program(fd, 0, 4, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_FAULT);
	CHECK(w.fault_va >= (uintptr_t)p + 64 * BLOCK && w.fault_va < (uintptr_t)p + 64 * BLOCK + PIECE * 4);
	CHECK_EQ(w.access_type, 1);
	w = wait_launch(other, id);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	cpu_check(good, LEN, 77, 0);
	/* The client itself goes on as well. */
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5, 5);
	cpu_check(p, BLOCK, 5, 5);
}

static void fatal_read_only(void)
{
	int fd = open_with_gpu();
	uint64_t *p = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0);
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, BLOCKS);
	struct huvm_wait w;

	CHECK(p != MAP_FAILED);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 0, 0);
	i.dst = (uintptr_t)p;
	i.imm0 = 1;
	w = run_program(fd, 0, BLOCKS, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_FAULT);
	CHECK_EQ(w.fault_type, 6);
	cpu_check(p, BLOCK, 0, 0);
}

/* Catches a cancel that ends more than the access it is for: another launch reads the pages that this one must not write. */
static void fatal_write_spares_readers(void)
{
	int fd = open_with_gpu();
	struct huvm_instr read = over(HUVM_OP_CHECK, BLOCK, BLOCKS), write = over(HUVM_OP_FILL, BLOCK, BLOCKS);

	for (int turn = 0; turn < 12; turn++) {
		uint64_t *p = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0), reader, writer;
		struct huvm_wait w;

		CHECK(p != MAP_FAILED);
		read.a = write.dst = (uintptr_t)p;
		write.imm0 = 1;
		/* Which of them comes first changes. */
		CHECK_OK(launch(fd, 0, BLOCKS, turn & 1 ? &read : &write, 1, 8, turn & 1 ? &reader : &writer));
		CHECK_OK(launch(fd, 0, BLOCKS, turn & 1 ? &write : &read, 1, 8, turn & 1 ? &writer : &reader));
		w = wait_launch(fd, writer);
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_FAULT);
		CHECK_EQ(w.fault_type, 6);
		w = wait_launch(fd, reader);
		CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		cpu_check(p, BLOCK, 0, 0);
		CHECK_OK(munmap(p, BLOCK));
	}
}

static void bad_programs(void)
{
	int fd = open_with_gpu();
	void *p = managed(fd, BLOCK);
	struct huvm_instr good = over(HUVM_OP_FILL, BLOCK, 4), i;
	uint64_t id;

	good.dst = (uintptr_t)p;
	i = good, i.op = 99;
	CHECK_ERR(launch(fd, 0, 4, &i, 1, 8, &id), EINVAL);
	i = good, i.flags = 1;
	CHECK_ERR(launch(fd, 0, 4, &i, 1, 8, &id), EINVAL);
	i = good, i.count = 0;
	CHECK_ERR(launch(fd, 0, 4, &i, 1, 8, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 0, &good, 1, 8, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 4, &good, 0, 8, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 4, &good, 17, 8, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 4, &good, 1, 3, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 4, (void *)8, 1, 8, &id), EFAULT);
	CHECK_ERR(launch(fd, 15, 4, &good, 1, 8, &id), ENODEV);
	run_ok(fd, 0, 4, &good, 1, 8);
}

/* What is no multiple of an element's size fails where it is, and touches nothing; four bytes at 4 mod 8 across a page are fine. */
static void unaligned_addresses(void)
{
	static const struct {
		uint32_t op, elem;
		uint64_t off, stride, at;	/* of the base, of the element that fails */
	} bad[] = {
		{ HUVM_OP_FILL, 4, PAGE - 7, 0, PAGE - 7 }, { HUVM_OP_FILL, 8, PAGE - 4, 0, PAGE - 4 },
		{ HUVM_OP_ATOMIC_ADD, 8, PAGE - 4, 0, PAGE - 4 }, { HUVM_OP_ATOMIC_ADD, 4, PAGE + 2, 0, PAGE + 2 },
		{ HUVM_OP_FILL, 8, BLOCK, 12, BLOCK + 12 }, { HUVM_OP_SCALE, 8, 20, 0, 20 },
	};
	int fd = open_with_gpu();
	char *p = managed(fd, 2 * BLOCK);
	uint64_t *first = (uint64_t *)(p + BLOCK);
	uint32_t *words = (uint32_t *)(p + PAGE - 12);

	cpu_fill((uint64_t *)p, 2 * BLOCK, 3, 5);
	for (unsigned int n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		struct huvm_instr i = { .op = bad[n].op, .count = 4, .steps = 1, .elem_stride = bad[n].stride, .imm0 = 99 };
		struct huvm_wait w;

		i.dst = i.a = (uintptr_t)p + bad[n].off;
		w = run_program(fd, 0, 1, &i, 1, bad[n].elem);
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_FAULT);
		CHECK_EQ(w.fault_type, 3);
		CHECK_EQ(w.fault_va, (uintptr_t)p + bad[n].at);
	}
	/* The one that lay well was written. */
	CHECK_EQ(*first, 99);
	*first = 3 + 5 * (BLOCK / 8);
	cpu_check((uint64_t *)p, 2 * BLOCK, 3, 5);
	for (int k = 0; k < 6; k++)
		words[k] = (uint32_t)(1000 * k) | 0x80000000;
	for (uint32_t op = HUVM_OP_SCALE; op; op = op == HUVM_OP_SCALE ? HUVM_OP_ATOMIC_ADD : 0) {
		struct huvm_instr i = { .op = op, .count = 6, .steps = 1, .imm0 = 2, .imm1 = 1 };

		i.dst = i.a = (uintptr_t)words;
		run_ok(fd, 0, 1, &i, 1, 4);
	}
	for (int k = 0; k < 6; k++)
		CHECK_EQ(words[k], (uint32_t)(2000 * k) + 3);
	cpu_check((uint64_t *)p, PAGE - 16, 3, 5);
	cpu_check((uint64_t *)(p + PAGE + 16), PAGE, 3 + 5 * (PAGE / 8 + 2), 5);
}

static void abort_and_wait(void)
{
	int fd = open_with_gpu();
	void *p = managed(fd, BLOCK);
	struct huvm_instr i = till_ended();
	uint64_t id;
	ARG(huvm_wait, w);

	(void)p;
	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	w.launch = id;
	CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &w));
	CHECK_EQ(w.status, HUVM_LAUNCH_RUNNING);
	w.timeout_ns = 1000000;
	CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, &w), ETIMEDOUT);
	w.timeout_ns = 700ull * 1000000000ull;
	CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, &w), EINVAL);
	w.timeout_ns = 1000000000;
	CHECK_OK(ioctl(fd, HUVM_IOC_ABORT, &w));
	CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, &w), ENOENT);
}

/* Ends a launch; it was aborted, for no other reason, and has no address. */
static void ends_aborted(int fd, uint64_t id)
{
	ARG(huvm_wait, w, .launch = id, .timeout_ns = launch_limit_ns());

	CHECK_OK(ioctl(fd, HUVM_IOC_ABORT, &w));
	CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	CHECK_EQ(w.error, HUVM_ERROR_NONE);
	CHECK_EQ(w.fault_va, 0);
	CHECK_EQ(w.fault_type, 0);
	CHECK_EQ(w.access_type, 0);
}

/* What a launch fails of is not the reason why another one of the same file ends: found by an abort that reported its neighbour's. */
static void reason_of_another_launch(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK), before = endless(fd), id;
	struct huvm_instr i = over(HUVM_OP_FILL, PIECE * 4, 4);
	struct huvm_wait w;

	i.dst = (uintptr_t)p + 64 * BLOCK;
	for (int turn = 0; turn < 2; turn++) {
		CHECK_OK(launch(fd, 0, 4, &i, 1, 8, &id));
		w = wait_launch(fd, id);
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_FAULT);
		CHECK(w.fault_va >= i.dst && w.fault_va < i.dst + PIECE * 4);
		CHECK_EQ(w.access_type, 1);
		/* Another address: the first reason that was noted is not the one for good. */
		i.dst += 8 * BLOCK;
	}
	ends_aborted(fd, before);
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5, 5);
}

/* All of a result is the driver's: found by fields that came back as the caller had left them. */
static void result_is_all_written(void)
{
	int fd = open_with_gpu();
	struct launcher waiter = { .fd = fd };
	struct huvm_wait *w = &waiter.w;
	pthread_t t;

	/* Ended at once; taken away under the wait. */
	for (int away = 0; away < 2; away++) {
		uint64_t id = endless(fd);

		memset(w, 0xff, sizeof(*w));
		w->size = sizeof(*w);
		w->flags = 0;
		w->launch = id;
		w->timeout_ns = launch_limit_ns();
		CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, w), EINVAL);
		w->reserved = 0;
		if (away) {
			CHECK_EQ(pthread_create(&t, NULL, waits, &waiter), 0);
			CHECK(WITHIN(5000, is_listed("launch", getpid())));
			CHECK_OK(gpu_unregister(fd, 0));
			CHECK_EQ(pthread_join(t, NULL), 0);
			CHECK_EQ(waiter.error, 0);
		} else {
			CHECK_OK(ioctl(fd, HUVM_IOC_ABORT, w));
		}
		CHECK_EQ(w->status, HUVM_LAUNCH_ABORTED);
		CHECK_EQ(w->error, 0);
		CHECK_EQ(w->fault_va, 0);
		CHECK_EQ(w->fault_type, 0);
		CHECK_EQ(w->access_type, 0);
		CHECK_EQ(w->mismatches, 0);
		CHECK_EQ(w->mismatch_va, 0);
		CHECK_EQ(w->faults, 0);
		CHECK_EQ(w->bytes, 0);
		CHECK_EQ(w->blocks_done, 0);
		CHECK_EQ(w->reserved, 0);
		CHECK(w->start_ns != ~0ull && w->end_ns != ~0ull);
	}
}

static void read_mostly(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN);

	cpu_fill(p, LEN, 4, 4);
	CHECK_OK(advise(fd, p, LEN, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 0, p, LEN, BLOCKS, 4, 4);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_EQ(block_info(fd, p).host_pages, 512);
	cpu_check(p, LEN, 4, 4);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	/* A CPU write collapses the copies; the GPU sees the new value. */
	p[0] = 999;
	CHECK_EQ(block_info(fd, p).gpu_pages[0] + block_info(fd, p).host_pages <= 1023, 1);
	gpu_scale(fd, 0, p, LEN, BLOCKS, 1, 1);
	CHECK_EQ(p[0], 1000);
	CHECK_EQ(p[1], 9);
}

/* Advice and moves about one block, by number. */
static void call(int fd, char *p, int which)
{
	switch (which) {
	case 0: CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0)); break;
	case 1: CHECK_OK(advise(fd, p + BLOCK / 4, BLOCK / 2, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST)); break;
	case 2: CHECK_OK(advise(fd, p + PAGE, BLOCK / 2, HUVM_ADVISE_ACCESSED_BY, 0)); break;
	case 3: CHECK_OK(migrate(fd, p, BLOCK, 0)); break;
	case 4: CHECK_OK(migrate(fd, p + BLOCK / 2 + PAGE, BLOCK / 4, HUVM_PLACE_HOST)); break;
	case 5: CHECK_OK(advise(fd, p, BLOCK / 2, HUVM_ADVISE_PREFERRED, 0)); break;
	case 6: CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_PREFERRED, 0)); break;
	}
}

/* Calls in this order about a new block that the CPU filled; after each, all is read and changed by both sides. */
static void calls_in_order(int fd, const int *order, int n)
{
	uint64_t *p = managed(fd, BLOCK), add = 11;

	cpu_fill(p, BLOCK, add, 5);
	for (int k = 0; k < n; k++) {
		call(fd, (char *)p, order[k]);
		gpu_check(fd, 0, p, BLOCK, 8, add, 5);
		/* A word of some pages by the CPU and back, then all by the GPU. */
		for (uint64_t pg = (uint64_t)k; pg < BLOCK / PAGE; pg += 37)
			p[pg * 512] += 7;
		for (uint64_t pg = (uint64_t)k; pg < BLOCK / PAGE; pg += 37)
			p[pg * 512] -= 7;
		gpu_scale(fd, 0, p, BLOCK, 8, 1, 1);
		add++;
		cpu_check(p, BLOCK, add, 5);
	}
	CHECK_OK(munmap(p, BLOCK));
}

/* All 42 orders of two of the seven, each first of the two seen by the second. */
static void pairs_of_calls(void)
{
	int fd = open_with_gpu();

	for (int a = 0; a < 7; a++)
		for (int b = 0; b < 7; b++)
			if (a != b)
				calls_in_order(fd, (int []){ a, b }, 2);
	gets_idle(fd, 0);
}

/* All 24 orders of the first four: three kinds of advice and a move. */
static void four_calls_in_every_order(void)
{
	int fd = open_with_gpu(), orders = 0;

	for (int a = 0; a < 4; a++)
		for (int b = 0; b < 4; b++)
			for (int c = 0; c < 4; c++)
				if (a != b && a != c && b != c) {
					calls_in_order(fd, (int []){ a, b, c, 6 - a - b - c }, 4);
					orders++;
				}
	CHECK_EQ(orders, 24);
	gets_idle(fd, 0);
}

static void gpu_writes_a_duplicate(void)
{
	/* Both sides have every page and read it; then the GPU writes, and the CPU must see that, whole pages and parts. */
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, 2 * BLOCK);

	cpu_fill(p, 2 * BLOCK, 4, 4);
	CHECK_OK(advise(fd, p, 2 * BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	for (uint64_t turn = 0; turn < 3; turn++) {
		gpu_check(fd, 0, p, 2 * BLOCK, BLOCKS, 4 + turn, 4);
		cpu_check(p, 2 * BLOCK, 4 + turn, 4);
		CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
		CHECK_EQ(block_info(fd, p).host_pages, 512);
		/* Written without being read first. */
		gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5 + turn, 4);
		CHECK_EQ(block_info(fd, p).host_pages, 0);
		gpu_scale(fd, 0, p + BLOCK / 8, BLOCK, BLOCKS, 1, 1);
		cpu_check(p, 2 * BLOCK, 5 + turn, 4);
	}
}

static void preferred_host(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK);

	cpu_fill(p, BLOCK, 2, 2);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 2, 0);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 0);
	CHECK(block_info(fd, p).gpu_mapped[0] > 0);
	cpu_check(p, BLOCK, 4, 4);
	/* What the GPU has mapped there is no reason to leave it there. */
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, 0));
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 1);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	cpu_check(p, BLOCK, 5, 4);
}

/* Advice ends where the range ends, inside a block: found by advice kept per block. */
static void advice_about_half_a_block(void)
{
	int fd = open_with_gpu();
	char *p = managed(fd, BLOCK);
	const uint64_t half = BLOCK / 2;

	cpu_fill((uint64_t *)p, BLOCK, 2, 2);
	CHECK_OK(advise(fd, p, half, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_MIXED);
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 2, 0);
	/* One half is mapped where it is, the other one moved; the prefetcher added nothing of the first. */
	CHECK_EQ(block_info(fd, p).host_pages, 256);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 256);
	CHECK_EQ(block_info(fd, p).gpu_mapped[0], 512);
	cpu_check((uint64_t *)p, BLOCK, 4, 4);
	CHECK_OK(advise(fd, p + half, half, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_HOST);
	CHECK_OK(advise(fd, p, half, HUVM_ADVISE_UNSET_PREFERRED, 0));
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_MIXED);
	CHECK_OK(advise(fd, p + half, half, HUVM_ADVISE_UNSET_PREFERRED, 0));
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_NONE);
	CHECK_OK(advise(fd, p, half, HUVM_ADVISE_ACCESSED_BY, 0));
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 1);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 256);
	cpu_check((uint64_t *)p, BLOCK, 5, 4);
}

/* The same of the CPU's faults: pages that are read mostly keep their copies, neighbours move, in one 64 KiB too. */
static void read_mostly_pages_of_a_block(void)
{
	int fd = open_with_gpu();
	char *p = managed(fd, BLOCK);
	const volatile char *at = p;

	cpu_fill((uint64_t *)p, BLOCK, 4, 4);
	CHECK_OK(advise(fd, p + 264 * PAGE, BLOCK - 264 * PAGE, HUVM_ADVISE_READ_MOSTLY, 0));
	CHECK_EQ(block_info(fd, p).read_mostly, 248);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 4, 4);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_EQ(block_info(fd, p).host_pages, 248);
	(void)at[300 * PAGE];
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	(void)at[256 * PAGE];
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 504);
	CHECK_EQ(block_info(fd, p).host_pages, 256);
	/* Part of it is no longer: one copy of these stays, of the others two. */
	CHECK_OK(advise(fd, p + 448 * PAGE, 64 * PAGE, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	CHECK_EQ(block_info(fd, p).read_mostly, 184);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 440);
	CHECK_EQ(block_info(fd, p).host_pages, 256);
	cpu_check((uint64_t *)p, BLOCK, 4, 4);
}

/* What is mapped where something advised about was has no advice. */
static void advice_goes_with_the_mapping(void)
{
	int fd = open_with_gpu();
	char *p = managed(fd, BLOCK), *hole = p + 64 * PAGE;

	memset(p, 1, BLOCK);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	CHECK_OK(munmap(hole, 64 * PAGE));
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_HOST);
	CHECK(mmap(hole, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == hole);
	CHECK_EQ(block_info(fd, p).preferred, HUVM_PLACE_MIXED);
	gpu_fill(fd, 0, hole, 64 * PAGE, 4, 7, 0);
	gpu_scale(fd, 0, p, 64 * PAGE, 4, 1, 0);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 64);
	cpu_check((uint64_t *)hole, 64 * PAGE, 7, 0);
	CHECK_EQ(p[0], 1);
	CHECK_EQ(p[BLOCK - 1], 1);
}

static void accessed_by(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK);

	cpu_fill(p, BLOCK, 2, 2);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_ACCESSED_BY, 0));
	/* The pages stay where they are, and the GPU maps them there. */
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 2, 0);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 0);
	CHECK_EQ(block_info(fd, p).gpu_mapped[0], 512);
	cpu_check(p, BLOCK, 4, 4);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_ACCESSED_BY, 0));
	CHECK_OK(migrate(fd, p, BLOCK, 0));
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 4, 4);
	/* A page that is nowhere yet is made where it is first touched. */
	p = managed(fd, BLOCK);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_ACCESSED_BY, 0));
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 1, 1);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	cpu_check(p, BLOCK, 1, 1);
}

static uint64_t stop_fighting;

static void *fights(void *arg)
{
	volatile uint64_t *word = arg;
	uint64_t turns = 0;

	while (!__atomic_load_n(&stop_fighting, __ATOMIC_RELAXED)) {
		*word += 1;
		turns++;
		usleep(100);
	}
	return (void *)(uintptr_t)turns;
}

/* The CPU and the GPU write words of one page in turn, the GPU @n times. Returns how often the CPU did. */
static uint64_t fight(int fd, uint64_t *p, uint32_t n)
{
	struct huvm_instr i[2] = {
		{ .op = HUVM_OP_SCALE, .count = 1, .steps = 1, .imm0 = 1, .imm1 = 1 },
		{ .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 300000 },
	};
	ARG(huvm_launch, l, .gpu = 0, .blocks = 1, .iterations = n, .elem_bytes = 8, .nr_instr = 2,
	    .instrs = (uintptr_t)i);
	pthread_t t;
	void *turns;

	i[0].a = i[0].dst = (uintptr_t)p;
	stop_fighting = 0;
	CHECK_EQ(pthread_create(&t, NULL, fights, p + 1), 0);
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
	CHECK_EQ(wait_launch(fd, l.launch).status, HUVM_LAUNCH_DONE);
	__atomic_store_n(&stop_fighting, 1, __ATOMIC_RELAXED);
	pthread_join(t, &turns);
	return (uintptr_t)turns;
}

/*
 * Calls over more ranges than are looked at without a pause (64). Catches one that ends there, and one that does not see a hole where it
 * goes on.
 */
static void calls_over_many_ranges(void)
{
	enum { RANGES = 200 };
	static const int holes[] = { 0, 63, 64, 65, 128, RANGES - 1 };
	int fd = open_with_gpu();
	char *p = mmap(NULL, 2 * BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	p = (char *)(((uintptr_t)p + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1));
	/* All of offset 0, so that neither the kernel nor the driver takes two for one. */
	for (int n = 0; n < RANGES; n++)
		CHECK(mmap(p + n * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p + n * PAGE);
	cpu_fill((uint64_t *)p, RANGES * PAGE, 5, 3);
	CHECK_OK(migrate(fd, p, RANGES * PAGE, 0));
	CHECK_EQ(block_info(fd, p).gpu_pages[0], RANGES);
	for (size_t i = 0; i < sizeof(holes) / sizeof(*holes); i++) {
		char *hole = p + holes[i] * PAGE;

		CHECK_OK(munmap(hole, PAGE));
		CHECK_ERR(migrate(fd, p, RANGES * PAGE, 0), ENOMEM);
		CHECK_ERR(advise(fd, p, RANGES * PAGE, HUVM_ADVISE_READ_MOSTLY, 0), ENOMEM);
		if (holes[i])
			CHECK_OK(migrate(fd, p, holes[i] * PAGE, 0));
		if (holes[i] < RANGES - 1)
			CHECK_OK(migrate(fd, hole + PAGE, (RANGES - 1 - holes[i]) * PAGE, 0));
		CHECK(mmap(hole, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == hole);
		cpu_fill((uint64_t *)hole, PAGE, 5 + 3 * holes[i] * (PAGE / 8), 3);
		CHECK_OK(migrate(fd, p, RANGES * PAGE, 0));
	}
	cpu_check((uint64_t *)p, RANGES * PAGE, 5, 3);
	close(fd);
}

static void thrashing(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK), cpu = 0, gpu = 0, pins, waits;

	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 3);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_windows", 50);
	/* Again, where the two were too slow to meet within a window, with a longer one. */
	do {
		set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 20000 * (1 + gpu / 400));
		cpu += fight(fd, p, 200);
		gpu += 200;
		pins = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS);
		waits = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_THROTTLES);
	} while ((!pins || waits < 3) && gpu < 2000);
	printf("# %llu throttled, %llu pinned in %llu turns\n", (unsigned long long)waits, (unsigned long long)pins,
	       (unsigned long long)gpu);
	CHECK(pins > 0 && waits >= 3);
	/* Nobody lost an addition. */
	CHECK_EQ(p[0], gpu);
	CHECK_EQ(p[1], cpu);
	/* A pin ends by itself: what the GPU then touches moves to it again. */
	CHECK(WITHIN(10000, !block_info(fd, p).gpu_mapped[0]));
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 0);
	CHECK(block_info(fd, p).gpu_pages[0] > 0);
	CHECK_EQ(p[0], gpu);
	/* Switched off, its page comes with others of the block. (Here it does so either way: this says nothing of the switch.) */
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 0);
	CHECK_OK(migrate(fd, p, BLOCK, HUVM_PLACE_HOST));
	gpu_fill(fd, 0, (char *)p + BLOCK / 2, BLOCK / 2, 1, 1, 1);
	gpu_fill(fd, 0, (char *)p + BLOCK / 4, BLOCK / 4, 1, 1, 1);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], BLOCK / PAGE);
	CHECK_EQ(p[0], gpu);
	close(fd);
	/* Switched off, nothing of it happens. */
	fd = open_with_gpu();
	p = managed(fd, BLOCK);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 20000);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", 0);
	cpu = fight(fd, p, 50);
	CHECK_EQ(p[0], 50);
	CHECK_EQ(p[1], cpu);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS), 0);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_THROTTLES), 0);
}

#define MANY 260u

static void *fights_for_many(void *arg)
{
	volatile uint64_t *word = arg;

	while (!__atomic_load_n(&stop_fighting, __ATOMIC_RELAXED)) {
		for (uint64_t b = 0; b < MANY; b++)
			word[b * (BLOCK / 8)] += 1;
		usleep(100);
	}
	return NULL;
}

/* Who has pages in more blocks pinned for hours than a GPU keeps in mind keeps no other's pin from its end. */
static void pinned_for_long(void)
{
	int many = open_with_gpu(), fd = open_with_gpu();
	uint64_t *q = managed(many, MANY * BLOCK), *p = managed(fd, BLOCK), gpu = 0, turns = 0;
	struct huvm_instr i[2] = {
		{ .op = HUVM_OP_SCALE, .count = 1, .steps = 1, .block_stride = BLOCK, .imm0 = 1, .imm1 = 1 },
		{ .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 300000 },
	};
	ARG(huvm_launch, l, .gpu = 0, .blocks = MANY, .iterations = 50, .elem_bytes = 8, .nr_instr = 2, .instrs = (uintptr_t)i);
	pthread_t t;

	i[0].a = i[0].dst = (uintptr_t)q;
	set_knob(many, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0);
	set_knob(many, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 1);
	set_knob(many, HUVM_SCOPE_SPACE, "thrash_pin_windows", 1000000);
	set_knob(many, HUVM_SCOPE_SPACE, "thrash_window_us", 500000);
	stop_fighting = 0;
	CHECK_EQ(pthread_create(&t, NULL, fights_for_many, q + 1), 0);
	while (counter(many, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) < MANY) {
		CHECK(turns < 200);
		turns++;
		CHECK_OK(ioctl(many, HUVM_IOC_LAUNCH, &l));
		CHECK_EQ(wait_launch(many, l.launch).status, HUVM_LAUNCH_DONE);
	}
	__atomic_store_n(&stop_fighting, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	printf("# %llu pinned in %llu launches\n", (unsigned long long)counter(many, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS),
	       (unsigned long long)turns);
	for (uint64_t b = 0; b < MANY; b++)
		CHECK_EQ(q[b * (BLOCK / 8)], 50 * turns);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 3);
	set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_windows", 50);
	do {
		set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 20000 * (1 + gpu / 400));
		fight(fd, p, 200);
		gpu += 200;
	} while (!counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) && gpu < 2000);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) > 0);
	CHECK(WITHIN(10000, !block_info(fd, p).gpu_mapped[0]));
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 0);
	CHECK(block_info(fd, p).gpu_pages[0] > 0);
	CHECK_EQ(p[0], gpu);
	close(fd);
	close(many);
}

/* A pin goes with what the user says of its pages, and what GPUs have mapped with it: the pages move again. */
static void pin_that_the_user_ends(void)
{
	enum { MOVED, MOVED_FROM_AN_ENDLESS_ONE, PREFERRED, HOWS };

	for (int how = 0; how < HOWS; how++) {
		int fd = open_with_gpu();
		uint64_t *p = managed(fd, BLOCK), gpu = 0, cpu = 0;

		set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_threshold_periods", 3);
		set_knob(fd, HUVM_SCOPE_SPACE, "thrash_pin_windows", how == MOVED_FROM_AN_ENDLESS_ONE ? 0 : 1000000);
		do {
			set_knob(fd, HUVM_SCOPE_SPACE, "thrash_window_us", 20000 * (1 + gpu / 400));
			cpu += fight(fd, p, 200);
			gpu += 200;
		} while (!counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) && gpu < 2000);
		CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_THRASH_PINS) > 0);
		cpu += fight(fd, p, 10);
		gpu += 10;
		CHECK(block_info(fd, p).gpu_mapped[0] > 0);
		CHECK_EQ(block_info(fd, p).gpu_pages[0], 0);
		if (how == PREFERRED)
			CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, 0));
		else
			CHECK_OK(migrate(fd, p, BLOCK, HUVM_PLACE_HOST));
		CHECK_EQ(block_info(fd, p).gpu_mapped[0], 0);
		gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 0);
		CHECK(block_info(fd, p).gpu_pages[0] > 0);
		CHECK_EQ(p[0], gpu);
		CHECK_EQ(p[1], cpu);
		CHECK_OK(munmap(p, BLOCK));
		close(fd);
	}
}

static void discard(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, LEN), before = free_chunks(fd, 0);

	gpu_fill(fd, 0, p, LEN, BLOCKS, 6, 6);
	CHECK_OK(advise(fd, p, LEN, HUVM_ADVISE_DISCARD, 0));
	CHECK_EQ(free_chunks(fd, 0), before);
	cpu_check(p, LEN, 0, 0);
	CHECK_OK(advise(fd, p, LEN, HUVM_ADVISE_DISCARD, 0));
	gpu_check(fd, 0, p, LEN, BLOCKS, 0, 0);
}

struct taker {
	int fd;
	uint64_t id;
	int error;
};

static void *take_result(void *arg)
{
	struct taker *t = arg;
	ARG(huvm_wait, w, .launch = t->id, .timeout_ns = 60ull * 1000000000ull);

	t->error = ioctl(t->fd, HUVM_IOC_WAIT, &w) ? errno : 0;
	if (!t->error && w.status != HUVM_LAUNCH_DONE)
		t->error = -1;
	return NULL;
}

/* Two wait for one launch of @ns, each by @take. */
static void both_take(int fd, uint64_t ns, void *(*take)(void *), struct taker t[2])
{
	struct huvm_instr i = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = ns };
	pthread_t thread[2];
	uint64_t id;

	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	for (int n = 0; n < 2; n++) {
		t[n] = (struct taker){ .fd = fd, .id = id };
		CHECK_EQ(pthread_create(&thread[n], NULL, take, &t[n]), 0);
	}
	for (int n = 0; n < 2; n++)
		pthread_join(thread[n], NULL);
}

/* Of two who wait for one launch one gets the result; the other learns that it was taken, not that it was aborted. */
static void two_waiters(void)
{
	int fd = open_with_gpu();
	struct taker t[2];

	both_take(fd, 30000000, take_result, t);
	CHECK((t[0].error == 0 && t[1].error == ENOENT) || (t[0].error == ENOENT && t[1].error == 0));
}

static void *take_result_and_let_go(void *arg)
{
	struct taker *t = arg;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu), 0);
	take_result(arg);
	if (!t->error)
		CHECK_OK(gpu_unregister(t->fd, 0));
	return NULL;
}

/* The same where he who got it lets go of the GPU at once. On one CPU the other one looks behind that. */
static void taken_and_let_go(void)
{
	for (int turn = 0; turn < 30; turn++) {
		int fd = open_with_gpu();
		struct taker t[2];

		both_take(fd, 10000000, take_result_and_let_go, t);
		if (t[0].error + t[1].error != ENOENT || (t[0].error && t[1].error))
			FAIL("turn %d: one got %d, the other %d", turn, t[0].error, t[1].error);
		CHECK_OK(close(fd));
	}
}

/* What the GPU writes all the time comes when it is called, each time. */
static void called_while_it_is_wanted(void)
{
	int fd = open_with_gpu();
	uint64_t *p = managed(fd, PIECE), id;
	struct huvm_instr in = over(HUVM_OP_SCALE, PIECE, 1);
	ARG(huvm_launch, l, .gpu = 0, .blocks = 1, .iterations = 1000000, .elem_bytes = 8, .nr_instr = 1, .instrs = (uintptr_t)&in);

	gpu_fill(fd, 0, p, PIECE, 1, 0, 0);
	in.dst = in.a = (uintptr_t)p;
	in.imm0 = 1;
	in.imm1 = 1;
	/* So long that the GPU's thread waits for the copy too, and shorter than a nap. */
	test_reg(fd, 0, INJ_LATENCY, 400000);
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
	id = l.launch;
	for (int n = 0; n < 100; n++)
		CHECK_OK(migrate(fd, p, PIECE, HUVM_PLACE_HOST));
	test_reg(fd, 0, INJ_LATENCY, 0);
	ARG(huvm_wait, w, .launch = id, .timeout_ns = 60ull * 1000000000ull);
	CHECK_OK(ioctl(fd, HUVM_IOC_ABORT, &w));
	CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	CHECK_OK(close(fd));
}

static volatile int over_now;

static void *comes_and_goes(void *arg)
{
	int fd = *(int *)arg;

	while (!over_now) {
		gpu_unregister(fd, 0);
		gpu_register(fd, 0);
	}
	return NULL;
}

static void *launches_blindly(void *arg)
{
	int fd = *(int *)arg;
	struct huvm_instr i = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1000, .imm0 = 1000000 };
	uint64_t id, n = 0;

	while (!over_now) {
		ARG(huvm_wait, w, .timeout_ns = 1000000);

		if (launch(fd, 0, 4, &i, 1, 8, &id))
			continue;
		n++;
		w.launch = id;
		/* Ends with the registration, or is ended here. */
		if (ioctl(fd, HUVM_IOC_WAIT, &w) && errno == ETIMEDOUT)
			ioctl(fd, HUVM_IOC_ABORT, &w);
	}
	return (void *)(uintptr_t)n;
}

/* A space that lets go of the GPU while it launches never ends a launch of its neighbour. */
static void launches_are_their_owners(void)
{
	int fd = open_with_gpu(), other = open_with_gpu();
	uint64_t *p = managed(fd, BLOCK), rounds = 0;
	pthread_t t[2];
	void *started;
	time_t end = time(NULL) + 4;

	over_now = 0;
	CHECK_EQ(pthread_create(&t[0], NULL, comes_and_goes, &other), 0);
	CHECK_EQ(pthread_create(&t[1], NULL, launches_blindly, &other), 0);
	for (; time(NULL) < end; rounds++)
		gpu_fill(fd, 0, p, BLOCK, 8, rounds, 1);
	over_now = 1;
	pthread_join(t[0], NULL);
	pthread_join(t[1], &started);
	printf("# %llu launches beside %llu\n", (unsigned long long)rounds, (unsigned long long)(uintptr_t)started);
	CHECK(started);
	cpu_check(p, BLOCK, rounds - 1, 1);
}

/*
 * A page of each piece, one after the other, where nothing was before. Catches a fault that goes on with a stream and brings what
 * is elsewhere, which here is nothing, instead of what is dense.
 */
static void stream_of_first_touches(void)
{
	const uint64_t len = 8 * BLOCK;
	int fd = huvm_open();
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = 1, .steps = len / PIECE, .step_stride = PIECE };
	uint8_t *p;

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
	CHECK_OK(gpu_register(fd, 0));
	p = managed(fd, len);
	i.dst = (uintptr_t)p;
	run_ok(fd, 0, 1, &i, 1, 8);
	for (uint64_t b = 0; b < len / BLOCK; b++)
		CHECK_EQ(block_info(fd, p + b * BLOCK).gpu_pages[0], BLOCK / PAGE);
	/* One page of each block: what is around it comes with it, whether a stream goes on there or not. */
	p = managed(fd, len);
	i = (struct huvm_instr){ .op = HUVM_OP_FILL, .count = 1, .steps = len / BLOCK, .step_stride = BLOCK, .dst = (uintptr_t)p };
	run_ok(fd, 0, 1, &i, 1, 8);
	for (uint64_t b = 0; b < len / BLOCK; b++)
		CHECK(block_info(fd, p + b * BLOCK).gpu_pages[0] >= PIECE / PAGE);
}

/* A space whose streams, once found, are followed for four blocks; or from one pass to the next too. */
static int with_streams(uint64_t cycles)
{
	int fd = huvm_open();

	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_amount_mib", 8));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_cycles", cycles));
	CHECK_OK(gpu_register(fd, 0));
	return fd;
}

/* A word of each block, a launch for each. */
static void touch_blocks(int fd, uint8_t *p, uint64_t from, uint64_t end)
{
	for (uint64_t b = from; b < end; b++) {
		struct huvm_instr i = { .op = HUVM_OP_FILL, .count = 1, .steps = 1, .dst = (uintptr_t)(p + b * BLOCK) };

		run_ok(fd, 0, 1, &i, 1, 8);
	}
}

static uint32_t on_gpu(int fd, uint8_t *p, uint64_t block)
{
	return block_info(fd, p + block * BLOCK).gpu_pages[0];
}

static void *strays(void *arg)
{
	/* Far from each other, so that each ends a stream of this space. */
	static const uint64_t order[] = { 0, 5, 2, 7, 1, 6, 3, 4 };
	int fd = *(int *)arg;
	uint8_t *p = managed(fd, 8 * BLOCK);

	while (!over_now)
		for (uint64_t n = 0; n < 8; n++) {
			p[order[n] * BLOCK] = 1;
			touch_blocks(fd, p, order[n], order[n] + 1);
		}
	CHECK_OK(munmap(p, 8 * BLOCK));
	return NULL;
}

/* Catches a client's stray faults that end what is fetched ahead for another. */
static void strays_of_another(void)
{
	const uint64_t len = 16 * BLOCK;
	int fd = with_streams(0), other = with_streams(0);
	uint64_t *p = managed(fd, len), ahead = 0;
	pthread_t t;

	over_now = 0;
	CHECK_EQ(pthread_create(&t, NULL, strays, &other), 0);
	for (uint64_t n = 0; n < 20; n++) {
		cpu_fill(p, len, n, 3);
		gpu_check(fd, 0, p, len, 1, n, 3);
	}
	over_now = 1;
	pthread_join(t, NULL);
	ahead = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_BLOCKS);
	printf("# %llu blocks were fetched ahead, %llu given up\n", (unsigned long long)ahead,
	       (unsigned long long)counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_ABANDONED));
	CHECK(ahead > 0);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_ABANDONED), 0);
	close(fd);
	close(other);
}

/* Of the blocks from @first on four are fetched ahead, or none. */
static void four_or_none(int fd, uint8_t *p, uint64_t first, uint64_t four)
{
	if (four)
		for (uint64_t b = first; b < first + 4; b++)
			CHECK(WITHIN(10000, on_gpu(fd, p, b) == BLOCK / PAGE));
	else
		give_time(50);
	CHECK_EQ(on_gpu(fd, p, first) != 0, four);
	CHECK_EQ(on_gpu(fd, p, first + 4), 0);
}

static uint64_t begin_touch(int fd, uint8_t *at)
{
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = 1, .steps = 1, .dst = (uintptr_t)at };
	uint64_t id;

	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	return id;
}

static int ends_within(int fd, uint64_t id, uint64_t ms)
{
	ARG(huvm_wait, w, .launch = id, .timeout_ns = ms * 1000000 * (uint64_t)time_scale());

	return !ioctl(fd, HUVM_IOC_WAIT, &w);
}

/*
 * The first copy that a stream has fetched ahead stands, or the one for its fault, whichever is the @nth: who goes first is not known.
 * Whether it was the former; then what another fault wants comes all the same.
 */
static int stands_alone(uint32_t nth)
{
	const uint64_t blocks = 29;
	int fd = with_streams(0), was_ahead;
	uint8_t *p = managed(fd, blocks * BLOCK);
	uint64_t id;

	cpu_fill((uint64_t *)p, blocks * BLOCK, 3, 7);
	touch_blocks(fd, p, 0, 5);
	four_or_none(fd, p, 5, 1);
	test_reg(fd, 0, INJ_CE_STALL, nth);
	id = begin_touch(fd, p + 9 * BLOCK);
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_STALL)));
	was_ahead = ends_within(fd, id, 300);
	if (was_ahead)
		CHECK(ends_within(fd, begin_touch(fd, p + 28 * BLOCK), 2000));
	test_reg(fd, 0, INJ_CE_STALL, 0);
	if (!was_ahead)
		CHECK_EQ(wait_launch(fd, id).error, 0);
	CHECK(WITHIN(10000, on_gpu(fd, p, 10) == BLOCK / PAGE));
	CHECK_OK(munmap(p, blocks * BLOCK));
	close(fd);
	return was_ahead;
}

/* Catches a fault that waits behind what is fetched ahead though that has a copy engine of its own. */
static void need_beside_what_is_ahead(void)
{
	int fd = huvm_open(), tries = 0;

	knob(fd, 0, "prefetch_apart", 1);
	while (!stands_alone(2 - (uint32_t)tries % 2))
		CHECK(++tries < 10);
	knob(fd, 0, "prefetch_apart", 0);
	close(fd);
}

/* Catches a stream that ends at what is there already, and one that is followed for more than its amount behind it. */
static void stream_over_what_is_there(void)
{
	const uint64_t blocks = 24;

	for (uint64_t on = 0; on < 2; on++) {
		int fd = with_streams(on);
		uint8_t *p = managed(fd, blocks * BLOCK);

		cpu_fill((uint64_t *)p, blocks * BLOCK, 3, 7);
		CHECK_OK(migrate(fd, p + 5 * BLOCK, 12 * BLOCK, 0));
		touch_blocks(fd, p, 0, 5);
		four_or_none(fd, p, 17, on);
		CHECK_OK(munmap(p, blocks * BLOCK));
		close(fd);
	}
}

/* Catches a pass that is found out anew, by four faults, and one that is foreseen though nobody asked for it. */
static void stream_of_the_next_pass(void)
{
	const uint64_t blocks = 12;

	for (uint64_t on = 0; on < 2; on++) {
		int fd = with_streams(on);
		uint8_t *p = managed(fd, blocks * BLOCK);

		cpu_fill((uint64_t *)p, blocks * BLOCK, 3, 7);
		touch_blocks(fd, p, 0, blocks);
		/* All of it, if it was fetched ahead in time; else what is around the word. */
		CHECK(on_gpu(fd, p, blocks - 1));
		CHECK_OK(migrate(fd, p, blocks * BLOCK, HUVM_PLACE_HOST));
		touch_blocks(fd, p, 0, 1);
		four_or_none(fd, p, 1, on);
		CHECK_OK(munmap(p, blocks * BLOCK));
		close(fd);
	}
}

static const struct ktap_test tests[] = {
	{ "first_touch_on_gpu_is_zero", first_touch_on_gpu_is_zero }, { "cpu_to_gpu_to_cpu", cpu_to_gpu_to_cpu },
	{ "gpu_writes_cpu_reads", gpu_writes_cpu_reads }, { "full_block_is_one_mapping", full_block_is_one_mapping },
	{ "programs", programs }, { "trace_replay", trace_replay }, { "sparse_small_pages", sparse_small_pages },
	{ "stream_of_first_touches", stream_of_first_touches },
	{ "strays_of_another", strays_of_another, 120 },
	{ "need_beside_what_is_ahead", need_beside_what_is_ahead, 60 }, { "stream_over_what_is_there", stream_over_what_is_there },
	{ "stream_of_the_next_pass", stream_of_the_next_pass },
	{ "each_page_is_fetched_anew", each_page_is_fetched_anew },
	{ "cpu_and_gpu_race", cpu_and_gpu_race }, { "atomic_additions", atomic_additions },
	{ "additions_bring_what_is_mapped_there", additions_bring_what_is_mapped_there },
	{ "cpu_and_gpu_add_to_one_word", cpu_and_gpu_add_to_one_word, 90 },
	{ "add_while_invalidates_are_late", add_while_invalidates_are_late, 90 }, { "migrate_calls", migrate_calls },
	{ "calls_over_many_ranges", calls_over_many_ranges, 60 },
	{ "unregister_brings_home", unregister_brings_home }, { "unregister_while_moving", unregister_while_moving, 60 },
	{ "register_and_unregister_at_once", register_and_unregister_at_once, 60 },
	{ "unregister_under_a_launch", unregister_under_a_launch, 60 }, { "unregister_that_fails", unregister_that_fails },
	{ "written_by_a_debugger", written_by_a_debugger, 60 }, { "munmap_while_running", munmap_while_running },
	{ "unmapped_is_gone_for_the_gpu", unmapped_is_gone_for_the_gpu },
	{ "clients_fault_together", clients_fault_together },
	{ "fatal_outside", fatal_outside }, { "fatal_read_only", fatal_read_only },
	{ "fatal_write_spares_readers", fatal_write_spares_readers }, { "bad_programs", bad_programs },
	{ "unaligned_addresses", unaligned_addresses },
	{ "abort_and_wait", abort_and_wait }, { "reason_of_another_launch", reason_of_another_launch },
	{ "result_is_all_written", result_is_all_written }, { "read_mostly", read_mostly },
	{ "pairs_of_calls", pairs_of_calls, 90 }, { "four_calls_in_every_order", four_calls_in_every_order, 90 },
	{ "gpu_writes_a_duplicate", gpu_writes_a_duplicate }, { "preferred_host", preferred_host },
	{ "advice_about_half_a_block", advice_about_half_a_block },
	{ "read_mostly_pages_of_a_block", read_mostly_pages_of_a_block },
	{ "advice_goes_with_the_mapping", advice_goes_with_the_mapping },
	{ "accessed_by", accessed_by }, { "thrashing", thrashing, 60 },
	{ "pinned_for_long", pinned_for_long, 120 }, { "pin_that_the_user_ends", pin_that_the_user_ends, 60 }, { "discard", discard }, { "two_waiters", two_waiters },
	{ "taken_and_let_go", taken_and_let_go, 60 }, { "called_while_it_is_wanted", called_while_it_is_wanted, 60 },
	{ "launches_are_their_owners", launches_are_their_owners },
};
KTAP_MAIN(tests)
