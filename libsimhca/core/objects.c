/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Objects of a context: a handle for each, and how many a device may have of each type. */
#include <errno.h>
#include <stddef.h>

#include "context.h"
#include "objects.h"
#include "simhca-device.h"

static const struct object_type {
	const char *name;
	enum simhca_object_type counted_as; /* with which it has one limit */
	uint32_t most;			    /* of a device; 0: by its configuration */
	size_t configured;		    /* where that is in struct simhca_device_config */
} types[SIMHCA_OBJ_TYPES] = {
#define FIXED(type, name, most) [SIMHCA_OBJ_##type] = { name, SIMHCA_OBJ_##type, most, 0 }
#define CONFIGURED(type, name, as, max)                                                            \
	[SIMHCA_OBJ_##                                                                             \
		type] = { name, SIMHCA_OBJ_##as, 0, offsetof(struct simhca_device_config, max) }
	CONFIGURED(PD, "PD", PD, max_pd),
	CONFIGURED(MR, "MR", MR, max_mr),
	CONFIGURED(MW, "MW", MW, max_mw),
	CONFIGURED(AH, "AH", AH, max_ah),
	CONFIGURED(EFA_AH, "AH", AH, max_ah),
	CONFIGURED(CQ, "CQ", CQ, max_cq),
	CONFIGURED(EFA_CQ, "CQ", CQ, max_cq),
	CONFIGURED(SRQ, "SRQ", SRQ, max_srq),
	CONFIGURED(QP, "QP", QP, max_qp),
	CONFIGURED(EFA_QP, "QP", QP, max_qp),
	FIXED(XRCD, "XRC domain", SIMHCA_MAX_XRCD),
	FIXED(DM, "DM", SIMHCA_MAX_DM_SIZE / SIMHCA_DM_PAGE), /* pages are what limits them */
	FIXED(WQ, "WQ", SIMHCA_MAX_WQ),
	FIXED(FLOW, "flow", SIMHCA_MAX_FLOWS),
	FIXED(RWQ_TABLE, "indirection table", SIMHCA_MAX_RWQ_TABLES),
	FIXED(COUNTERS, "counters object", SIMHCA_MAX_COUNTERS),
	FIXED(COMP_CNTR, "completion counter", SIMHCA_MAX_COMP_CNTR),
#undef FIXED
#undef CONFIGURED
};

void *simhca_object(struct simhca_context *context, enum simhca_object_type type, uint32_t handle,
		    struct simhca_why *why)
{
	void *object = simhca_handle_get(&context->handles[type], handle);

	if (!object)
		simhca_why(why, ENOENT, "this context has no %s with handle %u", types[type].name,
			   handle);
	return object;
}

static uint32_t most_of(const struct simhca_device *device, enum simhca_object_type type)
{
	const char *config = (const char *)&device->config;

	return types[type].most ? types[type].most
				: *(const uint32_t *)(config + types[type].configured);
}

int simhca_object_add(struct simhca_context *context, enum simhca_object_type type, void *object,
		      uint32_t *handle, struct simhca_why *why)
{
	uint32_t *count = &context->device->alive[types[type].counted_as];
	uint32_t most = most_of(context->device, type);

	if (*count >= most)
		return simhca_why(why, ENOMEM, "the device has its limit of %u %ss", most,
				  types[type].name);
	if (simhca_handle_add(&context->handles[type], object, handle))
		return simhca_why(why, ENOMEM, "out of memory");
	(*count)++;
	return 0;
}

void simhca_object_remove(struct simhca_context *context, enum simhca_object_type type,
			  uint32_t handle)
{
	simhca_handle_remove(&context->handles[type], handle);
	context->device->alive[types[type].counted_as]--;
}
