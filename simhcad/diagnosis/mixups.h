/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a program probably mixed up, where a work request failed by a key, an address or a QP
 * number: its own key or address in place of the peer's, a number with its bytes reversed, a key of
 * a third program, its own QP number as the destination. Found by comparing the number with what
 * the programs on the device have; so before any of them has gone.
 */
#ifndef SIMHCAD_MIXUPS_H
#define SIMHCAD_MIXUPS_H

struct daemon;

/*
 * Looks at the failures that were not looked at before, and leaves what it finds with them. Main
 * thread. The objects that one call looks at are limited, whatever programs have made.
 */
void mixups_find(const struct daemon *daemon);

#endif
