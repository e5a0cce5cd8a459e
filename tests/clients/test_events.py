# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Programs that sleep until their completions come, for long; and what sleeping costs. SIMHCA_SOAK=1
makes a million messages of ten thousand, and a minute of three seconds.
"""
import os
import subprocess
import time

import pytest

from common import HERE, PATIENCE, cpu_ticks, expect_success, pingpong, run_pair, table, wait_until

SOAK = os.environ.get("SIMHCA_SOAK") == "1"
MESSAGES = 1000000 if SOAK else 10000
SECONDS = 3600 if SOAK else PATIENCE
IDLE = 60 if SOAK else 3  # seconds


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
    Armed CQs without traffic take no CPU time: program and daemon together less than a hundredth of
    one CPU. This is CPU time, which others on the machine do not change.
    """
    program = device.start(idle_armed)
    wait_until(lambda: "armed" in program.stdout or not program.running, PATIENCE, "it is ready")
    assert program.running, program.result()
    pids = program.pid, device.pid
    time.sleep(0.5)  # what was to be done for the start is done
    before, started = sum(map(cpu_ticks, pids)), time.monotonic()
    time.sleep(IDLE)
    used = (sum(map(cpu_ticks, pids)) - before) / os.sysconf("SC_CLK_TCK")
    assert program.running, program.result()
    assert used < (time.monotonic() - started) / 100, f"{used} s of CPU time"
    print(f"{used} s of CPU time")
    program.kill()
