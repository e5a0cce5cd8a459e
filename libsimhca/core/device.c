/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A device: its memory that clients read, what it reports of itself, its port. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "av.h"
#include "context.h"
#include "device.h"
#include "fabric.h"
#include "gone.h"
#include "guard.h"
#include "handles.h"
#include "lock.h"
#include "mtu.h"
#include "qp_log.h"
#include "simhca-device.h"
#include "steps.h"
#include "stats.h"
#include "table.h"

/* IB_UVERBS_DEVICE_x, which older headers lack. */
#define FLUSH_GLOBAL (1ull << 38)
#define FLUSH_PERSISTENT (1ull << 39)
#define ATOMIC_WRITE (1ull << 40)
/* IBV_ODP_SUPPORT_x, likewise. */
#define ODP_FLUSH (1u << 6)
#define ODP_ATOMIC_WRITE (1u << 7)
#define QPC_OFFSET 4096u
/* More numbers than there can be of them: one that was given back rests a while. */
#define CQN_SLOTS (2u * SIMHCA_MAX_CQ)
#define EFA_CQN_SLOTS (1u << 16) /* libefa takes 16 bits */
#define XRCDN_SLOTS (2u * SIMHCA_MAX_XRCD)
static_assert(SIMHCA_EFA_CQS < EFA_CQN_SLOTS - 2, "each has one");
#define MPT_OFFSET (QPC_OFFSET + SIMHCA_QPN_SLOTS * (uint64_t)sizeof(struct simhca_qpc))
#define DEVMEM_SIZE (MPT_OFFSET + SIMHCA_MPT_ENTRIES * (uint64_t)sizeof(struct simhca_mpt))
static_assert(sizeof(struct simhca_devmem) <= QPC_OFFSET, "the tables follow the header");

static uint32_t limit(uint32_t asked, uint32_t most)
{
	return asked ? asked : most;
}

static int check_limit(uint32_t value, uint32_t most, const char *name, struct simhca_why *why)
{
	if (value > most)
		return simhca_why(why, EINVAL, "%s = %u: the most is %u", name, value, most);
	return 0;
}

static int check_config(struct simhca_device_config *c, struct simhca_why *why)
{
	int ret;

#define LIMIT(field, most)                                                                         \
	do {                                                                                       \
		c->field = limit(c->field, most);                                                  \
		ret = check_limit(c->field, most, #field, why);                                    \
		if (ret)                                                                           \
			return ret;                                                                \
	} while (0)
	if (c->efa) {
		if (!c->efa_generation)
			c->efa_generation = SIMHCA_EFA_GENERATION;
		ret = check_limit(c->efa_generation, SIMHCA_EFA_GENERATIONS, "efa_generation", why);
		if (ret)
			return ret;
		LIMIT(max_qp, SIMHCA_EFA_QPS);
		LIMIT(max_cq, SIMHCA_EFA_CQS);
		LIMIT(max_mr, SIMHCA_EFA_KEYS - 1);
		LIMIT(max_qp_wr, SIMHCA_EFA_SQ_WR);
		LIMIT(max_sge, SIMHCA_EFA_SGES);
		LIMIT(max_inline, SIMHCA_EFA_INLINE);
		LIMIT(max_cqe, SIMHCA_EFA_CQE);
		LIMIT(efa_mtu, SIMHCA_EFA_MTU);
		LIMIT(efa_rdma, SIMHCA_EFA_RDMA);
	}
	LIMIT(max_qp, SIMHCA_MAX_QP);
	LIMIT(max_cq, SIMHCA_MAX_CQ);
	LIMIT(max_srq, SIMHCA_MAX_SRQ);
	LIMIT(max_mr, SIMHCA_MAX_MR);
	LIMIT(max_mw, SIMHCA_MAX_MW);
	LIMIT(max_pd, SIMHCA_MAX_PD);
	LIMIT(max_ah, SIMHCA_MAX_AH);
	LIMIT(max_qp_wr, SIMHCA_MAX_QP_WR);
	LIMIT(max_sge, SIMHCA_MAX_SGE);
	LIMIT(max_inline, SIMHCA_MAX_INLINE);
	LIMIT(max_cqe, SIMHCA_MAX_CQE);
	LIMIT(max_dm_size, SIMHCA_MAX_DM_SIZE);
#undef LIMIT
	if (c->max_dm_size % SIMHCA_DM_PAGE)
		return simhca_why(why, EINVAL, "max_dm_size = %u: must be a multiple of %d",
				  c->max_dm_size, SIMHCA_DM_PAGE);
	if (!c->node_guid)
		return simhca_why(why, EINVAL, "node_guid is 0: a device needs one of its own");
	if (c->mtu != 256 && c->mtu != 512 && c->mtu != 1024 && c->mtu != 2048 && c->mtu != 4096)
		return simhca_why(why, EINVAL, "mtu = %u: 256, 512, 1024, 2048 or 4096", c->mtu);
	if (c->infiniband && (c->lid == 0 || c->lid >= 0xc000))
		return simhca_why(why, EINVAL, "lid = %u: 1 to 49151 on InfiniBand", c->lid);
	return 0;
}

static const struct simhca_product own_product = { .vendor_id = 0x5343,
						   .vendor_part_id = 1,
						   .hw_ver = 1,
						   .fw_ver = SIMHCA_VERSION,
						   .lane_speed = SIMHCA_EDR };

static void fill_product(const struct simhca_product *product, struct simhca_devmem *memory)
{
	struct simhca_device_attr *a = &memory->attr;
	struct simhca_port_attr *p = &memory->port;

	strncpy(a->fw_ver, product->fw_ver, sizeof(a->fw_ver) - 1);
	a->vendor_id = product->vendor_id;
	a->vendor_part_id = product->vendor_part_id;
	a->hw_ver = product->hw_ver;
	p->active_width = 2; /* 4x */
	p->active_speed_ex = product->lane_speed;
	/* It has eight bits: the kernel has NDR there, too, for what is faster. */
	p->active_speed =
		(uint8_t)(product->lane_speed > SIMHCA_NDR ? SIMHCA_NDR : product->lane_speed);
}

/*
 * What a program sees in struct ibv_device_attr and its extensions. *a is zero but for what fill_product() has
 * filled in, and the configuration has a value for each limit. IB_UVERBS_DEVICE_x are names of the kernel's ABI
 * for flags that libibverbs has no constant for.
 */
static void fill_attr(const struct simhca_device_config *c, struct simhca_device_attr *a)
{
	a->node_guid = htobe64(c->node_guid);
	a->sys_image_guid = htobe64(c->sys_image_guid ? c->sys_image_guid : c->node_guid);
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = 0xfffff000; /* from 4 KiB to 2 GiB, as rdma_rxe (RXE_PAGE_SIZE_CAP) */
	a->device_cap_flags = IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_BAD_PKEY_CNTR |
			      IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
			      IBV_DEVICE_SHUTDOWN_PORT | IBV_DEVICE_PORT_ACTIVE_EVENT |
			      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
			      IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_MGT_EXTENSIONS | ATOMIC_WRITE | IBV_DEVICE_XRC |
			      FLUSH_GLOBAL | FLUSH_PERSISTENT;
	if (!c->infiniband)
		a->device_cap_flags |= IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING;
	a->device_cap_flags |=
		c->mw_type_2a ? IBV_DEVICE_MEM_WINDOW_TYPE_2A : IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	a->hca_core_clock = 1000000; /* kHz: completion timestamps count nanoseconds */
	a->timestamp_mask = UINT64_MAX;
	a->max_qp = c->max_qp;
	a->max_qp_wr = c->max_qp_wr;
	a->max_sge = c->max_sge;
	a->max_sge_rd = c->max_sge;
	a->max_inline = c->max_inline;
	a->max_cq = c->max_cq;
	a->max_cqe = c->max_cqe;
	a->max_dm_size = c->max_dm_size;
	a->max_mr = c->max_mr;
	a->max_mw = c->max_mw;
	a->max_pd = c->max_pd;
	a->max_ah = c->max_ah;
	a->max_srq = c->max_srq;
	a->max_srq_wr = SIMHCA_MAX_SRQ_WR;
	a->max_srq_sge = c->max_sge;
	/* As responder (max_dest_rd_atomic), and as initiator (max_rd_atomic). */
	a->max_qp_rd_atom = SIMHCA_MAX_RD_ATOMIC;
	a->max_qp_init_rd_atom = SIMHCA_MAX_INIT_RD_ATOMIC;
	a->max_res_rd_atom = SIMHCA_MAX_RD_ATOMIC * c->max_qp;
	a->max_mcast_grp = SIMHCA_MAX_MCAST_GRP;
	a->max_mcast_qp_attach = SIMHCA_MAX_MCAST_QP_ATTACH;
	a->max_total_mcast_qp_attach = SIMHCA_MAX_MCAST_GRP * SIMHCA_MAX_MCAST_QP_ATTACH;
	a->odp_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	a->ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	a->uc_odp_caps = a->ud_odp_caps | IBV_ODP_SUPPORT_WRITE;
	a->rc_odp_caps = a->uc_odp_caps | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
			 ODP_ATOMIC_WRITE | ODP_FLUSH;
	a->xrc_odp_caps = a->rc_odp_caps;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->num_comp_vectors = SIMHCA_COMP_VECTORS;
	a->max_pkeys = SIMHCA_PKEY_ENTRIES;
	/* 4.096 us * 2^15: IBTA vol. 1, 9.7.6.1.3 has its encoding; rdma_rxe says 15 as well. */
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
	a->max_cq_count = SIMHCA_MAX_CQ_COUNT;
	a->max_cq_period = SIMHCA_MAX_CQ_PERIOD;
	a->event_at_arm = c->event_at_arm;
	a->max_fast_reg_page_list_len = SIMHCA_MAX_FAST_REG_PAGES;
	for (uint32_t n = SIMHCA_FAST_REG_MIN_PAGE_SHIFT; n <= SIMHCA_FAST_REG_MAX_PAGE_SHIFT; n++)
		a->fast_reg_page_sizes |= 1u << n;
}

/*
 * A PCI device ID. Real ones of the second kind got RDMA write by their firmware, which makes them of the third generation
 * here, and kept the ID. perftest decides by the ID whether it reads.
 */
static uint32_t efa_part(uint32_t generation)
{
	return SIMHCA_EFA_PART + generation - (generation < 3 ? 1 : 2);
}

/* What differs of an EFA device: it has no SRQs, windows, atomics, multicast, nor on-chip memory. */
static void fill_efa_attr(const struct simhca_device_config *c, struct simhca_device_attr *a)
{
	*a = (struct simhca_device_attr){
		.node_guid = a->node_guid,
		.sys_image_guid = a->sys_image_guid,
		.max_mr_size = a->max_mr_size,
		.page_size_cap = a->page_size_cap,
		.vendor_id = SIMHCA_EFA_VENDOR,
		.vendor_part_id = efa_part(c->efa_generation),
		.hw_ver = efa_part(c->efa_generation),
		.max_qp = c->max_qp,
		.max_qp_wr = c->max_qp_wr,
		.max_sge = c->max_sge,
		.max_sge_rd = 1,
		.max_inline = c->max_inline,
		.max_cq = c->max_cq,
		.max_cqe = c->max_cqe,
		.max_mr = c->max_mr,
		.max_pd = c->max_pd,
		.max_ah = c->max_ah,
		.num_comp_vectors = a->num_comp_vectors,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s.0", SIMHCA_VERSION);
}

static void fill_efa_port(const struct simhca_device_config *c, struct simhca_port_attr *p)
{
	p->gid_tbl_len = 1;
	p->port_cap_flags = 0;
	p->max_msg_sz = c->efa_mtu;
	p->pkey_tbl_len = 1;
	p->lid = p->sm_lid = 0;
	p->lmc = 1;
	p->link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	p->flags = 0;
}

static void fill_port(const struct simhca_device_config *c, struct simhca_port_attr *p)
{
	uint32_t mtu = (uint32_t)__builtin_ctz(c->mtu) - 7; /* enum ibv_mtu: 256 is 1 */

	atomic_init(&p->state, c->sm_off ? IBV_PORT_INIT : IBV_PORT_ACTIVE);
	atomic_init(&p->active_mtu, mtu);
	p->max_mtu = IBV_MTU_4096;
	p->gid_tbl_len = SIMHCA_GID_ENTRIES;
	p->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	p->max_msg_sz = SIMHCA_MAX_MSG_SIZE;
	p->pkey_tbl_len = SIMHCA_PKEY_ENTRIES;
	p->lid = c->infiniband && !c->sm_off ? c->lid : 0;
	p->sm_lid = c->infiniband && !c->sm_off ? 1 : 0;
	p->max_vl_num = 1;
	p->phys_state = 5; /* LinkUp */
	p->link_layer = c->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	p->flags = c->infiniband ? 0 : IBV_QPF_GRH_REQUIRED;
}

/* The memfd that clients map: nobody can resize it, nobody but us can ever write it. */
static int create_memory(struct simhca_device *device, struct simhca_why *why)
{
	int fd = memfd_create(device->config.name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *base = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, DEVMEM_SIZE))
		base = mmap(NULL, DEVMEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		int error = errno;

		if (base != MAP_FAILED)
			munmap(base, DEVMEM_SIZE);
		if (fd >= 0)
			close(fd);
		return simhca_why(why, error, "device memory: %s", strerror(error));
	}
	device->memory_fd = fd;
	device->mem = base;
	device->qpcs = (void *)((char *)base + QPC_OFFSET);
	device->mpts = (void *)((char *)base + MPT_OFFSET);
	return 0;
}

static void free_tables(struct simhca_device *device)
{
	simhca_table_free(device->keys, SIMHCA_MPT_ENTRIES * sizeof(*device->keys));
	simhca_table_free(device->qps, SIMHCA_QPN_SLOTS * sizeof(*device->qps));
	simhca_table_free(device->efa_qps, SIMHCA_EFA_QPS * sizeof(*device->efa_qps));
	simhca_table_free(device->srqs, SIMHCA_SRQN_SLOTS * sizeof(*device->srqs));
	simhca_table_free(device->stats, SIMHCA_STATS_BLOCKS * sizeof(*device->stats));
	simhca_gone_free(device->gone);
	simhca_numbers_free(&device->qpns);
	simhca_numbers_free(&device->srqns);
	simhca_numbers_free(&device->pdns);
	simhca_numbers_free(&device->cqns);
	simhca_numbers_free(&device->xrcdns);
}

/* False: out of memory. */
static bool alloc_tables(struct simhca_device *device)
{
	const bool efa = device->config.efa;

	device->keys = simhca_table_alloc(SIMHCA_MPT_ENTRIES * sizeof(*device->keys));
	device->qps = simhca_table_alloc(SIMHCA_QPN_SLOTS * sizeof(*device->qps));
	device->srqs = simhca_table_alloc(SIMHCA_SRQN_SLOTS * sizeof(*device->srqs));
	device->stats = simhca_table_alloc(SIMHCA_STATS_BLOCKS * sizeof(*device->stats));
	device->gone = simhca_gone_create();
	if (efa)
		device->efa_qps = simhca_table_alloc(SIMHCA_EFA_QPS * sizeof(*device->efa_qps));
	return device->keys && device->qps && device->srqs && device->stats && device->gone &&
	       (!efa || device->efa_qps) && simhca_numbers_init(&device->qpns, SIMHCA_QPN_SLOTS) &&
	       simhca_numbers_init(&device->srqns, SIMHCA_SRQN_SLOTS) &&
	       simhca_numbers_init(&device->pdns, SIMHCA_QPN_SLOTS) &&
	       simhca_numbers_init_plain(&device->cqns, efa ? EFA_CQN_SLOTS : CQN_SLOTS) &&
	       simhca_numbers_init_plain(&device->xrcdns, XRCDN_SLOTS);
}

/* What programs read of a device before anything is made on it. */
static void fill_memory(struct simhca_device *device)
{
	const struct simhca_device_config *config = &device->config;

	device->mem->abi_version = SIMHCA_ABI_VERSION;
	device->mem->qpc_offset = QPC_OFFSET;
	device->mem->mpt_offset = MPT_OFFSET;
	device->mem->size = DEVMEM_SIZE;
	device->mem->pkeys[0] = SIMHCA_DEFAULT_PKEY;
	device->mem->fast_path = config->fast_path;
	device->mem->moves_memory = config->fast_path && config->moves_memory;
	fill_product(config->product.fw_ver ? &config->product : &own_product, device->mem);
	fill_attr(config, &device->mem->attr);
	fill_port(config, &device->mem->port);
	atomic_init(&device->wire_mtu, atomic_load(&device->mem->port.active_mtu));
	if (config->efa) {
		fill_efa_attr(config, &device->mem->attr);
		fill_efa_port(config, &device->mem->port);
	}
	/* A port has at least the GID made of its GUID (IBTA vol. 1, 4.1.1). */
	if (config->infiniband) {
		device->mem->gids[0].gid.global.subnet_prefix = htobe64(0xfe80000000000000);
		device->mem->gids[0].gid.global.interface_id = htobe64(config->node_guid);
	}
	simhca_gids_set(&device->gids, device->mem->gids);
}

static void add_to_fabric(struct simhca_device *device)
{
	struct simhca_fabric *fabric = device->fabric;
	struct simhca_device *_Atomic *last;

	pthread_rwlock_wrlock(&fabric->lock);
	for (uint32_t slot = 0; slot < SIMHCA_MM_SLOTS; slot++)
		atomic_init(&device->mem->by_device[slot], atomic_load(&fabric->by_device[slot]));
	/*
	 * In the order in which they were made: where several have an address the first is meant.
	 */
	for (last = &fabric->devices; *last; last = &(*last)->next)
		;
	*last = device;
	pthread_rwlock_unlock(&fabric->lock);
	simhca_fabric_changed(fabric);
}

struct simhca_device *simhca_device_create(struct simhca_fabric *fabric,
					   const struct simhca_device_config *config,
					   struct simhca_why *why)
{
	struct simhca_device *device = calloc(1, sizeof(*device));
	ssize_t ignored;

	if (!device) {
		simhca_why(why, ENOMEM, "out of memory");
		return NULL;
	}
	device->config = *config;
	device->fabric = fabric;
	device->next_key_index = 1;
	simhca_log_share_init(&device->log_share);
	if (!alloc_tables(device)) {
		simhca_why(why, ENOMEM, "out of memory");
		goto fail;
	}
	if (check_config(&device->config, why) || create_memory(device, why))
		goto fail;
	simhca_rwlock_init(&device->mcast_lock, NULL, SIMHCA_LOCK_MULTICAST);
	ignored = getrandom(device->group_hash, sizeof(device->group_hash), GRND_NONBLOCK);
	(void)ignored; /* without, it is a hash all the same */
	simhca_rwlock_init(&device->flow_lock, NULL, SIMHCA_LOCK_FLOWS);
	fill_memory(device);
	add_to_fabric(device);
	return device;
fail:
	free_tables(device);
	free(device);
	return NULL;
}

void simhca_device_unlink(struct simhca_device *device)
{
	struct simhca_device *_Atomic *link;

	pthread_rwlock_wrlock(&device->fabric->lock);
	for (link = &device->fabric->devices; *link != device; link = &(*link)->next)
		;
	*link = device->next;
	pthread_rwlock_unlock(&device->fabric->lock);
	simhca_fabric_changed(device->fabric);
	/* No engine is on the way from it to the next one any more. */
	while (!simhca_fabric_synchronize(device->fabric, SIMHCA_GUARD_ANY))
		;
}

void simhca_device_free(struct simhca_device *device)
{
	atomic_store_explicit(&device->mem->fatal, 1, memory_order_release);
	munmap(device->mem, DEVMEM_SIZE);
	close(device->memory_fd);
	pthread_rwlock_destroy(&device->mcast_lock);
	pthread_rwlock_destroy(&device->flow_lock);
	free_tables(device);
	free(device);
}

int simhca_device_memory_fd(const struct simhca_device *device)
{
	return device->memory_fd;
}

const struct simhca_devmem *simhca_device_memory(const struct simhca_device *device)
{
	return device->mem;
}

static void event_everywhere(struct simhca_device *device, uint32_t type)
{
	struct simhca_context *context;

	for (context = device->contexts; context; context = context->next)
		simhca_async_event(context, (struct simhca_user_handle){ .element = 1 /* port */ },
				   1, type);
}

void simhca_device_set_state(struct simhca_device *device, uint32_t state)
{
	uint32_t old =
		atomic_exchange_explicit(&device->mem->port.state, state, memory_order_seq_cst);

	if (old == state)
		return;
	simhca_fabric_changed(device->fabric);
	if (state == IBV_PORT_DOWN)
		simhca_stats_once(device, SIMHCA_STAT_LINK_DOWNED);
	device->mem->port.phys_state = state == IBV_PORT_DOWN ? 3 : 5; /* Disabled, LinkUp */
	if (state == IBV_PORT_ACTIVE || old == IBV_PORT_ACTIVE)
		event_everywhere(device, state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE
								  : IBV_EVENT_PORT_ERR);
}

void simhca_device_set_port(struct simhca_device *device, bool active)
{
	uint32_t up = device->config.sm_off ? IBV_PORT_INIT : IBV_PORT_ACTIVE;

	simhca_device_set_state(device, active ? up : IBV_PORT_DOWN);
}

void simhca_device_set_address(struct simhca_device *device, uint16_t lid, uint8_t lmc,
			       uint16_t sm_lid, uint8_t sm_sl)
{
	struct simhca_port_attr *port = &device->mem->port;
	bool moves = lid != port->lid || lmc != port->lmc, other_sm = sm_lid != port->sm_lid;

	/* As with GIDs, below. */
	if (moves) {
		simhca_steps_end(device->fabric, 0);
		atomic_thread_fence(memory_order_release);
	}
	port->lmc = lmc;
	port->sm_sl = sm_sl;
	__atomic_store_n(&port->sm_lid, sm_lid, __ATOMIC_RELAXED);
	__atomic_store_n(&port->lid, lid, __ATOMIC_RELAXED);
	if (moves) {
		simhca_fabric_changed(device->fabric);
		event_everywhere(device, IBV_EVENT_LID_CHANGE);
	}
	if (other_sm)
		event_everywhere(device, IBV_EVENT_SM_CHANGE);
}

void simhca_device_set_mtu(struct simhca_device *device, uint32_t bytes)
{
	uint32_t mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && simhca_mtu_bytes(mtu) < bytes)
		mtu++;
	atomic_store(&device->wire_mtu, mtu);
	if (!device->config.efa)
		atomic_store(&device->mem->port.active_mtu, mtu);
}

bool simhca_device_gid(struct simhca_device *device, uint32_t index, union simhca_gid *gid)
{
	if (index >= SIMHCA_GID_ENTRIES)
		return false;
	*gid = simhca_gids_get(&device->gids, index);
	return !simhca_gid_is_empty(gid);
}

/* By words, as programs may read them. */
static void write_gids(struct simhca_gid_entry *to, const struct simhca_gid_entry *from)
{
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		__atomic_store_n(&to[i].gid.global.subnet_prefix, from[i].gid.global.subnet_prefix,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&to[i].gid.global.interface_id, from[i].gid.global.interface_id,
				 __ATOMIC_RELAXED);
		to[i].type = from[i].type;
		to[i].ifindex = from[i].ifindex;
	}
}

void simhca_device_set_gids(struct simhca_device *device,
			    const struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES])
{
	if (!memcmp(device->mem->gids, gids, sizeof(device->mem->gids)))
		return;
	/*
	 * Who is to be found where may change. A program's step that reads any of what is written
	 * below sees afterwards that it was ended before; it is attached anew to what is whole.
	 */
	simhca_steps_end(device->fabric, 0);
	atomic_thread_fence(memory_order_release);
	write_gids(device->mem->gids, gids);
	simhca_gids_set(&device->gids, gids);
	simhca_fabric_changed(device->fabric);
	event_everywhere(device, IBV_EVENT_GID_CHANGE);
}
