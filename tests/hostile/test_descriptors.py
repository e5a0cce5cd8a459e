# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What clients hand over can be any file. Asking or closing some of them takes as long as their
owner likes."""
import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from attack import ATTACK
from protocol import MAGIC, NUMBER, VERSION, Client, close_all


def request(name, body=b""):
    return struct.pack("IHHII", MAGIC, VERSION, NUMBER[name], 16 + len(body), 0) + body


def lingering_socket():
    """A TCP socket whose last close() waits for a minute: its peer takes no more data."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ours = socket.create_connection(listener.getsockname())
        peer = listener.accept()[0]
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 20))
    except BlockingIOError:
        pass
    ours.setblocking(True)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return ours, peer


def close_late(fds):
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


class Slow:
    """Descriptors that take long to close, each alive only in what was sent."""

    def __init__(self, daemon, kind, server):
        self.daemon, self.kind, self.server, self.peers = daemon, kind, server, []

    def give(self, sock, data, answer=None, count=1):
        """Sends data with count of them, in front of them the socket for the answer."""
        before = [answer] if answer is not None else []
        if self.kind == "fuse":
            fds = [os.open(self.server.mountpoint + "/slow", os.O_RDWR) for _ in range(count)]
            try:
                socket.send_fds(sock, [data], before + fds)
            finally:
                # Each close waits, ours as well: in a thread that nobody waits for.
                threading.Thread(target=close_late, args=(fds,), daemon=True).start()
            return
        # The last close waits, and is to be the daemon's.
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            made = [lingering_socket() for _ in range(count)]
            socket.send_fds(sock, [data], before + [ours.fileno() for ours, _ in made])
            for ours, peer in made:
                ours.close()
                self.peers.append(peer)
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)


@pytest.fixture(params=["linger", "fuse"])
def slow(request, daemon):
    slow = Slow(daemon, request.param, request.getfixturevalue("slow_server") if request.param == "fuse" else None)
    yield slow
    for peer in slow.peers:
        peer.close()


@pytest.fixture
def client(daemon):
    client = daemon.client()
    close_all(client.open())
    yield client
    client.close()


def test_as_an_answer_socket(client, neighbour, slow):
    for _ in range(3):
        slow.give(client.sock, request("ALLOC_PD"))
    time.sleep(ATTACK)


def test_before_the_context_is_open(daemon, neighbour, slow):
    client = daemon.client()
    slow.give(client.sock, b"noise")
    time.sleep(ATTACK)
    client.close()


def test_more_than_a_command_takes(client, neighbour, slow):
    """What finds no room in the message is not closed by the kernel as the message is received."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    slow.give(client.sock, request("ALLOC_PD"), theirs.fileno(), 12)
    ours.settimeout(10)
    assert ours.recv(4096)
    time.sleep(ATTACK)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("slow", ["fuse"], indirect=True)
def test_very_many(daemon, client, neighbour, slow):
    """
    One process has a share of the threads that sleep for it, and others have theirs. It is asked for
    no more while as many of its descriptors wait as are its share.
    """
    before = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    client.sock.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        for _ in range(100):
            slow.give(client.sock, request("ALLOC_PD"), count=8)
    time.sleep(ATTACK)
    assert len(os.listdir(f"/proc/{daemon.process.pid}/fd")) - before < 200


CHILDREN = """if True:
    import os, signal, socket, sys
    count, node, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    for _ in range(count):
        if os.fork():
            continue
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(node)
        socket.send_fds(sock, [b"noise"], [os.open(path, os.O_RDWR) for _ in range(9)])
        signal.pause()
    print("done", flush=True)
    signal.pause()
"""


def test_children_of_one_program(daemon, neighbour, slow_file):
    """Each has the share of a process, all together that of a program: others can be served."""
    attacker = subprocess.Popen(
        [sys.executable, "-c", CHILDREN, "40", daemon.tree("dev/infiniband/uverbs0"), slow_file],
        stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert attacker.stdout.readline() == b"done\n"
        time.sleep(ATTACK)
        assert 60 < len(os.listdir(f"/proc/{daemon.process.pid}/task")) < 100
    finally:
        os.killpg(attacker.pid, signal.SIGKILL)
        attacker.wait(10)
        attacker.stdout.close()


def test_on_the_control_socket(daemon, neighbour, slow):
    with daemon.control() as control:
        slow.give(control, b'{"cmd":"status"}', count=2)
        time.sleep(ATTACK)


@pytest.mark.parametrize("slow", ["linger"], indirect=True)
def test_in_the_queue_of_an_answer_socket(daemon, client, neighbour, slow):
    """Closing a Unix socket closes what waits in it, and so does sending when its peer has gone."""
    for kind in socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        slow.give(ours, b"x")
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            socket.send_fds(client.sock, [request("ALLOC_PD")], [theirs.fileno()])
            ours.close()
            theirs.close()
        finally:
            daemon.process.send_signal(signal.SIGCONT)
    time.sleep(ATTACK)


def test_in_the_queue_of_a_connection_that_ends(daemon, neighbour, slow):
    client = daemon.client()
    close_all(client.open())
    for _ in range(3):
        slow.give(client.sock, request("ALLOC_PD"))
    client.close()
    time.sleep(ATTACK)


def test_where_a_file_is_wanted(client, neighbour, slow):
    """Refused, or taken, at once; nobody asks it what it is."""
    for name, count in ("REG_DMABUF_MR", 1), ("SET_USERFAULTFD", 1), ("OPEN_XRCD", 1), ("SET_AGENT", 2):
        wanted = client.command(NUMBER[name], bytes(1))[2]
        body = bytearray(int(re.search(r"should have (\d+)$", wanted)[1]))
        if name == "REG_DMABUF_MR":
            struct.pack_into("QQ", body, 0, 0, 4096)
        if name == "OPEN_XRCD":
            struct.pack_into("II", body, 0, 1, 1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        slow.give(client.sock, request(name, bytes(body)), theirs.fileno(), count)
        theirs.close()
        ours.settimeout(5)
        assert len(ours.recv(4096)) >= 176, name
        ours.close()
    time.sleep(ATTACK)


def test_a_socket_whose_lock_is_held(client, neighbour, slow_file):
    """A thread that sleeps in a page fault inside of send() holds the socket's lock meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ours = socket.create_connection(listener.getsockname())
        peer = listener.accept()[0]
    # In a process of its own: that thread cannot be ended before the file system is.
    holder = subprocess.Popen(
        [sys.executable, "-c", """if True:
            import ctypes, os, socket, sys
            libc = ctypes.CDLL(None)
            libc.mmap.restype = ctypes.c_void_p
            page = libc.mmap(None, ctypes.c_size_t(4096), 1, 2, os.open(sys.argv[2], os.O_RDONLY), ctypes.c_long(0))
            print("in", flush=True)
            libc.send(int(sys.argv[1]), ctypes.c_void_p(page), ctypes.c_size_t(4096), 0)
            """, str(ours.fileno()), slow_file], pass_fds=[ours.fileno()], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"in\n"
    time.sleep(0.3)
    for _ in range(3):
        socket.send_fds(client.sock, [request("ALLOC_PD")], [ours.fileno()])
    time.sleep(ATTACK)
    assert holder.poll() is None, "nobody held the lock"
    holder.kill()
    peer.close()
    threading.Thread(target=ours.close, daemon=True).start()


def test_threads_and_descriptors_are_back(daemon, slow):
    """After a storm: as soon as the files can be closed, nothing of it is left."""
    def threads():
        return len(os.listdir(f"/proc/{daemon.process.pid}/task"))

    before = daemon.fds(), threads()
    client = Client(daemon.tree("dev/infiniband/uverbs0"))
    close_all(client.open())
    # All at once: a thread that lingers is let go of when the daemon is stopped for the next one.
    slow.give(client.sock, request("ALLOC_PD"), count=8)
    daemon.wait_until(lambda: threads() > before[1] + 5)
    client.close()
    for peer in slow.peers:
        peer.close()
    if slow.kind == "fuse":
        # The file system goes, and whoever waits for it is let go of.
        slow.server.kill()
    daemon.wait_until(lambda: daemon.fds() <= before[0] and threads() <= before[1])
