/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The daemon: what its parts share. One event loop, in the main thread; engines run beside it. */
#ifndef SIMHCAD_DAEMON_H
#define SIMHCAD_DAEMON_H

#include <ev.h>

#include "loop/answers.h"
#include "loop/attention.h"
#include "loop/doze.h"
#include "device/device.h"
#include "device/engines.h"
#include "verbs/event_channel.h"
#include "diagnosis/late_receives.h"
#include "netlink/nl_server.h"
#include "options.h"
#include "loop/paging.h"
#include "base/process.h"
#include "base/program.h"
#include "loop/releaser.h"
#include "admin/report.h"
#include "base/retry.h"
#include "base/rundir.h"
#include "diagnosis/sleepers.h"
#include "base/turns.h"

struct admin;
struct chores;
struct cma;
struct failures;
struct injector;
struct tracers;
struct netif;
struct umad;
struct wire;

struct command;

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
	struct failures *failures;
	struct sleepers sleepers;
	struct late_receives late_receives;
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
	struct nl_server nl_server;
	struct cma *cma;   /* rdma_cm */
	struct umad *umad; /* NULL: no device is InfiniBand */
	struct admin *admin;
	double started;		  /* monotonic.h */
	double in_vain;		  /* when a command last waited for an engine, and was deferred */
	struct session *contexts; /* those that have one, hashed by its id */
	/* The command of a number; NULL: there is none such (verbs/verbs_cmd.c). */
	const struct command *(*command_find)(unsigned int number);
};

#endif
