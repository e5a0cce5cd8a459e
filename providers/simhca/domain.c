/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Thread domains and parent domains. A parent domain is a PD by another name, that gives the
 * objects made in it an allocator and a thread domain. The allocator is asked for the state that
 * the provider keeps of a QP, CQ or SRQ, with the locks and counters of its queues; the rings lie
 * in memory that is shared with the device. What is made in a thread domain has no locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

#define HOME_ALIGNMENT 64u /* bytes: a cache line */

/*
 * IBV_PARENT_DOMAIN_INIT_ATTR_x, which older headers lack: in a confidential virtual machine memory
 * may be taken that the host sees. The device is in the same machine, and has no need of that.
 */
#define ALLOW_CC_UNPROTECTED_ALLOC (1u << 2)

struct ibv_td *shca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct shca_td *td;

	if (attr->comp_mask)
		return shca_null(shca_say_refusal(to_sctx(context), SIMHCA_SAY_ALLOC_TD, EINVAL,
						  "comp_mask of ibv_td_init_attr is not 0"));
	td = calloc(1, sizeof(*td));
	if (!td)
		return shca_null(ENOMEM);
	td->ibv_td.context = context;
	return &td->ibv_td;
}

int shca_dealloc_td(struct ibv_td *ibv_td)
{
	struct shca_td *td = SHCA_CONTAINER(struct shca_td, ibv_td, ibv_td);
	char text[64];
	uint32_t users;

	users = atomic_load_explicit(&td->users, memory_order_acquire);
	if (users) {
		snprintf(text, sizeof(text),
			 "this thread domain is still used by %u parent domain%s", users,
			 users == 1 ? "" : "s");
		return shca_say_busy(to_sctx(ibv_td->context), SIMHCA_SAY_DEALLOC_TD, text);
	}
	free(td);
	return 0;
}

void shca_pd_put(struct shca_pd *pd)
{
	if (atomic_fetch_sub_explicit(&pd->refs, 1, memory_order_acq_rel) == 1)
		free(pd);
}

struct ibv_pd *shca_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_CC_UNPROTECTED_ALLOC;
	struct shca_pd *domain;

	const char *wrong = NULL;

	if (attr->comp_mask & ~known)
		wrong = "comp_mask has bits that are not known";
	else if (!attr->pd)
		wrong = "pd is NULL";
	else if (attr->pd->context != context || (attr->td && attr->td->context != context))
		wrong = "pd or td was created by another ibv_context";
	else if (to_spd(attr->pd)->protection) /* it would say two things about each object */
		wrong = "pd is a parent domain: use the PD that this one was made of";
	else if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
		 (!attr->alloc || !attr->free))
		wrong = "alloc or free is NULL";
	if (wrong)
		return shca_null(shca_say_refusal(to_sctx(context), SIMHCA_SAY_ALLOC_PARENT_DOMAIN,
						  EINVAL, wrong));

	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return shca_null(ENOMEM);
	domain->ibv_pd.context = context;
	domain->ibv_pd.handle = attr->pd->handle;
	atomic_init(&domain->refs, 1);
	domain->protection = to_spd(attr->pd);
	atomic_fetch_add_explicit(&domain->protection->refs, 1, memory_order_relaxed);
	if (attr->td) {
		domain->td = SHCA_CONTAINER(struct shca_td, ibv_td, attr->td);
		atomic_fetch_add_explicit(&domain->td->users, 1, memory_order_relaxed);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		domain->alloc = attr->alloc;
		domain->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		domain->pd_context = attr->pd_context;
	return &domain->ibv_pd;
}

/* EBUSY: QPs, CQs or SRQs that were made in it, and need its allocator, are left. */
int shca_dealloc_parent_domain(struct shca_pd *domain)
{
	struct shca_pd *protection = domain->protection;
	struct shca_td *td = domain->td;
	char text[80];
	uint32_t refs;

	refs = atomic_load_explicit(&domain->refs, memory_order_acquire);
	if (refs > 1) {
		snprintf(text, sizeof(text),
			 "this parent domain is still used by %u object%s: QPs, CQs, SRQs",
			 refs - 1, refs == 2 ? "" : "s");
		return shca_say_busy(to_sctx(domain->ibv_pd.context), SIMHCA_SAY_DEALLOC_PD, text);
	}
	if (td)
		atomic_fetch_sub_explicit(&td->users, 1, memory_order_release);
	shca_pd_put(domain);
	shca_pd_put(protection);
	return 0;
}

void *shca_home_alloc(struct ibv_pd *pd, enum simhcadv_res_type type, size_t size,
		      struct shca_home *home)
{
	struct shca_pd *domain = pd && to_spd(pd)->protection ? to_spd(pd) : NULL;
	void *ptr = IBV_ALLOCATOR_USE_DEFAULT;

	*home = (struct shca_home){ .domain = domain, .type = type };
	if (domain && domain->alloc)
		ptr = domain->alloc(pd, domain->pd_context, size, HOME_ALIGNMENT, type);
	if (ptr == IBV_ALLOCATOR_USE_DEFAULT) {
		ptr = calloc(1, size);
	} else if (ptr) {
		home->external = true;
		memset(ptr, 0, size);
	}
	if (!ptr)
		return shca_null(ENOMEM);
	if (domain)
		atomic_fetch_add_explicit(&domain->refs, 1, memory_order_relaxed);
	return ptr;
}

/* By value, for it lies in the memory that goes. */
void shca_home_free(struct shca_home home, void *ptr)
{
	if (home.external)
		home.domain->free(&home.domain->ibv_pd, home.domain->pd_context, ptr, home.type);
	else
		free(ptr);
	if (home.domain)
		shca_pd_put(home.domain);
}
