/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a fabric is made of: engines, devices, contexts, the memory of programs; and what the model
 * tells its user. The rules of control functions are those of simhca.h.
 */
#ifndef LIBSIMHCA_SIMHCA_DEVICE_H
#define LIBSIMHCA_SIMHCA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "simhca-abi.h"

struct simhca_fabric;
struct simhca_engine;
struct simhca_device;
struct simhca_context;
struct simhca_mm;
struct simhca_failure;	 /* simhca-info.h */
struct simhca_injection; /* simhca-inject.h */

/* One line that says what was wrong with a request, in the caller's terms. */
struct simhca_why {
	char text[SIMHCA_CMD_MESSAGE];
};
/* Fills why (which may be NULL) and returns -error. */
int simhca_why(struct simhca_why *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

enum simhca_log_level { SIMHCA_LOG_ERROR, SIMHCA_LOG_WARNING, SIMHCA_LOG_INFO, SIMHCA_LOG_DEBUG };

/* A frame that a link carries, beside what its bytes say. */
struct simhca_frame_facts {
	uint64_t time_ns;	/* CLOCK_REALTIME */
	uint32_t context;	/* id, of whose QP sends it; 0: of no program here */
	uint32_t qpn, peer_qpn; /* 0 likewise */
};

/* What the model tells its user. Called from engine threads and from control functions; must not
 * call back. */
struct simhca_ops {
	/* a completion event for a CQ that has a channel */
	void (*comp_event)(void *arg, uint64_t channel, uint64_t cq_user_handle);
	/* type is an enum ibv_event_type; element the user handle of the QP, CQ or SRQ, or the
	 * port; number the device's own of it */
	void (*async_event)(void *context_arg, struct simhca_user_handle user, uint32_t number,
			    uint32_t type);
	void (*log)(void *arg, enum simhca_log_level level, const char *line);
	/* While simhca_fabric_tap() is on. Called with locks held; bytes begin with Ethernet's. */
	void (*frame)(void *arg, const struct simhca_frame_facts *facts, const uint8_t *bytes,
		      uint32_t length);
	/* While there are rules. NULL, and called, as the next. */
	void (*injected)(void *arg, const struct simhca_injection *injection);
	/* NULL: nobody wants to know. Called with locks held. */
	void (*failure)(void *arg, const struct simhca_failure *failure);
	/*
	 * Work on page faults has found all workers at work: simhca_faults_stuck() is to be asked
	 * until it answers -1. NULL, and called, as the last.
	 */
	void (*no_worker)(void *arg);
	/*
	 * Unmaps size bytes at base, if there are any, and then closes fd, if it is one. Both can
	 * take as long as a client likes, so it is done by somebody else; NULL: here and now.
	 */
	void (*release)(void *arg, void *base, uint64_t size, int fd);
	/* A region of a file is gone that programs have mapped. From control functions; or NULL. */
	void (*file_gone)(void *arg);
	void *arg; /* of comp_event: the context's arg is passed instead; of the others: this */
};

/* ------------------------------------------------------------------ fabric and engines */

struct simhca_fabric *simhca_fabric_create(const struct simhca_ops *ops);
void simhca_fabric_destroy(struct simhca_fabric *fabric); /* after its devices and engines */
/* Whether what links carry is told, as frames. Off at first. */
void simhca_fabric_tap(struct simhca_fabric *fabric, bool on);
/*
 * While on, control functions hardly wait for an engine that is at work on their object, and answer
 * -EAGAIN: for those that are called again, and for programs whose objects are often so.
 */
void simhca_fabric_brief_waits(struct simhca_fabric *fabric, bool on);

struct simhca_engine_config {
	uint32_t spin_us; /* how long to poll for work before sleeping; 0: not at all */
	bool yields;	  /* CPUs are scarce: who polls lets others go first, as far as that pays */
	bool may_block;	  /* serves one context whose memory is behind an agent */
	/* The numbers of the CPUs on which the engine has a thread each; 0: one thread, anywhere.
	 * Elsewhere a cpu_index is one into this. */
	uint32_t cpu[SIMHCA_MAX_ENGINE_CPUS];
	uint32_t num_cpus;
	uint64_t (*clock_ns)(void *arg); /* NULL: CLOCK_MONOTONIC */
	void *clock_arg;
	void (*woken)(void *arg); /* simhca_engines_doze(); by one of its threads, under no lock */
	void *woken_arg;
};
/* NULL with errno set when out of descriptors or memory. */
struct simhca_engine *simhca_engine_create(struct simhca_fabric *fabric,
					   const struct simhca_engine_config *config);
void simhca_engine_destroy(
	struct simhca_engine *engine); /* its contexts are gone, its thread has ended */
/* One round without sleeping: true when there was work. For tests. */
bool simhca_engine_poll(struct simhca_engine *engine);
/*
 * Works, spins and sleeps until simhca_engine_stop(), which may be called from any thread. An
 * engine wants one thread for each cpu_index, which it binds to that CPU; a second one may join
 * while the first is stuck, and the first leaves when both work again. -ENOMEM if it could not
 * begin, else 0.
 */
int simhca_engine_run(struct simhca_engine *engine, uint32_t cpu_index);
void simhca_engine_stop(struct simhca_engine *engine);
/*
 * Another descriptor than doorbells' for the engine's threads to sleep at: one of them calls come()
 * when it is readable, under no lock. All have the same come(). Whoever closes the descriptor takes
 * it away by that. 0 or -errno.
 */
int simhca_engine_listen(struct simhca_engine *engine, int fd, void (*come)(void *arg, int fd),
			 void *arg);
/*
 * Of all engines: from now on the first thread that wakes up calls woken(). False: one is awake, and
 * nothing has changed. Until simhca_engines_attend(), or until woken() is called.
 */
bool simhca_engines_doze(struct simhca_fabric *fabric);
void simhca_engines_attend(struct simhca_fabric *fabric);
/* Readable while something waits on that CPU that no thread there has heard; or -1. */
int simhca_engine_sleeps_at(const struct simhca_engine *engine, uint32_t cpu_index);
/*
 * The cpu_index of a CPU whose threads each have been waiting in one and the same step since the
 * last call: a client's memory holds them up; -1: none. To be asked now and then; the answer is
 * another thread there. If a thread is stuck it wakes the others.
 */
int simhca_engine_stuck(struct simhca_engine *engine);
/*
 * In whose memory the threads were that the last look found stuck: ids of contexts, at most room of
 * them, one for each thread. How many.
 */
unsigned int simhca_engine_stuck_in(struct simhca_engine *engine, uint32_t *contexts,
				    unsigned int room);

/* ------------------------------------------------------------------------------ device */

/* The speed of each of a port's 4 lanes, as in struct ibv_port_attr. */
enum simhca_lane_speed { SIMHCA_EDR = 32, SIMHCA_HDR = 64, SIMHCA_NDR = 128, SIMHCA_XDR = 256 };

/* As what the device presents itself. */
struct simhca_product {
	uint32_t vendor_id, vendor_part_id, hw_ver;
	const char *fw_ver; /* NULL: all of it is simhca's own */
	enum simhca_lane_speed lane_speed;
};

/* The limits of a device that libefa drives (efa/efa.h). */
enum {
	SIMHCA_EFA_VENDOR = 0x1d0f,
	SIMHCA_EFA_PART = 0xefa0,  /* of generation 1; core/device.c has the others */
	SIMHCA_EFA_GENERATION = 3, /* by default */
	SIMHCA_EFA_GENERATIONS = 4,
	SIMHCA_EFA_CQS = 8192,
	SIMHCA_EFA_QPS = 4096,	   /* numbers of 16 bits name them */
	SIMHCA_EFA_MTU = 8928,	   /* bytes of a message */
	SIMHCA_EFA_RDMA = 1 << 30, /* bytes of an RDMA read or write */
	SIMHCA_EFA_SQ_WR = 4096,
	SIMHCA_EFA_RQ_WR = 32768,    /* buffers: as many receives, or fewer of more buffers */
	SIMHCA_EFA_SGES = 2,	     /* of a send; */
	SIMHCA_EFA_RECV_SGES = 4,    /* libfabric has no room for more receives than 32768 / 4 */
	SIMHCA_EFA_INLINE = 32,	     /* bytes */
	SIMHCA_EFA_INLINE_WIDE = 80, /* of generation 3 on, by WQEs of 128 bytes */
	SIMHCA_EFA_LLQ = 4096 * 64,  /* bytes of a send queue */
	SIMHCA_EFA_CQE = 1 << 15,
	SIMHCA_EFA_SUB_CQS = 2,	   /* in a CQ of generation 1; later ones have 1 */
	SIMHCA_EFA_KEYS = 1 << 16, /* an lkey has 24 bits, 8 of them the variant */
};

struct simhca_device_config {
	char name[64];
	bool infiniband;	   /* link layer InfiniBand; else Ethernet (RoCE v2) */
	bool efa;		   /* a device that libefa drives (efa/efa.h) */
	uint32_t efa_generation;   /* of such: 1 to 4; 0 is 3 */
	uint32_t efa_mtu;	   /* of such: bytes of a message; 0: SIMHCA_EFA_MTU */
	uint32_t efa_rdma;	   /* of such: bytes of an RDMA operation; 0: SIMHCA_EFA_RDMA */
	bool srd_shuffled;	   /* of such: messages of SRD pass each other on purpose */
	bool wire;		   /* Ethernet: to addresses elsewhere (link/wire/wire.h) */
	uint64_t node_guid;	   /* host order; 0 is refused */
	uint64_t sys_image_guid;   /* host order */
	uint16_t lid;		   /* InfiniBand */
	bool sm_off;		   /* InfiniBand: a port that is up waits for a subnet manager */
	uint32_t mtu;		   /* bytes: 256, 512, 1024, 2048 or 4096 */
	bool mw_type_2a;	   /* type 2 windows are of type 2A; else of type 2B */
	bool event_at_arm;	   /* arming a CQ that holds completions raises an event */
	bool fast_path;		   /* programs may run steps of their QPs (simhca-abi-fastpath.h) */
	bool moves_memory;	   /* fast path: programs move what they register into files */
	bool slot_data;		   /* small messages may stay in their receives' slots */
	uint32_t own_segments;	   /* fast path: of QPs and CQs, in descriptors; 0: no limit */
	uint32_t kept_files;	   /* fast path: of regions, in descriptors; 0: no limit */
	uint32_t fault_latency_us; /* what each page fault takes, besides what it takes */
	bool odp_checks;	   /* look for on-demand pages at each access, though events tell */
	uint32_t max_qp, max_cq, max_srq, max_mr, max_mw, max_pd, max_ah; /* 0: the ABI's limit */
	uint32_t max_qp_wr, max_sge, max_inline, max_cqe;		  /* 0: the ABI's limit */
	uint32_t max_dm_size; /* bytes of on-chip memory, whole pages; 0: the ABI's limit */
	struct simhca_product product;
};
struct simhca_device *simhca_device_create(struct simhca_fabric *fabric,
					   const struct simhca_device_config *config,
					   struct simhca_why *why);
void simhca_device_destroy(struct simhca_device *device); /* after its contexts */

/* What the port has counted since the device was created (stats.h). */
enum simhca_stat {
	SIMHCA_STAT_XMIT_BYTES,
	SIMHCA_STAT_XMIT_PACKETS,
	SIMHCA_STAT_XMIT_MULTICAST, /* of the packets */
	SIMHCA_STAT_XMIT_DISCARDS,  /* requests while the port was down */
	SIMHCA_STAT_RCV_BYTES,
	SIMHCA_STAT_RCV_PACKETS,
	SIMHCA_STAT_RCV_MULTICAST, /* of the packets */
	SIMHCA_STAT_LINK_DOWNED,
	SIMHCA_STAT_RX_WRITE,
	SIMHCA_STAT_RX_READ,
	SIMHCA_STAT_RX_ATOMIC,
	SIMHCA_STAT_OUT_OF_BUFFER, /* no receive was posted */
	SIMHCA_STAT_OUT_OF_SEQUENCE,
	SIMHCA_STAT_DUPLICATE_REQUEST,
	SIMHCA_STAT_RNR_NAK_RETRY,
	SIMHCA_STAT_PACKET_SEQ_ERR,
	SIMHCA_STAT_LOCAL_ACK_TIMEOUT,
	SIMHCA_STAT_ADP_RETRANS, /* asked again before the time-out */
	SIMHCA_STAT_ECN_MARKED,	 /* packets that a full network marked */
	SIMHCA_STAT_CNP_SENT,
	SIMHCA_STAT_CNP_HANDLED,
	SIMHCA_STAT_REQ_CQE_ERROR,
	SIMHCA_STAT_REQ_CQE_FLUSH,
	SIMHCA_STAT_REQ_REMOTE_ACCESS,
	SIMHCA_STAT_REQ_REMOTE_INVALID,
	SIMHCA_STAT_RESP_CQE_ERROR,
	SIMHCA_STAT_RESP_CQE_FLUSH,
	SIMHCA_STAT_RESP_LOCAL_LENGTH,
	SIMHCA_STAT_RESP_REMOTE_ACCESS,
	SIMHCA_STATS,
};
void simhca_device_stats(const struct simhca_device *device, uint64_t stats[SIMHCA_STATS]);

int simhca_device_memory_fd(const struct simhca_device *device); /* to pass on; do not close */
const struct simhca_devmem *simhca_device_memory(const struct simhca_device *device);
/* The port follows its network interface: raises PORT_ACTIVE or PORT_ERR, GID_CHANGE at every
 * context. */
void simhca_device_set_port(struct simhca_device *device, bool active);
/* What a subnet manager does: its state, once it is up (enum ibv_port_state); raises PORT_ACTIVE. */
void simhca_device_set_state(struct simhca_device *device, uint32_t state);
/* Likewise its LID, and the manager's: LID_CHANGE, SM_CHANGE. */
void simhca_device_set_address(struct simhca_device *device, uint16_t lid, uint8_t lmc,
			       uint16_t sm_lid, uint8_t sm_sl);
/* QPs that are connected already keep theirs. bytes: as in the config, and not more. */
void simhca_device_set_mtu(struct simhca_device *device, uint32_t bytes);
void simhca_device_set_gids(struct simhca_device *device,
			    const struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES]);

/*
 * Management datagrams, from QP 1 of a port to QP 1 of another: UD packets with the well-known
 * Q_Key, whose sender and receiver are not QPs of a program (IBTA vol. 1, 13.5). SIMHCA_MAD_BYTES
 * each (mad.h).
 */
struct simhca_gmp {
	const void *mad;
	union simhca_gid sgid, dgid; /* all zero without a GRH */
	uint16_t slid;
};
/* Called by the thread that sends, and must not send itself. */
typedef void simhca_gmp_handler(void *arg, const struct simhca_gmp *gmp);
void simhca_device_set_gmp(struct simhca_device *device, simhca_gmp_handler *handler, void *arg);
/* False: the port is down, or nobody here has this address, and there is no wire. A MAD is lost
 * then, as on a wire. */
bool simhca_device_send_gmp(struct simhca_device *device, const struct simhca_av *av,
			    const void *mad);

/* ----------------------------------------------------------------------------- context */

/* ctx_arg comes back in comp_event and async_event. */
struct simhca_context *simhca_context_create(struct simhca_device *device,
					     struct simhca_engine *engine, void *ctx_arg,
					     struct simhca_why *why);
/*
 * Contexts with the same number share the threads that wait for their memory; those with 0, which
 * is what a context has first, share with none. Before its memory is used.
 */
void simhca_context_share(struct simhca_context *context, uint64_t program);
/* Whose it is, for rules of faults. A name is given once; with "", it is still to come. */
void simhca_context_name(struct simhca_context *context, pid_t pid, const char *name);
/*
 * Whether its client's memory is left alone: none of its QPs runs, and to their peers they are
 * busy, until it is resumed. What is under way stays so.
 */
void simhca_context_suspend(struct simhca_context *context, bool suspend);
/*
 * Its client is gone: it is suspended for good, no doorbell of it is heard, and no event raised for
 * it. Its objects stay until it is destroyed, which begins with this if it was not done before.
 */
void simhca_context_retire(struct simhca_context *context);
enum simhca_destroyed {
	SIMHCA_DESTROYED,
	SIMHCA_DESTROYED_PARTLY, /* the time was over: call again soon */
	SIMHCA_DESTROYED_NOT,	 /* an engine is still in this client's memory: call again later */
};
/*
 * Destroys every object that is left, in dependency order; no event is raised for them. It goes on
 * where it was when max_ns nanoseconds are over; 0: it takes the time that it takes.
 */
enum simhca_destroyed simhca_context_destroy(struct simhca_context *context, uint64_t max_ns);
uint32_t simhca_context_id(const struct simhca_context *context);
/* Which of its eventfds a client on this CPU should write to: they differ in nothing else. */
struct simhca_doorbells {
	uint32_t count;
	struct {
		int fd;
		uint32_t cpu;
	} eventfd[SIMHCA_MAX_ENGINE_CPUS];
};
void simhca_context_doorbells(const struct simhca_context *context,
			      struct simhca_doorbells *doorbells);
/*
 * As if one of them rang. They are not written to: a client can have it that a write waits, as the open
 * file is its own as well.
 */
void simhca_context_ring(struct simhca_context *context);
/* Segment's memfd and size; -1 if there is no such segment. */
int simhca_context_segment(const struct simhca_context *context, uint32_t segment, uint64_t *size);
/*
 * Makes segments as that one for queues to come, so that the client has mapped them when their
 * queues are made: most of them at most. They go when another queue has none otherwise. Returns how
 * many were made, and their numbers.
 */
uint32_t simhca_context_make_ready(struct simhca_context *context, uint32_t like, uint32_t most,
				   uint32_t *numbers);
/*
 * Puts an answer into a slot of the context's memory (struct simhca_answer_slot), and wakes who
 * waits for it. False: there is no such slot, or it is too long. What the client has there is not
 * read, but for whether somebody sleeps: who lies about that is not woken, or costs one system call.
 */
bool simhca_context_answer(struct simhca_context *context, uint32_t number,
			   const struct iovec *parts, uint32_t count);

/* ---------------------------------------------------------------------- address spaces */

/* Whether the kernel lets this process at pid's memory with process_vm_readv and _writev. */
bool simhca_process_reachable(pid_t pid);
/*
 * The memory of process pid as context's regions see it; made at the first call, kept until
 * the context goes, or simhca_context_drop_gone() frees it. NULL when out of memory. pid ==
 * getpid(): plain copies, for tests.
 */
struct simhca_mm *simhca_context_mm(struct simhca_context *context, pid_t pid);
/*
 * Copies are kept of both; -1: cannot be had. pagemap is open on /proc/PID/pagemap: it says whether
 * pid still is the process that it was, in the address space that it had, however late the caller
 * hears of its end. mem is open on /proc/PID/mem, to read and write: small pieces are quicker by
 * it.
 */
void simhca_mm_known_by(struct simhca_mm *mm, int pagemap, int mem);
/* The process has ended: every access fails from now on (pids are used again). */
void simhca_mm_gone(struct simhca_mm *mm);
/* The process has ended. If it is who opened the context, others go on with what they inherited. */
void simhca_context_process_gone(struct simhca_context *context, pid_t pid);
/* What is gone, and has no region in it any more, is freed: there may be very many children. */
void simhca_context_drop_gone(struct simhca_context *context);
/* Serve this memory through an agent; takes both descriptors, also when it fails. */
int simhca_mm_set_agent(struct simhca_context *context, struct simhca_mm *mm, int socket,
			int bounce_fd, uint64_t bounce_size, struct simhca_why *why);

/* ------------------------------------------------------------------- on-demand paging */

/*
 * Page-fault workers: threads that bring pages in, and may wait for a program's memory. Each runs
 * until simhca_faults_stop().
 */
void simhca_faults_run(struct simhca_fabric *fabric);
void simhca_faults_stop(struct simhca_fabric *fabric);
/*
 * If all workers have been in the same piece of work since the last call: how many others would
 * have something to do. -1: no work waits for a worker; simhca_ops.no_worker says when some does.
 */
int simhca_faults_stuck(struct simhca_fabric *fabric);
/* Does one piece of work that is due, if there is any. For tests. */
bool simhca_faults_poll(struct simhca_fabric *fabric);

/*
 * A userfaultfd of the process behind mm, which says when pages leave its memory; taken, also when
 * it fails. One thread reads them all, until simhca_pagers_stop(); it never waits for a program.
 */
int simhca_mm_set_userfaultfd(struct simhca_context *context, struct simhca_mm *mm, int fd,
			      struct simhca_why *why);
/*
 * For lint: events are to tell what leaves a region of mm, whose process has given a userfaultfd. *fd
 * is that one, with which the process has the region's memory looked after; the caller's.
 */
int simhca_watch_mr(struct simhca_context *context, struct simhca_mm *mm, uint32_t handle, int *fd,
		    struct simhca_why *why);
void simhca_pagers_run(struct simhca_fabric *fabric);
void simhca_pagers_stop(struct simhca_fabric *fabric);

#endif
