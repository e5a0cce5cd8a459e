/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Destroying what is in use is refused, changes nothing, and works once the user is gone. */
#include "helper.h"

int main(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context), *other_pd = ibv_alloc_pd(context);
	struct ibv_cq *send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_cq *recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_ah_attr ah_attr = loopback(context);
	struct ibv_qp_init_attr qp_attr = { .qp_type = IBV_QPT_RC,
					    .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	static char buffer[4096];
	struct ibv_mr *mr, *null;
	struct ibv_ah *ah;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	CHECK(pd && other_pd && send_cq && recv_cq);

	null = ibv_alloc_null_mr(other_pd);
	CHECK(null);
	CHECK(!ibv_dealloc_pd(other_pd)); /* as with mlx5 */
	CHECK(!ibv_dereg_mr(null));

	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS);
	CHECK(mr);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));

	ah = ibv_create_ah(pd, &ah_attr);
	CHECK(ah);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!ibv_destroy_ah(ah));

	srq = ibv_create_srq(pd, &srq_attr);
	CHECK(srq);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);

	qp_attr.send_cq = send_cq;
	qp_attr.recv_cq = recv_cq;
	qp_attr.srq = srq;
	qp = ibv_create_qp(pd, &qp_attr);
	CHECK(qp);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_cq(send_cq) == EBUSY);
	CHECK(ibv_destroy_cq(recv_cq) == EBUSY);
	/* All of it is still good. */
	start_qp(qp, qp->qp_num);

	CHECK(!ibv_destroy_qp(qp));
	CHECK(ibv_dealloc_pd(pd) == EBUSY); /* the SRQ */
	CHECK(!ibv_destroy_srq(srq));
	CHECK(!ibv_destroy_cq(send_cq));
	CHECK(!ibv_destroy_cq(recv_cq));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
