/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <paths.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show.h"
#include "tool.h"

#define HEADERS_MOST 64	  /* program headers that are looked at */
#define NOTES_MOST 4096	  /* bytes of notes */
#define GO_NOTE_NAME "Go" /* of the note with a Go program's build id */
#define GO_NOTE_TYPE 4

static const char *const names[] = {
	[SHOW_AUTO] = "auto",
	[SHOW_PRELOAD] = "preload",
	[SHOW_SECCOMP] = "seccomp",
};

bool show_parse(const char *text, enum show *show)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i])) {
			*show = (enum show)i;
			return true;
		}
	complain("--show %s: must be auto, preload or seccomp", text);
	return false;
}

/* As execvp() finds it; -1: it does not. */
static int open_command(const char *command)
{
	const char *path = getenv("PATH"), *end;
	char name[PATH_MAX];
	int fd = -1;

	if (strchr(command, '/'))
		return open(command, O_RDONLY | O_CLOEXEC);
	for (path = path ? path : _PATH_DEFPATH; fd < 0; path = end + 1) {
		end = strchrnul(path, ':');
		snprintf(name, sizeof(name), "%.*s%s%s", (int)(end - path), path,
			 end == path ? "" : "/", command);
		if (!access(name, X_OK))
			fd = open(name, O_RDONLY | O_CLOEXEC);
		if (!*end)
			break;
	}
	return fd;
}

/* A script's interpreter takes its place. False: it is none. */
static bool is_script(int fd, char interpreter[PATH_MAX])
{
	char line[PATH_MAX] = "";
	const char *name = line + 2;

	if (pread(fd, line, sizeof(line) - 1, 0) < 2 || line[0] != '#' || line[1] != '!')
		return false;
	name += strspn(name, " \t");
	snprintf(interpreter, PATH_MAX, "%.*s", (int)strcspn(name, " \t\n"), name);
	return true;
}

static bool has_go_note(int fd, const ElfW(Phdr) * header)
{
	char notes[NOTES_MOST];
	size_t at = 0, size = header->p_filesz < sizeof(notes) ? header->p_filesz : sizeof(notes);
	ElfW(Nhdr) note;

	if (pread(fd, notes, size, (off_t)header->p_offset) != (ssize_t)size)
		return false;
	while (at + sizeof(note) + sizeof(GO_NOTE_NAME) <= size) {
		memcpy(&note, notes + at, sizeof(note));
		if (note.n_type == GO_NOTE_TYPE && !strcmp(notes + at + sizeof(note), GO_NOTE_NAME))
			return true;
		if (note.n_namesz > size || note.n_descsz > size)
			return false;
		at += sizeof(note) + (note.n_namesz + 3u) / 4 * 4 + (note.n_descsz + 3u) / 4 * 4;
	}
	return false;
}

static bool is_of_glibc(int fd, const ElfW(Phdr) * header)
{
	char path[PATH_MAX] = "";
	size_t size = header->p_filesz < sizeof(path) - 1 ? header->p_filesz : sizeof(path) - 1;
	const char *slash;

	if (pread(fd, path, size, (off_t)header->p_offset) != (ssize_t)size)
		return true;
	slash = strrchr(path, '/');
	/* As ld-linux-x86-64.so.2, and ld64.so.2 elsewhere; musl's is ld-musl-x86_64.so.1. */
	return slash && (!strncmp(slash + 1, "ld-linux", strlen("ld-linux")) ||
			 !strncmp(slash + 1, "ld64", strlen("ld64")));
}

/* Of 32 bits: its libraries are others, and its system calls have other numbers. */
static bool is_of_32_bits(int fd)
{
	unsigned char ident[EI_NIDENT];

	return pread(fd, ident, sizeof(ident), 0) == sizeof(ident) &&
	       !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] == ELFCLASS32;
}

static const char *obstacle_of_elf(int fd)
{
	ElfW(Phdr) headers[HEADERS_MOST];
	ElfW(Ehdr) elf;
	const char *found = "static";
	size_t size;

	if (pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) || elf.e_phnum > HEADERS_MOST ||
	    elf.e_phentsize != sizeof(headers[0]))
		return NULL;
	size = elf.e_phnum * sizeof(headers[0]);
	if (pread(fd, headers, size, (off_t)elf.e_phoff) != (ssize_t)size)
		return NULL;
	for (int i = 0; i < elf.e_phnum; i++) {
		if (headers[i].p_type == PT_INTERP)
			found = is_of_glibc(fd, &headers[i]) ? NULL : "of another libc than glibc";
	}
	for (int i = 0; !found && i < elf.e_phnum; i++)
		if (headers[i].p_type == PT_NOTE && has_go_note(fd, &headers[i]))
			found = "a Go program";
	return found;
}

static bool has_rights(const struct stat *st)
{
	return (st->st_mode & S_ISUID && st->st_uid != getuid()) ||
	       (st->st_mode & S_ISGID && st->st_gid != getgid());
}

struct show_obstacle show_obstacle(const char *command)
{
	struct show_obstacle found = { .text = NULL };
	char interpreter[PATH_MAX];
	struct stat st;
	int fd = open_command(command);

	if (fd >= 0 && is_script(fd, interpreter)) {
		close(fd);
		fd = open(interpreter, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return found;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		found.has_rights = has_rights(&st);
		found.is_hopeless = is_of_32_bits(fd);
		found.text = found.is_hopeless	? "a 32-bit program"
			     : found.has_rights ? "set-user-ID"
						: obstacle_of_elf(fd);
	}
	close(fd);
	return found;
}
