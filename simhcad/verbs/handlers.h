/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a file defines commands: handlers, most of them calls of the device model, and a table of them. */
#ifndef SIMHCAD_HANDLERS_H
#define SIMHCAD_HANDLERS_H

#include "session/session.h"

/* Every handler has these parameters. */
#define HANDLER(name)                                                                              \
	static int name(struct session *session, struct request *request, struct reply *reply,     \
			struct simhca_why *why)

/* A handler that does no more than call the model's function of its name. */
#define CALL(name, ...)                                                                            \
	HANDLER(name)                                                                              \
	{                                                                                          \
		return simhca_##name(session->context, __VA_ARGS__, why);                          \
	}                                                                                          \
	command_handler name

#define NONE 0
#define COMMAND(NUMBER, function, request, reply, num_fds)                                         \
	[SIMHCA_CMD_##NUMBER] = {                                                                  \
		.request_size = request, .reply_size = reply, .fds = num_fds, .handler = function  \
	}
#define SIZE(name) sizeof(struct simhca_##name)
#define HANDLE SIZE(handle)

/* Each has the commands of the file of its name; commands.c searches them. */
typedef const struct command command_table[SIMHCA_CMD_COUNT];
extern command_table context_commands, memory_commands, queue_commands, ethernet_commands,
	fastpath_commands;

static inline uint32_t handle_of(const struct request *request)
{
	return ((const struct simhca_handle *)request->body)->handle;
}

/* context_commands.c: whether simhcad may hold one descriptor more for this session. 0 or -EMFILE. */
int check_descriptors(const struct session *session, struct simhca_why *why);

#endif
