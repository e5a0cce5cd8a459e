/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reading.h"
#include "report.h"
#include "simhca-clock.h"
#include "tool.h"

/* ---------------------------------------------------------------------------------- taking */

/* As simhcad/admin/admin.h has them; NULL: it is none of an object's "usage". */
static const char *const names[USAGE_NUMBERS] = {
	[USAGE_MESSAGES] = "messages",
	[USAGE_BYTES] = "bytes",
	[USAGE_READS] = "reads",
	[USAGE_READ_BYTES] = "read_bytes",
	[USAGE_RECEIVED] = "received",
	[USAGE_RECEIVED_BYTES] = "received_bytes",
	[USAGE_RETRIES] = "retries",
	[USAGE_RNR_NAKS] = "rnr_naks",
	[USAGE_RNR_DELAY_NS] = "rnr_delay_ns",
	[USAGE_NO_RECEIVE] = "no_receive",
	[USAGE_ERRORS] = "errors",
};

/* Which count of latencies that is; they come in order. */
static uint32_t bucket_of(uint64_t ns, uint32_t from)
{
	while (from + 1 < SIMHCA_LATENCIES && simhca_latency_ns(from) < ns)
		from++;
	return from;
}

static void add_usage(struct usage *sum, const json_t *json)
{
	const json_t *latency = json_object_get(json, "latency");
	uint32_t bucket = 0;

	for (int i = 0; i < USAGE_NUMBERS; i++)
		if (names[i])
			sum->number[i] += (uint64_t)report_number(json, names[i]);
	for (size_t i = 0; i < json_array_size(latency); i++) {
		const json_t *one = json_array_get(latency, i);

		bucket = bucket_of((uint64_t)json_integer_value(json_array_get(one, 0)), bucket);
		sum->latency[bucket] += (uint64_t)json_integer_value(json_array_get(one, 1));
	}
}

static void add_sum(struct usage *sum, const struct usage *usage)
{
	for (int i = 0; i < USAGE_NUMBERS; i++)
		sum->number[i] += usage->number[i];
	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		sum->latency[i] += usage->latency[i];
}

static void copy_text(char *to, size_t size, const json_t *object, const char *key)
{
	snprintf(to, size, "%s", report_text(object, key));
}

static bool is_of(const struct program *program, const char *device, long long pid,
		  long long context)
{
	return !strcmp(program->device, device) && program->pid == pid &&
	       (pid || program->context == context);
}

/* The program's place, which it gets if it has none; NULL: out of memory. */
static struct program *find_program(struct reading *reading, const char *device,
				    const json_t *object, long long context)
{
	long long pid = report_number(object, "pid");
	struct program *grown;

	for (size_t i = 0; i < reading->programs; i++)
		if (is_of(&reading->program[i], device, pid, context))
			return &reading->program[i];
	grown = reallocarray(reading->program, reading->programs + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	reading->program = grown;
	grown += reading->programs++;
	*grown = (struct program){ .pid = pid, .context = context };
	copy_text(grown->comm, sizeof(grown->comm), object, "comm");
	snprintf(grown->device, sizeof(grown->device), "%s", device);
	return grown;
}

static bool take_status(struct reading *reading, const json_t *status)
{
	const json_t *devices = json_object_get(status, "devices");
	const json_t *engines = json_object_get(status, "engines");

	reading->uptime_s = report_number(status, "uptime_s");
	reading->engine = calloc(json_array_size(engines) + 1, sizeof(*reading->engine));
	if (!reading->engine)
		return false;
	for (size_t i = 0; i < json_array_size(engines); i++)
		reading->engine[reading->engines++] =
			json_real_value(json_object_get(json_array_get(engines, i), "cpu_s"));
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		const json_t *contexts = json_object_get(device, "context");

		for (size_t j = 0; j < json_array_size(contexts); j++) {
			const json_t *context = json_array_get(contexts, j);
			struct program *program =
				find_program(reading, report_text(device, "name"), context,
					     report_number(context, "id"));

			if (!program)
				return false;
			add_usage(&program->usage, json_object_get(context, "past"));
		}
	}
	return true;
}

static bool take_qp(struct reading *reading, struct queue_pair *qp, const json_t *json)
{
	const json_t *faults = json_object_get(json, "faults");
	const char *name;
	json_t *value;
	struct program *program = find_program(reading, report_text(json, "device"), json,
					       report_number(json, "context"));

	if (!program)
		return false;
	*qp = (struct queue_pair){
		.program = (size_t)(program - reading->program),
		.qpn = report_number(json, "lqpn"),
		.rqpn = report_number(json, "rqpn"),
		.sends = report_number(json, "sends"),
		.recvs = report_number(json, "recvs"),
	};
	copy_text(qp->type, sizeof(qp->type), json, "type");
	copy_text(qp->state, sizeof(qp->state), json, "state");
	copy_text(qp->waits_for, sizeof(qp->waits_for), json, "waits_for");
	copy_text(qp->peer_device, sizeof(qp->peer_device), json, "peer_device");
	add_usage(&qp->usage, json_object_get(json, "usage"));
	json_object_foreach((json_t *)faults, name, value) qp->usage.number[USAGE_FAULTS] +=
		(uint64_t)json_integer_value(value);
	qp->usage.number[USAGE_BY_FAST_PATH] =
		(uint64_t)report_number(json_object_get(json, "fast_path"), "messages");
	program->qps++;
	add_sum(&program->usage, &qp->usage);
	return true;
}

static bool take_qps(struct reading *reading, const json_t *list)
{
	reading->qp = calloc(json_array_size(list) + 1, sizeof(*reading->qp));
	if (!reading->qp)
		return false;
	for (; reading->qps < json_array_size(list); reading->qps++)
		if (!take_qp(reading, &reading->qp[reading->qps],
			     json_array_get(list, reading->qps)))
			return false;
	return true;
}

struct reading *reading_take(int control, const struct filter *filter, char **refusal)
{
	json_t *status = admin_status(control, refusal);
	json_t *qps = status ? admin_report(control, CONTROL_QP, refusal) : NULL;
	struct reading *reading = qps ? calloc(1, sizeof(*reading)) : NULL;
	int error = errno;

	if (reading) {
		filter_status(filter, status);
		filter_list(filter, qps);
		reading->time = 1e-9 * (double)simhca_now_ns();
		if (!take_status(reading, status) || !take_qps(reading, qps)) {
			reading_free(reading);
			reading = NULL;
			error = ENOMEM;
		}
	}
	json_decref(status);
	json_decref(qps);
	errno = error;
	return reading;
}

void reading_free(struct reading *reading)
{
	if (!reading)
		return;
	free(reading->program);
	free(reading->qp);
	free(reading->engine);
	free(reading);
}

/* ------------------------------------------------------------------------------- comparing */

uint64_t latency_of(const uint64_t latency[SIMHCA_LATENCIES], unsigned int thousandths)
{
	uint64_t all = 0, so_far = 0;

	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		all += latency[i];
	for (uint32_t i = 0; i < SIMHCA_LATENCIES; i++) {
		so_far += latency[i];
		if (latency[i] && so_far * 1000 >= all * thousandths)
			return simhca_latency_ns(i);
	}
	return 0;
}

/* What was more than before; what has begun anew counts from nothing. */
static void subtract(struct usage *now, const struct usage *before)
{
	for (int i = 0; i < USAGE_NUMBERS; i++)
		now->number[i] -= before->number[i] <= now->number[i] ? before->number[i] : 0;
	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		now->latency[i] -= before->latency[i] <= now->latency[i] ? before->latency[i] : 0;
}

struct usage reading_program_usage(const struct program *program, const struct reading *before)
{
	struct usage usage = program->usage;

	for (size_t i = 0; before && i < before->programs; i++)
		if (is_of(&before->program[i], program->device, program->pid, program->context))
			subtract(&usage, &before->program[i].usage);
	return usage;
}

const struct program *reading_program(const struct reading *reading, const struct queue_pair *qp)
{
	return &reading->program[qp->program];
}

static const struct queue_pair *find_qp(const struct reading *reading, const char *device,
					long long qpn)
{
	for (size_t i = 0; i < reading->qps; i++)
		if (reading->qp[i].qpn == qpn &&
		    !strcmp(reading_program(reading, &reading->qp[i])->device, device))
			return &reading->qp[i];
	return NULL;
}

struct usage reading_qp_usage(const struct reading *now, const struct queue_pair *qp,
			      const struct reading *before)
{
	const char *device = reading_program(now, qp)->device;
	const struct queue_pair *then = before ? find_qp(before, device, qp->qpn) : NULL;
	struct usage usage = qp->usage;

	if (then)
		subtract(&usage, &then->usage);
	return usage;
}

double reading_seconds(const struct reading *now, const struct reading *before)
{
	return before && now->time > before->time ? now->time - before->time : 1;
}

bool reading_qp_waits(const struct queue_pair *qp)
{
	return strcmp(qp->waits_for, "nothing") && strcmp(qp->waits_for, "-") &&
	       !strcmp(qp->state, "RTS");
}

void reading_waits_for(const struct reading *reading, const struct queue_pair *qp, char *text,
		       size_t size)
{
	static const struct {
		const char *wait, *text;
	} texts[] = {
		{ "rnr", "a receive" },
		{ "answer", "an answer" },
		{ "busy", "its turn" },
		{ "peer", "pages" },
	};
	const struct queue_pair *peer = find_qp(reading, qp->peer_device, qp->rqpn);
	const char *what = "pages of its own";

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(texts[i].wait, qp->waits_for))
			what = texts[i].text;
	if (!strcmp(qp->waits_for, "fault"))
		snprintf(text, size, "%s", what);
	else if (peer)
		snprintf(text, size, "%s of %s[%lld], QP 0x%06llx", what,
			 reading_program(reading, peer)->comm, reading_program(reading, peer)->pid,
			 peer->qpn);
	else
		snprintf(text, size, "%s of QP 0x%06llx", what, qp->rqpn);
}

/* -------------------------------------------------------------------------------- as JSON */

/* [[ns, messages], ...], where ns is the longest time that counts there. */
static json_t *histogram_json(const struct usage *usage)
{
	json_t *buckets = json_array();

	for (uint32_t i = 0; i < SIMHCA_LATENCIES; i++)
		if (usage->latency[i])
			json_array_append_new(buckets,
					      json_pack("[I, I]", (json_int_t)simhca_latency_ns(i),
							(json_int_t)usage->latency[i]));
	return buckets;
}

static void put_usage(json_t *json, const struct usage *usage, bool histograms)
{
	if (histograms)
		json_object_set_new(json, "latency_histogram", histogram_json(usage));
	json_object_set_new(json, "latency_ns",
			    json_pack("{s:I, s:I, s:I, s:I}", "p50",
				      (json_int_t)latency_of(usage->latency, 500), "p90",
				      (json_int_t)latency_of(usage->latency, 900), "p99",
				      (json_int_t)latency_of(usage->latency, 990), "max",
				      (json_int_t)latency_of(usage->latency, 1000)));
	for (int i = 0; i < USAGE_NUMBERS; i++) {
		const char *name = i == USAGE_FAULTS ? "faults" : "by_fast_path";

		json_object_set_new(json, names[i] ? names[i] : name,
				    json_integer((json_int_t)usage->number[i]));
	}
}

json_t *reading_json(const struct reading *now, const struct reading *before, bool histograms)
{
	json_t *programs = json_array(), *qps = json_array(), *engines = json_array();
	char wait[96];

	for (size_t i = 0; i < now->programs; i++) {
		const struct program *program = &now->program[i];
		struct usage usage = reading_program_usage(program, before);
		json_t *json = json_pack("{s:s, s:I, s:s, s:I}", "comm", program->comm, "pid",
					 (json_int_t)program->pid, "device", program->device, "qps",
					 (json_int_t)program->qps);

		put_usage(json, &usage, histograms);
		json_array_append_new(programs, json);
	}
	for (size_t i = 0; i < now->qps; i++) {
		const struct queue_pair *qp = &now->qp[i];
		const struct program *program = reading_program(now, qp);
		struct usage usage = reading_qp_usage(now, qp, before);
		json_t *json =
			json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:I, s:I}", "comm",
				  program->comm, "pid", (json_int_t)program->pid, "device",
				  program->device, "lqpn", (json_int_t)qp->qpn, "rqpn",
				  (json_int_t)qp->rqpn, "type", qp->type, "state", qp->state,
				  "sends", (json_int_t)qp->sends, "recvs", (json_int_t)qp->recvs);

		put_usage(json, &usage, histograms);
		if (reading_qp_waits(qp)) {
			reading_waits_for(now, qp, wait, sizeof(wait));
			json_object_set_new(json, "waits_for", json_string(wait));
		}
		json_array_append_new(qps, json);
	}
	for (size_t i = 0; i < now->engines; i++)
		json_array_append_new(
			engines,
			json_real(now->engine[i] -
				  (before && i < before->engines ? before->engine[i] : 0)));
	return json_pack("{s:f, s:o, s:o, s:o}", "seconds",
			 before ? reading_seconds(now, before) : (double)now->uptime_s, "programs",
			 programs, "qps", qps, "engines_cpu_s", engines);
}

/* -------------------------------------------------------------------------- for Prometheus */

/* The program's labels. Its name is printable; what ends a label is escaped. */
static void print_labels(FILE *out, const struct program *program, const char *more)
{
	fprintf(out, "{device=\"%s\",pid=\"%lld\",context=\"%lld\",program=\"", program->device,
		program->pid, program->context);
	for (const char *c = program->comm; *c; c++)
		fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	fprintf(out, "\"%s} ", more);
}

static void print_latency(FILE *out, const struct program *program)
{
	uint64_t count = 0;
	double sum = 0;
	char more[40];

	for (uint32_t i = 0; i < SIMHCA_LATENCIES; i++) {
		uint64_t ns = simhca_latency_ns(i);

		count += program->usage.latency[i];
		sum += 1e-9 * (double)ns * (double)program->usage.latency[i];
		if ((ns + 1) & ns) /* a bucket for each power of two is enough */
			continue;
		fputs("simhca_latency_seconds_bucket", out);
		snprintf(more, sizeof(more), ",le=\"%.9g\"", 1e-9 * (double)(ns + 1));
		print_labels(out, program, more);
		fprintf(out, "%llu\n", (unsigned long long)count);
	}
	fputs("simhca_latency_seconds_bucket", out);
	print_labels(out, program, ",le=\"+Inf\"");
	fprintf(out, "%llu\nsimhca_latency_seconds_sum", (unsigned long long)count);
	print_labels(out, program, "");
	fprintf(out, "%.9g\nsimhca_latency_seconds_count", sum);
	print_labels(out, program, "");
	fprintf(out, "%llu\n", (unsigned long long)count);
}

void reading_prometheus(FILE *out, const struct reading *reading)
{
	static const struct {
		const char *name, *help;
		double unit;
	} metrics[USAGE_NUMBERS] = {
		[USAGE_MESSAGES] = { "messages", "Sends and writes that have completed.", 1 },
		[USAGE_BYTES] = { "sent_bytes", "Payload of these.", 1 },
		[USAGE_READS] = { "reads", "Reads and atomics that have completed.", 1 },
		[USAGE_READ_BYTES] = { "read_bytes", "Payload of these.", 1 },
		[USAGE_RECEIVED] = { "received", "Messages that took a receive.", 1 },
		[USAGE_RECEIVED_BYTES] = { "received_bytes", "Payload of these.", 1 },
		[USAGE_RETRIES] = { "retries", "Times that something was sent again.", 1 },
		[USAGE_RNR_NAKS] = { "rnr_naks", "RNR NAKs that peers have sent.", 1 },
		[USAGE_RNR_DELAY_NS] = { "rnr_delay_seconds", "Delays that these asked for.",
					 1e-9 },
		[USAGE_NO_RECEIVE] = { "no_receive", "RNR NAKs sent, for want of a receive.", 1 },
		[USAGE_ERRORS] = { "errors", "Send work requests that failed.", 1 },
		[USAGE_FAULTS] = { "page_faults", "Page faults of on-demand memory.", 1 },
		[USAGE_BY_FAST_PATH] = { "fast_path_messages",
					 "Messages and reads that the program carried.", 1 },
	};

	for (int i = 0; i < USAGE_NUMBERS; i++) {
		fprintf(out, "# HELP simhca_%s_total %s\n# TYPE simhca_%s_total counter\n",
			metrics[i].name, metrics[i].help, metrics[i].name);
		for (size_t j = 0; j < reading->programs; j++) {
			fprintf(out, "simhca_%s_total", metrics[i].name);
			print_labels(out, &reading->program[j], "");
			fprintf(out, "%.15g\n",
				metrics[i].unit * (double)reading->program[j].usage.number[i]);
		}
	}
	fputs("# HELP simhca_latency_seconds Time from when the device takes a message up until it "
	      "completes, of a sample.\n# TYPE simhca_latency_seconds histogram\n",
	      out);
	for (size_t j = 0; j < reading->programs; j++)
		print_latency(out, &reading->program[j]);
	fputs("# HELP simhca_queue_pairs Queue pairs.\n# TYPE simhca_queue_pairs gauge\n", out);
	for (size_t j = 0; j < reading->programs; j++) {
		fputs("simhca_queue_pairs", out);
		print_labels(out, &reading->program[j], "");
		fprintf(out, "%u\n", reading->program[j].qps);
	}
	fputs("# HELP simhca_engine_cpu_seconds_total CPU time of the device's engines.\n"
	      "# TYPE simhca_engine_cpu_seconds_total counter\n",
	      out);
	for (size_t i = 0; i < reading->engines; i++)
		fprintf(out, "simhca_engine_cpu_seconds_total{engine=\"%zu\"} %.9g\n", i,
			reading->engine[i]);
	fprintf(out,
		"# HELP simhca_uptime_seconds Since the device was started.\n"
		"# TYPE simhca_uptime_seconds gauge\nsimhca_uptime_seconds %lld\n",
		reading->uptime_s);
}
