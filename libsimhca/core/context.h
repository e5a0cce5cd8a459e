/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Contexts: what one ibv_context has: its memory, its handles, its engine. */
#ifndef LIBSIMHCA_CONTEXT_H
#define LIBSIMHCA_CONTEXT_H

#include <uthash.h>

#include "device.h"
#include "simhca-info.h"

enum simhca_object_type {
	SIMHCA_OBJ_PD,
	SIMHCA_OBJ_MR,
	SIMHCA_OBJ_MW,
	SIMHCA_OBJ_AH,
	SIMHCA_OBJ_CQ,
	SIMHCA_OBJ_SRQ,
	SIMHCA_OBJ_QP,
	SIMHCA_OBJ_XRCD,
	SIMHCA_OBJ_DM,
	SIMHCA_OBJ_WQ,
	SIMHCA_OBJ_RWQ_TABLE,
	SIMHCA_OBJ_FLOW,
	SIMHCA_OBJ_COUNTERS,
	SIMHCA_OBJ_COMP_CNTR,
	SIMHCA_OBJ_EFA_AH,
	SIMHCA_OBJ_EFA_CQ,
	SIMHCA_OBJ_EFA_QP,
	SIMHCA_OBJ_TYPES,
};

#define SIMHCA_CONTEXT_UNIT 128u /* bytes: what is given out never shares a cache line */

/* A free run of a segment. */
struct simhca_hole {
	uint64_t offset, length;
	struct simhca_hole *next;
};

struct simhca_segment {
	int fd;
	char *base;
	uint64_t size;
	uint32_t number;	   /* by which clients know it */
	struct simhca_hole *holes; /* by offset, never adjacent */
};

struct simhca_advice;
struct simhca_efa;
struct simhca_engine;
struct simhca_mm;
struct simhca_task;

struct simhca_context {
	struct simhca_device *device;
	struct simhca_engine *engine;
	struct simhca_context *prev, *next; /* in the device's list */
	UT_hash_handle hh;		    /* in its engine's contexts */
	struct simhca_context *active_prev, *active_next;
	bool active; /* its engine polls the doorbells; else they are armed */
	uint32_t idle_rounds;
	atomic_bool dead;
	uint64_t program; /* shares with others of it; 0: with none */
	pid_t pid;	  /* of who opened it, and what the kernel calls that; 0, "": unknown */
	char name[16];
	atomic_bool orphaned;  /* that process has ended, and another one has its descriptors */
	atomic_bool suspended; /* its memory is left alone */
	uint32_t id;
	struct simhca_log_share *log_share;
	void *arg;				 /* of the upcalls */
	int doorbell_fd[SIMHCA_MAX_ENGINE_CPUS]; /* by the engine's cpu_index */
	uint32_t doorbells;
	struct simhca_ctx_mem *mem;
	struct simhca_segment segment[SIMHCA_MAX_SEGMENTS];
	/* Each of one queue, whose owner's peer may have it as well. */
	struct simhca_segment *own_segment;
	uint32_t segments, own_segments, own_slots, spares;
	uint32_t first_own_slot;			      /* all before it are taken */
	uint32_t num_ready, ready[SIMHCA_MAX_READY_SEGMENTS]; /* slots */
	struct simhca_mm *mms;
	struct {
		struct simhca_mm *mm; /* NULL: none */
		uint64_t address;
		struct simhca_secret secret;
	} offer; /* who knows it may be attached to QPs of this context */
	struct simhca_handles handles[SIMHCA_OBJ_TYPES];
	struct simhca_task *_Atomic *doorbell; /* by doorbell slot */
	struct simhca_task *rings;	       /* scheduled when rings_fd is readable; NULL: none */
	int rings_fd;			       /* -1: none; under the engine's context_lock */
	struct simhca_efa *efa;		       /* NULL: it is no EFA driver's */
	uint32_t doorbell_hint;
	_Atomic uint32_t doorbell_slots; /* those from here on have never been a QP's */
	uint64_t dm_used;		 /* bytes of on-chip memory */
	struct simhca_advice *advices;	 /* under faults.lock */
	uint32_t num_advices;
	uint64_t next_advice;
	uint64_t registered;	      /* regions so far */
	struct simhca_usage_sum past; /* of QPs that were destroyed */
	uint32_t dying, dying_handle; /* where its destruction goes on */
};

/* One more segment of that many bytes; and when the context ends, none. */
int simhca_context_add_segment(struct simhca_context *context, uint64_t size,
			       struct simhca_why *why);
void simhca_context_drop_segments(struct simhca_context *context);
/*
 * A segment that has room for so many bytes in pieces, so that they all can lie in it; another one
 * if none has. 0 or -errno, and why says.
 */
int simhca_context_room(struct simhca_context *context, uint64_t bytes, uint32_t *segment,
			struct simhca_why *why);
/* Zeroed memory in the context's segments; *where and the address in this process. NULL: why says.
 */
void *simhca_context_alloc(struct simhca_context *context, uint64_t bytes,
			   struct simhca_mem_ref *where, struct simhca_why *why);
/*
 * The same in one that has room for so many bytes in such pieces. A segment for this queue alone
 * goes with the last of them.
 */
void *simhca_context_alloc_in(struct simhca_context *context, uint32_t segment, uint64_t bytes,
			      struct simhca_mem_ref *where);
/* Its number; 0: there is none such to be had. */
uint32_t simhca_context_own_segment(struct simhca_context *context, uint64_t bytes);
/*
 * A queue that is being made, of so many bytes: in which segment all of it shall lie. Where programs
 * may come (fast) it gets one for itself, *own, if there is one to be had; else *own is 0. 0 or
 * -errno, and why says.
 */
int simhca_context_place(struct simhca_context *context, uint64_t bytes, bool fast, uint32_t *own,
			 uint32_t *segment, struct simhca_why *why);
/*
 * So that who maps such a segment has nothing of it any more: a file of its size, all zero, or
 * -errno; and that file takes the place of the one that the segment has, at the same addresses. 0
 * or -errno, and then it has the one that it had. The client has to map it anew.
 */
int simhca_context_spare_file(const struct simhca_context *context, uint32_t number);
int simhca_context_replace_file(struct simhca_context *context, uint32_t number, int fd);
/*
 * Such a file for a queue that is in use, mapped beside what the queue has, so that it can be
 * filled first. 0 or -errno, and why says; a context has few at a time. It takes the place of the
 * other file, or is dropped.
 */
struct simhca_spare {
	char *base; /* NULL: there is none */
	uint64_t size;
	int fd;
};
int simhca_context_make_spare(struct simhca_context *context, uint32_t number,
			      struct simhca_spare *spare, struct simhca_why *why);
int simhca_context_use_spare(struct simhca_context *context, uint32_t number,
			     struct simhca_spare *spare);
void simhca_context_drop_spare(struct simhca_context *context, struct simhca_spare *spare);
/* So that what is large can be given back without taking long: a part of it more. True: all. */
bool simhca_context_wipe(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes, uint64_t *wiped);
/* Memory that its queue has no use for any more, and that is given back bit by bit. */
struct simhca_rest {
	struct simhca_mem_ref ref;
	uint64_t bytes; /* 0: nothing */
	uint64_t wiped;
};
/* A part of it; 0: nothing is left of it. Else -ERESTART. */
int simhca_context_give_back(struct simhca_context *context, struct simhca_rest *rest);
void simhca_context_free(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes);

void *simhca_object(struct simhca_context *context, enum simhca_object_type type, uint32_t handle,
		    struct simhca_why *why);
/* Files an object under a new handle and counts it, within the device's limit. */
int simhca_object_add(struct simhca_context *context, enum simhca_object_type type, void *object,
		      uint32_t *handle, struct simhca_why *why);
void simhca_object_remove(struct simhca_context *context, enum simhca_object_type type,
			  uint32_t handle);

void simhca_async_event(struct simhca_context *context, struct simhca_user_handle user,
			uint32_t number, uint32_t type);

#endif
