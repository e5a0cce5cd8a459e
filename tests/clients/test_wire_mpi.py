# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Open MPI, its OpenSHMEM and MPICH with ranks on two hosts: programs that check every word. They are
started, and meet, by IPv4; what they say to each other goes by IPv4 and by IPv6.
"""
import os

import pytest

from common import TIME_LIMIT
from middleware import MPI_PARTS, OPENMPI, OPENSHMEM, compiled, compiled_mpi
from middleware import expect_pes, expect_ranks, openmpi_env, ucx
from namespaces import IPV4, IPV4_GID, IPV6_GID, namespaces_can_be_had, sends_by, two_hosts
from namespaces import remote_shell, wire

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

LONG = os.environ.get("SIMHCA_SOAK") == "1"
RANKS = 4
transports = pytest.mark.parametrize("transport", ["rc", "ud"] if LONG else ["rc"])
families = pytest.mark.parametrize("family", [4, 6])
GID = {4: IPV4_GID, 6: IPV6_GID}


@pytest.fixture(scope="module", params=[1500, 9000] if LONG else [1500])
def hosts(request):
    with two_hosts(request.param) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def mpi(programs):
    return compiled_mpi(programs)


@pytest.fixture
def shell(hosts, tmp_path):
    return remote_shell(tmp_path, hosts, IPV4)


@pytest.fixture(autouse=True)
def by_the_wire(hosts, family):
    """Both hosts have heard each other, by the one IP or the other."""
    before = [wire(host)["taken"] for host in hosts]
    with sends_by(hosts[0], family):
        yield
    assert all(wire(host)["taken"] > count + 100 for host, count in zip(hosts, before)), before


@pytest.fixture
def env(transport, family):
    return ucx(transport, GID[family])


def on_both(hosts, launcher, shell, env, program):
    """Half of the ranks on each, by one of Open MPI's launchers, of which 5.0's would fill the first."""
    places = ",".join(f"{address}:{RANKS // 2}" for address in IPV4)
    return hosts[0].run(*launcher, "--map-by", "node", "-np", RANKS, "-host", places, program, seconds=2 * TIME_LIMIT,
                        **env, **openmpi_env(shell, "eth0"))


@families
@transports
@pytest.mark.parametrize("program", MPI_PARTS)
def test_openmpi(hosts, mpi, shell, env, program):
    result = on_both(hosts, OPENMPI, shell, env, mpi["openmpi", program])
    expect_ranks(result, program, RANKS)


@families
@transports
def test_openshmem(hosts, programs, shell, env):
    program = compiled(programs, "shmem.c", compiler="oshcc")
    expect_pes(on_both(hosts, OPENSHMEM, shell, env, program), RANKS)


@families
@transports
@pytest.mark.parametrize("program", MPI_PARTS)
def test_mpich(hosts, mpi, shell, env, program):
    """Each rank has the environment of its host."""
    places = ",".join(f"{address}:{RANKS // 2}" for address in IPV4)
    result = hosts[0].run("mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", shell,
                          "-iface", "eth0", "-genvnone", "-hosts", places, "-n", RANKS,
                          mpi["mpich", program], seconds=2 * TIME_LIMIT, **env)
    expect_ranks(result, program, RANKS)
