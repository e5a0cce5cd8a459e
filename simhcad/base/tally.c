/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <uthash.h>

#include "tally.h"

struct tally_entry {
	pid_t pid;
	unsigned int count;
	UT_hash_handle hh;
};

static struct tally_entry *find(const struct tally *tally, pid_t pid)
{
	struct tally_entry *entry;

	HASH_FIND(hh, tally->by_pid, &pid, sizeof(pid), entry);
	return entry;
}

unsigned int tally_get(const struct tally *tally, pid_t pid)
{
	const struct tally_entry *entry = find(tally, pid);

	return entry ? entry->count : 0;
}

bool tally_add(struct tally *tally, pid_t pid)
{
	struct tally_entry *entry = find(tally, pid);

	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return false;
		entry->pid = pid;
		HASH_ADD(hh, tally->by_pid, pid, sizeof(entry->pid), entry);
	}
	entry->count++;
	return true;
}

void tally_sub(struct tally *tally, pid_t pid)
{
	struct tally_entry *entry = find(tally, pid);

	if (!entry || --entry->count)
		return;
	HASH_DEL(tally->by_pid, entry);
	free(entry);
}

void tally_free(struct tally *tally)
{
	struct tally_entry *entry, *next;

	HASH_ITER (hh, tally->by_pid, entry, next) {
		HASH_DEL(tally->by_pid, entry);
		free(entry);
	}
}
