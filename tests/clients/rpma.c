/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * librpma: a server that shows some memory, and a client that writes to it, flushes, and reads it
 * back. The server looks at what is there after the client has disconnected.
 *
 *	rpma server PORT	says "listens", then "written"
 *	rpma client PORT	says "read back"
 */
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ADDRESS "127.0.0.1"
#define SIZE 100000
#define CHUNKS 8
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct rpma_peer *peer;
static struct rpma_mr_local *mr;
static uint8_t *memory;

static void say(const char *text)
{
	CHECK(puts(text) >= 0 && !fflush(stdout));
}

static void open_device(enum rpma_util_ibv_context_type type, int usage)
{
	struct ibv_context *context;

	CHECK(!rpma_utils_get_ibv_context(ADDRESS, type, &context));
	CHECK(!rpma_peer_new(context, &peer));
	memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(!rpma_mr_reg(peer, memory, 2 * SIZE, usage, &mr));
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251 + 1);
}

static void expect_pattern(const uint8_t *bytes)
{
	for (size_t i = 0; i < SIZE; i++)
		CHECK(bytes[i] == pattern(i));
}

static void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;

	CHECK(!rpma_conn_next_event(conn, &event) && event == expected);
}

static void close_device(struct rpma_conn *conn)
{
	CHECK(!rpma_conn_delete(&conn));
	CHECK(!rpma_mr_dereg(&mr));
	CHECK(!rpma_peer_delete(&peer));
}

static void server(const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_ep *ep;
	char descriptor[256];
	size_t size;

	open_device(RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
							 RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	CHECK(!rpma_mr_get_descriptor_size(mr, &size) && size <= sizeof(descriptor));
	CHECK(!rpma_mr_get_descriptor(mr, descriptor));
	CHECK(!rpma_ep_listen(peer, ADDRESS, port, &ep));
	say("listens");
	CHECK(!rpma_ep_next_conn_req(ep, NULL, &request));
	data.ptr = descriptor;
	data.len = (uint8_t)size;
	CHECK(!rpma_conn_req_connect(&request, &data, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	expect_event(conn, RPMA_CONN_CLOSED);
	expect_pattern(memory + 1);
	say("written");
	CHECK(!rpma_conn_disconnect(conn));
	close_device(conn);
	CHECK(!rpma_ep_shutdown(&ep));
}

static void complete(struct rpma_cq *cq, const void *expected)
{
	struct ibv_wc wc;
	int ret;

	for (;;) {
		ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
		if (ret != RPMA_E_NO_COMPLETION)
			break;
		CHECK(!rpma_cq_wait(cq));
	}
	CHECK(!ret && wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)expected);
}

static void client(const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	size_t size;

	open_device(RPMA_UTIL_IBV_CONTEXT_REMOTE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	for (size_t i = 0; i < SIZE; i++)
		memory[i] = pattern(i);
	CHECK(!rpma_conn_req_new(peer, ADDRESS, port, NULL, &request));
	CHECK(!rpma_conn_req_connect(&request, NULL, &conn));
	expect_event(conn, RPMA_CONN_ESTABLISHED);
	CHECK(!rpma_conn_get_private_data(conn, &data) && data.ptr);
	CHECK(!rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	CHECK(!rpma_mr_remote_get_size(remote, &size) && size == 2 * SIZE);
	CHECK(!rpma_conn_get_cq(conn, &cq));
	for (size_t i = 0; i < CHUNKS; i++)
		CHECK(!rpma_write(conn, remote, 1 + i * SIZE / CHUNKS, mr, i * SIZE / CHUNKS,
				  SIZE / CHUNKS, RPMA_F_COMPLETION_ON_ERROR, NULL));
	CHECK(!rpma_flush(conn, remote, 1, SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
			  RPMA_F_COMPLETION_ALWAYS, &cq));
	complete(cq, &cq);
	CHECK(!rpma_read(conn, mr, SIZE, remote, 1, SIZE, RPMA_F_COMPLETION_ALWAYS, &mr));
	complete(cq, &mr);
	expect_pattern(memory + SIZE);
	say("read back");
	CHECK(!rpma_mr_remote_delete(&remote));
	CHECK(!rpma_conn_disconnect(conn));
	expect_event(conn, RPMA_CONN_CLOSED);
	close_device(conn);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	if (!strcmp(argv[1], "server"))
		server(argv[2]);
	else
		client(argv[2]);
	return 0;
}
