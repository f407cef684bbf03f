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

/* A job whose turns a thread takes until `stop`. */
struct turning {
	struct job j;
	pthread_t thread;
};

/* Jobs on GPUs 0 and 2, which borrow from GPU 1, take their turns. */
static void two_begin(struct turning two[2], uint64_t seed)
{
	for (uint32_t b = 0; b < 2; b++)
		two[b].j = job_begin(2 * b, WANTED, seed + b);
	stop = 0;
	for (uint32_t b = 0; b < 2; b++)
		CHECK_EQ(pthread_create(&two[b].thread, NULL, turns, &two[b].j), 0);
}

/* They take no more. */
static void two_stop(struct turning two[2])
{
	stop = 1;
	for (uint32_t b = 0; b < 2; b++)
		CHECK_EQ(pthread_join(two[b].thread, NULL), 0);
}

static void unbound_while_lending(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = start(0x2, write_back);
		struct turning two[2];
		char name[32];

		pci_name(fd, 1, name);
		two_begin(two, 60);
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
		two_stop(two);
		for (uint32_t b = 0; b < 2; b++)
			job_end(&two[b].j);
		all_idle(fd);
		close(fd);
	}
}

/* The link between a borrower and its lender goes down: what is lent comes home over the lender's own link. */
static void link_goes_down(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = start(0x2, write_back);
		struct teller e = teller_begin();
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
		doctor_finds("gpu 0 links *down: to gpu 1");
		tells(&e, "link *gpu0 *to gpu1 is down", 1);
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
		tells(&e, "link *gpu0 *to gpu1 is up again", 1);
		/* The link has two ends, and each tells of itself; nothing else happened. */
		tells(&e, "link *gpu1 *to gpu0 is down", 1);
		tells(&e, "link *gpu1 *to gpu0 is up again", 1);
		tells(&e, "link ", 4);
		tells(&e, "-lost", 0);
		says("doctor", "gpu 0 *ok *0000:");
		teller_end(&e);
		job_end(&j[0]);
		job_end(&j[1]);
		all_idle(fd);
		close(fd);
	}
}

static void *unbind(void *name)
{
	CHECK_OK(write_file(DRIVER "unbind", name));
	return NULL;
}

/*
 * A GPU leaves, and there is no host memory for what it has; another one, which stays, has a copy of some of it. That one is not given
 * up for the one that leaves.
 */
static void who_leaves_keeps_nothing_for_others(void)
{
	int fd = start(0, 0);
	ARG(huvm_test_evict, e, .gpu = 1, .chunks = 1);
	struct job others, j;
	pthread_t t;
	char name[32];

	pci_name(fd, 0, name);
	CHECK_OK(limit_chunks(fd, 0, 0));
	/* These are tried first, in vain. */
	others = job_begin(0, 24, 95);
	j = job_begin(0, 1, 96);
	CHECK_OK(gpu_register(j.fd, 1));
	CHECK_OK(advise(j.fd, j.p, j.len, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(j.fd, 1, j.p, j.len, WIDE, j.add, j.mul);
	for (uint32_t g = 0; g < 2; g++)
		CHECK_EQ(block_info(j.fd, j.p).gpu_pages[g], BLOCK / PAGE);
	CHECK_EQ(block_info(j.fd, j.p).host_pages, 0);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	CHECK_EQ(pthread_create(&t, NULL, unbind, name), 0);
	CHECK(WITHIN(5000, is_listed("host-memory", 0)));
	CHECK_ERR(ioctl(fd, HUVM_IOC_TEST_EVICT, &e), ENOMEM);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(block_info(j.fd, j.p).gpu_pages[1], BLOCK / PAGE);
	cpu_check(j.p, j.len, j.add, j.mul);
	cpu_check(others.p, others.len, others.add, others.mul);
	CHECK_OK(munmap(j.p, j.len));
	CHECK_OK(munmap(others.p, others.len));
	CHECK_OK(close(j.fd));
	CHECK_OK(close(others.fd));
	CHECK_OK(write_file(DRIVER "bind", name));
	all_idle(fd);
	CHECK_OK(close(fd));
}

static void link_is_back(int fd, const char *name)
{
	test_reg(fd, 0, INJ_LINK_DOWN, 0);
	rebind(name);
	all_idle(fd);
	close(fd);
}

/*
 * The same under load. What was on its way over the link when it went is sent to the host instead: nobody loses a page, nobody has
 * an error. GPU 0 goes on, by the host, until it is bound again.
 */
static void link_goes_down_under_load(void)
{
	const int turns_max = rounds(4);
	uint64_t rescued = 0;

	for (int turn = 0; turn < turns_max; turn++) {
		int fd = start(0x2, (uint64_t)turn & 1);
		struct turning two[2];
		struct job *j = &two[0].j;
		char name[32];

		pci_name(fd, 0, name);
		two_begin(two, 75);
		usleep((useconds_t)(100000 + chance(200000)));
		test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
		give_time(500);
		two_stop(two);
		job_check_gpu(j);
		CHECK_EQ(unreadable(j->p, j->len, j->add, j->mul), 0);
		for (uint32_t b = 0; b < 2; b++)
			job_end(&two[b].j);
		rescued += of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
		all_idle(fd);
		*j = job_begin(0, WANTED, 77);
		job_turn(j, WIDE);
		job_end(j);
		link_is_back(fd, name);
	}
	printf("# %llu evictions were on their way and went to the host\n", (unsigned long long)rescued);
}

/*
 * The only copy of what is on its way is in chunks that are others' already. It goes to the host before they get them: when the
 * copies fail, and when the first stands for good.
 */
static void evictions_are_rescued(void)
{
	for (int stands = 0; stands < 2; stands++) {
		int fd = start(0x2, 0);
		struct teller e = teller_begin();
		struct job j;
		char name[32];
		uint64_t id, n, rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);

		pci_name(fd, 0, name);
		n = sending(fd, &j, &id, SMALL);
		if (!stands)
			copies_fail(fd);
		CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
		printf("# %llu evictions were on their way\n", (unsigned long long)n);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED), rescued + n);
		tells(&e, stands ? "channel-lost *gpu0 *peer-out copies: *completed nothing" :
				   "channel-lost *gpu0 *peer-out copies: *faulted again", 1);
		tells(&e, "-lost", 1);
		teller_end(&e);
		doctor_finds("gpu 0 channels *given up: peer-out");
		copies_fail(fd);
		job_check_gpu(&j);
		job_turn(&j, WIDE);
		CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
		job_end(&j);
		all_idle(fd);
		link_is_back(fd, name);
	}
}

/* Threads @t evict @n blocks of GPU 0 to GPU 1, each one; the first copy stands, the others behind it. */
static void sent(int *fd, pthread_t *t, uint32_t n)
{
	uint64_t before = of_gpu(*fd, 0, HUVM_CNT_SPARE_EVICTIONS);

	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, evict_one, fd), 0);
	CHECK(WITHIN(5000, of_gpu(*fd, 0, HUVM_CNT_SPARE_EVICTIONS) == before + n));
}

/* The same with all that it has. */
static void all_sent(int *fd, pthread_t t[SMALL])
{
	test_reg(*fd, 0, INJ_CE_HANG, 1);
	sent(fd, t, SMALL);
	CHECK_EQ(read_reg(*fd, 0, INJ_CE_HANG), 0);
}

/* What the host kept a copy of needs no rescue: what was written does, block by block, and else nothing is copied home. */
static void what_the_host_has_needs_no_rescue(void)
{
	for (int stands = 0; stands < 2; stands++) {
		int fd = start(0x2, 0);
		struct job j = job_make(0, SMALL, 96);
		pthread_t t[SMALL];
		uint64_t home, rescued;
		char name[32];

		pci_name(fd, 0, name);
		CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
		cpu_fill(j.p, j.len, j.add, j.mul);
		job_check_gpu(&j);
		for (uint64_t b = 0; b < SMALL; b++)
			CHECK_EQ(block_info(j.fd, j.p + b * BLOCK / 8).host_pages, BLOCK / PAGE);
		/* Every other block. */
		for (uint64_t b = 0; b < SMALL; b += 2)
			gpu_fill(j.fd, 0, j.p + b * BLOCK / 8, BLOCK, WIDE, j.add + j.mul * (b * BLOCK / 8), j.mul);
		home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
		rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
		all_sent(&fd, t);
		test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
		if (!stands)
			copies_fail(fd);
		for (uint32_t n = 0; n < SMALL; n++)
			CHECK_EQ(pthread_join(t[n], NULL), 0);
		CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED), rescued + SMALL / 2);
		CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H), home + SMALL / 2 * BLOCK);
		copies_fail(fd);
		job_end(&j);
		all_idle(fd);
		link_is_back(fd, name);
	}
}

/* Both engines of GPU 0 that evict were given up, and no more than that went wrong: the CPU has brought all of @j home. */
static void both_given_up(int fd, struct teller *e, struct job *j)
{
	char name[32];

	pci_name(fd, 0, name);
	tells(e, "channel-lost *gpu0 *peer-out copies: *completed nothing", 1);
	tells(e, "channel-lost *gpu0 *gpu-to-host copies: *completed nothing", 1);
	tells(e, "-lost", 2);
	teller_end(e);
	CHECK_EQ(unreadable(j->p, j->len, j->add, j->mul), 0);
	job_end(j);
	all_idle(fd);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	rebind(name);
	all_idle(fd);
	close(fd);
}

/*
 * Two engines stand, one behind the other: that which evicts to a neighbour, and then that for the host, by which this is to come home. The CPU
 * reads what neither could bring, a block among it of which half was on its way by the second one, whose channel had no room for more.
 */
static void evictions_are_rescued_twice(void)
{
	int fd = start(0x2, 0);
	struct job j = job_begin(0, SMALL, 94);
	struct teller e = teller_begin();
	pthread_t t[SMALL];

	/* So many copies for each. */
	knob(fd, 0, "large_page_evict", 0);
	knob(fd, 0, "host_chunk_sizes", 0);
	all_sent(&fd, t);
	/* The next one too. */
	test_reg(fd, 0, INJ_CE_HANG, 1);
	for (uint32_t n = 0; n < SMALL; n++)
		CHECK_EQ(pthread_join(t[n], NULL), 0);
	both_given_up(fd, &e, &j);
}

static void *peer_test(void *arg)
{
	ARG(huvm_selftest_arg, t, .gpu = 0, .test = HUVM_SELFTEST_PEER, .arg = 1);

	CHECK_ERR(ioctl(*(int *)arg, HUVM_IOC_TEST_SELFTEST, &t), EIO);
	return NULL;
}

/*
 * The engine that evicts to a neighbour stands, and what it was copying is to come home by one in whose ring something waits for that very
 * engine: neither goes on, until the second is given up too, and the CPU reads it all.
 */
static void rescued_behind_itself(void)
{
	int fd = start(0x2, 0);
	struct job j = job_begin(0, SMALL - 1, 95);
	struct teller e = teller_begin();
	pthread_t test, t[SMALL];

	/* Its first copy is from the host, its second to the neighbour, its last home again, behind that. */
	test_reg(fd, 0, INJ_CE_HANG, 2);
	CHECK_EQ(pthread_create(&test, NULL, peer_test, &fd), 0);
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_HANG)));
	CHECK(WITHIN(5000, is_listed("copy", 0)));
	sent(&fd, t, SMALL - 1);
	for (uint32_t n = 0; n < SMALL - 1; n++)
		CHECK_EQ(pthread_join(t[n], NULL), 0);
	CHECK_EQ(pthread_join(test, NULL), 0);
	both_given_up(fd, &e, &j);
}

/* A lender wants its memory back, and its engine for that stands: the borrower's pages come home all the same. */
static void taken_back_by_the_cpu(void)
{
	int fd = start(0x2, 0);
	uint64_t rescued = of_gpu(fd, 1, HUVM_CNT_EVICTIONS_RESCUED);
	struct job j, own, more;
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(limit_chunks(fd, 1, 2 * SMALL));
	j = job_begin(0, WANTED, 90);
	CHECK(lent(fd, 1) >= 3);
	own = job_begin(1, free_chunks(fd, 1), 91);
	test_reg(fd, 1, INJ_CE_HANG, 1);
	more = job_begin(1, 2, 92);
	CHECK(of_gpu(fd, 1, HUVM_CNT_EVICTIONS_RESCUED) > rescued);
	doctor_finds("gpu 1 channels *given up: gpu-to-host; *bind it again");
	CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
	job_end(&more);
	job_end(&own);
	job_end(&j);
	CHECK_OK(limit_chunks(fd, 1, 0));
	rebind(name);
	all_idle(fd);
	close(fd);
}

/* Its client is killed meanwhile: nothing is left behind. */
static void killed_while_rescued(void)
{
	int fd = start(0x2, 0);
	struct job j;
	char name[32];
	uint64_t id;
	pid_t pid;
	int told[2], n;

	pci_name(fd, 0, name);
	CHECK_OK(pipe(told));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		sending(fd, &j, &id, SMALL);
		CHECK_EQ(write(told[1], "", 1), 1);
		for (;;)
			pause();
	}
	close(told[1]);
	CHECK_EQ(read(told[0], &n, 1), 1);
	close(told[0]);
	copies_fail(fd);
	usleep((useconds_t)chance(20000));
	end_child(pid);
	all_idle(fd);
	j = job_begin(0, WANTED, 91);
	job_end(&j);
	link_is_back(fd, name);
}

/* There is no memory for them on the host: then they are lost, and that is said in time. Nothing else is. */
static void no_memory_to_rescue(void)
{
	int fd = start(0x2, 0);
	struct huvm_instr in = over(HUVM_OP_CHECK, SMALL * BLOCK, WIDE);
	struct huvm_wait w;
	struct job j;
	uint64_t id, gone, rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
	char name[32];
	time_t began;

	pci_name(fd, 0, name);
	sending(fd, &j, &id, SMALL);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	began = time(NULL);
	copies_fail(fd);
	/* What it evicts later finds no memory either. */
	w = wait_launch(j.fd, id);
	CHECK(w.status == HUVM_LAUNCH_DONE || w.status == HUVM_LAUNCH_FAILED);
	CHECK(time(NULL) - began <= 8 * time_scale());
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED), rescued);
	in.a = (uintptr_t)j.p;
	in.imm0 = j.add;
	in.imm1 = j.mul;
	w = run_program(j.fd, 0, WIDE, &in, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.mismatches, 0);
	gone = unreadable(j.p, j.len / 2, j.add, j.mul);
	printf("# %llu pages are gone\n", (unsigned long long)gone);
	CHECK(gone > 0 && gone <= SMALL * 512);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	all_idle(fd);
	link_is_back(fd, name);
}

/*
 * There is none for a moment, and it takes long to go through the blocks of another client to those that are to be rescued: all of
 * them are, for each is tried more than once.
 */
static void rescued_behind_many_blocks(void)
{
	const uint64_t many = 60000;
	int fd, other;
	uint64_t id, n, rescued;
	char name[32];
	struct job j;
	double took;
	void *p;

	/* To make so many takes the debug kernel a minute. */
	if (rounds(1) == 1)
		SKIP("only with LONG=1");
	fd = start(0x2, 0);
	other = huvm_open();
	p = managed(other, many * BLOCK);
	pci_name(fd, 0, name);
	CHECK_OK(advise(other, p, many * BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
	n = sending(fd, &j, &id, SMALL);
	took = -seconds();
	let_fail(fd, HUVM_FAIL_DMA_MAP, SMALL);
	copies_fail(fd);
	CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
	took += seconds();
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED) - rescued;
	printf("# %llu of %llu evictions rescued after %.1f s\n", (unsigned long long)rescued, (unsigned long long)n, took);
	CHECK_EQ(rescued, n);
	CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
	job_end(&j);
	CHECK_OK(munmap(p, many * BLOCK));
	close(other);
	all_idle(fd);
	link_is_back(fd, name);
}

/* An engine that evicts was given up: the CPU copies in its place for who waits for a chunk, and nothing ahead of need. */
static void nothing_ahead_by_the_cpu(void)
{
	int fd = start(0, 0);
	struct job old = job_begin(0, SMALL, 97), j;
	uint64_t evicted, ahead, in_fault;
	char name[32];
	pthread_t t;

	pci_name(fd, 0, name);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	CHECK_EQ(pthread_create(&t, NULL, evict_one, &fd), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	doctor_finds("gpu 0 channels *given up: gpu-to-host");
	knob(fd, 0, "stream_prefetch", 1);
	knob(fd, 0, "prefetch_confirm_steps", 1);
	j = job_make(0, WANTED, 98);
	cpu_fill(j.p, j.len, j.add, j.mul);
	evicted = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
	in_fault = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_IN_FAULT);
	ahead = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS);
	job_turn(&j, 1);
	evicted = of_gpu(fd, 0, HUVM_CNT_EVICTIONS) - evicted;
	in_fault = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_IN_FAULT) - in_fault;
	ahead = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS) - ahead;
	printf("# %llu evictions, %llu of them in faults, %llu blocks ahead\n", (unsigned long long)evicted, (unsigned long long)in_fault,
	       (unsigned long long)ahead);
	CHECK(in_fault > 0);
	CHECK_EQ(evicted, in_fault);
	job_end(&j);
	job_end(&old);
	all_idle(fd);
	rebind(name);
	all_idle(fd);
	close(fd);
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
	CHECK(WITHIN(5000, gpu_state(fd, 3) == HUVM_GPU_LOST));
	doctor_finds("gpu 3 *lost: it does not answer");
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

/*
 * Last, too: a call pushes to a GPU that is gone, which nobody knows yet. What is where it was stays there. So does what another GPU has as
 * well: neither copy goes for the one over there.
 */
static void pushed_to_what_is_gone(void)
{
	enum { EVICTED = 4 };
	const uint64_t both = (EVICTED + 1) * BLOCK;
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK), *q = managed(fd, both);

	CHECK_OK(gpu_register(fd, 1));
	CHECK_OK(gpu_register(fd, 2));
	gpu_fill(fd, 1, p, BLOCK, WIDE, 84, 3);
	CHECK_EQ(block_info(fd, p).host_pages, 0);
	CHECK_OK(advise(fd, q, both, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_fill(fd, 2, q, both, WIDE, 85, 5);
	gpu_check(fd, 1, q, both, WIDE, 85, 5);
	for (uint64_t at = 0; at < both / 8; at += BLOCK / 8) {
		struct huvm_block_info r = block_info(fd, q + at);

		CHECK(r.gpu_pages[1] == BLOCK / PAGE && r.gpu_pages[2] == BLOCK / PAGE && !r.host_pages);
	}
	test_reg(fd, 2, INJ_GONE, 0xdead);
	/* All but two chunks: what was there first goes first. */
	CHECK_OK(limit_chunks(fd, 1, 2));
	CHECK_ERR(migrate(fd, q + EVICTED * BLOCK / 8, BLOCK, 2), EIO);
	CHECK_ERR(migrate(fd, p, BLOCK, 2), EIO);
	CHECK_EQ(unreadable(q, both, 85, 5), 0);
	CHECK_OK(limit_chunks(fd, 1, 0));
	CHECK_EQ(unreadable(p, BLOCK, 84, 3), 0);
	gpu_check(fd, 1, p, BLOCK, WIDE, 84, 3);
	gpu_check(fd, 1, q, both, WIDE, 85, 5);
	CHECK(WITHIN(5000, gpu_state(fd, 2) == HUVM_GPU_LOST));
	CHECK_OK(munmap(p, BLOCK));
	CHECK_OK(close(fd));
}

/*
 * The last one: a fetch overtakes a write-back, which comes home, and then the lender dies before the fetch is over. What it brings are
 * all ones; the host has the pages.
 */
static void written_back_and_overtaken(void)
{
	int fd = huvm_open();
	struct huvm_instr in = over(HUVM_OP_CHECK, BLOCK, 1);
	uint64_t overtaken, id;
	struct huvm_wait w;
	struct job j;

	for (uint32_t g = 0; g < 2; g++) {
		gpu_begins(fd, g, "demand", g == 1);
		CHECK_OK(limit_chunks(fd, g, g ? 0 : SMALL));
		gets_idle(fd, g);
	}
	knob(fd, 1, "write_back", 0);
	j = job_make(0, SMALL + 1, 86);
	/* One block of the GPU: the first is evicted, by the last, which makes room for it again. */
	gpu_fill(j.fd, 0, j.p, j.len, 1, j.add, j.mul);
	CHECK_EQ(lent(fd, 1), 1);
	CHECK_OK(munmap((char *)j.p + j.len - BLOCK, BLOCK));
	j.len -= BLOCK;
	overtaken = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_OVERTAKEN);
	test_reg(fd, 1, INJ_CE_HANG, 1);
	knob(fd, 1, "write_back", 1);
	CHECK(WITHIN(5000, !read_reg(fd, 1, INJ_CE_HANG)));
	test_reg(fd, 0, INJ_CE_HANG, 1);
	in.a = (uintptr_t)j.p;
	in.imm0 = j.add;
	in.imm1 = j.mul;
	CHECK_OK(launch(j.fd, 0, 1, &in, 1, 8, &id));
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_HANG)));
	CHECK(WITHIN(5000, of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_OVERTAKEN) == overtaken + 1));
	test_reg(fd, 1, INJ_CE_HANG, 0);
	give_time(300);
	test_reg(fd, 1, INJ_GONE, 0xdead);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	w = wait_launch(j.fd, id);
	CHECK_EQ(w.mismatches, 0);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
	CHECK(WITHIN(5000, gpu_state(fd, 1) == HUVM_GPU_LOST));
	job_turn(&j, WIDE);
	job_end(&j);
	CHECK_OK(close(fd));
}

/* The job's block comes to GPU 0 by a call. */
static void *comes(void *arg)
{
	struct job *j = arg;

	CHECK_OK(migrate(j->fd, j->p, j->len, 0));
	return NULL;
}

/*
 * A client leaves the GPU while a batch with its faults waits for another client's block, and comes back: what is planned of its
 * own later finds it gone, and stays out of the blocks. A first batch, which waits as well, has the faults of both come in one.
 */
static void left_while_it_is_served(void)
{
	const unsigned int slow = 1000000;
	int fd = begin(1u << 1, 0, 0);
	struct job first, other, j;
	pthread_t calls[2];
	uint64_t ids[2];

	for (uint32_t g = 0; g < 2; g++)
		gpu_begins(fd, g, "huvm", g == 1);
	/* Blocks that are not a stream's ask whether they are to come whole. */
	knob(fd, 0, "stream_prefetch", 0);
	for (int n = 0; n < 3; n++) {
		first = job_make(0, 1, 1);
		other = job_make(0, 1, 2);
		j = job_make(0, 8, 3);
		cpu_fill(first.p, first.len, 0, first.mul);
		cpu_fill(other.p, other.len, 0, other.mul);
		cpu_fill(j.p, j.len, 0, j.mul);
		test_reg(fd, 0, INJ_LATENCY, slow * 1000);
		CHECK_EQ(pthread_create(&calls[0], NULL, comes, &first), 0);
		usleep(slow / 5);
		ids[0] = job_fills(&first);
		usleep(slow / 5);
		CHECK_EQ(pthread_create(&calls[1], NULL, comes, &other), 0);
		usleep(slow / 5);
		ids[1] = job_fills(&other);
		job_fills(&j);
		/* The first one's is there; the other one's takes its time. */
		CHECK_EQ(pthread_join(calls[0], NULL), 0);
		usleep(slow / 10);
		CHECK_OK(gpu_unregister(j.fd, 0));
		test_reg(fd, 0, INJ_LATENCY, 0);
		CHECK_EQ(pthread_join(calls[1], NULL), 0);
		CHECK_EQ(wait_launch(first.fd, ids[0]).status, HUVM_LAUNCH_DONE);
		CHECK_EQ(wait_launch(other.fd, ids[1]).status, HUVM_LAUNCH_DONE);
		job_end(&first);
		job_end(&other);
		cpu_fill(j.p, j.len, j.add, j.mul);
		CHECK_OK(gpu_register(j.fd, 0));
		job_end(&j);
	}
	gets_idle(fd, 0);
	gets_idle(fd, 1);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "unbound_while_lending", unbound_while_lending, 60 },
	{ "who_leaves_keeps_nothing_for_others", who_leaves_keeps_nothing_for_others, 60 },
	{ "link_goes_down", link_goes_down, 60 },
	{ "link_goes_down_under_load", link_goes_down_under_load, 60 },
	{ "evictions_are_rescued", evictions_are_rescued, 60 },
	{ "what_the_host_has_needs_no_rescue", what_the_host_has_needs_no_rescue, 60 },
	{ "evictions_are_rescued_twice", evictions_are_rescued_twice, 60 },
	{ "rescued_behind_itself", rescued_behind_itself, 120 },
	{ "taken_back_by_the_cpu", taken_back_by_the_cpu, 60 },
	{ "killed_while_rescued", killed_while_rescued, 60 },
	{ "no_memory_to_rescue", no_memory_to_rescue, 60 },
	{ "rescued_behind_many_blocks", rescued_behind_many_blocks, 120 },
	{ "nothing_ahead_by_the_cpu", nothing_ahead_by_the_cpu, 60 },
	{ "left_while_it_is_served", left_while_it_is_served, 60 },
	{ "lost_while_lending", lost_while_lending, 60 }, { "pushed_to_what_is_gone", pushed_to_what_is_gone },
	{ "written_back_and_overtaken", written_back_and_overtaken },
};
KTAP_MAIN(tests)
