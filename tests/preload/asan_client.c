/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The hooks between AddressSanitizer's own and libc: each call in both directions. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void require(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(void)
{
	char *name = realpath("/sys/class/infiniband/rxe0/../rxe0", NULL);
	struct dirent **list, *entry = NULL;
	char text[64], link[64];
	struct stat st;
	FILE *file;
	DIR *dir;
	int fd;

	require(name && !strcmp(name, "/sys/class/infiniband/rxe0"), "realpath");
	free(name);
	file = fopen("/sys/class/infiniband/rxe0/node_guid", "r");
	require(file && fgets(text, sizeof(text), file), "fopen");
	fclose(file);
	dir = opendir("/sys/class/infiniband");
	while (dir && (entry = readdir(dir)) && strcmp(entry->d_name, "rxe0"))
		;
	require(dir && entry, "readdir");
	closedir(dir);
	fd = scandir("/dev/infiniband", &list, NULL, alphasort);
	require(fd == 3, "scandir");
	while (fd--)
		free(list[fd]);
	free(list);
	require(readlink("/sys/class/infiniband/rxe0/subsystem", link, sizeof(link)) > 0,
		"readlink");
	fd = open("/dev/infiniband/uverbs0", O_RDWR);
	require(fd >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode), "fstat");
	close(fd);
	require(!stat("/etc/passwd", &st) && S_ISREG(st.st_mode), "stat");
	puts("ok");
	return 0;
}
