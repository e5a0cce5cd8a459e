/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What programs map: rings and pages of doorbells. */
#include <errno.h>

#include "core/lock.h"
#include "dma/file_kind.h"
#include "objects.h"

/* The CQ of a page with a doorbell. */
static struct efa_cq *find_notified(struct simhca_context *context, uint64_t key,
				    struct simhca_why *why)
{
	struct efa_cq *cq =
		simhca_object(context, SIMHCA_OBJ_EFA_CQ, (uint32_t)EFA_KEY_HANDLE(key), why);

	if (cq && !cq->channel) {
		simhca_why(why, ENOENT, "this CQ has no channel, and so no doorbell");
		return NULL;
	}
	return cq;
}

static bool is_watched(uint64_t key)
{
	return EFA_KEY_KIND(key) == EFA_KEY_SQ_DOORBELL || EFA_KEY_KIND(key) == EFA_KEY_CQ_DOORBELL;
}

/* What is known of the page of doorbells that a key names; NULL: it names none. */
static struct efa_watch *find_watch(struct simhca_context *context, uint64_t key,
				    struct simhca_why *why)
{
	struct efa_qp *qp;
	struct efa_cq *cq;

	if (!is_watched(key) || EFA_KEY_HANDLE(key) > UINT32_MAX) {
		simhca_why(why, EINVAL, "0x%llx names no page of doorbells",
			   (unsigned long long)key);
		return NULL;
	}
	if (EFA_KEY_KIND(key) == EFA_KEY_CQ_DOORBELL) {
		cq = find_notified(context, key, why);
		return cq ? &cq->watch : NULL;
	}
	qp = simhca_object(context, SIMHCA_OBJ_EFA_QP, (uint32_t)EFA_KEY_HANDLE(key), why);
	return qp ? &qp->watch : NULL;
}

static int find_mapping(struct simhca_context *context, uint64_t key,
			const struct efa_memory **memory, uint64_t *offset, uint64_t *size,
			struct simhca_why *why)
{
	const struct efa_qp *qp = NULL;
	const struct efa_cq *cq;

	*offset = 0;
	*size = EFA_PAGE;
	if (EFA_KEY_HANDLE(key) > UINT32_MAX || key % EFA_PAGE)
		return simhca_why(why, EINVAL, "mmap() at 0x%llx: no answer has named that",
				  (unsigned long long)key);
	if (EFA_KEY_KIND(key) == EFA_KEY_CQ) {
		cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, (uint32_t)EFA_KEY_HANDLE(key), why);
		if (!cq)
			return -ENOENT;
		*memory = &cq->memory;
		*size = efa_whole_pages(efa_cq_bytes(cq));
		return 0;
	}
	if (EFA_KEY_KIND(key) == EFA_KEY_CQ_DOORBELL) {
		cq = find_notified(context, key, why);
		if (!cq)
			return -ENOENT;
		*memory = &cq->memory;
		*offset = cq->doorbell_offset;
		return 0;
	}
	qp = simhca_object(context, SIMHCA_OBJ_EFA_QP, (uint32_t)EFA_KEY_HANDLE(key), why);
	if (!qp)
		return -ENOENT;
	*memory = &qp->memory;
	switch (EFA_KEY_KIND(key)) {
	case EFA_KEY_RQ:
		*offset = qp->rq_offset;
		*size = qp->rq_size;
		return 0;
	case EFA_KEY_SQ:
		*offset = qp->sq_offset;
		*size = qp->sq_size;
		return 0;
	case EFA_KEY_RQ_DOORBELL:
	case EFA_KEY_SQ_DOORBELL:
		return 0;
	}
	return simhca_why(why, EINVAL, "mmap() at 0x%llx: no answer has named that",
			  (unsigned long long)key);
}

int simhca_efa_map(struct simhca_context *context, uint64_t key, uint64_t length,
		   struct simhca_efa_mapping *mapping, struct simhca_why *why)
{
	const struct efa_memory *memory = NULL;
	uint64_t offset, size, segment_size;
	int ret;

	if (!efa_of(context, why))
		return -EINVAL;
	ret = find_mapping(context, key, &memory, &offset, &size, why);
	if (ret)
		return ret;
	if (!length || length > size)
		return simhca_why(why, EINVAL, "mmap() of %llu bytes at 0x%llx: there are %llu",
				  (unsigned long long)length, (unsigned long long)key,
				  (unsigned long long)size);
	*mapping = (struct simhca_efa_mapping){
		.fd = simhca_context_segment(context, memory->ref.segment, &segment_size),
		.offset = memory->offset + offset,
		.doorbell = is_watched(key),
	};
	return 0;
}

bool simhca_efa_is_userfaultfd(int fd)
{
	return simhca_file_kind(fd) == SIMHCA_FILE_USERFAULTFD;
}

int simhca_efa_watch(struct simhca_context *context, uint64_t key, uint64_t address,
		     int userfaultfd, struct simhca_why *why)
{
	struct simhca_efa *efa = efa_of(context, why);
	struct efa_watch *page = efa ? find_watch(context, key, why) : NULL;
	bool takes;

	takes = page && userfaultfd >= 0 && efa->userfaultfd < 0 &&
		!simhca_engine_rings_by(context, userfaultfd);
	if (takes)
		atomic_store(&efa->userfaultfd, userfaultfd);
	else if (userfaultfd >= 0)
		simhca_release(context->device->fabric, NULL, 0, userfaultfd);
	if (!page)
		return -EINVAL;
	pthread_mutex_lock(&efa->watch_lock);
	page->address = address;
	page->state = efa->userfaultfd < 0 || address % EFA_PAGE ? EFA_WATCH_NONE : EFA_WATCH_NEW;
	pthread_mutex_unlock(&efa->watch_lock);
	simhca_engine_schedule(context->engine, &efa->task);
	return 0;
}
