/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Page faults of XRC_RECV QPs, which belong to no engine. The program provides the system call by
 * which a step looks for pages, and the lock by which a QP's last step is waited for.
 */
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "midway.h"
#include "paging.h"
#include "proto/qp.h"
#include "xrc.h"

static bool step_waits; /* in the next pread() */
static sem_t step_is_there, step_goes_on;

ssize_t pread(int fd, void *buf, size_t count, off_t offset)
{
	if (step_waits) {
		step_waits = false;
		sem_post(&step_is_there);
		sem_wait(&step_goes_on);
	}
	return syscall(SYS_pread64, fd, buf, count, offset);
}

/* What pread() is called in a fortified build, as packages are. */
ssize_t __pread_chk(int fd, void *buf, size_t count, off_t offset, size_t room);

ssize_t __pread_chk(int fd, void *buf, size_t count, off_t offset, size_t room)
{
	return pread(fd, buf, count, offset);
}

static void (*before_lock)(void);

/* The linker calls these so. */
int __real_simhca_qp_begin_both(struct simhca_qp *qp, bool patient);
int __wrap_simhca_qp_begin_both(struct simhca_qp *qp, bool patient);

int __wrap_simhca_qp_begin_both(struct simhca_qp *qp, bool patient)
{
	void (*happens)(void) = before_lock;

	before_lock = NULL;
	if (happens)
		happens();
	return __real_simhca_qp_begin_both(qp, patient);
}

/* A target QP with an SRQ, and who writes to its memory. */
struct scene {
	struct world *world;
	struct client *server, *client;
	struct qp *target, *qp;
	struct cq *cq;
	struct srq *srq;
	struct mr *from, *to; /* both on demand; of what is written the pages are there */
};

static struct scene *make(struct world *world)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s = world_alloc(world, sizeof(*s));
	struct prefetch prefetch;
	uint32_t xrcd;

	options.access = ALL_ACCESS;
	s->world = world;
	s->server = client_new(world, 1);
	s->client = client_new(world, 0);
	xrcd = xrcd_open(s->server, -1);
	s->target = target_new(s->server, xrcd);
	s->srq = xrc_srq_new(s->server, xrcd, cq_new(s->server, 16), 16);
	s->cq = cq_new(s->client, 16);
	s->to = on_demand(s->server, pages(2), 2 * PAGE, ODP);
	s->from = on_demand(s->client, pages(2), 2 * PAGE, ODP);
	prefetch = (struct prefetch){ .mr = s->from };
	assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	page_in(world);

	options.type = IBV_QPT_XRC_SEND;
	s->qp = qp_new(s->client, &options, s->cq, s->cq, NULL);
	qp_connect(s->qp, 1, s->target->qpn, &options);
	options.type = IBV_QPT_XRC_RECV;
	qp_connect(s->target, 0, s->qp->qpn, &options);
	return s;
}

static void write_to(struct scene *s)
{
	qp_post(s->qp, &(struct wr){ .id = 1,
				     .opcode = SIMHCA_WR_RDMA_WRITE,
				     .flags = SIMHCA_WQE_SIGNALED,
				     SGES(sge(s->from, 0, 100)),
				     .remote_addr = s->to->iova,
				     .rkey = s->to->rkey,
				     .srqn = s->srq->srqn });
}

static int close_target(struct scene *s)
{
	return simhca_destroy_qp(s->server->context, s->target->handle, NULL);
}

static pthread_t step;

static void *take_step(void *arg)
{
	rounds(arg, 4);
	return NULL;
}

static void the_step_ends(void)
{
	sem_post(&step_goes_on);
	pthread_join(step, NULL);
}

/*
 * A step that has found the QP raises a fault when the QP is about to go, and ends: that is its
 * last fault, and it goes with the QP.
 */
static void the_last_step_faults(void **state)
{
	struct scene *s;

	if (((struct world *)*state)->tick)
		skip(); /* what is sent is looked at before a queue has it, and so finds no target
			 */
	s = make(*state);
	sem_init(&step_is_there, 0, 0);
	sem_init(&step_goes_on, 0, 0);
	write_to(s);
	step_waits = true;
	assert_int_equal(0, pthread_create(&step, NULL, take_step, s->world));
	sem_wait(&step_is_there);
	before_lock = the_step_ends;
	assert_int_equal(0, close_target(s));
	assert_null(before_lock);
	assert_int_equal(counters(s->to).faults, 1);
	assert_false(poll_fault(s->world));
	assert_int_equal(present(s->to), 0);
	assert_int_equal(0, mr_gone(s->to));
}

static void it_may_not_go(void *arg)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(-EAGAIN, close_target(arg));
}

/* It waits for a fault that is being resolved. */
static void a_target_waits_for_its_fault(void **state)
{
	struct scene *s = make(*state);

	write_to(s);
	run_until_idle(s->world);
	in_the_middle(it_may_not_go, s);
	assert_true(poll_fault(s->world));
	assert_int_equal(0, patiently(close_target(s)));
	assert_false(poll_fault(s->world));
	assert_int_equal(present(s->to), 1);
}

/* Nor is one left behind that nobody has begun with. */
static void a_target_takes_its_fault_back(void **state)
{
	struct scene *s = make(*state);

	write_to(s);
	run_until_idle(s->world);
	assert_int_equal(counters(s->to).faults, 1);
	assert_int_equal(0, close_target(s));
	assert_false(poll_fault(s->world));
	assert_int_equal(present(s->to), 0);
}

/* As long as it is there it resumes like any other. */
static void a_targets_fault_is_resolved(void **state)
{
	struct scene *s = make(*state);

	fill(s->from->addr, 100, 1);
	write_to(s);
	page_in(s->world);
	expect(s->cq, 1, SUCCESS);
	assert_true(filled(s->to->addr, 100, 1));
	assert_int_equal(counters(s->to).faults, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(the_last_step_faults),
		ON_ETHERNET(a_target_waits_for_its_fault),
		ON_ETHERNET(a_target_takes_its_fault_back),
		ON_ETHERNET(a_targets_fault_is_resolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
