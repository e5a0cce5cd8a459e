/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Every kind of UCP operation between two processes, with the data checked at both ends, for
 * ucx_perftest looks at none. UCX chooses the transport by its environment (UCX_TLS).
 *
 *	ucp_check poll|sleep [explicit|implicit]
 *
 * "sleep" waits on the worker's file descriptor, so on completion events of the device. The child
 * serves; the parent checks, and prints a line for each operation.
 *
 * With a third word the memory is paged on demand, and both sides drop and replace pages of it
 * between transfers: "explicit" has UCX register it so, "implicit" is for an environment in which
 * UCX registers the whole address space (UCX_IB_REG_METHODS=odp).
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define AREA (1 << 20) /* bytes of memory that the peer puts to and gets from */
#define WAIT_MS 20000
#define AM_ID 7
#define TAG_DATA 0x1000
#define TAG_SYNC 0x2000
#define TAG_DONE 0x3000

static const size_t sizes[] = { 1, 8, 200, 5000, 70000, AREA };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static int use_sleep, peer_socket;
static int on_demand, implicit;
static const char *who = "parent";

static void die(const char *what, ucs_status_t status)
{
	fprintf(stderr, "%s: %s: %s\n", who, what, ucs_status_string(status));
	exit(1);
}

static void check(const char *what, ucs_status_t status)
{
	if (status != UCS_OK)
		die(what, status);
}

/* One turn; sleeps until the device has something to tell, where that was asked for. */
static void progress(void)
{
	struct pollfd event = { .events = POLLIN };
	ucs_status_t status;

	if (ucp_worker_progress(worker) || !use_sleep)
		return;
	check("efd", ucp_worker_get_efd(worker, &event.fd));
	status = ucp_worker_arm(worker);
	if (status == UCS_ERR_BUSY)
		return;
	check("arm", status);
	if (poll(&event, 1, WAIT_MS) != 1)
		die("poll", UCS_ERR_TIMED_OUT);
}

static void finish(const char *what, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!request)
		return;
	if (UCS_PTR_IS_ERR(request))
		die(what, UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		progress();
	ucp_request_free(request);
	check(what, status);
}

static uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + seed * 29 + 1);
}

static void fill(uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		data[i] = pattern(i, seed);
}

static void expect(const char *what, const uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] != pattern(i, seed)) {
			fprintf(stderr, "%s: %s of %zu bytes: byte %zu is 0x%02x, not 0x%02x\n",
				who, what, size, i, data[i], pattern(i, seed));
			exit(1);
		}
	}
}

/* ---------------------------------------------------------------- out of band */

static void tell(const void *data, size_t size)
{
	uint64_t length = size;

	if (write(peer_socket, &length, sizeof(length)) != sizeof(length) ||
	    write(peer_socket, data, size) != (ssize_t)size)
		die("socket", UCS_ERR_IO_ERROR);
}

/* The peer may need our answers before it gets there, so the worker goes on meanwhile. */
static void hear_bytes(void *data, size_t size)
{
	struct pollfd ready = { .fd = peer_socket, .events = POLLIN };

	for (size_t done = 0; done < size;) {
		ssize_t got;

		while (!poll(&ready, 1, 1))
			ucp_worker_progress(worker);
		got = recv(peer_socket, (char *)data + done, size - done, 0);
		if (got <= 0)
			die("the peer is gone", UCS_ERR_IO_ERROR);
		done += (size_t)got;
	}
}

static void *hear(void)
{
	uint64_t length;
	char *data;

	hear_bytes(&length, sizeof(length));
	data = malloc(length);
	if (!data)
		die("message", UCS_ERR_NO_MEMORY);
	hear_bytes(data, length);
	return data;
}

/* ----------------------------------------------------------- messages, both ways */

static size_t am_received;
static uint8_t *am_data;
static void *am_descriptor; /* of a message whose data are still the sender's */

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data,
			  size_t length, const ucp_am_recv_param_t *param)
{
	(void)arg;
	if (header_length != sizeof(uint64_t) || *(const uint64_t *)header != length)
		die("am: the header is another one", UCS_ERR_INVALID_PARAM);
	am_received = length;
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		am_descriptor = data;
		return UCS_INPROGRESS;
	}
	memcpy(am_data, data, length);
	return UCS_OK;
}

static void send_tag(uint64_t tag, const void *data, size_t size, int sync)
{
	ucp_request_param_t param = { 0 };

	finish("tag send", sync ? ucp_tag_send_sync_nbx(ep, data, size, tag, &param)
				: ucp_tag_send_nbx(ep, data, size, tag, &param));
}

static void recv_tag(uint64_t tag, void *data, size_t size)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL };

	finish("tag receive", ucp_tag_recv_nbx(worker, data, size, tag, UINT64_MAX, &param));
}

static void send_am(const void *data, uint64_t size)
{
	ucp_request_param_t param = { 0 };

	finish("am send",
	       ucp_am_send_nbx(ep, AM_ID, &size, sizeof(size), data, (size_t)size, &param));
}

static void recv_am(size_t size)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL };

	while (am_received != size)
		progress();
	am_received = 0;
	if (am_descriptor)
		finish("am rendezvous",
		       ucp_am_recv_data_nbx(worker, am_descriptor, am_data, size, &param));
	am_descriptor = NULL;
}

static void send_stream(const void *data, size_t size)
{
	ucp_request_param_t param = { 0 };

	finish("stream send", ucp_stream_send_nbx(ep, data, size, &param));
}

/*
 * What has come already completes it at once: with UCP_OP_ATTR_FLAG_NO_IMM_CMPL UCX 1.18 gives a
 * request then that never completes, over any transport.
 */
static void recv_stream(void *data, size_t size)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
				      .flags = UCP_STREAM_RECV_FLAG_WAITALL };
	size_t length;

	finish("stream receive", ucp_stream_recv_nbx(ep, data, size, &length, &param));
}

/* To the peer and back, changed by one seed, so that no side can see its own data again. */
static void messages(int parent, uint8_t *out, uint8_t *in)
{
	for (unsigned int i = 0; i < SIZES; i++) {
		size_t size = sizes[i];

		for (int kind = 0; kind < 4; kind++) {
			unsigned int mine = 8 * i + 2 * (unsigned int)kind + (parent ? 0 : 1);

			memset(in, 0, size);
			fill(out, size, mine);
			for (int turn = 0; turn < 2; turn++) {
				int sends = turn == !parent;

				if (kind < 2 && sends)
					send_tag(kind ? TAG_SYNC : TAG_DATA, out, size, kind);
				else if (kind < 2)
					recv_tag(kind ? TAG_SYNC : TAG_DATA, in, size);
				else if (kind == 2 && sends)
					send_am(out, size);
				else if (kind == 2)
					recv_am(size);
				else if (sends)
					send_stream(out, size);
				else
					recv_stream(in, size);
			}
			expect("message", kind == 2 ? am_data : in, size, mine ^ 1);
		}
	}
}

/* ---------------------------------------------------------------- one-sided */

static void flush(void)
{
	ucp_request_param_t param = { 0 };

	finish("flush", ucp_ep_flush_nbx(ep, &param));
}

static void put_and_get(uint64_t remote, ucp_rkey_h rkey, uint8_t *out, uint8_t *in)
{
	ucp_request_param_t param = { 0 };

	for (unsigned int i = 0; i < SIZES; i++) {
		size_t size = sizes[i];

		fill(out, size, 100 + i);
		memset(in, 0, size);
		finish("put", ucp_put_nbx(ep, out, size, remote, rkey, &param));
		flush();
		finish("get", ucp_get_nbx(ep, in, size, remote, rkey, &param));
		expect("put and get", in, size, 100 + i);
	}
}

static uint64_t atomic(ucp_atomic_op_t op, uint64_t value, uint64_t swap, uint64_t remote,
		       ucp_rkey_h rkey, int fetch)
{
	uint64_t reply = swap;
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
				      .datatype = ucp_dt_make_contig(8) };

	if (fetch) {
		param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
		param.reply_buffer = &reply;
	}
	finish("atomic", ucp_atomic_op_nbx(ep, op, &value, 1, remote, rkey, &param));
	if (!fetch)
		flush();
	return reply;
}

static void expect_word(const char *what, uint64_t value, uint64_t expected)
{
	if (value != expected) {
		fprintf(stderr, "%s: %s: %llu, not %llu\n", who, what, (unsigned long long)value,
			(unsigned long long)expected);
		exit(1);
	}
}

/* The word is 0 at first. */
static void atomics(uint64_t remote, ucp_rkey_h rkey)
{
	for (uint64_t i = 0; i < 50; i++) {
		expect_word("fetch and add", atomic(UCP_ATOMIC_OP_ADD, i, 0, remote, rkey, 1),
			    i * i);
		atomic(UCP_ATOMIC_OP_ADD, i + 1, 0, remote, rkey, 0);
	}
	expect_word("swap", atomic(UCP_ATOMIC_OP_SWAP, 11, 0, remote, rkey, 1), 2500);
	expect_word("compare and swap, other value",
		    atomic(UCP_ATOMIC_OP_CSWAP, 12, 99, remote, rkey, 1), 11);
	expect_word("compare and swap", atomic(UCP_ATOMIC_OP_CSWAP, 11, 77, remote, rkey, 1), 11);
	expect_word("the last value", atomic(UCP_ATOMIC_OP_ADD, 0, 0, remote, rkey, 1), 77);
}

/* ---------------------------------------------------------------- on-demand paging */

#define PAGING_ROUNDS 12

/* Fresh pages, in place of what is there. */
static uint8_t *fresh(uint8_t *at, size_t size)
{
	at = mmap(at, size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
	if (at == MAP_FAILED)
		die("mmap", UCS_ERR_NO_MEMORY);
	return at;
}

static void expect_zeros(const char *what, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i]) {
			fprintf(stderr, "%s: %s: byte %zu is 0x%02x, not 0\n", who, what, i,
				data[i]);
			exit(1);
		}
	}
}

/* The server: what was put is there; then half of it goes, and one quarter has something new. */
static void drop_pages(uint8_t *area)
{
	tell("", 1); /* it has looked at what was there before */
	for (unsigned int round = 0; round < PAGING_ROUNDS; round++) {
		free(hear());
		expect("put into paged memory", area, AREA, 200 + round);
		if (round % 2)
			fresh(area + AREA / 2, AREA / 2);
		else if (madvise(area + AREA / 2, AREA / 2, MADV_DONTNEED))
			die("madvise", UCS_ERR_IO_ERROR);
		fill(area + AREA / 4 * 3, AREA / 4, 300 + round);
		tell("", 1);
	}
}

/* The peer: from and into pages that were never there before, at the same addresses. */
static void use_dropped_pages(uint64_t remote, ucp_rkey_h rkey)
{
	uint8_t *out = fresh(NULL, AREA), *in = fresh(NULL, AREA);
	ucp_request_param_t param = { 0 };

	free(hear());
	for (unsigned int round = 0; round < PAGING_ROUNDS; round++) {
		out = fresh(out, AREA);
		in = fresh(in, AREA);
		fill(out, AREA, 200 + round);
		finish("put", ucp_put_nbx(ep, out, AREA, remote, rkey, &param));
		flush();
		tell("", 1);
		free(hear());
		finish("get", ucp_get_nbx(ep, in, AREA, remote, rkey, &param));
		expect("pages that stayed", in, AREA / 2, 200 + round);
		expect_zeros("pages that were dropped", in + AREA / 2, AREA / 4);
		expect("pages that were dropped and stored to", in + AREA / 4 * 3, AREA / 4,
		       300 + round);
	}
	munmap(out, AREA);
	munmap(in, AREA);
}

/* ---------------------------------------------------------------- the two sides */

static void set_up(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
					    UCP_FEATURE_RMA | UCP_FEATURE_AMO64 };
	ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					      .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_am_handler_param_t am = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
						    UCP_AM_HANDLER_PARAM_FIELD_CB |
						    UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
				      .id = AM_ID,
				      .flags = UCP_AM_FLAG_WHOLE_MSG,
				      .cb = on_am };
	ucp_ep_params_t ep_params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_address_t *address;
	size_t length;

	if (use_sleep)
		params.features |= UCP_FEATURE_WAKEUP;
	check("init", ucp_init(&params, NULL, &context));
	check("worker", ucp_worker_create(context, &worker_params, &worker));
	check("am handler", ucp_worker_set_am_recv_handler(worker, &am));
	check("address", ucp_worker_get_address(worker, &address, &length));
	tell(address, length);
	ucp_worker_release_address(worker, address);
	ep_params.address = hear();
	check("endpoint", ucp_ep_create(worker, &ep_params, &ep));
	free((void *)ep_params.address);
}

static void tear_down(void)
{
	ucp_request_param_t param = { 0 };

	finish("close", ucp_ep_close_nbx(ep, &param));
	/* Whoever destroys its worker first answers no more. */
	tell("", 1);
	free(hear());
	ucp_worker_destroy(worker);
	/*
	 * Up to 1.14, UCX deregisters its implicit region through a function that expects another
	 * struct, and crashes there, on any device (openucx issue 8735): the device cleans up.
	 */
	if (!implicit)
		ucp_cleanup(context);
}

static void serve(uint8_t *out, uint8_t *in)
{
	uint8_t *area = fresh(NULL, AREA + 8);
	ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						      UCP_MEM_MAP_PARAM_FIELD_LENGTH |
						      UCP_MEM_MAP_PARAM_FIELD_FLAGS,
					.address = area,
					.length = AREA + 8,
					.flags = on_demand ? UCP_MEM_MAP_NONBLOCK : 0 };
	uint64_t address = (uintptr_t)area;
	ucp_mem_h memory;
	size_t length;
	void *key;
	char done;

	messages(0, out, in);
	check("map", ucp_mem_map(context, &params, &memory));
	check("pack", ucp_rkey_pack(context, memory, &key, &length));
	tell(&address, sizeof(address));
	tell(key, length);
	ucp_rkey_buffer_release(key);
	recv_tag(TAG_DONE, &done, 1);
	expect("put", area, AREA, 100 + SIZES - 1);
	if (on_demand)
		drop_pages(area);
	expect_word("the word of the atomics", *(uint64_t *)(area + AREA), 77);
	send_tag(TAG_DONE, &done, 1, 1);
	check("unmap", ucp_mem_unmap(context, memory));
	munmap(area, AREA + 8);
}

static void drive(uint8_t *out, uint8_t *in)
{
	uint64_t *address;
	ucp_rkey_h rkey;
	char done = 1;
	void *key;

	messages(1, out, in);
	puts("tag, sync, am, stream");
	address = hear();
	key = hear();
	check("rkey", ucp_ep_rkey_unpack(ep, key, &rkey));
	put_and_get(*address, rkey, out, in);
	puts("put, get");
	atomics(*address + AREA, rkey);
	puts("atomics");
	send_tag(TAG_DONE, &done, 1, 0);
	if (on_demand) {
		use_dropped_pages(*address, rkey);
		puts("dropped pages");
	}
	recv_tag(TAG_DONE, &done, 1);
	ucp_rkey_destroy(rkey);
	free(key);
	free(address);
}

int main(int argc, char *argv[])
{
	uint8_t *out = malloc(AREA), *in = malloc(AREA);
	int sockets[2], status = 0;
	pid_t child;

	implicit = argc == 3 && !strcmp(argv[2], "implicit");
	on_demand = implicit || (argc == 3 && !strcmp(argv[2], "explicit"));
	if (argc != 2 + on_demand || (strcmp(argv[1], "poll") && strcmp(argv[1], "sleep"))) {
		fprintf(stderr, "usage: ucp_check poll|sleep [explicit|implicit]\n");
		return 2;
	}
	use_sleep = !strcmp(argv[1], "sleep");
	am_data = malloc(AREA);
	if (!out || !in || !am_data || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		die("set-up", UCS_ERR_NO_MEMORY);
	child = fork();
	if (child < 0)
		die("fork", UCS_ERR_NO_RESOURCE);
	peer_socket = sockets[!child];
	close(sockets[!!child]);
	if (!child) {
		who = "child";
		alarm(60);
	}
	set_up();
	if (child)
		drive(out, in);
	else
		serve(out, in);
	tear_down();
	if (!child)
		return 0;
	if (waitpid(child, &status, 0) != child || status) {
		fprintf(stderr, "the child ended with status 0x%x\n", (unsigned int)status);
		return 1;
	}
	puts("both sides are done");
	return 0;
}
