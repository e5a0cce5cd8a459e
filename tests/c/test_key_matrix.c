/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Every kind of key, used by every user, in every way, in every state: what each side sees, why,
 * and that memory changes exactly when it may. key_rules.def has the rules, in the order in which
 * they count; everything here is how to bring the key into its state.
 */
#include "harness.h"

enum kind { REGION, WINDOW_1, WINDOW_2A, WINDOW_2B, FAST, KINDS };
enum user { OWNER, OTHER_QP, OTHER_PD, USERS };
enum use { WRITE, READ, ATOMIC, RECEIVE, REMOTE_INV, LOCAL_INV, USES };
enum state {
	FREE,
	VALID,
	INVALIDATED,
	STALE,
	BELOW,
	PAST,
	KEY_LACKS_RIGHT,
	QP_LACKS_RIGHT,
	STATES
};

static const char *const kind_name[] = { "region", "type 1", "type 2A", "type 2B",
					 "fast-register" };
static const char *const user_name[] = { "owner", "other QP", "other PD" };
static const char *const use_name[] = { "write",	  "read",	   "atomic",
					"receive buffer", "SEND_WITH_INV", "LOCAL_INV" };
static const char *const state_name[] = { "free",
					  "valid",
					  "invalidated",
					  "stale",
					  "a byte below",
					  "a byte past",
					  "right missing on the key",
					  "right missing on the QP" };

struct outcome {
	int requester, receiver; /* enum ibv_wc_status; receiver -1: no receive completes */
	enum simhca_reason reason;
};

/*
 * The memory that a key opens begins one byte after a multiple of 8 and ends one before another, so
 * that an aligned access of 8 bytes can be wrong by one byte at either end.
 */
enum { PAGE = 4096, ARENA = 4 * PAGE, START = PAGE + 1, LENGTH = PAGE - 2 };
#define BASE 0x700000000000ull /* what the fast-register region's addresses count from */

struct setting {
	struct pair *pair[USERS]; /* a asks; b has the keys, in one context, but see OTHER_PD */
	uint8_t *arena;
	uint64_t *pages;
	struct mr *whole;
	bool type_2a;
};

static struct setting make(struct world *world, bool type_2a)
{
	struct options options = default_options(IBV_QPT_RC);
	struct setting s = { .type_2a = type_2a };
	struct client *asking = client_new(world, 1), *client = client_new(world, 0);
	uint32_t other = pd_new(client);

	options.retry_cnt = 0;
	for (int user = 0; user < USERS; user++) {
		struct pair *pair = s.pair[user] = world_alloc(world, sizeof(*pair));

		side_make(&pair->a, asking, &options, NULL);
		side_make(&pair->b, client, &options, NULL);
		if (user == OTHER_PD)
			pair->b.qp = qp_new_in(client, other, &options, pair->b.send_cq,
					       pair->b.recv_cq, NULL);
		pair->a.peer = &pair->b;
		pair->b.peer = &pair->a;
		pair_connect(pair);
	}
	s.arena = (uint8_t *)(((uintptr_t)world_alloc(world, ARENA + PAGE) + PAGE - 1) &
			      ~(uintptr_t)(PAGE - 1));
	s.pages = world_alloc(world, 2 * sizeof(*s.pages));
	s.pages[0] = (uintptr_t)s.arena + PAGE;
	s.whole = mr_over(client, client->pd, s.arena, ARENA, (uintptr_t)s.arena,
			  ALL_ACCESS | SIMHCA_ACCESS_MW_BIND);
	return s;
}

static bool is_window(enum kind kind)
{
	return kind == WINDOW_1 || kind == WINDOW_2A || kind == WINDOW_2B;
}

static uint32_t right_of(enum use use)
{
	static const uint32_t right[USES] = {
		[WRITE] = SIMHCA_ACCESS_REMOTE_WRITE,
		[READ] = SIMHCA_ACCESS_REMOTE_READ,
		[ATOMIC] = SIMHCA_ACCESS_REMOTE_ATOMIC,
		[RECEIVE] = ALL_ACCESS & ~SIMHCA_ACCESS_REMOTE_READ, /* without LOCAL_WRITE.. */
		[REMOTE_INV] = ALL_ACCESS,
		[LOCAL_INV] = ALL_ACCESS,
	};
	return right[use];
}

static bool in(unsigned int set, unsigned int one)
{
	return set >> one & 1;
}

static struct outcome expected(enum kind kind, enum user user, enum use use, enum state state)
{
	/* In the rules these names are sets; each is made of the one outside. */
	enum {
		REGION = 1 << REGION,
		WINDOW_1 = 1 << WINDOW_1,
		WINDOW_2A = 1 << WINDOW_2A,
		WINDOW_2B = 1 << WINDOW_2B,
		FAST = 1 << FAST
	};
	enum { OWNER = 1 << OWNER, OTHER_QP = 1 << OTHER_QP, OTHER_PD = 1 << OTHER_PD };
	enum {
		WRITE = 1 << WRITE,
		READ = 1 << READ,
		ATOMIC = 1 << ATOMIC,
		RECEIVE = 1 << RECEIVE,
		REMOTE_INV = 1 << REMOTE_INV,
		LOCAL_INV = 1 << LOCAL_INV
	};
	enum {
		FREE = 1 << FREE,
		INVALIDATED = 1 << INVALIDATED,
		STALE = 1 << STALE,
		BELOW = 1 << BELOW,
		PAST = 1 << PAST,
		KEY_LACKS_RIGHT = 1 << KEY_LACKS_RIGHT,
		QP_LACKS_RIGHT = 1 << QP_LACKS_RIGHT
	};
	enum { ANY = -1, IBV_WC_NO_RECEIVE = -1 };
	bool receives = in(RECEIVE | REMOTE_INV, use);

#define APPLIES(kinds, users, uses, states)                                                        \
	(in(kinds, kind) && in(users, user) && in(uses, use) && in(states, state))
#define OUTCOME(uses, states, requester, receiver)
#define RULE(kinds, users, uses, states, why)                                                      \
	if (APPLIES(kinds, users, uses, states))                                                   \
		reason = SIMHCA_REASON_##why;                                                      \
	else
	enum simhca_reason reason;

#include "key_rules.def"
	reason = SIMHCA_REASON_NONE;
#undef RULE
#undef OUTCOME

	if (reason == SIMHCA_REASON_NONE)
		return (struct outcome){ IBV_WC_SUCCESS, receives ? IBV_WC_SUCCESS : -1, reason };
#define RULE(kinds, users, uses, states, why)
#define OUTCOME(uses, states, requester, receiver)                                                 \
	if (APPLIES(ANY, ANY, uses, states))                                                       \
		return (struct outcome){ IBV_WC_##requester, IBV_WC_##receiver, reason };
#include "key_rules.def"
#undef RULE
#undef OUTCOME
	fail_msg("no outcome");
	return (struct outcome){ .reason = reason };
}

/* ------------------------------------------------------------------------ bringing it about */

struct key {
	struct mr *mr;
	struct mw *mw;
	uint32_t value;
	uint64_t start; /* address of arena + PAGE, as this key counts */
};

static void done(struct side *side, uint64_t id)
{
	expect(side->send_cq, id, SUCCESS);
}

static struct key make_key(struct setting *s, enum kind kind, enum use use, enum state state)
{
	struct side *owner = &s->pair[OWNER]->b;
	struct client *client = owner->client;
	uint32_t access = ALL_ACCESS;
	struct key key = { .start = (uintptr_t)s->arena + PAGE };
	bool use_it = state != FREE || kind == REGION;

	if (state == KEY_LACKS_RIGHT)
		access &= ~right_of(use);
	if (is_window(kind)) {
		key.mw = mw_new(client, client->pd, kind == WINDOW_1 ? 1 : 2);
		if (use_it) {
			qp_bind(owner->qp, 1, key.mw, s->whole, START, LENGTH,
				access & ~SIMHCA_ACCESS_LOCAL_WRITE);
			done(owner, 1);
		}
		if (state == INVALIDATED && kind == WINDOW_1)
			qp_bind(owner->qp, 2, key.mw, NULL, 0, 0, 0);
		else if (state == INVALIDATED)
			qp_local_inv(owner->qp, 2, key.mw->rkey);
		key.value = key.mw->rkey;
	} else if (kind == FAST) {
		key.mr = fast_mr_new(client, client->pd, 1);
		key.start = BASE;
		if (use_it) {
			qp_fast_reg(owner->qp, 1, key.mr, s->pages, 1, BASE + 1, LENGTH, access);
			done(owner, 1);
		}
		if (state == INVALIDATED)
			qp_local_inv(owner->qp, 2, key.mr->rkey);
		key.value = key.mr->rkey;
	} else {
		key.mr = mr_over(client, client->pd, s->arena + START, LENGTH,
				 (uintptr_t)s->arena + START, access);
		key.value = key.mr->rkey;
		if (state == FREE) {
			assert_int_equal(0, mr_gone(key.mr));
			key.mr = NULL;
		}
	}
	if (state == INVALIDATED)
		done(owner, 2);
	if (state == STALE)
		key.value ^= 0x80;
	return key;
}

static void use_key(struct pair *pair, const struct key *key, enum use use, uint64_t addr)
{
	static const uint8_t opcode[USES] = { [WRITE] = SIMHCA_WR_RDMA_WRITE,
					      [READ] = SIMHCA_WR_RDMA_READ,
					      [ATOMIC] = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
					      [RECEIVE] = SIMHCA_WR_SEND,
					      [REMOTE_INV] = SIMHCA_WR_SEND_WITH_INV };

	if (use == LOCAL_INV) {
		qp_local_inv(pair->b.qp, 10, key->value);
		return;
	}
	if (use == RECEIVE)
		post_recv(&pair->b, 20, { .addr = addr, .length = 8, .lkey = key->value });
	else if (use == REMOTE_INV)
		qp_recv(pair->b.qp, 20, NULL, 0);
	if (use == REMOTE_INV)
		post(&pair->a, .id = 10, .opcode = opcode[use], .imm = key->value);
	else
		post(&pair->a, .id = 10, .opcode = opcode[use], SGES(sge(pair->a.mr, 0, 8)),
		     .remote_addr = addr, .rkey = key->value, .compare_add = 0x0101010101010101ull);
}

static bool matches(struct cq *cq, uint64_t id, int status, enum simhca_reason reason,
		    struct simhca_cqe *cqe)
{
	if (!cq_wait(cq, cqe)) {
		print_error("no completion of %llu\n", (unsigned long long)id);
		return false;
	}
	if (cqe->wr_id == id && cqe->status == status && cqe->vendor_err == (uint32_t)reason)
		return true;
	print_error("%llu: got %s (%s), expected %s (%s)\n", (unsigned long long)id,
		    ibv_wc_status_str(cqe->status), simhca_reason_text(cqe->vendor_err),
		    ibv_wc_status_str(status), simhca_reason_text(reason));
	return false;
}

static bool check(struct setting *s, enum kind kind, enum user user, enum use use, enum state state)
{
	struct outcome outcome = expected(kind, user, use, state);
	enum simhca_reason why = outcome.reason;
	struct key key = make_key(s, kind, use, state);
	struct pair *pair = s->pair[user];
	struct side *reporting = use == LOCAL_INV ? &pair->b : &pair->a;
	uint64_t offset = state == BELOW ? 0 : state == PAST ? PAGE - 8 : 8;
	bool changes = outcome.reason == SIMHCA_REASON_NONE &&
		       (use == WRITE || use == ATOMIC || use == RECEIVE);
	uint8_t *there = s->arena + PAGE + offset;
	struct simhca_cqe cqe;
	bool good;

	memset(s->arena, 0x11, ARENA);
	memset(pair->a.mr->addr, 0x22, 8);
	if (state == QP_LACKS_RIGHT)
		assert_int_equal(0, qp_modify(pair->b.qp, SIMHCA_QP_ACCESS_FLAGS,
					      (struct simhca_qp_attr){
						      .qp_access_flags = pair->b.options.access &
									 ~right_of(use) }));
	forget_events(pair->b.client);
	use_key(pair, &key, use, key.start + offset);

	/* Nobody answers, and only the local link says why. */
	for (int i = 0; i < 20 && outcome.requester == IBV_WC_RETRY_EXC_ERR; i++)
		advance(pair->a.world, SEC);
	if (outcome.requester == IBV_WC_RETRY_EXC_ERR && pair->a.world->tick)
		why = SIMHCA_REASON_NO_RESPONSE;
	good = matches(reporting->send_cq, 10, outcome.requester,
		       outcome.requester == IBV_WC_SUCCESS ? SIMHCA_REASON_NONE : why, &cqe);
	if (outcome.receiver >= 0) {
		good &= matches(pair->b.recv_cq, 20, outcome.receiver, outcome.reason, &cqe);
		if (use == REMOTE_INV && outcome.receiver == IBV_WC_SUCCESS)
			good &= (cqe.flags & SIMHCA_CQE_INV) && cqe.imm_or_rkey == key.value;
		else
			good &= !(cqe.flags & SIMHCA_CQE_INV);
	}
	/* Memory is what it should be, in the right place and nowhere else. */
	if (changes) {
		good &= all_bytes(there, 8, use == ATOMIC ? 0x12 : 0x22);
		memset(there, 0x11, 8);
	}
	good &= all_bytes(s->arena, ARENA, 0x11);
	if (outcome.requester == IBV_WC_SUCCESS && (use == READ || use == ATOMIC))
		good &= all_bytes(pair->a.mr->addr, 8, 0x11);
	else
		good &= all_bytes(pair->a.mr->addr, 8, 0x22);
	/* Whoever refuses a request fails; whose receive did not say so hears it by an event. */
	if (use <= ATOMIC)
		good &= events_of(pair->b.client, pair->b.qp,
				  state == QP_LACKS_RIGHT ? IBV_EVENT_QP_REQ_ERR
							  : IBV_EVENT_QP_ACCESS_ERR) ==
			(outcome.reason != SIMHCA_REASON_NONE);
	good &= qp_state(pair->b.qp) ==
		(outcome.reason == SIMHCA_REASON_NONE ? IBV_QPS_RTS : IBV_QPS_ERR);
	/* An invalidation leaves it free, and only an invalidation does. */
	if (kind != REGION)
		good &= mpt_of(pair->b.client, key.value)->valid ==
			(state != FREE && state != INVALIDATED &&
			 !(outcome.reason == SIMHCA_REASON_NONE &&
			   (use == REMOTE_INV || use == LOCAL_INV)));

	if (key.mw)
		mw_gone(key.mw);
	if (key.mr)
		good &= !mr_gone(key.mr);
	good &= mpt_of(pair->b.client, s->whole->lkey)->bound == 0;
	if (outcome.reason != SIMHCA_REASON_NONE || state == QP_LACKS_RIGHT) {
		run_until_idle(pair->a.world);
		pair_reconnect(pair);
		while (cq_poll(pair->b.recv_cq, &cqe) || cq_poll(pair->b.send_cq, &cqe))
			;
	}
	if (!good)
		print_error("%s, %s, %s, %s\n", kind_name[kind], user_name[user], use_name[use],
			    state_name[state]);
	return good;
}

static void all_of(struct world *world, bool type_2a, const enum kind *kinds, size_t num_kinds)
{
	struct setting s = make(world, type_2a);
	unsigned int cells = 0, bad = 0;

	for (size_t k = 0; k < num_kinds; k++)
		for (int user = 0; user < USERS; user++)
			for (int use = 0; use < USES; use++)
				for (int state = 0; state < STATES; state++) {
					/* Nothing invalidates an ordinary region. */
					if (kinds[k] == REGION && state == INVALIDATED)
						continue;
					cells++;
					bad += !check(&s, kinds[k], user, use, state);
				}
	if (bad)
		fail_msg("%u of %u are wrong", bad, cells);
	assert_true(cells >= num_kinds * USERS * USES * (STATES - 1));
}

static void regions_and_windows_of_type_2b(void **state)
{
	static const enum kind kinds[] = { REGION, WINDOW_1, WINDOW_2B, FAST };

	all_of(*state, false, kinds, ARRAY_SIZE(kinds));
}

static int setup_type_2a(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .mw_type_2a = true } });
	return 0;
}

static void windows_of_type_2a(void **state)
{
	static const enum kind kinds[] = { WINDOW_1, WINDOW_2A };

	all_of(*state, true, kinds, ARRAY_SIZE(kinds));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(regions_and_windows_of_type_2b),
		cmocka_unit_test_setup_teardown(windows_of_type_2a, setup_type_2a, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
