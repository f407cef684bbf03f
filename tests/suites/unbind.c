// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU goes: by unbind while it works, by dying, by an engine that hangs or faults. Nothing hangs, nothing that the host
 * has is lost, and the GPU can come back.
 */
#include "huvm_lib.h"

#include <pthread.h>

#define LEN (16 * MIB)
#define BLOCKS 8u

/* Reads all of [p, p + len) again and again, and so keeps the GPU busy until it is stopped. */
static uint64_t long_launch(int fd, uint32_t gpu, void *p, uint64_t len)
{
	struct huvm_instr i = over(HUVM_OP_CHECK, len, BLOCKS);
	ARG(huvm_launch, l, .gpu = gpu, .blocks = BLOCKS, .iterations = 1u << 20, .elem_bytes = 8, .nr_instr = 1,
	    .instrs = (uintptr_t)&i);

	i.a = (uintptr_t)p;
	i.imm0 = 5;
	i.imm1 = 3;
	CHECK_OK(ioctl(fd, HUVM_IOC_LAUNCH, &l));
	return l.launch;
}

/* Status of a launch that ended; 0 when it was taken away with its GPU (the id is gone then). */
static uint32_t ended(int fd, uint64_t id)
{
	ARG(huvm_wait, w, .launch = id, .timeout_ns = launch_limit_ns());

	if (ioctl(fd, HUVM_IOC_WAIT, &w) == 0)
		return w.status;
	CHECK_EQ(errno, ENOENT);
	return 0;
}

static void unbind_while_running(void)
{
	int fd = huvm_open();
	char name[32];

	pci_name(fd, 0, name);
	for (int turn = 0; turn < 3; turn++) {
		uint64_t id, *p;
		double t;

		CHECK_OK(gpu_register(fd, 0));
		p = managed(fd, LEN);
		gpu_fill(fd, 0, p, LEN, BLOCKS, 5, 3);
		id = long_launch(fd, 0, p, LEN);
		usleep(50000);
		t = seconds();
		CHECK_OK(write_file(DRIVER "unbind", name));
		printf("# unbind took %.2f s\n", seconds() - t);
		CHECK(ended(fd, id) != HUVM_LAUNCH_DONE);
		/* What only the GPU had came home. */
		cpu_check(p, LEN, 5, 3);
		CHECK_ERR(gpu_register(fd, 0), ENODEV);
		CHECK_ERR(migrate(fd, p, LEN, 0), ENODEV);
		CHECK_OK(write_file(DRIVER "bind", name));
		CHECK_OK(munmap(p, LEN));
	}
	/* The one that came back works. */
	works(fd, 0);
	close(fd);
}

/* A launch of the GPU that was there before is not one of the GPU that is bound again. */
static void ids_never_repeat(void)
{
	struct huvm_instr i = till_ended();
	int fd = huvm_open();
	uint64_t ids[3];
	char name[32];

	pci_name(fd, 0, name);
	for (int turn = 0; turn < 3; turn++) {
		ARG(huvm_wait, w);

		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &ids[turn]));
		for (int old = 0; old < turn; old++) {
			CHECK(ids[old] != ids[turn]);
			w.launch = ids[old];
			CHECK_ERR(ioctl(fd, HUVM_IOC_ABORT, &w), ENOENT);
		}
		w.launch = ids[turn];
		CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, &w));
		CHECK_EQ(w.status, HUVM_LAUNCH_RUNNING);
		rebind(name);
	}
	close(fd);
}

static void *waits(void *arg)
{
	struct huvm_wait *w = arg;
	int fd = (int)w->mismatches;

	CHECK_OK(ioctl(fd, HUVM_IOC_WAIT, w));
	return NULL;
}

/* Who waits when the GPU goes hears what became of the launch, and gets nothing back that was his own. */
static void unbind_under_a_wait(void)
{
	struct huvm_instr i = till_ended();
	int fd = huvm_open();
	struct huvm_wait w;
	pthread_t t;
	char name[32];

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	memset(&w, 0xff, sizeof(w));
	w.size = sizeof(w);
	w.flags = w.reserved = 0;
	w.timeout_ns = launch_limit_ns();
	CHECK_OK(launch(fd, 0, 1, &i, 1, 8, (uint64_t *)&w.launch));
	/* A field that only comes out. */
	w.mismatches = (uint64_t)fd;
	CHECK_EQ(pthread_create(&t, NULL, waits, &w), 0);
	CHECK(WITHIN(5000, is_listed("launch", getpid())));
	rebind(name);
	CHECK_EQ(pthread_join(t, NULL), 0);
	if (w.status == HUVM_LAUNCH_FAILED)
		CHECK_EQ(w.error, HUVM_ERROR_GPU_LOST);
	else
		CHECK_EQ(w.status, HUVM_LAUNCH_ABORTED);
	CHECK_EQ(w.fault_va, 0);
	CHECK_EQ(w.fault_type, 0);
	CHECK_EQ(w.access_type, 0);
	CHECK_EQ(w.mismatches, 0);
	CHECK_EQ(w.mismatch_va, 0);
	CHECK_EQ(w.faults, 0);
	CHECK_EQ(w.bytes, 0);
	CHECK_EQ(w.blocks_done, 0);
	CHECK(w.start_ns != ~0ull && w.end_ns != ~0ull);
	close(fd);
}

static volatile int stop;
static uint64_t good;

/* A client that registers, computes and checks for ever, and takes any error but a wrong byte or a hang. */
static void *client(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop) {
		int fd = open(HUVM_DEVICE_PATH, O_RDWR);
		struct huvm_instr i = over(HUVM_OP_FILL, LEN / 4, BLOCKS);
		uint64_t *p, id;

		if (fd < 0)
			FAIL("open: %s", strerror(errno));
		p = managed(fd, LEN / 4);
		if (gpu_register(fd, 0) == 0) {
			i.dst = (uintptr_t)p;
			i.imm0 = seed;
			i.imm1 = 9;
			if (launch(fd, 0, BLOCKS, &i, 1, 8, &id) == 0 &&
			    ended(fd, id) == HUVM_LAUNCH_DONE) {
				cpu_check(p, LEN / 4, seed, 9);
				if (migrate(fd, p, LEN / 4, 0) == 0 || errno != EFAULT)
					cpu_check(p, LEN / 4, seed, 9);
				__atomic_fetch_add(&good, 1, __ATOMIC_RELAXED);
			}
		} else {
			usleep(2000);
		}
		close(fd);
		CHECK_OK(munmap(p, LEN / 4));
	}
	return NULL;
}

static void unbind_under_load(void)
{
	int fd = huvm_open();
	pthread_t t[3];
	uint64_t before;
	char name[32];

	pci_name(fd, 0, name);
	for (uintptr_t i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, client, (void *)(i + 1)), 0);
	for (int turn = 0; turn < 6; turn++) {
		usleep(300000);
		CHECK_OK(write_file(DRIVER "unbind", name));
		usleep(20000);
		CHECK_OK(write_file(DRIVER "bind", name));
	}
	/* It serves them again. */
	before = __atomic_load_n(&good, __ATOMIC_RELAXED);
	CHECK(WITHIN(20000, __atomic_load_n(&good, __ATOMIC_RELAXED) > before));
	stop = 1;
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	printf("# %llu rounds before the last time that it was bound, %llu in all\n", (unsigned long long)before,
	       (unsigned long long)good);
	close(fd);
}

static void copy_engine_faults(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, LEN);
	uint64_t before = counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_CE_ERRORS);
	struct teller e = teller_begin();
	char what[64];

	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, LEN, 11, 2);
	for (uint32_t n = 1; n < 6; n++) {
		test_reg(fd, 0, INJ_CE_FAULT, n);
		CHECK_OK(migrate(fd, p, LEN, 0));
		test_reg(fd, 0, INJ_CE_FAULT, n);
		CHECK_OK(migrate(fd, p, LEN, HUVM_PLACE_HOST));
	}
	cpu_check(p, LEN, 11, 2);
	CHECK(WITHIN(5000, counter(fd, HUVM_SCOPE_GPU, 0, HUVM_CNT_CE_ERRORS) >= before + 10));
	/* That they were is counted; nothing went out of service. */
	snprintf(what, sizeof(what), "ce_errors * %llu", (unsigned long long)of_gpu(fd, 0, HUVM_CNT_CE_ERRORS));
	CHECK_EQ(says("stat --gpu 0", what), 0);
	CHECK_EQ(says("doctor", "gpu 0 *ok *0000:"), 0);
	tells(&e, "-lost", 0);
	teller_end(&e);
	close(fd);
}

static void lost_interrupts(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, LEN);
	double t = seconds();

	CHECK_OK(gpu_register(fd, 0));
	for (int n = 0; n < 4; n++) {
		test_reg(fd, 0, INJ_DROP_INTR, 3);
		gpu_fill(fd, 0, p, LEN, BLOCKS, n, 1);
		CHECK(read_reg(fd, 0, INJ_DROP_INTR) < 3);
		test_reg(fd, 0, INJ_DROP_INTR, 2);
		cpu_check(p, LEN, n, 1);
	}
	test_reg(fd, 0, INJ_DROP_INTR, 0);
	printf("# %.2f s\n", seconds() - t);
	close(fd);
}

static void copy_engine_hangs(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, LEN);
	struct teller e = teller_begin();
	char name[32];
	double t = seconds();

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, LEN, 13, 5);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	CHECK_ERR(migrate(fd, p, LEN, 0), EIO);
	printf("# gave up after %.1f s\n", seconds() - t);
	tells(&e, "channel-lost *gpu0 *host-to-gpu copies: *completed nothing", 1);
	teller_end(&e);
	doctor_finds("gpu 0 channels *given up: host-to-gpu*bind it again");
	/* The source of a copy that failed is still good. */
	cpu_check(p, LEN, 13, 5);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	cpu_check(p, LEN, 13, 5);
	close(fd);
	/* A fresh start mends it. */
	rebind(name);
	says("doctor", "gpu 0 *ok *0000:");
	fd = huvm_open();
	works(fd, 0);
	close(fd);
}

/*
 * The engine that evicts stands still: what was on its way comes to the host all the same, though its memory is somebody else's; so does
 * what is evicted from then on, what the CPU wants, and what is there when the GPU is unbound. No other engine is given up for it.
 */
static void without_evicting_engine(uint32_t injection, uint32_t value, const char *why)
{
	enum { SMALL = 8 };
	int fd = huvm_open();
	uint64_t *p = managed(fd, SMALL * BLOCK), *q = managed(fd, SMALL * BLOCK);
	uint64_t rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED);
	struct teller e = teller_begin();
	char name[32];
	double t;

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	CHECK_OK(limit_chunks(fd, 0, SMALL));
	cpu_fill(q, SMALL * BLOCK / 2, 21, 5);
	gpu_fill(fd, 0, p, SMALL * BLOCK, BLOCKS, 21, 5);
	CHECK_EQ(free_chunks(fd, 0), 0);
	test_reg(fd, 0, injection, value);
	t = seconds();
	/* The copies in wait on the GPU. */
	gpu_scale(fd, 0, q, SMALL * BLOCK / 2, BLOCKS, 1, 1);
	rescued = of_gpu(fd, 0, HUVM_CNT_EVICTIONS_RESCUED) - rescued;
	printf("# the launch took %.1f s, %llu evictions rescued\n", seconds() - t, (unsigned long long)rescued);
	CHECK(rescued > 0);
	tells(&e, why, 1);
	tells(&e, "channel-lost", 1);
	teller_end(&e);
	doctor_finds("gpu 0 channels *given up: gpu-to-host; *bind it again");
	gpu_check(fd, 0, p, SMALL * BLOCK, BLOCKS, 21, 5);
	cpu_check(q, SMALL * BLOCK / 4, 22, 5);
	gpu_fill(fd, 0, q + SMALL * BLOCK / 16, SMALL * BLOCK / 2, BLOCKS, 23, 5);
	/* It is not reset, and would fault when it is bound. */
	if (injection == INJ_CE_FAULT_EACH)
		test_reg(fd, 0, injection, 0);
	CHECK_OK(write_file(DRIVER "unbind", name));
	cpu_check(p, SMALL * BLOCK, 21, 5);
	cpu_check(q, SMALL * BLOCK / 2, 22, 5);
	cpu_check(q + SMALL * BLOCK / 16, SMALL * BLOCK / 2, 23, 5);
	CHECK_OK(write_file(DRIVER "bind", name));
	says("doctor", "gpu 0 *ok *0000:");
	close(fd);
	fd = huvm_open();
	works(fd, 0);
	close(fd);
}

static void evicting_engine_hangs(void)
{
	without_evicting_engine(INJ_CE_HANG, 1, "channel-lost *gpu0 *gpu-to-host copies: *completed nothing");
}

static void evicting_engine_faults(void)
{
	/* That which copies to the host. */
	without_evicting_engine(INJ_CE_FAULT_EACH, 2, "channel-lost *gpu0 *gpu-to-host copies: *faulted again");
}

/* The engine that serves cancels stands still: a launch that cannot be served cannot be cancelled either, and must end. */
static void local_engine_hangs(void)
{
	int fd = huvm_open();
	struct huvm_instr i = over(HUVM_OP_FILL, LEN, BLOCKS);
	uint64_t *p = managed(fd, LEN), id;
	double t = seconds();
	struct teller e = teller_begin();
	uint32_t status;
	char name[32];
	ARG(huvm_gpu_info, info, .gpu = 0);

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	/* The first page of the launch is zeroed by a copy engine. */
	test_reg(fd, 0, INJ_CE_HANG, 1);
	i.dst = (uintptr_t)p;
	CHECK_OK(launch(fd, 0, BLOCKS, &i, 1, 8, &id));
	status = ended(fd, id);
	printf("# the launch ended after %.1f s, status %u\n", seconds() - t, status);
	CHECK(status == HUVM_LAUNCH_FAILED || status == HUVM_LAUNCH_ABORTED);
	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &info));
	CHECK_EQ(info.state, HUVM_GPU_OK);
	tells(&e, "channel-lost *gpu0 *local copies: *completed nothing", 1);
	teller_end(&e);
	doctor_finds("gpu 0 channels *given up: *local*bind it again");
	/* It stays so: what needs a copy fails, again and not by hanging. */
	CHECK_OK(launch(fd, 0, BLOCKS, &i, 1, 8, &id));
	CHECK_EQ(ended(fd, id), HUVM_LAUNCH_FAILED);
	test_reg(fd, 0, INJ_CE_HANG, 0);
	close(fd);
	rebind(name);
	fd = huvm_open();
	works(fd, 0);
	close(fd);
}

static void failslab(const char *knob, const char *value)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc" };
	char path[128];

	for (unsigned int k = 0; k < 2; k++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", kinds[k], knob);
		write_file(path, value);
	}
}

/* Each allocation of a probe fails once: nothing is left behind, and the next probe works. */
static void probe_fails_anywhere(void)
{
	int fd = huvm_open(), nth = open("/proc/thread-self/fail-nth", O_RDWR);
	unsigned int failed = 0, survived = 0;
	double t = seconds();
	char name[32], text[16];

	if (nth < 0)
		SKIP("no fault injection in this kernel");
	pci_name(fd, 0, name);
	close(fd);
	failslab("ignore-gfp-wait", "N");
	failslab("min-order", "0");
	failslab("verbose", "0");
	CHECK_OK(write_file(DRIVER "unbind", name));
	/* Suite fail_behind has the same of a GPU that comes back, with others there. */
	for (unsigned int n = 1;; n += 1 + n / (rounds(1) > 1 ? 20 : 12)) {
		int bound, left;

		snprintf(text, sizeof(text), "%u", n);
		CHECK_OK(pwrite(nth, text, strlen(text), 0));
		bound = write_file(DRIVER "bind", name) == 0;
		memset(text, 0, sizeof(text));
		/* Copies to and from user space count too, so the failure may be due here. */
		left = pread(nth, text, sizeof(text) - 1, 0) < 0 ? 1 : atoi(text);
		if (pwrite(nth, "0", 1, 0) < 0)
			CHECK_OK(pwrite(nth, "0", 1, 0));
		if (bound && left) {
			printf("# probe has fewer than %u allocations; %u failures refused it, %u did not matter\n", n,
			       failed, survived);
			break;
		}
		if (!bound) {
			failed++;
			continue;
		}
		survived++;
		CHECK_OK(write_file(DRIVER "unbind", name));
		if (seconds() - t > 100 * time_scale()) {
			printf("# stopped at allocation %u; %u failures refused it, %u did not matter\n", n, failed,
			       survived);
			CHECK_OK(write_file(DRIVER "bind", name));
			break;
		}
	}
	CHECK(failed > 10);
	forgive_interrupts();
	fd = huvm_open();
	works(fd, 0);
	close(fd);
}

/* Last: a device that is gone stays so until it is reset. */
static void gone(void)
{
	int fd = huvm_open();
	uint64_t *host = managed(fd, LEN), *gpu, id, v;
	uint32_t last = gpu_count(fd) - 1;
	char name[32], what[128];
	double t;

	pci_name(fd, last, name);
	CHECK_OK(gpu_register(fd, last));
	gpu = managed(fd, LEN);
	cpu_fill(host, LEN, 17, 1);
	gpu_fill(fd, last, gpu, LEN, BLOCKS, 5, 3);
	id = long_launch(fd, last, gpu, LEN);
	usleep(20000);
	test_reg(fd, last, INJ_GONE, 0xdead);
	t = seconds();
	struct huvm_wait w = wait_launch(fd, id);
	printf("# the launch ended after %.2f s, status %u, error %u\n", seconds() - t, w.status, w.error);
	CHECK(w.status == HUVM_LAUNCH_FAILED || w.status == HUVM_LAUNCH_ABORTED);
	t = seconds();
	CHECK_EQ(reads(gpu, &v), SIGBUS);
	printf("# the page was given up after %.2f s\n", seconds() - t);
	CHECK_EQ(reads(host + 100, &v), 0);
	CHECK_EQ(v, 117);
	cpu_check(host, LEN, 17, 1);
	CHECK(migrate(fd, host, LEN, last) < 0);
	CHECK_EQ(errno, EIO);
	snprintf(what, sizeof(what), "gpu %u *lost: it does not answer", last);
	doctor_finds(what);
	/* Nothing that is written to it arrives, and it has nothing free. */
	snprintf(what, sizeof(what), "uvmctl inject fault-lost 3 -g %u 2>/dev/null", last);
	CHECK_EQ(WEXITSTATUS(system(what)), 15);
	snprintf(what, sizeof(what), "uvmctl mem show --csv --no-header --fields gpu,state,free_chunks | grep -qx '%u,lost,'", last);
	CHECK_EQ(system(what), 0);
	t = seconds();
	CHECK_OK(write_file(DRIVER "unbind", name));
	printf("# unbind took %.2f s\n", seconds() - t);
	CHECK(write_file(DRIVER "bind", name) < 0);
	snprintf(what, sizeof(what), "device %s *not bound to huvm", name);
	doctor_finds(what);
	cpu_check(host, LEN, 17, 1);
	close(fd);
}

/* Each file has a copy to GPU 1 under way, and there is always a next one. */
static void files_without_end(void)
{
	for (;;) {
		int fd = huvm_open();
		uint64_t *p = managed(fd, BLOCK);

		CHECK_OK(gpu_register(fd, 1));
		p[0] = 1;
		CHECK_OK(migrate(fd, p, BLOCK, 1));
		CHECK_OK(close(fd));
		CHECK_OK(munmap(p, BLOCK));
	}
}

/* Who has nothing on the GPU that leaves is not waited for. Catches a wait for each of them, and one without end. */
static void beside_files_without_end(void)
{
	enum { WRITERS = 12 };
	int fd = huvm_open();
	pid_t pids[WRITERS];
	char name[32];
	double t;

	pci_name(fd, 0, name);
	for (int i = 0; i < WRITERS; i++) {
		pids[i] = fork_child();
		CHECK(pids[i] >= 0);
		if (!pids[i])
			files_without_end();
	}
	/* Each copy of GPU 1 takes its time. */
	test_reg(fd, 1, INJ_LATENCY, 20000000);
	give_time(500);
	CHECK(WITHIN(5000, copying(NULL, ~0ull) > 1));
	t = seconds();
	CHECK_OK(write_file(DRIVER "unbind", name));
	t = seconds() - t;
	printf("# unbind took %.2f s\n", t);
	CHECK(t < 5 * time_scale());
	CHECK_OK(write_file(DRIVER "bind", name));
	for (int i = 0; i < WRITERS; i++)
		end_child(pids[i]);
	test_reg(fd, 1, INJ_LATENCY, 0);
	gets_idle(fd, 1);
	CHECK_OK(close(fd));
}

static void policy_goes_with_its_gpu(void)
{
	/* What is set for a GPU is that GPU's; a file that used it goes by what the next one has. */
	int fd = huvm_open();
	uint64_t *p = managed(fd, LEN);
	char name[32];

	pci_name(fd, 0, name);
	knob(fd, 0, "zero_copy", 1);
	cpu_fill(p, LEN, 5, 3);
	for (int turn = 0; turn < 2; turn++) {
		CHECK_OK(gpu_register(fd, 0));
		gpu_check(fd, 0, p, LEN, BLOCKS, 5, 3);
		CHECK_EQ(block_info(fd, p).gpu_pages[0], turn ? BLOCK / PAGE : 0);
		rebind(name);
	}
	cpu_check(p, LEN, 5, 3);
	close(fd);
}

static void bound_with_interrupts_lost(void)
{
	/* Which costs time, as ever. */
	int fd = huvm_open();
	char name[32];

	pci_name(fd, 0, name);
	test_reg(fd, 0, INJ_DROP_INTR, 3);
	rebind(name);
	printf("# %u interrupts of 3 were lost\n", 3 - read_reg(fd, 0, INJ_DROP_INTR));
	CHECK(read_reg(fd, 0, INJ_DROP_INTR) < 3);
	test_reg(fd, 0, INJ_DROP_INTR, 0);
	works(fd, 0);
	close(fd);
}

/* Registers with GPU 0 and lets go of it, again and again. */
struct registrar {
	int fd, stop;
	uint64_t registered, refused;
};

static void *registers(void *arg)
{
	struct registrar *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		if (!gpu_register(r->fd, 0)) {
			r->registered++;
			if (gpu_unregister(r->fd, 0))
				CHECK(errno == ENOENT || errno == EBUSY || errno == ENODEV);
		} else {
			CHECK_EQ(errno, ENODEV);
			r->refused++;
			usleep(1000);
		}
	}
	return NULL;
}

/* Who is about to register with a GPU as it goes is no client of it, and none of the one that comes back. */
static void unbind_while_registering(void)
{
	enum { CLIENTS = 6 };
	struct registrar r[CLIENTS];
	pthread_t t[CLIENTS];
	int fd = huvm_open();
	char name[32];

	pci_name(fd, 0, name);
	for (int i = 0; i < CLIENTS; i++)
		r[i].fd = huvm_open();
	for (int turn = 0; turn < 4; turn++) {
		ARG(huvm_gpu_info, info, .gpu = 0);
		uint64_t registered = 0, refused = 0;

		for (int i = 0; i < CLIENTS; i++) {
			r[i] = (struct registrar){ .fd = r[i].fd };
			CHECK_EQ(pthread_create(&t[i], NULL, registers, &r[i]), 0);
		}
		for (int i = 0; i < CLIENTS; i++)
			CHECK(WITHIN(10000, __atomic_load_n(&r[i].registered, __ATOMIC_RELAXED)));
		CHECK_OK(write_file(DRIVER "unbind", name));
		for (int i = 0; i < CLIENTS; i++)
			CHECK(WITHIN(10000, __atomic_load_n(&r[i].refused, __ATOMIC_RELAXED)));
		for (int i = 0; i < CLIENTS; i++) {
			__atomic_store_n(&r[i].stop, 1, __ATOMIC_RELAXED);
			CHECK_EQ(pthread_join(t[i], NULL), 0);
			registered += r[i].registered;
			refused += r[i].refused;
		}
		printf("# %llu times registered, %llu refused\n", (unsigned long long)registered, (unsigned long long)refused);
		CHECK_OK(write_file(DRIVER "bind", name));
		CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &info));
		CHECK_EQ(info.registered_clients, 0);
		for (int i = 0; i < CLIENTS; i++) {
			CHECK_ERR(gpu_unregister(r[i].fd, 0), ENOENT);
			CHECK_OK(gpu_register(r[i].fd, 0));
			CHECK_OK(gpu_unregister(r[i].fd, 0));
		}
	}
	for (int i = 0; i < CLIENTS; i++)
		close(r[i].fd);
	works(fd, 0);
	close(fd);
}

/* Somebody's call that needs a chunk of GPU 0: it may fail. */
static void *wants_a_chunk(void *arg)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);

	(void)arg;
	CHECK_OK(gpu_register(fd, 0));
	if (migrate(fd, p, BLOCK, 0) < 0)
		CHECK(errno == EIO || errno == ENODEV || errno == ENOENT || errno == ENOMEM || errno == EINVAL);
	CHECK_OK(munmap(p, BLOCK));
	CHECK_OK(close(fd));
	return NULL;
}

static void *unbinds(void *arg)
{
	CHECK_OK(write_file(DRIVER "unbind", arg));
	return NULL;
}

/*
 * A GPU is unbound in good order while somebody has a chunk of another's in hand to empty it, and waits for a copy into it that stands, for
 * longer than the GPU waits for him. What is there comes home all the same: who comes first when the copy is given up is a matter of luck.
 */
static void emptied_by_another(void)
{
	for (int n = 0; n < 3; n++) {
		int fd = huvm_open();
		uint64_t *p = managed(fd, BLOCK), half = BLOCK / 2, id;
		struct huvm_instr i = { .op = HUVM_OP_CHECK, .count = PAGE / 8, .steps = 1 };
		pthread_t wants, leaves;
		char name[32];
		double t;

		pci_name(fd, 0, name);
		CHECK_OK(gpu_register(fd, 0));
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "prefetch_mode", 0));
		CHECK_OK(limit_chunks(fd, 0, 1));
		cpu_fill(p, BLOCK, 31, 7);
		gpu_scale(fd, 0, p, half, 1, 1, 5);
		CHECK_EQ(block_info(fd, p).gpu_pages[0], half / PAGE);
		CHECK_EQ(block_info(fd, p).host_pages, half / PAGE);
		test_reg(fd, 0, INJ_CE_HANG, 1);
		i.a = (uintptr_t)p + half;
		CHECK_OK(launch(fd, 0, 1, &i, 1, 8, &id));
		CHECK(WITHIN(5000, !read_reg(fd, 0, INJ_CE_HANG)));
		CHECK_EQ(pthread_create(&wants, NULL, wants_a_chunk, NULL), 0);
		CHECK(WITHIN(5000, mem_info(fd, 0).evicting == 1));
		t = seconds();
		CHECK_EQ(pthread_create(&leaves, NULL, unbinds, name), 0);
		CHECK_EQ(pthread_join(leaves, NULL), 0);
		CHECK_EQ(pthread_join(wants, NULL), 0);
		printf("# unbound after %.1f s\n", seconds() - t);
		cpu_check(p, half, 36, 7);
		cpu_check((uint64_t *)((char *)p + half), half, 31 + 7 * (half / 8), 7);
		CHECK_OK(munmap(p, BLOCK));
		CHECK_OK(write_file(DRIVER "bind", name));
		CHECK_OK(close(fd));
		fd = huvm_open();
		works(fd, 0);
		CHECK_OK(close(fd));
	}
}

static const struct ktap_test tests[] = {
	{ "beside_files_without_end", beside_files_without_end, 60 },
	{ "policy_goes_with_its_gpu", policy_goes_with_its_gpu, 60 },
	{ "bound_with_interrupts_lost", bound_with_interrupts_lost, 60 },
	{ "unbind_while_running", unbind_while_running, 120 }, { "ids_never_repeat", ids_never_repeat },
	{ "unbind_under_a_wait", unbind_under_a_wait },
	{ "unbind_under_load", unbind_under_load, 120 }, { "unbind_while_registering", unbind_while_registering, 60 },
	{ "copy_engine_faults", copy_engine_faults }, { "lost_interrupts", lost_interrupts },
	{ "probe_fails_anywhere", probe_fails_anywhere, 300 },
	{ "copy_engine_hangs", copy_engine_hangs, 120 }, { "local_engine_hangs", local_engine_hangs, 120 },
	{ "evicting_engine_hangs", evicting_engine_hangs, 120 }, { "evicting_engine_faults", evicting_engine_faults, 120 },
	{ "emptied_by_another", emptied_by_another, 120 },
	{ "gone", gone, 120 },
};
KTAP_MAIN(tests)
