/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The GID table: which addresses become GIDs, and that a GID keeps its index. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/gid_table.h"

static void add(struct interface *interface, const char *text)
{
	assert_int_equal(
		inet_pton(AF_INET6, text, &interface->addresses[interface->num_addresses++]), 1);
}

static void drop(struct interface *interface, unsigned int i)
{
	interface->addresses[i] = interface->addresses[--interface->num_addresses];
}

static void expect(const struct simhca_gid_entry *entry, const char *text)
{
	struct in6_addr address;

	assert_int_equal(inet_pton(AF_INET6, text, &address), 1);
	assert_memory_equal(entry->gid.raw, &address, sizeof(address));
}

static void test_loopback(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct interface lo = { .index = 1, .up = true };
	struct gid_source source = { .interface = &lo, .guid = 0x0200000000000001 };

	add(&lo, "::ffff:127.0.0.1");
	assert_true(gid_table_update(gids, &source));
	expect(&gids[0], "fe80::200:0:0:1");
	expect(&gids[1], "::ffff:127.0.0.1");
	assert_int_equal(gids[1].type, SIMHCA_GID_ROCE_V2);
	assert_int_equal(gids[1].ifindex, 1);
	assert_true(gid_is_empty(&gids[2].gid));
	assert_false(gid_table_update(gids, &source));
}

static void test_first_entry(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct interface eth = { .index = 2,
				 .has_mac = true,
				 .mac = { 0x52, 0x54, 0, 0x12, 0x34, 0x56 } };
	struct gid_source source = { .interface = &eth, .guid = 0x0200000000000001 };

	gid_table_update(gids, &source);
	expect(&gids[0], "fe80::5054:ff:fe12:3456");
	inet_pton(AF_INET6, "fe80::1234", &eth.link_local);
	assert_true(gid_table_update(gids, &source));
	expect(&gids[0], "fe80::1234");
	source.guid_only = true;
	gid_table_update(gids, &source);
	expect(&gids[0], "fe80::200:0:0:1");
	/* The interface is gone: so are its addresses, but never the first GID. */
	add(&eth, "2001:db8::1");
	gid_table_update(gids, &source);
	source.interface = NULL;
	assert_true(gid_table_update(gids, &source));
	expect(&gids[0], "fe80::200:0:0:1");
	assert_true(gid_is_empty(&gids[1].gid));
	assert_int_equal(gids[1].ifindex, 0);
}

static void test_gids_keep_their_index(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct interface eth = { .index = 2, .has_mac = true };
	struct gid_source source = { .interface = &eth, .guid = 1 };

	add(&eth, "::ffff:10.0.0.1");
	add(&eth, "::ffff:10.0.0.2");
	add(&eth, "2001:db8::1");
	gid_table_update(gids, &source);
	drop(&eth, 0);
	gid_table_update(gids, &source);
	assert_true(gid_is_empty(&gids[1].gid));
	expect(&gids[2], "::ffff:10.0.0.2");
	expect(&gids[3], "2001:db8::1");
	add(&eth, "2001:db8::2");
	gid_table_update(gids, &source);
	expect(&gids[1], "2001:db8::2");
	expect(&gids[3], "2001:db8::1");
}

static void test_last_entry_stays_empty(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct interface eth = { .index = 2 };
	struct gid_source source = { .interface = &eth, .guid = 1 };

	for (int i = 0; i < 20; i++) {
		eth.addresses[i].s6_addr[0] = 0x20;
		eth.addresses[i].s6_addr[15] = (uint8_t)i;
	}
	eth.num_addresses = 20;
	gid_table_update(gids, &source);
	assert_false(gid_is_empty(&gids[SIMHCA_GID_ENTRIES - 2].gid));
	assert_true(gid_is_empty(&gids[SIMHCA_GID_ENTRIES - 1].gid));
}

static void test_infiniband(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct interface lo = { .index = 1 };
	struct gid_source source = { .interface = &lo,
				     .guid = 0x0200000000000001,
				     .infiniband = true };
	char text[GID_TEXT];

	add(&lo, "::ffff:127.0.0.1");
	gid_table_update(gids, &source);
	gid_print(&gids[0].gid, text);
	assert_string_equal(text, "fe80:0000:0000:0000:0200:0000:0000:0001");
	assert_int_equal(gids[0].type, SIMHCA_GID_IB);
	assert_int_equal(gids[0].ifindex, 0);
	assert_true(gid_is_empty(&gids[1].gid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_first_entry),
		cmocka_unit_test(test_gids_keep_their_index),
		cmocka_unit_test(test_last_entry_stays_empty),
		cmocka_unit_test(test_infiniband),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
