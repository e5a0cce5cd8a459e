/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that carry their messages themselves, and are killed while they do:
 *
 *	killed_peers N [srq] [events] [atomics] [files|moved]
 *
 * The survivor has N peers, one after the other, each of which writes and sends to it until it is
 * killed, and one that lives, with the same CQ, and with the same SRQ if there is to be one. What
 * has arrived is whole, in order, and once; what has not is flushed, or still there for the one
 * that lives, who does not notice. With `events` the survivor sleeps until there is a completion
 * event, and none is lost. With `atomics` each message is counted in the survivor's memory before it is
 * sent: once, whoever is killed in the middle of that. With `files` the memory of all is files that the others
 * may map; with `moved` the device's provider has made it so (--shared-memory). Prints how many messages came of those that were killed.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define RECEIVES 16u	/* at once */
#define SLOTS 64u	/* of what is written: more than a peer can be ahead */
#define WRITTEN 256u	/* bytes */
#define RECEIVED 512u	/* bytes that a receive has room for */
#define STEADY 1000000u /* wr_id of the one that lives */

struct end {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
};

#define PAGE 4096u

/* What is registered; a memfd can lie there. */
static _Alignas(PAGE) struct {
	uint8_t memory[2 * SLOTS * WRITTEN + 2 * RECEIVES * RECEIVED];
	_Alignas(PAGE) uint64_t
		counters[PAGE / sizeof(uint64_t)]; /* of the victim, and of the one that lives */
} own;

/* What one tells the other. */
struct address {
	uint32_t qpn, rkey;
	uint64_t va, counter;
};

static struct end end;
static bool atomics, files, moved;

/* Whether it lies in a file that the provider has moved it to. */
static bool is_moved(void)
{
	uintptr_t from, to;
	char line[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= (uintptr_t)&own &&
			to >= (uintptr_t)(&own + 1) && strstr(line, "simhca-registered");
	fclose(maps);
	return found;
}

static void register_memory(void)
{
	int fd;

	if (!files) {
		end.mr = ibv_reg_mr(end.pd, &own, sizeof(own), FULL_ACCESS);
		CHECK(end.mr && (!moved || is_moved()));
		return;
	}
	fd = memfd_create("killed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && !ftruncate(fd, sizeof(own)) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK(mmap(&own, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	      (void *)&own);
	end.mr = ibv_reg_dmabuf_mr(end.pd, 0, sizeof(own), (uintptr_t)&own, fd, FULL_ACCESS);
	CHECK(end.mr && !close(fd));
	end.mr->addr = &own; /* libibverbs has none of a file's region */
}

static void make_end(bool events)
{
	end.context = open_device();
	end.channel = events ? ibv_create_comp_channel(end.context) : NULL;
	CHECK(end.channel || !events);
	end.pd = ibv_alloc_pd(end.context);
	CHECK(end.pd);
	end.cq = ibv_create_cq(end.context, 128, NULL, end.channel, 0);
	CHECK(end.cq);
	register_memory();
}

/* Of message n: how long it is, half of them short; and its bytes. */
static uint32_t length_of(uint32_t n)
{
	return n % 2 ? 4 + n * 7 % 60 : 65 + n * 31 % (RECEIVED - 65);
}

static void fill(uint8_t *memory, uint32_t n, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = (uint8_t)(n * 5 + i);
}

static bool is_filled(const uint8_t *memory, uint32_t n, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		if (memory[i] != (uint8_t)(n * 5 + i))
			return false;
	return true;
}

/* ------------------------------------------------------------------------------- the peer */

static void tell(int socket, const struct address *address)
{
	CHECK(write(socket, address, sizeof(*address)) == sizeof(*address));
}

static struct address hear(int socket)
{
	struct address address;

	CHECK(read(socket, &address, sizeof(address)) == sizeof(address));
	return address;
}

/* A write, and a send that tells of it; before that it is counted. */
static void post_message(struct ibv_qp *qp, const struct address *to, uint32_t n)
{
	uint8_t *written = own.memory + n % 8 * WRITTEN;
	uint8_t *sent = own.memory + 2 * SLOTS * WRITTEN + n % 8 * RECEIVED;
	struct ibv_sge sge[2] = { { (uintptr_t)written, WRITTEN, end.mr->lkey },
				  { (uintptr_t)sent, length_of(n), end.mr->lkey } };
	struct ibv_sge result = { (uintptr_t)own.counters, sizeof(own.counters[0]), end.mr->lkey };
	struct ibv_send_wr wr[2] = {
		{ .opcode = IBV_WR_RDMA_WRITE,
		  .sg_list = &sge[0],
		  .num_sge = 1,
		  .next = &wr[1],
		  .wr.rdma = { to->va + n % SLOTS * WRITTEN, to->rkey } },
		{ .opcode = IBV_WR_SEND,
		  .sg_list = &sge[1],
		  .num_sge = 1,
		  .send_flags = IBV_SEND_SIGNALED },
	};

	struct ibv_send_wr count = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &result,
		.num_sge = 1,
		.next = wr,
		.wr.atomic = { .remote_addr = to->counter, .compare_add = 1, .rkey = to->rkey },
	};

	fill(written, n, WRITTEN);
	fill(sent, n, length_of(n));
	CHECK(!post_send(qp, atomics ? &count : wr));
}

/* Until it is killed; messages 0, 1, 2 and so on. Or one whenever it is asked for. */
static void be_peer(int socket, bool steady)
{
	struct address mine, theirs;
	struct ibv_qp *qp;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_end(false);
	qp = make_qp(end.pd, end.cq, IBV_QPT_RC);
	mine = (struct address){ qp->qp_num, end.mr->rkey, (uintptr_t)own.memory, 0 };
	tell(socket, &mine);
	theirs = hear(socket);
	start_qp_within(qp, theirs.qpn, 14, 7);
	tell(socket, &mine);
	hear(socket); /* the other is ready too */
	for (uint32_t n = 0;; n++) {
		if (steady)
			hear(socket);
		post_message(qp, &theirs, n);
		poll_success(end.cq);
		CHECK(!atomics || ((volatile uint64_t *)own.counters)[0] == n);
	}
}

static pid_t start_peer(int *socket, bool steady)
{
	int sockets[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(sockets[0]);
		be_peer(sockets[1], steady);
	}
	close(sockets[1]);
	*socket = sockets[0];
	return pid;
}

/* --------------------------------------------------------------------------- the survivor */

struct peer {
	struct ibv_qp *qp;
	uint32_t arrived, flushed, posted; /* of its messages and our receives */
	bool steady;
};

/* If there is one, buffers are numbered by wr_id. */
static struct ibv_srq *srq;
static bool posted[2 * RECEIVES];
static bool used[2 * RECEIVES]; /* since it was asked last */

/* Where it writes. */
static uint8_t *slots_of(const struct peer *peer)
{
	return own.memory + (peer->steady ? SLOTS * WRITTEN : 0);
}

static uint64_t counter_of(const struct peer *peer)
{
	return ((volatile uint64_t *)own.counters)[peer->steady];
}

static uint8_t *receive_buffer(const struct peer *peer, uint32_t n)
{
	return own.memory + 2 * SLOTS * WRITTEN +
	       ((peer->steady ? RECEIVES : 0) + n % RECEIVES) * RECEIVED;
}

static void receive_of_srq(uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)receive_buffer(&(struct peer){ 0 }, 0) +
				       number * RECEIVED,
			       RECEIVED, end.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!posted[number]);
	posted[number] = true;
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void receive(struct peer *peer)
{
	uint8_t *buffer = receive_buffer(peer, peer->posted);

	CHECK(!post_recv(peer->qp, (peer->steady ? STEADY : 0) + peer->posted, end.mr,
			 (size_t)(buffer - own.memory), RECEIVED));
	peer->posted++;
}

static void take(struct peer *peer, const struct ibv_wc *wc)
{
	uint32_t n = peer->arrived;

	if (wc->wr_id != (peer->steady ? STEADY : 0) + n + peer->flushed)
		fprintf(stderr, "%s peer: wr_id %llu (%s), after %u messages and %u flushes\n",
			peer->steady ? "steady" : "victim", (unsigned long long)wc->wr_id,
			ibv_wc_status_str(wc->status), n, peer->flushed);
	CHECK(wc->wr_id == (peer->steady ? STEADY : 0) + n + peer->flushed);
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		CHECK(!peer->steady);
		peer->flushed++;
		return;
	}
	CHECK(wc->status == IBV_WC_SUCCESS && !peer->flushed);
	CHECK(wc->byte_len == length_of(n));
	CHECK(is_filled(receive_buffer(peer, n), n, length_of(n)));
	/* What was written before the message was sent. */
	CHECK(is_filled(slots_of(peer) + n % SLOTS * WRITTEN, n, WRITTEN));
	peer->arrived++;
	CHECK(!atomics || counter_of(peer) >= peer->arrived);
}

/* A completion of the SRQ's, of either. */
static void take_of_srq(struct peer *peer, const struct ibv_wc *wc)
{
	const uint8_t *buffer = own.memory + 2 * SLOTS * WRITTEN + wc->wr_id * RECEIVED;
	uint32_t n = peer->arrived;

	CHECK(wc->wr_id < 2 * RECEIVES && posted[wc->wr_id]);
	posted[wc->wr_id] = false;
	used[wc->wr_id] = true;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		CHECK(!peer->steady && !peer->flushed++);
	} else {
		CHECK(wc->status == IBV_WC_SUCCESS && wc->byte_len == length_of(n));
		CHECK(is_filled(buffer, n, length_of(n)));
		CHECK(is_filled(slots_of(peer) + n % SLOTS * WRITTEN, n, WRITTEN));
		peer->arrived++;
		CHECK(!atomics || counter_of(peer) >= peer->arrived);
	}
	receive_of_srq(wc->wr_id);
}

static int poll_srq(struct peer *victim, struct peer *steady)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(end.cq, 16, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		take_of_srq(wc[i].qp_num == steady->qp->qp_num ? steady : victim, &wc[i]);
	return count;
}

/* None is lost: the one that lives gets them all, in as many messages. */
static void check_srq(struct peer *steady, int socket)
{
	const uint32_t until = steady->arrived + 2 * RECEIVES;
	struct address ask = { 0 };
	double end_of_it = now() + 10;

	memset(used, 0, sizeof(used));
	for (uint32_t i = 0; i < 2 * RECEIVES; i++)
		tell(socket, &ask);
	while ((int32_t)(steady->arrived - until) < 0) {
		CHECK(now() < end_of_it);
		poll_srq(steady, steady);
	}
	for (uint32_t i = 0; i < 2 * RECEIVES; i++)
		CHECK(used[i]);
}

/* False: there was none. */
static bool poll_some(struct peer *victim, struct peer *steady)
{
	struct ibv_wc wc[16];
	int count;

	if (srq)
		return poll_srq(victim, steady);
	count = ibv_poll_cq(end.cq, 16, wc);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		struct peer *peer = wc[i].wr_id >= STEADY ? steady : victim;

		take(peer, &wc[i]);
		if (wc[i].status == IBV_WC_SUCCESS)
			receive(peer);
	}
	return count;
}

/* Until then. False: there was none. */
static bool take_event(double until)
{
	struct pollfd pollfd = { .fd = end.channel->fd, .events = POLLIN };
	double left = until - now();
	const struct timespec time = { .tv_sec = (time_t)left,
				       .tv_nsec = (long)((left - (double)(time_t)left) * 1e9) };
	struct ibv_cq *cq;
	void *context;

	if (left < 0 || ppoll(&pollfd, 1, &time, NULL) <= 0)
		return false;
	CHECK(!ibv_get_cq_event(end.channel, &cq, &context) && cq == end.cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* What is there; or waits for it until then, by the event for which the CQ was armed. */
static void poll_all(struct peer *victim, struct peer *steady, double until)
{
	static bool armed;

	if (!end.channel) {
		poll_some(victim, steady);
		return;
	}
	/* What was there before it was armed has been polled. */
	if (armed && !take_event(until))
		return;
	CHECK(!ibv_req_notify_cq(end.cq, 0));
	armed = true;
	for (uint32_t i = 0; i < 2 * 128 / 16 && poll_some(victim, steady); i++)
		;
}

static void make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 2 * RECEIVES, .max_sge = 1 } };

	srq = ibv_create_srq(end.pd, &attr);
	CHECK(srq);
	for (uint64_t i = 0; i < 2 * RECEIVES; i++)
		receive_of_srq(i);
}

static void connect_to(struct peer *peer, int socket)
{
	struct address theirs = hear(socket), mine;

	peer->qp = make_qp_with(end.pd, end.cq, IBV_QPT_RC, srq);
	own.counters[peer->steady] = 0;
	mine = (struct address){ peer->qp->qp_num, end.mr->rkey, (uintptr_t)slots_of(peer),
				 (uintptr_t)&own.counters[peer->steady] };
	start_qp_within(peer->qp, theirs.qpn, 14, 7);
	for (uint32_t i = 0; i < RECEIVES && !srq; i++)
		receive(peer);
	tell(socket, &mine);
	hear(socket);
	tell(socket, &mine);
}

/* All that it consumes of the SRQ has completed (IBTA vol. 1, 10.2.9.3). */
static bool has_last_wqe(const struct ibv_qp *qp)
{
	struct pollfd pfd = { .fd = end.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	bool last;

	if (!poll(&pfd, 1, 0))
		return false;
	CHECK(!ibv_get_async_event(end.context, &event));
	last = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp;
	ibv_ack_async_event(&event);
	return last;
}

static void one_round(struct peer *steady, int steady_socket, unsigned int *random,
		      uint64_t *messages)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct address ask = { 0 };
	struct peer victim = { 0 };
	const bool has_begun = rand_r(random) % 4;
	uint32_t steady_before = steady->arrived;
	double until;
	int socket;
	pid_t pid = start_peer(&socket, false);

	connect_to(&victim, socket);
	tell(steady_socket, &ask);
	/* Mostly once it has begun, which on a busy machine takes long. */
	until = now() + 10;
	while (has_begun && !victim.arrived) {
		CHECK(now() < until);
		poll_all(&victim, steady, now() + 0.01);
	}
	until = now() + rand_r(random) % 3000 / 1e6;
	while (now() < until)
		poll_all(&victim, steady, until);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	/* What it has begun is done or not, and nothing of it comes later. */
	CHECK(!ibv_modify_qp(victim.qp, &attr, IBV_QP_STATE));
	until = now() + 10;
	while (srq ? !has_last_wqe(victim.qp)
		   : victim.arrived + victim.flushed != victim.posted ||
			       steady->arrived == steady_before) {
		CHECK(now() < until);
		poll_all(&victim, steady, now() + 0.01);
	}
	/* With the QP its completions go. */
	while (srq && poll_srq(&victim, steady))
		;
	CHECK(!ibv_destroy_qp(victim.qp));
	/* Of the one that it was in the middle of only it knew. */
	CHECK(!atomics || counter_of(&victim) - victim.arrived <= 1);
	if (srq)
		check_srq(steady, steady_socket);
	close(socket);
	*messages += victim.arrived;
}

/* It waits for no event that nobody has sent. */
static void end_all(struct peer *steady)
{
	double start = now();

	CHECK(!ibv_destroy_qp(steady->qp) && (!srq || !ibv_destroy_srq(srq)));
	CHECK(!ibv_destroy_cq(end.cq));
	CHECK(now() - start < 10);
	CHECK(!end.channel || !ibv_destroy_comp_channel(end.channel));
}

int main(int argc, char **argv)
{
	struct peer steady = { .steady = true };
	unsigned int random = 1;
	uint64_t messages = 0;
	int socket;
	pid_t pid;

	bool events = false, with_srq = false;

	CHECK(argc >= 2);
	for (int i = 2; i < argc; i++) {
		events |= !strcmp(argv[i], "events");
		with_srq |= !strcmp(argv[i], "srq");
	}
	for (int i = 2; i < argc; i++) {
		atomics |= !strcmp(argv[i], "atomics");
		files |= !strcmp(argv[i], "files");
		moved |= !strcmp(argv[i], "moved");
	}
	CHECK(argc == 2 + events + with_srq + atomics + files + moved);
	alarm(600 + (unsigned int)atoi(argv[1]));
	pid = start_peer(&socket, true);
	make_end(events);
	if (with_srq)
		make_srq();
	connect_to(&steady, socket);
	for (int i = atoi(argv[1]); i > 0; i--)
		one_round(&steady, socket, &random, &messages);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	end_all(&steady);
	printf("done %llu\n", (unsigned long long)messages);
	return 0;
}
