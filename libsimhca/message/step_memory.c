/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where the bytes of a message are, by its keys, and how they are copied. Keys are looked up in the
 * protection table, which only the device writes. Between two processes the kernel copies; regions that
 * this program has mapped are in step_mapped.c.
 */
#include <string.h>
#include <sys/uio.h>

#include "core/mpt.h"
#include "simhca-calls.h"
#include "step_impl.h"

/* Up to so many bytes /proc/PID/mem is faster, above process_vm_readv() and process_vm_writev(). */
#define BY_DESCRIPTOR 4096u
/* Several pieces of so many bytes in all, a datagram's header included, are put together first. */
#define SHORT_BYTES (SIMHCA_GRH_BYTES + SIMHCA_SLOT_DATA)

/* ------------------------------------------------------------------------- by its keys */

/*
 * Where the program has a region that lies in a file; NULL: nowhere yet. Few messages go there, and
 * inlined it would double the code that all the others pass.
 */
static __attribute__((noinline)) char *find_mapped(const struct simhca_step *step, uint32_t key,
						   uint32_t file, bool own)
{
	struct simhca_step_regions *regions = step->regions;

	for (uint32_t i = 0; regions && i < regions->count; i++)
		if (regions->one[i].file == file)
			return regions->one[i].base;
	if (regions) {
		regions->wanted.key = key;
		regions->wanted.own = own;
	}
	return NULL;
}

/*
 * The address of [va, va + length) in an ordinary region: in the memory of its process, or *mapped
 * here. NULL: only the device can tell.
 */
static void *translate(const struct simhca_step *step, uint32_t key, uint64_t va, uint64_t length,
		       struct simhca_step_rights rights, bool *mapped)
{
	const struct simhca_key_user user = { .pd = rights.pd };
	const struct simhca_mpt *mpt = simhca_mpt_of(step->device, key);
	uint64_t offset;
	char *base;

	/*
	 * seq_cst, after the guard was entered: either this load sees that the region is gone, or
	 * whoever deregisters it waits for the end of the step. It also acquires the other fields.
	 */
	if (!mpt || atomic_load(&mpt->state) != SIMHCA_MPT_MR ||
	    simhca_mpt_check_user(mpt, SIMHCA_MPT_MR, key, user) != SIMHCA_REASON_NONE ||
	    !rights.mm || (!mpt->file && mpt->mm != rights.mm) ||
	    simhca_mpt_check_rights(mpt, SIMHCA_MPT_MR, rights.access) != SIMHCA_REASON_NONE)
		return NULL;
	/*
	 * seq_cst, after the guard was entered: either this load sees that only the device may write
	 * to that process or file, or the atomic that needs this waits for the end of the step.
	 */
	if ((rights.access & (SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE |
			      SIMHCA_ACCESS_REMOTE_ATOMIC)) &&
	    atomic_load(&step->device->by_device[SIMHCA_MM_SLOT(mpt->mm)]))
		return NULL;
	if (simhca_mpt_check_range(mpt, va, length, &offset) != SIMHCA_REASON_NONE)
		return NULL;
	*mapped = mpt->file;
	if (!*mapped)
		return (void *)(uintptr_t)(mpt->addr + offset);
	base = find_mapped(step, key, mpt->file, rights.own);
	if (base)
		return base + offset;
	if (rights.by_file || mpt->home != rights.mm)
		return NULL;
	/* Its process has that memory as well. */
	*mapped = false;
	return (void *)(uintptr_t)(mpt->addr + offset);
}

bool simhca_step_find_sges(const struct simhca_step *step, const struct simhca_sge *sge,
			   uint32_t num_sge, uint64_t offset, uint64_t length,
			   struct simhca_step_rights rights, struct simhca_step_list *list)
{
	bool mapped = false;

	list->count = 0;
	list->mapped = false;
	for (uint32_t i = 0; i < num_sge && length; i++) {
		struct iovec *iov = &list->iov[list->count];
		uint64_t bytes;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		bytes = sge[i].length - offset;
		if (bytes > length)
			bytes = length;
		iov->iov_base =
			translate(step, sge[i].lkey, sge[i].addr + offset, bytes, rights, &mapped);
		iov->iov_len = bytes;
		/* To reach the peer's memory in two ways for one message is left to the device. */
		if (!iov->iov_base || (list->count && mapped != list->mapped && !rights.own))
			return false;
		list->mapped = mapped && (!list->count || list->mapped);
		list->count++;
		length -= bytes;
		offset = 0;
	}
	return !length;
}

int simhca_step_find_remote(const struct simhca_step *step, struct simhca_step_message *msg)
{
	const struct simhca_qpc *peer = step->peer.qpc;
	const struct simhca_step_rights rights = { peer->pd, step->peer.mm,
						   simhca_rights_for(&msg->packet), false,
						   simhca_step_is_atomic(msg) };
	enum simhca_reason reason;

	reason = simhca_request_granted(&msg->packet, peer);
	if (reason != SIMHCA_REASON_NONE)
		return reason == SIMHCA_REASON_ATOMIC_UNALIGNED ? SIMHCA_SLOW_REQUEST
								: SIMHCA_SLOW_MEMORY;
	msg->there.count = 1;
	msg->there.mapped = false;
	if (!msg->length)
		return SIMHCA_STEP_DONE;
	msg->there.iov[0].iov_len = msg->length;
	msg->there.iov[0].iov_base = translate(step, msg->wqe.rdma.rkey, msg->wqe.rdma.remote_addr,
					       msg->length, rights, &msg->there.mapped);
	return msg->there.iov[0].iov_base && (!simhca_step_is_atomic(msg) ||
					      simhca_step_may_try_atomic(step, msg))
		       ? SIMHCA_STEP_DONE
		       : SIMHCA_SLOW_MEMORY;
}

/* ------------------------------------------------------------------------------ copies */

/* Whether the address space exists: a read of less than an entry of its page map is EINVAL then. */
static bool is_there(const struct simhca_step *step)
{
	char byte;

	return simhca_call_pread(step->peer.pagemap, &byte, 1, 0) != 0;
}

/*
 * The kernel looks the peer's page up once for each piece, so short pieces are put together first, as
 * ibv_post_send() copies what is posted inline.
 */
static ssize_t write_short(const struct simhca_step *step, const struct iovec *own, int num_own,
			   off_t at)
{
	char whole[SHORT_BYTES];
	size_t bytes = 0;

	for (int i = 0; i < num_own; bytes += own[i++].iov_len)
		memcpy(whole + bytes, own[i].iov_base, own[i].iov_len);
	return simhca_call_pwrite(step->peer.memory, whole, bytes, at);
}

/* By /proc/PID/mem, which moves 0 bytes once that address space is gone. */
static ssize_t copy_small(const struct simhca_step *step, const struct iovec *own, int num_own,
			  const struct iovec *there, uint64_t bytes, bool read)
{
	off_t at = (off_t)(uintptr_t)there->iov_base;

	if (num_own == 1)
		return read ? simhca_call_pread(step->peer.memory, own->iov_base, bytes, at)
			    : simhca_call_pwrite(step->peer.memory, own->iov_base, bytes, at);
	if (!read && bytes <= SHORT_BYTES)
		return write_short(step, own, num_own, at);
	return read ? simhca_call_preadv(step->peer.memory, own, num_own, at)
		    : simhca_call_pwritev(step->peer.memory, own, num_own, at);
}

bool simhca_step_move(const struct simhca_step *step, const struct iovec *own, int num_own,
		      const struct iovec *there, int num_there, uint64_t bytes, bool read)
{
	unsigned long mine = (unsigned long)num_own, theirs = (unsigned long)num_there;
	ssize_t done;

	if (num_there == 1 && bytes <= BY_DESCRIPTOR)
		return copy_small(step, own, num_own, there, bytes, read) == (ssize_t)bytes;
	if (!is_there(step))
		return false;
	done = read ? process_vm_readv(step->peer.pid, own, mine, there, theirs, 0)
		    : process_vm_writev(step->peer.pid, own, mine, there, theirs, 0);
	/* Once more: what was read of another process, which has got the number meanwhile, does not count. */
	return done == (ssize_t)bytes && (!read || is_there(step));
}

static bool copy_list(const struct simhca_step *step, const struct simhca_step_list *own,
		      const struct simhca_step_list *there, uint64_t bytes, bool read)
{
	return there->mapped ? simhca_step_copy_mapped(step, own, there, bytes, read)
			     : simhca_step_move(step, own->iov, own->count, there->iov,
						there->count, bytes, read);
}

bool simhca_step_copy(const struct simhca_step *step, const struct simhca_step_list *own,
		      const struct simhca_step_list *there, uint64_t bytes, bool read)
{
	const struct simhca_writing *writing = read ? &step->writing : &step->peer.writing;
	bool done;

	if (__builtin_expect(!writing->there, 1))
		return copy_list(step, own, there, bytes, read);
	if (!simhca_step_writing_begin(writing))
		return false;
	done = copy_list(step, own, there, bytes, read);
	simhca_writing_end(writing);
	return done;
}
