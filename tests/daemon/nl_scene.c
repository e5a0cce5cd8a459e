/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon.h"
#include "nl_scene.h"
#include "session.h"

static struct named_settings settings[2];

struct daemon *nl_scene_new(struct simhca_device *const device[2])
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));

	if (!daemon)
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

void nl_scene_free(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		while (daemon->devices[i].sessions)
			drop(&daemon->devices[i], daemon->devices[i].sessions);
	free(daemon);
}
