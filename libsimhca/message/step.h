/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A step of a requester in the program that posts (simhca-abi-fastpath.h): RC and UC SEND and
 * RDMA WRITE, READ and atomics, and UD SEND, to a peer on the same device, whole messages at a
 * time. It stands alone: no lock, no log, nothing of the device but what both share.
 */
#ifndef LIBSIMHCA_STEP_H
#define LIBSIMHCA_STEP_H

#include <stdbool.h>
#include <sys/types.h>

#include "simhca-abi.h"
#include "simhca-spin.h"
#include "queue/srq_claim.h"
#include "queue/writers.h"
#include "queue/cqe_reservation.h"

/* A completion channel that the program may write into. */
struct simhca_notify {
	int fd; /* of a socket; -1: the device raises the events */
	uint64_t record;
};

/*
 * Regions that lie in files, as the program has them mapped (MAP_REGION). Those of its own are here as well:
 * where else it has mapped them nobody tells.
 */
#define SIMHCA_STEP_REGIONS 16u
struct simhca_step_regions {
	uint32_t count;
	bool may_fail; /* a page of one of them may be missing, which is a signal (dma/bus_error.h) */
	struct {
		uint32_t file; /* struct simhca_mpt's */
		char *base;    /* where the region's first byte is */
	} one[SIMHCA_STEP_REGIONS];
	/* This one is to be mapped: a step could not go on without it, or took longer; key 0: there is none. */
	struct {
		uint32_t key;
		bool own;
	} wanted;
};

struct simhca_step {
	const struct simhca_devmem *device;
	const struct simhca_qpc *qpc;
	struct simhca_qp_mem *mem;
	const char *sq;
	uint32_t sq_entries, sq_stride;
	struct simhca_cq_view send_cq;
	struct simhca_notify send_notify;
	struct simhca_fastpath *fastpath;
	uint32_t fastpath_epoch, mm; /* as the device said when the peer was attached */
	/* Of which messages the time is taken. */
	struct {
		uint32_t until; /* messages until the next one */
		uint32_t times, random;
	} sample;
	struct simhca_spin spin;	     /* for an owner word that the device holds */
	struct simhca_writing writing;	     /* to its own memory */
	struct simhca_step_regions *regions; /* NULL: what lies in files is the device's to reach */
	/* Reads since the program has polled or done something else; if the peer takes too few. */
	struct {
		uint32_t count;
		uint32_t ci;	   /* how far the send CQ was polled */
		uint64_t ended_ns; /* when the last one was done */
		uint64_t most_ns;  /* as long as one takes on hardware */
	} reads;

	struct {
		const struct simhca_qpc *qpc;
		struct simhca_qp_mem *mem;
		char *rq; /* its own, or that of its SRQ */
		uint32_t rq_entries, rq_stride, rq_max_sge, rq_pd;
		bool data_may_stay;	       /* of receives, until it polls */
		struct simhca_srq_mem *claims; /* the queue's, if it is claimed from; or NULL */
		uint32_t claimant;	       /* the peer's number in that; on UD the QP's */
		bool is_srq;
		struct simhca_cq_view recv_cq;
		struct simhca_notify recv_notify;
		uint32_t fastpath_epoch, mm;
		struct simhca_writing writing; /* to its memory */
		int memory, pagemap;	       /* its /proc/PID/mem and pagemap */
		pid_t pid;
		struct simhca_av av; /* UD: by which it is reached */
		uint32_t qpn;
	} peer;
};

#define SIMHCA_STEP_READ_NS 20000u

/*
 * Carries what the SQ holds. True: all of it, and nobody need be told. False: the doorbell is to be
 * rung, for messages that are left, or for what is due otherwise.
 */
bool simhca_step(struct simhca_step *step);

/*
 * The same for a UD QP, which has a step for each of those that it is attached to; at least one.
 * *unknown: the SQ's WQE that is for somebody else, or NULL.
 */
bool simhca_step_datagrams(struct simhca_step *const to[], uint32_t count,
			   const struct simhca_send_wqe **unknown);

#endif
