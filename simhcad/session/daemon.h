/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The daemon: what its parts share. One event loop, in the main thread; engines run beside it. */
#ifndef SIMHCAD_DAEMON_H
#define SIMHCAD_DAEMON_H

#include <ev.h>

#include "base/process.h"
#include "base/program.h"
#include "base/retry.h"
#include "base/rundir.h"
#include "base/turns.h"
#include "device.h"
#include "event_channel.h"
#include "loop/answers.h"
#include "loop/attention.h"
#include "loop/doze.h"
#include "loop/engines.h"
#include "loop/paging.h"
#include "options.h"
#include "report.h"

struct admin;
struct chores;
struct cma;
struct failures;
struct injector;
struct late_receives;
struct nl_server;
struct sleepers;
struct tracers;
struct netif;
struct umad;
struct wire;

struct command;

/* What devices and sessions ask of the rooms above them; parts.c fills it in. */
struct daemon_hooks {
	/* The command of a number; NULL: there is none such. */
	const struct command *(*command_find)(unsigned int number);
	/*
	 * A session ends, and still has all that its program has left. True: it was looked at for
	 * some ten microseconds, and there is more to look at.
	 */
	bool (*session_ends)(struct session *session);
	/* The network interface of the device is there no more. */
	void (*interface_gone)(struct device *device);
};

struct daemon {
	struct ev_loop *loop;
	const struct options *options;
	struct rundir rundir;
	unsigned int parts; /* that are open (parts.c) */
	struct simhca_fabric *fabric;
	struct answers answers;
	struct attention attention;
	struct doze doze;
	struct engines engines;
	struct paging paging;
	struct event_wakeup wakeup;
	struct chores *chores;
	struct releaser *releaser;
	ev_timer recall; /* recall_later() */
	struct failures *failures;
	struct sleepers *sleepers;
	struct late_receives *late_receives;
	struct lint *lint;
	struct tracers *tracers;
	struct injector *injector;
	struct turns turns;	    /* of what is asked */
	struct retry_queue retries; /* commands */
	struct retry_queue endings; /* sessions whose clients are gone */
	struct report_queue reports;
	struct process_table processes;
	struct programs programs;
	struct netif *netif; /* NULL: no netlink here */
	struct wire *wire;   /* NULL: no device has one */
	struct device devices[OPTIONS_MAX_DEVICES];
	unsigned int num_devices; /* that exist */
	struct nl_server *nl_server;
	struct cma *cma;   /* rdma_cm */
	struct umad *umad; /* NULL: no device is InfiniBand */
	struct admin *admin;
	double started;		  /* monotonic.h */
	double in_vain;		  /* when a command last waited for an engine, and was deferred */
	struct session *contexts; /* those that have one, hashed by its id */
	struct daemon_hooks hooks;
};

#endif
