/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control path: commands on the connection that stands for an open uverbs device.
 *
 * The connection is an AF_UNIX SOCK_SEQPACKET socket, one per ibv_context (libibverbs'
 * cmd_fd). A client sends one datagram a command: struct simhca_cmd_hdr, the command's
 * request struct, and as SCM_RIGHTS first the socket on which it wants the answer, then
 * whatever descriptors the command needs. The answer is one datagram on that socket:
 * struct simhca_reply_hdr, the reply struct, descriptors as SCM_RIGHTS.
 *
 * Since every command has a socket for its answer, threads and forked children share
 * the connection without a lock, and a daemon that dies closes every answer still owed.
 * Making a socket and passing it on takes longer than most commands. So a command may ask
 * that the daemon keeps the one that it brings: the answer then has a number, by which later
 * commands on this connection, by whoever has the socket's other end, name it instead of
 * bringing one.
 *
 * Most answers have no descriptors, and come without a socket and a system call: in a slot of the
 * context's memory (struct simhca_answer_slot). The slots are those of the process that has opened
 * the context; one that was forked from it, or has imported the context, uses sockets.
 *
 * The sender's pid and uid come from the kernel (SO_PASSCRED), never from the message. To name the
 * process beyond doubt (SO_PASSPIDFD) costs more than most commands: once the process that sends is
 * known the daemon does without, and where it should not have done so it answers
 * SIMHCA_CMD_SAY_AGAIN; nothing has been done then.
 *
 * A handle is a number that the device gave out; it means something only on this
 * connection. status is 0 or a positive errno; with another status than 0 nothing has
 * changed, no reply struct and no descriptor follow, and message says why in one line.
 */
#ifndef SIMHCA_ABI_CMD_H
#define SIMHCA_ABI_CMD_H

#ifndef SIMHCA_ABI_H
#error "include simhca-abi.h"
#endif

#define SIMHCA_CMD_MAGIC 0x53484341u /* "SHCA" */
#define SIMHCA_CMD_MAX_BYTES 512u    /* of a request or reply, header included */
#define SIMHCA_CMD_MAX_FDS 8u
#define SIMHCA_CMD_MESSAGE 160u /* bytes, NUL included */

/* In the order of their numbers, which begin at 1: a new command goes to the end. */
#define SIMHCA_COMMANDS(X)                                                                         \
	X(OPEN_CONTEXT)                                                                            \
	X(GET_SEGMENT)                                                                             \
	X(CREATE_CHANNEL)                                                                          \
	X(ALLOC_ASYNC_FD)                                                                          \
	X(ALLOC_PD)                                                                                \
	X(DEALLOC_PD)                                                                              \
	X(REG_MR)                                                                                  \
	X(REREG_MR)                                                                                \
	X(DEREG_MR)                                                                                \
	X(CREATE_AH)                                                                               \
	X(DESTROY_AH)                                                                              \
	X(CREATE_CQ)                                                                               \
	X(RESIZE_CQ)                                                                               \
	X(DESTROY_CQ)                                                                              \
	X(CREATE_SRQ)                                                                              \
	X(MODIFY_SRQ)                                                                              \
	X(QUERY_SRQ)                                                                               \
	X(DESTROY_SRQ)                                                                             \
	X(CREATE_QP)                                                                               \
	X(MODIFY_QP)                                                                               \
	X(QUERY_QP)                                                                                \
	X(DESTROY_QP)                                                                              \
	X(ATTACH_MCAST)                                                                            \
	X(DETACH_MCAST)                                                                            \
	X(SET_AGENT)                                                                               \
	X(ALLOC_MR)                                                                                \
	X(ALLOC_MW)                                                                                \
	X(DEALLOC_MW)                                                                              \
	X(MODIFY_CQ)                                                                               \
	X(ARM_CQ)                                                                                  \
	X(OPEN_XRCD)                                                                               \
	X(CLOSE_XRCD)                                                                              \
	X(OPEN_QP)                                                                                 \
	X(SRQ_OP)                                                                                  \
	X(ALLOC_DM)                                                                                \
	X(FREE_DM)                                                                                 \
	X(IMPORT_DM)                                                                               \
	X(REG_DM_MR)                                                                               \
	X(REG_DMABUF_MR)                                                                           \
	X(QUERY_PD)                                                                                \
	X(QUERY_MR)                                                                                \
	X(CREATE_WQ)                                                                               \
	X(MODIFY_WQ)                                                                               \
	X(DESTROY_WQ)                                                                              \
	X(CREATE_RWQ_TABLE)                                                                        \
	X(DESTROY_RWQ_TABLE)                                                                       \
	X(CREATE_RSS_QP)                                                                           \
	X(CREATE_FLOW)                                                                             \
	X(DESTROY_FLOW)                                                                            \
	X(CREATE_COUNTERS)                                                                         \
	X(READ_COUNTERS)                                                                           \
	X(DESTROY_COUNTERS)                                                                        \
	X(SET_USERFAULTFD)                                                                         \
	X(ADVISE_MR)                                                                               \
	X(QUERY_ODP)                                                                               \
	X(CREATE_COMP_CNTR)                                                                        \
	X(DESTROY_COMP_CNTR)                                                                       \
	X(ATTACH_COMP_CNTR)                                                                        \
	X(OFFER_MEMORY)                                                                            \
	X(FIND_PEER)                                                                               \
	X(ATTACH_PEER)                                                                             \
	X(SAY)                                                                                     \
	X(WATCH_MR)                                                                                \
	X(RENEW_QUEUE)                                                                             \
	X(MOVE_QUEUE)                                                                              \
	X(UVERBS_WRITE)                                                                            \
	X(UVERBS_MAP)                                                                              \
	X(UVERBS_WATCH)                                                                            \
	X(MAP_REGION)

#define SIMHCA_CMD_NUMBER(name) SIMHCA_CMD_##name,
enum simhca_cmd { SIMHCA_CMD_NONE, SIMHCA_COMMANDS(SIMHCA_CMD_NUMBER) SIMHCA_CMD_COUNT };
#undef SIMHCA_CMD_NUMBER

struct simhca_cmd_hdr {
	uint32_t magic;	  /* SIMHCA_CMD_MAGIC */
	uint16_t version; /* SIMHCA_ABI_VERSION */
	uint16_t command; /* enum simhca_cmd */
	uint32_t length;  /* bytes of the datagram, this header included */
	uint32_t answer;  /* the number of a kept socket, or one of those below */
};
SIMHCA_ABI_SIZE(struct simhca_cmd_hdr, 16);

#define SIMHCA_CMD_SAY_AGAIN 0x7fffu /* a status: the same command is to be sent once more */

/* In a slot, whose number is in the other bits. No socket that is kept has such a number. */
#define SIMHCA_CMD_ANSWER_SLOT 0x80000000u
#define SIMHCA_CMD_ANSWER_COMES 0u	   /* with the command, for this answer */
#define SIMHCA_CMD_ANSWER_KEEP 0xffffffffu /* with the command, and may be kept */
/* A slot that there is not: there is none, for who has no descriptor left and wants to SAY so. */
#define SIMHCA_CMD_ANSWER_NOWHERE 0xfffffffeu

struct simhca_reply_hdr {
	uint32_t magic;	 /* SIMHCA_CMD_MAGIC */
	uint32_t status; /* 0 or errno */
	uint32_t length; /* bytes of the datagram, this header included */
	uint32_t kept;	 /* the number that the socket has now; 0: it was not kept */
	char message[SIMHCA_CMD_MESSAGE]; /* why it failed; empty on success */
};
SIMHCA_ABI_SIZE(struct simhca_reply_hdr, 176);
static_assert(SIMHCA_CMD_MAX_BYTES <= SIMHCA_ANSWER_BYTES, "each answer fits into a slot");

/*
 * OPEN_CONTEXT: once per connection; asked again (ibv_import_device on a duplicate of the
 * descriptor) it returns the same context. Descriptors of the reply, in this order: device
 * memory, context memory segment 0, the client's end of the pipe for asynchronous events and the
 * device's (the provider's watcher reports a dead daemon through it), and SIMHCA_MAX_ENGINE_CPUS
 * doorbell eventfds, of which some may be the same. Asked again, the pipe is a new one, and the
 * sender's next ALLOC_ASYNC_FD returns the client's end.
 */
struct simhca_open_context_reply {
	uint32_t context_id;
	uint32_t can_access_memory; /* 1: the device can reach this process with process_vm */
	uint64_t devmem_size;	    /* bytes */
	uint64_t segment_size;	    /* bytes of segment 0 */
	uint32_t doorbell_cpu[SIMHCA_MAX_ENGINE_CPUS]; /* where each eventfd is best written */
	uint32_t answer_slots; /* that are the sender's: SIMHCA_ANSWER_SLOTS or 0 */
	uint32_t reserved;
};

/*
 * GET_SEGMENT: one descriptor in the reply; and if the segment is one queue's alone, those of some
 * more of its size, which the device takes for the next queues.
 */
#define SIMHCA_MAX_READY_SEGMENTS (SIMHCA_CMD_MAX_FDS - 1)
struct simhca_get_segment_req {
	uint32_t segment;
	uint32_t ready; /* how many more at most; 0 to SIMHCA_MAX_READY_SEGMENTS */
};
struct simhca_get_segment_reply {
	uint64_t size; /* bytes, of each */
	uint32_t ready;
	uint32_t number[SIMHCA_MAX_READY_SEGMENTS]; /* in the order of the descriptors */
};
SIMHCA_ABI_SIZE(struct simhca_get_segment_reply, 40);

/*
 * CREATE_CHANNEL, ALLOC_ASYNC_FD: no structs; one descriptor in the reply, the client's end of a
 * pair of stream sockets. Records are the kernel's (8-byte ib_uverbs_comp_event_desc, 16-byte
 * ib_uverbs_async_event_desc). A channel is later named by this end's inode number.
 */

/* the reply of every create, the request of every destroy */
struct simhca_handle {
	uint32_t handle;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_handle, 8);

/* Who hears of an object's events, and by what name. */
struct simhca_user_handle {
	uint64_t element; /* comes back in completion and asynchronous events */
	uint64_t events;  /* inode of the pipe for asynchronous ones; 0: the connection's first */
};
SIMHCA_ABI_SIZE(struct simhca_user_handle, 16);

/*
 * SAY: what the device cannot see, for who debugs the program. Its name, which counts if the device
 * does not see the process; why the provider itself has refused a verb, with that error; or that a
 * verb waits for events to be acknowledged, and, with the same text, that it waits no more; or what
 * lint has found there (SIMHCA_LINT=on). Before the context is opened: that one of OPEN and
 * OPEN_DEVICE was refused.
 */
enum simhca_say {
	SIMHCA_SAY_NAME,
	SIMHCA_SAY_POST_SEND,
	SIMHCA_SAY_POST_RECV,
	SIMHCA_SAY_POST_SRQ_RECV,
	/* The program had no descriptor for what a command has made, so that is undone. */
	SIMHCA_SAY_NO_DESCRIPTOR,
	SIMHCA_SAY_WAITS, /* error: one of SIMHCA_WAITS, or 0, for events to be acknowledged */
	SIMHCA_SAY_WAITS_NO_MORE,
	SIMHCA_SAY_DESTROY_CQ, /* these are refused with EBUSY */
	SIMHCA_SAY_DEALLOC_PD,
	SIMHCA_SAY_DEALLOC_TD,
	SIMHCA_SAY_DEALLOC_DMAH,
	SIMHCA_SAY_FREE_PAGE_LIST,
	SIMHCA_SAY_NO_FENCE, /* these are notes of lint */
	SIMHCA_SAY_OVERWRITTEN,
	SIMHCA_SAY_CHANGED,
	SIMHCA_SAY_OTHER_PD,
	SIMHCA_SAY_FORKED,
	SIMHCA_SAY_MEMLOCK,
	/* The kernel refuses it the memory of a peer, with that error: it is not attached. */
	SIMHCA_SAY_NOT_ATTACHED,
	SIMHCA_SAY_CREATE_QP, /* the provider refuses it, and these */
	SIMHCA_SAY_CREATE_CQ,
	SIMHCA_SAY_CREATE_SRQ,
	SIMHCA_SAY_QUERY_PORT,
	SIMHCA_SAY_OPEN_DEVICE, /* for want of a descriptor in the program, and these */
	SIMHCA_SAY_OPEN,	/* a file of the device's */
	SIMHCA_SAY_CREATE_CHANNEL,
	SIMHCA_SAY_ALLOC_ASYNC_FD,
	SIMHCA_SAY_QUERY_GID,
	SIMHCA_SAY_COMMAND, /* the provider refuses a command: its number is in error as well */
	SIMHCA_SAY_MEMCPY_TO_DM, /* or a verb that has none */
	SIMHCA_SAY_MEMCPY_FROM_DM,
	SIMHCA_SAY_ALLOC_TD,
	SIMHCA_SAY_ALLOC_PARENT_DOMAIN,
	SIMHCA_SAY_BIND_MW,
	SIMHCA_SAY_ALLOC_DMAH,
	SIMHCA_SAY_QUERY_DEVICE,
	SIMHCA_SAY_NO_SGE, /* a note of lint, and these */
	SIMHCA_SAY_MOVED_IN_USE,
	SIMHCA_SAY_MOVED_AND_GONE,
	SIMHCA_SAY_EARLY_INLINE,
	SIMHCA_SAY_THREADS,
	SIMHCA_SAY_FILE_MAPPING,
	SIMHCA_SAY_EMPTY_REGION,
	SIMHCA_SAY_PATH_MTU,
	/* The program has closed the descriptor by which the device is woken: it wakes itself. */
	SIMHCA_SAY_NO_DOORBELL,
	SIMHCA_SAY_KINDS,
};
#define SIMHCA_WAITS_FOR_LOCK 1
#define SIMHCA_WAITS_FOR_NONE 2 /* for completions, and takes none */
struct simhca_say_req {
	uint32_t what; /* enum simhca_say */
	/* errno, of a verb that is refused; NO_DESCRIPTOR: enum simhca_cmd; COMMAND: errno, and the
	 * latter in the upper 16 bits. */
	uint32_t error;
	char text[248]; /* NUL included */
};
SIMHCA_ABI_SIZE(struct simhca_say_req, 256);

#include "simhca-abi-cmd-memory.h"
#include "simhca-abi-cmd-queue.h"
#include "simhca-abi-cmd-ethernet.h"
#include "simhca-abi-cmd-peer.h"
#include "simhca-abi-cmd-uverbs.h"

#endif
