/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Context memory: the doorbells and answers of an ibv_context, and the run state of its queues.
 * Part of simhca-abi.h, which includes it.
 */
#ifndef SIMHCA_ABI_CONTEXT_H
#define SIMHCA_ABI_CONTEXT_H

#include "simhca-abi-progress.h"
#include "simhca-abi-fastpath.h"
#include "simhca-abi-writers.h"

/*
 * Doorbells: one bit per QP of the context, in a tree three levels deep, so that ringing
 * cannot overflow, rings a QP at most once, and needs no index that could be wrong.
 *
 * To ring for slot s:
 *	leaf[s / 64] |= bit(s % 64); mid[s / 4096] |= bit(s / 64 % 64); top |= bit(s / 4096);
 * The device takes from the top down (exchange with 0), so a bit set below is found by
 * whoever takes a bit above afterwards. All of it is sequentially consistent.
 *
 * Then the client looks at armed: non-zero means that the device does not poll this
 * context; the client that exchanges it to 0 writes 1 to one of the context's doorbell
 * eventfds. Any of them wakes the device; that of the CPU on which the client runs does so without
 * an interrupt on another one, which in a virtual machine costs more than all the rest.
 * The device sets armed before it looks at top a last time and sleeps, so one of the two
 * sees the other (the store-then-load of each side is what needs seq_cst).
 */
#define SIMHCA_DB_MIDS (SIMHCA_MAX_QP / 4096)
#define SIMHCA_DB_LEAVES (SIMHCA_MAX_QP / 64)

/*
 * Where the device puts the answers of commands that bring no socket for them, and whose answers
 * have no descriptors (simhca-abi-cmd.h). The client's: it takes a slot that it does not use, sets
 * PENDING, sends the command, and waits until the device has set ANSWERED; before it sleeps on the
 * word it makes SLEEPING of PENDING, and is woken then. The device reads nothing here but that.
 */
#define SIMHCA_ANSWER_SLOTS 8u
#define SIMHCA_ANSWER_BYTES 512u

enum simhca_answer_state {
	SIMHCA_ANSWER_NONE,
	SIMHCA_ANSWER_PENDING,
	SIMHCA_ANSWER_SLEEPING,
	SIMHCA_ANSWER_ANSWERED,
};

struct simhca_answer_slot {
	_Atomic uint32_t state; /* enum simhca_answer_state; a futex */
	uint32_t bytes;		/* of the answer; what is there when it is ANSWERED counts */
	uint8_t reserved[56];
	uint8_t answer[SIMHCA_ANSWER_BYTES]; /* as it would come on a socket */
};
SIMHCA_ABI_AT(struct simhca_answer_slot, answer, 64);
SIMHCA_ABI_SIZE(struct simhca_answer_slot, 64 + 512);

struct simhca_ctx_mem {
	uint32_t abi_version;  /* SIMHCA_ABI_VERSION */
	uint32_t context_id;   /* as the daemon's tools show it */
	_Atomic uint32_t ends; /* 1: it is the device that deregisters all */
	uint8_t reserved0[52];
	_Atomic uint32_t armed;
	uint8_t reserved1[60];
	_Atomic uint64_t top;
	uint8_t reserved2[56];
	_Atomic uint64_t mid[SIMHCA_DB_MIDS];
	_Atomic uint64_t leaf[SIMHCA_DB_LEAVES];
	struct simhca_answer_slot answer[SIMHCA_ANSWER_SLOTS];
};
SIMHCA_ABI_AT(struct simhca_ctx_mem, armed, 64);
SIMHCA_ABI_AT(struct simhca_ctx_mem, top, 128);
SIMHCA_ABI_AT(struct simhca_ctx_mem, mid, 192);
SIMHCA_ABI_AT(struct simhca_ctx_mem, answer, 192 + 128 + 8192);
SIMHCA_ABI_SIZE(struct simhca_ctx_mem, 192 + 128 + 8192 + 8 * 576);

/*
 * Run state of a QP. The first cache line is the client's, the others the device's; the
 * device never believes its own lines blindly either, for the client can write them.
 * simhca-abi-progress.h has owner words and copies.
 */
struct simhca_qp_mem {
	_Atomic uint32_t sq_pi; /* client: send WQEs posted; released after the WQE is written */
	/* client: receive WQEs posted (unused if that is counted in a struct simhca_srq_mem) */
	_Atomic uint32_t rq_pi;
	uint8_t reserved0[56];
	struct simhca_owner req_owner;
	uint8_t reserved1[56];
	struct simhca_requester req[2];
	_Atomic uint64_t flight[SIMHCA_MAX_FLIGHTS]; /* by ring index, modulo its size */
	struct simhca_owner resp_owner;
	/*
	 * Receives that peers' programs have completed, and their bytes; by who holds the
	 * responder.
	 */
	_Atomic uint64_t received, received_bytes;
	uint8_t reserved2[40];
	struct simhca_responder resp[2];
	struct simhca_answered answered[SIMHCA_MAX_RD_ATOMIC];
};
SIMHCA_ABI_AT(struct simhca_qp_mem, req_owner, 64);
SIMHCA_ABI_AT(struct simhca_qp_mem, flight, 256);
SIMHCA_ABI_AT(struct simhca_qp_mem, resp_owner, 768);
SIMHCA_ABI_AT(struct simhca_qp_mem, answered, 1088);
SIMHCA_ABI_SIZE(struct simhca_qp_mem, 1600);

/*
 * Run state of a queue that several consume from: an SRQ, or a UD QP's own. WQEs are consumed in
 * the order of posting. Who moves ci has the WQE before it, and says for which claimant; who moves
 * it next first notes in claimed[] what that one has got. So it is known of each claimant which WQE
 * was its latest, whoever ends in the middle.
 */
/*
 * Of an SRQ the claimants are its connected QPs, and who sends to its UD QPs. Of more than there
 * are numbers for the device carries the messages.
 */
#define SIMHCA_SRQ_CLAIMANTS 256u
#define SIMHCA_SRQ_LIMIT_MASK 0xffffu
#define SIMHCA_CLAIMANT_DEVICE 1u /* of a UD QP's queue; the others are those that send to it */
struct simhca_srq_mem {
	_Atomic uint32_t pi; /* client: receive WQEs posted */
	uint8_t reserved0[60];
	/* The low half is ci: receive WQEs consumed. The high half: who has the last; 0: any QP */
	_Atomic uint64_t head;
	/* device: low half: an event is due when fewer are left; 0: none. High half: it counts armings */
	_Atomic uint32_t limit;
	uint8_t reserved1[52];
	_Atomic uint32_t claimed[SIMHCA_SRQ_CLAIMANTS]; /* of number 1 and up: ci, after its last */
};
SIMHCA_ABI_AT(struct simhca_srq_mem, head, 64);
SIMHCA_ABI_AT(struct simhca_srq_mem, claimed, 128);
SIMHCA_ABI_SIZE(struct simhca_srq_mem, 128 + 1024);

/*
 * Completion notification. The client writes arm: the low two bits say what for, the rest is
 * an arm count, so that each ibv_req_notify_cq stores a value that differs from the last.
 * The device publishes a CQE, then (full barrier) reads arm; when the CQE qualifies it
 * exchanges the value it saw for the same count with no bits set, and sends one event.
 */
enum simhca_arm {
	SIMHCA_ARM_NONE = 0,
	SIMHCA_ARM_SOLICITED = 1,
	SIMHCA_ARM_NEXT = 2,
	SIMHCA_ARM_BITS = 3,
};

/* Run state of a CQ. */
struct simhca_cq_mem {
	_Atomic uint32_t ci;  /* client: CQEs consumed; released after the CQE is read */
	_Atomic uint32_t arm; /* client sets, device clears */
	/* device: 1 once a CQE was lost; the CQ is dead. Here, as it is read by each empty poll */
	_Atomic uint32_t overrun;
	/* attached programs: events that they have put into its channel, or are about to */
	_Atomic uint32_t events_raised;
	/* client: polls that found nothing, in hundreds: who waits by polling is seen by it */
	_Atomic uint32_t empty_polls;
	uint8_t reserved0[44];
	/* device: CQEs reserved. Who moves it writes the CQE before it, published by seq. */
	_Atomic uint32_t pi;
	uint8_t reserved1[60];
};
SIMHCA_ABI_AT(struct simhca_cq_mem, pi, 64);
SIMHCA_ABI_SIZE(struct simhca_cq_mem, 128);

/*
 * A completion counter. The device adds, with release order, before the completion can be seen; the
 * client reads with acquire order, and may add and store as well: it counts for nobody else.
 */
struct simhca_comp_cntr_mem {
	_Atomic uint64_t value;	 /* work requests or bytes; wraps to 0 after UINT64_MAX */
	_Atomic uint64_t errors; /* work requests that completed with an error; likewise */
	uint8_t reserved[48];
};
SIMHCA_ABI_SIZE(struct simhca_comp_cntr_mem, 64);

#endif
