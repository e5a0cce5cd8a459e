/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/share.h"
#include "daemon.h"
#include "device/netif.h"
#include "session.h"

/* FNV-1a */
static uint64_t hash(uint64_t value, const char *text)
{
	for (; *text; text++)
		value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return value;
}

/*
 * The same at every start, another one for each host, runtime directory and device. Its first
 * byte marks it as locally administered.
 */
static uint64_t derive_guid(const struct daemon *daemon, const char *name)
{
	uint64_t guid = UINT64_C(0xcbf29ce484222325);
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	guid = hash(guid, host);
	guid = hash(guid, daemon->rundir.path);
	guid = hash(guid, name);
	return (guid & UINT64_C(0x00ffffffffffffff)) | UINT64_C(0x0200000000000000);
}

static uint64_t node_guid(const struct device *device)
{
	return device->options->settings.node_guid
		       ? device->options->settings.node_guid
		       : derive_guid(device->daemon, device->options->name);
}

/* Of what all devices have; one at least, as the model takes 0 for no limit. */
static unsigned int device_share(const struct device *device, unsigned int share)
{
	const unsigned int count = device->daemon->options->num_devices;

	return share < count ? 1 : share / count;
}

static struct simhca_device *make_model(struct device *device)
{
	const struct settings *settings = &device->options->settings;
	struct simhca_device_config config = {
		.infiniband = settings->infiniband,
		.efa = settings->efa,
		.efa_generation = settings->efa_caps,
		.efa_mtu = settings->efa_mtu,
		.efa_rdma = settings->efa_rdma,
		.srd_shuffled = settings->srd_shuffled,
		.wire = settings->wire,
		.node_guid = node_guid(device),
		.sys_image_guid = settings->sys_image_guid,
		.lid = settings->infiniband ? (uint16_t)settings->lid : 0,
		.sm_off = settings->infiniband && device->daemon->options->daemon.sm_off,
		.mtu = settings->mtu,
		.max_qp = settings->max_qp,
		.max_cq = settings->max_cq,
		.max_srq = settings->max_srq,
		.mw_type_2a = settings->mw_type_2a,
		.event_at_arm = settings->event_at_arm,
		.fast_path = settings->fast_path && !settings->efa,
		.moves_memory = settings->shared_memory ||
				device->daemon->options->daemon.memory == MEMORY_SHARED,
		.slot_data = settings->slot_data,
		.own_segments = device_share(device, share_queues()),
		.kept_files = device_share(device, share_files()),
		.fault_latency_us = settings->fault_latency,
		.odp_checks = settings->odp_checks,
		.max_mr = settings->max_mr,
		.max_mw = settings->max_mw,
		.max_pd = settings->max_pd,
		.max_ah = settings->max_ah,
		.max_qp_wr = settings->max_qp_wr,
		.max_sge = settings->max_sge,
		.max_inline = settings->max_inline,
		.max_cqe = settings->max_cqe,
		.max_dm_size = settings->max_dm_size,
		.product = profile_of(settings)->product,
	};
	struct simhca_device *model;
	struct simhca_why why = { "" };

	if (!config.sys_image_guid)
		config.sys_image_guid = node_guid(&device->daemon->devices[0]);
	snprintf(config.name, sizeof(config.name), "%s", device->options->name);
	model = simhca_device_create(device->daemon->fabric, &config, &why);
	if (!model)
		log_error("%s: %s", device->options->name, why.text);
	return model;
}

static struct tree_device tree_device(const struct device *device)
{
	struct tree_device tree = {
		.number = device->number,
		.name = device->options->name,
		.netdev = device->options->settings.netdev,
		.efa = device->options->settings.efa,
		.memory = simhca_device_memory(device->model),
		.profile = profile_of(&device->options->settings),
		.numa_node = device->options->settings.numa_node,
		.failing = device->tree_failing,
	};

	/* The address is nobody's: no bus has this number. */
	snprintf(tree.pci, sizeof(tree.pci), "efa0:00:%02x.0", device->number);
	return tree;
}

/* The largest MTU (bytes) whose packets an interface of this MTU carries whole; as Linux's rxe. */
static uint32_t wire_mtu(uint32_t interface_mtu)
{
	const uint32_t headers = 80; /* what rxe takes off */
	uint32_t mtu = 4096;

	while (mtu > 256 && mtu + headers > interface_mtu)
		mtu /= 2;
	return mtu;
}

static void follow_mtu(struct device *device, uint32_t interface_mtu)
{
	uint32_t mtu = wire_mtu(interface_mtu);

	if (mtu > device->options->settings.mtu)
		mtu = device->options->settings.mtu;
	simhca_device_set_mtu(device->model, mtu);
}

/* Hands the interface's state to the model; returns whether something changed. */
static bool follow(struct device *device)
{
	struct interface interface;
	bool exists =
		netif_get(device->daemon->netif, device->options->settings.netdev, &interface);
	struct gid_source source = {
		.interface = exists && !device->hides_gids ? &interface : NULL,
		.guid = node_guid(device),
		.infiniband = device->options->settings.infiniband ||
			      (device->options->settings.efa && !device->options->settings.wire),
		.single = device->options->settings.efa,
		.guid_only = device->guid_only,
	};
	bool up = exists && interface.up && !device->down_by_rule;
	bool changed = gid_table_update(device->gids, &source);

	if (changed)
		simhca_device_set_gids(device->model, device->gids);
	if (exists && device->options->settings.wire)
		follow_mtu(device, interface.mtu);
	if (up != device->up)
		simhca_device_set_port(device->model, up);
	changed = changed || up != device->up;
	device->up = up;
	return changed;
}

void device_has_changed(struct device *device)
{
	struct tree_device tree = tree_device(device);

	device->tree_behind = device_tree_update(&device->daemon->rundir, &tree);
	device->tree_failing = device->tree_behind;
}

void device_follow_interface(struct device *device)
{
	struct interface interface;

	if (!follow(device))
		return;
	log_info("%s: %s has changed: port %s", device->options->name,
		 device->options->settings.netdev, device->up ? "active" : "down");
	device_has_changed(device);
	if (!netif_get(device->daemon->netif, device->options->settings.netdev, &interface))
		device->daemon->hooks.interface_gone(device);
}

static void on_client(void *arg, int fd)
{
	session_open(arg, fd);
}

/* Packets find a device by its GIDs, so no two of them may have the same first one. */
static bool shares_interface(const struct device *device)
{
	const struct device *other = device->daemon->devices;

	for (; other != device; other++)
		if (!strcmp(other->options->settings.netdev, device->options->settings.netdev))
			return true;
	return false;
}

/*
 * A look costs next to nothing, and files are written only when something was counted. What could
 * not be written, as there was no descriptor or no room, is written here later.
 */
static void on_count(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct device *device = timer->data;
	struct tree_device tree = tree_device(device);
	uint64_t stats[SIMHCA_STATS];
	bool counted, failing;

	if (device->tree_behind)
		device->tree_behind = device_tree_update(&device->daemon->rundir, &tree);
	failing = device->tree_behind;
	simhca_device_stats(device->model, stats);
	counted = memcmp(stats, device->stats, sizeof(stats));
	if (counted && device_tree_count(&device->daemon->rundir, &tree, stats, device->stats))
		failing = true;
	else if (counted)
		memcpy(device->stats, stats, sizeof(stats));
	device->tree_failing = failing;
	if (counted || failing)
		doze_over(&device->daemon->doze);
}

static void look(struct doze_looker *looker, bool look)
{
	struct device *device = (struct device *)((char *)looker - offsetof(struct device, looker));

	if (look)
		ev_timer_again(device->daemon->loop, &device->count);
	else
		ev_timer_stop(device->daemon->loop, &device->count);
}

int device_open(struct device *device, struct daemon *daemon, unsigned int number)
{
	char path[PATH_MAX + 64];
	struct tree_device tree;

	memset(device, 0, sizeof(*device));
	device->daemon = daemon;
	device->number = number;
	device->options = &daemon->options->devices[number];
	device->listener.fd = -1;
	device->guid_only = shares_interface(device);
	device->model = make_model(device);
	if (!device->model)
		return -1;
	device->up = true; /* as the model starts */
	follow(device);

	tree = tree_device(device);
	snprintf(path, sizeof(path), "%s/tree/dev/infiniband/uverbs%u", daemon->rundir.path,
		 number);
	if (device_tree_add(&daemon->rundir, &tree) ||
	    listener_open(&device->listener, &daemon->turns, path, on_client, device)) {
		device_close(device);
		return -1;
	}
	ev_timer_init(&device->count, on_count, DEVICE_TREE_COUNTERS_MS / 1000.0,
		      DEVICE_TREE_COUNTERS_MS / 1000.0);
	device->count.data = device;
	ev_timer_start(daemon->loop, &device->count);
	device->looker.look = look;
	doze_add(&daemon->doze, &device->looker);
	return 0;
}

struct device *device_of_model(const struct daemon *daemon, const struct simhca_device *model)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		if (daemon->devices[i].model == model)
			return (struct device *)&daemon->devices[i];
	return NULL;
}

void device_halt(struct device *device)
{
	struct session *session;

	DL_FOREACH (device->sessions, session)
		if (session->own_engine)
			engine_halt(session->own_engine);
}

void device_close(struct device *device)
{
	if (device->looker.look)
		doze_remove(&device->daemon->doze, &device->looker);
	ev_timer_stop(device->daemon->loop, &device->count);
	listener_close(&device->listener);
	while (device->sessions)
		session_close_now(device->sessions);
	if (!device->daemon->engines.abandoned)
		simhca_device_destroy(device->model);
	device->model = NULL;
}
