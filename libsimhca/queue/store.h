/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Called before each store to what outlives whoever makes it: owner words, copies, reservations,
 * CQEs. A test stops there (tests/c/test_killed.c).
 */
#ifndef LIBSIMHCA_STORE_H
#define LIBSIMHCA_STORE_H

#ifdef SIMHCA_NUMBER_STORES
void simhca_store(void);
#else
static inline void simhca_store(void)
{
}
#endif

#endif
