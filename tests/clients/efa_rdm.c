/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libfabric's efa provider, reliable datagrams: tagged messages, of which one is expected and one is not,
 * and RMA writes and reads, of sizes that it carries by one message of the device, by some, and by reads
 * of its own. All data are checked, by who receives them.
 *
 *   efa_rdm                     waits for one client; prints its address; stays until SIGUSR1
 *   efa_rdm ADDRESS             the client
 *
 * Both print a line for each size, and then "done".
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "efa_must.h"

#define MOST ((size_t)200000)
#define TIME_LIMIT 60 /* seconds */

static const size_t sizes[] = { 1, 3000, 8000, 40000, MOST };

/* Where the server's memory is, and what its name is on the wire. */
struct hello {
	uint64_t base, key;
	uint8_t name[64];
	uint64_t name_size;
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_mr *mr;
static fi_addr_t peer;
static uint8_t
	*memory; /* what comes in, what goes out, and a byte for what only tells of something */

static void open_all(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };

	hints->fabric_attr->prov_name = strdup("efa");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_RMA | FI_MSG;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	must(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info));
	must(fi_fabric(info->fabric_attr, &fabric, NULL));
	must(fi_domain(fabric, info, &domain, NULL));
	must(fi_cq_open(domain, &cq_attr, &cq, NULL));
	must(fi_av_open(domain, &av_attr, &av, NULL));
	must(fi_endpoint(domain, info, &ep, NULL));
	must(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
	must(fi_ep_bind(ep, &av->fid, 0));
	must(fi_enable(ep));
	memory = calloc(1, 2 * MOST + 1);
	must(fi_mr_reg(domain, memory, 2 * MOST + 1,
		       FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		       0, 0, &mr, NULL));
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

static uint8_t byte(size_t i, unsigned int seed)
{
	return (uint8_t)(i * 31 + i / 251 + seed);
}

static void fill(uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		data[i] = byte(i, seed);
}

static void check(const char *what, const uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] != byte(i, seed)) {
			fprintf(stderr, "%s of %zu bytes: byte %zu is wrong\n", what, size, i);
			exit(1);
		}
}

static struct fi_context contexts[8];

/* Waits until so many operations have ended. */
static void wait_for(unsigned int count)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	time_t end = time(NULL) + TIME_LIMIT;

	while (count) {
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == 1) {
			count--;
		} else if (ret == -FI_EAVAIL) {
			fi_cq_readerr(cq, &error, 0);
			fprintf(stderr, "an operation fails: %s\n", fi_strerror(error.err));
			exit(1);
		} else if (ret != -FI_EAGAIN || time(NULL) > end) {
			fprintf(stderr, "nothing completes: %s\n", fi_strerror((int)-ret));
			exit(1);
		} else {
			sched_yield(); /* the other program and the devices may want this CPU */
		}
	}
}

/* Until it is taken: the provider may be busy with what came before. */
#define post(call)                                                                                 \
	do {                                                                                       \
		ssize_t posted_;                                                                   \
		while ((posted_ = (call)) == -FI_EAGAIN)                                           \
			fi_cq_read(cq, NULL, 0);                                                   \
		must(posted_);                                                                     \
	} while (0)

static void recv_tagged(uint64_t tag, uint8_t *to, size_t size, int context)
{
	post(fi_trecv(ep, to, size, fi_mr_desc(mr), FI_ADDR_UNSPEC, tag, 0, &contexts[context]));
}

static void send_tagged(uint64_t tag, size_t size, int context)
{
	post(fi_tsend(ep, memory + MOST, size, fi_mr_desc(mr), peer, tag, &contexts[context]));
}

/* It is over when the other side has it, and not when it was sent: what comes after it may pass it. */
static void write_out(size_t size, uint64_t base, uint64_t key)
{
	const struct iovec from = { memory + MOST, size };
	const struct fi_rma_iov to = { .addr = base, .len = size, .key = key };
	void *desc = fi_mr_desc(mr);
	const struct fi_msg_rma msg = { .msg_iov = &from,
					.desc = &desc,
					.iov_count = 1,
					.addr = peer,
					.rma_iov = &to,
					.rma_iov_count = 1,
					.context = &contexts[3] };

	post(fi_writemsg(ep, &msg, FI_DELIVERY_COMPLETE));
}

/* What either side does: the server answers. */
static void expect(uint64_t tag, uint8_t *to, size_t size, unsigned int seed)
{
	memset(to, 0, size);
	recv_tagged(tag, to, size, 0);
	wait_for(1);
	check("a tagged message", to, size, seed);
}

static void tell(uint64_t tag, size_t size, unsigned int seed)
{
	fill(memory + MOST, size, seed);
	send_tagged(tag, size, 1);
	wait_for(1);
}

static void serve(void)
{
	struct hello hello = { .base = (uintptr_t)memory, .key = fi_mr_key(mr) };
	size_t size = sizeof(hello.name);

	must(fi_getname(&ep->fid, hello.name, &size));
	for (size_t i = 0; i < size; i++)
		printf("%02x", hello.name[i]);
	printf(":%llx:%llx\n", (unsigned long long)hello.base, (unsigned long long)hello.key);
	fflush(stdout);
	recv_tagged(1, memory, sizeof(hello), 0);
	wait_for(1);
	memcpy(&hello, memory, sizeof(hello));
	if (fi_av_insert(av, hello.name, 1, &peer, 0, NULL) != 1)
		exit(1);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		expect(10 + i, memory, sizes[i], i);
		tell(20 + i, sizes[i], i + 1);
		/* It has written to the first half, and will read the second. */
		expect(40, memory + 2 * MOST, 1, 0);
		printf("%zu\n", sizes[i]);
	}
}

static void ask(const char *address)
{
	struct hello hello = { 0 }, own = { 0 };
	size_t size = sizeof(own.name), length = strcspn(address, ":");
	unsigned long long base, key;

	for (size_t i = 0; i < length / 2 && i < sizeof(hello.name); i++)
		sscanf(address + 2 * i, "%2hhx", &hello.name[i]);
	if (sscanf(address + length, ":%llx:%llx", &base, &key) != 2 ||
	    fi_av_insert(av, hello.name, 1, &peer, 0, NULL) != 1)
		exit(1);
	must(fi_getname(&ep->fid, own.name, &size));
	memcpy(memory + MOST, &own, sizeof(own));
	send_tagged(1, sizeof(own), 0);
	wait_for(1);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		tell(10 + i, sizes[i], i);
		expect(20 + i, memory, sizes[i], i + 1);
		/* What it has sent lies in its second half; the first is for us. */
		memset(memory, 0, sizes[i]);
		post(fi_read(ep, memory, sizes[i], fi_mr_desc(mr), peer, base + MOST, key,
			     &contexts[2]));
		wait_for(1);
		check("a read", memory, sizes[i], i + 1);
		fill(memory + MOST, sizes[i], i + 2);
		write_out(sizes[i], base, key);
		wait_for(1);
		memset(memory, 0, sizes[i]);
		post(fi_read(ep, memory, sizes[i], fi_mr_desc(mr), peer, base, key, &contexts[4]));
		wait_for(1);
		check("what was written", memory, sizes[i], i + 2);
		tell(40, 1, 0);
		printf("%zu\n", sizes[i]);
	}
}

int main(int argc, char *argv[])
{
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	open_all();
	if (argc > 1)
		ask(argv[1]);
	else
		serve();
	puts("done");
	fflush(stdout);
	/* Where the answer to the client's last message is lost, this QP has to be there for another one. */
	if (argc == 1)
		sigwait(&set, &number);
	return 0;
}
