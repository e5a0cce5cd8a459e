# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What other tests run on one host, between two hosts, by IPv4 and by IPv6; three hosts, and hosts
that have no IPv4. SIMHCA_SOAK=1: each row of the tables of perftest's programs and of UCX's.
"""
import os
import re
import shutil

import pytest

from common import TIME_LIMIT, expect_bandwidths, expect_latencies, expect_pingpong, expect_success
from common import measured, new_port, wait_until
from fio_rdma import BLOCKS, expect_bytes, run_fio
from guest import QEMU, migrate
from middleware import UCP, ucx, ucx_perftest
from namespaces import IPV4, IPV4_GID, IPV6, IPV6_GID, join, listens, namespaces_can_be_had
from namespaces import sends_by, three_hosts, two_hosts, wire
from perftest import BANDWIDTHS, BOTH_WAYS, ITERS, LARGEST, LATENCIES, QUIET, SIZES
from perftest import UD_SIZES, expected_iterations, flags_of
from rdmacm import expect_ending, expect_no_ids, start_listener

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

LONG = os.environ.get("SIMHCA_SOAK") == "1"
PATH_MTU = {1500: 1024, 9000: 4096}
ADDRESS = {4: IPV4[1], 6: IPV6[1]}
GID = {4: IPV4_GID, 6: IPV6_GID}
families = pytest.mark.parametrize("family", [4, 6], indirect=True)


@pytest.fixture(scope="module", params=[1500, 9000] if LONG else [9000])
def module_hosts(request):
    with two_hosts(request.param) as hosts:
        hosts[0].path_mtu = PATH_MTU[request.param]
        yield hosts


@pytest.fixture
def hosts(module_hosts):
    yield module_hosts
    for host in module_hosts:
        host.kill_programs()
        host.expect_idle()
        expect_no_ids(host)


@pytest.fixture
def family(hosts, request):
    """4 or 6, by which the programs talk."""
    with sends_by(hosts[0], request.param):
        yield request.param


def pair(hosts, server_argv, client_argv, port):
    server = hosts[1].start(*server_argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(hosts[0].run(*client_argv))
    expect_success(server.finish())
    return client


@families
@pytest.mark.parametrize("transport", ["rc", "ud"] if LONG else ["rc"])
@pytest.mark.parametrize("test", UCP if LONG else ["tag-lat", "put-bw", "get", "fadd"])
def test_ucx(hosts, test, transport, family):
    """Tags, puts, gets and atomics by ucx_perftest; what it says by TCP goes by IPv4."""
    port = new_port()
    argv = ["env", *(f"{name}={value}" for name, value in ucx(transport, GID[family]).items()),
            *ucx_perftest(), "-f", "-q", "-p", port, "-n", 100, "-w", 10, *UCP[test]]
    client = pair(hosts, argv, [*argv, IPV4[1]], port)
    assert "ERROR" not in client.stdout + client.stderr, client


def libfabric(hosts, provider, endpoint, size, family):
    """Data are looked at. Datagrams have the GID of that number, whatever the address."""
    port = new_port()
    argv = ["env", f"FI_VERBS_GID_IDX={GID[family]}", "fi_pingpong", "-p", provider,
            "-e", endpoint, "-c", "-I", 20, "-S", size, *(["-6"] if family == 6 else [])]
    client = pair(hosts, [*argv, "-B", port], [*argv, "-P", port, ADDRESS[family]], port)
    assert re.search(rf"^{size // 1024}k +20 +=20 ", client.stdout, re.M), client


CONNECTED = [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")]


@pytest.mark.parametrize("family", [4], indirect=True)
@pytest.mark.parametrize("provider, endpoint", CONNECTED)
def test_libfabric(hosts, provider, endpoint, family):
    """By IPv6 see below: fi_pingpong's server takes the first address of all."""
    libfabric(hosts, provider, endpoint, 65536, family)


@families
@pytest.mark.parametrize("provider, endpoint, size", [
    ("verbs", "dgram", 2048), ("verbs;ofi_rxd", "rdm", 65536)])
def test_libfabric_datagrams(hosts, provider, endpoint, size, family):
    if endpoint == "dgram":
        size = min(size, hosts[0].path_mtu)
    libfabric(hosts, provider, endpoint, size, family)


@pytest.mark.parametrize("verb", ["write", "read", "send"] if LONG else ["write"])
def test_fio(hosts, verb):
    """
    One block each: of a single one both have the same in the end; all of them of messages. By IPv4
    alone: fio's engine knows no other addresses.
    """
    client, server, memory = run_fio(*hosts, new_port(), verb, BLOCKS if verb == "send" else 1,
                                     address=IPV4[1])
    expect_bytes(client, "write")
    expect_success(server)
    assert memory[0] == memory[1]


@pytest.mark.skipif(not shutil.which(QEMU), reason=f"{QEMU} is not installed")
@pytest.mark.parametrize("pin_all", [True, False] if LONG else [True])
def test_migration(hosts, pin_all):
    """
    A guest that runs moves from one host to the other. By IPv4 alone: QEMU up to 10.0 refuses IPv6
    on a device with Ethernet, whatever it is.
    """
    migrate(*hosts, IPV4[1], new_port(), pin_all)


def test_three_hosts():
    """Three daemons with two devices each: all to all, at once."""
    with three_hosts(9000) as (hosts, ways):
        servers, clients = [], []
        for here, host in enumerate(hosts):
            for there, (device, _) in ways[here].items():
                port = new_port()
                argv = ["ibv_rc_pingpong", "-g", IPV4_GID, "-c", "-s", 16384, "-n", 300, "-p", port]
                server = host.start(*argv, "-d", device)
                wait_until(lambda: listens(host, port) or not server.running, TIME_LIMIT,
                           "it listens")
                servers.append(server)
                client, address = ways[there][here][0], ways[here][there][1]
                clients.append((hosts[there], [*argv, "-d", client, address]))
        for program in [*(host.start(*argv) for host, argv in clients), *servers]:
            expect_pingpong(program.finish(), 16384, 300)
        for host in hosts:
            assert len(wire(host)["addresses"]) >= 4, wire(host)


@pytest.fixture(scope="module")
def ipv6_hosts():
    """No interface has an IPv4 address."""
    def without_ipv4(first, second, name, mtu, addresses):
        join(first, second, name, mtu, [[one for one in here if ":" in one] for here in addresses])

    with two_hosts(1500, join=without_ipv4) as hosts:
        yield hosts


def test_ipv6_only(ipv6_hosts):
    port = new_port()
    server = start_listener(ipv6_hosts[1], port, "rping", "-s", "-a", "::", "-p", port, "-V", "-C", 10)
    client = ipv6_hosts[0].run("rping", "-c", "-a", IPV6[1], "-p", port, "-V", "-v", "-C", 10)
    assert client.stdout.count("ping data") == 10, client
    expect_ending(client)
    expect_ending(server.finish())


@pytest.mark.parametrize("provider, endpoint", CONNECTED)
def test_libfabric_by_ipv6(ipv6_hosts, provider, endpoint):
    with sends_by(ipv6_hosts[0], 6):
        libfabric(ipv6_hosts, provider, endpoint, 65536, 6)


# --------------------------------------------------------------------------------- perftest


def rows(kind, table, *more):
    """
    Of one of perftest's tables, but for those that name a GID, which is one of a single host, and
    for messages of UC that are longer than what can wait for an engine: some of it may be lost.
    """
    return {f"{kind}-{name}": (program, [*flags_of(flags, sizes), *more], sizes)
            for name, (program, flags, sizes) in table.items()
            if "-x" not in flags and not ("UC" in flags and sizes == LARGEST)}


PERFTEST = rows("bw", BANDWIDTHS) | rows("both", BOTH_WAYS, "-b") | rows("lat", LATENCIES)
if LONG:
    PERFTEST |= {f"all-{program}": (program, ["-a"], SIZES)
                 for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat",
                                 "ib_write_lat", "ib_read_lat")}
    PERFTEST["all-ib_send_lat-ud"] = "ib_send_lat", ["-a", "-c", "UD"], UD_SIZES
else:
    PERFTEST = {name: PERFTEST[name]
                for name in ("bw-send-xrc", "bw-send-srq-q-e", "bw-atomic-add", "both-read",
                             "lat-send-e")}


@families
@pytest.mark.parametrize("program, flags, sizes", PERFTEST.values(), ids=PERFTEST)
def test_perftest(hosts, program, flags, sizes, family):
    """Both ends come to a good end, and the client has measured."""
    if "UD" in flags:
        flags = [min(flag, hosts[0].path_mtu) if flag in sizes else flag for flag in flags]
        sizes = sorted({min(size, hosts[0].path_mtu) for size in sizes})

    def run():
        port = new_port()
        argv = [program, *QUIET, "-x", GID[family], "-n", ITERS, *flags, "-p", port]
        return [pair(hosts, argv, [*argv, IPV4[1]], port)]

    [client] = measured(run)
    if program.endswith("_lat"):
        expect_latencies(client, sizes, ITERS)
    else:
        expect_bandwidths(client, sizes, expected_iterations(flags, ITERS))
