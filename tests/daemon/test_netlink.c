/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RDMA netlink: what is answered to which question, and to what is none. */
#include "../c/harness.h"
#include "../c/xrc.h"
#include "nl_scene.h"
#include "nl_talk.h"

#define PORT 77u /* netlink address of who asks */
#define SEQ 4711u
#define MANY 300u /* objects: more than fit into one part of a list */

struct scene {
	struct world *world;
	struct daemon *daemon;
	struct nl_talk talk;
	struct nl_asker asker;
};

static int begin(void **state, const struct world_config *config)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	scene->world = world_new(config);
	scene->daemon = nl_scene_new(scene->world->device);
	scene->asker = (struct nl_asker){ .pid = getpid(), .uid = getuid(), .port = PORT };
	*state = scene;
	return 0;
}

static int begin_ethernet(void **state)
{
	return begin(state, &(struct world_config){ 0 });
}

static int begin_infiniband(void **state)
{
	return begin(state, &(struct world_config){ .infiniband = true });
}

static int end(void **state)
{
	struct scene *scene = *state;

	nl_scene_free(scene->daemon);
	world_free(scene->world);
	free(scene);
	return 0;
}

/* A program with the device open. */
static struct client *program(struct scene *scene, unsigned int device, pid_t pid)
{
	struct client *client = client_new(scene->world, device);

	nl_scene_add(scene->daemon, device, client->context, pid);
	return client;
}

/* -------------------------------------------------------------------------------- asking */

/* A question with device and port, unless they are -1. */
static struct nl_msg *question(int command, int flags, int device, int port)
{
	struct nl_msg *msg = nlmsg_alloc();

	assert_non_null(nlmsg_put(msg, PORT, SEQ, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), 0,
				  NLM_F_REQUEST | flags));
	if (device >= 0)
		nla_put_u32(msg, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)device);
	if (port >= 0)
		nla_put_u32(msg, RDMA_NLDEV_ATTR_PORT_INDEX, (uint32_t)port);
	return msg;
}

static void ask_bytes(struct scene *scene, const void *bytes, size_t length)
{
	assert_false(nl_talk_under_way(&scene->talk));
	assert_true(length <= sizeof(scene->talk.bytes));
	memcpy(scene->talk.bytes, bytes, length);
	nl_talk_begin(&scene->talk, (int)length, false, &scene->asker);
}

/* Takes the question. */
static void ask(struct scene *scene, struct nl_msg *msg)
{
	ask_bytes(scene, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
	nlmsg_free(msg);
}

/* The next datagram, which is one well-formed message to the one who asks; NULL: there is none. */
static struct nl_msg *next(struct scene *scene)
{
	bool failed;
	struct nl_msg *msg = nl_talk_next(&scene->talk, scene->daemon, &failed);

	assert_false(failed);
	if (!msg) {
		assert_false(nl_talk_under_way(&scene->talk));
		return NULL;
	}
	assert_true(nlmsg_hdr(msg)->nlmsg_len <= NLDEV_ANSWER_BYTES);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_pid, scene->asker.port);
	return msg;
}

static void expect_silence(struct scene *scene)
{
	assert_null(next(scene));
}

static void expect_error(struct scene *scene, int error)
{
	struct nl_msg *msg = next(scene);
	const struct nlmsgerr *body;

	assert_non_null(msg);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_type, NLMSG_ERROR);
	assert_int_equal(nlmsg_datalen(nlmsg_hdr(msg)), sizeof(*body));
	body = nlmsg_data(nlmsg_hdr(msg));
	assert_int_equal(body->error, -error);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_seq, body->msg.nlmsg_seq);
	nlmsg_free(msg);
}

static void expect_done(struct scene *scene, int error)
{
	struct nl_msg *msg = next(scene);

	assert_non_null(msg);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_type, NLMSG_DONE);
	assert_true(nlmsg_hdr(msg)->nlmsg_flags & NLM_F_MULTI);
	assert_int_equal(*(int *)nlmsg_data(nlmsg_hdr(msg)), -error);
	nlmsg_free(msg);
	expect_silence(scene);
}

/* An answer's attributes; they stay there until the next call. */
struct answer {
	struct nlattr *attr[RDMA_NLDEV_ATTR_MAX];
};

static struct nl_msg *last;

/* False: it was the end of a list. */
static bool take(struct scene *scene, int command, int flags, struct answer *answer)
{
	nlmsg_free(last);
	last = next(scene);
	assert_non_null(last);
	if (nlmsg_hdr(last)->nlmsg_type == NLMSG_DONE && flags & NLM_F_MULTI) {
		assert_int_equal(*(int *)nlmsg_data(nlmsg_hdr(last)), 0);
		expect_silence(scene);
		return false;
	}
	assert_int_equal(nlmsg_hdr(last)->nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
	assert_int_equal(nlmsg_hdr(last)->nlmsg_flags, flags);
	assert_int_equal(nlmsg_hdr(last)->nlmsg_seq, SEQ);
	assert_int_equal(
		nlmsg_parse(nlmsg_hdr(last), 0, answer->attr, RDMA_NLDEV_ATTR_MAX - 1, NULL), 0);
	return true;
}

static struct answer answer_to(struct scene *scene, int command, struct nl_msg *msg)
{
	struct answer answer;

	ask(scene, msg);
	assert_true(take(scene, command, 0, &answer));
	expect_silence(scene);
	return answer;
}

#define u8_of(answer, name) nla_get_u8((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define u32_of(answer, name) nla_get_u32((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define u64_of(answer, name) nla_get_u64((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define text_of(answer, name) nla_get_string((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define has(answer, name) ((answer)->attr[RDMA_NLDEV_ATTR_##name] != NULL)

/* ------------------------------------------------------------------- devices and ports */

static void a_device(void **state)
{
	struct scene *scene = *state;
	struct answer answer =
		answer_to(scene, RDMA_NLDEV_CMD_GET, question(RDMA_NLDEV_CMD_GET, 0, 1, -1));
	const struct simhca_device_attr *attr =
		&simhca_device_memory(scene->world->device[1])->attr;

	assert_int_equal(u32_of(&answer, DEV_INDEX), 1);
	assert_string_equal(text_of(&answer, DEV_NAME), "simhca1");
	assert_int_equal(u32_of(&answer, PORT_INDEX), 1);
	assert_int_equal(u64_of(&answer, CAP_FLAGS), attr->device_cap_flags);
	assert_int_equal(u64_of(&answer, NODE_GUID), be64toh(attr->node_guid));
	assert_int_equal(u64_of(&answer, SYS_IMAGE_GUID), be64toh(attr->sys_image_guid));
	assert_int_equal(u8_of(&answer, DEV_NODE_TYPE), 1);
	assert_string_equal(text_of(&answer, FW_VERSION), attr->fw_ver);
	assert_string_equal(text_of(&answer, DEV_PROTOCOL),
			    scene->world->infiniband ? "ib" : "roce");
}

static void all_devices(void **state)
{
	struct scene *scene = *state;
	struct answer answer;

	ask(scene, question(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK, -1, -1));
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
		assert_int_equal(u32_of(&answer, DEV_INDEX), i);
	}
	/* The end of a list is its acknowledgement. */
	expect_done(scene, 0);
}

static void a_port(void **state)
{
	struct scene *scene = *state;
	const struct simhca_port_attr *port = &simhca_device_memory(scene->world->device[0])->port;
	struct answer answer = answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
					 question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));

	assert_int_equal(u32_of(&answer, PORT_INDEX), 1);
	assert_int_equal(u8_of(&answer, PORT_STATE), IBV_PORT_ACTIVE);
	assert_int_equal(u8_of(&answer, PORT_PHYS_STATE), 5);
	assert_int_equal(has(&answer, LID), scene->world->infiniband);
	assert_int_equal(has(&answer, NDEV_NAME), !scene->world->infiniband);
	if (scene->world->infiniband) {
		assert_int_equal(u32_of(&answer, LID), port->lid);
		assert_int_equal(u32_of(&answer, SM_LID), port->sm_lid);
		assert_int_equal(u8_of(&answer, LMC), port->lmc);
		assert_int_equal(u64_of(&answer, CAP_FLAGS), port->port_cap_flags);
		assert_int_equal(u64_of(&answer, SUBNET_PREFIX), 0xfe80000000000000);
	} else {
		assert_string_equal(text_of(&answer, NDEV_NAME), "lo");
		assert_int_equal(u32_of(&answer, NDEV_INDEX), 1);
	}

	simhca_device_set_port(scene->world->device[0], false);
	answer = answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
			   question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));
	assert_int_equal(u8_of(&answer, PORT_STATE), IBV_PORT_DOWN);
}

/* Names of interfaces and numbers of processes are those of our own namespaces. */
static void to_a_stranger(void **state)
{
	struct scene *scene = *state;
	struct answer answer;

	program(scene, 0, 1234);
	scene->asker.pid = 0;
	answer = answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
			   question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));
	assert_false(has(&answer, NDEV_NAME) || has(&answer, NDEV_INDEX));
	ask(scene, question(RDMA_NLDEV_CMD_RES_CTX_GET, NLM_F_DUMP, 0, -1));
	assert_true(take(scene, RDMA_NLDEV_CMD_RES_CTX_GET, NLM_F_MULTI, &answer));
	assert_int_equal(nla_parse_nested(answer.attr, RDMA_NLDEV_ATTR_MAX - 1,
					  nla_data(answer.attr[RDMA_NLDEV_ATTR_RES_CTX]), NULL),
			 0);
	assert_true(has(&answer, RES_CTXN));
	assert_false(has(&answer, RES_PID));
	expect_done(scene, 0);
}

static void the_system(void **state)
{
	struct answer answer = answer_to(*state, RDMA_NLDEV_CMD_SYS_GET,
					 question(RDMA_NLDEV_CMD_SYS_GET, 0, -1, -1));

	assert_int_equal(nla_get_u8(answer.attr[RDMA_NLDEV_SYS_ATTR_NETNS_MODE]), 1);
	assert_int_equal(nla_get_u8(answer.attr[RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK]), 1);
}

/* ------------------------------------------------------------------------- device nodes */

static struct nl_msg *chardev(int device, int port, const char *type)
{
	struct nl_msg *msg = question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, device, port);

	nla_put_string(msg, RDMA_NLDEV_ATTR_CHARDEV_TYPE, type);
	return msg;
}

static void device_nodes(void **state)
{
	struct scene *scene = *state;
	struct answer answer =
		answer_to(scene, RDMA_NLDEV_CMD_GET_CHARDEV, chardev(1, -1, "uverbs"));

	assert_string_equal(text_of(&answer, CHARDEV_NAME), "uverbs1");
	assert_int_equal(u64_of(&answer, CHARDEV), 231 << 8 | 193);
	assert_int_equal(u64_of(&answer, CHARDEV_ABI), 1);
	/* libibverbs then looks at the modalias, by which it finds the provider. */
	assert_false(has(&answer, UVERBS_DRIVER_ID));

	/* rdma_cm is of all devices. */
	answer = answer_to(scene, RDMA_NLDEV_CMD_GET_CHARDEV, chardev(-1, -1, "rdma_cm"));
	assert_string_equal(text_of(&answer, CHARDEV_NAME), "rdma_cm");
	assert_int_equal(u64_of(&answer, CHARDEV), 10 << 8 | 58);
	assert_int_equal(u64_of(&answer, CHARDEV_ABI), 4);

	ask(scene, chardev(1, 1, "uverbs"));
	expect_error(scene, EINVAL);
	ask(scene, chardev(2, -1, "uverbs"));
	expect_error(scene, EINVAL);
	ask(scene, chardev(-1, 1, "uverbs"));
	expect_error(scene, EINVAL);
	ask(scene, chardev(-1, -1, "uverbs"));
	expect_error(scene, EOPNOTSUPP);
	ask(scene, chardev(0, 1, "umad"));
	expect_error(scene, EOPNOTSUPP);
	ask(scene, chardev(1, -1, "rdma_cm"));
	expect_error(scene, EOPNOTSUPP);
	ask(scene, chardev(0, -1, "a name that is longer than that of any ABI"));
	expect_error(scene, EINVAL);
	ask(scene, question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, 0, -1));
	expect_error(scene, EINVAL);
}

/* ----------------------------------------------------------------------------- resources */

/* The attributes of each entry of a list, one by one; kept while taken. */
struct entries {
	unsigned int count, parts;
	struct answer entry[2 * MANY];
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
	struct answer answer;
	int rest;

	if (!take(scene, command, NLM_F_MULTI, &answer))
		return false;
	assert_non_null(answer.attr[table]);
	nla_for_each_nested(entry, answer.attr[table], rest)
	{
		assert_int_equal(nla_parse_nested(entries->entry[entries->count++].attr,
						  RDMA_NLDEV_ATTR_MAX - 1, entry, NULL),
				 0);
	}
	entries->msg[entries->parts++] = last;
	last = NULL;
	return true;
}

static struct entries *list(struct scene *scene, int command, int table, int device, int port)
{
	struct entries *entries = calloc(1, sizeof(*entries));

	ask(scene, question(command, NLM_F_DUMP | NLM_F_ACK, device, port));
	while (take_part(scene, command, table, entries))
		;
	return entries;
}

#define LIST(scene, what, device, port)                                                            \
	list(scene, RDMA_NLDEV_CMD_RES_##what##_GET, RDMA_NLDEV_ATTR_RES_##what, device, port)

static struct answer one(struct scene *scene, int command, int port, int number_attr,
			 uint32_t number)
{
	struct nl_msg *msg = question(command, NLM_F_ACK, 0, port);
	struct answer answer;

	nla_put_u32(msg, number_attr, number);
	ask(scene, msg);
	assert_true(take(scene, command, 0, &answer));
	expect_error(scene, 0);
	expect_silence(scene);
	return answer;
}

/* A QP in each state that it can be moved to by itself, and of some types. */
static void qps(void **state)
{
	struct scene *scene = *state;
	struct client *client = program(scene, 0, 100), *other = program(scene, 0, 101);
	struct options rc = default_options(IBV_QPT_RC), ud = default_options(IBV_QPT_UD);
	struct cq *cq = cq_new(client, 16);
	struct qp *reset = qp_new(client, &rc, cq, cq, NULL);
	struct qp *ready = qp_new(client, &rc, cq, cq, NULL);
	struct qp *datagrams = qp_new(other, &ud, cq_new(other, 16), cq_new(other, 16), NULL);
	struct entries *entries;
	struct answer answer;

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
		struct client *client = program(scene, 0, 10 + (pid_t)i);

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
	struct client *first = program(scene, 0, 1), *second = program(scene, 0, 2);
	struct client *third = program(scene, 0, 3);
	unsigned int seen;

	for (unsigned int i = 0; i < 150; i++) {
		pd_new(first);
		pd_new(second);
	}
	pd_new(third);
	ask(scene, question(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_DUMP, 0, -1));
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
	struct client *client = program(scene, 0, 100);
	struct mr *mr = mr_new(client, 12345, ALL_ACCESS);
	struct mr *paged = mr_new(client, 4096, ALL_ACCESS | SIMHCA_ACCESS_ON_DEMAND);
	struct entries *entries = LIST(scene, MR, 0, -1);
	bool admin = geteuid() == 0;
	struct answer answer;

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
		struct nl_msg *msg = question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, -1);

		nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_MR);
		nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_MRN, (i ? paged : mr)->lkey >> 8);
		answer = answer_to(scene, RDMA_NLDEV_CMD_STAT_GET, msg);
		assert_int_equal(has(&answer, STAT_HWCOUNTERS), i);
	}
}

static void queues(void **state)
{
	struct scene *scene = *state;
	struct client *client = program(scene, 0, 100);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(client, 77), *unused = cq_new(client, 5);
	struct srq *srq = srq_new(client, 16, 1, 0), *lonely = srq_new(client, 16, 1, 0);
	struct srq *tags = tm_srq_new(client, unused, 16, 4);
	struct entries *entries;
	struct nlattr *range;
	struct answer answer;
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
		struct answer inner;

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
	struct client *first = program(scene, 0, 100), *second = program(scene, 0, 101);
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
	struct answer answer = answer_to(scene, RDMA_NLDEV_CMD_RES_GET,
					 question(RDMA_NLDEV_CMD_RES_GET, 0, 0, -1));
	struct nlattr *entry;
	int rest;

	nla_for_each_nested(entry, answer.attr[RDMA_NLDEV_ATTR_RES_SUMMARY], rest)
	{
		struct answer inner;

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
	struct client *client = program(scene, 0, 1), *other = program(scene, 0, 2);
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
	struct answer answer;
	struct nl_msg *msg;

	assert_int_equal(in_summary(scene, "cm_id"), 0);
	ask(scene, question(RDMA_NLDEV_CMD_RES_CM_ID_GET, NLM_F_DUMP, 0, -1));
	expect_done(scene, 0);
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
	msg = question(RDMA_NLDEV_CMD_RES_CM_ID_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CM_IDN, number);
	ask(scene, msg);
	expect_error(scene, ENOENT);

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

/* ------------------------------------------------------------------------------ counters */

static void port_counters(void **state)
{
	struct scene *scene = *state;
	struct answer answer = answer_to(scene, RDMA_NLDEV_CMD_STAT_GET,
					 question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1));
	struct nlattr *entry;
	int rest, found = 0;

	nla_for_each_nested(entry, answer.attr[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS], rest)
	{
		struct answer inner;

		assert_int_equal(nla_parse_nested(inner.attr, RDMA_NLDEV_ATTR_MAX - 1, entry, NULL),
				 0);
		assert_null(strchr(text_of(&inner, STAT_HWCOUNTER_ENTRY_NAME), '/'));
		assert_int_equal(u64_of(&inner, STAT_HWCOUNTER_ENTRY_VALUE), 0);
		found += !strcmp(text_of(&inner, STAT_HWCOUNTER_ENTRY_NAME), "out_of_buffer");
	}
	assert_int_equal(found, 1);
}

/* There are no counters of single QPs; a kernel says so of a device that has none. */
static void qp_counters(void **state)
{
	struct scene *scene = *state;
	struct nl_msg *msg = question(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP, 0, 1);
	struct answer answer;

	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	ask(scene, msg);
	expect_done(scene, 0);
	msg = question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL);
	answer = answer_to(scene, RDMA_NLDEV_CMD_STAT_GET, msg);
	assert_int_equal(u32_of(&answer, STAT_MODE), RDMA_COUNTER_MODE_NONE);
	msg = question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_CQ);
	ask(scene, msg);
	expect_error(scene, EINVAL);
}

/* ---------------------------------------------------------------------- the conversation */

static void acknowledgements(void **state)
{
	struct scene *scene = *state;
	struct answer answer;

	ask(scene, question(RDMA_NLDEV_CMD_GET, NLM_F_ACK, 0, -1));
	assert_true(take(scene, RDMA_NLDEV_CMD_GET, 0, &answer));
	expect_error(scene, 0);
	expect_silence(scene);
	/* An error is one answer, not two. */
	ask(scene, question(RDMA_NLDEV_CMD_GET, NLM_F_ACK, 9, -1));
	expect_error(scene, EINVAL);
	expect_silence(scene);
}

static void wrong_questions(void **state)
{
	struct scene *scene = *state;
	struct nl_msg *msg;

	static const int need_a_device[] = { RDMA_NLDEV_CMD_GET,	RDMA_NLDEV_CMD_PORT_GET,
					     RDMA_NLDEV_CMD_RES_GET,	RDMA_NLDEV_CMD_RES_QP_GET,
					     RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_CMD_STAT_GET };
	static const int lists_of_one[] = { RDMA_NLDEV_CMD_PORT_GET, RDMA_NLDEV_CMD_RES_QP_GET,
					    RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_CMD_STAT_GET };

	for (size_t i = 0; i < ARRAY_SIZE(need_a_device); i++) {
		ask(scene, question(need_a_device[i], 0, -1, 1));
		expect_error(scene, EINVAL);
		ask(scene, question(need_a_device[i], 0, 2, 1));
		expect_error(scene, EINVAL);
		ask(scene, question(need_a_device[i], 0, 0x7fffffff, 1));
		expect_error(scene, EINVAL);
	}
	/* What is wrong with a list comes with its end. */
	for (size_t i = 0; i < ARRAY_SIZE(lists_of_one); i++) {
		ask(scene, question(lists_of_one[i], NLM_F_DUMP, -1, -1));
		expect_done(scene, EINVAL);
	}
	ask(scene, question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 2));
	expect_error(scene, EINVAL);
	ask(scene, question(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, 0, 2));
	expect_done(scene, EINVAL);
	/* QPs and CM ids are asked for with their port, the others without. */
	msg = question(RDMA_NLDEV_CMD_RES_QP_GET, 0, 0, -1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LQPN, 1);
	ask(scene, msg);
	expect_error(scene, EINVAL);
	msg = question(RDMA_NLDEV_CMD_RES_PD_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, 1);
	ask(scene, msg);
	expect_error(scene, EINVAL);
	msg = question(RDMA_NLDEV_CMD_RES_PD_GET, 0, 0, -1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, 1);
	ask(scene, msg);
	expect_error(scene, ENOENT);
	/* An attribute that is too short, a name without an end. */
	msg = question(RDMA_NLDEV_CMD_GET, 0, -1, -1);
	nla_put_u8(msg, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	ask(scene, msg);
	expect_error(scene, EINVAL);
	msg = question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, 0, -1);
	nla_put(msg, RDMA_NLDEV_ATTR_CHARDEV_TYPE, 6, "uverbs");
	ask(scene, msg);
	expect_error(scene, EINVAL);
}

static void commands_that_are_refused(void **state)
{
	struct scene *scene = *state;
	static const struct {
		int command, error;
	} commands[] = {
		{ RDMA_NLDEV_CMD_SET, EOPNOTSUPP },	   { RDMA_NLDEV_CMD_SYS_SET, EOPNOTSUPP },
		{ RDMA_NLDEV_CMD_STAT_SET, EOPNOTSUPP },   { RDMA_NLDEV_CMD_STAT_DEL, EOPNOTSUPP },
		{ RDMA_NLDEV_CMD_NEWLINK, EINVAL },	   { RDMA_NLDEV_CMD_DELLINK, EINVAL },
		{ RDMA_NLDEV_CMD_RES_QP_GET_RAW, EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		ask(scene, question(commands[i].command, NLM_F_ACK, 0, 1));
		expect_error(scene, geteuid() ? EPERM : commands[i].error);
		expect_silence(scene);
	}
	scene->asker.pid = 0;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		ask(scene, question(commands[i].command, 0, 0, 1));
		expect_error(scene, EPERM);
	}
	/* Commands that no kernel has, or has no such list of. */
	for (int command = RDMA_NLDEV_NUM_OPS; command < 1024; command += 97) {
		ask(scene, question(command, NLM_F_ACK, 0, 1));
		expect_error(scene, EINVAL);
	}
	ask(scene, question(RDMA_NLDEV_CMD_SYS_GET, NLM_F_DUMP, 0, 1));
	expect_error(scene, EINVAL);
}

/* Other parts of RDMA netlink than this one, messages that ask for nothing, and control messages.
 */
static void not_for_us(void **state)
{
	struct scene *scene = *state;
	struct nl_msg *msg;

	for (int client = 0; client < 64; client++) {
		if (client == 0 || client == RDMA_NL_NLDEV)
			continue;
		msg = question(0, 0, -1, -1);
		nlmsg_hdr(msg)->nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(client, 1);
		ask(scene, msg);
		expect_error(scene, EINVAL);
	}
	msg = question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_flags = 0;
	ask(scene, msg);
	expect_silence(scene);
	msg = question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_flags = NLM_F_ACK;
	ask(scene, msg);
	expect_error(scene, 0);
	expect_silence(scene);
	msg = question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_type = NLMSG_NOOP;
	ask(scene, msg);
	expect_silence(scene);
}

/* Several messages in a datagram are answered one after another, and what is no message ends it. */
static void several_messages(void **state)
{
	struct scene *scene = *state;
	unsigned char bytes[1024] = { 0 };
	size_t length = 0;
	struct answer answer;

	static const struct {
		int command, flags, device;
	} questions[] = { { RDMA_NLDEV_CMD_GET, NLM_F_DUMP, -1 },
			  { RDMA_NLDEV_CMD_GET, NLM_F_ACK, 7 },
			  { RDMA_NLDEV_CMD_GET, NLM_F_ACK, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		struct nl_msg *msg =
			question(questions[i].command, questions[i].flags, questions[i].device, -1);

		memcpy(bytes + length, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
		length += NLMSG_ALIGN(nlmsg_hdr(msg)->nlmsg_len);
		nlmsg_free(msg);
	}
	/* One more, that says it were longer than what is there. */
	((struct nlmsghdr *)(bytes + length))->nlmsg_len = 100;
	((struct nlmsghdr *)(bytes + length))->nlmsg_flags = NLM_F_ACK;
	ask_bytes(scene, bytes, length + sizeof(struct nlmsghdr));
	assert_true(take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
	assert_true(take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
	nlmsg_free(next(scene)); /* the end of the list */
	expect_error(scene, EINVAL);
	assert_true(take(scene, RDMA_NLDEV_CMD_GET, 0, &answer));
	assert_int_equal(u32_of(&answer, DEV_INDEX), 1);
	expect_error(scene, 0);
	expect_silence(scene);
	ask_bytes(scene, bytes, 3);
	expect_silence(scene);
	ask_bytes(scene, bytes, 0);
	expect_silence(scene);
}

static void a_datagram_too_long(void **state)
{
	struct scene *scene = *state;
	struct nl_msg *msg = question(RDMA_NLDEV_CMD_GET, 0, 0, -1);

	memcpy(scene->talk.bytes, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
	nlmsg_free(msg);
	nl_talk_begin(&scene->talk, NL_TALK_BYTES, true, &scene->asker);
	expect_error(scene, EMSGSIZE);
	expect_silence(scene);
}

/* ---------------------------------------------------------------------------------- noise */

/* Answers come to an end, whatever was asked; each is a message. Returns how many there were. */
static unsigned int drain(struct scene *scene)
{
	struct nl_msg *msg;
	unsigned int count = 0;

	while ((msg = next(scene))) {
		assert_true(nlmsg_ok(nlmsg_hdr(msg), (int)nlmsg_hdr(msg)->nlmsg_len));
		nlmsg_free(msg);
		assert_true(++count < 10000);
	}
	return count;
}

/* Questions, some bytes of which are something else. */
static void noise(void **state)
{
	struct scene *scene = *state;
	struct client *client = program(scene, 0, 100);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(client, 16);
	struct srq *srq = srq_new(client, 16, 1, 0);
	const char *seed_text = getenv("SIMHCA_TEST_SEED");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : 20240607, answered = 0;

	for (unsigned int i = 0; i < 50; i++)
		qp_new(client, &options, cq, cq, srq);
	mr_new(client, 4096, ALL_ACCESS | SIMHCA_ACCESS_ON_DEMAND);
	/* As little as a fuzzer needs to go on: not what each of 20000 is allowed to do by itself.
	 */
	for (unsigned int round = 0; round < 20000; round++) {
		unsigned char bytes[512];
		size_t length = 0;

		while (length < 200) {
			struct nl_msg *msg = question((int)(test_random(&seed) % 32),
						      test_random(&seed) % 2 ? NLM_F_DUMP : 0,
						      (int)(test_random(&seed) % 4) - 1,
						      (int)(test_random(&seed) % 4) - 1);

			for (unsigned int i = test_random(&seed) % 4; i; i--)
				nla_put_u32(msg, (int)(test_random(&seed) % 110),
					    test_random(&seed) % 100);
			nla_put_string(msg, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs");
			memcpy(bytes + length, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
			length += NLMSG_ALIGN(nlmsg_hdr(msg)->nlmsg_len);
			nlmsg_free(msg);
		}
		for (unsigned int i = test_random(&seed) % 6; i; i--)
			bytes[test_random(&seed) % length] = (unsigned char)test_random(&seed);
		ask_bytes(scene, bytes, length - test_random(&seed) % 40);
		answered += drain(scene);
	}
	/* It was not all thrown away at the door. */
	assert_true(answered > 20000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_ethernet, end)
#define TEST_INFINIBAND(name)                                                                      \
	{                                                                                          \
#name " (InfiniBand)", name, begin_infiniband, end, NULL                           \
	}
	const struct CMUnitTest tests[] = {
		TEST(a_device),
		TEST_INFINIBAND(a_device),
		TEST(all_devices),
		TEST(a_port),
		TEST_INFINIBAND(a_port),
		TEST(to_a_stranger),
		TEST(the_system),
		TEST(device_nodes),
		TEST(qps),
		TEST(many_objects),
		TEST(objects_that_go_meanwhile),
		TEST(regions),
		TEST(queues),
		TEST(a_shared_target),
		TEST(cm_ids),
		TEST(summary),
		TEST(port_counters),
		TEST(qp_counters),
		TEST(acknowledgements),
		TEST(wrong_questions),
		TEST(commands_that_are_refused),
		TEST(not_for_us),
		TEST(several_messages),
		TEST(a_datagram_too_long),
		TEST(noise),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);

	nlmsg_free(last);
	return ret;
}
