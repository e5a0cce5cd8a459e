/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA_VERBS_IOCTL on an open device: the methods that libibverbs calls by itself, past the
 * provider. Everything else is EPROTONOSUPPORT, the kernel's answer to a method that it does not
 * have, upon which libibverbs looks for another way.
 *
 *	INVOKE_WRITE		at open, to learn whether the old write() commands are to be given
 *				this way. They are, so that no write() has to be watched for them.
 *				Of these commands CREATE_COMP_CHANNEL comes from libibverbs for
 *				each device; all others are those of a driver of real hardware
 *				(driver.h), of which another process than this has none
 *	ASYNC_EVENT_ALLOC	ibv_import_device()
 *	MR_QUERY		libefa's, of regions
 *	QUERY_GID_ENTRY		ibv_query_gid() and relatives
 *	QUERY_GID_TABLE		ibv_query_gid_table()
 *
 * The GID methods are answered from the files of the tree, and not left to libibverbs, which would
 * read the same files: it wants EINVAL from reading the type of an empty entry, which sysfs can
 * give and a plain file can not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "device.h"
#include "driver.h"
#include "paths.h"
#include "request.h"
#include "simhca-abi.h"
#include "limit.h"
#include "uverbs.h"

/* ------------------------------------------------------------------------------- attributes */

#define MAX_ATTRS 8

/* One call: its attributes by their id. Methods return 0 or a positive errno. */
struct call {
	struct caller *caller;
	int fd;
	struct device_name device;
	struct ib_uverbs_attr *attrs[MAX_ATTRS]; /* here, from where they go back to the caller */
	struct ib_uverbs_attr *driver_in, *driver_out; /* what a provider and its device know */
};

/* An attribute of up to 8 bytes is in its descriptor itself, not behind a pointer. */
static int get_number(const struct call *call, unsigned int id, uint64_t *value)
{
	const struct ib_uverbs_attr *attr = call->attrs[id];

	*value = 0;
	if (!attr || !attr->len || attr->len > sizeof(*value))
		return EINVAL;
	memcpy(value, &attr->data, attr->len);
	return 0;
}

static void *out_buffer(const struct call *call, unsigned int id)
{
	return (void *)(uintptr_t)call->attrs[id]->data;
}

static int put(struct call *call, unsigned int id, const void *value, size_t size)
{
	struct ib_uverbs_attr *attr = call->attrs[id];

	attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return -caller_write(call->caller, out_buffer(call, id), value,
			     size < attr->len ? size : attr->len);
}

/* A descriptor that the daemon has sent, in the caller's table; or a negative errno. */
static int give(struct call *call, int fd)
{
	return fd >= 0 && caller_is_other(call->caller) ? call->caller->give(call->caller, fd) : fd;
}

/* ------------------------------------------------------------- channels and the old commands */

static int create_comp_channel(struct call *call)
{
	struct ib_uverbs_create_comp_channel_resp resp;
	int fd;

	if (!call->attrs[UVERBS_ATTR_CORE_OUT] ||
	    call->attrs[UVERBS_ATTR_CORE_OUT]->len < sizeof(resp))
		return ENOSPC;
	fd = give(call, request_fd(call->fd, SIMHCA_CMD_CREATE_CHANNEL, SIMHCA_SAY_CREATE_CHANNEL));
	if (fd < 0)
		return -fd;
	resp.fd = (uint32_t)fd;
	return put(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

/* A buffer of the program's that an attribute names; one of up to 8 bytes may be the attribute. */
static struct driver_part in_part(const struct ib_uverbs_attr *attr)
{
	if (!attr)
		return (struct driver_part){ NULL, 0 };
	return (struct driver_part){ attr->len <= sizeof(attr->data)
					     ? (void *)(uintptr_t)&attr->data
					     : (void *)(uintptr_t)attr->data,
				     attr->len };
}

static struct driver_part out_part(struct ib_uverbs_attr *attr)
{
	if (!attr)
		return (struct driver_part){ NULL, 0 };
	attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return (struct driver_part){ (void *)(uintptr_t)attr->data, attr->len };
}

/* The channel of a CQ is named by the program's descriptor of it, which goes along; -1: there is none. */
static int channel_of(const struct driver_part *in, uint32_t command)
{
	struct ib_uverbs_create_cq plain = { .comp_channel = -1 };
	struct ib_uverbs_ex_create_cq extended = { .comp_channel = -1 };

	if (command == IB_USER_VERBS_CMD_CREATE_CQ && in->size >= sizeof(plain))
		memcpy(&plain, in->data, sizeof(plain));
	if (command == (IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ) &&
	    in->size >= sizeof(extended))
		memcpy(&extended, in->data, sizeof(extended));
	return plain.comp_channel >= 0 ? plain.comp_channel : extended.comp_channel;
}

static int pass_on(struct call *call, uint32_t command)
{
	const struct driver_part core = in_part(call->attrs[UVERBS_ATTR_CORE_IN]);
	const struct driver_write write = {
		.command = command,
		.in = { core, in_part(call->driver_in) },
		.out = { out_part(call->attrs[UVERBS_ATTR_CORE_OUT]), out_part(call->driver_out) },
		.fd = channel_of(&core, command),
	};

	if (caller_is_other(call->caller))
		return EOPNOTSUPP;
	return driver_write(call->fd, &write);
}

static int invoke_write(struct call *call)
{
	uint64_t command;

	if (get_number(call, UVERBS_ATTR_WRITE_CMD, &command))
		return EINVAL;
	switch (command) {
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		return create_comp_channel(call);
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		/* The probe is this command with no room for its answer. */
		if (!call->attrs[UVERBS_ATTR_CORE_OUT])
			return ENOSPC;
		return pass_on(call, IB_USER_VERBS_CMD_QUERY_DEVICE);
	default:
		return command > UINT32_MAX ? EOPNOTSUPP : pass_on(call, (uint32_t)command);
	}
}

static int alloc_async_fd(struct call *call)
{
	struct ib_uverbs_attr *handle = call->attrs[UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE];
	int fd;

	if (!handle)
		return EINVAL;
	fd = give(call, request_fd(call->fd, SIMHCA_CMD_ALLOC_ASYNC_FD, SIMHCA_SAY_ALLOC_ASYNC_FD));
	if (fd < 0)
		return -fd;
	handle->data_s64 = fd;
	return 0;
}

/* Attributes of methods that drivers add; older kernel headers do not have EFA's. */
#define DRIVER_ATTRS (1u << UVERBS_ID_NS_SHIFT)
enum {
	EFA_MR_HANDLE,
	EFA_MR_VALIDITY,
	EFA_MR_RECV,
	EFA_MR_RDMA_READ,
	EFA_MR_RDMA_RECV,
	EFA_MR_ATTRS
};
#define EFA_MR_QUERY (1u << UVERBS_ID_NS_SHIFT)

/* An object is named by its handle, which is not said to have a length. */
static int query_efa_mr(struct call *call)
{
	const struct ib_uverbs_attr *region = call->attrs[EFA_MR_HANDLE];
	uint16_t out[EFA_MR_ATTRS - EFA_MR_VALIDITY] = { 0 };
	uint32_t handle = region ? (uint32_t)region->data : 0;
	struct driver_write write = {
		.command = SIMHCA_UVERBS_EFA_QUERY_MR,
		.in = { { &handle, sizeof(handle) } },
		.out = { { out, sizeof(out) } },
		.fd = -1,
	};
	int ret;

	if (caller_is_other(call->caller))
		return EOPNOTSUPP;
	if (!region || region->data > UINT32_MAX)
		return EINVAL;
	ret = driver_write(call->fd, &write);
	for (unsigned int id = EFA_MR_VALIDITY; !ret && id < EFA_MR_ATTRS; id++)
		if (call->attrs[id])
			ret = put(call, id, &out[id - EFA_MR_VALIDITY], sizeof(out[0]));
	return ret;
}

/* ------------------------------------------------------------------------------------- GIDs */

/* A port of the device that an open descriptor stands for. */
struct port {
	char device[64]; /* "simhca0" */
	uint32_t number; /* from 1 */
};

static int find_device(const struct call *call, struct port *port)
{
	int read = paths_read(port->device, sizeof(port->device),
			      "sys/class/infiniband_verbs/%s/ibdev", call->device.text);

	if (read > 0)
		return 0;
	if (read == -EMFILE)
		limit_say(call->fd, SIMHCA_SAY_QUERY_GID);
	/* A device that has gone since it was opened. */
	return read == -EMFILE || read == -ENFILE ? -read : EIO;
}

#define read_port(port, text, fmt, ...)                                                            \
	paths_read(text, sizeof(text), "sys/class/infiniband/%s/ports/%u/" fmt, (port)->device,    \
		   (port)->number, ##__VA_ARGS__)

/* sysfs has one name for the GIDs of InfiniBand and of RoCE v1, which have nothing in common. */
static uint32_t read_gid_type(const struct port *port, uint32_t index)
{
	char text[32];

	if (read_port(port, text, "gid_attrs/types/%u", index) > 0 && !strcmp(text, "RoCE v2"))
		return IB_UVERBS_GID_TYPE_ROCE_V2;
	if (read_port(port, text, "link_layer") > 0 && !strcmp(text, "Ethernet"))
		return IB_UVERBS_GID_TYPE_ROCE_V1;
	return IB_UVERBS_GID_TYPE_IB;
}

/* ENODATA: the entry is empty. EINVAL: there is no such port or entry. */
static int read_gid(const struct port *port, uint32_t index, struct ib_uverbs_gid_entry *entry)
{
	static const uint8_t empty[16];
	uint8_t gid[16];
	char text[64];
	int read = read_port(port, text, "gids/%u", index);

	_Static_assert(sizeof(gid) == sizeof(entry->gid), "a GID has 16 bytes");
	if (read == -EMFILE || read == -ENFILE)
		return -read;
	if (read < 0 || inet_pton(AF_INET6, text, gid) != 1)
		return EINVAL;
	if (!memcmp(gid, empty, sizeof(gid)))
		return ENODATA;

	memset(entry, 0, sizeof(*entry));
	memcpy(entry->gid, gid, sizeof(gid));
	entry->gid_index = index;
	entry->port_num = port->number;
	entry->gid_type = read_gid_type(port, index);
	if (read_port(port, text, "gid_attrs/ndevs/%u", index) > 0)
		entry->netdev_ifindex = if_nametoindex(text);
	return 0;
}

/* The caller says how large its entries are: a newer one has fields that are 0 from here. */
static int put_gid(const struct call *call, uint8_t *to, size_t size,
		   const struct ib_uverbs_gid_entry *entry)
{
	static const uint8_t zeros[64];
	size_t known = size < sizeof(*entry) ? size : sizeof(*entry);
	int ret = caller_write(call->caller, to, entry, known);

	while (!ret && known < size) {
		size_t some = size - known < sizeof(zeros) ? size - known : sizeof(zeros);

		ret = caller_write(call->caller, to + known, zeros, some);
		known += some;
	}
	return -ret;
}

static void say_no_entry(const struct call *call, const struct port *port, uint32_t index)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "port %u has no GID of index %u: `simhca status` shows the indices that there are",
		 port->number, index);
	limit_say_refused(call->fd, SIMHCA_SAY_QUERY_GID, EINVAL, text);
}

static int query_gid_entry(struct call *call)
{
	char text[32];
	struct ib_uverbs_attr *out = call->attrs[UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY];
	struct ib_uverbs_gid_entry entry;
	uint64_t number, index, flags;
	struct port port;
	int ret;

	if (get_number(call, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, &number) ||
	    get_number(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index) ||
	    get_number(call, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags) || flags || !out ||
	    !out->len || number > UINT32_MAX || index > UINT32_MAX)
		return EINVAL;
	ret = find_device(call, &port);
	if (ret)
		return ret;
	port.number = (uint32_t)number;
	ret = read_gid(&port, (uint32_t)index, &entry);
	if (ret == EINVAL && read_port(&port, text, "link_layer") > 0) /* so there is the port */
		say_no_entry(call, &port, (uint32_t)index);
	if (ret)
		return ret;
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return put_gid(call, out_buffer(call, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY), out->len,
		       &entry);
}

/* All entries that are not empty, of all ports. EINVAL if there are more than fit. */
static int query_gid_table(struct call *call)
{
	struct ib_uverbs_attr *out = call->attrs[UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES];
	struct ib_uverbs_gid_entry entry;
	uint64_t entry_size, flags, count = 0;
	struct port port;
	int ret;

	if (get_number(call, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &entry_size) ||
	    get_number(call, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags) || flags || !entry_size ||
	    !out || out->len % entry_size ||
	    !call->attrs[UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES])
		return EINVAL;
	ret = find_device(call, &port);
	if (ret)
		return ret;
	for (port.number = 1;; port.number++) {
		uint32_t index = 0;

		for (; (ret = read_gid(&port, index, &entry)) != EINVAL; index++) {
			if (ret == EMFILE || ret == ENFILE)
				return ret;
			if (ret == ENODATA)
				continue;
			if (count >= out->len / entry_size)
				return EINVAL;
			if (put_gid(call,
				    (uint8_t *)out_buffer(
					    call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES) +
					    count++ * entry_size,
				    entry_size, &entry))
				return EFAULT;
		}
		if (!index)
			break;
	}
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return put(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
}

/* ---------------------------------------------------------------------------------- methods */

static const struct method {
	uint16_t object;
	uint16_t method;
	uint16_t first_attr, num_attrs; /* their ids */
	int (*run)(struct call *call);
} methods[] = {
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, 0, UVERBS_ATTR_WRITE_CMD + 1,
	  invoke_write },
	{ UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, 0,
	  UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE + 1, alloc_async_fd },
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, 0,
	  UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY + 1, query_gid_entry },
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, 0,
	  UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES + 1, query_gid_table },
	{ UVERBS_OBJECT_MR, EFA_MR_QUERY, DRIVER_ATTRS, EFA_MR_ATTRS, query_efa_mr },
};

static const struct method *find_method(const struct ib_uverbs_ioctl_hdr *hdr)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (methods[i].object == hdr->object_id && methods[i].method == hdr->method_id)
			return &methods[i];
	return NULL;
}

static int run_method(struct call *call, struct ib_uverbs_ioctl_hdr *hdr)
{
	const struct method *method;

	if (hdr->length != sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]))
		return EINVAL;
	if (hdr->reserved1 || hdr->reserved2)
		return EPROTONOSUPPORT;
	method = find_method(hdr);
	if (!method)
		return EPROTONOSUPPORT;

	for (unsigned int i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr *attr = &hdr->attrs[i];

		if ((unsigned int)attr->attr_id - method->first_attr < method->num_attrs)
			call->attrs[attr->attr_id - method->first_attr] = attr;
		else if (attr->attr_id == UVERBS_ATTR_UHW_IN)
			call->driver_in = attr;
		else if (attr->attr_id == UVERBS_ATTR_UHW_OUT)
			call->driver_out = attr;
		else if (attr->flags & UVERBS_ATTR_F_MANDATORY)
			return EPROTONOSUPPORT;
	}
	return method->run(call);
}

/* More attributes than the kernel takes in one page are no call of libibverbs. */
#define MAX_HEADER 4096

/* The caller's header and attributes, run on a copy of them, which goes back. */
static int run_copy(struct call *call, const void *argument)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		uint8_t bytes[MAX_HEADER];
	} copy;
	size_t size;
	int ret, error;

	if (caller_read(call->caller, &copy, argument, sizeof(copy.hdr)))
		return EFAULT;
	size = copy.hdr.length;
	if (size < sizeof(copy.hdr) || size > sizeof(copy))
		return EINVAL;
	if (caller_read(call->caller, &copy, argument, size))
		return EFAULT;
	if (copy.hdr.length != size)
		return EINVAL;
	ret = run_method(call, &copy.hdr);
	error = caller_write(call->caller, (void *)(uintptr_t)argument, &copy, size);
	return ret ? ret : -error;
}

int uverbs_ioctl(struct caller *caller, int fd, const struct device_name *device,
		 const void *argument)
{
	struct call call = { .caller = caller, .fd = fd, .device = *device };

	if (!argument)
		return EFAULT;
	if (caller_is_other(caller))
		return run_copy(&call, argument);
	return run_method(&call, (struct ib_uverbs_ioctl_hdr *)(uintptr_t)argument);
}
