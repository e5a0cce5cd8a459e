# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`--lint`: each kind is told of a program that has it, and not of one that has not."""
import json
import re

import pytest

from common import HERE, SIMHCA, Device, expect_success, wait_until

PYTHON = "/usr/bin/python3"
LEGAL = HERE / "legal.py"
KINDS = {
    "never_polled": r"CQ \d+: it holds 1 completion, and was never polled",
    "late_receive": r"QP 0x\w+: a message came before any receive was posted, .*",
    "rnr": r"QP 0x\w+: \d+ RNR NAKs of its peer have cost \d+ us of waiting",
    "registrations": r"42 regions were registered for 40 messages",
    "cq_size": r"CQ \d+: (\d+) of its \d+ entries were in use at once, and its QPs may post \d+",
    "unsignaled": r"QP 0x\w+: (\d+) sends in a row had no completion, and its queue takes \1",
    "unused_access": r"MR 0x\w+, 4096 bytes: REMOTE_READ was never used",
    "unused_qp": r"QP 0x\w+ was in RTS, and nobody used it",
    "not_destroyed": r"at its end it had 2 QPs, 1 CQ, 1 MR, 1 PD",
}


def lint(launcher, *arguments):
    """{kind: text} of a program that has run."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--lint", "--", PYTHON, LEGAL,
                                         *arguments))
    lines = result.stderr.splitlines()
    notes = [re.fullmatch(r"lint: python3\[\d+\], (\w+): (.*?)( \(and \d+ more\))?", line)
             for line in lines[::2]]
    assert all(line.startswith("  try:        ") and len(line) > 20 for line in lines[1::2])
    return {note.group(1): note.group(2) for note in notes}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(launcher, kind):
    assert re.fullmatch(KINDS[kind], lint(launcher, kind)[kind])
    assert kind not in lint(launcher, kind, "good")


def test_a_program_that_runs(launcher):
    """It is looked at when somebody asks; and nothing is said unasked."""
    with Device("ethernet") as device:
        program = device.start(PYTHON, HERE / "queues.py")
        wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made its queues")
        text = expect_success(device.run(SIMHCA, "explain", "--lint")).stdout
        assert f"lint: python3[{program.pid}], " in text
        report = json.loads(expect_success(device.run(SIMHCA, "explain", "--lint", "--json")).stdout)
        kinds = {note["kind"] for note in report["lint"]["notes"]}
        assert "never_polled" in kinds and "not_destroyed" not in kinds
        assert report["lint"]["live"] == 1
        assert "lint:" not in expect_success(device.run(SIMHCA, "explain")).stdout
        program.kill()
    assert "lint:" not in expect_success(launcher.run(SIMHCA, "run", "--private", "--", PYTHON, LEGAL,
                                                      "unused_qp")).stderr


@pytest.mark.parametrize("before, inside", [({}, "on"), ({"SIMHCA_POISON_WC": "off"}, "off")])
def test_failed_completions_are_poisoned(launcher, before, inside):
    """Unless somebody has said otherwise."""
    result = launcher.run(SIMHCA, "run", "--private", "--lint", "--", "sh", "-c",
                          "echo $SIMHCA_POISON_WC", **before)
    assert result.stdout == inside + "\n", result
