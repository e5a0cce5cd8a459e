# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Open MPI, its OpenSHMEM and MPICH, as Debian builds them, over UCX on the device: programs that
check every word.
More ranks than CPUs, as on the machines that projects have their tests run on.
"""
import pytest

from common import TIME_LIMIT
from middleware import OPENMPI, OPENMPI_ENV, OPENSHMEM, compiled, compiled_mpi, expect_pes
from middleware import expect_ranks, ucx
from releases import needs


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return compiled_mpi(tmp_path_factory.mktemp("mpi"))


CASES = [
    ("rc", 2, "one_sided"),
    ("ud", 2, "messages"),
    ("rc", 8, "messages"),
    ("rc", 8, "one_sided"),
    ("ud", 8, "messages"),
    ("ud", 8, "one_sided"),
]
# Eight that send datagrams take it 14 seconds.
MPICH_CASES = [*(case for case in CASES if case != ("ud", 8, "messages")),
               ("rc", 4, "messages"), ("ud", 4, "messages"), ("ud", 4, "one_sided")]


@pytest.mark.pairs("transport", "ranks", "program")
@pytest.mark.parametrize("transport, ranks, program", CASES)
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_openmpi(device, programs, transport, ranks, program):
    result = device.run(*OPENMPI, "-np", ranks, programs["openmpi", program],
                        seconds=2 * TIME_LIMIT, **OPENMPI_ENV, **ucx(transport))
    expect_ranks(result, program, ranks)


@pytest.mark.parametrize("transport, ranks", [("ud", 4), ("rc", 8)])
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_openshmem(device, tmp_path, transport, ranks):
    program = compiled(tmp_path, "shmem.c", compiler="oshcc")
    result = device.run(*OPENSHMEM, "-np", ranks, program, seconds=2 * TIME_LIMIT, **OPENMPI_ENV,
                        **ucx(transport))
    expect_pes(result, ranks)


@pytest.mark.parametrize("transport, ranks, program", MPICH_CASES)
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_mpich(device, programs, transport, ranks, program):
    result = device.run("mpiexec.mpich", "-n", ranks, programs["mpich", program],
                        seconds=2 * TIME_LIMIT, **ucx(transport))
    expect_ranks(result, program, ranks)


@pytest.mark.parametrize("transport", ["rc", "ud"])
@pytest.mark.parametrize("module_device", ["ib"], indirect=True)
def test_mpich_infiniband(device, programs, transport):
    """LIDs instead of GIDs."""
    result = device.run("mpiexec.mpich", "-n", 3, programs["mpich", "messages"],
                        seconds=2 * TIME_LIMIT, **ucx(transport))
    expect_ranks(result, "messages", 3)


@needs("openib")
@pytest.mark.parametrize("module_device", ["ib"], indirect=True)
def test_openmpi_openib(device, programs):
    """
    Open MPI's own verbs, without UCX; it connects by datagrams, on InfiniBand only. (Not one-sided:
    Open MPI 4.1.4 hands the BTL a NULL handle for a compare-and-swap within a node.)
    """
    result = device.run("mpirun.openmpi", "--oversubscribe", "-np", 2, "--mca", "pml", "ob1",
                        "--mca", "btl", "openib,self", "--mca", "btl_openib_allow_ib", 1,
                        "--mca", "btl_openib_warn_no_device_params_found", 0,
                        programs["openmpi", "messages"], seconds=2 * TIME_LIMIT, **OPENMPI_ENV)
    expect_ranks(result, "messages", 2)
