/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * /dev/infiniband/umadN and issmN: what the preload library and the daemon say to each other when a
 * program uses the calls of rdma/ib_user_mad.h there.
 *
 * The descriptor is a connection as that of uverbs is: datagrams with struct simhca_cmd_hdr, and
 * the socket for the answer. What comes the other way on the connection itself are MADs, each a
 * datagram as read() of the kernel's device has it: struct ib_user_mad_hdr (without its last 8
 * bytes unless ENABLE_PKEY was asked for), and the MAD, or the message that RMPP makes of several.
 * So poll() and O_NONBLOCK are the socket's, and read() nearly so.
 */
#ifndef SIMHCA_ABI_UMAD_H
#define SIMHCA_ABI_UMAD_H

#ifndef SIMHCA_ABI_H
#error "include simhca-abi.h"
#endif
#include <rdma/ib_user_mad.h>

SIMHCA_ABI_SIZE(struct ib_user_mad_hdr, 64);
SIMHCA_ABI_SIZE(struct ib_user_mad_hdr_old, 56);
SIMHCA_ABI_SIZE(struct ib_user_mad_reg_req, 28);
SIMHCA_ABI_SIZE(struct ib_user_mad_reg_req2, 40);

/* enum in simhca_cmd_hdr.command; what follows the header, and what the answer brings */
enum simhca_umad_request {
	SIMHCA_UMAD_WRITE = 1,	 /* what the program wrote; nothing */
	SIMHCA_UMAD_ENABLE_PKEY, /* nothing; nothing */
	SIMHCA_UMAD_REGISTER,	 /* struct ib_user_mad_reg_req; the agent's id, 32 bits */
	SIMHCA_UMAD_REGISTER2,	 /* struct ib_user_mad_reg_req2; likewise */
	SIMHCA_UMAD_UNREGISTER,	 /* the agent's id, 32 bits; nothing */
};

#define SIMHCA_UMAD_MAX_WRITE (sizeof(struct ib_user_mad_hdr) + (128u << 10)) /* bytes */

#endif
