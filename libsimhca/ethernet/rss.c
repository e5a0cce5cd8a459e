/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Receive side scaling: QPs that choose a WQ of a table by a hash of the frame's headers. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "ethernet.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "proto/qp.h"

#define MAX_INPUT 36u /* bytes: two IPv6 addresses and two ports */

/* Of at most MAX_INPUT bytes; the Toeplitz hash of Microsoft's RSS specification. */
static uint32_t toeplitz(const uint8_t key[SIMHCA_RSS_KEY_BYTES], const uint8_t *input,
			 size_t length)
{
	/* The 32 bits of the key that lie over the current bit of the input, and those behind. */
	uint64_t window = 0;
	uint32_t hash = 0;

	for (int i = 0; i < 8; i++)
		window = window << 8 | key[i];
	for (size_t i = 0; i < length; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (input[i] >> bit & 1)
				hash ^= (uint32_t)(window >> 32);
			window <<= 1;
		}
		window |= i + 8 < SIMHCA_RSS_KEY_BYTES ? key[i + 8] : 0;
	}
	return hash;
}

uint32_t simhca_rss_hash(const struct simhca_rss *rss, const struct simhca_frame *frame)
{
	const struct simhca_frame_fields *fields = &frame->fields;
	/* In the order of the hash's input. */
	const struct {
		uint32_t hash, layer;
		const void *field;
		size_t size;
	} parts[] = {
		{ SIMHCA_HASH_SRC_IPV4, SIMHCA_LAYER_IPV4, &fields->src_ip, 4 },
		{ SIMHCA_HASH_DST_IPV4, SIMHCA_LAYER_IPV4, &fields->dst_ip, 4 },
		{ SIMHCA_HASH_SRC_IPV6, SIMHCA_LAYER_IPV6, fields->src_ip6, 16 },
		{ SIMHCA_HASH_DST_IPV6, SIMHCA_LAYER_IPV6, fields->dst_ip6, 16 },
		{ SIMHCA_HASH_SRC_PORT_TCP, SIMHCA_LAYER_TCP, &fields->src_port, 2 },
		{ SIMHCA_HASH_DST_PORT_TCP, SIMHCA_LAYER_TCP, &fields->dst_port, 2 },
		{ SIMHCA_HASH_SRC_PORT_UDP, SIMHCA_LAYER_UDP, &fields->src_port, 2 },
		{ SIMHCA_HASH_DST_PORT_UDP, SIMHCA_LAYER_UDP, &fields->dst_port, 2 },
	};
	uint8_t input[MAX_INPUT];
	size_t length = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!(rss->hash_fields & parts[i].hash) || !(fields->layers & parts[i].layer))
			continue;
		memcpy(input + length, parts[i].field, parts[i].size);
		length += parts[i].size;
	}
	return toeplitz(rss->key, input, length);
}

struct simhca_qp *simhca_rss_wq(const struct simhca_rss *rss, const struct simhca_frame *frame)
{
	return rss->table->wq[simhca_rss_hash(rss, frame) & (rss->table->entries - 1)];
}

/* -------------------------------------------------------------------- indirection tables */

int simhca_create_rwq_table(struct simhca_context *context,
			    const struct simhca_create_rwq_table_req *req,
			    struct simhca_handle *reply, struct simhca_why *why)
{
	struct simhca_rwq_table *table;
	int ret;

	if (req->log_size >= 32 || 1u << req->log_size > SIMHCA_RWQ_TABLE_ENTRIES)
		return simhca_why(why, EINVAL, "log_ind_tbl_size = %u: at most %u entries",
				  req->log_size, SIMHCA_RWQ_TABLE_ENTRIES);
	table = calloc(1, sizeof(*table));
	if (!table)
		return simhca_why(why, ENOMEM, "out of memory");
	table->entries = 1u << req->log_size;
	for (uint32_t i = 0; i < table->entries; i++) {
		table->wq[i] = simhca_object(context, SIMHCA_OBJ_WQ, req->wq[i], why);
		if (!table->wq[i]) {
			free(table);
			return -ENOENT;
		}
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_RWQ_TABLE, table, &reply->handle, why);
	if (ret) {
		free(table);
		return ret;
	}
	for (uint32_t i = 0; i < table->entries; i++)
		table->wq[i]->users++;
	return 0;
}

int simhca_destroy_rwq_table(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why)
{
	struct simhca_rwq_table *table = simhca_object(context, SIMHCA_OBJ_RWQ_TABLE, handle, why);

	if (!table)
		return -ENOENT;
	if (table->users)
		return simhca_why(why, EBUSY, "this indirection table is still used by %u QP%s",
				  table->users, table->users == 1 ? "" : "s");
	for (uint32_t i = 0; i < table->entries; i++)
		table->wq[i]->users--;
	simhca_object_remove(context, SIMHCA_OBJ_RWQ_TABLE, handle);
	free(table);
	return 0;
}

/* --------------------------------------------------------------------------------- QPs */

/* The hash of an RSS QP; errnos as mlx5's create_rss_raw_qp_tir(). */
static int check_rx_hash_conf(const struct simhca_create_rss_qp_req *req,
			      const struct simhca_rwq_table *table, struct simhca_why *why)
{
	const uint32_t ipv4 = SIMHCA_HASH_SRC_IPV4 | SIMHCA_HASH_DST_IPV4;
	const uint32_t ipv6 = SIMHCA_HASH_SRC_IPV6 | SIMHCA_HASH_DST_IPV6;
	const uint32_t tcp = SIMHCA_HASH_SRC_PORT_TCP | SIMHCA_HASH_DST_PORT_TCP;
	const uint32_t udp = SIMHCA_HASH_SRC_PORT_UDP | SIMHCA_HASH_DST_PORT_UDP;

	if (req->hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return simhca_why(why, EOPNOTSUPP, "rx_hash_function 0x%x: only Toeplitz",
				  req->hash_function);
	if (req->hash_fields & ~(uint64_t)SIMHCA_HASH_ALL)
		return simhca_why(why, EOPNOTSUPP, "rx_hash_fields_mask 0x%llx: 0x%x is supported",
				  (unsigned long long)req->hash_fields, SIMHCA_HASH_ALL);
	if (req->key_length != SIMHCA_RSS_KEY_BYTES)
		return simhca_why(why, EINVAL, "rx_hash_key_len = %u: must be %u bytes",
				  req->key_length, SIMHCA_RSS_KEY_BYTES);
	if (!req->hash_fields && table->entries > 1)
		return simhca_why(
			why, EINVAL,
			"rx_hash_fields_mask is 0, and the table has %u WQs: only the first "
			"would get frames",
			table->entries);
	if ((req->hash_fields & ipv4) && (req->hash_fields & ipv6))
		return simhca_why(why, EINVAL, "rx_hash_fields_mask: IPv4 or IPv6, not both");
	if ((req->hash_fields & tcp) && (req->hash_fields & udp))
		return simhca_why(why, EINVAL, "rx_hash_fields_mask: TCP or UDP, not both");
	return 0;
}

int simhca_create_rss_qp(struct simhca_context *context, const struct simhca_create_rss_qp_req *req,
			 struct simhca_create_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_rwq_table *table = NULL;
	struct simhca_qp *qp;
	int ret;

	if (pd)
		table = simhca_object(context, SIMHCA_OBJ_RWQ_TABLE, req->table, why);
	if (!table)
		return -ENOENT;
	ret = check_rx_hash_conf(req, table, why);
	if (ret)
		return ret;
	qp = simhca_qp_alloc(context, SIMHCA_QPT_RAW_PACKET, pd, req->user_handle);
	if (qp)
		qp->ethernet.rss = calloc(1, sizeof(*qp->ethernet.rss));
	if (!qp || !qp->ethernet.rss) {
		simhca_qp_free(qp);
		return simhca_why(why, ENOMEM, "out of memory");
	}
	qp->ethernet.rss->table = table;
	qp->also_used = &table->users;
	qp->ethernet.rss->hash_fields = (uint32_t)req->hash_fields;
	memcpy(qp->ethernet.rss->key, req->key, sizeof(qp->ethernet.rss->key));
	return simhca_qp_add(qp, SIMHCA_OBJ_QP, &(struct simhca_create_qp_req){ 0 }, reply, why);
}
