/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which process has sent a request, and its memory. */
#include <errno.h>
#include <stdlib.h>

#include "base/monotonic.h"
#include "sender.h"
#include "session/daemon.h"
#include "session/session.h"

/* So long pidfds stay on for who was told to send once more, whoever else sends meanwhile. */
#define AGAIN_S 1.0

static const char ended[] = "the process that has sent this has ended";

/* Looking at a process whose memory is used for the first time. */
struct look {
	struct command_chore chore; /* first */
	struct process_table *table;
	struct process_look look;
	bool lives;
};

static void look_at_process(struct chore *chore)
{
	process_look_do(&((struct look *)chore)->look);
}

static void finish_look(struct command_chore *chore)
{
	struct look *look = (struct look *)chore;

	look->lives = process_look_finish(look->table, &look->look);
}

int sender_know(struct session *session, struct request *request, bool *reachable,
		struct simhca_why *why)
{
	struct process_table *table = &session->device->daemon->processes;
	struct look *look = NULL;

	if (request->chore && request->chore->chore.work == look_at_process)
		look = (struct look *)request->chore;
	/* Without a pidfd the number may be that of one that has ended, and now another's. */
	if (!request->gone && process_is_known(table, request->pid, reachable) &&
	    (session->pidfds || (look && look->lives) ||
	     process_is_used(session->processes, request->pid))) {
		if (session->pidfds && monotonic_s() - session->said_again_at > AGAIN_S)
			session_ask_for_pidfds(session, false);
		return 0;
	}
	if (look && look->lives && look->look.blind) {
		*reachable = look->look.reachable;
		return 0;
	}
	if (look || request->gone)
		return simhca_why(why, ESRCH, "%s", ended);
	if (!session->pidfds) {
		session_ask_for_pidfds(session, true);
		session->said_again = true;
		session->said_again_at = monotonic_s();
		return simhca_why(why, SIMHCA_CMD_SAY_AGAIN,
				  "the process that has sent this is to be known first");
	}
	if (!session_may_start_chore(session))
		return -EAGAIN;
	look = calloc(1, sizeof(*look));
	if (!look)
		return simhca_why(why, ENOMEM, "out of memory");
	look->table = table;
	process_look_start(&look->look, request->pid, request->pidfd);
	request->pidfd = -1;
	look->chore.chore.work = look_at_process;
	look->chore.finish = finish_look;
	request->chore = &look->chore;
	return -EINPROGRESS;
}

int sender_has_no_memory(struct simhca_why *why)
{
	return errno == ESRCH ? simhca_why(why, ESRCH, "%s", ended)
			      : simhca_why(why, ENOMEM, "out of memory");
}

int sender_memory(struct session *session, struct request *request, struct simhca_mm **mm,
		  struct simhca_why *why)
{
	bool reachable;
	int ret;

	/* Where an agent copies, the sender is whoever has the agent. */
	if (request->pid <= 0 && !session->own_engine)
		return simhca_why(why, EPERM,
				  "simhcad cannot see which process has sent this, and so cannot "
				  "reach its memory");
	if (request->pid > 0) {
		ret = sender_know(session, request, &reachable, why);
		if (ret)
			return ret;
	}
	*mm = process_memory(&session->device->daemon->processes, &session->processes,
			     session->context, request->pid);
	return *mm ? 0 : sender_has_no_memory(why);
}
