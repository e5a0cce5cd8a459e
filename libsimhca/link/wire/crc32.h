/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * CRC-32 as Ethernet and RoCE have it. It is libdeflate's, which since 1.20 uses all that an x86 has
 * (VPCLMULQDQ); of an older one, such as Debian 12's, a long piece is folded here, in half the time.
 */
#ifndef LIBSIMHCA_CRC32_H
#define LIBSIMHCA_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* That of bytes behind those whose CRC is `crc`, which is 0 at the beginning. */
uint32_t simhca_crc32(uint32_t crc, const uint8_t *bytes, size_t length);

#endif
