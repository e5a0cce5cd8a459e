/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Calls of libibverbs' public API that go past the provider. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "fake_daemon.h"

static void require(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void require_record(int fd, const char *record, const char *what)
{
	char text[32] = "";

	require(read(fd, text, sizeof(text)) == (ssize_t)strlen(record) && !strcmp(text, record),
		what);
}

static void check_gids(struct ibv_context *context)
{
	static const union ibv_gid empty;
	struct ibv_gid_entry entry, table[8];
	union ibv_gid gid;

	require(!ibv_query_gid(context, 1, 1, &gid) && gid.raw[0] == 0xfe, "ibv_query_gid");
	require(!ibv_query_gid(context, 1, 3, &gid) && !memcmp(&gid, &empty, sizeof(gid)),
		"ibv_query_gid of an empty entry");
	require(ibv_query_gid(context, 1, 4, &gid), "ibv_query_gid beyond the table");
	require(!ibv_query_gid_ex(context, 1, 1, &entry, 0), "ibv_query_gid_ex");
	require(entry.gid_type == IBV_GID_TYPE_ROCE_V2, "GID type");
	require(entry.ndev_ifindex == if_nametoindex("lo"), "GID interface");
	require(ibv_query_gid_ex(context, 1, 3, &entry, 0) == ENODATA,
		"ibv_query_gid_ex of an empty entry");
	require(ibv_query_gid_table(context, table, 8, 0) == 2, "ibv_query_gid_table");
	require(table[0].gid_type == IBV_GID_TYPE_ROCE_V1 && table[1].gid_index == 1,
		"GID table's contents");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context, *imported;
	struct ibv_comp_channel *channel;

	require(list && list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	require(context != NULL, "ibv_open_device");
	/* The provider left this one to the library. */
	require_record(context->async_fd, FAKE_ASYNC_RECORD, "asynchronous events");

	channel = ibv_create_comp_channel(context);
	require(channel != NULL, "ibv_create_comp_channel");
	require_record(channel->fd, FAKE_CHANNEL_RECORD, "completion channel");
	require(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");

	check_gids(context);

	imported = ibv_import_device(dup(context->cmd_fd));
	require(imported != NULL, "ibv_import_device");
	require_record(imported->async_fd, FAKE_ASYNC_RECORD, "imported asynchronous events");
	check_gids(imported);
	ibv_close_device(imported);
	ibv_close_device(context);
	ibv_free_device_list(list);
	puts("ok");
	return 0;
}
