/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Objects of a context, by their handles. Control functions only. */
#ifndef LIBSIMHCA_OBJECTS_H
#define LIBSIMHCA_OBJECTS_H

enum simhca_object_type {
	SIMHCA_OBJ_PD,
	SIMHCA_OBJ_MR,
	SIMHCA_OBJ_MW,
	SIMHCA_OBJ_AH,
	SIMHCA_OBJ_CQ,
	SIMHCA_OBJ_SRQ,
	SIMHCA_OBJ_QP,
	SIMHCA_OBJ_XRCD,
	SIMHCA_OBJ_DM,
	SIMHCA_OBJ_WQ,
	SIMHCA_OBJ_RWQ_TABLE,
	SIMHCA_OBJ_FLOW,
	SIMHCA_OBJ_COUNTERS,
	SIMHCA_OBJ_COMP_CNTR,
	SIMHCA_OBJ_EFA_AH,
	SIMHCA_OBJ_EFA_CQ,
	SIMHCA_OBJ_EFA_QP,
	SIMHCA_OBJ_TYPES,
};

void *simhca_object(struct simhca_context *context, enum simhca_object_type type, uint32_t handle,
		    struct simhca_why *why);
/* Files an object under a new handle and counts it, within the device's limit. */
int simhca_object_add(struct simhca_context *context, enum simhca_object_type type, void *object,
		      uint32_t *handle, struct simhca_why *why);
void simhca_object_remove(struct simhca_context *context, enum simhca_object_type type,
			  uint32_t handle);

#endif
