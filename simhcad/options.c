/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"
#include "options.h"

/* ------------------------------------------------------------------------------- the table */

enum option_type { TYPE_FLAG, TYPE_NUMBER, TYPE_CHOICE, TYPE_STRING, TYPE_GUID, TYPE_DEVICES };

enum option_scope {
	SCOPE_DEVICE = 1 << 0,	/* may differ between devices */
	SCOPE_NO_FILE = 1 << 1, /* makes sense on the command line only */
	SCOPE_RUN = 1 << 2,	/* of this run: no part of the daemon's identity */
};

struct choice {
	const char *name;
	uint32_t value;
};

struct option_desc {
	const char *name;
	const char *argument; /* as --help calls it; NULL: none */
	enum option_type type;
	unsigned int scope;
	size_t offset;		      /* in struct settings */
	uint32_t min, max;	      /* TYPE_NUMBER */
	const struct choice *choices; /* TYPE_CHOICE, ended by a NULL name */
	const char *initial;	      /* the default, as text; NULL: 0 */
	const char *help;
};

static const struct choice link_layers[] = { { "ethernet", 0 }, { "ib", 1 }, { NULL, 0 } };
static const struct choice mtus[] = { { "256", 256 },	{ "512", 512 },	  { "1024", 1024 },
				      { "2048", 2048 }, { "4096", 4096 }, { NULL, 0 } };
static const struct choice log_levels[] = { { "error", SIMHCA_LOG_ERROR },
					    { "warning", SIMHCA_LOG_WARNING },
					    { "info", SIMHCA_LOG_INFO },
					    { "debug", SIMHCA_LOG_DEBUG },
					    { NULL, 0 } };
static const struct choice memory_modes[] = { { "auto", MEMORY_AUTO },
					      { "process_vm", MEMORY_PROCESS_VM },
					      { "agent", MEMORY_AGENT },
					      { NULL, 0 } };

static const struct choice invalidations[] = { { "events", 0 }, { "checks", 1 }, { NULL, 0 } };

#define AT(field) offsetof(struct settings, field)
#define FLAG(n, field, s, h)                                                                       \
	{                                                                                          \
		.name = n, .type = TYPE_FLAG, .scope = s, .offset = AT(field), .help = h           \
	}
#define STRING(n, field, a, s, i, h)                                                               \
	{                                                                                          \
		.name = n, .argument = a, .type = TYPE_STRING, .scope = s, .offset = AT(field),    \
		.initial = i, .help = h                                                            \
	}
#define NUMBER(n, field, a, s, lo, hi, h)                                                          \
	{                                                                                          \
		.name = n, .argument = a, .type = TYPE_NUMBER, .scope = s, .offset = AT(field),    \
		.min = lo, .max = hi, .help = h                                                    \
	}
#define CHOICE(n, field, a, s, c, i, h)                                                            \
	{                                                                                          \
		.name = n, .argument = a, .type = TYPE_CHOICE, .scope = s, .offset = AT(field),    \
		.choices = c, .initial = i, .help = h                                              \
	}
#define GUID(n, field, h)                                                                          \
	{                                                                                          \
		.name = n, .argument = "GUID", .type = TYPE_GUID, .scope = SCOPE_DEVICE,           \
		.offset = AT(field), .help = h                                                     \
	}
#define LIMIT(n, field, hi, h) NUMBER(n, field, "N", SCOPE_DEVICE, 1, hi, h)

static const struct option_desc table[] = {
	{ .name = "devices",
	  .argument = "N|NAMES",
	  .type = TYPE_DEVICES,
	  .offset = AT(devices),
	  .help = "how many devices (simhca0 ..), or their names with commas between [1]" },
	CHOICE("link-layer", infiniband, "ethernet|ib", SCOPE_DEVICE, link_layers, "ethernet",
	       "Ethernet (RoCE v2) or InfiniBand [ethernet]"),
	STRING("netdev", netdev, "NAME", SCOPE_DEVICE, "lo",
	       "network interface that gives GIDs and port state [lo]"),
	CHOICE("mtu", mtu, "BYTES", SCOPE_DEVICE, mtus, "4096",
	       "path MTU of the port: 256, 512, 1024, 2048 or 4096 [4096]"),
	GUID("node-guid", node_guid,
	     "node GUID; in general it is the first device's, the others count up"),
	GUID("sys-image-guid", sys_image_guid, "system image GUID [the first device's node GUID]"),
	NUMBER("lid", lid, "LID", SCOPE_DEVICE, 1, 0xbfff,
	       "LID on InfiniBand; in general it is the first device's, the others count up [1]"),
	FLAG("mw-type-2a", mw_type_2a, SCOPE_DEVICE,
	     "type 2 memory windows are of type 2A instead of 2B"),
	FLAG("event-at-arm", event_at_arm, SCOPE_DEVICE,
	     "arming a CQ that holds completions raises an event, as some hardware does"),
	NUMBER("fault-latency", fault_latency, "US", SCOPE_DEVICE, 0, 10000000,
	       "how much longer each page fault of an on-demand region takes [0]"),
	CHOICE("odp-invalidation", odp_checks, "events|checks", SCOPE_DEVICE, invalidations,
	       "events",
	       "how to learn of on-demand pages that a program drops: userfaultfd where it can be "
	       "had, or by looking at each access [events]"),
	LIMIT("max-qp", max_qp, SIMHCA_MAX_QP, "QPs of the device"),
	LIMIT("max-cq", max_cq, SIMHCA_MAX_CQ, "CQs"),
	LIMIT("max-srq", max_srq, SIMHCA_MAX_SRQ, "SRQs"),
	LIMIT("max-mr", max_mr, SIMHCA_MAX_MR, "memory regions"),
	LIMIT("max-mw", max_mw, SIMHCA_MAX_MW, "memory windows"),
	LIMIT("max-pd", max_pd, SIMHCA_MAX_PD, "protection domains"),
	LIMIT("max-ah", max_ah, SIMHCA_MAX_AH, "address handles"),
	LIMIT("max-qp-wr", max_qp_wr, SIMHCA_MAX_QP_WR, "work requests of one queue"),
	LIMIT("max-sge", max_sge, SIMHCA_MAX_SGE, "scatter/gather entries of a work request"),
	LIMIT("max-inline", max_inline, SIMHCA_MAX_INLINE, "bytes of inline data"),
	LIMIT("max-cqe", max_cqe, SIMHCA_MAX_CQE, "entries of one CQ"),
	NUMBER("max-dm-size", max_dm_size, "BYTES", SCOPE_DEVICE, SIMHCA_DM_PAGE,
	       SIMHCA_MAX_DM_SIZE, "on-chip memory of the device"),
	NUMBER("engines", engines, "N", 0, 1, 64,
	       "engines: threads that work at a time [1 on up to 4 CPUs, else 2 to 4]"),
	NUMBER("engine-spin", engine_spin, "US", 0, 0, 1000000,
	       "how long an idle engine polls before it sleeps [1 on up to 2 CPUs, else 50]"),
	CHOICE("memory", memory, "auto|process_vm|agent", 0, memory_modes, "auto",
	       "how to reach the memory of clients [auto]"),
	NUMBER("fault-workers", fault_workers, "N", 0, 1, 64,
	       "threads that resolve page faults [4]"),
	STRING("runtime-dir", runtime_dir, "DIR", SCOPE_RUN, NULL,
	       "[$SIMHCA_RUNTIME_DIR, else $XDG_RUNTIME_DIR/simhca, /run/simhca, "
	       "/tmp/simhca-UID]"),
	STRING("config", config, "FILE", SCOPE_NO_FILE | SCOPE_RUN, NULL,
	       "configuration file [" CONFIG_FILE_DEFAULT " if it exists]"),
	STRING("log-file", log_file, "FILE", SCOPE_RUN, NULL,
	       "[standard error; with --daemonize simhcad.log in the runtime directory]"),
	CHOICE("log-level", log_level, "error|warning|info|debug", SCOPE_RUN, log_levels, "info",
	       "[info]"),
	FLAG("daemonize", daemonize, SCOPE_NO_FILE | SCOPE_RUN,
	     "go to the background once clients are served"),
	FLAG("captive", captive, SCOPE_NO_FILE | SCOPE_RUN,
	     "end when the last `simhca run` that uses the daemon has ended"),
	NUMBER("ready-fd", ready_fd, "N", SCOPE_NO_FILE | SCOPE_RUN, 0, 1 << 20,
	       "write a byte to this descriptor, and close it, once clients are served"),
	FLAG("help", help, SCOPE_NO_FILE | SCOPE_RUN, "this text"),
	FLAG("version", version, SCOPE_NO_FILE | SCOPE_RUN, "the version"),
};
#define NUM_OPTIONS (sizeof(table) / sizeof(table[0]))
_Static_assert(NUM_OPTIONS <= 64, "struct settings has 64 bits to say which were given");

static const struct option_desc *find_option(const char *name)
{
	for (size_t i = 0; i < NUM_OPTIONS; i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

static void *field_of(struct settings *settings, const struct option_desc *desc)
{
	return (char *)settings + desc->offset;
}

static bool has_string(const struct option_desc *desc)
{
	return desc->type == TYPE_STRING || desc->type == TYPE_DEVICES;
}

/* ---------------------------------------------------------------------------------- values */

__attribute__((format(printf, 2, 3))) static int refuse(char error[OPTIONS_TEXT],
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, OPTIONS_TEXT, format, args);
	va_end(args);
	return -1;
}

static int check_device_name(const char *name, size_t length, char error[OPTIONS_TEXT])
{
	static const char prefix[] = "simhca";
	bool good = length < OPTIONS_DEVICE_NAME && length > sizeof(prefix) - 1 &&
		    !strncmp(name, prefix, sizeof(prefix) - 1);

	for (size_t i = 0; good && i < length; i++)
		good = isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '-';
	if (good)
		return 0;
	return refuse(error,
		      "a device's name is simhca and then 1 to %zu letters, digits, '-' or '_'",
		      OPTIONS_DEVICE_NAME - sizeof(prefix));
}

static int parse_number(const char *text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	*number = strtoull(text, &end, 0);
	return errno || *end ? -1 : 0;
}

/* "0200:0000:0000:0001", or the number in hexadecimal */
static int parse_guid(const char *text, uint64_t *guid)
{
	unsigned int part[4];
	int end = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x%n", &part[0], &part[1], &part[2], &part[3], &end) == 4 &&
	    !text[end]) {
		*guid = (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 |
			(uint64_t)part[2] << 16 | part[3];
		return *guid ? 0 : -1;
	}
	if (strncmp(text, "0x", 2))
		return -1;
	return parse_number(text, guid) || !*guid ? -1 : 0;
}

static int check_devices(const char *value, char error[OPTIONS_TEXT])
{
	uint64_t number;

	if (isdigit((unsigned char)value[0])) {
		if (!parse_number(value, &number) && number >= 1 && number <= OPTIONS_MAX_DEVICES)
			return 0;
		return refuse(error, "must be 1 to %d, or names with commas between",
			      OPTIONS_MAX_DEVICES);
	}
	for (;;) {
		size_t length = strcspn(value, ",");

		if (check_device_name(value, length, error))
			return -1;
		if (!value[length])
			return 0;
		value += length + 1;
	}
}

static int parse_choice(const struct option_desc *desc, const char *value, uint32_t *out,
			char error[OPTIONS_TEXT])
{
	size_t used = 0;

	for (const struct choice *choice = desc->choices; choice->name; choice++) {
		if (!strcmp(choice->name, value)) {
			*out = choice->value;
			return 0;
		}
	}
	used = (size_t)snprintf(error, OPTIONS_TEXT, "must be ");
	for (const struct choice *choice = desc->choices; choice->name; choice++) {
		const char *gap = choice == desc->choices ? "" : choice[1].name ? ", " : " or ";

		used += (size_t)snprintf(error + used, OPTIONS_TEXT - used, "%s%s", gap,
					 choice->name);
	}
	return -1;
}

static int parse_flag(const char *value, uint32_t *out, char error[OPTIONS_TEXT])
{
	static const struct {
		const char *word;
		uint32_t value;
	} words[] = { { "on", 1 },  { "yes", 1 }, { "true", 1 },  { "1", 1 },
		      { "off", 0 }, { "no", 0 },  { "false", 0 }, { "0", 0 } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcasecmp(words[i].word, value)) {
			*out = words[i].value;
			return 0;
		}
	}
	return refuse(error, "must be on or off");
}

static int set_string(const struct option_desc *desc, const char *value, char **out,
		      char error[OPTIONS_TEXT])
{
	char *copy;

	if (!value[0])
		return refuse(error, "must not be empty");
	if (desc->type == TYPE_DEVICES && check_devices(value, error))
		return -1;
	if (desc->offset == AT(netdev) && (strlen(value) >= IFNAMSIZ || strchr(value, '/')))
		return refuse(error, "must be the name of a network interface");
	copy = strdup(value);
	if (!copy)
		return refuse(error, "out of memory");
	free(*out);
	*out = copy;
	return 0;
}

static int set_value(struct settings *settings, const struct option_desc *desc, const char *value,
		     char error[OPTIONS_TEXT])
{
	void *field = field_of(settings, desc);
	uint64_t number;
	int ret = 0;

	switch (desc->type) {
	case TYPE_FLAG:
		ret = parse_flag(value, field, error);
		break;
	case TYPE_NUMBER:
		if (parse_number(value, &number) || number < desc->min || number > desc->max)
			return refuse(error, "must be %" PRIu32 " to %" PRIu32, desc->min,
				      desc->max);
		*(uint32_t *)field = (uint32_t)number;
		break;
	case TYPE_CHOICE:
		ret = parse_choice(desc, value, field, error);
		break;
	case TYPE_GUID:
		if (parse_guid(value, field))
			return refuse(error, "must be a GUID like 0200:0000:0000:0001, not 0");
		break;
	case TYPE_STRING:
	case TYPE_DEVICES:
		ret = set_string(desc, value, field, error);
		break;
	}
	if (!ret)
		settings->given |= UINT64_C(1) << (desc - table);
	return ret;
}

static void print_value(const struct settings *settings, const struct option_desc *desc,
			char text[OPTIONS_TEXT])
{
	const void *field = (const char *)settings + desc->offset;
	uint64_t guid;

	text[0] = '\0';
	switch (desc->type) {
	case TYPE_FLAG:
		snprintf(text, OPTIONS_TEXT, "%s", *(const uint32_t *)field ? "on" : "off");
		break;
	case TYPE_NUMBER:
		snprintf(text, OPTIONS_TEXT, "%" PRIu32, *(const uint32_t *)field);
		break;
	case TYPE_CHOICE:
		for (const struct choice *choice = desc->choices; choice->name; choice++)
			if (choice->value == *(const uint32_t *)field)
				snprintf(text, OPTIONS_TEXT, "%s", choice->name);
		break;
	case TYPE_GUID:
		guid = *(const uint64_t *)field;
		snprintf(text, OPTIONS_TEXT, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
			 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
			 (unsigned int)(guid & 0xffff));
		break;
	case TYPE_STRING:
	case TYPE_DEVICES:
		if (*(char *const *)field)
			snprintf(text, OPTIONS_TEXT, "%s", *(char *const *)field);
		break;
	}
}

/* -------------------------------------------------------------------------------- settings */

static void settings_free(struct settings *settings)
{
	for (size_t i = 0; i < NUM_OPTIONS; i++)
		if (has_string(&table[i]))
			free(*(char **)field_of(settings, &table[i]));
}

static int settings_init(struct settings *settings)
{
	char error[OPTIONS_TEXT];

	memset(settings, 0, sizeof(*settings));
	settings->engine_spin = UINT32_MAX;
	settings->ready_fd = UINT32_MAX;
	for (size_t i = 0; i < NUM_OPTIONS; i++)
		if (table[i].initial && set_value(settings, &table[i], table[i].initial, error))
			return -1;
	settings->given = 0;
	return 0;
}

/* What upper gives replaces what is in settings. */
static int settings_overlay(struct settings *settings, const struct settings *upper)
{
	char error[OPTIONS_TEXT];

	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		const void *from = (const char *)upper + table[i].offset;
		void *to = field_of(settings, &table[i]);

		if (!(upper->given >> i & 1))
			continue;
		if (has_string(&table[i])) {
			if (set_value(settings, &table[i], *(char *const *)from, error))
				return -1;
		} else {
			memcpy(to, from,
			       table[i].type == TYPE_GUID ? sizeof(uint64_t) : sizeof(uint32_t));
		}
		settings->given |= UINT64_C(1) << i;
	}
	return 0;
}

static const struct settings *layer_find(const struct layer *layer, const char *device)
{
	for (unsigned int i = 0; i < layer->num_devices; i++)
		if (!strcmp(layer->devices[i].name, device))
			return &layer->devices[i].settings;
	return NULL;
}

static struct settings *layer_device(struct layer *layer, const char *device,
				     char error[OPTIONS_TEXT])
{
	const struct settings *found = layer_find(layer, device);
	struct named_settings *named;

	if (found)
		return (struct settings *)found;
	if (check_device_name(device, strlen(device), error))
		return NULL;
	if (layer->num_devices == OPTIONS_MAX_DEVICES) {
		refuse(error, "there can be %d devices", OPTIONS_MAX_DEVICES);
		return NULL;
	}
	named = &layer->devices[layer->num_devices++];
	strcpy(named->name, device);
	return &named->settings;
}

int layer_set(struct layer *layer, const char *device, const char *name, const char *value,
	      bool from_file, char error[OPTIONS_TEXT])
{
	const struct option_desc *desc = find_option(name);
	struct settings *settings = &layer->general;

	if (!desc)
		return refuse(error, "there is no such option; see simhcad --help");
	if (from_file && desc->scope & SCOPE_NO_FILE)
		return refuse(error, "is an option of the command line only");
	if (device) {
		if (!(desc->scope & SCOPE_DEVICE))
			return refuse(error, "is no option of a single device");
		settings = layer_device(layer, device, error);
		if (!settings)
			return -1;
	}
	return set_value(settings, desc, value, error);
}

void layer_free(struct layer *layer)
{
	settings_free(&layer->general);
	for (unsigned int i = 0; i < layer->num_devices; i++)
		settings_free(&layer->devices[i].settings);
}

/* ---------------------------------------------------------------------------- command line */

static void print_help(void)
{
	printf("Usage: simhcad [OPTION]...\n"
	       "The device of simhca: serves RDMA programs of this host.\n\n");
	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", table[i].name,
			 table[i].argument ? " " : "", table[i].argument ? table[i].argument : "");
		printf("  %-34s %s\n", left, table[i].help);
	}
	printf("  %-34s %s\n", "--device NAME,OPTION=VALUE,..",
	       "options of one device; it is added if --devices does not name it");
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
		if (layer_set(layer, name, word, value, true, error)) {
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
	struct option longs[NUM_OPTIONS + 2] = {};
	char error[OPTIONS_TEXT];
	int which;

	for (size_t i = 0; i < NUM_OPTIONS; i++)
		longs[i] = (struct option){ .name = table[i].name,
					    .has_arg = table[i].argument ? required_argument
									 : optional_argument,
					    .val = 1 + (int)i };
	longs[NUM_OPTIONS] = (struct option){ .name = "device",
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
		desc = &table[which - 1];
		/* A flag alone is on; `simhca run --daemon-option` has names with values only. */
		if (!optarg)
			optarg = (char *)"on";
		if (set_value(&layer->general, desc, optarg, error)) {
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

static int name_devices(struct options *options, const struct layer *file, const struct layer *line)
{
	const struct layer *layers[] = { file, line };
	const char *list = options->daemon.devices;
	char name[OPTIONS_DEVICE_NAME];

	if (list && isdigit((unsigned char)list[0])) {
		for (int i = 0; i < atoi(list); i++) {
			snprintf(name, sizeof(name), "simhca%d", i);
			if (add_device(options, name, strlen(name)))
				return -1;
		}
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
	return options->num_devices ? 0 : add_device(options, "simhca0", strlen("simhca0"));
}

/* Numbers that must differ between devices: a general one counts up from the first device. */
static void count_up(struct options *options, const struct layer *file, const struct layer *line)
{
	uint64_t guid_bit = UINT64_C(1) << (find_option("node-guid") - table);
	uint64_t lid_bit = UINT64_C(1) << (find_option("lid") - table);

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
	bool counts_up = desc->offset == AT(node_guid) || desc->offset == AT(lid);

	for (unsigned int i = 1; i < options->num_devices; i++) {
		struct settings settings = options->devices[i].settings;
		char first[OPTIONS_TEXT], value[OPTIONS_TEXT];

		if (counts_up && desc->type == TYPE_GUID)
			*(uint64_t *)field_of(&settings, desc) -= settings.node_guid ? i : 0;
		else if (counts_up)
			*(uint32_t *)field_of(&settings, desc) -= i;
		print_value(&options->devices[0].settings, desc, first);
		print_value(&settings, desc, value);
		if (strcmp(first, value))
			return false;
	}
	return true;
}

/* 0 stands for "choose", as do the two that start with UINT32_MAX. */
static bool is_chosen_later(const struct settings *settings, const struct option_desc *desc)
{
	const void *field = (const char *)settings + desc->offset;

	if (desc->type == TYPE_GUID)
		return !*(const uint64_t *)field;
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
	print_value(settings, desc, value);
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

/* The same for all ways of asking for the same daemon, defaults included. */
static int normalise(struct options *options)
{
	size_t size;
	FILE *out = open_memstream(&options->normalised, &size);

	if (!out)
		return -1;
	print_names(out, options);
	for (size_t i = 0; i < NUM_OPTIONS; i++) {
		if (table[i].scope & SCOPE_RUN || table[i].type == TYPE_DEVICES)
			continue;
		if (!(table[i].scope & SCOPE_DEVICE))
			print_word(out, &options->daemon, &table[i], " --");
		else if (is_general(options, &table[i]))
			print_word(out, &options->devices[0].settings, &table[i], " --");
	}
	for (unsigned int i = 0; i < options->num_devices; i++) {
		bool first = true;

		for (size_t j = 0; j < NUM_OPTIONS; j++) {
			if (!(table[j].scope & SCOPE_DEVICE) || is_general(options, &table[j]))
				continue;
			if (first)
				fprintf(out, " --device=%s", options->devices[i].name);
			first = false;
			print_word(out, &options->devices[i].settings, &table[j], ",");
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
