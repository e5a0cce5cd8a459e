/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is left of text that somebody else has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "printable.h"

static void expect(const char *text, const char *wanted)
{
	char copy[64];

	strcpy(copy, text);
	make_printable(copy);
	assert_string_equal(copy, wanted);
}

static void what_stays(void **state)
{
	expect("", "");
	expect("ib_send_bw ~!\"'\\", "ib_send_bw ~!\"'\\");
	expect("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void what_terminals_act_on(void **state)
{
	expect("\033]0;x\a\033[31m", "?]0;x??[31m");
	expect("a\nb\rc\td\x7f", "a?b?c?d?");
	expect("\x9b"
	       "31m\xc2\x9b"
	       "31m",
	       "?31m??31m");
	expect("\xe2\x80\xae"
	       "a",
	       "???a");
}

static void what_is_no_text(void **state)
{
	expect("\xc3", "?");
	expect("\xe2\x82", "??");
	expect("\xc0\xafx\xe0\x80\x80", "??x???");
	expect("\xed\xa0\x80\xf5\x80\x80\x80\xff", "????????");
	expect("\xf4\x90\x80\x80", "????");
}

static void what_is_cut_off(void **state)
{
	char text[] = "a\xc3\xbc\033~";

	make_ascii(text);
	assert_string_equal(text, "a???~");
}

/* Of many short ones: it is what JSON takes, and a second time changes nothing. */
static void three_bytes(void **state)
{
	for (uint32_t i = 0; i < 1u << 24; i += 5) {
		char text[4] = { (char)(i >> 16), (char)(i >> 8), (char)i }, again[4];
		json_t *json;

		make_printable(text);
		strcpy(again, text);
		make_printable(again);
		assert_string_equal(again, text);
		json = json_string(text);
		assert_non_null(json);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stays),	   cmocka_unit_test(what_terminals_act_on),
		cmocka_unit_test(what_is_no_text), cmocka_unit_test(what_is_cut_off),
		cmocka_unit_test(three_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
