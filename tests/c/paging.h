/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tests of on-demand regions share. */
#ifndef SIMHCA_TEST_PAGING_H
#define SIMHCA_TEST_PAGING_H

#include "harness.h"

#define PAGE 4096u
#define ODP (ALL_ACCESS | SIMHCA_ACCESS_ON_DEMAND)

/* Fresh pages, of which the process has none yet; left mapped. */
uint8_t *pages(unsigned int count);
struct mr *on_demand(struct client *client, uint8_t *at, uint64_t length, uint32_t access);
/* A pair of QPs, each side with an on-demand region of so many fresh pages. */
struct pair *paging_pair(struct world *world, enum ibv_qp_type type, unsigned int count);
struct simhca_odp_counters counters(const struct mr *mr);
uint64_t present(const struct mr *mr);
struct simhca_qp_info info(const struct side *side);
/* Resolves what faults there are, and lets requesters come again, until nothing happens. */
void page_in(struct world *world);

#endif
