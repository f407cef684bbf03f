// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failure everywhere: each call, each kind of fault, with the n-th allocation of the task failing, for n from 1
 * until nothing fails any more. The call fails with ENOMEM (or works), and the same thing without failure works after.
 */
#include "huvm_lib.h"

static int nth_fd;

/* Fails the n-th allocation of this task from now on. */
static void fail_nth(int n)
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
static int fired(void)
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

/* Copies to and from user space are failed as well as allocations. */
static void check_errno(const char *what, int line)
{
	if (errno != ENOMEM && errno != EFAULT)
		FAIL("line %d: %s: errno %d, %s", line, what, errno, strerror(errno));
}

static void need_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		SKIP("no %s: not a kernel with fault injection", path);
	if (write(fd, text, strlen(text)) < 0)
		FAIL("%s: %s", path, strerror(errno));
	close(fd);
}

static void setup(void)
{
	need_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	need_file("/sys/kernel/debug/failslab/verbose", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	need_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (nth_fd < 0)
		SKIP("no fail-nth");
}

/* Repeats body(n) with the n-th allocation failing until it did not fire. */
#define EACH_FAILURE(body) do { \
	int n_, went_ = 0; \
	for (n_ = 1; n_ < 400; n_++) { \
		int hit_; \
		fail_nth(n_); \
		body; \
		hit_ = fired(); \
		went_ += hit_; \
		if (!hit_) break; \
	} \
	printf("# %d allocations failed, one at a time\n", went_); \
	CHECK(n_ < 400); \
	CHECK(went_ > 0); } while (0)

static void opening(void)
{
	setup();
	EACH_FAILURE({
		int fd = open(HUVM_DEVICE_PATH, O_RDWR);

		if (fd < 0)
			check_errno("the call", __LINE__);
		else
			close(fd);
	});
	close(huvm_open());
}

static void registering(void)
{
	int fd;

	setup();
	fd = huvm_open();
	EACH_FAILURE({
		if (gpu_register(fd, 0) < 0)
			check_errno("the call", __LINE__);
		else if (gpu_unregister(fd, 0) < 0) {
			check_errno("unregister", __LINE__);
			CHECK_OK(gpu_unregister(fd, 0));
		}
	});
	CHECK_OK(gpu_register(fd, 0));
}

static void mapping(void)
{
	int fd;

	setup();
	fd = huvm_open();
	EACH_FAILURE({
		void *p = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED)
			check_errno("the call", __LINE__);
		else
			munmap(p, 2 * BLOCK);
	});
	managed(fd, BLOCK);
}

static void migrating(void)
{
	int fd;
	char *p;
	uint64_t before;

	setup();
	fd = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	before = free_chunks(fd, 0);
	p = managed(fd, 2 * BLOCK);
	EACH_FAILURE({
		if (migrate(fd, p, 2 * BLOCK, 0) < 0)
			check_errno("the call", __LINE__);
		if (migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST) < 0)
			check_errno("the call", __LINE__);
	});
	cpu_fill((uint64_t *)p, 2 * BLOCK, 4, 1);
	EACH_FAILURE({
		if (migrate(fd, p, 2 * BLOCK, 0) < 0)
			check_errno("the call", __LINE__);
		if (migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST) < 0)
			check_errno("the call", __LINE__);
	});
	cpu_check((uint64_t *)p, 2 * BLOCK, 4, 1);
	CHECK_OK(munmap(p, 2 * BLOCK));
	CHECK_EQ(free_chunks(fd, 0), before);
}

static void partial_unmapping(void)
{
	int fd;

	setup();
	fd = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	for (int i = 0; i < 3; i++) {
		char *p = managed(fd, 2 * BLOCK);

		memset(p, 7, 2 * BLOCK);
		CHECK_OK(migrate(fd, p, 2 * BLOCK, 0));
		/* A hole in a GPU block: its 2 MiB entry is split, which takes memory. */
		fail_nth(1 + i);
		if (munmap(p + 64 * PAGE, 64 * PAGE) < 0)
			check_errno("the call", __LINE__);
		fired();
		munmap(p + 64 * PAGE, 64 * PAGE);
		CHECK_EQ(p[0], 7);
		CHECK_EQ(p[128 * PAGE], 7);
		CHECK_EQ(p[2 * BLOCK - 1], 7);
		CHECK_OK(munmap(p, 2 * BLOCK));
	}
}

static void launching(void)
{
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 4);
	uint64_t id;
	int fd;

	setup();
	fd = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	i.dst = (uintptr_t)managed(fd, BLOCK);
	EACH_FAILURE({
		if (launch(fd, 0, 4, &i, 1, 8, &id) < 0)
			check_errno("the call", __LINE__);
		else {
			ARG(huvm_wait, w, .launch = id, .timeout_ns = 60ull * 1000000000ull);

			/* A result that could not be copied out is there for the next call. */
			if (ioctl(fd, HUVM_IOC_WAIT, &w) < 0) {
				check_errno("wait", __LINE__);
				CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &w));
			}
			CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		}
	});
	run_ok(fd, 0, 4, &i, 1, 8);
}

static void looking(void)
{
	struct huvm_block_info b[4];
	int fd;
	char *p;

	setup();
	fd = huvm_open();
	p = managed(fd, BLOCK);
	p[0] = 1;
	EACH_FAILURE({
		ARG(huvm_range_info, r, .nr = 4, .blocks = (uintptr_t)b);
		ARG(huvm_events, e, .mask = 2);

		if (ioctl(fd, HUVM_IOC_RANGE_INFO, &r) < 0)
			check_errno("the call", __LINE__);
		if (ioctl(fd, HUVM_IOC_EVENTS, &e) < 0)
			check_errno("the call", __LINE__);
	});
}

static void host_memory_short_while_evicting(void)
{
	/* The fault service thread itself runs short: every other page allocation of 64 KiB and more fails, some of 4 KiB. */
	const uint32_t blocks = 16;
	int fd;
	uint64_t len, *p;

	setup();
	fd = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 8));
	len = 16 * BLOCK;
	p = managed(fd, len);
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "4");
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "50");
	need_file("/sys/kernel/debug/fail_page_alloc/times", "-1");
	gpu_fill(fd, 0, p, len, blocks, 3, 1);
	gpu_scale(fd, 0, p, len, blocks, 1, 1);
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	CHECK(counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_HOST_FALLBACKS) > 0);
	cpu_check(p, len, 4, 1);
	CHECK_OK(limit_chunks(fd, 0, 0));
}

static const struct ktap_test tests[] = {
	{ "opening", opening }, { "registering", registering }, { "mapping", mapping }, { "migrating", migrating, 120 },
	{ "partial_unmapping", partial_unmapping }, { "launching", launching }, { "looking", looking },
	{ "host_memory_short_while_evicting", host_memory_short_while_evicting },
};
KTAP_MAIN(tests)
