/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions that programs on the fast path map, to reach them by plain copies: on-chip memory, and
 * regions of memfds that cannot shrink. A file that can makes a signal of an access to what it
 * has lost (dma/bus_error.h): such are mapped if the operator wants that.
 *
 * The protection table has a number for each, which no other region ever has. Whoever has mapped
 * a region knows it by that, and looks for it at each access.
 */
#ifndef LIBSIMHCA_MAPPABLE_H
#define LIBSIMHCA_MAPPABLE_H

#include "key.h"

/*
 * Lets programs map a region of a file, which is not published yet. It stays one that they do not map
 * if the fast path is off, if the device has no descriptor left for it, or unless `signals` if an access to the
 * file may be a signal (simhca_file_never_fails()).
 *
 * owner: the memory of the process that registers the region; NULL: that is not known, and nobody
 * may map it. offset: of the region's first byte in the file. borrowed: fd is somebody else's, who
 * keeps it open as long as the region exists; otherwise the region opens the file once more.
 */
void simhca_region_make_mappable(struct simhca_context *context, struct simhca_key *region,
				 const struct simhca_mm *owner, int fd, uint64_t offset,
				 bool borrowed, bool signals);
/* The region is out of use. */
void simhca_region_forget_file(struct simhca_context *context, struct simhca_key *region);

#endif
