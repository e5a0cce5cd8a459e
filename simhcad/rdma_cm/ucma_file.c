/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An open /dev/infiniband/rdma_cm: commands come in, events wait to be fetched, and a token in the
 * program's end of the connection shows that there are some (simhca-abi-rdma-cm.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/process.h"
#include "base/share.h"
#include "cma.h"
#include "loop/datagram.h"
#include "ucma_file.h"

static int get_event(struct cma_file *file, const struct simhca_ucma_request *request,
		     struct ucma_answer *answer, uint16_t out)
{
	struct cma_event *event = file->events;

	cma_file_token_taken(file, request->token);
	if (!event)
		return -SIMHCA_UCMA_NO_EVENT;
	if (out < sizeof(event->resp) - sizeof(event->resp.ece) - sizeof(event->resp.reserved)) {
		cma_file_show_token(file);
		return -ENOSPC;
	}
	answer->reply.length = out < sizeof(event->resp) ? out : sizeof(event->resp);
	memcpy(answer->response, &event->resp, answer->reply.length);
	event->id->events_reported++;
	if (event->mc)
		event->mc->events_reported++;
	if (event->request) {
		event->request->listener = NULL;
		event->id->waiting--;
	}
	cma_event_free(event);
	answer->reply.take = cma_file_withdraw_token(file);
	cma_file_show_token(file);
	return 0;
}

/* ------------------------------------------------------------------------------------ commands */

/* A command that the program wrote, as the kernel's rdma_ucm would take it. */
static int written(struct cma_file *file, const struct simhca_ucma_request *request,
		   const uint8_t *bytes, struct ucma_answer *answer, struct simhca_why *why)
{
	struct ucma_call call = { .file = file, .request = request, .answer = answer };
	struct rdma_ucm_cmd_hdr hdr;
	int ret;

	if (request->written < sizeof(hdr))
		return simhca_why(why, EINVAL, "%u bytes are no command", request->written);
	memcpy(&hdr, bytes, sizeof(hdr));
	if (hdr.cmd >= SIMHCA_UCMA_COUNT)
		return simhca_why(why, EINVAL, "there is no command %u", hdr.cmd);
	if (hdr.in + sizeof(hdr) > request->written)
		return simhca_why(why, EINVAL, "command %u: %u bytes were written, %zu announced",
				  hdr.cmd, request->written, hdr.in + sizeof(hdr));
	call.in = hdr.in;
	call.out = hdr.out;
	memcpy(call.payload, bytes + sizeof(hdr), request->written - sizeof(hdr));
	call.option = bytes + request->written;
	if (hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT)
		return get_event(file, request, answer, hdr.out);
	ret = ucma_call(&call, hdr.cmd, why);
	answer->reply.take = cma_file_withdraw_token(file);
	return ret;
}

/* A datagram as it came in. */
struct ucma_datagram {
	struct simhca_cmd_hdr hdr;
	struct simhca_ucma_request request;
	uint8_t bytes[SIMHCA_UCMA_MAX_WRITE + SIMHCA_UCMA_MAX_OPTION];
	size_t length;
	bool truncated; /* it was longer */
};

static int serve(struct cma_file *file, const struct ucma_datagram *datagram,
		 struct ucma_answer *answer, struct simhca_why *why)
{
	const struct simhca_cmd_hdr *hdr = &datagram->hdr;
	const struct simhca_ucma_request *request = &datagram->request;
	size_t head = sizeof(*hdr) + sizeof(*request);
	int ret = datagram_check(hdr, datagram->truncated ? 0 : datagram->length, head, EINVAL,
				 "preload library", why);

	if (ret)
		return ret;
	if (request->written > SIMHCA_UCMA_MAX_WRITE ||
	    datagram->length != head + request->written + request->option)
		return simhca_why(why, EINVAL, "a command's parts do not make up its length");
	switch (hdr->command) {
	case SIMHCA_UCMA_WRITE:
		return written(file, request, datagram->bytes, answer, why);
	case SIMHCA_UCMA_IDENTIFY:
		answer->reply.file = file->number;
		return 0;
	case SIMHCA_UCMA_RENEW:
		cma_file_token_taken(file, request->token);
		cma_file_show_token(file);
		return 0;
	default:
		return simhca_why(why, EINVAL, "there is no request %u", hdr->command);
	}
}

static void remember_sender(struct cma_file *file, const struct sender *sender)
{
	if (file->pid == sender->pid)
		return;
	file->pid = sender->pid;
	file->uid = sender->uid;
	process_name(file->pid, file->comm);
}

/* False: the connection is at its end, or nothing is there. */
static bool serve_one(struct cma_file *file, bool *over)
{
	struct ucma_answer answer = { .reply = { .length = 0 } };
	struct ucma_datagram datagram = { .length = 0 };
	struct iovec iov = { &datagram, offsetof(struct ucma_datagram, length) };
	struct releaser *releaser = file->cma->daemon->releaser;
	struct datagram_answer bytes = { .body = &answer };
	struct simhca_why why = { "" };
	struct sender sender;
	unsigned int num_fds;
	ssize_t length;
	int fd, ret;

	length = datagram_receive(file->fd, releaser, &file->owner, &iov, 1, &sender, &fd, 1,
				  &num_fds, &datagram.truncated);
	*over = length != -EAGAIN && (length < 0 || (!length && !sender.known));
	if (length < 0 || *over)
		return false;
	datagram.length = (size_t)length;
	remember_sender(file, &sender);
	ret = serve(file, &datagram, &answer, &why);
	bytes.body_size = sizeof(answer.reply) + answer.reply.length;
	answers_give(&file->answers, answer_where(&datagram.hdr), num_fds ? fd : -1, ret, &bytes,
		     &why);
	attention_pay(&file->cma->daemon->attention);
	return true;
}

static void close_file(struct cma_file *file);

static void serve_some(struct turn *turn, uint64_t until)
{
	struct cma_file *file = (struct cma_file *)((char *)turn - offsetof(struct cma_file, turn));
	bool over = false;

	while (serve_one(file, &over) && simhca_now_ns() < until)
		;
	if (over)
		close_file(file);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct cma_file *file = io->data;

	turns_take(&file->cma->daemon->turns, &file->turn);
}

/* ---------------------------------------------------------------------------------------- life */

/* NULL: it gets no more files. */
static struct cma_program *program_get(struct cma *cma, const struct owner *owner)
{
	struct cma_program *program;

	HASH_FIND(hh, cma->programs, &owner->program, sizeof(owner->program), program);
	if (program && program->files >= share_connections()) {
		log_warning("rdma_cm: the program of process %d has a quarter of all connections, "
			    "and gets no more",
			    (int)owner->process);
		return NULL;
	}
	if (!program) {
		program = calloc(1, sizeof(*program));
		if (!program)
			return NULL;
		program->pid = owner->program;
		HASH_ADD(hh, cma->programs, pid, sizeof(program->pid), program);
	}
	program->files++;
	return program;
}

static void program_put(struct cma *cma, struct cma_program *program)
{
	if (--program->files)
		return;
	HASH_DEL(cma->programs, program);
	free(program);
}

void ucma_file_open(struct cma *cma, int fd, uint64_t number)
{
	struct owner owner = program_peer(&cma->daemon->programs, fd);
	struct cma_program *program = program_get(cma, &owner);
	struct cma_file *file = program ? calloc(1, sizeof(*file)) : NULL;

	if (!file) {
		if (program)
			program_put(cma, program);
		datagram_close(fd, cma->daemon->releaser, &owner);
		return;
	}
	file->turn.serve = serve_some;
	file->program = program;
	file->cma = cma;
	file->fd = fd;
	file->owner = owner;
	file->answers = (struct answer_set){ .answers = &cma->daemon->answers, .owner = owner };
	file->number = number;
	ev_io_init(&file->io, on_readable, fd, EV_READ);
	ev_set_priority(&file->io, 1);
	file->io.data = file;
	ev_io_start(cma->daemon->loop, &file->io);
	DL_APPEND(cma->files, file);
	cma->num_files++;
	HASH_ADD(hh, cma->by_number, number, sizeof(file->number), file);
}

/* A part of an id's end, and at last the id. */
static void end_of_id(struct cma_id *id)
{
	if (id->events)
		cma_id_drop_event(id->events);
	else if (id->mcs)
		cma_mc_free(id->mcs);
	else
		cma_id_destroy(id);
}

static void free_file(struct cma_file *file)
{
	struct cma *cma = file->cma;

	answers_forget(&file->answers);
	datagram_close(file->fd, cma->daemon->releaser, &file->owner);
	DL_DELETE(cma->files, file);
	cma->num_files--;
	program_put(cma, file->program);
	free(file);
}

static bool end_further(struct retry *retry, double until)
{
	struct cma_file *file = (struct cma_file *)retry;

	while (file->ids) {
		end_of_id(file->ids);
		if (monotonic_s() >= until) {
			retry_soon(retry);
			return false;
		}
	}
	free_file(file);
	return true;
}

static void stop_serving(struct cma_file *file)
{
	ev_io_stop(file->cma->daemon->loop, &file->io);
	turns_leave(&file->cma->daemon->turns, &file->turn);
	HASH_DEL(file->cma->by_number, file);
	file->is_closing = true;
}

static void close_file(struct cma_file *file)
{
	stop_serving(file);
	retry_add_now(&file->cma->daemon->endings, &file->retry, end_further);
}

void ucma_file_close_now(struct cma_file *file)
{
	if (file->is_closing)
		retry_remove(&file->cma->daemon->endings, &file->retry);
	else
		stop_serving(file);
	while (file->ids)
		cma_id_destroy(file->ids);
	free_file(file);
}
