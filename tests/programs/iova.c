/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A region with an iova of its own: both keys name its bytes by iova. */
#include "helper.h"

#define LENGTH 8192u
#define IOVA 0x123456789000u

static _Alignas(65536) char source[LENGTH], target[LENGTH];

static struct ibv_wc transfer(struct ibv_qp *qp, struct ibv_cq *cq, uint64_t from, uint32_t lkey,
			      uint64_t to, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { .addr = from, .length = length, .lkey = lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = to, .rkey = rkey } };

	CHECK(!post_send(qp, &wr));
	return poll_one(cq);
}

int main(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *source_mr, *target_mr;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	CHECK(pd && cq);
	for (unsigned int i = 0; i < LENGTH; i++)
		source[i] = (char)(i * 7 + i / 256);
	source_mr = ibv_reg_mr_iova(pd, source, LENGTH, IOVA, FULL_ACCESS);
	target_mr = ibv_reg_mr_iova(pd, target + 3, LENGTH - 3, IOVA + 3, FULL_ACCESS);
	CHECK(source_mr && target_mr);
	errno = 0;
	CHECK(!ibv_reg_mr_iova(pd, target, LENGTH + 65536, UINT64_MAX - 65535, FULL_ACCESS));
	CHECK(errno == EINVAL);
	/* The kernel has it so for all NICs, whatever the access. */
	errno = 0;
	CHECK(!ibv_reg_mr_iova(pd, target, LENGTH, IOVA + 3, FULL_ACCESS) && errno == EINVAL);
	errno = 0;
	CHECK(!ibv_reg_mr_iova(pd, target + 3, 64, IOVA, FULL_ACCESS) && errno == EINVAL);

	qp = make_qp(pd, cq, IBV_QPT_RC);
	start_qp(qp, qp->qp_num);
	wc = transfer(qp, cq, IOVA + 100, source_mr->lkey, IOVA + 3 + 50, target_mr->rkey, 5000);
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(!memcmp(target + 53, source + 100, 5000));
	for (unsigned int i = 0; i < LENGTH; i++)
		CHECK((i >= 53 && i < 5053) || !target[i]);

	/* Its address in memory is no name for it; one byte before iova is outside. */
	wc = transfer(qp, cq, IOVA, source_mr->lkey, (uintptr_t)target, target_mr->rkey, 1);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_destroy_qp(qp));
	qp = make_qp(pd, cq, IBV_QPT_RC);
	start_qp(qp, qp->qp_num);
	wc = transfer(qp, cq, IOVA, source_mr->lkey, IOVA + 2, target_mr->rkey, 1);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);

	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_dereg_mr(source_mr));
	CHECK(!ibv_dereg_mr(target_mr));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
