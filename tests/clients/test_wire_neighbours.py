# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Between hosts rdma_resolve_addr() waits for who packets to the address go to first, as Linux's does."""
import contextlib
import json

import pytest

from common import TIME_LIMIT, SIMHCA, expect_success, wait_until
from namespaces import IPV4, IPV6, namespaces_can_be_had, two_hosts
from rdmacm import expect_no_ids, ids

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

NOBODY = {4: "10.99.0.77", 6: "fd99::77"}
PEER = {4: IPV4[1], 6: IPV6[1]}
FAMILIES = pytest.mark.parametrize("family", [4, 6])

# Arguments: an address, the time-out in ms, and an address to be bound to or "". Says the event, its status, the seconds
# until it came, and whether it was there when rdma_resolve_addr() returned.
RESOLVE = """
import json, sys, time
from rdma_cm import *

def ip(text, port=0):
    if "." in text:
        return address(port, text)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, text) + bytes(4)

to, timeout, source = sys.argv[1:]
channel = Channel()
number = channel.create()
if source:
    channel.bind(number, ip(source))
begin = time.monotonic()
channel.resolve_addr(number, ip(to, 7471), int(timeout))
at_once = bool(channel.readable(0))
assert channel.readable(60)
kind, its, status, *_ = channel.event()
assert its == number
print(json.dumps([kind, status, time.monotonic() - begin, at_once]))
"""
ADDR_RESOLVED, ADDR_ERROR, ETIMEDOUT = 0, 1, 110


@pytest.fixture(scope="module")
def hosts():
    with two_hosts(9000) as hosts:
        yield hosts


@pytest.fixture(autouse=True)
def unknown(hosts):
    """Nobody knows a neighbour yet."""
    hosts[0].run("ip", "neigh", "flush", "all")


def start(host, to, timeout_ms, source=""):
    return host.start("/usr/bin/python3", "-c", RESOLVE, to, timeout_ms, source)


def ends(client):
    return json.loads(expect_success(client.finish()).stdout)


def resolve(host, to, timeout_ms, source=""):
    return ends(start(host, to, timeout_ms, source))


@contextlib.contextmanager
def changed(host, *argv, back):
    expect_success(host.run(*argv))
    try:
        yield
    finally:
        expect_success(host.run(*back))


@FAMILIES
@pytest.mark.parametrize("bound", [False, True], ids=["unbound", "bound"])
def test_an_address_that_nobody_has(hosts, family, bound):
    """It is as if the time were over, when it is."""
    source = (IPV4 if family == 4 else IPV6)[0] if bound else ""
    kind, status, seconds, _ = resolve(hosts[0], NOBODY[family], 500, source)
    assert (kind, status) == (ADDR_ERROR, -ETIMEDOUT)
    assert 0.5 <= seconds < 10
    story = expect_success(hosts[0].tool.run(SIMHCA, "explain")).stdout.rstrip().split("\n\n")[-1]
    assert f"{NOBODY[family]} on eth0, where packets to " in story, story
    assert f" go first, does not answer {'ARP' if family == 4 else 'NDP'}\n" in story, story
    expect_no_ids(hosts[0])


@FAMILIES
def test_a_neighbour(hosts, family):
    """One that answers is waited for, and one that has answered is not."""
    kind, status, seconds, at_once = resolve(hosts[0], PEER[family], 60000)
    assert (kind, status) == (ADDR_RESOLVED, 0) and seconds < 10
    assert not at_once
    assert resolve(hosts[0], PEER[family], 60000)[::3] == [ADDR_RESOLVED, True]
    counts = json.loads(expect_success(hosts[1].tool.run(SIMHCA, "wire", "--json")).stdout)
    assert not counts["refused"].get("too_short"), counts


@FAMILIES
def test_one_that_comes_while_it_is_waited_for(hosts, family):
    address = f"{NOBODY[family]}/{24 if family == 4 else 64}"
    client = start(hosts[0], NOBODY[family], 60000)
    wait_until(lambda: any(one["state"] == "ADDR_QUERY" for one in ids(hosts[0])), TIME_LIMIT, "it is waited for")
    with changed(hosts[1], "ip", "addr", "add", address, "dev", "eth0", *(["nodad"] if family == 6 else []),
                 back=("ip", "addr", "del", address, "dev", "eth0")):
        kind, status, seconds, _ = ends(client)
    assert (kind, status) == (ADDR_RESOLVED, 0) and seconds < 30


@FAMILIES
def test_a_gateway(hosts, family):
    """It is that neighbour, whoever has the address behind it."""
    far, network = ("10.97.0.9", "10.97.0.0/24") if family == 4 else ("fd97::9", "fd97::/64")
    route = ["ip", f"-{family}", "route"]
    with changed(hosts[0], *route, "add", network, "via", PEER[family], back=(*route, "del", network)):
        assert resolve(hosts[0], far, 60000)[:2] == [ADDR_RESOLVED, 0]
    with changed(hosts[0], *route, "add", network, "via", NOBODY[family], back=(*route, "del", network)):
        assert resolve(hosts[0], far, 300)[:2] == [ADDR_ERROR, -ETIMEDOUT]
        story = expect_success(hosts[0].tool.run(SIMHCA, "explain")).stdout
        assert f"{NOBODY[family]} on eth0, where packets to " in story, story


def test_a_gateway_of_the_other_family(hosts):
    route = ["ip", "route"]
    with changed(hosts[0], *route, "add", "10.96.0.0/24", "via", "inet6", IPV6[1], "dev", "eth0",
                 back=(*route, "del", "10.96.0.0/24")):
        assert resolve(hosts[0], "10.96.0.9", 60000)[:2] == [ADDR_RESOLVED, 0]


def test_an_interface_without_arp(hosts):
    with changed(hosts[0], "ip", "link", "set", "eth0", "arp", "off", back=("ip", "link", "set", "eth0", "arp", "on")):
        assert resolve(hosts[0], NOBODY[4], 60000)[::3] == [ADDR_RESOLVED, True]


@pytest.mark.parametrize("to", [IPV4[0], IPV6[0], "127.0.0.1", "239.1.1.1"])
def test_who_is_no_neighbour(hosts, to):
    """The host itself, and groups."""
    assert resolve(hosts[0], to, 60000, IPV4[0] if to == "239.1.1.1" else "")[::3] == [ADDR_RESOLVED, True]


# It resolves many such addresses, and others are served meanwhile; then it ends, or destroys its ids.
MANY = """
import sys, time
from rdma_cm import *

channel, other = Channel(), Channel()
numbers = [channel.create() for _ in range(5000)]
for i, number in enumerate(numbers):
    channel.resolve_addr(number, address(7471, f"10.99.0.{100 + i % 100}"), 60000)
time.sleep(1)
begin = time.monotonic()
for _ in range(200):
    other.destroy(other.create())
print(time.monotonic() - begin)
refused(errno.EINVAL, channel.resolve_addr, numbers[0], address(7471, "10.99.0.77"), 100)
if sys.argv[1] == "destroys":
    for number in numbers:
        channel.destroy(number)
assert not channel.readable(0.5)
"""


@pytest.mark.parametrize("way", ["destroys", "ends"])
def test_what_is_given_up_meanwhile(hosts, way):
    done = expect_success(hosts[0].run("/usr/bin/python3", "-c", MANY, way))
    assert float(done.stdout) < 10 # it is a minute if each id is looked at ten times a second
    expect_no_ids(hosts[0])
