/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink: one client's questions and what is said to them, without the socket.
 *
 * A datagram has one or more messages. Each is answered before the next one is looked at, in one
 * or more datagrams, as a kernel does:
 *
 *	a question		the answer; and with NLM_F_ACK an NLMSG_ERROR with error 0
 *	with NLM_F_DUMP		parts of a list (NLM_F_MULTI), and NLMSG_DONE with 0 or an errno
 *	what is wrong		NLMSG_ERROR with the errno and the question's header
 *	what is no message	nothing
 */
#ifndef SIMHCAD_NL_TALK_H
#define SIMHCAD_NL_TALK_H

#include "nldev.h"

#define NL_TALK_BYTES 4096 /* of a client's datagram; no question comes near it */

enum nl_step { NL_NEW, NL_LIST, NL_ACK };

struct nl_talk {
	/* The datagram, and what is left of it from the message under way on. */
	_Alignas(struct nlmsghdr) unsigned char bytes[NL_TALK_BYTES];
	struct nlmsghdr *message;
	int left;
	bool too_long; /* there was more of it */
	struct nl_asker asker;
	enum nl_step step; /* of that message */
	const struct nldev_command *command;
	struct nldev_cursor cursor;
};

/* A datagram is in bytes. The last one must have been answered. */
void nl_talk_begin(struct nl_talk *talk, int length, bool too_long, const struct nl_asker *asker);

/*
 * The next datagram of answers, the caller's to free. NULL: all is said, or (*failed) there is no
 * memory to say it.
 */
struct nl_msg *nl_talk_next(struct nl_talk *talk, const struct daemon *daemon, bool *failed);

/* Whether there may be more to say. */
static inline bool nl_talk_under_way(const struct nl_talk *talk)
{
	return talk->left > 0;
}

#endif
