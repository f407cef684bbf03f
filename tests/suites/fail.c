// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failure everywhere: each call, each kind of fault, with the n-th allocation of the task failing, for n from 1
 * until nothing fails any more. The call fails with ENOMEM (or works), and the same thing without failure works after.
 */
#include "fail_lib.h"

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
