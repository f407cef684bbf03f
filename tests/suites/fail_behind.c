// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failure behind the back of any client: while a GPU is bound and unbound, when memory that was lent is taken back,
 * and in each thread of the driver, with the n-th allocation failing for n from 1; and the n-th at each place of the driver's own:
 * host memory, memory for a GPU, mappings for DMA, pushes to channels. A client may be told that there is no memory, or that a copy
 * could not be made; nothing else may happen to it, and the same without failure works after. Where a turn takes long, LONG=1
 * alone goes on until nothing fails any more.
 */
#include "fail_lib.h"
#include "lend_lib.h"

/* More turns than any loop needs until nothing fails any more. */
#define TURNS_MAX 4000

/* Turns of a loop that take long: @usual; with LONG=1 until nothing fails any more. The loop is never to reach TURNS_MAX. */
static int turns_of(int usual)
{
	return rounds(1) > 1 ? TURNS_MAX : usual;
}

/* Another client, half of whose memory is on GPU 0. It has all of it in the end. */
static struct job begin_beside(void)
{
	struct job j = job_begin(0, 2, 77);

	cpu_check(j.p, BLOCK, j.add, j.mul);
	return j;
}

/* It has; nobody else is there but @fd, and all memory is free. */
static void end_beside(struct job *j, int fd)
{
	cpu_check(j->p, BLOCK, j->add, j->mul);
	job_end(j);
	CHECK(WITHIN(5000, client_count(fd) == 1));
	all_idle(fd);
}

/* Catches what a half-bound GPU leaves behind, and one that cannot be bound any more. */
static void binding(void)
{
	int fd, n, went = 0;
	struct job beside;
	char name[32];

	setup();
	fd = huvm_open();
	beside = begin_beside();
	pci_name(fd, 1, name);
	CHECK_OK(write_file(DRIVER "unbind", name));
	/* Each of the first ones, then two of each hundred. */
	for (n = 1; n < TURNS_MAX; n += n < 60 || rounds(1) > 1 ? 1 : 41) {
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
	CHECK(n < TURNS_MAX);
	CHECK_OK(write_file(DRIVER "bind", name));
	forgive_interrupts();
	works(fd, 1);
	end_beside(&beside, fd);
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
	for (n = 1; n < turns_of(10); n++) {
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
	CHECK(n > 1 && n < TURNS_MAX);
	CHECK_OK(limit_chunks(fd, 0, 0));
	works(fd, 1);
	all_idle(fd);
	close(fd);
}

/* How often there is no memory for what a neighbour keeps, before there is. */
#define TRIES 3

/* Catches the only copy of lent memory lost because there was no page for it at the first try. */
static void leaving_without_memory(void)
{
	char name[32];
	struct job j;
	int fd;

	setup();
	fd = begin(1u << 1, 1, 8);
	pci_name(fd, 1, name);
	knob(fd, 1, "harvest_lend", 1);
	knob(fd, 1, "write_back", 0);
	/* The pool's memory is there already. */
	knob(fd, 1, "large_page_evict", 0);
	j = job_begin(0, 12, 9);
	CHECK(lent(fd, 1) >= 4);
	/* Each try fails at its first page. */
	CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
	let_fail(fd, HUVM_FAIL_HOST_4K, TRIES);
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK_EQ(let_fail_after(fd, HUVM_FAIL_HOST_4K, 0, 0), 0);
	job_end(&j);
	CHECK_OK(write_file(DRIVER "bind", name));
	CHECK_OK(limit_chunks(fd, 0, 0));
	works(fd, 1);
	close(fd);
}

/* Catches an owner whose call breaks the borrower's data when its own allocations fail. */
static void reclaiming(void)
{
	struct job j, beside;
	int fd, own, n;

	setup();
	fd = begin(1u << 1, 3, 8);
	beside = begin_beside();
	own = huvm_open();
	CHECK_OK(gpu_register(own, 1));
	j = job_begin(0, 12, 5);
	for (n = 1; n < turns_of(12); n++) {
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
	CHECK(n > 1 && n < TURNS_MAX);
	CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > 0);
	job_end(&j);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(limit_chunks(fd, 1, 0));
	close(own);
	end_beside(&beside, fd);
	close(fd);
}

/* How a job is made that keeps a thread busy. */
struct work {
	int lends;	/* the neighbour lends; else all goes to the host */
	int pool;	/* large pages on eviction, from the pool */
	int from_cpu;	/* memory comes from the CPU, and two blocks of the GPU walk over it, as a stream */
	int told;	/* the client waits for the thread, and may hear that there is no memory */
	const char *preset;	/* of both GPUs; else "demand" */
};

/*
 * A job on GPU 0, all techniques. With the n-th allocation of thread @name failing a new job fills its memory twice, and is
 * checked.
 */
static void in_thread(const char *name, struct work w)
{
	/* The fault thread makes all page tables: about the tenth is a directory between others. */
	const int most = turns_of(w.told ? 16 : 6);
	int fd, pid, n, went = 0, heard = 0, quiet = 0;
	uint64_t write_backs;
	struct job beside;
	char task[16];

	setup();
	fd = begin(w.lends ? 1u << 1 : 0, 1, 6);
	for (uint32_t g = 0; g < 2; g++) {
		if (w.preset)
			gpu_begins(fd, g, w.preset, w.lends && g == 1);
		knob(fd, g, "pre_evict_share_percent", 10);
		knob(fd, g, "pre_evict", 1);
		knob(fd, g, "large_page_evict", (uint64_t)w.pool);
		knob(fd, g, "large_page_pool_mib", 8);
		knob(fd, g, "parallel_fetch", 1);
		knob(fd, g, "stream_prefetch", 2);
		knob(fd, g, "prefetch_multi_path", 1);
	}
	write_backs = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS);
	pid = thread_of(name);
	if (!pid)
		FAIL("there is no thread %s", name);
	snprintf(task, sizeof(task), "%d", pid);
	fail_nth_of(task);
	beside = begin_beside();
	/* What works in the background has more to do at one time than at another: it is over when thrice nothing failed. */
	for (n = 1; n <= most && quiet < 3; n++) {
		struct job j = job_make(0, 16, (uint64_t)n + 1);
		int failed, hit;

		if (w.from_cpu)
			cpu_fill(j.p, j.len, j.add, j.mul);
		fail_nth(n);
		if (w.from_cpu)
			gpu_check(j.fd, 0, j.p, j.len, 2, j.add, j.mul);
		failed = fill_or_no_memory(&j, (uint64_t)n);
		/* What works in the background has some time. */
		give_time(20);
		failed += fill_or_no_memory(&j, (uint64_t)n + 1);
		hit = fired();
		went += hit;
		quiet = hit ? 0 : quiet + 1;
		heard += failed != 0;
		CHECK(!failed || (w.told && hit));
		if (failed)
			CHECK_EQ(fill_or_no_memory(&j, (uint64_t)n + 1), 0);
		job_end(&j);
	}
	printf("# %s: %d allocations failed, the client heard of %d; %llu lent, %llu written back\n", name, went, heard,
	       (unsigned long long)of_gpu(fd, 1, HUVM_CNT_CHUNKS_LENT),
	       (unsigned long long)(of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS) - write_backs));
	CHECK(went > 0 && n < TURNS_MAX);
	/* It did what it is there for, whatever failed. */
	if (strstr(name, "lend"))
		CHECK(of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS) > write_backs);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(limit_chunks(fd, 1, 0));
	end_beside(&beside, fd);
	close(fd);
}

static void serving_faults(void)
{
	in_thread("huvm-fault/0", (struct work){ .told = 1 });
}

static void serving_faults_under_huvm(void)
{
	in_thread("huvm-fault/0", (struct work){ .told = 1, .lends = 1, .preset = "huvm" });
}

static void fetching_ahead_under_huvm(void)
{
	in_thread("huvm-fetch/0", (struct work){ .lends = 1, .from_cpu = 1, .preset = "huvm" });
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

/* Catches an eviction on its way to a neighbour that is lost because its rescue was short of memory for a moment. */
static void rescuing(void)
{
	const int most = turns_of(5);
	struct job j, beside;
	char name[32], task[16];
	int fd, n, hit = 1;

	setup();
	for (n = 1; n < most && hit; n++) {
		uint64_t id, sent, rescued;
		int pid;

		fd = begin(1u << 1, 1, 8);
		knob(fd, 1, "write_back", 0);
		beside = job_begin(1, 2, 88);
		pci_name(fd, 0, name);
		/* Looking takes its time, and a copy that stands is given up after a while. */
		pid = thread_of("huvm-rescue/0");
		if (!pid)
			FAIL("there is no thread that rescues");
		rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
		sent = sending(fd, &j, &id, 8);
		snprintf(task, sizeof(task), "%d", pid);
		fail_nth_of(task);
		fail_nth(n);
		copies_fail(fd);
		CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
		hit = fired();
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED), rescued + sent);
		CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
		job_end(&j);
		end_beside(&beside, fd);
		/* The channel is given up; a GPU that is bound again has a new one. */
		test_reg(fd, 0, INJ_LINK_DOWN, 0);
		rebind(name);
		all_idle(fd);
		close(fd);
	}
	printf("# %d allocations failed, one at a time\n", n - 2 + hit);
	CHECK(n > 2 && n < TURNS_MAX);
}

/* The same for a push that is refused, while the channel to the host works. */
static void rescuing_refused(void)
{
	for (uint32_t n = 0; n < 3; n++) {
		int fd = begin(1u << 1, 1, 8);
		uint64_t id, sent, rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
		char name[32];
		struct job j;

		knob(fd, 1, "write_back", 0);
		pci_name(fd, 0, name);
		sent = sending(fd, &j, &id, 8);
		let_fail_after(fd, HUVM_FAIL_SUBMIT, n, 1);
		copies_fail(fd);
		CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
		CHECK_EQ(let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0), 0);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED), rescued + sent);
		CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
		job_end(&j);
		test_reg(fd, 0, INJ_LINK_DOWN, 0);
		rebind(name);
		all_idle(fd);
		close(fd);
	}
}

/*
 * With the n-th of @what failing a new job is made, filled by the CPU and twice by GPU 0, which evicts to the host and to GPU 1,
 * which writes back. The client may hear of it where it registers; a launch does not fail for a hiccup.
 */
static void failing_at(uint32_t what)
{
	uint32_t n, went = 0;
	struct job beside;
	int fd;

	fd = begin(1u << 1, 1, 6);
	for (uint32_t g = 0; g < 2; g++) {
		knob(fd, g, "large_page_evict", g);
		knob(fd, g, "large_page_pool_mib", 8);
		knob(fd, g, "parallel_fetch", 1);
		knob(fd, g, "write_back", 1);
	}
	beside = begin_beside();
	for (n = 0; n < TURNS_MAX; n += rounds(1) > 1 ? 1 : 1 + n / 4) {
		struct job j = { .fd = huvm_open(), .len = 12 * BLOCK, .add = n, .mul = 2 * n + 1 };
		int hit;

		j.p = managed(j.fd, j.len);
		cpu_fill(j.p, j.len, j.add, j.mul);
		let_fail_after(fd, what, n, 1);
		if (gpu_register(j.fd, 0) < 0) {
			CHECK_EQ(errno, ENOMEM);
			CHECK_OK(gpu_register(j.fd, 0));
		}
		if (fill_or_no_memory(&j, n + 1) || fill_or_no_memory(&j, n + 2))
			FAIL("number %u of %u failed: the client heard of it", n, what);
		hit = !let_fail_after(fd, what, 0, 0);
		went += hit;
		if (fill_or_no_memory(&j, n + 3))
			FAIL("no memory where there is");
		job_end(&j);
		if (!hit)
			break;
	}
	printf("# %u failed of %u\n", went, n);
	CHECK(went > 4);
	CHECK(n < TURNS_MAX);
	CHECK_OK(limit_chunks(fd, 0, 0));
	end_beside(&beside, fd);
	close(fd);
}

/*
 * Catches a piece of host memory that cannot be mapped and is used, kept or given away as if it were; a launch that fails for a
 * hiccup; one that does not where no mapping can be had.
 */
static void mapping_for_dma(void)
{
	struct job last;
	int fd;

	failing_at(HUVM_FAIL_DMA_MAP);
	fd = begin(1u << 1, 1, 6);
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
	all_idle(fd);
	close(fd);
}

/* A block that is evicted to 4 KiB pages stays where it is if one cannot be had. There are 512, so that not each is tried. */
static void host_pages(void)
{
	uint32_t n, went = 0;
	struct job beside;
	int fd;

	fd = begin(0, 0, 0);
	beside = begin_beside();
	CHECK_OK(gpu_register(fd, 1));
	knob(fd, 1, "host_chunk_sizes", 0);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
	for (n = 0; n < TURNS_MAX; n += 1 + n / (rounds(1) > 1 ? 40 : 2)) {
		ARG(huvm_test_evict, e, .gpu = 1, .chunks = 1);
		uint64_t *p = managed(fd, BLOCK);
		int r, hit;

		gpu_fill(fd, 1, p, BLOCK, 4, n, 3);
		let_fail_after(fd, HUVM_FAIL_HOST_4K, n, 1);
		r = ioctl(fd, HUVM_IOC_TEST_EVICT, &e);
		CHECK(r >= 0 || errno == ENOMEM);
		hit = !let_fail_after(fd, HUVM_FAIL_HOST_4K, 0, 0);
		CHECK_EQ(r < 0, hit);
		went += hit;
		if (hit) {
			CHECK_EQ(block_info(fd, p).gpu_pages[1], 512);
			CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
		}
		CHECK_EQ(e.evicted, 1);
		CHECK_EQ(block_info(fd, p).host_piece_kib, 4);
		cpu_check(p, BLOCK, n, 3);
		CHECK_OK(munmap(p, BLOCK));
		if (!hit)
			break;
	}
	printf("# %u failed of %u\n", went, n);
	CHECK(went > 4 && n < TURNS_MAX);
	CHECK_OK(gpu_unregister(fd, 1));
	end_beside(&beside, fd);
	close(fd);
}

/* The same of memory for the GPU's own use: page tables, and when a GPU is bound its rings and buffers. */
static void device_memory(void)
{
	uint32_t n, refused = 0;
	char name[32];
	int fd;

	failing_at(HUVM_FAIL_DMA_ALLOC);
	fd = huvm_open();
	pci_name(fd, 1, name);
	CHECK_OK(write_file(DRIVER "unbind", name));
	for (n = 0; n < TURNS_MAX; n++) {
		int r, why;

		let_fail_after(fd, HUVM_FAIL_DMA_ALLOC, n, 1);
		r = write_file(DRIVER "bind", name);
		why = errno;
		if (!let_fail_after(fd, HUVM_FAIL_DMA_ALLOC, 0, 0)) {
			if (r < 0) {
				CHECK_EQ(why, ENOMEM);
				CHECK_EQ(gpu_count(fd), 1);
				refused++;
				continue;
			}
			/* It did without, or it was another's. */
			printf("# number %u did not matter\n", n);
			works(fd, 1);
			CHECK_OK(write_file(DRIVER "unbind", name));
			continue;
		}
		CHECK_OK(r);
		break;
	}
	printf("# %u failed when it was bound, of %u\n", refused, n);
	CHECK(refused > 4 && n < TURNS_MAX);
	works(fd, 1);
	all_idle(fd);
	close(fd);
}

/* Catches a GPU taken for one that does not hear, as blocks go away for whose faults there was no memory for directory tables. */
static void no_directories(void)
{
	static const char *const presets[] = { "demand", "huvm" };
	struct job beside, j;
	int fd;

	fd = begin(0, 0, 0);
	beside = begin_beside();
	for (unsigned int n = 0; n < 2; n++) {
		j = job_make(0, 4, n);
		CHECK_OK(set_preset(j.fd, HUVM_SCOPE_SPACE, presets[n]));
		let_fail(fd, HUVM_FAIL_DMA_ALLOC, ~0u);
		CHECK(fill_or_no_memory(&j, n + 1));
		CHECK_OK(munmap(j.p, BLOCK));
		let_fail(fd, HUVM_FAIL_DMA_ALLOC, 0);
		/* Its own GPU, and what it has besides. */
		gpu_fill(j.fd, 0, j.p + BLOCK / 8, 3 * BLOCK, 1, n + 2, j.mul);
		gpu_check(j.fd, 0, j.p + BLOCK / 8, 3 * BLOCK, 1, n + 2, j.mul);
		CHECK_OK(munmap(j.p + BLOCK / 8, 3 * BLOCK));
		close(j.fd);
	}
	end_beside(&beside, fd);
	close(fd);
}

/* Each word of the job is one of @add or of @old, which is 0 from block @fresh on. Blocks that the CPU cannot read at the first touch. */
static unsigned int words_of_either_of(const struct job *j, uint64_t old, uint64_t fresh)
{
	unsigned int refused = 0;
	uint64_t v;

	for (uint64_t i = 0; i < j->len / 8; i++) {
		if (!(i % (BLOCK / 8)) && reads(&j->p[i], &v))
			refused++;
		v = j->p[i] - j->mul * i;
		if (v != j->add && (i < fresh * (BLOCK / 8) ? v != old : j->p[i]))
			FAIL("element %llu is %#llx, neither of %#llx nor of %#llx", (unsigned long long)i,
			     (unsigned long long)j->p[i], (unsigned long long)old, (unsigned long long)j->add);
	}
	return refused;
}

static unsigned int words_of_either(const struct job *j, uint64_t old)
{
	return words_of_either_of(j, old, ~0ull / BLOCK);
}

/* Whether a launch of the job ended as one does for which a copy could not be made. */
static int was_cancelled(struct huvm_wait w)
{
	if (w.status == HUVM_LAUNCH_DONE)
		return 0;
	if (w.status != HUVM_LAUNCH_FAILED || (w.error != HUVM_ERROR_CANCELLED && w.error != HUVM_ERROR_NO_MEMORY))
		FAIL("launch ended with status %u, error %u", w.status, w.error);
	CHECK_EQ(w.mismatches, 0);
	return 1;
}

/* Moves blocks of the job. Whether there was no memory for it, or (@why) a copy could not be made. */
static int move_fails(const struct job *j, uint64_t from, uint64_t blocks, uint32_t to, int why)
{
	if (!migrate(j->fd, (char *)j->p + from * BLOCK, blocks * BLOCK, to))
		return 0;
	CHECK_EQ(errno, why);
	return 1;
}

static int move_refused(const struct job *j, uint64_t from, uint64_t blocks, uint32_t to)
{
	return move_fails(j, from, blocks, to, EIO);
}

/* Of each of the kinds in @kinds (ended by ~0) @after go well, and no other; ~0: all do. Returns how many did not. */
static uint32_t refuse_from(int fd, const uint32_t *kinds, uint32_t after)
{
	const uint32_t many = 1u << 30;
	uint32_t refused = 0;

	for (; *kinds != ~0u; kinds++) {
		if (after != ~0u)
			let_fail_after(fd, *kinds, after, many);
		else
			refused += many - let_fail(fd, *kinds, 0);
	}
	return refused;
}

/*
 * Catches what is half made when there is no more memory, and is taken for whole when it goes: from the n-th on none is given, until
 * the job has heard of it or not and has given a part back. It is the same under presets that fetch ahead, which the others here do not.
 */
static void refused_for_good(void)
{
	static const char *const presets[] = { "demand", "huvm", "memharvester" };
	static const uint32_t kinds[][4] = {
		{ HUVM_FAIL_HOST_2M, HUVM_FAIL_HOST_64K, HUVM_FAIL_HOST_4K, ~0u }, { HUVM_FAIL_DMA_MAP, ~0u },
		{ HUVM_FAIL_DMA_ALLOC, ~0u },
	};
	uint32_t n, hit, turns = 0, heard = 0, went;
	struct job beside;
	int fd;

	fd = begin(1u << 1, 3, 5);
	beside = begin_beside();
	for (unsigned int k = 0; k < 9; k++) {
		const uint32_t *kind = kinds[k / 3];

		for (uint32_t g = 0; g < 2; g++) {
			gpu_begins(fd, g, presets[k % 3], g);
			/* Evictions take nothing that was made before, and no thread of their own has a turn. */
			knob(fd, g, "large_page_pool_mib", 0);
		}
		went = 0;
		for (n = 0; n < TURNS_MAX; n += rounds(1) > 1 ? 1 : 1 + n / 2) {
			struct job j = job_make(0, 12, n);
			int said = 0;

			CHECK_OK(gpu_register(j.fd, 1));
			cpu_fill(j.p, 4 * BLOCK, j.add, j.mul);
			refuse_from(fd, kind, n);
			said += fill_or_no_memory(&j, n + 1);
			said += move_fails(&j, 0, 3, 1, ENOMEM);
			said += move_fails(&j, 2, 4, HUVM_PLACE_HOST, ENOMEM);
			said += fill_or_no_memory(&j, n + 1);
			/* The last two are given back. What munmap leaves needs nothing. */
			j.len -= 2 * BLOCK;
			CHECK_OK(munmap((char *)j.p + j.len, 2 * BLOCK));
			hit = refuse_from(fd, kind, ~0u);
			words_of_either_of(&j, n, 4);
			CHECK(!fill_or_no_memory(&j, n + 2));
			job_end(&j);
			turns++;
			went += !!hit;
			heard += !!said;
			CHECK(hit || !said);
			if (!hit)
				break;
		}
		printf("# %u, %s: %u times none from some point on\n", kind[0], presets[k % 3], went);
		CHECK(went > 2 && n < TURNS_MAX);
	}
	printf("# %u turns, in %u of which the client heard of it\n", turns, heard);
	CHECK(heard > 9);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(limit_chunks(fd, 1, 0));
	end_beside(&beside, fd);
	works(fd, 1);
	close(fd);
}

/*
 * Catches pages that are left without a valid copy by a push that is refused: of a fault's copy, an eviction's to the host or to a
 * neighbour, a write-back's, a migration's from place to place, a cancel's. So many in a row as @times.
 */
static void pushing(int fd, uint32_t times)
{
	uint32_t n, went = 0, heard = 0;

	for (n = 0; n < TURNS_MAX; n += rounds(1) > 1 ? 1 : 1 + n / 4 * times) {
		struct job j = job_make(0, 8, n);
		struct huvm_instr check = over(HUVM_OP_CHECK, j.len, WIDE);
		uint32_t left;
		unsigned int said = 0;

		CHECK_OK(gpu_register(j.fd, 1));
		cpu_fill(j.p, j.len, j.add, j.mul);
		check.a = (uintptr_t)j.p;
		check.imm0 = j.add;
		check.imm1 = j.mul;
		let_fail_after(fd, HUVM_FAIL_SUBMIT, n, times);
		said += was_cancelled(run_program(j.fd, 0, WIDE, &check, 1, 8));
		said += was_cancelled(try_fill(&j, n + 1));
		said += move_refused(&j, 0, 3, 0);
		said += move_refused(&j, 0, 3, 1);
		said += move_refused(&j, 0, 3, HUVM_PLACE_HOST);
		said += move_refused(&j, 3, 2, 1);
		said += move_refused(&j, 3, 2, 0);
		said += words_of_either(&j, n);
		left = let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0);
		went += left != times;
		heard += said != 0;
		if (said && left == times)
			FAIL("the client heard of what did not happen");
		CHECK(said <= times - left);
		words_of_either(&j, n);
		CHECK(!was_cancelled(try_fill(&j, n + 2)));
		job_end(&j);
		if (left == times)
			break;
	}
	printf("# %u times %u pushes failed, of %u; the client heard of %u\n", went, times, n, heard);
	/* A fault whose push is refused is tried again, without what was to come along; of calls few are met but with LONG=1. */
	CHECK(went > 4 && (heard > 0 || (times == 1 && rounds(1) == 1)));
	CHECK(n < TURNS_MAX);
}

/* Catches data that is lost with a GPU that leaves because one push was refused: of its own clients, and of what it keeps. */
static void leaving_refused(int fd)
{
	const uint64_t len = 2 * BLOCK;
	char name[32];
	uint32_t n;
	int hit = 1;

	pci_name(fd, 1, name);
	for (n = 0; n < TURNS_MAX && hit; n++) {
		uint64_t *p = managed(fd, len);
		struct job j;

		knob(fd, 1, "harvest_lend", 1);
		knob(fd, 1, "write_back", 0);
		CHECK_OK(gpu_register(fd, 1));
		gpu_fill(fd, 1, p, len, WIDE, n, 3);
		j = job_begin(0, 9, n);
		CHECK(lent(fd, 1) >= 3);
		let_fail_after(fd, HUVM_FAIL_SUBMIT, n, 1);
		CHECK_OK(write_file(DRIVER "unbind", name));
		hit = !let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0);
		cpu_check(p, len, n, 3);
		CHECK_OK(munmap(p, len));
		job_end(&j);
		CHECK_OK(write_file(DRIVER "bind", name));
	}
	printf("# %u pushes refused while a GPU leaves\n", n - 1);
	CHECK(n > 4 && n < TURNS_MAX);
}

static void submitting(void)
{
	struct job beside;
	int fd;

	fd = begin(1u << 1, 1, 5);
	for (uint32_t g = 0; g < 2; g++) {
		knob(fd, g, "write_back", 1);
		knob(fd, g, "parallel_fetch", 1);
	}
	beside = begin_beside();
	/* Three in a row: a copy's, that of the other try, and that of the cancel that comes of it. */
	for (uint32_t times = 1; times <= 3; times += 2)
		pushing(fd, times);
	leaving_refused(fd);
	CHECK_OK(limit_chunks(fd, 0, 0));
	end_beside(&beside, fd);
	works(fd, 1);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "binding", binding, 240 }, { "unbinding", unbinding, 240 },
	{ "leaving_without_memory", leaving_without_memory, 240 }, { "reclaiming", reclaiming, 240 },
	{ "serving_faults", serving_faults, 240 }, { "evicting_ahead", evicting_ahead, 240 }, { "lending", lending, 240 },
	{ "fetching_ahead", fetching_ahead, 240 }, { "filling_the_pool", filling_the_pool, 240 },
	{ "serving_faults_under_huvm", serving_faults_under_huvm, 240 },
	{ "fetching_ahead_under_huvm", fetching_ahead_under_huvm, 240 },
	{ "rescuing", rescuing, 240 }, { "rescuing_refused", rescuing_refused, 240 },
	{ "mapping_for_dma", mapping_for_dma, 240 }, { "host_pages", host_pages, 240 },
	{ "device_memory", device_memory, 240 }, { "no_directories", no_directories },
	{ "refused_for_good", refused_for_good, 240 }, { "submitting", submitting, 240 },
};
KTAP_MAIN(tests)
