/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * DMA handles: hints on which CPU will use what the device writes, which a NIC passes on over PCIe.
 * This device has no such bus, so a handle hints nothing; it is checked and counted as the kernel
 * does (drivers/infiniband/core/uverbs_std_types_dmah.c), so that a program that gets it wrong
 * hears of it. And registration with one, ibv_reg_mr_ex().
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "say.h"

#if SIMHCA_PABI >= 59

/* Processing hints are two bits (PCI Express, 6.17.1). */
#define MAX_PROCESSING_HINT 3

static struct shca_dmah *to_sdmah(struct ibv_dmah *dmah)
{
	return SHCA_CONTAINER(struct shca_dmah, ibv_dmah, dmah);
}

/* A hint to a CPU that this thread may not run on is refused, as a way to look at others' caches.
 */
static int check_cpu(uint32_t cpu)
{
	cpu_set_t *set = CPU_ALLOC(CPU_SETSIZE * 64);
	size_t size = CPU_ALLOC_SIZE(CPU_SETSIZE * 64);
	int err = 0;

	if (!set)
		return ENOMEM;
	if (sched_getaffinity(0, size, set))
		err = errno;
	else if (!CPU_ISSET_S(cpu, size, set))
		err = EPERM;
	CPU_FREE(set);
	return err;
}

struct ibv_dmah *shca_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	const uint32_t tag = IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;
	struct shca_dmah *dmah;
	int err;

	if (attr->comp_mask & ~(tag | IBV_DMAH_INIT_ATTR_MASK_PH))
		return shca_null(EOPNOTSUPP);
	/* The hint is a must; CPU and type of memory come both or not at all. */
	if (!(attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_PH) || attr->ph > MAX_PROCESSING_HINT ||
	    ((attr->comp_mask & tag) && (attr->comp_mask & tag) != tag))
		return shca_null(EINVAL);
	if (attr->comp_mask & tag) {
		if (attr->tph_mem_type > IBV_TPH_MEM_TYPE_PM)
			return shca_null(EINVAL);
		err = check_cpu(attr->cpu_id);
		if (err)
			return shca_null(err);
	}
	dmah = calloc(1, sizeof(*dmah));
	if (!dmah)
		return shca_null(ENOMEM);
	dmah->ibv_dmah.context = context;
	return &dmah->ibv_dmah;
}

/* EBUSY: regions were registered with it. */
int shca_dealloc_dmah(struct ibv_dmah *dmah)
{
	uint32_t users = atomic_load_explicit(&to_sdmah(dmah)->users, memory_order_acquire);
	char text[64];

	if (users) {
		snprintf(text, sizeof(text), "%u MR%s registered with this DMA handle", users,
			 users == 1 ? " is" : "s are");
		return shca_say_busy(to_sctx(dmah->context), SIMHCA_SAY_DEALLOC_DMAH, text);
	}
	free(to_sdmah(dmah));
	return 0;
}

/* Of a file (FD and its offset, and what the device calls it) or of memory; not of both. */
static struct ibv_mr *reg_by_mask(struct ibv_pd *pd, const struct ibv_mr_init_attr *attr)
{
	uint64_t mask = attr->comp_mask & ~(uint64_t)IBV_REG_MR_MASK_DMAH;
	const uint64_t file = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;

	if (mask == file)
		return shca_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					  attr->access);
	if ((mask & ~(uint64_t)IBV_REG_MR_MASK_IOVA) != IBV_REG_MR_MASK_ADDR)
		return shca_null(EINVAL);
	return shca_reg_mr(pd, attr->addr, attr->length,
			   mask & IBV_REG_MR_MASK_IOVA ? attr->iova : (uintptr_t)attr->addr,
			   attr->access);
}

struct ibv_mr *shca_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	const uint64_t known = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |
			       IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH;
	struct shca_dmah *dmah = NULL;
	struct ibv_mr *mr;

	if (attr->comp_mask & ~known)
		return shca_null(EOPNOTSUPP);
	if (attr->comp_mask & IBV_REG_MR_MASK_DMAH) {
		if (!attr->dmah || attr->dmah->context != pd->context)
			return shca_null(EINVAL);
		if (attr->access & IBV_ACCESS_ON_DEMAND) /* as mlx5 has it */
			return shca_null(EOPNOTSUPP);
		dmah = to_sdmah(attr->dmah);
	}
	mr = reg_by_mask(pd, attr);
	if (mr && dmah) {
		to_smr(verbs_get_mr(mr))->dmah = dmah;
		atomic_fetch_add_explicit(&dmah->users, 1, memory_order_relaxed);
	}
	return mr;
}

void shca_dmah_put(struct shca_mr *mr)
{
	if (mr->dmah)
		atomic_fetch_sub_explicit(&mr->dmah->users, 1, memory_order_release);
}

#else

void shca_dmah_put(struct shca_mr *mr)
{
	(void)mr; /* none can have one */
}

#endif
