/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The order in which locks are taken, of the device model and of simhcad: a thread that holds one
 * takes only locks that stand below it here, and never two of one line. Whatever is tried only
 * (pthread_mutex_trylock()) may be taken in any order, as nobody waits for it.
 *
 * Before all of these a QP's two locks, which are tried only (proto/owner.h): req_lock, the state
 * of its requester and completer, and then resp_lock, its peer's responder. They are held while
 * data move through a client's memory, which can take as long as that client likes; engines come
 * back later, and control functions try for a moment and return -EAGAIN. So is an agent's lock held
 * that long, by the one thread that its context has. All others are held for moments.
 *
 * A build with SIMHCA_LOCK_CHECK (that with AddressSanitizer) looks at each lock that is taken, and
 * aborts with both names when it is against the order, or has no place in it. In other builds what
 * follows is pthread_mutex_init() and pthread_rwlock_init().
 */
#ifndef LIBSIMHCA_LOCK_H
#define LIBSIMHCA_LOCK_H

#include <pthread.h>

#define SIMHCA_LOCKS(LOCK)                                                                         \
	LOCK(EFA_WORK)	/* of a context: tried only, and held like a QP's requester lock */        \
	LOCK(RECEIVE)	/* simhcad: datagrams are handed in in their order */                      \
	LOCK(SOCKETS)	/* simhcad: the sockets of the wire */                                     \
	LOCK(ALONE)	/* whose first atomic waits for programs' steps */                         \
	LOCK(FABRIC)	/* lists of devices, engines, guards and steps */                          \
	LOCK(WIRE)	/* a QP is looked up, and its inbox filled */                              \
	LOCK(INBOX)	/* of a QP, or of a context of an EFA device */                            \
	LOCK(POOL)	/* memory of packets that come by the wire */                              \
	LOCK(GMPS)	/* MADs that have come by the wire */                                      \
	LOCK(WAYS)	/* QPs that share a way on the wire */                                     \
	LOCK(UNSENT)	/* addresses that could not be sent to */                                  \
	LOCK(FLOWS)	/* of a device */                                                          \
	LOCK(MULTICAST) /* groups of a device */                                                   \
	LOCK(OPENS)	/* who has an XRC_RECV QP open */                                          \
	LOCK(SRQ)                                                                                  \
	LOCK(LEFT) /* receives that somebody who is gone had claimed */                            \
	LOCK(CQ)                                                                                   \
	LOCK(EFA)	/* of a context: its address handles; who watches its doorbells */         \
	LOCK(EFA_QUEUE) /* a CQ or RQ of an EFA device */                                          \
	LOCK(WINDOW)	/* the key of a memory window */                                           \
	LOCK(REGION)	/* the key of a memory region */                                           \
	LOCK(GONE)	/* keys that were */                                                       \
	LOCK(ATOMICITY) /* of a process's memory */                                                \
	LOCK(AGENT)	/* one request at a time */                                                \
	LOCK(FAULTS)	/* page faults in line */                                                  \
	LOCK(PAGERS)	/* the list of them */                                                     \
	LOCK(PAGER)	/* of a process */                                                         \
	LOCK(INJECT)	/* rules of faults */                                                      \
	LOCK(CONTEXTS)	/* of an engine */                                                         \
	LOCK(ENGINE)	/* run queue and timers */                                                 \
	LOCK(LOG)	/* of a program, or of XRC targets: how much it may say */                 \
	LOCK(INJECTOR)	/* simhcad: what rules do beyond the device */                             \
	LOCK(CHORES)	/* simhcad: threads that may sleep */                                      \
	LOCK(CHANNELS)	/* simhcad: event channels of a connection */                              \
	LOCK(WAKEUP)	/* simhcad: what the main thread is to look at */                          \
	LOCK(TRACERS)	/* simhcad */                                                              \
	LOCK(FAILURES)	/* simhcad: what is told by `simhca explain` */                            \
	LOCK(THREAD)	/* simhcad: whether a thread has ended */

#define SIMHCA_LOCK_RANK(name) SIMHCA_LOCK_##name,
enum simhca_lock_rank { SIMHCA_LOCK_NONE, SIMHCA_LOCKS(SIMHCA_LOCK_RANK) };
#undef SIMHCA_LOCK_RANK

#ifdef SIMHCA_LOCK_CHECK

void simhca_mutex_init(pthread_mutex_t *lock, enum simhca_lock_rank rank);
void simhca_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr,
			enum simhca_lock_rank rank);

int simhca_checked_lock(pthread_mutex_t *lock);
int simhca_checked_trylock(pthread_mutex_t *lock);
int simhca_checked_unlock(pthread_mutex_t *lock);
int simhca_checked_destroy(pthread_mutex_t *lock);
int simhca_checked_rdlock(pthread_rwlock_t *lock);
int simhca_checked_wrlock(pthread_rwlock_t *lock);
int simhca_checked_trywrlock(pthread_rwlock_t *lock);
int simhca_checked_rwunlock(pthread_rwlock_t *lock);
int simhca_checked_rwdestroy(pthread_rwlock_t *lock);

#ifndef SIMHCA_LOCK_UNCHECKED
#define pthread_mutex_lock simhca_checked_lock
#define pthread_mutex_trylock simhca_checked_trylock
#define pthread_mutex_unlock simhca_checked_unlock
#define pthread_mutex_destroy simhca_checked_destroy
#define pthread_rwlock_rdlock simhca_checked_rdlock
#define pthread_rwlock_wrlock simhca_checked_wrlock
#define pthread_rwlock_trywrlock simhca_checked_trywrlock
#define pthread_rwlock_unlock simhca_checked_rwunlock
#define pthread_rwlock_destroy simhca_checked_rwdestroy
#endif

#else

static inline void simhca_mutex_init(pthread_mutex_t *lock, enum simhca_lock_rank rank)
{
	(void)rank;
	pthread_mutex_init(lock, NULL);
}

static inline void simhca_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr,
				      enum simhca_lock_rank rank)
{
	(void)rank;
	pthread_rwlock_init(lock, attr);
}

#endif

#endif
