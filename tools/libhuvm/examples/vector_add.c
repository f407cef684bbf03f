/* SPDX-License-Identifier: GPL-2.0 */
/*
 * z = x + y on GPU 0, checked by the CPU.
 *
 *	cargo rustc --release -p libhuvm --features capi --crate-type staticlib
 *	cc -Iuapi -Itools/libhuvm/include tools/libhuvm/examples/vector_add.c target/release/liblibhuvm.a -lpthread -ldl -lm
 */
#include <inttypes.h>
#include <stdio.h>

#include "libhuvm.h"

#define BYTES	(8ull << 20)
#define WORDS	(BYTES / 8)

static int fail(const char *what, int err)
{
	fprintf(stderr, "vector_add: %s: error %d; hint: %s\n", what, -err, libhuvm_hint(err));
	return 1;
}

int main(void)
{
	libhuvm *h;
	void *mem[3];
	uint64_t *x, *y, *z, i, wrong = 0;
	int err, k;

	err = libhuvm_open(&h);
	if (err)
		return fail("opening /dev/huvm", err);
	err = libhuvm_register(h, 0);
	if (err)
		return fail("registering GPU 0", err);
	for (k = 0; k < 3; k++) {
		err = libhuvm_alloc(h, BYTES, &mem[k]);
		if (err)
			return fail("allocating", err);
	}
	x = mem[0];
	y = mem[1];
	z = mem[2];
	for (i = 0; i < WORDS; i++) {
		x[i] = i;
		y[i] = 2 * i + 1;
	}
	err = libhuvm_vector_add(h, 0, 32, z, x, y, BYTES);
	if (err)
		return fail("adding", err);
	for (i = 0; i < WORDS; i++)
		wrong += z[i] != 3 * i + 1;
	printf("%llu words added, %" PRIu64 " wrong\n", WORDS, wrong);
	for (k = 0; k < 3; k++)
		libhuvm_free(mem[k], BYTES);
	libhuvm_close(h);
	return wrong != 0;
}
