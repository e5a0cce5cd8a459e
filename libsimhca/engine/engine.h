/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Engines: what has something to do, and who does it. engine_impl.h is for their own files. */
#ifndef LIBSIMHCA_ENGINE_H
#define LIBSIMHCA_ENGINE_H

#include "core/context.h"
#include "timer.h"
#include "worker.h"

/* What an engine runs: the work of a QP. */
struct simhca_task {
	/* A part of it; true when there is more to do at once. */
	bool (*run)(struct simhca_worker *worker, struct simhca_task *task);
	struct simhca_engine *engine; /* its context's; NULL of an XRC_RECV QP */
	uint32_t qpn;
	atomic_bool dead; /* being destroyed: nothing more is scheduled */
	/* on an engine's run queue */
	atomic_bool queued;
	struct simhca_engine *_Atomic queue_engine;
	struct simhca_task *prev, *next;
	struct simhca_timer timer;    /* under its engine's lock */
	_Atomic uint64_t timer_fired; /* the deadline that passed last */
};

/*
 * Where the threads of an engine sleep, for each CPU that it has some on. A program rings on the
 * CPU that it runs on, so that no wake-up crosses CPUs. A cpu_index counts the engine's CPUs; the
 * system's number of that CPU is config.cpu[cpu_index].
 */
struct simhca_engine_cpu {
	int epoll_fd;
	int wake_fd;	   /* eventfd: somebody other than a doorbell has work for us */
	bool was_readable; /* when simhca_engine_stuck() last looked */
};

/* Which of an engine's threads polls, and works; see poller.c. */
struct simhca_poller {
	_Atomic(struct simhca_worker *) thread;	   /* NULL: all sleep, or are about to */
	_Atomic(struct simhca_worker *) successor; /* waits to become the poller */
	_Atomic uint32_t invited; /* cpu_index whose thread is to become the successor, plus 1 */
	/* The poller's. */
	uint32_t last_cpu_index;
	uint32_t streak;       /* wake-ups on that CPU in a row */
	uint32_t invite_after; /* a streak so long: then a thread of another CPU is invited */
	uint64_t released_ns;
};

struct simhca_engine {
	struct simhca_worker by_hand;  /* of simhca_engine_poll() */
	struct simhca_worker *workers; /* the newest first */
	struct simhca_fabric *fabric;
	struct simhca_engine_config config;
	struct simhca_engine *next;
	pthread_mutex_t lock;
	struct simhca_task *run_queue; /* utlist, in the order of arrival */
	struct simhca_timers timers;
	atomic_bool has_tasks, has_timers; /* of the two, when the lock was let go of */
	pthread_mutex_t context_lock;	   /* of the two that follow; before lock */
	struct simhca_context *contexts;   /* uthash, by id */
	struct simhca_context
		*active; /* utlist: contexts whose doorbells are polled; the others are armed */
	struct simhca_engine_cpu cpus[SIMHCA_MAX_ENGINE_CPUS];
	uint32_t num_cpus;		 /* config's; or 1: its threads run on any CPU */
	void (*come)(void *arg, int fd); /* under context_lock */
	void *come_arg;
	struct simhca_poller poller;
	atomic_bool dozes; /* who wakes up calls config.woken() */
	atomic_bool stop;
};

uint64_t simhca_engine_now(const struct simhca_engine *engine);
/* Puts a task on the run queue, once, and wakes the engine if it sleeps. */
void simhca_engine_schedule(struct simhca_engine *engine, struct simhca_task *task);
/* The eventfds by which a context's programs wake its engine: 0 or -errno. */
int simhca_doorbells_open(struct simhca_context *context);
void simhca_doorbells_close(struct simhca_context *context);
/*
 * For programs that ring by a plain store: the task runs when the descriptor that says so is readable,
 * or a doorbell of the context's rang. 0 or -errno; one descriptor, which is the caller's and stays
 * open until the context is detached.
 */
void simhca_engine_rings(struct simhca_context *context, struct simhca_task *task);
int simhca_engine_rings_by(struct simhca_context *context, int fd);
/* 0 or -errno. */
int simhca_engine_attach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_detach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_forget(struct simhca_task *task);
/* When it expires the task is scheduled, with timer_fired set to the deadline that is returned. */
uint64_t simhca_engine_arm_timer(struct simhca_task *task, uint64_t delay_ns);
void simhca_engine_cancel_timer(struct simhca_task *task);
/* For other objects. False: out of memory. Who frees it stops it, and synchronizes. */
bool simhca_engine_start_timer(struct simhca_engine *engine, struct simhca_timer *timer,
			       uint64_t delay_ns);
void simhca_engine_stop_timer(struct simhca_engine *engine, struct simhca_timer *timer);

#endif
