# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""MADs that no program should send: cut off, lying about their lengths, for agents that there are not, and without end."""
import contextlib
import errno
import random
import struct
import time

import pytest

from protocol import Client

WRITE, ENABLE_PKEY, REGISTER, REGISTER2, UNREGISTER = range(1, 6)
ATTACK = 1.6
pytestmark = pytest.mark.parametrize("daemon", [["--link-layer", "ib", "--devices", "2"]], indirect=True)


def register(client, management_class, version=1, methods=0, qp=1, rmpp=0, oui=0, flags=0):
    """The status, and the agent's id."""
    status, body, _, _ = client.command(REGISTER2, struct.pack(
        "<IIBBHIQQIB3x", 0, qp, management_class, version, 0, flags, methods, 0, oui, rmpp))
    return status, struct.unpack("<I", body)[0] if body else None


def write(client, agent, mad, lid=1, timeout=0, retries=0, pkey_index=0):
    """The status. The header is the one with the P_Key's index."""
    header = struct.pack("<IIIII", agent, 0, timeout, retries, 0) + struct.pack(">IIHBB", 1, 0, lid, 0, 0)
    header += bytes(24) + struct.pack("<H6x", pkey_index)
    assert len(header) == 64
    return client.command(WRITE, header + mad)[0]


def mad(management_class, version=1, method=1, attribute=0x11, tid=1):
    return struct.pack(">BBBBHHQHHI", 1, management_class, version, method, 0, 0, tid, attribute, 0, 0) + bytes(232)


@pytest.fixture
def client(daemon):
    with contextlib.closing(Client(daemon.tree("dev/infiniband/umad1"))) as client:
        client.sock.settimeout(10)
        yield client
    assert daemon.process.poll() is None


def receive(client):
    """The header's status and agent, and the MAD."""
    data = client.sock.recv(1 << 18)
    agent, status = struct.unpack_from("<II", data)
    return status, agent, data[64:]


def ready(client):
    assert client.command(ENABLE_PKEY)[0] == 0
    status, agent = register(client, 3, 2, rmpp=1)
    assert status == 0
    return agent


def test_agents(client):
    """What the kernel refuses is refused: classes, versions, QPs, methods that somebody serves, and the 33rd agent."""
    assert client.command(ENABLE_PKEY)[0] == 0
    for arguments in [(3, 2, 0, 2), (3, 2, 0, 0), (1, 1, 0, 1), (0x60,), (3, 9), (0x32,), (4, 1, 0, 1, 1),
                      (3, 2, 0, 1, 2), (3, 2, 0, 1, 1, 0, 2)]:
        assert register(client, *arguments)[0] == errno.EINVAL, arguments
    assert client.command(ENABLE_PKEY)[0] == errno.EINVAL, "too late"
    assert register(client, 0x32, 1, 6, oui=0x1405) == (0, 0)
    assert register(client, 0x32, 1, 4, oui=0x1405)[0] == errno.EINVAL
    for i in range(1, 32):
        assert register(client, 0) == (0, i)
    assert register(client, 0)[0] == errno.ENOMEM
    for agent in 32, 1 << 31, 0xffffffff:
        assert client.command(UNREGISTER, struct.pack("<I", agent))[0] == errno.EINVAL
    assert client.command(UNREGISTER, struct.pack("<I", 7))[0] == 0
    assert register(client, 0) == (0, 7)


def test_lengths(client):
    """Too short, too long without RMPP, and for nobody: an error, and the next MAD is served."""
    agent = ready(client)
    assert client.command(WRITE)[0] == client.command(WRITE, bytes(99))[0] == errno.EINVAL
    assert write(client, agent, bytes(35)) == errno.EINVAL
    assert write(client, agent, mad(3) + bytes(1)) == errno.EINVAL
    assert write(client, 31, mad(3)) == errno.EIO
    assert write(client, 99, mad(3)) == errno.EINVAL
    assert write(client, agent, mad(3), pkey_index=1) == errno.EINVAL
    for body in b"", bytes(3), bytes(39), bytes(41):
        assert client.command(REGISTER2, body)[0] == errno.EINVAL
    assert client.command(6)[0] == errno.ENOTTY
    assert client.raw(b"x" * 20)[0] == errno.EINVAL
    assert write(client, agent, mad(3, 2, 0x12), timeout=1000) == 0
    status, got, answer = receive(client)
    assert status == 0 and got == agent and answer[3] == 0x92 and len(answer) == 56 + 3 * 112


def test_time_outs(client):
    """A response that does not come is told, after retries, and the transaction ID is free again."""
    agent = ready(client)
    began = time.monotonic()
    assert write(client, agent, mad(3, 2), lid=99, timeout=100, retries=2) == 0
    assert write(client, agent, mad(3, 2), lid=99, timeout=100) == errno.EINVAL, "the same transaction"
    status, got, rest = receive(client)
    assert (status, got, len(rest)) == (errno.ETIMEDOUT, agent, 24) and 0.29 < time.monotonic() - began < 5
    assert write(client, agent, mad(3, 2), lid=99, timeout=1) == 0


def test_too_many_wait(daemon, client, neighbour):
    """Requests that nobody answers, repeated each millisecond without end: a bound, and others have their turn."""
    agent = ready(client)
    statuses = [write(client, agent, mad(3, 2, tid=i), lid=99, timeout=1, retries=0xffffffff) for i in range(1100)]
    assert statuses[:1024] == [0] * 1024 and set(statuses[1024:]) == {errno.ENOMEM}
    time.sleep(ATTACK)


def test_nobody_reads(daemon, client, neighbour):
    """Answers that are not read are lost, and hold nobody up."""
    agent = ready(client)
    end = time.monotonic() + ATTACK
    tid = 0
    while time.monotonic() < end:
        tid += 1
        assert write(client, agent, mad(3, 2, 0x12), timeout=1000) in (0, errno.EINVAL)


def test_anything(client):
    """Whatever is written has an answer, or none; the daemon stays."""
    agent = ready(client)
    status, smp = register(client, 0x81, 1, qp=0)
    assert status == 0
    rng = random.Random(39)
    for _ in range(3000):
        bytes_ = bytearray(rng.randbytes(256))
        bytes_[:4] = 1, rng.choice([1, 3, 4, 0x81, 0x32]), rng.choice([1, 2]), rng.choice([1, 2, 5, 0x12, 0x15, 0x81])
        bytes_[16:18] = struct.pack(">H", rng.choice([*range(0x10, 0x40), 1, 3]))
        if rng.random() < 0.7:
            bytes_[18:24] = struct.pack(">HI", 0, rng.choice([0, 1, 2, 767, 768, 1 << 31, rng.randrange(1 << 32)]))
            bytes_[6:8] = 0, rng.randrange(70)
            bytes_[32:36] = b"\xff" * 4
        assert write(client, rng.choice([agent, smp]), bytes(bytes_), lid=rng.choice([1, 2, 3, 4, 0xffff]),
                     timeout=rng.choice([0, 1])) in (0, errno.EINVAL, errno.ENOMEM)
    client.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            client.sock.recv(1 << 18)
    client.sock.settimeout(10)
    assert write(client, agent, mad(3, 2, 0x12, tid=1 << 31), timeout=5000) == 0
    while receive(client)[2][3] != 0x92:
        pass
