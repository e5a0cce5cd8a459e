/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The page map, against a plain array. */
#include "harness.h"
#include "paging/page_map.h"

#define PAGES 5000u /* ten leaves, the last one in part */

struct model {
	bool read[PAGES], write[PAGES];
};

static enum simhca_page_state expected(const struct model *model, uint64_t first, uint64_t count,
				       bool write)
{
	for (uint64_t i = first; i < first + count; i++)
		if (i >= PAGES || !(write ? model->write[i] : model->read[i]))
			return SIMHCA_PAGES_ABSENT;
	return SIMHCA_PAGES_PRESENT;
}

static uint64_t change(struct model *model, uint64_t first, uint64_t count, bool present,
		       bool write)
{
	uint64_t changed = 0;

	for (uint64_t i = first; i < first + count && i < PAGES; i++) {
		changed += model->read[i] != present;
		model->read[i] = present;
		if (!present || write)
			model->write[i] = present;
	}
	return changed;
}

static void it_agrees_with_an_array(void **state)
{
	struct simhca_page_map *map = simhca_page_map_create(PAGES);
	struct model *model = calloc(1, sizeof(*model));
	uint64_t seed = 1, present = 0;

	assert_non_null(map);
	for (int i = 0; i < 20000; i++) {
		uint64_t first = test_random(&seed) % PAGES;
		uint64_t count = 1 + test_random(&seed) % (i % 7 ? 70 : 1500);
		bool write = test_random(&seed) & 1;

		assert_int_equal(simhca_page_map_look(map, first, count, write),
				 expected(model, first, count, write));
		if (test_random(&seed) & 1) {
			uint64_t removed = simhca_page_map_remove(map, first, count);

			assert_int_equal(removed, change(model, first, count, false, false));
			present -= removed;
		} else if (first + count <= PAGES) {
			uint64_t added = simhca_page_map_add(map, first, count, write, false);

			assert_int_equal(added, change(model, first, count, true, write));
			present += added;
		}
		assert_int_equal(simhca_page_map_present(map), present);
	}
	free(model);
	simhca_page_map_destroy(map);
}

/* Maps of every depth know their first page, their last, and none behind it. */
static void every_depth_has_its_ends(void **state)
{
	for (unsigned int shift = 0; shift <= 45; shift++) {
		uint64_t pages = UINT64_C(1) << shift;
		struct simhca_page_map *map = simhca_page_map_create(pages);

		assert_int_equal(simhca_page_map_add(map, 0, 1, true, false), 1);
		assert_int_equal(simhca_page_map_add(map, pages - 1, 1, true, false), pages > 1);
		assert_int_equal(simhca_page_map_add(map, pages, 1, true, false), 0);
		assert_int_equal(simhca_page_map_look(map, 0, 1, true), SIMHCA_PAGES_PRESENT);
		assert_int_equal(simhca_page_map_look(map, pages - 1, 1, true),
				 SIMHCA_PAGES_PRESENT);
		assert_int_equal(simhca_page_map_look(map, pages - 1, 2, true),
				 SIMHCA_PAGES_ABSENT);
		assert_int_equal(simhca_page_map_look(map, pages, 1, false), SIMHCA_PAGES_ABSENT);
		assert_int_equal(simhca_page_map_remove(map, 1, UINT64_MAX), pages > 1);
		assert_int_equal(simhca_page_map_remove(map, 0, UINT64_MAX), 1);
		simhca_page_map_destroy(map);
	}
}

/* Pages whose end nobody tells are marked so, and the others of their leaf with them. */
static void unsure_pages_are_told_apart(void **state)
{
	struct simhca_page_map *map = simhca_page_map_create(2000);

	simhca_page_map_add(map, 0, 2000, true, false);
	assert_int_equal(simhca_page_map_look(map, 0, 2000, true), SIMHCA_PAGES_PRESENT);
	simhca_page_map_add(map, 600, 1, true, true);
	assert_int_equal(simhca_page_map_look(map, 600, 1, true), SIMHCA_PAGES_UNSURE);
	assert_int_equal(simhca_page_map_look(map, 0, 2000, true), SIMHCA_PAGES_UNSURE);
	assert_int_equal(simhca_page_map_look(map, 0, 512, true), SIMHCA_PAGES_PRESENT);
	assert_int_equal(simhca_page_map_look(map, 1024, 976, true), SIMHCA_PAGES_PRESENT);
	simhca_page_map_destroy(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_agrees_with_an_array),
		cmocka_unit_test(every_depth_has_its_ends),
		cmocka_unit_test(unsure_pages_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
