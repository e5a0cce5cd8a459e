/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RDMA netlink: questions and answers as such, and what is answered to nothing that makes sense. */
#include "nl_ask.h"

static void acknowledgements(void **state)
{
	struct scene *scene = *state;
	struct nl_answer answer;

	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_GET, NLM_F_ACK, 0, -1));
	assert_true(nl_take(scene, RDMA_NLDEV_CMD_GET, 0, &answer));
	nl_expect_error(scene, 0);
	nl_expect_silence(scene);
	/* An error is one answer, not two. */
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_GET, NLM_F_ACK, 9, -1));
	nl_expect_error(scene, EINVAL);
	nl_expect_silence(scene);
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
		nl_ask(scene, nl_question(need_a_device[i], 0, -1, 1));
		nl_expect_error(scene, EINVAL);
		nl_ask(scene, nl_question(need_a_device[i], 0, 2, 1));
		nl_expect_error(scene, EINVAL);
		nl_ask(scene, nl_question(need_a_device[i], 0, 0x7fffffff, 1));
		nl_expect_error(scene, EINVAL);
	}
	/* What is wrong with a list comes with its end. */
	for (size_t i = 0; i < ARRAY_SIZE(lists_of_one); i++) {
		nl_ask(scene, nl_question(lists_of_one[i], NLM_F_DUMP, -1, -1));
		nl_expect_done(scene, EINVAL);
	}
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 2));
	nl_expect_error(scene, EINVAL);
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, 0, 2));
	nl_expect_done(scene, EINVAL);
	/* QPs and CM ids are asked for with their port, the others without. */
	msg = nl_question(RDMA_NLDEV_CMD_RES_QP_GET, 0, 0, -1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LQPN, 1);
	nl_ask(scene, msg);
	nl_expect_error(scene, EINVAL);
	msg = nl_question(RDMA_NLDEV_CMD_RES_PD_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, 1);
	nl_ask(scene, msg);
	nl_expect_error(scene, EINVAL);
	msg = nl_question(RDMA_NLDEV_CMD_RES_PD_GET, 0, 0, -1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, 1);
	nl_ask(scene, msg);
	nl_expect_error(scene, ENOENT);
	/* An attribute that is too short, a name without an end. */
	msg = nl_question(RDMA_NLDEV_CMD_GET, 0, -1, -1);
	nla_put_u8(msg, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_ask(scene, msg);
	nl_expect_error(scene, EINVAL);
	msg = nl_question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, 0, -1);
	nla_put(msg, RDMA_NLDEV_ATTR_CHARDEV_TYPE, 6, "uverbs");
	nl_ask(scene, msg);
	nl_expect_error(scene, EINVAL);
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
		nl_ask(scene, nl_question(commands[i].command, NLM_F_ACK, 0, 1));
		nl_expect_error(scene, geteuid() ? EPERM : commands[i].error);
		nl_expect_silence(scene);
	}
	scene->asker.pid = 0;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		nl_ask(scene, nl_question(commands[i].command, 0, 0, 1));
		nl_expect_error(scene, EPERM);
	}
	/* Commands that no kernel has, or has no such list of. */
	for (int command = RDMA_NLDEV_NUM_OPS; command < 1024; command += 97) {
		nl_ask(scene, nl_question(command, NLM_F_ACK, 0, 1));
		nl_expect_error(scene, EINVAL);
	}
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_SYS_GET, NLM_F_DUMP, 0, 1));
	nl_expect_error(scene, EINVAL);
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
		msg = nl_question(0, 0, -1, -1);
		nlmsg_hdr(msg)->nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(client, 1);
		nl_ask(scene, msg);
		nl_expect_error(scene, EINVAL);
	}
	msg = nl_question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_flags = 0;
	nl_ask(scene, msg);
	nl_expect_silence(scene);
	msg = nl_question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_flags = NLM_F_ACK;
	nl_ask(scene, msg);
	nl_expect_error(scene, 0);
	nl_expect_silence(scene);
	msg = nl_question(RDMA_NLDEV_CMD_GET, 0, 0, -1);
	nlmsg_hdr(msg)->nlmsg_type = NLMSG_NOOP;
	nl_ask(scene, msg);
	nl_expect_silence(scene);
}

/* Several messages in a datagram are answered one after another, and what is no message ends it. */
static void several_messages(void **state)
{
	struct scene *scene = *state;
	unsigned char bytes[1024] = { 0 };
	size_t length = 0;
	struct nl_answer answer;

	static const struct {
		int command, flags, device;
	} questions[] = { { RDMA_NLDEV_CMD_GET, NLM_F_DUMP, -1 },
			  { RDMA_NLDEV_CMD_GET, NLM_F_ACK, 7 },
			  { RDMA_NLDEV_CMD_GET, NLM_F_ACK, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		struct nl_msg *msg = nl_question(questions[i].command, questions[i].flags,
						 questions[i].device, -1);

		memcpy(bytes + length, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
		length += NLMSG_ALIGN(nlmsg_hdr(msg)->nlmsg_len);
		nlmsg_free(msg);
	}
	/* One more, that says it were longer than what is there. */
	((struct nlmsghdr *)(bytes + length))->nlmsg_len = 100;
	((struct nlmsghdr *)(bytes + length))->nlmsg_flags = NLM_F_ACK;
	nl_ask_bytes(scene, bytes, length + sizeof(struct nlmsghdr));
	assert_true(nl_take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
	assert_true(nl_take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
	nlmsg_free(nl_next(scene)); /* the end of the list */
	nl_expect_error(scene, EINVAL);
	assert_true(nl_take(scene, RDMA_NLDEV_CMD_GET, 0, &answer));
	assert_int_equal(u32_of(&answer, DEV_INDEX), 1);
	nl_expect_error(scene, 0);
	nl_expect_silence(scene);
	nl_ask_bytes(scene, bytes, 3);
	nl_expect_silence(scene);
	nl_ask_bytes(scene, bytes, 0);
	nl_expect_silence(scene);
}

static void a_datagram_too_long(void **state)
{
	struct scene *scene = *state;
	struct nl_msg *msg = nl_question(RDMA_NLDEV_CMD_GET, 0, 0, -1);

	memcpy(scene->talk.bytes, nlmsg_hdr(msg), nlmsg_hdr(msg)->nlmsg_len);
	nlmsg_free(msg);
	nl_talk_begin(&scene->talk, NL_TALK_BYTES, true, &scene->asker);
	nl_expect_error(scene, EMSGSIZE);
	nl_expect_silence(scene);
}

/* Answers come to an end, whatever was asked; each is a message. Returns how many there were. */
static unsigned int drain(struct scene *scene)
{
	struct nl_msg *msg;
	unsigned int count = 0;

	while ((msg = nl_next(scene))) {
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
	struct client *client = nl_program(scene, 0, 100);
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
			struct nl_msg *msg = nl_question((int)(test_random(&seed) % 32),
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
		nl_ask_bytes(scene, bytes, length - test_random(&seed) % 40);
		answered += drain(scene);
	}
	/* It was not all thrown away at the door. */
	assert_true(answered > 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(acknowledgements),
		TEST(wrong_questions),
		TEST(commands_that_are_refused),
		TEST(not_for_us),
		TEST(several_messages),
		TEST(a_datagram_too_long),
		TEST(noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
