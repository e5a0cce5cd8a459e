/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The device's hands for test_memory_model.py, which loads this as a library: everything by small
 * numbers, so that a step of the test is a call or two. QPs come in connections: the even one asks,
 * the odd one after it has the keys. Each function returns 0 or errno.
 */
#include <fcntl.h>
#include <infiniband/simhcadv.h>
#include <sched.h>
#include <sys/mman.h>

#include "helper.h"

enum { PDS = 8, QPS = 16, REGIONS = 64, WINDOWS = 64, LISTS = 16, LIST_PAGES = 16, SGES = 2 };

/* Operations of struct work beside those of enum ibv_wr_opcode. */
enum { OP_BIND_TYPE_1 = 100, OP_FAST_REG, OP_READ_WITH_INV, OP_RECV };

struct end {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_ah_attr address;
};

static struct {
	struct end end[2]; /* 0 asks, 1 has the keys */
	struct ibv_pd *asking_pd, *pd[PDS];
	struct ibv_qp *qp[QPS];
	struct ibv_mr *region[REGIONS];
	struct ibv_mw *window[WINDOWS];
	struct simhcadv_page_list *list[LISTS];
	struct ibv_mr *asking_region;
} world;

/* A work request; what an operation does not need is ignored. */
struct work {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	uint64_t addr, length; /* bind, fast registration */
	struct ibv_sge sge[SGES];
	uint64_t page[LIST_PAGES];
	uint32_t opcode;
	uint32_t qp;
	uint32_t num_sge;
	uint32_t rkey;
	uint32_t invalidate;
	uint32_t window, region, list;
	uint32_t access;
	uint32_t key; /* the new one: bind of type 2, fast registration */
	uint32_t num_pages, page_shift;
	uint32_t listed; /* how many of page[] to write into the list */
};

struct completion {
	uint64_t wr_id;
	uint32_t status, reason, opcode, length, flags, key;
};

struct event {
	uint32_t type, qp;
};

static int made(const void *object)
{
	return object ? 0 : errno;
}

/* ------------------------------------------------------------------------------ the world */

static int open_end(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		return ENODEV;
	end->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!end->context)
		return errno;
	end->cq = ibv_create_cq(end->context, 1024, NULL, NULL, 0);
	if (!end->cq)
		return errno;
	end->address = loopback(end->context);
	return fcntl(end->context->async_fd, F_SETFL, O_NONBLOCK) ? errno : 0;
}

int world_open(void *asking_memory, uint64_t length, uint32_t *asking_key)
{
	int err = open_end(&world.end[0]);

	if (!err)
		err = open_end(&world.end[1]);
	if (err)
		return err;
	world.asking_pd = ibv_alloc_pd(world.end[0].context);
	if (!world.asking_pd)
		return errno;
	world.asking_region = ibv_reg_mr(world.asking_pd, asking_memory, length, FULL_ACCESS);
	if (!world.asking_region)
		return errno;
	*asking_key = world.asking_region->lkey;
	return 0;
}

/* When the objects are gone. */
int world_close(void)
{
	int err = ibv_dereg_mr(world.asking_region);

	if (!err)
		err = ibv_dealloc_pd(world.asking_pd);
	for (int i = 0; i < 2 && !err; i++) {
		err = ibv_destroy_cq(world.end[i].cq);
		if (!err)
			err = ibv_close_device(world.end[i].context);
	}
	return err;
}

/* With all objects that there are. */
int world_abandon(void)
{
	int err = ibv_close_device(world.end[0].context);

	return err ? err : ibv_close_device(world.end[1].context);
}

int protect(uint64_t addr, uint64_t length, int writable)
{
	return mprotect((void *)(uintptr_t)addr, length,
			writable ? PROT_READ | PROT_WRITE : PROT_READ)
		       ? errno
		       : 0;
}

/* Of addresses on both sides, so that what is out of bounds is not mapped. */
#define MARGIN (UINT64_C(1) << 20)

uint64_t new_memory(uint64_t length)
{
	void *memory =
		mmap(NULL, length + 2 * MARGIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)memory + MARGIN;

	if (memory == MAP_FAILED || protect(addr, length, true))
		return 0;
	return addr;
}

/* Its place stays taken, or the next best mapping of the process would be there. */
int drop(uint64_t addr, uint64_t length)
{
	return mprotect((void *)(uintptr_t)addr, length, PROT_NONE) ? errno : 0;
}

/* The first place where the two differ; length if they do not. */
uint64_t differ_at(uint64_t addr, const uint8_t *other, uint64_t length)
{
	const uint8_t *memory = (const uint8_t *)(uintptr_t)addr;

	if (!memcmp(memory, other, length))
		return length;
	for (uint64_t i = 0; i < length; i++)
		if (memory[i] != other[i])
			return i;
	return length;
}

/* -------------------------------------------------------------------------------- objects */

int alloc_pd(uint32_t pd)
{
	world.pd[pd] = ibv_alloc_pd(world.end[1].context);
	return made(world.pd[pd]);
}

int dealloc_pd(uint32_t pd)
{
	return ibv_dealloc_pd(world.pd[pd]);
}

static struct ibv_mr *keep(uint32_t region, struct ibv_mr *mr, uint32_t *key)
{
	if (mr) {
		world.region[region] = mr;
		*key = mr->rkey;
	}
	return mr;
}

int reg_mr(uint32_t region, uint32_t pd, uint64_t addr, uint64_t length, uint64_t iova,
	   uint32_t access, uint32_t *key)
{
	return made(
		keep(region,
		     ibv_reg_mr_iova2(world.pd[pd], (void *)(uintptr_t)addr, length, iova, access),
		     key));
}

int alloc_null_mr(uint32_t region, uint32_t pd, uint32_t *key)
{
	return made(keep(region, ibv_alloc_null_mr(world.pd[pd]), key));
}

int alloc_fast_mr(uint32_t region, uint32_t pd, uint32_t pages, uint32_t *key)
{
	return made(keep(region, simhcadv_alloc_mr(world.pd[pd], pages), key));
}

int rereg_mr(uint32_t region, uint32_t flags, uint32_t pd, uint64_t addr, uint64_t length,
	     uint32_t access)
{
	errno = 0;
	return ibv_rereg_mr(world.region[region], (int)flags, world.pd[pd], (void *)(uintptr_t)addr,
			    length, (int)access)
		       ? errno
		       : 0;
}

int dereg_mr(uint32_t region)
{
	return ibv_dereg_mr(world.region[region]);
}

int update_key(uint32_t region, uint32_t variant)
{
	return simhcadv_update_key(world.region[region], (uint8_t)variant);
}

uint32_t region_key(uint32_t region)
{
	return world.region[region]->rkey;
}

int alloc_mw(uint32_t window, uint32_t pd, uint32_t type, uint32_t *key)
{
	world.window[window] = ibv_alloc_mw(world.pd[pd], type);
	if (world.window[window])
		*key = world.window[window]->rkey;
	return made(world.window[window]);
}

int dealloc_mw(uint32_t window)
{
	return ibv_dealloc_mw(world.window[window]);
}

uint32_t window_key(uint32_t window)
{
	return world.window[window]->rkey;
}

int alloc_list(uint32_t list, uint32_t pages)
{
	world.list[list] = simhcadv_alloc_page_list(world.end[1].context, pages);
	return made(world.list[list]);
}

int free_list(uint32_t list)
{
	return simhcadv_free_page_list(world.list[list]);
}

/* ------------------------------------------------------------------------------------ QPs */

int create_qp(uint32_t qp, uint32_t pd, int reliable)
{
	struct end *end = &world.end[qp & 1];
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = qp & 1 ? world.pd[pd] : world.asking_pd,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = reliable ? IBV_QPT_RC : IBV_QPT_UC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = SGES,
			 .max_recv_sge = SGES },
	};
	/* The model has data where they belong before they are polled. */
	struct simhcadv_qp_init_attr dv = {
		.comp_mask = SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = SIMHCADV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};

	world.qp[qp] = simhcadv_create_qp(attr.pd->context, &attr, &dv);
	return made(world.qp[qp]);
}

int destroy_qp(uint32_t qp)
{
	int err = ibv_destroy_qp(world.qp[qp]);

	if (!err)
		world.qp[qp] = NULL;
	return err;
}

int reset_qp(uint32_t qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(world.qp[qp], &attr, IBV_QP_STATE);
}

static int to_rtr(uint32_t qp, uint32_t access)
{
	bool rc = world.qp[qp]->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = access,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = world.qp[qp ^ 1]->qp_num,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = world.end[qp & 1].address,
	};
	int err =
		ibv_modify_qp(world.qp[qp], &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(world.qp[qp], &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN |
					    (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
						: 0));
	return err;
}

/* Nobody answers for half a millisecond, or is not ready to receive: that is final. */
static int to_rts(uint32_t qp)
{
	bool rc = world.qp[qp]->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.max_rd_atomic = 16,
		.timeout = 6,
		.retry_cnt = 1,
		.rnr_retry = 0,
	};

	return ibv_modify_qp(world.qp[qp], &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						      IBV_QP_MAX_QP_RD_ATOMIC
					 : 0));
}

/* Both QPs of a connection, from RESET to RTS; the rights are those of the one with the keys. */
int connect_qps(uint32_t qp, uint32_t access)
{
	int err = to_rtr(qp, FULL_ACCESS);

	if (!err)
		err = to_rtr(qp + 1, access);
	if (!err)
		err = to_rts(qp);
	if (!err)
		err = to_rts(qp + 1);
	return err;
}

/* ---------------------------------------------------------------------------- work requests */

static int post_bind_type_1(const struct work *work)
{
	struct ibv_mw_bind bind = {
		.wr_id = work->wr_id,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = world.region[work->region],
			       .addr = work->addr,
			       .length = work->length,
			       .mw_access_flags = work->access },
	};

	return ibv_bind_mw(world.qp[work->qp], world.window[work->window], &bind);
}

static int post_fast_reg(const struct work *work)
{
	struct simhcadv_page_list *list = world.list[work->list];
	struct simhcadv_fast_reg_wr wr = {
		.wr_id = work->wr_id,
		.send_flags = IBV_SEND_SIGNALED,
		.fast_reg = { .iova_start = work->addr,
			      .page_list = list,
			      .page_list_len = work->num_pages,
			      .page_shift = work->page_shift,
			      .length = work->length,
			      .access = work->access,
			      .rkey = work->key },
	}, *bad;

	for (uint32_t i = 0; i < work->listed && i < list->max_page_list_len; i++)
		list->page_list[i] = work->page[i];
	return simhcadv_post_fast_reg(world.qp[work->qp], &wr, &bad);
}

static int post_read_with_inv(struct work *work)
{
	struct simhcadv_read_with_inv_wr wr = {
		.wr_id = work->wr_id,
		.sg_list = work->sge,
		.num_sge = (int)work->num_sge,
		.send_flags = IBV_SEND_SIGNALED,
		.remote_addr = work->remote_addr,
		.rkey = work->rkey,
		.invalidate_rkey = work->invalidate,
	}, *bad;

	return simhcadv_post_read_with_inv(world.qp[work->qp], &wr, &bad);
}

static int post_receive(struct work *work)
{
	struct ibv_recv_wr wr = { .wr_id = work->wr_id,
				  .sg_list = work->sge,
				  .num_sge = (int)work->num_sge },
			   *bad;

	return ibv_post_recv(world.qp[work->qp], &wr, &bad);
}

int post(struct work *work)
{
	struct ibv_send_wr wr = {
		.wr_id = work->wr_id,
		.opcode = work->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = work->sge,
		.num_sge = (int)work->num_sge,
	};

	switch (work->opcode) {
	case OP_BIND_TYPE_1:
		return post_bind_type_1(work);
	case OP_FAST_REG:
		return post_fast_reg(work);
	case OP_READ_WITH_INV:
		return post_read_with_inv(work);
	case OP_RECV:
		return post_receive(work);
	case IBV_WR_LOCAL_INV:
	case IBV_WR_SEND_WITH_INV:
		wr.invalidate_rkey = work->invalidate;
		break;
	case IBV_WR_BIND_MW:
		wr.bind_mw.mw = world.window[work->window];
		wr.bind_mw.rkey = work->key;
		wr.bind_mw.bind_info.mr = world.region[work->region];
		wr.bind_mw.bind_info.addr = work->addr;
		wr.bind_mw.bind_info.length = work->length;
		wr.bind_mw.bind_info.mw_access_flags = work->access;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = work->remote_addr;
		wr.wr.atomic.rkey = work->rkey;
		wr.wr.atomic.compare_add = work->compare_add;
		wr.wr.atomic.swap = work->swap;
		break;
	default:
		wr.wr.rdma.remote_addr = work->remote_addr;
		wr.wr.rdma.rkey = work->rkey;
	}
	return post_send(world.qp[work->qp], &wr);
}

static int poll_into(struct completion *completion)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		if (ibv_poll_cq(world.end[i].cq, 1, &wc) != 1)
			continue;
		completion->wr_id = wc.wr_id;
		completion->status = wc.status;
		completion->reason = wc.vendor_err;
		completion->opcode = wc.opcode;
		completion->length = wc.byte_len;
		completion->flags = wc.wc_flags;
		completion->key = wc.invalidated_rkey;
		return 1;
	}
	return 0;
}

/* So many completions, within some seconds, and what else is there; returns how many. */
uint32_t collect(struct completion *completion, uint32_t want, uint32_t room, double seconds)
{
	double end = 0;
	uint32_t found = 0;

	for (uint32_t idle = 0; found < room;) {
		if (poll_into(&completion[found])) {
			found++;
			continue;
		}
		if (found >= want)
			break;
		if (++idle < 100)
			continue;
		sched_yield();
		if (!end)
			end = now() + seconds;
		else if (!(idle % 64) && now() > end)
			break;
	}
	return found;
}

static uint32_t index_of(const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < QPS; i++)
		if (world.qp[i] == qp)
			return i;
	return QPS;
}

/* The same for asynchronous events. */
uint32_t collect_events(struct event *event, uint32_t want, uint32_t room, double seconds)
{
	double end = now() + seconds;
	uint32_t found = 0;

	for (;;) {
		struct ibv_async_event from;
		bool any = false;

		for (int i = 0; i < 2 && found < room; i++) {
			if (ibv_get_async_event(world.end[i].context, &from))
				continue;
			event[found].type = from.event_type;
			event[found++].qp = index_of(from.element.qp);
			ibv_ack_async_event(&from);
			any = true;
		}
		if (!any && (found >= want || now() > end))
			return found;
		if (!any)
			usleep(20);
	}
}
