/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stddef.h>

#include "port_counters.h"

#define NONE SIMHCA_STATS
static const struct port_counter counters[] = {
	{ "counters/VL15_dropped", NONE, NONE, 1 },
	{ "counters/excessive_buffer_overrun_errors", NONE, NONE, 1 },
	{ "counters/link_downed", SIMHCA_STAT_LINK_DOWNED, NONE, 1 },
	{ "counters/link_error_recovery", NONE, NONE, 1 },
	{ "counters/local_link_integrity_errors", NONE, NONE, 1 },
	{ "counters/multicast_rcv_packets", SIMHCA_STAT_RCV_MULTICAST, NONE, 1 },
	{ "counters/multicast_xmit_packets", SIMHCA_STAT_XMIT_MULTICAST, NONE, 1 },
	{ "counters/port_rcv_constraint_errors", NONE, NONE, 1 },
	{ "counters/port_rcv_data", SIMHCA_STAT_RCV_BYTES, NONE, 4 },
	{ "counters/port_rcv_errors", NONE, NONE, 1 },
	{ "counters/port_rcv_packets", SIMHCA_STAT_RCV_PACKETS, NONE, 1 },
	{ "counters/port_rcv_remote_physical_errors", NONE, NONE, 1 },
	{ "counters/port_rcv_switch_relay_errors", NONE, NONE, 1 },
	{ "counters/port_xmit_constraint_errors", NONE, NONE, 1 },
	{ "counters/port_xmit_data", SIMHCA_STAT_XMIT_BYTES, NONE, 4 },
	{ "counters/port_xmit_discards", SIMHCA_STAT_XMIT_DISCARDS, NONE, 1 },
	{ "counters/port_xmit_packets", SIMHCA_STAT_XMIT_PACKETS, NONE, 1 },
	{ "counters/port_xmit_wait", NONE, NONE, 1 },
	{ "counters/symbol_error", NONE, NONE, 1 },
	{ "counters/unicast_rcv_packets", SIMHCA_STAT_RCV_PACKETS, SIMHCA_STAT_RCV_MULTICAST, 1 },
	{ "counters/unicast_xmit_packets", SIMHCA_STAT_XMIT_PACKETS, SIMHCA_STAT_XMIT_MULTICAST,
	  1 },
	{ "hw_counters/duplicate_request", SIMHCA_STAT_DUPLICATE_REQUEST, NONE, 1 },
	{ "hw_counters/local_ack_timeout_err", SIMHCA_STAT_LOCAL_ACK_TIMEOUT, NONE, 1 },
	{ "hw_counters/roce_adp_retrans", SIMHCA_STAT_ADP_RETRANS, NONE, 1 },
	{ "hw_counters/np_ecn_marked_roce_packets", SIMHCA_STAT_ECN_MARKED, NONE, 1 },
	{ "hw_counters/np_cnp_sent", SIMHCA_STAT_CNP_SENT, NONE, 1 },
	{ "hw_counters/rp_cnp_handled", SIMHCA_STAT_CNP_HANDLED, NONE, 1 },
	{ "hw_counters/out_of_buffer", SIMHCA_STAT_OUT_OF_BUFFER, NONE, 1 },
	{ "hw_counters/out_of_sequence", SIMHCA_STAT_OUT_OF_SEQUENCE, NONE, 1 },
	{ "hw_counters/packet_seq_err", SIMHCA_STAT_PACKET_SEQ_ERR, NONE, 1 },
	{ "hw_counters/req_cqe_error", SIMHCA_STAT_REQ_CQE_ERROR, NONE, 1 },
	{ "hw_counters/req_cqe_flush_error", SIMHCA_STAT_REQ_CQE_FLUSH, NONE, 1 },
	{ "hw_counters/req_remote_access_errors", SIMHCA_STAT_REQ_REMOTE_ACCESS, NONE, 1 },
	{ "hw_counters/req_remote_invalid_request", SIMHCA_STAT_REQ_REMOTE_INVALID, NONE, 1 },
	{ "hw_counters/resp_cqe_error", SIMHCA_STAT_RESP_CQE_ERROR, NONE, 1 },
	{ "hw_counters/resp_cqe_flush_error", SIMHCA_STAT_RESP_CQE_FLUSH, NONE, 1 },
	{ "hw_counters/resp_local_length_error", SIMHCA_STAT_RESP_LOCAL_LENGTH, NONE, 1 },
	{ "hw_counters/resp_remote_access_errors", SIMHCA_STAT_RESP_REMOTE_ACCESS, NONE, 1 },
	{ "hw_counters/rnr_nak_retry_err", SIMHCA_STAT_RNR_NAK_RETRY, NONE, 1 },
	{ "hw_counters/rx_atomic_requests", SIMHCA_STAT_RX_ATOMIC, NONE, 1 },
	{ "hw_counters/rx_read_requests", SIMHCA_STAT_RX_READ, NONE, 1 },
	{ "hw_counters/rx_write_requests", SIMHCA_STAT_RX_WRITE, NONE, 1 },
};

const struct port_counter *port_counter(unsigned int index)
{
	return index < sizeof(counters) / sizeof(counters[0]) ? &counters[index] : NULL;
}

uint64_t port_counter_value(const struct port_counter *counter, const uint64_t stats[SIMHCA_STATS])
{
	uint64_t value = counter->stat == NONE ? 0 : stats[counter->stat];

	/* What it is less by is read later, and may have grown meanwhile. */
	if (counter->less != NONE)
		value -= stats[counter->less] < value ? stats[counter->less] : value;
	return value / counter->unit;
}
