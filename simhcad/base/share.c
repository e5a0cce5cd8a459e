/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <limits.h>
#include <sys/resource.h>

#include "share.h"

/* Each is also a mapping of the daemon, which Linux gives 65,530 (vm.max_map_count). */
#define MOST_QUEUES 16384u

static unsigned int part_of_descriptors(unsigned int divisor)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / divisor > INT_MAX)
		return INT_MAX;
	return (unsigned int)limit.rlim_cur / divisor;
}

unsigned int share_connections(void)
{
	return part_of_descriptors(4);
}

unsigned int share_program_connections(void)
{
	return part_of_descriptors(2);
}

unsigned int share_descriptors(void)
{
	return part_of_descriptors(8);
}

unsigned int share_program_descriptors(void)
{
	return part_of_descriptors(4);
}

unsigned int share_files(void)
{
	return part_of_descriptors(8);
}

unsigned int share_queues(void)
{
	const unsigned int part = part_of_descriptors(4);

	return part < MOST_QUEUES ? part : MOST_QUEUES;
}
