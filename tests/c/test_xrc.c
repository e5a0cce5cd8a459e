/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended reliable connections (IBTA vol. 1, annex A14): domains and who gets into them, target
 * QPs that several processes share, and SRQs that each request names.
 */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "harness.h"

#define CREATE SIMHCA_XRCD_CREATE
#define EXCLUSIVE SIMHCA_XRCD_EXCLUSIVE

/* More than one round of the engine carries. */
#define LONG (20u << 20)

/* --------------------------------------------------------------------------- what is used */

static int xrcd_try(struct client *client, int file, uint32_t flags, uint32_t *handle)
{
	const struct simhca_open_xrcd_req req = { .has_fd = file >= 0, .flags = flags };
	struct simhca_handle reply = { 0 };
	int error =
		simhca_open_xrcd(client->context, &req, file >= 0 ? dup(file) : -1, &reply, NULL);

	*handle = reply.handle;
	return error;
}

static uint32_t xrcd_open(struct client *client, int file)
{
	uint32_t handle;

	assert_int_equal(0, xrcd_try(client, file, CREATE, &handle));
	return handle;
}

static int xrcd_close(struct client *client, uint32_t handle)
{
	return simhca_close_xrcd(client->context, handle, NULL);
}

static int file_new(void)
{
	int file = memfd_create("domain", MFD_CLOEXEC);

	assert_true(file >= 0);
	return file;
}

/* One handle of a target QP, which the harness's qp_*() take; it has no rings. */
static struct qp *target_handle(struct client *client)
{
	struct qp *qp = world_alloc(client->world, sizeof(*qp));

	qp->client = client;
	qp->type = IBV_QPT_XRC_RECV;
	qp->state = world_alloc(client->world, sizeof(*qp->state));
	return qp;
}

static struct qp *target_new(struct client *client, uint32_t xrcd)
{
	struct qp *qp = target_handle(client);
	const struct simhca_create_qp_req req = {
		.type = SIMHCA_QPT_XRC_RECV,
		.xrcd = xrcd,
		.user_handle.element = (uintptr_t)qp,
	};

	assert_int_equal(0, simhca_create_qp(client->context, &req, &qp->granted, NULL));
	qp->handle = qp->granted.handle;
	qp->qpn = qp->granted.qpn;
	return qp;
}

static int target_try(struct client *client, uint32_t xrcd, uint32_t qpn, struct qp **out)
{
	struct qp *qp = target_handle(client);
	const struct simhca_open_qp_req req = {
		.user_handle.element = (uintptr_t)qp,
		.xrcd = xrcd,
		.qpn = qpn,
	};
	struct simhca_handle reply = { 0 };
	int error = simhca_open_qp(client->context, &req, &reply, NULL);

	qp->handle = reply.handle;
	qp->qpn = qpn;
	*out = qp;
	return error;
}

static struct qp *target_open(struct client *client, uint32_t xrcd, uint32_t qpn)
{
	struct qp *qp;

	assert_int_equal(0, target_try(client, xrcd, qpn, &qp));
	return qp;
}

static int target_close(struct qp *qp)
{
	return patiently(simhca_destroy_qp(qp->client->context, qp->handle, NULL));
}

/* A process that receives: its handle of the domain, its SRQ and CQ, its memory. */
struct server {
	struct client *client;
	uint32_t xrcd;
	struct cq *cq;
	struct srq *srq;
	struct mr *mr;
	struct qp *target; /* its handle of the one target QP */
};

/* Two servers that share a domain and a target QP, which the first has made; and who sends. */
struct scene {
	struct world *world;
	int file;
	struct options options;
	struct server server[2];
	struct client *client;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
};

static void server_make(struct scene *s, struct server *server)
{
	server->client = client_new(s->world, 1);
	server->xrcd = xrcd_open(server->client, s->file);
	server->cq = cq_new(server->client, 64);
	server->srq = xrc_srq_new(server->client, server->xrcd, server->cq, 64);
	server->mr = mr_new(server->client, s->options.buffer, ALL_ACCESS);
}

static struct scene *make_with(struct world *world, const struct options *options)
{
	struct scene *s = world_alloc(world, sizeof(*s));
	struct options send = *options;

	s->world = world;
	s->options = *options;
	s->file = file_new();
	server_make(s, &s->server[0]);
	server_make(s, &s->server[1]);
	s->server[0].target = target_new(s->server[0].client, s->server[0].xrcd);
	s->server[1].target =
		target_open(s->server[1].client, s->server[1].xrcd, s->server[0].target->qpn);

	send.type = IBV_QPT_XRC_SEND;
	s->client = client_new(world, 0);
	s->cq = cq_new(s->client, 256);
	s->mr = mr_new(s->client, options->buffer, ALL_ACCESS);
	s->qp = qp_new(s->client, &send, s->cq, s->cq, NULL);
	qp_connect(s->server[0].target, 0, s->qp->qpn, options);
	qp_connect(s->qp, 1, s->server[0].target->qpn, &send);
	close(s->file);
	return s;
}

static struct scene *make(struct world *world)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);

	return make_with(world, &options);
}

static void supply(struct server *server, uint64_t id)
{
	struct simhca_sge one = sge(server->mr, (id % 32) * 1024, 1024);

	srq_recv(server->srq, id, &one, 1);
}

#define xrc_post(s, ...) qp_post((s)->qp, &(struct wr){ .flags = SIMHCA_WQE_SIGNALED, __VA_ARGS__ })

static void send_to(struct scene *s, uint64_t id, uint32_t srqn)
{
	fill(s->mr->addr, 100, (uint32_t)id);
	xrc_post(s, .id = id, .opcode = SIMHCA_WR_SEND, .srqn = srqn, SGES(sge(s->mr, 0, 100)));
}

static void check_arrives(struct scene *s, struct server *server, uint64_t id)
{
	struct simhca_cqe cqe;

	supply(server, id);
	send_to(s, id, server->srq->srqn);
	expect(s->cq, id, SUCCESS);
	cqe = expect(server->cq, id, SUCCESS);
	assert_int_equal(cqe.opcode, SIMHCA_WC_RECV);
	assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ);
	assert_int_equal(cqe.qpn, s->server[0].target->qpn);
	assert_int_equal(cqe.wqe_index, server->srq->srqn);
	assert_int_equal(cqe.byte_len, 100);
	assert_true(filled(server->mr->addr + (id % 32) * 1024, 100, (uint32_t)id));
}

/* The connection has ended: both QPs are in ERR, and everybody who has the target open knows. */
static void check_refused(struct scene *s, uint32_t event)
{
	settle(s->world);
	assert_int_equal(qp_state(s->qp), IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		struct server *server = &s->server[i];

		assert_int_equal(qp_state(server->target), IBV_QPS_ERR);
		assert_int_equal(events_of(server->client, server->target, event), 1);
		assert_int_equal(events_of(server->client, server->target,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 1);
	}
}

/* ------------------------------------------------------------------------------- domains */

static void a_file_names_a_domain(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	struct client *elsewhere = client_new(*state, 1);
	int file = file_new(), other = file_new();
	uint32_t a, b, c, d;

	assert_int_equal(-ENOENT, xrcd_try(one, file, 0, &a));
	assert_int_equal(-ENOENT, xrcd_try(one, file, EXCLUSIVE, &a));
	assert_int_equal(0, xrcd_try(one, file, CREATE | EXCLUSIVE, &a));
	assert_int_equal(-EINVAL, xrcd_try(two, file, CREATE | EXCLUSIVE, &b));
	assert_int_equal(-EINVAL, xrcd_try(two, file, EXCLUSIVE, &b));
	assert_int_equal(0, xrcd_try(two, file, 0, &b));
	assert_int_equal(0, xrcd_try(two, file, CREATE, &c));
	assert_int_equal(0, xrcd_try(two, other, CREATE | EXCLUSIVE, &d));
	/* Another device has domains of its own. */
	assert_int_equal(-ENOENT, xrcd_try(elsewhere, file, 0, &d));
	/* It lives as long as anybody has it open, and no longer. */
	assert_int_equal(0, xrcd_close(one, a));
	assert_int_equal(-EINVAL, xrcd_close(one, a));
	assert_int_equal(0, xrcd_close(two, b));
	assert_int_equal(0, xrcd_try(one, file, 0, &a));
	assert_int_equal(0, xrcd_close(one, a));
	client_gone(two);
	assert_int_equal(-ENOENT, xrcd_try(one, file, 0, &a));
	assert_int_equal(-EINVAL, xrcd_try(one, file, CREATE | 1u << 5, &a));
	close(file);
	close(other);
}

/* The file is held, so no later one can have its inode number and get into the domain by it. */
static void the_file_is_held(void **state)
{
	struct client *client = client_new(*state, 0);
	char path[] = "/tmp/simhca-test-xrc-XXXXXX";
	uint32_t domain, other;
	int file = mkstemp(path);

	assert_true(file >= 0);
	domain = xrcd_open(client, file);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(0, unlink(path));
		close(file);
		file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(file >= 0);
		assert_int_equal(-ENOENT, xrcd_try(client, file, 0, &other));
	}
	assert_int_equal(0, unlink(path));
	close(file);
	assert_int_equal(0, xrcd_close(client, domain));
}

static void a_domain_without_a_file_is_nobody_elses(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t one = xrcd_open(client, -1), two = xrcd_open(client, -1);
	struct qp *target = target_new(client, one), *opened;

	assert_int_equal(-EINVAL, target_try(client, two, target->qpn, &opened));
	assert_int_equal(0, target_close(target));
	assert_int_equal(0, xrcd_close(client, one));
	assert_int_equal(0, xrcd_close(client, two));
}

/* All eventfds are one inode: whoever has any could open everybody's domain. */
static void a_file_without_an_inode_of_its_own_is_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	int event = eventfd(0, EFD_CLOEXEC);
	const struct simhca_open_xrcd_req lies = { .has_fd = 1, .flags = CREATE };
	struct simhca_handle reply;
	uint32_t handle;

	assert_int_equal(-EINVAL, xrcd_try(client, event, CREATE, &handle));
	close(event);
	assert_int_equal(-EINVAL, simhca_open_xrcd(client->context, &lies, -1, &reply, NULL));
}

static void a_domain_in_use_is_not_closed(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	int file = file_new();
	uint32_t a = xrcd_open(one, file), b = xrcd_open(two, file), again = xrcd_open(one, file);
	struct cq *cq = cq_new(one, 4);
	struct srq *srq = xrc_srq_new(one, a, cq, 4);
	struct qp *target = target_new(one, a);
	struct qp *opened = target_open(two, b, target->qpn);

	close(file);
	assert_int_equal(-EBUSY, xrcd_close(one, a));
	assert_int_equal(-EBUSY, xrcd_close(two, b));
	assert_int_equal(0, xrcd_close(one, again)); /* nothing was made through that one */
	assert_int_equal(-EBUSY, simhca_destroy_cq(one->context, cq->handle, NULL));
	assert_int_equal(0, target_close(target));
	assert_int_equal(-EBUSY, xrcd_close(one, a));
	assert_int_equal(0, patiently(simhca_destroy_srq(one->context, srq->handle, NULL)));
	assert_int_equal(0, simhca_destroy_cq(one->context, cq->handle, NULL));
	assert_int_equal(0, xrcd_close(one, a));
	assert_int_equal(0, target_close(opened));
	assert_int_equal(0, xrcd_close(two, b));
}

/* ------------------------------------------------------------------------------ making them */

static void what_does_not_fit_together(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t xrcd = xrcd_open(client, -1);
	struct cq *cq = cq_new(client, 4);
	struct srq *xrc = xrc_srq_new(client, xrcd, cq, 4), *basic = srq_new(client, 4, 1, 0);
	struct simhca_create_srq_req srq = { .type = SIMHCA_SRQT_XRC,
					     .xrcd = xrcd,
					     .cq = cq->handle,
					     .pd = client->pd,
					     .max_wr = 4 };
	struct simhca_create_qp_req qp = {
		.type = SIMHCA_QPT_RC,
		.pd = client->pd,
		.send_cq = cq->handle,
		.recv_cq = cq->handle,
		.srq = xrc->handle,
		.has_srq = 1,
		.max_send_wr = 4,
	};
	struct simhca_create_srq_reply srq_reply;
	struct simhca_create_qp_reply qp_reply;

	assert_int_not_equal(xrc->srqn, basic->srqn);
	/* An XRC SRQ is for targets, not for a QP of its own. */
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	/* An initiator receives nothing, and needs no CQ for it. */
	qp.type = SIMHCA_QPT_XRC_SEND;
	qp.recv_cq = 77;
	qp.srq = basic->handle;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	qp.has_srq = 0;
	assert_int_equal(0, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	assert_int_equal(qp_reply.rq_entries, 0);
	qp.max_recv_wr = 1;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	qp.max_recv_wr = 0;
	qp.max_recv_sge = 1;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	/* A target needs a domain, and an XRC SRQ a domain and a CQ. */
	qp = (struct simhca_create_qp_req){ .type = SIMHCA_QPT_XRC_RECV, .xrcd = xrcd + 1 };
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	srq.xrcd++;
	assert_int_equal(-EINVAL, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.xrcd--;
	srq.cq++;
	assert_int_equal(-EINVAL, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.type = 7;
	assert_int_equal(-EOPNOTSUPP, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
}

/* Each transition with what it needs; with one of these missing; with one that is no QP's of it. */
static void attributes_of_each_half(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct scene *s = make(*state);
		struct qp *qp = types[t] == IBV_QPT_XRC_SEND ? s->qp : s->server[1].target;
		struct simhca_qp_attr attr = qp_attr_to(qp, 1, 5, &s->options), got;
		const uint32_t masks[] = { init_mask(types[t]), rtr_mask(types[t]),
					   rts_mask(types[t]) };

		assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
		for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
			attr.qp_state = (uint32_t)i + 1;
			for (uint32_t bit = 2; bit < 1u << 21; bit <<= 1) {
				uint32_t mask = masks[i] ^ bit;

				if ((masks[i] & bit) || bit == SIMHCA_QP_QKEY ||
				    bit == SIMHCA_QP_CAP || bit == SIMHCA_QP_EN_SQD_ASYNC_NOTIFY)
					assert_int_equal(-EINVAL, qp_modify(qp, mask, attr));
			}
			assert_int_equal(0, qp_modify(qp, masks[i], attr));
		}
		got = qp_query(qp);
		assert_int_equal(got.dest_qp_num, 5);
		assert_int_equal(got.path_mtu, s->options.path_mtu);
		assert_int_equal(got.timeout, s->options.timeout);
		assert_int_equal(got.qp_access_flags, s->options.access);
		if (types[t] == IBV_QPT_XRC_SEND) {
			assert_int_equal(got.retry_cnt, s->options.retry_cnt);
			assert_int_equal(got.max_rd_atomic, s->options.max_rd_atomic);
		} else {
			assert_int_equal(got.min_rnr_timer, s->options.min_rnr_timer);
			assert_int_equal(got.max_dest_rd_atomic, s->options.max_dest_rd_atomic);
		}
		/* What is about the other half is taken on the way to RTS, and says nothing. */
		assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
		for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
			static const uint32_t rc[] = { 0,
						       SIMHCA_QP_MAX_DEST_RD_ATOMIC |
							       SIMHCA_QP_MIN_RNR_TIMER,
						       SIMHCA_QP_RETRY_CNT | SIMHCA_QP_RNR_RETRY |
							       SIMHCA_QP_MAX_QP_RD_ATOMIC };

			attr.qp_state = (uint32_t)i + 1;
			assert_int_equal(0, qp_modify(qp, masks[i] | rc[i], attr));
		}
	}
}

/* A target has no send queue: it is drained as soon as somebody asks. */
static void a_target_drains_at_once(void **state)
{
	struct scene *s = make(*state);
	struct server *server = &s->server[1];

	assert_int_equal(0,
			 qp_modify(server->target, SIMHCA_QP_STATE | SIMHCA_QP_EN_SQD_ASYNC_NOTIFY,
				   (struct simhca_qp_attr){ .qp_state = IBV_QPS_SQD,
							    .en_sqd_async_notify = 1 }));
	assert_int_equal(events_of(server->client, server->target, IBV_EVENT_SQ_DRAINED), 1);
	assert_int_equal(qp_query(server->target).sq_draining, 0);
	check_arrives(s, server, 1);
}

/* -------------------------------------------------------------------------------- messages */

static void a_request_names_the_srq(void **state)
{
	struct scene *s = make(*state);

	for (uint64_t id = 0; id < 100; id++)
		check_arrives(s, &s->server[id * 7 % 3 % 2], id);
	expect_none(s->server[0].cq);
	expect_none(s->server[1].cq);
}

static void every_operation(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	const uint32_t srqn = to->srq->srqn, rkey = to->mr->rkey;
	const uint64_t remote = (uintptr_t)to->mr->addr;
	uint64_t *word = (uint64_t *)(void *)(to->mr->addr + 40000);
	uint64_t *local = (uint64_t *)(void *)(s->mr->addr + 40000);
	struct simhca_cqe cqe;

	fill(s->mr->addr, 20000, 1);
	supply(to, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND_WITH_IMM, .imm = 0x1234, .srqn = srqn,
		 SGES(sge(s->mr, 0, 1000)));
	expect(s->cq, 1, SUCCESS);
	cqe = expect(to->cq, 1, SUCCESS);
	assert_int_equal(cqe.imm_or_rkey, 0x1234);
	assert_true(cqe.flags & SIMHCA_CQE_IMM);
	assert_true(filled(to->mr->addr + 1024, 1000, 1));

	xrc_post(s, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .srqn = srqn, .rkey = rkey,
		 .remote_addr = remote + 10000, SGES(sge(s->mr, 0, 20000)));
	expect(s->cq, 2, SUCCESS);
	assert_true(filled(to->mr->addr + 10000, 20000, 1));

	supply(to, 3);
	xrc_post(s, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = 9, .srqn = srqn,
		 .rkey = rkey, .remote_addr = remote + 5000, SGES(sge(s->mr, 0, 3000)));
	expect(s->cq, 3, SUCCESS);
	cqe = expect(to->cq, 3, SUCCESS);
	assert_int_equal(cqe.opcode, SIMHCA_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_len, 3000);
	assert_int_equal(cqe.wqe_index, srqn);

	memset(s->mr->addr, 0, 20000);
	xrc_post(s, .id = 4, .opcode = SIMHCA_WR_RDMA_READ, .srqn = srqn, .rkey = rkey,
		 .remote_addr = remote + 10000, SGES(sge(s->mr, 0, 20000)));
	expect(s->cq, 4, SUCCESS);
	assert_true(filled(s->mr->addr, 20000, 1));

	*word = 5;
	xrc_post(s, .id = 5, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .srqn = srqn, .rkey = rkey,
		 .remote_addr = (uintptr_t)word, .compare_add = 7, SGES(sge(s->mr, 40000, 8)));
	expect(s->cq, 5, SUCCESS);
	assert_int_equal(*local, 5);
	xrc_post(s, .id = 6, .opcode = SIMHCA_WR_ATOMIC_CMP_AND_SWP, .srqn = srqn, .rkey = rkey,
		 .remote_addr = (uintptr_t)word, .compare_add = 12, .swap = 99,
		 SGES(sge(s->mr, 40000, 8)));
	expect(s->cq, 6, SUCCESS);
	assert_int_equal(*local, 12);
	assert_int_equal(*word, 99);

	supply(to, 7);
	xrc_post(s, .id = 7, .opcode = SIMHCA_WR_SEND, .srqn = srqn, .inline_data = "inline",
		 .inline_len = 6);
	expect(s->cq, 7, SUCCESS);
	expect(to->cq, 7, SUCCESS);
	assert_memory_equal(to->mr->addr + 7 * 1024, "inline", 6);
	expect_none(s->server[0].cq);
}

/* Annex A14: XRC's keys are of the PD of the SRQ that the request names, not of a QP's. */
static void keys_are_of_the_srqs_pd(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t length;
	} one_sided[] = {
		{ SIMHCA_WR_RDMA_WRITE, 100 },
		{ SIMHCA_WR_RDMA_READ, 100 },
		{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct scene *s = make(*state);
		struct server *owner = &s->server[i % 2], *other = &s->server[(i + 1) % 2];
		struct wr wr = {
			.id = 1,
			.flags = SIMHCA_WQE_SIGNALED,
			.opcode = one_sided[i].opcode,
			.rkey = owner->mr->rkey,
			.remote_addr = (uintptr_t)owner->mr->addr,
			.srqn = owner->srq->srqn,
			SGES(sge(s->mr, 0, one_sided[i].length)),
		};

		qp_post(s->qp, &wr);
		expect(s->cq, 1, SUCCESS);
		wr.srqn = other->srq->srqn;
		qp_post(s->qp, &wr);
		expect_why(s->cq, 1, REM_ACCESS_ERR, KEY_WRONG_PD);
		check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	}
}

/* The key that a send invalidates is looked for in that PD as well. */
static void a_send_may_invalidate(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct options rc = default_options(IBV_QPT_RC);
	struct mr *region = fast_mr_new(to->client, to->client->pd, 1);
	struct cq *cq = cq_new(to->client, 4);
	struct qp *local = qp_new(to->client, &rc, cq, cq, NULL);
	uint64_t page = (uintptr_t)aligned_alloc(4096, 4096);
	struct simhca_cqe cqe;

	qp_connect(local, 1, local->qpn, &rc);
	qp_fast_reg(local, 1, region, &page, 1, page, 4096, ALL_ACCESS);
	qp_ring(local);
	expect(cq, 1, SUCCESS);
	for (int i = 0; i < 2; i++) {
		supply(to, 2);
		xrc_post(s, .id = 2, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = region->rkey,
			 .srqn = to->srq->srqn);
		if (i)
			break;
		expect(s->cq, 2, SUCCESS);
		cqe = expect(to->cq, 2, SUCCESS);
		assert_true(cqe.flags & SIMHCA_CQE_INV);
		assert_int_equal(cqe.imm_or_rkey, region->rkey);
	}
	expect_why(s->cq, 2, REM_ACCESS_ERR, MR_NOT_VALID);
	expect_why(to->cq, 2, LOC_ACCESS_ERR, MR_NOT_VALID);
	free((void *)(uintptr_t)page);
}

static void the_target_grants_the_rights(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;

	options.access = SIMHCA_ACCESS_REMOTE_READ;
	s = make_with(*state, &options);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, .srqn = s->server[0].srq->srqn,
		 .rkey = s->server[0].mr->rkey, .remote_addr = (uintptr_t)s->server[0].mr->addr,
		 SGES(sge(s->mr, 0, 8)));
	expect_why(s->cq, 1, REM_INV_REQ_ERR, QP_NO_REMOTE_WRITE);
	check_refused(s, IBV_EVENT_QP_REQ_ERR);
}

/* A sender waits for one SRQ while the other, of the same connection, has receives. */
static void an_empty_srq_means_wait(void **state)
{
	struct scene *s = make(*state);

	supply(&s->server[0], 9);
	send_to(s, 1, s->server[1].srq->srqn);
	expect_none(s->cq);
	supply(&s->server[1], 2);
	advance(*state, 10 * MSEC);
	expect(s->cq, 1, SUCCESS);
	expect(s->server[1].cq, 2, SUCCESS);
	expect_none(s->server[0].cq);
}

static void an_srq_gives_its_limit_event(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];

	supply(to, 1);
	supply(to, 2);
	assert_int_equal(0, srq_modify(to->srq, SIMHCA_SRQ_LIMIT, 0, 2));
	send_to(s, 1, to->srq->srqn);
	expect(s->cq, 1, SUCCESS);
	assert_int_equal(events_of(to->client, to->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
}

/* ------------------------------------------------------------------------------------ errors */

static void a_number_that_is_no_xrc_srqs(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct scene *s = make(*state);
		struct server *to = &s->server[0];
		uint32_t srqn = to->srq->srqn;

		switch (i) {
		case 0: /* nobody's */
			srqn = 0x7ffff;
			break;
		case 1: /* another generation of the slot */
			srqn ^= 1u << 20;
			break;
		case 2: /* an ordinary SRQ's */
			srqn = srq_new(to->client, 4, 1, 0)->srqn;
			break;
		case 3: /* one that was */
			assert_int_equal(0, patiently(simhca_destroy_srq(to->client->context,
									 to->srq->handle, NULL)));
			break;
		}
		send_to(s, 1, srqn);
		expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
		check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	}
}

static void an_srq_of_another_domain(void **state)
{
	struct scene *s = make(*state);
	struct client *stranger = client_new(*state, 1);
	struct cq *cq = cq_new(stranger, 4);
	struct srq *srq = xrc_srq_new(stranger, xrcd_open(stranger, -1), cq, 4);
	struct mr *mr = mr_new(stranger, 1024, ALL_ACCESS);
	struct simhca_sge one = sge(mr, 0, 1024);

	srq_recv(srq, 1, &one, 1);
	send_to(s, 1, srq->srqn);
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_OTHER_DOMAIN);
	check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	assert_true(all_bytes(mr->addr, 1024, 0));
	expect_none(cq);
}

static void a_bad_receive_fails_at_the_srqs_owner(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct simhca_sge bad = sge(to->mr, 0, 50);

	srq_recv(to->srq, 5, &bad, 1); /* shorter than the message */
	send_to(s, 1, to->srq->srqn);
	expect_why(s->cq, 1, REM_INV_REQ_ERR, RECV_TOO_SHORT);
	expect_why(to->cq, 5, LOC_LEN_ERR, RECV_TOO_SHORT);
	expect_none(s->server[0].cq);
}

/* Who writes nonsense into an SRQ hears of it; the connection it shares ends, as with any error. */
static void an_srq_that_makes_no_sense(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];

	atomic_store(&to->srq->state->pi, 0xdeadbeef);
	send_to(s, 1, to->srq->srqn);
	expect_why(s->cq, 1, REM_OP_ERR, RING_CORRUPT);
	assert_int_equal(events_of(to->client, to->srq, IBV_EVENT_SRQ_ERR), 1);
	assert_int_equal(events_of(s->server[0].client, s->server[0].srq, IBV_EVENT_SRQ_ERR), 0);
}

/* A CQ that was full is dead: what came to its SRQ would complete nowhere. */
static void an_srq_whose_cq_is_dead(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct cq *small = cq_new(to->client, 1);
	struct srq *srq = xrc_srq_new(to->client, to->xrcd, small, 8);
	struct simhca_sge one = sge(to->mr, 0, 1024);

	for (uint64_t id = 0; id < 4; id++)
		srq_recv(srq, id, &one, 1);
	for (uint64_t id = 0; id < 2; id++) {
		send_to(s, id, srq->srqn);
		expect(s->cq, id, SUCCESS);
	}
	assert_int_equal(events_of(to->client, small, IBV_EVENT_CQ_ERR), 1);
	check_arrives(s, to, 1); /* by another SRQ and CQ */
	send_to(s, 3, srq->srqn);
	expect_why(s->cq, 3, REM_OP_ERR, XRC_CQ_ERROR);
	check_refused(s, IBV_EVENT_QP_REQ_ERR);
}

/* An initiator and an RC QP, each connected to the wrong kind; a target and a third QP. */
static void halves_do_not_mix(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct scene *s = make(*state);
	struct qp *target = s->server[0].target;
	struct qp *rc, *initiator;

	options.timeout = 8;
	rc = qp_new(s->client, &options, s->cq, s->cq, NULL);
	options.type = IBV_QPT_XRC_SEND;
	initiator = qp_new(s->client, &options, s->cq, s->cq, NULL);
	for (int i = 0; i < 3; i++) {
		struct qp *from = i == 0 ? rc : initiator;
		struct qp *to = i == 1 ? rc : target;

		assert_int_equal(0, qp_move(from, IBV_QPS_RESET));
		assert_int_equal(0, qp_move(to, IBV_QPS_RESET));
		options.type = from->type;
		qp_connect(from, to == target ? 1 : 0, to->qpn, &options);
		/* The last target listens to another initiator than this. */
		qp_connect(to, 0, i == 2 ? s->qp->qpn : from->qpn, &options);
		supply(&s->server[0], 1);
		qp_recv(rc, 1, NULL, 0);
		qp_post(from, &(struct wr){ .id = 8,
					    .flags = SIMHCA_WQE_SIGNALED,
					    .opcode = SIMHCA_WR_SEND,
					    .srqn = s->server[0].srq->srqn });
		for (int n = 0; n < 20; n++)
			advance(*state, 10 * MSEC);
		expect_why(s->cq, 8, RETRY_EXC_ERR, NO_RESPONSE);
		expect_none(s->server[0].cq);
		if (i == 0)
			expect_why(s->cq, 1, WR_FLUSH_ERR, FLUSHED);
		expect_none(s->cq);
	}
}

/* ---------------------------------------------------------------------------- life and death */

static void anybody_in_the_domain_may_open_it(void **state)
{
	struct world *world = *state;
	struct scene *s = make(world);
	struct client *stranger = client_new(world, 1), *third = client_new(world, 1);
	struct options rc = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(stranger, 4);
	struct qp *qp = qp_new(stranger, &rc, cq, cq, NULL), *opened;
	uint32_t other = xrcd_open(stranger, -1), here;
	int file = file_new();

	/* Who is not in the domain cannot, nor can anybody open what is no target. */
	assert_int_equal(-EINVAL, target_try(stranger, other, s->server[0].target->qpn, &opened));
	assert_int_equal(-EINVAL, target_try(stranger, other, qp->qpn, &opened));
	here = xrcd_open(third, file);
	assert_int_equal(-EINVAL, target_try(third, here, s->server[0].target->qpn, &opened));
	close(file);
	/* All handles are of one QP: each may change it, and all see it. */
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_RESET));
	assert_int_equal(qp_state(s->server[0].target), IBV_QPS_RESET);
	qp_up_to(s->server[0].target, IBV_QPS_INIT,
		 qp_attr_to(s->server[0].target, 0, s->qp->qpn, &s->options));
	assert_int_equal(qp_query(s->server[1].target).qp_access_flags, s->options.access);
	/* One process may have it open several times. */
	opened = target_open(s->server[1].client, s->server[1].xrcd, s->server[0].target->qpn);
	assert_int_not_equal(opened->handle, s->server[1].target->handle);
	assert_int_equal(0, target_close(s->server[1].target));
	assert_int_equal(qp_state(opened), IBV_QPS_INIT);
}

static void the_target_outlives_its_maker(void **state)
{
	struct scene *s = make(*state);
	uint32_t qpn = s->server[0].target->qpn;

	check_arrives(s, &s->server[0], 1);
	client_gone(s->server[0].client);
	for (uint64_t id = 0; id < 10; id++)
		check_arrives(s, &s->server[1], id);
	/* The SRQ of who is gone is gone; that ends the connection, as any bad request does. */
	send_to(s, 1, s->server[0].srq->srqn);
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
	settle(*state);
	assert_int_equal(
		events_of(s->server[1].client, s->server[1].target, IBV_EVENT_QP_ACCESS_ERR), 1);
	/* It can be connected again. */
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
	qp_connect(s->server[1].target, 0, s->qp->qpn, &s->options);
	s->options.type = IBV_QPT_XRC_SEND;
	qp_connect(s->qp, 1, qpn, &s->options);
	check_arrives(s, &s->server[1], 3);
}

static void it_goes_with_the_last_who_has_it_open(void **state)
{
	struct scene *s = make(*state);

	assert_int_equal(0, target_close(s->server[0].target));
	check_arrives(s, &s->server[0], 1); /* its SRQ is not the QP's */
	client_gone(s->server[1].client);
	supply(&s->server[0], 1);
	send_to(s, 1, s->server[0].srq->srqn);
	for (int n = 0; n < 100; n++)
		advance(*state, 100 * MSEC);
	expect_why(s->cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
	expect_none(s->server[0].cq);
}

static void events_go_to_all(void **state)
{
	struct scene *s = make(*state);

	assert_int_equal(0, qp_move(s->server[0].target, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
	qp_up_to(s->server[0].target, IBV_QPS_RTR,
		 qp_attr_to(s->server[0].target, 0, s->qp->qpn, &s->options));
	s->options.type = IBV_QPT_XRC_SEND;
	qp_connect(s->qp, 1, s->server[0].target->qpn, &s->options);
	check_arrives(s, &s->server[1], 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			events_of(s->server[i].client, s->server[i].target, IBV_EVENT_COMM_EST), 1);
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_ERR));
	for (int i = 0; i < 2; i++)
		assert_int_equal(events_of(s->server[i].client, s->server[i].target,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 1);
	assert_int_equal(events_of(s->client, s->qp, IBV_EVENT_QP_LAST_WQE_REACHED), 0);
}

/* A message of several turns of the engine, whose SRQ goes between two of them. */
static void the_srq_goes_in_the_middle_of_a_message(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;
	struct server *to;
	struct simhca_sge all;

	options.buffer = LONG;
	s = make_with(*state, &options);
	to = &s->server[1];
	all = sge(to->mr, 0, LONG);
	srq_recv(to->srq, 1, &all, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND, .srqn = to->srq->srqn,
		 SGES(sge(s->mr, 0, LONG)));
	rounds(*state, 1);
	assert_int_equal(0,
			 patiently(simhca_destroy_srq(to->client->context, to->srq->handle, NULL)));
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
	check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	expect_none(to->cq);
}

/* The same, but the QP goes to ERR: the receive that the message had taken is flushed. */
static void the_target_fails_in_the_middle_of_a_message(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;
	struct server *to;
	struct simhca_sge all;
	struct simhca_cqe cqe;

	options.buffer = LONG;
	options.timeout = 8;
	s = make_with(*state, &options);
	to = &s->server[1];
	all = sge(to->mr, 0, LONG);
	srq_recv(to->srq, 1, &all, 1);
	srq_recv(to->srq, 2, &all, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND, .srqn = to->srq->srqn,
		 SGES(sge(s->mr, 0, LONG)));
	rounds(*state, 1);
	assert_int_equal(0, qp_move(s->server[0].target, IBV_QPS_ERR));
	cqe = expect_why(to->cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ);
	assert_int_equal(cqe.wqe_index, to->srq->srqn);
	expect_none(to->cq);
	expect_none(s->server[0].cq);
}

/* Under load, with engines that run by themselves: processes come, receive a little, and go. */
static void processes_come_and_go(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct server *keeper;
	uint64_t seed = 7;
	struct scene *s;

	options.buffer = 256 * 1024;
	s = make_with(*state, &options);
	keeper = &s->server[0];

	for (int n = 0; n < 60; n++) {
		struct server guest = { .client = client_new(*state, 1) };
		struct simhca_cqe cqe;
		int status;

		guest.xrcd = xrcd_open(guest.client, -1);
		assert_int_equal(0, xrcd_close(guest.client, guest.xrcd));
		client_gone(guest.client);
		for (int i = 0; i < 32; i++)
			supply(keeper, (uint64_t)i);
		guest.client = s->server[1].client;
		guest.cq = s->server[1].cq;
		guest.mr = s->server[1].mr;
		guest.srq = xrc_srq_new(guest.client, s->server[1].xrcd, guest.cq, 64);
		/* Long messages, for the SRQ to go in the middle of one. */
		for (uint64_t i = 0; i < 16; i++) {
			struct simhca_sge all = sge(guest.mr, 0, 256 * 1024);

			srq_recv(guest.srq, i, &all, 1);
			xrc_post(s, .id = i, .opcode = SIMHCA_WR_SEND, .srqn = keeper->srq->srqn,
				 SGES(sge(s->mr, 0, 100)));
			xrc_post(s, .id = i, .opcode = SIMHCA_WR_SEND, .srqn = guest.srq->srqn,
				 SGES(sge(s->mr, 0, 256 * 1024)));
		}
		test_nap(test_random(&seed) % 300);
		assert_int_equal(0, patiently(simhca_destroy_srq(guest.client->context,
								 guest.srq->handle, NULL)));
		/* All arrived, or what came too late was refused and ended the connection. */
		status = IBV_WC_SUCCESS;
		for (int i = 0; i < 32; i++) {
			assert_true(cq_wait(s->cq, &cqe));
			if (status == IBV_WC_SUCCESS && cqe.status == IBV_WC_REM_ACCESS_ERR)
				assert_int_equal(cqe.vendor_err, SIMHCA_REASON_XRC_NO_SRQ);
			else
				assert_int_equal(cqe.status, status ? IBV_WC_WR_FLUSH_ERR : 0);
			status = cqe.status;
		}
		while (cq_poll(guest.cq, &cqe) || cq_poll(keeper->cq, &cqe))
			;
		assert_int_equal(0, qp_move(keeper->target, IBV_QPS_RESET));
		assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
		assert_int_equal(0, patiently(simhca_destroy_srq(keeper->client->context,
								 keeper->srq->handle, NULL)));
		keeper->srq = xrc_srq_new(keeper->client, keeper->xrcd, keeper->cq, 64);
		s->options.type = IBV_QPT_XRC_RECV;
		qp_connect(keeper->target, 0, s->qp->qpn, &s->options);
		s->options.type = IBV_QPT_XRC_SEND;
		qp_connect(s->qp, 1, keeper->target->qpn, &s->options);
	}
}

int main(void)
{
#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_file_names_a_domain),
		ON_ETHERNET(the_file_is_held),
		ON_ETHERNET(a_domain_without_a_file_is_nobody_elses),
		ON_ETHERNET(a_file_without_an_inode_of_its_own_is_refused),
		ON_ETHERNET(a_domain_in_use_is_not_closed),
		ON_ETHERNET(what_does_not_fit_together),
		ON_ETHERNET(attributes_of_each_half),
		ON_ETHERNET(a_target_drains_at_once),
		ON_BOTH(a_request_names_the_srq),
		ON_BOTH(every_operation),
		ON_BOTH(keys_are_of_the_srqs_pd),
		ON_BOTH(a_send_may_invalidate),
		ON_BOTH(the_target_grants_the_rights),
		ON_BOTH(an_empty_srq_means_wait),
		ON_BOTH(an_srq_gives_its_limit_event),
		ON_BOTH(a_number_that_is_no_xrc_srqs),
		ON_BOTH(an_srq_of_another_domain),
		ON_BOTH(a_bad_receive_fails_at_the_srqs_owner),
		ON_BOTH(an_srq_that_makes_no_sense),
		ON_BOTH(an_srq_whose_cq_is_dead),
		ON_BOTH(halves_do_not_mix),
		ON_BOTH(anybody_in_the_domain_may_open_it),
		ON_BOTH(the_target_outlives_its_maker),
		ON_BOTH(it_goes_with_the_last_who_has_it_open),
		ON_BOTH(events_go_to_all),
		ON_BOTH(the_srq_goes_in_the_middle_of_a_message),
		ON_BOTH(the_target_fails_in_the_middle_of_a_message),
		ON_ONE_THREAD(processes_come_and_go),
		ON_TWO_THREADS(processes_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
