/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What went wrong with connections, for the log and for `simhca explain`. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cma.h"
#include "failures/failures.h"
#include "unacked.h"

static struct failing_program program_of(const struct cma_file *file)
{
	struct failing_program program = {
		.pid = file->pid,
		.program = file->program->pid,
		.run = file->pid ? program_run_of(&file->cma->daemon->programs, file->pid) : 0,
	};

	memcpy(program.comm, file->comm, sizeof(program.comm));
	return program;
}

void cma_notify_failure(const struct cma_id *id, const char *how, int status, const char *format,
			...)
{
	const struct cma_file *file = id->file;
	struct failing_program program = program_of(file);
	char text[SIMHCA_CMD_MESSAGE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (id->device)
		snprintf(program.device, sizeof(program.device), "%s", id->device->options->name);
	log_info("rdma_cm: process %d (%s): %s", (int)file->pid, file->comm, text);
	failures_add_connection(file->cma->daemon->failures, &program, how, status, text);
}

void cma_notify_waits(const struct cma_id *id, const char *call)
{
	const struct cma_file *file = id->file;
	struct failing_program program = { .pid = file->pid, .program = file->program->pid };

	memcpy(program.comm, file->comm, sizeof(program.comm));
	unacked_expect(file->cma->unacked, &program, call, id->uid, id->events_reported);
}

void cma_notify_waiting(const struct cma_id *id, const struct cma_id *client, const char *how,
			const char *text)
{
	const struct failing_program program = program_of(id->file);
	struct failing_program peer = { 0 };

	if (client)
		peer = program_of(client->file);
	log_info("rdma_cm: process %d (%s): %s", (int)program.pid, program.comm, text);
	failures_add_sleep_of(id->file->cma->daemon->failures, &program, &peer, how, text);
}

void cma_notify_refusal(const struct cma_file *file, const char *command, int error,
			const struct simhca_why *why)
{
	const struct failing_program program = program_of(file);

	log_info("rdma_cm: process %d (%s): %s: %s (%s)", (int)file->pid, file->comm, command,
		 why->text, strerror(error));
	failures_add_refusal(file->cma->daemon->failures, &program, command, error, why->text);
}
