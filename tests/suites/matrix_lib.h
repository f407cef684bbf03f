/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the generated cases share: a client with a range, a copy of what must be in it, and steps by CPU and GPU that change both.
 *
 * Every word has a value of its own, made of its place, the step that wrote it, and the client: a word that is lost, stale, of
 * another page or of another client is a wrong one. A shape says which words a step touches; the same walk is done by the GPU,
 * as strides of its program, and by the CPU on the copy.
 */
#ifndef MATRIX_LIB_H
#define MATRIX_LIB_H

#include "huvm_lib.h"

#include <pthread.h>

#define WORD_STEP	0x9e3779b97f4a7c15ull
#define STEP_STEP	0xc2b2ae3d27d4eb4full
#define SHAPES_MAX	32
#define PAGE_WORDS	(PAGE / 8)

/* Words at `at` + b * block_stride + s * step_stride + e * elem_stride bytes: b < blocks, s < steps, e < count. */
struct shape {
	uint64_t at;
	uint32_t blocks, iterations;
	uint64_t count, steps, block_stride, step_stride, elem_stride;
};

struct shapes {
	struct shape s[SHAPES_MAX];
	int n;
	int together;	/* all launched before the first is waited for */
	int repeat;	/* the whole, one after the other */
};

/* A client of some GPUs, with its range. Clients of one space have the same file. */
struct client {
	int fd;
	int alone;		/* nobody else uses this file */
	uint32_t gpus[HUVM_MAX_GPUS], ngpu, turn;
	char *p, *second;
	uint64_t *copy, len;
	uint64_t key, step, rng;
	struct shapes shapes;
};

/* Bytes compared, by all processes of the suite; and what a client counts up as it gets on, for who watches it. */
static uint64_t *verified;
static __thread volatile uint64_t *progress;

static inline uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static inline uint64_t word_value(const struct client *c, uint64_t word, uint64_t step)
{
	return c->key + step * STEP_STEP + word * WORD_STEP;
}

static inline uint32_t next_gpu(struct client *c)
{
	return c->gpus[c->turn++ % c->ngpu];
}

#define EACH_WORD(sh, w) \
	for (uint64_t b_ = 0; b_ < (sh)->blocks; b_++) \
		for (uint64_t s_ = 0; s_ < (sh)->steps; s_++) \
			for (uint64_t e_ = 0, w = ((sh)->at + b_ * (sh)->block_stride + s_ * (sh)->step_stride) / 8; \
			     e_ < (sh)->count; e_++, w += (sh)->elem_stride / 8)

#define EACH_SHAPE(c, sh) \
	for (const struct shape *sh = (c)->shapes.s; sh < (c)->shapes.s + (c)->shapes.n; sh++)

static inline void add_shape(struct shapes *to, struct shape s)
{
	CHECK(to->n < SHAPES_MAX);
	s.iterations = s.iterations ? s.iterations : 1;
	s.elem_stride = s.elem_stride ? s.elem_stride : 8;
	to->s[to->n++] = s;
}

/* The program of a shape over a range at @base. */
static inline struct huvm_instr program(uint32_t op, const struct shape *s)
{
	struct huvm_instr i = {
		.op = op, .count = s->count, .steps = s->steps, .block_stride = s->block_stride,
		.step_stride = s->step_stride, .elem_stride = s->elem_stride,
	};

	return i;
}

/*
 * What needs pages of two ranges at once does one piece after the other: a GPU whose running pieces need more chunks than it has
 * gets on by chance, and slowly (regress: more_pairs_than_chunks).
 */
static inline uint64_t start_on(struct client *c, uint32_t gpu, const struct shape *s, const struct huvm_instr *in)
{
	ARG(huvm_launch, l, .gpu = gpu, .blocks = s->blocks, .iterations = s->iterations, .elem_bytes = 8, .nr_instr = 1,
	    .max_resident = in->op == HUVM_OP_COPY, .instrs = (uintptr_t)in);

	CHECK_OK(ioctl(c->fd, HUVM_IOC_LAUNCH, &l));
	return l.launch;
}

static inline void ends_well(struct client *c, uint64_t id)
{
	struct huvm_wait w = wait_launch(c->fd, id);

	if (progress)
		++*progress;
	if (w.status != HUVM_LAUNCH_DONE)
		FAIL("launch ended with status %u, error %u at %#llx (range at %p), fault type %u, access %u", w.status,
		     w.error, (unsigned long long)w.fault_va, (void *)c->p, w.fault_type, w.access_type);
	if (w.mismatches)
		FAIL("the GPU found %llu wrong words, the first at %#llx (range at %p)", (unsigned long long)w.mismatches,
		     (unsigned long long)w.mismatch_va, (void *)c->p);
}

/* Runs one instruction per shape on the client's next GPU; @fill completes it. */
static inline void run_shapes(struct client *c, uint32_t op, void (*fill)(struct client *, const struct shape *, struct huvm_instr *))
{
	for (int r = 0; r < c->shapes.repeat; r++) {
		uint32_t gpu = next_gpu(c);
		uint64_t ids[SHAPES_MAX];
		int n = 0;

		EACH_SHAPE(c, s) {
			struct huvm_instr in = program(op, s);

			fill(c, s, &in);
			ids[n++] = start_on(c, gpu, s, &in);
			if (!c->shapes.together)
				ends_well(c, ids[--n]);
		}
		while (n)
			ends_well(c, ids[--n]);
	}
}

static inline void of_write(struct client *c, const struct shape *s, struct huvm_instr *in)
{
	in->dst = (uintptr_t)c->p + s->at;
	in->imm0 = word_value(c, s->at / 8, c->step);
	in->imm1 = WORD_STEP;
}

static inline void copy_write(struct client *c)
{
	EACH_SHAPE(c, s)
		EACH_WORD(s, w)
			c->copy[w] = word_value(c, w, c->step);
}

/* x = 3 x + STEP_STEP: one left out or done twice is seen. */
static inline void of_change(struct client *c, const struct shape *s, struct huvm_instr *in)
{
	in->dst = in->a = (uintptr_t)c->p + s->at;
	in->imm0 = 3;
	in->imm1 = STEP_STEP;
}

static inline void copy_change(struct client *c)
{
	for (int r = 0; r < c->shapes.repeat; r++)
		EACH_SHAPE(c, s)
			for (uint32_t i = 0; i < s->iterations; i++)
				EACH_WORD(s, w)
					c->copy[w] = 3 * c->copy[w] + STEP_STEP;
}

/* x += STEP_STEP, as one access. */
static inline void of_add(struct client *c, const struct shape *s, struct huvm_instr *in)
{
	in->dst = (uintptr_t)c->p + s->at;
	in->imm0 = STEP_STEP;
}

/* @times: how many do so, or how often each. */
static inline void copy_add(struct client *c, uint64_t times)
{
	for (int r = 0; r < c->shapes.repeat; r++)
		EACH_SHAPE(c, s)
			EACH_WORD(s, w)
				c->copy[w] += times * s->iterations * STEP_STEP;
}

static inline void gpu_add(struct client *c)
{
	run_shapes(c, HUVM_OP_ATOMIC_ADD, of_add);
	copy_add(c, 1);
}

static inline void gpu_write(struct client *c)
{
	c->step++;
	run_shapes(c, HUVM_OP_FILL, of_write);
	copy_write(c);
}

static inline void gpu_change(struct client *c)
{
	run_shapes(c, HUVM_OP_SCALE, of_change);
	copy_change(c);
}

static inline void cpu_write(struct client *c)
{
	uint64_t *p = (uint64_t *)c->p;

	c->step++;
	EACH_SHAPE(c, s)
		EACH_WORD(s, w)
			p[w] = word_value(c, w, c->step);
	copy_write(c);
}

static inline void cpu_change(struct client *c)
{
	volatile uint64_t *p = (uint64_t *)c->p;

	for (int r = 0; r < c->shapes.repeat; r++)
		EACH_SHAPE(c, s)
			for (uint32_t i = 0; i < s->iterations; i++)
				EACH_WORD(s, w)
					p[w] = 3 * p[w] + STEP_STEP;
	copy_change(c);
}

static inline void wrong_word(const struct client *c, uint64_t w, uint64_t got, const char *who)
{
	uint64_t at;

	/* Whose is it? Another word's of this client, most likely. */
	for (at = 0; at < c->len / 8 && (c->copy[at] != got || !got); at++)
		;
	FAIL("%s: word %#llx (page %llu of the range at %p) is %#llx, wanted %#llx%s%#llx", who, (unsigned long long)w,
	     (unsigned long long)(w / PAGE_WORDS), (void *)c->p, (unsigned long long)got, (unsigned long long)c->copy[w],
	     at < c->len / 8 ? ", which is the value of word " : ", of no word; step ",
	     (unsigned long long)(at < c->len / 8 ? at : c->step));
}

static inline void count_verified(uint64_t bytes)
{
	if (verified)
		__atomic_add_fetch(verified, bytes, __ATOMIC_RELAXED);
	if (progress)
		++*progress;
}

/* Every word of [from, to) bytes is what it must be, read by the CPU. */
static inline void cpu_verify(struct client *c, uint64_t from, uint64_t to)
{
	const uint64_t *p = (const uint64_t *)c->p;

	if (memcmp(c->p + from, (char *)c->copy + from, to - from))
		for (uint64_t w = from / 8; w < to / 8; w++)
			if (p[w] != c->copy[w])
				wrong_word(c, w, p[w], "CPU");
	count_verified(to - from);
}

static inline void cpu_check_all(struct client *c)
{
	cpu_verify(c, 0, c->len);
}

static inline void cpu_check_shapes(struct client *c)
{
	const volatile uint64_t *p = (const uint64_t *)c->p;

	EACH_SHAPE(c, s) {
		EACH_WORD(s, w) {
			uint64_t got = p[w];

			if (got != c->copy[w])
				wrong_word(c, w, got, "CPU");
		}
		count_verified(s->blocks * s->steps * s->count * 8);
	}
}

/* Whether the words of a shape are a line that the GPU can check by itself. */
static inline int is_line(const struct client *c, const struct shape *s, __u64 *first, __u64 *slope)
{
	uint64_t from = s->at / 8;

	*first = c->copy[from];
	*slope = *first ? WORD_STEP : 0;
	EACH_WORD(s, w)
		if (c->copy[w] != *first + *slope * (w - from))
			return 0;
	return 1;
}

/* The GPU reads all words of the shapes: it compares them itself, or copies them to where the CPU does. */
static inline void gpu_check_shapes(struct client *c)
{
	uint64_t *out = NULL;

	EACH_SHAPE(c, s) {
		struct huvm_instr in = program(HUVM_OP_CHECK, s);
		uint32_t gpu = next_gpu(c);

		in.a = (uintptr_t)c->p + s->at;
		if (!is_line(c, s, &in.imm0, &in.imm1)) {
			in.op = HUVM_OP_COPY;
			if (!out)
				out = managed(c->fd, c->len);
			in.dst = (uintptr_t)out + s->at;
		}
		ends_well(c, start_on(c, gpu, s, &in));
		if (in.op == HUVM_OP_COPY)
			EACH_WORD(s, w)
				if (out[w] != c->copy[w])
					wrong_word(c, w, out[w], "GPU");
		count_verified(s->blocks * s->steps * s->count * 8);
	}
	if (out)
		CHECK_OK(munmap(out, c->len));
}

/* For a while, another set of words: all of [from, to) bytes, both multiples of 64 KiB, in grid-stride order. */
static inline struct shapes use_all(struct client *c, uint64_t from, uint64_t to)
{
	struct shapes was = c->shapes;
	uint64_t n = (to - from) / PIECE, blocks = n % 4 ? n % 2 ? 1 : 2 : 4;

	c->shapes = (struct shapes){ .repeat = 1 };
	add_shape(&c->shapes, (struct shape){ .at = from, .blocks = (uint32_t)blocks, .count = PIECE / 8, .steps = n / blocks,
		  .block_stride = PIECE, .step_stride = PIECE * blocks });
	return was;
}

static inline void gpu_check_all(struct client *c)
{
	struct shapes was = use_all(c, 0, c->len);

	gpu_check_shapes(c);
	c->shapes = was;
}

/* All of the range, written by the CPU. */
static inline void cpu_write_all(struct client *c)
{
	struct shapes was = use_all(c, 0, c->len);

	cpu_write(c);
	c->shapes = was;
}

static inline void gpu_write_all(struct client *c)
{
	struct shapes was = use_all(c, 0, c->len);

	gpu_write(c);
	c->shapes = was;
}

/* A launch over [p, p + len) that has to fail with a fault inside. */
static inline void gpu_faults_at(struct client *c, const void *p, uint64_t len)
{
	struct huvm_instr in = { .op = HUVM_OP_FILL, .count = 1, .steps = len / PAGE, .step_stride = PAGE, .dst = (uintptr_t)p };
	struct huvm_wait w = run_program(c->fd, next_gpu(c), 1, &in, 1, 8);

	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_FAULT);
	CHECK(w.fault_va >= (uintptr_t)p && w.fault_va < (uintptr_t)p + len);
}

/* Signals of accesses that may fail, by thread. */
static __thread sigjmp_buf touch_failed;
static __thread volatile int touching;

static inline void on_touch(int sig)
{
	if (!touching) {
		signal(sig, SIG_DFL);
		return;
	}
	siglongjmp(touch_failed, sig);
}

static inline void catch_touches(void)
{
	struct sigaction catch = { .sa_handler = on_touch, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &catch, NULL);
	sigaction(SIGBUS, &catch, NULL);
}

/* The signal that reading or writing @p raises, or 0. */
static inline int touch(volatile char *p, int write)
{
	int sig = sigsetjmp(touch_failed, 1);

	if (!sig) {
		touching = 1;
		if (write)
			*p = *p;
		else
			(void)*p;
	}
	touching = 0;
	return sig;
}

/* A client's range, with what must be in it: zeroes. */
static inline void client_range(struct client *c, uint64_t len)
{
	c->len = len;
	c->p = managed(c->fd, len);
	c->copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(c->copy != MAP_FAILED);
}

#endif
