/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the fuzzer says to a daemon is a list of steps, each a header of four bytes and what goes
 * with it. A list that ends within a step ends before it.
 */
#ifndef FUZZ_STEPS_H
#define FUZZ_STEPS_H

#include <stddef.h>
#include <stdint.h>

enum step_kind {
	STEP_COMMAND, /* of uverbs: its number (16 bits), then its request */
	STEP_RDMA_CM, /* what a program writes to rdma_cm */
	STEP_NETLINK, /* a datagram */
	STEP_CONTROL, /* a datagram */
	STEP_MAD,     /* to the communication manager: an attribute, then what follows the header */
	STEP_MEMORY,  /* written to the context's memory: struct memory_step */
	STEP_CLOSE,   /* the connection of the kind that the first byte says */
	STEP_RAW,     /* a datagram to uverbs or, flag STEP_OTHER_FILE, rdma_cm, as it is */
	STEP_UMAD,    /* a request to umad: its number, then what goes with it */
	STEP_KINDS
};

enum step_flags {
	STEP_SECOND = 1 << 0,	  /* by the second of two connections */
	STEP_FDS = 3 << 1,	  /* descriptors that go along */
	STEP_FD_KIND = 3 << 3,	  /* which: memfd, pipe, socket, directory */
	STEP_NO_ANSWER = 1 << 5,  /* no socket for the answer */
	STEP_REPLY = 1 << 6,	  /* MAD: it answers what the manager has sent last */
	STEP_SEALED = 1 << 6,	  /* COMMAND, RAW: a memfd cannot shrink, so programs may map it */
	STEP_OTHER_FILE = 1 << 7, /* STEP_RAW; COMMAND: of the second device */
};

struct step {
	uint8_t kind, flags;
	uint16_t length; /* little endian, of what follows */
};

#define STEP_BYTES 640 /* at most; longer than any command */
#define STEPS 48       /* of one input */

/* Where in the memory of the context: what the last command has answered says where that is. */
enum memory_place {
	PLACE_CONTEXT,
	PLACE_QP,
	PLACE_SEND_RING,
	PLACE_RECEIVE_RING,
	PLACE_CQ,
	PLACES
};
struct memory_step {
	uint8_t place;
	uint8_t ring; /* the doorbell of the last QP, afterwards */
	uint16_t offset;
};

/*
 * A word of 32 bits with this value stands for what the daemon has answered last, so that inputs
 * can name what no fuzzer guesses.
 */
enum magic {
	MAGIC_QPN = 0x5eed0000,
	MAGIC_LKEY,
	MAGIC_RKEY,
	MAGIC_CHANNEL, /* inode of a completion channel */
	MAGIC_LAST,
	MAGIC_HANDLE = 0x5eed0100, /* and a command's number: the handle that it gave */
};

/* The memory of the process in whose name commands are sent; below AddressSanitizer's own. */
#define CLIENT_MEMORY 0x10000000u
#define CLIENT_BYTES (1u << 20)
/* That rdma_cm's listeners are bound to. */
#define FUZZ_PORT 7000

#endif
