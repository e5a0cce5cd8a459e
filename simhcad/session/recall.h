/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that have mapped regions of files (MAP_REGION) are recalled from those that have gone: one that sleeps would
 * have them mapped for ever. A program gets a byte on its connection, and gives back what is gone. Nobody waits for that:
 * a program that does not read, or is stopped, would hold up those that deregister.
 */
#ifndef SIMHCAD_RECALL_H
#define SIMHCAD_RECALL_H

struct daemon;

/* Within milliseconds; of many regions that go at once programs hear once. */
void recall_later(struct daemon *daemon);

#endif
