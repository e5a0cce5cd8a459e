# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The main thread: reports of very much, for those who do not read them, connections without end,
and programs that end together. Others are served meanwhile."""
import contextlib
import json
import os
import resource
import select
import signal
import socket
import time

import pytest

from attack import ATTACK, BOUND
from protocol import NUMBER, close_all, command
from scripted import running

REPORTS = ["status", "qp", "cq", "srq", "mr", "cm", "wire", "explain", "lint", "inject"]

MANY_IDS = """
channel = Channel()
flood(channel, CREATE_ID, 15000 * [struct.pack("<QQHB5x", 7, 0, TCP, 2)])
channel.create()
print("made", flush=True)
sys.stdin.read()
"""

MANY_LISTENERS = """
channel = Channel()
flood(channel, CREATE_ID, 28000 * [struct.pack("<QQHB5x", 7, 0, TCP, 2)])
channel.create()
flood(channel, LISTEN, [struct.pack("<II", id, 1) for id in range(28000)])
channel.create()
print(os.getpid(), flush=True)
sys.stdin.read()
"""

MANY_OBJECTS = """
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
context = Context(name="simhca0")
pd = PD(context)
cqs = [CQ(context, 1) for _ in range(1000)]
cap = QPCap(max_send_wr=1, max_recv_wr=1)
qps = [QP(pd, QPInitAttr(qp_type=2, scq=cqs[0], rcq=cqs[0], cap=cap)) for _ in range(1000)]
mrs = [MR(pd, 4096, 0) for _ in range(1000)]
print("made", flush=True)
sys.stdin.read()
os._exit(0)
"""

IDLE_CONTEXTS = """
from pyverbs.device import Context
contexts = [Context(name="simhca0") for _ in range(2000)]
print("made", flush=True)
sys.stdin.read()
os._exit(0)
"""

MANY_CONTEXTS = """
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
mrs = []
for _ in range(200):
    pd = PD(Context(name="simhca0"))
    mrs += [MR(pd, 4096, 0) for _ in range(200)]
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def asks(sock, command):
    sock.send(json.dumps({"cmd": command}).encode())


def answer(sock):
    """The JSON, and what the memfd holds if there is one."""
    text, fds, _, _ = socket.recv_fds(sock, 65536, 1)
    said = json.loads(text)
    if not fds:
        return said, None
    with os.fdopen(fds[0], "rb") as file:
        return said, json.load(file)


@pytest.mark.parametrize("command", REPORTS)
def test_reports_that_nobody_reads(daemon, neighbour, command):
    """
    Asked for again and again by connections that end at once: each takes a moment at a time, and
    none is made for who has gone.
    """
    with running(daemon, MANY_IDS) as (_, line):
        assert line == "made\n"
        end = time.monotonic() + ATTACK / 4 * (4 if command == "cm" else 1)
        while time.monotonic() < end:
            asked = [daemon.control() for _ in range(8)]
            for sock in asked:
                for _ in range(20):
                    with contextlib.suppress(BlockingIOError):
                        sock.send(json.dumps({"cmd": command}).encode(), socket.MSG_DONTWAIT)
            for sock in asked:
                sock.close()
        before = time.monotonic()
        assert daemon.status()["rdma_cm"]["ids"] >= 15001
        assert time.monotonic() - before < BOUND


@pytest.mark.parametrize("command, program, length",
                         [("cm", MANY_IDS, 15001), ("status", IDLE_CONTEXTS, None),
                          ("qp", MANY_OBJECTS, 1000), ("cq", MANY_OBJECTS, 1000),
                          ("mr", MANY_OBJECTS, 1000)])
def test_others_come_between(daemon, command, program, length):
    """A report of very much is made bit by bit: what another connection asks for is there before."""
    def others_meanwhile():
        """How many answers of another connection came while the report was made."""
        asks(asker, command)
        for count in range(1000):
            asks(other, "nothing that is known")
            assert not answer(other)[0]["ok"]
            if select.select([asker], [], [], 0)[0]:
                break
        said, report = answer(asker)
        assert said["ok"] and (length is None or len(report) >= length)
        return count
    with running(daemon, program) as (_, line), daemon.control() as asker, daemon.control() as other:
        assert line == "made\n"
        # One comes before the report is begun, and one at its end. Who is not run for a while has fewer.
        assert max(others_meanwhile() for _ in range(20)) > 3


def test_answers_in_order(daemon):
    """Of one connection: what is quick to answer waits for the report that was asked for before."""
    with running(daemon, MANY_IDS), daemon.control() as sock:
        for name in "cm", "nothing that is known", "status":
            asks(sock, name)
        assert [answer(sock)[0]["ok"] for _ in range(3)] == [True, False, True]


def test_answers_that_nobody_reads(daemon):
    """The daemon takes no further request of who leaves some unread, and no answer is lost."""
    with daemon.control() as sock:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 20000:
                sock.send(b'{"cmd":"?"}', socket.MSG_DONTWAIT)
                sent += 1
                if not sent % 100:
                    assert daemon.status()["ok"]  # which it has time for, and for the requests
        assert sent < 20000
        sock.settimeout(10)
        for _ in range(sent):
            assert not answer(sock)[0]["ok"]


FLOOD = """
import json, socket, sys, time
path, count = sys.argv[1], int(sys.argv[2])
socks = []
for _ in range(count):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(path)
    socks.append(sock)
refused = 0
for sock in socks:
    try:
        sock.send(b'{"cmd":"?"}')
        refused += "as many connections" in json.loads(sock.recv(65536))["error"]
    except (BrokenPipeError, ConnectionResetError):
        refused += "as many connections" in json.loads(sock.recv(65536))["error"]
print(refused, flush=True)
while len(sys.argv) > 3:
    for sock in socks:
        try:
            sock.send(b'{"cmd":"?"}', socket.MSG_DONTWAIT)
            sock.recv(65536, socket.MSG_DONTWAIT)
        except OSError:
            pass
sys.stdin.read()
"""


def test_connections_without_end(daemon, neighbour):
    """A program has a part of the daemon's descriptors, and is told so; others are served."""
    limit = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[0]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (1600, limit))
    path = os.path.join(daemon.directory, "control")
    with running(daemon, FLOOD, path, 300) as (_, refused):
        assert 200 <= int(refused) <= 202  # `simhca run` has a connection, too
        assert daemon.status()["ok"]


def test_a_flood_of_connections(daemon, neighbour):
    """Each of which asks as often as it can: they have the main thread for a part of the time."""
    path = os.path.join(daemon.directory, "control")
    with running(daemon, FLOOD, path, 100, "on"):
        end = time.monotonic() + ATTACK
        while time.monotonic() < end:
            before = time.monotonic()
            assert daemon.status()["ok"]
            assert time.monotonic() - before < BOUND


def test_a_flood_of_commands(daemon):
    """Of many connections, each with as many as it can send: what others ask for is there before."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(daemon.client())) for _ in range(40)]
        for client in clients:
            close_all(client.open())
        askers = [stack.enter_context(daemon.control()) for _ in range(20)]
        daemon.process.send_signal(signal.SIGSTOP)
        without_answer = command(NUMBER["ALLOC_PD"], answer=1)
        for client in clients:
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.sock.send(without_answer, socket.MSG_DONTWAIT)
        for sock in askers:
            asks(sock, "status")
        daemon.process.send_signal(signal.SIGCONT)
        pds = [answer(sock)[1]["devices"][0]["counts"]["pds"] for sock in askers]
        assert len(set(pds)) > 3, pds


def test_told_to_end_beside_reports(daemon):
    """SIGTERM ends the daemon while reports are made, and while they are asked for without pause."""
    with running(daemon, MANY_IDS), running(daemon, FLOOD, os.path.join(daemon.directory, "control"), 50, "on"):
        askers = [daemon.control() for _ in range(16)]
        for sock in askers:
            asks(sock, "cm")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(10) == 0
        for sock in askers:
            sock.close()


def after_the_end(daemon, pid, count):
    """What count() says of the reports of status that are asked for when the program has ended, and
    before the daemon has seen that."""
    with contextlib.ExitStack() as stack:
        askers = [stack.enter_context(daemon.control()) for _ in range(40)]
        daemon.process.send_signal(signal.SIGSTOP)
        os.kill(int(pid), signal.SIGKILL)
        daemon.wait_until(lambda: not os.path.exists("/proc/" + pid.strip()))
        for sock in askers:
            asks(sock, "status")
        daemon.process.send_signal(signal.SIGCONT)
        return [count(answer(sock)[1]) for sock in askers]


def test_many_end_together(daemon):
    """Contexts of which each ends in a moment, and all of them at once: others come between."""
    def contexts(status):
        return status["devices"][0]["contexts"]
    with running(daemon, MANY_CONTEXTS) as (_, pid):
        left = after_the_end(daemon, pid, contexts)
        assert len(set(left)) > 3, left
        daemon.wait_until(lambda: not contexts(daemon.status()))


def test_a_channel_of_many_ids_ends(daemon):
    """Likewise, of one event channel of rdma_cm."""
    def ids(status):
        return status["rdma_cm"]["ids"]
    with running(daemon, MANY_LISTENERS) as (_, pid):
        left = after_the_end(daemon, pid, ids)
        assert len(set(left)) > 3, left
        daemon.wait_until(lambda: not ids(daemon.status()))
