/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Numbers in headers, which have their highest byte first, at any address. */
#ifndef LIBSIMHCA_BYTES_H
#define LIBSIMHCA_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void simhca_put16(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static inline void simhca_put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	simhca_put16(at + 1, value);
}

/* These two return where the next one begins. */
static inline uint8_t *simhca_put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, 4);
	return at + 4;
}

static inline uint8_t *simhca_put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, 8);
	return at + 8;
}

static inline uint16_t simhca_get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t simhca_get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | simhca_get16(at + 1);
}

static inline uint32_t simhca_get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return be32toh(value);
}

static inline uint64_t simhca_get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return be64toh(value);
}

#endif
