/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * simhca cdi: the device for containers whose images know nothing of simhca, as a file of the
 * Container Device Interface. Container engines add what it says to a container that asks for the
 * device: here only mounts, so that whatever is started in the container has it, with any environment.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "tool.h"

#define CDI_VERSION "0.3.0" /* the oldest that has all of this */
#define CDI_KIND "simhca.dev/hca"
#define CDI_FILE "/etc/cdi/simhca.json"
#define IN_CONTAINER_RUNTIME_DIR "/run/simhca" /* where programs look by themselves */
#define COPIED_AT_ONCE (1 << 20)

static bool installs;
static const char *output, *copies;

/* In one piece: somebody may open the file at any time, and containers have the one before. */
static bool write_file(const char *path, bool (*write_to)(int fd, const void *from),
		       const void *from)
{
	char *temporary;
	bool written;
	int fd;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
		complain("out of memory");
		return false;
	}
	fd = mkostemp(temporary, O_CLOEXEC);
	written = fd >= 0 && write_to(fd, from) && !fchmod(fd, 0644) && !rename(temporary, path);
	if (!written) {
		complain("%s: %s", path, strerror(errno));
		if (fd >= 0)
			unlink(temporary);
	}
	if (fd >= 0)
		close(fd);
	free(temporary);
	return written;
}

static bool write_copy(int to, const void *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t copied = -1;

	if (from < 0)
		return false;
	do {
		copied = sendfile(to, from, NULL, COPIED_AT_ONCE);
	} while (copied > 0);
	close(from);
	return !copied;
}

/* The file that a container is to have: ours, or its copy in --copy-to. NULL after a complaint. */
static char *of_host(const char *path)
{
	char *resolved = realpath(path, NULL), *copy;
	bool copied;

	if (!resolved)
		complain("%s: %s", path, strerror(errno));
	if (!resolved || !copies)
		return resolved;
	copied = asprintf(&copy, "%s%s", copies, strrchr(path, '/')) >= 0 &&
		 write_file(copy, write_copy, resolved);
	free(resolved);
	return copied ? copy : NULL;
}

/* False: out of memory, or what is to be mounted is not there, after a complaint. */
static bool add_mount(json_t *mounts, const char *host, const char *container, bool writable)
{
	char *resolved = writable ? strdup(host) : of_host(host);
	json_t *mount;

	if (!resolved)
		return false;
	/* What it can execute comes from the files that are mounted one by one. */
	mount = json_pack("{s:s, s:s, s:[s, s, s, s]}", "hostPath", resolved, "containerPath",
			  container, "options", "bind", writable ? "rw" : "ro", "nosuid", "nodev");
	free(resolved);
	return mount && !json_array_append_new(mounts, mount);
}

/* A file of ours, by its name in the container. */
static bool add_file(json_t *mounts, const char *host, const char *directory)
{
	char container[PATH_MAX];

	snprintf(container, sizeof(container), "%s%s", directory, strrchr(host, '/'));
	return add_mount(mounts, host, container, false);
}

/*
 * The provider, and those for the libibverbs that an image may have instead of ours: it loads the one of its private
 * ABI, which loads another one if that number has several layouts (siblings.h).
 */
static bool add_providers(json_t *mounts)
{
	char *preload = find_preload(), *own = find_provider_file(), *pattern = NULL;
	bool added = preload && own && add_file(mounts, own, SIMHCA_IN_CONTAINER);
	glob_t found = { 0 };

	if (added && asprintf(&pattern, "%.*s/libsimhca-rdmav*.so",
			      (int)(strrchr(preload, '/') - preload), preload) < 0)
		added = false;
	if (added && !glob(pattern, 0, NULL, &found)) /* there need not be others */
		for (size_t i = 0; added && i < found.gl_pathc; i++)
			added = !strcmp(strrchr(found.gl_pathv[i], '/'), strrchr(own, '/')) ||
				add_file(mounts, found.gl_pathv[i], SIMHCA_IN_CONTAINER);
	globfree(&found);
	free(pattern);
	free(preload);
	free(own);
	return added;
}

static bool add_found(json_t *mounts, char *file, const char *directory)
{
	bool added = file && add_file(mounts, file, directory);

	free(file);
	return added;
}

static json_t *describe(const char *dir)
{
	json_t *mounts = json_array();

	if (add_found(mounts, find_preload(), SIMHCA_IN_CONTAINER) && add_providers(mounts) &&
	    add_found(mounts, find_container_file("ld.so.preload"), "/etc") &&
	    add_found(mounts, find_container_file("simhca.driver"), "/etc/libibverbs.d") &&
	    add_mount(mounts, dir, IN_CONTAINER_RUNTIME_DIR, true))
		return json_pack("{s:s, s:s, s:[{s:s, s:{s:o}}]}", "cdiVersion", CDI_VERSION,
				 "kind", CDI_KIND, "devices", "name", "all", "containerEdits",
				 "mounts", mounts);
	json_decref(mounts);
	return NULL;
}

static bool write_description(int fd, const void *description)
{
	return !json_dumpfd(description, fd, JSON_INDENT(2)) && write(fd, "\n", 1) == 1;
}

static bool install(const json_t *description)
{
	char directory[] = CDI_FILE;

	*strrchr(directory, '/') = '\0';
	if (mkdir(directory, 0755) && errno != EEXIST) {
		complain("%s: %s", directory, strerror(errno));
		return false;
	}
	return write_file(CDI_FILE, write_description, description);
}

static bool print(const json_t *description)
{
	json_dumpf(description, stdout, JSON_INDENT(2));
	putchar('\n');
	return flush_output();
}

/* The directory has to be there when a container starts, and be the one that the daemon uses. */
static bool prepare(const char *dir)
{
	int control = admin_connect(dir);

	if (control >= 0) {
		close(control);
		return true;
	}
	if (mkdir(dir, 0700) && errno != EEXIST) {
		complain("%s: %s", dir, strerror(errno));
		return false;
	}
	complain("no daemon runs in %s: containers have the device once there is one: simhca start",
		 dir);
	return true;
}

/* What is mounted has to be there for as long as containers are: an absolute path, and a directory. */
static bool prepare_copies(void)
{
	if (!copies)
		return true;
	if (*copies != '/') {
		complain("--copy-to %s: must be an absolute path, as the host has it", copies);
		return false;
	}
	if (mkdir(copies, 0755) && errno != EEXIST) {
		complain("--copy-to %s: %s", copies, strerror(errno));
		return false;
	}
	return true;
}

static int cdi(struct asked *asked, char **words)
{
	json_t *description = NULL;
	bool done = false;
	char *dir;

	if (installs && output) {
		complain("--output %s: --install writes to " CDI_FILE "; give one of the two",
			 output);
		return EXIT_USAGE;
	}
	dir = runtime_dir(asked->runtime_dir);
	if (dir && prepare_copies() && prepare(dir))
		description = describe(dir);
	if (description)
		done = installs ? install(description)
		       : output ? write_file(output, write_description, description)
				: print(description);
	json_decref(description);
	free(dir);
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct command_option options[] = {
	{ "install", NULL, "write it to " CDI_FILE, .kind = OPTION_FLAG, .value = &installs },
	{ "output", "FILE", "write it to FILE", .kind = OPTION_TEXT, .value = &output,
	  .completion = COMPLETE_FILE },
	{ "copy-to", "DIR", "copy our files to DIR, and have those mounted", .kind = OPTION_TEXT,
	  .value = &copies, .completion = COMPLETE_DIRECTORY },
	{ 0 },
};

const struct command cdi_subcommand = {
	.name = "cdi",
	.summary = "describe the device for podman, containerd and others",
	.usage = "[OPTION]...",
	.about = "Prints the description of the device for container engines (Container Device\n"
		 "Interface): with it in " CDI_FILE ", a container of any image has the\n"
		 "device by\n"
		 "\n"
		 "  podman run --device " CDI_KIND "=all IMAGE COMMAND\n"
		 "\n"
		 "as long as a daemon runs here in the runtime directory, as the same user: simhca "
		 "start.\n",
	.status = "0; 1 if it cannot be made or written; 2 for wrong options.",
	.options = options,
	.run = cdi,
};
