/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How much may be under way on a wire, and when it asks again: congestion.h by itself. */
#include "harness.h"
#include "link/wire/congestion.h"

#define MS 1000000ull

static struct simhca_congestion at_first(void)
{
	struct simhca_congestion congestion;

	simhca_congestion_begin(&congestion);
	return congestion;
}

static uint32_t window(const struct simhca_congestion *congestion)
{
	return simhca_congestion_window(congestion);
}

static void be_silent(struct simhca_congestion *congestion)
{
	simhca_congestion_silence(congestion, 1000);
}

static void lose_one(struct simhca_congestion *congestion)
{
	simhca_congestion_lost(congestion, 1000, 1);
}

/* So many PSNs arrive; when does not matter. */
static void arrive(struct simhca_congestion *congestion, uint32_t psns)
{
	simhca_congestion_acknowledged(congestion, 0, psns, 2000, 1);
}

/* One request that is answered after so long. */
static void take_time(struct simhca_congestion *congestion, uint64_t ns)
{
	simhca_congestion_sent(congestion, 0xffffff, 1000);
	simhca_congestion_acknowledged(congestion, 0xffffff, 0, 1000 + ns, 1);
}

static void it_grows_by_what_arrives(void **state)
{
	struct simhca_congestion congestion = at_first();

	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST);
	arrive(&congestion, 10);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST + 10);
	for (int i = 0; i < 100; i++)
		arrive(&congestion, window(&congestion));
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_MOST);
}

static void a_loss_halves_it(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_lost(&congestion, 1000, 1);
	/* Looking at it changes nothing. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2);
	/* Others until as much has arrived are of the same time. */
	arrive(&congestion, SIMHCA_WINDOW_FIRST / 2 - 1);
	simhca_congestion_lost(&congestion, 1000, 1);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2);
	/* From then on one more with each window. */
	arrive(&congestion, 2);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2 + 1);
	for (int i = 0; i < 100; i++) {
		congestion.behind = congestion.window;
		simhca_congestion_lost(&congestion, 1000, 1);
	}
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_LEAST);
}

static void lose_always(struct simhca_congestion *congestion, uint32_t flows)
{
	for (int i = 0; i < 100; i++) {
		congestion->behind = congestion->window;
		simhca_congestion_lost(congestion, 1000, flows);
	}
}

/* Losses by chance leave enough to notice the next one by; of several QPs that go one way, together. */
static void losses_leave_several_what_they_leave_one(void **state)
{
	static const struct {
		uint32_t flows, least;
	} rows[] = { { 0, SIMHCA_WINDOW_LOSSY },
		     { 1, SIMHCA_WINDOW_LOSSY },
		     { 2, SIMHCA_WINDOW_LOSSY / 2 },
		     { 8, SIMHCA_WINDOW_LEAST },
		     { 1000, SIMHCA_WINDOW_LEAST } };

	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		struct simhca_congestion congestion = at_first();

		take_time(&congestion, MS);
		lose_always(&congestion, rows[row].flows);
		assert_int_equal(window(&congestion), rows[row].least);
	}
}

/* Where answers take three times as long as they did, packets wait in queues, and are lost for lack of room. */
static void losses_behind_queues_leave_little(void **state)
{
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, MS);
	for (int i = 0; i < 100; i++)
		take_time(&congestion, 3 * MS - 1000);
	lose_always(&congestion, 1);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_LOSSY);
	for (int i = 0; i < 100; i++)
		take_time(&congestion, 3 * MS + 1000);
	lose_always(&congestion, 1);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_LEAST);
}

static void silence_begins_anew(void **state)
{
	struct simhca_congestion congestion = at_first();

	be_silent(&congestion);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_LEAST);
	arrive(&congestion, SIMHCA_WINDOW_FIRST / 2 - SIMHCA_WINDOW_LEAST);
	/* Quickly to where it was a half, slowly from there. */
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2);
	arrive(&congestion, SIMHCA_WINDOW_LEAST);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2);
}

/* Of a QP that waits without end: when it asks again all the same. */
static uint64_t adaptive(const struct simhca_congestion *congestion)
{
	uint64_t never = 0;

	return simhca_congestion_timeout(congestion, 0, &never);
}

/* Of a QP that has such a time-out, and has asked so often in a row: what counts as a retry. */
static uint64_t timeout(const struct simhca_congestion *congestion, uint64_t ns, unsigned int tries)
{
	simhca_congestion_timeout(congestion, tries, &ns);
	return ns;
}

static void it_asks_again_after_some_round_trips(void **state)
{
	struct simhca_congestion congestion = at_first();

	assert_int_equal(adaptive(&congestion), 0);
	take_time(&congestion, 10 * MS);
	assert_int_equal(adaptive(&congestion), 40 * MS);
	/* An average, of which a single one does not say much. */
	take_time(&congestion, 90 * MS);
	assert_int_equal(adaptive(&congestion), 80 * MS);
}

/* However quick answers are: the first time of several in a row for a millisecond. */
static void but_not_before_a_millisecond(void **state)
{
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, 1000);
	assert_int_equal(adaptive(&congestion), MS);
	be_silent(&congestion);
	assert_int_equal(adaptive(&congestion), 8 * MS);
	be_silent(&congestion);
	assert_int_equal(adaptive(&congestion), 16 * MS);
	take_time(&congestion, 1000);
	assert_int_equal(adaptive(&congestion), MS);
	/* Or each time, until eight answers have come after a loss by chance. */
	lose_one(&congestion);
	be_silent(&congestion);
	assert_int_equal(adaptive(&congestion), 2 * MS);
	for (int i = 0; i < 8; i++)
		take_time(&congestion, 1000);
	be_silent(&congestion);
	assert_int_equal(adaptive(&congestion), 8 * MS);
}

static void silence_makes_it_longer(void **state)
{
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, MS);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(adaptive(&congestion), 4 * MS << i);
		be_silent(&congestion);
	}
	assert_int_equal(adaptive(&congestion), 0);
	take_time(&congestion, MS);
	assert_int_equal(adaptive(&congestion), 4 * MS);
}

/* Nobody answers: twice, and four times the time-out, but no more. */
static void a_timeout_becomes_longer(void **state)
{
	const struct simhca_congestion congestion = at_first();

	assert_int_equal(timeout(&congestion, 10 * MS, 0), 10 * MS);
	assert_int_equal(timeout(&congestion, 10 * MS, 1), 20 * MS);
	assert_int_equal(timeout(&congestion, 10 * MS, 2), 40 * MS);
	assert_int_equal(timeout(&congestion, 10 * MS, 7), 40 * MS);
	assert_int_equal(timeout(&congestion, 0, 7), 0);
}

/*
 * Answers that take longer than the time-out: each comes when its question has been repeated, which
 * tells no time. So what was waited in vain is not forgotten until one comes in time (RFC 6298, 5.5).
 */
static void an_answer_that_is_late_is_waited_for(void **state)
{
	struct simhca_congestion congestion = at_first();

	for (unsigned int i = 1; i < 4; i++) {
		simhca_congestion_sent(&congestion, i, 1000);
		be_silent(&congestion);
		simhca_congestion_acknowledged(&congestion, i, i + 1, i * 3 * MS, 1);
		assert_int_equal(timeout(&congestion, 10 * MS, 0), 10 * MS << i);
		assert_int_equal(adaptive(&congestion), 4 * (3 * MS - 1000) << i);
	}
	take_time(&congestion, 60 * MS);
	/* A time-out that is shorter than what answers need is never right. */
	assert_int_equal(timeout(&congestion, 10 * MS, 0), 240 * MS);
	assert_int_equal(timeout(&congestion, 300 * MS, 0), 300 * MS);
}

/* However often it was late, the time-out has an end: a second, or four times as long as it was. */
static void waiting_has_an_end(void **state)
{
	struct simhca_congestion congestion = at_first();

	for (int i = 0; i < 1000; i++) {
		be_silent(&congestion);
		arrive(&congestion, 1);
	}
	assert_int_equal(timeout(&congestion, 4096, 0), 1000 * MS);
	assert_int_equal(timeout(&congestion, MS, 0), 1000 * MS);
	assert_int_equal(timeout(&congestion, 200 * MS, 0), 1000 * MS);
	assert_int_equal(timeout(&congestion, 1000 * MS, 0), 4000 * MS);
	assert_int_equal(timeout(&congestion, 0, 0), 0);
}

/* All is sent again at so many ms, and the answer comes so many ns later. */
static void answer_again(struct simhca_congestion *congestion, uint64_t ms, uint64_t ns)
{
	simhca_congestion_silence(congestion, ms * MS);
	simhca_congestion_acknowledged(congestion, 0, 1, ms * MS + ns, 1);
}

/*
 * What is sent again and answered in the time that answers take was lost, so the next one is not waited for any
 * longer. That is believed eight times, and then again when something was answered that was sent once.
 */
static void what_was_lost_is_not_late(void **state)
{
	static const uint64_t others[] = { MS / 2 - 1, 2 * MS + 1 };
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, MS);
	for (int i = 0; i < 8; i++) {
		answer_again(&congestion, 100, MS);
		assert_int_equal(adaptive(&congestion), 4 * MS);
	}
	answer_again(&congestion, 200, MS);
	assert_int_equal(adaptive(&congestion), 8 * MS);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		take_time(&congestion, MS);
		answer_again(&congestion, 300, others[i]);
		assert_int_equal(adaptive(&congestion), 8 * MS);
	}
	answer_again(&congestion, 400, MS / 2);
	assert_int_equal(adaptive(&congestion), 4 * MS);
	/* An answer to what was sent once, of whatever kind. */
	simhca_congestion_sent(&congestion, 7, 1000);
	simhca_congestion_lost(&congestion, 1000, 1);
	answer_again(&congestion, 500, 2 * MS);
	assert_int_equal(adaptive(&congestion), 4 * MS);
	/* Another loss comes before that answer: to which of both it is an answer nobody knows. */
	take_time(&congestion, MS);
	simhca_congestion_silence(&congestion, 600 * MS);
	simhca_congestion_lost(&congestion, 1000, 1);
	simhca_congestion_acknowledged(&congestion, 0, 1, 601 * MS, 1);
	assert_int_equal(adaptive(&congestion), 8 * MS);
}

/* A NAK for what was sent once has come in time, as an acknowledgement would. */
static void a_nak_is_an_answer(void **state)
{
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, MS);
	be_silent(&congestion);
	arrive(&congestion, 1);
	assert_int_equal(adaptive(&congestion), 8 * MS);
	simhca_congestion_lost(&congestion, 1000, 1);
	assert_int_equal(adaptive(&congestion), 8 * MS);
	simhca_congestion_sent(&congestion, 7, 1000);
	simhca_congestion_lost(&congestion, 1000, 1);
	assert_int_equal(adaptive(&congestion), 4 * MS);
}

/* A peer without a receive is asked again and again, and says so: what is lost of that is no longer silence. */
static void an_rnr_nak_ends_a_silence(void **state)
{
	struct simhca_congestion congestion = at_first();
	uint64_t now = 100 * MS;

	take_time(&congestion, MS);
	for (int i = 0; i < 30; i++) {
		simhca_congestion_silence(&congestion, now);
		assert_int_equal(adaptive(&congestion), 8 * MS);
		simhca_congestion_not_ready(&congestion, now += MS);
		simhca_congestion_not_ready(&congestion, now += MS); /* it is asked once */
	}
	assert_int_equal(adaptive(&congestion), 4 * MS);
	/* One that is late is, as an acknowledgement would be. */
	simhca_congestion_silence(&congestion, now);
	simhca_congestion_not_ready(&congestion, now + 5 * MS);
	assert_int_equal(adaptive(&congestion), 8 * MS);
	simhca_congestion_sent(&congestion, 7, now);
	simhca_congestion_not_ready(&congestion, now + MS);
	assert_int_equal(adaptive(&congestion), 4 * MS);
	assert_int_equal(congestion.timed_at, 0);
}

/* Until an acknowledgement tells how long answers take, a NAK does. */
static void a_nak_tells_the_first_time(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_lost(&congestion, 5 * MS, 1);
	assert_int_equal(adaptive(&congestion), 0);
	simhca_congestion_sent(&congestion, 7, MS);
	simhca_congestion_lost(&congestion, 6 * MS, 1);
	assert_int_equal(adaptive(&congestion), 20 * MS);
	simhca_congestion_sent(&congestion, 8, MS);
	simhca_congestion_lost(&congestion, 100 * MS, 1);
	assert_int_equal(adaptive(&congestion), 20 * MS);
	take_time(&congestion, MS);
	assert_int_equal(adaptive(&congestion), 4 * MS);
}

/* So does an answer to what was sent again, which is believed in nothing else. */
static void an_answer_that_is_late_tells_the_first_time(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_silence(&congestion, 100 * MS);
	simhca_congestion_acknowledged(&congestion, 0, 1, 102 * MS, 1);
	assert_int_equal(adaptive(&congestion), 16 * MS);
	answer_again(&congestion, 200, 2 * MS);
	assert_int_equal(adaptive(&congestion), 32 * MS);
	take_time(&congestion, 50 * MS);
	assert_int_equal(adaptive(&congestion), 200 * MS);
}

/* One that comes just after that is a guess, too, as answers may take as long as a time-out or two: one that is timed tells. */
static void a_time_out_may_be_as_long_as_an_answer_takes(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_silence(&congestion, 200 * MS);
	simhca_congestion_acknowledged(&congestion, 0, 1, 200 * MS + MS / 2, 1);
	assert_int_equal(congestion.round_trip_ns, MS / 2);
	take_time(&congestion, 200 * MS);
	assert_int_equal(adaptive(&congestion), 800 * MS);
	/* What is lost is lost by chance, as nothing has ever come sooner. */
	arrive(&congestion, SIMHCA_WINDOW_MOST);
	lose_always(&congestion, 1);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_LOSSY);
}

/* An answer to what went twice may be one to the first, or to the second (Karn's rule). */
static void what_goes_twice_tells_no_time(void **state)
{
	void (*const again[])(struct simhca_congestion * congestion) = { lose_one, be_silent };

	for (size_t i = 0; i < ARRAY_SIZE(again); i++) {
		struct simhca_congestion congestion = at_first();

		take_time(&congestion, MS);
		simhca_congestion_sent(&congestion, 7, 1000);
		again[i](&congestion);
		simhca_congestion_acknowledged(&congestion, 7, 8, 9 * MS, 1);
		assert_int_equal(congestion.round_trip_ns, MS);
	}
}

/* Four that go one way grow as one of them would: each by a quarter. */
static void several_grow_as_one(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_lost(&congestion, 1000, 1);
	simhca_congestion_acknowledged(&congestion, 0, 4 * SIMHCA_WINDOW_FIRST / 2 - 1, 0, 4);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2);
	simhca_congestion_acknowledged(&congestion, 0, 2, 0, 4);
	assert_int_equal(window(&congestion), SIMHCA_WINDOW_FIRST / 2 + 1);
}

/* Marks upon marks leave a packet in 64 round trips, which losses do not. */
static void marks_leave_less_than_a_packet(void **state)
{
	struct simhca_congestion congestion = at_first();

	take_time(&congestion, 10 * MS);
	assert_int_equal(simhca_congestion_rest(&congestion, 1000 * MS), 0);
	assert_int_equal(simhca_congestion_rest(&congestion, 1000 * MS), 0);
	for (int i = 0; i < 100; i++) {
		congestion.behind = congestion.window;
		simhca_congestion_marked(&congestion);
	}
	assert_int_equal(window(&congestion), 1);
	assert_int_equal(simhca_congestion_rest(&congestion, 1000 * MS), 0);
	assert_int_equal(simhca_congestion_rest(&congestion, 1000 * MS), 640 * MS);
	assert_int_equal(simhca_congestion_rest(&congestion, 1639 * MS), MS);
	assert_int_equal(simhca_congestion_rest(&congestion, 1640 * MS), 0);
	/* Nor do they give more than there was. */
	simhca_congestion_lost(&congestion, 1000, 1);
	be_silent(&congestion);
	assert_int_equal(simhca_congestion_rest(&congestion, 1640 * MS), 640 * MS);
	/* It comes back by no more than twice as much. */
	arrive(&congestion, 1);
	assert_int_equal(simhca_congestion_rest(&congestion, 1640 * MS), 320 * MS);
}

/* What comes before the one that is timed, and what is sent after it, do not count. */
static void one_is_timed_at_a_time(void **state)
{
	struct simhca_congestion congestion = at_first();

	simhca_congestion_sent(&congestion, 7, 1000);
	simhca_congestion_sent(&congestion, 8, 5 * MS);
	simhca_congestion_acknowledged(&congestion, 0, 7, 6 * MS, 1);
	assert_int_equal(adaptive(&congestion), 0);
	simhca_congestion_acknowledged(&congestion, 7, 9, 10 * MS + 1000, 1);
	assert_int_equal(adaptive(&congestion), 40 * MS);
}

/* Losses by chance leave more of the window than losses by queues. */
static bool loses_by_chance(struct simhca_congestion *congestion)
{
	congestion->window = SIMHCA_WINDOW_MOST * SIMHCA_WINDOW_PSN;
	for (int i = 0; i < 10; i++) {
		congestion->behind = congestion->window;
		simhca_congestion_lost(congestion, 1000, 1);
	}
	return window(congestion) == SIMHCA_WINDOW_LOSSY;
}

static void answered_for(struct simhca_congestion *congestion, uint64_t from, uint64_t to,
			 uint64_t ns)
{
	for (uint64_t now = from; now < to; now += 100 * MS) {
		simhca_congestion_sent(congestion, 0xffffff, now);
		simhca_congestion_acknowledged(congestion, 0xffffff, 0, now + ns, 1);
	}
}

/* By another route, or as its first answer was late, and seemed to be one to what was sent again. */
static void a_way_becomes_longer(void **state)
{
	const uint64_t second = 1000 * MS;
	struct simhca_congestion congestion = at_first();

	answered_for(&congestion, second, 5 * second, 5000);
	assert_true(loses_by_chance(&congestion));
	/* That may be by queues, */
	answered_for(&congestion, 5 * second, 10 * second, 100000);
	assert_false(loses_by_chance(&congestion));
	/* but not for ever. */
	answered_for(&congestion, 10 * second, 32 * second, 100000);
	assert_true(loses_by_chance(&congestion));
	/* Nor is what was before a pause. */
	answered_for(&congestion, 100 * second, 105 * second, 5000);
	assert_true(loses_by_chance(&congestion));
	answered_for(&congestion, 200 * second, 205 * second, 100000);
	assert_true(loses_by_chance(&congestion));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_grows_by_what_arrives),
		cmocka_unit_test(a_loss_halves_it),
		cmocka_unit_test(losses_leave_several_what_they_leave_one),
		cmocka_unit_test(losses_behind_queues_leave_little),
		cmocka_unit_test(silence_begins_anew),
		cmocka_unit_test(it_asks_again_after_some_round_trips),
		cmocka_unit_test(but_not_before_a_millisecond),
		cmocka_unit_test(silence_makes_it_longer),
		cmocka_unit_test(a_timeout_becomes_longer),
		cmocka_unit_test(an_answer_that_is_late_is_waited_for),
		cmocka_unit_test(waiting_has_an_end),
		cmocka_unit_test(what_was_lost_is_not_late),
		cmocka_unit_test(a_nak_is_an_answer),
		cmocka_unit_test(an_rnr_nak_ends_a_silence),
		cmocka_unit_test(a_nak_tells_the_first_time),
		cmocka_unit_test(an_answer_that_is_late_tells_the_first_time),
		cmocka_unit_test(a_time_out_may_be_as_long_as_an_answer_takes),
		cmocka_unit_test(what_goes_twice_tells_no_time),
		cmocka_unit_test(one_is_timed_at_a_time),
		cmocka_unit_test(several_grow_as_one),
		cmocka_unit_test(marks_leave_less_than_a_packet),
		cmocka_unit_test(a_way_becomes_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
