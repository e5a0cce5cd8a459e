/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/proc_stat.h"
#include "program.h"

/* A process's parent, and when it was started. False: it cannot be seen, or has ended. */
static bool look(pid_t pid, pid_t *parent, uint64_t *started)
{
	char path[64], text[SIMHCA_PROC_STAT];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	state = simhca_proc_stat(path, text);
	/* The state is field 3, the parent 4, the start 22. */
	return state &&
	       sscanf(state,
		      "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		      "%*d %" SCNu64,
		      parent, started) == 2;
}

void programs_init(struct programs *programs)
{
	pid_t pid = getppid(), parent;
	uint64_t started;

	memset(programs, 0, sizeof(*programs));
	/* What a service manager started was started beside everything. */
	if (getenv("NOTIFY_SOCKET"))
		return;
	while (pid && programs->count < PROGRAM_ANCESTORS && look(pid, &parent, &started)) {
		programs->ancestor[programs->count].pid = pid;
		programs->ancestor[programs->count++].started = started;
		pid = parent;
	}
}

static bool is_ancestor(const struct programs *programs, pid_t pid, uint64_t started)
{
	for (unsigned int i = 0; i < programs->count; i++)
		if (programs->ancestor[i].pid == pid)
			return programs->ancestor[i].started == started;
	return false;
}

static pid_t follow(const struct programs *programs, pid_t process, pid_t parent, uint64_t started)
{
	pid_t pid = process, program = process;

	for (int i = 0; i < PROGRAM_ANCESTORS && programs->count; i++) {
		if (is_ancestor(programs, pid, started))
			return program;
		program = pid;
		pid = parent;
		if (!look(pid, &parent, &started))
			break;
	}
	return process;
}

static pid_t program_of(struct programs *programs, pid_t process)
{
	unsigned int at = (unsigned int)process % PROGRAMS_KNOWN;
	uint64_t started;
	pid_t parent;

	if (!look(process, &parent, &started))
		return process;
	if (programs->known[at].pid != process || programs->known[at].started != started) {
		programs->known[at].program = follow(programs, process, parent, started);
		programs->known[at].started = started;
		programs->known[at].pid = process;
	}
	return programs->known[at].program;
}

struct owner program_peer(struct programs *programs, int socket)
{
	struct ucred peer = { .pid = 0 };
	socklen_t size = sizeof(peer);
	struct owner owner;

	getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	owner.process = peer.pid;
	owner.program = peer.pid ? program_of(programs, peer.pid) : 0;
	return owner;
}

void program_lease(struct programs *programs, pid_t process)
{
	tally_add(&programs->leasing, process);
	programs->leases++;
}

void program_lease_ends(struct programs *programs, pid_t process)
{
	tally_sub(&programs->leasing, process);
	programs->leases--;
}

/* The process and those that it descends from, as far as they can be seen. Returns how many. */
static unsigned int ancestors_of(pid_t process, pid_t pids[PROGRAM_ANCESTORS])
{
	unsigned int count = 0;
	uint64_t started;
	pid_t parent;

	while (count < PROGRAM_ANCESTORS && process) {
		pids[count++] = process;
		if (!look(process, &parent, &started))
			break;
		process = parent;
	}
	return count;
}

pid_t program_run_of(const struct programs *programs, pid_t process)
{
	pid_t ancestors[PROGRAM_ANCESTORS];
	unsigned int count = ancestors_of(process, ancestors);

	/* Of those within each other the outermost. */
	while (count--)
		if (tally_get(&programs->leasing, ancestors[count]))
			return ancestors[count];
	return 0;
}
