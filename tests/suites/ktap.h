/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KTAP output and checks for the suites, in the manner of kselftest.
 *
 * A suite lists its tests in an array and calls ktap_run(). A test returns; CHECK records the first failure and leaves
 * the test. Each test runs in a child of its own with a time limit, so that a hang or a crash is a failure with a name.
 */
#ifndef KTAP_H
#define KTAP_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KTAP_PASS = 0, KTAP_FAIL = 1, KTAP_SKIP = 4 };

struct ktap_test {
	const char *name;
	void (*run)(void);
	unsigned int limit_s;	/* 0: 60 */
};

/* Ends the test as failed. The line goes to stdout as a KTAP comment. */
#define FAIL(...) do { \
	printf("# %s:%d: ", __FILE__, __LINE__); printf(__VA_ARGS__); printf("\n"); \
	fflush(stdout); _exit(KTAP_FAIL); } while (0)

#define SKIP(...) do { \
	printf("# skipped: "); printf(__VA_ARGS__); printf("\n"); \
	fflush(stdout); _exit(KTAP_SKIP); } while (0)

#define CHECK(cond) do { \
	if (!(cond)) FAIL("%s is false (errno %d, %s)", #cond, errno, strerror(errno)); } while (0)

#define CHECK_EQ(a, b) do { \
	unsigned long long a_ = (unsigned long long)(a), b_ = (unsigned long long)(b); \
	if (a_ != b_) FAIL("%s is %llu (%#llx), %s is %llu (%#llx)", #a, a_, a_, #b, b_, b_); } while (0)

/* The call fails with this errno. */
#define CHECK_ERR(call, want) do { \
	errno = 0; long r_ = (long)(call); int e_ = errno; \
	if (r_ >= 0 || e_ != (want)) \
		FAIL("%s gave %ld, errno %d (%s), wanted errno %d", #call, r_, e_, strerror(e_), want); } while (0)

#define CHECK_OK(call) do { \
	errno = 0; long r_ = (long)(call); \
	if (r_ < 0) FAIL("%s failed: errno %d, %s", #call, errno, strerror(errno)); } while (0)

static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* So many times its limit is what the test that runs may take: the test says it, its parent reads it. */
static unsigned int *ktap_times;

static inline void ktap_takes(int times)
{
	__atomic_store_n(ktap_times, (unsigned int)times, __ATOMIC_RELAXED);
}

static inline int ktap_share_times(void)
{
	void *page;

	if (ktap_times)
		return 0;
	page = mmap(NULL, sizeof(*ktap_times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		printf("# mmap: %s\n", strerror(errno));
		return -1;
	}
	ktap_times = page;
	return 0;
}

static inline int ktap_one(const struct ktap_test *t)
{
	unsigned int limit = t->limit_s ? t->limit_s : 60;
	const char *scale = getenv("HUVM_TIME_SCALE");
	int status;
	pid_t pid;

	if (scale && atoi(scale) > 0)
		limit *= (unsigned int)atoi(scale);
	fflush(stdout);
	if (ktap_share_times() < 0)
		return KTAP_FAIL;
	ktap_takes(1);
	pid = fork();
	if (pid < 0) {
		printf("# fork: %s\n", strerror(errno));
		return KTAP_FAIL;
	}
	if (!pid) {
		setpgid(0, 0);
		t->run();
		fflush(stdout);
		_exit(KTAP_PASS);
	}
	setpgid(pid, pid);
	for (unsigned int ms = 0;; ms += 10) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			break;
		if (ms / 1000 >= limit * __atomic_load_n(ktap_times, __ATOMIC_RELAXED)) {
			char cmd[320];

			printf("# no end after %u s; where its tasks are:\n", ms / 1000);
			fflush(stdout);
			/* All threads of all processes of the test, which are a group: the third word behind the name. */
			snprintf(cmd, sizeof(cmd),
				 "for t in /proc/[0-9]*/task/*; do [ \"$(sed 's/.*) //' $t/stat | cut -d' ' -f3)\" != %d ] || "
				 "{ echo \"${t##*/} $(cat $t/comm)\"; cat $t/stack; }; done 2>/dev/null | sed 's/^/#   /'", pid);
			if (system(cmd) != 0)
				printf("# (no stack)\n");
			kill(-pid, SIGKILL);
			/* Killed tasks must go away: a task that does not is a bug of the driver. */
			for (int i = 0; i < 1000; i++) {
				if (waitpid(pid, &status, WNOHANG) == pid)
					return KTAP_FAIL;
				usleep(10000);
			}
			printf("# not even SIGKILL ended it\n");
			return KTAP_FAIL;
		}
		usleep(10000);
	}
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status)) {
		printf("# killed by signal %d\n", WTERMSIG(status));
		return KTAP_FAIL;
	}
	return WEXITSTATUS(status);
}

/* Runs the tests (all, or those named in argv). Exit code as kselftest: 0 all passed, 1 a failure, 4 all skipped. */
static inline int ktap_run(const struct ktap_test *tests, int count, int argc, char **argv)
{
	int failed = 0, skipped = 0, number = 0, planned = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < count; i++) {
		int wanted = argc < 2;

		for (int a = 1; a < argc; a++)
			wanted |= !strcmp(argv[a], tests[i].name);
		planned += wanted;
	}
	printf("KTAP version 1\n1..%d\n", planned);
	for (int i = 0; i < count; i++) {
		int wanted = argc < 2, r;
		double from = seconds();

		for (int a = 1; a < argc; a++)
			wanted |= !strcmp(argv[a], tests[i].name);
		if (!wanted)
			continue;
		r = ktap_one(&tests[i]);
		number++;
		if (r == KTAP_PASS) {
			printf("ok %d %s\n", number, tests[i].name);
		} else if (r == KTAP_SKIP) {
			printf("ok %d %s # SKIP\n", number, tests[i].name);
			skipped++;
		} else {
			printf("not ok %d %s\n", number, tests[i].name);
			failed++;
		}
		printf("# %s: %.1f s\n", tests[i].name, seconds() - from);
	}
	if (!number) {
		printf("# no such test\n");
		return KTAP_FAIL;
	}
	if (failed)
		return KTAP_FAIL;
	return skipped == number ? KTAP_SKIP : KTAP_PASS;
}

#define KTAP_MAIN(tests) \
	int main(int argc, char **argv) \
	{ return ktap_run(tests, (int)(sizeof(tests) / sizeof((tests)[0])), argc, argv); }

#endif
