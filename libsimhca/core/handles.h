/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Numbers and handles of objects. */
#ifndef LIBSIMHCA_HANDLES_H
#define LIBSIMHCA_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * 24-bit numbers of QPs, SRQs or PDs: a slot, given out in turn, and a generation that changes with
 * each use, so that a late packet misses a slot's next owner. Control functions only.
 */
struct simhca_numbers {
	uint32_t slots, next;
	uint8_t *generation; /* NULL: plain ones */
	bool *in_use;
};
bool simhca_numbers_init(struct simhca_numbers *numbers, uint32_t slots);
/* Of what no packet names: from 1 to slots - 1, in turn, without generations. */
bool simhca_numbers_init_plain(struct simhca_numbers *numbers, uint32_t slots);
void simhca_numbers_free(struct simhca_numbers *numbers);
uint32_t simhca_number_alloc(struct simhca_numbers *numbers); /* 0: all are in use */
void simhca_number_release(struct simhca_numbers *numbers, uint32_t number);

/* Handles of one type: an index into slots; free slots hold NULL. */
struct simhca_handles {
	void **slot;
	uint32_t room;
	uint32_t count;
	uint32_t hint; /* no free slot below */
};
int simhca_handle_add(struct simhca_handles *handles, void *object, uint32_t *handle);
void *simhca_handle_get(const struct simhca_handles *handles, uint32_t handle);
void simhca_handle_remove(struct simhca_handles *handles, uint32_t handle);

#endif
