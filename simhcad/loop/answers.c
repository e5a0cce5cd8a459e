/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#include "answers.h"
#include "dma/file_kind.h"
#include "base/log.h"

#define MOST 256 /* of one program */
#define TURN 16	 /* that are closed at a time */

struct kept_answer {
	uint32_t number;
	int fd;
	struct answer_set *set;
	struct kept_answer *prev, *next;
};

static void let_go(struct kept_answer *kept)
{
	struct answer_set *set = kept->set;

	epoll_ctl(set->answers->epoll, EPOLL_CTL_DEL, kept->fd, NULL);
	releaser_close(set->answers->releaser, &set->owner, kept->fd);
	DL_DELETE(set->kept, kept);
	tally_sub(&set->answers->kept, set->owner.program);
	free(kept);
}

/* Closes kept sockets whose other end the program has closed, or by which it sends something, as no program does. */
static void on_events(struct ev_loop *loop, ev_io *io, int events)
{
	struct epoll_event event[TURN];
	int count = epoll_wait(io->fd, event, TURN, 0);

	for (int i = 0; i < count; i++)
		let_go(event[i].data.ptr);
}

/* Takes the socket, which has the number from now on that it returns; 0: it is not kept. */
static uint32_t keep(struct answer_set *set, int fd)
{
	struct kept_answer *kept = malloc(sizeof(*kept));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = kept };

	if (!kept || tally_get(&set->answers->kept, set->owner.program) == MOST ||
	    !tally_add(&set->answers->kept, set->owner.program)) {
		free(kept);
		return 0;
	}
	if (epoll_ctl(set->answers->epoll, EPOLL_CTL_ADD, fd, &event)) {
		tally_sub(&set->answers->kept, set->owner.program);
		free(kept);
		return 0;
	}
	do
		kept->number = ++set->last_number;
	while (answer_comes(kept->number) || answer_in_slot(kept->number));
	kept->fd = fd;
	kept->set = set;
	DL_APPEND(set->kept, kept);
	return kept->number;
}

static int find(const struct answer_set *set, uint32_t number)
{
	const struct kept_answer *kept;

	DL_FOREACH (set->kept, kept)
		if (kept->number == number)
			return kept->fd;
	return -1;
}

void answers_give(struct answer_set *set, uint32_t where, int came, int status,
		  const struct datagram_answer *answer, const struct simhca_why *why)
{
	uint32_t number = 0;
	int fd = came;

	if (!answer_comes(where)) {
		fd = find(set, where);
	} else if (fd >= 0 && simhca_file_kind(fd) != SIMHCA_FILE_UNIX_SOCKET) {
		/* It could make us wait. */
		log_debug("an answer was asked for on what is no Unix socket with a connection");
		fd = -1;
	} else if (fd >= 0 && where == SIMHCA_CMD_ANSWER_KEEP) {
		number = keep(set, fd);
	}
	if (fd >= 0)
		datagram_answer(fd, number, status, answer, why);
	if (came >= 0 && !number)
		releaser_close(set->answers->releaser, &set->owner, came);
}

void answers_forget(struct answer_set *set)
{
	while (set->kept)
		let_go(set->kept);
}

bool answers_open(struct answers *answers, struct ev_loop *loop, struct releaser *releaser)
{
	answers->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (answers->epoll < 0) {
		log_error("epoll_create1: %m");
		return false;
	}
	ev_io_init(&answers->io, on_events, answers->epoll, EV_READ);
	ev_io_start(loop, &answers->io);
	answers->releaser = releaser;
	return true;
}

void answers_close(struct answers *answers, struct ev_loop *loop)
{
	if (!answers->releaser)
		return;
	ev_io_stop(loop, &answers->io);
	close(answers->epoll);
}
