/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* fake-daemon DIRECTORY [DEVICE]: makes a tree there and serves it until it is killed. */
#include <stdio.h>

#include "fake_daemon.h"

int main(int argc, char **argv)
{
	int listener;

	if (argc < 2) {
		fprintf(stderr, "usage: %s DIRECTORY [DEVICE]\n", argv[0]);
		return 2;
	}
	fake_tree(argv[1], argc > 2 ? argv[2] : FAKE_DEVICE);
	listener = fake_listen(argv[1]);
	puts("ready");
	fflush(stdout);
	fake_serve(listener);
}
