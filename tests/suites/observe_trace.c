// SPDX-License-Identifier: GPL-2.0
/* Tracepoints: tracefs and perf show what the event stream and the counters show; unloading with a trace open. */
#include "huvm_lib.h"
#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TRACING "/sys/kernel/tracing"
#define EVENTS TRACING "/events/huvm"
#define INSTANCE TRACING "/instances/huvm_observe"
#define LEN (48 * BLOCK)
#define BLOCKS 16
#define LINES 200000

/* The fields of each event that are ours. The folder has these events and no others. */
static const struct {
	const char *name, *fields[8];
} events[] = {
	{ "huvm_gpu_fault", { "s32 gpu", "u32 pid", "u64 va", "u32 access", "u32 packets" } },
	{ "huvm_fault_batch", { "s32 gpu", "u64 packets", "u64 pages", "u64 duplicates" } },
	{ "huvm_fault_fatal", { "s32 gpu", "u32 pid", "u64 va", "u32 fault", "u32 access" } },
	{ "huvm_cpu_fault", { "u32 pid", "bool write", "u64 va", "u64 bytes" } },
	{ "huvm_migrate", { "u32 pid", "s32 src", "s32 dst", "u32 cause", "u64 va", "u64 bytes" } },
	{ "huvm_evict", { "s32 gpu", "u32 pid", "u64 va", "u64 bytes", "u32 chunk", "bool in_fault" } },
	{ "huvm_gpu_lost", { "s32 gpu", "u32 why", "u32 named" } },
	{ "huvm_launch_end", { "s32 gpu", "u32 pid", "u64 launch", "u32 status" } },
	{ "huvm_reclaim", { "s32 gpu", "bool copied", "u64 ns" } },
	{ "huvm_lend", { "s32 gpu", "u32 pid", "u64 va", "s32 borrower", "u32 chunk" } },
	{ "huvm_write_back", { "s32 gpu", "u32 pid", "u64 va", "u64 bytes", "u64 ns" } },
	{ "huvm_prefetch", { "s32 gpu", "u32 pid", "u64 va", "u32 step" } },
	{ "huvm_retired", { "s32 gpu", "u32 pid", "u64 va", "u64 page", "u64 lost" } },
	{ "huvm_channel_lost", { "s32 gpu", "u32 copies", "u32 why" } },
	{ "huvm_link", { "s32 gpu", "s32 peer", "bool up" } },
	{ "huvm_forfeit", { "s32 gpu", "s32 borrower", "u64 chunks" } },
	{ "huvm_copy", { "s32 gpu", "u32 engine", "u32 copies", "u64 began", "u64 ns" } },
	{ "huvm_count", { "s32 gpu", "u32 pid", "u32 counter", "u64 n" } },
};
#define NR_EVENTS (sizeof(events) / sizeof(events[0]))

static const char *const causes[] = { "none", "gpu-fault", "cpu-fault", "prefetch", "eviction", "call", "thrashing" };
static const char *const ends[] = { "?", "running", "done", "failed", "aborted" };

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		FAIL("writing '%s' to %s: %s", text, path, strerror(errno));
	close(fd);
}

/* The whole of a file, terminated. */
static char *get(const char *path)
{
	size_t room = 1 << 16, len = 0;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		FAIL("open %s: %s", path, strerror(errno));
	while ((n = read(fd, text + len, room - len - 1)) > 0) {
		len += n;
		if (len == room - 1)
			text = realloc(text, room *= 2);
	}
	CHECK(n == 0);
	text[len] = 0;
	close(fd);
	return text;
}

static const char *event_file(const char *under, const char *event, const char *file)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s/%s", under, event, file);
	return path;
}

/* An own instance, so that nobody's settings are touched. One that a killed test left is removed first. */
static void trace_begin(void)
{
	rmdir(INSTANCE);
	CHECK_OK(mkdir(INSTANCE, 0700));
	put(INSTANCE "/buffer_size_kb", "16384");
}

/* The module comes back, without any technique, as in suite.sh. */
static void load(void)
{
	CHECK(system("insmod /lib/huvm.ko test=1 && uvmctl policy set --preset demand >/dev/null") == 0);
}

/* Lets late batches pass: waits until nothing is counted any more. */
static void settle(int fd)
{
	uint64_t last = 0;
	int still = 0;

	for (int n = 0; n < 100 && still < 4; n++) {
		uint64_t sum = 0;

		for (int c = 0; c < HUVM_CNT_COUNT; c++)
			sum += counter(fd, HUVM_SCOPE_GLOBAL, 0, c);
		still = sum == last ? still + 1 : 0;
		last = sum;
		give_time(75);
	}
	if (still < 4)
		FAIL("the driver goes on counting");
}

/* What follows ": " in the lines of our events, one string each; ends the trace. */
static size_t trace_end(char **lines)
{
	size_t n = 0;
	char *text, *line, *rest;

	put(INSTANCE "/tracing_on", "0");
	text = get(INSTANCE "/trace");
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *at;

		if (strstr(line, "LOST"))
			FAIL("the buffer was too small");
		at = *line == '#' ? NULL : strstr(line, ": huvm_");
		if (at && n < LINES)
			lines[n++] = at + 2;
	}
	CHECK(n < LINES);
	put(INSTANCE "/events/enable", "0");
	CHECK_OK(rmdir(INSTANCE));
	return n;
}

static int order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* More than the GPU holds, from both sides, by call as well; and an access that is fatal. */
static void work(int fd)
{
	uint64_t *p = managed(fd, LEN);
	struct huvm_instr bad = over(HUVM_OP_FILL, PIECE * 4, 4);

	CHECK_OK(gpu_register(fd, 0));
	cpu_fill(p, 4 * BLOCK, 1, 1);
	gpu_fill(fd, 0, p, LEN, BLOCKS, 7, 3);
	CHECK_OK(migrate(fd, p, 2 * BLOCK, HUVM_PLACE_HOST));
	CHECK_OK(migrate(fd, p, 2 * BLOCK, 0));
	cpu_check(p, 2 * BLOCK, 7, 3);
	bad.dst = (uintptr_t)p + 4096 * BLOCK;
	CHECK_EQ(run_program(fd, 0, 4, &bad, 1, 8).status, HUVM_LAUNCH_FAILED);
	munmap(p, LEN);
}

static void formats_are_complete(void)
{
	DIR *d = opendir(EVENTS);
	struct dirent *e;
	size_t n = 0;

	CHECK(d);
	while ((e = readdir(d)))
		n += !strncmp(e->d_name, "huvm_", 5);
	CHECK_EQ(n, NR_EVENTS);
	for (size_t i = 0; i < NR_EVENTS; i++) {
		char *format = get(event_file(EVENTS, events[i].name, "format")), *common = strstr(format, "\n\n");

		CHECK(common);
		n = 0;
		for (char *f = common; (f = strstr(f, "field:")); f++)
			n++;
		for (size_t k = 0; k < 8 && events[i].fields[k]; k++, n--) {
			char field[64];

			snprintf(field, sizeof(field), "field:%s;", events[i].fields[k]);
			if (!strstr(common, field))
				FAIL("%s has no %s:\n%s", events[i].name, field, format);
		}
		CHECK_EQ(n, 0);
		/* perf and others must be able to read it without our header. */
		if (strstr(strstr(format, "print fmt"), "HUVM_"))
			FAIL("%s has names of the header in its format:\n%s", events[i].name, format);
	}
}

static char *expected(const struct huvm_event *e)
{
	unsigned long long va = e->va, len = e->length, a = e->arg0, b = e->arg1;
	char *s = malloc(160);
	int gpu = (int)e->gpu;

	switch (e->type) {
	case HUVM_EVENT_FAULT:
		sprintf(s, "huvm_gpu_fault: gpu=%d pid=%u va=0x%llx access=%llu packets=%llu", gpu, e->pid, va, a, b);
		return s;
	case HUVM_EVENT_MIGRATE:
		CHECK(e->cause < 7);
		sprintf(s, "huvm_migrate: pid=%u va=0x%llx bytes=%llu src=%d dst=%d cause=%s", e->pid, va, len, (int)a,
			(int)b, causes[e->cause]);
		return s;
	case HUVM_EVENT_EVICT:
		sprintf(s, "huvm_evict: gpu=%d pid=%u va=0x%llx bytes=%llu chunk=%llu in_fault=%llu", gpu, e->pid, va,
			len, a, b);
		return s;
	case HUVM_EVENT_REPLAY:
		CHECK(b <= a);
		sprintf(s, "huvm_fault_batch: gpu=%d packets=%llu pages=%llu duplicates=%llu", gpu, a, b, a - b);
		return s;
	case HUVM_EVENT_FATAL:
		sprintf(s, "huvm_fault_fatal: gpu=%d pid=%u va=0x%llx fault=%llu access=%llu", gpu, e->pid, va, a, b);
		return s;
	case HUVM_EVENT_CPU_FAULT:
		sprintf(s, "huvm_cpu_fault: pid=%u va=0x%llx bytes=%llu write=%llu", e->pid, va, len, a);
		return s;
	case HUVM_EVENT_LAUNCH_END:
		CHECK(b >= 1 && b <= 4);
		sprintf(s, "huvm_launch_end: gpu=%d pid=%u launch=%llu status=%s", gpu, e->pid, a, ends[b]);
		return s;
	}
	FAIL("an event of type %u", e->type);
}

/* Every record of the stream is a line of the trace, field by field, and the other way round. */
static void trace_is_the_stream(void)
{
	static char *lines[LINES], *want[LINES];
	int fd = huvm_open(), by_type[16] = { 0 };
	size_t n, nr_want = 0;
	struct huvm_event e;
	ARG(huvm_events, on, .flags = HUVM_EVENTS_ALL, .mask = (1 << (HUVM_EVENT_LAUNCH_END + 1)) - 2, .records = 65536);

	trace_begin();
	settle(fd);
	put(INSTANCE "/events/huvm/enable", "1");
	put(INSTANCE "/events/huvm/huvm_count/enable", "0");
	put(INSTANCE "/events/huvm/huvm_copy/enable", "0");
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	work(fd);
	settle(fd);
	n = trace_end(lines);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (read(fd, &e, sizeof(e)) == sizeof(e)) {
		CHECK_EQ(e.dropped, 0);
		CHECK(nr_want < LINES);
		want[nr_want++] = expected(&e);
		by_type[e.type & 15]++;
	}
	CHECK_EQ(errno, EAGAIN);
	printf("# %zu events: %d gpu faults, %d migrations, %d evictions, %d batches, %d fatal, %d cpu faults, %d ends\n", nr_want,
	       by_type[1], by_type[2], by_type[3], by_type[4], by_type[5], by_type[6], by_type[8]);
	for (int t = HUVM_EVENT_FAULT; t <= HUVM_EVENT_LAUNCH_END; t++)
		if (!by_type[t] && t != HUVM_EVENT_GPU_LOST)
			FAIL("the work makes no event of type %d", t);
	/* Two CPUs may have written at the same time, so the order is no evidence. */
	qsort(lines, n, sizeof(*lines), order);
	qsort(want, nr_want, sizeof(*want), order);
	for (size_t i = 0; i < n && i < nr_want; i++)
		if (strcmp(lines[i], want[i]))
			FAIL("traced '%s', streamed '%s'", lines[i], want[i]);
	CHECK_EQ(n, nr_want);
}

static struct huvm_latency took(int fd, uint32_t gpu, uint32_t kind)
{
	ARG(huvm_latency, l, .scope = HUVM_SCOPE_GPU, .gpu = gpu, .kind = kind);

	CHECK_OK(ioctl(fd, HUVM_IOC_LATENCY, &l));
	return l;
}

/* Every copy that is measured is traced, under its kind, with its time; and what leaves a GPU for the host is told of by MIGRATE,
 * evictions too. */
static void copies_are_traced(void)
{
	static const char *const words[] = { "h2d", "d2h", "peer-out", "peer-in", "local" };
	static char *lines[LINES];
	struct huvm_latency before[5];
	uint64_t count[5] = { 0 }, sum[5] = { 0 }, left = 0, d2h, last = 0;
	int fd = huvm_open();
	size_t n;

	trace_begin();
	settle(fd);
	d2h = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_BYTES_D2H);
	for (int k = 0; k < 5; k++)
		before[k] = took(fd, 0, k);
	put(INSTANCE "/events/huvm/huvm_copy/enable", "1");
	put(INSTANCE "/events/huvm/huvm_migrate/enable", "1");
	work(fd);
	settle(fd);
	n = trace_end(lines);
	for (size_t i = 0; i < n; i++) {
		unsigned long long va, bytes, began, ns;
		unsigned int pid, engine;
		int gpu, src, dst, k = 0;
		char word[32];

		if (sscanf(lines[i], "huvm_migrate: pid=%u va=0x%llx bytes=%llu src=%d dst=%d", &pid, &va, &bytes, &src, &dst) == 5) {
			CHECK(src >= -2 && src != dst && dst >= -1);
			left += src >= 0 && dst == -1 ? bytes : 0;
			continue;
		}
		if (sscanf(lines[i], "huvm_copy: gpu=%d engine=%u copies=%31s began=%llu ns=%llu", &gpu, &engine, word, &began, &ns) != 5)
			FAIL("'%s'", lines[i]);
		CHECK_EQ(gpu, 0);
		while (k < 5 && strcmp(words[k], word))
			k++;
		CHECK(k < 5);
		count[k]++;
		sum[k] += ns;
		last = began + ns > last ? began + ns : last;
	}
	for (int k = 0; k < 5; k++) {
		struct huvm_latency after = took(fd, 0, k);

		printf("# %s: %llu copies, %llu ns\n", words[k], (unsigned long long)count[k], (unsigned long long)sum[k]);
		CHECK_EQ(count[k], after.count - before[k].count);
		CHECK_EQ(sum[k], after.sum_ns - before[k].sum_ns);
		CHECK(last <= after.time_ns && last > before[k].time_ns);
	}
	CHECK(count[HUVM_LATENCY_H2D] && count[HUVM_LATENCY_D2H] && count[HUVM_LATENCY_LOCAL]);
	CHECK_EQ(left, counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_BYTES_D2H) - d2h);
}

/* huvm_count adds up to the counters, under their names. */
static void counts_add_up(void)
{
	static char *lines[LINES];
	char *format = get(event_file(EVENTS, "huvm_count", "format")), words[HUVM_CNT_COUNT][32];
	uint64_t before[HUVM_CNT_COUNT], sum[HUVM_CNT_COUNT] = { 0 };
	int fd = huvm_open();
	size_t n;

	for (int c = 0; c < HUVM_CNT_COUNT; c++) {
		char key[16], *at;

		snprintf(key, sizeof(key), "{ %d, \"", c);
		at = strstr(format, key);
		if (!at || sscanf(at + strlen(key), "%31[^\"]", words[c]) != 1)
			FAIL("counter %d has no word in drivers/kernel/trace.h", c);
	}
	trace_begin();
	settle(fd);
	for (int c = 0; c < HUVM_CNT_COUNT; c++)
		before[c] = counter(fd, HUVM_SCOPE_GLOBAL, 0, c);
	put(INSTANCE "/events/huvm/huvm_count/enable", "1");
	work(fd);
	settle(fd);
	n = trace_end(lines);
	for (size_t i = 0; i < n; i++) {
		unsigned long long by;
		unsigned int pid;
		char word[32];
		int gpu, c = 0;

		if (sscanf(lines[i], "huvm_count: gpu=%d pid=%u counter=%31s n=%llu", &gpu, &pid, word, &by) != 4)
			FAIL("'%s'", lines[i]);
		CHECK(gpu == -1 || gpu == 0);
		CHECK(pid == 0 || pid == (unsigned int)getpid());
		while (c < HUVM_CNT_COUNT && strcmp(words[c], word))
			c++;
		if (c == HUVM_CNT_COUNT)
			FAIL("'%s' is no counter", word);
		sum[c] += by;
	}
	for (int c = 0; c < HUVM_CNT_COUNT; c++) {
		uint64_t grown = counter(fd, HUVM_SCOPE_GLOBAL, 0, c) - before[c];

		if (sum[c] != grown)
			FAIL("%s: %llu traced, %llu counted", words[c], (unsigned long long)sum[c], (unsigned long long)grown);
	}
	CHECK(sum[HUVM_CNT_REPLAYS] && sum[HUVM_CNT_EVICTIONS] && sum[HUVM_CNT_BYTES_D2H]);
}

static int perf_open(const char *event)
{
	struct perf_event_attr a = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(a) };

	a.config = strtoull(get(event_file(EVENTS, event, "id")), NULL, 10);
	return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

/* perf counts the faults of this process, a filter those of one kind; the module stays while perf looks. */
static void perf_and_filters(void)
{
	int fd = huvm_open(), perf = perf_open("huvm_cpu_fault"), on = 0;
	static char *lines[LINES];
	volatile char *p;
	uint64_t seen, base = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_CPU_FAULTS);
	size_t n;

	CHECK_OK(perf);
	CHECK_OK(set_knob(fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
	trace_begin();
	put(INSTANCE "/events/huvm/huvm_cpu_fault/filter", "write == 1 && bytes == 4096");
	put(INSTANCE "/events/huvm/huvm_cpu_fault/enable", "1");
	p = managed(fd, BLOCK);
	for (int i = 0; i < 20; i++) {
		(void)p[i * PAGE];
		p[(100 + i) * PAGE] = 1;
		on++;
	}
	n = trace_end(lines);
	CHECK_EQ(read(perf, &seen, sizeof(seen)), sizeof(seen));
	CHECK_EQ(seen, counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_CPU_FAULTS) - base);
	CHECK(seen >= 40);
	CHECK_EQ(n, on);
	for (size_t i = 0; i < n; i++)
		CHECK(strstr(lines[i], " bytes=4096 write=1"));
	munmap((void *)p, BLOCK);
	close(fd);
	CHECK(system("rmmod huvm 2>/dev/null") != 0);
	close(perf);
	/* The reference goes a moment later. */
	CHECK(WITHIN(2000, !system("rmmod huvm 2>/dev/null")));
	load();
}

/* A GPU whose driver is unbound is lost, once, and says which it is, and why. */
static void a_gpu_that_leaves_is_traced(void)
{
	static char *lines[LINES];
	int fd = huvm_open();
	ARG(huvm_gpu_info, i, .gpu = 1);

	CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &i));
	trace_begin();
	put(INSTANCE "/events/huvm/huvm_gpu_lost/enable", "1");
	put("/sys/bus/pci/drivers/huvm/unbind", i.pci);
	put("/sys/bus/pci/drivers/huvm/bind", i.pci);
	CHECK_EQ(trace_end(lines), 1);
	if (strcmp(lines[0], "huvm_gpu_lost: gpu=1 why=unbound named=0"))
		FAIL("'%s'", lines[0]);
}

/* The module goes while its events are on and their files open; what is left behind is harmless, and it comes back. */
static void unload_with_an_open_trace(void)
{
	static char *lines[LINES];
	char buf[4096];
	int fd = huvm_open(), pipe, enable, format, system_enable;

	trace_begin();
	put(INSTANCE "/events/huvm/enable", "1");
	CHECK_OK(pipe = open(INSTANCE "/trace_pipe", O_RDONLY | O_NONBLOCK));
	CHECK_OK(enable = open(INSTANCE "/events/huvm/huvm_migrate/enable", O_RDWR));
	CHECK_OK(format = open(INSTANCE "/events/huvm/huvm_migrate/format", O_RDONLY));
	CHECK_OK(system_enable = open(INSTANCE "/events/huvm/enable", O_RDWR));
	work(fd);
	close(fd);
	CHECK(read(pipe, buf, sizeof(buf)) > 0);
	CHECK(system("rmmod huvm") == 0);
	CHECK(access(EVENTS, F_OK) < 0);
	/* The files are dead, whatever they say. */
	(void)!read(enable, buf, sizeof(buf));
	CHECK(write(enable, "1", 1) < 0);
	CHECK(read(format, buf, sizeof(buf)) <= 0);
	(void)!write(system_enable, "1", 1);
	(void)!read(pipe, buf, sizeof(buf));
	load();
	(void)!read(enable, buf, sizeof(buf));
	close(pipe);
	close(enable);
	close(format);
	close(system_enable);
	/* New events are off, and work. */
	CHECK_EQ(get(INSTANCE "/events/huvm/huvm_migrate/enable")[0], '0');
	put(INSTANCE "/events/huvm/huvm_migrate/enable", "1");
	fd = huvm_open();
	work(fd);
	CHECK(trace_end(lines) > 0);
}

/*
 * The module stays while a file of /dev/huvm is open or mapped, or one of its files in debugfs is open, and what was opened still reads;
 * then it goes.
 */
static void unload_with_an_open_file(void)
{
	static const char *const views[] = { "spaces", "blocks", "chunks", "waits" };
	char path[64], buf[4096];
	int fd = huvm_open();
	uint64_t *p = managed(fd, BLOCK);

	for (int mapped = 0; mapped < 2; mapped++) {
		cpu_fill(p, BLOCK, 1, 3);
		if (system("rmmod huvm 2>/dev/null") == 0)
			FAIL("the module went while /dev/huvm was %s", mapped ? "mapped" : "open");
		cpu_check(p, BLOCK, 1, 3);
		if (!mapped)
			CHECK_OK(close(fd));
	}
	CHECK_OK(munmap(p, BLOCK));

	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		int view;

		snprintf(path, sizeof(path), "/sys/kernel/debug/huvm/%s", views[i]);
		CHECK_OK(view = open(path, O_RDONLY));
		if (system("rmmod huvm 2>/dev/null") == 0)
			FAIL("the module went while %s was open", views[i]);
		CHECK(read(view, buf, sizeof(buf)) > 0);
		CHECK(pread(view, buf, sizeof(buf), 0) > 0);
		close(view);
	}
	CHECK(system("rmmod huvm") == 0);
	CHECK(access(path, F_OK) < 0);
	load();
	CHECK_OK(access(path, R_OK));
}

static const struct ktap_test tests[] = {
	{ "formats_are_complete", formats_are_complete },
	{ "trace_is_the_stream", trace_is_the_stream, 120 },
	{ "copies_are_traced", copies_are_traced, 120 },
	{ "counts_add_up", counts_add_up, 120 },
	{ "perf_and_filters", perf_and_filters },
	{ "a_gpu_that_leaves_is_traced", a_gpu_that_leaves_is_traced },
	{ "unload_with_an_open_trace", unload_with_an_open_trace, 120 },
	{ "unload_with_an_open_file", unload_with_an_open_file },
};

KTAP_MAIN(tests)
