// SPDX-License-Identifier: GPL-2.0
/*
 * A lender leaves while two borrow from it: in good order, by a link that goes down, by falling off the bus. What has a second
 * copy stays, who had the only copy there gets a clear error, everybody else none.
 */
#include "lend_lib.h"

#define SMALL 8u
#define WANTED 14u

/* GPUs 0 and 2 borrow from @lenders. */
static int start(uint32_t lenders, uint64_t write_back)
{
	int fd = begin(lenders, 0x5, SMALL);

	for (uint32_t g = 0; g < gpu_count(fd); g++)
		knob(fd, g, "write_back", write_back);
	return fd;
}

static volatile int stop;

static void *turns(void *arg)
{
	struct job *j = arg;

	while (!stop) {
		job_turn(j, WIDE);
		job_check_gpu(j);
	}
	return NULL;
}

static void unbound_while_lending(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = start(0x2, write_back);
		struct job j[2];
		pthread_t t[2];
		char name[32];

		pci_name(fd, 1, name);
		for (uint32_t b = 0; b < 2; b++)
			j[b] = job_begin(2 * b, WANTED, 60 + b);
		stop = 0;
		for (uint32_t b = 0; b < 2; b++)
			CHECK_EQ(pthread_create(&t[b], NULL, turns, &j[b]), 0);
		for (int n = 0; n < 2; n++) {
			usleep(100000);
			CHECK(WITHIN(5000, lent(fd, 1)));
			CHECK_OK(write_file(DRIVER "unbind", name));
			usleep(50000);
			CHECK_OK(write_file(DRIVER "bind", name));
			/* It is a new GPU, with a policy of its own. */
			knob(fd, 1, "harvest_lend", 1);
			knob(fd, 1, "write_back", write_back);
		}
		/* It lends again. */
		CHECK(WITHIN(5000, lent(fd, 1)));
		stop = 1;
		for (uint32_t b = 0; b < 2; b++) {
			CHECK_EQ(pthread_join(t[b], NULL), 0);
			job_end(&j[b]);
		}
		all_idle(fd);
		close(fd);
	}
}

/* Bit of the link from @gpu to @peer in LINK_DOWN. */
static uint32_t link_bit(int fd, uint32_t gpu, uint32_t peer)
{
	for (uint32_t i = 0;; i++) {
		ARG(huvm_link_info, l, .gpu = gpu, .index = i);

		CHECK_OK(ioctl(fd, HUVM_IOC_LINK_INFO, &l));
		if (l.peer == peer)
			return 1u << i;
	}
}

/* The link between a borrower and its lender goes down: what is lent comes home over the lender's own link. */
static void link_goes_down(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = start(0x2, write_back);
		struct job j[2];
		uint64_t n;

		for (uint32_t b = 0; b < 2; b++)
			j[b] = job_begin(2 * b, WANTED, 70 + b);
		CHECK(lent(fd, 1) > 0);
		if (write_back)
			CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
		test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
		/* The driver looks each 100 ms. */
		give_time(400);
		/* The other borrower has its link, and goes on. */
		job_check_gpu(&j[1]);
		job_turn(&j[1], WIDE);
		job_check_gpu(&j[0]);
		job_turn(&j[0], WIDE);
		job_check_gpu(&j[0]);
		/* Nothing new is lent over a link that is down. */
		n = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);
		job_turn(&j[0], WIDE);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS), n);
		/* It comes up again. */
		test_reg(fd, 0, INJ_LINK_DOWN, 0);
		for (int turn = 0; of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) == n; turn++) {
			CHECK(turn < 10);
			give_time(100);
			job_turn(&j[0], WIDE);
		}
		job_end(&j[0]);
		job_end(&j[1]);
		all_idle(fd);
		close(fd);
	}
}

/* Reads all of a job on its GPU. 1: that failed; what was read was right. */
static int read_fails(const struct job *j)
{
	struct huvm_instr in = over(HUVM_OP_CHECK, j->len, WIDE);
	struct huvm_wait w;

	in.a = (uintptr_t)j->p;
	in.imm0 = j->add;
	in.imm1 = j->mul;
	w = run_program(j->fd, j->gpu, WIDE, &in, 1, 8);
	CHECK_EQ(w.mismatches, 0);
	if (w.status == HUVM_LAUNCH_DONE)
		return 0;
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	return 1;
}

static void *turns_until_an_error(void *arg)
{
	while (!stop)
		if (read_fails(arg))
			return arg;
	return NULL;
}

/*
 * The same under load. A chunk that was on its way over the link when it went may be lost: its client has an error then, and
 * SIGBUS for no more pages than GPU 0 can have had on the way, all others are right. The other client has no error, and GPU 0
 * goes on, by the host, until it is bound again.
 */
static void link_goes_down_under_load(void)
{
	int fd = start(0x2, 1), failed;
	struct job j[2];
	pthread_t t[2];
	uint64_t gone;
	void *told;
	char name[32];

	pci_name(fd, 0, name);
	for (uint32_t b = 0; b < 2; b++)
		j[b] = job_begin(2 * b, WANTED, 75 + b);
	stop = 0;
	CHECK_EQ(pthread_create(&t[0], NULL, turns_until_an_error, &j[0]), 0);
	CHECK_EQ(pthread_create(&t[1], NULL, turns, &j[1]), 0);
	usleep((useconds_t)(200000 + chance(200000)));
	test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
	give_time(1000);
	stop = 1;
	CHECK_EQ(pthread_join(t[0], &told), 0);
	CHECK_EQ(pthread_join(t[1], NULL), 0);
	/* It may not have come to what is lost in its last turn. */
	failed = told || read_fails(&j[0]);
	gone = unreadable(j[0].p, j[0].len, j[0].add, j[0].mul);
	printf("# the launch %s, %llu pages are gone\n", failed ? "failed" : "went on", (unsigned long long)gone);
	CHECK(gone <= SMALL * 512);
	CHECK(failed || !gone);
	job_end(&j[1]);
	CHECK_OK(munmap(j[0].p, j[0].len));
	close(j[0].fd);
	all_idle(fd);
	j[0] = job_begin(0, WANTED, 77);
	job_turn(&j[0], WIDE);
	job_end(&j[0]);
	test_reg(fd, 0, INJ_LINK_DOWN, 0);
	rebind(name);
	all_idle(fd);
}

static uint32_t state(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_info, g, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &g));
	return g.state;
}

/* Last: the lender falls off the bus and stays away. GPU 0's pages are on the host too, GPU 2's are not. */
static void lost_while_lending(void)
{
	int fd = start(0x8, 1);
	struct huvm_instr in = over(HUVM_OP_CHECK, WANTED * BLOCK, WIDE);
	struct job safe = job_begin(0, WANTED, 80), bare, other;
	struct huvm_wait w;
	uint64_t only, gone;
	char name[32];

	CHECK(WITHIN(5000, lent(fd, 3) && !mem_info(fd, 3).lent_only));
	knob(fd, 3, "write_back", 0);
	/* The thread that writes back has read it by then. */
	give_time(200);
	bare = job_begin(2, WANTED, 81);
	only = mem_info(fd, 3).lent_only;
	/* More, where some pages of a block came back and others stayed. */
	CHECK(only >= WANTED - SMALL);
	other = job_begin(1, 4, 82);
	pci_name(fd, 3, name);
	test_reg(fd, 3, INJ_GONE, 0xdead);
	/* Nobody has to touch it: the driver looks. */
	CHECK(WITHIN(5000, state(fd, 3) == HUVM_GPU_LOST));
	/* A launch that needs what is gone ends with an error; it does not hang, and reads nothing else instead. */
	in.a = (uintptr_t)bare.p;
	in.imm0 = bare.add;
	in.imm1 = bare.mul;
	w = run_program(bare.fd, 2, WIDE, &in, 1, 8);
	printf("# the launch ended with status %u, error %u\n", w.status, w.error);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK(w.error == HUVM_ERROR_CANCELLED || w.error == HUVM_ERROR_FAULT || w.error == HUVM_ERROR_GPU_LOST);
	CHECK_EQ(w.mismatches, 0);
	/* So does the call. */
	CHECK_ERR(migrate(bare.fd, bare.p, bare.len, 2), EIO);
	/* The others lost nothing: neither the one whose pages the host has, nor the one that never borrowed. */
	job_check_gpu(&safe);
	job_turn(&safe, WIDE);
	job_check_gpu(&safe);
	job_turn(&other, WIDE);
	job_end(&other);
	gone = unreadable(bare.p, bare.len, bare.add, bare.mul);
	printf("# %llu chunks were there alone, %llu pages are gone\n", (unsigned long long)only, (unsigned long long)gone);
	CHECK(gone > 0 && gone <= only * 512);
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK_EQ(unreadable(bare.p, bare.len, bare.add, bare.mul), gone);
	job_turn(&safe, WIDE);
	job_end(&safe);
	CHECK_OK(munmap(bare.p, bare.len));
	close(bare.fd);
	/* What is left of the machine works, and has all of its memory. */
	for (uint32_t g = 0; g < 3; g++)
		gets_idle(fd, g);
	safe = job_begin(2, WANTED, 83);
	job_end(&safe);
}

static const struct ktap_test tests[] = {
	{ "unbound_while_lending", unbound_while_lending, 60 },
	{ "link_goes_down", link_goes_down, 60 },
	{ "link_goes_down_under_load", link_goes_down_under_load, 60 },
	{ "lost_while_lending", lost_while_lending, 60 },
};
KTAP_MAIN(tests)
