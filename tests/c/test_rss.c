/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work queues, indirection tables, and the QPs that spread frames over them by a hash. */
#include "ethernet/ethernet.h"
#include "ethernet/frame.h"
#include "frames.h"
#include "paging.h"

/* The key of the verification suite in Microsoft's RSS specification, and its examples. */
static const uint8_t known_key[SIMHCA_RSS_KEY_BYTES] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct {
	const char *src, *dst;
	uint16_t src_port, dst_port;
	uint32_t addresses, with_ports; /* the hash of either */
} known[] = {
	{ "66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178 },
	{ "199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea },
	{ "24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a },
	{ "38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f },
	{ "153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2 },
	{ "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d },
	{ "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf },
	{ "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024,
	  0x4b61e985, 0x02d1feef },
};

enum {
	IPV4 = SIMHCA_HASH_SRC_IPV4 | SIMHCA_HASH_DST_IPV4,
	IPV6 = SIMHCA_HASH_SRC_IPV6 | SIMHCA_HASH_DST_IPV6,
	TCP = SIMHCA_HASH_SRC_PORT_TCP | SIMHCA_HASH_DST_PORT_TCP,
	UDP = SIMHCA_HASH_SRC_PORT_UDP | SIMHCA_HASH_DST_PORT_UDP,
};

static struct recipe known_recipe(size_t i, unsigned int l4)
{
	struct recipe recipe = { .l4 = l4,
				 .src_port = known[i].src_port,
				 .dst_port = known[i].dst_port,
				 .payload = 10 };

	if (strchr(known[i].src, ':')) {
		recipe.ip = 6;
		assert_int_equal(1, inet_pton(AF_INET6, known[i].src, recipe.src_ip6));
		assert_int_equal(1, inet_pton(AF_INET6, known[i].dst, recipe.dst_ip6));
	} else {
		recipe.ip = 4;
		recipe.src_ip = ntohl(inet_addr(known[i].src));
		recipe.dst_ip = ntohl(inet_addr(known[i].dst));
	}
	return recipe;
}

static uint32_t hash_of(const struct recipe *recipe, uint32_t fields)
{
	struct simhca_rss rss = { .hash_fields = fields };
	struct simhca_frame frame;
	uint8_t bytes[256];

	memcpy(rss.key, known_key, sizeof(rss.key));
	simhca_frame_parse(bytes, frame_make(bytes, recipe), &frame);
	return simhca_rss_hash(&rss, &frame);
}

static void the_published_hashes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct recipe tcp = known_recipe(i, IPPROTO_TCP);
		struct recipe udp = known_recipe(i, IPPROTO_UDP);
		uint32_t ip = tcp.ip == 4 ? IPV4 : IPV6;

		assert_int_equal(hash_of(&tcp, ip), known[i].addresses);
		assert_int_equal(hash_of(&tcp, ip | TCP), known[i].with_ports);
		assert_int_equal(hash_of(&udp, ip | UDP), known[i].with_ports);
		/* What the frame does not have is left out. */
		assert_int_equal(hash_of(&udp, ip | TCP), known[i].addresses);
		assert_int_equal(hash_of(&tcp, tcp.ip == 4 ? IPV6 : IPV4), 0);
	}
}

static void every_field_enters_the_hash(void **state)
{
	static const struct {
		uint32_t field;
		struct recipe other;
	} cases[] = {
		{ SIMHCA_HASH_SRC_IPV4, { .ip = 4, .src_ip = 1, .l4 = IPPROTO_TCP } },
		{ SIMHCA_HASH_DST_IPV4, { .ip = 4, .dst_ip = 1, .l4 = IPPROTO_TCP } },
		{ SIMHCA_HASH_SRC_IPV6, { .ip = 6, .src_ip6 = { 1 }, .l4 = IPPROTO_TCP } },
		{ SIMHCA_HASH_DST_IPV6, { .ip = 6, .dst_ip6 = { 1 }, .l4 = IPPROTO_TCP } },
		{ SIMHCA_HASH_SRC_PORT_TCP, { .ip = 4, .l4 = IPPROTO_TCP, .src_port = 1 } },
		{ SIMHCA_HASH_DST_PORT_TCP, { .ip = 4, .l4 = IPPROTO_TCP, .dst_port = 1 } },
		{ SIMHCA_HASH_SRC_PORT_UDP, { .ip = 4, .l4 = IPPROTO_UDP, .src_port = 1 } },
		{ SIMHCA_HASH_DST_PORT_UDP, { .ip = 4, .l4 = IPPROTO_UDP, .dst_port = 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t j = 0; j < ARRAY_SIZE(cases); j++)
			assert_int_equal(hash_of(&cases[i].other, cases[j].field) != 0, i == j);
}

/* ------------------------------------------------------------------------------- queues */

enum { WQS = 4, BUFFER = 2048 };

struct wq {
	struct client *client;
	uint32_t handle;
	struct cq *cq;
	struct mr *mr;
	struct qp ring; /* as much of one as the harness needs to post */
};

static int wq_modify(struct wq *wq, uint32_t mask, uint32_t state, uint32_t strip)
{
	struct simhca_modify_wq_req req = {
		.handle = wq->handle, .mask = mask, .state = state, .strip_cvlan = strip
	};
	struct simhca_modify_wq_reply reply;

	return patiently(simhca_modify_wq(wq->client->context, &req, &reply, NULL));
}

static int wq_go(struct wq *wq, uint32_t state)
{
	return wq_modify(wq, SIMHCA_WQ_STATE, state, 0);
}

static void wq_recv(struct wq *wq, uint64_t id)
{
	struct simhca_sge buffer = sge(wq->mr, BUFFER * id, BUFFER);

	qp_recv(&wq->ring, id, &buffer, 1);
}

/* In RDY, with a CQ of its own and receives 0 to 3. */
static struct wq *wq_new(struct client *client)
{
	struct wq *wq = world_alloc(client->world, sizeof(*wq));
	struct simhca_create_wq_req req = {
		.user_handle.element = (uintptr_t)wq, .pd = client->pd, .max_wr = 64, .max_sge = 1
	};
	struct simhca_create_qp_reply *reply = &wq->ring.granted;

	wq->client = client;
	wq->cq = cq_new(client, 128);
	wq->mr = mr_new(client, 64 * BUFFER, ALL_ACCESS);
	req.cq = wq->cq->handle;
	assert_int_equal(0, simhca_create_wq(client->context, &req, reply, NULL));
	wq->handle = reply->handle;
	wq->ring.client = client;
	wq->ring.qpn = reply->qpn;
	wq->ring.doorbell = reply->doorbell;
	wq->ring.state = client_at(client, &reply->state);
	wq->ring.rq = client_at(client, &reply->rq);
	assert_int_equal(0, wq_go(wq, SIMHCA_WQS_RDY));
	for (uint64_t id = 0; id < 4; id++)
		wq_recv(wq, id);
	return wq;
}

static int table_try(struct client *client, struct wq *const *wqs, uint32_t log_size,
		     uint32_t *handle)
{
	struct simhca_create_rwq_table_req req = { .log_size = log_size };
	struct simhca_handle reply = { 0 };
	int error;

	for (uint32_t i = 0; log_size < 7 && i < 1u << log_size; i++)
		req.wq[i] = wqs[i % WQS]->handle;
	error = simhca_create_rwq_table(client->context, &req, &reply, NULL);
	*handle = reply.handle;
	return error;
}

static struct simhca_create_rss_qp_req rss_req(struct client *client, uint32_t table,
					       uint32_t fields)
{
	struct simhca_create_rss_qp_req req = { .pd = client->pd,
						.table = table,
						.hash_function = 1,
						.hash_fields = fields,
						.key_length = SIMHCA_RSS_KEY_BYTES };

	memcpy(req.key, known_key, sizeof(req.key));
	return req;
}

struct scene {
	struct world *world;
	struct side *sender;
	struct client *client;
	struct wq *wq[WQS];
	uint32_t table;
	struct qp qp;
	uint32_t flow;
};

static struct scene make(void **state, uint32_t fields)
{
	struct scene scene = { .world = *state };
	struct simhca_create_flow_req flow;
	struct simhca_create_rss_qp_req req;

	scene.sender = raw_side(client_new(scene.world, 0));
	scene.client = client_new(scene.world, 1);
	for (int i = 0; i < WQS; i++)
		scene.wq[i] = wq_new(scene.client);
	assert_int_equal(0, table_try(scene.client, scene.wq, 2, &scene.table));
	req = rss_req(scene.client, scene.table, fields);
	assert_int_equal(0, simhca_create_rss_qp(scene.client->context, &req, &scene.qp.granted,
						 NULL));
	scene.qp.client = scene.client;
	scene.qp.handle = scene.qp.granted.handle;
	flow = flow_to(&scene.qp);
	flow.flags = SIMHCA_FLOW_TAG;
	flow.tag = 17;
	scene.flow = flow_new(scene.client, &flow);
	return scene;
}

static void frames_go_where_the_hash_says(void **state)
{
	struct scene scene = make(state, IPV4 | UDP);

	for (size_t i = 0; i < 5; i++) {
		struct recipe recipe = known_recipe(i, IPPROTO_UDP);
		struct wq *wq = scene.wq[known[i].with_ports % WQS];
		uint32_t length = frame_go(scene.sender, &recipe);
		struct simhca_cqe cqe;

		assert_true(cq_wait(wq->cq, &cqe));
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_int_equal(cqe.opcode, SIMHCA_WC_RECV);
		assert_int_equal(cqe.qpn, wq->ring.qpn);
		assert_int_equal(cqe.byte_len, length);
		assert_int_equal(cqe.flow_tag, 17);
		assert_memory_equal(wq->mr->addr + BUFFER * cqe.wr_id, scene.sender->mr->addr,
				    length);
		wq_recv(wq, cqe.wr_id);
		for (int other = 0; other < WQS; other++)
			expect_none(scene.wq[other]->cq);
	}
	/* Nothing to hash: the first entry. */
	frame_go(scene.sender, &(struct recipe){ .ether_type = 0x88b5, .payload = 60 });
	assert_true(cq_wait(scene.wq[0]->cq, &(struct simhca_cqe){ 0 }));
}

static void many_flows_use_all_queues(void **state)
{
	struct scene scene = make(state, IPV4);
	unsigned int count[WQS] = { 0 };

	for (uint32_t i = 0; i < 400; i++) {
		unsigned int got = 0;

		frame_go(scene.sender, &(struct recipe){ .ip = 4, .src_ip = 0x0a000000 + i * 7 });
		run_until_idle(scene.world);
		for (unsigned int w = 0; w < WQS; w++) {
			struct simhca_cqe cqe;

			while (cq_poll(scene.wq[w]->cq, &cqe)) {
				wq_recv(scene.wq[w], cqe.wr_id);
				count[w]++;
				got++;
			}
		}
		assert_int_equal(got, 1);
	}
	for (unsigned int w = 0; w < WQS; w++)
		assert_true(count[w] > 50);
}

static struct recipe recipe_for(unsigned int entry)
{
	struct recipe recipe = { .ip = 4, .payload = 30 };

	while (hash_of(&recipe, IPV4) % WQS != entry)
		recipe.src_ip++;
	return recipe;
}

static void a_wq_receives_while_it_is_ready(void **state)
{
	struct scene scene = make(state, IPV4);
	struct recipe recipe = recipe_for(2);
	struct wq *wq = scene.wq[2];

	frame_go(scene.sender, &recipe);
	expect(wq->cq, 0, SUCCESS);
	/* In ERR what is posted is flushed, then and later. */
	assert_int_equal(0, wq_go(wq, SIMHCA_WQS_ERR));
	for (uint64_t id = 1; id < 4; id++)
		expect(wq->cq, id, WR_FLUSH_ERR);
	wq_recv(wq, 9);
	qp_ring(&wq->ring);
	expect(wq->cq, 9, WR_FLUSH_ERR);
	frame_go(scene.sender, &recipe);
	expect_none(wq->cq);
	/* From RESET it starts anew. */
	assert_int_equal(0, wq_go(wq, SIMHCA_WQS_RESET));
	wq->ring.rq_pi = 0;
	wq_recv(wq, 5);
	frame_go(scene.sender, &recipe);
	expect_none(wq->cq);
	assert_int_equal(0, wq_go(wq, SIMHCA_WQS_RDY));
	frame_go(scene.sender, &recipe);
	expect(wq->cq, 5, SUCCESS);
	/* Without a receive it is lost. */
	frame_go(scene.sender, &recipe);
	expect_none(wq->cq);
}

static void a_wq_that_fails_fails_alone(void **state)
{
	struct scene scene = make(state, IPV4);
	struct recipe recipe = recipe_for(1);
	struct simhca_sge tiny = sge(scene.wq[3]->mr, 0, 20);

	assert_int_equal(0, wq_go(scene.wq[3], SIMHCA_WQS_RESET));
	scene.wq[3]->ring.rq_pi = 0;
	assert_int_equal(0, wq_go(scene.wq[3], SIMHCA_WQS_RDY));
	qp_recv(&scene.wq[3]->ring, 1, &tiny, 1);
	frame_go(scene.sender, &(struct recipe){ .ip = 4, .src_ip = recipe_for(3).src_ip });
	expect_why(scene.wq[3]->cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
	frame_go(scene.sender, &recipe);
	expect(scene.wq[1]->cq, 0, SUCCESS);
	/* A ring that makes no sense. */
	scene.wq[1]->ring.state->rq_pi = 0x12345678;
	frame_go(scene.sender, &recipe);
	run_until_idle(scene.world);
	assert_int_equal(events_of(scene.client, scene.wq[1], IBV_EVENT_WQ_FATAL), 1);
	recipe = recipe_for(0);
	frame_go(scene.sender, &recipe);
	expect(scene.wq[0]->cq, 0, SUCCESS);
}

/* A page fault that a WQ stands at does not outlive its reset, and the next one is raised at once.
 */
static void a_wq_leaves_no_fault(void **state)
{
	struct scene scene = make(state, IPV4);
	struct recipe recipe = recipe_for(1);
	struct wq *wq = scene.wq[1];

	wq->mr = on_demand(scene.client, pages(1), PAGE, ODP);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(0, wq_go(wq, SIMHCA_WQS_RESET));
		assert_false(simhca_faults_poll(scene.world->fabric));
		wq->ring.rq_pi = 0;
		assert_int_equal(0, wq_go(wq, SIMHCA_WQS_RDY));
		wq_recv(wq, 0);
		frame_go(scene.sender, &recipe);
		expect_none(wq->cq);
		assert_int_equal(counters(wq->mr).faults, i + 1);
	}
	assert_int_equal(0, wq_go(wq, SIMHCA_WQS_ERR));
	run_until_idle(scene.world);
	assert_false(simhca_faults_poll(scene.world->fabric));
	assert_int_equal(present(wq->mr), 0);
}

static void a_wq_strips_vlan_tags_on_request(void **state)
{
	struct scene scene = make(state, IPV4);
	struct recipe recipe = recipe_for(0);
	struct simhca_cqe cqe;
	uint32_t length;

	recipe.tags = 1;
	recipe.vlan_tag = 0x7fff;
	length = frame_go(scene.sender, &recipe);
	assert_int_equal(expect(scene.wq[0]->cq, 0, SUCCESS).byte_len, length);
	assert_int_equal(0, wq_modify(scene.wq[0], SIMHCA_WQ_FLAGS, 0, 1));
	frame_go(scene.sender, &recipe);
	cqe = expect(scene.wq[0]->cq, 1, SUCCESS);
	assert_int_equal(cqe.byte_len, length - 4);
	assert_int_equal(cqe.cvlan, 0x7fff);
	assert_int_equal(0, wq_modify(scene.wq[0], SIMHCA_WQ_FLAGS, 0, 0));
	frame_go(scene.sender, &recipe);
	cqe = expect(scene.wq[0]->cq, 2, SUCCESS);
	assert_int_equal(cqe.byte_len, length);
	assert_int_equal(cqe.cvlan, 0);
}

static void states_of_a_wq(void **state)
{
	enum { RESET = SIMHCA_WQS_RESET, RDY = SIMHCA_WQS_RDY, ERR = SIMHCA_WQS_ERR };
	static const struct {
		uint32_t to;
		int error;
	} steps[] = { { RESET, 0 }, { ERR, -EINVAL }, { RDY, 0 },	{ RDY, 0 },
		      { ERR, 0 },   { ERR, 0 },	      { RDY, -EINVAL }, { RESET, 0 },
		      { RDY, 0 },   { RESET, 0 },     { 3, -EINVAL } };
	struct client *client = client_new(*state, 0);
	struct wq *wq = wq_new(client);
	struct simhca_modify_wq_req req = { .handle = wq->handle };
	struct simhca_modify_wq_reply reply;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		assert_int_equal(steps[i].error, wq_go(wq, steps[i].to));
	assert_int_equal(-EINVAL, simhca_modify_wq(client->context, &req, &reply, NULL));
	req.mask = 8;
	assert_int_equal(-EINVAL, simhca_modify_wq(client->context, &req, &reply, NULL));
	req.mask = SIMHCA_WQ_STATE | SIMHCA_WQ_CURR_STATE;
	req.state = RDY;
	req.curr_state = ERR;
	assert_int_equal(-EINVAL, simhca_modify_wq(client->context, &req, &reply, NULL));
	req.curr_state = RESET;
	assert_int_equal(0, simhca_modify_wq(client->context, &req, &reply, NULL));
	assert_int_equal(reply.state, RDY);
}

static void what_is_no_wq_and_no_table(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	struct wq *wqs[WQS];
	struct simhca_create_wq_req good = { .pd = client->pd, .max_wr = 8, .max_sge = 1 }, req;
	struct simhca_create_rwq_table_req wrong = { .log_size = 1 };
	struct simhca_create_qp_reply reply;
	struct simhca_handle handle;
	uint32_t table;

	good.cq = cq_new(client, 16)->handle;
#define REFUSED(error, ...)                                                                        \
	do {                                                                                       \
		req = good;                                                                        \
		__VA_ARGS__;                                                                       \
		assert_int_equal(-(error), simhca_create_wq(client->context, &req, &reply, NULL)); \
	} while (0)
	REFUSED(ENOENT, req.pd = 99);
	REFUSED(ENOENT, req.cq = 99);
	REFUSED(EINVAL, req.max_wr = 0);
	REFUSED(EINVAL, req.max_wr = SIMHCA_MAX_QP_WR + 1);
	REFUSED(EINVAL, req.max_sge = SIMHCA_MAX_SGE + 1);
#undef REFUSED
	for (int i = 0; i < WQS; i++)
		wqs[i] = wq_new(client);
	assert_int_equal(-EINVAL, table_try(client, wqs, 7, &table));
	assert_int_equal(-EINVAL, table_try(client, wqs, 32, &table));
	assert_int_equal(-ENOENT, table_try(other, wqs, 1, &table));
	wrong.wq[0] = wqs[0]->handle;
	wrong.wq[1] = 77;
	assert_int_equal(-ENOENT, simhca_create_rwq_table(client->context, &wrong, &handle, NULL));
	/* What was refused holds nothing. */
	assert_int_equal(0, patiently(simhca_destroy_wq(client->context, wqs[0]->handle, NULL)));
	wqs[0] = wqs[1];
	assert_int_equal(0, table_try(client, wqs, 6, &table));
	assert_int_equal(-EBUSY, simhca_destroy_wq(client->context, wqs[1]->handle, NULL));
	assert_int_equal(-EBUSY, simhca_destroy_cq(client->context, wqs[1]->cq->handle, NULL));
	assert_int_equal(0, simhca_destroy_rwq_table(client->context, table, NULL));
	assert_int_equal(0, patiently(simhca_destroy_wq(client->context, wqs[1]->handle, NULL)));
	assert_int_equal(0, simhca_destroy_cq(client->context, wqs[1]->cq->handle, NULL));
	assert_int_equal(-ENOENT, simhca_destroy_wq(client->context, wqs[1]->handle, NULL));
	assert_int_equal(-ENOENT, simhca_destroy_rwq_table(client->context, table, NULL));
}

static void what_is_no_rss_qp(void **state)
{
	struct scene scene = make(state, IPV4);
	struct simhca_create_rss_qp_req good = rss_req(scene.client, scene.table, IPV4), req;
	struct simhca_create_qp_reply reply;
	uint32_t one;

#define REFUSED(error, ...)                                                                        \
	do {                                                                                       \
		req = good;                                                                        \
		__VA_ARGS__;                                                                       \
		assert_int_equal(-(error),                                                         \
				 simhca_create_rss_qp(scene.client->context, &req, &reply, NULL)); \
	} while (0)
	REFUSED(ENOENT, req.pd = 99);
	REFUSED(ENOENT, req.table = 99);
	REFUSED(EOPNOTSUPP, req.hash_function = 0);
	REFUSED(EOPNOTSUPP, req.hash_function = 2);
	REFUSED(EINVAL, req.key_length = 39);
	REFUSED(EINVAL, req.key_length = 52);
	REFUSED(EOPNOTSUPP, req.hash_fields = 1 << 8);
	REFUSED(EOPNOTSUPP, req.hash_fields = 1ull << 31);
	REFUSED(EINVAL, req.hash_fields = SIMHCA_HASH_SRC_IPV4 | SIMHCA_HASH_DST_IPV6);
	REFUSED(EINVAL, req.hash_fields = SIMHCA_HASH_SRC_PORT_TCP | SIMHCA_HASH_DST_PORT_UDP);
	/* Which hash, if there are several to choose from? */
	REFUSED(EINVAL, req.hash_fields = 0);
	assert_int_equal(0, table_try(scene.client, scene.wq, 0, &one));
	REFUSED(0, req.hash_fields = 0, req.table = one);
#undef REFUSED
}

/* It has no state and no queues; it holds its table, and flows hold it. */
static void an_rss_qp_is_not_like_others(void **state)
{
	struct scene scene = make(state, IPV4);
	struct simhca_context *context = scene.client->context;
	struct simhca_modify_qp_req modify = { .handle = scene.qp.handle, .mask = SIMHCA_QP_STATE };
	struct simhca_modify_qp_reply modified;
	struct simhca_query_qp_reply queried;

	assert_int_equal(-ENOSYS, simhca_modify_qp(context, &modify, &modified, NULL));
	assert_int_equal(-ENOSYS, simhca_query_qp(context, scene.qp.handle, &queried, NULL));
	assert_int_equal(scene.qp.granted.sq_entries, 0);
	assert_int_equal(scene.qp.granted.rq_entries, 0);
	assert_int_equal(-EBUSY, simhca_destroy_rwq_table(context, scene.table, NULL));
	assert_int_equal(-EBUSY, simhca_destroy_qp(context, scene.qp.handle, NULL));
	flow_gone(scene.client, scene.flow);
	assert_int_equal(0, patiently(simhca_destroy_qp(context, scene.qp.handle, NULL)));
	assert_int_equal(0, simhca_destroy_rwq_table(context, scene.table, NULL));
}

static void a_client_that_dies_leaves_nothing(void **state)
{
	struct scene scene = make(state, IPV4);
	struct recipe recipe = recipe_for(1);

	client_gone(scene.client);
	frame_go(scene.sender, &recipe);
	run_until_idle(scene.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_hashes),
		cmocka_unit_test(every_field_enters_the_hash),
		ON_ETHERNET(frames_go_where_the_hash_says),
		ON_ETHERNET(many_flows_use_all_queues),
		ON_ETHERNET(a_wq_receives_while_it_is_ready),
		ON_ETHERNET(a_wq_that_fails_fails_alone),
		ON_ETHERNET(a_wq_leaves_no_fault),
		ON_ETHERNET(a_wq_strips_vlan_tags_on_request),
		ON_ETHERNET(states_of_a_wq),
		ON_ETHERNET(what_is_no_wq_and_no_table),
		ON_ETHERNET(what_is_no_rss_qp),
		ON_ETHERNET(an_rss_qp_is_not_like_others),
		ON_ETHERNET(a_client_that_dies_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
