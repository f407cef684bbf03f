/* SPDX-License-Identifier: GPL-2.0 */
/* Short forms of the calls of uapi/huvm.h for the suites. */
#ifndef HUVM_LIB_H
#define HUVM_LIB_H

#include "ktap.h"
#include "huvm.h"
#include "huvm_test.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#define MIB (1ull << 20)
#define BLOCK (2 * MIB)
#define PAGE 4096ull

/* Of limits of time, as for the tests' own: the debug kernel and a loaded machine are slow. */
static inline int time_scale(void)
{
	const char *s = getenv("HUVM_TIME_SCALE");

	return s && atoi(s) > 0 ? atoi(s) : 1;
}

/* Waits until @cond holds, at most @ms; says whether it does. */
#define WITHIN(ms, cond) ({ \
	int ok_ = 0; \
	for (int n_ = 0; n_ <= (ms) / 5 * time_scale() && !(ok_ = !!(cond)); n_++) \
		usleep(5000); \
	ok_; })

/* For what cannot be seen, such as that a thread of the driver has read its policy: gives it @ms, or more on a slow machine. */
static inline void give_time(int ms)
{
	for (int n = 0; n < time_scale(); n++)
		usleep((useconds_t)ms * 1000);
}

/* The same while a copy is held, at most three seconds: it is given up after ten, however slow the machine. */
static inline void give_time_held(int ms)
{
	int all = ms * time_scale();

	usleep((useconds_t)(all < 3000 ? all : 3000) * 1000);
}

/* A zeroed argument struct with its size set. */
#define ARG(type, name, ...) struct type name = { .size = sizeof(struct type), ##__VA_ARGS__ }

static inline int huvm_open(void)
{
	int fd = open(HUVM_DEVICE_PATH, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		FAIL("open %s: %s", HUVM_DEVICE_PATH, strerror(errno));
	return fd;
}

static inline uint32_t gpu_count(int fd)
{
	ARG(huvm_version, v);

	CHECK_OK(ioctl(fd, HUVM_IOC_VERSION, &v));
	return v.gpu_count;
}

static inline int gpu_register(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_register, r, .gpu = gpu);

	return ioctl(fd, HUVM_IOC_GPU_REGISTER, &r);
}

static inline int gpu_unregister(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_register, r, .gpu = gpu);

	return ioctl(fd, HUVM_IOC_GPU_UNREGISTER, &r);
}

static inline uint64_t chunk_count(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_info, g, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &g));
	return g.chunk_count;
}

static inline struct huvm_mem_info mem_info(int fd, uint32_t gpu)
{
	ARG(huvm_mem_info, m, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_MEM_INFO, &m));
	return m;
}

static inline uint64_t free_chunks(int fd, uint32_t gpu)
{
	return mem_info(fd, gpu).free;
}

static inline uint64_t lent(int fd, uint32_t gpu)
{
	struct huvm_mem_info m = mem_info(fd, gpu);

	return m.lent_only + m.lent_removable;
}

/* Nothing of the GPU is in use, and nothing lent (what a limit set aside, or failed, does not count). */
static inline int is_idle(int fd, uint32_t gpu)
{
	struct huvm_mem_info m = mem_info(fd, gpu);

	return m.free + m.unusable + m.retired == chunk_count(fd, gpu);
}

/* A thread of the driver may have a chunk in hand for a moment, even when the client that wanted it is gone. */
static inline void gets_idle(int fd, uint32_t gpu)
{
	if (!WITHIN(5000, is_idle(fd, gpu))) {
		struct huvm_mem_info m = mem_info(fd, gpu);

		FAIL("GPU %u: %llu free, %llu used, %llu evicting, %llu + %llu lent of %llu", gpu,
		     (unsigned long long)m.free, (unsigned long long)m.used, (unsigned long long)m.evicting,
		     (unsigned long long)m.lent_only, (unsigned long long)m.lent_removable,
		     (unsigned long long)chunk_count(fd, gpu));
	}
}

static inline void all_idle(int fd)
{
	for (uint32_t g = 0; g < gpu_count(fd); g++)
		gets_idle(fd, g);
}

static inline void *managed(int fd, uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		FAIL("mmap of %llu bytes: %s", (unsigned long long)len, strerror(errno));
	return p;
}

static inline int migrate(int fd, const void *p, uint64_t len, uint32_t dst)
{
	ARG(huvm_migrate, m, .va = (uintptr_t)p, .length = len, .dst = dst);

	return ioctl(fd, HUVM_IOC_MIGRATE, &m);
}

static inline int advise(int fd, const void *p, uint64_t len, uint32_t advice, uint32_t place)
{
	ARG(huvm_advise, a, .va = (uintptr_t)p, .length = len, .advice = advice, .place = place);

	return ioctl(fd, HUVM_IOC_ADVISE, &a);
}

static inline uint64_t counter(int fd, uint32_t scope, uint32_t gpu, int which)
{
	uint64_t v[HUVM_CNT_COUNT] = { 0 };
	ARG(huvm_counters, c, .scope = scope, .gpu = gpu, .nr = HUVM_CNT_COUNT, .values = (uintptr_t)v);

	CHECK_OK(ioctl(fd, HUVM_IOC_COUNTERS, &c));
	CHECK((uint32_t)which < c.nr);
	return v[which];
}

static inline uint64_t of_gpu(int fd, uint32_t gpu, int which)
{
	return counter(fd, HUVM_SCOPE_GPU, gpu, which);
}

static inline struct huvm_block_info block_info(int fd, const void *p)
{
	struct huvm_block_info b[1];
	ARG(huvm_range_info, r, .va = (uintptr_t)p, .nr = 1, .blocks = (uintptr_t)b);

	memset(b, 0, sizeof(b));
	CHECK_OK(ioctl(fd, HUVM_IOC_RANGE_INFO, &r));
	CHECK_EQ(r.nr, 1);
	CHECK_EQ(b[0].va, (uintptr_t)p & ~(BLOCK - 1));
	return b[0];
}

static inline int launch(int fd, uint32_t gpu, uint32_t blocks, const struct huvm_instr *in, uint32_t n,
			 uint32_t elem, uint64_t *id)
{
	ARG(huvm_launch, l, .gpu = gpu, .blocks = blocks, .iterations = 1, .elem_bytes = elem, .nr_instr = n,
	    .instrs = (uintptr_t)in);
	int r = ioctl(fd, HUVM_IOC_LAUNCH, &l);

	*id = l.launch;
	return r;
}

/* A minute, longer on a slow machine, and at most what the call takes. */
static inline uint64_t launch_limit_ns(void)
{
	return 60ull * 1000000000ull * (uint64_t)(time_scale() < 10 ? time_scale() : 10);
}

static inline struct huvm_wait wait_launch(int fd, uint64_t id)
{
	ARG(huvm_wait, w, .launch = id, .timeout_ns = launch_limit_ns());

	CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &w));
	return w;
}

static inline struct huvm_wait run_program(int fd, uint32_t gpu, uint32_t blocks, const struct huvm_instr *in,
					   uint32_t n, uint32_t elem)
{
	uint64_t id;

	CHECK_OK(launch(fd, gpu, blocks, in, n, elem, &id));
	return wait_launch(fd, id);
}

/* The program has to end well, with no mismatch. */
static inline struct huvm_wait run_ok(int fd, uint32_t gpu, uint32_t blocks, const struct huvm_instr *in,
				      uint32_t n, uint32_t elem)
{
	struct huvm_wait w = run_program(fd, gpu, blocks, in, n, elem);

	if (w.status != HUVM_LAUNCH_DONE)
		FAIL("launch ended with status %u, error %u at %#llx, fault type %u, access %u", w.status, w.error,
		     (unsigned long long)w.fault_va, w.fault_type, w.access_type);
	if (w.mismatches)
		FAIL("%llu mismatches, first at %#llx", (unsigned long long)w.mismatches,
		     (unsigned long long)w.mismatch_va);
	return w;
}

/* Touches nothing, and ends when it is ended. */
static inline struct huvm_instr till_ended(void)
{
	struct huvm_instr i = { .op = HUVM_OP_DELAY, .count = 1, .steps = 1ull << 32, .imm0 = 1000000000 };

	return i;
}

/*
 * An instruction over `len` bytes of 64-bit elements, shared among `blocks` in pieces of 64 KiB in grid-stride order, so
 * that neighbouring blocks touch neighbouring pieces. len is a multiple of blocks * 64 KiB.
 */
#define PIECE 65536ull
static inline struct huvm_instr over(uint32_t op, uint64_t len, uint32_t blocks)
{
	struct huvm_instr i = {
		.op = op,
		.count = PIECE / 8,
		.steps = len / (PIECE * blocks),
		.block_stride = PIECE,
		.step_stride = PIECE * blocks,
	};

	return i;
}

static inline void cpu_fill(uint64_t *p, uint64_t len, uint64_t imm0, uint64_t imm1)
{
	for (uint64_t i = 0; i < len / 8; i++)
		p[i] = imm0 + imm1 * i;
}

static inline void cpu_check(const uint64_t *p, uint64_t len, uint64_t imm0, uint64_t imm1)
{
	for (uint64_t i = 0; i < len / 8; i++)
		if (p[i] != imm0 + imm1 * i)
			FAIL("element %llu at %p is %#llx, wanted %#llx", (unsigned long long)i, (const void *)&p[i],
			     (unsigned long long)p[i], (unsigned long long)(imm0 + imm1 * i));
}

static sigjmp_buf read_failed;

static inline void on_read_failed(int sig)
{
	siglongjmp(read_failed, sig);
}

/* Reads *p. The signal that it raised instead, or 0. */
static inline int reads(const volatile uint64_t *p, uint64_t *v)
{
	struct sigaction catch = { .sa_handler = on_read_failed }, bus, segv;
	int sig;

	sigaction(SIGBUS, &catch, &bus);
	sigaction(SIGSEGV, &catch, &segv);
	sig = sigsetjmp(read_failed, 1);
	if (!sig)
		*v = *p;
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return sig;
}

/* Pages of [p, p + len) that cannot be read any more. Every word of all others must be right. */
static inline uint64_t unreadable(const uint64_t *p, uint64_t len, uint64_t add, uint64_t mul)
{
	uint64_t gone = 0, v;

	for (uint64_t i = 0; i < len / 8; i += PAGE / 8) {
		int sig = reads(&p[i], &v);

		if (sig) {
			CHECK_EQ(sig, SIGBUS);
			gone++;
			continue;
		}
		/* It is at home now. */
		cpu_check(&p[i], PAGE, add + mul * i, mul);
	}
	return gone;
}

/* GPU fills, GPU checks, CPU checks. */
static inline void gpu_fill(int fd, uint32_t gpu, void *p, uint64_t len, uint32_t blocks, uint64_t imm0, uint64_t imm1)
{
	struct huvm_instr i = over(HUVM_OP_FILL, len, blocks);

	i.dst = (uintptr_t)p;
	i.imm0 = imm0;
	i.imm1 = imm1;
	run_ok(fd, gpu, blocks, &i, 1, 8);
}

static inline void gpu_check(int fd, uint32_t gpu, void *p, uint64_t len, uint32_t blocks, uint64_t imm0, uint64_t imm1)
{
	struct huvm_instr i = over(HUVM_OP_CHECK, len, blocks);

	i.a = (uintptr_t)p;
	i.imm0 = imm0;
	i.imm1 = imm1;
	run_ok(fd, gpu, blocks, &i, 1, 8);
}

/* p[i] = mul * p[i] + add, in place. */
static inline void gpu_scale(int fd, uint32_t gpu, void *p, uint64_t len, uint32_t blocks, uint64_t mul, uint64_t add)
{
	struct huvm_instr i = over(HUVM_OP_SCALE, len, blocks);

	i.dst = (uintptr_t)p;
	i.a = (uintptr_t)p;
	i.imm0 = mul;
	i.imm1 = add;
	run_ok(fd, gpu, blocks, &i, 1, 8);
}

/* Process id of the kernel thread @name; 0: there is none. */
static inline int thread_of(const char *name)
{
	for (int pid = 2; pid < 32768; pid++) {
		char path[32], comm[32] = { 0 };
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = 0;
		fclose(f);
		if (!strcmp(comm, name))
			return pid;
	}
	return 0;
}

/* A GPU is bound and unbound by writing its name to files here. */
#define DRIVER "/sys/bus/pci/drivers/huvm/"

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int r = fd < 0 ? -1 : (int)write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return r < 0 ? -1 : 0;
}

/* The next line of the kernel's log from where @log stands, if there is one; what was overwritten before it was read is none. */
static inline int next_line(int log, char *line, size_t room)
{
	ssize_t got;

	do
		got = read(log, line, room - 1);
	while (got < 0 && errno == EPIPE);
	line[got < 0 ? 0 : got] = 0;
	return got > 0;
}

/* Lines that the kernel's log had from where @log stands, with all of these words. */
static inline unsigned int logged(int log, const char *a, const char *b)
{
	char line[1024];
	unsigned int n = 0;

	while (next_line(log, line, sizeof(line)))
		n += strstr(line, a) && strstr(line, b);
	return n;
}

/* Whether lines of the kernel's log have come that are about a wait for @first and one for @second, such as who waits for that one. */
static inline int gets_logged_waits(int log, const char *first, const char *second)
{
	double until = seconds() + 5 * time_scale();
	int one = 0, two = 0;
	char line[1024];

	for (; !(one && two) && seconds() < until; usleep(10000)) {
		while (next_line(log, line, sizeof(line))) {
			if (!strstr(line, "huvm: waiting"))
				continue;
			one |= !!strstr(line, first);
			two |= !!strstr(line, second);
		}
	}
	return one && two;
}

/* As logged(), once there are @least of them, for a line is written after what it tells of can be seen; 0 if they do not come soon. */
static inline unsigned int gets_logged(int log, const char *a, const char *b, unsigned int least)
{
	unsigned int n = 0;

	return WITHIN(5000, (n += logged(log, a, b)) >= least) ? n : 0;
}

/* The kernel's interrupts complain when a file in /proc goes that could not be made; nothing else may have. Empties the log. */
static inline void forgive_interrupts(void)
{
	/* As in suite.sh, which does not see what is emptied here. */
	static const char *const wrong[] = { "BUG:", "KASAN", "INFO: ", "possible recursive", "possible circular", "suspicious RCU",
		"turning off the locking", "ODEBUG:", "dma-debug disabled", "debugging out of memory", "DMA-API: huvm", "Oops",
		"sleeping function", "DMA mappings left", "huvm: leak", "DMAR: DRHD: handling fault", "DMAR: [DMA" };
	const int room = 4 << 20;
	char *log = malloc((size_t)room);
	const char *at;
	int n;

	CHECK(log);
	n = klogctl(4, log, (unsigned int)room - 1);
	CHECK(n >= 0);
	log[n] = 0;
	for (int i = 0; i < (int)(sizeof(wrong) / sizeof(wrong[0])); i++)
		if ((at = strstr(log, wrong[i])))
			FAIL("the kernel's log: %.*s", (int)strcspn(at, "\n"), at);
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, "WARNING:") && !strstr(line, "remove_proc_entry"))
			FAIL("%s", line);
	free(log);
}

/* Whether debugfs lists a wait of this kind for GPU 0, as `ms bound_ms pid name what gpu number`; 'pid' 0: anybody's. */
static inline int is_listed(const char *want, int pid)
{
	FILE *f = fopen("/sys/kernel/debug/huvm/waits", "r");
	char line[200], what[32];
	long ms, bound;
	int found = 0, who, gpu;

	CHECK(f && fgets(line, sizeof(line), f));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%ld %ld %d %*s %31s %d", &ms, &bound, &who, what, &gpu) == 5)
			found |= !strcmp(what, want) && !gpu && (!pid || who == pid) && ms <= bound;
	fclose(f);
	return found;
}

/* Blocks of [p, p + len) with a copy under way, as debugfs shows them. */
static inline unsigned int copying(const void *p, uint64_t len)
{
	FILE *f = fopen("/sys/kernel/debug/huvm/blocks", "r");
	unsigned long long va, from = (uintptr_t)p;
	unsigned int n = 0;
	char line[512];

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*u %llx", &va) == 1 && va >= from && va < from + len && strstr(line, " copying"))
			n++;
	fclose(f);
	return n;
}

/* Evicts up to @chunks chunks of GPU 0. How many those were. */
static inline uint64_t evicts(int fd, uint32_t chunks)
{
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = chunks);

	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	return e.evicted;
}

/* A thread that evicts a chunk of GPU 0; @arg: an open file. */
static inline void *evict_one(void *arg)
{
	CHECK_EQ(evicts(*(int *)arg, 1), 1);
	return NULL;
}

static inline void pci_name(int fd, uint32_t gpu, char *name)
{
	ARG(huvm_gpu_info, g, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &g));
	strcpy(name, g.pci);
}

/* enum huvm_gpu_state */
static inline uint32_t gpu_state(int fd, uint32_t gpu)
{
	ARG(huvm_gpu_info, g, .gpu = gpu);

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &g));
	return g.state;
}

/* Unbinds a GPU and binds it again: it is a new one, with all of its memory and a policy of its own. */
static inline void rebind(const char *name)
{
	CHECK_OK(write_file(DRIVER "unbind", name));
	CHECK_OK(write_file(DRIVER "bind", name));
}

/* The GPU works: a client that has not registered it yet does so, the GPU fills memory for it, and every word is right. */
static inline void works(int fd, uint32_t gpu)
{
	const uint64_t len = 8 * BLOCK;
	uint64_t *p = managed(fd, len);

	CHECK_OK(gpu_register(fd, gpu));
	gpu_fill(fd, gpu, p, len, 8, 7, 1);
	cpu_check(p, len, 7, 1);
	CHECK_OK(munmap(p, len));
}

/* Kills a child that goes on for ever. One that has ended by itself found an error. */
static inline void end_child(pid_t pid)
{
	int status;

	CHECK_OK(kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Clients there are, this one among them. */
static inline int client_count(int fd)
{
	ARG(huvm_client_info, c);
	int n = 0;

	for (; !ioctl(fd, HUVM_IOC_CLIENT_INFO, &c); c.client++)
		n++;
	return n;
}

/* @gpu counts for HUVM_SCOPE_GPU alone. */
static inline int set_knob_of(int fd, uint32_t scope, uint32_t gpu, const char *name, uint64_t value)
{
	for (uint32_t n = 0;; n++) {
		ARG(huvm_knob, k, .index = n);

		if (ioctl(fd, HUVM_IOC_KNOB, &k) < 0)
			FAIL("no knob '%s'", name);
		if (!strcmp(k.name, name)) {
			ARG(huvm_policy, p, .scope = scope, .gpu = gpu, .knob = n, .value = value);

			return ioctl(fd, HUVM_IOC_POLICY_SET, &p);
		}
	}
}

static inline int set_knob(int fd, uint32_t scope, const char *name, uint64_t value)
{
	return set_knob_of(fd, scope, 0, name, value);
}

/* A value that the GPU has of its own. */
static inline void knob(int fd, uint32_t gpu, const char *name, uint64_t value)
{
	CHECK_OK(set_knob_of(fd, HUVM_SCOPE_GPU, gpu, name, value));
}

static inline int set_preset_of(int fd, uint32_t scope, uint32_t gpu, const char *name)
{
	ARG(huvm_preset, p, .scope = scope, .gpu = gpu);

	strncpy(p.name, name, sizeof(p.name) - 1);
	return ioctl(fd, HUVM_IOC_PRESET_SET, &p);
}

static inline int set_preset(int fd, uint32_t scope, const char *name)
{
	return set_preset_of(fd, scope, 0, name);
}

static inline int limit_chunks(int fd, uint32_t gpu, uint32_t chunks)
{
	ARG(huvm_test_limits, l, .gpu = gpu, .chunks = chunks);

	return ioctl(fd, HUVM_IOC_TEST_LIMITS, &l);
}

static inline uint32_t read_reg(int fd, uint32_t gpu, uint32_t offset)
{
	ARG(huvm_test_reg, r, .gpu = gpu, .offset = offset);

	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_REG, &r));
	return r.value;
}

/* Writes a register of BAR5: Documentation/device.md 2.6. */
static inline void test_reg(int fd, uint32_t gpu, uint32_t offset, uint32_t value)
{
	ARG(huvm_test_reg, r, .gpu = gpu, .offset = offset, .value = value, .write = 1);

	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_REG, &r));
}

/* Registers of the INJECT block (Documentation/device.md 2.6). */
enum {
	INJ_VALID_DELAY = 0x50004, INJ_REORDER = 0x50008, INJ_DUPLICATE = 0x5000c, INJ_OVERFLOW = 0x50010,
	INJ_CE_FAULT = 0x50014, INJ_CE_HANG = 0x50018, INJ_LINK_DOWN = 0x5001c, INJ_GONE = 0x50020,
	INJ_DROP_INTR = 0x50024, INJ_NEG_TLB = 0x50028, INJ_LATENCY = 0x50030, INJ_ECC_POISON = 0x50034,
	INJ_ECC_REPORT = 0x50038, INJ_COMMAND_HANG = 0x5003c, INJ_CE_STALL = 0x50040,
	INJ_PACKET_LOST = 0x50044, INJ_PACKET_BAD = 0x50048, INJ_PACKET_NEVER_VALID = 0x5004c,
	INJ_OTHER_OVERFLOW = 0x50050, INJ_GET_CORRUPT = 0x50054, INJ_SEM_LOST = 0x50058, INJ_SEM_WRONG = 0x5005c,
	INJ_INTR_STORM = 0x50060, INJ_CE_FAULT_EACH = 0x50064, INJ_PUT_WRONG = 0x50068,
	INJ_READS_ONES = 0x5006c, INJ_WRITES_LOST = 0x50070, INJ_STATUS_WRONG = 0x50074, INJ_STANDS_SAYS = 0x50078,
	INJ_SEM_BACK = 0x5007c, INJ_FLAG_LATE = 0x50080, INJ_INVALIDATE_LATE = 0x50084,
	/* For packets, GET and PUT: without end, as far as a test goes; of the non-replayable ring. */
	INJ_ALL = 0xffff,
};
#define INJ_OTHER_RING (1u << 31)

/* Counters of the STATS block (2.5), low words. */
enum { STAT_NON_REPLAYABLE = 0x40100 + 8 * 10, STAT_REORDERED = 0x40100 + 8 * 30 };

/* Of @what (enum huvm_fail) @after go well, the next @times fail; ~0: all. Returns how many of the last call's did not come to be. */
static inline uint32_t let_fail_after(int fd, uint32_t what, uint32_t after, uint32_t times)
{
	ARG(huvm_test_fail, f, .what = what, .times = times, .after = after);

	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_FAIL, &f));
	return f.left;
}

static inline uint32_t let_fail(int fd, uint32_t what, uint32_t times)
{
	return let_fail_after(fd, what, 0, times);
}

/* Lines of @f, to its end, that have what the pattern says (of fnmatch). */
static inline unsigned int lines_with(FILE *f, const char *pattern)
{
	char line[1024], all[512];
	unsigned int n = 0;

	snprintf(all, sizeof(all), "*%s*", pattern);
	while (fgets(line, sizeof(line), f))
		n += !fnmatch(all, line, 0);
	return n;
}

static inline void print_all(FILE *f)
{
	char line[1024];

	rewind(f);
	while (fgets(line, sizeof(line), f))
		printf("# | %s", line);
}

/* uvmctl prints a line with what the pattern says, and ends within a bound. Exit code: what came of it. */
static inline int says(const char *command, const char *pattern)
{
	char line[512];
	FILE *f = tmpfile();
	int status;

	CHECK(f);
	fflush(stdout);
	snprintf(line, sizeof(line), "timeout %d /bin/uvmctl %s >&%d 2>&1", 20 * time_scale(), command, fileno(f));
	status = system(line);
	rewind(f);
	if (!lines_with(f, pattern)) {
		print_all(f);
		FAIL("uvmctl %s does not say '%s' (status %#x)", command, pattern, status);
	}
	fclose(f);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* uvmctl doctor finds something wrong, and says what. */
static inline void doctor_finds(const char *pattern)
{
	CHECK_EQ(says("doctor", pattern), 1);
}

/*
 * fork() of a child that ends with its parent. One that outlives a parent that is killed has its file, and waits for ever for what the parent
 * had to tell.
 */
static inline pid_t fork_child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(100);
	return pid;
}

/* A uvmctl that tells of what goes out of service, from now on. */
struct teller {
	pid_t pid;
	char path[32];
};

static inline struct teller teller_begin(void)
{
	struct teller t = { 0 };
	int fd = huvm_open();
	struct stat st;

	snprintf(t.path, sizeof(t.path), "/tmp/events.%d", (int)getpid());
	fflush(stdout);
	t.pid = fork_child();
	CHECK(t.pid >= 0);
	if (!t.pid) {
		int out = open(t.path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

		dup2(out, 1);
		execl("/bin/uvmctl", "uvmctl", "events", "--type", "cpu-fault,gpu-lost,channel-lost,link,forfeit,retired", NULL);
		_exit(1);
	}
	/* By what it tells of a touch one sees that it listens. */
	CHECK(WITHIN(20000, ({
		volatile uint64_t *p = managed(fd, BLOCK);

		p[0] = 1;
		CHECK_OK(munmap((void *)(uintptr_t)p, BLOCK));
		!stat(t.path, &st) && st.st_size;
	})));
	CHECK_OK(close(fd));
	return t;
}

static inline unsigned int told(const struct teller *t, const char *pattern)
{
	FILE *f = fopen(t->path, "r");
	unsigned int n;

	CHECK(f);
	n = lines_with(f, pattern);
	fclose(f);
	return n;
}

/* It tells of this before long, so many times. */
static inline void tells(const struct teller *t, const char *pattern, unsigned int times)
{
	if (!WITHIN(5000, told(t, pattern) >= times) || told(t, pattern) != times) {
		FILE *f = fopen(t->path, "r");

		CHECK(f);
		print_all(f);
		FAIL("uvmctl events tells of '%s' %u times, wanted %u", pattern, told(t, pattern), times);
	}
}

static inline void teller_end(struct teller *t)
{
	end_child(t->pid);
	CHECK_OK(unlink(t->path));
}

/* LONG=1 on tests/run: more rounds, and as much more time for the test. */
static inline int rounds(int usual)
{
	const char *s = getenv("HUVM_LONG");
	int times = s && atoi(s) ? 10 : 1;

	ktap_takes(times);
	return times * usual;
}

/* Bit of the link from @gpu to @peer in LINK_DOWN. */
static inline uint32_t link_bit(int fd, uint32_t gpu, uint32_t peer)
{
	for (uint32_t i = 0;; i++) {
		ARG(huvm_link_info, l, .gpu = gpu, .index = i);

		CHECK_OK(ioctl(fd, HUVM_IOC_LINK_INFO, &l));
		if (l.peer == peer)
			return 1u << i;
	}
}

#endif
