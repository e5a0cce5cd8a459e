/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca qp, cq, srq, mr, cm: tables of the objects of all programs. */
#include "command.h"
#include "report.h"

static const char qp_about[] =
	"Shows the queue pairs of all programs: their numbers and their peers' (DEST), state, the\n"
	"work requests that were posted and have not completed (SENDS, RECVS), and what the\n"
	"sender waits for (WAITS: rnr, a receive of the peer's; answer; busy, its turn; fault and\n"
	"peer, pages of its own and of the peer's).\n"
	"\n"
	"With -x also the protection domain; page faults of on-demand memory that stop them now\n"
	"(FAULTING) and that did so far, as requester or responder, for reading or writing\n"
	"(FAULTS); messages that the device carried (BY_DEVICE); and with --fast-path\n"
	"(FASTPATH) messages that the program carried, events that it raised, and then how\n"
	"often it left something to the device, by reason. What is 0 is left out there.\n";

static const char cq_about[] =
	"Shows the completion queues of all programs: the completions that were not polled\n"
	"(WAITING), what the next event is for (ARMED: no, there will be none; solicited; next),\n"
	"and whether a completion was lost for want of room (OVERRUN).\n"
	"\n"
	"With -x also how many objects use it, and the inode of the channel's descriptor, as\n"
	"/proc/PID/fd has it (0: it has no channel).\n";

static const char srq_about[] =
	"Shows the shared receive queues of all programs: the receives that wait for a message\n"
	"(POSTED), of SIZE at most; below LIMIT an event is raised, once (0: none); USERS are\n"
	"queue pairs. With -x also the protection domain, and the CQ of one that has its own.\n";

static const char mr_about[] =
	"Shows the memory regions of all programs: keys, length in bytes, and rights (ACCESS, as\n"
	"ibv_reg_mr(3) has them). With -x also the protection domain, how many memory windows are\n"
	"bound to it, whether peers can map it, to reach it by plain copies (on-chip memory, and\n"
	"memfds that cannot shrink), and what on-demand paging has done.\n";

static const char cm_about[] =
	"Shows the ids of rdma_cm of all programs: who listens where, and who is connected to\n"
	"whom. With -x also device, port space and type, the state of the connection, and of a\n"
	"listener the backlog and how many requests wait to be fetched.\n";

static const struct report_column qp_columns[] = {
	{ "DEVICE", "device", REPORT_TEXT, false },
	{ "QPN", "lqpn", REPORT_QPN, false },
	{ "TYPE", "type", REPORT_TEXT, false },
	{ "STATE", "state", REPORT_TEXT, false },
	{ "DEST", "rqpn", REPORT_QPN, false },
	{ "SENDS", "sends", REPORT_NUMBER, false },
	{ "RECVS", "recvs", REPORT_NUMBER, false },
	{ "WAITS", "waits_for", REPORT_TEXT, false },
	{ "PID", "pid", REPORT_NUMBER, false },
	{ "PROGRAM", "comm", REPORT_TEXT, false },
	{ "PD", "pdn", REPORT_NUMBER, true },
	{ "FAULTING", "faults_pending", REPORT_NUMBER, true },
	{ "FAULTS", "faults", REPORT_NUMBERS, true },
	{ "BY_DEVICE", "by_device", REPORT_NUMBER, true },
	{ "FASTPATH", "fast_path", REPORT_NUMBERS, true },
	{ 0 },
};

static const struct report_column cq_columns[] = {
	{ "DEVICE", "device", REPORT_TEXT, false },
	{ "CQN", "cqn", REPORT_NUMBER, false },
	{ "SIZE", "cqe", REPORT_NUMBER, false },
	{ "WAITING", "waiting", REPORT_NUMBER, false },
	{ "ARMED", "armed", REPORT_TEXT, false },
	{ "OVERRUN", "overrun", REPORT_BOOL, false },
	{ "PID", "pid", REPORT_NUMBER, false },
	{ "PROGRAM", "comm", REPORT_TEXT, false },
	{ "USERS", "users", REPORT_NUMBER, true },
	{ "CHANNEL", "channel", REPORT_NUMBER, true },
	{ 0 },
};

static const struct report_column srq_columns[] = {
	{ "DEVICE", "device", REPORT_TEXT, false },   { "SRQN", "srqn", REPORT_QPN, false },
	{ "TYPE", "type", REPORT_TEXT, false },	      { "SIZE", "max_wr", REPORT_NUMBER, false },
	{ "POSTED", "posted", REPORT_NUMBER, false }, { "LIMIT", "limit", REPORT_NUMBER, false },
	{ "USERS", "users", REPORT_NUMBER, false },   { "PID", "pid", REPORT_NUMBER, false },
	{ "PROGRAM", "comm", REPORT_TEXT, false },    { "PD", "pdn", REPORT_NUMBER, true },
	{ "CQN", "cqn", REPORT_NUMBER, true },	      { 0 },
};

static const struct report_column mr_columns[] = {
	{ "DEVICE", "device", REPORT_TEXT, false },
	{ "LKEY", "lkey", REPORT_KEY, false },
	{ "RKEY", "rkey", REPORT_KEY, false },
	{ "LENGTH", "mrlen", REPORT_NUMBER, false },
	{ "ACCESS", "access", REPORT_FLAGS, false },
	{ "PID", "pid", REPORT_NUMBER, false },
	{ "PROGRAM", "comm", REPORT_TEXT, false },
	{ "PD", "pdn", REPORT_NUMBER, true },
	{ "WINDOWS", "windows", REPORT_NUMBER, true },
	{ "MAPPABLE", "mappable", REPORT_BOOL, true },
	{ "PAGING", "odp", REPORT_NUMBERS, true },
	{ 0 },
};

static const struct report_column cm_columns[] = {
	{ "ID", "cm_idn", REPORT_NUMBER, false },
	{ "STATE", "state", REPORT_TEXT, false },
	{ "SOURCE", "src", REPORT_TEXT, false },
	{ "DESTINATION", "dst", REPORT_TEXT, false },
	{ "QPN", "lqpn", REPORT_QPN, false },
	{ "PID", "pid", REPORT_NUMBER, false },
	{ "PROGRAM", "comm", REPORT_TEXT, false },
	{ "DEVICE", "device", REPORT_TEXT, true },
	{ "SPACE", "ps", REPORT_TEXT, true },
	{ "TYPE", "type", REPORT_TEXT, true },
	{ "CM_STATE", "cm_state", REPORT_TEXT, true },
	{ "BACKLOG", "backlog", REPORT_NUMBER, true },
	{ "WAITING", "waiting", REPORT_NUMBER, true },
	{ 0 },
};

#define REPORT_COMMAND(id, which, what, filters)                                                   \
	static const struct listing which##_report = { .command = CONTROL_##id,                    \
						       .columns = which##_columns };               \
	const struct command which##_subcommand = {                                                \
		.name = #which,                                                                    \
		.summary = what,                                                                   \
		.usage = "[OPTION]...",                                                            \
		.about = which##_about,                                                            \
		.status = "0 when a daemon runs; 1 if none does; 2 for wrong options.",            \
		.options = report_columns_options,                                                 \
		.takes = TAKES_JSON | TAKES_PID | TAKES_DEVICE | (filters),                        \
		.report = &which##_report,                                                         \
	}

REPORT_COMMAND(QP, qp, "show their queue pairs", TAKES_QP);
REPORT_COMMAND(CQ, cq, "show their completion queues", 0);
REPORT_COMMAND(SRQ, srq, "show their shared receive queues", 0);
REPORT_COMMAND(MR, mr, "show their memory regions", 0);
REPORT_COMMAND(CM, cm, "show who listens and who is connected by rdma_cm", TAKES_QP);
