/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * /dev/infiniband/umadN of the InfiniBand devices: programs that send and receive management
 * datagrams (simhca-abi-umad.h), with the rules of the kernel's user_mad and mad modules. What is
 * on the other side is libsimhca/mad/subnet.h.
 *
 *	port	a device's port: a socket for umadN, one for issmN
 *	file	an open umadN
 *	agent	what a program has registered with a file: a class and methods that it serves, and
 *		what it sends and waits for
 *	send	a request that waits for its response
 *
 * A response finds its agent by the upper half of the transaction ID, which is put there when the
 * request is sent; a request finds one by class and method. Nothing here waits.
 */
#ifndef SIMHCAD_UMAD_H
#define SIMHCAD_UMAD_H

#include <ev.h>
#include <uthash.h>

#include "loop/answers.h"
#include "loop/listener.h"
#include "mad/subnet.h"
#include "session/daemon.h"
#include "simhca-abi-umad.h"

#define UMAD_AGENTS 32		/* of a file, as in the kernel */
#define UMAD_SENDS 1024		/* of a file, that wait */
#define UMAD_PROGRAM_SENDS 4096 /* of a program */

struct umad;
struct umad_file;
struct umad_port;

struct umad_agent {
	struct umad_file *file;
	uint32_t id;	 /* of the file's */
	uint32_t number; /* of the daemon's: upper half of transaction IDs */
	uint32_t qpn;
	uint8_t class, class_version, rmpp_version;
	bool own_rmpp; /* the program does RMPP itself */
	uint32_t oui;
	uint64_t methods[2]; /* bit n: method n; none: it only sends */
	UT_hash_handle hh;
};

struct umad_send {
	struct umad_agent *agent;
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD_BYTES];
	bool is_long; /* longer than that: it is not repeated */
	uint32_t retries;
	double due; /* monotonic.h */
	struct umad_send *prev, *next;
};

struct umad_file {
	struct turn turn;      /* of what it asks */
	struct turn time_turn; /* of what is due */
	struct umad_port *port;
	int fd;
	struct owner owner;
	struct answer_set answers;
	ev_io io;
	ev_timer timer;
	bool is_issm;
	bool has_pkey_index, is_used;
	struct umad_agent *agents[UMAD_AGENTS];
	struct umad_send *sends; /* the next that is due first */
	unsigned int num_sends;
	uint64_t dropped; /* that the program did not read in time */
	struct umad_file *prev, *next;
};

struct umad_port {
	struct umad *umad;
	struct device *device;
	unsigned int index; /* in the subnet */
	struct listener mads, issm;
	struct umad_file *files;
	unsigned int managers; /* open issmN */
};

struct umad {
	struct daemon *daemon;
	struct simhca_subnet *subnet;
	struct umad_port port[OPTIONS_MAX_DEVICES];
	unsigned int num_ports;
	struct umad_agent *agents; /* by number */
	uint32_t last_agent;
	struct tally files; /* of each program */
	struct tally sends; /* likewise */
	/* What comes in, and what goes out. */
	struct {
		struct simhca_cmd_hdr hdr;
		uint8_t bytes[SIMHCA_UMAD_MAX_WRITE];
	} in;
	uint8_t mad[SIMHCA_MAD_MESSAGE];
};

/* After the devices. NULL: what is wrong was logged, or *none: no device is InfiniBand. */
struct umad *umad_open(struct daemon *daemon, bool *none);
void umad_close(struct umad *umad);

/* umad_file.c: takes the connection */
void umad_file_open(struct umad_port *port, int fd, bool is_issm);
void umad_file_close(struct umad_file *file);

/* umad_agent.c: all return 0 or -errno */
int umad_agent_register(struct umad_file *file, const struct umad_agent *wanted, uint32_t *id,
			struct simhca_why *why);
void umad_agent_free(struct umad_agent *agent);
/* For a response, or for a request; NULL: none. */
struct umad_agent *umad_agent_of_response(struct umad *umad, const struct umad_port *port,
					  const uint8_t *mad);
struct umad_agent *umad_agent_of_request(struct umad_port *port, const struct simhca_mad *mad);
/* Whether RMPP is done here for what an agent of it sends and receives of the class. */
bool umad_agent_has_rmpp(const struct umad_agent *agent, uint8_t class);

/* umad_send.c */
/* The MAD is in umad->mad, of mad_length bytes. */
int umad_send(struct umad_agent *agent, const struct ib_user_mad_hdr *hdr, uint32_t mad_length,
	      struct simhca_why *why);
void umad_send_serve(struct turn *turn, uint64_t until);
/* Of an agent that goes. */
void umad_send_forget(struct umad_agent *agent);

#endif
