/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands for drivers of real hardware, which know only the kernel's interface. The preload
 * library passes on what they ask the kernel for. simhca-abi-cmd.h says how they are sent.
 */
#ifndef SIMHCA_ABI_CMD_UVERBS_H
#define SIMHCA_ABI_CMD_UVERBS_H

#ifndef SIMHCA_ABI_CMD_H
#error "include simhca-abi.h"
#endif

/*
 * UVERBS_WRITE: a write command, with the structs of <rdma/ib_user_verbs.h>; what the driver and
 * its device exchange beside them (<rdma/efa-abi.h>) follows each of them. GET_CONTEXT is the first
 * one on a connection, and takes the place of OPEN_CONTEXT. CREATE_CQ with a completion channel
 * brings the program's end of it along.
 */
#define SIMHCA_UVERBS_BYTES 320u
/*
 * Methods of drivers, which are no write commands: an object and a method of its, by their numbers.
 */
#define SIMHCA_UVERBS_METHOD(object, method) (0x40000000u | (object) << 16 | (method))
#define SIMHCA_UVERBS_EFA_QUERY_MR SIMHCA_UVERBS_METHOD(7u, 0x1000u) /* UVERBS_OBJECT_MR */
enum simhca_uverbs_part { SIMHCA_UVERBS_CORE, SIMHCA_UVERBS_DRIVER, SIMHCA_UVERBS_PARTS };
struct simhca_uverbs_write_req {
	uint32_t command; /* as the kernel numbers them, IB_USER_VERBS_CMD_FLAG_EXTENDED included */
	uint16_t in[SIMHCA_UVERBS_PARTS];  /* bytes of each part, one after the other in data */
	uint16_t out[SIMHCA_UVERBS_PARTS]; /* bytes that the driver has room for */
	uint32_t reserved;
	uint8_t data[SIMHCA_UVERBS_BYTES];
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_write_req, 336);
struct simhca_uverbs_write_reply {
	uint16_t out[SIMHCA_UVERBS_PARTS]; /* bytes in data; what is wanted beyond them is 0 */
	/* offset in data of the 4 bytes for the descriptor that the answer brings; 0xffff: none */
	uint16_t fd_at;
	uint16_t reserved;
	uint8_t data[SIMHCA_UVERBS_BYTES];
};
#define SIMHCA_UVERBS_NO_FD 0xffffu
SIMHCA_ABI_SIZE(struct simhca_uverbs_write_reply, 328);

/*
 * UVERBS_MAP: what mmap() of the device at this offset, which an answer has named, is to map. One
 * descriptor in the reply.
 */
struct simhca_uverbs_map_req {
	uint64_t key;	 /* the offset */
	uint64_t length; /* bytes */
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_map_req, 16);
struct simhca_uverbs_map_reply {
	uint64_t offset;   /* in the descriptor's file; whole pages */
	uint32_t doorbell; /* 1: UVERBS_WATCH is to follow, once it is mapped */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_map_reply, 16);

/*
 * UVERBS_WATCH: where a page of doorbells was mapped. The descriptor that comes along is a
 * userfaultfd of the sender's: while nobody rings, the device has the page write-protected, and
 * hears of the first store. Without one it looks again and again.
 */
struct simhca_uverbs_watch_req {
	uint64_t key;	  /* as it was given to UVERBS_MAP */
	uint64_t address; /* in the sender's memory */
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_watch_req, 16);

#endif
