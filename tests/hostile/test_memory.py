# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory of a client whose pages nobody brings: whoever touches it sleeps."""
import ctypes
import errno
import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from attack import ATTACK
from protocol import BUILD, NUMBER, close_all

REM_ACCESS_ERR = 10


def engine_threads(daemon):
    names = pathlib.Path(f"/proc/{daemon.process.pid}/task").glob("*/comm")
    return sum(name.read_text().startswith("simhca-engine") for name in names)


# Programs that carry their messages by themselves would be stuck themselves.
BY_DEVICE = pytest.mark.parametrize("daemon", [["--fast-path", "off"]], indirect=True,
                                    ids=["off"])


@BY_DEVICE
@pytest.mark.parametrize("processes, qps, most", [(1, 20, 2), (20, 1, 6)])
def test_engines_in_it(daemon, neighbour, slow_file, program, processes, qps, most):
    """A thread for a process, and a few for a program: the engine has others left."""
    before = engine_threads(daemon)
    sender = program("stuck-sender", slow_file, str(processes), str(qps))
    assert sender.line() == "done\n"
    time.sleep(ATTACK)
    assert before < engine_threads(daemon) <= before + most


@pytest.mark.parametrize("daemon", [["--odp-invalidation", "checks",
                                      "--fast-path", "off"]], indirect=True, ids=["checks"])
def test_engines_that_ask_for_pages(daemon, neighbour, slow_file, program):
    """Whether a page is there still is asked of the address space: who is stuck there counts as well."""
    before = engine_threads(daemon)
    sender = program("stuck-sender", slow_file, "1", "20", "verify")
    assert sender.line() == "done\n"
    time.sleep(ATTACK)
    assert before < engine_threads(daemon) <= before + 2


@BY_DEVICE
def test_commands_that_meet_it(daemon, neighbour, slow_file, program):
    """Destroying QPs that are stuck there is tried again and again, of several processes."""
    sender = program("stuck-sender", slow_file, "8", "16", "destroy")
    assert sender.line() == "done\n"
    time.sleep(ATTACK)


# Prefetches of a page that nobody brings, each on an answer's behalf: how many were refused, and why.
WAITS = """if True:
    import ctypes, os, socket, struct, sys, time
    from protocol import MAGIC, NUMBER, VERSION, Client
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, os.open(sys.argv[2], os.O_RDONLY), ctypes.c_long(0))
    clients, refused = [Client(sys.argv[1]) for _ in range(6)], []
    for client in clients:
        client.open()
        pd = client.ok(NUMBER["ALLOC_PD"])[0][:4]
        region = client.ok(NUMBER["REG_MR"], struct.pack("QQQ4s3I", page, 4096, page, pd, 1 << 6, 0, 0))[0]
        body = struct.pack("4s3IQQI4s", pd, 0, 1, 1, 0, page, 8, region[4:8]).ljust(408, b"\\0")
        request = struct.pack("IHHII", MAGIC, VERSION, NUMBER["ADVISE_MR"], 16 + len(body), 0) + body
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(60):
            socket.send_fds(client.sock, [request], [theirs.fileno()])
        client.ok(NUMBER["ALLOC_PD"])
        ours.setblocking(False)
        try:
            while True:
                refused.append(ours.recv(4096)[16:176])
        except BlockingIOError:
            pass
    print(len(refused), all(b"of its program" in why for why in refused), flush=True)
    time.sleep(60)
"""


def test_commands_that_wait_for_it(daemon, neighbour, slow_file):
    """Of one program 256 wait, whatever connections it has; what is beyond that hears so."""
    attacker = subprocess.Popen(
        [sys.executable, "-c", WAITS, daemon.tree("dev/infiniband/uverbs0"), slow_file], stdout=subprocess.PIPE, text=True)
    try:
        assert attacker.stdout.readline() == f"{6 * 60 - 256} True\n"
        time.sleep(ATTACK)
    finally:
        attacker.kill()  # and it ends when the file system does
        attacker.stdout.close()


@pytest.mark.parametrize("neighbour", [["odp"]], indirect=True, ids=["odp"])
def test_page_faults_in_it(daemon, neighbour, slow_file, program):
    """Page faults that are never served, of very many children."""
    sender = program("stuck-sender", slow_file, "40", "2", "odp")
    assert sender.line() == "done\n"
    time.sleep(ATTACK)


def pager_of(daemon):
    for name in pathlib.Path(f"/proc/{daemon.process.pid}/task").glob("*/comm"):
        if name.read_text() == "simhca-pager\n":
            return f"{daemon.process.pid}/task/{name.parent.name}"
    return None


@pytest.mark.parametrize("neighbour", [["odp"]], indirect=True, ids=["odp"])
def test_a_userfaultfd_that_blocks(daemon, neighbour):
    """Its program takes O_NONBLOCK off: who reads them all neither spins nor sleeps."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall({"x86_64": 323, "aarch64": 282}[os.uname().machine], os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        pytest.skip("needs a userfaultfd (vm.unprivileged_userfaultfd)")
    libc.mmap.restype = ctypes.c_void_p
    page = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0)))
    # UFFDIO_API with UFFD_FEATURE_EVENT_UNMAP, and UFFDIO_REGISTER for missing pages
    fcntl.ioctl(fd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 1 << 6, 0))
    fcntl.ioctl(fd, 0xC020AA00, struct.pack("QQQQ", page.value, 4096, 1, 0))
    client = daemon.client()
    close_all(client.open())
    assert client.command(NUMBER["SET_USERFAULTFD"], b"", [fd])[0] == 0
    before = cpu_time(pager_of(daemon))
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    # It waits until the event is read.
    unmap = threading.Thread(target=libc.munmap, args=(page, ctypes.c_size_t(4096)), daemon=True)
    unmap.start()
    unmap.join(10)
    assert not unmap.is_alive()
    time.sleep(ATTACK)
    assert cpu_time(pager_of(daemon)) - before < 0.2 * ATTACK * os.sysconf("SC_CLK_TCK")
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
    client.close()
    os.close(fd)


def descriptors_of(daemon):
    """When those of answers are closed, which takes a moment."""
    counts = []
    for _ in range(50):
        counts.append(len(os.listdir(f"/proc/{daemon.process.pid}/fd")))
        time.sleep(0.01)
    return min(counts)


def test_watched_memory(daemon):
    """WATCH_MR of what cannot be watched, and of memory of which very many pieces leave."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, ctypes.c_size_t(64 * 4096), 3, 0x22, -1, ctypes.c_long(0))
    client = daemon.client()
    close_all(client.open())
    pd = client.ok(NUMBER["ALLOC_PD"])[0][:4]
    regions = [client.ok(NUMBER["REG_MR"], struct.pack("QQQ4s3I", page, 64 * 4096, page, pd, access, 0, 0))[0][:4] + bytes(4)
               for access in (1, 1 << 6)]
    watch = NUMBER["WATCH_MR"]
    assert client.command(watch, regions[0])[0] == errno.ENOENT  # there is no userfaultfd yet
    # USER_MODE_ONLY
    fd = libc.syscall({"x86_64": 323, "aarch64": 282}[os.uname().machine], os.O_CLOEXEC | os.O_NONBLOCK | 1)
    assert fd >= 0
    # UFFDIO_API with the events REMAP, REMOVE and UNMAP
    fcntl.ioctl(fd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0x4C, 0))
    client.ok(NUMBER["SET_USERFAULTFD"], b"", [fd])
    os.close(fd)
    held = descriptors_of(daemon)
    assert client.command(watch, struct.pack("II", 99, 0))[0] == errno.ENOENT
    assert client.command(watch, regions[1])[0] == errno.EINVAL  # on-demand
    fds = client.ok(watch, regions[0])[1]
    assert [os.readlink(f"/proc/self/fd/{fd}") for fd in fds] == ["anon_inode:[userfaultfd]"]
    assert client.command(watch, regions[0])[0] == errno.EINVAL  # watched already
    # UFFDIO_REGISTER in write-protect mode
    fcntl.ioctl(fds[0], 0xC020AA00, struct.pack("QQQQ", page, 64 * 4096, 2, 0))
    close_all(fds)
    assert descriptors_of(daemon) == held
    for i in range(0, 64, 2):
        assert libc.munmap(ctypes.c_void_p(page + i * 4096), ctypes.c_size_t(4096)) == 0
    client.ok(NUMBER["DEREG_MR"], regions[0])
    assert libc.munmap(ctypes.c_void_p(page), ctypes.c_size_t(64 * 4096)) == 0
    client.close()
    daemon.client().open()


def cpu_time(task):
    """In the kernel's ticks."""
    fields = pathlib.Path(f"/proc/{task}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_very_many_mappings(daemon, neighbour, program):
    """Also where the kernel cannot be asked for one: their program reads all of them, and nobody else."""
    registers = program("many-mappings", env={"LD_PRELOAD": f"{BUILD}/tests/hostile/hostile-no-map-query.so"})
    assert registers.line() == "done\n"
    before = cpu_time(daemon.process.pid)
    time.sleep(ATTACK)
    assert cpu_time(daemon.process.pid) - before < 0.5 * ATTACK * os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("then", ["raise", "destroy"])
def test_events_read_into_it(daemon, neighbour, slow_file, program, then):
    """Who reads its events into such a page holds the lock of what it reads them from."""
    reader = program("slow-reader", slow_file, then)
    assert reader.line() == "done\n"
    time.sleep(ATTACK)


@pytest.mark.parametrize("then", ["open", "register"])
def test_the_lock_of_an_address_space(daemon, neighbour, slow_file, program, then):
    """Held for writing, and for good, while its program opens a context, or registers memory."""
    holder = program("lock-holder", slow_file, daemon.tree("dev/infiniband/uverbs0"), then)
    assert holder.line() == "done\n"
    if then == "register":
        assert holder.line() == "registered\n"
    time.sleep(ATTACK)


def test_a_death_with_much_memory(daemon, neighbour):
    """A gigabyte of context memory is let go of by threads that do nothing else."""
    client = daemon.client()
    close_all(client.open())
    size = int(client.command(NUMBER["CREATE_CQ"], b"x")[2].rsplit(" ", 1)[1])
    body = struct.pack("24xI", (1 << 22) - 1).ljust(size, b"\0")
    for _ in range(4):
        segment, = struct.unpack_from("32xI", client.ok(NUMBER["CREATE_CQ"], body)[0])
        reply, fds = client.ok(NUMBER["GET_SEGMENT"], struct.pack("II", segment, 0))
        os.posix_fallocate(fds[0], 0, struct.unpack_from("Q", reply)[0])
        close_all(fds)

    def used():
        """In a second: by the main thread, and by the others."""
        names = f"{daemon.process.pid}/task/{daemon.process.pid}", daemon.process.pid
        before = [cpu_time(name) for name in names]
        time.sleep(1)
        main, all_of_it = (cpu_time(name) - then for name, then in zip(names, before))
        return main, all_of_it - main

    # The neighbour's commands are the main thread's as ever.
    usual, _ = used()
    client.close()
    main, others = used()
    assert main - usual <= others, (usual, main, others)


@pytest.mark.private_memory("what was moved into a file is there without its process, and no other's; to map it takes the daemon, which is stopped")
def test_a_number_used_again(daemon, program):
    """A process has ended, which the daemon has had no time to see; another has its number."""
    reborn = program("reborn", str(daemon.process.pid))
    try:
        said = reborn.line()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    if not said and reborn.process.wait(10) == 77:
        pytest.skip("needs to choose process numbers (CAP_CHECKPOINT_RESTORE)")
    assert said == "unharmed\n"


@pytest.fixture
def full_tmpfs(directory):
    """A file system with a sparse file, and no room for any page of it."""
    mountpoint = pathlib.Path(directory, "tmpfs")
    mountpoint.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "simhca-test", mountpoint],
                      check=False).returncode:
        pytest.skip("needs to mount a tmpfs")
    try:
        with open(mountpoint / "sparse", "wb") as sparse, open(mountpoint / "full", "wb", 0) as full:
            sparse.truncate(16 * 4096)
            with pytest.raises(OSError):
                while True:
                    full.write(bytes(4096))
        yield mountpoint
    finally:
        subprocess.run(["umount", "-l", mountpoint], check=True)


def test_a_page_that_cannot_be_had(daemon, neighbour, program, full_tmpfs):
    """Of a registered file: an error of that work request, and no signal."""
    sparse = program("sparse-file", str(full_tmpfs / "sparse"))
    # Refused as any page that is not there, to either side.
    assert sparse.line() == f"{REM_ACCESS_ERR} {REM_ACCESS_ERR}\n"
    assert sparse.line() == "done\n"
    assert daemon.process.poll() is None


def test_no_room_for_the_device_tree(full_tmpfs, start):
    """A daemon that cannot write its files says so, and ends."""
    os.mkdir(full_tmpfs / "run", 0o700)
    daemon = start("--runtime-dir", str(full_tmpfs / "run"))
    assert not daemon.is_ready
    assert daemon.stop() == 1
    assert "No space left on device" in daemon.log


def own_cgroup():
    """The directory of the control group that limits this process's memory; None: there is none."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for root, belongs in ("/sys/fs/cgroup/memory", "memory" in controllers.split(",")), ("/sys/fs/cgroup", not controllers):
            if belongs and (pathlib.Path(root + path) / "cgroup.procs").exists():
                return pathlib.Path(root + path)
    return None


@pytest.fixture
def little_memory():
    """A control group that has 64 MiB, and no swap."""
    above = own_cgroup()
    if not above:
        pytest.skip("needs control groups under /sys/fs/cgroup")
    cgroup = above / f"simhca-hostile-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        pytest.skip(f"needs to make a control group: {error}")
    try:
        files = [cgroup / name for name in ("memory.limit_in_bytes", "memory.max")]
        limit = next((file for file in files if file.exists()), None)
        if not limit:
            pytest.skip("needs the memory controller in its control group")
        limit.write_text(str(64 << 20))
        for name, value in ("memory.memsw.limit_in_bytes", str(64 << 20)), ("memory.swap.max", "0"):
            if (cgroup / name).exists():
                (cgroup / name).write_text(value)
        yield cgroup
    finally:
        cgroup.rmdir()


def test_a_limit_of_memory(daemon, neighbour, program, little_memory):
    """What the device writes to a program's memory counts as that program's, and ends nobody else."""
    hog = program("memory-hog", str(little_memory))
    assert hog.line() == "done\n"
    assert hog.line() == "", "it was not ended"
    assert hog.process.wait(10) == 128 + signal.SIGKILL
    time.sleep(0.5)
    assert daemon.process.poll() is None
    daemon.wait_until(lambda: not (little_memory / "cgroup.procs").read_text())
