/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uthash.h>

#include "capture.h"
#include "pcapng.h"
#include "printable.h"
#include "tool.h"
#include "trace_frame.h"

#define FRAME_MOST 65536 /* with its head */
#define QPNS (1 << 24)
#define FLUSH_BYTES 65536	/* are written at a time, */
#define FLUSH_PACKETS 1024	/* and no more packets than these */
#define BUFFER (4 * FRAME_MOST) /* of the file: nothing is written but by flush_file() */

/* Who sends: an interface of the file for each. */
struct sender {
	uint32_t pid; /* 0: it is not known, or on another host */
	uint32_t interface;
	UT_hash_handle hh;
};

struct capture {
	struct capture_wishes wishes;
	FILE *file;
	struct sender *senders; /* of this file */
	int frames;
	int nowhere;		/* /dev/null */
	uint64_t written, lost; /* written: to the file, or to its buffer */
	uint64_t unwritten;	/* that were to be in the file, and are not */
	off_t bytes_in_file;	/* its buffer's among them */
	long long file_number;
	int error;		   /* why nothing is written any more; 0: it is */
	off_t flushed;		   /* bytes of the file that have left the buffer */
	off_t ends[FLUSH_PACKETS]; /* of the packets that have not, as offsets */
	unsigned int num_ends;
	uint8_t known[QPNS / 8]; /* QPs that what is wished for is sent by: answers come to them */
	uint8_t bytes[FRAME_MOST];
};

static const char *const kind_names[] = {
	[CAPTURE_SEND] = "send",     [CAPTURE_WRITE] = "write", [CAPTURE_READ] = "read",
	[CAPTURE_ATOMIC] = "atomic", [CAPTURE_ACK] = "ack",	[CAPTURE_OTHER] = "other",
};
#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

uint32_t capture_kinds(const char *names)
{
	uint32_t kinds = 0;

	while (*names) {
		size_t length = strcspn(names, ","), i = 0;

		while (i < KINDS && (strlen(kind_names[i]) != length ||
				     strncmp(kind_names[i], names, length) != 0))
			i++;
		if (i == KINDS)
			return 0;
		kinds |= 1u << i;
		names += length + (names[length] == ',');
	}
	return kinds;
}

/* The low five bits of an opcode say what, the others of which transport (IBTA vol. 1, table 38).
 */
static enum capture_kind kind_of(uint8_t opcode)
{
	switch (opcode & 0x1f) {
	case 0x00 ... 0x05:
	case 0x16:
	case 0x17:
		return CAPTURE_SEND;
	case 0x06 ... 0x0b:
		return CAPTURE_WRITE;
	case 0x0c ... 0x10:
		return CAPTURE_READ;
	case 0x11:
		return CAPTURE_ACK;
	case 0x12 ... 0x14:
		return CAPTURE_ATOMIC;
	default:
		return CAPTURE_OTHER;
	}
}

/* Of a frame of IPv4 or IPv6 with UDP, behind which the BTH begins. */
static bool is_of_kinds(const struct capture *capture, size_t length)
{
	size_t bth = 14 + ((capture->bytes[14] >> 4) == 4 ? 20 : 40) + 8;

	return length > bth && capture->wishes.kinds & 1u << kind_of(capture->bytes[bth]);
}

static bool passes(struct capture *capture, const struct trace_frame *frame)
{
	const struct capture_wishes *wishes = &capture->wishes;
	uint32_t qpn = frame->qpn % QPNS, peer = frame->peer_qpn % QPNS;

	if (wishes->qpn && frame->qpn != wishes->qpn && frame->peer_qpn != wishes->qpn)
		return false;
	if (!wishes->pid && !wishes->device)
		return true;
	if ((!wishes->pid || frame->pid == wishes->pid) &&
	    (!wishes->device || !strncmp(frame->device, wishes->device, sizeof(frame->device)))) {
		capture->known[qpn / 8] |= (uint8_t)(1 << qpn % 8);
		return true;
	}
	return capture->known[peer / 8] & 1 << peer % 8;
}

/* Those that have not left the buffer are not in the file, but for those that fit into it. */
static void give_up(struct capture *capture, int error)
{
	int fd = fileno(capture->file);
	off_t written = lseek(fd, 0, SEEK_CUR), whole = capture->flushed;
	unsigned int kept = 0;

	capture->error = error;
	if (!strcmp(capture->wishes.file, "-"))
		written = whole; /* where in somebody's file ours begins is not known */
	while (kept < capture->num_ends && capture->ends[kept] <= written)
		whole = capture->ends[kept++];
	capture->written -= capture->num_ends - kept;
	capture->unwritten += capture->num_ends - kept;
	capture->num_ends = 0;
	/* A reader finds whole packets only. What is in the buffer goes nowhere. */
	if (written > whole && ftruncate(fd, whole))
		complain("%s: ends within a packet: %s", capture->wishes.file, strerror(errno));
	dup3(capture->nowhere, fd, O_CLOEXEC);
}

static void flush_file(struct capture *capture)
{
	if (!capture->file || capture->error)
		return;
	if (fflush(capture->file)) {
		give_up(capture, errno);
		return;
	}
	capture->flushed = capture->bytes_in_file;
	capture->num_ends = 0;
}

/* Standard output stays open, for it is written to again by whoever ends this program. */
static FILE *open_stdout(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file && fd >= 0)
		close(fd);
	return file;
}

/* FILE, or one of the ring. */
static bool open_file(struct capture *capture)
{
	const struct capture_wishes *wishes = &capture->wishes;
	char name[PATH_MAX];

	if (wishes->file_size)
		snprintf(name, sizeof(name), "%s.%lld", wishes->file,
			 capture->file_number++ % wishes->files);
	else
		snprintf(name, sizeof(name), "%s", wishes->file);
	capture->file = !strcmp(name, "-") ? open_stdout() : fopen(name, "we");
	capture->flushed = 0;
	if (!capture->file) {
		capture->error = errno;
		return false;
	}
	setvbuf(capture->file, NULL, _IOFBF, BUFFER);
	capture->bytes_in_file = pcapng_begin(capture->file, "simhca " SIMHCA_VERSION);
	return true;
}

static void close_file(struct capture *capture)
{
	struct sender *sender, *next;

	flush_file(capture);
	HASH_ITER (hh, capture->senders, sender, next) {
		HASH_DEL(capture->senders, sender);
		free(sender);
	}
	if (fclose(capture->file) && !capture->error)
		capture->error = errno;
	capture->file = NULL;
}

/* The next file of the ring, if this one is long enough. */
static void go_round(struct capture *capture)
{
	if (!capture->wishes.file_size || capture->bytes_in_file < (off_t)capture->wishes.file_size
									   << 20)
		return;
	close_file(capture);
	if (!capture->error)
		open_file(capture);
}

/* The interface of who sends it. NULL: out of memory. */
static struct sender *sender_of(struct capture *capture, const struct trace_frame *frame)
{
	char name[32], description[64];
	struct sender *sender;

	HASH_FIND(hh, capture->senders, &frame->pid, sizeof(frame->pid), sender);
	if (sender)
		return sender;
	sender = calloc(1, sizeof(*sender));
	if (!sender)
		return NULL;
	sender->pid = frame->pid;
	sender->interface = HASH_COUNT(capture->senders);
	HASH_ADD(hh, capture->senders, pid, sizeof(sender->pid), sender);
	snprintf(name, sizeof(name), "%.15s[%u]", frame->comm, frame->pid);
	make_ascii(name);
	if (!frame->pid)
		strcpy(name, "others");
	snprintf(description, sizeof(description), "sent by %s",
		 frame->pid ? name : "none of this daemon's programs");
	capture->bytes_in_file += pcapng_interface(capture->file, name, description);
	return sender;
}

static void put(struct capture *capture, const struct trace_frame *frame, size_t length)
{
	const struct sender *sender = sender_of(capture, frame);

	if (!sender) {
		flush_file(capture);
		if (!capture->error)
			capture->error = ENOMEM;
		capture->unwritten++;
		return;
	}
	capture->bytes_in_file += pcapng_frame(capture->file, sender->interface, frame->time_ns,
					       capture->bytes, (uint32_t)length, frame->length);
	capture->written++;
	capture->ends[capture->num_ends++] = capture->bytes_in_file;
	if (capture->num_ends == FLUSH_PACKETS ||
	    capture->bytes_in_file - capture->flushed >= FLUSH_BYTES)
		flush_file(capture);
	go_round(capture);
}

static bool is_full(const struct capture *capture)
{
	return (capture->wishes.count && capture->written >= (uint64_t)capture->wishes.count) ||
	       capture->error;
}

/* One message. False, with errno EAGAIN: there is none yet; or 0: none will come any more. */
static bool take_one(struct capture *capture)
{
	struct trace_frame frame;
	struct iovec parts[2] = { { .iov_base = &frame, .iov_len = sizeof(frame) },
				  { .iov_base = capture->bytes, .iov_len = FRAME_MOST } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t length;

	do
		length = recvmsg(capture->frames, &message, MSG_DONTWAIT);
	while (length < 0 && errno == EINTR);
	if (length < 0 && errno == EAGAIN)
		return false;
	errno = 0;
	if (length < (ssize_t)sizeof(frame))
		return false;
	capture->lost = frame.lost;
	if (!frame.length)
		return false;
	if ((is_full(capture) && !capture->error) || !passes(capture, &frame) ||
	    (capture->wishes.kinds && !is_of_kinds(capture, (size_t)length - sizeof(frame))))
		return true;
	if (capture->error)
		capture->unwritten++;
	else
		put(capture, &frame, (size_t)length - sizeof(frame));
	return true;
}

bool capture_take(struct capture *capture)
{
	while (!is_full(capture)) {
		if (take_one(capture))
			continue;
		if (errno != EAGAIN)
			return false;
		/* Who reads along shall see what there is. */
		flush_file(capture);
		return !capture->error;
	}
	return false;
}

static void free_capture(struct capture *capture)
{
	if (capture->file)
		close_file(capture);
	if (capture->frames >= 0)
		close(capture->frames);
	if (capture->nowhere >= 0)
		close(capture->nowhere);
	free(capture);
}

struct capture *capture_open(int control, const struct capture_wishes *wishes)
{
	struct capture *capture = calloc(1, sizeof(*capture));
	char *refusal = NULL;
	json_t *answer;

	if (!capture) {
		complain("out of memory");
		return NULL;
	}
	capture->wishes = *wishes;
	capture->frames = -1;
	capture->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (capture->nowhere < 0 || !open_file(capture)) {
		complain("%s: %s", wishes->file, strerror(capture->error ? capture->error : errno));
		free_capture(capture);
		return NULL;
	}
	answer = admin_trace(control, wishes->snaplen, &capture->frames, &refusal);
	if (!answer || capture->frames < 0) {
		complain("the daemon gives no trace: %s", refusal ? refusal : strerror(errno));
		free_capture(capture);
		capture = NULL;
	}
	json_decref(answer);
	free(refusal);
	/* The head of the file says that the capture has begun. */
	if (capture)
		flush_file(capture);
	if (capture && capture->error) {
		complain("%s: %s", wishes->file, strerror(capture->error));
		free_capture(capture);
		capture = NULL;
	}
	return capture;
}

int capture_fd(const struct capture *capture)
{
	return capture->frames;
}

/* What is still on its way, up to the last message, which knows how many were lost. */
static void drain(struct capture *capture)
{
	struct pollfd frames = { .fd = capture->frames, .events = POLLIN };

	shutdown(capture->frames, SHUT_WR);
	while (poll(&frames, 1, ADMIN_TIMEOUT_MS) > 0)
		if (!take_one(capture))
			break;
}

bool capture_close(struct capture *capture)
{
	bool good;

	drain(capture);
	if (capture->file)
		close_file(capture);
	good = !capture->error;
	if (!good)
		complain("%s: %s: %llu packets could not be written", capture->wishes.file,
			 strerror(capture->error), (unsigned long long)capture->unwritten);
	complain("%llu packets, %llu lost", (unsigned long long)capture->written,
		 (unsigned long long)(capture->lost + capture->unwritten));
	free_capture(capture);
	return good;
}
