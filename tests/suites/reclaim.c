// SPDX-License-Identifier: GPL-2.0
/*
 * The owner takes memory back while something else happens to the very chunk: a write-back, a fetch over the peer link, a
 * fetch ahead, the end of the borrower. The device holds a copy (CE_HANG, LATENCY_NS) until the reclaim is seen to wait for
 * it; so each meeting takes place, every time, and a test fails if it does not.
 *
 * GPU 0 borrows, GPU 1 lends.
 */
#include "lend_lib.h"

#define SMALL 8u
/* Of each wait for something that needs no copy which is held. The driver itself gives up a copy that stands still for 10 s. */
#define HELD_MS 8000

/* GPU 0 has SMALL chunks; GPU 1 writes back or not. */
static int start(uint64_t write_back)
{
	int fd = begin(0x2, 0x1, SMALL);

	knob(fd, 1, "write_back", write_back);
	/* Everything lent at once. */
	knob(fd, 1, "write_back_in_flight_chunks", 64);
	return fd;
}

/* A job that fills SMALL + @lent_blocks blocks, one after the other: the first @lent_blocks of them are evicted to GPU 1. */
static struct job borrow(int fd, uint64_t lent_blocks)
{
	struct job j = job_make(0, SMALL + lent_blocks, 3);

	/* One block of the GPU, so that the order is known. */
	gpu_fill(j.fd, 0, j.p, j.len, 1, j.add, j.mul);
	CHECK_EQ(lent(fd, 1), lent_blocks);
	return j;
}

/* The owner's jobs: one has all that is free; the other one's every chunk, from its first page on, is a reclaim. */
struct owner {
	struct job full, j;
	uint64_t launch;
};

/* All but the launch is done when it comes, so that it comes at once. */
static struct owner owner(int fd)
{
	struct owner o = { .full = job_begin(1, mem_info(fd, 1).free, 11) };

	CHECK_EQ(mem_info(fd, 1).free, 0);
	o.j = job_make(1, lent(fd, 1), 9);
	return o;
}

static void owner_comes(struct owner *o)
{
	o->launch = job_fills(&o->j);
}

static void owner_goes(struct owner *o)
{
	CHECK_EQ(wait_launch(o->j.fd, o->launch).status, HUVM_LAUNCH_DONE);
	job_check_gpu(&o->j);
	job_end(&o->j);
	job_end(&o->full);
}

/* The next launch of the GPU's copy engines stands still; waits until one does. */
#define HOLD(fd, gpu) test_reg(fd, gpu, INJ_CE_HANG, 1)
#define HELD(fd, gpu) CHECK(WITHIN(HELD_MS, !read_reg(fd, gpu, INJ_CE_HANG)))
#define RELEASE(fd, gpu) test_reg(fd, gpu, INJ_CE_HANG, 0)

/* Launches a check of the first @len bytes of a job, and does not wait for it. */
static uint64_t check_begins(const struct job *j, uint64_t len, uint32_t wide)
{
	struct huvm_instr in = over(HUVM_OP_CHECK, len, wide);
	uint64_t id;

	in.a = (uintptr_t)j->p;
	in.imm0 = j->add;
	in.imm1 = j->mul;
	CHECK_OK(launch(j->fd, j->gpu, wide, &in, 1, 8, &id));
	return id;
}

/* One and the same chunk of GPU 1 is in the owner's hands for a while: the reclaim waits. */
static int waits(int fd)
{
	uint64_t done = of_gpu(fd, 1, HUVM_CNT_RECLAIMS);

	if (!mem_info(fd, 1).evicting)
		return 0;
	usleep(50000);
	return mem_info(fd, 1).evicting && of_gpu(fd, 1, HUVM_CNT_RECLAIMS) == done;
}

static void reclaim_waits(int fd)
{
	CHECK(WITHIN(HELD_MS, waits(fd)));
}

static void during_write_back(void)
{
	int fd = start(0);
	struct job j = borrow(fd, 4);
	struct owner o = owner(fd);

	HOLD(fd, 1);
	knob(fd, 1, "write_back", 1);
	HELD(fd, 1);
	/* All of them are on their way: whichever the owner takes is. */
	CHECK(WITHIN(HELD_MS, copying(j.p, j.len) == 4));
	owner_comes(&o);
	reclaim_waits(fd);
	CHECK_EQ(copying(j.p, j.len), 4);
	RELEASE(fd, 1);
	owner_goes(&o);
	job_turn(&j, WIDE);
	job_end(&j);
	all_idle(fd);
}

/*
 * The borrower wants blocks back that are being written back. It does not wait for that to begin its fetch, and nobody has the
 * chunk before both copies are over. @fails: the write-back does in the end; the pages are where they were, and come all the same.
 */
static void fetched_during_write_back_that(int fails)
{
	int fd = start(0);
	struct job j = borrow(fd, 4);
	uint64_t id, overtaken = of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_OVERTAKEN), hits = of_gpu(fd, 0, HUVM_CNT_SPARE_HIT_BYTES);

	test_reg(fd, 1, INJ_CE_FAULT, fails);
	HOLD(fd, 1);
	knob(fd, 1, "write_back", 1);
	HELD(fd, 1);
	CHECK(WITHIN(HELD_MS, copying(j.p, 4 * BLOCK) == 4));
	id = check_begins(&j, 4 * BLOCK, WIDE);
	/* Those of the first batch of faults are begun beside the copies that stand still, which they are not over before. */
	CHECK(WITHIN(HELD_MS, of_gpu(fd, 1, HUVM_CNT_WRITE_BACKS_OVERTAKEN) > overtaken));
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_HIT_BYTES) > hits);
	usleep(50000);
	CHECK_EQ(copying(j.p, 4 * BLOCK), 4);
	RELEASE(fd, 1);
	CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
	job_check_gpu(&j);
	job_turn(&j, WIDE);
	job_end(&j);
	test_reg(fd, 1, INJ_CE_FAULT, 0);
	all_idle(fd);
	close(fd);
}

static void fetched_during_write_back(void)
{
	fetched_during_write_back_that(0);
}

static void fetched_during_write_back_that_fails(void)
{
	fetched_during_write_back_that(1);
}

/* The block is on its way back, and its chunk wanted by the owner. */
static void during_fetch(void)
{
	for (uint64_t write_back = 0; write_back < 2; write_back++) {
		int fd = start(write_back);
		struct job j = borrow(fd, 1);
		struct owner o = owner(fd);
		struct huvm_wait w;
		uint64_t id;

		if (write_back)
			CHECK(WITHIN(HELD_MS, mem_info(fd, 1).lent_removable == 1));
		/* Room on GPU 0, so that the fetch is the first copy: the last block goes. */
		CHECK_OK(munmap((char *)j.p + j.len - BLOCK, BLOCK));
		j.len -= BLOCK;
		HOLD(fd, 0);
		id = check_begins(&j, BLOCK, 1);
		HELD(fd, 0);
		CHECK(WITHIN(HELD_MS, copying(j.p, BLOCK)));
		owner_comes(&o);
		reclaim_waits(fd);
		RELEASE(fd, 0);
		w = wait_launch(j.fd, id);
		CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		CHECK_EQ(w.mismatches, 0);
		owner_goes(&o);
		job_turn(&j, WIDE);
		job_end(&j);
		all_idle(fd);
		close(fd);
	}
}

/* Blocks fetched ahead of a stream are on their way, and their chunks wanted. */
static void during_prefetch(void)
{
	int fd = start(1);
	uint64_t ahead = of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS);
	struct job j = borrow(fd, SMALL);
	struct owner o = owner(fd);
	uint64_t id;

	CHECK(WITHIN(HELD_MS, mem_info(fd, 1).lent_removable == SMALL));
	knob(fd, 0, "stream_prefetch", 1);
	knob(fd, 0, "prefetch_confirm_steps", 1);
	/* Each copy of GPU 0 takes its time: two demand fetches, then those ahead. */
	test_reg(fd, 0, INJ_LATENCY, 1500000000);
	id = check_begins(&j, 2 * BLOCK, 1);
	CHECK(WITHIN(HELD_MS, of_gpu(fd, 0, HUVM_CNT_PREFETCH_BLOCKS) > ahead && copying(j.p + 2 * BLOCK / 8, 6 * BLOCK)));
	owner_comes(&o);
	/* For one of them, since nothing else is under way to or from what is lent. */
	CHECK(WITHIN(HELD_MS, waits(fd) && copying(j.p, j.len)));
	test_reg(fd, 0, INJ_LATENCY, 0);
	CHECK_EQ(wait_launch(j.fd, id).status, HUVM_LAUNCH_DONE);
	owner_goes(&o);
	job_turn(&j, 1);
	job_end(&j);
	all_idle(fd);
}

/* A borrower in a process of its own, which says when its memory is lent and its launch is over. */
static pid_t child(int fd, uint64_t lent_blocks)
{
	int said[2];
	char word;
	pid_t pid;

	CHECK_OK(pipe(said));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		borrow(huvm_open(), lent_blocks);
		CHECK_EQ(write(said[1], "x", 1), 1);
		for (;;)
			pause();
	}
	/* Else the end of a child that failed would not be heard of. */
	close(said[1]);
	CHECK_EQ(read(said[0], &word, 1), 1);
	close(said[0]);
	CHECK_EQ(lent(fd, 1), lent_blocks);
	return pid;
}

/* @owner_first: the reclaim is under way when the borrower ends; else the borrower ends while a write-back is, and then the owner comes. */
static void exits(int owner_first)
{
	int fd = start(0), status;
	pid_t pid = child(fd, 4);
	struct owner o = owner(fd);
	uint64_t copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED);

	HOLD(fd, 1);
	if (owner_first)
		owner_comes(&o);
	else
		knob(fd, 1, "write_back", 1);
	HELD(fd, 1);
	/* The owner has the chunk in hand already, and writes it when the copy out of it is over. */
	if (owner_first)
		CHECK(WITHIN(HELD_MS, of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED) > copied));
	CHECK(WITHIN(HELD_MS, copying(NULL, ~0ull)));
	CHECK_OK(kill(pid, SIGKILL));
	usleep(100000);
	/* Its memory is being copied: it cannot go yet. (If it has not even heard of its end, this says nothing.) */
	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	if (!owner_first) {
		owner_comes(&o);
		reclaim_waits(fd);
	}
	RELEASE(fd, 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	owner_goes(&o);
	all_idle(fd);
}

static void exit_during_reclaim(void)
{
	exits(1);
}

static void reclaim_during_exit(void)
{
	exits(0);
}

/* What the host has too is had back without any copy: the count and the bytes say so. */
static void removable_without_copy(void)
{
	int fd = start(1);
	struct job j = borrow(fd, 6);
	uint64_t copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED), back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS);
	struct owner o = owner(fd);
	uint64_t d2h;

	CHECK(WITHIN(HELD_MS, mem_info(fd, 1).lent_removable == 6));
	d2h = of_gpu(fd, 1, HUVM_CNT_BYTES_D2H);
	owner_comes(&o);
	CHECK_EQ(wait_launch(o.j.fd, o.launch).status, HUVM_LAUNCH_DONE);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) - back, 6);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED), copied);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_BYTES_D2H), d2h);
	job_end(&o.j);
	job_end(&o.full);
	job_turn(&j, WIDE);
	job_end(&j);
	all_idle(fd);
}

static void lender_has_its_own_to_evict(void)
{
	/* Nothing that is lent can come home, for want of mappings; what the lender's own job has is mapped there already, and makes room. */
	int fd = start(0);
	uint64_t chunks = mem_info(fd, 1).free;
	struct job o = job_make(1, chunks + 2, 21), j;

	cpu_fill(o.p, o.len, o.add, o.mul);
	job_check_gpu(&o);
	CHECK_OK(migrate(o.fd, o.p, o.len, HUVM_PLACE_HOST));
	gets_idle(fd, 1);
	j = borrow(fd, 4);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	job_check_gpu(&o);
	job_turn(&o, WIDE);
	CHECK_EQ(lent(fd, 1), 4);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	job_turn(&o, WIDE);
	job_end(&o);
	job_turn(&j, WIDE);
	job_end(&j);
	all_idle(fd);
	close(fd);
}

static void write_backs_are_not_rescued(void)
{
	/* The engine stands for good: what is on its way to the host is where it was, and costs no time of those that gave theirs away. */
	int fd = start(0);
	struct job j = borrow(fd, 4);
	uint64_t before = of_gpu(fd, 1, HUVM_CNT_EVICTIONS_RESCUED), home;
	char name[32];

	pci_name(fd, 1, name);
	HOLD(fd, 1);
	knob(fd, 1, "write_back", 1);
	HELD(fd, 1);
	CHECK(WITHIN(HELD_MS, copying(j.p, j.len) == 4));
	home = of_gpu(fd, 1, HUVM_CNT_BYTES_D2H);
	/* The driver gives the engine up after 10 s. */
	CHECK(WITHIN(30000, !copying(j.p, j.len)));
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_EVICTIONS_RESCUED), before);
	CHECK_EQ(of_gpu(fd, 1, HUVM_CNT_BYTES_D2H), home);
	CHECK_EQ(lent(fd, 1), 4);
	RELEASE(fd, 1);
	job_check_gpu(&j);
	job_turn(&j, WIDE);
	job_end(&j);
	all_idle(fd);
	close(fd);
	rebind(name);
}

static const struct ktap_test tests[] = {
	{ "during_write_back", during_write_back, 30 },
	{ "fetched_during_write_back", fetched_during_write_back, 30 },
	{ "fetched_during_write_back_that_fails", fetched_during_write_back_that_fails, 30 },
	{ "during_fetch", during_fetch, 30 },
	{ "during_prefetch", during_prefetch, 30 },
	{ "exit_during_reclaim", exit_during_reclaim, 30 },
	{ "reclaim_during_exit", reclaim_during_exit, 30 },
	{ "removable_without_copy", removable_without_copy, 30 },
	{ "lender_has_its_own_to_evict", lender_has_its_own_to_evict, 60 },
	{ "write_backs_are_not_rescued", write_backs_are_not_rescued, 60 },
};
KTAP_MAIN(tests)
