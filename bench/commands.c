/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How long commands take, in us each: address handles and QPs, of which many are made and then
 * destroyed. Prints a line for each kind.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COUNT 4000

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static void must(int right, const char *what)
{
	if (right)
		return;
	perror(what);
	exit(1);
}

static void address_handles(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	static struct ibv_ah *ah[COUNT];
	double begin, between;

	must(!ibv_query_gid(context, 1, 0, &attr.grh.dgid), "ibv_query_gid");
	begin = now_us();
	for (int i = 0; i < COUNT; i++)
		must((ah[i] = ibv_create_ah(pd, &attr)) != NULL, "ibv_create_ah");
	between = now_us();
	for (int i = 0; i < COUNT; i++)
		must(!ibv_destroy_ah(ah[i]), "ibv_destroy_ah");
	printf("create_ah %.2f\ndestroy_ah %.2f\n", (between - begin) / COUNT,
	       (now_us() - between) / COUNT);
}

static void queue_pairs(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	static struct ibv_qp *qp[COUNT];
	double begin, between;

	must(cq != NULL, "ibv_create_cq");
	begin = now_us();
	for (int i = 0; i < COUNT; i++)
		must((qp[i] = ibv_create_qp(pd, &attr)) != NULL, "ibv_create_qp");
	between = now_us();
	for (int i = 0; i < COUNT; i++)
		must(!ibv_destroy_qp(qp[i]), "ibv_destroy_qp");
	printf("create_qp %.2f\ndestroy_qp %.2f\n", (between - begin) / COUNT,
	       (now_us() - between) / COUNT);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd;

	must(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	must(pd != NULL, "ibv_alloc_pd");
	address_handles(context, pd);
	queue_pairs(context, pd);
	return 0;
}
