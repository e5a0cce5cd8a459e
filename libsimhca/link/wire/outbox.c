/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "link/wire/outbox.h"

/* What the kernel takes in one call: so many datagrams, and with their headers 64 KiB. */
#define RUN_DATAGRAMS 64
#define RUN_BYTES 65000u

uint8_t *simhca_outbox_room(struct simhca_outbox *outbox, size_t bytes, unsigned int datagrams)
{
	if (bytes > SIMHCA_OUTBOX_BYTES - outbox->used ||
	    datagrams > SIMHCA_OUTBOX_RUNS - outbox->runs)
		return NULL;
	return outbox->bytes + outbox->used;
}

static bool continues(const struct simhca_outbox *outbox, const struct simhca_wire_path *path,
		      uint8_t traffic_class, size_t length)
{
	const struct simhca_wire_run *run;

	if (!outbox->runs || outbox->complete || outbox->in_run == RUN_DATAGRAMS)
		return false;
	run = &outbox->run[outbox->runs - 1];
	return length <= run->segment && run->length + length <= RUN_BYTES &&
	       run->traffic_class == traffic_class && run->path.source_port == path->source_port &&
	       !memcmp(&run->path.source, &path->source, sizeof(path->source)) &&
	       !memcmp(&run->path.destination, &path->destination, sizeof(path->destination));
}

uint16_t simhca_outbox_add(struct simhca_outbox *outbox, const struct simhca_wire_path *path,
			   uint8_t traffic_class, size_t length, bool alone)
{
	struct simhca_wire_run *run;

	if (alone || !continues(outbox, path, traffic_class, length)) {
		run = &outbox->run[outbox->runs++];
		*run = (struct simhca_wire_run){ .path = *path,
						 .traffic_class = traffic_class,
						 .bytes = outbox->bytes + outbox->used,
						 .segment = length };
		run->path.ip_id = 0;
		outbox->in_run = 0;
		outbox->complete = alone;
	}
	run = &outbox->run[outbox->runs - 1];
	outbox->complete |= length < run->segment;
	run->length += length;
	outbox->used += length;
	return (uint16_t)outbox->in_run++;
}

void simhca_outbox_empty(struct simhca_outbox *outbox)
{
	outbox->ack.waits = false;
	outbox->used = 0;
	outbox->runs = 0;
}
