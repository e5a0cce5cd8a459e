/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simhca qp, simhca mr: the objects of all programs, one a line, in the style of rdma-resource(8).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const char qp_help[] =
	"Usage: simhca qp [OPTION]...\n"
	"\n"
	"Shows the queue pairs of all programs: numbers, state, and the page faults of on-demand\n"
	"memory that stopped them, as requester or responder, for reading or writing.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char mr_help[] =
	"Usage: simhca mr [OPTION]...\n"
	"\n"
	"Shows the memory regions of all programs: keys, length, and what on-demand paging has "
	"done\n"
	"with those that have it.\n"
	"\n"
	"  --json                    as one JSON array\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static long long number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && *text ? text : "-";
}

static void print_numbers(json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
		printf(" %s %lld", name, (long long)json_integer_value(value));
}

static void print_owner(const json_t *object)
{
	printf(" pid %lld comm %s\n", number_of(object, "pid"), text_of(object, "comm"));
}

static void print_qp(json_t *qp)
{
	printf("link %s/1 lqpn %lld rqpn %lld type %s state %s pdn %lld", text_of(qp, "device"),
	       number_of(qp, "lqpn"), number_of(qp, "rqpn"), text_of(qp, "type"),
	       text_of(qp, "state"), number_of(qp, "pdn"));
	printf(" faults_pending %lld", number_of(qp, "faults_pending"));
	print_numbers(json_object_get(qp, "faults"));
	print_owner(qp);
}

static void print_mr(json_t *mr)
{
	printf("dev %s lkey 0x%llx rkey 0x%llx mrlen %lld pdn %lld access 0x%llx windows %lld",
	       text_of(mr, "device"), number_of(mr, "lkey"), number_of(mr, "rkey"),
	       number_of(mr, "mrlen"), number_of(mr, "pdn"), number_of(mr, "access"),
	       number_of(mr, "windows"));
	print_numbers(json_object_get(mr, "odp"));
	print_owner(mr);
}

static json_t *ask(const char *dir, const char *what)
{
	int fd = admin_connect(dir);
	char *refusal = NULL;
	json_t *list;

	if (fd < 0) {
		if (admin_nobody(errno))
			complain("no daemon runs in %s", dir);
		else
			complain("the daemon in %s cannot be reached: %s", dir, strerror(errno));
		return NULL;
	}
	list = admin_report(fd, what, &refusal);
	if (!list)
		complain("the daemon in %s gave no report: %s", dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	close(fd);
	return list;
}

static int resource_main(int argc, char **argv, const char *what, const char *help,
			 void (*print)(json_t *))
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ 0 },
	};
	const char *given = NULL;
	bool as_json = false;
	enum option_code code;
	json_t *list, *object;
	char *dir;
	int index;
	size_t i;

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
	list = dir ? ask(dir, what) : NULL;
	free(dir);
	if (!list)
		return EXIT_FAILURE;
	if (as_json) {
		json_dumpf(list, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		json_array_foreach(list, i, object) print(object);
	}
	json_decref(list);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

int qp_main(int argc, char **argv)
{
	return resource_main(argc, argv, "qp", qp_help, print_qp);
}

int mr_main(int argc, char **argv)
{
	return resource_main(argc, argv, "mr", mr_help, print_mr);
}
