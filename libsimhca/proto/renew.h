/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Taking back what other programs were given of a CQ or an SRQ (attach.h). Who has its file mapped
 * keeps that. So when no program uses the queue any more, it gets another file, at the same
 * addresses, in two commands (RENEW_QUEUE, simhca-abi-cmd.h): first the client maps it, which then
 * finds neither CQEs nor WQEs, and waits; then the device copies what waits, and goes on there. No
 * program begins a step with the queue meanwhile.
 */
#ifndef LIBSIMHCA_RENEW_H
#define LIBSIMHCA_RENEW_H

#include <stdbool.h>
#include <stdint.h>

struct simhca_qp;

/* What other programs have of a queue. Control functions. */
struct simhca_shared {
	uint32_t segment; /* that the queue lies in, and nothing else, for the fast path; 0: none */
	bool is_whole;	  /* all of it lies in one segment, and programs may complete there */
	bool handed_out;  /* another process has been given the file */
	uint32_t peers;	  /* QPs whose peers have been given it, and that were not reset since */
	struct simhca_spare spare; /* what it is to get; while it has one nobody is attached */
};

/* Whether somebody has the file who uses it no more, and nobody does who uses it. */
static inline bool simhca_is_to_be_renewed(const struct simhca_shared *shared)
{
	/* Where the segment is 0 the queue has been resized, and none is attached any more. */
	return shared->handed_out && !(shared->peers && shared->segment);
}

/* A QP's peer is another process, and is given its queues; and the QP starts over, or goes. */
void simhca_hand_out(struct simhca_qp *qp);
void simhca_hand_back(struct simhca_qp *qp);
/* Which of a QP's queues are to be renewed: enum simhca_renew; or will be, when the QP has gone. */
uint32_t simhca_queues_to_renew(const struct simhca_qp *qp, bool as_if_gone);

#endif
