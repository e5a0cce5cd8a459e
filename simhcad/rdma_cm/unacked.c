/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "loop/chores.h"
#include "session/daemon.h"
#include "unacked.h"

#define LOOK_S 1.0	 /* between looks, and from the destruction to the first one */
#define LOOKS 4		 /* in a row that see it elsewhere, and no more: it may get no CPU */
#define LOOKS_AWAKE 2	 /* so many of them, and it does not wait any more */
#define MOST 32		 /* ids; of further ones nothing is said */
#define MOST_THREADS 256 /* of a process */
#define ID_BYTES 1024	 /* at least librdmacm's struct cma_id_private */
#define TEXT 160

enum where { ENDED, ELSEWHERE, WAITS }; /* of several threads, the last of these counts */

struct destroyed {
	struct failing_program program;
	const char *call; /* that may not return */
	uint64_t uid;
	uint32_t events;
	double since;		/* monotonic_s() */
	unsigned int elsewhere; /* looks since it was seen to wait */
	char text[TEXT];	/* as it was told; "": it was not */
};

/* Looking at processes: a chore, as the kernel locks each of them for it. */
struct look {
	struct chore chore;
	struct unacked *unacked; /* NULL: it was closed */
	unsigned int count;
	struct {
		pid_t pid;
		uint64_t uid;
		enum where where;
	} one[MOST];
};

struct unacked {
	struct daemon *daemon;
	ev_timer timer;	   /* while there are any */
	struct look *look; /* NULL: none is under way */
	struct destroyed ids[MOST];
	unsigned int count;
};

/* ----------------------------------------------------------------------- any thread */

/* Where the thread is, as far as the id is concerned. ENDED also if it cannot be seen. */
static enum where look_at_thread(int tasks, const char *tid, uint64_t uid)
{
	unsigned long long first;
	char path[64], line[64];
	ssize_t size;
	long number;
	int fd;

	snprintf(path, sizeof(path), "%.32s/syscall", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ENDED;
	size = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (size <= 0)
		return ENDED;
	line[size] = '\0';
	/* The system call and its arguments, or "running". A zombie is in none, and has no stack. */
	if (sscanf(line, "%ld 0x%llx", &number, &first) != 2)
		return ELSEWHERE;
	if (number == -1 && !first)
		return ENDED;
	return number == SYS_futex && first >= uid && first - uid < ID_BYTES ? WAITS : ELSEWHERE;
}

static enum where look_at(pid_t pid, uint64_t uid)
{
	enum where where = ENDED, thread;
	const struct dirent *entry;
	unsigned int threads = 0;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return ENDED;
	while (where != WAITS && threads++ < MOST_THREADS && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		thread = look_at_thread(dirfd(tasks), entry->d_name, uid);
		if (thread > where)
			where = thread;
	}
	closedir(tasks);
	return where;
}

static void look_at_all(struct chore *chore)
{
	struct look *look = (struct look *)chore;

	for (unsigned int i = 0; i < look->count; i++)
		look->one[i].where = look_at(look->one[i].pid, look->one[i].uid);
}

/* ------------------------------------------------------------------------- main thread */

static void tell(const struct unacked *unacked, struct destroyed *id)
{
	struct daemon *daemon = unacked->daemon;

	snprintf(id->text, sizeof(id->text),
		 "%s of 0x%llx waits for rdma_ack_cm_event(): the program got %u event%s of that "
		 "id, and has not acknowledged %s",
		 id->call, (unsigned long long)id->uid, id->events, id->events == 1 ? "" : "s",
		 id->events == 1 ? "it" : "each");
	id->program.run = program_run_of(&daemon->programs, id->program.pid);
	failures_add_sleep_of(daemon->failures, &id->program, NULL, "not_acknowledged", id->text);
}

/* What was seen of it. False: it needs not be looked at again. */
static bool has_seen(const struct unacked *unacked, struct destroyed *id, enum where where)
{
	if (where == WAITS) {
		id->elsewhere = 0;
		if (!id->text[0])
			tell(unacked, id);
		return true;
	}
	if (where == ENDED)
		return false;
	/* A thread that ends runs for a moment, which one look may see. */
	if (++id->elsewhere == LOOKS_AWAKE && id->text[0]) {
		failures_woke_up(unacked->daemon->failures, 0, id->text);
		id->text[0] = '\0';
	}
	return id->elsewhere < LOOKS;
}

static void has_looked(struct chore *chore)
{
	struct look *look = (struct look *)chore;
	struct unacked *unacked = look->unacked;

	if (!unacked) {
		free(look);
		return;
	}
	unacked->look = NULL;
	/* They stand in the order of the list, to which others were added meanwhile. */
	for (unsigned int i = look->count; i-- > 0;)
		if (!has_seen(unacked, &unacked->ids[i], look->one[i].where))
			memmove(&unacked->ids[i], &unacked->ids[i + 1],
				(--unacked->count - i) * sizeof(unacked->ids[0]));
	if (!unacked->count)
		ev_timer_stop(unacked->daemon->loop, &unacked->timer);
	free(look);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct unacked *unacked = timer->data;
	struct chore *list = NULL;
	struct look *look;

	if (unacked->look || monotonic_s() - unacked->ids[0].since < LOOK_S)
		return;
	look = calloc(1, sizeof(*look));
	if (!look)
		return;
	look->chore.work = look_at_all;
	look->chore.done = has_looked;
	look->unacked = unacked;
	/* The oldest are first. */
	while (look->count < unacked->count &&
	       monotonic_s() - unacked->ids[look->count].since >= LOOK_S) {
		const struct destroyed *id = &unacked->ids[look->count];

		look->one[look->count].pid = id->program.pid;
		look->one[look->count++].uid = id->uid;
	}
	unacked->look = look;
	DL_APPEND(list, &look->chore);
	chores_add(unacked->daemon->chores, list);
}

struct unacked *unacked_open(struct daemon *daemon)
{
	struct unacked *unacked = calloc(1, sizeof(*unacked));

	if (!unacked)
		return NULL;
	unacked->daemon = daemon;
	ev_timer_init(&unacked->timer, on_timer, LOOK_S, LOOK_S);
	unacked->timer.data = unacked;
	return unacked;
}

void unacked_close(struct unacked *unacked)
{
	if (!unacked)
		return;
	ev_timer_stop(unacked->daemon->loop, &unacked->timer);
	if (unacked->look)
		unacked->look->unacked = NULL;
	free(unacked);
}

void unacked_expect(struct unacked *unacked, const struct failing_program *program,
		    const char *call, uint64_t uid, uint32_t events)
{
	struct ev_loop *loop = unacked->daemon->loop;

	if (!uid || !events || !program->pid || unacked->count == MOST)
		return;
	unacked->ids[unacked->count++] = (struct destroyed){ .program = *program,
							     .call = call,
							     .uid = uid,
							     .events = events,
							     .since = monotonic_s() };
	if (!ev_is_active(&unacked->timer))
		ev_timer_again(loop, &unacked->timer);
}
