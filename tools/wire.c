/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca wire: what goes to and comes from other hosts. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "report.h"
#include "tool.h"

/*
 * Adds to `wire` those of `qps` that are connected by it, and the sums of each peer. Of EFA devices an entry is of
 * all QPs of a program that speak with a host, in `pairs`.
 */
static void add_connections(json_t *wire, json_t *qps)
{
	static const char *const sums[] = { "sent", "repeated", "received",
					    "lost", "window",	"holes" };
	json_t *connections = json_array(), *peers = json_object(), *qp;
	size_t i;

	json_array_foreach(qps, i, qp)
	{
		json_t *traffic = json_object_get(qp, "wire"), *peer;

		if (!traffic)
			continue;
		json_array_append(connections, qp);
		peer = json_object_get(peers, report_text(traffic, "peer"));
		if (!peer) {
			peer = json_object();
			json_object_set_new(peers, report_text(traffic, "peer"), peer);
		}
		json_object_set_new(
			peer, "qps",
			json_integer(
				report_number(peer, "qps") +
				(json_object_get(qp, "pairs") ? report_number(qp, "pairs") : 1)));
		for (size_t j = 0; j < sizeof(sums) / sizeof(sums[0]); j++)
			if (json_object_get(traffic, sums[j]))
				json_object_set_new(peer, sums[j],
						    json_integer(report_number(peer, sums[j]) +
								 report_number(traffic, sums[j])));
	}
	json_object_set_new(wire, "peers", peers);
	json_object_set_new(wire, "connections", connections);
}

static json_t *ask(int fd, char **refusal)
{
	json_t *wire = admin_report(fd, CONTROL_WIRE, refusal), *qps, *hosts;

	if (!wire)
		return NULL;
	qps = admin_report(fd, CONTROL_QP, refusal);
	if (!qps) {
		json_decref(wire);
		return NULL;
	}
	hosts = admin_report(fd, CONTROL_WIRE_HOSTS, refusal);
	if (!hosts) {
		json_decref(wire);
		json_decref(qps);
		return NULL;
	}
	json_array_extend(qps, hosts);
	add_connections(wire, qps);
	json_decref(qps);
	json_decref(hosts);
	return wire;
}

static void print_numbers(json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
		printf(" %s %lld", name, (long long)json_integer_value(value));
}

static void print_text(const json_t *wire)
{
	json_t *one;
	const char *name;
	size_t i;

	json_array_foreach(json_object_get(wire, "closed"), i, one)
		printf("closed %s: UDP port 4791: %s\n", report_text(one, "address"),
		       report_text(one, "error"));
	if (!json_array_size(json_object_get(wire, "addresses"))) {
		puts("no device has an address on the wire; see --wire in simhcad(8)");
		return;
	}
	json_array_foreach(json_object_get(wire, "addresses"), i, one)
		printf("address %s dropped %lld\n", report_text(one, "address"),
		       report_number(one, "dropped"));
	printf("may send: %s\n", json_string_length(json_object_get(wire, "may_send"))
					 ? report_text(wire, "may_send")
					 : "everybody");
	printf("packets: sent %lld unsent %lld taken %lld unclaimed %lld; refused:",
	       report_number(wire, "sent"), report_number(wire, "unsent"),
	       report_number(wire, "taken"), report_number(wire, "unclaimed"));
	print_numbers(json_object_get(wire, "refused"));
	putchar('\n');
	json_object_foreach(json_object_get(wire, "peers"), name, one)
	{
		printf("peer %s", name);
		print_numbers(one);
		putchar('\n');
	}
}

/* Of the connections; the rest is of the daemon. The sums are those of what passes. */
static void filter(const struct filter *filter, json_t *wire)
{
	json_t *qps = json_incref(json_object_get(wire, "connections"));

	filter_list(filter, qps);
	add_connections(wire, qps);
	json_decref(qps);
}

static const struct listing wire_report = { .ask = ask, .print = print_text, .filter = filter };

const struct command wire_subcommand = {
	.name = "wire",
	.summary = "show what goes to and comes from other hosts",
	.usage = "[OPTION]...",
	.about = "Shows the addresses that the daemon has RoCE v2 on, what became of the packets, "
		 "and for\n"
		 "each peer how many queue pairs are connected to it and what these have "
		 "exchanged.\n",
	.status = "0 when a daemon runs; 1 if none does; 2 for wrong options.",
	.takes = TAKES_JSON | TAKES_FILTER,
	.report = &wire_report,
};
