/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Work requests, as a program wrote them: what is copied behind the header lies within the slot, whose
 * stride was made for the QP's limits, and in the room that the device has for it; their lengths add
 * up: 2^32 SGEs would be needed for an overflow, so few are as good as SIMHCA_MAX_SGE of them. An operation
 * is one that the QP's service has, and that the QP may do.
 *
 * of: libsimhca/queue/wqe_gate.h
 * unwind: 7
 * mutant(inline_of_any_length): s/\*bytes > max_inline/false/
 * mutant(sges_of_any_number): s/wqe->num_sge > max_sge ? SIMHCA_REASON_WQE_TOO_MANY_SGE/false ? SIMHCA_REASON_WQE_TOO_MANY_SGE/
 * mutant(inline_has_sges): s/wqe->num_sge = 0;//
 * mutant(receive_of_any_number): s/if (wqe->num_sge > max_sge)/if (false)/
 * mutant(sum_of_32_bits): s/uint64_t length = 0;/uint32_t length = 0;/
 * mutant(any_service): s/!(has & service)/false/
 * mutant(data_to_the_wqe): s/(has & SIMHCA_OP_FETCHES) && (wqe->flags & SIMHCA_WQE_INLINE)/false/
 * mutant(reads_that_nobody_answers): s/!max_rd_atomic/false/
 * mutant(atomics_of_any_length): s/&& length != 8/\&\& false/
 */
#include "proof.h"
#include "queue/wqe_gate.h"

#define FEW 6u

struct list {
	struct simhca_sge sge[FEW];
};

static bool is_atomic(uint32_t opcode)
{
	return opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP || opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_read(uint32_t opcode)
{
	return opcode == SIMHCA_WR_RDMA_READ || opcode == SIMHCA_WR_RDMA_READ_WITH_INV;
}

static void an_operation(void)
{
	ANY(struct simhca_send_wqe, wqe);
	ANY(uint32_t, type);
	ANY(uint64_t, length);
	ANY(uint32_t, max_rd_atomic);
	const uint32_t opcode = wqe.opcode;
	bool read_like = is_read(opcode) || is_atomic(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE ||
			 opcode == SIMHCA_WR_FLUSH;

	if (simhca_gate_operation(&wqe, type, length, max_rd_atomic) != SIMHCA_REASON_NONE)
		return;
	if (type == SIMHCA_QPT_UD)
		prove(opcode == SIMHCA_WR_SEND || opcode == SIMHCA_WR_SEND_WITH_IMM,
		      "datagrams are sends");
	if (type == SIMHCA_QPT_UC)
		prove(!read_like, "nothing is asked of who does not answer");
	if (read_like)
		prove(max_rd_atomic, "the QP may have one under way");
	if (is_read(opcode) || is_atomic(opcode))
		prove(!(wqe.flags & SIMHCA_WQE_INLINE), "the answer has a place");
	if (is_atomic(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE)
		prove(length == 8, "an atomic has 8 bytes");
}

int main(void)
{
	ANY(struct simhca_send_wqe, wqe);
	ANY(struct simhca_recv_wqe, receive);
	ANY(struct list, list);
	ANY(uint32_t, max_sge);
	ANY(uint32_t, max_inline);
	ANY(uint32_t, num_sge);
	ANY(uint32_t, one);
	uint32_t bytes;
	uint64_t length;

	assume(max_sge <= SIMHCA_MAX_SGE && max_inline <= SIMHCA_MAX_INLINE);
	if (simhca_gate_send_wqe(&wqe, max_sge, max_inline, &bytes) == SIMHCA_REASON_NONE) {
		prove(sizeof(wqe) + bytes <= simhca_send_stride(max_sge, max_inline),
		      "it is within the slot");
		if (wqe.flags & SIMHCA_WQE_INLINE) {
			prove(!wqe.num_sge && bytes <= SIMHCA_MAX_INLINE,
			      "there is room for the data");
		} else {
			prove(wqe.num_sge <= SIMHCA_MAX_SGE, "there is room for the SGEs");
			prove(bytes == wqe.num_sge * sizeof(struct simhca_sge),
			      "all of them are copied");
		}
	}

	if (simhca_gate_recv_wqe(&receive, max_sge, &bytes)) {
		prove(sizeof(receive) + bytes <= simhca_recv_stride(max_sge),
		      "it is within the slot");
		prove(sizeof(receive) + bytes <= SIMHCA_RECV_COPY_BYTES,
		      "there is room for a copy");
		prove(bytes == receive.num_sge * sizeof(struct simhca_sge),
		      "all of them are copied");
	}

	assume(num_sge <= FEW && one < num_sge);
	length = simhca_gate_length(list.sge, num_sge);
	prove(length >= list.sge[one].length, "each is within the sum");
	prove(length <= num_sge * (uint64_t)UINT32_MAX, "it is the sum of the lengths at most");
	an_operation();
	return 0;
}
