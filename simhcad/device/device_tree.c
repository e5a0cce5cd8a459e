/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
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
#define DEVICES "/devices/" /* below both */
/*
 * A domain of PCI that no host has (its number is simhca's vendor ID), with a bus for each device:
 * programs keep what the host has, and the preload library knows this by its name.
 */
#define PCI_BUS "5343:%02x"
#define PCI_FUNCTION PCI_BUS ":00.0"
#define EFA_DRIVER "/bus/pci/drivers/efa"
#define PLACE 64 /* bytes of what device_place() writes */
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

/* The device's directory below DEVICES. */
static const char *device_place(const struct tree_device *device, char place[PLACE])
{
	if (device->profile->pci.vendor)
		snprintf(place, PLACE, "pci" PCI_BUS "/" PCI_FUNCTION, device->number,
			 device->number);
	else
		snprintf(place, PLACE, "simhca/%s", device->efa ? device->pci : device->name);
	return place;
}

/* The base is something below the device's directory. */
__attribute__((format(printf, 4, 5))) static void set_device_base(struct writer *writer,
								  const char *where,
								  const struct tree_device *device,
								  const char *format, ...)
{
	char place[PLACE], below[128];
	va_list args;

	va_start(args, format);
	vsnprintf(below, sizeof(below), format, args);
	va_end(args);
	set_base(writer, "%s" DEVICES "%s%s", where, device_place(device, place), below);
}

static void make_device_link(struct writer *writer, const struct tree_device *device)
{
	char place[PLACE];

	make_link(writer, "device", "../../../%s", strrchr(device_place(device, place), '/') + 1);
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
		uint16_t code;
		unsigned int tenths; /* of Gb/s and lane */
		const char *name;
	} speeds[] = { { 1, 25, "SDR" },    { 2, 50, "DDR" },	  { 4, 100, "QDR" },
		       { 8, 100, "FDR10" }, { 16, 140, "FDR" },	  { 32, 250, "EDR" },
		       { 64, 500, "HDR" },  { 128, 1000, "NDR" }, { 256, 2000, "XDR" } };
	unsigned int lanes = 1, tenths = 25;
	const char *name = "SDR";

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i].code == port->active_width)
			lanes = widths[i].lanes;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		if (speeds[i].code == port->active_speed_ex) {
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

/* A line of a file of the NUMA node, in its directory of sysfs. Whether it is there. */
static bool read_node(uint32_t node, const char *name, char *line, int size)
{
	char path[96];
	FILE *file;
	bool is_read;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%" PRIu32 "/%s", node, name);
	file = fopen(path, "re");
	is_read = file && fgets(line, size, file);
	if (file)
		fclose(file);
	if (is_read)
		line[strcspn(line, "\n")] = '\0';
	return is_read;
}

bool device_tree_has_node(uint32_t node)
{
	char line[256];

	return read_node(node, "cpulist", line, sizeof(line));
}

/* Without a NUMA node the CPUs near the device are all there are: a mask of 32-bit words, a range. */
static void put_all_cpus(struct writer *writer)
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

static void put_node(struct writer *writer, uint32_t node)
{
	char mask[256], list[256];

	put(writer, "numa_node", "%d", (int)node); /* UINT32_MAX is the kernel's -1 */
	if (node == UINT32_MAX || !read_node(node, "cpumap", mask, sizeof(mask)) ||
	    !read_node(node, "cpulist", list, sizeof(list))) {
		put_all_cpus(writer);
		return;
	}
	put(writer, "local_cpus", "%s", mask);
	put(writer, "local_cpulist", "%s", list);
}

/* What lspci and the like look at, of a PCI function of that NIC. Its driver is named as it is. */
static void put_pci(struct writer *writer, const struct tree_device *device)
{
	const struct profile *profile = device->profile;
	bool roce = device->memory->port.link_layer == 2;
	unsigned int class = roce ? 0x020000 : 0x020700;

	put(writer, "vendor", "0x%04x", profile->pci.vendor);
	put(writer, "device", "0x%04x", profile->pci.device);
	put(writer, "subsystem_vendor", "0x%04x", profile->pci.subsystem_vendor);
	put(writer, "subsystem_device", "0x%04x", profile->pci.subsystem_device);
	put(writer, "revision", "0x%02x", profile->pci.revision);
	put(writer, "class", "0x%06x", class);
	put(writer, "uevent",
	    "DRIVER=simhca\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\n"
	    "PCI_SLOT_NAME=" PCI_FUNCTION,
	    class, profile->pci.vendor, profile->pci.device, profile->pci.subsystem_vendor,
	    profile->pci.subsystem_device, device->number);
	put(writer, "max_link_speed", "%s", profile->pci.link_speed);
	put(writer, "current_link_speed", "%s", profile->pci.link_speed);
	put(writer, "max_link_width", "16");
	put(writer, "current_link_width", "16");
	put(writer, "enable", "1");
}

static void put_no_pci(struct writer *writer, const struct simhca_device_attr *attr,
		       const char *driver)
{
	put(writer, "vendor", "0x%04" PRIx32, attr->vendor_id);
	put(writer, "device", "0x%04" PRIx32, attr->vendor_part_id);
	put(writer, "subsystem_vendor", "0x%04" PRIx32, attr->vendor_id);
	put(writer, "subsystem_device", "0x%04" PRIx32, attr->vendor_part_id);
	put(writer, "uevent", "DRIVER=%s", driver);
}

/* What stands for the PCI device. */
static void put_device(struct writer *writer, const struct tree_device *device)
{
	const struct simhca_device_attr *attr = &device->memory->attr;
	char name[64];

	make_directory(writer, "net");
	snprintf(name, sizeof(name), "net/%s", device->netdev);
	make_link(writer, name, "/sys/class/net/%s", device->netdev);
	if (device->profile->pci.vendor)
		put_pci(writer, device);
	else
		put_no_pci(writer, attr, device->efa ? "efa" : "simhca");
	/* By which its driver knows it, whatever it is called. */
	if (device->efa) {
		put(writer, "modalias", "pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", attr->vendor_id,
		    attr->vendor_part_id, attr->vendor_id, attr->vendor_part_id);
		make_link(writer, "driver", "../../.." EFA_DRIVER);
	} else {
		put(writer, "modalias", "simhca:%s", device->name);
	}
	put_node(writer, device->numa_node);
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
	put(writer, "lid", "0x%x", port->lid);
	put(writer, "lid_mask_count", "%u", port->lmc);
	put(writer, "sm_lid", "0x%x", port->sm_lid);
	put(writer, "sm_sl", "%u", port->sm_sl);
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
	put(writer, "cap_mask", "0x%08" PRIx32, port->port_cap_flags);
	put(writer, "link_layer", "%s",
	    device->efa		    ? "Unknown"
	    : port->link_layer == 2 ? "Ethernet"
				    : "InfiniBand");
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
	put(writer, "node_type", "%s", device->efa ? "7: unspecified" : "1: CA");
	put_guid(writer, "node_guid", attr->node_guid);
	put_guid(writer, "sys_image_guid", attr->sys_image_guid);
	put(writer, "fw_ver", "%.*s", (int)sizeof(attr->fw_ver), attr->fw_ver);
	put(writer, "hw_rev", "%" PRIx32, attr->hw_ver);
	if (device->efa || device->profile->hca_type)
		put(writer, "hca_type", "%s", device->efa ? "efa" : device->profile->hca_type);
	if (device->efa || device->profile->board_id)
		put(writer, "board_id", "%s", device->efa ? "efa" : device->profile->board_id);
	put(writer, "node_desc", "%s", device->name);
	make_device_link(writer, device);
}

static void put_uverbs(struct writer *writer, const struct tree_device *device)
{
	make_directory(writer, "");
	put(writer, "ibdev", "%s", device->name);
	put(writer, "dev", "%d:%u", DEVICE_TREE_MAJOR, DEVICE_TREE_MINOR + device->number);
	put(writer, "abi_version", "%d", DEVICE_TREE_ABI);
	make_device_link(writer, device);
}

/* Who sends and receives MADs at the port, and who says that it manages the subnet. */
static void put_mad(struct writer *writer, const struct tree_device *device, const char *kind,
		    unsigned int minor)
{
	char name[32], place[PLACE];

	snprintf(name, sizeof(name), "%s%u", kind, device->number);
	set_device_base(writer, BUILD, device, "/infiniband_mad/%s", name);
	make_directory(writer, "");
	put(writer, "ibdev", "%s", device->name);
	put(writer, "port", "1");
	put(writer, "dev", "%d:%u", DEVICE_TREE_MAJOR, minor + device->number);
	make_device_link(writer, device);
	set_base(writer, BUILD "/class/infiniband_mad");
	make_link(writer, name, "../.." DEVICES "%s/infiniband_mad/%s", device_place(device, place),
		  name);
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

/* Names by which programs come to the PCI function, and from it to its bus. */
static void link_pci(struct writer *writer, const struct tree_device *device)
{
	char place[PLACE], bus[16];

	snprintf(bus, sizeof(bus), PCI_BUS, device->number);
	device_place(device, place);
	set_base(writer, BUILD "/bus/pci/devices");
	make_directory(writer, "");
	make_link(writer, strchr(place, '/') + 1, "../../.." DEVICES "%s", place);
	set_device_base(writer, BUILD, device, "%s", "");
	make_link(writer, "subsystem", "../../../bus/pci");
	set_device_base(writer, BUILD, device, "/../pci_bus/%s", bus);
	make_directory(writer, "");
	set_base(writer, BUILD "/class/pci_bus");
	make_directory(writer, "");
	make_link(writer, bus, "../.." DEVICES "pci%s/pci_bus/%s", bus, bus);
}

int device_tree_add(const struct rundir *rundir, const struct tree_device *device)
{
	struct writer writer = { .rundir = rundir };
	char name[32], place[PLACE];

	if (device->efa) {
		set_base(&writer, BUILD EFA_DRIVER);
		make_directory(&writer, "");
	}
	device_place(device, place);
	set_device_base(&writer, BUILD, device, "%s", "");
	put_device(&writer, device);
	set_device_base(&writer, BUILD, device, "/infiniband/%s", device->name);
	put_rdma_device(&writer, device);
	set_device_base(&writer, BUILD, device, "/infiniband/%s/ports/1", device->name);
	put_port(&writer, device);
	set_device_base(&writer, BUILD, device, "/infiniband_verbs/uverbs%u", device->number);
	put_uverbs(&writer, device);

	set_base(&writer, BUILD "/class/infiniband");
	make_link(&writer, device->name, "../.." DEVICES "%s/infiniband/%s", place, device->name);
	set_base(&writer, BUILD "/class/infiniband_verbs");
	snprintf(name, sizeof(name), "uverbs%u", device->number);
	make_link(&writer, name, "../.." DEVICES "%s/infiniband_verbs/%s", place, name);
	if (device->profile->pci.vendor)
		link_pci(&writer, device);
	if (!device->efa && device->memory->port.link_layer == 1) {
		put_mad(&writer, device, "umad", DEVICE_TREE_UMAD_MINOR);
		put_mad(&writer, device, "issm", DEVICE_TREE_ISSM_MINOR);
	}
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

	set_device_base(&writer, PUBLISHED, device, "/infiniband/%s/ports/1", device->name);
	put_port_state(&writer, device);
	return writer.failed ? -1 : 0;
}

int device_tree_count(const struct rundir *rundir, const struct tree_device *device,
		      const uint64_t stats[SIMHCA_STATS], const uint64_t before[SIMHCA_STATS])
{
	struct writer writer = { .rundir = rundir, .quiet = device->failing };

	set_device_base(&writer, PUBLISHED, device, "/infiniband/%s/ports/1", device->name);
	put_counters(&writer, stats, before);
	return writer.failed ? -1 : 0;
}
