# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A program's name is its own business, and reaches no terminal as it is: terminals obey."""
import os
import shutil
import sys

import pytest

from common import HERE, TIME_LIMIT, SIMHCA, Device, expect_success, new_port, wait_until

NAME = "\x1b]0;x\x07\x1b[31m"  # sets the title, and the colour
SHOWN = "?]0;x??[31m"
# Fails, and then waits with what it has.
PROGRAM = """
import sys, time
sys.argv[1:] = ["fine"]
import failing
failing.past_end()
from pair import Pair
pair = Pair()
pair.send(1, failing.e.IBV_WR_SEND)
print("waits", flush=True)
time.sleep(1000)
"""
WORDS = ["status", "qp", "cq", "mr", "cm", "stat", "stat --qps", "stat --prometheus", "top -b -n 1", "top -b -n 1 --qps",
         "explain", "explain --diagram", "explain --mermaid", "explain --svg /dev/stdout", "explain --lint",
         *(f"{word} --json" for word in ("status", "qp", "cm", "stat", "explain"))]


def expect_plain(text):
    """Nothing in it is for a terminal to act on."""
    assert all(c == "\n" or c.isprintable() for c in text), ascii(text)


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    names = tmp_path_factory.mktemp("names")
    for program in sys.executable, shutil.which("rping"):
        where = names / os.path.basename(program)
        where.mkdir()
        os.symlink(program, where / NAME)
    port = new_port()
    log = names / "log"
    with Device("ethernet", "--log-level=debug", "--daemon-option", f"log-file={log}") as device:
        device.log = log
        device.start(names / "rping" / NAME, "-s", "-p", port)
        program = device.start(names / os.path.basename(sys.executable) / NAME, "-c", PROGRAM)
        wait_until(lambda: "waits" in program.stdout, TIME_LIMIT, program)
        wait_until(lambda: SHOWN in device.run(SIMHCA, "cm").stdout, TIME_LIMIT, "rping")
        yield device


@pytest.mark.parametrize("words", WORDS)
def test_commands(device, words):
    shown = expect_success(device.run(SIMHCA, *words.split()))
    expect_plain(shown.stdout + shown.stderr)
    if "--mermaid" not in words and "lint" not in words:
        assert SHOWN in shown.stdout


def test_log(device):
    text = device.log.read_text()
    expect_plain(text)
    assert SHOWN in text


def test_run(launcher, tmp_path):
    """A line, a story, lint; and the names of interfaces in a capture."""
    os.symlink(sys.executable, tmp_path / NAME)
    capture = tmp_path / "capture"
    for option in ("--private", "--explain", "--lint", f"--trace={capture}"):
        result = launcher.run(SIMHCA, "run", *dict.fromkeys(["--private", option]), "--", tmp_path / NAME,
                              HERE / "failing.py", "past_end")
        expect_plain(expect_success(result).stderr)
        assert option != "--explain" or SHOWN in result.stderr
    assert SHOWN.encode() in capture.read_bytes() and NAME.encode() not in capture.read_bytes()
