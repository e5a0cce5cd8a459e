/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the command line and the configuration file come to. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"
#include "option_table.h"
#include "options.h"
#include "profile.h"
#include "settings.h"

/* ---------------------------------------------------------------------------- command line */

static void print_help(void)
{
	printf("Usage: simhcad [OPTION]...\n"
	       "The device of simhca: serves RDMA programs of this host.\n\n");
	for (size_t i = 0; i < option_count; i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", option_table[i].name,
			 option_table[i].argument ? " " : "",
			 option_table[i].argument ? option_table[i].argument : "");
		option_print_help(stdout, left, option_table[i].help);
	}
	option_print_help(stdout, "--device " OPTION_DEVICE_ARGUMENT, OPTION_DEVICE_HELP);
	printf("\nThose that do not concern the single run are also lines \"option = value\" of "
	       "the\n"
	       "configuration file; what describes a device may stand below [device NAME] there.\n"
	       "See simhcad(8).\n");
}

/* --device NAME,option=value,.. */
static int parse_device(struct layer *layer, const char *argument)
{
	char *copy = strdup(argument);
	char error[OPTIONS_TEXT] = "out of memory";
	char *rest = copy, *name, *word;
	int ret = -1;

	if (!copy)
		goto out;
	name = strsep(&rest, ",");
	if (!layer_device(layer, name, error))
		goto out;
	while ((word = strsep(&rest, ","))) {
		char *value = strchr(word, '=');

		if (!value) {
			snprintf(error, sizeof(error), "'%.64s' is not OPTION=VALUE", word);
			goto out;
		}
		*value++ = '\0';
		if (layer_set(layer, name, word, value, error)) {
			char reason[OPTIONS_TEXT];

			strcpy(reason, error);
			snprintf(error, sizeof(error), "%.32s=%.64s %.150s", word, value, reason);
			goto out;
		}
	}
	ret = 0;
out:
	if (ret)
		fprintf(stderr, "simhcad: --device %s: %s\n", argument, error);
	free(copy);
	return ret;
}

#define DEVICE_OPTION                                                                              \
	1000 /* what getopt_long() says for --device; below it: 1 + place in table                 \
	      */

static int parse_command_line(int argc, char **argv, struct layer *layer)
{
	struct option longs[2 * OPTION_MOST + 2] = {};
	size_t count = 0;
	char error[OPTIONS_TEXT];
	int which;

	for (size_t i = 0; i < option_count; i++) {
		struct option option = { .name = option_table[i].name,
					 .has_arg = option_table[i].argument ? required_argument
									     : optional_argument,
					 .val = 1 + (int)i };

		longs[count++] = option;
		option.name = option_table[i].old_name;
		if (option.name)
			longs[count++] = option;
	}
	longs[count] = (struct option){ .name = "device",
					.has_arg = required_argument,
					.val = DEVICE_OPTION };

	opterr = 0;
	while ((which = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		const struct option_desc *desc;

		if (which == '?' || which == ':') {
			fprintf(stderr, "simhcad: %s: %s; see simhcad --help\n", argv[optind - 1],
				which == ':' ? "needs a value" : "there is no such option");
			return -1;
		}
		if (which == DEVICE_OPTION) {
			if (parse_device(layer, optarg))
				return -1;
			continue;
		}
		desc = &option_table[which - 1];
		/* A flag alone is on; `simhca run --daemon-option` has names with values only. */
		if (!optarg)
			optarg = (char *)"on";
		if (option_set(&layer->general, desc, optarg, error)) {
			fprintf(stderr, "simhcad: --%s %s: %s\n", desc->name, optarg, error);
			return -1;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "simhcad: %s: there are only options, no arguments; see --help\n",
			argv[optind]);
		return -1;
	}
	return 0;
}

/* --------------------------------------------------------------------------------- outcome */

static int add_device(struct options *options, const char *name, size_t length)
{
	for (unsigned int i = 0; i < options->num_devices; i++)
		if (!strncmp(options->devices[i].name, name, length) &&
		    !options->devices[i].name[length])
			return 0;
	if (options->num_devices == OPTIONS_MAX_DEVICES) {
		fprintf(stderr, "simhcad: --devices: there can be %d devices\n",
			OPTIONS_MAX_DEVICES);
		return -1;
	}
	memcpy(options->devices[options->num_devices].name, name, length);
	options->devices[options->num_devices++].name[length] = '\0';
	return 0;
}

/* The name of the i-th of a number of devices: a number at the end of the first one's counts up. */
static int add_numbered(struct options *options, unsigned int i, unsigned int of)
{
	const char *first = options->daemon.device_name ? options->daemon.device_name
							: profile_of(&options->daemon)->device_name;
	size_t stem = strlen(first);
	char name[2 * OPTIONS_DEVICE_NAME];

	while (isdigit((unsigned char)first[stem - 1])) /* it begins with a letter */
		stem--;
	if (!first[stem] && of == 1)
		return add_device(options, first, stem);
	snprintf(name, sizeof(name), "%.*s%llu", (int)stem, first,
		 strtoull(first + stem, NULL, 10) + i);
	if (strlen(name) < OPTIONS_DEVICE_NAME)
		return add_device(options, name, strlen(name));
	fprintf(stderr, "simhcad: --device-name %s: %s: a device's name has up to %d letters\n",
		first, name, OPTIONS_DEVICE_NAME - 1);
	return -1;
}

static int name_devices(struct options *options, const struct layer *file, const struct layer *line)
{
	const struct layer *layers[] = { file, line };
	const char *list = options->daemon.devices;

	if (list && isdigit((unsigned char)list[0])) {
		unsigned int number = (unsigned int)atoi(list);

		for (unsigned int i = 0; i < number; i++)
			if (add_numbered(options, i, number))
				return -1;
	} else if (list) {
		for (;; list++) {
			size_t length = strcspn(list, ",");

			if (add_device(options, list, length))
				return -1;
			list += length;
			if (!*list)
				break;
		}
	}
	for (size_t i = 0; i < 2; i++)
		for (unsigned int j = 0; j < layers[i]->num_devices; j++)
			if (add_device(options, layers[i]->devices[j].name,
				       strlen(layers[i]->devices[j].name)))
				return -1;
	return options->num_devices ? 0 : add_numbered(options, 0, 1);
}

/* Numbers that must differ between devices: a general one counts up from the first device. */
static void count_up(struct options *options, const struct layer *file, const struct layer *line)
{
	uint64_t guid_bit = UINT64_C(1) << (option_find("node-guid") - option_table);
	uint64_t lid_bit = UINT64_C(1) << (option_find("lid") - option_table);

	for (unsigned int i = 0; i < options->num_devices; i++) {
		struct settings *settings = &options->devices[i].settings;
		const struct settings *of_line = layer_find(line, options->devices[i].name);
		const struct settings *of_file = layer_find(file, options->devices[i].name);
		uint64_t own = (of_line ? of_line->given : 0) |
			       (of_file ? of_file->given & ~line->general.given : 0);

		if (settings->node_guid && !(own & guid_bit))
			settings->node_guid += i;
		if (!(own & lid_bit))
			settings->lid = (settings->lid ? settings->lid : 1) + i;
	}
}

static int overlay_all(struct options *options, const struct layer *file, const struct layer *line)
{
	if (settings_init(&options->daemon) || settings_overlay(&options->daemon, &file->general) ||
	    settings_overlay(&options->daemon, &line->general))
		return -1;
	if (name_devices(options, file, line))
		return -1;
	for (unsigned int i = 0; i < options->num_devices; i++) {
		struct named_settings *device = &options->devices[i];
		const struct settings *of_file = layer_find(file, device->name);
		const struct settings *of_line = layer_find(line, device->name);

		if (settings_init(&device->settings) ||
		    settings_overlay(&device->settings, &file->general) ||
		    (of_file && settings_overlay(&device->settings, of_file)) ||
		    settings_overlay(&device->settings, &line->general) ||
		    (of_line && settings_overlay(&device->settings, of_line)))
			return -1;
	}
	count_up(options, file, line);
	return 0;
}

/* Whether one general option gives all devices the values that they have. */
static bool is_general(struct options *options, const struct option_desc *desc)
{
	bool counts_up = desc->offset == offsetof(struct settings, node_guid) ||
			 desc->offset == offsetof(struct settings, lid);

	for (unsigned int i = 1; i < options->num_devices; i++) {
		struct settings settings = options->devices[i].settings;
		char first[OPTIONS_TEXT], value[OPTIONS_TEXT];

		if (counts_up && desc->type == TYPE_GUID)
			*(uint64_t *)option_field(&settings, desc) -= settings.node_guid ? i : 0;
		else if (counts_up)
			*(uint32_t *)option_field(&settings, desc) -= i;
		option_print(&options->devices[0].settings, desc, first);
		option_print(&settings, desc, value);
		if (strcmp(first, value))
			return false;
	}
	return true;
}

/* 0 and no text stand for "choose", as do the two that start with UINT32_MAX. */
static bool is_chosen_later(const struct settings *settings, const struct option_desc *desc)
{
	const void *field = (const char *)settings + desc->offset;

	if (desc->type == TYPE_GUID)
		return !*(const uint64_t *)field;
	if (desc->type == TYPE_STRING)
		return !*(char *const *)field;
	if (desc->type != TYPE_NUMBER)
		return false;
	return *(const uint32_t *)field == UINT32_MAX || *(const uint32_t *)field < desc->min;
}

static void print_word(FILE *out, const struct settings *settings, const struct option_desc *desc,
		       const char *lead)
{
	char value[OPTIONS_TEXT];

	if (is_chosen_later(settings, desc))
		return;
	option_print(settings, desc, value);
	fprintf(out, "%s%s=%s", lead, desc->name, value);
}

static void print_names(FILE *out, const struct options *options)
{
	bool numbered = true;

	for (unsigned int i = 0; i < options->num_devices; i++) {
		char name[OPTIONS_DEVICE_NAME];

		snprintf(name, sizeof(name), "simhca%u", i);
		numbered = numbered && !strcmp(name, options->devices[i].name);
	}
	fprintf(out, "--devices=");
	if (numbered)
		fprintf(out, "%u", options->num_devices);
	for (unsigned int i = 0; !numbered && i < options->num_devices; i++)
		fprintf(out, "%s%s", i ? "," : "", options->devices[i].name);
}

static bool is_of_names(const struct option_desc *desc)
{
	return desc->type == TYPE_DEVICES || desc->type == TYPE_NAME;
}

/* The same for all ways of asking for the same daemon, defaults included. */
static int normalise(struct options *options)
{
	size_t size;
	FILE *out = open_memstream(&options->normalised, &size);

	if (!out)
		return -1;
	print_names(out, options);
	for (size_t i = 0; i < option_count; i++) {
		if (option_table[i].scope & SCOPE_RUN || is_of_names(&option_table[i]))
			continue;
		if (!(option_table[i].scope & SCOPE_DEVICE))
			print_word(out, &options->daemon, &option_table[i], " --");
		else if (is_general(options, &option_table[i]))
			print_word(out, &options->devices[0].settings, &option_table[i], " --");
	}
	for (unsigned int i = 0; i < options->num_devices; i++) {
		bool first = true;

		for (size_t j = 0; j < option_count; j++) {
			if (!(option_table[j].scope & SCOPE_DEVICE) ||
			    is_general(options, &option_table[j]))
				continue;
			if (first)
				fprintf(out, " --device=%s", options->devices[i].name);
			first = false;
			print_word(out, &options->devices[i].settings, &option_table[j], ",");
		}
	}
	return fclose(out) ? -1 : 0;
}

static int resolve(struct options *options, struct layer *file, const struct layer *line)
{
	const char *config = line->general.config ? line->general.config : CONFIG_FILE_DEFAULT;
	int ret = config_file_load(config, file);

	if (ret == -ENOENT && line->general.config)
		fprintf(stderr, "simhcad: --config %s: no such file\n", config);
	if (ret && (ret != -ENOENT || line->general.config))
		return -1;
	if (overlay_all(options, file, line))
		return -1;
	if (options->daemon.ready_fd != UINT32_MAX &&
	    fcntl((int)options->daemon.ready_fd, F_GETFD) < 0) {
		fprintf(stderr, "simhcad: --ready-fd %" PRIu32 ": must be an open descriptor\n",
			options->daemon.ready_fd);
		return -1;
	}
	return normalise(options);
}

int options_parse(int argc, char **argv, struct options *options)
{
	struct layer *file = calloc(1, sizeof(*file));
	struct layer *line = calloc(1, sizeof(*line));
	int status = 2;

	memset(options, 0, sizeof(*options));
	if (!file || !line) {
		fprintf(stderr, "simhcad: out of memory\n");
		status = 1;
	} else if (!parse_command_line(argc, argv, line)) {
		if (line->general.help) {
			print_help();
			status = 0;
		} else if (line->general.version) {
			printf("simhcad " SIMHCA_VERSION "\n");
			status = 0;
		} else if (!resolve(options, file, line)) {
			status = -1;
		}
	}
	if (file)
		layer_free(file);
	if (line)
		layer_free(line);
	free(file);
	free(line);
	if (status != -1)
		options_free(options);
	return status;
}

void options_free(struct options *options)
{
	settings_free(&options->daemon);
	for (unsigned int i = 0; i < options->num_devices; i++)
		settings_free(&options->devices[i].settings);
	free(options->normalised);
	memset(options, 0, sizeof(*options));
}
