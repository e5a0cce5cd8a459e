# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What this host does not send, or has no socket for: it is told with the kernel's own error."""
import contextlib
import re
import shutil
import time

import pytest

from common import TIME_LIMIT, SIMHCA, Launcher, expect_success, new_port, wait_until
from namespaces import IPV4, IPV4_GID, IPV6, IPV6_GID, another_host, inside, join, listens
from namespaces import namespaces_can_be_had, new_host, two_hosts, wire

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

NETWORK = {4: "10.99.0.0/24", 6: "fd99::/64"}


@pytest.fixture(scope="module")
def hosts():
    with two_hosts(9000) as hosts:
        yield hosts


@contextlib.contextmanager
def routes(host, change, family=6):
    """How packets leave the host meanwhile; what perftest's programs tell each other goes by IPv4."""
    route = ["ip", f"-{family}", "route"]
    before = expect_success(host.run(*route, "show", "root", NETWORK[family])).stdout.splitlines()
    expect_success(host.run(*route, *change.split()))
    try:
        yield
    finally:
        expect_success(host.run(*route, "flush", "root", NETWORK[family]))
        for line in before:
            expect_success(host.run(*route, "add", *line.split()))


@pytest.mark.parametrize("change, error, reason, remedy", [
    (f"add {IPV6[1]} dev eth0 mtu lock 1500", "Message too long", "WIRE_TOO_LONG, vendor_err 115",
     "use a smaller path_mtu"),
    (f"del {NETWORK[6]} dev eth0", "Network is unreachable", "WIRE_NO_ROUTE, vendor_err 116",
     "`ip route get ADDRESS` has to name a route"),
    (f"add unreachable {IPV6[1]}", "No route to host", "WIRE_NO_ROUTE, vendor_err 116",
     "`ip route get ADDRESS` has to name a route"),
    (f"add prohibit {IPV6[1]}", "Permission denied", "WIRE_FORBIDDEN, vendor_err 117",
     "Let UDP to port 4791 pass")])
def test_a_connection_that_cannot_send(hosts, change, error, reason, remedy):
    """The kernel refuses the packets of a QP that is connected: the story has its error."""
    expect_refused(hosts, lambda: routes(hosts[0], change), error, reason, remedy)


@contextlib.contextmanager
def filtered(host):
    """A filter of the host drops what leaves for RoCE v2 meanwhile."""
    rule = ["OUTPUT", "-p", "udp", "--dport", "4791", "-j", "DROP"]
    expect_success(host.run("ip6tables", "-A", *rule))
    try:
        yield
    finally:
        expect_success(host.run("ip6tables", "-D", *rule))


def test_a_filter(hosts):
    """A firewall that drops what leaves says so to who sends it."""
    if not shutil.which("ip6tables") or hosts[0].run("ip6tables", "-L", "OUTPUT").status:
        pytest.skip("no ip6tables, or a kernel without filters")
    expect_refused(hosts, lambda: filtered(hosts[0]), "Operation not permitted", "WIRE_FORBIDDEN, vendor_err 117",
                   "Let UDP to port 4791 pass")


def expect_refused(hosts, refusing, error, reason, remedy):
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV6_GID, "-p", port, "-D", TIME_LIMIT]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    client = hosts[0].start(*argv, IPV4[1])
    before = wire(hosts[0])
    wait_until(lambda: wire(hosts[0])["taken"] > before["taken"] + 100, TIME_LIMIT, "packets are answered")
    with refusing():
        assert client.finish().status, client.result()
        story = expect_success(hosts[0].tool.run(SIMHCA, "explain", "--pid", client.pid)).stdout
    hosts[1].kill_programs()
    assert f"({reason})" in story and remedy in story, story
    assert f"seen:       sending to {IPV6[1]} failed: {error}\n" in story, story
    assert "nobody answers" not in story, story
    assert wire(hosts[0])["unsent"] > before["unsent"]


# An id that has no source gets one by its route, and none without: rdma_resolve_addr() fails. One that is bound to a
# device takes for a neighbour of it whom no route leads to, as with Linux, but its packets have none either.
UNBOUND = ["rping", "-c", "-p", 7471]
BOUND = [*UNBOUND, "-I", IPV4[0]]


@pytest.mark.parametrize("family, change, error", [
    (6, f"del {NETWORK[6]} dev eth0", "Network is unreachable"),
    (4, f"del {NETWORK[4]} dev eth0", "Network is unreachable"),
    (6, f"add prohibit {IPV6[1]}", "Permission denied"),
    (4, f"add unreachable {IPV4[1]}", "No route to host")])
def test_an_address_without_a_route(hosts, family, change, error):
    to = (IPV4 if family == 4 else IPV6)[1]
    with routes(hosts[0], change, family):
        client = hosts[0].run(*UNBOUND, "-a", to)
        assert client.status and f"rdma_resolve_addr: {error}" in client.stderr, client
    story = expect_success(hosts[0].tool.run(SIMHCA, "explain")).stdout.rstrip().split("\n\n")[-1]
    assert f"rdma_cm RESOLVE_ADDR is refused: {error}\n" in story, story
    assert f"the kernel routes nothing to {to if family == 4 else f'[{to}]'}:7471: `ip route get" in story, story


@pytest.mark.parametrize("change, error", [
    (f"del {NETWORK[4]} dev eth0", "Network is unreachable"),
    (f"add prohibit {IPV4[1]}", "Permission denied")])
def test_a_request_that_cannot_be_sent(hosts, change, error):
    """rdma_connect() would wait for a minute: it is told while it waits."""
    with routes(hosts[0], change, 4):
        client = hosts[0].start(*BOUND, "-a", IPV4[1])

        def told():
            return expect_success(hosts[0].tool.run(SIMHCA, "explain", "--pid", client.pid)).stdout
        wait_until(lambda: " waits for an answer to what was not sent\n" in told(), TIME_LIMIT, "it is told")
        assert client.running, client.result()
        assert re.search(rf"because:    rdma_connect\(\) to {IPV4[1]}:7471 waits for an answer, and sending there "
                         rf"failed: {error}\n", told()), told()
        hosts[0].kill_programs()


def test_a_host_that_answers_again(hosts):
    """What could not be sent a while ago is not held against a peer that is silent for itself."""
    port = new_port()
    argv = ["ib_write_bw", "-F", "-x", IPV4_GID, "-p", port, "-D", TIME_LIMIT]
    with routes(hosts[0], f"add prohibit {IPV4[1]}", 4):
        unsent = wire(hosts[0])["unsent"]
        hosts[0].start(*BOUND, "-a", IPV4[1])
        wait_until(lambda: wire(hosts[0])["unsent"] > unsent, TIME_LIMIT, "it cannot send")
        hosts[0].kill_programs()
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    client = hosts[0].start(*argv, IPV4[1])
    before = wire(hosts[0])["taken"]
    # As long as one is remembered, and a QP's longest wait.
    wait_until(lambda: wire(hosts[0])["taken"] > before + 100, TIME_LIMIT, "packets are answered")
    time.sleep(5)
    assert client.running, client.result()
    server.kill()
    assert client.finish().status, client.result()
    story = expect_success(hosts[0].tool.run(SIMHCA, "explain", "--pid", client.pid)).stdout
    assert "RETRY_EXC_ERR" in story and "sending to" not in story and "WIRE_" not in story, story


# --------------------------------------------------------------------- a port that is taken


HOLD = ("import socket, sys, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.bind((sys.argv[1], int(sys.argv[2]))); print('held', flush=True); time.sleep(600)\n")


@pytest.fixture
def two_namespaces():
    """Two hosts without daemons."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(new_host())
        second = stack.enter_context(another_host(first))
        join(first, second, "eth0", 1500, [[f"{address}/24"] for address in IPV4])
        launcher = Launcher(inside(first))
        yield launcher
        launcher.kill_programs()


def hold_port(launcher, address, port=4791):
    holder = launcher.start("/usr/bin/python3", "-c", HOLD, address, port)
    wait_until(lambda: "held" in holder.stdout or not holder.running, TIME_LIMIT, "it has the port")
    assert holder.running, holder.result()
    return holder


@pytest.mark.parametrize("address", [IPV4[0], "0.0.0.0"])
def test_a_port_that_is_taken(two_namespaces, tmp_path, address):
    """`start` and `run` fail, and say who has it."""
    holder = hold_port(two_namespaces, address)
    flags = ["--runtime-dir", tmp_path / "d", "--netdev=eth0", "--wire=roce"]
    said = (f"--wire roce: UDP port 4791 of 10.99.0.1 cannot be had: "
            f"Address already in use: python3[{holder.pid}] has it\n")
    for argv, status in ((["start", *flags], 1), (["run", *flags, "--", "true"], 125)):
        result = two_namespaces.run(SIMHCA, *argv)
        assert result.status == status and said in result.stderr, result
    holder.kill()
    assert not expect_success(two_namespaces.run(SIMHCA, "run", *flags, "--", "true")).stderr


def test_a_second_daemon(two_namespaces, tmp_path):
    """One whose address another daemon has does not start; the first one goes on."""
    flags = ["--netdev=eth0", "--wire=roce"]
    directories = [["--runtime-dir", tmp_path / name] for name in ("first", "second")]
    expect_success(two_namespaces.run(SIMHCA, "start", *directories[0], *flags))
    try:
        [pid] = (tmp_path / "first" / "pid").read_text().split()
        result = two_namespaces.run(SIMHCA, "start", *directories[1], *flags)
        assert result.status == 1, result
        assert (f"UDP port 4791 of 10.99.0.1 cannot be had: Address already in use: simhcad[{pid}] has it\n"
                in result.stderr), result
        assert "not reached" not in expect_success(two_namespaces.run(SIMHCA, "status", *directories[0])).stdout
    finally:
        two_namespaces.run(SIMHCA, "stop", *directories[0])
    expect_success(two_namespaces.run(SIMHCA, "run", *directories[1], *flags, "--", "true"))


def test_ports_of_flows_that_are_taken(two_namespaces, tmp_path):
    """A flow leaves from another one, or from that of RoCE v2: nobody needs to hear of it."""
    first, last = 0xf000, 0xf008
    for port in range(first + 1, last):
        hold_port(two_namespaces, "0.0.0.0", port)
    flags = ["--runtime-dir", tmp_path / "d", "--netdev=eth0", "--wire=roce", "--log-level=debug"]
    result = expect_success(two_namespaces.run(SIMHCA, "run", *flags, "--log-file", tmp_path / "log", "--", "true"))
    assert not result.stderr
    assert "0a63:0001 is open, and 1 to send from" in (tmp_path / "log").read_text()


def test_a_port_that_is_taken_later(two_namespaces, tmp_path):
    """The address comes when the daemon runs: `status` and `wire` tell, until the port is free."""
    late = "10.99.7.1"
    text = "0000:0000:0000:0000:0000:ffff:0a63:0701"
    directory = ["--runtime-dir", tmp_path / "d"]
    start = ["start", *directory, "--netdev=eth0", "--wire=roce"]
    expect_success(two_namespaces.run(SIMHCA, *start))
    try:
        expect_success(two_namespaces.run("ip", "addr", "add", f"{late}/24", "dev", "lo"))
        holder = hold_port(two_namespaces, late)
        expect_success(two_namespaces.run("ip", "addr", "del", f"{late}/24", "dev", "lo"))
        expect_success(two_namespaces.run("ip", "addr", "add", f"{late}/24", "dev", "eth0"))

        def told(command):
            return expect_success(two_namespaces.run(SIMHCA, command, *directory)).stdout

        wait_until(lambda: f"closed {text}" in told("wire"), TIME_LIMIT, "it is told")
        assert f"closed {text}: UDP port 4791: Address already in use\n" in told("wire")
        assert (f"wire: {text} is not reached, and reaches nobody: UDP port 4791: "
                "Address already in use\n") in told("status")
        holder.kill()
        wait_until(lambda: "closed" not in told("wire"), TIME_LIMIT, "the port is open")
        assert f"address {text}" in told("wire") and "not reached" not in told("status")
    finally:
        two_namespaces.run(SIMHCA, "stop", *directory)
