/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC as libibverbs has it, in one process or in several. xrc TEST, one of those in main(); a child
 * process talks to its parent through a socket, and ends with it.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "xrc.h"

#define LENGTH 4096u
#define DEPTH 16

static int new_file(void)
{
	char path[] = "/tmp/simhca-test-xrc-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && !unlink(path));
	return fd;
}

static struct ibv_qp *open_target(struct ibv_context *context, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_CONTEXT | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = &attr,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp = ibv_open_qp(context, &attr);

	CHECK(!qp || qp->qp_context == &attr);
	return qp;
}

/* No CQ for receives: there are none. */
static struct ibv_qp *new_initiator(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = { .max_send_wr = 64, .max_send_sge = 1, .max_inline_data = 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(pd->context, &attr);

	CHECK(qp);
	return qp;
}

static int post_srq(struct ibv_srq *srq, uint64_t wr_id, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = LENGTH, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number;

	CHECK(!ibv_get_srq_num(srq, &number));
	return number;
}

/* By either interface. */
static void send_to(struct ibv_qp *qp, uint32_t srqn, struct ibv_mr *mr, uint32_t value, bool ex)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 4, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = value,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = srqn,
	};

	*(uint32_t *)mr->addr = value;
	if (!ex) {
		CHECK(!post_send(qp, &wr));
		return;
	}
	ibv_wr_start(qpx);
	qpx->wr_id = value;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_xrc_srqn(qpx, srqn);
	ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)mr->addr, 4);
	CHECK(!ibv_wr_complete(qpx));
}

/* One process with everything. */
struct all {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
};

static struct all open_all(int fd)
{
	struct all all = { .context = open_device() };

	all.pd = ibv_alloc_pd(all.context);
	all.cq = ibv_create_cq(all.context, 256, NULL, NULL, 0);
	CHECK(all.pd && all.cq);
	all.mr = ibv_reg_mr(all.pd, calloc(1, LENGTH), LENGTH, FULL_ACCESS);
	all.xrcd = open_domain(all.context, fd, O_CREAT);
	CHECK(all.mr && all.xrcd);
	return all;
}

static void close_all(struct all *all)
{
	void *memory = all->mr->addr;

	CHECK(!ibv_close_xrcd(all->xrcd));
	CHECK(!ibv_dereg_mr(all->mr));
	CHECK(!ibv_destroy_cq(all->cq));
	CHECK(!ibv_dealloc_pd(all->pd));
	CHECK(!ibv_close_device(all->context));
	free(memory);
}

#define CHECK_ERRNO(call, error)                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(!(call));                                                                    \
		CHECK(errno == (error));                                                           \
	} while (0)

/* What the kernel answers: errnos, and what the arguments must have. */
static void domains(void)
{
	struct ibv_context *context = open_device(), *other = open_device();
	int file = new_file(), closed = dup(file), path_only;
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	struct ibv_xrcd *one, *two, *anonymous;
	struct ibv_device_attr device;
	char name[64];

	CHECK(!ibv_query_device(context, &device));
	CHECK(device.device_cap_flags & IBV_DEVICE_XRC);
	CHECK(!close(closed));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
	path_only = open(name, O_PATH);
	CHECK(path_only >= 0);

	CHECK_ERRNO(ibv_open_xrcd(context, &attr), EINVAL);
	CHECK_ERRNO(open_domain(context, closed, O_CREAT), EBADF);
	CHECK_ERRNO(open_domain(context, -2, O_CREAT), EBADF);
	CHECK_ERRNO(open_domain(context, path_only, O_CREAT), EBADF);
	CHECK_ERRNO(open_domain(context, file, 0), EAGAIN);
	one = open_domain(context, file, O_CREAT | O_EXCL);
	CHECK(one && one->context == context);
	CHECK_ERRNO(open_domain(other, file, O_CREAT | O_EXCL), EINVAL);
	two = open_domain(other, file, 0);
	CHECK(two);
	CHECK(!ibv_close_xrcd(one));
	one = open_domain(context, file, 0);
	CHECK(one);
	anonymous = open_domain(context, -1, O_CREAT);
	CHECK(anonymous);
	CHECK(!ibv_close_xrcd(anonymous));
	CHECK(!ibv_close_xrcd(one));
	CHECK(!ibv_close_xrcd(two));
	CHECK_ERRNO(open_domain(context, file, 0), EAGAIN);
	CHECK(!ibv_close_device(context));
	CHECK(!ibv_close_device(other));
}

/* What each half of a connection takes and what it does not. */
static void objects(void)
{
	struct all all = open_all(-1);
	struct ibv_srq *srq = new_srq(all.pd, all.xrcd, all.cq, DEPTH);
	struct ibv_qp *target = new_target(all.context, all.xrcd);
	struct ibv_qp *sender = new_initiator(all.pd, all.cq);
	struct ibv_srq_init_attr_ex srq_attr = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = all.pd,
		.cq = all.cq,
	};
	struct ibv_qp_init_attr_ex qp_attr = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp_init_attr init = {
		.send_cq = all.cq,
		.recv_cq = all.cq,
		.srq = srq,
		.cap = { .max_send_wr = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD,
		.qp_num = target->qp_num,
		.xrcd = all.xrcd,
	};
	struct ibv_srq_attr size;
	struct ibv_qp_attr attr;
	struct ibv_qp *plain;

	CHECK_ERRNO(ibv_create_srq_ex(all.context, &srq_attr), EINVAL); /* no domain */
	srq_attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	srq_attr.xrcd = all.xrcd;
	srq_attr.pd = NULL;
	CHECK_ERRNO(ibv_create_srq_ex(all.context, &srq_attr), EINVAL);
	srq_attr.pd = all.pd;
	srq_attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
	srq_attr.xrcd = all.xrcd;
	CHECK_ERRNO(ibv_create_srq_ex(all.context, &srq_attr), EINVAL); /* no CQ */
	CHECK_ERRNO(ibv_create_qp_ex(all.context, &qp_attr), EINVAL);
	CHECK_ERRNO(ibv_create_qp(all.pd, &init), EINVAL);
	CHECK_ERRNO(ibv_open_qp(all.context, &open_attr), EINVAL);
	CHECK_ERRNO(open_target(all.context, all.xrcd, sender->qp_num), EINVAL);

	/* rdma_cm makes the SRQs of a connection in its QP's PD. */
	CHECK(!target->pd);
	qp_attr.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD;
	qp_attr.xrcd = all.xrcd;
	qp_attr.pd = all.pd;
	plain = ibv_create_qp_ex(all.context, &qp_attr);
	CHECK(plain && plain->pd == all.pd && !ibv_destroy_qp(plain));

	/* libibverbs comes to ibv_create_qp() as well; a CQ for receives does not count. */
	init.qp_type = IBV_QPT_XRC_SEND;
	init.srq = NULL;
	init.recv_cq = ibv_create_cq(all.context, 8, NULL, NULL, 0);
	plain = ibv_create_qp(all.pd, &init);
	CHECK(plain && !ibv_destroy_cq(init.recv_cq) && !ibv_destroy_qp(plain));

	CHECK(ibv_destroy_cq(all.cq) == EBUSY);
	CHECK(ibv_close_xrcd(all.xrcd) == EBUSY);
	CHECK(!ibv_query_qp(target, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_RESET && init.qp_type == IBV_QPT_XRC_RECV);
	start_xrc(target, sender->qp_num);
	start_xrc(sender, target->qp_num);
	CHECK(post_recv(target, 1, all.mr, 0, 1) == EINVAL);
	CHECK(post_recv(sender, 1, all.mr, 0, 1));
	CHECK(post_send(target, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND }));
	CHECK(!ibv_query_srq(srq, &size) && size.max_wr == DEPTH);

	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_qp(target));
	CHECK(!ibv_destroy_srq(srq));
	close_all(&all);
}

/* Slots of an SRQ come back when its completions are polled, or when it goes. */
static void slots(void)
{
	struct all all = open_all(-1);
	struct ibv_cq *cq = ibv_create_cq(all.context, 256, NULL, NULL, 0);
	struct ibv_srq *one = new_srq(all.pd, all.xrcd, cq, DEPTH);
	struct ibv_srq *two = new_srq(all.pd, all.xrcd, cq, DEPTH);
	struct ibv_qp *target = new_target(all.context, all.xrcd);
	struct ibv_qp *sender = new_initiator(all.pd, all.cq);
	struct ibv_wc wc;

	start_xrc(target, sender->qp_num);
	start_xrc(sender, target->qp_num);
	for (uint32_t i = 0; i < DEPTH; i++)
		CHECK(!post_srq(one, i, all.mr));
	CHECK(post_srq(one, 0, all.mr) == ENOMEM);
	for (uint32_t i = 0; i < 20 * DEPTH; i++) {
		send_to(sender, number_of(one), all.mr, i, i & 1);
		poll_success(all.cq);
		/* It is the device's no more, but its slot is used until its completion is taken.
		 */
		CHECK(post_srq(one, i, all.mr) == ENOMEM);
		wc = poll_success(cq);
		CHECK(wc.wr_id == i % DEPTH && wc.opcode == IBV_WC_RECV && wc.byte_len == 4);
		CHECK(wc.qp_num == target->qp_num);
		CHECK(!post_srq(one, i % DEPTH, all.mr));
	}
	/* Two SRQs complete on one CQ; one goes, and takes its completions along. */
	CHECK(!post_srq(two, 100, all.mr) && !post_srq(two, 101, all.mr));
	send_to(sender, number_of(one), all.mr, 0, true);
	send_to(sender, number_of(two), all.mr, 0, true);
	send_to(sender, number_of(one), all.mr, 0, false);
	send_to(sender, number_of(two), all.mr, 0, false);
	for (int i = 0; i < 4; i++)
		poll_success(all.cq);
	CHECK(!ibv_destroy_srq(one));
	CHECK(poll_success(cq).wr_id == 100);
	CHECK(poll_success(cq).wr_id == 101);
	CHECK(!ibv_poll_cq(cq, 1, &wc));
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	CHECK(!ibv_destroy_srq(two));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_qp(target));
	close_all(&all);
}

/* An event names the QP as who hears of it has it open; destroying waits until all are told. */
static void events(void)
{
	int file = new_file();
	struct all one = open_all(file), two = open_all(file);
	struct ibv_qp *target = new_target(one.context, one.xrcd);
	struct ibv_qp *again = open_target(two.context, two.xrcd, target->qp_num);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;

	CHECK(again);
	start_xrc(again, 1);
	CHECK(!ibv_query_qp(target, &attr, IBV_QP_STATE, &(struct ibv_qp_init_attr){}));
	CHECK(attr.qp_state == IBV_QPS_RTS);
	attr.qp_state = IBV_QPS_ERR;
	CHECK(!ibv_modify_qp(target, &attr, IBV_QP_STATE));
	CHECK(!ibv_get_async_event(one.context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == target);
	ibv_ack_async_event(&event);
	CHECK(!ibv_get_async_event(two.context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == again);
	ibv_ack_async_event(&event);
	CHECK(!ibv_destroy_qp(target));
	CHECK(open_target(one.context, one.xrcd, again->qp_num));
	CHECK(!ibv_destroy_qp(again));
	close_all(&two);
}

/* ------------------------------------------------------------------------ several processes */

struct child {
	pid_t pid;
	int socket;
	uint32_t srqn, qpn;
};

static uint32_t hear(int socket)
{
	uint32_t value;

	if (read(socket, &value, sizeof(value)) != sizeof(value))
		exit(1); /* the other end is gone */
	return value;
}

static void tell(int socket, uint32_t value)
{
	CHECK(write(socket, &value, sizeof(value)) == sizeof(value));
}

/* Receives on its own SRQ, and tells its parent what arrives. */
static void receive(int socket, int file, uint32_t qpn)
{
	struct all all = open_all(file);
	struct ibv_srq *srq = new_srq(all.pd, all.xrcd, all.cq, DEPTH);
	struct ibv_qp *target;

	target = qpn ? open_target(all.context, all.xrcd, qpn) : new_target(all.context, all.xrcd);
	CHECK(target);
	for (int i = 0; i < DEPTH; i++)
		CHECK(!post_srq(srq, (uint64_t)i, all.mr));
	tell(socket, number_of(srq));
	tell(socket, target->qp_num);
	if (!qpn) {
		start_xrc(target, hear(socket));
		tell(socket, 0); /* ready to receive */
	}
	for (;;) {
		struct ibv_wc wc;

		hear(socket); /* something has been sent */
		wc = poll_success(all.cq);
		CHECK(wc.qp_num == target->qp_num);
		tell(socket, *(uint32_t *)all.mr->addr);
		CHECK(!post_srq(srq, wc.wr_id, all.mr));
	}
}

static struct child start_child(int file, uint32_t qpn)
{
	struct child child;
	int sockets[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets));
	child.pid = fork();
	CHECK(child.pid >= 0);
	if (!child.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sockets[0]);
		receive(sockets[1], file, qpn);
	}
	close(sockets[1]);
	child.socket = sockets[0];
	child.srqn = hear(child.socket);
	child.qpn = hear(child.socket);
	return child;
}

static void kill_child(struct child *child)
{
	CHECK(!kill(child->pid, SIGKILL));
	CHECK(waitpid(child->pid, NULL, 0) == child->pid);
	close(child->socket);
}

/*
 * Two processes share a domain by a file, and one's target QP delivers to both; the one that made
 * it is killed, the other goes on; with it the QP goes.
 */
static void processes(void)
{
	int file = new_file();
	struct child child[2] = { start_child(file, 0) };
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, calloc(1, LENGTH), LENGTH, FULL_ACCESS);
	struct ibv_qp *sender = new_initiator(pd, cq);

	child[1] = start_child(file, child[0].qpn);
	CHECK(child[1].qpn == child[0].qpn && child[1].srqn != child[0].srqn);
	tell(child[0].socket, sender->qp_num);
	hear(child[0].socket);
	start_xrc(sender, child[0].qpn);
	for (uint32_t i = 0; i < 200; i++) {
		struct child *to = i < 100 ? &child[i * 7 % 3 % 2] : &child[1];

		if (i == 100)
			kill_child(&child[0]);
		send_to(sender, to->srqn, mr, i, i & 1);
		poll_success(cq);
		tell(to->socket, i);
		CHECK(hear(to->socket) == i);
	}
	kill_child(&child[1]);
	/* The daemon may learn of its death a moment after us. */
	for (uint32_t i = 0;; i++) {
		struct ibv_wc wc;

		send_to(sender, child[1].srqn, mr, i, false);
		wc = poll_one(cq);
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK(wc.status == IBV_WC_RETRY_EXC_ERR ||
			      wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR);
			break;
		}
		CHECK(i < DEPTH);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "domains", domains }, { "objects", objects },	    { "slots", slots },
		{ "events", events },	{ "processes", processes },
	};

	CHECK(argc == 2);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(argv[1], tests[i].name))
			continue;
		tests[i].run();
		return 0;
	}
	return 2;
}
