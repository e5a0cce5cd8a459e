/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "base/privilege.h"
#include "device/netif.h"
#include "device/port_counters.h"
#include "nldev.h"
#include "session/daemon.h"
#include "simhca-abi-rdma-cm.h"

#define NODE_TYPE_CA 1 /* the kernel's RDMA_NODE_IB_CA */
#define NODE_TYPE_UNSPECIFIED 7
#define NETNS_SHARED 1	/* each network namespace sees all devices */
#define CHARDEV_TEXT 32 /* bytes of a name of an ABI, with its end; longer ones do not exist */

/* ------------------------------------------------------------------------------- questions */

int nldev_parse(struct nlmsghdr *request, struct nlattr *attr[RDMA_NLDEV_ATTR_MAX])
{
	/* Of those that anybody looks at. Strings end within the attribute. */
	static struct nla_policy policy[RDMA_NLDEV_ATTR_MAX] = {
		[RDMA_NLDEV_ATTR_DEV_INDEX] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_PORT_INDEX] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_CHARDEV_TYPE] = { .type = NLA_STRING },
		[RDMA_NLDEV_ATTR_RES_LQPN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_CM_IDN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_CQN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_MRN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_PDN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_CTXN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_RES_SRQN] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_STAT_RES] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_STAT_MODE] = { .type = NLA_U32 },
		[RDMA_NLDEV_ATTR_STAT_COUNTER_ID] = { .type = NLA_U32 },
	};

	return nlmsg_parse(request, 0, attr, RDMA_NLDEV_ATTR_MAX - 1, policy) ? -EINVAL : 0;
}

const struct device *nldev_device(const struct nldev_query *query)
{
	struct nlattr *attr = query->attr[RDMA_NLDEV_ATTR_DEV_INDEX];

	if (!attr || nla_get_u32(attr) >= query->daemon->num_devices)
		return NULL;
	return &query->daemon->devices[nla_get_u32(attr)];
}

int nldev_port(const struct nldev_query *query, uint32_t *port)
{
	struct nlattr *attr = query->attr[RDMA_NLDEV_ATTR_PORT_INDEX];

	*port = attr ? nla_get_u32(attr) : 0;
	return attr && *port != 1 ? -EINVAL : 0;
}

/* A question about a port must name the device and the port. */
static const struct device *device_and_port(const struct nldev_query *query)
{
	uint32_t port;

	return !nldev_port(query, &port) && port ? nldev_device(query) : NULL;
}

/* --------------------------------------------------------------------------------- devices */

static unsigned int index_of(const struct device *device)
{
	return (unsigned int)(device - device->daemon->devices);
}

static bool is_efa(const struct device *device)
{
	return device->options->settings.efa;
}

static bool is_roce(const struct device *device)
{
	return simhca_device_memory(device->model)->port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

int nldev_put_device(struct nl_msg *answer, const struct device *device)
{
	return nldev_fit(nla_put_u32(answer, RDMA_NLDEV_ATTR_DEV_INDEX, index_of(device)) ||
					 nla_put_string(answer, RDMA_NLDEV_ATTR_DEV_NAME,
							device->options->name)
				 ? -1
				 : 0);
}

static int put_device_info(struct nl_msg *answer, const struct device *device)
{
	const struct simhca_device_attr *attr = &simhca_device_memory(device->model)->attr;
	char version[sizeof(attr->fw_ver) + 1];
	int ret = nldev_put_device(answer, device);

	if (ret)
		return ret;
	snprintf(version, sizeof(version), "%.*s", (int)sizeof(attr->fw_ver), attr->fw_ver);
	if (nla_put_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, attr->phys_port_cnt) ||
	    nla_put_u64(answer, RDMA_NLDEV_ATTR_CAP_FLAGS, attr->device_cap_flags) ||
	    nla_put_string(answer, RDMA_NLDEV_ATTR_FW_VERSION, version) ||
	    nla_put_u64(answer, RDMA_NLDEV_ATTR_NODE_GUID, be64toh(attr->node_guid)) ||
	    nla_put_u64(answer, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, be64toh(attr->sys_image_guid)) ||
	    nla_put_u8(answer, RDMA_NLDEV_ATTR_DEV_NODE_TYPE,
		       is_efa(device) ? NODE_TYPE_UNSPECIFIED : NODE_TYPE_CA) ||
	    nla_put_u8(answer, RDMA_NLDEV_ATTR_DEV_DIM, 0))
		return -EMSGSIZE;
	/* A kernel has no word for EFA's. */
	if (!is_efa(device) &&
	    nla_put_string(answer, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_roce(device) ? "roce" : "ib"))
		return -EMSGSIZE;
	return 0;
}

static int get_device(const struct nldev_query *query, struct nl_msg *answer)
{
	const struct device *device = nldev_device(query);

	return device ? put_device_info(answer, device) : -EINVAL;
}

static int get_devices(const struct nldev_query *query, struct nldev_cursor *cursor,
		       struct nl_msg *part)
{
	int ret;

	if (cursor->group >= query->daemon->num_devices)
		return 0;
	ret = put_device_info(part, &query->daemon->devices[cursor->group++]);
	return ret ? ret : 1;
}

/* ------------------------------------------------------------------------------------ ports */

/* The interface has its name and number in our network namespace only. */
static int put_interface(struct nl_msg *answer, const struct nldev_query *query,
			 const struct device *device)
{
	const char *name = device->options->settings.netdev;
	struct interface interface;

	if (!is_roce(device) ||
	    !privilege_same_namespace(query->asker->pid, query->asker->uid, "net") ||
	    !netif_get(device->daemon->netif, name, &interface))
		return 0;
	if (nla_put_u32(answer, RDMA_NLDEV_ATTR_NDEV_INDEX, interface.index) ||
	    nla_put_string(answer, RDMA_NLDEV_ATTR_NDEV_NAME, name))
		return -EMSGSIZE;
	return 0;
}

static int put_port_info(struct nl_msg *answer, const struct nldev_query *query,
			 const struct device *device)
{
	const struct simhca_devmem *memory = simhca_device_memory(device->model);
	const struct simhca_port_attr *port = &memory->port;
	int ret = nldev_put_device(answer, device);

	if (ret)
		return ret;
	if (nla_put_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, 1))
		return -EMSGSIZE;
	if (!is_roce(device) &&
	    (nla_put_u64(answer, RDMA_NLDEV_ATTR_CAP_FLAGS, port->port_cap_flags) ||
	     nla_put_u64(answer, RDMA_NLDEV_ATTR_SUBNET_PREFIX,
			 be64toh(memory->gids[0].gid.global.subnet_prefix)) ||
	     nla_put_u32(answer, RDMA_NLDEV_ATTR_LID, port->lid) ||
	     nla_put_u32(answer, RDMA_NLDEV_ATTR_SM_LID, port->sm_lid) ||
	     nla_put_u8(answer, RDMA_NLDEV_ATTR_LMC, (uint8_t)port->lmc)))
		return -EMSGSIZE;
	if (nla_put_u8(answer, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)port->state) ||
	    nla_put_u8(answer, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, (uint8_t)port->phys_state))
		return -EMSGSIZE;
	return put_interface(answer, query, device);
}

static int get_port(const struct nldev_query *query, struct nl_msg *answer)
{
	const struct device *device = device_and_port(query);

	return device ? put_port_info(answer, query, device) : -EINVAL;
}

static int get_ports(const struct nldev_query *query, struct nldev_cursor *cursor,
		     struct nl_msg *part)
{
	const struct device *device = nldev_device(query);
	int ret;

	if (!device)
		return -EINVAL;
	if (cursor->handle++)
		return 0;
	ret = put_port_info(part, query, device);
	return ret ? ret : 1;
}

/* ------------------------------------------------------------------------- device nodes */

static int put_node(struct nl_msg *answer, unsigned int major, unsigned int minor, uint64_t abi,
		    const char *name)
{
	/* The kernel's huge_encode_dev(). */
	uint64_t dev = (minor & 0xff) | major << 8 | (uint64_t)(minor & ~0xffu) << 12;

	if (nla_put_u64(answer, RDMA_NLDEV_ATTR_CHARDEV, dev) ||
	    nla_put_u64(answer, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi) ||
	    nla_put_string(answer, RDMA_NLDEV_ATTR_CHARDEV_NAME, name))
		return -EMSGSIZE;
	return 0;
}

/*
 * There is no driver id: libibverbs finds the provider by the modalias, as for all drivers that are
 * not in the kernel's list.
 */
static int uverbs_node(const struct nldev_query *query, const struct device *device,
		       struct nl_msg *answer)
{
	char name[32];

	/* Of a device, not of one of its ports. */
	if (!device || query->attr[RDMA_NLDEV_ATTR_PORT_INDEX])
		return device ? -EINVAL : -EOPNOTSUPP;
	snprintf(name, sizeof(name), "uverbs%u", device->number);
	return put_node(answer, DEVICE_TREE_MAJOR, DEVICE_TREE_MINOR + device->number,
			DEVICE_TREE_ABI, name);
}

/* One for all devices. */
static int rdma_cm_node(const struct nldev_query *query, const struct device *device,
			struct nl_msg *answer)
{
	if (device)
		return -EOPNOTSUPP;
	return put_node(answer, DEVICE_TREE_RDMA_CM_MAJOR, DEVICE_TREE_RDMA_CM_MINOR,
			SIMHCA_UCMA_ABI, "rdma_cm");
}

/* The device node by which a program reaches an ABI; device NULL: one for all devices. */
static int get_chardev(const struct nldev_query *query, struct nl_msg *answer)
{
	static const struct {
		const char *abi;
		int (*put)(const struct nldev_query *query, const struct device *device,
			   struct nl_msg *answer);
	} nodes[] = { { "uverbs", uverbs_node }, { "rdma_cm", rdma_cm_node } };
	struct nlattr *type = query->attr[RDMA_NLDEV_ATTR_CHARDEV_TYPE];
	const struct device *device = nldev_device(query);
	uint32_t port;

	if (!type || nla_len(type) > CHARDEV_TEXT || nldev_port(query, &port) ||
	    (query->attr[RDMA_NLDEV_ATTR_DEV_INDEX] && !device) || (port && !device))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!strcmp(nodes[i].abi, nla_get_string(type)))
			return nodes[i].put(query, device, answer);
	/* A kernel without that module. */
	return -EOPNOTSUPP;
}

/* --------------------------------------------------------------------------------- counters */

int nldev_put_counter(struct nl_msg *answer, const char *name, uint64_t value)
{
	struct nlattr *entry = nla_nest_start(answer, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	if (!entry || nla_put_string(answer, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name) ||
	    nla_put_u64(answer, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value))
		return -EMSGSIZE;
	nla_nest_end(answer, entry);
	return 0;
}

static int get_port_counters(const struct nldev_query *query, struct nl_msg *answer)
{
	const struct device *device = device_and_port(query);
	const struct port_counter *counter;
	uint64_t stats[SIMHCA_STATS];
	struct nlattr *table;

	if (!device)
		return -EINVAL;
	simhca_device_stats(device->model, stats);
	if (nldev_put_device(answer, device) || nla_put_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, 1))
		return -EMSGSIZE;
	table = nla_nest_start(answer, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	for (unsigned int i = 0; (counter = port_counter(i)); i++) {
		const char *path = counter->path;

		if (strncmp(path, PORT_COUNTERS_HW, sizeof(PORT_COUNTERS_HW) - 1))
			continue;
		if (nldev_put_counter(answer, path + sizeof(PORT_COUNTERS_HW) - 1,
				      port_counter_value(counter, stats)))
			return -EMSGSIZE;
	}
	nla_nest_end(answer, table);
	return 0;
}

/* Counters of single QPs do not exist: no QP is ever bound to one. */
static int get_qp_counters(const struct nldev_query *query, struct nl_msg *answer)
{
	const struct device *device = device_and_port(query);

	if (!device)
		return -EINVAL;
	if (query->attr[RDMA_NLDEV_ATTR_STAT_COUNTER_ID])
		return -ENOENT;
	if (!query->attr[RDMA_NLDEV_ATTR_STAT_MODE])
		return -EINVAL;
	if (nldev_put_device(answer, device) ||
	    nla_put_u32(answer, RDMA_NLDEV_ATTR_PORT_INDEX, 1) ||
	    nla_put_u32(answer, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE))
		return -EMSGSIZE;
	return 0;
}

static int get_stat(const struct nldev_query *query, struct nl_msg *answer)
{
	struct nlattr *of = query->attr[RDMA_NLDEV_ATTR_STAT_RES];

	if (!of)
		return get_port_counters(query, answer);
	switch (nla_get_u32(of)) {
	case RDMA_NLDEV_ATTR_RES_QP:
		return get_qp_counters(query, answer);
	case RDMA_NLDEV_ATTR_RES_MR:
		return nldev_stat_mr(query, answer);
	default:
		return -EINVAL;
	}
}

static int get_stats(const struct nldev_query *query, struct nldev_cursor *cursor,
		     struct nl_msg *part)
{
	struct nlattr *of = query->attr[RDMA_NLDEV_ATTR_STAT_RES];
	uint32_t port;

	if (!of || !nldev_device(query) || nldev_port(query, &port))
		return -EINVAL;
	switch (nla_get_u32(of)) {
	case RDMA_NLDEV_ATTR_RES_QP:
		return 0;
	case RDMA_NLDEV_ATTR_RES_MR:
		return nldev_stat_mrs(query, cursor, part);
	default:
		return -EINVAL;
	}
}

/* ----------------------------------------------------------------------------------- system */

/*
 * Copy on fork: a child that is forked takes no page away from the parent's regions. Here it
 * cannot, since the device reaches a region by its owner's addresses and pins nothing.
 */
static int get_system(const struct nldev_query *query, struct nl_msg *answer)
{
	if (nla_put_u8(answer, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, NETNS_SHARED) ||
	    nla_put_u8(answer, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1))
		return -EMSGSIZE;
	return 0;
}

/* --------------------------------------------------------------------------------- refusals */

/* What no device here can do: be renamed, moved to another namespace, have its QPs counted. */
static int not_supported(const struct nldev_query *query, struct nl_msg *answer)
{
	return -EOPNOTSUPP;
}

/* What a kernel says when no driver has the kind of link, or of dump, that is asked for. */
static int not_known(const struct nldev_query *query, struct nl_msg *answer)
{
	return -EINVAL;
}

const struct nldev_command *nldev_find(unsigned int number)
{
	static const struct nldev_command commands[RDMA_NLDEV_NUM_OPS] = {
		[RDMA_NLDEV_CMD_GET] = { .answer = get_device, .part = get_devices },
		[RDMA_NLDEV_CMD_PORT_GET] = { .answer = get_port, .part = get_ports },
		[RDMA_NLDEV_CMD_SYS_GET] = { .answer = get_system },
		[RDMA_NLDEV_CMD_GET_CHARDEV] = { .answer = get_chardev },
		[RDMA_NLDEV_CMD_STAT_GET] = { .answer = get_stat, .part = get_stats },
		[RDMA_NLDEV_CMD_RES_GET] = { .answer = nldev_res_summary,
					     .part = nldev_res_summaries },
		[RDMA_NLDEV_CMD_RES_QP_GET] = { .answer = nldev_res_qp, .part = nldev_res_qps },
		[RDMA_NLDEV_CMD_RES_CM_ID_GET] = { .answer = nldev_res_cm_id,
						   .part = nldev_res_cm_ids },
		[RDMA_NLDEV_CMD_RES_CQ_GET] = { .answer = nldev_res_cq, .part = nldev_res_cqs },
		[RDMA_NLDEV_CMD_RES_MR_GET] = { .answer = nldev_res_mr, .part = nldev_res_mrs },
		[RDMA_NLDEV_CMD_RES_PD_GET] = { .answer = nldev_res_pd, .part = nldev_res_pds },
		[RDMA_NLDEV_CMD_RES_CTX_GET] = { .answer = nldev_res_ctx, .part = nldev_res_ctxs },
		[RDMA_NLDEV_CMD_RES_SRQ_GET] = { .answer = nldev_res_srq, .part = nldev_res_srqs },
		[RDMA_NLDEV_CMD_SET] = { .admin = true, .answer = not_supported },
		[RDMA_NLDEV_CMD_SYS_SET] = { .admin = true, .answer = not_supported },
		[RDMA_NLDEV_CMD_STAT_SET] = { .admin = true, .answer = not_supported },
		[RDMA_NLDEV_CMD_STAT_DEL] = { .admin = true, .answer = not_supported },
		[RDMA_NLDEV_CMD_NEWLINK] = { .admin = true, .answer = not_known },
		[RDMA_NLDEV_CMD_DELLINK] = { .admin = true, .answer = not_known },
		[RDMA_NLDEV_CMD_RES_QP_GET_RAW] = { .admin = true, .answer = not_known },
		[RDMA_NLDEV_CMD_RES_CQ_GET_RAW] = { .admin = true, .answer = not_known },
		[RDMA_NLDEV_CMD_RES_MR_GET_RAW] = { .admin = true, .answer = not_known },
	};

	if (number >= RDMA_NLDEV_NUM_OPS || !commands[number].answer)
		return NULL;
	return &commands[number];
}
