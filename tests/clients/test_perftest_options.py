# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Options of perftest's programs that people type, beside the ways to use a queue pair that
test_perftest.py has. Not here: what needs rdma_cm (-R, -z, -T), another kind of device (-c DC or
SRD, -O, --aes_xts, --rate_limit_type=HW and PP), or is refused by this version of perftest itself.
"""
import pathlib
import re
import signal

import pytest

from common import TIME_LIMIT, expect_bandwidths, expect_latencies, expect_success, run_pair
from common import start_pair, start_server, table, wait_until
from releases import needs

pytestmark = pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)

ITERS = 50
SIZE = 65536


def pair(device, program, *flags, iters=("-n", ITERS)):
    """What client and server have printed, both with success."""
    results = run_pair(device, program, "-F", *iters, *flags)
    return [expect_success(result) for result in results]


BANDWIDTHS = {
    "no-peak": ["ib_send_bw", "-N"],
    "inline-receive": ["ib_send_bw", "--inline_recv=64", "-s", 32],
    "path": ["ib_write_bw", "-u", 14, "-S", 3, "--tclass=96", "--pkey_index=0", "--ipv6"],
    "vector": ["ib_send_bw", "-e", "-X", 1],
    "odp": ["ib_send_bw", "--odp"],
    "old-post": ["ib_read_bw", "--use_old_post_send", "--perform_warm_up"],
    "reversed": ["ib_send_bw", "--reversed"],
    "ordered": ["ib_write_bw", "--disable_pcie_relaxed", "--flows=2"],
    "limits": ["ib_send_bw", "-w", 0.001, "-y", 0.000001],
    "slow": ["ib_write_bw", "--rate_limit=200", "--rate_units=M", "--rate_limit_type=SW"],
    "regions": ["ib_atomic_bw", "--mr_per_qp", "-q", 2],
    # The programs compare the group's GID with the peer's, and both must look like IPv6.
    "multicast": ["ib_send_bw", "-c", "UD", "-g", "--ipv6", "-s", 1024],
    "group": ["ib_send_bw", "-c", "UD", "-g", "--ipv6", "-s", 1024,
              "-M", "255:1:0:0:0:0:0:0:0:0:0:0:0:0:0:2"],
}


@pytest.mark.parametrize("flags", [
    pytest.param(flags, id=name, marks=needs("inline_recv") if name == "inline-receive" else ())
    for name, flags in BANDWIDTHS.items()])
def test_bandwidth(device, flags):
    client, _ = pair(device, *flags)
    size = flags[flags.index("-s") + 1] if "-s" in flags else SIZE
    size = 8 if flags[0] == "ib_atomic_bw" else size
    expect_bandwidths(client, [size], ITERS * (2 if "-q" in flags else 1))


LATENCIES = {
    "odp": ["ib_write_lat", "--odp"],
    "gap": ["ib_write_lat", "--latency_gap=100"],
    "mtu": ["ib_send_lat", "-m", 512, "-r", 8],
    "multicast": ["ib_send_lat", "-c", "UD", "-g", "--ipv6"],
}


@pytest.mark.parametrize("flags", LATENCIES.values(), ids=LATENCIES)
def test_latency(device, flags):
    expect_latencies(pair(device, *flags)[0], [2], ITERS)


@pytest.mark.parametrize("flag", ["-H", "-U"])
def test_each_latency(device, flag):
    """-H also prints the single measurements, sorted; -U as they came."""
    client, _ = pair(device, "ib_send_lat", flag)
    assert re.search(rf"^ 2 +{ITERS} ", client.stdout, re.M), client
    _, _, rows = client.stdout.partition("#, usec")
    times = [float(usec) for usec in re.findall(r"^\d+, ([\d.e+]+)$", rows, re.M)]
    # A round trip is from one send to the next; the program may leave out the slowest.
    assert ITERS - 5 <= len(times) <= ITERS and min(times) > 0, client
    assert flag == "-U" or times == sorted(times), client


def test_duration(device):
    """-D: as many messages as go in a second, and --cpu_util what that costs."""
    client, _ = pair(device, "ib_send_bw", "--cpu_util", iters=("-D", 1))
    ((size, iters, _, average, _, used),) = table(client)
    assert size == SIZE and iters > 0 and average > 0 and 0 <= used <= 100, client


def test_infinitely(device):
    """--run_infinitely: a row a second, until somebody ends it."""
    server, client = start_pair(device, "ib_write_bw", "-F", "-D", 1, "--run_infinitely")
    row = re.compile(rf"^ {SIZE} +[1-9]\d* ", re.M)
    wait_until(lambda: not client.running or len(row.findall(client.stdout)) >= 2, TIME_LIMIT,
               "two rows")
    assert client.running and server.running, (client.result(), server.result())
    for program in client, server:
        program.send(signal.SIGTERM)
        program.finish()


def test_units(device):
    """--report_gbits: 10^9 bits, not 2^20 bytes."""
    client, _ = pair(device, "ib_send_bw", "--report_gbits")
    ((size, iters, _, average, rate),) = table(client)
    assert (size, iters) == (SIZE, ITERS) and "[Gb/sec]" in client.stdout, client
    assert abs(average - rate * 1e6 * size * 8 / 1e9) <= 0.01 + 0.05 * average, client


def test_report_both(device):
    """--report-both: the sum, and each direction."""
    client, _ = pair(device, "ib_send_bw", "-b", "--report-both")
    rows = re.findall(rf"^ {SIZE} +{ITERS} +[\d.]+ +([\d.]+)", client.stdout, re.M)
    assert len(rows) == 3 and all(float(average) > 0 for average in rows), client


@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
def test_report(device, tmp_path, program):
    """--out_json: the results in a file, which before 24.04 is not quite JSON."""
    report = tmp_path / "report"
    words = program, "-F", "-n", ITERS
    server, port = start_server(device, *words)
    client = device.run(*words, "--out_json", f"--out_json_file={report}", "-p", port, "localhost")
    expect_success(client)
    expect_success(server.finish())
    results = re.split(r'"?results"?: {', report.read_text())[1]
    values = dict(re.findall(r'^"?(\w+)"?: ([\d.]+),$', results, re.M))
    assert int(values["n_iterations"]) == table(client)[0][1] == ITERS, (results, client)
    assert int(values["MsgSize"]) == table(client)[0][0], (results, client)


def test_counters(device):
    """-W: what counters in /sys have become more; of both ends, which have one port."""
    names = "counters/port_xmit_packets", "hw_counters/rx_write_requests"
    client, _ = pair(device, "ib_write_bw", "-W", ",".join(names))
    counts = dict(re.findall(r"^\s+(\w+/\w+)=(\d+)$", client.stdout, re.M))
    assert set(counts) == set(names), client
    assert int(counts[names[1]]) == ITERS, client
    assert int(counts[names[0]]) == ITERS * (SIZE // 4096 + 1), client


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_mapped_file(device, tmp_path, program):
    """--mmap: the buffer is a file's."""
    file = tmp_path / "buffer"
    file.write_bytes(bytes(4 << 20))
    client, _ = pair(device, program, f"--mmap={file}", "--mmap-offset=4096")
    expect_bandwidths(client, [SIZE], ITERS)


def free_huge_pages():
    return int(re.search(r"HugePages_Free: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])


@pytest.mark.skipif(free_huge_pages() < 8, reason="no huge pages: /proc/sys/vm/nr_hugepages")
def test_huge_pages(device):
    client, _ = pair(device, "ib_write_bw", "--use_hugepages")
    expect_bandwidths(client, [SIZE], ITERS)
