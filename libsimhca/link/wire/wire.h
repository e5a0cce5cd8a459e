/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The wire link: RoCE v2 to addresses that no device of the fabric has. Who owns the fabric has the
 * sockets: the link gives it datagrams to send, and it hands in those that come.
 */
#ifndef LIBSIMHCA_WIRE_H
#define LIBSIMHCA_WIRE_H

#include "simhca-device.h"
#include "link/wire/bth.h"
#include "link/wire/icrc.h"

#define SIMHCA_WIRE_PAYLOAD_MOST 4096u /* of a packet */

struct simhca_worker;

/* Datagrams one behind the other, each of `segment` bytes but the last, which can be shorter. */
struct simhca_wire_run {
	struct simhca_wire_path path; /* ip_id is the first one's; each further one has one more */
	uint8_t traffic_class;
	const uint8_t *bytes;
	size_t length; /* of all of them */
	size_t segment;
};

struct simhca_wire_ops {
	/*
	 * Sends these from path.source, at path.source_port, to path.destination, at port
	 * SIMHCA_WIRE_PORT, or loses them; does not wait. By any thread. False: runs of several are not taken here, and will
	 * not be given from now on; these are lost. What is lost because the host refuses it is
	 * told by simhca_wire_unsent().
	 */
	bool (*send)(void *arg, const struct simhca_wire_run *runs, unsigned int count);
	/*
	 * The port of that address that a flow is sent from, by a number that all its packets have
	 * (flow.h). By any thread. NULL: all are sent from SIMHCA_WIRE_PORT.
	 */
	uint16_t (*source_port)(void *arg, const union simhca_gid *source, uint32_t flow);
	/* Management datagrams wait for simhca_wire_gmps(). By whoever hands in. */
	void (*gmps)(void *arg);
	/* Hands in what waits at the sockets. By engines, under no lock. NULL: nothing does. */
	void (*poll)(void *arg);
	/*
	 * A device has got members of a multicast group, or has none any more: what is sent to the
	 * group on the device's network is to be handed in. By the control thread. NULL: it is not.
	 */
	void (*group)(void *arg, const struct simhca_device *device, const union simhca_gid *gid,
		      bool member);
	void *arg;
	/* A FLUSH has the ICRC that Linux's rxe gives it, or the right one; we send rxe's. */
	bool rxe_flush;
	/* For tests: also what is for a device of the fabric is sent. */
	bool always;
};

/* Once, before there is a device with a wire. 0 or -ENOMEM. */
int simhca_wire_open(struct simhca_fabric *fabric, const struct simhca_wire_ops *ops);

/*
 * Memory to receive a run of datagrams into. The payloads of its packets can stay in it until they are
 * delivered, so that each is copied once.
 */
#define SIMHCA_WIRE_BUFFER_BYTES 65536u
struct simhca_wire_buffer;
/* NULL: out of memory. By any thread, before simhca_fabric_destroy(). */
struct simhca_wire_buffer *simhca_wire_buffer_get(struct simhca_fabric *fabric);
/* SIMHCA_WIRE_BUFFER_BYTES of them. */
uint8_t *simhca_wire_buffer_bytes(struct simhca_wire_buffer *buffer);
/* Whether packets of it wait, or have: it is to be put back, and received into no more. */
bool simhca_wire_buffer_is_held(const struct simhca_wire_buffer *buffer);
void simhca_wire_buffer_put(struct simhca_wire_buffer *buffer);

/* An attempt to send to that address has failed with this errno. By any thread. */
void simhca_wire_unsent(struct simhca_fabric *fabric, const union simhca_gid *to, int error);
/* The errno of the last attempt to send there that failed within the last `ns`; 0: none has. */
int simhca_wire_send_error(struct simhca_fabric *fabric, const union simhca_gid *to, uint64_t ns);

/* What came, and how. */
struct simhca_wire_datagram {
	struct simhca_wire_path path; /* to us; ip_id is found out */
	uint8_t traffic_class, hop_limit;
	const uint8_t *bytes; /* UDP's payload */
	size_t length;
	/* They are in this one, which one thread hands in from; NULL: what is to be kept is copied. */
	struct simhca_wire_buffer *buffer;
};
/* By any thread, after open; not by ops. */
void simhca_wire_receive(struct simhca_fabric *fabric, struct simhca_wire_datagram *datagram);

/* Hands the management datagrams that wait to their devices' handlers. By the control thread. */
void simhca_wire_gmps(struct simhca_fabric *fabric);

/* What has become of the datagrams that came. */
struct simhca_wire_counts {
	uint64_t taken;
	uint64_t refused[SIMHCA_WIRE_FAULTS]; /* by what was wrong with them */
	uint64_t unclaimed; /* for no QP, or from a stranger to it; or there was no room */
};
void simhca_wire_counts(const struct simhca_fabric *fabric, struct simhca_wire_counts *counts);

/* What a connected QP has exchanged with its peer, in packets, and where that is. */
struct simhca_wire_traffic {
	union simhca_gid peer;
	uint64_t sent, repeated; /* of those sent, requests that had gone before */
	uint64_t received;
	uint64_t lost;	 /* came, and there was no room */
	uint32_t window; /* PSNs that may be under way */
	bool hole;	 /* packets of the path MTU vanish (path_hole.h) */
};
/* By the handle of a context's QP. False: there is none, or its peer is not on the wire. */
bool simhca_wire_traffic(struct simhca_context *context, uint32_t handle,
			 struct simhca_wire_traffic *traffic);

/* ------------------------------------------------------------------- for the model itself */

/* Sends a MAD to QP 1 of an address elsewhere; false: it is not elsewhere. */
bool simhca_wire_send_gmp(struct simhca_device *device, const struct simhca_av *av,
			  const union simhca_gid *sgid, const void *mad);
/*
 * A packet whose payload is in two parts, of memory of ours; it leaves when the step ends, or, by a thread
 * that is in none, at once.
 */
struct simhca_wire_parts {
	const void *head, *rest;
	uint32_t head_bytes, rest_bytes; /* SIMHCA_WIRE_PAYLOAD_MOST in all */
};
void simhca_wire_put_parts(struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_wire_path *path, uint8_t traffic_class,
			   const struct simhca_packet *packet,
			   const struct simhca_wire_parts *parts);
void simhca_wire_send_parts(struct simhca_device *device, const struct simhca_wire_path *path,
			    uint8_t traffic_class, const struct simhca_packet *packet,
			    const struct simhca_wire_parts *parts);
/* Nothing that comes in is on its way any more to what was unlinked before; if there is a wire. */
void simhca_wire_synchronize(struct simhca_fabric *fabric);
void simhca_wire_free(struct simhca_fabric *fabric);

#endif
