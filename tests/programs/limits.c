/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Makes as many objects of one kind as the device reports, then one more, twice. */
#include "helper.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char buffer[4096];

static void *make(const char *kind)
{
	struct ibv_qp_init_attr qp = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_ah_attr ah = loopback(context);

	switch (kind[0]) {
	case 'a':
		return ibv_create_ah(pd, &ah);
	case 'c':
		return ibv_create_cq(context, 1, NULL, NULL, 0);
	case 'm':
		if (kind[1] == 'w')
			return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		return ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS);
	case 'p':
		return ibv_alloc_pd(context);
	case 'q':
		return ibv_create_qp(pd, &qp);
	default:
		return ibv_create_srq(pd, &srq);
	}
}

static int destroy(const char *kind, void *object)
{
	switch (kind[0]) {
	case 'a':
		return ibv_destroy_ah(object);
	case 'c':
		return ibv_destroy_cq(object);
	case 'm':
		return kind[1] == 'w' ? ibv_dealloc_mw(object) : ibv_dereg_mr(object);
	case 'p':
		return ibv_dealloc_pd(object);
	case 'q':
		return ibv_destroy_qp(object);
	default:
		return ibv_destroy_srq(object);
	}
}

static int limit_of(const char *kind)
{
	struct ibv_device_attr attr;

	CHECK(!ibv_query_device(context, &attr));
	switch (kind[0]) {
	case 'a':
		return attr.max_ah;
	case 'c':
		return attr.max_cq - 1; /* one is ours */
	case 'm':
		return kind[1] == 'w' ? attr.max_mw : attr.max_mr;
	case 'p':
		return attr.max_pd - 1; /* one is ours */
	case 'q':
		return attr.max_qp;
	default:
		return attr.max_srq;
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "mr";
	void **object;
	int limit;

	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(pd && cq);
	limit = limit_of(kind);
	object = calloc((size_t)limit, sizeof(*object));
	CHECK(object);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < limit; i++) {
			object[i] = make(kind);
			if (!object[i]) {
				fprintf(stderr, "%s %d of %d: %s\n", kind, i + 1, limit,
					strerror(errno));
				return 1;
			}
		}
		errno = 0;
		CHECK(!make(kind));
		CHECK(errno == ENOMEM);
		for (int i = 0; i < limit; i++)
			CHECK(!destroy(kind, object[i]));
	}
	free(object);
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
