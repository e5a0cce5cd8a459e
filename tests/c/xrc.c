/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sys/mman.h>

#include "xrc.h"

int xrcd_try(struct client *client, int file, uint32_t flags, uint32_t *handle)
{
	const struct simhca_open_xrcd_req req = { .has_fd = file >= 0, .flags = flags };
	struct simhca_handle reply = { 0 };
	int error =
		simhca_open_xrcd(client->context, &req, file >= 0 ? dup(file) : -1, &reply, NULL);

	*handle = reply.handle;
	return error;
}

uint32_t xrcd_open(struct client *client, int file)
{
	uint32_t handle;

	assert_int_equal(0, xrcd_try(client, file, SIMHCA_XRCD_CREATE, &handle));
	return handle;
}

int xrcd_close(struct client *client, uint32_t handle)
{
	return simhca_close_xrcd(client->context, handle, NULL);
}

int xrcd_file(void)
{
	int file = memfd_create("domain", MFD_CLOEXEC);

	assert_true(file >= 0);
	return file;
}

static struct qp *target_handle(struct client *client)
{
	struct qp *qp = world_alloc(client->world, sizeof(*qp));

	qp->client = client;
	qp->type = IBV_QPT_XRC_RECV;
	qp->state = world_alloc(client->world, sizeof(*qp->state));
	return qp;
}

struct qp *target_new(struct client *client, uint32_t xrcd)
{
	struct qp *qp = target_handle(client);
	const struct simhca_create_qp_req req = {
		.type = SIMHCA_QPT_XRC_RECV,
		.xrcd = xrcd,
		.user_handle.element = (uintptr_t)qp,
	};

	assert_int_equal(0, simhca_create_qp(client->context, &req, &qp->granted, NULL));
	qp->handle = qp->granted.handle;
	qp->qpn = qp->granted.qpn;
	return qp;
}

int target_try(struct client *client, uint32_t xrcd, uint32_t qpn, struct qp **out)
{
	struct qp *qp = target_handle(client);
	const struct simhca_open_qp_req req = {
		.user_handle.element = (uintptr_t)qp,
		.xrcd = xrcd,
		.qpn = qpn,
	};
	struct simhca_handle reply = { 0 };
	int error = simhca_open_qp(client->context, &req, &reply, NULL);

	qp->handle = reply.handle;
	qp->qpn = qpn;
	*out = qp;
	return error;
}

struct qp *target_open(struct client *client, uint32_t xrcd, uint32_t qpn)
{
	struct qp *qp;

	assert_int_equal(0, target_try(client, xrcd, qpn, &qp));
	return qp;
}

int target_close(struct qp *qp)
{
	return patiently(simhca_destroy_qp(qp->client->context, qp->handle, NULL));
}
