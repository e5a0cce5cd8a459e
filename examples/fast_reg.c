/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fast registration in one process: two QPs that are connected to each other. One side gives a key
 * to two pages that are not neighbours, the other reads them as one range, and then the key is
 * taken back. storage_server.c is a server that does this for each request.
 *
 *	simhca run -- fast_reg
 */
#include <errno.h>
#include <infiniband/simhcadv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, IOVA = 0x100000 };

static uint8_t memory[4 * PAGE] __attribute__((aligned(4096)));
static char result[2 * PAGE];

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fast_reg: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* From RESET to RTS, with a peer on the same port. */
static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .port_num = 1, .is_global = 1, .grh.hop_limit = 1 },
	};
	struct ibv_port_attr port;

	check(!ibv_query_port(qp->context, 1, &port), "ibv_query_port");
	check(!ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	attr.ah_attr.dlid = port.lid;
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "to RTS");
}

static enum ibv_wc_status completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc.status;
}

static enum ibv_wc_status read_by(struct ibv_qp *qp, struct ibv_mr *into, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)result, sizeof(result), into->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = IOVA, .rkey = rkey },
	}, *bad;

	check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	return completion(qp->send_cq);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_context *context;
	struct ibv_qp *asking, *owning;
	struct ibv_mr *into, *region;
	struct simhcadv_page_list *list;
	struct ibv_pd *pd;

	if (!devices || !devices[0] || !simhcadv_is_supported(devices[0])) {
		fprintf(stderr, "fast_reg: no device; start it as simhca run -- fast_reg\n");
		return 1;
	}
	check((context = ibv_open_device(devices[0])) != NULL, "ibv_open_device");
	check((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
	init.send_cq = init.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	check(init.send_cq != NULL, "ibv_create_cq");
	check((asking = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
	check((owning = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
	connect_qp(asking, owning);
	connect_qp(owning, asking);
	into = ibv_reg_mr(pd, result, sizeof(result), IBV_ACCESS_LOCAL_WRITE);
	check(into != NULL, "ibv_reg_mr");

	/* Once: a region that has a key and no memory yet, and room for a list of pages. */
	check((region = simhcadv_alloc_mr(pd, 2)) != NULL, "simhcadv_alloc_mr");
	check((list = simhcadv_alloc_page_list(context, 2)) != NULL, "simhcadv_alloc_page_list");

	for (int turn = 0; turn < 3; turn++) {
		struct simhcadv_fast_reg_wr reg = {
			.send_flags = IBV_SEND_SIGNALED,
			.fast_reg = { .iova_start = IOVA, .page_list = list, .page_list_len = 2,
				      .page_shift = 12, .length = 2 * PAGE,
				      .access = IBV_ACCESS_REMOTE_READ },
		}, *bad_reg;
		struct ibv_send_wr inv = { .opcode = IBV_WR_LOCAL_INV,
					   .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		snprintf((char *)memory + 3 * PAGE, PAGE, "turn %d", turn);
		list->page_list[0] = (uintptr_t)memory + 3 * PAGE;
		list->page_list[1] = (uintptr_t)memory + PAGE;
		/* A key that a peer has kept from the last turn shall not fit. */
		check(!simhcadv_update_key(region, (uint8_t)turn), "simhcadv_update_key");
		reg.fast_reg.rkey = inv.invalidate_rkey = region->rkey;
		check(!simhcadv_post_fast_reg(owning, &reg, &bad_reg), "simhcadv_post_fast_reg");
		check(!completion(owning->send_cq), "the registration");
		check(!read_by(asking, into, region->rkey), "the read");
		printf("read \"%s\" by key %#x\n", result, region->rkey);
		check(!ibv_post_send(owning, &inv, &bad), "ibv_post_send");
		check(!completion(owning->send_cq), "the invalidation");
	}
	printf("and once more: %s\n", ibv_wc_status_str(read_by(asking, into, region->rkey)));
	return 0; /* what is open goes with the process */
}
