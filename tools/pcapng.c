/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stddef.h>
#include <string.h>

#include "pcapng.h"

enum block { SECTION = 0x0a0d0d0a, INTERFACE = 1, PACKET = 6 };
enum option {
	END = 0,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	SECTION_APPLICATION = 4,
	IF_RESOLUTION = 9,
};

#define BYTE_ORDER_MAGIC 0x1a2b3c4d
#define ETHERNET 1    /* LINKTYPE_ETHERNET */
#define NANOSECONDS 9 /* 10^-9 of a second */

/* Everything is padded to this. */
static uint32_t padded(size_t length)
{
	return (uint32_t)(length + 3) / 4 * 4;
}

static void put(FILE *file, const void *bytes, size_t length)
{
	static const char zero[4];

	fwrite(bytes, 1, length, file);
	fwrite(zero, 1, padded(length) - length, file);
}

static void put_option(FILE *file, enum option option, const void *value, size_t length)
{
	const uint16_t head[2] = { (uint16_t)option, (uint16_t)length };

	put(file, head, sizeof(head));
	put(file, value, length);
}

static uint32_t option_size(size_t length)
{
	return 4 + padded(length);
}

/* A block is: its type, its length, body, its length again, which counts all of that. */
static uint32_t begin(FILE *file, enum block block, uint32_t body)
{
	const uint32_t head[2] = { block, body + 12 };

	put(file, head, sizeof(head));
	return head[1];
}

static void end(FILE *file, uint32_t length)
{
	put(file, &length, sizeof(length));
}

uint32_t pcapng_begin(FILE *file, const char *application)
{
	const struct {
		uint32_t magic;
		uint16_t major, minor;
		int64_t section_length; /* -1: not known */
	} __attribute__((packed)) section = { BYTE_ORDER_MAGIC, 1, 0, -1 };
	size_t name = strlen(application);
	uint32_t length =
		begin(file, SECTION, sizeof(section) + option_size(name) + option_size(0));

	put(file, &section, sizeof(section));
	put_option(file, SECTION_APPLICATION, application, name);
	put_option(file, END, "", 0);
	end(file, length);
	return length;
}

uint32_t pcapng_interface(FILE *file, const char *name, const char *description)
{
	const struct {
		uint16_t link_type, reserved;
		uint32_t snaplen; /* 0: no limit */
	} interface = { ETHERNET, 0, 0 };
	const uint8_t resolution = NANOSECONDS;
	uint32_t length = begin(file, INTERFACE,
				sizeof(interface) + option_size(strlen(name)) +
					option_size(strlen(description)) +
					option_size(sizeof(resolution)) + option_size(0));

	put(file, &interface, sizeof(interface));
	put_option(file, IF_NAME, name, strlen(name));
	put_option(file, IF_DESCRIPTION, description, strlen(description));
	put_option(file, IF_RESOLUTION, &resolution, sizeof(resolution));
	put_option(file, END, "", 0);
	end(file, length);
	return length;
}

uint32_t pcapng_frame(FILE *file, uint32_t interface, uint64_t time_ns, const void *bytes,
		      uint32_t kept, uint32_t length)
{
	const uint32_t packet[5] = { interface, (uint32_t)(time_ns >> 32), (uint32_t)time_ns, kept,
				     length };
	uint32_t block = begin(file, PACKET, (uint32_t)sizeof(packet) + padded(kept));

	put(file, packet, sizeof(packet));
	put(file, bytes, kept);
	end(file, block);
	return block;
}
