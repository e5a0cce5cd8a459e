/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions that lie in files which cannot shrink, and that programs on the fast path have mapped: which
 * these are, who may map them, and that messages come out as the device's do.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/context.h"
#include "core/device.h"
#include "dma/dma.h"
#include "fastpath_ud.h"
#include "mapped_scene.h"
#include "memory/key.h"

#define PAGE 4096u

/* ------------------------------------------------------------------------- which they are */

static bool is_mappable(struct client *client, uint32_t key)
{
	return mpt_of(client, key)->file != 0;
}

static void which_regions_can_be_mapped(void **state)
{
	static const struct {
		int seals;
		bool can;
	} rows[] = {
		{ 0, false },
		{ F_SEAL_GROW, false },
		{ F_SEAL_SEAL, false },
		{ F_SEAL_SHRINK, true },
		{ F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, true },
	};
	struct client *client = client_new(*state, 0);
	const struct world_config slow = { 0 };
	struct simhca_reg_mr_reply reply;
	struct world *world;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(rows[i].can,
				 is_mappable(client,
					     mapped_mr(client, rows[i].seals, ALL_ACCESS)->rkey));
	/* A file with a name, which a file system of a size holds. */
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, PAGE));
	assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_false(is_mappable(client, reply.rkey));
	close(fd);
	/* Of huge pages, of which there may be none at all when the file is made. */
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd >= 0 && !ftruncate(fd, 2 << 20) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) &&
	    !mapped_reg_try(client, fd, 0, PAGE, SIMHCA_ACCESS_REMOTE_READ, &reply))
		assert_false(is_mappable(client, reply.rkey));
	if (fd >= 0)
		close(fd);
	/* Who registers it is not known. */
	fd = mapped_memfd(PAGE, F_SEAL_SHRINK);
	assert_int_equal(0, simhca_reg_dmabuf_mr(client->context, NULL, fd,
						 &(struct simhca_reg_dmabuf_mr_req){
							 .length = PAGE, .pd = client->pd },
						 &reply, NULL));
	assert_false(is_mappable(client, reply.rkey));
	/* Nobody would map it. */
	world = world_new(&slow);
	client = client_new(world, 0);
	assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_false(is_mappable(client, reply.rkey));
	world_free(world);
	close(fd);
}

/* If the operator wants it, whatever else lies in memory is mapped as well: but not what is moved there. */
static void which_may_fail(void **state)
{
	const struct world_config config = {
		.device = { .fast_path = true, .moves_memory = true, .kept_files = 8 }
	};
	static const struct {
		int seals;
		bool may_fail;
	} rows[] = { { 0, true }, { F_SEAL_GROW, true }, { F_SEAL_SHRINK, false } };
	struct world *world = world_new(&config);
	struct client *client = client_new(world, 0);
	struct simhca_reg_dmabuf_mr_req req = { .length = PAGE, .pd = client->pd };
	struct simhca_reg_mr_reply reply;
	struct mr *mr;
	int fd;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		mr = mapped_mr(client, rows[i].seals, ALL_ACCESS);
		assert_true(is_mappable(client, mr->rkey));
		assert_int_equal(rows[i].may_fail,
				 simhca_key_of(client->context->device, mr->rkey)->file.may_fail);
	}
	fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(0, ftruncate(fd, PAGE));
	for (req.is_there = 0; req.is_there <= 1; req.is_there++) {
		reply = (struct simhca_reg_mr_reply){ 0 };
		req.addr = req.iova = (uintptr_t)world_alloc(world, 2 * PAGE) / PAGE * PAGE + PAGE;
		assert_int_equal(0, simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req,
							 &reply, NULL));
		assert_int_equal(req.is_there, reply.moved);
		assert_int_equal(req.is_there, is_mappable(client, reply.rkey));
	}
	close(fd);
	/* What lies on a disk, or where a program of the client's answers, is no region at all. */
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(-EOPNOTSUPP,
			 mapped_reg_try(client, fd, 0, PAGE, SIMHCA_ACCESS_REMOTE_READ, &reply));
	close(fd);
	world_free(world);
}

/* A file that was shrunk before it was sealed: it is as long as it is. */
static void a_file_that_is_too_short(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	int fd = mapped_memfd(4 * PAGE, 0);

	assert_int_equal(0, ftruncate(fd, 2 * PAGE + 10));
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	assert_int_equal(-EINVAL, mapped_reg_try(client, fd, 0, 2 * PAGE + 11, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, mapped_reg_try(client, fd, 2 * PAGE, 11, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, mapped_reg_try(client, fd, 3 * PAGE, 1, ALL_ACCESS, &reply));
	assert_int_equal(0, mapped_reg_try(client, fd, PAGE, PAGE + 10, ALL_ACCESS, &reply));
	assert_true(is_mappable(client, reply.rkey));
	close(fd);
}

static int racing_fd = -1;

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
/* The client shrinks the file, and seals it, just before the device asks for its seals. */
int __wrap_fcntl(int fd, int command, ...)
{
	va_list more;
	long arg;

	va_start(more, command);
	arg = va_arg(more, long);
	va_end(more);
	if (fd == racing_fd && command == F_GET_SEALS && !__real_fcntl(fd, F_GET_SEALS, 0)) {
		static unsigned int asked;

		/* First it is asked what kind of file it is. */
		if (asked++) {
			assert_int_equal(0, ftruncate(fd, PAGE));
			assert_int_equal(0, __real_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
		}
	}
	return __real_fcntl(fd, command, arg);
}

static void a_file_that_shrinks_meanwhile(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	struct stat file;

	racing_fd = mapped_memfd(4 * PAGE, 0);
	assert_int_equal(0, mapped_reg_try(client, racing_fd, 0, 4 * PAGE, ALL_ACCESS, &reply));
	assert_int_equal(0, fstat(racing_fd, &file));
	assert_int_equal(PAGE, file.st_size);
	assert_false(is_mappable(client, reply.rkey));
	close(racing_fd);
	racing_fd = -1;
}

/*
 * A program that has a lease of its file is asked before anybody opens that, and has the time that the operator gives
 * (/proc/sys/fs/lease-break-time) to answer: the device does not wait for it.
 */
static void a_file_of_which_there_is_a_lease(void **state)
{
	struct client *client = client_new(*state, 0);
	const int fd = mapped_memfd(PAGE, F_SEAL_SHRINK);
	struct simhca_reg_mr_reply reply;
	struct sigaction before;
	char path[40];
	int lease;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	lease = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(lease >= 0);
	/* By which it is asked. */
	assert_int_equal(0,
			 sigaction(SIGIO, &(struct sigaction){ .sa_handler = SIG_IGN }, &before));
	assert_int_equal(0, fcntl(lease, F_SETLEASE, F_RDLCK));
	assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_false(is_mappable(client, reply.rkey));
	close(lease);
	assert_int_equal(0, sigaction(SIGIO, &before, NULL));
	assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_true(is_mappable(client, reply.rkey));
	close(fd);
}

/* The descriptors are the device's, and few: what is beyond is reached by the device. */
static void files_that_are_kept(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .kept_files = 4 } };
	struct world *world = world_new(&config);
	struct client *client = client_new(world, 0), *other = client_new(world, 0);
	int fd = mapped_memfd(PAGE, F_SEAL_SHRINK);
	struct simhca_reg_mr_reply reply[3];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS,
							   &reply[i]));
			assert_int_equal(i < 2, is_mappable(client, reply[i].rkey));
		}
		for (int i = 0; i < 3; i++)
			assert_int_equal(0,
					 simhca_dereg_mr(client->context, reply[i].handle, NULL));
	}
	assert_int_equal(0, mapped_reg_try(other, fd, 0, PAGE, ALL_ACCESS, &reply[0]));
	assert_true(is_mappable(other, reply[0].rkey));
	close(fd);
	world_free(world);
}

/* Half of one is one, for whoever comes first. */
static void one_file_that_is_kept(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .kept_files = 1 } };
	struct world *world = world_new(&config);
	struct client *client = client_new(world, 0), *other = client_new(world, 0);
	int fd = mapped_memfd(PAGE, F_SEAL_SHRINK);
	struct simhca_reg_mr_reply reply;

	assert_int_equal(0, mapped_reg_try(client, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_true(is_mappable(client, reply.rkey));
	assert_int_equal(0, mapped_reg_try(other, fd, 0, PAGE, ALL_ACCESS, &reply));
	assert_false(is_mappable(other, reply.rkey));
	close(fd);
	world_free(world);
}

/* ----------------------------------------------------------------------- who may map them */

static void who_may_map_them(void **state)
{
	const int seals = F_SEAL_SHRINK;
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct mr *of_a = mapped_mr(pair->a.client, seals, ALL_ACCESS);
	struct mr *of_b = mapped_mr(pair->b.client, seals, ALL_ACCESS);
	struct mr *to_read = mapped_mr(pair->b.client, seals, SIMHCA_ACCESS_REMOTE_READ);
	const uint32_t pd = pair->b.client->pd;
	struct simhca_map_region_reply reply;
	struct mr *other_pd, *others;
	_Atomic uint32_t *epoch;
	struct simhca_step step;
	struct simhca_mm *mm;
	int fd;

	/* One's own needs no peer. */
	assert_int_equal(0, mapped_try(&pair->a, NULL, of_a->lkey, true, &reply, &fd));
	assert_int_equal(-EPERM, mapped_try(&pair->a, NULL, of_b->lkey, true, &reply, &fd));
	/* Before the peer's memory was seen. */
	assert_int_equal(-ENOTCONN, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	step = fastpath_attach(&pair->a);
	assert_int_equal(0, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	assert_int_equal(MAPPED_OFFSET, reply.offset);
	assert_int_equal(MAPPED_BYTES, reply.length);
	assert_int_equal(mpt_of(pair->b.client, of_b->rkey)->file, reply.file);
	assert_int_equal(O_RDWR, fcntl(fd, F_GETFL) & O_ACCMODE);
	assert_int_equal(-EPERM, mapped_try(&pair->a, NULL, of_a->rkey, false, &reply, &fd));
	assert_int_equal(0, mapped_try(&pair->a, NULL, to_read->rkey, false, &reply, &fd));
	assert_int_equal(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE);
	/* Keys that are none: the provider may ask for the next region at once. */
	assert_int_equal(-ENOENT, mapped_try(&pair->a, NULL, of_b->rkey + 1, false, &reply, &fd));
	assert_int_equal(-ENOENT, mapped_try(&pair->a, NULL, 0, false, &reply, &fd));
	assert_int_equal(-ENOENT, mapped_try(&pair->a, NULL, UINT32_MAX, false, &reply, &fd));
	/* Ordinary regions, and the peer has not attached itself. */
	assert_int_equal(-EPERM, mapped_try(&pair->a, NULL, pair->b.mr->rkey, false, &reply, &fd));
	assert_int_equal(-ENOENT,
			 mapped_try(&pair->a, NULL, fast_mr_new(pair->b.client, pd, 9)->rkey, false,
				    &reply, &fd));
	assert_int_equal(-ENOTCONN, mapped_try(&pair->b, NULL, of_a->rkey, false, &reply, &fd));
	/* Of another PD of the peer's. */
	pair->b.client->pd = pd_new(pair->b.client);
	other_pd = mapped_mr(pair->b.client, seals, ALL_ACCESS);
	pair->b.client->pd = pd;
	assert_int_equal(-EPERM, mapped_try(&pair->a, NULL, other_pd->rkey, false, &reply, &fd));
	/* Of another process that has the peer's context. */
	mm = pair->b.client->mm;
	pair->b.client->mm = simhca_context_mm(pair->b.client->context, getppid());
	others = mapped_mr(pair->b.client, seals, ALL_ACCESS);
	pair->b.client->mm = mm;
	assert_true(is_mappable(pair->b.client, others->rkey));
	assert_int_equal(-EPERM, mapped_try(&pair->a, NULL, others->rkey, false, &reply, &fd));
	/* Another process that has the QP's context has proven nothing. */
	mm = pair->a.client->mm;
	pair->a.client->mm = simhca_context_mm(pair->a.client->context, getppid());
	assert_int_equal(-ENOTCONN, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	pair->a.client->mm = mm;
	/* While it is not attached. */
	epoch = &pair->a.client->context->device->qpcs[SIMHCA_QPN_SLOT(pair->a.qp->qpn)]
			 .fastpath_epoch;
	atomic_store(epoch, 0);
	assert_int_equal(-ENOTCONN, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	atomic_store(epoch, step.fastpath_epoch);
	assert_int_equal(0, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	/* No longer. */
	assert_int_equal(0, mr_gone(of_b));
	assert_int_equal(-ENOENT, mapped_try(&pair->a, NULL, of_b->rkey, false, &reply, &fd));
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_ERR));
	assert_int_equal(-ENOTCONN, mapped_try(&pair->a, NULL, to_read->rkey, false, &reply, &fd));
	fastpath_detach(&step);
}

/* ------------------------------------------------------------------------------- messages */

static const struct fastpath_work works[] = {
	{ "a write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 100, 1, false, false },
	{ "an empty write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 0, 1, false, false },
	{ "writes of two parts", SIMHCA_WR_RDMA_WRITE, 0, 3, 101, 2, false, false },
	{ "a list of writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 20, 333, 1, false, false },
	{ "a list of inline writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 10, 64, 1, false, true },
	{ "a long write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, MAPPED_BYTES - 19, 2, false, false },
	{ "writes with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 9000, 1, true, false },
	{ "a send", SIMHCA_WR_SEND, SIGNALED, 1, 100, 1, true, false },
	{ "short sends", SIMHCA_WR_SEND, SIGNALED, 3, 8, 1, true, false },
	{ "sends of two parts", SIMHCA_WR_SEND, SIGNALED, 3, 5001, 2, true, false },
	{ "inline", SIMHCA_WR_SEND, SIGNALED, 2, 64, 1, true, true },
	{ "a read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, 100, 1, false, false },
	{ "a long read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, MAPPED_BYTES - 21, 2, false, false },
};

static unsigned int calls; /* of what moves much at once, for a process that there is not */

ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *own, unsigned long num_own,
				 const struct iovec *there, unsigned long num_there,
				 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *own, unsigned long num_own,
				 const struct iovec *there, unsigned long num_there,
				 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *own, unsigned long num_own,
				 const struct iovec *there, unsigned long num_there,
				 unsigned long flags)
{
	calls += pid == -1;
	return __real_process_vm_writev(pid, own, num_own, there, num_there, flags);
}

/* Each work, with one end or both in files; all of it is the fast path's, once they are mapped. */
static void messages_of(struct world *world, enum ibv_qp_type type)
{
	enum { HERE_ONLY, THERE_ONLY, BOTH, PLACES };

	for (size_t w = 0; w < ARRAY_SIZE(works) * PLACES; w++) {
		const struct fastpath_work *work = &works[w / PLACES];
		const bool read = work->opcode == SIMHCA_WR_RDMA_READ;
		const uint32_t bytes = work->count * work->length;
		struct simhca_step_regions regions = { 0 };
		struct options options = fastpath_options();
		struct simhca_step step;
		struct pair *pair;
		bool needs;

		if (type != IBV_QPT_RC && read)
			continue;
		options.type = type;
		options.slot_data = true;
		options.buffer = MAPPED_BYTES;
		pair = fastpath_pair(world, &options);
		step = fastpath_attach(&pair->a);
		step.regions = &regions;
		if (w % PLACES != THERE_ONLY)
			pair->a.mr = mapped_mr(pair->a.client, F_SEAL_SHRINK, ALL_ACCESS);
		if (w % PLACES != HERE_ONLY)
			pair->b.mr = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
		/* What is mapped is reached without system calls. */
		if (w % PLACES != HERE_ONLY)
			mapped_forbid_calls(&step);
		needs = bytes && (!work->inlined || w % PLACES != HERE_ONLY);
		for (uint32_t round = 1; round < 3; round++) {
			struct simhca_cqe cqe;

			fill((read ? pair->b.mr : pair->a.mr)->addr, bytes, round);
			memset((read ? pair->a.mr : pair->b.mr)->addr, 0, bytes + 8);
			fastpath_put_work(pair, work);
			/* First it is not mapped, and the message is left as it is. */
			assert_int_equal(round == 1 && needs, !fastpath_run(&step));
			assert_int_equal(regions.wanted.key != 0, round == 1 && needs);
			assert_true(mapped_carry(&step, &pair->a));
			while (cq_poll(pair->a.send_cq, &cqe))
				assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
			for (uint32_t i = 0; work->receives && i < work->count; i++) {
				cqe = expect_(pair->b.recv_cq, 2000 + i, IBV_WC_SUCCESS, -1,
					      __FILE__, __LINE__);
				/* A poller finds nothing by an address of a file's region. */
				assert_false(cqe.in_slot && w % PLACES != HERE_ONLY);
				assert_int_not_equal(cqe.in_slot, SIMHCA_CQE_IN_WQE);
			}
			assert_true(filled((read ? pair->a.mr : pair->b.mr)->addr, bytes, round));
			assert_true(
				all_bytes((read ? pair->a.mr : pair->b.mr)->addr + bytes, 8, 0));
		}
		assert_int_equal(step.fastpath->messages, 2 * work->count);
		assert_true(!calls || w % PLACES == HERE_ONLY);
		run_until_idle(world);
		check_works(pair);
		fastpath_detach(&step);
	}
}

static void messages_of_rc(void **state)
{
	messages_of(*state, IBV_QPT_RC);
}

static void messages_of_uc(void **state)
{
	messages_of(*state, IBV_QPT_UC);
}

/* With a header in front of what is received. */
static void datagrams(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_step_regions regions = { 0 };
	struct simhca_sge into;

	step.regions = &regions;
	mapped_forbid_calls(&step);
	pair->a.mr = mapped_mr(pair->a.client, F_SEAL_SHRINK, ALL_ACCESS);
	pair->b.mr = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
	for (uint32_t i = 1; i < 5; i++) {
		into = sge(pair->b.mr, 0, 2000);
		fill(pair->a.mr->addr, 1001, i);
		side_recv(&pair->b, i, &into, 1);
		ud_send(&pair->a, 1001);
		assert_true(mapped_carry(&step, &pair->a));
		fastpath_completes(pair->a.send_cq);
		expect(pair->b.recv_cq, i, SUCCESS);
		assert_true(filled(pair->b.mr->addr + 40, 1001, i));
	}
	assert_int_equal(step.fastpath->messages, 4);
	fastpath_detach(&step);
}

/*
 * A poller copies short messages to where the receive was posted to. That of a region in a file means
 * nothing to it, not even if the program that sends has mapped the region at just that address.
 */
static void an_address_that_both_have(void **state)
{
	struct pair *pair = fastpath_rc_pair(*state, true);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_step_regions regions = { .count = 1 };
	uint8_t *at = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = mapped_memfd(PAGE, F_SEAL_SHRINK);
	const struct simhca_reg_dmabuf_mr_req req = { .length = PAGE,
						      .iova = (uintptr_t)at,
						      .pd = pair->b.client->pd,
						      .access = ALL_ACCESS };
	struct simhca_reg_mr_reply reply;
	struct simhca_sge into = { .addr = (uintptr_t)at, .length = PAGE };

	assert_int_equal(0, simhca_reg_dmabuf_mr(pair->b.client->context, pair->b.client->mm, fd,
						 &req, &reply, NULL));
	assert_ptr_equal(at, mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
	into.lkey = reply.lkey;
	regions.one[0].file = mpt_of(pair->b.client, reply.lkey)->file;
	regions.one[0].base = (char *)at;
	step.regions = &regions;
	run_until_idle(*state);
	side_recv(&pair->b, 1, &into, 1);
	fill(pair->a.mr->addr, 8, 5);
	fastpath_send(pair, 8);
	assert_true(fastpath_run(&step));
	assert_false(expect(pair->b.recv_cq, 1, SUCCESS).in_slot);
	assert_true(filled(at, 8, 5));
	munmap(at, PAGE);
	close(fd);
	fastpath_detach(&step);
}

/* Memory of the test's that was moved into a file. */
static struct mr *moved_mr(struct client *client)
{
	struct mr *mr = world_alloc(client->world, sizeof(*mr));
	int fd = mapped_memfd(MAPPED_BYTES, F_SEAL_SHRINK);
	uint8_t *addr = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const struct simhca_reg_dmabuf_mr_req req = { .length = MAPPED_BYTES,
						      .iova = (uintptr_t)addr,
						      .addr = (uintptr_t)addr,
						      .pd = client->pd,
						      .access = ALL_ACCESS };
	struct simhca_reg_mr_reply reply;

	assert_ptr_not_equal(addr, MAP_FAILED);
	assert_int_equal(0,
			 simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req, &reply, NULL));
	assert_true(reply.moved);
	close(fd);
	*mr = (struct mr){ .client = client,
			   .addr = addr,
			   .length = MAPPED_BYTES,
			   .iova = (uintptr_t)addr,
			   .handle = reply.handle,
			   .lkey = reply.lkey,
			   .rkey = reply.rkey };
	return mr;
}

/* What its process has as well needs no mapping of ours, but for atomics; of another process it has to be its own. */
static void moved_memory_that_is_not_mapped(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_step_regions regions = { 0 };
	struct simhca_mpt *mpt;
	uint64_t handed;

	step.regions = &regions;
	pair->a.mr = moved_mr(pair->a.client);
	pair->b.mr = moved_mr(pair->b.client);
	fill(pair->a.mr->addr, 1000, 1);
	fastpath_write(pair, 1000, pair->b.mr);
	assert_true(fastpath_run(&step));
	fastpath_completes(pair->a.send_cq);
	assert_true(filled(pair->b.mr->addr, 1000, 1));
	assert_int_equal(0, regions.count);
	assert_int_equal(pair->b.mr->rkey, regions.wanted.key);
	fastpath_put_fetch_and_add(&pair->a, pair->b.mr);
	assert_false(fastpath_run(&step));
	assert_int_equal(1, step.fastpath->handed[SIMHCA_SLOW_MEMORY]);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	/* The same in memory that is mapped. */
	fastpath_write(pair, 500, pair->b.mr);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	regions.count = 0;
	mpt = (struct simhca_mpt *)(uintptr_t)mpt_of(pair->b.client, pair->b.mr->rkey);
	mpt->home += SIMHCA_MM_SLOTS;
	handed = step.fastpath->handed[SIMHCA_SLOW_MEMORY];
	fastpath_write(pair, 500, pair->b.mr);
	assert_false(fastpath_run(&step));
	assert_int_equal(handed + 1, step.fastpath->handed[SIMHCA_SLOW_MEMORY]);
	mpt->home -= SIMHCA_MM_SLOTS;
	fastpath_detach(&step);
}

/* ------------------------------------------------------------------------------ the order */

/* What is looked at before each store of a step. */
static struct {
	const uint8_t *to;
	uint32_t bytes, last, seed;
	unsigned int body_alone;
} order;

/* The last word is the old one until all the other bytes are the new ones, and then new as a whole. */
static void look_at_order(void)
{
	const uint32_t body = order.bytes - order.last;
	bool there = filled(order.to, body, order.seed);
	bool old = all_bytes(order.to + body, order.last, 0);

	assert_true(old || (there && filled(order.to, order.bytes, order.seed)));
	order.body_alone += body && old && there;
}

static void the_last_word_comes_last(void **state)
{
	static const uint32_t lengths[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 100, 4096, 9001 };
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_step_regions regions = { 0 };
	struct mr *file = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS), *own = pair->a.mr;

	step.regions = &regions;
	fastpath_write(pair, 1, file);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	for (size_t i = 0; i < ARRAY_SIZE(lengths) * 16; i++) {
		const bool read = i & 8;
		const uint32_t bytes = lengths[i / 16], at = i & 7;
		uint8_t *to = (read ? own : file)->addr + at;
		const uint32_t part = ((uintptr_t)to + bytes) % 8;
		struct simhca_sge sges = sge(own, at, bytes);

		fill((read ? file : own)->addr + at, bytes, (uint32_t)i + 1);
		memset(to, 0, bytes);
		order.to = to;
		order.bytes = bytes;
		order.last = part ? part : 8;
		order.last = order.last < bytes ? order.last : bytes;
		order.seed = (uint32_t)i + 1;
		order.body_alone = 0;
		qp_put(pair->a.qp,
		       &(struct wr){ .opcode = read ? SIMHCA_WR_RDMA_READ : SIMHCA_WR_RDMA_WRITE,
				     .flags = SIGNALED,
				     .sges = &sges,
				     .num_sge = 1,
				     .remote_addr = file->iova + at,
				     .rkey = file->rkey });
		fastpath_at_store = look_at_order;
		assert_true(fastpath_run(&step));
		fastpath_at_store = NULL;
		assert_true(filled(to, bytes, (uint32_t)i + 1));
		assert_int_equal(bytes > order.last, order.body_alone);
		fastpath_completes(pair->a.send_cq);
	}
	fastpath_detach(&step);
}

/* ----------------------------------------------------------------------- what is refused */

/* A region is gone, and its key is that of another file: what is mapped of the old one is not it. */
static void a_key_that_is_used_anew(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_device *device = pair->b.client->context->device;
	struct simhca_step_regions regions = { 0 };
	struct mr *first = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS), *second;

	step.regions = &regions;
	memset(pair->a.mr->addr, 7, 100);
	fastpath_write(pair, 100, first);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	assert_true(all_bytes(first->addr, 100, 7));
	assert_int_equal(0, mr_gone(first));
	/* The last variant of 256 before the same one comes round. */
	device->next_key_index = SIMHCA_KEY_INDEX(first->rkey);
	atomic_fetch_sub((_Atomic uint32_t *)&mpt_of(pair->b.client, first->rkey)->key, 1);
	second = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
	assert_int_equal(first->rkey, second->rkey);
	memset(pair->a.mr->addr, 8, 100);
	fastpath_write(pair, 100, second);
	assert_false(fastpath_run(&step));
	assert_int_equal(second->rkey, regions.wanted.key);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	assert_int_equal(2, regions.count);
	assert_true(all_bytes(second->addr, 100, 8));
	assert_true(all_bytes(first->addr, 100, 7));
	/* With no other region there, the key grants nothing. */
	assert_int_equal(0, mr_gone(second));
	fastpath_write(pair, 100, second);
	assert_false(mapped_carry(&step, &pair->a));
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect_why(pair->a.send_cq, 0, REM_ACCESS_ERR, KEY_UNKNOWN);
	fastpath_detach(&step);
}

/* Rights, ranges and PDs are asked for as of any region, whatever is mapped. */
static void what_a_region_does_not_grant(void **state)
{
	enum { RIGHT, BELOW, BEYOND, OTHER_PD, NOT_MAPPED, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct simhca_step_regions regions = { 0 };
		struct simhca_step step;
		struct pair *pair;
		struct mr *mr;

		fastpath_setup(state);
		pair = fastpath_pair_of(*state, IBV_QPT_RC);
		mr = mapped_mr(pair->b.client, F_SEAL_SHRINK,
			       way == RIGHT ? SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_READ
					    : ALL_ACCESS);
		step = fastpath_attach(&pair->a);
		step.regions = way == NOT_MAPPED ? NULL : &regions;
		if (way == OTHER_PD)
			atomic_store((_Atomic uint32_t *)&mpt_of(pair->b.client, mr->rkey)->pd,
				     pair->b.client->pd + 1);
		/* As if it had been mapped. */
		regions.count = 1;
		regions.one[0].file = mpt_of(pair->b.client, mr->rkey)->file;
		regions.one[0].base = (char *)mr->addr;
		mr->iova += way == BEYOND ? MAPPED_BYTES - 99 : way == BELOW ? -1ull : 0;
		memset(pair->a.mr->addr, 7, 100);
		fastpath_write(pair, 100, mr);
		assert_false(fastpath_run(&step));
		assert_int_equal(1, step.fastpath->handed[SIMHCA_SLOW_MEMORY]);
		assert_true(all_bytes(mr->addr, 100, 0) &&
			    all_bytes(mr->addr + MAPPED_BYTES - 99, 100, 0));
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		if (way == NOT_MAPPED)
			expect(pair->a.send_cq, 0, SUCCESS);
		else
			expect(pair->a.send_cq, 0, REM_ACCESS_ERR);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* A receive of which a part lies in a file, and a part does not, is the device's. */
static void a_receive_in_both(void **state)
{
	for (int first = 0; first < 2; first++) {
		struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
		struct mr *file = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
		struct mr *parts[2] = { first ? pair->b.mr : file, first ? file : pair->b.mr };
		struct simhca_step step = fastpath_attach(&pair->a);
		struct simhca_step_regions regions = { 0 };
		struct simhca_sge into[2] = { sge(parts[0], 0, 50), sge(parts[1], 50, 50) };

		step.regions = &regions;
		fill(pair->a.mr->addr, 100, 3);
		side_recv(&pair->b, 1, into, 2);
		fastpath_send(pair, 100);
		assert_false(mapped_carry(&step, &pair->a));
		assert_int_equal(0, step.fastpath->messages);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		fastpath_completes(pair->a.send_cq);
		expect(pair->b.recv_cq, 1, SUCCESS);
		memcpy(parts[0]->addr + 50, parts[1]->addr + 50, 50);
		assert_true(filled(parts[0]->addr, 100, 3));
		fastpath_detach(&step);
	}
}

/* Long messages from memory that the program has unmapped: no signal, but the device's to report. */
static void own_memory_that_is_gone(void **state)
{
	enum { UNMAPPED, NO_ACCESS, READ_ONLY, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
		struct client *client = pair->a.client;
		struct mr *file = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
		struct simhca_step step = fastpath_attach(&pair->a);
		struct simhca_step_regions regions = { 0 };
		struct simhca_sge part;
		uint8_t *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_ptr_not_equal(memory, MAP_FAILED);
		pair->a.mr = mr_over(client, client->pd, memory, 4 * PAGE, (uintptr_t)memory,
				     ALL_ACCESS);
		step.regions = &regions;
		fastpath_write(pair, 4 * PAGE, file);
		assert_true(mapped_carry(&step, &pair->a));
		if (way == UNMAPPED)
			assert_int_equal(0, munmap(memory + 2 * PAGE, PAGE));
		else
			assert_int_equal(0, mprotect(memory + 2 * PAGE, PAGE,
						     way == READ_ONLY ? PROT_READ : PROT_NONE));
		part = sge(pair->a.mr, PAGE, 2 * PAGE);
		qp_put(pair->a.qp, &(struct wr){ .opcode = way == READ_ONLY ? SIMHCA_WR_RDMA_READ
									    : SIMHCA_WR_RDMA_WRITE,
						 .sges = &part,
						 .num_sge = 1,
						 .remote_addr = file->iova,
						 .rkey = file->rkey });
		assert_false(fastpath_run(&step));
		assert_int_equal(1, step.fastpath->handed[SIMHCA_SLOW_COPY]);
		assert_int_equal(1, step.fastpath->messages);
		fastpath_detach(&step);
	}
}

/* ---------------------------------------------------------------------------------- ends */

/*
 * A program that ends at each store of a step: what it had begun to write is there or not, and the
 * peer's queues are as if it had not, or had.
 */
static void killed_at_each_store(void **state)
{
	static const struct fastpath_work once[] = {
		{ "writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 2, 100, 1, false, false },
		{ "long writes with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 9000, 1, true,
		  false },
		{ "sends", SIMHCA_WR_SEND, SIGNALED, 3, 5000, 2, true, false },
	};

	for (size_t w = 0; w < ARRAY_SIZE(once); w++) {
		const struct fastpath_work *work = &once[w];
		bool killed = true;
		unsigned int store;

		for (store = 1; killed; store += STORE_STEP) {
			struct simhca_step_regions regions = { 0 };
			uint32_t arrived = 0, flushed = 0;
			struct simhca_step step;
			struct simhca_cqe cqe;
			struct pair *pair;

			assert_true(store < MOST_STORES);
			fastpath_setup(state);
			pair = fastpath_rc_pair(*state, false);
			pair->b.mr = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
			step = fastpath_attach(&pair->a);
			step.regions = &regions;
			regions.wanted.key = pair->b.mr->rkey;
			mapped_map_wanted(&step, &pair->a);
			fill(pair->a.mr->addr, work->count * work->length, store);
			fastpath_put_work(pair, work);
			killed = fastpath_killed_at(&step, store);
			client_gone(pair->a.client);
			assert_int_equal(pair->b.qp->state->resp_owner.holder, 0);
			/* Nobody is waited for. */
			assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
			run_until_idle(*state);
			while (fastpath_next_cqe(pair->b.recv_cq, &cqe)) {
				assert_int_equal(cqe.wr_id, 2000 + arrived + flushed);
				if (cqe.status)
					flushed++;
				else
					arrived++;
				assert_true(cqe.status || !flushed);
			}
			assert_int_equal(arrived + flushed, work->receives ? work->count : 0);
			assert_true(filled(pair->b.mr->addr, arrived * work->length, store));
			if (!killed)
				assert_true(filled(pair->b.mr->addr, work->count * work->length,
						   store));
			assert_int_equal(0, mr_gone(pair->b.mr));
			fastpath_detach(&step);
			teardown(state);
		}
		print_message("%s: about %u stores\n", work->name, store);
		assert_true(store > 10);
	}
}

/* A region is not deregistered while a step that may be in it is under way. */
static void a_step_is_waited_for(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct mr *file = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
	struct simhca_step step = fastpath_attach(&pair->a);

	atomic_store(&step.fastpath->guard, 1);
	assert_int_equal(-EAGAIN, simhca_dereg_mr(pair->b.client->context, file->handle, NULL));
	atomic_store(&step.fastpath->guard, 2);
	assert_int_equal(0, simhca_dereg_mr(pair->b.client->context, file->handle, NULL));
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(which_regions_can_be_mapped),
		cmocka_unit_test(which_may_fail),
		HERE(a_file_that_is_too_short),
		HERE(a_file_that_shrinks_meanwhile),
		HERE(a_file_of_which_there_is_a_lease),
		cmocka_unit_test(files_that_are_kept),
		cmocka_unit_test(one_file_that_is_kept),
		HERE(who_may_map_them),
		HERE(messages_of_rc),
		HERE(messages_of_uc),
		HERE(datagrams),
		HERE(an_address_that_both_have),
		HERE(moved_memory_that_is_not_mapped),
		HERE(the_last_word_comes_last),
		HERE(a_key_that_is_used_anew),
		cmocka_unit_test(what_a_region_does_not_grant),
		HERE(a_receive_in_both),
		HERE(own_memory_that_is_gone),
		cmocka_unit_test(killed_at_each_store),
		HERE(a_step_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
