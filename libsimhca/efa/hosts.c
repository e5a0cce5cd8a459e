/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The other hosts with which QPs of a context speak, and what has passed. */
#include <stdlib.h>

#include "core/lock.h"
#include "wire.h"

struct efa_host *efa_host_find(const struct simhca_efa *efa, const union simhca_gid *gid)
{
	struct efa_host *host;

	HASH_FIND(hh, efa->hosts, gid, sizeof(*gid), host);
	return host;
}

struct efa_host *efa_host_join(struct simhca_efa *efa, const union simhca_gid *gid)
{
	struct efa_host *host = efa_host_find(efa, gid);

	if (host)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->gid = *gid;
	pthread_mutex_lock(&efa->hosts_lock);
	HASH_ADD(hh, efa->hosts, gid, sizeof(host->gid), host);
	pthread_mutex_unlock(&efa->hosts_lock);
	return host;
}

void efa_host_release(struct simhca_efa *efa, struct efa_host *host)
{
	if (atomic_load(&host->routes) || atomic_load(&host->flows))
		return;
	pthread_mutex_lock(&efa->hosts_lock);
	HASH_DEL(efa->hosts, host);
	pthread_mutex_unlock(&efa->hosts_lock);
	free(host);
}

void efa_host_lost(struct simhca_efa *efa, const union simhca_gid *gid)
{
	struct efa_host *host;

	pthread_mutex_lock(&efa->hosts_lock);
	host = efa_host_find(efa, gid);
	if (host)
		efa_host_count(&host->lost, 1);
	pthread_mutex_unlock(&efa->hosts_lock);
}

bool simhca_efa_traffic(struct simhca_context *context, uint32_t index,
			struct simhca_efa_traffic *traffic)
{
	struct simhca_efa *efa = context->efa;
	struct efa_host *host;

	if (!efa)
		return false;
	pthread_mutex_lock(&efa->hosts_lock);
	host = efa->hosts;
	while (host && index--)
		host = host->hh.next;
	if (host)
		*traffic = (struct simhca_efa_traffic){
			.peer = host->gid,
			.routes = atomic_load(&host->routes),
			.flows = atomic_load(&host->flows),
			.sent = atomic_load(&host->sent),
			.repeated = atomic_load(&host->repeated),
			.received = atomic_load(&host->received),
			.lost = atomic_load(&host->lost),
		};
	pthread_mutex_unlock(&efa->hosts_lock);
	return host;
}
