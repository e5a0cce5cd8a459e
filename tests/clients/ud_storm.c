/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two processes send each other datagrams as fast as they can, and look at every byte. A buffer is
 * written over as soon as the device says that it is done with it: a send buffer at its completion,
 * a receive buffer at its own. Each datagram says who it is, and its bytes follow from that; so a
 * send that completes before its bytes have been read, a receive that completes before they are
 * all there, bytes of another datagram and a second delivery show. One that is lost is no error,
 * nor can it be late: a QP's datagrams arrive in the order of its posts.
 *
 * ud_storm SECONDS; prints what each received.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define GRH 40
#define LARGEST 4096
#define SENDS 64
#define RECVS 256
#define SIGNAL_EVERY 4 /* the others are done when a later one is */
#define POISON 0xa5

struct header {
	uint64_t number;
	uint32_t length; /* with the header */
	uint32_t sender;
	uint64_t salt;
};

struct side {
	struct ibv_context *context;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_ah *ah;
	struct ibv_mr *send_mr, *recv_mr;
	uint8_t *send, *recv;
	uint32_t me, peer_qpn;
	uint64_t posted, done, received, expected, random;
};

static uint64_t mix(uint64_t value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdull;
	value ^= value >> 33;
	value *= 0xc4ceb9fe1a85ec53ull;
	return value ^ value >> 33;
}

static uint8_t byte_at(uint64_t seed, uint32_t i)
{
	return (uint8_t)(seed >> (i % 8 * 8)) ^ (uint8_t)(i / 8 * 31);
}

static uint64_t seed_of(const struct header *header)
{
	return mix(header->number * 2 + header->sender + header->salt);
}

static void open_side(struct side *side, uint32_t me)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = SENDS,
			 .max_recv_wr = RECVS,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = 64 },
	};
	struct ibv_ah_attr ah;
	struct ibv_pd *pd;

	*side = (struct side){ .me = me, .random = me + 1, .context = open_device() };
	pd = ibv_alloc_pd(side->context);
	CHECK(pd);
	side->send_cq = ibv_create_cq(side->context, SENDS, NULL, NULL, 0);
	side->recv_cq = ibv_create_cq(side->context, RECVS, NULL, NULL, 0);
	CHECK(side->send_cq && side->recv_cq);
	attr.send_cq = side->send_cq;
	attr.recv_cq = side->recv_cq;
	side->qp = ibv_create_qp(pd, &attr);
	CHECK(side->qp);
	start_qp(side->qp, 0);
	ah = loopback(side->context);
	side->ah = ibv_create_ah(pd, &ah);
	CHECK(side->ah);
	side->send = malloc(SENDS * LARGEST);
	side->recv = malloc(RECVS * (GRH + LARGEST));
	CHECK(side->send && side->recv);
	side->send_mr = ibv_reg_mr(pd, side->send, SENDS * LARGEST, 0);
	side->recv_mr = ibv_reg_mr(pd, side->recv, RECVS * (GRH + LARGEST), IBV_ACCESS_LOCAL_WRITE);
	CHECK(side->send_mr && side->recv_mr);
}

static void give_buffer(struct side *side, uint64_t slot)
{
	uint8_t *buffer = side->recv + slot * (GRH + LARGEST);
	struct ibv_sge sge = { .addr = (uintptr_t)buffer,
			       .length = GRH + LARGEST,
			       .lkey = side->recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	/* What a completion announces too early is this. */
	memset(buffer, POISON, GRH + LARGEST);
	CHECK(!ibv_post_recv(side->qp, &wr, &bad));
}

static void send_one(struct side *side)
{
	uint8_t *buffer = side->send + side->posted % SENDS * LARGEST;
	struct header header = { .number = side->posted, .sender = side->me };
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = side->posted,
				  .sg_list = sge,
				  .num_sge = 2,
				  .opcode = IBV_WR_SEND },
			   *bad;
	uint64_t seed;
	uint32_t cut;

	side->random = mix(side->random + 0x9e3779b97f4a7c15ull);
	header.salt = side->random;
	header.length =
		(uint32_t)(sizeof(header) +
			   side->random %
				   (side->random & 1 << 20 ? 40 : LARGEST - sizeof(header) + 1));
	seed = seed_of(&header);
	memcpy(buffer, &header, sizeof(header));
	for (uint32_t i = sizeof(header); i < header.length; i++)
		buffer[i] = byte_at(seed, i);
	/* In two pieces, at any place. */
	cut = (uint32_t)(1 + (side->random >> 32) % (header.length - 1));
	sge[0] = (struct ibv_sge){ (uintptr_t)buffer, cut, side->send_mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)buffer + cut, header.length - cut,
				   side->send_mr->lkey };
	if (side->posted % SIGNAL_EVERY == SIGNAL_EVERY - 1)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (header.length <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.ud.ah = side->ah;
	wr.wr.ud.remote_qpn = side->peer_qpn;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(!ibv_post_send(side->qp, &wr, &bad));
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(buffer, POISON, LARGEST); /* it is ours again at once */
	side->posted++;
}

static void take_send(struct side *side, const struct ibv_wc *wc)
{
	CHECK(wc->status == IBV_WC_SUCCESS);
	CHECK(wc->opcode == IBV_WC_SEND);
	CHECK(wc->wr_id == side->done + SIGNAL_EVERY - 1);
	for (; side->done <= wc->wr_id; side->done++)
		memset(side->send + side->done % SENDS * LARGEST, POISON, LARGEST);
}

static void take_recv(struct side *side, const struct ibv_wc *wc)
{
	const uint8_t *data = side->recv + wc->wr_id * (GRH + LARGEST) + GRH;
	struct header header;
	uint64_t seed;

	CHECK(wc->status == IBV_WC_SUCCESS);
	CHECK(wc->opcode == IBV_WC_RECV);
	CHECK(wc->src_qp == side->peer_qpn);
	CHECK(wc->byte_len >= GRH + sizeof(header));
	memcpy(&header, data, sizeof(header));
	CHECK(header.sender == !side->me);
	CHECK(header.length == wc->byte_len - GRH);
	CHECK(header.number >= side->expected); /* neither twice nor out of order */
	side->expected = header.number + 1;
	seed = seed_of(&header);
	for (uint32_t i = sizeof(header); i < header.length; i++)
		CHECK(data[i] == byte_at(seed, i));
	for (uint32_t i = header.length; i < LARGEST; i++)
		CHECK(data[i] == POISON); /* and nothing behind it */
	side->received++;
	give_buffer(side, wc->wr_id);
}

static void run(uint32_t me, int peer, double seconds)
{
	struct ibv_wc wc[16];
	struct side side;
	double end;

	open_side(&side, me);
	for (uint64_t slot = 0; slot < RECVS; slot++)
		give_buffer(&side, slot);
	/* The number also says that its receives are posted. */
	CHECK(write(peer, &side.qp->qp_num, 4) == 4);
	CHECK(read(peer, &side.peer_qpn, 4) == 4);
	for (end = now() + seconds; now() < end;) {
		int count;

		while (side.posted - side.done < SENDS)
			send_one(&side);
		count = ibv_poll_cq(side.send_cq, 16, wc);
		for (int i = 0; i < count; i++)
			take_send(&side, &wc[i]);
		CHECK(count >= 0);
		count = ibv_poll_cq(side.recv_cq, 16, wc);
		for (int i = 0; i < count; i++)
			take_recv(&side, &wc[i]);
		CHECK(count >= 0);
	}
	CHECK(side.done && side.received);
	printf("%u: %llu sent, %llu received\n", me, (unsigned long long)side.posted,
	       (unsigned long long)side.received);
	fflush(stdout);
	/* Until the other is done as well. */
	CHECK(write(peer, &me, 4) == 4);
	CHECK(read(peer, &me, 4) == 4);
}

int main(int argc, char **argv)
{
	double seconds = argc == 2 ? atof(argv[1]) : 0;
	int pair[2], status;
	pid_t child;

	CHECK(seconds > 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	child = fork();
	CHECK(child >= 0);
	/* If one fails the other reads the end of the connection. */
	CHECK(!close(pair[!!child]));
	run(!!child, pair[!child], seconds);
	if (child) {
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(!status);
	}
	return 0;
}
