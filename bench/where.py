# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Where the time of a message goes: runs bench/where.c, and prints its figures as a table.

The daemon and the program have a CPU each, and the daemon a runtime directory of its own.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SECONDS = 600
COLUMNS = ["post", "engine", "system calls", "its own", "poll", "sum", "measured"]


def on(cpu):
    return lambda: os.sched_setaffinity(0, {cpu})


def run(simhca, program, directory):
    """{(operation, bytes): {step: us}}"""
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    quiet = {"stdin": subprocess.DEVNULL, "check": True, "stdout": subprocess.PIPE}
    where = ["--runtime-dir", directory]
    # By the daemon, which copies all bytes itself: into the receiver's memory, too.
    subprocess.run([simhca, "start", "--fast-path", "off", "--scatter-to-cqe", "off", *where],
                   preexec_fn=on(cpus[0]), **quiet)
    try:
        env = subprocess.run([simhca, "env", "--format", "json", *where], **quiet).stdout
        status = subprocess.run([simhca, "status", "--json", *where], **quiet).stdout
        done = subprocess.run(
            [program, str(json.loads(status)["pid"]), str(cpus[0])],
            env={**os.environ, **json.loads(env)}, preexec_fn=on(cpus[-1]), timeout=SECONDS, **quiet,
        )
    finally:
        subprocess.run([simhca, "stop", *where], stdin=subprocess.DEVNULL, check=False)
    found = {}
    for operation, size, step, us in map(str.split, done.stdout.decode().splitlines()):
        found.setdefault((operation, int(size)), {})[step] = float(us)
    return found


def rows(found):
    hand_over = found.pop(("hand-over", 0))["cpu"]
    table = []
    for (operation, size), us in found.items():
        calls = us["get"] + us["put"]
        whole = us["post"] + us["engine"] + us["poll"] + 2 * hand_over
        values = [us["post"], us["engine"], calls, us["engine"] - calls, us["poll"], whole,
                  us["alone"]]
        table.append((f"{operation}, {size} B", dict(zip(COLUMNS, values))))
    return hand_over, table


def figures(simhca, program):
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: where: needs two CPUs")
    with tempfile.TemporaryDirectory(prefix="simhca-") as directory:
        hand_over, table = rows(run(str(simhca), program, str(pathlib.Path(directory, "run"))))
    return {"hand_over": hand_over, "us": dict(table)}


def main(simhca, program, as_json):
    result = figures(simhca, program)
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    print("| us | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for title, values in result["us"].items():
        print(f"| {title} | " + " | ".join(f"{value:.2f}" for value in values.values()) + " |")
    print(f"\nA hand-over from CPU to CPU takes {result['hand_over']:.2f} us.")
    return 0
