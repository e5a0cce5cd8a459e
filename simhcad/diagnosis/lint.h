/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What programs do that is legal and probably wrong, for `simhca explain --lint`. Objects are
 * looked at when they are destroyed, when their program ends, and, of programs that run, when
 * somebody asks. Of each kind the first one is kept, and a count; of the last programs that have
 * ended.
 */
#ifndef SIMHCAD_LINT_H
#define SIMHCAD_LINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/report.h"

struct daemon;
struct lint;
struct session;
union simhca_gid;

enum lint_kind {
	LINT_NEVER_POLLED,
	LINT_LATE_RECEIVE,
	LINT_RNR,
	LINT_REGISTRATIONS,
	LINT_CQ_SIZE,
	LINT_UNSIGNALED,
	LINT_REQUESTS_OF_MR,
	LINT_REQUESTS_OF_QP,
	LINT_RD_ATOMIC,
	LINT_OWN_PEER,
	LINT_NOT_JOINED,
	LINT_IPV6_GROUP,
	LINT_NO_FENCE,
	LINT_EARLY_INLINE,
	LINT_OVERWRITTEN,
	LINT_CHANGED,
	LINT_OTHER_PD,
	LINT_NO_SGE,
	LINT_SRQ_LIMIT,
	LINT_UNKNOWN_ACCESS,
	LINT_PATH_MTU,
	LINT_FORKED,
	LINT_THREADS,
	LINT_MEMLOCK,
	LINT_FILE_MAPPING,
	LINT_EMPTY_REGION,
	LINT_MOVED_IN_USE,
	LINT_MOVED_AND_GONE,
	LINT_STALE_MEMORY,
	LINT_UNUSED_ACCESS,
	LINT_UNUSED_QP,
	LINT_NOT_DESTROYED,
	LINT_KINDS,
};

/* All zero: none. */
struct lint_notes {
	struct lint_note {
		uint32_t count;
		char text[192]; /* of the first one */
	} of[LINT_KINDS];
};

typedef bool lint_group(const struct daemon *daemon, const union simhca_gid *mgid);
/*
 * is_joined: whether a group of InfiniBand has members; true: it is not known, or needs none. by_cm: whether an id of
 * rdma_cm has joined it. NULL: out of memory.
 */
struct lint *lint_open(lint_group *is_joined, lint_group *by_cm);
void lint_close(struct lint *lint);

/* The object of that handle, if there is one. */
typedef void lint_look(const struct session *session, uint32_t handle, struct lint_notes *notes);
lint_look lint_qp, lint_cq, lint_mr, lint_srq;
/* A QP that has come to RTR or RTS by its program's own doing. */
lint_look lint_connected;
/* A QP that was attached to a multicast group. */
void lint_attached(const struct session *session, uint32_t handle, const union simhca_gid *mgid,
		   struct lint_notes *notes);
/* Adds them to what is known of the session; without memory they are lost. */
void lint_add(struct session *session, const struct lint_notes *notes);
/* What the provider has found, by an enum simhca_say; false: that is none. */
bool lint_say(struct session *session, uint32_t what, const char *text);
/*
 * The client is gone, and its context, if there is one, still has what it had: the next of it is
 * looked at. False: all was, and what there is to say of it is kept.
 */
bool lint_end(struct lint *lint, struct session *session);

/* admin.h has the format. */
extern const struct report_kind lint_report;

#endif
