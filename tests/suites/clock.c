// SPDX-License-Identifier: GPL-2.0
/*
 * The virtual clock that all figures are read off (-icount, qemu/patches/icount-at-once.patch): it goes by the instructions of
 * a CPU as fast as the timing profile says, and CPUs run at once. Needs HUVM_MIPS, what the profile says; two CPUs.
 */
#define _GNU_SOURCE
#include "ktap.h"

#include <pthread.h>
#include <sched.h>

#define TURNS 50000000L
#define INSNS_PER_TURN 2

/* Seconds that so many turns should take. */
static double turns_take(long turns)
{
	const char *mips = getenv("HUVM_MIPS");

	if (!mips || atoi(mips) <= 0)
		SKIP("no virtual clock (HUVM_MIPS)");
	return (double)turns * INSNS_PER_TURN / (atof(mips) * 1e6);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK_OK(sched_setaffinity(0, sizeof(set), &set));
}

static double spin(long turns)
{
	double began = seconds();

	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
	return seconds() - began;
}

static pthread_barrier_t both;

static void *beside(void *arg)
{
	pin(1);
	pthread_barrier_wait(&both);
	*(double *)arg = spin(TURNS);
	return NULL;
}

/* The debug kernel's interrupts take some percent. */
static void within(double s, double want)
{
	printf("# %.3f ms, wanted %.3f ms\n", s * 1e3, want * 1e3);
	CHECK(s > want * 0.97 && s < want * 1.15);
}

/* Catches a clock that goes by something else than this CPU's instructions. */
static void as_fast_as_the_profile_says(void)
{
	double want = turns_take(TURNS);

	pin(0);
	within(spin(TURNS), want);
	within(spin(TURNS / 10), want / 10);
}

/* Catches CPUs of which each stands still, as the clock sees it, while another one runs. */
static void cpus_run_at_once(void)
{
	double want = turns_take(TURNS), there;
	pthread_t t;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP("one CPU");
	pin(0);
	CHECK_EQ(pthread_barrier_init(&both, NULL, 2), 0);
	CHECK_EQ(pthread_create(&t, NULL, beside, &there), 0);
	pthread_barrier_wait(&both);
	within(spin(TURNS), want);
	CHECK_EQ(pthread_join(t, NULL), 0);
	within(there, want);
}

static void an_idle_cpu_does_not_count(void)
{
	double began;

	turns_take(1);
	/* Until the kernel trusts its clock, a second after the boot, it sleeps by ticks. */
	sleep(2);
	began = seconds();
	usleep(20000);
	within(seconds() - began, 0.020);
}

static const struct ktap_test tests[] = {
	{ "as_fast_as_the_profile_says", as_fast_as_the_profile_says },
	{ "cpus_run_at_once", cpus_run_at_once },
	{ "an_idle_cpu_does_not_count", an_idle_cpu_does_not_count },
};
KTAP_MAIN(tests)
