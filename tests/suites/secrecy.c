// SPDX-License-Identifier: GPL-2.0
/*
 * Nobody sees anybody else's bytes. GPU 0 borrows from GPU 1; a job of GPU 1 allocates all it can get, touches it in every
 * way and scans all of it for the borrower's pattern, while memory is lent and taken back, with and without a copy, and
 * when the borrower is gone. And the other way round. Nor is what a process had on the host seen by who gets that memory, who looks at a
 * launch sees no other's figures, and who registers no other's faults.
 */
#define _GNU_SOURCE
#include "lend_lib.h"
#include <sched.h>

/* Upper half of every word of the borrower: a word that has it was leaked. */
#define MARK 0x5ec2e7a5ull
#define SMALL 6u
#define BORROWED 10u

/* Nothing but zeroes and what the scanning job wrote itself (below 2^32). */
static void scan(const uint64_t *p, uint64_t len)
{
	for (uint64_t i = 0; i < len / 8; i++)
		if (p[i] >> 32)
			FAIL("word %llu of page %llu of the lender's memory is %#llx%s", (unsigned long long)(i % (PAGE / 8)),
			     (unsigned long long)(i * 8 / PAGE), (unsigned long long)p[i], p[i] >> 32 == MARK ? ": the borrower's" : "");
}

/* How a page is touched first. */
enum touch { GPU_READS, GPU_WRITES_A_WORD, GPU_WRITES_SOME_PAGES, CPU_WRITES_A_WORD, MIGRATED, TOUCHES };

/*
 * One client of @gpu: takes @blocks, touches them so, and looks at every byte: half of them as the migration call brings them
 * home, half as CPU faults do. Where it wrote nothing, the GPU looks first.
 */
static void look(uint32_t gpu, uint64_t blocks, enum touch how)
{
	int fd = huvm_open();
	uint64_t len = blocks * BLOCK, *p = managed(fd, len);
	struct huvm_instr in = { .op = HUVM_OP_FILL, .dst = (uintptr_t)p, .count = 1, .imm0 = 7 };

	CHECK_OK(gpu_register(fd, gpu));
	switch (how) {
	case GPU_READS:
		gpu_check(fd, gpu, p, len, WIDE, 0, 0);
		break;
	case GPU_WRITES_A_WORD:
	case GPU_WRITES_SOME_PAGES:
		/* One word of each page, or of each third page: what is beside it was brought in with it, or was not. */
		in.steps = how == GPU_WRITES_A_WORD ? BLOCK / PAGE : BLOCK / PAGE / 3;
		in.step_stride = how == GPU_WRITES_A_WORD ? PAGE : 3 * PAGE;
		in.block_stride = BLOCK;
		in.dst = (uintptr_t)p + 64;
		in.imm1 = 0;
		run_ok(fd, gpu, (uint32_t)blocks, &in, 1, 8);
		break;
	case CPU_WRITES_A_WORD:
		for (uint64_t i = 0; i < len / 8; i += 5 * PAGE / 8)
			p[i] = 9;
		CHECK_OK(migrate(fd, p, len, gpu));
		break;
	default:
		CHECK_OK(migrate(fd, p, len, gpu));
		gpu_check(fd, gpu, p, len, WIDE, 0, 0);
		break;
	}
	CHECK_OK(migrate(fd, p, len / 2, HUVM_PLACE_HOST));
	scan(p, len);
	close(fd);
	CHECK_OK(munmap(p, len));
}

static void begin_marked(struct job *j, int fd)
{
	CHECK_OK(gpu_register(fd, 0));
	*j = (struct job){ .fd = fd, .len = BORROWED * BLOCK, .add = MARK << 32, .mul = 1 };
	j->p = managed(fd, j->len);
	gpu_fill(fd, 0, j->p, j->len, WIDE, j->add, j->mul);
}

/* The lender looks at all of its memory in each way; the borrower's comes and goes meanwhile. */
static void owner_scans(uint64_t write_back)
{
	int fd = begin(0x2, 0x3, SMALL);
	uint64_t back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS), copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED);
	struct job j;

	knob(fd, 1, "write_back", write_back);
	begin_marked(&j, huvm_open());
	for (enum touch how = 0; how < TOUCHES; how++) {
		job_turn(&j, WIDE);
		CHECK(lent(fd, 1) > 0);
		if (write_back)
			CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
		look(1, SMALL, how);
		CHECK_EQ(lent(fd, 1), 0);
	}
	back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS) - back;
	copied = of_gpu(fd, 1, HUVM_CNT_RECLAIMS_COPIED) - copied;
	printf("# %llu chunks taken back, %llu with a copy\n", (unsigned long long)back, (unsigned long long)copied);
	CHECK(back >= TOUCHES);
	CHECK_EQ(copied, write_back ? 0 : back);
	job_end(&j);
	/* What it left when it went. */
	look(1, SMALL, GPU_WRITES_SOME_PAGES);
	look(0, SMALL, GPU_WRITES_SOME_PAGES);
	all_idle(fd);
}

static void owner_scans_what_was_copied(void)
{
	owner_scans(0);
}

static void owner_scans_what_was_removable(void)
{
	owner_scans(1);
}

static volatile int stop;

static void *streams(void *arg)
{
	struct job *j = arg;

	while (!stop) {
		job_turn(j, 1);
		job_turn(j, WIDE);
	}
	return NULL;
}

/* The same while the borrower streams, with everything on. */
static void owner_scans_while_borrower_streams(void)
{
	int fd = begin(0x2, 0x3, SMALL);
	uint64_t back = of_gpu(fd, 1, HUVM_CNT_RECLAIMS);
	struct job j;
	pthread_t t;

	knob(fd, 0, "pre_evict", 1);
	knob(fd, 0, "stream_prefetch", 1);
	knob(fd, 0, "parallel_fetch", 1);
	knob(fd, 0, "prefetch_multi_path", 1);
	knob(fd, 0, "large_page_evict", 1);
	begin_marked(&j, huvm_open());
	stop = 0;
	CHECK_EQ(pthread_create(&t, NULL, streams, &j), 0);
	for (int n = 0; n < rounds(2 * TOUCHES); n++) {
		CHECK(WITHIN(5000, lent(fd, 1)));
		/* Half of it, so that it goes on lending; all of it. */
		look(1, n & 1 ? SMALL : SMALL / 2, (enum touch)n % TOUCHES);
	}
	stop = 1;
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(of_gpu(fd, 1, HUVM_CNT_RECLAIMS) > back);
	job_end(&j);
	all_idle(fd);
}

/* A borrower that is killed leaves nothing to see. */
static void owner_scans_after_a_kill(void)
{
	int fd = begin(0x2, 0x3, SMALL);

	for (enum touch how = 0; how < TOUCHES; how++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			struct job j;

			begin_marked(&j, huvm_open());
			for (;;)
				job_turn(&j, WIDE);
		}
		CHECK(WITHIN(10000, lent(fd, 1)));
		usleep((useconds_t)chance(50000));
		end_child(pid);
		look(1, SMALL, how);
		look(0, SMALL, how);
	}
	all_idle(fd);
}

/* The other way round: a borrower that wrote a part of its blocks gets no byte of the lender with them. */
static void borrower_sees_none_of_the_lender(void)
{
	int fd = begin(0x2, 0x3, SMALL);
	struct job own = { .fd = huvm_open(), .gpu = 1, .len = SMALL * BLOCK, .add = MARK << 32, .mul = 1 };
	uint64_t out = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);

	knob(fd, 0, "prefetch_mode", 0);
	CHECK_OK(gpu_register(own.fd, 1));
	own.p = managed(own.fd, own.len);
	gpu_fill(own.fd, 1, own.p, own.len, WIDE, own.add, own.mul);
	job_end(&own);
	/* Its memory is GPU 1's free memory now, full of marks. */
	look(0, BORROWED, GPU_WRITES_SOME_PAGES);
	CHECK(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) > out);
	all_idle(fd);
}

/* A process has that much memory of the host's full of marks, and ends. */
static void leaves_marks(uint64_t len)
{
	pid_t pid = fork_child();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		uint64_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED);
		for (uint64_t i = 0; i < len / 8; i++)
			p[i] = MARK << 32 | i;
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* Memory of the host comes with what was in it, for a block that is evicted and not whole in 2 MiB, too: what is not overwritten is not seen. */
static void none_of_the_host(void)
{
	int fd = begin(0, 0x1, SMALL);

	knob(fd, 0, "prefetch_mode", 0);
	for (uint64_t large = 0; large < 2; large++) {
		knob(fd, 0, "large_page_evict", large);
		knob(fd, 0, "large_page_pool_mib", 8 * large);
		for (enum touch how = 0; how < TOUCHES; how++) {
			uint64_t evicted = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);

			leaves_marks(128 * MIB);
			look(0, 2 * SMALL, how);
			CHECK(of_gpu(fd, 0, HUVM_CNT_EVICTIONS) > evicted);
		}
	}
	all_idle(fd);
}

/* Process or thread @id runs on the first CPU alone. */
static void on_one_cpu(int id)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	CHECK_OK(sched_setaffinity(id, sizeof(one), &one));
}

/* The caller runs whenever it can: whoever has its CPU lets go of it, wherever in the kernel that is. */
static void goes_first(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	CHECK_OK(sched_setscheduler(0, SCHED_FIFO, &first));
}

/* A client's launch, whose number both of its threads know. */
struct looked_at {
	int fd;
	volatile uint64_t id, seen;
};

/* Looks at it all the time, as nobody is kept from doing: what it says is its own, or nothing. */
static void *looks(void *arg)
{
	struct looked_at *l = arg;

	while (!stop) {
		ARG(huvm_wait, w, .launch = l->id);

		if (ioctl(l->fd, HUVM_IOC_WAIT, &w)) {
			CHECK_EQ(errno, ENOENT);
			continue;
		}
		l->seen++;
		if (w.mismatches || w.mismatch_va || w.bytes > PIECE)
			FAIL("a launch that writes 64 KiB has %llu bytes, %llu mismatches, the first at %#llx", (unsigned long long)w.bytes,
			     (unsigned long long)w.mismatches, (unsigned long long)w.mismatch_va);
	}
	return NULL;
}

/* Where a launch was, another client's is as soon as it is over: also for who is half way through a look at that moment. */
static void figures_of_its_own_launch_alone(void)
{
	int fd = begin(0, 0, 0), own = huvm_open(), other = huvm_open();
	uint64_t *p = managed(own, BLOCK), *q = managed(other, BLOCK), n = 0;
	/* Long enough that somebody else runs meanwhile. */
	const struct huvm_instr delay = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 300000 };
	struct huvm_instr fill[] = { over(HUVM_OP_FILL, PIECE, 1), delay }, wrong[] = { over(HUVM_OP_CHECK, 16 * PIECE, 1), delay };
	struct looked_at l = { .fd = own };
	pthread_t eye;
	double began;

	fill[0].dst = (uintptr_t)p;
	wrong[0].a = (uintptr_t)q;
	wrong[0].imm0 = 1;
	CHECK_OK(gpu_register(own, 0));
	CHECK_OK(gpu_register(other, 0));
	run_ok(own, 0, 1, fill, 2, 8);
	CHECK(run_program(other, 0, 1, wrong, 2, 8).mismatches);
	/* One CPU, and whoever takes results and launches goes first, in the middle of a look of the other thread. */
	on_one_cpu(0);
	stop = 0;
	CHECK_EQ(pthread_create(&eye, NULL, looks, &l), 0);
	goes_first();
	/* Longer where a look takes long. */
	for (began = seconds(); seconds() < began + 4 || (l.seen <= 100 && seconds() < began + 10 * time_scale()); n++) {
		uint64_t id;

		CHECK_OK(launch(own, 0, 1, fill, 2, 8, &id));
		l.id = id;
		for (;;) {
			ARG(huvm_wait, w, .launch = id, .timeout_ns = launch_limit_ns());

			/* Or the one who looks had its end. */
			if (!ioctl(own, HUVM_IOC_WAIT, &w) || errno == ENOENT)
				break;
			CHECK_EQ(errno, EINTR);
		}
		CHECK(run_program(other, 0, 1, wrong, 2, 8).mismatches);
	}
	stop = 1;
	CHECK_EQ(pthread_join(eye, NULL), 0);
	printf("# %llu launches, looked at %llu times\n", (unsigned long long)n, (unsigned long long)l.seen);
	CHECK(l.seen > 100);
	CHECK_OK(close(own));
	CHECK_OK(close(other));
	CHECK_OK(munmap(p, BLOCK));
	CHECK_OK(munmap(q, BLOCK));
	all_idle(fd);
}

/*
 * Who comes to be a client where another one was a moment ago has none of that one's faults: not their addresses, nor what they move. In
 * the batch that has them stand those of a third first, whose blocks are made then; in the middle of that the fault thread has to let go
 * of its CPU for those who leave and come.
 */
static void faults_of_its_own_alone(void)
{
	enum { THIRDS = 24 };
	int fd = begin(0, 0, 0), third = huvm_open();
	const uint64_t len = THIRDS * BLOCK;
	struct huvm_instr many = { .op = HUVM_OP_FILL, .count = 1, .steps = 1, .block_stride = BLOCK }, single = many;
	int fault_thread = thread_of("huvm-fault/0");
	uint64_t rounds = 0, faults = 0;
	cpu_set_t all;
	char *x = mmap(NULL, 2 * BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(x != MAP_FAILED);
	x += BLOCK - (uintptr_t)x % BLOCK;
	CHECK_OK(gpu_register(third, 0));
	CHECK(fault_thread);
	CHECK_OK(sched_getaffinity(fault_thread, sizeof(all), &all));
	on_one_cpu(fault_thread);
	on_one_cpu(0);
	goes_first();
	/* Longer where it takes long until the one before has its turn. */
	for (double began = seconds(); seconds() < began + 5 || (!faults && seconds() < began + 10 * time_scale()); rounds++) {
		int before = huvm_open(), after = huvm_open();
		char *p = managed(third, len);
		uint64_t id, gone;

		CHECK(mmap(x, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, before, 0) == x);
		CHECK_OK(gpu_register(before, 0));
		many.dst = (uintptr_t)p;
		single.dst = (uintptr_t)x;
		CHECK_OK(launch(third, 0, THIRDS, &many, 1, 8, &id));
		CHECK_OK(launch(before, 0, 1, &single, 1, 8, &gone));
		usleep((useconds_t)chance(1000ull << rounds % 6));
		CHECK_OK(gpu_unregister(before, 0));
		faults += counter(before, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS);
		CHECK(mmap(x, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, after, 0) == x);
		CHECK_OK(gpu_register(after, 0));
		CHECK_EQ(wait_launch(third, id).status, HUVM_LAUNCH_DONE);
		CHECK_EQ(counter(after, HUVM_SCOPE_SPACE, 0, HUVM_CNT_FAULTS), 0);
		CHECK_OK(munmap(p, len));
		CHECK_OK(close(before));
		CHECK_OK(close(after));
	}
	printf("# %llu rounds, %llu faults of who was there before\n", (unsigned long long)rounds, (unsigned long long)faults);
	CHECK_OK(sched_setaffinity(fault_thread, sizeof(all), &all));
	CHECK(faults);
	CHECK_OK(close(third));
	CHECK_OK(munmap(x, BLOCK));
	all_idle(fd);
}

static const struct ktap_test tests[] = {
	{ "owner_scans_what_was_copied", owner_scans_what_was_copied, 60 },
	{ "owner_scans_what_was_removable", owner_scans_what_was_removable, 60 },
	{ "owner_scans_while_borrower_streams", owner_scans_while_borrower_streams, 60 },
	{ "owner_scans_after_a_kill", owner_scans_after_a_kill, 60 },
	{ "borrower_sees_none_of_the_lender", borrower_sees_none_of_the_lender, 60 },
	{ "none_of_the_host", none_of_the_host, 90 },
	{ "figures_of_its_own_launch_alone", figures_of_its_own_launch_alone, 60 },
	{ "faults_of_its_own_alone", faults_of_its_own_alone, 60 },
};
KTAP_MAIN(tests)
