// SPDX-License-Identifier: GPL-2.0
/*
 * The machine's memory runs out, and the kernel kills: a client that works, a process that is nothing to the driver beside a client
 * that evicts, a client that has eaten the memory through the driver. The others lose nothing, and all comes back.
 */
#include "lend_lib.h"

/* Twice what GPU 0 has left: half is on the host. */
#define BLOCKS 16
#define CHUNKS 8
/* What is taken at a time. */
#define BITE (16ull << 20)
#define SPARES 4

static pid_t spares[SPARES];

static void adjust(const char *text)
{
	CHECK_OK(write_file("/proc/self/oom_score_adj", text));
}

/* Memory that the machine could give away, KiB. */
static uint64_t available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
		;
	fclose(f);
	CHECK(kib);
	return kib;
}

static void touch(char *p)
{
	for (uint64_t o = 0; o < BITE; o += PAGE)
		p[o] = 1;
}

static void bite(void)
{
	char *p = mmap(NULL, BITE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	touch(p);
}

/*
 * The kernel may take another while the one that it killed is on its way out: on a busy machine two seconds are not enough to free
 * 600 MiB. It finds these, with some memory each, before it finds the shell that runs this.
 */
static void have_spares(void)
{
	for (int i = 0; i < SPARES; i++) {
		int ready[2];
		char c;

		CHECK_OK(pipe(ready));
		spares[i] = fork();
		CHECK(spares[i] >= 0);
		if (!spares[i]) {
			adjust("900");
			bite();
			CHECK(write(ready[1], "", 1) == 1);
			for (;;)
				pause();
		}
		CHECK(read(ready[0], &c, 1) == 1);
		close(ready[0]);
		close(ready[1]);
	}
}

static void end_spares(void)
{
	int taken = 0;

	for (int i = 0; i < SPARES; i++) {
		if (waitpid(spares[i], NULL, WNOHANG) == spares[i])
			taken++;
		else
			end_child(spares[i]);
	}
	if (taken)
		printf("# the kernel took %d others\n", taken);
}

/* This process becomes the last that the kernel kills, with data on the GPU and, evicted, on the host. */
static struct job bystander(void)
{
	struct job j;

	have_spares();
	adjust("-1000");
	j = job_make(0, BLOCKS, 7);
	CHECK_OK(limit_chunks(j.fd, 0, CHUNKS));
	CHECK(!fill_or_no_memory(&j, 7));
	return j;
}

/* The bystander has its data, and the machine its memory, KiB @before. */
static void all_is_well(struct job *j, uint64_t before)
{
	int fd = huvm_open();

	end_spares();
	job_end(j);
	CHECK(WITHIN(5000, client_count(fd) == 1));
	CHECK_OK(limit_chunks(fd, 0, 0));
	close(fd);
	printf("# %llu MiB were there, %llu are\n", (unsigned long long)before >> 10, (unsigned long long)available() >> 10);
	CHECK(WITHIN(10000, available() > before - before / 10));
}

/* A child that does @bite again and again, each time with more memory, until the kernel kills it: before all others. */
static pid_t glutton(void (*bite)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	adjust("1000");
	for (uint64_t eaten = 0; eaten < 1ull << 40; eaten += BITE)
		bite();
	_exit(9);
}

/* The child is killed, by this signal or by SIGKILL. */
static void is_killed(pid_t pid, int other)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGKILL && WTERMSIG(status) != other))
		FAIL("the process ended with %#x", status);
}

static void bite_and_work(void)
{
	static struct job own;

	if (!own.p)
		own = job_make(0, BLOCKS, 1);
	bite();
	fill_or_no_memory(&own, 1);
}

static void bite_of_managed(void)
{
	static int own;

	if (!own) {
		own = huvm_open();
		CHECK_OK(gpu_register(own, 0));
	}
	touch(managed(own, BITE));
}

static void a_client_is_killed(void)
{
	uint64_t before = available();
	struct job j = bystander();

	is_killed(glutton(bite_and_work), SIGKILL);
	all_is_well(&j, before);
}

/* Launches go on while somebody else takes all memory: each works, or says that there is no memory. */
static void a_stranger_is_killed(void)
{
	uint64_t before = available(), failed = 0, turns = 0;
	struct job j = bystander();
	pid_t pid = glutton(bite);
	siginfo_t ended = { 0 };

	while (!ended.si_pid) {
		failed += (uint64_t)fill_or_no_memory(&j, 7);
		turns++;
		CHECK_OK(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT));
	}
	is_killed(pid, SIGKILL);
	printf("# %llu launches, %llu without memory\n", (unsigned long long)turns, (unsigned long long)failed);
	/* With him gone there is memory again. */
	CHECK(WITHIN(5000, !fill_or_no_memory(&j, 7)));
	all_is_well(&j, before);
}

/* Managed memory counts in no process's size: a client that takes all there is must be the one that is told, or dies. */
static void a_client_eats_managed_memory(void)
{
	uint64_t before = available();
	struct job j = bystander();

	/* A touch without memory for it is a SIGBUS. */
	is_killed(glutton(bite_of_managed), SIGBUS);
	all_is_well(&j, before);
}

static const struct ktap_test tests[] = {
	{ "a_client_is_killed", a_client_is_killed, 120 }, { "a_stranger_is_killed", a_stranger_is_killed, 120 },
	{ "a_client_eats_managed_memory", a_client_eats_managed_memory, 120 },
};
KTAP_MAIN(tests)
