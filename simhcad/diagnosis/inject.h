/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Rules of faults (inject_rule.h): who has asked for them, and what the daemon does when one fires
 * that the model leaves to it: a port goes down, addresses change, a device or a program ends.
 */
#ifndef SIMHCAD_INJECT_H
#define SIMHCAD_INJECT_H

#include <jansson.h>
#include <stdbool.h>

#include "simhca-inject.h"

struct daemon;
struct injector;

/* NULL: out of memory. */
struct injector *injector_open(struct daemon *daemon);
/* After admin and engines have ended. */
void injector_close(struct injector *injector);

/*
 * A rule, which ends with its owner, if it has one (run: its process, for reports). *number: 0 if
 * it was to happen now, and has. False: error says what is wrong.
 */
bool injector_add(struct injector *injector, const char *text, const void *owner, pid_t run,
		  uint32_t *number, char *error, size_t size);
/* False: there is no such rule; 0: all. */
bool injector_remove(struct injector *injector, uint32_t number);
void injector_owner_gone(struct injector *injector, const void *owner);
/* [{number, rule, met, fired, run}] */
extern const struct report_kind injector_report;

/* A rule has fired. Any thread. */
void injector_fired(struct injector *injector, const struct simhca_injection *injection);

#endif
