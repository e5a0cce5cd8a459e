/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The responder's progress with every value of every field.
 *
 * mutant(wide_epsn): s/return resp->epsn <= SIMHCA_PSN_MASK \&\& /return /
 * mutant(too_many_done): s/resp->psns_done <= SIMHCA_PSN_DUPLICATES \&\&//
 * mutant(long_write): s/resp->left <= SIMHCA_MAX_MSG_SIZE/true/
 * mutant(far_offset): s/resp->offset <= SIMHCA_MAX_MSG_SIZE/true/
 * mutant(long_read): s/resp->read.left <= SIMHCA_MAX_MSG_SIZE/true/
 * mutant(wide_read): s/resp->read.psn <= SIMHCA_PSN_MASK/true/
 * mutant(unknown_debt): s/resp->owed <= SIMHCA_OWES_REPEATED/true/
 * mutant(unknown_kind): s/resp->tm.kind <= SIMHCA_TM_RNDV/true/
 * mutant(truth): s/resp->in_message | resp->write/resp->write/
 * mutant(receive_of_no_queue): s/(!resp->have_recv || rq_entries || keeps)/true/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(struct simhca_responder, resp);
	ANY(uint32_t, rq_entries);
	ANY(bool, keeps);

	assume(is_ring(rq_entries));
	if (!simhca_gate_responder(&resp, rq_entries, keeps))
		return 0;
	prove(resp.epsn <= SIMHCA_PSN_MASK && resp.msn <= SIMHCA_PSN_MASK &&
		      resp.read.psn <= SIMHCA_PSN_MASK,
	      "24 bits");
	prove(resp.psns_done <= SIMHCA_PSN_DUPLICATES, "as far back as duplicates can lie");
	prove(resp.left <= SIMHCA_MAX_MSG_SIZE && resp.read.left <= SIMHCA_MAX_MSG_SIZE,
	      "as long as a message can be");
	prove(resp.offset <= SIMHCA_MAX_MSG_SIZE, "no more of a message than there can be");
	prove(resp.in_message <= 1 && resp.write <= 1 && resp.have_recv <= 1 &&
		      resp.nak_sent <= 1 && resp.reported_psn <= 1 && resp.revoked <= 1 &&
		      resp.comm_est <= 1,
	      "truth values");
	prove(resp.owed <= SIMHCA_OWES_REPEATED && resp.tm.kind <= SIMHCA_TM_RNDV, "kinds");
	if (resp.have_recv && !keeps)
		prove(simhca_ring_slot(resp.rq_ci, rq_entries) < rq_entries, "a slot of the ring");
	return 0;
}
