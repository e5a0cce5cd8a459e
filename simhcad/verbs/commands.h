/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands of a session. */
#ifndef SIMHCAD_COMMANDS_H
#define SIMHCAD_COMMANDS_H

struct command;

/* NULL: there is none of that number. */
const struct command *command_find(unsigned int number);

#endif
