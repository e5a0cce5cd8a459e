/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Copies to and from regions of the peer's that this program has mapped (MAP_REGION): plain loads and stores.
 *
 * A NIC writes a message from its first byte to its last, and programs look at the last word of it to
 * see that all is there. memcpy() promises no order. So the last aligned word of what is written
 * comes last, and whole; messages come one after the other.
 */
#include <string.h>
#include <unistd.h>

#include "dma/bus_error.h"
#include "simhca-madvise.h"
#include "step_impl.h"

#define WORD 8u /* bytes */

/* Longer messages are copied only when the kernel says that the program's own memory is there. */
#define LONG_BYTES 4096u

typedef uint64_t __attribute__((may_alias)) word64;
typedef uint32_t __attribute__((may_alias)) word32;
typedef uint16_t __attribute__((may_alias)) word16;

/* A place in a list. */
struct cursor {
	const struct iovec *iov;
	size_t done; /* bytes of it */
};

/* How much lies there in one piece, and where. */
static char *piece(struct cursor *at, size_t *bytes)
{
	while (at->done == at->iov->iov_len) {
		at->iov++;
		at->done = 0;
	}
	*bytes = at->iov->iov_len - at->done;
	return (char *)at->iov->iov_base + at->done;
}

static void copy_some(struct cursor *to, struct cursor *from, size_t bytes)
{
	while (bytes) {
		size_t room, left, n;
		char *target = piece(to, &room);
		const char *source = piece(from, &left);

		n = room < left ? room : left;
		n = n < bytes ? n : bytes;
		memcpy(target, source, n);
		to->done += n;
		from->done += n;
		bytes -= n;
	}
}

/* At most a word, by as few stores as its alignment allows, each after what was stored before. */
SIMHCA_NOT_INSTRUMENTED static void store_last(char *to, const char *from, size_t bytes)
{
	while (bytes) {
		size_t n = WORD;

		while (n > bytes || (uintptr_t)to % n)
			n /= 2;
		/* release: all bytes before these are there. */
		SIMHCA_TSAN_RELEASE(to);
		if (n == sizeof(word64)) {
			word64 value;

			memcpy(&value, from, sizeof(value));
			__atomic_store_n((word64 *)(void *)to, value, __ATOMIC_RELEASE);
		} else if (n == sizeof(word32)) {
			word32 value;

			memcpy(&value, from, sizeof(value));
			__atomic_store_n((word32 *)(void *)to, value, __ATOMIC_RELEASE);
		} else if (n == sizeof(word16)) {
			word16 value;

			memcpy(&value, from, sizeof(value));
			__atomic_store_n((word16 *)(void *)to, value, __ATOMIC_RELEASE);
		} else {
			__atomic_store_n(to, *from, __ATOMIC_RELEASE);
		}
		to += n;
		from += n;
		bytes -= n;
	}
}

/* How many bytes at the end of a list, which holds so many, are its last word, or part of one. */
static size_t last_word(const struct iovec *iov, int count, uint64_t bytes)
{
	const struct iovec *last = &iov[count - 1];
	size_t n = ((uintptr_t)last->iov_base + last->iov_len) % WORD;

	n = n ? n : WORD;
	n = n < last->iov_len ? n : last->iov_len;
	return n < bytes ? n : (size_t)bytes;
}

/*
 * A page of the program's own that it has unmapped, or made inaccessible, would be a signal; to the
 * device it is an error completion, or none at all. Short messages are copied as what is posted
 * inline is, with no question.
 */
static bool own_memory_is_there(const struct simhca_step_list *own, uint64_t bytes, bool written)
{
	uintptr_t page;

	if (own->mapped || bytes <= LONG_BYTES)
		return true;
	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	for (int i = 0; i < own->count; i++) {
		const uintptr_t from = (uintptr_t)own->iov[i].iov_base & ~(page - 1);
		const uintptr_t to = (uintptr_t)own->iov[i].iov_base + own->iov[i].iov_len;

		if (madvise((void *)from, to - from,
			    written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
			return false;
	}
	return true;
}

struct copy {
	const struct simhca_step_list *own, *there;
	uint64_t bytes;
	bool read;
};

static void copy(void *arg)
{
	const struct copy *copy = arg;
	const struct simhca_step_list *target = copy->read ? copy->own : copy->there;
	const struct simhca_step_list *source = copy->read ? copy->there : copy->own;
	struct cursor to = { .iov = target->iov }, from = { .iov = source->iov };
	const size_t tail = last_word(target->iov, target->count, copy->bytes);
	char word[WORD];
	struct cursor gathered = { .iov = &(struct iovec){ word, tail } };
	size_t room;

	simhca_store();
	/* release: the messages before are there first. On x86 this only keeps the compiler from moving them. */
	atomic_thread_fence(memory_order_release);
	copy_some(&to, &from, copy->bytes - tail);
	copy_some(&gathered, &from, tail);
	simhca_store();
	store_last(piece(&to, &room), word, tail);
	/* acquire: what is read later is read after this. */
	atomic_thread_fence(memory_order_acquire);
}

bool simhca_step_copy_mapped(const struct simhca_step *step, const struct simhca_step_list *own,
			     const struct simhca_step_list *there, uint64_t bytes, bool read)
{
	struct copy all = { own, there, bytes, read };
	const struct simhca_guarded access = {
		copy, &all, { { own->iov, own->count }, { there->iov, there->count } }
	};

	if (!own_memory_is_there(own, bytes, read))
		return false;
	if (step->regions->may_fail)
		return simhca_guard_access(&access);
	copy(&all);
	return true;
}
