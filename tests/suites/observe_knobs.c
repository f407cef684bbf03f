// SPDX-License-Identifier: GPL-2.0
/* The policy in sysfs: the same knobs, values and refusals as the calls and uvmctl; going with the GPU and the module. */
#include "huvm_lib.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#define ALL "/sys/class/misc/huvm/policy"

static char gpu_dir[2][128];
static uint32_t nr_knobs;
static struct huvm_knob knobs[128];

/* What there is, and the folders of the first two GPUs. */
static int look(void)
{
	int fd = huvm_open();

	for (nr_knobs = 0; nr_knobs < 128; nr_knobs++) {
		ARG(huvm_knob, k, .index = nr_knobs);

		if (ioctl(fd, HUVM_IOC_KNOB, &k) < 0)
			break;
		knobs[nr_knobs] = k;
	}
	CHECK(nr_knobs > 20 && nr_knobs < 128);
	for (uint32_t g = 0; g < 2; g++) {
		ARG(huvm_gpu_info, i, .gpu = g);

		CHECK_OK(ioctl(fd, HUVM_IOC_GPU_INFO, &i));
		snprintf(gpu_dir[g], sizeof(gpu_dir[g]), "/sys/bus/pci/devices/%s/huvm", i.pci);
	}
	return fd;
}

/* 0 or the errno. */
static int try_put(const char *dir, const char *name, const void *text, size_t len)
{
	char path[256];
	int fd, e = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return errno;
	errno = 0;
	if (write(fd, text, len) != (ssize_t)len)
		e = errno ? errno : EIO;
	close(fd);
	return e;
}

static void put(const char *dir, const char *name, const char *text)
{
	int e = try_put(dir, name, text, strlen(text));

	if (e)
		FAIL("'%s' to %s/%s: %s", text, dir, name, strerror(e));
}

static void put_number(const char *dir, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	put(dir, name, text);
}

static const char *get(const char *dir, const char *name)
{
	static char text[4096];
	char path[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_OK(fd = open(path, O_RDONLY));
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0 && text[n - 1] == '\n');
	text[n - 1] = 0;
	close(fd);
	return text;
}

static uint64_t call_get(int fd, uint32_t scope, uint32_t gpu, uint32_t knob, uint32_t *origin)
{
	ARG(huvm_policy, p, .scope = scope, .gpu = gpu, .knob = knob);

	CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_GET, &p));
	if (origin)
		*origin = p.origin;
	return p.value;
}

static void call_set(int fd, uint32_t scope, uint32_t gpu, uint32_t knob, uint64_t value)
{
	ARG(huvm_policy, p, .scope = scope, .gpu = gpu, .knob = knob, .value = value);

	CHECK_OK(ioctl(fd, HUVM_IOC_POLICY_SET, &p));
}

/* `value` as the file shows it. */
static const char *shown(const struct huvm_knob *k, uint64_t value)
{
	static char text[32];
	char names[HUVM_DOC_LEN], *word, *rest;
	uint64_t v = k->min;

	memcpy(names, k->value_names, sizeof(names));
	for (word = strtok_r(names, ",", &rest); word; word = strtok_r(NULL, ",", &rest), v++)
		if (v == value) {
			snprintf(text, sizeof(text), "%s", word);
			return text;
		}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return text;
}

static void check_shown(const char *dir, const struct huvm_knob *k, uint64_t value)
{
	const char *is = get(dir, k->name), *want = shown(k, value);

	if (strcmp(is, want))
		FAIL("%s/%s shows '%s', wanted '%s'", dir, k->name, is, want);
}

static void a_file_for_every_knob(void)
{
	int fd = look();

	for (int at = 0; at < 3; at++) {
		const char *dir = at ? gpu_dir[at - 1] : ALL;
		DIR *d = opendir(dir);
		struct dirent *e;
		uint32_t n = 0;

		if (!d)
			FAIL("%s: %s", dir, strerror(errno));
		while ((e = readdir(d)))
			n += e->d_name[0] != '.';
		CHECK_EQ(n, nr_knobs);
		for (uint32_t i = 0; i < nr_knobs; i++) {
			char path[256];
			struct stat s;

			snprintf(path, sizeof(path), "%s/%s", dir, knobs[i].name);
			if (stat(path, &s) < 0)
				FAIL("%s: %s", path, strerror(errno));
			CHECK_EQ(s.st_mode, S_IFREG | 0644);
			CHECK_EQ(s.st_uid, 0);
			check_shown(dir, &knobs[i], call_get(fd, at ? HUVM_SCOPE_GPU : HUVM_SCOPE_GLOBAL, at ? at - 1 : 0, i, NULL));
		}
	}
}

/* Through either door, smallest, largest and default value of each knob; the other scope stays as it was. */
static void files_and_calls_agree(void)
{
	int fd = look();

	CHECK_OK(set_preset(fd, HUVM_SCOPE_GLOBAL, "demand"));
	for (int at = 0; at < 2; at++) {
		const char *dir = at ? gpu_dir[1] : ALL;
		uint32_t scope = at ? HUVM_SCOPE_GPU : HUVM_SCOPE_GLOBAL, gpu = at ? 1 : 0, origin;

		for (uint32_t i = 0; i < nr_knobs; i++) {
			const struct huvm_knob *k = &knobs[i];
			uint64_t values[] = { k->min, k->max, k->def }, other = call_get(fd, HUVM_SCOPE_GLOBAL, 0, i, NULL);

			for (int v = 0; v < 3; v++) {
				put_number(dir, k->name, values[v]);
				CHECK_EQ(call_get(fd, scope, gpu, i, &origin), values[v]);
				CHECK_EQ(origin, scope);
				check_shown(dir, k, values[v]);
				call_set(fd, scope, gpu, i, values[2 - v]);
				check_shown(dir, k, values[2 - v]);
				/* The word, or the number without a newline. */
				put(dir, k->name, shown(k, values[v]));
				CHECK_EQ(call_get(fd, scope, gpu, i, NULL), values[v]);
			}
			if (at)
				CHECK_EQ(call_get(fd, HUVM_SCOPE_GLOBAL, 0, i, NULL), other);
			else
				CHECK_EQ(call_get(fd, HUVM_SCOPE_GPU, 0, i, NULL), k->def);
		}
	}
	/* A GPU that nobody set follows all; one that was set does not. */
	put(ALL, "prefetch_mode", "none\n");
	CHECK(!strcmp(get(gpu_dir[0], "prefetch_mode"), "none"));
	CHECK(strcmp(get(gpu_dir[1], "prefetch_mode"), "none"));
	CHECK(system("uvmctl policy set prefetch_mode=tree fault_batch_max=77 >/dev/null") == 0);
	CHECK(!strcmp(get(ALL, "prefetch_mode"), "tree"));
	CHECK(!strcmp(get(ALL, "fault_batch_max"), "77"));
	put(ALL, "fault_batch_max", "78");
	CHECK(system("uvmctl policy show | grep -q '^ *fault_batch_max  *78 '") == 0);
	CHECK(system("uvmctl policy set --preset huvm >/dev/null") == 0);
	for (uint32_t i = 0; i < nr_knobs; i++)
		check_shown(ALL, &knobs[i], knobs[i].def);
}

static void refused(const char *dir, const struct huvm_knob *k, const char *text, size_t len, int want)
{
	int e = try_put(dir, k->name, text, len);

	if (e != want)
		FAIL("'%.20s' to %s gave %d (%s), wanted %d", text, k->name, e, strerror(e), want);
}

static void bad_writes_are_refused(void)
{
	static const char *const senseless[] = { "\n", " ", "-1", "+1", "1 2", "0x10", "1.5", "nonsense\n", "1\n\n", "\xff",
						 "18446744073709551616" };
	static char longest[4000];
	int fd = look(), status;
	pid_t pid;

	memset(longest, '1', sizeof(longest));
	for (int at = 0; at < 2; at++) {
		const char *dir = at ? gpu_dir[0] : ALL;

		for (uint32_t i = 0; i < nr_knobs; i++) {
			const struct huvm_knob *k = &knobs[i];
			uint64_t was = call_get(fd, at ? HUVM_SCOPE_GPU : HUVM_SCOPE_GLOBAL, 0, i, NULL);
			char text[32];
			int n;

			for (size_t s = 0; s < sizeof(senseless) / sizeof(*senseless); s++)
				refused(dir, k, senseless[s], strlen(senseless[s]), EINVAL);
			refused(dir, k, longest, sizeof(longest), EINVAL);
			refused(dir, k, "1\0002", 3, EINVAL);
			n = snprintf(text, sizeof(text), "%llu", (unsigned long long)k->max + 1);
			refused(dir, k, text, n, ERANGE);
			if (k->min) {
				n = snprintf(text, sizeof(text), "%llu", (unsigned long long)k->min - 1);
				refused(dir, k, text, n, ERANGE);
			}
			refused(dir, k, "18446744073709551615", 20, ERANGE);
			CHECK_EQ(call_get(fd, at ? HUVM_SCOPE_GPU : HUVM_SCOPE_GLOBAL, 0, i, NULL), was);
		}
	}
	/* Anybody reads; who is not root cannot open for writing, nor write to what root opened. */
	pid = fork();
	if (!pid) {
		char path[256];
		int as_root;

		snprintf(path, sizeof(path), ALL "/%s", knobs[0].name);
		CHECK_OK(as_root = open(path, O_WRONLY));
		CHECK_OK(setuid(1000));
		check_shown(ALL, &knobs[0], call_get(fd, HUVM_SCOPE_GLOBAL, 0, 0, NULL));
		CHECK_EQ(try_put(ALL, knobs[0].name, "10", 2), EACCES);
		CHECK_EQ(try_put(gpu_dir[0], knobs[0].name, "10", 2), EACCES);
		CHECK_ERR(write(as_root, "10", 2), EPERM);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* uvmctl quota checks all values, and all GPUs of its list, before it sets the first: no part of a bad call stays behind. */
static void a_bad_quota_changes_nothing(void)
{
	/* A limit is a share and MiB, in this order: 100T is a good share and more MiB than can be. */
	static const struct { const char *of; int code; } bad[] = {
		{ "-g all --limit 100T", 2 },
		{ "-g 0,1 --limit 101%", 2 },
		{ "-g 0,1 --limit 30% --lend on --keep 1000G", 2 },
		{ "-g 0,7 --limit 30%", 6 },
	};
	static const char *const words[] = { "lend_limit_percent", "lend_limit_mib", "lend_reserve_chunks", "harvest_lend" };
	char cmd[160];

	look();
	for (int g = 0; g < 2; g++) {
		put(gpu_dir[g], words[0], "40");
		put(gpu_dir[g], words[1], "16");
		put(gpu_dir[g], words[2], "7");
		put(gpu_dir[g], words[3], "off");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(cmd, sizeof(cmd), "uvmctl -q quota set %s", bad[i].of);
		int code = WEXITSTATUS(system(cmd));

		if (code != bad[i].code)
			FAIL("%s ended with %d, not %d", cmd, code, bad[i].code);
		for (int g = 0; g < 2; g++) {
			CHECK(!strcmp(get(gpu_dir[g], words[0]), "40"));
			CHECK(!strcmp(get(gpu_dir[g], words[1]), "16"));
			CHECK(!strcmp(get(gpu_dir[g], words[2]), "7"));
			CHECK(!strcmp(get(gpu_dir[g], words[3]), "off"));
		}
	}
	/* A good one reaches both. */
	CHECK(system("uvmctl -q quota set -g 0,1,0 --limit 30% --keep 4M") == 0);
	for (int g = 0; g < 2; g++) {
		CHECK(!strcmp(get(gpu_dir[g], words[0]), "30"));
		CHECK(!strcmp(get(gpu_dir[g], words[1]), "0"));
		CHECK(!strcmp(get(gpu_dir[g], words[2]), "2"));
		snprintf(cmd, sizeof(cmd), "uvmctl -q policy reset --gpu %d", g);
		CHECK(system(cmd) == 0);
	}
}

struct setter {
	const char *dir;
	uint32_t knob, failures;
};

/* Sets its own knob and looks at once: somebody else's set of another knob must not undo it. */
static void *set_and_look(void *arg)
{
	struct setter *s = arg;
	int fd = huvm_open();

	for (uint64_t i = 0; i < (uint64_t)rounds(1000); i++) {
		const struct huvm_knob *k = &knobs[s->knob];
		uint64_t value = k->min + i % (k->max - k->min + 1);

		if (i & 1)
			put_number(s->dir, k->name, value);
		else
			call_set(fd, HUVM_SCOPE_GLOBAL, 0, s->knob, value);
		s->failures += call_get(fd, HUVM_SCOPE_GLOBAL, 0, s->knob, NULL) != value;
	}
	close(fd);
	return NULL;
}

static void concurrent_sets_are_all_kept(void)
{
	int fd = look();
	pthread_t t[4];
	struct setter s[4];
	uint32_t failures = 0;

	for (uint32_t i = 0; i < 4; i++) {
		s[i] = (struct setter){ .dir = ALL, .knob = i };
		CHECK(!pthread_create(&t[i], NULL, set_and_look, &s[i]));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		failures += s[i].failures;
	}
	CHECK_OK(set_preset(fd, HUVM_SCOPE_GLOBAL, "demand"));
	CHECK_EQ(failures, 0);
}

/* Reads and writes of a GPU's files while it comes and goes: a value or a clean error, and the files go with it. */
static void files_go_with_the_gpu(void)
{
	static const char *const fine[] = { "100", "5", "1" };
	const char *knob = "fault_batch_max";
	char path[256], pci[128], buf[64];
	int fd = look(), old, status;
	pid_t pid[2];

	snprintf(pci, sizeof(pci), "%s", gpu_dir[1] + strlen("/sys/bus/pci/devices/"));
	*strchr(pci, '/') = 0;
	close(fd);
	snprintf(path, sizeof(path), "%s/%s", gpu_dir[1], knob);
	put(gpu_dir[1], knob, "99");
	CHECK_OK(old = open(path, O_RDWR));
	for (int w = 0; w < 2; w++) {
		pid[w] = fork();
		if (pid[w])
			continue;
		for (unsigned int i = 0;; i++) {
			int f = open(path, w ? O_WRONLY : O_RDONLY), e = 0;

			if (f < 0) {
				CHECK(errno == ENOENT || errno == ENODEV);
				continue;
			}
			if ((w ? write(f, fine[i % 3], strlen(fine[i % 3])) : read(f, buf, sizeof(buf))) < 0)
				e = errno;
			if (e && e != ENODEV)
				FAIL("errno %d", e);
			close(f);
		}
	}
	for (int i = 0; i < rounds(4); i++) {
		put(DRIVER, "unbind", pci);
		CHECK(access(gpu_dir[1], F_OK) < 0);
		CHECK(access(gpu_dir[0], F_OK) == 0 && access(ALL, F_OK) == 0);
		CHECK_ERR(pread(old, buf, sizeof(buf), 0), ENODEV);
		CHECK_ERR(pwrite(old, "9", 1, 0), ENODEV);
		put(DRIVER, "bind", pci);
		CHECK(access(gpu_dir[1], F_OK) == 0);
		usleep(20000);
	}
	for (int w = 0; w < 2; w++) {
		CHECK(waitpid(pid[w], &status, WNOHANG) == 0);
		kill(pid[w], SIGKILL);
		waitpid(pid[w], &status, 0);
	}
	CHECK_ERR(pread(old, buf, sizeof(buf), 0), ENODEV);
	/* A GPU that comes back has no values of its own. */
	put(DRIVER, "unbind", pci);
	put(DRIVER, "bind", pci);
	CHECK(!strcmp(get(gpu_dir[1], knob), get(ALL, knob)));
	put(gpu_dir[1], knob, "98");
	CHECK(!strcmp(get(gpu_dir[1], knob), "98"));
}

/* The module goes while files are open and read; what is open says ENODEV, even once it is back. */
static void files_go_with_the_module(void)
{
	int fd = look(), of_all, of_gpu, status;
	char path[256], buf[64];
	pid_t pid;

	close(fd);
	CHECK_OK(of_all = open(ALL "/fault_batch_max", O_RDWR));
	snprintf(path, sizeof(path), "%s/fault_batch_max", gpu_dir[0]);
	CHECK_OK(of_gpu = open(path, O_RDWR));
	pid = fork();
	if (!pid) {
		for (;;) {
			int f = open(ALL "/fault_batch_max", O_RDWR);

			if (f < 0)
				continue;
			if (read(f, buf, sizeof(buf)) < 0 || write(f, "99", 2) < 0)
				CHECK(errno == ENODEV);
			close(f);
		}
	}
	for (int i = 0; i < rounds(2); i++) {
		CHECK(system("rmmod huvm") == 0);
		CHECK(access(ALL, F_OK) < 0 && access(gpu_dir[0], F_OK) < 0);
		CHECK_ERR(pread(of_all, buf, sizeof(buf), 0), ENODEV);
		CHECK_ERR(pwrite(of_gpu, "9", 1, 0), ENODEV);
		CHECK(system("insmod /lib/huvm.ko test=1") == 0);
		CHECK_ERR(pwrite(of_all, "9", 1, 0), ENODEV);
		CHECK_ERR(pread(of_gpu, buf, sizeof(buf), 0), ENODEV);
	}
	CHECK(waitpid(pid, &status, WNOHANG) == 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK(access(ALL "/fault_batch_max", W_OK) == 0);
}

static const struct ktap_test tests[] = {
	{ "a_file_for_every_knob", a_file_for_every_knob },
	{ "files_and_calls_agree", files_and_calls_agree },
	{ "bad_writes_are_refused", bad_writes_are_refused },
	{ "a_bad_quota_changes_nothing", a_bad_quota_changes_nothing },
	{ "concurrent_sets_are_all_kept", concurrent_sets_are_all_kept },
	{ "files_go_with_the_gpu", files_go_with_the_gpu },
	{ "files_go_with_the_module", files_go_with_the_module, 120 },
};

KTAP_MAIN(tests)
