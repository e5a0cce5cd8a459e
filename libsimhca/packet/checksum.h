/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef LIBSIMHCA_CHECKSUM_H
#define LIBSIMHCA_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* The Internet checksum (RFC 1071) of the bytes, added to a sum so far, and its end. */
uint32_t simhca_checksum_add(uint32_t sum, const uint8_t *bytes, size_t length);
uint16_t simhca_checksum_end(uint32_t sum);

#endif
