/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Prints a device's counters of on-demand paging, over all regions that it has had, as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <infiniband/simhcadv.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	/* As a program has them that knows of a counter more. */
	struct {
		struct simhcadv_odp_counters known;
		uint64_t later;
	} counters = { .later = 1 };
	struct simhcadv_odp_counters odp;

	if (!context || simhcadv_query_odp(context, &odp, sizeof(odp))) {
		fprintf(stderr, "no device that counts\n");
		return 1;
	}
	if (simhcadv_query_odp(context, &odp, sizeof(odp) - 8) != EINVAL ||
	    simhcadv_query_odp(context, &counters.known, sizeof(counters)) || counters.later) {
		fprintf(stderr, "the length of the counters does not count\n");
		return 1;
	}
	printf("{\"faults\": %" PRIu64 ", \"fault_pages\": %" PRIu64 ", \"failures\": %" PRIu64
	       ", \"invalidated_pages\": %" PRIu64 ", \"watched_pages\": %" PRIu64
	       ", \"checked_pages\": %" PRIu64 "}\n",
	       odp.faults, odp.fault_pages, odp.failures, odp.invalidated_pages, odp.watched_pages,
	       odp.checked_pages);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
