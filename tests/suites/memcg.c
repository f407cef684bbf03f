// SPDX-License-Identifier: GPL-2.0
/*
 * Memory cgroups: host memory is charged to the client whose data it holds, whichever thread asks for it. A client that has reached
 * its limit is told so; its neighbours are not, and it cannot keep a GPU for itself.
 */
#include "lend_lib.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define ROOT	"/tmp/cgroup"
#define GROUP	ROOT "/small"
#define OTHER	ROOT "/other"
#define CHUNKS	6

static uint64_t get(const char *path)
{
	char text[64] = { 0 };
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtoull(text, NULL, 0);
}

static void this_process_into(const char *procs)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", getpid());
	CHECK_OK(write_file(procs, text));
}

/* A figure of a file that has one a line, with its name before it. */
static uint64_t line_of(const char *path, const char *name)
{
	char line[256], found[64];
	unsigned long long n;
	FILE *f = fopen(path, "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %llu", found, &n) == 2 && !strcmp(found, name)) {
			fclose(f);
			return n;
		}
	FAIL("%s has no %s", path, name);
}

static uint64_t available_kib(void)
{
	return line_of("/proc/meminfo", "MemAvailable:");
}

/* Makes a cgroup. One of that name is what a test left that failed, its processes dead or about to be. */
static void make_empty_group(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char inner[300];

	while (d && (e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.') {
			snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name);
			CHECK(WITHIN(5000, !rmdir(inner)));
		}
	if (d) {
		closedir(d);
		CHECK(WITHIN(5000, !rmdir(path)));
	}
	CHECK_OK(mkdir(path, 0755));
}

/* A cgroup that may have @mib (0: all it wants). */
static void make_group(unsigned int mib)
{
	char text[32];

	mkdir(ROOT, 0755);
	if (mount("none", ROOT, "cgroup2", 0, NULL) && errno != EBUSY)
		SKIP("no cgroups");
	CHECK_OK(write_file(ROOT "/cgroup.subtree_control", "+memory"));
	make_empty_group(GROUP);
	snprintf(text, sizeof(text), mib ? "%uM" : "max", mib);
	CHECK_OK(write_file(GROUP "/memory.max", text));
}

/* A client of the group. Its process leaves it again: what it has there is what the driver allocates for it. */
static struct job job_of_group(uint64_t blocks, uint64_t seed)
{
	struct job j;

	this_process_into(GROUP "/cgroup.procs");
	j = job_make(0, blocks, seed);
	this_process_into(ROOT "/cgroup.procs");
	return j;
}

/* What evictions put on the host counts in the client's group, and no more when the client is gone. */
static void charged_to_the_owner(void)
{
	int ctl = huvm_open();
	struct job j;

	make_group(0);
	for (int pool = 0; pool < 2; pool++) {
		uint64_t before = get(GROUP "/memory.current"), has;

		knob(ctl, 0, "large_page_evict", (uint64_t)pool);
		CHECK_OK(limit_chunks(ctl, 0, CHUNKS));
		j = job_of_group(3 * CHUNKS, 5);
		CHECK(!fill_or_no_memory(&j, 5));
		has = get(GROUP "/memory.current") - before;
		printf("# %llu KiB charged of %llu on the host\n", (unsigned long long)has >> 10,
		       (unsigned long long)(2 * CHUNKS * BLOCK) >> 10);
		/* Pieces of a pool are charged to nobody, to a client without a limit. */
		if (!pool)
			CHECK(has >= 2 * CHUNKS * BLOCK);
		job_end(&j);
		CHECK(WITHIN(5000, get(GROUP "/memory.current") < before + BLOCK));
	}
	knob(ctl, 0, "large_page_evict", 0);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

/* What a client has on the host stays below its limit, with a pool of large pages too; what it had before is there. */
static void limit_holds(void)
{
	int ctl = huvm_open();

	make_group(16);
	for (uint64_t way = 0; way < 4; way++) {
		struct job fits, more;
		uint64_t most = 0, now;
		int refused = 0;

		knob(ctl, 0, "large_page_evict", way & 1);
		knob(ctl, 0, "large_page_pool_mib", 16);
		knob(ctl, 0, "pre_evict", way >> 1);
		CHECK_OK(limit_chunks(ctl, 0, CHUNKS));
		fits = job_of_group(CHUNKS, 3 + way);
		CHECK(!fill_or_no_memory(&fits, 3 + way));
		for (int n = 0; n < 4; n++) {
			more = job_of_group(2 * CHUNKS, 50);
			refused += fill_or_no_memory(&more, 50);
			now = get(GROUP "/memory.current");
			most = now > most ? now : most;
			CHECK_OK(munmap(more.p, more.len));
			close(more.fd);
		}
		printf("# pool %d, pre-eviction %d: %d of 4 refused, %llu KiB at most\n", (int)way & 1, (int)way >> 1, refused,
		       (unsigned long long)most >> 10);
		CHECK_EQ(refused, 4);
		CHECK(most <= 16ull << 20);
		job_end(&fits);
	}
	knob(ctl, 0, "large_page_evict", 0);
	knob(ctl, 0, "pre_evict", 0);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

/* A process with a client of the group, which has filled a GPU of CHUNKS chunks. */
struct keeper {
	pid_t pid;
	int been;
};

static struct keeper keeper_begin(int ctl)
{
	struct keeper k;
	int go[2], been[2];
	char c;

	CHECK_OK(limit_chunks(ctl, 0, CHUNKS));
	CHECK_OK(pipe(go));
	CHECK_OK(pipe(been));
	k.been = been[1];
	k.pid = fork();
	CHECK(k.pid >= 0);
	if (!k.pid) {
		struct job own;

		own = job_of_group(CHUNKS, 9);
		CHECK(!fill_or_no_memory(&own, 9));
		CHECK_EQ(write(go[1], "x", 1), 1);
		CHECK_EQ(read(been[0], &c, 1), 1);
		job_end(&own);
		_exit(0);
	}
	CHECK_EQ(read(go[0], &c, 1), 1);
	CHECK_EQ(mem_info(ctl, 0).free, 0);
	return k;
}

/* It looks at every byte, and ends. */
static void keeper_end(int ctl, struct keeper k)
{
	int status;

	CHECK_EQ(write(k.been, "x", 1), 1);
	CHECK_EQ(waitpid(k.pid, &status, 0), k.pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		FAIL("the client at its limit ended with %#x", status);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	CHECK_OK(rmdir(GROUP));
}

/* A client at its limit fills the GPU; another one comes, and has memory of it all the same. Neither loses a byte. */
static void others_get_on(void)
{
	int ctl = huvm_open();
	struct keeper k;
	struct job j;

	make_group(4);
	k = keeper_begin(ctl);
	j = job_begin(0, 2 * CHUNKS, 1);
	job_end(&j);
	keeper_end(ctl, k);
	close(ctl);
}

/* The same with the limit beyond which the kernel puts whoever allocates to sleep: that is the driver's thread, which serves all. */
static void others_do_not_sleep(void)
{
	int ctl = huvm_open();

	for (uint64_t large = 0; large < 2; large++) {
		struct keeper k;
		struct job j;
		double took;

		make_group(0);
		CHECK_OK(write_file(GROUP "/memory.high", "4M"));
		k = keeper_begin(ctl);
		knob(ctl, 0, "large_page_evict", large);
		took = -seconds();
		j = job_begin(0, 2 * CHUNKS, 1);
		took += seconds();
		printf("# with large pages %d: the other one's launch took %.1f s\n", (int)large, took);
		/* Asleep, it is up to two seconds for each 256 KiB. */
		CHECK(took < 4 * time_scale());
		job_end(&j);
		keeper_end(ctl, k);
	}
	knob(ctl, 0, "large_page_evict", 0);
	close(ctl);
}

/* A job whose blocks come home with a call each @step bytes. */
struct homeward {
	struct job j;
	uint64_t step;
	volatile int over;
};

static void *bring_home(void *arg)
{
	struct homeward *h = arg;

	for (uint64_t at = 0; at < h->j.len; at += h->step)
		CHECK_OK(migrate(h->j.fd, (char *)h->j.p + at, h->step, HUVM_PLACE_HOST));
	h->over = 1;
	return arg;
}

/* For how long all of this machine stood still, at worst: whoever only naps did so, too. */
struct standstill {
	volatile double longest;
	volatile int over;
};

static void *naps(void *arg)
{
	struct standstill *s = arg;

	while (!s->over) {
		double took = -seconds();

		usleep(1000);
		took += seconds();
		s->longest = took > s->longest ? took : s->longest;
	}
	return NULL;
}

/*
 * A process beyond that limit brings home what it has on the GPU, and sleeps for it: between two blocks, not with one locked. Whoever
 * wants the block, as a lender that wants its memory back, would wait for that.
 */
static void sleeps_with_nothing_locked(void)
{
	int ctl = huvm_open();

	for (uint64_t sizes = 0; sizes <= 3; sizes += 3) {
		double longest = 0, began;
		struct homeward h = { 0 };
		struct standstill all = { 0 };
		uint64_t has;
		pthread_t t, napper;

		make_group(0);
		CHECK_OK(write_file(GROUP "/memory.high", "1M"));
		CHECK_OK(limit_chunks(ctl, 0, 2 * CHUNKS));
		h.j = job_of_group(2 * CHUNKS, 9);
		CHECK(!fill_or_no_memory(&h.j, 9));
		/* Pages of 4 KiB and one call for all blocks, then the largest and a call for each. */
		CHECK_OK(set_knob(h.j.fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", sizes));
		h.step = sizes ? BLOCK : h.j.len;
		this_process_into(GROUP "/cgroup.procs");
		CHECK_OK(pthread_create(&t, NULL, bring_home, &h));
		CHECK_OK(pthread_create(&napper, NULL, naps, &all));
		began = seconds();
		for (uint64_t at = 0; seconds() - began < 8; at = (at + BLOCK) % h.j.len) {
			double took = -seconds();

			block_info(h.j.fd, (char *)h.j.p + at);
			took += seconds();
			longest = took > longest ? took : longest;
			usleep(1000);
		}
		all.over = 1;
		CHECK_OK(pthread_join(napper, NULL));
		has = get(GROUP "/memory.current");
		this_process_into(ROOT "/cgroup.procs");
		CHECK_OK(write_file(GROUP "/memory.high", "max"));
		printf("# host_chunk_sizes %d: a block's lock was to be had after %.3f s at most (who naps for 1 ms, %.3f s); %llu KiB came home in 8 s\n",
		       (int)sizes, longest, all.longest, (unsigned long long)has >> 10);
		CHECK(longest < 0.5 * time_scale() + 2 * all.longest);
		/* It did sleep. */
		CHECK(!h.over && has < h.j.len * 2 / 3);
		CHECK_OK(pthread_join(t, NULL));
		job_end(&h.j);
		CHECK_OK(limit_chunks(ctl, 0, 0));
		CHECK_OK(rmdir(GROUP));
	}
	close(ctl);
}

/* What goes beyond its limit for another client's need is charged to nobody: that one has a limit too, and comes by a system call. */
static void others_do_not_pay(void)
{
	int ctl = huvm_open();
	uint64_t before, now;
	struct keeper k;
	struct job j;

	make_group(4);
	make_empty_group(OTHER);
	CHECK_OK(write_file(OTHER "/memory.max", "8M"));
	k = keeper_begin(ctl);
	this_process_into(OTHER "/cgroup.procs");
	j = job_make(0, CHUNKS, 1);
	before = get(OTHER "/memory.current");
	CHECK_OK(migrate(j.fd, j.p, j.len, 0));
	now = get(OTHER "/memory.current");
	this_process_into(ROOT "/cgroup.procs");
	printf("# the other one is charged for %lld KiB\n", (long long)(now - before) >> 10);
	CHECK(now < before + BLOCK);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	keeper_end(ctl, k);
	close(ctl);
	CHECK_OK(rmdir(OTHER));
}

/* Chunks are kept free ahead though the oldest cannot go: their client is at its limit, and no one needs them yet. */
static void ahead_of_others(void)
{
	const uint64_t has = 12;
	int ctl = huvm_open();
	uint64_t before;
	struct job a, b;

	make_group(4);
	CHECK_OK(limit_chunks(ctl, 0, 2 * (uint32_t)has));
	a = job_of_group(has, 3);
	CHECK(!fill_or_no_memory(&a, 3));
	b = job_begin(0, has, 5);
	CHECK_EQ(mem_info(ctl, 0).free, 0);
	before = of_gpu(ctl, 0, HUVM_CNT_PRE_EVICTIONS);
	knob(ctl, 0, "pre_evict_share_percent", 25);
	knob(ctl, 0, "pre_evict", 1);
	/* Two of the first one's have room on the host. */
	CHECK(WITHIN(5000, of_gpu(ctl, 0, HUVM_CNT_PRE_EVICTIONS) >= before + 3));
	CHECK(get(GROUP "/memory.current") <= 4ull << 20);
	knob(ctl, 0, "pre_evict", 0);
	job_end(&b);
	job_check_gpu(&a);
	CHECK_OK(munmap(a.p, a.len));
	close(a.fd);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

/* Launches of a client that has memory enough, each of which faults anew, in so many seconds. */
static int turns(struct job *j, double for_s)
{
	double began = seconds();
	int n = 0;

	for (; seconds() - began < for_s; n++) {
		CHECK_OK(advise(j->fd, j->p, j->len, HUVM_ADVISE_DISCARD, 0));
		gpu_fill(j->fd, j->gpu, j->p, j->len, WIDE, j->add, j->mul);
	}
	return n;
}

/* Groups beside a client's: the kernel takes long to find that there is nothing in them to be had for it. */
enum { GROUPS = 200 };

/* A cgroup, with others, for a client that has 6 MiB. */
static void make_slow_group(void)
{
	char text[64];

	make_group(0);
	CHECK_OK(write_file(GROUP "/cgroup.subtree_control", "+memory"));
	for (int n = 0; n < GROUPS; n++) {
		snprintf(text, sizeof(text), GROUP "/g%d", n);
		CHECK_OK(mkdir(text, 0755));
	}
	CHECK_OK(mkdir(GROUP "/client", 0755));
	/* The groups themselves count. */
	snprintf(text, sizeof(text), "%llu", (unsigned long long)get(GROUP "/memory.current") + (6 << 20));
	CHECK_OK(write_file(GROUP "/memory.max", text));
}

static void remove_slow_group(void)
{
	char path[64];

	CHECK(WITHIN(5000, !rmdir(GROUP "/client")));
	for (int n = 0; n < GROUPS; n++) {
		snprintf(path, sizeof(path), GROUP "/g%d", n);
		CHECK_OK(rmdir(path));
	}
	CHECK_OK(rmdir(GROUP));
}

/* A client with GPU memory for @blocks, and with as many records as it may have, so that none is left for one more block. */
static struct job without_memory(uint64_t blocks)
{
	struct job j;

	this_process_into(GROUP "/client/cgroup.procs");
	j = job_make(0, 4096, 9);
	if (blocks)
		gpu_fill(j.fd, 0, j.p, blocks * BLOCK, 1, j.add, j.mul);
	for (int fd; (fd = open("/dev/huvm", O_RDWR)) >= 0;) {
		ARG(huvm_events, e, .mask = 1u << HUVM_EVENT_GPU_LOST, .records = 4096);

		if (ioctl(fd, HUVM_IOC_EVENTS, &e))
			break;
	}
	this_process_into(ROOT "/cgroup.procs");
	return j;
}

/* Goes to many blocks of which none is there yet, behind the first 64. */
static struct huvm_wait want_more(const struct job *j)
{
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = 1, .steps = 64, .block_stride = 64 * BLOCK, .step_stride = BLOCK };

	i.dst = (uintptr_t)j->p + 64 * BLOCK;
	return run_program(j->fd, 0, 63, &i, 1, 8);
}

static void is_refused(const struct job *j)
{
	struct huvm_wait w = want_more(j);

	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_NO_MEMORY);
}

/*
 * A client without memory asks for a block at each address of a batch, again and again, in a cgroup where the kernel takes long to say
 * that there is none. The driver's thread asks once for a batch, and spends a tenth of its time on that.
 */
static void others_get_on_beside_refusals(void)
{
	int ctl = huvm_open(), clients, alone, again, beside;
	struct job j, own;
	pid_t pid;

	make_slow_group();
	j = job_begin(0, 4, 1);
	clients = client_count(ctl);
	/* Again, where the machine had little time for it meanwhile. */
	for (int n = 0;; n++) {
		alone = turns(&j, 2);
		pid = fork_child();
		CHECK(pid >= 0);
		if (!pid) {
			own = without_memory(0);
			for (;;)
				is_refused(&own);
		}
		give_time(500);
		beside = turns(&j, 6);
		end_child(pid);
		/* The machine may have become slower since. */
		again = turns(&j, 2);
		alone = again < alone ? again : alone;
		printf("# %d launches in 2 s alone, %d in 6 s beside one that is refused\n", alone, beside);
		/* The driver's thread, and the CPUs, work for that one too. */
		if (beside >= alone)
			break;
		CHECK(n < 2);
		/* The next one has the memory that this one had. */
		CHECK(WITHIN(5000, client_count(ctl) == clients));
		WITHIN(5000, get(GROUP "/client/memory.current") < MIB);
	}
	job_end(&j);
	remove_slow_group();
	close(ctl);
}

/* The GPU fetches the first two blocks anew. */
static void is_served(const struct job *j, uint64_t n)
{
	CHECK_OK(advise(j->fd, j->p, 2 * BLOCK, HUVM_ADVISE_DISCARD, 0));
	gpu_fill(j->fd, 0, j->p, 2 * BLOCK, 1, j->add + n, j->mul);
	gpu_check(j->fd, 0, j->p, 2 * BLOCK, 1, j->add + n, j->mul);
}

static void *is_refused_for_ever(void *j)
{
	for (;;)
		is_refused(j);
	return NULL;
}

/* Who was refused memory for blocks that are not there is served at once where they are, behind such a launch and beside it. */
static void what_is_there_is_served_beside_refusals(void)
{
	int ctl = huvm_open(), status;
	pid_t pid;

	all_idle(ctl);
	make_slow_group();
	/* What it has goes with it. */
	pid = fork_child();
	CHECK(pid >= 0);
	if (!pid) {
		struct job j = without_memory(2);
		pthread_t t;

		for (uint64_t n = 0; n < 20; n++) {
			is_refused(&j);
			is_served(&j, n);
		}
		CHECK_EQ(pthread_create(&t, NULL, is_refused_for_ever, &j), 0);
		for (uint64_t n = 0; n < 60; n++)
			is_served(&j, n);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	remove_slow_group();
	close(ctl);
}

/* Bytes of one of the GPU's page directories. */
#define DIRECTORY	(512 * MIB)

/*
 * A client with all the records that it may have, and @chunks of the GPU, wants a block for which a page directory is missing, over and over.
 * How long the first refusal takes goes to @told, how long each one after that to @last.
 */
static void wants_a_directory(int told, uint64_t chunks, volatile double *last)
{
	const uint64_t places = 32, many = 65536;
	struct job j;
	double took;
	char *p, *q;

	this_process_into(GROUP "/client/cgroup.procs");
	j = job_make(0, chunks, 9);
	gpu_fill(j.fd, 0, j.p, j.len, 1, j.add, j.mul);
	p = managed(j.fd, places * DIRECTORY);
	q = managed(j.fd, many * BLOCK);
	for (uint64_t n = 1; n < places; n++)
		CHECK_OK(advise(j.fd, p + n * DIRECTORY, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	this_process_into(ROOT "/cgroup.procs");
	/* The client still has its memory there. */
	CHECK_ERR(advise(j.fd, q, many * BLOCK, HUVM_ADVISE_READ_MOSTLY, 0), ENOMEM);
	/* What is left over is in the directories of some; there are chunks for all of them. */
	for (uint64_t n = 1; n < 12; n++)
		migrate(j.fd, p + n * DIRECTORY, BLOCK, 0);
	p += 12 * DIRECTORY;
	CHECK_ERR(migrate(j.fd, p, BLOCK, 0), ENOMEM);
	took = -seconds();
	CHECK_ERR(migrate(j.fd, p, BLOCK, 0), ENOMEM);
	took += seconds();
	CHECK(mem_info(j.fd, 0).free);
	CHECK_EQ(write(told, &took, sizeof(took)), (ssize_t)sizeof(took));
	for (;;) {
		took = -seconds();
		migrate(j.fd, p, BLOCK, 0);
		*last = took + seconds();
	}
}

static int by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Who evicts a client does not wait for the page tables that the client cannot have. */
static void evicted_beside_its_refusals(void)
{
	enum { HAS = 12 };
	volatile double *last = mmap(NULL, sizeof(*last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double refusal, took[HAS];
	int ctl = huvm_open(), told[2];
	struct job j;
	pid_t pid;

	CHECK(last != MAP_FAILED);
	make_slow_group();
	CHECK_OK(limit_chunks(ctl, 0, 0));
	CHECK(mem_info(ctl, 0).free > HAS + 12);
	CHECK_OK(pipe(told));
	pid = fork_child();
	CHECK(pid >= 0);
	if (!pid)
		wants_a_directory(told[1], HAS, last);
	close(told[1]);
	CHECK_EQ(read(told[0], &refusal, sizeof(refusal)), (ssize_t)sizeof(refusal));
	CHECK_OK(limit_chunks(ctl, 0, mem_info(ctl, 0).used));
	j = job_make(0, HAS, 1);
	for (int n = 0; n < HAS; n++) {
		took[n] = -seconds();
		gpu_fill(j.fd, 0, (char *)j.p + n * BLOCK, BLOCK, 1, 1, 1);
		took[n] += seconds();
		/* A machine that is slow for launches is for refusals. */
		refusal = *last > refusal ? *last : refusal;
	}
	end_child(pid);
	qsort(took, HAS, sizeof(*took), by_length);
	printf("# a refusal takes %.1f ms; a launch that evicts %.1f to %.1f, half of them up to %.1f\n", 1e3 * refusal, 1e3 * took[0],
	       1e3 * took[HAS - 1], 1e3 * took[HAS / 2]);
	CHECK(took[HAS / 2] < refusal / 2);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	remove_slow_group();
	close(ctl);
}

/* What a client makes the kernel remember without having any data: 4 TiB of advice, event rings, files. */
static void records_have_a_limit(void)
{
	const uint64_t len = 4ull << 40;
	const int files = 64;
	int ctl = huvm_open(), fd[64], on = 0;
	uint64_t before, after;
	void *p;

	make_group(16);
	before = available_kib();
	this_process_into(GROUP "/cgroup.procs");
	for (int i = 0; i < files; i++)
		fd[i] = huvm_open();
	CHECK_OK(gpu_register(fd[0], 0));
	this_process_into(ROOT "/cgroup.procs");
	/* Before there is no room for the record of it. */
	p = managed(fd[0], len);
	for (int i = 0; i < files; i++) {
		ARG(huvm_events, e, .mask = 1u << HUVM_EVENT_GPU_LOST, .records = 65536);

		if (!ioctl(fd[i], HUVM_IOC_EVENTS, &e))
			on++;
		else
			CHECK_EQ(errno, ENOMEM);
	}
	printf("# %d rings of 4 MiB\n", on);
	CHECK(on >= 1 && on <= 4);
	CHECK_ERR(advise(fd[0], p, len, HUVM_ADVISE_READ_MOSTLY, 0), ENOMEM);
	CHECK_ERR(migrate(fd[0], p, len, HUVM_PLACE_HOST), ENOMEM);
	CHECK(get(GROUP "/memory.current") <= 16ull << 20);
	/* Only what is there is advised about then. */
	CHECK_OK(advise(fd[0], p, len, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	CHECK_OK(advise(fd[0], p, len, HUVM_ADVISE_DISCARD, 0));
	after = available_kib();
	printf("# %lld KiB less available to the machine\n", (long long)(before - after));
	CHECK(after + (48 << 10) >= before);
	/* The kernel killed nobody for it. */
	CHECK_EQ(line_of(GROUP "/memory.events", "oom_kill"), 0);
	CHECK_OK(munmap(p, len));
	for (int i = 0; i < files; i++)
		close(fd[i]);
	CHECK(WITHIN(5000, get(GROUP "/memory.current") < BLOCK));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

/*
 * The kernel makes the CPU's page tables, and kills where a cgroup has no room for one. Whoever touches his pages there gets a signal instead, and no
 * process of the cgroup is killed; when there is room again it is all there.
 */
static void touched_at_the_limit(void)
{
	int ctl = huvm_open(), refused = 0;
	struct job j;
	pid_t beside;
	uint64_t v;

	make_group(16);
	knob(ctl, 0, "large_page_evict", 0);
	CHECK_OK(limit_chunks(ctl, 0, CHUNKS));
	beside = fork_child();
	if (!beside) {
		/* More than the client has by the kernel's count. */
		this_process_into(GROUP "/cgroup.procs");
		for (volatile char *mine = malloc(4 * MIB), *p = mine; p < mine + 4 * MIB; p += PAGE)
			*p = 1;
		for (;;)
			pause();
	}
	CHECK(beside > 0 && WITHIN(5000, get(GROUP "/memory.current") >= 4 * MIB));
	/* Pages that are still the child's as well would be new ones, in the group. */
	CHECK_OK(mlockall(MCL_CURRENT));
	j = job_of_group(3 * CHUNKS, 7);
	CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
	fill_or_no_memory(&j, 7);
	this_process_into(GROUP "/cgroup.procs");
	/* What the host has, in pieces, there are no tables for. */
	for (uint64_t at = 0; at < j.len; at += BLOCK)
		refused += reads(j.p + at / 8, &v) == SIGBUS;
	this_process_into(ROOT "/cgroup.procs");
	printf("# %d of %llu touches refused; %llu KiB of 16384\n", refused, (unsigned long long)(j.len / BLOCK),
	       (unsigned long long)get(GROUP "/memory.current") >> 10);
	CHECK(refused);
	CHECK_EQ(line_of(GROUP "/memory.events", "oom_kill"), 0);
	end_child(beside);
	CHECK_OK(munlockall());
	CHECK_OK(write_file(GROUP "/memory.max", "max"));
	/* A refusal that took long is remembered for up to 5 s. */
	CHECK(WITHIN(20000, !fill_or_no_memory(&j, 8)));
	job_end(&j);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

/*
 * What the group's small objects have, in bytes: "current" counts by 64 pages, more than is looked for here. The kernel puts the figure together
 * each two seconds, and gives some objects back later.
 */
static uint64_t slab_settled(void)
{
	uint64_t before, now = line_of(GROUP "/memory.stat", "slab");

	for (int n = 0; n < 10; n++) {
		before = now;
		usleep(3000000);
		now = line_of(GROUP "/memory.stat", "slab");
		if (now == before)
			return now;
	}
	FAIL("the kernel goes on giving back: %llu bytes", (unsigned long long)now);
}

/* What is left of a range of which every other page is given back counts as well, and giving back does not fail for the limit. */
static void what_is_left_is_charged(void)
{
	const uint64_t holes = 2500, len = 2 * holes * PAGE;
	uint64_t before, kib[2] = { 0 };
	int fd;

	make_group(0);
	this_process_into(GROUP "/cgroup.procs");
	fd = huvm_open();
	for (int ours = 0; ours < 2; ours++) {
		char *p = ours ? (char *)managed(fd, len) :
				 mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED);
		before = slab_settled();
		for (uint64_t n = 0; n < holes; n++)
			CHECK_OK(munmap(p + 2 * n * PAGE, PAGE));
		kib[ours] = (slab_settled() - before) >> 10;
		CHECK_OK(munmap(p, len));
	}
	printf("# %llu KiB for the mappings, %llu KiB with the ranges\n", (unsigned long long)kib[0],
	       (unsigned long long)kib[1]);
	CHECK(kib[1] > kib[0] + holes * 40 / 1024);
	close(fd);
	this_process_into(ROOT "/cgroup.procs");
	CHECK_OK(rmdir(GROUP));
}

/* The tables by which a GPU finds a client's pages are the client's as well, though the driver's thread makes them. */
static void tables_are_charged(void)
{
	const uint64_t blocks = 24;
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = 1, .steps = 1, .block_stride = BLOCK };
	/* A table each, and three levels above. */
	const uint64_t least = (blocks + 3) * PAGE;
	uint64_t before, has = 0;
	int ctl = huvm_open();
	struct job j;

	make_group(0);
	CHECK_OK(limit_chunks(ctl, 0, 0));
	all_idle(ctl);
	j = job_of_group(blocks, 1);
	before = line_of(GROUP "/memory.stat", "kernel");
	i.dst = (uintptr_t)j.p;
	run_ok(j.fd, 0, (uint32_t)blocks, &i, 1, 8);
	/* The kernel puts its figures together each two seconds. */
	WITHIN(5000, (has = line_of(GROUP "/memory.stat", "kernel") - before) >= least);
	printf("# %llu bytes for a page in each of %llu blocks\n", (unsigned long long)has, (unsigned long long)blocks);
	CHECK_EQ(block_info(j.fd, j.p).host_pages, 0);
	CHECK(has >= least);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	CHECK(WITHIN(5000, line_of(GROUP "/memory.stat", "kernel") < before + least));
	close(ctl);
	CHECK_OK(rmdir(GROUP));
}

static const struct ktap_test tests[] = {
	{ "charged_to_the_owner", charged_to_the_owner, 60 },
	{ "limit_holds", limit_holds, 120 },
	{ "others_get_on", others_get_on, 60 },
	{ "others_do_not_sleep", others_do_not_sleep, 120 },
	{ "sleeps_with_nothing_locked", sleeps_with_nothing_locked, 120 },
	{ "others_do_not_pay", others_do_not_pay, 60 },
	{ "ahead_of_others", ahead_of_others, 60 },
	{ "others_get_on_beside_refusals", others_get_on_beside_refusals, 120 },
	{ "what_is_there_is_served_beside_refusals", what_is_there_is_served_beside_refusals, 60 },
	{ "evicted_beside_its_refusals", evicted_beside_its_refusals, 60 },
	{ "records_have_a_limit", records_have_a_limit, 60 },
	{ "tables_are_charged", tables_are_charged, 60 },
	{ "touched_at_the_limit", touched_at_the_limit, 60 },
	{ "what_is_left_is_charged", what_is_left_is_charged, 60 },
};
KTAP_MAIN(tests)
