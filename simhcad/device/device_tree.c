/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_tree.h"
#include "gid_table.h"
#include "base/log.h"
#include "port_counters.h"
#include "simhca-abi-rdma-cm.h"

#define BUILD "tree/sys.new"
#define PUBLISHED "tree/sys"
#define DEVICE "/devices/simhca/%s" /* below both */
#define RDMA_DEVICE DEVICE "/infiniband/%s"
#define SYSCTL "tree/proc/sys/net/rdma_ucm"
#define VERBS_CLASS_ABI 6 /* of libibverbs: IB_USER_VERBS_MAX_ABI_VERSION */
#define MAD_CLASS_ABI 5	  /* of libibumad */

/* A place in the tree where files are written; after the first failure nothing happens any more. */
struct writer {
	const struct rundir *rundir;
	char base[PATH_MAX]; /* relative to the runtime directory */
	bool failed, quiet;
};

static void fail(struct writer *writer, const char *path)
{
	if (!writer->failed && !writer->quiet)
		log_error("%s/%s: %m", writer->rundir->path, path);
	writer->failed = true;
}

__attribute__((format(printf, 2, 3))) static void set_base(struct writer *writer,
							   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(writer->base, sizeof(writer->base), format, args);
	va_end(args);
}

/* Makes base/name and what is missing above it. */
static void make_directory(struct writer *writer, const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", writer->base, name[0] ? "/" : "", name);
	for (char *slash = path; !writer->failed && slash;) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		if (mkdirat(writer->rundir->fd, path, 0755) && errno != EEXIST)
			fail(writer, path);
		if (slash)
			*slash = '/';
	}
}

__attribute__((format(printf, 3, 4))) static void make_link(struct writer *writer, const char *name,
							    const char *format, ...)
{
	char path[2 * PATH_MAX], target[256];
	va_list args;

	va_start(args, format);
	vsnprintf(target, sizeof(target), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", writer->base, name);
	if (!writer->failed && symlinkat(target, writer->rundir->fd, path))
		fail(writer, path);
}

/*
 * One line into base/name: into the same file when it exists, by a single write, so that a reader
 * gets the old line or the new one.
 */
__attribute__((format(printf, 3, 4))) static void put(struct writer *writer, const char *name,
						      const char *format, ...)
{
	char path[2 * PATH_MAX], line[256];
	va_list args;
	int fd, length;

	if (writer->failed)
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (length < 0 || length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	if (length)
		line[length++] = '\n';

	snprintf(path, sizeof(path), "%s/%s", writer->base, name);
	fd = openat(writer->rundir->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || pwrite(fd, line, (size_t)length, 0) != length || ftruncate(fd, length))
		fail(writer, path);
	if (fd >= 0)
		close(fd);
}

static void put_numbered(struct writer *writer, const char *directory, int number, const char *line)
{
	char name[64];

	snprintf(name, sizeof(name), "%s/%d", directory, number);
	put(writer, name, "%s", line);
}

/* ------------------------------------------------------------------------ what the files say */

static const char *port_state(uint32_t state)
{
	static const char *const names[] = { "0: NOP",	 "1: DOWN",   "2: INIT",
					     "3: ARMED", "4: ACTIVE", "5: ACTIVE_DEFER" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "0: NOP";
}

static const char *physical_state(uint32_t state)
{
	static const char *const names[] = { "0: <unknown>",
					     "1: Sleep",
					     "2: Polling",
					     "3: Disabled",
					     "4: PortConfigurationTraining",
					     "5: LinkUp",
					     "6: LinkErrorRecovery",
					     "7: Phy Test" };

	return names[state < sizeof(names) / sizeof(names[0]) ? state : 0];
}

/* Width and speed are coded as in struct ibv_port_attr. */
static void put_rate(struct writer *writer, const struct simhca_port_attr *port)
{
	static const struct {
		uint8_t code;
		unsigned int lanes;
	} widths[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
	static const struct {
		uint8_t code;
		unsigned int tenths; /* of Gb/s and lane */
		const char *name;
	} speeds[] = { { 1, 25, "SDR" },    { 2, 50, "DDR" },	 { 4, 100, "QDR" },
		       { 8, 100, "FDR10" }, { 16, 140, "FDR" },	 { 32, 250, "EDR" },
		       { 64, 500, "HDR" },  { 128, 1000, "NDR" } };
	unsigned int lanes = 1, tenths = 25;
	const char *name = "SDR";

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i].code == port->active_width)
			lanes = widths[i].lanes;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		if (speeds[i].code == port->active_speed) {
			tenths = speeds[i].tenths;
			name = speeds[i].name;
		}
	}
	tenths *= lanes;
	if (tenths % 10)
		put(writer, "rate", "%u.%u Gb/sec (%uX %s)", tenths / 10, tenths % 10, lanes, name);
	else
		put(writer, "rate", "%u Gb/sec (%uX %s)", tenths / 10, lanes, name);
}

static void put_guid(struct writer *writer, const char *name, uint64_t guid)
{
	guid = be64toh(guid);
	put(writer, name, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
	    (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
	    (unsigned int)(guid & 0xffff));
}

/* The CPUs near the device are all there are: as a mask of 32-bit words, and as a range. */
static void put_cpus(struct writer *writer)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char mask[256] = "";
	size_t used = 0;

	if (cpus < 1)
		cpus = 1;
	if (cpus > CPU_SETSIZE)
		cpus = CPU_SETSIZE;
	for (long word = (cpus - 1) / 32; word >= 0; word--) {
		long bits = cpus - 32 * word;

		if (bits >= 32 || used + 10 > sizeof(mask))
			bits = 32;
		if (used + 10 > sizeof(mask))
			break;
		used += (size_t)snprintf(
			mask + used, sizeof(mask) - used,
			word == (cpus - 1) / 32 && bits < 32 ? "%" PRIx32 "%s" : "%08" PRIx32 "%s",
			bits == 32 ? UINT32_MAX : (UINT32_C(1) << bits) - 1, word ? "," : "");
	}
	put(writer, "local_cpus", "%s", mask);
	if (cpus > 1)
		put(writer, "local_cpulist", "0-%ld", cpus - 1);
	else
		put(writer, "local_cpulist", "0");
}

/* What stands for the PCI device. */
static void put_device(struct writer *writer, const struct tree_device *device)
{
	const struct simhca_device_attr *attr = &device->memory->attr;
	char name[64];

	make_directory(writer, "net");
	snprintf(name, sizeof(name), "net/%s", device->netdev);
	make_link(writer, name, "/sys/class/net/%s", device->netdev);
	put(writer, "vendor", "0x%04" PRIx32, attr->vendor_id);
	put(writer, "device", "0x%04" PRIx32, attr->vendor_part_id);
	put(writer, "subsystem_vendor", "0x%04" PRIx32, attr->vendor_id);
	put(writer, "subsystem_device", "0x%04" PRIx32, attr->vendor_part_id);
	put(writer, "modalias", "simhca:%s", device->name);
	put(writer, "uevent", "DRIVER=simhca");
	put(writer, "numa_node", "-1");
	put_cpus(writer);
}

/* An attribute of the kernel's that can be opened, and whose read() is EINVAL. */
#define UNREADABLE "/sys/class/net/lo/speed"

static bool has_unreadable(void)
{
	int fd = open(UNREADABLE, O_RDONLY | O_CLOEXEC);
	char byte;
	bool has = fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINVAL;

	if (fd >= 0)
		close(fd);
	return has;
}

/*
 * An attribute of a GID: a line, or of an index that has no GID EINVAL at read(), by which programs
 * tell it from an index that there is not. The one takes the place of the other.
 */
static void put_gid_attr(struct writer *writer, const char *directory, int number, bool empty,
			 const char *line)
{
	char name[64], path[2 * PATH_MAX], target[sizeof(UNREADABLE)];
	ssize_t length;
	bool is_link;

	snprintf(name, sizeof(name), "%s/%d", directory, number);
	snprintf(path, sizeof(path), "%s/%s", writer->base, name);
	length = readlinkat(writer->rundir->fd, path, target, sizeof(target));
	is_link = length > 0;
	empty = empty && has_unreadable();
	if (is_link != empty && !writer->failed && unlinkat(writer->rundir->fd, path, 0) &&
	    errno != ENOENT)
		fail(writer, path);
	if (!empty)
		put(writer, name, "%s", line);
	else if (!is_link)
		make_link(writer, name, UNREADABLE);
}

static void put_gids(struct writer *writer, const struct tree_device *device)
{
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		const struct simhca_gid_entry *entry = &device->memory->gids[i];
		bool roce = device->memory->port.link_layer == 2;
		char text[GID_TEXT];

		gid_print(&entry->gid, text);
		put_numbered(writer, "gids", i, text);
		put_gid_attr(writer, "gid_attrs/types", i, gid_is_empty(&entry->gid),
			     roce ? "RoCE v2" : "IB/RoCE v1");
		/* libibverbs reads an empty file as "none". */
		put_gid_attr(writer, "gid_attrs/ndevs", i, gid_is_empty(&entry->gid),
			     entry->ifindex ? device->netdev : "");
	}
}

static void put_port_state(struct writer *writer, const struct tree_device *device)
{
	const struct simhca_port_attr *port = &device->memory->port;

	put(writer, "state", "%s", port_state(port->state));
	put(writer, "phys_state", "%s", physical_state(port->phys_state));
	put_gids(writer, device);
}

/* Those that differ from what was; all of them if there is no before. */
static void put_counters(struct writer *writer, const uint64_t stats[SIMHCA_STATS],
			 const uint64_t *before)
{
	const struct port_counter *counter;

	for (unsigned int i = 0; (counter = port_counter(i)); i++) {
		uint64_t value = port_counter_value(counter, stats);

		if (!before || port_counter_value(counter, before) != value)
			put(writer, counter->path, "%" PRIu64, value);
	}
}

static void put_port(struct writer *writer, const struct tree_device *device)
{
	const struct simhca_devmem *memory = device->memory;
	const struct simhca_port_attr *port = &memory->port;
	static const uint64_t zero[SIMHCA_STATS];
	char line[16];

	make_directory(writer, "gids");
	make_directory(writer, "gid_attrs/types");
	make_directory(writer, "gid_attrs/ndevs");
	make_directory(writer, "pkeys");
	make_directory(writer, "counters");
	make_directory(writer, "hw_counters");
	put_port_state(writer, device);
	put(writer, "lid", "0x%x", port->lid);
	put(writer, "lid_mask_count", "%u", port->lmc);
	put(writer, "sm_lid", "0x%x", port->sm_lid);
	put(writer, "sm_sl", "%u", port->sm_sl);
	put(writer, "cap_mask", "0x%08" PRIx32, port->port_cap_flags);
	put(writer, "link_layer", "%s", port->link_layer == 2 ? "Ethernet" : "InfiniBand");
	put_rate(writer, port);
	for (int i = 0; i < SIMHCA_PKEY_ENTRIES; i++) {
		snprintf(line, sizeof(line), "0x%04x", memory->pkeys[i]);
		put_numbered(writer, "pkeys", i, line);
	}
	put_counters(writer, zero, NULL);
	put(writer, "hw_counters/lifespan", "%d", DEVICE_TREE_COUNTERS_MS);
}

static void put_rdma_device(struct writer *writer, const struct tree_device *device)
{
	const struct simhca_device_attr *attr = &device->memory->attr;

	make_directory(writer, "");
	put(writer, "node_type", "1: CA");
	put_guid(writer, "node_guid", attr->node_guid);
	put_guid(writer, "sys_image_guid", attr->sys_image_guid);
	put(writer, "fw_ver", "%.*s", (int)sizeof(attr->fw_ver), attr->fw_ver);
	put(writer, "hw_rev", "%" PRIx32, attr->hw_ver);
	put(writer, "hca_type", "simhca");
	put(writer, "board_id", "simhca");
	put(writer, "node_desc", "%s", device->name);
	make_link(writer, "device", "../../../%s", device->name);
}

static void put_uverbs(struct writer *writer, const struct tree_device *device)
{
	make_directory(writer, "");
	put(writer, "ibdev", "%s", device->name);
	put(writer, "dev", "%d:%u", DEVICE_TREE_MAJOR, DEVICE_TREE_MINOR + device->number);
	put(writer, "abi_version", "%d", DEVICE_TREE_ABI);
	make_link(writer, "device", "../../../%s", device->name);
}

/* -------------------------------------------------------------------------------- the tree */

int device_tree_create(const struct rundir *rundir)
{
	struct writer writer = { .rundir = rundir };

	set_base(&writer, "tree/dev/infiniband");
	make_directory(&writer, "");
	set_base(&writer, "tree/netlink");
	make_directory(&writer, "");
	set_base(&writer, BUILD "/class/infiniband");
	make_directory(&writer, "");
	set_base(&writer, BUILD "/class/infiniband_verbs");
	make_directory(&writer, "");
	put(&writer, "abi_version", "%d", VERBS_CLASS_ABI);
	set_base(&writer, BUILD "/class/infiniband_mad");
	make_directory(&writer, "");
	put(&writer, "abi_version", "%d", MAD_CLASS_ABI);
	set_base(&writer, BUILD "/class/misc/rdma_cm");
	make_directory(&writer, "");
	put(&writer, "abi_version", "%d", SIMHCA_UCMA_ABI);
	put(&writer, "dev", "%d:%d", DEVICE_TREE_RDMA_CM_MAJOR, DEVICE_TREE_RDMA_CM_MINOR);
	set_base(&writer, SYSCTL);
	make_directory(&writer, "");
	put(&writer, "max_backlog", "%d", SIMHCA_UCMA_MAX_BACKLOG);
	return writer.failed ? -1 : 0;
}

int device_tree_add(const struct rundir *rundir, const struct tree_device *device)
{
	struct writer writer = { .rundir = rundir };
	char name[32];

	set_base(&writer, BUILD DEVICE, device->name);
	put_device(&writer, device);
	set_base(&writer, BUILD RDMA_DEVICE, device->name, device->name);
	put_rdma_device(&writer, device);
	set_base(&writer, BUILD RDMA_DEVICE "/ports/1", device->name, device->name);
	put_port(&writer, device);
	set_base(&writer, BUILD DEVICE "/infiniband_verbs/uverbs%u", device->name, device->number);
	put_uverbs(&writer, device);

	set_base(&writer, BUILD "/class/infiniband");
	make_link(&writer, device->name, "../.." RDMA_DEVICE, device->name, device->name);
	set_base(&writer, BUILD "/class/infiniband_verbs");
	snprintf(name, sizeof(name), "uverbs%u", device->number);
	make_link(&writer, name, "../.." DEVICE "/infiniband_verbs/%s", device->name, name);
	return writer.failed ? -1 : 0;
}

int device_tree_publish(const struct rundir *rundir)
{
	if (!renameat(rundir->fd, BUILD, rundir->fd, PUBLISHED))
		return 0;
	log_error("%s/" PUBLISHED ": %m", rundir->path);
	return -1;
}

int device_tree_update(const struct rundir *rundir, const struct tree_device *device)
{
	struct writer writer = { .rundir = rundir, .quiet = device->failing };

	set_base(&writer, PUBLISHED RDMA_DEVICE "/ports/1", device->name, device->name);
	put_port_state(&writer, device);
	return writer.failed ? -1 : 0;
}

int device_tree_count(const struct rundir *rundir, const struct tree_device *device,
		      const uint64_t stats[SIMHCA_STATS], const uint64_t before[SIMHCA_STATS])
{
	struct writer writer = { .rundir = rundir, .quiet = device->failing };

	set_base(&writer, PUBLISHED RDMA_DEVICE "/ports/1", device->name, device->name);
	put_counters(&writer, stats, before);
	return writer.failed ? -1 : 0;
}
