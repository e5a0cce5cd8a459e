/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "diagram.h"
#include "report.h"

/* ----------------------------------------------------------------- from a story to its steps */

enum side { LEFT, RIGHT }; /* the end whose work request failed, and its peer */

enum step_kind {
	STEP_ARROW, /* from that side to the other */
	STEP_LOST,  /* likewise, and it does not come to anybody */
	STEP_NOTE,  /* something happens at that side */
};

struct step {
	enum step_kind kind;
	enum side side;
	char text[160];
};

#define MOST_STEPS 32

struct diagram {
	char names[2][64];
	struct step steps[MOST_STEPS];
	size_t count; /* further steps are left out */
};

static void __attribute__((format(printf, 4, 5)))
add(struct diagram *diagram, enum step_kind kind, enum side side, const char *format, ...)
{
	struct step *step;
	va_list arguments;

	if (diagram->count == MOST_STEPS)
		return;
	step = &diagram->steps[diagram->count++];
	step->kind = kind;
	step->side = side;
	va_start(arguments, format);
	vsnprintf(step->text, sizeof(step->text), format, arguments);
	va_end(arguments);
}

static bool is(const json_t *failure, const char *kind)
{
	return !strcmp(report_text(failure, "kind"), kind);
}

static bool follows(const json_t *other, const json_t *failure)
{
	return json_object_get(other, "cause") &&
	       report_number(other, "cause") == report_number(failure, "id");
}

static void name_end(char *name, size_t size, const json_t *failure, long long qpn)
{
	if (failure)
		snprintf(name, size, "%s[%lld] QP 0x%06llx", report_text(failure, "comm"),
			 report_number(failure, "pid"), qpn);
	else
		snprintf(name, size, "QP 0x%06llx", qpn);
}

/* What the peer has told of itself: something that followed at its QP, or its empty queue. */
static const json_t *told_by_peer(const json_t *list, const json_t *failure)
{
	long long peer = report_number(failure, "peer_qpn");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *other = json_array_get(list, i);

		if (follows(other, failure) && report_number(other, "qpn") == peer)
			return other;
	}
	return json_object_get(failure, "queue");
}

static void add_attempts(struct diagram *diagram, const json_t *failure)
{
	long long timeout = report_number(failure, "timeout");
	const char *status = report_text(failure, "status");

	if (!strcmp(status, "RETRY_EXC_ERR")) {
		add(diagram, STEP_NOTE, LEFT, "no answer within %.3g ms",
		    timeout ? 4.096e-3 * (double)(1ll << timeout) : 0.);
		add(diagram, STEP_LOST, LEFT, "again, %lld times",
		    report_number(failure, "retry_cnt"));
	} else if (!strcmp(status, "RNR_RETRY_EXC_ERR")) {
		add(diagram, STEP_ARROW, RIGHT, "RNR NAK: no receive is posted");
		if (report_number(failure, "rnr_retry"))
			add(diagram, STEP_NOTE, LEFT, "waits and sends again, %lld times",
			    report_number(failure, "rnr_retry"));
	}
}

/* What was seen or done before it failed. */
static bool came_before(const json_t *other)
{
	return is(other, "injection") || is(other, "no answer") || is(other, "refusal");
}

/* What followed, or came before, at either end. */
static void add_other(struct diagram *diagram, const json_t *failure, const json_t *other)
{
	enum side side =
		report_number(other, "qpn") == report_number(failure, "qpn") ? LEFT : RIGHT;
	long long count = report_number(other, "count");
	char id[24];

	if (is(other, "flush"))
		add(diagram, STEP_NOTE, side, "%lld work request%s flushed", count,
		    count == 1 ? " is" : "s are");
	else if (is(other, "event"))
		add(diagram, STEP_NOTE, side, "IBV_EVENT_%s", report_text(other, "event"));
	else if (is(other, "receive"))
		add(diagram, STEP_NOTE, side, "its receive, wr_id %s: %s", story_wr_id(other, id),
		    report_text(other, "status"));
	else if (is(other, "send"))
		add(diagram, STEP_NOTE, side, "%s, wr_id %s: %s", report_text(other, "opcode"),
		    story_wr_id(other, id), report_text(other, "status"));
	else
		add(diagram, STEP_NOTE, side, "%s", report_text(other, "text"));
	if (is(other, "refusal"))
		add(diagram, STEP_ARROW, RIGHT, "NAK: %s", report_text(other, "reason"));
}

static void add_looks(struct diagram *diagram, const json_t *failure)
{
	if (json_object_get(failure, "looks_like"))
		add(diagram, STEP_NOTE, LEFT, "%s", report_text(failure, "looks_like"));
}

/* A work request that was sent, up to the NAK or the silence. */
static void add_request(struct diagram *diagram, const json_t *list, const json_t *failure)
{
	const char *status = report_text(failure, "status");
	const json_t *other;
	size_t i;

	/* What is wrong with it by itself is not sent. */
	if (!strncmp(status, "LOC_", 4) || !strcmp(status, "MW_BIND_ERR")) {
		add(diagram, STEP_NOTE, LEFT, "posts %s of %lld bytes",
		    report_text(failure, "opcode"), report_number(failure, "length"));
		return;
	}
	add(diagram, strcmp(status, "RETRY_EXC_ERR") ? STEP_ARROW : STEP_LOST, LEFT,
	    "%s of %lld bytes", report_text(failure, "opcode"), report_number(failure, "length"));
	add_attempts(diagram, failure);
	for (i = 0; i < json_array_size(list); i++) {
		other = json_array_get(list, i);
		if (follows(other, failure) && came_before(other))
			add_other(diagram, failure, other);
	}
}

/* What the sender of an unreliable QP sees. */
static void add_outcome(struct diagram *diagram, const json_t *failure)
{
	add(diagram, STEP_NOTE, LEFT, "its completion says SUCCESS");
	if (report_number(failure, "count") > 1)
		add(diagram, STEP_NOTE, LEFT, "the same %lld times in all",
		    report_number(failure, "count"));
}

/* A request that its responder has dropped, and whose sender was not told. */
static void make_dropped(struct diagram *diagram, const json_t *failure)
{
	diagram->count = 0;
	name_end(diagram->names[LEFT], sizeof(diagram->names[LEFT]),
		 json_object_get(failure, "sender"), report_number(failure, "peer_qpn"));
	name_end(diagram->names[RIGHT], sizeof(diagram->names[RIGHT]), failure,
		 report_number(failure, "qpn"));
	add(diagram, STEP_ARROW, LEFT, "%s of %lld bytes", report_text(failure, "opcode"),
	    report_number(failure, "length"));
	add(diagram, STEP_NOTE, RIGHT, "%s", report_text(failure, "text"));
	add(diagram, STEP_NOTE, RIGHT, "drops it (%s)", report_text(failure, "reason"));
	add_outcome(diagram, failure);
}

/* A message of an unreliable QP, which nobody has taken. */
static void make_lost(struct diagram *diagram, const json_t *failure)
{
	diagram->count = 0;
	name_end(diagram->names[LEFT], sizeof(diagram->names[LEFT]), failure,
		 report_number(failure, "qpn"));
	name_end(diagram->names[RIGHT], sizeof(diagram->names[RIGHT]), NULL,
		 report_number(failure, "peer_qpn"));
	add(diagram, STEP_LOST, LEFT, "%s of %lld bytes", report_text(failure, "opcode"),
	    report_number(failure, "length"));
	add(diagram, STEP_NOTE, RIGHT, "%s", report_text(failure, "text"));
	add_looks(diagram, failure);
	add_outcome(diagram, failure);
}

static void make(struct diagram *diagram, const json_t *list, const json_t *failure)
{
	char id[24];

	diagram->count = 0;
	name_end(diagram->names[LEFT], sizeof(diagram->names[LEFT]), failure,
		 report_number(failure, "qpn"));
	name_end(diagram->names[RIGHT], sizeof(diagram->names[RIGHT]), told_by_peer(list, failure),
		 report_number(failure, "peer_qpn"));
	if (is(failure, "send"))
		add_request(diagram, list, failure);
	else
		add(diagram, STEP_ARROW, RIGHT, "a message");
	add(diagram, STEP_NOTE, LEFT, "wr_id %s: %s (%s)", story_wr_id(failure, id),
	    report_text(failure, "status"), report_text(failure, "reason"));
	add_looks(diagram, failure);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *other = json_array_get(list, i);

		if (!follows(other, failure))
			continue;
		if (!came_before(other))
			add_other(diagram, failure, other);
		add_looks(diagram, other);
	}
}

/* ------------------------------------------------------------------------------------- text */

#define LINE_LEFT 4 /* columns of the two lines */
#define LINE_RIGHT 46
#define NOTE_LEFT (LINE_RIGHT - LINE_LEFT - 4) /* letters of a note */
#define NOTE_RIGHT (80 - LINE_RIGHT - 3)

/* Letters of the next line of a text of that width, cut between words if that is possible. */
static size_t line_of(const char *text, size_t width)
{
	size_t length = strlen(text), end = width;

	if (length <= width)
		return length;
	while (end && text[end] != ' ')
		end--;
	return end ? end : width;
}

static void print_note(FILE *out, enum side side, const char *text)
{
	while (*text) {
		size_t length = line_of(text, side == LEFT ? NOTE_LEFT : NOTE_RIGHT);

		if (side == LEFT)
			fprintf(out, "%*s|  %-*.*s |\n", LINE_LEFT, "", NOTE_LEFT, (int)length,
				text);
		else
			fprintf(out, "%*s|%*s|  %.*s\n", LINE_LEFT, "", LINE_RIGHT - LINE_LEFT - 1,
				"", (int)length, text);
		text += length;
		text += strspn(text, " ");
	}
}

static void print_arrow(FILE *out, const struct step *step)
{
	int width = LINE_RIGHT - LINE_LEFT - 1, length = (int)strlen(step->text);
	int room = width - 5, dashes;

	if (length > room)
		length = room;
	dashes = room - length;
	fprintf(out, "%*s|", LINE_LEFT, "");
	if (step->side == LEFT)
		fprintf(out, "- %.*s ", length, step->text);
	else
		fputs("<-", out);
	for (int i = 0; i < dashes; i++)
		fputc('-', out);
	if (step->side == LEFT)
		fputs(step->kind == STEP_LOST ? "-x|\n" : "->|\n", out);
	else
		fprintf(out, " %.*s -|\n", length, step->text);
}

static void print_text(FILE *out, const struct diagram *diagram)
{
	fprintf(out, "%-*s %s\n", LINE_RIGHT - 3, diagram->names[LEFT], diagram->names[RIGHT]);
	for (size_t i = 0; i < diagram->count; i++) {
		const struct step *step = &diagram->steps[i];

		if (step->kind == STEP_NOTE)
			print_note(out, step->side, step->text);
		else
			print_arrow(out, step);
	}
}

/* ---------------------------------------------------------------------------------- Mermaid */

/* Semicolons end a statement there. */
static void print_mermaid_text(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text == ';' ? ',' : *text, out);
	fputc('\n', out);
}

static void print_mermaid(FILE *out, const struct diagram *diagram)
{
	static const char ends[] = { 'A', 'B' };

	fputs("sequenceDiagram\n", out);
	for (int side = LEFT; side <= RIGHT; side++) {
		fprintf(out, "    participant %c as ", ends[side]);
		print_mermaid_text(out, diagram->names[side]);
	}
	for (size_t i = 0; i < diagram->count; i++) {
		const struct step *step = &diagram->steps[i];

		if (step->kind == STEP_NOTE)
			fprintf(out, "    Note over %c: ", ends[step->side]);
		else
			fprintf(out, "    %c%s%c: ", ends[step->side],
				step->kind == STEP_LOST ? "-x" : "->>", ends[!step->side]);
		print_mermaid_text(out, step->text);
	}
}

/* -------------------------------------------------------------------------------------- SVG */

#define SVG_WIDTH 960
#define SVG_LEFT 40
#define SVG_RIGHT 560
#define SVG_STEP 26
#define SVG_HEAD 40 /* from a diagram's top to its first step */
#define SVG_NOTE 60 /* letters of a line */

static void print_svg_text(FILE *out, int x, int y, const char *attributes, const char *text,
			   size_t length)
{
	fprintf(out, "<text x=\"%d\" y=\"%d\"%s>", x, y, attributes);
	for (; length && *text; text++, length--)
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		default:
			fputc(*text, out);
		}
	fputs("</text>\n", out);
}

static int svg_lines(const struct step *step)
{
	const char *text = step->text;
	int lines = 0;

	if (step->kind != STEP_NOTE)
		return 1;
	for (; *text; lines++) {
		text += line_of(text, SVG_NOTE);
		text += strspn(text, " ");
	}
	return lines;
}

static int svg_height(const struct diagram *diagram)
{
	int lines = 0;

	for (size_t i = 0; i < diagram->count; i++)
		lines += svg_lines(&diagram->steps[i]);
	return SVG_HEAD + (lines + 1) * SVG_STEP;
}

static void print_svg_arrow(FILE *out, const struct step *step, int y)
{
	int from = step->side == LEFT ? SVG_LEFT : SVG_RIGHT;
	int to = step->side == LEFT ? SVG_RIGHT : SVG_LEFT;

	if (step->kind == STEP_LOST)
		to -= 60;
	fprintf(out,
		"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"arrow\" "
		"marker-end=\"url(#%s)\"/>\n",
		from, y, to, y, step->kind == STEP_LOST ? "lost" : "head");
	print_svg_text(out, (SVG_LEFT + SVG_RIGHT) / 2, y - 5, " text-anchor=\"middle\"",
		       step->text, strlen(step->text));
}

static int print_svg(FILE *out, const struct diagram *diagram, int top)
{
	int y = top + SVG_HEAD, bottom = top + svg_height(diagram) - SVG_STEP;

	for (int side = LEFT; side <= RIGHT; side++) {
		int x = side == LEFT ? SVG_LEFT : SVG_RIGHT;

		print_svg_text(out, x - 20, top + 16, " class=\"name\"", diagram->names[side],
			       strlen(diagram->names[side]));
		fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"life\"/>\n", x,
			top + 24, x, bottom);
	}
	for (size_t i = 0; i < diagram->count; i++) {
		const struct step *step = &diagram->steps[i];
		const char *text = step->text;

		if (step->kind != STEP_NOTE) {
			print_svg_arrow(out, step, y);
			y += SVG_STEP;
			continue;
		}
		while (*text) {
			size_t length = line_of(text, SVG_NOTE);

			print_svg_text(out, (step->side == LEFT ? SVG_LEFT : SVG_RIGHT) + 10, y, "",
				       text, length);
			text += length;
			text += strspn(text, " ");
			y += SVG_STEP;
		}
	}
	return top + svg_height(diagram);
}

static void print_svg_head(FILE *out, int height)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"13\">\n"
		"<style>.life{stroke:#999}.arrow{stroke:#000}.name{font-weight:bold}</style>\n"
		"<defs><marker id=\"head\" markerWidth=\"9\" markerHeight=\"8\" refX=\"8\" "
		"refY=\"4\" "
		"orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker>\n"
		"<marker id=\"lost\" markerWidth=\"9\" markerHeight=\"9\" refX=\"4\" refY=\"4\">"
		"<path d=\"M0,0 L8,8 M8,0 L0,8\" stroke=\"#000\"/></marker></defs>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		SVG_WIDTH, height);
}

/* ------------------------------------------------------------------------------------- all */

/* The next story from *i on that is a work request's; false: there is none. */
static bool next(const json_t *list, const struct filter *filter, size_t *i,
		 struct diagram *diagram)
{
	for (; *i < json_array_size(list); (*i)++) {
		const json_t *failure = json_array_get(list, *i);

		bool dropped = is(failure, "refusal") && story_is_unreliable(failure);

		if ((!is(failure, "send") && !is(failure, "receive") && !is(failure, "loss") &&
		     !dropped) ||
		    !story_is_told(list, failure, filter))
			continue;
		if (dropped)
			make_dropped(diagram, failure);
		else if (is(failure, "loss"))
			make_lost(diagram, failure);
		else
			make(diagram, list, failure);
		(*i)++;
		return true;
	}
	return false;
}

size_t diagram_print(FILE *out, const json_t *report, const struct filter *filter,
		     enum diagram_format format)
{
	const json_t *list = json_object_get(report, "failures");
	struct diagram diagram;
	size_t i = 0, told = 0;
	int y = 0;

	if (format == DIAGRAM_SVG) {
		while (next(list, filter, &i, &diagram))
			y += svg_height(&diagram);
		print_svg_head(out, y + SVG_STEP);
		i = 0;
		y = 0;
	}
	for (; next(list, filter, &i, &diagram); told++) {
		if (format == DIAGRAM_SVG) {
			y = print_svg(out, &diagram, y);
			continue;
		}
		if (told)
			fputc('\n', out);
		if (format == DIAGRAM_MERMAID)
			print_mermaid(out, &diagram);
		else
			print_text(out, &diagram);
	}
	if (format == DIAGRAM_SVG)
		fputs("</svg>\n", out);
	return told;
}
