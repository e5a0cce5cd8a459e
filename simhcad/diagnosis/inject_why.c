/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>

#include "inject/inject.h"
#include "inject_why.h"
#include "names.h"
#include "simhca-inject.h"

#define OPCODES_TEXT 160

/* What a rule counts: one, and several. */
static const struct {
	const char *one, *several;
} kinds[] = {
	[SIMHCA_AT_WQE] = { "work request", "work requests" },
	[SIMHCA_AT_REQUEST] = { "request", "requests" },
	[SIMHCA_AT_ARRIVAL] = { "request of a reliable QP", "requests of reliable QPs" },
	[SIMHCA_AT_RESPONSE] = { "response", "responses" },
	[SIMHCA_AT_ANSWER] = { "answer", "answers" },
	[SIMHCA_AT_RECEIVE] = { "message that took a receive", "messages that took a receive" },
	[SIMHCA_AT_EVENT] = { "completion event", "completion events" },
	[SIMHCA_AT_VERB] = { "command", "commands" },
	[SIMHCA_AT_CONNECT] = { "connection of rdma_cm", "connections of rdma_cm" },
};

/* "SEND, RDMA_WRITE" */
static void opcode_names(uint32_t opcodes, char text[OPCODES_TEXT])
{
	int used = 0;

	text[0] = '\0';
	for (uint32_t opcode = 0; opcode < 32 && used < OPCODES_TEXT; opcode++)
		if (opcodes & 1u << opcode)
			used += snprintf(text + used, (size_t)(OPCODES_TEXT - used), "%s%s",
					 used ? ", " : "",
					 opcode == SIMHCA_OPCODE_UNKNOWN ? "unknown"
									 : name_of_opcode(opcode));
}

/* What none of so many was; what is the end of a sentence. */
static void say_miss(const struct simhca_rule *rule, enum simhca_miss miss, char *text, size_t size)
{
	const char *what = rule->missed[miss] == 1 ? kinds[simhca_rule_point(rule)].one
						   : kinds[simhca_rule_point(rule)].several;
	char opcodes[OPCODES_TEXT];
	int used =
		snprintf(text, size, "of %llu %s ", (unsigned long long)rule->missed[miss], what);

	if (used < 0 || (size_t)used >= size)
		return;
	text += used;
	size -= (size_t)used;
	switch (miss) {
	case SIMHCA_MISS_PROGRAM:
		if (rule->pid)
			snprintf(text, size, "none was of process %d", (int)rule->pid);
		else
			snprintf(text, size, "none was of a program %s", rule->program);
		break;
	case SIMHCA_MISS_DEVICE:
		snprintf(text, size, "none was on device %s", rule->device);
		break;
	case SIMHCA_MISS_QP:
		snprintf(text, size, "none was at QP 0x%06x", rule->qpn);
		break;
	case SIMHCA_MISS_VERB:
		snprintf(text, size, "none was that one");
		break;
	case SIMHCA_MISS_OPCODE:
		opcode_names(rule->opcodes_missed, opcodes);
		snprintf(text, size, "none was %s; their opcodes: %s",
			 rule->opcodes ? "of that opcode" : "one that takes a receive", opcodes);
		break;
	case SIMHCA_MISS_DATAGRAM:
		snprintf(text, size, "none was a datagram (UD)");
		break;
	case SIMHCA_MISS_PAYLOAD:
		snprintf(text, size, "none had a payload");
		break;
	case SIMHCA_MISSES:
		break;
	}
}

void inject_why(const struct simhca_rule *rule, char *text, size_t size)
{
	uint64_t begins = rule->every > rule->first ? rule->every : rule->first;

	text[0] = '\0';
	if (rule->fired)
		return;
	if (rule->met) {
		if (begins > rule->met)
			snprintf(text, size, "it would have fired at number %llu first",
				 (unsigned long long)begins);
		else if (rule->chance)
			snprintf(text, size, "it fires by chance, with this seed later or never");
		return;
	}
	/* The condition that most of the others were met for. */
	for (int miss = SIMHCA_MISSES - 1; miss >= 0; miss--)
		if (rule->missed[miss]) {
			say_miss(rule, (enum simhca_miss)miss, text, size);
			return;
		}
	snprintf(text, size, "there was no %s", kinds[simhca_rule_point(rule)].one);
}
