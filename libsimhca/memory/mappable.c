/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "core/context.h"
#include "core/fabric.h"
#include "dma/bus_error.h"
#include "dma/file_kind.h"
#include "mappable.h"
#include "simhca-abi.h"

static bool may_keep_file(const struct simhca_context *context)
{
	const uint32_t most = context->device->config.kept_files;
	uint32_t all = 0, of_program = 0;
	const struct simhca_context *other;

	DL_FOREACH (context->device->contexts, other) {
		all += other->kept_files;
		if (other == context || (context->program && other->program == context->program))
			of_program += other->kept_files;
	}
	return simhca_may_have_descriptor(most, all, of_program);
}

/* The size is asked for after the seal: before that the client may have shrunk the file. */
static bool holds_for_ever(int fd, uint64_t size)
{
	struct stat file;

	return simhca_file_never_fails(fd) && !fstat(fd, &file) && size <= (uint64_t)file.st_size;
}

/* A file system of a client's could let an access to its file wait. */
static bool is_in_memory(int fd)
{
	return simhca_file_kind(fd) == SIMHCA_FILE_MEMORY && simhca_bus_errors_are_caught();
}

/*
 * An open file of our own, which shares no offset and no flags with the client's, and can be written
 * to only if the region can: the client's descriptor could be, where the device has mapped it so. Who has a
 * lease of the file is not waited for.
 */
static int open_anew(int fd, bool writable)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
}

void simhca_region_make_mappable(struct simhca_context *context, struct simhca_key *region,
				 const struct simhca_mm *owner, int fd, uint64_t offset,
				 bool borrowed, bool signals)
{
	struct simhca_fabric *fabric = context->device->fabric;
	const bool writable = region->mpt->access & SIMHCA_ACCESS_LOCAL_WRITE;
	const bool may_fail = !holds_for_ever(fd, offset + region->mpt->length);

	if (may_fail && !(signals && is_in_memory(fd)))
		return;
	if (!borrowed) {
		region->mm->by_instructions = writable;
		region->mm->may_fail = may_fail;
	}
	if (!context->device->config.fast_path || !owner || fabric->next_file == UINT32_MAX ||
	    (!borrowed && !may_keep_file(context)))
		return;
	region->file.fd = borrowed ? fd : open_anew(fd, writable);
	if (region->file.fd < 0)
		return;
	region->file.borrowed = borrowed;
	region->file.offset = offset;
	region->file.owner = owner->number;
	region->file.may_fail = may_fail;
	region->mpt->file = ++fabric->next_file;
	/* Below SIMHCA_MM_SLOTS: it is no process's address space, but the file's slot. */
	region->mpt->mm = region->mm->atomicity->slot;
	context->kept_files += !borrowed;
}

void simhca_region_forget_file(struct simhca_context *context, struct simhca_key *region)
{
	if (!region->file.owner)
		return;
	if (!region->file.borrowed) {
		context->kept_files--;
		simhca_release(context->device->fabric, NULL, 0, region->file.fd);
	}
	region->file.owner = region->mpt->file = 0;
	/* Programs see that in the table. */
	if (region->file.mapped && context->device->fabric->ops.file_gone)
		context->device->fabric->ops.file_gone(context->device->fabric->ops.arg);
	region->file.mapped = false;
}
