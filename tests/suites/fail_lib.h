/* SPDX-License-Identifier: GPL-2.0 */
/* What the suites about failing allocations share: the n-th one of a task fails. */
#ifndef FAIL_LIB_H
#define FAIL_LIB_H

#include "huvm_lib.h"

/* fail-nth of the task whose allocations fail. */
static int nth_fd = -1;

/* Fails the n-th allocation of the task from now on. */
static inline void fail_nth(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	/* The counter sees this call's own copy too. */
	for (int i = 0; i < 4; i++)
		if (pwrite(nth_fd, text, (size_t)len, 0) == len)
			return;
	FAIL("fail-nth: %s", strerror(errno));
}

/* Turns it off; true if it fired. */
static inline int fired(void)
{
	char text[16] = { 0 };
	int hit;

	/* If the read itself is what fails, the body had no n-th allocation. */
	if (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0) {
		fail_nth(0);
		return 0;
	}
	hit = atoi(text) == 0;
	fail_nth(0);
	return hit;
}

/* How often check_errno() was called: what failed, be it of an injection or not. */
static unsigned int refusals;

/* Copies to and from user space are failed as well as allocations. */
static inline void check_errno(const char *what, int line)
{
	refusals++;
	if (errno != ENOMEM && errno != EFAULT)
		FAIL("line %d: %s: errno %d, %s", line, what, errno, strerror(errno));
}

static inline void need_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		SKIP("no %s: not a kernel with fault injection", path);
	if (write(fd, text, strlen(text)) < 0)
		FAIL("%s: %s", path, strerror(errno));
	close(fd);
}

/* The task whose allocations fail: a process id. */
static inline void fail_nth_of(const char *task)
{
	char path[64];

	if (nth_fd >= 0)
		close(nth_fd);
	snprintf(path, sizeof(path), "/proc/%s/fail-nth", task);
	nth_fd = open(path, O_RDWR);
	if (nth_fd < 0)
		SKIP("no %s", path);
}

/*
 * The kernel's checker of DMA turns itself off for good when an allocation of its own fails: those of add_dma_entry() do not. That
 * function begins at its symbol and ends at the next.
 */
static inline void spare_dma_checker(void)
{
	unsigned long long at, begin = 0, end = 0;
	char line[512], name[256], text[32];
	FILE *f;

	if (access("/sys/kernel/debug/dma-api", F_OK))
		return;
	f = fopen("/proc/kallsyms", "r");
	if (!f)
		FAIL("/proc/kallsyms: %s", strerror(errno));
	while (!end && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %*c %255s", &at, name) != 2)
			continue;
		if (begin && at > begin)
			end = at;
		else if (!strcmp(name, "add_dma_entry"))
			begin = at;
	}
	fclose(f);
	if (!end)
		FAIL("no add_dma_entry in /proc/kallsyms");
	snprintf(text, sizeof(text), "0x%llx", begin);
	need_file("/sys/kernel/debug/failslab/reject-start", text);
	need_file("/sys/kernel/debug/fail_page_alloc/reject-start", text);
	snprintf(text, sizeof(text), "0x%llx", end);
	need_file("/sys/kernel/debug/failslab/reject-end", text);
	need_file("/sys/kernel/debug/fail_page_alloc/reject-end", text);
}

static inline void setup(void)
{
	need_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	need_file("/sys/kernel/debug/failslab/verbose", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	need_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	need_file("/sys/kernel/debug/fail_usercopy/verbose", "0");
	spare_dma_checker();
	fail_nth_of("thread-self");
}

/* A loop whose turn n has the n-th allocation fail that is made between begin_failing() and end_failing(). */
struct turns {
	int n, went, hit;
	int may_be_none;	/* that fail */
};

/* For a next turn. The loop ends with the turn in which nothing failed; one that has not ended after @most is a failure. */
static inline int next_turn(struct turns *t, int most)
{
	if (t->n && !t->hit) {
		CHECK(t->went > 0 || t->may_be_none);
		return 0;
	}
	if (t->n >= most)
		FAIL("no end after %d allocations", most);
	t->n++;
	return 1;
}

static inline void begin_failing(const struct turns *t)
{
	fail_nth(t->n);
}

static inline void end_failing(struct turns *t)
{
	t->hit = fired();
	t->went += t->hit;
}

/* The call in between failed: of what was injected, and says so. */
static inline void heard(const struct turns *t, const char *what, int line)
{
	check_errno(what, line);
	if (!t->hit)
		FAIL("line %d: %s failed, and no allocation had", line, what);
}

/* More than any call makes. */
#define TURNS 400

/*
 * Repeats @body with the n-th allocation failing, for n from 1, until nothing failed. What fails in it without an injection, as what an
 * earlier one broke for good would, is a failure.
 */
#define EACH_FAILURE(body) do { \
	struct turns t_ = { 0 }; \
	while (next_turn(&t_, TURNS)) { \
		const unsigned int before_ = refusals; \
		begin_failing(&t_); \
		body; \
		end_failing(&t_); \
		if (!t_.hit && refusals != before_) \
			FAIL("line %d: something failed, and no allocation had", __LINE__); \
	} \
	printf("# %d allocations failed, one at a time\n", t_.went); } while (0)

#endif
