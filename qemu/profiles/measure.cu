// SPDX-License-Identifier: GPL-2.0
// What a profile asks for, and what NVIDIA's own driver does with managed memory, on a real GPU:
// `nvcc -std=c++17 -O2 -o measure measure.cu && ./measure`. One line of JSON for each figure: its name, the unit, the least, the median
// and the most of its runs. Takes a few GiB of host and GPU memory, and never more managed memory than the GPU has free.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
#include <cuda_runtime.h>

#define OK(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) { \
	fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); exit(1); } } while (0)

static const size_t KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30;
static const size_t BLOCK = 2 * MIB;

static double now_ns()
{
	using namespace std::chrono;
	return (double)duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

static void say(const char *name, const char *unit, std::vector<double> runs)
{
	std::sort(runs.begin(), runs.end());
	printf("{\"name\": \"%s\", \"unit\": \"%s\", \"runs\": %zu, \"least\": %.1f, \"median\": %.1f, \"most\": %.1f}\n", name, unit, runs.size(),
	       runs.front(), runs[runs.size() / 2], runs.back());
	fflush(stdout);
}

// GPU time of what `work` puts into `s`, in ns.
static double gpu_ns(cudaStream_t s, const std::function<void()> &work)
{
	static cudaEvent_t a, b;
	float ms;

	if (!a) {
		OK(cudaEventCreate(&a));
		OK(cudaEventCreate(&b));
	}
	OK(cudaEventRecord(a, s));
	work();
	OK(cudaEventRecord(b, s));
	OK(cudaEventSynchronize(b));
	OK(cudaEventElapsedTime(&ms, a, b));
	return ms * 1e6;
}

// One direction of the link: `down` is to the host.
static void copy(char *host, char *dev, size_t bytes, bool down, cudaStream_t s)
{
	if (down)
		OK(cudaMemcpyAsync(host, dev, bytes, cudaMemcpyDeviceToHost, s));
	else
		OK(cudaMemcpyAsync(dev, host, bytes, cudaMemcpyHostToDevice, s));
}

// About two seconds, in clock ticks: nothing here waits for longer.
static const uint64_t BOUND = 4000000000;

// Holds a stream until `*go`, so that what is queued behind it runs without waiting for the CPU.
__global__ void hold(volatile uint32_t *go)
{
	for (uint64_t began = clock64(); !*go && clock64() - began < BOUND;)
		;
}

// Answers `n` times.
__global__ void answer(volatile uint32_t *asked, volatile uint32_t *answered, uint32_t n)
{
	for (uint32_t i = 1; i <= n; i++) {
		for (uint64_t began = clock64(); *asked != i && clock64() - began < BOUND;)
			;
		*answered = i;
		__threadfence_system();
	}
}

// Follows a chain of `n` links from `p`.
__global__ void chase(const uint64_t *p, uint32_t n, uint64_t *end)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n; i++)
		at = *(volatile const uint64_t *)(p + at);
	*end = at;
}

__global__ void read_all(const uint4 *p, size_t n, uint32_t *sum)
{
	uint32_t x = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		uint4 v = p[i];
		x += v.x ^ v.y ^ v.z ^ v.w;
	}
	if (x == 0x12345678)
		*sum = x;
}

__global__ void write_all(uint4 *p, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		p[i] = make_uint4((uint32_t)i, 1, 2, 3);
}

// One thread reads or writes one word of each `step` bytes, one after the other.
__global__ void touch(uint64_t *p, size_t n, size_t step, bool writes, uint64_t *sum)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++) {
		volatile uint64_t *at = p + (i * step + x % 2) / 8;
		if (writes)
			*at = i;
		else
			x += *at & ~1ull;
	}
	*sum = x;
}

// To the GPU, or the CPU.
static void prefetch(void *p, size_t bytes, bool to_gpu, cudaStream_t s)
{
#if CUDART_VERSION >= 13000
	cudaMemLocation to = {};

	to.type = to_gpu ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
	OK(cudaMemPrefetchAsync(p, bytes, to, 0, s));
#else
	OK(cudaMemPrefetchAsync(p, bytes, to_gpu ? 0 : cudaCpuDeviceId, s));
#endif
	OK(cudaStreamSynchronize(s));
}

int main()
{
	cudaDeviceProp prop;
	cudaStream_t up, down;
	char *host, *host2, *dev, *dev2;
	uint32_t *flags;
	uint64_t *out;
	const size_t big = GIB;
	char name[64];

	setvbuf(stdout, nullptr, _IOLBF, 0);
	OK(cudaGetDeviceProperties(&prop, 0));
	printf("{\"gpu\": \"%s\", \"sms\": %d, \"copy_engines\": %d, \"memory_mib\": %zu}\n", prop.name, prop.multiProcessorCount,
	       prop.asyncEngineCount, prop.totalGlobalMem / MIB);
	OK(cudaStreamCreateWithFlags(&up, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&down, cudaStreamNonBlocking));
	OK(cudaHostAlloc(&host, big, cudaHostAllocMapped));
	OK(cudaHostAlloc(&host2, big, cudaHostAllocMapped));
	OK(cudaMalloc(&dev, big));
	OK(cudaMalloc(&dev2, big));
	OK(cudaHostAlloc(&flags, 4096, cudaHostAllocMapped));
	OK(cudaHostAlloc(&out, 4096, cudaHostAllocMapped));
	memset(host, 1, big);
	memset(host2, 2, big);

	// Copies by the engines: all of `big` in pieces, queued behind each other before the first begins.
	for (int dir = 0; dir < 2; dir++) {
		for (size_t piece : { 4 * KIB, 64 * KIB, 256 * KIB, BLOCK, 32 * MIB }) {
			std::vector<double> runs, each;
			size_t n = std::min<size_t>(big / piece, 256);
			for (int r = 0; r < 7; r++) {
				flags[0] = 0;
				hold<<<1, 1, 0, up>>>(flags);
				double ns = gpu_ns(up, [&] {
					for (size_t i = 0; i < n; i++)
						copy(host + i * piece, dev + i * piece, piece, dir, up);
					// The end is queued long before the copies are over.
					*(volatile uint32_t *)flags = 1;
				});
				runs.push_back(n * piece / (ns / 1e3));
				each.push_back(ns / n);
			}
			snprintf(name, sizeof(name), "%s of %zu KiB, queued", dir ? "d2h" : "h2d", piece / KIB);
			say(name, "MB/s", runs);
			say(name, "ns each", each);
		}
	}
	// One copy alone: by events, and as the CPU sees it.
	for (int dir = 0; dir < 2; dir++) {
		for (size_t bytes : { (size_t)4, 4 * KIB, 64 * KIB, BLOCK }) {
			std::vector<double> runs, seen;
			for (int r = 0; r < 101; r++) {
				runs.push_back(gpu_ns(up, [&] { copy(host, dev, bytes, dir, up); }));
				double t = now_ns();
				copy(host, dev, bytes, dir, up);
				OK(cudaStreamSynchronize(up));
				seen.push_back(now_ns() - t);
			}
			snprintf(name, sizeof(name), "%s of %zu bytes, alone, by events", dir ? "d2h" : "h2d", bytes);
			say(name, "ns", runs);
			snprintf(name, sizeof(name), "%s of %zu bytes, alone, to the CPU", dir ? "d2h" : "h2d", bytes);
			say(name, "ns", seen);
		}
	}
	// Both directions at once, in blocks.
	{
		std::vector<double> runs;
		for (int r = 0; r < 7; r++) {
			OK(cudaDeviceSynchronize());
			double t = now_ns();
			for (size_t at = 0; at < big; at += BLOCK) {
				copy(host + at, dev + at, BLOCK, false, up);
				copy(host2 + at, dev2 + at, BLOCK, true, down);
			}
			OK(cudaDeviceSynchronize());
			runs.push_back(2 * big / ((now_ns() - t) / 1e3));
		}
		say("h2d and d2h at once, 2 MiB each, sum", "MB/s", runs);
		runs.clear();
		for (int r = 0; r < 7; r++)
			runs.push_back(2 * big / (gpu_ns(up, [&] { OK(cudaMemcpyAsync(dev2, dev, big, cudaMemcpyDeviceToDevice, up)); }) / 1e3));
		say("memory, read and written by a copy", "MB/s", runs);
	}
	// The CPU asks through host memory, a kernel answers.
	{
		std::vector<double> runs;
		const uint32_t n = 2000;
		flags[0] = flags[64] = 0;
		answer<<<1, 1, 0, up>>>(flags, flags + 64, n);
		for (uint32_t i = 1; i <= n; i++) {
			double t = now_ns();
			*(volatile uint32_t *)flags = i;
			while (*(volatile uint32_t *)(flags + 64) != i)
				;
			runs.push_back(now_ns() - t);
		}
		OK(cudaStreamSynchronize(up));
		say("CPU to kernel and back, through host memory", "ns", runs);
	}
	// An empty kernel, begun and waited for.
	{
		std::vector<double> runs;
		flags[0] = 1;
		for (int r = 0; r < 501; r++) {
			double t = now_ns();
			hold<<<1, 1, 0, up>>>(flags);
			OK(cudaStreamSynchronize(up));
			runs.push_back(now_ns() - t);
		}
		say("kernel, begun and waited for", "ns", runs);
	}
	// Memory of the host, read and written in place.
	for (int where = 0; where < 2; where++) {
		uint64_t *p = (uint64_t *)(where ? dev : host), *chain = (uint64_t *)host2;
		const size_t links = 4096, step = 64 * KIB / 8 / 4;
		std::vector<double> runs;
		for (size_t i = 0; i < links; i++)
			chain[i * step] = (i + 1) % links * step;
		OK(cudaMemcpy(p, chain, links * step * 8, cudaMemcpyDefault));
		for (int r = 0; r < 11; r++) {
			runs.push_back(gpu_ns(up, [&] { chase<<<1, 1, 0, up>>>(p, links - 1, out); }) / (links - 1));
		}
		snprintf(name, sizeof(name), "one word of %s memory, read by a thread", where ? "GPU" : "host");
		say(name, "ns", runs);
	}
	for (int blocks : { 1, 8, 32, 132, 1056 }) {
		std::vector<double> reads, writes;
		for (int r = 0; r < 5; r++) {
			size_t n = (blocks == 1 ? big / 8 : big) / 16;
			reads.push_back(n * 16 / (gpu_ns(up, [&] { read_all<<<blocks, 256, 0, up>>>((uint4 *)host, n, flags + 128); }) / 1e3));
			writes.push_back(n * 16 / (gpu_ns(up, [&] { write_all<<<blocks, 256, 0, up>>>((uint4 *)host, n); }) / 1e3));
		}
		snprintf(name, sizeof(name), "host memory read in place by %d blocks", blocks);
		say(name, "MB/s", reads);
		snprintf(name, sizeof(name), "host memory written in place by %d blocks", blocks);
		say(name, "MB/s", writes);
	}
	OK(cudaFree(dev2));
	OK(cudaFreeHost(host2));

	// The driver's own managed memory, far less than the GPU has free.
	size_t is_free, total;
	OK(cudaMemGetInfo(&is_free, &total));
	if (is_free < 8 * GIB || !prop.concurrentManagedAccess) {
		printf("{\"name\": \"managed memory\", \"skipped\": true}\n");
		return 0;
	}
	std::vector<double> dense, sparse, sparse64, ahead, ahead_home, fresh, home, again, one_w;
	for (int r = 0; r < 5; r++) {
		char *m;
		OK(cudaMallocManaged(&m, big));
		memset(m, 3, big);
		// One fault after the other, each in a block of its own: host memory, read by one thread.
		sparse.push_back(gpu_ns(up, [&] { touch<<<1, 1, 0, up>>>((uint64_t *)m, 256, BLOCK, false, out); }) / 256);
		OK(cudaFree(m));

		OK(cudaMallocManaged(&m, big));
		memset(m, 3, big);
		sparse64.push_back(gpu_ns(up, [&] { touch<<<1, 1, 0, up>>>((uint64_t *)m, 512, 64 * KIB, false, out); }) / 512);
		OK(cudaFree(m));

		OK(cudaMallocManaged(&m, big));
		memset(m, 3, big);
		dense.push_back(big / (gpu_ns(up, [&] { read_all<<<1056, 256, 0, up>>>((uint4 *)m, big / 16, flags + 128); }) / 1e3));
		again.push_back(big / (gpu_ns(up, [&] { read_all<<<1056, 256, 0, up>>>((uint4 *)m, big / 16, flags + 128); }) / 1e3));
		double t = now_ns();
		for (size_t at = 0; at < big; at += 4 * KIB)
			*(volatile char *)(m + at) += 1;
		home.push_back(big / ((now_ns() - t) / 1e3));
		t = now_ns();
		prefetch(m, big, true, up);
		ahead.push_back(big / ((now_ns() - t) / 1e3));
		t = now_ns();
		prefetch(m, big, false, up);
		ahead_home.push_back(big / ((now_ns() - t) / 1e3));
		OK(cudaFree(m));

		OK(cudaMallocManaged(&m, big));
		fresh.push_back(big / (gpu_ns(up, [&] { write_all<<<1056, 256, 0, up>>>((uint4 *)m, big / 16); }) / 1e3));
		OK(cudaFree(m));
		OK(cudaMallocManaged(&m, big));
		one_w.push_back(gpu_ns(up, [&] { touch<<<1, 1, 0, up>>>((uint64_t *)m, 256, BLOCK, true, out); }) / 256);
		OK(cudaFree(m));
	}
	say("managed: a fault in each 2 MiB block of host memory, one thread", "ns each", sparse);
	say("managed: a fault in each 64 KiB of host memory, one thread", "ns each", sparse64);
	say("managed: first touch of a block by one thread that writes", "ns each", one_w);
	say("managed: host memory read by a full grid", "MB/s", dense);
	say("managed: the same when it is there", "MB/s", again);
	say("managed: back to the CPU, page by page", "MB/s", home);
	say("managed: cudaMemPrefetchAsync to the GPU", "MB/s", ahead);
	say("managed: cudaMemPrefetchAsync to the CPU", "MB/s", ahead_home);
	say("managed: nowhere yet, written by a full grid", "MB/s", fresh);
	return 0;
}
