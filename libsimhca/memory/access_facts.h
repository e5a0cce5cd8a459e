/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is to be said of a failure, whatever the device is. */
#ifndef LIBSIMHCA_ACCESS_FACTS_H
#define LIBSIMHCA_ACCESS_FACTS_H

#include "core/fabric.h"
#include "core/gone.h"
#include "key.h"

/* The access that was refused, and what the key names, or has named, to who used it. */
static inline void simhca_failure_add_access(struct simhca_failure *failure,
					     const struct simhca_key_use *use, uint32_t key,
					     uint64_t va, uint64_t bytes)
{
	failure->has_access = true;
	failure->key = key;
	failure->va = va;
	failure->bytes = bytes;
	failure->pd = use->pd;
	simhca_key_facts(use, key, &failure->entry);
	simhca_gone_facts(use->device->gone, failure, &failure->gone);
}

static inline void simhca_failure_report(const struct simhca_fabric *fabric,
					 const struct simhca_failure *failure)
{
	if (fabric->ops.failure)
		fabric->ops.failure(fabric->ops.arg, failure);
}

#endif
