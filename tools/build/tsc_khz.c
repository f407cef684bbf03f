// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the frequency of this machine's time stamp counter, kHz; nothing where there is none. An emulated CPU without -icount shows
 * its guest that counter.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>

/* Both clocks at one moment: of some tries the one in which least time passed meanwhile. */
static void both(uint64_t *ns, uint64_t *ticks)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t from = __rdtsc(), to;
		struct timespec t;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		to = __rdtsc();
		if (to - from >= least)
			continue;
		least = to - from;
		*ticks = from + least / 2;
		*ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	}
}

int main(void)
{
	const struct timespec wait = { .tv_nsec = 50000000 };
	uint64_t ns[2] = { 0, 0 }, ticks[2] = { 0, 0 };

	both(&ns[0], &ticks[0]);
	nanosleep(&wait, NULL);
	both(&ns[1], &ticks[1]);
	if (ns[1] <= ns[0] || ticks[1] <= ticks[0])
		return 1;
	printf("%llu\n", (unsigned long long)((double)(ticks[1] - ticks[0]) * 1e6 / (double)(ns[1] - ns[0]) + 0.5));
	return 0;
}
#else
int main(void)
{
	return 0;
}
#endif
