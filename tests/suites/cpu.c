// SPDX-License-Identifier: GPL-2.0
/* CPU faults, system calls on managed memory, and what happens to ranges. */
#define _GNU_SOURCE
#include "huvm_lib.h"
#include <sys/uio.h>

static void zero_at_first_touch(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, 4 * BLOCK);

	cpu_check(p, 4 * BLOCK, 0, 0);
}

static void keeps_what_is_written(void)
{
	int fd = huvm_open();
	uint64_t *p = managed(fd, 4 * BLOCK);

	cpu_fill(p, 4 * BLOCK, 7, 3);
	cpu_check(p, 4 * BLOCK, 7, 3);
}

static void huge_mappings(void)
{
	int fd = huvm_open();
	uint64_t before = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_CPU_FAULTS);
	uint64_t *p = managed(fd, 4 * BLOCK);

	CHECK_EQ((uintptr_t)p % BLOCK, 0);
	cpu_fill(p, 4 * BLOCK, 1, 1);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_CPU_FAULTS_2M), 4);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_CPU_FAULTS) - before, 4);
	CHECK_EQ(block_info(fd, p).host_piece_kib, 2048);
}

/* One page of a block is read: @pages of 4 KiB come home, the whole block where that is one piece. @falls: such a piece was asked for in vain. */
static void one_touch(int fd, uint64_t pages, int falls)
{
	uint64_t was = counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_FALLBACKS), *p = managed(fd, BLOCK);

	gpu_fill(fd, 0, p, BLOCK, 1, 3, 5);
	CHECK_EQ(block_info(fd, p).host_pages, 0);
	CHECK_EQ(*(volatile uint64_t *)(p + 300 * PAGE / 8), 3 + 5 * 300 * PAGE / 8);
	CHECK_EQ(block_info(fd, p).host_pages, pages);
	CHECK_EQ(counter(fd, HUVM_SCOPE_SPACE, 0, HUVM_CNT_HOST_FALLBACKS) != was, falls);
	cpu_check(p, BLOCK, 3, 5);
	CHECK_OK(munmap(p, BLOCK));
}

/* Where no 2 MiB piece is allowed, or to be had, a touch does not ask for 512 pages one by one. */
static void touch_without_large_pieces(void)
{
	int fd = huvm_open();

	CHECK_OK(gpu_register(fd, 0));
	one_touch(fd, 512, 0);
	for (uint64_t sizes = 0; sizes < 2; sizes++) {
		CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", sizes));
		one_touch(fd, 16, 0);
	}
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 3));
	let_fail(fd, HUVM_FAIL_HOST_2M, 0xffffffffu);
	one_touch(fd, 16, 1);
	let_fail(fd, HUVM_FAIL_HOST_2M, 0);
	one_touch(fd, 512, 0);
}

static void small_range(void)
{
	int fd = huvm_open();
	unsigned char *p = managed(fd, 3 * PAGE);

	memset(p, 0x5a, 3 * PAGE);
	for (unsigned int i = 0; i < 3 * PAGE; i++)
		CHECK_EQ(p[i], 0x5a);
	CHECK_EQ(block_info(fd, p).managed_pages, 3);
}

static void two_ranges_in_a_block(void)
{
	int fd = huvm_open();
	char *p = managed(fd, BLOCK), *q;

	memset(p, 1, BLOCK);
	CHECK_OK(munmap(p + BLOCK / 2, BLOCK / 2));
	q = mmap(p + BLOCK / 2, BLOCK / 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	CHECK(q == p + BLOCK / 2);
	CHECK_EQ(q[0], 0);
	CHECK_EQ(q[BLOCK / 4 - 1], 0);
	CHECK_EQ(p[BLOCK / 2 - 1], 1);
	memset(q, 2, BLOCK / 4);
	CHECK_EQ(p[BLOCK / 2 - 1], 1);
	CHECK_EQ(block_info(fd, p).managed_pages, 512 * 3 / 4);
}

static void refused_mappings(void)
{
	int fd = huvm_open();

	CHECK(mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
}

static void munmap_in_the_middle(void)
{
	int fd = huvm_open();
	unsigned char *p = managed(fd, 4 * BLOCK);
	const uint64_t cut = BLOCK + 40 * PAGE, len = BLOCK + 100 * PAGE;

	memset(p, 0x11, 4 * BLOCK);
	CHECK_OK(munmap(p + cut, len));
	for (uint64_t i = 0; i < 4 * BLOCK; i += 512)
		if (i < cut || i >= cut + len)
			CHECK_EQ(p[i], 0x11);
	CHECK_EQ(block_info(fd, p + BLOCK).managed_pages, 40);
	CHECK_EQ(block_info(fd, p + 2 * BLOCK).managed_pages, 512 - 140);
	/* The hole faults. */
	if (!fork()) {
		volatile unsigned char *q = p + cut;

		_exit(*q);
	} else {
		int status;

		wait(&status);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
}

static void mremap_is_refused(void)
{
	int fd = huvm_open();
	char *p = managed(fd, 2 * BLOCK);

	memset(p, 9, 2 * BLOCK);
	CHECK(mremap(p, 2 * BLOCK, 4 * BLOCK, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK(errno == EFAULT || errno == EINVAL);
	CHECK(mremap(p, 2 * BLOCK, 2 * BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, p + 64 * BLOCK) == MAP_FAILED);
	CHECK(errno == EFAULT || errno == EINVAL);
	/* Nothing was lost, and shrinking is a munmap. */
	CHECK_EQ(p[0], 9);
	CHECK_EQ(p[2 * BLOCK - 1], 9);
	CHECK(mremap(p, 2 * BLOCK, BLOCK, 0) == p);
	CHECK_EQ(p[BLOCK - 1], 9);
}

static void read_and_write_calls(void)
{
	int fd = huvm_open(), file = memfd_create("huvm", 0);
	char *p = managed(fd, BLOCK);

	CHECK(file >= 0);
	memset(p, 'x', 8 * PAGE);
	CHECK_EQ(write(file, p, 8 * PAGE), 8 * PAGE);
	CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
	/* Into pages never touched: the kernel faults them in. */
	CHECK_EQ(read(file, p + BLOCK / 2, 8 * PAGE), 8 * PAGE);
	CHECK(!memcmp(p, p + BLOCK / 2, 8 * PAGE));
}

static void pinning_is_refused(void)
{
	int fd = huvm_open(), file;
	char *p = managed(fd, BLOCK), *plain;
	struct iovec to, from = { p, PAGE };

	memset(p, 'x', PAGE);
	plain = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	to.iov_base = plain;
	to.iov_len = PAGE;
	CHECK_ERR(process_vm_readv(getpid(), &to, 1, &from, 1, 0), EFAULT);
	file = open("/dev/ram1", O_RDWR | O_DIRECT);
	if (file < 0) {
		printf("# O_DIRECT part left out: no /dev/ram1\n");
		return;
	}
	CHECK_EQ(write(file, plain, PAGE), PAGE);
	CHECK_ERR(pwrite(file, p, PAGE, 0), EFAULT);
	CHECK_ERR(pread(file, p, PAGE, 0), EFAULT);
	CHECK_EQ(p[0], 'x');
}

static void proc_mem(void)
{
	int fd = huvm_open(), mem = open("/proc/self/mem", O_RDWR);
	char *p = managed(fd, BLOCK), buf[64];

	CHECK(mem >= 0);
	strcpy(p + PAGE - 3, "across");
	CHECK_EQ(pread(mem, buf, 7, (uintptr_t)p + PAGE - 3), 7);
	CHECK(!strcmp(buf, "across"));
	CHECK_EQ(pwrite(mem, "ACROSS", 6, (uintptr_t)p + PAGE - 3), 6);
	CHECK(!memcmp(p + PAGE - 3, "ACROSS", 6));
	/* What the process itself may not write now, a debugger may not either; nor does a page come by trying. */
	CHECK_OK(mprotect(p, BLOCK, PROT_READ));
	CHECK_ERR(pwrite(mem, "not", 3, (uintptr_t)p + PAGE - 3), EIO);
	CHECK_ERR(pwrite(mem, "not", 3, (uintptr_t)p + 9 * PAGE), EIO);
	CHECK_EQ(pread(mem, buf, 6, (uintptr_t)p + PAGE - 3), 6);
	CHECK(!memcmp(buf, "ACROSS", 6));
	CHECK_EQ(p[9 * PAGE], 0);
	CHECK_OK(mprotect(p, BLOCK, PROT_READ | PROT_WRITE));
	CHECK_EQ(pwrite(mem, "again", 5, (uintptr_t)p + PAGE - 3), 5);
	CHECK(!memcmp(p + PAGE - 3, "againS", 6));
}

static void proc_mem_of_a_read_only_mapping(void)
{
	int fd = huvm_open(), mem = open("/proc/self/mem", O_RDWR);
	char *p = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0), buf[4] = "old";

	CHECK(mem >= 0);
	CHECK(p != MAP_FAILED);
	CHECK_ERR(pwrite(mem, "new", 4, (uintptr_t)p), EIO);
	CHECK_EQ(pread(mem, buf, 4, (uintptr_t)p), 4);
	CHECK(!memcmp(buf, "\0\0\0", 4));
	CHECK_EQ(p[0], 0);
}

static void read_only_mapping(void)
{
	int fd = huvm_open();
	char *p = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK_EQ(p[100], 0);
	CHECK_OK(mprotect(p, BLOCK, PROT_READ | PROT_WRITE));
	p[100] = 5;
	CHECK_OK(mprotect(p, BLOCK, PROT_READ));
	CHECK_EQ(p[100], 5);
}

static void fork_does_not_inherit(void)
{
	int fd = huvm_open(), status;
	char *p = managed(fd, BLOCK);

	p[0] = 1;
	if (!fork()) {
		ARG(huvm_migrate, m, .va = (uintptr_t)p, .length = PAGE, .dst = HUVM_PLACE_HOST);

		/* The descriptor came along, but its space belongs to the parent. */
		if (ioctl(fd, HUVM_IOC_MIGRATE, &m) != -1 || errno != EPERM)
			_exit(1);
		if (mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EPERM)
			_exit(2);
		_exit(*(volatile char *)p);
	}
	wait(&status);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSEGV);
	CHECK_EQ(p[0], 1);
}

static void close_before_munmap(void)
{
	int fd = huvm_open();
	char *p = managed(fd, BLOCK);

	p[0] = 3;
	CHECK_OK(close(fd));
	p[BLOCK - 1] = 4;
	CHECK_EQ(p[0], 3);
	CHECK_OK(munmap(p, BLOCK));
}

static const struct ktap_test tests[] = {
	{ "zero_at_first_touch", zero_at_first_touch }, { "keeps_what_is_written", keeps_what_is_written },
	{ "touch_without_large_pieces", touch_without_large_pieces },
	{ "huge_mappings", huge_mappings }, { "small_range", small_range },
	{ "two_ranges_in_a_block", two_ranges_in_a_block }, { "refused_mappings", refused_mappings },
	{ "munmap_in_the_middle", munmap_in_the_middle }, { "mremap_is_refused", mremap_is_refused },
	{ "read_and_write_calls", read_and_write_calls }, { "pinning_is_refused", pinning_is_refused },
	{ "proc_mem", proc_mem }, { "proc_mem_of_a_read_only_mapping", proc_mem_of_a_read_only_mapping },
	{ "read_only_mapping", read_only_mapping },
	{ "fork_does_not_inherit", fork_does_not_inherit }, { "close_before_munmap", close_before_munmap },
};
KTAP_MAIN(tests)
