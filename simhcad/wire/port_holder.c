/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/av.h"
#include "port_holder.h"
#include "base/process.h"

struct holder {
	bool found;
	unsigned long inode; /* 0: of a socket of the kernel's own */
	unsigned int uid;
};

/* The kernel prints an address as 32-bit words of this host's byte order (/proc/net/udp, udp6). */
static bool address_is(const char *text, const union simhca_gid *address)
{
	static const uint8_t any[16];
	size_t words = strlen(text) / 8;
	uint8_t raw[16];

	for (size_t i = 0; i < words && i < 4; i++) {
		char digits[9] = "";
		uint32_t word;

		memcpy(digits, text + 8 * i, 8);
		word = (uint32_t)strtoul(digits, NULL, 16);
		memcpy(raw + 4 * i, &word, sizeof(word));
	}
	if (words == 4)
		return !memcmp(raw, any, 16) || !memcmp(raw, address->raw, 16);
	return words == 1 && (!memcmp(raw, any, 4) ||
			      (simhca_gid_is_ipv4(address) && !memcmp(raw, address->raw + 12, 4)));
}

/* Looks through a table of the kernel's. */
static void find_socket(const char *table, const union simhca_gid *address, uint16_t port,
			struct holder *holder)
{
	FILE *file = fopen(table, "re");
	char line[512];

	while (file && !holder->found && fgets(line, sizeof(line), file)) {
		char text[33];
		unsigned int at, uid;
		unsigned long inode;

		if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*u %lu", text, &at,
			   &uid, &inode) == 4 &&
		    at == port && address_is(text, address))
			*holder = (struct holder){ .found = true, .inode = inode, .uid = uid };
	}
	if (file)
		fclose(file);
}

/* Whether a process has the socket open, as far as we may see that. */
static bool has_open(pid_t pid, unsigned long inode)
{
	char path[64], name[64], link[64];
	const struct dirent *entry;
	bool found = false;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	snprintf(name, sizeof(name), "socket:[%lu]", inode);
	directory = opendir(path);
	while (directory && !found && (entry = readdir(directory))) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, link, sizeof(link));

		found = length == (ssize_t)strlen(name) && !memcmp(link, name, (size_t)length);
	}
	if (directory)
		closedir(directory);
	return found;
}

/* 0: no process that we can see. */
static pid_t find_process(unsigned long inode)
{
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	pid_t found = 0;

	while (directory && !found && (entry = readdir(directory))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && has_open(pid, inode))
			found = pid;
	}
	if (directory)
		closedir(directory);
	return found;
}

void port_holder(const union simhca_gid *address, uint16_t port, char text[PORT_HOLDER_TEXT])
{
	struct holder holder = { .found = false };
	char comm[16];
	pid_t pid;

	find_socket("/proc/self/net/udp", address, port, &holder);
	find_socket("/proc/self/net/udp6", address, port, &holder);
	if (!holder.found) {
		snprintf(text, PORT_HOLDER_TEXT, "it cannot be seen who has it");
		return;
	}
	if (!holder.inode) { /* rdma_rxe, if it is loaded */
		snprintf(text, PORT_HOLDER_TEXT, "the kernel has it, as for rdma_rxe");
		return;
	}
	pid = find_process(holder.inode);
	process_name(pid, comm);
	if (pid)
		snprintf(text, PORT_HOLDER_TEXT, "%s[%d] has it", comm, (int)pid);
	else
		snprintf(text, PORT_HOLDER_TEXT, "a process of user %u has it", holder.uid);
}
