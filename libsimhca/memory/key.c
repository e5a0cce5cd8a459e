/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The protection table: entries, the one check that every access by key goes through, and the
 * invalidation of keys by work requests (IBTA vol. 1, 10.6).
 */
#include <errno.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/mpt.h"
#include "key.h"
#include "mr.h"
#include "mw.h"
#include "paging/odp.h"
#include "paging/watch.h"
#include "paging/page_map.h"
#include "simhca-device.h"
#include "simhca-info.h"

/* --------------------------------------------------------------------------- entries */

/* A free index, not the one given back last; 0 if there is none. */
static uint32_t find_index(struct simhca_device *device)
{
	/* An lkey of EFA's has 24 bits. */
	const uint32_t entries = device->config.efa ? SIMHCA_EFA_KEYS : SIMHCA_MPT_ENTRIES;

	for (uint32_t n = 1; n < entries; n++) {
		uint32_t index = device->next_key_index;

		device->next_key_index = index + 1 < entries ? index + 1 : 1;
		if (!atomic_load_explicit(&device->keys[index], memory_order_relaxed))
			return index;
	}
	return 0;
}

struct simhca_key *simhca_key_create(struct simhca_context *context, enum simhca_object_type type,
				     struct simhca_pd *pd, uint32_t *handle, struct simhca_why *why)
{
	struct simhca_device *device = context->device;
	struct simhca_key *key = calloc(1, sizeof(*key));
	struct simhca_mpt *mpt;

	if (key)
		key->index = find_index(device);
	if (!key || !key->index) {
		simhca_why(why, ENOMEM, "out of memory or keys");
		free(key);
		return NULL;
	}
	if (simhca_object_add(context, type, key, handle, why)) {
		free(key);
		return NULL;
	}
	key->pd = pd;
	pd->users[type]++;
	simhca_mutex_init(&key->lock,
			  type == SIMHCA_OBJ_MW ? SIMHCA_LOCK_WINDOW : SIMHCA_LOCK_REGION);
	mpt = key->mpt = &device->mpts[key->index];
	/* The variant moves on at each use of the index, so that a key kept too long shows. */
	atomic_store_explicit(&mpt->key, key->index << 8 | SIMHCA_KEY_VARIANT(mpt->key + 1),
			      memory_order_relaxed);
	atomic_store_explicit(&mpt->pd, pd->number, memory_order_relaxed);
	mpt->iova = mpt->addr = mpt->length = 0;
	mpt->access = mpt->bound = mpt->pages = mpt->page_shift = mpt->mm = 0;
	/* FREE until it is published, so nobody makes use of it yet. */
	atomic_store_explicit(&device->keys[key->index], key, memory_order_release);
	return key;
}

void simhca_key_publish(struct simhca_key *key, enum simhca_mpt_type type)
{
	atomic_store_explicit(&key->mpt->valid, type == SIMHCA_MPT_MR || type == SIMHCA_MPT_NULL_MR,
			      memory_order_relaxed);
	/* release: whoever sees the type sees the rest of the entry. */
	atomic_store_explicit(&key->mpt->state, type, memory_order_release);
}

static void unpublish(struct simhca_key *key)
{
	atomic_store_explicit(&key->mpt->state, SIMHCA_MPT_FREE, memory_order_seq_cst);
	atomic_store_explicit(&key->mpt->valid, 0, memory_order_relaxed);
}

static int end_of_uses(struct simhca_context *context)
{
	return simhca_fabric_synchronize(context->device->fabric, context->id) ? 0 : -EAGAIN;
}

int simhca_key_withdraw(struct simhca_context *context, struct simhca_key *key)
{
	pthread_mutex_lock(&key->lock);
	unpublish(key);
	pthread_mutex_unlock(&key->lock);
	return end_of_uses(context);
}

int simhca_region_withdraw(struct simhca_context *context, struct simhca_key *region,
			   struct simhca_why *why)
{
	uint32_t bound;

	/* Under the lock: a window is bound before this, and counts, or finds nothing after it. */
	pthread_mutex_lock(&region->lock);
	bound = region->mpt->bound;
	if (!bound)
		unpublish(region);
	pthread_mutex_unlock(&region->lock);
	if (bound)
		return simhca_why(why, EBUSY, "%u memory window%s bound to this MR", bound,
				  bound == 1 ? " is" : "s are");
	return end_of_uses(context);
}

void simhca_key_destroy(struct simhca_context *context, enum simhca_object_type type,
			uint32_t handle, struct simhca_key *key)
{
	atomic_store_explicit(&context->device->keys[key->index], NULL, memory_order_release);
	if (key->pd)
		key->pd->users[type]--;
	simhca_object_remove(context, type, handle);
	pthread_mutex_destroy(&key->lock);
	free(key->pages);
	free(key);
}

struct simhca_mpt *simhca_mpt_find(struct simhca_device *device, uint32_t key)
{
	uint32_t index = SIMHCA_KEY_INDEX(key);

	/*
	 * seq_cst, after the guard was entered: either we see FREE, or the withdrawal waits for
	 * our step to end. The load also acquires what simhca_key_publish() released.
	 */
	if (index >= SIMHCA_MPT_ENTRIES ||
	    atomic_load_explicit(&device->mpts[index].state, memory_order_seq_cst) ==
		    SIMHCA_MPT_FREE)
		return NULL;
	return &device->mpts[index];
}

struct simhca_key *simhca_key_of(struct simhca_device *device, uint32_t key)
{
	return atomic_load_explicit(&device->keys[SIMHCA_KEY_INDEX(key)], memory_order_acquire);
}

/* ---------------------------------------------------------------------------- access */

/* Work requests change it while others use it: only to be read under its lock. */
static bool changes(uint32_t type)
{
	return type == SIMHCA_MPT_FAST_MR || simhca_is_window(type);
}

/* Anything that is not the user's may belong to a context that our guard, once narrowed, does not keep. */
static enum simhca_reason check_user(const struct simhca_key_use *use, const struct simhca_mpt *mpt,
				     uint32_t type, uint32_t key)
{
	const struct simhca_key_user user = { .pd = use->pd,
					      .qpn = use->qpn,
					      .remote = use->remote };

	return simhca_mpt_check_user(mpt, type, key, user);
}

/* An access to pages that are not in the region's map is to become a fault (fault.c). */
static void append_on_demand(const struct simhca_key_use *use, struct simhca_sgl *sgl,
			     struct simhca_odp *odp, uint64_t addr, uint64_t length)
{
	struct simhca_worker *worker = use->worker;
	bool write = use->access & (SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_CHANGE);
	uint64_t first, count = simhca_odp_pages(odp, addr, length, &first);

	sgl->seg[sgl->count++] =
		(struct simhca_seg){ .mm = odp->mm, .addr = addr, .length = length, .odp = odp };
	/* One that is not noted is found absent when the others are there. */
	if (simhca_page_map_look(odp->map, first, count, write) != SIMHCA_PAGES_ABSENT ||
	    worker->num_absent == SIMHCA_MAX_SGE)
		return;
	worker->absent[worker->num_absent].odp = odp;
	worker->absent[worker->num_absent].addr = addr;
	worker->absent[worker->num_absent++].length = length;
}

/* Adds [offset, offset + length) of a region, which nobody changes meanwhile. */
static void append(const struct simhca_key_use *use, struct simhca_sgl *sgl,
		   const struct simhca_key *region, uint64_t offset, uint64_t length)
{
	struct simhca_watch *watch;
	uint64_t page_size;

	if (region->odp) {
		append_on_demand(use, sgl, region->odp, region->mpt->addr + offset, length);
		return;
	}
	/* Acquire: lint watches regions that are in use. */
	watch = atomic_load_explicit(&region->watch, memory_order_acquire);
	if (__builtin_expect(watch != NULL, 0))
		simhca_watch_use(watch, region->mpt->addr + offset, length);
	if (!region->pages) {
		sgl->seg[sgl->count++] =
			(struct simhca_seg){ .mm = region->mm,
					     .addr = region->mm->base + region->mpt->addr + offset,
					     .length = length,
					     .pinned = true };
		return;
	}
	page_size = 1ull << region->mpt->page_shift;
	offset += region->first_byte;
	while (length) {
		uint64_t in_page = offset & (page_size - 1);
		uint64_t bytes = page_size - in_page < length ? page_size - in_page : length;

		sgl->seg[sgl->count++] = (struct simhca_seg){
			.mm = region->mm,
			.addr = region->pages[offset >> region->mpt->page_shift] + in_page,
			.length = bytes,
		};
		offset += bytes;
		length -= bytes;
	}
}

/* The right is put to use. */
static inline void note_use(struct simhca_key *entry, uint32_t access)
{
	/* relaxed: it is for who looks later. Written once for each right. */
	if (__builtin_expect(access & ~atomic_load_explicit(&entry->used, memory_order_relaxed), 0))
		atomic_fetch_or_explicit(&entry->used, access, memory_order_relaxed);
}

/* What is left to be asked of a key that is its user's. */
static enum simhca_reason access_entry(const struct simhca_key_use *use, struct simhca_key *entry,
				       uint32_t type, uint64_t va, uint64_t length,
				       struct simhca_sgl *sgl)
{
	const struct simhca_mpt *mpt = entry->mpt;
	enum simhca_reason reason;
	uint64_t offset = 0;

	if (!use->whole) {
		reason = simhca_mpt_check_range(mpt, va, length, &offset);
		if (reason != SIMHCA_REASON_NONE)
			return reason;
	}
	reason = simhca_mpt_check_rights(mpt, type, use->access);
	if (reason != SIMHCA_REASON_NONE || !sgl)
		return reason;
	note_use(entry, use->access);
	if (simhca_is_window(type))
		note_use(entry->region, use->access);
	/* A window's region cannot change while it counts the window. */
	if (simhca_is_window(type))
		append(use, sgl, entry->region, entry->region_offset + offset, length);
	else
		append(use, sgl, entry, offset, length);
	return SIMHCA_REASON_NONE;
}

/* The same under the lock of what work requests change, since it was looked at before. */
static enum simhca_reason access_locked(const struct simhca_key_use *use, struct simhca_key *entry,
					uint32_t key, uint64_t va, uint64_t length,
					struct simhca_sgl *sgl)
{
	uint32_t type = atomic_load_explicit(&entry->mpt->state, memory_order_relaxed);
	enum simhca_reason reason;

	if (type == SIMHCA_MPT_FREE)
		return SIMHCA_REASON_KEY_UNKNOWN;
	reason = check_user(use, entry->mpt, type, key);
	if (reason == SIMHCA_REASON_NONE)
		reason = access_entry(use, entry, type, va, length, sgl);
	if (reason == SIMHCA_REASON_NONE && sgl) {
		entry->uses++;
		use->worker->used_keys[use->worker->num_used_keys++] = entry;
	}
	return reason;
}

enum simhca_reason simhca_translate(const struct simhca_key_use *use, uint32_t key, uint64_t va,
				    uint64_t length, struct simhca_sgl *sgl)
{
	const struct simhca_mpt *mpt;
	struct simhca_key *entry;
	enum simhca_reason reason;
	uint32_t type;

	if (!length && !use->flush)
		return SIMHCA_REASON_NONE;
	mpt = simhca_mpt_find(use->device, key);
	if (!mpt)
		return SIMHCA_REASON_KEY_UNKNOWN;
	type = atomic_load_explicit(&mpt->state, memory_order_relaxed);
	reason = check_user(use, mpt, type, key);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	entry = simhca_key_of(use->device, key);
	if (!entry)
		return SIMHCA_REASON_KEY_UNKNOWN;
	if (!changes(type))
		return access_entry(use, entry, type, va, length, sgl);
	pthread_mutex_lock(&entry->lock);
	reason = access_locked(use, entry, key, va, length, sgl);
	pthread_mutex_unlock(&entry->lock);
	return reason;
}

void simhca_key_facts(const struct simhca_key_use *use, uint32_t key,
		      struct simhca_key_facts *facts)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, key);
	struct simhca_key *entry;

	*facts = (struct simhca_key_facts){ .type = SIMHCA_MPT_FREE };
	if (!mpt)
		return;
	facts->type = atomic_load_explicit(&mpt->state, memory_order_relaxed);
	facts->pd = atomic_load_explicit(&mpt->pd, memory_order_relaxed);
	facts->key = atomic_load_explicit(&mpt->key, memory_order_relaxed);
	facts->qpn = atomic_load_explicit(&mpt->qpn, memory_order_relaxed);
	/* As in simhca_translate(): anything else may be changed, or freed, while we look. */
	if (check_user(use, mpt, facts->type, key) != SIMHCA_REASON_NONE)
		return;
	entry = simhca_key_of(use->device, key);
	if (!entry)
		return;
	pthread_mutex_lock(&entry->lock);
	facts->has_range = true;
	facts->access = mpt->access;
	facts->iova = mpt->iova;
	facts->length = mpt->length;
	pthread_mutex_unlock(&entry->lock);
}

enum simhca_reason simhca_translate_sges(const struct simhca_key_use *use,
					 const struct simhca_sge *sge, uint32_t num_sge,
					 uint64_t offset, uint64_t length, struct simhca_sgl *sgl)
{
	for (uint32_t i = 0; i < num_sge && length; i++) {
		uint64_t bytes;
		enum simhca_reason reason;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		bytes = sge[i].length - offset;
		if (bytes > length)
			bytes = length;
		reason = simhca_translate(use, sge[i].lkey, sge[i].addr + offset, bytes, sgl);
		if (reason != SIMHCA_REASON_NONE)
			return reason;
		length -= bytes;
		offset = 0;
	}
	return SIMHCA_REASON_NONE;
}

void simhca_key_release(struct simhca_worker *worker, uint32_t keep)
{
	while (worker->num_used_keys > keep) {
		struct simhca_key *key = worker->used_keys[--worker->num_used_keys];

		pthread_mutex_lock(&key->lock);
		key->uses--;
		pthread_mutex_unlock(&key->lock);
	}
}

/* ---------------------------------------------------------------------- invalidation */

/* First without the entry's lock, then under it. */
static enum simhca_reason check_invalidate(const struct simhca_key_use *use,
					   const struct simhca_mpt *mpt, uint32_t key)
{
	uint32_t type = atomic_load_explicit(&mpt->state, memory_order_relaxed);
	const struct simhca_key_user user = { .pd = use->pd, .qpn = use->qpn, .remote = true };
	enum simhca_reason reason;

	if (type == SIMHCA_MPT_FREE)
		return SIMHCA_REASON_KEY_UNKNOWN;
	reason = simhca_mpt_check_user(mpt, type, key, user);
	/* Of a key that is the user's otherwise: ordinary regions and type 1 windows. */
	if ((reason == SIMHCA_REASON_NONE || reason == SIMHCA_REASON_MW_NOT_BOUND) &&
	    type != SIMHCA_MPT_FAST_MR && !simhca_is_of_one_qp(type))
		return SIMHCA_REASON_INV_NOT_ALLOWED;
	return reason;
}

static enum simhca_reason invalidate(const struct simhca_key_use *use, uint32_t key, bool now)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, key);
	struct simhca_key *entry;
	enum simhca_reason reason;

	if (!mpt)
		return SIMHCA_REASON_KEY_UNKNOWN;
	reason = check_invalidate(use, mpt, key);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	entry = simhca_key_of(use->device, key);
	if (!entry)
		return SIMHCA_REASON_KEY_UNKNOWN;
	pthread_mutex_lock(&entry->lock);
	reason = check_invalidate(use, mpt, key);
	if (reason == SIMHCA_REASON_NONE && entry->pages && mpt->bound)
		reason = SIMHCA_REASON_INV_WINDOWS_BOUND;
	if (reason == SIMHCA_REASON_NONE && now) {
		if (entry->pages)
			atomic_store_explicit(&entry->mpt->valid, 0, memory_order_relaxed);
		else
			simhca_mw_unbind(entry);
	}
	pthread_mutex_unlock(&entry->lock);
	return reason;
}

enum simhca_reason simhca_key_may_invalidate(const struct simhca_key_use *use, uint32_t key)
{
	return invalidate(use, key, false);
}

/* Whether no access is under way by the key's entry. */
static bool is_idle(const struct simhca_key_use *use, uint32_t key)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, key);
	struct simhca_key *entry;
	bool idle;

	/* Whoever took it out of the table meanwhile waits for the accesses itself. */
	if (!mpt || atomic_load_explicit(&mpt->pd, memory_order_relaxed) != use->pd)
		return true;
	entry = simhca_key_of(use->device, key);
	if (!entry)
		return true;
	pthread_mutex_lock(&entry->lock);
	idle = !entry->uses;
	pthread_mutex_unlock(&entry->lock);
	return idle;
}

enum simhca_reason simhca_key_revoke(const struct simhca_key_use *use, uint32_t key,
				     uint8_t *revoked, bool *again)
{
	enum simhca_reason reason = *revoked ? SIMHCA_REASON_NONE : invalidate(use, key, true);

	if (reason != SIMHCA_REASON_NONE)
		return reason;
	*revoked = true;
	*again = !is_idle(use, key);
	return SIMHCA_REASON_NONE;
}
