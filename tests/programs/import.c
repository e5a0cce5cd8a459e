/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Importing devices, PDs, MRs and DM. "here": in one process, in every order of going; "there": the
 * second process is another program, which gets a descriptor and handles and nothing else.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include "helper.h"

#define BYTES 8192u

static struct ibv_context *import_device(struct ibv_context *context)
{
	int fd = dup(context->cmd_fd);
	struct ibv_context *imported;

	CHECK(fd >= 0);
	imported = ibv_import_device(fd);
	CHECK(imported);
	return imported;
}

static void write_to(struct ibv_qp *qp, struct ibv_sge *from, uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 7,
		.sg_list = from,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to, .rkey = rkey },
	};

	CHECK(!post_send(qp, &wr));
}

static bool silent(struct ibv_context *context)
{
	struct pollfd pfd = { .fd = context->async_fd, .events = POLLIN };

	return poll(&pfd, 1, 100) == 0;
}

/* Its send queue drains, which it tells its own context and nobody else's. */
static void raise_event(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct pollfd pfd = { .fd = qp->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(poll(&pfd, 1, 20000) == 1);
	CHECK(!ibv_get_async_event(qp->context, &event));
	CHECK(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == qp);
	ibv_ack_async_event(&event);
}

/* ------------------------------------------------------------------------- one process */

static void pds_and_qps(struct ibv_context *context, struct ibv_context *imported)
{
	struct ibv_pd *pd = ibv_alloc_pd(context), *same = ibv_import_pd(imported, pd->handle);
	struct ibv_cq *cq = ibv_create_cq(imported, 16, NULL, NULL, 0);
	char *memory = aligned_alloc(4096, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, FULL_ACCESS), *other;
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 4 };
	struct ibv_qp *qp;

	CHECK(pd && same && cq && mr && same->context == imported);
	other = ibv_import_mr(same, mr->handle);
	CHECK(other && other->lkey == mr->lkey && other->rkey == mr->rkey);
	CHECK(!other->addr && other->length == BYTES && other->pd == same);
	qp = make_qp(same, cq, IBV_QPT_RC);
	start_qp(qp, qp->qp_num);

	/* The PD goes first, as far as the program is concerned, and the QP never asks for it. */
	ibv_unimport_pd(same);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	memcpy(memory, "abcd", 5);
	sge.lkey = other->lkey;
	write_to(qp, &sge, (uintptr_t)memory + 100, other->rkey);
	poll_success(cq);
	CHECK(!memcmp(memory + 100, "abcd", 4));
	raise_event(qp);
	CHECK(silent(context));

	/* The region ends with its owner's; the other name for it is worth nothing then. */
	CHECK(!ibv_destroy_qp(qp));
	same = ibv_import_pd(imported, pd->handle);
	qp = make_qp(same, cq, IBV_QPT_RC);
	start_qp(qp, qp->qp_num);
	CHECK(!ibv_dereg_mr(mr));
	write_to(qp, &sge, (uintptr_t)memory + 100, other->rkey);
	CHECK(poll_one(cq).status == IBV_WC_LOC_PROT_ERR);
	ibv_unimport_mr(other);
	ibv_unimport_pd(same);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(pd));
	free(memory);
}

static void wrong_handles(struct ibv_context *context, struct ibv_context *imported)
{
	struct ibv_context *stranger = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context), *theirs = ibv_alloc_pd(stranger);
	char byte;
	struct ibv_mr *mr = ibv_reg_mr(pd, &byte, 1, 0);
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	uint32_t handle = pd->handle;

	CHECK(pd && theirs && mr && dm);
	errno = 0;
	CHECK(!ibv_import_pd(imported, 12345) && errno == ENOENT);
	errno = 0;
	CHECK(!ibv_import_dm(imported, 12345) && errno == ENOENT);
	errno = 0;
	CHECK(!ibv_import_mr(pd, 12345) && errno == ENOENT);
	/* Handles of one connection open nothing on another. */
	errno = 0;
	CHECK(!ibv_import_mr(theirs, mr->handle) && errno == ENOENT);
	errno = 0;
	CHECK(!ibv_import_dm(stranger, dm->handle) && errno == ENOENT);
	/* What has gone is not imported any more. */
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	errno = 0;
	CHECK(!ibv_import_pd(imported, handle) && errno == ENOENT);
	CHECK(!ibv_free_dm(dm) && !ibv_dealloc_pd(theirs));
	CHECK(!ibv_close_device(stranger));
}

static void device_memory(struct ibv_context *context, struct ibv_context *imported)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *same;
	struct ibv_pd *pd = ibv_alloc_pd(imported);
	struct ibv_mr *mr;
	uint32_t word = 0;

	CHECK(dm && pd);
	same = ibv_import_dm(imported, dm->handle);
	CHECK(same && same->handle == dm->handle);
	CHECK(!ibv_memcpy_to_dm(dm, 8, "mine", 4));
	CHECK(!ibv_memcpy_from_dm(&word, same, 8, 4) && !memcmp(&word, "mine", 4));
	/* A region made by the import's name counts as any other. */
	mr = ibv_reg_dm_mr(pd, same, 0, 4096, FULL_ACCESS | IBV_ACCESS_ZERO_BASED);
	CHECK(mr);
	CHECK(ibv_free_dm(dm) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));
	/* The owner frees it: the bytes stay for who has them mapped, and nothing is registered. */
	CHECK(!ibv_free_dm(dm));
	CHECK(!ibv_memcpy_from_dm(&word, same, 8, 4) && !memcmp(&word, "mine", 4));
	CHECK(!ibv_memcpy_to_dm(same, 8, "free", 4));
	errno = 0;
	mr = ibv_reg_dm_mr(pd, same, 0, 4096, FULL_ACCESS | IBV_ACCESS_ZERO_BASED);
	CHECK(!mr && errno == ENOENT);
	ibv_unimport_dm(same);
	CHECK(!ibv_dealloc_pd(pd));
}

/* The first context closes; what was made on the connection lives on with the second. */
static void the_first_goes(void)
{
	struct ibv_context *context = open_device(), *imported = import_device(context);
	struct ibv_pd *pd = ibv_alloc_pd(context), *same = ibv_import_pd(imported, pd->handle);
	struct ibv_cq *cq = ibv_create_cq(imported, 16, NULL, NULL, 0);
	char *memory = aligned_alloc(4096, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, FULL_ACCESS);
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 4 };
	struct ibv_qp *qp = make_qp(same, cq, IBV_QPT_RC);

	start_qp(qp, qp->qp_num);
	sge.lkey = mr->lkey;
	memcpy(memory, "last", 4);
	CHECK(!ibv_close_device(context));
	write_to(qp, &sge, (uintptr_t)memory + 8, sge.lkey);
	poll_success(cq);
	CHECK(!memcmp(memory + 8, "last", 4));
	raise_event(qp);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	CHECK(!ibv_close_device(imported));
}

static void here(void)
{
	for (int i = 0; i < 3; i++) {
		struct ibv_context *context = open_device(), *imported = import_device(context);

		CHECK(imported->async_fd != context->async_fd);
		pds_and_qps(context, imported);
		wrong_handles(context, imported);
		device_memory(context, imported);
		CHECK(!ibv_close_device(imported));
		CHECK(!ibv_close_device(context));
		the_first_goes();
	}
	/* What is no device of ours. */
	errno = 0;
	CHECK(!ibv_import_device(dup(0)) && errno);
}

/* ----------------------------------------------------------------------- two processes */

struct letter {
	uint32_t pd, mr, dm, qpn, rkey;
	uint64_t memory, target;
};

static void send_fd(int socket, int fd, const struct letter *letter)
{
	struct iovec iov = { (void *)letter, sizeof(*letter) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	CHECK(sendmsg(socket, &msg, 0) == sizeof(*letter));
}

static int receive_fd(int socket, struct letter *letter)
{
	struct iovec iov = { letter, sizeof(*letter) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	int fd;

	CHECK(recvmsg(socket, &msg, 0) == sizeof(*letter));
	CHECK(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* To memory that only the first one has: a small message is put there as a long one is. */
static void receive(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t addr)
{
	struct ibv_sge sge = { .addr = addr, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

/* The other program: it writes from the first one's memory, which it could not read itself. */
static void importer(int socket)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct letter letter;
	struct ibv_sge sge = { .length = 16 };
	int fd = receive_fd(socket, &letter);

	context = ibv_import_device(fd);
	CHECK(context);
	pd = ibv_import_pd(context, letter.pd);
	mr = ibv_import_mr(pd, letter.mr);
	dm = ibv_import_dm(context, letter.dm);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && mr && dm && cq);
	CHECK(!ibv_memcpy_to_dm(dm, 0, "from the other..", 16));
	qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(send(socket, &qp->qp_num, sizeof(qp->qp_num), 0) == sizeof(qp->qp_num));
	start_qp(qp, letter.qpn);
	CHECK(recv(socket, &letter, 1, 0) == 1); /* the other end is in RTS */

	sge.addr = letter.memory;
	sge.lkey = mr->lkey;
	write_to(qp, &sge, letter.target, letter.rkey);
	poll_success(cq);
	raise_event(qp);
	receive(qp, mr, letter.memory + 4096);
	CHECK(send(socket, "!", 1, 0) == 1);
	CHECK(recv(socket, &letter, 1, 0) == 1); /* it has looked, and sent */
	CHECK(poll_success(cq).wr_id == 9);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	ibv_unimport_mr(mr);
	ibv_unimport_dm(dm);
	ibv_unimport_pd(pd);
	CHECK(!ibv_close_device(context));
}

static void send_from(struct ibv_qp *qp, struct ibv_mr *mr, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = length, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	CHECK(!post_send(qp, &wr));
}

static void there(char *program)
{
	struct ibv_context *context = open_device(), *peer = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context), *peer_pd = ibv_alloc_pd(peer);
	struct ibv_cq *cq = ibv_create_cq(peer, 16, NULL, NULL, 0);
	char *memory = aligned_alloc(4096, BYTES), *target = aligned_alloc(4096, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, FULL_ACCESS);
	struct ibv_mr *target_mr = ibv_reg_mr(peer_pd, target, BYTES, FULL_ACCESS);
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct ibv_qp *qp = make_qp(peer_pd, cq, IBV_QPT_RC);
	struct letter letter = { .pd = pd->handle,
				 .mr = mr->handle,
				 .dm = dm->handle,
				 .qpn = qp->qp_num,
				 .rkey = target_mr->rkey,
				 .memory = (uintptr_t)memory,
				 .target = (uintptr_t)target };
	char number[16], word[16];
	int pair[2], status;
	uint32_t qpn;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		snprintf(number, sizeof(number), "%d", dup(pair[1]));
		execl("/proc/self/exe", program, "importer", number, NULL);
		_exit(127);
	}
	close(pair[1]);
	memcpy(memory, "the first's own.", 16);
	send_fd(pair[0], context->cmd_fd, &letter);
	CHECK(recv(pair[0], &qpn, sizeof(qpn), 0) == sizeof(qpn));
	start_qp(qp, qpn);
	CHECK(send(pair[0], "!", 1, 0) == 1);
	CHECK(recv(pair[0], word, 1, 0) == 1);
	CHECK(!memcmp(target, "the first's own.", 16));
	CHECK(!ibv_memcpy_from_dm(word, dm, 0, 16) && !memcmp(word, "from the other..", 16));
	/* The other program's QP is no element of ours: its event must not come here. */
	CHECK(silent(context));
	send_from(qp, target_mr, 16);
	poll_success(cq);
	CHECK(send(pair[0], "!", 1, 0) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!memcmp(memory + 4096, "the first's own.", 16));

	/* Nothing is left of it that would hold what is ours. */
	CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(target_mr) && !ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(peer_pd));
	CHECK(!ibv_close_device(context) && !ibv_close_device(peer));
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	if (!strcmp(argv[1], "here"))
		here();
	else if (!strcmp(argv[1], "there"))
		there(argv[0]);
	else
		importer(atoi(argv[2]));
	return 0;
}
