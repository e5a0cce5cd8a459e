/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a connected peer is handed of a QP's program, as any program gets it that may read that
 * program's memory: the QP, the CQ of its receives, and where these come from.
 */
#ifndef HANDED_H
#define HANDED_H

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../programs/helper.h"
#include "simhca-abi.h"
#include "simhca-request.h"

#define HANDED_SEGMENTS 3

struct handed {
	struct simhca_cq_mem *cq;
	struct simhca_cqe *ring;
	uint32_t entries;
	int fds[HANDED_SEGMENTS]; /* the second is that of the segment that cq is in */
	uint64_t size, offset;
	uint8_t *qp; /* all that the QP has */
	uint64_t qp_size, state;
	uint8_t *receives; /* all of the segment of its receives */
	uint64_t receives_size, rq;
	uint32_t rq_entries, rq_stride;
	struct simhca_srq_mem *claims; /* of an SRQ; else NULL */
};

/* The status of the answer. */
static inline uint32_t handed_command(const struct ibv_qp *qp, int number, const void *body,
				      size_t size, void *reply, size_t reply_size, int *fds,
				      unsigned int max_fds)
{
	struct iovec part = { (void *)(uintptr_t)body, size };
	struct simhca_request request = {
		.device_fd = qp->context->cmd_fd,
		.command = number,
		.parts = &part,
		.num_parts = 1,
		.body = reply,
		.size = reply_size,
		.reply_fds = fds,
		.max_reply_fds = max_fds,
	};
	struct simhca_answer answer;

	CHECK(!simhca_request(&request, &answer));
	return answer.hdr.status;
}

static inline void *handed_map(int fd, uint64_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* The descriptors of the segments stay open. False: the device carries this QP's messages. */
static inline bool attach_peer(const struct ibv_qp *qp, struct handed *handed)
{
	struct simhca_find_peer_req find = { .qp = qp->handle };
	struct simhca_attach_peer_req attach = { .qp = qp->handle };
	struct simhca_find_peer_reply found;
	struct simhca_attach_peer_reply reply;
	uint8_t *cq, *receives;
	int fds[5], memory;
	char path[64];

	if (handed_command(qp, SIMHCA_CMD_FIND_PEER, &find, sizeof(find), &found, sizeof(found),
			   NULL, 0))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/mem", found.pid);
	memory = open(path, O_RDONLY);
	CHECK(pread(memory, &attach.secret, sizeof(attach.secret), (off_t)found.address) ==
	      sizeof(attach.secret));
	close(memory);
	if (handed_command(qp, SIMHCA_CMD_ATTACH_PEER, &attach, sizeof(attach), &reply,
			   sizeof(reply), fds, 5))
		return false;
	if (reply.recv_channel)
		close(fds[HANDED_SEGMENTS]);
	if (reply.send_channel)
		close(fds[HANDED_SEGMENTS + !!reply.recv_channel]);
	cq = handed_map(fds[1], reply.cq_size);
	receives = handed_map(fds[2], reply.rq_size);
	*handed = (struct handed){
		.cq = (void *)(cq + reply.recv_cq),
		.ring = (void *)(cq + reply.recv_ring),
		.entries = reply.recv_entries,
		.fds = { fds[0], fds[1], fds[2] },
		.size = reply.cq_size,
		.offset = reply.recv_cq,
		.qp = handed_map(fds[0], reply.qp_size),
		.qp_size = reply.qp_size,
		.state = reply.state,
		.receives = receives,
		.receives_size = reply.rq_size,
		.rq = reply.rq,
		.rq_entries = reply.rq_entries,
		.rq_stride = reply.rq_stride,
		.claims = reply.is_srq ? (void *)(receives + reply.claims) : NULL,
	};
	return true;
}

static inline void drop_handed(struct handed *handed)
{
	CHECK(!munmap((uint8_t *)handed->cq - handed->offset, handed->size));
	CHECK(!munmap(handed->qp, handed->qp_size));
	CHECK(!munmap(handed->receives, handed->receives_size));
	for (int i = 0; i < HANDED_SEGMENTS; i++)
		close(handed->fds[i]);
}

#endif
