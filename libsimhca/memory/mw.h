/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows. */
#ifndef LIBSIMHCA_MW_H
#define LIBSIMHCA_MW_H

#include "key.h"

/* A BIND_MW. *again: the old key is void, but accesses by it are under way: to be asked again. */
enum simhca_reason simhca_bind_mw(const struct simhca_key_use *use,
				  const struct simhca_send_wqe *wqe, bool *again);

/* Windows of type 2 that are bound to the QP are free again. By control functions, when no step is
 * under way in the QP's responder. */
void simhca_free_windows_of(struct simhca_context *context, uint32_t qpn);

/* Under the window's lock. */
void simhca_mw_unbind(struct simhca_key *window);

#endif
