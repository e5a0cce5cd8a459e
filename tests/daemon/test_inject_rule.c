/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rules of faults as they are written: what they say, and what is said of those that say nothing.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "inject_rule.h"
#include "packet/packet.h"

static struct simhca_rule parse(const char *text)
{
	struct simhca_rule rule;
	char error[512] = "";

	if (!inject_rule_parse(text, &rule, error, sizeof(error)))
		fail_msg("%s: %s", text, error);
	return rule;
}

static void expect_error(const char *text, const char *part)
{
	struct simhca_rule rule;
	char error[512] = "";

	if (inject_rule_parse(text, &rule, error, sizeof(error)))
		fail_msg("%s: was taken", text);
	if (!strstr(error, part))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, error, part);
}

static void actions(void **state)
{
	static const struct {
		const char *text;
		enum simhca_inject_action action;
		uint64_t ns, rate;
		uint32_t value;
	} cases[] = {
		{ "drop", SIMHCA_INJECT_DROP, 0, 0, 0 },
		{ "duplicate", SIMHCA_INJECT_DUPLICATE, 0, 0, 0 },
		{ "reorder", SIMHCA_INJECT_REORDER, 0, 0, 0 },
		{ "corrupt", SIMHCA_INJECT_CORRUPT, 0, 0, 0 },
		{ "delay 10ms", SIMHCA_INJECT_DELAY, 10000000, 0, 0 },
		{ "delay 1.5us", SIMHCA_INJECT_DELAY, 1500, 0, 0 },
		{ "slow 5MB/s", SIMHCA_INJECT_SLOW, 0, 5000000, 0 },
		{ "rnr", SIMHCA_INJECT_RNR, 0, 0, 0 },
		{ "nak sequence", SIMHCA_INJECT_NAK, 0, 0, SIMHCA_SYNDROME_NAK_PSN },
		{ "nak invalid", SIMHCA_INJECT_NAK, 0, 0, SIMHCA_SYNDROME_NAK_INVALID },
		{ "nak access", SIMHCA_INJECT_NAK, 0, 0, SIMHCA_SYNDROME_NAK_ACCESS },
		{ "nak operational", SIMHCA_INJECT_NAK, 0, 0, SIMHCA_SYNDROME_NAK_OPERATIONAL },
		{ "fault 2s", SIMHCA_INJECT_FAULT, 2000000000, 0, 0 },
		{ "complete IBV_WC_LOC_PROT_ERR", SIMHCA_INJECT_COMPLETE, 0, 0,
		  IBV_WC_LOC_PROT_ERR },
		{ "complete rem_op_err", SIMHCA_INJECT_COMPLETE, 0, 0, IBV_WC_REM_OP_ERR },
		{ "hold", SIMHCA_INJECT_HOLD, 0, 0, 0 },
		{ "hold 1ms", SIMHCA_INJECT_HOLD, 1000000, 0, 0 },
		{ "doorbell 1ms", SIMHCA_INJECT_DOORBELL, 1000000, 0, 0 },
		{ "no-event", SIMHCA_INJECT_NO_EVENT, 0, 0, 0 },
		{ "verb REG_MR=ENOMEM", SIMHCA_INJECT_VERB, 0, 0, ENOMEM },
		{ "reject", SIMHCA_INJECT_REJECT, 0, 0, 28 },
		{ "reject 8", SIMHCA_INJECT_REJECT, 0, 0, 8 },
		{ "async QP_FATAL", SIMHCA_INJECT_ASYNC, 0, 0, IBV_EVENT_QP_FATAL },
		{ "async CQ_ERR", SIMHCA_INJECT_ASYNC, 0, 0, IBV_EVENT_CQ_ERR },
		{ "port-down 1ms", SIMHCA_INJECT_PORT_DOWN, 1000000, 0, 0 },
		{ "gid-change 1ms", SIMHCA_INJECT_GID_CHANGE, 1000000, 0, 0 },
		{ "fatal", SIMHCA_INJECT_FATAL, 0, 0, 0 },
		{ "kill", SIMHCA_INJECT_KILL, 0, 0, 0 },
	};
	unsigned int seen = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct simhca_rule rule = parse(cases[i].text);

		assert_int_equal(rule.action, cases[i].action);
		assert_int_equal(rule.ns, cases[i].ns);
		assert_int_equal(rule.rate, cases[i].rate);
		assert_int_equal(rule.value, cases[i].value);
		seen |= 1u << rule.action;
	}
	assert_int_equal(seen, (1u << SIMHCA_INJECT_ACTIONS) - 1);
	assert_int_equal(parse("verb REG_MR=ENOMEM").verb, SIMHCA_CMD_REG_MR);
	assert_true(parse("kill peer").peer);
	assert_false(parse("kill").peer);
	assert_true(parse("kill now").now);
}

static void where_and_when(void **state)
{
	struct simhca_rule rule = parse(" drop  device=simhca1 program=server qp=0x12 "
					"opcode=SEND,RDMA_READ\tnth=3-5 every=2 "
					"times=7 p=0.5 seed=9 direction=response\n");

	assert_string_equal(rule.device, "simhca1");
	assert_string_equal(rule.program, "server");
	assert_int_equal(rule.qpn, 0x12);
	assert_int_equal(rule.opcodes, 1u << IBV_WR_SEND | 1u << IBV_WR_RDMA_READ);
	assert_int_equal(rule.first, 3);
	assert_int_equal(rule.last, 5);
	assert_int_equal(rule.every, 2);
	assert_int_equal(rule.times, 7);
	assert_int_equal(rule.chance, 1ull << 31);
	assert_int_equal(rule.seed, 9);
	assert_true(rule.responses);
	assert_string_equal(rule.text, "drop device=simhca1 program=server qp=0x12 "
				       "opcode=SEND,RDMA_READ nth=3-5 every=2 times=7 p=0.5 "
				       "seed=9 direction=response");
	rule = parse("complete REM_OP_ERR program=123 side=receive nth=4-");
	assert_int_equal(rule.pid, 123);
	assert_string_equal(rule.program, "");
	assert_true(rule.receives);
	assert_int_equal(rule.first, 4);
	assert_int_equal(rule.last, 0);
	rule = parse("drop nth=4 p=1");
	assert_int_equal(rule.last, 4);
	assert_int_equal(rule.chance, 1ull << 32);
}

static void errors(void **state)
{
	char longest[SIMHCA_RULE_TEXT + 1];

	expect_error("", "a rule is missing; it begins with drop, ");
	expect_error("lose", "lose: a rule begins with drop, ");
	expect_error("drop it", "it: should be device=, ");
	expect_error("drop nht=3", "nht=3: there is no nht=; did you mean nth=?");
	expect_error("drop nothing=3", "nothing=3: should be device=, ");
	expect_error("dorp nth=3", "dorp: no rule begins so; did you mean drop?");
	expect_error("drop opcode=SEND,RDMA_RAED",
		     "opcode=SEND,RDMA_RAED: there is no RDMA_RAED; did you mean RDMA_READ?");
	expect_error("drop nth=3 nth=4", "nth: is there twice");
	expect_error("drop nth=0", "nth=0: should be N, N-M");
	expect_error("drop nth=5-3", "nth=5-3: should be N, N-M");
	expect_error("drop every=0", "every=0: should be a number from 1 on");
	expect_error("drop times=-1", "times=-1: should be a number from 1 on");
	expect_error("drop p=2", "p=2: should be a probability");
	expect_error("drop p=nan", "p=nan: should be a probability");
	expect_error("drop seed=x p=1", "seed=x: should be a number");
	expect_error("drop seed=1", "seed: goes with p");
	expect_error("drop qp=0", "qp=0: should be a QP's number");
	expect_error("drop opcode=PUT", "opcode=PUT: should be opcodes");
	expect_error("drop opcode=?", "opcode=?: should be opcodes");
	expect_error("drop direction=up", "direction=up: is request or response");
	expect_error("drop program=a-name-of-16-chars", "program=a-name-of-16-chars: ");
	expect_error("drop side=send", "side: does not go with drop");
	expect_error("rnr direction=request", "direction: does not go with rnr");
	expect_error("verb REG_MR=ENOMEM qp=3", "qp: does not go with verb");
	expect_error("reject program=x", "program: does not go with reject");
	expect_error("delay", "delay: needs an argument; should be a time");
	expect_error("delay nth=3", "delay: needs an argument; should be a time");
	expect_error("delay 10", "10: should be a time");
	expect_error("delay -1ms", "-1ms: should be a time");
	expect_error("slow 3", "3: should be bytes in a second");
	expect_error("nak busy", "busy: a NAK is sequence, ");
	expect_error("complete SUCCESS", "SUCCESS: is no error");
	expect_error("complete BAD", "BAD: should be the status");
	expect_error("verb REG_MR", "REG_MR: should be COMMAND=ERRNO");
	expect_error("verb POST_SEND=EIO", "POST_SEND: is no command of the device");
	expect_error("verb REG_MR=EWHAT", "EWHAT: should be an errno");
	expect_error("reject 0", "0: should be the number of a reason");
	expect_error("async BOOM", "BOOM: should be an asynchronous event");
	expect_error("kill me", "me: kill, or kill peer");
	expect_error("drop now", "now: goes with port-down");
	expect_error("kill now nth=3", "now: is one time");
	expect_error("kill now qp=3", "now: is at no QP");
	expect_error("port-down now", "now: say for how long");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	expect_error(longest, "a rule has up to 255 characters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(actions),
		cmocka_unit_test(where_and_when),
		cmocka_unit_test(errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
