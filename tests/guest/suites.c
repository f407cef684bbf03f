// SPDX-License-Identifier: GPL-2.0
/* The suites as one program: each under its own name, as with busybox. tools/build/image.sh writes list.h. */
#include <stdio.h>
#include <string.h>

#define SUITE(name) int suite_##name(int argc, char **argv);
#include "list.h"
#undef SUITE

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];

#define SUITE(n) if (!strcmp(name, #n)) return suite_##n(argc, argv);
#include "list.h"
#undef SUITE
	fprintf(stderr, "there is no suite '%s'\n", name);
	return 1;
}
