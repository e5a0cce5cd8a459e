/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The control socket: one JSON object a datagram, each way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "printable.h"
#include "tool.h"

#define REQUEST_MAX 1024
#define ANSWER_MAX 65536
#define REPORT_MAX (64 << 20)

int admin_connect(const char *dir)
{
	struct timeval limit = { .tv_sec = ADMIN_TIMEOUT_MS / 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, error;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", dir) >=
	    sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	/* The send limit bounds connect() too, which waits while the backlog is full. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		error = errno == EAGAIN ? ETIMEDOUT : errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

bool admin_nobody(int error)
{
	return error == ENOENT || error == ECONNREFUSED || error == ENOTDIR;
}

int admin_reach(const char *dir)
{
	int fd = admin_connect(dir);

	if (fd >= 0)
		return fd;
	if (admin_nobody(errno))
		complain("no daemon runs in %s", dir);
	else
		complain("the daemon in %s cannot be reached: %s", dir, strerror(errno));
	return -1;
}

pid_t admin_peer(int fd)
{
	struct ucred peer = { 0 };
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return 0;
	return peer.pid;
}

/* Takes members, which may be NULL: there are none. */
static int send_command(int fd, enum control_command command, json_t *members)
{
	json_t *request =
		json_pack("{s:s, s:i}", "cmd", control_names[command], "version", CONTROL_VERSION);
	char *text = NULL;
	size_t length;
	int sent = -1;

	if (request && (!members || !json_object_update(request, members)))
		text = json_dumps(request, JSON_COMPACT);
	length = text ? strlen(text) : 0;
	errno = !text ? ENOMEM : length > REQUEST_MAX ? EMSGSIZE : 0;
	if (!errno && send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length)
		sent = 0;
	free(text);
	json_decref(request);
	json_decref(members);
	return sent;
}

static ssize_t receive(int fd, char *answer, int *descriptor)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { .iov_base = answer, .iov_len = ANSWER_MAX };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg;
	ssize_t length;

	*descriptor = -1;
	do {
		length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	} while (length < 0 && errno == EINTR);
	if (length < 0) {
		if (errno == EAGAIN)
			errno = ETIMEDOUT;
		return -1;
	}
	cmsg = CMSG_FIRSTHDR(&message);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(descriptor, CMSG_DATA(cmsg), sizeof(*descriptor));
	if (!length) {
		errno = ECONNRESET;
		return -1;
	}
	return length;
}

static bool is_printable(const char *key)
{
	char *copy = strdup(key);
	bool same = false;

	if (copy) {
		make_printable(copy);
		same = !strcmp(copy, key);
	}
	free(copy);
	return same;
}

/* Each text in it. False: it cannot be, or names its members by what is not. */
static bool make_all_printable(json_t *json)
{
	const char *key;
	json_t *value;
	size_t index;
	char *text;

	if (json_is_string(json)) {
		text = strdup(json_string_value(json));
		if (text)
			make_printable(text);
		if (!text || json_string_set(json, text)) {
			free(text);
			return false;
		}
		free(text);
	}
	json_array_foreach(json, index, value) if (!make_all_printable(value)) return false;
	json_object_foreach(json, key, value) if (!is_printable(key) ||
						  !make_all_printable(value)) return false;
	return true;
}

/* All that a daemon says comes in here, to be shown: on terminals, for example. */
static json_t *load(const char *text, size_t length)
{
	json_t *json = json_loadb(text, length, 0, NULL);

	if (json && make_all_printable(json))
		return json;
	json_decref(json);
	return NULL;
}

static json_t *understand(const char *answer, size_t length, char **refusal)
{
	json_t *json = load(answer, length);
	const char *error;
	long long version;

	if (!json_is_object(json)) {
		json_decref(json);
		errno = EPROTO;
		return NULL;
	}
	version = json_integer_value(json_object_get(json, "version"));
	if (version != CONTROL_VERSION) {
		if (refusal && asprintf(refusal,
					"it speaks version %lld of the protocol, and this tool "
					"version %d: they are of different releases",
					version, CONTROL_VERSION) < 0)
			*refusal = NULL;
		json_decref(json);
		errno = EREMOTEIO;
		return NULL;
	}
	if (json_is_true(json_object_get(json, "ok")))
		return json;
	error = json_string_value(json_object_get(json, "error"));
	if (refusal)
		*refusal = strdup(error ? error : "gave no reason");
	json_decref(json);
	errno = EREMOTEIO;
	return NULL;
}

/* Takes members. */
static json_t *request(int fd, enum control_command command, json_t *members, int *memfd,
		       char **refusal)
{
	json_t *json = NULL;
	int descriptor, error;
	ssize_t length;
	char *answer;

	if (refusal)
		*refusal = NULL;
	if (memfd)
		*memfd = -1;
	if (send_command(fd, command, members))
		return NULL;
	answer = malloc(ANSWER_MAX);
	if (!answer)
		return NULL;
	length = receive(fd, answer, &descriptor);
	if (length > 0)
		json = understand(answer, (size_t)length, refusal);
	error = errno;
	free(answer);
	if (memfd && json)
		*memfd = descriptor;
	else if (descriptor >= 0)
		close(descriptor);
	errno = error;
	return json;
}

json_t *admin_request(int fd, enum control_command command, char **refusal)
{
	return request(fd, command, NULL, NULL, refusal);
}

/* The report is too long for a datagram: it is in a file in memory, read from its start. */
static json_t *read_report(int memfd)
{
	struct stat st;
	json_t *json = NULL;
	char *text;

	errno = EPROTO;
	if (memfd < 0 || fstat(memfd, &st) || st.st_size > REPORT_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (text && pread(memfd, text, (size_t)st.st_size, 0) == st.st_size)
		json = load(text, (size_t)st.st_size);
	free(text);
	if (!json)
		errno = EPROTO;
	return json;
}

/* Takes members. */
static json_t *ask(int fd, enum control_command command, json_t *members, char **refusal)
{
	int memfd;
	json_t *answer = request(fd, command, members, &memfd, refusal);
	json_t *status = NULL;
	int error;

	if (answer) {
		status = read_report(memfd);
		error = errno;
		if (memfd >= 0)
			close(memfd);
		json_decref(answer);
		errno = error;
	}
	return status;
}

json_t *admin_report(int fd, enum control_command command, char **refusal)
{
	return ask(fd, command, NULL, refusal);
}

json_t *admin_status(int fd, char **refusal)
{
	return ask(fd, CONTROL_STATUS, NULL, refusal);
}

json_t *admin_failures(int fd, long long since, pid_t run, char **refusal)
{
	return ask(fd, CONTROL_EXPLAIN,
		   json_pack("{s:I, s:i}", "since", (json_int_t)since, "run", (int)run), refusal);
}

json_t *admin_lint(int fd, pid_t run)
{
	return ask(fd, CONTROL_LINT, json_pack("{s:i}", "run", (int)run), NULL);
}

json_t *admin_trace(int fd, long long most_bytes, int *frames, char **refusal)
{
	return request(fd, CONTROL_TRACE, json_pack("{s:I}", "most_bytes", (json_int_t)most_bytes),
		       frames, refusal);
}

json_t *admin_inject(int fd, const char *rule, long long number, char **refusal)
{
	return request(fd, CONTROL_INJECT,
		       rule ? json_pack("{s:s}", "add", rule)
			    : json_pack("{s:I}", "clear", (json_int_t)number),
		       NULL, refusal);
}
