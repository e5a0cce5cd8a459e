/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A session: one client's connection, which is its open device (simhca-abi-cmd.h). It ends when
 * the last process closes the last descriptor of it, and with it everything that it holds.
 */
#ifndef SIMHCAD_SESSION_H
#define SIMHCAD_SESSION_H

#include <ev.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uthash.h>

#include "base/process.h"
#include "base/retry.h"
#include "base/turns.h"
#include "event_channel.h"
#include "loop/answers.h"
#include "loop/chores.h"
#include "simhca-device.h"

struct daemon;
struct device;
struct engine;
struct lint_look;
struct lint_notes;
struct sleeper;

/* What is to be done next at its end. */
enum session_end {
	SESSION_SERVED,	   /* it does not end */
	SESSION_PROCESSES, /* their memory is not used any more */
	SESSION_COMMANDS,  /* nobody waits for them any more */
	SESSION_LOOK,	   /* the diagnosis looks at what its program has (daemon_hooks) */
	SESSION_CONTEXT,   /* is destroyed; perhaps an engine is in its client's memory */
	SESSION_ENGINE,	   /* of its own */
	SESSION_EVENTS,
	SESSION_ENDED,
};

struct session {
	struct retry retry; /* first: of its end, once it is closing */
	struct turn turn;
	struct device *device;
	int fd;
	struct owner owner; /* who connected */
	struct answer_set answers;
	ev_io io;
	ev_timer pause;	      /* until its process's descriptors have been closed */
	bool pidfds;	      /* of senders are asked for (datagram.h) */
	bool said_again;      /* the last command comes once more */
	double said_again_at; /* monotonic, in seconds; 0: never */
	struct event_set events;
	struct process_use *processes;
	struct session *prev, *next; /* in the device's list */
	uint32_t number;	     /* that grows along this list */
	struct deferred *deferred;   /* commands to be tried again */
	unsigned int num_deferred;
	unsigned int num_chores;
	struct lint_notes *lint;  /* of objects that were destroyed; NULL: none */
	struct sleeper *sleepers; /* NULL: none was seen (sleepers.h) */
	uint32_t refused;	  /* the command that was last refused; 0: it has succeeded since */
	struct lint_look *look;	  /* at what it has, when it ends; NULL: not begun */
	uint64_t linted; /* which end it was that lint.h has seen; 0: it was not seen yet */
	enum session_end end;

	/* since OPEN_CONTEXT */
	struct simhca_context *context; /* NULL: not yet, or no more */
	uint32_t context_id;
	UT_hash_handle hh;	   /* in daemon.contexts, by it */
	struct engine *own_engine; /* NULL: one of the pool serves it */
	pid_t pid;		   /* of who opened it; 0: cannot be seen from here */
	pid_t run;		   /* the `simhca run` that it was started by; 0: none */
	char comm[16];
	bool maps;	  /* it has asked for regions that it maps */
	int not_attached; /* errno with which the kernel refuses it the memory of a peer; 0 */
};

/* It has a context now. */
void session_has_context(struct session *session, struct simhca_context *context);
/* The one whose context has this id; NULL: there is none. */
struct session *session_of(const struct daemon *daemon, uint32_t context);
/*
 * To have a pidfd made with each command, and closed, takes longer than most of them. So they are
 * asked for until the process that sends is known, and again for one that is not.
 */
void session_ask_for_pidfds(struct session *session, bool ask);
/* Takes the connection. */
void session_open(struct device *device, int fd);
/* Drops one of its commands that wait, as its client has gone. False: there is none. */
bool session_drop_command(struct session *session);
/*
 * Its client is gone, and it ends: part by part, beside others that end, which have two
 * milliseconds of the main thread together and then leave it to others for as long. Not twice.
 */
void session_close(struct session *session);
/* At the end of the daemon: what cannot be freed in two seconds is left to that of the process. */
void session_close_now(struct session *session);

static inline bool session_is_closing(const struct session *session)
{
	return session->end != SESSION_SERVED;
}

/* Whether it has a context, with all that its client has left there. */
static inline bool session_is_whole(const struct session *session)
{
	return session->context && session->end < SESSION_CONTEXT;
}

/*
 * Engine threads are stuck in the memory of these contexts' clients, one for each that is named: no
 * further one is to go there. So the contexts of their processes are suspended, and those of a
 * program which has several stuck; all others are resumed. Called again when there are others, or
 * none.
 */
void session_suspend(struct daemon *daemon, const uint32_t *contexts, unsigned int count);

/*
 * A part of a command that is a chore. The handler starts it, and the command with it waits; then
 * the handler is called once more.
 */
struct command_chore {
	struct chore chore;	  /* first; its work() is the handler's, its done() the session's */
	struct deferred *waiting; /* the command; NULL: its client has gone */
	/* Main thread, afterwards, whether somebody still waits or not. NULL: nothing. */
	void (*finish)(struct command_chore *chore);
};

/* Asked before anything is done that cannot be done again: if not, the answer is -EAGAIN. */
bool session_may_start_chore(const struct session *session);

/* A request, as handlers see it. */
struct request {
	/* As large as the command says, aligned. A handler that answers -EAGAIN may leave a note in
	   it, and trusts what it finds there no more than what the client sent. */
	void *body;
	double age;			 /* seconds since it was first tried */
	bool may_wait;			 /* else it is to be done now, or not at all */
	pid_t pid;			 /* the sender */
	uid_t uid;			 /* its user */
	int pidfd;			 /* names it better (datagram.h); -1: none */
	bool gone;			 /* it has ended */
	int fds[1 + SIMHCA_CMD_MAX_FDS]; /* without the answer's; what is left here is closed */
	unsigned int num_fds;
	/* Set by a handler that answers -EINPROGRESS: from malloc(), and to be started. Set when it
	   is called again: that is finished, and freed afterwards. */
	struct command_chore *chore;
};

/* What a handler answers. */
struct reply {
	void *body; /* zeroed; as large as the command says, aligned */
	int fds[SIMHCA_CMD_MAX_FDS];
	bool close_fd[SIMHCA_CMD_MAX_FDS]; /* once sent */
	unsigned int num_fds;
};

static inline void reply_add_fd(struct reply *reply, int fd, bool close_it)
{
	reply->fds[reply->num_fds] = fd;
	reply->close_fd[reply->num_fds++] = close_it;
}

/*
 * 0 or a negative errno, and then why->text says what is wrong. -EAGAIN: the same request is to be
 * tried again soon; the handler has not taken its descriptors then. -ERESTART: the same at once,
 * until it is done; not if it may not wait. -EINPROGRESS: see request.chore.
 */
typedef int command_handler(struct session *session, struct request *request, struct reply *reply,
			    struct simhca_why *why);

struct command {
	size_t request_size, reply_size; /* bytes, without the headers */
	unsigned int fds;		 /* besides the answer socket */
	command_handler *handler;	 /* NULL: there is no such command */
};

#endif
