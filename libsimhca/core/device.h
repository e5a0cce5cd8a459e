/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Devices: the tables that engines find everything in, and the port. */
#ifndef LIBSIMHCA_DEVICE_H
#define LIBSIMHCA_DEVICE_H

#include "fabric.h"
#include "gids.h"
#include "handles.h"
#include "objects.h"
#include "qp_log.h"

struct simhca_context;
struct simhca_flow;
struct simhca_gone;
struct simhca_key;
struct simhca_mcast_group;

#define SIMHCA_MCAST_BUCKETS 1024u
struct efa_qp;
struct simhca_packet;
struct simhca_wire_datagram;
struct simhca_qp;
struct simhca_srq;
struct simhca_stats_block;
struct simhca_xrcd;

struct simhca_device {
	struct simhca_fabric *fabric;
	struct simhca_device *_Atomic next;
	struct simhca_device_config config;
	struct simhca_log_share log_share; /* of XRC targets */
	int memory_fd;
	struct simhca_devmem *mem;
	struct simhca_gids gids;
	struct simhca_qpc *qpcs;	  /* in device memory */
	struct simhca_mpt *mpts;	  /* in device memory */
	struct simhca_key *_Atomic *keys; /* by key index: what an mpt cannot say */
	struct simhca_qp *_Atomic *qps;	  /* by QPN slot */
	struct efa_qp *_Atomic
		*efa_qps; /* by QPN - 1, config.max_qp of them; NULL: no EFA device */
	uint32_t next_efa_qp;
	/* The path MTU of the wire, enum ibv_mtu; programs see EFA's own on a device of its kind. */
	_Atomic uint32_t wire_mtu;
	/*
	 * Takes what comes by the wire for an EFA QP. Inside the wire's lock; false: nobody wants it.
	 * NULL: no context of the device was opened yet.
	 */
	bool (*_Atomic efa_take)(struct simhca_device *device, const struct simhca_packet *packet,
				 const uint8_t *payload,
				 const struct simhca_wire_datagram *datagram);
	struct simhca_srq *_Atomic *srqs; /* XRC SRQs by SRQN slot */
	struct simhca_numbers qpns, srqns, pdns, cqns, xrcdns;
	uint32_t next_key_index;
	struct simhca_gone *gone; /* keys that were */
	/* Objects, by type; some types are counted as others (objects.c). */
	uint32_t alive[SIMHCA_OBJ_TYPES];
	struct simhca_xrcd *xrcds; /* control functions only */
	uint64_t dm_used;	   /* bytes of on-chip memory */
	uint32_t file_mrs;
	uint64_t file_mr_bytes;
	struct simhca_context *contexts;
	pthread_rwlock_t mcast_lock;
	struct simhca_mcast_group *groups[SIMHCA_MCAST_BUCKETS]; /* by a hash of the GID */
	uint64_t group_hash[2]; /* random, as clients choose the GIDs */
	uint32_t group_count;
	struct simhca_stats_block *stats; /* SIMHCA_STATS_BLOCKS */
	uint32_t next_fastpath_epoch;	  /* as a QPC has it */
	simhca_gmp_handler *gmp;	  /* takes what comes in at QP 1 */
	void *gmp_arg;
	pthread_rwlock_t flow_lock;
	struct simhca_flow *flows;	/* in the order in which they are asked (flow.c) */
	_Atomic uint64_t odp_count[16]; /* by enum simhca_odp_count (odp.h) */
};

/* Its end, in two steps: no engine is on the way from it to another device; then it is freed. */
void simhca_device_unlink(struct simhca_device *device);
void simhca_device_free(struct simhca_device *device);

/* What it has on InfiniBand; 0: none yet. For engines. */
static inline uint16_t simhca_device_lid(const struct simhca_device *device)
{
	return __atomic_load_n(&device->mem->port.lid, __ATOMIC_RELAXED);
}

/* A GID table entry; false if there is none or it is empty. Any thread, without a lock. */
bool simhca_device_gid(struct simhca_device *device, uint32_t index, union simhca_gid *gid);

#endif
