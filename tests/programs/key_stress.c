/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keys are granted, used, abused and taken back at once by threads of several processes, for so
 * many seconds. The owning process grants parts of its memory for a moment, by each kind of key;
 * asking processes use what is granted, try a byte more than that, and try what was taken back. As
 * in tests/c/test_key_stress.c, but through libibverbs and a daemon:
 *
 *   no byte outside a granted range changes, ever;
 *   no byte changes once the key was taken back;
 *   no access succeeds that was posted after that.
 */
#include <fcntl.h>
#include <infiniband/simhcadv.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "helper.h"

enum kind { REGION, WINDOW_1, FAST, WINDOW_2 };

enum {
	ASKING = 2, /* processes; each has a link for every key of the PD, and a duet's */
	OWNERS = WINDOW_2 + ASKING,
	LINKS = 2 * ASKING,
	PAGE = 4096,
	PAGES = 16,
	SLOT = PAGES * PAGE,
	STRIPES = ASKING + 1, /* the last is that of the duets' askers */
	GUARD = 0xee,
	FRESH = 0xdd,
	ASKED = 0x10,
};

/* What an owner says of its key. */
struct grant {
	bool open, has_old;
	uint64_t epoch;
	uint32_t key, old_key;
	uint64_t va, length, old_va;
};

/* One connection, as both processes see it. */
struct link {
	_Atomic uint32_t qpn[2]; /* the asking QP, the owning one */
	_Atomic uint32_t broken; /* the asking side waits for the owning one to be connected anew */
	_Atomic uint32_t pause;	 /* the owner of a duet wants that */
	_Atomic uint32_t invalidate; /* the key of a SEND_WITH_INV that a duet's asker shall send */
	_Atomic uint32_t done, refused;
};

static struct shared {
	pthread_mutex_t lock; /* of grants and failure */
	struct grant grant[OWNERS];
	struct link link[LINKS];
	atomic_bool stop, stop_askers;
	char failure[256];
} * shared;

static struct ibv_context *context;
static struct ibv_pd *pd;

__attribute__((format(printf, 1, 2))) static void violated(const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&shared->lock);
	va_start(args, format);
	if (!shared->failure[0])
		vsnprintf(shared->failure, sizeof(shared->failure), format, args);
	va_end(args);
	pthread_mutex_unlock(&shared->lock);
	atomic_store(&shared->stop, true);
}

static uint32_t dice(uint64_t *seed, uint32_t sides)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % sides;
}

/* A QP with a CQ of its own. */
struct port {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct port new_port(void)
{
	struct port port = { .cq = ibv_create_cq(context, 64, NULL, NULL, 0) };

	CHECK(port.cq);
	port.qp = make_qp(pd, port.cq, IBV_QPT_RC);
	return port;
}

static void restart(struct port *port, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK(!ibv_modify_qp(port->qp, &attr, IBV_QP_STATE));
	start_qp(port->qp, peer);
}

/* Nobody needs them, but they should not pile up. */
static void forget_events(void)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

/* ------------------------------------------------------------------------- the owning process */

struct owner {
	enum kind kind;
	struct grant *grant;
	struct link *link; /* a duet's */
	struct port port;
	uint8_t *slot, *copy;
	struct ibv_mr *base, *mr;
	struct ibv_mw *mw;
	struct simhcadv_page_list *list;
	uint64_t pages[PAGES];
	uint32_t key;
	uint64_t va, length, offset;
	uint64_t seed, id;
	unsigned int rounds;
	pthread_t thread;
};

static uint8_t *granted_byte(const struct owner *owner, uint64_t n)
{
	uint64_t at = owner->offset + n;

	if (owner->kind != FAST)
		return owner->slot + at;
	return (uint8_t *)(uintptr_t)owner->pages[at / PAGE] + at % PAGE;
}

/* Waits for the work request posted last; false if a duet's QP has failed. */
static bool completed(struct owner *owner)
{
	struct ibv_wc wc = poll_one(owner->port.cq);

	if (wc.status == IBV_WC_SUCCESS && wc.wr_id == owner->id)
		return true;
	if (owner->kind != WINDOW_2 || wc.status != IBV_WC_WR_FLUSH_ERR)
		violated("owner %d: %s, vendor_err %u", owner->kind, ibv_wc_status_str(wc.status),
			 wc.vendor_err);
	return false;
}

static bool post_and_wait(struct owner *owner, struct ibv_send_wr *wr)
{
	wr->wr_id = ++owner->id;
	wr->send_flags = IBV_SEND_SIGNALED;
	CHECK(!post_send(owner->port.qp, wr));
	return completed(owner);
}

static bool bind_window(struct owner *owner, uint64_t length)
{
	struct ibv_mw_bind_info info = { .mr = length ? owner->base : NULL,
					 .addr = length ? owner->va : 0,
					 .length = length,
					 .mw_access_flags = length ? FULL_ACCESS & ~1u : 0 };
	struct ibv_mw_bind bind = { .wr_id = ++owner->id,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = info };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	if (owner->kind == WINDOW_1) {
		CHECK(!ibv_bind_mw(owner->port.qp, owner->mw, &bind));
		owner->key = owner->mw->rkey;
		return completed(owner);
	}
	owner->key = ibv_inc_rkey(owner->key);
	wr.bind_mw.mw = owner->mw;
	wr.bind_mw.rkey = owner->key;
	wr.bind_mw.bind_info = info;
	return post_and_wait(owner, &wr);
}

static bool register_pages(struct owner *owner)
{
	struct simhcadv_fast_reg_wr wr = { .wr_id = ++owner->id, .send_flags = IBV_SEND_SIGNALED },
				    *bad;

	CHECK(!simhcadv_update_key(owner->mr, (uint8_t)(owner->mr->rkey + 1)));
	owner->key = owner->mr->rkey;
	memcpy(owner->list->page_list, owner->pages, PAGES / 2 * sizeof(owner->pages[0]));
	wr.fast_reg = (struct simhcadv_fast_reg){ .iova_start = owner->va,
						  .page_list = owner->list,
						  .page_list_len = PAGES / 2,
						  .page_shift = 12,
						  .length = owner->length,
						  .access = FULL_ACCESS,
						  .rkey = owner->key };
	CHECK(!simhcadv_post_fast_reg(owner->port.qp, &wr, &bad));
	return completed(owner);
}

static bool grant_key(struct owner *owner)
{
	owner->va = (uintptr_t)owner->slot + owner->offset;
	switch (owner->kind) {
	case REGION:
		owner->mr = ibv_reg_mr(pd, owner->slot + owner->offset, owner->length, FULL_ACCESS);
		CHECK(owner->mr);
		owner->key = owner->mr->rkey;
		return true;
	case FAST:
		owner->va = 0x10000000 + owner->offset;
		return register_pages(owner);
	default:
		return bind_window(owner, owner->length);
	}
}

static bool invalidate(struct owner *owner)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = owner->key };

	return post_and_wait(owner, &wr);
}

static bool invalidated_by_peer(struct owner *owner)
{
	struct ibv_wc wc;

	CHECK(!post_recv(owner->port.qp, ++owner->id, owner->base, 0, 0));
	atomic_store(&owner->link->invalidate, owner->key);
	wc = poll_one(owner->port.cq);
	if (wc.status == IBV_WC_SUCCESS && wc.invalidated_rkey != owner->key)
		violated("key 0x%x was invalidated instead of 0x%x", wc.invalidated_rkey,
			 owner->key);
	return wc.status == IBV_WC_SUCCESS;
}

static void replace_window(struct owner *owner)
{
	enum ibv_mw_type type = owner->mw->type;

	CHECK(!ibv_dealloc_mw(owner->mw));
	owner->mw = ibv_alloc_mw(pd, type);
	CHECK(owner->mw);
	owner->key = owner->mw->rkey;
}

/* In one of the ways there are; true: it has completed. */
static bool take_back(struct owner *owner)
{
	uint32_t way = dice(&owner->seed, owner->kind == WINDOW_2 ? 4 : 2);

	switch (owner->kind) {
	case REGION:
		CHECK(!ibv_dereg_mr(owner->mr));
		return true;
	case FAST:
		return invalidate(owner);
	case WINDOW_1:
		if (way)
			return bind_window(owner, 0);
		replace_window(owner);
		return true;
	default:
		if (way < 2)
			return way ? invalidate(owner) : invalidated_by_peer(owner);
		if (way == 2)
			replace_window(owner);
		return way == 2; /* 3: by a reset of the QP */
	}
}

static void publish(struct owner *owner, bool open)
{
	struct grant *grant = owner->grant;

	pthread_mutex_lock(&shared->lock);
	grant->open = open;
	if (open) {
		grant->epoch++;
		grant->key = owner->key;
		grant->va = owner->va;
		grant->length = owner->length;
	} else {
		grant->has_old = grant->epoch;
		grant->old_key = grant->key;
		grant->old_va = grant->va;
	}
	pthread_mutex_unlock(&shared->lock);
}

static void check_memory(struct owner *owner)
{
	for (uint64_t n = 0; n < owner->length; n++) {
		uint8_t byte = *granted_byte(owner, n);

		if (byte != FRESH && byte != ASKED + n * STRIPES / owner->length)
			violated("owner %d: byte %llu of %llu is 0x%x", owner->kind,
				 (unsigned long long)n, (unsigned long long)owner->length, byte);
		owner->copy[n] = byte;
	}
	for (uint32_t i = dice(&owner->seed, 20); i; i--)
		sched_yield();
	for (uint64_t n = 0; n < owner->length; n++) {
		if (*granted_byte(owner, n) != owner->copy[n])
			violated("owner %d: a byte has changed after the key was taken back",
				 owner->kind);
		*granted_byte(owner, n) = GUARD;
	}
	for (uint64_t at = 0; at < SLOT; at++)
		if (owner->slot[at] != GUARD)
			violated("owner %d: byte %llu outside the grant has changed", owner->kind,
				 (unsigned long long)at);
}

/* The owning side of a link is connected anew, while the asking one waits. */
static void mend(struct link *link, struct port *port)
{
	atomic_store(&link->pause, 1);
	while (!atomic_load(&link->broken) && !atomic_load(&shared->stop_askers))
		usleep(20);
	restart(port, atomic_load(&link->qpn[0]));
	atomic_store(&link->invalidate, 0);
	atomic_store(&link->pause, 0);
	atomic_store(&link->broken, 0);
}

static void shuffle_pages(struct owner *owner)
{
	for (uint32_t i = 0; i < PAGES; i++)
		owner->pages[i] = (uintptr_t)owner->slot + i * PAGE;
	for (uint32_t i = 0; i < PAGES; i++) {
		uint32_t other = i + dice(&owner->seed, PAGES - i);
		uint64_t page = owner->pages[i];

		owner->pages[i] = owner->pages[other];
		owner->pages[other] = page;
	}
}

static void round_of(struct owner *owner)
{
	bool taken = false;

	shuffle_pages(owner);
	owner->length = STRIPES + dice(&owner->seed, SLOT / 2 - PAGE);
	owner->offset = dice(&owner->seed, owner->kind == FAST ? PAGE : SLOT / 2);
	for (uint64_t n = 0; n < owner->length; n++)
		*granted_byte(owner, n) = FRESH;
	if (grant_key(owner)) {
		publish(owner, true);
		usleep(dice(&owner->seed, 500));
		if (owner->mw && !dice(&owner->seed, 8))
			CHECK(ibv_dereg_mr(owner->base) == EBUSY);
		taken = take_back(owner);
	}
	if (owner->link && (!taken || atomic_load(&owner->link->broken)))
		mend(owner->link, &owner->port);
	publish(owner, false);
	check_memory(owner);
	owner->rounds++;
}

static void *owner_thread(void *arg)
{
	while (!atomic_load(&shared->stop))
		round_of(arg);
	return NULL;
}

/* The owning sides of the links that serve every key of the PD. */
static void *server_thread(void *arg)
{
	struct port *ports = arg;

	while (!atomic_load(&shared->stop_askers)) {
		for (int i = 0; i < ASKING; i++)
			if (atomic_load(&shared->link[i].broken))
				mend(&shared->link[i], &ports[i]);
		forget_events();
		usleep(50);
	}
	return NULL;
}

static void owner_make(struct owner *owner, int number)
{
	owner->kind = number < WINDOW_2 ? (enum kind)number : WINDOW_2;
	owner->grant = &shared->grant[number];
	owner->seed = 1000 + (uint64_t)number;
	owner->slot = aligned_alloc(PAGE, SLOT);
	owner->copy = malloc(SLOT);
	CHECK(owner->slot && owner->copy);
	memset(owner->slot, GUARD, SLOT);
	owner->base = ibv_reg_mr(pd, owner->slot, SLOT, FULL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(owner->base);
	owner->port = new_port();
	if (owner->kind == FAST) {
		owner->mr = simhcadv_alloc_mr(pd, PAGES / 2);
		owner->list = simhcadv_alloc_page_list(context, PAGES / 2);
		CHECK(owner->mr && owner->list);
	}
	if (owner->kind == WINDOW_1 || owner->kind == WINDOW_2) {
		owner->mw =
			ibv_alloc_mw(pd, owner->kind == WINDOW_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		CHECK(owner->mw);
		owner->key = owner->mw->rkey;
	}
	if (owner->kind == WINDOW_2) {
		owner->link = &shared->link[ASKING + number - WINDOW_2];
		atomic_store(&owner->link->qpn[1], owner->port.qp->qp_num);
	} else {
		start_qp(owner->port.qp, owner->port.qp->qp_num);
	}
}

/* ------------------------------------------------------------------------- an asking process */

enum attempt { WITHIN, BEYOND, STALE, FOREIGN };

struct asker {
	struct link *link;
	struct port port;
	struct ibv_mr *mr;
	uint8_t *memory;
	int stripe, only; /* the owner that it talks to; -1: all */
	uint64_t seed;
	pthread_t thread;
};

static bool compose(struct asker *asker, const struct grant *grant, enum attempt attempt,
		    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	uint64_t stripe = (uint64_t)asker->stripe;
	uint64_t from = (stripe * grant->length + STRIPES - 1) / STRIPES;
	uint64_t to = ((stripe + 1) * grant->length + STRIPES - 1) / STRIPES;

	wr->wr.rdma.rkey = grant->key;
	wr->wr.rdma.remote_addr = grant->va + from;
	sge->length = (uint32_t)(to - from);
	if (attempt == BEYOND) {
		wr->wr.rdma.remote_addr =
			dice(&asker->seed, 2) ? grant->va + grant->length - 7 : grant->va - 1;
		sge->length = 8;
	}
	if (attempt != STALE)
		return grant->open && to > from;
	wr->wr.rdma.rkey = grant->old_key;
	wr->wr.rdma.remote_addr = grant->old_va;
	sge->length = 1;
	return grant->has_old && !(grant->open && grant->key == grant->old_key);
}

/* A snapshot of what an owner says. */
static struct grant grant_of(int owner)
{
	struct grant grant;

	pthread_mutex_lock(&shared->lock);
	grant = shared->grant[owner];
	pthread_mutex_unlock(&shared->lock);
	return grant;
}

static void check_success(struct asker *asker, int owner, enum attempt attempt, uint64_t epoch,
			  uint32_t length)
{
	static const char *const what[] = { "", "beyond the grant", "after it was taken back",
					    "by a window of another QP" };

	for (uint32_t n = 0; attempt == WITHIN && n < length; n++)
		if (asker->memory[n] != FRESH && asker->memory[n] != ASKED + asker->stripe)
			violated("a byte was read that was not granted: 0x%x", asker->memory[n]);
	/* A key comes again after 256 grants, and a process can be asleep for longer. */
	if (attempt != WITHIN && grant_of(owner).epoch - epoch < 100)
		violated("an access to owner %d has succeeded %s", owner, what[attempt]);
}

/* True if the QPs are good after it. */
static bool try_access(struct asker *asker)
{
	int owner = asker->only >= 0	     ? asker->only
		    : dice(&asker->seed, 16) ? (int)dice(&asker->seed, WINDOW_2)
					     : (int)dice(&asker->seed, OWNERS);
	uint32_t choice = dice(&asker->seed, 16);
	enum attempt attempt = owner >= WINDOW_2 && asker->only < 0 ? FOREIGN
			       : choice == 0			    ? BEYOND
			       : choice == 1			    ? STALE
								    : WITHIN;
	struct ibv_sge sge = { .addr = (uintptr_t)asker->memory, .lkey = asker->mr->lkey };
	struct ibv_send_wr wr = { .opcode = dice(&asker->seed, 4) ? IBV_WR_RDMA_WRITE
								  : IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct grant grant = grant_of(owner);

	if (!compose(asker, &grant, attempt, &wr, &sge)) {
		usleep(10);
		return true;
	}
	memset(asker->memory, ASKED + asker->stripe, sge.length);
	CHECK(!post_send(asker->port.qp, &wr));
	if (poll_one(asker->port.cq).status != IBV_WC_SUCCESS) {
		atomic_fetch_add(&asker->link->refused, 1);
		return false;
	}
	atomic_fetch_add(&asker->link->done, 1);
	check_success(asker, owner, attempt, grant.epoch, sge.length);
	return true;
}

static bool send_invalidation(struct asker *asker, uint32_t key)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = key };

	CHECK(!post_send(asker->port.qp, &wr));
	return poll_one(asker->port.cq).status == IBV_WC_SUCCESS;
}

static void *asker_thread(void *arg)
{
	struct asker *asker = arg;
	struct link *link = asker->link;

	while (!atomic_load(&shared->stop_askers)) {
		uint32_t key = atomic_exchange(&link->invalidate, 0);

		if (!atomic_load(&link->pause) &&
		    (key ? send_invalidation(asker, key) : try_access(asker)))
			continue;
		atomic_store(&link->broken, 1);
		while (atomic_load(&link->broken) && !atomic_load(&shared->stop_askers))
			usleep(20);
		restart(&asker->port, atomic_load(&link->qpn[1]));
		forget_events();
	}
	return NULL;
}

static void open_device_and_pd(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	CHECK(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
}

/* One process: a link to all keys, and a duet's. */
static int ask(int number)
{
	struct asker askers[2] = {
		{ .link = &shared->link[number], .stripe = number, .only = -1 },
		{ .link = &shared->link[ASKING + number],
		  .stripe = ASKING,
		  .only = WINDOW_2 + number },
	};

	open_device_and_pd();
	for (int i = 0; i < 2; i++) {
		askers[i].seed = 2000 + (uint64_t)(2 * number + i);
		askers[i].memory = malloc(SLOT);
		askers[i].mr = ibv_reg_mr(pd, askers[i].memory, SLOT, IBV_ACCESS_LOCAL_WRITE);
		CHECK(askers[i].memory && askers[i].mr);
		askers[i].port = new_port();
		atomic_store(&askers[i].link->broken, 1);
		atomic_store(&askers[i].link->qpn[0], askers[i].port.qp->qp_num);
	}
	for (int i = 0; i < 2; i++) {
		while (atomic_load(&askers[i].link->broken) && !atomic_load(&shared->stop_askers))
			usleep(100);
		restart(&askers[i].port, atomic_load(&askers[i].link->qpn[1]));
		CHECK(!pthread_create(&askers[i].thread, NULL, asker_thread, &askers[i]));
	}
	for (int i = 0; i < 2; i++)
		pthread_join(askers[i].thread, NULL);
	return 0;
}

/* -------------------------------------------------------------------------------------- all */

static void make_shared(void)
{
	pthread_mutexattr_t attr;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &attr);
}

static void wait_for_askers(void)
{
	double end = now() + 30;

	for (int i = 0; i < LINKS; i++)
		while (!atomic_load(&shared->link[i].qpn[0])) {
			CHECK(now() < end);
			usleep(1000);
		}
}

static void own(double seconds)
{
	static struct owner owners[OWNERS];
	static struct port ports[ASKING];
	pthread_t server;
	double end;

	open_device_and_pd();
	for (int i = 0; i < ASKING; i++) {
		ports[i] = new_port();
		atomic_store(&shared->link[i].qpn[1], ports[i].qp->qp_num);
	}
	for (int i = 0; i < OWNERS; i++)
		owner_make(&owners[i], i);
	wait_for_askers();
	for (int i = WINDOW_2; i < OWNERS; i++)
		mend(owners[i].link, &owners[i].port);
	CHECK(!pthread_create(&server, NULL, server_thread, ports));
	for (int i = 0; i < OWNERS; i++)
		CHECK(!pthread_create(&owners[i].thread, NULL, owner_thread, &owners[i]));
	for (end = now() + seconds; now() < end && !atomic_load(&shared->stop);)
		usleep(10000);
	atomic_store(&shared->stop, true);
	for (int i = 0; i < OWNERS; i++)
		pthread_join(owners[i].thread, NULL);
	atomic_store(&shared->stop_askers, true);
	pthread_join(server, NULL);
	for (int i = 0; i < OWNERS; i++)
		printf("owner of kind %d: %u rounds\n", owners[i].kind, owners[i].rounds);
}

int main(int argc, char **argv)
{
	pid_t child[ASKING];
	int status;

	make_shared();
	for (int i = 0; i < ASKING; i++) {
		child[i] = fork();
		CHECK(child[i] >= 0);
		if (!child[i])
			return ask(i);
	}
	own(argc > 1 ? atof(argv[1]) : 2);
	for (int i = 0; i < ASKING; i++)
		CHECK(waitpid(child[i], &status, 0) == child[i] && !status);
	for (int i = 0; i < LINKS; i++)
		printf("link %d: %u accesses, %u refused\n", i, atomic_load(&shared->link[i].done),
		       atomic_load(&shared->link[i].refused));
	if (shared->failure[0])
		fprintf(stderr, "%s\n", shared->failure);
	return shared->failure[0] ? 1 : 0;
}
