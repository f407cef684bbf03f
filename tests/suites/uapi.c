// SPDX-License-Identifier: GPL-2.0
/* Every call: good, bad size, bad flag, bad pointer, wrong state. */
#define _GNU_SOURCE
#include "huvm_lib.h"
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>

struct call {
	const char *name;
	unsigned long cmd;
	size_t size;
	int any;	/* [any]: other processes may call it */
};

#define CALL(name, type, any) { #name, HUVM_IOC_##name, sizeof(struct type), any }
static const struct call calls[] = {
	CALL(VERSION, huvm_version, 1), CALL(GPU_INFO, huvm_gpu_info, 1), CALL(LINK_INFO, huvm_link_info, 1),
	CALL(MEM_INFO, huvm_mem_info, 1), CALL(LEND_INFO, huvm_lend_info, 1), CALL(GPU_HEALTH, huvm_gpu_health, 1),
	CALL(GPU_REGISTER, huvm_gpu_register, 0), CALL(GPU_UNREGISTER, huvm_gpu_register, 0), CALL(MIGRATE, huvm_migrate, 0), CALL(ADVISE, huvm_advise, 0),
	CALL(LAUNCH, huvm_launch, 0), CALL(WAIT, huvm_wait, 0), CALL(ABORT, huvm_wait, 0), CALL(KNOB, huvm_knob, 1),
	CALL(POLICY_GET, huvm_policy, 1), CALL(POLICY_SET, huvm_policy, 1), CALL(PRESET_GET, huvm_preset, 1),
	CALL(PRESET_SET, huvm_preset, 1), CALL(COUNTERS, huvm_counters, 1), CALL(LATENCY, huvm_latency, 1), CALL(EVENTS, huvm_events, 1),
	CALL(CLIENT_INFO, huvm_client_info, 1), CALL(RANGE_INFO, huvm_range_info, 1),
	CALL(TEST_REG, huvm_test_reg, 1), CALL(TEST_SELFTEST, huvm_selftest_arg, 1),
	CALL(TEST_EVICT, huvm_test_evict, 1), CALL(TEST_LIMITS, huvm_test_limits, 1),
	CALL(TEST_FAIL, huvm_test_fail, 1),
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

struct any {
	uint32_t size, flags;
	char rest[8192];
};

static void bad_sizes(void)
{
	static struct any a;
	int fd = huvm_open();

	for (unsigned int i = 0; i < NCALLS; i++) {
		const struct call *c = &calls[i];

		memset(&a, 0, sizeof(a));
		a.size = 0;
		CHECK_ERR(ioctl(fd, c->cmd, &a), EINVAL);
		a.size = (uint32_t)c->size - 1;
		CHECK_ERR(ioctl(fd, c->cmd, &a), EINVAL);
		/* Larger, with something in the part that this driver does not know. */
		a.size = (uint32_t)c->size + 16;
		((char *)&a)[c->size + 9] = 1;
		CHECK_ERR(ioctl(fd, c->cmd, &a), E2BIG);
		a.size = 0x7fffffff;
		errno = 0;
		CHECK(ioctl(fd, c->cmd, &a) < 0);
		CHECK(errno == E2BIG || errno == EFAULT);
	}
}

static void larger_but_zero_is_fine(void)
{
	static struct any a;
	int fd = huvm_open();

	a.size = sizeof(struct huvm_version) + 64;
	CHECK_OK(ioctl(fd, HUVM_IOC_VERSION, &a));
	CHECK_EQ(((struct huvm_version *)&a)->abi_major, HUVM_ABI_MAJOR);
}

/* @cmd as a program has it that was built with a struct of @size bytes. */
static unsigned long sized(unsigned long cmd, size_t size)
{
	return _IOC(_IOC_READ | _IOC_WRITE, _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

/*
 * Each call from a program of a later version, which has 8 bytes more: the same as from one of this version if they are zero. Nothing
 * beyond this version is written.
 */
static void later_versions(void)
{
	static struct any a, b;
	int fd = huvm_open();

	for (unsigned int i = 0; i < NCALLS; i++) {
		const struct call *c = &calls[i];
		size_t size = c->size + 8;
		int r, e;

		memset(&a, 0, sizeof(a));
		a.size = (uint32_t)c->size;
		/* What the calls of this suite do with zeroes is nothing, or fails. */
		errno = 0;
		r = ioctl(fd, c->cmd, &a);
		e = errno;
		CHECK(e != ENOTTY);
		memset(&b, 0, sizeof(b));
		b.size = (uint32_t)size;
		if (c->cmd == HUVM_IOC_GPU_REGISTER)
			CHECK_OK(gpu_unregister(fd, 0));
		if (c->cmd == HUVM_IOC_GPU_UNREGISTER)
			CHECK_OK(gpu_register(fd, 0));
		errno = 0;
		CHECK_EQ(ioctl(fd, sized(c->cmd, size), &b), r);
		CHECK_EQ(errno, e);
		if (!r)
			CHECK_EQ(b.size, size);
		for (size_t n = c->size; n < sizeof(b); n++)
			CHECK_EQ(((unsigned char *)&b)[n], 0);
		memset(&b, 0, sizeof(b));
		b.size = (uint32_t)size;
		((char *)&b)[size - 1] = 1;
		CHECK_ERR(ioctl(fd, sized(c->cmd, size), &b), E2BIG);
	}
}

static void bad_flags(void)
{
	static struct any a;
	int fd = huvm_open();

	for (unsigned int i = 0; i < NCALLS; i++) {
		memset(&a, 0, sizeof(a));
		a.size = (uint32_t)calls[i].size;
		a.flags = 1u << 31;
		CHECK_ERR(ioctl(fd, calls[i].cmd, &a), EINVAL);
	}
}

static void bad_pointers(void)
{
	int fd = huvm_open();
	char *hole = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(hole + PAGE, PAGE);
	for (unsigned int i = 0; i < NCALLS; i++) {
		uint32_t *tail = (uint32_t *)(hole + PAGE - 8);

		CHECK_ERR(ioctl(fd, calls[i].cmd, NULL), EFAULT);
		CHECK_ERR(ioctl(fd, calls[i].cmd, (void *)0xffff888000000000ul), EFAULT);
		/* The head can be read, the rest cannot. */
		tail[0] = (uint32_t)calls[i].size;
		tail[1] = 0;
		CHECK_ERR(ioctl(fd, calls[i].cmd, tail), EFAULT);
	}
}

static void unknown_calls(void)
{
	int fd = huvm_open();
	struct any a = { .size = 64 };

	CHECK_ERR(ioctl(fd, _IOWR(HUVM_IOC_TYPE, 0x7f, struct huvm_version), &a), ENOTTY);
	CHECK_ERR(ioctl(fd, _IOWR(0x11, 0, struct huvm_version), &a), ENOTTY);
	/* Right number, another size in the command: what is in the struct counts, which is too small for this call. */
	CHECK_ERR(ioctl(fd, _IOWR(HUVM_IOC_TYPE, 0x00, struct huvm_wait), &a), EINVAL);
	a.size = sizeof(struct huvm_version);
	CHECK_OK(ioctl(fd, _IO(HUVM_IOC_TYPE, 0x00), &a));
}

static void version(void)
{
	int fd = huvm_open();
	ARG(huvm_version, v);

	CHECK_OK(ioctl(fd, HUVM_IOC_VERSION, &v));
	CHECK_EQ(v.abi_major, HUVM_ABI_MAJOR);
	CHECK_EQ(v.page_bytes, PAGE);
	CHECK_EQ(v.chunk_bytes, BLOCK);
	CHECK_EQ(v.nr_counters, HUVM_CNT_COUNT);
	CHECK(v.nr_knobs > 10);
	CHECK(v.gpu_count >= 1);
	CHECK(v.driver[0]);
}

static void wrong_gpu(void)
{
	int fd = huvm_open();
	ARG(huvm_gpu_info, g, .gpu = 15);
	ARG(huvm_mem_info, m, .gpu = 99);
	ARG(huvm_lend_info, lend, .gpu = 99);
	ARG(huvm_gpu_health, health, .gpu = 99);
	ARG(huvm_link_info, l, .gpu = 0, .index = 99);
	ARG(huvm_counters, c, .scope = HUVM_SCOPE_GPU, .gpu = 15);

	CHECK_ERR(ioctl(fd, HUVM_IOC_GPU_INFO, &g), ENODEV);
	CHECK_ERR(ioctl(fd, HUVM_IOC_MEM_INFO, &m), ENODEV);
	CHECK_ERR(ioctl(fd, HUVM_IOC_LEND_INFO, &lend), ENODEV);
	CHECK_ERR(ioctl(fd, HUVM_IOC_GPU_HEALTH, &health), ENODEV);
	CHECK_ERR(ioctl(fd, HUVM_IOC_LINK_INFO, &l), ENOENT);
	CHECK_ERR(ioctl(fd, HUVM_IOC_COUNTERS, &c), ENODEV);
	CHECK_ERR(gpu_register(fd, 15), ENODEV);
	CHECK_ERR(gpu_register(fd, 0xffffffff), ENODEV);
	CHECK_ERR(gpu_unregister(fd, 0), ENOENT);
}

static void other_process(void)
{
	int fd = huvm_open(), status;

	if (!fork()) {
		static struct any a;
		char one[64];

		for (unsigned int i = 0; i < NCALLS; i++) {
			if (calls[i].any)
				continue;
			memset(&a, 0, sizeof(a));
			a.size = (uint32_t)calls[i].size;
			if (calls[i].cmd == HUVM_IOC_LAUNCH)
				((struct huvm_launch *)&a)->nr_instr = 1;
			CHECK_ERR(ioctl(fd, calls[i].cmd, &a), EPERM);
		}
		CHECK_ERR(read(fd, one, sizeof(one)), EINVAL);
		_exit(0);
	}
	wait(&status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void knobs_and_policy(void)
{
	int fd = huvm_open();
	uint32_t n;

	for (n = 0;; n++) {
		ARG(huvm_knob, k, .index = n);
		ARG(huvm_policy, p, .scope = HUVM_SCOPE_SPACE, .knob = n);

		if (ioctl(fd, HUVM_IOC_KNOB, &k) < 0) {
			CHECK_EQ(errno, ENOENT);
			break;
		}
		CHECK(k.name[0] && k.doc[0]);
		CHECK(k.min <= k.def && k.def <= k.max);
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &p));
		CHECK_EQ(p.origin, HUVM_SCOPE_GLOBAL);
		CHECK(k.scopes & 1 << HUVM_SCOPE_GLOBAL && k.scopes & 1 << HUVM_SCOPE_GPU);
		p.value = k.max;
		if (!(k.scopes & 1 << HUVM_SCOPE_SPACE)) {
			/* Of a GPU as a whole. */
			CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_SET, &p), EOPNOTSUPP);
			CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &p));
			CHECK_EQ(p.origin, HUVM_SCOPE_GLOBAL);
			continue;
		}
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_SET, &p));
		p.value = 0;
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &p));
		CHECK_EQ(p.value, k.max);
		CHECK_EQ(p.origin, HUVM_SCOPE_SPACE);
		if (k.max != ~0ull) {
			p.value = k.max + 1;
			CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_SET, &p), ERANGE);
		}
		p.flags = HUVM_POLICY_RESET;
		CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_SET, &p), EINVAL);
		p.value = 0;
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_SET, &p));
		p.flags = 0;
		CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &p));
		CHECK_EQ(p.origin, HUVM_SCOPE_GLOBAL);
	}
	{
		ARG(huvm_policy, p, .scope = HUVM_SCOPE_SPACE, .knob = n);

		CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_GET, &p), ENOENT);
		p.knob = 0;
		p.scope = 9;
		CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_GET, &p), EINVAL);
		p.scope = HUVM_SCOPE_GPU;
		p.gpu = 15;
		CHECK_ERR(ioctl(fd, HUVM_IOC_POLICY_GET, &p), ENODEV);
	}
}

static void presets(void)
{
	static const char *const wanted[] = { "stock-460", "stock-595", "random", "zero-copy", "preef-host", "memharvester", "huvm", "demand" };
	const int count = sizeof(wanted) / sizeof(wanted[0]);
	int fd = huvm_open(), found = 0;

	for (uint32_t n = 0;; n++) {
		ARG(huvm_preset, p, .flags = HUVM_PRESET_LIST, .index = n);

		if (ioctl(fd, HUVM_IOC_PRESET_GET, &p) < 0) {
			CHECK_EQ(errno, ENOENT);
			break;
		}
		for (int i = 0; i < count; i++)
			found |= !strcmp(p.name, wanted[i]) << i;
	}
	CHECK_EQ(found, (1 << count) - 1);
	for (int i = 0; i < count; i++) {
		ARG(huvm_preset, p, .scope = HUVM_SCOPE_SPACE);

		CHECK_OK(set_preset(fd, HUVM_SCOPE_SPACE, wanted[i]));
		CHECK_OK(ioctl(fd, HUVM_IOC_PRESET_GET, &p));
		CHECK(!strcmp(p.name, wanted[i]));
	}
	CHECK_ERR(set_preset(fd, HUVM_SCOPE_SPACE, "no-such"), ENOENT);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_threshold_percent", 3));
	{
		ARG(huvm_preset, p, .scope = HUVM_SCOPE_SPACE);

		CHECK_OK(ioctl(fd, HUVM_IOC_PRESET_GET, &p));
		CHECK(!strcmp(p.name, "custom"));
	}
}

/* Anybody may open the device: what he may do is the calls' affair. */
static void device_node(void)
{
	struct stat st;

	CHECK_OK(stat(HUVM_DEVICE_PATH, &st));
	CHECK(S_ISCHR(st.st_mode));
	CHECK_EQ(st.st_mode & 07777, 0666);
	CHECK_EQ(st.st_uid, 0);
	CHECK_EQ(st.st_gid, 0);
}

/* The calls of huvm_test.h, each with an argument that would be good, fail so. */
static void test_calls_fail(int fd, int error)
{
	ARG(huvm_test_reg, r, .gpu = 0, .offset = INJ_LATENCY);
	ARG(huvm_selftest_arg, s, .gpu = 0, .test = HUVM_SELFTEST_IDENT);
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);
	ARG(huvm_test_limits, l, .gpu = 0, .chunks = 0);
	ARG(huvm_test_fail, f, .what = HUVM_FAIL_HOST_2M, .times = 0);
	const struct { unsigned long cmd; void *arg; } of[] = {
		{ HUVM_IOC_TEST_REG, &r }, { HUVM_IOC_TEST_SELFTEST, &s }, { HUVM_IOC_TEST_EVICT, &e }, { HUVM_IOC_TEST_LIMITS, &l },
		{ HUVM_IOC_TEST_FAIL, &f },
	};
	unsigned int known = 0;

	for (unsigned int i = 0; i < NCALLS; i++)
		known += !strncmp(calls[i].name, "TEST_", 5);
	CHECK_EQ(known, sizeof(of) / sizeof(of[0]));
	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		if (error)
			CHECK_ERR(ioctl(fd, of[i].cmd, of[i].arg), error);
		else
			CHECK_OK(ioctl(fd, of[i].cmd, of[i].arg));
	}
}

/* Is run by reload.sh, for root, on a module that was loaded without test=1. */
static int without_test(void)
{
	int fd = huvm_open();
	ARG(huvm_version, v);

	CHECK_OK(ioctl(fd, HUVM_IOC_VERSION, &v));
	CHECK(!(v.caps & HUVM_CAP_TEST));
	test_calls_fail(fd, ENOTTY);
	return 0;
}

/* The space that this process opened. */
static struct huvm_client_info client_of(int fd, pid_t pid)
{
	ARG(huvm_client_info, c);

	for (;; c.client++) {
		CHECK_OK(ioctl(fd, HUVM_IOC_CLIENT_INFO, &c));
		if (c.pid == (uint32_t)pid)
			return c;
	}
}

/* What a process of another user sees of that one: that it is there. */
static void sees_nothing_of(pid_t pid)
{
	static const struct huvm_client_info nothing;
	const size_t figures = offsetof(struct huvm_client_info, managed_bytes);
	int fd = huvm_open();
	struct huvm_client_info c = client_of(fd, pid);
	struct huvm_block_info b[4];
	uint64_t v[HUVM_CNT_COUNT];
	char line[32];
	ARG(huvm_range_info, r, .client = c.client, .nr = 4, .blocks = (uintptr_t)b);
	ARG(huvm_counters, of, .scope = HUVM_SCOPE_PROCESS, .gpu = (uint32_t)pid, .nr = HUVM_CNT_COUNT, .values = (uintptr_t)v);

	CHECK_EQ(c.gpu_mask, 0);
	CHECK(!memcmp((char *)&c + figures, (const char *)&nothing + figures, sizeof(c) - figures));
	CHECK_ERR(ioctl(fd, HUVM_IOC_RANGE_INFO, &r), EPERM);
	CHECK_ERR(ioctl(fd, HUVM_IOC_COUNTERS, &of), EPERM);
	/* Of itself it sees all. */
	of.gpu = (uint32_t)getpid();
	CHECK_OK(ioctl(fd, HUVM_IOC_COUNTERS, &of));
	r.client = client_of(fd, getpid()).client;
	CHECK_OK(ioctl(fd, HUVM_IOC_RANGE_INFO, &r));
	/* What it does not see is not shown as nothing. */
	CHECK_EQ(says("client list", "figures of other processes need root"), 0);
	snprintf(line, sizeof(line), "%d,-", (int)pid);
	CHECK_EQ(says("client list --csv --no-header --fields pid,managed_bytes 2>/dev/null | sed 's/,$/,-/'", line), 0);
}

static void as_user(uid_t uid, void (*what)(pid_t), pid_t pid)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_OK(setuid(uid));
		what(pid);
		fflush(stdout);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void others(void)
{
	int fd = huvm_open(), ready[2], end[2], status;
	struct huvm_block_info b[4];
	struct huvm_client_info c;
	pid_t user;
	char byte;

	/* Root's, to somebody; somebody's, to somebody else; and somebody's to root. */
	*(volatile char *)managed(fd, BLOCK) = 1;
	CHECK_OK(gpu_register(fd, 0));
	as_user(1000, sees_nothing_of, getpid());
	CHECK_OK(pipe(ready));
	CHECK_OK(pipe(end));
	user = fork();
	CHECK(user >= 0);
	if (!user) {
		int own;

		close(end[1]);
		CHECK_OK(setuid(1000));
		own = huvm_open();
		CHECK_OK(gpu_register(own, 0));
		*(volatile char *)managed(own, BLOCK) = 1;
		CHECK_EQ(write(ready[1], "", 1), 1);
		CHECK_EQ(read(end[0], &byte, 1), 0);
		_exit(0);
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	as_user(1001, sees_nothing_of, user);
	c = client_of(fd, user);
	CHECK_EQ(c.managed_bytes, BLOCK);
	CHECK_EQ(c.gpu_mask, 1);
	{
		ARG(huvm_range_info, r, .client = c.client, .nr = 4, .blocks = (uintptr_t)b);

		CHECK_OK(ioctl(fd, HUVM_IOC_RANGE_INFO, &r));
		CHECK_EQ(r.nr, 1);
	}
	CHECK_EQ(counter(fd, HUVM_SCOPE_PROCESS, (uint32_t)user, HUVM_CNT_LAUNCHES), 0);
	close(end[1]);
	CHECK_EQ(waitpid(user, &status, 0), user);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void privileges(void)
{
	int fd = huvm_open(), status;

	if (!fork()) {
		int own;
		ARG(huvm_events, e, .flags = HUVM_EVENTS_ALL, .mask = 2);

		CHECK_OK(setuid(1000));
		own = huvm_open();
		CHECK_ERR(set_preset(own, HUVM_SCOPE_GLOBAL, "random"), EPERM);
		CHECK_ERR(set_knob(own, HUVM_SCOPE_GPU, "fault_batch_max", 3), EPERM);
		CHECK_OK(set_knob(own, HUVM_SCOPE_SPACE, "prefetch_threshold_percent", 3));
		CHECK_ERR(set_knob(own, HUVM_SCOPE_SPACE, "harvest_lend", 1), EOPNOTSUPP);
		/* Of its own process; of no other, and of one that is not there. */
		CHECK_OK(set_knob_of(own, HUVM_SCOPE_PROCESS, getpid(), "prefetch_threshold_percent", 4));
		CHECK_ERR(set_knob_of(own, HUVM_SCOPE_PROCESS, getppid(), "prefetch_threshold_percent", 4), EPERM);
		CHECK_ERR(set_knob_of(own, HUVM_SCOPE_PROCESS, 1, "prefetch_threshold_percent", 4), ESRCH);
		/* What its number had open before it was another program is not in its way. */
		if (!fork()) {
			CHECK(open("/dev/huvm", O_RDWR) >= 0);
			execl("/bin/sh", "sh", "-c", "exec uvmctl policy set --pid $$ prefetch_threshold_percent=4 >/dev/null", NULL);
			_exit(99);
		}
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		CHECK_ERR(ioctl(own, HUVM_IOC_EVENTS, &e), EPERM);
		/* Also through a file that root opened. */
		test_calls_fail(own, EPERM);
		test_calls_fail(fd, EPERM);
		_exit(0);
	}
	wait(&status);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* For root they are as they should be, so it was not that. */
	test_calls_fail(fd, 0);
	close(fd);
}

static void counters(void)
{
	int fd = huvm_open();
	uint64_t v[4] = { ~0ull, ~0ull, ~0ull, ~0ull };
	ARG(huvm_counters, c, .scope = HUVM_SCOPE_GLOBAL, .nr = 2, .values = (uintptr_t)v);

	CHECK_OK(ioctl(fd, HUVM_IOC_COUNTERS, &c));
	CHECK_EQ(c.nr, 2);
	CHECK_EQ(v[2], ~0ull);
	c.values = 8;
	CHECK_ERR(ioctl(fd, HUVM_IOC_COUNTERS, &c), EFAULT);
	c.scope = 0;
	CHECK_ERR(ioctl(fd, HUVM_IOC_COUNTERS, &c), EINVAL);
}

static void event_stream(void)
{
	int fd = huvm_open();
	struct huvm_event e[64];
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	uint64_t *p = managed(fd, BLOCK), last = 0;
	ARG(huvm_events, on, .mask = 1u << HUVM_EVENT_CPU_FAULT | 1u << HUVM_EVENT_MIGRATE | 1u << HUVM_EVENT_FAULT,
	    .records = 16);
	int seen[16] = { 0 };
	long n;

	CHECK_ERR(read(fd, e, sizeof(e)), EINVAL);
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	CHECK_EQ(poll(&pf, 1, 0), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK_ERR(read(fd, e, sizeof(e)), EAGAIN);
	CHECK_ERR(read(fd, e, sizeof(e[0]) - 1), EINVAL);
	p[0] = 1;
	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, BLOCK, 4, 0, 1);
	CHECK_EQ(poll(&pf, 1, 1000), 1);
	n = read(fd, e, sizeof(e));
	CHECK(n > 0 && n % (long)sizeof(e[0]) == 0);
	for (long i = 0; i < n / (long)sizeof(e[0]); i++) {
		CHECK(e[i].seq > last);
		last = e[i].seq;
		CHECK(e[i].type < 16);
		seen[e[i].type]++;
		CHECK_EQ(e[i].pid, getpid());
		CHECK(e[i].va >= (uintptr_t)p && e[i].va < (uintptr_t)p + BLOCK);
		CHECK(e[i].time_ns);
	}
	CHECK(seen[HUVM_EVENT_CPU_FAULT] && seen[HUVM_EVENT_MIGRATE] && seen[HUVM_EVENT_FAULT]);
	/* More events than room: the gap and the count say how many were lost. */
	CHECK_OK(migrate(fd, p, BLOCK, HUVM_PLACE_HOST));
	for (int i = 0; i < 20; i++)
		CHECK_OK(migrate(fd, p, BLOCK, i & 1 ? HUVM_PLACE_HOST : 0));
	n = read(fd, e, sizeof(e)) / (long)sizeof(e[0]);
	CHECK_EQ(n, 16);
	CHECK_OK(migrate(fd, p, BLOCK, 0));
	CHECK_OK(migrate(fd, p, BLOCK, HUVM_PLACE_HOST));
	CHECK(read(fd, e, sizeof(e)) > 0);
	CHECK(e[0].dropped > 0);
	on.mask = 0;
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	CHECK_ERR(read(fd, e, sizeof(e)), EINVAL);
	on.mask = 1;
	CHECK_ERR(ioctl(fd, HUVM_IOC_EVENTS, &on), EINVAL);
	on.mask = 2;
	on.records = 1u << 20;
	CHECK_ERR(ioctl(fd, HUVM_IOC_EVENTS, &on), EINVAL);
}

/* Events that a full ring drops count where it is full, not where they come from. */
static void drops_of_the_listener(void)
{
	int fd = huvm_open(), all = huvm_open();
	char *p = managed(fd, BLOCK);
	ARG(huvm_events, on, .flags = HUVM_EVENTS_ALL, .mask = 1u << HUVM_EVENT_MIGRATE, .records = 16);
	ARG(huvm_events, own, .mask = 1u << HUVM_EVENT_MIGRATE, .records = 1024);
	uint64_t sum = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_EVENTS_DROPPED), dropped;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &own));
	CHECK_OK(ioctl(all, HUVM_IOC_EVENTS, &on));
	p[0] = 1;
	for (int n = 0; n < 30; n++)
		CHECK_OK(migrate(fd, p, BLOCK, n & 1 ? HUVM_PLACE_HOST : 0));
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVENTS_DROPPED), 0);
	dropped = counter(all, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVENTS_DROPPED);
	CHECK(dropped >= 30 - 16);
	CHECK_EQ(counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_EVENTS_DROPPED), sum + dropped);
	/* Its own events fill it as well. */
	own.records = 16;
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &own));
	for (int n = 0; n < 30; n++)
		CHECK_OK(migrate(fd, p, BLOCK, n & 1 ? HUVM_PLACE_HOST : 0));
	CHECK(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_EVENTS_DROPPED) >= 30 - 16);
}

/* Two pages, the second of which can be read but not written. */
static char *half_writable(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	memset(p, 0, 2 * PAGE);
	CHECK_OK(mprotect(p + PAGE, PAGE, PROT_READ));
	return p;
}

static volatile int woken;

static void *sleeps_in_read(void *arg)
{
	struct huvm_event e;

	woken = read(*(int *)arg, &e, sizeof(e)) == sizeof(e) ? 1 : 2;
	return NULL;
}

static void *sleeps_in_poll(void *arg)
{
	struct pollfd pf = { .fd = *(int *)arg, .events = POLLIN };

	woken = poll(&pf, 1, -1) == 1 ? 1 : 2;
	return NULL;
}

static void sleepers_are_woken(void)
{
	/* Who sleeps when the event comes must hear of it: nothing else wakes him. Of a GPU's faults he hears by the batch. */
	static void *(*const sleepers[])(void *) = { sleeps_in_read, sleeps_in_poll };
	static const uint32_t kinds[] = { HUVM_EVENT_CPU_FAULT, HUVM_EVENT_FAULT };
	ARG(huvm_events, on, .records = 1024);
	struct huvm_event e;
	pthread_t t;

	for (int n = 0; n < 4; n++) {
		int fd = huvm_open(), i = n & 1;
		volatile uint64_t *p = managed(fd, BLOCK);

		CHECK_OK(gpu_register(fd, 0));
		on.mask = 1u << kinds[n / 2];
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
		woken = 0;
		CHECK_EQ(pthread_create(&t, NULL, sleepers[i], &fd), 0);
		give_time(200);
		CHECK_EQ(woken, 0);
		if (n < 2)
			p[0] = 1;
		else
			gpu_fill(fd, 0, (void *)(uintptr_t)p, BLOCK, 1, 7, 1);
		CHECK(WITHIN(3000, woken));
		CHECK_EQ(woken, 1);
		pthread_join(t, NULL);
		if (i)
			CHECK_EQ(read(fd, &e, sizeof(e)), sizeof(e));
		close(fd);
	}
}

static void *reads_the_end(void *arg)
{
	struct huvm_event e;

	woken = read(*(int *)arg, &e, sizeof(e)) == 0 ? 1 : 2;
	return NULL;
}

static void *polls_the_end(void *arg)
{
	struct pollfd pf = { .fd = *(int *)arg, .events = POLLIN };

	woken = poll(&pf, 1, -1) == 1 && pf.revents == (POLLIN | POLLHUP) ? 1 : 2;
	return NULL;
}

static void on_signal(int sig)
{
	(void)sig;
}

/* Who sleeps in read, and is stopped, goes on when he may; a signal ends it if its handler is to. */
static void sleepers_are_stopped(void)
{
	ARG(huvm_events, on, .mask = 1u << HUVM_EVENT_CPU_FAULT, .records = 16);
	struct sigaction ends = { .sa_handler = on_signal }, goes_on = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct huvm_event e;
	int fd = huvm_open(), status = 0;
	pid_t child;

	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	CHECK_OK(sigaction(SIGUSR1, &ends, NULL));
	CHECK_OK(sigaction(SIGUSR2, &goes_on, NULL));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		_exit(read(fd, &e, sizeof(e)) < 0 && errno == EINTR ? 0 : 1);
	give_time(200);
	CHECK_OK(kill(child, SIGSTOP));
	CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	CHECK_OK(kill(child, SIGCONT));
	give_time(200);
	CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
	CHECK_OK(kill(child, SIGUSR2));
	give_time(200);
	CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
	CHECK_OK(kill(child, SIGUSR1));
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK_OK(close(fd));
}

/* Who sleeps when another thread turns the stream off hears of it: nothing else will wake him. */
static void sleepers_hear_the_end(void)
{
	static void *(*const sleepers[])(void *) = { reads_the_end, polls_the_end };
	ARG(huvm_events, e, .records = 16);
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		int fd = huvm_open();
		struct pollfd pf = { .fd = fd, .events = POLLIN };

		/* It is off, and has not been on. */
		CHECK_EQ(poll(&pf, 1, 0), 0);
		e.mask = 0;
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
		CHECK_EQ(poll(&pf, 1, 0), 0);
		e.mask = 1u << HUVM_EVENT_CPU_FAULT;
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
		woken = 0;
		CHECK_EQ(pthread_create(&t, NULL, sleepers[i], &fd), 0);
		give_time(200);
		CHECK_EQ(woken, 0);
		e.mask = 0;
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
		CHECK(WITHIN(3000, woken));
		CHECK_EQ(woken, 1);
		pthread_join(t, NULL);
		/* It stays so, however often it is turned off. */
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
		CHECK_EQ(poll(&pf, 1, 0), 1);
		CHECK_EQ(pf.revents, POLLIN | POLLHUP);
		e.mask = 1u << HUVM_EVENT_CPU_FAULT;
		CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &e));
		CHECK_EQ(poll(&pf, 1, 0), 0);
		close(fd);
	}
}

/* A result that cannot be written stays: found by WAIT taking the launch before it copies. */
static void result_not_lost(void)
{
	int fd = huvm_open();
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 4);
	char *page = half_writable();
	struct huvm_wait *w = (struct huvm_wait *)(page + PAGE);
	ARG(huvm_wait, good, .timeout_ns = 60ull * 1000000000ull);
	uint64_t id;

	CHECK_OK(gpu_register(fd, 0));
	i.dst = (uintptr_t)managed(fd, BLOCK);
	for (int ending = 0; ending < 2; ending++) {
		unsigned long cmd = ending ? HUVM_IOC_ABORT : HUVM_IOC_WAIT;

		CHECK_OK(launch(fd, 0, 4, &i, 1, 8, &id));
		good.launch = id;
		CHECK_OK(mprotect(page + PAGE, PAGE, PROT_READ | PROT_WRITE));
		*w = good;
		CHECK_OK(mprotect(page + PAGE, PAGE, PROT_READ));
		for (int n = 0; n < 3; n++)
			CHECK_ERR(ioctl(fd, cmd, w), EFAULT);
		CHECK_OK(ioctl(fd, cmd, &good));
		CHECK(good.status == HUVM_LAUNCH_DONE || (ending && good.status == HUVM_LAUNCH_ABORTED));
		CHECK_ERR(ioctl(fd, cmd, &good), ENOENT);
	}
}

/* The same of events; a read that can write some of its records returns those. */
static void events_not_lost(void)
{
	int fd = huvm_open();
	char *page = half_writable();
	struct huvm_event *e = (struct huvm_event *)(page + PAGE) - 2, all[16];
	char *p = managed(fd, BLOCK);
	ARG(huvm_events, on, .mask = 1u << HUVM_EVENT_MIGRATE, .records = 16);

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	p[0] = 1;
	for (int n = 0; n < 5; n++)
		CHECK_OK(migrate(fd, p, BLOCK, n & 1 ? HUVM_PLACE_HOST : 0));
	for (int n = 0; n < 3; n++)
		CHECK_ERR(read(fd, page + PAGE, PAGE), EFAULT);
	CHECK_EQ(read(fd, e, 4 * sizeof(*e)), 2 * (long)sizeof(*e));
	CHECK_EQ(e[0].seq, 1);
	CHECK_EQ(e[1].seq, 2);
	CHECK(read(fd, all, sizeof(all)) >= 3 * (long)sizeof(*e));
	CHECK_EQ(all[0].seq, 3);
	CHECK_EQ(all[1].seq, 4);
}

static void clients(void)
{
	int a = huvm_open(), b = huvm_open();
	ARG(huvm_client_info, c);
	uint32_t n = 0;
	char *p = managed(b, BLOCK);

	p[0] = 1;
	while (!ioctl(a, HUVM_IOC_CLIENT_INFO, &c)) {
		n++;
		CHECK_EQ(c.pid, getpid());
		if (c.managed_bytes) {
			CHECK_EQ(c.managed_bytes, BLOCK);
			CHECK_EQ(c.host_bytes, BLOCK);
		}
		c.client++;
	}
	CHECK_EQ(errno, ENOENT);
	CHECK_EQ(n, 2);
}

static void ranges(void)
{
	int fd = huvm_open();
	char *p = managed(fd, 4 * BLOCK);
	struct huvm_block_info b[8];
	ARG(huvm_range_info, r, .va = 0, .nr = 8, .blocks = (uintptr_t)b);

	p[BLOCK] = 1;
	p[3 * BLOCK] = 1;
	CHECK_OK(ioctl(fd, HUVM_IOC_RANGE_INFO, &r));
	CHECK_EQ(r.nr, 2);
	CHECK_EQ(b[0].va, (uintptr_t)p + BLOCK);
	CHECK_EQ(b[1].va, (uintptr_t)p + 3 * BLOCK);
	CHECK_EQ(b[0].preferred, HUVM_PLACE_NONE);
	r.nr = 5000;
	CHECK_ERR(ioctl(fd, HUVM_IOC_RANGE_INFO, &r), EINVAL);
	r.nr = 1;
	r.va = 0;
	r.blocks = 16;
	CHECK_ERR(ioctl(fd, HUVM_IOC_RANGE_INFO, &r), EFAULT);
	r.client = 1ull << 60;
	CHECK_ERR(ioctl(fd, HUVM_IOC_RANGE_INFO, &r), ENOENT);
}

static void advice(void)
{
	int fd = huvm_open();
	char *p = managed(fd, BLOCK);

	CHECK_ERR(advise(fd, p, BLOCK, 0, 0), EINVAL);
	CHECK_ERR(advise(fd, p, BLOCK, 99, 0), EINVAL);
	CHECK_ERR(advise(fd, p, BLOCK, HUVM_ADVISE_READ_MOSTLY, 1), EINVAL);
	CHECK_ERR(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, 0), ENOENT);
	CHECK_ERR(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, 77), ENODEV);
	CHECK_ERR(advise(fd, p + 1, BLOCK, HUVM_ADVISE_DISCARD, 0), EINVAL);
	CHECK_ERR(advise(fd, p, 2 * BLOCK, HUVM_ADVISE_DISCARD, 0), ENOMEM);
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_PREFERRED, 0));
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_ACCESSED_BY, HUVM_PLACE_HOST));
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_ACCESSED_BY, HUVM_PLACE_HOST));
	CHECK_OK(advise(fd, p, BLOCK, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
}

static const struct ktap_test tests[] = {
	{ "bad_sizes", bad_sizes }, { "larger_but_zero_is_fine", larger_but_zero_is_fine },
	{ "later_versions", later_versions }, { "bad_flags", bad_flags },
	{ "bad_pointers", bad_pointers }, { "unknown_calls", unknown_calls }, { "version", version },
	{ "wrong_gpu", wrong_gpu }, { "other_process", other_process }, { "knobs_and_policy", knobs_and_policy },
	{ "presets", presets }, { "device_node", device_node }, { "privileges", privileges }, { "others", others }, { "counters", counters },
	{ "event_stream", event_stream }, { "sleepers_are_woken", sleepers_are_woken },
	{ "sleepers_are_stopped", sleepers_are_stopped }, { "sleepers_hear_the_end", sleepers_hear_the_end },
	{ "drops_of_the_listener", drops_of_the_listener },
	{ "result_not_lost", result_not_lost },
	{ "events_not_lost", events_not_lost }, { "clients", clients }, { "ranges", ranges }, { "advice", advice },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "without_test"))
		return without_test();
	return ktap_run(tests, (int)(sizeof(tests) / sizeof(tests[0])), argc, argv);
}
