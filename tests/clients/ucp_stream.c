/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * UCP streams between a server that listens by rdma_cm and clients that come one after the other,
 * with the data checked, and an end that is nobody's error at either side:
 *
 *	ucp_stream PORT CLIENTS		the server; ends after so many clients
 *	ucp_stream PORT CLIENTS ADDRESS	as many clients, one after the other
 *
 * A client sends its messages, waits for the server's answer, and closes its endpoint. The server
 * has an endpoint until its peer has closed: whoever closes by force drops what has come and was
 * not looked at yet.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define MESSAGES 20
#define SIZE 2000
#define LARGE 300000 /* a rendezvous */
#define LIMIT 50     /* seconds */

static ucp_context_h context;
static ucp_worker_h worker;
static int peer_closed;

static void check(const char *what, ucs_status_t status)
{
	if (status == UCS_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void finish(const char *what, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!request)
		return;
	if (UCS_PTR_IS_ERR(request))
		check(what, UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(request);
	check(what, status);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg;
	(void)ep;
	if (status != UCS_ERR_CONNECTION_RESET)
		check("endpoint", status);
	peer_closed = 1;
}

static size_t size_of(unsigned int message)
{
	return message == MESSAGES - 1 ? LARGE : SIZE;
}

static uint8_t pattern(size_t i, unsigned int message)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + message * 29 + 1);
}

static void send_message(ucp_ep_h ep, uint8_t *data, unsigned int message)
{
	ucp_request_param_t param = { 0 };

	for (size_t i = 0; i < size_of(message); i++)
		data[i] = pattern(i, message);
	finish("send", ucp_stream_send_nbx(ep, data, size_of(message), &param));
}

static void recv_message(ucp_ep_h ep, uint8_t *data, unsigned int message)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
				      .flags = UCP_STREAM_RECV_FLAG_WAITALL };
	size_t length;

	finish("receive", ucp_stream_recv_nbx(ep, data, size_of(message), &length, &param));
	for (size_t i = 0; i < size_of(message); i++) {
		if (data[i] == pattern(i, message))
			continue;
		fprintf(stderr, "message %u: byte %zu is 0x%02x\n", message, i, data[i]);
		exit(1);
	}
}

static ucp_ep_h endpoint(ucp_ep_params_t *params)
{
	ucp_ep_h ep;

	params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
	params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
	params->err_handler.cb = on_error;
	peer_closed = 0;
	check("endpoint", ucp_ep_create(worker, params, &ep));
	return ep;
}

static void client(struct sockaddr_in *server, uint8_t *data)
{
	ucp_ep_params_t params = { .field_mask =
					   UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
				   .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
				   .sockaddr = { (struct sockaddr *)server, sizeof(*server) } };
	ucp_request_param_t param = { 0 }; /* flushes */
	ucp_ep_h ep = endpoint(&params);

	for (unsigned int i = 0; i < MESSAGES; i++)
		send_message(ep, data, i);
	recv_message(ep, data, MESSAGES);
	finish("close", ucp_ep_close_nbx(ep, &param));
	if (peer_closed)
		check("the server has closed first", UCS_ERR_CONNECTION_RESET);
}

static void on_request(ucp_conn_request_h request, void *arg)
{
	*(ucp_conn_request_h *)arg = request;
}

static void serve(ucp_conn_request_h *request, uint8_t *data)
{
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST };
	ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
				      .flags = UCP_EP_CLOSE_FLAG_FORCE };
	ucs_status_ptr_t close;
	ucp_ep_h ep;

	while (!*request)
		ucp_worker_progress(worker);
	params.conn_request = *request;
	*request = NULL;
	ep = endpoint(&params);
	for (unsigned int i = 0; i < MESSAGES; i++)
		recv_message(ep, data, i);
	send_message(ep, data, MESSAGES);
	while (!peer_closed)
		ucp_worker_progress(worker);
	/* Its status is that the peer has gone. */
	close = ucp_ep_close_nbx(ep, &force);
	if (!UCS_PTR_IS_PTR(close))
		return;
	while (ucp_request_check_status(close) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(close);
}

static void listen_and_serve(struct sockaddr_in *address, int clients, uint8_t *data)
{
	ucp_conn_request_h request = NULL;
	ucp_listener_params_t params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
						       UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
					 .sockaddr = { (struct sockaddr *)address,
						       sizeof(*address) },
					 .conn_handler = { on_request, &request } };
	ucp_listener_h listener;

	check("listen", ucp_listener_create(worker, &params, &listener));
	for (int i = 0; i < clients; i++) {
		serve(&request, data);
		printf("client %d has closed\n", i + 1);
		fflush(stdout);
	}
	ucp_listener_destroy(listener);
}

int main(int argc, char *argv[])
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_STREAM };
	ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					      .thread_mode = UCS_THREAD_MODE_SINGLE };
	struct sockaddr_in address = { .sin_family = AF_INET };
	uint8_t *data = malloc(LARGE);

	if (argc < 3 || argc > 4 || !data ||
	    (argc == 4 && inet_pton(AF_INET, argv[3], &address.sin_addr) != 1)) {
		fprintf(stderr, "usage: ucp_stream PORT CLIENTS [ADDRESS]\n");
		return 2;
	}
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	alarm(LIMIT);
	check("init", ucp_init(&params, NULL, &context));
	check("worker", ucp_worker_create(context, &worker_params, &worker));
	if (argc == 3)
		listen_and_serve(&address, atoi(argv[2]), data);
	for (int i = 0; argc == 4 && i < atoi(argv[2]); i++)
		client(&address, data);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	free(data);
	return 0;
}
