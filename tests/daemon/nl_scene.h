/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * As much of a daemon as answers questions by RDMA netlink: devices and sessions of the model's,
 * and no sockets. Apart from the tests, since the daemon and the model's harness have a struct
 * options each.
 */
#ifndef SIMHCA_TEST_NL_SCENE_H
#define SIMHCA_TEST_NL_SCENE_H

#include <netinet/in.h>
#include <stdint.h>
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

/* An id of rdma_cm, by its state in simhcad's enum cma_state. */
struct nl_scene_id {
	int device; /* -1: none */
	int state;
	uint16_t ps;
	uint8_t qp_type;
	uint32_t qp_num;
	pid_t pid;
	struct sockaddr_in src, dst; /* family 0: none */
};

/* Returns its number. */
uint32_t nl_scene_add_id(struct daemon *daemon, const struct nl_scene_id *id);
void nl_scene_remove_id(struct daemon *daemon, uint32_t number);

#endif
