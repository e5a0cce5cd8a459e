/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands of Ethernet: RAW_PACKET QPs, WQs, RSS and flow steering. A sender without CAP_NET_RAW
 * over simhcad's user namespace gets EPERM for a RAW_PACKET QP and for a flow. simhca-abi-cmd.h
 * says how they are sent.
 */
#ifndef SIMHCA_ABI_CMD_ETHERNET_H
#define SIMHCA_ABI_CMD_ETHERNET_H

#ifndef SIMHCA_ABI_CMD_H
#error "include simhca-abi.h"
#endif

/*
 * CREATE_WQ: the reply is create_qp's, with a receive ring only; it counts its posts in the run
 * state's rq_pi, and completes with its own number as qpn.
 */
struct simhca_create_wq_req {
	struct simhca_user_handle user_handle;
	uint32_t pd;
	uint32_t cq;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t strip_cvlan;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_create_wq_req, 40);

/* the values of enum ibv_wq_state */
enum simhca_wq_state {
	SIMHCA_WQS_RESET = 0,
	SIMHCA_WQS_RDY = 1,
	SIMHCA_WQS_ERR = 2,
};
/* the values of enum ibv_wq_attr_mask */
enum simhca_wq_mask {
	SIMHCA_WQ_STATE = 1 << 0,
	SIMHCA_WQ_CURR_STATE = 1 << 1,
	SIMHCA_WQ_FLAGS = 1 << 2,
};
struct simhca_modify_wq_req {
	uint32_t handle;
	uint32_t mask;	      /* enum simhca_wq_mask */
	uint32_t state;	      /* enum simhca_wq_state */
	uint32_t curr_state;  /* refused unless the WQ is in this state */
	uint32_t strip_cvlan; /* with FLAGS */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_modify_wq_req, 24);
/* after the change */
struct simhca_modify_wq_reply {
	uint32_t state;
	uint32_t reserved;
};

/* CREATE_RWQ_TABLE: WQs by hash; a WQ may stand in it more than once. */
struct simhca_create_rwq_table_req {
	uint32_t log_size;
	uint32_t reserved;
	uint32_t wq[SIMHCA_RWQ_TABLE_ENTRIES]; /* handles; 2^log_size of them count */
};

/* the values of enum ibv_rx_hash_fields; what is not here is not to be had */
enum simhca_hash_fields {
	SIMHCA_HASH_SRC_IPV4 = 1 << 0,
	SIMHCA_HASH_DST_IPV4 = 1 << 1,
	SIMHCA_HASH_SRC_IPV6 = 1 << 2,
	SIMHCA_HASH_DST_IPV6 = 1 << 3,
	SIMHCA_HASH_SRC_PORT_TCP = 1 << 4,
	SIMHCA_HASH_DST_PORT_TCP = 1 << 5,
	SIMHCA_HASH_SRC_PORT_UDP = 1 << 6,
	SIMHCA_HASH_DST_PORT_UDP = 1 << 7,
	SIMHCA_HASH_ALL = (1 << 8) - 1,
};
/*
 * CREATE_RSS_QP: a RAW_PACKET QP that hands frames on to the WQs of a table, and has neither queues
 * nor CQs nor a state of its own. Answered and destroyed like another QP.
 */
struct simhca_create_rss_qp_req {
	struct simhca_user_handle user_handle;
	uint64_t hash_fields; /* enum simhca_hash_fields */
	uint32_t pd;
	uint32_t table;
	uint32_t hash_function; /* 1: Toeplitz, as IBV_RX_HASH_FUNC_TOEPLITZ */
	uint32_t key_length;	/* bytes; SIMHCA_RSS_KEY_BYTES */
	uint8_t key[SIMHCA_RSS_KEY_BYTES];
};
SIMHCA_ABI_SIZE(struct simhca_create_rss_qp_req, 80);

/* Headers that a frame has, or a flow asks for. */
enum simhca_layer {
	SIMHCA_LAYER_VLAN = 1 << 0,
	SIMHCA_LAYER_IPV4 = 1 << 1,
	SIMHCA_LAYER_IPV6 = 1 << 2,
	SIMHCA_LAYER_TCP = 1 << 3,
	SIMHCA_LAYER_UDP = 1 << 4,
};

/*
 * What a flow can look at in a frame; what the frame does not have is 0. Fields of more than a
 * byte are big endian, as in the frame and in struct ibv_flow_spec_*.
 */
struct simhca_frame_fields {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint16_t ether_type; /* behind the last VLAN tag */
	uint16_t vlan_tag;   /* of the first one */
	uint32_t src_ip;     /* IPv4 */
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t ip_flags;    /* 2: do not fragment, 4: more fragments (enum ib_ipv4_flags) */
	uint8_t src_ip6[16]; /* IPv6 */
	uint8_t dst_ip6[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved;
	uint16_t dst_port; /* TCP or UDP */
	uint16_t src_port;
	uint32_t layers; /* enum simhca_layer; host order */
};
SIMHCA_ABI_SIZE(struct simhca_frame_fields, 76);

/* the values of enum ibv_flow_attr_type */
enum simhca_flow_type {
	SIMHCA_FLOW_NORMAL = 0,
	SIMHCA_FLOW_ALL_DEFAULT = 1,
	SIMHCA_FLOW_MC_DEFAULT = 2,
	SIMHCA_FLOW_SNIFFER = 3,
};
enum simhca_flow_flags {
	SIMHCA_FLOW_DONT_TRAP = 1 << 0,
	SIMHCA_FLOW_DROP = 1 << 1,
	SIMHCA_FLOW_TAG = 1 << 2,   /* tag is valid */
	SIMHCA_FLOW_COUNT = 1 << 3, /* counters is valid */
};
/* CREATE_FLOW: frames with (fields & mask) == (value & mask) go to the QP. */
struct simhca_create_flow_req {
	uint32_t qp;
	uint32_t type; /* enum simhca_flow_type */
	uint32_t priority;
	uint32_t port;
	uint32_t flags; /* enum simhca_flow_flags */
	uint32_t tag;	/* 24 bits; comes back in the CQE */
	uint32_t counters;
	uint32_t reserved;
	struct simhca_frame_fields value;
	struct simhca_frame_fields mask;
};
SIMHCA_ABI_SIZE(struct simhca_create_flow_req, 32 + 2 * 76);

/* READ_COUNTERS: what the flows with these counters have matched. */
struct simhca_read_counters_reply {
	uint64_t packets;
	uint64_t bytes;
};

#endif
