/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "seccomp_filter.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#define SELECT_LIMIT 1024u
#define RANGE_SHARE 8	/* one of so many descriptors */
#define SOCKETS_SHARE 4 /* and of those */

/* When the supervisor is asked about a call. */
enum when {
	ALWAYS,
	OF_DEVICE,	/* the first argument is a device's descriptor */
	OF_SOCKET,	/* it is that of a socket for RDMA netlink */
	OF_EITHER,	/* it is one of the two */
	BY_NAME,	/* unless it is fstat() of another descriptor in other words */
	OF_IOCTLS,	/* ioctl(): those of uverbs and umad */
	OF_RDMA_NETLINK /* socket() for it */
};

static const struct rule {
	int call;
	enum when when;
	unsigned int flags; /* BY_NAME: which argument has them */
} rules[] = {
#ifdef SYS_open
	{ SYS_open, ALWAYS, 0 },	  { SYS_stat, ALWAYS, 0 },
	{ SYS_lstat, ALWAYS, 0 },	  { SYS_access, ALWAYS, 0 },
	{ SYS_readlink, ALWAYS, 0 },
#endif
	{ SYS_openat, ALWAYS, 0 },	  { SYS_openat2, ALWAYS, 0 },
	{ SYS_readlinkat, ALWAYS, 0 },	  { SYS_faccessat, ALWAYS, 0 },
	{ SYS_faccessat2, ALWAYS, 0 },	  { SYS_getxattr, ALWAYS, 0 },
	{ SYS_lgetxattr, ALWAYS, 0 },	  { SYS_listxattr, ALWAYS, 0 },
	{ SYS_llistxattr, ALWAYS, 0 },	  { SYS_newfstatat, BY_NAME, 3 },
	{ SYS_statx, BY_NAME, 2 },	  { SYS_fstat, OF_DEVICE, 0 },
	{ SYS_read, OF_DEVICE, 0 },	  { SYS_write, OF_DEVICE, 0 },
	{ SYS_ioctl, OF_IOCTLS, 0 },	  { SYS_dup, OF_EITHER, 0 },
	{ SYS_fcntl, OF_EITHER, 0 },	  { SYS_socket, OF_RDMA_NETLINK, 0 },
	{ SYS_bind, OF_SOCKET, 0 },	  { SYS_getsockname, OF_SOCKET, 0 },
	{ SYS_setsockopt, OF_SOCKET, 0 }, { SYS_recvfrom, OF_SOCKET, 0 },
	{ SYS_recvmsg, OF_SOCKET, 0 },
};

static const uint32_t ioctls[] = { (uint32_t)RDMA_VERBS_IOCTL, (uint32_t)IB_USER_MAD_REGISTER_AGENT,
				   (uint32_t)IB_USER_MAD_UNREGISTER_AGENT,
				   (uint32_t)IB_USER_MAD_ENABLE_PKEY,
				   (uint32_t)IB_USER_MAD_REGISTER_AGENT2 };
#define IOCTLS (sizeof(ioctls) / sizeof(ioctls[0]))

#define RULES (sizeof(rules) / sizeof(rules[0]))
#define MOST_OF_RULE 12

struct program {
	struct sock_filter code[4 + RULES * MOST_OF_RULE];
	unsigned short length;
};

static void add(struct program *program, unsigned int code, uint32_t k, unsigned int yes,
		unsigned int no)
{
	program->code[program->length++] =
		(struct sock_filter){ (unsigned short)code, (unsigned char)yes, (unsigned char)no,
				      k };
}

static void load(struct program *program, size_t offset)
{
	add(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The low half of an argument, both architectures being little-endian. */
static void load_argument(struct program *program, unsigned int index)
{
	load(program, offsetof(struct seccomp_data, args) + index * sizeof(uint64_t));
}

static void end(struct program *program, uint32_t action)
{
	add(program, BPF_RET | BPF_K, action, 0, 0);
}

static void end_if_within(struct program *program, unsigned int first, unsigned int end_of_them)
{
	load_argument(program, 0);
	add(program, BPF_JMP | BPF_JGE | BPF_K, first, 0, 2);
	add(program, BPF_JMP | BPF_JGE | BPF_K, end_of_them, 1, 0);
	end(program, SECCOMP_RET_USER_NOTIF);
	end(program, SECCOMP_RET_ALLOW);
}

static void add_rule(struct program *program, const struct rule *rule, const struct fd_range *range)
{
	unsigned short start = program->length;

	add(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rule->call, 0, 0);
	switch (rule->when) {
	case ALWAYS:
		end(program, SECCOMP_RET_USER_NOTIF);
		break;
	case OF_DEVICE:
		end_if_within(program, range->first, range->sockets);
		break;
	case OF_SOCKET:
		end_if_within(program, range->sockets, range->end);
		break;
	case OF_EITHER:
		end_if_within(program, range->first, range->end);
		break;
	case BY_NAME:
		load_argument(program, rule->flags);
		add(program, BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 1, 0);
		end(program, SECCOMP_RET_USER_NOTIF);
		end_if_within(program, range->first, range->sockets);
		break;
	case OF_IOCTLS:
		load_argument(program, 1);
		for (unsigned int i = 0; i < IOCTLS; i++)
			add(program, BPF_JMP | BPF_JEQ | BPF_K, ioctls[i],
			    (unsigned int)IOCTLS - 1 - i, i == IOCTLS - 1);
		end(program, SECCOMP_RET_USER_NOTIF);
		end(program, SECCOMP_RET_ALLOW);
		break;
	case OF_RDMA_NETLINK:
		load_argument(program, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3);
		load_argument(program, 2);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, NETLINK_RDMA, 0, 1);
		end(program, SECCOMP_RET_USER_NOTIF);
		end(program, SECCOMP_RET_ALLOW);
		break;
	}
	/* All of a rule's ways end in it: the next one finds the call's number still loaded. */
	program->code[start].jf = (unsigned char)(program->length - start - 1);
}

static void make_program(struct program *program, const struct fd_range *range)
{
	program->length = 0;
	load(program, offsetof(struct seccomp_data, arch));
	add(program, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	end(program, SECCOMP_RET_ALLOW); /* a 32-bit program */
	load(program, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < RULES; i++)
		add_rule(program, &rules[i], range);
	end(program, SECCOMP_RET_ALLOW);
}

struct fd_range seccomp_filter_range(void)
{
	struct rlimit limit = { .rlim_cur = SELECT_LIMIT };
	unsigned int end_of_range = SELECT_LIMIT;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < end_of_range)
		end_of_range = (unsigned int)limit.rlim_cur;
	return (struct fd_range){
		.first = end_of_range - end_of_range / RANGE_SHARE,
		.sockets = end_of_range - end_of_range / RANGE_SHARE / SOCKETS_SHARE,
		.end = end_of_range,
	};
}

/* A newer flag than some headers: a call that was told is interrupted by the thread's end alone. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static int enter(const struct sock_fprog *fprog)
{
	static const unsigned long flags[] = {
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		SECCOMP_FILTER_FLAG_NEW_LISTENER, /* before Linux 5.19 */
	};
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[0], fprog);

	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[1], fprog);
	return fd < 0 ? -errno : (int)fd;
}

/* Newer than some headers, Linux 6.6: who waits and who answers take turns on one CPU. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static void take_turns(int listener)
{
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

int seccomp_filter_enter(const struct fd_range *range)
{
	struct program program;
	struct sock_fprog fprog = { .filter = program.code };
	int fd;

	make_program(&program, range);
	fprog.len = program.length;
	fd = enter(&fprog);
	/* Without a capability only for programs that gain none by set-user-ID. */
	if (fd == -EACCES && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fd = enter(&fprog);
	if (fd >= 0)
		take_turns(fd);
	return fd;
}
