/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "device.h"
#include "fabric.h"
#include "lock.h"
#include "qp_log.h"
#include "simhca-clock.h"
#include "simhca-device.h"

#define NS_PER_LINE (1000000000u / SIMHCA_LOG_SHARE_PER_S)

void simhca_log_share_init(struct simhca_log_share *share)
{
	simhca_mutex_init(&share->lock, SIMHCA_LOCK_LOG);
	share->lines = SIMHCA_LOG_SHARE;
	share->left_out = 0;
	share->grown_ns = simhca_now_ns();
}

struct simhca_log_share *simhca_log_share_new(void)
{
	struct simhca_log_share *share = calloc(1, sizeof(*share));

	if (share) {
		simhca_log_share_init(share);
		share->users = 1;
	}
	return share;
}

void simhca_log_share_put(struct simhca_log_share *share)
{
	if (!share || --share->users)
		return;
	pthread_mutex_destroy(&share->lock);
	free(share);
}

/* Whether there is a line left; *left_out is how many there were not since the last one. */
static bool take_line(struct simhca_log_share *share, uint32_t *left_out)
{
	uint64_t grown;
	bool taken;

	*left_out = 0;
	pthread_mutex_lock(&share->lock);
	grown = (simhca_now_ns() - share->grown_ns) / NS_PER_LINE;
	share->grown_ns += grown * NS_PER_LINE;
	share->lines = grown > SIMHCA_LOG_SHARE - share->lines ? SIMHCA_LOG_SHARE
							       : share->lines + (uint32_t)grown;
	taken = share->lines;
	if (taken) {
		share->lines--;
		*left_out = share->left_out;
		share->left_out = 0;
	} else {
		share->left_out++;
	}
	pthread_mutex_unlock(&share->lock);
	return taken;
}

void simhca_log_of_qp(struct simhca_device *device, struct simhca_context *context, uint32_t qpn,
		      const char *format, ...)
{
	struct simhca_fabric *fabric = device->fabric;
	char line[256];
	uint32_t left_out;
	va_list args;
	int length;

	if (!take_line(context ? context->log_share : &device->log_share, &left_out))
		return;
	if (left_out && context)
		simhca_log(fabric, SIMHCA_LOG_INFO,
			   "context %u, or others of its program: %u lines were left out here",
			   context->id, left_out);
	else if (left_out)
		simhca_log(fabric, SIMHCA_LOG_INFO, "XRC targets: %u lines were left out here",
			   left_out);
	length = snprintf(line, sizeof(line), "QP 0x%06x", qpn);
	va_start(args, format);
	vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
	va_end(args);
	simhca_log(fabric, SIMHCA_LOG_INFO, "%s", line);
}
