# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A router between two hosts whose link to one of them has a smaller MTU, and says so by ICMP, or does not."""
import contextlib
import time

import pytest

from common import TIME_LIMIT, SIMHCA, Launcher, expect_success, new_port, wait_until
from namespaces import IPV4_GID, another_host, inside, join, listens, namespaces_can_be_had
from namespaces import new_host, wire, wire_device

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

ADDRESSES = ["10.97.1.1", "10.97.2.2"]
ROUTER = ["10.97.1.254", "10.97.2.254"]
NO_ICMP = ["ip", "rule", "add", "ipproto", "icmp", "pref", "1", "blackhole"]


@contextlib.contextmanager
def routed_hosts():
    """Two hosts whose interfaces have an MTU of 9000, and the router, whose link to the second has 1500."""
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(new_host())
        commands = Launcher(inside(router))
        expect_success(commands.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"))
        pids = [stack.enter_context(another_host(router)) for _ in ADDRESSES]
        for number, (pid, address, way) in enumerate(zip(pids, ADDRESSES, ROUTER)):
            join(router, pid, f"to{number}", 9000, [[f"{way}/24"], [f"{address}/24"]], "eth0")
            expect_success(Launcher(inside(pid)).run("ip", "route", "add", "default", "via", way))
        expect_success(commands.run("ip", "link", "set", "to1", "mtu", 1500))
        yield [stack.enter_context(wire_device(pid)) for pid in pids], commands


@pytest.fixture(scope="module")
def hosts():
    with routed_hosts() as hosts:
        yield hosts


def story_of(devices, program, *options, meanwhile=lambda device: None):
    """
    What `simhca explain` says at last: of the client, which fails. Data go from the first host to the second. Until then
    meanwhile(the client's device) is called now and then.
    """
    port = new_port()
    argv = [program, "-F", "-x", IPV4_GID, "-p", port, *options]
    client_at = 1 if "read" in program else 0
    of_client, of_server = devices[client_at], devices[1 - client_at]
    server = of_server.start(*argv)
    wait_until(lambda: listens(of_server, port) or not server.running, TIME_LIMIT, "it listens")
    client = of_client.start(*argv, ADDRESSES[1 - client_at])
    while client.running:
        meanwhile(of_client)
        time.sleep(0.05)
    of_server.kill_programs()
    assert client.result().status, client.result()
    story = expect_success(of_client.tool.run(SIMHCA, "explain")).stdout.rstrip().split("\n\n")[-1]
    assert f" {program}[" in story.splitlines()[0], story
    return story


# The first packet of a QP is a full one; short messages have been before; one packet is all. Requests of reads arrive,
# and responses do not.
@pytest.mark.parametrize("program, options", [("ib_write_bw", ["-s", 65536]), ("ib_write_bw", ["-a", "-n", 20]),
                                              ("ib_send_bw", ["-s", 4096]), ("ib_read_bw", ["-s", 65536]),
                                              ("ib_read_bw", ["-a", "-n", 20])])
def test_a_hole(hosts, program, options):
    """No router says anything: the QP's own short packets do."""
    devices, router = hosts
    holes = []
    expect_success(router.run(*NO_ICMP))
    try:
        story = story_of(devices, program, *options,
                         meanwhile=lambda device: holes.extend(peer["holes"] for peer in wire(device)["peers"].values()))
    finally:
        expect_success(router.run(*["del" if word == "add" else word for word in NO_ICMP]))
    assert "(WIRE_PATH_MTU, vendor_err 119)" in story, story
    assert 1 in holes, holes
    # A NAK for the gap has said it before the time-out does.
    if "-a" in options:
        server = ADDRESSES[0 if "read" in program else 1]
        assert f"seen:       {server} answers short packets, and none of 4096 bytes\n" in story, story


def test_a_smaller_path_mtu_passes(hosts):
    """Nothing is said of a QP whose packets fit."""
    devices, router = hosts
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV4_GID, "-p", port, "-m", 1024, "-s", 65536, "-n", 50]
    server = devices[1].start(*argv)
    wait_until(lambda: listens(devices[1], port) or not server.running, TIME_LIMIT, "it listens")
    expect_success(devices[0].run(*argv, ADDRESSES[1]))
    expect_success(server.finish())
    assert all(not peer["holes"] for peer in wire(devices[0])["peers"].values())


def test_a_router_that_says_so(hosts):
    """The kernel hears of it, and refuses to send longer packets."""
    story = story_of(hosts[0], "ib_write_bw", "-s", 65536)
    assert "(WIRE_TOO_LONG, vendor_err 115)" in story, story
    assert f"seen:       sending to {ADDRESSES[1]} failed: Message too long\n" in story, story
