/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the tests of completion callbacks share. */
#ifndef CALLBACKS_H
#define CALLBACKS_H

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "dv.h"

#define DIRECT SIMHCADV_POLL_DIRECT
#define SOFTIRQ SIMHCADV_POLL_SOFTIRQ
#define WORKQUEUE SIMHCADV_POLL_WORKQUEUE

#define EACH_CONTEXT(ctx)                                                                          \
	for (enum simhcadv_poll_context ctx = DIRECT; ctx <= WORKQUEUE;                            \
	     ctx = (enum simhcadv_poll_context)(ctx + 1))

#define SLOTS 1024
#define TIME_LIMIT 90 /* seconds; what takes longer hangs */

/* A QP that sends to itself, with all its completions on one CQ with callbacks. */
struct echo {
	struct ibv_pd *pd;
	enum simhcadv_poll_context poll_ctx;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* A work request, as a program has it. */
struct request {
	struct simhcadv_cqe cqe;
	atomic_long done; /* times */
	struct ibv_wc wc; /* the last one */
	void *arg;
};

static inline struct request *to_request(const struct ibv_wc *wc)
{
	return (struct request *)((char *)(uintptr_t)wc->wr_id - offsetof(struct request, cqe));
}

static inline void count(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct request *request = to_request(wc);

	(void)cq;
	request->wc = *wc;
	atomic_fetch_add(&request->done, 1);
}

static inline struct ibv_cq *new_cq_on(struct ibv_context *context, int vector,
				       enum simhcadv_poll_context poll_ctx)
{
	struct ibv_cq *cq = simhcadv_alloc_cq(context, NULL, 2 * SLOTS, vector, poll_ctx);

	CHECK(cq);
	return cq;
}

static inline struct ibv_qp *new_qp_on(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { SLOTS, SLOTS, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp);
	/* On a busy machine the device may have no CPU for as long as others wait for an answer. */
	start_qp_within(qp, qp->qp_num, 18, 7);
	return qp;
}

static inline struct echo new_echo_on(struct ibv_pd *pd, int vector,
				      enum simhcadv_poll_context poll_ctx)
{
	struct echo echo = { .pd = pd, .poll_ctx = poll_ctx };

	echo.cq = new_cq_on(pd->context, vector, poll_ctx);
	echo.qp = new_qp_on(pd, echo.cq);
	return echo;
}

/* A PD, and a device that is what the program was built for. */
static inline struct ibv_pd *new_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(open_device());

	CHECK(pd);
	CHECK(simhcadv_is_supported(pd->context->device));
	return pd;
}

static inline struct echo new_echo(enum simhcadv_poll_context poll_ctx)
{
	return new_echo_on(new_pd(), 0, poll_ctx);
}

/* ThreadSanitizer does not see that a completion comes after the post. */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *addr);
#define BEFORE_POST_OF(cqe) __tsan_release(cqe)
#else
#define BEFORE_POST_OF(cqe)
#endif

static inline uint64_t id_of(struct request *request)
{
	if (!request)
		return 0;
	BEFORE_POST_OF(&request->cqe);
	return (uintptr_t)&request->cqe;
}

static inline int try_recv(struct ibv_qp *qp, struct request *request)
{
	struct ibv_recv_wr wr = { .wr_id = id_of(request) }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static inline int try_send(struct ibv_qp *qp, struct request *request, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id_of(request),
				  .opcode = IBV_WR_SEND,
				  .send_flags = flags };

	return post_send(qp, &wr);
}

/* One message, which completes as `sent` and as `received`; NULL: a completion that is dropped. */
static inline void message(const struct echo *echo, struct request *sent, struct request *received)
{
	CHECK(!try_recv(echo->qp, received));
	CHECK(!try_send(echo->qp, sent, IBV_SEND_SIGNALED));
}

/* Lets others go on; polls the CQ if that is ours to do. */
static inline void go_round(const struct echo *echo)
{
	if (echo && echo->poll_ctx == DIRECT)
		CHECK(simhcadv_process_cq_direct(echo->cq, -1) >= 0);
	else
		usleep(50);
}

/* Until true. */
#define AWAIT_WITH(echo, condition)                                                                \
	do {                                                                                       \
		double end = now() + TIME_LIMIT;                                                   \
		while (!(condition)) {                                                             \
			CHECK(now() < end || !#condition);                                         \
			go_round(echo);                                                            \
		}                                                                                  \
	} while (0)

#define AWAIT(condition) AWAIT_WITH(NULL, condition)

static inline void wait_for(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TIME_LIMIT;
	while (sem_timedwait(sem, &end))
		CHECK(errno == EINTR);
}

/* The CQ works. */
static inline void works(const struct echo *echo)
{
	struct request sent = { .cqe = { count } }, received = { .cqe = { count } };

	message(echo, &sent, &received);
	AWAIT_WITH(echo, sent.done == 1 && received.done == 1);
	CHECK(sent.wc.status == IBV_WC_SUCCESS && sent.wc.opcode == IBV_WC_SEND);
	CHECK(received.wc.status == IBV_WC_SUCCESS && received.wc.opcode == IBV_WC_RECV);
}

static inline void free_echo(const struct echo *echo)
{
	CHECK(!ibv_destroy_qp(echo->qp));
	CHECK(!simhcadv_free_cq(echo->cq));
}

/*
 * How many threads of this process have names that begin so. One that has been joined may still be
 * seen for a moment: wait for the number.
 */
static inline int threads_named(const char *prefix)
{
	char path[64], name[32];
	struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	int number = 0;
	FILE *file;

	CHECK(tasks);
	while ((entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strncmp(name, prefix, strlen(prefix)))
			number++;
		fclose(file);
	}
	closedir(tasks);
	return number;
}

/*
 * AddressSanitizer and ThreadSanitizer of gcc 12 do not hold their own locks when another thread
 * forks: the child may hang in its first malloc().
 */
static inline bool has_sanitizer(void)
{
	return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");
}

static inline void start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
	CHECK(!pthread_create(thread, NULL, run, arg));
}

#endif
