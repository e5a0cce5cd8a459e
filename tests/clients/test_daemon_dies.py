# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The daemon is killed: the hardware is gone. Programs get errors and end; none waits for ever.

ib_write_lat is not among them: it waits for a change of its own memory, and calls nothing that
could tell it.
"""
import json
import os
import signal
import time

import pytest

from common import ENDING, TIME_LIMIT, SIMHCA, Device, expect_success, gid, pingpong
from common import start_pair, start_working, wait_until
from link_layers import ONE_LINK_LAYER

pytestmark = pytest.mark.parametrize("link_layer", ONE_LINK_LAYER)

FOR_EVER = 10**8

PAIRS = {
    "write": ["ib_write_bw", "-F", "-D", 100],
    "read": ["ib_read_bw", "-F", "-D", 100],
    "read-lat-e": ["ib_read_lat", "-F", "-e", "-n", 10**6],
    "send": ["ib_send_bw", "-F", "-D", 100],
    "send-b": ["ib_send_bw", "-F", "-D", 100, "-b"],
    "send-e": ["ib_send_bw", "-F", "-e", "-N", "-n", FOR_EVER],
    "send-lat": ["ib_send_lat", "-F", "-n", 10**6],
    "send-srq": ["ib_send_bw", "-F", "-D", 100, "--use-srq", "-q", 4],
    "send-srq-b": ["ib_send_bw", "-F", "-D", 100, "--use-srq", "-q", 4, "-b"],
    "atomic": ["ib_atomic_bw", "-F", "-D", 100],
    "pingpong-rc": ["ibv_rc_pingpong", "-n", FOR_EVER],
    "pingpong-rc-e": ["ibv_rc_pingpong", "-e", "-n", FOR_EVER],
    "pingpong-uc-e": ["ibv_uc_pingpong", "-e", "-n", FOR_EVER],
    "pingpong-ud-e": ["ibv_ud_pingpong", "-e", "-n", FOR_EVER],
    "pingpong-srq": ["ibv_srq_pingpong", "-n", FOR_EVER],
    "pingpong-srq-e": ["ibv_srq_pingpong", "-e", "-n", FOR_EVER],
}


def start_pairs(device, *pairs):
    programs = []
    for argv in pairs:
        flags = gid(device.link_layer) if "pingpong" in argv[0] else []
        programs += start_working(device, *argv, *flags)
    return programs


def expect_failure(program):
    result = program.finish(ENDING)
    assert result.status > 0, f"has not failed, or died: {result}"


@pytest.mark.parametrize("argv", PAIRS.values(), ids=PAIRS)
def test_one_pair(link_layer, argv):
    """Each way of waiting for the device ends with an error, and a new daemon serves again."""
    with Device(link_layer) as device:
        programs = start_pairs(device, argv)
        os.kill(device.pid, signal.SIGKILL)
        for program in programs:
            expect_failure(program)
        device.start_daemon()
        pingpong(device, "ibv_rc_pingpong", "-c", iters=100)
        device.expect_idle()


def test_all_at_once(link_layer):
    """Under load of several programs."""
    with Device(link_layer) as device:
        programs = start_pairs(device, PAIRS["pingpong-rc-e"], PAIRS["write"], PAIRS["send-b"])
        os.kill(device.pid, signal.SIGKILL)
        for program in programs:
            expect_failure(program)


def test_asyncwatch(link_layer):
    """ibv_asyncwatch is told that the device is gone."""
    with Device(link_layer) as device:
        watching = device.start("ibv_asyncwatch")
        wait_until(lambda: "async event FD" in watching.stdout, TIME_LIMIT, "it waits")
        os.kill(device.pid, signal.SIGKILL)
        wait_until(lambda: "event_type IBV_EVENT_DEVICE_FATAL (8)" in watching.stdout, ENDING,
                   "the event")


def test_no_daemon(link_layer):
    """A program that starts after the daemon's end finds no device that it could open."""
    with Device(link_layer) as device:
        os.kill(device.pid, signal.SIGKILL)
        for argv in ["ibv_rc_pingpong"], ["ib_send_bw"], ["ibv_devinfo"]:
            assert device.run(*argv).status > 0


def test_simhca_run_says_so(launcher, link_layer):
    """Below simhca run, one line tells why the program has failed."""
    run = launcher.start(SIMHCA, "run", "--private", f"--link-layer={link_layer}", "--",
                         "sh", "-c", "echo $SIMHCA_RUNTIME_DIR; exec ibv_asyncwatch")
    wait_until(lambda: "async event FD" in run.stdout, TIME_LIMIT, "it waits")
    status = launcher.run(SIMHCA, "status", "--json", "--runtime-dir", run.stdout.split()[0])
    os.kill(json.loads(expect_success(status).stdout)["pid"], signal.SIGKILL)
    gone = "has ended before its command; the device is gone\n"
    wait_until(lambda: gone in run.stderr, ENDING, "the message")
    run.send(signal.SIGTERM)
    assert run.finish(ENDING).status == 128 + signal.SIGTERM


def test_stopped_daemon(link_layer):
    """SIGSTOP for a while is a slow device, not a broken one: all goes on afterwards."""
    with Device(link_layer) as device:
        pid = device.pid
        flags = gid(link_layer)
        pairs = [start_pair(device, "ibv_rc_pingpong", *flags, "-e", "-c", "-n", 20000),
                 start_pair(device, "ib_write_bw", "-F", "-n", 20000)]
        for _ in range(5):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
        for program in sum(pairs, ()):
            expect_success(program.finish())
        device.expect_idle()
