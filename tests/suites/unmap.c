// SPDX-License-Identifier: GPL-2.0
/*
 * The head, the middle or the tail of a block goes while a fault in it is served: the device holds the copy (CE_HANG) until the
 * munmap is seen to wait for it, so each meeting takes place, every time. A fault of the GPU's, and one of the CPU's. And a munmap without
 * memory for what it leaves.
 */
#define _GNU_SOURCE
#include "lend_lib.h"

/* Of each wait for something that is not held. The driver itself gives up a copy that stands still for 10 s. */
#define HELD_MS 8000

#define ADD 77
#define MUL 3

/* Pages [from, from + pages) of the block are unmapped; no edge of them is one of 64 KiB. */
struct hole {
	uint64_t from, pages;
};

static const struct hole head = { 0, 133 }, middle = { 131, 170 }, tail = { 379, 133 };

struct meeting {
	int fd;
	uint64_t *p;
	struct hole hole;
	pthread_t unmapping;
	int unmapped;
};

static int in_hole(const struct meeting *m, uint64_t page)
{
	return page >= m->hole.from && page < m->hole.from + m->hole.pages;
}

static uint64_t *page_of(const struct meeting *m, uint64_t page)
{
	return m->p + page * (PAGE / 8);
}

/* A block that the CPU filled, and the next copy of the GPU will be held. */
static struct meeting met_at(struct hole hole)
{
	struct meeting m = { .fd = begin(0, 0, 0), .hole = hole };

	CHECK_OK(gpu_register(m.fd, 0));
	m.p = managed(m.fd, BLOCK);
	CHECK_EQ((uintptr_t)m.p % BLOCK, 0);
	cpu_fill(m.p, BLOCK, ADD, MUL);
	return m;
}

static void *unmaps(void *arg)
{
	struct meeting *m = arg;
	int r = munmap(page_of(m, m->hole.from), m->hole.pages * PAGE);

	__atomic_store_n(&m->unmapped, r ? -1 : 1, __ATOMIC_RELEASE);
	return NULL;
}

/* On the CPU that the others are on, too; @first: before them when all are woken. */
static void on_one_cpu(int first)
{
	struct sched_param p = { .sched_priority = first };
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu), 0);
	CHECK_EQ(pthread_setschedparam(pthread_self(), first ? SCHED_FIFO : SCHED_IDLE, &p), 0);
}

/* When what another thread asked for has begun. It has the block before that one, when the copy is over that both wait for. */
static void *unmaps_soon(void *arg)
{
	on_one_cpu(1);
	usleep(10000);
	return unmaps(arg);
}

static void *unregisters(void *arg)
{
	struct meeting *m = arg;

	on_one_cpu(0);
	return (void *)(uintptr_t)(gpu_unregister(m->fd, 0) ? errno : 0);
}

static int unmapped(const struct meeting *m)
{
	return __atomic_load_n(&m->unmapped, __ATOMIC_ACQUIRE);
}

static void hold(const struct meeting *m)
{
	test_reg(m->fd, 0, INJ_CE_HANG, 1);
}

/* The copy of the fault is seen to be held, the munmap to wait for it; then both go on. */
static void meet(struct meeting *m)
{
	CHECK(WITHIN(HELD_MS, !read_reg(m->fd, 0, INJ_CE_HANG)));
	CHECK(WITHIN(HELD_MS, copying(m->p, BLOCK) == 1));
	CHECK_EQ(pthread_create(&m->unmapping, NULL, unmaps, m), 0);
	give_time_held(50);
	CHECK_EQ(copying(m->p, BLOCK), 1);
	CHECK_EQ(unmapped(m), 0);
	test_reg(m->fd, 0, INJ_CE_HANG, 0);
	CHECK(WITHIN(HELD_MS, unmapped(m)));
	CHECK_EQ(unmapped(m), 1);
	CHECK_EQ(pthread_join(m->unmapping, NULL), 0);
}

/* An instruction over pages [from, to), one block of the GPU. */
static struct huvm_instr of_pages(const struct meeting *m, uint32_t op, uint64_t from, uint64_t to)
{
	struct huvm_instr i = { .op = op, .count = PAGE / 8, .steps = to - from, .step_stride = PAGE };

	i.dst = i.a = (uintptr_t)page_of(m, from);
	return i;
}

/* What is left has every word right, for CPU and GPU, as has what comes in the hole's place; and no chunk stays behind. */
static void ends(struct meeting *m, uint64_t mul, uint64_t add)
{
	struct huvm_instr i = of_pages(m, HUVM_OP_FILL, m->hole.from, m->hole.from + m->hole.pages);
	struct huvm_wait w = run_program(m->fd, 0, 1, &i, 1, 8);
	uint64_t v;

	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_FAULT);
	CHECK_EQ(w.fault_va, (uintptr_t)page_of(m, m->hole.from));
	CHECK_EQ(reads(page_of(m, m->hole.from), &v), SIGSEGV);
	CHECK_EQ(reads(page_of(m, m->hole.from + m->hole.pages) - 1, &v), SIGSEGV);
	for (int behind = 0; behind < 2; behind++) {
		uint64_t from = behind ? m->hole.from + m->hole.pages : 0, to = behind ? BLOCK / PAGE : m->hole.from;
		uint64_t first = mul * (ADD + MUL * from * (PAGE / 8)) + add;

		if (from == to)
			continue;
		cpu_check(page_of(m, from), (to - from) * PAGE, first, mul * MUL);
		i = of_pages(m, HUVM_OP_CHECK, from, to);
		i.imm0 = first;
		i.imm1 = mul * MUL;
		run_ok(m->fd, 0, 1, &i, 1, 8);
	}
	CHECK(mmap(page_of(m, m->hole.from), m->hole.pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0) ==
	      page_of(m, m->hole.from));
	i = of_pages(m, HUVM_OP_CHECK, m->hole.from, m->hole.from + m->hole.pages);
	run_ok(m->fd, 0, 1, &i, 1, 8);
	cpu_check(page_of(m, m->hole.from), m->hole.pages * PAGE, 0, 0);
	CHECK_OK(munmap(m->p, BLOCK));
	gets_idle(m->fd, 0);
	close(m->fd);
}

/*
 * Launches change the pages before the hole, those in it and those behind it, each by itself: their faults are in one block. The
 * one in the hole ends there, or was through before; the others do all their work.
 */
static void in_a_gpu_fault(struct hole hole)
{
	struct meeting m = met_at(hole);
	const uint64_t edges[] = { 0, hole.from, hole.from + hole.pages, BLOCK / PAGE };
	uint64_t ids[3];

	hold(&m);
	for (int k = 0; k < 3; k++) {
		struct huvm_instr i = of_pages(&m, HUVM_OP_SCALE, edges[k], edges[k + 1]);

		i.imm0 = 5;
		i.imm1 = 9;
		if (edges[k] < edges[k + 1])
			CHECK_OK(launch(m.fd, 0, 1, &i, 1, 8, &ids[k]));
	}
	meet(&m);
	for (int k = 0; k < 3; k++) {
		struct huvm_wait w;

		if (edges[k] == edges[k + 1])
			continue;
		w = wait_launch(m.fd, ids[k]);
		printf("# pages %llu to %llu: status %u, error %u at page %lld\n", (unsigned long long)edges[k],
		       (unsigned long long)edges[k + 1], w.status, w.error,
		       w.fault_va ? (long long)(w.fault_va - (uintptr_t)m.p) / (long long)PAGE : -1);
		if (k == 1 && w.status == HUVM_LAUNCH_FAILED) {
			CHECK_EQ(w.error, HUVM_ERROR_FAULT);
			CHECK(in_hole(&m, (w.fault_va - (uintptr_t)m.p) / PAGE));
		} else {
			CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		}
	}
	ends(&m, 5, 9);
}

struct toucher {
	pthread_t id;
	uint64_t *p, got;
	int sig;
};

static sigjmp_buf *volatile touching;

static void on_touch(int sig)
{
	siglongjmp(*touching, sig);
}

/* Reads a word in the hole, which is there or is not. */
static void *touches(void *arg)
{
	struct toucher *t = arg;
	sigjmp_buf here;

	t->sig = sigsetjmp(here, 1);
	if (!t->sig) {
		touching = &here;
		t->got = *(volatile uint64_t *)t->p;
	}
	return NULL;
}

/* The GPU has the block, and the CPU wants a page in the hole back. */
static void in_a_cpu_fault(struct hole hole)
{
	struct sigaction catch = { .sa_handler = on_touch };
	struct meeting m = met_at(hole);
	struct toucher t = { .p = page_of(&m, hole.from + hole.pages / 2) + 7 };
	uint64_t word = (uint64_t)(t.p - m.p);

	sigaction(SIGSEGV, &catch, NULL);
	gpu_scale(m.fd, 0, m.p, BLOCK, 8, 5, 9);
	CHECK_EQ(block_info(m.fd, m.p).gpu_pages[0], BLOCK / PAGE);
	hold(&m);
	CHECK_EQ(pthread_create(&t.id, NULL, touches, &t), 0);
	meet(&m);
	CHECK_EQ(pthread_join(t.id, NULL), 0);
	printf("# the CPU got %s\n", t.sig ? "a signal" : "its word");
	if (t.sig)
		CHECK_EQ(t.sig, SIGSEGV);
	else
		CHECK_EQ(t.got, 5 * (ADD + MUL * word) + 9);
	ends(&m, 5, 9);
}

/*
 * No memory for the record of what is behind two holes: the second one's is lost as a range, and its pages stay mapped. What is mapped in
 * a hole then, and goes again, has nothing to do with them. Catches pages that the block takes for nobody's, so that their memory is
 * somebody else's while the program has them.
 */
static void no_record_of_the_tail(void)
{
	struct meeting m = { .fd = begin(0, 0, 0) };
	const uint64_t first = 100, second = 200, len = 10, behind = second + len, left = BLOCK / PAGE - 2 * len;
	struct huvm_instr i;
	uint64_t add;

	CHECK_OK(gpu_register(m.fd, 0));
	m.p = managed(m.fd, BLOCK);
	cpu_fill(m.p, BLOCK, ADD, MUL);
	let_fail(m.fd, HUVM_FAIL_TAIL, 2);
	CHECK_OK(munmap(page_of(&m, first), len * PAGE));
	CHECK_OK(munmap(page_of(&m, second), len * PAGE));
	CHECK_EQ(let_fail_after(m.fd, HUVM_FAIL_TAIL, 0, 0), 0);
	CHECK_EQ(block_info(m.fd, m.p).managed_pages, left);
	CHECK(mmap(page_of(&m, first), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m.fd, 0) == page_of(&m, first));
	CHECK_EQ(block_info(m.fd, m.p).managed_pages, left + 1);
	CHECK_OK(munmap(page_of(&m, first), PAGE));
	CHECK_EQ(block_info(m.fd, m.p).managed_pages, left);
	add = ADD + MUL * behind * (PAGE / 8);
	cpu_check(page_of(&m, behind), BLOCK - behind * PAGE, add, MUL);
	i = of_pages(&m, HUVM_OP_SCALE, behind, BLOCK / PAGE);
	i.imm0 = 5;
	i.imm1 = 9;
	run_ok(m.fd, 0, 1, &i, 1, 8);
	cpu_check(page_of(&m, behind), BLOCK - behind * PAGE, 5 * add + 9, 5 * MUL);
	cpu_check(m.p, first * PAGE, ADD, MUL);
	CHECK_OK(munmap(m.p, BLOCK));
	gets_idle(m.fd, 0);
	close(m.fd);
}

/* A block goes while a GPU that has it leaves, and what it has is on its way home: both get what they asked for. */
static void unmapped_while_its_gpu_leaves(void)
{
	struct meeting m = { .fd = begin(0, 0, 0), .hole = { 0, BLOCK / PAGE } };

	for (int i = 0; i < 8; i++) {
		pthread_t leaving;
		void *why;

		CHECK_OK(gpu_register(m.fd, 0));
		m.p = managed(m.fd, BLOCK);
		m.unmapped = 0;
		gpu_fill(m.fd, 0, m.p, BLOCK, 8, ADD, MUL);
		test_reg(m.fd, 0, INJ_LATENCY, 30000000);
		CHECK_EQ(pthread_create(&leaving, NULL, unregisters, &m), 0);
		CHECK_EQ(pthread_create(&m.unmapping, NULL, unmaps_soon, &m), 0);
		CHECK_EQ(pthread_join(leaving, &why), 0);
		CHECK_EQ((uintptr_t)why, 0);
		CHECK_EQ(pthread_join(m.unmapping, NULL), 0);
		test_reg(m.fd, 0, INJ_LATENCY, 0);
		CHECK_EQ(m.unmapped, 1);
	}
	gets_idle(m.fd, 0);
	close(m.fd);
}

static void head_in_a_gpu_fault(void)	{ in_a_gpu_fault(head); }
static void middle_in_a_gpu_fault(void)	{ in_a_gpu_fault(middle); }
static void tail_in_a_gpu_fault(void)	{ in_a_gpu_fault(tail); }
static void head_in_a_cpu_fault(void)	{ in_a_cpu_fault(head); }
static void middle_in_a_cpu_fault(void)	{ in_a_cpu_fault(middle); }
static void tail_in_a_cpu_fault(void)	{ in_a_cpu_fault(tail); }

static const struct ktap_test tests[] = {
	{ "head_in_a_gpu_fault", head_in_a_gpu_fault }, { "middle_in_a_gpu_fault", middle_in_a_gpu_fault },
	{ "tail_in_a_gpu_fault", tail_in_a_gpu_fault }, { "head_in_a_cpu_fault", head_in_a_cpu_fault },
	{ "middle_in_a_cpu_fault", middle_in_a_cpu_fault }, { "tail_in_a_cpu_fault", tail_in_a_cpu_fault },
	{ "no_record_of_the_tail", no_record_of_the_tail },
	{ "unmapped_while_its_gpu_leaves", unmapped_while_its_gpu_leaves },
};
KTAP_MAIN(tests)
