/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tag matching: the list, eager messages, unexpected ones and their counting. */
#include <sched.h>

#include "tag_scene.h"

#define SYNC_REQ SIMHCA_CQE_TM_SYNC_REQ

static void count(struct scene *s, uint32_t unexpected)
{
	assert_int_equal(0, op(s,
			       (struct simhca_srq_op_req){ .opcode = SIMHCA_SRQ_TAG_SYNC,
							   .unexpected = unexpected },
			       NULL));
}

/* ---------------------------------------------------------------------------------- the list */

static void what_is_refused(void **state)
{
	struct scene *s = make(*state);
	struct client *client = s->b.client;
	struct simhca_create_srq_req srq = { .type = SIMHCA_SRQT_TM,
					     .cq = s->cq->handle,
					     .pd = client->pd,
					     .max_wr = 4,
					     .max_tags = 4 };
	struct simhca_create_qp_req qp = { .type = SIMHCA_QPT_UC,
					   .pd = client->pd,
					   .send_cq = s->cq->handle,
					   .recv_cq = s->cq->handle,
					   .srq = s->srq->handle,
					   .has_srq = 1 };
	struct srq *basic = srq_new(client, 4, 1, 0);
	struct simhca_srq_op_req bad = { .srq = basic->handle, .opcode = SIMHCA_SRQ_TAG_SYNC };
	struct simhca_create_srq_reply srq_reply;
	struct simhca_create_qp_reply qp_reply;
	struct simhca_handle reply;

	srq.max_tags = 0;
	assert_int_equal(-EINVAL, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.max_tags = SIMHCA_MAX_TAGS + 1;
	assert_int_equal(-EINVAL, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.max_tags = SIMHCA_MAX_TAGS;
	srq.cq = 99;
	assert_int_equal(-ENOENT, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	qp.type = SIMHCA_QPT_UD;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	assert_int_equal(-EINVAL, simhca_srq_op(client->context, &bad, &reply, NULL));
	assert_int_equal(-EINVAL, op(s, (struct simhca_srq_op_req){ .opcode = 3 }, NULL));
	assert_int_equal(-EINVAL, op(s, (struct simhca_srq_op_req){ .flags = 4 }, NULL));
	assert_int_equal(-EINVAL,
			 op(s, (struct simhca_srq_op_req){ .num_sge = SIMHCA_MAX_TM_SGE + 1 },
			    NULL));
	assert_int_equal(-EBUSY, simhca_destroy_cq(client->context, s->cq->handle, NULL));
}

static void operations_complete_if_asked(void **state)
{
	struct scene *s = make(*state);
	struct simhca_cqe cqe;
	uint32_t entry;

	for (uint32_t opcode = 0; opcode < 3; opcode++) {
		struct simhca_srq_op_req req = { .opcode = opcode, .wr_id = 70 + opcode };

		entry = add(s, 1, 1, UINT64_MAX, 0, 8);
		expect_none(s->cq);
		req.entry = entry;
		req.flags = SIMHCA_SRQ_OP_SIGNALED;
		assert_int_equal(0, op(s, req, NULL));
		cqe = check_cqe(s, 70 + opcode, (uint8_t)(SIMHCA_WC_TM_ADD + opcode), 0);
		assert_int_equal(cqe.qpn, SIMHCA_QPN_MASK);
		expect_none(s->cq);
	}
}

static void the_list_is_as_long_as_was_asked(void **state)
{
	struct scene *s = make(*state);
	uint32_t entry[TAGS], again;

	for (uint64_t i = 0; i < TAGS; i++)
		entry[i] = add(s, i, i, UINT64_MAX, 0, 64);
	assert_int_equal(-ENOMEM,
			 op(s, (struct simhca_srq_op_req){ .flags = SIMHCA_SRQ_OP_SIGNALED },
			    NULL));
	expect_none(s->cq);
	send_tagged(s, 1, IBV_TMH_EAGER, 3, 8);
	expect(s->a.send_cq, 1, SUCCESS);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	again = add(s, 20, 20, UINT64_MAX, 0, 64);
	for (int i = 0; i < TAGS; i++)
		assert_int_not_equal(again, entry[i]);
	assert_int_equal(-ENOMEM, op(s, (struct simhca_srq_op_req){ 0 }, NULL));
}

static void an_entry_is_deleted_once(void **state)
{
	struct scene *s = make(*state);
	struct simhca_srq_op_req del = { .opcode = SIMHCA_SRQ_TAG_DEL, .wr_id = 5 };
	uint32_t used, wrong[] = { 0, TAGS, 0xffff, 0xffffffff };

	del.entry = add(s, 1, 1, UINT64_MAX, 0, 64);
	assert_int_equal(0, op(s, del, NULL));
	expect_none(s->cq);
	assert_int_equal(0, op(s, del, NULL));
	expect_why(s->cq, 5, TM_ERR, TM_NO_ENTRY); /* though it was not signaled */
	/* One that a message has had; its place has another by now. */
	used = add(s, 2, 2, UINT64_MAX, 0, 64);
	send_tagged(s, 1, IBV_TMH_EAGER, 2, 8);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	add(s, 3, 3, UINT64_MAX, 0, 64);
	del.entry = used;
	assert_int_equal(0, op(s, del, NULL));
	expect_why(s->cq, 5, TM_ERR, TM_NO_ENTRY);
	wrong[0] = used + 1;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		del.entry = wrong[i];
		assert_int_equal(0, op(s, del, NULL));
		expect_why(s->cq, 5, TM_ERR, TM_NO_ENTRY);
	}
	send_tagged(s, 2, IBV_TMH_EAGER, 3, 8);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
}

/* -------------------------------------------------------------------------------- eager */

static void an_eager_message_goes_to_its_tag(void **state)
{
	struct scene *s = make(*state);
	const uint64_t tag = 0x1122334455667788;
	struct simhca_cqe cqe;

	supply(s, 1, 0);
	add(s, 2, tag, UINT64_MAX, 2048, 1000);
	send_tagged(s, 9, IBV_TMH_EAGER, tag, 900);
	expect(s->a.send_cq, 9, SUCCESS);
	cqe = check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	check_match(&cqe, tag);
	assert_int_equal(cqe.byte_len, 900);
	assert_int_equal(cqe.qpn, s->b.qp->qpn);
	assert_true(filled(s->b.mr->addr + 2048, 900, (uint32_t)tag));
	assert_true(all_bytes(s->b.mr->addr + 2948, 100, 0));
	/* The entry is used up: the next of the same tag takes the receive WQE, header and all. */
	send_tagged(s, 10, IBV_TMH_EAGER, tag, 900);
	check_unexpected(s, 1, 0, tag, 900);
	expect_none(s->cq);
	expect_none(s->b.recv_cq);
}

/* An entry matches if the message's tag under its mask is its tag; the oldest such has it. */
static void the_oldest_that_matches(void **state)
{
	struct scene *s = make(*state);

	add(s, 1, 0x0100, 0xff00, 0, 64);
	add(s, 2, 0x0105, UINT64_MAX, 0, 64);
	add(s, 3, 0, 0, 0, 64);		  /* any */
	add(s, 4, 0x0107, 0x00ff, 0, 64); /* bits outside of its mask: never */
	send_tagged(s, 1, IBV_TMH_EAGER, 0x0105, 8);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	send_tagged(s, 2, IBV_TMH_EAGER, 0x0207, 8);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	send_tagged(s, 3, IBV_TMH_EAGER, 0x0105, 8);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	supply(s, 5, 0);
	send_tagged(s, 4, IBV_TMH_EAGER, 0x0107, 8);
	check_unexpected(s, 5, 0, 0x0107, 8);
}

/* Many packets, of which only the first has the header, and a buffer in pieces. */
static void a_long_eager_message(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	const uint32_t length = 700000;
	struct simhca_srq_op_req req = { .opcode = SIMHCA_SRQ_TAG_ADD,
					 .recv_wr_id = 4,
					 .num_sge = 3 };
	struct scene *s;

	options.buffer = 1 << 20;
	s = make_with(*state, &options);
	req.sge[0] = sge(s->b.mr, 0, 300001);
	req.sge[1] = sge(s->b.mr, 300001, 1);
	req.sge[2] = sge(s->b.mr, 300002, 500000);
	assert_int_equal(0, op(s, req, NULL));
	send_tagged(s, 1, IBV_TMH_EAGER, 77, length);
	expect(s->a.send_cq, 1, SUCCESS);
	assert_int_equal(check_cqe(s, 4, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID).byte_len, length);
	assert_true(filled(s->b.mr->addr, length, 77));
}

/* A header alone, and one that ends with an SGE of the sender. */
static void no_data_and_data_apart(void **state)
{
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	add(s, 1, 5, UINT64_MAX, 100, 0);
	send_tagged(s, 1, IBV_TMH_EAGER, 5, 0);
	cqe = check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	assert_int_equal(cqe.byte_len, 0);
	check_match(&cqe, 5);

	add(s, 2, 5, UINT64_MAX, 100, 300);
	fill(s->a.mr->addr + 1000, 300, 9);
	post(&s->a, .id = 2, .opcode = SIMHCA_WR_SEND_WITH_IMM, .imm = 0x77,
	     SGES(sge(s->a.mr, 0, 10), sge(s->a.mr, 10, 6), sge(s->a.mr, 1000, 300)));
	cqe = check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	assert_int_equal(cqe.byte_len, 300);
	assert_true(cqe.flags & SIMHCA_CQE_IMM);
	assert_int_equal(cqe.imm_or_rkey, 0x77);
	assert_true(filled(s->b.mr->addr + 100, 300, 9));
}

static void a_tagged_buffer_that_is_too_short(void **state)
{
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	add(s, 2, 7, UINT64_MAX, 0, 99);
	send_tagged(s, 1, IBV_TMH_EAGER, 7, 100);
	expect_why(s->a.send_cq, 1, REM_INV_REQ_ERR, RECV_TOO_SHORT);
	cqe = expect_why(s->cq, 2, LOC_LEN_ERR, RECV_TOO_SHORT);
	assert_int_equal(cqe.opcode, SIMHCA_WC_TM_RECV);
	assert_int_equal(cqe.tm_flags, 0);
	assert_false(cqe.flags & SIMHCA_CQE_SRQ);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_ERR);
}

/* NO_TAG, FIN, headers that are none, and what is too short for one. */
static void what_has_no_tag(void **state)
{
	static const uint8_t opcodes[] = { IBV_TMH_NO_TAG, IBV_TMH_FIN, 99 };
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	add(s, 1, 0, 0, 4096, 1024); /* would match anything */
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		supply(s, 10 + i, 0);
		send_tagged(s, i, opcodes[i], 5, 50);
		cqe = check_cqe(s, 10 + i, SIMHCA_WC_TM_NO_TAG, 0);
		assert_int_equal(cqe.byte_len, HEADER + 50);
		assert_int_equal(s->b.mr->addr[0], opcodes[i]);
		assert_true(cqe.flags & SIMHCA_CQE_SRQ);
	}
	for (uint32_t length = 0; length < 32; length += 15) {
		s->a.mr->addr[0] = length == 30 ? IBV_TMH_RNDV : IBV_TMH_EAGER;
		supply(s, 20, 0);
		send_from(&s->a, 1, 0, length);
		assert_int_equal(check_cqe(s, 20, SIMHCA_WC_TM_NO_TAG, 0).byte_len, length);
	}
	/* They do not count as unexpected: the entry still matches, and the next one, too. */
	send_tagged(s, 1, IBV_TMH_EAGER, 8, 8);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	add(s, 2, 8, UINT64_MAX, 4096, 1024);
	send_tagged(s, 1, IBV_TMH_EAGER, 8, 8);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
}

/* A write with immediate data has no header. */
static void a_write_takes_a_receive(void **state)
{
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	add(s, 1, 0, 0, 4096, 1024);
	supply(s, 2, 0);
	post(&s->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = 3,
	     .remote_addr = (uintptr_t)s->b.mr->addr, .rkey = s->b.mr->rkey,
	     SGES(sge(s->a.mr, 0, 100)));
	cqe = check_cqe(s, 2, SIMHCA_WC_RECV_RDMA_WITH_IMM, 0);
	assert_true(cqe.flags & SIMHCA_CQE_SRQ);
	assert_int_equal(cqe.wqe_index, s->srq->srqn);
}

/* -------------------------------------------------------------------------- unexpected */

/*
 * A tag that is added while the client has not counted all unexpected messages matches nothing, for
 * one of them may be its own; those that were there before still do.
 */
static void counts_have_to_agree(void **state)
{
	struct scene *s = make(*state);
	struct simhca_srq_op_req signaled = { .opcode = SIMHCA_SRQ_TAG_ADD,
					      .flags = SIMHCA_SRQ_OP_SIGNALED,
					      .wr_id = 50,
					      .recv_wr_id = 3,
					      .tag = 30,
					      .mask = UINT64_MAX,
					      .num_sge = 1,
					      .sge = { sge(s->b.mr, 4096, 1024) } };

	for (uint64_t i = 0; i < 8; i++)
		supply(s, 100 + i, i * 512);
	add(s, 1, 10, UINT64_MAX, 4096, 1024);
	send_tagged(s, 1, IBV_TMH_EAGER, 20, 8);
	check_unexpected(s, 100, 0, 20, 8);
	send_tagged(s, 2, IBV_TMH_EAGER, 20, 8);
	check_unexpected(s, 101, 512, 20, 8);

	assert_int_equal(0, op(s, signaled, NULL));
	check_cqe(s, 50, SIMHCA_WC_TM_ADD, SYNC_REQ);
	send_tagged(s, 3, IBV_TMH_EAGER, 30, 8);
	check_unexpected(s, 102, 1024, 30, 8);
	send_tagged(s, 4, IBV_TMH_EAGER, 10, 8);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	/* Two are too few by now: the third has come. */
	count(s, 2);
	send_tagged(s, 5, IBV_TMH_EAGER, 30, 8);
	check_unexpected(s, 103, 1536, 30, 8);
	assert_int_equal(0, op(s,
			       (struct simhca_srq_op_req){ .opcode = SIMHCA_SRQ_TAG_SYNC,
							   .flags = SIMHCA_SRQ_OP_SIGNALED,
							   .wr_id = 51,
							   .unexpected = 3 },
			       NULL));
	check_cqe(s, 51, SIMHCA_WC_TM_SYNC, SYNC_REQ);
	count(s, 4);
	send_tagged(s, 6, IBV_TMH_EAGER, 30, 8);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	/* An operation may bring the count along; without the flag its count says nothing. */
	send_tagged(s, 7, IBV_TMH_EAGER, 30, 8);
	check_unexpected(s, 104, 2048, 30, 8);
	signaled.unexpected = 5;
	assert_int_equal(0, op(s, signaled, NULL));
	check_cqe(s, 50, SIMHCA_WC_TM_ADD, SYNC_REQ);
	signaled.flags |= SIMHCA_SRQ_OP_SYNC;
	signaled.tag = 40;
	assert_int_equal(0, op(s, signaled, NULL));
	check_cqe(s, 50, SIMHCA_WC_TM_ADD, 0);
	send_tagged(s, 8, IBV_TMH_EAGER, 30, 8);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	send_tagged(s, 9, IBV_TMH_EAGER, 40, 8);
	check_cqe(s, 3, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
}

/* One that has to wait for a receive WQE is not counted yet, and matches what is added meanwhile.
 */
static void who_waits_is_not_unexpected(void **state)
{
	struct scene *s = make(*state);

	send_tagged(s, 1, IBV_TMH_EAGER, 20, 8);
	expect_none(s->a.send_cq);
	add(s, 1, 20, UINT64_MAX, 4096, 1024);
	advance(*state, 10 * MSEC);
	expect(s->a.send_cq, 1, SUCCESS);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
}

/* Its CQ is not the QP's, but the QP has no other for its receives. */
static void an_srq_whose_cq_is_full(void **state)
{
	struct scene *s = make(*state);

	for (uint64_t i = 0; i < 65; i++) {
		supply(s, i, 0);
		send_tagged(s, i, IBV_TMH_NO_TAG, 1, 8);
		run_until_idle(*state);
		if (i % 32 == 31)
			for (uint64_t n = 0; n < 32; n++)
				expect(s->a.send_cq, i - 31 + n, SUCCESS);
	}
	assert_int_equal(events_of(s->b.client, s->cq, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_ERR);
}

/*
 * A receiver as MPI has it, against engines that run by themselves: messages of one tag, and
 * receives for them that are posted at any time. The i-th receive must get the i-th message,
 * whether the device matches the two or the program does, which looks after unexpected messages.
 */
#define TAGGED(number) (40960 + 8 * ((number) % TAGS)) /* where a receive has its buffer */

struct receiver {
	struct scene *s;
	uint64_t posted, matched; /* receives */
	uint32_t entry[TAGS];	  /* of those between, by number */
	uint64_t queue[64];	  /* numbers of messages for which no receive is posted yet */
	uint32_t head, tail;
	uint32_t unexpected;
	uint32_t by_device;
};

static void post_receive(struct receiver *r)
{
	const uint64_t number = r->posted++;
	struct simhca_srq_op_req req = { .opcode = SIMHCA_SRQ_TAG_ADD,
					 .flags = SIMHCA_SRQ_OP_SYNC,
					 .unexpected = r->unexpected,
					 .recv_wr_id = number,
					 .tag = 1,
					 .mask = UINT64_MAX,
					 .num_sge = 1 };

	if (r->head != r->tail) {
		assert_int_equal(r->queue[r->head++ % 64], number);
		r->matched++;
		return;
	}
	req.sge[0] = sge(r->s->b.mr, TAGGED(number), 8);
	assert_int_equal(0, op(r->s, req, &r->entry[number % TAGS]));
}

static void take_unexpected(struct receiver *r, const struct simhca_cqe *cqe)
{
	uint64_t message;

	memcpy(&message, r->s->b.mr->addr + cqe->wr_id * 1024 + HEADER, 8);
	r->unexpected++;
	if (r->matched == r->posted) {
		r->queue[r->tail++ % 64] = message;
	} else { /* a receive that the device did not take, as our counts did not agree */
		struct simhca_srq_op_req req = { .opcode = SIMHCA_SRQ_TAG_DEL,
						 .flags = SIMHCA_SRQ_OP_SYNC,
						 .unexpected = r->unexpected,
						 .entry = r->entry[r->matched % TAGS] };

		assert_int_equal(message, r->matched++);
		assert_int_equal(0, op(r->s, req, NULL));
	}
	supply(r->s, cqe->wr_id, cqe->wr_id * 1024);
}

static void take(struct receiver *r)
{
	struct simhca_cqe cqe;
	uint64_t message;

	if (!cq_poll(r->s->cq, &cqe))
		return;
	assert_int_equal(cqe.status, 0); /* TM_ERR: the device had taken what we match ourselves */
	if (!cqe.tm_flags) {
		take_unexpected(r, &cqe);
		return;
	}
	memcpy(&message, r->s->b.mr->addr + TAGGED(cqe.wr_id), 8);
	assert_int_equal(cqe.wr_id, r->matched);
	assert_int_equal(message, r->matched++);
	r->by_device++;
}

/* Of its kind, which is counted there. */
static void take_the_first(struct receiver *r, const uint32_t *count)
{
	for (int n = 0; !*count && n < 100000; n++) {
		take(r);
		test_nap(100);
	}
	assert_int_equal(*count, 1);
}

static void send_number(struct receiver *r, uint64_t number)
{
	struct {
		struct ibv_tmh tmh;
		uint64_t number;
	} message = {
		.tmh = { .opcode = IBV_TMH_EAGER, .tag = htobe64(1) },
		.number = number,
	};

	post(&r->s->a, .opcode = SIMHCA_WR_SEND, .inline_data = &message,
	     .inline_len = sizeof(message));
}

static void receives_get_their_messages_in_order(void **state)
{
	enum { MESSAGES = 3000 };
	struct receiver r = { .s = make(*state) };
	uint64_t seed = 11, sent = 0, done = 0;
	struct simhca_cqe cqe;

	for (uint64_t i = 0; i < 32; i++)
		supply(r.s, i, i * 1024);
	/* One of each kind, for later on it may be that all are of one. */
	send_number(&r, sent++);
	take_the_first(&r, &r.unexpected);
	post_receive(&r);
	post_receive(&r);
	send_number(&r, sent++);
	take_the_first(&r, &r.by_device);
	while (r.matched < MESSAGES) {
		uint32_t dice = test_random(&seed) % 8;

		if (dice < 2 && sent < MESSAGES && sent - done < 16 && sent - r.matched < 16) {
			send_number(&r, sent++);
		} else if (dice < 4 && r.posted < MESSAGES && r.posted - r.matched < TAGS / 2) {
			post_receive(&r);
		} else if (dice == 4) {
			sched_yield();
		} else {
			take(&r);
		}
		while (cq_poll(r.s->a.send_cq, &cqe)) {
			assert_int_equal(cqe.status, 0);
			done++;
		}
	}
	assert_int_equal(r.head, r.tail);
}

int main(void)
{
#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(what_is_refused),
		ON_ETHERNET(operations_complete_if_asked),
		ON_ETHERNET(the_list_is_as_long_as_was_asked),
		ON_ETHERNET(an_entry_is_deleted_once),
		ON_BOTH(an_eager_message_goes_to_its_tag),
		ON_BOTH(the_oldest_that_matches),
		ON_BOTH(a_long_eager_message),
		ON_BOTH(no_data_and_data_apart),
		ON_BOTH(a_tagged_buffer_that_is_too_short),
		ON_BOTH(what_has_no_tag),
		ON_BOTH(a_write_takes_a_receive),
		ON_BOTH(counts_have_to_agree),
		ON_BOTH(who_waits_is_not_unexpected),
		ON_BOTH(an_srq_whose_cq_is_full),
		ON_ONE_THREAD(receives_get_their_messages_in_order),
		ON_TWO_THREADS(receives_get_their_messages_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
