# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Open MPI, its OpenSHMEM and MPICH with ranks on two hosts: programs that check every word."""
import os

import pytest

from common import PATIENCE
from middleware import MPI_PARTS, OPENMPI, OPENMPI_ENV, OPENSHMEM, compiled, compiled_mpi
from middleware import expect_pes, expect_ranks, ucx
from namespaces import IPV4, namespaces_can_be_had, two_hosts, wire

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")

LONG = os.environ.get("SIMHCA_SOAK") == "1"
RANKS = 4
TRANSPORTS = ["rc", "ud"] if LONG else ["rc"]
CASES = [(transport, program) for transport in TRANSPORTS for program in MPI_PARTS]


@pytest.fixture(scope="module", params=[1500, 9000] if LONG else [1500])
def hosts(request):
    with two_hosts(request.param) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def mpi(programs):
    return compiled_mpi(programs)


@pytest.fixture
def remote_shell(hosts, tmp_path):
    """What launchers call in ssh's stead, with a host and a command: it knows one host only."""
    path = tmp_path / "remote_shell"
    variables = " ".join(f"'{name}={hosts[1].env[name]}'" for name in hosts[1].env
                         if hosts[0].env.get(name) != hosts[1].env[name])
    path.write_text(f"""#!/bin/sh
[ "$1" = {IPV4[1]} ] || exit
shift
exec nsenter -t {hosts[1].namespace} -n -u env {variables} sh -c "$*"
""")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def by_the_wire(hosts):
    """Both hosts have heard each other."""
    before = [wire(host)["taken"] for host in hosts]
    yield
    assert all(wire(host)["taken"] > count + 100 for host, count in zip(hosts, before)), before


def on_both(hosts, launcher, remote_shell, transport, program):
    """Half of the ranks on each, by one of Open MPI's launchers."""
    places = ",".join(f"{address}:{RANKS // 2}" for address in IPV4)
    env = OPENMPI_ENV | {"OMPI_MCA_plm_rsh_agent": str(remote_shell),
                         "OMPI_MCA_oob_tcp_if_include": "eth0"}
    return hosts[0].run(*launcher, "-np", RANKS, "-host", places, program, seconds=2 * PATIENCE,
                        **env, **ucx(transport))


@pytest.mark.parametrize("transport, program", CASES)
def test_openmpi(hosts, mpi, remote_shell, transport, program):
    result = on_both(hosts, OPENMPI, remote_shell, transport, mpi["openmpi", program])
    expect_ranks(result, program, RANKS)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_openshmem(hosts, programs, remote_shell, transport):
    program = compiled(programs, "shmem.c", compiler="oshcc")
    expect_pes(on_both(hosts, OPENSHMEM, remote_shell, transport, program), RANKS)


@pytest.mark.parametrize("transport, program", CASES)
def test_mpich(hosts, mpi, remote_shell, transport, program):
    """Each rank has the environment of its host."""
    places = ",".join(f"{address}:{RANKS // 2}" for address in IPV4)
    result = hosts[0].run("mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", remote_shell,
                          "-iface", "eth0", "-genvnone", "-hosts", places, "-n", RANKS,
                          mpi["mpich", program], seconds=2 * PATIENCE, **ucx(transport))
    expect_ranks(result, program, RANKS)
