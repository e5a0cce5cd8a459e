/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* iser_io URL INITIATOR FILE: writes the file's bytes to the logical unit, and reads them back. */
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define CHUNK (128 * BLOCK)
#define CHUNKS 16
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__,          \
				#condition, iscsi_get_error(iscsi));                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct iscsi_context *iscsi;
static unsigned char data[CHUNKS * CHUNK];

static void expect_good(struct scsi_task *task)
{
	CHECK(task && task->status == SCSI_STATUS_GOOD);
}

int main(int argc, char **argv)
{
	struct iscsi_url *url;
	struct scsi_task *task;
	FILE *file;

	CHECK(argc == 4);
	iscsi = iscsi_create_context(argv[2]);
	CHECK(iscsi);
	file = fopen(argv[3], "rb");
	CHECK(file && fread(data, 1, sizeof(data), file) == sizeof(data) && !fclose(file));
	url = iscsi_parse_full_url(iscsi, argv[1]);
	CHECK(url);
	CHECK(!iscsi_set_targetname(iscsi, url->target));
	CHECK(!iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL));
	CHECK(!iscsi_full_connect_sync(iscsi, url->portal, url->lun));
	for (unsigned int i = 0; i < CHUNKS; i++) {
		task = iscsi_write16_sync(iscsi, url->lun, i * CHUNK / BLOCK, data + i * CHUNK,
					  CHUNK, BLOCK, 0, 0, 0, 0, 0);
		expect_good(task);
		scsi_free_scsi_task(task);
	}
	for (unsigned int i = 0; i < CHUNKS; i++) {
		task = iscsi_read16_sync(iscsi, url->lun, i * CHUNK / BLOCK, CHUNK, BLOCK, 0, 0, 0,
					 0, 0);
		expect_good(task);
		CHECK(task->datain.size == CHUNK &&
		      !memcmp(task->datain.data, data + i * CHUNK, CHUNK));
		scsi_free_scsi_task(task);
	}
	CHECK(!iscsi_logout_sync(iscsi));
	iscsi_destroy_url(url);
	iscsi_destroy_context(iscsi);
	return puts("read back") < 0;
}
