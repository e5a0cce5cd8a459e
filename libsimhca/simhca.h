/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libsimhca: the device model. What a daemon (or a test) needs to make devices, give them
 * clients, and let them work:
 *
 *   fabric    what devices hang on: packets find their way by GID or LID
 *   engine    does the work of QPs; a thread runs it, or a test polls it
 *   device    one HCA with one port: device memory, tables of QPs and keys
 *   context   one open of a device by one client: context memory and all its objects
 *   mm        an address space that regions lie in (dma.h)
 *
 * No sockets (link/wire/wire.h leaves them to its user), no libibverbs, no globals. Control
 * functions (everything here but the engine's) are called from one thread at a time per fabric;
 * engines run beside them. Each takes the command's request struct, checks it as a stranger's, and
 * fills the reply struct; it returns 0 or a negative errno, and then nothing has changed and
 * why->text says what was wrong.
 *
 * -EAGAIN is not an answer for the client: an engine works on the object at this moment. Ask
 * again a little later, with the same arguments; an object that was to be destroyed takes no new
 * work meanwhile. Control functions never wait longer than a millisecond or so. -ERESTART is no
 * answer either: a part of what takes long is done. Ask until it is done; that ends.
 */
#ifndef LIBSIMHCA_SIMHCA_H
#define LIBSIMHCA_SIMHCA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "simhca-abi.h"

struct simhca_fabric;
struct simhca_engine;
struct simhca_device;
struct simhca_context;
struct simhca_mm;

/* One line that says what was wrong with a request, in the caller's terms. */
struct simhca_why {
	char text[SIMHCA_CMD_MESSAGE];
};
/* Fills why (which may be NULL) and returns -error. */
int simhca_why(struct simhca_why *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

enum simhca_log_level { SIMHCA_LOG_ERROR, SIMHCA_LOG_WARNING, SIMHCA_LOG_INFO, SIMHCA_LOG_DEBUG };

/* What went wrong, for the person who debugs a program. Numbers are the ABI's. */
enum simhca_failure_kind {
	SIMHCA_SEND_FAILED,	/* a send work request completed with an error that is no flush */
	SIMHCA_RECV_FAILED,	/* a receive work request likewise */
	SIMHCA_REQUEST_REFUSED, /* by a responder; or dropped, on an unreliable service */
	SIMHCA_NO_ANSWER,	/* a requester gets none, and text says why */
	SIMHCA_LOST,		/* a message of UD or UC, which nobody takes; likewise */
	SIMHCA_FLUSHED,		/* so many work requests of a QP that had failed */
	SIMHCA_INJECTED,	/* a rule of faults has fired; the daemon's own */
};

/* The entry of the protection table that a key names; SIMHCA_MPT_FREE: there is none. */
struct simhca_key_facts {
	uint32_t type, pd;
	uint32_t key;	/* the one that is valid now */
	uint32_t qpn;	/* windows of type 2: whose they are */
	bool has_range; /* it is the user's own, and what follows is known */
	uint32_t access;
	uint64_t iova, length;
};

/* What a key was that is gone, of the same PD. */
struct simhca_gone_facts {
	bool was;
	uint64_t ago_ns; /* since it went */
	uint64_t iova, length;
	uint32_t now_key; /* of the same memory; 0: it has none */
};

/* The queue that a message found empty. */
struct simhca_empty_facts {
	uint32_t context; /* whose; 0: not known */
	uint32_t srqn;	  /* 0: the QP's own */
	uint32_t posted;  /* receives so far, since it was created or reset */
	bool limit_spent; /* the SRQ's limit event came, and no limit was set since */
};

struct simhca_failure {
	enum simhca_failure_kind kind;
	uint32_t context; /* id; 0: of an XRC target, which is no program's */
	uint32_t qpn, peer_qpn, qp_type, pd;
	uint32_t peer_context; /* REQUEST_REFUSED: of the sender; 0: of no program here */
	bool by_wire; /* its peer is on another host, whose QPs have numbers of their own */
	uint32_t psn, last_psn; /* of the message; of a request that was refused, its own */
	uint32_t opcode;	/* enum simhca_wr_opcode; not of RECV_FAILED, FLUSHED */
	uint32_t status;	/* enum simhca_wc_status; of work requests */
	enum simhca_reason reason;
	uint64_t wr_id;	 /* of work requests */
	uint64_t length; /* bytes of the message, or of the packet that was refused */
	/* The access that the reason is about; or, if it is about none, what a send would have had
	   of the peer's memory. */
	bool has_access;
	uint32_t key;
	uint64_t va, bytes;
	struct simhca_key_facts entry;	 /* with has_access */
	struct simhca_gone_facts gone;	 /* likewise */
	struct simhca_empty_facts empty; /* with RNR_RETRY_EXC_ERR */
	/* The sender's attributes: how often, and for how long, it tried. */
	uint32_t retry_cnt, rnr_retry, timeout;
	uint32_t count;	      /* FLUSHED; of REQUEST_REFUSED and LOST 1 */
	uint32_t event;	      /* INJECTED: enum ibv_event_type + 1 that the rule raises; 0: none */
	const char *obstacle; /* NO_ANSWER, LOST: which, as a constant; or NULL */
	/* NO_ANSWER, LOST; of REQUEST_REFUSED the reason with its numbers, or NULL. During the call. */
	const char *text;
};

/* A frame that a link carries, beside what its bytes say. */
struct simhca_frame_facts {
	uint64_t time_ns;	/* CLOCK_REALTIME */
	uint32_t context;	/* id, of whose QP sends it; 0: of no program here */
	uint32_t qpn, peer_qpn; /* 0 likewise */
};

/*
 * A rule of `simhca inject`: where a fault is to happen, when, and what. 0, "" or -1 where nothing
 * is asked for.
 */
enum simhca_inject_action {
	SIMHCA_INJECT_DROP,
	SIMHCA_INJECT_DELAY,
	SIMHCA_INJECT_DUPLICATE,
	SIMHCA_INJECT_REORDER,
	SIMHCA_INJECT_CORRUPT,
	SIMHCA_INJECT_SLOW,	/* rate */
	SIMHCA_INJECT_RNR,	/* a NAK: the receiver is not ready */
	SIMHCA_INJECT_NAK,	/* value: enum simhca_syndrome */
	SIMHCA_INJECT_FAULT,	/* ns: a page fault of the responder's */
	SIMHCA_INJECT_COMPLETE, /* value: enum simhca_wc_status */
	SIMHCA_INJECT_HOLD,	/* ns: a send's completion; 0: while the rule stands */
	SIMHCA_INJECT_DOORBELL, /* ns */
	SIMHCA_INJECT_NO_EVENT,
	SIMHCA_INJECT_VERB,   /* verb, value: errno */
	SIMHCA_INJECT_REJECT, /* value: the reason of a REJ */
	/* What the model does, */
	SIMHCA_INJECT_ASYNC, /* value: enum ibv_event_type */
	/* and what it leaves to who hears of it. */
	SIMHCA_INJECT_PORT_DOWN,  /* ns: and up again; 0: while the rule stands */
	SIMHCA_INJECT_GID_CHANGE, /* ns: until the addresses are back */
	SIMHCA_INJECT_FATAL,
	SIMHCA_INJECT_KILL, /* peer: the program at the other end */
	SIMHCA_INJECT_ACTIONS,
};
#define SIMHCA_RULE_TEXT 256
/* The conditions of a rule, in the order in which they are looked at. */
enum simhca_miss {
	SIMHCA_MISS_PROGRAM,
	SIMHCA_MISS_DEVICE,
	SIMHCA_MISS_QP,
	SIMHCA_MISS_VERB,
	SIMHCA_MISS_OPCODE,
	SIMHCA_MISS_DATAGRAM, /* REORDER is for those only */
	SIMHCA_MISS_PAYLOAD,  /* CORRUPT needs one */
	SIMHCA_MISSES,
};
#define SIMHCA_OPCODE_UNKNOWN 31u /* of an answer that came over a wire */
struct simhca_rule {
	enum simhca_inject_action action;
	char text[SIMHCA_RULE_TEXT]; /* as it was written */
	/* where */
	char device[64];
	char program[16]; /* its name, as the kernel has it */
	pid_t pid;
	uint32_t qpn;
	bool responses;	  /* else requests */
	bool receives;	  /* else sends */
	uint32_t opcodes; /* bit n: enum simhca_wr_opcode */
	uint32_t verb;	  /* enum simhca_cmd */
	/* when: from the first to the last hit, counted from 1, each so many, so many times */
	uint64_t first, last, every, times;
	uint64_t chance; /* of 2^32 */
	uint64_t seed;
	bool now; /* at no hit: the caller does it */
	/* what */
	uint64_t ns;
	uint64_t rate; /* bytes in a second */
	uint32_t value;
	bool peer;
	/* What has come of it; filled in. */
	uint32_t number; /* from 1 on, never used again */
	uint64_t met, fired;
	/* What it could have met, but for this condition, which is the first that was not met. */
	uint64_t missed[SIMHCA_MISSES];
	uint32_t opcodes_missed; /* bit n: enum simhca_wr_opcode; of SIMHCA_MISS_OPCODE */
};

/* That a rule has fired. */
struct simhca_injection {
	const struct simhca_rule *rule;
	const struct simhca_device *device; /* NULL: unknown */
	uint32_t context;		    /* id; 0: of no program */
	uint32_t qpn, peer_qpn, qp_type;    /* 0: of no QP */
	int opcode;			    /* -1: of no work request */
	uint32_t timeout; /* of the QP, which waits so long for an answer to what is lost; or 0 */
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

/*
 * Rules of faults. While there are any, no program begins steps of its own. add: *number is the
 * rule's; -ENOSPC: there are SIMHCA_RULES_MOST.
 */
#define SIMHCA_RULES_MOST 64
int simhca_inject_add(struct simhca_fabric *fabric, const struct simhca_rule *rule,
		      uint32_t *number);
/* False: there is none such. */
bool simhca_inject_remove(struct simhca_fabric *fabric, uint32_t number);
/* The first one whose number is larger; false: there is none. */
bool simhca_inject_next(struct simhca_fabric *fabric, uint32_t after, struct simhca_rule *rule);
/* For commands, and for who asks for a connection (context NULL). 0, or what is to come of it. */
int simhca_inject_verb(struct simhca_context *context, uint32_t verb);
int simhca_inject_connect(struct simhca_device *device);

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
	SIMHCA_EFA_PART = 0xefa1,
	SIMHCA_EFA_QPS = 4096,	   /* numbers of 16 bits name them */
	SIMHCA_EFA_MTU = 8928,	   /* bytes of a message */
	SIMHCA_EFA_RDMA = 1 << 30, /* bytes of an RDMA read or write */
	SIMHCA_EFA_SQ_WR = 4096,
	SIMHCA_EFA_RQ_WR = 16384,
	SIMHCA_EFA_SGES = 2,
	SIMHCA_EFA_INLINE = 32, /* bytes */
	SIMHCA_EFA_CQE = 1 << 15,
	SIMHCA_EFA_KEYS = 1 << 16, /* an lkey has 24 bits, 8 of them the variant */
};

struct simhca_device_config {
	char name[64];
	bool infiniband;	   /* link layer InfiniBand; else Ethernet (RoCE v2) */
	bool efa;		   /* a device that libefa drives (efa/efa.h) */
	bool wire;		   /* Ethernet: to addresses elsewhere (link/wire/wire.h) */
	uint64_t node_guid;	   /* host order; 0 is refused */
	uint64_t sys_image_guid;   /* host order */
	uint16_t lid;		   /* InfiniBand */
	bool sm_off;		   /* InfiniBand: a port that is up waits for a subnet manager */
	uint32_t mtu;		   /* bytes: 256, 512, 1024, 2048 or 4096 */
	bool mw_type_2a;	   /* type 2 windows are of type 2A; else of type 2B */
	bool event_at_arm;	   /* arming a CQ that holds completions raises an event */
	bool fast_path;		   /* programs may run steps of their QPs (simhca-abi-fastpath.h) */
	bool slot_data;		   /* small messages may stay in their receives' slots */
	uint32_t own_segments;	   /* fast path: of QPs and CQs, in descriptors; 0: no limit */
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
/* Whose it is, for rules of faults. */
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
/* Segment's memfd and size; -1 if there is no such segment. */
int simhca_context_segment(const struct simhca_context *context, uint32_t segment, uint64_t *size);

/* Objects alive, as `simhca status` shows them. */
struct simhca_counts {
	uint32_t pds, mrs, mws, cqs, qps, srqs, ahs, xrcds, dms, wqs, flows;
	uint32_t dm_bytes;
	uint32_t carried; /* of the QPs: whose messages their program carries */
};
/* But for carried, which is 0. */
void simhca_context_counts(const struct simhca_context *context, struct simhca_counts *counts);
/*
 * Adds to *carried how many it is among the next QPs, some hundred, whose handles begin at *handle.
 * False: there are no further ones.
 */
bool simhca_context_carried(const struct simhca_context *context, uint32_t *handle,
			    uint32_t *carried);

/*
 * What tools show of a context's objects: the first one whose handle is *handle or more. False:
 * there is none. For control functions' thread. Numbers are unique among their kind in the device.
 */
enum simhca_own_access {
	SIMHCA_REQUESTER_READ,	/* a message that it sends */
	SIMHCA_REQUESTER_WRITE, /* a response that it places */
	SIMHCA_RESPONDER_READ,	/* memory that the peer reads */
	SIMHCA_RESPONDER_WRITE, /* a message that it receives, memory that the peer writes */
	SIMHCA_OWN_ACCESSES,
};
/* What QPs have done (proto/usage.h). Bytes are those of payload. */
struct simhca_usage_sum {
	uint64_t messages, bytes, reads, read_bytes; /* that it began; atomics are reads */
	uint64_t received, received_bytes;	     /* that took a receive */
	uint64_t retries, rnr_naks, rnr_delay_ns, no_receive, errors;
	uint64_t latency[SIMHCA_LATENCIES]; /* of a sample of its messages: how many by time */
};
/* Of QPs that were destroyed. */
uint64_t simhca_context_registered(const struct simhca_context *context); /* regions so far */
void simhca_context_past(const struct simhca_context *context, struct simhca_usage_sum *sum);
struct simhca_qp_info {
	uint32_t qpn, type, state, pd, dest_qpn, rq_psn, sq_psn;
	uint32_t port; /* 0: none yet */
	uint32_t srqn; /* of its SRQ; 0: it has none */
	bool further;  /* XRC_RECV: a further handle of a QP that another one shows */
	struct simhca_usage_sum usage; /* errors: by the device alone */
	uint32_t handled;	       /* messages that its responder has completed, modulo 2^24 */
	uint32_t max_send_wr, most_unsignaled; /* the latter in a row */
	uint64_t too_early;		       /* messages, before any receive was posted */
	/* Work requests posted that have not completed; receives of its own queue. */
	uint32_t sends, recvs;
	uint32_t wait; /* enum simhca_wait, of its requester */
	/* of RC QPs, if programs may carry messages: those that it did; times that it did not */
	bool fast_path;
	uint64_t by_fast_path, told, handed[SIMHCA_SLOW_REASONS];
	uint64_t faults[SIMHCA_OWN_ACCESSES];	 /* so far */
	bool fault_pending[SIMHCA_OWN_ACCESSES]; /* queued or being resolved */
};
bool simhca_next_qp(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_qp_info *info);
/* How many receives were posted to the queue that the context's QP of this number takes from, since
 * it was created or reset. False: it has no such QP. */
bool simhca_context_posted(const struct simhca_context *context, uint32_t qpn, uint32_t *posted);
/* The argument of the context that has this QP. NULL: there is none, or many may have it (XRC). */
void *simhca_qp_arg(const struct simhca_device *device, uint32_t qpn);
struct simhca_mr_info {
	uint32_t number; /* the index of its keys */
	uint32_t key, pd;
	uint32_t used;	/* rights that were needed so far */
	uint64_t stale; /* where it was used after its memory had been unmapped or dropped; or 0 */
	uint32_t pid;	/* in whose memory it lies; 0: in nobody's, or it cannot be told */
	struct simhca_query_mr_reply attr;
};
bool simhca_next_mr(struct simhca_context *context, uint32_t *handle, struct simhca_mr_info *info);
/* Send requests that were posted, have not completed, and name a region of the context's. */
struct simhca_mr_sends {
	uint32_t requests, qpn; /* the QP of the first one */
	uint64_t wr_id;
};
/*
 * Looks for them, in a part of the context's QPs and requests if there are very many. A QP in
 * whose queue an engine works for longer counts as having none.
 */
void simhca_find_mr_sends(struct simhca_context *context, uint32_t handle,
			  struct simhca_mr_sends *sends);
/* How many reads and atomics the ends of a connection within the daemon agree to. */
struct simhca_rd_atomic {
	uint32_t requester, responder; /* QP numbers */
	uint32_t max_rd_atomic;	       /* of the requester */
	uint32_t max_dest_rd_atomic;   /* of the responder */
};
/*
 * Of a QP that has come to RTR, as the responder; or to RTS, as the requester. False: its peer is
 * not so far yet, or is not in this daemon.
 */
bool simhca_qp_rd_atomic(struct simhca_context *context, uint32_t handle,
			 struct simhca_rd_atomic *numbers);
/* Why a completion need not come at a CQ that is empty, as far as can be seen. */
enum simhca_in_vain_why {
	/* Of a receive: */
	SIMHCA_PLAIN_WRITE,   /* the last request was an RDMA WRITE, which takes none (9.4.3) */
	SIMHCA_PEER_ORPHANED, /* the peer's process has ended, and a child of it keeps the QP */
	/* of a send: */
	SIMHCA_NO_RECEIVE,   /* the peer has no receive for it, and rnr_retry has no end */
	SIMHCA_NOT_SIGNALED, /* all of the QP's are done, and the last one was not signaled */
};
struct simhca_in_vain {
	enum simhca_in_vain_why why;
	uint32_t qpn, cq;  /* numbers */
	uint32_t receives; /* of a receive: that wait in the queue that it takes them from */
	uint32_t handled;  /* requests that are complete, of the peer or its own, modulo 2^24 */
	uint32_t peer_qpn;
	pid_t peer_pid; /* of who opened the peer's device, and its name; 0, "": unknown */
	char peer_name[16];
	uint64_t wr_id, length; /* of the write, or of the send */
	uint32_t opcode;	/* enum simhca_wr_opcode, likewise */
	bool limit_spent;	/* NO_RECEIVE: struct simhca_empty_facts */
};
/*
 * Of the context's QPs those of which that is so, at most room of them; in a part of its QPs if
 * there are very many. What is said of the peer is of one in the daemon. A QP that waits for a
 * receive has no requests under way, nor has the peer if it has written; and where a send was not
 * signaled, none of the context's QPs has anything posted that completes at that CQ.
 */
uint32_t simhca_find_in_vain(struct simhca_context *context, struct simhca_in_vain *found,
			     uint32_t room);
struct simhca_pd_info {
	uint32_t number, users;
};
bool simhca_next_pd(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_pd_info *info);
struct simhca_cq_info {
	uint32_t number, cqe, users;
	uint32_t waiting;     /* completions that were not polled; in a damaged CQ at most cqe */
	uint32_t polled;      /* completions that were, modulo 2^32 */
	uint32_t empty_polls; /* polls that found nothing, in hundreds; clients can write it */
	uint32_t arm;	      /* enum simhca_arm: for what it is armed now */
	uint32_t most_waiting, most_feeds; /* the latter: what its QPs may post at a time */
	bool was_armed;			   /* since it was created */
	/* Of a receive: among the oldest that wait; clients can write them. */
	bool holds_receive;
	bool overrun;
	uint64_t channel; /* as it was named at its creation; 0: it has none */
};
bool simhca_next_cq(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_cq_info *info);
struct simhca_srq_info {
	uint32_t number, type, pd;
	uint32_t cq; /* where its receives complete, if it has one of its own; else 0 */
	uint32_t max_wr, posted, limit, users; /* posted: receives that wait for a message */
};
bool simhca_next_srq(const struct simhca_context *context, uint32_t *handle,
		     struct simhca_srq_info *info);
/* The numbers of QPs that receive from an SRQ, at most room of them. How many were found. */
uint32_t simhca_srq_qps(const struct simhca_context *context, uint32_t handle, uint32_t *qpn,
			uint32_t room);

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

/* ---------------------------------------------------------------------- verbs commands */

int simhca_alloc_pd(struct simhca_context *context, struct simhca_handle *reply,
		    struct simhca_why *why);
int simhca_dealloc_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_reg_mr(struct simhca_context *context, struct simhca_mm *mm,
		  const struct simhca_reg_mr_req *req, struct simhca_reg_mr_reply *reply,
		  struct simhca_why *why);
int simhca_rereg_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_rereg_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why);
/* A fast-register region of pages of mm. */
int simhca_alloc_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_alloc_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why);
int simhca_dereg_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* With FLUSH it answers -EAGAIN until it is done, and keeps a note in the request meanwhile. */
int simhca_advise_mr(struct simhca_context *context, struct simhca_advise_mr_req *req,
		     struct simhca_why *why);
void simhca_query_odp(const struct simhca_device *device, struct simhca_odp_counters *counters);

/* For imports: what there is to know of a PD or MR that exists. */
int simhca_query_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_query_mr(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_mr_reply *reply, struct simhca_why *why);

/* *fd: to pass on; do not close */
int simhca_alloc_dm(struct simhca_context *context, const struct simhca_alloc_dm_req *req,
		    struct simhca_dm_reply *reply, int *fd, struct simhca_why *why);
int simhca_import_dm(struct simhca_context *context, uint32_t handle, struct simhca_dm_reply *reply,
		     int *fd, struct simhca_why *why);
int simhca_free_dm(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_reg_dm_mr(struct simhca_context *context, const struct simhca_reg_dm_mr_req *req,
		     struct simhca_reg_mr_reply *reply, struct simhca_why *why);
/* The descriptor stays the caller's. */
int simhca_reg_dmabuf_mr(struct simhca_context *context, int fd,
			 const struct simhca_reg_dmabuf_mr_req *req,
			 struct simhca_reg_mr_reply *reply, struct simhca_why *why);

int simhca_alloc_mw(struct simhca_context *context, const struct simhca_alloc_mw_req *req,
		    struct simhca_alloc_mw_reply *reply, struct simhca_why *why);
int simhca_dealloc_mw(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_ah(struct simhca_context *context, const struct simhca_create_ah_req *req,
		     struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_ah(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_cq(struct simhca_context *context, const struct simhca_create_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why);
int simhca_resize_cq(struct simhca_context *context, const struct simhca_resize_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why);
/* Other memory for a CQ or SRQ (proto/renew.h). *fd stays the model's. */
int simhca_renew_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		       struct simhca_renew_queue_reply *reply, int *fd, struct simhca_why *why);
/* -ERESTART: a part of it has been done. */
int simhca_move_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		      struct simhca_why *why);
int simhca_modify_cq(struct simhca_context *context, const struct simhca_modify_cq_req *req,
		     struct simhca_why *why);
int simhca_arm_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* What the events of an object name it by: for the caller to take them back when it goes. */
struct simhca_identity {
	struct simhca_user_handle user_handle;
	uint64_t channel; /* of a CQ; 0: it has no completions */
	uint32_t told;	  /* of a CQ: events that programs have put into the channel, as they say */
	uint32_t renew;	  /* of a QP: enum simhca_renew, what is to follow when it has gone */
};
int simhca_cq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);
int simhca_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_srq(struct simhca_context *context, const struct simhca_create_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why);
int simhca_modify_srq(struct simhca_context *context, const struct simhca_modify_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why);
int simhca_query_srq(struct simhca_context *context, uint32_t handle,
		     struct simhca_query_srq_reply *reply, struct simhca_why *why);
int simhca_destroy_srq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* On the list of a tag-matching SRQ. */
int simhca_srq_op(struct simhca_context *context, const struct simhca_srq_op_req *req,
		  struct simhca_handle *reply, struct simhca_why *why);
int simhca_srq_identity(struct simhca_context *context, uint32_t handle,
			struct simhca_identity *identity, struct simhca_why *why);

/*
 * An XRC domain. file, if the request has one: a descriptor of the file that names it, which is
 * held as long as the domain lives. The model takes it, also when it fails.
 */
int simhca_open_xrcd(struct simhca_context *context, const struct simhca_open_xrcd_req *req,
		     int file, struct simhca_handle *reply, struct simhca_why *why);
int simhca_close_xrcd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* An XRC_RECV QP that another context has made. */
int simhca_open_qp(struct simhca_context *context, const struct simhca_open_qp_req *req,
		   struct simhca_handle *reply, struct simhca_why *why);

int simhca_create_qp(struct simhca_context *context, const struct simhca_create_qp_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_modify_qp(struct simhca_context *context, const struct simhca_modify_qp_req *req,
		     struct simhca_modify_qp_reply *reply, struct simhca_why *why);
int simhca_query_qp(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_qp_reply *reply, struct simhca_why *why);
/*
 * Whether a QP without acknowledgements (UC, UD, RAW_PACKET) has sends that an engine will get to,
 * and has been told of; not if it waits for pages. A NIC has sent them by the time that it is told
 * to destroy the QP.
 */
bool simhca_qp_has_sends(struct simhca_context *context, uint32_t handle);
int simhca_destroy_qp(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_qp_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);

/* Ethernet. The caller has judged whether the client may do so (CAP_NET_RAW). */
int simhca_create_wq(struct simhca_context *context, const struct simhca_create_wq_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_modify_wq(struct simhca_context *context, const struct simhca_modify_wq_req *req,
		     struct simhca_modify_wq_reply *reply, struct simhca_why *why);
int simhca_wq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);
int simhca_destroy_wq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_create_rwq_table(struct simhca_context *context,
			    const struct simhca_create_rwq_table_req *req,
			    struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_rwq_table(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why);
int simhca_create_rss_qp(struct simhca_context *context, const struct simhca_create_rss_qp_req *req,
			 struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_create_flow(struct simhca_context *context, const struct simhca_create_flow_req *req,
		       struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_flow(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_create_counters(struct simhca_context *context, struct simhca_handle *reply,
			   struct simhca_why *why);
int simhca_read_counters(struct simhca_context *context, uint32_t handle,
			 struct simhca_read_counters_reply *reply, struct simhca_why *why);
int simhca_destroy_counters(struct simhca_context *context, uint32_t handle,
			    struct simhca_why *why);

int simhca_create_comp_cntr(struct simhca_context *context,
			    const struct simhca_create_comp_cntr_req *req,
			    struct simhca_create_comp_cntr_reply *reply, struct simhca_why *why);
int simhca_destroy_comp_cntr(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why);
int simhca_attach_comp_cntr(struct simhca_context *context,
			    const struct simhca_attach_comp_cntr_req *req, struct simhca_why *why);
/* The fast path. mm: the sender's memory. The descriptors are the peer's context's. */
int simhca_offer_memory(struct simhca_context *context, struct simhca_mm *mm,
			const struct simhca_offer_memory_req *req, struct simhca_why *why);
/* If so, peers may carry messages to it of which nothing is known here. */
bool simhca_has_offered_memory(const struct simhca_context *context);
int simhca_find_peer(struct simhca_context *context, const struct simhca_find_peer_req *req,
		     struct simhca_find_peer_reply *reply, struct simhca_why *why);
/* What else the sender is given, or the caller has to know of the peer. */
struct simhca_attached {
	int fds[3]; /* of the segments; the model's */
	void *peer; /* the argument of its context */
	pid_t own_pid, peer_pid;
};
/*
 * The channels and records of the reply are those of the CQs. It is the caller's to decide which
 * channels are handed out, and to say of the others that there are none.
 */
int simhca_attach_peer(struct simhca_context *context, const struct simhca_mm *mm,
		       const struct simhca_attach_peer_req *req,
		       struct simhca_attach_peer_reply *reply, struct simhca_attached *attached,
		       struct simhca_why *why);

int simhca_attach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why);
int simhca_detach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why);

#endif
