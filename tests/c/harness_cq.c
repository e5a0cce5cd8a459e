/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A client's CQs, and what is expected of them. */
#include <sched.h>
#include <time.h>

#include "harness.h"

#define THREADED_WAIT_MS 20000u

struct cq *cq_new_flags(struct client *client, uint32_t cqe, uint32_t flags)
{
	struct cq *cq = world_alloc(client->world, sizeof(*cq));
	struct simhca_create_cq_req req = {
		.user_handle.element = (uintptr_t)cq,
		.channel = 1,
		.cqe = cqe,
		.flags = flags,
	};
	struct simhca_create_cq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (simhca_create_cq(client->context, &req, &reply, &why))
		fail_msg("create_cq: %s", why.text);
	assert_true(reply.cqe >= cqe && reply.entries >= reply.cqe);
	cq->client = client;
	cq->handle = reply.handle;
	cq->cqe = reply.cqe;
	cq->entries = reply.entries;
	cq->state = client_at(client, &reply.state);
	cq->ring = client_at(client, &reply.ring);
	cq->data_slots = reply.data_slots;
	if (cq->data_slots)
		cq->data = client_at(client, &reply.data);
	return cq;
}

struct cq *cq_new(struct client *client, uint32_t cqe)
{
	return cq_new_flags(client, cqe, 0);
}

int cq_resize(struct cq *cq, uint32_t cqe)
{
	struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = cqe };
	struct simhca_create_cq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_resize_cq(cq->client->context, &req, &reply, &why));

	if (error)
		return error;
	cq->cqe = reply.cqe;
	cq->entries = reply.entries;
	cq->state = client_at(cq->client, &reply.state);
	cq->ring = client_at(cq->client, &reply.ring);
	return 0;
}

void cq_arm(struct cq *cq, uint32_t bits)
{
	uint32_t old = atomic_load(&cq->state->arm), now;

	do {
		now = (old & ~SIMHCA_ARM_BITS) + SIMHCA_ARM_BITS + 1;
		/* An arm for any completion is not weakened by one for solicited ones. */
		now |= (old & SIMHCA_ARM_BITS) == SIMHCA_ARM_NEXT ? SIMHCA_ARM_NEXT : bits;
	} while (!atomic_compare_exchange_weak(&cq->state->arm, &old, now));
}

#define RECORDS 65536u

static struct {
	_Atomic uint32_t count;
	struct {
		uint8_t *addr;
		uint32_t length;
		bool datagram;
	} one[RECORDS];
} records;

uint32_t record_new(const struct simhca_sge *sges, uint32_t num_sge, bool datagram)
{
	uint32_t number = atomic_fetch_add(&records.count, 1) % RECORDS;

	records.one[number].addr = num_sge ? (uint8_t *)(uintptr_t)sges[0].addr : NULL;
	records.one[number].length = num_sge ? sges[0].length : 0;
	records.one[number].datagram = datagram;
	return number + 1;
}

static void take_data(const struct cq *cq, const struct simhca_cqe *cqe)
{
	const uint8_t *data = cq->data + cq->ci % cq->data_slots * SIMHCA_CQ_DATA;
	uint32_t number = cqe->wqe_index - 1, from = 0;

	assert_true(number < RECORDS && cqe->byte_len <= SIMHCA_CQ_DATA);
	assert_true(cqe->byte_len <= records.one[number].length);
	if (records.one[number].datagram && !(cqe->flags & SIMHCA_CQE_GRH))
		from = SIMHCA_GRH_BYTES;
	memcpy(records.one[number].addr + from, data + from, cqe->byte_len - from);
}

bool cq_poll(struct cq *cq, struct simhca_cqe *cqe)
{
	struct simhca_cqe *slot = &cq->ring[cq->ci & (cq->entries - 1)];

	/* acquire: what the device wrote before seq is there once seq is. */
	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != cq->ci + 1)
		return false;
	memcpy(cqe, slot, offsetof(struct simhca_cqe, seq));
	if (cqe->in_slot == SIMHCA_CQE_IN_CQ && cqe->qpn != SIMHCA_VOID_QPN)
		take_data(cq, cqe);
	cq->ci++;
	/* release: the slot may be written again only after it was read. */
	atomic_store_explicit(&cq->state->ci, cq->ci, memory_order_release);
	return true;
}

bool cq_wait(struct cq *cq, struct simhca_cqe *cqe)
{
	struct timespec nap = { .tv_nsec = 100 * 1000 };

	if (cq_poll(cq, cqe))
		return true;
	if (!cq->client->world->threaded) {
		for (unsigned int i = 0; i < IDLE_ROUNDS; i++) {
			bool busy = world_poll(cq->client->world);

			if (cq_poll(cq, cqe))
				return true;
			if (!busy)
				return false;
		}
		return false;
	}
	for (unsigned int naps = 0; naps < THREADED_WAIT_MS * 10;) {
		for (unsigned int i = 0; i < 100; i++) {
			if (cq_poll(cq, cqe))
				return true;
			sched_yield();
		}
		nanosleep(&nap, NULL);
		naps++;
	}
	return false;
}

/* Over a wire a peer's refusal has no reason but its NAK's. */
static int reason_over(const struct world *world, int status, int reason)
{
	if (!world_has_wire(world) || reason < 0)
		return reason;
	switch (status) {
	case IBV_WC_REM_INV_REQ_ERR:
		return SIMHCA_REASON_PEER_SAYS_INVALID;
	case IBV_WC_REM_ACCESS_ERR:
		return SIMHCA_REASON_PEER_SAYS_ACCESS;
	case IBV_WC_REM_OP_ERR:
		return SIMHCA_REASON_PEER_SAYS_OPERATIONAL;
	default:
		return reason;
	}
}

struct simhca_cqe expect_(struct cq *cq, uint64_t wr_id, int status, int reason, const char *file,
			  int line)
{
	struct simhca_cqe cqe;

	reason = reason_over(cq->client->world, status, reason);
	memset(&cqe, 0, sizeof(cqe));
	if (!cq_wait(cq, &cqe)) {
		print_error("%s:%d: no completion of %llu\n", file, line,
			    (unsigned long long)wr_id);
		_fail(file, line);
	}
	if (cqe.wr_id != wr_id || cqe.status != status ||
	    (reason >= 0 && cqe.vendor_err != (uint32_t)reason)) {
		print_error("%s:%d: expected %llu: %s", file, line, (unsigned long long)wr_id,
			    ibv_wc_status_str(status));
		if (reason >= 0)
			print_error(" (%s)", simhca_reason_text(reason));
		print_error(", got %llu: %s (%s)\n", (unsigned long long)cqe.wr_id,
			    ibv_wc_status_str(cqe.status), simhca_reason_text(cqe.vendor_err));
		_fail(file, line);
	}
	if (status == IBV_WC_SUCCESS && cqe.vendor_err != SIMHCA_REASON_NONE) {
		print_error("%s:%d: a success with a reason\n", file, line);
		_fail(file, line);
	}
	if (status != IBV_WC_SUCCESS && cqe.vendor_err == SIMHCA_REASON_NONE) {
		print_error("%s:%d: an error without a reason\n", file, line);
		_fail(file, line);
	}
	return cqe;
}

void expect_none_(struct cq *cq, const char *file, int line)
{
	struct simhca_cqe cqe;

	if (!cq_wait(cq, &cqe))
		return;
	print_error("%s:%d: expected no completion, got %llu: %s (%s)\n", file, line,
		    (unsigned long long)cqe.wr_id, ibv_wc_status_str(cqe.status),
		    simhca_reason_text(cqe.vendor_err));
	_fail(file, line);
}
