/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A peer that carries messages by itself has the CQ in which the receives of its connection
 * complete. It writes completions there that it has no business with:
 *
 *	forging_peer receives|sends|slots|again|stale|void|kept|held
 *
 *	receives	of the receives of another QP of the victim's, which completes in another CQ
 *	sends		likewise of its sends
 *	slots		likewise, and their data are said to lie in the ring
 *	again		of the connection's own QP: more receives than were posted
 *	stale		of a QP that has been reset since, while another QP of the CQ is connected to it
 *	strangers	of a QP that the victim does not have
 *	srqs		of an SRQ that completes in that CQ, which none does
 *	tags		of operations on such an SRQ's tag list
 *	shared		of the connection's own QP, which has an SRQ, of receives that are not the SRQ's
 *	void		of nobody, which are to be passed over, and it does not stop
 *	kept		it keeps the memory of the QP instead, and writes there when the victim has
 *			reset that, and connected it to another
 *	kept-cq		likewise the CQ
 *	kept-srq	likewise the SRQ that the receives of the QP come from
 *	held		it says that it is in a step of the QP, and stays there
 *
 * The victim polls, and uses the other QP then, more often than its queues have room. It prints
 * "done".
 */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "handed.h"

#define LENGTH 4096u
#define DEPTH 16 /* of make_qp()'s queues */
#define FORGED 20
#define MESSAGES 40

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* or NULL */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
};

static struct end make_end(struct ibv_context *context, bool has_srq)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct end end = { .context = context, .memory = calloc(1, LENGTH) };

	end.pd = ibv_alloc_pd(context);
	end.cq = ibv_create_cq(context, 63, NULL, NULL, 0);
	CHECK(end.pd && end.cq && end.memory);
	end.mr = ibv_reg_mr(end.pd, end.memory, LENGTH, FULL_ACCESS);
	CHECK(end.mr);
	if (has_srq) {
		end.srq = ibv_create_srq(end.pd, &srq);
		CHECK(end.srq);
	}
	end.qp = make_qp_with(end.pd, end.cq, IBV_QPT_RC, end.srq);
	return end;
}

static int receive(const struct end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, 64, end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad)
			: ibv_post_recv(end->qp, &wr, &bad);
}

static int send_to(const struct end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->memory + 1024, 64, end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };

	return post_send(end->qp, &wr);
}

static void tell(int fd, const void *bytes, size_t length)
{
	CHECK(write(fd, bytes, length) == (ssize_t)length);
}

static void hear(int fd, void *bytes, size_t length)
{
	CHECK(read(fd, bytes, length) == (ssize_t)length);
}

/* ------------------------------------------------------------------------------ the forger */

static void put(const struct handed *handed, const struct simhca_cqe *cqe)
{
	uint32_t pi = atomic_fetch_add(&handed->cq->pi, 1);
	struct simhca_cqe *slot = &handed->ring[pi & (handed->entries - 1)];

	memcpy(slot, cqe, offsetof(struct simhca_cqe, seq));
	atomic_store(&slot->seq, pi + 1);
}

/* Wherever the victim is, what it finds next is there, and says nothing. */
static void __attribute__((noreturn)) fill_with_nothing(const struct handed *handed)
{
	const struct simhca_cqe nothing = { .qpn = SIMHCA_VOID_QPN };

	for (uint32_t i = 0; i < handed->entries; i++)
		memcpy(&handed->ring[i], &nothing, offsetof(struct simhca_cqe, seq));
	for (uint32_t next = 0;; next++) {
		uint32_t ci = atomic_load_explicit(&handed->cq->ci, memory_order_relaxed);

		if (next - ci >= 4 * handed->entries)
			next = ci;
		atomic_store_explicit(&handed->ring[next & (handed->entries - 1)].seq, next + 1,
				      memory_order_relaxed);
	}
}

static void hold(const struct handed *handed, uint32_t qpn, int fd)
{
	struct simhca_qp_mem *mem = (void *)(handed->qp + handed->state);
	uint32_t none = 0;

	/* The device may have it still, as the QP has just been connected. */
	while (!atomic_compare_exchange_weak(&mem->resp_owner.holder, &none,
					     SIMHCA_OWNER_PROGRAM | qpn))
		none = 0;
	tell(fd, "f", 1);
	pause();
}

/* Until it is killed. */
static void write_to_kept(const struct handed *handed, const char *how, int fd)
{
	uint8_t *kept = handed->qp;
	uint64_t size = handed->qp_size;
	char byte;

	if (!strcmp(how, "kept-cq")) {
		kept = (uint8_t *)handed->cq - handed->offset;
		size = handed->size;
	}
	if (!strcmp(how, "kept-srq")) {
		kept = handed->receives;
		size = handed->receives_size;
	}
	tell(fd, "f", 1);
	hear(fd, &byte, 1);
	for (int value = 0;; value++)
		memset(kept, value, size);
}

/* What that QP's number is not: another life of its slot, a slot that is free, one far away. */
static const uint32_t other_number[] = { 1u << SIMHCA_QPN_GENERATION_SHIFT, 0x80, 0x1000 };

static struct simhca_cqe forged_cqe(const char *how, const uint32_t qpns[3], uint32_t number)
{
	struct simhca_cqe cqe = {
		.wr_id = 0xbad,
		.qpn = qpns[1],
		.byte_len = 64,
		.flags = SIMHCA_CQE_RECV,
		.opcode = SIMHCA_WC_RECV,
		.wqe_index = number,
		.in_slot = !strcmp(how, "slots"),
	};

	if (!strcmp(how, "sends")) {
		cqe.flags = 0;
		cqe.opcode = SIMHCA_WC_SEND;
	}
	if (!strcmp(how, "again") || !strcmp(how, "stale") || !strcmp(how, "shared"))
		cqe.qpn = qpns[0];
	if (!strcmp(how, "strangers"))
		cqe.qpn = qpns[0] ^ other_number[number % 3];
	if (!strcmp(how, "srqs"))
		cqe.flags |= SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ;
	if (!strcmp(how, "tags")) {
		cqe.flags |= SIMHCA_CQE_SRQ_CQ;
		cqe.opcode = number % 2 ? SIMHCA_WC_TM_ADD : SIMHCA_WC_TM_RECV;
		cqe.tm_flags = number % 4 == 2 ? SIMHCA_CQE_TM_MATCH : 0;
	}
	return cqe;
}

static void forge(const char *how, int fd)
{
	/* The victim's: the one to which it is connected, the other, and one more of the CQ. */
	uint32_t qpns[3];
	struct handed handed, of_second;
	struct end end, second;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end = second = make_end(open_device(), false);
	second.qp = make_qp(end.pd, end.cq, IBV_QPT_RC);
	tell(fd, (uint32_t[]){ end.qp->qp_num, second.qp->qp_num }, 8);
	hear(fd, qpns, sizeof(qpns));
	start_qp(end.qp, qpns[0]);
	CHECK(attach_peer(end.qp, &handed));
	if (!strcmp(how, "stale")) {
		start_qp(second.qp, qpns[2]);
		CHECK(attach_peer(second.qp, &of_second));
	}
	if (!strncmp(how, "kept", 4))
		write_to_kept(&handed, how, fd);
	if (!strcmp(how, "held"))
		hold(&handed, end.qp->qp_num, fd);
	if (!strcmp(how, "stale")) {
		tell(fd, "a", 1);
		hear(fd, &byte, 1);
	}
	for (uint32_t i = 0; strcmp(how, "void") && i < FORGED; i++) {
		struct simhca_cqe cqe = forged_cqe(how, qpns, i);

		put(&handed, &cqe);
	}
	tell(fd, "f", 1);
	tell(fd, &handed, sizeof(handed));
	if (!strcmp(how, "void"))
		fill_with_nothing(&handed);
	CHECK(!read(fd, &byte, 1));
	exit(0);
}

/* ------------------------------------------------------------------------------ the victim */

/* The victim's own CQ, of which its provider shows nothing: by the forger's descriptor. */
static const struct simhca_cq_mem *map_cq(pid_t forger, const struct handed *handed)
{
	char path[64], *segment;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)forger, handed->fds[1]);
	fd = open(path, O_RDWR);
	segment = mmap(NULL, handed->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(segment != MAP_FAILED);
	close(fd);
	return (void *)(segment + handed->offset);
}

/* One call takes no more from the CQ than it holds, whoever goes on to fill it. */
static void poll_within_bounds(struct end *end, const struct simhca_cq_mem *cq, uint32_t entries)
{
	const double until = now() + 1;
	uint32_t before, taken, most = 0;
	struct ibv_wc wc;

	while (now() < until) {
		before = atomic_load(&cq->ci);
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
		taken = atomic_load(&cq->ci) - before;
		CHECK(taken <= entries);
		if (taken > most)
			most = taken;
	}
	CHECK(most);
}

/* Messages between two QPs that the forger has nothing to do with. */
static void use(const struct end *from, const struct end *to)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < MESSAGES; i++) {
		memset(from->memory + 1024, (int)i, 64);
		CHECK(!receive(to, i + DEPTH));
		CHECK(!send_to(from, i));
		while (!ibv_poll_cq(from->cq, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.opcode == IBV_WC_SEND);
		while (!ibv_poll_cq(to->cq, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == to->qp->qp_num);
		CHECK(wc.wr_id == (i ? i + DEPTH - 1 : 0) && to->memory[0] == (uint8_t)i);
	}
}

static int reset_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* It ends, and when the forger has ended it is as any other. */
static void is_held(const struct end *attacked, pid_t forger)
{
	double begun = now();

	CHECK(reset_qp(attacked->qp) == EBUSY);
	CHECK(now() - begun < 20);
	kill(forger, SIGKILL);
	waitpid(forger, NULL, 0);
	CHECK(!reset_qp(attacked->qp));
}

/* From the forger to the partner, who has nothing to do with it. */
static void reconnect(const struct end *attacked, const struct end *partner, int fd)
{
	CHECK(!reset_qp(attacked->qp) && !reset_qp(partner->qp));
	tell(fd, "r", 1);
	start_qp(attacked->qp, partner->qp->qp_num);
	start_qp(partner->qp, attacked->qp->qp_num);
	CHECK(!receive(partner, 0) && (attacked->srq || !receive(attacked, 0)));
	use(attacked, partner);
	use(partner, attacked);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "receives";
	int fds[2], forged = 0;
	struct end attacked, other, partner;
	struct ibv_qp *second;
	uint32_t forger[2], qpns[3];
	bool keeps_srq = !strcmp(how, "kept-srq");
	struct handed handed;
	double until;
	struct ibv_wc wc;
	pid_t child;
	char byte;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(fds[0]);
		forge(how, fds[1]);
	}
	close(fds[1]);
	attacked = make_end(open_device(), keeps_srq || !strcmp(how, "shared"));
	other = make_end(attacked.context, false);
	partner = make_end(attacked.context, false);
	second = make_qp(attacked.pd, attacked.cq, IBV_QPT_RC);
	start_qp(other.qp, partner.qp->qp_num);
	start_qp(partner.qp, other.qp->qp_num);
	qpns[0] = attacked.qp->qp_num;
	qpns[1] = other.qp->qp_num;
	qpns[2] = second->qp_num;
	hear(fds[0], forger, sizeof(forger));
	start_qp(attacked.qp, forger[0]);
	start_qp(second, forger[1]);
	/* Those of an SRQ are there still when the QP is reset. */
	for (uint64_t i = 0; i < (keeps_srq ? 1 : DEPTH); i++)
		CHECK(!receive(&attacked, i));
	CHECK(!receive(&partner, 0) && !receive(&other, 0));
	tell(fds[0], qpns, sizeof(qpns));
	hear(fds[0], &byte, 1);
	if (!strncmp(how, "kept", 4)) {
		reconnect(&attacked, &partner, fds[0]);
		goto out;
	}
	if (!strcmp(how, "held")) {
		is_held(&attacked, child);
		goto out;
	}
	if (!strcmp(how, "stale")) {
		CHECK(!reset_qp(attacked.qp));
		tell(fds[0], "g", 1);
		hear(fds[0], &byte, 1);
	}
	hear(fds[0], &handed, sizeof(handed));
	if (!strcmp(how, "void"))
		poll_within_bounds(&attacked, map_cq(child, &handed), handed.entries);

	for (until = now() + 0.3; now() < until;)
		if (ibv_poll_cq(attacked.cq, 1, &wc) > 0) {
			CHECK(wc.qp_num == attacked.qp->qp_num);
			forged++;
		}
	/* Of its own QP it may complete what was posted, and no more. */
	CHECK(forged == (strcmp(how, "again") ? 0 : DEPTH));
	use(&other, &partner);
	use(&partner, &other);
out:
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	puts("done");
	fflush(stdout);
	return 0;
}
