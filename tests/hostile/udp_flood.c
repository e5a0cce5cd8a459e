/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * udp_flood ADDRESS SECONDS: sends what is on standard input as UDP datagrams to port 4791 of an
 * IPv4 address, as fast as it can, and prints how many went.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(4791) };
	int discover = IP_PMTUDISC_DO; /* with the identification 0, as RoCE's ICRC counts it */
	char datagram[4096];
	struct iovec iov = { .iov_base = datagram };
	struct mmsghdr messages[BATCH] = { 0 };
	unsigned long sent = 0;
	double end;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	ssize_t length = read(STDIN_FILENO, datagram, sizeof(datagram));

	if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 || fd < 0 || length <= 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)))
		return EXIT_FAILURE;
	iov.iov_len = (size_t)length;
	for (int i = 0; i < BATCH; i++)
		messages[i].msg_hdr = (struct msghdr){
			.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &iov, .msg_iovlen = 1
		};
	end = now() + atof(argv[2]);
	while (now() < end) {
		int count = sendmmsg(fd, messages, BATCH, 0);

		if (count > 0)
			sent += (unsigned long)count;
	}
	printf("%lu\n", sent);
	return EXIT_SUCCESS;
}
