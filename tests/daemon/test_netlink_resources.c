/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RDMA netlink: what programs have. */
#include "../c/xrc.h"
#include "nl_ask.h"

/* The attributes of each entry of a list, one by one; kept while taken. */
struct entries {
	unsigned int count, parts;
	struct nl_answer entry[2 * MANY];
	struct nl_msg *msg[2 * MANY];
};

static void free_entries(struct entries *entries)
{
	for (unsigned int i = 0; i < entries->parts; i++)
		nlmsg_free(entries->msg[i]);
	free(entries);
}

/* Takes one more part; false: the list has ended. */
static bool take_part(struct scene *scene, int command, int table, struct entries *entries)
{
	struct nlattr *entry;
	struct nl_answer answer;
	int rest;

	if (!nl_take(scene, command, NLM_F_MULTI, &answer))
		return false;
	assert_non_null(answer.attr[table]);
	nla_for_each_nested(entry, answer.attr[table], rest)
	{
		assert_int_equal(nla_parse_nested(entries->entry[entries->count++].attr,
						  RDMA_NLDEV_ATTR_MAX - 1, entry, NULL),
				 0);
	}
	entries->msg[entries->parts++] = nl_keep();
	return true;
}

static struct entries *list(struct scene *scene, int command, int table, int device, int port)
{
	struct entries *entries = calloc(1, sizeof(*entries));

	nl_ask(scene, nl_question(command, NLM_F_DUMP | NLM_F_ACK, device, port));
	while (take_part(scene, command, table, entries))
		;
	return entries;
}

#define LIST(scene, what, device, port)                                                            \
	list(scene, RDMA_NLDEV_CMD_RES_##what##_GET, RDMA_NLDEV_ATTR_RES_##what, device, port)

static struct nl_answer one(struct scene *scene, int command, int port, int number_attr,
			    uint32_t number)
{
	struct nl_msg *msg = nl_question(command, NLM_F_ACK, 0, port);
	struct nl_answer answer;

	nla_put_u32(msg, number_attr, number);
	nl_ask(scene, msg);
	assert_true(nl_take(scene, command, 0, &answer));
	nl_expect_error(scene, 0);
	nl_expect_silence(scene);
	return answer;
}

/* A QP in each state that it can be moved to by itself, and of some types. */
static void qps(void **state)
{
	struct scene *scene = *state;
	struct client *client = nl_program(scene, 0, 100), *other = nl_program(scene, 0, 101);
	struct options rc = default_options(IBV_QPT_RC), ud = default_options(IBV_QPT_UD);
	struct cq *cq = cq_new(client, 16);
	struct qp *reset = qp_new(client, &rc, cq, cq, NULL);
	struct qp *ready = qp_new(client, &rc, cq, cq, NULL);
	struct qp *datagrams = qp_new(other, &ud, cq_new(other, 16), cq_new(other, 16), NULL);
	struct entries *entries;
	struct nl_answer answer;

	rc.psn = 0x4321;
	qp_connect(ready, 1, 0x123, &rc);
	qp_connect(datagrams, 1, 0, &ud);

	entries = LIST(scene, QP, 0, -1);
	assert_int_equal(entries->count, 3);
	assert_int_equal(u32_of(&entries->entry[0], RES_LQPN), reset->qpn);
	assert_int_equal(u8_of(&entries->entry[0], RES_STATE), IBV_QPS_RESET);
	assert_false(has(&entries->entry[0], PORT_INDEX));
	answer = entries->entry[1];
	assert_int_equal(u32_of(&answer, RES_LQPN), ready->qpn);
	assert_int_equal(u32_of(&answer, RES_RQPN), 0x123);
	assert_int_equal(u32_of(&answer, RES_RQ_PSN), 0x4321);
	assert_int_equal(u32_of(&answer, RES_SQ_PSN), 0x4321);
	assert_int_equal(u8_of(&answer, RES_STATE), IBV_QPS_RTS);
	assert_int_equal(u8_of(&answer, RES_TYPE), IBV_QPT_RC);
	assert_int_equal(u8_of(&answer, RES_PATH_MIG_STATE), IBV_MIG_MIGRATED);
	assert_int_equal(u32_of(&answer, PORT_INDEX), 1);
	assert_int_equal(u32_of(&answer, RES_PID), 100);
	answer = entries->entry[2];
	assert_int_equal(u32_of(&answer, RES_LQPN), datagrams->qpn);
	assert_int_equal(u8_of(&answer, RES_TYPE), IBV_QPT_UD);
	assert_int_equal(u32_of(&answer, RES_PID), 101);
	assert_false(has(&answer, RES_RQPN) || has(&answer, RES_RQ_PSN) ||
		     has(&answer, RES_PATH_MIG_STATE));
	free_entries(entries);

	/* Those at a port; and the other device's. */
	entries = LIST(scene, QP, 0, 1);
	assert_int_equal(entries->count, 2);
	free_entries(entries);
	entries = LIST(scene, QP, 1, -1);
	assert_int_equal(entries->count, 0);
	assert_int_equal(entries->parts, 0);
	free_entries(entries);

	answer = one(scene, RDMA_NLDEV_CMD_RES_QP_GET, 1, RDMA_NLDEV_ATTR_RES_LQPN, ready->qpn);
	assert_int_equal(u32_of(&answer, RES_RQPN), 0x123);
	assert_string_equal(text_of(&answer, DEV_NAME), "simhca0");
}

/* More than fit into a part: each is there once, in whatever program. */
static void many_objects(void **state)
{
	struct scene *scene = *state;
	struct entries *entries;
	uint32_t before = 0;

	nl_scene_add(scene->daemon, 0, NULL, 5); /* has connected, and no more */
	for (unsigned int i = 0; i < 3; i++) {
		struct client *client = nl_program(scene, 0, 10 + (pid_t)i);

		for (unsigned int n = 1; n < MANY / 3; n++) /* it has one */
			pd_new(client);
	}
	entries = LIST(scene, PD, 0, -1);
	assert_true(entries->parts >= 3);
	assert_int_equal(entries->count, MANY);
	for (unsigned int i = 0; i < entries->count; i++) {
		assert_true(u32_of(&entries->entry[i], RES_PDN) > before);
		before = u32_of(&entries->entry[i], RES_PDN);
	}
	free_entries(entries);
}

/* A list goes on where it was when what it has shown, or would have, is gone. */
static void objects_that_go_meanwhile(void **state)
{
	struct scene *scene = *state;
	struct entries *entries = calloc(1, sizeof(*entries));
	struct client *first = nl_program(scene, 0, 1), *second = nl_program(scene, 0, 2);
	struct client *third = nl_program(scene, 0, 3);
	unsigned int seen;

	for (unsigned int i = 0; i < 150; i++) {
		pd_new(first);
		pd_new(second);
	}
	pd_new(third);
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_DUMP, 0, -1));
	assert_true(take_part(scene, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, entries));
	seen = entries->count;
	assert_true(seen < 150);
	nl_scene_remove(scene->daemon, 0, first->context);
	client_gone(first);
	nl_scene_remove(scene->daemon, 0, second->context);
	client_gone(second);
	while (take_part(scene, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, entries))
		;
	/* Those of the third, its own PD and that of the harness. */
	assert_int_equal(entries->count, seen + 2);
	assert_int_equal(u32_of(&entries->entry[seen], RES_PID), 3);
	free_entries(entries);
}

static void regions(void **state)
{
	struct scene *scene = *state;
	struct client *client = nl_program(scene, 0, 100);
	struct mr *mr = mr_new(client, 12345, ALL_ACCESS);
	struct mr *paged = mr_new(client, 4096, ALL_ACCESS | SIMHCA_ACCESS_ON_DEMAND);
	struct entries *entries = LIST(scene, MR, 0, -1);
	bool admin = geteuid() == 0;
	struct nl_answer answer;

	assert_int_equal(entries->count, 2);
	answer = entries->entry[0];
	assert_int_equal(u64_of(&answer, RES_MRLEN), 12345);
	assert_int_equal(u32_of(&answer, RES_MRN), mr->lkey >> 8);
	assert_int_equal(u32_of(&answer, RES_PID), getpid()); /* it is in our memory */
	assert_true(has(&answer, RES_PDN));
	assert_int_equal(has(&answer, RES_LKEY), admin);
	assert_int_equal(has(&answer, RES_RKEY), admin);
	if (admin) {
		assert_int_equal(u32_of(&answer, RES_LKEY), mr->lkey);
		assert_int_equal(u32_of(&answer, RES_RKEY), mr->rkey);
	}
	free_entries(entries);

	/* Who cannot be seen to be privileged is not. */
	scene->asker.pid = 0;
	entries = LIST(scene, MR, 0, -1);
	assert_false(has(&entries->entry[0], RES_LKEY) || has(&entries->entry[0], RES_RKEY));
	free_entries(entries);

	/* Counters of pages, of those that come by and by. */
	answer = one(scene, RDMA_NLDEV_CMD_RES_MR_GET, -1, RDMA_NLDEV_ATTR_RES_MRN,
		     paged->lkey >> 8);
	assert_int_equal(u64_of(&answer, RES_MRLEN), 4096);
	for (int i = 0; i < 2; i++) {
		struct nl_msg *msg = nl_question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, -1);

		nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_MR);
		nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_MRN, (i ? paged : mr)->lkey >> 8);
		answer = nl_answer_to(scene, RDMA_NLDEV_CMD_STAT_GET, msg);
		assert_int_equal(has(&answer, STAT_HWCOUNTERS), i);
	}
}

static void queues(void **state)
{
	struct scene *scene = *state;
	struct client *client = nl_program(scene, 0, 100);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(client, 77), *unused = cq_new(client, 5);
	struct srq *srq = srq_new(client, 16, 1, 0), *lonely = srq_new(client, 16, 1, 0);
	struct srq *tags = tm_srq_new(client, unused, 16, 4);
	struct entries *entries;
	struct nlattr *range;
	struct nl_answer answer;
	uint32_t qpn[3];
	int rest, ranges = 0;

	for (unsigned int i = 0; i < 3; i++)
		qpn[i] = qp_new(client, &options, cq, cq, srq)->qpn;
	assert_int_equal(qpn[2], qpn[0] + 2);

	entries = LIST(scene, CQ, 0, -1);
	assert_int_equal(entries->count, 2);
	assert_int_equal(u32_of(&entries->entry[0], RES_CQE), cq->cqe);
	assert_int_equal(u64_of(&entries->entry[0], RES_USECNT), 6);
	assert_int_equal(u32_of(&entries->entry[0], RES_CTXN), simhca_context_id(client->context));
	assert_int_equal(u64_of(&entries->entry[1], RES_USECNT), 1);
	assert_true(u32_of(&entries->entry[0], RES_CQN) != u32_of(&entries->entry[1], RES_CQN));
	answer = one(scene, RDMA_NLDEV_CMD_RES_SRQ_GET, -1, RDMA_NLDEV_ATTR_RES_SRQN, tags->srqn);
	assert_int_equal(u32_of(&answer, RES_CQN), u32_of(&entries->entry[1], RES_CQN));
	assert_int_equal(u8_of(&answer, RES_TYPE), SIMHCA_SRQT_TM);
	free_entries(entries);

	entries = LIST(scene, SRQ, 0, -1);
	assert_int_equal(entries->count, 3);
	answer = entries->entry[0];
	assert_int_equal(u32_of(&answer, RES_SRQN), srq->srqn);
	assert_int_equal(u8_of(&answer, RES_TYPE), SIMHCA_SRQT_BASIC);
	assert_false(has(&answer, RES_CQN));
	nla_for_each_nested(range, answer.attr[RDMA_NLDEV_ATTR_RES_QP], rest)
	{
		struct nl_answer inner;

		assert_int_equal(nla_parse_nested(inner.attr, RDMA_NLDEV_ATTR_MAX - 1, range, NULL),
				 0);
		assert_int_equal(u32_of(&inner, MIN_RANGE), qpn[0]);
		assert_int_equal(u32_of(&inner, MAX_RANGE), qpn[2]);
		ranges++;
	}
	assert_int_equal(ranges, 1);
	/* An SRQ without QPs has the table, too: rdma(8) shows no SRQ without one. */
	assert_int_equal(u32_of(&entries->entry[1], RES_SRQN), lonely->srqn);
	assert_true(has(&entries->entry[1], RES_QP));
	assert_int_equal(nla_len(entries->entry[1].attr[RDMA_NLDEV_ATTR_RES_QP]), 0);
	free_entries(entries);
}

/* An XRC_RECV QP that two programs have open is one QP, and the first program's. */
static void a_shared_target(void **state)
{
	struct scene *scene = *state;
	struct client *first = nl_program(scene, 0, 100), *second = nl_program(scene, 0, 101);
	int file = xrcd_file();
	uint32_t here = xrcd_open(first, file), there = xrcd_open(second, file);
	struct qp *target = target_new(first, here);
	struct qp *opened = target_open(second, there, target->qpn);
	struct entries *entries = LIST(scene, QP, 0, -1);

	assert_int_equal(entries->count, 1);
	assert_int_equal(u32_of(&entries->entry[0], RES_LQPN), target->qpn);
	assert_int_equal(u8_of(&entries->entry[0], RES_TYPE), IBV_QPT_XRC_RECV);
	assert_int_equal(u32_of(&entries->entry[0], RES_PID), 100);
	free_entries(entries);
	assert_int_equal(target_close(target), 0);
	entries = LIST(scene, QP, 0, -1);
	assert_int_equal(entries->count, 1);
	assert_int_equal(u32_of(&entries->entry[0], RES_PID), 101);
	free_entries(entries);
	assert_int_equal(target_close(opened), 0);
	close(file);
}

static uint64_t in_summary(struct scene *scene, const char *name)
{
	struct nl_answer answer = nl_answer_to(scene, RDMA_NLDEV_CMD_RES_GET,
					       nl_question(RDMA_NLDEV_CMD_RES_GET, 0, 0, -1));
	struct nlattr *entry;
	int rest;

	nla_for_each_nested(entry, answer.attr[RDMA_NLDEV_ATTR_RES_SUMMARY], rest)
	{
		struct nl_answer inner;

		assert_int_equal(nla_parse_nested(inner.attr, RDMA_NLDEV_ATTR_MAX - 1, entry, NULL),
				 0);
		if (!strcmp(text_of(&inner, RES_SUMMARY_ENTRY_NAME), name))
			return u64_of(&inner, RES_SUMMARY_ENTRY_CURR);
	}
	fail_msg("no %s in the summary", name);
	return 0;
}

static void summary(void **state)
{
	struct scene *scene = *state;
	struct client *client = nl_program(scene, 0, 1), *other = nl_program(scene, 0, 2);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(client, 16);
	uint32_t xrcd = xrcd_open(client, -1);
	struct qp *target = target_new(client, xrcd);

	mr_new(client, 100, ALL_ACCESS);
	mr_new(other, 100, ALL_ACCESS);
	qp_new(client, &options, cq, cq, srq_new(client, 16, 1, 0));
	assert_int_equal(in_summary(scene, "pd"), 2);
	assert_int_equal(in_summary(scene, "cq"), 1);
	assert_int_equal(in_summary(scene, "qp"), 2);
	assert_int_equal(in_summary(scene, "mr"), 2);
	assert_int_equal(in_summary(scene, "srq"), 1);
	assert_int_equal(in_summary(scene, "ctx"), 2);
	target_open(client, xrcd, target->qpn);
	assert_int_equal(in_summary(scene, "qp"), 2);
}

static struct sockaddr_in ipv4(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(host) };
}

static void assert_address(const struct nlattr *attr, const struct sockaddr_in *expected)
{
	assert_non_null(attr);
	assert_int_equal(nla_len(attr), 128); /* the kernel's struct sockaddr_storage */
	assert_memory_equal(nla_data(attr), expected, sizeof(*expected));
}

/* Ids of rdma_cm: of the device that they are at, or of all of them. */
static void cm_ids(void **state)
{
	struct scene *scene = *state;
	const struct nl_scene_id connected = { .device = 0,
					       .state = 6 /* CMA_CONNECT */,
					       .ps = 0x106,
					       .qp_type = IBV_QPT_RC,
					       .qp_num = 0x123,
					       .pid = 77,
					       .src = ipv4(0x7f000001, 1000),
					       .dst = ipv4(0x7f000002, 2000) },
				 listens = { .device = -1,
					     .state = 2 /* CMA_LISTEN */,
					     .ps = 0x111,
					     .qp_type = IBV_QPT_UD,
					     .src = ipv4(0, 7471) },
				 bound = { .device = -1, .state = 1 /* CMA_BOUND */ },
				 elsewhere = { .device = 1, .state = 4 /* CMA_ADDR_RESOLVED */ };
	uint32_t number, listener;
	struct entries *entries;
	struct nl_answer answer;
	struct nl_msg *msg;

	assert_int_equal(in_summary(scene, "cm_id"), 0);
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_RES_CM_ID_GET, NLM_F_DUMP, 0, -1));
	nl_expect_done(scene, 0);
	nl_scene_add_id(scene->daemon, &bound);
	listener = nl_scene_add_id(scene->daemon, &listens);
	nl_scene_add_id(scene->daemon, &elsewhere);
	number = nl_scene_add_id(scene->daemon, &connected);
	assert_int_equal(in_summary(scene, "cm_id"), 2);

	entries = LIST(scene, CM_ID, 0, -1);
	assert_int_equal(entries->count, 2);
	assert_int_equal(u32_of(&entries->entry[0], RES_CM_IDN), listener);
	assert_int_equal(u8_of(&entries->entry[0], RES_STATE), 8);
	assert_int_equal(u32_of(&entries->entry[0], RES_PS), 0x111);
	assert_address(entries->entry[0].attr[RDMA_NLDEV_ATTR_RES_SRC_ADDR], &listens.src);
	assert_false(has(&entries->entry[0], PORT_INDEX) || has(&entries->entry[0], RES_LQPN) ||
		     has(&entries->entry[0], RES_TYPE) || has(&entries->entry[0], RES_DST_ADDR) ||
		     has(&entries->entry[0], RES_PID));
	assert_int_equal(u32_of(&entries->entry[1], RES_CM_IDN), number);
	free_entries(entries);
	/* Who is at all ports is at none. */
	entries = LIST(scene, CM_ID, 0, 1);
	assert_int_equal(entries->count, 1);
	free_entries(entries);
	entries = LIST(scene, CM_ID, 1, -1);
	assert_int_equal(entries->count, 2);
	assert_int_equal(u8_of(&entries->entry[1], RES_STATE), 2);
	free_entries(entries);

	answer = one(scene, RDMA_NLDEV_CMD_RES_CM_ID_GET, 1, RDMA_NLDEV_ATTR_RES_CM_IDN, number);
	assert_int_equal(u32_of(&answer, PORT_INDEX), 1);
	assert_int_equal(u32_of(&answer, RES_LQPN), 0x123);
	assert_int_equal(u8_of(&answer, RES_TYPE), IBV_QPT_RC);
	assert_int_equal(u8_of(&answer, RES_STATE), 5);
	assert_int_equal(u32_of(&answer, RES_PS), 0x106);
	assert_int_equal(u32_of(&answer, RES_PID), 77);
	assert_address(answer.attr[RDMA_NLDEV_ATTR_RES_SRC_ADDR], &connected.src);
	assert_address(answer.attr[RDMA_NLDEV_ATTR_RES_DST_ADDR], &connected.dst);
	nl_scene_remove_id(scene->daemon, number);
	msg = nl_question(RDMA_NLDEV_CMD_RES_CM_ID_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CM_IDN, number);
	nl_ask(scene, msg);
	nl_expect_error(scene, ENOENT);

	/* In several parts, in order, each once. */
	for (unsigned int i = 0; i < MANY; i++)
		nl_scene_add_id(scene->daemon, &connected);
	entries = LIST(scene, CM_ID, 0, -1);
	assert_int_equal(entries->count, MANY + 1);
	assert_true(entries->parts > 1);
	for (unsigned int i = 1; i < entries->count; i++)
		assert_true(u32_of(&entries->entry[i - 1], RES_CM_IDN) <
			    u32_of(&entries->entry[i], RES_CM_IDN));
	free_entries(entries);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(qps),     TEST(many_objects), TEST(objects_that_go_meanwhile),
		TEST(regions), TEST(queues),	   TEST(a_shared_target),
		TEST(cm_ids),  TEST(summary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
