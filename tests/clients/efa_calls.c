/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What libfabric's efa provider has of calls, one after the other, between two endpoints of this program; all
 * data are checked.
 *
 *   efa_calls efa           messages, tagged or not, whose receives are there or come later; in one buffer; with
 *                           data for the completion; copied at once; cancelled; RMA; atomics; counters
 *   efa_calls efa-direct    what the fabric of that name has, which has the device's own operations
 *
 * It prints a line for each call.
 */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "efa_must.h"

#define LONG ((size_t)100000) /* more than one message of the device */
#define SHORT ((size_t)3000)
#define TIME_LIMIT 60 /* seconds */
#define MOST 64	      /* completions that were not asked for yet */
#define DATA 0x12345678u
#define LEAST ((size_t)1024)

#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so: " #condition "\n", __LINE__);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct completion {
	struct fi_cq_tagged_entry entry;
	int error; /* enum of fi_errno.h */
};

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_cntr *sends, *recvs;
	struct fid_av *av;
	fi_addr_t peer;
	uint8_t *memory; /* 2 * LONG */
	struct fid_mr *mr;
	struct completion seen[MOST];
	unsigned int count;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct side a, b;
static bool direct;
static struct fi_context2 contexts[16];

/* ------------------------------------------------------------------------------- completions */

static void look(struct side *side)
{
	struct fi_cq_err_entry error = { 0 };
	struct completion *next = &side->seen[side->count];
	ssize_t ret;

	expect(side->count < MOST);
	ret = fi_cq_read(side->cq, &next->entry, 1);
	if (ret == 1) {
		next->error = 0;
		side->count++;
	} else if (ret == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1) {
		*next = (struct completion){ .entry.op_context = error.op_context,
					     .error = error.err };
		side->count++;
	}
}

static void look_at_both(time_t end)
{
	look(&a);
	look(&b);
	sched_yield(); /* the device may want this CPU */
	if (time(NULL) > end) {
		fprintf(stderr, "nothing completes\n");
		exit(1);
	}
}

/* The next completion of that context; NULL: what another side has begun. */
static struct completion next_of(struct side *side, const void *context)
{
	time_t end = time(NULL) + TIME_LIMIT;

	for (;; look_at_both(end))
		for (unsigned int i = 0; i < side->count; i++)
			if (side->seen[i].entry.op_context == context ||
			    (!context && side->seen[i].entry.flags & FI_REMOTE_CQ_DATA)) {
				struct completion found = side->seen[i];

				memmove(&side->seen[i], &side->seen[i + 1],
					(--side->count - i) * sizeof(found));
				return found;
			}
}

static struct fi_cq_tagged_entry done(struct side *side, unsigned int context)
{
	struct completion found = next_of(side, &contexts[context]);

	if (found.error) {
		fprintf(stderr, "operation %u fails: %s\n", context, fi_strerror(found.error));
		exit(1);
	}
	return found.entry;
}

/* Until it is taken: the provider may be busy with what came before. */
#define post(call)                                                                                 \
	do {                                                                                       \
		time_t end_ = time(NULL) + TIME_LIMIT;                                             \
		ssize_t posted_;                                                                   \
		while ((posted_ = (call)) == -FI_EAGAIN)                                           \
			look_at_both(end_);                                                        \
		must(posted_);                                                                     \
	} while (0)

/* -------------------------------------------------------------------------------------- data */

static void fill(uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static bool is_filled(const uint8_t *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] != (uint8_t)(i * 31 + i / 251 + seed))
			return false;
	return true;
}

/* What a sends lies in the second half of its memory, and what b gets in the first of its own. */
static uint8_t *from_a(size_t size, unsigned int seed)
{
	memset(b.memory, 0, size);
	fill(a.memory + LONG, size, seed);
	return a.memory + LONG;
}

static void *desc(const struct side *side)
{
	return fi_mr_desc(side->mr);
}

/* ------------------------------------------------------------------------------------- calls */

static void messages(size_t size)
{
	post(fi_recv(b.ep, b.memory, size, desc(&b), FI_ADDR_UNSPEC, &contexts[0]));
	post(fi_send(a.ep, from_a(size, 1), size, desc(&a), a.peer, &contexts[1]));
	done(&a, 1);
	expect(done(&b, 0).len == size);
	expect(is_filled(b.memory, size, 1));
	printf("message %zu\n", size);
}

static void data_of_completions(void)
{
	struct fi_cq_tagged_entry entry;

	post(fi_recv(b.ep, b.memory, SHORT, desc(&b), FI_ADDR_UNSPEC, &contexts[0]));
	post(fi_senddata(a.ep, from_a(SHORT, 2), SHORT, desc(&a), DATA, a.peer, &contexts[1]));
	done(&a, 1);
	entry = done(&b, 0);
	expect(entry.flags & FI_REMOTE_CQ_DATA && entry.data == DATA);
	expect(is_filled(b.memory, SHORT, 2));
	printf("senddata\n");
}

/* The buffer may be used again at once, and nothing completes. */
static void inject(void)
{
	uint8_t *data = from_a(32, 3);

	post(fi_recv(b.ep, b.memory, SHORT, desc(&b), FI_ADDR_UNSPEC, &contexts[0]));
	post(fi_inject(a.ep, data, 32, a.peer));
	memset(data, 0, 32);
	expect(done(&b, 0).len == 32);
	expect(is_filled(b.memory, 32, 3));
	printf("inject\n");
}

static void unexpected(size_t size)
{
	post(fi_tsend(a.ep, from_a(SHORT, 4), SHORT, desc(&a), a.peer, 4, &contexts[1]));
	done(&a, 1);
	/* Another tag is matched before. */
	fill(a.memory + LONG, size, 5);
	post(fi_tsend(a.ep, a.memory + LONG, size, desc(&a), a.peer, 5, &contexts[2]));
	for (int i = 0; i < 100; i++)
		look_at_both(time(NULL) + TIME_LIMIT);
	post(fi_trecv(b.ep, b.memory, size, desc(&b), FI_ADDR_UNSPEC, 5, 0, &contexts[3]));
	expect(done(&b, 3).tag == 5);
	expect(is_filled(b.memory, size, 5));
	done(&a, 2);
	post(fi_trecv(b.ep, b.memory, size, desc(&b), FI_ADDR_UNSPEC, 4, 0, &contexts[3]));
	expect(done(&b, 3).len == SHORT);
	expect(is_filled(b.memory, SHORT, 4));
	printf("unexpected %zu\n", size);
}

/*
 * One buffer for messages, one behind the other, until it has less than LEAST bytes left. That it is
 * free then is said by the last message's completion or, since libfabric 1.19, by one of its own.
 */
static void multi_recv(void)
{
	const struct iovec room = { b.memory, 4096 };
	void *b_desc = desc(&b);
	const struct fi_msg msg = { .msg_iov = &room,
				    .desc = &b_desc,
				    .iov_count = 1,
				    .addr = FI_ADDR_UNSPEC,
				    .context = &contexts[0] };
	bool is_free = false;

	post(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV));
	for (unsigned int i = 0; i < 4; i++) {
		fill(a.memory + LONG, 1000, 6 + i);
		post(fi_send(a.ep, a.memory + LONG, 1000, desc(&a), a.peer, &contexts[1]));
		done(&a, 1);
		struct fi_cq_tagged_entry entry = done(&b, 0);

		expect(entry.flags & FI_RECV && entry.buf == b.memory + i * 1000);
		expect(entry.len == 1000 && is_filled(entry.buf, 1000, 6 + i));
		is_free = entry.flags & FI_MULTI_RECV;
		expect(!is_free || i == 3);
	}
	expect(is_free || done(&b, 0).flags == FI_MULTI_RECV);
	printf("multi_recv\n");
}

static void cancel(void)
{
	post(fi_trecv(b.ep, b.memory, SHORT, desc(&b), FI_ADDR_UNSPEC, 77, 0, &contexts[4]));
	must(fi_cancel(&b.ep->fid, &contexts[4]));
	expect(next_of(&b, &contexts[4]).error == FI_ECANCELED);
	printf("cancel\n");
}

static void rma(size_t size)
{
	const uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;

	post(fi_write(a.ep, from_a(size, 8), size, desc(&a), a.peer, base, key, &contexts[1]));
	done(&a, 1);
	memset(a.memory, 0, size);
	post(fi_read(a.ep, a.memory, size, desc(&a), a.peer, base, key, &contexts[1]));
	done(&a, 1);
	expect(is_filled(a.memory, size, 8) && is_filled(b.memory, size, 8));
	printf("write and read %zu\n", size);
}

static void writedata(void)
{
	struct completion found;

	post(fi_writedata(a.ep, from_a(SHORT, 9), SHORT, desc(&a), DATA, a.peer,
			  (uintptr_t)b.memory, fi_mr_key(b.mr), &contexts[1]));
	found = next_of(&b, NULL);
	expect(!found.error && found.entry.flags & FI_RMA && found.entry.data == DATA);
	expect(is_filled(b.memory, SHORT, 9));
	done(&a, 1);
	printf("writedata\n");
}

static void atomics(void)
{
	uint64_t *number = (uint64_t *)b.memory, *here = (uint64_t *)a.memory;
	const uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;

	*number = 1000;
	here[0] = 234;
	post(fi_fetch_atomic(a.ep, &here[0], 1, desc(&a), &here[1], desc(&a), a.peer, base, key,
			     FI_UINT64, FI_SUM, &contexts[1]));
	done(&a, 1);
	expect(here[1] == 1000 && *number == 1234);
	here[0] = 5;
	here[2] = 1234;
	post(fi_compare_atomic(a.ep, &here[0], 1, desc(&a), &here[2], desc(&a), &here[1], desc(&a),
			       a.peer, base, key, FI_UINT64, FI_CSWAP, &contexts[1]));
	done(&a, 1);
	expect(here[1] == 1234 && *number == 5);
	printf("atomics\n");
}

/* --------------------------------------------------------------------------------- endpoints */

static void open_side(struct side *side)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP };
	const size_t least = LEAST;

	must(fi_av_open(domain, &av_attr, &side->av, NULL));
	must(fi_endpoint(domain, info, &side->ep, NULL));
	/* Since libfabric 2.0 it has no effect once the endpoint is enabled. */
	if (!direct)
		must(fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			       sizeof(least)));
	must(fi_cq_open(domain, &cq_attr, &side->cq, NULL));
	must(fi_ep_bind(side->ep, &side->cq->fid, FI_SEND | FI_RECV));
	must(fi_ep_bind(side->ep, &side->av->fid, 0));
	must(fi_cntr_open(domain, &cntr_attr, &side->sends, NULL));
	must(fi_cntr_open(domain, &cntr_attr, &side->recvs, NULL));
	must(fi_ep_bind(side->ep, &side->sends->fid, FI_SEND));
	must(fi_ep_bind(side->ep, &side->recvs->fid, FI_RECV));
	must(fi_enable(side->ep));
	side->memory = calloc(2, LONG);
	must(fi_mr_reg(domain, side->memory, 2 * LONG,
		       FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		       0, 0, &side->mr, NULL));
}

static void meet(struct side *side, const struct side *peer)
{
	uint8_t name[64], known[64];
	size_t size = sizeof(name), again = sizeof(known);

	must(fi_getname(&peer->ep->fid, name, &size));
	expect(fi_av_insert(side->av, name, 1, &side->peer, 0, NULL) == 1);
	must(fi_av_lookup(side->av, side->peer, known, &again));
	expect(again == size && !memcmp(name, known, size));
}

static void open_all(const char *name)
{
	struct fi_info *hints = fi_allocinfo();

	direct = !strcmp(name, "efa-direct");
	hints->fabric_attr->prov_name = strdup("efa");
	if (direct)
		hints->fabric_attr->name = strdup(name);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA | (direct ? 0 : FI_TAGGED | FI_ATOMIC);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	must(fi_fabric(info->fabric_attr, &fabric, NULL));
	must(fi_domain(fabric, info, &domain, NULL));
	open_side(&a);
	open_side(&b);
	meet(&a, &b);
	meet(&b, &a);
	fi_freeinfo(hints);
}

static void close_side(struct side *side)
{
	must(fi_av_remove(side->av, &side->peer, 1, 0));
	must(fi_close(&side->ep->fid));
	must(fi_close(&side->av->fid));
	must(fi_close(&side->mr->fid));
	must(fi_close(&side->sends->fid));
	must(fi_close(&side->recvs->fid));
	must(fi_close(&side->cq->fid));
	free(side->memory);
}

int main(int argc, char *argv[])
{
	open_all(argc > 1 ? argv[1] : "efa");
	messages(SHORT);
	data_of_completions();
	inject();
	if (!direct) {
		messages(LONG);
		unexpected(SHORT);
		unexpected(LONG);
		multi_recv();
		cancel();
		atomics();
	}
	rma(SHORT);
	rma(LONG);
	writedata();
	expect(fi_cntr_read(a.sends) == fi_cntr_read(b.recvs));
	printf("counters %llu\n", (unsigned long long)fi_cntr_read(a.sends));
	close_side(&a);
	close_side(&b);
	must(fi_close(&domain->fid));
	must(fi_close(&fabric->fid));
	fi_freeinfo(info);
	puts("done");
	return 0;
}
