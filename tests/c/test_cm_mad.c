/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The communication manager's messages: what Linux put on a wire is read, and written the same. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "cm_captures.h"
#include "packet/mad.h"

static const union simhca_gid a_gid = { .raw = { [10] = 0xff, 0xff, 10, 77, 0, 2 } };
static const union simhca_gid b_gid = { .raw = { [10] = 0xff, 0xff, 10, 77, 0, 3 } };

static struct simhca_cm_mad decoded(const uint8_t *bytes, enum simhca_cm_attribute attribute)
{
	struct simhca_cm_mad mad;

	assert_int_equal(simhca_cm_decode(bytes, SIMHCA_MAD_BYTES, &mad), 0);
	assert_int_equal(mad.attribute, attribute);
	return mad;
}

static void test_same_bytes(void **state)
{
	static const uint8_t *const all[] = {
		cm_rping_req,  cm_rping_rep,	   cm_rping_rtu,
		cm_rping_dreq, cm_rping_drep,	   cm_rping_ipv6_req,
		cm_reject_rej, cm_udaddy_sidr_req, cm_udaddy_sidr_rep
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint8_t bytes[SIMHCA_MAD_BYTES];
		struct simhca_cm_mad mad;

		memset(bytes, 0xa5, sizeof(bytes));
		assert_int_equal(simhca_cm_decode(all[i], SIMHCA_MAD_BYTES, &mad), 0);
		assert_int_equal(simhca_cm_encode(&mad, bytes), 0);
		assert_memory_equal(bytes, all[i], sizeof(bytes));
	}
}

static void test_req(void **state)
{
	struct simhca_cm_mad mad = decoded(cm_rping_req, SIMHCA_CM_REQ);
	const struct simhca_cm_req *req = &mad.req;
	struct simhca_cm_ip ip;

	assert_int_equal(mad.tid, 0x258523759);
	assert_int_equal(mad.attr_mod, 0);
	assert_int_equal(req->local_comm_id, 0x59375258);
	assert_int_equal(req->service_id, 0x0000000001061c06);
	assert_int_equal(req->ca_guid, 0x505400fffe770002);
	assert_int_equal(req->qpn, 0xb8);
	assert_int_equal(req->responder_resources, 1);
	assert_int_equal(req->initiator_depth, 1);
	assert_int_equal(req->remote_cm_timeout, 20);
	assert_int_equal(req->local_cm_timeout, 20);
	assert_int_equal(req->service_type, 0);
	assert_int_equal(req->flow_control, 0);
	assert_int_equal(req->starting_psn, 0x5a9e6f);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry, 7);
	assert_int_equal(req->pkey, 0xffff);
	assert_int_equal(req->mtu, 5);
	assert_int_equal(req->rdc_exists, 0);
	assert_int_equal(req->max_cm_retries, 15);
	assert_int_equal(req->srq, 0);
	assert_int_equal(req->primary.local_lid, 0xffff);
	assert_int_equal(req->primary.remote_lid, 0xffff);
	assert_memory_equal(&req->primary.local_gid, &a_gid, sizeof(a_gid));
	assert_memory_equal(&req->primary.remote_gid, &b_gid, sizeof(b_gid));
	assert_int_equal(req->primary.flow_label, 0xb7056);
	assert_int_equal(req->primary.rate, 0);
	assert_int_equal(req->primary.hop_limit, 64);
	assert_int_equal(req->primary.ack_timeout, 19);

	simhca_cm_ip_decode(req->private_data, &ip);
	assert_int_equal(ip.version, 4);
	assert_int_equal(ip.port, 0xe1b0);
	assert_memory_equal(ip.src + 12, a_gid.raw + 12, 4);
	assert_memory_equal(ip.dst + 12, b_gid.raw + 12, 4);
}

static void test_ip_header(void **state)
{
	struct simhca_cm_mad mad = decoded(cm_rping_ipv6_req, SIMHCA_CM_REQ);
	uint8_t bytes[SIMHCA_CM_IP_BYTES];
	struct simhca_cm_ip ip;

	simhca_cm_ip_decode(mad.req.private_data, &ip);
	assert_int_equal(ip.version, 6);
	assert_int_equal(ip.src[0], 0xfd);
	assert_int_equal(ip.src[15], 2);
	assert_int_equal(ip.dst[15], 3);
	simhca_cm_ip_encode(&ip, bytes);
	assert_memory_equal(bytes, mad.req.private_data, sizeof(bytes));

	bytes[1] = 0x50;
	simhca_cm_ip_decode(bytes, &ip);
	assert_int_equal(ip.version, 0);
	bytes[1] = 0x40;
	bytes[0] = 1;
	simhca_cm_ip_decode(bytes, &ip);
	assert_int_equal(ip.version, 0);
}

static void test_rep_and_rtu(void **state)
{
	struct simhca_cm_mad mad = decoded(cm_rping_rep, SIMHCA_CM_REP);

	assert_int_equal(mad.tid, 0x258523759);
	assert_int_equal(mad.rep.local_comm_id, 0x93d75383);
	assert_int_equal(mad.rep.remote_comm_id, 0x59375258);
	assert_int_equal(mad.rep.qpn, 0xf8);
	assert_int_equal(mad.rep.starting_psn, 0x6aa61b);
	assert_int_equal(mad.rep.responder_resources, 1);
	assert_int_equal(mad.rep.initiator_depth, 1);
	assert_int_equal(mad.rep.target_ack_delay, 15);
	assert_int_equal(mad.rep.rnr_retry, 7);
	assert_int_equal(mad.rep.srq, 0);
	assert_int_equal(mad.rep.ca_guid, 0x505400fffe770003);

	mad = decoded(cm_rping_rtu, SIMHCA_CM_RTU);
	assert_int_equal(mad.rtu.local_comm_id, 0x59375258);
	assert_int_equal(mad.rtu.remote_comm_id, 0x93d75383);
}

static void test_end(void **state)
{
	struct simhca_cm_mad mad = decoded(cm_rping_dreq, SIMHCA_CM_DREQ);

	assert_int_equal(mad.dreq.local_comm_id, 0x59375258);
	assert_int_equal(mad.dreq.remote_comm_id, 0x93d75383);
	assert_int_equal(mad.dreq.remote_qpn, 0xf8);
	mad = decoded(cm_rping_drep, SIMHCA_CM_DREP);
	assert_int_equal(mad.drep.local_comm_id, 0x93d75383);
	assert_int_equal(mad.drep.remote_comm_id, 0x59375258);
	mad = decoded(cm_reject_rej, SIMHCA_CM_REJ);
	assert_int_equal(mad.rej.local_comm_id, 0);
	assert_int_equal(mad.rej.remote_comm_id, 0x57375258);
	assert_int_equal(mad.rej.message, SIMHCA_CM_MESSAGE_REQ);
	assert_int_equal(mad.rej.reason, SIMHCA_CM_REJ_INVALID_SERVICE_ID);
}

static void test_sidr(void **state)
{
	struct simhca_cm_mad mad = decoded(cm_udaddy_sidr_req, SIMHCA_CM_SIDR_REQ);

	assert_int_equal(mad.sidr_req.request_id, 0x53375258);
	assert_int_equal(mad.sidr_req.pkey, 0xffff);
	assert_int_equal(mad.sidr_req.service_id, 0x0000000001111c06);
	mad = decoded(cm_udaddy_sidr_rep, SIMHCA_CM_SIDR_REP);
	assert_int_equal(mad.sidr_rep.request_id, 0x53375258);
	assert_int_equal(mad.sidr_rep.status, SIMHCA_CM_SIDR_OK);
	assert_int_equal(mad.sidr_rep.qpn, 0xfe);
	assert_int_equal(mad.sidr_rep.service_id, 0x0000000001111c06);
	assert_int_equal(mad.sidr_rep.qkey, 0x1234567);
}

/* Those that no capture has: where the fields lie, by the tables of chapter 12.6. */
static void test_mra_and_ece(void **state)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_MRA }, back;
	uint8_t bytes[SIMHCA_MAD_BYTES];

	mad.mra.local_comm_id = 0x01020304;
	mad.mra.remote_comm_id = 0x05060708;
	mad.mra.message = SIMHCA_CM_MESSAGE_REP;
	mad.mra.service_timeout = 24;
	mad.mra.private_data[0] = 0x11;
	assert_int_equal(simhca_cm_encode(&mad, bytes), 0);
	assert_int_equal(bytes[24], 1);
	assert_int_equal(bytes[28], 5);
	assert_int_equal(bytes[32], 0x40);
	assert_int_equal(bytes[33], 24 << 3);
	assert_int_equal(bytes[34], 0x11);

	mad = (struct simhca_cm_mad){ .attribute = SIMHCA_CM_REP, .attr_mod = 0xcafe };
	mad.rep.qpn = 0xffffff;
	mad.rep.vendor_id_h = 0x12;
	mad.rep.vendor_id_m = 0x34;
	mad.rep.vendor_id_l = 0x56;
	assert_int_equal(simhca_cm_encode(&mad, bytes), 0);
	assert_int_equal(bytes[23], 0xfe);
	assert_int_equal(bytes[24 + 15], 0x12);
	assert_int_equal(bytes[24 + 19], 0x34);
	assert_int_equal(bytes[24 + 23], 0x56);
	assert_int_equal(simhca_cm_decode(bytes, sizeof(bytes), &back), 0);
	assert_memory_equal(&back, &mad, sizeof(mad));

	mad = (struct simhca_cm_mad){ .attribute = SIMHCA_CM_REQ };
	mad.req.vendor_id = 0x123456;
	assert_int_equal(simhca_cm_encode(&mad, bytes), 0);
	assert_int_equal(bytes[24 + 4], 0);
	assert_int_equal(bytes[24 + 5], 0x12);
	assert_int_equal(bytes[24 + 7], 0x56);
}

/* What does not fit its field must not spill into the next one. */
static void test_too_large(void **state)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_REQ }, back;
	uint8_t bytes[SIMHCA_MAD_BYTES];

	mad.req.qpn = 0xff000001;
	mad.req.retry_count = 9;
	assert_int_equal(simhca_cm_encode(&mad, bytes), 0);
	assert_int_equal(simhca_cm_decode(bytes, sizeof(bytes), &back), 0);
	assert_int_equal(back.req.qpn, 1);
	assert_int_equal(back.req.retry_count, 1);
	assert_int_equal(back.req.local_cm_timeout, 0);
	assert_int_equal(back.req.responder_resources, 0);
}

static void test_refused(void **state)
{
	uint8_t bytes[SIMHCA_MAD_BYTES];
	struct simhca_cm_mad mad;

	for (size_t i = 0; i < 4; i++) {
		memcpy(bytes, cm_rping_req, sizeof(bytes));
		bytes[i] ^= 0x40;
		assert_int_equal(simhca_cm_decode(bytes, sizeof(bytes), &mad), -EINVAL);
	}
	memcpy(bytes, cm_rping_req, sizeof(bytes));
	bytes[17] = 0x19; /* LAP: alternate paths are not offered */
	assert_int_equal(simhca_cm_decode(bytes, sizeof(bytes), &mad), -EINVAL);
	assert_int_equal(simhca_cm_decode(cm_rping_req, SIMHCA_MAD_BYTES - 1, &mad), -EINVAL);
	mad.attribute = 0x19;
	assert_int_equal(simhca_cm_encode(&mad, bytes), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bytes),  cmocka_unit_test(test_req),
		cmocka_unit_test(test_ip_header),   cmocka_unit_test(test_rep_and_rtu),
		cmocka_unit_test(test_end),	    cmocka_unit_test(test_sidr),
		cmocka_unit_test(test_mra_and_ece), cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
