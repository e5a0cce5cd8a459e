/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RDMA netlink: devices, ports, device nodes and counters. */
#include "nl_ask.h"

static void a_device(void **state)
{
	struct scene *scene = *state;
	struct nl_answer answer =
		nl_answer_to(scene, RDMA_NLDEV_CMD_GET, nl_question(RDMA_NLDEV_CMD_GET, 0, 1, -1));
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
	struct nl_answer answer;

	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK, -1, -1));
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(nl_take(scene, RDMA_NLDEV_CMD_GET, NLM_F_MULTI, &answer));
		assert_int_equal(u32_of(&answer, DEV_INDEX), i);
	}
	/* The end of a list is its acknowledgement. */
	nl_expect_done(scene, 0);
}

static void a_port(void **state)
{
	struct scene *scene = *state;
	const struct simhca_port_attr *port = &simhca_device_memory(scene->world->device[0])->port;
	struct nl_answer answer = nl_answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
					       nl_question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));

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
	answer = nl_answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
			      nl_question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));
	assert_int_equal(u8_of(&answer, PORT_STATE), IBV_PORT_DOWN);
}

/* Names of interfaces and numbers of processes are those of our own namespaces. */
static void to_a_stranger(void **state)
{
	struct scene *scene = *state;
	struct nl_answer answer;

	nl_program(scene, 0, 1234);
	scene->asker.pid = 0;
	answer = nl_answer_to(scene, RDMA_NLDEV_CMD_PORT_GET,
			      nl_question(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 1));
	assert_false(has(&answer, NDEV_NAME) || has(&answer, NDEV_INDEX));
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_RES_CTX_GET, NLM_F_DUMP, 0, -1));
	assert_true(nl_take(scene, RDMA_NLDEV_CMD_RES_CTX_GET, NLM_F_MULTI, &answer));
	assert_int_equal(nla_parse_nested(answer.attr, RDMA_NLDEV_ATTR_MAX - 1,
					  nla_data(answer.attr[RDMA_NLDEV_ATTR_RES_CTX]), NULL),
			 0);
	assert_true(has(&answer, RES_CTXN));
	assert_false(has(&answer, RES_PID));
	nl_expect_done(scene, 0);
}

static void the_system(void **state)
{
	struct nl_answer answer = nl_answer_to(*state, RDMA_NLDEV_CMD_SYS_GET,
					       nl_question(RDMA_NLDEV_CMD_SYS_GET, 0, -1, -1));

	assert_int_equal(nla_get_u8(answer.attr[RDMA_NLDEV_SYS_ATTR_NETNS_MODE]), 1);
	assert_int_equal(nla_get_u8(answer.attr[RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK]), 1);
}

static struct nl_msg *chardev(int device, int port, const char *type)
{
	struct nl_msg *msg = nl_question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, device, port);

	nla_put_string(msg, RDMA_NLDEV_ATTR_CHARDEV_TYPE, type);
	return msg;
}

static void device_nodes(void **state)
{
	struct scene *scene = *state;
	struct nl_answer answer =
		nl_answer_to(scene, RDMA_NLDEV_CMD_GET_CHARDEV, chardev(1, -1, "uverbs"));

	assert_string_equal(text_of(&answer, CHARDEV_NAME), "uverbs1");
	assert_int_equal(u64_of(&answer, CHARDEV), 231 << 8 | 193);
	assert_int_equal(u64_of(&answer, CHARDEV_ABI), 1);
	/* libibverbs then looks at the modalias, by which it finds the provider. */
	assert_false(has(&answer, UVERBS_DRIVER_ID));

	/* rdma_cm is of all devices. */
	answer = nl_answer_to(scene, RDMA_NLDEV_CMD_GET_CHARDEV, chardev(-1, -1, "rdma_cm"));
	assert_string_equal(text_of(&answer, CHARDEV_NAME), "rdma_cm");
	assert_int_equal(u64_of(&answer, CHARDEV), 10 << 8 | 58);
	assert_int_equal(u64_of(&answer, CHARDEV_ABI), 4);

	nl_ask(scene, chardev(1, 1, "uverbs"));
	nl_expect_error(scene, EINVAL);
	nl_ask(scene, chardev(2, -1, "uverbs"));
	nl_expect_error(scene, EINVAL);
	nl_ask(scene, chardev(-1, 1, "uverbs"));
	nl_expect_error(scene, EINVAL);
	nl_ask(scene, chardev(-1, -1, "uverbs"));
	nl_expect_error(scene, EOPNOTSUPP);
	nl_ask(scene, chardev(0, 1, "umad"));
	nl_expect_error(scene, EOPNOTSUPP);
	nl_ask(scene, chardev(1, -1, "rdma_cm"));
	nl_expect_error(scene, EOPNOTSUPP);
	nl_ask(scene, chardev(0, -1, "a name that is longer than that of any ABI"));
	nl_expect_error(scene, EINVAL);
	nl_ask(scene, nl_question(RDMA_NLDEV_CMD_GET_CHARDEV, 0, 0, -1));
	nl_expect_error(scene, EINVAL);
}

static void port_counters(void **state)
{
	struct scene *scene = *state;
	struct nl_answer answer = nl_answer_to(scene, RDMA_NLDEV_CMD_STAT_GET,
					       nl_question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1));
	struct nlattr *entry;
	int rest, found = 0;

	nla_for_each_nested(entry, answer.attr[RDMA_NLDEV_ATTR_STAT_HWCOUNTERS], rest)
	{
		struct nl_answer inner;

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
	struct nl_msg *msg = nl_question(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP, 0, 1);
	struct nl_answer answer;

	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	nl_ask(scene, msg);
	nl_expect_done(scene, 0);
	msg = nl_question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL);
	answer = nl_answer_to(scene, RDMA_NLDEV_CMD_STAT_GET, msg);
	assert_int_equal(u32_of(&answer, STAT_MODE), RDMA_COUNTER_MODE_NONE);
	msg = nl_question(RDMA_NLDEV_CMD_STAT_GET, 0, 0, 1);
	nla_put_u32(msg, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_CQ);
	nl_ask(scene, msg);
	nl_expect_error(scene, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device),	   TEST_INFINIBAND(a_device), TEST(all_devices),
		TEST(a_port),	   TEST_INFINIBAND(a_port),   TEST(to_a_stranger),
		TEST(the_system),  TEST(device_nodes),	      TEST(port_counters),
		TEST(qp_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
