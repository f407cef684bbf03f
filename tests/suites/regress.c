// SPDX-License-Identifier: GPL-2.0
/*
 * What broke other drivers, by name (issue 5): each test provokes one such failure and has a bound of its own, so that a
 * hang is told from slowness.
 */
#include "huvm_lib.h"
#include <pthread.h>

/* Blocks of a launch. */
#define WIDE 16u

/* Every GPU with all of its memory, and with what suites begin with. */
static int fresh(void)
{
	int fd = huvm_open();

	for (uint32_t g = 0; g < gpu_count(fd); g++) {
		CHECK_OK(set_preset_of(fd, HUVM_SCOPE_GPU, g, "demand"));
		CHECK_OK(limit_chunks(fd, g, 0));
	}
	all_idle(fd);
	return fd;
}

static int with_gpu(uint32_t gpu)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, gpu));
	return fd;
}

/*
 * Eviction that spins while it services a fault: the GPU has just the chunks that its two blocks need at one time, one to
 * read and one to write each, so every fault evicts. It must end, and start a fault again about as often as it evicts.
 */
static void eviction_spins_in_a_fault(void)
{
	const uint64_t n = 2, each = 6 * BLOCK, len = n * each;
	int fd = fresh();
	uint64_t *x, *y, evicted, again;
	struct huvm_instr i = { .op = HUVM_OP_COPY, .count = PAGE / 8, .steps = each / PAGE, .step_stride = PAGE,
				.block_stride = each };

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 2 * n));
	x = managed(fd, len);
	y = managed(fd, len);
	cpu_fill(x, len, 5, 3);
	i.a = (uintptr_t)x;
	i.dst = (uintptr_t)y;
	evicted = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
	again = of_gpu(fd, 0, HUVM_CNT_RETRIES);
	run_ok(fd, 0, n, &i, 1, 8);
	evicted = of_gpu(fd, 0, HUVM_CNT_EVICTIONS) - evicted;
	again = of_gpu(fd, 0, HUVM_CNT_RETRIES) - again;
	printf("# %llu evictions, %llu starts again\n", (unsigned long long)evicted, (unsigned long long)again);
	CHECK(evicted >= 2 * len / BLOCK - 2 * n);
	CHECK(again <= 2 * evicted + 16);
	CHECK_OK(limit_chunks(fd, 0, 0));
	cpu_check(y, len, 5, 3);
}

static const char *const presets[] = { "demand", "stock-460", "huvm" };

static void pairs_on(uint32_t n, uint32_t chunks)
{
	const uint64_t len = n * BLOCK;
	int fd = fresh();

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, chunks));
	for (unsigned int k = 0; k < sizeof(presets) / sizeof(presets[0]); k++) {
		struct huvm_instr i = { .op = HUVM_OP_COPY, .count = 1, .steps = 4, .step_stride = BLOCK / 4, .block_stride = BLOCK };
		uint64_t *x = managed(fd, len), *y = managed(fd, len);
		struct huvm_wait w;

		CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, presets[k]));
		cpu_fill(x, len, 5 + k, 3);
		i.a = (uintptr_t)x;
		i.dst = (uintptr_t)y;
		w = run_ok(fd, 0, n, &i, 1, 8);
		printf("# %u on %u chunks, %s: %llu faults\n", n, chunks, presets[k], (unsigned long long)w.faults);
		for (uint64_t at = 0; at < len / 8; at += BLOCK / 4 / 8)
			CHECK_EQ(y[at], 5 + k + 3 * at);
		CHECK_OK(munmap(x, len));
		CHECK_OK(munmap(y, len));
	}
	CHECK_OK(limit_chunks(fd, 0, 0));
	gets_idle(fd, 0);
}

/*
 * The same past what fits: five blocks copy, each needs two chunks at a time, and there are four. Under least-recently-migrated
 * alone what one half needs is evicted for the other half before each replay, for ever. So do six on three.
 */
static void more_pairs_than_chunks(void)
{
	pairs_on(5, 4);
	pairs_on(6, 3);
}

#define TRIPLE_STEPS 64u

/* x + 2 y for a word of each of many pages of three blocks, twice: by two blocks of a launch, or by two launches. How often they stood still. */
static uint64_t triples(int fd, int apart)
{
	const uint64_t len = 2 * BLOCK, stride = BLOCK / TRIPLE_STEPS;
	uint64_t *x = managed(fd, len), *y = managed(fd, len), *z = managed(fd, len);
	uint64_t stood = of_gpu(fd, 0, HUVM_CNT_STANDSTILLS), id[2], faults = 0;
	struct huvm_instr first[4], in[2];

	cpu_fill(x, len, 5, 3);
	cpu_fill(y, len, 7, 1);
	cpu_fill(z, len, 1, 1);
	/* What was not there last comes last: two of each are there, and wait for the third. */
	for (int j = 0; j < 4; j++) {
		uintptr_t at = (uintptr_t)(j < 2 ? y : z) + (uintptr_t)(j % 2) * BLOCK;

		first[j] = (struct huvm_instr){ .op = HUVM_OP_ATOMIC_ADD, .count = 1, .steps = 1, .dst = at, .a = at };
	}
	run_ok(fd, 0, 1, first, 4, 8);
	for (int j = 0; j < 1 + apart; j++) {
		uint64_t at = (uint64_t)j * BLOCK;

		in[j] = (struct huvm_instr){ .op = HUVM_OP_TRIAD, .count = 1, .steps = TRIPLE_STEPS, .step_stride = stride,
					     .block_stride = BLOCK, .imm0 = 2, .a = (uintptr_t)x + at, .b = (uintptr_t)y + at,
					     .dst = (uintptr_t)z + at };
		CHECK_OK(launch(fd, 0, apart ? 1 : 2, &in[j], 1, 8, &id[j]));
	}
	for (int j = 0; j < 1 + apart; j++) {
		struct huvm_wait w = wait_launch(fd, id[j]);

		CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		faults += w.faults;
	}
	for (uint64_t at = 0; at < len / 8; at += stride / 8)
		CHECK_EQ(z[at], 5 + 3 * at + 2 * (7 + at));
	CHECK_OK(munmap(x, len));
	CHECK_OK(munmap(y, len));
	CHECK_OK(munmap(z, len));
	stood = of_gpu(fd, 0, HUVM_CNT_STANDSTILLS) - stood;
	printf(" %llu faults, %llu standstills;", (unsigned long long)faults, (unsigned long long)stood);
	return stood;
}

/*
 * And of three each: two blocks have two of their three at a time, brought in by turns, and what comes for one takes the oldest, which
 * is the other's or its own. There is room for four, so no batch is about more than that, and none of them looks crowded. The first blocks of
 * two launches are one unit for all that the GPU says.
 */
static void more_triples_than_chunks(void)
{
	static const char *const replays[] = { "block", "batch", "batch-flush", "once" };
	int fd = fresh();
	uint64_t stood = 0;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 4));
	for (unsigned int k = 0; k < sizeof(presets) / sizeof(presets[0]); k++) {
		CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, presets[k]));
		printf("# %s:", presets[k]);
		stood += triples(fd, 0) + triples(fd, 1);
		printf("\n");
	}
	CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, "demand"));
	for (unsigned int k = 0; k < 4; k++) {
		knob(fd, 0, "replay_policy", k);
		printf("# replay-%s:", replays[k]);
		stood += triples(fd, 0) + triples(fd, 1);
		printf("\n");
	}
	CHECK_OK(set_preset_of(fd, HUVM_SCOPE_GPU, 0, "demand"));
	CHECK(stood > 0);
	CHECK_OK(limit_chunks(fd, 0, 0));
	gets_idle(fd, 0);
}

/*
 * Eight that need three each, on three chunks: by chance all three of one are there in one of some 250 rounds. With turns each access
 * takes a few.
 */
static void eight_triples_on_three_chunks(void)
{
	const uint64_t n = 8, steps = 16, len = n * BLOCK, stride = BLOCK / steps;
	int fd = fresh();
	uint64_t *x, *y, *z, batches;
	struct huvm_instr i = { .op = HUVM_OP_TRIAD, .count = 1, .steps = steps, .step_stride = stride, .block_stride = BLOCK, .imm0 = 2 };

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 3));
	x = managed(fd, len);
	y = managed(fd, len);
	z = managed(fd, len);
	cpu_fill(x, len, 5, 3);
	cpu_fill(y, len, 7, 1);
	i.a = (uintptr_t)x;
	i.b = (uintptr_t)y;
	i.dst = (uintptr_t)z;
	batches = of_gpu(fd, 0, HUVM_CNT_FAULT_BATCHES);
	run_ok(fd, 0, n, &i, 1, 8);
	batches = of_gpu(fd, 0, HUVM_CNT_FAULT_BATCHES) - batches;
	printf("# %llu batches for %llu accesses\n", (unsigned long long)batches, (unsigned long long)(n * steps));
	for (uint64_t at = 0; at < len / 8; at += stride / 8)
		CHECK_EQ(z[at], 5 + 3 * at + 2 * (7 + at));
	CHECK(batches < 4000);
	CHECK_OK(munmap(x, len));
	CHECK_OK(munmap(y, len));
	CHECK_OK(munmap(z, len));
	CHECK_OK(limit_chunks(fd, 0, 0));
	gets_idle(fd, 0);
}

/* A launch of three blocks that reads two and writes one of each is over within what launches may take here. */
static void gets_on(int fd, const uint64_t *x, uint64_t *z)
{
	struct huvm_instr i = { .op = HUVM_OP_ADD, .count = 1, .steps = 8, .step_stride = 4 * PAGE, .a = (uintptr_t)x,
				.b = (uintptr_t)x + BLOCK, .dst = (uintptr_t)z };

	run_ok(fd, 0, 1, &i, 1, 8);
	for (uint64_t at = 0; at < 8 * 4 * PAGE / 8; at += 4 * PAGE / 8)
		CHECK_EQ(z[at], x[at] + x[at + BLOCK / 8]);
}

/*
 * Warps whose lanes want more chunks at a time than there are never get on, and keep nobody else from it: another client's launches on
 * the same GPU end, also one that needs as many as the half that is its own, and so do those warps when they are told to.
 */
static void more_lanes_than_chunks(void)
{
	const uint32_t lanes = 8, warps = 16;
	int fd = fresh(), other = with_gpu(0);
	uint64_t *from = managed(fd, lanes * BLOCK), *idx = managed(fd, BLOCK), *dst = managed(fd, BLOCK);
	uint64_t *p = managed(other, 2 * BLOCK), *z = managed(other, BLOCK), stood, id;
	double seen, began;
	struct huvm_instr i = { .op = HUVM_OP_GATHER, .count = lanes, .steps = 1, .a = (uintptr_t)from, .idx = (uintptr_t)idx,
				.dst = (uintptr_t)dst, .block_stride = PAGE };

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 6));
	cpu_fill(from, lanes * BLOCK, 9, 2);
	cpu_fill(p, 2 * BLOCK, 5, 3);
	for (uint64_t k = 0; k < warps; k++)
		for (uint64_t j = 0; j < lanes; j++)
			idx[k * PAGE / 8 + j] = j * BLOCK / 8 + k;
	stood = of_gpu(fd, 0, HUVM_CNT_STANDSTILLS);
	began = seconds();
	CHECK_OK(launch(fd, 0, warps, &i, 1, 8, &id));
	CHECK(WITHIN(20000, of_gpu(fd, 0, HUVM_CNT_STANDSTILLS) > stood));
	seen = seconds() - began;
	began = seconds();
	for (int turn = 0; turn < 10; turn++)
		gpu_scale(other, 0, p, 2 * BLOCK, 4, 1, 4);
	printf("# %.1f s until it was seen; beside it %.1f s for ten launches,", seen, seconds() - began);
	began = seconds();
	for (int turn = 0; turn < 4; turn++)
		gets_on(other, p, z);
	printf(" %.1f s for four that need three chunks\n", seconds() - began);
	cpu_check(p, 2 * BLOCK, 5 + 10 * 4, 3);
	ARG(huvm_wait, w, .launch = id, .timeout_ns = 1);
	CHECK_ERR(ioctl(fd, HUVM_IOC_WAIT, &w), ETIMEDOUT);
	w.timeout_ns = launch_limit_ns();
	CHECK_OK(ioctl(fd, HUVM_IOC_ABORT, &w));
	CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	/* With as much room as they need they are done. */
	CHECK_OK(limit_chunks(fd, 0, 0));
	run_ok(fd, 0, warps, &i, 1, 8);
	for (uint64_t k = 0; k < warps; k++)
		for (uint64_t j = 0; j < lanes; j++)
			CHECK_EQ(dst[k * PAGE / 8 + j], 9 + 2 * idx[k * PAGE / 8 + j]);
	CHECK_OK(close(other));
	CHECK_OK(munmap(from, lanes * BLOCK));
	CHECK_OK(munmap(idx, BLOCK));
	CHECK_OK(munmap(dst, BLOCK));
	gets_idle(fd, 0);
}

/* Teardown when a feature was never initialised: files, spaces and GPUs that go without ever having been used. */
static void teardown_of_what_was_never_used(void)
{
	int fd = fresh();
	uint32_t n = gpu_count(fd);
	char name[64];
	int clients = client_count(fd);

	for (int turn = 0; turn < 8; turn++) {
		int f = huvm_open();
		void *p = NULL;

		/* Each bit is a step that this file does without. */
		if (turn & 1)
			p = managed(f, 3 * BLOCK);
		if (turn & 2)
			for (uint32_t g = 0; g < n; g++)
				CHECK_OK(gpu_register(f, g));
		if (turn & 4) {
			ARG(huvm_events, e, .mask = 0);

			/* Off, and never was on. */
			CHECK_OK(ioctl(f, HUVM_IOC_EVENTS, &e));
			CHECK_ERR(gpu_unregister(f, n), ENODEV);
			if (!(turn & 2))
				CHECK_ERR(gpu_unregister(f, 0), ENOENT);
		}
		CHECK_OK(close(f));
		if (p)
			CHECK_OK(munmap(p, 3 * BLOCK));
	}
	CHECK_EQ(client_count(fd), clients);
	/* A GPU that never had a client, a lent chunk, a pool or a stream. */
	pci_name(fd, n - 1, name);
	rebind(name);
	rebind(name);
	all_idle(fd);
	works(fd, n - 1);
}

struct mover {
	int fd;
	char *p;
	uint64_t len;
	uint32_t from;
	int turns;
	int failed;
};

static void *moves(void *arg)
{
	struct mover *m = arg;

	for (int i = 0; i < m->turns && !m->failed; i++)
		m->failed = migrate(m->fd, m->p, m->len, (m->from + (uint32_t)i) & 1);
	return NULL;
}

/*
 * Lock order between two GPUs: each lends to the other and borrows from it, and two ranges of one space change places
 * between them all the time. The debug kernel's lockdep sees every order that there is; data tell of the rest.
 */
static void lock_order_of_two_gpus(void)
{
	const uint64_t len = 8 * BLOCK;
	int fd = fresh();
	uint64_t lent[2];
	struct mover m[2];
	pthread_t t[2];

	for (uint32_t g = 0; g < 2; g++) {
		lent[g] = of_gpu(fd, g, HUVM_CNT_CHUNKS_LENT);
		CHECK_OK(gpu_register(fd, g));
		CHECK_OK(limit_chunks(fd, g, 10));
		knob(fd, g, "harvest_borrow", 1);
		knob(fd, g, "harvest_lend", 1);
	}
	for (uint32_t g = 0; g < 2; g++) {
		m[g] = (struct mover){ .fd = fd, .p = managed(fd, len), .len = len, .from = g, .turns = 6 };
		cpu_fill((uint64_t *)m[g].p, len, g + 1, 7);
	}
	for (uint32_t g = 0; g < 2; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, moves, &m[g]), 0);
	for (int i = 0; i < 3; i++)
		for (uint32_t g = 0; g < 2; g++)
			gpu_check(fd, 1 - g, m[g].p, len, WIDE, g + 1, 7);
	for (uint32_t g = 0; g < 2; g++) {
		pthread_join(t[g], NULL);
		CHECK_EQ(m[g].failed, 0);
		cpu_check((uint64_t *)m[g].p, len, g + 1, 7);
		CHECK_OK(munmap(m[g].p, len));
		printf("# GPU %u lent %llu chunks\n", g, (unsigned long long)(of_gpu(fd, g, HUVM_CNT_CHUNKS_LENT) - lent[g]));
	}
	/* Else no lock of lending was taken. */
	CHECK(of_gpu(fd, 0, HUVM_CNT_CHUNKS_LENT) > lent[0] || of_gpu(fd, 1, HUVM_CNT_CHUNKS_LENT) > lent[1]);
	fresh();
}

/*
 * A lock orphaned when a space is destroyed: a client dies while another's faults evict its blocks, a debugger reads them
 * and its own calls move them. Who comes later must not wait for anything of the dead.
 */
static void lock_of_a_dead_space(void)
{
	const uint64_t len = 12 * BLOCK;
	int fd = fresh(), mine = with_gpu(0);
	uint64_t *p;

	CHECK_OK(limit_chunks(fd, 0, 16));
	p = managed(mine, len);
	for (uint64_t i = 0; i < 10; i++) {
		int ready[2], mem;
		char path[64], c;
		uint64_t *theirs, word;
		pid_t pid;

		CHECK_OK(pipe(ready));
		pid = fork();
		if (!pid) {
			int f = with_gpu(0);

			theirs = managed(f, len);
			gpu_fill(f, 0, theirs, len, WIDE, i, 1);
			CHECK_EQ(write(ready[1], &theirs, sizeof(theirs)), sizeof(theirs));
			for (;;) {
				CHECK_OK(migrate(f, theirs, len, HUVM_PLACE_HOST));
				gpu_scale(f, 0, theirs, len, WIDE, 1, 0);
			}
		}
		close(ready[1]);
		CHECK_EQ(read(ready[0], &theirs, sizeof(theirs)), sizeof(theirs));
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		mem = open(path, O_RDONLY);
		CHECK(mem >= 0);
		for (uint64_t e = 0; e < 4; e++) {
			CHECK_EQ(pread(mem, &word, 8, (off_t)(uintptr_t)&theirs[e * BLOCK / 4]), 8);
			CHECK_EQ(word, i + e * BLOCK / 4);
		}
		/* Both do not fit. */
		gpu_fill(mine, 0, p, len, WIDE, i, 3);
		usleep((useconds_t)(700 * i));
		end_child(pid);
		/* Its end of the pipe went with it. */
		CHECK_EQ(read(ready[0], &c, 1), 0);
		close(ready[0]);
		close(mem);
		gpu_check(mine, 0, p, len, WIDE, i, 3);
	}
	CHECK_OK(munmap(p, len));
	close(mine);
	gets_idle(fd, 0);
	fresh();
}

static void stuck_in_a_wait(void)
{
	struct huvm_instr in = till_ended();
	int fd = with_gpu(0);
	uint64_t id;

	CHECK_OK(launch(fd, 0, 1, &in, 1, 8, &id));
	wait_launch(fd, id);
}

static void stuck_in_a_read(void)
{
	ARG(huvm_events, e, .mask = 1u << HUVM_EVENT_GPU_LOST, .records = 16);
	struct huvm_event got;
	int fd = huvm_open();

	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
	CHECK_EQ(read(fd, &got, sizeof(got)), 0);
}

static void stuck_in_migrate(void)
{
	const uint64_t len = 20 * BLOCK;
	int fd = with_gpu(0);
	void *p = managed(fd, len);

	for (;;) {
		CHECK_OK(migrate(fd, p, len, 0));
		CHECK_OK(migrate(fd, p, len, HUVM_PLACE_HOST));
	}
}

/* More blocks than the driver can make records of before the signal comes; and those it has made go with the process. */
static void stuck_in_advise(void)
{
	const uint64_t len = 4ull << 40;
	int fd = with_gpu(0);
	void *p = managed(fd, len);

	CHECK_OK(advise(fd, p, len, HUVM_ADVISE_PREFERRED, 0));
}

static void stuck_in_cpu_faults(void)
{
	struct huvm_instr in = { .op = HUVM_OP_SCALE, .count = 1, .steps = 1ull << 24, .imm0 = 1, .imm1 = 1 };
	int fd = with_gpu(0);
	volatile uint64_t *p = managed(fd, BLOCK);
	uint64_t id;

	in.a = in.dst = (uintptr_t)p;
	CHECK_OK(launch(fd, 0, 1, &in, 1, 8, &id));
	for (;;)
		p[1]++;
}

/* An unkillable client: SIGKILL ends it wherever it is, soon, with all of its threads, and nothing of it stays. */
static void unkillable_client(void)
{
	static void (*const places[])(void) = { stuck_in_a_wait, stuck_in_a_read, stuck_in_migrate, stuck_in_advise,
					stuck_in_cpu_faults };
	int fd = fresh();

	for (unsigned int i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int status = 0, gone;
		pid_t pid = fork();

		if (!pid) {
			places[i]();
			_exit(1);
		}
		give_time(200);
		CHECK_OK(kill(pid, SIGKILL));
		gone = WITHIN(5000, waitpid(pid, &status, WNOHANG) == pid);
		if (!gone || !WIFSIGNALED(status))
			FAIL("place %u: %s", i, gone ? "it had ended by itself" : "it does not die");
		all_idle(fd);
	}
	CHECK(WITHIN(5000, client_count(fd) == 1));
}

struct side {
	int fd;
	uint32_t gpu;
	uint64_t *p;
};

/* Additions of each GPU: more than one makes while it has the page. */
#define ADDITIONS 300000ull

static void *hammers(void *arg)
{
	struct side *s = arg;
	struct huvm_instr in = { .op = HUVM_OP_SCALE, .count = 1, .steps = ADDITIONS, .imm0 = 1, .imm1 = 1 };

	in.a = in.dst = (uintptr_t)&s->p[s->gpu];
	run_ok(s->fd, s->gpu, 1, &in, 1, 8);
	return NULL;
}

/*
 * Two GPUs @add to words of one page, which begin with @first and are to end with @last: once without and once with the detection
 * of thrashing. Both must get on (the launches end within their bound) and no addition is lost. @retries: how often a fault may look for
 * a chunk.
 */
static void both_add(void *(*add)(void *), uint64_t first, uint64_t last, uint64_t retries)
{
	int fd = fresh();

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_retries_max", retries));
	for (int detect = 0; detect < 2; detect++) {
		uint64_t *p = managed(fd, BLOCK), moved = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
		struct side s[2] = { { fd, 0, p }, { fd, 1, p } };
		pthread_t t[2];

		p[0] = p[1] = first;
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "thrash_enable", (uint64_t)detect));
		for (int g = 0; g < 2; g++)
			CHECK_EQ(pthread_create(&t[g], NULL, add, &s[g]), 0);
		for (int g = 0; g < 2; g++)
			pthread_join(t[g], NULL);
		moved = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS) - moved;
		printf("# %llu faults\n", (unsigned long long)moved);
		CHECK(moved >= 8);
		CHECK_EQ(p[0], last);
		CHECK_EQ(p[1], last);
		CHECK_OK(munmap(p, BLOCK));
	}
}

/* Live-lock between two GPUs that migrate the same page: each adds to a word of its own. */
static void livelock_of_two_gpus(void)
{
	both_add(hammers, 0, ADDITIONS, 16);
}

static void *adds(void *arg)
{
	struct side *s = arg;
	struct huvm_instr in = { .op = HUVM_OP_ATOMIC_ADD, .count = 2, .steps = ADDITIONS, .imm0 = 1 };

	in.dst = (uintptr_t)s->p;
	run_ok(s->fd, s->gpu, 2, &in, 1, 8);
	return NULL;
}

/* The same with two words that are everybody's: each of four blocks on two GPUs adds to both. */
static void two_gpus_add_to_one_word(void)
{
	both_add(adds, 7, 7 + 4 * ADDITIONS, 16);
}

/*
 * The same where the page goes over the host, and the other GPU may have it again when it is there: who is overtaken time and again has
 * not run out of memory.
 */
static void two_gpus_without_a_road(void)
{
	int fd = huvm_open();

	test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
	/* The driver looks each 100 ms. */
	give_time(400);
	both_add(hammers, 0, ADDITIONS, 1);
	test_reg(fd, 0, INJ_LINK_DOWN, 0);
	give_time(400);
}

/* A length of about @percent of the GPU's memory. */
static uint64_t part_of(int fd, uint32_t gpu, uint64_t percent)
{
	uint64_t blocks = chunk_count(fd, gpu) * percent / 100;

	return (blocks ? blocks : 1) * BLOCK;
}

/* A job that silently never ends past a size: at each size it ends, and every word is right. */
static void job_never_ends_past_a_size(void)
{
	static const uint64_t percent[] = { 10, 50, 90, 97, 100, 103, 110, 125, 175, 250 };
	int fd = fresh();

	CHECK_OK(gpu_register(fd, 0));
	for (unsigned int i = 0; i < sizeof(percent) / sizeof(percent[0]); i++) {
		uint64_t len = part_of(fd, 0, percent[i]);
		uint64_t *p = managed(fd, len);

		gpu_fill(fd, 0, p, len, WIDE, i, 5);
		gpu_scale(fd, 0, p, len, WIDE, 1, 1);
		gpu_check(fd, 0, p, len, WIDE, i + 1, 5);
		cpu_check(p, len, i + 1, 5);
		CHECK_OK(munmap(p, len));
		gets_idle(fd, 0);
	}
}

/* A system crash at half fit: half of the working set fits, under the presets that differ most, twice over. */
static void crash_at_half_fit(void)
{
	static const char *const presets[] = { "demand", "stock-595", "huvm" };
	int fd = fresh();

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 12));
	for (unsigned int i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
		const uint64_t len = 24 * BLOCK;
		uint64_t *p = managed(fd, len);

		CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, presets[i]));
		gpu_fill(fd, 0, p, len, WIDE, i, 9);
		for (uint64_t k = 0; k < 2; k++)
			gpu_scale(fd, 0, p, len, WIDE, 1, 1);
		cpu_check(p, len, i + 2, 9);
		CHECK_OK(munmap(p, len));
	}
	fresh();
}

static void *goes_to_the_first(void *arg)
{
	struct mover *m = arg;

	m->failed = migrate(m->fd, m->p, m->len, 0);
	return NULL;
}

/*
 * A block goes from one GPU to another that is full, whose copy out stands still: the CPU does not wait for that before the copy in is submitted,
 * with the block locked, and that does not overtake it.
 */
static void waits_on_the_way_to_a_full_gpu(void)
{
	int fd = fresh(), ctl = huvm_open();
	uint64_t *full = managed(fd, 4 * BLOCK), before;
	struct mover m = { .fd = fd, .p = managed(fd, BLOCK), .len = BLOCK };
	pthread_t t;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	CHECK_OK(limit_chunks(fd, 0, 4));
	gpu_fill(fd, 0, full, 4 * BLOCK, 4, 6, 1);
	gpu_fill(fd, 1, m.p, BLOCK, 4, 99, 3);
	CHECK_EQ(mem_info(fd, 0).free, 0);
	before = of_gpu(ctl, 0, HUVM_CNT_BYTES_P2P);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	CHECK_EQ(pthread_create(&t, NULL, goes_to_the_first, &m), 0);
	/* It is counted when it was submitted; a copy may stand for ten seconds, however slow the machine. */
	CHECK(WITHIN(3000 / time_scale(), of_gpu(ctl, 0, HUVM_CNT_BYTES_P2P) == before + BLOCK));
	give_time_held(200);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	pthread_join(t, NULL);
	CHECK_EQ(m.failed, 0);
	CHECK_EQ(block_info(fd, m.p).gpu_pages[0], 512);
	gpu_check(fd, 0, m.p, BLOCK, 4, 99, 3);
	cpu_check(full, 4 * BLOCK, 6, 1);
	CHECK_OK(munmap(m.p, BLOCK));
	CHECK_OK(munmap(full, 4 * BLOCK));
	close(ctl);
	fresh();
}

static const struct ktap_test tests[] = {
	{ "eviction_spins_in_a_fault", eviction_spins_in_a_fault, 90 },
	{ "more_lanes_than_chunks", more_lanes_than_chunks, 120 },
	{ "eight_triples_on_three_chunks", eight_triples_on_three_chunks, 120 },
	{ "more_triples_than_chunks", more_triples_than_chunks, 120 },
	{ "more_pairs_than_chunks", more_pairs_than_chunks, 60 },
	{ "teardown_of_what_was_never_used", teardown_of_what_was_never_used, 60 },
	{ "lock_order_of_two_gpus", lock_order_of_two_gpus, 90 },
	{ "lock_of_a_dead_space", lock_of_a_dead_space, 90 },
	{ "unkillable_client", unkillable_client, 60 },
	{ "livelock_of_two_gpus", livelock_of_two_gpus, 90 },
	{ "two_gpus_add_to_one_word", two_gpus_add_to_one_word, 90 },
	{ "two_gpus_without_a_road", two_gpus_without_a_road, 180 },
	{ "job_never_ends_past_a_size", job_never_ends_past_a_size, 180 },
	{ "crash_at_half_fit", crash_at_half_fit, 180 },
	{ "waits_on_the_way_to_a_full_gpu", waits_on_the_way_to_a_full_gpu, 60 },
};
KTAP_MAIN(tests)
