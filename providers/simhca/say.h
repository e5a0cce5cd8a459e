/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the device cannot see by itself, for `simhca explain` and `simhca status`. */
#ifndef SHCA_PROVIDER_SAY_H
#define SHCA_PROVIDER_SAY_H

#include "provider.h"

/* The name of the program, for a device that does not see the process. */
void shca_say_name(struct shca_context *ctx);
/*
 * A post is refused with that error: the first few times of a context it is told, as it costs a
 * command. Without locks. EIO is not: the device is gone.
 */
void shca_say_send(struct shca_qp *qp, const struct ibv_send_wr *wr, int err);
/*
 * What that command has made cannot be mapped, and does not exist any more: EMFILE. Nothing is said
 * of other errors.
 */
void shca_say_no_descriptor(struct shca_context *ctx, enum simhca_cmd command, int err);
/* Of posts by ibv_wr_*(), of which wr_complete() tells. */
void shca_say_batch(struct shca_qp *qp, const struct shca_wr_wrong *first, int err);
void shca_say_recv(struct shca_context *ctx, enum simhca_say what, const struct shca_qp *qp,
		   const struct ibv_recv_wr *wr, const struct shca_rq *rq, int err);

/*
 * What is still used is not destroyed (EBUSY): text says by what. Returns EBUSY, as the verb does.
 */
int shca_say_busy(struct shca_context *ctx, enum simhca_say what, const char *text);
/* A QP's creation is refused, with this error; text says why. */
void shca_say_create_qp(struct shca_context *ctx, int err, enum ibv_qp_type type, const char *text);
/*
 * Likewise another verb, the first few times of a context, as programs ask for what there may not be.
 * Returns err, as the verb does.
 */
int shca_say_refusal(struct shca_context *ctx, enum simhca_say what, int err, const char *text);
/* Likewise one that the device has a command for; or NULL, of those that make something. */
int shca_say_command(struct shca_context *ctx, enum simhca_cmd command, int err, const char *text);
void *shca_say_not_made(struct shca_context *ctx, enum simhca_cmd command, int err,
			const char *text);
/* The context could not be opened for want of descriptors, which takes only this one to tell. */
void shca_say_not_opened(int cmd_fd);
/* The program has closed the doorbell's descriptor, which it did not know: the device is to ring it. */
void shca_say_no_doorbell(struct shca_context *ctx);
/* The kernel refuses the memory of a peer; of a context once. */
void shca_say_not_attached(struct shca_context *ctx, int err);
/*
 * A verb waits for events to be acknowledged, as text says; or, with the same text, it waits no
 * more. Without locks.
 */
void shca_say_waits(struct shca_context *ctx, const char *text);
void shca_say_waits_no_more(struct shca_context *ctx, const char *text);
/* A CQ is polled for no completions, though it holds one. Without locks. */
void shca_say_polls_none(struct shca_cq *cq, int num_entries);
/* What lint has found: that much of a context is told, as with refused posts. */
void shca_say_lint(struct shca_context *ctx, enum simhca_say what, const char *text);

#endif
