/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "nl_ask.h"

static struct nl_msg *last; /* of which somebody has the attributes */

static int begin(void **state, const struct world_config *config)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	scene->world = world_new(config);
	scene->daemon = nl_scene_new(scene->world->device);
	scene->asker = (struct nl_asker){ .pid = getpid(), .uid = getuid(), .port = PORT };
	*state = scene;
	return 0;
}

int nl_begin_ethernet(void **state)
{
	return begin(state, &(struct world_config){ 0 });
}

int nl_begin_infiniband(void **state)
{
	return begin(state, &(struct world_config){ .infiniband = true });
}

int nl_end(void **state)
{
	struct scene *scene = *state;

	nlmsg_free(last);
	last = NULL;
	nl_scene_free(scene->daemon);
	world_free(scene->world);
	free(scene);
	return 0;
}

struct client *nl_program(struct scene *scene, unsigned int device, pid_t pid)
{
	struct client *client = client_new(scene->world, device);

	nl_scene_add(scene->daemon, device, client->context, pid);
	return client;
}

struct nl_msg *nl_question(int command, int flags, int device, int port)
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

void nl_ask_bytes(struct scene *scene, const void *bytes, size_t length)
{
	assert_false(nl_talk_under_way(&scene->talk));
	assert_true(length <= sizeof(scene->talk.bytes));
	memcpy(scene->talk.bytes, bytes, length);
	nl_talk_begin(&scene->talk, (int)length, false, &scene->asker);
}

void nl_ask(struct scene *scene, struct nl_msg *msg)
{
	nl_ask_bytes(scene, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
	nlmsg_free(msg);
}

struct nl_msg *nl_next(struct scene *scene)
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

void nl_expect_silence(struct scene *scene)
{
	assert_null(nl_next(scene));
}

void nl_expect_error(struct scene *scene, int error)
{
	struct nl_msg *msg = nl_next(scene);
	const struct nlmsgerr *body;

	assert_non_null(msg);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_type, NLMSG_ERROR);
	assert_int_equal(nlmsg_datalen(nlmsg_hdr(msg)), sizeof(*body));
	body = nlmsg_data(nlmsg_hdr(msg));
	assert_int_equal(body->error, -error);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_seq, body->msg.nlmsg_seq);
	nlmsg_free(msg);
}

void nl_expect_done(struct scene *scene, int error)
{
	struct nl_msg *msg = nl_next(scene);

	assert_non_null(msg);
	assert_int_equal(nlmsg_hdr(msg)->nlmsg_type, NLMSG_DONE);
	assert_true(nlmsg_hdr(msg)->nlmsg_flags & NLM_F_MULTI);
	assert_int_equal(*(int *)nlmsg_data(nlmsg_hdr(msg)), -error);
	nlmsg_free(msg);
	nl_expect_silence(scene);
}

bool nl_take(struct scene *scene, int command, int flags, struct nl_answer *answer)
{
	nlmsg_free(last);
	last = nl_next(scene);
	assert_non_null(last);
	if (nlmsg_hdr(last)->nlmsg_type == NLMSG_DONE && flags & NLM_F_MULTI) {
		assert_int_equal(*(int *)nlmsg_data(nlmsg_hdr(last)), 0);
		nl_expect_silence(scene);
		return false;
	}
	assert_int_equal(nlmsg_hdr(last)->nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
	assert_int_equal(nlmsg_hdr(last)->nlmsg_flags, flags);
	assert_int_equal(nlmsg_hdr(last)->nlmsg_seq, SEQ);
	assert_int_equal(
		nlmsg_parse(nlmsg_hdr(last), 0, answer->attr, RDMA_NLDEV_ATTR_MAX - 1, NULL), 0);
	return true;
}

struct nl_answer nl_answer_to(struct scene *scene, int command, struct nl_msg *msg)
{
	struct nl_answer answer;

	nl_ask(scene, msg);
	assert_true(nl_take(scene, command, 0, &answer));
	nl_expect_silence(scene);
	return answer;
}

struct nl_msg *nl_keep(void)
{
	struct nl_msg *kept = last;

	last = NULL;
	return kept;
}
