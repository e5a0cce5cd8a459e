/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A verb that needs no descriptor on hardware may need one here for a moment, as memory comes from the
 * device by descriptor. So each context has one to spare, which is closed for that moment by a
 * program that has no other left.
 *
 * Programs close descriptors that they do not know (closefrom()), and the number may then be that of a
 * file of theirs. So it is closed only if it is still the duplicate that was made here.
 *
 * Its lock is held for as long as the device takes to answer: who waits for it yields meanwhile.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "command.h"

static bool is_ours(const struct shca_context *ctx)
{
	struct stat device, spare;

	return ctx->spare_fd >= 0 && !fstat(ctx->vctx.context.cmd_fd, &device) &&
	       !fstat(ctx->spare_fd, &spare) && device.st_ino == spare.st_ino &&
	       device.st_dev == spare.st_dev;
}

void shca_spare_keep(struct shca_context *ctx)
{
	ctx->spare_fd = fcntl(ctx->vctx.context.cmd_fd, F_DUPFD_CLOEXEC, 0);
}

bool shca_spare_lend(struct shca_context *ctx)
{
	shca_lock(&ctx->spare_lock);
	if (is_ours(ctx)) {
		simhca_call_close(ctx->spare_fd);
		return true;
	}
	shca_unlock(&ctx->spare_lock);
	return false;
}

void shca_spare_take_back(struct shca_context *ctx)
{
	shca_spare_keep(ctx);
	shca_unlock(&ctx->spare_lock);
}

void shca_spare_free(struct shca_context *ctx)
{
	if (is_ours(ctx))
		simhca_call_close(ctx->spare_fd);
}
