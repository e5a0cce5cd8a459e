# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca run` of a program that makes a daemon of itself: the run ends with its command, and says so."""
import os
import pathlib
import re
import signal
import time

import pytest

from common import TIME_LIMIT, SIMHCA, alive, expect_success, wait_until

PYTHON = "/usr/bin/python3"

# Forks twice, as daemon(3) with setsid() does; the grandchild opens the device. OPENED: a file that it makes.
DAEMON = """
import os, pathlib, sys, time
if os.fork():
    if sys.argv[2] == "waits":
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
    sys.exit(3)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for descriptor in 0, 1, 2:
    os.dup2(null, descriptor)
import pyverbs.device
context = pyverbs.device.Context(name="simhca0")
pathlib.Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
if sys.argv[2] != "ends":
    time.sleep(600)
"""


@pytest.fixture
def opened(tmp_path):
    """Where the daemon writes its number; it is killed in the end."""
    file = tmp_path / "opened"
    yield file
    if file.exists():
        try:
            os.kill(int(file.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


def told(result):
    return [line for line in result.stderr.splitlines() if "left running" in line]


def test_a_program_that_makes_a_daemon_of_itself(launcher, opened):
    """The status is that of the command; a line names who is left, and what to do."""
    result = launcher.run(SIMHCA, "run", "--private", "--", PYTHON, "-c", DAEMON, opened, "waits")
    assert result.status == 3
    assert told(result) == [
        f"simhca run: python3[{opened.read_text()}], which the command has left running, still has the device "
        "open, and the device ends now; have it stay in the foreground, or begin with `simhca start`"], result


def test_one_that_ends_in_time(launcher, opened):
    """Who is about to end has a moment, and nothing is said."""
    result = launcher.run(SIMHCA, "run", "--private", "--", PYTHON, "-c", DAEMON, opened, "ends")
    assert result.status == 3 and not told(result), result


def test_silence(launcher, opened):
    result = launcher.run(SIMHCA, "run", "--private", "--", PYTHON, "-c", DAEMON, opened, "waits",
                          SIMHCA_EXPLAIN="0")
    assert result.status == 3 and not told(result), result


def test_by_a_daemon_that_stays(device, opened):
    """What the line says to do helps: the device stays, and so does who has it open."""
    result = device.run(SIMHCA, "run", "--", PYTHON, "-c", DAEMON, opened, "waits")
    assert result.status == 3 and not told(result), result
    pid = int(opened.read_text())
    time.sleep(0.3)
    assert alive(pid) and device.objects()["contexts"] == 1
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: device.objects()["contexts"] == 0, TIME_LIMIT, "it has ended")


def test_its_failures_are_the_runs(launcher):
    """What fails in a process that has lost its parent is told by the run that began it."""
    failing = pathlib.Path(__file__).parent / "failing.py"
    script = f"(setsid sh -c '{PYTHON} {failing} past_end' & ) & sleep 5"
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--", "sh", "-c", script))
    assert re.search(r"simhca run: \d+ work requests? failed \(first: python3\[\d+\] RDMA_WRITE", result.stderr), result


def test_no_zombies(launcher):
    """Processes that have lost their parent are waited for."""
    script = "for i in 1 2 3; do (true & ); done; sleep 0.5; ps -o stat= --ppid $PPID | grep -c Z; true"
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--", "sh", "-c", script))
    assert result.stdout == "0\n", result
