/* SPDX-License-Identifier: GPL-2.0 */
/* Which places of the driver a call went through, on a kernel with KCOV (tests/config/race.config); elsewhere nothing. */
#ifndef KCOV_LIB_H
#define KCOV_LIB_H

#include "huvm_lib.h"

#define KCOV_INIT_TRACE	_IOR('c', 1, unsigned long)
#define KCOV_ENABLE	_IO('c', 100)
#define KCOV_ENTRIES	(64u << 10)
/* Places that can be told apart, a power of two: the module has some ten thousand. */
#define KCOV_PLACES	(1u << 18)

static struct {
	int fd;
	uint64_t *trace;	/* how many, then their addresses */
	uint8_t seen[KCOV_PLACES];
	uint64_t places;
} kcov = { .fd = -1 };

/* While this process may still open it; false without KCOV. */
static inline int kcov_open(void)
{
	kcov.fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (kcov.fd < 0)
		return 0;
	CHECK_OK(ioctl(kcov.fd, KCOV_INIT_TRACE, (unsigned long)KCOV_ENTRIES));
	kcov.trace = mmap(NULL, KCOV_ENTRIES * 8, PROT_READ | PROT_WRITE, MAP_SHARED, kcov.fd, 0);
	CHECK(kcov.trace != MAP_FAILED);
	CHECK_OK(ioctl(kcov.fd, KCOV_ENABLE, 0ul));
	return 1;
}

static inline void kcov_begin(void)
{
	if (kcov.fd >= 0)
		__atomic_store_n(&kcov.trace[0], 0, __ATOMIC_RELAXED);
}

/* Places that no call before had gone through. */
static inline uint64_t kcov_end(void)
{
	uint64_t n, fresh = 0;

	if (kcov.fd < 0)
		return 0;
	n = __atomic_load_n(&kcov.trace[0], __ATOMIC_RELAXED);
	for (uint64_t i = 1; i <= n && i < KCOV_ENTRIES; i++) {
		uint64_t place = kcov.trace[i] * 0x9e3779b97f4a7c15ull >> 46;

		fresh += !kcov.seen[place];
		kcov.seen[place] = 1;
	}
	kcov.places += fresh;
	return fresh;
}

#endif
