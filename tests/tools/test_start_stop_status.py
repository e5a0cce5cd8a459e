# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A daemon that stays, and what can be seen of it."""

import contextlib
import json
import os
import signal
import time

import pytest

from common import alive, wait_until


@pytest.fixture
def started(tool):
    assert tool("start").returncode == 0
    yield tool
    tool("stop")


def test_start_and_stop(tool):
    assert tool("status").returncode == 1
    result = tool("start")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    pid = tool.daemon_pid()
    assert alive(pid)
    result = tool("stop")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not alive(pid)


def test_start_holds_no_descriptor(tool):
    """Output that is captured ends, though the daemon stays."""
    process = tool.start("start")
    assert process.communicate(timeout=10) == ("", "")
    assert tool.daemon_lives()
    tool("stop")


def test_start_twice(started):
    pid = started.daemon_pid()
    result = started("start")
    assert result.returncode == 0 and "already" in result.stderr and str(pid) in result.stderr
    assert started.daemon_pid() == pid
    result = started("start", "--mtu", "512")
    assert result.returncode == 1 and "mtu=512" in result.stderr
    assert "--private" not in result.stderr  # start has no such option


def test_start_does_not_take_a_captive_daemon_for_its_own(tool):
    tool.start("run", "sleep", "60")
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    result = tool("start")
    assert result.returncode == 1 and "simhca run" in result.stderr


def test_start_fails(tool):
    result = tool("start", FAKE_FAIL=1)
    assert result.returncode == 1 and result.stderr == "simhcad: the moon is in the wrong phase\n"


def test_run_joins_and_leaves_it(started):
    pid = started.daemon_pid()
    result = started("run", "cat", started.runtime / "pid")
    assert result.returncode == 0 and int(result.stdout) == pid
    assert alive(pid)


def test_stop_waits(tool):
    tool("start", FAKE_END_DELAY=1)
    pid = tool.daemon_pid()
    before = time.monotonic()
    assert tool("stop").returncode == 0
    assert time.monotonic() - before >= 0.9 and not alive(pid)


def test_stop_when_none_runs(tool):
    result = tool("stop")
    assert result.returncode == 0 and "no daemon runs in" in result.stderr


def test_stop_is_refused(tool):
    tool.start("run", "sleep", "60", FAKE_REFUSE_STOP=1)
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    result = tool("stop")
    assert result.returncode == 1 and "not today" in result.stderr


def test_stop_without_answer(tool):
    process = tool.start("run", "true", FAKE_MUTE=1)
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    result = tool("stop")
    assert result.returncode == 1 and "kill -9" in result.stderr
    process.kill()


def test_status_text(started):
    result = started("status")
    assert result.returncode == 0
    head, empty, device, *rest = result.stdout.splitlines()
    assert f"pid {started.daemon_pid()}" in head and str(started.runtime) in head and not empty
    assert device.startswith("simhca0: Ethernet, ACTIVE, netdev lo, mtu 4096")
    table = [line.split() for line in rest if not line.startswith("  GID")]
    assert table[0] == "CONTEXT PID PROGRAM MEMORY PDS MRS MWS CQS QPS CARRIED SRQS AHS XRCDS DMS".split()
    assert table[1] == "7 4242 pingpong agent 1 2 0 3 4 3 0 5 6 7".split()
    assert table[2] == "1 - in all - 1 2 0 3 4 3 0 5 6 7".split()


def test_status_json(started):
    result = started("status", "--json")
    report = json.loads(result.stdout)
    assert report["pid"] == started.daemon_pid()
    assert report["devices"][0]["context"][0]["counts"]["ahs"] == 5


def test_daemon_of_another_release(tool):
    """Its protocol is another version's: nothing that it says is taken for what it was."""
    later = tool.control_version + 1
    assert tool("start", FAKE_VERSION=later).returncode == 1
    result = tool("status", FAKE_VERSION=later)
    tool("stop")
    with contextlib.suppress(ProcessLookupError):  # it is a zombie, or nothing, if it has ended
        os.kill(tool.daemon_pid(), signal.SIGTERM)
    assert result.returncode == 1
    assert f"it speaks version {later} of the protocol, and this tool version {tool.control_version}" in result.stderr


def test_a_daemon_says_what_it_likes(tool):
    """No control character of it reaches a terminal."""
    evil = "\033]0;x\a\033[31m\x9b31m"
    tool.start("run", "sleep", "60", FAKE_COMM=evil, FAKE_REFUSE_STOP=1, FAKE_REFUSAL=evil)
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    for words in ["status"], ["status", "--json"], ["stop"], ["qp"]:
        result = tool(*words)
        assert all(c == "\n" or c.isprintable() for c in result.stdout + result.stderr), result
    assert "?]0;x??[31m" in tool("status").stdout and "?]0;x??[31m" in tool("stop").stderr


@pytest.mark.parametrize("name", ["status", "stop"])
def test_nobody_behind_the_socket(started, name):
    """A daemon that was killed leaves its socket."""
    os.kill(started.daemon_pid(), signal.SIGKILL)
    wait_until(lambda: not started.daemon_lives(), 10, "the daemon has ended")
    assert "no daemon runs" in started(name).stderr
    assert started("start").returncode == 0
