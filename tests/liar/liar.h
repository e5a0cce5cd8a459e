/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that lies about its QPs, beside one that does not.
 *
 *   scene   a connection in a state in which its QPs wait, or in which they have just begun; of the verbs
 *           provider's rings or of EFA's, which a struct rings tells apart
 *   field   a number that the program can write: of the progress of either QP, of its rings, of a
 *           CQ or SRQ, of its doorbells
 *   lie     values for some fields, written while the scene is in its state, and what happens then
 *
 * An XRC target has no memory that programs can write: of such a connection these are the requester's,
 * and the SRQ's and its CQ's. Who lies to a provider that polls is in poll_liar.c.
 *
 * Rules that were taken out to see who finds that:
 *
 *	owner.c		what is kept beside the progress is void when		tm-fetches-sqd
 *			that has moved without the device
 *	own_memory.c	a look ahead ends where the queue does			rc-fault, uc-fault
 *	poll.c		a CQE is of a QP that completes in that CQ, of		simhca-liar-poll
 *			an SRQ that does, and if it has an SRQ, of that
 *	cqe_gate.h	a CQE is of what was posted, and the data in a slot	simhca-liar-poll
 *			fit into the buffer
 *	file_mr.c	what was moved into a file is looked for in it, where	rc-moved
 *			that is; its addresses are some, and lie in a page as
 *			the file's
 *	efa/gate.h	lengths and numbers of buffers, of messages, RDMA	efa-idle
 *			and receives; no more was posted than there is
 *	efa/message.c	a Q_Key is that of the receiver; no more is under	efa-no-rq, efa-idle
 *			way than the queue has
 *
 * A scene that was brought into its state is remembered, and that memory is written back before the
 * next lie, unless the last one has brought a QP down: then the connection is made anew.
 */
#ifndef SIMHCA_LIAR_H
#define SIMHCA_LIAR_H

#include "../c/fastpath_scene.h"
#include "../c/harness.h"

#define RING 8u			   /* entries of a scene's queues */
#define CQ_RING 16u		   /* and of its CQs */
#define BUFFER 4096u		   /* bytes of each side's region */
#define MTU 256u		   /* bytes */
#define INLINE 64u		   /* bytes */
#define NEIGHBOUR 1024u		   /* bytes of an honest message, and more in its region */
#define SECRET 0x5a5a5a5a5a5a5a5au /* the honest pair's bytes; in no lie, and in no liar's memory */

/* What may happen after a lie. */
enum act {
	ACT_NOTHING,
	ACT_TIME,     /* a second passes */
	ACT_RECV,     /* the responder posts a receive */
	ACT_POST,     /* the requester posts one more message */
	ACT_ANSWER,   /* the responder sends one the other way */
	ACT_QUERY,    /* the daemon is asked how far the QPs are */
	ACT_SQD,      /* the requester goes to SQD, or stays there, */
	ACT_NO_READS, /* ... where it may start no reads any more, */
	ACT_RTS,      /* ... and back to RTS */
	ACT_ERR,      /* the requester goes to ERR */
	ACT_PEER_ERR,
	ACT_PAGES,  /* the pages that are waited for are brought in */
	ACT_RESIZE, /* the CQs, and the SRQ */
	ACT_STEP,   /* both programs run the steps of their QPs */
	ACT_MOVE,   /* a region is registered as is said of it, and used */
	ACTS,
};
#define MOST_ACTS 4

enum kind { PSN, INDEX, SMALL, BYTES, ADDRESS, KEY, HOLDER };
#define VALUES 40 /* of each kind; some are the same */

struct field {
	char name[32];
	enum kind kind;
	uint8_t *at[2];		      /* two copies, or the second is NULL */
	_Atomic uint32_t *generation; /* of these */
	uint8_t bytes, shift, width;  /* of a word, and its bits */
	bool core;		      /* how far requester or responder is */
};
#define MOST_FIELDS 352

#define MOST_POKES 32
struct lie {
	unsigned int pokes;
	struct {
		uint16_t field;
		uint64_t value;
	} poke[MOST_POKES];
	uint8_t turns;	/* that others seem to have had */
	uint8_t copies; /* 0 both; 1 that which counts; 2 the other */
	uint8_t act[MOST_ACTS];
	bool goes_on; /* the next one follows while the device still works by this one */
};

struct scene_kind;
struct efa_end;
struct moved;
struct scene {
	const struct scene_kind *kind;
	const struct rings *rings;
	struct world *world;
	/* Of the two liars, and of the honest ones: what lies name. */
	struct mr *mr[2], *honest_mr[2];
	uint32_t qpn[2], honest_qpn[2];
	_Atomic uint32_t *generation[2][2]; /* of requester and responder; NULL: the device's own */
	struct efa_end *efa[2], *efa_honest;
	struct pair *good;
	struct pair *bad; /* a is the requester */
	struct srq *srq;  /* of b, or (tag matching) of a; or NULL */
	struct cq *srq_cq;
	uint32_t xrcd;
	struct mr *inv; /* of a key that a read invalidates */
	struct simhca_fastpath *fastpath[2];
	struct simhca_step step[2];
	struct moved *moved; /* or NULL */
	bool attached;
	struct field field[MOST_FIELDS];
	unsigned int fields, cores;
	int16_t by_name[1024]; /* hashed; a field's number plus 1 */
	bool listed, named;
	struct part {
		uint8_t *at, *copy;
		size_t size;
		bool is_queue; /* not of a QP: to be written back before it is connected again */
	} part[20];
	unsigned int parts;
	uint32_t state[2];
	bool fresh, broken;
	uint64_t message; /* of the honest pair */
};

struct scene_kind {
	const char *name;
	enum ibv_qp_type type;
	void (*make)(struct scene *scene, struct options *options);
	void (*enter)(struct scene *scene);
	enum act acts[3]; /* what it waits for */
	bool fast_path;	  /* on a device on which programs carry messages */
	bool lossy;
	const struct rings *rings; /* NULL: the verbs provider's */
};

/* A completion of the honest ones. */
struct honest {
	uint64_t id;
	uint32_t status, qpn;
};

/* What a scene is made of, which programs write to. */
struct rings {
	void (*make)(struct scene *scene,
		     struct options *options); /* the honest ones, and the liars */
	void (*renew)(struct scene *scene);
	void (*remember)(struct scene *scene);
	void (*bring_back)(struct scene *scene); /* what was remembered */
	void (*list_fields)(struct scene *scene);
	void (*consistent)(const struct scene *scene, uint64_t *seed, struct lie *lie);
	uint32_t (*state)(const struct scene *scene, unsigned int side);
	void (*ring)(struct scene *scene);
	void (*act)(struct scene *scene, enum act act);
	bool (*works)(struct scene *scene); /* when it was made anew */
	/* What the gates say of what is there; what they let through is looked at. */
	bool (*refuse)(const struct scene *scene);
	void (*check_progress)(const struct scene *scene);
	void (*check)(const struct scene *scene);
	/* A message of scene->message between the honest ones, whose bytes are SECRET. */
	void (*post_honest)(struct scene *scene);
	bool (*take_honest)(struct scene *scene, unsigned int side, struct honest *taken);
	/* While engines run, and lies are told. */
	void (*revive)(struct scene *scene, unsigned int side);
	void (*send_honest)(struct scene *scene);
};
extern const struct rings efa_rings; /* efa.c */
/* Which is the scene's: of what type its QPs are, and whether they have both queues, or a channel. */
void efa_make_plain(struct scene *scene, struct options *options);
void efa_make_unsolicited(struct scene *scene, struct options *options);
void efa_make_notified(struct scene *scene, struct options *options);
void efa_make_without_sq(struct scene *scene, struct options *options);
void efa_make_without_rq(struct scene *scene, struct options *options);
/* And what they wait for. */
void efa_idle(struct scene *scene);
void efa_waits_rnr(struct scene *scene);
void efa_writes(struct scene *scene);
void efa_reads(struct scene *scene);
void efa_flushes(struct scene *scene);

extern const struct scene_kind scene_kinds[];
extern const unsigned int num_scene_kinds;

/* moved.c: that memory was moved into a file, and where it was. moved_hold() is the process that owns it. */
void moved_hold(void);
void moved_make(struct scene *scene);
void moved_end(struct moved *moved);
void *moved_claim(const struct moved *moved, size_t *size);
void moved_fields(struct scene *scene);
void moved_lie(const struct scene *scene, uint64_t *seed, struct lie *lie);
/* NULL: what is claimed was refused. */
struct mr *moved_register(struct scene *scene);

/* With threads engines run, else they are polled. */
struct scene *scene_new(const struct scene_kind *kind, unsigned int threads);
void scene_free(struct scene *scene);
/* Into its state, by whatever is quickest. */
void scene_enter(struct scene *scene);
/* Makes the connection anew, whatever became of it; it works. */
void scene_renew(struct scene *scene);
void scene_act(struct scene *scene, enum act act);
/* The daemon's memory of the two QPs' states. */
uint32_t scene_state(const struct scene *scene, unsigned int side);
/* So many rounds of the engine, if it is polled. */
void poll_some(struct scene *scene, unsigned int most);

/* False: its progress is the device's own. */
static inline bool has_memory(const struct side *side)
{
	return side->qp->type != IBV_QPT_XRC_RECV;
}

void fields_list(struct scene *scene);
void fields_of_rings(struct scene *scene);
/* A new one, of a word, that is some bits of it; its name is asked for once. */
struct field *field_add(struct scene *scene, enum kind kind, void *at, uint8_t bytes);
void field_name(const struct scene *scene, struct field *field, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* -1: there is none. */
int field_find(const struct scene *scene, const char *name);
uint64_t field_get(const struct field *field);
void field_put(const struct field *field, uint64_t value, unsigned int turns, unsigned int copies);
/* Boundaries, of itself and of others; index below VALUES. */
uint64_t field_value(const struct scene *scene, const struct field *field, unsigned int index);

/*
 * The lie of that number; the first are single ones, then pairs and others take turns. True: it is one of
 * a kind, of which each is told to an engine, by itself.
 */
bool lie_make(const struct scene *scene, uint64_t seed, uint64_t number, struct lie *lie);
void lie_tell(struct scene *scene, const struct lie *lie);
/* For who makes consistent ones: the field of that side; none is no poke. */
uint32_t lie_below(uint64_t *seed, uint32_t bound);
void lie_poke(const struct scene *scene, struct lie *lie, const char *side, const char *name,
	      uint64_t value);
uint64_t lie_get(const struct scene *scene, const char *side, const char *name);
void lie_of_rings(const struct scene *scene, uint64_t *seed, struct lie *lie);
int lie_print(const struct scene *scene, const struct lie *lie, char *text, size_t size);
bool lie_parse(const struct scene *scene, char *text, struct lie *lie);

/* Of the verbs provider's rings, while engines run. */
void send_honest(struct scene *scene);
void revive(struct scene *scene, unsigned int side);
/* How many lies were told. */
uint64_t lie_while_engines_run(struct scene *scene, uint64_t seed, double seconds);

/* What a lie is about to change; with it it is taken back before the device has looked. */
struct before {
	uint8_t bytes[MOST_POKES][2][8];
	uint32_t generation[2][2];
};
void lie_note(const struct scene *scene, const struct lie *lie, struct before *before);
void lie_take_back(struct scene *scene, const struct lie *lie, const struct before *before);
bool gates_refuse(const struct scene *scene); /* of the verbs provider's rings */

/* What has to be true after each lie, of the liars' QPs and of the honest pair, before which: */
void oracle_begin(struct scene *scene);
void oracle_check(const struct scene *scene);
/* Only of how far the liars' QPs are. */
void oracle_progress(const struct scene *scene);
/* A message of the honest pair, and its completions. */
void honest_post(struct scene *scene);
bool honest_take(struct scene *scene, unsigned int side, struct honest *taken);
/* Of what a gate has let through. */
struct simhca_requester;
struct simhca_responder;
struct simhca_flight;
void oracle_requester(const struct simhca_requester *req, const struct simhca_flight *flights,
		      uint32_t sq_entries);
void oracle_responder(const struct simhca_responder *resp, uint32_t rq_entries, bool keeps);

/* Ends the program, with the lies that led there. */
void caught(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
