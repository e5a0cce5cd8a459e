# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""perftest's raw_ethernet programs: frames between two processes, by way of flows."""
import re

import pytest

from common import TIME_LIMIT, cpu_ticks, expect_latencies, expect_success, has_net_raw, measured, table, wait_until

MACS = "02:00:00:00:00:01", "02:00:00:00:00:02"
MTU = 1518  # the largest frame of perftest
UDP = ["-j", "2.2.2.2", "-J", "1.1.1.1", "-k", 6, "-K", 5]  # a match of IPv4 and UDP

pytestmark = [
    pytest.mark.skipif(not has_net_raw(), reason="raw packets are for CAP_NET_RAW"),
    pytest.mark.parametrize("module_device", ["ethernet"], indirect=True),
]


def start(device, program, side, *flags):
    own, other = MACS if side == "--server" else MACS[::-1]
    return device.start(program, "-F", side, "-B", own, "-E", other, *flags)


def run_raw(device, program, *flags):
    return measured(lambda: run_raw_once(device, program, flags))


def run_raw_once(device, program, flags):
    """
    A server and its client, which have no connection by which the one would know of the other:
    frames go nowhere before the server polls for them.
    """
    server = start(device, program, "--server", *flags)
    wait_until(lambda: device.objects()["flows"] or not server.running, TIME_LIMIT, "a flow")
    begin = cpu_ticks(server.pid) if server.running else 0
    wait_until(lambda: not server.running or cpu_ticks(server.pid) > begin + 5, TIME_LIMIT,
               "the server polls")
    assert server.running, server.result()
    client = start(device, program, "--client", *flags)
    return expect_success(client.finish()), expect_success(server.finish())


BANDWIDTHS = {
    "ethernet": ([], MTU),
    "inline": (["-s", 64, "-I", 64], 64),
    "udp": (["-s", 500, *UDP], 500),
    # perftest 25 divides by the path MTU here, which is 0 unless it is given.
    "srq": (["--use-srq", "-m", 1024], 1024),
    "both-ways": (["-b"], MTU),
    "vlan": (["--vlan_en"], MTU),
    "tcp-ipv6": (["-s", 500, "--tcp", "--raw_ipv6", "-j", "fd00::2", "-J", "fd00::1", "-k", 6,
                  "-K", 5], 500),
    "many-flows": (["-s", 500, "-q", 2, "--flows", 4, *UDP], 500),
}


@pytest.mark.parametrize("flags, size", BANDWIDTHS.values(), ids=BANDWIDTHS)
def test_bandwidth(device, flags, size):
    """Both sides count frames for a second. Those that find no receive are lost."""
    for result in run_raw(device, "raw_ethernet_bw", "-D", 1, *flags):
        ((row_size, frames, *_),) = table(result)
        assert row_size == size and frames > 0, result


@pytest.mark.parametrize("flags", [[], UDP[:4]], ids=["ethernet", "ipv4"])
def test_latency(device, flags):
    """Frames to and fro, each after the other."""
    for result in run_raw(device, "raw_ethernet_lat", "-n", 200, "-s", 100, *flags):
        expect_latencies(result, [100], 200)


@pytest.mark.parametrize("match", [[], UDP], ids=["ethernet", "udp"])
def test_flow_rate(device, match):
    """raw_ethernet_fs_rate: how fast flows come into being and go; it has no client."""
    result, = measured(lambda: [start(device, "raw_ethernet_fs_rate", "--server", "-n", 100, *match).finish()])
    row = re.search(r"^100 +([\d.]+) +\t+([\d.]+)", expect_success(result).stdout, re.M)
    assert row and 0 < float(row[1]) <= float(row[2]), result
