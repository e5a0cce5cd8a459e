# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Each subcommand of the tool as a person uses it, in a terminal, and as a script does, in a pipe: what it
prints, and its exit status. tests/tools has what needs no device.
"""
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from common import HERE, TIME_LIMIT, SIMHCA, Device, expect_success, is_listened_on, new_port, wait_until

PYTHON = "/usr/bin/python3"

# What tells of the programs of `busy`: {words: what has to be seen}.
TELLERS = {
    ("status",): "ibv_srq_pingpon", ("qp",): "ibv_srq_pingpon", ("cq",): "ibv_srq_pingpon", ("srq",): "ibv_srq_pingpon",
    ("mr",): "ibv_srq_pingpon", ("cm",): "rping", ("stat",): "ibv_srq_pingpon", ("top", "-n", "1"): "ibv_srq_pingpon",
    ("explain",): "KEY_PAST_END", ("inject", "list"): "drop program=nobody",
}
SILENT = {("wire",): "no device has an address on the wire"}  # for want of --wire roce
GO_ON = {("top",): "PROGRAM ", ("explain", "--follow"): "KEY_PAST_END", ("trace", "--write", "FILE"): ""}


def named(words):
    return "-".join(word.strip("-") for word in words)


@pytest.fixture(scope="module")
def busy():
    """A daemon that has something to tell: who waits, who listens, what has failed, and a rule."""
    with Device("ethernet") as device:
        ports = new_port(), new_port()
        device.start("ibv_srq_pingpong", "-p", ports[0])
        device.start("rping", "-s", "-p", ports[1])
        expect_success(device.run(PYTHON, HERE / "failing.py", "past_end"))
        expect_success(device.tool.run(SIMHCA, "inject", "add", "drop program=nobody"))
        wait_until(lambda: is_listened_on(ports[0]), TIME_LIMIT, "ibv_srq_pingpong waits")
        wait_until(lambda: "LISTEN" in device.tool.run(SIMHCA, "cm").stdout, TIME_LIMIT, "rping listens")
        yield device


def in_terminal(device, *words, until=None, then=None):
    """
    What it writes to a terminal, which is its standard input, too, and its exit status. As soon as it
    has written until, then(process) is called.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen([SIMHCA, *map(str, words)], env=device.tool.env | {"TERM": "xterm"}, stdin=theirs,
                               stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    text, end = "", time.monotonic() + TIME_LIMIT
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    text += os.read(ours, 65536).decode()
                except OSError:  # nobody has its end open
                    return text, process.wait(TIME_LIMIT)
            if then and until in text:
                then(process)
                then = None
        raise AssertionError(f"{words} goes on: {text}")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("words", TELLERS | SILENT, ids=named)
def test_in_a_pipe(busy, words):
    """Plain text, and nothing else."""
    result = expect_success(busy.tool.run(SIMHCA, *words))
    assert (TELLERS | SILENT)[words] in result.stdout and "\x1b" not in result.stdout and not result.stderr, result


@pytest.mark.parametrize("words", TELLERS | SILENT, ids=named)
def test_in_a_terminal(busy, words):
    text, status = in_terminal(busy, *words)
    assert status == 0 and (TELLERS | SILENT)[words] in text, text


@pytest.mark.parametrize("words", TELLERS | SILENT, ids=named)
def test_json(busy, words):
    """One value, in which is what the text tells."""
    result = expect_success(busy.tool.run(SIMHCA, *words, "--json"))
    assert json.loads(result.stdout) is not None and not result.stderr, result
    assert words in SILENT or TELLERS[words] in result.stdout, result


@pytest.mark.parametrize("words", [*TELLERS, *SILENT, *GO_ON], ids=named)
def test_without_a_daemon(launcher, tmp_path, words):
    """A line that says so, and 1."""
    words = [tmp_path / "file" if word == "FILE" else word for word in words]
    result = launcher.run(SIMHCA, *words, SIMHCA_RUNTIME_DIR=str(tmp_path))
    assert result.status == 1 and not result.stdout and result.stderr.count("\n") == 1, result
    assert str(tmp_path) in result.stderr, result


@pytest.mark.parametrize("words", GO_ON, ids=named)
def test_goes_on_in_a_terminal(busy, tmp_path, words):
    """Until it is interrupted, which is no failure but of who waits for failures."""
    argv = [tmp_path / "file" if word == "FILE" else word for word in words]

    def interrupt(process):
        if words[0] == "trace":
            wait_for_trace(argv[-1])
        process.send_signal(signal.SIGINT)

    text, status = in_terminal(busy, *argv, until=GO_ON[words], then=interrupt)
    assert status == (-signal.SIGINT if words[0] == "explain" else 0), text


def wait_for_trace(path):
    """It is silent; there is a file when it has begun."""
    wait_until(lambda: path.exists() and path.stat().st_size, TIME_LIMIT, "it has begun")


@pytest.mark.parametrize("words", GO_ON, ids=named)
def test_the_daemon_ends(tmp_path, words):
    """Those who look on say so, and fail; a trace is whole."""
    argv = [tmp_path / "file" if word == "FILE" else word for word in words]
    with Device("ethernet") as device:
        going = device.start(SIMHCA, *argv, **{"SIMHCA_RUNTIME_DIR": device.directory})
        if words[0] == "trace":
            wait_for_trace(argv[-1])
        else:
            wait_until(lambda: going.stdout or words[0] == "explain", TIME_LIMIT, "it has begun")
        expect_success(device.tool.run(SIMHCA, "stop"))
        result = going.finish()
        assert result.status == (0 if words[0] == "trace" else 1), result
        assert "\x1b" not in result.stdout, result


@pytest.mark.parametrize("words", [*TELLERS, ("env",)], ids=named)
def test_no_room(busy, words):
    """What could not be printed was not done, and is said once."""
    full = busy.run("sh", "-c", f"exec {SIMHCA} {' '.join(words)} > /dev/full")
    assert full.status == 1
    assert full.stderr == f"simhca {words[0]}: standard output: No space left on device\n"


def test_run_leaves_signals_alone(busy):
    """A command that writes more than `ulimit -f` lets it gets SIGXFSZ as ever."""
    ignored = expect_success(busy.run("sh", "-c", "grep SigIgn /proc/self/status")).stdout
    result = busy.run(SIMHCA, "run", "--", "grep", "SigIgn", "/proc/self/status")
    assert expect_success(result).stdout == ignored


def test_run_has_the_terminal(busy):
    """The command's own streams are those of simhca run."""
    command = ["run", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2"]
    assert in_terminal(busy, *command)[1] == 0
    assert busy.tool.run(SIMHCA, *command).status == 1


@pytest.mark.parametrize("command, status", [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 128 + 9),
                                             (["/nowhere/to/be/found"], 127), (["/etc/passwd"], 126)])
@pytest.mark.parametrize("how", [["run"], ["trace", "--write", "/dev/null"]], ids=["run", "trace"])
def test_status_of_a_command(busy, how, command, status):
    assert busy.tool.run(SIMHCA, *how, "--", *command).status == status
    assert in_terminal(busy, *how, "--", *command)[1] == status


def test_start_and_stop(tmp_path, launcher):
    """What runs already, or no longer, is no failure."""
    class Tool:
        tool = type(launcher)(env=launcher.env | {"SIMHCA_RUNTIME_DIR": str(tmp_path)})

    os.chmod(tmp_path, 0o700)
    try:
        for _ in range(2):
            text, status = in_terminal(Tool, "start")
            assert status == 0, text
        assert in_terminal(Tool, "env")[0].count("SIMHCA_RUNTIME_DIR") == 1
    finally:
        for _ in range(2):
            text, status = in_terminal(Tool, "stop")
            assert status == 0, text
