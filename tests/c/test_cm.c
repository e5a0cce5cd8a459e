/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The communication manager's state machine, between two hosts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cm_world.h"

#define RETRY_MS 6144 /* of a REQ: 2 * 4.096 us * 2^18, and 2^20 */
#define TIMEWAIT_MS 2048

struct scene {
	struct world world;
	struct end a, b;
};

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	if (!scene)
		return -1;
	world_open(&scene->world, 1);
	assert_int_equal(end_listen(&scene->world.host[1]), 0);
	end_open(&scene->a, &scene->world.host[0]);
	scene->world.host[1].passive = &scene->b;
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *scene = *state;

	world_close(&scene->world);
	free(scene);
	return 0;
}

#define assert_state(end, wanted) assert_int_equal(simhca_cm_id_state((end).id), wanted)
#define assert_seen(end, type, times) assert_int_equal((end).seen[type], times)

static void connect_both(struct scene *scene)
{
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_state(scene->b, SIMHCA_CM_REQ_RCVD);
	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_run(&scene->world);
	assert_state(scene->a, SIMHCA_CM_REP_RCVD);
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	assert_state(scene->a, SIMHCA_CM_ESTABLISHED);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
}

static unsigned int ids(struct scene *scene, int host)
{
	struct simhca_cm_counts counts;

	simhca_cm_counts(scene->world.host[host].cm, &counts);
	return counts.ids;
}

static void test_connection(void **state)
{
	struct scene *scene = *state;
	const struct simhca_cm_connection *a, *b;

	connect_both(scene);
	assert_seen(scene->b, SIMHCA_CM_REQ_RECEIVED, 1);
	assert_seen(scene->a, SIMHCA_CM_REP_RECEIVED, 1);
	assert_seen(scene->b, SIMHCA_CM_RTU_RECEIVED, 1);
	assert_ptr_equal(scene->b.peer, &scene->world.host[1].listener);
	assert_memory_equal(scene->a.mad.rep.private_data, "welcome", 7);
	assert_int_equal(scene->a.mad.attr_mod, 0x88);

	a = simhca_cm_id_connection(scene->a.id);
	b = simhca_cm_id_connection(scene->b.id);
	assert_int_equal(a->local_qpn, 17);
	assert_int_equal(a->remote_qpn, 18);
	assert_int_equal(b->local_qpn, 18);
	assert_int_equal(b->remote_qpn, 17);
	/* Each sends with the PSN that the other has announced. */
	assert_int_equal(a->sq_psn, b->rq_psn);
	assert_int_equal(b->sq_psn, a->rq_psn);
	assert_int_not_equal(a->sq_psn, b->sq_psn);
	assert_int_equal(a->initiator_depth, 2);
	assert_int_equal(a->responder_resources, 1);
	assert_int_equal(b->initiator_depth, 1);
	assert_int_equal(b->responder_resources, 2);
	assert_int_equal(a->retry_count, 6);
	assert_int_equal(b->retry_count, 6);
	assert_int_equal(a->rnr_retry, 4);
	assert_int_equal(b->rnr_retry, 5);
	assert_int_equal(a->ack_timeout, 19);
	assert_int_equal(b->ack_timeout, 19);
}

static void test_request(void **state)
{
	struct scene *scene = *state;
	const struct simhca_cm_path *path;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_memory_equal(scene->b.mad.req.private_data, "hello", 5);
	assert_int_equal(scene->b.mad.attr_mod, 0x77);
	path = simhca_cm_id_path(scene->b.id);
	assert_memory_equal(&path->sgid, &scene->world.host[1].gid, sizeof(path->sgid));
	assert_memory_equal(&path->dgid, &scene->world.host[0].gid, sizeof(path->dgid));
	assert_int_equal(path->ca_guid, scene->world.host[1].guid);
	assert_int_equal(path->packet_life, 18);
	/* Not before both have spoken. */
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), -EINVAL);
	assert_int_equal(simhca_cm_send_dreq(scene->a.id), -EINVAL);
	assert_int_equal(simhca_cm_send_drep(scene->b.id), -EINVAL);
	assert_int_equal(end_connect(&scene->a, 17), -EINVAL);
}

static void test_nobody_listens(void **state)
{
	struct scene *scene = *state;

	simhca_cm_id_destroy(scene->world.host[1].listener.id, false);
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(scene->a.mad.rej.reason, SIMHCA_CM_REJ_INVALID_SERVICE_ID);
	assert_state(scene->a, SIMHCA_CM_IDLE);
	/* And can be tried again. */
	assert_int_equal(end_connect(&scene->a, 17), 0);
}

static void test_two_listeners(void **state)
{
	struct scene *scene = *state;
	struct end second;

	end_open(&second, &scene->world.host[1]);
	assert_int_equal(simhca_cm_listen(second.id, WORLD_SERVICE), -EADDRINUSE);
	assert_int_equal(simhca_cm_listen(second.id, WORLD_SERVICE + 1), 0);
	assert_int_equal(simhca_cm_listen(second.id, WORLD_SERVICE + 2), -EINVAL);
}

static void test_user_rejects(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_int_equal(simhca_cm_send_rej(scene->b.id, SIMHCA_CM_REJ_CONSUMER, "no", 2), 0);
	assert_state(scene->b, SIMHCA_CM_IDLE);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(scene->a.mad.rej.reason, SIMHCA_CM_REJ_CONSUMER);
	assert_memory_equal(scene->a.mad.rej.private_data, "no", 2);
}

static void test_listener_refuses(void **state)
{
	struct scene *scene = *state;

	scene->world.host[1].outcome = SIMHCA_CM_REJ_CONSUMER;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(ids(scene, 1), 1);
}

/* Its backlog is full: the REQ comes again, and finds room then. */
static void test_listener_drops(void **state)
{
	struct scene *scene = *state;

	scene->world.host[1].outcome = -1;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REJ], 0);
	assert_int_equal(ids(scene, 1), 1);
	scene->world.host[1].outcome = 0;
	world_pass(&scene->world, RETRY_MS - 1);
	assert_seen(scene->b, SIMHCA_CM_REQ_RECEIVED, 0);
	world_pass(&scene->world, 1);
	assert_seen(scene->b, SIMHCA_CM_REQ_RECEIVED, 1);
}

/* Who destroys its end before there is a connection tells the other. */
static void test_destroyed_early(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	simhca_cm_id_destroy(scene->a.id, false);
	world_run(&scene->world);
	assert_seen(scene->b, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(scene->b.mad.rej.reason, SIMHCA_CM_REJ_TIMEOUT);
	assert_int_equal(ids(scene, 0), 0);

	simhca_cm_id_destroy(scene->b.id, false);
	end_open(&scene->a, &scene->world.host[0]);
	scene->world.host[1].passive = &scene->b;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	simhca_cm_id_destroy(scene->b.id, false);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(scene->a.mad.rej.reason, SIMHCA_CM_REJ_CONSUMER);
}

static void test_nobody_answers(void **state)
{
	struct scene *scene = *state;

	scene->world.lose[SIMHCA_CM_REQ] = 100;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_pass(&scene->world, 16 * RETRY_MS - 1);
	assert_seen(scene->a, SIMHCA_CM_REQ_TIMEOUT, 0);
	world_pass(&scene->world, 1);
	assert_seen(scene->a, SIMHCA_CM_REQ_TIMEOUT, 1);
	assert_state(scene->a, SIMHCA_CM_IDLE);
	assert_int_equal(scene->world.lose[SIMHCA_CM_REQ], 100 - 16);
}

static void test_lost_messages(void **state)
{
	struct scene *scene = *state;

	scene->world.lose[SIMHCA_CM_REQ] = 1;
	scene->world.lose[SIMHCA_CM_REP] = 1;
	scene->world.lose[SIMHCA_CM_RTU] = 1;
	scene->world.lose[SIMHCA_CM_DREQ] = 1;
	scene->world.lose[SIMHCA_CM_DREP] = 1;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_pass(&scene->world, RETRY_MS);
	assert_seen(scene->b, SIMHCA_CM_REQ_RECEIVED, 1);
	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_pass(&scene->world, 4096);
	assert_seen(scene->a, SIMHCA_CM_REP_RECEIVED, 1);
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	assert_state(scene->b, SIMHCA_CM_REP_SENT);
	world_pass(&scene->world, 4096);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
	assert_seen(scene->a, SIMHCA_CM_REP_RECEIVED, 1);

	assert_int_equal(simhca_cm_send_dreq(scene->a.id), 0);
	world_pass(&scene->world, RETRY_MS);
	assert_seen(scene->b, SIMHCA_CM_DREQ_RECEIVED, 1);
	assert_int_equal(simhca_cm_send_drep(scene->b.id), 0);
	world_run(&scene->world);
	assert_state(scene->a, SIMHCA_CM_DREQ_SENT);
	world_pass(&scene->world, RETRY_MS);
	assert_seen(scene->a, SIMHCA_CM_DREP_RECEIVED, 1);
}

static void test_end(void **state)
{
	struct scene *scene = *state;

	connect_both(scene);
	assert_int_equal(simhca_cm_send_dreq(scene->a.id), 0);
	world_run(&scene->world);
	assert_seen(scene->b, SIMHCA_CM_DREQ_RECEIVED, 1);
	assert_seen(scene->a, SIMHCA_CM_DREP_RECEIVED, 0);
	assert_int_equal(simhca_cm_send_dreq(scene->b.id), -EINVAL);
	assert_int_equal(simhca_cm_send_drep(scene->b.id), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_DREP_RECEIVED, 1);
	world_pass(&scene->world, TIMEWAIT_MS - 1);
	assert_seen(scene->a, SIMHCA_CM_TIMEWAIT_EXIT, 0);
	world_pass(&scene->world, 1);
	assert_seen(scene->a, SIMHCA_CM_TIMEWAIT_EXIT, 1);
	assert_seen(scene->b, SIMHCA_CM_TIMEWAIT_EXIT, 1);
}

static void test_both_end(void **state)
{
	struct scene *scene = *state;

	connect_both(scene);
	assert_int_equal(simhca_cm_send_dreq(scene->a.id), 0);
	assert_int_equal(simhca_cm_send_dreq(scene->b.id), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_DREQ_RECEIVED, 1);
	assert_seen(scene->b, SIMHCA_CM_DREQ_RECEIVED, 1);
	assert_int_equal(simhca_cm_send_drep(scene->a.id), 0);
	world_run(&scene->world);
	assert_state(scene->b, SIMHCA_CM_TIMEWAIT);
}

/* What a user destroys goes on without it until the peer knows, and packets have died out. */
static void test_destroyed(void **state)
{
	struct scene *scene = *state;

	connect_both(scene);
	scene->world.lose[SIMHCA_CM_DREQ] = 3;
	simhca_cm_id_destroy(scene->a.id, false);
	world_run(&scene->world);
	assert_seen(scene->b, SIMHCA_CM_DREQ_RECEIVED, 0);
	world_pass(&scene->world, 3 * RETRY_MS);
	assert_seen(scene->b, SIMHCA_CM_DREQ_RECEIVED, 1);
	assert_int_equal(ids(scene, 0), 1);
	simhca_cm_id_destroy(scene->b.id, false);
	world_run(&scene->world);
	assert_int_equal(ids(scene, 0), 1);
	world_pass(&scene->world, TIMEWAIT_MS);
	assert_int_equal(ids(scene, 0), 0);
	assert_int_equal(ids(scene, 1), 1);
}

static void test_peer_is_gone(void **state)
{
	struct scene *scene = *state;

	connect_both(scene);
	scene->world.lose[SIMHCA_CM_DREQ] = 100;
	assert_int_equal(simhca_cm_send_dreq(scene->a.id), 0);
	world_pass(&scene->world, 16 * RETRY_MS);
	assert_seen(scene->a, SIMHCA_CM_DREQ_TIMEOUT, 1);
	assert_state(scene->a, SIMHCA_CM_TIMEWAIT);
	/* A DREQ of a connection that this host does not know (any more) is answered, too. */
	scene->world.lose[SIMHCA_CM_DREQ] = 0;
	world_pass(&scene->world, TIMEWAIT_MS);
	assert_int_equal(simhca_cm_send_dreq(scene->b.id), 0);
	world_run(&scene->world);
	assert_seen(scene->b, SIMHCA_CM_DREP_RECEIVED, 1);
}

/* The user takes long: a repeated REQ is answered by an MRA, which stops the repetition. */
static void test_slow_user(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_pass(&scene->world, RETRY_MS);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REQ], 2);
	assert_int_equal(scene->world.passed[SIMHCA_CM_MRA], 1);
	assert_seen(scene->b, SIMHCA_CM_REQ_RECEIVED, 1);
	world_pass(&scene->world, 60000);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REQ], 2);
	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_REP_RECEIVED, 1);
	/* And the active side's: */
	world_pass(&scene->world, 4096);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REP], 2);
	assert_int_equal(scene->world.passed[SIMHCA_CM_MRA], 2);
	world_pass(&scene->world, 60000);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REP], 2);
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
}

/* A user that never answers does not keep the peer for ever. */
static void test_user_never_answers(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_pass(&scene->world, 16 * (70000 + RETRY_MS));
	assert_seen(scene->a, SIMHCA_CM_REQ_TIMEOUT, 1);
}

/* Data that came show that the peer is there, though its RTU was lost. */
static void test_established_by_data(void **state)
{
	struct scene *scene = *state;

	scene->world.lose[SIMHCA_CM_RTU] = 1;
	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	assert_int_equal(simhca_cm_establish(scene->b.id), -EINVAL);
	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_run(&scene->world);
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	assert_int_equal(simhca_cm_establish(scene->b.id), 0);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
	assert_int_equal(simhca_cm_establish(scene->b.id), -EISCONN);
	world_pass(&scene->world, 60000);
	assert_int_equal(scene->world.passed[SIMHCA_CM_REP], 1);
}

/* The peer has forgotten the connection, and uses its QP for another one. */
static void test_stale_connection(void **state)
{
	struct scene *scene = *state;
	struct end again, third;

	connect_both(scene);
	end_open(&again, &scene->world.host[0]);
	scene->world.host[1].passive = &third;
	assert_int_equal(end_connect(&again, 17), 0);
	world_run(&scene->world);
	assert_seen(again, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(again.mad.rej.reason, SIMHCA_CM_REJ_STALE_CONNECTION);
	/* The old one is over. */
	assert_int_equal(scene->world.passed[SIMHCA_CM_DREQ], 1);
	simhca_cm_send_drep(scene->a.id);
	world_pass(&scene->world, TIMEWAIT_MS);
	assert_int_equal(end_connect(&again, 17), 0);
	world_run(&scene->world);
	assert_seen(third, SIMHCA_CM_REQ_RECEIVED, 1);
}

/* As with Linux, the QP of the peer may have another connection when the last one has ended, also during TIMEWAIT. */
static void test_timewait(void **state)
{
	struct scene *scene = *state;
	struct end again, third;

	connect_both(scene);
	simhca_cm_id_destroy(scene->a.id, false);
	world_run(&scene->world);
	simhca_cm_id_destroy(scene->b.id, false);
	world_run(&scene->world);
	end_open(&again, &scene->world.host[0]);
	scene->world.host[1].passive = &third;
	assert_int_equal(end_connect(&again, 17), 0);
	world_run(&scene->world);
	assert_seen(third, SIMHCA_CM_REQ_RECEIVED, 1);
	assert_int_equal(end_accept(&third, 18), 0);
	world_run(&scene->world);
	assert_state(again, SIMHCA_CM_REP_RCVD);
}

/* A REQ that was repeated comes when all is over: its REP finds nobody, and is told so. */
static void test_late_request(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	scene->world.lose[SIMHCA_CM_REJ] = 1;
	simhca_cm_id_destroy(scene->a.id, false);
	world_run(&scene->world);
	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_run(&scene->world);
	assert_seen(scene->b, SIMHCA_CM_REJ_RECEIVED, 1);
	assert_int_equal(scene->b.mad.rej.reason, SIMHCA_CM_REJ_INVALID_COMM_ID);
}

static void test_service_request(void **state)
{
	struct scene *scene = *state;
	struct simhca_cm_path path = end_path(&scene->a);
	struct simhca_cm_sidr_param param = {
		.service_id = WORLD_SERVICE,
		.timeout_ms = 4096,
		.max_retries = 15,
		.private_data = "who",
		.length = 3,
	};
	struct simhca_cm_sidr_rep rep = { .qpn = 99, .qkey = 0x01234567 };

	scene->world.lose[SIMHCA_CM_SIDR_REQ] = 1;
	assert_int_equal(simhca_cm_send_sidr_req(scene->a.id, &path, &param), 0);
	world_pass(&scene->world, 3 * 4096);
	/* However often it is repeated. */
	assert_seen(scene->b, SIMHCA_CM_SIDR_REQ_RECEIVED, 1);
	assert_memory_equal(scene->b.mad.sidr_req.private_data, "who", 3);
	assert_int_equal(simhca_cm_send_sidr_rep(scene->b.id, &rep, 0), 0);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_SIDR_REP_RECEIVED, 1);
	assert_int_equal(scene->a.mad.sidr_rep.status, SIMHCA_CM_SIDR_OK);
	assert_int_equal(scene->a.mad.sidr_rep.qpn, 99);
	assert_int_equal(scene->a.mad.sidr_rep.qkey, 0x01234567);
	assert_int_equal(scene->a.mad.sidr_rep.service_id, WORLD_SERVICE);

	param.service_id++;
	assert_int_equal(simhca_cm_send_sidr_req(scene->a.id, &path, &param), 0);
	world_run(&scene->world);
	assert_int_equal(scene->a.mad.sidr_rep.status, SIMHCA_CM_SIDR_UNSUPPORTED);

	scene->world.lose[SIMHCA_CM_SIDR_REQ] = 16;
	assert_int_equal(simhca_cm_send_sidr_req(scene->a.id, &path, &param), 0);
	world_pass(&scene->world, 16 * 4096);
	assert_seen(scene->a, SIMHCA_CM_SIDR_TIMEOUT, 1);
}

/* Both ends on one host: they find each other, and themselves apart. */
static void test_one_host(void **state)
{
	struct scene *scene = *state;
	struct host *host = &scene->world.host[0];
	struct simhca_cm_path path = end_path(&scene->a);
	struct simhca_cm_req req = { .service_id = WORLD_SERVICE, .qpn = 5, .max_cm_retries = 1 };

	path.dgid = path.sgid;
	host->passive = &scene->b;
	assert_int_equal(end_listen(host), 0);
	assert_int_equal(simhca_cm_send_req(scene->a.id, &path, &req, 0), 0);
	world_run(&scene->world);
	assert_int_equal(end_accept(&scene->b, 6), 0);
	world_run(&scene->world);
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	assert_state(scene->a, SIMHCA_CM_ESTABLISHED);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
	simhca_cm_id_destroy(scene->b.id, false);
	world_run(&scene->world);
	assert_seen(scene->a, SIMHCA_CM_DREQ_RECEIVED, 1);
}

/* The first bytes of every message: class, version, method, attribute (IBTA vol. 1, 13.4.3). */
static void forge(struct world *world, uint8_t mad[SIMHCA_MAD_BYTES])
{
	static const uint8_t header[] = { 1, 7, 2, 3, 0, 0, 0, 0 };

	for (int i = 0; i < SIMHCA_MAD_BYTES; i++)
		mad[i] = (uint8_t)world_random(world, 256);
	memcpy(mad, header, sizeof(header));
	mad[16] = 0;
	mad[17] = (uint8_t)(SIMHCA_CM_REQ + world_random(world, 9));
	if (!world_random(world, 4))
		mad[world_random(world, 24)] ^= (uint8_t)(1u << world_random(world, 8));
}

static void put_be32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* To both ends; half of them name the end by its number, if there is one. */
static void forge_many(struct scene *scene, const uint32_t number[2])
{
	struct world *world = &scene->world;
	uint8_t mad[SIMHCA_MAD_BYTES];

	for (unsigned int i = 0; i < 50000; i++) {
		struct end *to = i % 2 ? &scene->b : &scene->a;
		struct simhca_cm_path path = end_path(to);

		forge(world, mad);
		if (i & 2 && number[i % 2])
			put_be32(mad + 28, number[i % 2]);
		simhca_cm_receive(to->host->cm, &path, mad, sizeof(mad));
		world_run(world);
	}
}

/* MADs of somebody who makes them up: nothing comes of them, and nothing of them stays. */
static void test_forged(void **state)
{
	static const uint32_t unknown[2];
	struct scene *scene = *state;
	uint32_t number[2] = { 0 };

	assert_int_equal(end_connect(&scene->a, 17), 0);
	world_run(&scene->world);
	forge_many(scene, unknown);
	assert_state(scene->a, SIMHCA_CM_REQ_SENT);
	assert_state(scene->b, SIMHCA_CM_REQ_RCVD);

	assert_int_equal(end_accept(&scene->b, 18), 0);
	world_run(&scene->world);
	number[1] = scene->a.mad.rep.local_comm_id;
	forge_many(scene, number);
	assert_state(scene->a, SIMHCA_CM_REP_RCVD);
	assert_state(scene->b, SIMHCA_CM_REP_SENT);

	number[0] = scene->a.mad.rep.remote_comm_id;
	assert_int_equal(simhca_cm_send_rtu(scene->a.id), 0);
	world_run(&scene->world);
	forge_many(scene, number);
	assert_state(scene->a, SIMHCA_CM_ESTABLISHED);
	assert_state(scene->b, SIMHCA_CM_ESTABLISHED);
	assert_int_equal(ids(scene, 0), 1);
	assert_int_equal(ids(scene, 1), 2); /* one listens */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	static const struct CMUnitTest tests[] = {
		TEST(test_connection),
		TEST(test_request),
		TEST(test_nobody_listens),
		TEST(test_two_listeners),
		TEST(test_user_rejects),
		TEST(test_listener_refuses),
		TEST(test_listener_drops),
		TEST(test_destroyed_early),
		TEST(test_nobody_answers),
		TEST(test_lost_messages),
		TEST(test_end),
		TEST(test_both_end),
		TEST(test_destroyed),
		TEST(test_peer_is_gone),
		TEST(test_slow_user),
		TEST(test_user_never_answers),
		TEST(test_established_by_data),
		TEST(test_stale_connection),
		TEST(test_timewait),
		TEST(test_late_request),
		TEST(test_service_request),
		TEST(test_one_host),
		TEST(test_forged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
