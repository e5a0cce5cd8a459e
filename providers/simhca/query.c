/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the device says about itself, read from device memory. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lint.h"
#include "provider.h"
#include "say.h"

static void fill_orig_attr(struct ibv_device_attr *to, const struct simhca_device_attr *from)
{
	memcpy(to->fw_ver, from->fw_ver, sizeof(to->fw_ver));
	to->fw_ver[sizeof(to->fw_ver) - 1] = '\0';
	to->node_guid = from->node_guid;
	to->sys_image_guid = from->sys_image_guid;
	to->max_mr_size = from->max_mr_size;
	to->page_size_cap = from->page_size_cap;
	to->vendor_id = from->vendor_id;
	to->vendor_part_id = from->vendor_part_id;
	to->hw_ver = from->hw_ver;
	to->max_qp = (int)from->max_qp;
	to->max_qp_wr = (int)from->max_qp_wr;
	to->device_cap_flags = (unsigned int)from->device_cap_flags;
	to->max_sge = (int)from->max_sge;
	to->max_sge_rd = (int)from->max_sge_rd;
	to->max_cq = (int)from->max_cq;
	to->max_cqe = (int)from->max_cqe;
	to->max_mr = (int)from->max_mr;
	to->max_pd = (int)from->max_pd;
	to->max_qp_rd_atom = (int)from->max_qp_rd_atom;
	to->max_res_rd_atom = (int)from->max_res_rd_atom;
	to->max_qp_init_rd_atom = (int)from->max_qp_init_rd_atom;
	to->atomic_cap = (enum ibv_atomic_cap)from->atomic_cap;
	to->max_mw = (int)from->max_mw;
	to->max_mcast_grp = (int)from->max_mcast_grp;
	to->max_mcast_qp_attach = (int)from->max_mcast_qp_attach;
	to->max_total_mcast_qp_attach = (int)from->max_total_mcast_qp_attach;
	to->max_ah = (int)from->max_ah;
	to->max_srq = (int)from->max_srq;
	to->max_srq_wr = (int)from->max_srq_wr;
	to->max_srq_sge = (int)from->max_srq_sge;
	to->max_pkeys = from->max_pkeys;
	to->local_ca_ack_delay = from->local_ca_ack_delay;
	to->phys_port_cnt = from->phys_port_cnt;
}

/* What the Ethernet side can do, which an InfiniBand port does not have. */
static void fill_ethernet_caps(struct ibv_device_attr_ex *to)
{
	to->rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
	to->rss_caps.max_rwq_indirection_tables = SIMHCA_MAX_RWQ_TABLES;
	to->rss_caps.max_rwq_indirection_table_size = SIMHCA_RWQ_TABLE_ENTRIES;
	to->rss_caps.rx_hash_fields_mask = SIMHCA_HASH_ALL;
	to->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	to->max_wq_type_rq = SIMHCA_MAX_WQ;
	to->raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM;
}

/* attr_size is smaller than *attr when the caller knows an older struct, or only orig_attr. */
int shca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	const struct simhca_device_attr *from = &to_sctx(context)->dev->attr;
	struct ibv_device_attr_ex all = {};

	if (input && input->comp_mask)
		return shca_say_refusal(to_sctx(context), SIMHCA_SAY_QUERY_DEVICE, EINVAL,
					"comp_mask of ibv_query_device_ex_input is not 0");
	if (shca_is_fatal(to_sctx(context)))
		return shca_result(EIO);

	fill_orig_attr(&all.orig_attr, from);
	all.completion_timestamp_mask = from->timestamp_mask;
	all.hca_core_clock = from->hca_core_clock;
	all.device_cap_flags_ex = from->device_cap_flags;
	all.odp_caps.general_caps = from->odp_caps;
	all.odp_caps.per_transport_caps.rc_odp_caps = from->rc_odp_caps;
	all.odp_caps.per_transport_caps.uc_odp_caps = from->uc_odp_caps;
	all.odp_caps.per_transport_caps.ud_odp_caps = from->ud_odp_caps;
	all.xrc_odp_caps = from->xrc_odp_caps;
	all.phys_port_cnt_ex = from->phys_port_cnt;
	all.tm_caps = (struct ibv_tm_caps){
		.max_rndv_hdr_size = SIMHCA_MAX_RNDV_HEADER,
		.max_num_tags = SIMHCA_MAX_TAGS,
		.flags = IBV_TM_CAP_RC,
		.max_ops = SIMHCA_MAX_TM_OPS,
		.max_sge = SIMHCA_MAX_TM_SGE,
	};
	all.cq_mod_caps.max_cq_count = (uint16_t)from->max_cq_count;
	all.cq_mod_caps.max_cq_period = (uint16_t)from->max_cq_period;
	all.max_dm_size = from->max_dm_size;
	if (to_sctx(context)->dev->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		fill_ethernet_caps(&all);

	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	if (attr_size > sizeof(all))
		memset((char *)attr + sizeof(all), 0, attr_size - sizeof(all));
	return 0;
}

static int say_no_port(struct shca_context *ctx, unsigned int port_num)
{
	char text[64];

	snprintf(text, sizeof(text), "port_num = %u: this device has port 1", port_num);
	return shca_say_refusal(ctx, SIMHCA_SAY_QUERY_PORT, EINVAL, text);
}

atomic_bool shca_lint_asked_port;

int shca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	const struct simhca_devmem *dev = to_sctx(context)->dev;
	const struct simhca_port_attr *from = &dev->port;

	if (port_num < 1 || port_num > dev->attr.phys_port_cnt)
		return say_no_port(to_sctx(context), port_num);
	if (shca_is_fatal(to_sctx(context)))
		return shca_result(EIO);
	atomic_store_explicit(&shca_lint_asked_port, true, memory_order_relaxed);

	/*
	 * libibverbs has cleared *attr, which may end after port_cap_flags2: before release 49 it
	 * did. So what comes later is not written.
	 */
	attr->state = (enum ibv_port_state)atomic_load_explicit(&from->state, memory_order_relaxed);
	attr->max_mtu = (enum ibv_mtu)from->max_mtu;
	attr->active_mtu =
		(enum ibv_mtu)atomic_load_explicit(&from->active_mtu, memory_order_relaxed);
	attr->gid_tbl_len = (int)from->gid_tbl_len;
	attr->port_cap_flags = from->port_cap_flags;
	attr->max_msg_sz = from->max_msg_sz;
	attr->qkey_viol_cntr = from->qkey_viol_cntr;
	attr->pkey_tbl_len = from->pkey_tbl_len;
	attr->lid = from->lid;
	attr->sm_lid = from->sm_lid;
	attr->lmc = from->lmc;
	attr->max_vl_num = from->max_vl_num;
	attr->sm_sl = from->sm_sl;
	attr->active_width = from->active_width;
	attr->active_speed = from->active_speed;
	attr->phys_state = from->phys_state;
	attr->link_layer = from->link_layer;
	attr->flags = from->flags;
	attr->port_cap_flags2 = from->port_cap_flags2;
	return 0;
}

/* In units of 100 Mb/s: what active_width lanes of active_speed carry (IBTA vol. 1, 14.2.5.6). */
int shca_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed)
{
	/* by the bits of both codes */
	static const uint16_t lanes[] = { 1, 4, 8, 12, 2 };
	static const uint16_t lane_speed[] = { 25, 50, 100, 100, 140, 250, 500, 1000, 2000 };
	const struct simhca_devmem *dev = to_sctx(context)->dev;

	if (port_num < 1 || port_num > dev->attr.phys_port_cnt)
		return shca_result(EINVAL);
	if (shca_is_fatal(to_sctx(context)))
		return shca_result(EIO);
	*speed = (uint64_t)lanes[__builtin_ctz(dev->port.active_width)] *
		 lane_speed[__builtin_ctz(dev->port.active_speed_ex)];
	return 0;
}

/* The device's clock, as completion timestamps show it: CLOCK_MONOTONIC in hca_core_clock ticks. */
int shca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	const struct simhca_device_attr *attr = &to_sctx(context)->dev->attr;
	struct timespec now;
	unsigned __int128 ns;

	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return shca_result(EINVAL);
	if (!(values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		return errno;
	ns = (unsigned __int128)now.tv_sec * 1000000000u + (unsigned long)now.tv_nsec;
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec =
		(long)((uint64_t)(ns * attr->hca_core_clock / 1000000u) & attr->timestamp_mask);
	return 0;
}
