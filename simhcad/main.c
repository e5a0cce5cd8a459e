/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhcad: the device. Its process: log, signals, runtime directory; parts.c has what it is made of. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "loop/ready.h"
#include "parts.h"
#include "session/daemon.h"

#define DESCRIPTORS 40	   /* that the daemon needs by itself, and some */
#define DESCRIPTORS_MORE 4 /* for each device and each engine that is asked for */
#define NEVER 1e10	   /* s since 1970 */

static void on_signal(struct ev_loop *loop, ev_signal *signal, int events)
{
	log_info("ending by signal %d (%s)", signal->signum, strsignal(signal->signum));
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
		background_ready(background);
}

/* From the locked directory to the last client. Returns the exit status. */
static int serve(struct daemon *daemon, int background)
{
	int status = parts_open(daemon);

	if (!status) {
		announce(daemon, background);
		ev_run(daemon->loop, 0);
		ready_notify("STOPPING=1");
	}
	parts_close(daemon);
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

static void on_never(struct ev_loop *loop, ev_periodic *periodic, int events)
{
}

static int run(const struct options *options, int background)
{
	static const int ending[] = { SIGTERM, SIGINT, SIGHUP };
	ev_periodic never;
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
	/*
	 * libev wakes up once a minute to see whether the wall clock was set, unless somebody waits for a time of
	 * it: then it has the kernel tell (4.33).
	 */
	ev_periodic_init(&never, on_never, NEVER, 0, NULL);
	ev_periodic_start(daemon->loop, &never);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		ev_signal_init(&signals[i], on_signal, ending[i]);
		ev_signal_start(daemon->loop, &signals[i]);
	}
	if (!start_log(daemon))
		status = serve(daemon, background);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		ev_signal_stop(daemon->loop, &signals[i]);
	ev_periodic_stop(daemon->loop, &never);
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
