# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Two daemons with addresses of their own, and RoCE v2 between them: two network namespaces that a
pair of virtual interfaces joins. No privilege is needed for that but a user namespace.
"""
import contextlib
import shutil
import subprocess

import pytest

from common import PATIENCE, Device, Launcher, expect_bandwidths, expect_latencies, expect_pingpong
from common import expect_success, new_port, wait_until

IPV4 = ["10.99.0.1", "10.99.0.2"]
IPV6 = ["fd99::1", "fd99::2"]
LINK_LOCAL_GID, IPV4_GID, IPV6_GID = 0, 1, 2


def namespaces_can_be_had():
    return shutil.which("unshare") and shutil.which("ip") and not subprocess.run(
        ["unshare", "-Urn", "ip", "link", "add", "veth0", "type", "veth", "peer", "veth1"],
        check=False, capture_output=True).returncode


pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


@contextlib.contextmanager
def holder(*argv):
    """A process that keeps the namespaces which it was started in."""
    process = subprocess.Popen([*argv, "sh", "-c", "echo; exec sleep infinity"],
                               stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()


def inside(pid):
    return ["nsenter", "-t", str(pid), "-U", "-n", "--preserve-credentials"]


@contextlib.contextmanager
def two_hosts(mtu):
    """Two devices, each in its namespace, with IPv4, IPv6 and link-local addresses."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(holder("unshare", "-Urn"))
        second = stack.enter_context(
            holder("nsenter", "-t", str(first), "-U", "--preserve-credentials",
                   "unshare", "-n"))
        expect_success(Launcher(inside(first)).run(
            "ip", "link", "add", "eth0", "mtu", mtu, "type", "veth",
            "peer", "name", "eth0", "mtu", mtu, "netns", second))
        for i, pid in enumerate([first, second]):
            launcher = Launcher(inside(pid))
            for words in (["addr", "add", f"{IPV4[i]}/24", "dev", "eth0"],
                          ["addr", "add", f"{IPV6[i]}/64", "dev", "eth0", "nodad"],
                          ["link", "set", "lo", "up"], ["link", "set", "eth0", "up"]):
                expect_success(launcher.run("ip", *words))
        hosts = []
        for pid in first, second:
            launcher = Launcher(inside(pid))
            wait_until(lambda: "tentative" not in launcher.run("ip", "-6", "addr").stdout,
                       PATIENCE, "the link-local address can be used")
            hosts.append(stack.enter_context(
                Device("ethernet", "--interface=eth0",
                       "--daemon-option=wire=roce", prefix=inside(pid))))
        yield hosts


@pytest.fixture(scope="module", params=[1500, 9000])
def module_hosts(request):
    with two_hosts(request.param) as hosts:
        yield hosts


@pytest.fixture
def hosts(module_hosts):
    yield module_hosts
    for host in module_hosts:
        host.kill_programs()
        host.expect_idle()


def listens(host, port):
    tables = host.run("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.splitlines()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for line in tables)


def run_across(hosts, *argv, to=IPV4[1], port_option="-p"):
    """A server on the second host, a client on the first; client first."""
    port = new_port()
    server = hosts[1].start(*argv, port_option, port)
    wait_until(lambda: listens(hosts[1], port) or not server.running, PATIENCE,
               f"{argv} listens")
    client = hosts[0].start(*argv, port_option, port, to)
    return client.finish(), server.finish()


def pingpong_across(hosts, program, gid, *flags, size=4096, iters=500):
    for result in run_across(hosts, program, "-g", gid, "-c", "-s", size, "-n", iters, *flags):
        expect_pingpong(result, size, iters)


@pytest.mark.parametrize("gid", [LINK_LOCAL_GID, IPV4_GID, IPV6_GID])
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"])
def test_pingpong(hosts, program, gid):
    """Every kind of address; the data are looked at."""
    pingpong_across(hosts, program, gid)


def test_xrc_pingpong(hosts):
    """One XRC SRQ for two clients at once."""
    port = new_port()
    argv = ["ibv_xsrq_pingpong", "-g", IPV4_GID, "-n", 200, "-e", "-p", port]
    server = hosts[1].start(*argv, "-c", 2)
    wait_until(lambda: listens(hosts[1], port) or not server.running, PATIENCE, "it listens")
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
    server = hosts[1].start("rping", "-s", "-a", any_address, "-p", port, "-V", "-C", 20)
    wait_until(lambda: hosts[1].status()["rdma_cm"]["listeners"] or not server.running, PATIENCE,
               "rping listens")
    client = hosts[0].run("rping", "-c", "-a", to, "-p", port, "-V", "-v", "-C", 20)
    assert client.stdout.count("ping data") == 20, client
    expect_success(client)
    expect_success(server.finish())


@pytest.mark.parametrize("program", ["ucmatose", "udaddy"])
def test_rdma_cm_programs(hosts, program):
    """Several connections; datagram services."""
    server = hosts[1].start(program)
    wait_until(lambda: hosts[1].status()["rdma_cm"]["listeners"] or not server.running, PATIENCE,
               f"{program} listens")
    client = hosts[0].run(program, "-s", IPV4[1])
    assert "return status 0" in expect_success(client).stdout
    assert "return status 0" in expect_success(server.finish()).stdout


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
    wait_until(lambda: listens(hosts[0], port), PATIENCE, "the server listens")
    for result in hosts[0].start(*argv, IPV4[0]).finish(), server.finish():
        expect_pingpong(result, 4096, 500)


def test_nobody_there(hosts):
    """Who has no such QP says nothing, and the log tells whom nobody answers."""
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV4_GID, "-p", port, "-D", PATIENCE]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port), PATIENCE, "the server listens")
    client = hosts[0].start(*argv, IPV4[1])
    counter = "/sys/class/infiniband/simhca0/ports/1/counters/port_rcv_packets"
    before = hosts[1].run("cat", counter).stdout
    wait_until(lambda: hosts[1].run("cat", counter).stdout != before, PATIENCE, "packets come")
    server.kill()
    result = client.finish()
    assert result.status, result
    assert "nobody answers from there" in hosts[0].log()
