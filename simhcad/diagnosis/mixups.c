/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <byteswap.h>
#include <stdarg.h>
#include <stdio.h>
#include <utlist.h>

#include "failures/failed.h"
#include "failures/failures.h"
#include "mixups.h"
#include "session/daemon.h"
#include "session/session.h"

#define FAILURES_MOST 32    /* that one call looks at */
#define OBJECTS_MOST 16384u /* likewise, and sessions: about a millisecond */

struct search {
	const struct daemon *daemon;
	unsigned int objects_left;
	char text[FAILED_TEXT];
};

static bool __attribute__((format(printf, 2, 3)))
found(struct search *search, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(search->text, sizeof(search->text), format, arguments);
	va_end(arguments);
	return true;
}

/* ------------------------------------------------------------------------- what programs have */

/* NULL: it has gone, or is about to. */
static const struct session *session_with(const struct search *search, uint32_t context)
{
	const struct session *session = session_of(search->daemon, context);

	return session && session_is_whole(session) ? session : NULL;
}

typedef bool region_test(const struct simhca_mr_info *mr, uint64_t number);

static bool has_key(const struct simhca_mr_info *mr, uint64_t key)
{
	return mr->key == key;
}

static bool has_address(const struct simhca_mr_info *mr, uint64_t va)
{
	return va >= mr->attr.iova && va - mr->attr.iova < mr->attr.length;
}

/* A region of the session's for which the test is true of that number. */
static bool find_region(struct search *search, const struct session *session, region_test *test,
			uint64_t number, struct simhca_mr_info *mr)
{
	uint32_t handle = 0;

	for (; session && search->objects_left && simhca_next_mr(session->context, &handle, mr);
	     handle++) {
		search->objects_left--;
		if (test(mr, number))
			return true;
	}
	return false;
}

/* Whose key it is, on that device; NULL: nobody's. */
static const struct session *owner_of_key(struct search *search, const struct device *device,
					  uint32_t key, struct simhca_mr_info *mr)
{
	const struct session *session;

	DL_FOREACH (device->sessions, session) {
		if (!search->objects_left)
			break;
		search->objects_left--;
		if (session_is_whole(session) && find_region(search, session, has_key, key, mr))
			return session;
	}
	return NULL;
}

/*
 * Whether that program has a region of that key, in which the address is, on another device than the
 * QP's: keys of one device mean nothing to another one, or something else.
 */
static bool of_another_device(struct search *search, const struct failures_access *access,
			      const struct session *program, const char *whose)
{
	const struct daemon *daemon = search->daemon;
	const struct session *session;
	struct simhca_mr_info mr;

	for (unsigned int i = 0; program && i < daemon->num_devices; i++) {
		const struct device *device = &daemon->devices[i];

		if (device == program->device)
			continue;
		DL_FOREACH (device->sessions, session)
			if (session->pid == program->pid && session_is_whole(session) &&
			    find_region(search, session, has_key, access->key, &mr) &&
			    has_address(&mr, access->va))
				return found(
					search,
					"key 0x%x is of %s MR on device %s, and the QP is on %s: "
					"register the buffer in a PD of the QP's device",
					access->key, whose, device->options->name,
					program->device->options->name);
	}
	return false;
}

/*
 * Whether the key is that of a region which a program has registered by another ibv_context, as one
 * does that opens the device twice.
 */
static bool of_another_context(struct search *search, const struct failures_access *access,
			       const struct session *owner, const struct session *program,
			       const char *whose)
{
	return program && owner->pid == program->pid &&
	       found(search,
		     "key 0x%x is of %s MR of another ibv_context of the device, which was opened "
		     "twice: register the buffer in the QP's PD",
		     access->key, whose);
}

static bool is_qp_of(struct search *search, const struct device *device, uint32_t qpn)
{
	const struct session *session;
	struct simhca_qp_info info;

	DL_FOREACH (device->sessions, session) {
		uint32_t handle = 0;

		if (!search->objects_left)
			break;
		search->objects_left--;
		for (; session_is_whole(session) && search->objects_left &&
		       simhca_next_qp(session->context, &handle, &info);
		     handle++) {
			search->objects_left--;
			if (info.qpn == qpn)
				return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------------------------------ mix-ups */

/* The key of a remote access, which its responder refused. */
static bool remote_key(struct search *search, const struct failures_access *access,
		       const struct session *sender, const struct session *responder)
{
	const struct session *owner;
	struct simhca_mr_info mr;

	if (!access->key)
		return found(search, "the rkey is 0: it was not set, or not exchanged yet%s",
			     access->is_atomic ? "; of an atomic it is wr.atomic.rkey, and not "
						 "wr.rdma.rkey"
					       : "");
	if (access->is_null_mr)
		return found(
			search,
			"key 0x%x is that of a null MR of the peer's, which is for SGEs of its "
			"own program: no peer can read or write there",
			access->key);
	if (sender != responder && find_region(search, sender, has_key, access->key, &mr))
		return found(search,
			     "key 0x%x is the sender's own, of its MR of %llu bytes at 0x%llx: the "
			     "rkey to use is the one that the peer has registered",
			     access->key, (unsigned long long)mr.attr.length,
			     (unsigned long long)mr.attr.addr);
	if (find_region(search, responder, has_key, bswap_32(access->key), &mr))
		return found(search,
			     "key 0x%x is the peer's 0x%x with its bytes reversed: convert it once "
			     "with htonl() and once with ntohl(), or not at all",
			     access->key, mr.key);
	if (of_another_device(search, access, responder, "the peer's"))
		return true;
	owner = owner_of_key(search, responder->device, access->key, &mr);
	if (owner && owner != responder)
		return of_another_context(search, access, owner, responder, "the peer's") ||
		       of_another_context(search, access, owner, sender, "the sender's own") ||
		       found(search,
			     "key 0x%x is of %s[%d], a third program, and not of the peer that the "
			     "QP is connected to",
			     access->key, owner->comm, (int)owner->pid);
	return false;
}

/* Whether the access begins within the region, and so is only too long. */
static bool is_within(const struct failures_access *access)
{
	return access->va >= access->entry_iova &&
	       access->va - access->entry_iova < access->entry_length;
}

/*
 * The address of the memory, of a region whose first byte has another one: IBV_ACCESS_ZERO_BASED, or
 * ibv_reg_mr_iova().
 */
static bool memory_address(struct search *search, const struct failures_access *access,
			   const struct session *program)
{
	struct simhca_mr_info mr;

	return find_region(search, program, has_key, access->key, &mr) &&
	       mr.attr.addr != mr.attr.iova && access->va >= mr.attr.addr &&
	       access->va - mr.attr.addr < mr.attr.length &&
	       found(search,
		     "address 0x%llx is where the memory of this MR lies, which was registered %s: "
		     "its first byte is addressed as 0x%llx",
		     (unsigned long long)access->va,
		     mr.attr.iova ? "by ibv_reg_mr_iova()" : "with IBV_ACCESS_ZERO_BASED",
		     (unsigned long long)mr.attr.iova);
}

/* How far from a region an address is, at which nobody has miscounted. */
#define ELSEWHERE (64u * 1024)

static bool is_elsewhere(const struct failures_access *access)
{
	const uint64_t end = access->entry_iova + access->entry_length;

	if (is_within(access))
		return false;
	return access->va < access->entry_iova ? access->entry_iova - access->va > ELSEWHERE
					       : access->va - end > ELSEWHERE;
}

/* The address of some memory, where the region takes offsets. */
static bool no_offset(struct search *search, const struct failures_access *access)
{
	return !access->entry_iova && is_elsewhere(access) &&
	       found(search,
		     "address 0x%llx is no offset, and the region takes offsets: its first byte is "
		     "addressed as 0x0",
		     (unsigned long long)access->va);
}

/* The address of a remote access by a good key. */
static bool remote_address(struct search *search, const struct failures_access *access,
			   const struct session *sender, const struct session *responder)
{
	uint64_t reversed = bswap_64(access->va);
	struct simhca_mr_info mr;

	if (memory_address(search, access, responder) ||
	    of_another_device(search, access, responder, "the peer's"))
		return true;
	/*
	 * It is only too long. Offsets of one end are offsets of the other as well, and a child has
	 * its buffers where its parent has them.
	 */
	if (is_within(access))
		return false;
	if (sender != responder && find_region(search, sender, has_address, access->va, &mr))
		return found(search,
			     "address 0x%llx is the sender's own, in its MR with key 0x%x: the "
			     "address to use is the one that the peer has registered",
			     (unsigned long long)access->va, mr.key);
	if (reversed >= access->entry_iova && reversed - access->entry_iova < access->entry_length)
		return found(search,
			     "address 0x%llx is 0x%llx with its bytes reversed: convert it once "
			     "with htobe64() and once with be64toh(), or not at all",
			     (unsigned long long)access->va, (unsigned long long)reversed);
	if (access->entry_iova && access->va < access->entry_length)
		return found(search,
			     "address 0x%llx looks like an offset: the region begins at 0x%llx, "
			     "and offsets are for IBV_ACCESS_ZERO_BASED",
			     (unsigned long long)access->va,
			     (unsigned long long)access->entry_iova);
	if (find_region(search, responder, has_address, access->va, &mr) && mr.key != access->key)
		return found(search,
			     "address 0x%llx is in another MR of the peer's, whose key is 0x%x: "
			     "send both of one region",
			     (unsigned long long)access->va, mr.key);
	return no_offset(search, access);
}

/* The lkey of a work request. */
static bool local_key(struct search *search, const struct failures_access *access,
		      const struct session *program)
{
	const struct session *owner;
	struct simhca_mr_info mr;

	if (!access->key)
		return found(search, "the lkey of the SGE is 0: it was not set");
	if (find_region(search, program, has_key, bswap_32(access->key), &mr))
		return found(search,
			     "lkey 0x%x is 0x%x with its bytes reversed: use it as it is, without "
			     "htonl()",
			     access->key, mr.key);
	if (of_another_device(search, access, program, "the program's"))
		return true;
	owner = owner_of_key(search, program->device, access->key, &mr);
	if (owner && owner != program)
		return of_another_context(search, access, owner, program, "the program's") ||
		       found(search,
			     "lkey 0x%x is of %s[%d]: an SGE takes the lkey of a region that its "
			     "own program has registered",
			     access->key, owner->comm, (int)owner->pid);
	return false;
}

/* The address of an SGE with a good lkey. */
static bool local_address(struct search *search, const struct failures_access *access,
			  const struct session *program)
{
	struct simhca_mr_info mr;

	if (memory_address(search, access, program) ||
	    of_another_device(search, access, program, "the program's"))
		return true;
	if (is_within(access))
		return false;
	if (!access->va && access->entry_iova)
		return found(search, "the address of the SGE is 0: it was not set");
	if (find_region(search, program, has_address, access->va, &mr))
		return mr.key != access->key &&
		       found(search,
			     "address 0x%llx is in another MR of the program's, whose lkey is "
			     "0x%x: use both of one region",
			     (unsigned long long)access->va, mr.key);
	return no_offset(search, access) ||
	       (is_elsewhere(access) && search->objects_left &&
		found(search,
		      "address 0x%llx is in none of the program's MRs: register the buffer that it "
		      "is of, or use one that was registered",
		      (unsigned long long)access->va));
}

/* Where a request went, and nobody answered. */
static bool destination(struct search *search, const struct failures_access *access,
			const struct session *sender)
{
	uint32_t reversed = bswap_32(access->peer_qpn) >> 8; /* a QP number has 24 bits */

	if (!access->peer_qpn)
		return found(search,
			     "the QP number is 0, which is the port's own: it was not set, or not "
			     "exchanged yet%s",
			     access->is_connected ? "; with rdma_cm the peer has connected or "
						    "accepted before rdma_create_qp()"
						  : "");
	return reversed != access->peer_qpn && is_qp_of(search, sender->device, reversed) &&
	       found(search,
		     "QP number 0x%06x is 0x%06x with its bytes reversed: convert it once with "
		     "htonl() and once with ntohl(), or not at all",
		     access->peer_qpn, reversed);
}

static bool look_at(struct search *search, const struct failures_access *access)
{
	const struct session *own = session_with(search, access->context);

	if (access->is_connected && access->qpn == access->peer_qpn)
		return found(search,
			     "the QP is connected to itself: dest_qp_num is its own number, "
			     "0x%06x: exchange the numbers",
			     access->qpn);
	if (!own)
		return false;
	if (access->is_unanswered)
		return destination(search, access, own);
	if (!access->has_key)
		return false;
	if (!access->is_remote)
		return access->is_out_of_range ? local_address(search, access, own)
					       : local_key(search, access, own);
	if (access->is_out_of_range)
		return remote_address(search, access, session_with(search, access->sender), own);
	return remote_key(search, access, session_with(search, access->sender), own);
}

void mixups_find(const struct daemon *daemon)
{
	struct failures_access accesses[FAILURES_MOST];
	unsigned int count = failures_accesses(daemon->failures, accesses, FAILURES_MOST);
	struct search search = { .daemon = daemon, .objects_left = OBJECTS_MOST };

	for (unsigned int i = 0; i < count; i++)
		if (look_at(&search, &accesses[i]))
			failures_looks_like(daemon->failures, accesses[i].id, search.text);
}
