/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "control_protocol.h"

const char *const control_names[CONTROL_COUNT] = {
#define COMMAND(id, name) name,
	CONTROL_COMMANDS(COMMAND)
#undef COMMAND
};
