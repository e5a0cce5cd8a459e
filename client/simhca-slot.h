/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Waiting for an answer that the daemon puts into memory (struct simhca_answer_slot). It takes no
 * descriptor, and no system call if the daemon answers within some microseconds.
 */
#ifndef SIMHCA_SLOT_H
#define SIMHCA_SLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "simhca-abi.h"

/* Before the command is sent. */
void simhca_slot_begin(struct simhca_answer_slot *slot);
/* Instead of waiting: it was not sent. */
void simhca_slot_end(struct simhca_answer_slot *slot);
/* Whether an answer may still come, so that the slot cannot be used for another. */
bool simhca_slot_is_pending(const struct simhca_answer_slot *slot);
/*
 * 0, or why no answer will come: ENOTCONN, the connection has ended; EBADF, device_fd is not that
 * connection any more (simhca_connection(); 0: that is not known).
 */
int simhca_slot_wait(struct simhca_answer_slot *slot, int device_fd, uint64_t connection);
/* Of the body what there is room for. 0, or EPROTO: it is no answer. */
int simhca_slot_read(const struct simhca_answer_slot *slot, struct simhca_reply_hdr *hdr,
		     void *body, size_t room, size_t *size);

#endif
