/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <string.h>
#include <strings.h>

#include "advice.h"
#include "names.h"
#include "simhca-abi-reason.h"
#include "simhca-abi.h"

#define ACCESS "IBTA vol. 1, 10.6.3"
#define WINDOWS "IBTA vol. 1, 10.6.7"
#define LOCAL_OPS "IBTA vol. 1, 10.6.5"
#define RESPONDER "IBTA vol. 1, 9.7.4"

#define REGISTER_WITH(right) "Add IBV_ACCESS_" right " to the region's access flags."
#define BY_RDMA_CM                                                                                 \
	"With rdma_cm: give rdma_connect() and rdma_accept() an initiator_depth and "              \
	"responder_resources other than 0."
#define QP_WITH(right)                                                                             \
	"Add IBV_ACCESS_" right " to qp_access_flags when the responder's QP goes to INIT."
#define BIND_WITH(right) "Add IBV_ACCESS_" right " to the flags that the window is bound with."

/* Each reason of simhca-abi-reason.h: the compiler misses those that are not here (below). */
#define ADVICES(X)                                                                                 \
	X(NONE, "", "All is well.", "Nothing.")                                                    \
	X(FLUSHED, "IBTA vol. 1, 10.3.1.6",                                                        \
	  "An earlier work request failed, or the program itself moved the QP to ERR.",            \
	  "Look at the first completion with another error; this one follows from it.")            \
	X(DEVICE_GONE, "", "simhcad was stopped or killed while programs ran.",                    \
	  "Start it again, and the programs; its log says why it ended.")                          \
	X(PROCESS_GONE, "",                                                                        \
	  "The peer, or a process that shares its memory, exited or was killed.",                  \
	  "See how that process ended: its exit status, its own errors.")                          \
	X(INJECTED, "", "`simhca inject`, or `simhca run --inject`, has been asked for it.",       \
	  "See that the program survives it; Documentation/faults.md has recipes.")                \
	X(KEY_UNKNOWN, ACCESS,                                                                     \
	  "The region was deregistered too early, the number was never a key, or lkey, rkey or "   \
	  "byte order were mixed up on the way.",                                                  \
	  "Print the key where it is made and where it is used; deregister only after the last "   \
	  "completion.")                                                                           \
	X(KEY_STALE, ACCESS,                                                                       \
	  "The key was invalidated or bound anew, and the sender still has the one before.",       \
	  "Send the new key to the peer each time that it changes.")                               \
	X(KEY_WRONG_PD, ACCESS, "The region and the QP were made with different ibv_pd.",          \
	  "Use one protection domain for a QP and the memory that it uses.")                       \
	X(KEY_BELOW_START, ACCESS,                                                                 \
	  "The address is of another buffer, as after realloc(), or an offset where an address "   \
	  "is wanted.",                                                                            \
	  "Send the address that was registered with its key; use offsets only with "              \
	  "IBV_ACCESS_ZERO_BASED.")                                                                \
	X(KEY_PAST_END, ACCESS,                                                                    \
	  "The message is longer than the buffer that was registered, or an offset is too large.", \
	  "Compare address plus length with what ibv_reg_mr() was given.")                         \
	X(KEY_WRAPS, ACCESS, "The length is negative, or the address is no address.",              \
	  "Look at the arithmetic of the address and of the length.")                              \
	X(KEY_NOT_LOCAL, WINDOWS, "The rkey of a window stands in an SGE.",                        \
	  "SGEs take the lkey of the region; windows are for peers.")                              \
	X(MW_NOT_BOUND, WINDOWS,                                                                   \
	  "The peer used the rkey before the bind, or after it was undone.",                       \
	  "Wait for the bind's completion before the rkey is sent, and for the peer's last "       \
	  "access before it is invalidated.")                                                      \
	X(MW_OTHER_QP, WINDOWS,                                                                    \
	  "A type 2 window is usable by the QP that bound it, and the peer came by another.",      \
	  "Bind a window on each QP that is to use it.")                                           \
	X(MR_NOT_VALID, LOCAL_OPS,                                                                 \
	  "A fast-register region was used before its registration, or after its invalidation.",   \
	  "Wait for the registration's completion before the key is used elsewhere.")              \
	X(MR_NO_LOCAL_WRITE, ACCESS,                                                               \
	  "A receive, or the result of a read or an atomic, goes to a region that was registered " \
	  "for reading.",                                                                          \
	  REGISTER_WITH("LOCAL_WRITE"))                                                            \
	X(MR_NO_REMOTE_READ, ACCESS, "The peer reads from a region that does not allow it.",       \
	  REGISTER_WITH("REMOTE_READ"))                                                            \
	X(MR_NO_REMOTE_WRITE, ACCESS, "The peer writes to a region that does not allow it.",       \
	  REGISTER_WITH("REMOTE_WRITE") " It needs IBV_ACCESS_LOCAL_WRITE too.")                   \
	X(MR_NO_REMOTE_ATOMIC, ACCESS, "An atomic names a region that does not allow it.",         \
	  REGISTER_WITH("REMOTE_ATOMIC") " It needs IBV_ACCESS_LOCAL_WRITE too.")                  \
	X(QP_NO_REMOTE_READ, RESPONDER, "The region allows it, the responder's QP does not.",      \
	  QP_WITH("REMOTE_READ") " " BY_RDMA_CM)                                                   \
	X(QP_NO_REMOTE_WRITE, RESPONDER, "The region allows it, the responder's QP does not.",     \
	  QP_WITH("REMOTE_WRITE"))                                                                 \
	X(QP_NO_REMOTE_ATOMIC, RESPONDER, "The region allows it, the responder's QP does not.",    \
	  QP_WITH("REMOTE_ATOMIC") " " BY_RDMA_CM)                                                 \
	X(MW_NO_REMOTE_READ, WINDOWS, "The window was bound without this right.",                  \
	  BIND_WITH("REMOTE_READ"))                                                                \
	X(MW_NO_REMOTE_WRITE, WINDOWS, "The window was bound without this right.",                 \
	  BIND_WITH("REMOTE_WRITE"))                                                               \
	X(MW_NO_REMOTE_ATOMIC, WINDOWS, "The window was bound without this right.",                \
	  BIND_WITH("REMOTE_ATOMIC"))                                                              \
	X(MR_NO_MW_BIND, WINDOWS, "A window is bound to a region that does not allow it.",         \
	  REGISTER_WITH("MW_BIND"))                                                                \
	X(BIND_NEEDS_LOCAL_WRITE, WINDOWS,                                                         \
	  "A window is to allow more than its region, which is for reading.",                      \
	  REGISTER_WITH("LOCAL_WRITE"))                                                            \
	X(KEY_NO_FLUSH_GLOBAL, "IBTA vol. 1, annex A19",                                           \
	  "FLUSH for global visibility names memory that was registered without it.",              \
	  REGISTER_WITH("FLUSH_GLOBAL"))                                                           \
	X(KEY_NO_FLUSH_PERSISTENT, "IBTA vol. 1, annex A19",                                       \
	  "FLUSH for persistence names memory that was registered without it.",                    \
	  REGISTER_WITH("FLUSH_PERSISTENT"))                                                       \
	X(QP_NO_FLUSH_GLOBAL, "IBTA vol. 1, annex A19",                                            \
	  "The region allows it, the responder's QP does not.", QP_WITH("FLUSH_GLOBAL"))           \
	X(QP_NO_FLUSH_PERSISTENT, "IBTA vol. 1, annex A19",                                        \
	  "The region allows it, the responder's QP does not.", QP_WITH("FLUSH_PERSISTENT"))       \
	X(PAGE_NOT_MAPPED, "",                                                                     \
	  "The buffer was unmapped, freed or made read-only while it was registered.",             \
	  "Keep the buffer until its completion, and deregister before it is freed. After fork() " \
	  "see ibv_fork_init(3).")                                                                 \
	X(MEMORY_REFUSED, "",                                                                      \
	  "Another user's process, ptrace_scope, or a container keeps simhcad from the memory.",   \
	  "Run simhcad and the program as one user, or use --memory agent; simhcad(8) says more.") \
	X(AGENT_TIMEOUT, "", "The process is stopped, in a debugger, or on memory that sleeps.",   \
	  "Let it run; or see what it sleeps on.")                                                 \
	X(FAULT_NOT_MAPPED, "",                                                                    \
	  "An on-demand region covers an address at which nothing is mapped (yet, or any more).",  \
	  "Map the memory before it is named by a work request.")                                  \
	X(FAULT_NOT_WRITABLE, "",                                                                  \
	  "An on-demand region is written where the mapping is read-only.",                        \
	  "Map it for writing, or register it without rights to write.")                           \
	X(WQE_BAD_OPCODE, "IBTA vol. 1, table 38",                                                 \
	  "The operation is not one of this transport: UC has no reads, UD only sends.",           \
	  "Use an RC QP for it.")                                                                  \
	X(WQE_TOO_MANY_SGE, "", "num_sge is larger than cap.max_send_sge or max_recv_sge.",        \
	  "Ask for more when the QP is created; the values that it got are in cap.")               \
	X(WQE_INLINE_TOO_LONG, "", "IBV_SEND_INLINE with more than cap.max_inline_data.",          \
	  "Ask for more when the QP is created, or post it without the flag.")                     \
	X(MSG_TOO_LONG, RESPONDER, "UD messages end at the path MTU, others at 2^30 bytes here.",  \
	  "Send it in parts; ibv_query_port() has active_mtu and max_msg_sz.")                     \
	X(ATOMIC_BAD_LENGTH, "IBTA vol. 1, 9.4.5", "The result of an atomic is 8 bytes.",          \
	  "Give one SGE of 8 bytes.")                                                              \
	X(ATOMIC_UNALIGNED, "IBTA vol. 1, 9.4.5", "The remote address is no multiple of 8.",       \
	  "Align the counter, for example with aligned_alloc(3).")                                 \
	X(RECV_TOO_SHORT, RESPONDER,                                                               \
	  "The receive that was next is shorter than the message; on UD 40 bytes of it are for "   \
	  "the GRH.",                                                                              \
	  "Post receives of the longest message; receives are used in order, whatever is in it.")  \
	X(READ_NOT_ENABLED, "IBTA vol. 1, 9.7", "max_rd_atomic is 0 at the sender.",               \
	  "Set max_rd_atomic when the QP goes to RTS. " BY_RDMA_CM)                                \
	X(RESP_NO_RD_ATOMIC, RESPONDER, "max_dest_rd_atomic is 0 at the peer.",                    \
	  "Set max_dest_rd_atomic when the responder's QP goes to RTR. " BY_RDMA_CM)               \
	X(RD_ATOMIC_EXCEEDED, RESPONDER,                                                           \
	  "max_rd_atomic of this QP is larger than max_dest_rd_atomic of its peer.",               \
	  "Exchange the two, and set max_rd_atomic to the smaller one.")                           \
	X(AV_BAD_GID_INDEX, "IBTA vol. 1, 11.2.2",                                                 \
	  "sgid_index names no GID; it may have gone with an address of the interface.",           \
	  "ibv_devinfo -v lists the GIDs; `simhca status` too.")                                   \
	X(RING_CORRUPT, "",                                                                        \
	  "The program wrote over its own queues: a wild pointer, or a use after free.",           \
	  "Run it with valgrind or AddressSanitizer; the README says how.")                        \
	X(FRAME_TOO_SHORT, "IEEE 802.3", "A raw packet without a whole Ethernet header.",          \
	  "Send at least 14 bytes.")                                                               \
	X(FRAME_TOO_LONG, "IEEE 802.3", "A raw packet longer than the port's MTU.",                \
	  "Send shorter ones, or give the device a larger --mtu.")                                 \
	X(FLUSH_BAD_TYPE, "IBTA vol. 1, annex A19", "Placement or selectivity are not set.",       \
	  "Give ibv_wr_flush() values of enum ibv_placement_type and ibv_selectivity_level.")      \
	X(NO_RESPONSE, "IBTA vol. 1, 9.7.6",                                                       \
	  "The peer has not connected its QP yet, has destroyed it, or address, QP number or PSN " \
	  "were exchanged wrongly.",                                                               \
	  "Compare both ends' GID or LID, QP number and PSN; let the peer reach RTR before you "   \
	  "send.")                                                                                 \
	X(PEER_NOT_READY, "IBTA vol. 1, 9.7.5",                                                    \
	  "The peer posts receives later, or fewer, than you send; rnr_retry is small. UC and UD " \
	  "lose the message.",                                                                     \
	  "Post receives before the sender may begin, and post one again for each that is used; "  \
	  "rnr_retry 7 waits for ever.")                                                           \
	X(PSN_SEQUENCE, "IBTA vol. 1, 9.7.1", "rq_psn of one end is not sq_psn of the other.",     \
	  "Exchange the PSNs, and give each end the other's.")                                     \
	X(OPCODE_SEQUENCE, RESPONDER,                                                              \
	  "Two senders use one connection, or one end was reset alone.",                           \
	  "Connect the QPs one to one; reset both ends.")                                          \
	X(PSN_BEFORE_START, "IBTA vol. 1, 9.7.1", "rq_psn of one end is not sq_psn of the other.", \
	  "Exchange the PSNs, and give each end the other's.")                                     \
	X(PSN_REUSED, "IBTA vol. 1, 9.7.1",                                                        \
	  "rq_psn lies behind the other end's sq_psn, or one end was reset alone.",                \
	  "Exchange the PSNs, and reset both ends.")                                               \
	X(QKEY_MISMATCH, "IBTA vol. 1, 10.2.5",                                                    \
	  "wr.ud.remote_qkey is not the qkey that the receiver's QP was given at INIT, or was "    \
	  "not exchanged; with rdma_cm both come with an event, as param.ud.qkey.",                \
	  "Send with the qkey of the receiver's QP; nothing tells the sender of another one.")     \
	X(PATH_MTU_DIFFERS, "IBTA vol. 1, 9.7.1", "The ends went to RTR with different path_mtu.", \
	  "Use the smaller one of the two ports at both ends.")                                    \
	X(ATOMIC_FORGOTTEN, "IBTA vol. 1, 9.4.5",                                                  \
	  "More atomics were repeated than max_dest_rd_atomic remembers.",                         \
	  "max_rd_atomic must not be larger than the peer's max_dest_rd_atomic.")                  \
	X(RECV_CQ_ERROR, "IBTA vol. 1, 11.6.3.2",                                                  \
	  "More completions than the receiver's CQ has "                                           \
	  "entries.",                                                                              \
	  "Make the CQ as large as all that can complete on it, or poll it more often.")           \
	X(PEER_SAYS_INVALID, "IBTA vol. 1, 9.7.5",                                                 \
	  "The other host's responder refused: length, operation, or its QP's rights.",            \
	  "Its own `simhca explain` says which; other devices have it in their counters.")         \
	X(PEER_SAYS_ACCESS, "IBTA vol. 1, 9.7.5",                                                  \
	  "The other host's responder refused the key, the range or the right.",                   \
	  "Its own `simhca explain` says which; other devices have it in their counters.")         \
	X(PEER_SAYS_OPERATIONAL, "IBTA vol. 1, 9.7.5",                                             \
	  "The other host's responder had an error of its own, as with a receive buffer.",         \
	  "Its own `simhca explain` says which.")                                                  \
	X(WIRE_TOO_LONG, "",                                                                       \
	  "The MTU of the interface, or of the route to the peer, is smaller than path_mtu and "   \
	  "its headers (58 bytes, 78 by IPv6).",                                                   \
	  "Make the MTU larger (`ip link set INTERFACE mtu N`, `ip route get ADDRESS`), or use a " \
	  "smaller path_mtu at both ends.")                                                        \
	X(WIRE_NO_ROUTE, "", "The interface is down, or has lost the address or the route.",       \
	  "`ip route get ADDRESS` has to name a route; `ip route add` makes one.")                 \
	X(WIRE_FORBIDDEN, "",                                                                      \
	  "A firewall of this host drops UDP to port 4791, or the route is of type prohibit.",     \
	  "Let UDP to port 4791 pass: `nft list ruleset`, `iptables -L OUTPUT`, `ip route`.")      \
	X(WIRE_CLOSED, "",                                                                         \
	  "Another process has UDP port 4791 of that address, or the address has gone.",           \
	  "`simhca status` says which; end the other process, `ss -lunp sport = 4791` names it.")  \
	X(WIRE_PATH_MTU, "",                                                                       \
	  "A link on the way has a smaller MTU than both ends, and a firewall drops what its "     \
	  "router says of it by ICMP.",                                                            \
	  "Find it by `ping -M do -s BYTES ADDRESS`; let ICMP pass, give the link a larger MTU, "  \
	  "or use a smaller path_mtu at both ends (`simhca start --mtu`).")                        \
	X(XRC_NO_SRQ, "IBTA vol. 1, annex A14", "remote_srqn names no XRC SRQ.",                   \
	  "Send the number that ibv_get_srq_num() gives.")                                         \
	X(XRC_OTHER_DOMAIN, "IBTA vol. 1, annex A14",                                              \
	  "The SRQ and the target QP were made in different XRC domains.",                         \
	  "Open one domain, by one file, in all processes that share it.")                         \
	X(XRC_CQ_ERROR, "IBTA vol. 1, annex A14", "The SRQ's CQ was full.",                        \
	  "Make it larger, or poll it more often.")                                                \
	X(TM_NO_ENTRY, "", "A message took the tag before it was deleted.",                        \
	  "That is a race that programs have to expect: poll for the message.")                    \
	X(BIND_NO_WINDOW, WINDOWS, "The rkey to bind is no window's.",                             \
	  "Give mw->rkey; for type 2 with ibv_inc_rkey().")                                        \
	X(BIND_WRONG_TYPE, WINDOWS,                                                                \
	  "A type 2 window was given to ibv_bind_mw(), or type 1 to a "                            \
	  "work request.",                                                                         \
	  "Type 1: ibv_bind_mw(). Type 2: IBV_WR_BIND_MW.")                                        \
	X(BIND_NOT_FREE, WINDOWS, "A type 2 window is bound again without an invalidation.",       \
	  "Invalidate it first: IBV_WR_LOCAL_INV, or the peer's SEND_WITH_INV.")                   \
	X(BIND_NO_REGION, WINDOWS, "The region's key is unknown, or another window's.",            \
	  "Give the region that ibv_reg_mr() returned.")                                           \
	X(BIND_NO_LENGTH, WINDOWS, "A type 2 window of no bytes.",                                 \
	  "Bind at least one byte; "                                                               \
	  "invalidation unbinds.")                                                                 \
	X(BIND_BAD_ACCESS, WINDOWS, "Flags that windows do not have.",                             \
	  "Only REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC, ZERO_BASED and the FLUSH rights.")       \
	X(FAST_REG_NO_REGION, LOCAL_OPS, "The key is none of simhcadv_alloc_mr().",                \
	  "Give the lkey of that region.")                                                         \
	X(FAST_REG_NOT_FREE, LOCAL_OPS, "It is registered, and was not invalidated.",              \
	  "Invalidate it first, and wait for that only if other QPs use it.")                      \
	X(FAST_REG_TOO_MANY_PAGES, LOCAL_OPS,                                                      \
	  "The list is longer than max_pages at its creation.",                                    \
	  "Make the region for more pages, or register less.")                                     \
	X(FAST_REG_PAGE_SIZE, LOCAL_OPS, "A page size that the device does not have.",             \
	  "simhcadv_query_device(3) reports them.")                                                \
	X(FAST_REG_UNALIGNED, LOCAL_OPS, "A page's address is no multiple of the page size.",      \
	  "List whole pages; the first byte has an offset of its own.")                            \
	X(FAST_REG_PAST_END, LOCAL_OPS, "Offset plus length are more than the pages hold.",        \
	  "List all pages that the length covers.")                                                \
	X(FAST_REG_BAD_ACCESS, LOCAL_OPS, "Rights that are unknown, or that need LOCAL_WRITE.",    \
	  "Add IBV_ACCESS_LOCAL_WRITE.")                                                           \
	X(FAST_REG_LIST_CHANGED, LOCAL_OPS, "The page list was reused before the completion.",     \
	  "Leave the list alone until the registration has completed.")                            \
	X(INV_NOT_ALLOWED, LOCAL_OPS, "The key is of an ordinary region, or a type 1 window.",     \
	  "Deregister regions by ibv_dereg_mr(); bind type 1 windows with length 0.")              \
	X(INV_WINDOWS_BOUND, LOCAL_OPS, "Windows are still bound to the region.",                  \
	  "Invalidate the windows first.")

const struct advice *advice_on_reason(uint32_t reason)
{
	/* An enum, so that the compiler names the reasons that are missing. */
	switch ((enum simhca_reason)reason) {
#define ADVICE(name, its_rule, its_cause, its_remedy)                                              \
	case SIMHCA_REASON_##name: {                                                               \
		static const struct advice advice = { its_rule, its_cause, its_remedy };           \
                                                                                                   \
		return &advice;                                                                    \
	}
		ADVICES(ADVICE)
#undef ADVICE
	}
	return NULL;
}

struct named_advice {
	const char *name;
	struct advice advice;
};

static const struct advice *by_name(const struct named_advice *advices, size_t count,
				    const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(advices[i].name, name))
			return &advices[i].advice;
	return NULL;
}
#define BY_NAME(advices, name) by_name(advices, sizeof(advices) / sizeof(advices[0]), name)

/* Of a peer whose process has ended, and whose QP is still there. */
#define LEFT_A_CHILD                                                                               \
	{                                                                                          \
		"fork(2)",                                                                         \
			"The peer's process has forked a child, which inherited the descriptor "   \
			"of its device; the QPs go when the last one that has it closes it.",      \
			"Have the peer's children close what they inherit, or exec(); and notice " \
			"a peer that has gone by a time limit, or by "                             \
			"RDMA_CM_EVENT_DISCONNECTED."                                              \
	}

static const struct named_advice sleeps[] = {
	{ "not_armed",
	  { "",
	    "ibv_req_notify_cq() was not called after the last event, or before the CQ was "
	    "polled empty.",
	    "After each event arm the CQ, and only then poll it until it is empty." } },
	{ "not_solicited",
	  { "IBTA vol. 1, 11.4.2.2",
	    "ibv_req_notify_cq(cq, 1) is for messages that their sender marks, and the "
	    "peer "
	    "does not mark its own.",
	    "Have the peer send with IBV_SEND_SOLICITED, or arm for all completions: "
	    "ibv_req_notify_cq(cq, 0)." } },
	{ "never_armed",
	  { "ibv_get_cq_event(3)",
	    "ibv_req_notify_cq() was not called: a channel has events of CQs that are "
	    "armed.",
	    "Arm the CQ once it is created, and again after each event, before it is "
	    "polled until it is empty." } },
	{ "no_channel",
	  { "ibv_create_cq(3)",
	    "The argument `channel` of ibv_create_cq() is NULL, or the program waits at a "
	    "channel that another CQ was meant for.",
	    "Give each CQ whose events are waited for its channel when it is created." } },
	{ "not_signaled",
	  { "ibv_post_send(3)",
	    "IBV_SEND_SIGNALED is not in send_flags, and the QP was created with "
	    "sq_sig_all 0.",
	    "Set it in the last of the work requests that are waited for; or sq_sig_all, "
	    "for a completion of each." } },
	{ "no_receive",
	  { "IBTA vol. 1, 9.7.5",
	    "The peer has used up its receives, or posts them later; rnr_retry 7 has the "
	    "sender try for ever.",
	    "Have the peer post a receive again for each that is used. With rnr_retry "
	    "below 7 the send fails, and its program learns of it." } },
	{ "in_sqd",
	  { "IBTA vol. 1, 10.3.1.5",
	    "A QP in SQD ends what is under way, and begins nothing that is posted.",
	    "Once IBV_EVENT_SQ_DRAINED has come, and the QP was changed, move it back to "
	    "RTS; "
	    "what was posted begins then." } },
	{ "lock_held",
	  { "ibv_wr_post(3), ibv_create_cq_ex(3)",
	    "The path that fails, or finds nothing to do, returns before it has ended what "
	    "it began.",
	    "Call ibv_wr_complete() or ibv_wr_abort() after each ibv_wr_start(), and "
	    "ibv_end_poll() after each ibv_start_poll() that returned 0." } },
	{ "nothing_posted",
	  { "ibv_post_recv(3), ibv_post_send(3)",
	    "No receive was posted, or none again after the last one was used; or "
	    "ibv_wr_complete() was not called after ibv_wr_start().",
	    "Post a receive before each message that is waited for, and look at what the "
	    "post returns." } },
	{ "sends_dropped",
	  { "IBTA vol. 1, 10.3.1.1",
	    "RESET drops what is posted, and what has completed and was not polled.",
	    "Poll the completions first. Move the QP to ERR to end what is under way: each "
	    "request then completes, with WR_FLUSH_ERR. Then move it to RESET." } },
	{ "qp_destroyed",
	  { "ibv_destroy_qp(3)",
	    "The completions of a QP go with it, those that are in the CQ already, too.",
	    "Poll the completions of all that was posted, and destroy the QP then. Move it "
	    "to "
	    "ERR first to end what is under way: each request then completes, with "
	    "WR_FLUSH_ERR." } },
	{ "wrong_cq",
	  { "ibv_create_qp(3)",
	    "Sends complete in send_cq, receives in recv_cq, and these are two CQs here.",
	    "Poll the CQ that the QP was given for that queue, or give it one for "
	    "both." } },
	{ "armed_late",
	  { "IBTA vol. 1, 11.4.2.2",
	    "The CQ was not polled until it was empty after it was armed; one completion "
	    "was polled for each event, but an event can stand for many.",
	    "Arm, then poll until the CQ is empty, and only then wait. (Some NICs raise an "
	    "event for what is left: `simhca run --event-at-arm` does, too.)" } },
	{ "event_unread",
	  { "epoll(7)",
	    "The channel is watched edge-triggered (EPOLLET), and not all of its events "
	    "were read; or no thread waits at the channel at all.",
	    "Call ibv_get_cq_event() until it says EAGAIN, on a descriptor with "
	    "O_NONBLOCK, "
	    "or watch it level-triggered." } },
	{ "plain_write",
	  { "IBTA vol. 1, 9.4.3",
	    "An RDMA WRITE without immediate data, an RDMA READ and an atomic take no "
	    "receive, and give the program whose memory it is no completion.",
	    "Have the peer use IBV_WR_RDMA_WRITE_WITH_IMM, or post a SEND after its last "
	    "access; each takes a receive. If other messages are to come, all is well." } },
	{ "peer_gone", LEFT_A_CHILD },
	{ "no_peer",
	  { "IBTA vol. 1, 9.7.1",
	    "The peer's program has ended, or has destroyed its QP. A receive completes by "
	    "a "
	    "message only, and nobody tells the other end of a connection.",
	    "Have the ends say good-bye, or notice a peer that has gone by the end of the "
	    "socket that they met by, RDMA_CM_EVENT_DISCONNECTED, or a send now and "
	    "then." } },
	{ "peer_in_error",
	  { "IBTA vol. 1, 9.7.1",
	    "Nobody tells the other end of a connection that a QP has failed. With rdma_cm "
	    "a peer that disconnects is an event, which is to be fetched.",
	    "Fetch RDMA_CM_EVENT_DISCONNECTED while completions are waited for, and answer "
	    "it by rdma_disconnect(), which flushes the receives. Without rdma_cm have the "
	    "peer say by its socket that it has failed." } },
	{ "unanswered",
	  { "IBTA vol. 1, 12.9.8",
	    "The thread that should fetch the events of the channel waits for something "
	    "else, or the event leads to no call; who has asked waits for a minute and "
	    "more, and then gets RDMA_CM_EVENT_UNREACHABLE.",
	    "Fetch events in a thread of their own, and answer each CONNECT_REQUEST by "
	    "rdma_accept() or rdma_reject() of the id that the event brings." } },
	{ "not_sent",
	  { "",
	    "This host has no route to the peer, its interface is down, or a firewall "
	    "forbids UDP to port 4791.",
	    "`ip route get ADDRESS` has to name a route; `simhca explain` with the error "
	    "has more." } },
	{ "accept_unanswered",
	  { "IBTA vol. 1, 12.9.8",
	    "Nobody fetches the events of the channel after rdma_connect(), or of this "
	    "id's "
	    "channel: the QP is not in RTS, and the peer waits for "
	    "RDMA_CM_EVENT_ESTABLISHED.",
	    "Call rdma_get_cm_event() until it brings RDMA_CM_EVENT_ESTABLISHED, and send "
	    "only then." } },
	{ "end_unanswered",
	  { "IBTA vol. 1, 12.9.9",
	    "Nobody fetches the events of the channel, or what handles "
	    "RDMA_CM_EVENT_DISCONNECTED leaves the connection as it is. The peer's own "
	    "event comes a minute later then.",
	    "Answer RDMA_CM_EVENT_DISCONNECTED by rdma_disconnect(), and destroy the QP "
	    "and the id once what it flushes is polled." } },
	{ "polls_none",
	  { "ibv_poll_cq(3)",
	    "num_entries was not set, or is what is left of an array that is full: such a "
	    "call takes no completion, and returns 0.",
	    "Call ibv_poll_cq() with the room that wc has, which is 1 at least." } },
	{ "not_acknowledged",
	  { "ibv_get_cq_event(3), ibv_get_async_event(3), rdma_get_cm_event(3)",
	    "An event was got, and the path that handles it returns before it is "
	    "acknowledged.",
	    "Acknowledge each event before what it is of is destroyed: "
	    "ibv_ack_cq_events(), ibv_ack_async_event(), rdma_ack_cm_event()." } },
};

const struct advice *advice_on_sleep(const char *how)
{
	return BY_NAME(sleeps, how);
}

#define TIME_OUT "IBTA vol. 1, 9.7.6"
#define GROUPS "IBTA vol. 1, 10.5"

static const struct named_advice obstacles[] = {
	{ "no_port",
	  { TIME_OUT,
	    "The GID, or LID, was not exchanged, is another port's, or of a program on "
	    "another daemon.",
	    "Give dgid, or dlid, what the peer's own ibv_query_gid(), or ibv_query_port(), "
	    "says; `simhca status` shows the addresses of this daemon." } },
	{ "lid_reversed",
	  { TIME_OUT, "The LID was converted by one end alone, or twice.",
	    "Convert it once with htons() and once with ntohs(), or not at all." } },
	{ "port_down",
	  { TIME_OUT, "A rule of `simhca inject`, or the device's network interface, took it down.",
	    "`simhca status` shows the ports; wait for IBV_EVENT_PORT_ACTIVE." } },
	{ "no_qp",
	  { TIME_OUT,
	    "The peer has destroyed its QP, or has ended; or the number is not what its "
	    "qp_num says.",
	    "See how the peer ended; and compare the number with the peer's qp_num "
	    "(`simhca qp` lists those that there are)." } },
	{ "other_type",
	  { TIME_OUT,
	    "The number is that of another QP of the peer's, or the ends give "
	    "ibv_create_qp() different types.",
	    "Compare the number and qp_type of both ends." } },
	{ "not_ready",
	  { TIME_OUT,
	    "The peer learned this end's number later than it was sent to, or has taken "
	    "its QP to RESET.",
	    "Have the peer tell when its QP is in RTR, and send only then." } },
	{ "in_error",
	  { TIME_OUT,
	    "The peer's QP has failed, or its program took it to ERR, as "
	    "rdma_disconnect() does.",
	    "Look at what failed at the peer first. After that both ends have to connect "
	    "anew, from RESET." } },
	{ "not_told",
	  { TIME_OUT,
	    "The peer went to RTR before it got this end's number, or does not read it "
	    "from where it is written.",
	    "Exchange both numbers first, and have each end go to RTR with the "
	    "other's." } },
	{ "connected_elsewhere",
	  { TIME_OUT, "Two QPs were given the number of one; a connected QP hears one peer only.",
	    "Have the peer create a QP for each that connects to it." } },
	{ "other_source",
	  { TIME_OUT, "The peer was told the GID of another index than sgid_index of this QP.",
	    "Query and send the GID of the index that the QP uses, at both ends." } },
	{ "orphaned", LEFT_A_CHILD },
	{ "no_group_qpn",
	  { GROUPS, "wr.ud.remote_qpn is the number of a receiver.",
	    "Send with remote_qpn 0xffffff to a group." } },
	{ "no_group_gid",
	  { GROUPS, "The address handle is the one of a port.",
	    "Make one with the group's GID as dgid, or send to the receiver's own QP "
	    "number." } },
	{ "not_joined",
	  { GROUPS,
	    "No receiver has called ibv_attach_mcast() yet, or it did so with another "
	    "GID; rdma_join_multicast() attaches the QP that the id has then.",
	    "Attach each receiver's QP before the first datagram is sent, with the GID "
	    "that the sender's address handle has." } },
};

const struct advice *advice_on_obstacle(const char *obstacle)
{
	return BY_NAME(obstacles, obstacle);
}

#define EVENTS "IBTA vol. 1, 11.6.3"
#define OVERWRITTEN                                                                                \
	{                                                                                          \
		EVENTS,                                                                            \
			"The program writes where it should not, or uses the queue from two "      \
			"threads without a "                                                       \
			"lock (a queue with a thread domain promises that one thread posts).",     \
			"Look for writes past a buffer's end, with valgrind or AddressSanitizer."  \
	}

static const struct named_advice events[] = {
	{ "CQ_ERR",
	  { EVENTS ".2",
	    "The CQ is smaller than what its QPs may have posted, or is not polled often.",
	    "Make it as large as all their send and receive queues together." } },
	{ "QP_FATAL", OVERWRITTEN },
	{ "SRQ_ERR", OVERWRITTEN },
	{ "WQ_FATAL", OVERWRITTEN },
	{ "QP_REQ_ERR",
	  { EVENTS ".2", "The peer's request does not suit this QP's attributes.",
	    "Look at what the peer's completion says." } },
	{ "QP_ACCESS_ERR",
	  { EVENTS ".2", "The peer's key, address or length is wrong, or rights are missing.",
	    "Look at what the peer's completion says." } },
	{ "PATH_MIG_ERR",
	  { "IBTA vol. 1, 17.2.8",
	    "This device has no path migration: a rule of `simhca inject` has raised it.",
	    "Take it as a connection that goes on by its first path." } },
	{ "DEVICE_FATAL",
	  { EVENTS ".4", "A device was reset, or lost; here by a rule of `simhca inject`.",
	    "Close all that was made of it, and open it anew." } },
	{ "PORT_ERR",
	  { EVENTS ".4",
	    "The network interface of the device went down, or a rule of `simhca inject` "
	    "took it down.",
	    "Wait for IBV_EVENT_PORT_ACTIVE; connections stand it if their retries "
	    "last." } },
};

const struct advice *advice_on_event(const char *name)
{
	return BY_NAME(events, name);
}

#define CM_REQ "IBTA vol. 1, 12.6"
static const struct named_advice connections[] = {
	{ "nobody_listens",
	  { CM_REQ ".7",
	    "The server listens later, at another address, port or port space, or by "
	    "another daemon.",
	    "Compare the address and port with the listeners; `simhca cm` shows all "
	    "ids." } },
	{ "rejected",
	  { CM_REQ ".7",
	    "The peer's program called rdma_reject(), or destroyed the id before it "
	    "accepted.",
	    "Look at the private data that came with it, and at what the peer logs." } },
	{ "too_late",
	  { CM_REQ ".7",
	    "The peer had a time limit for the next step, or destroyed its id while it "
	    "waited: who should have called rdma_accept() was busy, or stopped.",
	    "Fetch the events of the channel in time, in a thread of its own if need "
	    "be." } },
	{ "no_answer",
	  { CM_REQ ".5", "The peer's program does not fetch its events, or there is no way to it.",
	    "See what the peer's threads wait for; between hosts try `ping` and a look at "
	    "`simhca wire`." } },
	{ "not_sent",
	  { "", "This host has no route to that address, or a firewall of its own in the way.",
	    "`ip route get ADDRESS` has to name a route, and UDP to port 4791 has to "
	    "pass." } },
	{ "no_device",
	  { "", "The address is not one of a network interface that a device here stands on.",
	    "Use an address that `simhca status` shows, or have a device stand on that "
	    "interface: `simhca run --netdev NAME`." } },
	{ "no_neighbour",
	  { "", "The host is off or has another address, or something on the way drops ARP or NDP.",
	    "`ip neigh show to ADDRESS` has the kernel's word; `ping` has to be answered." } },
	{ "backlog_full",
	  { "", "The server accepts more slowly than clients come, or its backlog is small.",
	    "Give rdma_listen() a larger one, and fetch CONNECT_REQUEST events in "
	    "time." } },
};

const struct advice *advice_on_connection(const char *how)
{
	return BY_NAME(connections, how);
}

static const struct status_advice statuses[] = {
	{ SIMHCA_WC_SUCCESS, "the work request is done" },
	{ SIMHCA_WC_LOC_LEN_ERR, "a length is wrong at the end that has this completion: a receive "
				 "buffer too short, or a message too long" },
	{ SIMHCA_WC_LOC_QP_OP_ERR, "the QP cannot do this work request" },
	{ SIMHCA_WC_LOC_PROT_ERR,
	  "an SGE of this work request names memory that may not be used so: "
	  "its lkey, range or rights" },
	{ SIMHCA_WC_WR_FLUSH_ERR,
	  "the QP was in ERR when this was its turn; an earlier error is the cause" },
	{ SIMHCA_WC_MW_BIND_ERR, "a memory window could not be bound, or a region not registered" },
	{ SIMHCA_WC_BAD_RESP_ERR, "the peer answered with what was not expected" },
	{ SIMHCA_WC_LOC_ACCESS_ERR, "the peer's write, or invalidation, was refused by this end "
				    "after it had taken a receive" },
	{ SIMHCA_WC_REM_INV_REQ_ERR,
	  "the peer refuses the request: its length, its operation, or the rights of its QP" },
	{ SIMHCA_WC_REM_ACCESS_ERR, "the peer refuses the rkey: unknown, out of range, without the "
				    "right" },
	{ SIMHCA_WC_REM_OP_ERR, "the peer could not do it, by a fault of its own" },
	{ SIMHCA_WC_RETRY_EXC_ERR, "nobody answered, after all retries" },
	{ SIMHCA_WC_RNR_RETRY_EXC_ERR, "the peer had no receive posted, after all RNR retries" },
	{ SIMHCA_WC_FATAL_ERR, "the device failed" },
	{ SIMHCA_WC_GENERAL_ERR, "something that has no other status" },
	{ SIMHCA_WC_TM_ERR, "a message with a tag could not be delivered" },
	{ SIMHCA_WC_TM_RNDV_INCOMPLETE, "a rendezvous was not fetched by the device" },
};

const struct status_advice *advice_on_status(uint32_t status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status)
			return &statuses[i];
	return NULL;
}

/* Behind the prefix, if it is there. */
static const char *without(const char *name, const char *prefix)
{
	return strncasecmp(name, prefix, strlen(prefix)) ? name : name + strlen(prefix);
}

int reason_by_name(const char *name)
{
	name = without(name, "SIMHCA_REASON_");
#define REASON(known, value, text)                                                                 \
	if (!strcasecmp(name, #known))                                                             \
		return value;
	SIMHCA_REASONS(REASON)
#undef REASON
	return -1;
}

int status_by_name(const char *name)
{
	name = without(name, "IBV_WC_");
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (!strcasecmp(name, name_of_status(statuses[i].status)))
			return (int)statuses[i].status;
	return -1;
}

int event_by_name(const char *name)
{
	name = without(name, "IBV_EVENT_");
	for (uint32_t type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
		if (text_of_event(type) && !strcasecmp(name, name_of_event(type)))
			return (int)type;
	return -1;
}
