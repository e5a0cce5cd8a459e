/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "rdma_cm/cma.h"
#include "session/daemon.h"
#include "nl_scene.h"
#include "session/session.h"

static struct named_settings settings[2];

struct daemon *nl_scene_new(struct simhca_device *const device[2])
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));

	if (!daemon)
		abort();
	daemon->cma = calloc(1, sizeof(*daemon->cma));
	if (!daemon->cma)
		abort();
	daemon->num_devices = 2;
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(settings[i].name, sizeof(settings[i].name), "simhca%u", i);
		settings[i].settings.netdev = "lo";
		daemon->devices[i].daemon = daemon;
		daemon->devices[i].number = i;
		daemon->devices[i].options = &settings[i];
		daemon->devices[i].model = device[i];
	}
	return daemon;
}

void nl_scene_add(struct daemon *daemon, unsigned int device, struct simhca_context *context,
		  pid_t pid)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		abort();
	session->device = &daemon->devices[device];
	session->context = context;
	session->pid = pid;
	session->number = session->device->next_session++;
	DL_APPEND(daemon->devices[device].sessions, session);
}

static void drop(struct device *device, struct session *session)
{
	DL_DELETE(device->sessions, session);
	free(session);
}

void nl_scene_remove(struct daemon *daemon, unsigned int device, struct simhca_context *context)
{
	struct session *session, *next;

	DL_FOREACH_SAFE (daemon->devices[device].sessions, session, next)
		if (session->context == context)
			drop(&daemon->devices[device], session);
}

uint32_t nl_scene_add_id(struct daemon *daemon, const struct nl_scene_id *how)
{
	struct cma_file *file = calloc(1, sizeof(*file));
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!file || !id || cma_handle_add(&daemon->cma->ids, id, &id->handle))
		abort();
	file->pid = how->pid;
	id->file = file;
	id->device = how->device < 0 ? NULL : &daemon->devices[how->device];
	id->state = (enum cma_state)how->state;
	id->ps = how->ps;
	id->qp_type = how->qp_type;
	id->qp_num = how->qp_num;
	id->src.in = how->src;
	id->dst.in = how->dst;
	return id->handle;
}

void nl_scene_remove_id(struct daemon *daemon, uint32_t number)
{
	struct cma_id *id = cma_handle_get(&daemon->cma->ids, number);

	if (!id)
		return;
	cma_handle_remove(&daemon->cma->ids, number);
	free(id->file);
	free(id);
}

void nl_scene_free(struct daemon *daemon)
{
	for (uint32_t i = 0; i < daemon->cma->ids.room; i++)
		nl_scene_remove_id(daemon, i);
	free(daemon->cma->ids.object);
	free(daemon->cma);
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		while (daemon->devices[i].sessions)
			drop(&daemon->devices[i], daemon->devices[i].sessions);
	free(daemon);
}
