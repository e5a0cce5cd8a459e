/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Lists devices as NCCL does: nothing RDMA in the link, libibverbs found at run time. */
#include <dlfcn.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>

int main(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
	void **(*get_device_list)(int *num);
	const char *(*get_device_name)(void *device);
	uint64_t (*get_device_guid)(void *device);
	void **devices;
	int num = -1;

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 77;
	}
	*(void **)&get_device_list = dlsym(lib, "ibv_get_device_list");
	*(void **)&get_device_name = dlsym(lib, "ibv_get_device_name");
	*(void **)&get_device_guid = dlsym(lib, "ibv_get_device_guid");
	devices = get_device_list(&num);
	for (int i = 0; devices && i < num; i++)
		printf("%s %016llx\n", get_device_name(devices[i]),
		       (unsigned long long)be64toh(get_device_guid(devices[i])));
	return 0;
}
