/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#include "cma.h"
#include "dma/file_kind.h"
#include "log.h"
#include "ucma_answers.h"

#define MOST 256 /* of one program */
#define TURN 16	 /* that are closed at a time */

struct cma_kept {
	uint32_t number;
	int fd;
	struct cma_file *file;
	struct cma_kept *prev, *next;
};

static void let_go(struct cma_kept *kept)
{
	struct cma_file *file = kept->file;

	epoll_ctl(file->cma->kept_epoll, EPOLL_CTL_DEL, kept->fd, NULL);
	releaser_close(file->cma->daemon->releaser, &file->owner, kept->fd);
	DL_DELETE(file->kept, kept);
	file->program->kept--;
	free(kept);
}

/* The program has closed the other end, or says something there, which it has no reason to. */
static void on_events(struct ev_loop *loop, ev_io *io, int events)
{
	struct epoll_event event[TURN];
	int count = epoll_wait(io->fd, event, TURN, 0);

	for (int i = 0; i < count; i++)
		let_go(event[i].data.ptr);
}

uint32_t ucma_answers_keep(struct cma_file *file, int fd)
{
	struct cma_kept *kept = NULL;
	struct epoll_event event = { .events = EPOLLIN };

	/* Others could make us wait. */
	if (file->program->kept < MOST && simhca_file_kind(fd) == SIMHCA_FILE_UNIX_SOCKET)
		kept = malloc(sizeof(*kept));
	if (!kept)
		return 0;
	event.data.ptr = kept;
	if (epoll_ctl(file->cma->kept_epoll, EPOLL_CTL_ADD, fd, &event)) {
		free(kept);
		return 0;
	}
	if (!++file->last_kept)
		++file->last_kept;
	kept->number = file->last_kept;
	kept->fd = fd;
	kept->file = file;
	DL_APPEND(file->kept, kept);
	file->program->kept++;
	return kept->number;
}

int ucma_answers_find(const struct cma_file *file, uint32_t number)
{
	const struct cma_kept *kept;

	DL_FOREACH (file->kept, kept)
		if (kept->number == number)
			return kept->fd;
	return -1;
}

void ucma_answers_forget(struct cma_file *file)
{
	while (file->kept)
		let_go(file->kept);
}

bool ucma_answers_open(struct cma *cma)
{
	cma->kept_epoll = epoll_create1(EPOLL_CLOEXEC);
	if (cma->kept_epoll < 0) {
		log_error("epoll_create1: %m");
		return false;
	}
	ev_io_init(&cma->kept_io, on_events, cma->kept_epoll, EV_READ);
	ev_io_start(cma->daemon->loop, &cma->kept_io);
	return true;
}

void ucma_answers_close(struct cma *cma)
{
	if (cma->kept_epoll < 0)
		return;
	ev_io_stop(cma->daemon->loop, &cma->kept_io);
	close(cma->kept_epoll);
}
