/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A whole daemon under libFuzzer: its main() runs in a thread, and an input is what clients say to
 * its sockets, step by step (steps.h). Each input has connections of its own. Commands are sent in
 * the name of a child, whose memory the device reads and writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ev.h>

#include "cm/cm.h"
#include "loop/datagram.h"
#include "session/session.h"
#include "simhca-abi-rdma-cm.h"
#include "steps.h"

int simhcad_main(int argc, char **argv);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			perror(#condition);                                                        \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define ANSWER_MS 30000 /* longer than the daemon tries anything again */

static char directory[] = "/tmp/simhca-fuzz-XXXXXX";
static pid_t client;
static bool ending;
static pthread_t daemon_thread;

/* ------------------------------------------------------------- what the daemon thinks it sees */

ssize_t __real_datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
				struct iovec *iov, size_t iov_count, struct sender *sender,
				int *fds, unsigned int max_fds, unsigned int *num_fds,
				bool *truncated);
ssize_t __wrap_datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
				struct iovec *iov, size_t iov_count, struct sender *sender,
				int *fds, unsigned int max_fds, unsigned int *num_fds,
				bool *truncated);
ssize_t __wrap_datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
				struct iovec *iov, size_t iov_count, struct sender *sender,
				int *fds, unsigned int max_fds, unsigned int *num_fds,
				bool *truncated)
{
	ssize_t length = __real_datagram_receive(socket, releaser, owner, iov, iov_count, sender,
						 fds, max_fds, num_fds, truncated);

	if (!sender->known)
		return length;
	sender->pid = client;
	if (sender->pidfd >= 0) {
		close(sender->pidfd);
		sender->pidfd = (int)syscall(SYS_pidfd_open, client, 0);
	}
	return length;
}

/* No request ends it. */
void __real_ev_break(struct ev_loop *loop, int how);
void __wrap_ev_break(struct ev_loop *loop, int how);
void __wrap_ev_break(struct ev_loop *loop, int how)
{
	if (__atomic_load_n(&ending, __ATOMIC_SEQ_CST))
		__real_ev_break(loop, how);
}

/* Management datagrams: the last one that was sent, and one that is to come in. */
static pthread_mutex_t mad_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t sent_mad[SIMHCA_MAD_BYTES], mad[SIMHCA_MAD_BYTES];
static bool mad_waits;
static simhca_gmp_handler *gmp_handler;
static void *gmp_arg;
static union simhca_gid gid = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

void __real_simhca_device_set_gmp(struct simhca_device *device, simhca_gmp_handler *handler,
				  void *arg);
void __wrap_simhca_device_set_gmp(struct simhca_device *device, simhca_gmp_handler *handler,
				  void *arg);
void __wrap_simhca_device_set_gmp(struct simhca_device *device, simhca_gmp_handler *handler,
				  void *arg)
{
	gmp_handler = handler;
	gmp_arg = arg;
	__real_simhca_device_set_gmp(device, handler, arg);
}

bool __real_simhca_device_send_gmp(struct simhca_device *device, const struct simhca_av *av,
				   const void *bytes);
bool __wrap_simhca_device_send_gmp(struct simhca_device *device, const struct simhca_av *av,
				   const void *bytes);
bool __wrap_simhca_device_send_gmp(struct simhca_device *device, const struct simhca_av *av,
				   const void *bytes)
{
	pthread_mutex_lock(&mad_lock);
	memcpy(sent_mad, bytes, sizeof(sent_mad));
	pthread_mutex_unlock(&mad_lock);
	return __real_simhca_device_send_gmp(device, av, bytes);
}

bool __real_simhca_cm_run(struct simhca_cm *cm, uint64_t max_ns);
bool __wrap_simhca_cm_run(struct simhca_cm *cm, uint64_t max_ns);
bool __wrap_simhca_cm_run(struct simhca_cm *cm, uint64_t max_ns)
{
	struct simhca_gmp gmp = { .mad = mad, .sgid = gid, .dgid = gid };

	pthread_mutex_lock(&mad_lock);
	if (mad_waits)
		gmp_handler(gmp_arg, &gmp);
	mad_waits = false;
	pthread_mutex_unlock(&mad_lock);
	return __real_simhca_cm_run(cm, max_ns);
}

/* ------------------------------------------------------------------------------- the daemon */

static void *run_daemon(void *arg)
{
	char *argv[] = {
		"simhcad", "--runtime-dir", directory, "--log-level",  "error",	    "--devices",
		"3",	   "--engines",	    "1",       "--log-file",   "/dev/null", "--ready-fd",
		arg,	   "--device",	    "simhca2", "--link-layer", "ib",	    NULL
	};

	REQUIRE(!simhcad_main((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv));
	return NULL;
}

static void map_client_memory(void)
{
	void *memory = mmap((void *)(uintptr_t)CLIENT_MEMORY, CLIENT_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	REQUIRE(memory != MAP_FAILED);
}

/* What an input has registered and written to may be the child's stack: then there is a new one. */
static void keep_client_alive(void)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };

	if (client && !waitpid(client, NULL, WNOHANG))
		return;
	client = fork();
	REQUIRE(client >= 0);
	if (client)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		signal(deadly[i], SIG_DFL);
	for (;;)
		pause();
}

/* It ends as it should, and its leaks are found. */
static void stop_daemon(void)
{
	__atomic_store_n(&ending, true, __ATOMIC_SEQ_CST);
	pthread_kill(daemon_thread, SIGTERM);
	pthread_join(daemon_thread, NULL);
	kill(client, SIGKILL);
	rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char ready_fd[16];
	int ready[2];
	char byte;

	signal(SIGPIPE, SIG_IGN);
	map_client_memory();
	keep_client_alive();
	REQUIRE(mkdtemp(directory) && !pipe(ready));
	snprintf(ready_fd, sizeof(ready_fd), "%d", ready[1]);
	REQUIRE(!pthread_create(&daemon_thread, NULL, run_daemon, ready_fd));
	REQUIRE(TEMP_FAILURE_RETRY(read(ready[0], &byte, 1)) == 1);
	close(ready[0]);
	atexit(stop_daemon);
	return 0;
}

/* ------------------------------------------------------------------------------ connections */

enum node { UVERBS, RDMA_CM, NETLINK, CONTROL, UMAD, NODES };

struct world {
	int fd[NODES][2]; /* -1: not open */
	uint8_t *memory;  /* of the first uverbs' context, or NULL */
	size_t size;
	/* of the last answers */
	uint32_t magic[MAGIC_LAST - MAGIC_QPN], handle[SIMHCA_CMD_COUNT];
	uint64_t place[PLACES];
	uint32_t doorbell;
	int eventfd;
};

static int connection(struct world *world, enum node node, unsigned int which, bool other)
{
	static const char *const names[NODES] = { "tree/dev/infiniband/uverbs0",
						  "tree/dev/infiniband/rdma_cm",
						  "tree/netlink/rdma", "control",
						  "tree/dev/infiniband/umad2" };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int *fd = &world->fd[node][which];

	if (*fd >= 0)
		return *fd;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", directory, names[node]);
	if (node == UVERBS && other)
		addr.sun_path[strlen(addr.sun_path) - 1] = '1';
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(*fd >= 0 && !connect(*fd, (struct sockaddr *)&addr, sizeof(addr)));
	return *fd;
}

static void forget_memory(struct world *world)
{
	if (world->memory)
		munmap(world->memory, world->size);
	if (world->eventfd >= 0)
		close(world->eventfd);
	world->memory = NULL;
	world->eventfd = -1;
}

static void disconnect(struct world *world, enum node node, unsigned int which)
{
	if (world->fd[node][which] >= 0)
		close(world->fd[node][which]);
	world->fd[node][which] = -1;
	if (node == UVERBS && !which)
		forget_memory(world);
}

/* ---------------------------------------------------------------------------------- sending */

static int make_fd(uint8_t flags)
{
	int fds[2] = { -1, -1 };

	switch ((flags & STEP_FD_KIND) >> 3) {
	case 0:
		fds[0] = memfd_create("fuzz", MFD_ALLOW_SEALING);
		REQUIRE(fds[0] >= 0 && !ftruncate(fds[0], CLIENT_BYTES));
		if (flags & STEP_SEALED)
			REQUIRE(!fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
		break;
	case 1:
		REQUIRE(!pipe(fds));
		break;
	case 2:
		REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
		break;
	default:
		fds[0] = open("/", O_RDONLY | O_DIRECTORY);
	}
	if (fds[1] >= 0)
		close(fds[1]);
	return fds[0];
}

/* Sends parts, with a socket for the answer if that is wanted: it, or -1. */
static int ask(int to, struct iovec *parts, size_t num_parts, const struct step *step)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = num_parts };
	unsigned int more = (step->flags & STEP_FDS) >> 1, count = 0;
	int fds[4], ends[2] = { -1, -1 };

	if (!(step->flags & STEP_NO_ANSWER)) {
		REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
		fds[count++] = ends[1];
	}
	while (more--)
		fds[count++] = make_fd(step->flags);
	if (count) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, count * sizeof(int));
	}
	sendmsg(to, &msg, MSG_NOSIGNAL);
	while (count)
		close(fds[--count]);
	return ends[0];
}

struct answer {
	union {
		struct simhca_reply_hdr hdr;
		uint8_t bytes[1024];
	};
	ssize_t length;
	int fds[16];
	unsigned int num_fds;
};

/* A daemon that gives none is a finding. */
static void take_answer(int from, struct answer *answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} control;
	struct iovec iov = { answer->bytes, sizeof(answer->bytes) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct pollfd pollfd = { .fd = from, .events = POLLIN };

	memset(answer, 0, sizeof(*answer));
	if (from < 0)
		return;
	errno = ETIMEDOUT;
	REQUIRE(TEMP_FAILURE_RETRY(poll(&pollfd, 1, ANSWER_MS)) == 1);
	answer->length = TEMP_FAILURE_RETRY(recvmsg(from, &msg, MSG_CMSG_CLOEXEC));
	close(from);
	if (answer->length < (ssize_t)sizeof(answer->hdr))
		return;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
		answer->num_fds = (unsigned int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(answer->fds, CMSG_DATA(cmsg), answer->num_fds * sizeof(int));
	}
	REQUIRE(answer->hdr.magic == SIMHCA_CMD_MAGIC && answer->hdr.length == answer->length);
}

/* ------------------------------------------------------------------------------------ steps */

static void replace_magic(const struct world *world, uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at + 4 <= length; at += 4) {
		uint32_t value;

		memcpy(&value, bytes + at, sizeof(value));
		if (value >= MAGIC_QPN && value < MAGIC_LAST)
			memcpy(bytes + at, &world->magic[value - MAGIC_QPN], sizeof(value));
		if (value >= MAGIC_HANDLE && value < MAGIC_HANDLE + SIMHCA_CMD_COUNT)
			memcpy(bytes + at, &world->handle[value - MAGIC_HANDLE], sizeof(value));
	}
}

static void learn_context(struct world *world, struct answer *answer)
{
	const struct simhca_open_context_reply *reply =
		(const void *)(answer->bytes + sizeof(answer->hdr));

	if (answer->num_fds < 5)
		return;
	forget_memory(world);
	world->size = reply->segment_size;
	world->memory =
		mmap(NULL, world->size, PROT_READ | PROT_WRITE, MAP_SHARED, answer->fds[1], 0);
	REQUIRE(world->memory != MAP_FAILED);
	world->eventfd = dup(answer->fds[4]);
}

static void learn(struct world *world, uint16_t number, struct answer *answer)
{
	const void *body = answer->bytes + sizeof(answer->hdr);
	const struct simhca_create_qp_reply *qp = body;
	const struct simhca_create_cq_reply *cq = body;
	const struct simhca_reg_mr_reply *mr = body;
	struct stat st;

	if (answer->hdr.status || answer->length <= 0)
		return;
	if (number < SIMHCA_CMD_COUNT)
		memcpy(&world->handle[number], body, sizeof(world->handle[0]));
	switch (number) {
	case SIMHCA_CMD_OPEN_CONTEXT:
		learn_context(world, answer);
		break;
	case SIMHCA_CMD_CREATE_CHANNEL:
		REQUIRE(answer->num_fds == 1 && !fstat(answer->fds[0], &st));
		world->magic[MAGIC_CHANNEL - MAGIC_QPN] = (uint32_t)st.st_ino;
		break;
	case SIMHCA_CMD_REG_MR:
	case SIMHCA_CMD_REG_DMABUF_MR:
		world->magic[MAGIC_LKEY - MAGIC_QPN] = mr->lkey;
		world->magic[MAGIC_RKEY - MAGIC_QPN] = mr->rkey;
		break;
	case SIMHCA_CMD_CREATE_CQ:
		world->place[PLACE_CQ] = cq->state.segment ? 0 : cq->state.offset;
		break;
	case SIMHCA_CMD_CREATE_QP:
		world->magic[0] = qp->qpn;
		world->doorbell = qp->doorbell;
		world->place[PLACE_QP] = qp->state.segment ? 0 : qp->state.offset;
		world->place[PLACE_SEND_RING] = qp->sq.segment ? 0 : qp->sq.offset;
		world->place[PLACE_RECEIVE_RING] = qp->rq.segment ? 0 : qp->rq.offset;
		break;
	}
}

static void command(struct world *world, const struct step *step, uint8_t *bytes)
{
	unsigned int which = step->flags & STEP_SECOND;
	struct simhca_cmd_hdr hdr = { .magic = SIMHCA_CMD_MAGIC, .version = SIMHCA_ABI_VERSION };
	uint8_t *body = bytes + sizeof(hdr.command);
	struct iovec parts[] = { { &hdr, sizeof(hdr) },
				 { body, step->length - sizeof(hdr.command) } };
	struct answer answer;
	bool fresh = world->fd[UVERBS][which] < 0;
	int to = connection(world, UVERBS, which, step->flags & STEP_OTHER_FILE);

	if (fresh) {
		struct step open = { .kind = STEP_COMMAND, .flags = (uint8_t)which, .length = 2 };
		uint8_t number[2] = { SIMHCA_CMD_OPEN_CONTEXT };

		command(world, &open, number);
	}
	memcpy(&hdr.command, bytes, sizeof(hdr.command));
	hdr.length = (uint32_t)(sizeof(hdr) + parts[1].iov_len);
	replace_magic(world, body, parts[1].iov_len);
	take_answer(ask(to, parts, 2, step), &answer);
	if (!which)
		learn(world, hdr.command, &answer);
	while (answer.num_fds)
		close(answer.fds[--answer.num_fds]);
}

/* As the preload library does it; the bytes behind the command are an option's value. */
static void rdma_cm(struct world *world, const struct step *step, const uint8_t *bytes)
{
	struct rdma_ucm_cmd_hdr ucm = { .in = 0 };
	struct simhca_ucma_request request = { .written = step->length };
	struct simhca_cmd_hdr hdr = { .magic = SIMHCA_CMD_MAGIC,
				      .version = SIMHCA_ABI_VERSION,
				      .command = SIMHCA_UCMA_WRITE };
	struct iovec parts[] = { { &hdr, sizeof(hdr) },
				 { &request, sizeof(request) },
				 { (void *)(uintptr_t)bytes, step->length } };
	int to = connection(world, RDMA_CM, step->flags & STEP_SECOND, false);
	struct answer answer;

	if (step->length >= sizeof(ucm))
		memcpy(&ucm, bytes, sizeof(ucm));
	if (sizeof(ucm) + ucm.in < step->length)
		request.written = (uint16_t)(sizeof(ucm) + ucm.in);
	request.option = (uint16_t)(step->length - request.written);
	hdr.length = (uint32_t)(sizeof(hdr) + sizeof(request) + step->length);
	recv(to, &request.token, sizeof(request.token), MSG_DONTWAIT);
	take_answer(ask(to, parts, 3, step), &answer);
}

/* Likewise; MADs that have come are read. */
static void umad(struct world *world, const struct step *step, const uint8_t *bytes)
{
	struct simhca_cmd_hdr hdr = { .magic = SIMHCA_CMD_MAGIC,
				      .version = SIMHCA_ABI_VERSION,
				      .command = bytes[0] };
	struct iovec parts[] = { { &hdr, sizeof(hdr) },
				 { (void *)(uintptr_t)(bytes + 1), step->length - 1u } };
	int to = connection(world, UMAD, step->flags & STEP_SECOND, false);
	struct answer answer;
	uint8_t mad[4096];

	hdr.length = (uint32_t)(sizeof(hdr) + step->length - 1);
	take_answer(ask(to, parts, 2, step), &answer);
	while (recv(to, mad, sizeof(mad), MSG_DONTWAIT) > 0)
		;
}

/* What comes back is read, as far as it is there. */
static void datagram(int to, const uint8_t *bytes, size_t length)
{
	struct pollfd pollfd = { .fd = to, .events = POLLIN };
	uint8_t answer[4096];

	send(to, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	poll(&pollfd, 1, 1);
	while (recv(to, answer, sizeof(answer), MSG_DONTWAIT) > 0)
		;
}

static void memory(struct world *world, const uint8_t *bytes, size_t length)
{
	struct memory_step step;
	struct simhca_ctx_mem *mem = (void *)world->memory;
	uint32_t slot = world->doorbell;
	uint8_t words[STEP_BYTES];
	uint64_t at;

	if (length < sizeof(step) || !mem)
		return;
	memcpy(&step, bytes, sizeof(step));
	length -= sizeof(step);
	memcpy(words, bytes + sizeof(step), length);
	replace_magic(world, words, length);
	at = world->place[step.place % PLACES] + step.offset;
	if (at + length <= world->size)
		memcpy(world->memory + at, words, length);
	if (!step.ring || slot >= SIMHCA_MAX_QP)
		return;
	atomic_fetch_or(&mem->leaf[slot / 64], UINT64_C(1) << slot % 64);
	atomic_fetch_or(&mem->mid[slot / 4096], UINT64_C(1) << slot / 64 % 64);
	atomic_fetch_or(&mem->top, UINT64_C(1) << slot / 4096);
	REQUIRE(write(world->eventfd, &(uint64_t){ 1 }, 8) == 8);
}

/* Comes in as soon as the daemon's loop turns, for which a question sees. */
static void receive_mad(struct world *world, const struct step *step, const uint8_t *bytes)
{
	static const uint8_t question[] = "{}";

	pthread_mutex_lock(&mad_lock);
	memset(mad, 0, sizeof(mad));
	memcpy(mad, (uint8_t[]){ 1, 7, 2, 3 }, 4);
	mad[17] = (uint8_t)(SIMHCA_CM_REQ + bytes[0]);
	memcpy(mad + 24, bytes + 1,
	       step->length - 1u < sizeof(mad) - 24 ? step->length - 1u : sizeof(mad) - 24);
	if (step->flags & STEP_REPLY) {
		memcpy(mad + 8, sent_mad + 8, 8);   /* the transaction */
		memcpy(mad + 28, sent_mad + 24, 4); /* who is meant */
		if (step->flags & STEP_SECOND)	    /* whom it knows */
			memcpy(mad + 24, sent_mad + 28, 4);
	}
	mad_waits = true;
	pthread_mutex_unlock(&mad_lock);
	datagram(connection(world, CONTROL, 0, false), question, sizeof(question) - 1);
}

static void take_step(struct world *world, const struct step *step, uint8_t *bytes)
{
	unsigned int which = step->flags & STEP_SECOND;
	struct iovec part = { bytes, step->length };
	struct answer answer;

	switch ((enum step_kind)step->kind) {
	case STEP_COMMAND:
		if (step->length >= 2)
			command(world, step, bytes);
		break;
	case STEP_RDMA_CM:
		rdma_cm(world, step, bytes);
		break;
	case STEP_NETLINK:
		datagram(connection(world, NETLINK, which, false), bytes, step->length);
		break;
	case STEP_CONTROL:
		datagram(connection(world, CONTROL, which, false), bytes, step->length);
		break;
	case STEP_MAD:
		if (step->length)
			receive_mad(world, step, bytes);
		break;
	case STEP_MEMORY:
		memory(world, bytes, step->length);
		break;
	case STEP_CLOSE:
		if (step->length)
			disconnect(world, bytes[0] % NODES, which);
		break;
	case STEP_RAW:
		take_answer(ask(connection(world, step->flags & STEP_OTHER_FILE ? RDMA_CM : UVERBS,
					   which, false),
				&part, 1, step),
			    &answer);
		while (answer.num_fds)
			close(answer.fds[--answer.num_fds]);
		break;
	case STEP_UMAD:
		if (step->length)
			umad(world, step, bytes);
		break;
	case STEP_KINDS:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world world = { .eventfd = -1 };
	uint8_t bytes[STEP_BYTES];
	struct step step;

	keep_client_alive();
	memset(world.fd, -1, sizeof(world.fd));
	while (size >= sizeof(step)) {
		memcpy(&step, data, sizeof(step));
		data += sizeof(step);
		size -= sizeof(step);
		if (step.length > size || step.length > sizeof(bytes))
			break;
		/* Of its own size, so that no step reads what is behind it. */
		memcpy(bytes, data, step.length);
		data += step.length;
		size -= step.length;
		take_step(&world, &step, bytes);
	}
	for (int node = 0; node < NODES; node++)
		for (unsigned int which = 0; which < 2; which++)
			disconnect(&world, node, which);
	return 0;
}
