/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The private ABI between libibverbs and its providers.
 *
 * libibverbs loads a provider with dlopen(), and the two then share structures that no installed
 * header declares: distributions keep rdma-core's driver.h to themselves. This header states that
 * interface for a provider that is built outside of rdma-core. Names that exist upstream keep their
 * upstream spelling, so that a provider written against this header also compiles inside rdma-core;
 * what only exists here begins with simhca_ or SIMHCA_.
 *
 * libibverbs numbers the interface ("PABI"). The number is part of the symbol version
 * (IBVERBS_PRIVATE_<PABI>), of the name of the register function and of the plugin's file name
 * (lib<name>-rdmav<PABI>.so), so a provider for another PABI does not even load. The layout still
 * changed without a new number, twice. SIMHCA_PABI therefore names a *layout*:
 *
 *	SIMHCA_PABI	PABI of the library	rdma-core releases
 *	34		34			39 .. 56
 *	57		57			57, 58
 *	59		59			59 .. 61
 *	62		59			62, 63 (two ops were inserted)
 *	64		64			64
 *	65		65			65
 *
 * 59 and 62 cannot share one layout: struct verbs_context_ops is sorted by name, so the two new ops
 * moved everything that follows, and the public struct verbs_context grew too. The release number
 * is the third component of pkg-config's version of libibverbs (1.14.44.0 is release 44).
 *
 * The second such change is in the public struct ibv_qp_ex, which grew at 44 and at 45 and is
 * embedded in struct verbs_qp below: one PABI 34 is three layouts, of 39 .. 43, 44 and 45 .. 56.
 * A third is struct ibv_port_attr, which grew at 49. A provider that was compiled with the larger
 * one is loaded by the library with the smaller one; so query_port() must not write the fields
 * behind port_cap_flags2 that it has no value for. libibverbs clears them.
 *
 * What the compiler cannot see is checked when the provider is loaded: ibverbs-provider-check.h.
 *
 * All functions declared here are exported by libibverbs.so; link with -libverbs.
 */
#ifndef SIMHCA_IBVERBS_PROVIDER_ABI_H
#define SIMHCA_IBVERBS_PROVIDER_ABI_H

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <infiniband/verbs.h>

#ifndef SIMHCA_PABI
#error "define SIMHCA_PABI as the layout of libibverbs' private ABI: 34, 57, 59, 62, 64 or 65"
#elif SIMHCA_PABI == 34
#define SIMHCA_PABI_VERSION 34
#elif SIMHCA_PABI == 57
#define SIMHCA_PABI_VERSION 57
#elif SIMHCA_PABI == 59
#define SIMHCA_PABI_VERSION 59
#elif SIMHCA_PABI == 62
#define SIMHCA_PABI_VERSION 59
#elif SIMHCA_PABI == 64
#define SIMHCA_PABI_VERSION 64
#elif SIMHCA_PABI == 65
#define SIMHCA_PABI_VERSION 65
#else
#error "SIMHCA_PABI is no known layout of libibverbs' private ABI: 34, 57, 59, 62, 64 or 65"
#endif

#define SIMHCA_PABI_STR__(x) #x
#define SIMHCA_PABI_STR_(x) SIMHCA_PABI_STR__(x)
#define SIMHCA_PABI_PASTE__(a, b) a##b
#define SIMHCA_PABI_PASTE_(a, b) SIMHCA_PABI_PASTE__(a, b)

/* Version node of every symbol declared at the end of this header, for dlvsym(). */
#define SIMHCA_PABI_SYMVER "IBVERBS_PRIVATE_" SIMHCA_PABI_STR_(SIMHCA_PABI_VERSION)

/*
 * Finding the device
 *
 * libibverbs describes each RDMA device in a verbs_sysfs_dev and offers it to every registered
 * driver: first against match_table, then to match_device() when there is one, whose answer is
 * final.
 */

enum {
	VERBS_MATCH_SENTINEL = 0,  /* ends a table */
	VERBS_MATCH_PCI = 1,	   /* vendor and device, against the PCI modalias */
	VERBS_MATCH_MODALIAS = 2,  /* fnmatch() pattern for device/modalias, or for the name */
	VERBS_MATCH_DRIVER_ID = 3, /* enum rdma_driver_id, known only when found by netlink */
};

struct verbs_match_ent {
	void *driver_data; /* the provider's own */
	union {
		const char *modalias;
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind; /* VERBS_MATCH_* */
};

/*
 * Match any device whose name begins with name_prefix. libibverbs presents the name as
 * "rdma_device:N<name>"; this is how a device without a kernel driver of its own can be told.
 */
#define VERBS_NAME_MATCH(name_prefix, data)                                                        \
	{                                                                                          \
		.driver_data = (data), .u.modalias = "rdma_device:*N" name_prefix "*",             \
		.kind = VERBS_MATCH_MODALIAS,                                                      \
	}

#define VERBS_MODALIAS_MATCH(pattern, data)                                                        \
	{                                                                                          \
		.driver_data = (void *)(data), .u.modalias = (pattern),                            \
		.kind = VERBS_MATCH_MODALIAS,                                                      \
	}

#define VERBS_DRIVER_ID(id)                                                                        \
	{                                                                                          \
		.u.driver_id = (id), .kind = VERBS_MATCH_DRIVER_ID,                                \
	}

/* A link of libibverbs' own lists: the provider leaves room for it and nothing else. */
struct simhca_list_node {
	void *next;
	void *prev;
};

/* One device as discovered by libibverbs, which allocates, owns and frees it. */
struct verbs_sysfs_dev {
	struct simhca_list_node entry;
	void *provider_data;		     /* the provider's, from match_device() on */
	const struct verbs_match_ent *match; /* the entry that matched, or NULL */
	unsigned int flags;		     /* which of modalias, node_guid were read */
	char sysfs_name[IBV_SYSFS_NAME_MAX]; /* "uverbs0" */
	dev_t sysfs_cdev;		     /* of /dev/infiniband/<sysfs_name>; 0: not known */
	char ibdev_name[IBV_SYSFS_NAME_MAX]; /* "simhca0" */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* ".../class/infiniband/simhca0" */
	char modalias[512];
	uint64_t node_guid; /* read on demand; use ibv_get_device_guid() */
	uint32_t driver_id; /* RDMA_DRIVER_UNKNOWN when found through sysfs */
	enum ibv_node_type node_type;
	int ibdev_idx;		      /* -1 when found through sysfs */
	uint32_t num_ports;	      /* 0 when found through sysfs */
	uint32_t abi_ver;	      /* of the driver; see match_{min,max}_abi_version */
	struct timespec time_created; /* mtime of ibdev_path; changed: a new device */
};

struct verbs_device;

/* What a driver registers. It must stay in memory, libibverbs keeps the pointer. */
struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers; /* static linking only; NULL */
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	/*
	 * Both own cmd_fd from the call on: closed on failure, by verbs_uninit_context() later.
	 * Both return NULL and errno on failure. import_context may be NULL.
	 */
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd,
					       void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	void (*uninit_device)(struct verbs_device *device); /* last reference gone: free it */
};

/*
 * One device. alloc_device() returns it zeroed but for core_support; libibverbs fills in the rest.
 *
 * core_support: IB_UVERBS_CORE_SUPPORT_*. It is normally learnt by ibv_cmd_get_context(). A
 * provider that does without must set it: as long as IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS is
 * not set, libibverbs removes the optional access flags (IBV_ACCESS_RELAXED_ORDERING ...) before it
 * calls reg_mr().
 */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int refcount;
	struct simhca_list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

static inline struct verbs_device *verbs_get_device(const struct ibv_device *device)
{
	return (struct verbs_device *)((uintptr_t)device - offsetof(struct verbs_device, device));
}

/*
 * Objects
 *
 * libibverbs looks behind the public part of two objects, verbs_mr and verbs_qp; every MR and QP of
 * a provider must begin with one. The other containers of driver.h serve the ibv_cmd_* functions.
 * verbs_cq and verbs_srq are here because a provider wants one object with two public faces, or the
 * XRC fields; xrcd stays NULL for a provider that does not call ibv_cmd_*.
 */

struct verbs_xrcd;

enum ibv_mr_type {
	IBV_MR_TYPE_MR,
	IBV_MR_TYPE_NULL_MR,
	IBV_MR_TYPE_IMPORTED_MR,
	IBV_MR_TYPE_DMABUF_MR,
};

/*
 * The provider sets both fields when it registers. ibv_rereg_mr() refuses what is no
 * IBV_MR_TYPE_MR, and ibv_dereg_mr() undoes madvise(MADV_DONTFORK) according to mr_type and access.
 */
struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access;
};

static inline struct verbs_mr *verbs_get_mr(struct ibv_mr *mr)
{
	return (struct verbs_mr *)((uintptr_t)mr - offsetof(struct verbs_mr, ibv_mr));
}

enum verbs_qp_mask {
	VERBS_QP_XRCD = 1 << 0,
	VERBS_QP_EX = 1 << 1, /* qp_ex is filled in: ibv_qp_to_qp_ex() may hand it out */
};

struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask; /* enum verbs_qp_mask */
	struct verbs_xrcd *xrcd;
};

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};

#if SIMHCA_PABI >= 64
/* What alloc_buf() hands out; libibverbs reads addr, size and dmabuf_fd (-1: plain memory). */
struct ibv_buf {
	void *addr;
	size_t size;
	struct ibv_pd *pd;
	int dmabuf_fd;
};
#endif

/*
 * Every operation that a provider can have. One that is NULL keeps libibverbs' default, which fails
 * with EOPNOTSUPP. Those that return a pointer set errno; those that return int return the error,
 * but for poll_cq and reg_*: see their man pages. The order is part of the ABI, and sorted by name.
 */
struct verbs_context_ops {
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
#if SIMHCA_PABI >= 64
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
#endif
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
#if SIMHCA_PABI >= 59
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context,
				       struct ibv_dmah_init_attr *attr);
#endif
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attr);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	int (*attach_counters_point_flow)(struct ibv_counters *counters,
					  struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
#if SIMHCA_PABI >= 65
	struct ibv_comp_cntr *(*create_comp_cntr)(struct ibv_context *context,
						  struct ibv_comp_cntr_init_attr *attr);
#endif
	struct ibv_counters *(*create_counters)(struct ibv_context *context,
						struct ibv_counters_init_attr *attr);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    struct ibv_comp_channel *channel, int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
	struct ibv_flow *(*create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *attr);
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
							  struct ibv_flow_action_esp_attr *attr);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *context,
							  struct ibv_rwq_ind_table_init_attr *attr);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr);
	struct ibv_wq *(*create_wq)(struct ibv_context *context, struct ibv_wq_init_attr *attr);
#if SIMHCA_PABI >= 59
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
#endif
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
#if SIMHCA_PABI >= 65
	int (*destroy_comp_cntr)(struct ibv_comp_cntr *cntr);
#endif
	int (*destroy_counters)(struct ibv_counters *counters);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*destroy_flow)(struct ibv_flow *flow);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *table);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
#if SIMHCA_PABI >= 62
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
#endif
#if SIMHCA_PABI >= 64
	void (*free_buf)(struct ibv_buf *buf);
#endif
	void (*free_context)(struct ibv_context *context);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *context, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
#if SIMHCA_PABI >= 65
	int (*inc_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t amount);
	int (*inc_err_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t amount);
#endif
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*modify_flow_action_esp)(struct ibv_flow_action *action,
				      struct ibv_flow_action_esp_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *attr);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);
#if SIMHCA_PABI >= 65
	int (*qp_attach_comp_cntr)(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
				   struct ibv_qp_attach_comp_cntr_attr *attr);
	int (*query_comp_cntr_caps)(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
				    size_t caps_size);
#endif
	int (*query_device_ex)(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *attr);
#if SIMHCA_PABI >= 62
	int (*query_port_speed)(struct ibv_context *context, uint32_t port_num, uint64_t *speed);
#endif
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
#if SIMHCA_PABI >= 65
	int (*read_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t *value);
#endif
	int (*read_counters)(struct ibv_counters *counters, uint64_t *values, uint32_t nvalues,
			     uint32_t flags);
#if SIMHCA_PABI >= 65
	int (*read_err_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t *value);
#endif
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				    size_t length, unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
				 int access);
#if SIMHCA_PABI >= 59
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
#endif
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
#if SIMHCA_PABI >= 65
	int (*set_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t value);
#endif
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
#if SIMHCA_PABI >= 65
	int (*set_err_comp_cntr)(struct ibv_comp_cntr *cntr, uint64_t value);
#endif
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

/* Number of ops in the layout, all of them one function pointer wide. */
#define SIMHCA_PABI_NUM_OPS (sizeof(struct verbs_context_ops) / sizeof(void (*)(void)))

/*
 * Functions
 */

/* The PABI is in the name, so that a linker without symbol versions finds only the right one. */
#define verbs_register_driver SIMHCA_PABI_PASTE_(verbs_register_driver_, SIMHCA_PABI_VERSION)
void verbs_register_driver(const struct verbs_device_ops *ops);

/*
 * Allocate the provider's context, alloc_size zeroed bytes with a verbs_context at context_offset
 * (an offset in the guise of a pointer), take a reference on device and own cmd_fd. It sends the
 * "invoke write method" ioctl on cmd_fd, and sets async_fd to -1: unless the provider opens one,
 * ibv_open_device() does so with a further ioctl. On failure NULL and errno, cmd_fd closed.
 */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);

/* The same by type: drv_ctx is a pointer to the provider's context, member its verbs_context. */
#define verbs_init_and_alloc_context(device, cmd_fd, drv_ctx, member, driver_id)                   \
	((__typeof__(drv_ctx))_verbs_init_and_alloc_context(                                       \
		device, cmd_fd, sizeof(*(drv_ctx)),                                                \
		(struct verbs_context *)offsetof(__typeof__(*(drv_ctx)), member), driver_id))

/* The reverse, but for the memory, which the caller frees. Closes cmd_fd and async_fd (not -1). */
void verbs_uninit_context(struct verbs_context *context);

/* Install the ops that are not NULL; may be called again. ops is copied. */
void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);

/* Initialise a CQ's public part and count it on its channel. ibv_create_cq() does so itself. */
void verbs_init_cq(struct ibv_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
		   void *cq_context);

/* ibv_open_device() with a private_data for alloc_context(), for a provider's direct API. */
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

/* RoCE v1 is not told from InfiniBand here. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type);

/* Read one attribute below ibdev_path. Returns its length without the newline, or -1. */
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *sysfs_dev,
			      const char *fnfmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * libibverbs' log: to the file VERBS_LOG_FILE, up to VERBS_LOG_LEVEL (both from the environment).
 * Release builds of libibverbs are silent without VERBS_LOG_FILE.
 */
enum {
	VERBS_LOG_LEVEL_NONE,
	VERBS_LOG_ERR,
	VERBS_LOG_WARN,
	VERBS_LOG_INFO,
	VERBS_LOG_DEBUG,
};

void __verbs_log(struct verbs_context *context, uint32_t level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Layout
 *
 * Structures with a pthread object inside differ between architectures, so what follows them is
 * stated relative to the public structure.
 */

#define SIMHCA_PABI_AT_(type, member, offset)                                                      \
	static_assert(offsetof(type, member) == (offset), #type "." #member " is misplaced")
#define SIMHCA_PABI_SIZE_(type, size)                                                              \
	static_assert(sizeof(type) == (size), #type " has the wrong size")

#ifdef __LP64__
SIMHCA_PABI_SIZE_(struct verbs_match_ent, 24);
SIMHCA_PABI_AT_(struct verbs_match_ent, u, 8);
SIMHCA_PABI_AT_(struct verbs_match_ent, vendor, 16);
SIMHCA_PABI_AT_(struct verbs_match_ent, device, 18);
SIMHCA_PABI_AT_(struct verbs_match_ent, kind, 20);

SIMHCA_PABI_SIZE_(struct verbs_sysfs_dev, 992);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, provider_data, 16);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, match, 24);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, sysfs_name, 36);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, sysfs_cdev, 104);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, ibdev_name, 112);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, ibdev_path, 176);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, modalias, 432);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, node_guid, 944);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, driver_id, 952);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, node_type, 956);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, abi_ver, 968);
SIMHCA_PABI_AT_(struct verbs_sysfs_dev, time_created, 976);

SIMHCA_PABI_SIZE_(struct verbs_device_ops, 72);
SIMHCA_PABI_AT_(struct verbs_device_ops, match_min_abi_version, 8);
SIMHCA_PABI_AT_(struct verbs_device_ops, match_table, 16);
SIMHCA_PABI_AT_(struct verbs_device_ops, match_device, 32);
SIMHCA_PABI_AT_(struct verbs_device_ops, alloc_context, 40);
SIMHCA_PABI_AT_(struct verbs_device_ops, import_context, 48);
SIMHCA_PABI_AT_(struct verbs_device_ops, alloc_device, 56);
SIMHCA_PABI_AT_(struct verbs_device_ops, uninit_device, 64);

SIMHCA_PABI_SIZE_(struct verbs_device, sizeof(struct ibv_device) + 48);
SIMHCA_PABI_AT_(struct verbs_device, ops, sizeof(struct ibv_device));
SIMHCA_PABI_AT_(struct verbs_device, refcount, sizeof(struct ibv_device) + 8);
SIMHCA_PABI_AT_(struct verbs_device, entry, sizeof(struct ibv_device) + 16);
SIMHCA_PABI_AT_(struct verbs_device, sysfs, sizeof(struct ibv_device) + 32);
SIMHCA_PABI_AT_(struct verbs_device, core_support, sizeof(struct ibv_device) + 40);

SIMHCA_PABI_SIZE_(struct verbs_mr, sizeof(struct ibv_mr) + 8);
SIMHCA_PABI_AT_(struct verbs_mr, mr_type, sizeof(struct ibv_mr));
SIMHCA_PABI_AT_(struct verbs_mr, access, sizeof(struct ibv_mr) + 4);

SIMHCA_PABI_SIZE_(struct verbs_qp, sizeof(struct ibv_qp_ex) + 16);
SIMHCA_PABI_AT_(struct verbs_qp, comp_mask, sizeof(struct ibv_qp_ex));
SIMHCA_PABI_AT_(struct verbs_qp, xrcd, sizeof(struct ibv_qp_ex) + 8);
SIMHCA_PABI_SIZE_(struct verbs_cq, sizeof(struct ibv_cq_ex));

SIMHCA_PABI_SIZE_(struct verbs_srq, sizeof(struct ibv_srq) + 32);
SIMHCA_PABI_AT_(struct verbs_srq, srq_type, sizeof(struct ibv_srq));
SIMHCA_PABI_AT_(struct verbs_srq, xrcd, sizeof(struct ibv_srq) + 8);
SIMHCA_PABI_AT_(struct verbs_srq, cq, sizeof(struct ibv_srq) + 16);
SIMHCA_PABI_AT_(struct verbs_srq, srq_num, sizeof(struct ibv_srq) + 24);

#if SIMHCA_PABI >= 64
SIMHCA_PABI_SIZE_(struct ibv_buf, 32);
SIMHCA_PABI_AT_(struct ibv_buf, dmabuf_fd, 24);
#endif
#endif /* __LP64__ */

static_assert(offsetof(struct ibv_qp_ex, qp_base) == 0, "ibv_qp_ex does not begin with an ibv_qp");

/*
 * Does SIMHCA_PABI belong to the installed verbs.h? The number of pointers, most of them public
 * slots, in front of struct verbs_context's ibv_context tells all but 64 from 65, and 34 from 57;
 * those the probe tells apart, when the provider is loaded. tests/abi has the place of every op.
 */
#if SIMHCA_PABI <= 57
#define SIMHCA_PABI_PUBLIC_OPS_ 40
#elif SIMHCA_PABI == 59
#define SIMHCA_PABI_PUBLIC_OPS_ 43
#elif SIMHCA_PABI == 62
#define SIMHCA_PABI_PUBLIC_OPS_ 44
#else
#define SIMHCA_PABI_PUBLIC_OPS_ 46
#endif
static_assert(
	offsetof(struct verbs_context, context) == SIMHCA_PABI_PUBLIC_OPS_ * sizeof(void *),
	"the installed infiniband/verbs.h does not belong to SIMHCA_PABI: leave that to cmake, "
	"which asks the installed library");

#endif /* SIMHCA_IBVERBS_PROVIDER_ABI_H */
