// SPDX-License-Identifier: GPL-2.0
/*
 * Soak: rounds of a random mix, until the time is over (HUVM_SOAK_S seconds; half a minute by default, ten with HUVM_FULL=1). Clients do what the
 * matrix does, in any order, on words that each have a value of their own; meanwhile they are killed, GPUs made small, hardware
 * let misbehave, host memory made short, policies changed; between rounds the module is unloaded and loaded again. The seed
 * (HUVM_SEED) says what comes.
 *
 * Each word that a client has is made of the client, the word's place, and the version that it wrote last. Clients count what they get done;
 * one of whose threads counts nothing for STALL_S hangs, and fails the run. At the end of a round one that is in the middle of something long
 * is killed, but only once each of its threads has been seen to get on.
 *
 * Five kinds of round. Calm: whatever happens must not be seen by any client. Unbind: GPUs go and come back; launches may end, no
 * byte may be lost. Failing: memory of GPUs fails, a page now and then, or is only said to, and copy engines stand still until the driver
 * gives them up; a page that was nowhere else may be lost, which raises SIGBUS: one for each page of memory that failed. Stuck: a GPU no
 * longer does as told, and is given up, with what it alone had; it is back when the module is. Gone, the last one: a GPU is gone from the bus
 * for good. In these two a client that has nothing to do with that GPU may notice nothing. A wrong byte is a failure in all of them.
 */
#define _GNU_SOURCE
#include "matrix_actions.h"
#include "matrix_dims.h"

#define CLIENTS		4
#define ROUND_S		20u
/* What clients have to end what they are at (s). */
#define END_S		10
/* Mappings for DMA that are made to fail at a time. Who touches a page that needs one has SIGBUS, and then one fails less. */
#define SHORT		40
/* What a copy engine stands still: longer than the driver waits for it. */
#define HANG_S		13
/* In a calm round a copy is on its way for so long (ms): less than the driver waits for it. */
#define ON_ITS_WAY_MS	1500
/* Pages that fail in a round, or are said to. Each costs a GPU of 32 chunks one of them, until the module is loaded again. */
#define POISON		6u
/* A thread that has counted nothing for so long (s, scaled) hangs: a copy that the driver gives up has 12 s, and a launch may meet two. */
#define STALL_S		30u
/* What a thread does that has ended. */
static const char ended[] = "nothing more";

enum kind { CALM, UNBIND, FAILING, STUCK, GONE, STANDS };
static const char *const kinds[] = { "calm", "unbind", "failing", "stuck", "gone", "stands" };

/* What the processes share. */
static struct shared {
	uint64_t verified;
	volatile int stop;
	volatile int may_lose;	/* a GPU died, or its memory: pages may be lost, but of who has nothing to do with it */
	struct slot {
		volatile uint64_t progress[2];
		volatile int threads;
		uint64_t operations, lost_pages, broken_launches;
		const char *volatile doing[2];
	} slot[CLIENTS];
} *shared;

static uint64_t rng;
static uint64_t dice(uint64_t sides) { return next_random(&rng) % sides; }

/* ---- clients ---- */

static void random_shapes(struct client *c)
{
	c->shapes = (struct shapes){ 0 };
	patterns[next_random(&c->rng) % NPATTERNS].make(&c->shapes, c->len);
}

static void client_key(struct client *c, uint64_t seed)
{
	c->rng = seed;
	c->key = 0;
	while (!c->key)
		c->key = next_random(&c->rng) << 33 | next_random(&c->rng) << 2;
}

/* Anything of the matrix that goes with many clients on a small GPU. */
static const struct action *random_action(struct client *c, int threads)
{
	for (;;) {
		const struct action *a = &actions[next_random(&c->rng) % NACTIONS];
		unsigned int not = ALL_AT_ONCE | (threads ? NO_THREADS | NEEDS_OWN_FILE : 0);

		if (a->run != closed && !(a->needs & not) && !((a->needs & NEEDS_TWO_GPUS) && c->ngpu < 2))
			return a;
	}
}

/* Pages that could be taken for each other: mapped anew by an action, they began as zeroes. */
static int has_twins(const struct client *c)
{
	const uint64_t *one = c->copy + PAGE_WORDS / 2 + 3, pages = c->len / PAGE;

	for (uint64_t a = 0; a < pages; a++)
		for (uint64_t b = 0; b < a; b++)
			if (one[a * PAGE_WORDS] == one[b * PAGE_WORDS])
				return 1;
	return 0;
}

struct worker {
	struct client c;
	struct slot *slot;
	int number, threads;
	pthread_t id;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	progress = &w->slot->progress[w->number];
	client_range(&w->c, (1 + next_random(&w->c.rng) % 3) * BLOCK);
	while (!shared->stop) {
		const struct action *a = random_action(&w->c, w->threads);

		if (has_twins(&w->c)) {
			w->slot->doing[w->number] = "writing all";
			if (next_random(&w->c.rng) & 1)
				cpu_write_all(&w->c);
			else
				gpu_write_all(&w->c);
		}
		w->slot->doing[w->number] = a->name;
		random_shapes(&w->c);
		a->run(&w->c);
		cpu_check_all(&w->c);
		__atomic_add_fetch(&w->slot->operations, 1, __ATOMIC_RELAXED);
	}
	w->slot->doing[w->number] = "its end";
	CHECK_OK(munmap(w->c.p, w->c.len));
	w->slot->doing[w->number] = ended;
	++*progress;
	return NULL;
}

/* A process: one worker, or two threads of one space. It has nothing to do with @but, if that is a GPU. */
static void run_calm(struct slot *slot, uint64_t seed, uint32_t ngpu, uint32_t but)
{
	uint32_t gpus[HUVM_MAX_GPUS], n = 0;
	static struct worker w[2];
	int fd = huvm_open(), threads;

	client_key(&w[0].c, seed);
	client_key(&w[1].c, seed + 1000003);
	threads = 1 + (int)(next_random(&w[0].c.rng) & 1);
	slot->threads = threads;
	for (uint32_t g = 0; g < ngpu; g++)
		if (g != but)
			gpus[n++] = g;
	for (int i = 0; i < threads; i++) {
		w[i].c.fd = fd;
		w[i].slot = slot;
		w[i].number = i;
		w[i].threads = threads > 1;
		w[i].c.alone = threads == 1;
		w[i].c.ngpu = 1 + (uint32_t)(next_random(&w[i].c.rng) % n);
		for (uint32_t g = 0; g < n; g++)
			w[i].c.gpus[g] = gpus[(g + (uint32_t)i) % n];
	}
	for (uint32_t g = 0; g < n; g++)
		CHECK_OK(gpu_register(fd, gpus[g]));
	/* What a GPU lent goes with it. */
	if (n < ngpu)
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 0));
	else if (next_random(&w[0].c.rng) & 1)
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	for (int i = 1; i < threads; i++)
		CHECK_EQ(pthread_create(&w[i].id, NULL, work, &w[i]), 0);
	work(&w[0]);
	for (int i = 1; i < threads; i++)
		CHECK_EQ(pthread_join(w[i].id, NULL), 0);
	if (next_random(&w[0].c.rng) & 1)
		CHECK_OK(close(fd));
}

static int read_word(const volatile char *p, uint64_t *got)
{
	if (sigsetjmp(touch_failed, 1)) {
		touching = 0;
		return 0;
	}
	touching = 1;
	*got = *(const volatile uint64_t *)p;
	touching = 0;
	return 1;
}

/* A new version of a page that has nothing in it, and is nowhere yet: it cannot be lost. */
static void fill_page(struct client *c, uint64_t page)
{
	volatile uint64_t *p = (uint64_t *)c->p;
	volatile int tries = 0;

	c->step++;
	if (sigsetjmp(touch_failed, 1)) {
		touching = 0;
		if (++tries > SHORT)
			FAIL("page %llu of the range at %p is new and cannot be written", (unsigned long long)(page / PAGE), (void *)c->p);
	}
	touching = 1;
	for (uint64_t w = page / 8; w < (page + PAGE) / 8; w++)
		p[w] = word_value(c, w, c->step);
	touching = 0;
	for (uint64_t w = page / 8; w < (page + PAGE) / 8; w++)
		c->copy[w] = word_value(c, w, c->step);
	++*progress;
}

/* What a step makes of a word: a new version, or something of what it was. */
static uint64_t after_step(const struct client *c, uint64_t w, uint32_t op)
{
	return op == HUVM_OP_FILL ? word_value(c, w, c->step) : 3 * c->copy[w] + STEP_STEP;
}

/*
 * After a step (@op) over @broken was broken off: each page is looked at. A word of the shape may be as before or as after; a page may be
 * lost if a GPU died, and is then mapped anew and written anew.
 */
static void take_stock(struct client *c, struct slot *slot, const struct shape *broken, uint32_t op)
{
	uint64_t *after = mmap(NULL, c->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(after != MAP_FAILED);
	memcpy(after, c->copy, c->len);
	if (broken)
		EACH_WORD(broken, w)
			after[w] = after_step(c, w, op);
	for (uint64_t page = 0; page < c->len; page += PAGE) {
		int sig = touch(c->p + page, 0);

		for (int i = 0; i < SHORT && sig == SIGBUS && !shared->may_lose; i++)
			sig = touch(c->p + page, 0);
		if (sig) {
			if (sig != SIGBUS || !shared->may_lose)
				FAIL("page %llu of the range at %p raises signal %d", (unsigned long long)(page / PAGE),
				     (void *)c->p, sig);
			__atomic_add_fetch(&slot->lost_pages, 1, __ATOMIC_RELAXED);
			CHECK(mmap(c->p + page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + page);
			fill_page(c, page);
			continue;
		}
		for (uint64_t w = page / 8; w < (page + PAGE) / 8; w++) {
			uint64_t got;

			/* It may have gone to a GPU that died since it was touched. */
			if (!read_word(c->p + w * 8, &got)) {
				page -= PAGE;
				break;
			}
			if (got == after[w])
				c->copy[w] = got;
			else if (got != c->copy[w])
				wrong_word(c, w, got, "after something was broken off, the CPU");
		}
		count_verified(PAGE);
	}
	CHECK_OK(munmap(after, c->len));
}

static void copy_step(struct client *c, const struct shape *s, uint32_t op)
{
	EACH_WORD(s, w)
		c->copy[w] = after_step(c, w, op);
}

/* A step of a GPU over the words of a shape. 0: it was made, and nothing is in doubt. */
static int try_gpu(struct client *c, uint32_t gpu, const struct shape *s, uint32_t op)
{
	struct huvm_instr in = program(op, s);
	ARG(huvm_launch, l, .gpu = gpu, .blocks = s->blocks, .iterations = 1, .elem_bytes = 8, .nr_instr = 1,
	    .instrs = (uintptr_t)&in);
	ARG(huvm_wait, w, .timeout_ns = launch_limit_ns());

	if (op == HUVM_OP_FILL)
		of_write(c, s, &in);
	else
		of_change(c, s, &in);
	if (ioctl(c->fd, HUVM_IOC_LAUNCH, &l) < 0) {
		CHECK(errno == EIO || errno == ENODEV || errno == ENOENT);
		return -1;
	}
	w.launch = l.launch;
	if (ioctl(c->fd, HUVM_IOC_WAIT, &w) < 0) {
		/* Taken away with its GPU. */
		CHECK_EQ(errno, ENOENT);
		return -1;
	}
	++*progress;
	if (w.status != HUVM_LAUNCH_DONE)
		return -1;
	copy_step(c, s, op);
	return 0;
}

static int try_cpu(struct client *c, const struct shape *s, uint32_t op)
{
	volatile uint64_t *p = (uint64_t *)c->p;

	if (sigsetjmp(touch_failed, 1)) {
		touching = 0;
		return -1;
	}
	touching = 1;
	EACH_WORD(s, w)
		p[w] = op == HUVM_OP_FILL ? word_value(c, w, c->step) : 3 * p[w] + STEP_STEP;
	touching = 0;
	copy_step(c, s, op);
	return 0;
}

/* Where GPUs go. One that is gone is tried again each time: it may be back. */
static void run_tolerant(struct slot *slot, uint64_t seed, uint32_t ngpu)
{
	struct client c = { .fd = huvm_open(), .alone = 1 };

	client_key(&c, seed);
	progress = &slot->progress[0];
	slot->threads = 1;
	client_range(&c, (1 + next_random(&c.rng) % 4) * BLOCK);
	for (uint64_t page = 0; page < c.len; page += PAGE)
		fill_page(&c, page);
	if (next_random(&c.rng) & 1)
		set_knob(c.fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1);
	while (!shared->stop) {
		uint32_t gpu = (uint32_t)(next_random(&c.rng) % ngpu);
		uint64_t what = next_random(&c.rng) % 8;
		uint32_t op = next_random(&c.rng) % 3 ? HUVM_OP_SCALE : HUVM_OP_FILL;
		const struct shape *s;

		random_shapes(&c);
		s = &c.shapes.s[0];
		c.shapes.s[0].iterations = 1;
		++*progress;
		__atomic_add_fetch(&slot->operations, 1, __ATOMIC_RELAXED);
		c.step++;
		if (gpu_register(c.fd, gpu) < 0)
			CHECK(errno == EEXIST || errno == EIO || errno == ENODEV);
		slot->doing[0] = what < 4 ? "a launch" : what < 6 ? "a CPU's turn" : "a move";
		if (what < 4) {
			if (try_gpu(&c, gpu, s, op) < 0) {
				__atomic_add_fetch(&slot->broken_launches, 1, __ATOMIC_RELAXED);
				take_stock(&c, slot, s, op);
			}
		} else if (what < 6) {
			if (try_cpu(&c, s, op) < 0)
				take_stock(&c, slot, s, op);
		} else if (what == 6) {
			if (migrate(c.fd, c.p, c.len, next_random(&c.rng) & 1 ? gpu : HUVM_PLACE_HOST) < 0)
				CHECK(errno == EIO || errno == ENODEV || errno == ENOENT || errno == ENOMEM);
		} else {
			slot->doing[0] = "looking at all";
			take_stock(&c, slot, NULL, 0);
		}
	}
	slot->doing[0] = "its end";
	take_stock(&c, slot, NULL, 0);
	CHECK_OK(munmap(c.p, c.len));
	slot->doing[0] = ended;
	++*progress;
}

/* What must be found: one thread gets on, the other never does, whatever the one that waits for it may say. */
static void run_one_thread_stands(struct slot *slot)
{
	slot->threads = 2;
	for (;;) {
		slot->progress[0]++;
		usleep(1000);
	}
}

/* ---- the supervisor ---- */

static int ctl = -1;
static pid_t pids[CLIENTS];
static struct { uint64_t seen[2], at_stop[2]; double since[2]; int killed; } watch[CLIENTS];
static uint32_t gpus;
/* The GPU that dies in a round in which one does. */
static uint32_t dying;
/* What a thread may take without counting (s), and the longest that one took; what clients have to end. */
static double stall_s, longest_s, end_s;

static struct {
	uint64_t rounds, started, killed, reloads, unbinds, injections, pressure, policies, limits, evictions, short_host, poisoned, reported, heard, hangs,
		on_their_way, stuck, gone;
	uint64_t faults, evicted, launches;
} did;

static void start(int i, enum kind kind)
{
	uint64_t seed = next_random(&rng);

	memset((void *)&shared->slot[i].progress, 0, sizeof(shared->slot[i].progress));
	shared->slot[i].doing[0] = shared->slot[i].doing[1] = "its start";
	shared->slot[i].threads = 1;
	memset(&watch[i], 0, sizeof(watch[i]));
	watch[i].since[0] = watch[i].since[1] = seconds();
	fflush(stdout);
	/* Not longer than who looks after it. */
	pids[i] = fork_child();
	CHECK(pids[i] >= 0);
	if (!pids[i]) {
		close(ctl);
		catch_touches();
		if (kind == CALM)
			run_calm(&shared->slot[i], seed, gpus, gpus);
		else if ((kind == STUCK || kind == GONE) && !i && gpus > 1)
			run_calm(&shared->slot[i], seed, gpus, dying);
		else if (kind == STANDS)
			run_one_thread_stands(&shared->slot[i]);
		else
			run_tolerant(&shared->slot[i], seed, gpus);
		fflush(stdout);
		_exit(0);
	}
	did.started++;
}

static void show(const char *what)
{
	char cmd[200];

	printf("# %s\n", what);
	fflush(stdout);
	snprintf(cmd, sizeof(cmd), "%s 2>&1 | head -60 | sed 's/^/#   /'", what);
	if (system(cmd))
		printf("# (nothing)\n");
}

/* Who waits, and for what. */
static void stalled(int i, int thread)
{
	char cmd[160];

	printf("# client %d (pid %d), thread %d: no progress for %.0f s, in %s\n", i, pids[i], thread,
	       seconds() - watch[i].since[thread], shared->slot[i].doing[thread]);
	snprintf(cmd, sizeof(cmd), "for t in /proc/%d/task/*; do echo $t; cat $t/stack $t/wchan; echo; done", pids[i]);
	show(cmd);
	show("cat /sys/kernel/debug/huvm/spaces");
	show("cat /sys/kernel/debug/huvm/chunks");
	show("cat /sys/kernel/debug/huvm/blocks");
	FAIL("client %d is stalled", i);
}

/* Clients get on, and none has ended by itself (`over`: they may). Returns how many are left. */
static int look(int over)
{
	int left = 0;

	for (int i = 0; i < CLIENTS; i++) {
		int status;

		if (!pids[i])
			continue;
		if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
			int by_us = watch[i].killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

			if (!by_us && (status || !(over || watch[i].killed)))
				FAIL("client %d ended with status %#x in %s / %s", i, status, shared->slot[i].doing[0],
				     shared->slot[i].doing[1]);
			pids[i] = 0;
			continue;
		}
		left++;
		for (int t = 0; t < shared->slot[i].threads; t++) {
			uint64_t now = shared->slot[i].progress[t];
			double stood = seconds() - watch[i].since[t];
			int waits = shared->slot[i].threads == 2 && shared->slot[i].doing[t] == ended && shared->slot[i].doing[1 - t] != ended;

			/* A thread that has ended waits for the other one; that for nobody. */
			if (waits || now != watch[i].seen[t]) {
				watch[i].seen[t] = now;
				watch[i].since[t] = seconds();
				continue;
			}
			longest_s = stood > longest_s ? stood : longest_s;
			if (stood > stall_s)
				stalled(i, t);
		}
	}
	return left;
}

/* Each of its threads has got on since the round was over. */
static int gets_on(int i)
{
	for (int t = 0; t < shared->slot[i].threads; t++)
		if (shared->slot[i].doing[t] != ended && shared->slot[i].progress[t] == watch[i].at_stop[t])
			return 0;
	return 1;
}

static void end_client(int i)
{
	CHECK_OK(kill(pids[i], SIGKILL));
	watch[i].killed = 1;
	watch[i].since[0] = watch[i].since[1] = seconds();
	did.killed++;
}

/* What hardware does that no client may see. */
static void inject(uint32_t gpu)
{
	static const struct { uint32_t reg, most, least; } of[] = {
		{ INJ_VALID_DELAY, 200000, 0 }, { INJ_REORDER, 600, 0 }, { INJ_DUPLICATE, 600, 0 }, { INJ_OVERFLOW, 5, 1 },
		{ INJ_CE_FAULT, 6, 1 }, { INJ_DROP_INTR, 4, 1 }, { INJ_NEG_TLB, 2, 0 }, { INJ_LATENCY, 30000, 0 },
		{ INJ_LINK_DOWN, 4, 0 },
	};
	unsigned int n = (unsigned int)dice(sizeof(of) / sizeof(of[0]));

	test_reg(ctl, gpu, of[n].reg, of[n].least + (uint32_t)dice(of[n].most - of[n].least));
	did.injections++;
}

/* The first piece of a copy takes long to arrive, and its engine does nothing else. */
static void hold_a_copy(uint32_t gpu)
{
	test_reg(ctl, gpu, INJ_CE_STALL, 1 + (uint32_t)dice(4));
	usleep((useconds_t)dice(ON_ITS_WAY_MS) * 1000);
	did.on_their_way += !read_reg(ctl, gpu, INJ_CE_STALL);
	test_reg(ctl, gpu, INJ_CE_STALL, 0);
}

static void no_injection(uint32_t gpu)
{
	static const uint32_t of[][2] = { { INJ_VALID_DELAY, 200 }, { INJ_REORDER, 50 }, { INJ_DUPLICATE, 50 }, { INJ_OVERFLOW, 0 },
					  { INJ_CE_FAULT, 0 }, { INJ_DROP_INTR, 0 }, { INJ_NEG_TLB, 1 }, { INJ_LATENCY, 0 },
					  { INJ_LINK_DOWN, 0 } };

	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		test_reg(ctl, gpu, of[i][0], of[i][1]);
}

static void new_policy(void)
{
	const struct policy *p;

	do
		p = &policies[dice(NPOLICIES)];
	while (!strcmp(p->name, "evict-off"));
	CHECK_OK(set_policy(ctl, p));
	for (uint32_t g = 0; g < gpus; g++) {
		knob(ctl, g, "harvest_lend", dice(2));
		knob(ctl, g, "fair_memory", dice(2));
		knob(ctl, g, "keep_host_copy", dice(2));
		knob(ctl, g, "return_whole", dice(2));
		knob(ctl, g, "fetch_whole", dice(2));
		knob(ctl, g, "evict_by_reuse", dice(2));
		knob(ctl, g, "prefetch_apart", dice(2));
	}
	did.policies++;
}

/* The first two have something in their place; of the others a client may hear. */
static void short_of_host(enum kind kind)
{
	static const uint32_t what[] = { HUVM_FAIL_HOST_2M, HUVM_FAIL_HOST_64K, HUVM_FAIL_DMA_MAP, HUVM_FAIL_SUBMIT, HUVM_FAIL_HOST_4K };
	uint32_t which = what[dice(kind == CALM ? 2 : sizeof(what) / sizeof(what[0]))];

	let_fail(ctl, which, (uint32_t)(1 + dice(SHORT)));
	did.short_host++;
}

static void nothing_is_short(void)
{
	for (uint32_t what = HUVM_FAIL_HOST_2M; what <= HUVM_FAIL_HOST_4K; what++)
		let_fail(ctl, what, 0);
}

static void press(void)
{
	uint64_t len = (16 + dice(64)) * MIB;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED) {
		for (uint64_t at = 0; at < len; at += PAGE)
			p[at] = 1;
		munmap(p, len);
	}
	write_file("/proc/sys/vm/drop_caches", "3");
	if (!dice(4))
		write_file("/proc/sys/vm/compact_memory", "1");
	did.pressure++;
}

/* Hardware that fails: a page of memory for good, or an engine until the driver has given it up. */
static void fail_hardware(uint32_t gpu)
{
	static uint64_t round, poisoned;
	double over = seconds() + HANG_S;

	if (round != did.rounds) {
		round = did.rounds;
		poisoned = 0;
	}
	if (dice(4) && poisoned < POISON) {
		uint64_t pages = chunk_count(ctl, gpu) * (BLOCK / PAGE);

		poisoned++;
		if (dice(4)) {
			test_reg(ctl, gpu, INJ_ECC_POISON, (uint32_t)dice(pages));
			did.poisoned++;
		} else {
			/* A report of a page that is well, or that there is not: heard when another one fails. */
			test_reg(ctl, gpu, INJ_ECC_REPORT, (uint32_t)dice(2 * pages));
			did.reported++;
		}
		return;
	}
	test_reg(ctl, gpu, INJ_CE_HANG, 1 + (uint32_t)dice(20));
	did.hangs++;
	while (seconds() < over) {
		usleep(200000);
		look(0);
	}
	test_reg(ctl, gpu, INJ_CE_HANG, 0);
}

static void event(enum kind kind)
{
	uint32_t gpu = (uint32_t)dice(gpus);
	char name[HUVM_NAME_LEN];

	if (kind == GONE || kind == STUCK) {
		new_policy();
		return;
	}
	switch (dice(kind == CALM ? 8 : kind == UNBIND ? 9 : 16)) {
	case 0:
		if (limit_chunks(ctl, gpu, dice(4) ? 6 + (uint32_t)dice(12) : 0) < 0)
			CHECK(errno == EAGAIN || errno == EBUSY || errno == ENOMEM || errno == EINTR);
		did.limits++;
		break;
	case 1: {
		ARG(huvm_test_evict, e, .gpu = gpu, .chunks = 1 + (uint32_t)dice(8));

		if (ioctl(ctl, HUVM_IOC_TEST_EVICT, &e) == 0)
			did.evictions += e.evicted;
		break;
	}
	case 2:
	case 3:
		if (kind == CALM && dice(8))
			inject(gpu);
		else if (kind == CALM)
			hold_a_copy(gpu);
		break;
	case 4:
		short_of_host(kind);
		break;
	case 5:
		new_policy();
		break;
	case 6:
		press();
		break;
	case 7: {
		int i = (int)dice(CLIENTS);

		if (pids[i]) {
			end_client(i);
			while (look(0), pids[i])
				usleep(10000);
			start(i, kind);
		}
		break;
	}
	default:
		if (kind == FAILING) {
			fail_hardware(gpu);
			break;
		}
		pci_name(ctl, gpu, name);
		CHECK_OK(write_file(DRIVER "unbind", name));
		usleep((useconds_t)dice(200000));
		/* A GPU whose copies fail as it is tried is not taken (unbind/probe_fails_anywhere). */
		nothing_is_short();
		CHECK_OK(write_file(DRIVER "bind", name));
		did.unbinds++;
	}
}

/* Clients end what they are at; one that gets on, but is at something long, is killed, as others are. */
static void end_round(void)
{
	double over = seconds() + end_s;

	for (int i = 0; i < CLIENTS; i++)
		for (int t = 0; t < 2; t++)
			watch[i].at_stop[t] = shared->slot[i].progress[t];
	shared->stop = 1;
	while (look(1)) {
		usleep(50000);
		for (int i = 0; seconds() > over && i < CLIENTS; i++)
			if (pids[i] && !watch[i].killed && gets_on(i))
				end_client(i);
	}
}

/* A GPU dies: it acknowledges no command or does not let go of a copy, or it is gone for good. */
static void dies(uint32_t gpu, enum kind how)
{
	if (how == GONE) {
		test_reg(ctl, gpu, INJ_GONE, 0xdead);
		did.gone++;
		return;
	}
	test_reg(ctl, gpu, dice(2) ? INJ_COMMAND_HANG : INJ_CE_STALL, 1 + (uint32_t)dice(20));
	did.stuck++;
}

static uint64_t pages_lost(void)
{
	uint64_t n = 0;

	for (int i = 0; i < CLIENTS; i++)
		n += shared->slot[i].lost_pages;
	return n;
}

static void round_of(enum kind kind, double until)
{
	const uint64_t lost = pages_lost(), poisoned = did.poisoned, short_host = did.short_host;
	int n = 2 + (int)dice(CLIENTS - 1), died = 0;
	double begun = seconds();

	dying = (uint32_t)dice(gpus);
	shared->stop = 0;
	shared->may_lose = kind == FAILING;
	new_policy();
	for (int i = 0; i < n; i++)
		start(i, kind);
	while (seconds() < until) {
		usleep((useconds_t)(100000 + dice(600000)));
		look(0);
		if ((kind == GONE || kind == STUCK) && !died && seconds() > begun + (until - begun) / 3) {
			shared->may_lose = died = 1;
			dies(dying, kind);
		} else {
			event(kind);
		}
	}
	end_round();
	for (uint32_t g = 0; g < gpus; g++) {
		if (kind == GONE && g == dying)
			continue;
		no_injection(g);
		test_reg(ctl, g, INJ_COMMAND_HANG, 0);
		test_reg(ctl, g, INJ_CE_STALL, 0);
		test_reg(ctl, g, INJ_ECC_POISON, ~0u);
		if (gpu_state(ctl, g) == HUVM_GPU_LOST)
			CHECK(died && g == dying);
		else
			CHECK_OK(limit_chunks(ctl, g, 0));
		knob(ctl, g, "harvest_lend", 0);
	}
	nothing_is_short();
	/* Nothing is left. What a dead GPU had is nobody's. */
	for (uint32_t g = 0; g < gpus; g++)
		if (!died || g != dying)
			gets_idle(ctl, g);
	if (!WITHIN(5000, client_count(ctl) == 1))
		FAIL("%d clients are left", client_count(ctl) - 1);
	/*
	 * An engine that stands costs none, but where there is no memory to rescue what it was copying; and the CPU, which copies in its place
	 * then, leaves out what is only said to have failed. Reports that nobody heard outlast the module.
	 */
	if (kind == FAILING && did.short_host == short_host) {
		uint64_t gone = pages_lost() - lost, failed = did.poisoned - poisoned;

		if (gone > failed + did.reported - did.heard)
			FAIL("%llu pages are lost, and of %llu it was said that they failed", (unsigned long long)gone,
			     (unsigned long long)(failed + did.reported - did.heard));
		did.heard += gone > failed ? gone - failed : 0;
	}
	did.faults += counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_FAULTS_SERVED);
	did.evicted += counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_EVICTIONS);
	did.launches += counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_LAUNCHES);
	did.rounds++;
	printf("# round %llu (%s): %d clients, %.0f s, %llu pages lost, %llu MiB compared so far\n", (unsigned long long)did.rounds,
	       kinds[kind], n, seconds() - begun, (unsigned long long)(pages_lost() - lost), (unsigned long long)(shared->verified >> 20));
}

/* The module goes and comes: counters begin anew. */
static void reload(void)
{
	close(ctl);
	if (system("rmmod huvm"))
		FAIL("the module does not go");
	if (system("insmod /lib/huvm.ko test=1"))
		FAIL("the module does not come");
	ctl = huvm_open();
	CHECK_EQ(gpu_count(ctl), gpus);
	did.reloads++;
}

static int length(const char *s)
{
	const char *full = getenv("HUVM_FULL");

	return s && atoi(s) > 0 ? atoi(s) : full && atoi(full) ? 600 : 30;
}

static void begin(void)
{
	const char *seed = getenv("HUVM_SEED");

	rng = (seed ? strtoull(seed, NULL, 0) : 1) * 2654435761u + 1;
	stall_s = STALL_S * time_scale();
	end_s = END_S;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	verified = &shared->verified;
	ctl = huvm_open();
	gpus = gpu_count(ctl);
}

/* A round with a client that does @kind, and is @stopped in the middle of it, fails, and says that @thread of it stands. */
static void is_found(enum kind kind, int stopped, int thread)
{
	static char said[1 << 17];
	char line[64];
	int out[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	CHECK_OK(pipe(out));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK_EQ(dup2(out[1], 1), 1);
		close(out[1]);
		end_s = 0.5;
		stall_s = 2;
		shared->stop = 0;
		start(0, kind);
		CHECK(WITHIN(20000, shared->slot[0].progress[0] > 3 &&
				    (kind == STANDS || shared->slot[0].threads == 1 || shared->slot[0].progress[1])));
		if (stopped) {
			CHECK_OK(kill(pids[0], SIGSTOP));
			give_time(50);
		}
		end_round();
		_exit(KTAP_PASS);
	}
	close(out[1]);
	/* Until the client is gone too. */
	while (n < sizeof(said) - 1 && (got = read(out[0], said + n, sizeof(said) - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = 0;
	close(out[0]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	snprintf(line, sizeof(line), "thread %d: no progress for ", thread);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != KTAP_FAIL || !strstr(said, line) || !strstr(said, "client 0 is stalled"))
		FAIL("a client that stands was not found (status %#x): %s", status, said);
}

/* The watch over clients finds a thread that never begins, and a client that is in the middle of something when its round is over. */
static void who_stands_is_found(void)
{
	begin();
	is_found(STANDS, 0, 1);
	is_found(CALM, 1, 0);
	is_found(UNBIND, 1, 0);
	CHECK(WITHIN(5000, client_count(ctl) == 1));
}

static void soak(void)
{
	static const enum kind order[] = { CALM, STUCK, UNBIND, FAILING, CALM, CALM };
	const char *s = getenv("HUVM_SOAK_S");
	double from = seconds(), until = from + length(s), left;
	uint64_t operations = 0, broken = 0, first;

	begin();
	/* A short soak is one round and the last. */
	first = dice(6);
	while ((left = until - seconds()) >= ROUND_S * 1.25) {
		round_of(order[(first + did.rounds) % 6], seconds() + ROUND_S);
		reload();
	}
	/* What is gone does not come back, so it goes last. */
	round_of(GONE, seconds() + (left > ROUND_S / 2 ? left : ROUND_S / 2));
	for (int i = 0; i < CLIENTS; i++) {
		operations += shared->slot[i].operations;
		broken += shared->slot[i].broken_launches;
	}
#define N(x) (unsigned long long)(x)
	printf("# report: %.0f s, %llu rounds, %llu clients, %llu killed, %llu times unloaded and loaded; longest without progress %.0f s of %.0f\n",
	       seconds() - from, N(did.rounds), N(did.started), N(did.killed), N(did.reloads), longest_s, stall_s);
	printf("# report: %llu operations, %llu launches, %llu faults served, %llu evictions, %llu bytes verified (%llu MiB), wrong: 0\n",
	       N(operations), N(did.launches), N(did.faults), N(did.evicted), N(shared->verified), N(shared->verified >> 20));
	printf("# report: survived: %llu injections that nobody may notice, %llu copies held, %llu GPUs unbound, %llu pages of memory that failed, "
	       "%llu said to, %llu copy engines given up, %llu GPUs stuck, %llu gone\n",
	       N(did.injections), N(did.on_their_way), N(did.unbinds), N(did.poisoned), N(did.reported), N(did.hangs), N(did.stuck),
	       N(did.gone));
	printf("# report: %llu times host memory short, %llu times under pressure, %llu limits, %llu policies; "
	       "%llu launches broken off, %llu pages lost with what failed\n",
	       N(did.short_host), N(did.pressure), N(did.limits), N(did.policies), N(broken), N(pages_lost()));
	/* Each with a chance of less than one in a million to be missing from an hour. */
	if (length(s) >= 3600)
		CHECK(did.killed && did.reloads && did.injections && did.on_their_way && did.unbinds && did.poisoned && did.reported &&
		      did.hangs && did.stuck && did.gone && did.short_host && did.pressure && did.limits && did.evicted && broken);
}

int main(int argc, char **argv)
{
	const char *s = getenv("HUVM_SOAK_S");
	/* The limit is scaled by the harness; the time is not. */
	struct ktap_test tests[] = {
		{ "who_stands_is_found", who_stands_is_found }, { "soak", soak, 300 + (unsigned int)length(s) },
	};

	return ktap_run(tests, 2, argc, argv);
}
