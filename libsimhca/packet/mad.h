/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of the communication manager as management datagrams (MADs): IBTA vol. 1, chapter
 * 12.6, and annex A11 for the header of the IP CM service. 256 bytes each, big endian; the structs
 * are in host order.
 */
#ifndef LIBSIMHCA_CM_MAD_H
#define LIBSIMHCA_CM_MAD_H

#include <stddef.h>
#include <stdint.h>

#include "simhca-abi.h"

#define SIMHCA_MAD_BYTES 256

/* Attribute IDs: which message it is. */
enum simhca_cm_attribute {
	SIMHCA_CM_REQ = 0x10,
	SIMHCA_CM_MRA = 0x11,
	SIMHCA_CM_REJ = 0x12,
	SIMHCA_CM_REP = 0x13,
	SIMHCA_CM_RTU = 0x14,
	SIMHCA_CM_DREQ = 0x15,
	SIMHCA_CM_DREP = 0x16,
	SIMHCA_CM_SIDR_REQ = 0x17,
	SIMHCA_CM_SIDR_REP = 0x18,
};

/* Bytes of private data that a message has room for. */
#define SIMHCA_CM_REQ_PRIVATE 92
#define SIMHCA_CM_MRA_PRIVATE 222
#define SIMHCA_CM_REJ_PRIVATE 148
#define SIMHCA_CM_REP_PRIVATE 196
#define SIMHCA_CM_RTU_PRIVATE 224
#define SIMHCA_CM_DREQ_PRIVATE 220
#define SIMHCA_CM_DREP_PRIVATE 224
#define SIMHCA_CM_SIDR_REQ_PRIVATE 216
#define SIMHCA_CM_SIDR_REP_PRIVATE 136
#define SIMHCA_CM_ARI 72 /* additional reject information */

/* A path as a REQ describes it; "local" is the sender. */
struct simhca_cm_path_info {
	uint16_t local_lid, remote_lid;
	union simhca_gid local_gid, remote_gid;
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl, subnet_local;
	uint8_t ack_timeout; /* 4.096 us * 2^n, as are all timeouts here */
};

struct simhca_cm_req {
	uint32_t local_comm_id;
	uint32_t vendor_id; /* enhanced connection establishment; its attr_mod is the MAD's */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_cm_timeout;
	uint8_t service_type; /* 0 RC, 1 UC, 3 as ext_type says */
	uint8_t flow_control;
	uint32_t starting_psn; /* of what the receiver sends */
	uint8_t local_cm_timeout;
	uint8_t retry_count;
	uint16_t pkey;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t rdc_exists;
	uint8_t rnr_retry;
	uint8_t max_cm_retries;
	uint8_t srq;
	uint8_t ext_type; /* 1 XRC */
	struct simhca_cm_path_info primary, alternate;
	uint8_t private_data[SIMHCA_CM_REQ_PRIVATE];
};

struct simhca_cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t message; /* enum simhca_cm_message */
	uint8_t service_timeout;
	uint8_t private_data[SIMHCA_CM_MRA_PRIVATE];
};

/* Which message an MRA or REJ answers. */
enum simhca_cm_message {
	SIMHCA_CM_MESSAGE_REQ,
	SIMHCA_CM_MESSAGE_REP,
	SIMHCA_CM_MESSAGE_OTHER,
};

/* Reasons of a REJ (IBTA vol. 1, table 109), those in use. */
enum simhca_cm_reason {
	SIMHCA_CM_REJ_TIMEOUT = 4,
	SIMHCA_CM_REJ_INVALID_COMM_ID = 6,
	SIMHCA_CM_REJ_INVALID_SERVICE_ID = 8,
	SIMHCA_CM_REJ_STALE_CONNECTION = 10,
	SIMHCA_CM_REJ_CONSUMER = 28,
	SIMHCA_CM_REJ_VENDOR_OPTION = 35,
};

struct simhca_cm_rej {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t message; /* enum simhca_cm_message */
	uint8_t info_length;
	uint16_t reason; /* enum simhca_cm_reason */
	uint8_t ari[SIMHCA_CM_ARI];
	uint8_t private_data[SIMHCA_CM_REJ_PRIVATE];
};

struct simhca_cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t qkey;
	uint32_t qpn;
	uint32_t starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay, failover, flow_control;
	uint8_t rnr_retry, srq;
	uint64_t ca_guid;
	uint8_t vendor_id_h, vendor_id_m, vendor_id_l;
	uint8_t private_data[SIMHCA_CM_REP_PRIVATE];
};

struct simhca_cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[SIMHCA_CM_RTU_PRIVATE];
};

struct simhca_cm_dreq {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;
	uint8_t private_data[SIMHCA_CM_DREQ_PRIVATE];
};

struct simhca_cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[SIMHCA_CM_DREP_PRIVATE];
};

struct simhca_cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[SIMHCA_CM_SIDR_REQ_PRIVATE];
};

/* status of a SIDR_REP (IBTA vol. 1, table 121), those in use */
enum simhca_cm_sidr_status {
	SIMHCA_CM_SIDR_OK = 0,
	SIMHCA_CM_SIDR_UNSUPPORTED = 1,
	SIMHCA_CM_SIDR_REJECT = 2,
};

struct simhca_cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;
	uint8_t info_length;
	uint16_t vendor_id_h;
	uint32_t qpn;
	uint8_t vendor_id_l;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t ari[SIMHCA_CM_ARI];
	uint8_t private_data[SIMHCA_CM_SIDR_REP_PRIVATE];
};

struct simhca_cm_mad {
	uint16_t attribute; /* enum simhca_cm_attribute */
	uint64_t tid;
	uint32_t attr_mod;
	union {
		struct simhca_cm_req req;
		struct simhca_cm_mra mra;
		struct simhca_cm_rej rej;
		struct simhca_cm_rep rep;
		struct simhca_cm_rtu rtu;
		struct simhca_cm_dreq dreq;
		struct simhca_cm_drep drep;
		struct simhca_cm_sidr_req sidr_req;
		struct simhca_cm_sidr_rep sidr_rep;
	};
};

/* -EINVAL if the attribute is none of the above. What is too large for its field is cut. */
int simhca_cm_encode(const struct simhca_cm_mad *mad, uint8_t bytes[SIMHCA_MAD_BYTES]);
/* -EINVAL for everything that is not a message of the communication manager. */
int simhca_cm_decode(const uint8_t *bytes, size_t length, struct simhca_cm_mad *mad);

/*
 * The header in front of the private data of a REQ or SIDR_REQ of the IP CM service (annex A11.3).
 */
#define SIMHCA_CM_IP_BYTES 36
struct simhca_cm_ip {
	uint8_t version; /* 4 or 6; 0: the header is none of these */
	uint16_t port;	 /* of the source, host order */
	uint8_t src[16]; /* IPv4: in the last 4 bytes, the others 0 */
	uint8_t dst[16];
};
void simhca_cm_ip_encode(const struct simhca_cm_ip *ip, uint8_t bytes[SIMHCA_CM_IP_BYTES]);
void simhca_cm_ip_decode(const uint8_t bytes[SIMHCA_CM_IP_BYTES], struct simhca_cm_ip *ip);

#endif
