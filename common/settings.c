/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "option_table.h"
#include "settings.h"

void settings_free(struct settings *settings)
{
	for (size_t i = 0; i < option_count; i++)
		if (option_has_string(&option_table[i]))
			free(*(char **)option_field(settings, &option_table[i]));
}

int settings_init(struct settings *settings)
{
	char error[OPTIONS_TEXT];

	memset(settings, 0, sizeof(*settings));
	settings->engine_spin = UINT32_MAX;
	settings->ready_fd = UINT32_MAX;
	settings->numa_node = UINT32_MAX;
	for (size_t i = 0; i < option_count; i++)
		if (option_table[i].initial &&
		    option_set(settings, &option_table[i], option_table[i].initial, error))
			return -1;
	settings->given = 0;
	return 0;
}

int settings_overlay(struct settings *settings, const struct settings *upper)
{
	char error[OPTIONS_TEXT];

	for (size_t i = 0; i < option_count; i++) {
		const void *from = (const char *)upper + option_table[i].offset;
		void *to = option_field(settings, &option_table[i]);

		if (!(upper->given >> i & 1))
			continue;
		if (option_has_string(&option_table[i])) {
			if (option_set(settings, &option_table[i], *(char *const *)from, error))
				return -1;
		} else {
			memcpy(to, from,
			       option_table[i].type == TYPE_GUID ? sizeof(uint64_t)
								 : sizeof(uint32_t));
		}
		settings->given |= UINT64_C(1) << i;
	}
	return 0;
}

const struct settings *layer_find(const struct layer *layer, const char *device)
{
	for (unsigned int i = 0; i < layer->num_devices; i++)
		if (!strcmp(layer->devices[i].name, device))
			return &layer->devices[i].settings;
	return NULL;
}

struct settings *layer_device(struct layer *layer, const char *device, char error[OPTIONS_TEXT])
{
	const struct settings *found = layer_find(layer, device);
	struct named_settings *named;

	if (found)
		return (struct settings *)found;
	if (option_check_device_name(device, strlen(device), error))
		return NULL;
	if (layer->num_devices == OPTIONS_MAX_DEVICES) {
		option_refuse(error, "there can be %d devices", OPTIONS_MAX_DEVICES);
		return NULL;
	}
	named = &layer->devices[layer->num_devices++];
	strcpy(named->name, device);
	return &named->settings;
}

int layer_set(struct layer *layer, const char *device, const char *name, const char *value,
	      char error[OPTIONS_TEXT])
{
	const struct option_desc *desc = option_find(name);
	struct settings *settings = &layer->general;

	if (!desc)
		return option_refuse(error, "there is no such option; see simhcad --help");
	if (desc->scope & SCOPE_NO_FILE)
		return option_refuse(error, "is an option of the command line only");
	if (device) {
		if (!(desc->scope & SCOPE_DEVICE))
			return option_refuse(error, "is no option of a single device");
		settings = layer_device(layer, device, error);
		if (!settings)
			return -1;
	}
	return option_set(settings, desc, value, error);
}

void layer_free(struct layer *layer)
{
	settings_free(&layer->general);
	for (unsigned int i = 0; i < layer->num_devices; i++)
		settings_free(&layer->devices[i].settings);
}
