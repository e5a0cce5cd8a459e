/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Many of everything on the first device.
 *
 *	scale qps|cqs|mrs|mws N	makes N of them in one process; QPs are RC, connected in pairs
 *	scale deep-qps N	QPs of 200 work requests in each queue
 *	scale mapped-mrs N	MRs in a process with 20,000 mappings, in turn over each of those
 *	scale open N		N processes have the device open at once
 *	scale alltoall N	N processes, each of which sends to each other and checks what comes
 *	scale across N GID PORT [SERVER]
 *				N RC QPs that are connected to those of another process, which has
 *				the same said but SERVER; each of them sends, and checks what comes
 *
 * All but alltoall print the seconds that each step took, and after "ready" wait for the end of
 * their input, so that somebody can look at the daemon meanwhile.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

#define MESSAGE 4096 /* bytes, from each rank to each other */
#define PAGE 4096

static struct ibv_context *context;
static struct ibv_port_attr port;
static union ibv_gid gid, peer_gid; /* the peer's: our own, unless it is said to be another */
static uint8_t gid_index;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		die("no device");
	context = ibv_open_device(list[0]);
	if (!context || ibv_query_port(context, 1, &port) ||
	    ibv_query_gid(context, 1, gid_index, &gid))
		die("ibv_open_device");
	peer_gid = gid;
	ibv_free_device_list(list);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = port.lid,
			     .port_num = 1,
			     .is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET,
			     .grh = { .dgid = peer_gid,
				      .sgid_index = gid_index,
				      .hop_limit = 64 } },
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = depth,
						  .max_recv_wr = depth,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

/* ------------------------------------------------------------------- one process */

static void qps(unsigned int count, uint32_t depth)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp **qp = calloc(count + 1, sizeof(*qp));
	double start = seconds();

	if (!pd || !cq || !qp)
		die("set-up");
	for (unsigned int i = 0; i < count; i++)
		qp[i] = new_qp(pd, cq, depth);
	step("create", start);
	start = seconds();
	for (unsigned int i = 0; i + 1 < count; i += 2) {
		connect_to(qp[i], qp[i + 1]->qp_num);
		connect_to(qp[i + 1], qp[i]->qp_num);
	}
	step("connect", start);
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		if (ibv_destroy_qp(qp[i]))
			die("ibv_destroy_qp");
	step("destroy", start);
	if (ibv_destroy_cq(cq) || ibv_dealloc_pd(pd))
		die("end");
	free(qp);
}

static void cqs(unsigned int count)
{
	struct ibv_cq **cq = calloc(count, sizeof(*cq));
	double start = seconds();

	for (unsigned int i = 0; i < count; i++)
		if (!(cq[i] = ibv_create_cq(context, 16, NULL, NULL, 0)))
			die("ibv_create_cq");
	step("create", start);
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		if (ibv_destroy_cq(cq[i]))
			die("ibv_destroy_cq");
	step("destroy", start);
	free(cq);
}

/* Pages that can be written, each in a mapping of its own. */
static char *map_pages(unsigned int pages)
{
	char *memory = mmap(NULL, (size_t)pages * 2 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	for (unsigned int i = 0; i < pages; i++)
		if (mprotect(memory + ((size_t)i * 2 + 1) * PAGE, PAGE, PROT_READ))
			die("mprotect");
	return memory;
}

static void mrs(unsigned int count, unsigned int pages)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr **mr = calloc(count, sizeof(*mr));
	char *memory = map_pages(pages);
	double start = seconds();

	if (!pd || !mr)
		die("set-up");
	for (unsigned int i = 0; i < count; i++)
		if (!(mr[i] = ibv_reg_mr(pd, memory + (size_t)(i % pages) * 2 * PAGE, PAGE,
					 IBV_ACCESS_LOCAL_WRITE)))
			die("ibv_reg_mr");
	step("create", start);
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		if (ibv_dereg_mr(mr[i]))
			die("ibv_dereg_mr");
	step("destroy", start);
	free(mr);
	ibv_dealloc_pd(pd);
}

static void mws(unsigned int count)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mw **mw = calloc(count, sizeof(*mw));
	double start = seconds();

	if (!pd || !mw)
		die("set-up");
	for (unsigned int i = 0; i < count; i++)
		if (!(mw[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2)))
			die("ibv_alloc_mw");
	step("create", start);
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		if (ibv_dealloc_mw(mw[i]))
			die("ibv_dealloc_mw");
	step("destroy", start);
	free(mw);
	ibv_dealloc_pd(pd);
}

/* ---------------------------------------------------------------- many processes */

struct meeting {
	_Atomic unsigned int here;
	_Atomic unsigned int there;
	_Atomic uint32_t qpn[]; /* of rank i to rank j: [i * ranks + j] */
};

/* Whoever waits looks the more rarely, the more there are. */
static void meet(_Atomic unsigned int *counter, unsigned int count)
{
	atomic_fetch_add(counter, 1);
	while (atomic_load(counter) < count)
		usleep(1000 + 200 * count);
}

static uint32_t word(unsigned int from, unsigned int to, unsigned int i)
{
	return from * 1000003u + to * 10007u + i * 13u;
}

static void poll_for(struct ibv_cq *cq, unsigned int count)
{
	struct ibv_wc wc;
	int got;

	while (count) {
		got = ibv_poll_cq(cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS)) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		count -= (unsigned int)got;
	}
}

static void rank_all_to_all(struct meeting *meeting, unsigned int rank, unsigned int ranks)
{
	uint32_t *out = calloc(ranks, MESSAGE), *in = calloc(ranks, MESSAGE);
	struct ibv_qp **qp = calloc(ranks, sizeof(*qp));
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *out_mr, *in_mr;

	alarm(120);
	open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, (int)(2 * ranks), NULL, NULL, 0);
	if (!out || !in || !qp || !pd || !cq)
		die("set-up");
	out_mr = ibv_reg_mr(pd, out, (size_t)ranks * MESSAGE, 0);
	in_mr = ibv_reg_mr(pd, in, (size_t)ranks * MESSAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!out_mr || !in_mr)
		die("ibv_reg_mr");
	for (unsigned int peer = 0; peer < ranks; peer++) {
		qp[peer] = new_qp(pd, cq, 2);
		atomic_store(&meeting->qpn[rank * ranks + peer], qp[peer]->qp_num);
	}
	meet(&meeting->here, ranks);
	for (unsigned int peer = 0; peer < ranks; peer++) {
		struct ibv_sge sge = { (uintptr_t)in + peer * MESSAGE, MESSAGE, in_mr->lkey };
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

		connect_to(qp[peer], atomic_load(&meeting->qpn[peer * ranks + rank]));
		if (ibv_post_recv(qp[peer], &wr, &bad))
			die("ibv_post_recv");
	}
	meet(&meeting->there, ranks);
	for (unsigned int peer = 0; peer < ranks; peer++) {
		struct ibv_sge sge = { (uintptr_t)out + peer * MESSAGE, MESSAGE, out_mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		for (unsigned int i = 0; i < MESSAGE / 4; i++)
			out[peer * MESSAGE / 4 + i] = word(rank, peer, i);
		if (ibv_post_send(qp[peer], &wr, &bad))
			die("ibv_post_send");
	}
	poll_for(cq, 2 * ranks);
	for (unsigned int peer = 0; peer < ranks; peer++) {
		for (unsigned int i = 0; i < MESSAGE / 4; i++) {
			if (in[peer * MESSAGE / 4 + i] != word(peer, rank, i)) {
				fprintf(stderr, "rank %u: word %u from %u is wrong\n", rank, i,
					peer);
				exit(1);
			}
		}
	}
	meet(&meeting->here, 2 * ranks); /* nobody leaves while others need it */
	exit(0);
}

static void run_open(struct meeting *meeting, unsigned int rank, unsigned int count)
{
	(void)rank;
	alarm(300);
	open_device();
	meet(&meeting->here, count + 1);
	while (atomic_load(&meeting->there) == 0)
		usleep(1000 + 200 * count);
	if (ibv_close_device(context))
		die("ibv_close_device");
	exit(0);
}

static void processes(unsigned int count, void (*run)(struct meeting *, unsigned int, unsigned int))
{
	size_t size = sizeof(struct meeting) + (size_t)count * count * sizeof(uint32_t);
	struct meeting *meeting =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t *pid = calloc(count, sizeof(*pid));
	unsigned int failed = 0;
	double start = seconds();
	int status;

	if (meeting == MAP_FAILED || !pid)
		die("memory");
	for (unsigned int i = 0; i < count; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork");
		if (!pid[i])
			run(meeting, i, count);
	}
	if (run == run_open) {
		while (atomic_load(&meeting->here) < count && waitpid(-1, &status, WNOHANG) <= 0)
			usleep(1000);
		if (atomic_load(&meeting->here) < count)
			failed++;
		atomic_fetch_add(&meeting->here, 1);
		step("open", start);
		wait_for_end();
		atomic_store(&meeting->there, 1);
	}
	for (unsigned int i = failed; i < count; i++)
		if (wait(&status) < 0 || status)
			failed++;
	if (failed) {
		fprintf(stderr, "%u of %u processes failed\n", failed, count);
		for (unsigned int i = 0; i < count; i++)
			kill(pid[i], SIGKILL);
		exit(1);
	}
	step("all", start);
}

/* ------------------------------------------------------------- one process of two */

/* Connected to the server, or as a server to whoever comes. */
static int meet_other(const char *port_name, const char *server)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	const struct sockaddr_in here = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)atoi(port_name)) };
	struct addrinfo *there;
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, peer;

	if (fd < 0)
		die("socket");
	if (server) {
		if (getaddrinfo(server, port_name, &hints, &there) ||
		    connect(fd, there->ai_addr, there->ai_addrlen))
			die(server);
		freeaddrinfo(there);
		return fd;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (const struct sockaddr *)&here, sizeof(here)) || listen(fd, 1))
		die("listen");
	peer = accept(fd, NULL, NULL);
	if (peer < 0)
		die("accept");
	close(fd);
	return peer;
}

/* Both have to come here; what each has is the other's then. */
static void exchange(int fd, const void *ours, void *theirs, size_t bytes)
{
	const char *from = ours;
	size_t sent = 0;

	/* A part that any socket's buffer holds, in turns. */
	while (sent < bytes) {
		size_t part = bytes - sent < 4096 ? bytes - sent : 4096;

		if (send(fd, from + sent, part, 0) != (ssize_t)part ||
		    recv(fd, (char *)theirs + sent, part, MSG_WAITALL) != (ssize_t)part)
			die("the other one is gone");
		sent += part;
	}
}

static void wait_for_other(int fd)
{
	char ours = 0, theirs;

	exchange(fd, &ours, &theirs, 1);
}

#define SHORT 64 /* bytes of a message */

static void across(unsigned int count, const char *port_name, const char *server)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, (int)(2 * count), NULL, NULL, 0);
	struct ibv_qp **qp = calloc(count, sizeof(*qp));
	uint32_t *ours = calloc(count, sizeof(*ours)), *theirs = calloc(count, sizeof(*theirs));
	uint32_t *out = calloc(count, SHORT), *in = calloc(count, SHORT);
	struct ibv_mr *out_mr, *in_mr;
	double start = seconds();
	int fd;

	alarm(300);
	if (!pd || !cq || !qp || !ours || !theirs || !out || !in)
		die("set-up");
	out_mr = ibv_reg_mr(pd, out, (size_t)count * SHORT, 0);
	in_mr = ibv_reg_mr(pd, in, (size_t)count * SHORT, IBV_ACCESS_LOCAL_WRITE);
	if (!out_mr || !in_mr)
		die("ibv_reg_mr");
	for (unsigned int i = 0; i < count; i++) {
		qp[i] = new_qp(pd, cq, 2);
		ours[i] = qp[i]->qp_num;
	}
	step("create", start);
	fd = meet_other(port_name, server);
	exchange(fd, ours, theirs, count * sizeof(*ours));
	exchange(fd, &gid, &peer_gid, sizeof(gid));
	start = seconds();
	for (unsigned int i = 0; i < count; i++) {
		struct ibv_sge sge = { (uintptr_t)in + i * SHORT, SHORT, in_mr->lkey };
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

		connect_to(qp[i], theirs[i]);
		if (ibv_post_recv(qp[i], &wr, &bad))
			die("ibv_post_recv");
	}
	step("connect", start);
	wait_for_other(fd);
	start = seconds();
	for (unsigned int i = 0; i < count; i++) {
		struct ibv_sge sge = { (uintptr_t)out + i * SHORT, SHORT, out_mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		for (unsigned int j = 0; j < SHORT / 4; j++)
			out[i * SHORT / 4 + j] = word(ours[i], theirs[i], j);
		if (ibv_post_send(qp[i], &wr, &bad))
			die("ibv_post_send");
	}
	poll_for(cq, 2 * count);
	step("send", start);
	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; j < SHORT / 4; j++) {
			if (in[i * SHORT / 4 + j] != word(theirs[i], ours[i], j)) {
				fprintf(stderr, "QP %u: word %u is wrong\n", i, j);
				exit(1);
			}
		}
	}
	wait_for_other(fd); /* nobody leaves while the other one may ask again */
	wait_for_end();
	start = seconds();
	for (unsigned int i = 0; i < count; i++)
		if (ibv_destroy_qp(qp[i]))
			die("ibv_destroy_qp");
	step("destroy", start);
	if (ibv_dereg_mr(out_mr) || ibv_dereg_mr(in_mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd))
		die("end");
	free(qp);
	free(ours);
	free(theirs);
	free(out);
	free(in);
	close(fd);
}

int main(int argc, char *argv[])
{
	unsigned int count = argc >= 3 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0;

	if (count && argc >= 5 && argc <= 6 && !strcmp(argv[1], "across")) {
		gid_index = (uint8_t)atoi(argv[3]);
		open_device();
		across(count, argv[4], argv[5]);
		return ibv_close_device(context) != 0;
	}
	if (!count || argc != 3) {
		fprintf(stderr, "usage: scale qps|deep-qps|cqs|mrs|mapped-mrs|mws|open|alltoall N\n"
				"       scale across N GID_INDEX PORT [SERVER]\n");
		return 2;
	}
	if (!strcmp(argv[1], "open")) {
		processes(count, run_open);
		return 0;
	}
	if (!strcmp(argv[1], "alltoall")) {
		processes(count, rank_all_to_all);
		return 0;
	}
	open_device();
	if (!strcmp(argv[1], "qps"))
		qps(count, 4);
	else if (!strcmp(argv[1], "deep-qps"))
		qps(count, 200);
	else if (!strcmp(argv[1], "cqs"))
		cqs(count);
	else if (!strcmp(argv[1], "mrs"))
		mrs(count, 1);
	else if (!strcmp(argv[1], "mapped-mrs"))
		mrs(count, 10000);
	else if (!strcmp(argv[1], "mws"))
		mws(count);
	else
		return 2;
	return ibv_close_device(context) != 0;
}
