/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simhca status: the daemon's devices, and the programs that have them open. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const char help[] =
	"Usage: simhca status [OPTION]...\n"
	"\n"
	"Shows the devices of the daemon in the runtime directory, who has them open, and how "
	"many\n"
	"verbs objects are alive in each.\n"
	"\n"
	"  --json                    as one JSON object\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char *const objects[] = { "pds",  "mrs", "mws",   "cqs", "qps",
				       "srqs", "ahs", "xrcds", "dms" };
#define OBJECTS (sizeof(objects) / sizeof(objects[0]))

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && *text ? text : "-";
}

static long long number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void print_counts(const json_t *owner)
{
	const json_t *counts = json_object_get(owner, "counts");

	for (size_t i = 0; i < OBJECTS; i++)
		printf(" %6lld", number_of(counts, objects[i]));
}

static void print_device(const json_t *device)
{
	json_t *context, *gid;
	size_t i;

	printf("\n%s: %s, %s, netdev %s, mtu %lld, node GUID %s\n", text_of(device, "name"),
	       text_of(device, "link_layer"), text_of(device, "state"), text_of(device, "netdev"),
	       number_of(device, "mtu"), text_of(device, "node_guid"));
	json_array_foreach(json_object_get(device, "gids"), i, gid)
	{
		if (json_string_length(gid))
			printf("  GID %zu: %s\n", i, json_string_value(gid));
	}

	printf("  %7s %8s %-15s %-10s", "context", "pid", "command", "memory");
	for (i = 0; i < OBJECTS; i++)
		printf(" %6s", objects[i]);
	json_array_foreach(json_object_get(device, "context"), i, context)
	{
		printf("\n  %7lld %8lld %-15s %-10s", number_of(context, "id"),
		       number_of(context, "pid"), text_of(context, "comm"),
		       text_of(context, "memory"));
		print_counts(context);
	}
	printf("\n  %7lld %-35s", number_of(device, "contexts"), "in all");
	print_counts(device);
	putchar('\n');
}

static void print_text(const json_t *status)
{
	json_t *device;
	size_t i;

	printf("simhcad %s, pid %lld, up %lld s, in %s%s\n", text_of(status, "version"),
	       number_of(status, "pid"), number_of(status, "uptime_s"),
	       text_of(status, "runtime_dir"),
	       json_is_true(json_object_get(status, "captive")) ? ", until the last simhca run ends"
								: "");
	json_array_foreach(json_object_get(status, "devices"), i, device) print_device(device);
}

/* The daemon's report; NULL after a complaint. */
static json_t *ask(const char *dir)
{
	int fd = admin_connect(dir);
	char *refusal = NULL;
	json_t *status;

	if (fd < 0) {
		if (admin_nobody(errno))
			complain("no daemon runs in %s", dir);
		else
			complain("the daemon in %s cannot be reached: %s", dir, strerror(errno));
		return NULL;
	}
	status = admin_status(fd, &refusal);
	if (!status)
		complain("the daemon in %s gave no report: %s", dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	close(fd);
	return status;
}

int status_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ 0 },
	};
	const char *given = NULL;
	bool as_json = false;
	enum option_code code;
	json_t *status;
	char *dir;
	int index;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_JSON:
			as_json = true;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	dir = runtime_dir(given);
	if (!dir)
		return EXIT_FAILURE;
	status = ask(dir);
	free(dir);
	if (!status)
		return EXIT_FAILURE;
	if (as_json) {
		json_dumpf(status, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_text(status);
	}
	json_decref(status);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
