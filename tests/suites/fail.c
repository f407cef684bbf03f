// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failure everywhere: each call, each kind of touch by the CPU, with the n-th allocation of the task failing, for n from
 * 1 until nothing fails any more. A call fails with ENOMEM (or works), a touch raises SIGBUS (or works), and the same thing without
 * failure works after. Copies from and to user space fail as well. Another client, half on the GPU and half on the host, is there
 * all the time and loses nothing; at the end all memory is free again.
 */
#include "fail_lib.h"
#include "lend_lib.h"

#include <poll.h>

static struct job beside;

/* Begins each test: the other client is there. Returns a file. */
static int begin_beside(void)
{
	setup();
	beside = job_begin(0, 2, 77);
	cpu_check(beside.p, BLOCK, beside.add, beside.mul);
	return huvm_open();
}

/* Ends each test, which has nothing mapped of @fd any more: the other client has all it had, and nobody else is there. */
static void end_beside(int fd)
{
	int last;

	close(fd);
	cpu_check(beside.p, BLOCK, beside.add, beside.mul);
	job_end(&beside);
	last = huvm_open();
	CHECK(WITHIN(5000, client_count(last) == 1));
	all_idle(last);
	close(last);
}

static void opening(void)
{
	int last = begin_beside();

	EACH_FAILURE({
		int fd = open(HUVM_DEVICE_PATH, O_RDWR);

		if (fd < 0)
			check_errno("the call", __LINE__);
		else
			close(fd);
	});
	CHECK_EQ(client_count(last), 2);
	end_beside(last);
}

static void registering(void)
{
	int fd = begin_beside();

	EACH_FAILURE({
		if (gpu_register(fd, 0) < 0)
			check_errno("the call", __LINE__);
		else if (gpu_unregister(fd, 0) < 0) {
			check_errno("unregister", __LINE__);
			CHECK_OK(gpu_unregister(fd, 0));
		}
	});
	CHECK_OK(gpu_register(fd, 0));
	end_beside(fd);
}

/* What is on the GPU comes home: it stays where it is while there is no memory for that. */
static void unregistering(void)
{
	const uint64_t len = BLOCK;
	int fd = begin_beside();
	struct turns t = { 0 };

	while (next_turn(&t, TURNS)) {
		uint64_t *p = managed(fd, len);
		int r;

		CHECK_OK(gpu_register(fd, 0));
		gpu_fill(fd, 0, p, len, 4, (uint64_t)t.n, 5);
		begin_failing(&t);
		r = gpu_unregister(fd, 0);
		end_failing(&t);
		if (r < 0) {
			heard(&t, "unregister", __LINE__);
			CHECK_OK(gpu_unregister(fd, 0));
		}
		cpu_check(p, len, (uint64_t)t.n, 5);
		CHECK_OK(munmap(p, len));
	}
	printf("# %d allocations failed, one at a time\n", t.went);
	end_beside(fd);
}

static void mapping(void)
{
	int fd = begin_beside();

	EACH_FAILURE({
		void *p = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED)
			check_errno("the call", __LINE__);
		else if (munmap(p, 2 * BLOCK) < 0) {
			check_errno("munmap", __LINE__);
			CHECK_OK(munmap(p, 2 * BLOCK));
		}
	});
	munmap(managed(fd, BLOCK), BLOCK);
	end_beside(fd);
}

static void migrating(void)
{
	int fd = begin_beside();
	char *p;
	uint64_t before;

	CHECK_OK(gpu_register(fd, 0));
	before = free_chunks(fd, 0);
	p = managed(fd, 2 * BLOCK);
	EACH_FAILURE({
		if (migrate(fd, p, 2 * BLOCK, 0) < 0)
			check_errno("the call", __LINE__);
		if (migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST) < 0)
			check_errno("the call", __LINE__);
	});
	cpu_fill((uint64_t *)p, 2 * BLOCK, 4, 1);
	EACH_FAILURE({
		if (migrate(fd, p, 2 * BLOCK, 0) < 0)
			check_errno("the call", __LINE__);
		if (migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST) < 0)
			check_errno("the call", __LINE__);
	});
	cpu_check((uint64_t *)p, 2 * BLOCK, 4, 1);
	CHECK_OK(migrate(fd, p, 2 * BLOCK, 0));
	CHECK_EQ(block_info(fd, p).gpu_pages[0], 512);
	CHECK_OK(migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST));
	cpu_check((uint64_t *)p, 2 * BLOCK, 4, 1);
	CHECK_OK(munmap(p, 2 * BLOCK));
	CHECK_EQ(free_chunks(fd, 0), before);
	end_beside(fd);
}

static void partial_unmapping(void)
{
	int fd = begin_beside();
	struct turns t = { 0 };

	CHECK_OK(gpu_register(fd, 0));
	while (next_turn(&t, TURNS)) {
		char *p = managed(fd, 2 * BLOCK);
		int r;

		memset(p, 7, 2 * BLOCK);
		CHECK_OK(migrate(fd, p, 2 * BLOCK, 0));
		/* A hole in a GPU block: its 2 MiB entry is split, which takes memory. */
		begin_failing(&t);
		r = munmap(p + 64 * PAGE, 64 * PAGE);
		end_failing(&t);
		if (r < 0) {
			heard(&t, "the call", __LINE__);
			CHECK_EQ(p[64 * PAGE], 7);
			CHECK_EQ(p[128 * PAGE - 1], 7);
			CHECK_OK(munmap(p + 64 * PAGE, 64 * PAGE));
		}
		CHECK_EQ(p[0], 7);
		CHECK_EQ(p[64 * PAGE - 1], 7);
		CHECK_EQ(p[128 * PAGE], 7);
		CHECK_EQ(p[2 * BLOCK - 1], 7);
		CHECK_OK(munmap(p, 2 * BLOCK));
	}
	printf("# %d allocations failed, one at a time\n", t.went);
	end_beside(fd);
}

/* A client ends: what it had is free, whatever could not be allocated on the way. */
static void closing(void)
{
	int fd = begin_beside();
	uint64_t before = free_chunks(fd, 0);
	struct turns t = { 0 };

	while (next_turn(&t, TURNS)) {
		ARG(huvm_events, e, .mask = 2, .records = 16);
		int own = huvm_open(), r;
		uint64_t *p;

		CHECK_OK(gpu_register(own, 0));
		CHECK_OK(ioctl(own, HUVM_IOC_EVENTS, &e));
		p = managed(own, 2 * BLOCK);
		p[0] = p[BLOCK / 8] = 1;
		CHECK_OK(migrate(own, p, BLOCK, 0));
		begin_failing(&t);
		r = munmap(p, 2 * BLOCK);
		close(own);
		end_failing(&t);
		if (r < 0) {
			heard(&t, "munmap", __LINE__);
			CHECK_EQ(p[0], 1);
			CHECK_OK(munmap(p, 2 * BLOCK));
		}
		CHECK_EQ(client_count(fd), 2);
		CHECK_EQ(free_chunks(fd, 0), before);
	}
	printf("# %d allocations failed, one at a time\n", t.went);
	end_beside(fd);
}

static void launching(void)
{
	struct huvm_instr i = over(HUVM_OP_FILL, BLOCK, 4);
	uint64_t id;
	int fd = begin_beside();

	CHECK_OK(gpu_register(fd, 0));
	i.dst = (uintptr_t)managed(fd, BLOCK);
	EACH_FAILURE({
		if (launch(fd, 0, 4, &i, 1, 8, &id) < 0)
			check_errno("the call", __LINE__);
		else {
			ARG(huvm_wait, w, .launch = id, .timeout_ns = 60ull * 1000000000ull);

			/* A result that could not be copied out is there for the next call. */
			if (ioctl(fd, HUVM_IOC_WAIT, &w) < 0) {
				check_errno("wait", __LINE__);
				CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &w));
			}
			CHECK_EQ(w.status, HUVM_LAUNCH_DONE);
		}
	});
	run_ok(fd, 0, 4, &i, 1, 8);
	CHECK_OK(munmap((void *)(uintptr_t)i.dst, BLOCK));
	end_beside(fd);
}

static void looking(void)
{
	struct huvm_block_info b[4];
	int fd = begin_beside();
	char *p;

	p = managed(fd, BLOCK);
	p[0] = 1;
	EACH_FAILURE({
		ARG(huvm_range_info, r, .nr = 4, .blocks = (uintptr_t)b);
		ARG(huvm_events, e, .mask = 2);

		if (ioctl(fd, HUVM_IOC_RANGE_INFO, &r) < 0)
			check_errno("the call", __LINE__);
		if (ioctl(fd, HUVM_IOC_EVENTS, &e) < 0)
			check_errno("the call", __LINE__);
	});
	CHECK_EQ(block_info(fd, p).host_pages > 0, 1);
	CHECK_OK(munmap(p, BLOCK));
	end_beside(fd);
}

/* What the calls of every_call() are about: a file with GPU 0, and one block. */
static int of_fd;
static uint64_t *of_p;
#define OF_LEN BLOCK

/* A call with the n-th allocation failing. */
struct driven {
	const char *name;
	/* Its number in the interface. */
	unsigned int nr;
	int (*call)(void);
	/* Before each turn; may be missing. */
	void (*prepare)(void);
	/* After each: @worked, it did what it should; else nothing at all. Undoes it. */
	void (*check)(int worked);
	/* What it says on a machine without such a thing. */
	int none;
};

/* struct @type @what, and a function that makes the call with it. */
#define CALLER(what, type, cmd, ...) \
	enum { nr_##what = _IOC_NR(cmd) }; \
	static struct type what; \
	static int call_##what(void) \
	{ \
		what = (struct type){ .size = sizeof(what), ##__VA_ARGS__ }; \
		return ioctl(of_fd, cmd, &what); \
	}

CALLER(version, huvm_version, HUVM_IOC_VERSION)
static void check_version(int worked)
{
	if (worked)
		CHECK(version.abi_major == HUVM_ABI_MAJOR && version.chunk_bytes == BLOCK && version.gpu_count >= 1);
}

CALLER(info, huvm_gpu_info, HUVM_IOC_GPU_INFO)
static void check_info(int worked)
{
	if (worked)
		CHECK(info.state == HUVM_GPU_OK && info.chunk_count && strchr(info.pci, ':'));
}

CALLER(link_of, huvm_link_info, HUVM_IOC_LINK_INFO)
static void check_link_of(int worked)
{
	if (worked)
		CHECK(link_of.peer != 0 && link_of.mbps);
}

CALLER(mem, huvm_mem_info, HUVM_IOC_MEM_INFO)
static void check_mem(int worked)
{
	if (worked)
		CHECK_EQ(mem.free + mem.used + mem.evicting + mem.lent_only + mem.lent_removable + mem.pinned + mem.unusable +
			 mem.retired, chunk_count(of_fd, 0));
}

CALLER(lends, huvm_lend_info, HUVM_IOC_LEND_INFO)
static void check_lends(int worked)
{
	if (worked)
		CHECK(!lends.lends && !lends.lent_chunks[0]);
}

CALLER(health, huvm_gpu_health, HUVM_IOC_GPU_HEALTH)
static void check_health(int worked)
{
	if (worked)
		CHECK(!health.lost && !health.given_up && !health.forfeited);
}

CALLER(knob_of, huvm_knob, HUVM_IOC_KNOB)
static void check_knob_of(int worked)
{
	if (worked)
		CHECK(knob_of.name[0] && knob_of.doc[0] && knob_of.min <= knob_of.def && knob_of.def <= knob_of.max);
}

static uint64_t some_counters[4];
CALLER(counts, huvm_counters, HUVM_IOC_COUNTERS, .scope = HUVM_SCOPE_GLOBAL, .nr = 4,
       .values = (uintptr_t)some_counters)
CALLER(counts_own, huvm_counters, HUVM_IOC_COUNTERS, .scope = HUVM_SCOPE_PROCESS, .gpu = (uint32_t)getpid(),
       .nr = 4, .values = (uintptr_t)some_counters)
static void check_counts(int worked)
{
	if (worked) {
		CHECK(some_counters[HUVM_CNT_FAULTS] > 0);
		memset(some_counters, 0, sizeof(some_counters));
	}
}

CALLER(took, huvm_latency, HUVM_IOC_LATENCY, .scope = HUVM_SCOPE_GPU, .kind = HUVM_LATENCY_D2H)
static void check_took(int worked)
{
	uint64_t sum = 0;

	for (int i = 0; worked && i < HUVM_LATENCY_BUCKETS; i++)
		sum += took.buckets[i];
	if (worked)
		CHECK(took.count > 0 && sum == took.count);
}

CALLER(client, huvm_client_info, HUVM_IOC_CLIENT_INFO)
static void check_client(int worked)
{
	if (worked)
		CHECK(client.pid == (uint32_t)getpid() && client.managed_bytes == beside.len);
}

static uint32_t one_knob;
static struct huvm_policy policy_now(uint32_t scope, uint32_t gpu)
{
	ARG(huvm_policy, p, .scope = scope, .gpu = gpu, .knob = one_knob);

	CHECK_OK(ioctl(of_fd, HUVM_IOC_POLICY_GET, &p));
	return p;
}

/* The scope has @value of its own, which it loses, or none. */
static void check_policy(uint32_t scope, uint32_t gpu, uint64_t value, int worked)
{
	ARG(huvm_policy, reset, .flags = HUVM_POLICY_RESET, .scope = scope, .gpu = gpu, .knob = one_knob);
	uint32_t own = scope == HUVM_SCOPE_PROCESS ? HUVM_SCOPE_SPACE : scope;
	struct huvm_policy p = policy_now(scope, gpu);

	CHECK_EQ(p.origin == own, worked);
	CHECK_EQ(p.value == value, worked);
	CHECK_OK(ioctl(of_fd, HUVM_IOC_POLICY_SET, &reset));
	CHECK_EQ(policy_now(scope, gpu).origin, HUVM_SCOPE_GLOBAL);
}

CALLER(get, huvm_policy, HUVM_IOC_POLICY_GET, .scope = HUVM_SCOPE_SPACE, .knob = one_knob)
static void check_get(int worked)
{
	if (worked)
		CHECK(get.origin == HUVM_SCOPE_GLOBAL && get.value == policy_now(HUVM_SCOPE_GLOBAL, 0).value);
}

CALLER(set_space, huvm_policy, HUVM_IOC_POLICY_SET, .scope = HUVM_SCOPE_SPACE, .knob = one_knob, .value = 3)
static void check_set_space(int worked)
{
	check_policy(HUVM_SCOPE_SPACE, 0, 3, worked);
}

CALLER(set_gpu, huvm_policy, HUVM_IOC_POLICY_SET, .scope = HUVM_SCOPE_GPU, .knob = one_knob, .value = 4)
static void check_set_gpu(int worked)
{
	check_policy(HUVM_SCOPE_GPU, 0, 4, worked);
}

/* Some of its files may have the value although the call failed, it says, and get is of the first. */
CALLER(set_process, huvm_policy, HUVM_IOC_POLICY_SET, .scope = HUVM_SCOPE_PROCESS, .gpu = (uint32_t)getpid(), .knob = one_knob,
       .value = 5)
static void check_set_process(int worked)
{
	uint32_t pid = (uint32_t)getpid();

	check_policy(HUVM_SCOPE_PROCESS, pid, 5, worked || policy_now(HUVM_SCOPE_PROCESS, pid).value == 5);
}

static struct huvm_preset preset_now(void)
{
	ARG(huvm_preset, p, .scope = HUVM_SCOPE_SPACE);

	CHECK_OK(ioctl(of_fd, HUVM_IOC_PRESET_GET, &p));
	return p;
}

static char preset_before[HUVM_NAME_LEN];
static void prepare_preset(void)
{
	strcpy(preset_before, preset_now().name);
	CHECK(strcmp(preset_before, "random"));
}

CALLER(preset_got, huvm_preset, HUVM_IOC_PRESET_GET, .scope = HUVM_SCOPE_SPACE)
static void check_preset_got(int worked)
{
	if (worked)
		CHECK(!strcmp(preset_got.name, preset_before) && preset_got.doc[0]);
}

CALLER(preset_set, huvm_preset, HUVM_IOC_PRESET_SET, .scope = HUVM_SCOPE_SPACE, .name = "random")
static void check_preset_set(int worked)
{
	ARG(huvm_preset, reset, .scope = HUVM_SCOPE_SPACE, .flags = HUVM_POLICY_RESET);

	CHECK(!strcmp(preset_now().name, worked ? "random" : preset_before));
	CHECK_OK(ioctl(of_fd, HUVM_IOC_PRESET_SET, &reset));
	CHECK(!strcmp(preset_now().name, preset_before));
}

static uint64_t delay_id;
static void prepare_abort(void)
{
	struct huvm_instr i = till_ended();

	CHECK_OK(launch(of_fd, 0, 1, &i, 1, 8, &delay_id));
}

CALLER(ended, huvm_wait, HUVM_IOC_ABORT, .launch = delay_id, .timeout_ns = 1000000000)
static void check_ended(int worked)
{
	/* One that failed took nothing: the launch runs, or its result is there. */
	if (!worked)
		CHECK_OK(call_ended());
	CHECK_EQ(ended.status, HUVM_LAUNCH_ABORTED);
	CHECK_ERR(call_ended(), ENOENT);
}

/* All of it is on the GPU, in 2 MiB. */
static void prepare_on_gpu(void)
{
	cpu_fill(of_p, OF_LEN, 9, 2);
	CHECK_OK(migrate(of_fd, of_p, OF_LEN, 0));
	CHECK_EQ(block_info(of_fd, of_p).gpu_pages[0], 512);
}

/* And on the host too. */
static void prepare_on_both(void)
{
	cpu_fill(of_p, OF_LEN, 9, 2);
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(of_fd, 0, of_p, OF_LEN, 4, 9, 2);
	CHECK_EQ(block_info(of_fd, of_p).gpu_pages[0] + block_info(of_fd, of_p).host_pages, 1024);
}

#define ADVISER(what, how, ...) \
	CALLER(what, huvm_advise, HUVM_IOC_ADVISE, .va = (uintptr_t)of_p, .length = BLOCK / 2, .advice = how, ##__VA_ARGS__)

static void is_preferred(uint32_t where)
{
	CHECK_EQ(block_info(of_fd, of_p).preferred, where);
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_UNSET_PREFERRED, 0));
	CHECK_EQ(block_info(of_fd, of_p).preferred, HUVM_PLACE_NONE);
	cpu_check(of_p, OF_LEN, 9, 2);
}

ADVISER(prefer, HUVM_ADVISE_PREFERRED, .place = HUVM_PLACE_HOST)
static void check_prefer(int worked)
{
	is_preferred(worked ? HUVM_PLACE_MIXED : HUVM_PLACE_NONE);
}

/* All of it is on the GPU, and is to live on the host. */
static void prepare_preferred(void)
{
	prepare_on_gpu();
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_PREFERRED, HUVM_PLACE_HOST));
}

ADVISER(not_preferred, HUVM_ADVISE_UNSET_PREFERRED)
static void check_not_preferred(int worked)
{
	is_preferred(worked ? HUVM_PLACE_MIXED : HUVM_PLACE_HOST);
}

ADVISER(mostly, HUVM_ADVISE_READ_MOSTLY)
static void check_mostly(int worked)
{
	CHECK_EQ(block_info(of_fd, of_p).read_mostly, worked ? 256 : 0);
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	cpu_check(of_p, OF_LEN, 9, 2);
}

ADVISER(not_mostly, HUVM_ADVISE_UNSET_READ_MOSTLY)
static void check_not_mostly(int worked)
{
	struct huvm_block_info b = block_info(of_fd, of_p);

	CHECK_EQ(b.read_mostly, worked ? 256 : 512);
	CHECK_EQ(b.gpu_pages[0] + b.host_pages, worked ? 768 : 1024);
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_UNSET_READ_MOSTLY, 0));
	cpu_check(of_p, OF_LEN, 9, 2);
}

/* That CPU and GPU have it in turn, turn by turn, is no thrashing. */
static void prepare_accessed(void)
{
	CHECK_OK(set_knob(of_fd, HUVM_SCOPE_SPACE, "thrash_enable", 0));
	prepare_on_gpu();
}

/* From the host the GPU takes what it is not to map there: so many pages. */
static void gpu_takes(uint32_t pages)
{
	cpu_check(of_p, OF_LEN, 9, 2);
	gpu_check(of_fd, 0, of_p, OF_LEN, 4, 9, 2);
	CHECK_EQ(block_info(of_fd, of_p).gpu_pages[0], pages);
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_UNSET_ACCESSED_BY, 0));
	cpu_check(of_p, OF_LEN, 9, 2);
}

ADVISER(access_by, HUVM_ADVISE_ACCESSED_BY)
static void check_access_by(int worked)
{
	gpu_takes(worked ? 256 : 512);
}

static void prepare_accessed_by(void)
{
	prepare_accessed();
	CHECK_OK(advise(of_fd, of_p, OF_LEN, HUVM_ADVISE_ACCESSED_BY, 0));
}

ADVISER(not_access_by, HUVM_ADVISE_UNSET_ACCESSED_BY)
static void check_not_access_by(int worked)
{
	gpu_takes(worked ? 256 : 0);
}

ADVISER(discard, HUVM_ADVISE_DISCARD)
static void check_discard(int worked)
{
	const uint64_t gone = worked ? BLOCK / 2 : 0;

	cpu_check(of_p, gone, 0, 0);
	cpu_check(of_p + gone / 8, OF_LEN - gone, 9 + 2 * (gone / 8), 2);
}

CALLER(reg, huvm_test_reg, HUVM_IOC_TEST_REG, .offset = INJ_NEG_TLB)
static void check_reg(int worked)
{
	if (worked)
		CHECK_EQ(reg.value, read_reg(of_fd, 0, INJ_NEG_TLB));
}

CALLER(self, huvm_selftest_arg, HUVM_IOC_TEST_SELFTEST, .test = HUVM_SELFTEST_COPY, .arg = BLOCK)
static void check_self(int worked)
{
	/* How long it took. */
	if (worked)
		CHECK(self.result > 0);
}

CALLER(limited, huvm_test_limits, HUVM_IOC_TEST_LIMITS, .chunks = 6)
static void check_limited(int worked)
{
	if (worked)
		CHECK_EQ(mem_info(of_fd, 0).unusable, chunk_count(of_fd, 0) - 6);
	CHECK_OK(limit_chunks(of_fd, 0, 0));
	CHECK_EQ(mem_info(of_fd, 0).unusable, 0);
}

CALLER(failing, huvm_test_fail, HUVM_IOC_TEST_FAIL, .what = HUVM_FAIL_HOST_2M)
static void check_failing(int worked)
{
	if (worked)
		CHECK_EQ(failing.left, 0);
}

#define DRIVEN(what, ...) { .name = #what, .nr = nr_##what, .call = call_##what, .check = check_##what, ##__VA_ARGS__ }
static const struct driven driven[] = {
	DRIVEN(version), DRIVEN(info), DRIVEN(link_of, .none = ENOENT), DRIVEN(mem), DRIVEN(lends), DRIVEN(health), DRIVEN(knob_of), DRIVEN(counts),
	{ .name = "counts_own", .nr = nr_counts, .call = call_counts_own, .check = check_counts }, DRIVEN(took), DRIVEN(client), DRIVEN(get), DRIVEN(set_space),
	DRIVEN(set_gpu), DRIVEN(set_process), DRIVEN(preset_got, .prepare = prepare_preset),
	DRIVEN(preset_set, .prepare = prepare_preset), DRIVEN(ended, .prepare = prepare_abort),
	DRIVEN(prefer, .prepare = prepare_on_gpu), DRIVEN(not_preferred, .prepare = prepare_preferred),
	DRIVEN(mostly, .prepare = prepare_on_gpu), DRIVEN(not_mostly, .prepare = prepare_on_both),
	DRIVEN(access_by, .prepare = prepare_accessed), DRIVEN(not_access_by, .prepare = prepare_accessed_by),
	DRIVEN(discard, .prepare = prepare_on_gpu), DRIVEN(reg), DRIVEN(self), DRIVEN(limited), DRIVEN(failing),
};

/* Calls that have tests of their own here. */
static const unsigned long with_own_tests[] = {
	HUVM_IOC_GPU_REGISTER, HUVM_IOC_GPU_UNREGISTER, HUVM_IOC_MIGRATE, HUVM_IOC_LAUNCH, HUVM_IOC_WAIT, HUVM_IOC_EVENTS, HUVM_IOC_RANGE_INFO,
	HUVM_IOC_TEST_EVICT,
};

static int is_driven(unsigned int nr)
{
	for (unsigned int i = 0; i < sizeof(with_own_tests) / sizeof(with_own_tests[0]); i++)
		if (_IOC_NR(with_own_tests[i]) == nr)
			return 1;
	for (unsigned int i = 0; i < sizeof(driven) / sizeof(driven[0]); i++)
		if (driven[i].nr == nr)
			return 1;
	return 0;
}

/* Whichever call the driver knows (one with a struct of no size is refused as such) is one of these. */
static void none_is_left_out(int fd)
{
	unsigned int known = 0;

	for (unsigned int nr = 0; nr < 256; nr++) {
		uint32_t arg[2] = { 0 };

		CHECK(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, HUVM_IOC_TYPE, nr, sizeof(arg)), arg) < 0);
		if (errno == ENOTTY)
			continue;
		known++;
		if (!is_driven(nr))
			FAIL("call %#x has no allocation that fails", nr);
	}
	CHECK(known > sizeof(with_own_tests) / sizeof(with_own_tests[0]));
}

/* Every call that has no test of its own here. */
static void every_call(void)
{
	of_fd = begin_beside();
	none_is_left_out(of_fd);
	CHECK_OK(gpu_register(of_fd, 0));
	of_p = managed(of_fd, OF_LEN);
	for (one_knob = 0;; one_knob++) {
		ARG(huvm_knob, k, .index = one_knob);

		CHECK_OK(ioctl(of_fd, HUVM_IOC_KNOB, &k));
		if (!strcmp(k.name, "prefetch_threshold_percent"))
			break;
	}
	for (unsigned int i = 0; i < sizeof(driven) / sizeof(driven[0]); i++) {
		const struct driven *d = &driven[i];
		struct turns t = { 0 };
		int r = -1, e = 0;

		printf("# %s\n", d->name);
		while (next_turn(&t, TURNS)) {
			if (d->prepare)
				d->prepare();
			begin_failing(&t);
			r = d->call();
			e = errno;
			end_failing(&t);
			errno = e;
			if (r < 0 && t.hit && e != d->none)
				check_errno(d->name, __LINE__);
			d->check(r >= 0);
		}
		printf("# %s: %d allocations failed\n", d->name, t.went);
		/* The last one, in which nothing failed. */
		if (r < 0 && (!d->none || e != d->none))
			FAIL("%s: errno %d, %s, and nothing failed", d->name, e, strerror(e));
	}
	CHECK_OK(munmap(of_p, OF_LEN));
	end_beside(of_fd);
}

/* An event is read whole or stays; poll says so. */
static void reading_events(void)
{
	ARG(huvm_events, on, .mask = 1u << HUVM_EVENT_MIGRATE, .records = 16);
	struct huvm_event e;
	struct turns t = { 0 };
	uint64_t last = 0;
	int fd = begin_beside();
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	char *p;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	p = managed(fd, BLOCK);
	p[0] = 1;
	while (next_turn(&t, TURNS)) {
		ssize_t r;

		CHECK_OK(migrate(fd, p, BLOCK, t.n & 1 ? 0 : HUVM_PLACE_HOST));
		begin_failing(&t);
		r = poll(&pf, 1, 0);
		if (r < 0)
			check_errno("poll", __LINE__);
		else
			CHECK_EQ(r, 1);
		r = read(fd, &e, sizeof(e));
		end_failing(&t);
		if (r < 0) {
			heard(&t, "read", __LINE__);
			r = read(fd, &e, sizeof(e));
		}
		/* A move may be two. */
		for (; r > 0; r = read(fd, &e, sizeof(e))) {
			CHECK_EQ(r, sizeof(e));
			CHECK_EQ(e.seq, last + 1);
			CHECK_EQ(e.type, HUVM_EVENT_MIGRATE);
			CHECK_EQ(e.dropped, 0);
			last++;
		}
		CHECK_EQ(errno, EAGAIN);
		CHECK(last >= (uint64_t)t.n);
	}
	printf("# %d allocations failed, one at a time\n", t.went);
	CHECK_OK(munmap(p, BLOCK));
	end_beside(fd);
}

/* The text of a file. Its length, or -1. */
static ssize_t text_of(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY), e;
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	e = errno;
	if (fd >= 0)
		close(fd);
	errno = e;
	text[n < 0 ? 0 : n] = 0;
	return n;
}

/* debugfs shows all, or nothing, or that there was no memory; so does a knob in sysfs, and changes when the write worked. */
static void files(void)
{
	static const char *const views[] = { "spaces", "blocks", "chunks", "waits" };
	char pci[32], path[128], now[4096], was[4096], before[64];
	int fd = begin_beside();
	struct turns t = { 0 };

	for (unsigned int i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/huvm/%s", views[i]);
		memset(&t, 0, sizeof(t));
		while (next_turn(&t, TURNS)) {
			ssize_t r, len = text_of(path, was, sizeof(was));

			CHECK(len >= 0);
			begin_failing(&t);
			r = text_of(path, now, sizeof(now));
			end_failing(&t);
			if (r < 0)
				heard(&t, path, __LINE__);
			else
				CHECK_EQ(r > 0, len > 0);
			/* These do not change by themselves. One that cannot look says why. */
			if (r >= 0 && strcmp(views[i], "waits") && !(t.hit && strstr(now, "(no memory)")))
				CHECK(!strcmp(now, was));
		}
		printf("# %s: %d allocations failed\n", path, t.went);
	}
	pci_name(fd, 0, pci);
	for (int of_gpu = 0; of_gpu < 2; of_gpu++) {
		if (of_gpu)
			snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/huvm/prefetch_threshold_percent", pci);
		else
			snprintf(path, sizeof(path), "/sys/class/misc/huvm/policy/prefetch_threshold_percent");
		CHECK(text_of(path, before, sizeof(before)) > 0);
		CHECK(strcmp(before, "7\n"));
		memset(&t, 0, sizeof(t));
		while (next_turn(&t, TURNS)) {
			ssize_t r;
			int w;

			begin_failing(&t);
			r = text_of(path, now, sizeof(now));
			if (r < 0)
				check_errno(path, __LINE__);
			else
				CHECK(!strcmp(now, before));
			w = write_file(path, "7");
			end_failing(&t);
			if (w < 0)
				heard(&t, path, __LINE__);
			CHECK(text_of(path, now, sizeof(now)) > 0);
			CHECK(!strcmp(now, w < 0 ? before : "7\n"));
			CHECK_OK(write_file(path, before));
		}
		printf("# %s: %d allocations failed\n", path, t.went);
	}
	end_beside(fd);
}

static sigjmp_buf touched;

static void on_touched(int sig)
{
	siglongjmp(touched, sig);
}

/* Where a page is that the CPU touches. */
enum where {
	NOWHERE,	/* touched by nobody yet */
	ON_GPU,
	NEARLY,		/* on the GPU, to be duplicated by a read */
	DUPLICATED,	/* on the GPU, and on the host, where the CPU has it mapped for reading */
	WHERES
};

#define TOUCHED 0x1234567ull

/* Memory of @len bytes, each word of which is TOUCHED, at @where. */
static volatile uint64_t *memory_at(int fd, uint64_t len, enum where where)
{
	/* At the start of a block. */
	volatile uint64_t *p = managed(fd, BLOCK);

	if (len != BLOCK)
		CHECK_OK(munmap((char *)(uintptr_t)p + len, BLOCK - len));
	if (where == NOWHERE)
		return p;
	if (where != ON_GPU)
		CHECK_OK(advise(fd, (const void *)p, len, HUVM_ADVISE_READ_MOSTLY, 0));
	/* By the GPU, so that there is no memory on the host yet. */
	gpu_fill(fd, 0, (void *)p, len, 1, TOUCHED, 0);
	if (where == DUPLICATED)
		CHECK_EQ(p[0], TOUCHED);
	return p;
}

/*
 * Reads *p, or writes @v there, with an allocation failing. The signal that it raised, or 0. Without a system call in between, whose
 * copies would fail too: so the handler is there, and may be interrupted by its own signal.
 */
static int touch(struct turns *t, volatile uint64_t *p, int write, uint64_t *v)
{
	int sig = sigsetjmp(touched, 0);

	if (!sig) {
		begin_failing(t);
		if (write)
			*p = *v;
		else
			*v = *p;
	}
	end_failing(t);
	return sig;
}

/* The CPU touches memory: the page comes, or the access raises SIGBUS and the next one finds what it should. */
static void touching(void)
{
	struct sigaction catch = { .sa_handler = on_touched, .sa_flags = SA_NODEFER };
	static const uint64_t lens[] = { BLOCK, PIECE };
	int fd = begin_beside();
	uint64_t before = free_chunks(fd, 0);

	CHECK_OK(sigaction(SIGBUS, &catch, NULL));
	CHECK_OK(gpu_register(fd, 0));
	for (unsigned int i = 0; i < 2 * 2 * WHERES; i++) {
		const uint64_t len = lens[i & 1];
		const int write = i >> 1 & 1;
		const enum where where = (enum where)(i >> 2);
		const uint64_t was = where == NOWHERE ? 0 : TOUCHED;
		/* Where all is there but the right to write, nothing has to be made. */
		struct turns t = { .may_be_none = where == DUPLICATED };
		int raised = 0;

		/* No fault at all. */
		if (where == DUPLICATED && !write)
			continue;
		while (next_turn(&t, TURNS)) {
			volatile uint64_t *p = memory_at(fd, len, where);
			uint64_t v = write ? TOUCHED + 1 : ~0ull;
			int sig = touch(&t, p, write, &v);

			if (sig) {
				CHECK_EQ(sig, SIGBUS);
				CHECK(t.hit);
				raised++;
				/* Nothing of it is there. */
				CHECK_EQ(p[0], was);
				if (write)
					p[0] = v;
			} else if (!write) {
				CHECK_EQ(v, was);
			}
			CHECK_EQ(p[0], write ? TOUCHED + 1 : was);
			CHECK_EQ(p[len / 8 - 1], was);
			/* The GPU sees what the CPU wrote. */
			CHECK_OK(migrate(fd, (const void *)p, len, 0));
			CHECK_EQ(p[0], write ? TOUCHED + 1 : was);
			CHECK_OK(munmap((void *)p, len));
		}
		printf("# %s of %llu KiB, place %d: %d allocations failed, %d accesses\n", write ? "write" : "read",
		       (unsigned long long)len >> 10, where, t.went, raised);
	}
	CHECK_EQ(free_chunks(fd, 0), before);
	end_beside(fd);
}

/* The same by way of a debugger's file. */
static void debugging(void)
{
	int fd = begin_beside(), self = open("/proc/self/mem", O_RDWR);
	struct turns t = { 0 };

	CHECK(self >= 0);
	CHECK_OK(gpu_register(fd, 0));
	while (next_turn(&t, TURNS)) {
		volatile uint64_t *p = memory_at(fd, BLOCK, t.n & 1 ? ON_GPU : NOWHERE);
		uint64_t v = 0, was = t.n & 1 ? TOUCHED : 0;
		ssize_t r;

		begin_failing(&t);
		r = pread(self, &v, sizeof(v), (off_t)(uintptr_t)p);
		end_failing(&t);
		if (r < 0 && errno != EIO)
			heard(&t, "pread", __LINE__);
		if (r >= 0) {
			CHECK_EQ(r, sizeof(v));
			CHECK_EQ(v, was);
		} else {
			CHECK(t.hit);
		}
		CHECK_EQ(pread(self, &v, sizeof(v), (off_t)(uintptr_t)p), sizeof(v));
		CHECK_EQ(v, was);
		CHECK_EQ(p[0], was);
		CHECK_OK(munmap((void *)p, BLOCK));
	}
	printf("# %d allocations failed, one at a time\n", t.went);
	close(self);
	end_beside(fd);
}

/* Eviction, by the caller's own hand; the other client's chunks are as good a victim as ours. */
static void evicting(void)
{
	int fd = begin_beside();
	struct turns t = { 0 };
	unsigned int short_of = 0;

	CHECK_OK(gpu_register(fd, 0));
	while (next_turn(&t, TURNS)) {
		ARG(huvm_test_evict, e, .chunks = 3);
		uint64_t *p = managed(fd, BLOCK), evictions;
		int r;

		gpu_fill(fd, 0, p, BLOCK, 4, (uint64_t)t.n, 3);
		evictions = of_gpu(fd, 0, HUVM_CNT_EVICTIONS);
		begin_failing(&t);
		r = ioctl(fd, HUVM_IOC_TEST_EVICT, &e);
		end_failing(&t);
		if (r < 0)
			heard(&t, "the call", __LINE__);
		else
			CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTIONS) - evictions, e.evicted);
		if (!t.hit)
			CHECK(e.evicted >= 1);
		short_of += r < 0 || !e.evicted;
		/* One that could not be evicted is where it was, and can be. */
		e.chunks = 3;
		CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
		CHECK_EQ(mem_info(fd, 0).used, 0);
		cpu_check(p, BLOCK, (uint64_t)t.n, 3);
		CHECK_OK(munmap(p, BLOCK));
	}
	printf("# %d allocations failed, one at a time; %u times not all was evicted\n", t.went, short_of);
	CHECK(short_of > 0);
	end_beside(fd);
}

static void host_memory_short_while_evicting(void)
{
	/* The fault service thread itself runs short: every other page allocation of 64 KiB and more fails, some of 4 KiB. */
	const uint32_t blocks = 16;
	int fd = begin_beside();
	uint64_t len, *p;

	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, 8));
	len = 16 * BLOCK;
	p = managed(fd, len);
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "4");
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "50");
	need_file("/sys/kernel/debug/fail_page_alloc/times", "-1");
	gpu_fill(fd, 0, p, len, blocks, 3, 1);
	gpu_scale(fd, 0, p, len, blocks, 1, 1);
	need_file("/sys/kernel/debug/fail_page_alloc/probability", "0");
	need_file("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	CHECK(counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_HOST_FALLBACKS) > 0);
	cpu_check(p, len, 4, 1);
	CHECK_OK(limit_chunks(fd, 0, 0));
	CHECK_OK(munmap(p, len));
	end_beside(fd);
}

static const struct ktap_test tests[] = {
	{ "opening", opening }, { "registering", registering }, { "unregistering", unregistering }, { "mapping", mapping },
	{ "migrating", migrating, 120 }, { "partial_unmapping", partial_unmapping }, { "closing", closing },
	{ "launching", launching }, { "looking", looking }, { "every_call", every_call, 120 },
	{ "reading_events", reading_events }, { "files", files }, { "touching", touching, 120 }, { "debugging", debugging },
	{ "evicting", evicting, 120 }, { "host_memory_short_while_evicting", host_memory_short_while_evicting },
};
KTAP_MAIN(tests)
