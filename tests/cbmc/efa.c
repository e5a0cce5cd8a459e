/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The rings of an EFA device: no more is taken for posted than a ring holds, and what a driver has posted is
 * what is taken, also where it fills the largest ring; whatever a WQE says, what
 * comes out is a message whose bytes its buffers hold, and no longer than the QP's may be; and
 * a receive is of descriptors that were posted, each in a slot of the ring, also if each word there
 * changes from one access to the next.
 *
 * of: libsimhca/efa/gate.h
 * unwind: 9
 * mutant(more_than_the_ring): s/return \*posted <= entries;/return true;/
 * mutant(less_than_the_ring): s/ & 0xffffu;/ \& 0x7fffu;/
 * mutant(inline_of_any_length): s/wqe->length > (limits->wide ? EFA_INLINE_WIDE : EFA_INLINE)/false/
 * mutant(buffers_of_any_number): s/if (wqe->length > EFA_SEND_SGES)/if (false)/
 * mutant(wide_for_all): s/limits->wide ? EFA_INLINE_WIDE : EFA_INLINE/EFA_INLINE_WIDE/
 * mutant(inline_reads): s/!(writes \&\& limits->wide)/!limits->wide/
 * mutant(sum_of_32_bits): s/uint64_t length = 0;/uint32_t length = 0;/
 * mutant(longer_than_the_buffer): s/wqe->length > 1 || (wqe->length && wqe->rdma.local.length < wqe->rdma.remote.length)/wqe->length > 1/
 * mutant(a_second_buffer): s/wqe->length > 1 ||/false ||/
 * mutant(rdma_of_any_length): s/return send->length > limits->max_rdma ?/return false ?/
 * mutant(reads_of_anyone): s/!(writes ? limits->writes : limits->reads)/false/
 * mutant(more_than_posted): s/recv->num_sge == posted ||/false ||/
 * mutant(receive_of_any_number): s/ || recv->num_sge == EFA_RECV_SGES)/)/
 * mutant(past_the_ring): s/ & (entries - 1)\]/]/
 */
#include "proof.h"

/* Each word of a ring is any, whenever it is read. */
uint64_t nondet_word(void);
#define __atomic_load_n(from, order)                                                               \
	({                                                                                         \
		uint64_t found = *(from);                                                          \
		(void)found;                                                                       \
		nondet_word();                                                                     \
	})
#include "efa/gate.h"

#define MOST 8u /* entries of a ring; EFA_RECV_SGES are looked at */

int main(void)
{
	static const uint32_t sizes[] = { 1, 2, 4, MOST };
	struct efa_recv_desc ring[MOST];
	ANY(uint32_t, rung);
	ANY(uint16_t, consumed);
	ANY(uint32_t, ring_entries);
	ANY(uint32_t, full);
	ANY(struct efa_wide_wqe, wqe);
	ANY(struct efa_limits, limits);
	ANY(uint32_t, which);
	ANY(uint32_t, at);
	ANY(uint32_t, given);
	_Atomic uint32_t doorbell = rung;
	struct efa_send send;
	struct efa_recv recv;
	uint32_t posted, taken;
	uint64_t length = 0;

	assume(is_ring(ring_entries));
	if (efa_posted(&doorbell, consumed, ring_entries, &posted))
		prove(posted <= ring_entries, "no more is posted than the ring holds");
	assume(full <= ring_entries || ring_entries > EFA_RING_MOST);
	doorbell = consumed + full;
	if (ring_entries <= EFA_RING_MOST)
		prove(efa_posted(&doorbell, consumed, ring_entries, &posted) && posted == full,
		      "what was posted is all there");

	if (efa_judge_send(&wqe.wqe, &limits, &send) == EFA_STATUS_OK) {
		prove(send.num_sge <= EFA_SEND_SGES, "there is room for the buffers");
		for (uint32_t i = 0; i < send.num_sge && i < EFA_SEND_SGES; i++)
			length += send.sge[i].length;
		if (send.is_inline)
			prove(!send.num_sge &&
				      send.length <= (limits.wide ? EFA_INLINE_WIDE : EFA_INLINE),
			      "the data are in the WQE");
		else
			prove(send.length <= length, "the buffers hold the message");
		if (send.opcode == EFA_SEND) {
			prove(send.is_inline ||
				      (send.length == length && length <= limits.max_message),
			      "it is all of them, and no longer than a message may be");
		} else {
			prove(send.opcode == EFA_RDMA_READ
				      ? limits.reads
				      : send.opcode == EFA_RDMA_WRITE && limits.writes,
			      "the QP has that operation");
			prove(send.is_inline ? limits.wide && send.opcode == EFA_RDMA_WRITE
					     : send.length <= limits.max_rdma,
			      "and it is no longer than one may be");
		}
	}

	assume(which < 4 && given <= sizes[which]);
	taken = efa_judge_recv(&ring[MOST - sizes[which]], sizes[which], at, given, &recv);
	prove(taken <= given && taken <= EFA_RECV_SGES, "no more are taken than were posted");
	prove(!taken || taken == recv.num_sge, "all of them are the receive's");
	length = 0;
	for (uint32_t i = 0; i < taken && i < EFA_RECV_SGES; i++)
		length += recv.sge[i].length;
	prove(!taken || recv.length == length, "it is as long as they are");
	return 0;
}
