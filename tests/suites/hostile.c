// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU that tells lies: fault packets that are lost without a word, wrong, or never complete; a GET that it takes for another; a PUT that is
 * out of its ring, or goes backwards; semaphores that it does not write, or writes too high or too low; a copy engine that faults whenever it is tried; interrupts without end. Each costs
 * time alone, or a launch that is told why, or the GPU, within a bound. Other clients keep every byte, and the GPU works afterwards.
 */
#include "lend_lib.h"

#define BLOCKS 4u
#define LEN (2 * BLOCK)
/* Chunks of a GPU whose memory is made small. */
#define SMALL 4u

/* One packet that is lost costs 0.1 s, a GPU that is given up 1 s; a channel that stands 10 s. */
static double soon_s(void) { return 4.0 * time_scale(); }
static double late_s(void) { return 14.0 * time_scale(); }

/* GPU 0 with a client that has data at home, another one that has some there, and one of GPU 1. */
struct scene {
	int fd, log;
	uint64_t *p;
	struct job same, other;
	char name[32];
	double began;
	/* Pages that the client at home has lost. */
	uint64_t gone;
};

static struct scene scene(void)
{
	struct scene s = { .log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK) };

	CHECK(s.log >= 0 && lseek(s.log, 0, SEEK_END) >= 0);
	s.fd = huvm_open();
	pci_name(s.fd, 0, s.name);
	/* A test that failed may leave it so. */
	if (gpu_state(s.fd, 0) == HUVM_GPU_LOST)
		rebind(s.name);
	CHECK_OK(close(s.fd));
	s.fd = begin(0, 0, 0);
	CHECK_OK(gpu_register(s.fd, 0));
	s.p = managed(s.fd, LEN);
	cpu_fill(s.p, LEN, 60, 3);
	s.same = job_begin(0, 2, 11);
	s.other = job_begin(1, 2, 12);
	s.began = seconds();
	return s;
}

/* Adds 1 to all of p, by one block: one fault after the other. */
static uint64_t start(struct scene *s)
{
	struct huvm_instr i = over(HUVM_OP_SCALE, LEN, 1);
	uint64_t id;

	i.dst = i.a = (uintptr_t)s->p;
	i.imm0 = i.imm1 = 1;
	s->began = seconds();
	CHECK_OK(launch(s->fd, 0, 1, &i, 1, 8, &id));
	return id;
}

/* The launch of the client at home, which is over within @limit_s. */
static struct huvm_wait ends(struct scene *s, uint64_t id, double limit_s)
{
	struct huvm_wait w = wait_launch(s->fd, id);

	printf("# status %u, error %u, fault type %u after %.2f s\n", w.status, w.error, w.fault_type, seconds() - s->began);
	CHECK(seconds() - s->began < limit_s);
	return w;
}

/* It ends well; then all is at home again. */
static void served(struct scene *s, uint64_t id)
{
	struct huvm_wait w = ends(s, id, soon_s());

	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	cpu_check(s->p, LEN, 61, 3);
	cpu_fill(s->p, LEN, 60, 3);
}

/* It fails with @error, and what it was to change is as it was; but for what the GPU had alone. How many pages that are. */
static uint64_t failed(struct scene *s, uint64_t id, uint32_t error, double limit_s)
{
	struct huvm_wait w = ends(s, id, limit_s);

	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, error);
	return s->gone = unreadable(s->p, LEN, 60, 3);
}

/* Nobody else noticed, and the GPU goes on. */
static void goes_on(struct scene *s)
{
	CHECK_EQ(gpu_state(s->fd, 0), HUVM_GPU_OK);
	served(s, start(s));
	job_turn(&s->same, WIDE);
	job_end(&s->same);
	job_turn(&s->other, WIDE);
	job_end(&s->other);
	close(s->log);
}

/*
 * Who had data on the GPU alone has lost it, and is told, if it was lost; @why is NULL where a channel was given up alone. GPU 1 noticed
 * nothing; GPU 0, bound again, works.
 */
static void comes_back(struct scene *s, const char *why)
{
	uint64_t v;
	int fd;

	if (why) {
		CHECK_EQ(gpu_state(s->fd, 0), HUVM_GPU_LOST);
		CHECK(gets_logged(s->log, " lost: ", why, 1));
		doctor_finds("*gpu 0 *lost: *");
		CHECK_EQ(reads(s->same.p, &v), SIGBUS);
	}
	job_turn(&s->other, WIDE);
	job_end(&s->other);
	rebind(s->name);
	fd = huvm_open();
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_OK);
	works(fd, 0);
	if (why)
		CHECK_EQ(reads(s->same.p + 100, &v), SIGBUS);
	else
		cpu_check(s->same.p, s->same.len, s->same.add, s->same.mul);
	CHECK_EQ(unreadable(s->p, LEN, 60, 3), s->gone);
	CHECK_OK(close(fd));
	close(s->log);
}

/* A packet is lost on its way, and neither an overflow nor an interrupt tells. Catches accesses that stall for ever. */
static void packets_lost(void)
{
	struct scene s = scene();
	uint64_t blind = of_gpu(s.fd, 0, HUVM_CNT_BLIND_REPLAYS), id;

	test_reg(s.fd, 0, INJ_PACKET_LOST, 6);
	id = start(&s);
	served(&s, id);
	CHECK_EQ(read_reg(s.fd, 0, INJ_PACKET_LOST), 0);
	/* An access has two operands. */
	CHECK(of_gpu(s.fd, 0, HUVM_CNT_BLIND_REPLAYS) >= blind + 2);
	/* Now and then: not at each look. */
	CHECK(of_gpu(s.fd, 0, HUVM_CNT_BLIND_REPLAYS) < blind + 20 * (uint64_t)time_scale());
	goes_on(&s);
}

/*
 * A packet is wrong. It is nobody's, or of its client but not where that was: then it comes again, and hurts the client's launch at most.
 * Or it is for something that no mapping helps, and the client is told.
 */
static void packets_wrong(void)
{
	struct scene s = scene();

	for (uint32_t what = 0; what < 4; what++) {
		uint64_t id;

		test_reg(s.fd, 0, INJ_PACKET_BAD, what << 16 | 1);
		id = start(&s);
		if (what < 2) {
			served(&s, id);
		} else {
			struct huvm_wait w = ends(&s, id, soon_s());

			if (what == 3 || w.status != HUVM_LAUNCH_DONE) {
				CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
				CHECK_EQ(w.error, HUVM_ERROR_FAULT);
				CHECK_EQ(w.fault_type, what == 3 ? 0x1f : 2);
			}
			/* None of it is lost. */
			cpu_check(s.p, LEN, w.status == HUVM_LAUNCH_DONE ? 61 : 60, 3);
			cpu_fill(s.p, LEN, 60, 3);
		}
		CHECK_EQ(read_reg(s.fd, 0, INJ_PACKET_BAD) & 0xffff, 0);
	}
	goes_on(&s);
}

/* A launch that multiplies what is at p by three. */
static uint64_t times_three(int fd, uint64_t *p)
{
	struct huvm_instr i = over(HUVM_OP_SCALE, BLOCK, 1);
	uint64_t id;

	i.dst = i.a = (uintptr_t)p;
	i.imm0 = 3;
	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	return id;
}

/*
 * While a batch is served, which waits for a copy, a client goes of whom there is a packet in it that nothing helps; the next one gets its
 * place, and waits at that address. Catches a reason that ends the launch of somebody who has done nothing.
 */
static void packet_of_the_one_before(void)
{
	struct scene s = scene();
	int slow = huvm_open(), before = huvm_open(), next = huvm_open();
	uint64_t *p = managed(slow, BLOCK), *q = managed(next, BLOCK), id, copied, good;
	struct huvm_wait w;
	int turns = 0;

	cpu_fill(p, BLOCK, 5, 1);
	cpu_fill(q, BLOCK, 7, 2);
	CHECK_OK(gpu_register(slow, 0));
	CHECK_OK(gpu_register(before, 0));
	/* Else what is in the ring is dropped after a batch, and comes again of those that still wait. */
	knob(s.fd, 0, "replay_policy", 1);
	test_reg(s.fd, 0, INJ_CE_HANG, 1);
	id = start(&s);
	CHECK(WITHIN(8000, copying(s.p, LEN) == 1));

	/* For the next batch. */
	test_reg(s.fd, 0, INJ_PACKET_BAD, 3 << 16 | 1);
	(void)times_three(before, q);
	CHECK(WITHIN(5000, !(read_reg(s.fd, 0, INJ_PACKET_BAD) & 0xffff)));
	copied = times_three(slow, p);
	give_time_held(50);
	do {
		CHECK(turns++ < 50);
		test_reg(s.fd, 0, INJ_CE_HANG, 0);
		test_reg(s.fd, 0, INJ_CE_HANG, 1);
		CHECK(WITHIN(8000, !read_reg(s.fd, 0, INJ_CE_HANG)));
		give_time_held(20);
	} while (copying(p, BLOCK) != 1);

	CHECK_OK(close(before));
	CHECK_OK(gpu_register(next, 0));
	good = times_three(next, q);
	give_time_held(50);
	CHECK_EQ(copying(p, BLOCK), 1);
	test_reg(s.fd, 0, INJ_CE_HANG, 0);
	/* So far the copies stood. */
	s.began = seconds();
	served(&s, id);
	CHECK_EQ(wait_launch(slow, copied).status, HUVM_LAUNCH_DONE);
	cpu_check(p, BLOCK, 15, 3);
	w = wait_launch(next, good);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	CHECK_EQ(w.error, 0);
	cpu_check(q, BLOCK, 21, 6);
	knob(s.fd, 0, "replay_policy", 2);
	CHECK_OK(close(next));
	CHECK_OK(close(slow));
	goes_on(&s);
}

/* A packet has its place in the ring and is never complete: it is passed, and comes again. */
static void packets_never_valid(void)
{
	struct scene s = scene();
	uint64_t given_up = of_gpu(s.fd, 0, HUVM_CNT_PACKETS_GIVEN_UP);

	test_reg(s.fd, 0, INJ_PACKET_NEVER_VALID, 3);
	served(&s, start(&s));
	CHECK_EQ(read_reg(s.fd, 0, INJ_PACKET_NEVER_VALID), 0);
	CHECK_EQ(of_gpu(s.fd, 0, HUVM_CNT_PACKETS_GIVEN_UP), given_up + 3);
	/* Of the first of them: the next is told of a minute later. */
	CHECK(gets_logged_waits(s.log, " fault-packet 0 ", " launch 0 "));
	goes_on(&s);
}

/* One now and then, and good ones in between, so that its ring works: the log is not filled with it. */
static void packets_never_valid_for_long(void)
{
	struct scene s = scene();
	double t = seconds();
	char line[1024];
	uint32_t n = 0;

	for (int i = 0; i < 10; i++) {
		test_reg(s.fd, 0, INJ_PACKET_NEVER_VALID, 1);
		served(&s, start(&s));
		CHECK_EQ(read_reg(s.fd, 0, INJ_PACKET_NEVER_VALID), 0);
	}
	while (next_line(s.log, line, sizeof(line)))
		n += strstr(line, "waiting (ms") || strstr(line, "a fault ring is not read");
	t = seconds() - t;
	printf("# %u lines in %.1f s\n", n, t);
	/* Each minute what went wrong, and who waits: the fault thread, and who waits for the launch. And once on a slow machine for something else. */
	CHECK(n <= 8 * (1 + (uint32_t)(t / 60)));
	goes_on(&s);
}

/* That, without end. */
static void no_packet_is_valid(void)
{
	struct scene s = scene();

	test_reg(s.fd, 0, INJ_PACKET_NEVER_VALID, INJ_ALL);
	CHECK_EQ(failed(&s, start(&s), HUVM_ERROR_GPU_LOST, soon_s()), 0);
	comes_back(&s, "a fault ring does not work");
}

/* GET is damaged on its way, and the ring stands still. */
static void get_damaged(void)
{
	struct scene s = scene();

	for (uint32_t n = 1; n <= 4; n++) {
		test_reg(s.fd, 0, INJ_GET_CORRUPT, n);
		served(&s, start(&s));
		CHECK(WITHIN(1000, !read_reg(s.fd, 0, INJ_GET_CORRUPT)));
	}
	goes_on(&s);
}

/* That, without end. */
static void get_always_damaged(void)
{
	struct scene s = scene();

	test_reg(s.fd, 0, INJ_GET_CORRUPT, INJ_ALL);
	failed(&s, start(&s), HUVM_ERROR_GPU_LOST, soon_s());
	comes_back(&s, "a fault ring does not work");
}

/* What PUT says, that is wrong. */
enum { FAR, END, BEHIND, EMPTY };

/* @looks at PUT are told it, before and while a launch faults. Nothing is passed that was not there. */
static void put_wrong(uint32_t what, uint32_t looks)
{
	struct scene s = scene();
	uint64_t given_up = of_gpu(s.fd, 0, HUVM_CNT_PACKETS_GIVEN_UP);

	for (uint32_t n = 1; n <= looks; n++) {
		uint64_t id;

		test_reg(s.fd, 0, INJ_PUT_WRONG, what << 16 | n);
		id = start(&s);
		test_reg(s.fd, 0, INJ_PUT_WRONG, what << 16 | n);
		served(&s, id);
		CHECK(WITHIN(2000, !(read_reg(s.fd, 0, INJ_PUT_WRONG) & INJ_ALL)));
	}
	CHECK_EQ(of_gpu(s.fd, 0, HUVM_CNT_PACKETS_GIVEN_UP), given_up);
	goes_on(&s);
}

/* Now and then PUT is no entry of the ring: it is not believed. */
static void put_out_of_range(void)
{
	put_wrong(FAR, 3);
	put_wrong(END, 3);
}

/*
 * Now and then PUT goes behind GET, as if the ring were full, or back to it, as if it were empty. Catches a driver that passes what is not
 * there: GET is then beyond the true PUT, and no packet is met again.
 */
static void put_goes_backwards(void)
{
	put_wrong(BEHIND, 5);
	put_wrong(EMPTY, 3);
}

/* That, without end. A ring that gives packets all the same may give all of a launch first. */
static void put_always_wrong(void)
{
	for (uint32_t what = FAR; what <= EMPTY; what++) {
		struct scene s = scene();
		struct teller e = teller_begin();
		struct huvm_wait w;

		test_reg(s.fd, 0, INJ_PUT_WRONG, what << 16 | INJ_ALL);
		w = ends(&s, start(&s), soon_s());
		if (what != BEHIND || w.status != HUVM_LAUNCH_DONE) {
			CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
			CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
		}
		CHECK(WITHIN(soon_s() * 1000, gpu_state(s.fd, 0) == HUVM_GPU_LOST));
		printf("# lost after %.2f s\n", seconds() - s.began);
		tells(&e, "gpu-lost *gpu0 *a fault ring gave nothing but errors", 1);
		teller_end(&e);
		doctor_finds("gpu 0 *lost: a fault ring gave nothing but errors*unbind");
		/* What it has done is there alone. */
		s.gone = w.status == HUVM_LAUNCH_DONE ? LEN / 4096 : unreadable(s.p, LEN, 60, 3);
		comes_back(&s, "a fault ring does not work");
	}
}

/* A copy engine faults, and the packet that tells of it is lost, wrong, never complete, or meets a full ring, or GET or PUT is damaged. */
static void engine_faults_untold(void)
{
	static const uint32_t how[] = {
		INJ_PACKET_LOST, INJ_PACKET_BAD, INJ_PACKET_NEVER_VALID, INJ_OTHER_OVERFLOW, INJ_GET_CORRUPT, INJ_PUT_WRONG,
	};
	struct scene s = scene();
	uint64_t overflows = of_gpu(s.fd, 0, HUVM_CNT_OVERFLOWS);

	for (unsigned int i = 0; i < sizeof(how) / sizeof(*how); i++) {
		test_reg(s.fd, 0, how[i], how[i] == INJ_OTHER_OVERFLOW ? 1 : INJ_OTHER_RING | 1);
		test_reg(s.fd, 0, INJ_CE_FAULT, 1);
		served(&s, start(&s));
		CHECK_EQ(read_reg(s.fd, 0, INJ_CE_FAULT), 0);
		CHECK(WITHIN(1000, !(read_reg(s.fd, 0, how[i]) & 0xffff)));
		if (how[i] == INJ_OTHER_OVERFLOW)
			CHECK(WITHIN(1000, of_gpu(s.fd, 0, HUVM_CNT_OVERFLOWS) > overflows));
	}
	goes_on(&s);
}

/* A copy engine faults whenever it is tried: not for ever. */
static void engine_faults_each_time(void)
{
	struct scene s = scene();
	uint64_t before = of_gpu(s.fd, 0, HUVM_CNT_CE_ERRORS), faults = 0;

	/* That which copies from the host. */
	test_reg(s.fd, 0, INJ_CE_FAULT_EACH, 1);
	CHECK_EQ(failed(&s, start(&s), HUVM_ERROR_CANCELLED, soon_s()), 0);
	/* Counted by who comes round to it, behind the cancel. */
	WITHIN(5000, (faults = of_gpu(s.fd, 0, HUVM_CNT_CE_ERRORS) - before) >= 8);
	printf("# %llu faults\n", (unsigned long long)faults);
	CHECK(faults >= 8 && faults < 16);
	CHECK_EQ(gpu_state(s.fd, 0), HUVM_GPU_OK);
	CHECK(gets_logged(s.log, "Taken off its engine", "HostToDevice", 1));
	test_reg(s.fd, 0, INJ_CE_FAULT_EACH, 0);
	comes_back(&s, NULL);
}

/* The end of a copy is not told; the next one tells. */
static void semaphore_lost(void)
{
	struct scene s = scene();
	struct job next = job_make(0, 1, 13);
	uint64_t id;

	cpu_fill(next.p, next.len, next.add, next.mul);
	test_reg(s.fd, 0, INJ_SEM_LOST, 1);
	id = start(&s);
	CHECK(WITHIN(5000, !read_reg(s.fd, 0, INJ_SEM_LOST)));
	CHECK_OK(migrate(next.fd, next.p, next.len, 0));
	served(&s, id);
	job_end(&next);
	goes_on(&s);
}

/* And nothing follows. */
static void semaphore_never_written(void)
{
	struct scene s = scene();
	uint64_t id;

	test_reg(s.fd, 0, INJ_SEM_LOST, 1);
	id = start(&s);
	CHECK_EQ(failed(&s, id, HUVM_ERROR_CANCELLED, late_s()), 0);
	CHECK(gets_logged(s.log, "Taken off its engine", "HostToDevice", 1));
	comes_back(&s, NULL);
}

/* A semaphore says that more is done than was ever asked for. Catches copies that are taken for done before they are. */
static void semaphore_too_high(void)
{
	struct scene s = scene();

	test_reg(s.fd, 0, INJ_SEM_WRONG, 1);
	CHECK_EQ(failed(&s, start(&s), HUVM_ERROR_GPU_LOST, soon_s()), 0);
	comes_back(&s, "says what cannot be");
}

/* A semaphore goes back by one, within what was submitted. Catches waits for a device that seems to get on. */
static void semaphore_goes_back(void)
{
	struct scene s = scene();

	/* It has said something by then. */
	served(&s, start(&s));
	test_reg(s.fd, 0, INJ_SEM_BACK, 1);
	CHECK_EQ(failed(&s, start(&s), HUVM_ERROR_GPU_LOST, soon_s()), 0);
	comes_back(&s, "says what cannot be");
}

/* That, of copies out of a GPU whose memory is full: what comes home afterwards is right, or known to be lost. */
static void semaphore_too_high_while_evicting(void)
{
	int fd = begin(0, 0x1, SMALL);
	struct job other = job_begin(1, 2, 12);
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 1);
	char name[32];
	uint64_t v;

	pci_name(fd, 0, name);
	/* At once, and with copies that take their time. */
	for (uint32_t n = 0; n < 2; n++) {
		struct job j = job_make(0, SMALL + 3, 5);
		struct huvm_wait w;
		uint64_t id, gone;
		double t;

		CHECK_OK(limit_chunks(fd, 0, SMALL));
		/* Two are home already. */
		gpu_fill(j.fd, 0, j.p, (SMALL + 2) * BLOCK, 1, j.add, j.mul);
		test_reg(fd, 0, INJ_LATENCY, n ? 50000000 : 0);
		test_reg(fd, 0, INJ_SEM_WRONG, 1);
		i.dst = (uintptr_t)j.p + (SMALL + 2) * BLOCK;
		t = seconds();
		CHECK_OK(launch(j.fd, 0, 1, &i, 1, 8, &id));
		w = wait_launch(j.fd, id);
		printf("# status %u, error %u after %.2f s\n", w.status, w.error, seconds() - t);
		CHECK(seconds() - t < soon_s());
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
		CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
		CHECK_EQ(unreadable(j.p, 2 * BLOCK, j.add, j.mul), 0);
		gone = unreadable(j.p + 2 * BLOCK / 8, BLOCK, j.add + j.mul * (2 * BLOCK / 8), j.mul);
		printf("# %llu pages of the one under way are lost\n", (unsigned long long)gone);
		CHECK_EQ(reads(j.p + 4 * BLOCK / 8, &v), SIGBUS);
		CHECK_OK(munmap(j.p, j.len));
		CHECK_OK(close(j.fd));
		rebind(name);
	}
	job_turn(&other, WIDE);
	job_end(&other);
	works(fd, 0);
}

/*
 * That, of evictions ahead of need, on an engine that faults from then on whenever it is tried: the GPU is lost, whether somebody looks at the
 * semaphore first or the channel is given up. In the latter case what it was copying must not be rescued, as others may have it by that word.
 */
static void semaphore_too_high_ahead_of_need(void)
{
	enum { FULL = 24 };
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK), fd = begin(0, 0x1, FULL);
	struct job other = job_begin(1, 2, 12), j = job_make(0, FULL, 5);
	char name[32];
	double t;

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 0, name);
	gpu_fill(j.fd, 0, j.p, j.len, 1, j.add, j.mul);
	knob(fd, 0, "pre_evict_share_percent", 100);
	/* All of them are begun before the first is over: who begins another one looks. */
	knob(fd, 0, "pre_evict_low_chunks", 4);
	knob(fd, 0, "pre_evict_high_chunks", 6);
	test_reg(fd, 0, INJ_LATENCY, 50000000);
	test_reg(fd, 0, INJ_SEM_WRONG, 1);
	knob(fd, 0, "pre_evict", 1);
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_SEM_WRONG)));
	test_reg(fd, 0, INJ_CE_FAULT_EACH, 0x3f);
	t = seconds();
	CHECK(WITHIN((int)(soon_s() * 1000), gpu_state(fd, 0) == HUVM_GPU_LOST));
	printf("# lost after %.2f s\n", seconds() - t);
	CHECK(gets_logged(log, " lost: ", "says what cannot be", 1));
	CHECK_OK(munmap(j.p, j.len));
	CHECK_OK(close(j.fd));
	CHECK_OK(close(log));
	rebind(name);
	job_turn(&other, WIDE);
	job_end(&other);
	works(fd, 0);
}

/* Messages that the driver was sent, as the kernel counts them. */
static uint64_t interrupts(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	char line[1024];
	uint64_t n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ':'), *end;

		if (!at || !strstr(line, "huvm"))
			continue;
		for (at++;; at = end) {
			unsigned long long v = strtoull(at, &end, 10);

			if (end == at)
				break;
			n += v;
		}
	}
	fclose(f);
	return n;
}

/* Messages without end, of the entry of copies and of that of faults: they are shut off, and what comes by them is found without. */
static void interrupt_storm(void)
{
	struct scene s = scene();

	for (uint32_t entry = 0; entry < 2; entry++) {
		uint64_t storms = of_gpu(s.fd, 0, HUVM_CNT_INTERRUPT_STORMS), n;

		test_reg(s.fd, 0, INJ_INTR_STORM, entry << 28 | 2000);
		CHECK(WITHIN(5000, of_gpu(s.fd, 0, HUVM_CNT_INTERRUPT_STORMS) > storms));
		n = interrupts();
		served(&s, start(&s));
		usleep(1500000);
		n = interrupts() - n;
		printf("# entry %u: %llu messages in %.2f s\n", entry, (unsigned long long)n, seconds() - s.began);
		/* 256 each 0.4 s, and those of the launch; more where the host has little time for this CPU, and a quarter of it is much. */
		CHECK(n < 3000 * (1 + seconds() - s.began));
		test_reg(s.fd, 0, INJ_INTR_STORM, 0);
	}
	CHECK(gets_logged(s.log, "comes without end", "", 2));
	CHECK_EQ(says("stat --gpu 0", "*interrupt_storms *"), 0);
	/* They are on again. */
	give_time(500);
	for (int i = 0; i < 4; i++) {
		uint64_t n = interrupts();

		served(&s, start(&s));
		CHECK(interrupts() > n);
	}
	goes_on(&s);
}

static const struct ktap_test tests[] = {
	{ "packets_lost", packets_lost }, { "packets_wrong", packets_wrong },
	{ "packet_of_the_one_before", packet_of_the_one_before },
	{ "packets_never_valid", packets_never_valid }, { "packets_never_valid_for_long", packets_never_valid_for_long },
	{ "no_packet_is_valid", no_packet_is_valid },
	{ "get_damaged", get_damaged }, { "get_always_damaged", get_always_damaged },
	{ "put_out_of_range", put_out_of_range }, { "put_goes_backwards", put_goes_backwards },
	{ "put_always_wrong", put_always_wrong },
	{ "engine_faults_untold", engine_faults_untold }, { "engine_faults_each_time", engine_faults_each_time },
	{ "semaphore_lost", semaphore_lost }, { "semaphore_never_written", semaphore_never_written },
	{ "semaphore_too_high", semaphore_too_high }, { "semaphore_goes_back", semaphore_goes_back },
	{ "semaphore_too_high_while_evicting", semaphore_too_high_while_evicting },
	{ "semaphore_too_high_ahead_of_need", semaphore_too_high_ahead_of_need },
	{ "interrupt_storm", interrupt_storm },
};
KTAP_MAIN(tests)
