/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process names itself, with any bytes, and says what it likes to its device. Where that is shown
 * are terminals, which would do as it says, logs, and JSON, which wants UTF-8. So such text is made
 * printable once: where a name is learnt, where a line is logged, and where the tool takes up what
 * a daemon says.
 */
#ifndef SIMHCAD_PRINTABLE_H
#define SIMHCAD_PRINTABLE_H

/*
 * What is left is UTF-8 without control characters (of lines, too) and without such as turn the
 * direction of writing; of all else each byte is a question mark.
 */
void make_printable(char *text);
/* The same for short texts, which are cut off where there is no room: of ASCII alone. */
void make_ascii(char *text);

#endif
