# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Two daemons with addresses of their own, and RoCE v2 between them: two network namespaces that a
pair of virtual interfaces joins. No privilege is needed for that but a user namespace.
"""
import contextlib
import ipaddress
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import zlib

import pytest

from common import TIME_LIMIT, SIMHCA, expect_bandwidths, expect_latencies, expect_pingpong
from common import expect_success, new_port, wait_until
from namespaces import IPV4, IPV4_GID, IPV6, IPV6_GID, LINK_LOCAL_GID
from namespaces import listens, namespaces_can_be_had, two_hosts, wire
from rdmacm import DEFAULT_PORT, expect_ending, expect_no_ids, start_listener

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


@pytest.fixture(scope="module", params=[1500, 9000])
def module_hosts(request):
    with two_hosts(request.param) as hosts:
        yield hosts


once = pytest.mark.parametrize("module_hosts", [1500], indirect=True)


@pytest.fixture
def hosts(module_hosts):
    yield module_hosts
    for host in module_hosts:
        host.kill_programs()
        host.expect_idle()
        expect_no_ids(host)  # a listener of before would be taken for the next one


def run_across(hosts, *argv, to=IPV4[1], port_option="-p"):
    """A server on the second host, a client on the first; client first."""
    port = new_port()
    server = hosts[1].start(*argv, port_option, port)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT,
               f"{argv} listens")
    client = hosts[0].start(*argv, port_option, port, to)
    return client.finish(), server.finish()


def pingpong_across(hosts, program, gid, *flags, size=4096, iters=500):
    for result in run_across(hosts, program, "-g", gid, "-c", "-s", size, "-n", iters, *flags):
        expect_pingpong(result, size, iters)


@pytest.mark.pairs("module_hosts", "program", "gid")
@pytest.mark.parametrize("gid", [LINK_LOCAL_GID, IPV4_GID, IPV6_GID])
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"])
def test_pingpong(hosts, program, gid):
    """Every kind of address; the data are looked at."""
    pingpong_across(hosts, program, gid)


@once
@pytest.mark.parametrize("gid", [IPV4_GID, IPV6_GID])
def test_xrc_pingpong(hosts, gid):
    """One XRC SRQ for two clients at once."""
    port = new_port()
    argv = ["ibv_xsrq_pingpong", "-g", gid, "-n", 200, "-e", "-p", port]
    server = hosts[1].start(*argv, "-c", 2)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    clients = [hosts[0].start(*argv, IPV4[1]) for _ in range(2)]
    for program in server, *clients:
        assert expect_success(program.finish()).stdout.endswith("success\n"), program.result()


@pytest.mark.parametrize("gid", [IPV4_GID, IPV6_GID])
def test_ud_pingpong(hosts, gid):
    """Datagrams, with the IP header before them."""
    pingpong_across(hosts, "ibv_ud_pingpong", gid, size=1000)


@pytest.mark.parametrize("size, iters", [(1, 200), (1023, 200), (1025, 200), (65537, 50),
                                         (1 << 20, 10)])
def test_sizes(hosts, size, iters):
    """Around the path MTU, and messages of many packets."""
    pingpong_across(hosts, "ibv_rc_pingpong", IPV4_GID, "-e", size=size, iters=iters)


@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_read_bw"])
def test_bandwidth(hosts, program):
    """Several messages under way; reads are longer than a window."""
    for result in run_across(hosts, program, "-F", "-x", IPV4_GID, "-s", 1 << 19, "-n", 20):
        expect_success(result)
        expect_bandwidths(result, [1 << 19], 20)


@pytest.mark.parametrize("any_address, to", [("0.0.0.0", IPV4[1]), ("::", IPV6[1])])
def test_rping(hosts, any_address, to):
    """A connection by rdma_cm, and its end."""
    port = new_port()
    server = start_listener(hosts[1], port, "rping", "-s", "-a", any_address, "-p", port, "-V", "-C", 20)
    client = hosts[0].run("rping", "-c", "-a", to, "-p", port, "-V", "-v", "-C", 20)
    assert client.stdout.count("ping data") == 20, client
    expect_ending(client)
    expect_ending(server.finish())


@pytest.mark.parametrize("any_address, to", [("0.0.0.0", IPV4[1]), ("::", IPV6[1])])
@pytest.mark.parametrize("program", ["ucmatose", "udaddy"])
def test_rdma_cm_programs(hosts, program, any_address, to):
    """Several connections; datagram services."""
    server = start_listener(hosts[1], DEFAULT_PORT[program], program, "-b", any_address)
    client = hosts[0].run(program, "-s", to)
    assert "return status 0" in expect_success(client).stdout
    assert "return status 0" in expect_success(server.finish()).stdout


@pytest.mark.parametrize("addresses, group", [(IPV4, "239.1.2.3"), (IPV6, "ff15::1234")])
def test_multicast(hosts, addresses, group):
    """A receiver gets what is sent to the group on another host: its daemon is in the group then."""
    gid = ipaddress.ip_address(f"::ffff:{group}" if "." in group else group).packed.hex(":", 2)
    flags = ["-C", 5, "-S", 100, "-m", group, "-b"]

    def is_member():
        return gid in expect_success(hosts[1].tool.run(SIMHCA, "wire")).stdout

    receiver = hosts[1].start("mckey", *flags, addresses[1])
    wait_until(lambda: is_member() or not receiver.running, TIME_LIMIT, "it has joined")
    for program in hosts[0].start("mckey", *flags, addresses[0], "-s"), receiver:
        result = expect_success(program.finish())
        assert "data transfers complete" in result.stdout, result
    wait_until(lambda: not is_member(), TIME_LIMIT, "it has left")


def test_from_loopback(hosts):
    """With Linux, too, nothing leaves the host from there."""
    client = hosts[0].run("rping", "-c", "-a", IPV4[1], "-I", "127.0.0.1", "-p", new_port())
    assert client.status and "rdma_resolve_addr: Invalid argument" in client.stderr, client


def test_source_of_loopback(hosts):
    """It is 127.0.0.1, as with Linux, whichever address of loopback is asked, where the device is on another interface."""
    port = new_port()
    start_listener(hosts[0], port, "rping", "-s", "-a", "0.0.0.0", "-p", port)
    client = hosts[0].start("rping", "-c", "-a", "127.0.0.2", "-p", port, "-C", 1000000)
    wait_until(lambda: re.search(rf" CONNECT +127\.0\.0\.1:\d+ +127\.0\.0\.2:{port} ",
                                 expect_success(hosts[0].tool.run(SIMHCA, "cm")).stdout) or not client.running,
               TIME_LIMIT, "it is connected")
    assert client.running, client.result()
    hosts[0].kill_programs()


@contextlib.contextmanager
def routed_from(host, source, interface, *routes):
    """That source is an address of the interface, and those routes have it."""
    expect_success(host.run("ip", "addr", "add", f"{source}/24", "dev", interface))
    try:
        for route in routes:
            expect_success(host.run("ip", "route", "add", route, "dev", "eth0", "src", source))
        yield
    finally:
        expect_success(host.run("ip", "addr", "del", f"{source}/24", "dev", interface))


def test_source_of_a_route(hosts):
    """It is the kernel's choice, as with Linux, and not that of the first GID."""
    port = new_port()
    start_listener(hosts[1], port, "rping", "-s", "-a", "0.0.0.0", "-p", port)
    with routed_from(hosts[0], "10.99.0.7", "eth0", IPV4[1]):
        wait_until(lambda: "0a63:0007" in expect_success(hosts[0].tool.run(SIMHCA, "wire")).stdout, TIME_LIMIT, "its GID")
        client = hosts[0].start("rping", "-c", "-a", IPV4[1], "-p", port, "-C", 1000000)
        wait_until(lambda: re.search(rf" CONNECT +10\.99\.0\.7:\d+ +{IPV4[1]}:{port} ",
                                     expect_success(hosts[0].tool.run(SIMHCA, "cm")).stdout) or not client.running,
                   TIME_LIMIT, "it is connected")
        assert client.running, client.result()
        hosts[0].kill_programs()
        hosts[1].kill_programs()


def test_source_without_a_device(hosts):
    """Packets would leave from an address that no device has."""
    with routed_from(hosts[0], "10.96.0.1", "lo", "10.97.0.0/24"):
        client = hosts[0].run("rping", "-c", "-a", "10.97.0.1", "-p", new_port())
    assert client.status and "RDMA_CM_EVENT_ADDR_ERROR, error -19" in client.stderr, client
    story = expect_success(hosts[0].tool.run(SIMHCA, "explain")).stdout
    assert re.search(r"packets to 10\.97\.0\.1:\d+ leave from 10\.96\.0\.1:\d+, where no device is\n", story), story


REJECTED_REPLY = """
import sys
from rdma_cm import *

channel, [peer, port, serves] = Channel(), sys.argv[1:]
number = channel.create()
if serves == "True":
    channel.bind(number, address(int(port), "0.0.0.0"))
    channel.listen(number)
    kind, request, *_ = channel.event()
    assert kind == CONNECT_REQUEST
    channel.accept(request, 3, next(QPNS))
    assert channel.event()[:2] == (REJECTED, request)
else:
    channel.resolve(number, address(int(port), peer))
    channel.connect(number, next(QPNS))
    assert channel.event()[:2] == (CONNECT_RESPONSE, number)
    channel.reject(number, reason=28)
"""


def test_a_reply_that_is_rejected(hosts):
    """The server's story does not suppose that the client listens anywhere."""
    port = new_port()
    server = start_listener(hosts[1], port, "/usr/bin/python3", "-c", REJECTED_REPLY, "-", port, True)
    expect_success(hosts[0].run("/usr/bin/python3", "-c", REJECTED_REPLY, IPV4[1], port, False))
    expect_success(server.finish())
    story = expect_success(hosts[1].tool.run(SIMHCA, "explain", "--pid", server.pid)).stdout
    assert re.search(rf"the connection to {IPV4[0]}:\d+ was rejected, reason 28 \(consumer: the peer's program does not "
                     r"want it\)\n", story), story


def test_nobody_listens(hosts):
    """The other host's daemon says so."""
    client = hosts[0].run("rping", "-c", "-a", IPV4[1], "-p", new_port(), "-C", 1)
    assert client.status and "RDMA_CM_EVENT_REJECTED, error 8" in client.stderr, client


@pytest.mark.parametrize("program", ["ib_send_lat", "ib_write_lat", "ib_read_lat",
                                     "ib_atomic_lat"])
def test_latency(hosts, program):
    """One message after the other, atomics among them."""
    client, server = run_across(hosts, program, "-F", "-x", IPV6_GID, "-n", 200)
    expect_success(server)
    expect_latencies(expect_success(client), [8 if "atomic" in program else 2], 200)


def test_a_narrow_link(hosts):
    """A queue on the way that overflows loses packets: they are sent again."""
    narrow = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "50mbit",
              "burst", "5kb", "limit", "10kb"]
    if hosts[0].run(*narrow).status:
        pytest.skip("this kernel has no queueing discipline that drops")
    try:
        pingpong_across(hosts, "ibv_rc_pingpong", IPV4_GID, size=1 << 16, iters=20)
        dropped = hosts[0].run("tc", "-s", "qdisc", "show", "dev", "eth0").stdout
    finally:
        expect_success(hosts[0].run("tc", "qdisc", "del", "dev", "eth0", "root"))
    assert "dropped 0," not in dropped, dropped


def test_the_mtu_is_the_interfaces(hosts):
    """What is reported fits into a packet of the interface, headers and all."""
    mtu = {"1500": "1024 (3)", "9000": "4096 (5)"}
    link = hosts[0].run("ip", "link", "show", "eth0").stdout
    shown = link.split(" mtu ")[1].split()[0]
    assert f"active_mtu:\t\t{mtu[shown]}" in hosts[0].run("ibv_devinfo").stdout


def test_at_home(hosts):
    """A peer on the same host is one on a device with a wire, too."""
    port = new_port()
    argv = ["ibv_rc_pingpong", "-g", IPV4_GID, "-c", "-n", 500, "-p", port]
    server = hosts[0].start(*argv)
    wait_until(lambda: listens(hosts[0], port), TIME_LIMIT, "the server listens")
    for result in hosts[0].start(*argv, IPV4[0]).finish(), server.finish():
        expect_pingpong(result, 4096, 500)


def test_nobody_there(hosts):
    """Who has no such QP says nothing, and the log tells whom nobody answers."""
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV4_GID, "-p", port, "-D", TIME_LIMIT]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port), TIME_LIMIT, "the server listens")
    client = hosts[0].start(*argv, IPV4[1])
    counter = "/sys/class/infiniband/simhca0/ports/1/counters/port_rcv_packets"
    before = hosts[1].run("cat", counter).stdout
    wait_until(lambda: hosts[1].run("cat", counter).stdout != before, TIME_LIMIT, "packets come")
    server.kill()
    result = client.finish()
    assert result.status, result
    assert "nobody answers from there" in hosts[0].log()


@once
def test_report(hosts):
    """simhca wire: who is connected to whom, and how many packets have gone and come."""
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV4_GID, "-p", port, "-D", TIME_LIMIT]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    assert server.running, server.result()
    hosts[0].start(*argv, IPV4[1])

    def seen(host, peer):
        report = wire(host)
        return report["peers"].get(f"0000:0000:0000:0000:0000:ffff:0a63:000{peer}", {"sent": 0})

    wait_until(lambda: seen(hosts[0], 2)["sent"] > 100 and seen(hosts[1], 1)["sent"] > 10,
               TIME_LIMIT, "packets are counted")
    peer = seen(hosts[0], 2)
    assert peer["qps"] == 1 and 0 < peer["received"] < peer["sent"], peer
    text = expect_success(hosts[0].tool.run(SIMHCA, "wire")).stdout
    assert "peer 0000:0000:0000:0000:0000:ffff:0a63:0002 qps 1 sent" in text
    assert "wire: RoCE v2 at 3 addresses" in hosts[0].tool.run(SIMHCA, "status").stdout


# ------------------------------------------------------------------------- what is on the wire


def frames(capture):
    """Of a file in the format of pcap."""
    data = pathlib.Path(capture).read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        length = struct.unpack_from(order + "8xI", data, at)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def icrc(frame):
    """By the specification (A17.3.3), of a frame without VLAN tags; and the one that it has."""
    ip = bytearray(frame[14:])
    if ip[0] >> 4 == 4:
        ip, udp = ip[:int.from_bytes(ip[2:4], "big")], 20
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff
    else:
        ip, udp = ip[:40 + int.from_bytes(ip[4:6], "big")], 40
        ip[:4], ip[7] = b"\x6f\xff\xff\xff", 0xff
    ip[udp + 6:udp + 8] = b"\xff\xff"
    ip[udp + 12] = 0xff
    return zlib.crc32(b"\xff" * 8 + ip[:-4]), int.from_bytes(ip[-4:], "little")


@contextlib.contextmanager
def captured(host, path):
    """What passes on the interface meanwhile."""
    argv = ["dumpcap", "-q", "-P", "-i", "eth0", "-f", "udp port 4791", "-w", path]
    capture = host.start(*argv)
    wait_until(lambda: "File:" in capture.stderr or not capture.running, TIME_LIMIT,
               "the capture has begun")
    yield
    capture.send(signal.SIGTERM)
    expect_success(capture.finish())


@contextlib.contextmanager
def one_by_one(hosts):
    """Each datagram is a frame: a run that its sender's kernel has not cut up would be one for dumpcap."""
    def most(segments):
        for host in hosts:
            expect_success(host.run("ip", "link", "set", "eth0", "gso_max_segs", segments))

    most(1)
    yield
    most(65535)


@once
@pytest.mark.skipif(not shutil.which("tshark"), reason="Wireshark is not installed")
def test_wireshark_agrees(hosts, tmp_path):
    """It takes each packet apart, finds nothing wrong, and each ICRC is the specification's."""
    tmp_path.chmod(0o777)
    with one_by_one(hosts), captured(hosts[0], tmp_path / "wire.pcap"):
        for program in "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong":
            gid = IPV6_GID if "uc" in program else IPV4_GID
            pingpong_across(hosts, program, gid, size=1001, iters=5)
        for program in "ib_read_lat", "ib_atomic_lat":
            for result in run_across(hosts, program, "-F", "-x", IPV6_GID, "-n", 5):
                expect_success(result)
        start_listener(hosts[1], DEFAULT_PORT["udaddy"], "udaddy")
        expect_success(hosts[0].run("udaddy", "-s", IPV4[1]))
    # RoCE v2 has no UDP checksum over IPv6 either, which Wireshark minds unless told.
    shown = subprocess.run(
        ["tshark", "-n", "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-r", tmp_path / "wire.pcap",
         "-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed",
         "-e", "_ws.expert.message", "-e", "infiniband.bth.opcode"],
        capture_output=True, text=True, check=True).stdout.splitlines()
    seen = set()
    for number, line in enumerate(shown):
        protocols, malformed, expert, opcode = line.split("\t")
        # Payload that begins like an Ethernet frame, as random bytes may, it takes for one.
        payload = "infiniband:" in protocols
        assert opcode and (payload or not malformed and not expert), (number + 1, line)
        seen.add(int(opcode))
    # SEND, READ and its response, ACK, atomics and their acknowledgement; SEND of UC and of UD.
    assert seen >= {0x04, 0x0c, 0x10, 0x11, 0x12, 0x14, 0x24, 0x64}, seen
    for number, frame in enumerate(frames(tmp_path / "wire.pcap")):
        computed, found = icrc(frame)
        assert computed == found, (number + 1, frame.hex())
    assert number + 1 == len(shown)


@once
@pytest.mark.parametrize("gid", [IPV4_GID, IPV6_GID])
def test_flows_have_ports_of_their_own(hosts, tmp_path, gid):
    """By which routers spread them over paths of equal cost: both ways of a connection have one."""
    tmp_path.chmod(0o777)
    with captured(hosts[0], tmp_path / "wire.pcap"):
        for result in run_across(hosts, "ib_write_lat", "-F", "-x", gid, "-n", 20, "-s", 8):
            expect_success(result)
        for result in run_across(hosts, "ib_write_bw", "-F", "-x", gid, "-n", 50, "-q", 12, "-s", 2000):
            expect_success(result)
    udp = 14 + (40 if gid == IPV6_GID else 20)
    ports = [struct.unpack_from(">HH", frame, udp) for frame in frames(tmp_path / "wire.pcap")]
    assert {to for _, to in ports} == {4791}
    sources = {source for source, _ in ports}
    assert sources <= set(range(0xf000, 0xf008)) and len(sources) > 3, sources
    assert ports[0][0] == ports[1][0], "what it answers leaves from the port that it came from"
