/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The memory of packets that come by the wire: arrival.h by itself. */
#include "harness.h"
#include "link/wire/arrival.h"

#define SHORT 256
#define LONG 4096

static int open_arrivals(void **state)
{
	static struct simhca_arrivals arrivals;

	simhca_arrivals_open(&arrivals);
	*state = &arrivals;
	return 0;
}

static int close_arrivals(void **state)
{
	struct simhca_arrivals *arrivals = *state;

	assert_int_equal(arrivals->held, 0);
	simhca_arrivals_close(arrivals);
	return 0;
}

static struct simhca_arrival *comes(struct simhca_arrivals *arrivals, const uint8_t *payload,
				    uint32_t length, struct simhca_wire_buffer *buffer)
{
	const struct simhca_packet packet = { .op = SIMHCA_PKT_SEND, .length = length };
	const struct simhca_wire_datagram datagram = { .buffer = buffer };

	return simhca_arrival_create(arrivals, &packet, payload, &datagram);
}

/* A buffer that has a short payload alone can be received into again. */
static void a_short_payload_is_copied(void **state)
{
	struct simhca_wire_buffer *buffer = simhca_arrivals_buffer(*state);
	uint8_t *bytes = simhca_wire_buffer_bytes(buffer);
	struct simhca_arrival *arrival;

	memset(bytes, 1, SHORT);
	arrival = comes(*state, bytes, SHORT, buffer);
	memset(bytes, 2, SHORT);
	assert_false(simhca_wire_buffer_is_held(buffer));
	for (int i = 0; i < SHORT; i++)
		assert_int_equal(arrival->payload[i], 1);
	simhca_arrival_free(arrival);
	simhca_wire_buffer_put(buffer);
}

/* A long one stays where it is, and nothing else comes there until all of the buffer were delivered. */
static void a_long_payload_stays(void **state)
{
	struct simhca_wire_buffer *buffer = simhca_arrivals_buffer(*state), *other;
	uint8_t *bytes = simhca_wire_buffer_bytes(buffer);
	struct simhca_arrival *arrival[2];

	memset(bytes, 1, LONG);
	memset(bytes + LONG, 2, SHORT + 1);
	arrival[0] = comes(*state, bytes, LONG, buffer);
	arrival[1] = comes(*state, bytes + LONG, SHORT + 1, buffer);
	assert_true(simhca_wire_buffer_is_held(buffer));
	simhca_wire_buffer_put(buffer);
	assert_ptr_equal(arrival[0]->payload, bytes);
	simhca_arrival_free(arrival[0]);
	other = simhca_arrivals_buffer(*state);
	assert_ptr_not_equal(other, buffer);
	memset(simhca_wire_buffer_bytes(other), 3, SIMHCA_WIRE_BUFFER_BYTES);
	for (int i = 0; i < SHORT + 1; i++)
		assert_int_equal(arrival[1]->payload[i], 2);
	simhca_arrival_free(arrival[1]);
	simhca_wire_buffer_put(other);
}

static void without_a_buffer_it_is_copied(void **state)
{
	uint8_t bytes[LONG];
	struct simhca_arrival *arrival;

	memset(bytes, 1, LONG);
	arrival = comes(*state, bytes, LONG, NULL);
	memset(bytes, 2, LONG);
	for (int i = 0; i < LONG; i++)
		assert_int_equal(arrival->payload[i], 1);
	simhca_arrival_free(arrival);
}

/*
 * Whoever sends what nobody takes costs no more than SIMHCA_ARRIVALS_MOST, of which a buffer counts
 * whole: what is more is refused, and there is room again when something was delivered.
 */
static void what_waits_has_a_limit(void **state)
{
	const unsigned int most = SIMHCA_ARRIVALS_MOST / SIMHCA_WIRE_BUFFER_BYTES;
	struct simhca_arrival **waits = calloc(most, sizeof(struct simhca_arrival *));
	const struct simhca_arrivals *arrivals = *state;
	struct simhca_wire_buffer *buffer;
	unsigned int count;
	uint64_t held;

	for (count = 0; count < most; count++) {
		buffer = simhca_arrivals_buffer(*state);
		waits[count] = comes(*state, simhca_wire_buffer_bytes(buffer), LONG, buffer);
		simhca_wire_buffer_put(buffer);
		if (!waits[count])
			break;
	}
	assert_in_range(count, most * 9 / 10, most - 1);
	held = arrivals->held;
	assert_in_range(held, SIMHCA_ARRIVALS_MOST * 9 / 10, SIMHCA_ARRIVALS_MOST);
	buffer = simhca_arrivals_buffer(*state);
	assert_null(comes(*state, simhca_wire_buffer_bytes(buffer), LONG, buffer));
	assert_int_equal(arrivals->held, held);
	simhca_arrival_free(waits[--count]);
	waits[count] = comes(*state, simhca_wire_buffer_bytes(buffer), LONG, buffer);
	assert_non_null(waits[count]);
	simhca_wire_buffer_put(buffer);
	do
		simhca_arrival_free(waits[count]);
	while (count--);
	free(waits);
}

/* What was given back is used again, and more of it than is needed soon is freed. */
static void memory_goes_round(void **state)
{
	const struct simhca_arrivals *arrivals = *state;
	struct simhca_arrival *waits[2000];

	for (int i = 0; i < 2000; i++)
		waits[i] = comes(*state, (const uint8_t *)"", 0, NULL);
	for (int i = 0; i < 2000; i++)
		simhca_arrival_free(waits[i]);
	assert_int_equal(arrivals->brief.count, arrivals->brief.most);
	assert_in_range(arrivals->brief.most, 0, 1999);
	if (!arrivals->brief.most) /* AddressSanitizer's */
		return;
	waits[0] = comes(*state, (const uint8_t *)"", 0, NULL);
	assert_ptr_equal(waits[0], waits[arrivals->brief.most - 1]);
	simhca_arrival_free(waits[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_short_payload_is_copied, open_arrivals,
						close_arrivals),
		cmocka_unit_test_setup_teardown(a_long_payload_stays, open_arrivals,
						close_arrivals),
		cmocka_unit_test_setup_teardown(without_a_buffer_it_is_copied, open_arrivals,
						close_arrivals),
		cmocka_unit_test_setup_teardown(what_waits_has_a_limit, open_arrivals,
						close_arrivals),
		cmocka_unit_test_setup_teardown(memory_goes_round, open_arrivals, close_arrivals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
