/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which subcommands there are. */
#include <string.h>

#include "command.h"

const struct command *const commands[] = {
	&run_subcommand,     &start_subcommand, &stop_subcommand,
	&status_subcommand,  &qp_subcommand,	&cq_subcommand,
	&srq_subcommand,     &mr_subcommand,	&cm_subcommand,
	&stat_subcommand,    &top_subcommand,	&wire_subcommand,
	&explain_subcommand, &trace_subcommand, &inject_subcommand,
	&env_subcommand,     &cdi_subcommand,	NULL,
};

const struct command *command_find(const char *name)
{
	for (const struct command *const *command = commands; *command; command++)
		if (!strcmp(name, (*command)->name))
			return *command;
	return NULL;
}
