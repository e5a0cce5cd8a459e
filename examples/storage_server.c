/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A server in the manner of storage: what a client asks for lies scattered over the server's
 * memory, and only for as long as the client reads it may the client reach it.
 *
 *   client                                server
 *     SEND request            ----------->  picks pages, fills them
 *                                           FAST_REG: one key for these pages, and no others
 *                             <-----------  SEND reply: key, address, length
 *     RDMA READ               ----------->  (its CPU has no part in this)
 *     checks the data
 *     SEND_WITH_INV           ----------->  the key is void; the message is the next request
 *
 * No system call and no command to the device in any of it. --depth rounds are under way at once,
 * each with a region and a page list of its own. In the end the client uses its last key once
 * more, and must be refused.
 *
 *	simhca run -- storage_server
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/simhcadv.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_SHIFT = 12, PAGE = 1 << PAGE_SHIFT, POOL_PAGES = 4096 };

#define FIRST_IOVA 0x100000000000u

struct options {
	uint64_t cycles;
	uint32_t depth; /* rounds under way at once */
	uint32_t pages; /* of one round */
	int gid_index;
};

struct request {
	uint32_t slot; /* which of the rounds under way */
	uint32_t last; /* 1: no further request in this slot */
	uint64_t cycle;
};

struct reply {
	uint64_t addr;
	uint64_t cycle;
	uint32_t length;
	uint32_t rkey;
	uint32_t slot;
	uint32_t reserved;
};

/* What each side tells the other before they are connected. */
struct hello {
	uint32_t qpn;
	uint16_t lid;
	union ibv_gid gid;
};

union message {
	struct request request;
	struct reply reply;
};

struct end {
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union message *messages; /* depth to send, then depth to receive */
	struct ibv_mr *mr;	 /* over them */
	uint32_t depth;
};

static void fail(const struct end *end, const char *what, int err)
{
	fprintf(stderr, "storage_server: %s: %s: %s\n", end->name, what, strerror(err));
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

/* Every byte of every round has a value of its own, as far as 64 bits go. */
static uint64_t word(uint64_t cycle, uint64_t offset)
{
	uint64_t x = cycle * 0x9e3779b97f4a7c15u + offset;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

/* Where in its first page a round begins, and how many bytes short of the last one's end it is. */
static uint32_t margin(uint64_t cycle)
{
	return (uint32_t)(cycle % 8) * 64;
}

static uint32_t round_length(const struct options *options, uint64_t cycle)
{
	return options->pages * PAGE - 2 * margin(cycle);
}

/* ------------------------------------------------------------------ what both ends do */

/* The first device of simhca; NULL if there is none. */
static struct ibv_context *open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; devices && devices[i] && !context; i++)
		if (simhcadv_is_supported(devices[i]))
			context = ibv_open_device(devices[i]);
	if (devices)
		ibv_free_device_list(devices);
	return context;
}

static void open_end(struct end *end, const struct options *options)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	end->context = open_device();
	if (!end->context) {
		fprintf(stderr,
			"storage_server: %s: no device of simhca here; start it as "
			"simhca run -- storage_server\n",
			end->name);
		exit(1);
	}
	end->depth = options->depth;
	end->pd = must(end, "ibv_alloc_pd", ibv_alloc_pd(end->context));
	end->channel = must(end, "ibv_create_comp_channel", ibv_create_comp_channel(end->context));
	end->cq = must(end, "ibv_create_cq",
		       ibv_create_cq(end->context, (int)options->depth * 4, NULL, end->channel, 0));
	attr.send_cq = attr.recv_cq = end->cq;
	attr.cap.max_send_wr = options->depth * 2; /* FAST_REG and reply; or READ and request */
	attr.cap.max_recv_wr = options->depth;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	end->qp = must(end, "ibv_create_qp", ibv_create_qp(end->pd, &attr));

	end->messages =
		must(end, "calloc", calloc(2 * (size_t)options->depth, sizeof(*end->messages)));
	end->mr = must(end, "ibv_reg_mr",
		       ibv_reg_mr(end->pd, end->messages,
				  2 * (size_t)options->depth * sizeof(*end->messages),
				  IBV_ACCESS_LOCAL_WRITE));
}

static struct ibv_sge message_sge(const struct end *end, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&end->messages[index],
		.length = sizeof(end->messages[index]),
		.lkey = end->mr->lkey,
	};

	return sge;
}

static void post_receive(struct end *end, uint32_t index)
{
	struct ibv_sge sge = message_sge(end, index);
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;

	succeeds(end, "ibv_post_recv", ibv_post_recv(end->qp, &wr, &bad));
}

static void post_receives(struct end *end)
{
	uint32_t i;

	for (i = 0; i < end->depth; i++)
		post_receive(end, end->depth + i);
}

/* What the two say beside the QP: that they are ready, that they are done. */
static void tell(const struct end *end, int socket)
{
	if (write(socket, "", 1) != 1)
		fail(end, "the other end is gone", EPIPE);
}

static void await(const struct end *end, int socket)
{
	char byte;

	if (read(socket, &byte, 1) != 1)
		fail(end, "the other end is gone", EPIPE);
}

static void connect_end(struct end *end, const struct options *options, int socket)
{
	struct hello mine = { .qpn = end->qp->qp_num }, theirs;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_4096,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	succeeds(end, "ibv_query_port", ibv_query_port(end->context, 1, &port));
	mine.lid = port.lid;
	if (ibv_query_gid(end->context, 1, options->gid_index, &mine.gid))
		fail(end, "ibv_query_gid", errno);
	if (write(socket, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(socket, &theirs, sizeof(theirs)) != sizeof(theirs))
		fail(end, "the other end is gone", EPIPE);

	attr.path_mtu = port.active_mtu;
	attr.dest_qp_num = theirs.qpn;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.dlid = theirs.lid;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = theirs.gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)options->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	succeeds(end, "to INIT",
		 ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS));
	post_receives(end);
	attr.qp_state = IBV_QPS_RTR;
	succeeds(end, "to RTR",
		 ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	succeeds(end, "to RTS",
		 ibv_modify_qp(end->qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	tell(end, socket);
	await(end, socket);
}

/* The next completion, for which it sleeps. */
static struct ibv_wc next_completion(struct end *end)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *unused;

	while (!ibv_poll_cq(end->cq, 1, &wc)) {
		succeeds(end, "ibv_req_notify_cq", ibv_req_notify_cq(end->cq, 0));
		/* One that came before we asked raises no event. */
		if (ibv_poll_cq(end->cq, 1, &wc))
			break;
		if (ibv_get_cq_event(end->channel, &cq, &unused))
			fail(end, "ibv_get_cq_event", errno);
		ibv_ack_cq_events(cq, 1);
	}
	return wc;
}

static struct ibv_wc next_success(struct end *end)
{
	struct ibv_wc wc = next_completion(end);

	if (wc.status) {
		fprintf(stderr, "storage_server: %s: %s, vendor_err %u\n", end->name,
			ibv_wc_status_str(wc.status), wc.vendor_err);
		exit(1);
	}
	return wc;
}

static void close_end(struct end *end)
{
	succeeds(end, "ibv_destroy_qp", ibv_destroy_qp(end->qp));
	succeeds(end, "ibv_destroy_cq", ibv_destroy_cq(end->cq));
	succeeds(end, "ibv_destroy_comp_channel", ibv_destroy_comp_channel(end->channel));
	succeeds(end, "ibv_dereg_mr", ibv_dereg_mr(end->mr));
	succeeds(end, "ibv_dealloc_pd", ibv_dealloc_pd(end->pd));
	succeeds(end, "ibv_close_device", ibv_close_device(end->context));
	free(end->messages);
}

/* ---------------------------------------------------------------------------- server */

struct slot {
	struct ibv_mr *mr;
	struct simhcadv_page_list *list;
	struct request request;
	int waiting; /* for what is still to come before the request can be served */
	int served;  /* mr->rkey is at the client */
};

/*
 * Pages for this slot, scattered over its share of the pool, and what is in them. The order in
 * the list is the order in which the client sees them.
 */
static void gather(struct slot *slot, const struct options *options, uint8_t *pool)
{
	uint32_t share = POOL_PAGES / options->depth;
	uint32_t skip = margin(slot->request.cycle);
	uint32_t length = round_length(options, slot->request.cycle);
	uint64_t start = word(slot->request.cycle, 1) % share;
	uint64_t *pages = slot->list->page_list;
	uint32_t i;

	for (i = 0; i < options->pages; i++) {
		/* A step that has no factor in common with the share meets each page once. */
		uint64_t page =
			(start + (uint64_t)i * 1021) % share * options->depth + slot->request.slot;

		pages[i] = (uintptr_t)pool + page * PAGE;
	}
	for (i = 0; i < length; i += 8) {
		uint32_t at = skip + i;
		uint64_t *to = (uint64_t *)(uintptr_t)(pages[at / PAGE] + at % PAGE);

		*to = word(slot->request.cycle, i);
	}
}

static void serve(struct end *end, struct slot *slot, const struct options *options, uint8_t *pool)
{
	uint64_t cycle = slot->request.cycle;
	uint32_t index = slot->request.slot;
	struct ibv_sge sge = message_sge(end, index);
	struct simhcadv_fast_reg_wr reg = {
		.wr_id = index,
		.fast_reg = {
			.iova_start = FIRST_IOVA + margin(cycle),
			.page_list = slot->list,
			.page_list_len = options->pages,
			.page_shift = PAGE_SHIFT,
			.length = round_length(options, cycle),
			.access = IBV_ACCESS_REMOTE_READ,
		},
	}, *bad_reg;
	struct ibv_send_wr reply = {
		.wr_id = index,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	gather(slot, options, pool);
	/* A key that the client keeps from an earlier round shall not fit. */
	succeeds(end, "simhcadv_update_key",
		 simhcadv_update_key(slot->mr, (uint8_t)(slot->mr->rkey + 1)));
	reg.fast_reg.rkey = slot->mr->rkey;
	end->messages[index].reply = (struct reply){
		.addr = reg.fast_reg.iova_start,
		.cycle = cycle,
		.length = (uint32_t)reg.fast_reg.length,
		.rkey = slot->mr->rkey,
		.slot = index,
	};
	/* No completion between the two: the send queue keeps their order. */
	succeeds(end, "simhcadv_post_fast_reg", simhcadv_post_fast_reg(end->qp, &reg, &bad_reg));
	succeeds(end, "ibv_post_send", ibv_post_send(end->qp, &reply, &bad));
	slot->waiting = 2; /* for the completion of the reply, and for the next request */
	slot->served = 1;
}

/* A request came; if the slot was served before, it must have come as an invalidation. */
static struct slot *take_request(struct end *end, struct slot *slots, const struct ibv_wc *wc)
{
	const struct request *request = &end->messages[wc->wr_id].request;
	struct slot *slot = &slots[request->slot % end->depth];

	if (slot->served &&
	    (!(wc->wc_flags & IBV_WC_WITH_INV) || wc->invalidated_rkey != slot->mr->rkey)) {
		fprintf(stderr, "storage_server: server: the key %#x was not invalidated\n",
			slot->mr->rkey);
		exit(1);
	}
	slot->request = *request;
	post_receive(end, (uint32_t)wc->wr_id);
	return slot;
}

static void server(const struct options *options, int socket)
{
	struct end end = { .name = "server" };
	struct slot *slots;
	uint32_t i, open = options->depth;
	uint8_t *pool;

	open_end(&end, options);
	slots = must(&end, "calloc", calloc(options->depth, sizeof(*slots)));
	for (i = 0; i < options->depth; i++) {
		slots[i].mr =
			must(&end, "simhcadv_alloc_mr", simhcadv_alloc_mr(end.pd, options->pages));
		slots[i].list = must(&end, "simhcadv_alloc_page_list",
				     simhcadv_alloc_page_list(end.context, options->pages));
		slots[i].waiting = 1;
	}
	pool = mmap(NULL, (size_t)POOL_PAGES * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool == MAP_FAILED)
		fail(&end, "mmap", errno);
	connect_end(&end, options, socket);

	while (open) {
		struct ibv_wc wc = next_success(&end);
		struct slot *slot =
			wc.opcode & IBV_WC_RECV ? take_request(&end, slots, &wc) : &slots[wc.wr_id];

		if (--slot->waiting)
			continue;
		if (slot->request.last)
			open--;
		else
			serve(&end, slot, options, pool);
	}

	/* The client is still trying its last key. */
	await(&end, socket);
	for (i = 0; i < options->depth; i++) {
		succeeds(&end, "simhcadv_free_page_list", simhcadv_free_page_list(slots[i].list));
		succeeds(&end, "ibv_dereg_mr", ibv_dereg_mr(slots[i].mr));
	}
	close_end(&end);
	free(slots);
	munmap(pool, (size_t)POOL_PAGES * PAGE);
}

/* ---------------------------------------------------------------------------- client */

struct asked {
	struct reply reply;
	int waiting; /* for what is still to come before the slot can ask again */
	bool last;
};

struct client {
	struct end end;
	const struct options *options;
	uint64_t *data; /* pages for each slot */
	struct ibv_mr *data_mr;
	struct asked *slots;
	uint64_t next_cycle;
};

/* Ask for the next round; the key of the round before, if there was one, is to be invalidated. */
static void ask(struct client *client, uint32_t index)
{
	struct end *end = &client->end;
	struct asked *slot = &client->slots[index];
	struct ibv_sge sge = message_sge(end, index);
	struct ibv_send_wr wr = {
		.wr_id = index,
		.opcode = slot->reply.rkey ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.invalidate_rkey = slot->reply.rkey,
	}, *bad;

	slot->last = client->next_cycle == client->options->cycles;
	end->messages[index].request = (struct request){
		.slot = index,
		.last = slot->last,
		.cycle = slot->last ? 0 : client->next_cycle++,
	};
	succeeds(end, "ibv_post_send", ibv_post_send(end->qp, &wr, &bad));
	slot->waiting = slot->last ? 1 : 2; /* for the completion, and for data that was checked */
}

static uint64_t *slot_data(const struct client *client, uint32_t slot)
{
	return client->data + (size_t)slot * client->options->pages * (PAGE / 8);
}

static void read_data(struct client *client, const struct reply *reply)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot_data(client, reply->slot),
		.length = reply->length,
		.lkey = client->data_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = reply->slot,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = reply->addr, .rkey = reply->rkey },
	}, *bad;

	succeeds(&client->end, "ibv_post_send", ibv_post_send(client->end.qp, &wr, &bad));
}

static void check_data(const struct client *client, const struct reply *reply)
{
	const uint64_t *data = slot_data(client, reply->slot);
	uint32_t i;

	for (i = 0; i < reply->length; i += 8) {
		if (data[i / 8] == word(reply->cycle, i))
			continue;
		fprintf(stderr, "storage_server: client: cycle %" PRIu64 ": byte %u is wrong\n",
			reply->cycle, i);
		exit(1);
	}
}

/* The key of the last round, once more. */
static void expect_refusal(struct client *client, const struct reply *reply)
{
	struct ibv_wc wc;

	read_data(client, reply);
	do
		wc = next_completion(&client->end);
	while (!wc.status);
	if (wc.status == IBV_WC_REM_ACCESS_ERR)
		return;
	fprintf(stderr,
		"storage_server: client: the key is invalid, but a read with it ends with %s\n",
		ibv_wc_status_str(wc.status));
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Returns the slot that the completion is of, or NULL if it is only the start of a read. */
static struct asked *progress(struct client *client, const struct ibv_wc *wc)
{
	struct end *end = &client->end;
	struct asked *slot;

	if (wc->opcode & IBV_WC_RECV) {
		const struct reply *reply = &end->messages[wc->wr_id].reply;

		if (reply->slot >= end->depth || reply->length > client->options->pages * PAGE)
			fail(end, "reply", EPROTO);
		slot = &client->slots[reply->slot];
		slot->reply = *reply;
		post_receive(end, (uint32_t)wc->wr_id);
		read_data(client, &slot->reply);
		return NULL;
	}
	slot = &client->slots[wc->wr_id];
	if (wc->opcode == IBV_WC_RDMA_READ)
		check_data(client, &slot->reply);
	return slot;
}

static void rounds(struct client *client)
{
	uint32_t i, open = client->end.depth;

	for (i = 0; i < client->end.depth; i++)
		ask(client, i);
	while (open) {
		struct ibv_wc wc = next_success(&client->end);
		struct asked *slot = progress(client, &wc);

		if (!slot || --slot->waiting)
			continue;
		if (slot->last)
			open--;
		else
			ask(client, (uint32_t)(slot - client->slots));
	}
}

static void client(const struct options *options, int socket)
{
	struct client client = { .end.name = "client", .options = options };
	struct end *end = &client.end;
	size_t bytes = (size_t)options->depth * options->pages * PAGE;
	double start, seconds;

	open_end(end, options);
	client.data = must(end, "calloc", calloc(1, bytes));
	client.slots = must(end, "calloc", calloc(options->depth, sizeof(*client.slots)));
	client.data_mr = must(end, "ibv_reg_mr",
			      ibv_reg_mr(end->pd, client.data, bytes, IBV_ACCESS_LOCAL_WRITE));
	connect_end(end, options, socket);

	start = now();
	rounds(&client);
	seconds = now() - start;
	expect_refusal(&client, &client.slots[0].reply);
	printf("%" PRIu64 " cycles of register, read, check, invalidate; %u pages each, %u at a "
	       "time: %.1f s, %.0f a second\n"
	       "the last key once more: refused, as it must be\n",
	       options->cycles, options->pages, options->depth, seconds,
	       (double)options->cycles / seconds);

	tell(end, socket);
	succeeds(end, "ibv_dereg_mr", ibv_dereg_mr(client.data_mr));
	close_end(end);
	free(client.slots);
	free(client.data);
}

/* ------------------------------------------------------------------------------ main */

static void usage(FILE *to)
{
	fprintf(to, "Usage: storage_server [OPTION]...\n"
		    "Registers scattered pages, reads them from another process, invalidates their "
		    "key; again and again.\n\n"
		    "  -n, --cycles N     how often; 100000\n"
		    "  -d, --depth N      rounds under way at once, 1 to 64; 4\n"
		    "  -p, --pages N      pages of 4 KiB a round, 1 to 64; 4\n"
		    "  -g, --gid-index N  of both ends; 0\n");
}

static uint64_t number(const char *option, const char *text, uint64_t from, uint64_t to)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end || end == text || errno || *text == '-' || value < from || value > to) {
		fprintf(stderr,
			"storage_server: --%s: must be a number, %" PRIu64 " to %" PRIu64 "\n",
			option, from, to);
		exit(2);
	}
	return value;
}

static void parse(struct options *options, int argc, char **argv)
{
	static const struct option names[] = {
		{ "cycles", required_argument, NULL, 'n' },
		{ "depth", required_argument, NULL, 'd' },
		{ "pages", required_argument, NULL, 'p' },
		{ "gid-index", required_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "n:d:p:g:h", names, NULL)) != -1) {
		switch (option) {
		case 'n':
			options->cycles = number("cycles", optarg, 1, UINT64_MAX / 2);
			break;
		case 'd':
			options->depth = (uint32_t)number("depth", optarg, 1, 64);
			break;
		case 'p':
			options->pages = (uint32_t)number("pages", optarg, 1, 64);
			break;
		case 'g':
			options->gid_index = (int)number("gid-index", optarg, 0, 255);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options options = { .cycles = 100000, .depth = 4, .pages = 4 };
	int sockets[2], status;
	pid_t child;

	parse(&options, argc, argv);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets)) {
		perror("storage_server: socketpair");
		return 1;
	}
	child = fork();
	if (child < 0) {
		perror("storage_server: fork");
		return 1;
	}
	if (!child) {
		close(sockets[0]);
		client(&options, sockets[1]);
		return 0;
	}
	close(sockets[1]);
	server(&options, sockets[0]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}
