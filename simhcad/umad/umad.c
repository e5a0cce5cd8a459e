/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The subnet of the daemon's InfiniBand devices, and the sockets behind umadN and issmN. */
#include <endian.h>
#include <stdlib.h>

#include "base/log.h"
#include "umad.h"

/* Of the switch: the first device's GUID, with bits in which those of devices do not differ. */
#define SWITCH_BITS UINT64_C(0x0080000000000000)

static void on_mads(void *arg, int fd)
{
	umad_file_open(arg, fd, false);
}

static void on_issm(void *arg, int fd)
{
	umad_file_open(arg, fd, true);
}

static void on_changed(void *arg, unsigned int index)
{
	struct umad *umad = arg;

	device_has_changed(umad->port[index].device);
}

static bool make_subnet(struct umad *umad)
{
	struct simhca_subnet_config config = { .changed = on_changed, .arg = umad };

	for (unsigned int i = 0; i < umad->num_ports; i++)
		config.device[i] = umad->port[i].device->model;
	config.count = umad->num_ports;
	config.switch_guid =
		be64toh(simhca_device_memory(config.device[0])->attr.node_guid) ^ SWITCH_BITS;
	umad->subnet = simhca_subnet_create(&config);
	return umad->subnet;
}

static bool listen_at(struct umad_port *port)
{
	struct daemon *daemon = port->umad->daemon;
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/tree/dev/infiniband/umad%u", daemon->rundir.path,
		 port->device->number);
	if (listener_open(&port->mads, &daemon->turns, path, on_mads, port))
		return false;
	snprintf(path, sizeof(path), "%s/tree/dev/infiniband/issm%u", daemon->rundir.path,
		 port->device->number);
	return !listener_open(&port->issm, &daemon->turns, path, on_issm, port);
}

struct umad *umad_open(struct daemon *daemon, bool *none)
{
	struct umad *umad;
	bool good;

	_Static_assert(OPTIONS_MAX_DEVICES <= SIMHCA_SUBNET_DEVICES,
		       "all have a port of the switch");
	*none = true;
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		if (daemon->devices[i].options->settings.infiniband)
			*none = false;
	if (*none)
		return NULL;
	umad = calloc(1, sizeof(*umad));
	if (!umad) {
		log_error("out of memory");
		return NULL;
	}
	umad->daemon = daemon;
	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		struct umad_port *port = &umad->port[umad->num_ports];

		if (!daemon->devices[i].options->settings.infiniband)
			continue;
		port->umad = umad;
		port->device = &daemon->devices[i];
		port->index = umad->num_ports++;
		port->mads.fd = port->issm.fd = -1;
	}
	good = make_subnet(umad);
	if (!good)
		log_error("out of memory");
	for (unsigned int i = 0; good && i < umad->num_ports; i++) {
		good = listen_at(&umad->port[i]);
		/* The subnet manager's LID is known now. */
		umad->port[i].device->tree_behind = true;
	}
	if (good)
		return umad;
	umad_close(umad);
	return NULL;
}

void umad_close(struct umad *umad)
{
	if (!umad)
		return;
	for (unsigned int i = 0; i < umad->num_ports; i++) {
		listener_close(&umad->port[i].mads);
		listener_close(&umad->port[i].issm);
		while (umad->port[i].files)
			umad_file_close(umad->port[i].files);
	}
	simhca_subnet_destroy(umad->subnet);
	tally_free(&umad->files);
	tally_free(&umad->sends);
	free(umad);
}
