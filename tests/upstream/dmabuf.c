/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Preloaded under rdma-core's tests: what they ask of their dma-buf allocator, which wants a GPU,
 * done with memfds. The names and their arguments are those that pyverbs calls.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct dmabuf {
	int fd;
};

struct dmabuf *dmabuf_alloc(unsigned long size, int gpu, int gtt);
void dmabuf_free(struct dmabuf *dmabuf);
int dmabuf_get_drm_fd(struct dmabuf *dmabuf);
int dmabuf_get_fd(struct dmabuf *dmabuf);
unsigned long dmabuf_get_offset(struct dmabuf *dmabuf);

struct dmabuf *dmabuf_alloc(unsigned long size, int gpu, int gtt)
{
	struct dmabuf *dmabuf = malloc(sizeof(*dmabuf));

	(void)gpu;
	(void)gtt;
	if (!dmabuf)
		return NULL;
	dmabuf->fd = memfd_create("dmabuf", MFD_CLOEXEC);
	if (dmabuf->fd >= 0 && !ftruncate(dmabuf->fd, (off_t)size))
		return dmabuf;
	if (dmabuf->fd >= 0)
		close(dmabuf->fd);
	free(dmabuf);
	return NULL;
}

void dmabuf_free(struct dmabuf *dmabuf)
{
	close(dmabuf->fd);
	free(dmabuf);
}

/* By which the tests map it, at the offset that follows. */
int dmabuf_get_drm_fd(struct dmabuf *dmabuf)
{
	return dmabuf->fd;
}

int dmabuf_get_fd(struct dmabuf *dmabuf)
{
	return dmabuf->fd;
}

unsigned long dmabuf_get_offset(struct dmabuf *dmabuf)
{
	(void)dmabuf;
	return 0;
}
