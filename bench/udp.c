/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A ping-pong of datagrams between two hosts, each process asleep while it waits:
 *
 *   udp PORT                 answers, until it is killed
 *   udp PORT SERVER ROUNDS   prints the median of half a round trip, in us
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "steps.h"

#define BYTES 8

static int by_size(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

static void answer(int fd)
{
	struct sockaddr_in from;
	char bytes[BYTES];

	for (;;) {
		socklen_t length = sizeof(from);

		if (recvfrom(fd, bytes, sizeof(bytes), 0, (void *)&from, &length) != BYTES ||
		    sendto(fd, bytes, sizeof(bytes), 0, (void *)&from, length) != BYTES)
			die("answering");
	}
}

static void ask(int fd, int rounds)
{
	double *took = calloc((size_t)rounds, sizeof(*took));
	struct timeval limit = { .tv_sec = 5 };
	char bytes[BYTES] = "";

	if (rounds < 1 || !took)
		die("ROUNDS");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (int i = 0; i < rounds; i++) {
		double since = seconds();

		if (send(fd, bytes, sizeof(bytes), 0) != BYTES ||
		    recv(fd, bytes, sizeof(bytes), 0) != BYTES)
			die("a round trip");
		took[i] = (seconds() - since) * 1e6 / 2;
	}
	qsort(took, (size_t)rounds, sizeof(*took), by_size);
	printf("%.3f\n", took[rounds / 2]);
	free(took);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc != 2 && argc != 4)
		die("udp PORT [SERVER ROUNDS]");
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	if (argc == 2) {
		if (bind(fd, (void *)&address, sizeof(address)))
			die("bind");
		answer(fd);
	}
	if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1 ||
	    connect(fd, (void *)&address, sizeof(address)))
		die("connect");
	ask(fd, atoi(argv[3]));
	return 0;
}
