/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"
#include "simhca-device.h"
#include "option_table.h"
#include "profile.h"
#include "wire_peers.h"

static const struct choice models[] = { { "simhca", 0 }, { "efa", 1 }, { NULL, 0 } };
static const struct choice generations[] = {
	{ "1", 1 }, { "2", 2 }, { "3", 3 }, { "4", 4 }, { NULL, 0 }
};
static const struct choice orders[] = { { "posted", 0 }, { "shuffled", 1 }, { NULL, 0 } };
static const struct choice link_layers[] = { { "ethernet", 0 }, { "ib", 1 }, { NULL, 0 } };
static const struct choice wires[] = { { "off", 0 }, { "roce", 1 }, { NULL, 0 } };
static const struct choice managers[] = { { "on", 0 }, { "off", 1 }, { NULL, 0 } };
static const struct choice fast_path[] = { { "off", 0 }, { "on", 1 }, { NULL, 0 } };
static const struct choice shared[] = { { "off", 0 }, { "on", 1 }, { NULL, 0 } };
static const struct choice scatter[] = { { "off", 0 }, { "on", 1 }, { NULL, 0 } };
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
					      { "shared", MEMORY_SHARED },
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

const struct option_desc option_table[] = {
	{ .name = "devices",
	  .argument = "N|NAMES",
	  .type = TYPE_DEVICES,
	  .offset = AT(devices),
	  .help = "how many devices (simhca0 ..), or their names with commas between [1]" },
	{ .name = "device-name",
	  .argument = "NAME",
	  .type = TYPE_NAME,
	  .offset = AT(device_name),
	  .help = "name of the first device, of --devices N the others count up [that of the "
		  "profile]" },
	CHOICE("profile", profile, "NIC", SCOPE_DEVICE, profile_choices, "simhca",
	       "NIC whose identity is shown: names, IDs, rate, PCI function; the device and its "
	       "driver are simhca's all the same [simhca]"),
	NUMBER("numa-node", numa_node, "N", SCOPE_DEVICE, 0, 1023,
	       "NUMA node that the device says it is at [none]"),
	CHOICE("model", efa, "simhca|efa", SCOPE_DEVICE, models, "simhca",
	       "what the device is: simhca, which has a provider of its own, or what Amazon's "
	       "driver libefa drives [simhca]"),
	CHOICE("efa-caps", efa_caps, "1|2|3|4", SCOPE_DEVICE, generations, "3",
	       "with --model efa: its generation; RDMA read is there from 2 on, RDMA write from 3 "
	       "on "
	       "[3]"),
	NUMBER("efa-mtu", efa_mtu, "BYTES", SCOPE_DEVICE, 1, SIMHCA_EFA_MTU,
	       "with --model efa: the longest message of a send [8928]"),
	NUMBER("efa-rdma-size", efa_rdma, "BYTES", SCOPE_DEVICE, 1, SIMHCA_EFA_RDMA,
	       "with --model efa: the longest RDMA read or write [1 GiB]"),
	CHOICE("srd-order", srd_shuffled, "posted|shuffled", SCOPE_DEVICE, orders, "posted",
	       "with --model efa: whether messages of SRD pass each other on purpose [posted]"),
	CHOICE("link-layer", infiniband, "ethernet|ib", SCOPE_DEVICE, link_layers, "ethernet",
	       "Ethernet (RoCE v2) or InfiniBand [ethernet]"),
	{ .name = "netdev",
	  .old_name = "interface",
	  .argument = "NAME",
	  .type = TYPE_STRING,
	  .scope = SCOPE_DEVICE,
	  .offset = AT(netdev),
	  .initial = "lo",
	  .help = "network interface that gives GIDs and port state [lo]" },
	CHOICE("wire", wire, "off|roce", SCOPE_DEVICE, wires, "off",
	       "RoCE v2 by UDP to addresses that no device of the daemon has [off]"),
	CHOICE("mtu", mtu, "BYTES", SCOPE_DEVICE, mtus, "4096",
	       "path MTU of the port: 256, 512, 1024, 2048 or 4096 [4096]"),
	GUID("node-guid", node_guid,
	     "node GUID; in general it is the first device's, the others count up"),
	GUID("sys-image-guid", sys_image_guid, "system image GUID [the first device's node GUID]"),
	NUMBER("lid", lid, "LID", SCOPE_DEVICE, 1, 0xbfff,
	       "LID on InfiniBand; in general it is the first device's, the others count up [1]"),
	CHOICE("sm", sm_off, "on|off", 0, managers, "on",
	       "subnet manager on InfiniBand; off: ports wait for a program that is one [on]"),
	FLAG("mw-type-2a", mw_type_2a, SCOPE_DEVICE,
	     "type 2 memory windows are of type 2A instead of 2B"),
	FLAG("event-at-arm", event_at_arm, SCOPE_DEVICE,
	     "arming a CQ that holds completions raises an event, as some hardware does"),
	{ .name = "fast-path",
	  .old_name = "engines-in-callers",
	  .argument = "on|off",
	  .type = TYPE_CHOICE,
	  .scope = SCOPE_DEVICE,
	  .offset = AT(fast_path),
	  .choices = fast_path,
	  .initial = "on",
	  .help = "programs that may write to each other's memory carry their messages by "
		  "themselves [on]" },
	CHOICE("shared-memory", shared_memory, "on|off", SCOPE_DEVICE, shared, "off",
	       "with the fast path: memory that is registered is moved into files that both ends "
	       "map [off]"),
	CHOICE("scatter-to-cqe", slot_data, "on|off", SCOPE_DEVICE, scatter, "on",
	       "messages of up to 64 bytes are copied to their buffers by who polls for them [on]"),
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
	CHOICE("memory", memory, "auto|process_vm|agent|shared", 0, memory_modes, "auto",
	       "how to reach the memory of clients; shared: as auto, with --shared-memory on for "
	       "all devices [auto]"),
	STRING("wire-peers", wire_peers, "CIDR[,..]", 0, NULL,
	       "addresses and networks that the wire takes packets from [all]"),
	FLAG("wire-rxe-flush", wire_rxe_flush, 0,
	     "FLUSH goes with the ICRC that Linux's rxe has for it, and comes with that, too"),
	NUMBER("fault-workers", fault_workers, "N", 0, 1, 64,
	       "threads that resolve page faults [4]"),
	STRING("runtime-dir", runtime_dir, "DIR", SCOPE_RUN | SCOPE_STARTER, NULL,
	       "where programs meet the daemon [$SIMHCA_RUNTIME_DIR, else $XDG_RUNTIME_DIR/simhca, "
	       "/run/simhca, "
	       "/tmp/simhca-UID]"),
	STRING("config", config, "FILE", SCOPE_NO_FILE | SCOPE_RUN, NULL,
	       "configuration file [" CONFIG_FILE_DEFAULT " if it exists]"),
	{ .name = "log-file",
	  .old_name = "log",
	  .argument = "FILE",
	  .type = TYPE_STRING,
	  .scope = SCOPE_RUN,
	  .offset = AT(log_file),
	  .help = "where the log goes [standard error; simhcad.log in the runtime directory with "
		  "--daemonize or `simhca start`]" },
	CHOICE("log-level", log_level, "error|warning|info|debug", SCOPE_RUN, log_levels, "info",
	       "how much is logged [info]"),
	FLAG("daemonize", daemonize, SCOPE_NO_FILE | SCOPE_RUN | SCOPE_STARTER,
	     "go to the background once clients are served"),
	FLAG("captive", captive, SCOPE_NO_FILE | SCOPE_RUN | SCOPE_STARTER,
	     "end when the last `simhca run` that uses the daemon has ended"),
	NUMBER("ready-fd", ready_fd, "N", SCOPE_NO_FILE | SCOPE_RUN | SCOPE_STARTER, 0, 1 << 20,
	       "write a byte to this descriptor, and close it, once clients are served"),
	FLAG("help", help, SCOPE_NO_FILE | SCOPE_RUN | SCOPE_STARTER, "this text"),
	FLAG("version", version, SCOPE_NO_FILE | SCOPE_RUN | SCOPE_STARTER, "the version"),
};
const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);
_Static_assert(sizeof(option_table) / sizeof(option_table[0]) <= OPTION_MOST,
	       "struct settings has so many bits to say which were given");

const struct option_desc *option_find(const char *name)
{
	for (size_t i = 0; i < option_count; i++)
		if (!strcmp(option_table[i].name, name) ||
		    (option_table[i].old_name && !strcmp(option_table[i].old_name, name)))
			return &option_table[i];
	return NULL;
}

#define HELP_INDENT 28
#define HELP_WIDTH 90

void option_print_help(FILE *out, const char *option, const char *help)
{
	int column = fprintf(out, "  %s", option);

	if (column > HELP_INDENT - 2) {
		fputc('\n', out);
		column = 0;
	}
	while (*help) {
		size_t length = strlen(help);

		fprintf(out, "%*s", HELP_INDENT - column, "");
		if (length > HELP_WIDTH - HELP_INDENT) {
			length = HELP_WIDTH - HELP_INDENT;
			while (length > 1 && help[length] != ' ')
				length--;
		}
		fprintf(out, "%.*s\n", (int)length, help);
		help += length;
		help += strspn(help, " ");
		column = 0;
	}
}

void *option_field(struct settings *settings, const struct option_desc *desc)
{
	return (char *)settings + desc->offset;
}

bool option_has_string(const struct option_desc *desc)
{
	return desc->type == TYPE_STRING || desc->type == TYPE_NAME || desc->type == TYPE_DEVICES;
}

/* ---------------------------------------------------------------------------------- values */

int option_refuse(char error[OPTIONS_TEXT], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, OPTIONS_TEXT, format, args);
	va_end(args);
	return -1;
}

int option_check_device_name(const char *name, size_t length, char error[OPTIONS_TEXT])
{
	/* Providers of libibverbs that take a device for theirs by its name alone. */
	static const char *const taken[] = { "rxe", "siw" };
	bool good = length < OPTIONS_DEVICE_NAME && isalpha((unsigned char)name[0]);

	for (size_t i = 0; good && i < length; i++)
		good = isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '-';
	if (!good)
		return option_refuse(error,
				     "a device's name is a letter and then up to %d letters, "
				     "digits, '-' or '_'",
				     OPTIONS_DEVICE_NAME - 2);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (!strncmp(name, taken[i], strlen(taken[i])))
			return option_refuse(error,
					     "a device whose name begins with %s is lib%s's to "
					     "libibverbs",
					     taken[i], taken[i]);
	return 0;
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
		return option_refuse(error, "must be 1 to %d, or names with commas between",
				     OPTIONS_MAX_DEVICES);
	}
	for (;;) {
		size_t length = strcspn(value, ",");

		if (option_check_device_name(value, length, error))
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
	return option_refuse(error, "must be on or off");
}

static int set_string(const struct option_desc *desc, const char *value, char **out,
		      char error[OPTIONS_TEXT])
{
	struct wire_peers peers;
	char *copy;

	if (!value[0])
		return option_refuse(error, "must not be empty");
	if (desc->type == TYPE_DEVICES && check_devices(value, error))
		return -1;
	if (desc->type == TYPE_NAME && option_check_device_name(value, strlen(value), error))
		return -1;
	if (desc->offset == AT(wire_peers) && wire_peers_parse(value, &peers))
		return option_refuse(error,
				     "must be 1 to %d addresses or networks with commas between",
				     WIRE_PEERS_MOST);
	if (desc->offset == AT(netdev) && (strlen(value) >= IFNAMSIZ || strchr(value, '/')))
		return option_refuse(error, "must be the name of a network interface");
	copy = strdup(value);
	if (!copy)
		return option_refuse(error, "out of memory");
	free(*out);
	*out = copy;
	return 0;
}

int option_set(struct settings *settings, const struct option_desc *desc, const char *value,
	       char error[OPTIONS_TEXT])
{
	void *field = option_field(settings, desc);
	uint64_t number;
	int ret = 0;

	switch (desc->type) {
	case TYPE_FLAG:
		ret = parse_flag(value, field, error);
		break;
	case TYPE_NUMBER:
		if (parse_number(value, &number) || number < desc->min || number > desc->max)
			return option_refuse(error, "must be %" PRIu32 " to %" PRIu32, desc->min,
					     desc->max);
		*(uint32_t *)field = (uint32_t)number;
		break;
	case TYPE_CHOICE:
		ret = parse_choice(desc, value, field, error);
		break;
	case TYPE_GUID:
		if (parse_guid(value, field))
			return option_refuse(error,
					     "must be a GUID like 0200:0000:0000:0001, not 0");
		break;
	case TYPE_STRING:
	case TYPE_NAME:
	case TYPE_DEVICES:
		ret = set_string(desc, value, field, error);
		break;
	}
	if (!ret)
		settings->given |= UINT64_C(1) << (desc - option_table);
	return ret;
}

void option_print(const struct settings *settings, const struct option_desc *desc,
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
	case TYPE_NAME:
	case TYPE_DEVICES:
		if (*(char *const *)field)
			snprintf(text, OPTIONS_TEXT, "%s", *(char *const *)field);
		break;
	}
}
