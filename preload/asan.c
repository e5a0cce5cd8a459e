/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The runtime of AddressSanitizer that gcc links to a program insists on being the first library,
 * since its functions have to come before libc's. Ours call the next ones, which are the runtime's,
 * so the order is right as it is. The runtime asks for options by this name, before those of
 * ASAN_OPTIONS and of the program.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
