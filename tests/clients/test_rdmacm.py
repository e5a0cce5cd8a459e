# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The programs of rdmacm-utils: connections by IP addresses, through librdmacm."""
import json
import os
import pathlib
import re
import signal

import pytest

from common import TIME_LIMIT, SIMHCA, Device, expect_success, is_listened_on, new_port
from common import stopped, wait_until
from middleware import compiled
from pairwise import SHORT_FORM
from rdmacm import DEFAULT_PORT, expect_ending, expect_no_ids, ids, listens, run_both, start_listener

NOBODY_ON = ["ib"]
UDADDY_PORT = DEFAULT_PORT["udaddy"]
RSPRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


def ping_lines(text):
    return re.findall(r"^(?:server )?ping data: (rdma-ping-\d+: \S+)$", text, re.M)


@pytest.mark.parametrize("address, bound", [("127.0.0.1", ["-a", "127.0.0.1"]),
                                            ("127.0.0.1", []), ("::1", ["-a", "::1"])])
def test_rping(device, port, address, bound):
    """Each ping's data come back, and differ from the last."""
    common = ["-v", "-V", "-C", "5", "-S", "200", "-p", port]
    server, client = run_both(device, port, ["rping", "-s", *bound, *common],
                              ["rping", "-c", "-a", address, *common])
    pings = ping_lines(client.stdout)
    assert len(pings) == 5 and len(set(pings)) == 5, client
    assert ping_lines(server.stdout) == pings, server
    assert "DISCONNECT EVENT" in client.stdout + client.stderr + server.stdout + server.stderr


def test_rping_persistent(device, port):
    """One server, three clients one after the other."""
    server = start_listener(device, port, "rping", "-s", "-P", "-p", port)
    for _ in range(3):
        expect_ending(device.run("rping", "-c", "-a", "127.0.0.1", "-C", "2", "-V", "-p", port))
    assert server.running
    server.kill()


def test_nobody_listens(device, port):
    """The client is rejected at once."""
    other = new_port()
    server = start_listener(device, other, "rping", "-s", "-p", other)
    result = device.run("rping", "-c", "-a", "127.0.0.1", "-C", "1", "-p", port)
    assert result.status != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in result.stdout + result.stderr, result
    server.kill()


@pytest.fixture
def talkative(link_layer):
    with Device(link_layer, "--log-level=info") as device:
        yield device


def expect_log(device, pattern):
    wait_until(lambda: re.search(pattern, device.log()), 10, f"{pattern} in the log")


MANY_LISTENERS = """
import signal, sys
from rdma_cm import *
channel = Channel()
for _ in range(70):
    number = channel.create(UDP)
    channel.bind(number, address())
    channel.listen(number)
signal.pause()
"""


def test_why_it_was_rejected_in_few_words(talkative):
    """However many others listen, a rejection takes the same time: not all of them are looked at."""
    port = new_port()
    server = talkative.start("/usr/bin/python3", "-c", MANY_LISTENERS)
    wait_until(lambda: sum(one["state"] == "LISTEN" for one in ids(talkative)) == 70 or
               not server.running, TIME_LIMIT, "all of them listen")
    assert talkative.start("rping", "-c", "-a", "127.0.0.1", "-C", "1", "-p", port).finish().status
    expect_log(talkative, rf"nobody listens on 127\.0\.0\.1:{port} in port space TCP; "
               r"listeners are: \.\.\.\n")
    server.kill()


def test_why_it_was_rejected(talkative):
    """The log says who wanted what, and who listens instead."""
    port, other, third = new_port(), new_port(), new_port()
    servers = [start_listener(talkative, other, "rping", "-s", "-a", "127.0.0.1", "-p", other),
               start_listener(talkative, third, "rping", "-s", "-p", third)]
    client = talkative.start("rping", "-c", "-a", "127.0.0.1", "-C", "1", "-p", port)
    assert client.finish().status
    expect_log(talkative, rf"process {client.pid} \(rping\): nobody listens on 127\.0\.0\.1:{port} "
               rf"in port space TCP; listeners are: 127\.0\.0\.1:{other}, "
               rf"(\[::\]|0\.0\.0\.0):{third}\n")
    for server in servers:
        server.kill()
    client = talkative.start("udaddy", "-s", "127.0.0.1", "-c", "1")
    assert client.finish().status
    expect_log(talkative, rf"process {client.pid} \(udaddy\): 127\.0\.0\.1:{UDADDY_PORT} in port space "
               r"UDP does not serve, status 1; listeners are: none\n")
    client = talkative.start("rping", "-c", "-a", "192.0.2.77", "-C", "1", "-p", port)
    assert client.finish().status
    expect_log(talkative, rf"process {client.pid} \(rping\): no device of this daemon has "
               rf"192\.0\.2\.77:{port}; see the GIDs of `simhca status`\n")


CONNECTED = """
import signal, sys
from rdma_cm import *
server, client = Channel(), Channel()
number, port = listener(server)
ids = [client.create(uid=i) for i in (2, 3)]
for active, qpn in zip(ids, (0x1234, 0x2345)):
    client.resolve(active, port)
    client.connect(active, qpn)
passive = server.event()[1]
server.accept(passive, 3, 0x4321)
assert client.event()[0] == CONNECT_RESPONSE
client.establish(ids[0])
print(number, port, passive, *ids, flush=True)
signal.pause()
"""


def test_what_the_tool_shows(device):
    """A listener with a request that nobody has fetched, and both ends of a connection."""
    program = device.start("/usr/bin/python3", "-c", CONNECTED)
    wait_until(lambda: program.result().stdout or not program.running, TIME_LIMIT, "it is connected")
    number, port, *connected, asking = map(int, program.result().stdout.split())
    seen = {one["cm_idn"]: one for one in ids(device)}
    assert all(one["pid"] == program.pid and one["comm"] == "python3" and one["ps"] == "TCP" and
               one["type"] == "RC" for one in seen.values()), seen
    assert [seen[number][key] for key in ("state", "backlog", "waiting")] == ["LISTEN", 8, 1]
    assert seen[number]["src"] == f"127.0.0.1:{port}" and "dst" not in seen[number]
    for one, qpn in zip(connected, (0x4321, 0x1234)):
        assert [seen[one][key] for key in ("device", "state", "cm_state", "lqpn")] == \
            ["simhca0", "CONNECT", "ESTABLISHED", qpn], seen[one]
    passive, active = (seen[one] for one in connected)
    assert passive["src"] == active["dst"] == f"127.0.0.1:{port}" and passive["dst"] == active["src"]
    assert seen[asking]["state"] == "CONNECT" and seen[asking]["cm_state"] != "ESTABLISHED"
    head, *lines = expect_success(device.tool.run(SIMHCA, "cm", "-x")).stdout.splitlines()
    assert head.startswith("ID ") and len(lines) == len(seen) == 5 and any(
        re.match(rf" *{connected[1]} +CONNECT +{re.escape(active['src'])} +127\.0\.0\.1:{port} +0x001234 +{program.pid} "
                 rf"+python3 +simhca0 +TCP +RC +ESTABLISHED ", line)
        for line in lines), lines
    counts = device.status()["rdma_cm"]
    assert [counts[key] for key in ("channels", "ids", "listeners", "connections")] == [2, 5, 1, 4]
    assert "rdma_cm: 2 event channels, 5 ids, of them 1 listeners and 4 connections" in \
        expect_success(device.tool.run(SIMHCA, "status")).stdout
    program.kill()
    expect_no_ids(device)


@pytest.mark.parametrize("flags", [[], ["-m"], ["-t", "8"], ["-a", "12"]])
def test_ucmatose(device, port, flags):
    """A hundred connections at once; -m: established ids migrate to another channel."""
    flags = ["-c", "100", "-C", "3", "-S", "100", "-p", port, *flags]
    for result in run_both(device, port, ["ucmatose", *flags],
                           ["ucmatose", "-s", "127.0.0.1", *flags]):
        assert "return status 0" in result.stdout and "error" not in result.stdout, result


def test_ucmatose_ipv6(device, port):
    flags = ["-c", "3", "-p", port, "-f", "ip"]
    run_both(device, port, ["ucmatose", "-b", "::1", *flags],
             ["ucmatose", "-s", "::1", *flags])


def test_udaddy(device):
    """Its -p is a port space; its port is always the same."""
    flags = ["-c", "10", "-C", "5", "-S", "300"]
    for result in run_both(device, UDADDY_PORT, ["udaddy", *flags],
                           ["udaddy", "-s", "127.0.0.1", *flags]):
        assert "data transfers complete" in result.stdout, result
        assert "return status 0" in result.stdout, result


def has_udp_port(port):
    lines = pathlib.Path("/proc/net/udp").read_text(encoding="ascii").splitlines()[1:]
    return any(line.split()[1] == f"0100007F:{port:04X}" for line in lines)


@pytest.mark.parametrize("module_device", ["ib"], indirect=True)
def test_udpong(device, port):
    """
    rsockets with datagrams: who they are for is found out over UDP. On Ethernet librdmacm asks for an
    address handle without GRH, which no RoCE device makes.
    """
    flags = ["-p", port, "-b", "127.0.0.1", "-S", "64", "-C", "10"]
    server = device.start("udpong", *flags)
    wait_until(lambda: has_udp_port(port) or not server.running, TIME_LIMIT, "it has its port")
    client = expect_success(device.run("udpong", *flags, "-s", "127.0.0.1"))
    assert re.search(r"^custom +64 +10 +640 ", client.stdout, re.M), client
    server.kill()


def test_mckey(device):
    """A receiver gets what a sender sends to the group."""
    flags = ["-m", "239.1.2.3", "-b", "127.0.0.1", "-C", "5", "-S", "100"]
    receiver = device.start("mckey", *flags)
    # It is buffered, and says that it has joined when it ends: until then, send once more.
    for _ in range(50):
        sender = expect_success(device.run("mckey", *flags, "-s"))
        assert "data transfers complete" in sender.stdout, sender
        if not receiver.running:
            break
    result = expect_success(receiver.finish())
    assert "data transfers complete" in result.stdout, result


def test_client_and_server(device, port):
    for result in run_both(device, port, ["rdma_server", "-p", port],
                           ["rdma_client", "-s", "127.0.0.1", "-p", port]):
        assert "end 0" in result.stdout, result


@pytest.mark.parametrize("kind", ["r", "x"])
def test_xclient_and_xserver(device, port, kind):
    run_both(device, port, ["rdma_xserver", "-c", kind, "-p", port],
             ["rdma_xclient", "-s", "127.0.0.1", "-c", kind, "-p", port])


@pytest.mark.parametrize("mode, client_mode", [("b", "b"), ("n", "n"), ("a", "b"), ("v", "v"),
                                               ("r", "r")])
def test_rstream(device, port, mode, client_mode):
    """
    rsockets: blocking, non-blocking, with poll(), with verified data, by rdma_getaddrinfo(). A
    client with poll() takes the end of the connection for an error if it comes with the last data.
    """
    flags = ["-p", port, "-S", "4096", "-I", "3", "-C", "10", "-T"]
    for result in run_both(device, port, ["rstream", *flags, mode],
                           ["rstream", "-s", "127.0.0.1", *flags, client_mode]):
        assert re.search(r"^custom +4k +10 +3 ", result.stdout, re.M), result
        assert "fail" not in result.stdout + result.stderr, result


@pytest.mark.parametrize("mode", ["s", "f"])
def test_librspreload(device, port, mode):
    """A program with plain TCP sockets runs over RDMA; f: its server forks for the connection."""
    library = RSPRELOAD + ":" + device.env["LD_PRELOAD"]
    flags = ["-p", port, "-S", "4096", "-I", "3", "-C", "10", "-T", mode]
    server = device.start("rstream", *flags, LD_PRELOAD=library)
    wait_until(lambda: is_listened_on(port) or listens(device, port), TIME_LIMIT, "it listens")
    client = expect_success(device.run("rstream", "-s", "127.0.0.1", *flags, LD_PRELOAD=library))
    assert re.search(r"^custom +4k +10 +3 ", client.stdout, re.M), client
    if mode == "s":
        expect_success(server.finish())
    server.kill()


def test_riostream(device, port):
    flags = ["-p", port, "-S", "4096", "-I", "3", "-C", "10"]
    run_both(device, port, ["riostream", *flags], ["riostream", "-s", "127.0.0.1", *flags])


def test_rcopy(device, port):
    """A file arrives as it was."""
    directory = device.new_directory()
    source, target = directory / "source", directory / "target"
    source.write_bytes(os.urandom(3_000_001))
    server = start_listener(device, port, "rcopy", "-p", port)
    expect_success(device.run("rcopy", source, f"127.0.0.1:{target}", "-p", port))
    server.kill()
    assert target.read_bytes() == source.read_bytes()


def test_cmtime(device, port):
    """Many connections, each step of them timed."""
    flags = ["-c", 200 if SHORT_FORM else 1000, "-p", port]
    server = start_listener(device, port, "cmtime", *flags)
    # Since rdma-core 55 it also connects numbers that belong to no QP, which both sides count up
    # from the same one. On one node the second side to bring a number is refused as stale.
    usage = device.run("cmtime", "-h")
    other = ["-q", "100000"] if "base_qpn" in usage.stdout + usage.stderr else []
    result = expect_success(device.run("cmtime", *flags, *other, "-s", "127.0.0.1"))
    steps = re.findall(r"^([a-z]+(?: [a-z]+)*)(?: *:)? +[\d.]+ ", result.stdout, re.M)
    for step in "create id", "resolve addr", "resolve route", "create qp", "disconnect":
        assert step in steps, result
    assert "event:" not in result.stdout + result.stderr, result  # nothing but what it expects
    server.kill()


@pytest.fixture(scope="module")
def stop_before_address(programs):
    return compiled(programs, "stop_before_address.c", "-shared", "-fPIC")


def perftest_pairs():
    """All that perftest does by rdma_cm: it refuses UC and XRC there itself."""
    programs = [f"ib_{verb}_{what}" for verb in ("send", "write", "read", "atomic") for what in ("bw", "lat")]
    pairs = [(program, flag) for program in programs for flag in ("-R", "-z")]
    pairs += [("ib_send_bw", flags) for flags in ("-z -c UD", "-R -c UD", "-R -q 4 -b", "-R --use-srq", "-R -T 96")]
    pairs += [("ib_send_lat", "-R -c UD"), ("ib_send_lat", "-R -e")]
    with_addresses = [("ib_send_bw", "-R"), ("ib_send_bw", "-z"), ("ib_send_lat", "-R -c UD")]
    return [("ethernet", *pair) for pair in pairs] + [("ib", *pair) for pair in with_addresses]


@pytest.mark.parametrize("module_device, program, flags", perftest_pairs(), indirect=["module_device"],
                         scope="module")
def test_perftest(device, port, stop_before_address, program, flags):
    """
    perftest exchanges what it has to say by a connection of rdma_cm; -R: and moves the data by a
    second one. Its server no longer listens after the first, and does so again when the client is
    already on its way, which perftest leaves to luck: here the client waits for it.
    """
    argv = [program, *flags.split(), "-n", "200", "-F", "-p", port]
    server = start_listener(device, port, *argv)
    library = f"{stop_before_address}:{device.env['LD_PRELOAD']}"
    client = device.start(*argv, "127.0.0.1", LD_PRELOAD=library)
    if "-R" in flags:
        wait_until(lambda: stopped(client.pid) or not client.running, TIME_LIMIT,
                   "the client has its first connection")
        assert client.running, client.result()
        wait_until(lambda: listens(device, port), TIME_LIMIT, "the server listens again")
        client.send(signal.SIGCONT)
    iterations = 800 if "-q" in flags else 200
    measured = [expect_success(client.finish()), expect_success(server.finish())]
    if program in ("ib_read_lat", "ib_atomic_lat"):
        del measured[1]  # its server only lends memory
    for result in measured:
        assert re.search(rf"^ *\d+ +{iterations} +[\d.]+ ", result.stdout, re.M), result


OWN_NETWORK = """
ip link set lo up
ip link add v0 type veth peer name v1 && ip addr add 10.9.9.1/24 dev v0 || exit 77
ip addr add 10.9.8.1/24 dev v1
ip link set v1 up; ip link set v0 up
"""
DEVICE_GOES = """
import subprocess, sys
import rdma_cm
channel = rdma_cm.Channel()
number = channel.create(uid=9)
channel.bind(number, rdma_cm.address(0, "10.9.9.1"))
subprocess.run(["ip", "link", "del", "v0"], check=True)
print(channel.readable(20) and channel.event()[:4] == (11, number, 0, 9))
"""
SEVERAL_DEVICES = """
import pathlib, sys
from rdma_cm import *

def guid(number):
    path = pathlib.Path(f"/sys/class/infiniband/simhca{number}/node_guid")
    return bytes.fromhex(path.read_text().strip().replace(":", ""))

def device(channel, number):
    return channel.query(number, 0, 280)[:8]

channel, other = Channel(), Channel()
listeners = [channel.create(uid=5) for _ in range(2)]
for i, host in enumerate(("10.9.9.1", "10.9.8.1")):
    channel.bind(listeners[i], address(7471, host))
    assert device(channel, listeners[i]) == guid(i), i
    channel.listen(listeners[i])
everywhere = channel.create()
channel.bind(everywhere, address(7472, "0.0.0.0"))
assert device(channel, everywhere) == bytes(8)
channel.listen(everywhere)

# From the device whose address it is; or from another one, if it is bound to that.
for host, port, source, ends in (
        ("10.9.9.1", 7471, None, (0, 0)), ("10.9.8.1", 7471, None, (1, 1)),
        ("10.9.8.1", 7471, "10.9.9.1", (0, 1)), ("10.9.8.1", 7472, "10.9.9.1", (0, 1)),
        ("127.0.0.1", 7472, None, (0, 0))):
    client = other.create(uid=2)
    if source:
        other.bind(client, address(0, source))
    other.resolve(client, address(port, host))
    assert device(other, client) == guid(ends[0]), (host, source)
    other.connect(client, next(QPNS))
    kind, request, *_ = channel.event()
    assert kind == CONNECT_REQUEST and device(channel, request) == guid(ends[1]), (host, source)
    channel.accept(request, 3, next(QPNS))
    assert other.event()[:2] == (CONNECT_RESPONSE, client)

# An interface without a device has 10.9.7.1; nobody has 10.9.6.1.
refused(errno.ENODEV, channel.bind, channel.create(), address(0, "10.9.7.1"))
refused(errno.EADDRNOTAVAIL, channel.bind, channel.create(), address(0, "10.9.6.1"))
print("end")
"""


# What an id that is bound to nothing has when each of those destinations is resolved: device and source address.
SOURCES = """
import ipaddress, json, pathlib, sys
from rdma_cm import *

names = {(path / "node_guid").read_text().strip().replace(":", ""): path.name
         for path in pathlib.Path("/sys/class/infiniband").iterdir()}
found = []
for host in DESTINATIONS:
    to = address(7471, host) if "." in host else \
        struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", 7471, 0) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    channel = Channel()
    number = channel.create()
    channel.resolve_addr(number, to, 200)
    assert channel.event()[::2][:2] == (ADDR_RESOLVED, 0), host
    addresses = channel.query(number, 0, 280)
    source = ipaddress.ip_address(addresses[20:24] if "." in host else addresses[24:40])
    found.append((names[addresses[:8].hex()], str(source)))
gids = [ipaddress.IPv6Address((PORT / "gids" / str(n)).read_text().strip()) for n in range(7)]
print(json.dumps([found, [str(gid.ipv4_mapped or gid) for gid in gids]]))
"""


def in_own_network(launcher, prepare, options, program):
    # Root needs no user namespace, of which the kernel makes none in a chroot.
    own_network = ["unshare", "-n" if os.geteuid() == 0 else "-Urn"]
    run = f'exec "$0" run --private {options} -- "$@"'
    result = launcher.run(*own_network, "sh", "-c", OWN_NETWORK + prepare + run, SIMHCA,
                          "/usr/bin/python3", "-c", program)
    if result.status == 77:
        pytest.skip("no network interface can be made here")
    return expect_success(result).stdout


def test_device_removal(launcher):
    """The network interface of a device goes: those who are bound to it are told."""
    assert in_own_network(launcher, "", "--netdev v0", DEVICE_GOES) == "True\n"


def test_several_devices_with_interfaces_of_their_own(launcher):
    """Each has the addresses of its own interface, and they reach each other."""
    prepare = "ip link add v2 type veth peer name v3 && ip addr add 10.9.7.1/24 dev v2\n"
    options = "--devices 2 --daemon-option device=simhca0,netdev=v0 --daemon-option device=simhca1,netdev=v1"
    assert in_own_network(launcher, prepare, options, SEVERAL_DEVICES) == "end\n"


def sources(launcher, prepare, options, destinations):
    program = SOURCES.replace("DESTINATIONS", repr(destinations))
    found, gids = json.loads(in_own_network(launcher, prepare, options, program))
    return [tuple(each) for each in found], gids


def neighbour(address, interface):
    """Nobody has it, and need not answer to be resolved."""
    return f"ip neigh add {address} lladdr 02:00:00:00:00:01 dev {interface} nud permanent\n"


@pytest.mark.parametrize("network", ["10.9.{}.{}/24", "fd09:{}::{}/64"])
def test_a_source_without_a_gid(launcher, network):
    """The last of seven addresses has no place in the table: where it is the route's source another GID stands for it."""
    numbers = range(20, 26)  # v0 has another one
    prepare = "".join(f"ip addr add {network.format(n, 1)} dev v0 {'nodad' if ':' in network else ''}\n" for n in numbers)
    [*wanted], [*destinations] = (
        [network.format(n, end).split("/", maxsplit=1)[0] for n in numbers] for end in (1, 5))
    prepare += "".join(map(neighbour, destinations, ["v0"] * len(destinations)))
    found, gids = sources(launcher, prepare, "--netdev v0 --wire roce", destinations)
    assert {device for device, _ in found} == {"simhca0"}
    assert sum(source == its for (_, source), its in zip(found, wanted)) == 5, found
    # Link-local addresses speak with their like alone.
    assert {source for _, source in found} <= set(gids[1:]), (found, gids)


@pytest.mark.parametrize("interface", ["v0", "v1"], ids=["another_interface", "the_same_interface"])
@pytest.mark.parametrize("first", ["wire=off", "link-layer=ib,wire=off"])
def test_a_route_where_one_device_has_a_wire(launcher, first, interface):
    """It decides, whatever the device before it is."""
    options = f"--devices 2 --daemon-option device=simhca0,netdev={interface},{first} " \
        "--daemon-option device=simhca1,netdev=v1,link-layer=ethernet,wire=roce"
    assert sources(launcher, neighbour("10.9.8.5", "v1"), options, ["10.9.8.5"])[0] == [("simhca1", "10.9.8.1")]


# The first address is bound, then it goes; then no datagram socket gets a port.
ROUTE_CANNOT_BE_ASKED_FOR = """
import pathlib, subprocess
from rdma_cm import *

channel = Channel()
bound, unbound = channel.create(), channel.create()
channel.bind(bound, address(0, "10.9.9.1"))
subprocess.run("ip addr del 10.9.9.1/24 dev v0; ip addr add 10.9.9.2/24 dev v0", shell=True, check=True)
refused(errno.EADDRNOTAVAIL, channel.resolve_addr, bound, address(7471, "10.9.9.5"))
holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
holder.bind(("0.0.0.0", 50000))
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("50000 50000")
refused(errno.EAGAIN, channel.resolve_addr, unbound, address(7471, "10.9.9.5"))
print([failure["text"] for failure in failures() if failure.get("errno")])
"""


def test_a_route_that_cannot_be_asked_for(launcher):
    """That is no word on the route: the story names what failed. An id that has a source is routed from there alone."""
    texts = in_own_network(launcher, "test -w /proc/sys/net/ipv4/ip_local_port_range || exit 77\n",
                           "--netdev v0 --wire roce", ROUTE_CANNOT_BE_ASKED_FOR)
    of_bind, of_connect = re.findall(r"the kernel cannot be asked for a route from ([^']*)", texts)
    assert re.fullmatch(r"10\.9\.9\.1:\d+ to 10\.9\.9\.5:7471: bind\(\) fails", of_bind), texts
    assert re.fullmatch(r"0\.0\.0\.0:\d+ to 10\.9\.9\.5:7471: connect\(\) fails", of_connect), texts
