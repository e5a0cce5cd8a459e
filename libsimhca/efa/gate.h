/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The gate of EFA's rings. Programs can write there at any time, so what is there is read once, into
 * memory of ours, and judged by pure functions; the code behind the gate sees nothing else.
 */
#ifndef LIBSIMHCA_EFA_GATE_H
#define LIBSIMHCA_EFA_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "formats.h"
#include "simhca-abi.h"

/* A WQE that makes sense, whatever the keys and the address that it names. */
struct efa_send {
	enum efa_opcode opcode;
	uint16_t req_id, dest_qpn, ah;
	uint32_t qkey;
	bool has_imm, is_inline;
	uint32_t imm;
	uint32_t length; /* bytes of the message */
	uint32_t num_sge;
	struct simhca_sge sge[EFA_SEND_SGES];
	uint8_t data[EFA_INLINE_WIDE];
	uint32_t rkey; /* RDMA: what is read or written */
	uint64_t remote_addr;
};

struct efa_recv {
	uint16_t req_id;
	uint32_t length; /* of all buffers */
	uint32_t num_sge;
	struct simhca_sge sge[EFA_RECV_SGES];
};

struct efa_limits {
	bool reads, writes; /* the QP may post them */
	bool wide;	    /* its WQEs are struct efa_wide_wqe */
	uint32_t max_message, max_rdma;
};

typedef uint64_t __attribute__((may_alias)) efa_word;

/* Each word once. acquire: what was posted is older than the doorbell that was seen. */
static inline void efa_read_once(void *to, const void *ring, size_t bytes)
{
	const efa_word *from = ring;

	for (size_t i = 0; i < bytes / sizeof(*from); i++) {
		efa_word word = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);

		memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
	}
}

/* How many entries of the ring are new; false: more than it has, which no driver posts. */
static inline bool efa_posted(const _Atomic uint32_t *doorbell, uint16_t consumed, uint32_t entries,
			      uint32_t *posted)
{
	/* acquire: the entries were written before it was rung. */
	*posted = (atomic_load_explicit(doorbell, memory_order_acquire) - consumed) & 0xffffu;
	return *posted <= entries;
}

static inline struct simhca_sge efa_sge(const struct efa_buffer *buffer)
{
	return (struct simhca_sge){
		.addr = (uint64_t)buffer->addr_high << 32 | buffer->addr_low,
		.length = buffer->length,
		.lkey = buffer->key & EFA_KEY_MASK,
	};
}

/* The data in a WQE, from that offset on; they are as long as it says, but for what it has room for. */
static inline enum efa_status efa_take_inline(const struct efa_send_wqe *wqe, size_t offset,
					      const struct efa_limits *limits,
					      struct efa_send *send)
{
	if (wqe->length > (limits->wide ? EFA_INLINE_WIDE : EFA_INLINE))
		return EFA_STATUS_LOCAL_LENGTH;
	send->is_inline = true;
	send->length = wqe->length;
	memcpy(send->data, (const uint8_t *)wqe + offset, wqe->length);
	return EFA_STATUS_OK;
}

/* The local buffer of a read may be longer than what is read, and that of a write than what goes. */
static inline enum efa_status efa_judge_rdma(const struct efa_send_wqe *wqe,
					     const struct efa_limits *limits, struct efa_send *send)
{
	const bool writes = send->opcode == EFA_RDMA_WRITE;

	const bool is_inline = wqe->control & EFA_WQE_INLINE;

	if (!(writes ? limits->writes : limits->reads) || (is_inline && !(writes && limits->wide)))
		return EFA_STATUS_INVALID_OP;
	send->has_imm = wqe->control & EFA_WQE_HAS_IMM;
	send->imm = wqe->imm;
	if (send->has_imm && !writes)
		return EFA_STATUS_INVALID_OP;
	send->rkey = wqe->rdma.remote.key;
	send->remote_addr = (uint64_t)wqe->rdma.remote.addr_high << 32 | wqe->rdma.remote.addr_low;
	if (is_inline)
		return wqe->rdma.remote.length == wqe->length
			       ? efa_take_inline(wqe, offsetof(struct efa_send_wqe, rdma.local),
						 limits, send)
			       : EFA_STATUS_LOCAL_LENGTH;
	if (wqe->length > 1 || (wqe->length && wqe->rdma.local.length < wqe->rdma.remote.length))
		return EFA_STATUS_LOCAL_LENGTH;
	send->num_sge = wqe->length;
	send->sge[0] = efa_sge(&wqe->rdma.local);
	send->length = wqe->length ? wqe->rdma.remote.length : 0;
	return send->length > limits->max_rdma ? EFA_STATUS_LOCAL_LENGTH : EFA_STATUS_OK;
}

static inline enum efa_status efa_judge_message(const struct efa_send_wqe *wqe,
						const struct efa_limits *limits,
						struct efa_send *send)
{
	uint64_t length = 0;

	send->has_imm = wqe->control & EFA_WQE_HAS_IMM;
	send->imm = wqe->imm;
	if (wqe->control & EFA_WQE_INLINE)
		return efa_take_inline(wqe, offsetof(struct efa_send_wqe, inline_data), limits,
				       send);
	if (wqe->length > EFA_SEND_SGES)
		return EFA_STATUS_LOCAL_LENGTH;
	send->num_sge = wqe->length;
	for (uint32_t i = 0; i < send->num_sge; i++) {
		send->sge[i] = efa_sge(&wqe->buffer[i]);
		length += send->sge[i].length;
	}
	if (length > limits->max_message)
		return EFA_STATUS_LOCAL_LENGTH;
	send->length = (uint32_t)length;
	return EFA_STATUS_OK;
}

/*
 * wqe is a WQE, or the first half of a wide one. It lets through an opcode that the QP has, as many
 * buffers as there are, and a length of at most max_message, or max_rdma, that the buffers hold.
 */
static inline enum efa_status efa_judge_send(const struct efa_send_wqe *wqe,
					     const struct efa_limits *limits, struct efa_send *send)
{
	*send = (struct efa_send){
		.opcode = wqe->control & EFA_WQE_OPCODE,
		.req_id = wqe->req_id,
		.dest_qpn = wqe->dest_qpn,
		.ah = wqe->ah,
		.qkey = wqe->qkey,
	};
	if ((wqe->control & (EFA_WQE_FIRST | EFA_WQE_LAST)) != (EFA_WQE_FIRST | EFA_WQE_LAST))
		return EFA_STATUS_INVALID_OP;
	switch (send->opcode) {
	case EFA_SEND:
		return efa_judge_message(wqe, limits, send);
	case EFA_RDMA_READ:
	case EFA_RDMA_WRITE:
		return efa_judge_rdma(wqe, limits, send);
	}
	return EFA_STATUS_INVALID_OP;
}

/*
 * The receive whose descriptors begin at ring index `at`; returns how many they are, 0: of the
 * `posted` ones there is none that begins and ends as it has to.
 */
static inline uint32_t efa_judge_recv(const struct efa_recv_desc *ring, uint32_t entries,
				      uint32_t at, uint32_t posted, struct efa_recv *recv)
{
	struct efa_recv_desc desc;

	*recv = (struct efa_recv){ 0 };
	do {
		if (recv->num_sge == posted || recv->num_sge == EFA_RECV_SGES)
			return 0;
		efa_read_once(&desc, &ring[(at + recv->num_sge) & (entries - 1)], sizeof(desc));
		if (!(desc.key_flags & EFA_RECV_FIRST) != (recv->num_sge > 0))
			return 0;
		if (!recv->num_sge)
			recv->req_id = desc.req_id;
		recv->sge[recv->num_sge++] = (struct simhca_sge){
			.addr = (uint64_t)desc.addr_high << 32 | desc.addr_low,
			.length = desc.length,
			.lkey = desc.key_flags & EFA_KEY_MASK,
		};
		recv->length += desc.length;
	} while (!(desc.key_flags & EFA_RECV_LAST));
	return recv->num_sge;
}

#endif
