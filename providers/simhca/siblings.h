/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Siblings: providers for the other layouts of the private ABI of libibverbs. Its number says which
 * file libibverbs loads, but two numbers have several layouts (ibverbs-provider-abi.h); of these, the
 * file that is loaded, when it does not fit, loads one that does.
 */
#ifndef SIMHCA_SIBLINGS_H
#define SIMHCA_SIBLINGS_H

#include <stdbool.h>

/* The name of a bool of a sibling: set if it has registered itself. */
#define SHCA_SIBLING_FITS "simhca_sibling_fits"

/* Whether one fits, which has registered itself then. */
bool shca_load_sibling(void);

#endif
