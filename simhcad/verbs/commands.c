/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* All commands, by their numbers. */
#include "commands.h"
#include "handlers.h"
#include "uverbs.h"

HANDLER(write_uverbs)
{
	return uverbs_write(session, request, reply, why, command_find);
}

/* The kernel's interface. */
static command_table uverbs_commands = {
	COMMAND(UVERBS_WRITE, write_uverbs, SIZE(uverbs_write_req), SIZE(uverbs_write_reply), 0),
	COMMAND(UVERBS_MAP, uverbs_map, SIZE(uverbs_map_req), SIZE(uverbs_map_reply), 0),
	COMMAND(UVERBS_WATCH, uverbs_watch, SIZE(uverbs_watch_req), NONE, 0),
};

const struct command *command_find(unsigned int number)
{
	static const struct command *const tables[] = { context_commands,  memory_commands,
							queue_commands,	   ethernet_commands,
							fastpath_commands, uverbs_commands };

	for (unsigned int i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (number < SIMHCA_CMD_COUNT && tables[i][number].handler)
			return &tables[i][number];
	return NULL;
}
