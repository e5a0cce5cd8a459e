/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Options: which of two sources wins, what devices there are, and the one way of writing it all. */
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "options.h"

#define ARGUMENTS 16

static char config[] = "/tmp/simhca-test-options-XXXXXX";

static void write_config(const char *text)
{
	FILE *file = fopen(config, "w");

	fputs(text, file);
	fclose(file);
}

/* The words of line as the command line, with the configuration file. */
static int parse(const char *line, struct options *options)
{
	char copy[512], *rest = copy, *word;
	char *argv[ARGUMENTS] = { (char *)"simhcad", (char *)"--config", config };
	int argc = 3;

	snprintf(copy, sizeof(copy), "%s", line);
	while ((word = strsep(&rest, " ")))
		if (word[0])
			argv[argc++] = word;
	optind = 0;
	return options_parse(argc, argv, options);
}

static void expect_options(const char *file, const char *line, const char *normalised)
{
	struct options options;

	write_config(file);
	assert_int_equal(parse(line, &options), -1);
	assert_string_equal(options.normalised, normalised);
	options_free(&options);
}

static void test_defaults(void **state)
{
	expect_options("", "",
		       "--devices=1 --profile=simhca --model=simhca --efa-caps=3 "
		       "--srd-order=posted --link-layer=ethernet "
		       "--netdev=lo --wire=off "
		       "--mtu=4096 --lid=1 --sm=on "
		       "--mw-type-2a=off --event-at-arm=off --fast-path=on "
		       "--shared-memory=off --scatter-to-cqe=on --fault-latency=0 "
		       "--odp-invalidation=events --memory=auto --wire-rxe-flush=off");
	expect_options("", "--log-level debug --captive --runtime-dir /tmp/x",
		       "--devices=1 --profile=simhca --model=simhca --efa-caps=3 "
		       "--srd-order=posted --link-layer=ethernet "
		       "--netdev=lo --wire=off "
		       "--mtu=4096 --lid=1 --sm=on "
		       "--mw-type-2a=off --event-at-arm=off --fast-path=on "
		       "--shared-memory=off --scatter-to-cqe=on --fault-latency=0 "
		       "--odp-invalidation=events --memory=auto --wire-rxe-flush=off");
}

/* Taken wherever the new name is, and shown nowhere. */
static void test_old_names(void **state)
{
	struct options options;

	write_config("engines-in-callers = off\n[device simhca1]\nengines-in-callers = on\n");
	assert_int_equal(parse("--devices 3 --device simhca2,engines-in-callers=on", &options), -1);
	assert_int_equal(options.devices[0].settings.fast_path, 0);
	assert_int_equal(options.devices[1].settings.fast_path, 1);
	assert_int_equal(options.devices[2].settings.fast_path, 1);
	assert_null(strstr(options.normalised, "engines-in-callers"));
	options_free(&options);
	write_config("");
	assert_int_equal(parse("--engines-in-callers off", &options), -1);
	assert_int_equal(options.devices[0].settings.fast_path, 0);
	options_free(&options);
}

static void test_who_wins(void **state)
{
	struct options options;

	write_config("mtu = 256\nlid = 5\nmax-qp = 10\n[device simhca1]\nmtu = 512\nlid = 77\n");
	assert_int_equal(parse("--devices 3 --device simhca2,max-qp=20 --max-cq 9", &options), -1);
	assert_int_equal(options.num_devices, 3);
	assert_int_equal(options.devices[0].settings.mtu, 256);
	assert_int_equal(options.devices[1].settings.mtu, 512);
	assert_int_equal(options.devices[0].settings.lid, 5);
	assert_int_equal(options.devices[1].settings.lid, 77);
	assert_int_equal(options.devices[2].settings.lid, 7);
	assert_int_equal(options.devices[1].settings.max_qp, 10);
	assert_int_equal(options.devices[2].settings.max_qp, 20);
	assert_int_equal(options.devices[2].settings.max_cq, 9);
	options_free(&options);

	/* The command line in general goes before the file's one device. */
	assert_int_equal(parse("--mtu 1024", &options), -1);
	assert_int_equal(options.num_devices, 1);
	assert_string_equal(options.devices[0].name, "simhca1");
	assert_int_equal(options.devices[0].settings.mtu, 1024);
	options_free(&options);
}

/* With a value, too: so `simhca run --daemon-option` can name them. */
static void test_flags(void **state)
{
	struct options options;

	assert_int_equal(parse("--mw-type-2a --event-at-arm=on", &options), -1);
	assert_true(options.devices[0].settings.mw_type_2a);
	assert_true(options.devices[0].settings.event_at_arm);
	options_free(&options);
	assert_int_equal(
		parse("--devices=2 --event-at-arm --event-at-arm=off "
		      "--fast-path=on --shared-memory=off --scatter-to-cqe=on --fault-latency=0 "
		      "--odp-invalidation=events "
		      "--device simhca1,event-at-arm=on",
		      &options),
		-1);
	assert_false(options.devices[0].settings.event_at_arm);
	assert_true(options.devices[1].settings.event_at_arm);
	options_free(&options);
}

static void test_strings(void **state)
{
	expect_options("", "--wire-peers 10.0.0.0/8,fd00::1",
		       "--devices=1 --profile=simhca --model=simhca --efa-caps=3 "
		       "--srd-order=posted --link-layer=ethernet "
		       "--netdev=lo --wire=off "
		       "--mtu=4096 "
		       "--lid=1 --sm=on --mw-type-2a=off --event-at-arm=off --fast-path=on "
		       "--shared-memory=off --scatter-to-cqe=on "
		       "--fault-latency=0 "
		       "--odp-invalidation=events --memory=auto --wire-peers=10.0.0.0/8,fd00::1 "
		       "--wire-rxe-flush=off");
}

static void test_names(void **state)
{
	expect_options("", "--devices simhca_a,simhca_b --node-guid 0x10 --engines 2",
		       "--devices=simhca_a,simhca_b --profile=simhca --model=simhca --efa-caps=3 "
		       "--srd-order=posted --link-layer=ethernet "
		       "--netdev=lo --wire=off "
		       "--mtu=4096 "
		       "--node-guid=0000:0000:0000:0010 --lid=1 --sm=on --mw-type-2a=off "
		       "--event-at-arm=off --fast-path=on --shared-memory=off --scatter-to-cqe=on "
		       "--fault-latency=0 "
		       "--odp-invalidation=events --engines=2 "
		       "--memory=auto --wire-rxe-flush=off");
	expect_options("[device simhca1]\nlink-layer = ib\n", "--devices 2",
		       "--devices=2 --profile=simhca --model=simhca --efa-caps=3 "
		       "--srd-order=posted --netdev=lo --wire=off "
		       "--mtu=4096 --lid=1 --sm=on "
		       "--mw-type-2a=off "
		       "--event-at-arm=off --fast-path=on --shared-memory=off --scatter-to-cqe=on "
		       "--fault-latency=0 "
		       "--odp-invalidation=events --memory=auto --wire-rxe-flush=off "
		       "--device=simhca0,link-layer=ethernet --device=simhca1,link-layer=ib");
}

/* Those of a number of devices: after --device-name, or else as the profile's driver has it. */
static void expect_names(const char *arguments, const char *const names[])
{
	struct options options;
	unsigned int i;

	assert_int_equal(parse(arguments, &options), -1);
	for (i = 0; names[i]; i++)
		assert_string_equal(options.devices[i].name, names[i]);
	assert_int_equal(options.num_devices, i);
	options_free(&options);
}

static void test_numbered_names(void **state)
{
#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
	write_config("");
	expect_names("--device-name hca", NAMES("hca"));
	expect_names("--device-name hca --devices 2", NAMES("hca0", "hca1"));
	expect_names("--device-name mlx5_8 --devices 3", NAMES("mlx5_8", "mlx5_9", "mlx5_10"));
	expect_names("--profile connectx-7 --devices 2", NAMES("mlx5_0", "mlx5_1"));
	expect_names("--profile e810", NAMES("irdma0"));
	expect_names("--profile e810 --device-name rocep5s0", NAMES("rocep5s0"));
	expect_names("--profile e810 --devices ib0,ib7", NAMES("ib0", "ib7"));
	expect_options("", "--device-name simhca0 --devices 2 --profile e810 --numa-node 0",
		       "--devices=2 --profile=e810 --numa-node=0 --model=simhca "
		       "--efa-caps=3 --srd-order=posted --link-layer=ethernet --netdev=lo "
		       "--wire=off --mtu=4096 --lid=1 --sm=on --mw-type-2a=off --event-at-arm=off "
		       "--fast-path=on --shared-memory=off --scatter-to-cqe=on --fault-latency=0 "
		       "--odp-invalidation=events --memory=auto --wire-rxe-flush=off");
}

/* A file that cannot be read to its end is not taken for a short one. */
static void test_unreadable_files(void **state)
{
	char *argv[] = { (char *)"simhcad", (char *)"--config", (char *)"/proc", NULL };
	char text[256] = "wire-peers = ";
	struct options options;

	optind = 0;
	assert_int_equal(options_parse(3, argv, &options), 2);
	memset(text + strlen(text), '1', 200 - strlen(text));
	write_config(text);
	assert_int_equal(parse("", &options), 2);
	memset(text, '#', 198);
	strcpy(text + 198, "\n");
	write_config(text);
	assert_int_equal(parse("", &options), -1);
	options_free(&options);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"--mtu 1500",
		"--event-at-arm=maybe",
		"--devices 0",
		"--devices 33",
		"--devices 0ib",
		"--devices a/b",
		"--devices rxe0",
		"--device-name siw0",
		"--device-name mlx5.0",
		"--devices 2 --device-name a-name-of-18-bytes9", /* that of the second is too long */
		"--profile connectx",
		"--numa-node 1024",
		"--devices simhca0,,simhca1",
		"--device simhca0,engines=2",
		"--device simhca0,mtu",
		"--lid 65535",
		"--node-guid 0:0:0:0",
		"--engines -1",
		"--engine-spin 1s",
		"--memory magic",
		"--mtu",
		"--nonsense",
		"word",
		"--ready-fd 999",
		"--netdev a/b",
		"--wire-peers 10.0.0.0/33",
		"--wire-peers 10.0.0.1,",
		"--wire-peers fd00::/129",
		"--wire-peers 10.0.0.0/-8",
		"--wire-peers example.org",
		"--device simhca0,wire-peers=10.0.0.1",
		"--device simhca-name-too-long",
	};
	static const char *const files[] = {
		"mtu = 1500\n",
		"captive = on\n",
		"[devices]\nmtu = 256\n",
		"nonsense\n",
		"[device ../x]\nmtu = 256\n",
		"[device simhca0]\nengines = 2\n",
	};
	struct options options;

	write_config("");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(parse(lines[i], &options), 2);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_config(files[i]);
		assert_int_equal(parse("", &options), 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),       cmocka_unit_test(test_old_names),
		cmocka_unit_test(test_who_wins),       cmocka_unit_test(test_flags),
		cmocka_unit_test(test_strings),	       cmocka_unit_test(test_names),
		cmocka_unit_test(test_numbered_names), cmocka_unit_test(test_unreadable_files),
		cmocka_unit_test(test_refused),
	};
	int fd = mkstemp(config);
	int ret;

	if (fd < 0)
		return 1;
	close(fd);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(config);
	return ret;
}
