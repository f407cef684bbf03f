// SPDX-License-Identifier: GPL-2.0
/*
 * GPU memory that fails: whoever had the only copy of a page there is told, nobody else notices, and the chunk is never put to use
 * again. Pages fail by INJECT's ECC_POISON (Documentation/device.md 2.6) and stay so.
 */
#include "lend_lib.h"

#define PAGES (BLOCK / PAGE)
/* Fault type of the packet. */
#define POISONED 0xeu

/* As begin(), with memory that is sound but for what is retired. */
static int start(uint32_t lenders, uint32_t small, uint32_t limit)
{
	int fd = huvm_open();

	for (uint32_t g = 0; g < gpu_count(fd); g++)
		test_reg(fd, g, INJ_ECC_POISON, ~0u);
	close(fd);
	return begin(lenders, small, limit);
}

static uint32_t retired(int fd, uint32_t gpu)
{
	return mem_info(fd, gpu).retired;
}

/* Every chunk is in one state. */
static void adds_up(int fd)
{
	for (uint32_t g = 0; g < gpu_count(fd); g++) {
		struct huvm_mem_info m = mem_info(fd, g);

		CHECK_EQ(m.free + m.used + m.evicting + m.lent_only + m.lent_removable + m.pinned + m.unusable + m.retired,
			 chunk_count(fd, g));
	}
}

static void poison(int fd, uint32_t gpu, uint32_t chunk, uint32_t page)
{
	test_reg(fd, gpu, INJ_ECC_POISON, chunk * (uint32_t)PAGES + page);
}

/* What debugfs says of the block at @p behind the text @behind: a chunk. -1: nothing. */
static int64_t chunk_behind(const void *p, const char *behind)
{
	FILE *f = fopen("/sys/kernel/debug/huvm/blocks", "r");
	unsigned long long va;
	int64_t chunk = -1;
	char line[512], *at;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*u %llx", &va) == 1 && va == ((uintptr_t)p & ~(BLOCK - 1)) && (at = strstr(line, behind)) &&
		    at[strlen(behind)] != '-')
			chunk = atoll(at + strlen(behind));
	fclose(f);
	return chunk;
}

/* The chunk of a GPU that a block is in. */
static uint32_t chunk_of(const void *p, uint32_t gpu)
{
	char behind[16];
	int64_t chunk;

	snprintf(behind, sizeof(behind), " %u:", gpu);
	chunk = chunk_behind(p, behind);
	CHECK(chunk >= 0);
	return (uint32_t)chunk;
}

/* The chunk that a GPU keeps for a block; -1: none. */
static int64_t spare_of(const void *p, uint32_t gpu)
{
	char behind[24];

	snprintf(behind, sizeof(behind), " spare:%u:", gpu);
	return chunk_behind(p, behind);
}

/* So many allocations of host memory fail, of each size. */
static void host_memory_fails(int fd, uint32_t times)
{
	static const uint32_t sizes[] = { HUVM_FAIL_HOST_4K, HUVM_FAIL_HOST_64K, HUVM_FAIL_HOST_2M };

	for (int n = 0; n < 3; n++)
		let_fail(fd, sizes[n], times);
}

/* A program that reads all of the job and compares. */
static struct huvm_instr check_all(const struct job *j)
{
	struct huvm_instr i = over(HUVM_OP_CHECK, j->len, WIDE);

	i.a = (uintptr_t)j->p;
	i.imm0 = j->add;
	i.imm1 = j->mul;
	return i;
}

static struct huvm_wait read_all(const struct job *j)
{
	struct huvm_instr i = check_all(j);

	return run_program(j->fd, j->gpu, WIDE, &i, 1, 8);
}

/* A launch ended because of the page at @p (NULL: some page). */
static void ended_by_ecc(struct huvm_wait w, const void *p)
{
	if (w.status != HUVM_LAUNCH_FAILED || w.error != HUVM_ERROR_ECC || w.fault_type != POISONED)
		FAIL("launch ended with status %u, error %u, fault type %u", w.status, w.error, w.fault_type);
	if (p)
		CHECK_EQ(w.fault_va & ~(PAGE - 1), (uintptr_t)p);
}

/* All words of the job but those of @n pages are right, as the CPU sees them; then it ends. */
static void ends_without(struct job *j, uint64_t n)
{
	CHECK_EQ(unreadable(j->p, j->len, j->add, j->mul), n);
	CHECK_OK(munmap(j->p, j->len));
	close(j->fd);
}

/* The chunks of @gpu that are out of service are @n more than @was, before long. */
static void gets_retired(int fd, uint32_t gpu, uint32_t was, uint32_t n)
{
	if (!WITHIN(5000, retired(fd, gpu) == was + n))
		FAIL("GPU %u: %u chunks retired, wanted %u", gpu, retired(fd, gpu), was + n);
	adds_up(fd);
}

static void *turns(void *arg)
{
	struct job *j = arg;

	for (int turn = 0; turn < 6; turn++)
		job_turn(j, WIDE);
	return NULL;
}

static void under_a_launch(void)
{
	/* A launch reads the page: its client is told which, once more if it asks again; the job beside it does not notice. The
	 * counters, the stream of events and the log say what happened, once. */
	int fd = start(0, 0, 0), log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	uint32_t was = retired(fd, 0), page, told = 0;
	uint64_t chunks = of_gpu(fd, 0, HUVM_CNT_CHUNKS_RETIRED), lost = of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES);
	struct job a = job_begin(0, 4, 3), b = job_begin(0, 4, 5);
	ARG(huvm_events, on, .flags = HUVM_EVENTS_ALL, .records = 1024, .mask = 1 << HUVM_EVENT_RETIRED);
	char *bad = (char *)a.p + BLOCK + 17 * PAGE;
	struct teller teller = teller_begin();
	struct huvm_event e;
	char what[96];
	pthread_t t;

	CHECK(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	page = chunk_of(bad, 0) * (uint32_t)PAGES + 17;
	test_reg(fd, 0, INJ_ECC_POISON, page);
	CHECK_EQ(pthread_create(&t, NULL, turns, &b), 0);
	ended_by_ecc(read_all(&a), bad);
	CHECK_EQ(pthread_join(t, NULL), 0);
	gets_retired(fd, 0, was, 1);
	ended_by_ecc(read_all(&a), bad);
	CHECK_EQ(retired(fd, 0), was + 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_CHUNKS_RETIRED) - chunks, 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES) - lost, 1);
	while (read(fd, &e, sizeof(e)) == sizeof(e)) {
		told++;
		CHECK(e.type == HUVM_EVENT_RETIRED && e.gpu == 0 && e.arg0 == page && e.arg1 == 1);
		CHECK_EQ(e.va, (uintptr_t)bad & ~(BLOCK - 1));
		CHECK_EQ(e.pid, getpid());
	}
	CHECK_EQ(told, 1);
	CHECK_EQ(gets_logged(log, "gpu 0:", "memory failed", 1), 1);
	snprintf(what, sizeof(what), "retired *gpu0 * page %#x, 1 lost", page);
	tells(&teller, what, 1);
	tells(&teller, "retired", 1);
	teller_end(&teller);
	snprintf(what, sizeof(what), "gpu 0 memory *%u of * retired: memory failed (ECC)", was + 1);
	doctor_finds(what);
	CHECK_EQ(reads((uint64_t *)bad, &lost), SIGBUS);
	ends_without(&a, 1);
	job_end(&b);
	all_idle(fd);
	CHECK_EQ(retired(fd, 0), was + 1);
	close(log);
}

/* What was in it does not matter any more: it is zero, as what is given up always is. */
static void discarded_is_not_lost(void)
{
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 2, 7);
	char *bad = (char *)j.p + 17 * PAGE;
	uint64_t v;

	poison(fd, 0, chunk_of(bad, 0), 17);
	ended_by_ecc(read_all(&j), bad);
	gets_retired(fd, 0, was, 1);
	CHECK_EQ(reads((uint64_t *)bad, &v), SIGBUS);
	CHECK_OK(advise(j.fd, bad, PAGE, HUVM_ADVISE_DISCARD, 0));
	CHECK_EQ(reads((uint64_t *)bad, &v), 0);
	CHECK_EQ(v, 0);
	CHECK_EQ(unreadable(j.p, 17 * PAGE, j.add, j.mul), 0);
	/* For a GPU too. */
	gpu_fill(j.fd, 0, j.p, j.len, WIDE, j.add, j.mul);
	job_end(&j);
	all_idle(fd);
	CHECK_OK(close(fd));
}

/* The host has the pages too: the launch goes on with them, and ends well. */
static void another_copy(int advised)
{
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	uint64_t lost = of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES);
	struct job j = job_make(0, 2, 9);

	cpu_fill(j.p, j.len, j.add, j.mul);
	if (advised)
		CHECK_OK(advise(j.fd, j.p, j.len, HUVM_ADVISE_READ_MOSTLY, 0));
	else
		CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	job_check_gpu(&j);
	CHECK_EQ(block_info(j.fd, j.p).host_pages, PAGES);
	for (uint32_t page = 0; page < PAGES; page += 73)
		poison(fd, 0, chunk_of(j.p, 0), page);
	for (int turn = 0; turn < 3; turn++)
		job_check_gpu(&j);
	gets_retired(fd, 0, was, 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES), lost);
	job_end(&j);
	all_idle(fd);
}

static void there_is_another_copy(void)
{
	another_copy(1);
}

static void what_was_only_read_is_there(void)
{
	another_copy(0);
}

static void its_good_pages_go_to_a_neighbour(void)
{
	/* The same with a neighbour that lends: no engine reads what the GPU said failed, as the host has it. */
	int fd = start(1 << 1, 0, 0);
	uint32_t was = retired(fd, 0), page, bad = 0;
	struct job j = job_make(0, 2, 9);
	uint64_t lost = of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES), sent, bytes;

	CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "keep_host_copy", 1));
	cpu_fill(j.p, j.len, j.add, j.mul);
	job_check_gpu(&j);
	for (page = 0; page < PAGES; page += 73, bad++) {
		poison(fd, 0, chunk_of(j.p, 0), page);
		test_reg(fd, 0, INJ_ECC_REPORT, chunk_of(j.p, 0) * (uint32_t)PAGES + page);
	}
	sent = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS);
	bytes = of_gpu(fd, 0, HUVM_CNT_EVICTION_BYTES);
	for (int turn = 0; turn < 3; turn++)
		job_check_gpu(&j);
	gets_retired(fd, 0, was, 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS), sent + 1);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_EVICTION_BYTES), bytes + BLOCK - bad * PAGE);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES), lost);
	job_end(&j);
	all_idle(fd);
}

static void met_by_eviction(void)
{
	/* All but the pages that failed come home: the first, the last, neighbours, more than a channel may fault at one place. */
	static const uint32_t bad[] = { 0, 1, 2, 100, 101, 200, 255, 256, 300, 301, 400, 510, 511 };
	const uint32_t n = sizeof(bad) / sizeof(*bad);
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 3, 11);
	ARG(huvm_test_evict, evict, .gpu = 0, .chunks = 32);

	for (uint32_t i = 0; i < n; i++)
		poison(fd, 0, chunk_of(j.p + BLOCK / 8, 0), bad[i]);
	/* A call ends at a chunk that is retired under it. */
	CHECK(WITHIN(5000, ioctl(fd, HUVM_IOC_TEST_EVICT, &evict) >= 0 && !mem_info(fd, 0).used));
	gets_retired(fd, 0, was, 1);
	ended_by_ecc(read_all(&j), NULL);
	ends_without(&j, n);
	all_idle(fd);
	/* The engines work as before. */
	works(huvm_open(), 0);
}

static void met_by_the_cpu(void)
{
	/* The CPU reads, page by page, and by a call that moves all. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 2, 13);
	ARG(huvm_events, on, .flags = HUVM_EVENTS_ALL, .records = 1024, .mask = 1 << HUVM_EVENT_RETIRED);
	struct huvm_event e;
	uint64_t v;

	CHECK_OK(ioctl(fd, HUVM_IOC_EVENTS, &on));
	poison(fd, 0, chunk_of(j.p, 0), 5);
	poison(fd, 0, chunk_of(j.p + BLOCK / 8, 0), 6);
	CHECK_EQ(reads(j.p + 5 * PAGE / 8, &v), SIGBUS);
	gets_retired(fd, 0, was, 1);
	CHECK_ERR(migrate(j.fd, j.p + BLOCK / 8, BLOCK, HUVM_PLACE_HOST), EIO);
	gets_retired(fd, 0, was, 2);
	/* Each says whose block it was, if that had the chunk still, and then what is lost, whoever met it. */
	for (int n = 0; n < 2; n++) {
		CHECK_EQ(read(fd, &e, sizeof(e)), sizeof(e));
		CHECK_EQ(e.type, HUVM_EVENT_RETIRED);
		printf("# pid %u, %llu lost\n", e.pid, (unsigned long long)e.arg1);
		CHECK_EQ(e.arg1, e.pid ? 1 : 0);
	}
	ends_without(&j, 2);
	all_idle(fd);
}

static void met_by_unregister(void)
{
	/* A page cannot come home: it is lost, and that is no reason to stay. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 3, 17);

	poison(fd, 0, chunk_of(j.p + BLOCK / 8, 0), 7);
	CHECK_OK(gpu_unregister(j.fd, 0));
	gets_retired(fd, 0, was, 1);
	ends_without(&j, 1);
	all_idle(fd);
}

static void other_gpu_takes_it(void)
{
	/* A copy from GPU 0 to GPU 1 over the link between them meets the page. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0), was1 = retired(fd, 1);
	struct job j = job_begin(0, 2, 15);

	CHECK_OK(gpu_register(j.fd, 1));
	poison(fd, 0, chunk_of(j.p, 0), 44);
	j.gpu = 1;
	ended_by_ecc(read_all(&j), j.p + 44 * PAGE / 8);
	gets_retired(fd, 0, was, 1);
	CHECK_EQ(retired(fd, 1), was1);
	ends_without(&j, 1);
	all_idle(fd);
}

/* A job on GPU 0, which has four chunks, some of it kept by GPU 1; the first block that is. */
static struct job borrower(int fd, uint64_t write_back, uint64_t **block, uint32_t *chunk)
{
	struct job j;

	knob(fd, 1, "write_back", write_back);
	j = job_begin(0, 8, 17);
	CHECK(lent(fd, 1) > 0);
	if (write_back)
		CHECK(WITHIN(5000, !mem_info(fd, 1).lent_only));
	for (uint64_t b = 0; b < 8; b++) {
		int64_t c = spare_of(j.p + b * BLOCK / 8, 1);

		if (c >= 0) {
			*block = j.p + b * BLOCK / 8;
			*chunk = (uint32_t)c;
			return j;
		}
	}
	FAIL("no block is in spare memory");
}

static void lent_and_fetched(void)
{
	/* The borrower's launch wants a page that was alone in spare memory. The lender's own job does not notice. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t was = retired(fd, 1), chunk;
	struct job own = job_begin(1, 4, 19), j;
	uint64_t *block;

	j = borrower(fd, 0, &block, &chunk);
	poison(fd, 1, chunk, 77);
	ended_by_ecc(read_all(&j), block + 77 * PAGE / 8);
	gets_retired(fd, 1, was, 1);
	ends_without(&j, 1);
	job_end(&own);
	all_idle(fd);
	CHECK_EQ(retired(fd, 1), was + 1);
}

static void lent_and_on_the_host_too(void)
{
	/* It was written back before: nothing is lost. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t was = retired(fd, 1), chunk;
	uint64_t *block, lost = counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_ECC_LOST_PAGES);
	struct job j = borrower(fd, 1, &block, &chunk);

	for (uint32_t page = 3; page < PAGES; page += 101)
		poison(fd, 1, chunk, page);
	job_check_gpu(&j);
	gets_retired(fd, 1, was, 1);
	CHECK_EQ(counter(fd, HUVM_SCOPE_GLOBAL, 0, HUVM_CNT_ECC_LOST_PAGES), lost);
	job_end(&j);
	all_idle(fd);
}

static void lent_and_written_back(void)
{
	/* The lender's thread copies it to the host. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t was = retired(fd, 1), chunk;
	uint64_t *block;
	struct job j = borrower(fd, 0, &block, &chunk);

	poison(fd, 1, chunk, 9);
	poison(fd, 1, chunk, 500);
	knob(fd, 1, "write_back", 1);
	gets_retired(fd, 1, was, 1);
	ended_by_ecc(read_all(&j), NULL);
	ends_without(&j, 2);
	all_idle(fd);
}

static void lent_and_taken_back(void)
{
	/* The lender's own job wants all of its memory. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t was = retired(fd, 1), chunk;
	uint64_t *block;
	struct job j = borrower(fd, 0, &block, &chunk), own;

	poison(fd, 1, chunk, 0);
	own = job_begin(1, chunk_count(fd, 1) - was - 1, 21);
	gets_retired(fd, 1, was, 1);
	job_end(&own);
	ends_without(&j, 1);
	all_idle(fd);
}

/* A chunk of GPU 0 that is free. */
static uint32_t a_free_chunk(void)
{
	struct job j = job_begin(0, 1, 1);
	uint32_t chunk = chunk_of(j.p, 0);

	job_end(&j);
	return chunk;
}

static void free_and_put_to_use(void)
{
	/* Nobody knows until somebody gets it: a launch that touches it for the first time. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0), chunk = a_free_chunk();
	struct job j = job_make(0, chunk_count(fd, 0) - was, 23);
	struct huvm_instr i = over(HUVM_OP_FILL, j.len, WIDE);

	gets_idle(fd, 0);
	poison(fd, 0, chunk, 31);
	i.dst = (uintptr_t)j.p;
	ended_by_ecc(run_program(j.fd, 0, WIDE, &i, 1, 8), NULL);
	gets_retired(fd, 0, was, 1);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	all_idle(fd);
	/* All that is left is good. */
	j = job_begin(0, chunk_count(fd, 0) - was - 1, 25);
	job_end(&j);
	CHECK_EQ(retired(fd, 0), was + 1);
}

static void free_and_reported(void)
{
	/* It is out of service at once; the report is read when a page fails elsewhere. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0), chunk = a_free_chunk();
	struct job j;

	gets_idle(fd, 0);
	test_reg(fd, 0, INJ_ECC_REPORT, chunk * (uint32_t)PAGES + 8);
	j = job_begin(0, 1, 27);
	if (chunk_of(j.p, 0) == chunk)
		FAIL("the chunk that was free for the shortest time came first");
	poison(fd, 0, chunk_of(j.p, 0), 8);
	ended_by_ecc(read_all(&j), j.p + 8 * PAGE / 8);
	gets_retired(fd, 0, was, 2);
	ends_without(&j, 1);
	all_idle(fd);
}

static void nonsense_is_reported(void)
{
	/* Numbers of pages that there are not, more than there is room for. What failed is found all the same, nothing else goes. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0), pages = (uint32_t)(chunk_count(fd, 0) * PAGES);
	struct job j = job_begin(0, 2, 29), other = job_begin(0, 2, 31);

	poison(fd, 0, chunk_of(j.p, 0), 1);
	for (uint32_t i = 0; i < 200; i++)
		test_reg(fd, 0, INJ_ECC_REPORT, i % 2 ? pages + i : 0x3fffffffu - i);
	ended_by_ecc(read_all(&j), j.p + PAGE / 8);
	gets_retired(fd, 0, was, 1);
	CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT,
		       &(struct huvm_test_evict){ .size = sizeof(struct huvm_test_evict), .chunks = 32 }));
	CHECK_EQ(retired(fd, 0), was + 1);
	ends_without(&j, 1);
	job_end(&other);
	all_idle(fd);
}

static void no_host_memory(void)
{
	/* What is in the chunk has nowhere to go: the client is told, keeps it, and has all but the page when there is room. */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 2, 33);

	poison(fd, 0, chunk_of(j.p, 0), 12);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	ended_by_ecc(read_all(&j), j.p + 12 * PAGE / 8);
	CHECK_EQ(retired(fd, 0), was);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	ended_by_ecc(read_all(&j), j.p + 12 * PAGE / 8);
	gets_retired(fd, 0, was, 1);
	ends_without(&j, 1);
	all_idle(fd);
}

static void written_after_it_was_told(void)
{
	/*
	 * The page failed and its chunk could not be emptied. Then the page is new, and lies at home: there it stays, whatever the GPU wants
	 * of it, until that has another chunk for it.
	 */
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 0);
	struct job j = job_begin(0, 2, 61);
	uint64_t *page = j.p + 12 * PAGE / 8;

	poison(fd, 0, chunk_of(j.p, 0), 12);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	ended_by_ecc(read_all(&j), page);
	CHECK_EQ(retired(fd, 0), was);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	CHECK_OK(munmap(page, PAGE));
	CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, j.fd, 0) == page);
	cpu_fill(page, PAGE, j.add + j.mul * (12 * PAGE / 8), j.mul);
	job_check_gpu(&j);
	gets_retired(fd, 0, was, 1);
	job_turn(&j, WIDE);
	job_end(&j);
	all_idle(fd);
	close(fd);
}

/*
 * A page failed as it was copied home, and its chunk could not be emptied. Then the page is new, and nowhere: what is copied home beside it,
 * out of the same chunk and by the same engine, says nothing of it.
 */
static void new_beside_what_was_left_out(void)
{
	int fd = start(0, 0, 0);
	uint64_t lost = of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES), beside = 0;
	const uint64_t rounds = 4;

	for (uint64_t n = 0; n < rounds; n++) {
		struct job j = job_begin(0, 1, 62 + n);
		struct huvm_instr i = over(HUVM_OP_SCALE, 16 * PAGE, 1);
		uint64_t *page = j.p + 12 * PAGE / 8;
		uint32_t was = retired(fd, 0);

		/* It has memory at home, which nothing else of the block has. */
		CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
		CHECK_EQ(*page, j.add + j.mul * (12 * PAGE / 8));
		i.a = i.dst = (uintptr_t)j.p;
		i.imm0 = 1;
		i.imm1 = 0;
		run_ok(j.fd, 0, 1, &i, 1, 8);
		CHECK_EQ(block_info(j.fd, j.p).gpu_pages[0], PAGES);
		poison(fd, 0, chunk_of(j.p, 0), 12);
		host_memory_fails(fd, ~0u);
		CHECK_ERR(migrate(j.fd, page, PAGE, HUVM_PLACE_HOST), EIO);
		CHECK_OK(munmap(page, PAGE));
		CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, j.fd, 0) == page);
		beside += block_info(j.fd, j.p).gpu_pages[0] == PAGES - 1;
		host_memory_fails(fd, 0);
		CHECK_OK(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST));
		for (uint64_t w = 0; w < PAGE / 8; w++)
			CHECK_EQ(page[w], 0);
		cpu_fill(page, PAGE, j.add + j.mul * (12 * PAGE / 8), j.mul);
		job_check_gpu(&j);
		gets_retired(fd, 0, was, 1);
		job_end(&j);
	}
	printf("# %llu times the others were on the GPU when it came anew\n", (unsigned long long)beside);
	CHECK(beside > 0);
	CHECK_EQ(of_gpu(fd, 0, HUVM_CNT_ECC_LOST_PAGES), lost + rounds);
	all_idle(fd);
	close(fd);
}

/* As start(), with all chunks of @gpu in use again: no matter which ones other tests took. */
static int comes_anew(uint32_t gpu)
{
	int fd = huvm_open();
	char name[32];

	pci_name(fd, gpu, name);
	CHECK_OK(close(fd));
	rebind(name);
	return start(0, 0, 0);
}

/*
 * A job of one block on GPU 1, of which half is on GPU 0 too. GPU 1's page 12 failed, and its chunk cannot be emptied until HUVM_FAIL_DMA_MAP is
 * taken back; so GPU 0's copy of it is the only one.
 */
static struct job failed_here(int fd, uint64_t seed)
{
	uint32_t was = retired(fd, 1);
	struct job j = job_begin(1, 1, seed);

	CHECK_OK(gpu_register(j.fd, 0));
	CHECK_OK(advise(j.fd, j.p, j.len, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(j.fd, 0, j.p, j.len / 2, 1, j.add, j.mul);
	CHECK_EQ(block_info(j.fd, j.p).gpu_pages[0], PAGES / 2);
	CHECK_EQ(block_info(j.fd, j.p).gpu_pages[1], PAGES);
	CHECK_EQ(block_info(j.fd, j.p).host_pages, 0);
	poison(fd, 1, chunk_of(j.p, 1), 12);
	let_fail(fd, HUVM_FAIL_DMA_MAP, ~0u);
	ended_by_ecc(read_all(&j), j.p + 12 * PAGE / 8);
	CHECK_EQ(retired(fd, 1), was);
	return j;
}

static void other_copy_stays(void)
{
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 1);
	struct job j = failed_here(fd, 65);
	ARG(huvm_test_evict, evict, .gpu = 0, .chunks = 1);

	CHECK(ioctl(fd, HUVM_IOC_TEST_EVICT, &evict) < 0 || !evict.evicted);
	CHECK_ERR(migrate(j.fd, j.p, BLOCK, 1), ENOMEM);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	/* And it is that which goes home. */
	evict_one(&fd);
	CHECK_EQ(unreadable(j.p, j.len, j.add, j.mul), 0);
	job_check_gpu(&j);
	gets_retired(fd, 1, was, 1);
	job_end(&j);
	all_idle(fd);
	close(fd);
}

static void alone_again(int migrated)
{
	/* GPU 1 is to have the block for itself, as it writes the page or as it is asked for. The copy that failed goes, not the other, and
	 * what is written comes to memory that is sound. As long as the chunk cannot be emptied the client is told why, and may try again. */
	const uint64_t word = 0x5eed5eed5eedull;
	int fd = start(0, 0, 0);
	uint32_t was = retired(fd, 1);
	struct job j = failed_here(fd, 66);
	uint64_t *page = j.p + 12 * PAGE / 8;
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = PAGE / 8, .steps = 1, .dst = (uintptr_t)page, .imm0 = word };
	struct huvm_wait w;

	if (migrated) {
		CHECK_ERR(migrate(j.fd, j.p, BLOCK, 1), ENOMEM);
	} else {
		w = run_program(j.fd, 1, 1, &i, 1, 8);
		CHECK_EQ(w.status, HUVM_LAUNCH_FAILED);
		CHECK_EQ(w.error, HUVM_ERROR_NO_MEMORY);
	}
	CHECK_EQ(retired(fd, 1), was);
	let_fail(fd, HUVM_FAIL_DMA_MAP, 0);
	if (migrated) {
		CHECK_OK(migrate(j.fd, j.p, BLOCK, 1));
		CHECK_EQ(block_info(j.fd, j.p).gpu_pages[0], 0);
		CHECK_EQ(block_info(j.fd, j.p).gpu_pages[1], PAGES);
	}
	run_ok(j.fd, 1, 1, &i, 1, 8);
	gets_retired(fd, 1, was, 1);
	CHECK_EQ(unreadable(page, PAGE, word, 0), 0);
	CHECK_EQ(unreadable(j.p, 12 * PAGE, j.add, j.mul), 0);
	CHECK_EQ(unreadable(page + PAGE / 8, j.len - 13 * PAGE, j.add + 13 * PAGE / 8 * j.mul, j.mul), 0);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	all_idle(fd);
	close(fd);
}

static void written_beside_another_copy(void)
{
	alone_again(0);
}

static void migrated_beside_another_copy(void)
{
	alone_again(1);
}

static void neighbours_memory(void)
{
	/* What fails of a neighbour's memory, met by GPU 0's engine, takes no room from what fails of its own. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t chunk;
	uint64_t *block, *own = NULL;
	struct job j = borrower(fd, 0, &block, &chunk);

	for (uint32_t page = 0; page < 256; page++)
		poison(fd, 1, chunk, 2 * page);
	CHECK_ERR(migrate(j.fd, block, BLOCK, 0), EIO);
	test_reg(fd, 1, INJ_ECC_POISON, ~0u);
	for (uint64_t b = 0; b < 8 && !own; b++)
		if (chunk_behind(j.p + b * BLOCK / 8, " 0:") >= 0 && j.p + b * BLOCK / 8 != block)
			own = j.p + b * BLOCK / 8;
	CHECK(own);
	poison(fd, 0, chunk_of(own, 0), 7);
	CHECK_ERR(migrate(j.fd, own, BLOCK, HUVM_PLACE_HOST), EIO);
	says("doctor", "gpu 0 *ok *0000:");
	ends_without(&j, 257);
	all_idle(fd);
	CHECK_OK(close(comes_anew(1)));
	CHECK_OK(close(comes_anew(0)));
}

/* What is in a chunk that failed cannot go home for want of memory, and one of its pages is new: evicted, it comes to a place where it
 * can be read. @at_home: the lender's own engine met it, not the borrower's. */
static void stuck_in_spare(int at_home)
{
	const uint64_t word = 0x5eed5eed5eedull;
	int fd = start(1 << 1, 1 << 0, 4);
	uint32_t was = retired(fd, 1), chunk;
	uint64_t *block, *page;
	struct huvm_instr i = { .op = HUVM_OP_FILL, .count = PAGE / 8, .steps = 1 };
	struct huvm_instr look = { .op = HUVM_OP_CHECK, .count = PAGE / 8, .steps = 1 };
	ARG(huvm_test_evict, e, .gpu = 0, .chunks = 1);
	struct job j = borrower(fd, 0, &block, &chunk);

	page = block + 77 * PAGE / 8;
	i.dst = look.a = (uintptr_t)page;
	i.imm0 = word;
	if (at_home) {
		/* There is host memory for it and its neighbours, so that they alone can go home. */
		CHECK_OK(set_knob(j.fd, HUVM_SCOPE_SPACE, "host_chunk_sizes", 0));
		CHECK_EQ(*page, j.add + j.mul * (uint64_t)(page - j.p));
		run_ok(j.fd, 0, 1, &i, 1, 8);
		while (chunk_behind(block, " 0:") >= 0)
			CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
		CHECK(spare_of(block, 1) >= 0);
		chunk = (uint32_t)spare_of(block, 1);
	}
	poison(fd, 1, chunk, 77);
	host_memory_fails(fd, ~0u);
	if (at_home)
		CHECK_ERR(migrate(j.fd, page, PAGE, HUVM_PLACE_HOST), EIO);
	ended_by_ecc(run_program(j.fd, 0, 1, &look, 1, 8), page);
	CHECK_EQ(retired(fd, 1), was);
	CHECK_EQ(spare_of(block, 1), chunk);
	CHECK_OK(munmap(page, PAGE));
	CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, j.fd, 0) == page);
	run_ok(j.fd, 0, 1, &i, 1, 8);
	/* The block stays, or goes where it has a chunk already. */
	for (int n = 0; n < 8; n++)
		ioctl(fd, HUVM_IOC_TEST_EVICT, &e);
	host_memory_fails(fd, 0);
	while (chunk_behind(block, " 0:") >= 0)
		CHECK_OK(ioctl(fd, HUVM_IOC_TEST_EVICT, &e));
	printf("# evicted, the chunk is %lld, that was %u\n", (long long)spare_of(block, 1), chunk);
	CHECK_EQ(unreadable(page, PAGE, word, 0), 0);
	CHECK_OK(munmap(j.p, j.len));
	close(j.fd);
	all_idle(fd);
}

static void lent_and_stuck(void)
{
	stuck_in_spare(0);
}

static void lent_and_stuck_at_home(void)
{
	stuck_in_spare(1);
}

static void while_it_moves(void)
{
	/* A job three times its GPU's memory goes round through spare memory and the host while pages fail anywhere. Each launch
	 * ends well or says why not. In the end no more pages are gone than failed, and every other byte is right. */
	const int rounds_ = rounds(12);
	int fd = start(1 << 1, 1 << 0, 6);
	uint32_t was[2] = { retired(fd, 0), retired(fd, 1) }, failed = 0, told = 0;
	struct job own = job_begin(1, 6, 35), j;
	uint64_t id, gone;

	knob(fd, 1, "write_back", 1);
	j = job_begin(0, 14, 37);
	for (int round = 0; round < rounds_; round++) {
		struct huvm_instr i = check_all(&j);
		struct huvm_wait w;
		uint64_t b = chance(14);
		int64_t spare;

		CHECK_OK(launch(j.fd, 0, WIDE, &i, 1, 8, &id));
		usleep((useconds_t)chance(20000));
		/* Where it is now, or was a moment ago. The lender's own job stays whole: its chunks are none of these. */
		spare = spare_of(j.p + b * BLOCK / 8, 1);
		if (retired(fd, 1) - was[1] < 6 && spare >= 0 && chance(2)) {
			poison(fd, 1, (uint32_t)spare, (uint32_t)chance(PAGES));
			failed++;
		} else if (retired(fd, 0) - was[0] < 3) {
			spare = chunk_behind(j.p + b * BLOCK / 8, " 0:");
			if (spare >= 0) {
				poison(fd, 0, (uint32_t)spare, (uint32_t)chance(PAGES));
				failed++;
			}
		}
		w = wait_launch(j.fd, id);
		if (w.status == HUVM_LAUNCH_DONE) {
			CHECK_EQ(w.mismatches, 0);
		} else {
			ended_by_ecc(w, NULL);
			told++;
		}
	}
	gone = unreadable(j.p, j.len, j.add, j.mul);
	printf("# %u pages failed, %u launches were told, %llu pages lost, %u + %u chunks retired\n", failed, told,
	       (unsigned long long)gone, retired(fd, 0) - was[0], retired(fd, 1) - was[1]);
	CHECK(gone <= failed && (!told || gone));
	ends_without(&j, gone);
	job_end(&own);
	all_idle(fd);
	adds_up(fd);
}

/* GPU 0, anew, whose engine that evicts was given up; with a job of @blocks blocks on it. */
static int without_engine(struct job *j, uint64_t blocks)
{
	int fd = comes_anew(0);
	struct job first = job_begin(0, 1, 43);

	*j = job_begin(0, blocks, 45);
	test_reg(fd, 0, INJ_CE_FAULT_EACH, 2);
	evict_one(&fd);
	test_reg(fd, 0, INJ_CE_FAULT_EACH, 0);
	doctor_finds("gpu 0 channels *given up: gpu-to-host; *bind it again");
	cpu_check(first.p, first.len, first.add, first.mul);
	job_end(&first);
	return fd;
}

/* The engine's copy fails, then the CPU's does not: it was moved once. */
static void moved_at_the_second_try(void)
{
	int fd = comes_anew(0);
	struct job j = job_begin(0, 1, 47);
	ARG(huvm_migrate, m, .va = (uintptr_t)j.p, .length = BLOCK, .dst = HUVM_PLACE_HOST);

	test_reg(fd, 0, INJ_CE_FAULT_EACH, 2);
	CHECK_OK(ioctl(j.fd, HUVM_IOC_MIGRATE, &m));
	test_reg(fd, 0, INJ_CE_FAULT_EACH, 0);
	doctor_finds("gpu 0 channels *given up: gpu-to-host; *bind it again");
	CHECK_EQ(m.moved_bytes, BLOCK);
	cpu_check(j.p, j.len, j.add, j.mul);
	job_end(&j);
	CHECK_OK(close(fd));
	CHECK_OK(close(comes_anew(0)));
}

static void met_without_the_engine(void)
{
	/* No engine stands at a page that failed, for it is the CPU that reads: all comes home but what is known to have failed. */
	struct job j;
	int fd = without_engine(&j, 3);
	uint32_t was = retired(fd, 0), chunk = chunk_of(j.p + BLOCK / 8, 0);

	poison(fd, 0, chunk, 17);
	test_reg(fd, 0, INJ_ECC_REPORT, chunk * (uint32_t)PAGES + 511);
	ended_by_ecc(read_all(&j), j.p + (BLOCK + 17 * PAGE) / 8);
	gets_retired(fd, 0, was, 1);
	CHECK_OK(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST));
	ends_without(&j, 2);
	gets_idle(fd, 0);
	CHECK_OK(close(comes_anew(0)));
}

static void told_to_nobody(void)
{
	/* The GPU says that a page failed, and nobody has asked yet when the CPU copies it. */
	struct job j;
	int fd = without_engine(&j, 1);
	uint32_t was = retired(fd, 0), page = chunk_of(j.p, 0) * (uint32_t)PAGES + 17;

	test_reg(fd, 0, INJ_ECC_POISON, page);
	test_reg(fd, 0, INJ_ECC_REPORT, page);
	CHECK_ERR(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST), EIO);
	ends_without(&j, 1);
	CHECK(retired(fd, 0) <= was + 1);
	CHECK_OK(close(comes_anew(0)));
}

static void more_than_is_reported(void)
{
	/* And here another one of the chunk for which its list had no room: which one nobody knows, so that none comes home by the CPU. */
	struct job j;
	int fd = without_engine(&j, 1);
	uint32_t first = chunk_of(j.p, 0) * (uint32_t)PAGES, pages = (uint32_t)(chunk_count(fd, 0) * PAGES);
	uint64_t v;

	for (uint32_t i = 0; i < 63; i++)
		test_reg(fd, 0, INJ_ECC_REPORT, pages + i);
	test_reg(fd, 0, INJ_ECC_REPORT, first + 17);
	test_reg(fd, 0, INJ_ECC_POISON, first + 511);
	test_reg(fd, 0, INJ_ECC_REPORT, first + 511);
	CHECK_ERR(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(reads(j.p + 511 * PAGE / 8, &v), SIGBUS);
	close(fd);
	fd = comes_anew(0);
	ends_without(&j, PAGES);
	works(huvm_open(), 0);
	close(fd);
}

static void silent_for_a_moment(void)
{
	/*
	 * A read of a register says all ones, the n-th from when the CPU is to copy: all comes home, or the GPU is given up; not the pages
	 * alone.
	 */
	uint32_t came = 0, lost = 0;

	for (uint32_t n = 0; n < 16; n++) {
		struct job j;
		int fd = without_engine(&j, 1);

		test_reg(fd, 0, INJ_READS_ONES, n << 16 | 1);
		if (!migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST)) {
			came++;
			test_reg(fd, 0, INJ_READS_ONES, 0);
			job_turn(&j, WIDE);
			job_end(&j);
		} else {
			CHECK_EQ(errno, EIO);
			CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
			lost++;
			test_reg(fd, 0, INJ_READS_ONES, 0);
			ends_without(&j, PAGES);
		}
		close(fd);
	}
	printf("# %u times all came, %u times the GPU was lost\n", came, lost);
	CHECK(came > 0);
	CHECK_OK(close(comes_anew(0)));
}

/* GPU 0 answers again after a while. */
static void *answers_soon(void *arg)
{
	int *fd = arg;

	usleep(20000);
	test_reg(*fd, 0, INJ_READS_ONES, 0);
	return NULL;
}

/*
 * GPU 0 says nothing for a while, from the n-th read on, and the block of @moves goes to @dst, for which that of @j has to come home. Whether
 * it went; else the GPU was lost, and the pages of @j with it, unless they were home before: another's move may fail after that.
 */
static int comes_while_silent(int fd, uint32_t n, struct job *j, const struct job *moves, uint32_t dst)
{
	pthread_t t;
	int came;

	test_reg(fd, 0, INJ_READS_ONES, n << 16 | 0xffff);
	CHECK_EQ(pthread_create(&t, NULL, answers_soon, &fd), 0);
	came = !migrate(moves->fd, moves->p, BLOCK, dst);
	if (!came) {
		CHECK_EQ(errno, EIO);
		CHECK_EQ(gpu_state(fd, 0), HUVM_GPU_LOST);
	}
	pthread_join(t, NULL);
	ends_without(j, came || (moves != j && !unreadable(j->p, j->len, j->add, j->mul)) ? 0 : PAGES);
	return came;
}

static void silent_for_a_while(void)
{
	/* The same where it says nothing for a while, yet not so long that it is gone: that is no want of memory. */
	uint32_t came = 0, lost = 0;

	for (uint32_t n = 0; n < 16; n++) {
		struct job j;
		int fd = without_engine(&j, 1);

		if (comes_while_silent(fd, n, &j, &j, HUVM_PLACE_HOST))
			came++;
		else
			lost++;
		close(fd);
	}
	printf("# %u times all came, %u times the GPU was lost\n", came, lost);
	CHECK_OK(close(comes_anew(0)));
}

static void silent_while_room_is_made(void)
{
	/* And where another job needs the only chunk. */
	uint32_t came = 0, lost = 0;

	for (uint32_t n = 0; n < 16; n++) {
		struct job j, k;
		int fd = without_engine(&j, 1);

		k = job_make(0, 1, 51);
		cpu_fill(k.p, k.len, k.add, k.mul);
		CHECK_OK(limit_chunks(fd, 0, 1));
		if (comes_while_silent(fd, n, &j, &k, 0))
			came++;
		else
			lost++;
		cpu_check(k.p, k.len, k.add, k.mul);
		CHECK_OK(munmap(k.p, k.len));
		CHECK_OK(close(k.fd));
		close(fd);
	}
	printf("# %u times all came, %u times the GPU was lost\n", came, lost);
	CHECK(came > 0);
	CHECK_OK(close(comes_anew(0)));
}

/* The GPU says of many pages of a chunk that they failed, and that is heard, as each time one of a job's did. Returns chunks that are lost by it. */
static uint32_t says_much(int fd, uint32_t chunk)
{
	const uint32_t times = 5, reports = 60;

	for (uint32_t i = 0; i < times; i++) {
		struct job k = job_begin(0, 1, 47);

		for (uint32_t r = 0; r < reports; r++)
			test_reg(fd, 0, INJ_ECC_REPORT, chunk * (uint32_t)PAGES + i * reports + r);
		poison(fd, 0, chunk_of(k.p, 0), 9);
		ended_by_ecc(read_all(&k), k.p + 9 * PAGE / 8);
		CHECK_OK(munmap(k.p, k.len));
		close(k.fd);
	}
	return times + 1;
}

static void met_after_much_was_said(void)
{
	/* What is only said takes no room from what copy engines meet. */
	int fd = comes_anew(0);
	uint32_t was = retired(fd, 0), n = says_much(fd, a_free_chunk());
	struct job j = job_begin(0, 2, 49);

	gets_retired(fd, 0, was, n);
	for (uint32_t page = 0; page < 200; page++)
		poison(fd, 0, chunk_of(j.p, 0), 2 * page);
	CHECK_ERR(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST), EIO);
	gets_retired(fd, 0, was, n + 1);
	ends_without(&j, 200);
	says("doctor", "gpu 0 *ok *0000:");
	CHECK_OK(close(comes_anew(0)));
}

static void more_than_is_noted(void)
{
	/*
	 * Copy engines meet 256 pages. One that meets one more is given up, and what comes home from that GPU could be anything, so nothing does.
	 * What is there is there for the GPU, until it goes; what another has too comes from that one.
	 */
	int fd = comes_anew(0);
	struct job j = job_begin(0, 1, 51), k = job_begin(0, 2, 53), both = job_begin(0, 1, 55);
	uint64_t v;

	CHECK_OK(gpu_register(both.fd, 1));
	CHECK_OK(advise(both.fd, both.p, both.len, HUVM_ADVISE_READ_MOSTLY, 0));
	gpu_check(both.fd, 1, both.p, both.len, WIDE, both.add, both.mul);
	CHECK_EQ(block_info(both.fd, both.p).gpu_pages[0], PAGES);
	CHECK_EQ(block_info(both.fd, both.p).gpu_pages[1], PAGES);
	CHECK_EQ(block_info(both.fd, both.p).host_pages, 0);
	for (uint32_t page = 0; page < 256; page++)
		poison(fd, 0, chunk_of(j.p, 0), 2 * page);
	CHECK_ERR(migrate(j.fd, j.p, BLOCK, HUVM_PLACE_HOST), EIO);
	ends_without(&j, 256);
	test_reg(fd, 0, INJ_ECC_POISON, ~0u);
	poison(fd, 0, chunk_of(k.p, 0), 7);
	CHECK_ERR(migrate(k.fd, k.p, BLOCK, HUVM_PLACE_HOST), EIO);
	doctor_finds("gpu 0 channels *given up: gpu-to-host; *bind it again");
	test_reg(fd, 0, INJ_ECC_POISON, ~0u);
	CHECK_ERR(migrate(k.fd, k.p + BLOCK / 8, BLOCK, HUVM_PLACE_HOST), EIO);
	CHECK_EQ(reads(k.p + BLOCK / 8, &v), SIGBUS);
	gpu_check(k.fd, 0, k.p + BLOCK / 8, BLOCK, WIDE, k.add + k.mul * (BLOCK / 8), k.mul);
	job_end(&both);
	close(fd);
	fd = comes_anew(0);
	ends_without(&k, 2 * PAGES);
	/* It begins with nothing noted. */
	works(huvm_open(), 0);
	all_idle(fd);
	close(fd);
}

/* GPU 0 is evicting to GPU 1: its first copy stands. Returns the launch that wants the room, and in @page one of those that are written to. */
static uint64_t evicting_to(int fd, struct job *j, uint32_t *page)
{
	uint64_t before = of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS), id;
	int64_t chunk = -1;

	*j = job_make(0, 8, 59);
	gpu_fill(j->fd, 0, j->p, j->len / 2, 1, j->add, j->mul);
	test_reg(fd, 0, INJ_CE_HANG, 1);
	id = second_half(j);
	CHECK(WITHIN(5000, of_gpu(fd, 0, HUVM_CNT_SPARE_EVICTIONS) != before));
	for (uint64_t *p = j->p; p < j->p + j->len / 8 && chunk < 0; p += BLOCK / 8)
		chunk = spare_of(p, 1);
	CHECK(chunk >= 0);
	*page = (uint32_t)chunk * (uint32_t)PAGES + 77;
	return id;
}

static void all_arrives(int fd, struct job *j, uint64_t id)
{
	test_reg(fd, 0, INJ_CE_HANG, 0);
	CHECK_EQ(wait_launch(j->fd, id).status, HUVM_LAUNCH_DONE);
	CHECK_EQ(unreadable(j->p, j->len, j->add, j->mul), 0);
	job_end(j);
}

static void said_of_what_arrives(void)
{
	/* GPU 1 says that a page failed to which GPU 0 is evicting, and it did not: that costs the chunk, no data. */
	int fd = start(1 << 1, 1 << 0, 4);
	struct job beside = job_begin(1, 1, 57), j;
	struct huvm_instr i = check_all(&beside);
	uint32_t was = retired(fd, 1), page;
	uint64_t id = evicting_to(fd, &j, &page), reader;

	test_reg(fd, 1, INJ_ECC_REPORT, page);
	/* It is read when a page fails. */
	poison(fd, 1, chunk_of(beside.p, 1), 3);
	CHECK_OK(launch(beside.fd, 1, WIDE, &i, 1, 8, &reader));
	give_time_held(500);
	all_arrives(fd, &j, id);
	ended_by_ecc(wait_launch(beside.fd, reader), beside.p + 3 * PAGE / 8);
	gets_retired(fd, 1, was, 2);
	ends_without(&beside, 1);
	all_idle(fd);
	close(fd);
}

static void said_by_another(void)
{
	/* GPU 2, where a copy faulted, says that it stands at such a page. What it says of GPU 1's memory costs nobody anything. */
	int fd = start(1 << 1, 1 << 0, 4);
	uint64_t faults = of_gpu(fd, 2, HUVM_CNT_CE_ERRORS), id;
	uint32_t was = retired(fd, 1), page;
	struct job j, third;
	char name[32];

	id = evicting_to(fd, &j, &page);
	test_reg(fd, 2, INJ_STANDS_SAYS, 1u << 31 | 1u << 27 | page);
	test_reg(fd, 2, INJ_CE_FAULT, 1);
	third = job_begin(2, 1, 63);
	CHECK(WITHIN(5000, of_gpu(fd, 2, HUVM_CNT_CE_ERRORS) > faults));
	job_end(&third);
	all_arrives(fd, &j, id);
	CHECK_EQ(retired(fd, 1), was);
	/* It is bound again without the lie. */
	test_reg(fd, 2, INJ_STANDS_SAYS, 0);
	pci_name(fd, 2, name);
	close(fd);
	rebind(name);
}

static void two_chunks_left(void)
{
	/* Nearly all of GPU 0 fails, then the rest. Whoever cannot go on is told within the bound; GPU 1 goes on. */
	int fd = comes_anew(0);
	uint32_t n = (uint32_t)chunk_count(fd, 0), tries = 0;
	struct job other = job_begin(1, 4, 39), j;
	struct huvm_instr i = over(HUVM_OP_FILL, 4 * BLOCK, WIDE);
	struct huvm_wait w;

	CHECK_OK(limit_chunks(fd, 0, 0));
	/* What the test before poisoned and nobody met would take one chunk more. */
	test_reg(fd, 0, INJ_ECC_POISON, ~0u);
	for (uint32_t left = 2;; left = 0) {
		for (uint32_t c = 0; c < n - left; c++)
			poison(fd, 0, c, 100);
		do {
			j = job_make(0, 4, 41);
			i.dst = (uintptr_t)j.p;
			w = run_program(j.fd, 0, WIDE, &i, 1, 8);
			CHECK_OK(munmap(j.p, j.len));
			close(j.fd);
			CHECK(++tries < 3 * n);
			if (w.status == HUVM_LAUNCH_FAILED && w.error == HUVM_ERROR_NO_MEMORY)
				break;
			if (w.status == HUVM_LAUNCH_FAILED)
				ended_by_ecc(w, NULL);
		} while (w.status != HUVM_LAUNCH_DONE);
		gets_idle(fd, 0);
		adds_up(fd);
		printf("# %u of %u chunks retired after %u launches, the last ended with error %u\n", retired(fd, 0), n, tries, w.error);
		CHECK(retired(fd, 0) <= n - left);
		if (!left)
			break;
		CHECK(retired(fd, 0) >= n - 8);
	}
	CHECK_EQ(w.error, HUVM_ERROR_NO_MEMORY);
	CHECK_EQ(retired(fd, 0), n);
	job_turn(&other, WIDE);
	job_end(&other);
	for (uint32_t g = 0; g < gpu_count(fd); g++)
		test_reg(fd, g, INJ_ECC_POISON, ~0u);
}

static const struct ktap_test tests[] = {
	{ "under_a_launch", under_a_launch },
	{ "what_was_only_read_is_there", what_was_only_read_is_there },
	{ "discarded_is_not_lost", discarded_is_not_lost },
	{ "there_is_another_copy", there_is_another_copy },
	{ "its_good_pages_go_to_a_neighbour", its_good_pages_go_to_a_neighbour },
	{ "met_by_eviction", met_by_eviction },
	{ "met_by_the_cpu", met_by_the_cpu },
	{ "met_by_unregister", met_by_unregister },
	{ "other_gpu_takes_it", other_gpu_takes_it },
	{ "lent_and_fetched", lent_and_fetched },
	{ "lent_and_on_the_host_too", lent_and_on_the_host_too },
	{ "lent_and_written_back", lent_and_written_back },
	{ "lent_and_taken_back", lent_and_taken_back },
	{ "free_and_put_to_use", free_and_put_to_use },
	{ "free_and_reported", free_and_reported },
	{ "nonsense_is_reported", nonsense_is_reported },
	{ "no_host_memory", no_host_memory },
	{ "other_copy_stays", other_copy_stays, 60 },
	{ "written_beside_another_copy", written_beside_another_copy, 60 },
	{ "migrated_beside_another_copy", migrated_beside_another_copy, 60 },
	{ "neighbours_memory", neighbours_memory, 60 },
	{ "written_after_it_was_told", written_after_it_was_told, 60 },
	{ "new_beside_what_was_left_out", new_beside_what_was_left_out, 60 },
	{ "lent_and_stuck", lent_and_stuck, 60 },
	{ "lent_and_stuck_at_home", lent_and_stuck_at_home, 60 },
	{ "while_it_moves", while_it_moves, 120 },
	{ "met_without_the_engine", met_without_the_engine, 60 },
	{ "told_to_nobody", told_to_nobody, 60 },
	{ "more_than_is_reported", more_than_is_reported, 60 },
	{ "moved_at_the_second_try", moved_at_the_second_try, 60 }, { "silent_for_a_moment", silent_for_a_moment, 60 },
	{ "silent_for_a_while", silent_for_a_while, 60 }, { "silent_while_room_is_made", silent_while_room_is_made, 60 },
	{ "met_after_much_was_said", met_after_much_was_said, 60 },
	{ "more_than_is_noted", more_than_is_noted, 60 },
	{ "said_of_what_arrives", said_of_what_arrives, 60 },
	{ "said_by_another", said_by_another, 60 },
	/* Leaves GPU 0 without memory until the module goes. */
	{ "two_chunks_left", two_chunks_left, 120 },
};
KTAP_MAIN(tests)
