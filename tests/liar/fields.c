/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a program can write, and the values of which something may depend. */
#include "liar.h"

struct field *field_add(struct scene *scene, enum kind kind, void *at, uint8_t bytes)
{
	struct field *field = &scene->field[scene->fields++];

	assert_true(scene->fields <= MOST_FIELDS);
	if (!scene->named) /* its name is the same whenever they are listed */
		memset(field, 0, sizeof(*field));
	field->kind = kind;
	field->at[0] = at;
	field->bytes = bytes;
	field->width = (uint8_t)(bytes * 8);
	return field;
}

void field_name(const struct scene *scene, struct field *field, const char *format, ...)
{
	va_list args;

	if (scene->named)
		return;
	va_start(args, format);
	vsnprintf(field->name, sizeof(field->name), format, args);
	va_end(args);
}

#define NAME(one, ...) field_name(scene, one, __VA_ARGS__)

/* Of a progress in two copies behind a generation. */
static void add_twice(struct scene *scene, const char *side, const char *of, const char *name,
		      enum kind kind, void *first, void *second, uint8_t bytes,
		      _Atomic uint32_t *generation)
{
	struct field *field = field_add(scene, kind, first, bytes);

	field->at[1] = second;
	field->generation = generation;
	field->core = true;
	NAME(field, "%s.%s.%s", side, of, name);
}

static void list_progress(struct scene *scene, const char *side, struct simhca_qp_mem *mem)
{
	struct field *field;

#define REQ(kind, member)                                                                          \
	add_twice(scene, side, "req", #member, kind, &mem->req[0].member, &mem->req[1].member,     \
		  sizeof(mem->req[0].member), &mem->req_owner.generation)
#define RESP(kind, member)                                                                         \
	add_twice(scene, side, "resp", #member, kind, &mem->resp[0].member, &mem->resp[1].member,  \
		  sizeof(mem->resp[0].member), &mem->resp_owner.generation)
	REQ(PSN, psn_una);
	REQ(PSN, psn_send);
	REQ(PSN, psn_sent);
	REQ(PSN, psn_next);
	REQ(INDEX, oldest);
	REQ(INDEX, count);
	REQ(INDEX, reads);
	REQ(SMALL, why);
	REQ(BYTES, deadline);
	REQ(SMALL, wait);
	REQ(INDEX, busy);
	REQ(SMALL, fault);
	REQ(SMALL, alone);
	REQ(SMALL, answered);
	REQ(SMALL, revoked);
	REQ(SMALL, went_back);
	REQ(SMALL, silence_logged);
	REQ(SMALL, retries);
	REQ(SMALL, rnr_retries);
	REQ(INDEX, cqe_index);
	REQ(INDEX, recv_cqe_index);
	RESP(PSN, epsn);
	RESP(PSN, msn);
	RESP(PSN, psns_done);
	RESP(INDEX, rq_ci);
	RESP(BYTES, offset);
	RESP(ADDRESS, va);
	RESP(BYTES, left);
	RESP(KEY, rkey);
	RESP(KEY, srqn);
	RESP(PSN, revoked_psn);
	RESP(INDEX, answers);
	RESP(PSN, read.psn);
	RESP(KEY, read.rkey);
	RESP(ADDRESS, read.va);
	RESP(BYTES, read.left);
	RESP(KEY, read.srqn);
	RESP(SMALL, in_message);
	RESP(SMALL, write);
	RESP(SMALL, have_recv);
	RESP(SMALL, nak_sent);
	RESP(SMALL, reported_psn);
	RESP(SMALL, revoked);
	RESP(SMALL, comm_est);
	RESP(SMALL, owed);
	RESP(BYTES, tm.tag);
	RESP(ADDRESS, tm.va);
	RESP(KEY, tm.rkey);
	RESP(BYTES, tm.length);
	RESP(SMALL, tm.kind);
	RESP(INDEX, cqe_index);
	RESP(INDEX, claim);
#undef REQ
#undef RESP
	for (unsigned int i = 0; i < 3; i++) { /* by ring index from 0 */
		static const char *const of[] = { "first", "last", "opcode" };

		for (unsigned int n = 0; n < 3; n++) {
			field = field_add(scene, n < 2 ? PSN : SMALL, &mem->flight[i], 8);
			field->shift = (uint8_t)(24 * n);
			field->width = n < 2 ? 24 : 16;
			field->core = true;
			NAME(field, "%s.flight%u.%s", side, i, of[n]);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct simhca_answered *one = &mem->answered[i];

		NAME(field_add(scene, ADDRESS, &one->va, 8), "%s.answered%u.va", side, i);
		NAME(field_add(scene, BYTES, &one->length, 8), "%s.answered%u.length", side, i);
		NAME(field_add(scene, KEY, &one->rkey, 4), "%s.answered%u.rkey", side, i);
		field = field_add(scene, PSN, (uint8_t *)one + 28, 4);
		field->width = 24;
		NAME(field, "%s.answered%u.psn", side, i);
		NAME(field_add(scene, SMALL, (uint8_t *)one + 31, 1), "%s.answered%u.op", side, i);
	}
	NAME(field_add(scene, HOLDER, &mem->req_owner.holder, 4), "%s.req.holder", side);
	NAME(field_add(scene, INDEX, &mem->req_owner.generation, 4), "%s.req.generation", side);
	NAME(field_add(scene, HOLDER, &mem->resp_owner.holder, 4), "%s.resp.holder", side);
	NAME(field_add(scene, INDEX, &mem->resp_owner.generation, 4), "%s.resp.generation", side);
	NAME(field_add(scene, INDEX, &mem->sq_pi, 4), "%s.sq_pi", side);
	NAME(field_add(scene, INDEX, &mem->rq_pi, 4), "%s.rq_pi", side);
}

static void list_wqes(struct scene *scene, const char *side, const struct qp *qp)
{
	for (unsigned int i = 0; qp->sq && i < 2; i++) {
		struct simhca_send_wqe *wqe = (void *)(qp->sq + i * qp->granted.sq_stride);
		struct simhca_sge *one = (void *)(wqe + 1);

		NAME(field_add(scene, SMALL, &wqe->opcode, 1), "%s.sq%u.opcode", side, i);
		NAME(field_add(scene, SMALL, &wqe->flags, 1), "%s.sq%u.flags", side, i);
		NAME(field_add(scene, SMALL, &wqe->num_sge, 1), "%s.sq%u.num_sge", side, i);
		NAME(field_add(scene, KEY, &wqe->imm_or_rkey, 4), "%s.sq%u.imm", side, i);
		NAME(field_add(scene, BYTES, &wqe->inline_len, 4), "%s.sq%u.inline_len", side, i);
		NAME(field_add(scene, KEY, &wqe->srqn, 4), "%s.sq%u.srqn", side, i);
		NAME(field_add(scene, ADDRESS, &wqe->rdma.remote_addr, 8), "%s.sq%u.va", side, i);
		NAME(field_add(scene, KEY, &wqe->rdma.rkey, 4), "%s.sq%u.rkey", side, i);
		NAME(field_add(scene, ADDRESS, &one->addr, 8), "%s.sq%u.sge.addr", side, i);
		NAME(field_add(scene, BYTES, &one->length, 4), "%s.sq%u.sge.length", side, i);
		NAME(field_add(scene, KEY, &one->lkey, 4), "%s.sq%u.sge.lkey", side, i);
	}
}

static void list_receives(struct scene *scene, const char *side, uint8_t *ring, uint32_t stride)
{
	for (unsigned int i = 0; ring && i < 2; i++) {
		struct simhca_recv_wqe *wqe = (void *)(ring + i * stride);
		struct simhca_sge *one = (void *)(wqe + 1);

		NAME(field_add(scene, INDEX, &wqe->num_sge, 4), "%s%u.num_sge", side, i);
		NAME(field_add(scene, INDEX, &wqe->record, 4), "%s%u.record", side, i);
		NAME(field_add(scene, ADDRESS, &one->addr, 8), "%s%u.sge.addr", side, i);
		NAME(field_add(scene, BYTES, &one->length, 4), "%s%u.sge.length", side, i);
		NAME(field_add(scene, KEY, &one->lkey, 4), "%s%u.sge.lkey", side, i);
	}
}

static void list_cq(struct scene *scene, const char *name, const struct cq *cq)
{
	NAME(field_add(scene, INDEX, &cq->state->ci, 4), "%s.ci", name);
	NAME(field_add(scene, INDEX, &cq->state->arm, 4), "%s.arm", name);
	NAME(field_add(scene, INDEX, &cq->state->overrun, 4), "%s.overrun", name);
	NAME(field_add(scene, INDEX, &cq->state->events_raised, 4), "%s.events_raised", name);
	NAME(field_add(scene, INDEX, &cq->state->pi, 4), "%s.pi", name);
	for (unsigned int i = 0; i < 2; i++) {
		struct field *field = field_add(scene, INDEX, &cq->ring[i].wallclock, 8);

		field->width = 32;
		NAME(field, "%s%u.claim", name, i);
		field = field_add(scene, HOLDER, &cq->ring[i].wallclock, 8);
		field->shift = 32;
		field->width = 32;
		NAME(field, "%s%u.claimant", name, i);
		NAME(field_add(scene, INDEX, &cq->ring[i].seq, 4), "%s%u.seq", name, i);
	}
}

static void list_claims(struct scene *scene, const char *name, struct simhca_srq_mem *mem)
{
	struct field *field;

	NAME(field_add(scene, INDEX, &mem->pi, 4), "%s.pi", name);
	field = field_add(scene, INDEX, &mem->head, 8);
	field->width = 32;
	NAME(field, "%s.ci", name);
	field = field_add(scene, INDEX, &mem->head, 8);
	field->shift = 32;
	field->width = 32;
	NAME(field, "%s.claimant", name);
	NAME(field_add(scene, INDEX, &mem->limit, 4), "%s.limit", name);
	NAME(field_add(scene, INDEX, &mem->claimed[0], 4), "%s.claimed1", name);
	NAME(field_add(scene, INDEX, &mem->claimed[1], 4), "%s.claimed2", name);
}

static void list_fastpath(struct scene *scene, const char *side, struct simhca_fastpath *mem)
{
#define FASTPATH(kind, member)                                                                     \
	NAME(field_add(scene, kind, &mem->member, sizeof(mem->member)), "%s.fastpath." #member,    \
	     side)
	FASTPATH(INDEX, guard);
	FASTPATH(INDEX, send_events);
	FASTPATH(INDEX, recv_events);
	FASTPATH(SMALL, wants);
	FASTPATH(BYTES, messages);
	FASTPATH(SMALL, left);
	FASTPATH(HOLDER, srq_limit);
	FASTPATH(SMALL, send_notifying);
	FASTPATH(SMALL, recv_notifying);
	FASTPATH(HOLDER, dest);
	FASTPATH(INDEX, index);
	FASTPATH(INDEX, before);
	FASTPATH(HOLDER, event_peer);
	FASTPATH(INDEX, recv[1]);
#undef FASTPATH
}

/* Bits of QPs that there are not as well, on each of the three levels. */
static void list_doorbells(struct scene *scene, const char *side, const struct client *client)
{
	static const unsigned int some[] = { 0, 1, SIMHCA_DB_LEAVES - 1 };
	struct simhca_ctx_mem *mem = client->mem;

	NAME(field_add(scene, SMALL, &mem->armed, 4), "%s.db.armed", side);
	NAME(field_add(scene, BYTES, &mem->top, 8), "%s.db.top", side);
	for (unsigned int i = 0; i < ARRAY_SIZE(some); i++) {
		unsigned int mid = some[i] % SIMHCA_DB_MIDS;

		NAME(field_add(scene, BYTES, &mem->mid[mid], 8), "%s.db.mid%u", side, mid);
		NAME(field_add(scene, BYTES, &mem->leaf[some[i]], 8), "%s.db.leaf%u", side,
		     some[i]);
	}
}

static unsigned int hash(const char *name)
{
	uint32_t sum = 2166136261u;

	while (*name)
		sum = (sum ^ (uint8_t)*name++) * 16777619u;
	return sum % ARRAY_SIZE(((struct scene *)0)->by_name);
}

void fields_of_rings(struct scene *scene)
{
	static const char *const sides[] = { "a", "b" };
	char name[16];

	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;

		if (!has_memory(side))
			continue;
		list_progress(scene, sides[i], side->qp->state);
		scene->generation[i][0] = &side->qp->state->req_owner.generation;
		scene->generation[i][1] = &side->qp->state->resp_owner.generation;
	}
	scene->cores = scene->fields;
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;

		list_doorbells(scene, sides[i], side->client);
		if (!has_memory(side))
			continue;
		list_wqes(scene, sides[i], side->qp);
		snprintf(name, sizeof(name), "%s.rq", sides[i]);
		list_receives(scene, name, side->qp->rq, side->qp->granted.rq_stride);
		if (side->qp->claims) {
			list_claims(scene, name, side->qp->claims);
			snprintf(name, sizeof(name), "%s.copy", sides[i]);
			list_receives(scene, name, (uint8_t *)(side->qp->state + 1), 8);
		}
		snprintf(name, sizeof(name), "%s.scq", sides[i]);
		list_cq(scene, name, side->send_cq);
		snprintf(name, sizeof(name), "%s.rcq", sides[i]);
		list_cq(scene, name, side->recv_cq);
		if (scene->fastpath[i])
			list_fastpath(scene, sides[i], scene->fastpath[i]);
	}
	if (scene->srq) {
		list_claims(scene, "srq", scene->srq->state);
		list_receives(scene, "srq", scene->srq->ring, scene->srq->stride);
	}
	if (scene->srq_cq)
		list_cq(scene, "srq.cq", scene->srq_cq);
	if (scene->moved)
		moved_fields(scene);
}

void fields_list(struct scene *scene)
{
	scene->fields = 0;
	scene->rings->list_fields(scene);
	if (scene->named)
		return;
	scene->named = true;
	memset(scene->by_name, 0, sizeof(scene->by_name));
	for (unsigned int i = 0; i < scene->fields; i++) {
		unsigned int at = hash(scene->field[i].name);

		while (scene->by_name[at])
			at = (at + 1) % ARRAY_SIZE(scene->by_name);
		scene->by_name[at] = (int16_t)(i + 1);
	}
}

int field_find(const struct scene *scene, const char *name)
{
	for (unsigned int at = hash(name); scene->by_name[at];
	     at = (at + 1) % ARRAY_SIZE(scene->by_name))
		if (!strcmp(scene->field[scene->by_name[at] - 1].name, name))
			return scene->by_name[at] - 1;
	return -1;
}

static uint64_t mask_of(const struct field *field)
{
	return field->width == 64 ? UINT64_MAX : (UINT64_C(1) << field->width) - 1;
}

uint64_t field_get(const struct field *field)
{
	unsigned int copy = field->at[1] ? *field->generation & 1 : 0;
	uint64_t word = 0;

	memcpy(&word, field->at[copy], field->bytes);
	return word >> field->shift & mask_of(field);
}

__attribute__((no_sanitize("thread"))) static void put(const struct field *field, uint8_t *at,
						       uint64_t value)
{
	uint64_t word = 0, mask = mask_of(field) << field->shift;

	memcpy(&word, at, field->bytes);
	word = (word & ~mask) | (value << field->shift & mask);
	memcpy(at, &word, field->bytes);
}

void field_put(const struct field *field, uint64_t value, unsigned int turns, unsigned int copies)
{
	unsigned int counts;

	if (!field->at[1]) {
		put(field, field->at[0], value);
		return;
	}
	counts = (*field->generation + turns) & 1;
	if (copies != 1)
		put(field, field->at[!counts], value);
	if (copies != 2)
		put(field, field->at[counts], value);
}

/* The n-th other one of that kind, counted around, from the field itself. */
static uint64_t another(const struct scene *scene, const struct field *field, unsigned int n)
{
	unsigned int at = (unsigned int)(field - scene->field);

	for (unsigned int i = 1; i < scene->fields; i++) {
		const struct field *other = &scene->field[(at + i) % scene->fields];

		if (other->kind == field->kind && !n--)
			return field_get(other);
	}
	return 0;
}

uint64_t field_value(const struct scene *scene, const struct field *field, unsigned int index)
{
	static const uint32_t psns[] = { 0,	   1,	     0x7ffffe, 0x7fffff,  0x800000,
					 0x800001, 0xfffffe, 0xffffff, 0x1000000, 0xffffffff };
	static const uint32_t psn_steps[] = { 1,	2,	  3,	    8,
					      0x100,	0x7ffffe, 0x7fffff, 0x800000,
					      0x800001, 0xfffffe, 0xffffff, 0x10000 };
	static const uint32_t indices[] = {
		0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 0x7fffffff, 0x80000000, 0xffffffff
	};
	static const uint32_t steps[] = { 1,	      2,	  RING,	      RING + 1,
					  64,	      65,	  0x80000000, 0xfffffffe,
					  0xffffffff, 0xfffffff8, 0xffffffc0 };
	static const uint8_t smalls[] = { 0,  1,  2,  3,  4,  5,  6,   7,   8,	 9,  14,
					  15, 16, 24, 25, 32, 64, 127, 128, 254, 255 };
	static const uint64_t bytes[] = { 0,	       1,
					  7,	       8,
					  63,	       64,
					  65,	       MTU - 1,
					  MTU,	       MTU + 1,
					  BUFFER - 1,  BUFFER,
					  BUFFER + 1,  0x40000,
					  0x3fffffff,  0x40000000,
					  0x40000001,  0x7fffffff,
					  0x80000000,  0xffffffff,
					  0x100000000, 0x80000000ull * 4,
					  INT64_MAX,   1ull << 63,
					  UINT64_MAX,  8928,
					  8929 };
	const struct mr *a = scene->mr[0], *b = scene->mr[1], *good = scene->honest_mr[0];
	const uint64_t addresses[] = { a->iova,
				       b->iova,
				       good->iova,
				       a->iova + a->length,
				       b->iova + b->length,
				       b->iova + b->length - 1,
				       b->iova - 1,
				       0,
				       1,
				       INT64_MAX,
				       1ull << 63,
				       UINT64_MAX,
				       UINT64_MAX - 63,
				       (uintptr_t)scene,
				       (uintptr_t)scene->world->device[0] };
	const uint32_t keys[] = { a->lkey,
				  a->rkey,
				  b->lkey,
				  b->rkey,
				  good->lkey,
				  good->rkey,
				  0,
				  1,
				  0xffffffff,
				  scene->qpn[0],
				  scene->qpn[1],
				  scene->honest_qpn[0],
				  scene->honest_qpn[1],
				  scene->srq ? scene->srq->srqn : 0 };
	const uint32_t holders[] = { 0,
				     SIMHCA_OWNER_DEVICE,
				     2,
				     SIMHCA_OWNER_WANTED,
				     SIMHCA_OWNER_WANTED | SIMHCA_OWNER_DEVICE,
				     SIMHCA_OWNER_PROGRAM,
				     SIMHCA_OWNER_PROGRAM | scene->qpn[0],
				     SIMHCA_OWNER_PROGRAM | scene->qpn[1],
				     SIMHCA_OWNER_WANTED | SIMHCA_OWNER_PROGRAM | scene->qpn[0],
				     SIMHCA_OWNER_PROGRAM | scene->honest_qpn[0],
				     scene->qpn[0],
				     scene->qpn[1],
				     scene->honest_qpn[0],
				     0xffffffff };
	uint64_t own = field_get(field);

	switch (field->kind) {
	case PSN:
		if (index < 10)
			return psns[index];
		index -= 10;
		if (index < 12)
			return (own + psn_steps[index]) & SIMHCA_PSN_MASK;
		index -= 12;
		return (another(scene, field, index / 3) + index % 3 - 1) & SIMHCA_PSN_MASK;
	case INDEX:
		if (index < 16)
			return indices[index];
		index -= 16;
		if (index < 11)
			return (uint32_t)own + steps[index];
		index -= 11;
		return another(scene, field, index / 3) + index % 3 - 1;
	case SMALL:
		return smalls[index % ARRAY_SIZE(smalls)];
	case BYTES:
		if (index < ARRAY_SIZE(bytes))
			return bytes[index];
		index -= (unsigned int)ARRAY_SIZE(bytes);
		return index < 3 ? own + index - 1
				 : another(scene, field, index / 3) + index % 3 - 1;
	case ADDRESS:
		return index < ARRAY_SIZE(addresses) ? addresses[index]
						     : own + bytes[index % ARRAY_SIZE(bytes)];
	case KEY:
		return index < ARRAY_SIZE(keys) ? keys[index] : own + (1u << index % 32);
	case HOLDER:
		break;
	}
	return index < ARRAY_SIZE(holders) ? holders[index] : own + (1u << index % 32);
}
