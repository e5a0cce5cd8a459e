# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Middleware between two hosts, three hosts, and hosts that have no IPv4."""
import json
import re

import pytest

from common import PATIENCE, SIMHCA, expect_pingpong, expect_success, new_port, wait_until
from middleware import ucx, ucx_perftest
from namespaces import IPV4, IPV4_GID, IPV6, join, listens, namespaces_can_be_had
from namespaces import three_hosts, two_hosts

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


@pytest.fixture(scope="module")
def hosts():
    with two_hosts(9000) as hosts:
        yield hosts


def pair(hosts, server_argv, client_argv, port):
    server = hosts[1].start(*server_argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, PATIENCE, "it listens")
    client = expect_success(hosts[0].run(*client_argv))
    expect_success(server.finish())
    return client


@pytest.mark.parametrize("test", ["tag_lat", "ucp_put_bw", "ucp_get", "ucp_fadd"])
def test_ucx(hosts, test):
    """Tags, puts, gets and atomics by ucx_perftest."""
    port = new_port()
    argv = ["env", *(f"{name}={value}" for name, value in ucx("rc").items()), *ucx_perftest(),
            "-f", "-q", "-p", port, "-n", 100, "-w", 10, "-t", test]
    client = pair(hosts, argv, [*argv, IPV4[1]], port)
    assert "ERROR" not in client.stdout + client.stderr, client


@pytest.mark.parametrize("provider, endpoint", [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")])
def test_libfabric(hosts, provider, endpoint):
    """Data are looked at."""
    port = new_port()
    argv = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", 20, "-S", 65536]
    client = pair(hosts, [*argv, "-B", port], [*argv, "-P", port, IPV4[1]], port)
    assert re.search(r"^64k +20 +=20 ", client.stdout, re.M), client


def test_three_hosts():
    """Three daemons with two devices each: all to all, at once."""
    with three_hosts(9000) as (hosts, ways):
        servers, clients = [], []
        for here, host in enumerate(hosts):
            for there, (device, _) in ways[here].items():
                port = new_port()
                argv = ["ibv_rc_pingpong", "-g", IPV4_GID, "-c", "-s", 16384, "-n", 300, "-p", port]
                server = host.start(*argv, "-d", device)
                wait_until(lambda: listens(host, port) or not server.running, PATIENCE,
                           "it listens")
                servers.append(server)
                client, address = ways[there][here][0], ways[here][there][1]
                clients.append((hosts[there], [*argv, "-d", client, address]))
        for program in [*(host.start(*argv) for host, argv in clients), *servers]:
            expect_pingpong(program.finish(), 16384, 300)
        for host in hosts:
            peers = json.loads(expect_success(host.tool.run(SIMHCA, "wire", "--json")).stdout)
            assert len(peers["addresses"]) >= 4, peers


def test_ipv6_only():
    """No interface has an IPv4 address."""
    def without_ipv4(first, second, name, mtu, addresses):
        join(first, second, name, mtu, [[one for one in here if ":" in one] for here in addresses])

    with two_hosts(1500, join=without_ipv4) as hosts:
        port = new_port()
        server = hosts[1].start("rping", "-s", "-a", "::", "-p", port, "-V", "-C", 10)
        wait_until(lambda: hosts[1].status()["rdma_cm"]["listeners"] or not server.running,
                   PATIENCE, "rping listens")
        client = hosts[0].run("rping", "-c", "-a", IPV6[1], "-p", port, "-V", "-v", "-C", 10)
        assert client.stdout.count("ping data") == 10, client
        expect_success(client)
        expect_success(server.finish())
