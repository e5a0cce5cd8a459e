/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Makes the mistake with rdma_cm that its argument names. Exits with 0 when that has failed: by an
 * event, or by a call that is refused.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "helper.h"

#define PORT 7471
#define WAIT_MS 1000
#define SLEEP_S 4 /* longer than the device waits until it tells of it */

static const char *how;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct rdma_conn_param param = {
	.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7
};

static bool is(const char *mistake)
{
	return !strcmp(how, mistake);
}

static struct sockaddr_in address(uint32_t ip, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = ip,
				     .sin_port = port };
}

static struct rdma_cm_id *new_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, space));
	return id;
}

/* The next event, which has to be that one; the id that it is of. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == type);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static bool is_refused(int result, int error)
{
	return result && errno == error;
}

static int try_cm_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 4, 4, 1, 1, 0 }
	};

	CHECK(cq);
	return rdma_create_qp(id, NULL, &attr);
}

static void make_cm_qp(struct rdma_cm_id *id)
{
	CHECK(!try_cm_qp(id, id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC));
}

/* A listener at any address, on the port. */
static struct rdma_cm_id *serve_by(enum rdma_port_space space)
{
	/* librdmacm accepts nothing without a device, which it has by an address. */
	const uint32_t ip = is("accept_the_listener") ? INADDR_LOOPBACK : INADDR_ANY;
	struct sockaddr_in any = address(htonl(ip), htons(PORT));
	struct rdma_cm_id *id = new_id(space);

	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any));
	if (!is("nobody_listens") && !is("connect_after_refusal"))
		CHECK(!rdma_listen(id, 4));
	listener = id;
	return id;
}

static struct rdma_cm_id *serve(void)
{
	return serve_by(RDMA_PS_TCP);
}

/* Of an id that is no client's; false: it is none of these. */
static bool bind_or_join(void)
{
	struct sockaddr_in here = address(htonl(INADDR_LOOPBACK), 0);
	struct sockaddr_in elsewhere = address(inet_addr("8.8.8.8"), 0);
	struct sockaddr_in group = address(inet_addr("239.1.1.1"), 0);
	struct sockaddr_in taken = address(htonl(INADDR_ANY), htons(PORT));
	struct rdma_cm_id *id;

	if (is("bind_elsewhere")) {
		id = new_id(RDMA_PS_TCP);
		CHECK(is_refused(rdma_bind_addr(id, (struct sockaddr *)&elsewhere), EADDRNOTAVAIL));
	} else if (is("bind_taken")) {
		serve();
		id = new_id(RDMA_PS_TCP);
		CHECK(is_refused(rdma_bind_addr(id, (struct sockaddr *)&taken), EADDRNOTAVAIL));
	} else if (is("ud_qp_on_tcp") || is("rc_qp_on_udp")) {
		id = new_id(is("ud_qp_on_tcp") ? RDMA_PS_TCP : RDMA_PS_UDP);
		CHECK(!rdma_bind_addr(id, (struct sockaddr *)&here));
		CHECK(is_refused(try_cm_qp(id, is("ud_qp_on_tcp") ? IBV_QPT_UD : IBV_QPT_RC),
				 EINVAL));
	} else if (is("join_unbound")) {
		id = new_id(RDMA_PS_UDP);
		CHECK(is_refused(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL));
	} else if (is("join_on_tcp")) {
		id = new_id(RDMA_PS_TCP);
		CHECK(!rdma_bind_addr(id, (struct sockaddr *)&here));
		CHECK(is_refused(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL));
	} else {
		return false;
	}
	return true;
}

/* Up to a request that the server has got; false: the mistake is made before that. */
static bool request(struct rdma_cm_id **client, struct rdma_cm_id **server)
{
	struct sockaddr_in to = address(htonl(INADDR_LOOPBACK), htons(PORT));
	struct rdma_cm_id *id = new_id(is("other_port_space") ? RDMA_PS_UDP : RDMA_PS_TCP);

	if (is("port_reversed"))
		to.sin_port = PORT;
	else if (is("no_port"))
		to.sin_port = 0;
	else if (is("address_reversed"))
		to.sin_addr.s_addr = INADDR_LOOPBACK;
	serve();
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WAIT_MS));
	if (is("address_reversed")) {
		expect(RDMA_CM_EVENT_ADDR_ERROR);
		return false;
	}
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	make_cm_qp(id);
	if (is("connect_before_route")) {
		CHECK(is_refused(rdma_connect(id, &param), EINVAL));
		return false;
	}
	CHECK(!rdma_resolve_route(id, WAIT_MS));
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (is("resolve_twice")) {
		CHECK(is_refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WAIT_MS),
				 EINVAL));
		return false;
	}
	if (is("private_data")) {
		static const char data[57];

		param.private_data = data;
		param.private_data_len = sizeof(data);
		CHECK(is_refused(rdma_connect(id, &param), EINVAL));
		return false;
	}
	if (is("disconnect_unconnected")) {
		CHECK(is_refused(rdma_disconnect(id), EINVAL));
		return false;
	}
	CHECK(!rdma_connect(id, &param));
	if (is("port_reversed") || is("no_port") || is("nobody_listens") ||
	    is("connect_after_refusal")) {
		expect(RDMA_CM_EVENT_REJECTED);
		if (is("connect_after_refusal"))
			CHECK(is_refused(rdma_connect(id, &param), EINVAL));
		return false;
	}
	if (is("request_not_fetched")) {
		sleep(SLEEP_S);
		return false;
	}
	if (is("other_port_space")) {
		expect(RDMA_CM_EVENT_UNREACHABLE);
		return false;
	}
	*client = id;
	*server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!is("accept_without_qp"))
		make_cm_qp(*server);
	return true;
}

/* Whose listener has no room for one more of them. */
static void connect_too_many(enum rdma_port_space space)
{
	struct sockaddr_in to = address(htonl(INADDR_LOOPBACK), htons(PORT));
	struct rdma_event_channel *servers = channel;

	serve_by(space);
	channel = rdma_create_event_channel();
	CHECK(servers && channel);
	for (int i = 0; i < 5; i++) {
		struct rdma_cm_id *id = new_id(space);

		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WAIT_MS));
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		make_cm_qp(id);
		CHECK(!rdma_resolve_route(id, WAIT_MS));
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		CHECK(!rdma_connect(id, &param));
	}
	if (space == RDMA_PS_UDP)
		expect(RDMA_CM_EVENT_UNREACHABLE);
	else
		usleep(500000);
}

static void connect_wrongly(void)
{
	struct rdma_cm_id *client, *server;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	if (!request(&client, &server))
		return;
	if (is("connect_twice")) {
		CHECK(is_refused(rdma_connect(client, &param), EINVAL));
	} else if (is("connect_a_request")) {
		CHECK(is_refused(rdma_connect(server, &param), EINVAL));
	} else if (is("post_before_established")) {
		CHECK(post_send(client->qp, &wr) == EINVAL);
	} else if (is("accept_twice")) {
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(is_refused(rdma_accept(server, &param), EINVAL));
	} else if (is("answer_not_fetched")) {
		CHECK(!rdma_accept(server, &param));
		sleep(SLEEP_S);
	} else if (is("end_not_fetched") || is("end_not_answered")) {
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!rdma_disconnect(client));
		if (is("end_not_answered"))
			expect(RDMA_CM_EVENT_DISCONNECTED);
		sleep(SLEEP_S);
	} else if (!strcmp(how, "end_answered_late")) {
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!rdma_disconnect(client));
		CHECK(expect(RDMA_CM_EVENT_DISCONNECTED) == server);
		sleep(SLEEP_S);
		CHECK(!rdma_disconnect(server));
		CHECK(expect(RDMA_CM_EVENT_DISCONNECTED) == client);
		sleep(SLEEP_S / 2);
	} else if (is("reject_too_late")) {
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(is_refused(rdma_reject(server, NULL, 0), EINVAL));
	} else if (!strcmp(how, "answers_late")) {
		sleep(SLEEP_S);
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		sleep(SLEEP_S / 2);
	} else if (is("request_not_answered")) {
		sleep(SLEEP_S);
	} else if (is("accept_without_qp")) {
		struct ibv_send_wr send = { .opcode = IBV_WR_SEND,
					    .send_flags = IBV_SEND_SIGNALED };

		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!post_send(client->qp, &send));
		CHECK(poll_one(client->send_cq ? client->send_cq : client->qp->send_cq).status ==
		      IBV_WC_RETRY_EXC_ERR);
	} else if (is("accept_the_listener")) {
		CHECK(is_refused(rdma_accept(listener, &param), EINVAL));
	} else if (is("listen_twice")) {
		CHECK(rdma_listen(listener, 4));
	} else if (is("listen_on_a_client")) {
		CHECK(is_refused(rdma_listen(client, 4), EINVAL));
	} else if (is("route_twice")) {
		CHECK(rdma_resolve_route(client, WAIT_MS));
	} else if (is("connect_again")) {
		CHECK(!rdma_accept(server, &param));
		expect(RDMA_CM_EVENT_ESTABLISHED);
		expect(RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!rdma_disconnect(server));
		expect(RDMA_CM_EVENT_DISCONNECTED);
		CHECK(rdma_connect(client, &param));
	} else if (is("accept_too_late")) {
		rdma_destroy_qp(client);
		CHECK(!rdma_destroy_id(client));
		usleep(200000);
		CHECK(is_refused(rdma_accept(server, &param), EINVAL));
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	how = argc > 1 ? argv[1] : "";
	channel = rdma_create_event_channel();
	CHECK(channel);
	if (!strcmp(how, "serve")) {
		serve();
		puts("serves");
		fflush(stdout);
		pause();
	}
	if (is("backlog") || is("backlog_of_datagrams"))
		connect_too_many(is("backlog") ? RDMA_PS_TCP : RDMA_PS_UDP);
	else if (!bind_or_join())
		connect_wrongly();
	_exit(0);
}
