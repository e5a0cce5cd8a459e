/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a region leaves the file of the program in which it lies. */
#include <errno.h>
#include <stdlib.h>

#include "leave_file.h"
#include "loop/releaser.h"
#include "session/daemon.h"
#include "simhca-verbs.h"

#define LEAVING_S 1.0 /* that a region may wait for other chores of its session */

static void let_go_of_file(struct chore *chore)
{
	releaser_let_go(((struct leaving *)chore)->releases);
}

struct leaving *leave_file_done(const struct request *request)
{
	return request->chore && request->chore->chore.work == let_go_of_file
		       ? (struct leaving *)request->chore
		       : NULL;
}

int leave_file_begin(struct session *session, const struct request *request, uint32_t mr,
		     struct leaving **leaving, struct simhca_why *why)
{
	*leaving = NULL;
	if (!simhca_mr_lies_in_file(session->context, mr))
		return 0;
	/* Where too many wait, or it has waited for long, its file is let go of after the answer. */
	if (!session_may_start_chore(session))
		return request->age < LEAVING_S ? -EAGAIN : 0;
	*leaving = calloc(1, sizeof(**leaving));
	if (!*leaving)
		return simhca_why(why, ENOMEM, "out of memory");
	releaser_gather(session->device->daemon->releaser, &(*leaving)->releases);
	return 0;
}

int leave_file_end(struct session *session, struct request *request, struct leaving *leaving,
		   int ret)
{
	if (!leaving)
		return ret;
	releaser_gather(session->device->daemon->releaser, NULL);
	if (!leaving->releases) {
		free(leaving);
		return ret;
	}
	leaving->chore.chore.work = let_go_of_file;
	request->chore = &leaving->chore;
	return -EINPROGRESS;
}
