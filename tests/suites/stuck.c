// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU that lives, but no longer does as told: its MMU takes a command and never acknowledges it, a copy engine does not let go
 * of a copy, or somebody resets it under the driver. It is declared lost within a bound, its clients are told, and it touches nothing of the host any more, though
 * its job and its translations are still there. Bound again it is as new.
 */
#include "lend_lib.h"

#define BLOCKS 4u
/* Chunks of a GPU whose memory is made small. */
#define SMALL 4u
#define DEVICES "/sys/bus/pci/devices/"

/* A command has 2 s; then a few things are tidied up. */
static double bound_s(void) { return 6.0 * time_scale(); }

/* Adds 1 to all of [p, p + len) again and again. */
static uint64_t counts_up(int fd, void *p, uint64_t len)
{
	struct huvm_instr i = over(HUVM_OP_SCALE, len, BLOCKS);
	ARG(huvm_launch, l, .gpu = 0, .blocks = BLOCKS, .iterations = 1u << 20, .elem_bytes = 8, .nr_instr = 1,
	    .instrs = (uintptr_t)&i);

	i.dst = i.a = (uintptr_t)p;
	i.imm0 = i.imm1 = 1;
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
	return l.launch;
}

static void ends_as_lost(int fd, uint64_t id)
{
	struct huvm_wait w = wait_launch(fd, id);

	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
}

/* Why a GPU is lost that hears no command: a replay comes first if a launch has faulted on nothing for a while, to see whether it waits for one. */
static const char *const unheard[] = { "a TLB invalidate was not acknowledged", "a replay of faults was not acknowledged" };

static unsigned int told_unheard(const struct teller *e, unsigned int why)
{
	char pattern[96];

	snprintf(pattern, sizeof(pattern), "gpu-lost *gpu0 *%s", unheard[why]);
	return told(e, pattern);
}

/* GPU 0 was lost so, once; the doctor knows why, and says @hint. */
static void lost_unheard(const struct teller *e, const char *hint)
{
	char pattern[96];

	tells(e, "gpu-lost *gpu0 *a * was not acknowledged", 1);
	CHECK_EQ(told_unheard(e, 0) + told_unheard(e, 1), 1);
	snprintf(pattern, sizeof(pattern), "gpu 0 *lost: %s%s", unheard[told_unheard(e, 1)], hint);
	doctor_finds(pattern);
}

/* GPU 1 and its client noticed nothing. */
static void other_works(int other, uint64_t *q)
{
	gpu_scale(other, 1, q, BLOCK, BLOCKS, 1, 1);
	cpu_check(q, BLOCK, 71, 3);
}

/* The GPU comes back, without whatever hung it. */
static void comes_back(const char *name)
{
	int fd;

	rebind(name);
	fd = huvm_open();
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_OK);
	says("doctor", "gpu 0 *ok *0000:");
	CHECK_EQ(read_reg(fd, 0, INJ_COMMAND_HANG), 0);
	works(fd, 0);
	CHECK_OK(close(fd));
}

/* A job of GPU 0 that writes to the host's memory, when an invalidate is not acknowledged. */
static void writes_no_more(void)
{
	int fd = huvm_open(), other = huvm_open(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	volatile uint64_t *host = managed(fd, BLOCK);
	uint64_t *only = managed(fd, BLOCK), *home = managed(fd, BLOCK), *q = managed(other, BLOCK), id, v, *seen = malloc(BLOCK);
	struct teller e = teller_begin();
	char name[32];
	double t;

	CHECK(seen && log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(home, BLOCK, 60, 3);
	cpu_fill(q, BLOCK, 70, 3);
	CHECK_OK(advise(fd, (void *)(uintptr_t)host, BLOCK, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	memset((void *)(uintptr_t)host, 0, BLOCK);
	gpu_fill(fd, 0, only, BLOCK, BLOCKS, 5, 3);
	id = counts_up(fd, (void *)(uintptr_t)host, BLOCK);
	CHECK(WITHIN(5000, host[0] > 2));
	CHECK_EQ(block_info(fd, (void *)(uintptr_t)host).gpu_pages[0], 0);

	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	t = seconds();
	CHECK_EQ(reads(only, &v), SIGBUS);
	printf("# given up after %.2f s\n", seconds() - t);
	CHECK(seconds() - t < bound_s());
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	memcpy(seen, (void *)(uintptr_t)host, BLOCK);
	ends_as_lost(fd, id);
	give_time(300);
	CHECK_EQ(memcmp(seen, (void *)(uintptr_t)host, BLOCK), 0);
	CHECK(gets_logged(log, " lost: ", "was not acknowledged", 1));
	lost_unheard(&e, "*unbind");

	other_works(other, q);
	cpu_check(home, BLOCK, 60, 3);
	/* What the GPU had is gone, and stays so when it is back. */
	comes_back(name);
	CHECK_EQ(reads(only + 100, &v), SIGBUS);
	CHECK_EQ(memcmp(seen, (void *)(uintptr_t)host, BLOCK), 0);
	/* Bound again it is not lost once more. */
	tells(&e, "gpu-lost", 1);
	teller_end(&e);
	free(seen);
	close(log);
}

/* Registers of GPU 0 are read as all ones @reads times, by whoever reads one next. */
static void does_not_answer(int fd, uint32_t reads)
{
	for (int i = 0; i < 50 && gpu_state(fd, 0) != HUVM_GPU_LOST; i++) {
		ARG(huvm_link_info, l, .gpu = 0);

		test_reg(fd, 0, INJ_READS_ONES, reads);
		ioctl(fd, HUVM_IOC_LINK_INFO, &l);
	}
}

/* Now and then a read of GPU 0's registers says all ones, until @end. */
static volatile int end;

static void *silent_now_and_then(void *arg)
{
	int fd = huvm_open();

	for (; !end; usleep(20000))
		test_reg(fd, 0, INJ_READS_ONES, 1);
	CHECK_OK(close(fd));
	return arg;
}

enum { NOW_AND_THEN = 1 << 16 };

/*
 * GPU 0 evicts to GPU 1 over their link, which bus mastering is not asked for, and what @inject does to its copy lasts when it is given
 * up, with a command that it does not acknowledge or because it does not answer for a moment, @silent reads, or now and then. Then GPU 1 has
 * @kept chunks fewer, and the copy goes on into none of the others.
 */
static void loses_while_it_copies(uint32_t inject, uint32_t kept, uint32_t silent)
{
	int fd = begin(0x2, 0x1, SMALL);
	/* What GPU 1 has lent before: that goes, too, whatever the engine copies just now. */
	const uint32_t before = kept > 1 ? kept - 1 : 0;
	struct job j = job_make(0, SMALL + 1 + before, 5), owner;
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 1);
	struct teller e = teller_begin();
	char what[64], name[32], other[32], method[96], reset[96];
	uint64_t v, id;
	pthread_t t;

	knob(fd, 1, "write_back", 0);
	pci_name(fd, 0, name);
	pci_name(fd, 1, other);
	gpu_fill(j.fd, 0, j.p, (SMALL + before) * BLOCK, 1, 5, 3);
	CHECK_EQ(lent(fd, 1), before);
	test_reg(fd, 0, inject, 1);
	i.dst = (uintptr_t)j.p + (SMALL + before) * BLOCK;
	CHECK_OK(launch(j.fd, 0, 1, &i, 1, 8, &id));
	CHECK(WITHIN(5000, !read_reg(fd, 0, inject)));
	CHECK_EQ(lent(fd, 1), before + 1);
	end = 0;
	if (silent == NOW_AND_THEN)
		CHECK_EQ(pthread_create(&t, NULL, silent_now_and_then, NULL), 0);
	if (silent)
		does_not_answer(fd, 1 + silent % NOW_AND_THEN);
	else
		test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_EQ(reads(j.p + (SMALL + before - 1) * (BLOCK / 8), &v), SIGBUS);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	end = 1;
	if (silent == NOW_AND_THEN)
		CHECK_EQ(pthread_join(t, NULL), 0);
	test_reg(fd, 0, INJ_READS_ONES, 0);
	ends_as_lost(j.fd, id);
	CHECK_OK(munmap(j.p, j.len));
	CHECK_OK(close(j.fd));
	/* The owner has its memory again: also where that copy would go, if nobody knows when. */
	CHECK(WITHIN(5000, !lent(fd, 1)));
	CHECK_EQ(mem_info(fd, 1).retired, kept);
	if (silent)
		tells(&e, "gpu-lost *gpu0 *it does not answer", 1);
	else
		lost_unheard(&e, "");
	snprintf(what, sizeof(what), "forfeit *gpu1  %u chunks that gpu0 borrowed", kept);
	tells(&e, kept ? what : "forfeit", kept != 0);
	snprintf(what, sizeof(what), "gpu 1 lent memory *%u of * retired: *may still write", kept);
	if (kept)
		doctor_finds(what);
	owner = job_begin(1, mem_info(fd, 1).free, 11);
	CHECK_EQ(mem_info(fd, 1).free, 0);
	test_reg(fd, 0, inject, 0);
	give_time(300);
	job_end(&owner);
	if (kept) {
		/* Bound anew the owner would not know of it. */
		CHECK_OK(write_file(DRIVER "unbind", other));
		CHECK(write_file(DRIVER "bind", other));
	}
	if (kept && !silent) {
		/* Nor when the other has left and was not reset. */
		snprintf(method, sizeof(method), DEVICES "%s/reset_method", name);
		snprintf(reset, sizeof(reset), DEVICES "%s/reset", name);
		CHECK_OK(write_file(method, "\n"));
		CHECK_OK(write_file(DRIVER "unbind", name));
		CHECK(write_file(DRIVER "bind", other));
		CHECK_OK(write_file(method, "default"));
		CHECK_OK(write_file(reset, "1"));
		CHECK_OK(write_file(DRIVER "bind", name));
	}
	comes_back(name);
	if (kept)
		CHECK_OK(write_file(DRIVER "bind", other));
	CHECK_EQ(mem_info(fd, 1).retired, 0);
	says("doctor", "gpu 1 *ok *0000:");
	teller_end(&e);
}

/* The copy has not begun. */
static void copies_no_more(void) { loses_while_it_copies(INJ_CE_HANG, 0, 0); }

/* It is on its way, and the engine does not let go of it. */
static void copy_on_its_way(void) { loses_while_it_copies(INJ_CE_STALL, 1, 0); }

static void all_that_was_lent(void) { loses_while_it_copies(INJ_CE_STALL, 2, 0); }

/* The same, and the GPU is taken for one that is not there any more. */
static void copy_of_a_silent_gpu(void) { loses_while_it_copies(INJ_CE_STALL, 1, 1); }
static void copy_of_one_that_is_silent_for_long(void) { loses_while_it_copies(INJ_CE_STALL, 1, 10); }
static void copy_of_one_that_is_silent_now_and_then(void) { loses_while_it_copies(INJ_CE_STALL, 1, NOW_AND_THEN); }

/* A launch that runs has not ended because its GPU does not answer, unless that is lost by it. */
static void wait_on_a_silent_gpu(void)
{
	struct huvm_instr i = till_ended();
	int fd = huvm_open();
	struct huvm_wait w = { 0 };
	char name[32];
	uint64_t id;

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
	for (int n = 0; n < 200 && w.status != HUVM_LAUNCH_FAILED; n++) {
		ARG(huvm_wait, now, .launch = id);

		test_reg(fd, 0, INJ_READS_ONES, 1);
		CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &now));
		w = now;
		CHECK(w.status == HUVM_LAUNCH_RUNNING || w.status == HUVM_LAUNCH_FAILED);
	}
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	CHECK_OK(close(fd));
	comes_back(name);
}

/* The same for a copy to a block's own chunk on another GPU. */
static void moves_on_its_way(int duplicates)
{
	int fd = huvm_open(), other = huvm_open();
	const uint64_t part = BLOCK / 4;
	uint64_t *p = managed(fd, BLOCK), *second_part = p + part / 8, *q, all;
	char name[32], second[32];

	pci_name(fd, 0, name);
	pci_name(fd, 1, second);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	CHECK_OK(gpu_register(other, 1));
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5, 3);
	CHECK_OK(migrate(fd, p, part, 1));
	CHECK_OK(migrate(fd, second_part, part, HUVM_PLACE_HOST));
	test_reg(fd, 0, INJ_CE_STALL, 1);
	/* Ten seconds, then it is given up, and does not stop. */
	CHECK_ERR(migrate(fd, p, BLOCK, 1), EIO);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	/* What is left comes to another chunk there, also as duplicates. */
	CHECK_EQ(block_info(fd, p).gpu_pages[1], part / PAGE);
	if (duplicates)
		CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 1, second_part, part, 1, 5 + 3 * (part / 8), 3);
	gpu_check(fd, 1, p, 2 * part, 1, 5, 3);
	CHECK_EQ(mem_info(fd, 1).retired, 1);
	CHECK_OK(munmap(p, BLOCK));
	CHECK_EQ(mem_info(fd, 1).retired, 1);
	doctor_finds("gpu 1 lent memory *1 of * retired: *may still write");
	/* The rest is somebody else's when the copy goes on. */
	all = mem_info(fd, 1).free * BLOCK;
	q = managed(other, all);
	gpu_fill(other, 1, q, all, BLOCKS, 70, 3);
	test_reg(fd, 0, INJ_CE_STALL, 0);
	give_time(300);
	gpu_check(other, 1, q, all, BLOCKS, 70, 3);
	CHECK_OK(munmap(q, all));
	CHECK_OK(close(fd));
	CHECK_OK(close(other));
	comes_back(name);
	rebind(second);
}

static void move_on_its_way(void) { moves_on_its_way(0); }
static void duplicates_after_a_move_on_its_way(void) { moves_on_its_way(1); }

/* To a block's chunk on GPU 1 two engines copy, its own too, and neither lets go of it: when GPU 1 is another's, GPU 0 may still write there. */
static void moves_by_two_on_their_way(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);
	char name[32], second[32];

	pci_name(fd, 0, name);
	pci_name(fd, 1, second);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5, 3);
	CHECK_OK(migrate(fd, p, BLOCK / 2, HUVM_PLACE_HOST));
	test_reg(fd, 0, INJ_CE_STALL, 1);
	test_reg(fd, 1, INJ_CE_STALL, 1);
	CHECK_ERR(migrate(fd, p, BLOCK, 1), EIO);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	CHECK_EQ(gpu_state(fd, 1), HUVM_GPU_LOST);
	CHECK(WITHIN(5000, mem_info(fd, 1).retired == 1));
	test_reg(fd, 0, INJ_CE_STALL, 0);
	test_reg(fd, 1, INJ_CE_STALL, 0);
	CHECK_OK(close(fd));
	comes_back(name);
	rebind(second);
}

/* A copy to the host does not end, and its engine does not let go of it: where it writes can be anybody's soon. */
static void engine_does_not_stop(void)
{
	int fd = begin(0, 0x1, SMALL), other = huvm_open(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	struct job j = job_make(0, SMALL + 1, 5);
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 1);
	uint64_t *q = managed(other, BLOCK), id;
	struct teller e = teller_begin();
	char name[32];
	double t;

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(q, BLOCK, 70, 3);
	gpu_fill(j.fd, 0, j.p, SMALL * BLOCK, 1, 5, 3);
	test_reg(fd, 0, INJ_CE_STALL, 1);
	i.dst = (uintptr_t)j.p + SMALL * BLOCK;
	t = seconds();
	CHECK_OK(launch(j.fd, 0, 1, &i, 1, 8, &id));
	ends_as_lost(j.fd, id);
	printf("# given up after %.2f s\n", seconds() - t);
	/* A copy has 10 s, taking it off 1 s. */
	CHECK(seconds() - t < 16.0 * time_scale());
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	CHECK(gets_logged(log, " lost: ", "told to leave", 1));
	tells(&e, "channel-lost *gpu0 *gpu-to-host copies: *completed nothing", 1);
	tells(&e, "gpu-lost *gpu0 *a copy engine goes on with channel [1-9]", 1);
	doctor_finds("gpu 0 *lost: a copy engine goes on with channel [1-9]*unbind");
	teller_end(&e);
	test_reg(fd, 0, INJ_CE_STALL, 0);
	CHECK_OK(munmap(j.p, j.len));
	CHECK_OK(close(j.fd));
	other_works(other, q);
	comes_back(name);
	CHECK_OK(close(log));
}

/* What a block needs to be moved twice by a thread. */
struct twice {
	int fd;
	void *p;
	int first, second;
};

static void *moves_twice(void *arg)
{
	struct twice *t = arg;

	t->first = migrate(t->fd, t->p, BLOCK, 0) ? errno : 0;
	t->second = migrate(t->fd, t->p, BLOCK, 0) ? errno : 0;
	return NULL;
}

/*
 * GPU 0 is full, and the copy out of the chunk that a move is given stands still. The move fails, since its own copy is refused; the next one
 * goes on. What that copies in must wait for the copy out all the same.
 */
static void chunk_of_a_failed_move(void)
{
	int fd = huvm_open(), other = huvm_open();
	uint64_t *full = managed(other, SMALL * BLOCK), *p = managed(fd, BLOCK);
	struct twice t = { .fd = fd, .p = p };
	pthread_t thread;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(other, 0));
	cpu_fill(p, BLOCK, 80, 3);
	CHECK_OK(limit_chunks(fd, 0, SMALL));
	gpu_fill(other, 0, full, SMALL * BLOCK, 1, 6, 1);
	CHECK_EQ(free_chunks(fd, 0), 0);

	test_reg(fd, 0, INJ_CE_HANG, 1);
	let_fail_after(fd, HUVM_FAIL_SUBMIT, 1, 1);
	CHECK_EQ(pthread_create(&thread, NULL, moves_twice, &t), 0);
	CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_HANG)));
	give_time_held(500);
	CHECK_EQ(let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0), 0);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(t.first, EIO);
	CHECK_EQ(t.second, 0);
	/* What was evicted is not what came in. */
	cpu_check(full, SMALL * BLOCK, 6, 1);
	cpu_check(p, BLOCK, 80, 3);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(close(other));
	CHECK_OK(close(fd));
}

/* A page is on the host, and the one beside it only on a GPU that hangs: who wants the first gets it, and does not hear of the other. */
static void beside_what_is_gone(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK), *q = managed(fd, BLOCK), *r = managed(fd, BLOCK);
	struct huvm_instr i = { .op = HUVM_OP_CHECK, .count = PAGE / 8, .steps = 1, .a = (uintptr_t)p, .imm0 = 5, .imm1 = 3 };
	struct huvm_wait w;
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	cpu_fill(p, BLOCK, 5, 3);
	CHECK_OK(migrate(fd, p + 3 * PAGE / 8, PAGE, 1));
	cpu_fill(r, BLOCK, 5, 3);
	CHECK_OK(migrate(fd, r + 3 * PAGE / 8, PAGE, 1));
	gpu_fill(fd, 1, q, BLOCK, BLOCKS, 1, 1);
	test_reg(fd, 1, INJ_COMMAND_HANG, 1);
	CHECK_ERR(migrate(fd, q, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(gpu_state(fd, 1), HUVM_GPU_LOST);
	w = run_program(fd, 0, 1, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	CHECK_EQ(w.mismatches, 0);
	CHECK_EQ(block_info(fd, p).gpu_pages[1], 1);
	/* All but that page come, by fault and as they are fetched ahead. */
	gpu_check(fd, 0, p + BLOCK / 16, BLOCK / 2, 1, 5 + 3 * (BLOCK / 16), 3);
	i.a += 3 * PAGE;
	w = run_program(fd, 0, 1, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
	CHECK_EQ(w.fault_va & ~(PAGE - 1), (uintptr_t)p + 3 * PAGE);
	/* Nor does what is near come less for it, where all of that comes along with a page. */
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_mode", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_threshold_percent", 1));
	i.a = (uintptr_t)r;
	w = run_program(fd, 0, 1, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	CHECK_EQ(w.mismatches, 0);
	CHECK_EQ(block_info(fd, r).gpu_pages[0], 511);
	CHECK_OK(close(fd));
	rebind(name);
}

/* The same where the launch is the first to meet the GPU that hangs, and no road goes there but over the host. */
static void beside_what_is_met_first(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);
	struct huvm_instr i = { .op = HUVM_OP_CHECK, .count = PAGE / 8, .steps = 1, .a = (uintptr_t)p, .imm0 = 5, .imm1 = 3 };
	struct huvm_wait w;
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	test_reg(fd, 0, INJ_LINK_DOWN, link_bit(fd, 0, 1));
	give_time(400);
	cpu_fill(p, BLOCK, 5, 3);
	/* It is mapped there, too. */
	CHECK_OK(migrate(fd, p + 3 * PAGE / 8, PAGE, 1));
	/* Whatever is near comes along with a page. */
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_mode", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_threshold_percent", 1));
	test_reg(fd, 1, INJ_COMMAND_HANG, 1);
	w = run_program(fd, 0, 1, &i, 1, 8);
	CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
	CHECK_EQ(w.mismatches, 0);
	CHECK_EQ(gpu_state(fd, 1), HUVM_GPU_LOST);
	CHECK_EQ(block_info(fd, p).gpu_pages[1], 1);
	test_reg(fd, 0, INJ_LINK_DOWN, 0);
	give_time(400);
	CHECK_OK(close(fd));
	rebind(name);
}

/* Many who wait for a GPU that does not acknowledge wait for it together, not one after the other. */
#define WAITERS 16
static struct {
	int fd;
	uint64_t *p;
} waits;

static void *wants_one(void *arg)
{
	CHECK_ERR(migrate(waits.fd, waits.p + (uintptr_t)arg * BLOCK / 8, BLOCK, HUVM_PLACE_HOST), EIO);
	return NULL;
}

static void many_wait_at_once(void)
{
	int fd = huvm_open();
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	pthread_t threads[WAITERS];
	char name[32];
	double t;

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 1, name);
	CHECK_OK(gpu_register(fd, 1));
	waits.fd = fd;
	waits.p = managed(fd, WAITERS * BLOCK);
	gpu_fill(fd, 1, waits.p, WAITERS * BLOCK, BLOCKS, 1, 1);
	test_reg(fd, 1, INJ_COMMAND_HANG, 1);
	t = seconds();
	for (uintptr_t i = 0; i < WAITERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, wants_one, (void *)i), 0);
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	printf("# all told after %.2f s\n", seconds() - t);
	CHECK(seconds() - t < bound_s());
	CHECK(gets_logged(log, "huvm: waiting", " command 1 ", 1));
	CHECK_OK(close(log));
	CHECK_OK(close(fd));
	rebind(name);
}

/* Two GPUs have a copy each, the host has none, and one of them is lost: what the other has is not given away as if that one still had it. */
static void duplicate_on_a_lost_gpu(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, 2 * BLOCK), *q = managed(fd, BLOCK);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	gpu_fill(fd, 1, p, 2 * BLOCK, BLOCKS, 40, 7);
	gpu_fill(fd, 1, q, BLOCK, BLOCKS, 1, 1);
	CHECK_OK(advise(fd, p, 2 * BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 0, p, 2 * BLOCK, BLOCKS, 40, 7);
	/* The copy took its mapping. */
	gpu_check(fd, 1, p, 2 * BLOCK, BLOCKS, 40, 7);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(block_info(fd, (char *)p + i * BLOCK).gpu_pages[0], 512);
		CHECK_EQ(block_info(fd, (char *)p + i * BLOCK).gpu_pages[1], 512);
		CHECK_EQ(block_info(fd, (char *)p + i * BLOCK).host_pages, 0);
	}
	test_reg(fd, 1, INJ_COMMAND_HANG, 1);
	CHECK_ERR(migrate(fd, q, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(gpu_state(fd, 1), HUVM_GPU_LOST);
	/* That it has them mapped is in nobody's way. */
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	CHECK_EQ(e.evicted, 1);
	cpu_check(p, BLOCK, 40, 7);
	CHECK_OK(munmap(q, BLOCK));
	rebind(name);
	cpu_check(p, 2 * BLOCK, 40, 7);
	CHECK_OK(close(fd));
}

/*
 * A block is on the host, with a neighbour that lends, and on a GPU that is lost: whoever wants it gets it, and goes on. Catches a copy that is
 * taken for read from the lost one, each time, so that its access faults for ever.
 */
static void fetched_beside_a_lost_gpu(void)
{
	int fd = huvm_open(), ctl = huvm_open();
	uint64_t *p = managed(fd, BLOCK), *q = managed(fd, BLOCK);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);
	char name[32];

	CHECK(gpu_count(fd) >= 3);
	pci_name(fd, 2, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 2));
	knob(ctl, 1, "harvest_lend", 1);
	knob(ctl, 1, "lend_reserve_chunks", 0);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "harvest_borrow", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	cpu_fill(p, BLOCK, 40, 7);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 40, 7);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	CHECK_EQ(mem_info(fd, 1).lent_removable, 1);
	gpu_check(fd, 2, p, BLOCK, BLOCKS, 40, 7);
	CHECK_EQ(mem_info(fd, 1).lent_removable, 1);
	CHECK_EQ(block_info(fd, p).gpu_pages[2], 512);
	gpu_fill(fd, 2, q, BLOCK, BLOCKS, 1, 1);
	test_reg(fd, 2, INJ_COMMAND_HANG, 1);
	CHECK_ERR(migrate(fd, q, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(gpu_state(fd, 2), HUVM_GPU_LOST);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 40, 7);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	gpu_scale(fd, 0, p, BLOCK, BLOCKS, 2, 1);
	cpu_check(p, BLOCK, 81, 14);
	CHECK_OK(munmap(q, BLOCK));
	rebind(name);
	cpu_check(p, BLOCK, 81, 14);
	knob(ctl, 1, "harvest_lend", 0);
	CHECK_OK(close(ctl));
	CHECK_OK(close(fd));
}

/* A GPU hangs while it is bound, as one that was left so by whoever had it before: it is refused, and reset, and the next attempt takes it. */
static void hangs_while_it_is_bound(void)
{
	int fd = huvm_open(), bar;
	volatile uint32_t *inject;
	char name[32], path[96], enable[96];

	pci_name(fd, 0, name);
	snprintf(path, sizeof(path), DEVICES "%s/resource5", name);
	snprintf(enable, sizeof(enable), DEVICES "%s/enable", name);
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK_OK(write_file(enable, "1"));
	CHECK_OK(bar = open(path, O_RDWR));
	inject = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, bar, INJ_COMMAND_HANG & ~(PAGE - 1));
	CHECK(inject != MAP_FAILED);
	inject[(INJ_COMMAND_HANG & (PAGE - 1)) / 4] = 1;
	CHECK_EQ(inject[(INJ_COMMAND_HANG & (PAGE - 1)) / 4], 1);
	CHECK_OK(munmap((void *)(uintptr_t)inject, PAGE));
	CHECK_OK(close(bar));
	CHECK_OK(write_file(enable, "0"));
	CHECK_ERR(write_file(DRIVER "bind", name), EIO);
	CHECK_OK(write_file(DRIVER "bind", name));
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_OK);
	works(fd, 0);
	CHECK_OK(close(fd));
}

/* GPU @gpu, called @name, was lost, and a block that it had is at home. */
static void lost_but_for_the_hosts(int fd, uint32_t gpu, const char *name, uint64_t *p)
{
	CHECK_EQ(gpu_state(fd, gpu), HUVM_GPU_LOST);
	CHECK_EQ(block_info(fd, p).host_pages, 512);
	cpu_check(p, BLOCK, 40, 7);
	rebind(name);
	cpu_check(p, BLOCK, 40, 7);
}

/* A GPU that has duplicates is found out to be lost by the eviction of the others: they are the only copies then. */
static void lost_by_an_eviction(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);
	char name[32];

	pci_name(fd, 1, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(fd, 1));
	gpu_fill(fd, 1, p, BLOCK, BLOCKS, 40, 7);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 40, 7);
	gpu_check(fd, 1, p, BLOCK, BLOCKS, 40, 7);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_EQ(block_info(fd, p).gpu_pages[1], 512);
	CHECK_EQ(block_info(fd, p).host_pages, 0);
	test_reg(fd, 1, INJ_COMMAND_HANG, 1);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	CHECK_EQ(e.evicted, 1);
	lost_but_for_the_hosts(fd, 1, name, p);
	CHECK_OK(close(fd));
}

/* A GPU is to have the only copy, and is found out to be lost when its mapping of it goes: the others stay. */
static void lost_by_a_move(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);
	char name[32];

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, BLOCK, 40, 7);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 40, 7);
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_EQ(block_info(fd, p).host_pages, 512);
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_ERR(migrate(fd, p, BLOCK, 0), EIO);
	lost_but_for_the_hosts(fd, 0, name, p);
	CHECK_OK(close(fd));
}

/*
 * Copies to a GPU are over, and none of the pages is mapped there yet, when it is lost: they stay on the host. Those of the block that was being
 * mapped, and of the one before, may be gone.
 */
static void copies_in_vain(void)
{
	enum { MANY = 12 };
	int fd = huvm_open();
	uint64_t *p = managed(fd, (MANY + 1) * BLOCK), v;
	struct huvm_instr i = over(HUVM_OP_CHECK, MANY * BLOCK, MANY);
	unsigned int gone = 0, there = 0, blocks = 0;
	char name[32];
	uint64_t id;

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, MANY * BLOCK, 9, 5);
	/* So that there are page directories. */
	gpu_fill(fd, 0, p + MANY * BLOCK / 8, BLOCK, 1, 1, 1);
	/* A block of threads for each 2 MiB. */
	i.block_stride = BLOCK;
	i.step_stride = PIECE;
	i.steps = BLOCK / PIECE;
	i.a = (uintptr_t)p;
	i.imm0 = 9;
	i.imm1 = 5;
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_OK(launch(fd, 0, MANY, &i, 1, 8, &id));
	ends_as_lost(fd, id);
	comes_back(name);
	for (uint64_t k = 0; k < MANY; k++) {
		unsigned int before = gone;

		for (uint64_t at = k * BLOCK / 8; at < (k + 1) * BLOCK / 8; at += PAGE / 8)
			if (reads(p + at, &v) == SIGBUS)
				gone++;
			else
				there += v == 9 + 5 * at;
		blocks += gone != before;
	}
	printf("# %u pages gone, of %u blocks, %u there\n", gone, blocks, there);
	CHECK_EQ(gone + there, MANY * BLOCK / PAGE);
	CHECK(blocks <= 2);
	CHECK_OK(close(fd));
}

/* A GPU that is unbound has the only copies, and its engine stops in the middle of bringing them home, for good: it is lost, cut off and reset. */
static void stops_while_unbound(void)
{
	int fd = huvm_open(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	uint64_t *p = managed(fd, SMALL * BLOCK), v;
	char name[32];

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, SMALL * BLOCK, BLOCKS, 5, 3);
	test_reg(fd, 0, INJ_CE_STALL, 1);
	comes_back(name);
	/* It is reset only if it was lost. */
	CHECK(gets_logged(log, "gpu 0", ": reset", 1));
	CHECK_EQ(reads(p, &v), SIGBUS);
	CHECK_OK(close(log));
	CHECK_OK(close(fd));
}

struct move {
	int fd, did;
	uint64_t *p;
};

static void *moves_once(void *arg)
{
	struct move *m = arg;

	m->did = migrate(m->fd, m->p, BLOCK, 0) ? errno : 0;
	return NULL;
}

static void *unbinds(void *name)
{
	CHECK_OK(write_file(DRIVER "unbind", name));
	return NULL;
}

/*
 * A move has begun when its GPU is unbound, and has no memory there yet, so that whoever unbinds finds nothing to bring home: it fails, or its
 * pages come home. Here it waits for an invalidate, which is acknowledged when the other has looked.
 */
static void moves_while_it_is_unbound(void)
{
	const uint64_t region = 512ull << 20;
	int fd = huvm_open(), bar;
	char name[32], path[96];
	uint64_t *p = managed(fd, 2 * region), *q = p + region / 8, before;
	struct move m = { .fd = fd, .p = p };
	volatile uint32_t *inject;
	pthread_t mover, unbinder;

	pci_name(fd, 0, name);
	snprintf(path, sizeof(path), DEVICES "%s/resource5", name);
	CHECK_OK(bar = open(path, O_RDWR));
	inject = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, bar, INJ_COMMAND_HANG & ~(PAGE - 1));
	CHECK(inject != MAP_FAILED);
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, BLOCK, 20, 3);
	cpu_fill(q, BLOCK, 21, 3);
	before = free_chunks(fd, 0);
	/* The tables of this one are new to the GPU, so it is told; nobody waits for that but who tells it of others. */
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 1);
	CHECK_ERR(migrate(fd, q, BLOCK, 0), EIO);
	CHECK_EQ(let_fail_after(fd, HUVM_FAIL_SUBMIT, 0, 0), 0);
	cpu_check(q, BLOCK, 21, 3);
	CHECK_EQ(free_chunks(fd, 0), before);

	CHECK_EQ(pthread_create(&mover, NULL, moves_once, &m), 0);
	/* An invalidate has 2 s, on a slow machine too. */
	usleep(200000);
	CHECK_EQ(pthread_create(&unbinder, NULL, unbinds, name), 0);
	usleep(800000);
	inject[(INJ_COMMAND_HANG & (PAGE - 1)) / 4] = 0;
	CHECK_EQ(pthread_join(mover, NULL), 0);
	CHECK_EQ(pthread_join(unbinder, NULL), 0);
	/* On a slow machine it may have been quicker. */
	CHECK(!m.did || m.did == EIO);
	cpu_check(p, BLOCK, 20, 3);
	cpu_check(q, BLOCK, 21, 3);
	CHECK_OK(munmap((void *)(uintptr_t)inject, PAGE));
	CHECK_OK(close(bar));
	CHECK_OK(close(fd));
	CHECK_OK(write_file(DRIVER "bind", name));
	fd = huvm_open();
	works(fd, 0);
	CHECK_OK(close(fd));
}

/* Who meets a GPU that hangs first, be it as he registers it, hears what all hear who come later. */
static void first_to_hear(void)
{
	int fd = huvm_open(), other;
	uint64_t *p = managed(fd, BLOCK);
	char name[32];

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 5, 3);
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_ERR(migrate(fd, p, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	CHECK_ERR(migrate(fd, p, BLOCK, 0), EIO);
	CHECK_OK(munmap(p, BLOCK));
	CHECK_OK(close(fd));
	comes_back(name);

	fd = huvm_open();
	other = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_ERR(gpu_register(other, 0), EIO);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	CHECK_ERR(gpu_register(other, 0), EIO);
	CHECK_OK(close(other));
	CHECK_OK(close(fd));
	comes_back(name);
}

/* The n-th command of a launch that faults is not acknowledged: now an invalidate after a mapping was made, now a replay. */
static void while_serving_faults(void)
{
	unsigned int of[2];
	int other = huvm_open(), lost = 0;
	uint64_t *q = managed(other, BLOCK);
	struct teller e = teller_begin();
	char name[32];

	pci_name(other, 0, name);
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(q, BLOCK, 70, 3);
	for (uint32_t n = 1; n <= 4; n++) {
		int fd = huvm_open();
		struct huvm_instr i = over(HUVM_OP_FILL, 4 * BLOCK, BLOCKS);
		uint64_t *p = managed(fd, 4 * BLOCK), *home = managed(fd, BLOCK);
		unsigned int before = told(&e, "gpu-lost *gpu0 *a * was not acknowledged");
		struct huvm_wait w;
		double t;

		CHECK_OK(gpu_register(fd, 0));
		cpu_fill(home, BLOCK, n, 3);
		i.dst = (uintptr_t)p;
		i.imm0 = i.imm1 = 1;
		test_reg(fd, 0, INJ_COMMAND_HANG, n);
		t = seconds();
		w = run_program(fd, 0, BLOCKS, &i, 1, 8);
		printf("# command %u: status %u, error %u after %.2f s\n", n, w.status, w.error, seconds() - t);
		CHECK(seconds() - t < bound_s());
		if (w.status == HUVM_LAUNCH_FAILED) {
			CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
			CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
			doctor_finds("gpu 0 *lost: a * was not acknowledged");
			CHECK(WITHIN(5000, told(&e, "gpu-lost *gpu0 *a * was not acknowledged") > before));
			lost++;
		} else {
			CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		}
		cpu_check(home, BLOCK, n, 3);
		CHECK_OK(close(fd));
		CHECK_OK(munmap(p, 4 * BLOCK));
		CHECK_OK(munmap(home, BLOCK));
		comes_back(name);
	}
	other_works(other, q);
	cpu_fill(q, BLOCK, 70, 3);
	CHECK(lost >= 2);
	/* Each for its own reason. */
	for (unsigned int r = 0; r < 2; r++)
		of[r] = told_unheard(&e, r);
	printf("# lost %u times at an invalidate, %u at a replay\n", of[0], of[1]);
	CHECK(of[0] && of[1]);
	teller_end(&e);
}

/* By sysfs, while it works. */
static void reset_under_the_driver(void)
{
	int fd = huvm_open(), other = huvm_open();
	uint64_t *only = managed(fd, BLOCK), *home = managed(fd, BLOCK), *q = managed(other, BLOCK), id, v;
	struct teller e = teller_begin();
	char name[32], path[96];

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(home, BLOCK, 60, 3);
	cpu_fill(q, BLOCK, 70, 3);
	gpu_fill(fd, 0, only, BLOCK, BLOCKS, 5, 3);
	id = counts_up(fd, only, BLOCK);
	give_time(20);
	snprintf(path, sizeof(path), DEVICES "%s/reset", name);
	CHECK_OK(write_file(path, "1"));
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	doctor_finds("gpu 0 *lost: it was reset under the driver");
	tells(&e, "gpu-lost *gpu0 *it was reset under the driver", 1);
	teller_end(&e);
	ends_as_lost(fd, id);
	CHECK_EQ(reads(only, &v), SIGBUS);
	CHECK_ERR(migrate(fd, home, BLOCK, 0), EIO);
	cpu_check(home, BLOCK, 60, 3);
	other_works(other, q);
	comes_back(name);
}

/* A device that cannot be reset and still hangs is not taken again; one that was reset by hand is. */
static void no_way_to_reset(void)
{
	int fd = huvm_open(), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	uint64_t *only = managed(fd, BLOCK), v;
	char name[32], method[96], path[96], finding[96];

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	pci_name(fd, 0, name);
	snprintf(method, sizeof(method), DEVICES "%s/reset_method", name);
	snprintf(path, sizeof(path), DEVICES "%s/reset", name);
	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, only, BLOCK, BLOCKS, 5, 3);
	test_reg(fd, 0, INJ_COMMAND_HANG, 1);
	CHECK_EQ(reads(only, &v), SIGBUS);
	CHECK_OK(close(fd));
	CHECK_OK(munmap(only, BLOCK));

	CHECK_OK(write_file(method, "\n"));
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK(gets_logged(log, "huvm: gpu 0: ", "lost, and not reset", 1));
	CHECK(write_file(DRIVER "bind", name) < 0);
	fd = huvm_open();
	CHECK_ERR(gpu_register(fd, 0), ENODEV);
	CHECK_OK(close(fd));
	snprintf(finding, sizeof(finding), "device %s *not bound to huvm", name);
	doctor_finds(finding);

	CHECK_OK(write_file(method, "default"));
	CHECK_OK(write_file(path, "1"));
	CHECK_OK(write_file(DRIVER "bind", name));
	comes_back(name);
	close(log);
}

/*
 * Some writes of registers are lost, whatever they are, while a launch is asked for whose pages are on the GPU: it is the one that was
 * asked for, in its own space and not in that of the slot's last one, and it runs.
 */
static void launch_not_heard(void)
{
	uint64_t *p[2], add = 1;
	int fd[2];

	for (int i = 0; i < 2; i++) {
		fd[i] = huvm_open();
		p[i] = managed(fd[i], BLOCK);
		CHECK_OK(gpu_register(fd[i], 0));
		gpu_fill(fd[i], 0, p[i], BLOCK, BLOCKS, add, 3);
	}
	for (uint32_t lost = 1; lost <= 3; lost++)
		for (uint32_t n = 0; n < 10; n++) {
			add++;
			for (int i = 0; i < 2; i++) {
				test_reg(fd[i], 0, INJ_WRITES_LOST, n << 16 | lost);
				gpu_fill(fd[i], 0, p[i], BLOCK, BLOCKS, add, 3);
				test_reg(fd[i], 0, INJ_WRITES_LOST, 0);
				gpu_check(fd[i], 0, p[i], BLOCK, BLOCKS, add, 3);
			}
		}
	for (int i = 0; i < 2; i++)
		cpu_check(p[i], BLOCK, add, 3);
	CHECK_EQ(gpu_state(fd[0], 0), HUVM_GPU_OK);
}

/* None of a launch's writes are heard: it is refused, and the next one runs. */
static void launch_never_heard(void)
{
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, BLOCKS);
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK), id;

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 1, 3);
	i.dst = (uintptr_t)p;
	/* An interrupt that is not acknowledged comes again, and its writes are lost too: there are enough for all. */
	for (uint32_t pass = 0; pass < 10; pass += 5) {
		test_reg(fd, 0, INJ_WRITES_LOST, pass << 16 | 0xffff);
		CHECK_ERR(launch(fd, 0, BLOCKS, &i, 1, 8, &id), EIO);
		test_reg(fd, 0, INJ_WRITES_LOST, 0);
		gpu_check(fd, 0, p, BLOCK, BLOCKS, 1, 3);
	}
	/* It gave its slot back each time. */
	for (int n = 0; n < 70; n++) {
		test_reg(fd, 0, INJ_WRITES_LOST, 0xffff);
		CHECK_ERR(launch(fd, 0, BLOCKS, &i, 1, 8, &id), EIO);
	}
	test_reg(fd, 0, INJ_WRITES_LOST, 0);
	gpu_fill(fd, 0, p, BLOCK, BLOCKS, 7, 3);
	cpu_check(p, BLOCK, 7, 3);
	CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_OK);
}

/*
 * One write of a register is lost while pages move to the GPU by its faults and come home, be it a doorbell, a replay, an invalidate,
 * GET of a fault ring or what an interrupt is acknowledged by: it is made up for, and no byte is wrong.
 */
static void any_write_not_heard(void)
{
	const uint64_t len = 2 * BLOCK;
	int fd = huvm_open();
	double longest = 0;
	uint32_t at = 0, lost = 0;
	uint64_t *p;

	CHECK_OK(gpu_register(fd, 0));
	for (uint32_t n = 0; n < 60; n++) {
		double took;

		p = managed(fd, len);
		cpu_fill(p, len, n, 3);
		took = -seconds();
		test_reg(fd, 0, INJ_WRITES_LOST, n << 16 | 1);
		gpu_scale(fd, 0, p, len, BLOCKS, 1, 1);
		cpu_check(p, len, n + 1, 3);
		took += seconds();
		if (took > longest) {
			longest = took;
			at = n;
		}
		lost += !read_reg(fd, 0, INJ_WRITES_LOST);
		test_reg(fd, 0, INJ_WRITES_LOST, 0);
		CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_OK);
		CHECK_OK(munmap(p, len));
	}
	printf("# %u times one was lost; the longest took %.2f s, without write %u\n", lost, longest, at);
	CHECK(lost >= 10);
	CHECK(longest < bound_s());
}

/* The device tells nonsense of a launch: a few times that is only read wrong, and then nobody knows whether it runs. */
static void status_means_nothing(void)
{
	struct huvm_instr fill = over(HUVM_OP_FILL, BLOCK, BLOCKS);
	int fd = huvm_open(), other = huvm_open();
	uint64_t *p = managed(fd, BLOCK), *q = managed(other, BLOCK), id;
	char name[32];
	double t;

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(other, 1));
	cpu_fill(q, BLOCK, 70, 3);
	fill.dst = (uintptr_t)p;
	fill.imm0 = 9;
	fill.imm1 = 3;
	for (uint32_t n = 1; n <= 3; n++) {
		test_reg(fd, 0, INJ_STATUS_WRONG, n);
		gpu_scale(fd, 0, p, BLOCK, BLOCKS, 1, 1);
		gpu_check(fd, 0, p, BLOCK, BLOCKS, n, 0);
		test_reg(fd, 0, INJ_STATUS_WRONG, 0);
	}
	/* For longer than a look takes, it is not begun; and one that runs is looked at again. */
	test_reg(fd, 0, INJ_STATUS_WRONG, 40);
	CHECK_ERR(launch(fd, 0, BLOCKS, &fill, 1, 8, &id), EIO);
	CHECK_OK(launch(fd, 0, BLOCKS, &fill, 1, 8, &id));
	/* Over before it is taken for one that does not answer, 100 ms, on a slow machine too. */
	test_reg(fd, 0, INJ_STATUS_WRONG, 12);
	CHECK_EQ(wait_launch(fd, id).status, HUVM_LAUNCH_DONE);
	gpu_check(fd, 0, p, BLOCK, BLOCKS, 9, 3);
	id = counts_up(fd, p, BLOCK);
	test_reg(fd, 0, INJ_STATUS_WRONG, 0xffff);
	t = seconds();
	ends_as_lost(fd, id);
	printf("# given up after %.2f s\n", seconds() - t);
	CHECK(seconds() - t < bound_s());
	doctor_finds("gpu 0 *lost: *the launch in slot * has ended*unbind");
	other_works(other, q);
	comes_back(name);
}

static const struct ktap_test tests[] = {
	{ "writes_no_more", writes_no_more }, { "copies_no_more", copies_no_more },
	{ "copy_on_its_way", copy_on_its_way }, { "all_that_was_lent", all_that_was_lent },
	{ "copy_of_a_silent_gpu", copy_of_a_silent_gpu },
	{ "copy_of_one_that_is_silent_for_long", copy_of_one_that_is_silent_for_long },
	{ "copy_of_one_that_is_silent_now_and_then", copy_of_one_that_is_silent_now_and_then }, { "wait_on_a_silent_gpu", wait_on_a_silent_gpu },
	{ "duplicates_after_a_move_on_its_way", duplicates_after_a_move_on_its_way, 90 },
	{ "lost_by_an_eviction", lost_by_an_eviction }, { "lost_by_a_move", lost_by_a_move },
	{ "move_on_its_way", move_on_its_way, 90 }, { "moves_by_two_on_their_way", moves_by_two_on_their_way, 120 },
	{ "engine_does_not_stop", engine_does_not_stop, 120 },
	{ "chunk_of_a_failed_move", chunk_of_a_failed_move, 60 }, { "duplicate_on_a_lost_gpu", duplicate_on_a_lost_gpu, 60 },
	{ "fetched_beside_a_lost_gpu", fetched_beside_a_lost_gpu, 60 }, { "hangs_while_it_is_bound", hangs_while_it_is_bound, 60 },
	{ "beside_what_is_gone", beside_what_is_gone }, { "beside_what_is_met_first", beside_what_is_met_first },
	{ "many_wait_at_once", many_wait_at_once, 90 },
	{ "copies_in_vain", copies_in_vain, 60 }, { "stops_while_unbound", stops_while_unbound, 120 },
	{ "moves_while_it_is_unbound", moves_while_it_is_unbound, 60 },
	{ "first_to_hear", first_to_hear }, { "while_serving_faults", while_serving_faults, 120 },
	{ "reset_under_the_driver", reset_under_the_driver }, { "no_way_to_reset", no_way_to_reset },
	{ "launch_not_heard", launch_not_heard, 60 }, { "launch_never_heard", launch_never_heard, 60 },
	{ "status_means_nothing", status_means_nothing }, { "any_write_not_heard", any_write_not_heard, 120 },
};
KTAP_MAIN(tests)
