/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * /dev/infiniband/rdma_cm: what the preload library and the daemon say to each other when a program
 * writes one of librdmacm's commands (rdma/rdma_user_cm.h) to it.
 *
 * The descriptor is a connection as that of uverbs is: datagrams with struct simhca_cmd_hdr and the
 * socket for the answer. A command is passed on as it was written; the answer brings what the
 * kernel would have stored by the command's response pointer.
 *
 * Events are pulled by GET_EVENT. That there are some is shown by a token in the program's end of
 * the connection, which is what poll() sees: a number of 4 bytes, one token at most that the daemon
 * thinks is there. Whoever wants an event takes the token first, which waits, or not, as the
 * descriptor says, and shows it with GET_EVENT. A command that leaves no events behind says which
 * token has to be taken back.
 */
#ifndef SIMHCA_ABI_RDMA_CM_H
#define SIMHCA_ABI_RDMA_CM_H

#ifndef SIMHCA_ABI_H
#error "include simhca-abi.h"
#endif
#include <rdma/rdma_user_cm.h>

#define SIMHCA_UCMA_ABI 4 /* RDMA_USER_CM_ABI_VERSION of all releases since 2008 */

#define SIMHCA_UCMA_MAX_BACKLOG 1024 /* net.rdma_ucm.max_backlog */

/* Commands of the header of later releases than the one that this is built with. */
#define SIMHCA_UCMA_RESOLVE_IB_SERVICE 23
#define SIMHCA_UCMA_WRITE_CM_EVENT 24
#define SIMHCA_UCMA_COUNT 25
#define SIMHCA_UCMA_EVENT_USER 18
#define SIMHCA_UCMA_EVENT_INTERNAL 19

struct simhca_ucma_write_cm_event {
	uint32_t id;
	uint32_t reserved;
	uint32_t event;
	uint32_t status;
	union {
		struct rdma_ucm_conn_param conn;
		struct rdma_ucm_ud_param ud;
		uint64_t arg;
	} param;
};

SIMHCA_ABI_SIZE(struct rdma_ucm_cmd_hdr, 8);
SIMHCA_ABI_SIZE(struct rdma_ucm_create_id, 24);
SIMHCA_ABI_SIZE(struct rdma_ucm_destroy_id, 16);
SIMHCA_ABI_SIZE(struct rdma_ucm_bind_ip, 40);
SIMHCA_ABI_SIZE(struct rdma_ucm_resolve_ip, 64);
SIMHCA_ABI_SIZE(struct rdma_ucm_resolve_route, 8);
SIMHCA_ABI_SIZE(struct rdma_ucm_query, 16);
SIMHCA_ABI_SIZE(struct rdma_ucm_query_route_resp, 208);
SIMHCA_ABI_SIZE(struct rdma_ucm_conn_param, 272);
SIMHCA_ABI_SIZE(struct rdma_ucm_ud_param, 304);
SIMHCA_ABI_SIZE(struct rdma_ucm_connect, 288);
SIMHCA_ABI_SIZE(struct rdma_ucm_listen, 8);
SIMHCA_ABI_SIZE(struct rdma_ucm_accept, 296);
SIMHCA_ABI_SIZE(struct rdma_ucm_reject, 264);
SIMHCA_ABI_SIZE(struct rdma_ucm_init_qp_attr, 16);
SIMHCA_ABI_SIZE(struct rdma_ucm_event_resp, 336);
SIMHCA_ABI_AT(struct rdma_ucm_event_resp, param, 20);
SIMHCA_ABI_AT(struct rdma_ucm_event_resp, ece, 328);
SIMHCA_ABI_SIZE(struct rdma_ucm_set_option, 24);
SIMHCA_ABI_SIZE(struct rdma_ucm_notify, 8);
SIMHCA_ABI_SIZE(struct rdma_ucm_join_ip_mcast, 48);
SIMHCA_ABI_SIZE(struct rdma_ucm_migrate_id, 16);
SIMHCA_ABI_SIZE(struct rdma_ucm_query_addr_resp, 280);
SIMHCA_ABI_SIZE(struct rdma_ucm_bind, 136);
SIMHCA_ABI_SIZE(struct rdma_ucm_resolve_addr, 272);
SIMHCA_ABI_SIZE(struct rdma_ucm_join_mcast, 152);
SIMHCA_ABI_SIZE(struct simhca_ucma_write_cm_event, 320);

/* What the hook of write() asks for: enum in simhca_cmd_hdr.command. */
enum simhca_ucma_request_type {
	SIMHCA_UCMA_WRITE = 1, /* struct simhca_ucma_request and what follows it */
	SIMHCA_UCMA_IDENTIFY,  /* which file the descriptor is: struct simhca_ucma_reply.file */
	SIMHCA_UCMA_RENEW,     /* a token was taken back that is a newer one: show it again */
};

#define SIMHCA_UCMA_MAX_WRITE 336u  /* bytes of the longest command, librdmacm's WRITE_CM_EVENT */
#define SIMHCA_UCMA_MAX_OPTION 432u /* of an option's value: six path records */
#define SIMHCA_UCMA_MAX_RESPONSE 440u

struct simhca_ucma_request {
	uint64_t file;	  /* MIGRATE_ID: of the old descriptor, by IDENTIFY */
	uint32_t token;	  /* GET_EVENT, RENEW: that was taken */
	uint16_t written; /* bytes of the command, which follow */
	uint16_t option;  /* bytes of an option's value, which follow them */
};
SIMHCA_ABI_SIZE(struct simhca_ucma_request, 16);

struct simhca_ucma_reply {
	uint64_t file;	   /* a number that cannot be guessed */
	uint32_t take;	   /* the token to take back; 0: none */
	uint32_t old_take; /* MIGRATE_ID: from the old descriptor */
	uint32_t length;   /* bytes of the response, which follow */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_ucma_reply, 24);

/* GET_EVENT without an event: somebody else was faster. Wait again. */
#define SIMHCA_UCMA_NO_EVENT EAGAIN

/* Where a command's payload has the pointer to the response; -1: it has none. */
static inline int simhca_ucma_response_at(unsigned int command)
{
	switch (command) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		return offsetof(struct rdma_ucm_create_id, response);
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
	case RDMA_USER_CM_CMD_GET_EVENT:
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
	case RDMA_USER_CM_CMD_MIGRATE_ID:
	case RDMA_USER_CM_CMD_QUERY:
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		return 0;
	default:
		return -1;
	}
}

#endif
