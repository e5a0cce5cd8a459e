/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sockets of the wire link: one for each address of an interface that a device with --wire roce
 * follows. Engines send, and receive.
 */
#ifndef SIMHCAD_WIRE_H
#define SIMHCAD_WIRE_H

#include <jansson.h>
#include <stdbool.h>

struct daemon;
struct wire;

/* Whether a device is to have one. */
bool wire_is_wanted(const struct daemon *daemon);
/* NULL: no device has a wire, or *failed and what is wrong was logged. Before the devices. */
struct wire *wire_open(struct daemon *daemon, int *failed);
/*
 * The addresses of the devices may have changed. False: one of them has no socket, which was
 * logged, as another process has the port; it is tried again. wire may be NULL, as below.
 */
bool wire_follow(struct wire *wire);
/* After the engines have ended. */
void wire_close(struct wire *wire);

/* For `simhca wire`; admin.h has the format. */
json_t *wire_json(const struct wire *wire);
extern const struct report_kind wire_report;

#endif
