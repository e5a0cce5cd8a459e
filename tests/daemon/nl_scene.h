/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * As much of a daemon as answers questions by RDMA netlink: devices and sessions of the model's,
 * and no sockets. Apart from the tests, since the daemon and the model's harness have a struct
 * options each.
 */
#ifndef SIMHCA_TEST_NL_SCENE_H
#define SIMHCA_TEST_NL_SCENE_H

#include <sys/types.h>

#include "simhca.h"

struct daemon;

/* Devices simhca0 and simhca1 at lo. Freed by nl_scene_free(). */
struct daemon *nl_scene_new(struct simhca_device *const device[2]);
void nl_scene_free(struct daemon *daemon);
/* A program has the device open with this context; or, NULL, has connected and not opened it yet.
 */
void nl_scene_add(struct daemon *daemon, unsigned int device, struct simhca_context *context,
		  pid_t pid);
void nl_scene_remove(struct daemon *daemon, unsigned int device, struct simhca_context *context);

#endif
