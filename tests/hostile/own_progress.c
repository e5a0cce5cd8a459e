/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Lies about the progress of a QP of its own, in the memory that it shares with the device, until the
 * QP fails:
 *
 *	own_progress past|no-queue
 *
 *	past		the packet to be sent lies behind its message
 *	no-queue	a message is under way on a QP that has no send queue
 *
 * Says "done" when the device has told that the QP has failed for good.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../programs/helper.h"
#include "simhca-abi.h"

#define PSN 0x5a5a5au	 /* by which its memory is found */
#define MOST_SECONDS 5.0 /* until the device has seen a lie */

static struct simhca_qp_mem *search(uintptr_t begin, uintptr_t end)
{
	for (; begin + sizeof(struct simhca_qp_mem) <= end; begin += 64) {
		struct simhca_qp_mem *mem = (struct simhca_qp_mem *)begin;
		const struct simhca_requester *req =
			&mem->req[atomic_load(&mem->req_owner.generation) & 1];

		/* It may have a message under way already. */
		if (req->psn_next - PSN <= 1)
			return mem;
	}
	return NULL;
}

/* Where the QP's progress is. */
static struct simhca_qp_mem *progress(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct simhca_qp_mem *found = NULL;
	uintptr_t begin, end;
	char line[512];

	CHECK(maps);
	while (!found && fgets(line, sizeof(line), maps))
		if (strstr(line, " rw-s ") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
			found = search(begin, end);
	fclose(maps);
	CHECK(found);
	return found;
}

static void lie(struct simhca_qp_mem *mem, uint32_t ahead)
{
	struct simhca_requester req = { .oldest = mem->req[0].oldest,
					.count = 1,
					.psn_una = (PSN + ahead) & SIMHCA_PSN_MASK,
					.psn_next = PSN + 1,
					.retries = 7,
					.rnr_retries = 7 };

	req.psn_send = req.psn_una;
	req.psn_sent = ahead ? (req.psn_una + 0x7fffff) & SIMHCA_PSN_MASK : req.psn_una;
	for (int i = 0; i < SIMHCA_MAX_FLIGHTS; i++)
		atomic_store(&mem->flight[i],
			     (uint64_t)SIMHCA_WR_SEND << SIMHCA_FLIGHT_OPCODE_SHIFT |
				     (uint64_t)PSN << SIMHCA_FLIGHT_LAST_SHIFT | PSN);
	mem->req[0] = mem->req[1] = req;
	/* As if somebody else had had turns. */
	atomic_fetch_add(&mem->req_owner.generation, 2);
}

/* Whether the device has told of it; waits no longer than that for it. */
static bool has_failed(struct ibv_context *context, int ms)
{
	struct pollfd event = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event said;

	if (poll(&event, 1, ms) != 1)
		return false;
	CHECK(!ibv_get_async_event(context, &said));
	CHECK(said.event_type == IBV_EVENT_QP_FATAL);
	ibv_ack_async_event(&said);
	return true;
}

static struct ibv_qp *make_without_queue(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_recv_wr = 16, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

int main(int argc, char **argv)
{
	bool past = argc == 2 && !strcmp(argv[1], "past");
	struct ibv_qp_attr drained = { .qp_state = IBV_QPS_SQD };
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct simhca_qp_mem *mem;
	struct ibv_qp *liar, *peer;
	double until;

	CHECK(argc == 2 && pd && cq);
	peer = make_qp(pd, cq, IBV_QPT_RC);
	liar = past ? make_qp(pd, cq, IBV_QPT_RC) : make_without_queue(pd, cq);
	start_qp_from(peer, liar->qp_num, 8, 3, 0);
	start_qp_from(liar, peer->qp_num, 8, 3, PSN);
	mem = progress();
	if (past) {
		char byte = 'x';
		struct ibv_sge sge = { (uintptr_t)&byte, 1, 0 };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_INLINE,
					  .sg_list = &sge,
					  .num_sge = 1 },
				   *bad;

		CHECK(!ibv_post_send(liar, &wr, &bad));
	}
	/* The device may be at work, and not have seen one of them. */
	until = now() + MOST_SECONDS;
	do {
		lie(mem, past ? 1024 : 0);
		if (!past) /* it has nothing to post with */
			ibv_modify_qp(liar, &drained, IBV_QP_STATE);
		CHECK(now() < until);
	} while (!has_failed(context, 1));
	CHECK(!ibv_destroy_qp(liar) && !ibv_destroy_qp(peer));
	printf("done\n");
	fflush(stdout);
	pause();
	return 0;
}
