# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Connections by rdma_cm: without end, without anybody who fetches them, and cut off halfway."""
import errno
import os
import pathlib
import re
import time

import pytest

from attack import BOUND
from scripted import running

ATTACK = 1.6  # seconds, longer than BOUND


def counts(daemon):
    return daemon.status()["rdma_cm"]


def resident(daemon):
    """KiB of the daemon's own."""
    text = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", text)[1])


# One listener, and a client of its own again and again; the worst connection of all is printed.
HONEST = """
import select, time
server, client, worst, rounds = Channel(), Channel(), 0, 0
number, port = listener(server)
end = select.poll()
end.register(0)
while not end.poll(5):
    began = time.monotonic()
    active = client.create()
    client.resolve(active, port)
    client.connect(active, next(QPNS))
    kind, passive, *_ = server.event()
    assert kind == CONNECT_REQUEST
    server.accept(passive, 3, next(QPNS))
    assert client.event()[0] == CONNECT_RESPONSE
    client.establish(active)
    assert server.event()[:2] == (ESTABLISHED, passive)
    client.destroy(active)
    assert server.event()[:2] == (DISCONNECTED, passive)
    server.destroy(passive)
    worst = max(worst, time.monotonic() - began)
    rounds += 1
    if rounds == 1:
        print("here", flush=True)
print(worst, rounds, flush=True)
"""


@pytest.fixture
def connections(daemon):
    """An honest program that connects, beside the attack."""
    with running(daemon, HONEST) as (process, _):
        yield process
        worst, rounds = process.communicate("end\n", timeout=60)[0].split()
        assert float(worst) < BOUND and int(rounds) > 3


LISTENS = """
channel = Channel()
number, port = listener(channel, 1024)
print(port, flush=True)
"""
FLOODS = """
channel = Channel()
print("floods", flush=True)
while True:
    client = channel.create()
    channel.resolve_addr(client, address(int(sys.argv[1])))
    while channel.event()[0] != ADDR_RESOLVED:
        pass
    channel.command(RESOLVE_ROUTE, struct.pack("<II", client, 1000))
    while channel.event()[0] != ROUTE_RESOLVED:
        pass
    channel.connect(client, next(QPNS) & 0xffffff)
    if sys.argv[2] == "destroy" or client > 3000:
        channel.destroy(client)
"""


@pytest.mark.parametrize("what", ["destroy", "keep"])
def test_a_flood_of_requests(daemon, neighbour, connections, what):
    """To a listener that never fetches one: its backlog is all that they fill."""
    with running(daemon, LISTENS + "sys.stdin.read()") as (listener, port), \
            running(daemon, FLOODS, port.strip(), what):
        time.sleep(ATTACK)
        seen = counts(daemon)
        assert 100 < seen["events"] <= 1024 + 10
        assert listener.poll() is None
    daemon.wait_until(lambda: counts(daemon)["channels"] == 2)  # of the honest program


OWN_EVENTS = """
event = struct.pack("<IIIQ", 0, USER, 0, 0) + bytes(296)
channels = []
for _ in range(18):
    channels.append(Channel())
    number = struct.pack("<I", channels[-1].create())
    flood(channels[-1], WRITE_CM_EVENT, 3999 * [number + event])
try:
    channels[-1].command(WRITE_CM_EVENT, number + event)
    print("one more", flush=True)
except Refused as refused:
    print(refused.args[0], flush=True)
sys.stdin.read()
"""


def test_events_that_nobody_fetches(daemon, neighbour, connections):
    """A process has so many, however many channels it spreads them over."""
    before = resident(daemon)
    with running(daemon, OWN_EVENTS) as (_, line):
        assert line == f"{errno.ENOMEM}\n"
        assert 65536 <= counts(daemon)["events"] < 66000
        assert resident(daemon) - before < 60 << 10
    daemon.wait_until(lambda: counts(daemon)["events"] < 10)


EVENTS_OF_MANY = """
channel, ids = Channel(), 40000
event = struct.pack("<IIIQ", 0, USER, 0, 0) + bytes(296)
flood(channel, CREATE_ID, ids * [struct.pack("<QQHB5x", 7, 0, TCP, 2)])
last = channel.create()
flood(channel, WRITE_CM_EVENT, (struct.pack("<I", last - n) + event for n in range(ids)))
channel.command(WRITE_CM_EVENT, struct.pack("<I", last) + event)
print("done", flush=True)
sys.stdin.read()
"""


def test_events_of_many_ids(daemon, neighbour):
    """They go with their ids, all at once, when the program ends."""
    with running(daemon, EVENTS_OF_MANY) as (_, line):
        assert line == "done\n"
        assert counts(daemon)["events"] == 40001
    daemon.wait_until(lambda: counts(daemon)["ids"] == 0)


WITHOUT_END = """
udp, channel = Channel(), Channel()
number = udp.create(UDP)
udp.bind(number, address())
join = struct.pack("<QQIHH", 0, 9, number, 16, 0) + address(0, "239.1.2.3").ljust(128, b"x")
flood(udp, JOIN_MCAST, 30000 * [join])
flood(channel, CREATE_ID, 40000 * [struct.pack("<QQHB5x", 7, 0, TCP, 2)])
for command in lambda: channel.create(), lambda: udp.command(JOIN_MCAST, join, 4, 0):
    try:
        command()
        print("one more", end=" ")
    except Refused as refused:
        print(refused.args[0], end=" ")
print(flush=True)
sys.stdin.read()
"""


def test_objects_without_end(daemon, neighbour, connections):
    """A process has so many ids and memberships together, and then ENOMEM."""
    before = resident(daemon)
    with running(daemon, WITHOUT_END) as (_, line):
        assert line == f"{errno.ENOMEM} {errno.ENOMEM} \n"
        assert 65536 - 30000 <= counts(daemon)["ids"] < 65536 - 30000 + 5
        assert resident(daemon) - before < 100 << 10
    daemon.wait_until(lambda: counts(daemon)["ids"] < 10)


ALL_PORTS = """
channel = Channel()
first = channel.create()
flood(channel, CREATE_ID, 28300 * [struct.pack("<QQHB5x", 7, 0, TCP, 2)])
channel.bind(channel.create(), address())
ids = range(first, first + 28200)
for number in ids:
    channel.bind(number, address())
print("most", flush=True)
sys.stdin.readline()
left = 0
try:
    for number in range(ids.stop, first + 28301):
        channel.bind(number, address())
        left += 1
except Refused as refused:
    last = refused.args[0]
for _ in range(2000):
    try:
        channel.bind(number, address())
    except Refused:
        pass
print(left, last, flush=True)
sys.stdin.read()
"""


def cpu_seconds(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_every_port_is_taken(daemon, neighbour):
    """Each is given once. To find that none is left takes the thread that serves everybody no walk over them all."""
    with running(daemon, ALL_PORTS) as (process, line):
        assert line == "most\n"
        before = cpu_seconds(daemon)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{60999 - 32768 + 1 - 28200 - 1} {errno.EADDRNOTAVAIL}\n"
        assert cpu_seconds(daemon) - before < 1
    daemon.wait_until(lambda: counts(daemon)["ids"] < 10)


HAS_A_QP = """
import signal
signal.alarm(30)
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
cq = CQ(context := Context(name="simhca0"), 1)
qp = QP(PD(context), QPInitAttr(qp_type=2, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)))
print(qp.qp_num, flush=True)
server, client = Channel(), Channel()
number, port = listener(server)

def connect(active_qpn, passive_qpn):
    try:
        active = client.create()
        client.resolve(active, port)
        client.connect(active, active_qpn)
        server.accept(server.event()[1], 3, passive_qpn)
        return client.event()[0] == CONNECT_RESPONSE
    except Refused as refused:
        return refused.args[0]
"""
OWN_QP = HAS_A_QP + """
sys.stdin.readline()
print(connect(qp.qp_num, next(QPNS)), flush=True)
"""
OTHERS_QP = HAS_A_QP + """
print(connect(int(sys.argv[1]), qp.qp_num), connect(qp.qp_num, int(sys.argv[1])), flush=True)
"""


def test_another_ones_qp(daemon, neighbour):
    """Nobody speaks for it: to the peer its connection would be over."""
    with running(daemon, OWN_QP) as (owner, number):
        with running(daemon, OTHERS_QP, number.strip()) as (other, _):
            assert other.stdout.readline() == f"{errno.EINVAL} {errno.EINVAL}\n"
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "True\n"


# Children of one program, which end themselves at a certain point.
DYING = """
def child(code):
    pid = os.fork()
    if not pid:
        code()
        os.kill(os.getpid(), 9)
    assert os.waitpid(pid, 0)[1] == 9
"""
DIES = DYING + """
def both_ends():
    server, client = Channel(), Channel()
    number, port = listener(server)
    active = client.create(uid=2)
    client.resolve(active, port)
    client.connect(active, ACTIVE())
    if sys.argv[1] != "request":
        server.accept(server.event()[1], 3, PASSIVE())
    if sys.argv[1] == "established":
        assert client.event()[0] == CONNECT_RESPONSE
        client.establish(active)

for _ in range(50):
    child(both_ends)
print("done", flush=True)
"""


@pytest.mark.parametrize("when", ["request", "reply", "established"])
def test_killed_halfway(daemon, neighbour, connections, when):
    """Nothing of it stays, and nobody is held up."""
    with running(daemon, DIES, when) as (_, line):
        assert line == "done\n"
    daemon.wait_until(lambda: counts(daemon)["channels"] == 2)
    assert counts(daemon)["ids"] <= 3


ACCEPTS = LISTENS + """
while True:
    kind, number, *_ = channel.event()
    if kind == CONNECT_REQUEST:
        try:
            channel.accept(number, 3, next(QPNS) & 0xffffff)
        except Refused:
            channel.destroy(number)
    else:
        channel.destroy(number)
"""
CLIENTS_DIE = DYING + """
def connect():
    channel = Channel()
    client = channel.create(uid=2)
    channel.resolve(client, int(sys.argv[1]))
    channel.connect(client, ACTIVE())

for _ in range(50):
    child(connect)
print("done", flush=True)
"""


def test_clients_that_do_not_wait_for_the_reply(daemon, neighbour, connections):
    """The server of those who die between REQ and REP hears of their end, and goes on."""
    with running(daemon, ACCEPTS) as (server, port):
        with running(daemon, CLIENTS_DIE, port.strip()) as (_, line):
            assert line == "done\n"
        daemon.wait_until(lambda: counts(daemon)["ids"] <= 4)
        assert server.poll() is None
