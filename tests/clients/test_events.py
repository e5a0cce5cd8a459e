# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Programs that sleep until their completions come, for long; and what sleeping costs. SIMHCA_SOAK=1
makes a million messages of ten thousand.
"""
import json
import os
import signal
import subprocess

import pytest

from common import HERE, TIME_LIMIT, SIMHCA, expect_success, pingpong, run_pair, sleeps_through, table, wait_until
from middleware import compiled

SOAK = os.environ.get("SIMHCA_SOAK") == "1"
MESSAGES = 1000000 if SOAK else 10000
SECONDS = 3600 if SOAK else TIME_LIMIT


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
                                     "ibv_srq_pingpong"])
def test_pingpong(device, program):
    """No event is missed, or the program would stand still; queues wrap around many times."""
    pingpong(device, program, "-e", "-c", size=2048, iters=MESSAGES, seconds=SECONDS)


PERFTEST = [["ib_send_lat"], ["ib_send_bw"], ["ib_read_lat"]]
if SOAK:
    PERFTEST += [["ib_send_lat", "-c", "UD"], ["ib_send_bw", "-b"], ["ib_read_bw"],
                 ["ib_atomic_bw"], ["ib_atomic_lat"]]


@pytest.mark.parametrize("flags", PERFTEST, ids=" ".join)
def test_perftest(device, flags):
    """
    Those programs of perftest that can sleep (-e); those that write cannot.

    ib_send_lat has one channel for both CQs, and takes the first event after a send for that of the
    send. It gives up ("Couldn't post send") when the answer to a message is there before its
    sender's completion, which no rule forbids. Here that takes an engine thread which waits
    in a program's memory, so that another one stands in for it; not one that a busy machine
    keeps from its CPU.
    """
    program, *flags = flags
    client, server = run_pair(device, program, "-F", "-e", "-n", MESSAGES, *flags,
                              seconds=SECONDS)
    expect_success(server)
    assert [row[1] for row in table(expect_success(client))] == [MESSAGES], client


@pytest.fixture(scope="module")
def idle_armed(tmp_path_factory):
    program = tmp_path_factory.mktemp("events") / "idle_armed"
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-O1", "-pthread", "-o", program,
                    HERE / "idle_armed.c", "-libverbs"], check=True)
    return program


def test_idle(device, idle_armed):
    """
    A daemon whose programs sleep at armed CQs looks at nothing after a few seconds: no thread of it
    wakes up any more. Network interfaces that come and go beside the test do wake it for a moment.
    """
    program = device.start(idle_armed)
    wait_until(lambda: "armed" in program.stdout or not program.running, TIME_LIMIT, "it is ready")
    assert program.running, program.result()
    wait_until(lambda: sleeps_through((program.pid, device.pid)), TIME_LIMIT, "nobody wakes up")
    assert program.running, program.result()
    program.kill()


def test_idle_without_programs(device):
    wait_until(lambda: sleeps_through((device.pid,)), TIME_LIMIT, "nobody wakes up")


@pytest.fixture(scope="module")
def waits(programs):
    return compiled(programs, HERE.parent / "programs/waits.c", "-D_GNU_SOURCE", "-libverbs", "-pthread")


@pytest.mark.parametrize("how", ["armed_late", "edge", "write_waited"])
def test_a_mistake_after_a_pause(device, waits, how):
    """The program goes on by the fast path, of which the daemon sees nothing while it looks at nothing."""
    program = device.start(waits, how, "pause")
    wait_until(lambda: "pauses" in program.stdout or not program.running, TIME_LIMIT, "it pauses")
    wait_until(lambda: sleeps_through((program.pid, device.pid)), TIME_LIMIT, "nobody wakes up")
    program.send(signal.SIGUSR2)

    def told():
        failures = json.loads(expect_success(device.run(SIMHCA, "explain", "--json")).stdout)["failures"]
        return any(one["kind"] == "sleep" and one["pid"] == program.pid for one in failures)

    wait_until(told, TIME_LIMIT, "it is told")
    program.kill()
