/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Contexts: what one ibv_context has: its memory, its handles, its engine. */
#ifndef LIBSIMHCA_CONTEXT_H
#define LIBSIMHCA_CONTEXT_H

#include <uthash.h>

#include "device.h"
#include "objects.h"
#include "segments.h"
#include "simhca-info.h"

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
	uint64_t program;     /* shares with others of it; 0: with none */
	pid_t pid;	      /* of who opened it; 0: it cannot be seen from here */
	char name[16];	      /* what the kernel, or else the program itself, calls it: */
	atomic_bool named;    /* before that is set, name is not read, and afterwards not written */
	atomic_bool orphaned; /* that process has ended, and another one has its descriptors */
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
	uint32_t kept_files;		 /* regions whose file is kept open for programs to map */
	struct simhca_advice *advices;	 /* under faults.lock */
	uint32_t num_advices;
	uint64_t next_advice;
	uint64_t registered;	      /* regions so far */
	struct simhca_usage_sum past; /* of QPs that were destroyed */
	uint32_t dying, dying_handle; /* where its destruction goes on */
};

void simhca_async_event(struct simhca_context *context, struct simhca_user_handle user,
			uint32_t number, uint32_t type);

#endif
