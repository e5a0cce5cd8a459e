/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Why a work request failed: the values of vendor_err in a work completion. Each names one
 * precise cause; the status beside it is the coarse class that the specification gives it.
 * The list is the source of the enum, of its names and of the sentences that tools print.
 * Values never change their meaning: new reasons go to the end of their block.
 */
#ifndef SIMHCA_ABI_REASON_H
#define SIMHCA_ABI_REASON_H

#define SIMHCA_REASONS(X)                                                                          \
	X(NONE, 0, "no error")                                                                     \
	/* flush and life cycle */                                                                 \
	X(FLUSHED, 1, "the QP was in the error state when this work request reached it")           \
	X(DEVICE_GONE, 2, "the device is gone: simhcad has ended")                                 \
	X(PROCESS_GONE, 3, "the process that owns the memory has ended")                           \
	X(INJECTED, 4, "a rule of `simhca inject` made it happen")                                 \
	/* keys */                                                                                 \
	X(KEY_UNKNOWN, 16, "no region or window has this key's index")                             \
	X(KEY_STALE, 17, "the key's 8-bit variant is out of date")                                 \
	X(KEY_WRONG_PD, 18, "the key belongs to another protection domain than the QP")            \
	X(KEY_BELOW_START, 19, "the access begins before the region")                              \
	X(KEY_PAST_END, 20, "the access ends after the region")                                    \
	X(KEY_WRAPS, 21, "address plus length passes the end of the address space")                \
	X(KEY_NOT_LOCAL, 22, "the key of a memory window is no lkey")                              \
	X(MW_NOT_BOUND, 23, "the memory window is not bound")                                      \
	X(MW_OTHER_QP, 24, "the type 2 window is bound to another QP")                             \
	X(MR_NOT_VALID, 25,                                                                        \
	  "the fast-register region is free: invalidated, or not registered yet")                  \
	/* rights */                                                                               \
	X(MR_NO_LOCAL_WRITE, 32, "the region lacks LOCAL_WRITE")                                   \
	X(MR_NO_REMOTE_READ, 33, "the region lacks REMOTE_READ")                                   \
	X(MR_NO_REMOTE_WRITE, 34, "the region lacks REMOTE_WRITE")                                 \
	X(MR_NO_REMOTE_ATOMIC, 35, "the region lacks REMOTE_ATOMIC")                               \
	X(QP_NO_REMOTE_READ, 36, "the responder's QP lacks REMOTE_READ")                           \
	X(QP_NO_REMOTE_WRITE, 37, "the responder's QP lacks REMOTE_WRITE")                         \
	X(QP_NO_REMOTE_ATOMIC, 38, "the responder's QP lacks REMOTE_ATOMIC")                       \
	X(MW_NO_REMOTE_READ, 39, "the window lacks REMOTE_READ")                                   \
	X(MW_NO_REMOTE_WRITE, 40, "the window lacks REMOTE_WRITE")                                 \
	X(MW_NO_REMOTE_ATOMIC, 41, "the window lacks REMOTE_ATOMIC")                               \
	X(MR_NO_MW_BIND, 42, "the region lacks MW_BIND")                                           \
	X(BIND_NEEDS_LOCAL_WRITE, 43,                                                              \
	  "a window with REMOTE_WRITE or REMOTE_ATOMIC needs a region with LOCAL_WRITE")           \
	X(KEY_NO_FLUSH_GLOBAL, 44, "the region or window lacks FLUSH_GLOBAL")                      \
	X(KEY_NO_FLUSH_PERSISTENT, 45, "the region or window lacks FLUSH_PERSISTENT")              \
	X(QP_NO_FLUSH_GLOBAL, 46, "the responder's QP lacks FLUSH_GLOBAL")                         \
	X(QP_NO_FLUSH_PERSISTENT, 47, "the responder's QP lacks FLUSH_PERSISTENT")                 \
	/* memory */                                                                               \
	X(PAGE_NOT_MAPPED, 48, "a page of the buffer is not mapped, or not with this access")      \
	X(MEMORY_REFUSED, 49, "the kernel refused access to the process's memory")                 \
	X(AGENT_TIMEOUT, 50, "the process did not serve its memory in time")                       \
	X(FAULT_NOT_MAPPED, 51, "page fault: nothing is mapped there")                             \
	X(FAULT_NOT_WRITABLE, 52, "page fault: what is mapped there is not writable")              \
	/* work requests */                                                                        \
	X(WQE_BAD_OPCODE, 64, "this QP type has no such operation")                                \
	X(WQE_TOO_MANY_SGE, 65, "the work request has more SGEs than its queue allows")            \
	X(WQE_INLINE_TOO_LONG, 66, "the inline data is longer than the queue allows")              \
	X(MSG_TOO_LONG, 67, "the message is longer than 1 GiB or, on UD, than the path MTU")       \
	X(ATOMIC_BAD_LENGTH, 68, "the local buffer of an atomic is not 8 bytes")                   \
	X(ATOMIC_UNALIGNED, 69, "the remote address of an atomic is not a multiple of 8")          \
	X(RECV_TOO_SHORT, 70, "the message is longer than the receive buffer")                     \
	X(READ_NOT_ENABLED, 71, "max_rd_atomic is 0: this QP may not read or use atomics")         \
	X(RESP_NO_RD_ATOMIC, 72, "max_dest_rd_atomic is 0: the responder takes no read or atomic") \
	X(AV_BAD_GID_INDEX, 73, "the address handle names an empty GID table entry")               \
	X(RING_CORRUPT, 74, "the ring's indices make no sense")                                    \
	X(FRAME_TOO_SHORT, 75, "an Ethernet frame has at least a header of 14 bytes")              \
	X(FRAME_TOO_LONG, 76, "the Ethernet frame is longer than the port's MTU and its header")   \
	X(RD_ATOMIC_EXCEEDED, 78,                                                                  \
	  "more reads and atomics at once than the responder's max_dest_rd_atomic")                \
	X(FLUSH_BAD_TYPE, 77, "a flush has no placement, or a placement or selectivity unknown")   \
	/* transport */                                                                            \
	X(NO_RESPONSE, 96, "nothing answered: no such port or QP, or it was not ready to receive") \
	X(PEER_NOT_READY, 97, "the responder had no receive work request")                         \
	X(PSN_SEQUENCE, 98, "packets were missing: PSN sequence error")                            \
	X(OPCODE_SEQUENCE, 102, "a packet did not continue the message before it")                 \
	X(PSN_BEFORE_START, 103,                                                                   \
	  "the PSN lies before the responder's rq_psn: it was never expected, and is no "          \
	  "duplicate")                                                                             \
	X(PSN_REUSED, 104, "the PSN is that of an earlier request, which was another one")         \
	X(QKEY_MISMATCH, 99, "the Q_Key of the datagram is not that of the QP that it is for")     \
	X(PATH_MTU_DIFFERS, 105,                                                                   \
	  "the two ends have different path MTUs, so they count PSNs differently")                 \
	X(ATOMIC_FORGOTTEN, 106,                                                                   \
	  "a repeated atomic whose first result is not remembered any more")                       \
	X(RECV_CQ_ERROR, 107, "the CQ of the receive was full, so its completion is lost")         \
	X(PEER_SAYS_INVALID, 108, "the peer, on another host, refused the request as invalid")     \
	X(PEER_SAYS_ACCESS, 109, "the peer, on another host, refused access to its memory")        \
	X(PEER_SAYS_OPERATIONAL, 110,                                                              \
	  "the peer, on another host, had an error of its own with the request")                   \
	X(WIRE_TOO_LONG, 115, "this host cannot send packets this long to the peer's address")     \
	X(WIRE_NO_ROUTE, 116, "this host has no route to the peer's address")                      \
	X(WIRE_FORBIDDEN, 117, "this host does not let the daemon send to the peer's address")     \
	X(WIRE_CLOSED, 118, "UDP port 4791 of the address that this QP sends from is not open")    \
	X(WIRE_PATH_MTU, 119,                                                                      \
	  "packets of the path MTU get lost on the way to the peer or back, and short ones do "    \
	  "not")                                                                                   \
	/* XRC */                                                                                  \
	X(XRC_NO_SRQ, 112, "the responder has no XRC SRQ of this number")                          \
	X(XRC_OTHER_DOMAIN, 113, "the SRQ belongs to another XRC domain than the responder's QP")  \
	X(XRC_CQ_ERROR, 114, "the CQ of the XRC SRQ is in error: it was full")                     \
	/* tag matching */                                                                         \
	X(TM_NO_ENTRY, 120,                                                                        \
	  "the tag list has no such entry: a message took it, or it was deleted")                  \
	/* memory management: binding, fast registration, invalidation */                          \
	X(BIND_NO_WINDOW, 128, "the key to bind names no memory window")                           \
	X(BIND_WRONG_TYPE, 129,                                                                    \
	  "type 1 windows are bound with ibv_bind_mw, type 2 windows with a work request")         \
	X(BIND_NOT_FREE, 130, "the type 2 window is bound already: invalidate it first")           \
	X(BIND_NO_REGION, 132, "a window can be bound to a region only")                           \
	X(BIND_NO_LENGTH, 133, "a type 2 window is bound to at least one byte")                    \
	X(BIND_BAD_ACCESS, 134, "the window's access flags are not known")                         \
	X(FAST_REG_NO_REGION, 144, "the key names no fast-register region")                        \
	X(FAST_REG_NOT_FREE, 145, "the region is valid already: invalidate it first")              \
	X(FAST_REG_TOO_MANY_PAGES, 146, "the page list is longer than the region was made for")    \
	X(FAST_REG_PAGE_SIZE, 147, "the page size is not one that the device reports")             \
	X(FAST_REG_UNALIGNED, 148, "an entry of the page list is no multiple of the page size")    \
	X(FAST_REG_PAST_END, 149, "first-byte offset plus length passes the end of the pages")     \
	X(FAST_REG_BAD_ACCESS, 150,                                                                \
	  "the access flags are not known, or REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE")  \
	X(FAST_REG_LIST_CHANGED, 151,                                                              \
	  "the page list was written between the post and the completion of the registration")     \
	X(INV_NOT_ALLOWED, 160,                                                                    \
	  "only type 2 windows and fast-register regions can be invalidated by a work request")    \
	X(INV_WINDOWS_BOUND, 161, "memory windows are bound to the region")

enum simhca_reason {
#define SIMHCA_REASON_ENUM(name, value, text) SIMHCA_REASON_##name = (value),
	SIMHCA_REASONS(SIMHCA_REASON_ENUM)
#undef SIMHCA_REASON_ENUM
};

/* The sentence for a reason; never NULL. */
static inline const char *simhca_reason_text(unsigned int reason)
{
	switch (reason) {
#define SIMHCA_REASON_CASE(name, value, text)                                                      \
	case (value):                                                                              \
		return (text);
		SIMHCA_REASONS(SIMHCA_REASON_CASE)
#undef SIMHCA_REASON_CASE
	default:
		return "unknown reason";
	}
}

#endif
