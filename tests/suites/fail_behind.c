// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failure behind the back of any client: while a GPU is bound and unbound, when memory that was lent is taken back,
 * and in each thread of the driver, with the n-th allocation failing for n from 1; and the n-th mapping for DMA. A client may be
 * told that there is no memory; nothing else may happen to it, and the same without failure works after.
 */
#include "fail_lib.h"
#include "lend_lib.h"

#include <sys/klog.h>

/* The kernel's interrupts complain when a file in /proc goes that could not be made; nothing else may have. Empties the log. */
static void forgive_interrupts(void)
{
	static char log[1 << 20];
	int n = klogctl(3, log, sizeof(log) - 1);

	CHECK(n >= 0);
	log[n] = 0;
	CHECK(!strstr(log, "BUG:") && !strstr(log, "KASAN") && !strstr(log, "INFO: "));
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, "WARNING:") && !strstr(line, "remove_proc_entry"))
			FAIL("%s", line);
	CHECK_OK(klogctl(5, NULL, 0));
}

/* Catches what a half-bound GPU leaves behind, and one that cannot be bound any more. */
static void binding(void)
{
	int fd, n, went = 0;
	char name[32];

	setup();
	fd = huvm_open();
	pci_name(fd, 1, name);
	CHECK_OK(write_file(DRIVER "unbind", name));
	/* Each of the first ones, then two of each hundred. */
	for (n = 1; n < 4000; n += n < 60 || rounds(1) > 1 ? 1 : 41) {
		int r, hit;

		fail_nth(n);
		r = write_file(DRIVER "bind", name);
		hit = fired();
		went += hit;
		if (r < 0) {
			/* Without memory the kernel's claim of a BAR says EBUSY, that of interrupts ENOSPC or ENODEV. */
			if (errno != EBUSY && errno != ENOSPC && errno != ENODEV)
				check_errno("bind", __LINE__);
			CHECK_EQ(gpu_count(fd), 1);
		} else {
			CHECK_OK(write_file(DRIVER "unbind", name));
		}
		if (!hit)
			break;
	}
	printf("# %d allocations failed of %d\n", went, n - 1);
	CHECK(went > 0);
	CHECK(n < 4000);
	CHECK_OK(write_file(DRIVER "bind", name));
	forgive_interrupts();
	works(fd, 1);
	close(fd);
}

/* Catches data that is lost with a GPU that leaves while memory is short: its own clients', and what it keeps for another. */
static void unbinding(void)
{
	const uint64_t len = 4 * BLOCK;
	char name[32];
	int fd, n;

	setup();
	fd = begin(1u << 1, 1, 8);
	pci_name(fd, 1, name);
	for (n = 1; n < rounds(10); n++) {
		uint64_t *p = managed(fd, len);
		struct job j;
		int hit;

		knob(fd, 1, "harvest_lend", 1);
		knob(fd, 1, "write_back", 0);
		CHECK_OK(gpu_register(fd, 1));
		gpu_fill(fd, 1, p, len, WIDE, (uint64_t)n, 3);
		j = job_begin(0, 12, (uint64_t)n);
		CHECK(lent(fd, 1) >= 4);
		fail_nth(n);
		/* The write itself may fail before the driver knows of it. */
		if (write_file(DRIVER "unbind", name) < 0)
			check_errno("unbind", __LINE__);
		hit = fired();
		cpu_check(p, len, (uint64_t)n, 3);
		CHECK_OK(munmap(p, len));
		job_end(&j);
		if (gpu_count(fd) == 1)
			CHECK_OK(write_file(DRIVER "bind", name));
		else
			CHECK_OK(gpu_unregister(fd, 1));
		if (!hit)
			break;
	}
	printf("# %d allocations failed, one at a time\n", n - 1);
	CHECK(n > 1);
	CHECK_OK(limit_chunks(fd, 0, 0));
	works(fd, 1);
	close(fd);
}

/* Pages that this task shall not get, before there is memory again. */
#define SHORT_OF 60

/* Catches the only copy of lent memory lost because there was no page for it at the first try. */
static void leaving_without_memory(void)
{
	char name[32], text[16] = { 0 };
	struct job j;
	int fd, f;

	setup();
	fd = begin(1u << 1, 1, 8);
	pci_name(fd, 1, name);
	knob(fd, 1, "harvest_lend", 1);
	knob(fd, 1, "write_back", 0);
	/* The pool's memory is there already. */
	knob(fd, 1, "large_page_evict", 0);
	j = job_begin(0, 12, 9);
	CHECK(lent(fd, 1) >= 4);
	snprintf(text, sizeof(text), "%d", SHORT_OF);
	need_file("/sys/kernel/debug/fail_page_alloc/task-filter", "Y");
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "100");
	need_file("/sys/kernel/debug/fail_page_alloc/times", text);
	need_file("/proc/thread-self/make-it-fail", "1");
	/* The write itself may fail before the driver knows of it. */
	for (f = 0; f < SHORT_OF && write_file(DRIVER "unbind", name) < 0; f++)
		CHECK_EQ(errno, ENOMEM);
	need_file("/proc/thread-self/make-it-fail", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/task-filter", "N");
	f = open("/sys/kernel/debug/fail_page_alloc/times", O_RDONLY);
	CHECK(read(f, text, sizeof(text) - 1) > 0);
	close(f);
	printf("# %d pages refused\n", SHORT_OF - atoi(text));
	/* More than one try of four chunks takes. */
	CHECK_EQ(atoi(text), 0);
	job_end(&j);
	CHECK_OK(write_file(DRIVER "bind", name));
	CHECK_OK(limit_chunks(fd, 0, 0));
	works(fd, 1);
	close(fd);
}

/* Catches an owner whose call breaks the borrower's data when its own allocations fail. */
static void reclaiming(void)
{
	int fd, own, n;
	struct job j;

	setup();
	fd = begin(1u << 1, 3, 8);
	own = huvm_open();
	CHECK_OK(gpu_register(own, 1));
	j = job_begin(0, 12, 5);
	for (n = 1; n < rounds(12); n++) {
		void *p = managed(own, 8 * BLOCK);
		int hit;

		job_turn(&j, WIDE);
		CHECK(WITHIN(5000, lent(fd, 1) > 0));
		fail_nth(n);
		if (migrate(own, p, 8 * BLOCK, 1) < 0)
			check_errno("migrate", __LINE__);
		hit = fired();
		CHECK_OK(migrate(own, p, 8 * BLOCK, 1));
		job_check_gpu(&j);
		CHECK_OK(munmap(p, 8 * BLOCK));
		if (!hit)
			break;
	}
	printf("# %d allocations failed, one at a time\n", n - 1);
	CHECK(n > 1);
	CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > 0);
	job_end(&j);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(limit_chunks(fd, 1, 0));
	close(own);
	close(fd);
}

/* Process id of the kernel thread @name; 0: there is none. */
static int thread_of(const char *name)
{
	for (int pid = 2; pid < 32768; pid++) {
		char path[32], comm[32] = { 0 };
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = 0;
		fclose(f);
		if (!strcmp(comm, name))
			return pid;
	}
	return 0;
}

/* How a job is made that keeps a thread busy. */
struct work {
	int lends;	/* the neighbour lends; else all goes to the host */
	int pool;	/* large pages on eviction, from the pool */
	int from_cpu;	/* memory comes from the CPU, and two blocks of the GPU walk over it, as a stream */
	int told;	/* the client waits for the thread, and may hear that there is no memory */
};

/*
 * A job on GPU 0, all techniques. With the n-th allocation of thread @name failing a new job fills its memory twice, and is
 * checked.
 */
static void in_thread(const char *name, struct work w)
{
	/* The fault thread makes all page tables: about the tenth is a directory between others. */
	const int most = rounds(1) > 1 || !w.told ? rounds(6) : 16;
	int fd, pid, went = 0, heard = 0;
	char task[16];

	setup();
	fd = begin(w.lends ? 1u << 1 : 0, 1, 6);
	for (uint32_t g = 0; g < 2; g++) {
		knob(fd, g, "pre_evict_share_percent", 10);
		knob(fd, g, "pre_evict", 1);
		knob(fd, g, "large_page_evict", (uint64_t)w.pool);
		knob(fd, g, "large_page_pool_mib", 8);
		knob(fd, g, "parallel_fetch", 1);
		knob(fd, g, "stream_prefetch", 2);
		knob(fd, g, "prefetch_multi_path", 1);
	}
	pid = thread_of(name);
	if (!pid)
		FAIL("there is no thread %s", name);
	snprintf(task, sizeof(task), "%d", pid);
	fail_nth_of(task);
	for (int n = 1; n <= most; n++) {
		struct job j = job_make(0, 16, (uint64_t)n + 1);
		int failed;

		if (w.from_cpu)
			cpu_fill(j.p, j.len, j.add, j.mul);
		fail_nth(n);
		if (w.from_cpu)
			gpu_check(j.fd, 0, j.p, j.len, 2, j.add, j.mul);
		failed = fill_or_no_memory(&j, (uint64_t)n);
		/* What works in the background has some time. */
		give_time(20);
		failed += fill_or_no_memory(&j, (uint64_t)n + 1);
		went += fired();
		heard += failed != 0;
		CHECK(!failed || w.told);
		if (failed)
			CHECK_EQ(fill_or_no_memory(&j, (uint64_t)n + 1), 0);
		job_end(&j);
	}
	printf("# %s: %d allocations failed, the client heard of %d; %llu lent, %llu written back\n", name, went, heard,
	       (unsigned long long)of_gpu(fd, 1, HUVM_CNT_CHUNKS_LENT),
	       (unsigned long long)of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS));
	CHECK(went > 0);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(limit_chunks(fd, 1, 0));
	close(fd);
}

static void serving_faults(void)
{
	in_thread("huvm-fault/0", (struct work){ .told = 1 });
}

static void evicting_ahead(void)
{
	in_thread("huvm-evict/0", (struct work){ 0 });
}

static void lending(void)
{
	in_thread("huvm-lend/1", (struct work){ .lends = 1 });
}

static void fetching_ahead(void)
{
	in_thread("huvm-fetch/0", (struct work){ .lends = 1, .from_cpu = 1 });
}

static void filling_the_pool(void)
{
	in_thread("huvm-pool/0", (struct work){ .pool = 1 });
}

/*
 * Catches a piece of host memory that cannot be mapped and is used, kept or given away as if it were; a launch that fails for a
 * hiccup; one that does not where no mapping can be had.
 */
static void mapping_for_dma(void)
{
	uint32_t n, went = 0;
	struct job last;
	int fd;

	fd = begin(1u << 1, 1, 6);
	for (uint32_t g = 0; g < 2; g++) {
		knob(fd, g, "large_page_evict", g);
		knob(fd, g, "large_page_pool_mib", 8);
		knob(fd, g, "parallel_fetch", 1);
		knob(fd, g, "write_back", 1);
	}
	for (n = 0; n < 4000; n += 1 + n / (rounds(1) > 1 ? 40 : 4)) {
		struct job j = job_make(0, 12, n);
		int hit;

		cpu_fill(j.p, j.len, j.add, j.mul);
		let_fail_after(fd, HUVM_FAIL_DMA_MAP, n, 1);
		if (fill_or_no_memory(&j, n + 1) || fill_or_no_memory(&j, n + 2))
			FAIL("one mapping failed, number %u: the client heard of it", n);
		hit = !let_fail_after(fd, HUVM_FAIL_DMA_MAP, 0, 0);
		went += hit;
		if (fill_or_no_memory(&j, n + 3))
			FAIL("no memory where there is");
		job_end(&j);
		if (!hit)
			break;
	}
	printf("# %u mappings failed of %u\n", went, n);
	CHECK(went > 4);
	CHECK(n < 4000);
	last = job_make(0, 2, 1);
	cpu_fill(last.p, last.len, last.add, last.mul);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	CHECK(fill_or_no_memory(&last, 2));
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	cpu_check(last.p, last.len, 1, last.mul);
	CHECK(!fill_or_no_memory(&last, 4));
	job_end(&last);
	CHECK_OK(limit_chunks(fd, 0, 0));
	works(fd, 1);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "binding", binding, 240 }, { "unbinding", unbinding, 240 },
	{ "leaving_without_memory", leaving_without_memory, 240 }, { "reclaiming", reclaiming, 240 },
	{ "serving_faults", serving_faults, 240 }, { "evicting_ahead", evicting_ahead, 240 }, { "lending", lending, 240 },
	{ "fetching_ahead", fetching_ahead, 240 }, { "filling_the_pool", filling_the_pool, 240 },
	{ "mapping_for_dma", mapping_for_dma, 240 },
};
KTAP_MAIN(tests)
