/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Keys: the protection table, and the one access check there is. */
#ifndef LIBSIMHCA_KEY_H
#define LIBSIMHCA_KEY_H

#include "core/context.h"
#include "core/pd.h"
#include "dma/dma.h"
#include "engine/worker.h"

/* What an entry of the protection table stands for: a region or a window. */
struct simhca_key {
	struct simhca_pd *pd;
	struct simhca_mm *mm; /* regions: where they lie */
	struct simhca_mpt *mpt;
	uint32_t index;
	/*
	 * An ordinary region changes only after it was withdrawn, so nobody needs this lock to use
	 * it. Windows and fast-register regions are changed by work requests while others use
	 * them: the lock covers their mpt and what follows here. It also covers mpt->bound of
	 * every region, with the step from "nothing bound" to FREE.
	 */
	pthread_mutex_t lock;
	_Atomic uint32_t used;	   /* rights that an access has needed so far */
	uint32_t uses;		   /* accesses under way, of what work requests change */
	struct simhca_key *region; /* windows: the region that it is bound to */
	uint64_t region_offset;	   /* windows: bytes from the region's start to its own */
	uint64_t *pages;	   /* fast-register regions: room for mpt->pages addresses */
	uint64_t first_byte;	   /* fast-register regions: offset into the first page */
	uint32_t *dm_users;	   /* regions of on-chip memory: its count of them */
	bool of_file;		   /* the region's mm is its own, and maps a file */
	struct simhca_mm
		*home; /* the process that has that file mapped where the region is; or NULL */
	bool moved;    /* its memory was moved into that file, which is nothing else */
	/* What programs map (mappable.h); owner is 0 if they do not. */
	struct {
		int fd;
		bool borrowed;	 /* somebody else closes it */
		uint64_t offset; /* of the region's first byte */
		uint32_t owner;	 /* the number of the memory of the process that registered it */
		bool may_fail;	 /* pages of it may be missing */
		bool mapped;	 /* by a program, which asked for it */
	} file;
	struct simhca_odp *odp;		    /* on-demand regions */
	struct simhca_watch *_Atomic watch; /* ordinary regions that lint watches */
};

/*
 * One table serves regions, windows and fast-register regions. A key names an entry; what may be
 * done with it depends on who asks.
 *
 * "Under way" means: from translation to the end of the packet. For an ordinary region the guards
 * say when that is over, and a control function can wait. A work request that takes a key back must
 * not wait, so windows and fast-register regions count the accesses under way (uses): the
 * work request comes back later until there is none, and only then completes.
 */
struct simhca_key_use {
	struct simhca_worker *worker;
	struct simhca_device *device;
	uint32_t pd;	 /* of the QP, or of the SRQ for its buffers */
	uint32_t qpn;	 /* of the QP */
	uint32_t access; /* rights needed: enum simhca_access */
	bool remote;	 /* by an rkey */
	bool flush;	 /* the key counts even if the length is 0 */
	bool whole;	 /* all that the key names: address and length do not count */
};

/*
 * One access check for every key: whether [va, va + length) of key may be used so; where it lies is
 * added to sgl, and the key is in use until simhca_key_release(). With sgl NULL it is only checked.
 * The caller is inside a guard. Length 0 names no memory and is always granted.
 */
enum simhca_reason simhca_translate(const struct simhca_key_use *use, uint32_t key, uint64_t va,
				    uint64_t length, struct simhca_sgl *sgl);
/* Adds bytes [offset, offset + length) of an SGE list to sgl. */
enum simhca_reason simhca_translate_sges(const struct simhca_key_use *use,
					 const struct simhca_sge *sge, uint32_t num_sge,
					 uint64_t offset, uint64_t length, struct simhca_sgl *sgl);
/* The accesses that the worker translated for are over, but for the first `keep`. */
void simhca_key_release(struct simhca_worker *worker, uint32_t keep);

/* For who debugs a program: what the key names; of what is not the user's own, no more than that.
 */
void simhca_key_facts(const struct simhca_key_use *use, uint32_t key,
		      struct simhca_key_facts *facts);

/* Whether the user may invalidate this key by a work request. */
enum simhca_reason simhca_key_may_invalidate(const struct simhca_key_use *use, uint32_t key);
/*
 * Invalidates it if so. First it is void, *revoked: no access starts with it. *again: some are under way
 * still, and this is to be called again before the work request may complete.
 */
enum simhca_reason simhca_key_revoke(const struct simhca_key_use *use, uint32_t key,
				     uint8_t *revoked, bool *again);

/* A free entry with a new key, filed under a handle of this type; not yet to be found by its key.
 */
struct simhca_key *simhca_key_create(struct simhca_context *context, enum simhca_object_type type,
				     struct simhca_pd *pd, uint32_t *handle,
				     struct simhca_why *why);
void simhca_key_publish(struct simhca_key *key, enum simhca_mpt_type type);
/* No access that starts from now on finds the entry, and none is under way on success. */
int simhca_key_withdraw(struct simhca_context *context, struct simhca_key *key);
/* The same for a region: -EBUSY, and nothing has changed, while windows are bound to it. */
int simhca_region_withdraw(struct simhca_context *context, struct simhca_key *region,
			   struct simhca_why *why);
void simhca_key_destroy(struct simhca_context *context, enum simhca_object_type type,
			uint32_t handle, struct simhca_key *key);
/* The table's entry that a key names, whoever it belongs to; NULL if it is free. Inside a guard. */
struct simhca_mpt *simhca_mpt_find(struct simhca_device *device, uint32_t key);
/* What stands behind an entry that was found; of a context that the guard keeps. May be NULL. */
struct simhca_key *simhca_key_of(struct simhca_device *device, uint32_t key);

#endif
