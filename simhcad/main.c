/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhcad: the device. Puts the parts together, in order, and takes them apart again. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/admin.h"
#include "loop/chores.h"
#include "rdma_cm/cma.h"
#include "daemon.h"
#include "diagnosis/failures.h"
#include "diagnosis/inject.h"
#include "diagnosis/lint.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "device/netif.h"
#include "loop/ready.h"
#include "loop/session.h"
#include "diagnosis/trace.h"
#include "umad/umad.h"
#include "wire/wire.h"

#define DESCRIPTORS 40	   /* that the daemon needs by itself, and some */
#define DESCRIPTORS_MORE 4 /* for each device and each engine that is asked for */

/* ----------------------------------------------------------- what the model has to say */

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

static void on_stuck(void *arg, const uint32_t *contexts, unsigned int count)
{
	session_suspend(arg, contexts, count);
}

static void on_release(void *arg, void *base, uint64_t size, int fd)
{
	struct daemon *daemon = arg;

	releaser_take(daemon->releaser, base, size, fd);
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
		late_receives_expect(&daemon->late_receives);
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

/* ---------------------------------------------------------------------------- the daemon */

static void on_interfaces(void *arg)
{
	struct daemon *daemon = arg;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		device_follow_interface(&daemon->devices[i]);
	wire_follow(daemon->wire);
}

static int check_places(const struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->options->num_devices; i++) {
		const struct named_settings *options = &daemon->options->devices[i];
		struct interface interface;

		if (options->settings.efa &&
		    (options->settings.wire || options->settings.infiniband ||
		     options->settings.profile)) {
			log_error("%s: --model efa: has no --wire, no --link-layer ib and no "
				  "--profile",
				  options->name);
			return -1;
		}
		if (options->settings.wire && options->settings.infiniband) {
			log_error("%s: --wire roce: needs --link-layer ethernet", options->name);
			return -1;
		}
		if (options->settings.numa_node != UINT32_MAX &&
		    !device_tree_has_node(options->settings.numa_node)) {
			log_error("%s: --numa-node %u: this host has no such NUMA node",
				  options->name, options->settings.numa_node);
			return -1;
		}
		if (netif_get(daemon->netif, options->settings.netdev, &interface))
			continue;
		log_error("%s: --netdev %s: must be a network interface of this host",
			  options->name, options->settings.netdev);
		return -1;
	}
	return 0;
}

static int open_devices(struct daemon *daemon)
{
	bool no_umad;

	if (device_tree_create(&daemon->rundir))
		return -1;
	while (daemon->num_devices < daemon->options->num_devices) {
		struct device *device = &daemon->devices[daemon->num_devices];

		if (device_open(device, daemon, daemon->num_devices))
			return -1;
		daemon->num_devices++;
	}
	/* Who starts it is there to see why it cannot reach others; later `simhca status` tells. */
	if (!wire_follow(daemon->wire))
		return -1;
	daemon->cma = cma_open(daemon);
	if (!daemon->cma)
		return -1;
	daemon->umad = umad_open(daemon, &no_umad);
	return daemon->umad || no_umad ? device_tree_publish(&daemon->rundir) : -1;
}

static void on_signal(struct ev_loop *loop, ev_signal *signal, int events)
{
	log_debug("signal %d: ending", signal->signum);
	ev_break(loop, EVBREAK_ALL);
}

static void announce(const struct daemon *daemon, int background)
{
	const struct settings *settings = &daemon->options->daemon;

	log_info("simhcad " SIMHCA_VERSION " serves %u device%s in %s", daemon->num_devices,
		 daemon->num_devices == 1 ? "" : "s", daemon->rundir.path);
	log_debug("options: %s", daemon->options->normalised);
	log_started();
	ready_notify("READY=1");
	if (settings->ready_fd != UINT32_MAX)
		ready_write((int)settings->ready_fd);
	if (background >= 0)
		background_done(background);
}

/* From the locked directory to the last client. Returns the exit status. */
static int serve(struct daemon *daemon, int background)
{
	const struct simhca_ops ops = { .comp_event = on_comp_event,
					.async_event = on_async_event,
					.log = on_log,
					.injected = on_injected,
					.failure = on_failure,
					.frame = on_frame,
					.release = on_release,
					.no_worker = on_no_worker,
					.arg = daemon };
	const struct settings *settings = &daemon->options->daemon;
	int status = 1, failed;

	daemon->failures = failures_open();
	daemon->lint = lint_open();
	daemon->tracers = tracers_open(daemon->loop);
	daemon->injector = injector_open(daemon);
	if (daemon->failures && daemon->tracers && daemon->lint && daemon->injector)
		daemon->fabric = simhca_fabric_create(&ops);
	if (!daemon->fabric) {
		failures_close(daemon->failures);
		lint_close(daemon->lint);
		tracers_close(daemon->tracers);
		injector_close(daemon->injector);
		log_error("out of memory");
		return 1;
	}
	daemon->chores = chores_start(daemon->loop);
	if (daemon->chores)
		daemon->releaser = releaser_start(daemon->loop, daemon->chores);
	if (!daemon->releaser) {
		chores_stop(daemon->chores);
		simhca_fabric_destroy(daemon->fabric);
		failures_close(daemon->failures);
		lint_close(daemon->lint);
		tracers_close(daemon->tracers);
		injector_close(daemon->injector);
		return 1;
	}
	attention_init(&daemon->attention, daemon->loop);
	turns_init(&daemon->turns, daemon->loop);
	retry_queue_init(&daemon->retries, daemon->loop, 0);
	/* What is there no more counts no more for the commands that come next. */
	retry_queue_init(&daemon->endings, daemon->loop, 1);
	report_queue_init(&daemon->reports, daemon);
	doze_init(&daemon->doze, daemon->loop, &daemon->engines);
	sleepers_init(&daemon->sleepers, daemon);
	daemon->engines.woken = doze_woken;
	daemon->engines.woken_arg = &daemon->doze;
	late_receives_init(&daemon->late_receives, daemon);
	if (!event_wakeup_init(&daemon->wakeup, daemon->loop)) {
		releaser_stop(daemon->releaser);
		chores_stop(daemon->chores);
		releaser_free(daemon->releaser);
		simhca_fabric_destroy(daemon->fabric);
		failures_close(daemon->failures);
		lint_close(daemon->lint);
		tracers_close(daemon->tracers);
		injector_close(daemon->injector);
		return 1;
	}
	daemon->processes.loop = daemon->loop;
	daemon->netif = netif_open(daemon->loop, on_interfaces, daemon);
	if (!answers_open(&daemon->answers, daemon->loop, daemon->releaser))
		goto out;
	if (engines_start(&daemon->engines, daemon->fabric, daemon->loop, settings->engines,
			  settings->engine_spin, !wire_is_wanted(daemon)) ||
	    paging_start(&daemon->paging, daemon->fabric, daemon->loop,
			 settings->fault_workers ? settings->fault_workers : 4))
		goto out;
	daemon->engines.stuck = on_stuck;
	daemon->engines.stuck_arg = daemon;
	if (check_places(daemon)) {
		status = 2;
		goto out;
	}
	daemon->wire = wire_open(daemon, &failed);
	if (failed)
		goto out;
	/* Tools may come once there is something to ask about. */
	if (open_devices(daemon) || nl_server_open(&daemon->nl_server, daemon))
		goto out;
	daemon->admin = admin_open(daemon);
	if (!daemon->admin || rundir_write_pid(&daemon->rundir))
		goto out;

	announce(daemon, background);
	ev_run(daemon->loop, 0);
	ready_notify("STOPPING=1");
	status = 0;
out:
	sleepers_end(&daemon->sleepers);
	late_receives_end(&daemon->late_receives);
	/* Nobody new comes in; then those who are there go. */
	admin_close(daemon->admin);
	nl_server_close(&daemon->nl_server);
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		listener_close(&daemon->devices[i].listener);
	umad_close(daemon->umad);
	cma_close(daemon->cma);
	netif_close(daemon->netif);
	/* All at once, or a program would see its peers go before it learns that the device does.
	 */
	engines_halt(&daemon->engines);
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		device_halt(&daemon->devices[i]);
	while (daemon->num_devices)
		device_close(&daemon->devices[--daemon->num_devices]);
	answers_close(&daemon->answers, daemon->loop);
	if (!paging_stop(&daemon->paging))
		daemon->engines.abandoned = true;
	engines_stop(&daemon->engines);
	doze_end(&daemon->doze);
	event_wakeup_destroy(&daemon->wakeup);
	if (!daemon->engines.abandoned) {
		wire_close(daemon->wire);
		tracers_close(daemon->tracers);
		injector_close(daemon->injector);
		simhca_fabric_destroy(daemon->fabric);
		failures_close(daemon->failures);
		lint_close(daemon->lint);
	}
	releaser_stop(daemon->releaser);
	chores_stop(daemon->chores);
	releaser_free(daemon->releaser);
	return status;
}

/*
 * A context takes half a dozen descriptors. Where there are too few to begin with, that is said at
 * once, and not by whatever meets the limit first: libev aborts when it does. 0 or -1.
 */
static int raise_descriptor_limit(const struct options *options)
{
	const rlim_t least = DESCRIPTORS + DESCRIPTORS_MORE * options->num_devices +
			     DESCRIPTORS_MORE * options->daemon.engines;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		log_warning("the limit of open descriptors: %m");
	if (limit.rlim_max >= least)
		return 0;
	log_error("%llu open descriptors are the limit here (ulimit -n): at least %llu are needed, "
		  "and more for each program",
		  (unsigned long long)limit.rlim_max, (unsigned long long)least);
	return -1;
}

/* libev knows no errors, and would abort: without descriptors, or kernel memory. */
static void on_libev_error(const char *what)
{
	log_error("%s: %m", what);
	_exit(1);
}

static int start_log(const struct daemon *daemon)
{
	const struct settings *settings = &daemon->options->daemon;
	char path[PATH_MAX + 16];
	const char *file = settings->log_file;
	int ret;

	if (!file && settings->daemonize) {
		snprintf(path, sizeof(path), "%s/simhcad.log", daemon->rundir.path);
		file = path;
	}
	ret = log_open(file, settings->log_level);
	if (ret)
		fprintf(stderr, "simhcad: --log-file %s: %s\n", file, strerror(-ret));
	return ret;
}

static int run(const struct options *options, int background)
{
	static const int ending[] = { SIGTERM, SIGINT, SIGHUP };
	ev_signal signals[sizeof(ending) / sizeof(ending[0])];
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int status = 1;

	if (!daemon)
		return 1;
	daemon->options = options;
	programs_init(&daemon->programs);
	if (raise_descriptor_limit(options) ||
	    rundir_open(&daemon->rundir, options->daemon.runtime_dir))
		goto out_daemon;
	ev_set_syserr_cb(on_libev_error);
	daemon->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	if (!daemon->loop) {
		log_error("the event loop: %m");
		goto out_rundir;
	}
	daemon->started = monotonic_s();
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		ev_signal_init(&signals[i], on_signal, ending[i]);
		ev_signal_start(daemon->loop, &signals[i]);
	}
	if (!start_log(daemon))
		status = serve(daemon, background);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		ev_signal_stop(daemon->loop, &signals[i]);
	ev_loop_destroy(daemon->loop);
out_rundir:
	rundir_close(&daemon->rundir);
	/* A thread may be at work still with what was not freed. */
	if (daemon->engines.abandoned)
		_exit(status);
out_daemon:
	free(daemon);
	return status;
}

int main(int argc, char **argv)
{
	struct options options;
	int background = -1;
	int status = options_parse(argc, argv, &options);

	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (options.daemon.daemonize) {
		background = background_start();
		if (background < 0) {
			fprintf(stderr, "simhcad: --daemonize: %s\n", strerror(errno));
			options_free(&options);
			return 1;
		}
	}
	status = run(&options, background);
	options_free(&options);
	log_close();
	return status;
}
