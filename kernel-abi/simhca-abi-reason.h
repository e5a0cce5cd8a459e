/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
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
	/* keys */                                                                                 \
	X(KEY_UNKNOWN, 16, "no region or window has this key's index")                             \
	X(KEY_STALE, 17, "the key's 8-bit variant is out of date")                                 \
	X(KEY_WRONG_PD, 18, "the key belongs to another protection domain than the QP")            \
	X(KEY_BELOW_START, 19, "the access begins before the region")                              \
	X(KEY_PAST_END, 20, "the access ends after the region")                                    \
	X(KEY_WRAPS, 21, "address plus length passes the end of the address space")                \
	/* rights */                                                                               \
	X(MR_NO_LOCAL_WRITE, 32, "the region lacks LOCAL_WRITE")                                   \
	X(MR_NO_REMOTE_READ, 33, "the region lacks REMOTE_READ")                                   \
	X(MR_NO_REMOTE_WRITE, 34, "the region lacks REMOTE_WRITE")                                 \
	X(MR_NO_REMOTE_ATOMIC, 35, "the region lacks REMOTE_ATOMIC")                               \
	X(QP_NO_REMOTE_READ, 36, "the responder's QP lacks REMOTE_READ")                           \
	X(QP_NO_REMOTE_WRITE, 37, "the responder's QP lacks REMOTE_WRITE")                         \
	X(QP_NO_REMOTE_ATOMIC, 38, "the responder's QP lacks REMOTE_ATOMIC")                       \
	/* memory */                                                                               \
	X(PAGE_NOT_MAPPED, 48, "a page of the buffer is not mapped, or not with this access")      \
	X(MEMORY_REFUSED, 49, "the kernel refused access to the process's memory")                 \
	X(AGENT_TIMEOUT, 50, "the process did not serve its memory in time")                       \
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
	/* transport */                                                                            \
	X(NO_RESPONSE, 96, "nothing answered: no such port or QP, or it was not ready to receive") \
	X(PEER_NOT_READY, 97, "the responder had no receive work request")                         \
	X(PSN_SEQUENCE, 98, "packets were missing: PSN sequence error")                            \
	X(RESP_INVALID_REQUEST, 99, "the responder found the request invalid")                     \
	X(RESP_ACCESS, 100, "the responder refused access to its memory")                          \
	X(RESP_OPERATION, 101, "the responder failed while it served the request")                 \
	X(OPCODE_SEQUENCE, 102, "a packet did not continue the message before it")                 \
	X(CQ_OVERRUN, 103, "the completion queue was full")

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
