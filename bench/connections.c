/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Many connections by rdma_cm, to a server that is a process of its own.
 *
 *	connections connections N	N of one process, each with a QP
 *	connections connecting N	one each of N processes, which all begin at the same time
 *
 * Prints the seconds that each step took, and after "ready" waits for the end of its input, so that
 * somebody can look at the daemon meanwhile. Then all of them go.
 */
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

#define BACKLOG 1024
#define IN_FLIGHT                                                                                  \
	(BACKLOG / 2) /* requests beyond the backlog are dropped, and repeated after 6 s */
#define TIMEOUT_MS 10000
#define LIMIT 600 /* seconds */

static struct meeting {
	_Atomic uint16_t port; /* of the server; 0: it does not listen yet */
	_Atomic unsigned int here, connected, end;
} * meeting;

static void wait_for(_Atomic unsigned int *counter, unsigned int count)
{
	while (atomic_load(counter) < count)
		usleep(1000);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = port,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void make_qp(struct rdma_cm_id *id)
{
	static struct ibv_pd *pd;
	static struct ibv_cq *cq;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	if (!pd)
		pd = ibv_alloc_pd(id->verbs);
	if (!cq)
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	if (!pd || !cq || rdma_create_qp(id, pd, &init))
		die("rdma_create_qp");
}

static void connect_id(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };

	if (rdma_connect(id, &param))
		die("rdma_connect");
}

static void finish(struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("rdma_destroy_id");
}

/* ------------------------------------------------------------------------------- the server */

static void serve_one(struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;

	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		make_qp(id);
		if (rdma_accept(id, &param))
			die("rdma_accept");
	} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
		finish(id);
	} else if (type != RDMA_CM_EVENT_ESTABLISHED) {
		fprintf(stderr, "server: %s\n", rdma_event_str(type));
		exit(1);
	}
}

static void serve(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&address) || rdma_listen(id, BACKLOG))
		die("rdma_listen");
	atomic_store(&meeting->port, rdma_get_src_port(id));
	while (!rdma_get_cm_event(channel, &event))
		serve_one(event);
	die("rdma_get_cm_event");
}

/* ------------------------------------------------------------------------------- one process */

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "client: %s instead of %s\n", rdma_event_str(event->event),
			rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static void connections(unsigned int count)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = loopback(atomic_load(&meeting->port));
	struct rdma_cm_id **id = calloc(count, sizeof(struct rdma_cm_id *));
	double start = seconds();

	if (!channel || !id)
		die("set-up");
	for (unsigned int i = 0; i < count; i++) {
		if (rdma_create_id(channel, &id[i], NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id[i], NULL, (struct sockaddr *)&address, TIMEOUT_MS))
			die("rdma_resolve_addr");
		expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(id[i], TIMEOUT_MS))
			die("rdma_resolve_route");
		expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		make_qp(id[i]);
	}
	start = step("create", start);
	for (unsigned int i = 0; i < count + IN_FLIGHT; i++) {
		if (i < count)
			connect_id(id[i]);
		if (i >= IN_FLIGHT)
			expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	}
	step("connect", start);
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		finish(id[i]);
	step("destroy", start);
}

/* ---------------------------------------------------------------------------- many processes */

static void connect_alone(unsigned int count)
{
	struct sockaddr_in address = loopback(atomic_load(&meeting->port));
	struct rdma_cm_id *id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIMIT);
	atomic_fetch_add(&meeting->here, 1);
	wait_for(&meeting->here, count);
	/* Without a channel each call waits for its event. */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, TIMEOUT_MS) ||
	    rdma_resolve_route(id, TIMEOUT_MS))
		die("rdma_resolve_route");
	make_qp(id);
	connect_id(id);
	atomic_fetch_add(&meeting->connected, 1);
	wait_for(&meeting->end, 1);
	finish(id);
	exit(0);
}

static void reap(unsigned int count)
{
	int status;

	while (count--) {
		if (wait(&status) < 0 || status) {
			fprintf(stderr, "a process failed\n");
			exit(1);
		}
	}
}

static void connecting(unsigned int count)
{
	double start;

	for (unsigned int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			connect_alone(count);
	}
	wait_for(&meeting->here, count);
	start = seconds();
	wait_for(&meeting->connected, count);
	step("connect", start);
	wait_for_end();
	start = seconds();
	atomic_store(&meeting->end, 1);
	reap(count);
	step("destroy", start);
}

int main(int argc, char *argv[])
{
	unsigned int count = argc == 3 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0;
	int one = count && !strcmp(argv[1], "connections");
	pid_t server;

	if (!one && (!count || strcmp(argv[1], "connecting"))) {
		fprintf(stderr, "usage: connections connections|connecting N\n");
		return 2;
	}
	alarm(LIMIT);
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED)
		die("mmap");
	server = fork();
	if (server < 0)
		die("fork");
	if (!server)
		serve();
	while (!atomic_load(&meeting->port) && !waitpid(server, NULL, WNOHANG))
		usleep(1000);
	if (one)
		connections(count);
	else
		connecting(count);
	return kill(server, SIGKILL);
}
