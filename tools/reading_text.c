/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Readings as tables for people, and histograms of the times that messages took. */
#include <stdlib.h>
#include <string.h>

#include "reading.h"
#include "table.h"

/* ------------------------------------------------------------------------------- numbers */

/* 1234567 -> "1235k" */
static const char *short_number(double number, char text[16])
{
	static const char units[] = " kMGTP";
	int unit = 0;

	while (number >= 9999.5 && units[unit + 1]) {
		number /= 1000;
		unit++;
	}
	if (!unit)
		snprintf(text, 16, "%.*f", number < 10 && number != (long long)number, number);
	else
		snprintf(text, 16, "%.*f%c", number < 99.95 ? 1 : 0, number, units[unit]);
	return text;
}

/* Three digits: "215ns", "6.7us", "11.3us", "130us". */
static const char *short_time(uint64_t ns, char text[16])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double time = (double)ns;
	int unit = 0;

	if (!ns)
		return "-";
	for (; time >= 999.5 && unit < 3; unit++)
		time /= 1000;
	snprintf(text, 16, "%.*f%s", unit && time < 99.95, time, units[unit]);
	return text;
}

/* -------------------------------------------------------------------------------- tables */

/* What both tables have of a usage. */
enum { P50 = 7, P99, MAX, NUMBERS };
static const unsigned int shares[] = { 500, 990, 1000 }; /* of a thousand messages; P50 to MAX */

/* The first four as rates, and of all of them what a column is called that counts instead. */
static const struct {
	const char *rate, *count, *sort;
	unsigned int rank;
} numbers[NUMBERS] = {
	{ "MSG/S", "MSG", "msg", 0 },	    { "BYTE/S", "BYTES", "bytes", 0 },
	{ "RECV/S", "RECV", "recv", 1 },    { "RETRY", "RETRY", "retry", 5 },
	{ "RNR", "RNR", "rnr", 4 },	    { "ERROR", "ERROR", "error", 3 },
	{ "FAULT", "FAULT", "fault", 6 },   [P50] = { "P50", "P50", "p50", 0 },
	[P99] = { "P99", "P99", "p99", 0 }, [MAX] = { "MAX", "MAX", "max", 2 },
};

const char *const reading_sorts[] = { "msg", "bytes", "recv", "retry", "rnr",	  "error", "fault",
				      "p50", "p99",   "max",  "pid",   "program", NULL };

/* A row: a program or a queue pair, and what it has done. */
struct row {
	const struct program *program;
	const struct queue_pair *qp; /* NULL: all of the program's */
	size_t place;		     /* in the reading */
	double number[NUMBERS];	     /* for each second; P50 to MAX: ns */
};

static void count(struct row *row, const struct usage *usage, double s)
{
	const uint64_t *n = usage->number;

	row->number[0] = (double)(n[USAGE_MESSAGES] + n[USAGE_READS]) / s;
	row->number[1] = (double)(n[USAGE_BYTES] + n[USAGE_READ_BYTES]) / s;
	row->number[2] = (double)n[USAGE_RECEIVED] / s;
	row->number[3] = (double)n[USAGE_RETRIES] / s;
	row->number[4] = (double)n[USAGE_RNR_NAKS] / s;
	row->number[5] = (double)n[USAGE_ERRORS] / s;
	row->number[6] = (double)n[USAGE_FAULTS] / s;
	for (int i = P50; i <= MAX; i++)
		row->number[i] = (double)latency_of(usage->latency, shares[i - P50]);
}

/* Largest numbers first, names and process ids from the smallest on. */
static int compare(const void *left, const void *right, void *of)
{
	const struct row *a = left, *b = right;
	const struct reading_view *view = of;
	int order = 0;

	for (int i = 0; view->sort && i < NUMBERS; i++)
		if (!strcmp(view->sort, numbers[i].sort))
			order = (a->number[i] < b->number[i]) - (a->number[i] > b->number[i]);
	if (view->sort && !strcmp(view->sort, "pid"))
		order = (a->program->pid > b->program->pid) - (a->program->pid < b->program->pid);
	if (view->sort && !strcmp(view->sort, "program"))
		order = strcmp(a->program->comm, b->program->comm);
	if (view->reverse)
		order = -order;
	return order ? order : (a->place > b->place) - (a->place < b->place);
}

static void add_numbers(struct table *table, const struct row *row)
{
	char text[16];

	for (int i = 0; i < NUMBERS; i++)
		table_add(table, "%s",
			  i < P50 ? short_number(row->number[i], text)
				  : short_time((uint64_t)row->number[i], text));
}

static void add_program(struct table *table, const struct row *row)
{
	table_add(table, "%s", row->program->comm);
	table_add(table, "%lld", row->program->pid);
	table_add(table, "%s", row->program->device);
	table_add(table, "%u", row->program->qps);
	add_numbers(table, row);
}

static void add_qp(struct table *table, const struct row *row)
{
	table_add(table, "0x%06llx", row->qp->qpn);
	table_add(table, "%s", row->qp->type);
	table_add(table, "%s", row->qp->state);
	table_add(table, "%s", row->program->comm);
	table_add(table, "%lld", row->program->pid);
	table_add(table, "%s", row->program->device);
	add_numbers(table, row);
}

static bool one_device(const struct reading *reading)
{
	for (size_t i = 1; i < reading->programs; i++)
		if (strcmp(reading->program[i].device, reading->program[0].device))
			return false;
	return true;
}

#define FIRST_MAX 6

/* Rows below heads, of which the first ones are given. */
static bool print_rows(FILE *out, const struct reading *reading, bool rates, struct row *rows,
		       size_t many, const struct table_column *first, size_t firsts,
		       const struct reading_view *view)
{
	struct table_column columns[FIRST_MAX + NUMBERS];
	struct table *table;
	bool good;

	memcpy(columns, first, firsts * sizeof(*first));
	for (size_t i = 0; i < firsts; i++) /* that of all says little */
		if (!strcmp(columns[i].head, "DEVICE") && one_device(reading))
			columns[i].rank = 9;
	for (size_t i = 0; i < NUMBERS; i++)
		columns[firsts + i] = (struct table_column){
			.head = rates ? numbers[i].rate : numbers[i].count,
			.right = true,
			.rank = numbers[i].rank,
		};
	table = table_new(columns, firsts + NUMBERS);
	if (!table)
		return false;
	qsort_r(rows, many, sizeof(*rows), compare, (void *)view);
	for (size_t i = 0; i < many; i++)
		(rows[i].qp ? add_qp : add_program)(table, &rows[i]);
	good = table_print(out, table, view->width);
	table_free(table);
	return good;
}

static bool print_programs(FILE *out, const struct reading *now, const struct reading *before,
			   const struct reading_view *view)
{
	static const struct table_column first[] = {
		{ .head = "PROGRAM", .cut = true },
		{ .head = "PID", .right = true },
		{ .head = "DEVICE", .rank = 1 },
		{ .head = "QPS", .right = true, .rank = 7 },
	};
	struct row *rows = calloc(now->programs + 1, sizeof(*rows));
	bool good = rows;

	for (size_t i = 0; good && i < now->programs; i++) {
		struct usage usage = reading_program_usage(&now->program[i], before);

		rows[i] = (struct row){ .program = &now->program[i], .place = i };
		count(&rows[i], &usage, reading_seconds(now, before));
	}
	good = good && print_rows(out, now, before != NULL, rows, now->programs, first,
				  sizeof(first) / sizeof(first[0]), view);
	free(rows);
	return good;
}

static bool print_qps(FILE *out, const struct reading *now, const struct reading *before,
		      const struct reading_view *view)
{
	static const struct table_column first[] = {
		{ .head = "QPN" },
		{ .head = "TYPE", .rank = 8 },
		{ .head = "STATE", .rank = 7 },
		{ .head = "PROGRAM", .cut = true },
		{ .head = "PID", .right = true },
		{ .head = "DEVICE", .rank = 1 },
	};
	struct row *rows = calloc(now->qps + 1, sizeof(*rows));
	bool good = rows;

	for (size_t i = 0; good && i < now->qps; i++) {
		struct usage usage = reading_qp_usage(now, &now->qp[i], before);

		rows[i] = (struct row){ .program = reading_program(now, &now->qp[i]),
					.qp = &now->qp[i],
					.place = i };
		count(&rows[i], &usage, reading_seconds(now, before));
	}
	good = good && print_rows(out, now, before != NULL, rows, now->qps, first,
				  sizeof(first) / sizeof(first[0]), view);
	free(rows);
	return good;
}

static void print_engines(FILE *out, const struct reading *now, const struct reading *before)
{
	for (size_t i = 0; i < now->engines; i++) {
		if (before && i < before->engines)
			fprintf(out, "engine %zu: %.0f %% of a CPU\n", i,
				100 * (now->engine[i] - before->engine[i]) /
					reading_seconds(now, before));
		else
			fprintf(out, "engine %zu: %.2f s of CPU time\n", i, now->engine[i]);
	}
}

/* On two lines where one is too narrow. */
static void print_waits(FILE *out, const struct reading *reading, const struct reading_view *view)
{
	char who[96], wait[96];

	for (size_t i = 0; i < reading->qps; i++) {
		const struct queue_pair *qp = &reading->qp[i];
		const struct program *program = reading_program(reading, qp);
		int length;

		if (!reading_qp_waits(qp))
			continue;
		length = snprintf(who, sizeof(who), "%s[%lld], QP 0x%06llx waits for",
				  program->comm, program->pid, qp->qpn);
		reading_waits_for(reading, qp, wait, sizeof(wait));
		length += (int)strlen(wait) + snprintf(NULL, 0, " ; posted: %lld", qp->sends);
		fprintf(out, "%s%s%s; posted: %lld\n", who,
			view->width && length > view->width ? "\n    " : " ", wait, qp->sends);
	}
}

bool reading_print(FILE *out, const struct reading *now, const struct reading *before,
		   const struct reading_view *view)
{
	print_engines(out, now, before);
	if (!print_programs(out, now, before, view) ||
	    (view->qps && !print_qps(out, now, before, view)))
		return false;
	print_waits(out, now, view);
	return true;
}

/* ---------------------------------------------------------------------------- histograms */

#define ROWS_MAX 20
#define BAR_MAX 60

/*
 * As many buckets in each row (a power of two) as make at most ROWS_MAX rows of those from the first
 * to the last that count something; 0: none does.
 */
static uint32_t buckets_of_a_row(const uint64_t latency[SIMHCA_LATENCIES], uint32_t *first,
				 uint32_t *last)
{
	uint32_t each = 1;

	*first = SIMHCA_LATENCIES;
	for (uint32_t i = 0; i < SIMHCA_LATENCIES; i++) {
		if (!latency[i])
			continue;
		*first = *first < i ? *first : i;
		*last = i;
	}
	if (*first == SIMHCA_LATENCIES)
		return 0;
	while (*last / each - *first / each >= ROWS_MAX)
		each *= 2;
	return each;
}

static uint64_t sum(const uint64_t latency[SIMHCA_LATENCIES], uint32_t from, uint32_t to)
{
	uint64_t all = 0;

	for (uint32_t i = from; i < to && i < SIMHCA_LATENCIES; i++)
		all += latency[i];
	return all;
}

static bool print_bars(FILE *out, const uint64_t latency[SIMHCA_LATENCIES], int width)
{
	static const struct table_column columns[] = {
		{ .head = "UP TO", .right = true },
		{ .head = "MSG", .right = true },
		{ .head = "%", .right = true },
		{ .head = "" },
	};
	static const char bar[] = "############################################################";
	uint32_t first, last = 0, each = buckets_of_a_row(latency, &first, &last);
	uint64_t all = sum(latency, 0, SIMHCA_LATENCIES), most = 0, row;
	struct table *table;
	char text[16];
	bool good;
	int length;

	if (!each)
		return true;
	/* The columns before the bar take 26 at most. */
	length = !width || width > 27 + BAR_MAX ? BAR_MAX : width > 37 ? width - 27 : 10;
	first -= first % each;
	for (uint32_t i = first; i <= last; i += each)
		most = sum(latency, i, i + each) > most ? sum(latency, i, i + each) : most;
	table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	for (uint32_t i = first; table && i <= last; i += each) {
		row = sum(latency, i, i + each);
		table_add(table, "%s",
			  short_time(simhca_latency_ns(i + each - 1 < SIMHCA_LATENCIES
							       ? i + each - 1
							       : SIMHCA_LATENCIES - 1),
				     text));
		table_add(table, "%llu", (unsigned long long)row);
		table_add(table, "%.1f", 100 * (double)row / (double)all);
		/* What counts anything is seen. */
		table_add(table, "|%.*s",
			  (int)((double)row * length / (double)most + (row ? 0.999 : 0)), bar);
	}
	good = table && table_print(out, table, width);
	table_free(table);
	return good;
}

static bool print_histogram(FILE *out, const char *title, const struct usage *usage, int width)
{
	uint64_t all = sum(usage->latency, 0, SIMHCA_LATENCIES);
	char p50[16], p99[16], max[16];

	if (!all) {
		fprintf(out, "%s: no message was timed\n", title);
		return true;
	}
	fprintf(out, "%s: %llu message%s timed; P50 %s, P99 %s, MAX %s\n", title,
		(unsigned long long)all, all == 1 ? "" : "s",
		short_time(latency_of(usage->latency, 500), p50),
		short_time(latency_of(usage->latency, 990), p99),
		short_time(latency_of(usage->latency, 1000), max));
	return print_bars(out, usage->latency, width);
}

bool reading_print_histograms(FILE *out, const struct reading *reading,
			      const struct reading_view *view)
{
	char title[128];
	bool good = true;

	for (size_t i = 0; good && !view->qps && i < reading->programs; i++) {
		const struct program *program = &reading->program[i];

		snprintf(title, sizeof(title), "%s%s[%lld] %s", i ? "\n" : "", program->comm,
			 program->pid, program->device);
		good = print_histogram(out, title, &program->usage, view->width);
	}
	for (size_t i = 0; good && view->qps && i < reading->qps; i++) {
		const struct queue_pair *qp = &reading->qp[i];

		snprintf(title, sizeof(title), "%s%s[%lld], QP 0x%06llx (%s)", i ? "\n" : "",
			 reading_program(reading, qp)->comm, reading_program(reading, qp)->pid,
			 qp->qpn, qp->type);
		good = print_histogram(out, title, &qp->usage, view->width);
	}
	return good;
}
