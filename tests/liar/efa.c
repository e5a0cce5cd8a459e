/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Scenes of EFA's rings: a program a whose QP sends to that of another, b. The device keeps to itself how
 * far it is, so a scene is made anew for each look, and what is lied about are the entries that were
 * posted, the doorbells, and CQEs.
 */
#include <sched.h>
#include <time.h>

#include "../c/efa_scene.h"
#include "core/handles.h"
#include "liar.h"
#include "simhca-info.h"

#define QKEY 0x11111111u
#define HONEST_QKEY 0x5ec2e775u /* in no lie: who knows it may send there, and takes its receives */
#define MOST_WAIT 20.0		/* seconds, on a busy machine */

static struct efa_qp *qp_of(const struct scene *scene, unsigned int side)
{
	return scene->efa[side]->qp[0];
}

static const uint32_t up[] = { SIMHCA_QPS_RESET, SIMHCA_QPS_INIT, SIMHCA_QPS_RTR, SIMHCA_QPS_RTS };

static void bring_up(struct efa_qp *qp, uint32_t qkey)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++)
		if (efa_to_state(qp, up[i], qkey))
			caught("the QP cannot be reset");
}

/* ------------------------------------------------------------------------ how they are made */

static struct efa_end *end_of(struct scene *scene, const struct simhca_efa_qp_request *caps,
			      uint64_t channel)
{
	const struct simhca_efa_cq_request request = { .entries = CQ_RING,
						       .entry_size = EFA_CQE_LONG,
						       .channel = channel,
						       .user_handle = channel };
	struct efa_end *end = efa_end_new(scene->world, &request);

	efa_add_qp(end, caps);
	return end;
}

static struct simhca_efa_qp_request caps_of(const struct scene *scene)
{
	return (struct simhca_efa_qp_request){
		.sq_bytes = RING * sizeof(struct efa_send_wqe),
		.rq_bytes = RING * sizeof(struct efa_recv_desc),
		.srd = scene->kind->type == IBV_QPT_DRIVER,
		.caps = { RING, RING, 2, 2, 32 },
	};
}

static void make_ends(struct scene *scene, const struct simhca_efa_qp_request *caps, bool notified)
{
	for (unsigned int i = 0; i < 2; i++) {
		/* Where events are counted. */
		struct cq *events = world_alloc(scene->world, sizeof(*events));

		scene->efa[i] = end_of(scene, caps, notified ? (uintptr_t)events : 0);
		scene->mr[i] = scene->efa[i]->mr;
		scene->qpn[i] = qp_of(scene, i)->qpn;
	}
}

void efa_make_plain(struct scene *scene, struct options *options)
{
	struct simhca_efa_qp_request caps = caps_of(scene);

	(void)options;
	if (caps.srd) { /* the others have narrow WQEs */
		caps.sq_bytes = RING * sizeof(struct efa_wide_wqe);
		caps.caps.max_inline = EFA_INLINE_WIDE;
	}
	make_ends(scene, &caps, false);
}

void efa_make_notified(struct scene *scene, struct options *options)
{
	const struct simhca_efa_qp_request caps = caps_of(scene);

	(void)options;
	make_ends(scene, &caps, true);
}

void efa_make_unsolicited(struct scene *scene, struct options *options)
{
	struct simhca_efa_qp_request caps = caps_of(scene);

	(void)options;
	caps.unsolicited = true;
	make_ends(scene, &caps, false);
}

void efa_make_without_sq(struct scene *scene, struct options *options)
{
	struct simhca_efa_qp_request caps = caps_of(scene);

	(void)options;
	caps.sq_bytes = 0;
	make_ends(scene, &caps, false);
}

void efa_make_without_rq(struct scene *scene, struct options *options)
{
	struct simhca_efa_qp_request caps = caps_of(scene);

	(void)options;
	caps.rq_bytes = 0;
	make_ends(scene, &caps, false);
}

/* The honest one has two QPs, one of which sends to the other. */
static void make(struct scene *scene, struct options *options)
{
	struct simhca_efa_qp_request caps = caps_of(scene);
	uint64_t *words;

	caps.srd = true;
	scene->efa_honest = end_of(scene, &caps, 0);
	efa_add_qp(scene->efa_honest, &caps);
	words = (uint64_t *)scene->efa_honest->mr->addr;
	for (unsigned int i = 0; i < 2 * EFA_BYTES / 8; i++)
		words[i] = SECRET;
	for (unsigned int i = 0; i < 2; i++) {
		bring_up(scene->efa_honest->qp[i], HONEST_QKEY);
		scene->honest_mr[i] = scene->efa_honest->mr;
		scene->honest_qpn[i] = scene->efa_honest->qp[i]->qpn;
	}
	scene->kind->make(scene, options);
}

/* ------------------------------------------------------------------------ their states */

/* The next slot's entry of a, and what is sent by it to b. */
static void send_raw(struct scene *scene, unsigned int from, uint16_t opcode, uint32_t length)
{
	const struct efa_end *end = scene->efa[from], *to = scene->efa[!from];
	struct efa_send_wqe wqe = efa_send_of(end, to->qp[0], 1);
	struct efa_buffer *remote = &wqe.buffer[0];

	wqe.buffer[0].length = length;
	if (opcode != EFA_SEND) {
		wqe.control |= opcode;
		wqe.buffer[1] = wqe.buffer[0];
		remote->key = to->mr->rkey;
		remote->addr_low = (uint32_t)to->mr->iova;
		remote->addr_high = (uint32_t)(to->mr->iova >> 32);
	}
	efa_put_send(end->qp[0], &wqe);
}

static void receive(struct scene *scene, unsigned int side)
{
	efa_post_recv(scene->efa[side], qp_of(scene, side), 1);
}

static void ring(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct simhca_context *context = scene->efa[i]->client->context;

		simhca_engine_schedule(context->engine, &context->efa->task);
	}
}

static void run(struct scene *scene)
{
	ring(scene);
	poll_some(scene, 2);
}

void efa_idle(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		receive(scene, i);
		receive(scene, i);
	}
	send_raw(scene, 0, EFA_SEND, 64);
	send_raw(scene, 0, EFA_SEND, EFA_BYTES);
}

/* Found no receive, and asks again later. */
void efa_waits_rnr(struct scene *scene)
{
	send_raw(scene, 0, EFA_SEND, 64);
	send_raw(scene, 0, EFA_SEND, EFA_BYTES);
	run(scene);
	send_raw(scene, 0, EFA_SEND, 8);
}

/* With immediate data: it takes a receive of b's, if b has not said otherwise. */
void efa_writes(struct scene *scene)
{
	receive(scene, 1);
	send_raw(scene, 0, EFA_RDMA_WRITE | EFA_WQE_HAS_IMM, EFA_BYTES);
	send_raw(scene, 0, EFA_RDMA_WRITE, 64);
	send_raw(scene, 1, EFA_RDMA_WRITE, EFA_BYTES);
}

void efa_reads(struct scene *scene)
{
	receive(scene, 1);
	send_raw(scene, 0, EFA_RDMA_READ, EFA_BYTES);
	send_raw(scene, 0, EFA_SEND, 64);
}

void efa_flushes(struct scene *scene)
{
	efa_idle(scene);
	if (efa_to_state(qp_of(scene, 0), SIMHCA_QPS_ERR, QKEY))
		caught("the QP does not go to ERR");
	send_raw(scene, 0, EFA_SEND, 64);
}

static void renew(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct efa_cq *cq = scene->efa[i]->cq;

		bring_up(qp_of(scene, i), QKEY);
		memset(cq->memory.base, 0, cq->memory.bytes);
		cq->pi = cq->seen = cq->raised_after = 0;
		memset(cq->sub_pi, 0, sizeof(cq->sub_pi));
		cq->armed = cq->raised = false;
		scene->efa[i]->ci = 0;
	}
}

static void remember(struct scene *scene)
{
	if (!scene->listed)
		fields_list(scene);
	scene->listed = true;
	scene->broken = true; /* what the device has done meanwhile it alone knows */
}

static void bring_back(struct scene *scene)
{
	(void)scene;
}

static uint32_t state(const struct scene *scene, unsigned int side)
{
	return atomic_load(&qp_of(scene, side)->state);
}

/* -------------------------------------------------------------------------------- fields */

static void add_bits(struct scene *scene, const char *side, const char *name, enum kind kind,
		     void *at, uint8_t bytes, uint8_t shift, uint8_t width)
{
	struct field *field = field_add(scene, kind, at, bytes);

	field->shift = shift;
	field->width = width ? width : (uint8_t)(bytes * 8);
	field_name(scene, field, "%s.%s", side, name);
}

static void list_send(struct scene *scene, const char *side, const struct efa_qp *qp,
		      unsigned int index)
{
	struct efa_send_wqe *wqe = efa_send_slot(qp, index);
	char name[32];

#define SEND(kind, name_of, member, shift, width)                                                  \
	do {                                                                                       \
		snprintf(name, sizeof(name), "sq%u." name_of, index);                              \
		add_bits(scene, side, name, kind, &wqe->member, sizeof(wqe->member), shift,        \
			 width);                                                                   \
	} while (0)
	SEND(SMALL, "req_id", req_id, 0, 0);
	SEND(SMALL, "opcode", control, 0, 4);
	SEND(SMALL, "imm_flag", control, 4, 1);
	SEND(SMALL, "inline", control, 5, 1);
	SEND(SMALL, "first", control, 10, 1);
	SEND(SMALL, "last", control, 11, 1);
	SEND(KEY, "dest_qpn", dest_qpn, 0, 0);
	SEND(INDEX, "length", length, 0, 0);
	SEND(KEY, "imm", imm, 0, 0);
	SEND(INDEX, "ah", ah, 0, 0);
	SEND(KEY, "qkey", qkey, 0, 0);
	for (unsigned int i = 0; i < EFA_SEND_SGES; i++) {
		char whole[32];

		snprintf(whole, sizeof(whole), "sq%u.%s", index, i ? "second.length" : "length1");
		add_bits(scene, side, whole, BYTES, &wqe->buffer[i].length, 4, 0, 0);
		snprintf(whole, sizeof(whole), "sq%u.%s", index, i ? "second.key" : "key1");
		add_bits(scene, side, whole, KEY, &wqe->buffer[i].key, 4, 0, 0);
		snprintf(whole, sizeof(whole), "sq%u.%s", index, i ? "second.addr" : "addr1");
		add_bits(scene, side, whole, ADDRESS, &wqe->buffer[i].addr_low, 8, 0, 0);
	}
#undef SEND
}

static void list_receive(struct scene *scene, const char *side, const struct efa_qp *qp,
			 unsigned int index)
{
	struct efa_recv_desc *desc = efa_recv_slot(qp, index);
	char name[32];

#define RECV(kind, name_of, member, bytes, shift, width)                                           \
	do {                                                                                       \
		snprintf(name, sizeof(name), "rq%u." name_of, index);                              \
		add_bits(scene, side, name, kind, &desc->member, bytes, shift, width);             \
	} while (0)
	RECV(ADDRESS, "addr", addr_low, 8, 0, 0);
	RECV(SMALL, "req_id", req_id, 2, 0, 0);
	RECV(BYTES, "length", length, 2, 0, 0);
	RECV(KEY, "key", key_flags, 4, 0, 24);
	RECV(SMALL, "first", key_flags, 4, 30, 1);
	RECV(SMALL, "last", key_flags, 4, 31, 1);
#undef RECV
}

static void list_cq(struct scene *scene, const char *side, const struct efa_cq *cq)
{
	_Atomic uint32_t *doorbell = (_Atomic uint32_t *)cq->doorbell;
	char name[32];

	if (doorbell) {
		add_bits(scene, side, "cq.ci", INDEX, doorbell, 4, 0, 16);
		add_bits(scene, side, "cq.events", SMALL, doorbell, 4, 29, 2);
		add_bits(scene, side, "cq.arm", SMALL, doorbell, 4, 31, 1);
	}
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int word = 0; word < 2; word++) {
			snprintf(name, sizeof(name), "cqe%u.word%u", i, word);
			add_bits(scene, side, name, BYTES,
				 cq->memory.base + i * EFA_CQE_LONG + word * 8, 8, 0, 0);
		}
}

/* Those in front are the ones of which all pairs are told: doorbells, and the oldest entries. */
static void list_fields(struct scene *scene)
{
	static const char *const sides[] = { "a", "b" };

	for (unsigned int index = 0; index < 2; index++) {
		for (unsigned int i = 0; i < 2; i++) {
			const struct efa_qp *qp = qp_of(scene, i);

			if (!index) {
				add_bits(scene, sides[i], "sq_pi", INDEX, qp->sq_doorbell, 4, 0, 0);
				add_bits(scene, sides[i], "rq_pi", INDEX, qp->rq_doorbell, 4, 0, 0);
			}
			if (qp->sq_entries)
				list_send(scene, sides[i], qp, index);
			if (qp->rq_entries)
				list_receive(scene, sides[i], qp, index);
		}
		if (!index)
			scene->cores = scene->fields;
	}
	for (unsigned int i = 0; i < 2; i++) {
		if (qp_of(scene, i)->rq_entries) /* more than a receive may have */
			list_receive(scene, sides[i], qp_of(scene, i), EFA_RECV_SGES);
		list_cq(scene, sides[i], scene->efa[i]->cq);
	}
}

/* ------------------------------------------------------------------------ consistent ones */

/* A receive of some descriptors, that begins and ends as it has to. */
static void receives(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const char *side = lie_below(seed, 4) ? "b" : "a";
	const uint32_t count = 1 + lie_below(seed, 3);
	char name[16];

	for (uint32_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "rq%u.first", i);
		lie_poke(scene, lie, side, name, !i || !lie_below(seed, 8));
		snprintf(name, sizeof(name), "rq%u.last", i);
		lie_poke(scene, lie, side, name, i + 1 == count);
		snprintf(name, sizeof(name), "rq%u.length", i);
		lie_poke(scene, lie, side, name,
			 lie_below(seed, 2) ? lie_below(seed, EFA_BYTES + 2) : 0xffff);
	}
	lie_poke(scene, lie, side, "rq_pi",
		 count + lie_below(seed, 2) * 0x10000 - lie_below(seed, 2));
}

/* From or to the peer's region, to its end or a byte beyond it. */
static void operations(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const bool from_b = !lie_below(seed, 4);
	const char *side = from_b ? "b" : "a";
	const struct mr *own = scene->mr[from_b], *peer = scene->mr[!from_b];
	const uint32_t offset = lie_below(seed, 2 * EFA_BYTES + 1);
	uint32_t length = 2 * EFA_BYTES - offset + !lie_below(seed, 4);

	if (!lie_below(seed, 8))
		length = 1u << (lie_below(seed, 2) ? 30 : 31);
	lie_poke(scene, lie, side, "sq0.opcode", 1 + lie_below(seed, 2));
	lie_poke(scene, lie, side, "sq0.imm_flag", !lie_below(seed, 4));
	lie_poke(scene, lie, side, "sq0.length", 1);
	lie_poke(scene, lie, side, "sq0.length1", length);
	lie_poke(scene, lie, side, "sq0.key1", peer->rkey);
	lie_poke(scene, lie, side, "sq0.addr1", peer->iova + offset);
	lie_poke(scene, lie, side, "sq0.second.length", length + lie_below(seed, 3) - 1);
	lie_poke(scene, lie, side, "sq0.second.key", own->lkey);
	lie_poke(scene, lie, side, "sq0.second.addr",
		 own->iova + (lie_below(seed, 2) ? 0 : lie_below(seed, 2 * EFA_BYTES)));
}

/* A message of two buffers, inline or not. */
static void messages(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const bool from_b = !lie_below(seed, 4);
	const char *side = from_b ? "b" : "a";
	const struct mr *own = scene->mr[from_b];
	const uint32_t split = lie_below(seed, 2 * EFA_BYTES + 1);

	lie_poke(scene, lie, side, "sq0.opcode", 0);
	lie_poke(scene, lie, side, "sq0.inline", !lie_below(seed, 4));
	lie_poke(scene, lie, side, "sq0.length", lie_below(seed, 4) ? 2 : lie_below(seed, 34));
	lie_poke(scene, lie, side, "sq0.length1", split);
	lie_poke(scene, lie, side, "sq0.key1", own->lkey);
	lie_poke(scene, lie, side, "sq0.addr1", own->iova);
	lie_poke(scene, lie, side, "sq0.second.length", 2 * EFA_BYTES - split + lie_below(seed, 2));
	lie_poke(scene, lie, side, "sq0.second.key", own->lkey);
	lie_poke(scene, lie, side, "sq0.second.addr", own->iova + split);
}

/* As many as the queue has, or one more, after however many rounds of 16 bits. */
static void doorbells(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static const char *const names[] = { "sq_pi", "rq_pi" };

	for (unsigned int i = 0; i < 4; i++)
		if (lie_below(seed, 2))
			lie_poke(scene, lie, i / 2 ? "b" : "a", names[i % 2],
				 (uint64_t)lie_below(seed, 0x10000) << 16 |
					 lie_below(seed, RING + 2));
}

/* Armed by a store that may be the second of two. */
static void events(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const char *side = lie_below(seed, 2) ? "a" : "b";

	lie_poke(scene, lie, side, "cq.arm", lie_below(seed, 2));
	lie_poke(scene, lie, side, "cq.events", lie_below(seed, 4));
	lie_poke(scene, lie, side, "cq.ci", lie_below(seed, CQ_RING + 2));
}

static void consistent(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static void (*const kinds[])(const struct scene *, uint64_t *, struct lie *) = {
		receives, operations, messages, doorbells, events,
	};

	kinds[lie_below(seed, ARRAY_SIZE(kinds))](scene, seed, lie);
	if (!lie_below(seed, 3))
		kinds[lie_below(seed, ARRAY_SIZE(kinds))](scene, seed, lie);
}

/* ------------------------------------------------------------------------ what happens */

static void act(struct scene *scene, enum act act)
{
	struct simhca_qp_info qp;
	struct simhca_cq_info cq;

	switch (act) {
	case ACT_TIME:
		atomic_fetch_add(&scene->world->now, 10 * MSEC);
		break;
	case ACT_RECV:
		receive(scene, 1);
		break;
	case ACT_POST:
		send_raw(scene, 0, EFA_SEND, 64);
		break;
	case ACT_ANSWER:
		receive(scene, 0);
		send_raw(scene, 1, EFA_SEND, 64);
		break;
	case ACT_QUERY:
		for (unsigned int i = 0; i < 2; i++) {
			simhca_efa_qp_info(qp_of(scene, i), &qp);
			simhca_efa_cq_info(scene->efa[i]->cq, &cq);
			if (qp.recvs > RING || qp.sends > RING || cq.waiting > CQ_RING)
				caught("tools are shown more than there is");
		}
		break;
	case ACT_ERR:
		efa_to_state(qp_of(scene, 0), SIMHCA_QPS_ERR, QKEY);
		break;
	case ACT_PEER_ERR:
		efa_to_state(qp_of(scene, 1), SIMHCA_QPS_ERR, QKEY);
		break;
	default: /* there is no such thing */
		break;
	}
	run(scene);
}

static bool works(struct scene *scene)
{
	struct efa_qp *from = qp_of(scene, 0), *to = qp_of(scene, 1);
	struct efa_cqe cqe;

	if (!from->sq_entries || !to->rq_entries)
		return true;
	receive(scene, 1);
	send_raw(scene, 0, EFA_SEND, 64);
	for (unsigned int i = 0; i < 8; i++)
		run(scene);
	return efa_poll(scene->efa[0], &cqe) && !cqe.status && efa_poll(scene->efa[1], &cqe) &&
	       !cqe.status;
}

/* ---------------------------------------------------------------------------- the oracle */

/* A request that a gate has let through, as gate.h promises. */
static void check_send(const struct efa_send *send, bool srd, uint32_t most_inline)
{
	uint64_t bytes = 0;

	if (send->num_sge > EFA_SEND_SGES)
		caught("a message has %u buffers", send->num_sge);
	for (uint32_t i = 0; i < send->num_sge; i++)
		bytes += send->sge[i].length;
	if (send->is_inline ? send->length > most_inline || send->num_sge : send->length > bytes)
		caught("a message of %u bytes has buffers of %llu", send->length,
		       (unsigned long long)bytes);
	if (send->opcode == EFA_SEND ? send->length > SIMHCA_EFA_MTU
				     : send->length > SIMHCA_EFA_RDMA || !srd)
		caught("a message is longer than there may be");
}

static bool sends_refused(const struct efa_qp *qp)
{
	struct efa_wide_wqe wqe;
	struct efa_send send;
	bool refused = false;
	uint32_t posted;

	if (!qp->sq_entries)
		return false;
	if (!efa_posted(qp->sq_doorbell, qp->sq_ci, qp->sq_entries, &posted))
		return true;
	for (uint32_t i = 0; i < posted; i++) {
		efa_read_once(&wqe, efa_send_at(qp, qp->sq_ci + i), qp->wqe_bytes);
		if (efa_judge_send(&wqe.wqe, &qp->limits, &send) == EFA_STATUS_OK)
			check_send(&send, qp->srd, qp->limits.wide ? EFA_INLINE_WIDE : EFA_INLINE);
		else
			refused = true;
	}
	return refused;
}

static bool receives_refused(const struct efa_qp *qp)
{
	struct efa_recv recv;
	uint32_t posted, count;
	uint64_t bytes = 0;

	if (!qp->rq_entries)
		return false;
	if (!efa_posted(qp->rq_doorbell, (uint16_t)qp->rq_ci, qp->rq_entries, &posted))
		return true;
	if (!posted)
		return false;
	count = efa_judge_recv(qp->rq, qp->rq_entries, qp->rq_ci, posted, &recv);
	for (uint32_t i = 0; i < count; i++)
		bytes += recv.sge[i].length;
	if (count > posted || count > EFA_RECV_SGES || (count && recv.length != bytes))
		caught("a receive has more than was posted");
	return !count;
}

static bool refuse(const struct scene *scene)
{
	bool refused = false;

	for (unsigned int i = 0; i < 2; i++) {
		refused |= sends_refused(qp_of(scene, i));
		refused |= receives_refused(qp_of(scene, i));
	}
	return refused;
}

static void check_progress(const struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct efa_qp *qp = qp_of(scene, i);

		if (qp->count > qp->sq_entries || qp->waiting > qp->count)
			caught("%u messages are under way from a queue of %u", qp->count,
			       qp->sq_entries);
		for (uint32_t n = 0; n < qp->count; n++) {
			check_send(&qp->messages[n].send, qp->srd,
				   qp->limits.wide ? EFA_INLINE_WIDE : EFA_INLINE);
			if (qp->messages[n].done > qp->messages[n].send.length)
				caught("more of a message is done than there is");
		}
	}
}

/* The number of a message is in front of what is sent, and of where it comes. */
static void check(const struct scene *scene)
{
	const uint64_t *words = (const uint64_t *)scene->efa_honest->mr->addr;
	struct efa_cqe cqe;

	for (uint32_t i = 0; i < 2 * EFA_BYTES / 8; i++)
		if (i % (EFA_BYTES / 8) && words[i] != SECRET)
			caught("the honest pair's memory was written to at %#x", i * 8);
	if (efa_poll(scene->efa_honest, &cqe))
		caught("the honest pair has a completion more");
}

/* ------------------------------------------------------------------------- the honest pair */

static void post_honest(struct scene *scene)
{
	struct efa_end *end = scene->efa_honest;

	*(uint64_t *)end->mr->addr = scene->message;
	efa_post_recv(end, end->qp[1], (uint16_t)scene->message);
	efa_post_send(end, end->qp[0], end->qp[1], (uint16_t)scene->message);
}

/* The receive completes first, in the same CQ. */
static bool take_honest(struct scene *scene, unsigned int side, struct honest *taken)
{
	struct efa_end *end = scene->efa_honest;
	struct simhca_context *context = end->client->context;
	const uint64_t *came = (const uint64_t *)(end->mr->addr + EFA_BYTES);
	struct efa_cqe cqe;

	simhca_engine_schedule(context->engine, &context->efa->task);
	if (!efa_poll(end, &cqe))
		return false;
	if (*came != scene->message)
		caught("an honest message has other bytes");
	taken->id = cqe.req_id == (uint16_t)scene->message ? scene->message : cqe.req_id;
	taken->status = cqe.status;
	/* Of the two it says which it is. */
	taken->qpn = cqe.qpn == scene->honest_qpn[!side] ? scene->honest_qpn[side] : cqe.qpn;
	return true;
}

/* As far as it comes: from RTR on a message may find its rings, and bring it down. */
static void revive_one(struct scene *scene, unsigned int side)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++)
		if (efa_to_state(qp_of(scene, side), up[i], QKEY) && up[i] == SIMHCA_QPS_RESET)
			caught("the QP cannot be reset");
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void talk(struct scene *scene)
{
	const double until = now() + MOST_WAIT;
	struct honest taken;

	post_honest(scene);
	for (unsigned int i = 0; i < 2; i++) {
		while (!take_honest(scene, i, &taken)) {
			if (now() > until)
				caught("an honest message does not come");
			sched_yield();
		}
		if (taken.id != scene->message || taken.status)
			caught("an honest message ends with status %u", taken.status);
	}
}

const struct rings efa_rings = {
	.make = make,
	.renew = renew,
	.remember = remember,
	.bring_back = bring_back,
	.list_fields = list_fields,
	.consistent = consistent,
	.state = state,
	.ring = ring,
	.act = act,
	.works = works,
	.refuse = refuse,
	.check_progress = check_progress,
	.check = check,
	.post_honest = post_honest,
	.take_honest = take_honest,
	.revive = revive_one,
	.send_honest = talk,
};
