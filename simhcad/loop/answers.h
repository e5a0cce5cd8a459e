/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sockets on which clients want their answers: those that come with commands, and those that
 * are kept from one command to the next (simhca-abi-cmd.h).
 *
 * They are the programs', who can hold on to what they pass: so they are not in the event loop's
 * own set, out of which it takes a descriptor only by closing it, but in one beside it.
 */
#ifndef SIMHCAD_ANSWERS_H
#define SIMHCAD_ANSWERS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/program.h"
#include "base/tally.h"
#include "datagram.h"

/* All of the daemon's. */
struct answers {
	int epoll;
	ev_io io;
	struct releaser *releaser;
	struct tally kept; /* of each program */
};

/* Those of one connection. */
struct answer_set {
	struct answers *answers;
	struct owner owner; /* who connected */
	struct kept_answer *kept;
	uint32_t last_number;
};

/* False: what is wrong was logged. */
bool answers_open(struct answers *answers, struct ev_loop *loop, struct releaser *releaser);
/* When all sets have been forgotten, or if it was not opened. */
void answers_close(struct answers *answers, struct ev_loop *loop);

/* What is no command says nothing of where its answer goes. */
static inline uint32_t answer_where(const struct simhca_cmd_hdr *hdr)
{
	return hdr->magic == SIMHCA_CMD_MAGIC ? hdr->answer : SIMHCA_CMD_ANSWER_COMES;
}

/* Whether it comes as the first descriptor. */
static inline bool answer_comes(uint32_t where)
{
	return where == SIMHCA_CMD_ANSWER_COMES || where == SIMHCA_CMD_ANSWER_KEEP;
}

/* Whether it is a slot in the memory of the connection's context. */
static inline bool answer_in_slot(uint32_t where)
{
	return !answer_comes(where) && where & SIMHCA_CMD_ANSWER_SLOT;
}

/*
 * Answers a command, see datagram_answer(). came: the socket that came with it, which is closed or
 * kept; -1: none. If there is none at all, whoever asked has no other claim to an answer.
 */
void answers_give(struct answer_set *set, uint32_t where, int came, int status,
		  const struct datagram_answer *answer, const struct simhca_why *why);

/* With the connection. */
void answers_forget(struct answer_set *set);

#endif
