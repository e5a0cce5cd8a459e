/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What every test of the device model starts from.
 *
 *   world    a fabric, an engine and two devices; the test polls the engine and sets its clock,
 *            or (threaded) engine threads run and time is real
 *   client   one open of a device: its memory mapped, its events recorded
 *   cq, qp, srq, mr, mw   a client's objects, with the rings as a provider sees them
 *   side     a client with one QP, its two CQs and a registered buffer
 *   pair     two sides whose QPs talk to each other
 *
 * The first two are in harness.c, the others in harness_{memory,cq,qp,pair}.c.
 *
 * Everything belongs to the world and goes with it. Creating something that cannot be created
 * fails the test; where a refusal is the point, tests call the model's functions themselves.
 */
#ifndef SIMHCA_TEST_HARNESS_H
#define SIMHCA_TEST_HARNESS_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

#include "simhca.h"
#include "simhca-abi.h"

/* Whether this is built with ThreadSanitizer, by either compiler. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif
/* The same for AddressSanitizer. */
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif
/*
 * Tests that end a process behind each of its stores do so in the release build, with which all of them
 * are run. A sanitizer sees the same code behind one in seven.
 */
#define STORE_STEP (UNDER_TSAN || UNDER_ASAN ? 7u : 1u)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define USEC 1000ull
#define MSEC 1000000ull
#define SEC 1000000000ull

/* Enough for every access that the model knows. */
#define ALL_ACCESS                                                                                 \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |      \
	 SIMHCA_ACCESS_REMOTE_ATOMIC)

/*
 * Skip a test under qemu-user, which has no process_vm_readv(), and loses wake-ups between threads
 * (tests/platforms/test_arm64.py).
 */
void need_process_vm(void);
void need_wake_ups(void);

/* ------------------------------------------------------------------------------ world */

struct block;
struct client;

struct world {
	struct simhca_fabric *fabric;
	struct simhca_engine *engine[2];
	pthread_t thread[2];
	pthread_t second_thread[2]; /* of each engine, with two CPUs */
	unsigned int engines;
	bool second_threads;
	unsigned int ring_cpu_index; /* where doorbells wake; 2: in turn */
	bool threaded;
	bool infiniband;
	struct simhca_device *device[2];
	bool (*tick)(void); /* of a link that has a time of its own; true: something is under way */
	_Atomic uint64_t now; /* what the engine's clock says, in ns, unless threaded */
	uint64_t ns_per_look; /* see world_config */
	struct client *clients;
	struct block *blocks;
	pthread_mutex_t log_lock;
	char log[16384];	      /* what was logged last, in lines */
	_Atomic uint32_t tapped[256]; /* frames, by the opcodes of their BTHs */
	_Atomic uint64_t tapped_bytes;
};

struct world_config {
	bool infiniband;
	unsigned int threads;		    /* engines with one each; 0: the test polls */
	bool two_cpus;			    /* each engine has a thread on each of two */
	bool deaf_cpu;			    /* but none on the second */
	uint64_t ns_per_look;		    /* the engines' clock goes on so far at each look */
	struct simhca_device_config device; /* limits; name, GUIDs and LID are filled in */
};

struct world *world_new(const struct world_config *config);
/* Its packets go over the wire link: SIMHCA_TEST_LINK=wire. */
bool world_has_wire(const struct world *world);
void world_free(struct world *world);

/* cmocka fixtures; *state is the world. */
int setup_ethernet(void **state);
int setup_infiniband(void **state);
int setup_one_thread(void **state);
int setup_two_threads(void **state);
int setup_two_cpus(void **state);
int teardown(void **state);

#define ON_ETHERNET(test) cmocka_unit_test_setup_teardown(test, setup_ethernet, teardown)
#define ON_INFINIBAND(test)                                                                        \
	{                                                                                          \
#test " (InfiniBand)", test, setup_infiniband, teardown, NULL                      \
	}
#define ON_ONE_THREAD(test)                                                                        \
	{                                                                                          \
#test " (one engine thread)", test, setup_one_thread, teardown, NULL               \
	}
#define ON_TWO_THREADS(test)                                                                       \
	{                                                                                          \
#test " (two engine threads)", test, setup_two_threads, teardown, NULL             \
	}

#define ON_TWO_CPUS(test)                                                                          \
	{                                                                                          \
#test " (one engine, two CPUs)", test, setup_two_cpus, teardown, NULL              \
	}

/*
 * A control function answers -EAGAIN while an engine works on the object, and wants to be asked
 * again. Between two calls the engine gets a while to end its step.
 */
void test_nap(unsigned int us);
#define patiently(call)                                                                            \
	({                                                                                         \
		int answer_ = (call);                                                              \
                                                                                                   \
		for (int n_ = 0; (answer_ == -EAGAIN || answer_ == -ERESTART) && n_ < 100000;      \
		     n_++) {                                                                       \
			test_nap(100);                                                             \
			answer_ = (call);                                                          \
		}                                                                                  \
		answer_;                                                                           \
	})

/* Zeroed memory that the world frees. */
void *world_alloc(struct world *world, size_t size);
/* An engine that is still busy after so many rounds will never be idle. */
#define IDLE_ROUNDS 1000000u
/* Polls each engine once; whether there was something to do. */
bool world_poll(struct world *world);
/* Polls the engine until it has nothing to do; fails the test if that never happens. */
void run_until_idle(struct world *world);
/* Polls the engine that many times, idle or not: for when a client keeps it busy. */
void rounds(struct world *world, unsigned int count);
/* Runs until idle, lets that much time pass at once, and runs until idle again. */
void advance(struct world *world, uint64_t ns);

/* How many lines with these words were logged since last forgotten. */
unsigned int logged(struct world *world, const char *words);
void forget_log(struct world *world);

/* The GID of a device: index 0 is an IPv4-mapped one, 1 is IPv6. */
union simhca_gid device_gid(unsigned int device, unsigned int index);
#define DEVICE_LID(device) ((uint16_t)(0x11 + (device)))

/* ----------------------------------------------------------------------------- client */

struct async_event {
	uint64_t element;
	uint32_t type;
};

struct client {
	struct client *next;
	struct world *world;
	unsigned int device_index;
	struct simhca_context *context;
	struct simhca_mm *mm;
	uint32_t pd;
	struct simhca_ctx_mem *mem;
	_Atomic unsigned int rings;
	struct mapped { /* those that the test still knows */
		void *addr;
		uint64_t size;
		uint32_t number;
	} segment[SIMHCA_MAX_SEGMENTS + SIMHCA_MAX_OWN_SEGMENTS];
	pthread_mutex_t event_lock;
	unsigned int num_events;
	struct async_event event[4096];
	void (*on_async)(struct client *client); /* called with each of them, if set */
};

struct client *client_new(struct world *world, unsigned int device);
struct client *client_new_on(struct world *world, unsigned int device, unsigned int engine);
/* As when the process dies: the model destroys what is left. The structs stay readable. */
void client_gone(struct client *client);
/* Where a queue lies, mapped for this client. */
void *client_at(struct client *client, const struct simhca_mem_ref *ref);
/* The model has put another file in the place of that segment of a queue. */
void client_map_again(struct client *client, uint32_t segment);
void ring_doorbell(struct client *client, uint32_t slot);

/* How many asynchronous events of this type were raised for the element since last forgotten. */
unsigned int events_of(struct client *client, const void *element, uint32_t type);
void forget_events(struct client *client);

uint32_t pd_new(struct client *client);

/* ------------------------------------------------------------------------------ memory */

struct mr {
	struct client *client;
	uint8_t *addr;
	uint64_t length;
	uint64_t iova;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/* A region over fresh zeroed memory. */
struct mr *mr_new(struct client *client, uint64_t length, uint32_t access);
struct mr *mr_over(struct client *client, uint32_t pd, void *addr, uint64_t length, uint64_t iova,
		   uint32_t access);
/* What a program finds out before it registers (simhca_reg_mr_req.unmapped). */
bool is_unmapped(const void *addr, uint64_t length, uint32_t access);
/* 0 or a negative errno, like the model's own. */
int mr_try(struct client *client, uint32_t pd, void *addr, uint64_t length, uint64_t iova,
	   uint32_t access, struct simhca_reg_mr_reply *reply);
struct simhca_sge sge(const struct mr *mr, uint64_t offset, uint32_t length);
/* A fast-register region, free; addr and iova are 0 until qp_fast_reg(). */
struct mr *fast_mr_new(struct client *client, uint32_t pd, uint32_t max_pages);
/* 0 or a negative errno. */
int mr_gone(struct mr *mr);

struct mw {
	struct client *client;
	uint32_t type;
	uint32_t handle;
	uint32_t rkey;
};
struct mw *mw_new(struct client *client, uint32_t pd, uint32_t type);
void mw_gone(struct mw *mw);
/* The protection table's entry of a key, as clients see it. */
const struct simhca_mpt *mpt_of(struct client *client, uint32_t key);

/* Bytes that depend on the seed and on their place. */
void fill(uint8_t *at, size_t length, uint32_t seed);
bool filled(const uint8_t *at, size_t length, uint32_t seed);
bool all_bytes(const uint8_t *at, size_t length, uint8_t value);
uint32_t test_random(uint64_t *seed);

/* --------------------------------------------------------------------------------- CQ */

struct cq {
	struct client *client;
	uint32_t handle;
	uint32_t cqe;
	uint32_t entries;
	struct simhca_cq_mem *state;
	struct simhca_cqe *ring;
	const uint8_t *data; /* or NULL */
	uint32_t data_slots;
	uint32_t ci;
	_Atomic unsigned int events;		    /* completion events received */
	void (*on_event)(struct cq *cq, void *arg); /* called from the engine, if set */
	void *on_event_arg;
};

/*
 * As the provider does: whoever posts a receive to a queue that several consume from notes its first
 * buffer, under the number that this returns; and cq_poll() copies to it what stayed in the CQ.
 */
uint32_t record_new(const struct simhca_sge *sges, uint32_t num_sge, bool datagram);
struct cq *cq_new(struct client *client, uint32_t cqe);
struct cq *cq_new_flags(struct client *client, uint32_t cqe, uint32_t flags);
int cq_resize(struct cq *cq, uint32_t cqe);
void cq_arm(struct cq *cq, uint32_t bits);
/* Takes one CQE if there is one. */
bool cq_poll(struct cq *cq, struct simhca_cqe *cqe);
/* Waits for one CQE; false when none comes. */
bool cq_wait(struct cq *cq, struct simhca_cqe *cqe);

/* The next completion must have this wr_id and status, and this reason if reason >= 0. */
struct simhca_cqe expect_(struct cq *cq, uint64_t wr_id, int status, int reason, const char *file,
			  int line);
#define expect(cq, wr_id, status) expect_(cq, wr_id, IBV_WC_##status, -1, __FILE__, __LINE__)
#define expect_why(cq, wr_id, status, reason)                                                      \
	expect_(cq, wr_id, IBV_WC_##status, SIMHCA_REASON_##reason, __FILE__, __LINE__)
void expect_none_(struct cq *cq, const char *file, int line);
#define expect_none(cq) expect_none_(cq, __FILE__, __LINE__)

/* -------------------------------------------------------------------------------- SRQ */

struct srq {
	struct client *client;
	uint32_t handle;
	uint32_t srqn;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t entries;
	uint32_t stride;
	struct simhca_srq_mem *state;
	uint8_t *ring;
	uint32_t pi;
	bool has_records; /* its receives' data may stay in the CQ */
};

/* WQEs consumed; an engine may be at work. */
static inline uint32_t srq_ci_of(const struct srq *srq)
{
	return (uint32_t)atomic_load_explicit(&srq->state->head, memory_order_acquire);
}
struct srq *srq_new(struct client *client, uint32_t max_wr, uint32_t max_sge, uint32_t limit);
/* An XRC SRQ of the domain with this handle, and of the client's PD. */
struct srq *xrc_srq_new(struct client *client, uint32_t xrcd, struct cq *cq, uint32_t max_wr);
/* One that matches tags. */
struct srq *tm_srq_new(struct client *client, struct cq *cq, uint32_t max_wr, uint32_t max_tags);
int srq_modify(struct srq *srq, uint32_t mask, uint32_t max_wr, uint32_t limit);
void srq_recv(struct srq *srq, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge);

/* --------------------------------------------------------------------------------- QP */

/* How to make and connect a QP. Start from default_options() and change what the test is about. */
struct options {
	enum ibv_qp_type type;
	uint32_t max_send_wr, max_recv_wr;
	uint32_t max_send_sge, max_recv_sge;
	uint32_t max_inline;
	uint32_t cqe;
	uint32_t sq_sig_all;
	uint32_t access;    /* remote rights granted on the QP */
	uint32_t mr_access; /* of each side's buffer */
	uint64_t buffer;    /* bytes of each side's buffer */
	uint8_t *memory; /* the buffer itself, and that of a pair's b behind it; NULL: fresh ones */
	uint32_t path_mtu; /* enum ibv_mtu */
	uint32_t psn;	   /* sq_psn of one side and rq_psn of the other */
	uint32_t qkey;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t gid_index;
	uint8_t static_rate; /* enum ibv_rate */
	uint32_t flow_label;
	uint32_t srq_wr;  /* b's receives come from an SRQ of so many; 0: from its own queue */
	bool strip_cvlan; /* RAW_PACKET */
	bool slot_data;	  /* and the device has to have it */
	bool no_fastpath;
	bool same_device;  /* both sides on device 0 */
	bool same_context; /* and in one context */
};
struct options default_options(enum ibv_qp_type type);

struct qp {
	struct client *client;
	enum ibv_qp_type type;
	uint32_t handle;
	uint32_t qpn;
	uint32_t doorbell;
	uint32_t pd;
	struct simhca_create_qp_reply granted;
	struct simhca_qp_mem *state;
	struct simhca_srq_mem *claims; /* of its RQ; NULL: it is the device's alone */
	uint8_t *sq;
	uint8_t *rq;
	uint32_t sq_pi;
	uint32_t rq_pi;
};

/* The copies of its progress that count. */
static inline struct simhca_requester *requester_of(const struct qp *qp)
{
	return &qp->state->req[atomic_load_explicit(&qp->state->req_owner.generation,
						    memory_order_acquire) &
			       1];
}
static inline struct simhca_responder *responder_of(const struct qp *qp)
{
	return &qp->state->resp[atomic_load_explicit(&qp->state->resp_owner.generation,
						     memory_order_acquire) &
				1];
}
/* To be called when a test has changed them: as if somebody else had had turns. */
static inline void others_had_turns(struct qp *qp)
{
	atomic_fetch_add(&qp->state->req_owner.generation, 2);
	atomic_fetch_add(&qp->state->resp_owner.generation, 2);
}
/* Ring indices that the device has reached; an engine may be at work. */
static inline uint32_t sq_ci_of(const struct qp *qp)
{
	return __atomic_load_n(&requester_of(qp)->oldest, __ATOMIC_ACQUIRE);
}
static inline uint32_t rq_ci_of(const struct qp *qp)
{
	if (qp->claims)
		return (uint32_t)atomic_load(&qp->claims->head);
	return __atomic_load_n(&responder_of(qp)->rq_ci, __ATOMIC_ACQUIRE);
}
static inline _Atomic uint32_t *rq_pi_of(const struct qp *qp)
{
	return qp->claims ? &qp->claims->pi : &qp->state->rq_pi;
}

struct qp *qp_new(struct client *client, const struct options *options, struct cq *send_cq,
		  struct cq *recv_cq, struct srq *srq);
struct qp *qp_new_in(struct client *client, uint32_t pd, const struct options *options,
		     struct cq *send_cq, struct cq *recv_cq, struct srq *srq);
/* All that a QP needs to get from RESET to RTS towards a peer. */
struct simhca_qp_attr qp_attr_to(const struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
				 const struct options *options);
struct simhca_av av_to(const struct world *world, unsigned int device, unsigned int gid_index);
uint32_t init_mask(enum ibv_qp_type type);
uint32_t rtr_mask(enum ibv_qp_type type);
uint32_t rts_mask(enum ibv_qp_type type);
/* 0 or a negative errno. */
int qp_modify(struct qp *qp, uint32_t mask, struct simhca_qp_attr attr);
/* To the state, by way of the states between, which must all succeed. */
void qp_up_to(struct qp *qp, enum ibv_qp_state state, struct simhca_qp_attr attr);
void qp_connect(struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
		const struct options *options);
/* With no attribute but the state. */
int qp_move(struct qp *qp, enum ibv_qp_state state);
struct simhca_qp_attr qp_query(struct qp *qp);
enum ibv_qp_state qp_state(struct qp *qp);

/* A send work request; what is left out is 0, and flags 0 is an unsignaled one. */
struct wr {
	uint64_t id;
	uint8_t opcode; /* enum simhca_wr_opcode */
	uint8_t flags;	/* enum simhca_wqe_flags */
	uint8_t also;	/* further flags, beside those that post() sets */
	uint32_t imm;
	const struct simhca_sge *sges;
	uint32_t num_sge;
	const void *inline_data;
	uint32_t inline_len;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	uint32_t rkey;
	uint32_t srqn;			/* XRC_SEND */
	uint8_t placement, selectivity; /* FLUSH, of remote_addr, rkey and length */
	struct simhca_av av;
	uint32_t dest_qpn;
	uint32_t qkey;
	/* BIND_MW, FAST_REG */
	uint64_t addr, length;
	uint32_t mw, mw_type, lkey, access, key;
	const uint64_t *pages;
	uint32_t num_pages, page_shift;
};

/* Writes the WQE and publishes it, without ringing the doorbell. */
struct simhca_send_wqe *qp_put(struct qp *qp, const struct wr *wr);
void qp_ring(struct qp *qp);
void qp_post(struct qp *qp, const struct wr *wr);
/* Binds to [offset, offset + length) of the region; the window's next key is its key then. */
void qp_bind(struct qp *qp, uint64_t id, struct mw *mw, const struct mr *mr, uint64_t offset,
	     uint64_t length, uint32_t access);
/* Registers length bytes of the pages of 4 KiB; the region's next key is its key then. */
void qp_fast_reg(struct qp *qp, uint64_t id, struct mr *mr, const uint64_t *pages,
		 uint32_t num_pages, uint64_t iova, uint64_t length, uint32_t access);
void qp_local_inv(struct qp *qp, uint64_t id, uint32_t key);
void qp_recv(struct qp *qp, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge);

#define SGES(...)                                                                                  \
	.sges = (const struct simhca_sge[]){ __VA_ARGS__ },                                        \
	.num_sge = ARRAY_SIZE(((const struct simhca_sge[]){ __VA_ARGS__ }))
#define post(side, ...)                                                                            \
	qp_post((side)->qp, &(struct wr){ .flags = SIMHCA_WQE_SIGNALED, __VA_ARGS__ })
#define post_recv(side, id, ...)                                                                   \
	qp_recv((side)->qp, id, (const struct simhca_sge[]){ __VA_ARGS__ },                        \
		ARRAY_SIZE(((const struct simhca_sge[]){ __VA_ARGS__ })))

/* ------------------------------------------------------------------------ two QPs talk */

struct side {
	struct world *world;
	struct client *client;
	struct cq *send_cq;
	struct cq *recv_cq;
	struct qp *qp;
	struct srq *srq; /* or NULL */
	struct mr *mr;
	struct side *peer;
	struct options options;
};
struct pair {
	struct side a, b;
};

/* A side whose QP is still in RESET. */
struct side *side_new(struct client *client, const struct options *options);
void side_make(struct side *side, struct client *client, const struct options *options,
	       struct srq *srq);
/* Two sides in RTS, on two devices unless the options say otherwise. */
struct pair *pair_new(struct world *world, const struct options *options);
/* The same, unconnected. */
struct pair *pair_unconnected(struct world *world, const struct options *options);
void pair_connect(struct pair *pair);
/* RTS again after RESET of both. */
void pair_reconnect(struct pair *pair);

/* From or to the buffer of a side, in one SGE, signaled. UD goes to the peer. */
void send_from(struct side *side, uint64_t id, uint64_t offset, uint32_t length);
/* Posted to where the side's receives come from. */
void side_recv(struct side *side, uint64_t id, const struct simhca_sge *sges, uint32_t num_sge);
void recv_into(struct side *side, uint64_t id, uint64_t offset, uint32_t length);
void rdma_write(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
		uint64_t peer_offset);
void rdma_read(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
	       uint64_t peer_offset);
/* The pair still carries a message from a to b. */
void check_works_(struct pair *pair, const char *file, int line);
#define check_works(pair) check_works_(pair, __FILE__, __LINE__)

#endif
