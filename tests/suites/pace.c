// SPDX-License-Identifier: GPL-2.0
/*
 * A lender whose own job takes all of its memory's bandwidth is spared: what borrowers send it then comes at a slow pace, and the
 * rest goes to the host. A job that leaves half of that bandwidth is not, and a lender without a job neither. Profile `narrow`.
 */
#include "lend_lib.h"

/* Of the profile. */
#define MB_PER_S 200ull
/* The lender's job: so many blocks that the memory has work while the emulator is held up. */
#define OWN_BLOCKS 64u
#define OWN_LEN (OWN_BLOCKS * 4 * PIECE)
/* A little longer than it takes to read and write all of that. */
#define REST_NS 200000000ull
/* Several times as long as the driver looks at what jobs take: 64 MiB at that bandwidth. */
#define LOOKS_NS 1500000000ull

/* A job that runs until it is ended; with @rest, that leaves half of the bandwidth. */
static struct job own_job(int rest)
{
	struct job own = { .fd = huvm_open(), .gpu = 1, .len = OWN_LEN };
	struct huvm_instr in[2] = { over(HUVM_OP_SCALE, OWN_LEN, OWN_BLOCKS),
				    { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = REST_NS } };

	CHECK_OK(gpu_register(own.fd, 1));
	own.p = managed(own.fd, OWN_LEN);
	gpu_fill(own.fd, 1, own.p, OWN_LEN, OWN_BLOCKS, 4, 3);
	in[0].dst = in[0].a = (uintptr_t)own.p;
	in[0].imm0 = in[0].imm1 = 1;
	ARG(huvm_launch, l, .gpu = 1, .blocks = OWN_BLOCKS, .iterations = 100000, .elem_bytes = 8, .nr_instr = rest ? 2 : 1,
	    .instrs = (uintptr_t)in);
	CHECK_OK(ioctl(own.fd, HUVM_IOC_LAUNCH, &l));
	return own;
}

static void end_own_job(struct job *own)
{
	CHECK_OK(munmap(own->p, own->len));
	close(own->fd);
}

/* A borrower over 1.5 times its memory. */
static struct job borrower(int fd, uint64_t seed)
{
	return job_begin(0, chunk_count(fd, 0) * 3 / 2 & ~(uint64_t)(WIDE - 1), seed);
}

static uint64_t taken_in(int fd)
{
	return of_gpu(fd, 1, HUVM_CNT_CHUNKS_LENT);
}

/* Chunks that come in while a borrower goes over its data once, and how long that takes. */
static uint64_t come_in(int fd, struct job *j, double *took)
{
	uint64_t before = taken_in(fd);
	double began = seconds();

	job_turn(j, WIDE);
	*took = seconds() - began;
	return taken_in(fd) - before;
}

/* The driver looks at what the lender's jobs take whenever a borrower asks for room, so somebody has to. */
static void let_it_look(struct job *j)
{
	double began = seconds();

	while (seconds() - began < LOOKS_NS / 1e9)
		job_turn(j, WIDE);
}

static void spared_while_its_job_takes_all(void)
{
	int fd = begin(2, 0, 0);
	struct job j = borrower(fd, 11), own;
	/* 2 %, three times over each chunk. */
	const double interval = (double)BLOCK * 3 / (MB_PER_S * 1e6 * 0.02);
	uint64_t n, home;
	double took;

	/* Nobody at home. */
	n = come_in(fd, &j, &took);
	printf("# without a job %llu chunks came in\n", (unsigned long long)n);
	CHECK(n > 16);

	own = own_job(0);
	/* Again, where the device was held up, and its job did not take all. */
	for (int tries = 0;; tries++) {
		CHECK(tries < 5);
		let_it_look(&j);
		home = of_gpu(fd, 0, HUVM_CNT_BYTES_D2H);
		n = come_in(fd, &j, &took);
		printf("# beside one that takes all %llu in %.1f s\n", (unsigned long long)n, took);
		if (n <= 3 + (uint64_t)(took / interval))
			break;
	}
	CHECK(of_gpu(fd, 0, HUVM_CNT_BYTES_D2H) > home);

	/* Whoever wants none of that says so. */
	knob(fd, 1, "lend_slowdown_percent", 100);
	n = come_in(fd, &j, &took);
	printf("# unpaced %llu in %.1f s\n", (unsigned long long)n, took);
	CHECK(n > 16);
	knob(fd, 1, "lend_slowdown_percent", 2);
	end_own_job(&own);

	/* It is not remembered for longer than a look. */
	let_it_look(&j);
	n = come_in(fd, &j, &took);
	CHECK(n > 16);
	job_end(&j);
	close(fd);
}

static void not_while_it_leaves_half(void)
{
	int fd = begin(2, 0, 0);
	struct job j = borrower(fd, 12), own = own_job(1);
	uint64_t n;
	double took;

	let_it_look(&j);
	n = come_in(fd, &j, &took);
	printf("# beside one that takes half %llu chunks came in, in %.1f s\n", (unsigned long long)n, took);
	CHECK(n > 16);
	end_own_job(&own);
	job_end(&j);
	close(fd);
}

static const struct ktap_test tests[] = {
	{ "spared_while_its_job_takes_all", spared_while_its_job_takes_all, 120 },
	{ "not_while_it_leaves_half", not_while_it_leaves_half, 120 },
};
KTAP_MAIN(tests)
