/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca qp, cq, srq, mr, cm: the objects of all programs, one a line, in the style of
 * rdma-resource(8).
 */
#include <stdio.h>

#include "tool.h"

static const char qp_help[] =
	"Usage: simhca qp [OPTION]...\n"
	"\n"
	"Shows the queue pairs of all programs: numbers, state, the work requests that were "
	"posted\n"
	"and have not completed (sends, recvs), what the sender waits for (rnr: receives of the\n"
	"peer's; answer; busy, fault, peer: memory), and the page faults of on-demand\n"
	"memory that stopped them, as requester or responder, for reading or writing. by_device "
	"are\n"
	"the messages that the device carried; with --engines-in-callers, by_caller those that "
	"the\n"
	"program did, told the events that it raised, and then how often it left something\n"
	"to the device, by reason.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char cq_help[] =
	"Usage: simhca cq [OPTION]...\n"
	"\n"
	"Shows the completion queues of all programs: cqe is their size, waiting the completions\n"
	"that were not polled, armed what the next event is for (no: there will be none), channel\n"
	"the inode of the channel's descriptor, as /proc/PID/fd has it (0: none).\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char srq_help[] =
	"Usage: simhca srq [OPTION]...\n"
	"\n"
	"Shows the shared receive queues of all programs: posted are the receives that wait for a\n"
	"message, of max_wr at most; below limit an event is raised, once (0: none); users are "
	"queue\n"
	"pairs.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char mr_help[] =
	"Usage: simhca mr [OPTION]...\n"
	"\n"
	"Shows the memory regions of all programs: keys, length, and what on-demand paging has "
	"done\n"
	"with those that have it.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char cm_help[] =
	"Usage: simhca cm [OPTION]...\n"
	"\n"
	"Shows the ids of rdma_cm of all programs: who listens where, and who is connected to "
	"whom.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static void print_numbers(json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
		printf(" %s %lld", name, (long long)json_integer_value(value));
}

static void print_owner(const json_t *object)
{
	printf(" pid %lld comm %s\n", report_number(object, "pid"), report_text(object, "comm"));
}

static void print_qp(json_t *qp)
{
	printf("link %s/1 lqpn %lld rqpn %lld type %s state %s pdn %lld", report_text(qp, "device"),
	       report_number(qp, "lqpn"), report_number(qp, "rqpn"), report_text(qp, "type"),
	       report_text(qp, "state"), report_number(qp, "pdn"));
	printf(" sends %lld recvs %lld waits_for %s faults_pending %lld",
	       report_number(qp, "sends"), report_number(qp, "recvs"), report_text(qp, "waits_for"),
	       report_number(qp, "faults_pending"));
	print_numbers(json_object_get(qp, "faults"));
	printf(" by_device %lld", report_number(qp, "by_device"));
	print_numbers(json_object_get(qp, "callers"));
	print_owner(qp);
}

static void print_cq(json_t *cq)
{
	printf("dev %s cqn %lld cqe %lld waiting %lld armed %s channel %lld%s users %lld",
	       report_text(cq, "device"), report_number(cq, "cqn"), report_number(cq, "cqe"),
	       report_number(cq, "waiting"), report_text(cq, "armed"), report_number(cq, "channel"),
	       json_is_true(json_object_get(cq, "overrun")) ? " overrun" : "",
	       report_number(cq, "users"));
	print_owner(cq);
}

static void print_srq(json_t *srq)
{
	printf("dev %s srqn %lld type %s pdn %lld max_wr %lld posted %lld limit %lld users %lld",
	       report_text(srq, "device"), report_number(srq, "srqn"), report_text(srq, "type"),
	       report_number(srq, "pdn"), report_number(srq, "max_wr"),
	       report_number(srq, "posted"), report_number(srq, "limit"),
	       report_number(srq, "users"));
	if (json_object_get(srq, "cqn"))
		printf(" cqn %lld", report_number(srq, "cqn"));
	print_owner(srq);
}

static void print_mr(json_t *mr)
{
	printf("dev %s lkey 0x%llx rkey 0x%llx mrlen %lld pdn %lld access 0x%llx windows %lld",
	       report_text(mr, "device"), report_number(mr, "lkey"), report_number(mr, "rkey"),
	       report_number(mr, "mrlen"), report_number(mr, "pdn"), report_number(mr, "access"),
	       report_number(mr, "windows"));
	print_numbers(json_object_get(mr, "odp"));
	print_owner(mr);
}

static void print_qps(const json_t *list)
{
	json_t *qp;
	size_t i;

	json_array_foreach(list, i, qp) print_qp(qp);
}

static void print_cqs(const json_t *list)
{
	json_t *cq;
	size_t i;

	json_array_foreach(list, i, cq) print_cq(cq);
}

static void print_srqs(const json_t *list)
{
	json_t *srq;
	size_t i;

	json_array_foreach(list, i, srq) print_srq(srq);
}

static void print_mrs(const json_t *list)
{
	json_t *mr;
	size_t i;

	json_array_foreach(list, i, mr) print_mr(mr);
}

static void print_id(const json_t *id)
{
	const char *device = report_text(id, "device");

	printf("cm_idn %lld dev %s ps %s type %s state %s src %s", report_number(id, "cm_idn"),
	       device[0] ? device : "-", report_text(id, "ps"), report_text(id, "type"),
	       report_text(id, "state"), report_text(id, "src"));
	if (json_object_get(id, "dst"))
		printf(" dst %s lqpn %lld", report_text(id, "dst"), report_number(id, "lqpn"));
	if (json_object_get(id, "cm_state"))
		printf(" cm_state %s", report_text(id, "cm_state"));
	if (json_object_get(id, "backlog"))
		printf(" backlog %lld waiting %lld", report_number(id, "backlog"),
		       report_number(id, "waiting"));
	print_owner(id);
}

static void print_ids(const json_t *list)
{
	json_t *id;
	size_t i;

	json_array_foreach(list, i, id) print_id(id);
}

static json_t *ask_qps(int fd, char **refusal)
{
	return admin_report(fd, "qp", refusal);
}

static json_t *ask_cqs(int fd, char **refusal)
{
	return admin_report(fd, "cq", refusal);
}

static json_t *ask_srqs(int fd, char **refusal)
{
	return admin_report(fd, "srq", refusal);
}

static json_t *ask_mrs(int fd, char **refusal)
{
	return admin_report(fd, "mr", refusal);
}

static json_t *ask_ids(int fd, char **refusal)
{
	return admin_report(fd, "cm", refusal);
}

int cm_main(int argc, char **argv)
{
	static const struct report report = { cm_help, ask_ids, print_ids };

	return report_main(argc, argv, &report);
}

int qp_main(int argc, char **argv)
{
	static const struct report report = { qp_help, ask_qps, print_qps };

	return report_main(argc, argv, &report);
}

int cq_main(int argc, char **argv)
{
	static const struct report report = { cq_help, ask_cqs, print_cqs };

	return report_main(argc, argv, &report);
}

int srq_main(int argc, char **argv)
{
	static const struct report report = { srq_help, ask_srqs, print_srqs };

	return report_main(argc, argv, &report);
}

int mr_main(int argc, char **argv)
{
	static const struct report report = { mr_help, ask_mrs, print_mrs };

	return report_main(argc, argv, &report);
}
