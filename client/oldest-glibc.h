/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * For the libraries that containers have (simhca cdi), whose glibc may be older than the one that
 * they are built with: down to 2.31. Included by the compiler before everything else (-include).
 *
 * What moved from libpthread and libdl to libc has a new version in glibc 2.32 and 2.34, beside the
 * one that it had; the linker takes the new one unless it is told. The functions are the same.
 */
#ifndef SIMHCA_OLDEST_GLIBC_H
#define SIMHCA_OLDEST_GLIBC_H

#include <features.h>

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#ifdef __x86_64__
#define SIMHCA_OLDEST_GLIBC "GLIBC_2.2.5"
#define SIMHCA_STAT_VER 1
#else
#define SIMHCA_OLDEST_GLIBC "GLIBC_2.17"
#define SIMHCA_STAT_VER 0
#endif

#define SIMHCA_SYMBOL_OF_(name, version) __asm__(".symver " #name "," #name "@" version)
#define SIMHCA_SYMBOL_OF_OLDEST_(name) SIMHCA_SYMBOL_OF_(name, SIMHCA_OLDEST_GLIBC)
SIMHCA_SYMBOL_OF_OLDEST_(dladdr);
SIMHCA_SYMBOL_OF_OLDEST_(dlclose);
SIMHCA_SYMBOL_OF_OLDEST_(dlerror);
#ifndef SIMHCA_HOOKS_DLOPEN /* it defines it */
SIMHCA_SYMBOL_OF_OLDEST_(dlopen);
#endif
SIMHCA_SYMBOL_OF_OLDEST_(dlsym);
SIMHCA_SYMBOL_OF_OLDEST_(dlvsym);
SIMHCA_SYMBOL_OF_OLDEST_(pthread_attr_setstacksize);
SIMHCA_SYMBOL_OF_OLDEST_(pthread_create);
SIMHCA_SYMBOL_OF_OLDEST_(pthread_join);
SIMHCA_SYMBOL_OF_OLDEST_(pthread_once);
SIMHCA_SYMBOL_OF_OLDEST_(pthread_sigmask);
SIMHCA_SYMBOL_OF_(pthread_cond_clockwait, "GLIBC_2.30");

/* Names of C23, since 2.38. */
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0

/*
 * stat() and fstat() are functions since 2.33; before, they were macros, of these. The preload
 * library has them for others.
 */
#ifndef SIMHCA_HOOKS_STAT
#include <sys/stat.h>

SIMHCA_SYMBOL_OF_OLDEST_(__fxstat);
SIMHCA_SYMBOL_OF_OLDEST_(__xstat);
extern int __fxstat(int version, int fd, struct stat *status);
extern int __xstat(int version, const char *path, struct stat *status);

static inline int simhca_fstat(int fd, struct stat *status)
{
	return __fxstat(SIMHCA_STAT_VER, fd, status);
}
#define fstat(fd, status) simhca_fstat(fd, status)

static inline int simhca_stat(const char *path, struct stat *status)
{
	return __xstat(SIMHCA_STAT_VER, path, status);
}
#define stat(path, status) simhca_stat(path, status)
#endif

#endif /* x86-64 and arm64 */
#endif
