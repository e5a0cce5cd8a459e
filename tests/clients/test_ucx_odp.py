# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
UCX on the device with memory that is paged on demand: regions that it registers so, and the whole
address space as one region.
"""
import json
import signal

import pytest

from common import BUILD, TIME_LIMIT, expect_success, is_listened_on, new_port, wait_until
from middleware import UCP_PARTS, compiled, expect_numbers, ucx, ucx_perftest
from releases import needs

ITERS = 200

# UCX 1.13 has a limit of its own for such regions, and without Mellanox's verbs it is 0.
EXPLICIT = {"UCX_IB_REG_METHODS": "direct", "UCX_IB_ODP_MAX_SIZE": "1g"}
IMPLICIT = {"UCX_IB_REG_METHODS": "odp,direct"}
DATA = [*UCP_PARTS[:-1], "dropped pages", UCP_PARTS[-1]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("odp")
    library = BUILD / "lib"
    return (compiled(directory, "ucp_check.c", "-lucp", "-lucs"),
            compiled(directory, "odp_counters.c", f"-I{BUILD}/include", f"-L{library}",
                     f"-Wl,-rpath,{library}", "-lsimhca", "-libverbs"))


@pytest.fixture
def counted(device, programs):
    """counted(): what has been counted of on-demand paging since the test began."""
    def now():
        return json.loads(expect_success(device.run(programs[1])).stdout)
    before = now()
    return lambda: {name: value - before[name] for name, value in now().items()}


@pytest.mark.parametrize("how, env", [
    ("explicit", EXPLICIT), pytest.param("implicit", IMPLICIT, marks=needs("whole_space"))])
def test_data(device, programs, counted, how, env):
    """Every kind of operation, and pages that come and go in between, with every byte checked."""
    result = expect_success(device.run(programs[0], "poll", how, **env, **ucx("rc")))
    assert result.stdout.splitlines() == DATA, result
    paging = counted()
    # Each round half of a mebibyte is dropped, used again, and faults again.
    assert paging["faults"] >= 12 and paging["fault_pages"] > 12 * 128, paging
    assert paging["invalidated_pages"] >= 11 * 128 and not paging["failures"], paging


def perftest(device, *flags, **env):
    """Both sides of ucx_perftest: the client's numbers, and how both have ended."""
    port = new_port()
    argv = [*ucx_perftest(), "-f", "-q", "-p", port, "-n", ITERS, "-w", 20, *flags]
    server = device.start(*argv, **env)
    wait_until(lambda: is_listened_on(port) or not server.running, TIME_LIMIT, "it listens")
    client = device.run(*argv, "127.0.0.1", **env)
    expect_numbers(client, ITERS)
    return client, server.finish()


PERFTEST = {
    "put-bw": ["-t", "ucp_put_bw", "-s", 65536],
    "get": ["-t", "ucp_get", "-s", 65536],
    "rc-fadd": ["-d", "simhca0:1", "-x", "rc_verbs", "-t", "fadd", "-s", 8],
    "rc-put-zcopy": ["-d", "simhca0:1", "-x", "rc_verbs", "-t", "put_bw", "-s", 100000, "-D",
                     "zcopy"],
    "rc-get-zcopy": ["-d", "simhca0:1", "-x", "rc_verbs", "-t", "get", "-s", 100000, "-D",
                     "zcopy"],
}


@pytest.mark.parametrize("flags", PERFTEST.values(), ids=PERFTEST)
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_perftest_explicit(device, counted, flags):
    """-B registers the benchmark's buffers on demand."""
    for result in perftest(device, *flags, "-B", **EXPLICIT, **ucx("rc")):
        expect_success(result)
        assert "ERROR" not in result.stdout + result.stderr, result
    paging = counted()
    assert paging["faults"] and paging["fault_pages"] and not paging["failures"], paging


@needs("whole_space")
@pytest.mark.parametrize("flags", [["-t", "tag_bw", "-s", 65536], *PERFTEST.values()],
                         ids=["tag-bw", *PERFTEST])
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_perftest_implicit(device, counted, flags):
    """
    The whole address space is one region. The benchmark is through when UCX crashes in
    uct_ib_md_close(): up to 1.14 it hands that region to a function that expects another struct,
    on any device (openucx issue 8735). Nothing else is forgiven.
    """
    for result in perftest(device, *flags, **IMPLICIT, **ucx("rc")):
        if result.status:
            assert result.status == -signal.SIGSEGV, result
            assert "uct_ib_md_close" in result.stdout + result.stderr, result
    paging = counted()
    assert paging["faults"] and paging["fault_pages"] and not paging["failures"], paging
