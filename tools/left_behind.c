/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/proc_stat.h"
#include "left_behind.h"
#include "report.h"
#include "tool.h"

#define WAIT_MS 500	    /* until what is about to end has ended, or has opened the device */
#define LOOK_US 20000	    /* between two looks */
#define GENERATIONS_MOST 64 /* from a program up to us */

void left_behind_adopt(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void left_behind_reap(pid_t command, pid_t daemon)
{
	siginfo_t info = { .si_pid = 0 };

	while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid &&
	       info.si_pid != command && info.si_pid != daemon) {
		waitpid(info.si_pid, NULL, 0);
		info.si_pid = 0;
	}
}

/* 0: it cannot be seen. */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[SIMHCA_PROC_STAT];
	const char *state;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	state = simhca_proc_stat(path, text);
	return state && sscanf(state, "%*c %d", &parent) == 1 ? parent : 0;
}

static bool is_below_us(pid_t pid)
{
	for (int i = 0; i < GENERATIONS_MOST && pid > 1; i++) {
		pid = parent_of(pid);
		if (pid == getpid())
			return true;
	}
	return false;
}

/* Whether anybody is below us but the daemon; false as well where the kernel does not tell. */
static bool have_children(const struct leased_daemon *daemon)
{
	char path[64];
	bool any = false;
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fscanf(file, "%d", &pid) == 1)
		any |= pid != daemon->child;
	fclose(file);
	return any;
}

/* The programs below us that have a device open, as "server[12] and client[13]"; false: there are none. */
static bool name_users(const json_t *status, char *text, size_t size)
{
	const json_t *device, *context;
	size_t i, j, used = 0;
	pid_t last = 0;

	text[0] = '\0';
	json_array_foreach(json_object_get(status, "devices"), i, device)
		json_array_foreach(json_object_get(device, "context"), j, context)
	{
		pid_t pid = (pid_t)report_number(context, "pid");

		if (pid == last || used >= size || !is_below_us(pid))
			continue;
		last = pid;
		used += (size_t)snprintf(text + used, size - used, "%s%s[%d]", used ? ", " : "",
					 report_text(context, "comm"), (int)pid);
	}
	return used;
}

/* Whether the device goes when we leave, as nobody else keeps it. */
static bool ends_with_us(const json_t *status)
{
	return json_is_true(json_object_get(status, "captive")) &&
	       report_number(status, "leases") == 1;
}

void left_behind_tell(const struct leased_daemon *daemon)
{
	long long until = now_ms() + WAIT_MS;
	bool ends = false, used = false;
	char users[256];

	while (!daemon->lost) {
		json_t *status;

		left_behind_reap(0, daemon->child);
		if (!have_children(daemon))
			return;
		status = admin_status(daemon->control, NULL);
		ends = status && ends_with_us(status);
		used = status && name_users(status, users, sizeof(users));
		json_decref(status);
		if (!ends || now_ms() >= until)
			break;
		usleep(LOOK_US);
	}
	if (ends && used)
		complain("%s, which the command has left running, still has the device open, and "
			 "the device ends now; have it stay in the foreground, or begin with "
			 "`simhca start`",
			 users);
}
