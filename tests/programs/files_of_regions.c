/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What happens to the files of a program that it registers memory of: their locks, and when they are free again.
 * Argument: one of the scenes below.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "moved_memory.h"

/* ---------------------------------------------------------------------------------------- locks */

/* As another open file sees it, even one of the same process. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	CHECK(!fcntl(fd, F_OFD_GETLK, &lock));
	return lock.l_type != F_UNLCK;
}

static char in_memory[] = "/dev/shm/test-locked-XXXXXX", on_disk[] = "/var/tmp/test-locked-XXXXXX";

static void remove_files(void)
{
	unlink(in_memory);
	unlink(on_disk);
}

/* The locks of a process end with any descriptor of the file that it closes: nobody may for it. */
static void locks_of_files(void)
{
	const int files[] = { mkstemp(in_memory), mkstemp(on_disk), memfd_create("locked", 0) };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	/* What does not hold ends the program. */
	CHECK(!atexit(remove_files));
	for (int i = 0; i < 3; i++) {
		char *memory;
		struct ibv_mr *mr;

		CHECK(files[i] >= 0 && !ftruncate(files[i], LENGTH));
		memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
		CHECK(memory != MAP_FAILED);
		CHECK(!fcntl(files[i], F_SETLK, &lock) && is_locked(files[i]));
		mr = reg(memory, LENGTH);
		CHECK(is_locked(files[i]));
		check_messages(mr, memory, LENGTH);
		CHECK(!ibv_dereg_mr(mr));
		CHECK(is_locked(files[i]));
	}
}

static unsigned int looks; /* at all descriptors */

/* In front of the C library's. */
DIR *opendir(const char *name)
{
	looks += !strcmp(name, "/proc/thread-self/fd");
	return fdopendir(open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* A program may have many, so they are looked at only if somebody has locks of the file. */
static void many_descriptors(void)
{
	char name[] = "/dev/shm/test-many-XXXXXX";
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int file = mkstemp(name);
	char *memory;

	CHECK(file >= 0 && !ftruncate(file, LENGTH));
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(!ibv_dereg_mr(reg(memory, LENGTH)) && !looks);
	CHECK(!fcntl(file, F_SETLK, &lock) && !ibv_dereg_mr(reg(memory, LENGTH)) && looks == 1);
	CHECK(is_locked(file) && !unlink(name));
}

/* ----------------------------------------------------------------------------------- given back */

/* A file can be sealed against writing when nobody has it mapped so: once it has no region, not even the device. */
static void given_back(void)
{
	for (unsigned int i = 0; i < 200; i++) {
		const bool by_descriptor = i % 2;
		int file = memfd_create("given-back", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		struct ibv_mr *mr;
		char *memory;

		CHECK(file >= 0 && !ftruncate(file, LENGTH));
		memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		CHECK(memory != MAP_FAILED);
		mr = by_descriptor ? ibv_reg_dmabuf_mr(pd, 0, LENGTH, (uintptr_t)memory, file,
						       FULL_ACCESS)
				   : reg(memory, LENGTH);
		CHECK(mr);
		check_messages(mr, memory, LENGTH);
		if (!by_descriptor && i % 4)
			CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, own, PAGE,
					    0));
		else
			CHECK(!ibv_dereg_mr(mr));
		CHECK(!munmap(memory, LENGTH) && !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
		CHECK(!close(file));
	}
}

/* A memfd of that name, mapped, and a region of it that has no whole pages. */
static struct ibv_mr *reg_memfd(const char *name, int *file, char **memory)
{
	*file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(*file >= 0 && !ftruncate(*file, LENGTH));
	*memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
	CHECK(*memory != MAP_FAILED);
	return reg(*memory, LENGTH - 8);
}

static unsigned int count_mappings_of(const char *name)
{
	unsigned int count = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		count += !!strstr(line, name);
	fclose(maps);
	return count;
}

static void write_often(struct ibv_qp *qp, const void *to, uint32_t rkey)
{
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = { (uintptr_t)own, PAGE, own_mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = rkey },
		};

		CHECK(!post_send(qp, &wr));
		poll_success(cq);
	}
}

/* Its own QP has it mapped as well, and posts nothing any more. */
static void given_back_by_itself(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_mr *mr;
	char *memory;
	int file;

	start_qp(qp, qp->qp_num);
	for (int i = 0; i < 40; i++) {
		mr = reg_memfd("given-back", &file, &memory);
		write_often(qp, memory, mr->rkey);
		CHECK(count_mappings_of("given-back") == 2);
		CHECK(!ibv_dereg_mr(mr) && !munmap(memory, LENGTH));
		CHECK(!count_mappings_of("given-back") && !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
		CHECK(!close(file));
	}
	CHECK(!ibv_destroy_qp(qp));
}

/* What two processes tell each other by a socket. */
struct peer {
	uint32_t qpn, rkey;
	char *memory;
};

static void tell(int other, struct peer peer)
{
	CHECK(write(other, &peer, sizeof(peer)) == sizeof(peer));
}

static struct peer hear(int other)
{
	struct peer peer;

	CHECK(read(other, &peer, sizeof(peer)) == sizeof(peer));
	return peer;
}

#define ROUNDS 20

/* Writes to what the other one has registered each time that it is told, and sleeps. */
static void be_an_idle_peer(int other)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct peer peer;

	tell(other, (struct peer){ .qpn = qp->qp_num });
	peer = hear(other);
	start_qp(qp, peer.qpn);
	for (;;) {
		write_often(qp, peer.memory, peer.rkey);
		CHECK(count_mappings_of("idle-peer") == 1);
		tell(other, peer);
		peer = hear(other);
	}
}

/* The peer that posts nothing any more gives a region's memory back all the same, without a call of its program's. */
static void given_back_by_an_idle_peer(void)
{
	const double end = now() + 30;
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	char other[16];
	char *const command[] = { "files_of_regions", "be_an_idle_peer", other, NULL };
	int ends[2], file;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	CHECK(!fcntl(ends[0], F_SETFD, FD_CLOEXEC));
	snprintf(other, sizeof(other), "%d", ends[1]);
	/* A program of its own: what forks while it has threads is not sure to have a heap, with AddressSanitizer. */
	CHECK(!posix_spawn(&child, "/proc/self/exe", NULL, NULL, command, environ));
	CHECK(!close(ends[1]));
	start_qp(qp, hear(ends[0]).qpn);
	for (int i = 0; i < ROUNDS; i++) {
		char *memory;
		struct ibv_mr *mr = reg_memfd("idle-peer", &file, &memory);

		tell(ends[0],
		     (struct peer){ .qpn = qp->qp_num, .rkey = mr->rkey, .memory = memory });
		hear(ends[0]);
		CHECK(!ibv_dereg_mr(mr) && !munmap(memory, LENGTH));
		while (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE)) {
			CHECK(errno == EBUSY && now() < end);
			usleep(1000);
		}
		CHECK(!close(file));
	}
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	CHECK(!ibv_destroy_qp(qp));
}

/* A program that locks all its memory maps regions of others as any does, and fills nobody's file. */
static void locked_in_memory(void)
{
	const size_t length = (size_t)256 << 20;
	int file = memfd_create("sparse", MFD_CLOEXEC);
	struct stat st;
	char *memory;

	CHECK(file >= 0 && !ftruncate(file, (off_t)length));
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(memory != MAP_FAILED && !mlockall(MCL_FUTURE));
	check_messages(reg(memory, length - 8), memory, length - PAGE);
	CHECK(!fstat(file, &st) && st.st_blocks * 512 < 16l * PAGE);
}

static const struct scene scenes[] = {
	{ "locks_of_files", locks_of_files },
	{ "many_descriptors", many_descriptors },
	{ "given_back", given_back },
	{ "given_back_by_itself", given_back_by_itself },
	{ "given_back_by_an_idle_peer", given_back_by_an_idle_peer },
	{ "locked_in_memory", locked_in_memory },
};

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "be_an_idle_peer")) {
		open_all();
		be_an_idle_peer(atoi(argv[2]));
	}
	return RUN_SCENE(argc > 1 ? argv[1] : "", scenes);
}
