/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of Ethernet: work queues, RSS, flows and their counters. */
#include "base/privilege.h"
#include "destroy.h"
#include "handlers.h"
#include "simhca-verbs.h"

CALL(create_wq, request->body, reply->body);
CALL(modify_wq, request->body, reply->body);

HANDLER(destroy_wq)
{
	return destroy_with_events(session, request, reply, simhca_wq_identity, simhca_destroy_wq,
				   NULL, why);
}

CALL(create_rwq_table, request->body, reply->body);
CALL(destroy_rwq_table, handle_of(request));

HANDLER(create_rss_qp)
{
	int ret = privilege_net_raw(request->pid, request->uid, why);

	return ret ? ret : simhca_create_rss_qp(session->context, request->body, reply->body, why);
}

HANDLER(create_flow)
{
	int ret = privilege_net_raw(request->pid, request->uid, why);

	return ret ? ret : simhca_create_flow(session->context, request->body, reply->body, why);
}

CALL(destroy_flow, handle_of(request));
CALL(create_counters, reply->body);
CALL(read_counters, handle_of(request), reply->body);
CALL(destroy_counters, handle_of(request));

command_table ethernet_commands = {
	COMMAND(CREATE_WQ, create_wq, SIZE(create_wq_req), SIZE(create_qp_reply), 0),
	COMMAND(MODIFY_WQ, modify_wq, SIZE(modify_wq_req), SIZE(modify_wq_reply), 0),
	COMMAND(DESTROY_WQ, destroy_wq, HANDLE, SIZE(destroy_reply), 0),
	COMMAND(CREATE_RWQ_TABLE, create_rwq_table, SIZE(create_rwq_table_req), HANDLE, 0),
	COMMAND(DESTROY_RWQ_TABLE, destroy_rwq_table, HANDLE, NONE, 0),
	COMMAND(CREATE_RSS_QP, create_rss_qp, SIZE(create_rss_qp_req), SIZE(create_qp_reply), 0),
	COMMAND(CREATE_FLOW, create_flow, SIZE(create_flow_req), HANDLE, 0),
	COMMAND(DESTROY_FLOW, destroy_flow, HANDLE, NONE, 0),
	COMMAND(CREATE_COUNTERS, create_counters, NONE, HANDLE, 0),
	COMMAND(READ_COUNTERS, read_counters, HANDLE, SIZE(read_counters_reply), 0),
	COMMAND(DESTROY_COUNTERS, destroy_counters, HANDLE, NONE, 0),
};
