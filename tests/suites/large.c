// SPDX-License-Identifier: GPL-2.0
/*
 * Large pages: a chunk that leaves a GPU goes to one 2 MiB piece of host memory, from a pool that is refilled in the
 * background, also where the CPU's first touch left 4 KiB pages; without 2 MiB pieces it falls back and says so.
 */
#include "huvm_lib.h"

#define BLOCKS 16u
/* Of a GPU's chunks the others are set aside: with 4 KiB pages and DMA debugging a block costs much. */
#define CHUNKS 12u
/* More pieces than a test's evictions take while its thread is busy. */
#define FULL 24u

/* Waits until a counter of a GPU has grown by `more` since it was `from`. */
static void grown(int fd, uint32_t gpu, int which, uint64_t from, uint64_t more)
{
	if (!WITHIN(30000, of_gpu(fd, gpu, which) - from >= more))
		FAIL("counter %d of GPU %u grew by %llu, not %llu", which, gpu,
		     (unsigned long long)(of_gpu(fd, gpu, which) - from), (unsigned long long)more);
}

/* Switches the technique on for a GPU, with no pool, and gives its thread, which looks ten times a second, time to free all. */
static void no_pool(int fd, uint32_t gpu)
{
	knob(fd, gpu, "large_page_evict", 1);
	knob(fd, gpu, "large_page_pool_mib", 0);
	give_time(300);
}

/* A pool of `before` pieces is to have `pieces`. 0: it was not refilled by as many as that, so it had others before. */
static int refilled(int fd, uint32_t gpu, uint64_t pieces, uint64_t before)
{
	uint64_t from = of_gpu(fd, gpu, HUVM_CNT_POOL_REFILLS);

	knob(fd, gpu, "large_page_pool_mib", pieces * 2);
	return WITHIN(8000, of_gpu(fd, gpu, HUVM_CNT_POOL_REFILLS) - from == pieces - before);
}

/*
 * Switches the technique on for a GPU, with a pool of `pieces` that was empty before, and waits until that is full. Whether it
 * was empty the refills alone tell: again, if the thread was late.
 */
static void full_pool(int fd, uint32_t gpu, uint64_t pieces)
{
	for (int n = 0; n < 5; n++) {
		no_pool(fd, gpu);
		if (refilled(fd, gpu, pieces, 0))
			return;
	}
	FAIL("the pool of GPU %u does not get %llu pieces", gpu, (unsigned long long)pieces);
}

/* A client of GPU 0 whose host memory comes in 4 KiB pages, as in the paper's stock kernel. */
static int client(uint64_t large)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, CHUNKS));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "large_page_evict", large));
	return fd;
}

/* A working set of 1.5 times GPU 0's memory. */
#define OVERSIZED (CHUNKS * BLOCK * 3 / 2)

/* Blocks of [p, p + len) whose host memory is one piece of `kib` KiB. */
static uint64_t pieces_of(int fd, const char *p, uint64_t len, uint32_t kib)
{
	uint64_t n = 0;

	for (uint64_t at = 0; at < len; at += BLOCK)
		n += block_info(fd, p + at).host_piece_kib == kib;
	return n;
}

static void from_the_pool(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED, out, taken, small = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_4K);
	char *p = managed(fd, len);

	full_pool(fd, 0, FULL);
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	gpu_fill(fd, 0, p, len, BLOCKS, 7, 3);
	out = pieces_of(fd, p, len, 2048);
	CHECK(out >= len / BLOCK - CHUNKS);
	/* Each of them came from the pool, and no other memory was made. */
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN) - taken, out);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_2M), out);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_EMPTY), 0);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_4K), small);
	for (int n = 0; n < 2; n++) {
		gpu_check(fd, 0, p, len, BLOCKS, 7 + (uint64_t)n, 3);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	}
	/* Each has left the GPU by now: host_piece_kib is of pages that are valid at home. */
	evicts(fd, 64);
	CHECK_EQ(pieces_of(fd, p, len, 2048), len / BLOCK);
	/* What is in one piece is mapped in one piece. */
	cpu_check((uint64_t *)p, len, 9, 3);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_CPU_FAULTS_2M) > 0);
	CHECK_OK(munmap(p, len));
	gets_idle(fd, 0);
	close(fd);
}

static void in_place_of_small_pages(void)
{
	int fd = client(1), mem;
	uint64_t len = OVERSIZED, replaced = of_gpu(fd, 0, HUVM_CNT_POOL_REPLACED), out, word;
	uint64_t *p = managed(fd, len);

	full_pool(fd, 0, FULL);
	cpu_fill(p, len, 5, 3);
	CHECK_EQ(pieces_of(fd, (char *)p, len, 4), len / BLOCK);
	for (uint64_t turn = 1; turn < 4; turn++) {
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
		/* Some pages go home alone: those blocks keep what is valid there. */
		for (uint64_t at = 0; at < len / 8; at += 5 * BLOCK / 8)
			CHECK_EQ(p[at + turn * PAGE / 8], 5 + turn + 3 * (at + turn * PAGE / 8));
	}
	evicts(fd, 64);
	out = pieces_of(fd, (char *)p, len, 2048);
	printf("# %llu of %llu blocks in 2 MiB pieces\n", (unsigned long long)out, (unsigned long long)(len / BLOCK));
	CHECK(out > len / BLOCK / 2);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_REPLACED) - replaced, out);
	/* The other road to the bytes. */
	CHECK_OK(mem = open("/proc/self/mem", O_RDWR));
	for (uint64_t at = 0; at < len / 8; at += BLOCK / 16) {
		CHECK_EQ(pread(mem, &word, 8, (off_t)(uintptr_t)&p[at]), 8);
		CHECK_EQ(word, 8 + 3 * at);
	}
	close(mem);
	cpu_check(p, len, 8, 3);
	gpu_check(fd, 0, p, len, BLOCKS, 8, 3);
	close(fd);
	CHECK_OK(munmap(p, len));
}

static void pages_in_use_are_kept(void)
{
	/* Half a block unmanaged, a block with a page valid at home, a block read by GPU and CPU: all keep their pages. */
	int fd = client(1);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 64);
	uint64_t *p = managed(fd, 4 * BLOCK), taken, *b[4];

	full_pool(fd, 0, 16);
	cpu_fill(p, 4 * BLOCK, 1, 1);
	for (int i = 0; i < 4; i++)
		b[i] = p + (uint64_t)i * BLOCK / 8;
	if ((uintptr_t)p % BLOCK)
		SKIP("a range that begins inside a block");
	CHECK_OK(munmap(b[0] + BLOCK / 16, BLOCK / 2));
	CHECK_OK(advise(fd, b[2], BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	CHECK_OK(migrate(fd, b[0], BLOCK / 2, 0));
	CHECK_OK(migrate(fd, b[1], 3 * BLOCK, 0));
	CHECK_EQ(b[1][0], 1 + BLOCK / 8);
	gpu_check(fd, 0, b[2], BLOCK, BLOCKS, 1 + BLOCK / 4, 1);
	CHECK_EQ(b[2][0], 1 + BLOCK / 4);
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	for (int i = 0; i < 4; i++)
		CHECK_EQ(block_info(fd, b[i]).host_piece_kib, i == 3 ? 2048 : 4);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN) - taken, 1);
	cpu_check(b[0], BLOCK / 2, 1, 1);
	cpu_check(b[1], 3 * BLOCK, 1 + BLOCK / 8, 1);
	close(fd);
}

static void switched_at_run_time(void)
{
	int fd = client(0);
	uint64_t len = OVERSIZED, taken, small, refills, full;
	uint64_t *p = managed(fd, len);

	full_pool(fd, 0, 32);
	full = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	full -= taken;
	gpu_fill(fd, 0, p, len, BLOCKS, 1, 3);
	/* Off: 4 KiB pages, and nothing was asked of the pool. */
	small = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_4K);
	CHECK(small > 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN), taken);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "large_page_evict", 1));
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	CHECK(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN) > taken);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "large_page_evict", 0));
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN), taken);
	/* Full again: its thread has freed what was replaced, which takes seconds where every page is checked. */
	grown(fd, 0, HUVM_CNT_POOL_REFILLS, full, taken);
	/* Off for the GPU: its pool is given back two seconds after the last request; on again, it is filled from nothing. */
	for (int n = 0;; n++) {
		knob(fd, 0, "large_page_evict", 0);
		sleep(3);
		refills = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
		knob(fd, 0, "large_page_evict", 1);
		if (WITHIN(8000, of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS) - refills == 32))
			break;
		CHECK(n < 5);
	}
	/* Larger and smaller while it is full. */
	knob(fd, 0, "large_page_pool_mib", 96);
	grown(fd, 0, HUVM_CNT_POOL_REFILLS, refills, 48);
	for (int n = 0;; n++) {
		knob(fd, 0, "large_page_pool_mib", 8);
		give_time(300);
		if (refilled(fd, 0, 8, 4))
			break;
		CHECK(n < 5);
	}
	refills = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
	give_time(300);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS), refills);
	cpu_check(p, len, 3, 3);
	close(fd);
}

static void for_one_process(void)
{
	/* The GPU's own policy says no; a process that asks is served all the same. */
	int fd = client(1), other = client(0);
	uint64_t len = OVERSIZED, refills, turn = 0;
	uint64_t *p = managed(fd, len), *q = managed(other, len);

	full_pool(fd, 0, 16);
	knob(fd, 0, "large_page_evict", 0);
	sleep(3);
	refills = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
	cpu_fill(p, len, 1, 3);
	/* The first evictions find the pool empty, and have it filled. */
	for (; turn < 3 || (turn < 20 && !counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN)); turn++) {
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
		gpu_fill(other, 0, q, len, BLOCKS, turn, 5);
	}
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN) > 0);
	CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS) > refills));
	CHECK_EQ(counter(other, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN), 0);
	CHECK_EQ(pieces_of(other, (char *)q, len, 2048), 0);
	cpu_check(p, len, 1 + turn, 3);
	cpu_check(q, len, turn - 1, 5);
	close(fd);
	close(other);
}

static void without_a_pool(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED, taken;
	uint64_t *p = managed(fd, len);

	no_pool(fd, 0);
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	gpu_fill(fd, 0, p, len, BLOCKS, 2, 3);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN), taken);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_EMPTY) > 0);
	/* The host has 2 MiB pieces: they are had on demand. */
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_2M) > 0);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_4K), 0);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	cpu_check(p, len, 3, 3);
	close(fd);
}

#define ALWAYS 0xffffffffu

/* A host without 2 MiB in one piece, then without 64 KiB either, then with both again. */
static void host_in_fragments(void)
{
	static const struct { uint32_t kib; int cnt; } falls[] = { { 64, HUVM_CNT_HOST_64K }, { 4, HUVM_CNT_HOST_4K } };
	uint64_t n, before;
	double from;

	for (uint32_t i = 0; i < 2; i++) {
		int c = client(1);
		uint64_t len = OVERSIZED, failures = of_gpu(c, 0, HUVM_CNT_POOL_FAILURES), *p = managed(c, len);

		full_pool(c, 0, 4);
		let_fail(c, HUVM_FAIL_HOST_2M, ALWAYS);
		let_fail(c, HUVM_FAIL_HOST_64K, i ? ALWAYS : 0);
		gpu_fill(c, 0, p, len, BLOCKS, i, 3);
		/* Four blocks had the pool's last pieces; the others fell back, each with its count. */
		CHECK_EQ(counter(c, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN), 4);
		CHECK_EQ(counter(c, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_2M), 4);
		n = pieces_of(c, (char *)p, len, falls[i].kib);
		CHECK(n >= len / BLOCK - CHUNKS - 4);
		CHECK_EQ(counter(c, HUVM_SCOPE_SPACE, 0, falls[i].cnt), n * 2048 / falls[i].kib);
		CHECK_EQ(counter(c, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_FALLBACKS), i ? n * 33 : n);
		CHECK(counter(c, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_EMPTY) >= n);
		grown(c, 0, HUVM_CNT_POOL_FAILURES, failures, 1);
		gpu_scale(c, 0, p, len, BLOCKS, 1, 1);
		cpu_check(p, len, 1 + i, 3);
		/* It does not look for pieces all the time: the pauses grow. */
		before = of_gpu(c, 0, HUVM_CNT_POOL_FAILURES);
		from = seconds();
		sleep(2);
		n = of_gpu(c, 0, HUVM_CNT_POOL_FAILURES) - before;
		/* At 0, 50, 150, 350, 750, 1550, 3150, … ms at the most. */
		CHECK(n <= 6 + (uint64_t)((seconds() - from) / 3));
		/* Memory is whole again: the pool fills, and what the next evictions find in small pieces they replace. */
		before = of_gpu(c, 0, HUVM_CNT_POOL_REPLACED);
		let_fail(c, HUVM_FAIL_HOST_2M, 0);
		let_fail(c, HUVM_FAIL_HOST_64K, 0);
		n = of_gpu(c, 0, HUVM_CNT_POOL_REFILLS);
		gpu_scale(c, 0, p, len, BLOCKS, 1, 1);
		grown(c, 0, HUVM_CNT_POOL_REFILLS, n, 4);
		gpu_scale(c, 0, p, len, BLOCKS, 1, 1);
		gpu_scale(c, 0, p, len, BLOCKS, 1, 1);
		CHECK(of_gpu(c, 0, HUVM_CNT_POOL_REPLACED) > before);
		cpu_check(p, len, 4 + i, 3);
		CHECK_OK(munmap(p, len));
		close(c);
	}
}

/* Refills fail one after the other, for want of memory and of bus addresses; then they go on. */
static void refills_fail(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED, failures, refills, *p = managed(fd, len);

	for (uint32_t what = HUVM_FAIL_HOST_2M; what <= HUVM_FAIL_DMA_MAP; what += 2) {
		no_pool(fd, 0);
		failures = of_gpu(fd, 0, HUVM_CNT_POOL_FAILURES);
		refills = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
		let_fail(fd, what, 3);
		knob(fd, 0, "large_page_pool_mib", 32);
		grown(fd, 0, HUVM_CNT_POOL_REFILLS, refills, 16);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_POOL_FAILURES) - failures, 3);
		gpu_fill(fd, 0, p, len, BLOCKS, what, 3);
		cpu_check(p, len, what, 3);
	}
	close(fd);
}

/* The machine wants memory back: it has the pool's pieces, and these come again after a pause. */
static void given_back_under_pressure(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED, refills, *p = managed(fd, len);

	full_pool(fd, 0, 32);
	refills = of_gpu(fd, 0, HUVM_CNT_POOL_REFILLS);
	CHECK_OK(write_file("/proc/sys/vm/drop_caches", "2"));
	grown(fd, 0, HUVM_CNT_POOL_REFILLS, refills, 1);
	for (uint64_t turn = 0; turn < 3; turn++) {
		gpu_fill(fd, 0, p, len, BLOCKS, turn, 3);
		CHECK_OK(write_file("/proc/sys/vm/drop_caches", "2"));
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	}
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN) > 0);
	cpu_check(p, len, 3, 3);
	close(fd);
}

/* The host's own allocator fails now and then, for pools and evictions alike. */
static void allocator_fails(void)
{
	static const char *const on[] = { "ignore-gfp-wait", "N", "ignore-gfp-highmem", "N", "verbose", "0", "times", "-1",
					  "min-order", "4", "probability", "50", NULL };
	static const char *const off[] = { "probability", "0", "min-order", "0", NULL };
	int fd = client(1);
	uint64_t len = OVERSIZED, *p = managed(fd, len), fallbacks;
	char path[96];

	full_pool(fd, 0, 16);
	fallbacks = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_HOST_FALLBACKS) + of_gpu(fd, 0, HUVM_CNT_POOL_FAILURES);
	for (const char *const *s = on; *s; s += 2) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/fail_page_alloc/%s", s[0]);
		if (write_file(path, s[1]) < 0)
			SKIP("no %s: not a kernel with fault injection", path);
	}
	for (uint64_t turn = 0; turn < 3; turn++) {
		gpu_fill(fd, 0, p, len, BLOCKS, turn, 3);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	}
	for (const char *const *s = off; *s; s += 2) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/fail_page_alloc/%s", s[0]);
		CHECK_OK(write_file(path, s[1]));
	}
	CHECK(counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_HOST_FALLBACKS) + of_gpu(fd, 0, HUVM_CNT_POOL_FAILURES) > fallbacks);
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_POOL_TAKEN) > 0);
	cpu_check(p, len, 3, 3);
	close(fd);
}

/* GPU 0 borrows of GPU 1, which writes back to pieces of its own pool. */
static void with_harvesting(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = client(1), own = huvm_open();
		uint64_t len = OVERSIZED, mine = CHUNKS * 3 / 4 * BLOCK;
		uint64_t *p = managed(fd, len), *q = managed(own, mine), taken, out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);

		CHECK_OK(limit_chunks(fd, 1, CHUNKS));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
		knob(fd, 1, "harvest_lend", 1);
		knob(fd, 1, "write_back", write_back);
		full_pool(fd, 1, 48);
		taken = of_gpu(fd, 1, HUVM_CNT_POOL_TAKEN);
		cpu_fill(p, len, 4, 3);
		for (int turn = 0; turn < 3; turn++)
			gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
		CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) > out);
		if (write_back)
			grown(fd, 1, HUVM_CNT_POOL_TAKEN, taken, 4);
		else
			CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_POOL_TAKEN), taken);
		/* The lender takes its memory back: what only it has goes to its pool's pieces too. */
		CHECK_OK(gpu_register(own, 1));
		gpu_check(own, 1, q, mine, BLOCKS / 2, 0, 0);
		gpu_fill(own, 1, q, mine, BLOCKS / 2, 100, 1);
		CHECK(of_gpu(fd, 1, HUVM_CNT_POOL_TAKEN) > taken);
		CHECK(pieces_of(fd, (char *)p, len, 2048) > 0);
		gpu_check(fd, 0, p, len, BLOCKS, 7, 3);
		cpu_check(p, len, 7, 3);
		cpu_check(q, mine, 100, 1);
		CHECK_OK(munmap(p, len));
		CHECK_OK(munmap(q, mine));
		knob(fd, 1, "harvest_lend", 0);
		close(fd);
		close(own);
	}
}

static void killed(void)
{
	int fd = huvm_open();

	CHECK_OK(limit_chunks(fd, 0, CHUNKS));
	full_pool(fd, 0, 16);
	for (int turn = 0; turn < 5; turn++) {
		pid_t child = fork();

		if (!child) {
			int c = client(1);
			uint64_t len = OVERSIZED;
			uint64_t *p = managed(c, len);

			if (turn % 2)
				cpu_fill(p, len, 1, 1);
			for (;;)
				gpu_scale(c, 0, p, len, BLOCKS, 1, 1);
		}
		CHECK(child > 0);
		usleep(100000 + 60000 * (unsigned int)turn);
		end_child(child);
		gets_idle(fd, 0);
	}
	close(fd);
}

static void unbound_with_a_full_pool(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED;
	uint64_t *p = managed(fd, len), *q = managed(fd, len), taken;
	char name[32];

	pci_name(fd, 0, name);
	full_pool(fd, 0, FULL);
	cpu_fill(p, len, 1, 3);
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	CHECK_OK(write_file(DRIVER "unbind", name));
	cpu_check(p, len, 2, 3);
	CHECK_OK(write_file(DRIVER "bind", name));
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, CHUNKS));
	full_pool(fd, 0, FULL);
	taken = of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN);
	/* Memory that has no host memory yet, so that each block evicted takes a piece. */
	gpu_fill(fd, 0, q, len, BLOCKS, 8, 3);
	CHECK(of_gpu(fd, 0, HUVM_CNT_POOL_TAKEN) > taken);
	for (int turn = 0; turn < 3; turn++)
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	cpu_check(p, len, 5, 3);
	cpu_check(q, len, 8, 3);
	close(fd);
}

/* Last: GPU 1 falls off the bus while its pool is full and its pieces hold other processes' pages. */
static void lost_with_a_full_pool(void)
{
	int fd = client(1);
	uint64_t len = OVERSIZED, taken;
	uint64_t *p = managed(fd, len);
	ARG(huvm_selftest_arg, look, .gpu = 1, .test = HUVM_SELFTEST_IDENT);
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	knob(fd, 1, "harvest_lend", 1);
	knob(fd, 1, "write_back", 1);
	full_pool(fd, 0, FULL);
	full_pool(fd, 1, FULL);
	taken = of_gpu(fd, 1, HUVM_CNT_POOL_TAKEN);
	gpu_fill(fd, 0, p, len, BLOCKS, 6, 3);
	CHECK(lent(fd, 1) > 0);
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
	CHECK(of_gpu(fd, 1, HUVM_CNT_POOL_TAKEN) > taken);
	test_reg(fd, 1, INJ_GONE, 0xdead);
	/* Somebody looks at it, so the driver knows, and has some time to give its pool back before it is unbound. */
	CHECK_ERR(ioctl(fd, HUVM_IOC_TEST_SELFTEST, &look), EIO);
	give_time(300);
	gpu_check(fd, 0, p, len, BLOCKS, 6, 3);
	CHECK_OK(write_file(DRIVER "unbind", name));
	gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
	cpu_check(p, len, 7, 3);
	full_pool(fd, 0, FULL);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "from_the_pool", from_the_pool, 60 },
	{ "in_place_of_small_pages", in_place_of_small_pages, 90 },
	{ "pages_in_use_are_kept", pages_in_use_are_kept, 60 },
	{ "switched_at_run_time", switched_at_run_time, 90 },
	{ "for_one_process", for_one_process, 90 },
	{ "without_a_pool", without_a_pool, 60 },
	{ "host_in_fragments", host_in_fragments, 90 },
	{ "refills_fail", refills_fail, 60 },
	{ "given_back_under_pressure", given_back_under_pressure, 60 },
	{ "allocator_fails", allocator_fails, 60 },
	{ "with_harvesting", with_harvesting, 120 },
	{ "killed", killed, 90 },
	{ "unbound_with_a_full_pool", unbound_with_a_full_pool, 90 },
	{ "lost_with_a_full_pool", lost_with_a_full_pool, 90 },
};
KTAP_MAIN(tests)
