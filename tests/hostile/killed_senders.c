/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that send datagrams to one QP by themselves, and are killed while they do:
 *
 *	killed_senders N [srq] [events]
 *
 * N of them, one after the other, beside one that lives. What arrives is whole, of each in
 * order, and once; each receive completes once; and the one that lives goes on. With `srq` the
 * receives are in an SRQ. With `events` the receiver sleeps until there is a completion event,
 * and none is lost. Prints how many datagrams came of those that were killed.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define GRH 40u
#define RECEIVES 16u /* at once: as many as helper.h's QPs have */
#define LENGTH 512u  /* bytes of data at most */

struct end {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_srq *srq; /* or NULL */
	struct ibv_qp *qp;
	uint8_t memory[RECEIVES * (GRH + LENGTH)];
};

static struct end end;

static void make_end(bool srq, bool events)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };

	end.context = open_device();
	end.channel = events ? ibv_create_comp_channel(end.context) : NULL;
	CHECK(end.channel || !events);
	end.pd = ibv_alloc_pd(end.context);
	CHECK(end.pd);
	end.cq = ibv_create_cq(end.context, 128, NULL, end.channel, 0);
	CHECK(end.cq);
	end.mr = ibv_reg_mr(end.pd, end.memory, sizeof(end.memory), FULL_ACCESS);
	CHECK(end.mr);
	end.srq = srq ? ibv_create_srq(end.pd, &attr) : NULL;
	CHECK(end.srq || !srq);
	end.qp = make_qp_with(end.pd, end.cq, IBV_QPT_UD, end.srq);
	start_qp(end.qp, 0);
}

/* Of datagram n. */
static uint32_t length_of(uint32_t n)
{
	return 1 + n * 31 % LENGTH;
}

static uint8_t byte_of(uint32_t n, uint32_t i)
{
	return (uint8_t)(n * 5 + i);
}

/* ----------------------------------------------------------------------------- who sends */

static void send_one(struct ibv_ah *ah, uint32_t qpn, uint32_t n)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, length_of(n), end.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(n),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY } };

	for (uint32_t i = 0; i < sge.length; i++)
		end.memory[i] = byte_of(n, i);
	CHECK(!post_send(end.qp, &wr));
	poll_success(end.cq);
}

/* Until it is killed. Steady: one whenever it is asked for. */
static void be_sender(int socket, bool steady)
{
	struct ibv_ah_attr attr;
	uint32_t qpn, asked;
	struct ibv_ah *ah;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_end(false, false);
	attr = loopback(end.context);
	ah = ibv_create_ah(end.pd, &attr);
	CHECK(ah);
	CHECK(write(socket, &end.qp->qp_num, sizeof(uint32_t)) == sizeof(uint32_t));
	CHECK(read(socket, &qpn, sizeof(qpn)) == sizeof(qpn));
	for (uint32_t n = 1;; n++) {
		if (steady)
			CHECK(read(socket, &asked, sizeof(asked)) == sizeof(asked));
		send_one(ah, qpn, n);
	}
}

struct sender {
	pid_t pid;
	int socket;
	uint32_t qpn, latest, arrived;
};

/* It sends as soon as it is told to whom. */
static struct sender start_sender(bool steady)
{
	struct sender sender = { 0 };
	int sockets[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	sender.pid = fork();
	CHECK(sender.pid >= 0);
	if (!sender.pid) {
		close(sockets[0]);
		be_sender(sockets[1], steady);
	}
	close(sockets[1]);
	sender.socket = sockets[0];
	return sender;
}

static void meet(struct sender *sender)
{
	CHECK(read(sender->socket, &sender->qpn, sizeof(sender->qpn)) == sizeof(sender->qpn));
	CHECK(write(sender->socket, &end.qp->qp_num, sizeof(uint32_t)) == sizeof(uint32_t));
}

static void end_sender(struct sender *sender)
{
	kill(sender->pid, SIGKILL);
	CHECK(waitpid(sender->pid, NULL, 0) == sender->pid);
	close(sender->socket);
}

/* --------------------------------------------------------------------------- who receives */

static bool posted[RECEIVES];

static void receive(uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)end.memory + number * (GRH + LENGTH), GRH + LENGTH,
			       end.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!posted[number]);
	posted[number] = true;
	CHECK(!(end.srq ? ibv_post_srq_recv(end.srq, &wr, &bad)
			: ibv_post_recv(end.qp, &wr, &bad)));
}

static void take(struct sender *sender, const struct ibv_wc *wc)
{
	const uint8_t *data = end.memory + wc->wr_id * (GRH + LENGTH) + GRH;
	uint32_t n = ntohl(wc->imm_data);

	/* Those for which there was no receive are lost. */
	CHECK(n > sender->latest && wc->byte_len == GRH + length_of(n));
	for (uint32_t i = 0; i < length_of(n); i++)
		CHECK(data[i] == byte_of(n, i));
	sender->latest = n;
	sender->arrived++;
}

/* False: there was none. */
static bool poll_some(struct sender *victim, struct sender *steady)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(end.cq, 16, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		if (wc[i].status)
			fprintf(stderr, "receive %llu: %s, vendor_err %u\n",
				(unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status),
				wc[i].vendor_err);
		CHECK(wc[i].status == IBV_WC_SUCCESS);
		CHECK(wc[i].wr_id < RECEIVES && posted[wc[i].wr_id]);
		posted[wc[i].wr_id] = false;
		CHECK(wc[i].src_qp == victim->qpn || wc[i].src_qp == steady->qpn);
		take(wc[i].src_qp == steady->qpn ? steady : victim, &wc[i]);
		receive(wc[i].wr_id);
	}
	return count;
}

/* What is there; or waits for it until then, by the event for which the CQ was armed. */
static void poll_all(struct sender *victim, struct sender *steady, double until)
{
	static bool armed;
	struct pollfd pollfd;
	struct ibv_cq *cq;
	void *context;

	if (!end.channel) {
		poll_some(victim, steady);
		return;
	}
	pollfd = (struct pollfd){ .fd = end.channel->fd, .events = POLLIN };
	if (armed) {
		if (now() > until || poll(&pollfd, 1, (int)((until - now()) * 1e3) + 1) <= 0)
			return;
		CHECK(!ibv_get_cq_event(end.channel, &cq, &context) && cq == end.cq);
		ibv_ack_cq_events(cq, 1);
	}
	CHECK(!ibv_req_notify_cq(end.cq, 0));
	armed = true;
	for (int i = 0; i < 16 && poll_some(victim, steady); i++)
		;
}

static void ask(const struct sender *steady)
{
	uint32_t one = 1;

	CHECK(write(steady->socket, &one, sizeof(one)) == sizeof(one));
}

static void one_round(struct sender *steady, unsigned int *random, uint64_t *messages)
{
	struct sender victim = start_sender(false);
	double until, next = 0;
	uint32_t before;

	meet(&victim);
	ask(steady);
	until = now() + 0.001 + rand_r(random) % 3000 / 1e6;
	while (now() < until)
		poll_all(&victim, steady, until);
	end_sender(&victim);
	/* The one that lives is heard, whatever the other has left. */
	before = steady->arrived;
	for (until = now() + 10; steady->arrived - before < RECEIVES;) {
		CHECK(now() < until);
		if (now() > next) {
			ask(steady);
			next = now() + 0.0005;
		}
		poll_all(&victim, steady, now() + 0.001);
	}
	*messages += victim.arrived;
}

/* Each receive that has not completed is flushed, once; those of an SRQ stay there. */
static void flush_all(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK(!ibv_modify_qp(end.qp, &attr, IBV_QP_STATE));
	for (uint32_t i = 0; i < RECEIVES && !end.srq;) {
		struct ibv_wc wc = poll_one(end.cq);

		CHECK(wc.wr_id < RECEIVES && posted[wc.wr_id]);
		posted[wc.wr_id] = false;
		i++;
	}
	CHECK(!ibv_destroy_qp(end.qp) && !ibv_destroy_cq(end.cq));
	CHECK(!end.srq || !ibv_destroy_srq(end.srq));
}

int main(int argc, char **argv)
{
	bool srq = false, events = false;
	unsigned int random = 1;
	uint64_t messages = 0;
	struct sender steady;

	for (int i = 2; i < argc; i++) {
		srq |= !strcmp(argv[i], "srq");
		events |= !strcmp(argv[i], "events");
	}
	CHECK(argc == 2 + srq + events);
	alarm(600 + (unsigned int)atoi(argv[1]));
	steady = start_sender(true);
	make_end(srq, events);
	for (uint64_t i = 0; i < RECEIVES; i++)
		receive(i);
	meet(&steady);
	for (int i = atoi(argv[1]); i > 0; i--)
		one_round(&steady, &random, &messages);
	end_sender(&steady);
	flush_all();
	printf("done %llu\n", (unsigned long long)messages);
	return 0;
}
