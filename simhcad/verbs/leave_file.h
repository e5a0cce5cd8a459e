/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How a region leaves the file of the program in which it lies: the file is let go of before the
 * answer. With whoever still has it mapped its huge pages are not free, and it cannot be sealed
 * against writing.
 */
#ifndef SIMHCAD_LEAVE_FILE_H
#define SIMHCAD_LEAVE_FILE_H

#include "session/session.h"

struct leaving {
	struct command_chore chore; /* first */
	struct chore *releases;
	struct simhca_reg_mr_reply reply; /* of a region that was registered anew */
};

/* What the command has waited for. NULL: nothing, or a look at its sender. */
struct leaving *leave_file_done(const struct request *request);
/* Before the region changes. 0 and NULL: it lies in no file, or nobody waits for that. Or -errno. */
int leave_file_begin(struct session *session, const struct request *request, uint32_t mr,
		     struct leaving **leaving, struct simhca_why *why);
/*
 * After that, with what it begun, and the change's result, which is returned if there is nothing to
 * let go of. -EINPROGRESS: there is, and the request is served again.
 */
int leave_file_end(struct session *session, struct request *request, struct leaving *leaving,
		   int ret);

#endif
