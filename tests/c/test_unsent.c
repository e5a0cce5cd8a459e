/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the host refuses to send, and to whom: unsent.h by itself. */
#include <errno.h>

#include "harness.h"
#include "link/wire/unsent.h"

#define LONG_NS 600000000000ull

static int open_unsent(void **state)
{
	static struct simhca_unsent unsent;

	simhca_unsent_open(&unsent);
	*state = &unsent;
	return 0;
}

static int close_unsent(void **state)
{
	simhca_unsent_close(*state);
	return 0;
}

static union simhca_gid address(uint8_t number)
{
	return (union simhca_gid){ .raw = { [15] = number } };
}

/* Each address has its own last error. */
static void of_each_address(void **state)
{
	union simhca_gid one = address(1), other = address(2), third = address(3);

	assert_int_equal(simhca_unsent_error(*state, &one, LONG_NS), 0);
	simhca_unsent_add(*state, &one, EMSGSIZE);
	simhca_unsent_add(*state, &other, EPERM);
	assert_int_equal(simhca_unsent_error(*state, &one, LONG_NS), EMSGSIZE);
	assert_int_equal(simhca_unsent_error(*state, &other, LONG_NS), EPERM);
	assert_int_equal(simhca_unsent_error(*state, &third, LONG_NS), 0);
	simhca_unsent_add(*state, &one, ENETUNREACH);
	assert_int_equal(simhca_unsent_error(*state, &one, LONG_NS), ENETUNREACH);
}

/* What was longer ago than is asked about does not count. */
static void of_late(void **state)
{
	const struct timespec moment = { .tv_nsec = 2000000 };
	union simhca_gid one = address(1);

	simhca_unsent_add(*state, &one, EPERM);
	nanosleep(&moment, NULL);
	assert_int_equal(simhca_unsent_error(*state, &one, 1000000), 0);
	assert_int_equal(simhca_unsent_error(*state, &one, LONG_NS), EPERM);
}

/* The newest addresses are known; the oldest are forgotten. */
static void of_the_newest(void **state)
{
	union simhca_gid oldest = address(0), newest = address(SIMHCA_UNSENT_ADDRESSES);

	for (uint8_t i = 0; i <= SIMHCA_UNSENT_ADDRESSES; i++) {
		union simhca_gid gid = address(i);

		simhca_unsent_add(*state, &gid, EPERM);
	}
	assert_int_equal(simhca_unsent_error(*state, &oldest, LONG_NS), 0);
	assert_int_equal(simhca_unsent_error(*state, &newest, LONG_NS), EPERM);
}

/* What lasts is a reason; what passes by itself, as a full buffer does, is none. */
static void reasons(void **state)
{
	static const struct {
		int error;
		enum simhca_reason reason;
	} known[] = {
		{ EMSGSIZE, SIMHCA_REASON_WIRE_TOO_LONG },
		{ ENETUNREACH, SIMHCA_REASON_WIRE_NO_ROUTE },
		{ EHOSTUNREACH, SIMHCA_REASON_WIRE_NO_ROUTE },
		{ ENETDOWN, SIMHCA_REASON_WIRE_NO_ROUTE },
		{ EPERM, SIMHCA_REASON_WIRE_FORBIDDEN },
		{ EACCES, SIMHCA_REASON_WIRE_FORBIDDEN },
		{ EADDRNOTAVAIL, SIMHCA_REASON_WIRE_CLOSED },
		{ ENOBUFS, SIMHCA_REASON_NONE },
		{ EAGAIN, SIMHCA_REASON_NONE },
		{ 0, SIMHCA_REASON_NONE },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(simhca_unsent_reason(known[i].error), known[i].reason);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_each_address, open_unsent, close_unsent),
		cmocka_unit_test_setup_teardown(of_late, open_unsent, close_unsent),
		cmocka_unit_test_setup_teardown(of_the_newest, open_unsent, close_unsent),
		cmocka_unit_test(reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
