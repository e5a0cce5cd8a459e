/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A program of another libc: it uses what the library hooks, and must see the host alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	int null = open("/dev/null", O_RDWR);
	FILE *file = fopen("/proc/self/stat", "r");
	DIR *dir = opendir("/");
	struct stat st;

	if (null < 0 || fstat(null, &st) || !S_ISCHR(st.st_mode) || !file || getc(file) == EOF ||
	    !dir || !readdir(dir) || stat("/", &st) || !S_ISDIR(st.st_mode) || access("/", R_OK)) {
		perror("the host's files");
		return 1;
	}
	puts(open("/dev/infiniband/uverbs0", O_RDWR) < 0 && errno == ENOENT ? "no device"
									    : "a device");
	return 0;
}
