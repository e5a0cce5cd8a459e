/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "nl_talk.h"
#include "base/privilege.h"

void nl_talk_begin(struct nl_talk *talk, int length, bool too_long, const struct nl_asker *asker)
{
	talk->message = (struct nlmsghdr *)talk->bytes;
	talk->left = length;
	talk->too_long = too_long;
	talk->asker = *asker;
	talk->step = NL_NEW;
}

static void next_message(struct nl_talk *talk)
{
	/* Padding after the last message may be missing: then this is below 0. */
	talk->message = nlmsg_next(talk->message, &talk->left);
	talk->step = NL_NEW;
}

/* A message of at most NLDEV_ANSWER_BYTES, with a header. NULL: no memory. */
static struct nl_msg *start(const struct nl_talk *talk, int type, int flags)
{
	struct nl_msg *msg = nlmsg_alloc_size(NLDEV_ANSWER_BYTES);

	if (msg && nlmsg_put(msg, talk->asker.port, talk->message->nlmsg_seq, type, 0, flags))
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/*
 * NLMSG_ERROR: an errno, or 0 for an acknowledgement. Of the question only the header comes back,
 * as with NETLINK_CAP_ACK, which clients ask their socket for.
 */
static struct nl_msg *say_error(const struct nl_talk *talk, int error)
{
	struct nl_msg *msg = start(talk, NLMSG_ERROR, NLM_F_CAPPED);
	struct nlmsgerr body = { .error = error, .msg = *talk->message };

	if (msg && !nlmsg_append(msg, &body, sizeof(body), NLMSG_ALIGNTO))
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/* The end of a list, or what is wrong with it. */
static struct nl_msg *say_done(const struct nl_talk *talk, int error)
{
	struct nl_msg *msg = start(talk, NLMSG_DONE, NLM_F_MULTI);

	if (msg && !nlmsg_append(msg, &error, sizeof(error), NLMSG_ALIGNTO))
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/* 0, or the errno that a kernel has for this message whatever its contents. */
static int look_up(struct nl_talk *talk)
{
	const struct nlmsghdr *message = talk->message;

	/* Other clients than nldev (path records, iWARP) have nobody here to talk to. */
	if (RDMA_NL_GET_CLIENT(message->nlmsg_type) != RDMA_NL_NLDEV)
		return -EINVAL;
	talk->command = nldev_find(RDMA_NL_GET_OP(message->nlmsg_type));
	if (!talk->command)
		return -EINVAL;
	if (talk->command->admin && !privilege_net_admin(talk->asker.pid, talk->asker.uid))
		return -EPERM;
	if (message->nlmsg_flags & NLM_F_DUMP)
		return talk->command->part ? 0 : -EINVAL;
	return 0;
}

/* One answer, or one part. What the command says goes into *ret. NULL: no memory. */
static struct nl_msg *ask(struct nl_talk *talk, const struct daemon *daemon, int *ret)
{
	bool list = talk->step == NL_LIST;
	struct nldev_query query = { .daemon = daemon, .asker = &talk->asker };
	struct nl_msg *msg = start(talk, talk->message->nlmsg_type, list ? NLM_F_MULTI : 0);

	if (!msg)
		return NULL;
	*ret = nldev_parse(talk->message, query.attr);
	if (!*ret)
		*ret = list ? talk->command->part(&query, &talk->cursor, msg)
			    : talk->command->answer(&query, msg);
	return msg;
}

static struct nl_msg *go_on_with_list(struct nl_talk *talk, const struct daemon *daemon)
{
	int ret;
	struct nl_msg *msg = ask(talk, daemon, &ret), *done;

	if (!msg || ret > 0)
		return msg;
	nlmsg_free(msg);
	done = say_done(talk, ret);
	next_message(talk);
	return done;
}

static struct nl_msg *answer(struct nl_talk *talk, const struct daemon *daemon)
{
	bool wants_ack = talk->message->nlmsg_flags & NLM_F_ACK;
	int ret;
	struct nl_msg *msg = ask(talk, daemon, &ret);

	if (msg && ret) {
		nlmsg_free(msg);
		msg = say_error(talk, ret);
		wants_ack = false;
	}
	if (wants_ack)
		talk->step = NL_ACK;
	else
		next_message(talk);
	return msg;
}

static struct nl_msg *acknowledge(struct nl_talk *talk)
{
	struct nl_msg *msg = say_error(talk, 0);

	next_message(talk);
	return msg;
}

/* A datagram longer than any question is not looked at: to its first message, this. */
static struct nl_msg *say_too_long(struct nl_talk *talk)
{
	struct nl_msg *msg = say_error(talk, -EMSGSIZE);

	talk->left = 0;
	return msg;
}

/* No question: it is acknowledged if it wants to be, and that is all. */
static bool is_question(const struct nlmsghdr *message)
{
	return message->nlmsg_flags & NLM_F_REQUEST && message->nlmsg_type >= NLMSG_MIN_TYPE;
}

static struct nl_msg *begin(struct nl_talk *talk, const struct daemon *daemon)
{
	struct nl_msg *msg;
	int ret;

	if (talk->too_long)
		return say_too_long(talk);
	if (!is_question(talk->message))
		return acknowledge(talk);
	ret = look_up(talk);
	if (ret) {
		msg = say_error(talk, ret);
		next_message(talk);
		return msg;
	}
	if (!(talk->message->nlmsg_flags & NLM_F_DUMP))
		return answer(talk, daemon);
	talk->step = NL_LIST;
	talk->cursor = (struct nldev_cursor){ 0 };
	return go_on_with_list(talk, daemon);
}

static struct nl_msg *go_on(struct nl_talk *talk, const struct daemon *daemon)
{
	switch (talk->step) {
	case NL_LIST:
		return go_on_with_list(talk, daemon);
	case NL_ACK:
		return acknowledge(talk);
	default:
		return begin(talk, daemon);
	}
}

struct nl_msg *nl_talk_next(struct nl_talk *talk, const struct daemon *daemon, bool *failed)
{
	struct nl_msg *msg;

	*failed = false;
	/* What makes no sense by itself leaves nothing that could be found after it. */
	while (talk->left > 0 && nlmsg_ok(talk->message, talk->left)) {
		if (!is_question(talk->message) && !(talk->message->nlmsg_flags & NLM_F_ACK)) {
			next_message(talk);
			continue;
		}
		msg = go_on(talk, daemon);
		*failed = !msg;
		return msg;
	}
	talk->left = 0;
	return NULL;
}
