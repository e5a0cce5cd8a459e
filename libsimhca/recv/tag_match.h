/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tag matching: messages find buffers by their tags. */
#ifndef LIBSIMHCA_TAG_MATCH_H
#define LIBSIMHCA_TAG_MATCH_H

#include "proto/recv_source.h"

extern const struct simhca_srq_kind simhca_tag_srqs;

#endif
