/* SPDX-License-Identifier: GPL-2.0 */
/* The access modes of the matrix: what each does to a client's range, whichever words, GPUs and policy it has. */
#ifndef MATRIX_ACTIONS_H
#define MATRIX_ACTIONS_H

#include "matrix_lib.h"

#include <sys/syscall.h>

/* Offsets in the range: a hole from inside a block to inside the next, at 64 KiB so that shapes can go around it. */
#define HOLE(c)		((c)->len / 4 / PIECE * PIECE + PIECE)
#define HOLE_LEN(c)	((c)->len / 2 / PIECE * PIECE)

/* ---- plain accesses ---- */

static void cpu_first_read(struct client *c)
{
	cpu_check_shapes(c);
	gpu_check_shapes(c);
	gpu_change(c);
}

static void cpu_first_write(struct client *c)
{
	cpu_write(c);
	gpu_check_shapes(c);
}

static void gpu_first_read(struct client *c)
{
	gpu_check_shapes(c);
	cpu_check_shapes(c);
	cpu_write(c);
	gpu_check_shapes(c);
}

static void gpu_first_write(struct client *c)
{
	gpu_write(c);
	cpu_check_shapes(c);
}

static void gpu_read(struct client *c)
{
	cpu_write_all(c);
	gpu_check_shapes(c);
	gpu_check_all(c);
}

static void gpu_write_over(struct client *c)
{
	cpu_write_all(c);
	gpu_write(c);
	gpu_check_shapes(c);
}

static void gpu_read_write(struct client *c)
{
	cpu_write_all(c);
	gpu_change(c);
	gpu_change(c);
}

static void cpu_read(struct client *c)
{
	gpu_write_all(c);
	cpu_check_shapes(c);
	gpu_check_shapes(c);
}

static void cpu_write_over(struct client *c)
{
	gpu_write_all(c);
	cpu_write(c);
	gpu_check_shapes(c);
	gpu_check_all(c);
}

static void cpu_read_write(struct client *c)
{
	gpu_write_all(c);
	cpu_change(c);
	gpu_change(c);
}

static void in_turns(struct client *c)
{
	cpu_write(c);
	for (int i = 0; i < 3; i++) {
		gpu_change(c);
		cpu_change(c);
	}
}

static void gpu_after_gpu(struct client *c)
{
	gpu_write_all(c);
	for (uint32_t i = 0; i < 2 * c->ngpu; i++)
		gpu_change(c);
	gpu_check_shapes(c);
}

static void of_copy(struct client *c, const struct shape *s, struct huvm_instr *in)
{
	in->dst = (uintptr_t)c->second + s->at;
	in->a = (uintptr_t)c->p + s->at;
}

/* To a second range. */
static void gpu_copy(struct client *c)
{
	uint64_t *to = managed(c->fd, c->len);

	c->second = (char *)to;
	c->shapes.together = 0;
	cpu_write_all(c);
	run_shapes(c, HUVM_OP_COPY, of_copy);
	EACH_SHAPE(c, s)
		EACH_WORD(s, w)
			if (to[w] != c->copy[w])
				wrong_word(c, w, to[w], "GPU's copy");
	CHECK_OK(munmap(to, c->len));
}

static void gpu_reduce(struct client *c)
{
	cpu_write_all(c);
	cpu_change(c);
	EACH_SHAPE(c, s) {
		uint64_t *sums = managed(c->fd, PIECE), want = 0, got = 0;
		struct huvm_instr in = program(HUVM_OP_REDUCE, s);

		in.a = (uintptr_t)c->p + s->at;
		in.dst = (uintptr_t)sums;
		ends_well(c, start_on(c, next_gpu(c), s, &in));
		EACH_WORD(s, w)
			want += c->copy[w];
		for (uint32_t b = 0; b < s->blocks; b++)
			got += sums[b];
		CHECK_EQ(got, want);
		CHECK_OK(munmap(sums, PIECE));
	}
}

/* Through an array of indices, in an order of chance: every word of one page in each 64 KiB goes to another's place. */
static void gpu_scatter(struct client *c)
{
	uint64_t n = c->len / PIECE, words = n * 64, *idx = managed(c->fd, BLOCK), *from = managed(c->fd, BLOCK);
	struct huvm_instr in = { .op = HUVM_OP_SCATTER, .count = words / 4, .steps = 1, .dst = (uintptr_t)c->p,
				 .a = (uintptr_t)from, .idx = (uintptr_t)idx, .block_stride = words * 2 };
	struct shape four = { .blocks = 4, .iterations = 1 };

	cpu_write_all(c);
	c->step++;
	for (uint64_t i = 0; i < words; i++)
		idx[i] = i % n * (PIECE / 8) + i / n * 8;
	for (uint64_t i = words - 1; i; i--) {
		uint64_t j = next_random(&c->rng) % (i + 1), t = idx[i];

		idx[i] = idx[j];
		idx[j] = t;
	}
	for (uint64_t i = 0; i < words; i++) {
		from[i] = word_value(c, idx[i], c->step);
		c->copy[idx[i]] = from[i];
	}
	ends_well(c, start_on(c, next_gpu(c), &four, &in));
	/* And back: each word where its index says. */
	in.op = HUVM_OP_GATHER;
	in.a = (uintptr_t)c->p;
	in.dst = (uintptr_t)from;
	memset(from, 0, words * 8);
	ends_well(c, start_on(c, next_gpu(c), &four, &in));
	for (uint64_t i = 0; i < words; i++)
		if (from[i] != c->copy[idx[i]])
			wrong_word(c, idx[i], from[i], "GPU's gather");
	CHECK_OK(munmap(idx, BLOCK));
	CHECK_OK(munmap(from, BLOCK));
}

/* Single pages in an order of chance, each read or incremented. */
static void gpu_trace(struct client *c)
{
	uint64_t *rec = managed(c->fd, BLOCK), pages = c->len / PAGE;
	struct huvm_instr in = { .op = HUVM_OP_TRACE, .count = 200, .steps = 1, .a = (uintptr_t)rec };
	struct shape one = { .blocks = 1, .iterations = 1 };

	cpu_write(c);
	for (int i = 0; i < 200; i++) {
		uint64_t page = next_random(&c->rng) % pages, write = next_random(&c->rng) & 1;

		rec[i] = ((uintptr_t)c->p + page * PAGE) | write;
		c->copy[page * PAGE_WORDS] += write;
	}
	ends_well(c, start_on(c, next_gpu(c), &one, &in));
	CHECK_OK(munmap(rec, BLOCK));
}

/* x = 3 x + 5 for six words of four bytes, from 4 past a multiple of eight, across the edge of a page. */
static void gpu_change_across(struct client *c, uint64_t edge)
{
	struct huvm_instr in = { .op = HUVM_OP_SCALE, .count = 6, .steps = 1, .imm0 = 3, .imm1 = 5 };
	uint32_t *copy = (uint32_t *)((char *)c->copy + edge - 12);

	in.dst = in.a = (uintptr_t)c->p + edge - 12;
	run_ok(c->fd, next_gpu(c), 1, &in, 1, 4);
	for (int i = 0; i < 6; i++)
		copy[i] = 3 * copy[i] + 5;
}

/* A few bytes across the edges of pages, of 64 KiB pieces and of blocks, between the GPU's steps; and a few words of the GPU's. */
static void unaligned(struct client *c)
{
	gpu_write_all(c);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t edge = PIECE; edge < c->len; edge += 5 * PIECE + (edge & PAGE)) {
			char bytes[7];

			for (int i = 0; i < 7; i++)
				bytes[i] = (char)next_random(&c->rng);
			memcpy(c->p + edge - 3, bytes, 7);
			memcpy((char *)c->copy + edge - 3, bytes, 7);
		}
		for (uint64_t edge = PAGE; edge < c->len; edge += BLOCK / 2 - PAGE)
			gpu_change_across(c, edge);
		gpu_change_across(c, c->len / 2);
		gpu_change(c);
		for (uint64_t edge = PIECE; edge < c->len; edge += 3 * PIECE)
			CHECK(!memcmp(c->p + edge - 5, (char *)c->copy + edge - 5, 9));
	}
}

/* Whole blocks at their natural alignment, by the CPU with one store after the other, then by the GPU in one step. */
static void huge(struct client *c)
{
	struct shapes was = c->shapes;

	for (uint64_t at = 0; at < c->len; at += BLOCK) {
		c->shapes = (struct shapes){ .repeat = 1 };
		add_shape(&c->shapes, (struct shape){ .at = at, .blocks = 1, .count = BLOCK / 8, .steps = 1 });
		if (at / BLOCK % 2)
			gpu_write(c);
		else
			cpu_write(c);
		gpu_change(c);
		cpu_check_shapes(c);
	}
	c->shapes = was;
	gpu_change(c);
}

/* One end of the range is inside a block, and its length is an odd number of pages. */
static void odd_range(struct client *c)
{
	uint64_t head = 37 * PAGE, tail = 5 * PAGE;

	CHECK_OK(munmap(c->p, head));
	CHECK_OK(munmap(c->p + c->len - tail, tail));
	for (uint64_t at = head; at + 3 * PIECE < c->len - tail; at += BLOCK / 2 + 3 * PAGE) {
		struct shapes was = c->shapes;

		c->shapes = (struct shapes){ .repeat = 1 };
		add_shape(&c->shapes, (struct shape){ .at = at, .blocks = 3, .count = PAGE_WORDS, .steps = 8,
			  .block_stride = PAGE, .step_stride = 3 * PAGE });
		gpu_write(c);
		cpu_change(c);
		gpu_check_shapes(c);
		c->shapes = was;
	}
	cpu_verify(c, head, c->len - tail);
	CHECK_EQ(touch(c->p + head - 1, 0), SIGSEGV);
	CHECK_EQ(touch(c->p + c->len - tail, 0), SIGSEGV);
	/* So that the whole can be looked at: what is mapped anew is zero. */
	memset(c->copy, 0, head);
	memset((char *)c->copy + c->len - tail, 0, tail);
	CHECK(mmap(c->p, head, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p);
	CHECK(mmap(c->p + c->len - tail, tail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + c->len - tail);
	gpu_change(c);
}

/* CPU and GPU at the same time, each with words of its own in the same pages. */
static void side_by_side(struct client *c)
{
	struct shape s = { .at = 8, .blocks = 2, .count = 1, .steps = c->len / PAGE / 8, .step_stride = 4 * PAGE,
			   .block_stride = c->len / 2, .iterations = 2, .elem_stride = 8 };
	struct huvm_instr in = program(HUVM_OP_SCALE, &s);
	volatile uint64_t *p = (uint64_t *)c->p;
	uint64_t id;

	gpu_write_all(c);
	of_change(c, &s, &in);
	id = start_on(c, next_gpu(c), &s, &in);
	for (int turn = 0; turn < 2; turn++)
		for (uint64_t w = 0; w < c->len / 8; w += 5 * PAGE_WORDS)
			p[w] = 3 * p[w] + STEP_STEP;
	ends_well(c, id);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t w = 0; w < c->len / 8; w += 5 * PAGE_WORDS)
			c->copy[w] = 3 * c->copy[w] + STEP_STEP;
		EACH_WORD(&s, w)
			c->copy[w] = 3 * c->copy[w] + STEP_STEP;
	}
	gpu_change(c);
}

/* ---- atomic accesses: sums that several add to at once ---- */

/* Words that nobody else touches, far apart: in every block of the range, in few pages. */
static struct shape shared_words(const struct client *c)
{
	return (struct shape){ .at = 3 * PAGE + 8, .blocks = 4, .count = 2, .steps = 8, .step_stride = c->len / 8, .iterations = 3,
			       .elem_stride = 8 };
}

/* Two launches on each GPU of the client's, of four blocks each: all to the same words. */
static void gpu_add_together(struct client *c)
{
	struct shape s = shared_words(c);
	struct huvm_instr in = program(HUVM_OP_ATOMIC_ADD, &s);
	uint64_t ids[2 * HUVM_MAX_GPUS];
	uint32_t n = 0;

	of_add(c, &s, &in);
	while (n < 2 * c->ngpu)
		ids[n++] = start_on(c, next_gpu(c), &s, &in);
	for (uint32_t i = 0; i < n; i++)
		ends_well(c, ids[i]);
	/* Of each block of each launch. */
	EACH_WORD(&s, w)
		c->copy[w] += n * s.iterations * STEP_STEP;
}

static void gpu_atomic(struct client *c)
{
	gpu_add(c);
	gpu_check_shapes(c);
	gpu_add_together(c);
	cpu_change(c);
	gpu_add(c);
	gpu_add_together(c);
	cpu_check_shapes(c);
}

struct adder {
	pthread_t id;
	struct client *c;
	struct shapes shapes;
};

static void *adder_run(void *arg)
{
	struct adder *a = arg;
	uint64_t *p = (uint64_t *)a->c->p;

	for (int r = 0; r < a->shapes.repeat; r++)
		EACH_SHAPE(a, s)
			for (uint32_t i = 0; i < s->iterations; i++)
				EACH_WORD(s, w)
					__atomic_fetch_add(&p[w], STEP_STEP, __ATOMIC_RELAXED);
	return NULL;
}

/* Two threads add to the words of the client's shapes. */
static void cpu_add_together(struct client *c)
{
	struct adder a[2];

	for (int i = 0; i < 2; i++) {
		a[i].c = c;
		a[i].shapes = c->shapes;
		CHECK_EQ(pthread_create(&a[i].id, NULL, adder_run, &a[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(a[i].id, NULL), 0);
	copy_add(c, 2);
}

/* After the GPU; while the GPU adds to other words of the same pages; and the GPU to the same words after that. */
static void cpu_atomic(struct client *c)
{
	struct shape gpu = shared_words(c), cpu = gpu;
	struct huvm_instr in = program(HUVM_OP_ATOMIC_ADD, &gpu);
	struct shapes was = c->shapes;
	uint64_t id;

	gpu_write_all(c);
	cpu_add_together(c);
	gpu_add(c);
	of_add(c, &gpu, &in);
	cpu.at += PAGE / 2;
	c->shapes = (struct shapes){ .repeat = 1 };
	add_shape(&c->shapes, cpu);
	id = start_on(c, next_gpu(c), &gpu, &in);
	cpu_add_together(c);
	ends_well(c, id);
	EACH_WORD(&gpu, w)
		c->copy[w] += gpu.iterations * STEP_STEP;
	gpu_add(c);
	c->shapes = was;
	cpu_add_together(c);
	gpu_check_shapes(c);
}

/* ---- system calls on the memory ---- */

static void read_write_calls(struct client *c)
{
	int file = memfd_create("matrix", MFD_CLOEXEC);
	uint64_t half = c->len / 2, n = half - 100;

	CHECK(file >= 0);
	gpu_write_all(c);
	/* From where the GPU has it, to where the GPU has it; neither end is at a page. */
	CHECK_EQ(write(file, c->p + 37, n), n);
	CHECK_EQ(pread(file, c->p + half + 41, n, 0), n);
	memcpy((char *)c->copy + half + 41, (char *)c->copy + 37, n);
	close(file);
	gpu_change(c);
}

static void proc_mem(struct client *c)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char buf[300];

	CHECK(mem >= 0);
	gpu_write_all(c);
	for (uint64_t at = PAGE - 150; at + 300 < c->len; at += BLOCK / 2 - PAGE) {
		CHECK_EQ(pread(mem, buf, 300, (off_t)(uintptr_t)(c->p + at)), 300);
		CHECK(!memcmp(buf, (char *)c->copy + at, 300));
		memset(buf, (int)next_random(&c->rng), 300);
		CHECK_EQ(pwrite(mem, buf, 300, (off_t)(uintptr_t)(c->p + at)), 300);
		memcpy((char *)c->copy + at, buf, 300);
	}
	close(mem);
	gpu_change(c);
}

/* ---- protection ---- */

static void read_only_range(struct client *c)
{
	char *ro = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, c->fd, 0);
	struct huvm_instr in = { .op = HUVM_OP_CHECK, .count = PAGE_WORDS, .steps = 512, .step_stride = PAGE, .a = (uintptr_t)ro };

	CHECK(ro != MAP_FAILED);
	gpu_write(c);
	run_ok(c->fd, next_gpu(c), 1, &in, 1, 8);
	gpu_faults_at(c, ro, BLOCK);
	CHECK_EQ(touch(ro + 3 * PAGE, 1), SIGSEGV);
	/* It is still zero, and the other range whole. */
	run_ok(c->fd, next_gpu(c), 1, &in, 1, 8);
	for (uint64_t i = 0; i < BLOCK; i += 64)
		CHECK_EQ(ro[i], 0);
	CHECK_OK(munmap(ro, BLOCK));
	gpu_change(c);
}

/* mprotect is about the CPU alone: the GPU goes on, and what it wrote is there when the CPU may look again. */
static void protect(struct client *c, int prot)
{
	uint64_t from = HOLE(c) + 3 * PAGE, len = HOLE_LEN(c);

	gpu_write_all(c);
	cpu_change(c);
	CHECK_OK(mprotect(c->p + from, len, prot));
	CHECK_EQ(touch(c->p + from + PAGE, 1), SIGSEGV);
	CHECK_EQ(touch(c->p + from + PAGE, 0), prot == PROT_NONE ? SIGSEGV : 0);
	gpu_change(c);
	gpu_check_shapes(c);
	CHECK_EQ(touch(c->p + from + len - 1, 0), prot == PROT_NONE ? SIGSEGV : 0);
	CHECK_EQ(touch(c->p + from + len, 1), 0);
	CHECK_OK(mprotect(c->p + from, len, PROT_READ | PROT_WRITE));
	cpu_change(c);
}

/* Changes the client's words in launches that are under way while @prot comes into force on a part of the range. */
static void change_while(struct client *c, int prot)
{
	uint64_t ids[SHAPES_MAX];
	int n = 0;

	EACH_SHAPE(c, s) {
		struct huvm_instr in = program(HUVM_OP_SCALE, s);

		of_change(c, s, &in);
		ids[n++] = start_on(c, next_gpu(c), s, &in);
	}
	CHECK_OK(mprotect(c->p + HOLE(c) + 3 * PAGE, HOLE_LEN(c), prot));
	while (n)
		ends_well(c, ids[--n]);
	EACH_SHAPE(c, s)
		for (uint32_t i = 0; i < s->iterations; i++)
			EACH_WORD(s, w)
				c->copy[w] = 3 * c->copy[w] + STEP_STEP;
}

/* The same with launches under way: they see nothing of it, neither when protection comes nor when it goes. */
static void protect_running(struct client *c, int prot)
{
	char *p = c->p + HOLE(c) + 3 * PAGE;

	gpu_write_all(c);
	/* What the launches find is with the CPU, so that they fault. */
	cpu_change(c);
	change_while(c, prot);
	CHECK_EQ(touch(p + PAGE, 1), SIGSEGV);
	CHECK_EQ(touch(p + PAGE, 0), prot == PROT_NONE ? SIGSEGV : 0);
	gpu_check_shapes(c);
	change_while(c, PROT_READ | PROT_WRITE);
	cpu_change(c);
}

static void protect_read_running(struct client *c)	{ protect_running(c, PROT_READ); }
static void protect_none_running(struct client *c)	{ protect_running(c, PROT_NONE); }
static void protect_read(struct client *c)	{ protect(c, PROT_READ); }
static void protect_none(struct client *c)	{ protect(c, PROT_NONE); }

/* Mappings that there are none of, and what they must not do to those that there are. */
static void refused_maps(struct client *c)
{
	int file = memfd_create("matrix", MFD_CLOEXEC);
	char *f;

	gpu_write(c);
	CHECK(mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, c->fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, c->fd, BLOCK) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, BLOCK, PROT_READ | PROT_EXEC, MAP_SHARED, c->fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK_OK(ftruncate(file, BLOCK));
	f = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(f != MAP_FAILED);
	memset(f, 7, BLOCK);
	/* A file's pages are not the GPU's, neither as a whole nor in the middle of a range. */
	gpu_faults_at(c, f, BLOCK);
	CHECK_ERR(migrate(c->fd, f, BLOCK, c->gpus[0]), ENOMEM);
	for (uint64_t i = 0; i < BLOCK; i += 512)
		CHECK_EQ(f[i], 7);
	CHECK_OK(munmap(f, BLOCK));
	f = mmap(c->p + HOLE(c), PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	CHECK(f == c->p + HOLE(c));
	gpu_faults_at(c, f, PIECE);
	CHECK_EQ(f[PIECE - 1], 7);
	cpu_verify(c, 0, HOLE(c));
	cpu_verify(c, HOLE(c) + PIECE, c->len);
	CHECK(mmap(f, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == f);
	memset((char *)c->copy + HOLE(c), 0, PIECE);
	close(file);
	gpu_change(c);
}

/* ---- fork ---- */

/* Waits for a child; its exit code, or 128 and the signal. */
static int outcome(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A child made before anything was mapped knows nothing of what was mapped then. */
static void fork_before(struct client *c)
{
	int pipes[2];
	char *p = NULL;
	pid_t pid;

	CHECK_OK(pipe(pipes));
	pid = fork_child();
	if (!pid) {
		if (read(pipes[0], &p, sizeof(p)) != sizeof(p))
			_exit(1);
		_exit(touch(p, 0) == SIGSEGV && touch(c->p, 0) == SIGSEGV ? 0 : 2);
	}
	p = managed(c->fd, BLOCK);
	CHECK_EQ(touch(p, 1), 0);
	gpu_write(c);
	CHECK_EQ(write(pipes[1], &p, sizeof(p)), sizeof(p));
	gpu_change(c);
	CHECK_EQ(outcome(pid), 0);
	CHECK_OK(munmap(p, BLOCK));
	close(pipes[0]);
	close(pipes[1]);
	cpu_change(c);
	gpu_check_shapes(c);
}

/* A child made while a GPU has the data has nothing of it, cannot call on the parent's space, and works in one of its own. */
static void fork_after(struct client *c)
{
	pid_t pid;

	gpu_write_all(c);
	cpu_change(c);
	gpu_change(c);
	pid = fork_child();
	if (!pid) {
		int fd;

		if (touch(c->p, 0) != SIGSEGV || touch(c->p + c->len - 1, 1) != SIGSEGV)
			_exit(1);
		if (migrate(c->fd, c->p, PAGE, HUVM_PLACE_HOST) != -1 || errno != EPERM)
			_exit(2);
		if (munmap(c->p, c->len))
			_exit(3);
		fd = huvm_open();
		if (gpu_register(fd, c->gpus[0]))
			_exit(4);
		gpu_fill(fd, c->gpus[0], managed(fd, BLOCK), BLOCK, 8, 5, 1);
		_exit(0);
	}
	gpu_change(c);
	CHECK_EQ(outcome(pid), 0);
	cpu_change(c);
	gpu_change(c);
}

/* ---- advice of the kernel's, and moving mappings ---- */

/* KiB of this process that are locked, as the kernel counts. */
static unsigned long locked_kib(void)
{
	unsigned long kib = ~0ul;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* mlock and munlock succeed and do nothing, as for all memory that is not the kernel's (VM_PFNMAP): pages go where they are wanted. */
static void locked(struct client *c)
{
	cpu_write(c);
	CHECK_OK(mlock(c->p, c->len));
	CHECK_EQ(locked_kib(), 0);
	gpu_change(c);
	cpu_change(c);
	CHECK_OK(migrate(c->fd, c->p, c->len, c->gpus[0]));
	CHECK_OK(munlock(c->p, c->len));
	gpu_change(c);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#define MADV_DONTNEED_LOCKED_	24
#define MADV_COLLAPSE_		25

/* Each is refused, or leaves the data as it is. */
static void kernel_advice(struct client *c, const int *advice, int n)
{
	gpu_write_all(c);
	for (int i = 0; i < n; i++) {
		madvise(c->p + (i & 1 ? PAGE : 0), c->len - (i & 1 ? 2 * PAGE : 0), advice[i]);
		if (i & 1)
			gpu_change(c);
		else
			cpu_change(c);
	}
}

static void advice_to_drop(struct client *c)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_COLD, MADV_PAGEOUT, MADV_DONTNEED_LOCKED_ };

	kernel_advice(c, advice, 6);
}

static void advice_to_hint(struct client *c)
{
	static const int advice[] = { MADV_WILLNEED, MADV_SEQUENTIAL, MADV_RANDOM, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE_,
				      MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_DONTDUMP, MADV_DODUMP, MADV_NORMAL };

	kernel_advice(c, advice, 11);
}

static void advice_to_populate(struct client *c)
{
	static const int advice[] = { MADV_POPULATE_READ, MADV_POPULATE_WRITE };

	kernel_advice(c, advice, 2);
}

/* Whatever a program asks of a fork, the child has nothing. */
static void advice_about_forks(struct client *c)
{
	static const int advice[] = { MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK, MADV_KEEPONFORK };
	pid_t pid;

	kernel_advice(c, advice, 4);
	pid = fork_child();
	if (!pid)
		_exit(touch(c->p, 0) == SIGSEGV ? 0 : 1);
	CHECK_EQ(outcome(pid), 0);
	gpu_change(c);
}

static void remapped(struct client *c)
{
	char *to = mmap(NULL, 2 * c->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	gpu_write_all(c);
	CHECK(to != MAP_FAILED);
	CHECK(mremap(c->p, c->len, 2 * c->len, MREMAP_MAYMOVE) == MAP_FAILED && (errno == EFAULT || errno == EINVAL));
	cpu_change(c);
	CHECK(mremap(c->p, c->len, c->len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED && (errno == EFAULT || errno == EINVAL));
	CHECK(mremap(c->p, 0, BLOCK, MREMAP_MAYMOVE) == MAP_FAILED);
	munmap(to, 2 * c->len);
	gpu_change(c);
	/* Shrinking is a munmap of the tail. */
	CHECK(mremap(c->p, c->len, c->len - PIECE, 0) == c->p);
	gpu_faults_at(c, c->p + c->len - PIECE, PIECE);
	cpu_verify(c, 0, c->len - PIECE);
	CHECK(mmap(c->p + c->len - PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + c->len - PIECE);
	memset((char *)c->copy + c->len - PIECE, 0, PIECE);
	gpu_change(c);
}

/* ---- munmap ---- */

/* [from, from + len) goes; the rest stays; what is mapped there anew is zero. */
static void unmapped(struct client *c, uint64_t from, uint64_t len)
{
	gpu_write_all(c);
	cpu_change(c);
	gpu_change(c);
	CHECK_OK(munmap(c->p + from, len));
	CHECK_EQ(touch(c->p + from, 0), SIGSEGV);
	CHECK_EQ(touch(c->p + from + len - 1, 1), SIGSEGV);
	gpu_faults_at(c, c->p + from, len);
	cpu_verify(c, 0, from);
	cpu_verify(c, from + len, c->len);
	CHECK(mmap(c->p + from, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + from);
	memset((char *)c->copy + from, 0, len);
	gpu_check_all(c);
	gpu_change(c);
}

static void unmap_head(struct client *c)	{ unmapped(c, 0, HOLE(c) + 5 * PAGE); }
static void unmap_middle(struct client *c)	{ unmapped(c, HOLE(c) + 3 * PAGE, HOLE_LEN(c)); }
static void unmap_tail(struct client *c)	{ unmapped(c, c->len - HOLE(c) - PAGE, HOLE(c) + PAGE); }
static void unmap_all(struct client *c)		{ unmapped(c, 0, c->len); }

/* Each word of the client's shapes outside [from, from + len) is as before or as the launch under way writes it. */
static void settle(struct client *c, uint64_t from, uint64_t len)
{
	const volatile uint64_t *p = (uint64_t *)c->p;

	EACH_SHAPE(c, s) {
		EACH_WORD(s, w) {
			uint64_t got;

			if (w * 8 >= from && w * 8 < from + len)
				continue;
			got = p[w];
			if (got == word_value(c, w, c->step))
				c->copy[w] = got;
			else if (got != c->copy[w])
				wrong_word(c, w, got, "CPU, after a launch that was broken off,");
		}
	}
}

/* The same while launches go over it: they fail inside the hole, or were through already. */
static void unmap_running(struct client *c, uint64_t from, uint64_t len, int again)
{
	uint64_t ids[SHAPES_MAX];
	int n = 0;

	cpu_write_all(c);
	c->step++;
	EACH_SHAPE(c, s) {
		struct huvm_instr in = program(HUVM_OP_FILL, s);

		of_write(c, s, &in);
		ids[n++] = start_on(c, c->gpus[0], s, &in);
	}
	usleep((useconds_t)(next_random(&c->rng) % 4000));
	if (again)
		/* In one act: the old pages go and new ones come. */
		CHECK(mmap(c->p + from, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + from);
	else
		CHECK_OK(munmap(c->p + from, len));
	while (n) {
		struct huvm_wait w = wait_launch(c->fd, ids[--n]);

		if (w.status == HUVM_LAUNCH_FAILED) {
			CHECK_EQ(w.error, HUVM_ERROR_FAULT);
			CHECK(w.fault_va >= (uintptr_t)c->p + from && w.fault_va < (uintptr_t)c->p + from + len);
		} else {
			CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		}
	}
	settle(c, from, len);
	if (!again) {
		CHECK_EQ(touch(c->p + from, 0), SIGSEGV);
		CHECK(mmap(c->p + from, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c->fd, 0) == c->p + from);
	} else {
		/* A word there is zero, or what the launch wrote after. */
		uint64_t *p = (uint64_t *)c->p;

		for (uint64_t w = from / 8; w < (from + len) / 8; w++) {
			CHECK(!p[w] || p[w] == word_value(c, w, c->step));
			c->copy[w] = p[w];
		}
		gpu_change(c);
		return;
	}
	memset((char *)c->copy + from, 0, len);
	gpu_change(c);
}

static void unmap_head_running(struct client *c)	{ unmap_running(c, 0, HOLE(c) + 5 * PAGE, 0); }
static void unmap_middle_running(struct client *c)	{ unmap_running(c, HOLE(c) + 3 * PAGE, HOLE_LEN(c), 0); }
static void unmap_tail_running(struct client *c)	{ unmap_running(c, c->len - HOLE(c) - PAGE, HOLE(c) + PAGE, 0); }
static void replaced_running(struct client *c)		{ unmap_running(c, HOLE(c) + 3 * PAGE, HOLE_LEN(c), 1); }

static void aborted(struct client *c)
{
	uint64_t ids[SHAPES_MAX];
	int n = 0;

	cpu_write_all(c);
	c->step++;
	EACH_SHAPE(c, s) {
		struct huvm_instr in = program(HUVM_OP_FILL, s);

		of_write(c, s, &in);
		ids[n++] = start_on(c, c->gpus[0], s, &in);
	}
	usleep((useconds_t)(next_random(&c->rng) % 3000));
	while (n) {
		ARG(huvm_wait, w, .launch = ids[--n], .timeout_ns = launch_limit_ns());

		CHECK_OK(ioctl(c->fd, HUVM_IOC_ABORT, &w));
		CHECK(w.status == HUVM_LAUNCH_ABORTED || w.status == HUVM_LAUNCH_DONE);
	}
	settle(c, 0, 0);
	gpu_change(c);
}

/* ---- the driver's own calls ---- */

static void moved(struct client *c)
{
	cpu_write_all(c);
	for (uint32_t g = 0; g < c->ngpu; g++) {
		CHECK_OK(migrate(c->fd, c->p, c->len, c->gpus[g]));
		gpu_change(c);
		CHECK_OK(migrate(c->fd, c->p, c->len, HUVM_PLACE_HOST));
		cpu_change(c);
		CHECK_OK(migrate(c->fd, c->p, c->len, c->gpus[g]));
	}
	gpu_check_shapes(c);
}

static void moved_in_parts(struct client *c)
{
	cpu_write_all(c);
	for (uint64_t at = 3 * PAGE; at + BLOCK / 2 < c->len; at += BLOCK / 2 + 7 * PAGE) {
		CHECK_OK(migrate(c->fd, c->p + at, BLOCK / 4 + PAGE, next_gpu(c)));
		if (at & PAGE)
			CHECK_OK(migrate(c->fd, c->p + at + 2 * PAGE, BLOCK / 8, HUVM_PLACE_HOST));
	}
	gpu_change(c);
	cpu_change(c);
}

static void moved_before_touch(struct client *c)
{
	CHECK_OK(migrate(c->fd, c->p, c->len / 2, next_gpu(c)));
	CHECK_OK(migrate(c->fd, c->p + c->len / 2, c->len / 4, HUVM_PLACE_HOST));
	gpu_check_all(c);
	cpu_change(c);
	gpu_change(c);
}

static void *mover(void *arg)
{
	struct client *c = arg;

	for (int i = 0; i < 4; i++)
		CHECK_OK(migrate(c->fd, c->p, c->len, i & 1 ? c->gpus[i / 2 % c->ngpu] : HUVM_PLACE_HOST));
	return NULL;
}

/* Somebody moves the range to and fro while the GPU works on it. */
static void moved_running(struct client *c)
{
	pthread_t t;

	gpu_write_all(c);
	CHECK_EQ(pthread_create(&t, NULL, mover, c), 0);
	gpu_change(c);
	gpu_change(c);
	CHECK_EQ(pthread_join(t, NULL), 0);
	gpu_check_shapes(c);
}

static void prefer(struct client *c, uint32_t place)
{
	cpu_write_all(c);
	CHECK_OK(advise(c->fd, c->p, c->len / 2 + 3 * PAGE, HUVM_ADVISE_PREFERRED, place));
	gpu_change(c);
	cpu_change(c);
	gpu_change(c);
	CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_UNSET_PREFERRED, 0));
	gpu_change(c);
}

static void prefer_host(struct client *c)	{ prefer(c, HUVM_PLACE_HOST); }
static void prefer_gpu(struct client *c)	{ prefer(c, c->gpus[c->ngpu - 1]); }

static void read_mostly(struct client *c)
{
	cpu_write_all(c);
	CHECK_OK(advise(c->fd, c->p + PAGE, c->len - PAGE, HUVM_ADVISE_READ_MOSTLY, 0));
	for (uint32_t g = 0; g < c->ngpu; g++)
		gpu_check_shapes(c);
	cpu_check_shapes(c);
	/* A write by either collapses the copies: the others must not go on reading theirs. */
	cpu_change(c);
	gpu_check_shapes(c);
	gpu_change(c);
	cpu_check_shapes(c);
	gpu_check_shapes(c);
	CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	gpu_change(c);
}

static void accessed_by(struct client *c)
{
	CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_ACCESSED_BY, c->gpus[0]));
	cpu_write(c);
	gpu_change(c);
	cpu_change(c);
	gpu_change(c);
	CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_UNSET_ACCESSED_BY, c->gpus[0]));
	gpu_change(c);
}

static void discarded(struct client *c)
{
	uint64_t from = HOLE(c) + PAGE, len = HOLE_LEN(c);

	gpu_write_all(c);
	CHECK_OK(advise(c->fd, c->p + from, len, HUVM_ADVISE_DISCARD, 0));
	memset((char *)c->copy + from, 0, len);
	gpu_check_shapes(c);
	cpu_write(c);
	CHECK_OK(advise(c->fd, c->p + from, len / 2, HUVM_ADVISE_DISCARD, 0));
	memset((char *)c->copy + from, 0, len / 2);
	gpu_change(c);
}

/* Advice and moves in an order that the case's number chooses, with a step by either side after each. */
static void in_any_order(struct client *c)
{
	int order[7] = { 0, 1, 2, 3, 4, 5, 6 };

	for (int i = 6; i; i--) {
		int j = (int)(next_random(&c->rng) % ((unsigned int)i + 1)), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	cpu_write_all(c);
	for (int i = 0; i < 7; i++) {
		uint32_t gpu = c->gpus[i % (int)c->ngpu];

		switch (order[i]) {
		case 0: CHECK_OK(advise(c->fd, c->p, c->len / 2, HUVM_ADVISE_PREFERRED, gpu)); break;
		case 1: CHECK_OK(advise(c->fd, c->p + c->len / 4, c->len / 2, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST)); break;
		case 2: CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_READ_MOSTLY, 0)); break;
		case 3: CHECK_OK(advise(c->fd, c->p + PAGE, c->len / 2, HUVM_ADVISE_ACCESSED_BY, gpu)); break;
		case 4: CHECK_OK(migrate(c->fd, c->p, c->len, gpu)); break;
		case 5: CHECK_OK(migrate(c->fd, c->p + c->len / 2 + PAGE, c->len / 4, HUVM_PLACE_HOST)); break;
		case 6: CHECK_OK(advise(c->fd, c->p, c->len, HUVM_ADVISE_UNSET_PREFERRED, 0)); break;
		}
		gpu_check_shapes(c);
		if (next_random(&c->rng) & 1)
			gpu_change(c);
		else
			cpu_change(c);
	}
}

static void evicted(struct client *c)
{
	ARG(huvm_test_evict, e, .gpu = c->gpus[0], .chunks = 2);

	gpu_write_all(c);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(ioctl(c->fd, HUVM_IOC_TEST_EVICT, &e));
		gpu_change(c);
	}
	CHECK_OK(ioctl(c->fd, HUVM_IOC_TEST_EVICT, &e));
	cpu_change(c);
}

static void registered_again(struct client *c)
{
	gpu_write_all(c);
	CHECK_OK(gpu_unregister(c->fd, c->gpus[0]));
	cpu_check_shapes(c);
	CHECK_ERR(migrate(c->fd, c->p, c->len, c->gpus[0]), ENOENT);
	CHECK_OK(gpu_register(c->fd, c->gpus[0]));
	gpu_change(c);
}

/* The file is closed; the memory stays, for the CPU. */
static void closed(struct client *c)
{
	gpu_write_all(c);
	CHECK_OK(close(c->fd));
	c->fd = -1;
	cpu_check_all(c);
	cpu_change(c);
}

static void beyond_the_end(struct client *c)
{
	char *hole = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	gpu_write(c);
	CHECK(hole != MAP_FAILED);
	gpu_faults_at(c, hole, BLOCK);
	gpu_change(c);
	/* In memory of the program's that is nobody's but its own. */
	gpu_faults_at(c, (void *)((uintptr_t)c->copy & ~(PAGE - 1)), PIECE);
	munmap(hole, BLOCK);
	gpu_change(c);
}

/* What an action needs, or what cannot go with it. */
enum {
	NEEDS_TWO_GPUS	= 1 << 0,
	NEEDS_OWN_FILE	= 1 << 1,	/* it closes the file or leaves the GPU */
	NO_THREADS	= 1 << 2,	/* it forks, or leaves a hole that another thread's mapping could take */
	ALL_AT_ONCE	= 1 << 3,	/* one step of a program touches pages all over the range */
};

static const struct action {
	const char *name;
	void (*run)(struct client *c);
	unsigned int needs;
} actions[] = {
	{ "cpu-first-read", cpu_first_read }, { "cpu-first-write", cpu_first_write }, { "gpu-first-read", gpu_first_read },
	{ "gpu-first-write", gpu_first_write }, { "gpu-read", gpu_read }, { "gpu-write", gpu_write_over },
	{ "gpu-read-write", gpu_read_write }, { "cpu-read", cpu_read }, { "cpu-write", cpu_write_over },
	{ "cpu-read-write", cpu_read_write }, { "in-turns", in_turns }, { "gpu-after-gpu", gpu_after_gpu, NEEDS_TWO_GPUS },
	{ "gpu-copy", gpu_copy }, { "gpu-reduce", gpu_reduce }, { "gpu-scatter", gpu_scatter, ALL_AT_ONCE },
	{ "gpu-trace", gpu_trace, ALL_AT_ONCE }, { "unaligned", unaligned }, { "huge", huge }, { "odd-range", odd_range, NO_THREADS },
	{ "side-by-side", side_by_side }, { "gpu-atomic", gpu_atomic }, { "cpu-atomic", cpu_atomic },
	{ "read-write-calls", read_write_calls }, { "proc-mem", proc_mem },
	{ "read-only", read_only_range }, { "mprotect-read", protect_read }, { "mprotect-none", protect_none },
	{ "mprotect-read-running", protect_read_running }, { "mprotect-none-running", protect_none_running },
	{ "refused-maps", refused_maps }, { "fork-before", fork_before, NO_THREADS }, { "fork-after", fork_after, NO_THREADS },
	{ "mlock", locked }, { "madvise-drop", advice_to_drop }, { "madvise-hint", advice_to_hint },
	{ "madvise-populate", advice_to_populate }, { "madvise-fork", advice_about_forks, NO_THREADS },
	{ "mremap", remapped, NO_THREADS }, { "munmap-head", unmap_head, NO_THREADS }, { "munmap-middle", unmap_middle, NO_THREADS },
	{ "munmap-tail", unmap_tail, NO_THREADS }, { "munmap-all", unmap_all, NO_THREADS },
	{ "munmap-head-running", unmap_head_running, NO_THREADS }, { "munmap-middle-running", unmap_middle_running, NO_THREADS },
	{ "munmap-tail-running", unmap_tail_running, NO_THREADS }, { "replace-running", replaced_running },
	{ "abort", aborted }, { "migrate", moved }, { "migrate-parts", moved_in_parts }, { "migrate-first", moved_before_touch },
	{ "migrate-running", moved_running }, { "prefer-host", prefer_host }, { "prefer-gpu", prefer_gpu },
	{ "read-mostly", read_mostly }, { "accessed-by", accessed_by }, { "discard", discarded },
	{ "advise-any-order", in_any_order }, { "evict", evicted },
	{ "register-again", registered_again, NEEDS_OWN_FILE }, { "close", closed, NEEDS_OWN_FILE },
	{ "beyond", beyond_the_end },
};
#define NACTIONS ((int)(sizeof(actions) / sizeof(actions[0])))

#endif
