# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RDMA netlink as simhcad speaks it: to clients that ask well, badly, or without end."""
import errno
import os
import socket
import struct
import subprocess
import time

import pytest

from protocol import NUMBER, close_all

ALLOC_PD = NUMBER["ALLOC_PD"]
NLMSG_ERROR, NLMSG_DONE, NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 2, 3, 1, 4, 0x300
NLDEV_GET, NLDEV_RES_PD_GET = 5 << 10 | 1, 5 << 10 | 14


def netlink(daemon):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(daemon.tree("netlink/rdma"))
    sock.settimeout(10)
    return sock


def question(kind, flags=0, device=None):
    """A netlink message, with DEV_INDEX if device says so."""
    attributes = b"" if device is None else struct.pack("HHI", 8, 1, device)
    return struct.pack("IHHII", 16 + len(attributes), kind, NLM_F_REQUEST | flags, 1, 0) + attributes


def kind_of(message):
    return struct.unpack_from("IH", message)[1]


def answers(sock):
    """(how many parts, the list's end)"""
    for count in range(100000):
        message = sock.recv(65536)
        assert message, "the daemon has hung up"
        assert len(message) <= 4096
        if kind_of(message) in (NLMSG_DONE, NLMSG_ERROR):
            return count, struct.unpack_from("i", message, 16)[0]
    raise AssertionError("a list without an end")


def test_netlink(daemon):
    with netlink(daemon) as sock:
        sock.send(question(NLDEV_GET, NLM_F_DUMP))
        assert answers(sock) == (1, 0)
        sock.send(question(NLDEV_GET, NLM_F_ACK, 0))
        assert kind_of(sock.recv(4096)) == NLDEV_GET
        assert answers(sock) == (0, 0)
        # Nothing that is no question gets an answer, or does harm.
        for noise in b"", b"x", bytes(15), bytes(16), question(NLDEV_GET)[:-1], bytes(4096):
            sock.send(noise)
        sock.send(question(NLDEV_GET, 0, 0) + bytes(5000))
        assert answers(sock) == (0, -errno.EMSGSIZE)
        sock.send(question(NLDEV_GET, NLM_F_ACK, 1))
        assert answers(sock) == (0, -errno.EINVAL)


def test_netlink_descriptors(daemon):
    """Descriptors that come along are closed."""
    with netlink(daemon) as sock, open("/dev/null") as null:
        sock.send(question(NLDEV_GET, NLM_F_DUMP))
        assert answers(sock) == (1, 0)
        before = daemon.fds()
        for _ in range(100):
            socket.send_fds(sock, [question(NLDEV_GET, NLM_F_DUMP)], [null.fileno()] * 5)
            assert answers(sock) == (1, 0)
        daemon.wait_until(lambda: daemon.fds() == before)
    daemon.wait_until(lambda: daemon.fds() < before)


def memory(daemon):
    """Bytes that the daemon itself has."""
    with open(f"/proc/{daemon.process.pid}/statm") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGESIZE")


def test_netlink_client_that_does_not_read(daemon):
    """
    It gets what the socket has room for, and nothing more is taken from it. The daemon has no more
    of it than one datagram each way, serves the others, and sleeps.
    """
    holder = daemon.client()
    close_all(holder.open())
    for _ in range(2000):
        holder.ok(ALLOC_PD)
    clients = [netlink(daemon) for _ in range(20)]
    before = memory(daemon)
    for sock in clients:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            for _ in range(100000):
                sock.send(question(NLDEV_RES_PD_GET, NLM_F_DUMP, 0))
    assert memory(daemon) - before < 4 << 20
    with netlink(daemon) as sock:
        sock.send(question(NLDEV_RES_PD_GET, NLM_F_DUMP, 0))
        assert answers(sock)[0] > 10

    def ticks():
        with open(f"/proc/{daemon.process.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")")[1].split()[11:13]))

    started = ticks()
    time.sleep(0.5)
    assert ticks() - started < 10  # of 10 ms
    # It reads after all: every question has its list, complete.
    clients[0].settimeout(10)
    for _ in range(3):
        assert answers(clients[0]) == answers(clients[0])
    # Another one goes in the middle of a list.
    for sock in clients:
        sock.close()
    holder.close()
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] == 0)


def test_netlink_flood(daemon):
    """Of too many clients the one that was silent for longest goes; the one that asks stays."""
    subprocess.run(["prlimit", "--nofile=4096:4096", "--pid", str(daemon.process.pid)], check=True)
    before = daemon.fds()
    with netlink(daemon) as busy:
        clients = []
        for _ in range(1200):
            clients.append(netlink(daemon))
            busy.send(question(NLDEV_GET, NLM_F_DUMP))
            assert answers(busy) == (1, 0)
        daemon.wait_until(lambda: daemon.fds() <= before + 1024)
        assert clients[0].recv(10) == b""
        clients[-1].send(question(NLDEV_GET, NLM_F_DUMP))
        assert answers(clients[-1]) == (1, 0)
    for sock in clients:
        sock.close()
    daemon.wait_until(lambda: daemon.fds() <= before)
