/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The subnet of two devices and a switch, as management datagrams see it: what is answered, and how. */
#include "harness.h"
#include "mad/subnet.h"

#define SWITCH_LID (DEVICE_LID(1) + 1)

struct scene {
	struct simhca_subnet *subnet;
	struct world *world;
	uint8_t bytes[4096];
	struct simhca_mad mad;
	unsigned int to;
};

static void on_changed(void *arg, unsigned int device)
{
}

static void open_scene(struct scene *scene, struct world *world)
{
	struct simhca_subnet_config config = {
		.device = { world->device[0], world->device[1] },
		.count = 2,
		.switch_guid = 0x5117c4,
		.changed = on_changed,
	};

	memset(scene, 0, sizeof(*scene));
	scene->world = world;
	scene->subnet = simhca_subnet_create(&config);
	assert_non_null(scene->subnet);
}

static uint16_t lid_of(const struct scene *scene, int device)
{
	return simhca_device_memory(scene->world->device[device])->port.lid;
}

/* A request from the first device. */
static void begin(struct scene *scene, uint8_t class, uint8_t version, uint8_t method,
		  uint16_t attribute, uint32_t modifier)
{
	memset(scene->bytes, 0, sizeof(scene->bytes));
	scene->bytes[AT_BASE_VERSION] = 1;
	scene->bytes[AT_CLASS] = class;
	scene->bytes[AT_CLASS_VERSION] = version;
	scene->bytes[AT_METHOD] = method;
	mad_put(scene->bytes, AT_ATTRIBUTE, 2, attribute);
	mad_put(scene->bytes, AT_MODIFIER, 4, modifier);
	mad_put(scene->bytes, AT_DR_SLID, 4, 0xffffffff);
	scene->mad = (struct simhca_mad){
		.bytes = scene->bytes,
		.length = MAD_BYTES,
		.qpn = class == MAD_CLASS_SMP || class == MAD_CLASS_SMP_DIRECTED ? 0 : 1,
		.slid = lid_of(scene, 0),
	};
	if (class == MAD_CLASS_SA || class == MAD_CLASS_PERF)
		mad_put(scene->bytes, AT_DR_SLID, 4, 0);
}

static enum simhca_mad_fate send_to(struct scene *scene, uint16_t lid)
{
	scene->mad.dlid = lid;
	return simhca_subnet_send(scene->subnet, 0, &scene->mad, sizeof(scene->bytes), &scene->to);
}

static uint16_t status(const struct scene *scene)
{
	return (uint16_t)mad_get(scene->bytes, AT_STATUS, 2);
}

/* The status that the specification has for what there is not (13.4.7). */
static void says_what_is_wrong(void **state)
{
	static const struct {
		uint8_t class, version;
		uint16_t attribute;
		uint32_t modifier;
		bool to_switch;
		uint16_t status;
	} rows[] = {
		{ MAD_CLASS_SMP, 1, 0x11, 0, false, MAD_OK },
		{ MAD_CLASS_SMP, 2, 0x11, 0, false, MAD_BAD_VERSION },
		{ MAD_CLASS_SMP, 1, 0x99, 0, false, MAD_BAD_ATTRIBUTE },
		{ MAD_CLASS_SMP, 1, 0x12, 0, false, MAD_BAD_ATTRIBUTE },
		{ MAD_CLASS_SMP, 1, 0x12, 0, true, MAD_OK },
		{ MAD_CLASS_SMP, 1, 0x15, 2, false, MAD_BAD_VALUE },
		{ MAD_CLASS_SMP, 1, 0x15, 2, true, MAD_OK },
		{ MAD_CLASS_SMP, 1, 0x15, 3, true, MAD_BAD_VALUE },
		{ MAD_CLASS_SMP, 1, 0x16, 1, false, MAD_BAD_VALUE },
		{ MAD_CLASS_SMP, 1, 0x19, 767, true, MAD_OK },
		{ MAD_CLASS_SMP, 1, 0x19, 768, true, MAD_BAD_VALUE },
		{ MAD_CLASS_SMP, 1, 0x19, 0xffffffff, true, MAD_BAD_VALUE },
		{ MAD_CLASS_PERF, 1, 0x01, 0, false, MAD_OK },
		{ MAD_CLASS_PERF, 1, 0x77, 0, false, MAD_BAD_ATTRIBUTE },
		{ MAD_CLASS_PERF, 1, 0x12, 0, false, MAD_BAD_VALUE }, /* PortSelect is 0 */
		{ MAD_CLASS_PERF, 9, 0x12, 0, false, MAD_BAD_VERSION },
		{ MAD_CLASS_SA, 2, 0x01, 0, false, MAD_OK },
		{ MAD_CLASS_SA, 2, 0x77, 0, false, MAD_BAD_ATTRIBUTE },
		{ MAD_CLASS_SA, 1, 0x01, 0, false, MAD_BAD_VERSION },
		{ MAD_CLASS_SA, 2, 0x11, 0, false, MAD_SA_TOO_MANY_RECORDS },
		{ MAD_CLASS_SA, 2, 0x38, 0, false, MAD_SA_NO_RECORDS },
	};
	struct scene scene;

	open_scene(&scene, *state);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(&scene, rows[i].class, rows[i].version, MAD_GET, rows[i].attribute,
		      rows[i].modifier);
		assert_int_equal(send_to(&scene,
					 rows[i].to_switch ? SWITCH_LID : lid_of(&scene, 0)),
				 SIMHCA_MAD_ANSWERED);
		assert_int_equal(scene.bytes[AT_METHOD], MAD_GET | MAD_RESPONSE);
		if (status(&scene) != rows[i].status)
			fail_msg("row %zu: 0x%04x", i, status(&scene));
	}
	simhca_subnet_destroy(scene.subnet);
}

/* What is no hardware's is for programs, and if none wants it, is refused. */
static void is_for_programs(void **state)
{
	struct scene scene;

	open_scene(&scene, *state);
	begin(&scene, 0x32, 1, MAD_GET, 1, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 1)), SIMHCA_MAD_ARRIVES);
	assert_int_equal(scene.to, 1);
	assert_true(simhca_subnet_refuse(&scene.mad));
	assert_int_equal(status(&scene), MAD_BAD_ATTRIBUTE);
	assert_int_equal(scene.mad.slid, lid_of(&scene, 1));
	begin(&scene, 0x32, 1, 0x05 /* Trap */, 1, 0);
	assert_false(simhca_subnet_refuse(&scene.mad));
	simhca_subnet_destroy(scene.subnet);
}

/* Directed routes end at devices, and no hop leads out of a port that there is not. */
static void follows_directed_routes(void **state)
{
	static const struct {
		uint8_t hops, path[4];
		int local_port; /* of the node that answers; -1: none */
	} rows[] = {
		{ 0, { 0 }, 1 },	   { 1, { 0, 1 }, 1 },	   { 1, { 0, 2 }, -1 },
		{ 2, { 0, 1, 2 }, 1 },	   { 2, { 0, 1, 3 }, -1 }, { 2, { 0, 1, 0 }, -1 },
		{ 3, { 0, 1, 2, 1 }, -1 }, { 63, { 0, 1 }, -1 },   { 64, { 0, 1 }, -1 },
		{ 255, { 0, 1 }, -1 },
	};
	struct scene scene;

	open_scene(&scene, *state);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(&scene, MAD_CLASS_SMP_DIRECTED, 1, MAD_GET, 0x11, 0);
		scene.bytes[AT_HOP_COUNT] = rows[i].hops;
		memcpy(scene.bytes + AT_INITIAL_PATH, rows[i].path, sizeof(rows[i].path));
		assert_int_equal(send_to(&scene, 0xffff),
				 rows[i].local_port < 0 ? SIMHCA_MAD_LOST : SIMHCA_MAD_ANSWERED);
		if (rows[i].local_port < 0)
			continue;
		assert_int_equal(status(&scene), MAD_DIRECTION);
		assert_int_equal(scene.bytes[AT_HOP_POINTER], 0);
		assert_int_equal(scene.bytes[AT_SMP_DATA + 36], rows[i].local_port);
	}
	simhca_subnet_destroy(scene.subnet);
}

/* A Set of subnet management without the manager's key has no answer. */
static void protects_by_key(void **state)
{
	struct scene scene;

	open_scene(&scene, *state);
	begin(&scene, MAD_CLASS_SMP, 1, MAD_SET, 0x15, 1);
	assert_int_equal(send_to(&scene, lid_of(&scene, 1)), SIMHCA_MAD_LOST);
	simhca_subnet_destroy(scene.subnet);
}

#define MKEY UINT64_C(0x1122334455667788)
#define PORT_INFO 0x15

static enum simhca_mad_fate get_port_info(struct scene *scene, uint64_t key)
{
	begin(scene, MAD_CLASS_SMP_DIRECTED, 1, MAD_GET, PORT_INFO, 1);
	mad_put(scene->bytes, AT_MKEY, 8, key);
	return send_to(scene, 0xffff);
}

/* What the last Get has brought, with this protection. */
static enum simhca_mad_fate set_port_info(struct scene *scene, uint64_t key, uint8_t protect)
{
	uint8_t data[SMP_DATA_BYTES];

	memcpy(data, scene->bytes + AT_SMP_DATA, sizeof(data));
	begin(scene, MAD_CLASS_SMP_DIRECTED, 1, MAD_SET, PORT_INFO, 1);
	mad_put(scene->bytes, AT_MKEY, 8, key);
	memcpy(scene->bytes + AT_SMP_DATA, data, sizeof(data));
	scene->bytes[AT_SMP_DATA + 32] &= 0xf0; /* the state stays */
	scene->bytes[AT_SMP_DATA + 34] = (uint8_t)(protect << 6);
	return send_to(scene, 0xffff);
}

static uint64_t mkey_shown(const struct scene *scene)
{
	return mad_get(scene->bytes, AT_SMP_DATA, 8);
}

/* Who has the key sees it, and so keeps it when it changes something else; others by the protection. */
static void shows_the_key(void **state)
{
	const struct world_config config = {
		.device = { .infiniband = true, .lid = 1, .sm_off = true }
	};
	struct world *world = world_new(&config);
	struct scene scene;

	open_scene(&scene, world);
	assert_int_equal(get_port_info(&scene, 0), SIMHCA_MAD_ANSWERED);
	assert_int_equal(mkey_shown(&scene), 0);
	mad_put(scene.bytes, AT_SMP_DATA, 8, MKEY);
	mad_put(scene.bytes, AT_SMP_DATA + 16, 2, 1); /* LID, and the manager's */
	mad_put(scene.bytes, AT_SMP_DATA + 18, 2, 1);
	assert_int_equal(set_port_info(&scene, 0, 0), SIMHCA_MAD_ANSWERED);
	assert_int_equal(status(&scene) & ~MAD_DIRECTION, MAD_OK);
	assert_int_equal(mkey_shown(&scene), MKEY);
	for (uint8_t protect = 0; protect < 4; protect++) {
		assert_int_equal(get_port_info(&scene, MKEY), SIMHCA_MAD_ANSWERED);
		assert_int_equal(mkey_shown(&scene), MKEY);
		assert_int_equal(set_port_info(&scene, MKEY, protect), SIMHCA_MAD_ANSWERED);
		assert_int_equal(status(&scene) & ~MAD_DIRECTION, MAD_OK);
		assert_int_equal(get_port_info(&scene, 0),
				 protect < 2 ? SIMHCA_MAD_ANSWERED : SIMHCA_MAD_LOST);
		if (protect < 2)
			assert_int_equal(mkey_shown(&scene), protect ? 0 : MKEY);
		assert_int_equal(set_port_info(&scene, 0, 0), SIMHCA_MAD_LOST);
	}
	simhca_subnet_destroy(scene.subnet);
	world_free(world);
}

static uint32_t activity(struct scene *scene)
{
	begin(scene, MAD_CLASS_SMP, 1, MAD_GET, 0x20, 0);
	assert_int_equal(send_to(scene, lid_of(scene, 0)), SIMHCA_MAD_ANSWERED);
	return (uint32_t)mad_get(scene->bytes, AT_SMP_DATA + 16, 4);
}

/* It counts what the manager does, and nothing that is refused before it comes to that. */
static void counts_what_the_manager_does(void **state)
{
	struct scene scene;
	uint32_t before;

	open_scene(&scene, *state);
	before = activity(&scene);
	assert_int_equal(activity(&scene), before + 1);
	begin(&scene, MAD_CLASS_SMP, 2, MAD_GET, 0x20, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
	assert_int_equal(status(&scene), MAD_BAD_VERSION);
	begin(&scene, MAD_CLASS_SMP, 1, MAD_GET, 0x20, 0);
	assert_int_equal(send_to(&scene, SWITCH_LID), SIMHCA_MAD_ANSWERED);
	assert_int_equal(status(&scene), MAD_BAD_ATTRIBUTE);
	assert_int_equal(activity(&scene), before + 2);
	begin(&scene, MAD_CLASS_SA, 2, MAD_GET, 0x01, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
	assert_int_equal(activity(&scene), before + 4);
	simhca_subnet_destroy(scene.subnet);
}

/* A table that does not fit is an error, and nothing is written behind the room. */
static void table_in_bounds(void **state)
{
	struct scene scene;

	open_scene(&scene, *state);
	begin(&scene, MAD_CLASS_SA, 2, MAD_GET_TABLE, 0x35, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
	assert_int_equal(status(&scene), MAD_OK);
	assert_int_equal(scene.mad.length, AT_SA_DATA + 9 * 64);
	assert_int_equal(mad_get(scene.bytes, AT_SA_OFFSET, 2), 8);
	assert_int_equal(scene.bytes[AT_RMPP_FLAGS], RMPP_ACTIVE | RMPP_FIRST);
	begin(&scene, MAD_CLASS_SA, 2, MAD_GET_TABLE, 0x35, 0);
	memset(scene.bytes + 300, 0x5a, 100);
	scene.mad.dlid = lid_of(&scene, 0);
	assert_int_equal(simhca_subnet_send(scene.subnet, 0, &scene.mad, 300, &scene.to),
			 SIMHCA_MAD_ANSWERED);
	assert_int_equal(status(&scene), MAD_SA_NO_RESOURCES);
	for (int i = 300; i < 400; i++)
		assert_int_equal(scene.bytes[i], 0x5a);
	begin(&scene, MAD_CLASS_SA, 2, MAD_GET, 0x14 /* SwitchInfoRecord */, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
	assert_int_equal(mad_get(scene.bytes, AT_SA_DATA, 2), SWITCH_LID);
	assert_int_equal(mad_get(scene.bytes, AT_SA_DATA + 4, 2), 0xc000);
	simhca_subnet_destroy(scene.subnet);
}

/* Members of a group: the first one makes it, others have to agree, all leave by what they joined. */
static void groups(void **state)
{
	static const uint64_t make = 1 | 2 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 16;
	struct scene scene;

	open_scene(&scene, *state);
	for (int step = 0; step < 5; step++) {
		static const uint16_t expected[] = { MAD_SA_INSUFFICIENT_COMPONENTS, MAD_OK, MAD_OK,
						     MAD_SA_REQ_INVALID, MAD_OK };

		begin(&scene, MAD_CLASS_SA, 2, step == 4 ? MAD_DELETE : MAD_SET, 0x38, 0);
		scene.bytes[AT_SA_DATA] = 0xff;
		scene.bytes[AT_SA_DATA + 1] = 0x12;
		scene.bytes[AT_SA_DATA + 31] = (uint8_t)(step == 2);
		mad_put(scene.bytes, AT_SA_DATA + 32, 4, step == 3 ? 8 : 7); /* Q_Key */
		mad_put(scene.bytes, AT_SA_DATA + 40, 2, 0xffff);
		scene.bytes[AT_SA_DATA + 48] = 1;
		mad_put(scene.bytes, AT_SA_MASK, 8, step == 0 ? 1 | 2 | 1 << 16 : make);
		assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
		assert_int_equal(status(&scene), expected[step]);
		if (step == 1 || step == 2)
			assert_int_equal(mad_get(scene.bytes, AT_SA_DATA + 36, 2), 0xc000);
	}
	begin(&scene, MAD_CLASS_SA, 2, MAD_GET_TABLE, 0x38, 0);
	assert_int_equal(send_to(&scene, lid_of(&scene, 0)), SIMHCA_MAD_ANSWERED);
	assert_int_equal(scene.mad.length, AT_SA_DATA + 56);
	simhca_subnet_destroy(scene.subnet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_INFINIBAND(says_what_is_wrong),	ON_INFINIBAND(is_for_programs),
		ON_INFINIBAND(follows_directed_routes), ON_INFINIBAND(protects_by_key),
		ON_INFINIBAND(shows_the_key),		ON_INFINIBAND(counts_what_the_manager_does),
		ON_INFINIBAND(table_in_bounds),		ON_INFINIBAND(groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
