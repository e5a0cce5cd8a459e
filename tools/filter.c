/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "filter.h"

static bool is_number(const json_t *object, const char *key, long long number)
{
	return json_integer_value(json_object_get(object, key)) == number;
}

bool filter_passes(const struct filter *filter, const json_t *object)
{
	const char *device = json_string_value(json_object_get(object, "device"));

	return (!filter->pid || is_number(object, "pid", filter->pid)) &&
	       (!filter->qpn || is_number(object, "lqpn", filter->qpn) ||
		is_number(object, "qpn", filter->qpn)) &&
	       (!filter->device || (device && !strcmp(device, filter->device)));
}

void filter_list(const struct filter *filter, json_t *list)
{
	for (size_t i = json_array_size(list); i--;)
		if (!filter_passes(filter, json_array_get(list, i)))
			json_array_remove(list, i);
}

void filter_status(const struct filter *filter, json_t *status)
{
	json_t *devices = json_object_get(status, "devices");
	const struct filter of_contexts = { .pid = filter->pid, .qpn = filter->qpn };

	for (size_t i = json_array_size(devices); i--;) {
		json_t *device = json_array_get(devices, i);
		const char *name = json_string_value(json_object_get(device, "name"));

		if (filter->device && (!name || strcmp(name, filter->device) != 0))
			json_array_remove(devices, i);
		else
			filter_list(&of_contexts, json_object_get(device, "context"));
	}
}
