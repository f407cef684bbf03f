// SPDX-License-Identifier: GPL-2.0
/* What the driver tells of lending, of the time that things take, and of prefetch. Two GPUs, both ways round. */
#include "lend_lib.h"

/* Chunks of GPU 0 where nothing else counts: 18 clients walk through 1.5 times as many. */
#define LITTLE 12u

static struct huvm_lend_info lends(int fd, uint32_t gpu)
{
	ARG(huvm_lend_info, l, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_LEND_INFO, &l));
	return l;
}

/* What `gpu` lends goes to `to` alone, and is as much as its chunks say: once nothing is on its way between the two figures. */
static void check_lends(int fd, uint32_t gpu, uint32_t to)
{
	if (!WITHIN(2000, lends(fd, gpu).lent_chunks[to] == lent(fd, gpu)))
		CHECK_EQ(lends(fd, gpu).lent_chunks[to], lent(fd, gpu));
	for (uint32_t g = 0; g < HUVM_MAX_GPUS; g++)
		CHECK(g == to || !lends(fd, gpu).lent_chunks[g]);
}

/* Catches lender and borrower mistaken for each other, chunks counted twice or never given back. */
static void who_lends_to_whom(void)
{
	for (uint32_t to = 0; to < 2; to++) {
		uint32_t from = !to;
		int fd = begin(1u << from, 0, 0);
		uint64_t all = chunk_count(fd, from), before;
		struct job borrower, owner;

		knob(fd, from, "write_back", 0);
		knob(fd, from, "lend_limit_percent", 40);
		CHECK_EQ(lends(fd, from).lends, 1);
		CHECK_EQ(lends(fd, to).lends, 0);
		CHECK_EQ(lends(fd, from).limit_chunks, all * 40 / 100);
		check_lends(fd, from, to);
		borrower = job_begin(to, all * 3 / 2, 21);
		CHECK(lent(fd, from) > 0 && lent(fd, from) <= all * 40 / 100);
		check_lends(fd, from, to);
		check_lends(fd, to, from);
		CHECK_EQ(lent(fd, to), 0);
		/* Some comes back, some goes. */
		job_turn(&borrower, WIDE);
		check_lends(fd, from, to);
		before = lent(fd, from);
		/* The owner takes some back. */
		owner = job_begin(from, all * 7 / 8, 5);
		CHECK(lent(fd, from) < before);
		check_lends(fd, from, to);
		job_end(&owner);
		check_lends(fd, from, to);
		job_end(&borrower);
		CHECK(WITHIN(5000, !lent(fd, from)));
		check_lends(fd, from, to);
		/* A borrower that is killed gives everything back, too. */
		knob(fd, from, "lend_limit_percent", 100);
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			borrower = job_begin(to, all * 3 / 2, 3);
			for (;;)
				job_turn(&borrower, WIDE);
		}
		CHECK(WITHIN(20000, lends(fd, from).lent_chunks[to] > 0));
		end_child(child);
		CHECK(WITHIN(5000, !lends(fd, from).lent_chunks[to]));
		knob(fd, from, "harvest_lend", 0);
		close(fd);
	}
}

static struct huvm_latency latency(int fd, uint32_t scope, uint32_t gpu, uint32_t kind)
{
	ARG(huvm_latency, l, .scope = scope, .gpu = gpu, .kind = kind);

	CHECK_OK(ioctl(fd, HUVM_IOC_LATENCY, &l));
	return l;
}

/* The figures of one reading agree with each other. Those of a copy that is counted meanwhile may not. */
static int agrees(const struct huvm_latency *l)
{
	uint64_t sum = 0, top = 0;

	for (uint32_t i = 0; i < HUVM_LATENCY_BUCKETS; i++) {
		sum += l->buckets[i];
		if (l->buckets[i])
			top = i;
	}
	if (l->count != sum || l->max_ns > l->sum_ns)
		return 0;
	/* The longest is in the last bucket that has any. */
	return !l->count || top == HUVM_LATENCY_BUCKETS - 1 || (l->max_ns < 2ull << top && (!top || l->max_ns >= 1ull << top));
}

/* A reading whose figures agree. */
static struct huvm_latency settled_latency(int fd, uint32_t scope, uint32_t gpu, uint32_t kind)
{
	struct huvm_latency l;

	CHECK(WITHIN(2000, (l = latency(fd, scope, gpu, kind), agrees(&l))));
	return l;
}

static uint64_t times(int fd, uint32_t gpu, uint32_t kind)
{
	return latency(fd, HUVM_SCOPE_GPU, gpu, kind).count;
}

/* Catches a path that is not counted, counted twice or for the wrong GPU, and times that are not times. */
static void how_long_it_takes(void)
{
	int fd = begin(1 << 1, 0, 0);
	uint64_t was[2][HUVM_LATENCY_COUNT], took = of_gpu(fd, 1, HUVM_CNT_RECLAIM_NS), spare = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);
	struct huvm_latency reclaim = settled_latency(fd, HUVM_SCOPE_GPU, 1, HUVM_LATENCY_RECLAIM), now;
	struct job borrower, owner;

	for (uint32_t g = 0; g < 2; g++)
		for (uint32_t k = 0; k < HUVM_LATENCY_COUNT; k++)
			was[g][k] = times(fd, g, k);
	borrower = job_begin(0, chunk_count(fd, 0) * 3 / 2, 4);
	spare = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) - spare;
	CHECK(spare > 0);
	/* Each is seen at its interrupt, which may be a moment late. */
	CHECK(WITHIN(2000, times(fd, 0, HUVM_LATENCY_PEER_OUT) - was[0][HUVM_LATENCY_PEER_OUT] >= spare));
	CHECK(WITHIN(2000, times(fd, 0, HUVM_LATENCY_LOCAL) > was[0][HUVM_LATENCY_LOCAL]));
	CHECK(WITHIN(2000, times(fd, 0, HUVM_LATENCY_FAULT) > was[0][HUVM_LATENCY_FAULT]));
	CHECK_EQ(times(fd, 1, HUVM_LATENCY_FAULT), was[1][HUVM_LATENCY_FAULT]);
	/* Everything lent is copied to the host, over the lender's link. */
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
	CHECK(WITHIN(2000, times(fd, 1, HUVM_LATENCY_WRITE_BACK) - was[1][HUVM_LATENCY_WRITE_BACK] >= lent(fd, 1)));
	CHECK(WITHIN(2000, times(fd, 1, HUVM_LATENCY_D2H) - was[1][HUVM_LATENCY_D2H] >= lent(fd, 1)));
	CHECK_EQ(times(fd, 0, HUVM_LATENCY_WRITE_BACK), was[0][HUVM_LATENCY_WRITE_BACK]);
	job_turn(&borrower, WIDE);
	CHECK(WITHIN(2000, times(fd, 0, HUVM_LATENCY_PEER_IN) > was[0][HUVM_LATENCY_PEER_IN]));
	owner = job_begin(1, chunk_count(fd, 1) * 7 / 8, 5);
	job_end(&owner);
	now = settled_latency(fd, HUVM_SCOPE_GPU, 1, HUVM_LATENCY_RECLAIM);
	CHECK(now.count > reclaim.count);
	CHECK_EQ(now.sum_ns - reclaim.sum_ns, of_gpu(fd, 1, HUVM_CNT_RECLAIM_NS) - took);
	job_end(&borrower);
	CHECK(WITHIN(2000, times(fd, 0, HUVM_LATENCY_D2H) > was[0][HUVM_LATENCY_D2H]));
	/* A copy of 2 MiB takes time on every path; no job here lasts minutes. */
	for (uint32_t k = 0; k < HUVM_LATENCY_COUNT; k++) {
		/* Read first: one more may be counted before the other is read. */
		uint64_t of_one = times(fd, 0, k);
		struct huvm_latency all = settled_latency(fd, HUVM_SCOPE_GLOBAL, 0, k);

		printf("# kind %u: %llu, mean %llu ns, longest %llu ns\n", k, (unsigned long long)all.count,
		       (unsigned long long)(all.count ? all.sum_ns / all.count : 0), (unsigned long long)all.max_ns);
		if (k != HUVM_LATENCY_H2D)
			CHECK(all.count > 0);
		CHECK(all.max_ns < 60ull * 1000000000ull);
		if (all.count)
			CHECK(all.sum_ns / all.count > 100);
		CHECK(all.count >= of_one);
	}
	close(fd);
}

static void latency_is_refused(void)
{
	int fd = huvm_open();
	ARG(huvm_latency, l, .scope = HUVM_SCOPE_GLOBAL);

	CHECK_OK(ioctl(fd, HUVM_IOC_LATENCY, &l));
	l.kind = HUVM_LATENCY_COUNT;
	CHECK_ERR(ioctl(fd, HUVM_IOC_LATENCY, &l), ENOENT);
	l.kind = ~0u;
	CHECK_ERR(ioctl(fd, HUVM_IOC_LATENCY, &l), ENOENT);
	l.kind = 0;
	l.gpu = 1;
	CHECK_ERR(ioctl(fd, HUVM_IOC_LATENCY, &l), EINVAL);
	l.scope = HUVM_SCOPE_SPACE;
	CHECK_ERR(ioctl(fd, HUVM_IOC_LATENCY, &l), EINVAL);
	l.scope = HUVM_SCOPE_GPU;
	l.gpu = 15;
	CHECK_ERR(ioctl(fd, HUVM_IOC_LATENCY, &l), ENODEV);
	close(fd);
}

/* Fetched ahead on GPU 0 by this file. */
struct ahead {
	uint64_t blocks, useful, late, wasted;
};

static struct ahead ahead(int fd)
{
	return (struct ahead){
		.blocks = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_BLOCKS),
		.useful = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_USEFUL),
		.late = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_LATE),
		.wasted = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PREFETCH_WASTED),
	};
}

/* Waits until nothing more is fetched ahead of [p, p + len): no copy there (with a @len), and none begun for a while. */
static void quiet(int fd, const void *p, uint64_t len)
{
	uint64_t last = ahead(fd).blocks;
	int still = 0;

	for (int n = 0; n < 200 && still < 8; n++) {
		uint64_t now;

		give_time(25);
		now = ahead(fd).blocks;
		still = now == last && (!len || !copying(p, len)) ? still + 1 : 0;
		last = now;
	}
	if (still < 8)
		FAIL("%llu blocks fetched ahead, and no end", (unsigned long long)last);
}

static void evict_all(int fd, uint32_t gpu)
{
	ARG(huvm_test_evict, e, .gpu = gpu, .chunks = 1000);

	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
}

/*
 * One block of the GPU walks through @first and then @second of @blocks blocks that the CPU wrote, so that the second walk goes
 * over what was fetched ahead in the first. Then everything is evicted. Returns what was counted.
 */
static struct ahead walk(uint64_t blocks, uint64_t first, uint64_t second)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, blocks * BLOCK);
	struct ahead a;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_amount_mib", 16));
	cpu_fill(p, blocks * BLOCK, 2, 1);
	gpu_check(fd, 0, p, first * BLOCK, 1, 2, 1);
	quiet(fd, p, blocks * BLOCK);
	gpu_check(fd, 0, p + first * BLOCK / 8, second * BLOCK, 1, 2 + first * BLOCK / 8, 1);
	quiet(fd, p, blocks * BLOCK);
	evict_all(fd, 0);
	a = ahead(fd);
	printf("# of %llu blocks %llu fetched ahead: %llu useful, %llu late, %llu wasted\n", (unsigned long long)blocks,
	       (unsigned long long)a.blocks, (unsigned long long)a.useful, (unsigned long long)a.late,
	       (unsigned long long)a.wasted);
	CHECK(a.useful + a.wasted <= a.blocks);
	cpu_check(p, blocks * BLOCK, 2, 1);
	/* What nobody could tell stays untold. */
	CHECK_EQ(ahead(fd).wasted, a.wasted);
	CHECK_OK(munmap(p, blocks * BLOCK));
	CHECK_EQ(ahead(fd).wasted, a.wasted);
	close(fd);
	return a;
}

/* Catches outcomes that are mixed up, counted twice or for somebody else. */
static void prefetch_is_judged(void)
{
	int fd = begin(0, 0, 0);
	uint64_t before = of_gpu(fd, 0, HUVM_CNT_PREFETCH_USEFUL), spoiled = of_gpu(fd, 0, HUVM_CNT_PREFETCH_WASTED);
	struct ahead a = walk(30, 10, 6), b;

	/* The stream came over some of what was ahead of it; how many depends on who is quicker. */
	CHECK(a.useful + a.late > 0);
	/* It ended far from the end of the range, with 8 blocks fetched ahead of its last fault; of some it cannot be told. */
	CHECK(a.wasted >= 4 && a.wasted <= 8);
	/* To the end of the range: nobody can tell of the last ones, and the ones before were gone over. */
	b = walk(14, 10, 4);
	CHECK(b.blocks > 0);
	CHECK_EQ(b.wasted, 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_PREFETCH_USEFUL) - before, a.useful + b.useful);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_PREFETCH_WASTED) - spoiled, a.wasted + b.wasted);
	close(fd);
}

/*
 * Two passes over more than GPU 0 holds, in order, then single words of the same range by chance, by many blocks of threads at once.
 * What the streams of the first had to say is over: catches one that goes on among touches which are sorted, batch by batch, and fetches
 * whole blocks for each.
 */
static void streams_end_with_their_scan(void)
{
	enum { BLOCKS = 36, ROOM = 24, THREADS = 16, EACH = 100 };
	int fd = begin(0, 1, ROOM);
	uint64_t *p = managed(fd, BLOCKS * BLOCK), *rec = managed(fd, BLOCK), pages = BLOCKS * BLOCK / PAGE, rng = 7, moved;
	/* One at a time for each block of threads: so many at once always fit. */
	struct huvm_instr touch = { .op = HUVM_OP_TRACE, .count = 1, .steps = EACH, .step_stride = 8, .block_stride = EACH * 8 };
	struct ahead scan, chance;

	touch.a = (uintptr_t)rec;
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "stream_prefetch", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_amount_mib", 16));
	cpu_fill(p, BLOCKS * BLOCK, 2, 1);
	for (int pass = 0; pass < 2; pass++)
		gpu_check(fd, 0, p, BLOCKS * BLOCK, 1, 2, 1);
	quiet(fd, NULL, 0);
	scan = ahead(fd);
	moved = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PAGES_PREFETCHED);
	for (unsigned int i = 0; i < THREADS * EACH; i++)
		rec[i] = (uintptr_t)p + ((rng = rng * 6364136223846793005ull + 1) >> 33) % pages * PAGE;
	run_ok(fd, 0, THREADS, &touch, 1, 8);
	quiet(fd, NULL, 0);
	chance = ahead(fd);
	moved = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_PAGES_PREFETCHED) - moved;
	chance.blocks -= scan.blocks;
	printf("# %llu blocks fetched ahead in two passes; %llu, and %llu pages, for %d touches by chance\n",
	       (unsigned long long)scan.blocks, (unsigned long long)chance.blocks, (unsigned long long)moved, THREADS * EACH);
	/* It was a stream; how far ahead of its faults it was depends on who is quicker. */
	CHECK(scan.blocks > BLOCKS / 2);
	CHECK(chance.blocks <= 2 * BLOCKS);
	cpu_check(p, BLOCKS * BLOCK, 2, 1);
	CHECK_OK(limit_chunks(fd, 0, 0));
	close(fd);
}

/* A process that opened the device and waits for a word to begin; it tells what it counted. */
struct client {
	pid_t pid;
	int go, told;
};

static uint64_t tell(const struct client *c)
{
	uint64_t n;
	int status;

	CHECK_EQ(write(c->go, "x", 1), 1);
	CHECK_EQ(read(c->told, &n, sizeof(n)), sizeof(n));
	close(c->go);
	close(c->told);
	CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	CHECK_EQ(status, 0);
	return n;
}

/*
 * It walks twice through @blocks blocks on GPU 0 (0: 1.5 times LITTLE), and counts @which. @acts: it goes on, for a while,
 * until there is something to count: what is done behind the GPU's back may be too late.
 */
static struct client client(int which, uint64_t blocks, int acts)
{
	struct client c;
	int go[2], told[2];
	char x;

	CHECK_OK(pipe(go));
	CHECK_OK(pipe(told));
	c.pid = fork();
	if (!c.pid) {
		int fd = huvm_open();
		uint64_t len = (blocks ? blocks : LITTLE * 3 / 2) * BLOCK, n, turn = 0, *p;

		close(go[1]);
		close(told[0]);
		/* Open, but nothing done yet. */
		n = 0;
		CHECK_EQ(write(told[1], &n, sizeof(n)), sizeof(n));
		CHECK_EQ(read(go[0], &x, 1), 1);
		CHECK_OK(gpu_register(fd, 0));
		p = managed(fd, len);
		cpu_fill(p, len, 3, 1);
		do {
			gpu_scale(fd, 0, p, len, 1, 1, 1);
			n = counter(fd, HUVM_SCOPE_SPACE, 0, which);
			turn++;
		} while (turn < 2 || (acts && !n && turn < 20));
		cpu_check(p, len, 3 + turn, 1);
		CHECK_EQ(write(told[1], &n, sizeof(n)), sizeof(n));
		_exit(0);
	}
	close(go[0]);
	close(told[1]);
	c.go = go[1];
	c.told = told[0];
	uint64_t n;

	CHECK_EQ(read(c.told, &n, sizeof(n)), sizeof(n));
	return c;
}

/* Nobody has a value of their own, and global ones are the default's. */
static int no_policy(void)
{
	int fd = huvm_open();

	for (uint32_t g = 0; g <= gpu_count(fd); g++) {
		ARG(huvm_preset, p, .flags = HUVM_POLICY_RESET, .scope = g ? HUVM_SCOPE_GPU : HUVM_SCOPE_GLOBAL, .gpu = g ? g - 1 : 0);

		CHECK_OK(ioctl(fd, HUVM_IOC_PRESET_SET, &p));
	}
	return fd;
}

/* Catches a switch that does not act in a scope, or acts on somebody else. */
static void switches_act_in_each_scope(void)
{
	static const struct {
		const char *name;
		uint64_t on, off;
		int counts;
		uint64_t blocks;
	} techniques[] = {
		{ "harvest_borrow", 1, 0, HUVM_CNT_SPARE_EVICTIONS },
		{ "stream_prefetch", 1, 0, HUVM_CNT_PREFETCH_BLOCKS },
		/* Without it each page faults. */
		{ "prefetch_mode", 1, 0, HUVM_CNT_PAGES_PREFETCHED, 2 },
	};
	int fd = no_policy();

	CHECK_OK(limit_chunks(fd, 0, LITTLE));
	knob(fd, 1, "harvest_lend", 1);
	for (unsigned int t = 0; t < sizeof(techniques) / sizeof(techniques[0]); t++) {
		const char *name = techniques[t].name;
		uint64_t on = techniques[t].on, off = techniques[t].off;

		for (uint32_t scope = HUVM_SCOPE_GLOBAL; scope <= HUVM_SCOPE_PROCESS; scope++) {
			struct client with, without;
			uint32_t gpu = 0;

			if (scope == HUVM_SCOPE_SPACE)
				continue;
			with = client(techniques[t].counts, techniques[t].blocks, 1);
			without = client(techniques[t].counts, techniques[t].blocks, 0);
			if (scope == HUVM_SCOPE_PROCESS)
				gpu = (uint32_t)with.pid;
			CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, name, scope == HUVM_SCOPE_GLOBAL ? on : off));
			if (scope != HUVM_SCOPE_GLOBAL)
				CHECK_OK(set_knob_of(fd, scope, gpu, name, on));
			/* The narrower scope counts. */
			CHECK_OK(set_knob_of(fd, HUVM_SCOPE_PROCESS, (uint32_t)without.pid, name, off));
			uint64_t n = tell(&with), none = tell(&without);

			printf("# %s in scope %u: %llu with, %llu without\n", name, scope, (unsigned long long)n,
			       (unsigned long long)none);
			CHECK(n > 0);
			CHECK_EQ(none, 0);
			CHECK(WITHIN(2000, set_knob_of(fd, HUVM_SCOPE_PROCESS, (uint32_t)with.pid, name, on) < 0));
			CHECK_ERR(set_knob_of(fd, HUVM_SCOPE_PROCESS, (uint32_t)with.pid, name, on), ESRCH);
			if (scope == HUVM_SCOPE_GPU) {
				ARG(huvm_preset, p, .flags = HUVM_POLICY_RESET, .scope = HUVM_SCOPE_GPU, .gpu = 0);

				CHECK_OK(ioctl(fd, HUVM_IOC_PRESET_SET, &p));
			}
		}
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, name, off));
	}
	CHECK_OK(limit_chunks(fd, 0, 0));
	close(fd);
	close(no_policy());
}

/* Those of a GPU as a whole: globally and per GPU; for a process they are refused. */
static void lending_and_pre_eviction_are_of_a_gpu(void)
{
	static const char *const names[] = { "harvest_lend", "lend_limit_percent", "lend_limit_mib", "lend_reserve_chunks",
					     "write_back", "write_back_in_flight_chunks", "pre_evict", "pre_evict_low_chunks",
					     "pre_evict_high_chunks", "pre_evict_share_percent" };
	int fd = no_policy();
	struct job j;
	uint64_t n;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, names[i], 1));
		CHECK_OK(set_knob_of(fd, HUVM_SCOPE_GPU, 1, names[i], 1));
		CHECK_ERR(set_knob(fd, HUVM_SCOPE_SPACE, names[i], 1), EOPNOTSUPP);
		CHECK_ERR(set_knob_of(fd, HUVM_SCOPE_PROCESS, (uint32_t)getpid(), names[i], 1), EOPNOTSUPP);
	}
	close(fd);
	for (int global = 0; global < 2; global++) {
		fd = no_policy();
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, "harvest_borrow", 1));
		/* Off for one where it is on for all; on for one where it is off for all. */
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, "harvest_lend", global));
		knob(fd, 1, "harvest_lend", !global);
		knob(fd, 0, "pre_evict", !global);
		CHECK_OK(set_knob(fd, HUVM_SCOPE_GLOBAL, "pre_evict", global));
		n = of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS);
		j = job_begin(0, chunk_count(fd, 0) * 3 / 2, 8);
		CHECK(global ? !lent(fd, 1) : lent(fd, 1) > 0);
		/* GPU 0 is full, so its thread acts when it looks next, or never. */
		if (global)
			give_time(200);
		else
			CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS) > n));
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_PRE_EVICTIONS) > n, !global);
		job_end(&j);
		close(fd);
	}
	close(no_policy());
}

/* Events, by type, and those of prefetch by step. */
struct seen {
	uint64_t types[16], steps[8];
};

/* Reads what there is in the stream. GPU 0 borrows, and GPU 1 lends. */
static void read_events(int fd, struct seen *s)
{
	struct huvm_event e;

	while (read(fd, &e, sizeof(e)) == sizeof(e)) {
		CHECK_EQ(e.dropped, 0);
		s->types[e.type & 15]++;
		if (e.type == HUVM_EVENT_PREFETCH) {
			CHECK(e.gpu == 0 && e.arg0 >= HUVM_PREFETCH_BEGUN && e.arg0 <= HUVM_PREFETCH_WASTED);
			s->steps[e.arg0]++;
		} else {
			CHECK_EQ(e.gpu, 1);
		}
		if (e.type == HUVM_EVENT_LEND)
			CHECK(e.arg0 == 0 && e.arg1 < chunk_count(fd, 1) && e.va % BLOCK == 0 &&
			      e.pid == (uint32_t)getpid() && e.cause == HUVM_CAUSE_EVICTION);
		if (e.type == HUVM_EVENT_WRITE_BACK)
			CHECK(e.arg0 > 0 && e.arg0 <= BLOCK && e.arg1 > 0);
	}
	CHECK_EQ(errno, EAGAIN);
}

/* Events of lending, write-back, reclaim and prefetch are in the stream, with what the counters say. */
static void events_of_each_technique(void)
{
	static const struct {
		const char *what;
		uint32_t gpu;
		int counter;
	} pairs[] = {
		{ "lent", 1, HUVM_CNT_CHUNKS_LENT },
		{ "written back", 1, HUVM_CNT_WRITE_BACKS },
		{ "reclaimed", 1, HUVM_CNT_RECLAIMS },
		{ "fetched ahead", 0, HUVM_CNT_PREFETCH_BLOCKS },
		{ "useful", 0, HUVM_CNT_PREFETCH_USEFUL },
	};
	int fd = begin(1 << 1, 0, 0), differ = 0;
	uint64_t had[5];
	struct job borrower, owner;
	struct seen seen = { 0 };
	ARG(huvm_events, on, .flags = HUVM_EVENTS_ALL, .records = 65536,
	    .mask = 1 << HUVM_EVENT_LEND | 1 << HUVM_EVENT_WRITE_BACK | 1 << HUVM_EVENT_RECLAIM | 1 << HUVM_EVENT_PREFETCH);

	for (int i = 0; i < 5; i++)
		had[i] = of_gpu(fd, pairs[i].gpu, pairs[i].counter);
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	knob(fd, 0, "stream_prefetch", 1);
	borrower = job_begin(0, chunk_count(fd, 0) * 3 / 2, 4);
	/* Until something that was fetched ahead was there in time. */
	for (int turn = 0; turn < 2 || (turn < 20 && of_gpu(fd, 0, HUVM_CNT_PREFETCH_USEFUL) == had[4]); turn++) {
		job_turn(&borrower, 1);
		read_events(fd, &seen);
	}
	CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
	owner = job_begin(1, chunk_count(fd, 1) * 7 / 8, 5);
	job_end(&owner);
	job_end(&borrower);
	all_idle(fd);
	/* A thread may count before it tells, or tell before it counts. */
	for (int n = 0; n < 200; n++) {
		uint64_t told[5];

		read_events(fd, &seen);
		told[0] = seen.types[HUVM_EVENT_LEND];
		told[1] = seen.types[HUVM_EVENT_WRITE_BACK];
		told[2] = seen.types[HUVM_EVENT_RECLAIM];
		told[3] = seen.steps[HUVM_PREFETCH_BEGUN];
		told[4] = seen.steps[HUVM_PREFETCH_USEFUL];
		differ = 0;
		for (int i = 0; i < 5; i++) {
			uint64_t counted = of_gpu(fd, pairs[i].gpu, pairs[i].counter) - had[i];

			differ |= told[i] != counted || !counted;
			if (n == 199)
				printf("# %llu %s, %llu events\n", (unsigned long long)counted, pairs[i].what,
				       (unsigned long long)told[i]);
		}
		if (!differ)
			break;
		give_time(10);
	}
	CHECK(!differ);
	printf("# %llu lent, %llu written back, %llu reclaimed; prefetch: %llu begun, %llu useful, %llu late, %llu wasted\n",
	       (unsigned long long)seen.types[HUVM_EVENT_LEND], (unsigned long long)seen.types[HUVM_EVENT_WRITE_BACK],
	       (unsigned long long)seen.types[HUVM_EVENT_RECLAIM], (unsigned long long)seen.steps[HUVM_PREFETCH_BEGUN],
	       (unsigned long long)seen.steps[HUVM_PREFETCH_USEFUL], (unsigned long long)seen.steps[HUVM_PREFETCH_LATE],
	       (unsigned long long)seen.steps[HUVM_PREFETCH_WASTED]);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "who_lends_to_whom", who_lends_to_whom, 120 },
	{ "how_long_it_takes", how_long_it_takes, 120 },
	{ "latency_is_refused", latency_is_refused },
	{ "prefetch_is_judged", prefetch_is_judged, 90 },
	{ "streams_end_with_their_scan", streams_end_with_their_scan, 120 },
	{ "switches_act_in_each_scope", switches_act_in_each_scope, 180 },
	{ "lending_and_pre_eviction_are_of_a_gpu", lending_and_pre_eviction_are_of_a_gpu, 120 },
	{ "events_of_each_technique", events_of_each_technique, 120 },
};
KTAP_MAIN(tests)
