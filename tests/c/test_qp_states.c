/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The QP state machine (IBTA vol. 1, 10.3.1 and the table of modifiable attributes in 11.2.5.2),
 * with the optional attributes as Linux' ib_modify_qp_is_ok() grants them, which does not take a QP from RESET to ERR,
 * and no AV for a UC QP in SQD, as ib_uverbs_modify_qp() adds PORT to that. Every pair of states,
 * each required attribute left out, each attribute that does not belong there.
 */
#include "core/av.h"
#include "harness.h"
#include "proto/qp.h"

#define STATES 7 /* RESET .. ERR */
#define TYPES 3

#define S SIMHCA_QP_STATE
#define CUR SIMHCA_QP_CUR_STATE
#define NOTIFY SIMHCA_QP_EN_SQD_ASYNC_NOTIFY
#define ACCESS SIMHCA_QP_ACCESS_FLAGS
#define PKEY SIMHCA_QP_PKEY_INDEX
#define PORT SIMHCA_QP_PORT
#define QKEY SIMHCA_QP_QKEY
#define AV SIMHCA_QP_AV
#define MTU SIMHCA_QP_PATH_MTU
#define TIMEOUT SIMHCA_QP_TIMEOUT
#define RETRY SIMHCA_QP_RETRY_CNT
#define RNR SIMHCA_QP_RNR_RETRY
#define RQPSN SIMHCA_QP_RQ_PSN
#define SQPSN SIMHCA_QP_SQ_PSN
#define ORD SIMHCA_QP_MAX_QP_RD_ATOMIC
#define IRD SIMHCA_QP_MAX_DEST_RD_ATOMIC
#define RNRTIMER SIMHCA_QP_MIN_RNR_TIMER
#define DEST SIMHCA_QP_DEST_QPN

/* Alternate paths are not tried here: a device may lack them. */
static const uint32_t attributes[] = { CUR,
				       NOTIFY,
				       ACCESS,
				       PKEY,
				       PORT,
				       QKEY,
				       AV,
				       MTU,
				       TIMEOUT,
				       RETRY,
				       RNR,
				       RQPSN,
				       SQPSN,
				       ORD,
				       IRD,
				       RNRTIMER,
				       DEST,
				       SIMHCA_QP_CAP,
				       SIMHCA_QP_RATE_LIMIT };

struct transition {
	enum ibv_qp_state from, to;
	uint32_t required[TYPES]; /* RC, UC, UD; the state itself always is */
	uint32_t optional[TYPES];
};

/* SQE is only reached by an error; only UC and UD get there. */
static const struct transition legal[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_RESET,
	  IBV_QPS_INIT,
	  { PKEY | PORT | ACCESS, PKEY | PORT | ACCESS, PKEY | PORT | QKEY },
	  { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_INIT,
	  IBV_QPS_INIT,
	  { 0 },
	  { PKEY | PORT | ACCESS, PKEY | PORT | ACCESS, PKEY | PORT | QKEY } },
	{ IBV_QPS_INIT,
	  IBV_QPS_RTR,
	  { AV | MTU | DEST | RQPSN | IRD | RNRTIMER, AV | MTU | DEST | RQPSN, 0 },
	  { ACCESS | PKEY, ACCESS | PKEY, PKEY | QKEY } },
	{ IBV_QPS_RTR, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_RTR, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_RTR,
	  IBV_QPS_RTS,
	  { TIMEOUT | RETRY | RNR | SQPSN | ORD, SQPSN, SQPSN },
	  { CUR | ACCESS | RNRTIMER, CUR | ACCESS, CUR | QKEY } },
	{ IBV_QPS_RTS, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_RTS, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_RTS, IBV_QPS_RTS, { 0 }, { CUR | ACCESS | RNRTIMER, CUR | ACCESS, CUR | QKEY } },
	{ IBV_QPS_RTS, IBV_QPS_SQD, { 0 }, { NOTIFY, NOTIFY, NOTIFY } },
	{ IBV_QPS_SQD, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_SQD, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_SQD, IBV_QPS_RTS, { 0 }, { CUR | ACCESS | RNRTIMER, CUR | ACCESS, CUR | QKEY } },
	{ IBV_QPS_SQD,
	  IBV_QPS_SQD,
	  { 0 },
	  { PORT | AV | TIMEOUT | RETRY | RNR | ORD | IRD | ACCESS | PKEY | RNRTIMER, ACCESS | PKEY,
	    PKEY | QKEY } },
	{ IBV_QPS_SQE, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_SQE, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_SQE, IBV_QPS_RTS, { 0 }, { CUR, CUR | ACCESS, CUR | QKEY } },
	{ IBV_QPS_ERR, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_ERR, IBV_QPS_ERR, { 0 }, { 0 } },
};

static const enum ibv_qp_type types[TYPES] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

static const struct transition *find(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < ARRAY_SIZE(legal); i++)
		if (legal[i].from == from && legal[i].to == to)
			return &legal[i];
	return NULL;
}

static bool reachable(enum ibv_qp_type type, enum ibv_qp_state state)
{
	return type != IBV_QPT_RC || state != IBV_QPS_SQE;
}

static struct simhca_qp_attr good_attr(struct qp *qp, enum ibv_qp_state now)
{
	struct options options = default_options(qp->type);
	struct simhca_qp_attr attr = qp_attr_to(qp, 1, 0x20, &options);

	attr.cur_qp_state = now;
	return attr;
}

/* A request that breaks a UC or UD sender: its SGE names no region. */
static void break_sender(struct qp *qp)
{
	struct simhca_sge bad = { .addr = 0x1000, .length = 8, .lkey = 0 };
	struct wr wr = {
		.opcode = SIMHCA_WR_SEND, .flags = SIMHCA_WQE_SIGNALED, .sges = &bad, .num_sge = 1
	};

	if (qp->type == IBV_QPT_UD) {
		wr.av = av_to(qp->client->world, 1, 0);
		wr.dest_qpn = 0x20;
	}
	qp_post(qp, &wr);
	run_until_idle(qp->client->world);
}

/* Brings a QP into a state, from wherever it is. */
static void put_into(struct qp *qp, enum ibv_qp_state state)
{
	assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
	switch (state) {
	case IBV_QPS_RESET:
		break;
	case IBV_QPS_SQD:
		qp_up_to(qp, IBV_QPS_RTS, good_attr(qp, IBV_QPS_RTS));
		assert_int_equal(0, qp_move(qp, IBV_QPS_SQD));
		break;
	case IBV_QPS_SQE:
		qp_up_to(qp, IBV_QPS_RTS, good_attr(qp, IBV_QPS_RTS));
		break_sender(qp);
		break;
	case IBV_QPS_ERR:
		qp_up_to(qp, IBV_QPS_INIT, good_attr(qp, IBV_QPS_INIT));
		assert_int_equal(0, qp_move(qp, IBV_QPS_ERR));
		break;
	default:
		qp_up_to(qp, state, good_attr(qp, state));
	}
	assert_int_equal(qp_state(qp), state);
}

static struct qp *fresh_qp(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);
	struct client *client = client_new(world, 0);

	return qp_new(client, &options, cq_new_flags(client, 64, SIMHCA_CQ_IGNORE_OVERRUN),
		      cq_new(client, 64), NULL);
}

/* Valid as well, and each attribute is another than good_attr()'s. */
static struct simhca_qp_attr other_attr(struct qp *qp, enum ibv_qp_state now)
{
	struct simhca_qp_attr attr = good_attr(qp, now);

	attr.qp_access_flags ^= SIMHCA_ACCESS_REMOTE_READ;
	attr.en_sqd_async_notify = !attr.en_sqd_async_notify;
	attr.qkey++;
	attr.path_mtu = IBV_MTU_256;
	attr.timeout ^= 1;
	attr.retry_cnt ^= 1;
	attr.rnr_retry ^= 1;
	attr.rq_psn ^= 0x555555;
	attr.sq_psn ^= 0xaaaaaa;
	attr.max_rd_atomic = 3;
	attr.max_dest_rd_atomic = 5;
	attr.min_rnr_timer ^= 1;
	attr.dest_qp_num ^= 0x1234;
	attr.av.flow_label ^= 0x12345;
	attr.av.traffic_class ^= 0x88;
	return attr;
}

/* Of a request that was refused nothing is left. */
static void nothing_has_changed(struct qp *qp, const struct simhca_qp_attr *before)
{
	struct simhca_qp_attr now = qp_query(qp);

	assert_memory_equal(&now, before, sizeof(now));
}

static int try(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, uint32_t mask)
{
	struct simhca_qp_attr attr, before;
	int error;

	put_into(qp, from);
	before = qp_query(qp);
	attr = other_attr(qp, from);
	attr.qp_state = to;
	error = qp_modify(qp, mask | S, attr);
	if (error)
		nothing_has_changed(qp, &before);
	else
		assert_int_equal(qp_state(qp), to);
	return error;
}

static void wrong(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		  uint32_t attribute, const char *what, int got)
{
	static const char *const name[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	fail_msg("%s %s to %s, attribute 0x%x %s: %d",
		 type == IBV_QPT_RC ? "RC" : (type == IBV_QPT_UC ? "UC" : "UD"), name[from],
		 name[to], attribute, what, got);
}

/* Every pair of states, with all that it requires: legal or EINVAL. */
static void only_legal_transitions_are_accepted(void **state)
{
	for (int t = 0; t < TYPES; t++) {
		struct qp *qp = fresh_qp(*state, types[t]);

		for (int from = 0; from < STATES; from++) {
			if (!reachable(types[t], from))
				continue;
			for (int to = 0; to < STATES; to++) {
				const struct transition *rule = find(from, to);
				int got;

				got = try(qp, from, to, rule ? rule->required[t] : 0);
				if (got != (rule ? 0 : -EINVAL))
					wrong(types[t], from, to, 0, "required only", got);
			}
		}
	}
}

/* An illegal transition is not made legal by bringing along every attribute. */
static void attributes_do_not_make_a_transition_legal(void **state)
{
	uint32_t all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		all |= attributes[i];
	for (int t = 0; t < TYPES; t++) {
		struct qp *qp = fresh_qp(*state, types[t]);

		for (int from = 0; from < STATES; from++)
			for (int to = 0; to < STATES; to++)
				if (reachable(types[t], from) && !find(from, to))
					assert_int_equal(try(qp, from, to, all), -EINVAL);
	}
}

static void each_required_attribute_is_required(void **state)
{
	for (int t = 0; t < TYPES; t++) {
		struct qp *qp = fresh_qp(*state, types[t]);

		for (size_t i = 0; i < ARRAY_SIZE(legal); i++) {
			const struct transition *rule = &legal[i];

			for (size_t a = 0; a < ARRAY_SIZE(attributes); a++) {
				int got;

				if (!(rule->required[t] & attributes[a]))
					continue;
				got = try(qp, rule->from, rule->to,
					  rule->required[t] & ~attributes[a]);
				if (got != -EINVAL)
					wrong(types[t], rule->from, rule->to, attributes[a],
					      "left out", got);
			}
		}
	}
}

static void each_optional_attribute_is_accepted(void **state)
{
	for (int t = 0; t < TYPES; t++) {
		struct qp *qp = fresh_qp(*state, types[t]);

		for (size_t i = 0; i < ARRAY_SIZE(legal); i++) {
			const struct transition *rule = &legal[i];
			int got;

			if (!reachable(types[t], rule->from))
				continue;
			for (size_t a = 0; a < ARRAY_SIZE(attributes); a++) {
				if (!(rule->optional[t] & attributes[a]))
					continue;
				got = try(qp, rule->from, rule->to,
					  rule->required[t] | attributes[a]);
				if (got)
					wrong(types[t], rule->from, rule->to, attributes[a],
					      "optional", got);
			}
			got = try(qp, rule->from, rule->to, rule->required[t] | rule->optional[t]);
			if (got)
				wrong(types[t], rule->from, rule->to, rule->optional[t],
				      "all optional", got);
		}
	}
}

static void each_other_attribute_is_refused(void **state)
{
	for (int t = 0; t < TYPES; t++) {
		struct qp *qp = fresh_qp(*state, types[t]);

		for (size_t i = 0; i < ARRAY_SIZE(legal); i++) {
			const struct transition *rule = &legal[i];
			uint32_t fits = rule->required[t] | rule->optional[t];

			if (!reachable(types[t], rule->from))
				continue;
			for (size_t a = 0; a < ARRAY_SIZE(attributes); a++) {
				int got;

				/* The current state does no harm where it is not needed. */
				if (fits & attributes[a] || attributes[a] == CUR)
					continue;
				got = try(qp, rule->from, rule->to,
					  rule->required[t] | attributes[a]);
				if (got != -EINVAL)
					wrong(types[t], rule->from, rule->to, attributes[a],
					      "out of place", got);
			}
		}
	}
}

/* Without IBV_QP_STATE the QP stays where it is: the rules are those of state to itself. */
static void without_a_state_the_state_stays(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);
	struct simhca_qp_attr attr = good_attr(qp, IBV_QPS_RTS);

	put_into(qp, IBV_QPS_RTS);
	attr.qp_access_flags = SIMHCA_ACCESS_REMOTE_READ;
	assert_int_equal(0, qp_modify(qp, ACCESS, attr));
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	assert_int_equal(qp_query(qp).qp_access_flags, SIMHCA_ACCESS_REMOTE_READ);
	assert_int_equal(-EINVAL, qp_modify(qp, DEST, attr));
	assert_int_equal(-EINVAL, qp_modify(qp, TIMEOUT, attr));
}

static void a_wrong_current_state_is_refused(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);
	struct simhca_qp_attr attr;

	put_into(qp, IBV_QPS_RTS);
	attr = good_attr(qp, IBV_QPS_SQD);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(-EINVAL, qp_modify(qp, S | CUR, attr));
	attr.cur_qp_state = IBV_QPS_RTS;
	assert_int_equal(0, qp_modify(qp, S | CUR, attr));
}

static void unknown_states_and_masks_are_refused(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);

	for (uint32_t to = STATES; to < STATES + 3; to++)
		assert_int_equal(-EINVAL, qp_move(qp, to));
	assert_int_equal(-EINVAL, qp_move(qp, 0xffffffff));
	for (int bit = 21; bit < 32; bit++)
		if (1u << bit != SIMHCA_QP_RATE_LIMIT)
			assert_int_equal(
				-EOPNOTSUPP,
				qp_modify(qp, S | 1u << bit,
					  (struct simhca_qp_attr){ .qp_state = IBV_QPS_RESET }));
}

/* Values out of range, each alone, in a request that is right otherwise. */
static void values_out_of_range_are_refused(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);
	struct simhca_qp_attr good = other_attr(qp, IBV_QPS_RTR), bad, before;

#define REFUSED_WITH(error, from, to, mask, field, value)                                          \
	do {                                                                                       \
		put_into(qp, from);                                                                \
		before = qp_query(qp);                                                             \
		bad = good;                                                                        \
		bad.qp_state = to;                                                                 \
		bad.field = value;                                                                 \
		assert_int_equal(-(error), qp_modify(qp, mask, bad));                              \
		nothing_has_changed(qp, &before);                                                  \
	} while (0)
#define REFUSED(...) REFUSED_WITH(EINVAL, __VA_ARGS__)
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, init_mask(IBV_QPT_RC), port_num, 0);
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, init_mask(IBV_QPT_RC), port_num, 2);
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, init_mask(IBV_QPT_RC), pkey_index,
		SIMHCA_PKEY_ENTRIES);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), path_mtu, 0);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), path_mtu, IBV_MTU_4096 + 1);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), max_dest_rd_atomic,
		SIMHCA_MAX_RD_ATOMIC + 1);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), min_rnr_timer, 32);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), dest_qp_num, 0x1000000);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), av.port_num, 2);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), av.sgid_index, SIMHCA_GID_ENTRIES);
	REFUSED_WITH(ENODATA, IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), av.sgid_index,
		     5);							   /* empty */
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), av.is_global, 0); /* RoCE */
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask(IBV_QPT_RC), av.dgid, (union simhca_gid){ 0 });
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, rts_mask(IBV_QPT_RC), timeout, 32);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, rts_mask(IBV_QPT_RC), retry_cnt, 8);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, rts_mask(IBV_QPT_RC), rnr_retry, 8);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, rts_mask(IBV_QPT_RC), max_rd_atomic,
		SIMHCA_MAX_INIT_RD_ATOMIC + 1);
#undef REFUSED
#undef REFUSED_WITH
}

/*
 * An engine brings the QP down between the check of a request and the change of its state, which is
 * refused then: of its attributes none is there.
 */
static struct simhca_qp *falls;

int __real_simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
			   struct simhca_why *why);
int __wrap_simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
			   struct simhca_why *why);
int __wrap_simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
			   struct simhca_why *why)
{
	struct simhca_qp *qp = falls;

	if (qp && atomic_load(&qp->req_lock.word)) {
		falls = NULL;
		simhca_qp_fail(qp, SIMHCA_QPS_ERR);
	}
	return __real_simhca_av_check(device, av, why);
}

static void a_request_that_meets_an_error_changes_nothing(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		enum ibv_qp_state from, to;
	} row[] = {
		{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR },
		{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD },
		{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct qp *qp = fresh_qp(*state, row[i].type);
		const struct transition *rule = find(row[i].from, row[i].to);
		int t = row[i].type == IBV_QPT_RC ? 0 : 1;
		struct simhca_qp_attr attr = other_attr(qp, row[i].from), before;

		put_into(qp, row[i].from);
		before = qp_query(qp);
		attr.qp_state = row[i].to;
		falls = simhca_object(qp->client->context, SIMHCA_OBJ_QP, qp->handle, NULL);
		assert_int_equal(-EINVAL,
				 qp_modify(qp, S | rule->required[t] | rule->optional[t], attr));
		assert_null(falls);
		before.qp_state = before.cur_qp_state = IBV_QPS_ERR;
		nothing_has_changed(qp, &before);
	}
}

/* There is no path migration: an alternate path, or arming one, is refused. */
static void path_migration_is_refused(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);
	struct simhca_qp_attr attr = good_attr(qp, IBV_QPS_RTR);

	put_into(qp, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTR;
	attr.alt_av = attr.av;
	attr.alt_port_num = 1;
	assert_int_equal(-EINVAL, qp_modify(qp, rtr_mask(IBV_QPT_RC) | SIMHCA_QP_ALT_PATH, attr));
	put_into(qp, IBV_QPS_RTS);
	attr.path_mig_state = IBV_MIG_REARM;
	assert_int_equal(-EINVAL, qp_modify(qp, SIMHCA_QP_PATH_MIG_STATE, attr));
	attr.path_mig_state = IBV_MIG_MIGRATED;
	assert_int_equal(0, qp_modify(qp, SIMHCA_QP_PATH_MIG_STATE, attr));
}

/* A path MTU above the port's would need packets that the link does not carry. */
static void a_path_mtu_above_the_ports_is_refused(void **state)
{
	struct world *world = world_new(&(struct world_config){ .device = { .mtu = 1024 } });
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(world, 0);
	struct cq *cq = cq_new(client, 4);
	struct qp *qp = qp_new(client, &options, cq, cq, NULL);
	struct simhca_qp_attr attr = qp_attr_to(qp, 1, 0x20, &options);

	qp_up_to(qp, IBV_QPS_INIT, attr);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_2048;
	assert_int_equal(-EINVAL, qp_modify(qp, rtr_mask(IBV_QPT_RC), attr));
	attr.path_mtu = IBV_MTU_1024;
	assert_int_equal(0, qp_modify(qp, rtr_mask(IBV_QPT_RC), attr));
	world_free(world);
}

static void queries_return_what_was_set(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct qp *qp = fresh_qp(*state, IBV_QPT_RC);
	struct simhca_qp_attr set, got;

	options.psn = 0xabcdef;
	set = qp_attr_to(qp, 1, 0x4321, &options);
	set.sq_psn = 0xfedcba;
	set.qp_access_flags = SIMHCA_ACCESS_REMOTE_ATOMIC;
	set.path_mtu = IBV_MTU_512;
	set.max_rd_atomic = 3;
	set.max_dest_rd_atomic = 5;
	set.min_rnr_timer = 17;
	set.timeout = 11;
	set.retry_cnt = 4;
	set.rnr_retry = 2;
	set.av.flow_label = 0x12345;
	set.av.hop_limit = 9;
	set.av.traffic_class = 0x88;
	set.av.sl = 3;
	set.av.sgid_index = 1;
	set.av.dgid = device_gid(1, 1);
	qp_up_to(qp, IBV_QPS_RTS, set);
	got = qp_query(qp);
	assert_int_equal(got.qp_state, IBV_QPS_RTS);
	assert_int_equal(got.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(got.port_num, 1);
	assert_int_equal(got.pkey_index, 0);
	assert_int_equal(got.qp_access_flags, set.qp_access_flags);
	assert_int_equal(got.path_mtu, set.path_mtu);
	assert_int_equal(got.dest_qp_num, 0x4321);
	assert_int_equal(got.rq_psn, 0xabcdef);
	assert_int_equal(got.sq_psn, 0xfedcba);
	assert_int_equal(got.max_rd_atomic, 3);
	assert_int_equal(got.max_dest_rd_atomic, 5);
	assert_int_equal(got.min_rnr_timer, 17);
	assert_int_equal(got.timeout, 11);
	assert_int_equal(got.retry_cnt, 4);
	assert_int_equal(got.rnr_retry, 2);
	assert_memory_equal(&got.av, &set.av, sizeof(set.av));
	assert_int_equal(got.max_send_wr, qp->granted.max_send_wr);
	assert_int_equal(got.max_recv_wr, qp->granted.max_recv_wr);
	assert_int_equal(got.max_send_sge, qp->granted.max_send_sge);
	assert_int_equal(got.max_recv_sge, qp->granted.max_recv_sge);
	assert_int_equal(got.max_inline, qp->granted.max_inline);
	assert_int_equal(got.sq_sig_all, 0);
	assert_int_equal(got.sq_draining, 0);
}

/* As mlx5's next_send_psn and next_rcv_psn: who takes a connection over goes on from there. */
static void queries_return_the_psns_that_come_next(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_qp_attr before[2] = { qp_query(pair->a.qp), qp_query(pair->b.qp) }, got;
	const uint32_t mtu = 128u << before[0].path_mtu;

	recv_into(&pair->b, 1, 0, 3 * mtu);
	send_from(&pair->a, 2, 0, 2 * mtu + 1);
	run_until_idle(*state);
	got = qp_query(pair->a.qp);
	assert_int_equal(got.sq_psn, before[0].sq_psn + 3);
	assert_int_equal(got.rq_psn, before[0].rq_psn);
	got = qp_query(pair->b.qp);
	assert_int_equal(got.rq_psn, before[1].rq_psn + 3);
	assert_int_equal(got.sq_psn, before[1].sq_psn);
}

static void ud_queries_return_the_qkey(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_UD);
	struct simhca_qp_attr attr = good_attr(qp, IBV_QPS_RTS);

	attr.qkey = 0x76543210;
	qp_up_to(qp, IBV_QPS_RTS, attr);
	assert_int_equal(qp_query(qp).qkey, 0x76543210);
	attr.qkey = 0x1;
	assert_int_equal(0, qp_modify(qp, QKEY, attr));
	assert_int_equal(qp_query(qp).qkey, 1);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

static void psns_above_24_bits_are_cut(void **state)
{
	struct qp *qp = fresh_qp(*state, IBV_QPT_UC);
	struct simhca_qp_attr attr = good_attr(qp, IBV_QPS_RTS);

	attr.rq_psn = 0x1000001;
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(0, qp_modify(qp, init_mask(IBV_QPT_UC), attr));
	attr.qp_state = IBV_QPS_RTR;
	/* Either is good: a refusal, or the low 24 bits; never a PSN that no packet can have. */
	if (!qp_modify(qp, rtr_mask(IBV_QPT_UC), attr))
		assert_int_equal(qp_query(qp).rq_psn, 1);
}

static void reset_forgets_everything(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_qp_attr got;

	check_works(pair);
	recv_into(&pair->a, 1, 0, 64);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	got = qp_query(pair->a.qp);
	assert_int_equal(got.qp_state, IBV_QPS_RESET);
	assert_int_equal(got.dest_qp_num, 0);
	assert_int_equal(got.qp_access_flags, 0);
	assert_int_equal(got.rq_psn, 0);
	assert_int_equal(got.sq_psn, 0);
	assert_int_equal(got.timeout, 0);
	assert_int_equal(got.max_rd_atomic, 0);
	assert_true(all_bytes((uint8_t *)&got.av, sizeof(got.av), 0));
	/* Queues are empty, and no flush tells of what was in them. */
	assert_int_equal(atomic_load(rq_pi_of(pair->a.qp)), rq_ci_of(pair->a.qp));
	assert_int_equal(atomic_load(&pair->a.qp->state->sq_pi), sq_ci_of(pair->a.qp));
	expect_none(pair->a.recv_cq);
	expect_none(pair->a.send_cq);
}

static void a_qp_works_again_after_reset(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct options options = default_options(kinds[i]);
		struct pair *pair = pair_new(*state, &options);

		for (int lap = 0; lap < 4; lap++) {
			check_works(pair);
			/* Half-way through work, and from ERR. */
			recv_into(&pair->b, 1, 0, 64);
			if (lap & 1) {
				struct simhca_cqe cqe;

				assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_ERR));
				run_until_idle(*state);
				while (cq_poll(pair->b.recv_cq, &cqe))
					assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
			}
			pair_reconnect(pair);
		}
	}
}

/* Requests posted early wait: receives from INIT on, sends until RTS. */
static void sends_wait_for_rts(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options);

	qp_up_to(pair->b.qp, IBV_QPS_INIT, qp_attr_to(pair->b.qp, 0, pair->a.qp->qpn, &options));
	recv_into(&pair->b, 2, 0, 64);
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &options);
	qp_up_to(pair->a.qp, IBV_QPS_RTR, attr);
	send_from(&pair->a, 1, 0, 64);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(0, qp_modify(pair->a.qp, rts_mask(IBV_QPT_RC), attr));
	qp_ring(pair->a.qp);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
}

static void rtr_receives_and_answers(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);

	qp_connect(pair->a.qp, 1, pair->b.qp->qpn, &options);
	qp_up_to(pair->b.qp, IBV_QPS_RTR, qp_attr_to(pair->b.qp, 0, pair->a.qp->qpn, &options));
	check_works(pair);
	fill(pair->b.mr->addr, 100, 9);
	rdma_read(&pair->a, 5, 0, 100, 0);
	expect(pair->a.send_cq, 5, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 100, 9));
}

/* A UC or UD sender that failed goes on after SQE to RTS, and received all the time. */
static void sqe_is_left_by_rts(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct options options = default_options(kinds[i]);
		struct pair *pair = pair_new(*state, &options);
		struct pair back = { .a = pair->b, .b = pair->a };

		back.a.peer = &back.b;
		back.b.peer = &back.a;
		break_sender(pair->a.qp);
		expect(pair->a.send_cq, 0, LOC_PROT_ERR);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQE);
		send_from(&pair->a, 1, 0, 8);
		expect(pair->a.send_cq, 1, WR_FLUSH_ERR);
		check_works(&back);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQE);
		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
		check_works(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(only_legal_transitions_are_accepted),
		ON_INFINIBAND(only_legal_transitions_are_accepted),
		ON_ETHERNET(attributes_do_not_make_a_transition_legal),
		ON_ETHERNET(each_required_attribute_is_required),
		ON_ETHERNET(each_optional_attribute_is_accepted),
		ON_ETHERNET(each_other_attribute_is_refused),
		ON_ETHERNET(without_a_state_the_state_stays),
		ON_ETHERNET(a_wrong_current_state_is_refused),
		ON_ETHERNET(unknown_states_and_masks_are_refused),
		ON_ETHERNET(values_out_of_range_are_refused),
		ON_ETHERNET(a_request_that_meets_an_error_changes_nothing),
		ON_ETHERNET(path_migration_is_refused),
		cmocka_unit_test(a_path_mtu_above_the_ports_is_refused),
		ON_ETHERNET(queries_return_what_was_set),
		ON_ETHERNET(queries_return_the_psns_that_come_next),
		ON_ETHERNET(ud_queries_return_the_qkey),
		ON_ETHERNET(psns_above_24_bits_are_cut),
		ON_ETHERNET(reset_forgets_everything),
		ON_ETHERNET(a_qp_works_again_after_reset),
		ON_ETHERNET(sends_wait_for_rts),
		ON_ETHERNET(rtr_receives_and_answers),
		ON_ETHERNET(sqe_is_left_by_rts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
