# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs whose memory is moved into files that both ends map, as --shared-memory on has it; data are checked where they can be."""
import json

import pytest

from common import HERE, SIMHCA, Device, expect_bandwidths, expect_latencies, expect_success, run_pair, start_pair, wait_until
from middleware import OPENMPI, OPENMPI_ENV, compiled, compiled_mpi, expect_ranks, ucx
from perftest import QUIET


@pytest.fixture(scope="module")
def sharing():
    with Device("ethernet", "--shared-memory", "on") as device:
        yield device


@pytest.fixture
def device(sharing):
    """Nothing is left of what a test made."""
    yield sharing
    sharing.kill_programs()
    sharing.expect_idle()


def test_bandwidth(device):
    """perftest's regions are whole pages: peers can map them."""
    server, client = start_pair(device, "ib_write_bw", *QUIET, "-D", 1)
    regions = []

    def are_there():
        regions[:] = json.loads(expect_success(device.tool.run(SIMHCA, "mr", "--json")).stdout)
        return len(regions) == 2 or not client.running

    wait_until(are_there, 20, "both have registered")
    assert [(mr["mappable"], mr["pid"]) for mr in sorted(regions, key=lambda mr: mr["pid"])] == \
        [(True, pid) for pid in sorted([server.pid, client.pid])]
    expect_success(client.finish())
    expect_success(server.finish())


def test_latency(device):
    client, server = run_pair(device, "ib_send_lat", *QUIET, "-n", 500, "-s", 64)
    expect_latencies(expect_success(client), [64], 500)
    expect_success(server)


def test_atomics(device):
    client, server = run_pair(device, "ib_atomic_bw", *QUIET, "-n", 2000, "-A", "FETCH_AND_ADD")
    expect_bandwidths(expect_success(client), [8], 2000)
    expect_success(server)


def test_ucx(device, tmp_path):
    """Its registration cache learns of no move: what it has just registered stays in it."""
    program = compiled(tmp_path, "ucp_check.c", "-lucp", "-lucs")
    result = expect_success(device.run(program, "poll", **ucx("rc")))
    assert result.stdout.splitlines()[-1] == "both sides are done", result


@pytest.mark.parametrize("program", ["messages", "one_sided"])
def test_openmpi(device, tmp_path_factory, program):
    made = compiled_mpi(tmp_path_factory.mktemp("mpi"))
    result = device.run(*OPENMPI, "-np", 4, made["openmpi", program], seconds=120, **OPENMPI_ENV, **ucx("rc"))
    expect_ranks(result, program, 4)


def test_faults_of_registration(launcher):
    """A rule for REG_MR is one for ibv_reg_mr(), whatever its provider asks the daemon for."""
    result = launcher.run(SIMHCA, "run", "--private", "--shared-memory", "on", "--inject=verb REG_MR=ENOMEM", "--",
                          "/usr/bin/python3", HERE / "failing.py", "fine")
    assert result.status == 1 and "Cannot allocate memory" in result.stderr, result
