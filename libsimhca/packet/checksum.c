/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "checksum.h"

uint32_t simhca_checksum_add(uint32_t sum, const uint8_t *bytes, size_t length)
{
	uint64_t wide = sum;

	for (; length > 1; bytes += 2, length -= 2)
		wide += (uint64_t)bytes[0] << 8 | bytes[1];
	if (length)
		wide += (uint64_t)bytes[0] << 8;
	while (wide >> 32)
		wide = (wide & 0xffffffff) + (wide >> 32);
	return (uint32_t)wide;
}

uint16_t simhca_checksum_end(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}
