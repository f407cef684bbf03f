// SPDX-License-Identifier: GPL-2.0
/* Processes that die at any time, files that close under work, several GPUs. */
#include "huvm_lib.h"
#include <pthread.h>

#define LEN (16 * BLOCK)

static void busy_child(void)
{
	int fd = huvm_open();
	uint32_t n = gpu_count(fd);
	char *p = managed(fd, LEN);

	for (uint32_t g = 0; g < n; g++)
		CHECK_OK(gpu_register(fd, g));
	for (int i = 0;; i++) {
		gpu_scale(fd, (uint32_t)i % n, p, LEN, 16, 1, 1);
		for (uint64_t o = 0; o < LEN; o += 3 * PAGE)
			p[o]++;
	}
}

static void killed_at_any_time(void)
{
	int fd = huvm_open();

	for (int i = 0; i < 25; i++) {
		uint64_t launches = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_LAUNCHES);
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			busy_child();
		/* Every other one when it works, however long it takes it to come to that. */
		if (i & 1)
			CHECK(WITHIN(10000, counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_LAUNCHES) > launches));
		usleep(3000 + 17001 * (i % 13));
		end_child(pid);
		/* Everything it had is free again. */
		all_idle(fd);
	}
	CHECK(WITHIN(5000, client_count(fd) == 1));
}

static void closed_while_running(void)
{
	for (int i = 0; i < 10; i++) {
		int fd = huvm_open();
		void *p = managed(fd, LEN);
		struct huvm_instr in = over(HUVM_OP_FILL, LEN, 16);
		uint64_t id;

		CHECK_OK(gpu_register(fd, 0));
		in.dst = (uintptr_t)p;
		CHECK_OK(launch(fd, 0, 16, &in, 1, 8, &id));
		usleep(500 * i);
		if (i & 1) {
			munmap(p, LEN);
			close(fd);
		} else {
			close(fd);
			munmap(p, LEN);
		}
	}
	all_idle(huvm_open());
}

static void signal_ends_a_wait(void)
{
	int fd = huvm_open();
	pid_t pid = fork();

	if (!pid) {
		struct huvm_instr in = till_ended();
		uint64_t id;

		fd = huvm_open();
		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(launch(fd, 0, 1, &in, 1, 8, &id));
		wait_launch(fd, id);
		_exit(9);
	}
	CHECK(WITHIN(5000, is_listed("launch", pid)));
	end_child(pid);
	gets_idle(fd, 0);
}

static void gpus_share_a_range(void)
{
	int fd = huvm_open();
	uint32_t n = gpu_count(fd);
	void *p = managed(fd, LEN);

	if (n < 2)
		SKIP("one GPU");
	for (uint32_t g = 0; g < n; g++)
		CHECK_OK(gpu_register(fd, g));
	cpu_fill(p, LEN, 1, 1);
	for (uint32_t i = 0; i < 2 * n; i++) {
		gpu_scale(fd, i % n, p, LEN, 16, 1, 1);
		CHECK_EQ(block_info(fd, p).gpu_pages[i % n], 512);
		CHECK_EQ(block_info(fd, p).gpu_pages[(i + 1) % n], 0);
	}
	cpu_check(p, LEN, 1 + 2 * n, 1);
}

struct worker {
	int fd;
	uint32_t gpu;
	char *p;
	int turns;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	/* Word `gpu` of every page is this GPU's own; the pages are everybody's. */
	for (int i = 0; i < w->turns; i++) {
		struct huvm_instr in = { .op = HUVM_OP_SCALE, .count = 1, .steps = LEN / PAGE / 8, .step_stride = PAGE,
					 .block_stride = LEN / 8, .imm0 = 1, .imm1 = 1 };

		in.a = in.dst = (uintptr_t)w->p + 8 * w->gpu;
		run_ok(w->fd, w->gpu, 8, &in, 1, 8);
	}
	return NULL;
}

static void gpus_race(void)
{
	int fd = huvm_open();
	uint32_t n = gpu_count(fd);
	char *p = managed(fd, LEN);
	struct worker w[HUVM_MAX_GPUS];
	pthread_t t[HUVM_MAX_GPUS];

	if (n < 2)
		SKIP("one GPU");
	for (uint32_t g = 0; g < n; g++) {
		CHECK_OK(gpu_register(fd, g));
		w[g] = (struct worker){ fd, g, p, 3 };
	}
	for (uint32_t g = 0; g < n; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, work, &w[g]), 0);
	for (uint32_t g = 0; g < n; g++)
		pthread_join(t[g], NULL);
	for (uint64_t pg = 0; pg < LEN / PAGE; pg++)
		for (uint32_t g = 0; g < n; g++)
			CHECK_EQ(*(uint64_t *)(p + pg * PAGE + 8 * g), 3);
}

static const struct ktap_test tests[] = {
	{ "killed_at_any_time", killed_at_any_time, 120 }, { "closed_while_running", closed_while_running },
	{ "signal_ends_a_wait", signal_ends_a_wait }, { "gpus_share_a_range", gpus_share_a_range },
	{ "gpus_race", gpus_race, 120 },
};
KTAP_MAIN(tests)
