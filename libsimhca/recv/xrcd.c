/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC domains (IBTA vol. 1, annex A14): the SRQs that a target QP may deliver to. Processes share
 * one by opening it with the same file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/context.h"
#include "core/fabric.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "xrc.h"

/* Which inode it is, without asking its file system, which a client may be the server of. */
static int identify(int file, uint64_t *dev, uint64_t *ino, struct simhca_why *why)
{
	struct statx about;

	if (statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &about))
		return simhca_why(why, errno, "the file of the XRC domain: %s", strerror(errno));
	/* All eventfds, for one, share an inode; then any two of them would be one domain. */
	if (!(about.stx_mode & S_IFMT))
		return simhca_why(why, EINVAL,
				  "an XRC domain needs a file with an inode of its own");
	*dev = makedev(about.stx_dev_major, about.stx_dev_minor);
	*ino = about.stx_ino;
	return 0;
}

static struct simhca_xrcd *find(const struct simhca_device *device, uint64_t dev, uint64_t ino)
{
	struct simhca_xrcd *xrcd = device->xrcds;

	while (xrcd && (xrcd->file < 0 || xrcd->dev != dev || xrcd->ino != ino))
		xrcd = xrcd->next;
	return xrcd;
}

/* Takes the file on success. */
static struct simhca_xrcd *create(struct simhca_device *device, int file, uint64_t dev,
				  uint64_t ino)
{
	struct simhca_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return NULL;
	xrcd->number = simhca_number_alloc(&device->xrcdns);
	xrcd->file = file;
	xrcd->dev = dev;
	xrcd->ino = ino;
	xrcd->next = device->xrcds;
	device->xrcds = xrcd;
	return xrcd;
}

static void release(struct simhca_device *device, struct simhca_xrcd *xrcd)
{
	struct simhca_xrcd **link = &device->xrcds;

	if (xrcd->opens)
		return;
	while (*link != xrcd)
		link = &(*link)->next;
	*link = xrcd->next;
	simhca_number_release(&device->xrcdns, xrcd->number);
	simhca_release(device->fabric, NULL, 0, xrcd->file);
	free(xrcd);
}

/* The domain that a request means, made if need be; *file is -1 afterwards if it was taken. */
static int find_or_create(struct simhca_device *device, const struct simhca_open_xrcd_req *req,
			  int *file, struct simhca_xrcd **xrcd, struct simhca_why *why)
{
	uint64_t dev = 0, ino = 0;
	int ret;

	*xrcd = NULL;
	if (*file >= 0) {
		ret = identify(*file, &dev, &ino, why);
		if (ret)
			return ret;
		*xrcd = find(device, dev, ino);
		if (!*xrcd && !(req->flags & SIMHCA_XRCD_CREATE))
			return simhca_why(why, ENOENT,
					  "no XRC domain of this file is open, and O_CREAT is not "
					  "given");
		if (*xrcd && (req->flags & SIMHCA_XRCD_EXCLUSIVE))
			return simhca_why(
				why, EINVAL,
				"an XRC domain of this file is open, and O_EXCL is given");
	}
	if (*xrcd)
		return 0;
	*xrcd = create(device, *file, dev, ino);
	if (!*xrcd)
		return simhca_why(why, ENOMEM, "out of memory");
	*file = -1;
	return 0;
}

static int open_xrcd(struct simhca_context *context, const struct simhca_open_xrcd_req *req,
		     int *file, struct simhca_handle *reply, struct simhca_why *why)
{
	struct simhca_xrcd_open *open;
	int ret;

	if (req->flags & ~(uint32_t)(SIMHCA_XRCD_CREATE | SIMHCA_XRCD_EXCLUSIVE))
		return simhca_why(why, EINVAL, "XRC domain flags 0x%x are not known", req->flags);
	if (!req->has_fd != (*file < 0))
		return simhca_why(why, EINVAL, "has_fd = %u does not fit the descriptors that came",
				  req->has_fd);
	open = calloc(1, sizeof(*open));
	if (!open)
		return simhca_why(why, ENOMEM, "out of memory");
	ret = find_or_create(context->device, req, file, &open->xrcd, why);
	if (!ret) {
		ret = simhca_object_add(context, SIMHCA_OBJ_XRCD, open, &reply->handle, why);
		if (ret)
			release(context->device, open->xrcd);
		else
			open->xrcd->opens++;
	}
	if (ret)
		free(open);
	return ret;
}

int simhca_open_xrcd(struct simhca_context *context, const struct simhca_open_xrcd_req *req,
		     int file, struct simhca_handle *reply, struct simhca_why *why)
{
	int ret = open_xrcd(context, req, &file, reply, why);

	simhca_release(context->device->fabric, NULL, 0, file);
	return ret;
}

int simhca_close_xrcd(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_xrcd_open *open = simhca_object(context, SIMHCA_OBJ_XRCD, handle, why);

	if (!open)
		return -ENOENT;
	if (open->users)
		return simhca_why(why, EBUSY,
				  "this domain is still used by %u of this context's SRQs and QPs",
				  open->users);
	simhca_object_remove(context, SIMHCA_OBJ_XRCD, handle);
	open->xrcd->opens--;
	release(context->device, open->xrcd);
	free(open);
	return 0;
}
