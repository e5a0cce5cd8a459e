/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca status: the daemon's devices, and the programs that have them open. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "report.h"
#include "table.h"
#include "tool.h"

/* The first four say whose objects they are; the others count those, in the order of objects[]. */
static const struct table_column columns[] = {
	{ "CONTEXT", true, 0, false }, { "PID", true, 0, false },  { "PROGRAM", false, 0, false },
	{ "MEMORY", false, 3, false }, { "PDS", true, 2, false },  { "MRS", true, 1, false },
	{ "MWS", true, 2, false },     { "CQS", true, 1, false },  { "QPS", true, 1, false },
	{ "CARRIED", true, 2, false }, { "SRQS", true, 2, false }, { "AHS", true, 2, false },
	{ "XRCDS", true, 2, false },   { "DMS", true, 2, false },
};
/* Members of "counts". */
static const char *const objects[] = { "pds",	  "mrs",  "mws", "cqs",	  "qps",
				       "carried", "srqs", "ahs", "xrcds", "dms" };
#define OBJECTS (sizeof(objects) / sizeof(objects[0]))
static_assert(sizeof(columns) / sizeof(columns[0]) == 4 + OBJECTS, "a column for each");

static void add_counts(struct table *table, const json_t *owner)
{
	const json_t *counts = json_object_get(owner, "counts");

	for (size_t i = 0; i < OBJECTS; i++)
		table_add(table, "%lld", report_number(counts, objects[i]));
}

static void print_contexts(const json_t *device)
{
	struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	json_t *context;
	size_t i;

	if (!table) {
		complain("out of memory");
		return;
	}
	json_array_foreach(json_object_get(device, "context"), i, context)
	{
		table_add(table, "%lld", report_number(context, "id"));
		table_add(table, "%lld", report_number(context, "pid"));
		table_add(table, "%s", report_text(context, "comm"));
		table_add(table, "%s", report_text(context, "memory"));
		add_counts(table, context);
	}
	table_add(table, "%lld", report_number(device, "contexts"));
	table_add(table, "-");
	table_add(table, "in all");
	table_add(table, "-");
	add_counts(table, device);
	if (!table_print(stdout, table, table_width(stdout)))
		complain("out of memory");
	table_free(table);
}

/* Yama's, of this host; -1: it has none. */
static int ptrace_scope(void)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = -1;

	if (file && fscanf(file, "%d", &scope) != 1)
		scope = -1;
	if (file)
		fclose(file);
	return scope;
}

/* Why a program's messages go by the daemon, if the kernel has it so. */
static void print_not_attached(const json_t *context)
{
	if (!json_object_get(context, "not_attached"))
		return;
	printf("  context %lld, %s[%lld]: the daemon carries its messages, as the kernel keeps it "
	       "from the memory of a peer: %s",
	       report_number(context, "id"), report_text(context, "comm"),
	       report_number(context, "pid"), report_text(context, "not_attached"));
	if (ptrace_scope() == 1)
		fputs(" (Yama's ptrace_scope is 1: SIMHCA_PTRACER=any, see simhca(1))", stdout);
	putchar('\n');
}

static void print_device(const json_t *device)
{
	json_t *context, *gid;
	size_t i;

	printf("\n%s: %s, %s, netdev %s, mtu %lld, node GUID %s\n", report_text(device, "name"),
	       report_text(device, "link_layer"), report_text(device, "state"),
	       report_text(device, "netdev"), report_number(device, "mtu"),
	       report_text(device, "node_guid"));
	if (json_object_get(device, "profile") && strcmp(report_text(device, "profile"), "simhca"))
		printf("  shows the identity of %s (--profile), and nothing else of it: device and "
		       "driver are simhca\n",
		       report_text(device, "profile"));
	json_array_foreach(json_object_get(device, "gids"), i, gid)
	{
		if (json_string_length(gid))
			printf("  GID %zu: %s\n", i, json_string_value(gid));
	}

	print_contexts(device);
	json_array_foreach(json_object_get(device, "context"), i, context)
		print_not_attached(context);
}

static void print_text(const json_t *status)
{
	const json_t *rdma_cm = json_object_get(status, "rdma_cm");
	const json_t *wire = json_object_get(status, "wire");
	json_t *device, *closed;
	size_t i;

	printf("simhcad %s, pid %lld, up %lld s, in %s%s\n", report_text(status, "version"),
	       report_number(status, "pid"), report_number(status, "uptime_s"),
	       report_text(status, "runtime_dir"),
	       json_is_true(json_object_get(status, "captive")) ? ", until the last simhca run ends"
								: "");
	json_array_foreach(json_object_get(status, "devices"), i, device) print_device(device);
	if (rdma_cm)
		printf("\nrdma_cm: %lld event channels, %lld ids, of them %lld listeners and %lld "
		       "connections\n",
		       report_number(rdma_cm, "channels"), report_number(rdma_cm, "ids"),
		       report_number(rdma_cm, "listeners"), report_number(rdma_cm, "connections"));
	if (!json_is_object(wire))
		return;
	printf("\nwire: RoCE v2 at %zu addresses, %lld packets sent and %lld taken\n",
	       json_array_size(json_object_get(wire, "addresses")), report_number(wire, "sent"),
	       report_number(wire, "taken"));
	json_array_foreach(json_object_get(wire, "closed"), i, closed)
		printf("wire: %s is not reached, and reaches nobody: UDP port 4791: %s\n",
		       report_text(closed, "address"), report_text(closed, "error"));
}

static const struct listing status_report = { .command = CONTROL_STATUS,
					      .print = print_text,
					      .filter = filter_status };

const struct command status_subcommand = {
	.name = "status",
	.summary = "show devices, and the programs that have them open",
	.usage = "[OPTION]...",
	.about = "Shows the devices of the daemon in the runtime directory, who has them open, and "
		 "how\n"
		 "many verbs objects are alive in each.\n",
	.status = "0 when a daemon runs; 1 if none does; 2 for wrong options.",
	.takes = TAKES_JSON | TAKES_PID | TAKES_DEVICE,
	.report = &status_report,
};
