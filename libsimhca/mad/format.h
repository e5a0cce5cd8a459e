/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What all management datagrams have in common, and where the classes of this room keep their
 * data (IBTA vol. 1, 13.4.3, 14.2.1, 15.2.1, 16.1): big endian, at fixed places.
 */
#ifndef LIBSIMHCA_MAD_FORMAT_H
#define LIBSIMHCA_MAD_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MAD_BYTES 256u
#define MAD_HEADER 24u

enum mad_class {
	MAD_CLASS_SMP = 0x01,	       /* by LID */
	MAD_CLASS_SMP_DIRECTED = 0x81, /* by a list of ports */
	MAD_CLASS_SA = 0x03,
	MAD_CLASS_PERF = 0x04,
};

enum mad_method {
	MAD_GET = 0x01,
	MAD_SET = 0x02,
	MAD_TRAP_REPRESS = 0x07,
	MAD_GET_TABLE = 0x12,
	MAD_DELETE = 0x15,
	MAD_RESPONSE = 0x80, /* bit */
};

/* Of the status: what is common to all classes, and what is the SA's. */
enum mad_status {
	MAD_OK = 0,
	MAD_BAD_VERSION = 1 << 2,
	MAD_BAD_ATTRIBUTE = 3 << 2, /* not with this method, or not at all */
	MAD_BAD_VALUE = 7 << 2,	    /* in the attribute or its modifier */
	MAD_SA_NO_RESOURCES = 0x0100,
	MAD_SA_REQ_INVALID = 0x0200,
	MAD_SA_NO_RECORDS = 0x0300,
	MAD_SA_TOO_MANY_RECORDS = 0x0400,
	MAD_SA_INSUFFICIENT_COMPONENTS = 0x0600,
	MAD_DIRECTION = 0x8000, /* of a directed-route SMP: it is on its way back */
};

/* Where: bytes from the beginning. */
enum mad_at {
	AT_BASE_VERSION = 0,
	AT_CLASS = 1,
	AT_CLASS_VERSION = 2,
	AT_METHOD = 3,
	AT_STATUS = 4,
	AT_HOP_POINTER = 6, /* directed route */
	AT_HOP_COUNT = 7,
	AT_TID = 8,
	AT_ATTRIBUTE = 16,
	AT_MODIFIER = 20,
	/* SMPs */
	AT_MKEY = 24,
	AT_DR_SLID = 32,
	AT_DR_DLID = 34,
	AT_SMP_DATA = 64, /* 64 bytes */
	AT_INITIAL_PATH = 128,
	AT_RETURN_PATH = 192,
	/* performance management */
	AT_PERF_DATA = 64, /* 192 bytes */
	/* classes with RMPP */
	AT_RMPP_VERSION = 24,
	AT_RMPP_TYPE = 25,
	AT_RMPP_FLAGS = 26,
	AT_RMPP_SEGMENT = 28,
	AT_RMPP_LENGTH = 32,
	AT_SA_OFFSET = 44, /* between records, in 8 bytes */
	AT_SA_MASK = 48,
	AT_SA_DATA = 56,
};
#define SMP_DATA_BYTES 64u
#define DR_PATH_BYTES 64u
#define RMPP_DATA 1u /* type */
enum rmpp_flags { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4 };

/* size: 1, 2, 3, 4 or 8 bytes */
static inline uint64_t mad_get(const uint8_t *bytes, unsigned int at, unsigned int size)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < size; i++)
		value = value << 8 | bytes[at + i];
	return value;
}

static inline void mad_put(uint8_t *bytes, unsigned int at, unsigned int size, uint64_t value)
{
	while (size--) {
		bytes[at + size] = (uint8_t)value;
		value >>= 8;
	}
}

static inline bool mad_is_smp(const uint8_t *mad)
{
	return mad[AT_CLASS] == MAD_CLASS_SMP || mad[AT_CLASS] == MAD_CLASS_SMP_DIRECTED;
}

/* As the kernel tells them (ib_response_mad()). */
static inline bool mad_is_response(const uint8_t *mad)
{
	return mad[AT_METHOD] & MAD_RESPONSE || mad[AT_METHOD] == MAD_TRAP_REPRESS;
}

/* Turns a request into the response to it. */
static inline void mad_answer(uint8_t *mad, uint16_t status)
{
	mad[AT_METHOD] =
		mad[AT_METHOD] == MAD_SET ? MAD_GET | MAD_RESPONSE : mad[AT_METHOD] | MAD_RESPONSE;
	if (mad[AT_CLASS] == MAD_CLASS_SMP_DIRECTED)
		status |= MAD_DIRECTION;
	mad_put(mad, AT_STATUS, 2, status);
}

#endif
