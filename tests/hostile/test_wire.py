# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The wire under what anybody can send to it: floods, and packets that want an answer."""
import ipaddress
import socket
import struct
import zlib

import pytest

pytest.register_assert_rewrite("common", "namespaces")

from common import BUILD, TIME_LIMIT, Launcher, expect_pingpong, expect_success  # noqa: E402
from common import new_port, wait_until  # noqa: E402
from namespaces import IPV4, IPV4_GID, IPV6, another_host, inside, join, listens  # noqa: E402
from namespaces import namespaces_can_be_had, two_hosts, wire  # noqa: E402

FLOOD = BUILD / "tests" / "hostile" / "hostile-udp-flood"
STRANGER = "10.98.0.2"
QPN = 0x000123  # of nobody

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


def bth(opcode, qpn=QPN, psn=0):
    return struct.pack(">BBHII", opcode, 0, 0xffff, qpn, 1 << 31 | psn)


def with_icrc(body, source, destination, port):
    """UDP's payload, as it comes from that port with the identification 0."""
    length = 8 + len(body) + 4
    headers = (b"\xff" * 8 + struct.pack(">BBHHHBBH", 0x45, 0xff, 20 + length, 0, 0x4000, 0xff, 17,
                                         0xffff) +
               socket.inet_aton(source) + socket.inet_aton(destination) +
               struct.pack(">HHHH", port, 4791, length, 0xffff))
    crc = zlib.crc32(headers + body[:4] + b"\xff" + body[5:])
    return body + struct.pack("<I", crc)


@pytest.fixture(scope="module", params=["", "10.99.0.0/24,fd99::/64"], ids=["all", "peers"])
def scene(request):
    """Two hosts, and a stranger who reaches the first by a network of his own; who may send."""
    options = [f"--daemon-option=wire-peers={request.param}"] if request.param else []
    with two_hosts(1500, *options) as hosts, another_host(hosts[0].namespace) as pid:
        stranger = Launcher(inside(pid))
        join(hosts[0].namespace, pid, "eth1", 1500,
             [["10.98.0.1/24", "fd98::1/64"], [f"{STRANGER}/24", "fd98::2/64"]])
        expect_success(stranger.run("ip", "route", "add", "10.99.0.0/24", "via", "10.98.0.1"))
        expect_success(stranger.run("ip", "route", "add", "fd99::/64", "via", "fd98::1"))
        yield hosts, stranger, request.param
        stranger.kill_programs()


def test_flood(scene, tmp_path):
    """A connection beside it gets all of its data; who has named his peers does not even look."""
    hosts, stranger, peers = scene
    datagram = tmp_path / "datagram"
    datagram.write_bytes(with_icrc(bth(0x04) + bytes(1000), STRANGER, IPV4[0], 4791))
    before = wire(hosts[0])
    flood = stranger.start("sh", "-c", f"exec {FLOOD} {IPV4[0]} 2 <{datagram}")
    port = new_port()
    argv = ["ibv_rc_pingpong", "-g", IPV4_GID, "-c", "-n", 200, "-p", port]
    server = hosts[0].start(*argv)
    wait_until(lambda: listens(hosts[0], port), TIME_LIMIT, "the server listens")
    for result in hosts[1].start(*argv, IPV4[0]).finish(), server.finish():
        expect_pingpong(result, 4096, 200)
    sent = int(expect_success(flood.finish()).stdout)
    after = wire(hosts[0])

    def grown(*path):
        values = []
        for report in before, after:
            for key in path:
                report = report[key]
            values.append(report)
        return values[1] - values[0]

    refused = sum(after["refused"].values()) - sum(before["refused"].values())
    dropped = sum(one["dropped"] for one in after["addresses"]) - \
        sum(one["dropped"] for one in before["addresses"])
    assert sent > 1000
    if peers:
        assert refused + grown("unclaimed") == 0 and dropped > sent / 2, (sent, before, after)
    else:
        # From the flood's own port, so its ICRC is one of a packet with another identification,
        # or of none.
        assert refused + grown("unclaimed") > 0, (sent, before, after)


SEND = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for i in range(100):
    s.sendto(bytes(100), (sys.argv[1], 4791))
"""


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
def test_strangers_are_counted(scene, family):
    """By the kernel, if peers are named; else by what is wrong with their packets."""
    hosts, stranger, peers = scene
    address = [f"::ffff:{IPV4[0]}", IPV6[0]][family]

    def seen():
        report = wire(hosts[0])
        dropped = [one["dropped"] for one in report["addresses"]
                   if ipaddress.ip_address(one["address"]) == ipaddress.ip_address(address)]
        return dropped[0] if peers else report["refused"]["pkey"]

    before = seen()
    expect_success(stranger.run("/usr/bin/python3", "-c", SEND, address))
    wait_until(lambda: seen() >= before + 100, TIME_LIMIT, "all of them are counted")
    assert seen() == before + 100
    expect_success(hosts[1].run("/usr/bin/python3", "-c", SEND, address))
    if peers:
        assert seen() == before + 100, "a peer's are not dropped"


def everything():
    """A packet of each service and operation, and management datagrams, for QPs that are not."""
    for opcode in range(256):
        for qpn in 0, 1, QPN, 0xffffff:
            yield bth(opcode, qpn) + bytes(64)
            yield bth(opcode, qpn) + bytes(300)
    deth = struct.pack(">II", 0x80010000, 1)
    for attribute in range(0x10, 0x1a):
        mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, attribute, attribute, 0, 0)
        yield bth(0x64, 1) + deth + mad.ljust(256, b"\0")
        yield bth(0x64, 1) + deth + (mad + b"\0\0\0\1" * 30).ljust(256, b"\0")


ASK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
s.bind((sys.argv[1], 4791))
sent = 0
for line in sys.stdin:
    datagram = bytes.fromhex(line)
    s.sendto(datagram, (sys.argv[2], 4791))
    sent += len(datagram)
came = 0
s.settimeout(1)
try:
    while True:
        came += len(s.recv(65536))
except TimeoutError:
    pass
print(sent, came)
"""


def test_no_amplification(scene, tmp_path):
    """Nobody is answered more than he said; strangers, if peers are named, nothing."""
    hosts, stranger, peers = scene
    questions = tmp_path / "questions"
    questions.write_text("".join(
        with_icrc(body, STRANGER, IPV4[0], 4791).hex() + "\n" for body in everything()))
    before = wire(hosts[0])
    result = stranger.run("sh", "-c", f'exec /usr/bin/python3 -c "$0" {STRANGER} {IPV4[0]} '
                          f"<{questions}", ASK)
    sent, came = map(int, expect_success(result).stdout.split())
    after = wire(hosts[0])
    if peers:
        assert not came and after["taken"] == before["taken"]
        assert after["refused"] == before["refused"]
    else:
        assert 0 < came <= sent, result
        assert after["taken"] > before["taken"]
        assert after["refused"]["icrc"] == before["refused"]["icrc"], "they are well formed"
