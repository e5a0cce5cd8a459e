/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An echo server of a thousand connections that has no event loop: each work request says which
 * function takes its completion.
 *
 *	struct slot {
 *		struct simhcadv_cqe received;	wr_id of the receive; its `done` sends the echo
 *		struct simhcadv_cqe sent;	wr_id of the send; its `done` posts the receive anew
 *		...
 *	};
 *
 * The connections are spread over as many CQs as the device has completion vectors. --context says
 * where callbacks run: in main()'s own loop, in a thread per vector, or in a pool of threads, where
 * they may block, as this one does now and then. The code is the same, but for that loop: callbacks
 * of one CQ never run at the same time, and all of a connection's completions are on one.
 *
 * The client sends a message on each connection, checks the echo, and sends the next.
 *
 *	simhca run -- cq_callbacks --context workqueue
 */
#include <errno.h>
#include <getopt.h>
#include <simhca/cq.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 2 /* receives of a connection */, WORDS = 30, BUDGET = 64 };

struct options {
	enum simhcadv_poll_context context;
	uint32_t qps;
	uint32_t messages; /* on each */
	int gid_index;
};

struct message {
	uint64_t connection;
	uint64_t number;
	uint64_t words[WORDS];
};

struct connection;

/* One receive and the send that answers it, in the same memory. */
struct slot {
	struct simhcadv_cqe received;
	struct simhcadv_cqe sent;
	struct connection *connection;
	struct message message;
};

struct connection {
	struct end *end;
	struct ibv_qp *qp;
	uint64_t number;    /* of the message that is under way: the client's */
	struct slot *slots; /* SLOTS for the server; the client sends the first and receives the
			       second */
};

struct end {
	const char *name;
	const struct options *options;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* over all slots */
	struct slot *slots;
	struct connection *connections;
	struct ibv_cq **cqs;
	int num_cqs;
	atomic_uint_fast64_t echoes;
	atomic_uint_fast64_t flushed; /* receives, when the connections end */
	sem_t done;
};

/* What each side tells the other before they are connected; then come the numbers of the QPs. */
struct hello {
	uint16_t lid;
	union ibv_gid gid;
};

static const char *const context_names[] = { "direct", "softirq", "workqueue" };

static void fail(const struct end *end, const char *what, int err)
{
	fprintf(stderr, "cq_callbacks: %s: %s: %s\n", end->name, what, strerror(err));
	exit(1);
}

static void *must(const struct end *end, const char *what, void *made)
{
	if (!made)
		fail(end, what, errno);
	return made;
}

static void succeeds(const struct end *end, const char *what, int err)
{
	if (err)
		fail(end, what, err);
}

/* ------------------------------------------------------------------------ what both ends do */

static struct ibv_context *open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	/* Any verbs device will do: callbacks are no matter of the device. */
	if (devices && devices[0])
		context = ibv_open_device(devices[0]);
	if (devices)
		ibv_free_device_list(devices);
	return context;
}

static void open_end(struct end *end, enum simhcadv_poll_context poll_ctx)
{
	uint32_t i, qps = end->options->qps;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	size_t bytes = (size_t)qps * SLOTS * sizeof(*end->slots);

	end->context = open_device();
	if (!end->context) {
		fprintf(stderr,
			"cq_callbacks: %s: no RDMA device here; start it as simhca run -- "
			"cq_callbacks\n",
			end->name);
		exit(1);
	}
	end->pd = must(end, "ibv_alloc_pd", ibv_alloc_pd(end->context));
	end->slots = must(end, "calloc", calloc(1, bytes));
	end->mr = must(end, "ibv_reg_mr",
		       ibv_reg_mr(end->pd, end->slots, bytes, IBV_ACCESS_LOCAL_WRITE));
	end->connections = must(end, "calloc", calloc(qps, sizeof(*end->connections)));

	end->num_cqs = end->context->num_comp_vectors;
	end->cqs = must(end, "calloc", calloc((size_t)end->num_cqs, sizeof(struct ibv_cq *)));
	for (i = 0; i < (uint32_t)end->num_cqs; i++)
		end->cqs[i] =
			must(end, "simhcadv_alloc_cq",
			     simhcadv_alloc_cq(end->context, end,
					       (int)(qps / (uint32_t)end->num_cqs + 1) * 2 * SLOTS,
					       (int)i, poll_ctx));

	attr.cap.max_send_wr = attr.cap.max_recv_wr = SLOTS;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	for (i = 0; i < qps; i++) {
		end->connections[i].end = end;
		end->connections[i].slots = &end->slots[(size_t)i * SLOTS];
		end->connections[i].slots[0].connection = &end->connections[i];
		end->connections[i].slots[1].connection = &end->connections[i];
		attr.send_cq = attr.recv_cq = end->cqs[i % (uint32_t)end->num_cqs];
		end->connections[i].qp = must(end, "ibv_create_qp", ibv_create_qp(end->pd, &attr));
	}
}

static struct ibv_sge sge_of(struct slot *slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&slot->message,
		.length = sizeof(slot->message),
		.lkey = slot->connection->end->mr->lkey,
	};

	return sge;
}

static void post_receive(struct slot *slot)
{
	struct ibv_sge sge = sge_of(slot);
	struct ibv_recv_wr wr = {
		.wr_id = (uintptr_t)&slot->received,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	succeeds(slot->connection->end, "ibv_post_recv",
		 ibv_post_recv(slot->connection->qp, &wr, &bad));
}

static void post_send(struct slot *slot)
{
	struct ibv_sge sge = sge_of(slot);
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)&slot->sent,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	succeeds(slot->connection->end, "ibv_post_send",
		 ibv_post_send(slot->connection->qp, &wr, &bad));
}

static void exchange(const struct end *end, int socket, const void *mine, void *theirs, size_t size)
{
	const char *from = mine;
	char *to = theirs;
	size_t sent = 0, got = 0;
	ssize_t some;

	while (sent < size || got < size) {
		struct pollfd pfd = { .fd = socket, .events = POLLIN };

		if (sent < size)
			pfd.events |= POLLOUT;
		if (poll(&pfd, 1, -1) < 0)
			continue;
		if (pfd.revents & POLLOUT) {
			some = send(socket, from + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
			sent += some > 0 ? (size_t)some : 0;
		}
		if (pfd.revents & (POLLIN | POLLHUP) && got < size) {
			some = recv(socket, to + got, size - got, 0);
			if (some <= 0)
				fail(end, "the other end is gone", EPIPE);
			got += (size_t)some;
		}
	}
}

/* Both are here, and have done what comes before. */
static void meet(const struct end *end, int socket)
{
	char mine = 0, theirs;

	exchange(end, socket, &mine, &theirs, 1);
}

static void to_state(const struct connection *connection, struct ibv_qp_attr *attr,
		     enum ibv_qp_state state, int mask)
{
	attr->qp_state = state;
	succeeds(connection->end, "ibv_modify_qp",
		 ibv_modify_qp(connection->qp, attr, IBV_QP_STATE | mask));
}

static void connect_end(struct end *end, int socket)
{
	uint32_t i, qps = end->options->qps;
	uint32_t *mine = must(end, "calloc", calloc(qps, sizeof(*mine)));
	uint32_t *theirs = must(end, "calloc", calloc(qps, sizeof(*theirs)));
	struct hello hello = {}, other;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr.port_num = 1,
	};

	succeeds(end, "ibv_query_port", ibv_query_port(end->context, 1, &port));
	hello.lid = port.lid;
	if (ibv_query_gid(end->context, 1, end->options->gid_index, &hello.gid))
		fail(end, "ibv_query_gid", errno);
	for (i = 0; i < qps; i++)
		mine[i] = end->connections[i].qp->qp_num;
	exchange(end, socket, &hello, &other, sizeof(hello));
	exchange(end, socket, mine, theirs, qps * sizeof(*mine));

	attr.path_mtu = port.active_mtu;
	attr.ah_attr.dlid = other.lid;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = other.gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)end->options->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	for (i = 0; i < qps; i++) {
		attr.dest_qp_num = theirs[i];
		to_state(&end->connections[i], &attr, IBV_QPS_INIT,
			 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		to_state(&end->connections[i], &attr, IBV_QPS_RTR,
			 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		to_state(&end->connections[i], &attr, IBV_QPS_RTS,
			 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC);
	}
	free(mine);
	free(theirs);
}

/* DIRECT: the callbacks of what is there; how many. */
static int process_all(struct end *end)
{
	int i, processed, total = 0;

	for (i = 0; i < end->num_cqs; i++) {
		processed = simhcadv_process_cq_direct(end->cqs[i], BUDGET);
		if (processed < 0)
			fail(end, "simhcadv_process_cq_direct", -processed);
		total += processed;
	}
	return total;
}

/*
 * Whatever is posted completes as flushed once its QP is in the error state, and when all of it
 * has, no callback refers to the slots any more.
 */
static void close_end(struct end *end, bool direct, uint64_t posted)
{
	uint32_t i;

	for (i = 0; i < end->options->qps; i++) {
		struct ibv_qp_attr attr = {};

		to_state(&end->connections[i], &attr, IBV_QPS_ERR, 0);
	}
	while (end->flushed < posted)
		if (!direct || !process_all(end))
			sched_yield();
	for (i = 0; i < end->options->qps; i++)
		succeeds(end, "ibv_destroy_qp", ibv_destroy_qp(end->connections[i].qp));
	for (i = 0; i < (uint32_t)end->num_cqs; i++)
		succeeds(end, "simhcadv_free_cq", simhcadv_free_cq(end->cqs[i]));
	succeeds(end, "ibv_dereg_mr", ibv_dereg_mr(end->mr));
	succeeds(end, "ibv_dealloc_pd", ibv_dealloc_pd(end->pd));
	succeeds(end, "ibv_close_device", ibv_close_device(end->context));
	free(end->cqs);
	free(end->connections);
	free(end->slots);
}

/* True for a completion that counts; false: the connection has ended. */
static bool check(struct end *end, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		atomic_fetch_add(&end->flushed, 1);
		return false;
	}
	if (wc->status) {
		fprintf(stderr, "cq_callbacks: %s: %s, vendor_err %u\n", end->name,
			ibv_wc_status_str(wc->status), wc->vendor_err);
		exit(1);
	}
	return true;
}

#define SLOT_OF(wc, member)                                                                        \
	((struct slot *)((char *)(uintptr_t)(wc)->wr_id - offsetof(struct slot, member)))

/* ---------------------------------------------------------------------------- server */

static void request_received(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct slot *slot = SLOT_OF(wc, received);
	struct end *end = cq->cq_context;

	if (!check(end, wc))
		return;
	/* As if this one had to be fetched from a disk: the other CQs go on. */
	if (end->options->context == SIMHCADV_POLL_WORKQUEUE && slot->message.number % 500 == 499)
		usleep(1000);
	post_send(slot);
}

static void echo_sent(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct slot *slot = SLOT_OF(wc, sent);
	struct end *end = cq->cq_context;

	if (!check(end, wc))
		return;
	atomic_fetch_add(&end->echoes, 1);
	post_receive(slot);
}

static void server(const struct options *options, int socket)
{
	bool direct = options->context == SIMHCADV_POLL_DIRECT;
	struct end end = { .name = "server", .options = options };
	uint64_t total = (uint64_t)options->qps * options->messages;
	uint32_t i;

	open_end(&end, options->context);
	connect_end(&end, socket);
	for (i = 0; i < options->qps * SLOTS; i++) {
		end.slots[i].received.done = request_received;
		end.slots[i].sent.done = echo_sent;
		post_receive(&end.slots[i]);
	}
	meet(&end, socket);

	/* The other two contexts need nothing of this thread. */
	while (direct && end.echoes < total)
		if (!process_all(&end))
			sched_yield();
	meet(&end, socket);
	/* The client has all echoes, but the last sends may have completed this very moment. */
	while (end.echoes < total)
		sched_yield();
	close_end(&end, direct, (uint64_t)options->qps * SLOTS);
}

/* ---------------------------------------------------------------------------- client */

static uint64_t word(const struct message *message, uint32_t i)
{
	uint64_t x = (message->connection << 32 | message->number) * 0x9e3779b97f4a7c15u + i;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

static void send_request(struct connection *connection)
{
	struct slot *to_send = &connection->slots[0], *to_receive = &connection->slots[1];
	uint32_t i;

	to_send->message.connection = (uint64_t)(connection - connection->end->connections);
	to_send->message.number = connection->number;
	for (i = 0; i < WORDS; i++)
		to_send->message.words[i] = word(&to_send->message, i);
	memset(&to_receive->message, 0, sizeof(to_receive->message));
	post_receive(to_receive);
	post_send(to_send);
}

static void request_sent(struct ibv_cq *cq, struct ibv_wc *wc)
{
	check(cq->cq_context, wc);
}

/* The echo may be here before the completion of the request: they are two queues. */
static void echo_received(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct slot *slot = SLOT_OF(wc, received);
	struct connection *connection = slot->connection;
	struct end *end = cq->cq_context;
	uint32_t i;

	if (!check(end, wc))
		return;
	for (i = 0; i < WORDS; i++)
		if (slot->message.words[i] != word(&slot->message, i))
			break;
	if (i < WORDS || wc->byte_len != sizeof(slot->message) ||
	    slot->message.connection != (uint64_t)(connection - end->connections) ||
	    slot->message.number != connection->number) {
		fprintf(stderr, "cq_callbacks: client: an echo is not what was sent\n");
		exit(1);
	}
	if (++connection->number < end->options->messages)
		send_request(connection);
	if (atomic_fetch_add(&end->echoes, 1) + 1 ==
	    (uint64_t)end->options->qps * end->options->messages)
		sem_post(&end->done);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void client(const struct options *options, int socket)
{
	struct end end = { .name = "client", .options = options };
	uint64_t total = (uint64_t)options->qps * options->messages;
	double start;
	uint32_t i;

	if (sem_init(&end.done, 0, 0))
		fail(&end, "sem_init", errno);
	open_end(&end, SIMHCADV_POLL_SOFTIRQ);
	connect_end(&end, socket);
	meet(&end, socket);
	start = now();
	for (i = 0; i < options->qps; i++) {
		end.connections[i].slots[0].sent.done = request_sent;
		end.connections[i].slots[1].received.done = echo_received;
		send_request(&end.connections[i]);
	}
	while (sem_wait(&end.done))
		;
	start = now() - start;
	meet(&end, socket);
	close_end(&end, false, 0);
	printf("%" PRIu32 " QPs, %" PRIu64 " echoes by %s, checked: %.0f a second\n", options->qps,
	       total, context_names[options->context], (double)total / start);
}

/* ------------------------------------------------------------------------------- main */

static void usage(FILE *to)
{
	fprintf(to, "Usage: cq_callbacks [OPTION]...\n"
		    "\n"
		    "An echo server by completion callbacks, and its client.\n"
		    "\n"
		    "  -c, --context NAME   where the server's callbacks run: direct, softirq or\n"
		    "                       workqueue (softirq)\n"
		    "  -q, --qps N          connections, 1 to 10000 (1000)\n"
		    "  -n, --messages N     on each connection (20)\n"
		    "  -g, --gid-index N    of the GID to connect with (0)\n"
		    "  -h, --help           this\n");
}

static uint32_t number(const char *option, const char *text, uint32_t min, uint32_t max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || value < min || value > max) {
		fprintf(stderr, "cq_callbacks: --%s %s: must be %" PRIu32 " to %" PRIu32 "\n",
			option, text, min, max);
		exit(2);
	}
	return (uint32_t)value;
}

static enum simhcadv_poll_context context_named(const char *name)
{
	int i;

	for (i = 0; i < 3; i++)
		if (!strcmp(name, context_names[i]))
			return (enum simhcadv_poll_context)i;
	fprintf(stderr, "cq_callbacks: --context %s: must be direct, softirq or workqueue\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "context", required_argument, NULL, 'c' },
		{ "qps", required_argument, NULL, 'q' },
		{ "messages", required_argument, NULL, 'n' },
		{ "gid-index", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	struct options options = { .context = SIMHCADV_POLL_SOFTIRQ, .qps = 1000, .messages = 20 };
	int option, status, sockets[2];
	pid_t child;

	while ((option = getopt_long(argc, argv, "c:q:n:g:h", long_options, NULL)) >= 0) {
		switch (option) {
		case 'c':
			options.context = context_named(optarg);
			break;
		case 'q':
			options.qps = number("qps", optarg, 1, 10000);
			break;
		case 'n':
			options.messages = number("messages", optarg, 1, UINT32_MAX);
			break;
		case 'g':
			options.gid_index = (int)number("gid-index", optarg, 0, 255);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "cq_callbacks: %s: takes no arguments\n", argv[optind]);
		return 2;
	}

	/* Before any thread or device is there: each process has its own. */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || (child = fork()) < 0) {
		perror("cq_callbacks");
		return 1;
	}
	if (!child) {
		close(sockets[0]);
		server(&options, sockets[1]);
		return 0;
	}
	close(sockets[1]);
	client(&options, sockets[0]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "cq_callbacks: the server failed\n");
		return 1;
	}
	return 0;
}
