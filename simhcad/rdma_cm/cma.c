/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The communication manager on the event loop, between the ports of all devices and the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <utlist.h>

#include "cma.h"
#include "base/log.h"
#include "simhca-clock.h"
#include "ucma_file.h"
#include "unacked.h"
#include "unanswered.h"

#define TURN_NS 2000000u /* of MADs and time-outs, before others have the main thread */

/* ------------------------------------------------------------------------------ MADs and time */

static void on_send(void *arg, const struct simhca_cm_path *path,
		    const uint8_t mad[SIMHCA_MAD_BYTES])
{
	struct device *device = path->port;
	struct simhca_av av = {
		.dgid = path->dgid,
		.dlid = path->dlid,
		.sl = path->sl,
		.hop_limit = path->hop_limit,
		.traffic_class = path->traffic_class,
		.is_global = !device->options->settings.infiniband,
		.port_num = 1,
	};

	for (uint8_t i = 0; i < SIMHCA_GID_ENTRIES; i++)
		if (!memcmp(&device->gids[i].gid, &path->sgid, sizeof(path->sgid)))
			av.sgid_index = i;
	simhca_device_send_gmp(device->model, &av, mad);
}

static void on_gmp(void *arg, const struct simhca_gmp *gmp)
{
	const struct gmp_port *port = arg;
	const struct simhca_devmem *memory = simhca_device_memory(port->device->model);
	bool infiniband = port->device->options->settings.infiniband;
	struct simhca_cm_path path = {
		.port = port->device,
		.ca_guid = be64toh(memory->attr.node_guid),
		.sgid = infiniband ? port->device->gids[0].gid : gmp->dgid,
		.dgid = gmp->sgid,
		.slid = infiniband ? memory->port.lid : 0xffff,
		.dlid = infiniband ? gmp->slid : 0xffff,
		.pkey = CMA_PKEY,
		.hop_limit = 64,
		.mtu = (uint8_t)memory->port.active_mtu,
		.packet_life = infiniband ? CMA_PACKET_LIFE_INFINIBAND : CMA_PACKET_LIFE_ETHERNET,
	};

	simhca_cm_receive(port->cma->cm, &path, gmp->mad, SIMHCA_MAD_BYTES);
}

static uint64_t clock_ns(void *arg)
{
	return simhca_now_ns();
}

/* Before the loop sleeps: what commands have left to do is done, and then the timer set. */
static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	struct cma *cma = prepare->data;
	bool more = simhca_cm_run(cma->cm, TURN_NS);
	uint64_t deadline = simhca_cm_deadline(cma->cm), now = clock_ns(NULL);

	if (more)
		ev_idle_start(loop, &cma->more);
	else
		ev_idle_stop(loop, &cma->more);
	ev_timer_stop(loop, &cma->timer);
	if (deadline == UINT64_MAX)
		return;
	ev_timer_set(&cma->timer, deadline > now ? (double)(deadline - now) / 1e9 : 0.0, 0);
	ev_timer_start(loop, &cma->timer);
}

/* They are there for the loop to turn: on_prepare() does the work. */
static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
}

static void on_idle(struct ev_loop *loop, ev_idle *idle, int events)
{
}

/* ---------------------------------------------------------------------------------------- life */

static uint64_t random_number(void)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = clock_ns(NULL);
	return number;
}

static void on_client(void *arg, int fd)
{
	ucma_file_open(arg, fd, random_number());
}

static void listen_to_devices(struct cma *cma)
{
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++) {
		struct gmp_port *port = &cma->gmp[i];

		port->cma = cma;
		port->device = &cma->daemon->devices[i];
		simhca_device_set_gmp(port->device->model, on_gmp, port);
	}
}

struct cma *cma_open(struct daemon *daemon)
{
	static const struct simhca_cm_ops ops = { on_send, cma_on_cm_event, clock_ns };
	struct cma *cma = calloc(1, sizeof(*cma));
	char path[PATH_MAX + 64];

	if (!cma) {
		log_error("out of memory");
		return NULL;
	}
	cma->daemon = daemon;
	cma->listener.fd = -1;
	cma->cm = simhca_cm_create(&ops, cma, random_number());
	snprintf(path, sizeof(path), "%s/tree/dev/infiniband/rdma_cm", daemon->rundir.path);
	cma->unacked = unacked_open(daemon);
	cma->unanswered = unanswered_open(cma);
	if (!cma->cm || !cma->unacked || !cma->unanswered ||
	    listener_open(&cma->listener, &daemon->turns, path, on_client, cma)) {
		unacked_close(cma->unacked);
		unanswered_close(cma->unanswered);
		simhca_cm_destroy(cma->cm);
		free(cma);
		return NULL;
	}
	listen_to_devices(cma);
	ev_timer_init(&cma->timer, on_timer, 0, 0);
	ev_idle_init(&cma->more, on_idle);
	ev_prepare_init(&cma->prepare, on_prepare);
	cma->prepare.data = cma;
	ev_prepare_start(daemon->loop, &cma->prepare);
	return cma;
}

void cma_close(struct cma *cma)
{
	struct ev_loop *loop;

	if (!cma)
		return;
	loop = cma->daemon->loop;
	listener_close(&cma->listener);
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++)
		simhca_device_set_gmp(cma->gmp[i].device->model, NULL, NULL);
	while (cma->files)
		ucma_file_close_now(cma->files);
	ev_timer_stop(loop, &cma->timer);
	ev_idle_stop(loop, &cma->more);
	ev_prepare_stop(loop, &cma->prepare);
	simhca_cm_destroy(cma->cm);
	unacked_close(cma->unacked);
	unanswered_close(cma->unanswered);
	free(cma->ids.object);
	free(cma->mcs.object);
	free(cma);
}

void cma_device_gone(struct cma *cma, struct device *device)
{
	struct cma_file *file;
	struct cma_id *id;

	if (!cma)
		return;
	DL_FOREACH (cma->files, file)
		DL_FOREACH (file->ids, id)
			if (id->device == device)
				cma_event(id, CMA_EV_DEVICE_REMOVAL, 0);
}
