/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which names lead into the device tree, and which stay outside. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_daemon.h"
#include "paths.h"

static const char *runtime_dir;

/* A tree's name is written as "TREE". */
static const struct {
	const char *path;
	const char *mapped;
} names[] = {
	{ "/sys/class/infiniband", "TREE/sys/class/infiniband" },
	{ "/sys/class/infiniband/", "TREE/sys/class/infiniband/" },
	{ "/sys/class/infiniband/rxe0/node_guid", "TREE/sys/class/infiniband/rxe0/node_guid" },
	{ "/sys/class/infiniband_verbs/uverbs0", "TREE/sys/class/infiniband_verbs/uverbs0" },
	{ "/sys/class/infiniband_mad", "TREE/sys/class/infiniband_mad" },
	{ "/sys/class/infiniband_cm", "TREE/sys/class/infiniband_cm" },
	{ "/sys/class/misc/rdma_cm/abi_version", "TREE/sys/class/misc/rdma_cm/abi_version" },
	{ "/dev/infiniband/uverbs0", "TREE/dev/infiniband/uverbs0" },
	{ "/sys/devices/simhca/rxe0", "TREE/sys/devices/simhca/rxe0" },
	{ "/proc/sys/net/rdma_ucm/max_backlog", "TREE/proc/sys/net/rdma_ucm/max_backlog" },

	{ "/sys/devices/pci5343:01", "TREE/sys/devices/pci5343:01" },
	{ "/sys/devices/pci5343:01/5343:01:00.0/numa_node",
	  "TREE/sys/devices/pci5343:01/5343:01:00.0/numa_node" },
	{ "/sys/bus/pci/devices/5343:01:00.0", "TREE/sys/bus/pci/devices/5343:01:00.0" },
	{ "/sys/class/pci_bus/5343:01/../../5343:01:00.0",
	  "TREE/sys/class/pci_bus/5343:01/../../5343:01:00.0" },

	/* Another component is another name. */
	{ "/sys/devices/pci0000:00", "/sys/devices/pci0000:00" },
	{ "/sys/bus/pci/devices", "/sys/bus/pci/devices" },
	{ "/sys/bus/pci/devices/0000:00:02.0", "/sys/bus/pci/devices/0000:00:02.0" },
	{ "/sys/class/pci_bus/0000:00", "/sys/class/pci_bus/0000:00" },
	{ "/sys/class/infiniband_other", "/sys/class/infiniband_other" },
	{ "/sys/class/infinibandx/rxe0", "/sys/class/infinibandx/rxe0" },
	{ "/sys/class/infinib", "/sys/class/infinib" },
	{ "/sys/class/misc/rdma_cm2", "/sys/class/misc/rdma_cm2" },
	{ "/sys/class/misc", "/sys/class/misc" },
	{ "/sys/class", "/sys/class" },
	{ "/dev/infinibandit", "/dev/infinibandit" },
	{ "/dev", "/dev" },
	{ "/sys/devices/simhca0", "/sys/devices/simhca0" },
	{ "/proc/sys/net/ipv4", "/proc/sys/net/ipv4" },
	{ "/proc/sys/net", "/proc/sys/net" },
	{ "/proc/net/rdma_ucm", "/proc/net/rdma_ucm" },
	{ "/", "/" },
	{ "", "" },
	{ "/sys/infiniband", "/sys/infiniband" },
	{ "/class/infiniband", "/class/infiniband" },
	{ "/tmp/sys/class/infiniband", "/tmp/sys/class/infiniband" },
	{ "sys/class/infiniband", "sys/class/infiniband" },
	{ "dev/infiniband", "dev/infiniband" },

	/* Spellings that the kernel takes for the same. */
	{ "//sys///class/./infiniband//rxe0", "TREE/sys/class/infiniband//rxe0" },
	{ "/./sys/class/infiniband/.", "TREE/sys/class/infiniband/." },
	{ "/../sys/class/infiniband", "TREE/sys/class/infiniband" },
	{ "/sys/../dev/infiniband", "TREE/dev/infiniband" },
	{ "/dev/../sys/class/misc/../infiniband", "TREE/sys/class/infiniband" },
	{ "/dev/./infiniband/../infiniband/uverbs0", "TREE/dev/infiniband/uverbs0" },

	/* `..` within the tree is the kernel's, `..` out of it leads back to the host. */
	{ "/sys/class/infiniband/rxe0/..", "TREE/sys/class/infiniband/rxe0/.." },
	{ "/sys/class/infiniband/rxe0/../rxe0", "TREE/sys/class/infiniband/rxe0/../rxe0" },
	{ "/sys/class/infiniband/..", "/sys/class/" },
	{ "/sys/class/infiniband/../", "/sys/class/" },
	{ "/sys/class/infiniband/../net/lo", "/sys/class/net/lo" },
	{ "/sys/class/infiniband/rxe0/../../net", "TREE/sys/class/infiniband/rxe0/../../net" },
	{ "/sys/class/infiniband/./../net", "/sys/class/net" },
	{ "/sys/class/infiniband/../../../etc/passwd", "/etc/passwd" },
	{ "/sys/class/infiniband/../infiniband_verbs/abi_version",
	  "TREE/sys/class/infiniband_verbs/abi_version" },
	{ "/dev/infiniband/../null", "/dev/null" },
	{ "/dev/infiniband/..hidden", "TREE/dev/infiniband/..hidden" },
};

static const char *expand(const char *name)
{
	static char text[512];

	if (strncmp(name, "TREE", 4))
		return name;
	snprintf(text, sizeof(text), "%s/tree%s", runtime_dir, name + 4);
	return text;
}

static void test_names(void **state)
{
	struct path_buf buf;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		errno = 77;
		assert_string_equal(paths_map(&buf, names[i].path), expand(names[i].mapped));
		assert_int_equal(errno, 77);
	}
	assert_null(paths_map(&buf, NULL));
}

/* What is not mapped is not copied either. */
static void test_others_are_untouched(void **state)
{
	static const char *const others[] = { "/etc/passwd", "/sys/class/net", "relative",
					      "/dev/null" };
	struct path_buf buf;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_ptr_equal(paths_map(&buf, others[i]), others[i]);
}

static void test_too_long(void **state)
{
	char path[2 * sizeof(struct path_buf)] = "/dev/infiniband/";
	struct path_buf buf;

	for (size_t len = strlen(path); len < sizeof(path) - 1; len++)
		path[len] = len % 100 ? 'a' : '/';
	assert_int_equal(access(paths_map(&buf, path), F_OK), -1);
	assert_int_equal(errno, ENAMETOOLONG);
}

static void test_unmap(void **state)
{
	char path[512];

	strcpy(path, expand("TREE/sys/class/infiniband/rxe0"));
	paths_unmap(path);
	assert_string_equal(path, "/sys/class/infiniband/rxe0");

	strcpy(path, expand("TREE/dev/infiniband/uverbs0"));
	paths_unmap(path);
	assert_string_equal(path, "/dev/infiniband/uverbs0");

	strcpy(path, expand("TREE/sysx"));
	paths_unmap(path);
	assert_string_equal(path, expand("TREE/sysx"));

	strcpy(path, "/other/tree/sys/class");
	paths_unmap(path);
	assert_string_equal(path, "/other/tree/sys/class");
}

static void test_read(void **state)
{
	char text[8];

	assert_int_equal(paths_read(text, sizeof(text), "sys/class/infiniband_verbs/%s/ibdev",
				    "uverbs0"),
			 4);
	assert_string_equal(text, FAKE_DEVICE);
	assert_int_equal(paths_read(text, sizeof(text), "sys/class/infiniband/rxe0/node_guid"), 7);
	assert_string_equal(text, "0200:00");
	errno = 77;
	assert_int_equal(paths_read(text, sizeof(text), "nothing"), -ENOENT);
	assert_int_equal(errno, 77);
}

/* Last: without a tree, the host's devices show. */
static void test_no_tree(void **state)
{
	struct path_buf buf;

	fake_remove(runtime_dir);
	assert_null(paths_tree());
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_ptr_equal(paths_map(&buf, names[i].path), names[i].path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_others_are_untouched),
		cmocka_unit_test(test_too_long), cmocka_unit_test(test_unmap),
		cmocka_unit_test(test_read),	 cmocka_unit_test(test_no_tree),
	};

	fake_reexec(argv, NULL);
	runtime_dir = getenv("SIMHCA_RUNTIME_DIR");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
