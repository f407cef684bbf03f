/* SPDX-License-Identifier: GPL-2.0 */
/* Dimensions of the matrix that the soak draws from too: the words that a step touches, and policies. */
#ifndef MATRIX_DIMS_H
#define MATRIX_DIMS_H

#include "matrix_lib.h"

/* ---- words touched ---- */

static void all_words(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	add_shape(s, (struct shape){ .blocks = 4, .count = PIECE / 8, .steps = len / PIECE / 4, .block_stride = PIECE,
		  .step_stride = 4 * PIECE });
}

/* One word of each page. */
static void page_stride(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	add_shape(s, (struct shape){ .at = 40, .blocks = 4, .count = 1, .steps = len / PAGE / 4, .block_stride = PAGE,
		  .step_stride = 4 * PAGE });
}

/* Two words of every 17th page: few pages, in every 64 KiB another. */
static void far_stride(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	for (uint64_t at = 3 * PAGE + 64; at <= 3 * PAGE + 72; at += 8)
		add_shape(s, (struct shape){ .at = at, .blocks = 1, .count = len / (17 * PAGE), .steps = 1,
			  .elem_stride = 17 * PAGE });
}

/* All of it in one step of one block. */
static void large(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	add_shape(s, (struct shape){ .blocks = 1, .count = len / 8, .steps = 1 });
}

/* Every second piece of 64 KiB. */
static void pieces(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	add_shape(s, (struct shape){ .at = PIECE, .blocks = 2, .count = PIECE / 8, .steps = len / PIECE / 4,
		  .block_stride = 2 * PIECE, .step_stride = 4 * PIECE });
}

static void twice(struct shapes *s, uint64_t len)
{
	pieces(s, len);
	s->repeat = 2;
}

static void many_times(struct shapes *s, uint64_t len)
{
	pieces(s, len);
	s->s[0].iterations = 4;
}

#define PART (8 * PIECE)
static struct shape part(uint64_t at)
{
	return (struct shape){ .at = at, .blocks = 2, .count = PIECE / 8, .steps = 4, .block_stride = PIECE,
			       .step_stride = 2 * PIECE };
}

/* Many launches at a time. */
static void launches(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	s->together = 1;
	for (uint64_t at = 0; at < len; at += PART)
		add_shape(s, part(at));
}

/* From the end to the beginning, one launch after the other. */
static void backwards(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	for (uint64_t at = len; at; at -= PART)
		add_shape(s, part(at - PART));
}

/* The first and the last word of each block of 2 MiB. */
static void edges(struct shapes *s, uint64_t len)
{
	s->repeat = 1;
	for (uint64_t at = 0; at <= BLOCK - 8; at += BLOCK - 8)
		add_shape(s, (struct shape){ .at = at, .blocks = 1, .count = 1, .steps = len / BLOCK, .step_stride = BLOCK });
}

static const struct pattern {
	const char *name;
	void (*make)(struct shapes *s, uint64_t len);
} patterns[] = {
	{ "once", all_words }, { "twice", twice }, { "many", many_times }, { "stride", page_stride },
	{ "far-stride", far_stride }, { "large", large }, { "64k", pieces }, { "launches", launches },
	{ "backwards", backwards }, { "edges", edges },
};
#define NPATTERNS ((int)(sizeof(patterns) / sizeof(patterns[0])))

/* ---- policies ---- */

struct value {
	const char *knob;
	uint64_t value;
};

/*
 * A preset, or one change of 'demand', or more where one alone does nothing. Bounds are made to suit small memories: a share is of
 * all 28 chunks, also where a setting leaves three, so 5 % keep one of these free, and more would evict what has just come.
 */
static const struct policy {
	const char *name, *preset;
	struct value v[4];
} policies[] = {
	{ "demand", "demand" }, { "huvm", "huvm" }, { "memharvester", "memharvester" }, { "stock-595", "stock-595" },
	{ "stock-460", "stock-460" }, { "random", "random" }, { "zero-copy", "zero-copy" }, { "preef-host", "preef-host" },
	{ "no-prefetch", "demand", { { "prefetch_mode", 0 } } },
	{ "prefetch-all", "demand", { { "prefetch_threshold_percent", 1 } } },
	{ "batch-16", "demand", { { "fault_batch_max", 16 } } },
	{ "replay-block", "demand", { { "replay_policy", 0 } } },
	{ "replay-batch", "demand", { { "replay_policy", 1 } } },
	{ "replay-once", "demand", { { "replay_policy", 3 } } },
	{ "evict-recent", "demand", { { "evict_order", 2 }, { "evict_guard_chunks", 1 } } },
	{ "evict-adaptive", "demand", { { "evict_order", 3 }, { "evict_guard_chunks", 1 } } },
	{ "evict-off", "demand", { { "evict_enable", 0 } } },
	{ "no-thrash", "demand", { { "thrash_enable", 0 } } },
	{ "thrash-early", "demand", { { "thrash_threshold_events", 1 }, { "thrash_pin_threshold_periods", 1 },
				      { "thrash_window_us", 5000 }, { "thrash_pin_windows", 10 } } },
	{ "host-64k", "demand", { { "host_chunk_sizes", 1 } } },
	{ "pre-evict", "demand", { { "pre_evict", 1 }, { "pre_evict_share_percent", 5 } } },
	{ "stream", "demand", { { "stream_prefetch", 2 }, { "prefetch_confirm_steps", 1 }, { "prefetch_amount_mib", 8 } } },
	{ "next-line", "demand", { { "stream_prefetch", 1 }, { "prefetch_confirm_steps", 1 }, { "prefetch_amount_mib", 4 } } },
	{ "large-pages", "demand", { { "large_page_evict", 1 } } },
	{ "eager", "memharvester", { { "prefetch_confirm_steps", 1 }, { "prefetch_amount_mib", 8 },
				     { "pre_evict_share_percent", 5 }, { "spare_replace", 2 } } },
	{ "no-write-back", "huvm", { { "write_back", 0 }, { "spare_select", 2 } } },
};
#define NPOLICIES ((int)(sizeof(policies) / sizeof(policies[0])))

/* In force for all, unless a GPU or a file has its own. */
static int set_policy(int ctl, const struct policy *p)
{
	if (set_preset(ctl, HUVM_SCOPE_GLOBAL, p->preset) < 0)
		return -1;
	/* Of 128 MiB most would never be used, and each change of policy frees them or makes them. */
	if (set_knob(ctl, HUVM_SCOPE_GLOBAL, "large_page_pool_mib", 8) < 0)
		return -1;
	for (int i = 0; i < 4 && p->v[i].knob; i++)
		if (set_knob(ctl, HUVM_SCOPE_GLOBAL, p->v[i].knob, p->v[i].value) < 0)
			return -1;
	return 0;
}

#endif
