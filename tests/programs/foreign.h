/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * With -DFOREIGN="PATH" and without -lsimhca: a device that is not the library's. libibverbs has
 * its provider from a copy of the library's file (IBV_DRIVERS), and only then is the library itself
 * loaded, from PATH. To it the device is any verbs device, and there is no hint of missed events.
 *
 * The library is closed again at once: it stays for the sake of its threads.
 */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <dlfcn.h>
#include <infiniband/simhcadv.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *foreign_call(const char *name)
{
	void *library = dlopen(FOREIGN, RTLD_NOW);
	void *call = library ? dlsym(library, name) : NULL;

	if (!call) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	dlclose(library);
	return call;
}

#define FOREIGN_CALL(name) (((__typeof__(&name))foreign_call(#name)))

struct ibv_cq *simhcadv_alloc_cq(struct ibv_context *context, void *cq_context, int nr_cqe,
				 int comp_vector, enum simhcadv_poll_context poll_ctx)
{
	return FOREIGN_CALL(simhcadv_alloc_cq)(context, cq_context, nr_cqe, comp_vector, poll_ctx);
}

int simhcadv_free_cq(struct ibv_cq *cq)
{
	return FOREIGN_CALL(simhcadv_free_cq)(cq);
}

int simhcadv_process_cq_direct(struct ibv_cq *cq, int budget)
{
	return FOREIGN_CALL(simhcadv_process_cq_direct)(cq, budget);
}

int simhcadv_req_notify_cq(struct ibv_cq *cq, int flags)
{
	return FOREIGN_CALL(simhcadv_req_notify_cq)(cq, flags);
}

/* What the other tests make sure of is here what must not be. */
#define simhcadv_is_supported(device) (!FOREIGN_CALL(simhcadv_is_supported)(device))

#endif
