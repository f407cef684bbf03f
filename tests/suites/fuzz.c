// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls of every kind, in any order: 20,000, or a million with HUVM_FULL=1, or HUVM_CALLS. A call is made from the types of its fields (an
 * address of a range or beside it, a length, a GPU, a pointer that is good or bad, ...), and every third one is spoiled after. By a
 * client without privileges, by root, and through a descriptor that another process opened. HUVM_SEED repeats a run. On a kernel
 * with KCOV a call that goes through places of the driver that none before had seen is kept, and later calls are made from it;
 * HUVM_BLIND=1 leaves that out.
 *
 * What can fail: an error that the interface does not name; a byte written behind what was asked for; an address of the kernel's in
 * an answer, in an array, in events or in fdinfo; a call that does not return; a bystander on the same GPUs that loses a byte or does
 * not get on; something left when all is closed; and whatever the kernel has to say.
 *
 * When the kernel panics, each task that it lists is named for the call that it is at: "fuzz 1234". With the seed and HUVM_SHOW=1234 the run
 * prints the calls before that one, and it, in the form of fuzz_corpus.h, as it does with HUVM_CORPUS=1 for calls that came to something
 * new. What stands there is made again by the test `replayed`, first.
 */
#define _GNU_SOURCE
#include "matrix_lib.h"
#include "kcov_lib.h"
#include "fuzz_corpus.h"

#include <ctype.h>
#include <grp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>

#define RANGES		6
#define RANGE_MAX	(4 * BLOCK)
#define ROOM		65536u		/* behind a pointer */
#define CANARY		0xa5
#define ARG_MAX		1024u
/* Calls before that of HUVM_SHOW that are shown. */
#define SHOWN		20u
/* What a call may take, and a turn of the bystander in any case (s, scaled). */
#define CALL_S		30
/*
 * How many times as long as by itself a turn of the bystander may take on the average, and one by itself. By the metronome's beats:
 * the machine that the VM runs on may be busier now than it was then.
 */
#define SLOWER		20
#define SLOWEST		60
#define BEAT		100000u

/* Types of fields. All that is not named is left 0. */
enum type {
	END, GPU, PLACE, VA, LEN, SMALL, ANY32, ANY64, SCOPE, ID, TIME, KNOB, VALUE, NAME, COUNT, ARRAY, PROGRAM,
};

struct field {
	enum type type;
	unsigned int at;
};

#define F(t, s, f) { t, offsetof(struct s, f) }
static const struct call {
	const char *name;
	unsigned long cmd;
	unsigned int size, flags;	/* flags: of those that it knows */
	unsigned int element;		/* bytes of an element of its array */
	struct field f[9];
	int root;			/* for root alone: it changes what others see */
} calls[] = {
#define CALL(n, s) .name = #n, .cmd = HUVM_IOC_##n, .size = sizeof(struct s)
	{ CALL(VERSION, huvm_version) },
	{ CALL(GPU_INFO, huvm_gpu_info), .f = { F(GPU, huvm_gpu_info, gpu) } },
	{ CALL(LINK_INFO, huvm_link_info), .f = { F(GPU, huvm_link_info, gpu), F(SMALL, huvm_link_info, index) } },
	{ CALL(MEM_INFO, huvm_mem_info), .f = { F(GPU, huvm_mem_info, gpu) } },
	{ CALL(LEND_INFO, huvm_lend_info), .f = { F(GPU, huvm_lend_info, gpu) } },
	{ CALL(GPU_HEALTH, huvm_gpu_health), .f = { F(GPU, huvm_gpu_health, gpu) } },
	{ CALL(GPU_REGISTER, huvm_gpu_register), .f = { F(GPU, huvm_gpu_register, gpu) } },
	{ CALL(GPU_REGISTER, huvm_gpu_register), .f = { F(GPU, huvm_gpu_register, gpu) } },
	{ CALL(GPU_UNREGISTER, huvm_gpu_register), .f = { F(GPU, huvm_gpu_register, gpu) } },
	{ CALL(MIGRATE, huvm_migrate), .f = { F(VA, huvm_migrate, va), F(LEN, huvm_migrate, length), F(PLACE, huvm_migrate, dst) } },
	{ CALL(ADVISE, huvm_advise), .f = { F(VA, huvm_advise, va), F(LEN, huvm_advise, length), F(SMALL, huvm_advise, advice),
					    F(PLACE, huvm_advise, place) } },
	{ CALL(LAUNCH, huvm_launch), .element = sizeof(struct huvm_instr),
	  .f = { F(GPU, huvm_launch, gpu), F(SMALL, huvm_launch, blocks), F(SMALL, huvm_launch, iterations),
		 F(SMALL, huvm_launch, max_resident), F(PROGRAM, huvm_launch, instrs) } },
	{ CALL(LAUNCH, huvm_launch), .element = sizeof(struct huvm_instr),
	  .f = { F(GPU, huvm_launch, gpu), F(SMALL, huvm_launch, blocks), F(SMALL, huvm_launch, iterations),
		 F(PROGRAM, huvm_launch, instrs) } },
	{ CALL(WAIT, huvm_wait), .f = { F(ID, huvm_wait, launch), F(TIME, huvm_wait, timeout_ns) } },
	{ CALL(ABORT, huvm_wait), .f = { F(ID, huvm_wait, launch), F(TIME, huvm_wait, timeout_ns) } },
	{ CALL(KNOB, huvm_knob), .f = { F(KNOB, huvm_knob, index) } },
	{ CALL(POLICY_GET, huvm_policy), .flags = 1, .f = { F(SCOPE, huvm_policy, scope), F(GPU, huvm_policy, gpu),
							    F(KNOB, huvm_policy, knob) } },
	{ CALL(POLICY_SET, huvm_policy), .flags = 1, .f = { F(SCOPE, huvm_policy, scope), F(GPU, huvm_policy, gpu),
							    F(KNOB, huvm_policy, knob), F(VALUE, huvm_policy, value) } },
	{ CALL(PRESET_GET, huvm_preset), .flags = 1, .f = { F(SCOPE, huvm_preset, scope), F(GPU, huvm_preset, gpu),
							    F(SMALL, huvm_preset, index) } },
	{ CALL(PRESET_SET, huvm_preset), .flags = 1, .f = { F(SCOPE, huvm_preset, scope), F(GPU, huvm_preset, gpu),
							    F(NAME, huvm_preset, name) } },
	{ CALL(COUNTERS, huvm_counters), .element = 8,
	  .f = { F(SCOPE, huvm_counters, scope), F(GPU, huvm_counters, gpu), F(COUNT, huvm_counters, nr),
		 F(ARRAY, huvm_counters, values) } },
	{ CALL(LATENCY, huvm_latency), .f = { F(SCOPE, huvm_latency, scope), F(GPU, huvm_latency, gpu), F(SMALL, huvm_latency, kind) } },
	{ CALL(EVENTS, huvm_events), .flags = HUVM_EVENTS_ALL, .f = { F(ANY32, huvm_events, mask), F(SMALL, huvm_events, records) } },
	{ CALL(CLIENT_INFO, huvm_client_info), .f = { F(ID, huvm_client_info, client) } },
	{ CALL(RANGE_INFO, huvm_range_info), .element = sizeof(struct huvm_block_info),
	  .f = { F(ID, huvm_range_info, client), F(VA, huvm_range_info, va), F(COUNT, huvm_range_info, nr),
		 F(ARRAY, huvm_range_info, blocks) } },
	{ CALL(TEST_EVICT, huvm_test_evict), .f = { F(GPU, huvm_test_evict, gpu), F(SMALL, huvm_test_evict, chunks) }, .root = 1 },
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

/* What a fuzzing process has. */
static struct {
	int fd, own;			/* own: it opened the file itself */
	int root;
	uint64_t rng, number;		/* number: calls that were made */
	struct { char *p; uint64_t len; } range[RANGES];
	unsigned char *arg;		/* of a call: up to a page that is not there, canaries before */
	unsigned char *room;		/* for arrays */
	char *hole, *other;		/* one page each, then none: the struct's, and one to point into */
	uint64_t last_launch, knobs;	/* knobs: how many there are */
	uint64_t ok, errors[140];
	uint8_t came_to[NCALLS][140];	/* what each kind of call ended in */
	uint64_t scanned;		/* bytes of arrays, events and fdinfo in which an address would have been found */
	unsigned int kept;
} z;

/* What the processes share. */
static struct shared {
	volatile uint64_t turns, stop;	/* the bystander's */
	volatile uint64_t tenths[11];	/* its turns when each tenth of the calls began */
	uint64_t begun[11];		/* the metronome's beats at that time */
	volatile uint64_t beats;
	/* The call being made. */
	volatile uint64_t number;
	const struct call *volatile c;
	unsigned long cmd;
	unsigned char arg[ARG_MAX];
} *shared;

/* Calls that went where none had been: what was passed, and what lay where pointers point to. */
#define KEPT 2048u
static struct {
	const struct call *c;
	unsigned char arg[ARG_MAX], room[2048];
} kept[KEPT];

static uint64_t dice(uint64_t sides) { return next_random(&z.rng) % sides; }
static uint64_t any64(void) { return next_random(&z.rng) << 33 ^ next_random(&z.rng) << 11 ^ next_random(&z.rng); }

/* Numbers at which things go wrong. None is an address of the kernel's: answers name the address of a failing access. */
static uint64_t odd_number(void)
{
	static const uint64_t of[] = { 0, 1, 2, 7, 8, 15, 16, 17, 63, 64, 255, 4095, 4096, 4097, 65536, BLOCK - 1, BLOCK, 1ull << 31, (1ull << 31) - 1,
				       UINT32_MAX, 1ull << 32, 1ull << 47, (1ull << 47) - PAGE, 1ull << 49, 1ull << 63, INT64_MAX, UINT64_MAX,
				       UINT64_MAX - PAGE + 1, 0xffff000000000000ull };

	return of[dice(sizeof(of) / sizeof(of[0]))];
}

static uint64_t address(void)
{
	unsigned int r = (unsigned int)dice(RANGES);
	uint64_t at = (uintptr_t)z.range[r].p, len = z.range[r].len ? z.range[r].len : BLOCK;

	switch (dice(10)) {
	case 0: return odd_number();
	case 1: return (uintptr_t)z.room + dice(ROOM);
	case 2: return at + dice(2 * len);
	case 3: return at;
	default: return at + dice(len / PAGE) * PAGE;
	}
}

static uint64_t pointer(void)
{
	switch (dice(12)) {
	case 0: return 0;
	case 1: return 0xffff888000000000ull;
	case 2: return (uintptr_t)z.other + PAGE - dice(200);
	case 3: return (uintptr_t)z.range[dice(RANGES)].p;	/* managed memory itself */
	default: return (uintptr_t)z.room;
	}
}

static void put32(unsigned int at, uint64_t v) { uint32_t w = (uint32_t)v; memcpy(z.arg + at, &w, 4); }
static void put64(unsigned int at, uint64_t v) { memcpy(z.arg + at, &v, 8); }

/* Mostly programs that are right and short; what they may do to is this client's. */
static void random_program(uint64_t at, uint32_t n)
{
	struct huvm_instr in[HUVM_MAX_INSTR];

	for (uint32_t i = 0; i < n; i++) {
		uint64_t *w = (uint64_t *)&in[i];

		in[i] = (struct huvm_instr){
			.op = (uint32_t)dice(14), .count = 1 + dice(600), .steps = 1 + dice(4), .dst = address() & ~7ull,
			.a = address() & ~7ull, .b = address() & ~7ull, .idx = address() & ~7ull, .block_stride = dice(4) * PAGE,
			.step_stride = dice(4) * PIECE, .elem_stride = dice(3) * 8, .imm0 = dice(100000), .imm1 = dice(9),
		};
		if (!dice(20))
			w[dice(sizeof(in[0]) / 8)] = dice(2) ? odd_number() : any64() >> 1;
		/* Nothing that would be at it for hours: that is allowed, but not what is looked for. */
		if (in[i].op == HUVM_OP_DELAY && in[i].steps * in[i].imm0 > 1000000)
			in[i].steps = 1, in[i].imm0 %= 1000000;
		if (in[i].count > 1u << 20 && in[i].count <= 1ull << 32)
			in[i].count &= 0xffff;
		if (in[i].steps > 1u << 10 && in[i].steps <= 1ull << 32)
			in[i].steps &= 0xff;
	}
	if (at == (uintptr_t)z.room)
		memcpy(z.room, in, n * sizeof(in[0]));
}

/* Some of the fields, each with this chance in @of; the others stay. */
static void fill_some(const struct call *c, uint64_t chance, uint64_t of)
{
	uint64_t array, count = 0;

	for (const struct field *f = c->f; f->type; f++) {
		/* An array goes with its count. */
		if (f->type != ARRAY && f->type != COUNT && dice(of) >= chance)
			continue;
		switch (f->type) {
		case GPU: put32(f->at, dice(8) ? dice(3) : odd_number()); break;
		case PLACE: put32(f->at, dice(8) ? dice(2) ? HUVM_PLACE_HOST : dice(3) : odd_number()); break;
		case VA: put64(f->at, address()); break;
		case LEN: put64(f->at, dice(8) ? (1 + dice(dice(4) ? 40 : 1024)) * PAGE : odd_number()); break;
		case SMALL: put32(f->at, dice(16) ? dice(10) : odd_number()); break;
		case ANY32: put32(f->at, dice(2) ? dice(1 << 14) : any64()); break;
		case ANY64: put64(f->at, any64()); break;
		case SCOPE: put32(f->at, dice(10) ? 1 + dice(4) : odd_number()); break;
		case ID: put64(f->at, dice(2) ? z.last_launch : dice(2) ? dice(70) : odd_number()); break;
		case TIME: put64(f->at, dice(3) ? 0 : dice(10) ? dice(3000000) : 700000000000ull); break;
		case KNOB: put32(f->at, dice(20) ? dice(z.knobs + 2) : odd_number()); break;
		case VALUE: put64(f->at, dice(3) ? dice(40) : odd_number()); break;
		case NAME: {
			static const char *const of[] = { "huvm", "demand", "stock-595", "memharvester", "zero-copy", "", "x",
							  "a name that is as long as the field" };

			strncpy((char *)z.arg + f->at, of[dice(8)], HUVM_NAME_LEN);
			break;
		}
		case COUNT: put32(f->at, count = dice(10) ? dice(ROOM / c->element) : odd_number()); break;
		case ARRAY:
			array = pointer();
			/* Up to the canaries. */
			if (array == (uintptr_t)z.room && count <= ROOM / c->element)
				array += ROOM - count * c->element;
			put64(f->at, array);
			break;
		case PROGRAM: {
			uint32_t n = dice(20) ? 1 + (uint32_t)dice(3) : (uint32_t)dice(HUVM_MAX_INSTR + 1);

			put64(f->at, array = pointer());
			random_program(array, n);
			put32(offsetof(struct huvm_launch, nr_instr), dice(30) ? n : odd_number());
			put32(offsetof(struct huvm_launch, elem_bytes), dice(10) ? 8 : odd_number());
			break;
		}
		case END: break;
		}
	}
}

static void fill(const struct call *c)
{
	memset(z.arg, 0, c->size);
	put32(0, c->size);
	put32(4, dice(4) ? 0 : (uint32_t)dice(4) & c->flags);
	fill_some(c, 1, 1);
}

/* The call just made, with these arguments, is worth keeping. */
static void keep(const struct call *c, const unsigned char *arg)
{
	/* Later ones take the place of others. */
	unsigned int at = z.kept < KEPT ? z.kept++ : (unsigned int)dice(KEPT);

	CHECK(c->size <= sizeof(kept[at].arg));
	kept[at].c = c;
	memcpy(kept[at].arg, arg, c->size);
	memcpy(kept[at].room, z.room, sizeof(kept[at].room));
}

/* Each kind of struct ends where its page ends. */
static void begin_struct(const struct call *c)
{
	z.arg = (unsigned char *)z.hole + PAGE - c->size;
	memset(z.hole, CANARY, PAGE - c->size);
}

/* A call from scratch; or one that was kept, with a third of its fields made anew. */
static const struct call *make_call(void)
{
	int again = z.kept && !dice(4);
	unsigned int at = again ? (unsigned int)dice(z.kept) : 0;
	const struct call *c = again ? kept[at].c : &calls[dice(NCALLS)];

	if (c->root && !z.root)
		return NULL;
	begin_struct(c);
	if (again) {
		memcpy(z.arg, kept[at].arg, c->size);
		memcpy(z.room, kept[at].room, sizeof(kept[at].room));
		fill_some(c, 1, 3);
	} else {
		fill(c);
	}
	return c;
}

/* Errors that uapi/huvm.h names. */
static int is_named(int e)
{
	static const int of[] = { EINVAL, EFAULT, E2BIG, ENOTTY, EPERM, ENODEV, EIO, ENOENT, EEXIST, ENOMEM, EBUSY, ENOSPC, ETIMEDOUT,
				  EINTR, ERANGE, EOPNOTSUPP, ESRCH };

	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (of[i] == e)
			return 1;
	return 0;
}

/* From the direct map on, and of code and data. What lies between are no pointers, but two numbers of 32 bits. */
static int is_kernel_address(uint64_t v)
{
	return v >= 0xffff800000000000ull && (v < 0xffffff8000000000ull || (v >= 0xffffffff80000000ull && v < 0xfffffffffffff000ull));
}

/* ---- calls as text ---- */

/*
 * 64-bit words as text: r1+1000 is an address in the second range, m, o and h such in the memory for arrays, in the page to point into and in
 * that of the struct, l the last launch; else hexadecimal numbers. Zeroes at the end are left out.
 */
static void print_words(const struct call *c, const unsigned char *at, unsigned int bytes)
{
	while (bytes && !at[bytes - 1])
		bytes--;
	bytes = (bytes + 7) / 8 * 8;
	for (unsigned int i = 0; i + 8 <= bytes; i += 8) {
		uint64_t v, hole = (uintptr_t)z.hole, other = (uintptr_t)z.other, room = (uintptr_t)z.room;
		const char *space = i ? " " : "";
		int found = 0;

		memcpy(&v, at + i, 8);
		for (const struct field *f = c->f; f->type; f++)
			found |= f->type == ID && f->at == i && v && v == z.last_launch;
		if (found) {
			printf("%sl", space);
			continue;
		}
		for (unsigned int r = 0; r < RANGES && !found; r++) {
			uint64_t p = (uintptr_t)z.range[r].p;

			if (p && v >= p && v < p + z.range[r].len) {
				printf("%sr%u+%llx", space, r, (unsigned long long)(v - p));
				found = 1;
			}
		}
		if (found)
			continue;
		if (v >= room && v < room + ROOM + PAGE)
			printf("%sm+%llx", space, (unsigned long long)(v - room));
		else if (v >= other && v < other + PAGE)
			printf("%so+%llx", space, (unsigned long long)(v - other));
		else if (v >= hole && v < hole + PAGE)
			printf("%sh+%llx", space, (unsigned long long)(v - hole));
		else
			printf("%s%llx", space, (unsigned long long)v);
	}
}

/* The reverse. */
static void read_words(const char *text, unsigned char *to, unsigned int room)
{
	unsigned int n = 0;

	while (*text) {
		char *end;
		uint64_t base = 0, v = 0;

		switch (*text) {
		case 'r':
			CHECK(isdigit(text[1]) && text[1] - '0' < RANGES);
			base = (uintptr_t)z.range[text[1] - '0'].p;
			text += 2;
			break;
		case 'm': base = (uintptr_t)z.room; text++; break;
		case 'o': base = (uintptr_t)z.other; text++; break;
		case 'h': base = (uintptr_t)z.hole; text++; break;
		case 'l': base = z.last_launch; text++; break;
		}
		if (*text == '+')
			text++;
		if (*text && *text != ' ') {
			v = strtoull(text, &end, 16);
			CHECK(end != text && (*end == ' ' || !*end));
			text = end;
		}
		v += base;
		CHECK(n + 8 <= room);
		memcpy(to + n, &v, 8);
		n += 8;
		text += *text == ' ';
	}
}

/* The bytes of a program that this call has in the memory for arrays. */
static unsigned int program_bytes(const struct call *c, const unsigned char *arg)
{
	const struct huvm_launch *l = (const struct huvm_launch *)arg;

	if (c->cmd != HUVM_IOC_LAUNCH || l->instrs != (uintptr_t)z.room)
		return 0;
	return (unsigned int)sizeof(struct huvm_instr) * (l->nr_instr < HUVM_MAX_INSTR ? l->nr_instr : HUVM_MAX_INSTR);
}

/* A line of fuzz_corpus.h. */
static void print_call(const struct call *c, unsigned long cmd, const unsigned char *arg)
{
	printf("#+ { \"%s\", %#lx, \"", c->name, cmd);
	print_words(c, arg, c->size);
	printf("\", \"");
	print_words(c, z.room, program_bytes(c, arg));
	printf("\" },\n");
}

static void describe(const struct call *c, const unsigned char *before)
{
	printf("# call %llu:\n", (unsigned long long)z.number);
	print_call(c, shared->cmd, before);
}

/* ---- what an answer must not have ---- */

/*
 * The first word that is an address of the kernel's, or 0. Not one that is in @was, if that is given, which is what lay there before the
 * call: what programs and counts leave there may look like an address, halves of two words the more so, as arrays need not be aligned.
 */
static uint64_t address_in(const void *p, const void *was, uint64_t bytes)
{
	z.scanned += bytes;
	for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t v;

		memcpy(&v, (const char *)p + i, 8);
		if (is_kernel_address(v) && !(was && !memcmp(&v, (const char *)was + i, 8)))
			return v;
	}
	return 0;
}

/* The same in text. */
static void no_addresses_in_text(const char *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(fd);
	text[n] = 0;
	for (const char *at = text; (at = strstr(at, "ffff")); at++) {
		char *end;

		if (is_kernel_address(strtoull(at, &end, 16)) && end - at == 16)
			FAIL("%s: %.16s", path, at);
	}
	z.scanned += (uint64_t)n;
}

static void no_addresses_in_fdinfo(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", z.fd);
	no_addresses_in_text(path);
}

/* Where the driver may write as this call, as it came to be, tells it to: the array. */
static void told_to_write(unsigned long cmd, unsigned int size, uint64_t *from, uint64_t *to)
{
	*from = *to = 0;
	for (unsigned int i = 0; i < NCALLS; i++) {
		uint64_t bytes = 0;

		if (_IOC_NR(calls[i].cmd) != _IOC_NR(cmd))
			continue;
		for (const struct field *f = calls[i].f; f->type; f++) {
			uint32_t n;

			if (f->type == COUNT && f->at + 4 <= size) {
				memcpy(&n, z.arg + f->at, 4);
				bytes = (uint64_t)n * calls[i].element;
			}
			if (f->type == ARRAY && f->at + 8 <= size) {
				memcpy(from, z.arg + f->at, 8);
				*to = *from > UINT64_MAX - bytes ? UINT64_MAX : *from + bytes;
			}
		}
		return;
	}
}

static int is_set(const char *name)
{
	const char *s = getenv(name);

	return s && atoi(s);
}

/* Makes the call, and looks at what came of it. */
static void make(const struct call *c, unsigned long cmd)
{
	static const char *show;
	static uint64_t shown_from, shown_to;
	static unsigned char before[ARG_MAX], room_before[ROOM + PAGE];
	uint64_t from, to, in_room = 0;
	unsigned int size = c->size;
	char name[16];
	int r, e, fresh;

	if (!show) {
		show = getenv("HUVM_SHOW") ? getenv("HUVM_SHOW") : "";
		shown_to = *show ? strtoull(show, NULL, 0) + 1 : 0;
		shown_from = shown_to > SHOWN ? shown_to - SHOWN : 0;
	}
	CHECK(size <= sizeof(before));
	memcpy(before, z.arg, size);
	told_to_write(cmd, size, &from, &to);
	memset(z.room + ROOM, CANARY, PAGE);
	if (to > from && from >= (uintptr_t)z.room && from < (uintptr_t)z.room + ROOM) {
		uint64_t end = (uintptr_t)z.room + ROOM + PAGE;

		in_room = (to < end ? to : end) - from;
		memcpy(room_before, (const void *)(uintptr_t)from, in_room);
	}
	if (z.number >= shown_from && z.number < shown_to)
		print_call(c, cmd, before);
	/* For who finds this process hanging, or the kernel in pieces. */
	memcpy(shared->arg, before, size);
	shared->cmd = cmd;
	shared->c = c;
	shared->number = z.number;
	snprintf(name, sizeof(name), "fuzz %llu", (unsigned long long)z.number);
	prctl(PR_SET_NAME, name);
	errno = 0;
	kcov_begin();
	r = ioctl(z.fd, cmd, z.arg);
	e = errno;
	fresh = kcov_end() > 0;
	z.number++;
	if (fresh && !is_set("HUVM_BLIND"))
		keep(c, before);
	if (!z.came_to[c - calls][r < 0 && e < 140 ? e : 0]) {
		z.came_to[c - calls][r < 0 && e < 140 ? e : 0] = 1;
		fresh = 1;
	}
	if (fresh && is_set("HUVM_CORPUS"))
		print_call(c, cmd, before);
	if (r < 0) {
		z.errors[e < 140 ? e : 0]++;
		if (!is_named(e)) {
			describe(c, before);
			FAIL("error %d (%s)", e, strerror(e));
		}
	} else {
		z.ok++;
		for (unsigned int i = 0; i + 8 <= size; i += 8) {
			uint64_t v = *(uint64_t *)(z.arg + i);

			if (v != *(uint64_t *)(before + i) && is_kernel_address(v)) {
				describe(c, before);
				FAIL("the answer has %#llx at byte %u", (unsigned long long)v, i);
			}
		}
		if (c->cmd == HUVM_IOC_LAUNCH)
			memcpy(&z.last_launch, z.arg + offsetof(struct huvm_launch, launch), 8);
	}
	/* What it may have written of its array, also if it failed then. */
	if (in_room) {
		uint64_t v = address_in((const void *)(uintptr_t)from, room_before, in_room);

		if (v) {
			describe(c, before);
			FAIL("the array has %#llx", (unsigned long long)v);
		}
	}
	for (unsigned int i = 0; i < PAGE - size; i++) {
		uint64_t at = (uintptr_t)z.hole + i;

		if ((unsigned char)z.hole[i] != CANARY && (at < from || at >= to)) {
			describe(c, before);
			FAIL("a byte before the struct was written");
		}
	}
	for (unsigned int i = 0; i < PAGE; i++) {
		uint64_t at = (uintptr_t)z.room + ROOM + i;

		if (z.room[ROOM + i] != CANARY && (at < from || at >= to)) {
			describe(c, before);
			FAIL("byte %u behind the array was written", i);
		}
	}
}

/* Whether @cmd is that call, whatever size of a struct is in it. */
static int is(unsigned long cmd, unsigned long call)
{
	return _IOC_TYPE(cmd) == _IOC_TYPE(call) && _IOC_NR(cmd) == _IOC_NR(call);
}

/* What root may do to everybody is done in another suite; here the bystander must get on. */
static int changes_for_everybody(unsigned long cmd)
{
	uint32_t scope;

	memcpy(&scope, z.arg + 8, 4);
	return z.root && (is(cmd, HUVM_IOC_POLICY_SET) || is(cmd, HUVM_IOC_PRESET_SET)) && scope != HUVM_SCOPE_SPACE;
}

static void one_call(void)
{
	const struct call *c = make_call();
	unsigned long cmd;
	unsigned int size;

	if (!c)
		return;
	cmd = c->cmd;
	size = c->size;
	switch (dice(3)) {
	case 0:
		switch (dice(8)) {
		case 0: put32(0, odd_number()); break;
		case 1: put32(4, 1u << dice(32)); break;
		case 2: cmd = _IOC(_IOC_READ | _IOC_WRITE, HUVM_IOC_TYPE, dice(256), dice(300)); break;
		default:
			for (uint64_t n = 1 + dice(3); n; n--)
				z.arg[dice(size)] ^= (unsigned char)(1u << dice(8));
		}
		/* Not that: waits that last, GPUs that die, memory that fails. */
		if ((is(cmd, HUVM_IOC_WAIT) || is(cmd, HUVM_IOC_ABORT)) && size >= sizeof(struct huvm_wait)) {
			uint64_t t;

			memcpy(&t, z.arg + offsetof(struct huvm_wait, timeout_ns), 8);
			if (t <= 600000000000ull)
				put64(offsetof(struct huvm_wait, timeout_ns), t % 3000000);
		}
		if (is(cmd, HUVM_IOC_LAUNCH) && size >= sizeof(struct huvm_launch)) {
			static const unsigned int of[] = { offsetof(struct huvm_launch, blocks), offsetof(struct huvm_launch, iterations) };

			for (int i = 0; i < 2; i++) {
				uint32_t n;

				memcpy(&n, z.arg + of[i], 4);
				if (n <= 1u << 20)
					put32(of[i], n & 0xff);
			}
		}
		if (is(cmd, HUVM_IOC_TEST_REG) || is(cmd, HUVM_IOC_TEST_FAIL) || is(cmd, HUVM_IOC_TEST_SELFTEST) || is(cmd, HUVM_IOC_TEST_LIMITS))
			return;
	}
	if (changes_for_everybody(cmd))
		return;
	make(c, cmd);
}

static void fresh_range(unsigned int r)
{
	if (z.range[r].p)
		munmap(z.range[r].p, z.range[r].len);
	z.range[r].len = dice(4) ? (1 + dice(RANGE_MAX / PAGE)) * PAGE : BLOCK;
	z.range[r].p = mmap(NULL, z.range[r].len, dice(6) ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, z.fd, 0);
	if (z.range[r].p == MAP_FAILED) {
		/* Another's file. */
		CHECK(!z.own && errno == EPERM);
		z.range[r].p = mmap(NULL, z.range[r].len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(z.range[r].p != MAP_FAILED);
	}
}

static void reopened(void)
{
	no_addresses_in_fdinfo();
	if (!z.own)
		return;
	CHECK_OK(close(z.fd));
	/* Its ranges go before the next one has some, or after. */
	if (dice(2)) {
		for (unsigned int r = 0; r < RANGES; r++) {
			munmap(z.range[r].p, z.range[r].len);
			z.range[r].p = NULL;
		}
	}
	z.fd = open(HUVM_DEVICE_PATH, O_RDWR | O_CLOEXEC);
	CHECK(z.fd >= 0);
	for (unsigned int r = 0; r < RANGES; r++)
		fresh_range(r);
	gpu_register(z.fd, 0);
	gpu_register(z.fd, 1);
}

/* Between the calls, what programs do beside. */
static void one_thing_beside(void)
{
	unsigned int r = (unsigned int)dice(RANGES);
	char *p = z.range[r].p;
	uint64_t len = z.range[r].len, from, n;

	switch (dice(7)) {
	case 0:
		fresh_range(r);
		break;
	case 1:
		from = dice(len / PAGE) * PAGE;
		n = (1 + dice(40)) * PAGE;
		munmap(p + from, n < len - from ? n : len - from);
		break;
	case 2:
	case 3:
		touch(p + dice(len), (int)dice(2));
		break;
	case 4: {
		struct pollfd f = { .fd = z.fd, .events = POLLIN };

		if (poll(&f, 1, 0) == 1 && (f.revents & POLLIN)) {
			ssize_t got = read(z.fd, z.room, dice(4096));

			CHECK(got >= 0 || errno == EINVAL || errno == EAGAIN);
			if (got > 0 && address_in(z.room, NULL, (uint64_t)got))
				FAIL("an event has %#llx", (unsigned long long)address_in(z.room, NULL, (uint64_t)got));
		}
		break;
	}
	case 5:
		madvise(p, len, (int)dice(26));
		break;
	default:
		mprotect(p + dice(len / PAGE) * PAGE, PAGE, (int)dice(4));
	}
}

/* A page there, and room for one that is none. */
static char *page_at(uintptr_t at)
{
	char *p = mmap((void *)at, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK_EQ((uintptr_t)p, at);
	return p;
}

static uint64_t knob_count(int fd)
{
	ARG(huvm_version, v);

	CHECK_OK(ioctl(fd, HUVM_IOC_VERSION, &v));
	return v.nr_knobs;
}

static void prepare(int fd, int own, uint64_t seed)
{
	z.fd = fd;
	z.own = own;
	z.root = !geteuid();
	z.knobs = knob_count(fd);
	z.rng = seed;
	z.room = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Where no other pointer comes to by three bits that are turned over: the driver may write to what it points to. */
	z.hole = page_at(0x155555550000);
	z.other = page_at(0x2aaaaaaa0000);
	CHECK(z.room != MAP_FAILED);
	CHECK_OK(mprotect(z.hole + PAGE, PAGE, PROT_NONE));
	CHECK_OK(mprotect(z.other + PAGE, PAGE, PROT_NONE));
	for (unsigned int r = 0; r < RANGES; r++)
		fresh_range(r);
}

static void fuzz(uint64_t calls_wanted)
{
	uint64_t tenth = 0;

	catch_touches();
	while (z.number < calls_wanted) {
		if (z.number >= calls_wanted * tenth / 10) {
			shared->begun[tenth] = shared->beats;
			shared->tenths[tenth++] = shared->turns;
		}
		if (!dice(8))
			one_thing_beside();
		if (!dice(400))
			reopened();
		one_call();
	}
	shared->begun[tenth] = shared->beats;
	shared->tenths[tenth] = shared->turns;
	printf("# %llu calls: %llu done", (unsigned long long)z.number, (unsigned long long)z.ok);
	for (int e = 0; e < 140; e++)
		if (z.errors[e])
			printf(", %llu %s", (unsigned long long)z.errors[e], strerrorname_np(e));
	printf("; %llu bytes of arrays, events and fdinfo without an address\n", (unsigned long long)z.scanned);
	CHECK(z.scanned > calls_wanted);
	if (kcov.fd >= 0) {
		printf("# %llu places of the driver, %u calls kept\n", (unsigned long long)kcov.places, z.kept);
		CHECK(kcov.places > 500);
	}
}

/* ---- the bystander ---- */

static void bystander(void)
{
	struct client c = { .fd = huvm_open(), .alone = 1, .gpus = { 0, 1 }, .ngpu = 2, .rng = 5, .key = 77777 };

	CHECK_OK(gpu_register(c.fd, 0));
	CHECK_OK(gpu_register(c.fd, 1));
	client_range(&c, 2 * BLOCK);
	gpu_write_all(&c);
	while (!shared->stop) {
		use_all(&c, 0, c.len);
		gpu_change(&c);
		gpu_check_shapes(&c);
		cpu_change(&c);
		cpu_check_all(&c);
		shared->turns++;
	}
	_exit(0);
}

/* The same work again and again, which asks nothing of the driver. */
static void metronome(void)
{
	volatile unsigned int work;

	while (!shared->stop) {
		for (work = 0; work < BEAT; work++)
			;
		shared->beats++;
	}
	_exit(0);
}

static uint64_t seed(void)
{
	const char *s = getenv("HUVM_SEED");

	return s ? strtoull(s, NULL, 0) : 1;
}

static uint64_t wanted(uint64_t share)
{
	const char *full = getenv("HUVM_FULL"), *calls = getenv("HUVM_CALLS");
	uint64_t all = full && atoi(full) ? 1000000 : 20000;

	if (calls && atoll(calls) > 0)
		all = strtoull(calls, NULL, 0);
	return all * share / 10;
}

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
}

/*
 * The client's calls return, and the bystander has its turns, each of which takes it so many beats by itself. Returns the status that the
 * client ended with.
 */
static int look_after(pid_t pid, pid_t by, uint64_t alone)
{
	uint64_t number = ~0ull, turns = shared->turns, beats = shared->beats;
	double call = seconds(), turn = call;
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		usleep(20000);
		if (waitpid(by, &status, WNOHANG))
			FAIL("the bystander ended with status %#x", status);
		if (number != shared->number) {
			number = shared->number;
			call = seconds();
		} else if (seconds() - call > CALL_S * time_scale()) {
			z.number = number;
			if (shared->c)
				describe(shared->c, shared->arg);
			FAIL("no call in %.0f s", seconds() - call);
		}
		if (turns != shared->turns) {
			turns = shared->turns;
			turn = seconds();
			beats = shared->beats;
		} else if (shared->beats - beats > SLOWEST * alone || seconds() - turn > CALL_S * time_scale()) {
			FAIL("the bystander has had no turn in %.0f s, %llu beats, of which a turn by itself takes %llu", seconds() - turn,
			     (unsigned long long)(shared->beats - beats), (unsigned long long)alone);
		}
	}
	return status;
}

enum who { NOBODY, ROOT, STRANGER };

static void with_bystander(enum who who, uint64_t calls_wanted)
{
	int ctl = huvm_open(), fd = huvm_open(), status;
	uint64_t least = ~0ull, turns, beats, alone;
	double from;
	pid_t pid, by, metro;

	if (gpu_count(ctl) < 2)
		SKIP("one GPU");
	/* A panic says what each task was called. */
	write_file("/proc/sys/kernel/panic_sys_info", "tasks");
	share();
	by = fork();
	CHECK(by >= 0);
	if (!by)
		bystander();
	metro = fork();
	CHECK(metro >= 0);
	if (!metro)
		metronome();
	/* The pace that it has by itself. */
	CHECK(WITHIN(30000, shared->turns));
	alone = shared->beats;
	CHECK(WITHIN(30000, shared->turns > 4));
	alone = (shared->beats - alone) / 4 + 1;
	from = seconds();
	beats = shared->beats;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(ctl);
		kcov_open();
		if (who == NOBODY) {
			CHECK_OK(setgroups(0, NULL));
			CHECK_OK(setgid(65534));
			CHECK_OK(setuid(65534));
		}
		if (who != STRANGER) {
			close(fd);
			fd = huvm_open();
		}
		prepare(fd, who != STRANGER, seed() * 3 + who);
		gpu_register(fd, 0);
		fuzz(calls_wanted);
		fflush(stdout);
		_exit(0);
	}
	turns = shared->turns;
	status = look_after(pid, by, alone);
	turns = shared->turns - turns;
	beats = shared->beats - beats;
	from = seconds() - from;
	shared->stop = 1;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		z.number = shared->number;
		if (WIFSIGNALED(status) && shared->c)
			describe(shared->c, shared->arg);
		FAIL("the client ended with status %#x", status);
	}
	CHECK_EQ(waitpid(metro, NULL, 0), metro);
	CHECK_EQ(waitpid(by, &status, 0), by);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		FAIL("the bystander ended with status %#x", status);
	for (int i = 0; i < 10; i++) {
		uint64_t got = shared->tenths[i + 1] - shared->tenths[i];

		least = got < least ? got : least;
		if (!got && shared->begun[i + 1] - shared->begun[i] > SLOWEST * alone)
			FAIL("the bystander had no turn in tenth %d of the calls", i + 1);
	}
	printf("# %.0f calls a second; meanwhile the bystander had %llu turns, in no tenth of the calls fewer than %llu; %.2f s and %llu beats each, alone %llu beats\n",
	       (double)calls_wanted / from, (unsigned long long)turns, (unsigned long long)least, from / (double)(turns ? turns : 1),
	       (unsigned long long)(beats / (turns ? turns : 1)), (unsigned long long)alone);
	/* One more: it was in the middle of that. */
	if ((turns + 1) * SLOWER * alone < beats)
		FAIL("the bystander does not get on");
	close(fd);
	all_idle(ctl);
	CHECK(WITHIN(5000, client_count(ctl) == 1));
}

static void by_nobody(void)	{ with_bystander(NOBODY, wanted(5)); }
static void by_root(void)	{ with_bystander(ROOT, wanted(4)); }
static void by_a_stranger(void)	{ with_bystander(STRANGER, wanted(1)); }

/* ---- calls that were worth keeping ---- */

static int kinds_of_errors(void)
{
	int n = 0;

	for (int e = 0; e < 140; e++)
		n += z.errors[e] > 0;
	return n;
}

/* Each once, by root. What they came to when they were kept hangs on what was there; that they break nothing does not. */
static void replayed(void)
{
	int ctl = huvm_open();

	share();
	prepare(huvm_open(), 1, 1);
	catch_touches();
	CHECK_OK(gpu_register(z.fd, 0));
	for (unsigned int i = 0; i < sizeof(corpus) / sizeof(corpus[0]); i++) {
		const struct call *c = calls;

		while (c < calls + NCALLS && strcmp(c->name, corpus[i].name))
			c++;
		if (c == calls + NCALLS)
			FAIL("fuzz_corpus.h: there is no call %s", corpus[i].name);
		begin_struct(c);
		memset(z.arg, 0, c->size);
		read_words(corpus[i].arg, z.arg, c->size);
		read_words(corpus[i].room, z.room, ROOM);
		if (!changes_for_everybody(corpus[i].cmd))
			make(c, corpus[i].cmd);
	}
	no_addresses_in_fdinfo();
	printf("# %llu calls: %llu done, errors of %d kinds\n", (unsigned long long)z.number, (unsigned long long)z.ok, kinds_of_errors());
	/* They are still what they were kept for. */
	CHECK(z.ok > 10 && kinds_of_errors() > 5);
	for (unsigned int r = 0; r < RANGES; r++)
		munmap(z.range[r].p, z.range[r].len);
	CHECK_OK(close(z.fd));
	all_idle(ctl);
	CHECK(WITHIN(5000, client_count(ctl) == 1));
}

int main(int argc, char **argv)
{
	unsigned int limit = wanted(10) > 100000 ? 3000 : 200;
	struct ktap_test tests[] = {
		{ "replayed", replayed }, { "by_nobody", by_nobody, limit }, { "by_root", by_root, limit },
		{ "by_a_stranger", by_a_stranger, limit },
	};

	printf("# seed %llu\n", (unsigned long long)seed());
	return ktap_run(tests, 4, argc, argv);
}
