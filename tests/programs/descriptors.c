/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What verbs do to the program's table of descriptors, and what they do when it is full. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "dv.h"

#define LIMIT 256
#define THREADS 24

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char bytes[8192] __attribute__((aligned(4096)));

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int number = -3; /* itself, and two names that are none */

	CHECK(dir);
	while (readdir(dir))
		number++;
	closedir(dir);
	return number;
}

static void limit_to(rlim_t number)
{
	struct rlimit limit = { number, number };

	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void begin(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
	CHECK(mr);
}

static void write_by(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)bytes + 64;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!post_send(qp, &wr));
	poll_success(cq);
}

static struct ibv_qp *connect_on(struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);

	start_qp(qp, qp->qp_num);
	write_by(qp, cq);
	return qp;
}

/* A process costs two, whatever the number of QPs that are connected to it. */
TEST(one_pair_for_a_process)
{
	struct ibv_qp *qp[50];
	struct ibv_cq *cq;
	int before;

	begin();
	cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	CHECK(cq);
	before = descriptors();
	for (size_t i = 0; i < 50; i++)
		qp[i] = connect_on(cq);
	CHECK(descriptors() <= before + 2);
	for (size_t i = 0; i < 50; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	CHECK(descriptors() <= before);
}

/* With a channel for each: an event of every CQ comes, also of those beyond the quarter. */
TEST(a_quarter_at_most)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *found;
	struct ibv_qp *qp;
	void *unused;
	int before, number = 0;

	begin();
	limit_to(LIMIT);
	before = descriptors();
	for (;; number++) {
		channel = ibv_create_comp_channel(context);
		if (!channel)
			break;
		cq = ibv_create_cq(context, 10, NULL, channel, 0);
		if (!cq)
			break;
		qp = make_qp(pd, cq, IBV_QPT_RC);
		start_qp(qp, qp->qp_num);
		CHECK(!ibv_req_notify_cq(cq, 0));
		write_by(qp, cq);
		CHECK(!ibv_get_cq_event(channel, &found, &unused) && found == cq);
		ibv_ack_cq_events(cq, 1);
	}
	CHECK(errno == EMFILE);
	/* A few are needed for a moment each. */
	CHECK(number >= LIMIT - LIMIT / 4 - before - 10);
}

static pthread_barrier_t all;
static struct ibv_ah_attr loop;

static void *use_what_needs_none(void *arg)
{
	struct ibv_qp *qp = arg;

	pthread_barrier_wait(&all);
	for (int i = 0; i < 50; i++) {
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
		struct ibv_mr *region = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
		struct ibv_ah *ah = ibv_create_ah(pd, &loop);
		struct ibv_pd *other = ibv_alloc_pd(context);

		CHECK(region && ah && other);
		CHECK(!ibv_dereg_mr(region) && !ibv_destroy_ah(ah) && !ibv_dealloc_pd(other));
		CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	}
	return NULL;
}

/* More threads than there are sockets for answers. */
TEST(none_is_left)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	pthread_t thread[THREADS];
	struct ibv_qp *qp[THREADS], *carried;
	struct ibv_cq *cq, *one;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	int last, number = 0;

	begin();
	cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	CHECK(devices && cq);
	for (int i = 0; i < THREADS; i++)
		qp[i] = connect_on(cq);
	loop = loopback(context);
	CHECK(!pthread_barrier_init(&all, NULL, THREADS + 1));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, use_what_needs_none, qp[i]));
	limit_to(LIMIT);
	while ((last = dup(0)) >= 0)
		number++;
	CHECK(errno == EMFILE && number);
	pthread_barrier_wait(&all);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(!ibv_create_comp_channel(context) && errno == EMFILE);
	CHECK(ibv_query_gid(context, 1, 0, &gid) && errno == EMFILE);
	CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 0) == EMFILE);
	CHECK(!ibv_open_device(devices[0]) && errno == EMFILE);
	/* The device carries it. To connect it a GID has to be read. */
	carried = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(!close(LIMIT - 1));
	start_qp(carried, carried->qp_num);
	CHECK(dup(0) == LIMIT - 1);
	write_by(carried, cq);
	CHECK(!ibv_destroy_qp(carried));
	/* As long as there is memory that is mapped already they can be made. */
	for (int i = 0; i < 300 && (one = ibv_create_cq(context, 1000, NULL, NULL, 0)); i++)
		;
	CHECK(one || errno == EMFILE);
	/* Some, but fewer than come with a device. */
	for (int i = LIMIT - 1; i > LIMIT - 4; i--)
		CHECK(!close(i));
	CHECK(!ibv_open_device(devices[0]) && errno == EMFILE);
	for (int i = LIMIT - 1; i > LIMIT - 4; i--)
		CHECK(fcntl(i, F_GETFD) < 0);
}

/* What two processes tell each other. */
struct meeting {
	_Atomic uint32_t qpn[2], rkey, has_written;
	_Atomic bool over;
};

static uint32_t await(const _Atomic uint32_t *number)
{
	while (!*number)
		usleep(1000);
	return *number;
}

/* Writes into the other process, for which it is given the memory of that one's QP and CQ. */
static void be_the_peer(struct meeting *meeting)
{
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin();
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(cq);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	meeting->qpn[1] = qp->qp_num;
	start_qp(qp, await(&meeting->qpn[0]));
	mr->rkey = await(&meeting->rkey);
	write_by(qp, cq);
	meeting->has_written = 1;
	while (!meeting->over)
		usleep(1000);
	exit(0);
}

static struct meeting *make_meeting(void)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(meeting != MAP_FAILED);
	return meeting;
}

/* be() does not return. */
static pid_t start_peer(void (*be)(struct meeting *meeting), struct meeting *meeting)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child)
		be(meeting);
	return child;
}

static void connect_to_peer(struct meeting *meeting, struct ibv_cq **cq, struct ibv_qp **qp)
{
	*cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(*cq);
	*qp = make_qp(pd, *cq, IBV_QPT_RC);
	start_qp(*qp, await(&meeting->qpn[1]));
	meeting->rkey = mr->rkey;
	meeting->qpn[0] = (*qp)->qp_num;
}

/* Of the device, as long as it is open. */
static pid_t daemon_of_device(void)
{
	struct ucred daemon;
	socklen_t size = sizeof(daemon);

	CHECK(!getsockopt(context->cmd_fd, SOL_SOCKET, SO_PEERCRED, &daemon, &size));
	return daemon.pid;
}

static int other_end; /* of the program's own socket that has the number of cmd_fd */

static void *take_number_of_device(void *arg)
{
	const bool at_once = arg;
	int ends[2];

	if (!at_once)
		usleep(30000); /* the command waits by then, most probably; if not the test is the other one */
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	CHECK(dup2(ends[0], context->cmd_fd) == context->cmd_fd && !close(ends[0]));
	other_end = ends[1];
	return NULL;
}

static pid_t stopped; /* the daemon; 0: it is not */

static void give_up(int signal)
{
	if (stopped)
		kill(stopped, SIGCONT);
	_exit(signal);
}

/* Closed by the program, which has a socket of its own there, before a command or while one waits for its answer. */
static void ask_without_device(bool before)
{
	const pid_t daemon = daemon_of_device();
	struct ibv_pd *none;
	pthread_t thread;
	int error;

	signal(SIGALRM, give_up);
	alarm(30);
	if (before) {
		take_number_of_device((void *)1);
	} else {
		stopped = daemon;
		CHECK(!kill(daemon, SIGSTOP));
		CHECK(!pthread_create(&thread, NULL, take_number_of_device, NULL));
	}
	none = ibv_alloc_pd(context);
	error = errno;
	CHECK(before || (!kill(daemon, SIGCONT) && !pthread_join(thread, NULL)));
	CHECK(!none && error == EBADF);
}

TEST(device_closed_before)
{
	begin();
	ask_without_device(true);
}

TEST(device_closed_meanwhile)
{
	begin();
	ask_without_device(false);
}

/* The answers that a child waits for come on a socket, not into its parent's memory. */
static void ask_as_child(bool before)
{
	char byte;
	int status;
	pid_t child;

	begin();
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		ask_without_device(before);
		/* What is the program's has got nothing of it. */
		CHECK(recv(other_end, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(!status);
}

TEST(device_closed_before_by_a_child)
{
	ask_as_child(true);
}

TEST(device_closed_meanwhile_by_a_child)
{
	ask_as_child(false);
}

/* The QP and the CQ that a peer had get other memory when the QP is reset, for which no descriptor is left. */
TEST(what_a_peer_had)
{
	struct meeting *meeting = make_meeting();
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int status;
	pid_t child;

	child = start_peer(be_the_peer, meeting);
	begin();
	connect_to_peer(meeting, &cq, &qp);
	await(&meeting->has_written);
	/* What another context of the process needs is there, too. */
	connect_on(cq);

	limit_to(LIMIT);
	while (dup(0) >= 0)
		;
	CHECK(errno == EMFILE);
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	CHECK(!close(LIMIT - 1)); /* a GID has to be read */
	start_qp(qp, qp->qp_num);
	write_by(qp, cq);
	meeting->over = true;
	CHECK(waitpid(child, &status, 0) == child && !status);
}

#define OTHERS 32

/* As a program does that knows only the descriptors which libibverbs shows; its files take their numbers. */
static void close_others(int other[OTHERS])
{
	for (int fd = 3; fd < 1024; fd++)
		if (fd != context->cmd_fd && fd != context->async_fd)
			close(fd);
	for (int i = 0; i < OTHERS; i++) {
		other[i] = memfd_create("other", MFD_CLOEXEC);
		CHECK(other[i] >= 0);
	}
}

static void check_others(const int other[OTHERS])
{
	struct stat st;

	for (int i = 0; i < OTHERS; i++)
		CHECK(!fstat(other[i], &st) && !st.st_size);
}

/* Writes to the other process before and after, by the fast path and by the device that was asleep. */
static void be_a_closing_peer(struct meeting *meeting)
{
	int other[OTHERS];
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin();
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(cq);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	meeting->qpn[1] = qp->qp_num;
	start_qp(qp, await(&meeting->qpn[0]));
	mr->rkey = await(&meeting->rkey);
	write_by(qp, cq);
	close_others(other);
	for (int i = 0; i < 3; i++) {
		bytes[0] = (char)('a' + i);
		write_by(qp, cq);
		check_others(other);
		usleep(50000);
	}
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) &&
	      !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	check_others(other);
	exit(0);
}

/* A program may close what it does not know: nothing is written to what has these numbers then, or closed. */
TEST(closed_by_the_program)
{
	struct meeting *meeting = make_meeting();
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int status;
	pid_t child;

	child = start_peer(be_a_closing_peer, meeting);
	begin();
	connect_to_peer(meeting, &cq, &qp);
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(bytes[64] == 'c');
}

/* Likewise the device itself: what is posted fails, and nothing is sent to a socket that has its number. */
TEST(closed_with_the_device)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	int pair[OTHERS][2], far[OTHERS];
	struct ibv_wc wc = { 0 };
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char byte;

	CHECK(!setenv("SIMHCA_FAST_PATH", "off", 1));
	begin();
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(cq);
	qp = connect_on(cq);
	usleep(200000); /* the device sleeps, and is to be woken */
	CHECK(!close_range(3, ~0u, 0));
	for (int i = 0; i < OTHERS; i++) {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]));
		far[i] = pair[i][1];
	}
	if (!post_send(qp, &wr))
		wc = poll_one(cq);
	CHECK(wc.status != IBV_WC_SUCCESS || !ibv_alloc_pd(context));
	for (int i = 0; i < OTHERS; i++)
		CHECK(recv(far[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}
