/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The functions behind the hooks: REAL(open) is the open() that the program would have called
 * without this library, be it libc's or that of another preloaded library.
 *
 * All are looked up when the library is loaded. A hook that is called before that, by the
 * constructor of another library, looks up what it needs itself. Both store the same address,
 * so it does not matter who is first, and no lock is needed.
 */
#ifndef SIMHCA_PRELOAD_REAL_H
#define SIMHCA_PRELOAD_REAL_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

/* One layout for struct stat and struct stat64, one for struct dirent and struct dirent64. */
_Static_assert(sizeof(long) == 8, "the preload library supports 64-bit systems only");

typedef int dirent_filter_fn(const struct dirent *entry);
typedef int dirent_compare_fn(const struct dirent **a, const struct dirent **b);

#define REAL_FUNCTIONS(F)                                                                          \
	F(int, open, (const char *path, int flags, ...))                                           \
	F(int, open64, (const char *path, int flags, ...))                                         \
	F(int, openat, (int dirfd, const char *path, int flags, ...))                              \
	F(int, openat64, (int dirfd, const char *path, int flags, ...))                            \
	F(int, __open_2, (const char *path, int flags))                                            \
	F(int, __open64_2, (const char *path, int flags))                                          \
	F(int, __openat_2, (int dirfd, const char *path, int flags))                               \
	F(int, __openat64_2, (int dirfd, const char *path, int flags))                             \
	F(FILE *, fopen, (const char *path, const char *mode))                                     \
	F(FILE *, fopen64, (const char *path, const char *mode))                                   \
	F(FILE *, freopen, (const char *path, const char *mode, FILE *stream))                     \
	F(FILE *, freopen64, (const char *path, const char *mode, FILE *stream))                   \
	F(int, stat, (const char *path, struct stat *st))                                          \
	F(int, stat64, (const char *path, struct stat *st))                                        \
	F(int, lstat, (const char *path, struct stat *st))                                         \
	F(int, lstat64, (const char *path, struct stat *st))                                       \
	F(int, fstat, (int fd, struct stat *st))                                                   \
	F(int, fstat64, (int fd, struct stat *st))                                                 \
	F(int, fstatat, (int dirfd, const char *path, struct stat *st, int flags))                 \
	F(int, fstatat64, (int dirfd, const char *path, struct stat *st, int flags))               \
	F(int, __xstat, (int version, const char *path, struct stat *st))                          \
	F(int, __xstat64, (int version, const char *path, struct stat *st))                        \
	F(int, __lxstat, (int version, const char *path, struct stat *st))                         \
	F(int, __lxstat64, (int version, const char *path, struct stat *st))                       \
	F(int, __fxstat, (int version, int fd, struct stat *st))                                   \
	F(int, __fxstat64, (int version, int fd, struct stat *st))                                 \
	F(int, __fxstatat, (int version, int dirfd, const char *path, struct stat *st, int flags)) \
	F(int, __fxstatat64,                                                                       \
	  (int version, int dirfd, const char *path, struct stat *st, int flags))                  \
	F(int, statx,                                                                              \
	  (int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx))          \
	F(int, access, (const char *path, int mode))                                               \
	F(int, faccessat, (int dirfd, const char *path, int mode, int flags))                      \
	F(int, euidaccess, (const char *path, int mode))                                           \
	F(int, eaccess, (const char *path, int mode))                                              \
	F(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size))       \
	F(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size))      \
	F(ssize_t, listxattr, (const char *path, char *list, size_t size))                         \
	F(ssize_t, llistxattr, (const char *path, char *list, size_t size))                        \
	F(DIR *, opendir, (const char *path))                                                      \
	F(struct dirent *, readdir, (DIR * dir))                                                   \
	F(struct dirent *, readdir64, (DIR * dir))                                                 \
	F(int, scandir,                                                                            \
	  (const char *path, struct dirent ***list, dirent_filter_fn *filter,                      \
	   dirent_compare_fn *compare))                                                            \
	F(int, scandir64,                                                                          \
	  (const char *path, struct dirent ***list, dirent_filter_fn *filter,                      \
	   dirent_compare_fn *compare))                                                            \
	F(int, chdir, (const char *path))                                                          \
	F(ssize_t, readlink, (const char *path, char *buf, size_t size))                           \
	F(ssize_t, readlinkat, (int dirfd, const char *path, char *buf, size_t size))              \
	F(ssize_t, __readlink_chk, (const char *path, char *buf, size_t size, size_t room))        \
	F(ssize_t, __readlinkat_chk,                                                               \
	  (int dirfd, const char *path, char *buf, size_t size, size_t room))                      \
	F(char *, realpath, (const char *path, char *resolved))                                    \
	F(char *, __realpath_chk, (const char *path, char *resolved, size_t room))                 \
	F(char *, canonicalize_file_name, (const char *path))                                      \
	F(int, inotify_add_watch, (int fd, const char *path, uint32_t mask))                       \
	F(ssize_t, read, (int fd, void *buf, size_t size))                                         \
	F(ssize_t, write, (int fd, const void *buf, size_t size))                                  \
	F(int, ioctl, (int fd, unsigned long request, ...))                                        \
	F(void *, mmap, (void *addr, size_t size, int prot, int flags, int fd, off_t offset))      \
	F(void *, mmap64, (void *addr, size_t size, int prot, int flags, int fd, off_t offset))    \
	F(int, socket, (int domain, int type, int protocol))                                       \
	F(int, bind, (int fd, const struct sockaddr *addr, socklen_t len))                         \
	F(int, getsockname, (int fd, struct sockaddr *addr, socklen_t *len))                       \
	F(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len))        \
	F(ssize_t, recvfrom,                                                                       \
	  (int fd, void *buf, size_t size, int flags, struct sockaddr *addr, socklen_t *len))      \
	F(ssize_t, __recvfrom_chk,                                                                 \
	  (int fd, void *buf, size_t size, size_t buf_size, int flags, struct sockaddr *addr,      \
	   socklen_t *len))                                                                        \
	F(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags))                               \
	F(void *, dlopen, (const char *file, int mode))

#define REAL_INDEX(ret, name, args) REAL_INDEX_##name,
enum real_index { REAL_FUNCTIONS(REAL_INDEX) REAL_COUNT };
#undef REAL_INDEX

#define REAL_TYPE(ret, name, args) typedef ret real_##name##_fn args;
REAL_FUNCTIONS(REAL_TYPE)
#undef REAL_TYPE

extern void *_Atomic real_addresses[REAL_COUNT];

/* Never NULL: what this libc lacks is a function that fails with ENOSYS. */
void *real_lookup(enum real_index index);

static inline void *real_address(enum real_index index)
{
	/* Relaxed: the function was there before its address was, and no other data is published.
	 */
	void *address = atomic_load_explicit(&real_addresses[index], memory_order_relaxed);

	return address ? address : real_lookup(index);
}

#define REAL(name) ((real_##name##_fn *)real_address(REAL_INDEX_##name))

/*
 * Define the function that takes the place of libc's `name`. Its name in C is another one, so that
 * neither the prototype nor the inline version (_FORTIFY_SOURCE) of libc's headers gets in the way.
 */
#define HOOK(ret, name, ...)                                                                       \
	__attribute__((visibility("default"))) ret hook_##name(__VA_ARGS__) __asm__(#name);        \
	ret hook_##name(__VA_ARGS__)

#endif
