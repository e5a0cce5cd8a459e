/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Lists of the provider that a forked child inherits (providers/simhca/chain.h) while a thread of its
 * parent changes them: the thread stops before each of its stores, and then the child goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdatomic.h>

static jmp_buf stopped;
static int stores_left; /* until the thread stops; negative: it does not */

static void before_a_store(void)
{
	if (stores_left >= 0 && !stores_left--)
		longjmp(stopped, 1);
}

#undef atomic_store_explicit
#define atomic_store_explicit(at, value, order) (before_a_store(), *(at) = (value))

#include "chain.h"

#define ELEMENTS 4

static struct shca_chain list, element[ELEMENTS];

static void fill(int count)
{
	stores_left = -1;
	memset(&list, 0, sizeof(list));
	memset(element, 0, sizeof(element));
	for (int i = 0; i < count; i++)
		shca_chain_add(&list, &element[i]);
}

static bool is_in_list(const struct shca_chain *wanted)
{
	bool found = false;
	int length = 0;

	for (const struct shca_chain *link = shca_chain_next(&list); link;
	     link = shca_chain_next(link)) {
		assert_true(++length <= ELEMENTS);
		found |= link == wanted;
	}
	return found;
}

/* In a child all go but the one that the parent was changing, whose thread it does not have. */
static void all_go(const struct shca_chain *changed, int count, bool forwards)
{
	shca_chain_inherit(&list);
	for (int n = 0; n < count; n++) {
		struct shca_chain *one = &element[forwards ? n : count - 1 - n];

		if (one == changed)
			continue;
		assert_true(is_in_list(one));
		shca_chain_remove(one);
		assert_false(is_in_list(one));
		memset(one, 0xff, sizeof(*one)); /* as it is freed */
	}
}

/* True: the change was over before so many stores. */
static bool is_changed(void (*change)(struct shca_chain *), struct shca_chain *changed, int stores)
{
	if (setjmp(stopped))
		return false;
	stores_left = stores;
	change(changed);
	stores_left = -1;
	return true;
}

static void insert(struct shca_chain *link)
{
	shca_chain_add(&list, link);
}

static void a_child_goes_on_with_an_insertion_under_way(void **state)
{
	(void)state;
	for (int forwards = 0; forwards < 2; forwards++) {
		bool over = false;

		for (int stores = 0; !over; stores++) {
			fill(ELEMENTS - 1);
			over = is_changed(insert, &element[ELEMENTS - 1], stores);
			stores_left = -1;
			all_go(&element[ELEMENTS - 1], ELEMENTS - 1, forwards);
		}
	}
}

static void a_child_goes_on_with_a_removal_under_way(void **state)
{
	(void)state;
	for (int forwards = 0; forwards < 2; forwards++)
		for (int which = 0; which < ELEMENTS; which++) {
			bool over = false;

			for (int stores = 0; !over; stores++) {
				fill(ELEMENTS);
				over = is_changed(shca_chain_remove, &element[which], stores);
				stores_left = -1;
				assert_true(is_in_list(&element[which]) == !stores);
				all_go(&element[which], ELEMENTS, forwards);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_goes_on_with_an_insertion_under_way),
		cmocka_unit_test(a_child_goes_on_with_a_removal_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
