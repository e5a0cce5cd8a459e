/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A port's GIDs, read while they change (core/gids.h). Also for ThreadSanitizer. */
#include <pthread.h>

#include "core/gids.h"
#include "harness.h"

#define CHANGES 20000u
#define READERS 2

struct scene {
	struct simhca_gids gids;
	atomic_bool stop;
};

/* Both halves say the same. */
static union simhca_gid twice(uint64_t number)
{
	union simhca_gid gid;

	gid.global.subnet_prefix = gid.global.interface_id = number;
	return gid;
}

/* The one that stays moves from entry to entry; the others are of this change. */
static void change(struct scene *scene, uint32_t number)
{
	struct simhca_gid_entry entries[SIMHCA_GID_ENTRIES] = { 0 };

	for (uint32_t i = 0; i < SIMHCA_GID_ENTRIES; i++)
		entries[i].gid = twice(i == number % SIMHCA_GID_ENTRIES ? 1 : number + 2);
	simhca_gids_set(&scene->gids, entries);
}

static void *read_until_stopped(void *arg)
{
	const union simhca_gid always = twice(1), never = { .raw = { 1 } };
	struct scene *scene = arg;
	uintptr_t wrong = 0;

	while (!atomic_load(&scene->stop)) {
		for (uint32_t i = 0; i < SIMHCA_GID_ENTRIES; i++) {
			union simhca_gid gid = simhca_gids_get(&scene->gids, i);

			wrong += gid.global.subnet_prefix != gid.global.interface_id;
		}
		wrong += !simhca_gids_have(&scene->gids, &always);
		wrong += simhca_gids_have(&scene->gids, &never);
	}
	return (void *)wrong;
}

static void they_are_whole_while_they_change(void **state)
{
	struct scene scene = { 0 };
	pthread_t thread[READERS];
	void *wrong;

	change(&scene, 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_until_stopped, &scene), 0);
	for (uint32_t i = 1; i < CHANGES; i++)
		change(&scene, i);
	atomic_store(&scene.stop, true);
	for (int i = 0; i < READERS; i++) {
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
}

static void what_was_set_is_found(void **state)
{
	struct simhca_gid_entry entries[SIMHCA_GID_ENTRIES] = { 0 };
	const union simhca_gid one = twice(7), other = twice(8), none = twice(0);
	struct simhca_gids gids = { 0 };
	union simhca_gid got;

	assert_false(simhca_gids_have(&gids, &one));
	entries[3].gid = one;
	simhca_gids_set(&gids, entries);
	assert_true(simhca_gids_have(&gids, &one));
	got = simhca_gids_get(&gids, 3);
	assert_memory_equal(&got, &one, sizeof(one));
	entries[3].gid = other;
	simhca_gids_set(&gids, entries);
	assert_false(simhca_gids_have(&gids, &one));
	assert_true(simhca_gids_have(&gids, &other));
	/* As the empty entries are; it is nobody's address. */
	assert_false(simhca_gids_have(&gids, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_set_is_found),
		cmocka_unit_test(they_are_whole_while_they_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
