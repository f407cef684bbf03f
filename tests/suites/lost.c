// SPDX-License-Identifier: GPL-2.0
/* The last GPU of the machine disappears under load: clear errors, nobody hangs, the others go on. Run last: it does not
 * come back. */
#include "huvm_lib.h"

#define LEN (12 * BLOCK)

static void gone_under_load(void)
{
	int fd = huvm_open();
	uint32_t n = gpu_count(fd), g = n - 1;
	struct huvm_instr i = over(HUVM_OP_FILL, LEN, 16);
	volatile uint64_t *p = managed(fd, LEN);
	uint64_t *other = managed(fd, BLOCK), id;
	struct teller e = teller_begin();
	struct huvm_wait w;
	uint64_t before = counter(fd, HUVM_SCOPE_GPU, g, HUVM_CNT_LAUNCHES);
	char what[96], gpu[8];
	int status;
	pid_t job;

	/* A job of the tool's is there as well. */
	snprintf(gpu, sizeof(gpu), "%u", g);
	fflush(stdout);
	job = fork_child();
	CHECK(job >= 0);
	if (!job) {
		CHECK(freopen("/dev/null", "w", stdout));
		execlp("uvmctl", "uvmctl", "run", "scan", "--gpu", gpu, "--ratio", "0.9", "--iterations", "1000", "--warmup", "0", "--blocks", "4",
		       NULL);
		_exit(127);
	}
	CHECK(WITHIN(20000, counter(fd, HUVM_SCOPE_GPU, g, HUVM_CNT_LAUNCHES) > before));
	CHECK_OK(gpu_register(fd, g));
	i.dst = (uintptr_t)p;
	i.imm0 = 1;
	other[0] = 42;
	CHECK_OK(launch(fd, g, 16, &i, 1, 8, &id));
	usleep(2000);
	test_reg(fd, g, INJ_GONE, 0xdead);
	w = wait_launch(fd, id);
	CHECK(w.status == HUVM_LAUNCH_FAILED || w.status == HUVM_LAUNCH_DONE);
	CHECK_EQ(other[0], 42);
	CHECK_ERR(launch(fd, g, 16, &i, 1, 8, &id), EIO);
	CHECK_ERR(migrate(fd, (void *)(uintptr_t)p, LEN, g), EIO);
	{
		ARG(huvm_gpu_info, info, .gpu = g);

		CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &info));
		CHECK_EQ(info.state, HUVM_GPU_LOST);
	}
	snprintf(what, sizeof(what), "gpu %u *lost: it does not answer*reset the machine", g);
	doctor_finds(what);
	snprintf(what, sizeof(what), "gpu-lost *gpu%u *it does not answer", g);
	tells(&e, what, 1);
	tells(&e, "gpu-lost", 1);
	teller_end(&e);
	/* It has an exit code for that. */
	CHECK_EQ(waitpid(job, &status, 0), job);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 15);
	if (n > 1) {
		CHECK_OK(gpu_register(fd, 0));
		gpu_fill(fd, 0, other, BLOCK, 4, 6, 1);
		cpu_check(other, BLOCK, 6, 1);
	}
}

static void data_only_there_is_lost(void)
{
	/* The test before left the GPU lost; here a client had data on it when it went. */
	int fd = huvm_open(), status;
	uint32_t n = gpu_count(fd), g = n - 2;
	volatile uint64_t *p = managed(fd, BLOCK);
	uint64_t *q;

	if (n < 3)
		SKIP("needs three GPUs");
	CHECK_OK(gpu_register(fd, g));
	gpu_fill(fd, g, (void *)(uintptr_t)p, BLOCK, 4, 1, 1);
	CHECK_EQ(block_info(fd, (void *)(uintptr_t)p).gpu_pages[g], 512);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	q = managed(fd, BLOCK);
	cpu_fill(q, BLOCK, 4, 3);
	gpu_check(fd, g, q, BLOCK, 4, 4, 3);
	CHECK_EQ(block_info(fd, q).gpu_pages[g], 512);
	test_reg(fd, g, INJ_GONE, 0xdead);
	{
		ARG(huvm_migrate, m, .va = (uintptr_t)p, .length = BLOCK, .dst = HUVM_PLACE_HOST);

		CHECK_ERR(ioctl(fd, HUVM_IOC_MIGRATE, &m), EIO);
	}
	/* But not what it only read (knob keep_host_copy). */
	cpu_check(q, BLOCK, 4, 3);
	q[1] = 1;
	CHECK_EQ(block_info(fd, q).host_pages, 512);
	signal(SIGBUS, SIG_DFL);
	status = open("/proc/self/mem", O_RDONLY);
	CHECK_ERR(pread(status, &n, 4, (off_t)(uintptr_t)p), EIO);
}

static void no_new_clients(void)
{
	int fd = huvm_open();
	uint32_t g = gpu_count(fd) - 1;

	CHECK_ERR(gpu_register(fd, g), EIO);
}

static void lost_when_it_is_unbound(void)
{
	/* Half of the block is at home when the GPU goes and its driver lets go of it: that half stays, the other is lost. */
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK), v;
	char name[64];

	pci_name(fd, 0, name);
	CHECK_OK(gpu_register(fd, 0));
	gpu_fill(fd, 0, p, BLOCK, 4, 5, 2);
	CHECK_OK(migrate(fd, p, BLOCK / 2, HUVM_PLACE_HOST));
	test_reg(fd, 0, INJ_GONE, 0xdead);
	CHECK_OK(write_file(DRIVER "unbind", name));
	/* Not zeroes, nor what was there before. */
	CHECK_EQ(unreadable(p, BLOCK, 5, 2), BLOCK / 2 / PAGE);
	CHECK_EQ(reads(&p[BLOCK / 8 - 1], &v), SIGBUS);
	CHECK_EQ(reads(&p[BLOCK / 16 - 1], &v), 0);
	CHECK_EQ(v, 5 + 2 * (BLOCK / 16 - 1));
}

static const struct ktap_test tests[] = {
	{ "gone_under_load", gone_under_load }, { "data_only_there_is_lost", data_only_there_is_lost }, { "no_new_clients", no_new_clients },
	{ "lost_when_it_is_unbound", lost_when_it_is_unbound },
};
KTAP_MAIN(tests)
