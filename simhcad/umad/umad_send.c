/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What agents send: on its way through the subnet, to other programs, and while it waits for a response. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "umad.h"

#define LEAST_WAIT 0.001 /* seconds, whatever time-out is asked for */

static struct umad *umad_of(const struct umad_agent *agent)
{
	return agent->file->port->umad;
}

/* ------------------------------------------------------------------- to the program that reads */

/* A program that does not read loses what does not fit into its socket. */
static void post(struct umad_agent *agent, struct ib_user_mad_hdr *hdr, const uint8_t *mad,
		 uint32_t length)
{
	struct umad_file *file = agent->file;
	size_t head = file->has_pkey_index ? sizeof(*hdr) : sizeof(struct ib_user_mad_hdr_old);
	struct iovec parts[2] = { { hdr, head }, { (void *)(uintptr_t)mad, length } };
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = 2 };

	hdr->id = agent->id;
	hdr->length = (uint32_t)(head + length);
	if (sendmsg(file->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return;
	if (!file->dropped++)
		log_info("umad%u: process %d does not read its MADs, and loses some: %m",
			 file->port->device->number, (int)file->owner.process);
}

static void post_mad(struct umad_agent *agent, const struct simhca_mad *mad)
{
	struct ib_user_mad_hdr hdr = {
		.qpn = htobe32(mad->qpn),
		.lid = htobe16(mad->slid),
		.sl = mad->sl,
	};
	uint32_t length = mad->length;

	/* Who does RMPP itself sees the first of several datagrams, and would acknowledge it. */
	if (length > MAD_BYTES && !umad_agent_has_rmpp(agent, mad->bytes[AT_CLASS]))
		length = MAD_BYTES;
	post(agent, &hdr, mad->bytes, length);
}

/* --------------------------------------------------------------------------- what waits */

static void set_timer(struct umad_file *file)
{
	struct ev_loop *loop = file->port->umad->daemon->loop;
	double left;

	ev_timer_stop(loop, &file->timer);
	if (!file->sends)
		return;
	left = file->sends->due - monotonic_s();
	ev_timer_set(&file->timer, left > 0 ? left : 0, 0);
	ev_timer_start(loop, &file->timer);
}

/* Sorted; most have the time-out of the others, and come last. */
static void insert(struct umad_file *file, struct umad_send *send)
{
	struct umad_send *after = file->sends ? file->sends->prev : NULL;

	send->due = monotonic_s() + send->hdr.timeout_ms / 1e3;
	if (send->due < monotonic_s() + LEAST_WAIT)
		send->due = monotonic_s() + LEAST_WAIT;
	while (after && after->due > send->due)
		after = after == file->sends ? NULL : after->prev;
	if (after)
		DL_APPEND_ELEM(file->sends, after, send);
	else
		DL_PREPEND(file->sends, send);
}

static void forget(struct umad_send *send)
{
	struct umad_file *file = send->agent->file;

	DL_DELETE(file->sends, send);
	file->num_sends--;
	tally_sub(&file->port->umad->sends, file->owner.program);
	free(send);
}

/* By its transaction ID and class, of this agent. */
static struct umad_send *find(const struct umad_agent *agent, const uint8_t *mad)
{
	struct umad_send *send;

	DL_FOREACH (agent->file->sends, send)
		if (send->agent == agent && !memcmp(send->mad + AT_TID, mad + AT_TID, 8) &&
		    send->mad[AT_CLASS] == mad[AT_CLASS])
			return send;
	return NULL;
}

void umad_send_forget(struct umad_agent *agent)
{
	struct umad_send *send, *next;

	DL_FOREACH_SAFE (agent->file->sends, send, next)
		if (send->agent == agent)
			forget(send);
	set_timer(agent->file);
}

/* ---------------------------------------------------------------------------------- on its way */

/* A response that nobody waits for is dropped, as in the kernel. */
static void receive_response(struct umad_port *port, const struct simhca_mad *mad)
{
	struct umad_agent *agent = umad_agent_of_response(port->umad, port, mad->bytes);
	struct umad_send *send = agent ? find(agent, mad->bytes) : NULL;

	if (!send)
		return;
	forget(send);
	set_timer(agent->file);
	post_mad(agent, mad);
}

/* Through the subnet; what comes back at once is received at once. */
static void carry(struct umad_port *from, struct simhca_mad *mad)
{
	struct umad *umad = from->umad;
	struct umad_agent *agent;
	unsigned int to;

	switch (simhca_subnet_send(umad->subnet, from->index, mad, sizeof(umad->mad), &to)) {
	case SIMHCA_MAD_LOST:
		return;
	case SIMHCA_MAD_ANSWERED:
		receive_response(from, mad);
		return;
	case SIMHCA_MAD_ARRIVES:
		break;
	}
	if (mad_is_response(mad->bytes)) {
		receive_response(&umad->port[to], mad);
		return;
	}
	agent = umad_agent_of_request(&umad->port[to], mad);
	if (agent)
		post_mad(agent, mad);
	else if (simhca_subnet_refuse(mad))
		receive_response(from, mad);
}

static void carry_from(const struct umad_agent *agent, const struct ib_user_mad_hdr *hdr,
		       uint32_t length)
{
	struct umad_port *port = agent->file->port;
	const struct simhca_devmem *memory = simhca_device_memory(port->device->model);
	struct simhca_mad mad = {
		.bytes = port->umad->mad,
		.length = length,
		.qpn = agent->qpn,
		.slid = memory->port.lid,
		.dlid = be16toh(hdr->lid),
		.sl = hdr->sl & 0xf,
	};

	/* Without LIDs: the answer shall not seem to come from LID 0. */
	if (mad.bytes[AT_CLASS] == MAD_CLASS_SMP_DIRECTED && !mad.dlid)
		mad.dlid = SIMHCA_LID_PERMISSIVE;
	carry(port, &mad);
}

static int remember(struct umad_agent *agent, const struct ib_user_mad_hdr *hdr, uint32_t length,
		    struct simhca_why *why)
{
	struct umad_file *file = agent->file;
	struct umad *umad = umad_of(agent);
	struct umad_send *send;

	if (find(agent, umad->mad))
		return simhca_why(why, EINVAL,
				  "this transaction ID waits for its response already");
	if (file->num_sends >= UMAD_SENDS ||
	    tally_get(&umad->sends, file->owner.program) >= UMAD_PROGRAM_SENDS)
		return simhca_why(why, ENOMEM, "%u MADs of the file, or %u of its program, wait",
				  UMAD_SENDS, UMAD_PROGRAM_SENDS);
	send = calloc(1, sizeof(*send));
	if (!send || !tally_add(&umad->sends, file->owner.program)) {
		free(send);
		return simhca_why(why, ENOMEM, "out of memory");
	}
	send->agent = agent;
	send->hdr = *hdr;
	send->is_long = length > MAD_BYTES;
	send->retries = hdr->retries;
	memcpy(send->mad, umad->mad, MAD_BYTES);
	file->num_sends++;
	insert(file, send);
	return 0;
}

int umad_send(struct umad_agent *agent, const struct ib_user_mad_hdr *hdr, uint32_t mad_length,
	      struct simhca_why *why)
{
	uint8_t *mad = umad_of(agent)->mad;
	int ret = 0;

	if (!mad_is_response(mad)) {
		mad_put(mad, AT_TID, 4, agent->number);
		if (hdr->timeout_ms)
			ret = remember(agent, hdr, mad_length, why);
	}
	if (ret)
		return ret;
	carry_from(agent, hdr, mad_length);
	set_timer(agent->file);
	return 0;
}

/* Again, or the program is told that there is no response. */
static void fall_due(struct umad_file *file, struct umad_send *send)
{
	struct umad_agent *agent = send->agent;

	if (send->retries && !send->is_long) {
		struct ib_user_mad_hdr hdr = send->hdr;

		send->retries--;
		DL_DELETE(file->sends, send);
		insert(file, send);
		memcpy(umad_of(agent)->mad, send->mad, MAD_BYTES);
		/* Its response may free it. */
		carry_from(agent, &hdr, MAD_BYTES);
		return;
	}
	send->hdr.status = ETIMEDOUT;
	post(agent, &send->hdr, send->mad, MAD_HEADER);
	forget(send);
}

void umad_send_serve(struct turn *turn, uint64_t until)
{
	struct umad_file *file =
		(struct umad_file *)((char *)turn - offsetof(struct umad_file, time_turn));

	while (file->sends && file->sends->due <= monotonic_s()) {
		fall_due(file, file->sends);
		if (simhca_now_ns() >= until)
			break;
	}
	set_timer(file);
}
