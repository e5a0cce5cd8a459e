/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A device tree and the least of a daemon. The device is named rxe0, unless said otherwise, so that
 * the provider for such devices, which every rdma-core has, makes libibverbs list it.
 *
 * Commands are answered with a descriptor from which "channel!" or "async event here" can be read.
 */
#ifndef FAKE_DAEMON_H
#define FAKE_DAEMON_H

#include <sys/types.h>

#define FAKE_DEVICE "rxe0"
#define FAKE_MAJOR 231
#define FAKE_MINOR 192
#define FAKE_CHANNEL_RECORD "channel!"
#define FAKE_ASYNC_RECORD "async event here"

/* Make a runtime directory. Returns its path, static. */
const char *fake_runtime_dir(void);
void fake_remove(const char *runtime_dir);

/* Write the tree, with one device, into an existing runtime directory. */
void fake_tree(const char *runtime_dir, const char *device);
void fake_write(const char *runtime_dir, const char *name, const char *text);

/* Listen and serve, in a child; ends with it when the caller's process does. */
pid_t fake_daemon_start(const char *runtime_dir);
void fake_daemon_stop(pid_t daemon);
int fake_listen(const char *runtime_dir);
void fake_serve(int listener) __attribute__((noreturn));

/* Execute this program again with a tree, and with the library preloaded if it says so. */
void fake_reexec(char **argv, const char *preload);

#endif
