# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Programs that are stopped in the middle of their work: the other side ends by itself, nothing is
left in the device, and the next program works.

Which survivors end by themselves is as on hardware: those with a send request that nobody
acknowledges (RC: retries exceeded), and those that wait for their peer's TCP connection. A
program that only waits for messages, such as one half of the time ibv_rc_pingpong, waits on.
"""
import os
import pathlib
import random
import signal
import time

import pytest

from common import ENDING, TIME_LIMIT, Device, expect_success, gid, pingpong
from common import start_working, wait_until
from link_layers import ONE_LINK_LAYER

SOAK = os.environ.get("SIMHCA_SOAK") == "1"
# The daemon's threads that do what may sleep come when they are needed, and each brings a stack and
# an arena of the allocator: it is warm when so many kills in a row brought nothing new.
STEADY = 5
WARM_UP = 50  # at most
KILLS = 200 if SOAK else 5

# For much longer than any test; -N: without a table of all messages' times.
LASTING = ["-F", "-D", 100]
LASTING_EVENTS = ["-F", "-e", "-N", "-n", 10**8]
QUEUED = 128  # requests that perftest has under way
ALL_RETRIES = 2  # seconds, and more than perftest's seven of 67 ms take

SERVER, CLIENT = 0, 1

on_one_link_layer = pytest.mark.parametrize("module_device", ONE_LINK_LAYER, indirect=True)

# (program, victim)
STOPPED = {
    "write-server": (["ib_write_bw", *LASTING], SERVER),
    "write-client": (["ib_write_bw", *LASTING], CLIENT),
    "write-q-server": (["ib_write_bw", *LASTING, "-q", 16], SERVER),
    "read-server": (["ib_read_bw", *LASTING], SERVER),
    "read-client": (["ib_read_bw", *LASTING], CLIENT),
    "read-e-server": (["ib_read_bw", *LASTING_EVENTS], SERVER),
    "send-server": (["ib_send_bw", *LASTING], SERVER),
    "send-e-server": (["ib_send_bw", *LASTING_EVENTS], SERVER),
    "send-b-client": (["ib_send_bw", *LASTING, "-b"], CLIENT),
    "send-b-server": (["ib_send_bw", *LASTING, "-b"], SERVER),
    "atomic-server": (["ib_atomic_bw", *LASTING], SERVER),
    "atomic-client": (["ib_atomic_bw", *LASTING], CLIENT),
}


def stop(pair, victim, number):
    """Stops one side; the other one, which must end by itself, has failed."""
    pair[victim].send(number)
    assert pair[victim].finish(ENDING).status == -number, pair[victim].result()
    survivor = pair[1 - victim].finish(ENDING)
    assert survivor.status > 0, f"has not failed, or died: {survivor}"


@on_one_link_layer
@pytest.mark.parametrize("argv, victim", STOPPED.values(), ids=STOPPED)
def test_killed(device, argv, victim):
    """kill -9: the device learns of it from the closed connection alone."""
    stop(start_working(device, *argv), victim, signal.SIGKILL)
    device.expect_idle()
    pingpong(device, "ibv_rc_pingpong", "-c", iters=100)


@on_one_link_layer
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("victim", [SERVER, CLIENT], ids=["server", "client"])
def test_interrupted(device, victim, number):
    """^C and kill, which end these programs at once, too."""
    stop(start_working(device, "ib_write_bw", *LASTING), victim, number)
    device.expect_idle()
    pingpong(device, "ibv_rc_pingpong", "-c", iters=100)


PINGPONGS = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"]


@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong_killed(device, program):
    """Both sides, asleep in the kernel or about to be, in the middle of an exchange."""
    pair = start_working(device, program, *gid(device.link_layer), "-e", "-n", 10**8)
    for side in random.sample(pair, 2):
        side.send(signal.SIGKILL)
        side.finish(ENDING)
    device.expect_idle()
    pingpong(device, program, "-c", size=2048, iters=100)


@on_one_link_layer
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_asyncwatch(device, number):
    """ibv_asyncwatch opens the device, waits for events, and ends with the signal."""
    watching = device.start("ibv_asyncwatch")
    wait_until(lambda: "simhca0: async event FD" in watching.stdout, TIME_LIMIT, "it waits")
    assert device.objects()["contexts"] == 1
    watching.send(number)
    result = watching.finish(ENDING)
    assert result.status == -number and result.stdout.count("\n") == 1, result
    device.expect_idle()


@on_one_link_layer
def test_stopped_and_continued(device):
    """
    SIGSTOP for longer than all retries of the peer: its requests are served meanwhile. Judged by
    what the port has served, not by the client's CPU time: it yields while it polls, and beside
    others' work gets next to none.
    """
    def served():
        counter = "/sys/class/infiniband/simhca0/ports/1/hw_counters/rx_write_requests"
        return int(expect_success(device.run("cat", counter)).stdout)

    pair = start_working(device, "ib_write_bw", *LASTING)
    pair[SERVER].send(signal.SIGSTOP)
    time.sleep(ALL_RETRIES)
    before = served()
    wait_until(lambda: not pair[CLIENT].running or served() - before > 10 * QUEUED, TIME_LIMIT,
               "requests of a time when the server was stopped are served")
    assert pair[CLIENT].running, pair[CLIENT].result()
    pair[SERVER].send(signal.SIGCONT)


class Footprint:
    """What the daemon holds of the kernel's."""

    def __init__(self, pid):
        proc = pathlib.Path("/proc", str(pid))
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        # Without RssFile: the pages of programs and libraries, which the kernel takes back and
        # brings again as it likes.
        self.anon = int(status["RssAnon"].split()[0])  # KiB
        self.shared = int(status["RssShmem"].split()[0])  # KiB
        self.threads = int(status["Threads"])
        self.fds = len(os.listdir(proc / "fd"))
        self.maps = len((proc / "maps").read_text().splitlines())

    def __repr__(self):
        return (f"RssAnon {self.anon} KiB, RssShmem {self.shared} KiB, {self.threads} threads, "
                f"{self.fds} descriptors, {self.maps} mappings")


@pytest.mark.parametrize("link_layer", ONE_LINK_LAYER)
def test_killed_again_and_again(link_layer):
    """
    A perftest client is killed 5 times (SIMHCA_SOAK=1: 200 times) beside a pair that goes on
    undisturbed. After some kills to warm up, the daemon's memory, descriptors and mappings do
    not grow with the kills.
    """
    # RssShmem is the device's tables, of which new handles touch a page for each two programs
    # or so until all have been used once; 1 MiB has room for those of 400 kills. RssAnon has as
    # much for what allocators need to settle, and threads that come when they are needed. A
    # mapping that each kill leaves behind is one too many.
    with Device(link_layer) as device:
        undisturbed = start_working(device, "ib_send_bw", *LASTING[:1], "--run_infinitely", "-D", 2)
        alone = device.objects()
        pid = device.pid

        def kill():
            stop(start_working(device, "ib_write_bw", *LASTING, "-q", 4), CLIENT, signal.SIGKILL)
            device.expect_objects(alone)
            return Footprint(pid)

        warm_up = [kill() for _ in range(STEADY)]
        while any(one.maps < warm_up[-1].maps for one in warm_up[-STEADY:]):
            assert len(warm_up) < WARM_UP, warm_up
            warm_up.append(kill())
        early = warm_up[-1]
        for _ in range(KILLS):
            kill()
        # The connection of our last question may still be closing.
        wait_until(lambda: Footprint(pid).fds <= early.fds, 10, f"descriptors are {early.fds} again")
        late = Footprint(pid)
        growth = f"after {len(warm_up)} kills {early}, after {KILLS} more {late}"
        assert late.anon <= early.anon + 1024, growth
        assert late.shared <= early.shared + 1024, growth
        assert late.threads < early.threads + KILLS, growth
        assert late.maps - early.maps < KILLS, growth
        assert all(program.running for program in undisturbed), undisturbed[0].result()
        pingpong(device, "ibv_rc_pingpong", "-e", "-c")
        device.kill_programs()
        device.expect_idle()
        assert device.pid == pid
