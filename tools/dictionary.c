/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "advice.h"
#include "closest.h"
#include "dictionary.h"
#include "names.h"
#include "report.h"
#include "simhca-abi-reason.h"
#include "simhca-abi.h"

/* What the list takes is what is printed: number -1: it has none. */
static json_t *add(json_t *list, const char *kind, const char *prefix, const char *name,
		   long number, const char *text)
{
	json_t *entry = json_pack("{s:s, s:o, s:s}", "kind", kind, "name",
				  json_sprintf("%s%s", prefix, name), "text", text);

	if (number >= 0)
		json_object_set_new(entry, "number", json_integer(number));
	json_array_append_new(list, entry);
	return entry;
}

static void advise(json_t *entry, const struct advice *advice)
{
	if (advice->rule[0])
		json_object_set_new(entry, "rule", json_string(advice->rule));
	json_object_set_new(entry, "usually", json_string(advice->usually));
	json_object_set_new(entry, "try", json_string(advice->remedy));
}

/* -------------------------------------------------------------------------------- reasons */

static void define_reason(json_t *list, uint32_t reason)
{
	json_t *entry =
		add(list, "reason", "", name_of_reason(reason), reason, simhca_reason_text(reason));

	advise(entry, advice_on_reason(reason));
}

/* ------------------------------------------------------------------------------- statuses */

/* What a status may mean: the table of Documentation/errors.md, by status (check-docs compares). */
static const uint16_t of_loc_len_err[] = {
	SIMHCA_REASON_MSG_TOO_LONG,   SIMHCA_REASON_ATOMIC_BAD_LENGTH,
	SIMHCA_REASON_RECV_TOO_SHORT, SIMHCA_REASON_FRAME_TOO_SHORT,
	SIMHCA_REASON_FRAME_TOO_LONG,
};
static const uint16_t of_loc_qp_op_err[] = {
	SIMHCA_REASON_WQE_BAD_OPCODE,	   SIMHCA_REASON_WQE_TOO_MANY_SGE,
	SIMHCA_REASON_WQE_INLINE_TOO_LONG, SIMHCA_REASON_READ_NOT_ENABLED,
	SIMHCA_REASON_AV_BAD_GID_INDEX,	   SIMHCA_REASON_FLUSH_BAD_TYPE,
};
static const uint16_t of_loc_prot_err[] = {
	SIMHCA_REASON_PROCESS_GONE,	  SIMHCA_REASON_KEY_UNKNOWN,
	SIMHCA_REASON_KEY_STALE,	  SIMHCA_REASON_KEY_WRONG_PD,
	SIMHCA_REASON_KEY_BELOW_START,	  SIMHCA_REASON_KEY_PAST_END,
	SIMHCA_REASON_KEY_WRAPS,	  SIMHCA_REASON_KEY_NOT_LOCAL,
	SIMHCA_REASON_MR_NOT_VALID,	  SIMHCA_REASON_MR_NO_LOCAL_WRITE,
	SIMHCA_REASON_PAGE_NOT_MAPPED,	  SIMHCA_REASON_MEMORY_REFUSED,
	SIMHCA_REASON_AGENT_TIMEOUT,	  SIMHCA_REASON_FAULT_NOT_MAPPED,
	SIMHCA_REASON_FAULT_NOT_WRITABLE,
};
static const uint16_t of_wr_flush_err[] = {
	SIMHCA_REASON_FLUSHED,
	SIMHCA_REASON_DEVICE_GONE,
};
static const uint16_t of_mw_bind_err[] = {
	SIMHCA_REASON_MR_NOT_VALID,	      SIMHCA_REASON_MR_NO_MW_BIND,
	SIMHCA_REASON_BIND_NEEDS_LOCAL_WRITE, SIMHCA_REASON_BIND_NO_WINDOW,
	SIMHCA_REASON_BIND_WRONG_TYPE,	      SIMHCA_REASON_BIND_NOT_FREE,
	SIMHCA_REASON_BIND_NO_REGION,	      SIMHCA_REASON_BIND_NO_LENGTH,
	SIMHCA_REASON_BIND_BAD_ACCESS,	      SIMHCA_REASON_FAST_REG_NO_REGION,
	SIMHCA_REASON_FAST_REG_NOT_FREE,      SIMHCA_REASON_FAST_REG_TOO_MANY_PAGES,
	SIMHCA_REASON_FAST_REG_PAGE_SIZE,     SIMHCA_REASON_FAST_REG_UNALIGNED,
	SIMHCA_REASON_FAST_REG_PAST_END,      SIMHCA_REASON_FAST_REG_BAD_ACCESS,
	SIMHCA_REASON_FAST_REG_LIST_CHANGED,  SIMHCA_REASON_INV_NOT_ALLOWED,
	SIMHCA_REASON_INV_WINDOWS_BOUND,
};
static const uint16_t of_loc_access_err[] = {
	SIMHCA_REASON_INV_NOT_ALLOWED,
	SIMHCA_REASON_INV_WINDOWS_BOUND,
};
static const uint16_t of_rem_inv_req_err[] = {
	SIMHCA_REASON_QP_NO_REMOTE_READ,
	SIMHCA_REASON_QP_NO_REMOTE_WRITE,
	SIMHCA_REASON_QP_NO_REMOTE_ATOMIC,
	SIMHCA_REASON_QP_NO_FLUSH_GLOBAL,
	SIMHCA_REASON_QP_NO_FLUSH_PERSISTENT,
	SIMHCA_REASON_ATOMIC_UNALIGNED,
	SIMHCA_REASON_RECV_TOO_SHORT,
	SIMHCA_REASON_RESP_NO_RD_ATOMIC,
	SIMHCA_REASON_RD_ATOMIC_EXCEEDED,
	SIMHCA_REASON_OPCODE_SEQUENCE,
	SIMHCA_REASON_PSN_REUSED,
	SIMHCA_REASON_PATH_MTU_DIFFERS,
	SIMHCA_REASON_PEER_SAYS_INVALID,
};
static const uint16_t of_rem_access_err[] = {
	SIMHCA_REASON_KEY_UNKNOWN,
	SIMHCA_REASON_KEY_STALE,
	SIMHCA_REASON_KEY_WRONG_PD,
	SIMHCA_REASON_KEY_BELOW_START,
	SIMHCA_REASON_KEY_PAST_END,
	SIMHCA_REASON_KEY_WRAPS,
	SIMHCA_REASON_MW_NOT_BOUND,
	SIMHCA_REASON_MW_OTHER_QP,
	SIMHCA_REASON_MR_NOT_VALID,
	SIMHCA_REASON_MR_NO_REMOTE_READ,
	SIMHCA_REASON_MR_NO_REMOTE_WRITE,
	SIMHCA_REASON_MR_NO_REMOTE_ATOMIC,
	SIMHCA_REASON_MW_NO_REMOTE_READ,
	SIMHCA_REASON_MW_NO_REMOTE_WRITE,
	SIMHCA_REASON_MW_NO_REMOTE_ATOMIC,
	SIMHCA_REASON_KEY_NO_FLUSH_GLOBAL,
	SIMHCA_REASON_KEY_NO_FLUSH_PERSISTENT,
	SIMHCA_REASON_PAGE_NOT_MAPPED,
	SIMHCA_REASON_MEMORY_REFUSED,
	SIMHCA_REASON_AGENT_TIMEOUT,
	SIMHCA_REASON_FAULT_NOT_MAPPED,
	SIMHCA_REASON_FAULT_NOT_WRITABLE,
	SIMHCA_REASON_PEER_SAYS_ACCESS,
	SIMHCA_REASON_XRC_NO_SRQ,
	SIMHCA_REASON_XRC_OTHER_DOMAIN,
};
static const uint16_t of_rem_op_err[] = {
	SIMHCA_REASON_KEY_UNKNOWN,	     SIMHCA_REASON_KEY_STALE,
	SIMHCA_REASON_KEY_WRONG_PD,	     SIMHCA_REASON_KEY_BELOW_START,
	SIMHCA_REASON_KEY_PAST_END,	     SIMHCA_REASON_KEY_WRAPS,
	SIMHCA_REASON_KEY_NOT_LOCAL,	     SIMHCA_REASON_MR_NOT_VALID,
	SIMHCA_REASON_MR_NO_LOCAL_WRITE,     SIMHCA_REASON_PAGE_NOT_MAPPED,
	SIMHCA_REASON_MEMORY_REFUSED,	     SIMHCA_REASON_AGENT_TIMEOUT,
	SIMHCA_REASON_FAULT_NOT_MAPPED,	     SIMHCA_REASON_FAULT_NOT_WRITABLE,
	SIMHCA_REASON_RING_CORRUPT,	     SIMHCA_REASON_RECV_CQ_ERROR,
	SIMHCA_REASON_PEER_SAYS_OPERATIONAL, SIMHCA_REASON_XRC_CQ_ERROR,
};
static const uint16_t of_retry_exc_err[] = {
	SIMHCA_REASON_NO_RESPONSE,     SIMHCA_REASON_WIRE_TOO_LONG,
	SIMHCA_REASON_WIRE_NO_ROUTE,   SIMHCA_REASON_WIRE_FORBIDDEN,
	SIMHCA_REASON_WIRE_CLOSED,     SIMHCA_REASON_WIRE_PATH_MTU,
	SIMHCA_REASON_PSN_SEQUENCE,    SIMHCA_REASON_PSN_BEFORE_START,
	SIMHCA_REASON_PSN_REUSED,      SIMHCA_REASON_ATOMIC_FORGOTTEN,
	SIMHCA_REASON_INV_NOT_ALLOWED, SIMHCA_REASON_INV_WINDOWS_BOUND,
};
static const uint16_t of_rnr_retry_exc_err[] = {
	SIMHCA_REASON_PEER_NOT_READY,
};
static const uint16_t of_tm_err[] = {
	SIMHCA_REASON_TM_NO_ENTRY,
};

static const struct {
	uint32_t status;
	const uint16_t *reasons;
	size_t count;
} statuses[] = {
	{ SIMHCA_WC_LOC_LEN_ERR, of_loc_len_err,
	  sizeof(of_loc_len_err) / sizeof(of_loc_len_err[0]) },
	{ SIMHCA_WC_LOC_QP_OP_ERR, of_loc_qp_op_err,
	  sizeof(of_loc_qp_op_err) / sizeof(of_loc_qp_op_err[0]) },
	{ SIMHCA_WC_LOC_PROT_ERR, of_loc_prot_err,
	  sizeof(of_loc_prot_err) / sizeof(of_loc_prot_err[0]) },
	{ SIMHCA_WC_WR_FLUSH_ERR, of_wr_flush_err,
	  sizeof(of_wr_flush_err) / sizeof(of_wr_flush_err[0]) },
	{ SIMHCA_WC_MW_BIND_ERR, of_mw_bind_err,
	  sizeof(of_mw_bind_err) / sizeof(of_mw_bind_err[0]) },
	{ SIMHCA_WC_LOC_ACCESS_ERR, of_loc_access_err,
	  sizeof(of_loc_access_err) / sizeof(of_loc_access_err[0]) },
	{ SIMHCA_WC_REM_INV_REQ_ERR, of_rem_inv_req_err,
	  sizeof(of_rem_inv_req_err) / sizeof(of_rem_inv_req_err[0]) },
	{ SIMHCA_WC_REM_ACCESS_ERR, of_rem_access_err,
	  sizeof(of_rem_access_err) / sizeof(of_rem_access_err[0]) },
	{ SIMHCA_WC_REM_OP_ERR, of_rem_op_err, sizeof(of_rem_op_err) / sizeof(of_rem_op_err[0]) },
	{ SIMHCA_WC_RETRY_EXC_ERR, of_retry_exc_err,
	  sizeof(of_retry_exc_err) / sizeof(of_retry_exc_err[0]) },
	{ SIMHCA_WC_RNR_RETRY_EXC_ERR, of_rnr_retry_exc_err,
	  sizeof(of_rnr_retry_exc_err) / sizeof(of_rnr_retry_exc_err[0]) },
	{ SIMHCA_WC_TM_ERR, of_tm_err, sizeof(of_tm_err) / sizeof(of_tm_err[0]) },
};

static void define_status(json_t *list, uint32_t status)
{
	json_t *entry = add(list, "status", "IBV_WC_", name_of_status(status), status,
			    advice_on_status(status)->text);
	json_t *reasons = json_array();

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		for (size_t n = 0; statuses[i].status == status && n < statuses[i].count; n++)
			add(reasons, "reason", "", name_of_reason(statuses[i].reasons[n]),
			    statuses[i].reasons[n], simhca_reason_text(statuses[i].reasons[n]));
	json_object_set_new(entry, "reasons", reasons);
}

/* --------------------------------------------------------------------------------- events */

static void define_event(json_t *list, uint32_t event)
{
	const char *name = name_of_event(event);

	advise(add(list, "event", "IBV_EVENT_", name, event, text_of_event(event)),
	       advice_on_event(name));
}

#define NO_FAILURE "It is no failure."

/* Asynchronous events that tell of none. */
static const struct news {
	uint32_t event;
	const char *text, *next;
} news[] = {
	{ IBV_EVENT_COMM_EST, "a packet came to a QP that is in RTR",
	  "Move it to RTS, if its program waits for the peer's message before it does." },
	{ IBV_EVENT_SQ_DRAINED, "a QP that goes to SQD has done what it had begun",
	  "Now its attributes can be changed." },
	{ IBV_EVENT_PATH_MIG, "the QP goes by its alternate path", "Set another alternate path." },
	{ IBV_EVENT_PORT_ACTIVE, "the port came up", "Go on." },
	{ IBV_EVENT_LID_CHANGE, "the port has another LID", "Tell it to the peers." },
	{ IBV_EVENT_PKEY_CHANGE, "the port has other P_Keys", "Look at the table anew." },
	{ IBV_EVENT_SM_CHANGE, "the subnet has another manager",
	  "Who has asked the old one asks anew." },
	{ IBV_EVENT_CLIENT_REREGISTER, "the subnet manager wants to be asked anew",
	  "Join multicast groups again." },
	{ IBV_EVENT_GID_CHANGE, "the port's GIDs have changed, as addresses of its interface did",
	  "Look at the table anew; connections by a GID that has gone fail." },
	{ IBV_EVENT_SRQ_LIMIT_REACHED, "the SRQ has fewer receives than its limit",
	  "Post receives, and set the limit again: it is told once." },
	{ IBV_EVENT_QP_LAST_WQE_REACHED, "a QP in ERR takes no further receive of its SRQ",
	  "Poll its completions, and destroy it." },
};

/* False: it is the name of none. */
static bool define_news(json_t *list, const char *name)
{
	for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++) {
		const char *known = name_of_event(news[i].event);

		if (strcasecmp(name, known))
			continue;
		advise(add(list, "event", "IBV_EVENT_", known, news[i].event, news[i].text),
		       &(struct advice){ "", NO_FAILURE, news[i].next });
		return true;
	}
	return false;
}

static const struct cm_event {
	const char *name, *text;
	struct advice advice;
} cm_events[] = {
	{ "ADDR_ERROR",
	  "rdma_resolve_addr() found no device for the address",
	  { "", "The address is not one of an interface that a device here stands on.",
	    "Use an address that `simhca status` shows, or have a device there: `simhca run "
	    "--netdev NAME`." } },
	{ "ROUTE_ERROR",
	  "rdma_resolve_route() found no way to the address",
	  { "", "The peer's device has gone, or its port is down.",
	    "Look at both ports with ibv_devinfo(1)." } },
	{ "CONNECT_ERROR",
	  "the connection could not be established",
	  { "", "A QP could not be moved to RTR or RTS, or the device has gone.",
	    "Look at what `simhca explain` tells of that time." } },
	{ "UNREACHABLE",
	  "the peer did not answer the request to connect",
	  { "IBTA vol. 1, 12.6.5",
	    "The peer's program does not fetch its events, or there is no way to it.",
	    "See what the peer's threads wait for; between hosts look at `simhca wire`." } },
	{ "REJECTED",
	  "the peer rejected the request; the event's status says why (8: nobody listens there, "
	  "28: its program called rdma_reject())",
	  { "IBTA vol. 1, 12.6.7",
	    "Nobody listens on that address, port and port space, or the server refused.",
	    "Compare the address and port with the listeners, which `simhca cm` shows." } },
	{ "DISCONNECTED",
	  "the peer disconnected, or has ended",
	  { "IBTA vol. 1, 12.6.9", "It is how connections end.",
	    "If it comes too early, see how the peer's process ended." } },
	{ "DEVICE_REMOVAL",
	  "the device has gone",
	  { "", "A device was reset or taken away; here by a rule of `simhca inject`.",
	    "Destroy the id and what was made on that device." } },
	{ "MULTICAST_ERROR",
	  "the multicast group could not be joined, or has ended",
	  { "", "The port is down, or the address is not a multicast address.",
	    "Look at the port with ibv_devinfo(1)." } },
#define STEP(name, text, next)                                                                     \
	{                                                                                          \
		name, text,                                                                        \
		{                                                                                  \
			"", NO_FAILURE, next                                                       \
		}                                                                                  \
	}
	STEP("ADDR_RESOLVED", "a device was found that has the way to the address",
	     "rdma_resolve_route() comes next."),
	STEP("ROUTE_RESOLVED", "the route is known",
	     "rdma_create_qp() and rdma_connect() come next."),
	STEP("CONNECT_REQUEST", "a peer wants to connect; event->id is a new id for it",
	     "rdma_create_qp() and rdma_accept(), or rdma_reject(), come next, with that id."),
	STEP("CONNECT_RESPONSE", "the peer has accepted, and the id has no QP of rdma_create_qp()",
	     "Move the QP to RTS, and call rdma_establish()."),
	STEP("ESTABLISHED", "the connection is there", "Post sends from now on."),
	STEP("MULTICAST_JOIN", "the id has joined the group",
	     "Make an address handle of its ah_attr."),
	STEP("ADDR_CHANGE", "the address of the interface has moved to other hardware",
	     "Connect anew."),
	STEP("TIMEWAIT_EXIT", "the QP's number can be used for another connection",
	     "Who uses a QP again waits for this."),
#undef STEP
};

static void define_cm_event(json_t *list, const struct cm_event *event)
{
	advise(add(list, "rdma_cm event", "RDMA_CM_EVENT_", event->name, -1, event->text),
	       &event->advice);
}

/* --------------------------------------------------------------------------------- errnos */

static const struct error {
	int number;
	const char *name;
	struct advice advice;
} errors[] = {
#define ERROR(name, rule, usually, remedy)                                                         \
	{                                                                                          \
		name, #name,                                                                       \
		{                                                                                  \
			rule, usually, remedy                                                      \
		}                                                                                  \
	}
	ERROR(EINVAL, "",
	      "An attribute is missing, unknown, or above what the device reports; a QP is not in "
	      "the state that the verb needs.",
	      "Run it with --explain: simhca names the attribute and its value."),
	ERROR(ENOMEM, "", "Posting: the queue is full. Otherwise the device has no more of these.",
	      "Poll completions before you post more, or make the queue larger; ibv_devinfo -v has "
	      "the device's limits."),
	ERROR(EBUSY, "",
	      "Other objects still use it: QPs a CQ, windows a region, all of them a PD.",
	      "Destroy in the reverse order of making; `simhca explain` counts what is left."),
	ERROR(EFAULT, "",
	      "The memory is not mapped, or not writable although LOCAL_WRITE is asked.",
	      "Map the memory before it is registered, and compare address and length."),
	ERROR(EPERM, "", "Raw packets and some counters need CAP_NET_RAW or CAP_NET_ADMIN.",
	      "Run it as root, or in a user namespace: unshare -Ur simhca run -- PROGRAM."),
	ERROR(EMFILE, "", "The program is at its limit of open files.",
	      "Raise it with `ulimit -n`, or close channels and devices that are not used."),
	ERROR(EBADF, "", "A descriptor that a verb was given is closed, or is of another kind.",
	      "Look at what closes it; a channel must outlive its CQs."),
	ERROR(ENOENT, "", "An object was destroyed already, or never was.",
	      "Look for a second destroy, and for a handle that is used after it."),
	ERROR(EOPNOTSUPP, "", "The device does not have it, or this libibverbs does not.",
	      "See ibv_query_device_ex(3) first; Documentation/verbs.md has what simhca does."),
	ERROR(EIO, "",
	      "The device has gone: simhcad has ended, or a rule of `simhca inject` fired.",
	      "Close all that was made of it, and open it anew."),
	ERROR(ENOSYS, "", "No device is shown to the program, so there is no RDMA here.",
	      "Start it with `simhca run -- PROGRAM`; static programs do not see preloaded "
	      "libraries."),
	ERROR(ENODEV, "", "No device stands on the address that the program uses.",
	      "Use an address that `simhca status` shows."),
	ERROR(EADDRINUSE, "", "Another rdma_cm id of this port space has the port.",
	      "Use another port, or destroy the id that has it; `simhca cm` shows all."),
	ERROR(EADDRNOTAVAIL, "",
	      "Another rdma_cm id has the port, or the address is not one of a device here.",
	      "Use another port, or an address that `simhca status` shows; `simhca cm` shows who "
	      "has "
	      "a port."),
	ERROR(ECONNREFUSED, "IBTA vol. 1, 12.6.7", "Nobody listens there, or the server refused.",
	      "Compare the address and port with the listeners, which `simhca cm` shows."),
	ERROR(ETIMEDOUT, "", "The peer's program does not fetch its events, or nobody is there.",
	      "See what the peer's threads wait for."),
	ERROR(ENETUNREACH, "", "The host has no route to the peer, or its interface is down.",
	      "`ip route get ADDRESS` has to name a route; `ip route add` makes one."),
	ERROR(EHOSTUNREACH, "", "The host has no way to the peer: no neighbour answers there.",
	      "`ip neigh` and ping(8) show it; compare the address with the peer's."),
	ERROR(EMSGSIZE, "", "A packet is longer than the MTU of the interface, or of the route.",
	      "Make the MTU larger, or use a smaller path_mtu at both ends."),
	ERROR(EACCES, "", "The program may not open the device, or a right is missing.",
	      "`simhca status` shows whose daemon it is: use the same user, or one "
	      "SIMHCA_RUNTIME_DIR that "
	      "both may use."),
	ERROR(ECONNRESET, "", "The peer, or its process, has ended the connection.",
	      "See how the peer ended; `simhca explain` tells what failed before."),
	ERROR(ENOTCONN, "", "The connection has ended, or was not established yet.",
	      "Wait for RDMA_CM_EVENT_ESTABLISHED; an id connects once."),
	ERROR(ENODATA, "", "The GID table has no entry at that index.",
	      "ibv_devinfo -v lists those that there are; -g or gid_index is to name one."),
	ERROR(EPROTO, "", "The daemon and the program's libraries do not understand each other.",
	      "Look at the daemon's log: `simhca run --log-level debug`."),
	ERROR(EINTR, "", "A signal came while the call waited.",
	      "Call it again, or block the signal in that thread."),
	ERROR(ENOTEMPTY, "", "Events were not acknowledged, or receives are still posted.",
	      "Acknowledge each event that was fetched."),
	ERROR(EAGAIN, "", "There is no event, or no completion, yet.",
	      "Wait for the descriptor with poll(2), or poll again."),
#undef ERROR
};

static void define_error(json_t *list, const struct error *error)
{
	advise(add(list, "errno", "", error->name, error->number, strerror(error->number)),
	       &error->advice);
}

/* -------------------------------------------------------------------------------- look-up */

/* What programs print of a status and an event: libibverbs' ibv_wc_status_str() and
   ibv_event_type_str(). */
static const struct {
	const char *text;
	const char *name;
} printed[] = {
	{ "local length error", "LOC_LEN_ERR" },
	{ "local QP operation error", "LOC_QP_OP_ERR" },
	{ "local protection error", "LOC_PROT_ERR" },
	{ "Work Request Flushed Error", "WR_FLUSH_ERR" },
	{ "memory management operation error", "MW_BIND_ERR" },
	{ "bad response error", "BAD_RESP_ERR" },
	{ "local access error", "LOC_ACCESS_ERR" },
	{ "remote invalid request error", "REM_INV_REQ_ERR" },
	{ "remote access error", "REM_ACCESS_ERR" },
	{ "remote operation error", "REM_OP_ERR" },
	{ "transport retry counter exceeded", "RETRY_EXC_ERR" },
	{ "RNR retry counter exceeded", "RNR_RETRY_EXC_ERR" },
	{ "fatal error", "FATAL_ERR" },
	{ "general error", "GENERAL_ERR" },
	{ "TM error", "TM_ERR" },
	{ "local work queue catastrophic error", "QP_FATAL" },
	{ "invalid request local work queue error", "QP_REQ_ERR" },
	{ "local access violation work queue error", "QP_ACCESS_ERR" },
	{ "path migration request error", "PATH_MIG_ERR" },
	{ "local catastrophic error", "DEVICE_FATAL" },
	{ "SRQ catastrophic error", "SRQ_ERR" },
	{ "CQ error", "CQ_ERR" },
	{ "port error", "PORT_ERR" },
	{ "WQ fatal", "WQ_FATAL" },
};

/* A number may be a status, a vendor_err and an errno; a negative one is an errno. */
static void define_number(json_t *list, uint32_t number, bool negative)
{
	if (!negative && advice_on_status(number))
		define_status(list, number);
	if (!negative && advice_on_reason(number))
		define_reason(list, number);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if ((uint32_t)errors[i].number == number)
			define_error(list, &errors[i]);
}

static const char *without(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncasecmp(name, prefix, length) ? name : name + length;
}

static void define_name(json_t *list, const char *name)
{
	const char *event = without(name, "RDMA_CM_EVENT_");
	int known;

	if ((known = reason_by_name(name)) >= 0) {
		define_reason(list, (uint32_t)known);
		return;
	}
	if ((known = status_by_name(name)) >= 0) {
		define_status(list, (uint32_t)known);
		return;
	}
	if ((known = event_by_name(name)) >= 0) {
		define_event(list, (uint32_t)known);
		return;
	}
	if (define_news(list, without(name, "IBV_EVENT_")))
		return;
	for (size_t i = 0; i < sizeof(cm_events) / sizeof(cm_events[0]); i++)
		if (!strcasecmp(event, cm_events[i].name)) {
			define_cm_event(list, &cm_events[i]);
			return;
		}
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcasecmp(name, errors[i].name))
			define_error(list, &errors[i]);
}

/* A word of the line that is a name, as in "event RDMA_CM_EVENT_REJECTED, error 8". */
static void define_word_of(json_t *list, const char *line)
{
	static const char of_names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	char word[64];

	while (*line && !json_array_size(list)) {
		size_t length = strspn(line, of_names);

		if (length > 3 && length < sizeof(word)) {
			memcpy(word, line, length);
			word[length] = '\0';
			define_name(list, word);
		}
		line += length ? length : 1;
	}
}

/* The number behind that word, as in "Failed status 10: wr_id 0 syndrom 0x88"; 0: there is none. */
static uint32_t number_after(const char *line, const char *word)
{
	const char *at = strcasestr(line, word);
	unsigned long number;

	if (!at)
		return 0;
	at += strcspn(at, " =:");
	number = strtoul(at + strspn(at, " =:("), NULL, 0);
	return number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* A completion's status and vendor_err, by their numbers alone. */
static void define_numbers_of(json_t *list, const char *line)
{
	static const char *const of_reasons[] = { "vendor", "syndrom" };
	uint32_t status = number_after(line, "status");

	if (status && advice_on_status(status))
		define_status(list, status);
	for (size_t i = 0; i < sizeof(of_reasons) / sizeof(of_reasons[0]); i++) {
		uint32_t reason = number_after(line, of_reasons[i]);

		if (reason && advice_on_reason(reason))
			define_reason(list, reason);
	}
}

/* A line that a program has printed, or a part of one. */
static void define_line(json_t *list, const char *line)
{
	for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
		if (strcasestr(line, printed[i].text)) {
			define_name(list, printed[i].name);
			return;
		}
	define_word_of(list, line);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!json_array_size(list) && strcasestr(line, strerror(errors[i].number)))
			define_error(list, &errors[i]);
#define REASON(name, value, text)                                                                  \
	if ((value) && !json_array_size(list) && strcasestr(line, text))                           \
		define_reason(list, value);
	SIMHCA_REASONS(REASON)
#undef REASON
	if (!json_array_size(list))
		define_numbers_of(list, line);
}

/* "-12", which can only be an errno: functions that fail return it so. */
static bool is_negative(const char *word)
{
	return word[0] == '-' && word[1] && !word[1 + strspn(word + 1, "0123456789")];
}

bool dictionary_define(const char *word, json_t *list)
{
	json_t *found = json_array();
	bool negative = is_negative(word), any;
	char *end;
	unsigned long number = strtoul(word + negative, &end, 0);

	if (*word && !*end && number <= UINT32_MAX) {
		define_number(found, (uint32_t)number, negative);
	} else {
		define_name(found, word);
		if (!json_array_size(found))
			define_line(found, word);
	}
	any = json_array_size(found) > 0;
	json_array_extend(list, found);
	json_decref(found);
	return any;
}

static void print_entry(const json_t *entry)
{
	const char *kind = report_text(entry, "kind");
	long long number = report_number(entry, "number");
	const json_t *reasons = json_object_get(entry, "reasons"), *reason;
	size_t i;

	printf("%s", report_text(entry, "name"));
	if (!strcmp(kind, "reason"))
		printf(", vendor_err %lld (0x%llx)", number, number);
	else if (!strcmp(kind, "event"))
		printf(", asynchronous event %lld", number);
	else if (json_object_get(entry, "number"))
		printf(", %s %lld", kind, number);
	printf(": %s\n", report_text(entry, "text"));
	if (json_array_size(reasons))
		puts("  vendor_err of the completion says which:");
	json_array_foreach(reasons, i, reason)
		printf("    %3lld %s: %s\n", report_number(reason, "number"),
		       report_text(reason, "name"), report_text(reason, "text"));
	if (json_object_get(entry, "rule"))
		printf("  rule:    %s\n", report_text(entry, "rule"));
	if (json_object_get(entry, "usually"))
		printf("  usually: %s\n  try:     %s\n", report_text(entry, "usually"),
		       report_text(entry, "try"));
}

void dictionary_print(const json_t *list)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (i)
			putchar('\n');
		print_entry(entry);
	}
}

void dictionary_names(void (*take)(void *arg, const char *name), void *arg)
{
#define REASON(name, value, text) take(arg, #name);
	SIMHCA_REASONS(REASON)
#undef REASON
	for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
		take(arg, printed[i].name);
	for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++)
		take(arg, name_of_event(news[i].event));
	for (size_t i = 0; i < sizeof(cm_events) / sizeof(cm_events[0]); i++)
		take(arg, cm_events[i].name);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		take(arg, errors[i].name);
}

static void try_name(void *arg, const char *name)
{
	closest_try(arg, name);
}

struct holding {
	const char *word;
	char *text;
	size_t size;
};

static void add_holder(void *arg, const char *name)
{
	struct holding *holding = arg;
	size_t used = strlen(holding->text);

	if (strcasestr(name, holding->word))
		snprintf(holding->text + used, holding->size - used, "%s%s", used ? ", " : "",
			 name);
}

bool dictionary_holding(const char *word, char *text, size_t size)
{
	struct holding holding = { word, text, size };

	*text = '\0';
	if (strlen(word) > 2)
		dictionary_names(add_holder, &holding);
	return *text;
}

const char *dictionary_closest(const char *word)
{
	struct closest closest = closest_to(word);

	dictionary_names(try_name, &closest);
	return closest.best;
}
