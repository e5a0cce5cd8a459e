/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libsimhca: the device model. What a daemon (or a test) needs to make devices, give them
 * clients, and let them work:
 *
 *   fabric    what devices hang on: packets find their way by GID or LID
 *   engine    does the work of QPs; a thread runs it, or a test polls it
 *   device    one HCA with one port: device memory, tables of QPs and keys
 *   context   one open of a device by one client: context memory and all its objects
 *   mm        an address space that regions lie in (dma.h)
 *
 *   simhca-device.h  fabrics, engines, devices, contexts, memory
 *   simhca-verbs.h   the commands of verbs
 *   simhca-attach.h  the fast path: who may write to whose queues
 *   simhca-info.h    what tools show of objects and failures
 *   simhca-inject.h  rules of faults
 *
 * No sockets (link/wire/wire.h leaves them to its user), no libibverbs, no globals. Control
 * functions (everything here but the engine's) are called from one thread at a time per fabric;
 * engines run beside them. Each takes the command's request struct, checks it as a stranger's, and
 * fills the reply struct; it returns 0 or a negative errno, and then nothing has changed and
 * why->text says what was wrong.
 *
 * -EAGAIN is not an answer for the client: an engine works on the object at this moment. Ask
 * again a little later, with the same arguments; an object that was to be destroyed takes no new
 * work meanwhile. Control functions never wait longer than a millisecond or so. -ERESTART is no
 * answer either: a part of what takes long is done. Ask until it is done; that ends.
 */
#ifndef LIBSIMHCA_SIMHCA_H
#define LIBSIMHCA_SIMHCA_H

#include "simhca-attach.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "simhca-inject.h"
#include "simhca-verbs.h"

#endif
