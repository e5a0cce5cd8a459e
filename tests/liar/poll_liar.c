/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Lies to who polls: a program with libibverbs and the provider, whose attached peer writes what it
 * was handed while the program posts, polls, arms, resizes, resets and destroys:
 *
 *	simhca-liar-poll [SECONDS [SEED]]
 *
 * SIMHCA_LIAR_SECONDS and SIMHCA_TEST_SEED are what these are otherwise. Peer and program are threads
 * of one process with a context each. The victim has a QP with receives of its own, and one with
 * an SRQ; both complete in one CQ. The peer writes CQEs, indices, tickets, work requests, the data in
 * their slots, and the progress of both QPs.
 *
 * What has to be true, whatever it writes: a completion is of a QP of that CQ; no queue has more
 * completions than the victim has posted to it; data from a slot fit into the buffer that was posted
 * (AddressSanitizer looks); a call of the victim ends; and beside it an honest pair in the victim's
 * context, with keys that the lies name, has its messages once, in order and whole.
 */
#include <pthread.h>
#include <sched.h>

#include "../hostile/handed.h"

#define DEPTH 16u
#define CQ_DEPTH 63
#define BUFFER 48u /* bytes of a receive; less than a slot has room for */
#define HONEST 256u
#define HONEST_ID 0x40e57u
#define AHEAD 8u /* receives that wait for honest messages, which a lie could complete */
#define QUEUES 2u
#define LIES_AT_ONCE 64
#define ROUNDS_OF_A_LIFE 400
#define MOST_SECONDS 30.0 /* until an honest message has come, on a busy machine */

enum { OWN, SHARED };

static uint64_t first_seed;

#define CAUGHT(...)                                                                                \
	do {                                                                                       \
		fprintf(stderr, "liar: " __VA_ARGS__);                                             \
		fprintf(stderr,                                                                    \
			"\nliar: to try it again: simhca run --private -- "                        \
			"simhca-liar-poll 60 %llu\n",                                              \
			(unsigned long long)first_seed);                                           \
		abort();                                                                           \
	} while (0)

static uint32_t below(uint64_t *seed, uint32_t bound)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % bound;
}

/* ------------------------------------------------------------------------------ the victim */

struct queue {
	struct ibv_qp *qp;
	uint32_t posted,
		completed; /* work requests since it was reset; of an SRQ, since it was made */
};

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd, *honest_pd;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct queue queue[QUEUES];
	struct ibv_mr *buffer[DEPTH]; /* each ends where its memory does */
	struct ibv_cq *honest_cq;
	struct ibv_qp *honest[2];
	struct ibv_mr *memory; /* of the honest pair: two halves */
	uint64_t message, completions;
} victim;

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[QUEUES];
	pthread_mutex_t lock; /* what was handed over, while it is there */
	struct handed handed[QUEUES];
	uint32_t attacked[QUEUES],
		srqn; /* the victim's numbers, as long as it has them and longer */
	bool attached[QUEUES];
	atomic_bool stop;
	_Atomic uint64_t lies;
	uint64_t seed;
} liar = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct ibv_mr *new_region(struct ibv_pd *pd, size_t length)
{
	void *memory = calloc(1, length);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, FULL_ACCESS);

	CHECK(mr);
	return mr;
}

static void make_victim(void)
{
	victim.context = open_device();
	victim.pd = ibv_alloc_pd(victim.context);
	victim.honest_pd = ibv_alloc_pd(victim.context);
	victim.honest_cq = ibv_create_cq(victim.context, CQ_DEPTH, NULL, NULL, 0);
	CHECK(victim.pd && victim.honest_pd && victim.honest_cq);
	for (uint32_t i = 0; i < DEPTH; i++)
		victim.buffer[i] = new_region(victim.pd, BUFFER);
	victim.memory = new_region(victim.honest_pd, 2 * HONEST);
	for (uint32_t i = 0; i < 2; i++)
		victim.honest[i] = make_qp(victim.honest_pd, victim.honest_cq, IBV_QPT_RC);
	for (uint32_t i = 0; i < 2; i++)
		start_qp(victim.honest[i], victim.honest[!i]->qp_num);
	for (uint32_t i = 0; i < AHEAD; i++)
		CHECK(!post_recv(victim.honest[1], HONEST_ID + i, victim.memory, HONEST, HONEST));
}

static void make_liar(void)
{
	liar.context = open_device();
	liar.pd = ibv_alloc_pd(liar.context);
	liar.cq = ibv_create_cq(liar.context, 255, NULL, NULL, 0);
	CHECK(liar.pd && liar.cq);
	liar.mr = new_region(liar.pd, 4096);
	for (uint32_t i = 0; i < QUEUES; i++)
		liar.qp[i] = make_qp(liar.pd, liar.cq, IBV_QPT_RC);
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		CAUGHT("a QP cannot be reset: %s", strerror(errno));
}

static void begin_life(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq = { .cqe = CQ_DEPTH,
					  .wc_flags =
						  IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM };

	victim.cq = ibv_create_cq_ex(victim.context, &cq);
	victim.srq = ibv_create_srq(victim.pd, &srq);
	CHECK(victim.cq && victim.srq);
	for (uint32_t i = 0; i < QUEUES; i++)
		victim.queue[i] =
			(struct queue){ .qp = make_qp_with(victim.pd, ibv_cq_ex_to_cq(victim.cq),
							   IBV_QPT_RC,
							   i == SHARED ? victim.srq : NULL) };
}

/* They are connected anew, and the liar has what the QPs have now, unless the CQ was resized. */
static void connect_all(void)
{
	for (uint32_t i = 0; i < QUEUES; i++) {
		struct queue *queue = &victim.queue[i];

		reset(liar.qp[i]);
		start_qp(queue->qp, liar.qp[i]->qp_num);
		start_qp(liar.qp[i], queue->qp->qp_num);
		if (i != SHARED)
			*queue = (struct queue){ .qp = queue->qp };
	}
	pthread_mutex_lock(&liar.lock);
	CHECK(!ibv_get_srq_num(victim.srq, &liar.srqn));
	for (uint32_t i = 0; i < QUEUES; i++)
		liar.attacked[i] = victim.queue[i].qp->qp_num;
	for (uint32_t i = 0; i < QUEUES; i++)
		liar.attached[i] = attach_peer(liar.qp[i], &liar.handed[i]);
	pthread_mutex_unlock(&liar.lock);
}

static void take_away(void)
{
	pthread_mutex_lock(&liar.lock);
	for (uint32_t i = 0; i < QUEUES; i++) {
		if (liar.attached[i])
			drop_handed(&liar.handed[i]);
		liar.attached[i] = false;
	}
	pthread_mutex_unlock(&liar.lock);
}

/* While lies are told, and after the last one. */
static void end_life(bool while_lying)
{
	if (!while_lying)
		take_away();
	for (uint32_t i = 0; i < QUEUES; i++)
		CHECK(!ibv_destroy_qp(victim.queue[i].qp));
	CHECK(!ibv_destroy_srq(victim.srq));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(victim.cq)));
	take_away();
}

/* ------------------------------------------------------------------------------ what it does */

static void post_receives(uint64_t *seed)
{
	for (uint32_t i = 0; i < QUEUES; i++) {
		struct queue *queue = &victim.queue[i];

		for (uint32_t n = below(seed, DEPTH + 1); n; n--) {
			struct ibv_mr *mr = victim.buffer[queue->posted % DEPTH];
			struct ibv_sge sge = { (uintptr_t)mr->addr, BUFFER, mr->lkey };
			struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

			if (i == SHARED ? ibv_post_srq_recv(victim.srq, &wr, &bad)
					: ibv_post_recv(queue->qp, &wr, &bad))
				break;
			queue->posted++;
		}
	}
}

static void post_sends(uint64_t *seed)
{
	for (uint32_t i = 0; i < QUEUES; i++) {
		struct ibv_mr *mr = victim.buffer[0];
		struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
		struct ibv_send_wr wr = { .wr_id = i,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .wr.rdma = { (uintptr_t)liar.mr->addr, liar.mr->rkey } };

		if (!below(seed, 4) && !post_send(victim.queue[i].qp, &wr))
			victim.queue[i].posted++;
	}
}

/* What a peer may do, and the victim's receives are for. */
static void post_of_liar(uint64_t *seed)
{
	struct ibv_wc wc[16];

	for (uint32_t i = 0; i < QUEUES; i++) {
		struct ibv_sge sge = { (uintptr_t)liar.mr->addr, below(seed, BUFFER + 1),
				       liar.mr->lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = &sge,
					  .num_sge = 1 };

		post_send(liar.qp[i], &wr);
	}
	while (ibv_poll_cq(liar.cq, 16, wc) > 0)
		;
}

static void count(uint32_t qpn)
{
	struct queue *queue = NULL;

	for (uint32_t i = 0; i < QUEUES; i++)
		if (victim.queue[i].qp->qp_num == qpn)
			queue = &victim.queue[i];
	if (!queue)
		CAUGHT("a completion of a QP that has nothing to do with the CQ: %#x", qpn);
	if (++queue->completed > queue->posted)
		CAUGHT("QP %#x has more completions than work requests", qpn);
	victim.completions++;
}

/* False: the CQ is of no use any more. */
static bool poll_plainly(void)
{
	struct ibv_wc wc[8];
	int polled = ibv_poll_cq(ibv_cq_ex_to_cq(victim.cq), 8, wc);

	if (polled > 8)
		CAUGHT("more completions than there is room for");
	for (int i = 0; i < polled; i++)
		count(wc[i].qp_num);
	return polled >= 0;
}

static bool poll_one_by_one(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int result = ibv_start_poll(victim.cq, &attr);

	if (result)
		return result == ENOENT;
	do {
		count(ibv_wc_read_qp_num(victim.cq));
		ibv_wc_read_opcode(victim.cq);
		ibv_wc_read_byte_len(victim.cq);
		ibv_wc_read_wc_flags(victim.cq);
		result = ibv_next_poll(victim.cq);
	} while (!result);
	ibv_end_poll(victim.cq);
	return result == ENOENT;
}

/* ------------------------------------------------------------------------------ an honest pair */

static void take_honest(void)
{
	const double until = now() + MOST_SECONDS;
	struct ibv_wc wc;

	for (int n = 0; n < 2; n++) {
		while (!ibv_poll_cq(victim.honest_cq, 1, &wc)) {
			if (now() > until)
				CAUGHT("an honest message does not come");
			sched_yield();
		}
		if (wc.status || wc.wr_id != HONEST_ID + victim.message)
			CAUGHT("an honest message ends with status %u, wr_id %#llx", wc.status,
			       (unsigned long long)wc.wr_id);
	}
}

static void be_honest(void)
{
	uint8_t *from = victim.memory->addr; /* and behind it what it is sent to */
	const uint64_t id = HONEST_ID + victim.message;
	struct ibv_sge sge = { (uintptr_t)from, HONEST, victim.memory->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };

	memset(from, (int)victim.message, HONEST);
	CHECK(!post_recv(victim.honest[1], id + AHEAD, victim.memory, HONEST, HONEST));
	CHECK(!post_send(victim.honest[0], &wr));
	take_honest();
	for (uint32_t i = 0; i < 2 * HONEST; i++)
		if (from[i] != (uint8_t)victim.message)
			CAUGHT("an honest message has other bytes at %u", i);
	victim.message++;
}

/* ------------------------------------------------------------------------------ the lies */

static uint32_t number(uint64_t *seed)
{
	static const uint32_t some[] = { 0,  1,	 2,	     15,	 16,	     17,	63,
					 64, 65, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return below(seed, 4) ? some[below(seed, sizeof(some) / sizeof(some[0]))]
			      : below(seed, 0x7fffffff);
}

/* The numbers of all QPs that there are, and of some that there are not. */
static uint32_t qpn(uint64_t *seed)
{
	const uint32_t of[] = { liar.attacked[0],
				liar.attacked[1],
				victim.honest[0]->qp_num,
				victim.honest[1]->qp_num,
				liar.qp[0]->qp_num,
				liar.qp[1]->qp_num,
				liar.attacked[0] ^ 1u << SIMHCA_QPN_GENERATION_SHIFT,
				liar.attacked[1] ^ 0x80,
				SIMHCA_VOID_QPN,
				SIMHCA_QPN_MASK,
				number(seed) };

	return below(seed, 2) ? of[below(seed, QUEUES)]
			      : of[below(seed, sizeof(of) / sizeof(of[0]))];
}

static struct simhca_cqe cqe_of(uint64_t *seed)
{
	static const uint8_t flags[] = { 0, SIMHCA_CQE_RECV, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ,
					 SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ,
					 SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ_CQ };
	struct simhca_cqe cqe = {
		.wr_id = number(seed),
		.qpn = qpn(seed),
		.src_qpn = number(seed),
		.byte_len = below(seed, 2) ? below(seed, 2 * SIMHCA_SLOT_DATA) : number(seed),
		.imm_or_rkey = number(seed),
		.vendor_err = number(seed),
		.wqe_index = number(seed),
		.opcode = (uint8_t)(below(seed, 2) ? SIMHCA_WC_RECV + below(seed, 8)
						   : below(seed, 256)),
		.status = (uint8_t)(below(seed, 4) ? 0 : below(seed, 256)),
		.flags = below(seed, 8) ? flags[below(seed, sizeof(flags))]
					: (uint8_t)below(seed, 256),
		.tm_flags = (uint8_t)(below(seed, 4) ? 0 : below(seed, 256)),
		.in_slot = (uint8_t)below(seed, 3),
	};

	if (below(seed, 2))
		cqe.wqe_index = below(seed, 2) ? liar.srqn : below(seed, 2 * DEPTH);
	return cqe;
}

/* At the index that is taken next, or near what the victim looks at next. */
static void lie_of_cqe(const struct handed *handed, uint64_t *seed)
{
	const struct simhca_cqe cqe = cqe_of(seed);
	uint32_t index = atomic_load(&handed->cq->ci) + below(seed, 4);
	struct simhca_cqe *slot;

	/* While there is room; a CQ that is full ends soon enough. */
	if (below(seed, 2) && handed->cq->pi - handed->cq->ci < CQ_DEPTH / 2)
		index = atomic_fetch_add(&handed->cq->pi, 1);
	slot = &handed->ring[index & (handed->entries - 1)];
	memcpy(slot, &cqe,
	       below(seed, 4) ? offsetof(struct simhca_cqe, seq)
			      : below(seed, offsetof(struct simhca_cqe, seq)));
	atomic_store(&slot->seq, index + (below(seed, 8) ? 1 : below(seed, 4)));
}

/* Some of these end the CQ, as it seems to be full, or to have been. */
static void lie_of_cq(const struct handed *handed, uint64_t *seed)
{
	struct simhca_cqe *slot = &handed->ring[below(seed, handed->entries)];
	const bool may_end = !below(seed, 2000);

	switch (below(seed, 4)) {
	case 0:
		if (may_end)
			atomic_store(below(seed, 2) ? &handed->cq->pi : &handed->cq->ci,
				     number(seed));
		else
			atomic_store(&handed->cq->pi, handed->cq->ci + below(seed, 8));
		break;
	case 1:
		atomic_store(&handed->cq->arm, number(seed));
		break;
	case 2:
		atomic_store(may_end ? &handed->cq->overrun : &handed->cq->events_raised,
			     number(seed));
		break;
	default: /* a ticket of the liar's, of another, of nobody */
		slot->wallclock = (uint64_t)(SIMHCA_OWNER_PROGRAM | qpn(seed)) << 32 |
				  (handed->cq->pi + below(seed, 4));
		break;
	}
}

static void lie_of_receive(const struct handed *handed, uint64_t *seed)
{
	uint8_t *slot = handed->receives + handed->rq +
			(size_t)below(seed, handed->rq_entries) * handed->rq_stride;
	struct simhca_recv_wqe *wqe = (void *)slot;
	struct simhca_sge *sge = (void *)(wqe + 1);

	switch (below(seed, 5)) {
	case 0:
		wqe->wr_id = number(seed);
		wqe->num_sge = number(seed);
		wqe->record = below(seed, 2) ? below(seed, 2 * DEPTH) : number(seed);
		break;
	case 1: /* memory of the victim, with a key of another protection domain */
		sge->addr = (uintptr_t)victim.memory->addr;
		sge->lkey = victim.memory->lkey;
		sge->length = HONEST;
		break;
	case 2:
		sge->length = number(seed);
		break;
	case 3:
		sge->addr += number(seed);
		sge->lkey += below(seed, 3);
		break;
	default: /* what lies beside it */
		memset(slot + sizeof(*wqe), (int)below(seed, 256),
		       handed->rq_stride - sizeof(*wqe));
		break;
	}
}

static void lie_of_srq(const struct handed *handed, uint64_t *seed)
{
	struct simhca_srq_mem *mem = handed->claims;

	if (!mem)
		return;
	switch (below(seed, 4)) {
	case 0:
		atomic_store(&mem->pi,
			     below(seed, 2) ? number(seed) : (uint32_t)mem->head + below(seed, 20));
		break;
	case 1:
		atomic_store(&mem->head, (uint64_t)number(seed) << 32 | number(seed));
		break;
	case 2:
		atomic_store(&mem->limit, number(seed));
		break;
	default:
		atomic_store(&mem->claimed[below(seed, SIMHCA_SRQ_CLAIMANTS)], number(seed));
		break;
	}
}

/* But for who has a turn: who stays in one holds up commands (hostile-forging-peer held). */
static void lie_of_progress(const struct handed *handed, uint64_t *seed)
{
	struct simhca_qp_mem *mem = (void *)(handed->qp + handed->state);
	uint32_t word = below(seed, sizeof(*mem) / 4);
	_Atomic uint32_t *at = (_Atomic uint32_t *)mem + word;

	if (at != &mem->req_owner.holder && at != &mem->resp_owner.holder)
		atomic_store(at, number(seed));
}

static void lie(uint64_t *seed)
{
	static void (*const kinds[])(const struct handed *, uint64_t *) = {
		lie_of_cqe,	lie_of_cqe, lie_of_cqe,	     lie_of_cq,
		lie_of_receive, lie_of_srq, lie_of_progress,
	};
	const uint32_t num_kinds = sizeof(kinds) / sizeof(kinds[0]);
	/* The progress ends a connection soon; most batches say nothing of it. */
	const uint32_t some = num_kinds - (below(seed, 8) ? 1 : 0);

	for (int n = 0; n < LIES_AT_ONCE; n++) {
		uint32_t queue = below(seed, QUEUES);

		if (!liar.attached[queue])
			continue;
		kinds[below(seed, some)](&liar.handed[queue], seed);
		atomic_fetch_add(&liar.lies, 1);
	}
}

static void *lie_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&liar.stop)) {
		pthread_mutex_lock(&liar.lock);
		lie(&liar.seed);
		pthread_mutex_unlock(&liar.lock);
		sched_yield();
	}
	return NULL;
}

/* ------------------------------------------------------------------------------ its lives */

/* Until the CQ is of no use, or long enough. */
static void live(uint64_t *seed)
{
	for (uint32_t n = 0; n < ROUNDS_OF_A_LIFE; n++) {
		post_receives(seed);
		post_sends(seed);
		post_of_liar(seed);
		if (!(below(seed, 2) ? poll_plainly() : poll_one_by_one()))
			return;
		if (!below(seed, 8))
			CHECK(!ibv_req_notify_cq(ibv_cq_ex_to_cq(victim.cq), below(seed, 2)));
		if (n % 16 == 0)
			be_honest();
		if (!below(seed, 50)) { /* as often as connections end */
			take_away();
			for (uint32_t i = 0; i < QUEUES; i++)
				reset(victim.queue[i].qp);
			connect_all();
		}
		if (!below(seed, 300)) /* what was handed over is not the CQ's any more */
			ibv_resize_cq(ibv_cq_ex_to_cq(victim.cq), CQ_DEPTH + (int)below(seed, 64));
	}
}

int main(int argc, char **argv)
{
	const char *seconds = argc > 1 ? argv[1] : getenv("SIMHCA_LIAR_SECONDS");
	const char *seed_text = argc > 2 ? argv[2] : getenv("SIMHCA_TEST_SEED");
	const double until = now() + (seconds ? atof(seconds) : 60);
	uint64_t lives = 0, seed;
	pthread_t thread;

	first_seed = seed_text ? strtoull(seed_text, NULL, 0) : 1;
	seed = liar.seed = first_seed;
	printf("seed %llu\n", (unsigned long long)first_seed);
	fflush(stdout);
	make_victim();
	make_liar();
	CHECK(!pthread_create(&thread, NULL, lie_on, NULL));
	for (; now() < until; lives++) {
		begin_life();
		connect_all();
		live(&seed);
		end_life(below(&seed, 2));
	}
	atomic_store(&liar.stop, true);
	pthread_join(thread, NULL);
	printf("%llu lies to a provider that polls: %llu completions, %llu lives of a CQ, beside "
	       "%llu honest "
	       "messages\n",
	       (unsigned long long)liar.lies, (unsigned long long)victim.completions,
	       (unsigned long long)lives, (unsigned long long)victim.message);
	return 0;
}
