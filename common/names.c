/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "names.h"
#include "simhca-abi.h"
#include "simhca-abi-reason.h"

#define NAME(prefix, name)                                                                         \
	case prefix##name:                                                                         \
		return #name

const char *name_of_qp_type(uint32_t type)
{
	switch (type) {
		NAME(SIMHCA_QPT_, RC);
		NAME(SIMHCA_QPT_, UC);
		NAME(SIMHCA_QPT_, UD);
		NAME(SIMHCA_QPT_, RAW_PACKET);
		NAME(SIMHCA_QPT_, XRC_SEND);
		NAME(SIMHCA_QPT_, XRC_RECV);
		NAME(SIMHCA_QPT_, WQ);
	case IBV_QPT_DRIVER:
		return "SRD";
	default:
		return "?";
	}
}

const char *name_of_srq_type(uint32_t type)
{
	switch (type) {
		NAME(SIMHCA_SRQT_, BASIC);
		NAME(SIMHCA_SRQT_, XRC);
		NAME(SIMHCA_SRQT_, TM);
	default:
		return "?";
	}
}

const char *name_of_qp_state(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *name_of_wait(uint32_t wait)
{
	static const char *const names[] = {
		[SIMHCA_WAIT_NOTHING] = "nothing", [SIMHCA_WAIT_RNR] = "rnr",
		[SIMHCA_WAIT_ANSWER] = "answer",   [SIMHCA_WAIT_BUSY] = "busy",
		[SIMHCA_WAIT_FAULT] = "fault",	   [SIMHCA_WAIT_PEER] = "peer",
	};

	return wait < sizeof(names) / sizeof(names[0]) ? names[wait] : "?";
}

const char *name_of_opcode(uint32_t opcode)
{
	switch (opcode) {
		NAME(SIMHCA_WR_, RDMA_WRITE);
		NAME(SIMHCA_WR_, RDMA_WRITE_WITH_IMM);
		NAME(SIMHCA_WR_, SEND);
		NAME(SIMHCA_WR_, SEND_WITH_IMM);
		NAME(SIMHCA_WR_, RDMA_READ);
		NAME(SIMHCA_WR_, ATOMIC_CMP_AND_SWP);
		NAME(SIMHCA_WR_, ATOMIC_FETCH_AND_ADD);
		NAME(SIMHCA_WR_, LOCAL_INV);
		NAME(SIMHCA_WR_, BIND_MW);
		NAME(SIMHCA_WR_, SEND_WITH_INV);
		NAME(SIMHCA_WR_, FLUSH);
		NAME(SIMHCA_WR_, ATOMIC_WRITE);
		NAME(SIMHCA_WR_, FAST_REG);
		NAME(SIMHCA_WR_, RDMA_READ_WITH_INV);
	default:
		return "?";
	}
}

const char *name_of_status(uint32_t status)
{
	switch (status) {
		NAME(SIMHCA_WC_, SUCCESS);
		NAME(SIMHCA_WC_, LOC_LEN_ERR);
		NAME(SIMHCA_WC_, LOC_QP_OP_ERR);
		NAME(SIMHCA_WC_, LOC_PROT_ERR);
		NAME(SIMHCA_WC_, WR_FLUSH_ERR);
		NAME(SIMHCA_WC_, MW_BIND_ERR);
		NAME(SIMHCA_WC_, BAD_RESP_ERR);
		NAME(SIMHCA_WC_, LOC_ACCESS_ERR);
		NAME(SIMHCA_WC_, REM_INV_REQ_ERR);
		NAME(SIMHCA_WC_, REM_ACCESS_ERR);
		NAME(SIMHCA_WC_, REM_OP_ERR);
		NAME(SIMHCA_WC_, RETRY_EXC_ERR);
		NAME(SIMHCA_WC_, RNR_RETRY_EXC_ERR);
		NAME(SIMHCA_WC_, FATAL_ERR);
		NAME(SIMHCA_WC_, GENERAL_ERR);
		NAME(IBV_WC_, REM_INV_RD_REQ_ERR); /* of EFA devices, these three */
		NAME(IBV_WC_, REM_ABORT_ERR);
		NAME(IBV_WC_, RESP_TIMEOUT_ERR);
		NAME(SIMHCA_WC_, TM_ERR);
		NAME(SIMHCA_WC_, TM_RNDV_INCOMPLETE);
	default:
		return "?";
	}
}

const char *name_of_event(uint32_t type)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ_ERR",
		[IBV_EVENT_QP_FATAL] = "QP_FATAL",
		[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
		[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
		[IBV_EVENT_COMM_EST] = "COMM_EST",
		[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
		[IBV_EVENT_PATH_MIG] = "PATH_MIG",
		[IBV_EVENT_PATH_MIG_ERR] = "PATH_MIG_ERR",
		[IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
		[IBV_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
		[IBV_EVENT_PORT_ERR] = "PORT_ERR",
		[IBV_EVENT_LID_CHANGE] = "LID_CHANGE",
		[IBV_EVENT_PKEY_CHANGE] = "PKEY_CHANGE",
		[IBV_EVENT_SM_CHANGE] = "SM_CHANGE",
		[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
		[IBV_EVENT_CLIENT_REREGISTER] = "CLIENT_REREGISTER",
		[IBV_EVENT_GID_CHANGE] = "GID_CHANGE",
		[IBV_EVENT_WQ_FATAL] = "WQ_FATAL",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "?";
}

const char *text_of_event(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return "the CQ had no room for a completion: that one is lost, and the CQ takes no "
		       "more; its QPs go to ERR";
	case IBV_EVENT_QP_FATAL:
		return "the QP's rings hold what no library has written there; it goes to ERR";
	case IBV_EVENT_QP_REQ_ERR:
		return "the peer sent a request that this QP refuses, and no receive was taken "
		       "that "
		       "could have said so";
	case IBV_EVENT_QP_ACCESS_ERR:
		return "the peer asked for memory that it may not have, and no receive was taken "
		       "that could have said so";
	case IBV_EVENT_PATH_MIG_ERR:
		return "the alternate path cannot be used";
	case IBV_EVENT_DEVICE_FATAL:
		return "the device has gone for this program";
	case IBV_EVENT_PORT_ERR:
		return "the port went down";
	case IBV_EVENT_SRQ_ERR:
		return "the SRQ's ring holds what no library has written there; nothing is "
		       "received "
		       "by it any more";
	case IBV_EVENT_WQ_FATAL:
		return "the WQ's ring holds what no library has written there";
	default:
		return NULL;
	}
}

const char *name_of_command(uint32_t command)
{
#define COMMAND(name) [SIMHCA_CMD_##name] = #name,
	static const char *const names[SIMHCA_CMD_COUNT] = { SIMHCA_COMMANDS(COMMAND) };
#undef COMMAND

	return command < SIMHCA_CMD_COUNT && names[command] ? names[command] : "?";
}

const char *name_of_reason(uint32_t reason)
{
	switch (reason) {
#define REASON(name, value, text)                                                                  \
	case value:                                                                                \
		return #name;
		SIMHCA_REASONS(REASON)
#undef REASON
	default:
		return "?";
	}
}

void names_of_access(uint32_t access, char text[NAMES_OF_ACCESS])
{
	static const struct {
		uint32_t right;
		const char *name;
	} rights[] = {
		{ SIMHCA_ACCESS_LOCAL_WRITE, "LOCAL_WRITE" },
		{ SIMHCA_ACCESS_REMOTE_WRITE, "REMOTE_WRITE" },
		{ SIMHCA_ACCESS_REMOTE_READ, "REMOTE_READ" },
		{ SIMHCA_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC" },
		{ SIMHCA_ACCESS_MW_BIND, "MW_BIND" },
		{ SIMHCA_ACCESS_ZERO_BASED, "ZERO_BASED" },
		{ SIMHCA_ACCESS_ON_DEMAND, "ON_DEMAND" },
		{ SIMHCA_ACCESS_HUGETLB, "HUGETLB" },
		{ SIMHCA_ACCESS_FLUSH_GLOBAL, "FLUSH_GLOBAL" },
		{ SIMHCA_ACCESS_FLUSH_PERSISTENT, "FLUSH_PERSISTENT" },
		{ SIMHCA_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING" },
	};
	int length = 0;

	strcpy(text, "0");
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (access & rights[i].right)
			length += snprintf(text + length, NAMES_OF_ACCESS - (size_t)length, "%s%s",
					   length ? "|" : "", rights[i].name);
}
