# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
libfabric's own pingpong over an EFA device, beside the same program over a device of verbs and over TCP, in
turns: us for a message one way. And what an idle one costs.
"""

import json
import os
import pathlib
import re
import statistics
import sys
import time

from wire import clients

# Name, libfabric's provider, options of the daemon.
WAYS = [
    ("efa", "efa", ("--model", "efa")),
    ("verbs", "verbs;ofi_rxm", ()),
    ("tcp", "tcp;ofi_rxm", ()),
]
SIZES = {"64 B": 64, "4 KiB": 4 << 10, "64 KiB": 64 << 10}
MESSAGES = 200
# A message within one host goes by shared memory otherwise, past the device.
ENVIRONMENT = {"FI_EFA_ENABLE_SHM_TRANSFER": "0"}
SECONDS = 60  # of a program at most
SLEEPER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "clients" / "efa_events.py"
IDLE_SECONDS = 5


def fabric(common, device, provider):
    """
    Options of fi_pingpong: since libfabric 2.1 the fabric that comes first has the device's own operations, whose
    messages are no longer than a packet, and fi_pingpong says nothing of those that are.
    """
    found = common.expect_success(device.run("fi_info", "-p", provider)).stdout
    return ["-f", "efa"] if "fabric: efa-direct\n" in found else []


def pingpong(common, device, provider, size):
    """us for a message, one way."""
    port = common.new_port()
    argv = ["fi_pingpong", "-p", provider, *fabric(common, device, provider), "-e", "rdm", "-I", MESSAGES, "-S", size]
    server = device.start(*argv, "-B", port, **ENVIRONMENT)
    common.wait_until(lambda: common.is_listened_on(port) or not server.running, SECONDS, "it listens")
    client = common.expect_success(device.run(*argv, "-P", port, "127.0.0.1", seconds=SECONDS, **ENVIRONMENT))
    common.expect_success(server.finish())
    # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
    return float(re.search(r"^\S+ +\S+ +=\S+ +\S+ +\S+s +\S+ +(\S+) ", client.stdout, re.M)[1])


def idle(common, device):
    """Per cent of a CPU, of the daemon and of a program that sleeps for an event."""
    sleeper = device.start("/usr/bin/python3", "-u", SLEEPER)
    common.wait_until(lambda: "asleep" in sleeper.stdout or not sleeper.running, SECONDS, "it sleeps")
    time.sleep(0.1)
    pids = device.pid, sleeper.pid
    before = sum(map(common.cpu_ticks, pids))
    time.sleep(IDLE_SECONDS)
    used = sum(map(common.cpu_ticks, pids)) - before
    device.kill_programs()
    return 100 * used / os.sysconf("SC_CLK_TCK") / IDLE_SECONDS


def figures(tree, runs):
    common, _ = clients(tree)
    found = {(size, way): [] for size in SIZES for way, _, _ in WAYS}
    for _ in range(runs):
        for way, provider, options in WAYS:
            with common.Device("ethernet", *options) as device:
                for size, count in SIZES.items():
                    found[size, way].append(pingpong(common, device, provider, count))
    rows = []
    for size in SIZES:
        medians = {way: statistics.median(found[size, way]) for way, _, _ in WAYS}
        rows.append({"test": size, "us": medians, "ratios": {way: medians["efa"] / medians[way] for way in ("verbs", "tcp")},
                     "values": {way: found[size, way] for way, _, _ in WAYS}})
    with common.Device("ethernet", *WAYS[0][2]) as device:
        percent = idle(common, device)
    return {"cpus": len(os.sched_getaffinity(0)), "runs": runs, "tests": rows, "idle_percent": percent}


def main(tree, runs, as_json):
    result = figures(tree, runs)
    if as_json:
        json.dump(result, sys.stdout, indent=2)
        print()
        return 0
    print(f"{'fi_pingpong, us one way':24} {'efa':>8} {'verbs':>8} {'tcp':>8} {'of verbs':>9} {'of tcp':>9}")
    for row in result["tests"]:
        print(f"{row['test']:24} " + " ".join(f"{row['us'][way]:>8.2f}" for way, _, _ in WAYS)
              + f" {row['ratios']['verbs']:>9.2f} {row['ratios']['tcp']:>9.2f}")
    print(f"idle, daemon and program: {result['idle_percent']:.1f} % of a CPU")
    return 0
