// SPDX-License-Identifier: GPL-2.0
/*
 * The machine's memory runs out, and the kernel kills: a client that works, a process that is nothing to the driver beside a client
 * that evicts, a client that has eaten the memory through the driver. The others lose nothing, and all comes back.
 */
#include "huvm_lib.h"

/* Twice what a GPU of the test machine has left: half is on the host. */
#define LEN (16 * BLOCK)
#define CHUNKS 8
#define PIECES 16

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

/* Takes memory until it is killed, 16 MiB at a time; calls @between after each. */
static void eat(void (*between)(void))
{
	const uint64_t step = 16 << 20;

	for (uint64_t eaten = 0; eaten < 1ull << 40; eaten += step) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		CHECK(p != MAP_FAILED);
		for (uint64_t o = 0; o < step; o += PAGE)
			p[o] = 1;
		if (between)
			between();
	}
	_exit(9);
}

/* The child @pid is killed by the kernel, by one of @signals. */
static void is_killed(pid_t pid, int other)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGKILL && WTERMSIG(status) != other))
		FAIL("the process ended with %#x", status);
}

/* A client with data on a GPU and, evicted, on the host. It is the last that the kernel kills. */
static uint64_t *bystander(int *fd)
{
	uint64_t *p;

	adjust("-1000");
	*fd = huvm_open();
	CHECK_OK(gpu_register(*fd, 0));
	CHECK_OK(limit_chunks(*fd, 0, CHUNKS));
	p = managed(*fd, LEN);
	gpu_fill(*fd, 0, p, LEN, PIECES, 7, 3);
	return p;
}

static void bystander_is_well(int fd, uint64_t *p)
{
	gpu_check(fd, 0, p, LEN, PIECES, 7, 3);
	cpu_check(p, LEN, 7, 3);
	CHECK(WITHIN(5000, client_count(fd) == 1));
	CHECK_OK(limit_chunks(fd, 0, 0));
	munmap(p, LEN);
	close(fd);
}

static struct {
	int fd;
	uint64_t *p;
} own;

static void use_own(void)
{
	struct huvm_instr i = over(HUVM_OP_FILL, LEN, PIECES);

	/* What becomes of it is nobody's business: this process is to die. */
	i.dst = (uintptr_t)own.p;
	run_program(own.fd, 0, PIECES, &i, 1, 8);
}

static void a_client_is_killed(void)
{
	uint64_t before = available(), *p;
	pid_t pid;
	int fd;

	p = bystander(&fd);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		adjust("1000");
		own.fd = huvm_open();
		CHECK_OK(gpu_register(own.fd, 0));
		own.p = managed(own.fd, LEN);
		eat(use_own);
	}
	is_killed(pid, SIGKILL);
	bystander_is_well(fd, p);
	printf("# %llu MiB were there, %llu are\n", (unsigned long long)before >> 10, (unsigned long long)available() >> 10);
	CHECK(WITHIN(10000, available() > before - before / 10));
}

/* Launches go on while somebody else takes all memory: each works, or says that there is no memory. */
static void a_stranger_is_killed(void)
{
	uint64_t before = available(), *p, failed = 0, turns = 0;
	int fd, status;
	pid_t pid;

	p = bystander(&fd);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		adjust("1000");
		close(fd);
		eat(NULL);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		struct huvm_instr i = over(HUVM_OP_FILL, LEN, PIECES);
		struct huvm_wait w;

		i.dst = (uintptr_t)p;
		i.imm0 = 7;
		i.imm1 = 3;
		w = run_program(fd, 0, PIECES, &i, 1, 8);
		if (w.status != HUVM_LAUNCH_DONE) {
			CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
			CHECK_EQ(w.error, HUVM_ERROR_NO_MEMORY);
			failed++;
		}
		turns++;
	}
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	printf("# %llu launches, %llu without memory\n", (unsigned long long)turns, (unsigned long long)failed);
	CHECK(turns > 1);
	bystander_is_well(fd, p);
	CHECK(WITHIN(10000, available() > before - before / 10));
}

/* Managed memory counts in no process's size: a client that takes all there is must be the one that is told, or dies. */
static void a_client_eats_managed_memory(void)
{
	uint64_t before = available(), *p;
	pid_t pid;
	int fd;

	p = bystander(&fd);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		int own_fd = huvm_open();

		adjust("1000");
		CHECK_OK(gpu_register(own_fd, 0));
		for (uint64_t eaten = 0; eaten < 1ull << 40; eaten += LEN) {
			char *m = managed(own_fd, LEN);

			for (uint64_t o = 0; o < LEN; o += PAGE)
				m[o] = 1;
		}
		_exit(9);
	}
	/* A touch without memory for it is a SIGBUS. */
	is_killed(pid, SIGBUS);
	bystander_is_well(fd, p);
	CHECK(WITHIN(10000, available() > before - before / 10));
}

static const struct ktap_test tests[] = {
	{ "a_client_is_killed", a_client_is_killed, 120 }, { "a_stranger_is_killed", a_stranger_is_killed, 120 },
	{ "a_client_eats_managed_memory", a_client_eats_managed_memory, 120 },
};
KTAP_MAIN(tests)
