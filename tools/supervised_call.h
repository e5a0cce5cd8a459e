/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A call that is looked at, for the files that answer it (supervised.h). */
#ifndef SIMHCA_SUPERVISED_CALL_H
#define SIMHCA_SUPERVISED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/caller.h"
#include "supervised.h"

/* First the caller, so that it is a struct caller. */
struct call {
	struct caller caller;
	const struct supervised *supervised;
	const struct seccomp_notif *notif;
	int64_t value;
	int wait_fd;
};

/* What /proc says of a thread. */
struct thread {
	pid_t process;
	uid_t user;
	uint64_t pending, held; /* signals; and of those, blocked or ignored */
};

/* Whether it is our user's, and still waits. */
bool call_is_served(const struct call *call, struct thread *thread);

/* As struct caller has them. */
int call_give(struct caller *caller, int fd);
int call_borrow(struct caller *caller, int fd);

/* From the caller's memory. */
bool call_read(const struct call *call, void *to, uint64_t from, size_t size);

enum supervised_outcome call_answer(struct call *call, int64_t value);

/* It returns value once this is in the caller's memory. */
enum supervised_outcome call_answer_with(struct call *call, uint64_t to, const void *from,
					 size_t size, int64_t value);

/* By its number the filter takes a descriptor for one of these. */
enum call_fd { CALL_FD_FILE, CALL_FD_DEVICE, CALL_FD_SOCKET };

/* The descriptor is the call's value, as the lowest number from least on that fits. It is closed here. */
enum supervised_outcome call_answer_with_fd(struct call *call, int fd, enum call_fd kind,
					    unsigned int least, bool close_on_exec);

/* It is asked again when the descriptor is readable. */
enum supervised_outcome call_wait(struct call *call, int fd);

#endif
