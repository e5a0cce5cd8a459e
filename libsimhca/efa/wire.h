/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages of an EFA device to and from other hosts, in parcels (wire_format.h). All of it is under the
 * context's work lock, inside a guard, unless something else is said.
 *
 * The sender has a *flight* for each message, until it completes. What it sends to one QP goes by a
 * *route*: it numbers parcels, has a window of them, and knows by the answers which are lost. The receiver
 * remembers of each flow which parcels it has done, and with what status, so that none is done twice.
 */
#ifndef LIBSIMHCA_EFA_WIRE_H
#define LIBSIMHCA_EFA_WIRE_H

#include <uthash.h>

#include "ends.h"
#include "link/wire/congestion.h"
#include "link/wire/wire_impl.h"
#include "wire_format.h"

/* Numbers of a flow that may be under way: from the oldest without an answer on. */
#define EFA_WINDOW 128u
#define EFA_FLOWS 16384u	/* that a context knows: 5 MB, */
#define EFA_FLOWS_OF_HOST 8192u /* and from one host */

struct efa_flight;

struct efa_parcel {
	struct efa_flight *flight; /* NULL: it is free */
	uint32_t number, offset, length;
	uint32_t packets; /* that it takes of the route's window */
	bool waits;	  /* its receiver was not ready; it takes nothing of the window */
	bool refused;	  /* it was not, ever */
	bool lost;	  /* later ones were answered */
	unsigned int tries, passed;
	uint64_t order;			    /* in which it was sent last, of the route's */
	uint64_t first_ns, sent_ns, due_ns; /* due: it is sent again */
	uint64_t asked_ns; /* since then its receiver has been asked, and has not said to wait */
};

struct efa_flight {
	struct efa_flight *prev, *next;
	struct efa_message message;
	struct efa_route *route;
	uint32_t asked; /* bytes that parcels were made of */
	bool all;	/* parcels were made of all */
	uint32_t parcels, room;
	struct efa_parcel parcel[];
};

/*
 * Another host with which QPs of a context speak: they have routes to it, or know flows from it. What is in
 * it is read without the work lock as well.
 */
struct efa_host {
	union simhca_gid gid; /* the key */
	UT_hash_handle hh;
	_Atomic uint32_t routes, flows;
	struct efa_heard *oldest; /* heard.c: the flow that was used the longest time ago; utlist */
	_Atomic uint64_t sent, repeated, received, lost; /* packets */
};

/* From a QP to one of another host. */
struct efa_route {
	struct efa_sender to; /* the key */
	UT_hash_handle hh;
	struct efa_host *host;
	struct simhca_wire_path path;
	uint64_t flow;
	uint32_t next; /* number */
	bool restart;  /* the QP there does not know the flow any more */
	bool taken; /* it knows the flow: it has said more of a parcel than that it is no QP for it */
	uint32_t flights, parcels;
	uint32_t under_way, arrived; /* packets; arrived counts as PSNs do */
	uint64_t order, silent_at;   /* silent_at: of those sent by then one had no answer */
	uint64_t heard_ns;	     /* or when it began: */
	bool heard;
	struct simhca_congestion congestion;
	struct simhca_share share;
	struct efa_parcel *by_number[EFA_WINDOW];
	/*
	 * The oldest that its receiver was not ready for: it alone asks again. NULL: as many of those that
	 * wait may as `may_ask` says, two for each parcel that has ended.
	 */
	struct efa_parcel *asks;
	uint32_t may_ask;
	unsigned int refusals; /* since one was taken */
};

/* A flow that comes, and which of its parcels are done. */
struct efa_heard {
	struct efa_sender from; /* the key */
	UT_hash_handle hh;
	struct efa_qp *qp;
	struct efa_host *host;
	/* Those of the context, and of the host, the one that was used the longest time ago first. */
	struct efa_heard *prev, *next, *host_prev, *host_next;
	uint64_t flow, used_ns;
	uint32_t highest;
	uint8_t done[EFA_WINDOW]; /* 1 and the status; 0: it is not */
};

/* hosts.c. NULL: there is none of that GID. */
struct efa_host *efa_host_find(const struct simhca_efa *efa, const union simhca_gid *gid);
/* Makes the host if there is none of that GID; NULL: out of memory. The caller counts its route or flow. */
struct efa_host *efa_host_join(struct simhca_efa *efa, const union simhca_gid *gid);
/* Frees the host if none of its routes and flows is left. */
void efa_host_release(struct simhca_efa *efa, struct efa_host *host);
/* A packet that it has sent found no room. By any thread, without the work lock. */
void efa_host_lost(struct simhca_efa *efa, const union simhca_gid *gid);
static inline void efa_host_count(_Atomic uint64_t *counter, uint64_t packets)
{
	/* relaxed: numbers by themselves. */
	atomic_fetch_add_explicit(counter, packets, memory_order_relaxed);
}

/* flights.c. NULL: out of memory. The message is the flight's from now on. */
struct efa_flight *efa_flight_new(struct efa_qp *qp, const struct efa_message *message,
				  const union simhca_gid *gid, uint64_t now);
void efa_flight_free(struct efa_qp *qp, struct efa_flight *flight);
/* NULL: nothing goes there. */
struct efa_route *efa_route_find(struct efa_qp *qp, const struct efa_sender *to);
/* Its flights' next part is a parcel, with the next number; NULL: not now. */
struct efa_parcel *efa_parcel_new(struct efa_flight *flight, uint32_t unit, uint64_t now);
void efa_parcel_free(struct efa_parcel *parcel);
/* The receiver has receives, or may have: what waits for it may go. */
void efa_route_goes_on(struct efa_route *route);
/* So many packets more may be under way. */
bool efa_route_has_room(const struct efa_route *route, uint32_t packets);
/* The QP is reset, or goes: all that it knows of other hosts. */
void efa_wire_forget(struct efa_qp *qp);

/* The way from a QP to one of another host. */
static inline struct simhca_wire_path efa_wire_path(const struct efa_qp *qp,
						    const union simhca_gid *gid, uint32_t qpn)
{
	const union simhca_gid source = efa_own_gid(qp);

	return simhca_wire_path(qp->context->device->fabric->wire, &source, gid, 0, qp->qpn, qpn);
}

/* Bytes of a parcel in each packet. */
uint32_t efa_wire_unit(const struct simhca_device *device);
/* Sends the packets of a parcel; data NULL: it has none. */
void efa_wire_emit(struct simhca_worker *worker, struct efa_qp *qp,
		   const struct simhca_wire_path *path, uint32_t dest_qpn,
		   struct efa_wire_header *header, const uint8_t *data);

/* wire_send.c. The message is for a QP of another host. */
enum efa_outcome efa_wire_begin(struct simhca_worker *worker, struct efa_qp *qp,
				struct efa_message *message, const union simhca_gid *gid,
				uint64_t now);
/* Sends what may go, and again what is lost. True: something was done. */
bool efa_wire_serve(struct simhca_worker *worker, struct efa_qp *qp, uint64_t now);
/* An answer has come; data: of EFA_WIRE_DATA. */
void efa_wire_answered(struct simhca_worker *worker, struct efa_qp *qp,
		       const struct efa_sender *from, const struct efa_wire_header *header,
		       const uint8_t *data, uint64_t now);

/* heard.c. Whether a parcel of that flow and number is to be done: */
enum efa_number {
	EFA_NUMBER_NEW,	    /* yes; what has become of it is to be remembered in *heard */
	EFA_NUMBER_DONE,    /* it was, with *status */
	EFA_NUMBER_STALE,   /* it is of no use any more, or there is no room for its flow */
	EFA_NUMBER_UNKNOWN, /* of a flow that is not known (any more): its sender is to begin anew */
};
/*
 * Of a flow that is not known only the first EFA_WINDOW numbers are taken, as more was done by another QP, or
 * before this one was reset.
 */
enum efa_number efa_heard_judge(struct efa_qp *qp, const struct efa_sender *from,
				const struct efa_wire_header *header, uint64_t now,
				struct efa_heard **heard, enum efa_status *status);
/* All that come for the QP. */
void efa_heard_forget(struct efa_qp *qp);

/* wire_receive.c. For device->efa_take. */
bool efa_wire_take(struct simhca_device *device, const struct simhca_packet *packet,
		   const uint8_t *payload, const struct simhca_wire_datagram *datagram);
/* Takes some of what has come. True: something had. */
bool efa_wire_arrived(struct simhca_worker *worker, struct simhca_efa *efa, uint64_t now);
/* When nothing more comes: of a context. */
void efa_wire_close(struct simhca_efa *efa);

#endif
