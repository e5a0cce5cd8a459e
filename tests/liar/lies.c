/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which lies are told. Garbage dies at the first range check, so half of them are consistent: what
 * a chain of PSNs, the messages under way, the peer's responder or a ring say follows from each
 * other, but for one or two.
 */
#include "liar.h"

uint32_t lie_below(uint64_t *seed, uint32_t bound)
{
	return test_random(seed) % bound;
}

static void poke(struct lie *lie, unsigned int field, uint64_t value)
{
	if (lie->pokes == MOST_POKES)
		return;
	lie->poke[lie->pokes].field = (uint16_t)field;
	lie->poke[lie->pokes++].value = value;
}

static void poke_value(const struct scene *scene, struct lie *lie, unsigned int field,
		       unsigned int index)
{
	poke(lie, field, field_value(scene, &scene->field[field], index));
}

/* The field of that side, without a print: it is asked for often. */
static int field_of(const struct scene *scene, const char *side, const char *name)
{
	char whole[48], *end = stpcpy(whole, side);

	*end++ = '.';
	strcpy(end, name);
	return field_find(scene, whole);
}

void lie_poke(const struct scene *scene, struct lie *lie, const char *side, const char *name,
	      uint64_t value)
{
	int field = field_of(scene, side, name);

	if (field >= 0)
		poke(lie, (unsigned int)field, value);
}

uint64_t lie_get(const struct scene *scene, const char *side, const char *name)
{
	int field = field_of(scene, side, name);

	return field < 0 ? 0 : field_get(&scene->field[field]);
}

static void poke_any(const struct scene *scene, uint64_t *seed, struct lie *lie, bool core)
{
	poke_value(scene, lie, lie_below(seed, core ? scene->cores : scene->fields),
		   lie_below(seed, VALUES));
}

/* ------------------------------------------------------------------------ consistent ones */

static uint32_t distance(uint64_t *seed)
{
	static const uint32_t some[] = {
		0,     0,	0,	  0,	    1,	      1,	2,	  3,	    16,
		0x100, 0x10000, 0x3fffff, 0x400000, 0x7ffffe, 0x7fffff, 0x800000, 0x800001, 0xffffff
	};

	return some[lie_below(seed, ARRAY_SIZE(some))];
}

/* Messages under way of PSNs that follow each other, and how far each of the PSNs is. */
static void chain(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static const char *const psns[] = { "req.psn_una", "req.psn_send", "req.psn_sent",
					    "req.psn_next" };
	const char *side = lie_below(seed, 4) ? "a" : "b", *peer = *side == 'a' ? "b" : "a";
	uint32_t first = (uint32_t)lie_get(scene, side, "flight0.first"), psn = first, send = 0;
	uint32_t oldest = (uint32_t)lie_get(scene, side, "req.oldest");
	bool keeps_last = lie_below(seed, 2);

	for (unsigned int i = 0; i < 4; i++) {
		psn = (psn + distance(seed)) & SIMHCA_PSN_MASK;
		if (i == 3 && keeps_last)
			psn = (uint32_t)lie_get(scene, side, psns[3]);
		if (i == 1)
			send = psn;
		lie_poke(scene, lie, side, psns[i], psn);
	}
	if (lie_below(seed, 2)) { /* the messages end where the chain does */
		static const uint16_t opcodes[] = { 0, 2, 4, 5, 7, 9, 25 };
		uint32_t count = 1 + lie_below(seed, 3), reads = 0;

		if (!lie_below(seed, 8))
			count = lie_below(seed, 66);
		for (uint32_t i = 0; i < count && i < 3; i++) {
			uint64_t opcode = lie_get(scene, side, "flight0.opcode");
			uint32_t last = i + 1 < count ? first + lie_below(seed, 3) : psn - 1;
			char name[32];

			if (!lie_below(seed, 3))
				opcode = opcodes[lie_below(seed, ARRAY_SIZE(opcodes))];
			reads += opcode == 4 || opcode == 5 || opcode == 25;
			snprintf(name, sizeof(name), "flight%u.first", (oldest + i) % 64);
			lie_poke(scene, lie, side, name, first);
			snprintf(name, sizeof(name), "flight%u.last", (oldest + i) % 64);
			lie_poke(scene, lie, side, name, last);
			snprintf(name, sizeof(name), "flight%u.opcode", (oldest + i) % 64);
			lie_poke(scene, lie, side, name, opcode);
			first = last + 1;
		}
		lie_poke(scene, lie, side, "req.count", count);
		lie_poke(scene, lie, side, "req.reads", reads);
		if (lie_below(seed, 2))
			lie_poke(scene, lie, side, "sq_pi",
				 oldest + count + lie_below(seed, 3) - 1);
	}
	if (lie_below(seed, 2)) /* and the peer waits for just that */
		lie_poke(scene, lie, peer, "resp.epsn", send);
	if (lie_below(seed, 2))
		lie_poke(scene, lie, peer, "resp.in_message", 1);
	if (lie_below(seed, 2))
		lie_poke(scene, lie, side, "req.wait", lie_below(seed, 6));
}

/* So many messages as the ring has, or not, which is all that is wrong. */
static void messages(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const char *side = lie_below(seed, 4) ? "a" : "b";
	uint32_t psn = (uint32_t)lie_get(scene, side, "req.psn_next"), first = psn;
	uint32_t count = lie_below(seed, 4), oldest = lie_below(seed, 4) ? 0 : 0xffffffff,
		 reads = 0;

	for (uint32_t i = 0; i < count && i < 3; i++) {
		static const uint16_t opcodes[] = { 2, 0, 4, 2, 2, 25 };
		uint16_t opcode = opcodes[lie_below(seed, ARRAY_SIZE(opcodes))];
		char name[32];

		reads += opcode == 4 || opcode == 25;
		snprintf(name, sizeof(name), "flight%u.first", (oldest + i) % 64);
		lie_poke(scene, lie, side, name, psn);
		snprintf(name, sizeof(name), "flight%u.last", (oldest + i) % 64);
		psn += lie_below(seed, 2);
		lie_poke(scene, lie, side, name, psn++);
		snprintf(name, sizeof(name), "flight%u.opcode", (oldest + i) % 64);
		lie_poke(scene, lie, side, name, opcode);
	}
	lie_poke(scene, lie, side, "req.oldest", oldest);
	lie_poke(scene, lie, side, "req.count", count);
	lie_poke(scene, lie, side, "req.reads", reads);
	lie_poke(scene, lie, side, "req.psn_una", first);
	lie_poke(scene, lie, side, "req.psn_send", lie_below(seed, 2) ? first : psn);
	lie_poke(scene, lie, side, "req.psn_sent", lie_below(seed, 2) ? first : psn);
	lie_poke(scene, lie, side, "req.psn_next", psn);
	lie_poke(scene, lie, side, "req.alone", lie_below(seed, 2));
	lie_poke(scene, lie, side, "req.answered", !lie_below(seed, 4));
	lie_poke(scene, lie, side, "req.wait", lie_below(seed, 2) ? 0 : lie_below(seed, 6));
	lie_poke(scene, lie, side, "sq_pi", oldest + count + lie_below(seed, 3));
}

/* Nothing is under way; the daemon may know better. */
static void nothing(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const char *side = lie_below(seed, 4) ? "a" : "b";

	lie_poke(scene, lie, side, "req.count", 0);
	lie_poke(scene, lie, side, "req.reads", 0);
	lie_poke(scene, lie, side, "req.alone", lie_below(seed, 2));
	lie_poke(scene, lie, side, "req.wait", lie_below(seed, 6));
	if (lie_below(seed, 2))
		lie_poke(scene, lie, side, "sq_pi",
			 lie_get(scene, side, "req.oldest") + lie_below(seed, RING + 2));
	lie->act[0] = ACT_NO_READS;
	lie->act[1] = ACT_POST;
	lie->act[2] = ACT_RTS;
	lie->act[3] = ACT_TIME;
}

/* The responder is in the middle of something. */
static void answers(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	const char *side = lie_below(seed, 4) ? "b" : "a", *peer = *side == 'a' ? "b" : "a";
	uint32_t epsn = (uint32_t)lie_get(scene, peer, "req.psn_send");
	const struct side *own = *side == 'a' ? &scene->bad->a : &scene->bad->b;

	lie_poke(scene, lie, side, "resp.epsn", epsn + (lie_below(seed, 3) ? 0 : distance(seed)));
	lie_poke(scene, lie, side, "resp.in_message", lie_below(seed, 2));
	lie_poke(scene, lie, side, "resp.write", lie_below(seed, 2));
	lie_poke(scene, lie, side, "resp.have_recv", lie_below(seed, 2));
	if (lie_below(seed, 2)) {
		lie_poke(scene, lie, side, "resp.owed", lie_below(seed, 3));
		lie_poke(scene, lie, side, "resp.read.psn", epsn - lie_below(seed, 2));
		lie_poke(scene, lie, side, "resp.read.va",
			 own->mr->iova + lie_below(seed, BUFFER + 2));
		lie_poke(scene, lie, side, "resp.read.rkey", own->mr->rkey);
		lie_poke(scene, lie, side, "resp.read.left",
			 lie_below(seed, 2) ? lie_below(seed, BUFFER) : 0x40000000);
	}
	if (lie_below(seed, 2)) {
		lie_poke(scene, lie, side, "resp.va", own->mr->iova + lie_below(seed, BUFFER + 2));
		lie_poke(scene, lie, side, "resp.rkey", own->mr->rkey);
		lie_poke(scene, lie, side, "resp.left",
			 lie_below(seed, 2) ? lie_below(seed, BUFFER) : 0x40000000);
		lie_poke(scene, lie, side, "resp.offset",
			 lie_below(seed, 2) ? lie_below(seed, BUFFER)
					    : 0x40000000 - lie_below(seed, 2048));
	}
	if (lie_below(seed, 2)) { /* it comes to a request that was answered */
		lie_poke(scene, lie, side, "resp.answers", 1);
		lie_poke(scene, lie, side, "answered0.psn", epsn);
		lie_poke(scene, lie, side, "answered0.op", lie_below(seed, 12));
		lie_poke(scene, lie, side, "answered0.length",
			 lie_below(seed, 2) ? 256 : UINT64_MAX >> lie_below(seed, 64));
		lie_poke(scene, lie, side, "answered0.va", own->mr->iova);
		lie_poke(scene, lie, side, "answered0.rkey", own->mr->rkey);
		lie_poke(scene, lie, side, "resp.epsn", epsn + 1 + distance(seed));
	}
	if (lie_below(seed, 2))
		lie_poke(scene, lie, side, "resp.rq_ci",
			 lie_get(scene, side, "rq_pi") - lie_below(seed, RING + 2));
}

/* A queue that is somewhere else, as a whole. */
static void queues(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static const char *const cqs[] = { "scq", "rcq" };
	const char *side = lie_below(seed, 2) ? "a" : "b", *cq = cqs[lie_below(seed, 2)];
	uint32_t base = field_value(scene, &scene->field[0], 0) ? 0 : test_random(seed);
	char name[16];

	if (lie_below(seed, 2))
		base = (uint32_t) - (int32_t)lie_below(seed, 20);
	if (lie_below(seed, 2)) {
		snprintf(name, sizeof(name), "%s.ci", cq);
		lie_poke(scene, lie, side, name, base);
		snprintf(name, sizeof(name), "%s.pi", cq);
		lie_poke(scene, lie, side, name, base + lie_below(seed, CQ_RING + 2));
		for (unsigned int i = 0; i < 2; i++) {
			snprintf(name, sizeof(name), "%s%u.claim", cq, i);
			lie_poke(scene, lie, side, name, base + lie_below(seed, 20));
			snprintf(name, sizeof(name), "%s%u.claimant", cq, i);
			lie_poke(scene, lie, side, name, 1 + lie_below(seed, 2));
			snprintf(name, sizeof(name), "%s%u.seq", cq, i);
			lie_poke(scene, lie, side, name, base + lie_below(seed, 20));
		}
	}
	if (lie_below(seed, 2)) {
		const char *of = scene->srq ? "srq" : side;

		snprintf(name, sizeof(name), scene->srq ? "pi" : "rq.pi");
		lie_poke(scene, lie, of, name, base + lie_below(seed, RING + 2));
		snprintf(name, sizeof(name), scene->srq ? "ci" : "rq.ci");
		lie_poke(scene, lie, of, name, base);
		snprintf(name, sizeof(name), scene->srq ? "claimant" : "rq.claimant");
		lie_poke(scene, lie, of, name, lie_below(seed, 300));
		snprintf(name, sizeof(name), scene->srq ? "claimed1" : "rq.claimed1");
		lie_poke(scene, lie, of, name, base - lie_below(seed, 3));
		lie_poke(scene, lie, "b", "resp.claim", base - lie_below(seed, 3));
	}
	if (lie_below(seed, 2)) {
		lie_poke(scene, lie, side, "rq_pi", base + lie_below(seed, RING + 2));
		lie_poke(scene, lie, side, "resp.rq_ci", base);
	}
	if (lie_below(seed, 2)) {
		lie_poke(scene, lie, side, "req.oldest", base);
		lie_poke(scene, lie, side, "sq_pi", base + lie_below(seed, RING + 2));
	}
}

void lie_of_rings(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static void (*const kinds[])(const struct scene *, uint64_t *, struct lie *) = {
		chain, chain, messages, nothing, answers, queues,
	};

	if (scene->moved && lie_below(seed, 2)) {
		moved_lie(scene, seed, lie);
		return;
	}
	kinds[lie_below(seed, ARRAY_SIZE(kinds))](scene, seed, lie);
	if (!lie_below(seed, 3))
		kinds[lie_below(seed, ARRAY_SIZE(kinds))](scene, seed, lie);
}

/* ------------------------------------------------------------------------------ in order */

/* Each pair of values of two fields once, in an order in which near ones are far apart. */
static void nth_pair(const struct scene *scene, uint64_t n, bool core, struct lie *lie)
{
	const uint64_t values = (uint64_t)(core ? scene->cores : scene->fields) * VALUES;
	const uint64_t pairs = values * values, step = 2654435761u; /* a prime, above all factors */
	uint64_t at = (uint64_t)((unsigned __int128)n * step % pairs);

	poke_value(scene, lie, (unsigned int)(at / values / VALUES), at / values % VALUES);
	poke_value(scene, lie, (unsigned int)(at % values / VALUES), at % values % VALUES);
}

bool lie_make(const struct scene *scene, uint64_t seed, uint64_t number, struct lie *lie)
{
	const uint64_t singles = (uint64_t)scene->fields * VALUES;
	uint64_t random = (seed * 0x9e3779b97f4a7c15u) ^ (number * 0xd1342543de82ef95u);

	memset(lie, 0, sizeof(*lie));
	for (int i = 0; i < 4; i++)
		test_random(&random);
	lie->turns = lie_below(&random, 8) ? 2 : (uint8_t)lie_below(&random, 3);
	lie->copies = lie_below(&random, 8) ? 0 : (uint8_t)(1 + lie_below(&random, 2));
	for (unsigned int i = 0; i < 2; i++)
		lie->act[i] = lie_below(&random, 4)
				      ? (uint8_t)scene->kind->acts[lie_below(&random, 3)]
				      : (uint8_t)lie_below(&random, ACTS);
	if (!lie_below(&random, 3))
		lie->act[2] = (uint8_t)lie_below(&random, ACTS);
	if (number % 2 && number / 2 < singles) {
		poke_value(scene, lie, (unsigned int)(number / 2 / VALUES), number / 2 % VALUES);
		return true;
	}
	if (number % 4 == 1)
		nth_pair(scene, seed % 1000 * 1000000 + number / 4, true, lie);
	else if (number % 4 == 3 && number % 8 == 3)
		nth_pair(scene, seed % 1000 * 1000000 + number / 8, false, lie);
	else if (number % 4 == 3)
		for (unsigned int i = 0; i < 3; i++)
			poke_any(scene, &random, lie, lie_below(&random, 4));
	else {
		scene->rings->consistent(scene, &random, lie);
		for (uint32_t more = lie_below(&random, 3); more; more--)
			poke_any(scene, &random, lie, lie_below(&random, 2));
	}
	return false;
}

void lie_tell(struct scene *scene, const struct lie *lie)
{
	for (unsigned int i = 0; i < lie->pokes; i++)
		field_put(&scene->field[lie->poke[i].field], lie->poke[i].value, lie->turns,
			  lie->copies);
	for (unsigned int i = 0; i < 4; i++)
		if (scene->generation[i / 2][i % 2])
			atomic_fetch_add(scene->generation[i / 2][i % 2], lie->turns);
}

/* --------------------------------------------------------------------------- in words */

static const char *const act_names[ACTS] = { "nothing",	 "time",  "recv",     "post", "answer",
					     "query",	 "sqd",	  "no-reads", "rts",  "err",
					     "peer-err", "pages", "resize",   "step", "move" };

static bool is_at(uint64_t value, const struct mr *mr, uint64_t *offset)
{
	*offset = value - mr->iova;
	return *offset <= 2 * BUFFER;
}

int lie_print(const struct scene *scene, const struct lie *lie, char *text, size_t size)
{
	int used = snprintf(text, size, "turns=%u copies=%u", lie->turns, lie->copies);

	for (unsigned int i = 0; i < lie->pokes && (size_t)used < size; i++) {
		const struct field *field = &scene->field[lie->poke[i].field];
		uint64_t value = lie->poke[i].value, offset;

		used += snprintf(text + used, size - (size_t)used, " %s=", field->name);
		if (field->kind == ADDRESS && is_at(value, scene->mr[0], &offset))
			used += snprintf(text + used, size - (size_t)used, "a+%#llx",
					 (unsigned long long)offset);
		else if (field->kind == ADDRESS && is_at(value, scene->mr[1], &offset))
			used += snprintf(text + used, size - (size_t)used, "b+%#llx",
					 (unsigned long long)offset);
		else
			used += snprintf(text + used, size - (size_t)used, "%#llx",
					 (unsigned long long)value);
	}
	for (unsigned int i = 0; i < MOST_ACTS && (size_t)used < size; i++)
		if (lie->act[i])
			used += snprintf(text + used, size - (size_t)used, " %s",
					 act_names[lie->act[i]]);
	if (lie->goes_on && (size_t)used < size)
		used += snprintf(text + used, size - (size_t)used, " and");
	return used;
}

static bool parse_word(const struct scene *scene, char *word, struct lie *lie, unsigned int *acts)
{
	char *is = strchr(word, '=');
	uint64_t value, base = 0;
	int field;

	for (unsigned int i = 0; !is && i < ACTS; i++)
		if (!strcmp(word, act_names[i]) && *acts < MOST_ACTS) {
			lie->act[(*acts)++] = (uint8_t)i;
			return true;
		}
	if (!strcmp(word, "and")) {
		lie->goes_on = true;
		return true;
	}
	if (!is)
		return false;
	*is++ = 0;
	if (is[0] && is[1] == '+') {
		base = *is == 'a' ? scene->mr[0]->iova : scene->mr[1]->iova;
		is += 2;
	}
	value = base + strtoull(is, NULL, 0);
	if (!strcmp(word, "turns")) {
		lie->turns = (uint8_t)value;
		return true;
	}
	if (!strcmp(word, "copies")) {
		lie->copies = (uint8_t)value;
		return true;
	}
	field = field_find(scene, word);
	if (field < 0)
		return false;
	poke(lie, (unsigned int)field, value);
	return true;
}

bool lie_parse(const struct scene *scene, char *text, struct lie *lie)
{
	unsigned int acts = 0;
	char *rest = NULL;

	memset(lie, 0, sizeof(*lie));
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		if (!parse_word(scene, word, lie, &acts)) {
			fprintf(stderr,
				"liar: %s: no field of this scene, and nothing that may happen\n",
				word);
			return false;
		}
	return true;
}
