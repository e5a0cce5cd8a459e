/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Why nobody answers. */
#ifndef LIBSIMHCA_SILENCE_H
#define LIBSIMHCA_SILENCE_H

struct simhca_packet;
struct simhca_qp;

/*
 * A line about a connected QP that nobody will answer. When it is in RTR: if no port has
 * its peer's address; all else may still come. When nothing came in time: why, once.
 */
void simhca_silence_connected(const struct simhca_qp *qp);
void simhca_silence_unanswered(struct simhca_qp *qp);
/* A message of an unreliable service, of which its sender learns nothing: nobody takes it. */
void simhca_silence_lost(const struct simhca_qp *qp, const struct simhca_packet *packet);

#endif
