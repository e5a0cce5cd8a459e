/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The uverbs methods, asked for as libibverbs asks. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <cmocka.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "fake_daemon.h"

static const char *runtime_dir;
static pid_t server;
static int device;

static int setup(void **state)
{
	server = fake_daemon_start(runtime_dir);
	device = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	return device < 0;
}

static int teardown(void **state)
{
	char path[256];

	close(device);
	if (server)
		fake_daemon_stop(server);
	server = 0;
	snprintf(path, sizeof(path), "%s/tree/dev/infiniband/uverbs0", runtime_dir);
	unlink(path);
	return 0;
}

/* The header with room for its attributes. */
struct command {
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		uint8_t room[sizeof(struct ib_uverbs_ioctl_hdr) +
			     8 * sizeof(struct ib_uverbs_attr)];
	};
};

static struct command new_command(uint16_t object, uint16_t method)
{
	return (struct command){ .hdr = { .object_id = object, .method_id = method } };
}

static struct ib_uverbs_attr *add(struct command *command, uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *attr = &command->hdr.attrs[command->hdr.num_attrs++];

	*attr = (struct ib_uverbs_attr){
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data
	};
	return attr;
}

static int run(int fd, struct command *command)
{
	command->hdr.length = (uint16_t)(sizeof(command->hdr) +
					 command->hdr.num_attrs * sizeof(command->hdr.attrs[0]));
	return ioctl(fd, RDMA_VERBS_IOCTL, &command->hdr) ? errno : 0;
}

static void assert_record(int fd, const char *record)
{
	char text[32] = "";

	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), strlen(record));
	assert_string_equal(text, record);
	close(fd);
}

static void test_probe(void **state)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);

	add(&command, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE);
	assert_int_equal(run(device, &command), ENOSPC);
}

static int create_channel(int fd, uint32_t *channel)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	struct ib_uverbs_create_comp_channel_resp resp = { .fd = 0 };
	struct ib_uverbs_attr *out;
	int ret;

	add(&command, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL);
	add(&command, UVERBS_ATTR_CORE_IN, 8, 0);
	out = add(&command, UVERBS_ATTR_CORE_OUT, sizeof(resp), (uintptr_t)&resp);
	errno = 77;
	ret = run(fd, &command);
	*channel = resp.fd;
	if (!ret) {
		assert_true(out->flags & UVERBS_ATTR_F_VALID_OUTPUT);
		assert_int_equal(errno, 77);
	}
	return ret;
}

static void test_comp_channel(void **state)
{
	uint32_t channel;

	assert_int_equal(create_channel(device, &channel), 0);
	assert_record((int)channel, FAKE_CHANNEL_RECORD);
}

static void test_comp_channel_nonblocking_device(void **state)
{
	uint32_t channel;

	assert_int_equal(fcntl(device, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	assert_int_equal(create_channel(device, &channel), 0);
	assert_record((int)channel, FAKE_CHANNEL_RECORD);
}

static void test_comp_channel_refused(void **state)
{
	uint32_t channel;

	kill(server, SIGUSR1);
	assert_int_equal(create_channel(device, &channel), EMFILE);
}

static void test_comp_channel_daemon_dead(void **state)
{
	uint32_t channel;

	fake_daemon_stop(server);
	server = 0;
	assert_int_equal(create_channel(device, &channel), EIO);
}

static void on_alarm(int signal)
{
	kill(server, SIGKILL);
}

/* The daemon dies while the answer is awaited: no hang. */
static void test_comp_channel_daemon_dies(void **state)
{
	uint32_t channel;

	signal(SIGALRM, on_alarm);
	kill(server, SIGSTOP);
	alarm(1);
	assert_int_equal(create_channel(device, &channel), EIO);
}

static void test_async_fd(void **state)
{
	struct command command =
		new_command(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
	struct ib_uverbs_attr *handle =
		add(&command, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0);

	assert_int_equal(run(device, &command), 0);
	assert_record((int)handle->data_s64, FAKE_ASYNC_RECORD);
}

static int query_gid(uint64_t port, uint64_t index, void *entry, uint16_t size)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);

	add(&command, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 8, port);
	add(&command, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, index);
	add(&command, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0);
	add(&command, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, size, (uintptr_t)entry);
	return run(device, &command);
}

static const uint8_t gid[16] = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1 };

static void test_gid_entry(void **state)
{
	struct ib_uverbs_gid_entry entry[2];

	memset(entry, 0xaa, sizeof(entry));
	assert_int_equal(query_gid(1, 1, entry, sizeof(entry)), 0);
	assert_memory_equal(entry[0].gid, gid, 16);
	assert_int_equal(entry[0].gid_index, 1);
	assert_int_equal(entry[0].port_num, 1);
	assert_int_equal(entry[0].gid_type, IB_UVERBS_GID_TYPE_ROCE_V2);
	assert_int_equal(entry[0].netdev_ifindex, if_nametoindex("lo"));
	/* The caller's entry is longer than ours: its unknown fields are 0. */
	assert_int_equal(entry[1].gid[0], 0);

	assert_int_equal(query_gid(1, 0, entry, sizeof(entry[0])), 0);
	assert_int_equal(entry[0].gid_type, IB_UVERBS_GID_TYPE_ROCE_V1);

	assert_int_equal(query_gid(1, 2, entry, sizeof(entry[0])), ENODATA);
	assert_int_equal(query_gid(1, 4, entry, sizeof(entry[0])), EINVAL);
	assert_int_equal(query_gid(2, 0, entry, sizeof(entry[0])), EINVAL);
}

static int query_gid_table(struct ib_uverbs_gid_entry *entries, uint16_t max, uint64_t *count)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);

	add(&command, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, sizeof(*entries));
	add(&command, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
	add(&command, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, (uint16_t)(max * sizeof(*entries)),
	    (uintptr_t)entries);
	add(&command, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, (uintptr_t)count);
	return run(device, &command);
}

static void test_gid_table(void **state)
{
	struct ib_uverbs_gid_entry entries[4];
	uint64_t count = 99;

	assert_int_equal(query_gid_table(entries, 4, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(entries[0].gid_type, IB_UVERBS_GID_TYPE_ROCE_V1);
	assert_int_equal(entries[1].gid_type, IB_UVERBS_GID_TYPE_ROCE_V2);
	assert_int_equal(entries[1].gid_index, 1);
	assert_memory_equal(entries[1].gid, gid, 16);
	assert_int_equal(query_gid_table(entries, 2, &count), 0);
	assert_int_equal(query_gid_table(entries, 1, &count), EINVAL);
}

static void test_other_methods(void **state)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);

	assert_int_equal(run(device, &command), EPROTONOSUPPORT);
	command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	add(&command, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_ALLOC_PD);
	assert_int_equal(run(device, &command), EOPNOTSUPP);
	add(&command, 77, 8, 0);
	assert_int_equal(run(device, &command), EPROTONOSUPPORT);
	command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	assert_int_equal(ioctl(device, RDMA_VERBS_IOCTL, &command), -1);
	assert_int_equal(errno, EINVAL);
}

static void test_other_descriptors(void **state)
{
	struct command command = new_command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	int ends[2], available = -1;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(run(ends[0], &command), ENOTTY);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	assert_int_equal(ioctl(ends[0], FIONREAD, &available), 0);
	assert_int_equal(available, 3);
	assert_int_equal(run(-1, &command), EBADF);
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(test_probe),
		DEVICE_TEST(test_comp_channel),
		DEVICE_TEST(test_comp_channel_nonblocking_device),
		DEVICE_TEST(test_comp_channel_refused),
		DEVICE_TEST(test_comp_channel_daemon_dead),
		DEVICE_TEST(test_comp_channel_daemon_dies),
		DEVICE_TEST(test_async_fd),
		DEVICE_TEST(test_gid_entry),
		DEVICE_TEST(test_gid_table),
		DEVICE_TEST(test_other_methods),
		DEVICE_TEST(test_other_descriptors),
	};
	int ret;

	fake_reexec(argv, getenv("SIMHCA_PRELOAD"));
	runtime_dir = getenv("SIMHCA_RUNTIME_DIR");
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	fake_remove(runtime_dir);
	return ret;
}
