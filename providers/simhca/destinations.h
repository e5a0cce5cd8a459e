/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Those to whom a UD QP sends, and is attached; under the SQ's lock. */
#ifndef SIMHCA_PROVIDER_DESTINATIONS_H
#define SIMHCA_PROVIDER_DESTINATIONS_H

#include "provider.h"

/* The QP may send from now on, and is attached to nobody. */
void shca_destinations_begin(struct shca_qp *qp);
void shca_destinations_end(struct shca_qp *qp);
/* As shca_fastpath_run(). */
bool shca_destinations_run(struct shca_qp *qp);

#endif
