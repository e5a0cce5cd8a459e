/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* UD: Q_Keys, the GRH that a receiver sees, who sent it, and how long a message may be. */
#include "harness.h"
#include "queue/srq_claim.h"

#define QKEY 0x11111111u

static struct pair *ud_pair(struct world *world, uint8_t gid_index)
{
	struct options options = default_options(IBV_QPT_UD);

	options.gid_index = gid_index;
	return pair_new(world, &options);
}

static void send_with(struct pair *pair, uint64_t id, uint32_t qkey, struct simhca_av av,
		      uint32_t dest_qpn)
{
	post(&pair->a, .id = id, .opcode = SIMHCA_WR_SEND, SGES(sge(pair->a.mr, 0, 100)), .av = av,
	     .dest_qpn = dest_qpn, .qkey = qkey);
}

static void a_wrong_qkey_is_dropped(void **state)
{
	struct pair *pair = ud_pair(*state, 0);

	for (uint32_t bit = 1; bit && bit < 0x80000000u; bit <<= 1) {
		recv_into(&pair->b, 1, 0, 200);
		send_with(pair, bit, QKEY ^ bit, av_to(*state, 1, 0), pair->b.qp->qpn);
		expect(pair->a.send_cq, bit, SUCCESS);
		expect_none(pair->b.recv_cq);
		send_with(pair, 2, QKEY, av_to(*state, 1, 0), pair->b.qp->qpn);
		expect(pair->a.send_cq, 2, SUCCESS);
		expect(pair->b.recv_cq, 1, SUCCESS);
	}
}

static void a_wrong_qkey_is_counted(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct world *world = *state;
	uint32_t before = simhca_device_memory(world->device[1])->port.qkey_viol_cntr;

	recv_into(&pair->b, 1, 0, 200);
	for (uint64_t id = 1; id <= 3; id++) {
		send_with(pair, id, QKEY + 1, av_to(*state, 1, 0), pair->b.qp->qpn);
		expect(pair->a.send_cq, id, SUCCESS);
	}
	expect_none(pair->b.recv_cq);
	assert_int_equal(simhca_device_memory(world->device[1])->port.qkey_viol_cntr, before + 3);
}

/* A Q_Key with the high bit set stands for the sender's own (IBTA vol. 1, 10.2.5). */
static void a_controlled_qkey_stands_for_the_senders(void **state)
{
	struct pair *pair = ud_pair(*state, 0);

	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, 0x80000000u, av_to(*state, 1, 0), pair->b.qp->qpn);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 1, SUCCESS);
}

/* Before RTR a QP has receives, and takes no datagrams. */
static void a_qp_before_rtr_hears_nothing(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct options options = default_options(IBV_QPT_UD);
	struct side *side = side_new(pair->b.client, &options);
	struct simhca_qp_attr attr = qp_attr_to(side->qp, 0, 0, &options);

	qp_up_to(side->qp, IBV_QPS_INIT, attr);
	recv_into(side, 1, 0, 200);
	send_with(pair, 1, QKEY, av_to(*state, 1, 0), side->qp->qpn);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_none(side->recv_cq);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(0, qp_modify(side->qp, rtr_mask(IBV_QPT_UD), attr));
	send_with(pair, 2, QKEY, av_to(*state, 1, 0), side->qp->qpn);
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(side->recv_cq, 1, SUCCESS);
}

static void unknown_destinations_are_silent(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct world *world = *state;
	struct simhca_av nowhere = av_to(world, 1, 0);

	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av_to(world, 1, 0), pair->b.qp->qpn ^ 0x800000);
	expect(pair->a.send_cq, 1, SUCCESS);
	send_with(pair, 2, QKEY, av_to(world, 0, 0), pair->b.qp->qpn + 1);
	expect(pair->a.send_cq, 2, SUCCESS);
	nowhere.dgid.raw[15] = 0xee;
	nowhere.dlid = 0x999;
	send_with(pair, 3, QKEY, nowhere, pair->b.qp->qpn);
	expect(pair->a.send_cq, 3, SUCCESS);
	expect_none(pair->b.recv_cq);
}

static void a_message_is_at_most_the_mtu(void **state)
{
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		struct world *world = world_new(&(struct world_config){ .device = { .mtu = mtu } });
		struct pair *pair = ud_pair(world, 0);

		fill(pair->a.mr->addr, mtu + 1, mtu);
		recv_into(&pair->b, 1, 0, mtu + SIMHCA_GRH_BYTES);
		send_from(&pair->a, 1, 0, mtu);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len,
				 mtu + SIMHCA_GRH_BYTES);
		assert_true(filled(pair->b.mr->addr + SIMHCA_GRH_BYTES, mtu, mtu));
		recv_into(&pair->b, 2, 0, mtu + 1 + SIMHCA_GRH_BYTES);
		send_from(&pair->a, 2, 0, mtu + 1);
		expect_why(pair->a.send_cq, 2, LOC_LEN_ERR, MSG_TOO_LONG);
		expect_none(pair->b.recv_cq);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQE);
		world_free(world);
	}
}

static uint16_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Between IPv4-mapped GIDs the packet is IPv4; its header is the second half of the GRH's place. */
static void the_grh_of_an_ipv4_path(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);
	const uint8_t *ip = pair->b.mr->addr + 20;
	struct simhca_cqe cqe;

	av.hop_limit = 33;
	av.traffic_class = 0x28;
	memset(pair->b.mr->addr, 0xee, 200);
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	cqe = expect(pair->b.recv_cq, 1, SUCCESS);
	assert_true(cqe.flags & SIMHCA_CQE_GRH);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 0x28);
	assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 100 + 4);
	assert_int_equal(ip[8], 33);
	assert_int_equal(ip[9], 17); /* UDP, as RoCE v2 */
	assert_memory_equal(ip + 12, device_gid(0, 0).raw + 12, 4);
	assert_memory_equal(ip + 16, device_gid(1, 0).raw + 12, 4);
	assert_int_equal(checksum(ip), 0xffff);
}

static void the_grh_of_an_ipv6_path(void **state)
{
	struct pair *pair = ud_pair(*state, 1);
	struct simhca_av av = av_to(*state, 1, 1);
	const uint8_t *ip = pair->b.mr->addr;
	struct simhca_cqe cqe;

	av.hop_limit = 33;
	av.traffic_class = 0x28;
	av.flow_label = 0x12345;
	memset(pair->b.mr->addr, 0xee, 200);
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	cqe = expect(pair->b.recv_cq, 1, SUCCESS);
	assert_true(cqe.flags & SIMHCA_CQE_GRH);
	assert_int_equal(ip[0], 0x62);
	assert_int_equal(ip[1], 0x81);
	assert_int_equal(ip[2], 0x23);
	assert_int_equal(ip[3], 0x45);
	assert_int_equal(ip[4] << 8 | ip[5], 8 + 12 + 8 + 100 + 4); /* UDP, BTH, DETH, data, ICRC */
	assert_int_equal(ip[6], 17); /* UDP: it is an IP header, and tells RoCE v2 from v1 */
	assert_int_equal(ip[7], 33);
	assert_memory_equal(ip + 8, device_gid(0, 1).raw, 16);
	assert_memory_equal(ip + 24, device_gid(1, 1).raw, 16);
}

/* On InfiniBand it is a GRH indeed: the next header is InfiniBand's. */
static void the_grh_of_an_infiniband_path(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);
	const uint8_t *grh = pair->b.mr->addr;

	av.is_global = 1;
	av.dgid = simhca_device_memory(((struct world *)*state)->device[1])->gids[0].gid;
	av.hop_limit = 7;
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	assert_true(expect(pair->b.recv_cq, 1, SUCCESS).flags & SIMHCA_CQE_GRH);
	assert_int_equal(grh[0] >> 4, 6);
	assert_int_equal(grh[4] << 8 | grh[5], 12 + 8 + 100 + 4); /* BTH, DETH, data, ICRC */
	assert_int_equal(grh[6], 0x1b);
	assert_int_equal(grh[7], 7);
	assert_memory_equal(grh + 24, av.dgid.raw, 16);
}

/* All zeros is nobody's GID, though empty entries of GID tables are just that. */
static void to_an_empty_gid(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);

	memset(&av.dgid, 0, sizeof(av.dgid));
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	run_until_idle(*state);
	expect_none(pair->b.recv_cq);
}

/* With a GRH, the LID alone does not make an address. */
static void a_grh_with_another_gid(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);

	av.is_global = 1;
	av.dgid = simhca_device_memory(((struct world *)*state)->device[1])->gids[0].gid;
	av.dgid.raw[15] ^= 1;
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	run_until_idle(*state);
	expect_none(pair->b.recv_cq);
}

/* On InfiniBand without a GRH the 40 bytes are there, and mean nothing. */
static void no_grh_on_a_local_lid_path(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);
	struct simhca_cqe cqe;

	av.src_path_bits = 3; /* the port has one LID, to which an answer goes */
	fill(pair->a.mr->addr, 100, 1);
	recv_into(&pair->b, 1, 0, 200);
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	cqe = expect(pair->b.recv_cq, 1, SUCCESS);
	assert_int_equal(cqe.flags & SIMHCA_CQE_GRH, 0);
	assert_int_equal(cqe.byte_len, 100 + SIMHCA_GRH_BYTES);
	assert_int_equal(cqe.slid, DEVICE_LID(0));
	assert_true(filled(pair->b.mr->addr + SIMHCA_GRH_BYTES, 100, 1));
}

static void the_completion_names_the_sender(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct side *third = side_new(client_new(*state, 1), &pair->a.options);
	struct simhca_cqe cqe;

	qp_connect(third->qp, 0, 0, &third->options);
	third->peer = &pair->b;
	recv_into(&pair->b, 1, 0, 200);
	recv_into(&pair->b, 2, 0, 200);
	send_from(&pair->a, 1, 0, 10);
	cqe = expect(pair->b.recv_cq, 1, SUCCESS);
	assert_int_equal(cqe.src_qpn, pair->a.qp->qpn);
	assert_int_equal(cqe.qpn, pair->b.qp->qpn);
	assert_int_equal(cqe.pkey_index, 0);
	send_from(third, 1, 0, 10);
	cqe = expect(pair->b.recv_cq, 2, SUCCESS);
	assert_int_equal(cqe.src_qpn, third->qp->qpn);
}

/* The receiver can answer by what the completion and the GRH told it. */
static void an_answer_finds_its_way_back(void **state)
{
	struct pair *pair = ud_pair(*state, 1);
	struct simhca_av back = av_to(*state, 0, 1);
	struct simhca_cqe cqe;

	recv_into(&pair->b, 1, 0, 200);
	recv_into(&pair->a, 2, 4096, 200);
	send_from(&pair->a, 1, 0, 10);
	cqe = expect(pair->b.recv_cq, 1, SUCCESS);
	memcpy(&back.dgid, pair->b.mr->addr + 8, 16);
	fill(pair->b.mr->addr + 1000, 50, 5);
	post(&pair->b, .id = 3, .opcode = SIMHCA_WR_SEND, SGES(sge(pair->b.mr, 1000, 50)),
	     .av = back, .dest_qpn = cqe.src_qpn, .qkey = QKEY);
	expect(pair->b.send_cq, 3, SUCCESS);
	expect(pair->a.recv_cq, 2, SUCCESS);
	assert_true(filled(pair->a.mr->addr + 4096 + SIMHCA_GRH_BYTES, 50, 5));
}

/* An empty GID table entry as source is an error at the sender, not a packet from nowhere. */
static void an_empty_source_gid_is_refused(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct simhca_av av = av_to(*state, 1, 0);

	av.sgid_index = 5;
	send_with(pair, 1, QKEY, av, pair->b.qp->qpn);
	expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, AV_BAD_GID_INDEX);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	av.sgid_index = 200;
	send_with(pair, 2, QKEY, av, pair->b.qp->qpn);
	expect_why(pair->a.send_cq, 2, LOC_QP_OP_ERR, AV_BAD_GID_INDEX);
}

static void address_handles_are_checked(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_create_ah_req req = { .pd = client->pd, .av = av_to(*state, 1, 0) };
	struct simhca_handle ah;
	struct simhca_counts counts;

	assert_int_equal(0, simhca_create_ah(client->context, &req, &ah, NULL));
	simhca_context_counts(client->context, &counts);
	assert_int_equal(counts.ahs, 1);
	assert_int_equal(-EBUSY, simhca_dealloc_pd(client->context, client->pd, NULL));
	req.av.port_num = 2;
	assert_int_equal(-EINVAL, simhca_create_ah(client->context, &req, &ah, NULL));
	req.av = av_to(*state, 1, 0);
	req.av.sgid_index = 6; /* empty */
	assert_int_equal(-ENODATA, simhca_create_ah(client->context, &req, &ah, NULL));
	req.av.sgid_index = SIMHCA_GID_ENTRIES;
	assert_int_equal(-EINVAL, simhca_create_ah(client->context, &req, &ah, NULL));
	req.av.sgid_index = 0;
	req.av.is_global = 0;
	assert_int_equal(-EINVAL, simhca_create_ah(client->context, &req, &ah, NULL));
	req.av.is_global = 1;
	memset(&req.av.dgid, 0, sizeof(req.av.dgid));
	assert_int_equal(-EINVAL, simhca_create_ah(client->context, &req, &ah, NULL));
	req.av = av_to(*state, 1, 0);
	req.pd = 9999;
	assert_int_equal(-ENOENT, simhca_create_ah(client->context, &req, &ah, NULL));
	assert_int_equal(0, simhca_destroy_ah(client->context, ah.handle, NULL));
	assert_true(simhca_destroy_ah(client->context, ah.handle, NULL) < 0);
}

/* ------------------------------------------------------- receives that others may consume */

static int setup_claims(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .fast_path = true } });
	return 0;
}

/* What another has claimed is not the device's to use, nor to flush. */
static void each_receive_is_claimed_once(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct qp *qp = pair->b.qp;
	const struct simhca_srq_view queue = { .mem = qp->claims,
					       .ring = (char *)qp->rq,
					       .entries = qp->granted.rq_entries };
	uint32_t handle = qp->handle;
	struct simhca_qp_info info;
	uint64_t head;

	assert_non_null(qp->claims);
	for (uint64_t id = 0; id < 5; id++)
		recv_into(&pair->b, id, 0, 200);
	for (uint64_t id = 0; id < 4; id += 2) {
		send_from(&pair->a, id, 0, 100);
		expect(pair->a.send_cq, id, SUCCESS);
		expect(pair->b.recv_cq, id, SUCCESS);
		assert_int_equal(simhca_srq_look(&queue, &head), 0);
		assert_int_equal(simhca_srq_ci(head), id + 1);
		assert_true(simhca_srq_claim(&queue, head, SIMHCA_CLAIMANT_DEVICE + 1));
	}
	assert_int_equal(simhca_srq_claimed(&queue, SIMHCA_CLAIMANT_DEVICE), 3);
	assert_int_equal(responder_of(qp)->claim, 3);
	assert_true(simhca_next_qp(pair->b.client->context, &handle, &info));
	assert_int_equal(info.recvs, 1);
	assert_int_equal(qp_move(qp, IBV_QPS_ERR), 0);
	expect(pair->b.recv_cq, 4, WR_FLUSH_ERR);
	expect_none(pair->b.recv_cq);
	/* After a reset nobody has claimed anything. */
	assert_int_equal(qp_move(qp, IBV_QPS_RESET), 0);
	assert_int_equal(qp->claims->head, 0);
	assert_int_equal(simhca_srq_claimed(&queue, SIMHCA_CLAIMANT_DEVICE + 1), 0);
	pair_reconnect(pair);
	check_works(pair);
}

static void a_receive_index_that_makes_no_sense(void **state)
{
	struct pair *pair = ud_pair(*state, 0);
	struct qp *qp = pair->b.qp;

	atomic_store(&qp->claims->pi, qp->granted.rq_entries + 1);
	send_from(&pair->a, 1, 0, 100);
	expect(pair->a.send_cq, 1, SUCCESS);
	run_until_idle(*state);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(events_of(pair->b.client, qp, IBV_EVENT_QP_FATAL), 1);
	expect_none(pair->b.recv_cq);
}

/* By itself: its program has said that it wants nobody else. */
static void a_qp_without_callers_has_no_claims(void **state)
{
	struct options options = default_options(IBV_QPT_UD);

	options.no_fastpath = true;
	assert_null(pair_new(*state, &options)->b.qp->claims);
}

#define WITH_CLAIMS(test) cmocka_unit_test_setup_teardown(test, setup_claims, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_wrong_qkey_is_dropped),
		WITH_CLAIMS(a_wrong_qkey_is_dropped),
		ON_INFINIBAND(a_wrong_qkey_is_dropped),
		ON_ETHERNET(a_wrong_qkey_is_counted),
		ON_ETHERNET(a_controlled_qkey_stands_for_the_senders),
		ON_ETHERNET(a_qp_before_rtr_hears_nothing),
		WITH_CLAIMS(a_qp_before_rtr_hears_nothing),
		ON_ETHERNET(unknown_destinations_are_silent),
		WITH_CLAIMS(unknown_destinations_are_silent),
		ON_INFINIBAND(unknown_destinations_are_silent),
		cmocka_unit_test(a_message_is_at_most_the_mtu),
		ON_ETHERNET(the_grh_of_an_ipv4_path),
		WITH_CLAIMS(the_grh_of_an_ipv4_path),
		ON_ETHERNET(the_grh_of_an_ipv6_path),
		ON_INFINIBAND(the_grh_of_an_infiniband_path),
		ON_ETHERNET(to_an_empty_gid),
		ON_INFINIBAND(a_grh_with_another_gid),
		ON_INFINIBAND(no_grh_on_a_local_lid_path),
		ON_ETHERNET(the_completion_names_the_sender),
		WITH_CLAIMS(the_completion_names_the_sender),
		ON_INFINIBAND(the_completion_names_the_sender),
		ON_ETHERNET(an_answer_finds_its_way_back),
		WITH_CLAIMS(an_answer_finds_its_way_back),
		ON_ETHERNET(an_empty_source_gid_is_refused),
		ON_ETHERNET(address_handles_are_checked),
		WITH_CLAIMS(each_receive_is_claimed_once),
		WITH_CLAIMS(a_receive_index_that_makes_no_sense),
		WITH_CLAIMS(a_qp_without_callers_has_no_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
