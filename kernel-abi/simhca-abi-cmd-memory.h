/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands of memory: regions, windows, on-chip memory, on-demand paging, and how the device
 * reaches the memory of a process. simhca-abi-cmd.h says how they are sent.
 */
#ifndef SIMHCA_ABI_CMD_MEMORY_H
#define SIMHCA_ABI_CMD_MEMORY_H

#ifndef SIMHCA_ABI_CMD_H
#error "include simhca-abi.h"
#endif

struct simhca_reg_mr_req {
	uint64_t addr;	 /* in the sender's memory */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint32_t pd;
	uint32_t access;  /* enum simhca_access */
	uint32_t null_mr; /* 1: the null MR; addr, length and iova are ignored */
	/*
	 * 1: the sender has looked, and not all of it is mapped with these rights: EFAULT. The
	 * device does not look, for it would wait for whoever holds the locks of that address
	 * space. Who says nothing finds out when the memory is accessed.
	 */
	uint32_t unmapped;
};
struct simhca_reg_mr_reply {
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t moved; /* REG_DMABUF_MR with addr: the region lies in the file */
};

/* the values of enum ibv_rereg_mr_flags */
enum simhca_rereg {
	SIMHCA_REREG_TRANSLATION = 1 << 0,
	SIMHCA_REREG_PD = 1 << 1,
	SIMHCA_REREG_ACCESS = 1 << 2,
};
/* the reply is struct simhca_reg_mr_reply */
struct simhca_rereg_mr_req {
	uint32_t handle;
	uint32_t flags; /* enum simhca_rereg */
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
	uint32_t pd;
	uint32_t access;
	uint32_t unmapped; /* as in REG_MR, of what the region is to be */
	uint32_t reserved;
};

/*
 * DEREG_MR and REREG_MR of a region with windows bound fail with EBUSY and change nothing.
 *
 * ALLOC_MR: a fast-register region, free until a FAST_REG makes it valid. The pages that it may be
 * registered over are the sender's. The reply is struct simhca_reg_mr_reply (the key that it
 * has until then); it ends with DEREG_MR, valid or not.
 */
struct simhca_alloc_mr_req {
	uint32_t pd;
	uint32_t max_pages; /* entries of the longest page list, 1 .. max_fast_reg_page_list_len */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mr_req, 8);

/* the values of enum ibv_mw_type */
enum simhca_mw_type {
	SIMHCA_MW_TYPE_1 = 1,
	SIMHCA_MW_TYPE_2 = 2, /* 2A or 2B: as device_cap_flags says */
};
struct simhca_alloc_mw_req {
	uint32_t pd;
	uint32_t type; /* enum simhca_mw_type */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mw_req, 8);
/* DEALLOC_MW takes struct simhca_handle, bound or not */
struct simhca_alloc_mw_reply {
	uint32_t handle;
	uint32_t rkey; /* names the window; grants nothing until it is bound */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mw_reply, 8);

/*
 * ALLOC_DM: on-chip memory, zeroed. One descriptor in the reply: a memfd of size bytes, which
 * cannot be resized, for the program to map. FREE_DM fails with EBUSY while regions of it are
 * registered. IMPORT_DM asks for the same again, by its handle.
 */
struct simhca_alloc_dm_req {
	uint64_t length;    /* bytes */
	uint32_t log_align; /* at an address that is a multiple of 2^n, 12 at most */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_alloc_dm_req, 16);
struct simhca_dm_reply {
	uint32_t handle;
	uint32_t reserved;
	uint64_t length; /* as asked for */
	uint64_t size;	 /* of the memfd */
};
SIMHCA_ABI_SIZE(struct simhca_dm_reply, 24);

/* REG_DM_MR: the reply is struct simhca_reg_mr_reply, and DEREG_MR ends it, as for the next one. */
struct simhca_reg_dm_mr_req {
	uint64_t offset; /* into the on-chip memory */
	uint64_t length; /* bytes */
	uint32_t dm;	 /* handle */
	uint32_t pd;
	uint32_t access; /* enum simhca_access, with ZERO_BASED */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_reg_dm_mr_req, 32);

/*
 * REG_DMABUF_MR: a region of the file whose descriptor comes along: a dma-buf, or what lies in
 * memory only (memfd, tmpfs, hugetlbfs). The descriptor may be closed afterwards, and the file may
 * shrink: an access to what is no longer there is an error completion.
 *
 * With addr it is a region of the sender's memory there, which the sender is about to move into the
 * file. It lies in the file only if programs can map that; otherwise it is as one of REG_MR, and
 * the sender leaves its memory where it is. REREG_MR makes one of REG_MR of it, and then the sender
 * moves the memory back. Or that memory is a mapping of the file already.
 */
struct simhca_reg_dmabuf_mr_req {
	uint64_t offset; /* into the file; the same within a page as iova, and as addr */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint64_t addr; /* in the sender's memory; 0: the region is one of the file */
	uint32_t pd;
	uint32_t access; /* enum simhca_access */
	/* with addr: 1: that memory is a mapping of the file already; 0: it is to be moved there */
	uint32_t is_there;
	uint32_t reserved; /* 0 */
};
SIMHCA_ABI_SIZE(struct simhca_reg_dmabuf_mr_req, 48);

/* What on-demand paging has done, for one region or (QUERY_ODP) for a device since it exists. */
struct simhca_odp_counters {
	uint64_t faults;	    /* accesses that were stopped */
	uint64_t fault_pages;	    /* pages brought in for them */
	uint64_t failures;	    /* faults that could not be resolved */
	uint64_t invalidations;	    /* times that pages were taken away */
	uint64_t invalidated_pages; /* pages taken away */
	uint64_t prefetches;	    /* ranges prefetched */
	uint64_t prefetched_pages;  /* pages brought in for them */
	uint64_t watched_pages;	    /* pages brought in whose end an event will tell */
	uint64_t checked_pages;	    /* pages brought in that are looked for at each access */
};
SIMHCA_ABI_SIZE(struct simhca_odp_counters, 72);

/* QUERY_PD: nothing is to be told but that it exists. Like QUERY_MR it is for imports. */
struct simhca_query_mr_reply {
	uint32_t lkey;
	uint32_t rkey;
	uint32_t access; /* enum simhca_access */
	uint32_t type;	 /* enum simhca_mpt_type */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint64_t addr;
	uint32_t windows;	/* bound to it */
	uint32_t used;		/* enum simhca_access: rights that were needed so far */
	uint64_t present_pages; /* on-demand: in the device's table now */
	struct simhca_odp_counters odp;
};
SIMHCA_ABI_SIZE(struct simhca_query_mr_reply, 56 + 72);

/*
 * SET_AGENT: for a process whose memory the device cannot reach with process_vm. The first
 * extra descriptor is the agent's end of a SOCK_SEQPACKET pair on which the device sends
 * struct simhca_agent_req, the second a sealed memfd of bounce_size bytes that both map.
 * The agent copies between its own memory and the bounce memory with pread and pwrite on
 * that descriptor, so that a bad address is an errno and not a signal. REG_MR and REREG_MR
 * answer ENOTCONN to a process that needs an agent and has none: a forked child.
 */
struct simhca_set_agent_req {
	uint64_t bounce_size; /* bytes */
};
enum simhca_agent_op {
	SIMHCA_AGENT_READ = 1,	/* the process's memory into the bounce memory */
	SIMHCA_AGENT_WRITE = 2, /* the bounce memory into the process's memory */
	/* of one segment, whole pages; nothing is copied. EACCES: mapped, but not writable */
	SIMHCA_AGENT_PAGE_IN = 3,	/* fault pages in for reading */
	SIMHCA_AGENT_PAGE_IN_WRITE = 4, /* and for writing; no byte changes */
	SIMHCA_AGENT_RESIDENT = 5,	/* are all of them in the page tables? EFAULT: no */
};
struct simhca_agent_req {
	uint32_t op;	 /* enum simhca_agent_op */
	uint32_t count;	 /* of segments; they follow one another in the bounce memory */
	uint64_t seq;	 /* comes back in the answer */
	uint64_t offset; /* in the bounce memory */
	struct {
		uint64_t addr;
		uint64_t length;
	} segment[16];
};
SIMHCA_ABI_SIZE(struct simhca_agent_req, 280);
struct simhca_agent_reply {
	uint64_t seq;
	uint32_t status; /* 0 or errno */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_agent_reply, 16);

/*
 * SET_USERFAULTFD: no structs; the first extra descriptor is a userfaultfd of the sender, made
 * non-blocking, with UFFDIO_API done and the events FORK, REMAP, REMOVE and UNMAP asked for as far
 * as the kernel lets the sender. The device registers the pages of on-demand regions with it, in
 * write-protect mode and without ever protecting any: so no access of the program is held up, and
 * its events tell which pages the program drops. One is kept for each process.
 *
 * WATCH_MR: struct simhca_handle, of an ordinary region that lies in the sender's memory; the reply
 * has a copy of that userfaultfd. From now on the device notes what of the region's memory is
 * unmapped, moved or dropped, and used after that, for lint. The sender registers the memory with
 * the userfaultfd, likewise, as only it may wait for who holds the locks of that address space, and
 * closes it: were there one when the device is gone, nobody would read its events.
 */

/* the values of enum ibv_advise_mr_advice */
enum simhca_advice_kind {
	SIMHCA_ADVICE_PREFETCH = 0,
	SIMHCA_ADVICE_PREFETCH_WRITE = 1,
	SIMHCA_ADVICE_PREFETCH_NO_FAULT = 2,
};
#define SIMHCA_ADVISE_FLUSH 1u /* IBV_ADVISE_MR_FLAG_FLUSH: answer when it is done */
#define SIMHCA_ADVISE_MAX_SGE 24
struct simhca_advise_mr_req {
	uint32_t pd;
	uint32_t advice;   /* enum simhca_advice_kind */
	uint32_t flags;	   /* SIMHCA_ADVISE_FLUSH */
	uint32_t num_sge;  /* 1 .. SIMHCA_ADVISE_MAX_SGE */
	uint64_t reserved; /* 0; the device's note while the answer is being waited for */
	struct simhca_sge sge[SIMHCA_ADVISE_MAX_SGE];
};
SIMHCA_ABI_SIZE(struct simhca_advise_mr_req, 24 + 16 * SIMHCA_ADVISE_MAX_SGE);

#endif
