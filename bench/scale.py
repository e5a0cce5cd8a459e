#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What many objects cost: the daemon's memory for each, and the time to make them.

    scale.py SIMHCA OBJECTS CONNECTIONS [N]...

Runs bench/scale.c (OBJECTS) with N QPs, CQs, MRs and MWs (1000, 2500, 5000 and 10000 of each), and
bench/connections.c (CONNECTIONS) with N connections of one process by rdma_cm, idle, on a private
daemon each time, and prints what one of them costs. Where the cost of one does not grow with N, all
of it is linear. At last 100 processes connect at once. SIMHCA is the tool of the build to measure.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

COUNTS = [1000, 2500, 5000, 10000]
KINDS = ["qps", "deep-qps", "cqs", "mrs", "mapped-mrs", "mws"]
PROCESSES = 100  # that connect at once
SECONDS = 300


def memory(pid):
    """KiB that a process has resident: of its own, and of what it shares with its clients."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return tuple(int(values[name].split()[0]) for name in ("RssAnon", "RssShmem"))


def environment(simhca, directory):
    subprocess.run([simhca, "start", "--runtime-dir", directory], check=True,
                   stdout=subprocess.DEVNULL)
    text = subprocess.run([simhca, "env", "--format", "json", "--runtime-dir", directory],
                          check=True, stdout=subprocess.PIPE).stdout
    status = subprocess.run([simhca, "status", "--json", "--runtime-dir", directory], check=True,
                            stdout=subprocess.PIPE).stdout
    return json.loads(text), json.loads(status)["pid"]


def measure(simhca, program, kind, count):
    """Seconds of each step, and KiB of the daemon while the objects are there."""
    directory = tempfile.mkdtemp(prefix="simhca-")
    try:
        variables, pid = environment(simhca, directory)
        env = {**os.environ, **variables}
        # The first client makes the daemon fault in what it will have in any case.
        subprocess.run([program, kind, "2"], env=env, stdin=subprocess.DEVNULL, check=True,
                       stdout=subprocess.DEVNULL, timeout=SECONDS)
        before = memory(pid)
        process = subprocess.Popen([program, kind, str(count)], env=env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        steps = {}
        for line in process.stdout:
            if line.strip() == "ready":
                after = memory(pid)
                process.stdin.close()
                continue
            name, value = line.split()
            steps[name] = float(value)
        if process.wait(SECONDS):
            sys.exit(f"scale: {program} {kind} {count}: exit status {process.returncode}")
        return steps, [now - then for now, then in zip(after, before)]
    finally:
        subprocess.run([simhca, "stop", "--runtime-dir", directory], stdout=subprocess.DEVNULL)
        shutil.rmtree(directory, ignore_errors=True)


def print_row(simhca, program, kind, count):
    steps, (own, shared) = measure(simhca, program, kind, count)
    each = [f"{steps[step] / count * 1e6:.1f}" if step in steps else "-"
            for step in ("create", "connect", "destroy")]
    print(f"{count:>6} {kind:>12} {own * 1024 / count:>10.0f} {shared * 1024 / count:>11.0f}"
          f" {each[0]:>10} {each[1]:>9} {each[2]:>9}", flush=True)


def main():
    simhca, objects, connections = sys.argv[1:4]
    counts = [int(word) for word in sys.argv[4:]] or COUNTS
    print(f"{'':>19} {'daemon, bytes each':>22} {'microseconds each':>30}")
    print(f"{'':>19} {'own':>10} {'shared':>11} {'create':>10} {'connect':>9} {'destroy':>9}")
    for kind in KINDS:
        for count in counts:
            print_row(simhca, objects, kind, count)
    for count in counts:
        print_row(simhca, connections, "connections", count)
    print_row(simhca, connections, "connecting", PROCESSES)


if __name__ == "__main__":
    main()
