# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""perftest's eight programs: the table that they print has all rows, and no zeros."""
import pytest

from common import expect_bandwidths, expect_latencies, expect_success, run_pair
from common import start_pair
from link_layers import ONE_LINK_LAYER
from pairwise import long_form_only
from perftest import BANDWIDTHS, BOTH_WAYS, ITERS, LARGE, LATENCIES, QUIET, SIZES, UD_SIZES
from perftest import expected_iterations, flags_of


def bandwidths(device, program, *flags, sizes, iters=ITERS, rows_of_server=False):
    """Both sides succeed, and the client has measured; the server, too, where it counts."""
    client, server = run_pair(device, program, *QUIET, "-n", iters, *flags)
    expect_bandwidths(expect_success(client), sizes, expected_iterations(flags, iters))
    expect_success(server)
    if rows_of_server:
        expect_bandwidths(server, sizes, expected_iterations(flags, iters))


def latencies(device, program, *flags, sizes, iters=ITERS):
    client, server = run_pair(device, program, *QUIET, "-n", iters, *flags)
    expect_latencies(expect_success(client), sizes, iters)
    expect_success(server)


# (link layer, program, flags, sizes). A row costs the client a quarter of a second of measuring the CPU's clock, and one of
# latencies each side half a second: each opcode has all sizes once, and each link layer, and UD; the others have the
# largest below.
ALL_BANDWIDTHS = [*(("ethernet", program, [], SIZES) for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw")),
                  ("ib", "ib_write_bw", [], SIZES), ("ib", "ib_send_bw", ["-c", "UD"], UD_SIZES)]
ALL_LATENCIES = [("ib", "ib_write_lat", [], SIZES), ("ib", "ib_send_lat", ["-c", "UD"], UD_SIZES)]


def named(value):
    """A test's name needs the flags, not the sizes."""
    if isinstance(value, str):
        return value
    return "all" if len(value) > 2 else "-".join(value) or "RC"


def on_link_layers(cases):
    return pytest.mark.parametrize("module_device, program, flags, sizes", cases,
                                   indirect=["module_device"], ids=named)


@on_link_layers(ALL_BANDWIDTHS)
def test_all_bandwidths(device, program, flags, sizes):
    """-a: every size from 2 bytes to 8 MiB, on UD to the MTU."""
    bandwidths(device, program, "-a", *flags, sizes=sizes, iters=20)


@long_form_only
@on_link_layers(ALL_LATENCIES)
def test_all_latencies(device, program, flags, sizes):
    """-a for the programs that measure latency."""
    latencies(device, program, "-a", *flags, sizes=sizes, iters=20)


# Flags that choose the transport or the path, in which the link layer has a say.
ADDRESSING = {"-c", "-m", "-x"}


def on_ethernet_and(table):
    """On InfiniBand, too, what has to do with addresses, and the first of each program."""
    cases, programs = {}, set()
    for name, (program, flags, sizes) in table.items():
        cases[f"ethernet-{name}"] = ("ethernet", program, flags, sizes)
        if program not in programs or ADDRESSING & set(map(str, flags)) or len(ONE_LINK_LAYER) > 1:
            cases[f"ib-{name}"] = ("ib", program, flags, sizes)
        programs.add(program)
    return pytest.mark.parametrize("module_device, program, flags, sizes", cases.values(),
                                   indirect=["module_device"], ids=cases)


of_perftest = ("module_device", "program", "flags")


@pytest.mark.pairs(*of_perftest)
@on_ethernet_and(BANDWIDTHS)
def test_bandwidth(device, program, flags, sizes):
    """One way in which programs use a queue pair, each."""
    bandwidths(device, program, *flags_of(flags, sizes), sizes=sizes)


@pytest.mark.pairs(*of_perftest, also=["-b"])
@on_ethernet_and(BOTH_WAYS)
def test_both_ways(device, program, flags, sizes):
    """-b: both sides post, and both have a table."""
    bandwidths(device, program, "-b", *flags, sizes=sizes, rows_of_server=True)


@pytest.mark.pairs(*of_perftest)
@on_ethernet_and(LATENCIES)
def test_latency(device, program, flags, sizes):
    """The same for the programs in which each message waits for the one before."""
    latencies(device, program, *flags, sizes=sizes)


@pytest.mark.parametrize("module_device", ONE_LINK_LAYER, indirect=True)
def test_two_pairs_at_once(device):
    """Two pairs that have the device to themselves only in their own view."""
    writing = start_pair(device, "ib_write_bw", *QUIET, "-n", 2000)
    sending = start_pair(device, "ib_send_bw", *QUIET, "-n", 2000, "-b")
    for program in writing + sending:
        expect_bandwidths(expect_success(program.finish()), LARGE, 2000)


@pytest.mark.parametrize("module_device", ONE_LINK_LAYER, indirect=True)
def test_many_messages(device):
    """Queues and PSNs that wrap around: 100000 messages in a queue of 128."""
    bandwidths(device, "ib_send_bw", "-s", 8, sizes=[8], iters=100000)
