/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* An open umadN or issmN: what the program writes and asks for by ioctl(). */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/log.h"
#include "base/share.h"
#include "loop/datagram.h"
#include "simhca-clock.h"
#include "umad.h"

#define RMPP_HEADER 36u /* what is written has it, used or not */

/* ------------------------------------------------------------------------------------ commands */

static struct umad_agent *find_agent(const struct umad_file *file, uint32_t id)
{
	return id < UMAD_AGENTS ? file->agents[id] : NULL;
}

static int enable_pkey(struct umad_file *file, struct simhca_why *why)
{
	if (file->is_used)
		return simhca_why(why, EINVAL, "ENABLE_PKEY comes before all else");
	file->has_pkey_index = true;
	return 0;
}

static int register_agent(struct umad_file *file, const uint8_t *bytes, uint32_t *id,
			  struct simhca_why *why)
{
	struct ib_user_mad_reg_req req;
	struct umad_agent agent = { .id = 0 };

	memcpy(&req, bytes, sizeof(req));
	file->is_used = true;
	agent.qpn = req.qpn;
	agent.class = req.mgmt_class;
	agent.class_version = req.mgmt_class_version;
	agent.rmpp_version = req.rmpp_version;
	agent.oui = (uint32_t)mad_get(req.oui, 0, 3);
	agent.methods[0] = req.method_mask[0];
	agent.methods[1] = req.method_mask[1];
	return umad_agent_register(file, &agent, id, why);
}

static int register_agent2(struct umad_file *file, const uint8_t *bytes, uint32_t *id,
			   struct simhca_why *why)
{
	struct ib_user_mad_reg_req2 req;
	struct umad_agent agent = { .id = 0 };

	memcpy(&req, bytes, sizeof(req));
	file->is_used = true;
	if (req.flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP)
		return simhca_why(why, EINVAL, "there are no flags 0x%x", req.flags);
	if (req.mgmt_class && req.oui & 0xff000000)
		return simhca_why(why, EINVAL, "an OUI has 24 bits");
	agent.qpn = req.qpn;
	agent.class = req.mgmt_class;
	agent.class_version = req.mgmt_class_version;
	agent.rmpp_version = req.rmpp_version;
	agent.own_rmpp = req.flags & IB_USER_MAD_USER_RMPP;
	agent.oui = req.oui;
	agent.methods[0] = req.method_mask[0];
	agent.methods[1] = req.method_mask[1];
	return umad_agent_register(file, &agent, id, why);
}

static int unregister_agent(struct umad_file *file, const uint8_t *bytes, struct simhca_why *why)
{
	struct umad_agent *agent;
	uint32_t id;

	memcpy(&id, bytes, sizeof(id));
	agent = find_agent(file, id);
	if (!agent)
		return simhca_why(why, EINVAL, "there is no agent %u", id);
	umad_send_forget(agent);
	umad_agent_free(agent);
	return 0;
}

static int written(struct umad_file *file, const uint8_t *bytes, size_t size,
		   struct simhca_why *why)
{
	size_t head = file->has_pkey_index ? sizeof(struct ib_user_mad_hdr)
					   : sizeof(struct ib_user_mad_hdr_old);
	uint8_t *mad = file->port->umad->mad;
	struct ib_user_mad_hdr hdr = { .id = 0 };
	struct umad_agent *agent;
	size_t length = size - head;

	if (size < head + RMPP_HEADER)
		return simhca_why(why, EINVAL, "%zu bytes are no MAD", size);
	memcpy(&hdr, bytes, head);
	if (hdr.id >= UMAD_AGENTS)
		return simhca_why(why, EINVAL, "there is no agent %u", hdr.id);
	agent = find_agent(file, hdr.id);
	if (!agent)
		return simhca_why(why, EIO, "there is no agent %u", hdr.id);
	if (hdr.pkey_index >= SIMHCA_PKEY_ENTRIES)
		return simhca_why(why, EINVAL, "there is no P_Key %u", hdr.pkey_index);
	if (length > SIMHCA_MAD_MESSAGE)
		return simhca_why(why, EMSGSIZE, "a message has at most %u bytes",
				  SIMHCA_MAD_MESSAGE);
	/* Longer ones are RMPP's, and say so. */
	if (length > MAD_BYTES && (!umad_agent_has_rmpp(agent, bytes[head + AT_CLASS]) ||
				   !(bytes[head + AT_RMPP_FLAGS] & RMPP_ACTIVE)))
		return simhca_why(why, EINVAL, "a MAD has %u bytes, not %zu", MAD_BYTES, length);
	memcpy(mad, bytes + head, length);
	if (length < MAD_BYTES)
		memset(mad + length, 0, MAD_BYTES - length);
	return umad_send(agent, &hdr, length < MAD_BYTES ? MAD_BYTES : (uint32_t)length, why);
}

static int serve(struct umad_file *file, const struct simhca_cmd_hdr *hdr, const uint8_t *bytes,
		 size_t length, bool truncated, uint32_t *id, struct simhca_why *why)
{
	static const size_t sizes[] = {
		[SIMHCA_UMAD_ENABLE_PKEY] = 0,
		[SIMHCA_UMAD_REGISTER] = sizeof(struct ib_user_mad_reg_req),
		[SIMHCA_UMAD_REGISTER2] = sizeof(struct ib_user_mad_reg_req2),
		[SIMHCA_UMAD_UNREGISTER] = sizeof(uint32_t),
	};
	int ret = datagram_check(hdr, truncated ? 0 : length, sizeof(*hdr), EINVAL,
				 "preload library", why);

	if (ret)
		return ret;
	length -= sizeof(*hdr);
	if (file->is_issm || !hdr->command || hdr->command > SIMHCA_UMAD_UNREGISTER)
		return simhca_why(why, ENOTTY, "there is no request %u", hdr->command);
	if (hdr->command == SIMHCA_UMAD_WRITE)
		return written(file, bytes, length, why);
	if (length != sizes[hdr->command])
		return simhca_why(why, EINVAL, "request %u has %zu bytes, not %zu", hdr->command,
				  sizes[hdr->command], length);
	switch (hdr->command) {
	case SIMHCA_UMAD_ENABLE_PKEY:
		return enable_pkey(file, why);
	case SIMHCA_UMAD_REGISTER:
		return register_agent(file, bytes, id, why);
	case SIMHCA_UMAD_REGISTER2:
		return register_agent2(file, bytes, id, why);
	default:
		return unregister_agent(file, bytes, why);
	}
}

/* False: nothing is there. *over: the connection is at its end. */
static bool serve_one(struct umad_file *file, bool *over)
{
	struct umad *umad = file->port->umad;
	struct daemon *daemon = umad->daemon;
	uint32_t id = 0;
	struct iovec iov = { &umad->in, sizeof(umad->in) };
	struct datagram_answer answer = { .body = &id, .body_size = sizeof(id) };
	struct simhca_why why = { "" };
	struct sender sender;
	unsigned int num_fds;
	bool truncated;
	ssize_t length;
	int fd, ret;

	memset(&umad->in.hdr, 0, sizeof(umad->in.hdr));
	length = datagram_receive(file->fd, daemon->releaser, &file->owner, &iov, 1, &sender, &fd,
				  1, &num_fds, &truncated);
	*over = length != -EAGAIN && (length < 0 || (!length && !sender.known));
	if (length < 0 || *over)
		return false;
	ret = serve(file, &umad->in.hdr, umad->in.bytes, (size_t)length, truncated, &id, &why);
	if (ret)
		log_info("umad%u: process %d: %s", file->port->device->number, (int)sender.pid,
			 why.text);
	answers_give(&file->answers, answer_where(&umad->in.hdr), num_fds ? fd : -1, ret, &answer,
		     &why);
	attention_pay(&daemon->attention);
	return true;
}

static void serve_some(struct turn *turn, uint64_t until)
{
	struct umad_file *file = (struct umad_file *)turn;
	bool over = false;

	while (serve_one(file, &over) && simhca_now_ns() < until)
		;
	if (over)
		umad_file_close(file);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct umad_file *file = io->data;

	turns_take(&file->port->umad->daemon->turns, &file->turn);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct umad_file *file = timer->data;

	turns_take(&file->port->umad->daemon->turns, &file->time_turn);
}

/* ---------------------------------------------------------------------------------------- life */

/* Whether a port's programs are subnet managers: capabilities tell. */
static void count_managers(struct umad_port *port, bool one_more)
{
	port->managers += one_more ? 1u : -1u;
	simhca_subnet_is_sm(port->umad->subnet, port->index, port->managers);
}

void umad_file_open(struct umad_port *port, int fd, bool is_issm)
{
	struct umad *umad = port->umad;
	struct daemon *daemon = umad->daemon;
	struct owner owner = program_peer(&daemon->programs, fd);
	bool too_many = tally_get(&umad->files, owner.program) >= share_connections();
	struct umad_file *file = too_many ? NULL : calloc(1, sizeof(*file));

	if (too_many)
		log_warning("umad: the program of process %d has a quarter of all connections, and "
			    "gets no more",
			    (int)owner.process);
	if (!file || !tally_add(&umad->files, owner.program)) {
		free(file);
		datagram_close(fd, daemon->releaser, &owner);
		return;
	}
	file->turn.serve = serve_some;
	file->time_turn.serve = umad_send_serve;
	file->port = port;
	file->fd = fd;
	file->owner = owner;
	file->answers = (struct answer_set){ .answers = &daemon->answers, .owner = owner };
	file->is_issm = is_issm;
	ev_io_init(&file->io, on_readable, fd, EV_READ);
	file->io.data = file;
	ev_io_start(daemon->loop, &file->io);
	ev_timer_init(&file->timer, on_timer, 0, 0);
	file->timer.data = file;
	DL_APPEND(port->files, file);
	if (is_issm)
		count_managers(port, true);
}

void umad_file_close(struct umad_file *file)
{
	struct umad_port *port = file->port;
	struct daemon *daemon = port->umad->daemon;

	for (unsigned int i = 0; i < UMAD_AGENTS; i++)
		if (file->agents[i]) {
			umad_send_forget(file->agents[i]);
			umad_agent_free(file->agents[i]);
		}
	ev_io_stop(daemon->loop, &file->io);
	ev_timer_stop(daemon->loop, &file->timer);
	turns_leave(&daemon->turns, &file->turn);
	turns_leave(&daemon->turns, &file->time_turn);
	if (file->is_issm)
		count_managers(port, false);
	answers_forget(&file->answers);
	datagram_close(file->fd, daemon->releaser, &file->owner);
	tally_sub(&port->umad->files, file->owner.program);
	DL_DELETE(port->files, file);
	free(file);
}
