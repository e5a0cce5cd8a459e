/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * rdma_cm: connections by IP addresses and port numbers, for librdmacm. What the kernel's rdma_cm
 * and rdma_ucm are, on top of the communication manager of the device model (cm/cm.h).
 *
 *	file	an open /dev/infiniband/rdma_cm, librdmacm's event channel (ucma_file.c)
 *	id	an rdma_cm_id (cma_id.c, cma_connect.c): addresses, a device once one is known, a
 *		state, and the communication manager's id once there is a peer
 *	port	a number of a port space that ids are bound to (cma_port.c); not a socket
 *
 * All of it runs on the event loop, and nothing of it waits.
 */
#ifndef SIMHCAD_CMA_H
#define SIMHCAD_CMA_H

#include <ev.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uthash.h>

#include "cm/cm.h"
#include "loop/listener.h"
#include "session/daemon.h"
#include "simhca-abi-rdma-cm.h"

/* Of one program: events that it has not fetched; ids and memberships of groups. */
#define CMA_EVENTS 65536
#define CMA_OBJECTS 65536
#define CMA_UDP_QKEY 0x01234567
#define CMA_CM_TIMEOUT 20 /* 4.096 us * 2^n, as are the others */
#define CMA_CM_RETRIES 15
/*
 * Of a packet on the way, 4.096 us * 2^n, of which a QP's ACK timeout is made: 0.5 s on Ethernet, as
 * Linux has it since 6.2 (2.1 s before), and 2.1 s of what a subnet manager says by default.
 */
#define CMA_PACKET_LIFE_ETHERNET 16
#define CMA_PACKET_LIFE_INFINIBAND 18
#define CMA_PKEY 0xffff

#ifndef AF_IB
#define AF_IB 27
#endif
/* <infiniband/ib.h>, which comes with librdmacm only. */
struct cma_sockaddr_ib {
	uint16_t family;
	uint16_t pkey; /* big endian, as all below */
	uint32_t flowinfo;
	union simhca_gid gid;
	uint64_t sid;
	uint64_t sid_mask;
	uint64_t scope_id;
};

union cma_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct cma_sockaddr_ib ib;
	struct __kernel_sockaddr_storage storage;
};

enum cma_state {
	CMA_IDLE,
	CMA_BOUND,
	CMA_LISTEN,
	CMA_ADDR_QUERY,
	CMA_ADDR_RESOLVED,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECT,
	CMA_DISCONNECT,
	CMA_STATES,
};

/* The codes of librdmacm's enum rdma_cm_event_type. */
enum cma_event_type {
	CMA_EV_ADDR_RESOLVED,
	CMA_EV_ADDR_ERROR,
	CMA_EV_ROUTE_RESOLVED,
	CMA_EV_ROUTE_ERROR,
	CMA_EV_CONNECT_REQUEST,
	CMA_EV_CONNECT_RESPONSE,
	CMA_EV_CONNECT_ERROR,
	CMA_EV_UNREACHABLE,
	CMA_EV_REJECTED,
	CMA_EV_ESTABLISHED,
	CMA_EV_DISCONNECTED,
	CMA_EV_DEVICE_REMOVAL,
	CMA_EV_MULTICAST_JOIN,
	CMA_EV_MULTICAST_ERROR,
	CMA_EV_ADDR_CHANGE,
	CMA_EV_TIMEWAIT_EXIT,
};

struct cma_file;
struct cma_id;
struct cma_port;

/* A multicast group that an id has joined. */
struct cma_mc {
	uint32_t handle;
	uint64_t uid;
	struct cma_id *id;
	union simhca_gid mgid;
	uint32_t events_reported;
	struct cma_event *joined;   /* its only event, until somebody fetches it */
	struct cma_mc *prev, *next; /* of the id */
};

/* An event that was not fetched yet. */
struct cma_event {
	struct rdma_ucm_event_resp resp;
	struct cma_id *id;	/* whose event count it is in */
	struct cma_id *request; /* CONNECT_REQUEST: the id that came with it */
	struct cma_mc *mc;
	struct cma_event *prev, *next;	     /* of the file */
	struct cma_event *id_prev, *id_next; /* of the id */
};

struct cma_id {
	uint32_t handle;
	struct cma_file *file;
	uint64_t uid; /* 0: of a request that was not accepted yet */
	uint32_t events_reported;
	uint16_t ps;
	uint8_t qp_type;
	enum cma_state state;
	union cma_addr src, dst; /* family 0: none */
	struct device *device;	 /* NULL: none is known yet */
	uint8_t sgid_index;
	bool has_path;
	struct simhca_cm_path path;

	struct cma_port *port;
	struct cma_id *port_prev, *port_next;
	bool reuseaddr, afonly, afonly_set;
	uint8_t tos, ack_timeout;
	bool ack_timeout_set;

	unsigned int backlog, waiting; /* LISTEN: requests at most, and that nobody fetched */
	unsigned int full_backlog;     /* of the listener that had no room for its SIDR_REQ; or 0 */
	bool unserved;		       /* whose port has listeners at other addresses alone */
	struct cma_id *listener;       /* of a request that nobody fetched */
	struct cma_event *announced;   /* the event that is to bring it; NULL: none yet */

	struct simhca_cm_id *cm;
	uint32_t psn, qp_num, qkey;
	bool srq;
	struct cma_mc *mcs;
	struct cma_event *events;   /* that nobody fetched: each is the file's, too */
	ev_timer resolving;	    /* ADDR_QUERY: until it is looked again */
	ev_tstamp give_up, pause;   /* when it fails; how long a neighbour is waited for next */
	struct cma_id *prev, *next; /* of the file */
};

/* A program with files, by who opened them; what is shared out is counted here. */
struct cma_program {
	pid_t pid; /* stands for it (program.h) */
	unsigned int files, events, objects;
	UT_hash_handle hh;
};

struct cma_file {
	struct retry retry; /* first: of its end */
	struct turn turn;
	struct cma *cma;
	struct cma_program *program;
	int fd;
	struct owner owner;
	struct answer_set answers;
	ev_io io;
	uint64_t number; /* which cannot be guessed */
	pid_t pid;	 /* of who wrote last; 0: cannot be seen from here */
	uid_t uid;
	char comm[16];
	struct cma_id *ids;
	struct cma_event *events;
	uint32_t token, last_token; /* token 0: none is there */
	bool is_closing;	    /* nobody has it open any more: its ids end */
	struct cma_file *prev, *next;
	UT_hash_handle hh;
};

/* A table from small numbers to objects. */
struct cma_handles {
	void **object;
	uint32_t room, lowest; /* lowest: no free one is below it */
};

#define CMA_EPHEMERAL_WORDS 442

struct cma {
	struct daemon *daemon;
	struct unacked *unacked;
	struct unanswered *unanswered;
	struct simhca_cm *cm;
	struct listener listener;
	ev_timer timer;
	ev_idle more; /* the communication manager has more to do */
	ev_prepare prepare;
	struct cma_file *files;	      /* list */
	struct cma_file *by_number;   /* hash */
	struct cma_program *programs; /* hash */
	struct cma_handles ids, mcs;
	unsigned int num_files, num_ids, num_events; /* these: not fetched */
	unsigned int in_state[CMA_STATES];	     /* ids */
	struct cma_port *ports;			     /* hash */
	struct cma_port *listening;		     /* list */
	uint64_t taken[4][CMA_EPHEMERAL_WORDS];	     /* ports, in each port space */
	struct gmp_port {
		struct cma *cma;
		struct device *device;
	} gmp[OPTIONS_MAX_DEVICES];
};

/* ------------------------------------------------------------------------------- cma_handles.c */

int cma_handle_add(struct cma_handles *handles, void *object, uint32_t *handle);
void *cma_handle_get(const struct cma_handles *handles, uint32_t handle);
void cma_handle_remove(struct cma_handles *handles, uint32_t handle);

/* ------------------------------------------------------------------------------------ cma_id.c */

/* Why what has begun, or is over, does not begin again. */
#define CMA_CONNECTS_ONCE                                                                          \
	"the connection has ended, and an id connects once: destroy it, and create another"
void cma_set_state(struct cma_id *id, enum cma_state state);
/* NULL: no memory, or the program has too many. The id belongs to the file. */
struct cma_id *cma_id_create(struct cma_file *file, uint64_t uid, uint16_t ps, uint8_t qp_type);
void cma_id_destroy(struct cma_id *id);
/* An event of an id will not be fetched; nor will the id that it was to bring. */
void cma_id_drop_event(struct cma_event *event);
/* By its handle: 0, -ENOENT, -EINVAL if it is another file's. */
int cma_id_find(struct cma_file *file, uint32_t handle, struct cma_id **id);
int cma_bind(struct cma_id *id, const union cma_addr *addr, struct simhca_why *why);
int cma_resolve_addr(struct cma_id *id, const union cma_addr *src, const union cma_addr *dst,
		     uint32_t timeout_ms, struct simhca_why *why);
int cma_resolve_route(struct cma_id *id, uint32_t timeout_ms, struct simhca_why *why);
int cma_listen(struct cma_id *id, int backlog, struct simhca_why *why);
void cma_attach(struct cma_id *id, struct device *device, uint8_t sgid_index);

/* -------------------------------------------------------------------------------- cma_connect.c */

int cma_connect(struct cma_id *id, const struct rdma_ucm_conn_param *param,
		const struct rdma_ucm_ece *ece, struct simhca_why *why);
/* What the communication manager has refused for the state that the connection is in. */
int cma_not_in_this_state(const struct cma_id *id, int ret, struct simhca_why *why);
/* param NULL: the active side is ready, too. */
int cma_accept(struct cma_id *id, const struct rdma_ucm_conn_param *param,
	       const struct rdma_ucm_ece *ece, struct simhca_why *why);
int cma_reject(struct cma_id *id, uint8_t reason, const void *private_data, size_t length,
	       struct simhca_why *why);
int cma_disconnect(struct cma_id *id, struct simhca_why *why);
int cma_notify(struct cma_id *id, uint32_t event, struct simhca_why *why);
/* What the communication manager has to say. */
int cma_on_cm_event(void *arg, struct simhca_cm_id *cm, const struct simhca_cm_event *event);

/* ------------------------------------------------------------------------------ cma_qp_attr.c */

int cma_init_qp_attr(struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr,
		     struct simhca_why *why);
/* The address vector that a path makes for a QP of the id. */
void cma_path_av(const struct cma_id *id, const struct simhca_cm_path *path,
		 struct ib_uverbs_ah_attr *attr);

/* --------------------------------------------------------------------------------- cma_mcast.c */

int cma_join(struct cma_id *id, uint64_t uid, const union cma_addr *addr, uint16_t flags,
	     uint32_t *handle, struct simhca_why *why);
/* Whether an id of any program is in the group. */
bool cma_has_joined(const struct cma *cma, const union simhca_gid *mgid);
/* events: what was reported of it */
int cma_leave(struct cma_file *file, uint32_t handle, uint32_t *events);
void cma_mc_free(struct cma_mc *mc);
/* The GID and, on InfiniBand, the LID of the group that an address names. */
void cma_mgid(const struct cma_id *id, const union cma_addr *addr, union simhca_gid *mgid);
uint16_t cma_mlid(const union simhca_gid *mgid);

/* ---------------------------------------------------------------------------------- cma_port.c */

/* Binds the id to the port of its source address, or to a free one if that is 0. */
int cma_port_bind(struct cma_id *id, struct simhca_why *why);
void cma_port_release(struct cma_id *id);
/* The port is listened on from now on, by this id as well. */
int cma_port_listen(struct cma_id *id, struct simhca_why *why);
/* Who listens for this destination on the port that a communication manager's listener is of. */
struct cma_id *cma_port_listener(struct cma_port *port, const union cma_addr *dst);
/* "10.0.0.1:7471, [::]:18515": of a port space, for the log. */
void cma_port_describe(struct cma *cma, uint16_t ps, char *text, size_t size);
/* "; port 12061 is 7471 with its bytes reversed: ...": why nobody serves this client, or "". */
void cma_port_hint(const struct cma_id *client, char *text, size_t size);
uint64_t cma_service_id(const struct cma_id *id, const union cma_addr *addr);

/* ---------------------------------------------------------------------------------- cma_addr.c */

bool cma_addr_is_any(const union cma_addr *addr); /* loopback counts as any */
bool cma_addr_is_zero(const union cma_addr *addr);
bool cma_addr_is_loopback(const union cma_addr *addr);
/* One of IPv6, or a group, that is of a link, which the scope names. */
bool cma_addr_is_link_local(const union cma_addr *addr);
/* An IPv4 address in IPv6's form, which no interface has: its GID is that of the IPv4 address. */
bool cma_addr_is_mapped(const union cma_addr *addr);
bool cma_addr_is_multicast(const union cma_addr *addr);
bool cma_addr_equal(const union cma_addr *a, const union cma_addr *b); /* without the port */
uint16_t cma_addr_port(const union cma_addr *addr);		       /* host order */
void cma_addr_set_port(union cma_addr *addr, uint16_t port);
size_t cma_addr_size(const union cma_addr *addr);
/* The GID that stands for an address: IPv4 mapped into IPv6. */
void cma_addr_gid(const union cma_addr *addr, union simhca_gid *gid);
void cma_addr_from_ip(union cma_addr *addr, uint8_t version, const uint8_t ip[16], uint16_t port);
#define CMA_ADDR_TEXT 80
const char *cma_addr_print(const union cma_addr *addr, char text[CMA_ADDR_TEXT]);
const char *cma_ps_name(uint16_t ps);
/* A device that has this address, and where; NULL: none has. */
struct device *cma_addr_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index);
/* Likewise, and packets from there can leave the host. */
struct device *cma_wire_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index);
/*
 * Sets the source address of an id that has none, and that the kernel does not route: that of the device, and to
 * the wildcard or loopback 127.0.0.1 or ::1, as Linux does.
 */
void cma_addr_of_source(const struct device *device, uint8_t sgid_index, const union cma_addr *dst,
			union cma_addr *src);
/*
 * An Ethernet device whose interface has this address, which has no place in the GID table: with a GID of the address's
 * family and scope. NULL: none has.
 */
struct device *cma_interface_device(struct cma *cma, const union cma_addr *addr,
				    uint8_t *sgid_index);
/* Whether packets of any device whose port is active can leave the host. */
bool cma_has_wire(struct cma *cma);
/* The first device whose port is active, with a GID of the address's family. */
struct device *cma_any_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index);

/* ---------------------------------------------------------------------------------- cma_route.c */

/*
 * The address that the kernel sends from to the id's destination, or why it sends nothing there: a negative errno. Where
 * that says nothing of a route, as the kernel could not be asked, failed is the system call that failed, and else NULL.
 */
int cma_route(const struct cma_id *id, union cma_addr *src, const char **failed);
/*
 * A datagram socket that is connected to the id's destination, as the wire's packets to it are sent; nothing was sent.
 * Or a negative errno, with failed as above.
 */
int cma_route_socket(const struct cma_id *id, const char **failed);

/* ------------------------------------------------------------------------------ cma_neighbour.c */

/*
 * 0, or ENODATA: the host that packets from the id's device to its destination go to first has not answered ARP or NDP
 * yet, and is being asked. 0 as well where nobody is to be asked, and if the kernel does not say.
 */
int cma_neighbour(const struct cma_id *id, struct simhca_why *why);

/* ---------------------------------------------------------------------------------- cma_notify.c */

/* How a connection failed, which `simhca explain` has advice on. */
#define CMA_NOBODY_LISTENS "nobody_listens"
#define CMA_REJECTED "rejected"
#define CMA_TOO_LATE "too_late"
#define CMA_NO_ANSWER "no_answer"
#define CMA_NOT_SENT "not_sent"
#define CMA_NO_DEVICE "no_device"
#define CMA_NO_NEIGHBOUR "no_neighbour"
#define CMA_BACKLOG_FULL "backlog_full"
void cma_notify_failure(const struct cma_id *id, const char *how, int status, const char *format,
			...) __attribute__((format(printf, 4, 5)));
/* An id that its program destroys or migrates by that call, which may wait for acknowledgements. */
void cma_notify_waits(const struct cma_id *id, const char *call);
/*
 * An id whose request waits for an answer: how is a constant that the tool has advice on; client: who
 * has asked another program, NULL: it itself, or nobody on this daemon.
 */
void cma_notify_waiting(const struct cma_id *id, const struct cma_id *client, const char *how,
			const char *text);
/* A command that was refused. */
void cma_notify_refusal(const struct cma_file *file, const char *command, int error,
			const struct simhca_why *why);

/* ------------------------------------------------------------------------------ cma_events.c */

/* Queues an event; it is copied. False: it is lost, there are too many. */
bool cma_file_queue(struct cma_file *file, const struct cma_event *event);
/* An event of an id, without parameters but a status. */
void cma_event(struct cma_id *id, enum cma_event_type type, int status);
/* It was fetched, or will not be any more. */
void cma_event_free(struct cma_event *event);
/* The event of a membership, if it was not fetched. */
void cma_file_drop_joined(struct cma_mc *mc);
/* A request that nobody has fetched goes: so does the event that was to bring it. */
void cma_file_forget_request(struct cma_id *request);
/* The program's end of the connection shows a token when there are events. */
void cma_file_show_token(struct cma_file *file);
/* Somebody has taken it; a new one shows what is left. */
void cma_file_token_taken(struct cma_file *file, uint32_t token);
/* That to be taken back, now that there are no events; 0: none. */
uint32_t cma_file_withdraw_token(struct cma_file *file);
/* The id and its events go to another file. Returns the token to take back from the old one. */
uint32_t cma_file_migrate(struct cma_id *id, struct cma_file *to);

/* ------------------------------------------------------------------------------------- ucma.c */

/* The answer to a command. */
struct ucma_answer {
	struct simhca_ucma_reply reply;
	uint8_t response[SIMHCA_UCMA_MAX_RESPONSE];
};
/* A command as it came, zeroes behind it. */
struct ucma_call {
	struct cma_file *file;
	const struct simhca_ucma_request *request;
	uint16_t in, out;
	_Alignas(8) uint8_t payload[SIMHCA_UCMA_MAX_WRITE];
	const uint8_t *option;
	struct cma_id *id; /* whom it is about, if that is found before all else */
	struct ucma_answer *answer;
};

/* 0 or a negative errno. */
int ucma_call(struct ucma_call *call, uint32_t command, struct simhca_why *why);

/* ---------------------------------------------------------------------------------------- cma.c */

/* NULL: what is wrong was logged. */
struct cma *cma_open(struct daemon *daemon);
void cma_close(struct cma *cma);
/* A device's network interface has gone. */
void cma_device_gone(struct cma *cma, struct device *device);

#endif
