/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The descriptors that the fast path costs a program: two for each process that it is connected to,
 * one for each completion channel in which it raises events, and one for each range of memory that was moved
 * into a file (moved.h). All attached QPs share them, and they are at most a quarter of those that the program may have (RLIMIT_NOFILE, the soft limit).
 * What is beyond that is the device's to carry.
 */
#ifndef SHCA_PROVIDER_DESCRIPTORS_H
#define SHCA_PROVIDER_DESCRIPTORS_H

#include "provider.h"

#define SHCA_MEMORY 0  /* /proc/PID/mem; or the channel */
#define SHCA_PAGEMAP 1 /* /proc/PID/pagemap */

struct shca_descriptors {
	struct shca_chain link;
	uint32_t process; /* shca_process() of who opened them */
	uint32_t users;	  /* attached QPs */
	uint64_t pid;	  /* whose memory it is; 0: a channel */
	int fd[2];	  /* -1: none */
	struct {
		uint64_t dev, ino;
	} file[2]; /* which each is: the program may close what it does not know */
};

/*
 * Those of the process that found names, which is the one that has a secret there. NULL: it may not
 * be looked at, which is EACCES or EPERM in *error (0: it is something else), or there are too many.
 */
struct shca_descriptors *shca_descriptors_of_process(const struct simhca_find_peer_reply *found,
						     struct simhca_secret *secret, int *error);
/* Takes fd, the device's end of a channel; -1: there is none. NULL: there is none, or too many. */
struct shca_descriptors *shca_descriptors_of_channel(int fd);
/* So many that are somebody else's to open and to close. False: there are too many. A child has none reserved. */
bool shca_descriptors_reserve(uint32_t number);
void shca_descriptors_give_back(uint32_t number);
/* all may be NULL. */
void shca_descriptors_put(struct shca_descriptors *all);

static inline int shca_descriptor(const struct shca_descriptors *all, int which)
{
	return all ? all->fd[which] : -1;
}

#endif
