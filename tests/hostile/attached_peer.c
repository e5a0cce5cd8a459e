/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two programs that carry their messages themselves (--fast-path), one of which abuses
 * what it is handed of the other's:
 *
 *	attached_peer scribble|stop|die|channel|writers [srq] [ud] [atomics]
 *
 *	scribble	writes to all of it, at random, while messages are under way
 *	stop		is stopped in the middle of its steps, and goes on, again and again
 *	die		is killed there
 *	channel		does what it can to the device's end of the other's completion channel
 *	writers		says without end that it does an atomic on the other's memory, and that all write there
 *
 * The victim's receives come from an SRQ if there is to be one; with `ud` they are for datagrams. With
 * `atomics` the other does some as well, and the victim does atomics and writes in its own memory,
 * by two QPs that are connected to each other: all of them are done.
 * It then destroys all that it has, and says so: "done", with the number of bytes that the
 * other had of it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define SCRIBBLING 1.0 /* seconds */
#define MOST_MAPPINGS 16
#define LENGTH 4096u

struct end {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* or NULL */
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* of UD */
	struct ibv_mr *mr;
	uint8_t memory[LENGTH];
};

/* What one end tells the other. */
struct address {
	uint32_t qpn, rkey;
	uint64_t va;
};

static struct end end;
static bool reads_events, with_srq, with_ud, with_atomics;

static struct address make_end(bool is_victim)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_ah_attr ah_attr;

	end.context = open_device();
	end.pd = ibv_alloc_pd(end.context);
	CHECK(end.pd);
	end.channel = ibv_create_comp_channel(end.context);
	CHECK(end.channel);
	end.cq = ibv_create_cq(end.context, 64, NULL, end.channel, 0);
	CHECK(end.cq);
	end.mr = ibv_reg_mr(end.pd, end.memory, LENGTH, FULL_ACCESS);
	CHECK(end.mr);
	end.srq = with_srq && is_victim ? ibv_create_srq(end.pd, &attr) : NULL;
	CHECK(end.srq || !with_srq || !is_victim);
	ah_attr = loopback(end.context);
	end.ah = ibv_create_ah(end.pd, &ah_attr);
	CHECK(end.ah);
	end.qp = make_qp_with(end.pd, end.cq, with_ud ? IBV_QPT_UD : IBV_QPT_RC, end.srq);
	return (struct address){ end.qp->qp_num, end.mr->rkey, (uintptr_t)end.memory };
}

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, 40 + 64, end.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	/* Or not, if the QP has been broken. */
	if (end.srq)
		ibv_post_srq_recv(end.srq, &wr, &bad);
	else
		ibv_post_recv(end.qp, &wr, &bad);
}

static bool post(const struct address *to, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, 64, end.mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = to->va, .rkey = to->rkey },
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = to->va;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = to->rkey;
	}
	if (with_ud) {
		wr.opcode = IBV_WR_SEND;
		wr.wr.ud.ah = end.ah;
		wr.wr.ud.remote_qpn = to->qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return !ibv_post_send(end.qp, &wr, &bad);
}

/* Posts again and again, until the connection is broken. */
static void keep_sending(const struct address *to, double seconds)
{
	double until = now() + seconds;
	struct ibv_wc wc[16];

	while (now() < until) {
		for (int i = 0; i < 4; i++)
			post(to, i % 2		     ? IBV_WR_RDMA_WRITE
				 : with_atomics && i ? IBV_WR_ATOMIC_FETCH_AND_ADD
						     : IBV_WR_SEND);
		ibv_poll_cq(end.cq, 16, wc);
	}
}

/* ------------------------------------------------------------------------ what is handed */

struct mapping {
	uintptr_t begin, end;
};

/* Shared memory that can be written. */
static unsigned int mappings(struct mapping *list)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[512];

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (count < MOST_MAPPINGS && strstr(line, " rw-s ") &&
		    sscanf(line, "%lx-%lx", &list[count].begin, &list[count].end) == 2)
			count++;
	fclose(maps);
	return count;
}

static struct mapping handed[MOST_MAPPINGS];
static unsigned int num_handed;
static atomic_bool over;

static void find_handed(const struct mapping *before, unsigned int count)
{
	struct mapping all[MOST_MAPPINGS];
	unsigned int n = mappings(all);

	for (unsigned int i = 0; i < n; i++) {
		unsigned int j = 0;

		while (j < count && before[j].begin != all[i].begin)
			j++;
		if (j == count)
			handed[num_handed++] = all[i];
	}
}

static uint64_t bytes_handed(void)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < num_handed; i++)
		bytes += handed[i].end - handed[i].begin;
	return bytes;
}

static void *scribble(void *arg)
{
	uint64_t random = 88172645463325252u;

	(void)arg;
	while (!over) {
		const struct mapping *mapping;
		volatile uint32_t *word;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		mapping = &handed[random % num_handed];
		word = (volatile uint32_t *)mapping->begin +
		       (random >> 8) % ((mapping->end - mapping->begin) / 4);
		/* Small numbers do more harm than large ones, which are seen to be nonsense. */
		*word = random >> 63 ? (uint32_t)(random >> 32) : (uint32_t)(random >> 32) % 64;
	}
	return NULL;
}

/* Only where those are who write to the other's memory. */
static void *scribble_on_writers(void *arg)
{
	const size_t size = 16384; /* struct simhca_writers */
	unsigned int i = 0;

	(void)arg;
	while (i < num_handed && handed[i].end - handed[i].begin != size)
		i++;
	CHECK(i < num_handed);
	while (!over)
		for (volatile uint32_t *word = (volatile uint32_t *)handed[i].begin;
		     word < (volatile uint32_t *)handed[i].end; word += 16)
			word[0] = 0x40000001;
	return NULL;
}

/* -------------------------------------------------------- the ends that are handed as well */

#define MOST_DESCRIPTORS 256

static bool is_stream(int fd)
{
	int domain, type;
	socklen_t size = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM;
}

static void find_streams(bool *found)
{
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
		found[fd] = is_stream(fd);
}

/* Files of ours as well: whoever takes them out closes them. */
static void send_files(int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (char[]){ 0 }, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int null = open("/dev/null", O_RDONLY);

	*cmsg = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(cmsg), &null, sizeof(null));
	sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(null);
}

/* Nobody would get an event from it any more. */
static void abuse(int fd, const struct address *to)
{
	static const char noise[4097];
	int least = 1;

	/* Who waits for room waits for ever. */
	fcntl(fd, F_SETFL, O_ASYNC);
	fcntl(fd, F_SETOWN, getpid());
	send_files(fd);
	send(fd, noise, 3, MSG_DONTWAIT | MSG_NOSIGNAL);
	send(fd, noise, 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	for (double until = now() + 0.3; now() < until;) {
		send(fd, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL);
		keep_sending(to, 0.01);
	}
	least = 1 << 20;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	while (send(fd, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	keep_sending(to, 0.3);
}

static void abuse_channels(const bool *before, const struct address *to)
{
	bool after[MOST_DESCRIPTORS];
	unsigned int found = 0;

	signal(SIGIO, SIG_IGN);
	find_streams(after);
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
		if (after[fd] && !before[fd]) {
			found++;
			abuse(fd, to);
		}
	CHECK(found);
	keep_sending(to, SCRIBBLING / 2);
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
		if (after[fd] && !before[fd])
			shutdown(fd, SHUT_RDWR);
}

/* ---------------------------------------------------------------------------- the two */

static void attack(int from, int to, const char *how)
{
	struct mapping before[MOST_MAPPINGS];
	bool streams[MOST_DESCRIPTORS];
	struct address mine = make_end(false), theirs;
	unsigned int count;
	pthread_t thread;
	uint64_t bytes;

	CHECK(write(to, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(from, &theirs, sizeof(theirs)) == sizeof(theirs));
	count = mappings(before);
	find_streams(streams);
	start_qp(end.qp, theirs.qpn);
	/* The victim is ready as well. */
	CHECK(write(to, &mine, 1) == 1 && read(from, &mine, 1) == 1);
	keep_sending(&theirs, 0.2);
	find_handed(before, count);
	bytes = bytes_handed();
	CHECK(write(to, &bytes, sizeof(bytes)) == sizeof(bytes));
	if (!strcmp(how, "channel"))
		abuse_channels(streams, &theirs);
	if (strcmp(how, "scribble") != 0 && strcmp(how, "writers") != 0) {
		keep_sending(&theirs, 60);
		return;
	}
	CHECK(num_handed &&
	      !pthread_create(&thread, NULL,
			      strcmp(how, "writers") ? scribble : scribble_on_writers, NULL));
	keep_sending(&theirs, SCRIBBLING);
	over = true;
	pthread_join(thread, NULL);
	exit(0);
}

/* Unless it would be of no CQ. */
static void take_event(void)
{
	struct pollfd pollfd = { .fd = end.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (!reads_events || poll(&pollfd, 1, 0) <= 0)
		return;
	CHECK(!ibv_get_cq_event(end.channel, &cq, &context) && cq == end.cq);
	ibv_ack_cq_events(cq, 1);
}

/* The victim's own, on memory of its own. */
static struct {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	uint64_t atomics;
} own;

static void make_own(void)
{
	own.cq = ibv_create_cq(end.context, 16, NULL, NULL, 0);
	CHECK(own.cq);
	for (int i = 0; i < 2; i++)
		own.qp[i] = make_qp(end.pd, own.cq, IBV_QPT_RC);
	for (int i = 0; i < 2; i++)
		start_qp(own.qp[i], own.qp[!i]->qp_num);
}

/* An atomic, whose result goes there as well, and a write beside. */
static void work_on_own(void)
{
	uint8_t *at = end.memory + LENGTH / 2;
	struct ibv_sge sge[2] = { { (uintptr_t)at, 8, end.mr->lkey },
				  { (uintptr_t)at + 8, 8, end.mr->lkey } };
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE,
				     .send_flags = IBV_SEND_SIGNALED,
				     .sg_list = &sge[1],
				     .num_sge = 1,
				     .wr.rdma = { (uintptr_t)at + 16, end.mr->rkey } };
	struct ibv_send_wr add = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				   .sg_list = &sge[0],
				   .num_sge = 1,
				   .next = &write,
				   .wr.atomic = { .remote_addr = (uintptr_t)at + 24,
						  .compare_add = 1,
						  .rkey = end.mr->rkey } };
	uint64_t found;

	CHECK(!post_send(own.qp[0], &add));
	poll_success(own.cq);
	memcpy(&found, at, sizeof(found));
	CHECK(found == own.atomics++);
}

static void take_messages(double seconds)
{
	double until = now() + seconds;
	struct ibv_wc wc[16];

	while (now() < until) {
		CHECK(!ibv_req_notify_cq(end.cq, 0));
		take_event();
		for (int n = ibv_poll_cq(end.cq, 16, wc); n > 0; n--)
			receive();
		if (own.cq)
			work_on_own();
	}
}

/* The other is stopped, for a while, and killed in the end. */
static void disturb(pid_t other, bool stop)
{
	for (int i = 0; stop && i < 50; i++) {
		kill(other, SIGSTOP);
		take_messages(0.01);
		kill(other, SIGCONT);
		take_messages(0.01 + 0.0001 * i);
	}
	kill(other, SIGKILL);
}

/* What the other has broken is there until it has gone, at most. */
static void destroy_all(void)
{
	for (int i = 0; i < 2 && own.cq; i++)
		CHECK(!ibv_destroy_qp(own.qp[i]));
	CHECK(!own.cq || !ibv_destroy_cq(own.cq));
	CHECK(!ibv_destroy_qp(end.qp) && (!end.srq || !ibv_destroy_srq(end.srq)));
	CHECK(!ibv_destroy_cq(end.cq));
	CHECK(!ibv_destroy_ah(end.ah) && !ibv_dereg_mr(end.mr) && !ibv_dealloc_pd(end.pd));
	CHECK(!ibv_destroy_comp_channel(end.channel));
	CHECK(!ibv_close_device(end.context));
}

int main(int argc, char **argv)
{
	struct address mine, theirs;
	int there[2], back[2];
	uint64_t bytes;
	pid_t other;

	for (int i = 2; i < argc; i++) {
		with_srq |= !strcmp(argv[i], "srq");
		with_ud |= !strcmp(argv[i], "ud");
		with_atomics |= !strcmp(argv[i], "atomics");
	}
	CHECK(argc == 2 + with_srq + with_ud + with_atomics && !pipe(there) && !pipe(back));
	other = fork();
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attack(there[0], back[1], argv[1]);
		return 0;
	}
	mine = make_end(true);
	if (with_atomics)
		make_own();
	reads_events = strcmp(argv[1], "channel") != 0;
	CHECK(write(there[1], &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(back[0], &theirs, sizeof(theirs)) == sizeof(theirs));
	start_qp(end.qp, theirs.qpn);
	for (int i = 0; i < 16; i++)
		receive();
	CHECK(read(back[0], &theirs, 1) == 1 && write(there[1], &mine, 1) == 1);
	take_messages(0.3);
	CHECK(read(back[0], &bytes, sizeof(bytes)) == sizeof(bytes));
	take_messages(0.3);
	if (!strcmp(argv[1], "channel")) {
		take_messages(SCRIBBLING + 1);
		kill(other, SIGKILL);
	} else if (!strcmp(argv[1], "scribble") || !strcmp(argv[1], "writers"))
		take_messages(SCRIBBLING);
	else
		disturb(other, !strcmp(argv[1], "stop"));
	destroy_all();
	CHECK(waitpid(other, NULL, 0) == other);
	printf("done %llu\n", (unsigned long long)bytes);
	fflush(stdout);
	pause();
	return 0;
}
