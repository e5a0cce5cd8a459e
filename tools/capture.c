/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "capture.h"
#include "tool.h"
#include "trace.h"

#define FRAME_MOST 65536     /* with its head */
#define ETHERNET_FRAME 16384 /* bytes; none is longer */
#define QPNS (1 << 24)

struct capture {
	struct capture_wishes wishes;
	pcap_t *pcap;
	pcap_dumper_t *dumper;
	int frames;
	uint64_t written, lost;
	uint8_t known[QPNS / 8]; /* QPs that wishes.pid sends by: answers to it come to them */
	u_char bytes[FRAME_MOST];
};

static bool passes(struct capture *capture, const struct trace_frame *frame)
{
	const struct capture_wishes *wishes = &capture->wishes;
	uint32_t qpn = frame->qpn % QPNS, peer = frame->peer_qpn % QPNS;

	if (wishes->qpn && frame->qpn != wishes->qpn && frame->peer_qpn != wishes->qpn)
		return false;
	if (!wishes->pid)
		return true;
	if (frame->pid == wishes->pid) {
		capture->known[qpn / 8] |= (uint8_t)(1 << qpn % 8);
		return true;
	}
	return capture->known[peer / 8] & 1 << peer % 8;
}

static void put(struct capture *capture, const struct trace_frame *frame, size_t length)
{
	struct pcap_pkthdr header = {
		/* The file's fractions are nanoseconds, whatever the field is called. */
		.ts = { .tv_sec = (time_t)(frame->time_ns / 1000000000u),
			.tv_usec = (suseconds_t)(frame->time_ns % 1000000000u) },
		.caplen = (bpf_u_int32)length,
		.len = frame->length,
	};

	pcap_dump((u_char *)capture->dumper, &header, capture->bytes);
	capture->written++;
}

static bool is_full(const struct capture *capture)
{
	return (capture->wishes.count && capture->written >= (uint64_t)capture->wishes.count) ||
	       ferror(pcap_dump_file(capture->dumper));
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
	if (!is_full(capture) && passes(capture, &frame))
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
		pcap_dump_flush(capture->dumper);
		return true;
	}
	return false;
}

static bool open_file(struct capture *capture)
{
	const char *file = capture->wishes.file;

	capture->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, ETHERNET_FRAME,
							     PCAP_TSTAMP_PRECISION_NANO);
	if (capture->pcap)
		capture->dumper = pcap_dump_open(capture->pcap, file);
	if (capture->dumper)
		return true;
	complain("%s: %s", file, capture->pcap ? pcap_geterr(capture->pcap) : "out of memory");
	return false;
}

static void free_capture(struct capture *capture)
{
	if (capture->dumper)
		pcap_dump_close(capture->dumper);
	if (capture->pcap)
		pcap_close(capture->pcap);
	if (capture->frames >= 0)
		close(capture->frames);
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
	if (!open_file(capture)) {
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
		pcap_dump_flush(capture->dumper);
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
	good = !pcap_dump_flush(capture->dumper) && !ferror(pcap_dump_file(capture->dumper));
	if (!good)
		complain("%s: not all could be written", capture->wishes.file);
	complain("%llu packets, %llu lost", (unsigned long long)capture->written,
		 (unsigned long long)capture->lost);
	free_capture(capture);
	return good;
}
