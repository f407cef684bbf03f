// SPDX-License-Identifier: GPL-2.0
/*
 * Any topology: the suite reads the links from the driver and sees that those neighbours lend, all of them, that a fast link
 * joins to the borrower, and nobody else. Run with a ring, with links drawn at random, and without any.
 */
#include "lend_lib.h"

/* Neighbours that a GPU can name (PEER_MAP, Documentation/device.md). */
#define PEER_IDS 8

/* GPUs that may lend to @gpu, as the driver's links and the host link's speed say. */
static uint32_t neighbours(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_info, g, .gpu = gpu);
	uint32_t fast = 0, host;

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &g));
	host = g.host_h2d_mbps > g.host_d2h_mbps ? g.host_h2d_mbps : g.host_d2h_mbps;
	for (uint32_t i = 0; i < g.link_count; i++) {
		ARG(huvm_link_info, l, .gpu = gpu, .index = i);

		CHECK_OK(ioctl(fd, HUVM_IOC_LINK_INFO, &l));
		CHECK(l.peer != gpu);
		/* A profile may know more GPUs than the machine has. */
		if (l.peer >= gpu_count(fd)) {
			CHECK(!l.up);
			continue;
		}
		/* A link joins both ways, and two GPUs once. */
		CHECK(!(fast >> l.peer & 1));
		if (l.up && l.mbps > host)
			fast |= 1u << l.peer;
	}
	return fast;
}

static void links_join_both_ways(void)
{
	int fd = huvm_open();

	for (uint32_t a = 0; a < gpu_count(fd); a++)
		for (uint32_t b = 0; b < gpu_count(fd); b++)
			CHECK_EQ(neighbours(fd, a) >> b & 1, neighbours(fd, b) >> a & 1);
}

/* Each GPU borrows in its turn while all lend; its data is evicted, comes back and is checked to the last byte. */
static void only_neighbours_lend(void)
{
	int fd = begin(~0u, ~0u, 0);
	uint32_t count = gpu_count(fd);

	for (uint32_t g = 0; g < count; g++) {
		uint64_t n[HUVM_MAX_GPUS], out, d2h;
		uint32_t fast = neighbours(fd, g), lenders = 0;
		struct job j;

		CHECK_OK(limit_chunks(fd, g, 4));
		for (uint32_t l = 0; l < count; l++)
			n[l] = of_gpu(fd, l, HUVM_CNT_CHUNKS_LENT);
		out = of_gpu(fd, g, HUVM_CNT_EVICTIONS);
		d2h = of_gpu(fd, g, HUVM_CNT_BYTES_D2H);
		j = job_begin(g, 4 + count, 30 + g);
		job_turn(&j, WIDE);
		job_check_gpu(&j);
		out = of_gpu(fd, g, HUVM_CNT_EVICTIONS) - out;
		d2h = of_gpu(fd, g, HUVM_CNT_BYTES_D2H) - d2h;
		printf("# GPU %u: neighbours %#x, %llu evictions, %llu MiB to the host; lent:", g, fast,
		       (unsigned long long)out, (unsigned long long)(d2h >> 20));
		for (uint32_t l = 0; l < count; l++) {
			n[l] = of_gpu(fd, l, HUVM_CNT_CHUNKS_LENT) - n[l];
			printf(" %llu", (unsigned long long)n[l]);
		}
		printf("\n");
		for (uint32_t l = 0; l < count; l++) {
			CHECK(!n[l] || fast >> l & 1);
			lenders += !!n[l];
		}
		/* All of them, but no more than a GPU has names for. */
		CHECK_EQ(lenders, __builtin_popcount(fast) < PEER_IDS ? __builtin_popcount(fast) : PEER_IDS);
		CHECK(out >= count);
		/* With a neighbour nothing goes over the own host link, without one all of it. */
		CHECK_EQ(!d2h, !!fast);
		job_end(&j);
		all_idle(fd);
		CHECK_OK(limit_chunks(fd, g, 0));
	}
}

/* All GPUs borrow and lend at the same time. */
static void *a_job(void *arg)
{
	struct job *j = arg;

	for (int turn = 0; turn < 2; turn++)
		job_turn(j, WIDE);
	job_end(j);
	return NULL;
}

static void everybody_at_once(void)
{
	int fd = begin(~0u, 0x55555555, 4);
	uint32_t count = gpu_count(fd);
	struct job j[HUVM_MAX_GPUS];
	pthread_t t[HUVM_MAX_GPUS];

	for (uint32_t g = 0; g < count; g++)
		j[g] = job_begin(g, 6, 40 + g);
	for (uint32_t g = 0; g < count; g++)
		CHECK_EQ(pthread_create(&t[g], NULL, a_job, &j[g]), 0);
	for (uint32_t g = 0; g < count; g++)
		CHECK_EQ(pthread_join(t[g], NULL), 0);
	all_idle(fd);
}

/* A buffer goes from each GPU to each, linked or not. */
static void every_pair(void)
{
	int fd = begin(0, 0, 0);
	uint32_t count = gpu_count(fd);
	struct job j = job_begin(0, 1, 50);

	for (uint32_t g = 1; g < count; g++)
		CHECK_OK(gpu_register(j.fd, g));
	for (uint32_t a = 0; a < count; a++)
		for (uint32_t b = 0; b < count; b++) {
			j.gpu = a;
			job_turn(&j, WIDE);
			j.gpu = b;
			job_turn(&j, WIDE);
		}
	job_end(&j);
	all_idle(fd);
}

static const struct ktap_test tests[] = {
	{ "links_join_both_ways", links_join_both_ways, 30 },
	{ "only_neighbours_lend", only_neighbours_lend, 90 },
	{ "everybody_at_once", everybody_at_once, 60 },
	{ "every_pair", every_pair, 60 },
};
KTAP_MAIN(tests)
