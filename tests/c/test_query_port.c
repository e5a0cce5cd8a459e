/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The provider's query_port(): what it writes of a program's struct, and where it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "say.h"

/* struct ibv_port_attr of rdma-core 39 to 48, which ended here; later ones have fields behind it.
 */
#define OLD_BYTES 52

int shca_say_refusal(struct shca_context *ctx, enum simhca_say what, int err, const char *text)
{
	(void)ctx;
	assert_int_equal(what, SIMHCA_SAY_QUERY_PORT);
	assert_non_null(strstr(text, "port_num"));
	return shca_result(err);
}

static void nothing_is_written_behind_an_older_struct(void **state)
{
	struct simhca_devmem *dev = calloc(1, sizeof(*dev));
	struct shca_context *ctx = calloc(1, sizeof(*ctx));
	union {
		struct ibv_port_attr attr;
		uint8_t byte[sizeof(struct ibv_port_attr) + 64];
	} port;

	ctx->dev = dev;
	dev->attr.phys_port_cnt = 1;
	dev->port.max_mtu = IBV_MTU_4096;
	dev->port.port_cap_flags2 = 0x1234;
	memset(&port, 0xee, sizeof(port));
	assert_int_equal(shca_query_port(&ctx->vctx.context, 1, &port.attr), 0);
	assert_int_equal(port.attr.max_mtu, IBV_MTU_4096);
	assert_int_equal(port.attr.port_cap_flags2, 0x1234);
	assert_int_equal(offsetof(struct ibv_port_attr, port_cap_flags2) + 2, OLD_BYTES - 2);
	for (size_t i = OLD_BYTES; i < sizeof(port); i++)
		assert_int_equal(port.byte[i], 0xee);
	free(ctx);
	free(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_written_behind_an_older_struct),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
