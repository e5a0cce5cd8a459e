/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Fast registration: a region of a list of pages, by a work request. */
#ifndef LIBSIMHCA_FAST_REG_H
#define LIBSIMHCA_FAST_REG_H

#include "key.h"

/* A FAST_REG of a QP of that context. *elsewhere: nothing is done, that engine must read the page
 * list. */
enum simhca_reason simhca_fast_reg(const struct simhca_key_use *use, uint32_t context_id,
				   const struct simhca_send_wqe *wqe,
				   struct simhca_engine **elsewhere);

#endif
