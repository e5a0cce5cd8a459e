# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A program with more queues than the daemon has descriptors to give to single ones: to itself it has the fast path
all the same.
"""
import json
import subprocess

from common import HERE, SIMHCA, TIME_LIMIT

PAIRS = 40  # of two QPs and a CQ, where a program may have 32 such queues


def test_within_a_process():
    done = subprocess.run(
        ["prlimit", "--nofile=256:256", SIMHCA, "run", "--private", "--fast-path", "on", "--",
         "/usr/bin/python3", HERE / "pairs_in_one.py", SIMHCA, str(PAIRS)],
        stdout=subprocess.PIPE, timeout=TIME_LIMIT, check=True)
    counts = json.loads(done.stdout)
    assert counts["qps"] == 2 * PAIRS
    # Of each pair one QP was connected last, and one of them posted.
    assert counts["carried"] >= PAIRS
