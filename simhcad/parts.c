/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The parts of the daemon as a table: each can use those above it. They are opened from the first to
 * the last, and closed from the last to the first. The model tells what happens by the callbacks of
 * its fabric, which are here as well.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "admin/admin.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "device/netif.h"
#include "diagnosis/inject.h"
#include "diagnosis/late_receives.h"
#include "diagnosis/lint.h"
#include "diagnosis/mixups.h"
#include "diagnosis/sleepers.h"
#include "diagnosis/trace.h"
#include "failures/failures.h"
#include "loop/chores.h"
#include "netlink/nl_server.h"
#include "parts.h"
#include "rdma_cm/cma.h"
#include "session/daemon.h"
#include "session/recall.h"
#include "session/session.h"
#include "simhca-attach.h"
#include "umad/umad.h"
#include "verbs/commands.h"
#include "wire/wire.h"

#define FAULT_WORKERS 4 /* unless --fault-workers says otherwise */
/* So long the end of the daemon waits for a program that is in a step of the fast path. */
#define STEP_SECONDS 1.0

static int out_of_memory(void)
{
	log_error("out of memory");
	return 1;
}

/* ---------------------------------------------------------------- what the model has to say */

static void on_comp_event(void *arg, uint64_t channel, uint64_t cq_user_handle)
{
	struct session *session = arg;

	event_raise_completion(&session->events, channel, cq_user_handle);
}

static void on_async_event(void *arg, struct simhca_user_handle user, uint32_t number,
			   uint32_t type)
{
	struct session *session = arg;
	bool by_rule = type == IBV_EVENT_PORT_ERR && session->device->down_by_rule;

	failures_add_event(session->device->daemon->failures, simhca_context_id(session->context),
			   type, number, by_rule);
	event_raise_async(&session->events, user.events, user.element, type);
}

static void on_release(void *arg, void *base, uint64_t size, int fd)
{
	struct daemon *daemon = arg;

	releaser_take(daemon->releaser, base, size, fd);
}

static void on_file_gone(void *arg)
{
	recall_later(arg);
}

static void on_no_worker(void *arg)
{
	struct daemon *daemon = arg;

	paging_is_short(&daemon->paging);
}

static void on_failure(void *arg, const struct simhca_failure *failure)
{
	struct daemon *daemon = arg;

	failures_add(daemon->failures, failure);
	if (failure->empty.context)
		late_receives_expect(daemon->late_receives);
}

static void on_injected(void *arg, const struct simhca_injection *injection)
{
	struct daemon *daemon = arg;

	injector_fired(daemon->injector, injection);
}

static void on_frame(void *arg, const struct simhca_frame_facts *facts, const uint8_t *bytes,
		     uint32_t length)
{
	struct daemon *daemon = arg;
	struct failing_program sender = failures_program(daemon->failures, facts->context);

	tracers_tell(daemon->tracers, facts, &sender, bytes, length);
}

static void on_log(void *arg, enum simhca_log_level level, const char *line)
{
	log_message(level, "%s", line);
}

/* ----------------------------------------------------------------------- threads for chores */

static int open_chores(struct daemon *daemon)
{
	daemon->chores = chores_start(daemon->loop);
	if (daemon->chores)
		daemon->releaser = releaser_start(daemon->loop, daemon->chores);
	return daemon->releaser ? 0 : 1;
}

static void close_chores(struct daemon *daemon)
{
	releaser_stop(daemon->releaser);
	chores_stop(daemon->chores);
	releaser_free(daemon->releaser);
}

/* --------------------------------------------------------------------- what is known of faults */

static bool is_joined(const struct daemon *daemon, const union simhca_gid *mgid)
{
	return !daemon->umad || simhca_subnet_has_group(daemon->umad->subnet, mgid->raw) ||
	       cma_has_joined(daemon->cma, mgid);
}

static bool is_joined_by_cm(const struct daemon *daemon, const union simhca_gid *mgid)
{
	return daemon->cma && cma_has_joined(daemon->cma, mgid);
}

static int open_lint(struct daemon *daemon)
{
	daemon->lint = lint_open(is_joined, is_joined_by_cm);
	return daemon->lint ? 0 : out_of_memory();
}

static void close_lint(struct daemon *daemon)
{
	lint_close(daemon->lint);
}

static int open_failures(struct daemon *daemon)
{
	daemon->failures = failures_open();
	return daemon->failures ? 0 : out_of_memory();
}

static void close_failures(struct daemon *daemon)
{
	failures_close(daemon->failures);
}

static int open_fabric(struct daemon *daemon)
{
	const struct simhca_ops ops = { .comp_event = on_comp_event,
					.async_event = on_async_event,
					.log = on_log,
					.injected = on_injected,
					.failure = on_failure,
					.frame = on_frame,
					.release = on_release,
					.file_gone = on_file_gone,
					.no_worker = on_no_worker,
					.arg = daemon };

	daemon->fabric = simhca_fabric_create(&ops);
	return daemon->fabric ? 0 : out_of_memory();
}

static void close_fabric(struct daemon *daemon)
{
	if (daemon->fabric)
		simhca_fabric_destroy(daemon->fabric);
}

static int open_injector(struct daemon *daemon)
{
	daemon->injector = injector_open(daemon);
	return daemon->injector ? 0 : out_of_memory();
}

static void close_injector(struct daemon *daemon)
{
	injector_close(daemon->injector);
}

static int open_tracers(struct daemon *daemon)
{
	daemon->tracers = tracers_open(daemon->loop);
	return daemon->tracers ? 0 : out_of_memory();
}

static void close_tracers(struct daemon *daemon)
{
	tracers_close(daemon->tracers);
}

static void close_wire(struct daemon *daemon)
{
	wire_close(daemon->wire);
}

/* -------------------------------------------------------------------------- loop and engines */

static int open_queues(struct daemon *daemon)
{
	attention_init(&daemon->attention, daemon->loop);
	turns_init(&daemon->turns, daemon->loop);
	retry_queue_init(&daemon->retries, daemon->loop, 0);
	/* What is there no more counts no more for the commands that come next. */
	retry_queue_init(&daemon->endings, daemon->loop, 1);
	report_queue_init(&daemon->reports, daemon);
	daemon->processes.loop = daemon->loop;
	return event_wakeup_init(&daemon->wakeup, daemon->loop) ? 0 : 1;
}

static void close_queues(struct daemon *daemon)
{
	if (daemon->wakeup.epoll >= 0)
		event_wakeup_destroy(&daemon->wakeup);
}

static int open_doze(struct daemon *daemon)
{
	doze_init(&daemon->doze, daemon->loop, &daemon->engines);
	return 0;
}

static void close_doze(struct daemon *daemon)
{
	doze_end(&daemon->doze);
}

static void on_stuck(void *arg, const uint32_t *contexts, unsigned int count)
{
	session_suspend(arg, contexts, count);
}

static int open_engines(struct daemon *daemon)
{
	const struct settings *settings = &daemon->options->daemon;

	daemon->engines.woken = doze_woken;
	daemon->engines.woken_arg = &daemon->doze;
	daemon->engines.stuck = on_stuck;
	daemon->engines.stuck_arg = daemon;
	return engines_start(&daemon->engines, daemon->fabric, daemon->loop, settings->engines,
			     settings->engine_spin, !wire_is_wanted(daemon))
		       ? 1
		       : 0;
}

static void close_engines(struct daemon *daemon)
{
	engines_stop(&daemon->engines);
}

static int open_paging(struct daemon *daemon)
{
	uint32_t workers = daemon->options->daemon.fault_workers;

	return paging_start(&daemon->paging, daemon->fabric, daemon->loop,
			    workers ? workers : FAULT_WORKERS)
		       ? 1
		       : 0;
}

static void close_paging(struct daemon *daemon)
{
	if (!paging_stop(&daemon->paging))
		daemon->engines.abandoned = true;
}

static int open_answers(struct daemon *daemon)
{
	return answers_open(&daemon->answers, daemon->loop, daemon->releaser) ? 0 : 1;
}

static void close_answers(struct daemon *daemon)
{
	answers_close(&daemon->answers, daemon->loop);
}

/* ---------------------------------------------------------------------------------- devices */

static void on_interfaces(void *arg)
{
	struct daemon *daemon = arg;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		device_follow_interface(&daemon->devices[i]);
	wire_follow(daemon->wire);
}

static int open_netif(struct daemon *daemon)
{
	daemon->netif = netif_open(daemon->loop, on_interfaces, daemon);
	return 0; /* without netlink there are interfaces all the same */
}

static void close_netif(struct daemon *daemon)
{
	netif_close(daemon->netif);
}

/* Whether this host has what each device is to be made of; 2 if not, as for other wrong options. */
static int check_places(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->options->num_devices; i++) {
		const struct named_settings *options = &daemon->options->devices[i];
		struct interface interface;

		if (options->settings.efa &&
		    (options->settings.infiniband || options->settings.profile)) {
			log_error("%s: --model efa: has no --link-layer ib and no --profile",
				  options->name);
			return 2;
		}
		if (!options->settings.efa &&
		    (options->settings.efa_caps != SIMHCA_EFA_GENERATION ||
		     options->settings.efa_mtu || options->settings.efa_rdma ||
		     options->settings.srd_shuffled)) {
			log_error("%s: --efa-caps, --efa-mtu, --efa-rdma-size and --srd-order: "
				  "need --model efa",
				  options->name);
			return -1;
		}
		if (options->settings.wire && options->settings.infiniband) {
			log_error("%s: --wire roce: needs --link-layer ethernet", options->name);
			return 2;
		}
		if (options->settings.numa_node != UINT32_MAX &&
		    !device_tree_has_node(options->settings.numa_node)) {
			log_error("%s: --numa-node %u: this host has no such NUMA node",
				  options->name, options->settings.numa_node);
			return 2;
		}
		if (netif_get(daemon->netif, options->settings.netdev, &interface))
			continue;
		log_error("%s: --netdev %s: must be a network interface of this host",
			  options->name, options->settings.netdev);
		return 2;
	}
	return 0;
}

static int open_wire(struct daemon *daemon)
{
	int failed;

	daemon->wire = wire_open(daemon, &failed);
	return failed ? 1 : 0;
}

static bool on_session_ends(struct session *session)
{
	struct daemon *daemon = session->device->daemon;

	if (!session->look)
		mixups_find(daemon);
	if (lint_end(daemon->lint, session))
		return true;
	sleepers_session_ends(session);
	return false;
}

static void on_interface_gone(struct device *device)
{
	cma_device_gone(device->daemon->cma, device);
}

static int open_devices(struct daemon *daemon)
{
	daemon->hooks = (struct daemon_hooks){ .command_find = command_find,
					       .session_ends = on_session_ends,
					       .interface_gone = on_interface_gone };
	if (device_tree_create(&daemon->rundir))
		return 1;
	while (daemon->num_devices < daemon->options->num_devices) {
		struct device *device = &daemon->devices[daemon->num_devices];

		if (device_open(device, daemon, daemon->num_devices))
			return 1;
		daemon->num_devices++;
	}
	/* Who starts it is there to see why it cannot reach others; later `simhca status` tells. */
	return wire_follow(daemon->wire) ? 0 : 1;
}

/*
 * Programs outlive the device. What one is in the middle of it completes by itself; only of one that
 * stays there for so long, as it was stopped, is the rest made void.
 */
static void stop_fastpath(struct simhca_fabric *fabric)
{
	const double until = monotonic_s() + STEP_SECONDS;
	const struct timespec nap = { .tv_nsec = 50 * 1000 };

	while (!simhca_fastpath_stop(fabric) && monotonic_s() < until)
		nanosleep(&nap, NULL);
}

/* Nobody new comes in; then all go at once, or a program would see its peers go before it does. */
static void close_devices(struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		listener_close(&daemon->devices[i].listener);
	engines_halt(&daemon->engines);
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		device_halt(&daemon->devices[i]);
	stop_fastpath(daemon->fabric);
	while (daemon->num_devices)
		device_close(&daemon->devices[--daemon->num_devices]);
}

static int open_cma(struct daemon *daemon)
{
	daemon->cma = cma_open(daemon);
	return daemon->cma ? 0 : 1;
}

static void close_cma(struct daemon *daemon)
{
	cma_close(daemon->cma);
}

static int open_umad(struct daemon *daemon)
{
	bool no_umad;

	daemon->umad = umad_open(daemon, &no_umad);
	return daemon->umad || no_umad ? 0 : 1;
}

static void close_umad(struct daemon *daemon)
{
	umad_close(daemon->umad);
}

static int publish_tree(struct daemon *daemon)
{
	return device_tree_publish(&daemon->rundir) ? 1 : 0;
}

/* ------------------------------------------------------------------------------------ tools */

static int open_netlink(struct daemon *daemon)
{
	daemon->nl_server = nl_server_open(daemon);
	return daemon->nl_server ? 0 : 1;
}

static void close_netlink(struct daemon *daemon)
{
	nl_server_close(daemon->nl_server);
}

static int open_admin(struct daemon *daemon)
{
	daemon->admin = admin_open(daemon);
	return daemon->admin && !rundir_write_pid(&daemon->rundir) ? 0 : 1;
}

static void close_admin(struct daemon *daemon)
{
	admin_close(daemon->admin);
}

/* Who looks now and then at what programs wait for. */
static int open_watches(struct daemon *daemon)
{
	daemon->late_receives = late_receives_open(daemon);
	daemon->sleepers = sleepers_open(daemon);
	return daemon->late_receives && daemon->sleepers ? 0 : out_of_memory();
}

static void close_watches(struct daemon *daemon)
{
	sleepers_close(daemon->sleepers);
	late_receives_close(daemon->late_receives);
}

/* -------------------------------------------------------------------------------- the table */

static const struct part {
	int (*open)(struct daemon *daemon);   /* returns an exit status; NULL: nothing to do */
	void (*close)(struct daemon *daemon); /* NULL likewise */
	bool threads_use_it; /* left as it is if one has not ended, for the process ends soon */
} parts[] = {
	{ .open = open_chores, .close = close_chores },
	{ .open = open_lint, .close = close_lint, .threads_use_it = true },
	{ .open = open_failures, .close = close_failures, .threads_use_it = true },
	{ .open = open_fabric, .close = close_fabric, .threads_use_it = true },
	{ .open = open_injector, .close = close_injector, .threads_use_it = true },
	{ .open = open_tracers, .close = close_tracers, .threads_use_it = true },
	{ .close = close_wire, .threads_use_it = true }, /* engines' threads send on it */
	{ .open = open_queues, .close = close_queues },
	{ .open = open_doze, .close = close_doze },
	{ .open = open_engines, .close = close_engines },
	{ .open = open_paging, .close = close_paging },
	{ .open = open_answers, .close = close_answers },
	{ .open = open_netif, .close = close_netif },
	{ .open = check_places },
	{ .open = open_wire },
	{ .open = open_devices, .close = close_devices },
	{ .open = open_cma, .close = close_cma },
	{ .open = open_umad, .close = close_umad },
	{ .open = publish_tree },
	/* Tools may come, for there is something to ask about. */
	{ .open = open_netlink, .close = close_netlink },
	{ .open = open_admin, .close = close_admin },
	{ .open = open_watches, .close = close_watches },
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

int parts_open(struct daemon *daemon)
{
	int status = 0;

	while (!status && daemon->parts < PARTS) {
		const struct part *part = &parts[daemon->parts++];

		if (part->open)
			status = part->open(daemon);
	}
	return status;
}

void parts_close(struct daemon *daemon)
{
	while (daemon->parts) {
		const struct part *part = &parts[--daemon->parts];

		if (part->close && !(part->threads_use_it && daemon->engines.abandoned))
			part->close(daemon);
	}
}
