// SPDX-License-Identifier: GPL-2.0
/*
 * Fair share: what one client can take of a GPU while others want it too. An attacker that takes all it can get, beside a victim of
 * the same user and one of another: both get on, beside one that fills the engine at a quarter of their speed alone at least, and keep
 * what they have of the GPU's memory if it is no more than their share.
 */
#include "huvm_lib.h"
#include <pthread.h>
#include <sys/syscall.h>

/* Nobody here is an administrator: those have no bounds. */
enum { ATTACKER = 1000, VICTIM = 1001, ANOTHER = 1002 };
/*
 * Places that a GPU has for launches, and for files; what one process and one user may hold of them, and a process of another user
 * when that one has them.
 */
enum { PLACES = 64, OF_PROCESS = 32, OF_USER = 48, OF_ANOTHER = 8 };
/* Blocks that a GPU runs at once. */
#define RESIDENT 80u

static const struct huvm_instr for_ever = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1ull << 32, .imm0 = 1ull << 62 };
static const struct huvm_instr at_once = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = 1 };

static void become(uid_t user)
{
	CHECK_OK(setuid(user));
}

/* A process of @user that has done @run, and stays. */
static pid_t beside(uid_t user, void (*run)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	CHECK_OK(pipe(ready));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		become(user);
		run();
		CHECK_EQ(write(ready[1], "x", 1), 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	/* Without a byte it has ended, and said why. */
	CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

/* A process of @user that does @run, to its end. */
static void well(uid_t user, void (*run)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		become(user);
		run();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		FAIL("a process of user %u ended with %#x", (unsigned int)user, (unsigned int)status);
}

static void all_right(void)
{
	works(huvm_open(), 0);
}

/* Launches that never end and launches that have ended and are not collected, until there are @want. */
static void take_launches(unsigned int want)
{
	int fd = huvm_open();
	unsigned int n = 0;
	uint64_t id;

	CHECK_OK(gpu_register(fd, 0));
	while (!launch(fd, 0, 1, n & 1 ? &for_ever : &at_once, 1, 8, &id))
		n++;
	CHECK_EQ(errno, EBUSY);
	CHECK_EQ(n, want);
}

static void a_process_of_launches(void)
{
	take_launches(OF_PROCESS);
}

static void the_rest_of_the_user(void)
{
	take_launches(OF_USER - OF_PROCESS);
}

static void launches_of_another(void)
{
	take_launches(OF_ANOTHER);
}

/*
 * An attacker's process takes what one may, another what is left of its user's, and one of another user what it may then: others get
 * on, of the first's user even while it has but one process.
 */
static void left_for_others(void (*process)(void), void (*rest)(void), void (*another)(void))
{
	int ctl = huvm_open();
	pid_t first, second, third;

	all_idle(ctl);
	first = beside(ATTACKER, process);
	well(ATTACKER, all_right);
	second = beside(ATTACKER, rest);
	well(VICTIM, all_right);
	third = beside(ANOTHER, another);
	well(VICTIM, all_right);
	end_child(first);
	end_child(second);
	end_child(third);
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

static void launches_are_left_for_others(void)
{
	left_for_others(a_process_of_launches, the_rest_of_the_user, launches_of_another);
	/* What they had is free again. */
	well(ATTACKER, a_process_of_launches);
}

static void take_files(unsigned int want)
{
	unsigned int n = 0;

	while (!gpu_register(huvm_open(), 0))
		n++;
	CHECK_EQ(errno, ENOSPC);
	CHECK_EQ(n, want);
}

static void a_process_of_files(void)
{
	take_files(OF_PROCESS);
}

static void the_rest_of_the_files(void)
{
	take_files(OF_USER - OF_PROCESS);
}

static void files_of_another(void)
{
	take_files(OF_ANOTHER);
}

static void files_are_left_for_others(void)
{
	int fd = -1;

	left_for_others(a_process_of_files, the_rest_of_the_files, files_of_another);
	/* An administrator has all of them. */
	for (int i = 0; i < PLACES; i++)
		CHECK_OK(gpu_register(fd = huvm_open(), 0));
	CHECK_ERR(gpu_register(huvm_open(), 0), ENOSPC);
	/* Who has one hears so, also where none is left. */
	CHECK_ERR(gpu_register(fd, 0), EEXIST);
}

/* Where all places are taken a program that breaks a rule is told of that, and has waited for nobody. */
static void a_bad_program(void)
{
	struct huvm_instr in = { .op = HUVM_OP_DELAY, .count = 0, .steps = 1, .imm0 = 1 };
	int fd = huvm_open();
	uint64_t id;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_ERR(launch(fd, 0, 1, &in, 1, 8, &id), EINVAL);
	in = at_once;
	CHECK_ERR(launch(fd, 0, 0, &in, 1, 8, &id), EINVAL);
	CHECK_ERR(launch(fd, 0, 1, &in, 1, 8, &id), EBUSY);
}

static void a_bad_program_takes_nothing(void)
{
	take_launches(PLACES);
	well(VICTIM, a_bad_program);
}

/* GPUs that files of process @pid are registered on. */
static uint32_t gpus_of(int ctl, pid_t pid)
{
	uint32_t mask = 0;
	ARG(huvm_client_info, c);

	for (; !ioctl(ctl, HUVM_IOC_CLIENT_INFO, &c); c.client++)
		mask |= c.pid == (uint32_t)pid ? c.gpu_mask : 0;
	return mask;
}

/* Takes as many launches of all GPUs as a process may, says by @to which file it has, and goes on once @by_exec as another program. */
static void leave_it(int to, int go, int by_exec)
{
	char c;
	int fd;

	become(ATTACKER);
	fd = huvm_open();
	for (uint32_t g = 0; g < gpu_count(fd); g++) {
		unsigned int n = 0;
		uint64_t id;

		CHECK_OK(gpu_register(fd, g));
		while (!launch(fd, g, 1, &for_ever, 1, 8, &id))
			n++;
		CHECK_EQ(errno, EBUSY);
		CHECK_EQ(n, OF_PROCESS);
	}
	CHECK_OK(migrate(fd, managed(fd, 4 * BLOCK), 4 * BLOCK, 0));
	CHECK_EQ(write(to, &fd, sizeof(fd)), sizeof(fd));
	CHECK_EQ(read(go, &c, 1), 1);
	CHECK(by_exec);
	CHECK_OK(fcntl(fd, F_SETFD, 0));
	execl("/bin/sleep", "sleep", "1000", NULL);
	_exit(1);
}

/* Who is gone has nothing of a GPU any more, whoever has its file, and other processes of the user can have it. */
static void left_to_another(void)
{
	int ctl = huvm_open();
	uint32_t all = (1u << gpu_count(ctl)) - 1;

	all_idle(ctl);
	for (int by_exec = 0; by_exec < 2; by_exec++) {
		int from[2], go[2], its, fd, pidfd;
		pid_t pid;

		CHECK_OK(pipe(from));
		CHECK_OK(pipe(go));
		pid = fork_child();
		CHECK(pid >= 0);
		if (!pid)
			leave_it(from[1], go[0], by_exec);
		close(from[1]);
		/* Without a number it has ended, and said why. */
		CHECK_EQ(read(from[0], &its, sizeof(its)), sizeof(its));
		CHECK_OK(pidfd = (int)syscall(SYS_pidfd_open, pid, 0));
		CHECK_OK(fd = (int)syscall(SYS_pidfd_getfd, pidfd, its, 0));
		/* As long as it is there it keeps what it has. */
		give_time(1500);
		CHECK_EQ(gpus_of(ctl, pid), all);
		well(ATTACKER, the_rest_of_the_user);
		if (by_exec)
			CHECK_EQ(write(go[1], "x", 1), 1);
		else
			end_child(pid);
		if (!WITHIN(10000, !gpus_of(ctl, pid)))
			FAIL("a process that is gone has GPUs %#x", gpus_of(ctl, pid));
		for (int n = 0; n < 2; n++)
			well(ATTACKER, a_process_of_launches);
		all_idle(ctl);
		CHECK_ERR(gpu_register(fd, 0), EPERM);
		CHECK_OK(close(fd));
		if (by_exec)
			end_child(pid);
		CHECK(WITHIN(5000, client_count(ctl) == 1));
	}
	CHECK_OK(close(ctl));
}

/* More blocks than run at once, none of which ends. */
static void fill_the_engine(void)
{
	int fd = huvm_open();
	uint64_t id;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(launch(fd, 0, 2 * RESIDENT, &for_ever, 1, 8, &id));
}

static void fill_it_from_many_files(void)
{
	for (int i = 0; i < 20; i++)
		fill_the_engine();
}

#define TURN_NS 300000000ull

/* What a child has measured. */
static uint64_t *result;

static void share_result(void)
{
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(result != MAP_FAILED);
}

/* How long a launch takes on the device whose every block takes TURN_NS, and that has as many as run at once. */
static void a_full_turn(void)
{
	struct huvm_instr in = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1, .imm0 = TURN_NS };
	int fd = huvm_open();
	struct huvm_wait w;

	CHECK_OK(gpu_register(fd, 0));
	w = run_ok(fd, 0, RESIDENT, &in, 1, 8);
	*result = w.end_ns - w.start_ns;
}

static void an_engine_that_is_full(void)
{
	static void (*const attacks[])(void) = { fill_the_engine, fill_it_from_many_files };
	int ctl = huvm_open();

	share_result();
	all_idle(ctl);
	for (unsigned int i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		uint64_t alone;
		pid_t pid;

		well(VICTIM, a_full_turn);
		alone = *result;
		pid = beside(ATTACKER, attacks[i]);
		/* Again, where the machine stood still meanwhile: what the device does late adds up. */
		for (int n = 0; n == 0 || *result > 4 * alone; n++) {
			CHECK(n < 3);
			well(VICTIM, a_full_turn);
			printf("# a turn takes %llu ms alone, %llu ms beside the attacker\n", (unsigned long long)(alone / 1000000),
			       (unsigned long long)(*result / 1000000));
		}
		end_child(pid);
		gets_idle(ctl, 0);
	}
	/* One that is alone again has all of them: with half it would take twice as long. */
	for (int n = 0; n == 0 || *result >= 2 * TURN_NS - TURN_NS / 4; n++) {
		CHECK(n < 3);
		well(VICTIM, a_full_turn);
	}
}

/* Goes over @len bytes for ever. */
static void stream(uint64_t len)
{
	struct huvm_instr in = over(HUVM_OP_FILL, len, 8);
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	in.dst = (uintptr_t)managed(fd, len);
	ARG(huvm_launch, l, .gpu = 0, .blocks = 8, .iterations = 100000, .elem_bytes = 8, .nr_instr = 1, .instrs = (uintptr_t)&in);
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
}

static uint64_t gpu_bytes(void)
{
	int fd = huvm_open();
	uint64_t bytes = chunk_count(fd, 0) * BLOCK;

	CHECK_OK(close(fd));
	return bytes;
}

static void stream_for_ever(void)
{
	stream(3 * gpu_bytes());
}

static void stream_from_many_files(void)
{
	for (int i = 0; i < 5; i++)
		stream(gpu_bytes() / 4 * 3);
}

/* In a process of its own, which goes with this one. Never computes. */
static void migrate_for_ever(void)
{
	pid_t pid = fork_child();
	uint64_t len = 3 * gpu_bytes();
	char *p;
	int fd;

	CHECK(pid >= 0);
	if (pid)
		return;
	fd = huvm_open();
	CHECK_OK(gpu_register(fd, 0));
	p = managed(fd, len);
	for (uint64_t at = 0;; at = (at + BLOCK) % len) {
		*(volatile uint64_t *)(p + at) = at;
		CHECK_OK(migrate(fd, p + at, BLOCK, 0));
	}
}

static uint64_t own(int fd, int which)
{
	return counter(fd, HUVM_SCOPE_SPACE, 0, which);
}

/* All of the GPU's memory was evicted so many times over since @from. */
static int turned_over(int fd, uint64_t from, uint64_t times)
{
	return of_gpu(fd, 0, HUVM_CNT_EVICTIONS) - from >= times * chunk_count(fd, 0);
}

/* Goes over a quarter of the memory again and again while all of it is evicted six times over, and says what it lost meanwhile. */
static void a_quarter_of_the_memory(void)
{
	int fd = huvm_open();
	uint64_t len = chunk_count(fd, 0) / 4 * BLOCK, from, lost, passes = 0;
	uint64_t *p = managed(fd, len);

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, len, 8, 7, 3);
	/* Once all of it was evicted it is known who is there. */
	from = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
	while (!turned_over(fd, from, 2))
		gpu_check(fd, 0, p, len, 8, 7, 3);
	from = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
	lost = own(fd, HUVM_CNT_EVICTIONS);
	for (; !turned_over(fd, from, 6); passes++)
		gpu_scale(fd, 0, p, len, 8, 1, 1);
	*result = own(fd, HUVM_CNT_EVICTIONS) - lost;
	gpu_check(fd, 0, p, len, 8, 7 + passes, 3);
	cpu_check(p, len, 7 + passes, 3);
	printf("# %llu passes\n", (unsigned long long)passes);
}

/* A victim does its work, to its end, beside an attacker; shares of memory are kept if @fair. */
static void under_attack(int ctl, uint64_t fair, void (*attack)(void), void (*work)(void))
{
	pid_t pid;

	all_idle(ctl);
	knob(ctl, 0, "fair_memory", fair);
	pid = beside(ATTACKER, attack);
	well(VICTIM, work);
	end_child(pid);
}

static void a_quarter_that_stays(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} attacks[] = {
		{ "streams", stream_for_ever },
		{ "streams from five files", stream_from_many_files },
		{ "moves data alone", migrate_for_ever },
	};
	int ctl = huvm_open();
	uint64_t quarter = chunk_count(ctl, 0) / 4;

	share_result();
	for (unsigned int i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		uint64_t lost[2], passed[2];

		for (uint64_t fair = 0; fair < 2; fair++) {
			passed[fair] = of_gpu(ctl, 0, HUVM_CNT_VICTIMS_PASSED_OVER);
			under_attack(ctl, fair, attacks[i].run, a_quarter_of_the_memory);
			passed[fair] = of_gpu(ctl, 0, HUVM_CNT_VICTIMS_PASSED_OVER) - passed[fair];
			lost[fair] = *result;
		}
		printf("# beside one that %s: %llu chunks lost, with fair_memory %llu (%llu passed over)\n", attacks[i].name,
		       (unsigned long long)lost[0], (unsigned long long)lost[1], (unsigned long long)passed[1]);
		CHECK_EQ(passed[0], 0);
		CHECK(passed[1] > 0);
		CHECK(lost[0] >= 2 * quarter);
		/* None, unless the machine stood still for a second between two launches. */
		CHECK(lost[1] <= quarter);
	}
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

/* Fills a quarter of the memory, and does nothing. */
static void an_idle_quarter(void)
{
	int fd = huvm_open();
	uint64_t quarter = chunk_count(fd, 0) / 4, len = quarter * BLOCK;
	uint64_t *p = managed(fd, len);

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, len, 8, 11, 5);
	CHECK(WITHIN(20000, own(fd, HUVM_CNT_EVICTIONS) >= quarter));
	cpu_check(p, len, 11, 5);
}

static void idle_memory_is_anybodys(void)
{
	int ctl = huvm_open();

	under_attack(ctl, 1, stream_for_ever, an_idle_quarter);
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

/* Data that fits once nobody else has any there. */
static void seven_eighths_of_the_memory(void)
{
	int fd = huvm_open();
	uint64_t len = chunk_count(fd, 0) / 8 * 7 * BLOCK, lost;
	uint64_t *p = managed(fd, len);

	CHECK_OK(gpu_register(fd, 0));
	/* Whoever was there has done nothing for more than a second then. */
	usleep(1500000);
	gpu_fill(fd, 0, p, len, 8, 1, 1);
	gpu_check(fd, 0, p, len, 8, 1, 1);
	lost = own(fd, HUVM_CNT_EVICTIONS);
	for (int n = 0; n < 5; n++)
		gpu_check(fd, 0, p, len, 8, 1, 1);
	CHECK_EQ(own(fd, HUVM_CNT_EVICTIONS), lost);
}

static void fill_a_quarter(void)
{
	uint64_t len = gpu_bytes() / 4;
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, managed(fd, len), len, 8, 11, 5);
}

static void one_that_computes_alone_has_all(void)
{
	int ctl = huvm_open();
	uint64_t passed = of_gpu(ctl, 0, HUVM_CNT_VICTIMS_PASSED_OVER);

	under_attack(ctl, 1, fill_a_quarter, seven_eighths_of_the_memory);
	CHECK_EQ(of_gpu(ctl, 0, HUVM_CNT_VICTIMS_PASSED_OVER), passed);
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

/* Data born on the GPU, for all of its memory but a quarter and two more, so that some of it leaves again; and a launch that goes on. */
static void fill_the_rest(void)
{
	uint64_t len = gpu_bytes() / 4 * 3 + 2 * BLOCK, id;
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, managed(fd, len), len, 8, 11, 5);
	CHECK_OK(launch(fd, 0, 1, &for_ever, 1, 8, &id));
}

/* Nobody's chunk can be emptied but those of one who has less than a share: then he gives one up, for his own next data, and for anybody's. */
static void who_fails_stands_before_nobody(void)
{
	int ctl = huvm_open(), fd = huvm_open();
	uint64_t quarter = chunk_count(ctl, 0) / 4, len = quarter * BLOCK, clean, id;
	uint64_t *p = managed(fd, len), *next = managed(fd, BLOCK);
	unsigned int tries = 0;
	pid_t pid;

	all_idle(ctl);
	knob(ctl, 0, "fair_memory", 1);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, len, 3, 7);
	/* The host has a copy of these, so that nothing is needed to empty them. */
	gpu_check(fd, 0, p, len, 8, 3, 7);
	CHECK_OK(launch(fd, 0, 1, &for_ever, 1, 8, &id));
	pid = beside(ATTACKER, fill_the_rest);
	CHECK_EQ(own(fd, HUVM_CNT_EVICTIONS), 0);
	CHECK_EQ(free_chunks(ctl, 0), 0);
	let_fail(ctl, HUVM_FAIL_DMA_MAP, ~0u);
	clean = of_gpu(ctl, 0, HUVM_CNT_EVICTIONS_CLEAN);
	gpu_fill(fd, 0, next, BLOCK, 1, 5, 9);
	CHECK_EQ(of_gpu(ctl, 0, HUVM_CNT_EVICTIONS_CLEAN), clean + 1);
	for (ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1); own(fd, HUVM_CNT_EVICTIONS) < quarter; tries++) {
		CHECK(tries < 2 * chunk_count(ctl, 0));
		if (ioctl(ctl, HUVM_IOC_TEST_EVICT, &e))
			CHECK_EQ(errno, ENOMEM);
	}
	let_fail(ctl, HUVM_FAIL_DMA_MAP, 0);
	cpu_check(p, len, 3, 7);
	cpu_check(next, BLOCK, 5, 9);
	printf("# in %u tries\n", tries);
	end_child(pid);
	CHECK_OK(close(fd));
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

/*
 * In a cycle the youngest make way first, and one that cannot be emptied is among them again. Here that is what came since there are no
 * mappings for DMA; what the host has a copy of, or a place for, goes without one.
 */
static void who_fails_is_not_the_next_one(void)
{
	enum { NEW = 12 };
	int ctl = huvm_open(), fd = huvm_open();
	uint64_t quarter = chunk_count(ctl, 0) / 4, clean = quarter * BLOCK, len = 3 * clean + 12 * BLOCK;
	uint64_t *p = managed(fd, clean), *cycle = managed(fd, len), *next = managed(fd, NEW * BLOCK), before;

	all_idle(ctl);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_order", 3));
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_guard_chunks", 2));
	/* What is new does not end it so soon. */
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "evict_window_percent", 400));
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, clean, 3, 7);
	gpu_check(fd, 0, p, clean, 2, 3, 7);
	for (int n = 0; n < 10; n++)
		gpu_fill(fd, 0, cycle, len, 2, 11, 5);
	before = own(fd, HUVM_CNT_EVICTIONS_RECENT);
	CHECK(before);
	let_fail(ctl, HUVM_FAIL_DMA_MAP, ~0u);
	for (int n = 0; n < NEW; n++)
		gpu_fill(fd, 0, next + n * BLOCK / 8, BLOCK, 1, 5, 9);
	let_fail(ctl, HUVM_FAIL_DMA_MAP, 0);
	printf("# %llu of the youngest went since\n", (unsigned long long)(own(fd, HUVM_CNT_EVICTIONS_RECENT) - before));
	for (int n = 0; n < NEW; n++)
		cpu_check(next + n * BLOCK / 8, BLOCK, 5, 9);
	cpu_check(p, clean, 3, 7);
	cpu_check(cycle, len, 11, 5);
	CHECK_OK(close(fd));
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

static pthread_barrier_t all_at_once;

struct mover {
	int fd;
	uint64_t *p;
};

static void *moves(void *arg)
{
	const struct mover *m = arg;

	pthread_barrier_wait(&all_at_once);
	CHECK_OK(migrate(m->fd, m->p, BLOCK, 0));
	return NULL;
}

/* A block that many threads call at the same time costs others one chunk, not one for each. */
static void one_block_from_many_threads(void)
{
	enum { THREADS = 16, TURNS = 8 };
	int ctl = huvm_open(), fd = huvm_open();
	struct mover m = { .fd = huvm_open() };
	uint64_t len = chunk_count(ctl, 0) * BLOCK, before, most = 0;
	uint64_t *p = managed(fd, len);
	pthread_t t[THREADS];

	all_idle(ctl);
	m.p = managed(m.fd, BLOCK);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(gpu_register(m.fd, 0));
	CHECK_EQ(pthread_barrier_init(&all_at_once, NULL, THREADS), 0);
	for (int turn = 0; turn < TURNS; turn++) {
		gpu_fill(fd, 0, p, len, 8, 3, 7);
		cpu_fill(m.p, BLOCK, turn, 5);
		CHECK_EQ(block_info(m.fd, m.p).gpu_pages[0], 0);
		gpu_fill(fd, 0, p, len, 8, 3, 7);
		CHECK_EQ(free_chunks(ctl, 0), 0);
		before = of_gpu(ctl, 0, HUVM_CNT_EVICTIONS);
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_create(&t[i], NULL, moves, &m), 0);
		for (int i = 0; i < THREADS; i++)
			CHECK_EQ(pthread_join(t[i], NULL), 0);
		before = of_gpu(ctl, 0, HUVM_CNT_EVICTIONS) - before;
		most = before > most ? before : most;
		CHECK_EQ(block_info(m.fd, m.p).gpu_pages[0], BLOCK / PAGE);
	}
	printf("# at most %llu chunks emptied for one block\n", (unsigned long long)most);
	CHECK_EQ(most, 1);
	cpu_check(m.p, BLOCK, TURNS - 1, 5);
	cpu_check(p, len, 3, 7);
	CHECK_OK(close(m.fd));
	CHECK_OK(close(fd));
	all_idle(ctl);
	CHECK_OK(close(ctl));
}

/* More faults with each replay than a batch has. */
static void fault_for_ever(void)
{
	const uint64_t len = 3 * gpu_bytes();
	struct huvm_instr in = over(HUVM_OP_FILL, len, RESIDENT);
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	in.dst = (uintptr_t)managed(fd, len);
	ARG(huvm_launch, l, .gpu = 0, .blocks = RESIDENT, .iterations = 100000, .elem_bytes = 8, .nr_instr = 1, .instrs = (uintptr_t)&in);
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
}

/*
 * What comes behind a full batch is dropped, and faults again with the replay: behind the same ones as before, if these have something
 * new to fault on by then. Who came later is served all the same.
 */
static void behind_faults_without_end(void)
{
	int ctl = huvm_open();
	pid_t pid;

	all_idle(ctl);
	CHECK_OK(set_preset_of(ctl, HUVM_SCOPE_GPU, 0, "demand"));
	knob(ctl, 0, "fault_batch_max", 8);
	pid = beside(ATTACKER, fault_for_ever);
	CHECK(WITHIN(5000, of_gpu(ctl, 0, HUVM_CNT_FAULTS) > 1000));
	well(VICTIM, all_right);
	end_child(pid);
	gets_idle(ctl, 0);
	CHECK_OK(set_preset_of(ctl, HUVM_SCOPE_GPU, 0, "demand"));
	CHECK_OK(close(ctl));
}

static const struct ktap_test tests[] = {
	{ "launches_are_left_for_others", launches_are_left_for_others, 60 },
	{ "files_are_left_for_others", files_are_left_for_others, 60 },
	{ "a_bad_program_takes_nothing", a_bad_program_takes_nothing, 60 },
	{ "left_to_another", left_to_another, 120 },
	{ "an_engine_that_is_full", an_engine_that_is_full, 120 },
	{ "a_quarter_that_stays", a_quarter_that_stays, 240 },
	{ "idle_memory_is_anybodys", idle_memory_is_anybodys, 60 },
	{ "one_that_computes_alone_has_all", one_that_computes_alone_has_all, 60 },
	{ "who_fails_stands_before_nobody", who_fails_stands_before_nobody, 60 },
	{ "who_fails_is_not_the_next_one", who_fails_is_not_the_next_one, 60 },
	{ "behind_faults_without_end", behind_faults_without_end, 60 },
	{ "one_block_from_many_threads", one_block_from_many_threads, 60 },
};
KTAP_MAIN(tests)
