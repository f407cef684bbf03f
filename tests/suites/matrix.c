// SPDX-License-Identifier: GPL-2.0
/*
 * The matrix: access mode × words touched × who and how many × policy. A case has a number and a name, such as
 * gpu-write/stride/two-gpus/memharvester; every word that it touched, and that it did not touch, is checked, and after it no
 * chunk may be in use.
 *
 * matrix [NofM]: the cases of this slice: a tenth of all, drawn by the seed from the quick ones, or all with HUVM_FULL=1.
 * matrix NAME…: these. matrix list: all names.
 */
#define _GNU_SOURCE
#include "matrix_actions.h"
#include "matrix_dims.h"

#define CASE_LIMIT_S	40u

/* Of 2 MiB each: a client's range, and a GPU's memory where it is made small. */
#define SOME		2u
#define MANY		4u
#define SMALL_GPU	3u
/* For two clients whose every piece of work may want two blocks. */
#define SMALL_FOR_TWO	4u

/* ---- who and how many ---- */

enum who { ONE, THREADS, SHARED_SPACE, PROCESSES };

static const struct setting {
	const char *name;
	enum who who;
	uint32_t gpus;		/* of each client */
	uint32_t blocks;	/* of each client's range */
	uint32_t chunks;	/* that the first GPU has, 0: all */
	int borrows;		/* the first GPU's clients; the second lends */
	int both;		/* the second client's first GPU is the second, which is small and borrows as well */
} settings[] = {
	{ "one-gpu", ONE, 1, SOME },
	{ "two-gpus", ONE, 2, SOME },
	{ "oversubscribed", ONE, 1, MANY, SMALL_GPU },
	{ "two-gpus-oversubscribed", ONE, 2, MANY, SMALL_GPU, 0, 1 },
	{ "harvest", ONE, 1, MANY, SMALL_GPU, 1 },
	{ "harvest-both", PROCESSES, 1, MANY, SMALL_GPU, 1, 1 },
	{ "threads", THREADS, 1, 1 },
	{ "shared-space", SHARED_SPACE, 1, 1, 0, 0, 1 },
	{ "processes", PROCESSES, 1, SOME, SMALL_GPU },
	/* All on the first GPU: six blocks where four have room. */
	{ "threads-oversubscribed", THREADS, 1, 3, SMALL_FOR_TWO },
	{ "shared-space-oversubscribed", SHARED_SPACE, 1, 3, SMALL_FOR_TWO },
};
#define NSETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))

/* ---- the cases ---- */

struct test_case {
	int action, pattern, setting, policy;
};

/* Of the many combinations those are taken whose weighted numbers add up to a multiple of this. */
#define THINNING 59
#define CASES_MAX 6000

static struct test_case cases[CASES_MAX];
static int ncases;

static int goes_together(const struct test_case *c)
{
	const struct action *a = &actions[c->action];
	const struct setting *s = &settings[c->setting];

	if ((a->needs & NEEDS_TWO_GPUS) && s->gpus < 2)
		return 0;
	if ((a->needs & NEEDS_OWN_FILE) && s->who == SHARED_SPACE)
		return 0;
	if ((a->needs & NO_THREADS) && (s->who == THREADS || s->who == SHARED_SPACE))
		return 0;
	/* A piece of work runs when all of its pages are there: with less memory than these it never does. */
	if ((a->needs & ALL_AT_ONCE) && s->chunks)
		return 0;
	/* With eviction off, what does not fit fails its client. */
	if (!strcmp(policies[c->policy].name, "evict-off") && s->chunks)
		return 0;
	return 1;
}

/* Which of the two dimensions' values met, for each of the six pairs of dimensions. */
static unsigned char met[6][64][64];

static unsigned char *meeting(const struct test_case *c, int kind)
{
	switch (kind) {
	case 0: return &met[0][c->action][c->pattern];
	case 1: return &met[1][c->action][c->setting];
	case 2: return &met[2][c->action][c->policy];
	case 3: return &met[3][c->pattern][c->setting];
	case 4: return &met[4][c->pattern][c->policy];
	default: return &met[5][c->setting][c->policy];
	}
}

#define EACH_CASE(c) \
	for (struct test_case c = { 0 }; c.policy < NPOLICIES; c.policy++) \
		for (c.setting = 0; c.setting < NSETTINGS; c.setting++) \
			for (c.action = 0; c.action < NACTIONS; c.action++) \
				for (c.pattern = 0; c.pattern < NPATTERNS; c.pattern++) \
					if (goes_together(&c))

/* Evenly spread ones; and where two values that go together would not meet in any, the first case that has both. */
static void enumerate(void)
{
	static unsigned char taken[NPOLICIES][NSETTINGS][NACTIONS][NPATTERNS];

	EACH_CASE(c) {
		if ((42 * c.pattern + 7 * c.setting + 12 * c.policy + 41 * c.action) % THINNING)
			continue;
		taken[c.policy][c.setting][c.action][c.pattern] = 1;
		for (int kind = 0; kind < 6; kind++)
			*meeting(&c, kind) = 1;
	}
	EACH_CASE(c) {
		for (int kind = 0; kind < 6; kind++) {
			if (!*meeting(&c, kind)) {
				taken[c.policy][c.setting][c.action][c.pattern] = 1;
				*meeting(&c, kind) = 1;
			}
		}
	}
	EACH_CASE(c) {
		if (!taken[c.policy][c.setting][c.action][c.pattern])
			continue;
		CHECK(ncases < CASES_MAX);
		cases[ncases++] = c;
	}
}

static void name_of(int n, char *name, size_t room)
{
	const struct test_case *c = &cases[n];

	snprintf(name, room, "%s/%s/%s/%s", actions[c->action].name, patterns[c->pattern].name, settings[c->setting].name,
		 policies[c->policy].name);
}

/* ---- a case ---- */

static void client_begin(struct client *c, const struct setting *s, uint32_t number, int fd)
{
	c->alone = fd < 0;
	c->fd = fd < 0 ? huvm_open() : fd;
	c->ngpu = s->gpus;
	for (uint32_t g = 0; g < s->gpus; g++)
		c->gpus[g] = (g + (s->both ? number : 0)) % 2;
	if (c->alone) {
		for (uint32_t g = 0; g < s->gpus; g++)
			CHECK_OK(gpu_register(c->fd, c->gpus[g]));
		if (s->borrows)
			CHECK_OK(set_knob(c->fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	}
}

static void client_run(struct client *c, const struct test_case *t)
{
	const struct setting *s = &settings[t->setting];

	client_range(c, s->blocks * BLOCK);
	patterns[t->pattern].make(&c->shapes, c->len);
	actions[t->action].run(c);
	cpu_check_all(c);
	CHECK_OK(munmap(c->p, c->len));
	CHECK_OK(munmap(c->copy, c->len));
	if (c->alone && c->fd >= 0)
		CHECK_OK(close(c->fd));
}

struct thread {
	pthread_t id;
	struct client c;
	const struct test_case *t;
};

static void *thread_run(void *arg)
{
	struct thread *t = arg;

	client_run(&t->c, t->t);
	return NULL;
}

static void key_of(struct client *c, int n, uint32_t number)
{
	c->rng = (uint64_t)n * 77 + number;
	c->key = 0;
	while (!c->key)
		c->key = next_random(&c->rng) << 33 | next_random(&c->rng) << 2;
}

/* In a process of its own. */
static void run_case(int n)
{
	const struct test_case *t = &cases[n];
	const struct setting *s = &settings[t->setting];
	struct thread *threads = calloc(2, sizeof(*threads));
	int fd = -1;

	CHECK(threads != NULL);
	catch_touches();
	for (uint32_t i = 0; i < 2; i++) {
		key_of(&threads[i].c, n, i);
		threads[i].t = t;
	}
	switch (s->who) {
	case ONE:
		client_begin(&threads[0].c, s, 0, -1);
		client_run(&threads[0].c, t);
		break;
	case PROCESSES: {
		pid_t pid[2];

		for (uint32_t i = 0; i < 2; i++) {
			pid[i] = fork();
			if (!pid[i]) {
				client_begin(&threads[i].c, s, i, -1);
				client_run(&threads[i].c, t);
				fflush(stdout);
				_exit(0);
			}
		}
		for (uint32_t i = 0; i < 2; i++) {
			int r = outcome(pid[i]);

			if (r)
				FAIL("client %u ended with %d", i, r);
		}
		break;
	}
	case SHARED_SPACE:
		fd = huvm_open();
		for (uint32_t g = 0; g < 2; g++)
			CHECK_OK(gpu_register(fd, g));
		/* fall through */
	case THREADS:
		for (uint32_t i = 0; i < 2; i++) {
			client_begin(&threads[i].c, s, i, fd);
			CHECK_EQ(pthread_create(&threads[i].id, NULL, thread_run, &threads[i]), 0);
		}
		for (uint32_t i = 0; i < 2; i++)
			CHECK_EQ(pthread_join(threads[i].id, NULL), 0);
		break;
	}
	free(threads);
}

/* ---- the runner ---- */

static int ctl;

static int set_place(const struct setting *s)
{
	ARG(huvm_knob, k);

	while (strcmp(k.name, "harvest_lend")) {
		if (ioctl(ctl, HUVM_IOC_KNOB, &k) < 0)
			return -1;
		k.index++;
		k.scopes = 0;
	}
	for (uint32_t g = 0; g < 2; g++) {
		/* One that need not lend does as the policy says. */
		ARG(huvm_policy, p, .scope = HUVM_SCOPE_GPU, .gpu = g, .flags = s->borrows ? 0 : HUVM_POLICY_RESET,
		    .knob = k.index - 1, .value = (uint64_t)s->borrows);

		if (ioctl(ctl, HUVM_IOC_POLICY_SET, &p) < 0 ||
		    limit_chunks(ctl, g, g == 0 || s->both ? s->chunks : 0) < 0)
			return -1;
	}
	return 0;
}

/* Nothing is left of a case: no chunk, no client. */
static int nothing_left(void)
{
	int ok = 1;

	for (uint32_t g = 0; g < 2; g++) {
		if (limit_chunks(ctl, g, 0) < 0) {
			printf("# the limit of GPU %u cannot be lifted: %s\n", g, strerror(errno));
			ok = 0;
		}
	}
	for (uint32_t g = 0; g < 2; g++) {
		/* A thread of the driver may have a chunk in hand for a moment. */
		if (!WITHIN(5000, is_idle(ctl, g))) {
			struct huvm_mem_info m = mem_info(ctl, g);

			printf("# left on GPU %u: %llu used, %llu evicting, %llu + %llu lent, %llu pinned\n", g,
			       (unsigned long long)m.used, (unsigned long long)m.evicting, (unsigned long long)m.lent_only,
			       (unsigned long long)m.lent_removable, (unsigned long long)m.pinned);
			ok = 0;
		}
	}
	if (!WITHIN(5000, client_count(ctl) == 1)) {
		printf("# %d clients are left\n", client_count(ctl) - 1);
		ok = 0;
	}
	return ok;
}

static int current;
static void run_current(void) { run_case(current); }

/* What the cases of a setting came to. */
static struct { unsigned int cases; uint64_t evicted, lent; } came[NSETTINGS];
/* So many of one setting, of whatever policies, and it is seen to be what it is called. */
#define ENOUGH 10u

/*
 * Where a GPU is small something is evicted, where its clients borrow something is lent. Not in each case: there are policies without the one or
 * the other, and what is touched may fit.
 */
static int settings_took_place(void)
{
	int ok = 1;

	for (int i = 0; i < NSETTINGS; i++) {
		const struct setting *s = &settings[i];

		if (came[i].cases)
			printf("# %s: %u cases, %llu chunks evicted, %llu lent\n", s->name, came[i].cases,
			       (unsigned long long)came[i].evicted, (unsigned long long)came[i].lent);
		if (came[i].cases >= ENOUGH && ((s->chunks && !came[i].evicted) || (s->borrows && !came[i].lent)))
			ok = 0;
	}
	return ok;
}

/* 1: it passed. */
static int try_case(int n, int *policy)
{
	const struct ktap_test t = { "", run_current, CASE_LIMIT_S };
	const struct test_case *c = &cases[n];
	uint64_t evicted = counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_EVICTIONS);
	uint64_t lent = counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_CHUNKS_LENT);
	int ok;

	if (*policy != c->policy && set_policy(ctl, &policies[c->policy]) < 0) {
		printf("# policy %s: %s\n", policies[c->policy].name, strerror(errno));
		return 0;
	}
	*policy = c->policy;
	if (set_place(&settings[c->setting]) < 0) {
		printf("# setting %s: %s\n", settings[c->setting].name, strerror(errno));
		return 0;
	}
	current = n;
	ok = ktap_one(&t) == KTAP_PASS;
	came[c->setting].cases++;
	came[c->setting].evicted += counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_EVICTIONS) - evicted;
	came[c->setting].lent += counter(ctl, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_CHUNKS_LENT) - lent;
	return nothing_left() && ok;
}

static int find(const char *wanted)
{
	char name[128];

	for (int n = 0; n < ncases; n++) {
		name_of(n, name, sizeof(name));
		if (!strcmp(name, wanted))
			return n;
	}
	printf("# no case '%s'; 'matrix list' says which there are\n", wanted);
	return -1;
}

/* ---- the quick tenth ---- */

/* Of so many that a run without HUVM_FULL has one. */
#define TENTH 10u
/* Chances of the cheapest case; another's are these divided by what it costs. None has a case that costs more. */
#define CHANCES 24u

/*
 * What a case costs, the cheapest one: 1, by a rule made of what was measured (HUVM_MATRIX_TIMES=1): each turn of a pattern's
 * costs as much as the first, what does not fit comes and goes with each, two clients do twice as much and two GPUs have pages from
 * each other, and without prefetch each page is a fault.
 */
static unsigned int cost(const struct test_case *c)
{
	const struct setting *s = &settings[c->setting];
	int each_page = !strcmp(policies[c->policy].name, "no-prefetch");
	struct shapes shapes = { .n = 0 };
	unsigned int turns = 0;

	patterns[c->pattern].make(&shapes, s->blocks * BLOCK);
	for (int i = 0; i < shapes.n; i++)
		if (shapes.s[i].iterations * (unsigned int)shapes.repeat > turns)
			turns = shapes.s[i].iterations * (unsigned int)shapes.repeat;
	return turns * (s->chunks ? 3 : 1) * (s->who == ONE ? 1 : 2) * (s->chunks && s->gpus > 1 ? 2 : 1) * (each_page ? 8 : 1);
}

/* Every so many-th chance is a case of the tenth. */
static unsigned int step_of_chances(void)
{
	unsigned int all = 0;

	for (int n = 0; n < ncases; n++)
		all += CHANCES / cost(&cases[n]);
	return all * TENTH / (unsigned int)ncases;
}

int main(int argc, char **argv)
{
	const char *which = getenv("HUVM_FULL"), *seed = getenv("HUVM_SEED");
	int all = which && atoi(which), failed = 0, number = 0, planned = 0, policy = -1;
	unsigned int slice = 1, slices = 1, step, chance;
	static unsigned char wanted[CASES_MAX];
	char name[128], slow[128] = "";
	double began = seconds(), longest = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	enumerate();
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (int n = 0; n < ncases; n++) {
			name_of(n, name, sizeof(name));
			puts(name);
		}
		return KTAP_PASS;
	}
	if (argc > 1 && sscanf(argv[1], "%uof%u", &slice, &slices) == 2) {
		argc--;
		argv++;
		if (!slice || slice > slices)
			return KTAP_FAIL;
	}
	for (int i = 1; i < argc; i++) {
		int n = find(argv[i]);

		if (n < 0)
			return KTAP_FAIL;
		wanted[n] = 1;
	}
	/* Those whose chances come up, or all; and of these, one of the slices. */
	step = step_of_chances();
	chance = seed ? (unsigned int)(strtoull(seed, NULL, 0) % step) : 0;
	for (int n = 0, k = 0; n < ncases && argc == 1; n++) {
		unsigned int before = chance;

		chance += CHANCES / cost(&cases[n]);
		if (all || before / step != chance / step)
			wanted[n] = (unsigned int)k++ % slices == slice - 1;
	}
	for (int n = 0; n < ncases; n++)
		planned += wanted[n];
	verified = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(verified != MAP_FAILED);
	ctl = huvm_open();
	printf("KTAP version 1\n1..%d\n# of %d cases %s, slice %u of %u\n", planned, ncases,
	       all ? "all" : "those that the seed drew", slice, slices);
	if (gpu_count(ctl) < 2) {
		printf("# two GPUs are wanted\n");
		return KTAP_FAIL;
	}
	for (int n = 0; n < ncases; n++) {
		double from = seconds(), took;

		if (!wanted[n])
			continue;
		name_of(n, name, sizeof(name));
		number++;
		if (try_case(n, &policy)) {
			printf("ok %d %s\n", number, name);
		} else {
			printf("# alone: GPUS=2 VRAM=66 RUN=\"sh /suites/suite.sh matrix@%s\" tools/build/run.sh\n"
			       "not ok %d %s\n", name, number, name);
			failed++;
		}
		took = seconds() - from;
		if (took > longest) {
			longest = took;
			strcpy(slow, name);
		}
		if (getenv("HUVM_MATRIX_TIMES"))
			printf("# time %.3f %s\n", took, name);
	}
	printf("# %d cases in %.1f s, %llu MiB compared by the CPU or a GPU; the longest %.2f s: %s\n", planned, seconds() - began,
	       (unsigned long long)(*verified >> 20), longest, slow);
	if (!settings_took_place()) {
		printf("# a setting is not what it is called\n");
		failed++;
	}
	return failed ? KTAP_FAIL : KTAP_PASS;
}
