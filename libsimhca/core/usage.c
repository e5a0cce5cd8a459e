/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "core/usage.h"

#define ALL_OF 64	     /* the first ones */
#define STEP_SHIFT 27	     /* then up to 31 are left out */
#define UNDER_WAY (1u << 30) /* no other one is due meanwhile */

struct simhca_usage *simhca_usage_create(void)
{
	struct simhca_usage *usage = aligned_alloc(_Alignof(struct simhca_usage), sizeof(*usage));

	if (usage)
		memset(usage, 0, sizeof(*usage));
	return usage;
}

void simhca_usage_begin(struct simhca_usage *usage, uint32_t index, uint64_t now_ns)
{
	usage->timed = index;
	usage->since_ns = now_ns;
	usage->next_timed = index + UNDER_WAY;
}

void simhca_usage_end(struct simhca_usage *usage, uint64_t now_ns)
{
	_Atomic uint32_t *count = &usage->latency[simhca_latency_bucket(now_ns - usage->since_ns)];
	uint32_t left_out = 0;

	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (usage->times < ALL_OF) {
		usage->times++;
	} else {
		usage->random = usage->random * 1664525 + 1013904223;
		left_out = usage->random >> STEP_SHIFT;
	}
	usage->since_ns = 0;
	usage->next_timed = usage->timed + 1 + left_out;
}

void simhca_usage_forget(struct simhca_usage *usage)
{
	usage->since_ns = 0;
	usage->next_timed = 0;
}

static uint64_t value(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

void simhca_usage_sum(const struct simhca_usage *usage, struct simhca_usage_sum *sum)
{
	sum->messages += value(&usage->messages);
	sum->bytes += value(&usage->bytes);
	sum->reads += value(&usage->reads);
	sum->read_bytes += value(&usage->read_bytes);
	sum->received += value(&usage->received);
	sum->received_bytes += value(&usage->received_bytes);
	sum->retries += value(&usage->retries);
	sum->rnr_naks += value(&usage->rnr_naks);
	sum->rnr_delay_ns += value(&usage->rnr_delay_ns);
	sum->no_receive += value(&usage->no_receive);
	sum->errors += value(&usage->errors);
	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		sum->latency[i] += atomic_load_explicit(&usage->latency[i], memory_order_relaxed);
}
