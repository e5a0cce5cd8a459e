/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keys are granted, used, abused and revoked by many threads at once, for two seconds, or a minute
 * with SIMHCA_SOAK=1. Owners grant a part of their memory for a moment, by each kind of key, and
 * revoke it in each way there is; askers use what is granted, try a byte more than that, and try
 * what was revoked. The rules:
 *
 *   no byte outside a granted range changes, ever;
 *   no byte changes once the revocation has completed;
 *   no access succeeds that was posted after that.
 *
 * Askers write to parts of their own, as two writes to the same byte at once have no order.
 */
#include <sched.h>

#include "dma/dma.h"
#include "harness.h"

enum kind { REGION, WINDOW_1, FAST, WINDOW_2, KINDS };

enum {
	ASKERS = 2, /* that use the keys of every QP of the PD; each type 2 window has one more */
	DUETS = 2,
	OWNERS = WINDOW_2 + DUETS,
	PAGE = 4096,
	PAGES = 64,
	LISTED = PAGES / 2, /* pages of a fast-register region */
	SLOT = PAGES * PAGE,
	STRIPES = ASKERS + 1,
	GUARD = 0xee, /* what lies around a granted range */
	FRESH = 0xdd, /* and what in it, until somebody writes */
	ASKED = 0x10, /* and what askers write: this and their number */
};

#define FAST_BASE 0x10000000ull
#define LONGEST 100 /* seconds that a short run may take on a busy machine */

/* What an owner says of its key; under the lock of the stress. */
struct grant {
	bool open;
	uint64_t epoch; /* counts grants */
	uint32_t key;
	uint64_t va, length;
	uint32_t old_key; /* of the grant before, whose revocation has completed */
	uint64_t old_va;
	bool has_old;
};

struct stress;

/* QPs: b is the owners', a asks. */
struct link {
	struct stress *stress;
	struct pair *pair;
	atomic_bool pause;  /* a duet's owner wants to mend it */
	atomic_bool broken; /* its asker waits until that is done */
	_Atomic uint32_t please_invalidate;
	uint64_t seed;
	int number; /* of the asker: its stripe */
	struct owner *only;
	_Atomic unsigned int done, refused;
	pthread_t thread;
};

struct owner {
	struct stress *stress;
	enum kind kind;
	uint8_t *slot, *copy;
	uint64_t *pages; /* a fast-register region's */
	struct mr *base; /* all of the slot, for windows */
	struct mr *mr;	 /* what is granted, or */
	struct mw *mw;
	struct link *link; /* work requests go to its b */
	struct grant grant;
	uint32_t key; /* what grant says once it is published */
	uint64_t va, length;
	uint64_t offset; /* of the grant in the slot, or in the pages */
	uint64_t seed;
	uint64_t id;
	_Atomic unsigned int rounds;
	unsigned int ways[4];
	pthread_t thread;
};

struct stress {
	pthread_mutex_t lock;	      /* of all grants */
	pthread_mutex_t control_lock; /* control functions take turns */
	struct client *owning, *asking;
	struct owner owner[OWNERS];
	struct link asker[ASKERS], duet[DUETS], control;
	atomic_bool stop;	 /* owners, and then */
	atomic_bool stop_askers; /* those who serve them */
	char failure[256];
};

static void violated(struct stress *stress, const char *what, const struct owner *owner)
{
	pthread_mutex_lock(&stress->lock);
	if (!stress->failure[0])
		snprintf(stress->failure, sizeof(stress->failure),
			 "%s (owner of kind %d, round %u, %llu bytes at %llu)", what,
			 owner ? (int)owner->kind : -1, owner ? owner->rounds : 0,
			 owner ? (unsigned long long)owner->length : 0,
			 owner ? (unsigned long long)owner->offset : 0);
	pthread_mutex_unlock(&stress->lock);
	atomic_store(&stress->stop, true);
}

/* ------------------------------------------------------------------------------- links */

static void control(struct stress *stress)
{
	pthread_mutex_lock(&stress->control_lock);
}

static void control_end(struct stress *stress)
{
	pthread_mutex_unlock(&stress->control_lock);
}

static void forget_completions(struct cq *cq)
{
	struct simhca_cqe cqe;

	while (cq_poll(cq, &cqe))
		;
}

static void mend(struct link *link)
{
	control(link->stress);
	assert_int_equal(0, qp_move(link->pair->a.qp, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(link->pair->b.qp, IBV_QPS_RESET));
	forget_completions(link->pair->a.send_cq);
	forget_completions(link->pair->b.send_cq);
	forget_completions(link->pair->b.recv_cq);
	pair_connect(link->pair);
	control_end(link->stress);
}

static void link_make(struct link *link, struct stress *stress, uint64_t seed)
{
	struct options options = default_options(IBV_QPT_RC);

	options.buffer = SLOT;
	options.timeout = 8;
	options.retry_cnt = 1;
	link->stress = stress;
	link->seed = seed;
	link->pair = world_alloc(stress->owning->world, sizeof(*link->pair));
	side_make(&link->pair->a, stress->asking, &options, NULL);
	side_make(&link->pair->b, stress->owning, &options, NULL);
	link->pair->a.peer = &link->pair->b;
	link->pair->b.peer = &link->pair->a;
	pair_connect(link->pair);
}

/* ------------------------------------------------------------------------------- owners */

static uint32_t dice(uint64_t *seed, uint32_t sides)
{
	return test_random(seed) % sides;
}

/* Where byte n of what is granted lies. */
static uint8_t *granted_byte(const struct owner *owner, uint64_t n)
{
	uint64_t at = owner->offset + n;

	if (owner->kind != FAST)
		return owner->slot + at;
	return (uint8_t *)(uintptr_t)owner->pages[at / PAGE] + at % PAGE;
}

/* Waits for the owner's work request; false if the QP has failed, which only a duet's does. */
static bool completed(struct owner *owner)
{
	struct simhca_cqe cqe;

	if (!cq_wait(owner->link->pair->b.send_cq, &cqe)) {
		violated(owner->stress, "a work request of the owner has not completed", owner);
		return false;
	}
	if (cqe.status == IBV_WC_SUCCESS && cqe.wr_id == owner->id)
		return true;
	if (owner->kind != WINDOW_2 || cqe.status != IBV_WC_WR_FLUSH_ERR)
		violated(owner->stress, simhca_reason_text(cqe.vendor_err), owner);
	return false;
}

/* Some of the slot's pages, in any order; returns their bytes. */
static uint64_t pick_pages(struct owner *owner)
{
	for (uint32_t i = 0; i < PAGES; i++)
		owner->pages[i] = (uintptr_t)owner->slot + (uint64_t)i * PAGE;
	for (uint32_t i = 0; i < LISTED; i++) {
		uint32_t other = i + dice(&owner->seed, PAGES - i);
		uint64_t page = owner->pages[i];

		owner->pages[i] = owner->pages[other];
		owner->pages[other] = page;
	}
	return (uint64_t)LISTED * PAGE;
}

/* Makes the key valid; false if the QP fails. */
static bool open_key(struct owner *owner)
{
	struct client *client = owner->stress->owning;
	uint64_t iova, length = owner->length;

	switch (owner->kind) {
	case REGION:
		control(owner->stress);
		owner->mr = mr_over(client, client->pd, owner->slot + owner->offset, length,
				    (uintptr_t)owner->slot + owner->offset, ALL_ACCESS);
		control_end(owner->stress);
		owner->key = owner->mr->rkey;
		owner->va = owner->mr->iova;
		return true;
	case FAST:
		iova = FAST_BASE + owner->offset;
		qp_fast_reg(owner->link->pair->b.qp, ++owner->id, owner->mr, owner->pages, LISTED,
			    iova, length, ALL_ACCESS);
		owner->key = owner->mr->rkey;
		owner->va = iova;
		return completed(owner);
	default:
		qp_bind(owner->link->pair->b.qp, ++owner->id, owner->mw, owner->base, owner->offset,
			length, ALL_ACCESS & ~SIMHCA_ACCESS_LOCAL_WRITE);
		owner->key = owner->mw->rkey;
		owner->va = owner->base->iova + owner->offset;
		return completed(owner);
	}
}

static bool invalidate_locally(struct owner *owner)
{
	qp_local_inv(owner->link->pair->b.qp, ++owner->id, owner->key);
	return completed(owner);
}

/* By the peer's SEND_WITH_INV, for which its thread is asked. */
static bool invalidate_remotely(struct owner *owner)
{
	struct side *side = &owner->link->pair->b;
	struct simhca_cqe cqe;

	recv_into(side, ++owner->id, 0, 64);
	atomic_store(&owner->link->please_invalidate, owner->key);
	if (!cq_wait(side->recv_cq, &cqe)) {
		violated(owner->stress, "no message came to invalidate the key", owner);
		return false;
	}
	if (cqe.status == IBV_WC_SUCCESS && cqe.imm_or_rkey != owner->key)
		violated(owner->stress, "another key was invalidated", owner);
	return cqe.status == IBV_WC_SUCCESS;
}

static void dealloc_window(struct owner *owner)
{
	struct client *client = owner->stress->owning;
	uint32_t type = owner->mw->type;

	control(owner->stress);
	mw_gone(owner->mw);
	owner->mw = mw_new(client, client->pd, type);
	control_end(owner->stress);
}

/* In one of the ways there are; true: it has completed. */
static bool take_back(struct owner *owner, uint32_t way)
{
	owner->ways[way]++;
	switch (owner->kind) {
	case REGION:
		control(owner->stress);
		if (mr_gone(owner->mr))
			violated(owner->stress, "dereg_mr has failed", owner);
		control_end(owner->stress);
		return true;
	case FAST:
		return invalidate_locally(owner);
	case WINDOW_1:
		if (way == 0) { /* unbound */
			qp_bind(owner->link->pair->b.qp, ++owner->id, owner->mw, NULL, 0, 0, 0);
			return completed(owner);
		}
		dealloc_window(owner);
		return true;
	default:
		if (way == 0)
			return invalidate_locally(owner);
		if (way == 1)
			return invalidate_remotely(owner);
		if (way == 2)
			dealloc_window(owner);
		return way == 2; /* 3: by a reset of the QP */
	}
}

/* While a window is bound its region stays. */
static void check_busy(struct owner *owner)
{
	control(owner->stress);
	if (patiently(simhca_dereg_mr(owner->stress->owning->context, owner->base->handle, NULL)) !=
	    -EBUSY)
		violated(owner->stress, "a region with a window bound was deregistered", owner);
	control_end(owner->stress);
}

static bool may_be(const struct owner *owner, uint64_t n, uint8_t byte)
{
	uint64_t stripe = n * STRIPES / owner->length;

	return byte == FRESH || byte == ASKED + stripe;
}

/* After the revocation: around the grant nothing has changed, and in it nothing changes now. */
static void check_memory(struct owner *owner)
{
	uint64_t length = owner->length;

	for (uint64_t n = 0; n < length; n++) {
		uint8_t *at = granted_byte(owner, n);

		if (!may_be(owner, n, *at)) {
			violated(owner->stress, "a byte is what nobody wrote there", owner);
			return;
		}
		owner->copy[n] = *at;
	}
	for (uint32_t i = dice(&owner->seed, 20); i; i--)
		sched_yield();
	for (uint64_t n = 0; n < length; n++) {
		uint8_t *at = granted_byte(owner, n);

		if (*at != owner->copy[n])
			violated(owner->stress, "a byte has changed after the revocation", owner);
		*at = GUARD;
	}
	if (!all_bytes(owner->slot, SLOT, GUARD))
		violated(owner->stress, "a byte outside the grant has changed", owner);
}

static void publish(struct owner *owner, bool open)
{
	struct grant *grant = &owner->grant;

	pthread_mutex_lock(&owner->stress->lock);
	grant->open = open;
	if (open) {
		grant->epoch++;
		grant->key = owner->key;
		grant->va = owner->va;
		grant->length = owner->length;
	} else {
		grant->old_key = owner->key;
		grant->old_va = owner->va;
		grant->has_old = true;
	}
	pthread_mutex_unlock(&owner->stress->lock);
}

/* A duet's QPs have failed, or shall be reset: its asker pauses meanwhile. */
static void mend_duet(struct link *link)
{
	atomic_store(&link->pause, true);
	while (!atomic_load(&link->broken) && !atomic_load(&link->stress->stop_askers))
		test_nap(20);
	mend(link);
	atomic_store(&link->please_invalidate, 0);
	atomic_store(&link->pause, false);
	atomic_store(&link->broken, false);
}

static void round_of(struct owner *owner)
{
	static const uint32_t ways[KINDS] = { 1, 2, 1, 4 }; /* of revoking each kind */
	uint64_t room = owner->kind == FAST ? pick_pages(owner) : SLOT;
	bool revoked = false;

	owner->length = STRIPES + dice(&owner->seed, (uint32_t)room / 2);
	owner->offset = dice(&owner->seed, (uint32_t)(room - owner->length));
	if (owner->kind == FAST)
		owner->offset %= PAGE; /* of the first byte in the first page */
	for (uint64_t n = 0; n < owner->length; n++)
		*granted_byte(owner, n) = FRESH;
	if (open_key(owner)) {
		publish(owner, true);
		test_nap(dice(&owner->seed, 400));
		if (owner->mw && !dice(&owner->seed, 8))
			check_busy(owner);
		revoked = take_back(owner, dice(&owner->seed, ways[owner->kind]));
	}
	if (owner->kind == WINDOW_2 && (!revoked || atomic_load(&owner->link->broken)))
		mend_duet(owner->link);
	publish(owner, false);
	check_memory(owner);
	owner->rounds++;
}

static void *owner_thread(void *arg)
{
	struct owner *owner = arg;

	while (!atomic_load(&owner->stress->stop))
		round_of(owner);
	return NULL;
}

/* ------------------------------------------------------------------------------- askers */

enum attempt { WITHIN, BEYOND, STALE, FOREIGN };

/* The WR that attempts it; false: there is nothing of this kind to attempt. */
static bool compose(struct link *link, struct owner *owner, enum attempt attempt, struct wr *wr,
		    struct simhca_sge *local, uint64_t *epoch)
{
	struct grant *grant = &owner->grant;
	uint64_t stripe, from, to;
	bool good;

	pthread_mutex_lock(&link->stress->lock);
	*epoch = grant->epoch;
	stripe = (uint64_t)link->number;
	/* The first byte n with n * STRIPES / length == stripe, and that of the next stripe. */
	from = (stripe * grant->length + STRIPES - 1) / STRIPES;
	to = ((stripe + 1) * grant->length + STRIPES - 1) / STRIPES;
	wr->rkey = grant->key;
	wr->remote_addr = grant->va + from;
	*local = sge(link->pair->a.mr, 0, (uint32_t)(to - from));
	good = grant->open && to > from;
	if (attempt == BEYOND) {
		wr->remote_addr =
			dice(&link->seed, 2) ? grant->va + grant->length - 7 : grant->va - 1;
		local->length = 8;
	} else if (attempt == STALE) {
		good = grant->has_old && !(grant->open && grant->key == grant->old_key);
		wr->rkey = grant->old_key;
		wr->remote_addr = grant->old_va;
		local->length = 1;
	}
	pthread_mutex_unlock(&link->stress->lock);
	return good;
}

/* By its 8 bits a key comes again after so many grants; an asker can be asleep for longer. */
static bool much_has_happened(struct owner *owner, uint64_t epoch)
{
	bool much;

	pthread_mutex_lock(&owner->stress->lock);
	much = owner->grant.epoch - epoch > 100;
	pthread_mutex_unlock(&owner->stress->lock);
	return much;
}

/* What was read, or written, is what the asker's stripe can have. */
static bool only_granted(struct link *link, uint32_t length)
{
	for (uint32_t n = 0; n < length; n++)
		if (link->pair->a.mr->addr[n] != FRESH &&
		    link->pair->a.mr->addr[n] != ASKED + link->number)
			return false;
	return true;
}

/* True if the QPs are good after it. */
static bool attempt(struct link *link, struct owner *owner)
{
	uint32_t choice = dice(&link->seed, 16);
	enum attempt attempt = choice == 0 ? BEYOND : choice == 1 ? STALE : WITHIN;
	struct simhca_sge local;
	struct wr wr = { .id = 1,
			 .opcode =
				 dice(&link->seed, 4) ? SIMHCA_WR_RDMA_WRITE : SIMHCA_WR_RDMA_READ,
			 .flags = SIMHCA_WQE_SIGNALED,
			 .sges = &local,
			 .num_sge = 1 };
	struct simhca_cqe cqe;
	uint64_t epoch;

	/* Only its own QP may use a type 2 window. */
	if (owner->kind == WINDOW_2 && !link->only)
		attempt = FOREIGN;
	if (!compose(link, owner, attempt, &wr, &local, &epoch)) {
		sched_yield();
		return true;
	}
	memset(link->pair->a.mr->addr, ASKED + link->number, local.length);
	qp_post(link->pair->a.qp, &wr);
	if (!cq_wait(link->pair->a.send_cq, &cqe)) {
		violated(link->stress, "an access has not completed", owner);
		return false;
	}
	if (cqe.status != IBV_WC_SUCCESS) {
		link->refused++;
		return false;
	}
	link->done++;
	if (attempt == WITHIN && !only_granted(link, local.length))
		violated(link->stress, "a byte that was not granted was read", owner);
	if (attempt != WITHIN && !much_has_happened(owner, epoch))
		violated(link->stress,
			 attempt == STALE    ? "an access has succeeded after the revocation"
			 : attempt == BEYOND ? "an access beyond the grant has succeeded"
					     : "an access by a window of another QP has succeeded",
			 owner);
	return true;
}

static void *asker_thread(void *arg)
{
	struct link *link = arg;

	while (!atomic_load(&link->stress->stop_askers)) {
		uint32_t among = dice(&link->seed, 16) ? WINDOW_2 : OWNERS;

		if (!attempt(link, &link->stress->owner[dice(&link->seed, among)]))
			mend(link);
	}
	return NULL;
}

static bool send_invalidation(struct link *link, uint32_t key)
{
	struct simhca_cqe cqe;

	post(&link->pair->a, .id = 2, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = key,
	     SGES(sge(link->pair->a.mr, 0, 8)));
	if (!cq_wait(link->pair->a.send_cq, &cqe)) {
		violated(link->stress, "a SEND_WITH_INV has not completed", link->only);
		return false;
	}
	return cqe.status == IBV_WC_SUCCESS;
}

/* The owner mends what its asker breaks: to reset the QP is one of the ways to revoke. */
static void *duet_thread(void *arg)
{
	struct link *link = arg;

	while (!atomic_load(&link->stress->stop_askers)) {
		uint32_t key = atomic_exchange(&link->please_invalidate, 0);

		if (!atomic_load(&link->pause) &&
		    (key ? send_invalidation(link, key) : attempt(link, link->only)))
			continue;
		atomic_store(&link->broken, true);
		while (atomic_load(&link->broken) && !atomic_load(&link->stress->stop_askers))
			test_nap(20);
	}
	return NULL;
}

/* ------------------------------------------------------------------------------ the test */

static void owner_make(struct owner *owner, struct stress *stress, int number)
{
	struct client *client = stress->owning;
	struct world *world = client->world;
	char *memory = world_alloc(world, SLOT + PAGE);

	owner->stress = stress;
	owner->kind = number < WINDOW_2 ? (enum kind)number : WINDOW_2;
	owner->seed = 1000 + (uint64_t)number;
	owner->slot = (uint8_t *)(((uintptr_t)memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	owner->copy = world_alloc(world, SLOT);
	memset(owner->slot, GUARD, SLOT);
	owner->base = mr_over(client, client->pd, owner->slot, SLOT, (uintptr_t)owner->slot,
			      ALL_ACCESS | SIMHCA_ACCESS_MW_BIND);
	owner->pages = world_alloc(world, PAGES * sizeof(*owner->pages));
	owner->link = &stress->control;
	if (owner->kind == FAST)
		owner->mr = fast_mr_new(client, client->pd, LISTED);
	if (owner->kind == WINDOW_1) {
		owner->link = world_alloc(world, sizeof(*owner->link));
		link_make(owner->link, stress, 0);
		owner->mw = mw_new(client, client->pd, SIMHCA_MW_TYPE_1);
	}
	if (owner->kind == WINDOW_2) {
		owner->mw = mw_new(client, client->pd, SIMHCA_MW_TYPE_2);
		owner->link = &stress->duet[number - WINDOW_2];
		owner->link->only = owner;
	}
}

static struct stress *stress_new(struct world *world, enum simhca_mm_kind kind)
{
	struct stress *stress = world_alloc(world, sizeof(*stress));

	pthread_mutex_init(&stress->lock, NULL);
	pthread_mutex_init(&stress->control_lock, NULL);
	stress->owning = client_new_on(world, 0, 0);
	stress->asking = client_new_on(world, 1, 1);
	stress->owning->mm->kind = stress->asking->mm->kind = kind;
	link_make(&stress->control, stress, 0);
	for (int i = 0; i < ASKERS; i++) {
		link_make(&stress->asker[i], stress, 2000 + (uint64_t)i);
		stress->asker[i].number = i;
	}
	for (int i = 0; i < DUETS; i++) {
		link_make(&stress->duet[i], stress, 3000 + (uint64_t)i);
		stress->duet[i].number = ASKERS;
	}
	for (int i = 0; i < OWNERS; i++)
		owner_make(&stress->owner[i], stress, i);
	return stress;
}

static const struct link *asking_link(const struct stress *stress, int i)
{
	return i < ASKERS ? &stress->asker[i] : &stress->duet[i - ASKERS];
}

/* Whether each thread has had its turns; on a busy machine that can take longer than asked for. */
static bool all_have_worked(const struct stress *stress)
{
	bool all = true;

	for (int i = 0; i < ASKERS + DUETS; i++)
		all &= asking_link(stress, i)->done && asking_link(stress, i)->refused;
	for (int i = 0; i < OWNERS; i++)
		all &= stress->owner[i].rounds > 0;
	return all;
}

static void stress_run(struct stress *stress, unsigned int seconds)
{
	unsigned int naps = 0;

	for (int i = 0; i < OWNERS; i++)
		assert_int_equal(0, pthread_create(&stress->owner[i].thread, NULL, owner_thread,
						   &stress->owner[i]));
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(0, pthread_create(&stress->asker[i].thread, NULL, asker_thread,
						   &stress->asker[i]));
	for (int i = 0; i < DUETS; i++)
		assert_int_equal(0, pthread_create(&stress->duet[i].thread, NULL, duet_thread,
						   &stress->duet[i]));
	while ((naps < seconds * 20 || (naps < LONGEST * 20 && !all_have_worked(stress))) &&
	       !atomic_load(&stress->stop)) {
		test_nap(50 * 1000);
		naps++;
	}
	atomic_store(&stress->stop, true);
	for (int i = 0; i < OWNERS; i++)
		pthread_join(stress->owner[i].thread, NULL);
	atomic_store(&stress->stop_askers, true);
	for (int i = 0; i < ASKERS; i++)
		pthread_join(stress->asker[i].thread, NULL);
	for (int i = 0; i < DUETS; i++)
		pthread_join(stress->duet[i].thread, NULL);
}

static void come_and_go(struct world *world, enum simhca_mm_kind kind)
{
	struct stress *stress = stress_new(world, kind);
	unsigned int done = 0, refused = 0;

	stress_run(stress, getenv("SIMHCA_SOAK") ? 60 : 2);
	if (stress->failure[0])
		fail_msg("%s", stress->failure);
	for (int i = 0; i < ASKERS + DUETS; i++) {
		const struct link *link = asking_link(stress, i);

		done += link->done;
		refused += link->refused;
		assert_true(link->done && link->refused);
	}
	for (int i = 0; i < OWNERS; i++) {
		const struct owner *owner = &stress->owner[i];

		assert_true(owner->rounds);
		print_message("owner of kind %d: %u rounds, revoked in %u %u %u %u ways\n",
			      owner->kind, owner->rounds, owner->ways[0], owner->ways[1],
			      owner->ways[2], owner->ways[3]);
	}
	print_message("%u accesses, %u refused\n", done, refused);
}

static void keys_come_and_go(void **state)
{
	come_and_go(*state, SIMHCA_MM_OWN);
}

/* As those of another process, by the kernel. */
static void keys_come_and_go_by_system_calls(void **state)
{
	need_process_vm();
	come_and_go(*state, SIMHCA_MM_PROCESS_VM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ONE_THREAD(keys_come_and_go),
		ON_TWO_THREADS(keys_come_and_go),
		ON_TWO_THREADS(keys_come_and_go_by_system_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
