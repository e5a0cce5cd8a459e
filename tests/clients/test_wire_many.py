# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Many hosts on one network, each with a daemon of its own and RoCE v2 between them."""
import contextlib
import os
import pathlib
import re
import time

import pytest

from common import TIME_LIMIT, expect_pingpong, expect_success, new_port, sleeps_through, wait_until
from middleware import MPI_PARTS, OPENMPI, compiled_mpi, expect_ranks, openmpi_env, ucx
from namespaces import IPV4_GID, join, listens, namespaces_can_be_had, one_network
from namespaces import remote_shell, wire, wire_device
from rdmacm import DEFAULT_PORT, start_listener

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

LONG = os.environ.get("SIMHCA_SOAK") == "1"
HOSTS, RANKS_OF_EACH = (8, 8) if LONG else (3, 2)
DAEMONS = [100, 1000] if LONG else [30]  # a bridge of Linux has 1023 ports


# -------------------------------------------------------------------------- all with all


@pytest.fixture(scope="module")
def cluster():
    """Hosts with their devices, and the addresses."""
    with one_network(HOSTS) as (pids, addresses), contextlib.ExitStack() as stack:
        yield [stack.enter_context(wire_device(pid)) for pid in pids], addresses


@pytest.fixture(scope="module")
def mpi(programs):
    return compiled_mpi(programs)


@pytest.mark.parametrize("program", MPI_PARTS)
@pytest.mark.parametrize("which", ["openmpi", "mpich"])
def test_all_to_all(cluster, mpi, tmp_path, which, program):
    """Each rank talks to each other one; every daemon has heard others."""
    devices, addresses = cluster
    ranks = HOSTS * RANKS_OF_EACH
    shell = remote_shell(tmp_path, devices, [address[4] for address in addresses])
    places = ",".join(f"{address[4]}:{RANKS_OF_EACH}" for address in addresses)
    env = ucx("rc", IPV4_GID)
    before = [wire(device)["taken"] for device in devices]
    if which == "openmpi":
        env |= openmpi_env(shell, "eth0")
        argv = [*OPENMPI, "--map-by", "node", "-np", ranks, "-host", places]
    else:
        argv = ["mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", shell, "-iface", "eth0",
                "-genvnone", "-hosts", places, "-n", ranks]
    result = devices[0].run(*argv, mpi[which, program], seconds=(10 if LONG else 2) * TIME_LIMIT, **env)
    expect_ranks(result, program, ranks)
    assert all(wire(device)["taken"] > count for device, count in zip(devices, before))


# ------------------------------------------------------------------------------ IPv6 alone


def across(server_device, client_device, address, program, gid):
    """Of Debian's pingpong programs, the client's first."""
    port = new_port()
    argv = [program, "-g", gid, "-c", "-s", 1000, "-n", 100, "-p", port]
    server = server_device.start(*argv)
    wait_until(lambda: listens(server_device, port) or not server.running, TIME_LIMIT, "it listens")
    client = client_device.start(*argv, address)
    for result in client.finish(), server.finish():
        expect_pingpong(result, 1000, 100)


def speak_ipv6(client, server, address, meeting):
    for gid in 0, 1:
        for program in "ibv_rc_pingpong", "ibv_ud_pingpong":
            across(server, client, meeting, program, gid)
    listener = start_listener(server, DEFAULT_PORT["rping"], "rping", "-s", "-a", "::", "-C", 10, "-v")
    expect_success(client.run("rping", "-c", "-a", address, "-C", 10))
    expect_success(listener.finish())


def test_hosts_of_ipv6_alone():
    """The first GID is the link-local one, the next the address; rdma_cm resolves it."""
    meeting = ["10.97.0.1", "10.97.0.2"]  # by TCP; servers of pingpong know IPv4 alone
    with one_network(2, families=(6,)) as (pids, addresses):
        join(*pids, "eth1", 1500, [[f"{address}/24"] for address in meeting])
        with wire_device(pids[0]) as client, wire_device(pids[1]) as server:
            speak_ipv6(client, server, addresses[1][6], meeting[1])


# --------------------------------------------------------------------------- many daemons


def private_kb(pid):
    """What it has for itself, of memory."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"^Private_\w+:\s+(\d+) kB", rollup, re.M))


@pytest.mark.parametrize("count", DAEMONS)
def test_daemons(count):
    """They come up, the first reaches the last, and those that nobody uses do nothing."""
    with one_network(count) as (pids, addresses), contextlib.ExitStack() as stack:
        begin = time.monotonic()
        devices = [stack.enter_context(wire_device(pid)) for pid in pids]
        took = time.monotonic() - begin
        across(devices[-1], devices[0], addresses[-1][4], "ibv_rc_pingpong", IPV4_GID)
        daemons = [device.pid for device in devices]

        wait_until(lambda: sleeps_through(daemons), TIME_LIMIT, "no daemon wakes up")
        memory = [private_kb(pid) for pid in daemons]
        print(f"{count} daemons: started in {took:.1f} s, of {sum(memory) / count:.0f} kB each, "
              f"{max(memory)} at most")
        assert max(memory) < 16 << 10
