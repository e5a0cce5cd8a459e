/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A provider, compiled for one release, that registers when it is loaded and does nothing else. */
#include "ibverbs-provider-check.h"

static const struct verbs_device_ops provider_ops = { .name = "provider" };

SIMHCA_REGISTER_DRIVER(provider_ops)
