/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A device of this daemon: the model, its files, its socket, the clients that have it open. */
#ifndef SIMHCAD_DEVICE_H
#define SIMHCAD_DEVICE_H

#include <ev.h>

#include "base/tally.h"
#include "device/device_tree.h"
#include "loop/doze.h"
#include "loop/listener.h"
#include "options.h"

struct daemon;
struct session;

struct device {
	struct daemon *daemon;
	unsigned int number; /* N of uverbsN */
	const struct named_settings *options;
	struct simhca_device *model;
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES];
	bool up;
	/* Of faults (inject.h), which has the port down; 0: none. The main thread writes. */
	_Atomic uint32_t down_by_rule;
	bool hides_gids; /* likewise, its addresses */
	bool guid_only;	 /* its first GID is not the interface's: another device has that one */
	struct listener listener;
	struct session *sessions;
	struct tally of_process, of_program; /* how many sessions each has */
	struct tally deferred;		     /* of each program: commands that wait */
	uint32_t next_session;		     /* the number that the next one gets */
	ev_timer count;
	struct doze_looker looker;
	uint64_t stats[SIMHCA_STATS]; /* as the files of counters say */
	bool tree_behind;  /* files of the port's state or GIDs are still to be written */
	bool tree_failing; /* some could not be written the last time */
};

/* Makes the device with its files, and listens. -1: what is wrong was logged. */
int device_open(struct device *device, struct daemon *daemon, unsigned int number);
/* Nothing of its sessions completes any more. */
void device_halt(struct device *device);
/* Destroys its sessions, too. */
void device_close(struct device *device);

/* That of a model; NULL: it has not been opened yet, or is closed. */
struct device *device_of_model(const struct daemon *daemon, const struct simhca_device *model);

/* The network interface may have changed. */
void device_follow_interface(struct device *device);

/* Its port's state or LID was set; what programs see in /sys follows. */
void device_has_changed(struct device *device);

#endif
