# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Commands that cost much, commands of the dead, and those that say they are somebody else's."""
import array
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from protocol import MAGIC, NUMBER, VERSION, close_all


def request(name, body=b""):
    return struct.pack("IHHII", MAGIC, VERSION, NUMBER[name], 16 + len(body), 0) + body


def test_commands_of_the_dead(daemon, neighbour):
    """What a program had sent when it ended is not carried out any more."""
    client = daemon.client()
    close_all(client.open())
    client.sock.setblocking(False)
    sent = 0
    # The daemon is stopped, so that all of it waits when the program goes.
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BlockingIOError):
            while True:
                client.sock.send(request("DEALLOC_PD", bytes(8)))
                sent += 1
        client.close()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert sent > 100
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] <= 1)
    daemon.log_file.seek(0)
    assert daemon.log_file.read().count("DEALLOC_PD") == 0


def as_sender(sock, data, pid, fds):
    """As root, with a forged process number."""
    credentials = struct.pack("3i", pid, os.getuid(), os.getgid())
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials),
                          (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def test_in_the_name_of_the_daemon(daemon, neighbour):
    """root can send credentials with any number, the daemon's own too: its memory is not reached."""
    if os.geteuid():
        pytest.skip("needs root, to forge credentials")
    client = daemon.client()
    close_all(client.open())
    pd = client.ok(NUMBER["ALLOC_PD"])[0][:4]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    body = struct.pack("QQQ", 4096, 4096, 4096) + pd
    as_sender(client.sock, request("REG_MR", body.ljust(40, b"\0")), daemon.process.pid,
              [theirs.fileno()])
    theirs.close()
    ours.settimeout(10)
    assert struct.unpack_from("I", ours.recv(4096), 4)[0] == errno.EPERM
    time.sleep(1)


@pytest.fixture
def few_descriptors(daemon):
    """As many as most systems give a program that does not ask for more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("name", ["ALLOC_ASYNC_FD", "CREATE_CHANNEL", "OPEN_XRCD"])
def test_descriptors_without_end(daemon, few_descriptors, neighbour, name, tmp_path):
    client = daemon.client()
    close_all(client.open())
    got, body, files = [], b"", []
    if name == "OPEN_XRCD":
        wanted = client.command(NUMBER[name], bytes(1))[2]
        body = struct.pack("II", 1, 1).ljust(int(wanted.rsplit(" ", 1)[1]), b"\0")
    status = 0
    while not status and len(got) < 2000:
        if name == "OPEN_XRCD":
            path = tmp_path / str(len(got))
            path.touch()
            files = [os.open(path, os.O_RDWR)]
        status, _, message, fds = client.command(NUMBER[name], body, files)
        close_all(files)
        got.append(fds)
    assert status == errno.EMFILE and "ulimit -n" in message
    assert len(got) > 100
    time.sleep(0.5)
    for fds in got:
        close_all(fds)
    client.close()


def test_descriptors_of_many_connections(daemon, few_descriptors, neighbour):
    """One has an eighth of them, and all of a program have a quarter."""
    clients, channels, counts = [daemon.client() for _ in range(4)], [], []
    for client in clients:
        close_all(client.open())
        before, status = len(channels), 0
        while not status and len(channels) < 1000:
            status, _, message, fds = client.command(NUMBER["CREATE_CHANNEL"])
            channels += fds
        assert status == errno.EMFILE
        counts.append(len(channels) - before)
    assert "a quarter" in message and "ulimit -n" in message
    assert counts[0] > 100 and counts[3] == 0 and len(channels) <= 1024 // 4
    time.sleep(0.5)
    close_all(channels)
    for client in clients:
        client.close()


def test_connections_without_end(daemon, few_descriptors, neighbour):
    """One process has a quarter of them, whether it does anything with them or not."""
    clients = []
    while len(clients) < 1000:
        clients.append(daemon.client())
        # Refused: its end can be read.
        if select.select([clients[-1].sock], [], [], 0.05 if len(clients) > 250 else 0)[0]:
            break
    assert 250 < len(clients) < 300
    time.sleep(0.5)
    for client in clients:
        client.close()


CHILDREN = """if True:
    import os, signal, socket, sys
    for _ in range(5):
        if os.fork():
            continue
        mine = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(200)]
        for sock in mine:
            sock.connect(sys.argv[1])
        os.write(1, b"connected\\n")
        signal.pause()
    signal.pause()
"""


def test_connections_of_children(daemon, few_descriptors, neighbour):
    """None has a quarter, and all together have half."""
    attacker = subprocess.Popen([sys.executable, "-c", CHILDREN, daemon.tree("dev/infiniband/uverbs0")],
                                stdout=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(5):
            assert attacker.stdout.readline() == b"connected\n"
        daemon.wait_until(lambda: daemon.fds() > 500)
        time.sleep(0.5)
        assert daemon.fds() < 600
    finally:
        os.killpg(attacker.pid, signal.SIGKILL)
        attacker.wait(10)
        attacker.stdout.close()


LARGEST = (1 << 22) - 1
CQ_CI, CQ_PI = 0, 64  # in struct simhca_cq_mem


def full_cq(client):
    """The handle of the largest there is: all of it is used, as its indices have it."""
    size = int(client.command(NUMBER["CREATE_CQ"], b"x")[2].rsplit(" ", 1)[1])
    reply = client.ok(NUMBER["CREATE_CQ"], struct.pack("24xI", LARGEST).ljust(size, b"\0"))[0]
    handle, state, state_at, ring = struct.unpack_from("I12xI4xQI", reply)
    for segment in {state, ring}:
        fds = client.ok(NUMBER["GET_SEGMENT"], struct.pack("II", segment, 0))[1]
        if segment == state:
            os.pwrite(fds[0], struct.pack("I", LARGEST), state_at + CQ_PI)
        if segment == ring:
            os.posix_fallocate(fds[0], 0, os.fstat(fds[0]).st_size)
        close_all(fds)
    return handle


@pytest.mark.parametrize("name, count", [("RESIZE_CQ", 40), ("DESTROY_CQ", 4)])
def test_very_large_cqs(daemon, neighbour, name, count):
    """A gigabyte of them is moved, or given back, bit by bit: others' commands go on meanwhile."""
    client = daemon.client()
    close_all(client.open())
    handles = [full_cq(client) for _ in range(4)]
    answers = []
    for number in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        body = struct.pack("4I", handles[number % 4], LARGEST, 0, 0) if name == "RESIZE_CQ" else \
            struct.pack("II", handles[number], 0)
        socket.send_fds(client.sock, [request(name, body)], [theirs.fileno()])
        theirs.close()
        answers.append(ours)
    time.sleep(2.5)
    client.close()
    close_all(answer.detach() for answer in answers)


def test_a_flood_of_reports(daemon, neighbour):
    """`simhca mr` of a program with very many regions, again and again: made bit by bit."""
    client = daemon.client()
    close_all(client.open())
    pd = client.ok(NUMBER["ALLOC_PD"])[0][:4]
    null_mr = struct.pack("QQQ4sII", 0, 0, 0, pd, 0, 1).ljust(40, b"\0")
    for _ in range(10000):
        client.ok(NUMBER["REG_MR"], null_mr)
    controls = [daemon.control() for _ in range(8)]
    for control in controls:
        for _ in range(10):
            control.send(b'{"cmd":"mr"}')
    for control in controls:
        control.settimeout(60)
        reports = 0
        for _ in range(10):
            text, fds, _, _ = socket.recv_fds(control, 65536, 1)
            if not fds:
                assert "not ready" in json.loads(text)["error"]
                continue
            with os.fdopen(fds[0], "rb") as file:
                assert len(json.load(file)) >= 10000
            reports += 1
        assert reports
    for control in controls:
        control.close()
    client.close()
