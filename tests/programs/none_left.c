/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * none_left N VERB: uses the verb with N descriptors left, which are not enough for it. `open` is of a
 * second device; of `list` and `first` the program has none open, and for `list` has not looked for any.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define LIMIT 64

static struct ibv_context *context;
static struct ibv_device *device;

/* Each: whether it fails, and leaves the error in errno. */
static bool channel(void)
{
	return !ibv_create_comp_channel(context);
}

static bool dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };

	return !ibv_alloc_dm(context, &attr);
}

static bool gid(void)
{
	union ibv_gid found;

	return ibv_query_gid(context, 1, 0, &found);
}

static bool gid_ex(void)
{
	struct ibv_gid_entry entry;

	errno = ibv_query_gid_ex(context, 1, 0, &entry, 0);
	return errno;
}

static bool gid_table(void)
{
	struct ibv_gid_entry entries[64];
	ssize_t count = ibv_query_gid_table(context, entries, 64, 0);

	if (count < 0)
		errno = (int)-count;
	return count < 0;
}

static bool open_device(void)
{
	return !ibv_open_device(device);
}

static bool rdma_cm(void)
{
	return open("/dev/infiniband/rdma_cm", O_RDWR) < 0;
}

/* A list without devices is what libibverbs makes of a directory that it cannot open. */
static bool list(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	bool fails = !devices || !devices[0];

	errno = fails ? EMFILE : 0;
	return fails;
}

static const struct {
	const char *name;
	bool (*fails)(void);
} verbs[] = { { "channel", channel },
	      { "dm", dm },
	      { "gid", gid },
	      { "gid_ex", gid_ex },
	      { "gid_table", gid_table },
	      { "list", list },
	      { "first", open_device },
	      { "open", open_device },
	      { "rdma_cm", rdma_cm } };

int main(int argc, char *argv[])
{
	struct rlimit limit = { LIMIT, LIMIT };
	int left = argc == 3 ? atoi(argv[1]) : -1;
	struct ibv_device **devices;

	if (left < 0)
		return 2;
	if (strcmp(argv[2], "list") != 0) {
		devices = ibv_get_device_list(NULL);
		if (!devices || !devices[0])
			return 2;
		device = devices[0];
		if (strcmp(argv[2], "first") != 0)
			context = ibv_open_device(device);
		if (!context && strcmp(argv[2], "first") != 0)
			return 2;
	}
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 2;
	while (dup(0) >= 0)
		;
	for (int i = 0; i < left; i++)
		close(LIMIT - 1 - i);
	/* With the last one libibverbs looks for the device elsewhere, and says of that why it failed. */
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(argv[2], verbs[i].name))
			return verbs[i].fails() && (errno == EMFILE || left == 1) ? 0 : 1;
	return 2;
}
