# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A client can make its own memory block for as long as it likes: a userfaultfd that nobody serves.
The device is then stuck in its memory, and nobody else may be the worse for it.
"""
import pathlib
import signal
import subprocess

import pytest

from common import TIME_LIMIT, Device, pingpong, sleeps_through, wait_until

SOURCE = pathlib.Path(__file__).with_name("blocking_memory.c")


@pytest.fixture(scope="module")
def blocker(tmp_path_factory):
    program = tmp_path_factory.mktemp("blocker") / "blocking_memory"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-O1", SOURCE, "-o", program,
                    "-libverbs"], check=True)
    return program


@pytest.fixture(params=["at_once", "after_a_pause"])
def stuck_device(request, blocker):
    """
    A device whose only engine thread is in the memory of a program that blocks it; after a pause that is
    long enough for the daemon to stop looking at its threads.
    """
    with Device("ethernet", "--engines", 1) as device:
        # Or it would wait for its own memory by itself.
        pause = ["pause"] if request.param == "after_a_pause" else []
        program = device.start(blocker, *pause, SIMHCA_FAST_PATH="off")
        if pause:
            wait_until(lambda: "pauses" in program.stdout or not program.running, TIME_LIMIT, "it pauses")
            wait_until(lambda: sleeps_through((program.pid, device.pid)), TIME_LIMIT, "nobody wakes up")
            program.send(signal.SIGUSR2)
        wait_until(lambda: "blocking" in program.stdout or not program.running, TIME_LIMIT,
                   "the datagram is posted")
        assert program.running, program.result()
        wait_until(lambda: "is stuck in a client's memory" in device.log(), TIME_LIMIT,
                   "the daemon notices")
        yield device, program
        program.kill()


def test_others_work_on(stuck_device):
    """Data, control path and the way out of other programs: with a thread that stands in."""
    device, _ = stuck_device
    for _ in range(3):
        pingpong(device, "ibv_rc_pingpong", "-e", "-c", iters=500)
    assert device.objects()["qps"] == 1, "only the blocker's QP is left"


def test_nothing_is_left_when_it_dies(stuck_device):
    """Killed in the middle: its objects go, and the device can be stopped."""
    device, program = stuck_device
    program.kill()
    device.expect_idle()
    for _ in range(5):  # two threads run the engine now, until one of them leaves
        pingpong(device, "ibv_rc_pingpong", "-e", "-c", iters=500)
