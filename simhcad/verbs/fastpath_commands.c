/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands by which programs carry messages themselves. */
#include "handlers.h"
#include "sender.h"
#include "session/event_channel.h"
#include "simhca-attach.h"

HANDLER(offer_memory)
{
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	return ret ? ret : simhca_offer_memory(session->context, mm, request->body, why);
}

CALL(find_peer, request->body, reply->body);

/* The channel, for a program that may write to the memory of the process that reads there. */
static void lend_channel(struct session *session, uint64_t *channel, uint64_t event, pid_t reader,
			 struct reply *reply)
{
	int fd = *channel ? event_lend(&session->events, *channel, event, reader) : -1;

	if (fd >= 0)
		reply_add_fd(reply, fd, false);
	else
		*channel = 0;
}

HANDLER(attach_peer)
{
	struct simhca_attach_peer_reply *out = reply->body;
	struct simhca_attached attached;
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	if (!ret)
		ret = simhca_attach_peer(session->context, mm, request->body, out, &attached, why);
	if (ret)
		return ret;
	for (int i = 0; i < 3; i++)
		reply_add_fd(reply, attached.fds[i], false);
	if (attached.writers >= 0)
		reply_add_fd(reply, attached.writers, false);
	if (attached.peer_writers >= 0)
		reply_add_fd(reply, attached.peer_writers, false);
	lend_channel(attached.peer, &out->recv_channel, out->recv_event, attached.peer_pid, reply);
	lend_channel(session, &out->send_channel, out->send_event, attached.own_pid, reply);
	return 0;
}

HANDLER(map_region)
{
	struct simhca_mm *mm;
	int fd, ret = sender_memory(session, request, &mm, why);

	if (!ret)
		ret = simhca_map_region(session->context, mm, request->body, reply->body, &fd, why);
	if (ret)
		return ret;
	session->maps = true;
	reply_add_fd(reply, fd, false);
	return 0;
}

command_table fastpath_commands = {
	COMMAND(OFFER_MEMORY, offer_memory, SIZE(offer_memory_req), NONE, 0),
	COMMAND(FIND_PEER, find_peer, SIZE(find_peer_req), SIZE(find_peer_reply), 0),
	COMMAND(ATTACH_PEER, attach_peer, SIZE(attach_peer_req), SIZE(attach_peer_reply), 0),
	COMMAND(MAP_REGION, map_region, SIZE(map_region_req), SIZE(map_region_reply), 0),
};
