/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The subnet that InfiniBand devices of a daemon are in, as management datagrams see it: one
 * switch, device i at its port i + 1, and on the first device the subnet manager (SM) and the
 * subnet administrator (SA), unless there shall be none; then ports wait in INIT for a program that
 * is one. Data do not go by it: QPs find each other by LID and GID alone (link.h).
 *
 * It answers for what the hardware is: the management agents of devices and of the switch. All else
 * that arrives at a device is for programs there. Nothing waits and nothing is lost here.
 */
#ifndef LIBSIMHCA_MAD_SUBNET_H
#define LIBSIMHCA_MAD_SUBNET_H

#include "format.h"

#define SIMHCA_SUBNET_DEVICES 32u
/* The longest message: all paths of the largest subnet, and more. */
#define SIMHCA_MAD_MESSAGE (128u << 10)
#define SIMHCA_LID_PERMISSIVE 0xffffu

struct simhca_subnet;

struct simhca_subnet_config {
	struct simhca_device *device[SIMHCA_SUBNET_DEVICES]; /* all InfiniBand */
	unsigned int count;
	uint64_t switch_guid; /* host order */
	/* A port is as a subnet manager wants it now. */
	void (*changed)(void *arg, unsigned int device);
	void *arg;
};

/* NULL: out of memory. */
struct simhca_subnet *simhca_subnet_create(const struct simhca_subnet_config *config);
void simhca_subnet_destroy(struct simhca_subnet *subnet);
/* That programs on the device are subnet managers, as its port's capabilities say. */
void simhca_subnet_is_sm(struct simhca_subnet *subnet, unsigned int device, bool is);

/* A datagram, or a message that RMPP carries as several, which begins with the header of the first. */
struct simhca_mad {
	uint8_t *bytes; /* at least MAD_BYTES */
	uint32_t length;
	uint32_t qpn; /* 0 or 1, of both ends */
	uint16_t slid, dlid;
	uint8_t sl;
};

enum simhca_mad_fate {
	SIMHCA_MAD_LOST,     /* it does not arrive anywhere */
	SIMHCA_MAD_ANSWERED, /* mad is the answer now, and back at the device that has sent it */
	SIMHCA_MAD_ARRIVES,  /* at *to, for the programs there */
};

/*
 * Sends from a device. The bytes may change: a directed route notes how far it has come, and the
 * answer takes the place of the request, in room bytes.
 */
enum simhca_mad_fate simhca_subnet_send(struct simhca_subnet *subnet, unsigned int from,
					struct simhca_mad *mad, uint32_t room, unsigned int *to);
/* Whether a port is a member of the group, as far as this SM knows; true if there is none here. */
bool simhca_subnet_has_group(const struct simhca_subnet *subnet, const uint8_t mgid[16]);
/*
 * What has arrived, and no program of the device wants: whether it is to be answered (Get and Set
 * are), and then mad is the answer.
 */
bool simhca_subnet_refuse(struct simhca_mad *mad);

#endif
