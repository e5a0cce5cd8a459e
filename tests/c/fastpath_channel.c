/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion channels, as the provider has them, and events that the device raises. */
#include <sys/socket.h>

#include "fastpath_scene.h"

unsigned int fastpath_raised;

void fastpath_count_event(struct cq *cq, void *arg)
{
	(void)cq;
	(void)arg;
	fastpath_raised++;
}

/* A completion channel, as the provider has it; ends[0] is the device's. */
void fastpath_open_channel(struct simhca_notify *tell, const struct cq *cq, int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*tell = (struct simhca_notify){ .fd = ends[0], .record = (uintptr_t)cq };
}

void fastpath_close_channel(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* Records of nobody, until there is no room. */
void fastpath_fill_channel(const int ends[2])
{
	const uint64_t nobody = 0;

	while (send(ends[0], &nobody, sizeof(nobody), MSG_DONTWAIT) == sizeof(nobody))
		;
}

/* How many events of the CQ are there. */
unsigned int fastpath_read_channel(const int ends[2], const struct cq *cq)
{
	unsigned int events = 0;
	uint64_t record;

	while (recv(ends[1], &record, sizeof(record), MSG_DONTWAIT) == sizeof(record)) {
		assert_true(!record || record == (uintptr_t)cq);
		events += record != 0;
	}
	return events;
}
